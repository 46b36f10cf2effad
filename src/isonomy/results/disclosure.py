"""Which groups to withhold, so that the numbers of small groups cannot be derived from the others.

A group follows by subtraction if it is the only one withheld among those that make up a published group, or everybody.
Further groups are therefore withheld until at least two are, with enough rows together, and until no chain of such sums
reveals a small one: complementary suppression, along every dimension by which groups are split. Named groups may
overlap with any other. If one of them is withheld, all are; and if any group is withheld, so are the named groups whose
number of rows differs from that of a published group, or of everybody, by less than the minimum.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from isonomy.frames.groups import CONDITION, Group
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray

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

    Parameters
    ----------
    groups : sequence of Group
        A group that occurs several times, once for each metric, is withheld everywhere.
    size : ndarray
        The rows of each group; NaN if it is already withheld.
    small : ndarray
        The groups that are withheld in any case.
    minimum : int
        The smallest number of rows that is published.
    references : ndarray, optional
        Groups that others are compared with. They are withheld only if no other group is left.
    rows : float, optional
        The number of all rows.
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
