"""Groups and their references: their means, which groups can be tested, and by which likelihood."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from isonomy.errors import UsageError
from isonomy.frames import Design, Partition
from isonomy.groups.likelihood.lines import ENTRIES, Lines, MetricRows, Units
from isonomy.groups.likelihood.means import Binary, Means, Real
from isonomy.groups.likelihood.overlap import Overlapping, Pair, Sigma, StandardizedContrast
from isonomy.groups.likelihood.profile import (
    IDENTITY,
    LOGIT,
    Kind,
    Link,
    ProfileLikelihood,
    gathered,
    linked,
    odds_in_whole,
)
from isonomy.groups.likelihood.reference import Reference, To
from isonomy.groups.likelihood.strata import CROWDED, Scale, Strata, Stratified, StratifiedLines, strata_influence
from isonomy.groups.likelihood.variants import Adjusted, Corrected, Euclidean, bartlett_factor
from isonomy.inference.designs import Influence, Law, Spread, covariance, spread
from isonomy.inference.effect import AgainstBest, Designed, Effect, Part, Parts, Rescaled, every_pair
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray, ObjectArray
from isonomy.numerics.ragged import Ragged
from isonomy.numerics.status import Status


def able_groups(status: ObjectArray) -> BoolArray:
    """Which groups can be tested, constant ones included."""
    return np.asarray((status == Status.OK) | (status == Status.CONSTANT), dtype=bool)


def pair_effect(
    design: Design, influence: Influence, variance: FloatArray, first: IntArray, second: IntArray
) -> tuple[FloatArray, Spread]:
    """The design effect on differences of two groups, which are dependent if clusters have rows in both.

    ``variance`` is the assumed variance of each group's estimate. Also returns the spread of each group.
    """
    joint, totals = covariance(design, influence), spread(design, influence)
    actual = joint[first, first] + joint[second, second] - 2.0 * joint[first, second]
    assumed = variance[first] + variance[second]
    with np.errstate(all="ignore"):
        return np.where(assumed > 0, actual / assumed, (totals.squared_mass / totals.mass)[first]), totals


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """The groups of one partition, their references and what can be tested.

    ``means`` has one more group for all other rows, so that a group and its rest are all rows. Within strata
    ``estimate`` and ``reference`` are adjusted.
    """

    partition: Partition
    size: FloatArray
    rows: FloatArray
    means: Binary | Real
    estimate: FloatArray
    reference: FloatArray
    status: ObjectArray
    strata: Strata | None = None

    @property
    def tested(self) -> IntArray:
        """The groups that can be tested."""
        # A constant 0/1 group still has a binomial likelihood; constant numbers have none.
        return np.flatnonzero(able_groups(self.status) if isinstance(self.means, Binary) else self.status == Status.OK)

    @property
    def units(self) -> Units:
        """The units in which groups that are means of value + influence are compared."""
        n, mean, variance = (part[self.means.n > 0] for part in (self.means.n, self.means.mean, self.means.variance))
        spread = float(np.sqrt(np.average(variance, weights=n)))
        return Units.spanning(float(np.average(mean, weights=n)), spread)


def _group_means(sums: MetricRows, codes: IntArray, size: int) -> Binary | Real:
    """The means of groups; for a metric that is not a mean over rows, means of value + influence."""
    if not sums.measure.functional:
        return sums.means(codes, size)
    values = np.zeros(codes.size)
    for group in range(size):
        value, influence = sums.evaluate(codes == group)
        values[codes == group] = np.nan_to_num(value) + influence
    return Real(Ragged.from_codes(codes, size, values, weights=sums.lines.weight))


def _reference_values(
    sums: MetricRows, means: Binary | Real, reference: Reference, able: BoolArray, codes: IntArray
) -> FloatArray:
    """The reference's value for each group."""
    size = means.n.size
    if reference.to.best:
        highest = reference.to is To.HIGHEST
        candidates = means.mean[: able.size][able]
        return np.full(size, (candidates.max() if highest else candidates.min()) if candidates.size else np.nan)
    if reference.value is not None:
        return np.full(size, reference.value)
    if sums.measure.functional:
        if reference.to is To.REST:
            return np.array([sums.evaluate(codes != group)[0] for group in range(size)])
        return np.full(size, sums.evaluate(_referents(sums, reference, codes >= 0))[0])
    totals = means.n * np.nan_to_num(means.mean)
    with np.errstate(invalid="ignore", divide="ignore"):
        if reference.to is To.REST:
            return (totals.sum() - totals) / (means.n.sum() - means.n)
        if reference.to is To.POPULATION:
            return np.full(size, totals.sum() / means.n.sum())
    assert sums.in_reference is not None
    mass = sums.mass * sums.in_reference
    return np.full(size, float(mass @ sums.lines.value / mass.sum()))


def _referents(sums: MetricRows, reference: Reference, group: BoolArray) -> BoolArray:
    """The lines of the reference of a group with these lines."""
    if reference.to is To.REST:
        return ~group
    return np.ones_like(group) if sums.in_reference is None else sums.in_reference


def _side(sums: MetricRows, place: int, reference: Reference, link: Link, scale: Scale, min_size: int) -> Side:
    """The groups of the partition at ``place``, and their reference."""
    partition, counts = sums.partitions[place], sums.counts
    groups, n = len(partition.groups), partition.sum(counts)
    codes = np.where(partition.codes < 0, groups, partition.codes)
    means = _group_means(sums, codes, groups + 1)
    status = np.full(groups, Status.OK, dtype=object)
    status[means.variance[:groups] <= 0] = Status.CONSTANT
    status[n < min_size] = Status.TOO_SMALL
    if reference.to in (To.POPULATION, To.REST):
        weighing = counts * (sums.mass > 0)  # rows without weight are not compared with
        status[partition.sum(weighing) == weighing.sum()] = Status.REFERENCE
    elif reference.to.best:
        if int(able_groups(status).sum()) < 2:
            status[status == Status.OK] = Status.REFERENCE
    elif sums.in_reference is not None:
        chosen = counts * sums.in_reference
        status[(partition.sum(chosen) == n) & (n == chosen.sum())] = Status.REFERENCE
    values = _reference_values(sums, means, reference, able_groups(status), codes)[:groups]
    status[able_groups(status) & ~link.comparable(values)] = Status.ZERO_BASELINE
    if sums.measure.functional:
        undefined = np.isnan([sums.evaluate(codes == group)[0] for group in range(groups)])
        status[able_groups(status) & (undefined | np.isnan(values))] = Status.UNSUPPORTED
    status[means.n[:groups] == 0] = Status.EMPTY
    if sums.strata is None:
        return Side(partition, sums.sizes[place], n, means, means.mean[:groups], values, status)
    pairs = StratifiedLines.of_groups(sums, partition).strata
    adjusted, able = pairs.adjusted(scale), able_groups(status)
    status[able & ~link.comparable(adjusted[1])] = Status.ZERO_BASELINE
    # Only rows in strata with two sides count, on either side.
    shared = [pairs.total(rows * pairs.informative) for rows in (pairs.n1, pairs.n0)]
    status[able & (np.minimum(*shared) < min_size)] = Status.TOO_SMALL
    status[able & (pairs.total(pairs.weight) == 0)] = Status.UNSUPPORTED
    if sums.design is not None:
        status[able & (pairs.crowding(scale) > CROWDED)] = Status.UNSUPPORTED
    return Side(partition, sums.sizes[place], n, means, *adjusted, status, pairs)


@dataclass(frozen=True, slots=True, eq=False)
class Solver:
    """The likelihoods of one metric's groups, against a reference."""

    sums: MetricRows
    reference: Reference
    method: str
    correction: str | None
    resamples: int
    rng: np.random.Generator
    link: Link = IDENTITY
    scale: Scale = "difference"
    sigma: Sigma | None = None
    scored: bool = False
    sides: list[Side] = field(default_factory=list)

    def with_sides(self, min_size: int) -> Solver:
        """The same, with the groups of every partition and their references."""
        places = range(len(self.sums.partitions))
        return replace(
            self, sides=[_side(self.sums, i, self.reference, self.link, self.scale, min_size) for i in places]
        )

    def with_reference_error(self, counted: bool) -> Solver:
        """The same, with the reference's error taken into account or not."""
        return replace(self, reference=replace(self.reference, joint=counted))

    def disparity(self) -> FloatArray:
        """The estimated disparities of all groups."""
        within = [side.strata.estimate(self.scale) for side in self.sides if side.strata is not None]
        if within:
            return np.concatenate(within)
        estimate = np.concatenate([side.means.mean[: side.status.size] for side in self.sides])
        disparity = self.link.compared(estimate, np.concatenate([side.reference for side in self.sides]))
        if self.sigma is None:
            return disparity
        with np.errstate(divide="ignore", invalid="ignore"):
            return disparity / np.concatenate([self.deviation(side) for side in self.sides])

    def influence(self, side: Side) -> Influence:
        """The influence of each line on the disparities of one partition's groups."""
        sums, means, reference, groups = self.sums, side.means, self.reference, len(side.partition.groups)
        if side.strata is not None:
            return strata_influence(sums, side.partition, self.scale)
        if sums.measure.functional:
            return self._functional_influence(side)
        if self.sigma is not None and not reference.to.best:
            return self._standardized_influence(side)
        value, inside = sums.lines.value, sums.mass > 0
        codes = np.where(inside, side.partition.codes, -1)
        with np.errstate(all="ignore"):
            within = (value - means.mean[codes]) / means.n[codes]
        if not reference.joint or reference.to.best:
            return Influence.from_groups(codes, within, groups)
        if reference.to is To.REST:
            # A line outside the group has -(x - m) / V, with m and V the mean and the mass of the rest. The base, of
            # x - center and 1, is the same for all lines; the group's lines have their excess subtracted again.
            total = means.n * np.nan_to_num(means.mean)
            center = float(total.sum() / means.n.sum())
            with np.errstate(all="ignore"):
                others = means.n.sum() - means.n
                mean = ((total.sum() - total) / others)[:groups]
            others = np.where(others > 0, others, np.nan)[:groups]
            base = np.where(inside[:, None], np.column_stack([value - center, np.ones(value.size)]), 0.0)
            loading = np.stack([-1.0 / others, (mean - center) / others])
            within = within + (value - mean[codes]) / others[codes]
            return Influence.from_groups(codes, within, groups, base, loading, inside)
        if reference.estimate is not None:
            assert sums.lines.influence is not None
            reached = np.ones(value.size, dtype=bool)
            base = sums.lines.influence / sums.lines.mass.sum()
        else:
            reached = inside if sums.in_reference is None else inside & sums.in_reference
            mass = sums.mass[reached]
            base = np.where(reached, (value - np.average(value[reached], weights=mass)) / mass.sum(), 0.0)
        return Influence.from_groups(codes, within, groups, base[:, None], np.full((1, groups), -1.0), reached)

    def _functional_influence(self, side: Side) -> Influence:
        """The influence of each line on the disparities, for a metric that is not a mean over rows."""
        groups, alone = len(side.partition.groups), not self.reference.joint or self.reference.to.best
        values = np.zeros((side.partition.codes.size, groups))
        members = np.zeros(values.shape, dtype=bool)
        for g in range(groups):
            group = side.partition.codes == g
            values[group, g] = self.sums.evaluate(group)[1] / max(float(self.sums.mass[group].sum()), 1e-300)
            members[:, g] = group
            if not alone:
                others = _referents(self.sums, self.reference, group)
                members[:, g] |= others
                values[others, g] -= self.sums.evaluate(others)[1] / float(self.sums.mass[others].sum())
        return Influence.from_values(values, members)

    def _standardized_influence(self, side: Side) -> Influence:
        """The influence of each line on the standardized differences."""
        codes, groups = side.partition.codes, len(side.partition.groups)
        if codes.size * groups > ENTRIES:
            raise UsageError(
                f"scale: 'standardized' with weight or cluster needs {codes.size:,} rows for each of {groups:,} "
                "groups, which is too much; test fewer groups at a time."
            )
        fitted = [self._standardized(side, g).fit()[3] / self.sums.mass.sum() for g in range(groups)]
        return Influence.from_values(np.nan_to_num(np.column_stack(fitted)), codes[:, None] == np.arange(groups))

    def _standardized(self, side: Side, group: int, other: int | None = None) -> StandardizedContrast:
        """A group and its reference, or another group, on the scale of σ, which may be that of a named reference."""
        rows, number, unit = side.partition.codes == group, self.reference.number, None
        if self.sigma != "pooled":
            unit = self.sums.in_reference if self.sigma == "reference" else np.ones(rows.size, dtype=bool)
        if other is not None:
            referents: BoolArray | float = side.partition.codes == other
        else:
            referents = _referents(self.sums, self.reference, rows) if number is None else float(number)
        return StandardizedContrast(self.sums.lines.value, self.sums.mass, rows, referents, unit)

    def deviation(self, side: Side) -> FloatArray:
        """The σ of each group's disparity."""
        groups, best = range(len(side.partition.groups)), self.reference.to.best
        return np.array([self._standardized(side, g, g if best else None).fit()[2] for g in groups])

    def parts(self, side: Side) -> list[Part]:
        """The likelihoods of the groups of one partition that can be tested."""
        tested, reference = side.tested, self.reference
        if side.strata is not None:
            return [(tested, Stratified(side.strata, self.scale, tested))]
        if reference.to.best and reference.joint:
            if tested.size < 2:
                return []
            first, second = every_pair(tested.size)
            pairs = self.pair(side, tested[first], tested[second])
            return [(tested, AgainstBest(pairs, first, 1.0 if reference.to is To.HIGHEST else -1.0))]
        if self.sigma is not None:
            contrasts = tuple(self._standardized(side, int(g)) for g in tested)
            return [(tested, Overlapping(contrasts, self.method))]
        if not reference.joint:
            known = ProfileLikelihood(Kind.FIXED, side.means, tested, theta=side.reference[tested])
            return [(tested, self._likelihood(known))]
        if not tested.size:
            return []
        if self.sums.measure.functional:
            members = [(int(g), side.partition.codes == g) for g in tested]
            pairs_ = [self._functional(side, g, _referents(self.sums, reference, rows)) for g, rows in members]
            return [(tested, self._overlapping(pairs_, side.units, None))]
        if reference.to in (To.POPULATION, To.REST):
            kind = Kind.NESTED if reference.to is To.POPULATION else Kind.DISJOINT
            return [(tested, self._compared(kind, side.means, tested, side.means.rest(), tested))]
        if reference.estimate is None:
            return self._against_group(side)
        units, lines = self.sums.lines.standard(self.sums.inside)
        value = float(units.standard(np.array(reference.estimate.value)))
        # All rows: their influence values count whether or not they are in the group.
        inside = [(side.partition.codes == group) & (self.sums.mass > 0) for group in tested]
        pairs_ = [self._with_influence(lines, rows, value, units) for rows in inside]
        return [(tested, self._overlapping(pairs_, units, None))]

    def _with_influence(self, lines: Lines, group: BoolArray, value: float, units: Units) -> Pair:
        """A group against a reference with influence values."""
        codes, distinct = lines.collapsed(group.astype(np.intp))
        return Pair(distinct.patterns(codes, 2), np.array([0.0, 1.0]), np.zeros(2), value, self.link, units.zero)

    def _functional(self, side: Side, group: int, referents: BoolArray) -> Pair:
        """A group's value + influence against a reference with influence values, which may share rows."""
        sums, rows, units = self.sums, side.partition.codes == group, side.units
        value, influence = sums.evaluate(rows)
        other, on_other = sums.evaluate(referents)
        values, influences = np.zeros(rows.size), np.zeros(rows.size)
        values[rows] = units.standard(value + influence)
        influences[referents] = on_other * sums.mass.sum() / sums.mass[referents].sum()
        lines = Lines(False, values, sums.lines.weight, influences / units.scale)
        return self._with_influence(lines, rows, float(units.standard(np.array(other))), units)

    def _overlapping(self, pairs: Sequence[Pair], units: Units, rows: float | None) -> Effect:
        """Pairs solved in units of their own, in which a ratio does not change."""
        effect = Overlapping(tuple(pairs), self.method, rows)
        return Rescaled(effect, units.scale) if self.link is IDENTITY else effect

    def _compared(self, kind: Kind, means: Binary | Real, group: IntArray, other: Means, partner: IntArray) -> Effect:
        """The likelihood of groups against other rows, on the scale of the link."""
        if kind is Kind.NESTED and self.link is LOGIT and self.method == "el":
            assert isinstance(means, Binary)
            assert isinstance(other, Binary)
            return self._likelihood(odds_in_whole(means, group, other, partner))
        sides = linked(means, self.link), linked(other, self.link)
        return self._likelihood(ProfileLikelihood(kind, sides[0], group, other=sides[1], partner=partner))

    def _likelihood(self, problem: ProfileLikelihood) -> Effect:
        """The likelihood of the problems by the chosen method and correction."""
        if self.method == "eel":
            return Euclidean(problem, float(self.sums.mass.sum()))
        if self.correction == "bartlett":
            return Corrected(problem, bartlett_factor(problem, self.resamples, self.rng))
        if self.correction == "adjusted":
            return Adjusted(problem)
        # A plugged-in reference is the published statistic, unchanged.
        scored = self.scored and (self.reference.joint or self.reference.to is To.NUMBER)
        return problem.scoring_few() if scored else problem

    def pair(self, side: Side, first: IntArray, second: IntArray) -> Effect:
        """Pairs of groups of one partition."""
        members = list(zip(first.tolist(), second.tolist(), strict=True))
        if self.sums.measure.functional:
            codes = side.partition.codes
            pairs = self._overlapping([self._functional(side, a, codes == b) for a, b in members], side.units, None)
        elif self.sigma is not None:
            pairs = Overlapping(tuple(self._standardized(side, a, b) for a, b in members), self.method)
        else:
            pairs = self._compared(Kind.DISJOINT, side.means, first, side.means, second)
        if self.sums.design is None:
            return pairs
        with np.errstate(all="ignore"):
            variance = side.means.variance / side.means.n
        effect, totals = pair_effect(self.sums.design, self.influence(side), variance, first, second)
        return Designed(pairs, Law(effect, np.minimum(totals.effective[first], totals.effective[second]) - 1.0))

    def _against_group(self, side: Side) -> list[Part]:
        """A named reference: disjoint from the group, around it, within it, or partly overlapping it."""
        sums, means, tested, size = self.sums, side.means, side.tested, side.means.n.size
        assert sums.in_reference is not None
        chosen, codes = sums.in_reference, np.where(side.partition.codes < 0, size - 1, side.partition.codes)
        level = sums.means(np.where(chosen, 0, -1), 1)
        counts = sums.counts  # rows, not masses: sums of weights in another order may differ
        common, n = side.partition.sum(counts * chosen)[tested], side.rows[tested]
        apart, around, within = common == 0, (common == n) & (n > 0), common == float(counts[chosen].sum())
        partly = ~(apart | around | within)
        parts: list[Part] = []
        first = np.zeros(size, dtype=np.intp)
        if (which := tested[apart]).size:
            parts.append((which, self._compared(Kind.DISJOINT, means, which, level, first[which])))
        if (which := tested[around]).size:
            inside = sums.means(np.where(chosen, codes, -1), size)
            parts.append((which, self._compared(Kind.NESTED, inside, which, inside.rest(), which)))
        if (which := tested[within]).size:
            beyond = sums.means(np.where(chosen, -1, codes), size)
            parts.append((which, Rescaled(self._compared(Kind.NESTED, level, first[which], beyond, which), -1.0)))
        if (which := tested[partly]).size:
            if self.correction is not None:
                raise UsageError("correction: not available for a reference that overlaps a group in part.")
            units, lines = sums.lines.standard(sums.inside)
            mine, theirs = np.array([1.0, 0.0, 1.0]), np.array([0.0, 1.0, 1.0])
            # By which of the two they are in; rows in neither are left out.
            patterns = [lines.patterns((codes == g).astype(np.intp) + 2 * chosen - 1, 3) for g in which]
            pairs = [Pair(data, mine, theirs, link=self.link, center=units.zero) for data in patterns]
            parts.append((which, self._overlapping(pairs, units, float(sums.mass.sum()))))
        return parts


def likelihoods(solvers: Sequence[Solver]) -> Parts:
    """The likelihoods of all groups that can be tested, for all metrics."""
    parts: list[Part] = []
    start = 0
    for solver in solvers:
        for side in solver.sides:
            parts += [(where + start, effect) for where, effect in solver.parts(side) if where.size]
            start += side.status.size
    disparity = np.concatenate([solver.disparity() for solver in solvers])
    within = solvers[0].sides[0].strata is not None
    return Parts(disparity, tuple(parts)) if within else gathered(disparity, parts, solvers[0].link)
