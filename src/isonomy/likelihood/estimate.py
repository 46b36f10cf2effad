"""Every group beside its reference: effects, p-values and intervals by its likelihood; and all groups jointly."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from isonomy.errors import NotEnoughData, UsageError
from isonomy.frames import Group, Partition
from isonomy.likelihood.plan import Correction, Plan, Reference, To, per_group
from isonomy.likelihood.ratio.correction import Adjusted, Corrected, bartlett_factor, joint_factor, plugged
from isonomy.likelihood.ratio.disparity import Likelihood, Part, Parts, Rescaled, intervals
from isonomy.likelihood.ratio.euclid import Euclidean
from isonomy.likelihood.ratio.joint import Joint
from isonomy.likelihood.ratio.means import Binary, Real
from isonomy.likelihood.ratio.overlap import Overlapping, Pair
from isonomy.likelihood.ratio.profile import Kind, Profile
from isonomy.likelihood.ratio.region import HANDFUL, Region, patterned
from isonomy.likelihood.tally import Tally
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray, ObjectArray
from isonomy.numerics.status import Status
from isonomy.numerics.tails import chi2_sf

# Tested groups up to which the other treatment of the reference is worked out for comparison.
CONTRASTED = 20_000


@dataclass(frozen=True, slots=True, eq=False)
class Estimates:
    """All groups in order; T, p-values and intervals are NaN for those that are not tested.

    ``status`` says which can be tested; ``uncorrected`` are those whose Bartlett factor could not be had; ``contrast``
    has the p-values with the reference's error treated the other way, None where there is no other way.
    """

    groups: tuple[Group, ...]
    size: FloatArray
    n: FloatArray
    estimate: FloatArray
    reference: FloatArray
    disparity: FloatArray
    standard_error: FloatArray
    statistic: FloatArray
    pvalue: FloatArray
    low: FloatArray
    high: FloatArray
    status: ObjectArray
    tested: BoolArray
    uncorrected: tuple[str, ...]
    contrast: FloatArray | None


@dataclass(frozen=True, slots=True, eq=False)
class JointEstimates:
    """The joint test of all groups that ``each`` can be tested, at the disparities ``null``.

    ``corrected`` is False if a correction was asked for and could not be had; ``spare`` are the groups of rows that
    are in no tested group, where these are too few to be part of the test, else None.
    """

    each: Estimates
    region: Region
    null: FloatArray
    joint: Joint
    statistic: float
    pvalue: float
    corrected: bool
    spare: tuple[str, ...] | None


@dataclass(frozen=True, slots=True, eq=False)
class _Side:
    """The groups of one partition, their references and what can be tested; ``own`` has one group more, of all other
    rows, so that a group and its rest are all rows."""

    partition: Partition
    size: FloatArray
    own: Binary | Real
    reference: FloatArray
    status: ObjectArray

    @property
    def codes(self) -> IntArray:
        return np.where(self.partition.codes < 0, len(self.partition.groups), self.partition.codes)

    @property
    def tested(self) -> IntArray:
        # A constant 0/1 group still has a binomial likelihood; constant numbers have no likelihood to speak of.
        able = (Status.OK, Status.CONSTANT) if isinstance(self.own, Binary) else (Status.OK,)
        return np.flatnonzero(np.isin(self.status, able))


@dataclass(frozen=True, slots=True, eq=False)
class _Solver:
    """Which likelihood is formed, of the rows of which tally, against which reference."""

    sums: Tally
    reference: Reference
    method: str
    correction: Correction | None
    resamples: int
    rng: np.random.Generator

    @property
    def rows(self) -> float:
        """Rows inside the metric's condition."""
        return float(self.sums.mass.sum())

    def parts(self, sides: list[_Side]) -> Parts:
        """The likelihoods of all groups that can be tested."""
        starts = np.cumsum([0, *(len(side.partition.groups) for side in sides)])
        parts = [
            (positions + start, likelihood)
            for side, start in zip(sides, starts, strict=False)
            for positions, likelihood in self._parts(side)
            if positions.size
        ]
        estimate = np.concatenate([side.own.mean[: side.status.size] for side in sides])
        return Parts.together(estimate - np.concatenate([side.reference for side in sides]), parts)

    def _parts(self, side: _Side) -> list[Part]:
        tested, own = side.tested, side.own
        if not self.reference.joint:
            return [(tested, self._of(Profile(Kind.FIXED, own, tested, theta=side.reference[tested])))]
        if self.reference.to in (To.POPULATION, To.REST):
            kind = Kind.NESTED if self.reference.to is To.POPULATION else Kind.DISJOINT
            return [(tested, self._of(Profile(kind, own, tested, other=own.rest(), other_index=tested)))]
        if self.reference.estimate is None:
            return self._against_group(side)
        if not tested.size:
            return []
        units, lines = self.sums.lines.standard(self.sums.inside)
        value = float(units.standard(np.array(self.reference.estimate.value)))
        inside, pairs = self.sums.mass > 0, []
        for group in tested:
            # All rows: their influence values count whether or not they are in the group.
            codes, distinct = lines.collapsed(((side.partition.codes == group) & inside).astype(np.intp))
            pairs.append(Pair(distinct.patterns(codes, 2), np.array([0.0, 1.0]), np.zeros(2), value))
        return [(tested, Rescaled(Overlapping(tuple(pairs), self.method), units.scale))]

    def _of(self, problem: Profile) -> Likelihood:
        """The likelihood asked for, of the problems in ``problem``."""
        if self.method == "eel":
            return Euclidean(problem, self.rows)
        if self.correction == "bartlett":
            return Corrected(problem, bartlett_factor(problem, self.resamples, self.rng))
        return Adjusted(problem) if self.correction == "adjusted" else problem

    def _against_group(self, side: _Side) -> list[Part]:
        """A named reference: apart from the group, around it, within it, or partly overlapping it."""
        sums, own, tested, codes, size = self.sums, side.own, side.tested, side.codes, side.own.n.size
        assert sums.in_reference is not None
        chosen = sums.in_reference
        level = sums.means(np.where(chosen, 0, -1), 1)
        common, n, total = side.partition.sum(sums.mass * chosen)[tested], own.n[tested], level.n[0]
        apart, around, within = common == 0, (common == n) & (n > 0), common == total
        partly = ~(apart | around | within)
        parts: list[Part] = []
        first = np.zeros(size, dtype=np.intp)
        if apart.any():
            which = tested[apart]
            problem = Profile(Kind.DISJOINT, own, which, other=level, other_index=first[which])
            parts.append((which, self._of(problem)))
        if around.any():
            which, inside = tested[around], sums.means(np.where(chosen, codes, -1), size)
            problem = Profile(Kind.NESTED, inside, which, other=inside.rest(), other_index=which)
            parts.append((which, self._of(problem)))
        if within.any():
            which, beyond = tested[within], sums.means(np.where(chosen, -1, codes), size)
            problem = Profile(Kind.NESTED, level, first[which], other=beyond, other_index=which)
            parts.append((which, Rescaled(self._of(problem), -1.0)))
        if partly.any():
            if self.correction is not None:
                raise UsageError("correction: not available for a reference that overlaps a group in part.")
            units, lines = sums.lines.standard(sums.inside)
            pairs = []
            for group in tested[partly]:
                # By which of the two they are in; rows in neither drop out.
                pattern = (codes == group).astype(np.intp) + 2 * chosen - 1
                pairs.append(Pair(lines.patterns(pattern, 3), np.array([1.0, 0.0, 1.0]), np.array([0.0, 1.0, 1.0])))
            parts.append((tested[partly], Rescaled(Overlapping(tuple(pairs), self.method, self.rows), units.scale)))
        return parts


def estimate(sums: Tally, plan: Plan, rng: np.random.Generator) -> Estimates:
    """Set every group beside its reference, and test it."""
    return _tested(plan, _Solver(sums, plan.reference, plan.method, plan.correction, plan.resamples, rng))


def estimate_joint(sums: Tally, plan: Plan, rng: np.random.Generator) -> JointEstimates:
    """Test all groups at once; their own intervals are not corrected."""
    each = _tested(plan, _Solver(sums, plan.reference, plan.method, None, plan.resamples, rng), contrasted=False)
    tested = np.flatnonzero(each.tested)
    if not tested.size:
        raise NotEnoughData(
            f"groups: none can be tested; each has fewer than min_size={plan.min_size} rows or no variation."
        )
    region = _region(sums, plan, each)
    null = np.full(each.n.shape, np.nan)
    target = per_group(plan.null, [str(each.groups[i]) for i in tested], "null")
    null[tested] = target
    joint = region.test(target)
    measured = joint_factor(region, joint, target, plan.resamples, rng) if plan.correction else 1.0
    factor = 1.0 if np.isnan(measured) else measured
    statistic = joint.statistic / factor
    pvalue = float(chi2_sf(statistic, joint.df)) if joint.df else 1.0
    spare = _holding(sums, region.spare) if region.free else None
    region = replace(region, factor=factor)
    return JointEstimates(each, region, null, joint, statistic, pvalue, not np.isnan(measured), spare)


def _tested(plan: Plan, solver: _Solver, *, contrasted: bool = True) -> Estimates:
    sides = [_side(solver.sums, plan, i) for i in range(len(solver.sums.partitions))]
    parts = solver.parts(sides)
    tested, groups = (parts.tested, tuple(group for side in sides for group in side.partition.groups))
    statistic, pvalue, contrast = np.full(tested.shape, np.nan), np.full(tested.shape, np.nan), None
    if plan.hypothesis is not None:
        statistic, pvalue = (np.where(tested, values, np.nan) for values in plan.hypothesis.test(parts))
        pvalue = np.where(np.isnan(statistic), np.nan, pvalue)
        other = _otherwise(solver, sides, parts) if contrasted else None
        contrast = None if other is None else np.where(tested, plan.hypothesis.test(other)[1], np.nan)
    side_asked = "two-sided" if plan.hypothesis is None else plan.hypothesis.side
    low, high = intervals(parts, plan.interval, side_asked, plan.alpha, int(tested.sum()))
    inner = [(where, part.inner if isinstance(part, Rescaled) else part) for where, part in parts.parts]
    missing = [where[np.isnan(part.factor)] for where, part in inner if isinstance(part, Corrected)]
    return Estimates(
        groups=groups,
        size=np.concatenate([side.size for side in sides]),
        n=np.concatenate([side.own.n[: side.status.size] for side in sides]),
        estimate=np.concatenate([side.own.mean[: side.status.size] for side in sides]),
        reference=np.concatenate([side.reference for side in sides]),
        disparity=parts.disparity,
        standard_error=parts.standard_error,
        statistic=statistic,
        pvalue=pvalue,
        low=low,
        high=high,
        status=np.concatenate([side.status for side in sides]),
        tested=tested,
        uncorrected=tuple(str(groups[i]) for where in missing for i in where),
        contrast=contrast,
    )


def _otherwise(solver: _Solver, sides: list[_Side], parts: Parts) -> Parts | None:
    """The likelihoods with the reference's error left out if it counts, and counted (uncorrected) if it does not."""
    if solver.reference.to is To.NUMBER or not 0 < int(parts.tested.sum()) <= CONTRASTED:
        return None
    if not solver.reference.joint:
        return replace(solver, reference=replace(solver.reference, joint=True), correction=None).parts(sides)
    known = [(where, other) for where, part in parts.parts if (other := plugged(part)) is not None]
    if len(known) == len(parts.parts):
        return replace(parts, parts=tuple(known))
    return replace(solver, reference=replace(solver.reference, joint=False)).parts(sides)


def _side(sums: Tally, plan: Plan, place: int) -> _Side:
    partition, reference = sums.partitions[place], plan.reference
    groups = len(partition.groups)
    own = sums.means(np.where(partition.codes < 0, groups, partition.codes), groups + 1)
    n = own.n[:groups]
    status = np.full(groups, Status.OK, dtype=object)
    status[own.variance[:groups] <= 0] = Status.CONSTANT
    status[n < plan.min_size] = Status.TOO_SMALL
    if reference.to in (To.POPULATION, To.REST):
        status[n == own.n.sum()] = Status.REFERENCE
    elif sums.in_reference is not None:
        mass = sums.mass * sums.in_reference
        status[(partition.sum(mass) == n) & (n == mass.sum())] = Status.REFERENCE
    status[n == 0] = Status.EMPTY
    return _Side(partition, sums.sizes[place], own, _values(sums, own, reference)[:groups], status)


def _values(sums: Tally, own: Binary | Real, reference: Reference) -> FloatArray:
    """The reference's value for each group."""
    if reference.number is not None:
        return np.full(own.n.size, reference.number)
    if reference.estimate is not None:
        return np.full(own.n.size, reference.estimate.value)
    totals = own.n * np.nan_to_num(own.mean)
    with np.errstate(invalid="ignore", divide="ignore"):
        if reference.to is To.REST:
            return (totals.sum() - totals) / (own.n.sum() - own.n)
        if reference.to is To.POPULATION:
            return np.full(own.n.size, totals.sum() / own.n.sum())
    assert sums.in_reference is not None
    mass = sums.mass * sums.in_reference
    return np.full(own.n.size, float(mass @ sums.lines.value / mass.sum()))


def _region(sums: Tally, plan: Plan, each: Estimates) -> Region:
    """Lines by which tested groups, and the reference, they belong to, in units of their own."""
    position = np.where(each.tested, np.cumsum(each.tested) - 1, -1)
    start, codes = 0, []
    for partition in sums.partitions:
        size = len(partition.groups)
        # Lines outside every tested group of this partition share one code.
        code = np.append(position[start : start + size], -1)[partition.codes]
        codes.append(code if sums.inside is None else np.where(sums.inside, code, -1))
        start += size
    chosen = np.zeros(sums.lines.value.size) if sums.in_reference is None else sums.in_reference
    pattern, slots, referent = patterned(codes, chosen.astype(np.intp))
    reference, joint = plan.reference, plan.reference.joint
    if reference.to in (To.POPULATION, To.REST):
        spare = float(sums.mass[slots.max(axis=1, initial=-1)[pattern] < 0].sum())
        referent = np.full(referent.size, 0.0 if 0 < spare < min(plan.min_size, HANDFUL) else 1.0)
    units, lines = sums.lines.standard(sums.inside)
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
