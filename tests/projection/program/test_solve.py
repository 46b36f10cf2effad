"""How the program ends without an optimum."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from scipy import optimize

import isonomy as iso
from isonomy.numerics.status import Status
from isonomy.projection.program import solve as program
from isonomy.projection.program.solve import (
    Constraint,
    LeastChange,
    SingleRows,
    SortedRows,
    dual_value,
    fractions,
    solve,
)
from support.movement import listed

LIMIT, INFEASIBLE, UNBOUNDED, NUMERICAL = 1, 2, 3, 4  # of scipy's linprog


def two_moments() -> LeastChange:
    rng = np.random.default_rng(0)
    vectors, group = rng.normal(size=(5, 2)), rng.integers(0, 5, 300)
    moment = -vectors[group][:40].sum(axis=0)
    rows = SortedRows(rng.exponential(size=300), group, 5)
    return solve(rows, Constraint(vectors, moment, np.zeros(2), np.zeros(2)))


def say(monkeypatch: pytest.MonkeyPatch, status: int, *, presolved_only: bool = False) -> None:
    """Make the solver end with ``status``; with ``presolved_only``, only while it presolves."""
    real: Any = optimize.linprog

    def linprog(*arguments: Any, options: dict[str, Any], **more: Any) -> Any:
        if presolved_only and not options["presolve"]:
            return real(*arguments, options=options, **more)
        return SimpleNamespace(status=status, x=None, message="made up")

    monkeypatch.setattr(optimize, "linprog", linprog)


@pytest.mark.parametrize("status", [LIMIT, UNBOUNDED, NUMERICAL])
def test_a_solver_that_gives_up_has_not_shown_infeasibility(status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    say(monkeypatch, status)
    result = two_moments()
    assert result.status is Status.NOT_CONVERGED
    assert np.isnan(result.value)
    assert np.isnan(result.moved).all()


def test_infeasible_is_what_the_solver_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    say(monkeypatch, INFEASIBLE)
    result = two_moments()
    assert result.status is Status.INFEASIBLE
    assert result.value == np.inf


def test_what_presolve_cannot_tell_is_solved_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = two_moments()
    assert expected.status is Status.OK
    say(monkeypatch, NUMERICAL, presolved_only=True)
    result = two_moments()
    assert result.status is Status.OK
    assert result.value == pytest.approx(expected.value, rel=1e-12)


def test_the_limit_of_rounds_gives_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "ROUNDS", 1)
    result = two_moments()
    assert result.status is Status.NOT_CONVERGED
    assert np.isnan(result.value)


def test_the_result_of_a_solver_that_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    score, group = rng.normal(size=900), rng.choice(["a", "b", "c"], 900)
    data = {"g": group, "s": score, "c": score >= 0.1}
    say(monkeypatch, LIMIT)
    result = iso.project(data, prediction="c", groups="g", score="s", threshold=0.1, criterion="statistical_parity")
    assert result.test_status is Status.NOT_CONVERGED
    assert np.isnan(result.statistic)
    assert np.isnan(result.critical_value)
    assert np.isnan(result.share_moved).all()
    assert result.pvalue == result.wald_pvalue
    assert listed(result).row.size == 0
    text = result.summary()
    assert "solver stopped" in text
    assert "infeasible" not in text
    assert "No decision would have to change" not in text
    assert iso.from_json(result.to_json()).to_json() == result.to_json()
    result.plot()


def free_moves(seed: int) -> tuple[Any, Constraint, Any]:
    """Three classes with rows on the boundary, whose vectors and opposites can cancel."""
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(3, 2))
    vectors = np.vstack([vectors, -vectors, 2 * vectors])
    group = rng.integers(0, 9, 900)
    distance = np.where(rng.random(900) < 0.2, 0.0, rng.exponential(size=900))
    moment = -vectors[group[:60]].sum(axis=0)
    return SortedRows(distance, group, 9), Constraint(vectors, moment, np.zeros(2), np.zeros(2)), (distance, group)


@pytest.mark.parametrize("seed", range(5))
def test_the_fewest_rows_move_among_plans_that_cost_the_same(seed: int) -> None:
    pool, c, (distance, group) = free_moves(seed)
    result = solve(pool, c)
    columns, linprog = c.vectors[group].T, cast(Any, optimize.linprog)
    best = linprog(distance, A_eq=columns, b_eq=-c.moment, bounds=(0, 1), method="highs")
    assert result.value == pytest.approx(best.fun, rel=1e-9, abs=1e-12)
    fewest = linprog(
        np.ones(900),
        A_eq=columns,
        b_eq=-c.moment,
        A_ub=distance[None],
        b_ub=[best.fun * (1 + 1e-9) + 1e-9],
        bounds=(0, 1),
        method="highs",
    )
    assert result.moved.sum() == pytest.approx(fewest.fun, rel=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_nothing_moves_where_the_constraints_hold(seed: int) -> None:
    """One row in ten is on the boundary and could move for free; differences are already within the tolerance."""
    rng = np.random.default_rng(seed)
    score, group = rng.normal(size=2_000), rng.choice(["a", "b", "c"], 2_000)
    distance = np.where(rng.random(2_000) < 0.1, 0.0, np.abs(score))
    data = {"g": group, "d": distance, "c": (score >= 0).astype(int)}
    result = iso.project(
        data, prediction="c", groups="g", distance="d", criterion="statistical_parity", tolerance=0.2, rng=1
    )
    assert np.abs(result.disparity).max() < 0.2
    assert result.statistic == 0.0
    assert result.moved == 0.0
    assert listed(result).row.size == 0


def test_one_moment_takes_the_rows_that_change_most_among_equal_prices() -> None:
    distance, group = np.zeros(20), np.repeat([0, 1], 10)
    c = Constraint(np.array([[1.0], [3.0]]), np.array([-9.0]), np.zeros(1), np.zeros(1))
    result = solve(SingleRows(distance, group), c)
    assert result.moved.tolist() == [0.0, 3.0]


@pytest.mark.parametrize("scale", [1e-9, 1e-6, 1e6, 1e9])
def test_costs_of_very_different_size(scale: float) -> None:
    """One class has a billion times the price of another; the cost of the plan still equals the dual function."""
    rng = np.random.default_rng(3)
    vectors, group = rng.normal(size=(6, 3)), rng.integers(0, 6, 2_000)
    distance = rng.exponential(size=2_000) * np.where(group == 0, scale, 1.0) * np.where(group == 1, scale, 1.0)
    moment = -vectors[group][:200].sum(axis=0)
    c = Constraint(vectors, moment, np.zeros(3), np.zeros(3))
    result = solve(SortedRows(distance, group, 6), c)
    assert result.status is Status.OK
    assert dual_value(result.dual, SingleRows(distance, group).coarse, c) == pytest.approx(result.value, rel=1e-9)
    share = fractions(distance, group, result.moved)
    assert share @ distance == pytest.approx(result.value, rel=1e-9)
    assert np.abs(moment + vectors[group].T @ share).max() <= 1e-9 * np.abs(moment).max()


def test_light_rows_are_not_taken_for_whole_ones() -> None:
    """A thousand rows of weight 0.01 count as ten, so more rows are needed than with whole rows."""
    rng = np.random.default_rng(0)
    distance, group, weight = rng.random(1_000), np.zeros(1_000, dtype=np.intp), np.full(1_000, 0.01)
    constraint = Constraint(np.array([[1.0]]), np.array([-4.0]), np.zeros(1), np.zeros(1))
    solution = solve(SingleRows(distance, group, weight), constraint)
    assert solution.value == pytest.approx(0.01 * np.sort(distance)[:400].sum(), rel=1e-9)
    share = fractions(distance, group, solution.moved, weight)
    assert share @ weight == pytest.approx(4.0)
