"""All groups at once: one joint test, and the groups' own intervals beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from isonomy.errors import NotEnoughData
from isonomy.frames import Design
from isonomy.inference.designs import FEWEST, Influence, JointLaw, Spread, covariance, joint_law, spread
from isonomy.likelihood.estimate import Estimates, estimate
from isonomy.likelihood.estimate_comparison import Side, side_of
from isonomy.likelihood.estimate_given import all_equal, refuse_many
from isonomy.likelihood.estimate_likelihood import Solver
from isonomy.likelihood.plan import Plan, per_group
from isonomy.likelihood.plan_reference import Reference, To
from isonomy.likelihood.ratio import second_order
from isonomy.likelihood.ratio.contrasts import NoDifference, quadratic, welch
from isonomy.likelihood.ratio.correction import joint_factor
from isonomy.likelihood.ratio.joint import Joint
from isonomy.likelihood.ratio.links import IDENTITY
from isonomy.likelihood.ratio.region import HANDFUL, Region, Stacked, patterned, whitened
from isonomy.likelihood.tally import Tally
from isonomy.numerics.arrays import BoolArray, FloatArray
from isonomy.numerics.status import Status
from isonomy.numerics.tails import chi2_isf, chi2_sf, weighted_chi2_sf


@dataclass(frozen=True, slots=True, eq=False)
class JointEstimates:
    """The joint test of all groups that ``each`` can be tested, at the disparities ``null``.

    ``factor`` is what T was divided by, NaN if a correction was asked for, or needed, and could not be had; ``spare``
    are the groups of rows that are in no tested group, where these are too few to be part of the test or all equal,
    else None.
    """

    each: Estimates
    region: Region | Stacked | NoDifference
    null: FloatArray
    joint: Joint
    statistic: float
    pvalue: float
    factor: float
    spare: tuple[str, ...] | None


def estimate_joint(sums: Sequence[Tally], plan: Plan, rng: np.random.Generator) -> JointEstimates:
    """Test all groups at once; their own intervals are not corrected."""
    every = estimate(sums, plan, rng)
    if len(sums) == 1:
        return _jointly(sums[0], plan, every, rng)
    ends = np.cumsum([0, *(sum(len(part.groups) for part in one.partitions) for one in sums)]).tolist()
    each = [every.part(slice(start, end)) for start, end in pairwise(ends)]
    single = [_jointly(*one, rng, several=True) for one in zip(sums, plan.each, each, strict=True)]
    return _stacked(single, every, sums, plan)


def _jointly(
    sums: Tally, plan: Plan, each: Estimates, rng: np.random.Generator, *, several: bool = False
) -> JointEstimates:
    """All groups of one metric at once."""
    solver = Solver.of(sums, plan, rng)
    tested = np.flatnonzero(each.tested)
    if not tested.size:
        few = "" if each.design is None else f", fewer than {FEWEST:g} effective clusters"
        if len(each.groups) == 1:
            raise NotEnoughData("groups: everybody compared is in one group, which leaves nothing to compare it with.")
        of = f" by {plan.measure.name!r}" if several else ""
        raise NotEnoughData(
            f"groups: none can be tested{of}; each has fewer than {plan.min_size} rows that count{few}, or no "
            "variation."
        )
    null = np.full(each.n.shape, np.nan)
    target = per_group(plan.null, [str(each.groups[i]) for i in tested], "null")
    null[tested] = target
    if plan.by_covariance(several=several):
        return _without_likelihood(solver, plan, each, null)
    equal = _equal(sums, each)
    # Groups that overlap are tested without these rows; of groups that do not, the population's mean is left free.
    dropped = equal & (len(sums.partitions) > 1 and not target.any() and plan.reference.estimate is None)
    region = _region(sums, plan, each, equal, dropped)
    joint = region.test(target)
    measured = 1.0
    if plan.correction == "auto":
        measured = second_order.factor(region, joint, target, plan.alpha, plan.resamples, rng)
    elif plan.correction is not None:
        measured = joint_factor(region, joint, target, plan.resamples, rng)
    factor = 1.0 if np.isnan(measured) else measured
    statistic = joint.statistic / factor
    pvalue = float(chi2_sf(statistic, joint.df)) if joint.df else 1.0
    if sums.design is not None and each.design is not None and joint.df:
        kept = each.tested.copy()
        kept[tested[list(joint.left_out)]] = False
        parts = [solver.influence(side_of(sums, plan, i)) for i in range(len(sums.partitions))]
        effective = float(each.design.effective[kept].min())
        influence = Influence.together(parts, kept)
        varying = _directions(covariance(_independent(sums), influence), joint.df)
        law = joint_law(sums.design, influence, varying, effective) if varying else JointLaw(np.ones(1), effective)
        law = replace(law, weights=_padded(law.weights, joint.df))
        pvalue = law.tail(joint.statistic)
        statistic = float(chi2_isf(pvalue, joint.df))
        factor = law.critical(plan.alpha) / float(chi2_isf(plan.alpha, joint.df))
    spare = None
    if dropped.any():
        spare = tuple(str(each.groups[i]) for i in np.flatnonzero(each.unvaried))
    elif region.free and not plan.reference.to.best:
        spare = _holding(sums, region.spare)
    kept_region: Region | NoDifference = replace(region, factor=factor)
    # No difference is none in any unit, and in some of the rows; other disparities need the unit's own error, and all.
    if plan.sigma is not None or dropped.any():
        kept_region = NoDifference(region.groups, statistic, joint.df, plan.scale)
    return JointEstimates(each, kept_region, null, joint, statistic, pvalue, measured, spare)


def _stacked(single: Sequence[JointEstimates], each: Estimates, sums: Sequence[Tally], plan: Plan) -> JointEstimates:
    """Several metrics at once: the sum of their statistics, each corrected for small groups where it has to be.

    Metrics of the same rows depend on one another, so the sum is a sum of chi-squares with weights: the eigenvalues of
    the disparities' covariance, over what it would be if each metric had rows of its own (which are 1 then). With
    weights or clusters the covariance is that of sums over clusters.
    """
    influences, sizes = [], []
    lines = max(int(t.lines_kept.max(initial=-1)) for t in sums) + 1
    mass = np.ones(lines)
    for joint, t, one in zip(single, sums, plan.each, strict=True):
        solver = Solver(t, one.reference, one.method, None, one.resamples, np.random.default_rng(0))
        kept = joint.each.tested.copy()
        kept[np.flatnonzero(kept)[list(joint.joint.left_out)]] = False
        sides = [side_of(t, one, i) for i in range(len(t.partitions))]
        if one.by_covariance(several=True) or one.reference.to.best:  # groups are then compared with each other
            columns = _contrasts(solver, sides, joint.each)[1]
        else:
            refuse_many("groups", t.mass.size, kept.size)
            columns = np.hstack([solver.influence(side).dense() for side in sides])[:, kept]
        spread_out = np.zeros((lines, columns.shape[1]))
        spread_out[t.lines_kept] = columns * np.sqrt(t.mass)[:, None]
        mass[t.lines_kept] = t.mass
        influences.append(spread_out)
        sizes.append(_directions(spread_out.T @ spread_out, joint.joint.df))
    together = whitened(influences, sizes)
    # With a design the law below is that of the statistics as they are, not of their equivalents.
    parts = [
        joint.statistic if t.design is None else joint.joint.statistic for joint, t in zip(single, sums, strict=True)
    ]
    statistic, df = float(sum(parts)), sum(joint.joint.df for joint in single)
    plain = float(sum(part * joint.factor for part, joint in zip(parts, single, strict=True)))
    factor = plain / statistic if np.isfinite(statistic) and statistic > 0 else 1.0
    worst = next((joint.joint.status for joint in single if joint.joint.status is not Status.OK), Status.OK)
    starts = np.cumsum([0, *(int(joint.each.tested.sum()) for joint in single)])
    left_out = tuple(int(i + start) for joint, start in zip(single, starts, strict=False) for i in joint.joint.left_out)
    spare = [joint.spare for joint in single if joint.spare is not None]
    whole, regions = sums[0].whole, tuple(joint.region for joint in single if isinstance(joint.region, Region))
    if whole is None:
        weights = _padded(np.maximum(np.linalg.eigvalsh(together.T @ together), 0.0), df)
        pvalue = float(weighted_chi2_sf(statistic, weights)) if df else 1.0
    else:
        assert each.design is not None
        by_mass = Influence.of(together / np.sqrt(np.maximum(mass, 1e-300))[:, None])
        weights = _padded(np.maximum(np.linalg.eigvalsh(covariance(whole, by_mass)), 0.0), df)
        pvalue = JointLaw(weights, float(each.design.effective[each.tested].min())).tail(statistic) if df else 1.0
        statistic = float(chi2_isf(pvalue, df))
    likely = whole is None and len(regions) == len(single)
    groups = int(each.tested.sum())
    equivalent = statistic if whole is not None or not df else float(chi2_isf(pvalue, df))
    return JointEstimates(
        each=each,
        region=Stacked(regions, weights) if likely else NoDifference(groups, equivalent, df, plan.scale),
        null=np.concatenate([joint.null for joint in single]),
        joint=Joint(statistic, df, np.empty(0), worst, left_out),
        statistic=statistic,
        pvalue=pvalue,
        factor=factor,
        spare=tuple(dict.fromkeys(name for names in spare for name in names)) if spare else None,
    )


def _independent(sums: Tally) -> Design:
    """The rows as if they were independent of one another."""
    return Design(sums.mass, sums.mass, sums.mass, sums.counts, None)


def _directions(assumed: FloatArray, most: int) -> int:
    """In how many directions, at most ``most``, contrasts with this covariance vary."""
    return min(most, quadratic(np.zeros(len(assumed)), assumed)[1])


def _padded(weights: FloatArray, df: int) -> FloatArray:
    """One weight for each of ``df`` directions.

    A 0/1 group all of whose rows are equal has a likelihood, and so counts in T and in its degrees of freedom, but its
    rows do not say how it varies. Where several groups leave directions open in this way, these have the mean weight.
    """
    return np.append(weights, np.full(df - weights.size, weights.mean() if weights.size else 1.0))


def _contrasts(solver: Solver, sides: list[Side], each: Estimates) -> tuple[FloatArray, FloatArray]:
    """What is 0 if no group differs, of a metric that is no mean over rows; and what each line adds to it.

    Against a group or a number, the groups' differences from it. Else the groups of a partition are set beside the
    first of them: whether the value of all rows together follows from theirs depends on the metric.
    """
    values, columns, start = [], [], 0
    for side in sides:
        size = side.status.size
        tested = np.flatnonzero(each.tested[start : start + size])
        refuse_many("groups", side.partition.codes.size, size)
        among = tested.size > 1 and solver.reference.to not in (To.GROUP, To.NUMBER)
        influences, estimate = (
            (_lone(solver) if among else solver).influence(side).dense()[:, tested],
            each.estimate[start : start + size][tested],
        )
        if among:
            values.append(estimate[1:] - estimate[0])
            columns.append(influences[:, 1:] - influences[:, :1])
        else:
            values.append(estimate - side.reference[tested])
            columns.append(influences)
        start += size
    return np.concatenate(values), np.hstack(columns)


def _lone(solver: Solver) -> Solver:
    """The same, for what lines add to a group's own value alone."""
    return replace(solver, reference=Reference(To.HIGHEST, True))


def _without_likelihood(solver: Solver, plan: Plan, each: Estimates, null: FloatArray) -> JointEstimates:
    """All groups at once where disparities have no joint likelihood: by their covariance."""
    sums = solver.sums
    sides = [side_of(sums, plan, i) for i in range(len(sums.partitions))]
    ends = np.cumsum([side.status.size for side in sides])[:-1]
    tested = [np.flatnonzero(part) for part in np.split(each.tested, ends)]
    rows = each.n if each.design is None else each.design.effective
    effective = float(rows[each.tested].min())
    if plan.given:
        raw, df, pvalue = all_equal(sums, tested, effective)
    else:
        values, columns = _contrasts(solver, sides, each)
        independent = _independent(sums)
        raw, df = quadratic(values, covariance(independent, Influence.of(columns)))
        design = independent if sums.design is None else sums.design
        actual = quadratic(values, covariance(design, Influence.of(columns)))[0]
        own = Spread.together([spread(design, _lone(solver).influence(side)) for side in sides])
        known = (each.tested | (each.status == Status.REFERENCE)) & (own.variance > 0)
        pvalue = welch(actual, df, own.variance[known], own.df[known]) if df else 1.0
    exact = not df or (plan.given and sums.design is None)
    statistic = raw if exact else float(chi2_isf(pvalue, df))
    region = NoDifference(int(each.tested.sum()), statistic, df, plan.scale)
    joint = Joint(raw, df, np.empty(0), Status.OK)
    return JointEstimates(each, region, null, joint, statistic, pvalue, 1.0, None)


def _equal(sums: Tally, each: Estimates) -> BoolArray:
    """Lines of groups that are not tested because all their rows are equal; those of a reference that was named aside.

    Where the other groups have the mean of the population, so have they, and a likelihood takes that mean as known
    exactly: a group in which nobody happens to have lost anything would contradict every other.
    """
    start, equal = 0, np.zeros(sums.lines.value.size, dtype=bool)
    for partition in sums.partitions:
        size = len(partition.groups)
        equal |= np.append(each.unvaried[start : start + size], False)[partition.codes]
        start += size
    return equal if sums.in_reference is None else equal & ~sums.in_reference


def _region(sums: Tally, plan: Plan, each: Estimates, equal: BoolArray, dropped: BoolArray) -> Region:
    """Lines, but for those ``dropped``, by which tested groups, and the reference, they belong to, in own units."""
    kept = ~dropped if dropped.any() else slice(None)
    position = np.where(each.tested, np.cumsum(each.tested) - 1, -1)
    start, codes = 0, []
    for partition in sums.partitions:
        size = len(partition.groups)
        # Lines outside every tested group of this partition share one code.
        code = np.append(position[start : start + size], -1)[partition.codes]
        codes.append(code if sums.inside is None else np.where(sums.inside, code, -1))
        start += size
    chosen = np.zeros(sums.lines.value.size) if sums.in_reference is None else sums.in_reference
    pattern, slots, referent = patterned([code[kept] for code in codes], chosen[kept].astype(np.intp))
    reference, joint = plan.reference, plan.reference.joint
    if reference.to in (To.POPULATION, To.REST):
        outside = slots.max(axis=1, initial=-1)[pattern] < 0
        few = 0 < float(sums.mass[kept][outside].sum()) < min(plan.min_size, HANDFUL)
        referent = np.full(referent.size, 0.0 if few or equal[kept][outside].any() else 1.0)
    elif reference.to.best:  # the tested groups are compared with each other
        referent = np.zeros(referent.size)
    units, lines = sums.lines.standard(sums.inside)
    weight, influence = (None if part is None else part[kept] for part in (lines.weight, lines.influence))
    lines = replace(lines, value=lines.value[kept], weight=weight, influence=influence)
    value = None if reference.estimate is None or not joint else np.array(reference.estimate.value)
    return Region(
        groups=int(each.tested.sum()),
        method=plan.method,
        lines=lines if joint else replace(lines, influence=None),
        pattern=pattern,
        slots=slots,
        referent=referent,
        theta=None if joint else units.standard(each.reference[each.tested]),
        estimate=None if value is None else float(units.standard(value)),
        rest=reference.to is To.REST,
        least=plan.min_size,
        unit=units.scale,
        centre=units.zero if plan.link is not IDENTITY else 0.0,
        scale=plan.link.name,
    )


def _holding(sums: Tally, lines: BoolArray) -> tuple[str, ...]:
    """The groups that hold any of these lines."""
    held = [
        partition.groups[code]
        for partition in sums.partitions
        for code in np.unique(partition.codes[lines & (sums.mass > 0)])
        if code >= 0
    ]
    return tuple(str(group) for group in held)
