"""How the program ends when there is no optimum to report."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import optimize

import isonomy as iso
from isonomy.numerics.status import Status
from isonomy.transport import program
from isonomy.transport.program import Constraint, Solution, SortedRows, solve

LIMIT, INFEASIBLE, UNBOUNDED, NUMERICAL = 1, 2, 3, 4  # of scipy's linprog


def two_moments() -> Solution:
    rng = np.random.default_rng(0)
    vectors, group = rng.normal(size=(5, 2)), rng.integers(0, 5, 300)
    moment = -vectors[group][:40].sum(axis=0)
    rows = SortedRows(rng.exponential(size=300), group, 5)
    return solve(rows, Constraint(vectors, moment, np.zeros(2), np.zeros(2)))


def say(monkeypatch: pytest.MonkeyPatch, status: int, *, presolved_only: bool = False) -> None:
    """Let the solver end with ``status``; with ``presolved_only``, only as long as it presolves."""
    real = optimize.linprog

    def linprog(*arguments: Any, options: dict[str, Any], **more: Any) -> Any:
        if presolved_only and not options["presolve"]:
            return real(*arguments, options=options, **more)
        return optimize.OptimizeResult(status=status, x=None, message="made up")

    monkeypatch.setattr(optimize, "linprog", linprog)


@pytest.mark.parametrize("status", [LIMIT, UNBOUNDED, NUMERICAL])
def test_a_solver_that_gives_up_has_not_shown_infeasibility(status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    say(monkeypatch, status)
    found = two_moments()
    assert found.status is Status.NOT_CONVERGED
    assert np.isnan(found.value)
    assert np.isnan(found.moved).all()


def test_infeasible_is_what_the_solver_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    say(monkeypatch, INFEASIBLE)
    found = two_moments()
    assert found.status is Status.INFEASIBLE
    assert found.value == np.inf


def test_what_presolve_cannot_tell_is_solved_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = two_moments()
    assert expected.status is Status.OK
    say(monkeypatch, NUMERICAL, presolved_only=True)
    found = two_moments()
    assert found.status is Status.OK
    assert found.value == pytest.approx(expected.value, rel=1e-12)


def test_the_limit_of_rounds_gives_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    assert two_moments().rounds > 1
    monkeypatch.setattr(program, "ROUNDS", 1)
    found = two_moments()
    assert found.status is Status.NOT_CONVERGED
    assert np.isnan(found.value)


def test_the_result_of_a_solver_that_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    score, group = rng.normal(size=900), rng.choice(["a", "b", "c"], 900)
    data = {"g": group, "s": score, "c": score >= 0.1}
    say(monkeypatch, LIMIT)
    found = iso.project(data, prediction="c", groups="g", score="s", threshold=0.1, criterion="statistical_parity")
    assert found.status is Status.NOT_CONVERGED
    assert np.isnan(found.statistic)
    assert np.isnan(found.critical_value)
    assert np.isnan(found.share_moved).all()
    assert found.pvalue == found.wald_pvalue
    assert found.plan.row.size == 0
    said = found.summary()
    assert "solver stopped" in said
    assert "infeasible" not in said
    assert "No decision would have to change" not in said
    assert iso.from_json(found.to_json()).to_json() == found.to_json()
    found.plot()
