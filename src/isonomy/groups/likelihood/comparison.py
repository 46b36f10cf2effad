"""Groups and their references: their means, which groups can be tested, and by which likelihood.

All groups of all metrics are one family of tests: their laws, their dependence, and the widest gap between two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from operator import attrgetter
from typing import Any, NamedTuple

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
from isonomy.inference.multiplicity import square_root
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
# The correlation within clusters of a side with few cases, at least. A group of 60 clusters of 5 whose correlation is
# 0.3 beside 0.02 elsewhere is then shown to lie below the others' rate of 0.02 in 0.043 of tables (0.063 without it).
CORRELATION = 0.1
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


# What is not read yet.
UNREAD = Binary([], [])
_unread: Any = partial(np.empty, 0)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ComparedGroups:
    """The groups of one partition by one metric, their references, what can be tested, and by which likelihood.

    ``places`` are those of the groups among all groups of all metrics. `prepared` reads from the rows: the ``rows``,
    ``mass`` and ``share`` of each group; ``means``, with one more group for all other rows, so that a group and its
    rest are all rows; and the ``estimate`` of each group with the value of its reference, both adjusted within strata
    and among comparable people. A metric that is not a mean over rows has its ``evaluations``, and those of the
    references it is compared ``against``.
    """

    sums: MetricRows
    partition: Partition
    size: FloatArray
    reference: Reference
    method: str
    correction: str | None
    resamples: int
    rng: np.random.Generator
    min_size: int
    places: slice
    link: Link = IDENTITY
    scale: Scale = "difference"
    sigma: Sigma | None = None
    scored: bool = False
    model: str = ""
    terms: Terms | None = None
    codes: IntArray = field(default_factory=_unread)  # of each line, with one more for the others
    rows: FloatArray = field(default_factory=_unread)
    mass: FloatArray = field(default_factory=_unread)
    share: FloatArray = field(default_factory=_unread)
    means: Binary | Real = UNREAD
    status: ObjectArray = field(default_factory=_unread)
    estimate: FloatArray = field(default_factory=_unread)
    reference_value: FloatArray = field(default_factory=_unread)
    strata: Strata | None = None
    evaluations: tuple[Evaluation, ...] = ()
    against: tuple[Evaluation, ...] = ()
    comparable: Comparable | None = None

    def prepared(self) -> ComparedGroups:
        sums, reference, link, counts = self.sums, self.reference, self.link, self.sums.counts
        groups, n = len(self.size), self.partition.sum(counts)
        codes = self.partition.codes
        if (codes < 0).any():
            codes = np.where(codes < 0, groups, codes)
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
            status[self.partition.sum(weighing) == weighing.sum()] = Status.REFERENCE
        elif reference.to.best:
            if int(able_groups(status).sum()) < 2:
                status[status == Status.OK] = Status.REFERENCE
        elif sums.in_reference is not None:
            chosen = counts * sums.in_reference
            status[(self.partition.sum(chosen) == n) & (n == chosen.sum())] = Status.REFERENCE
        against: tuple[Evaluation, ...] = ()
        if evaluations and reference.to is To.REST:
            against = tuple(sums.evaluate(codes != group) for group in range(groups))
        elif evaluations and not reference.to.best and reference.value is None:
            against = (sums.evaluate(self._referents(codes >= 0)),) * groups
        values = self._reference_values(means, able_groups(status), against)
        status[able_groups(status) & ~link.comparable(values)] = Status.ZERO_BASELINE
        if evaluations:
            undefined = np.array([np.isnan(part.value) for part in evaluations[:groups]])
            status[able_groups(status) & (undefined | np.isnan(values))] = Status.UNSUPPORTED
            for group in np.flatnonzero(status == Status.OK) if self.lawful else ():
                other = against[group].measured() if against else None
                if evaluations[group].measured().events(other) < EVENTS:
                    status[group] = Status.FEW_EVENTS
        mass = means.n[:groups]
        status[mass == 0] = Status.EMPTY
        columns = {"codes": codes, "rows": n, "mass": mass, "share": mass / max(means.n.sum(), 1e-300), "means": means}
        ready = replace(self, **columns, status=status, evaluations=evaluations, against=against)
        able = able_groups(status)
        if self.terms is not None:
            people = None if reference.to is To.REST else sums.in_reference
            people_of = self.terms, self.partition, sums.value, sums.mass, people, able
            fitted = compare_groups(*people_of, binary=sums.binary, model=self.model)
            for place, pair in enumerate(fitted.pairs):
                if able[place] and pair.status is not Status.OK:
                    status[place] = pair.status
            return replace(ready, estimate=fitted.means[0], reference_value=fitted.means[1], comparable=fitted)
        if sums.strata is None:
            return replace(ready, estimate=means.mean[:groups], reference_value=values)
        pairs = StratifiedLines.of_groups(sums, self.partition).strata
        mine, theirs = pairs.adjusted(self.scale)
        status[able & ~link.comparable(theirs)] = Status.ZERO_BASELINE
        # Only rows in strata with two sides count, on either side.
        shared = [pairs.total(rows * pairs.informative) for rows in (pairs.n1, pairs.n0)]
        unsupported = (np.minimum(*shared) < self.min_size) | (pairs.total(pairs.weight) == 0)
        if sums.design is not None:
            unsupported |= pairs.crowding(self.scale) > CROWDED
        status[able & unsupported] = Status.UNSUPPORTED
        return replace(ready, estimate=mine, reference_value=theirs, strata=pairs)

    @property
    def tested(self) -> IntArray:
        # A constant 0/1 group still has a binomial likelihood; constant numbers have none.
        return np.flatnonzero(able_groups(self.status) if isinstance(self.means, Binary) else self.status == Status.OK)

    @property
    def design(self) -> Design:
        """The design of the rows, or that of independent rows without weights."""
        sums = self.sums
        return sums.design or Design(sums.mass, sums.mass, sums.mass, sums.counts, None)

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

    # What groups are compared with.

    def _referents(self, group: BoolArray) -> BoolArray:
        if self.reference.to is To.REST:
            return ~group
        return np.ones_like(group) if self.sums.in_reference is None else self.sums.in_reference

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

    # The influence of lines on disparities.

    def influence(self) -> Influence:
        sums, means, reference, groups = self.sums, self.means, self.reference, len(self.size)
        if self.strata is not None:
            return strata_influence(sums, self.partition, self.scale)
        if self.comparable is not None:
            return self.comparable.influence()
        if sums.measure.functional:
            return self._functional_influence()
        if self.sigma is not None and not reference.to.best:
            return self._standardized_influence()
        value, inside = sums.value, sums.mass > 0
        codes = np.where(inside, self.partition.codes, -1)
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

    def metric_influence(self) -> Influence:
        codes = np.where(self.sums.mass > 0, self.partition.codes, -1)
        with np.errstate(all="ignore"):
            within = (self.sums.value - self.means.mean[codes]) / self.means.n[codes]
        for part in self.evaluations[: len(self.size)]:
            within[part.lines] = part.added
        return Influence.from_groups(codes, within, len(self.size))

    def _functional_influence(self) -> Influence:
        values = np.zeros((self.partition.codes.size, len(self.size)))
        members = np.zeros(values.shape, dtype=bool)
        for g, part in enumerate(self.evaluations[: len(self.size)]):
            values[part.lines, g] = part.added
            members[part.lines, g] = True
            if self.reference.joint and self.against:
                values[self.against[g].lines, g] -= self.against[g].added
                members[self.against[g].lines, g] = True
        return Influence.from_values(values, members)

    def _standardized_influence(self) -> Influence:
        codes, groups = self.partition.codes, len(self.size)
        if codes.size * groups > ENTRIES:
            raise UsageError(
                f"scale: 'standardized' with weight or cluster needs {codes.size:,} rows for each of {groups:,} "
                "groups, which is too much; test fewer groups at a time."
            )
        fitted = [self._standardized(g).fit()[3] / self.sums.mass.sum() for g in range(groups)]
        return Influence.from_values(np.nan_to_num(np.column_stack(fitted)), codes[:, None] == np.arange(groups))

    def _standardized(self, group: int, other: int | None = None) -> StandardizedContrast:
        """A group and its reference, or another group, on the scale of σ, which may be that of a named reference."""
        rows, number, unit = self.partition.codes == group, self.reference.value, None
        if self.sigma != "pooled":
            unit = self.sums.in_reference if self.sigma == "reference" else np.ones(rows.size, dtype=bool)
        referents: BoolArray | float = self._referents(rows) if number is None else float(number)
        if other is not None:
            referents = self.partition.codes == other
        return StandardizedContrast(self.sums.value, self.sums.mass, rows, referents, unit)

    def deviations(self) -> FloatArray:
        best = self.reference.to.best
        return np.array([self._standardized(g, g if best else None).fit()[2] for g in range(len(self.size))])

    def contributions(self) -> tuple[Contribution, Contribution]:
        """What groups and references contribute to the third moment and the variance of each disparity."""
        sums, codes, groups = self.sums, self.partition.codes, len(self.size)
        if self.strata is not None and sums.design is None:
            return self.strata.contributions(self.scale)
        by_rows = sums.design is None and self.sigma is None and not sums.measure.functional
        if by_rows and self.reference.to is To.REST and self.reference.joint and isinstance(self.means, Real):
            rest = self.means.rest()
            if all(part.moments.usable[:groups].all() for part in (self.means, rest)):  # no need to read the rows again
                return _contribution(self.means, groups, 1.0), _contribution(rest, groups, -1.0)
        # A standardized difference has the law of the difference, which needs less memory.
        influence = (replace(self, sigma=None) if codes.size * groups > ENTRIES else self).influence()
        if sums.measure.functional:  # the influence of the reference is not that of members
            members = Influence.from_groups(codes, np.zeros(codes.size), groups).members
            influence = replace(influence, members=members)
        return spread(self.design, influence).sides

    # Likelihoods.

    def effects(self) -> list[Part]:
        tested, reference, sums = self.tested, self.reference, self.sums
        if self.comparable is not None:
            return [(tested, self.comparable.effect(tested, self.link, designed=sums.design is not None))]
        if self.strata is not None:
            law = None
            if self.welch:
                law = Law(np.ones(tested.size), combined(self.strata.contributions(self.scale)).df[tested])
            return [(tested, Stratified(self.strata, self.scale, tested, law))]
        if reference.to.best and reference.joint:
            if tested.size < 2:
                return []
            first, second = every_pair(tested.size)
            pairs = self.pair(tested[first], tested[second])
            return [(tested, AgainstBest(pairs, first, 1.0 if reference.to is To.HIGHEST else -1.0))]
        if self.sigma is not None:
            contrasts = tuple(self._standardized(int(g)) for g in tested)
            return [(tested, self._few_rows(Overlapping(contrasts, self.method)))]
        if sums.measure.functional and self.lawful:
            others = self.against if reference.joint and self.against else tuple(map(float, self.reference_value))
            return [(tested, self._contrasts([(int(g), others[g]) for g in tested]))]
        if not reference.joint:
            known = ProfileLikelihood(Kind.FIXED, self.means, tested, theta=self.reference_value[tested])
            return [(tested, self._likelihood(known))]
        if not tested.size:
            return []
        if sums.measure.functional:
            return [(tested, self._functional([(int(g), self.against[g]) for g in tested]))]
        if reference.to in (To.POPULATION, To.REST):
            kind = Kind.NESTED if reference.to is To.POPULATION else Kind.DISJOINT
            return [(tested, self._compared(kind, self.means, tested, self.means.rest(), tested))]
        if reference.estimate is None:
            return self._against_group()
        units, lines = sums.standard()
        value = float(units.standard(np.array(reference.estimate.value)))
        # All rows: their influence values count whether or not they are in the group.
        inside = [(self.partition.codes == group) & (sums.mass > 0) for group in tested]
        built = [self._with_influence(lines, rows, value, units) for rows in inside]
        return [(tested, self._overlapping(built, units))]

    def _with_influence(self, lines: Lines, group: BoolArray, value: float, units: Units) -> Pair:
        codes, distinct = lines.collapsed(group.astype(np.intp))
        return Pair(distinct.patterns(codes, 2), np.array([0.0, 1.0]), np.zeros(2), value, self.link, units.zero)

    def _functional(self, pairs: Sequence[tuple[int, Evaluation]]) -> Effect:
        """Groups' value + influence against references with influence values, which may share rows."""
        means, sums, built = self.means, self.sums, []
        n, mean, variance = (part[means.n > 0] for part in (means.n, means.mean, means.variance))
        units = Units.spanning(float(np.average(mean, weights=n)), float(np.sqrt(np.average(variance, weights=n))))
        for group, other in pairs:
            rows, mine = self.partition.codes == group, self.evaluations[group]
            values, influences = np.zeros(rows.size), np.zeros(rows.size)
            values[mine.lines] = units.standard(mine.value + mine.influence)
            influences[other.lines] = other.added * sums.mass.sum()
            lines = Lines(False, values, sums.weight, influences / units.scale)
            built.append(self._with_influence(lines, rows, float(units.standard(np.array(other.value))), units))
        return self._overlapping(built, units)

    def _contrasts(self, pairs: Sequence[tuple[int, Evaluation | float]]) -> Effect:
        """Groups and their references, or numbers, for a metric that is not a mean over rows."""
        contrasts, on_other = [], np.zeros(self.partition.codes.size)
        for group, other in pairs:
            mine = self.evaluations[group]
            alone = float(mine.mass @ mine.added**2)
            if isinstance(other, float):
                contrasts.append(Contrast(mine.measured(), other, (alone, 0.0, 0.0, 0.0), self.link.ratio))
                continue
            on_other[:] = 0.0
            on_other[other.lines] = other.added
            shared = on_other[mine.lines]
            common = float(mine.mass @ shared**2)
            beside = max(float(other.mass @ other.added**2) - common, 0.0)
            theirs, both = other.measured(), float(mine.mass @ (mine.added * shared))
            sums = alone, both, common, beside
            contrasts.append(Contrast(mine.measured().beside(theirs), theirs, sums, self.link.ratio))
        effect = Contrasts(tuple(contrasts))
        return Designed(effect, Law(np.ones(len(contrasts)), effect.freedom))

    def _few_rows(self, effect: Overlapping) -> Effect:
        return effect.by_welch() if self.welch and self.method == "el" else effect

    def _overlapping(self, pairs: Sequence[Pair], units: Units, rows: float | None = None) -> Effect:
        """Pairs solved in units of their own, in which a ratio does not change."""
        likelihood = Overlapping(tuple(pairs), self.method, rows)
        effect = likelihood if rows is None else self._few_rows(likelihood)
        return Rescaled(effect, units.scale) if self.link is IDENTITY else effect

    def _compared(self, kind: Kind, means: Binary | Real, group: IntArray, other: Means, partner: IntArray) -> Effect:
        if kind is Kind.NESTED and self.link is LOGIT:
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
        if not self.sums.binary and self.welch:
            return problem.by_welch()
        return problem.scoring_few() if self.automatic else problem

    def pair(self, first: IntArray, second: IntArray) -> Effect:
        members = list(zip(first.tolist(), second.tolist(), strict=True))
        if self.sums.measure.functional:
            others = [(a, self.evaluations[b]) for a, b in members]
            pairs = self._contrasts(others) if self.lawful else self._functional(others)
        elif self.sigma is not None:
            pairs = self._few_rows(Overlapping(tuple(self._standardized(a, b) for a, b in members), self.method))
        else:
            pairs = self._compared(Kind.DISJOINT, self.means, first, self.means, second)
        with np.errstate(all="ignore"):
            variance = self.means.variance / self.means.n
        if self.welch:
            rows = [Contribution.of_rows(0.0 * variance[i], variance[i], self.means.n[i]) for i in (first, second)]
            return Designed(pairs, Law(np.ones(first.size), combined(rows).df))
        if self.sums.design is None:
            return pairs
        effect, totals = pair_effect(self.sums.design, self.influence(), variance, first, second)
        return Designed(pairs, Law(effect, np.minimum(totals.effective[first], totals.effective[second]) - 1.0))

    def _against_group(self) -> list[Part]:
        sums, means, tested, size, codes = self.sums, self.means, self.tested, len(self.size) + 1, self.codes
        assert sums.in_reference is not None
        chosen = sums.in_reference
        level = sums.means(np.where(chosen, 0, -1), 1)
        counts = sums.counts  # rows, not masses: sums of weights in another order may differ
        common, n = self.partition.sum(counts * chosen)[tested], self.rows[tested]
        apart, around, within = common == 0, (common == n) & (n > 0), common == float(counts[chosen].sum())
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
        if (which := tested[~(apart | around | within)]).size:
            if self.correction is not None:
                raise UsageError("correction: not available for a reference that overlaps a group in part.")
            units, lines = sums.standard()
            # By which of the two they are in; rows in neither are left out.
            patterns = [lines.patterns((codes == g).astype(np.intp) + 2 * chosen - 1, 3) for g in which]
            few = np.zeros(which.size, dtype=bool)
            if self.scored and sums.binary and self.link is not LOGIT:
                n = np.column_stack([data.n for data in patterns])
                ones = np.column_stack([data.first[0] for data in patterns])
                few = (fewest_cases(means, which) < FEW_CASES) | (fewest_cases(level, first[which]) < FEW_CASES)
                parts.append((which[few], OverlapScore(n[:, few], ones[:, few], self.link)))
            several = [data for data, scored in zip(patterns, few, strict=True) if not scored]
            pairs = [Pair(data, IN_GROUP, IN_REFERENCE, link=self.link, center=units.zero) for data in several]
            if pairs:
                parts.append((which[~few], self._overlapping(pairs, units, float(sums.mass.sum()))))
        return parts


def _contribution(means: Real | Rest, groups: int, sign: float) -> Contribution:
    """What independent rows contribute to the errors of differences in which their means have this ``sign``."""
    n, third, variance = means.n[:groups], means.moments.central(3)[:groups], means.variance[:groups]
    return Contribution.of_rows(sign * third / n**2, variance / n, n)


# ---- the family of all groups


def stacked(parts: Sequence[ComparedGroups], column: str) -> AnyArray:
    return np.concatenate(list(map(attrgetter(column), parts)))


def by_metric(parts: Sequence[ComparedGroups]) -> list[tuple[slice, list[ComparedGroups]]]:
    """The groups of each metric, and their places in the family."""
    metrics: list[tuple[slice, list[ComparedGroups]]] = []
    for part in parts:
        places, each = metrics.pop() if metrics and metrics[-1][1][0].sums is part.sums else (part.places, [])
        metrics.append((slice(places.start, part.places.stop), [*each, part]))
    return metrics


def likelihoods(parts: Sequence[ComparedGroups]) -> Parts:
    first, effects = parts[0], []
    for part in parts:
        for where, effect in part.effects():
            if where.size:
                effects.append((where + part.places.start, effect))
    if first.sums.strata is not None:  # of one metric
        within = [part.strata.estimate(first.scale) for part in parts if part.strata is not None]
        return Parts(np.concatenate(within), tuple(effects))
    disparity = first.link.compared(stacked(parts, "estimate"), stacked(parts, "reference_value"))
    if first.sigma is not None:
        with np.errstate(divide="ignore", invalid="ignore"):
            disparity = disparity / np.concatenate([part.deviations() for part in parts])
    same = stacked(parts, "status") == Status.REFERENCE  # the same rows, summed in another order
    disparity = np.where(same & ~np.isnan(disparity), first.link.equal, disparity)
    return gathered(disparity, effects, first.link)


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


def moments(parts: Sequence[ComparedGroups], tested: BoolArray, alpha: float, tests: int) -> ErrorMoments:
    """The same by influence values, for verdicts at ``alpha`` over all ``tests``.

    Rates have a law of their own and count as not skewed. A group compared with the best of all groups is as skewed as
    the worst of its pairs. The degrees of freedom of pairs and of strata are part of their law. Clusters and
    comparable people have no law for skewed differences, nor has a likelihood that the call chose.
    """
    third, variance, narrow, df = np.tile([[0.0], [1.0], [1.0], [np.inf]], tested.size)
    excess, level = np.zeros((2, 2, tested.size))
    trusted, few, lacking = np.zeros((3, tested.size), dtype=bool)
    for part in parts:
        local, sums = np.flatnonzero(tested[part.places]), part.sums
        places = part.places.start + local
        if sums.binary or part.lawful or not local.size:  # their effects have a law and a gate already
            continue
        # The hypothesis of no difference has the same p-value on every scale, against the population and the rest.
        to, best = part.reference.to, part.reference.to.best
        plain = replace(part, sigma=None, reference=replace(part.reference, to=To.REST if to is To.POPULATION else to))
        mine, theirs = (Contribution(*(values[local] for values in half)) for half in plain.contributions())
        mirrored = local.size == 2 and all(
            np.allclose(*ends, rtol=1e-9, atol=0.0)
            for ends in zip((mine.rows, mine.variance), (theirs.rows[::-1], theirs.variance[::-1]), strict=True)
        )
        if mirrored:  # two groups that are each other's rest: one difference, seen from two sides
            mine, theirs = (Contribution(*(values[:1] for values in half)) for half in (mine, theirs))
        whole = combined([mine, theirs])
        third[places], variance[places] = whole[:2]
        narrow[places] = np.sum(np.nan_to_num([mine.variance, theirs.variance]), axis=0) / whole.variance
        fewest = np.minimum(mine.rows, np.where(theirs.variance > 0, theirs.rows, np.inf))
        normal = special.chdtri(fewest - 1.0, 1.0 - LACKING) / (fewest - 1.0)
        lacking[places] = (fewest < FEW_ROWS) & (narrow[places] < normal)
        pairs = every_pair(local.size) if best and local.size > 1 else None
        if pairs is not None:
            thirds, variances = (values[pairs[0]] + values[pairs[1]] for values in whole[:2])
            order = np.lexsort((-(thirds**2) / variances**3, pairs[0]))
            worst = order[np.flatnonzero(np.diff(pairs[0][order], prepend=-1))]
            third[places], variance[places] = thirds[worst], variances[worst]
        elif not best and part.strata is None and part.welch:
            df[places] = whole.df
        clustered = sums.design is not None and sums.design.clusters is not None
        if part.automatic and part.method == "el" and not clustered and part.comparable is None:
            assert isinstance(part.means, Real)
            share, corrected = part.means.carrying, part.strata is None
            welch = FEW_ROWS if corrected and part.welch else 0.0
            bent = bend(mine, theirs, alpha, tests, pairs, carrying=share, corrected=corrected, welch=welch)
            excess[:, places], level[:, places], trusted[places], few[places] = bent
            if mirrored:
                excess[:, places[1:]], level[:, places[1:]] = bent.excess[::-1], bent.level[::-1]
    return ErrorMoments(third, variance, narrow, df, Bend(excess, level, trusted, few), lacking)


def metric_limits(parts: Sequence[ComparedGroups], alpha: float) -> tuple[FloatArray, FloatArray]:
    """Limits for each group's metric, whatever it is compared with; NaN if there are too few rows or clusters.

    Of a rate, Wilson's; of a mean, Student's; of any other metric, those of its law. With weights or clusters, the
    critical value is that of the design.
    """
    limits = np.full((2, parts[-1].places.stop), np.nan)
    for places, each in by_metric(parts):
        design, totals = each[0].sums.design, None
        if design is not None:  # all groups in one pass over the clusters
            alone = [part.metric_influence() for part in each]
            totals = spread(design, Influence.join(alone, np.ones(places.stop - places.start, dtype=bool)))
        for part in each:
            own = np.arange(len(part.size)) + part.places.start - places.start
            limits[:, part.places] = _metric_limits(part, alpha, None if totals is None else totals.select(own))
    return limits[0], limits[1]


def _metric_limits(part: ComparedGroups, alpha: float, totals: Spread | None) -> FloatArray:
    sums, groups, sides = part.sums, len(part.size), np.array([[-1.0], [1.0]])
    n, mean, variance = part.means.n[:groups], part.means.mean[:groups], part.means.variance[:groups]
    level = np.full(groups, chi2_isf(alpha, 1))
    known = (n > 0) if sums.binary else ~np.isin(part.status, UNSPREAD) & (n > 1)
    with np.errstate(all="ignore"):
        assumed = variance / n if sums.binary or sums.design is not None else variance / (n - 1.0)
        if sums.measure.functional:
            known &= np.isfinite([value.value for value in part.evaluations[:groups]])
            measured = np.flatnonzero(known)
            effect = replace(part, link=IDENTITY)._contrasts([(int(group), 0.0) for group in measured])
            assumed[measured] = effect.standard_error**2
        if totals is not None:
            known &= totals.effective >= FEWEST
            level = totals.law(assumed, constant=part.status == Status.CONSTANT).critical(level)
        if sums.measure.functional:
            ends = np.full((2, groups), np.nan)
            inner = effect.inner if totals is not None and isinstance(effect, Designed) else effect
            ends[:, measured] = inner.interval(level[measured])
        elif sums.binary:  # Wilson (1927): the rates p with n (mean - p)² <= level p (1 - p)
            center, room = mean + level / (2.0 * n), level * (assumed + level / (4.0 * n**2))
            low, high = (center + sides * np.sqrt(room)) / (1.0 + level / n)
            ends = np.stack([np.where(mean == 0, 0.0, low), np.where(mean == 1, 1.0, high)])
        else:
            if totals is None:
                level = np.asarray(t_isf(alpha / 2.0, np.maximum(n - 1.0, 1.0)) ** 2)
            ends = mean + sides * np.sqrt(level * assumed)
    return np.where(known, ends, np.nan)


def combined_spread(parts: Sequence[ComparedGroups]) -> Spread:
    spreads = []
    for places, each in by_metric(parts):
        every = np.ones(places.stop - places.start, dtype=bool)
        spreads.append(spread(each[0].design, Influence.join([part.influence() for part in each], every)))
    return Spread.join(spreads)


def law_of_design(parts: Sequence[ComparedGroups], totals: Spread) -> Law:
    """The law of each group's T under the design: that of its difference, whatever scale it is reported on."""
    if parts[0].reference.to.best:  # pairs have laws of their own
        assumed = np.concatenate([(part.means.variance / part.means.n)[: len(part.size)] for part in parts])
    else:
        assumed = likelihoods([replace(part, link=IDENTITY, correction=None) for part in parts]).standard_error ** 2
    law = totals.law(assumed, constant=stacked(parts, "status") == Status.CONSTANT)
    for part in parts:
        design, adjusted = part.sums.design, part.strata is not None or part.comparable is not None
        clustered = design is not None and design.clusters is not None
        if clustered and part.sums.binary and part.automatic and not adjusted:
            places = np.arange(part.places.start, part.places.stop)
            law.effect[places], law.df[places] = _few_cases(part, law.select(places), totals.select(places))
    return law


def _few_cases(part: ComparedGroups, law: Law, totals: Spread) -> tuple[FloatArray, ...]:
    """The design effect and degrees of freedom of rates with few cases, by the correlation within all clusters.

    Clusters with a case are too few to show it themselves (Rao and Scott 1992). Where a group's own effect is larger,
    the geometric mean of both is used. The side with the rarer cases reveals least about its correlation, which is
    taken to be at least `CORRELATION`.
    """
    mass, others = totals.mass, totals.others
    rare, rare_beside = (np.minimum(rate, 1.0 - rate) for rate in (part.means.mean[: mass.size], part.reference_value))
    beside = np.where(others > 0, rare_beside * others, np.inf)
    few = np.minimum(fewest_cases(part.means, np.arange(mass.size)), beside) < FEW_CASES
    few &= able_groups(part.status)
    if not few.any():
        return law.effect, law.df
    away = np.nan_to_num(part.sums.value - part.means.mean[part.codes])
    whole = spread(part.design, Influence.from_values(away))
    with np.errstate(all="ignore"):
        alone, size = float(part.sums.mass @ away**2), whole.squared_mass / whole.mass
        correlation = np.nan_to_num(np.clip((whole.second - alone) / (alone * (size - 1.0)), 0.0, 1.0))
        at_least = np.maximum(correlation, CORRELATION)
        mine = 1.0 + (totals.squared_mass / mass - 1.0) * np.where(rare <= rare_beside, at_least, correlation)
        theirs = 1.0 + (totals.squared_others / others - 1.0) * np.where(rare >= rare_beside, at_least, correlation)
        both = (mine / mass + theirs / others) / (1.0 / mass + 1.0 / others)
    pooled = np.where(others > 0, both, mine)
    effect = np.where(part.status == Status.CONSTANT, pooled, pooled * np.sqrt(np.maximum(law.effect / pooled, 1.0)))
    return np.where(few, effect, law.effect), np.where(few, np.maximum(law.df, whole.df), law.df)


def treated_otherwise(parts: Sequence[ComparedGroups], effects: Parts) -> Parts | None:
    """The likelihoods without the reference's error if it is taken into account, and with it (uncorrected) if not."""
    first = parts[0].reference
    known = first.to is To.NUMBER or first.to.best or parts[0].sigma is not None
    if known or not 0 < int(effects.tested.sum()) <= CONTRASTS:
        return None
    reference = replace(first, joint=not first.joint)
    again = [replace(part, reference=reference, correction=part.correction if first.joint else None) for part in parts]
    others = replace(effects, parts=likelihoods(again).parts)
    totals = None if parts[0].sums.design is None else combined_spread(again)
    return others if totals is None else others.under(law_of_design(again, totals))


def planning_error(
    parts: Sequence[ComparedGroups], effects: Parts, design: FloatArray, binary: BoolArray
) -> FloatArray:
    """Standard errors on the scale of the link if the group has the rate, and so the variance, of its reference.

    ``design`` are the design effects.
    """
    link, error = parts[0].link, effects.standard_error
    with np.errstate(all="ignore"):
        error = error / effects.value if link.ratio else error
        if parts[0].sums.strata is not None or parts[0].terms is not None:
            return error
        share = stacked(parts, "share") if parts[0].reference.to is To.POPULATION else 0.0
        rate, reference = stacked(parts, "estimate"), stacked(parts, "reference_value")
        weight = design * (1.0 - share) ** 2 / stacked(parts, "mass")
        mine = weight * rate * (1.0 - rate) / link.unit(rate) ** 2
        usual = weight * reference * (1.0 - reference) / link.unit(reference) ** 2
        squared = np.maximum(error**2 - mine, 0.0) + usual
        planned = np.where(effects.tested & ~np.isfinite(squared), np.sqrt(2.0 * usual), np.sqrt(squared))
        return np.where(binary, planned, error)


def same_hypotheses(parts: Sequence[ComparedGroups], null: Hypothesis | None) -> IntArray:
    """A number for each group's null hypothesis; equal numbers mean the same hypothesis.

    Two groups that are everybody have the same one if it is symmetric: against each other (the rest) if two-sided, and
    against the population if it states equality. They are the two levels of a column, or complementary conditions.
    Among comparable people they are two hypotheses: each group is compared with people who have its own factors.
    """
    to, numbers = parts[0].reference.to, np.arange(parts[-1].places.stop)
    if null is None or null.side != "two-sided" or parts[0].comparable is not None:
        return numbers
    low, high = parts[0].link.delta(np.array([null.low, null.high]))
    if low != -high or not (to is To.REST or (to is To.POPULATION and low == 0)):
        return numbers
    for _, each in by_metric(parts):
        conditions: dict[int, BoolArray] = {}  # each is a partition with one group
        for part in each:
            inside, start = part.partition.codes >= 0, part.places.start
            if len(part.size) == 2 and inside.all():
                numbers[start + 1] = start
            elif len(part.size) == 1:
                numbers[start] = next((i for i, other in conditions.items() if (inside != other).all()), start)
                conditions[start] = inside
    return numbers


# ---- the dependence of the tests


def max_t_draws(parts: Sequence[ComparedGroups], null: Hypothesis, effects: Parts) -> tuple[FloatArray, ...]:
    """P-values of all groups of each metric (draws x groups) under their nulls, with their dependence."""
    drawn, value, standard_error = [], effects.value, effects.standard_error
    for places, each in by_metric(parts):
        tested = effects.tested[places]
        if (number := int(tested.sum())) > FAMILY:
            raise UsageError(f"adjust: 'max-t' takes at most {FAMILY:,} groups, saw {number:,}; use 'holm'.")
        values = np.empty((0, 0))
        if number:
            root, columns = _root(_covariance(each, tested)), (value[places][tested], standard_error[places][tested])
            values = _null_draws(root, null, each[0].link, *columns, each[0].rng, 1.0, DRAWS)
        drawn.append(np.full((len(values), tested.size), np.nan))
        drawn[-1][:, tested] = values
    return tuple(drawn)


def rate_draws(
    parts: Sequence[ComparedGroups], null: Hypothesis, effects: Parts, *, alpha: float, one_pass: bool
) -> tuple[FloatArray, ...]:
    """P-values of the tested groups of all metrics, to measure the rate of Benjamini and Hochberg's adjustment.

    None if there are too many. ``one_pass``: one pass counted all metrics, so their lines are the same.
    """
    metrics, tested = by_metric(parts), effects.tested
    lines, number = 1 + max(int(part.sums.lines_kept.max(initial=0)) for part in parts), int(tested.sum())
    if not 1 < number <= RATE_GROUPS or tested.size * lines > RATE_ENTRIES:
        return ()
    if len(metrics) == 1:
        root = _root(_covariance(parts, tested))
    elif not one_pass or any(part.sums.design is not None or part.sums.dropped for part in parts):
        return ()
    else:
        values, mass = np.zeros((lines, tested.size)), np.zeros(lines)
        for part in parts:
            values[part.sums.lines_kept, part.places] = part.influence().dense()
            mass[part.sums.lines_kept] = part.sums.mass
        root = np.sqrt(mass)[:, None] * values[:, tested]
        if lines > number:
            root = _root(root.T @ root)
    draws, rng = min(RATE_DRAWS, RATE_NUMBERS // number), np.random.default_rng(0)
    columns = effects.value[tested], effects.standard_error[tested]
    return (_null_draws(root, null, parts[0].link, *columns, rng, alpha, draws),)


def _covariance(parts: Sequence[ComparedGroups], tested: BoolArray) -> FloatArray:
    sums, influence = parts[0].sums, Influence.join([part.influence() for part in parts], tested)
    return covariance((sums.mass, sums.counts) if sums.design is None else sums.design, influence)


def _root(joint: FloatArray) -> FloatArray:
    """The square root of the correlation that belongs to a covariance."""
    deviation = np.sqrt(np.diagonal(joint))
    with np.errstate(divide="ignore", invalid="ignore"):
        correlation = np.nan_to_num(joint / np.outer(deviation, deviation))
    np.fill_diagonal(correlation, 1.0)
    return square_root(correlation)


def _null_draws(
    root: FloatArray,
    null: Hypothesis,
    link: Link,
    disparity: FloatArray,
    error: FloatArray,
    rng: np.random.Generator,
    most: float,
    draws: int,
) -> FloatArray:
    """P-values (draws x groups) with the correlation of root' root; those above ``most`` may be 1."""
    error = error / disparity if link.ratio else error
    ends = link.delta(np.array([null.low, null.high]))
    with np.errstate(divide="ignore", invalid="ignore"):
        width = np.nan_to_num((ends[1] - ends[0]) / error, posinf=np.inf)
    sign = np.where(link.delta(disparity) < ends.mean(), -1.0, 1.0)
    return null_pvalues(root, null, width, sign, rng, most=most, draws=draws)


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

    def __init__(self, parts: Sequence[ComparedGroups], alpha: float) -> None:
        self._arguments = parts, alpha

    @cached_property
    def widest(self) -> Widest | None:
        return _widest_gap(*self._arguments)

    def __reduce__(self) -> tuple[object, tuple[Widest | None]]:
        return _unpickled, (self.widest,)


def _unpickled(gap: Widest | None) -> Widest | None:
    return gap


def _widest_gap(parts: Sequence[ComparedGroups], alpha: float) -> Widest | None:
    effects: list[tuple[Effect, list[tuple[str, str, str]]]] = []
    tests, link, number = 0, parts[0].link, PAIRS if parts[0].sigma is None else STANDARDIZED_PAIRS
    for part in parts:
        counted = replace(part.reference, joint=True)
        side = replace(part, reference=Reference(To.HIGHEST, True)).prepared()
        side = replace(side, reference=counted, correction=None, rng=np.random.default_rng(0))
        able = side.tested
        if able.size < 2:
            continue
        tests += able.size * (able.size - 1) // 2
        first, second = _outermost_pairs(side.means, able, link, number)
        names, metric = part.partition.groups, part.sums.measure.name
        labels = [(str(names[a]), str(names[b]), metric) for a, b in zip(first, second, strict=True)]
        effects.append((side.pair(first, second), labels))
    counts = [effect for effect, _ in effects if isinstance(effect, ProfileLikelihood)]
    counts = [effect for effect in counts if isinstance(natural(effect.groups), Binary)]
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


def _outermost_pairs(means: Binary | Real, groups: IntArray, link: Link, number: int) -> tuple[IntArray, IntArray]:
    """The pairs that may have the widest gap, or the largest upper limit of a gap, by normal theory.

    √(a² + b²) is the largest a cos t + b sin t, so the group at an end of the widest upper limit has the largest mean
    plus some multiple of its error among all groups: a few multiples, and several groups for each, represent all.
    """
    scaled = linked(means, link)
    with np.errstate(all="ignore"):
        error = np.sqrt(scaled.variance / scaled.n)
    if groups.size > MANY:
        center, margin = np.nan_to_num(scaled.mean[groups]), np.nan_to_num(error[groups], posinf=0.0)
        limits = [sign * center + factor * margin for sign in (1.0, -1.0) for factor in (-4.0, -2.0, 0.0, 1.0, 2.0)]
        groups = groups[_largest(limits, MANY // 10)]
    first, second = (groups[part] for part in np.triu_indices(groups.size, 1))
    if first.size <= number:
        return first, second
    with np.errstate(all="ignore"):
        gap = np.nan_to_num(np.abs(scaled.mean[first] - scaled.mean[second]), nan=0.0)
        margin = np.nan_to_num(np.sqrt(error[first] ** 2 + error[second] ** 2))
    chosen = _largest([gap, gap + 2.0 * margin, gap - 4.0 * margin], number // 3)
    return first[chosen], second[chosen]


def _largest(values: Sequence[FloatArray], number: int) -> IntArray:
    return np.unique(np.concatenate([np.argpartition(-part, number)[:number] for part in values]))
