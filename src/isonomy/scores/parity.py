"""Predictive parity: does a score mean the same thing for every group, when users appear many times?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, Unpack

import numpy as np

from isonomy.errors import UsageError, refuse_percent
from isonomy.frames import Groups, Request
from isonomy.inference import Verdict, conclude, inside, overall
from isonomy.inference.multiplicity import smallest
from isonomy.numerics import tails
from isonomy.numerics.arrays import BoolArray, FloatArray
from isonomy.options import Alpha, Also, Column, Number, Positive, RowOptions, Seeded, Tolerance, Whole
from isonomy.results import Columns, Note, column, open_call, question, storable
from isonomy.scores import words
from isonomy.scores.pairs import (
    MOST_PAIRS,
    OutcomeEvidence,
    PairEvidence,
    join_tables,
    line_status,
    pair_lines,
    pair_starts,
)
from isonomy.scores.read import Level, ScorePlan, ScoreSums, grid_points, read_sums
from isonomy.scores.smoothing.bands import Adjustment, Band, Judgment, Test, walk
from isonomy.scores.smoothing.contrasts import GroupCurves, Pair, Smoother, enough, fit_curves, means, orthogonal
from isonomy.scores.smoothing.families import Family, Widths
from isonomy.scores.smoothing.kernels import POOLED, RESIDUAL, Bandwidth, Kernel
from isonomy.scores.smoothing.orders import interval_means, ordering

if TYPE_CHECKING:
    import altair as alt

Comparison = Annotated[
    Literal["omnibus", "orthogonal", "cumulative", "trend", "residual", "published"],
    Also({"nadaraya_watson": "published"}),
]
FEWEST = 2.0  # effective users at a score, where the paper's method has no rule of its own
ORDER = 0.1  # the share of alpha that the order of scores has; the differences between groups have the rest
MANY = 0.2  # of the comparisons at a score: fewer that were not made change little of what was seen
TESTS: Mapping[str, Test] = {"cumulative": "walk", "trend": "trend", "omnibus": "all"}  # others compare points alone


# ---- call


@question(
    "ParityPlan",
    moved={"order_tolerance": "order=<the tolerance>"},
    asks="Does a score mean the same thing for every group?",
    topic="Meaning of the score",
    badges={"violation": "Different meaning shown"},
    verdicts={
        "violation": "the same score means different things in different groups, or higher scores mean lower outcomes."
    },
    next_steps={
        "violation": (
            "Ask whether decisions use the score with one cut-off for all groups. The same cut-off then means "
            "different things in different groups.",
            "Consider calibrating the score by group, where that is permitted, and repeat the test on new rows.",
        )
    },
    meaning="The expected outcome at a score is the average outcome of people with that score.",
)
def predictive_parity(
    data: object = None,
    *,
    outcome: Column,
    score: Column,
    groups: Groups,
    user: Column | None = None,
    level: Level | None = None,
    grid: float | Sequence[float] | None = None,
    bandwidth: Positive | Sequence[Positive] | Literal["cross-validation"] | None = None,
    method: Comparison = "omnibus",
    kernel: Kernel = "gaussian",
    reference: Mapping[str, object] | None = None,
    adjust: Adjustment | None = None,
    tolerance: Tolerance = None,
    order: bool | Positive | None = None,
    alpha: Alpha = 0.05,
    resamples: Annotated[int, Number(least=100, most=100_000, whole=True)] = 2_000,
    depth: Whole = 1,
    rng: Seeded = None,
    **rows: Unpack[RowOptions],
) -> ParityResult:
    """Does a score mean the same thing for every group, when users may appear many times?

    Null hypothesis: E[Y | S = s, G = g] is the same for all groups at every score (Definition 1 of the paper), and the
    scores are in order (Definition 2): no group has better outcomes at lower scores than another at higher ones. The
    verdict is about both parts. Assumes that users are independent. The rows of one user may be dependent, and a user
    may appear in several groups.

    Parameters
    ----------
    data : table
        Any table isonomy reads. Queries of more than 16 million rows are read in parts, each with all the rows of some
        users.
    outcome : str
        Column of outcomes: 0/1, or any number.
    score : str
        Column of scores, in any unit. The bandwidth rule is scaled to the range of most scores; a few extreme scores
        do not change it.
    groups : str, cut, where, or several of them
        Columns, `isonomy.cut` or `isonomy.where`. A `where` is compared with everybody else.
    user : str, optional
        Column that identifies the user a row belongs to. None: rows are independent.
    level : {"user", "aggregate"}, optional
        ``"user"``: each user has one vote, split evenly over all of the user's rows. ``"aggregate"``: each row has one
        vote; users, if given, still determine the variance. Default: "user" if ``user`` is given.
    grid : float or sequence of float, optional
        Scores at which groups are compared, in increasing order. Default: the 1, 5, 10, ..., 95, 99 % quantiles. A grid
        also limits the test: the cumulative sums, the trend and the order then use only rows with scores from its first
        to its last point, and the verdict says nothing about other scores. (Curves are smooth: rows within a bandwidth
        of a point still count towards it.)
    bandwidth : float, sequence of float or "cross-validation", optional
        Width of the kernel: a number, or one number per grid point. Default: the paper's rule,
        max(1.06 sqrt(s (1 - s)) n^(-1/5), n^(-1/5)/10), where n is the number of users (or rows) of the average group
        and [0, 1] is scaled to the range of most scores. ``"cross-validation"``: that rule times the factor, from 1/4
        to 2, whose local line best predicts the mean outcome of a bin of scores from the other bins.
    method : {"omnibus", "orthogonal", "cumulative", "trend", "residual", "published"}, default "omnibus"
        ``"orthogonal"``: near each score, Y - pooled(S) is regressed on 1_g - share(S), so that neither the outcome
        curve nor the groups' shares bias the difference; the test uses the largest difference over the grid.
        ``"cumulative"``: sums of (1_g - share(S)) (Y - pooled(S)) in score order; the comparison needs no bandwidth.
        ``"trend"``: the level and the slope of these sums over the order of scores. ``"omnibus"``: the smallest p-value
        of these three, by their joint law. ``"residual"``: each group's mean residual from the pooled curve; it rejects
        too often where the scores of one group lie between those of another. ``"published"``: the paper's whole
        procedure, which compares Nadaraya-Watson means at the paper's bandwidth, requires no minimum number of users
        near a score, uses Bonferroni's adjustment over the grid, and does not test the order. It rejects too often when
        groups have different scores.
    kernel : {"gaussian", "gaussian4", "gaussian6"}, default "gaussian"
        The kernel. ``"gaussian4"`` and ``"gaussian6"`` are of higher order.
    reference : mapping, optional
        The group with which every other group is compared, such as ``{"race": "White"}``. Default: every pair.
    adjust : {"sup-t", "bonferroni", "holm", "none"}, optional
        How p-values and bands are adjusted for the number of grid points. Default: ``"sup-t"``, or ``"bonferroni"``
        with ``method="published"``, which allows no other. All pairs in all tables are adjusted by Holm's method.
    tolerance : float, optional
        Differences up to this size are part of the null hypothesis. The verdict is "within tolerance" if two one-sided
        tests at alpha show this at every supported score (at every score of the grid, if one is given), and if the
        same is shown for the order.
    order : bool or float, optional
        Whether the order of scores is tested too. A number is the tolerance of that test: how much better outcomes at
        lower scores may be. True: the same ``tolerance`` as for differences. False: not tested, and the test of
        differences has the whole of ``alpha``. Default: True, but False with ``method="published"`` and with a grid of
        one score, which has no order.
    alpha : float, default 0.05
        The error rate.
    resamples : int, default 2000
        Number of normal draws for sup-t, the cumulative test and the order, 100 or more. No row is resampled.
    depth : int, default 1
        How many columns of ``groups`` are crossed: 2 compares their pairwise intersections too.
    rng : int or numpy.random.Generator, optional
        The seed or generator of the draws. If it is None, a fresh seed is used and recorded.
    **rows
        count, weight, cluster, missing, missing_group: how rows are read; see `isonomy.RowOptions`. At user level, a
        user's vote is the mean weight of the user's rows. ``cluster`` is for rows that belong together where there is
        no user: each row keeps its vote, and clusters determine the variance.

    Returns
    -------
    ParityResult
        ``to_frame()`` has one row for each pair of groups and each score: table, group, against, score, estimate,
        reference, disparity, ci_low, ci_high, pvalue, adjusted_pvalue, verdict (of the pair), status, and more.
        `pvalue` and `verdict` are about both parts of the null hypothesis, `parity_pvalue` and `ordering_pvalue` about
        one part each (NaN if it was not tested). ``disparity`` is estimated directly and is not
        ``estimate - reference`` (see Notes).

    Notes
    -----
    When it misleads: where few users have scores near a grid point, the point is reported as unsupported and is not
    tested. (Ten effective events and ten non-events are needed in either group, among users within a bandwidth whose
    scores occur in the other group too.) A difference over a range narrower than the bandwidth is smoothed away.

    Differences between groups have nine tenths of ``alpha`` and the order has one tenth. P-values are divided by these
    shares, so that all of them are compared with ``alpha``. With ``order=False`` differences have all of ``alpha``, and
    their p-values are not divided. The test of the order divides the scores into ten intervals and compares the mean
    outcome of one group in a lower interval with that of another group in a higher one.

    A difference is an average over a bandwidth, and has less bias than the difference of the two curves next to it. Its
    band is robust: it is centered on a local parabola, so that it covers a difference that bends (Calonico, Cattaneo
    and Farrell 2018). Scores are replaced by the mean of their bin, of 1,024 bins on the axis, which changes a number
    by about (bin / bandwidth)^2 / 24 of itself.

    References
    ----------
    C. DiCiccio, B. Hsu, Y. Yu, P. Nandy, K. Basu, "Detection and Mitigation of Algorithmic Bias via Predictive Rate
    Parity", sections 2, 3 and 7, Theorem 1.

    Examples
    --------
    >>> import numpy as np
    >>> from isonomy.scores import predictive_parity
    >>> rng = np.random.default_rng(0)
    >>> s = rng.beta(2, 2, 4000)
    >>> g = np.repeat(["a", "b"], 2000)
    >>> y = rng.random(4000) < np.where(g == "a", s, 0.7 * s)
    >>> result = predictive_parity({"y": y, "s": s, "g": g}, outcome="y", score="s", groups="g", rng=1)
    >>> result.verdict.value
    'violation'
    """
    call = open_call("predictive_parity", locals())
    plan = ParityPlan(call.source, **call.options)
    sums = read(plan)
    columns, orders = estimate(sums, plan, call.rng)
    binary, level = sums.families[0].binary, plan.rows.level
    null = words.parity_null(level, plan.tolerance, plan.range, order=plan.order_tested, binary=binary)
    return ParityResult(
        **columns,
        **decide(columns, orders, plan),
        null=null,
        notes=notes(sums, columns, plan),
        provenance=call.provenance(rows=sums.rows, dropped=sums.dropped, level=level, grouping=plan.rows.grouping),
        alpha=plan.alpha,
        tolerance=plan.tolerance,
        binary=binary,
    )


# ---- plan


@dataclass(frozen=True, eq=False, kw_only=True)
class ParityPlan(ScorePlan):
    """The call, and what follows from it and the schema."""

    grid: float | Sequence[float] | None
    bandwidth: Widths
    method: str
    kernel: Kernel
    reference: Mapping[str, object] | None
    adjust: Adjustment | None
    tolerance: float | None
    order: bool | float | None
    alpha: float
    resamples: int

    def __post_init__(self) -> None:
        ScorePlan.__post_init__(self)
        asked = bool(self.order)
        if self.single and (asked or self.method in ("cumulative", "trend")):
            needs = f"order={self.order!r}" if asked else f"method={self.method!r}"
            raise UsageError(
                f"grid: {self.grid!r} is a single score, and {needs} needs a range of scores; give two or more."
            )
        refused = {"order": asked and self.order, "adjust": self.adjust not in (None, "bonferroni") and self.adjust}
        for name, value in refused.items():
            if self.published and value:
                raise UsageError(
                    f"{name}: {value!r} is not part of the paper's procedure; leave {name} at None with "
                    'method="published", or choose another method.'
                )

    @property
    def requests(self) -> tuple[Request, ...]:
        """The passes an audit can share."""
        return self.rows.requests

    @cached_property
    def points(self) -> FloatArray | None:
        """The scores at which groups are compared; None: quantiles."""
        return grid_points(self.grid)

    @property
    def single(self) -> bool:
        """Whether one score is compared."""
        return self.points is not None and self.points.size == 1

    @property
    def range(self) -> tuple[float, float] | None:
        """The lowest and the highest score that are compared; None: all scores."""
        return None if self.points is None else (float(self.points[0]), float(self.points[-1]))

    @property
    def published(self) -> bool:
        """Whether the paper's procedure is asked for."""
        return self.method == "published"

    @property
    def adjustment(self) -> Adjustment:
        """How points are adjusted for one another."""
        return self.adjust or ("bonferroni" if self.published else "sup-t")

    @property
    def order_tested(self) -> bool:
        """Whether the order of scores is tested."""
        return not (self.published or self.single) if self.order is None else bool(self.order)

    @property
    def order_tolerance(self) -> float | None:
        """How much better outcomes at lower scores may be."""
        return self.tolerance if self.order is None or isinstance(self.order, bool | np.bool_) else float(self.order)


# ---- read


def read(plan: ParityPlan) -> ScoreSums:
    """All rows with a score and an outcome."""
    sums = read_sums(plan.rows)
    refuse_percent(sums.families[0].binary, plan.tolerance)
    return sums


# ---- estimate


def estimate(sums: ScoreSums, plan: ParityPlan, rng: np.random.Generator) -> tuple[dict[str, Any], list[Reversal]]:
    """The columns of all tables, and the test of each table's order; p-values are as if there were no other table."""
    tables, orders = [], []
    for family, child in zip(sums.families, rng.spawn(len(sums.families)), strict=True):
        curve_draws, order_draws = child.spawn(2)
        tables.append(compare(family, plan, curve_draws))
        if plan.order_tested:
            orders.append(reversal(family, plan, order_draws))
    return join_tables(tables), orders


def reversal(family: Family, plan: ParityPlan, rng: np.random.Generator) -> Reversal:
    """The order of scores in one table."""
    within = None if plan.range is None else family.sums.between(*plan.range)
    means_by_interval = interval_means(family.sums, binary=family.binary, within=within)
    worst = ordering(means_by_interval, plan.order_tolerance, plan.alpha, plan.resamples, rng)
    better, worse = (family.groups[g].label if g >= 0 else "" for g in (worst.better, worst.worse))
    return Reversal(
        table=family.title,
        pvalue=worst.pvalue,
        limit=worst.limit,
        better=better,
        worse=worse,
        score=worst.at,
        higher_score=worst.above,
        difference=worst.difference,
    )


def compare(family: Family, plan: ParityPlan, rng: np.random.Generator) -> dict[str, Any]:
    """The columns of one table: the curves of both groups, and their difference with its band, at each score.

    Curves have pointwise intervals, differences bands that hold at all supported points together.
    """
    sums, published = family.sums, plan.published
    grid = family.default_grid if plan.points is None else plan.points
    bandwidth = family.bandwidth(plan.bandwidth, grid, published=published)
    smoother = Smoother(grid, bandwidth.at(grid), 0 if published else 1, plan.kernel)
    fit = fit_curves(sums, smoother)
    # An interval around a local line misses curves that bend; one around a local parabola does not.
    robust = fit if published else fit_curves(sums, replace(smoother, degree=2))
    supported = _averaged(fit) if published else enough(fit.effective, fit.mean, binary=family.binary)
    pairs = family.pairs(plan.reference)
    bands = [
        band(family, plan, bandwidth, smoother, fit, pair, child)
        for pair, child in zip(pairs, rng.spawn(len(pairs)), strict=True)
    ]
    half = float(tails.normal_isf(plan.alpha)) * robust.errors(sums)
    limits = (0.0, 1.0) if family.binary else (-np.inf, np.inf)
    curves = {
        "": fit.beta[0],
        "_low": robust.beta[0] - half,
        "_high": robust.beta[0] + half,
    }
    curves = {end: np.where(supported, np.clip(values, *limits), np.nan) for end, values in curves.items()}
    first, second = np.array(pairs).T
    columns = {f"estimate{end}": values[first].ravel() for end, values in curves.items()}
    columns |= {f"reference{end}": values[second].ravel() for end, values in curves.items()}
    columns |= {name: np.concatenate([getattr(one, part) for one in bands]) for name, part in BAND.items()}
    return {
        **pair_lines(family, pairs, grid.size),
        **columns,
        "score": np.tile(grid, len(pairs)),
        "bandwidth": np.tile(smoother.width, len(pairs)),
        "effective_n": fit.effective[first].ravel(),
        "reference_effective_n": fit.effective[second].ravel(),
        "pair_pvalue": np.repeat([one.overall for one in bands], grid.size),
    }


# The columns of a difference, and the part of a `Band` each of them is.
BAND = {
    "disparity": "difference",
    "se": "se",
    "ci_low": "low",
    "ci_high": "high",
    "pointwise_low": "pointwise_low",
    "pointwise_high": "pointwise_high",
    "pvalues": "pvalue",
    "adjusted_pvalue": "adjusted",
}


def _averaged(fit: GroupCurves) -> BoolArray:
    """Where the paper's average is compared: the group has enough people, and some of them are near the score."""
    supported: BoolArray = (fit.users >= FEWEST) & (fit.effective >= 1.0)
    return supported


def band(
    family: Family,
    plan: ParityPlan,
    bandwidth: Bandwidth,
    smoother: Smoother,
    fit: GroupCurves,
    pair: Pair,
    rng: np.random.Generator,
) -> Band:
    """The difference of two groups at each score, by the method that was asked for."""
    sums, chosen = family.sums, list(pair)
    bounds = (-1.0, 1.0) if family.binary else (-np.inf, np.inf)
    test = TESTS.get(plan.method, "points")
    judgment = Judgment(plan.adjustment, plan.alpha, plan.tolerance, plan.resamples, bounds, test)
    average = replace(smoother, degree=0)
    if plan.published:
        contrast = means(sums, pair, None, average, fit.users[chosen])
        return judgment.band(sums, pair, contrast, None, np.all(_averaged(fit)[chosen], axis=0), None, rng)
    pooled = family.pooled(pair, bandwidth, RESIDUAL if plan.method == "residual" else POOLED)
    usable = family.supported(pair, pooled, smoother, fit)
    if plan.method == "residual":
        contrast = means(sums, pair, pooled, average, fit.users[chosen])
        return judgment.band(sums, pair, contrast, None, usable, None, rng)
    contrast, robust = (
        orthogonal(sums, pair, pooled, replace(smoother, degree=degree), binary=family.binary) for degree in (0, 2)
    )
    within = None if plan.range is None else sums.between(*plan.range)
    path = None if test == "points" else walk(sums, pair, pooled, binary=family.binary, within=within)
    return judgment.band(sums, pair, contrast, robust, usable, path, rng)


# ---- decide


def decide(columns: Mapping[str, Any], orders: Sequence[Reversal], plan: ParityPlan) -> dict[str, Any]:
    """Parity is both: equal outcomes, and scores in order. Holm's method over all pairs, and over all tables' orders.

    Each p-value is divided by its part's share of alpha, so that either is compared with alpha and both together are
    wrong at most that often; where the order is not tested, the differences have the whole of alpha. Within tolerance
    are pairs whose pointwise intervals all lie inside (two one-sided tests at every score), and orders of which every
    reversal was shown to be at most the tolerance.
    """
    starts = pair_starts(columns)
    # Every score that was asked for has to be within the tolerance; on the default grid only those that are known.
    least, most = (np.fmin, np.fmax) if plan.points is None else (np.minimum, np.maximum)
    ends = least.reduceat(columns["pointwise_low"], starts), most.reduceat(columns["pointwise_high"], starts)
    share = 1 - ORDER if orders else 1.0
    pairs = conclude(
        np.minimum(columns["pair_pvalue"][starts] / share, 1.0),
        alpha=plan.alpha,
        adjust="holm",
        within=inside(*ends, plan.tolerance),
    )
    limits = np.array([test.limit for test in orders])
    ordered = conclude(
        np.minimum(np.array([test.pvalue for test in orders]) / ORDER, 1.0),
        alpha=plan.alpha,
        adjust="holm",
        within=inside(np.where(np.isnan(limits), np.nan, 0.0), limits, plan.order_tolerance, "greater"),
    )
    pair = np.cumsum(np.isin(np.arange(len(columns["tables"])), starts)) - 1
    return {
        "status": line_status(columns["disparity"]),
        "pair_adjusted_pvalue": pairs.adjusted[pair],
        "verdicts": tuple(pairs.verdicts[k] for k in pair),
        "verdict": overall([*pairs.verdicts, *ordered.verdicts]),
        "orders": tuple(
            replace(test, pvalue=float(pvalue), verdict=verdict)
            for test, pvalue, verdict in zip(orders, ordered.adjusted, ordered.verdicts, strict=True)
        ),
    }


def notes(sums: ScoreSums, columns: Mapping[str, Any], plan: ParityPlan) -> tuple[Note, ...]:
    """What the reader must know about the scores, the method, and comparisons that were not made."""
    known: list[Note] = [] if sums.families[0].sums.axis.unit else [Note("outside_unit")]
    if plan.published:
        known.append(Note("published_parity"))
    tables, lost = np.array(columns["tables"], dtype=object), np.isnan(columns["disparity"])
    for family in sums.families:
        lines, table = tables == family.title, {"table": family.title}
        if np.unique(columns["score"][lines]).size == 1:
            known.append(Note("single_score", values=table))
        if family.sums.spanning:
            known.append(Note("spanning", values=table))
        if lost[lines].sum() >= MANY * lines.sum():
            numbers = {"lost": int(lost[lines].sum()), "comparisons": int(lines.sum())}
            known.append(Note("scores_not_compared", values=table | numbers))
    return tuple(known)


# ---- evidence


@storable
@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Reversal:
    """The test of the order of scores in one table, and the worst reversal.

    ``better`` has higher outcomes, by ``difference``, at scores around ``score`` than ``worse`` at scores around
    ``higher_score``. All reversals are at most ``limit``, by one-sided limits.
    """

    table: str
    pvalue: float
    limit: float
    better: str
    worse: str
    score: float
    higher_score: float
    difference: float
    verdict: Verdict = Verdict.INCONCLUSIVE


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ParityResult(OutcomeEvidence):
    """Whether a score means the same thing for every group; see `isonomy.predictive_parity`.

    One line for each pair of groups and each score. ``pair_pvalue``, ``pair_adjusted_pvalue`` and ``verdicts`` are
    those of the pair, over all scores. ``orders`` has the test of the order in each table, if it was asked for.
    """

    method: ClassVar[str] = words.PARITY_METHOD
    always_assumed: ClassVar[tuple[tuple[str, str], ...]] = words.PARITY_ASSUMPTIONS
    never_shown: ClassVar[tuple[str, ...]] = words.PARITY_LIMITS

    score: FloatArray = column("Score", withheld=False)
    pair_pvalue: FloatArray = column("Pair: p‑value")
    pair_adjusted_pvalue: FloatArray = column("Pair: adjusted p‑value")
    pointwise_low: FloatArray = column(listed=False)  # of the interval that two one-sided tests at alpha are
    pointwise_high: FloatArray = column(listed=False)
    tolerance: float | None
    orders: tuple[Reversal, ...]

    @property
    def pvalue(self) -> float:
        """The p-value of both parts: the smallest of all pairs' and all orders', adjusted."""
        return smallest([self.parity_pvalue, self.ordering_pvalue])

    @property
    def parity_pvalue(self) -> float:
        """P-value of equal outcomes alone (Definition 1): the smallest of all pairs', adjusted."""
        return smallest(self.pair_adjusted_pvalue)

    @property
    def ordering_pvalue(self) -> float:
        """P-value of the order alone (the second part of Definition 2), adjusted; NaN where it was not tested."""
        return smallest([test.pvalue for test in self.orders])

    @property
    def ordering_verdict(self) -> Verdict:
        """Violation if a reversed order was shown; within tolerance if all reversals were shown to be.

        Inconclusive where the order was not tested.
        """
        return overall([test.verdict for test in self.orders])

    def pages(self) -> Mapping[str, Columns]:
        """The pairs, then the differences at each score."""
        pairs, scores = self.paged(words.PARITY_PAGES).items()
        starts = self.starts()
        return dict([(pairs[0], {name: [values[i] for i in starts] for name, values in pairs[1].items()}), scores])

    def findings(self) -> tuple[str, ...]:
        """Each table's test, its largest differences, and its order; what decides the verdict comes first."""
        findings = []
        for table in self.deciding_first():
            tests = [test for test in self.orders if test.table == table]
            order = words.order(tests[0], binary=self.binary) if tests else words.ORDER_NOT_TESTED
            findings += [*self._compared(table, ordered=bool(tests)), order]
        return tuple(findings)

    def judged(self, table: str) -> tuple[Verdict, float]:
        """The verdict on a table and its p-value, of the pairs and of the order."""
        lines, tests = self.lines_of(table), [test for test in self.orders if test.table == table]
        pvalue = smallest([*self.pair_adjusted_pvalue[lines], *(test.pvalue for test in tests)])
        return overall([*(self.verdicts[i] for i in lines), *(test.verdict for test in tests)]), pvalue

    def _compared(self, table: str, *, ordered: bool) -> list[str]:
        """The test of one table and its pairs: those with the table's verdict first, by their p-values."""
        lines, verdict = self.lines_of(table), self.judged(table)[0]
        if np.isnan(self.pair_adjusted_pvalue[lines]).all():
            return [words.scores_not_compared(table, ordered=ordered)]
        known = lines[np.isfinite(self.disparity[lines])]
        compared = known if known.size else lines
        groups = {group for i in compared for group in (self.groups[i], self.opposite[i])}
        overview = words.parity_table(self, lines.tolist(), len(groups), np.unique(self.score[known]).size)
        if not known.size:
            return [overview, words.NOWHERE]
        clearest = [
            int(pair[np.nanargmax(np.abs(self.disparity[pair] / self.se[pair]))])
            for pair in np.split(lines, np.flatnonzero(np.isin(lines, self.starts()))[1:])
            if np.isfinite(self.disparity[pair]).any() and not np.isnan(self.pair_adjusted_pvalue[pair[0]])
        ]
        clearest.sort(key=lambda i: (self.verdicts[i] is not verdict, self.pair_adjusted_pvalue[i]))
        return [overview, *(words.parity_pair(self, i) for i in clearest[:MOST_PAIRS])]

    def without(self, first: BoolArray, second: BoolArray) -> Self:
        """A copy without the numbers of small groups, nor the reversals that name one."""
        hidden = PairEvidence.without(self, first, second)
        names = {group.label for group, hide in zip(self.groups, first, strict=True) if hide}
        names |= {group.label for group, hide in zip(self.opposite, second, strict=True) if hide}
        blank: dict[str, Any] = dict.fromkeys(("score", "higher_score", "difference"), np.nan)
        blank |= {"better": "", "worse": ""}
        orders = tuple(replace(test, **blank) if names & {test.better, test.worse} else test for test in self.orders)
        return replace(hidden, orders=orders, verdict=overall([*hidden.verdicts, *(test.verdict for test in orders)]))

    def plot(
        self, beside: ParityResult | None = None, names: tuple[str, str] = ("before", "after")
    ) -> alt.TopLevelMixin:
        """Curves with intervals, and differences with their bands and the null.

        With ``beside`` another result, the curves of both side by side: before and after a correction, or user level
        against aggregate; ``names`` are their titles.
        """
        from isonomy.scores import charts

        return charts.parity(self) if beside is None else charts.side_by_side(self, beside, names)
