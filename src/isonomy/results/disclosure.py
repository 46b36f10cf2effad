"""Which groups have to be withheld, so that the numbers of small ones cannot be worked out from the others.

A group can be had by subtraction where it is the only one withheld among those that make up a published group, or
everybody. So further groups are withheld until at least two are, with enough rows between them: complementary
suppression, along every dimension that groups are split by.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from isonomy.frames.groups import CONDITION, Group
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray

Parts = tuple[IntArray, int | None]  # groups that do not overlap, and the group they make up; None: everybody


def withheld(groups: Sequence[Group], size: FloatArray, small: BoolArray, minimum: int) -> BoolArray:
    """The ``small`` groups, and those whose numbers would give a small one away."""
    once = list(dict.fromkeys(groups))
    if len(once) < len(groups):  # a group that comes once for each metric is one group, withheld in all of them
        place = {group: i for i, group in enumerate(once)}
        number = np.array([place[group] for group in groups])
        any_small, largest = np.zeros(len(once), dtype=bool), np.zeros(len(once))
        np.logical_or.at(any_small, number, small)
        np.fmax.at(largest, number, size)
        return withheld(once, largest, any_small, minimum)[number]
    hidden = np.array(small, dtype=bool)
    families = _families(groups)
    changed = True
    while changed:  # each round withholds one more group of a family
        changed = False
        for parts, whole in families:
            inside = hidden[parts]
            if not inside.any() or (inside.sum() > 1 and size[parts][inside].sum() >= minimum):
                continue
            shown = parts[~inside]
            if shown.size:
                hidden[shown[np.argmin(size[shown])]] = True
            elif whole is not None and not hidden[whole]:
                hidden[whole] = True
            else:
                continue
            changed = True
    return hidden


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
