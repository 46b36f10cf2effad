"""Impact ratios of every table, their intervals and p-values, shortfalls, bounds for unknown categories, cut-offs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

import numpy as np

from isonomy.errors import UsageError, near
from isonomy.frames import Group
from isonomy.inference.designs import FEWEST, DesignEffect, Influence, Law, Spread, spread
from isonomy.likelihood.plan_impact import ImpactPlan
from isonomy.likelihood.ratio.impact import Impact, Laws, against_best, against_one, band, shortfall, unknown_bounds
from isonomy.likelihood.ratio.influence import pair_effect
from isonomy.likelihood.tally_impact import Counts, ImpactTally
from isonomy.numerics.arrays import FloatArray, IntArray, ObjectArray
from isonomy.numerics.status import Status


@dataclass(frozen=True, eq=False, kw_only=True)
class ImpactNumbers:
    """What the result reports as it was estimated: one entry per category of every table."""

    __slots__ = ()  # its fields have theirs in the estimates and in the result

    tables: tuple[str, ...]
    n: FloatArray
    selected: FloatArray
    rate: FloatArray
    impact_ratio: FloatArray
    ci_low: FloatArray
    ci_high: FloatArray
    difference: FloatArray
    pvalue: FloatArray
    below_pvalue: FloatArray
    at_least_pvalue: FloatArray
    shortfall: FloatArray
    shortfall_parity: FloatArray
    bound_low: FloatArray
    bound_high: FloatArray
    cutoff_ratio: FloatArray
    cutoff_low: FloatArray
    cutoff_high: FloatArray
    comparator: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ImpactEstimates(ImpactNumbers):
    """One entry per category of every table; numbers of a comparison are NaN where there is none.

    ``cutoff_ratio``, ``cutoff_low`` and ``cutoff_high`` are cut-offs x categories. ``n`` and ``selected`` count rows,
    ``weighted_n`` and ``weighted_selected`` the people these stand for, and shortfalls are in the same people.
    """

    weighted_n: FloatArray
    weighted_selected: FloatArray
    groups: tuple[Group, ...]
    status: ObjectArray
    design: DesignEffect | None = None


def estimate_impact(sums: ImpactTally, plan: ImpactPlan, rng: np.random.Generator) -> ImpactEstimates:
    """Work out every table."""
    parts = [_table(counts, sums, plan, rng) for counts in sums.tables]

    def joined(name: str) -> Any:
        values = [getattr(part, name) for part in parts]
        return sum(values, ()) if isinstance(values[0], tuple) else np.concatenate(values, axis=-1)

    names = [item.name for item in fields(ImpactEstimates) if item.name != "design"]
    return ImpactEstimates(**{name: joined(name) for name in names}, design=_design(sums))


def _design(sums: ImpactTally) -> DesignEffect | None:
    """How weights and clusters act on each category's rate."""
    if sums.design is None:
        return None
    totals = Spread.together([spread(sums.design, _influence(counts, sums)) for counts in sums.tables])
    n, selected = (np.concatenate([getattr(counts, name) for counts in sums.tables]) for name in ("n", "selected"))
    with np.errstate(all="ignore"):
        rate = selected / n
        return totals.effect(totals.law(rate * (1.0 - rate) / n))


def _table(counts: Counts, sums: ImpactTally, plan: ImpactPlan, rng: np.random.Generator) -> ImpactEstimates:
    """One table, with a comparator of its own."""
    n, selected = counts.n, counts.selected
    people, chosen = sums.people * n, sums.people * selected
    everybody = n.sum() + counts.unknown
    status = np.full(n.size, Status.OK, dtype=object)
    status[(counts.rows < plan.min_size) | (n < plan.smallest_share * everybody)] = Status.TOO_SMALL
    if sums.design is not None:
        few = spread(sums.design, _influence(counts, sums)).effective < FEWEST
        status[few & (status == Status.OK)] = Status.FEW_CLUSTERS
    reference = None if plan.reference is None else _place(counts, plan.reference)
    if reference is not None:
        status[reference] = Status.REFERENCE
    used = np.flatnonzero(np.isin(status, (Status.OK, Status.REFERENCE)))
    if used.size == 1:  # nobody is left to compare it with
        status[used] = Status.REFERENCE
    nan = np.full(n.size, np.nan)
    numbers = {name: nan.copy() for name in ("low", "high", "ratio", "difference", "pvalue", "below", "at_least")}
    need, parity, least, most = (nan.copy() for _ in range(4))
    curves = [np.full(counts.above.shape, np.nan) for _ in range(3)]
    comparator = [""] * n.size
    if used.size > 1:
        own = None if reference is None else int(np.flatnonzero(used == reference)[0])
        laws = None if sums.design is None else partial(_law, counts, sums, used)
        impact = _compared(n[used], selected[used], own, plan, laws)
        best = int(used[impact.comparator[0]])
        status[best] = Status.REFERENCE
        if selected[best] == 0:
            status[used] = Status.ZERO_BASELINE
        else:
            for name, column in numbers.items():
                column[used] = getattr(impact, name)
            comparator = [str(counts.groups[best]) if i in used else "" for i in range(n.size)]
            rate = float(selected[best] / n[best])
            need[used] = shortfall(people[used], chosen[used], plan.threshold * rate)
            parity[used] = shortfall(people[used], chosen[used], rate)
            if counts.unknown:
                refused = counts.unknown - counts.unknown_selected
                bounds = unknown_bounds(n[used], selected[used], counts.unknown_selected, refused, own)
                least[used], most[used] = bounds
            for curve, values in zip(curves, band(n[used], counts.above[:, used], own, plan.alpha, rng), strict=True):
                curve[:, used] = values
            if sums.design is not None:  # the band takes rows as independent
                curves = [curves[0], *(np.full_like(curve, np.nan) for curve in curves[1:])]
    return ImpactEstimates(
        tables=(counts.name,) * n.size,
        groups=counts.groups,
        n=counts.rows,
        selected=counts.chosen,
        rate=selected / n,
        impact_ratio=numbers["ratio"],
        ci_low=numbers["low"],
        ci_high=numbers["high"],
        difference=numbers["difference"],
        pvalue=numbers["pvalue"],
        weighted_n=people,
        weighted_selected=chosen,
        below_pvalue=numbers["below"],
        at_least_pvalue=numbers["at_least"],
        shortfall=need,
        shortfall_parity=parity,
        bound_low=least,
        bound_high=most,
        cutoff_ratio=curves[0],
        cutoff_low=curves[1],
        cutoff_high=curves[2],
        comparator=tuple(comparator),
        status=status,
    )


def _compared(
    n: FloatArray, selected: FloatArray, reference: int | None, plan: ImpactPlan, laws: Laws | None
) -> Impact:
    if reference is None:
        return against_best(n, selected, plan.alpha, plan.threshold, laws)
    return against_one(n, selected, reference, plan.alpha, plan.threshold, laws)


def _influence(counts: Counts, sums: ImpactTally) -> Influence:
    """What each line adds to the rate of its category, where rows have weights or clusters."""
    rate = counts.selected / counts.n
    values = (sums.selected - rate[counts.codes]) / counts.n[counts.codes]
    return Influence.of_groups(counts.codes, values, counts.n.size)


def _law(counts: Counts, sums: ImpactTally, used: IntArray, first: IntArray, second: IntArray) -> Law:
    """The law of T for pairs of the categories ``used``: their rates vary together where clusters are in both."""
    assert sums.design is not None
    i, j, rate = used[first], used[second], counts.selected / counts.n
    effect, totals = pair_effect(sums.design, _influence(counts, sums), rate * (1.0 - rate) / counts.n, i, j)
    return Law(effect, np.minimum(totals.df[i], totals.df[j]))


def _place(counts: Counts, levels: Mapping[str, object]) -> int:
    """Where in the table the named comparator is."""
    for place, group in enumerate(counts.groups):
        if all(str(levels.get(name)) == str(value) for name, value in group.items):
            return place
    columns = dict(counts.groups[0].items) if counts.groups else levels
    label = Group.of({name: levels[name] for name in levels if name in columns}).label
    known = [str(group) for group in counts.groups[:1000]]
    raise UsageError(f"reference: no row of the table {counts.name!r} has {label}.{near(label, known)}")
