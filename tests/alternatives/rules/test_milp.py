"""The rule that searches linear classifiers; its programs against brute force over every pattern of decisions."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog

import isonomy as iso
from isonomy.alternatives import MILPRule
from isonomy.alternatives.rules.milp import MARGIN, DecisionValues, Objective, search
from isonomy.errors import RuleFailed, UnknownOption, UsageError
from isonomy.numerics.arrays import FloatArray


def test_milp_rule(data: dict[str, Any], fit: dict[str, Any]) -> None:
    fit |= {
        "outcome": "sick",
        "accuracy": "accuracy",
        "capacity": None,
        "status_quo": "decision",
        "method": iso.splits(1, resamples=100),
    }
    result = iso.improvability(data, **fit, rule=MILPRule(sample=24, time_limit=5))
    assert result.rule == "milp"
    assert {"value", "bound", "gap"} <= set(result.details[0])
    assert "rule gap" in result.to_frame().columns


def test_milp_rule_calibration(data: dict[str, Any], fit: dict[str, Any]) -> None:
    result = iso.improvability(
        data,
        **(fit | {"method": iso.splits(1, resamples=100), "capacity": 0.3}),
        rule=MILPRule(sample=16, time_limit=5),
    )
    assert result.status[0] in ("ok", "infeasible", "time_limit")


def test_milp_rule_refuses(data: dict[str, Any], fit: dict[str, Any]) -> None:
    with pytest.raises(RuleFailed, match=r"round 1: rule 'milp'.*price"):
        iso.improvability(data, **(fit | {"capacity": None}), accuracy="profit", rule="milp")
    with pytest.raises(UsageError, match="group"):
        MILPRule(objective="accuracy")
    with pytest.raises(UsageError, match="tolerance"):
        MILPRule(margin=1e-9)
    with pytest.raises(UnknownOption):
        MILPRule(objective="profit")  # type: ignore[arg-type]
    fit |= {"outcome": "sick", "accuracy": "accuracy", "capacity": None, "status_quo": "decision"}
    with pytest.raises(RuleFailed, match="Martian"):
        iso.improvability(data, **fit, rule=MILPRule(objective="accuracy", group="race=Martian", sample=20))


def instance(seed: int, utility: str) -> dict[str, Any]:
    """A small training part: at most 12 people, two features, and a status quo that selects some of both groups."""
    rng = np.random.default_rng(seed)
    while True:
        m = int(rng.integers(7, 13))
        x, group = rng.normal(size=(m, 2)), rng.integers(0, 2, m)
        d0 = rng.integers(0, 2, m).astype(float)
        need = x[:, 0] + 0.5 * group + rng.normal(size=m)
        y = (need > 0).astype(float) if utility == "accuracy" else np.round(4 + 2 * need)
        if all((d0[group == g] == 1).any() and (d0[group == g] == 0).any() for g in (0, 1)):
            break
    part = {"x": x, "y": y, "group": group, "utility": utility, "d0": d0}
    return part | {"capacity": 0.5 if utility == "outcome_among_selected" else None}


def utilities(given: dict[str, Any], d: FloatArray) -> list[float] | None:
    """Utility of each group for decisions ``d``, by definition; None if one is undefined."""
    y, group = given["y"], given["group"]
    if given["utility"] == "accuracy":
        return [float(np.mean(y[group == g] == d[group == g])) for g in (0, 1)]
    if any(d[group == g].sum() == 0 for g in (0, 1)):
        return None
    return [float(y[(group == g) & (d == 1)].mean()) for g in (0, 1)]


def separable(x: FloatArray, d: FloatArray) -> bool:
    """Whether some b in the box has x'b >= 0 where d = 1 and x'b <= -margin elsewhere, by a separate program."""
    low, high = x.min(axis=0), x.max(axis=0)
    scaled = np.column_stack([np.ones(len(x)), (x - (low + high) / 2) / ((high - low) / 2)])
    margin = MARGIN * np.abs(scaled).sum(axis=1).max()
    rows = np.where(d[:, None] == 1, -scaled, scaled)
    answer = linprog(np.zeros(3), A_ub=rows, b_ub=np.where(d == 1, 0.0, -margin), bounds=[(-1, 1)] * 3)
    return bool(answer.status == 0)


def brute_force(given: dict[str, Any], objective: Objective) -> float | None:
    """The optimum over all patterns, best first, so that few have to be checked for separability."""
    base = utilities(given, given["d0"])
    assert base is not None
    size = len(given["y"])
    ranked = []
    for pattern in product((0.0, 1.0), repeat=size):
        d = np.array(pattern)
        if given["capacity"] is not None and d.sum() != round(given["capacity"] * size):
            continue
        u = utilities(given, d)
        if u is None or u[1] < base[1] - 1e-9 or (objective == "fairness" and u[0] < base[0] - 1e-9):
            continue
        gap = abs(u[0] - u[1])
        if objective == "accuracy" and gap > abs(base[0] - base[1]) + 1e-9:
            continue
        ranked.append((gap if objective == "fairness" else -u[0], pattern))
    for cost, pattern in sorted(ranked):
        if separable(given["x"], np.array(pattern)):
            return abs(cost) if objective == "fairness" else -cost
    return None


def solve(given: dict[str, Any], objective: Objective) -> Any:
    status_quo = utilities(given, given["d0"])
    assert status_quo is not None
    worth = worth_of(given["y"], given["utility"])
    return search(
        given["x"],
        given["group"],
        worth,
        [worth],
        required=status_quo,
        largest_gaps=[abs(status_quo[0] - status_quo[1])],
        objective=objective,
        target=0,
        capacity=given["capacity"],
        time_limit=30,
    )


def worth_of(y: FloatArray, utility: str) -> DecisionValues:
    """A utility for the decisions 0 and 1, by definition."""
    if utility == "accuracy":
        return DecisionValues(np.column_stack([y == 0, y == 1]).astype(float), np.ones((len(y), 2)))
    if utility == "selection_rate":
        return DecisionValues(np.column_stack([0 * y, 1 + 0 * y]), np.ones((len(y), 2)))
    return DecisionValues(np.column_stack([0 * y, y]), np.column_stack([0 * y, 1 + 0 * y]))


def check(seed: int, utility: str, objective: Objective) -> None:
    given = instance(seed, utility)
    expected, (coefficients, decisions, details, status) = brute_force(given, objective), solve(given, objective)
    if expected is None:
        assert status == "infeasible"
        return
    assert status == "ok"
    assert details["value"] == pytest.approx(expected, abs=1e-6)
    assert details["gap"] == pytest.approx(0, abs=1e-4)
    # The classifier itself, on the original features, makes the program's decisions.
    scores = coefficients[0] + given["x"] @ coefficients[1:]
    np.testing.assert_array_equal(scores >= 0, decisions == 1)
    reached = utilities(given, decisions)
    assert reached is not None
    assert (abs(reached[0] - reached[1]) if objective == "fairness" else reached[0]) == pytest.approx(
        details["value"], abs=1e-6
    )


PROGRAMS = [("accuracy", "fairness"), ("accuracy", "accuracy"), ("outcome_among_selected", "fairness")]


@pytest.mark.parametrize(("utility", "objective"), [*PROGRAMS, ("outcome_among_selected", "accuracy")])
@pytest.mark.parametrize("seed", range(3))
def test_equal_to_brute_force(seed: int, utility: str, objective: Objective) -> None:
    """F.5, F.6, and P' (whose optimum is that of P by proposition F.1; the brute force is over P)."""
    check(seed, utility, objective)


@pytest.mark.validity
@pytest.mark.parametrize(("utility", "objective"), PROGRAMS)
def test_equal_to_brute_force_a_hundred_times(utility: str, objective: Objective) -> None:
    for seed in range(100):
        check(seed, utility, objective)


@pytest.mark.validity
@pytest.mark.parametrize(("objective", "seconds"), [("fairness", 60), ("accuracy", 60)])
def test_two_hundred_rows_five_features_have_a_certified_gap(objective: Objective, seconds: float) -> None:
    rng = np.random.default_rng(1)
    x, group = rng.normal(size=(200, 5)), rng.integers(0, 2, 200)
    y = (x[:, 0] + 0.5 * group + rng.normal(size=200) > 0).astype(float)
    d0 = (x[:, 1] + rng.normal(size=200) > 0).astype(float)
    base = [float(np.mean(y[group == g] == d0[group == g])) for g in (0, 1)]
    worth, gaps = worth_of(y, "accuracy"), [abs(base[0] - base[1])]
    coefficients, _, details, status = search(
        x,
        group,
        worth,
        [worth],
        required=base,
        largest_gaps=gaps,
        objective=objective,
        target=0,
        time_limit=seconds,
    )
    print(f"{objective}: {details}, {status}")
    assert coefficients is not None
    assert np.isfinite(details["gap"])
    assert status in ("ok", "time_limit")


def test_outcomes_below_zero() -> None:
    """Without the paper's constraint U >= 0, outcomes may be negative."""
    given = instance(0, "outcome_among_selected")
    lower = given | {"y": given["y"] - 20}
    assert solve(lower, "fairness")[2]["value"] == pytest.approx(solve(given, "fairness")[2]["value"], abs=1e-5)


def test_refused() -> None:
    given = instance(0, "outcome_among_selected")
    with pytest.raises(UsageError, match="capacity"):
        solve(given | {"capacity": None}, "fairness")
    with pytest.raises(UsageError, match="too few"):
        solve(given | {"capacity": 0.05}, "fairness")


@pytest.mark.parametrize("seed", range(3))
def test_the_fairness_asked_for_is_the_one_made_smallest(seed: int) -> None:
    """Accuracy may not fall while the gap of another utility is minimized: against every pattern of decisions."""
    given = instance(seed, "accuracy")
    base = utilities(given, given["d0"])
    assert base is not None
    other = worth_of(given["y"], "selection_rate")
    details = search(given["x"], given["group"], worth_of(given["y"], "accuracy"), [other], required=base)[2]
    members = [np.flatnonzero(given["group"] == g) for g in (0, 1)]
    ranked = []
    for pattern in product((0.0, 1.0), repeat=len(given["y"])):
        d = np.array(pattern)
        reached = utilities(given, d)
        if reached is not None and all(u >= b - 1e-9 for u, b in zip(reached, base, strict=True)):
            ranked.append((float(np.ptp([d[i].mean() for i in members])), pattern))
    expected = next((gap for gap, pattern in sorted(ranked) if separable(given["x"], np.array(pattern))), None)
    assert expected == pytest.approx(details["value"], abs=1e-6) if expected is not None else details["value"] != 0
