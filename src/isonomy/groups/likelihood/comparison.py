"""Groups beside their reference: what both are means of, which groups can be tested, and by which likelihood."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from isonomy.errors import UsageError
from isonomy.frames import Design, Partition
from isonomy.groups.likelihood.correction import Adjusted, Corrected, bartlett_factor
from isonomy.groups.likelihood.disparity import AgainstBest, Designed, Likelihood, Part, Parts, Rescaled, every_pair
from isonomy.groups.likelihood.euclid import Euclidean
from isonomy.groups.likelihood.functionals import Columns, against, against_rest, alone, evaluate, pair_effect
from isonomy.groups.likelihood.lines import Lines, MetricRows, Units
from isonomy.groups.likelihood.links import IDENTITY, LOGIT, Link
from isonomy.groups.likelihood.means import Binary, Means, Real
from isonomy.groups.likelihood.overlap import Contrast, Overlapping, Pair, Sample, Sigma, Standardised
from isonomy.groups.likelihood.profile import Kind, Profile, linked, odds_in_whole
from isonomy.groups.likelihood.reference import Reference, To
from isonomy.groups.likelihood.strata import Scale, Strata, Stratified
from isonomy.groups.likelihood.within import CROWDED, ENTRIES, crowding, strata_influence, strata_of_groups
from isonomy.inference.designs import Influence, Law, Spread, spread
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray, ObjectArray
from isonomy.numerics.ragged import Ragged
from isonomy.numerics.status import Status


def able_groups(status: ObjectArray) -> BoolArray:
    """Which groups can be tested, constant ones included."""
    return np.asarray((status == Status.OK) | (status == Status.CONSTANT), dtype=bool)


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """The groups of one partition, their references and what can be tested; ``own`` has one group more, of all other
    rows, so that a group and its rest are all rows. Within strata ``estimate`` and ``reference`` are adjusted."""

    partition: Partition
    size: FloatArray
    rows: FloatArray
    own: Binary | Real
    estimate: FloatArray
    reference: FloatArray
    status: ObjectArray
    strata: Strata | None = None

    @property
    def codes(self) -> IntArray:
        """Which group each line is in; lines in none are in one group more."""
        return np.where(self.partition.codes < 0, len(self.partition.groups), self.partition.codes)

    @property
    def tested(self) -> IntArray:
        """The groups that can be tested."""
        # A constant 0/1 group still has a binomial likelihood; constant numbers have no likelihood to speak of.
        return np.flatnonzero(able_groups(self.status) if isinstance(self.own, Binary) else self.status == Status.OK)


def side_of(sums: MetricRows, place: int, reference: Reference, link: Link, scale: Scale, min_size: int) -> Side:
    """The partition at ``place``, beside its reference."""
    partition = sums.partitions[place]
    groups = len(partition.groups)
    codes = np.where(partition.codes < 0, groups, partition.codes)
    own = _pseudo(sums, codes, groups + 1) if sums.measure.functional else sums.means(codes, groups + 1)
    n, counts = partition.sum(sums.counts), sums.counts
    status = np.full(groups, Status.OK, dtype=object)
    status[own.variance[:groups] <= 0] = Status.CONSTANT
    status[n < min_size] = Status.TOO_SMALL
    if reference.to in (To.POPULATION, To.REST):
        weighing = counts * (sums.mass > 0)  # rows that weigh nothing are not there to compare with
        status[partition.sum(weighing) == weighing.sum()] = Status.REFERENCE
    elif reference.to.best:
        if int(able_groups(status).sum()) < 2:
            status[status == Status.OK] = Status.REFERENCE
    elif sums.in_reference is not None:
        chosen = counts * sums.in_reference
        status[(partition.sum(chosen) == n) & (n == chosen.sum())] = Status.REFERENCE
    read = _values_of if sums.measure.functional else _values
    values = read(sums, own, reference, able_groups(status), codes)[:groups]
    able = able_groups(status)
    status[able & ~link.comparable(values)] = Status.ZERO_BASELINE
    if sums.measure.functional:
        able = able_groups(status)
        status[able & np.isnan([evaluated(sums, codes == g)[0] for g in range(groups)])] = Status.UNSUPPORTED
        status[able_groups(status) & np.isnan(values)] = Status.UNSUPPORTED
    status[own.n[:groups] == 0] = Status.EMPTY
    if sums.strata is not None:
        pairs = strata_of_groups(sums, partition)
        adjusted = pairs.adjusted(scale)
        able = able_groups(status)
        status[able & ~link.comparable(adjusted[1])] = Status.ZERO_BASELINE
        # Only rows with somebody to be compared with count, on either side.
        shared = [pairs.total(rows * pairs.informative) for rows in (pairs.n1, pairs.n0)]
        status[able & (np.minimum(*shared) < min_size)] = Status.TOO_SMALL
        status[able & (pairs.total(pairs.weight) == 0)] = Status.UNSUPPORTED
        if sums.design is not None:
            status[able & (crowding(pairs, scale) > CROWDED)] = Status.UNSUPPORTED
        return Side(partition, sums.sizes[place], n, own, *adjusted, status, pairs)
    return Side(partition, sums.sizes[place], n, own, own.mean[:groups], values, status)


def units_of(own: Means) -> Units:
    """The units in which groups that are means of value + influence are compared."""
    filled = own.n > 0
    spread = float(np.sqrt(np.average(own.variance[filled], weights=own.n[filled])))
    centre = float(np.average(own.mean[filled], weights=own.n[filled]))
    return Units(centre, float(np.exp2(np.rint(np.log2(spread)))) if spread > 0 else 1.0)


def evaluated(sums: MetricRows, rows: BoolArray) -> tuple[float, FloatArray]:
    """A metric that is no mean over rows, of some of them, and what each adds to it."""
    columns, mass = {role: values[rows] for role, values in sums.roles.items()}, sums.mass[rows]
    if sums.measure.functional == "quantile" and sums.design is not None and mass.sum() > 0:
        mass = mass * (_worth(sums.design, rows, columns, mass) / mass.sum())
    return evaluate(sums.measure.functional, columns, mass)


def _worth(design: Design, rows: BoolArray, columns: Columns, mass: FloatArray) -> float:
    """How many independent, equal rows would know the share below the quantile as well as these do.

    A quantile's error is that of a rank among so many rows: equal rows of one cluster are one.
    """
    below = np.zeros(rows.size)
    below[rows] = evaluate("quantile", columns, mass / mass.sum())[1]
    error = spread(design, Influence.of_groups(np.where(rows, 0, -1), below, 1)).second[0]
    alike = float(mass @ below[rows] ** 2)
    return max(round(alike * float(mass.sum()) / error), 1) if error > 0 else float(mass.sum())


def _pseudo(sums: MetricRows, codes: IntArray, size: int) -> Real:
    """Groups as means of value + influence."""
    values = np.zeros(codes.size)
    for group in range(size):
        value, influence = evaluated(sums, codes == group)
        values[codes == group] = np.nan_to_num(value) + influence
    return Real(Ragged.from_codes(codes, size, values, weights=sums.lines.weight))


def referents(sums: MetricRows, reference: Reference, own: BoolArray) -> BoolArray:
    """The rows of the reference of a group with these rows."""
    if reference.to is To.REST:
        return ~own
    return np.ones_like(own) if sums.in_reference is None else sums.in_reference


def _values_of(
    sums: MetricRows, own: Binary | Real, reference: Reference, able: BoolArray, codes: IntArray
) -> FloatArray:
    """The reference's value for each group, of a metric that is no mean over rows."""
    if reference.to.best or reference.number is not None:
        return _values(sums, own, reference, able, codes)
    if reference.to is To.REST:
        return np.array([evaluated(sums, codes != g)[0] for g in range(own.n.size)])
    return np.full(own.n.size, evaluated(sums, referents(sums, reference, codes >= 0))[0])


def _values(sums: MetricRows, own: Binary | Real, reference: Reference, able: BoolArray, codes: IntArray) -> FloatArray:
    """The reference's value for each group; the best group is one of those ``able`` to be tested."""
    if reference.to.best:
        candidates = own.mean[: able.size][able]
        best = candidates.max if reference.to is To.HIGHEST else candidates.min
        return np.full(own.n.size, best() if candidates.size else np.nan)
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


@dataclass(frozen=True, slots=True, eq=False)
class Solver:
    """Which likelihood is formed for the groups of one metric, against which reference."""

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

    def beside(self, min_size: int) -> Solver:
        """The same, with the groups of every partition set beside the reference."""
        places = range(len(self.sums.partitions))
        sides = [side_of(self.sums, i, self.reference, self.link, self.scale, min_size) for i in places]
        return replace(self, sides=sides)

    def referring(self, *, joint: bool) -> Solver:
        """The same, with the reference's error counted or not."""
        return replace(self, reference=replace(self.reference, joint=joint))

    def disparity(self) -> FloatArray:
        """The estimated disparities of all groups."""
        sides = self.sides
        within = [side.strata for side in sides if side.strata is not None]
        if within:
            return np.concatenate([pairs.estimate(self.scale) for pairs in within])
        estimate = np.concatenate([side.own.mean[: side.status.size] for side in sides])
        disparity = self.link.compared(estimate, np.concatenate([side.reference for side in sides]))
        if self.sigma is None:
            return disparity
        with np.errstate(divide="ignore", invalid="ignore"):
            return disparity / np.concatenate([self.deviation(side) for side in sides])

    def spread(self) -> Spread | None:
        """The spread of all groups' disparities over rows with weights, or over clusters; None without either."""
        if self.sums.design is None:
            return None
        influences = [self.influence(side) for side in self.sides]
        every = np.ones(sum(influence.own.shape[1] for influence in influences), dtype=bool)
        return spread(self.sums.design, Influence.together(influences, every))

    def influence(self, side: Side) -> Influence:
        """What each line adds to the disparities of one partition's groups."""
        sums, own, groups, reference = self.sums, side.own, len(side.partition.groups), self.reference
        value, inside = sums.lines.value, sums.mass > 0
        codes = np.where(inside, side.partition.codes, -1)
        if side.strata is not None:
            return strata_influence(sums, side.partition, side.strata, self.scale)
        if sums.measure.functional:
            return self._functional_influence(side)
        if self.sigma is not None and not reference.to.best:
            return self._standardised_influence(side)
        if not reference.joint or reference.to.best:
            return alone(codes, value, own, groups)
        if reference.to is To.REST:
            return against_rest(codes, value, own, groups, inside)
        if reference.estimate is not None:
            assert sums.lines.influence is not None
            return against(codes, value, own, groups, sums.lines.influence / sums.lines.mass.sum())
        among = inside if sums.in_reference is None else inside & sums.in_reference
        mass = sums.mass[among]
        mean = np.average(value[among], weights=mass)
        return against(codes, value, own, groups, np.where(among, (value - mean) / mass.sum(), np.nan))

    def parts(self, side: Side) -> list[Part]:
        """The likelihoods of one partition's groups that can be tested."""
        tested, own = side.tested, side.own
        if side.strata is not None:
            return [(tested, Stratified(side.strata, self.scale, tested))]
        if self.sigma is not None and not self.reference.to.best:
            contrasts = tuple(self._contrast(side, int(g)) for g in tested)
            return [(tested, Standardised(self._sample(self.sigma), contrasts, self.method))]
        if not self.reference.joint:
            return [(tested, self._of(Profile(Kind.FIXED, own, tested, theta=side.reference[tested])))]
        if self.sums.measure.functional and not self.reference.to.best:
            pairs = [self._functional(side, int(g), self._referents(side, int(g))) for g in tested]
            return [(tested, self._overlapping(pairs, units_of(side.own), None))] if pairs else []
        if self.reference.to in (To.POPULATION, To.REST):
            kind = Kind.NESTED if self.reference.to is To.POPULATION else Kind.DISJOINT
            return [(tested, self._compared(kind, own, tested, own.rest(), tested))]
        if self.reference.to.best:
            return self._against_best(side)
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
            patterns = distinct.patterns(codes, 2)
            pairs.append(Pair(patterns, np.array([0.0, 1.0]), np.zeros(2), value, self.link, units.zero))
        return [(tested, self._overlapping(pairs, units, None))]

    def _referents(self, side: Side, group: int) -> BoolArray:
        return referents(self.sums, self.reference, side.partition.codes == group)

    def _functional(self, side: Side, group: int, referents: BoolArray) -> Pair:
        """A group's value + influence against a reference with influence values, which may share rows."""
        sums, own = self.sums, side.partition.codes == group
        value, influence = evaluated(sums, own)
        other, reference = evaluated(sums, referents)
        values, influences = np.zeros(own.size), np.zeros(own.size)
        values[own] = value + influence
        influences[referents] = reference * sums.mass.sum() / sums.mass[referents].sum()
        units = units_of(side.own)
        values = np.where(own, units.standard(values), 0.0)
        lines = Lines(False, values, sums.lines.weight, influences / units.scale)
        codes, distinct = lines.collapsed(own.astype(np.intp))
        at = float(units.standard(np.array(other)))
        return Pair(distinct.patterns(codes, 2), np.array([0.0, 1.0]), np.zeros(2), at, self.link, units.zero)

    def _functional_influence(self, side: Side) -> Influence:
        """What each line adds to the disparities, of a metric that is no mean over rows."""
        groups, alone_ = len(side.partition.groups), not self.reference.joint or self.reference.to.best
        values = np.zeros((side.partition.codes.size, groups))
        members = np.zeros(values.shape, dtype=bool)
        for g in range(groups):
            own, others = side.partition.codes == g, self._referents(side, g)
            values[own, g] = evaluated(self.sums, own)[1] / max(float(self.sums.mass[own].sum()), 1e-300)
            members[:, g] = own if alone_ else own | others
            if not alone_:
                values[others, g] -= evaluated(self.sums, others)[1] / float(self.sums.mass[others].sum())
        return Influence.of(values, members)

    def _sample(self, sigma: Sigma) -> Sample:
        return Sample(self.sums.lines.value, self.sums.mass, sigma)

    def _contrast(self, side: Side, group: int, other: int | None = None) -> Contrast:
        """A group beside its reference, or beside another group; σ may be that of a named reference."""
        own, number = side.partition.codes == group, self.reference.number
        unit = self.sums.in_reference if self.sigma == "reference" else None
        if other is not None:
            return Contrast(own, side.partition.codes == other, unit)
        return Contrast(own, self._referents(side, group) if number is None else float(number), unit)

    def deviation(self, side: Side) -> FloatArray:
        """The σ of each group's disparity."""
        assert self.sigma is not None
        sample, best = self._sample(self.sigma), self.reference.to.best
        contrasts = (self._contrast(side, g, g if best else None) for g in range(len(side.partition.groups)))
        return np.array([sample.fit(contrast).sigma for contrast in contrasts])

    def _standardised_influence(self, side: Side) -> Influence:
        """What each line adds to the standardised differences."""
        assert self.sigma is not None
        codes, groups, sample = side.partition.codes, len(side.partition.groups), self._sample(self.sigma)
        if codes.size * groups > ENTRIES:
            raise UsageError(
                f"scale: 'standardised' with weight or cluster holds {codes.size:,} rows for each of {groups:,} "
                "groups, which are too many; ask about fewer groups at once."
            )
        fitted = [sample.fit(self._contrast(side, g)).influence / sample.mass.sum() for g in range(groups)]
        return Influence.of(np.nan_to_num(np.column_stack(fitted)), codes[:, None] == np.arange(groups))

    def _overlapping(self, pairs: Sequence[Pair], units: Units, rows: float | None) -> Likelihood:
        """Pairs solved in units of their own, in which a ratio is what it is."""
        likelihood = Overlapping(tuple(pairs), self.method, rows)
        return Rescaled(likelihood, units.scale) if self.link is IDENTITY else likelihood

    def _compared(
        self, kind: Kind, own: Binary | Real, own_index: IntArray, other: Means, other_index: IntArray
    ) -> Likelihood:
        """The likelihood of groups against other rows, on the scale asked for."""
        if kind is Kind.NESTED and self.link is LOGIT and self.method == "el":
            assert isinstance(own, Binary)
            assert isinstance(other, Binary)
            return self._of(odds_in_whole(own, own_index, other, other_index))
        sides = linked(own, self.link), linked(other, self.link)
        return self._of(Profile(kind, sides[0], own_index, other=sides[1], other_index=other_index))

    def _against_best(self, side: Side) -> list[Part]:
        """Each group of a partition against each other one."""
        tested = side.tested
        if tested.size < 2:
            return []
        first, second = every_pair(tested.size)
        pairs = self.pair(side, tested[first], tested[second])
        return [(tested, AgainstBest(pairs, first, 1.0 if self.reference.to is To.HIGHEST else -1.0))]

    def pair(self, side: Side, first: IntArray, second: IntArray) -> Likelihood:
        """Pairs of groups of one partition."""
        if self.sums.measure.functional:
            codes = side.partition.codes
            members = zip(first.tolist(), second.tolist(), strict=True)
            each = [self._functional(side, a, codes == b) for a, b in members]
            pairs = self._overlapping(each, units_of(side.own), None)
        elif self.sigma is not None:
            groups = zip(first.tolist(), second.tolist(), strict=True)
            pairs = Standardised(
                self._sample(self.sigma), tuple(self._contrast(side, a, b) for a, b in groups), self.method
            )
        else:
            pairs = self._compared(Kind.DISJOINT, side.own, first, side.own, second)
        return pairs if self.sums.design is None else Designed(pairs, self._pair_law(side, first, second))

    def _pair_law(self, side: Side, first: IntArray, second: IntArray) -> Law:
        """The law of T for pairs of groups: their means may vary together, where clusters are in both."""
        assert self.sums.design is not None
        with np.errstate(all="ignore"):
            variance = side.own.variance / side.own.n
        effect, totals = pair_effect(self.sums.design, self.influence(side), variance, first, second)
        return Law(effect, np.minimum(totals.effective[first], totals.effective[second]) - 1.0)

    def _of(self, problem: Profile) -> Likelihood:
        """The likelihood asked for, of the problems in ``problem``."""
        if self.method == "eel":
            return Euclidean(problem, float(self.sums.mass.sum()))
        if self.correction == "bartlett":
            return Corrected(problem, bartlett_factor(problem, self.resamples, self.rng))
        if self.correction == "adjusted":
            return Adjusted(problem)
        # A plugged-in reference is the published statistic, as it is.
        by_score = self.scored and (self.reference.joint or self.reference.to is To.NUMBER)
        return problem.few_scored() if by_score else problem

    def _against_group(self, side: Side) -> list[Part]:
        """A named reference: apart from the group, around it, within it, or partly overlapping it."""
        sums, own, tested, codes, size = self.sums, side.own, side.tested, side.codes, side.own.n.size
        assert sums.in_reference is not None
        chosen = sums.in_reference
        level = sums.means(np.where(chosen, 0, -1), 1)
        counts = sums.counts  # rows, not masses: sums of weights in another order need not be equal
        common, n = side.partition.sum(counts * chosen)[tested], side.rows[tested]
        total = float(counts[chosen].sum())
        apart, around, within = common == 0, (common == n) & (n > 0), common == total
        partly = ~(apart | around | within)
        parts: list[Part] = []
        first = np.zeros(size, dtype=np.intp)
        if apart.any():
            which = tested[apart]
            parts.append((which, self._compared(Kind.DISJOINT, own, which, level, first[which])))
        if around.any():
            which, inside = tested[around], sums.means(np.where(chosen, codes, -1), size)
            parts.append((which, self._compared(Kind.NESTED, inside, which, inside.rest(), which)))
        if within.any():
            which, beyond = tested[within], sums.means(np.where(chosen, -1, codes), size)
            parts.append((which, Rescaled(self._compared(Kind.NESTED, level, first[which], beyond, which), -1.0)))
        if partly.any():
            if self.correction is not None:
                raise UsageError("correction: not available for a reference that overlaps a group in part.")
            units, lines = sums.lines.standard(sums.inside)
            pairs = []
            for group in tested[partly]:
                # By which of the two they are in; rows in neither drop out.
                pattern = (codes == group).astype(np.intp) + 2 * chosen - 1
                patterns, mine, theirs = (
                    lines.patterns(pattern, 3),
                    np.array([1.0, 0.0, 1.0]),
                    np.array([0.0, 1.0, 1.0]),
                )
                pairs.append(Pair(patterns, mine, theirs, link=self.link, centre=units.zero))
            parts.append((tested[partly], self._overlapping(pairs, units, float(self.sums.mass.sum()))))
        return parts


def likelihoods(solvers: Sequence[Solver]) -> Parts:
    """The likelihoods of all groups that can be tested, of all metrics."""
    parts: list[Part] = []
    start = 0
    for solver in solvers:
        for side in solver.sides:
            parts += [(where + start, likelihood) for where, likelihood in solver.parts(side) if where.size]
            start += side.status.size
    disparity = np.concatenate([solver.disparity() for solver in solvers])
    if solvers[0].sides[0].strata is not None:
        return Parts(disparity, tuple(parts))
    return Parts.together(disparity, parts).on(solvers[0].link)
