"""Every group beside its reference: effects, p-values and intervals by its likelihood."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from isonomy.errors import UsageError
from isonomy.frames import Design, Group
from isonomy.inference.designs import FEWEST, DesignEffect, Influence, Law, Spread, covariance
from isonomy.likelihood.estimate_comparison import Side, able_groups, side_of
from isonomy.likelihood.estimate_likelihood import Asked, Solver, likelihoods
from isonomy.likelihood.plan import Plan
from isonomy.likelihood.plan_reference import To
from isonomy.likelihood.ratio import second_order
from isonomy.likelihood.ratio.correction import Corrected, plugged
from isonomy.likelihood.ratio.disparity import Parts, Rescaled, intervals
from isonomy.likelihood.ratio.family import DRAWS, RATE_DRAWS, null_pvalues
from isonomy.likelihood.ratio.links import IDENTITY
from isonomy.likelihood.tally import Tally
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray, ObjectArray
from isonomy.numerics.status import Status

# Groups up to which max-t is worked out, and up to which (and how many lines by groups) the false flagging rate of
# Benjamini-Hochberg is measured.
FAMILY, RATE_GROUPS, RATE_ENTRIES = 2_000, 1_000, 20_000_000
# Numbers drawn to measure that rate.
RATE_NUMBERS = 2_000_000
# Tested groups up to which the other treatment of the reference is worked out for comparison.
CONTRASTS = 20_000


@dataclass(frozen=True, slots=True, eq=False)
class Estimates:
    """All groups in order; T, p-values and intervals are NaN for those that are not tested.

    ``status`` says which can be tested; ``uncorrected`` are those whose Bartlett factor could not be had; ``contrast``
    has the p-values with the reference's error treated the other way, None where there is no other way; ``skewed`` are
    those with too few rows for so skewed a metric; ``drawn`` has, for each metric, p-values of all groups (draws x
    groups) under their nulls with the dependence they have, where the adjustment needs them; ``design`` is there where
    rows have weights or clusters, and ``sigma_value`` where disparities are standardised. ``planning_error`` is the
    standard error, on the scale of the link, that says what these rows could have shown, ``planning_rate`` the rate at
    which it holds (of 0/1 metrics) and ``planning_df`` its degrees of freedom (with a design).
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
    hypothesis: IntArray  # equal numbers are one hypothesis: two groups that are everybody, each beside the other
    uncorrected: tuple[str, ...]
    contrast: FloatArray | None
    skewed: BoolArray
    drawn: tuple[FloatArray, ...] = ()
    design: DesignEffect | None = None
    sigma_value: FloatArray | None = None
    planning_error: FloatArray | None = None
    planning_rate: FloatArray | None = None
    planning_df: FloatArray | None = None

    def names(self, which: npt.ArrayLike) -> list[str]:
        """What entries are called, by their places or a mask: the group and, of several metrics, the metric."""
        chosen = np.asarray(which)
        places = (np.flatnonzero(chosen) if chosen.dtype == bool else chosen).tolist()
        several = len(set(self.metrics)) > 1
        return [f"{self.groups[i]} ({self.metrics[i]})" if several else str(self.groups[i]) for i in places]

    @property
    def items(self) -> tuple[tuple[Hashable, ...], ...]:
        """What each entry intersects; metrics do not meet."""
        return tuple((*group.items, ("metric", name)) for group, name in zip(self.groups, self.metrics, strict=True))

    @property
    def unvaried(self) -> BoolArray:
        """Groups that are not tested because all their rows are equal."""
        return np.asarray((self.status == Status.CONSTANT) & ~self.tested, dtype=bool)

    def part(self, chosen: slice) -> Estimates:
        """Those of one metric of several, of which nothing was drawn and none is uncorrected."""

        def kept(value: Any) -> Any:
            if isinstance(value, DesignEffect):
                return DesignEffect(*(getattr(value, one.name)[chosen] for one in fields(DesignEffect)))
            return value if value is None else value[chosen]

        return replace(self, **{one.name: kept(getattr(self, one.name)) for one in fields(self)})


def estimate(sums: Sequence[Tally], plan: Plan, rng: np.random.Generator) -> Estimates:
    """Set every group beside its reference, and test it; all metrics at once."""
    asked = _asked(sums, plan, rng)
    sides = [side for _, some in asked for side in some]
    totals = _spread(asked)
    if totals is not None:
        _refuse_few(sides, totals)
    parts = likelihoods(asked)
    plain, design, freedom = parts, None, None
    effect = np.ones(parts.disparity.shape)
    if totals is not None:
        law = _law(asked, totals)
        parts, design = parts if plan.reference.to.best else parts.under(law), totals.effect(law)
        effect, freedom = law.effect, law.df
    tested, groups = parts.tested, tuple(group for side in sides for group in side.partition.groups)
    hypothesis = _hypotheses(sides, plan)
    tests = np.unique(hypothesis[tested]).size
    statistic, pvalue, contrast = np.full(tested.shape, np.nan), np.full(tested.shape, np.nan), None
    if plan.hypothesis is not None:
        statistic, pvalue = (np.where(tested, values, np.nan) for values in plan.hypothesis.test(parts))
        pvalue = np.where(np.isnan(statistic), np.nan, pvalue)
        other = None if plan.given or plan.jointly else _otherwise(asked, plain)
        contrast = None if other is None else np.where(tested, plan.hypothesis.test(other)[1], np.nan)
    side_asked = "two-sided" if plan.hypothesis is None else plan.hypothesis.side
    # Each interval is of a disparity of its own: one hypothesis about two groups has two intervals.
    low, high = intervals(parts, plan.interval, side_asked, plan.alpha, int(tested.sum()))
    inner = [(where, part.inner if isinstance(part, Rescaled) else part) for where, part in plain.parts]
    missing = [where[np.isnan(part.factor)] for where, part in inner if isinstance(part, Corrected)]
    skewed = np.zeros(tested.shape, dtype=bool)
    if design is None:  # with one the law is that of its clusters, and too few of them are not tested
        for where, part in plain.parts:
            skewed[where] = second_order.lopsided(part, plan.alpha, 1 if plan.adjust == "none" else tests)
    each = list(zip(asked, plan.each, _places(asked), strict=True))
    error = parts.standard_error
    deviations = [solver.deviation(side) for solver, some in asked for side in some if plan.sigma is not None]
    return Estimates(
        metrics=tuple(name for _, one, at in each for name in (one.measure.name,) * (at.stop - at.start)),
        groups=groups,
        binary=np.concatenate([np.full(at.stop - at.start, one.measure.binary) for _, one, at in each]),
        size=np.concatenate([side.size for side in sides]),
        n=np.concatenate([side.rows for side in sides]),
        estimate=np.concatenate([side.estimate for side in sides]),
        reference=np.concatenate([side.reference for side in sides]),
        disparity=parts.disparity,
        standard_error=error,
        statistic=statistic,
        pvalue=pvalue,
        low=low,
        high=high,
        status=np.concatenate([side.status for side in sides]),
        tested=tested,
        hypothesis=hypothesis,
        uncorrected=tuple(str(groups[i]) for where in missing for i in where),
        contrast=contrast,
        skewed=skewed,
        drawn=_drawn(asked, plan, parts.disparity, error, tested),
        design=design,
        sigma_value=np.concatenate(deviations) if deviations else None,
        planning_error=np.concatenate(
            [
                _planning_error(one, some, parts.disparity[at], error[at], tested[at], effect[at])
                for (_, some), one, at in each
            ]
        ),
        planning_rate=None
        if plan.given
        else np.concatenate(
            [
                side.reference if one.measure.binary else np.full(side.status.size, np.nan)
                for (_, some), one, _ in each
                for side in some
            ]
        ),
        planning_df=freedom,
    )


def _asked(sums: Sequence[Tally], plan: Plan, rng: np.random.Generator) -> list[Asked]:
    """The groups of every metric, and which likelihoods they have."""
    asked = []
    for one, metric in zip(sums, plan.each, strict=True):
        _refuse_negative(one, metric)
        _refuse_no_unit(one, metric)
        sides = [side_of(one, metric, i) for i in range(len(one.partitions))]
        asked.append((Solver.of(one, metric, rng), sides))
    return asked


def _places(asked: Sequence[Asked]) -> list[slice]:
    """Where the groups of each metric stand among all."""
    ends = np.cumsum([0, *(sum(side.status.size for side in sides) for _, sides in asked)]).tolist()
    return [slice(start, end) for start, end in pairwise(ends)]


def _spread(asked: Sequence[Asked]) -> Spread | None:
    """The spread of all groups' disparities over rows with weights, or over clusters; None without either."""
    each = [totals for solver, sides in asked if (totals := solver.spread(sides)) is not None]
    return Spread.together(each) if each else None


def _planning_error(
    plan: Plan, sides: list[Side], disparity: FloatArray, error: FloatArray, tested: BoolArray, effect: FloatArray
) -> FloatArray:
    """Standard errors on the scale of the link, of which a plan is made.

    A group that does not differ has the rate of its reference, and the variance that goes with it.
    """
    with np.errstate(all="ignore"):
        error = error / disparity if plan.link.ratio else error
        if not plan.measure.binary or plan.given:
            return error
        parts = [(s.own.n[: s.status.size], s.own.mean[: s.status.size], s.reference, s.own.n.sum()) for s in sides]
        n, own, theirs = (np.concatenate([part[i] for part in parts]) for i in range(3))
        share = np.concatenate([part[0] / part[3] for part in parts]) if plan.reference.to is To.POPULATION else 0.0
        weight = effect * (1.0 - share) ** 2 / n
        mine, usual = (weight * rate * (1.0 - rate) / plan.link.unit(rate) ** 2 for rate in (own, theirs))
        squared = np.maximum(error**2 - mine, 0.0) + usual
        return np.where(tested & ~np.isfinite(squared), np.sqrt(2.0 * usual), np.sqrt(squared))


def _drawn(
    asked: Sequence[Asked], plan: Plan, disparity: FloatArray, error: FloatArray, tested: BoolArray
) -> tuple[FloatArray, ...]:
    """P-values of all groups together under their nulls, if the adjustment is about their dependence.

    Max-t has those of each metric; of Benjamini and Hochberg's adjustment all metrics are looked at together.
    """
    dependent = plan.overlapping or plan.reference.to is not To.NUMBER
    if plan.hypothesis is None or plan.reference.to.best:
        return ()
    if plan.adjust == "max-t":
        every = []
        for (solver, sides), at in zip(asked, _places(asked), strict=True):
            if (number := int(tested[at].sum())) > FAMILY:
                raise UsageError(f"adjust: 'max-t' takes at most {FAMILY:,} groups, saw {number:,}; use 'holm'.")
            joint = _covariance(solver, sides, tested[at]) if number else np.empty((0, 0))
            every.append(_null_draws(joint, plan, disparity[at], error[at], tested[at], solver.rng, 1.0))
        return tuple(every)
    lines = 1 + max(int(solver.sums.lines_kept.max(initial=0)) for solver, _ in asked)
    few = 1 < int(tested.sum()) <= RATE_GROUPS and tested.size * lines <= RATE_ENTRIES
    if plan.adjust != "bh" or not (few and dependent) or plan.sigma is not None:
        return ()
    common = _covariance(*asked[0], tested) if len(asked) == 1 else _covariance_of_metrics(asked, plan, tested, lines)
    if common is None:
        return ()
    return (_null_draws(common, plan, disparity, error, tested, np.random.default_rng(0), plan.alpha),)


def _covariance(solver: Solver, sides: list[Side], tested: BoolArray) -> FloatArray:
    """That of the disparities of one metric."""
    sums = solver.sums
    masses = sums.design or Design(sums.mass, sums.mass, sums.mass, sums.counts, None)
    return covariance(masses, Influence.together([solver.influence(side) for side in sides], tested))


def _covariance_of_metrics(asked: Sequence[Asked], plan: Plan, tested: BoolArray, lines: int) -> FloatArray | None:
    """That of all metrics' disparities, where one pass counted all of them: their lines are then the same."""
    every = [solver.sums for solver, _ in asked]
    alike = plan.shared is not None and not any(one.by_row for one in plan.each)
    if not alike or any(sums.design is not None or sums.dropped for sums in every):
        return None
    values, mass = np.zeros((lines, tested.size)), np.zeros(lines)
    for (solver, sides), at in zip(asked, _places(asked), strict=True):
        kept = solver.sums.lines_kept
        values[kept, at] = np.hstack([solver.influence(side).dense() for side in sides])
        mass[kept] = solver.sums.mass
    return covariance(Design(mass, mass, mass, mass, None), Influence.of(values[:, tested]))


def _null_draws(
    joint: FloatArray,
    plan: Plan,
    disparity: FloatArray,
    error: FloatArray,
    tested: BoolArray,
    rng: np.random.Generator,
    most: float,
) -> FloatArray:
    """P-values (draws x groups) with this covariance of the tested groups; those above ``most`` may be given as 1."""
    hypothesis, link = plan.hypothesis, plan.link
    assert hypothesis is not None
    if not tested.any():
        return np.full((0, tested.size), np.nan)
    error = error[tested] / disparity[tested] if link.ratio else error[tested]
    ends = link.delta(np.array([hypothesis.low, hypothesis.high]))
    with np.errstate(divide="ignore", invalid="ignore"):
        width = np.nan_to_num((ends[1] - ends[0]) / error, posinf=np.inf)
    sign = np.where(link.delta(disparity[tested]) < ends.mean(), -1.0, 1.0)
    draws = DRAWS if plan.adjust == "max-t" else min(RATE_DRAWS, RATE_NUMBERS // error.size)
    values = null_pvalues(joint, hypothesis, width, sign, rng, most=most, draws=draws)
    every = np.full((len(values), tested.size), np.nan)
    every[:, tested] = values
    return every


def _hypotheses(sides: Sequence[Side], plan: Plan) -> IntArray:
    """A number for each group's null. Two groups that are everybody have the same one, where it is symmetric:
    against each other (the rest) two-sided, and against the population if it says that they are equal."""
    null = plan.hypothesis
    symmetric = null is not None and null.side == "two-sided"
    if symmetric and null is not None:
        low, high = plan.link.delta(np.array([null.low, null.high]))
        symmetric = low == -high and (plan.reference.to is To.REST or (plan.reference.to is To.POPULATION and low == 0))
    numbers, start = [], 0
    for side in sides:
        size = len(side.partition.groups)
        everybody = size == 2 and bool((side.partition.codes >= 0).all())
        numbers.append(np.full(2, start) if symmetric and everybody else start + np.arange(size))
        start += size
    return np.concatenate(numbers)


def _refuse_few(sides: list[Side], totals: Spread) -> None:
    """Groups of too few clusters to judge their spread by are listed, not tested."""
    ends = np.cumsum([side.status.size for side in sides])[:-1]
    for side, effective in zip(sides, np.split(totals.effective, ends), strict=True):
        able = able_groups(side.status)
        side.status[able & ~(effective >= FEWEST)] = Status.FEW_CLUSTERS


def _law(asked: Sequence[Asked], totals: Spread) -> Law:
    """The law of each group's T under the design: that of its difference, whatever the scale it is reported on."""
    sides = [side for _, some in asked for side in some]
    constant = np.concatenate([side.status == Status.CONSTANT for side in sides])
    if asked[0][0].reference.to.best:  # pairs have laws of their own
        assumed = np.concatenate([(side.own.variance / side.own.n)[: side.status.size] for side in sides])
    else:
        plain = [(replace(solver, link=IDENTITY, correction=None), some) for solver, some in asked]
        assumed = likelihoods(plain).standard_error ** 2
    return totals.law(assumed, constant=constant)


def _otherwise(asked: Sequence[Asked], parts: Parts) -> Parts | None:
    """The likelihoods with the reference's error left out if it counts, and counted (uncorrected) if it does not."""
    solver = asked[0][0]
    known = solver.reference.to is To.NUMBER or solver.sigma is not None
    if known or solver.reference.to.best or not 0 < int(parts.tested.sum()) <= CONTRASTS:
        return None
    if not solver.reference.joint:
        return _under([(replace(one.referring(joint=True), correction=None), sides) for one, sides in asked])
    if solver.sums.design is None:
        plain = [(where, other) for where, part in parts.parts if (other := plugged(part)) is not None]
        if len(plain) == len(parts.parts):
            return replace(parts, parts=tuple(plain))
    return _under([(one.referring(joint=False), sides) for one, sides in asked])


def _under(asked: Sequence[Asked]) -> Parts:
    """The likelihoods of all groups, by the law of their design where there is one."""
    parts, totals = likelihoods(asked), _spread(asked)
    return parts if totals is None else parts.under(_law(asked, totals))


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
