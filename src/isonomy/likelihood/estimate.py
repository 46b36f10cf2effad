"""Every group beside its reference: effects, p-values and intervals by its likelihood; and all groups jointly."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from isonomy.errors import NotEnoughData, UsageError
from isonomy.frames import Design, Group, Partition
from isonomy.inference.designs import (
    FEWEST,
    DesignEffect,
    Influence,
    JointLaw,
    Law,
    Spread,
    covariance,
    joint_law,
    spread,
)
from isonomy.likelihood.estimate_given import CROWDED, ENTRIES, all_equal, crowding, influence, refuse_many, strata
from isonomy.likelihood.plan import Correction, Plan, Reference, To, per_group
from isonomy.likelihood.ratio import second_order
from isonomy.likelihood.ratio.best import AgainstBest, every_pair, widest
from isonomy.likelihood.ratio.contrasts import NoDifference, quadratic, welch
from isonomy.likelihood.ratio.correction import Adjusted, Corrected, bartlett_factor, joint_factor, plugged
from isonomy.likelihood.ratio.disparity import Designed, Likelihood, Part, Parts, Rescaled, intervals
from isonomy.likelihood.ratio.euclid import Euclidean
from isonomy.likelihood.ratio.family import null_pvalues
from isonomy.likelihood.ratio.functionals import evaluate
from isonomy.likelihood.ratio.influence import against, against_rest, alone
from isonomy.likelihood.ratio.joint import Joint
from isonomy.likelihood.ratio.lines import Lines, Units
from isonomy.likelihood.ratio.links import IDENTITY, LOGIT, Link
from isonomy.likelihood.ratio.means import Binary, Means, Real
from isonomy.likelihood.ratio.overlap import Overlapping, Pair
from isonomy.likelihood.ratio.profile import Kind, Profile, counted, linked, odds_in_whole
from isonomy.likelihood.ratio.region import HANDFUL, Region, Stacked, patterned, whitened
from isonomy.likelihood.ratio.score import few
from isonomy.likelihood.ratio.standardised import Contrast, Sample, Sigma, Standardised
from isonomy.likelihood.ratio.strata import Scale, Strata, Stratified
from isonomy.likelihood.tally import Tally
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray, ObjectArray
from isonomy.numerics.ragged import Ragged
from isonomy.numerics.status import Status
from isonomy.numerics.tails import chi2_isf, chi2_sf, weighted_chi2_sf

# Pairs of one partition's groups among which the widest gap is looked for, if there are more: by normal theory.
PAIRS = 90
# The same for standardised differences, each of which is a joint likelihood of all rows.
STANDARDISED_PAIRS = 12
# Groups whose pairs are all looked at; of more, those that lie furthest out.
MANY = 1_000
# Groups up to which max-t is worked out, and up to which (and how many lines by groups) the false flagging rate of
# Benjamini-Hochberg is measured.
FAMILY, MEASURED, LOOKED_AT = 2_000, 200, 20_000_000
# Tested groups up to which the other treatment of the reference is worked out for comparison.
CONTRASTED = 20_000


@dataclass(frozen=True, slots=True, eq=False)
class Estimates:
    """All groups in order; T, p-values and intervals are NaN for those that are not tested.

    ``status`` says which can be tested; ``uncorrected`` are those whose Bartlett factor could not be had; ``contrast``
    has the p-values with the reference's error treated the other way, None where there is no other way; ``skewed`` are
    those with too few rows for so skewed a metric; ``drawn`` has, for each metric, p-values of all groups (draws x
    groups) under their nulls with the dependence they have, where the adjustment needs them; ``design`` is there where
    rows have weights or clusters, and ``sigma_value`` where disparities are standardised. ``planning_error`` is the
    standard error, on the scale of the link, that says what these rows could have shown.
    """

    metrics: tuple[str, ...]
    groups: tuple[Group, ...]
    binary: BoolArray
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
    skewed: BoolArray
    drawn: tuple[FloatArray, ...] = ()
    design: DesignEffect | None = None
    sigma_value: FloatArray | None = None
    planning_error: FloatArray | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """What each entry is called: its group and, of several metrics, the metric."""
        several = len(set(self.metrics)) > 1
        pairs = zip(self.groups, self.metrics, strict=True)
        return tuple(f"{group} ({metric})" if several else str(group) for group, metric in pairs)

    @property
    def items(self) -> tuple[tuple[Hashable, ...], ...]:
        """What each entry intersects; metrics do not meet."""
        return tuple((*group.items, ("metric", name)) for group, name in zip(self.groups, self.metrics, strict=True))

    @classmethod
    def together(cls, parts: Sequence[Estimates]) -> Estimates:
        """Those of several metrics, one after the other."""
        if len(parts) == 1:
            return parts[0]

        def joined(name: str) -> Any:
            values = [getattr(part, name) for part in parts]
            if any(value is None for value in values):
                return None
            if isinstance(values[0], DesignEffect):
                of = [field.name for field in fields(DesignEffect)]
                return DesignEffect(*(np.concatenate([getattr(value, one) for value in values]) for one in of))
            if isinstance(values[0], tuple):
                return tuple(item for value in values for item in value)
            return np.concatenate(values)

        return cls(**{field.name: joined(field.name) for field in fields(cls)})


@dataclass(frozen=True, slots=True)
class Widest:
    """The largest gap between two groups that the same columns make, with its interval; of ratios the smallest.

    ``groups`` are the pair, the lower one first.
    """

    value: float
    ci_low: float
    ci_high: float
    groups: tuple[str, str]
    metric: str


@dataclass(frozen=True, slots=True, eq=False)
class JointEstimates:
    """The joint test of all groups that ``each`` can be tested, at the disparities ``null``.

    ``factor`` is what T was divided by, NaN if a correction was asked for, or needed, and could not be had; ``spare``
    are the groups of rows that are in no tested group, where these are too few to be part of the test, else None.
    """

    each: Estimates
    region: Region | Stacked | NoDifference
    null: FloatArray
    joint: Joint
    statistic: float
    pvalue: float
    factor: float
    spare: tuple[str, ...] | None


def _able(status: ObjectArray) -> BoolArray:
    """Which groups can be tested, constant ones included."""
    return np.asarray((status == Status.OK) | (status == Status.CONSTANT), dtype=bool)


@dataclass(frozen=True, slots=True, eq=False)
class _Side:
    """The groups of one partition, their references and what can be tested; ``own`` has one group more, of all other
    rows, so that a group and its rest are all rows."""

    partition: Partition
    size: FloatArray
    rows: FloatArray
    own: Binary | Real
    reference: FloatArray
    status: ObjectArray
    strata: Strata | None = None

    @property
    def codes(self) -> IntArray:
        return np.where(self.partition.codes < 0, len(self.partition.groups), self.partition.codes)

    @property
    def tested(self) -> IntArray:
        # A constant 0/1 group still has a binomial likelihood; constant numbers have no likelihood to speak of.
        return np.flatnonzero(_able(self.status) if isinstance(self.own, Binary) else self.status == Status.OK)


@dataclass(frozen=True, slots=True, eq=False)
class _Solver:
    """Which likelihood is formed, of the rows of which tally, against which reference."""

    sums: Tally
    reference: Reference
    method: str
    correction: Correction | None
    resamples: int
    rng: np.random.Generator
    link: Link = IDENTITY
    scale: Scale = "difference"
    sigma: Sigma | None = None
    scored: bool = False

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
        within = [side.strata for side in sides if side.strata is not None]
        if within:
            return Parts(np.concatenate([pairs.estimate(self.scale) for pairs in within]), tuple(parts))
        disparity = self.link.compared(estimate, np.concatenate([side.reference for side in sides]))
        if self.sigma is not None:
            with np.errstate(divide="ignore", invalid="ignore"):
                disparity = disparity / np.concatenate([self.deviation(side) for side in sides])
        return Parts.together(disparity, parts).on(self.link)

    def spread(self, sides: list[_Side]) -> Spread | None:
        """The spread of all groups' disparities over rows with weights, or over clusters; None without either."""
        if self.sums.design is None:
            return None
        influences = [self.influence(side) for side in sides]
        every = np.ones(sum(influence.own.shape[1] for influence in influences), dtype=bool)
        return spread(self.sums.design, Influence.together(influences, every))

    def influence(self, side: _Side) -> Influence:
        """What each line adds to the disparities of one partition's groups."""
        sums, own, groups, reference = self.sums, side.own, len(side.partition.groups), self.reference
        value, inside = sums.lines.value, sums.mass > 0
        codes = np.where(inside, side.partition.codes, -1)
        if side.strata is not None:
            return influence(sums, side.partition, side.strata, self.scale)
        if sums.functional:
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

    def _parts(self, side: _Side) -> list[Part]:
        tested, own = side.tested, side.own
        if side.strata is not None:
            return [(tested, Stratified(side.strata, self.scale, tested))]
        if self.sigma is not None and not self.reference.to.best:
            contrasts = tuple(self._contrast(side, int(g)) for g in tested)
            return [(tested, Standardised(self._sample(self.sigma), contrasts, self.method))]
        if not self.reference.joint:
            return [(tested, self._of(Profile(Kind.FIXED, own, tested, theta=side.reference[tested])))]
        if self.sums.functional and not self.reference.to.best:
            pairs = [self._functional(side, int(g), self._referents(side, int(g))) for g in tested]
            return [(tested, self._overlapping(pairs, _units(side.own), None))] if pairs else []
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

    def _referents(self, side: _Side, group: int) -> BoolArray:
        return _referent(self.sums, self.reference, side.partition.codes == group)

    def _functional(self, side: _Side, group: int, referents: BoolArray) -> Pair:
        """A group's value + influence against a reference with influence values, which may share rows."""
        sums, own = self.sums, side.partition.codes == group
        value, influence = _evaluated(sums, own)
        other, reference = _evaluated(sums, referents)
        values, influences = np.zeros(own.size), np.zeros(own.size)
        values[own] = value + influence
        influences[referents] = reference * sums.mass.sum() / sums.mass[referents].sum()
        units = _units(side.own)
        values = np.where(own, units.standard(values), 0.0)
        lines = Lines(False, values, sums.lines.weight, influences / units.scale)
        codes, distinct = lines.collapsed(own.astype(np.intp))
        at = float(units.standard(np.array(other)))
        return Pair(distinct.patterns(codes, 2), np.array([0.0, 1.0]), np.zeros(2), at, self.link, units.zero)

    def _functional_influence(self, side: _Side) -> Influence:
        """What each line adds to the disparities, of a metric that is no mean over rows."""
        groups, alone_ = len(side.partition.groups), not self.reference.joint or self.reference.to.best
        values = np.zeros((side.partition.codes.size, groups))
        members = np.zeros(values.shape, dtype=bool)
        for g in range(groups):
            own, others = side.partition.codes == g, self._referents(side, g)
            values[own, g] = _evaluated(self.sums, own)[1] / max(float(self.sums.mass[own].sum()), 1e-300)
            members[:, g] = own if alone_ else own | others
            if not alone_:
                values[others, g] -= _evaluated(self.sums, others)[1] / float(self.sums.mass[others].sum())
        return Influence.of(values, members)

    def _sample(self, sigma: Sigma) -> Sample:
        return Sample(self.sums.lines.value, self.sums.mass, sigma)

    def _contrast(self, side: _Side, group: int, other: int | None = None) -> Contrast:
        """A group beside its reference, or beside another group; σ may be that of a named reference."""
        own, number = side.partition.codes == group, self.reference.number
        unit = self.sums.in_reference if self.sigma == "reference" else None
        if other is not None:
            return Contrast(own, side.partition.codes == other, unit)
        return Contrast(own, self._referents(side, group) if number is None else float(number), unit)

    def deviation(self, side: _Side) -> FloatArray:
        """The σ of each group's disparity."""
        assert self.sigma is not None
        sample, best = self._sample(self.sigma), self.reference.to.best
        contrasts = (self._contrast(side, g, g if best else None) for g in range(len(side.partition.groups)))
        return np.array([sample.fit(contrast).sigma for contrast in contrasts])

    def _standardised_influence(self, side: _Side) -> Influence:
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

    def _against_best(self, side: _Side) -> list[Part]:
        """Each group of a partition against each other one."""
        tested = side.tested
        if tested.size < 2:
            return []
        first, second = every_pair(tested.size)
        pairs = self.pair(side, tested[first], tested[second])
        return [(tested, AgainstBest(pairs, first, 1.0 if self.reference.to is To.HIGHEST else -1.0))]

    def pair(self, side: _Side, first: IntArray, second: IntArray) -> Likelihood:
        """Pairs of groups of one partition."""
        if self.sums.functional:
            codes = side.partition.codes
            members = zip(first.tolist(), second.tolist(), strict=True)
            each = [self._functional(side, a, codes == b) for a, b in members]
            pairs = self._overlapping(each, _units(side.own), None)
        elif self.sigma is not None:
            groups = zip(first.tolist(), second.tolist(), strict=True)
            pairs = Standardised(
                self._sample(self.sigma), tuple(self._contrast(side, a, b) for a, b in groups), self.method
            )
        else:
            pairs = self._compared(Kind.DISJOINT, side.own, first, side.own, second)
        return pairs if self.sums.design is None else Designed(pairs, self._pair_law(side, first, second))

    def _pair_law(self, side: _Side, first: IntArray, second: IntArray) -> Law:
        """The law of T for pairs of groups: their means may vary together, where clusters are in both."""
        assert self.sums.design is not None
        influence, own = self.influence(side), side.own
        joint, totals = covariance(self.sums.design, influence), spread(self.sums.design, influence)
        actual = joint[first, first] + joint[second, second] - 2.0 * joint[first, second]
        assumed = own.variance[first] / own.n[first] + own.variance[second] / own.n[second]
        with np.errstate(all="ignore"):
            effect = np.where(assumed > 0, actual / assumed, (totals.squared_mass / totals.mass)[first])
        return Law(effect, np.minimum(totals.effective[first], totals.effective[second]) - 1.0)

    def _of(self, problem: Profile) -> Likelihood:
        """The likelihood asked for, of the problems in ``problem``."""
        if self.method == "eel":
            return Euclidean(problem, self.rows)
        if self.correction == "bartlett":
            return Corrected(problem, bartlett_factor(problem, self.resamples, self.rng))
        if self.correction == "adjusted":
            return Adjusted(problem)
        # A plugged-in reference is the published statistic, as it is.
        by_score = self.scored and (self.reference.joint or self.reference.to is To.NUMBER)
        return problem.few_scored() if by_score else problem

    def _against_group(self, side: _Side) -> list[Part]:
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
            parts.append((tested[partly], self._overlapping(pairs, units, self.rows)))
        return parts


def _refuse_negative(sums: Tally, plan: Plan) -> None:
    """A ratio of means needs values that are never negative."""
    values = sums.lines.value if sums.inside is None else sums.lines.value[sums.inside]
    if plan.link.ratio and not plan.measure.binary and values.size and (least := float(values.min())) < 0:
        raise UsageError(
            f"scale: {plan.scale!r} needs values that are never negative; {plan.measure.name!r} goes down to "
            f"{least:g}. Use scale='difference'."
        )


def _refuse_no_unit(sums: Tally, plan: Plan) -> None:
    """A standard deviation of 0 is no unit."""
    if plan.sigma == "reference" and sums.in_reference is not None and not np.ptp(sums.lines.value[sums.in_reference]):
        raise UsageError(
            f"sigma: {plan.measure.name!r} is the same in every row of {plan.reference.group}, whose standard "
            "deviation is 0. Use sigma='population'."
        )


def estimate(sums: Sequence[Tally], plan: Plan, rng: np.random.Generator) -> tuple[Estimates, Widest | None]:
    """Set every group beside its reference, and test it; and the largest gap between two groups."""
    options = plan.method, plan.correction, plan.resamples
    each = [
        _tested(
            one,
            _Solver(t, one.reference, *options, rng, one.link, one.scale, one.sigma, one.scored),
            len(sums),
            contrasted=not plan.given,
        )
        for t, one in _both(sums, plan)
    ]
    return Estimates.together(each), None if plan.given else widest_gap(sums, plan)


def estimate_joint(sums: Sequence[Tally], plan: Plan, rng: np.random.Generator) -> tuple[JointEstimates, Widest | None]:
    """Test all groups at once; their own intervals are not corrected."""
    single = [_jointly(t, p, rng, len(sums)) for t, p in _both(sums, plan)]
    joint = single[0] if len(single) == 1 else _stacked(single, sums, plan)
    return joint, widest_gap(sums, plan)


def _both(sums: Sequence[Tally], plan: Plan) -> list[tuple[Tally, Plan]]:
    return list(zip(sums, plan.each, strict=True))


def _stacked(single: Sequence[JointEstimates], sums: Sequence[Tally], plan: Plan) -> JointEstimates:
    """Several metrics at once: the sum of their statistics.

    Metrics of the same rows depend on one another, so the sum is a sum of chi-squares with weights: the eigenvalues of
    the disparities' covariance, over what it would be if each metric had rows of its own (which are 1 then). With
    weights or clusters the covariance is that of sums over clusters.
    """
    influences, sizes = [], []
    lines = max(int(t.lines_kept.max(initial=-1)) for t in sums) + 1
    mass = np.ones(lines)
    for joint, t, one in zip(single, sums, plan.each, strict=True):
        solver = _Solver(t, one.reference, one.method, None, one.resamples, np.random.default_rng(0))
        kept = joint.each.tested.copy()
        kept[np.flatnonzero(kept)[list(joint.joint.left_out)]] = False
        sides = [_side(t, one, i) for i in range(len(t.partitions))]
        if t.functional:
            columns = _contrasts(solver, sides, joint.each)[1]
        else:
            columns = np.hstack([solver.influence(side).dense() for side in sides])[:, kept]
        spread_out = np.zeros((lines, columns.shape[1]))
        spread_out[t.lines_kept] = columns * np.sqrt(t.mass)[:, None]
        mass[t.lines_kept] = t.mass
        influences.append(spread_out)
        sizes.append(joint.joint.df)
    together = whitened(influences, sizes)
    each = Estimates.together([joint.each for joint in single])
    settled = [bool(t.functional) and t.design is None for t in sums]  # by Welch's law
    parts = [
        joint.statistic if by_law else joint.joint.statistic for joint, by_law in zip(single, settled, strict=True)
    ]
    statistic, df = float(sum(parts)), sum(sizes)
    worst = next((joint.joint.status for joint in single if joint.joint.status is not Status.OK), Status.OK)
    starts = np.cumsum([0, *(int(joint.each.tested.sum()) for joint in single)])
    left_out = tuple(int(i + start) for joint, start in zip(single, starts, strict=False) for i in joint.joint.left_out)
    spare = [joint.spare for joint in single if joint.spare is not None]
    whole, regions = sums[0].whole, tuple(joint.region for joint in single if isinstance(joint.region, Region))
    if whole is None:
        weights = np.maximum(np.linalg.eigvalsh(together.T @ together), 0.0)
        pvalue = float(weighted_chi2_sf(statistic, weights)) if df else 1.0
    else:
        assert each.design is not None
        by_mass = Influence.of(together / np.sqrt(np.maximum(mass, 1e-300))[:, None])
        weights = np.maximum(np.linalg.eigvalsh(covariance(whole, by_mass)), 0.0)
        pvalue = JointLaw(weights, float(each.design.effective[each.tested].min())).tail(statistic) if df else 1.0
        statistic = float(chi2_isf(pvalue, df))
    plain = whole is None and len(regions) == len(single)
    groups = int(each.tested.sum())
    equivalent = statistic if whole is not None or not df else float(chi2_isf(pvalue, df))
    return JointEstimates(
        each=each,
        region=Stacked(regions, weights) if plain else NoDifference(groups, equivalent, df, plan.scale),
        null=np.concatenate([joint.null for joint in single]),
        joint=Joint(statistic, df, np.empty(0), worst, left_out),
        statistic=statistic,
        pvalue=pvalue,
        factor=1.0,
        spare=tuple(dict.fromkeys(name for names in spare for name in names)) if spare else None,
    )


def _contrasts(solver: _Solver, sides: list[_Side], each: Estimates) -> tuple[FloatArray, FloatArray]:
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


def _lone(solver: _Solver) -> _Solver:
    """The same, for what lines add to a group's own value alone."""
    return replace(solver, reference=Reference(To.HIGHEST, True))


def _without_likelihood(solver: _Solver, plan: Plan, each: Estimates, null: FloatArray) -> JointEstimates:
    """All groups at once where disparities have no joint likelihood: by their covariance."""
    sums = solver.sums
    sides = [_side(sums, plan, i) for i in range(len(sums.partitions))]
    ends = np.cumsum([side.status.size for side in sides])[:-1]
    tested = [np.flatnonzero(part) for part in np.split(each.tested, ends)]
    rows = each.n if each.design is None else each.design.effective
    effective = float(rows[each.tested].min())
    if plan.given:
        raw, df, pvalue = all_equal(sums, tested, effective)
    else:
        values, columns = _contrasts(solver, sides, each)
        independent = Design(sums.mass, sums.mass, sums.mass, sums.counts, None)
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


def widest_gap(sums: Sequence[Tally], plan: Plan) -> Widest | None:
    """The largest gap between two tested groups of one partition, over all metrics; None where there is no pair."""
    found: list[tuple[Likelihood, list[tuple[str, str, str]]]] = []
    tests = 0
    for t, one in _both(sums, plan):
        solver = _Solver(
            t, replace(one.reference, joint=True), one.method, None, one.resamples, np.random.default_rng(0)
        )
        for i in range(len(t.partitions)):
            side = _side(t, replace(one, reference=Reference(To.HIGHEST, True)), i)
            able = side.tested
            if able.size < 2:
                continue
            tests += able.size * (able.size - 1) // 2
            able = _outermost(side.own, able, plan.link)
            first, second = (able[part] for part in np.triu_indices(able.size, 1))
            number = PAIRS if plan.sigma is None else STANDARDISED_PAIRS
            first, second = _largest_pairs(side.own, first, second, plan.link, number)
            solver = replace(solver, link=plan.link, sigma=plan.sigma, scored=plan.scored)
            pairs = solver.pair(side, first, second)
            names, metric = side.partition.groups, one.measure.name
            label = [(str(names[a]), str(names[b]), metric) for a, b in zip(first, second, strict=True)]
            found.append((pairs, label))
    best: tuple[float, tuple[str, str], str] | None = None
    least = most = 0.0
    counts = [part for part, _ in found if isinstance(part, Profile) and counted(part.own)]
    if counts and len(counts) == len(found):  # many small solves cost more than one large one
        found = [(Profile.pooled(counts), [label for _, labels in found for label in labels])]
    for pairs, labels in found:
        place, low, high = widest(pairs, plan.alpha, tests)
        gap = float(pairs.disparity[place])
        if np.isnan(gap):
            continue
        least, most = max(least, low), max(most, high)
        if best is None or abs(gap) > best[0]:
            first_, second_, metric = labels[place]
            best = (abs(gap), (first_, second_) if gap <= 0 else (second_, first_), metric)
    if best is None:
        return None
    value, ends = plan.link.reported(-best[0] if plan.link.ratio else best[0]), (least, most)
    if plan.link.ratio:
        ends = float(np.exp(-most)), float(np.exp(-least))
    return Widest(float(value), *ends, best[1], best[2])


def _outermost(own: Means, groups: IntArray, link: Link) -> IntArray:
    """Of very many groups those that may be an end of the widest gap, or of its limits, by normal theory.

    √(a² + b²) is the largest a cos t + b sin t, so the group at an end of the widest upper limit has the largest mean
    plus some multiple of its error among all groups: a few multiples, and several groups for each, stand for all.
    """
    if groups.size <= MANY:
        return groups
    scaled = linked(own, link)
    with np.errstate(all="ignore"):
        mean = np.nan_to_num(scaled.mean[groups])
        error = np.nan_to_num(np.sqrt(scaled.variance[groups] / scaled.n[groups]), posinf=0.0)
    each = MANY // 10
    reach = [sign * mean + factor * error for sign in (1.0, -1.0) for factor in (-4.0, -2.0, 0.0, 1.0, 2.0)]
    return groups[np.unique(np.concatenate([np.argpartition(-one, each)[:each] for one in reach]))]


def _largest_pairs(own: Means, first: IntArray, second: IntArray, link: Link, most: int) -> tuple[IntArray, IntArray]:
    """Of very many pairs those whose gap, or the upper limit of whose gap, is largest by normal theory."""
    if first.size <= most:
        return first, second
    scaled = linked(own, link)
    with np.errstate(all="ignore"):
        gap = np.nan_to_num(np.abs(scaled.mean[first] - scaled.mean[second]), nan=0.0)
        error = np.sqrt(scaled.variance[first] / scaled.n[first] + scaled.variance[second] / scaled.n[second])
        limits = [gap, gap + 2.0 * np.nan_to_num(error), gap - 4.0 * np.nan_to_num(error)]
    kept = np.unique(np.concatenate([np.argpartition(-limit, most // 3)[: most // 3] for limit in limits]))
    return first[kept], second[kept]


def _jointly(sums: Tally, plan: Plan, rng: np.random.Generator, metrics: int) -> JointEstimates:
    """All groups of one metric at once."""
    options = plan.link, plan.scale, plan.sigma, plan.scored
    solver = _Solver(sums, plan.reference, plan.method, None, plan.resamples, rng, *options)
    each = _tested(plan, solver, metrics, contrasted=False)
    tested = np.flatnonzero(each.tested)
    if not tested.size:
        few = "" if each.design is None else f", fewer than {FEWEST:g} effective clusters"
        if len(each.groups) == 1:
            raise NotEnoughData("groups: everybody compared is in one group, which leaves nothing to compare it with.")
        raise NotEnoughData(
            f"groups: none can be tested; each has fewer than {plan.min_size} rows that count{few}, or no variation."
        )
    null = np.full(each.n.shape, np.nan)
    target = per_group(plan.null, [str(each.groups[i]) for i in tested], "null")
    null[tested] = target
    if not plan.likely:
        return _without_likelihood(solver, plan, each, null)
    region = _region(sums, plan, each)
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
        parts = [solver.influence(_side(sums, plan, i)) for i in range(len(sums.partitions))]
        effective = float(each.design.effective[kept].min())
        law = joint_law(sums.design, Influence.together(parts, kept), joint.df, effective)
        pvalue = law.tail(joint.statistic)
        statistic = float(chi2_isf(pvalue, joint.df))
        factor = law.critical(plan.alpha) / float(chi2_isf(plan.alpha, joint.df))
    spare = _holding(sums, region.spare) if region.free and not plan.reference.to.best else None
    kept_region: Region | NoDifference = replace(region, factor=factor)
    if plan.sigma is not None:  # no difference is none in any unit; other disparities need the unit's own error
        kept_region = NoDifference(region.groups, statistic, joint.df, plan.scale)
    return JointEstimates(each, kept_region, null, joint, statistic, pvalue, measured, spare)


def _tested(plan: Plan, solver: _Solver, metrics: int, *, contrasted: bool = True) -> Estimates:
    _refuse_negative(solver.sums, plan)
    _refuse_no_unit(solver.sums, plan)
    sides = [_side(solver.sums, plan, i) for i in range(len(solver.sums.partitions))]
    totals = solver.spread(sides)
    if totals is not None:
        _refuse_few(sides, totals)
    parts = solver.parts(sides)
    plain, design = parts, None
    if totals is not None:
        law = _law(solver, sides, totals)
        parts, design = parts if plan.reference.to.best else parts.under(law), totals.effect(law)
    tested, groups = (parts.tested, tuple(group for side in sides for group in side.partition.groups))
    statistic, pvalue, contrast = np.full(tested.shape, np.nan), np.full(tested.shape, np.nan), None
    if plan.hypothesis is not None:
        statistic, pvalue = (np.where(tested, values, np.nan) for values in plan.hypothesis.test(parts))
        pvalue = np.where(np.isnan(statistic), np.nan, pvalue)
        other = _otherwise(solver, sides, plain) if contrasted else None
        contrast = None if other is None else np.where(tested, plan.hypothesis.test(other)[1], np.nan)
    side_asked = "two-sided" if plan.hypothesis is None else plan.hypothesis.side
    low, high = intervals(parts, plan.interval, side_asked, plan.alpha, metrics * int(tested.sum()))
    inner = [(where, part.inner if isinstance(part, Rescaled) else part) for where, part in plain.parts]
    missing = [where[np.isnan(part.factor)] for where, part in inner if isinstance(part, Corrected)]
    skewed = np.zeros(tested.shape, dtype=bool)
    if design is None:  # with one the law is that of its clusters, and too few of them are not tested
        for where, part in plain.parts:
            together = 1 if plan.adjust == "none" else metrics * int(tested.sum())
            skewed[where] = second_order.lopsided(part, plan.alpha, together)
    return Estimates(
        metrics=(plan.measure.name,) * len(groups),
        groups=groups,
        binary=np.full(len(groups), plan.measure.binary),
        size=np.concatenate([side.size for side in sides]),
        n=np.concatenate([side.rows for side in sides]),
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
        skewed=skewed,
        drawn=_drawn(solver, plan, sides, parts, metrics),
        design=design,
        sigma_value=None if plan.sigma is None else np.concatenate([solver.deviation(side) for side in sides]),
        planning_error=_planning_error(plan, sides, parts),
    )


def _planning_error(plan: Plan, sides: list[_Side], parts: Parts) -> FloatArray:
    """Standard errors on the scale of the link, of which a plan is made.

    A 0/1 group of few cases shows too little of its own variance: it is given that of its reference, if that is larger.
    """
    with np.errstate(all="ignore"):
        error = parts.standard_error / parts.disparity if plan.link.ratio else parts.standard_error
        if not plan.measure.binary or plan.given:
            return error
        n, own, theirs, rare = (
            np.concatenate(each)
            for each in zip(
                *(
                    (s.rows, s.own.mean[: s.status.size], s.reference, few(s.own, np.arange(s.status.size)))
                    for s in sides
                    if isinstance(s.own, Binary)
                ),
                strict=True,
            )
        )
        mine, usual = (rate * (1.0 - rate) / plan.link.unit(rate) ** 2 / n for rate in (own, theirs))
        if plan.link.ratio:
            return np.where(parts.tested & ~np.isfinite(error), np.sqrt(2.0 * usual), error)
        return np.where(rare, np.sqrt(error**2 + np.maximum(usual - mine, 0.0)), error)


def _drawn(solver: _Solver, plan: Plan, sides: list[_Side], parts: Parts, metrics: int) -> tuple[FloatArray, ...]:
    """P-values of all groups together under their nulls, if the adjustment is about their dependence."""
    tested, hypothesis, sums = parts.tested, plan.hypothesis, solver.sums
    number = int(tested.sum())
    asked = plan.adjust == "max-t"
    if asked and number > FAMILY:
        raise UsageError(f"adjust: 'max-t' takes at most {FAMILY:,} groups, saw {number:,}; use 'holm'.")
    few = 1 < number <= MEASURED and tested.size * sums.mass.size <= LOOKED_AT
    small = plan.adjust == "bh" and few and plan.sigma is None and metrics == 1
    dependent = plan.overlapping or plan.reference.to is not To.NUMBER
    if hypothesis is None or plan.reference.to.best or not (asked or (small and dependent)):
        return ()
    masses = sums.design
    if masses is None:
        masses = Design(sums.mass, sums.mass, sums.mass, sums.counts, None)
    together = Influence.together([solver.influence(side) for side in sides], tested)
    error = parts.standard_error[tested]
    if plan.link.ratio:
        error = error / parts.disparity[tested]
    ends = plan.link.delta(np.array([hypothesis.low, hypothesis.high]))
    with np.errstate(divide="ignore", invalid="ignore"):
        width = np.nan_to_num((ends[1] - ends[0]) / error, posinf=np.inf)
    sign = np.where(plan.link.delta(parts.disparity[tested]) < ends.mean(), -1.0, 1.0)
    rng = solver.rng if asked else np.random.default_rng(0)
    every = np.full((0, tested.size), np.nan)
    if number:
        values = null_pvalues(covariance(masses, together), hypothesis, width, sign, rng)
        every = np.full((len(values), tested.size), np.nan)
        every[:, tested] = values
    return (every,)


def _refuse_few(sides: list[_Side], totals: Spread) -> None:
    """Groups of too few clusters to judge their spread by are listed, not tested."""
    ends = np.cumsum([side.status.size for side in sides])[:-1]
    for side, effective in zip(sides, np.split(totals.effective, ends), strict=True):
        able = _able(side.status)
        side.status[able & ~(effective >= FEWEST)] = Status.FEW_CLUSTERS


def _law(solver: _Solver, sides: list[_Side], totals: Spread) -> Law:
    """The law of each group's T under the design: that of its difference, whatever the scale it is reported on."""
    constant = np.concatenate([side.status == Status.CONSTANT for side in sides])
    if solver.reference.to.best:  # pairs have laws of their own
        assumed = np.concatenate([(side.own.variance / side.own.n)[: side.status.size] for side in sides])
    else:
        assumed = replace(solver, link=IDENTITY, correction=None).parts(sides).standard_error ** 2
    return totals.law(assumed, constant=constant)


def _otherwise(solver: _Solver, sides: list[_Side], parts: Parts) -> Parts | None:
    """The likelihoods with the reference's error left out if it counts, and counted (uncorrected) if it does not."""
    known = solver.reference.to is To.NUMBER or solver.sigma is not None
    if known or solver.reference.to.best or not 0 < int(parts.tested.sum()) <= CONTRASTED:
        return None
    if not solver.reference.joint:
        return _under(replace(solver, reference=replace(solver.reference, joint=True), correction=None), sides)
    if solver.sums.design is not None:
        return _under(replace(solver, reference=replace(solver.reference, joint=False)), sides)
    plain = [(where, other) for where, part in parts.parts if (other := plugged(part)) is not None]
    if len(plain) == len(parts.parts):
        return replace(parts, parts=tuple(plain))
    return replace(solver, reference=replace(solver.reference, joint=False)).parts(sides)


def _under(solver: _Solver, sides: list[_Side]) -> Parts:
    """The likelihoods of all groups, by the law of their design where there is one."""
    parts, totals = solver.parts(sides), solver.spread(sides)
    return parts if totals is None else parts.under(_law(solver, sides, totals))


def _side(sums: Tally, plan: Plan, place: int) -> _Side:
    partition, reference = sums.partitions[place], plan.reference
    groups = len(partition.groups)
    codes = np.where(partition.codes < 0, groups, partition.codes)
    own = _pseudo(sums, codes, groups + 1) if sums.functional else sums.means(codes, groups + 1)
    n, counts = partition.sum(sums.counts), sums.counts
    status = np.full(groups, Status.OK, dtype=object)
    status[own.variance[:groups] <= 0] = Status.CONSTANT
    status[n < plan.min_size] = Status.TOO_SMALL
    if reference.to in (To.POPULATION, To.REST):
        weighing = counts * (sums.mass > 0)  # rows that weigh nothing are not there to compare with
        status[partition.sum(weighing) == weighing.sum()] = Status.REFERENCE
    elif reference.to.best:
        if int(_able(status).sum()) < 2:
            status[status == Status.OK] = Status.REFERENCE
    elif sums.in_reference is not None:
        chosen = counts * sums.in_reference
        status[(partition.sum(chosen) == n) & (n == chosen.sum())] = Status.REFERENCE
    read = _values_of if sums.functional else _values
    values = read(sums, own, reference, _able(status), codes)[:groups]
    able = _able(status)
    status[able & ~plan.link.comparable(values)] = Status.ZERO_BASELINE
    if sums.functional:
        able = _able(status)
        status[able & np.isnan([_evaluated(sums, codes == g)[0] for g in range(groups)])] = Status.UNSUPPORTED
        status[_able(status) & np.isnan(values)] = Status.UNSUPPORTED
    status[own.n[:groups] == 0] = Status.EMPTY
    if sums.strata is not None:
        pairs = strata(sums, partition)
        able = _able(status)
        # Only rows with somebody to be compared with count, on either side.
        shared = [pairs.total(rows * pairs.informative) for rows in (pairs.n1, pairs.n0)]
        status[able & (np.minimum(*shared) < plan.min_size)] = Status.TOO_SMALL
        status[able & (pairs.total(pairs.weight) == 0)] = Status.UNSUPPORTED
        if sums.design is not None:
            status[able & (crowding(pairs, plan.scale) > CROWDED)] = Status.UNSUPPORTED
        return _Side(partition, sums.sizes[place], n, own, pairs.merged.means[1], status, pairs)
    return _Side(partition, sums.sizes[place], n, own, values, status)


def _units(own: Means) -> Units:
    """The units in which groups that are means of value + influence are compared."""
    filled = own.n > 0
    spread = float(np.sqrt(np.average(own.variance[filled], weights=own.n[filled])))
    centre = float(np.average(own.mean[filled], weights=own.n[filled]))
    return Units(centre, float(np.exp2(np.rint(np.log2(spread)))) if spread > 0 else 1.0)


def _evaluated(sums: Tally, rows: BoolArray) -> tuple[float, FloatArray]:
    """A metric that is no mean over rows, of some of them, and what each adds to it."""
    return evaluate(sums.functional, {role: values[rows] for role, values in sums.roles.items()}, sums.mass[rows])


def _pseudo(sums: Tally, codes: IntArray, size: int) -> Real:
    """Groups as means of value + influence."""
    values = np.zeros(codes.size)
    for group in range(size):
        value, influence = _evaluated(sums, codes == group)
        values[codes == group] = np.nan_to_num(value) + influence
    return Real(Ragged.from_codes(codes, size, values, weights=sums.lines.weight))


def _referent(sums: Tally, reference: Reference, own: BoolArray) -> BoolArray:
    """The rows of the reference of a group with these rows."""
    if reference.to is To.REST:
        return ~own
    return np.ones_like(own) if sums.in_reference is None else sums.in_reference


def _values_of(sums: Tally, own: Binary | Real, reference: Reference, able: BoolArray, codes: IntArray) -> FloatArray:
    """The reference's value for each group, of a metric that is no mean over rows."""
    if reference.to.best or reference.number is not None:
        return _values(sums, own, reference, able, codes)
    if reference.to is To.REST:
        return np.array([_evaluated(sums, codes != g)[0] for g in range(own.n.size)])
    return np.full(own.n.size, _evaluated(sums, _referent(sums, reference, codes >= 0))[0])


def _values(sums: Tally, own: Binary | Real, reference: Reference, able: BoolArray, codes: IntArray) -> FloatArray:
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
    elif reference.to.best:  # the tested groups are compared with each other
        referent = np.zeros(referent.size)
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
