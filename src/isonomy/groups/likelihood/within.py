"""Comparisons within strata: the strata of each group, what they account for, and which of them may be published."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from isonomy.errors import UsageError
from isonomy.frames import Partition
from isonomy.groups.likelihood.joint import quadratic
from isonomy.groups.likelihood.lines import MetricRows
from isonomy.groups.likelihood.strata import JUDGED_ROWS, Accounted, Lines, Scale, Strata, accounted, strata_of
from isonomy.inference.designs import Influence, Law, covariance, joint_law, spread
from isonomy.numerics.arrays import AnyArray, BoolArray, FloatArray, IntArray
from isonomy.numerics.tails import chi2_isf, chi2_sf

# Single strata kept for the reader: nobody reads more, and the table stays small.
SHOWN = 10_000
# How much the smallness of strata may understate a variance under weights or clusters before there is no test: what it
# understates it by depends on how clusters lie across strata.
CROWDED = 1.1
# Influence values held at once, of all lines on all groups.
ENTRIES = 50_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Effects:
    """Strata one by one; ``group`` is a place in the results, ``n`` and ``reference_n`` are rows, whatever they weigh.

    ``complete``: every stratum of every group is there, with its rows; those with fewer than `JUDGED_ROWS` on a side
    have no other numbers. Otherwise these strata are left out.
    """

    group: IntArray
    stratum: tuple[str, ...]
    n: FloatArray
    estimate: FloatArray
    reference_n: FloatArray
    reference: FloatArray
    disparity: FloatArray
    complete: bool


def strata_of_groups(sums: MetricRows, partition: Partition) -> Strata:
    """The groups of a partition, each beside the people of its strata with whom it is compared."""
    return strata_of(_lines(sums, partition), len(partition.groups), binary=sums.lines.binary)


def _lines(sums: MetricRows, partition: Partition) -> Lines:
    assert sums.strata is not None
    return Lines(partition.codes, sums.strata.codes, sums.lines.value, sums.mass, sums.in_reference)


def strata_influence(sums: MetricRows, partition: Partition, pairs: Strata, scale: Scale) -> Influence:
    """What each line adds to the disparity of each group, for rows with weights or clusters."""
    lines = _lines(sums, partition)
    refuse_many("given", lines.codes.size, pairs.size)
    columns = [lines.influence(pairs, scale, group) for group in range(pairs.size)]
    unit = np.ones(pairs.size) if scale == "difference" else np.nan_to_num(pairs.estimate(scale))
    values = np.column_stack([inner for inner, _, _ in columns]) * unit * np.sqrt(crowding(pairs, scale))
    return Influence.of(values, np.column_stack([own for _, _, own in columns]))


def refuse_many(argument: str, lines: int, groups: int) -> None:
    """What every line adds to every group is held at once, with weights or clusters and for joint tests."""
    if lines * groups > ENTRIES:
        raise UsageError(
            f"{argument}: {groups:,} groups and {lines:,} lines are too many here; ask about fewer groups at once."
        )


def crowding(pairs: Strata, scale: Scale) -> FloatArray:
    """How much small strata understate the variance of each group; 1 where there is nothing to estimate."""
    return np.nan_to_num(pairs.crowding(scale), nan=1.0)


def all_equal(sums: MetricRows, tested: Sequence[IntArray], effective: float) -> tuple[float, int, float]:
    """Cochran, Mantel and Haenszel's test that no tested group differs within strata: T, degrees of freedom, p-value.

    ``tested`` are the groups of each partition. Every group's Σ w (mean1 - mean0) is a sum over rows with weights that
    add up to 0 in each stratum, so their covariance when rows of a stratum are exchangeable is known. With weights or
    clusters, of which there are ``effective``, the law is that of sums over clusters.
    """
    columns = []
    for partition, groups in zip(sums.partitions, tested, strict=True):
        lines, pairs = _lines(sums, partition), strata_of_groups(sums, partition)
        refuse_many("given", lines.codes.size, groups.size)
        columns += [lines.contrast(pairs, int(group)) for group in groups]
    lines, contrasts = _lines(sums, sums.partitions[0]), np.column_stack(columns)
    away, variance = lines.deviations(contrasts)
    statistic, df = quadratic(
        contrasts.T @ (lines.mass * away), contrasts.T @ ((lines.mass * variance)[:, None] * contrasts)
    )
    if sums.design is None or not df:
        return statistic, df, float(chi2_sf(statistic, df)) if df else 1.0
    law = joint_law(sums.design, Influence.of(contrasts * away[:, None]), df, effective)
    return statistic, df, law.tail(statistic)


def _accounted(sums: MetricRows, partition: Partition, pairs: Strata, scale: Scale, alpha: float) -> Accounted:
    """What the strata account for; with weights or clusters, by the spread of influence values over clusters."""
    critical = float(chi2_isf(alpha, 1))
    if sums.design is None:
        return accounted(pairs, scale, critical)
    lines, limits = _lines(sums, partition), np.full(pairs.size, np.nan)
    matrices, crowded = np.full((2, 2, pairs.size), np.nan), crowding(pairs, scale)
    for group in range(pairs.size):
        inner, outer, own = lines.influence(pairs, scale, group)
        inner = inner * np.sqrt(crowded[group])
        both = np.column_stack([own, own])
        matrices[:, :, group] = covariance(sums.design, Influence.of(np.column_stack([inner, outer]), both))
        law = spread(sums.design, Influence.of(outer - inner, own)).law(np.ones(1))
        limits[group] = Law(np.ones(1), law.df).critical(critical)[0]
    return accounted(pairs, scale, limits, matrices)


def account_for_strata(sums: MetricRows, scale: Scale, alpha: float) -> dict[str, Any]:
    """What strata add to each group, as columns: the comparison without them, and whether effects differ in them.

    ``strata`` have rows on both sides, ``one_sided`` not; ``raw_estimate`` and ``raw_reference`` are the means of both
    sides without adjustment.
    """
    every = [strata_of_groups(sums, partition) for partition in sums.partitions]
    raw = [_raw(sums, *pair) for pair in zip(sums.partitions, every, strict=True)]
    parts = [_accounted(sums, *pair, scale, alpha) for pair in zip(sums.partitions, every, strict=True)]
    tests = [part.homogeneity(scale) for part in every]
    statistic, df = (np.concatenate(column) for column in zip(*tests, strict=True))
    if sums.design is not None:  # both tests take rows as independent
        statistic = np.full(statistic.shape, np.nan)
    names = {"value": "accounted", "low": "accounted_low", "high": "accounted_high"}
    found = {item.name: np.concatenate([getattr(p, item.name) for p in parts]) for item in fields(Accounted)}
    return {
        "raw_estimate": np.concatenate([own for own, _ in raw]),
        "raw_reference": np.concatenate([other for _, other in raw]),
        **{names.get(name, name): values for name, values in found.items()},
        "homogeneity": statistic,
        "homogeneity_df": df,
        "homogeneity_pvalue": chi2_sf(statistic, df),
        "strata": np.concatenate([part.total(part.informative) for part in every]),
        "one_sided": np.concatenate([part.total(~part.informative) + part.absent for part in every]),
        "effects": _effects(sums, every, scale),
    }


def _raw(sums: MetricRows, partition: Partition, pairs: Strata) -> tuple[FloatArray, FloatArray]:
    """The means of both sides without adjustment; a group that is itself the reference has its own."""
    merged = pairs.merged
    with np.errstate(all="ignore"):
        whole = partition.sum(sums.mass * sums.lines.value) / partition.sum(sums.mass)
        own, other = merged.sum1 / merged.n1, merged.sum0 / merged.n0
    return np.where(merged.n1 > 0, own, whole), other


def _effects(sums: MetricRows, every: Sequence[Strata], scale: Scale) -> Effects:
    """The strata one by one: all of them or, where they are very many, those with enough rows."""
    assert sums.strata is not None
    names = [str(group) for group in sums.strata.groups]
    wide, start = len(names), 0
    complete = wide * sum(part.size for part in every) <= SHOWN
    columns: list[list[AnyArray]] = [[], [], [], [], [], [], []]
    for partition, part in zip(sums.partitions, every, strict=True):
        lines = replace(_lines(sums, partition), mass=sums.counts)
        rows = part if sums.design is None else strata_of(lines, part.size, binary=part.binary)
        effect = part.effects(scale)[0]
        disparity = effect if scale == "difference" else np.exp(effect)
        # Strata in which nobody weighs anything are among the rows alone.
        at = np.searchsorted(rows.group * wide + rows.stratum, part.group * wide + part.stratum)
        judged = part.informative & (np.minimum(rows.n1, rows.n0)[at] >= JUDGED_ROWS)
        numbers = np.full((3, rows.group.size), np.nan)
        numbers[:, at[judged]] = np.stack([*part.means, disparity])[:, judged]
        each = [rows.group + start, rows.stratum, rows.n1, numbers[0], rows.n0, numbers[1], numbers[2]]
        if complete:
            # The rows compared with in strata without anybody of the group.
            mass = lines.mass if lines.compared is None else lines.mass * lines.compared
            facing = np.bincount(lines.stratum, mass, minlength=wide)
            absent = np.broadcast_to(facing > 0, (part.size, wide)).copy()
            absent[rows.group, rows.stratum] = False
            group, stratum = np.nonzero(absent)
            none = np.full(group.size, np.nan)
            further = group + start, stratum, np.zeros(group.size), none, facing[stratum], none, none
            each = [np.append(values, more) for values, more in zip(each, further, strict=True)]
        else:
            each = [values[~np.isnan(numbers[0])] for values in each]
        for column, values in zip(columns, each, strict=True):
            column.append(values)
        start += part.size
    group, stratum, n, estimate, others, reference, effects = (np.concatenate(part)[:SHOWN] for part in columns)
    return Effects(group, tuple(names[i] for i in stratum), n, estimate, others, reference, effects, complete)


WITHHELD = "(withheld)"  # all strata that are withheld, as one


def published_effects(
    effects: Effects, n: FloatArray, minimum: int, named: Sequence[bool], *, to_group: bool
) -> Effects:
    """The strata without those in which a cell is small, nor any from which one follows.

    Strata are withheld whole, the smallest first, until all that are withheld hold nobody of a group or enough, and as
    one stratum have no small cell either: then no sum or difference gives a small one. Where a group is withheld (its
    ``n`` is NaN) none is listed, since what others are compared with in a stratum has its rows in it; nor where not
    every cell is known. ``named`` are conditions, which may overlap with any group; ``to_group``: all groups are
    compared with one of them.
    """
    if np.isnan(n).any() or (minimum > 1 and not effects.complete):
        return _effects_at(effects, np.zeros(0, dtype=np.intp), complete=False)
    names, place = np.unique(np.array(effects.stratum, dtype=object), return_inverse=True)
    size, at = (len(named), names.size), effects.group * names.size + place
    cells = np.stack(
        [np.bincount(at, part, minlength=size[0] * size[1]).reshape(size) for part in (effects.n, effects.reference_n)]
    ).astype(float)
    small = _telling(cells, minimum, named, to_group=to_group)
    if not small.any():
        return effects
    order = np.lexsort((cells.sum(axis=(0, 1)), ~small))
    together = np.cumsum(cells[:, :, order], axis=2)
    enough = ~_telling(together, minimum, named, to_group=to_group) & (np.arange(names.size) >= small.sum() - 1)
    last = int(np.argmax(enough)) if enough.any() else names.size - 1
    kept = _effects_at(effects, np.flatnonzero(~np.isin(place, order[: last + 1])), complete=True)
    group = np.flatnonzero(together[:, :, last].any(axis=0))
    own, other = together[:, group, last]
    none = np.full(group.size, np.nan)
    return Effects(
        group=np.append(kept.group, group),
        stratum=(*kept.stratum, *(WITHHELD for _ in group)),
        n=np.append(kept.n, own),
        estimate=np.append(kept.estimate, none),
        reference_n=np.append(kept.reference_n, other),
        reference=np.append(kept.reference, none),
        disparity=np.append(kept.disparity, none),
        complete=True,
    )


def _telling(cells: FloatArray, minimum: int, named: Sequence[bool], *, to_group: bool) -> BoolArray:
    """In which strata a cell is small, or the difference of two of people who may overlap."""
    few = np.asarray(((cells > 0) & (cells < minimum)).any(axis=(0, 1)), dtype=bool)
    apart = [np.abs(cells[0] - cells[0, i]) for i in np.flatnonzero(named)]
    if to_group:  # without its members in the group
        apart.append(np.diff(np.sort(cells[1], axis=0), axis=0))
    for difference in apart:
        few |= ((difference > 0) & (difference < minimum)).any(axis=0)
    return few


def _effects_at(effects: Effects, places: IntArray, *, complete: bool) -> Effects:
    """Some of the strata."""
    arrays = (item.name for item in fields(Effects) if item.name not in ("stratum", "complete"))
    stratum = tuple(effects.stratum[i] for i in places)
    return Effects(stratum=stratum, complete=complete, **{name: getattr(effects, name)[places] for name in arrays})
