"""Selection rules: named ones, scikit-learn, fairlearn, cutoffs by group, a list of rules, any callable."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

import isonomy as iso
from isonomy.alternatives import MILPRule, ReductionsRule, ThresholdsRule, Training
from isonomy.alternatives.rules.algorithm import stratified
from isonomy.alternatives.rules.named import EstimatorRule, selection_rule
from isonomy.errors import RuleFailed, UnknownOption, UsageError
from support.tables import programme
from support.trials import unfairness


@pytest.mark.parametrize("rule", ["linear", "lasso", RandomForestRegressor(n_estimators=5, max_depth=3)])
@pytest.mark.parametrize("group_aware", [False, True])
def test_regressors(data: dict[str, Any], fit: dict[str, Any], rule: Any, group_aware: bool) -> None:
    result = iso.improvability(data, **fit, rule=iso.group_aware(rule) if group_aware else rule)
    assert (abs(result.selected - 0.1) < 0.04).all()
    assert result.rule in ("linear", "lasso", "RandomForestRegressor")
    assert result.cutoffs is not None
    assert (result.cutoffs[:, 0] > 0).all()


def test_random_forest_as_in_the_paper() -> None:
    rule, name = selection_rule("random_forest", features=["x"])
    assert name == "random_forest"
    assert isinstance(rule, EstimatorRule)
    assert isinstance(rule.estimator, RandomForestRegressor)
    assert rule.estimator.n_estimators == 300


@pytest.mark.parametrize("rule", [LogisticRegression(), LinearSVC()])
def test_classifiers_with_capacity_and_without(data: dict[str, Any], fit: dict[str, Any], rule: Any) -> None:
    fit |= {"outcome": "sick", "accuracy": "accuracy", "status_quo": "decision"}
    scored = iso.improvability(data, **fit, rule=rule)
    assert (abs(scored.selected - 0.1) < 0.04).all()
    decided = iso.improvability(data, **(fit | {"capacity": None}), rule=rule)
    assert decided.cutoffs is not None
    assert np.isnan(decided.cutoffs).all()
    assert (decided.selected > 0.2).all()


@pytest.mark.filterwarnings("ignore")  # fairlearn and the newest pandas
def test_reductions(data: dict[str, Any], fit: dict[str, Any]) -> None:
    pytest.importorskip("fairlearn")
    small = {name: column[:600] for name, column in data.items()}
    fit |= {"outcome": "sick", "accuracy": "accuracy", "fairness": "selection_rate", "status_quo": "decision"}
    fit |= {"capacity": None, "method": iso.splits(1, resamples=100)}
    result = iso.improvability(small, **fit, rule=ReductionsRule(max_iter=3))
    assert result.rule == "reductions"
    with pytest.raises(UnknownOption, match=r"equalised_odds.*Did you mean 'equalized_odds'"):
        ReductionsRule(constraint="equalised_odds")  # type: ignore[arg-type]


def constant(training: Training) -> Any:
    """Select everybody with a positive x1, regardless of the training part."""
    return lambda people: (people.features["x1"] > 0).astype(float)


def test_callable_rule(data: dict[str, Any], fit: dict[str, Any]) -> None:
    result = iso.improvability(data, **fit, rule=constant)
    assert result.rule == "constant"
    assert (abs(result.selected - 0.5) < 0.05).all()


@pytest.fixture
def shifted() -> dict[str, Any]:
    """A score that is equally good in both groups but shifted in one: cutoffs by group equalize selection rates."""
    rng = np.random.default_rng(0)
    n = 3_000
    group, need = rng.integers(0, 2, n), rng.normal(size=n)
    y = (need + rng.normal(size=n) > 0).astype(int)
    return {"g": group, "y": y, "score": need - 0.8 * group}


ASK: dict[str, Any] = {
    "outcome": "y",
    "groups": "g",
    "status_quo": "score",
    "features": ["score"],
    "accuracy": {"utility": "accuracy", "weights": "pooled"},
    "fairness": "selection_rate",
    "capacity": 0.3,
    "rule": "group_thresholds",
    "method": iso.crossfit(repeats=1),
    "rng": 1,
}


def test_cutoffs_by_group_make_selection_equal(shifted: dict[str, Any]) -> None:
    result = iso.improvability(shifted, **ASK)
    assert result.reject
    assert unfairness(result)[0, 0, 0] < 0.25 * unfairness(result)[0, 0, 1]
    assert [result.selected[0], result.selected_status_quo[0]] == pytest.approx([0.3, 0.3], abs=1e-12)
    best = result.recommended
    assert best is not None
    decided = best.decide(shifted)
    rates = [decided[shifted["g"] == g].mean() for g in (0, 1)]
    assert abs(rates[0] - rates[1]) < 0.1
    assert decided.mean() == pytest.approx(0.3, abs=0.02)


def test_a_threshold_is_moved_too(shifted: dict[str, Any]) -> None:
    result = iso.improvability(shifted, **(ASK | {"capacity": iso.above(0.0)}))
    assert unfairness(result)[0, 0, 0] < 0.5 * unfairness(result)[0, 0, 1]


def test_it_needs_a_score(shifted: dict[str, Any]) -> None:
    decided = shifted | {"score": (shifted["score"] > 0).astype(int)}
    with pytest.raises(RuleFailed, match="give a capacity"):
        iso.improvability(decided, **(ASK | {"capacity": None}))


def test_any_score(shifted: dict[str, Any]) -> None:
    from sklearn.linear_model import LogisticRegression

    rule = ThresholdsRule(EstimatorRule(LogisticRegression()))
    assert iso.improvability(shifted, **(ASK | {"rule": rule})).rule == "group_thresholds"


def good(training: Training) -> Any:
    return lambda people: people.features["lab"]


def useless(training: Training) -> Any:
    return lambda people: np.sin(1e6 * people.features["x1"])


def broken(training: Training) -> Any:
    raise ValueError("no")


def test_the_better_rule_is_chosen_in_every_fold(data: dict[str, Any], crossfit: dict[str, Any]) -> None:
    result = iso.improvability(data, **crossfit, rule=[useless, broken, good])
    assert result.rule == "useless or broken or good"
    assert result.details[0] == {"chose good": 1.0}
    assert "In 5 of 5 fits: rule 'broken' failed: ValueError: no, so it was not chosen." in result.warnings
    alone = iso.improvability(data, **crossfit, rule=good)
    assert result.pvalue == pytest.approx(alone.pvalue, rel=0.5)


def test_folds_that_choose_scores_of_different_units_recommend_one_cutoff(
    data: dict[str, Any], crossfit: dict[str, Any]
) -> None:
    calls: list[int] = []

    def sometimes(training: Training) -> Any:
        calls.append(len(calls))
        if len(calls) % 3 == 0:
            raise ValueError("not now")
        return good(training)

    def in_thousandths(training: Training) -> Any:
        return lambda people: 5_000 + 1_000 * people.features["lab"]

    result = iso.improvability(data, **crossfit, rule=[sometimes, in_thousandths])
    assert len(result.details[0]) == 2  # both were chosen
    assert result.recommended is not None
    assert result.recommended.decide(programme(4_000, seed=9)).mean() == pytest.approx(0.1, abs=0.025)


def test_lists(data: dict[str, Any], crossfit: dict[str, Any]) -> None:
    assert iso.improvability(data, **crossfit, rule=["linear"]).rule == "linear"
    with pytest.raises(UsageError, match="rule: \\[\\] is not allowed"):
        iso.improvability(data, **crossfit, rule=[])
    with pytest.raises(RuleFailed, match="fold 1"):
        iso.improvability(data, **crossfit, rule=[broken, broken])


def test_every_stratum_is_in_the_first_part(data: dict[str, Any], crossfit: dict[str, Any]) -> None:
    parts: list[Training] = []

    def rule(training: Training) -> Any:
        parts.append(training)
        return good(training)

    iso.improvability(data, **crossfit, rule=rule)
    learn, check = stratified(parts[0], 0.01)
    assert len(learn) + len(check) == len(parts[0].outcome)
    assert not set(learn) & set(check)
    chosen = parts[0].take(learn)
    assert len({(g, d) for g, d in zip(chosen.people.group, chosen.status_quo > 0.5, strict=True)}) == 4


def test_group_aware_reaches_rule_objects_and_refuses_rules_of_ones_own() -> None:
    for given in (ReductionsRule(), MILPRule(), EstimatorRule(LogisticRegression())):
        rule, _ = selection_rule(iso.group_aware(given), features=["x"])
        assert getattr(rule, "group_aware", None) is True
    with pytest.raises(UsageError, match=r"training\.people\.group"):
        selection_rule(iso.group_aware(lambda training: None), features=["x"])
