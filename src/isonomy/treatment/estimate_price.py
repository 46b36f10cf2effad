"""What corrected effects cost in the ranking of persons: quantities before and after, and the bias left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from isonomy.frames import Group
from isonomy.inference.designs import FEWEST, Influence, spread
from isonomy.numerics.arrays import FloatArray
from isonomy.numerics.tails import t_isf, t_sf
from isonomy.treatment.effects.errors import Errors, errors_of
from isonomy.treatment.effects.price import Score, scores, standard_error
from isonomy.treatment.estimate import arms_differ, check_measure, under_design
from isonomy.treatment.plan import PricePlan
from isonomy.treatment.tally import PriceTally


@dataclass(frozen=True, eq=False, kw_only=True)
class PriceNumbers:
    """What the result reports as it was estimated. Axes: corrected column, then quantity."""

    __slots__ = ()  # its fields have theirs in the estimates and in the result

    before: FloatArray  # (quantity,)
    before_se: FloatArray
    after: FloatArray
    change: FloatArray
    change_se: FloatArray
    change_low: FloatArray
    change_high: FloatArray
    bias_before: float  # root mean square over groups, without sampling error
    bias_after: FloatArray  # (column,)
    arms_differ: bool


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class PriceEstimates(PriceNumbers):
    """Quantities before correction and their change. Axes: corrected column, then `QUANTITIES`."""

    groups: tuple[Group, ...]
    pvalue: FloatArray
    few_clusters: bool  # too few to judge their spread by: no p-values
    predicted: FloatArray  # effects of each group before correction
    observed: FloatArray
    binary: bool


def estimate_price(tally: PriceTally, plan: PricePlan) -> PriceEstimates:
    """Every quantity of every column, and its change on the same rows."""
    first = tally.tallies[0]
    check_measure(first.sums[0], plan.errors)
    p, weight = tally.propensity, tally.weight
    transformed = tally.outcome * (tally.arm - p) / (p * (1 - p))
    relative = plan.errors.formula.measure == "relative"

    def difference(effect: FloatArray) -> FloatArray:
        if not relative:
            return effect
        return np.full(effect.shape, np.nan) if tally.baseline is None else (effect - 1) * tally.baseline

    def of(effect: FloatArray) -> tuple[Score, ...]:
        known = difference(effect)
        return scores(transformed, known, known if np.isfinite(known).all() else effect, weight, plan.budget)

    before, *after = (of(effect) for effect in tally.effects)
    changes = np.array([[two.value - one.value for one, two in zip(before, own, strict=True)] for own in after])
    influences = [[one.influence for one in before]]
    influences += [[two.influence - one.influence for one, two in zip(before, own, strict=True)] for own in after]
    (before_se, *rows), (_, *freedom), few = _spreads(influences, tally)
    errors, df = np.array(rows), np.array(freedom)
    critical = t_isf(plan.errors.alpha / 2, df)
    with np.errstate(divide="ignore", invalid="ignore"):
        pvalue = 2 * t_sf(np.abs(changes) / errors, df)
    errors_by_column = [
        under_design([errors_of(sums.moments(), plan.errors.formula) for sums in own.sums], own, plan.errors)[0]
        for own in tally.tallies
    ]
    named = [len(groups) for groups in first.groups]
    biases = [_root_mean_bias(parts, named) for parts in errors_by_column]
    effects = [part.effects for part in errors_by_column[0]]
    sizes = first.sizes or tuple(sums.counts.n for sums in first.sums)
    return PriceEstimates(
        groups=tuple(group for groups in first.groups for group in groups),
        before=np.array([one.value for one in before]),
        before_se=before_se,
        after=np.array([[one.value for one in own] for own in after]),
        change=changes,
        change_se=errors,
        change_low=changes - critical * errors,
        change_high=changes + critical * errors,
        pvalue=np.where(few, np.nan, np.where(changes == 0, 1.0, pvalue)),
        few_clusters=few,
        bias_before=biases[0],
        bias_after=np.array(biases[1:]),
        predicted=np.concatenate([own.predicted[:size] for own, size in zip(effects, named, strict=True)]),
        observed=np.concatenate([own.observed[:size] for own, size in zip(effects, named, strict=True)]),
        binary=first.sums[0].binary,
        arms_differ=any(arms_differ(n[:size]) for n, size in zip(sizes, named, strict=True)),
    )


def _spreads(
    influences: Sequence[Sequence[FloatArray]], tally: PriceTally
) -> tuple[list[FloatArray], list[FloatArray], bool]:
    """Standard errors and degrees of freedom of means with these influences; and whether clusters are too few."""
    if tally.design is None:
        errors = [np.array([standard_error(one, tally.weight) for one in row]) for row in influences]
        return errors, [np.full(row.shape, np.inf) for row in errors], False
    spreads = [
        spread(tally.design, Influence.of(np.nan_to_num(np.stack(row, -1)) / tally.weight.sum())) for row in influences
    ]
    known = [np.array([np.isfinite(one).all() for one in row]) for row in influences]
    errors = [np.where(there, np.sqrt(one.variance), np.nan) for one, there in zip(spreads, known, strict=True)]
    return errors, [one.df for one in spreads], bool((spreads[0].effective < FEWEST).any())


def _root_mean_bias(parts: Sequence[Errors], named: Sequence[int]) -> float:
    """Root mean square of the biases of all groups, without their sampling error; ``named``: groups of each part."""
    squares = [np.where(one.usable, one.gap.value**2 - one.gap.se**2, np.nan) for one in parts]
    square = np.concatenate([own[:size] for own, size in zip(squares, named, strict=True)])
    return float(np.sqrt(max(float(np.nanmean(square)), 0.0))) if np.isfinite(square).any() else np.nan
