"""Groups and their references: their means, which groups can be tested, and by which likelihood.

All groups of all metrics are one family of tests: their laws, their dependence, and the widest gap between two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy import special

from isonomy.errors import UsageError
from isonomy.frames import Design, Partition
from isonomy.groups.likelihood.functionals import EVENTS, Contrast, Contrasts
from isonomy.groups.likelihood.lines import ENTRIES, Evaluation, Lines, MetricRows, Units
from isonomy.groups.likelihood.means import IDENTITY, LOGIT, Binary, Link, Means, Real, Rest, linked, natural
from isonomy.groups.likelihood.overlap import (
    IN_GROUP,
    IN_REFERENCE,
    Overlapping,
    OverlapScore,
    Pair,
    Sigma,
    StandardizedContrast,
)
from isonomy.groups.likelihood.profile import (
    FEW_CASES,
    FEW_ROWS,
    Adjusted,
    Corrected,
    Euclidean,
    Kind,
    ProfileLikelihood,
    bartlett_factor,
    fewest_cases,
    gathered,
    odds_in_whole,
    plugged,
)
from isonomy.groups.likelihood.regression import Comparable, Terms, compare_groups
from isonomy.groups.likelihood.strata import CROWDED, Scale, Strata, Stratified, StratifiedLines, strata_influence
from isonomy.groups.options import Reference, To
from isonomy.inference.designs import FEWEST, Contribution, Influence, Law, Spread, covariance, spread
from isonomy.inference.effect import (
    DRAWS,
    RATE_DRAWS,
    AgainstBest,
    Bend,
    Designed,
    Effect,
    Hypothesis,
    Part,
    Parts,
    Rescaled,
    bend,
    combined,
    every_pair,
    null_pvalues,
    widest,
)
from isonomy.numerics.arrays import AnyArray, BoolArray, FloatArray, IntArray, ObjectArray
from isonomy.numerics.ragged import Ragged
from isonomy.numerics.status import Status
from isonomy.numerics.tails import chi2_isf, t_isf

# Groups up to which max-t is available, and up to which (and for how many lines by groups) the false discovery rate of
# Benjamini-Hochberg is measured; numbers drawn to measure it.
FAMILY, RATE_GROUPS, RATE_ENTRIES, RATE_NUMBERS = 2_000, 1_000, 20_000_000, 2_000_000
# Tested groups up to which the other treatment of the reference is computed for comparison.
CONTRASTS = 20_000
# Pairs of one partition's groups that the widest gap is searched among, chosen by normal theory if there are more;
# fewer for standardized differences, each of which is a joint likelihood of all rows.
PAIRS, STANDARDIZED_PAIRS = 90, 12
# The probability that so few normal rows vary so much less than all rows that they have no verdict.
LACKING = 0.001
# Groups without a spread that an interval of a mean could rest on.
UNSPREAD = [Status.EMPTY, Status.TOO_SMALL, Status.CONSTANT, Status.UNSUPPORTED, Status.FEW_EVENTS]
# Groups up to which all pairs are considered; beyond, the outermost groups only.
MANY = 1_000


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


class Side(NamedTuple):
    """The groups of one partition, their references and what can be tested.

    ``means`` has one more group for all other rows, so that a group and its rest are all rows; ``mass`` and ``share``
    are the weight of each group, and its share of them. Within strata, and among comparable people, ``estimate`` and
    ``reference`` are adjusted. A
    metric that is not a mean over rows has its ``evaluations``, and those of the references it is compared ``against``.
    """

    partition: Partition
    size: FloatArray
    rows: FloatArray
    mass: FloatArray
    share: FloatArray
    means: Binary | Real
    status: ObjectArray
    estimate: FloatArray
    reference: FloatArray
    strata: Strata | None = None
    evaluations: tuple[Evaluation, ...] = ()
    against: tuple[Evaluation, ...] = ()
    comparable: Comparable | None = None

    @property
    def tested(self) -> IntArray:
        # A constant 0/1 group still has a binomial likelihood; constant numbers have none.
        return np.flatnonzero(able_groups(self.status) if isinstance(self.means, Binary) else self.status == Status.OK)

    @property
    def units(self) -> Units:
        """The units in which groups that are means of value + influence are compared."""
        n, mean, variance = (part[self.means.n > 0] for part in (self.means.n, self.means.mean, self.means.variance))
        spread = float(np.sqrt(np.average(variance, weights=n)))
        return Units.spanning(float(np.average(mean, weights=n)), spread)


def _referents(sums: MetricRows, reference: Reference, group: BoolArray) -> BoolArray:
    if reference.to is To.REST:
        return ~group
    return np.ones_like(group) if sums.in_reference is None else sums.in_reference


def _design(sums: MetricRows) -> Design:
    """The design of the rows, or that of independent rows without weights."""
    return sums.design or Design(sums.mass, sums.mass, sums.mass, sums.counts, None)


@dataclass(frozen=True, slots=True, eq=False)
class Solver:
    sums: MetricRows
    reference: Reference
    method: str
    correction: str | None
    resamples: int
    rng: np.random.Generator
    min_size: int
    link: Link = IDENTITY
    scale: Scale = "difference"
    sigma: Sigma | None = None
    scored: bool = False
    model: str = ""
    terms: Terms | None = None
    sides: Sequence[Side] = field(default_factory=list)

    def with_sides(self) -> Solver:
        factors = self.sums.factors
        terms = None if factors is None else Terms.of_factors(*factors, self.sums.mass)
        ready = replace(self, terms=terms)
        return replace(ready, sides=list(map(ready._side, self.sums.partitions, self.sums.sizes)))

    def _side(self, partition: Partition, size: FloatArray) -> Side:
        sums, reference, link, counts = self.sums, self.reference, self.link, self.sums.counts
        groups, n = len(partition.groups), partition.sum(counts)
        codes = np.where(partition.codes < 0, groups, partition.codes)
        evaluations: tuple[Evaluation, ...] = ()
        if not sums.measure.functional:
            means = sums.means(codes, groups + 1)
        else:  # means of value + influence
            lines = np.zeros(codes.size)
            evaluations = tuple(sums.evaluate(codes == group) for group in range(groups + 1))
            for part in evaluations:
                lines[part.lines] = np.nan_to_num(part.value) + part.influence
            means = Real(Ragged.from_codes(codes, groups + 1, lines, weights=sums.weight))
        status = np.full(groups, Status.OK, dtype=object)
        status[means.variance[:groups] <= 0] = Status.CONSTANT
        status[n < self.min_size] = Status.TOO_SMALL
        if reference.to in (To.POPULATION, To.REST):
            weighing = counts * (sums.mass > 0)  # rows without weight are not compared with
            status[partition.sum(weighing) == weighing.sum()] = Status.REFERENCE
        elif reference.to.best:
            if int(able_groups(status).sum()) < 2:
                status[status == Status.OK] = Status.REFERENCE
        elif sums.in_reference is not None:
            chosen = counts * sums.in_reference
            status[(partition.sum(chosen) == n) & (n == chosen.sum())] = Status.REFERENCE
        against = self._evaluated_references(codes, groups) if evaluations else ()
        values = self._reference_values(means, able_groups(status), against)
        status[able_groups(status) & ~link.comparable(values)] = Status.ZERO_BASELINE
        if evaluations:
            undefined = np.array([np.isnan(part.value) for part in evaluations[:groups]])
            status[able_groups(status) & (undefined | np.isnan(values))] = Status.UNSUPPORTED
            if self.lawful:
                for group in np.flatnonzero(status == Status.OK):
                    other = against[group].measured() if against else None
                    if evaluations[group].measured().events(other) < EVENTS:
                        status[group] = Status.FEW_EVENTS
        mass = means.n[:groups]
        status[mass == 0] = Status.EMPTY
        columns = partition, size, n, mass, mass / max(means.n.sum(), 1e-300), means, status
        if self.terms is not None:
            able, people = able_groups(status), None if reference.to is To.REST else sums.in_reference
            fitted = compare_groups(
                self.terms, partition, sums.value, sums.mass, people, able, binary=sums.binary, model=self.model
            )
            for place, pair in enumerate(fitted.pairs):
                if able[place] and pair.status is not Status.OK:
                    status[place] = pair.status
            return Side(*columns, fitted.means[0], fitted.means[1], comparable=fitted)
        if sums.strata is None:
            return Side(*columns, means.mean[:groups], values, None, evaluations, against)
        pairs = StratifiedLines.of_groups(sums, partition).strata
        adjusted, able = pairs.adjusted(self.scale), able_groups(status)
        status[able & ~link.comparable(adjusted[1])] = Status.ZERO_BASELINE
        # Only rows in strata with two sides count, on either side.
        shared = [pairs.total(rows * pairs.informative) for rows in (pairs.n1, pairs.n0)]
        status[able & (np.minimum(*shared) < self.min_size)] = Status.UNSUPPORTED
        status[able & (pairs.total(pairs.weight) == 0)] = Status.UNSUPPORTED
        if sums.design is not None:
            status[able & (pairs.crowding(self.scale) > CROWDED)] = Status.UNSUPPORTED
        return Side(*columns, *adjusted, pairs)

    def _evaluated_references(self, codes: IntArray, groups: int) -> tuple[Evaluation, ...]:
        """The reference of each group, unless it is a number or the best group."""
        if self.reference.to.best or self.reference.value is not None:
            return ()
        if self.reference.to is To.REST:
            return tuple(self.sums.evaluate(codes != group) for group in range(groups))
        return (self.sums.evaluate(_referents(self.sums, self.reference, codes >= 0)),) * groups

    def _reference_values(self, means: Binary | Real, able: BoolArray, against: Sequence[Evaluation]) -> FloatArray:
        sums, to, value = self.sums, self.reference.to, self.reference.value
        totals, n, size = means.n * np.nan_to_num(means.mean), means.n, able.size
        if to.best:
            candidates = means.mean[:size][able]
            extreme = np.max if to is To.HIGHEST else np.min
            value = float(extreme(candidates)) if candidates.size else np.nan
        elif against:
            return np.array([part.value for part in against])
        elif to is To.REST:
            with np.errstate(invalid="ignore", divide="ignore"):
                return ((totals.sum() - totals) / (n.sum() - n))[:size]
        elif to is To.POPULATION:
            value = totals.sum() / n.sum() if n.sum() else np.nan
        elif value is None:
            assert sums.in_reference is not None
            mass = sums.mass * sums.in_reference
            value = float(mass @ sums.value / mass.sum())
        return np.full(size, value)

    def influence(self, side: Side) -> Influence:
        sums, means, reference, groups = self.sums, side.means, self.reference, len(side.partition.groups)
        if side.strata is not None:
            return strata_influence(sums, side.partition, self.scale)
        if side.comparable is not None:
            return side.comparable.influence()
        if sums.measure.functional:
            return self._functional_influence(side)
        if self.sigma is not None and not reference.to.best:
            return self._standardized_influence(side)
        value, inside = sums.value, sums.mass > 0
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
            assert sums.influence is not None
            reached = np.ones(value.size, dtype=bool)
            base = sums.influence / (value.size if sums.weight is None else sums.weight.sum())
        else:
            reached = inside if sums.in_reference is None else inside & sums.in_reference
            mass, base = sums.mass[reached], np.zeros(value.size)
            if mass.size:  # a metric may count no row of the reference
                base[reached] = (value[reached] - np.average(value[reached], weights=mass)) / mass.sum()
        return Influence.from_groups(codes, within, groups, base[:, None], np.full((1, groups), -1.0), reached)

    def metric_influence(self, side: Side) -> Influence:
        """The influence of each line on the metric of its group, without the reference."""
        codes = np.where(self.sums.mass > 0, side.partition.codes, -1)
        with np.errstate(all="ignore"):
            within = (self.sums.value - side.means.mean[codes]) / side.means.n[codes]
        for part in side.evaluations[: side.status.size]:
            within[part.lines] = part.added
        return Influence.from_groups(codes, within, side.status.size)

    def _functional_influence(self, side: Side) -> Influence:
        """The influence of each line on the disparities, for a metric that is not a mean over rows."""
        groups = len(side.partition.groups)
        values = np.zeros((side.partition.codes.size, groups))
        members = np.zeros(values.shape, dtype=bool)
        for g, part in enumerate(side.evaluations[:groups]):
            values[part.lines, g] = part.added
            members[part.lines, g] = True
            if self.reference.joint and side.against:
                values[side.against[g].lines, g] -= side.against[g].added
                members[side.against[g].lines, g] = True
        return Influence.from_values(values, members)

    def _standardized_influence(self, side: Side) -> Influence:
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
        rows, number, unit = side.partition.codes == group, self.reference.value, None
        if self.sigma != "pooled":
            unit = self.sums.in_reference if self.sigma == "reference" else np.ones(rows.size, dtype=bool)
        if other is not None:
            referents: BoolArray | float = side.partition.codes == other
        else:
            referents = _referents(self.sums, self.reference, rows) if number is None else float(number)
        return StandardizedContrast(self.sums.value, self.sums.mass, rows, referents, unit)

    def deviations(self) -> FloatArray:
        best = self.reference.to.best
        pairs = [(side, g) for side in self.sides for g in range(side.status.size)]
        return np.array([self._standardized(side, g, g if best else None).fit()[2] for side, g in pairs])

    @property
    def automatic(self) -> bool:
        """Whether small groups are corrected; a plugged-in reference is the published statistic, unchanged."""
        return self.scored and (self.reference.joint or self.reference.to is To.NUMBER)

    @property
    def lawful(self) -> bool:
        """Whether a metric that is not a mean has its law for small groups; that of a design is another."""
        return bool(self.sums.measure.functional) and self.scored and self.sums.design is None

    @property
    def welch(self) -> bool:
        """Whether T of these groups, which are not 0/1, is compared with F on Welch's degrees of freedom."""
        return self.automatic and not self.sums.binary and self.sums.design is None

    @property
    def bendable(self) -> bool:
        """Whether skewed differences have a law: those of rows, with or without weights."""
        design = self.sums.design
        return self.automatic and self.method == "el" and (design is None or design.clusters is None)

    def contributions(self, side: Side) -> tuple[Contribution, Contribution]:
        """What groups and references contribute to the third moment and the variance of each disparity."""
        if side.strata is not None and self.sums.design is None:
            return side.strata.contributions(self.scale)
        codes, groups = side.partition.codes, len(side.partition.groups)
        by_rows = self.sums.design is None and self.sigma is None and not self.sums.measure.functional
        if by_rows and self.reference.to is To.REST and self.reference.joint and isinstance(side.means, Real):
            rest = side.means.rest()
            if all(part.moments.usable[:groups].all() for part in (side.means, rest)):  # no need to read the rows again
                return _contribution(side.means, groups, 1.0), _contribution(rest, groups, -1.0)
        # A standardized difference has the law of the difference, which needs less memory.
        plain = replace(self, sigma=None) if codes.size * groups > ENTRIES else self
        influence = plain.influence(side)
        if self.sums.measure.functional:  # the influence of the reference is not that of members
            members = Influence.from_groups(codes, np.zeros(codes.size), groups).members
            influence = replace(influence, members=members)
        return spread(_design(self.sums), influence).sides

    def parts(self, side: Side) -> list[Part]:
        tested, reference = side.tested, self.reference
        if side.comparable is not None:
            designed = self.sums.design is not None
            return [(tested, side.comparable.effect(tested, self.link, designed=designed))]
        if side.strata is not None:
            law = None
            if self.welch:
                law = Law(np.ones(tested.size), combined(side.strata.contributions(self.scale)).df[tested])
            return [(tested, Stratified(side.strata, self.scale, tested, law))]
        if reference.to.best and reference.joint:
            if tested.size < 2:
                return []
            first, second = every_pair(tested.size)
            pairs = self.pair(side, tested[first], tested[second])
            return [(tested, AgainstBest(pairs, first, 1.0 if reference.to is To.HIGHEST else -1.0))]
        if self.sigma is not None:
            return [
                (
                    tested,
                    self._few_rows(Overlapping(tuple(self._standardized(side, int(g)) for g in tested), self.method)),
                )
            ]
        if self.lawful:
            others = side.against if reference.joint and side.against else tuple(map(float, side.reference))
            return [(tested, self._contrasts(side, [(int(g), others[g]) for g in tested]))]
        if not reference.joint:
            known = ProfileLikelihood(Kind.FIXED, side.means, tested, theta=side.reference[tested])
            return [(tested, self._likelihood(known))]
        if not tested.size:
            return []
        if self.sums.measure.functional:
            pairs_ = [self._functional(side, int(g), side.against[g]) for g in tested]
            return [(tested, self._overlapping(pairs_, side.units, None))]
        if reference.to in (To.POPULATION, To.REST):
            kind = Kind.NESTED if reference.to is To.POPULATION else Kind.DISJOINT
            return [(tested, self._compared(kind, side.means, tested, side.means.rest(), tested))]
        if reference.estimate is None:
            return self._against_group(side)
        units, lines = self.sums.standard(self.sums.inside)
        value = float(units.standard(np.array(reference.estimate.value)))
        # All rows: their influence values count whether or not they are in the group.
        inside = [(side.partition.codes == group) & (self.sums.mass > 0) for group in tested]
        pairs_ = [self._with_influence(lines, rows, value, units) for rows in inside]
        return [(tested, self._overlapping(pairs_, units, None))]

    def _with_influence(self, lines: Lines, group: BoolArray, value: float, units: Units) -> Pair:
        codes, distinct = lines.collapsed(group.astype(np.intp))
        return Pair(distinct.patterns(codes, 2), np.array([0.0, 1.0]), np.zeros(2), value, self.link, units.zero)

    def _functional(self, side: Side, group: int, other: Evaluation) -> Pair:
        """A group's value + influence against a reference with influence values, which may share rows."""
        sums, rows, units, mine = self.sums, side.partition.codes == group, side.units, side.evaluations[group]
        values, influences = np.zeros(rows.size), np.zeros(rows.size)
        values[mine.lines] = units.standard(mine.value + mine.influence)
        influences[other.lines] = other.added * sums.mass.sum()
        lines = Lines(False, values, sums.weight, influences / units.scale)
        return self._with_influence(lines, rows, float(units.standard(np.array(other.value))), units)

    def _contrasts(self, side: Side, pairs: Sequence[tuple[int, Evaluation | float]]) -> Effect:
        """Groups and their references, or numbers, for a metric that is not a mean over rows."""
        contrasts, on_other = [], np.zeros(side.partition.codes.size)
        for group, other in pairs:
            mine = side.evaluations[group]
            if isinstance(other, float):
                sums = float(mine.mass @ mine.added**2), 0.0, 0.0, 0.0
                contrasts.append(Contrast(mine.measured(), other, sums, self.link.ratio))
                continue
            on_other[:] = 0.0
            on_other[other.lines] = other.added
            shared = on_other[mine.lines]
            common = float(mine.mass @ shared**2)
            sums = (
                float(mine.mass @ mine.added**2),
                float(mine.mass @ (mine.added * shared)),
                common,
                max(float(other.mass @ other.added**2) - common, 0.0),
            )
            theirs = other.measured()
            contrasts.append(Contrast(mine.measured().beside(theirs), theirs, sums, self.link.ratio))
        effect = Contrasts(tuple(contrasts))
        return Designed(effect, Law(np.ones(len(contrasts)), effect.freedom))

    def _few_rows(self, effect: Overlapping) -> Effect:
        return effect.by_welch() if self.welch and self.method == "el" else effect

    def _overlapping(self, pairs: Sequence[Pair], units: Units, rows: float | None) -> Effect:
        """Pairs solved in units of their own, in which a ratio does not change."""
        likelihood = Overlapping(tuple(pairs), self.method, rows)
        effect = likelihood if rows is None else self._few_rows(likelihood)
        return Rescaled(effect, units.scale) if self.link is IDENTITY else effect

    def _compared(self, kind: Kind, means: Binary | Real, group: IntArray, other: Means, partner: IntArray) -> Effect:
        if kind is Kind.NESTED and self.link is LOGIT and self.method == "el":
            assert isinstance(means, Binary)
            assert isinstance(other, Binary)
            return self._likelihood(odds_in_whole(means, group, other, partner))
        sides = linked(means, self.link), linked(other, self.link)
        return self._likelihood(ProfileLikelihood(kind, sides[0], group, other=sides[1], partner=partner))

    def _likelihood(self, problem: ProfileLikelihood) -> Effect:
        if self.method == "eel":
            return Euclidean(problem, float(self.sums.mass.sum()))
        if self.correction == "bartlett":
            return Corrected(problem, bartlett_factor(problem, self.resamples, self.rng))
        if self.correction == "adjusted":
            return Adjusted(problem)
        if self.welch:
            return problem.by_welch()
        return problem.scoring_few() if self.automatic else problem

    def pair(self, side: Side, first: IntArray, second: IntArray) -> Effect:
        members = list(zip(first.tolist(), second.tolist(), strict=True))
        if self.sums.measure.functional:
            others = [(a, side.evaluations[b]) for a, b in members]
            if self.lawful:
                pairs = self._contrasts(side, others)
            else:
                pairs = self._overlapping([self._functional(side, *pair) for pair in others], side.units, None)
        elif self.sigma is not None:
            pairs = self._few_rows(Overlapping(tuple(self._standardized(side, a, b) for a, b in members), self.method))
        else:
            pairs = self._compared(Kind.DISJOINT, side.means, first, side.means, second)
        with np.errstate(all="ignore"):
            variance = side.means.variance / side.means.n
        if self.welch:
            rows = [Contribution.of_rows(0.0 * variance[i], variance[i], side.means.n[i]) for i in (first, second)]
            return Designed(pairs, Law(np.ones(first.size), combined(rows).df))
        if self.sums.design is None:
            return pairs
        effect, totals = pair_effect(self.sums.design, self.influence(side), variance, first, second)
        return Designed(pairs, Law(effect, np.minimum(totals.effective[first], totals.effective[second]) - 1.0))

    def _against_group(self, side: Side) -> list[Part]:
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
            units, lines = sums.standard(sums.inside)
            # By which of the two they are in; rows in neither are left out.
            patterns = [lines.patterns((codes == g).astype(np.intp) + 2 * chosen - 1, 3) for g in which]
            few = np.zeros(which.size, dtype=bool)
            if self.scored and sums.binary and self.link is not LOGIT:
                n, ones = (
                    np.column_stack(part) for part in zip(*((data.n, data.first[0]) for data in patterns), strict=True)
                )
                few = (fewest_cases(means, which) < FEW_CASES) | (fewest_cases(level, first[which]) < FEW_CASES)
                parts.append((which[few], OverlapScore(n[:, few], ones[:, few], self.link)))
            pairs = [
                Pair(data, IN_GROUP, IN_REFERENCE, link=self.link, center=units.zero)
                for data, scored in zip(patterns, few, strict=True)
                if not scored
            ]
            if pairs:
                parts.append((which[~few], self._overlapping(pairs, units, float(sums.mass.sum()))))
        return parts


def _contribution(means: Real | Rest, groups: int, sign: float) -> Contribution:
    """What independent rows contribute to the errors of differences in which their means have this ``sign``."""
    n, third, variance = means.n[:groups], means.moments.central(3)[:groups], means.variance[:groups]
    return Contribution.of_rows(sign * third / n**2, variance / n, n)


def stacked(solvers: Sequence[Solver], column: str) -> AnyArray:
    return np.concatenate([getattr(side, column) for solver in solvers for side in solver.sides])


def likelihoods(solvers: Sequence[Solver]) -> Parts:
    parts: list[Part] = []
    start, first = 0, solvers[0]
    for solver in solvers:
        for side in solver.sides:
            for where, effect in solver.parts(side):
                if where.size:
                    parts.append((where + start, effect))
            start += side.status.size
    if first.sums.strata is not None:  # of one metric
        within = [side.strata.estimate(first.scale) for side in first.sides if side.strata is not None]
        return Parts(np.concatenate(within), tuple(parts))
    disparity = first.link.compared(stacked(solvers, "estimate"), stacked(solvers, "reference"))
    if first.sigma is not None:
        with np.errstate(divide="ignore", invalid="ignore"):
            disparity = disparity / np.concatenate([solver.deviations() for solver in solvers])
    same = stacked(solvers, "status") == Status.REFERENCE  # the same rows, summed in another order
    disparity = np.where(same & ~np.isnan(disparity), first.link.equal, disparity)
    return gathered(disparity, parts, first.link)


class ErrorMoments(NamedTuple):
    """The third moment and the variance of each difference, Welch's degrees of freedom, and the bend of skewed ones.

    ``narrow`` is the share of that variance that the rows of the two sides show themselves. Few rows are ``lacking`` if
    they vary so much less than all rows that they may have none of the rare values.
    """

    third: FloatArray
    variance: FloatArray
    narrow: FloatArray
    df: FloatArray
    bend: Bend
    lacking: BoolArray


def moments(solvers: Sequence[Solver], tested: BoolArray, alpha: float, tests: int) -> ErrorMoments:
    """The same by influence values, for verdicts at ``alpha`` over all ``tests``.

    Rates have a law of their own and count as not skewed. A group compared with the best of all groups is as skewed as
    the worst of its pairs. The degrees of freedom of pairs and of strata are part of their law. Clusters and
    comparable people have no law for skewed differences, nor has a likelihood that the call chose.
    """
    third, variance, narrow, df = np.tile([[0.0], [1.0], [1.0], [np.inf]], tested.size)
    law = Bend(
        excess=np.zeros((2, tested.size)),
        level=np.zeros((2, tested.size)),
        trusted=np.zeros(tested.size, dtype=bool),
        few=np.zeros(tested.size, dtype=bool),
    )
    lacking = np.zeros(tested.size, dtype=bool)
    start = 0
    for solver in solvers:
        for side in solver.sides:
            local = np.flatnonzero(tested[start : start + side.status.size])
            places = start + local
            start += side.status.size
            if solver.sums.binary or solver.lawful or not local.size:  # their effects have a law and a gate already
                continue
            # The hypothesis of no difference has the same p-value on every scale, against the population and the rest.
            to = To.REST if solver.reference.to is To.POPULATION else solver.reference.to
            plain = replace(solver, sigma=None, reference=replace(solver.reference, to=to))
            mine, theirs = (Contribution(*(part[local] for part in half)) for half in plain.contributions(side))
            mirrored = local.size == 2 and all(
                np.allclose(*ends, rtol=1e-9, atol=0.0)
                for ends in zip((mine.rows, mine.variance), (theirs.rows[::-1], theirs.variance[::-1]), strict=True)
            )
            if mirrored:  # two groups that are each other's rest: one difference, seen from two sides
                mine, theirs = (Contribution(*(part[:1] for part in half)) for half in (mine, theirs))
            whole, best = combined([mine, theirs]), solver.reference.to.best
            third[places], variance[places] = whole[:2]
            narrow[places] = np.sum(np.nan_to_num([mine.variance, theirs.variance]), axis=0) / whole.variance
            fewest = np.minimum(mine.rows, np.where(theirs.variance > 0, theirs.rows, np.inf))
            normal = special.chdtri(fewest - 1.0, 1.0 - LACKING) / (fewest - 1.0)
            lacking[places] = (fewest < FEW_ROWS) & (narrow[places] < normal)
            pairs = every_pair(local.size) if best and local.size > 1 else None
            if pairs is not None:
                thirds, variances = (part[pairs[0]] + part[pairs[1]] for part in whole[:2])
                order = np.lexsort((-(thirds**2) / variances**3, pairs[0]))
                worst = order[np.flatnonzero(np.diff(pairs[0][order], prepend=-1))]
                third[places], variance[places] = thirds[worst], variances[worst]
            elif not best and side.strata is None and solver.welch:
                df[places] = whole.df
            if solver.bendable and side.comparable is None:
                assert isinstance(side.means, Real)
                share, corrected = side.means.carrying, side.strata is None
                welch = FEW_ROWS if corrected and solver.welch else 0.0
                bent = bend(mine, theirs, alpha, tests, pairs, carrying=share, corrected=corrected, welch=welch)
                law.excess[:, places], law.level[:, places], law.trusted[places], law.few[places] = bent
                if mirrored:
                    law.excess[:, places[1:]], law.level[:, places[1:]] = bent.excess[::-1], bent.level[::-1]
    return ErrorMoments(third, variance, narrow, df, law, lacking)


# ---- the metric itself


def metric_limits(solvers: Sequence[Solver], alpha: float) -> tuple[FloatArray, FloatArray]:
    """Limits for each group's metric, whatever it is compared with; NaN if there are too few rows or clusters.

    Of a rate, Wilson's; of a mean, Student's; of any other metric, those of its law. With weights or clusters, the
    critical value is that of the design.
    """
    ends = []
    for solver in solvers:
        start, totals = 0, None
        if solver.sums.design is not None:  # all groups in one pass over the clusters
            alone = list(map(solver.metric_influence, solver.sides))
            every = np.ones(stacked([solver], "status").size, dtype=bool)
            totals = spread(solver.sums.design, Influence.join(alone, every))
        for side in solver.sides:
            places = np.arange(start, start + side.status.size)
            ends.append(_metric_limits(solver, side, alpha, None if totals is None else totals.select(places)))
            start += side.status.size
    low, high = (np.concatenate(part) for part in zip(*ends, strict=True))
    return low, high


def _metric_limits(solver: Solver, side: Side, alpha: float, totals: Spread | None) -> tuple[FloatArray, FloatArray]:
    sums, groups = solver.sums, side.status.size
    n, mean, variance = (part[:groups] for part in (side.means.n, side.means.mean, side.means.variance))
    level = np.full(groups, chi2_isf(alpha, 1))
    known = (n > 0) if sums.binary else ~np.isin(side.status, UNSPREAD) & (n > 1)
    with np.errstate(all="ignore"):
        assumed = variance / n if sums.binary or sums.design is not None else variance / (n - 1.0)
        effect, measured = None, np.array([], dtype=np.intp)
        if sums.measure.functional:
            known &= np.isfinite([part.value for part in side.evaluations[:groups]])
            measured = np.flatnonzero(known)
            pairs: list[tuple[int, Evaluation | float]] = [(int(group), 0.0) for group in measured]
            effect = replace(solver, link=IDENTITY)._contrasts(side, pairs)
            assumed[measured] = effect.standard_error**2
        if totals is not None:
            known &= totals.effective >= FEWEST
            level = totals.law(assumed, constant=side.status == Status.CONSTANT).critical(level)
        elif not sums.binary and effect is None:
            level = np.asarray(t_isf(alpha / 2.0, np.maximum(n - 1.0, 1.0)) ** 2)
        if effect is not None:
            low, high = np.full((2, groups), np.nan)
            inner = effect.inner if sums.design is not None and isinstance(effect, Designed) else effect
            low[measured], high[measured] = inner.interval(level[measured])
        elif sums.binary:  # Wilson (1927): the rates p with n (mean - p)² <= level p (1 - p)
            center, room = mean + level / (2.0 * n), level * (assumed + level / (4.0 * n**2))
            low, high = ((center + sign * np.sqrt(room)) / (1.0 + level / n) for sign in (-1.0, 1.0))
            low, high = np.where(mean == 0, 0.0, low), np.where(mean == 1, 1.0, high)
        else:
            low, high = mean - np.sqrt(level * assumed), mean + np.sqrt(level * assumed)
    return np.where(known, low, np.nan), np.where(known, high, np.nan)


# ---- the family of all groups


def places_of(solvers: Sequence[Solver]) -> list[slice]:
    places, start = [], 0
    for solver in solvers:
        places.append(slice(start, start + stacked([solver], "status").size))
        start = places[-1].stop
    return places


def combined_spread(solvers: Sequence[Solver]) -> Spread | None:
    spreads = []
    for solver in solvers:
        if solver.sums.design is None:
            return None
        influences = [solver.influence(side) for side in solver.sides]
        every = np.ones(stacked([solver], "status").size, dtype=bool)
        spreads.append(spread(solver.sums.design, Influence.join(influences, every)))
    return Spread.join(spreads)


def mark_few_clusters(solvers: Sequence[Solver], totals: Spread) -> None:
    """List groups with too few clusters for a variance without testing them."""
    start = 0
    for solver in solvers:
        for side in solver.sides:
            effective = totals.effective[start : start + side.status.size]
            side.status[able_groups(side.status) & ~(effective >= FEWEST)] = Status.FEW_CLUSTERS
            start += side.status.size


def law_of_design(solvers: Sequence[Solver], totals: Spread) -> Law:
    """The law of each group's T under the design: that of its difference, whatever scale it is reported on."""
    if solvers[0].reference.to.best:  # pairs have laws of their own
        sides = [side for solver in solvers for side in solver.sides]
        assumed = np.concatenate([(side.means.variance / side.means.n)[: side.status.size] for side in sides])
    else:
        plain = [replace(solver, link=IDENTITY, correction=None) for solver in solvers]
        assumed = likelihoods(plain).standard_error ** 2
    law = totals.law(assumed, constant=stacked(solvers, "status") == Status.CONSTANT)
    start = 0
    for solver in solvers:
        for side in solver.sides:
            places = np.arange(start, start + side.status.size)
            start += side.status.size
            design, adjusted = solver.sums.design, side.strata is not None or side.comparable is not None
            clustered = design is not None and design.clusters is not None
            if clustered and solver.sums.binary and solver.automatic and not adjusted:
                law.effect[places], law.df[places] = _few_cases(solver.sums, side, law.select(places), totals, places)
    return law


def _few_cases(sums: MetricRows, side: Side, law: Law, totals: Spread, places: IntArray) -> tuple[FloatArray, ...]:
    """The design effect and degrees of freedom of rates with few cases, by the correlation within all clusters.

    Clusters with a case are too few to show it themselves (Rao and Scott 1992). A larger effect of its own counts.
    """
    design, means = sums.design, side.means
    assert design is not None
    assert isinstance(means, Binary)
    mass, squared, others, squared_others = (
        part[places] for part in (totals.mass, totals.squared_mass, totals.others, totals.squared_others)
    )
    beside = np.where(others > 0, np.minimum(side.reference, 1.0 - side.reference) * others, np.inf)
    few = np.minimum(fewest_cases(means, np.arange(mass.size)), beside) < FEW_CASES
    few &= (side.status == Status.OK) | (side.status == Status.CONSTANT)
    if not few.any():
        return law.effect, law.df
    codes = np.where(side.partition.codes < 0, side.status.size, side.partition.codes)
    away = np.nan_to_num(sums.value - means.mean[codes])
    whole = spread(design, Influence.from_values(away))
    with np.errstate(all="ignore"):
        alone, size = float(sums.mass @ away**2), whole.squared_mass / whole.mass
        correlation = np.nan_to_num(np.clip((whole.second - alone) / (alone * (size - 1.0)), 0.0, 1.0))
        mine, theirs = (1.0 + (part - 1.0) * correlation for part in (squared / mass, squared_others / others))
        both = (mine / mass + theirs / others) / (1.0 / mass + 1.0 / others)
    pooled = np.where(others > 0, both, mine)
    effect = np.where(side.status == Status.CONSTANT, pooled, np.maximum(law.effect, pooled))
    return np.where(few, effect, law.effect), np.where(few, np.maximum(law.df, whole.df), law.df)


def treated_otherwise(solvers: Sequence[Solver], parts: Parts) -> Parts | None:
    """The likelihoods without the reference's error if it is taken into account, and with it (uncorrected) if not."""
    first = solvers[0]
    known = first.reference.to is To.NUMBER or first.sigma is not None
    if known or first.reference.to.best or not 0 < int(parts.tested.sum()) <= CONTRASTS:
        return None
    counted = not first.reference.joint
    if not counted and first.sums.design is None:
        plain = []
        for where, part in parts.parts:
            if (other := plugged(part)) is not None:
                plain.append((where, other))
        if len(plain) == len(parts.parts):
            return replace(parts, parts=tuple(plain))
    reference = replace(first.reference, joint=counted)
    again = [
        replace(solver, reference=reference, correction=None if counted else solver.correction) for solver in solvers
    ]
    others, totals = replace(parts, parts=likelihoods(again).parts), combined_spread(again)
    return others if totals is None else others.under(law_of_design(again, totals))


def planning_error(
    solvers: Sequence[Solver],
    disparity: FloatArray,
    error: FloatArray,
    tested: BoolArray,
    effect: FloatArray,
    binary: BoolArray,
) -> FloatArray:
    """Standard errors on the scale of the link if the group has the rate, and so the variance, of its reference."""
    link = solvers[0].link
    with np.errstate(all="ignore"):
        error = error / disparity if link.ratio else error
        if solvers[0].sums.strata is not None or solvers[0].terms is not None:
            return error
        share = stacked(solvers, "share") if solvers[0].reference.to is To.POPULATION else 0.0
        rate, reference = stacked(solvers, "estimate"), stacked(solvers, "reference")
        weight = effect * (1.0 - share) ** 2 / stacked(solvers, "mass")
        mine = weight * rate * (1.0 - rate) / link.unit(rate) ** 2
        usual = weight * reference * (1.0 - reference) / link.unit(reference) ** 2
        squared = np.maximum(error**2 - mine, 0.0) + usual
        planned = np.where(tested & ~np.isfinite(squared), np.sqrt(2.0 * usual), np.sqrt(squared))
        return np.where(binary, planned, error)


def same_hypotheses(solvers: Sequence[Solver], null: Hypothesis | None) -> IntArray:
    """A number for each group's null hypothesis; equal numbers mean the same hypothesis.

    Two groups that are everybody have the same one if it is symmetric: against each other (the rest) if two-sided, and
    against the population if it states equality. They are the two levels of a column, or complementary conditions.
    Among comparable people they are two hypotheses: each group is compared with people who have its own factors.
    """
    reference, link = solvers[0].reference, solvers[0].link
    symmetric = False
    if null is not None and null.side == "two-sided" and all(side.comparable is None for side in solvers[0].sides):
        low, high = link.delta(np.array([null.low, null.high]))
        symmetric = low == -high and (reference.to is To.REST or (reference.to is To.POPULATION and low == 0))
    numbers, start = np.arange(stacked(solvers, "status").size), 0
    for solver in solvers if symmetric else ():
        conditions: dict[int, BoolArray] = {}  # each is a partition with one group
        for side in solver.sides:
            size, inside = len(side.partition.groups), side.partition.codes >= 0
            if size == 2 and inside.all():
                numbers[start + 1] = start
            elif size == 1:
                numbers[start] = next((i for i, other in conditions.items() if (inside != other).all()), start)
                conditions[start] = inside
            start += size
    return numbers


# ---- the dependence of the tests


def max_t_draws(
    solvers: Sequence[Solver], null: Hypothesis, disparity: FloatArray, error: FloatArray, tested: BoolArray
) -> tuple[FloatArray, ...]:
    """P-values of all groups of each metric (draws x groups) under their nulls, with their dependence."""
    drawn = []
    for solver, places in zip(solvers, places_of(solvers), strict=True):
        if (number := int(tested[places].sum())) > FAMILY:
            raise UsageError(f"adjust: 'max-t' takes at most {FAMILY:,} groups, saw {number:,}; use 'holm'.")
        joint = _covariance(solver, tested[places]) if number else np.empty((0, 0))
        columns = disparity[places], error[places], tested[places]
        drawn.append(_null_draws(joint, null, solver.link, *columns, solver.rng, 1.0, DRAWS))
    return tuple(drawn)


def rate_draws(
    solvers: Sequence[Solver],
    null: Hypothesis,
    disparity: FloatArray,
    error: FloatArray,
    tested: BoolArray,
    *,
    alpha: float,
    one_pass: bool,
) -> tuple[FloatArray, ...]:
    """The same for all metrics jointly, to measure the rate of Benjamini and Hochberg's adjustment; empty if too many.

    ``one_pass``: one pass counted all metrics, so their lines are the same.
    """
    lines = 1 + max(int(solver.sums.lines_kept.max(initial=0)) for solver in solvers)
    if not 1 < int(tested.sum()) <= RATE_GROUPS or tested.size * lines > RATE_ENTRIES:
        return ()
    if len(solvers) == 1:
        common = _covariance(solvers[0], tested)
    elif not one_pass or any(solver.sums.design is not None or solver.sums.dropped for solver in solvers):
        return ()
    else:
        values, mass = np.zeros((lines, tested.size)), np.zeros(lines)
        for solver, places in zip(solvers, places_of(solvers), strict=True):
            rows = solver.sums.lines_kept
            values[rows, places] = np.hstack([solver.influence(side).dense() for side in solver.sides])
            mass[rows] = solver.sums.mass
        common = covariance(Design(mass, mass, mass, mass, None), Influence.from_values(values[:, tested]))
    draws, rng = min(RATE_DRAWS, RATE_NUMBERS // int(tested.sum())), np.random.default_rng(0)
    return (_null_draws(common, null, solvers[0].link, disparity, error, tested, rng, alpha, draws),)


def _covariance(solver: Solver, tested: BoolArray) -> FloatArray:
    return covariance(_design(solver.sums), Influence.join(list(map(solver.influence, solver.sides)), tested))


def _null_draws(
    joint: FloatArray,
    null: Hypothesis,
    link: Link,
    disparity: FloatArray,
    error: FloatArray,
    tested: BoolArray,
    rng: np.random.Generator,
    most: float,
    draws: int,
) -> FloatArray:
    """P-values (draws x groups) with this covariance of the tested groups; those above ``most`` may be 1."""
    if not tested.any():
        return np.full((0, tested.size), np.nan)
    error = error[tested] / disparity[tested] if link.ratio else error[tested]
    ends = link.delta(np.array([null.low, null.high]))
    with np.errstate(divide="ignore", invalid="ignore"):
        width = np.nan_to_num((ends[1] - ends[0]) / error, posinf=np.inf)
    sign = np.where(link.delta(disparity[tested]) < ends.mean(), -1.0, 1.0)
    values = null_pvalues(joint, null, width, sign, rng, most=most, draws=draws)
    every = np.full((len(values), tested.size), np.nan)
    every[:, tested] = values
    return every


# ---- the widest gap


@dataclass(frozen=True, slots=True)
class Widest:
    """The largest gap between two groups of the same columns, with its interval; for ratios the smallest ratio.

    ``groups`` are the pair, the lower one first.
    """

    value: float
    ci_low: float
    ci_high: float
    groups: tuple[str, str]
    metric: str


class Gaps:
    """The widest gap, computed on first use, from the counts at the time of the call.

    It is copied and pickled as the resulting `Widest`.
    """

    def __init__(self, solvers: Sequence[Solver], alpha: float) -> None:
        self._arguments = solvers, alpha

    @cached_property
    def widest(self) -> Widest | None:
        return _widest_gap(*self._arguments)

    def __reduce__(self) -> tuple[object, tuple[Widest | None]]:
        return _unpickled, (self.widest,)


def _unpickled(gap: Widest | None) -> Widest | None:
    return gap


def _widest_gap(solvers: Sequence[Solver], alpha: float) -> Widest | None:
    effects: list[tuple[Effect, list[tuple[str, str, str]]]] = []
    tests, link = 0, solvers[0].link
    for solver in solvers:
        counted = replace(solver.reference, joint=True)
        joint = replace(solver, reference=counted, correction=None, rng=np.random.default_rng(0))
        for side in replace(solver, reference=Reference(To.HIGHEST, True)).with_sides().sides:
            able = side.tested
            if able.size < 2:
                continue
            tests += able.size * (able.size - 1) // 2
            first, second = _outermost_pairs(side, able, link, PAIRS if solver.sigma is None else STANDARDIZED_PAIRS)
            names, metric = side.partition.groups, solver.sums.measure.name
            labels = [(str(names[a]), str(names[b]), metric) for a, b in zip(first, second, strict=True)]
            effects.append((joint.pair(side, first, second), labels))
    counts = [part for part, _ in effects if isinstance(part, ProfileLikelihood)]
    counts = [part for part in counts if isinstance(natural(part.groups), Binary)]
    if counts and len(counts) == len(effects):  # many small solves cost more than one large one
        effects = [(ProfileLikelihood.pooled(counts), [label for _, labels in effects for label in labels])]
    largest, pair, least, most = np.nan, ("", "", ""), 0.0, 0.0
    for pairs, labels in effects:
        place, low, high = widest(pairs, alpha, tests)
        gap = float(pairs.value[place])
        if np.isnan(gap):
            continue
        least, most = max(least, low), max(most, high)
        if not abs(gap) <= largest:
            first_, second_, metric = labels[place]
            largest, pair = abs(gap), (first_, second_, metric) if gap <= 0 else (second_, first_, metric)
    if np.isnan(largest):
        return None
    ends = (float(np.exp(-most)), float(np.exp(-least))) if link.ratio else (least, most)
    return Widest(float(link.reported(-largest if link.ratio else largest)), *ends, pair[:2], pair[2])


def _outermost_pairs(side: Side, groups: IntArray, link: Link, number: int) -> tuple[IntArray, IntArray]:
    """The pairs that may have the widest gap, or the largest upper limit of a gap, by normal theory.

    √(a² + b²) is the largest a cos t + b sin t, so the group at an end of the widest upper limit has the largest mean
    plus some multiple of its error among all groups: a few multiples, and several groups for each, represent all.
    """
    means = linked(side.means, link)
    with np.errstate(all="ignore"):
        error = np.sqrt(means.variance / means.n)
    if groups.size > MANY:
        center, margin = np.nan_to_num(means.mean[groups]), np.nan_to_num(error[groups], posinf=0.0)
        limits = [sign * center + factor * margin for sign in (1.0, -1.0) for factor in (-4.0, -2.0, 0.0, 1.0, 2.0)]
        groups = groups[_largest(limits, MANY // 10)]
    first, second = (groups[part] for part in np.triu_indices(groups.size, 1))
    if first.size <= number:
        return first, second
    with np.errstate(all="ignore"):
        gap = np.nan_to_num(np.abs(means.mean[first] - means.mean[second]), nan=0.0)
        margin = np.nan_to_num(np.sqrt(error[first] ** 2 + error[second] ** 2))
    chosen = _largest([gap, gap + 2.0 * margin, gap - 4.0 * margin], number // 3)
    return first[chosen], second[chosen]


def _largest(values: Sequence[FloatArray], number: int) -> IntArray:
    return np.unique(np.concatenate([np.argpartition(-part, number)[:number] for part in values]))
