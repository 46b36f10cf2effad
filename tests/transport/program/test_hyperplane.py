"""Distances to a hyperplane, straight and with jumps, against brute force."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import polars as pl
import pytest

import isonomy as iso
from isonomy.errors import UsageError
from isonomy.frames import open_source
from isonomy.numerics.arrays import FloatArray
from isonomy.transport import distances
from support.movement import listed

ORDER: dict[str, Any] = {"l1": 1, "l2": 2, "linf": np.inf}


def evaluate(distance: distances.Distance, columns: dict[str, FloatArray]) -> FloatArray:
    """An expression's values on a table."""
    expression = distance.expression()
    assert expression is not None
    frame = open_source(columns).frame.select(expression.alias("d")).collect().to_native()
    return np.asarray(frame["d"])


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
def test_linear(norm: Any) -> None:
    rng = np.random.default_rng(0)
    x, theta = rng.normal(size=(50, 3)), (1.0, -2.0, 0.5)
    plane = distances.Linear(("a", "b", "c"), theta, 0.3, norm)
    signed = plane.evaluate(x)
    assert evaluate(plane, dict(zip("abc", x.T, strict=True))) == pytest.approx(signed, rel=1e-12)
    moved = plane.move(x)
    assert moved @ np.array(theta) + 0.3 == pytest.approx(np.zeros(50), abs=1e-12)
    assert np.linalg.norm(x - moved, ORDER[norm], axis=1) == pytest.approx(np.abs(signed), rel=1e-12)
    # No point of the plane is nearer: random points of it are all at least as far.
    free = rng.normal(size=(2_000, 3)) * 5
    free[:, 0] = -(free[:, 1] * theta[1] + free[:, 2] * theta[2] + 0.3) / theta[0]
    for row, d in zip(x[:5], signed, strict=False):
        assert np.linalg.norm(free - row, ORDER[norm], axis=1).min() >= abs(d) - 1e-12


def test_mixed_against_brute_force() -> None:
    rng = np.random.default_rng(1)
    allowed = tuple(itertools.product((0.0, 1.0), (0.0, 1.0, 2.0)))
    linear = distances.Linear(("u", "v", "x", "y"), (1.0, -0.7, 0.4, 0.3), -0.5)
    mixed = distances.Mixed(linear, ("u", "v"), allowed, delta=0.6)
    discrete = np.array(allowed)[rng.integers(0, 6, 300)]
    continuous = rng.normal(size=(300, 2)) * 3
    columns = dict(zip("uvxy", np.column_stack([discrete, continuous]).T, strict=True))
    signed = evaluate(mixed, columns)
    size = np.hypot(0.4, 0.3)
    for i in range(300):
        margin = discrete[i] @ [1.0, -0.7] + continuous[i] @ [0.4, 0.3] - 0.5
        costs = []
        for point in allowed:
            after = np.array(point) @ [1.0, -0.7] + continuous[i] @ [0.4, 0.3] - 0.5
            crossed = (after >= 0) != (margin >= 0)
            jump = 0.0 if tuple(discrete[i]) == point else 0.6
            costs.append(jump + (0.0 if crossed else abs(after) / size))
        assert abs(signed[i]) == pytest.approx(min(costs), rel=1e-9, abs=1e-12)
        assert (signed[i] >= 0) == (margin >= 0)


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
def test_mixed_moves_where_its_distance_is_attained(norm: Any) -> None:
    rng = np.random.default_rng(4)
    allowed = tuple(itertools.product((0.0, 1.0), (0.0, 1.0, 2.0)))
    # The discrete features stand first and last: places must not be mixed up.
    theta, intercept = np.array([1.0, 0.4, 0.3, -0.7]), -0.5
    linear = distances.Linear(("u", "x", "y", "v"), tuple(theta), intercept, norm)
    mixed = distances.Mixed(linear, ("u", "v"), allowed, delta=0.6)
    discrete, continuous = np.array(allowed)[rng.integers(0, 6, 300)], rng.normal(size=(300, 2)) * 3
    start = np.column_stack([discrete[:, 0], continuous, discrete[:, 1]])
    signed = evaluate(mixed, dict(zip(mixed.columns, start.T, strict=True)))
    assert mixed.evaluate(start) == pytest.approx(signed, rel=1e-12)
    end = mixed.move(start)
    jumped = (end[:, [0, 3]] != start[:, [0, 3]]).any(axis=1)
    paid = 0.6 * jumped + np.linalg.norm((end - start)[:, [1, 2]], ORDER[norm], axis=1)
    assert paid == pytest.approx(np.abs(signed), rel=1e-9, abs=1e-12)
    assert {tuple(point) for point in end[:, [0, 3]]} <= set(allowed)
    # No longer on the side where it began: on the boundary, or past it where the jump alone crosses.
    assert (np.where(signed >= 0, 1, -1) * (end @ theta + intercept) <= 1e-12).all()
    alone = jumped & (end[:, [1, 2]] == start[:, [1, 2]]).all(axis=1)
    assert 0 < alone.sum() < jumped.sum() < 300


def test_mixed_when_everything_is_discrete() -> None:
    linear = distances.Linear(("u",), (1.0,), -1.5)
    mixed = distances.Mixed(linear, ("u",), ((0.0,), (1.0,), (2.0,)), delta=2.0)
    assert evaluate(mixed, {"u": np.array([0.0, 2.0])}).tolist() == [-2.0, 2.0]
    assert mixed.move(np.array([[0.0], [2.0]])).tolist() == [[2.0], [0.0]]
    stuck = distances.Mixed(distances.Linear(("u",), (1.0,), -3.5), ("u",), ((0.0,), (1.0,), (2.0,)), delta=2.0)
    assert evaluate(stuck, {"u": np.array([0.0, 2.0])}).tolist() == [-np.inf, -np.inf]
    assert stuck.evaluate(np.array([[0.0], [2.0]])).tolist() == [-np.inf, -np.inf]
    assert np.isnan(stuck.move(np.array([[0.0]]))).all()


def test_the_plan_of_a_mixed_distance_says_where_rows_go(people: pl.DataFrame) -> None:
    flag = (people["z"].to_numpy() > 0).astype(float)
    data = people.with_columns(pl.Series("u", flag))
    linear = distances.Linear(("x", "u"), (1.0, 1.5), -2.0)
    mixed = distances.Mixed(linear, ("u",), ((0.0,), (1.0,)), delta=0.01)
    data = data.with_columns(c=(pl.col("x") + 1.5 * pl.col("u") >= 2.0).cast(pl.Int8))
    for table in (data, data.lazy()):
        roles: dict[str, Any] = {"prediction": "c", "groups": "g", "criterion": "statistical_parity"}
        plan = listed(iso.project(table, distance=mixed, **roles))
        assert plan.features == ("x", "u")
        assert plan.row.size > 3
        assert plan.end == pytest.approx(mixed.move(plan.start), rel=1e-12)
        assert np.abs(mixed.evaluate(plan.start)) == pytest.approx(plan.distance, rel=1e-9)


@pytest.mark.parametrize(("argument", "value"), [("immutable", ("u",)), ("costs", {"u": 3.0})])
def test_what_may_jump_has_no_other_price(argument: str, value: Any) -> None:
    """A jump would have moved an immutable feature, and ignored its cost."""
    linear = distances.Linear(("x", "u"), (1.0, 1.0), -3.5, **{argument: value})
    with pytest.raises(UsageError, match=f"{argument}: u may jump"):
        distances.Mixed(linear, ("u",), ((0.0,), (1.0,)), delta=0.01)
