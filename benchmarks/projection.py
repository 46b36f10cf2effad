"""Processor time of the projection, against sorting and against a general linear program.

python benchmarks/projection.py
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import csc_array

import isonomy as iso
from benchmarks.clock import against, processor
from isonomy.projection.program.solve import Constraint, SingleRows, fractions, solve

Columns = dict[str, NDArray[Any]]


def people(rows: int, groups: int) -> Columns:
    """Decisions at a rate of 0.3 in groups of unequal size, and the distance of each row from the other decision."""
    rng = np.random.default_rng(2)
    group = rng.choice(groups, rows, p=np.arange(1, groups + 1) / (groups * (groups + 1) / 2))
    return {"group": group, "decision": (rng.random(rows) < 0.3).astype(np.int8), "d": np.abs(rng.normal(size=rows))}


def sorting(rows: int) -> None:
    """Equal rates of two groups: the program and the plan against `np.argsort` of the same distances."""
    data = people(rows, 2)
    label = data["group"] * 2 + data["decision"]
    selected, share = np.arange(4) % 2, np.bincount(data["group"]) / rows
    phi = np.array([[-1 / share[0]], [-1 / share[0]], [1 / share[1]], [1 / share[1]]])
    moment, nothing = phi.T @ (np.bincount(label, minlength=4) * selected), np.zeros(1)
    constraint = Constraint((1 - 2 * selected)[:, None] * phi, moment, nothing, nothing)

    def ours() -> object:
        found = solve(SingleRows(data["d"], label), constraint)
        return fractions(data["d"], label, found.moved)

    print(f"two groups, {rows:,} rows: program and plan, against np.argsort (asked: at most 4 times)")
    print(f"    {against(lambda: np.argsort(data['d']), ours)}", flush=True)


def program(data: Columns) -> float:
    """The smallest total movement to equal rates, as a linear program with one variable per row."""
    change = np.where(data["decision"] == 1, -1.0, 1.0)
    inside = data["group"] == np.arange(data["group"].max() + 1)[:, None]
    rates = inside / inside.sum(axis=1, keepdims=True)
    start = rates @ data["decision"]
    equal = csc_array((rates[0] - rates[1:]) * change)
    found = linprog(data["d"], A_eq=equal, b_eq=start[1:] - start[0], bounds=(0, 1), method="highs")
    return float(found.fun)


def programs(rows: int) -> None:
    """Equal rates of four groups: `project`, with its p-value, against HiGHS, without one."""
    data = people(rows, 4)
    asked: dict[str, Any] = {"prediction": "decision", "groups": "group", "distance": "d"}
    result = iso.project(data, criterion="statistical_parity", **asked)
    ours = processor(lambda: iso.project(data, criterion="statistical_parity", **asked), 3)
    values: list[float] = []
    theirs = processor(lambda: values.append(program(data)))
    apart = abs(result.statistic / values[0] - 1)
    print(f"four groups, {rows:,} rows: project {ours:.3f} s, scipy's linprog (HiGHS) {theirs:.2f} s,")
    print(f"    {theirs / ours:.0f} times (asked: at least 10); the movements agree to {apart:.0e}", flush=True)


if __name__ == "__main__":
    sorting(1_000_000)
    programs(10_000)
    programs(100_000)
