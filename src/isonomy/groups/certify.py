"""Certification: taken together, do groups differ from the reference by more than chance?"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, Unpack

import numpy as np

from isonomy.errors import NotEnoughData, UsageError
from isonomy.frames import Groups, MetricLike
from isonomy.groups import words
from isonomy.groups.flag import (
    MOST_GROUPS,
    FlagPlan,
    FlagScale,
    Given,
    GroupEvidence,
    Label,
    Method,
    common_notes,
    counted_rows,
    estimate,
    laid_out,
    large_differences,
    mark_intervals,
    names_of,
    read,
    too_skewed,
)
from isonomy.groups.likelihood import correction as corrections
from isonomy.groups.likelihood.certification import (
    compared_with_none,
    contrasts_of,
    directions,
    equal_lines,
    independent_rows,
    padded_weights,
    region_of,
)
from isonomy.groups.likelihood.comparison import Solver
from isonomy.groups.likelihood.correction import joint_factor
from isonomy.groups.likelihood.families import places_of
from isonomy.groups.likelihood.joint import Joint, NoDifference, quadratic, welch
from isonomy.groups.likelihood.lines import Lines, MetricRows
from isonomy.groups.likelihood.overlap import Sigma
from isonomy.groups.likelihood.reference import Disparities, ReferenceLike, Uncertainty
from isonomy.groups.likelihood.region import HANDFUL, Region, Stacked, whitened
from isonomy.groups.likelihood.within import account_for_strata, all_equal, refuse_many
from isonomy.inference import Verdict, conclude, inside
from isonomy.inference.designs import FEWEST, Influence, JointLaw, Spread, covariance, joint_law, spread
from isonomy.inference.multiplicity import adjust as adjust_pvalues
from isonomy.numerics.arrays import FloatArray
from isonomy.numerics.status import Status
from isonomy.numerics.tails import chi2_isf, chi2_sf, weighted_chi2_sf
from isonomy.options import Alpha, Column, Draws, RowOptions, Seeded, Tolerance, Whole
from isonomy.results import Evidence, Note, column, note_if, open_call, question, storable
from isonomy.results.storage import OF_ROWS

if TYPE_CHECKING:
    import altair as alt

# ---- call


@question(
    "CertifyPlan",
    asks="Taken together, do the groups differ from the reference by more than chance?",
    topic="{}{by}, taken together",
    from_counts=True,
)
def certify(
    data: object = None,
    *,
    metric: MetricLike,
    groups: Groups,
    outcome: Column | None = None,
    prediction: Column | None = None,
    score: Column | None = None,
    positive: Label = None,
    reference: ReferenceLike = "population",
    uncertainty: Uncertainty = "joint",
    scale: FlagScale = "difference",
    sigma: Sigma = "population",
    null: Disparities | None = None,
    tolerance: Tolerance = None,
    alpha: Alpha = 0.05,
    depth: Whole = 1,
    min_size: Whole = 10,
    method: Method = "el",
    correction: Literal["auto", "bartlett"] | None = "auto",
    resamples: Draws = 1_000,
    rng: Seeded = None,
    given: Given = None,
    **rows: Unpack[RowOptions],
) -> CertifyResult:
    """Taken together, do the groups differ from the reference by more than chance?

    Null hypothesis: every tested group's disparity equals ``null`` (no difference by default) at once. T is the joint
    empirical (``"el"``) or Euclidean (``"eel"``) likelihood ratio, chi-square with as many degrees of freedom as there
    are independent estimating functions, less the references that are profiled: k groups that partition the rows have k
    - 1.

    Parameters
    ----------
    data, metric, groups, outcome, prediction, score, positive, reference, uncertainty
        As in `isonomy.flag`.
    scale, sigma
        As in `isonomy.flag`.
    null : float, sequence of float or mapping, optional
        One disparity for all groups, one per tested group in order, or a mapping from group labels; without it no
        difference.
    tolerance : float, optional
        The largest disparity that does not matter. The verdict is then *violation* if abs(disparity) <= tolerance is
        rejected for some group (Holm over groups), *within tolerance* if every simultaneous interval lies inside it,
        else *inconclusive*. Without, it is *violation* if the joint null is rejected.
    alpha : float, default 0.05
        The error rate of the test and of the simultaneous intervals.
    depth, min_size, method
        As in `isonomy.flag`.
    correction : {"auto", "bartlett"}, optional
        ``"bartlett"``: T divided by its mean over its degrees of freedom, in closed form for known references of
        disjoint groups, from resamples of rows that meet the null otherwise. It holds for the p-value and `contains`;
        the groups' own intervals are not corrected. ``"auto"``, the default: where the second-order term of T says that
        the level would be missed by a tenth of it or more, and there are neither weights nor clusters, which have a law
        of their own. None: never, as in the paper.
    resamples, rng, given
        As in `isonomy.flag`.
    **rows
        count, weight, cluster, missing, missing_group: how rows are read; see `isonomy.RowOptions`.

    Returns
    -------
    CertifyResult
        ``statistic``, ``df``, ``pvalue``, ``verdict``, and ``contains(disparities)``: membership in the joint
        confidence region. With ``given`` the table has what the factors account for.

    Notes
    -----
    A large p-value is not proof of equal treatment. Against the population or the rest, groups that meet the null fix
    the mean of the rows in no tested group too, so these are part of the test. Fewer than 10 of them (than
    ``min_size``, if that is less) are left out, whichever the method: T then compares the tested groups with each
    other, on one degree of freedom less, and a warning says so. The same holds for a group whose values (not 0/1) are
    all equal, which do not show how its mean varies. Algorithms 1 and G.1 of the paper, with the degrees of freedom
    corrected to the rank.

    Some questions have no joint likelihood, and no difference is tested by the covariance of the groups' differences:
    within strata (``given``) by Cochran, Mantel and Haenszel's statistic for all groups; for metrics that are no mean
    over rows (f1, AUC, ...), and for values among several metrics, by their influence values, the groups set beside one
    another unless the reference is a group or a number. Several metrics are those of the same rows: a row that one of
    them cannot use is left out of all. No difference is the same in standard deviations: ``scale="standardised"``
    changes the intervals and the tolerance alone.

    When it misleads: at large n a violation without a tolerance may be too small to matter; with ``correction=None``
    many groups of few rows make T too large.

    References
    ----------
    Tang, J., Xie, C., Zeng, X. and Zhu, L. (2026). Empirical likelihood-based fairness auditing: distribution-free
    certification and flagging. arXiv:2601.20269.

    Examples
    --------
    >>> import isonomy as iso
    >>> table = {"approved": [1] * 60 + [0] * 40 + [1] * 70 + [0] * 30, "sex": ["f"] * 100 + ["m"] * 100}
    >>> result = iso.certify(table, metric="selection_rate", groups="sex", prediction="approved")
    >>> round(result.statistic, 3), result.df, round(result.pvalue, 3)
    (2.203, 1, 0.138)
    >>> result.contains([-0.05, 0.05]), result.contains([-0.2, 0.2])
    (True, False)
    """
    call = open_call("certify", locals())
    plan = CertifyPlan(call.source, **call.options)
    rows_read = read(plan)
    solvers = [plan.solver(sums, call.rng) for sums in rows_read]
    columns, tests = estimate(solvers, plan)
    joint = estimate_jointly(solvers, columns, tests, plan, call.rng)
    if plan.given is not None:
        columns |= account_for_strata(rows_read[0], plan.base_scale, plan.alpha)
    decided = decide(columns, tests, joint, plan)
    test, common = joint["test"], float(plan.tested_null) if isinstance(plan.tested_null, Real) else None
    random = plan.small_sample == "bartlett" or joint["factor"] != 1
    return CertifyResult(
        **columns | decided | {name: joint[name] for name in ("statistic", "pvalue", "null_disparity", "region")},
        **laid_out(plan, solvers),
        null=plan.null_sentence(words.joint_null, joint["region"].groups, common, several=len(plan.measures) > 1),
        notes=notes(columns, tests, decided, joint, plan, rows_read),
        provenance=call.provenance(**counted_rows(rows_read), random=random),
        likelihood="cmh" if plan.given is not None else plan.method if plan.likely else "covariance",
        df=test.df,
        joint_status=test.status,
    )


# ---- plan


@dataclass(frozen=True, eq=False, kw_only=True)
class CertifyPlan(FlagPlan):
    """The call: the plan of `flag` without an alternative, so that all groups are tested at once."""


def per_group(disparities: Disparities, labels: Sequence[str], argument: str) -> FloatArray:
    """One disparity for each of the tested groups, from any of the forms a caller may give."""
    if isinstance(disparities, Mapping):
        given = {str(key): value for key, value in disparities.items()}
        unknown = [key for key in given if key not in labels]
        absent = [label for label in labels if label not in given]
        if unknown or absent:
            raise UsageError(f"{argument}: unknown groups {unknown[:5]}, groups without a value {absent[:5]}.")
        disparities = [given[label] for label in labels]
    try:
        values = np.asarray(np.nan if isinstance(disparities, bool) else disparities, dtype=float)
    except (TypeError, ValueError):
        values = np.array(np.nan)
    groups = len(labels)
    if values.shape not in ((), (groups,)) or not np.isfinite(values).all():
        raise UsageError(
            f"{argument}: {disparities!r} is not allowed; give one finite number, or one for each of {groups:,} groups."
        )
    return np.broadcast_to(values, (groups,)).astype(float)


# ---- read
# The rows are those of `flag`.


# ---- estimate


def estimate_jointly(
    solvers: Sequence[Solver],
    columns: Mapping[str, Any],
    tests: Mapping[str, Any],
    plan: CertifyPlan,
    rng: np.random.Generator,
) -> dict[str, Any]:
    """The joint test of all groups that can be tested, at the disparities ``null_disparity``.

    ``factor`` is what T was divided by, NaN if a correction was asked for, or needed, and could not be had; ``spare``
    are the groups of rows that are in no tested group, where these are too few to be part of the test or all equal,
    else None; ``region`` is what a confidence region is made of, and ``test`` the test as it is.
    """
    parts = []
    for solver, at in zip(solvers, places_of(solvers), strict=True):
        own = {name: columns[name][at] for name in ("groups", "n", "estimate", "reference_value", "status")} | {
            "tested": tests["tested"][at],
            "effective": None,
        }
        if columns["design"] is not None:
            own["effective"] = columns["design"].effective[at]
        parts.append((solver, own, _one_metric(solver, own, plan, rng)))
    return parts[0][2] if len(parts) == 1 else _stacked(parts, columns, tests, plan)


def _one_metric(
    solver: Solver, columns: Mapping[str, Any], plan: CertifyPlan, rng: np.random.Generator
) -> dict[str, Any]:
    """All groups of one metric at once."""
    sums, groups = solver.sums, columns["groups"]
    tested = np.flatnonzero(columns["tested"])
    if not tested.size:
        few = "" if columns["effective"] is None else f", fewer than {FEWEST:g} effective clusters"
        if len(groups) == 1:
            raise NotEnoughData("groups: everybody compared is in one group, which leaves nothing to compare it with.")
        of = f" by {sums.measure.name!r}" if len(plan.measures) > 1 else ""
        raise NotEnoughData(
            f"groups: none can be tested{of}; each has fewer than {plan.min_size} rows that count{few}, or no "
            "variation."
        )
    null = np.full(len(groups), np.nan)
    target = per_group(plan.tested_null, [str(groups[i]) for i in tested], "null")
    null[tested] = target
    if plan.by_covariance(sums.measure):
        return _without_likelihood(solver, columns, plan) | {"null_disparity": null}
    unvaried = np.asarray((columns["status"] == Status.CONSTANT) & ~columns["tested"], dtype=bool)
    equal = equal_lines(sums, unvaried)
    # Groups that overlap are tested without these rows; of groups that do not, the population's mean is left free.
    dropped = equal & (len(sums.partitions) > 1 and not target.any() and plan.target.estimate is None)
    region = region_of(solver, columns, equal, dropped, plan.min_size)
    joint = region.test(target)
    measured = 1.0
    if plan.small_sample == "auto":
        measured = corrections.factor(region, joint, target, plan.alpha, plan.resamples, rng)
    elif plan.small_sample is not None:
        measured = joint_factor(region, joint, target, plan.resamples, rng)
    factor = 1.0 if np.isnan(measured) else measured
    statistic = joint.statistic / factor
    pvalue = float(chi2_sf(statistic, joint.df)) if joint.df else 1.0
    if sums.design is not None and joint.df:
        kept = columns["tested"].copy()
        kept[tested[list(joint.left_out)]] = False
        effective = float(columns["effective"][kept].min())
        influence = Influence.together([solver.influence(side) for side in solver.sides], kept)
        varying = directions(covariance(independent_rows(sums), influence), joint.df)
        law = joint_law(sums.design, influence, varying, effective) if varying else JointLaw(np.ones(1), effective)
        law = replace(law, weights=padded_weights(law.weights, joint.df))
        pvalue = law.tail(joint.statistic)
        statistic = float(chi2_isf(pvalue, joint.df))
        factor = law.critical(plan.alpha) / float(chi2_isf(plan.alpha, joint.df))
    spare = None
    if dropped.any():
        spare = tuple(str(groups[i]) for i in np.flatnonzero(unvaried))
    elif region.free and not plan.target.to.best:
        spare = sums.reached(region.spare)
    kept_region: Region | NoDifference = replace(region, factor=factor)
    # No difference is none in any unit, and in some of the rows; other disparities need the unit's own error, and all.
    if plan.standardised or dropped.any():
        kept_region = NoDifference(region.groups, statistic, joint.df, plan.base_scale)
    return {
        "test": joint,
        "statistic": statistic,
        "pvalue": pvalue,
        "factor": measured,
        "spare": spare,
        "region": kept_region,
        "null_disparity": null,
    }


def _stacked(
    parts: Sequence[tuple[Solver, dict[str, Any], dict[str, Any]]],
    columns: Mapping[str, Any],
    tests: Mapping[str, Any],
    plan: CertifyPlan,
) -> dict[str, Any]:
    """Several metrics at once: the sum of their statistics, each corrected for small groups where it has to be.

    Metrics of the same rows depend on one another, so the sum is a sum of chi-squares with weights: the eigenvalues of
    the disparities' covariance, over what it would be if each metric had rows of its own (which are 1 then). With
    weights or clusters the covariance is that of sums over clusters.
    """
    influences, sizes = [], []
    rows = [solver.sums for solver, _, _ in parts]
    single = [joint for _, _, joint in parts]
    lines = max(int(sums.lines_kept.max(initial=-1)) for sums in rows) + 1
    mass = np.ones(lines)
    for solver, own, joint in parts:
        sums, plain = solver.sums, replace(solver, sigma=None, scale="difference")
        kept = own["tested"].copy()
        kept[np.flatnonzero(kept)[list(joint["test"].left_out)]] = False
        if plan.by_covariance(sums.measure) or plan.target.to.best:  # groups are then compared with each other
            lines_add = contrasts_of(plain, own)[1]
        else:
            refuse_many("groups", sums.mass.size, kept.size)
            lines_add = np.hstack([plain.influence(side).dense() for side in plain.sides])[:, kept]
        spread_out = np.zeros((lines, lines_add.shape[1]))
        spread_out[sums.lines_kept] = lines_add * np.sqrt(sums.mass)[:, None]
        mass[sums.lines_kept] = sums.mass
        influences.append(spread_out)
        sizes.append(directions(spread_out.T @ spread_out, joint["test"].df))
    together = whitened(influences, sizes)
    # With a design the law below is that of the statistics as they are, not of their equivalents.
    whole = rows[0].whole
    statistics = [
        joint["statistic"] if sums.design is None else joint["test"].statistic
        for joint, sums in zip(single, rows, strict=True)
    ]
    statistic, df = float(sum(statistics)), sum(joint["test"].df for joint in single)
    uncorrected = float(sum(part * joint["factor"] for part, joint in zip(statistics, single, strict=True)))
    factor = uncorrected / statistic if np.isfinite(statistic) and statistic > 0 else 1.0
    worst = next((joint["test"].status for joint in single if joint["test"].status is not Status.OK), Status.OK)
    starts = np.cumsum([0, *(int(own["tested"].sum()) for _, own, _ in parts)])
    left_out = tuple(
        int(i + start) for joint, start in zip(single, starts, strict=False) for i in joint["test"].left_out
    )
    spare = [joint["spare"] for joint in single if joint["spare"] is not None]
    regions = tuple(joint["region"] for joint in single if isinstance(joint["region"], Region))
    if whole is None:
        weights = padded_weights(np.maximum(np.linalg.eigvalsh(together.T @ together), 0.0), df)
        pvalue = float(weighted_chi2_sf(statistic, weights)) if df else 1.0
    else:
        effective = float(columns["design"].effective[tests["tested"]].min())
        by_mass = Influence.of(together / np.sqrt(np.maximum(mass, 1e-300))[:, None])
        weights = padded_weights(np.maximum(np.linalg.eigvalsh(covariance(whole, by_mass)), 0.0), df)
        pvalue = JointLaw(weights, effective).tail(statistic) if df else 1.0
        statistic = float(chi2_isf(pvalue, df))
    likely = whole is None and len(regions) == len(single)
    equivalent = statistic if whole is not None or not df else float(chi2_isf(pvalue, df))
    groups = int(tests["tested"].sum())
    return {
        "test": Joint(statistic, df, np.empty(0), worst, left_out),
        "statistic": statistic,
        "pvalue": pvalue,
        "factor": factor,
        "spare": tuple(dict.fromkeys(name for names in spare for name in names)) if spare else None,
        "region": Stacked(regions, weights) if likely else NoDifference(groups, equivalent, df, plan.base_scale),
        "null_disparity": np.concatenate([joint["null_disparity"] for joint in single]),
    }


def _without_likelihood(solver: Solver, columns: Mapping[str, Any], plan: CertifyPlan) -> dict[str, Any]:
    """All groups at once where disparities have no joint likelihood: by their covariance."""
    sums, tested = solver.sums, columns["tested"]
    rows = columns["n"] if columns["effective"] is None else columns["effective"]
    if plan.given is not None:
        ends = np.cumsum([side.status.size for side in solver.sides])[:-1]
        places = [np.flatnonzero(part) for part in np.split(tested, ends)]
        raw, df, pvalue = all_equal(sums, places, float(rows[tested].min()))
    else:
        values, added = contrasts_of(solver, columns)
        independent, influence = independent_rows(sums), Influence.of(added)
        raw, df = quadratic(values, covariance(independent, influence))
        design = independent if sums.design is None else sums.design
        actual = quadratic(values, covariance(design, influence))[0]
        own = Spread.together([spread(design, compared_with_none(solver).influence(side)) for side in solver.sides])
        known = (tested | (columns["status"] == Status.REFERENCE)) & (own.variance > 0)
        pvalue = welch(actual, df, own.variance[known], own.df[known]) if df else 1.0
    exact = not df or (plan.given is not None and sums.design is None)
    statistic = raw if exact else float(chi2_isf(pvalue, df))
    return {
        "test": Joint(raw, df, np.empty(0), Status.OK),
        "statistic": statistic,
        "pvalue": pvalue,
        "factor": 1.0,
        "spare": None,
        "region": NoDifference(int(tested.sum()), statistic, df, plan.base_scale),
    }


# ---- decide


def decide(
    columns: Mapping[str, Any], tests: Mapping[str, Any], joint: Mapping[str, Any], plan: CertifyPlan
) -> dict[str, Any]:
    """One verdict: on the joint null or, with a tolerance, on the groups' p-values and intervals."""
    adjusted = adjust_pvalues(columns["pvalue"], plan.adjust, tests["same"])
    withheld = too_skewed(columns, tests, plan)
    if plan.tolerance is None:
        # A correction that is needed and cannot be had: the p-value does not hold its level.
        unsure = bool(np.isnan(joint["factor"])) and plan.small_sample == "auto"
        shown = conclude([np.nan if unsure else joint["pvalue"]], alpha=plan.alpha)
    else:
        low, high = (plan.link.delta(columns[end]) for end in ("ci_low", "ci_high"))
        shown = conclude(
            np.where(withheld, np.nan, adjusted),
            alpha=plan.alpha,
            within=inside(low, high, plan.reach) & ~withheld,
            concerned=columns["status"] != Status.REFERENCE,
        )
    status = columns["status"].copy()
    mark_intervals(status, columns, tests["tested"])
    status[withheld & (status == Status.OK)] = Status.SKEWED
    return {"verdict": shown.verdict, "tolerance_pvalue": adjusted, "status": status}


def notes(
    columns: Mapping[str, Any],
    tests: Mapping[str, Any],
    decided: Mapping[str, Any],
    joint: Mapping[str, Any],
    plan: CertifyPlan,
    rows: Sequence[MetricRows],
) -> tuple[Note, ...]:
    """What the reader must know."""
    test, automatic, null = joint["test"], plan.small_sample == "auto", joint["null_disparity"]
    more = [*common_notes(columns, tests, decided["status"], plan, rows)]
    if np.isnan(joint["factor"]):
        more.append(Note("uncorrected", values={"needed": automatic}))
    elif automatic and joint["factor"] != 1:
        more.append(Note("joint_corrected", values={"factor": joint["factor"]}))
    tested = np.flatnonzero(tests["tested"])
    more += note_if("joint_left_out", names_of(columns, tested[list(test.left_out)]), least=plan.min_size)
    if joint["spare"] is not None:
        equal = bool(((columns["status"] == Status.CONSTANT) & ~tests["tested"]).any())
        values = {"least": min(plan.min_size, HANDFUL), "tested": tested.size, "equal": equal}
        more.append(Note("joint_spare", joint["spare"], values))
    equality = plan.tolerance is None and (np.isnan(null) | (null == plan.link.equal)).all()
    if equality and decided["verdict"] is Verdict.VIOLATION and not large_differences(columns, plan).any():
        more.append(Note("large_sample"))
    if test.status is not Status.OK:
        more.append(Note(words.JOINT_STATUSES.get(test.status, "joint_approximate")))
    return tuple(more)


# ---- evidence


for _part in (Lines, Region, Stacked, NoDifference):
    storable(_part)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class CertifyResult(GroupEvidence):
    """One joint test of all groups, with simultaneous intervals. `to_frame` has one row per group.

    ``region`` holds the values behind `contains`: it is stored by ``to_json(rows=True)`` only, and None otherwise.
    """

    decisive: ClassVar[tuple[str, ...]] = ("pvalue", "tolerance_pvalue")

    tolerance_pvalue: FloatArray = column(listed=False)
    null_disparity: FloatArray = column(listed=False, withheld=False)
    likelihood: str
    statistic: float
    df: int
    pvalue: float
    joint_status: Status
    region: Region | Stacked | NoDifference | None = field(metadata=OF_ROWS)

    def contains(self, disparities: Disparities) -> bool:
        """Whether the joint confidence region of level 1 - alpha holds these disparities.

        One number for all groups, one per tested group in the order of `to_frame`, or a mapping from group labels.
        The degrees of freedom are the rank of the estimating functions at these disparities.
        """
        if self.region is None:
            if Status.SUPPRESSED in self.status:
                raise UsageError("contains: the rows behind this result are withheld with the small groups.")
            raise UsageError(
                "contains: the rows behind this result are not stored with it; keep the result in memory, or store it "
                "with to_json(rows=True)."
            )
        labels = [label for label, null in zip(self.names, self.null_disparity, strict=True) if not np.isnan(null)]
        joint = self.region.test(per_group(disparities, labels, "disparities"))
        if joint.df == 0:
            return bool(joint.statistic <= 0)
        return bool(joint.statistic <= self.region.critical(self.alpha, joint.df))

    @property
    def tested(self) -> str:
        """The disparities tested, in words, where they are neither none nor a tolerance."""
        given = np.unique(self.null_disparity[~np.isnan(self.null_disparity)])
        if self.tolerance is not None or (given == self.link.equal).all():
            return ""
        if given.size > 1:
            return "the disparities tested"
        return words.tested(float(given[0]), float(given[0]), "", self.scale, share=self.all_shares)

    def headline(self) -> str:
        """The verdict as a sentence; disparities that were given are what groups are held against."""
        if self.tested and self.answered:
            return words.other_null_verdict(self, self.tested)
        return Evidence.headline(self)

    def findings(self) -> tuple[str, ...]:
        """What decided: the joint statistic, or with a tolerance the intervals; then the largest difference.

        Within strata, then what the factors account for in the groups furthest from their reference.
        """
        known = np.flatnonzero(~np.isnan(self.ci_low))
        away = np.abs(self.link.delta(self.disparity))
        largest = [words.largest_finding(self, int(known[np.argmax(away[known])]))] if known.size else []
        decided = [words.certify_finding(self), *largest]
        if self.tolerance is not None:
            tolerance = words.tolerance_finding(self, known.tolist())
            decided = [tolerance, *largest, words.certify_finding(self), words.RESTS_ON_THE_TOLERANCE]
        furthest = known[np.argsort(-away[known], kind="stable")][: MOST_GROUPS if self.given else 0]
        return (*decided, *self.alone(), *(words.accounts(self, int(i)) for i in furthest), *self.banded())

    def plot(self) -> alt.TopLevelMixin:
        """Intervals by group, sorted, with the null and the tolerance drawn.

        A group's color says whether its simultaneous interval lies beyond the null (or the tolerance), within the
        tolerance, or neither.
        """
        from isonomy.groups.charts import certified

        return certified(self)

    def suppressed(self, minimum: int, also: Collection[str] = ()) -> Self:
        """A copy without the rows behind `contains`, and without the numbers of small groups and those in ``also``."""
        return replace(GroupEvidence.suppressed(self, minimum, also), region=None)
