"""Certification: taken together, do groups differ from the reference by more than chance?"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, Unpack

import numpy as np

from isonomy.errors import NotEnoughData, UsageError, choose
from isonomy.frames import Groups, MetricLike
from isonomy.frames.expressions import Scalar
from isonomy.frames.metrics import Measure, canonical
from isonomy.groups import words
from isonomy.groups.disparities import MOST_GROUPS, ComparisonPlan, Given, GroupEvidence, common, names_of, read
from isonomy.groups.flag import OVERWHELMING, ROOT, common_notes, conclude_groups, estimate, large_differences
from isonomy.groups.likelihood.comparison import ComparedGroups, by_metric, stacked
from isonomy.groups.likelihood.joint import Joint, NoDifference, quadratic, welch
from isonomy.groups.likelihood.lines import Lines, MetricRows, refuse_many
from isonomy.groups.likelihood.means import IDENTITY
from isonomy.groups.likelihood.region import (
    HANDFUL,
    Region,
    automatic_factor,
    contrasts_of,
    directions,
    joint_factor,
    padded_weights,
    region_of,
    without_reference,
)
from isonomy.groups.likelihood.shapes import bootstrap_bound, boundary, implied_weights, of_groups
from isonomy.groups.likelihood.strata import all_equal
from isonomy.groups.options import MOVED, Disparities, Method, ReferenceLike, Resamples, ScaleLike
from isonomy.inference import Verdict, conclude
from isonomy.inference.decide import settle
from isonomy.inference.designs import FEWEST, Influence, JointLaw, Spread, covariance, joint_law, spread
from isonomy.inference.effect import SKEWED, SKEWED_JOINTLY
from isonomy.inference.multiplicity import adjust as adjust_pvalues
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray
from isonomy.numerics.status import Status
from isonomy.numerics.tails import chi2_isf, chi2_sf, weighted_chi2_sf
from isonomy.options import Alpha, Column, RowOptions, Seeded, Tolerance, Whole, check
from isonomy.results import POOLED, Evidence, Note, column, note_if, open_call, question, storable
from isonomy.results.evidence import as_frame
from isonomy.results.storage import OF_ROWS

if TYPE_CHECKING:
    import altair as alt

# ---- call


@question(
    "CertifyPlan",
    moved={name: place for name, place in MOVED.items() if name not in ("alternative", "interval")},
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
    positive: Scalar | None = None,
    reference: ReferenceLike = "population",
    scale: ScaleLike = "difference",
    null: Disparities | None = None,
    tolerance: Tolerance = None,
    given: Given = None,
    method: Method = "el",
    alpha: Alpha = 0.05,
    depth: Whole = 1,
    min_size: Whole = 10,
    rng: Seeded = None,
    **rows: Unpack[RowOptions],
) -> CertifyResult:
    """Taken together, do the groups differ from the reference by more than chance?

    Null hypothesis: the disparities of all tested groups equal ``null`` (by default, no difference) at once. T is the
    joint likelihood ratio, chi-square with as many degrees of freedom as there are independent estimating functions,
    minus the references that are profiled out: k groups that partition the rows have k - 1.

    Parameters
    ----------
    data, metric, groups, outcome, prediction, score, positive, reference, scale
        As in `isonomy.flag`.
    null : float, sequence of float or mapping, optional
        One disparity for all groups, one for each tested group in order, or a mapping from group labels. Default: no
        difference.
    tolerance : float, optional
        The largest disparity that does not matter. The verdict is then *violation* if abs(disparity) <= tolerance is
        rejected for some group (Holm over groups), *within tolerance* if every simultaneous interval lies inside it,
        and otherwise *inconclusive*. Without a tolerance, it is *violation* if the joint null hypothesis is rejected.
    given
        As in `isonomy.flag`.
    method : {"el", "eel", "published"} or iso.likelihood(kind, correction, ...), default "el"
        As in `isonomy.flag`. A correction applies to the joint p-value and `contains`; the intervals of the groups are
        not corrected.
    alpha : float, default 0.05
        The error rate of the test and of the simultaneous intervals.
    depth, min_size, rng
        As in `isonomy.flag`.
    **rows
        count, weight, cluster, missing, missing_group: how rows are read; see `isonomy.RowOptions`.

    Returns
    -------
    CertifyResult
        ``statistic``, ``df``, ``pvalue``, ``verdict``, and ``contains(disparities)``: membership in the joint
        confidence region. With ``given``, the table shows what the factors account for.

    Notes
    -----
    A large p-value is not proof of equal treatment. Against the population or the rest, groups that satisfy the null
    hypothesis also determine the mean of the rows in no tested group, so these rows are part of the test. If they are
    fewer than 10 (or ``min_size``, if that is less), they are left out: T then compares the tested groups with each
    other, with one degree of freedom less, and a warning says so. The same holds for a group whose values (not 0/1) are
    all equal, which do not show how its mean varies. Algorithms 1 and G.1 of the paper, with the degrees of freedom
    corrected to the rank.

    Where there is no joint likelihood, no difference is tested by the covariance of the differences: within strata
    (``given``) by the Cochran-Mantel-Haenszel statistic for all groups; for metrics that are not means over rows (f1,
    AUC, ...), and for values among several metrics, by their influence values, comparing the groups with each other
    unless the reference is a group or a number. Several metrics use the same rows: a row that one of them cannot use is
    left out of all. Standardized scales change only the intervals and the tolerance.

    When it misleads: at large n a violation without a tolerance may be too small to matter; without a correction, many
    groups of few rows make T too large.

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
    metric = canonical(metric)
    plan, rng, record = open_call("certify", CertifyPlan, locals())
    rows_read = read(plan)
    parts = plan.compare(rows_read, rng)
    columns, tests = estimate(parts, plan)
    joint, jointly = estimate_jointly(parts, columns, tests, plan, rng)
    tests |= {"null": jointly["null_disparity"]}
    columns |= decide(columns, tests, joint, plan)
    null_value = float(plan.tested_null) if isinstance(plan.tested_null, Real) else None
    return CertifyResult(
        **columns | jointly,
        **common(record, plan, parts, random=plan.correction == "bartlett" or joint.factor != 1),
        null=words.joint_null(plan, joint.region.groups, null_value),
        notes=notes(columns, tests, joint, plan, rows_read),
        likelihood="cmh" if plan.given is not None else plan.likelihood.kind if plan.likely else "covariance",
    )


# ---- plan


@dataclass(frozen=True, eq=False, kw_only=True)
class CertifyPlan(ComparisonPlan):
    """The call: one null hypothesis about all groups, simultaneous intervals, and Holm's adjustment."""

    jointly: ClassVar[bool] = True

    null: Disparities | None

    def refusals(self) -> Iterator[tuple[bool, str]]:
        method, null, several = self.likelihood, self.tested_null, len(self.measures) > 1
        equality = isinstance(null, Real) and null == self.link.equal
        yield (
            self.tolerance is not None and not equality,
            "null: a tolerance sets the null hypothesis; give only one of them.",
        )
        values = np.ravel(np.array(list(null.values()) if isinstance(null, Mapping) else null, dtype=object))
        yield (
            self.link.ratio and any(isinstance(value, Real) and value <= 0 for value in values),
            f"null: {null!r} is not allowed for scale={self.base_scale!r}; give ratios above 0 (1 is equality).",
        )
        yield method.interval != "pointwise", "interval: the intervals of certify are simultaneous; leave it out."
        yield self.correction == "adjusted", "correction: 'adjusted' is for single groups; use 'bartlett' or 'auto'."
        yield (
            self.target.to.best and not equality,
            f"null: leave it out with reference={self.reference!r}; only equal groups can be tested jointly.",
        )
        yield from ComparisonPlan.refusals(self)
        functional = [measure.name for measure in self.measures if measure.functional]
        of_several = "of several metrics that are not all 0/1" if not self.likely else ""
        what = "with given" if self.given is not None else f"of {functional[0]!r}" if functional else of_several
        yield (
            (bool(what) or self.sigma is not None) and not equality,
            f"null: leave it out; a joint test {what or 'with a standardized scale'} can only test for no difference.",
        )
        yield (
            bool(what) and (method.kind == "eel" or self.plugged_in),
            f"method: {self.method} is not available in a joint test {what}; leave it out.",
        )
        yield (
            several and (self.correction == "bartlett" or not equality),
            "metric: several metrics can be certified together only for no difference, with correction='auto' or None; "
            "otherwise test each metric separately.",
        )

    @property
    def tested_null(self) -> Disparities:
        return self.link.equal if self.null is None else self.null

    def by_covariance(self, measure: Measure) -> bool:
        """Whether the groups of one metric are tested jointly by the covariance of their differences.

        This is so if there is no joint likelihood, and for values among several metrics: their likelihood would have no
        correction for skewed groups of few rows, which the law of the other test (Welch's) covers.
        """
        several = len(self.measures) > 1
        return bool(self.given is not None or measure.functional or (several and not measure.binary))

    @property
    def likely(self) -> bool:
        return not any(map(self.by_covariance, self.measures))


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


# ---- read: see `isonomy.groups.disparities.read`

# ---- estimate


class JointTest(NamedTuple):
    """The joint test of the groups of one metric, or of several metrics; ``tested`` are its groups.

    ``test`` is the test before corrections; ``factor`` what T was divided by, NaN if a correction could not be
    computed; ``region`` the basis of confidence regions; ``spare`` the groups of the rows in no tested group, if these
    rows are left out because they are few or all equal, otherwise None.
    """

    parts: Sequence[ComparedGroups]
    tested: BoolArray
    test: Joint
    statistic: float
    pvalue: float
    region: Region | NoDifference
    factor: float = 1.0
    spare: tuple[str, ...] | None = None

    @property
    def measure(self) -> Measure:
        return self.parts[0].sums.measure

    @property
    def constrained(self) -> BoolArray:
        """The tested groups whose disparities T depends on."""
        constrained = self.tested.copy()
        constrained[np.flatnonzero(constrained)[list(self.test.left_out)]] = False
        return constrained


def estimate_jointly(
    parts: Sequence[ComparedGroups],
    columns: Mapping[str, Any],
    tests: Mapping[str, Any],
    plan: CertifyPlan,
    rng: np.random.Generator,
) -> tuple[JointTest, dict[str, Any]]:
    joints: list[JointTest] = []
    null = np.full(tests["tested"].shape, np.nan)
    for lines, each in by_metric(parts):
        tested, measure = tests["tested"][lines], each[0].sums.measure
        effective = None if columns["design"] is None else columns["design"].effective[lines]
        if not tested.any():
            if tested.size == 1:
                raise NotEnoughData("groups: everybody is in one group, which leaves nothing to compare it with.")
            which = f" by {measure.name!r}" if len(plan.measures) > 1 else ""
            few = "" if effective is None else f", fewer than {FEWEST:g} effective clusters"
            raise NotEnoughData(
                f"groups: none can be tested{which}; each has fewer than {plan.min_size} rows that count{few}, or no "
                "variation."
            )
        names = [str(columns["groups"][lines.start + i]) for i in np.flatnonzero(tested)]
        target = per_group(plan.tested_null, names, "null")
        null[lines][tested] = target
        if plan.by_covariance(measure):
            joints.append(_by_covariance(each, tested, effective, plan))
        else:
            joints.append(_by_likelihood(each, tested, effective, target, plan, rng))
    joint = joints[0] if len(joints) == 1 else _stacked(joints, columns, tests, plan)
    adjusted = adjust_pvalues([each.pvalue for each in joints], "holm")
    definitions = {
        each.measure.name: (each.statistic, each.test.df, each.pvalue, float(p))
        for each, p in zip(joints, adjusted, strict=True)
    }
    return joint, {
        "null_disparity": null,
        "definitions": definitions if len(joints) > 1 else {},
        "statistic": joint.statistic,
        "df": joint.test.df,
        "pvalue": joint.pvalue,
        "joint_status": joint.test.status,
        "region": joint.region,
    }


def _by_likelihood(
    parts: Sequence[ComparedGroups],
    tested: BoolArray,
    effective: FloatArray | None,
    target: FloatArray,
    plan: CertifyPlan,
    rng: np.random.Generator,
) -> JointTest:
    sums = parts[0].sums
    region, dropped = region_of(parts, tested, target, plan.min_size)
    joint, resamples, measured = region.test(target), plan.likelihood.resamples, 1.0
    if plan.correction == "auto":
        measured = automatic_factor(region, joint, target, plan.alpha, resamples, rng)
    elif plan.correction is not None:
        measured = joint_factor(region, joint, target, resamples, rng)
    factor = 1.0 if np.isnan(measured) else measured
    statistic = joint.statistic / factor
    result = JointTest(parts, tested, joint, statistic, 1.0, region, measured)
    if joint.df:
        result = result._replace(pvalue=float(chi2_sf(statistic, joint.df)))
    if effective is not None and sums.design is not None and joint.df:
        fewest = float(effective[result.constrained].min())
        influence = Influence.join([part.influence() for part in parts], result.constrained)
        varying = directions(covariance((sums.mass, sums.counts), influence), joint.df)
        law = joint_law(sums.design, influence, varying, fewest) if varying else JointLaw(np.ones(1), fewest)
        law = replace(law, weights=padded_weights(law.weights, joint.df))
        pvalue = law.tail(joint.statistic)
        result = result._replace(pvalue=pvalue, statistic=float(chi2_isf(pvalue, joint.df)))
        factor = law.critical(plan.alpha) / float(chi2_isf(plan.alpha, joint.df))
    groups = [str(group) for part in parts for group in part.partition.groups]
    spare = tuple(groups[i] for i in dropped) or None
    if not dropped and region.free and not plan.target.to.best:
        spare = sums.reached(region.single[region.pattern] < 0)
    # No difference does not depend on the unit, or on the rows that are dropped; other disparities do.
    if plan.sigma is not None or dropped:
        limited = NoDifference(region.groups, result.statistic, joint.df, plan.base_scale)
        return result._replace(spare=spare, region=limited)
    return result._replace(spare=spare, region=replace(region, factor=factor))


def _by_covariance(
    parts: Sequence[ComparedGroups], tested: BoolArray, effective: FloatArray | None, plan: CertifyPlan
) -> JointTest:
    sums, design = parts[0].sums, parts[0].design
    if plan.given is not None:
        rows = stacked(parts, "rows") if effective is None else effective
        places = np.split(tested, np.cumsum([len(part.size) for part in parts])[:-1])
        raw, df, pvalue = all_equal(sums, list(map(np.flatnonzero, places)), float(rows[tested].min()))
    else:
        values, added = contrasts_of(parts, tested)
        influence = Influence.from_values(added)
        raw, df = quadratic(values, covariance((sums.mass, sums.counts), influence))
        actual = quadratic(values, covariance(design, influence))[0]
        spreads = Spread.join([spread(design, without_reference(part).influence()) for part in parts])
        known = (tested | (stacked(parts, "status") == Status.REFERENCE)) & (spreads.variance > 0)
        pvalue = welch(actual, df, spreads.variance[known], spreads.df[known]) if df else 1.0
    exact = not df or (plan.given is not None and sums.design is None)
    statistic = raw if exact else float(chi2_isf(pvalue, df))
    region = NoDifference(int(tested.sum()), statistic, df, plan.base_scale)
    return JointTest(parts, tested, Joint(raw, df, np.empty(0), Status.OK), statistic, pvalue, region)


def _stacked(
    joints: Sequence[JointTest], columns: Mapping[str, Any], tests: Mapping[str, Any], plan: CertifyPlan
) -> JointTest:
    """Several metrics at once: the sum of their statistics, each corrected for small groups if necessary.

    Metrics of the same rows are dependent, so the sum is a weighted sum of chi-squares. The weights are the eigenvalues
    of the covariance of the disparities relative to what it would be for independent metrics, where they are 1. With
    weights or clusters the covariance is that of sums over clusters.
    """
    whole = joints[0].parts[0].sums.whole
    lines = 1 + max(int(joint.parts[0].sums.lines_kept.max(initial=-1)) for joint in joints)
    uncorrelated, mass = [], np.ones(lines)
    for joint in joints:
        sums, plain = joint.parts[0].sums, [replace(part, sigma=None, scale="difference") for part in joint.parts]
        if plan.by_covariance(joint.measure) or plan.target.to.best:  # groups are compared with each other
            lines_add = contrasts_of(plain, joint.tested)[1]
        else:
            refuse_many("groups", sums.mass.size, joint.tested.size)
            lines_add = np.hstack([part.influence().dense() for part in plain])[:, joint.constrained]
        spread_out = np.zeros((lines, lines_add.shape[1]))
        spread_out[sums.lines_kept] = lines_add * np.sqrt(sums.mass)[:, None]
        mass[sums.lines_kept] = sums.mass
        second = spread_out.T @ spread_out
        scale, vectors = np.linalg.eigh(second)
        varying = slice(scale.size - directions(second, joint.test.df), None)
        uncorrelated.append(spread_out @ (vectors[:, varying] / np.sqrt(scale[varying])))
    combined = np.hstack(uncorrelated)
    # With a design, the law below is that of the uncorrected statistics.
    statistics = [joint.statistic if whole is None else joint.test.statistic for joint in joints]
    statistic, df = float(sum(statistics)), sum(joint.test.df for joint in joints)
    uncorrected = float(sum(t * joint.factor for t, joint in zip(statistics, joints, strict=True)))
    factor = uncorrected / statistic if np.isfinite(statistic) and statistic > 0 else 1.0
    if whole is None:
        second = combined.T @ combined
    else:
        second = covariance(whole, Influence.from_values(combined / np.sqrt(np.maximum(mass, 1e-300))[:, None]))
    weights = padded_weights(np.maximum(np.linalg.eigvalsh(second), 0.0), df)
    pvalue = 1.0
    if df and whole is None:
        pvalue = float(weighted_chi2_sf(statistic, weights))
    elif df:
        pvalue = JointLaw(weights, float(columns["design"].effective[tests["tested"]].min())).tail(statistic)
    equivalent = float(chi2_isf(pvalue, df)) if df or whole is not None else statistic
    starts = np.cumsum([0, *(int(joint.tested.sum()) for joint in joints)])
    left_out = [int(i + start) for joint, start in zip(joints, starts, strict=False) for i in joint.test.left_out]
    status = next((joint.test.status for joint in joints if joint.test.status is not Status.OK), Status.OK)
    spare = [joint.spare for joint in joints if joint.spare is not None]
    statistic = statistic if whole is None else equivalent
    region = NoDifference(int(starts[-1]), equivalent, df, plan.base_scale)
    names = tuple(dict.fromkeys(name for group in spare for name in group)) if spare else None
    test = Joint(statistic, df, np.empty(0), status, tuple(left_out))
    return JointTest(joints[0].parts, tests["tested"], test, statistic, pvalue, region, factor, names)


# ---- decide


def decide(columns: Mapping[str, Any], tests: Mapping[str, Any], joint: JointTest, plan: CertifyPlan) -> dict[str, Any]:
    """One verdict: on the joint null hypothesis or, with a tolerance, on the p-values and intervals of the groups."""
    adjusted = adjust_pvalues(columns["pvalue"], plan.adjust, tests["same"])
    shown, status = conclude_groups(adjusted, columns, tests, plan)
    if plan.tolerance is None:
        # Without a correction that is needed, the p-value does not keep its level.
        unsure = bool(np.isnan(joint.factor)) and plan.correction == "auto"
        unsure |= bool(jointly_skewed(columns, tests, joint, plan))
        shown = conclude([np.nan if unsure else joint.pvalue], alpha=plan.alpha)
    return {"verdict": shown.verdict, "tolerance_pvalue": adjusted, "status": status}


def jointly_skewed(
    columns: Mapping[str, Any], tests: Mapping[str, Any], joint: JointTest, plan: CertifyPlan
) -> tuple[Note, ...]:
    """Why skewed metrics leave the joint test without a verdict.

    They are too skewed, on average over the tested groups, and p is not overwhelming; or a group may lack the rare
    large amounts, and p is small only by the groups' own variances.
    A likelihood that the caller wants uncorrected, or as published, is not stopped.
    """
    tested, df, pvalue = tests["tested"], joint.test.df, joint.pvalue
    if plan.likelihood.correction is None or plan.likelihood.published or plan.tolerance is not None or not df:
        return ()
    metrics, (third, variance, narrow) = np.array(columns["metrics"]), tests["moments"][:3]
    null = np.where(np.isnan(tests["null"]), plan.link.equal, tests["null"])
    with np.errstate(all="ignore"):
        squared = np.where(tested, third**2 / variance**3, np.nan)
        squares = np.where(tested, ((columns["disparity"] - null) / columns["standard_error"]) ** 2, 0.0)
        squares = np.nan_to_num(squares, posinf=0.0)
        statistic = min(float(chi2_isf(pvalue, df)), squares.sum()) * (squares @ narrow) / squares.sum()
        largest = np.fmax(pvalue, chi2_sf(statistic, df))
    if largest <= OVERWHELMING * plan.alpha / int(tested.sum()) ** ROOT:
        return ()
    means = {str(name): np.nanmean(squared[metrics == name]) for name in dict.fromkeys(metrics)}
    reasons = [("joint_skewed", SKEWED_JOINTLY)]
    if pvalue <= plan.alpha < largest:
        reasons.append(("joint_narrow", np.inf if (tested & tests["moments"].lacking).any() else SKEWED))
    for reason, rows in reasons:
        if names := [name for name, mean in means.items() if rows * mean > 1]:
            return (Note(reason, values={"metrics": ", ".join(names)}),)
    return ()


def notes(
    columns: Mapping[str, Any],
    tests: Mapping[str, Any],
    joint: JointTest,
    plan: CertifyPlan,
    rows: Sequence[MetricRows],
) -> tuple[Note, ...]:
    test, automatic, null = joint.test, plan.correction == "auto", tests["null"]
    more = [*common_notes(columns, tests, plan, rows)]
    more += jointly_skewed(columns, tests, joint, plan)
    if np.isnan(joint.factor):
        more.append(Note("uncorrected", values={"needed": automatic}))
    elif automatic and joint.factor != 1:
        more.append(Note("joint_corrected", values={"factor": joint.factor}))
    tested = np.flatnonzero(tests["tested"])
    more += note_if("joint_left_out", names_of(columns, tested[list(test.left_out)]), least=plan.min_size)
    if joint.spare is not None:
        equal = bool(((tests["status"] == Status.CONSTANT) & ~tests["tested"]).any())
        values = {"least": min(plan.min_size, HANDFUL), "tested": tested.size, "equal": equal}
        more.append(Note("joint_spare", joint.spare, values))
    equality = plan.tolerance is None and (np.isnan(null) | (null == plan.link.equal)).all()
    if equality and columns["verdict"] is Verdict.VIOLATION and not large_differences(columns, plan).any():
        more.append(Note("large_sample"))
    if test.status is not Status.OK:
        more.append(Note(words.JOINT_STATUSES.get(test.status, "joint_approximate")))
    return tuple(more)


# ---- evidence


for _part in (Lines, Region, NoDifference):
    storable(_part)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class CertifyResult(GroupEvidence):
    """One joint test of all groups, with simultaneous intervals. `to_frame` has one row per group.

    ``region`` holds the values behind `contains`: it is stored only by ``to_json(rows=True)``, and None otherwise.
    """

    decisive: ClassVar[tuple[str, ...]] = ("pvalue", "tolerance_pvalue")

    tolerance_pvalue: FloatArray = column(listed=False)
    null_disparity: FloatArray = column(listed=False, withheld=False)
    likelihood: str
    statistic: float = field(metadata=POOLED)
    df: int
    pvalue: float = field(metadata=POOLED)
    joint_status: Status
    region: Region | NoDifference | None = field(metadata=OF_ROWS)
    definitions: Mapping[str, tuple[float, int, float, float]] = field(default_factory=dict)

    def by_metric(self, backend: str | None = None) -> Any:
        """A verdict for each fairness definition, if several metrics are tested: its own joint test.

        ``adjusted_pvalue`` is adjusted over the definitions by Holm's method.
        """
        if not self.definitions:
            raise UsageError("by_metric: give several metrics to compare definitions, such as metric=['tpr', 'fpr'].")
        numbers = zip(*self.definitions.values(), strict=True)
        columns: dict[str, Any] = {"metric": list(self.definitions)}
        columns |= dict(zip(("statistic", "df", "pvalue", "adjusted_pvalue"), map(list, numbers), strict=True))
        columns["verdict"] = list(map(str, settle(columns["adjusted_pvalue"], self.alpha)))
        return as_frame(columns, backend, self.provenance.backend)

    def contains(self, disparities: Disparities) -> bool:
        """Whether the joint confidence region of level 1 - alpha contains these disparities.

        One number for all groups, one for each tested group in the order of `to_frame`, or a mapping from group labels.
        With several metrics, only no difference can be tested jointly. The degrees of freedom are the rank of the
        estimating functions at these disparities.
        """
        region = self._region("contains")
        joint = region.test(per_group(disparities, self._tested_names, "disparities"))
        return bool(joint.statistic <= (region.critical(self.alpha, joint.df) if joint.df else 0.0))

    def weights(self, group: str, backend: str | None = None) -> Any:
        """Which values of a group carry its disparity: the weighting of its rows that the null hypothesis implies.

        One line for each distinct value: ``n`` rows, each counted ``weight`` times by the likeliest weighting in which
        the joint null hypothesis holds, and the ``multiplier`` λ of the likelihood. Weights near 1 everywhere mean that
        the null hypothesis asks for little change; the rows whose weights are far from 1 stand against it.
        """
        region, place = self._likelihood("weights"), self._place(group, "group")
        answer = implied_weights(region, place, self.null_disparity[~np.isnan(self.null_disparity)])
        if answer is None:
            raise UsageError("weights: no weighting of these rows meets the null hypothesis; T is infinite.")
        columns = dict(zip(("value", "n", "weight", "multiplier"), answer, strict=True))
        return as_frame(columns, backend, self.provenance.backend)

    def projections(self, backend: str | None = None) -> Any:
        """The joint confidence region projected on each group: the interval of its disparities that the region holds.

        All of them hold at once, as do the intervals of `to_frame`, which are shorter: these also cover every contrast.
        """
        region, chosen = self._likelihood("projections"), np.flatnonzero(~np.isnan(self.null_disparity))
        ends = [self._boundary(region, np.array([j]), "projections")[:, 0] for j in range(chosen.size)]
        columns: dict[str, Any] = {"group": self._tested_names, "disparity": self.disparity[chosen]}
        columns |= dict(zip(("low", "high"), np.sort(ends, axis=1).T, strict=True))
        return as_frame(columns, backend, self.provenance.backend)

    def contour(self, first: str, second: str, backend: str | None = None) -> Any:
        """The boundary of the joint confidence region in the plane of two groups, as points around the estimates."""
        region = self._likelihood("contour")
        places = np.array([self._place(first, "first"), self._place(second, "second")])
        if places[0] == places[1]:
            raise UsageError("contour: first and second are the same group.")
        points = self._boundary(region, places, "contour")
        return as_frame(dict(zip((first, second), points.T, strict=True)), backend, self.provenance.backend)

    def bootstrap(self, resamples: Resamples = 500, rng: Seeded = None, backend: str | None = None) -> Any:
        """The simultaneous region of Cherian and Candès (2024), with which the paper compares its own.

        The reference counts as known. As published, the quantile is that of the largest signed deviation, so the region
        covers less often than its level says: 0.89 to 0.93 at 0.95 in the paper's Table 1.
        """
        check("resamples", resamples, Resamples)
        region = self._likelihood("bootstrap")
        if region.link is not IDENTITY or self.design is not None:
            raise UsageError("bootstrap: it is defined for differences of rows without weights or clusters.")
        chosen = np.flatnonzero(~np.isnan(self.null_disparity))
        bound = bootstrap_bound(region, self.alpha, resamples, np.random.default_rng(rng))
        value = self.disparity[chosen]
        columns: dict[str, Any] = {"group": self._tested_names, "disparity": value}
        columns |= {"low": value - bound, "high": value + bound}
        return as_frame(columns, backend, self.provenance.backend)

    @property
    def _tested_names(self) -> list[str]:
        return [label for label, null in zip(self.names, self.null_disparity, strict=True) if not np.isnan(null)]

    def _place(self, group: str, argument: str) -> int:
        return self._tested_names.index(choose(argument, group, self._tested_names))

    def _region(self, method: str) -> Region | NoDifference:
        if self.region is None:
            if Status.SUPPRESSED in self.status:
                raise UsageError(f"{method}: the rows behind this result are withheld with the small groups.")
            raise UsageError(
                f"{method}: the rows behind this result are not stored with it; keep the result in memory, or store it "
                "with to_json(rows=True)."
            )
        return self.region

    def _likelihood(self, method: str) -> Region:
        region = self._region(method)
        if not isinstance(region, Region) or region.method != "el":
            raise UsageError(
                f"{method}: this needs the empirical likelihood of one metric that is a mean, without given; the test "
                f"here is {self.likelihood!r}."
            )
        return region

    def _boundary(self, region: Region, places: IntArray, method: str) -> FloatArray:
        """Where the joint region ends for one or two groups, from the estimates outwards."""
        if region.rest and region.groups > 2:
            raise UsageError(
                f"{method}: disparities against the rest have no joint region; use reference='population'."
            )
        if not self.df > 0:
            raise UsageError(f"{method}: a joint test with 0 degrees of freedom has no region.")
        chosen = np.flatnonzero(~np.isnan(self.null_disparity))[places]
        spread = np.maximum(self.ci_high[chosen] - self.disparity[chosen], self.disparity[chosen] - self.ci_low[chosen])
        return boundary(of_groups(region, places), self.disparity[chosen], spread, region.critical(self.alpha, self.df))

    @property
    def tested(self) -> str:
        """The null hypothesis in words, if it is neither equality nor a tolerance."""
        values = np.unique(self.null_disparity[~np.isnan(self.null_disparity)])
        if self.tolerance is not None or (values == self.link.equal).all():
            return ""
        return words.null_phrase(self, values[0], values[0], "") if values.size == 1 else "the tested disparities"

    def headline(self) -> str:
        if self.tested and self.answered:
            return words.other_null_verdict(self, self.tested)
        return Evidence.headline(self)

    def findings(self) -> tuple[str, ...]:
        """The joint statistic (with a tolerance, the intervals first), the largest difference, then strata."""
        known = np.flatnonzero(~np.isnan(self.ci_low))
        away = np.abs(self.link.delta(self.disparity))
        furthest = known[np.argsort(-away[known], kind="stable")].tolist()
        largest = [words.largest_finding(self, i) for i in furthest[:1]]
        decided = [words.certify_finding(self), *words.definitions(self), *largest]
        if self.tolerance is not None:
            decided = [words.tolerance_finding(self, known.tolist()), *largest, decided[0], words.TOLERANCE_DECIDES]
        accounts = [words.accounts(self, i) for i in furthest[:MOST_GROUPS] if self.given]
        return (*decided, *words.alone(self), *accounts, *words.banded(self))

    def plot(self) -> alt.TopLevelMixin:
        """Intervals by group, sorted, with the null hypothesis and the tolerance.

        The color shows whether a simultaneous interval lies beyond the null (or the tolerance), within the tolerance,
        or neither.
        """
        from isonomy.groups.charts import certified

        return certified(self)

    def suppressed(self, minimum: int, also: Collection[str] = ()) -> Self:
        """A copy without the rows behind `contains`, and without the numbers of small groups and those in ``also``."""
        hidden = GroupEvidence.suppressed(self, minimum, also)
        withheld = bool(self.pooled_numbers()) and not hidden.pooled_numbers()  # the correction is that of all groups
        notes = tuple(note for note in self.notes if not (withheld and note.code == "joint_corrected"))
        definitions = {} if Status.SUPPRESSED in hidden.status else self.definitions
        return replace(hidden, region=None, notes=notes, definitions=definitions)
