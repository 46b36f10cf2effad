"""Which groups to withhold, so that the numbers of small groups cannot be derived from the others.

A group follows by subtraction if it is the only one withheld among those that make up a published group, or everybody.
Further groups are therefore withheld until at least two are, with enough rows together, and until no chain of such sums
reveals a small one: complementary suppression, along every dimension by which groups are split. Named groups may
overlap with any other. If one of them is withheld, all are; and if any group is withheld, so are the named groups whose
number of rows differs from that of a published group, or of everybody, by less than the minimum.

Sums over everybody stay: they tell what several withheld groups have in common. Statistics and p-values of all groups
together do not, because they and the sums have few solutions (see `columns.POOLED`).

What all tests of an audit publish together is checked in `family_notes`: two counts of nearly the same people, and
rates that are the same for everybody.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from isonomy.errors import NotEnoughData
from isonomy.frames.groups import CONDITION, Group
from isonomy.inference import Verdict
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray
from isonomy.numerics.status import Status
from isonomy.results.phrases import Note

if TYPE_CHECKING:
    from isonomy.results.evidence import Evidence

FAMILY = ("near_counts", "same_for_all")  # the notes of `family_notes`
ROUNDING = 1e-6  # by which equal sums of probabilities may differ

Parts = tuple[IntArray, int | None]  # groups that do not overlap, and the group they make up; None: everybody


def withheld(
    groups: Sequence[Group],
    size: FloatArray,
    small: BoolArray,
    minimum: int,
    *,
    references: BoolArray | None = None,
    rows: float | None = None,
) -> BoolArray:
    """The ``small`` groups, and those whose numbers would reveal a small one.

    A group that occurs several times, once for each metric, is withheld everywhere. Its ``size`` is NaN if it was
    withheld before. ``references``, with which others are compared, are withheld only if no other group is left.
    """
    if small.all() or not small.any():
        return np.array(small, dtype=bool)
    place = {group: i for i, group in enumerate(dict.fromkeys(groups))}
    number = np.array([place[group] for group in groups], dtype=np.intp)
    hidden, last, least = np.zeros(len(place), bool), np.zeros(len(place), bool), np.full(len(place), np.nan)
    np.logical_or.at(hidden, number, small)
    np.logical_or.at(last, number, False if references is None else references)
    np.fmin.at(least, number, size)
    known_small = hidden.copy()
    families = _families(list(place))
    named = np.array([any(name == CONDITION for name, _ in group.items) for group in place])

    def hide(parts: IntArray, whole: int | None) -> bool:
        """Hide one more group: the smallest of the parts or, if all are hidden, the whole."""
        shown = parts[~hidden[parts]]
        if shown.size:
            hidden[shown[np.lexsort((np.nan_to_num(least[shown], nan=np.inf), last[shown]))[0]]] = True
        elif whole is not None and not hidden[whole]:
            hidden[whole] = True
        else:
            return False
        return True

    changed = True
    while changed:  # each round withholds one more group of a family
        changed = False
        for parts, whole in families:
            inside = parts[hidden[parts]]
            # Groups withheld earlier have already been checked; their sizes are not known.
            many = np.isnan(least[inside]).any() or least[inside].sum() >= minimum
            if not inside.size or (inside.size > 1 and many):
                continue
            changed |= hide(parts, whole)
        if not changed:
            known = known_small & _determined(families, hidden)
            concerned = [family for family in families if known[family[0]].any()]
            changed = any(hide(*family) for family in concerned)
        telling = named & ~hidden & _telling(least, hidden, named, minimum, rows)
        hidden |= telling
        changed |= bool(telling.any())
    return hidden[number]


def _families(groups: Sequence[Group]) -> list[Parts]:
    """Groups that differ in one dimension only, with the group that has no such dimension."""
    place = {group: i for i, group in enumerate(groups)}
    families: dict[tuple[str, Group], list[int]] = {}
    for i, group in enumerate(groups):
        for name, _ in group.items:
            if name != CONDITION:  # a named group may overlap with any other
                rest = Group(tuple(item for item in group.items if item[0] != name))
                families.setdefault((name, rest), []).append(i)
    return [(np.array(parts), place.get(rest)) for (_, rest), parts in families.items()]


def _determined(families: Sequence[Parts], hidden: BoolArray) -> BoolArray:
    """The hidden groups that follow from the sums of all families together.

    The sums determine a group unless it can change while every sum stays the same. A random vector is projected onto
    the changes that preserve all sums: a group is determined if the projection has no component for it.
    """
    from scipy import sparse
    from scipy.sparse.linalg import lsmr

    place = np.cumsum(hidden) - 1
    entries: list[tuple[int, int, float]] = []
    for number, (parts, whole) in enumerate(families):
        entries += [(number, int(place[i]), 1.0) for i in parts[hidden[parts]]]
        if whole is not None and hidden[whole]:
            entries.append((number, int(place[whole]), -1.0))
    determined = np.zeros(hidden.size, dtype=bool)
    if not entries:
        return determined
    line, column, sign = (np.array(values) for values in zip(*entries, strict=True))
    sums = sparse.csr_array((sign, (line, column)), shape=(len(families), int(hidden.sum())))
    draw = np.random.default_rng(0).standard_normal(sums.shape[1])
    projection = lsmr(sums, sums @ draw, atol=1e-13, btol=1e-13, conlim=0, maxiter=10 * sums.shape[1] + 100)[0]
    determined[hidden] = np.abs(draw - projection) < 1e-6
    return determined


def _telling(size: FloatArray, hidden: BoolArray, named: BoolArray, minimum: int, rows: float | None) -> BoolArray:
    """The named groups that would reveal a hidden one, by overlap or by a small difference."""
    if (hidden & named).any():
        return named
    telling = np.zeros(hidden.size, dtype=bool)
    shown = np.flatnonzero(~hidden)
    others = np.append(size[shown], np.nan if rows is None else rows)
    for i in np.flatnonzero(named & ~hidden):
        near = np.abs(others - size[i]) < minimum
        telling[i] = near[np.append(shown != i, True)].any()
    return telling


def leaves_few(groups: Sequence[Group], size: FloatArray, rows: FloatArray | float | None, minimum: int) -> BoolArray:
    """The named groups that all but a few rows belong to: the few follow by subtraction, and no line lists them."""
    named = np.array([any(name == CONDITION for name, _ in group.items) for group in groups], dtype=bool)
    others = np.full(len(groups), np.nan) if rows is None else rows - size
    return named & (others > 0) & (others < minimum)


def few_in_reference(minimum: int) -> NotEnoughData:
    return NotEnoughData(
        f"reference: the group that others are compared with has fewer than {minimum:,} rows, the minimum for "
        "publication, or would reveal one that has. Every comparison would reveal its numbers; choose another "
        "reference."
    )


def hide_lines(columns: Mapping[str, Any], small: BoolArray) -> dict[str, Any]:
    """Columns without their small lines: NaN, or the empty value of the type."""
    hidden: dict[str, Any] = {}
    for name, values in columns.items():
        if isinstance(values, tuple):
            kinds = set(map(type, values))
            empty = Verdict.INCONCLUSIVE if Verdict in kinds else Status.SUPPRESSED if Status in kinds else ""
            hidden[name] = tuple(empty if hide else value for value, hide in zip(values, small, strict=True))
        else:
            hidden[name] = values & ~small if values.dtype == bool else np.where(small, np.nan, values)
        if name.endswith("adjusted_pvalue"):  # adjusting may give several lines the number of a withheld one
            withheld_values = values[..., small]
            hidden[name] = np.where(np.isin(values, withheld_values[withheld_values < 1]), np.nan, hidden[name])
    return hidden


# ---- what the tests of an audit publish together


class Count(NamedTuple):
    """A number of rows that a test publishes about a group."""

    test: str
    where: str  # the test and the column, in words
    counted: tuple[str, object]  # the column and, unless it counts whole groups, the metric
    group: Group
    rows: float
    every: FloatArray  # all numbers of rows that the test publishes about the group, and those of its parts by them
    cases: bool  # whether rates are known
    part: str  # of the rows, if the group was tested on one: random halves say nothing of one another

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.group.items)


def family_notes(results: Mapping[str, Evidence], minimum: int) -> dict[str, tuple[Note, ...]]:
    """Notes for each test on what its published numbers may tell of fewer than ``minimum`` people.

    That is the case for two counts, of people that are mostly the same, that differ by less than the minimum; and for a
    rate that is the same for everybody.
    """
    counts = [count for name, result in results.items() for count in _counts(name, result)]
    near: dict[str, dict[str, set[str]]] = {name: defaultdict(set) for name in results}
    for first, second in _overlapping(counts, minimum):
        if first.part == second.part and ROUNDING < abs(second.rows - first.rows) < minimum:
            near[first.test][second.where].add(first.group.label)
            near[second.test][first.where].add(second.group.label)
    for count in counts:
        if leaves_few([count.group], np.array([count.rows]), results[count.test].provenance.rows, minimum).any():
            near[count.test][f"{count.test}: all rows"].add(count.group.label)
    notes: dict[str, tuple[Note, ...]] = {}
    for name, result in results.items():
        by_groups: dict[tuple[str, ...], list[str]] = defaultdict(list)
        for where, groups in sorted(near[name].items()):
            by_groups[tuple(sorted(groups))].append(where)
        values = {groups: {"where": "; ".join(where), "minimum": minimum} for groups, where in by_groups.items()}
        rates = np.empty(0) if (known := _rates(result)) is None else known
        same = tuple(dict.fromkeys(result.labels[i] for i in np.flatnonzero((rates == 0) | (rates == 1))))
        notes[name] = (
            *(Note("near_counts", groups, value) for groups, value in values.items()),
            *([Note("same_for_all", same)] if same else []),
        )
    return notes


def _counts(test: str, result: Evidence) -> Iterator[Count]:
    """The numbers of rows that a result publishes, each once."""
    titles = {
        name: column.title for name, column in result.described(c.name for c in result.declared().values()).items()
    }
    parts: Sequence[str] = getattr(result, "found", ()) or ("",) * len(result.groups)
    listed, lines, rates = set[tuple[str, Group, float]](), defaultdict(list), _rates(result)
    for i, group in enumerate(result.groups):
        lines[group].append(i)
    sizes = {c.name: getattr(result, field) for field, c in result.declared().items() if c.sizes}
    sizes = {name: values for name, values in sizes.items() if np.shape(values) == (len(result.groups),)}
    every = [*sizes.values()]
    if "n" in sizes:
        every += [sizes["size"] - sizes["n"]] if "size" in sizes else []
        cases = sizes["n"] * (np.nan if rates is None else rates)
        if not (np.abs(cases - np.round(cases)) > ROUNDING).any():  # otherwise rates have weights, or are adjusted
            every += [cases, sizes["n"] - cases]
    for field, column in result.declared().items():
        values, groups = getattr(result, field), getattr(result, column.sized)
        if not column.sizes or values is None or len(values) != len(groups):
            continue
        for group, rows in zip(groups, values, strict=True):
            if rows > 0 and (column.name, group, rows) not in listed:
                listed.add((column.name, group, rows))
                counted = column.name, None if column.name == "size" else result.provenance.options.get("metric")
                told = np.array(every)[..., lines[group]]
                where, part = f"{test}: {titles[column.name]}", parts[lines[group][0]] if lines[group] else ""
                yield Count(test, where, counted, group, float(rows), told, rates is not None, part)


def _overlapping(counts: Sequence[Count], minimum: int) -> Iterator[tuple[Count, Count]]:
    """Pairs of counts of people that may be mostly the same.

    They are a part of a group and the whole group; or they count the same thing in one group, in a named group and any
    other, in groups of one column that two tests cut differently, or in groups of two columns. Two groups of one test
    have about the same people only if one may contain the other, because it has at least as many rows, cases and others
    in every count that is published; groups of two columns only if, in addition, all of these are about the same.
    """
    by_group: dict[Group, list[Count]] = defaultdict(list)
    by_thing: dict[tuple[str, object], list[Count]] = defaultdict(list)
    for count in counts:
        by_group[count.group].append(count)
        by_thing[count.counted].append(count)
    for same in by_group.values():
        whole = max(same, key=lambda count: count.rows)
        yield from ((whole, count) for count in same if count.counted != whole.counted)
    for things in by_thing.values():
        yield from _alike(things, minimum)


def _alike(counts: Sequence[Count], minimum: int) -> Iterator[tuple[Count, Count]]:
    """Pairs among counts of the same thing."""
    tests: dict[tuple[str, ...], dict[str, set[Group]]] = defaultdict(lambda: defaultdict(set))
    for count in counts:
        tests[count.columns][count.test].add(count.group)
    ordered = sorted(counts, key=lambda count: count.rows)
    for i, first in enumerate(ordered):
        for second in ordered[i + 1 :]:
            if second.rows - first.rows >= minimum:
                break
            named, cuts = CONDITION in (*first.columns, *second.columns), tests[first.columns]
            if first.group == second.group:
                alike = True
            elif first.test != second.test:
                alike = named or (first.columns == second.columns and cuts[first.test] != cuts[second.test])
            else:
                more = second.every - first.every if first.every.shape == second.every.shape else np.zeros(1)
                contained = not ((more > ROUNDING).any() and (more < -ROUNDING).any())
                levels = dict(first.group.items)  # groups with different levels of a column have nobody in common
                apart = any(levels.get(name, level) != level for name, level in second.group.items)
                near = first.cases and not apart and not (np.abs(more) >= minimum).any()
                alike = contained and (named or near)
            if alike:
                yield first, second


def _rates(result: Evidence) -> FloatArray | None:
    """The published share of each line; None if a result has none."""
    fields = [field for field, column in result.declared().items() if column.name == "estimate"]
    if not fields or result.units().get("estimate") != "%":
        return None
    rates: FloatArray = getattr(result, fields[0])
    return rates if np.shape(rates) == (len(result.groups),) else None
