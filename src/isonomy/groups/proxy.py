"""Groups known only by probability, in `flag` and `adverse_impact`: a verdict only where the whole assumption agrees.

The share gamma of a disparity that remains among people with the same probabilities cannot be learned from the rows. An
assumption is one value of it, or a range: the p-value is then the largest over the range, the interval the union of all
intervals. Names within places, bounds without an assumption, and known rows that correct the estimate stand beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np

from isonomy.errors import NotEnoughData, UsageError, refuse_percent, require_ratio
from isonomy.frames import Group, Source
from isonomy.frames.metrics import ERRORS, Measure, Metric, listed, measure
from isonomy.frames.proxies import GRID, PowerSums, Proxy, ProxyRows, read_proxies
from isonomy.groups import proxy_words as words
from isonomy.groups.likelihood import proxies as estimators
from isonomy.groups.likelihood.means import IDENTITY, LINKS, LOG, Link
from isonomy.groups.likelihood.proxies import POPULATION, REST, Estimator, Family
from isonomy.groups.options import NO_DIFFERENCE, To, reference_of
from isonomy.inference import Verdict, conclude, inside, rejected
from isonomy.inference.designs import DesignEffect
from isonomy.inference.effect import Effect, Fieller, Hypothesis, Limits, Wald, too_skewed
from isonomy.inference.multiplicity import adjust as adjust_pvalues
from isonomy.numerics.arrays import BoolArray, FloatArray, ObjectArray
from isonomy.numerics.roots import bisection
from isonomy.numerics.status import Status
from isonomy.numerics.tails import normal_isf, normal_sf
from isonomy.results import Columns, Evidence, Movement, Note, Plan, Provenance, column, note_if, phrases
from isonomy.results.evidence import as_frame

FEWEST_DF = 9.0  # degrees of freedom below which a variance rests on fewer than ten effective rows or clusters
FEWEST_KNOWN = 20  # known members below which a validated estimate misses its level
BINS = 10  # of `calibration`
CONSTANT = 1e-11  # the spread of values, relative to their mean, that is due to rounding
TESTED = (Status.OK, Status.UNBOUNDED)
# What options may be, if groups are known by probability; None always.
ALLOWED: Mapping[str, tuple[object, ...]] = {
    "given": (),
    "null": (NO_DIFFERENCE,),
    "depth": (1,),
    "method": ("el",),
    "scale": ("difference", "ratio"),
    "adjust": ("bh", "by", "holm", "bonferroni", "none"),
    "smallest_share": (0.0,),
}


# ---- plan


@dataclass(frozen=True, eq=False, kw_only=True)
class ProxyPlan(Plan):
    """What both questions need to know. ``reference`` is the number of a group, POPULATION or REST."""

    proxy: Proxy
    measure: Measure
    reference: int
    link: Link
    tolerance: float | None
    alpha: float
    adjust: str
    min_size: int
    lower: bool  # lower values are better
    threshold: float | None = None  # of impact ratios

    def __post_init__(self) -> None:
        self.proxy.check(self.source)
        if self.proxy.assumption == "nothing":
            if not self.measure.binary or self.link.ratio:
                raise UsageError(
                    'assume: "nothing" bounds differences of 0/1 metrics; a ratio, or a metric without known limits, '
                    "has no bounds."
                )
            if self.reference == REST:
                raise UsageError('assume: "nothing" compares with the population or with one group, not with "rest".')

    @property
    def groups(self) -> tuple[Group, ...]:
        return self.source.labels.named([Group(((self.proxy.name, label),)) for label in self.proxy.groups])

    @property
    def against(self) -> str:
        everybody = self.source.labels.population or "the population"
        if self.reference >= 0:
            return str(self.groups[self.reference])
        return everybody if self.reference == POPULATION else f"the rest of {everybody}"

    @property
    def hypothesis(self) -> Hypothesis:
        if self.tolerance is None:
            return Hypothesis(self.link.equal, self.link.equal, "two-sided")
        low, high = (self.tolerance, 1.0 / self.tolerance) if self.link.ratio else (-self.tolerance, self.tolerance)
        return Hypothesis(low, high, "outside")

    @property
    def unequal(self) -> str:
        """ "weighted" for a share of 0, "linear" for 1: each can show only one side of a tolerance."""
        return "weighted" if self.proxy.shares == (0.0,) else "linear" if self.proxy.shares == (1.0,) else ""


def plan_by_proxy(source: Source, proxy: Proxy, options: Mapping[str, Any], **chosen: Any) -> ProxyPlan:
    for name, allowed in ALLOWED.items():
        if (value := options.get(name)) is not None and not (allowed and value in allowed):
            raise UsageError(
                f"{name}: {value!r} is not available with groups=iso.proxy({proxy.name!r}, ...); leave it out."
            )
    target = reference_of(options["reference"], joint=True)
    levels = {} if target.group is None else dict(target.group.items)
    label = str(levels.get(proxy.name))
    if target.to in (To.POPULATION, To.REST):
        reference = POPULATION if target.to is To.POPULATION else REST
    elif len(levels) == 1 and label in proxy.groups:
        reference = proxy.groups.index(label)
    else:
        raise UsageError(
            f"reference: {options['reference']!r} is not available with iso.proxy; name one group, such as "
            f"{{{proxy.name!r}: {proxy.groups[0]!r}}}. Groups: {', '.join(proxy.groups)}."
        )
    shared = {name: options[name] for name in ("alpha", "adjust", "min_size")}
    return ProxyPlan(source, proxy=proxy, reference=reference, **shared, **chosen)


def flag_by_proxy(source: Source, proxy: Proxy, options: Mapping[str, Any]) -> ProxyPlan:
    metrics, tolerance, link = listed(options["metric"]), options["tolerance"], LINKS.get(options["scale"], IDENTITY)
    if len(metrics) > 1:
        raise UsageError(f"metric: several metrics are not available with groups=iso.proxy({proxy.name!r}, ...).")
    bound = measure(
        source, metrics[0], **{name: options[name] for name in ("outcome", "prediction", "score", "positive")}
    )
    if bound.functional:
        raise UsageError(f"metric: {bound.name!r} is not available by probability; rates and means are.")
    refuse_percent(bound.binary and not link.ratio, tolerance)
    if link.ratio:
        require_ratio(link.name, tolerance)
    name = metrics[0].name if isinstance(metrics[0], Metric) else metrics[0]
    lower = name in ERRORS if options["better"] is None else options["better"] == "lower"
    return plan_by_proxy(source, proxy, options, measure=bound, link=link, tolerance=tolerance, lower=lower)


def impact_by_proxy(source: Source, proxy: Proxy, options: Mapping[str, Any]) -> ProxyPlan:
    if options["score"] is not None:
        raise UsageError(f"score: not available with groups=iso.proxy({proxy.name!r}, ...); leave it out.")
    if isinstance(options["reference"], str):
        raise UsageError(
            f"reference: {options['reference']!r} is not available with iso.proxy, because nobody knows which group is "
            f"selected most often; name one, such as {{{proxy.name!r}: {proxy.groups[0]!r}}}."
        )
    bound, threshold = measure(source, "selection_rate", prediction=options["prediction"]), options["threshold"]
    chosen = {"measure": bound, "link": LOG, "tolerance": None, "lower": False, "threshold": threshold}
    return plan_by_proxy(source, proxy, options, **chosen)


# ---- estimate


class ProxyPoint(NamedTuple):
    """Means of groups and of their references, and the disparity, at one point of an assumption.

    ``third`` and ``variance`` are those of the difference; ``units`` are rows, clusters or places.
    """

    group: FloatArray
    reference: FloatArray
    effect: Effect
    third: FloatArray
    variance: FloatArray
    units: float


@dataclass(frozen=True, eq=False)
class Answer:
    """The points of an assumption; if nothing is assumed, the ``ends`` of the disparities that are possible."""

    points: tuple[ProxyPoint, ...]
    ends: bool = False

    def pvalue(self, null: Hypothesis) -> FloatArray:
        """The largest p-value of the assumption; 1 if disparities change sign within it."""
        tested = np.array([np.minimum(point.effect.test(null)[1], 1.0) for point in self.points])
        signs = np.array([null.direction(point.effect.value) for point in self.points])
        return np.where((signs == signs[0]).all(0), tested.max(0), 1.0)

    def limits(self, alpha: float) -> Limits:
        effects = [point.effect for point in self.points]
        limits = np.array([effect.limits(alpha) for effect in effects])
        if self.ends:
            # Imbens and Manski (2004): one-sided limits suffice for wide bounds, two-sided ones for a single point.
            with np.errstate(divide="ignore", invalid="ignore"):
                width = (effects[1].value - effects[0].value) / np.max([e.standard_error for e in effects], axis=0)
            least, most = (np.full(width.shape, normal_isf(level, sides="one")) for level in (alpha, alpha / 2.0))
            reach = bisection(
                lambda z: normal_sf(z, sides="one") + normal_sf(z + width, sides="one") > alpha, least, most
            )
            limits = np.array([effect.interval(reach**2) for effect in effects])
        return limits[:, 0].min(0), limits[:, 1].max(0)

    @property
    def values(self) -> FloatArray:
        return np.array([point.effect.value for point in self.points])

    @property
    def df(self) -> FloatArray:
        return np.min([np.asarray(point.effect.df) for point in self.points], axis=0)


def levels_of(plan: ProxyPlan, function: Estimator, means: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The means of groups and references, and the derivatives of their difference (and of both, for ratios)."""
    slopes = estimators.gradient(lambda moved: function(moved).levels(plan.reference), means)
    lines = np.concatenate([slopes[0] - slopes[1], *(slopes if plan.link.ratio else [])])
    return function(means).levels(plan.reference), lines


def point_of(rows: ProxyRows, plan: ProxyPlan, levels: FloatArray, sums: PowerSums) -> ProxyPoint:
    size, variance = rows.size, sums.variance
    (group, reference), df = levels + rows.center, sums.df[:size]
    effect: Effect = Wald(levels[0] - levels[1], np.sqrt(variance[:size]), df)
    if plan.link.ratio:  # the variance of the difference gives the covariance
        top, bottom = variance[size : 2 * size], variance[2 * size :]
        effect = Fieller(group, reference, top, 0.5 * (top + bottom - variance[:size]), bottom, df)
    return ProxyPoint(group, reference, effect, sums.third[:size], variance[:size], sums.units)


def point_within_places(rows: ProxyRows, plan: ProxyPlan) -> ProxyPoint:
    sums, codes = rows.by_place()
    function, features = estimators.within_places(sums)
    levels, lines = levels_of(plan, function, features.sum(0)[None])
    units = np.zeros((int(codes.max()) + 1, len(lines)))  # places, or clusters of places
    np.add.at(units, codes, np.einsum("pkf,lkf->pl", features, lines[:, 0]))
    return point_of(rows, plan, levels, PowerSums(len(units), *((units**power).sum(0) for power in (2, 3, 4))))


def families_of(rows: ProxyRows, plan: ProxyPlan) -> dict[float, Family]:
    """The shares of the assumption, and those of the grid."""
    shares = sorted({*GRID, *plan.proxy.shares})
    families = {gamma: Family(rows.means, gamma, conditional=rows.conditional) for gamma in shares}
    largest = families[1.0].largest
    if shares[-1] > 1.0 and shares[-1] >= largest:
        with np.errstate(divide="ignore", invalid="ignore"):
            weakest = plan.proxy.groups[int(np.nanargmin(families[1.0].identified / rows.means.sum(0)[:, 0]))]
        raise UsageError(
            f"assume: {plan.proxy.assume} is not allowed for these probabilities; shares below {largest:.2f} are (the "
            f"weakest group is {weakest!r}: join it to another to allow more)."
        )
    return families


def calibration(rows: ProxyRows, plan: ProxyPlan) -> dict[str, FloatArray]:
    """Known rows against the probabilities, and what the weighted and linear estimates miss on the same rows."""
    known = estimators.known_means(rows.means)
    families = [Family(known, gamma, conditional=rows.conditional) for gamma in (0.0, 1.0)]
    check = partial(estimators.checks, families=families, reference=plan.reference)
    values, slopes = check(rows.means), estimators.gradient(check, rows.means)
    (sums,) = rows.spread([slopes.reshape(-1, *rows.means.shape)], known=True)
    error = np.sqrt(sums.variance).reshape(values.shape)
    columns = [rows.rows[1:], known[1:, :, 0].sum(1), known.sum(0)[:, 0]]
    columns += [column for pair in zip(values, error, strict=True) for column in pair]
    return {"checks": np.array(columns), "bins": rows.known_by_bin(BINS)}


def estimate(rows: ProxyRows, plan: ProxyPlan) -> tuple[dict[str, Any], Answer, Answer]:
    """The columns both questions share, the answer under the assumption, and that of the bracket."""
    proxy, kind, total = plan.proxy, plan.proxy.assumption, float(rows.rows.sum())
    share, _, _, cross = estimators.everybody(rows.means)
    families, some_known = families_of(rows, plan), bool(rows.rows[1:].any())
    if proxy.random and not some_known:
        raise NotEnoughData(f"known: {proxy.known!r} has no row with a group.")
    functions: dict[float | str, Estimator] = {gamma: family.totals for gamma, family in families.items()}
    functions |= {"validated": estimators.validated(rows)} if proxy.random else {}
    solved = [levels_of(plan, function, rows.means) for function in functions.values()]
    sums = rows.spread([lines for _, lines in solved])  # in one pass over the rows
    numbers = zip(functions, solved, sums, strict=True)
    points = {name: point_of(rows, plan, levels, part) for name, (levels, _), part in numbers}
    bracket = Answer(tuple(points[gamma] for gamma in GRID))
    if proxy.shares:
        answer = Answer(tuple(points[gamma] for gamma in proxy.shares))
    elif kind == "nothing":
        # More bins than a hundredth of the rows would narrow the bounds by noise.
        ends, spread = rows.bounds(int(min(100.0, max(5.0, total // 100))), plan.reference)
        errors, fewest = np.sqrt(spread.variance).reshape(ends.shape), spread.df.reshape(ends.shape).min(0)
        bounds = (Wald(end, error, fewest) for end, error in zip(ends, errors, strict=True))
        answer = Answer(tuple(points[0.0]._replace(effect=bound) for bound in bounds), ends=True)
    else:
        answer = Answer((point_within_places(rows, plan) if kind == "names" else points["validated"],))
    first, identified = answer.points[0], {gamma: total * family.identified for gamma, family in families.items()}
    telling = identified[max(proxy.shares, default=1.0)]
    status = statuses(rows, plan, answer, telling)
    tested = np.isin(status, TESTED)
    idle = np.array([number < plan.min_size for number in identified.values()])
    idle |= np.isin(status, (Status.REFERENCE, Status.EMPTY))
    curves = [
        [alone.values[0], *alone.limits(plan.alpha), alone.pvalue(plan.hypothesis)]
        for alone in (Answer((points[gamma],)) for gamma in families)
    ]
    low, high = (np.where(tested, end, np.nan) for end in answer.limits(plan.alpha))

    def disparity(point: ProxyPoint) -> FloatArray:
        compared = plan.link.compared(point.group, point.reference)
        return np.where(np.arange(rows.size) == plan.reference, plan.link.equal, compared)

    with np.errstate(divide="ignore", invalid="ignore"):
        quality = (np.diag(cross) - share**2) / (share * (1.0 - share))
    design = DesignEffect(np.full(rows.size, np.nan), np.full(rows.size, first.units), answer.df + 1.0)
    columns: dict[str, Any] = {
        "groups": plan.groups,
        "expected": total * share,
        "identified": telling,
        "quality": quality,
        "estimate": np.where(share > 0, first.group, np.nan),
        "disparity": disparity(first),
        "weighted": disparity(points[0.0]),
        "linear": np.where(identified[1.0] < plan.min_size, np.nan, disparity(points[1.0])),
        "low": np.where(tested, answer.values.min(0), np.nan),
        "high": np.where(tested, answer.values.max(0), np.nan),
        "ci_low": np.maximum(low, 0.0) if plan.link.ratio else low,
        "ci_high": high,
        "status": status,
        "tipping": None if rows.conditional or plan.link.ratio else tipping(rows, plan, points[0.0]),
        "design": design if rows.source.designed else None,
        "gammas": tuple(map(float, families)),
        "curves": np.where(idle, np.nan, np.array(curves).transpose(1, 0, 2)),
        "assumed": kind,
        "assumed_gammas": proxy.shares,
        "proxy": proxy.name,
        "known_rows": proxy.known_rows or "",
        "alpha": plan.alpha,
        "null": words.null(plan),
        **(calibration(rows, plan) if some_known else {}),
    }
    if proxy.random:
        right, enough = points["validated"], rows.rows[1:] >= FEWEST_KNOWN
        enough = enough & (plan.reference < 0 or enough[plan.reference])
        parts = dict(zip(("", "_low", "_high"), (disparity(right), *right.effect.limits(plan.alpha)), strict=True))
        columns |= {f"validated{end}": np.where(enough, part, np.nan) for end, part in parts.items()}
    return columns, answer, bracket


def tipping(rows: ProxyRows, plan: ProxyPlan, weighted: ProxyPoint) -> FloatArray:
    """How much better a group would have to do than others with the same probabilities, for nothing to be shown."""
    share, _, _, cross = estimators.everybody(rows.means)
    low, high = weighted.effect.limits(plan.alpha)
    with np.errstate(divide="ignore", invalid="ignore"):
        moved = np.eye(rows.size) - cross / share[:, None]  # how a gap of each group moves each mean
        weights = np.diag(moved) - (moved[plan.reference] if plan.reference >= 0 else 0.0)
        if plan.reference == REST:
            weights = weights / (1.0 - share)
        gap = -np.clip(0.0, low, high) / weights  # the limit next to 0
    return np.where(np.arange(rows.size) == plan.reference, np.nan, gap + 0.0)  # no negative zero


def statuses(rows: ProxyRows, plan: ProxyPlan, answer: Answer, identified: FloatArray) -> ObjectArray:
    """Why a group has no verdict, the last reason first; a weak or small reference leaves no group with one."""
    (share, inside, _, _), kind, total = estimators.everybody(rows.means), plan.proxy.assumption, rows.rows.sum()
    tests = 1 if plan.adjust == "none" else rows.size - (plan.reference >= 0)
    # Values that differ by rounding errors only have no variance to judge by.
    least = (CONSTANT * rows.center) ** 2 / total
    with np.errstate(all="ignore"):
        low, high = answer.limits(plan.alpha)
        skewed = [too_skewed(point.third, point.variance, plan.alpha, tests) for point in answer.points]
        reasons = {
            Status.UNBOUNDED: np.isinf(low) | np.isinf(high),
            Status.SKEWED: np.any(skewed, axis=0) & (not plan.measure.binary),
            Status.FEW_CLUSTERS: ~(answer.df >= FEWEST_DF),
            Status.CONSTANT: np.any([point.variance <= least for point in answer.points], axis=0),
            Status.ZERO_BASELINE: ~(answer.points[0].reference > 0) & plan.link.ratio,
        }
    known = (rows.rows[1:] < FEWEST_KNOWN) if kind == "validated" else False
    shared = {
        Status.WEAK_PROXY: (identified < plan.min_size) & (kind not in ("validated", "nothing")),
        Status.TOO_SMALL: (total * inside < plan.min_size) | known,
        Status.EMPTY: share <= 0,
    }
    status = np.full(rows.size, Status.OK, dtype=object)
    for reason, lines in (reasons | shared).items():
        everywhere = reason in shared and plan.reference >= 0 and lines[plan.reference]
        status[lines | everywhere] = reason
    if plan.reference >= 0:
        status[plan.reference] = Status.REFERENCE
    return status


# ---- decide


def decide(
    rows: ProxyRows,
    plan: ProxyPlan,
    columns: Mapping[str, Any],
    null: Hypothesis,
    answers: tuple[Answer, Answer],
    within: BoolArray,
) -> dict[str, Any]:
    """The p-values, the verdicts, and the notes, which also name groups for which a one-sided estimate shows nothing.

    Beyond a limit, the linear estimate shows nothing that the bracket does not; the weighted estimate never shows that
    a group is *within*.
    """
    (answer, bracket), status = answers, columns["status"]
    tested = np.isin(status, TESTED)
    sized = plan.unequal == "linear" and null.alternative != "two-sided"
    alone, pvalue = (np.where(tested, part.pvalue(null), np.nan) for part in (answer, bracket if sized else answer))
    understated = within & (plan.unequal == "weighted")
    adjusted = adjust_pvalues(pvalue, plan.adjust)
    shown = conclude(adjusted, alpha=plan.alpha, within=within & ~understated, concerned=status != Status.REFERENCE)
    overstated = rejected(adjust_pvalues(alone, plan.adjust), plan.alpha) & ~rejected(adjusted, plan.alpha)
    one_sided = {"proxy_weighted_within": understated, "proxy_linear_beyond": overstated}
    return {
        "pvalue": pvalue,
        "adjusted_pvalue": shown.adjusted,
        "verdict": shown.verdict,
        "verdicts": shown.verdicts,
        "notes": notes(rows, plan, columns, one_sided),
    }


def flag_columns(plan: ProxyPlan, record: Callable[..., Provenance]) -> dict[str, Any]:
    rows = read_proxies(plan.source, plan.proxy, plan.measure)
    columns, *answers = estimate(rows, plan)
    tested, size, null, first = np.isin(columns["status"], TESTED), rows.size, plan.hypothesis, answers[0].points[0]
    low, high = (plan.link.delta(columns[name]) for name in ("ci_low", "ci_high"))
    within = tested & inside(low, high, plan.link.reach(plan.tolerance))
    columns |= decide(rows, plan, columns, null, (answers[0], answers[1]), within)
    violated = np.array([verdict is Verdict.VIOLATION for verdict in columns["verdicts"]])
    better = null.direction(columns["disparity"]) * (-1.0 if plan.lower else 1.0)
    blank = np.full(size, np.nan)
    return {
        **columns,
        "metrics": (plan.measure.name,) * size,
        "shares": (plan.measure.binary,) * size,
        "size": columns["expected"],
        "n": rows.rows.sum() * rows.means.sum(0)[:, 1],
        "reference_value": first.reference,
        "standard_error": np.where(tested & (not answers[0].ends), first.effect.standard_error, np.nan),
        **dict.fromkeys(("statistic", "planning_error", "planning_rate", "planning_df"), blank),
        "direction": tuple(np.where(violated, np.where(better > 0, "favored", "disfavored"), "").tolist()),
        "provenance": record(rows=round(float(rows.rows.sum())), dropped=rows.dropped, random=False),
        "reference": plan.against,
        "reference_kind": {POPULATION: To.POPULATION, REST: To.REST}.get(plan.reference, To.GROUP),
        "scale": plan.link.name,
        "joint": True,
        "overlapping": False,
        "tolerance": plan.tolerance,
        "_widest_gap": None,
        "null_low": null.low,
        "null_high": null.high,
        "alternative": null.alternative,
        "adjust": plan.adjust,
    }


def impact_columns(plan: ProxyPlan, record: Callable[..., Provenance], chosen: str) -> dict[str, Any]:
    rows = read_proxies(plan.source, plan.proxy, plan.measure)
    columns, answer, bracket = estimate(rows, plan)
    limit, size, first = float(plan.threshold or 0.0), rows.size, answer.points[0]
    tested = np.isin(columns["status"], TESTED)
    equal, above = (
        np.where(tested, answer.pvalue(null), np.nan) for null in (plan.hypothesis, Hypothesis(limit, limit, "greater"))
    )
    unequal, within = (rejected(adjust_pvalues(p, plan.adjust), plan.alpha) for p in (equal, above))
    columns |= decide(rows, plan, columns, Hypothesis(limit, limit, "less"), (answer, bracket), within)
    _, inside_share, value, _ = estimators.everybody(rows.means)
    blank = np.full(size, np.nan)
    return {
        **columns,
        "pvalue": equal,
        "tables": (plan.source.labels.columns.get(plan.proxy.name, plan.proxy.name),) * size,
        "against": (plan.against,) * size,
        "n": columns["expected"],
        "selected": rows.rows.sum() * (value + rows.center * inside_share),
        "reference": first.reference,
        "difference": first.group - first.reference,
        "below_pvalue": columns["pvalue"],
        "at_least_pvalue": np.where(tested, 1.0, np.nan) if plan.unequal == "weighted" else above,
        "difference_shown": unequal,
        "below_threshold": np.where(tested, columns["high"], columns["disparity"]) < limit,
        **dict.fromkeys(("shortfall", "shortfall_parity", "bound_low", "bound_high"), blank),
        **dict.fromkeys(("cutoff_ratio", "cutoff_low", "cutoff_high"), np.empty((0, size))),
        "provenance": record(rows=round(float(rows.rows.sum())), dropped=rows.dropped, random=False),
        "threshold": limit,
        "median": None,
        "named": True,
        "unknown": {},
        "cutoffs": np.empty(0),
        "chosen": chosen,
    }


def notes(
    rows: ProxyRows, plan: ProxyPlan, columns: Mapping[str, Any], one_sided: Mapping[str, BoolArray]
) -> tuple[Note, ...]:
    """What the reader must know about the probabilities, the groups without a verdict, and the known rows."""
    labels, status = [str(group) for group in columns["groups"]], columns["status"]
    quality, checks = columns["quality"], columns.get("checks", np.full((11, rows.size), np.nan))
    with np.errstate(invalid="ignore"):
        tilted = (np.abs(checks[5] - 1) > 2 * checks[6]) & (np.abs(checks[5] - 1) > 0.1)
        missed = {"weighted": np.abs(checks[7]) > 2 * checks[8], "linear": np.abs(checks[9]) > 2 * checks[10]}
        about = {
            "proxy_constant": quality < 1e-6,
            **{code: status == kind for kind, code in words.CONCERNS.items()},
            **one_sided,
            "proxy_miscalibrated": (np.abs(checks[3]) > 2 * checks[4]) | tilted,
            "proxy_missed": missed.get(plan.unequal, np.zeros(rows.size, dtype=bool)),
        }
    values = {"least": plan.min_size, "known": FEWEST_KNOWN, "estimate": plan.unequal}
    general = (
        (Note("dropped", values=rows.dropped), any(rows.dropped.values())),
        (Note("proxy_rounded", values={"rows": round(rows.rounded)}), rows.rounded > 0),
        (Note("proxy_certain"), np.nanmin(quality, initial=np.inf) > 1 - 1e-9),
        (Note("proxy_known_other"), plan.proxy.known_rows == "other"),
    )
    return (
        *(note for note, needed in general if needed),
        *(
            note
            for code, lines in about.items()
            for note in note_if(code, [labels[i] for i in np.flatnonzero(lines)], **values)
        ),
    )


# ---- evidence


CHECKS = ("known", "observed", "stated", "difference", "difference_se", "slope", "slope_se")
MISSED = ("missed_by_weighted", "missed_by_weighted_se", "missed_by_linear", "missed_by_linear_se")


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ProxyEvidence(Evidence):
    """What a result holds if its groups are known by probability; otherwise all of this is empty.

    ``expected`` is the sum of a group's probabilities, ``identified`` how many rows with a certain group would tell as
    much, ``quality`` the share of the group's variance that the probabilities explain. ``weighted`` and ``linear`` are
    the disparities at gamma 0 and 1, ``low`` and ``high`` their range under the assumption. ``tipping`` is how much
    better the group would have to do than others with the same probabilities for no difference to be shown. ``curves``
    holds the disparity, its limits and its p-value (4 x gammas x groups), ``checks`` and ``bins`` what known rows say.
    """

    expected: FloatArray | None = column(
        "Expected members (sum of probabilities)", count=True, sizes=False, default=None
    )
    identified: FloatArray | None = column("Equivalent known members", count=True, sizes=False, default=None)
    quality: FloatArray | None = column("Quality of the probabilities", default=None)
    weighted: FloatArray | None = column("Weighted estimate", default=None)
    linear: FloatArray | None = column("Linear estimate", default=None)
    low: FloatArray | None = column("Range from", default=None)
    high: FloatArray | None = column("Range to", default=None)
    tipping: FloatArray | None = column("Tipping gap", default=None)
    validated: FloatArray | None = column("Corrected by known rows", default=None)
    validated_low: FloatArray | None = column("Corrected, from", default=None)
    validated_high: FloatArray | None = column("Corrected, to", default=None)
    curves: FloatArray | None = column(listed=False, default=None)
    checks: FloatArray | None = column(listed=False, default=None)
    bins: FloatArray | None = column(listed=False, default=None)
    gammas: tuple[float, ...] = ()
    assumed: str = ""
    assumed_gammas: tuple[float, ...] = ()
    proxy: str = ""  # what the groups are groups of; empty if groups are known
    known_rows: str = ""

    @property
    def assumption(self) -> str:
        """The assumption about groups that nobody recorded, in a sentence."""
        self._require_proxy("assumption")
        return words.assumption(self)

    @property
    def ranged(self) -> bool:
        """Whether the assumption leaves a range of disparities."""
        return len(self.assumed_gammas) > 1 or self.assumed == "nothing"

    def proxy_pages(self) -> dict[str, Columns]:
        """The range and its interval before any point; then what the probabilities tell."""
        without, later = (("disparity",), ("estimate", "reference")) if self.ranged else (("low", "high"), ())
        columns = {name: values for name, values in self.table().items() if name not in without}
        first = [name for name in words.PAGE if name in columns and name not in later]
        rest = ["group", *(name for name in columns if name not in first)]
        pages = {words.NUMBERS: first, words.FURTHER: rest}
        return {title: {name: columns[name] for name in names if name in columns} for title, names in pages.items()}

    def movement(self) -> Movement | str:
        return phrases.VERDICTS_ALONE if self.ranged else Evidence.movement(self)

    def next_steps(self, common: tuple[str, ...]) -> tuple[str, ...]:
        """Groups by probability cannot be compared within factors; people with a known group can decide instead."""
        return words.next_steps(self, common) if self.proxy else common

    def sensitivity(self, backend: str | None = None) -> Any:
        """The disparity, its interval and its p-value for each share gamma, one row per group and share.

        gamma is the share of a disparity that remains among people with the same probabilities. For another share,
        call again with ``assume=<share>``.
        """
        self._require_proxy("sensitivity")
        assert self.curves is not None
        number, repeats = len(self.gammas), len(self.labels)
        columns: Columns = {
            "group": [label for label in self.labels for _ in self.gammas],
            "gamma": [*self.gammas] * repeats,
        }
        names = ("disparity", "ci_low", "ci_high", "pvalue")
        curves = {name: part.T.reshape(number * repeats) for name, part in zip(names, self.curves, strict=True)}
        return as_frame({**columns, **curves}, backend, self.provenance.backend)

    def calibration(self, backend: str | None = None, *, bins: bool = False) -> Any:
        """The probabilities against known groups: one row per group or, with ``bins``, per group and tenth.

        ``missed_by_weighted`` is the disparity by known group minus the weighted estimate on the same rows;
        ``missed_by_linear`` that for the linear one.
        """
        self._require_proxy("calibration")
        if self.checks is None:
            raise UsageError("calibration: no group is known; give iso.proxy(known=<column>, known_rows=...).")
        if not bins:
            checks: dict[str, FloatArray] = dict(zip((*CHECKS, *MISSED), self.checks, strict=True))
            return as_frame({"group": self.labels, **checks}, backend, self.provenance.backend, ("known",))
        if self.bins is None:
            raise UsageError("calibration: the bins are withheld, because some have few rows.")
        edges = np.arange(self.bins.shape[1]) / self.bins.shape[1]
        lines = [(label, float(edge)) for label in self.labels for edge in edges]
        rows = {name: part.T.ravel() for name, part in zip(("n", "stated", "observed"), self.bins, strict=True)}
        columns = {"group": [label for label, _ in lines], "from": [edge for _, edge in lines], **rows}
        return as_frame(columns, backend, self.provenance.backend, ("n",))

    def _require_proxy(self, name: str) -> None:
        if not self.proxy:
            raise UsageError(f"{name}: groups are known here; it is for groups=iso.proxy(...).")

    def hide(self, small: BoolArray) -> Self:
        """A copy without the numbers of small lines; bins of known rows are then withheld as a whole."""
        return replace(Evidence.hide(self, small), bins=None) if self.proxy else Evidence.hide(self, small)

    def published(self, minimum: int, also: Any = ()) -> Self:
        """A copy without small groups, and without known rows that are few."""
        copy = Evidence.published(self, minimum, also)
        if self.bins is not None and ((self.bins[0] > 0) & (self.bins[0] < minimum)).any():
            copy = replace(copy, bins=None)
        if copy.checks is not None and (copy.checks[0] < minimum).any():
            copy = replace(copy, checks=None, bins=None)
        return copy
