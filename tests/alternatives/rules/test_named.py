"""Selection rules: named, scikit-learn's, fairlearn's, any callable."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

import isonomy as iso
from isonomy.alternatives import RULES, ReductionsRule, Training
from isonomy.alternatives.rules.named import EstimatorRule, selection_rule
from isonomy.errors import MissingRole, UnknownOption, UsageError


@pytest.mark.parametrize("rule", ["linear", "lasso", RandomForestRegressor(n_estimators=5, max_depth=3)])
@pytest.mark.parametrize("group_aware", [False, True])
def test_regressors(data: dict[str, Any], fit: dict[str, Any], rule: Any, group_aware: bool) -> None:
    result = iso.improvability(data, **fit, rule=rule, group_aware=group_aware)
    assert (abs(result.selected[:, 0] - 0.1) < 0.04).all()
    assert result.rule in ("linear", "lasso", "RandomForestRegressor")
    assert result.cutoffs is not None
    assert (result.cutoffs[:, 0] > 0).all()


def test_random_forest_as_in_the_paper() -> None:
    rule, name = selection_rule("random_forest", group_aware=False, features=["x"])
    assert name == "random_forest"
    assert isinstance(rule, EstimatorRule)
    assert isinstance(rule.estimator, RandomForestRegressor)
    assert rule.estimator.n_estimators == 300


@pytest.mark.parametrize("rule", [LogisticRegression(), LinearSVC()])
def test_classifiers_with_capacity_and_without(data: dict[str, Any], fit: dict[str, Any], rule: Any) -> None:
    fit |= {"outcome": "sick", "accuracy": "accuracy", "status_quo": "decision"}
    scored = iso.improvability(data, **fit, rule=rule)
    assert (abs(scored.selected[:, 0] - 0.1) < 0.04).all()
    decided = iso.improvability(data, **(fit | {"capacity": None}), rule=rule)
    assert decided.cutoffs is not None
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
    with pytest.raises(UnknownOption, match=r"equalised_odds.*Did you mean 'equalized_odds'"):
        ReductionsRule(constraint="equalised_odds")  # type: ignore[arg-type]


def constant(training: Training) -> Any:
    """Everybody with a positive x1, whatever the training part says."""
    return lambda people: (people.features["x1"] > 0).astype(float)


def test_callable_rule(data: dict[str, Any], fit: dict[str, Any]) -> None:
    result = iso.improvability(data, **fit, rule=constant)
    assert result.rule == "constant"
    assert (abs(result.selected[:, 0] - 0.5) < 0.05).all()


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


def test_names_an_audit_may_give() -> None:
    assert RULES == ("linear", "lasso", "random_forest", "boosting", "group_thresholds", "milp", "reductions")
    assert [selection_rule(name, group_aware=False, features=["x"])[1] for name in RULES] == list(RULES)


def test_a_rule_of_ones_own_keeps_its_name() -> None:
    assert selection_rule(EstimatorRule(LogisticRegression()), group_aware=False, features=[])[1] == (
        "LogisticRegression"
    )
    assert selection_rule(constant, group_aware=False, features=[])[1] == "constant"
