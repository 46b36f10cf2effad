"""Every 0/1 rate of every group and intersection, from the probability mass of the finest cells."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np

from isonomy.numerics.arrays import FloatArray, IntArray
from isonomy.simulate.simulated import Truth

Names = dict[str, tuple[tuple[str, ...], FloatArray]]  # group column -> levels and their shares


def rates_by_group(names: Names, cells: IntArray, masses: FloatArray) -> Truth:
    """``population``, ``groups``, ``rest`` and ``disparity`` for all labels of all depths.

    ``cells`` holds the level codes of the finest cells, one column per group column; ``masses`` their share, P(tp),
    P(fp), P(fn) and P(tn), each times the share.
    """
    total = masses.sum(0)
    population = rates(total)
    groups: dict[str, dict[str, float]] = {}
    rest: dict[str, dict[str, float]] = {}
    for depth in range(1, len(names) + 1):
        for columns in combinations(names, depth):
            position = [list(names).index(c) for c in columns]
            for combination in product(*(range(len(names[c][0])) for c in columns)):
                label = " & ".join(f"{c}={names[c][0][k]}" for c, k in zip(columns, combination, strict=True))
                mass = masses[(cells[:, position] == combination).all(1)].sum(0)
                groups[label], rest[label] = rates(mass), rates(total - mass)
    references = {"population": dict.fromkeys(groups, population), "rest": rest}
    disparity = {
        name: {g: {m: groups[g][m] - reference[g][m] for m in population if m != "share"} for g in groups}
        for name, reference in references.items()
    }
    return {"population": population, "groups": groups, "rest": rest, "disparity": disparity}


def rates(mass: FloatArray) -> dict[str, float]:
    """The rates of a group from its share, P(tp), P(fp), P(fn) and P(tn)."""
    share, tp, fp, fn, tn = mass
    with np.errstate(invalid="ignore", divide="ignore"):
        return {
            "share": share,
            "base_rate": (tp + fn) / share,
            "selection_rate": (tp + fp) / share,
            "tpr": tp / (tp + fn),
            "fpr": fp / (fp + tn),
            "fnr": fn / (tp + fn),
            "tnr": tn / (fp + tn),
            "ppv": tp / (tp + fp),
            "npv": tn / (fn + tn),
            "accuracy": (tp + tn) / share,
            "error_rate": (fp + fn) / share,
        }
