"""Selection rules: named, scikit-learn's, fairlearn's, any callable."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

import isonomy as iso
from isonomy.alternatives import Algorithm, MILPRule, People, ReductionsRule, Training
from isonomy.errors import MissingRole, RuleFailed, UnknownOption, UsageError
from isonomy.results import Status


@pytest.fixture
def fit(ask: dict[str, Any]) -> dict[str, Any]:
    return ask | {"candidate": None, "features": ["x1", "x2"], "splits": 2, "resamples": 100}


@pytest.mark.parametrize("rule", ["linear", "lasso", RandomForestRegressor(n_estimators=5, max_depth=3)])
@pytest.mark.parametrize("group_aware", [False, True])
def test_regressors(data: dict[str, Any], fit: dict[str, Any], rule: Any, group_aware: bool) -> None:
    result = iso.improvability(data, **fit, rule=rule, group_aware=group_aware)
    assert (abs(result.selected[:, 0] - 0.1) < 0.04).all()
    assert result.rule in ("linear", "lasso", "RandomForestRegressor")
    assert (result.cutoffs[:, 0] > 0).all()


def test_random_forest_as_in_the_paper() -> None:
    from isonomy.alternatives.rules import selection_rule

    rule = selection_rule("random_forest", group_aware=False, features=["x"])
    assert rule.estimator.n_estimators == 300


@pytest.mark.parametrize("rule", [LogisticRegression(), LinearSVC()])
def test_classifiers_with_capacity_and_without(data: dict[str, Any], fit: dict[str, Any], rule: Any) -> None:
    fit |= {"outcome": "sick", "accuracy": "accuracy", "status_quo": "decision"}
    scored = iso.improvability(data, **fit, rule=rule)
    assert (abs(scored.selected[:, 0] - 0.1) < 0.04).all()
    decided = iso.improvability(data, **(fit | {"capacity": None}), rule=rule)
    assert np.isnan(decided.cutoffs).all()
    assert (decided.selected[:, 0] > 0.2).all()


@pytest.mark.filterwarnings("ignore")  # fairlearn and the newest pandas
def test_reductions(data: dict[str, Any], fit: dict[str, Any]) -> None:
    pytest.importorskip("fairlearn")
    small = {name: column[:600] for name, column in data.items()}
    fit |= {"outcome": "sick", "accuracy": "accuracy", "fairness": "selection_rate", "status_quo": "decision"}
    fit |= {"capacity": None, "splits": 1}
    result = iso.improvability(small, **fit, rule=ReductionsRule(max_iter=3))
    assert result.rule == "reductions"
    with pytest.raises(RuleFailed, match="equalised"):
        iso.improvability(small, **fit, rule=ReductionsRule(constraint="equalised_odds"))


def constant(training: Training) -> Any:
    """Everybody with a positive x1, whatever the training part says."""
    return lambda people: (people.features["x1"] > 0).astype(float)


def test_callable_rule(data: dict[str, Any], fit: dict[str, Any]) -> None:
    result = iso.improvability(data, **fit, rule=constant)
    assert result.rule == "constant"
    assert (abs(result.selected[:, 0] - 0.5) < 0.05).all()


def test_the_training_part_is_what_it_says(data: dict[str, Any], fit: dict[str, Any]) -> None:
    seen: list[Training] = []

    def rule(training: Training) -> Any:
        seen.append(training)
        return lambda people: people.features["x1"]

    iso.improvability(data, **fit, rule=rule)
    first = seen[0]
    assert len(first.people) == len(first.outcome) == len(first.status_quo) == 2000
    assert first.capacity == 0.1
    assert first.people.matrix().shape == (2000, 2)
    assert first.people.matrix(group_aware=True).shape == (2000, 3)
    assert set(np.unique(first.status_quo)) == {0.0, 1.0}


def test_a_rule_may_find_nothing(data: dict[str, Any], fit: dict[str, Any]) -> None:
    def rule(training: Training) -> Algorithm:
        return Algorithm(None, Status.INFEASIBLE, "none improves")

    result = iso.improvability(data, **fit, rule=rule)
    assert result.round_pvalues.tolist() == [1.0, 1.0]
    assert result.pvalue == 1.0
    assert set(result.status) == {"infeasible"}
    assert "none improves" in result.warnings[0]
    assert np.isnan(result.accuracy[..., 0]).all()
    assert not np.isnan(result.accuracy[..., 1]).any()
    assert (result.surface().median_pvalues == 1).all()
    assert iso.from_json(result.to_json()).summary() == result.summary()


def test_milp_rule(data: dict[str, Any], fit: dict[str, Any]) -> None:
    fit |= {"outcome": "sick", "accuracy": "accuracy", "capacity": None, "status_quo": "decision", "splits": 1}
    result = iso.improvability(data, **fit, rule=MILPRule(sample=24, time_limit=5))
    assert result.rule == "milp"
    assert {"value", "bound", "gap"} <= set(result.details[0])
    assert "rule gap" in result.to_frame().columns


def test_milp_rule_calibration(data: dict[str, Any], fit: dict[str, Any]) -> None:
    result = iso.improvability(data, **(fit | {"splits": 1, "capacity": 0.3}), rule=MILPRule(sample=16, time_limit=5))
    assert result.status[0] in ("ok", "infeasible", "time_limit")


def test_milp_rule_refuses(data: dict[str, Any], fit: dict[str, Any]) -> None:
    with pytest.raises(RuleFailed, match=r"round 1: rule 'milp'.*outcome_among_selected"):
        iso.improvability(data, **(fit | {"outcome": "sick"}), accuracy="tpr", rule="milp")
    with pytest.raises(UsageError, match="group"):
        MILPRule(objective="accuracy")
    with pytest.raises(UsageError, match="tolerance"):
        MILPRule(margin=1e-9)
    with pytest.raises(UnknownOption):
        MILPRule(objective="profit")
    fit |= {"outcome": "sick", "accuracy": "accuracy", "capacity": None, "status_quo": "decision"}
    with pytest.raises(RuleFailed, match="Martian"):
        iso.improvability(data, **fit, rule=MILPRule(objective="accuracy", group="race=Martian", sample=20))


def test_bad_rules(data: dict[str, Any], fit: dict[str, Any]) -> None:
    with pytest.raises(UnknownOption, match="lasso"):
        iso.improvability(data, **fit, rule="laso")
    with pytest.raises(UsageError, match="not its class"):
        iso.improvability(data, **fit, rule=RandomForestRegressor)
    with pytest.raises(UsageError):
        iso.improvability(data, **fit, rule=3)
    with pytest.raises(MissingRole, match="features"):
        iso.improvability(data, **(fit | {"features": None}), rule="linear")
    with pytest.raises(MissingRole, match="one of them"):
        iso.improvability(data, **fit)
    with pytest.raises(MissingRole, match="one of them"):
        iso.improvability(data, **(fit | {"candidate": "need_score"}), rule="linear")


def _raises(training: Training) -> Any:
    raise ZeroDivisionError("no luck")


def _nan(training: Training) -> Any:
    return lambda people: np.full(len(people), np.nan)


def _short(training: Training) -> Any:
    return lambda people: np.zeros(3)


def _text(training: Training) -> Any:
    return lambda people: np.array(["yes"] * len(people))


def _not_callable(training: Training) -> Any:
    return 3


def _decides_badly(training: Training) -> Any:
    def decide(people: People) -> Any:
        raise KeyError("x9")

    return decide


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (_raises, "no luck"),
        (_nan, "NaN"),
        (_short, r"shape \(3,\)"),
        (_text, "not numbers"),
        (_not_callable, "callable"),
        (_decides_badly, "x9"),
    ],
)
def test_failing_rules_name_the_rule_and_the_round(
    data: dict[str, Any], fit: dict[str, Any], rule: Any, message: str
) -> None:
    with pytest.raises(RuleFailed, match=rf"round 1: rule '{rule.__name__}'.*{message}"):
        iso.improvability(data, **fit, rule=rule)


def test_a_rule_that_fails_later_names_that_round(data: dict[str, Any], fit: dict[str, Any]) -> None:
    calls: list[int] = []

    def rule(training: Training) -> Any:
        calls.append(1)
        if len(calls) == 2:
            raise ValueError("second")
        return lambda people: people.features["x1"]

    with pytest.raises(RuleFailed, match="round 2"):
        iso.improvability(data, **fit, rule=rule)
