"""What is refused before a row is read, what is settled once the groups are known, and what an audit is told."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import isonomy as iso
from isonomy.alternatives import PAPER
from isonomy.alternatives.api import improvability
from isonomy.alternatives.plan import Plan, idle_roles, plan
from isonomy.errors import NotBinary, UnknownColumn, UnknownOption, UsageError, WrongType
from isonomy.frames import Group, Source, open_source
from isonomy.results.call import QUESTIONS, READING


def planned(source: Source, options: dict[str, Any]) -> Plan:
    asked = QUESTIONS["improvability"].planned(source, options)
    assert isinstance(asked, Plan)
    return asked


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"capacity": 0.0}, UsageError, "capacity"),
        ({"capacity": 1.0}, UsageError, "capacity"),
        ({"capacity": 1.2}, UsageError, "capacity"),
        ({"capacity": -0.1}, UsageError, "capacity"),
        ({"threshold": 1.0}, UsageError, "one of them"),
        ({"alpha": 0}, UsageError, "alpha"),
        ({"train_fraction": 1}, UsageError, "train_fraction"),
        ({"splits": 0}, UsageError, "splits"),
        ({"splits": 2.5}, UsageError, "splits"),
        ({"splits": True}, UsageError, "splits"),
        ({"threshold": float("inf"), "capacity": None}, UsageError, "threshold"),
        ({"accuracy_gain": {"Black": float("nan"), "White": 0.0}}, UsageError, "accuracy_gain"),
        ({"scale": "rato"}, UnknownOption, "scale: 'rato' is not allowed. Did you mean 'ratio'"),
        ({"resamples": 0}, UsageError, "resamples"),
        ({"min_size": 0}, UsageError, "min_size"),
        ({"n_jobs": 0}, UsageError, "n_jobs"),
        ({"scale": "log"}, UnknownOption, "scale"),
        ({"pvalue_form": "exact"}, UnknownOption, "pvalue_form"),
        ({"fairness_test": "wald"}, UnknownOption, "fairness_test"),
        ({"accuracy_gain": float("nan")}, UsageError, "accuracy_gain"),
        ({"accuracy_gain": -1.0}, UsageError, "accuracy_gain"),
        ({"accuracy_gain": {"Black": 0.1}}, UsageError, "nothing given for race=White"),
        ({"accuracy_gain": {"Martian": 0.1}}, UnknownOption, "race=Black"),
        ({"accuracy_gain": {"Black": 0.1, "White": 0}, "accuracy_weights": "pooled"}, UsageError, "one number"),
        ({"margin": 1.0}, UsageError, "margin: 1; a loss of everything"),
        ({"candidate": "need"}, UsageError, "candidate: 'need' is an outcome"),
        ({"status_quo": "need"}, UsageError, "status_quo: 'need' is an outcome"),
        (
            {"candidate": None, "rule": "linear", "features": ["x1", "need"]},
            UsageError,
            "features: 'need' is an outcome",
        ),
        ({"fairness_gain": 1.0}, UsageError, "fairness_gain"),
        ({"fairness_gain": {"tpr": 0.1}}, UsageError, "fairness_gain"),
        ({"accuracy_weights": "mean"}, UnknownOption, "pooled"),
        ({"accuracy_weights": {"Black": -1, "White": 1}}, UsageError, "above 0"),
        ({"protected": "Martian"}, UnknownOption, "protected"),
        ({"protected": "Black", "disadvantage": "worse"}, UnknownOption, "disadvantage"),
        ({"outcome": "ned"}, UnknownColumn, "need"),
        ({"status_quo": "nope"}, UnknownColumn, "status_quo"),
        ({"candidate": "nope"}, UnknownColumn, "candidate"),
        ({"status_quo": "race"}, WrongType, "status_quo"),
        ({"groups": "nope"}, UnknownColumn, "groups"),
        ({"accuracy": "tpr"}, NotBinary, "need"),
        ({"accuracy": "fpr"}, UsageError, "tnr"),
        ({"accuracy": {"utility": "selection_rate", "outcome": "nope"}}, UnknownColumn, "nope"),
    ],
)
def test_refused(
    data: dict[str, Any], ask: dict[str, Any], change: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        iso.improvability(data, **(ask | change))


def test_options_that_nothing_looks_at_are_refused(data: dict[str, Any], ask: dict[str, Any]) -> None:
    unused: dict[str, Any] = {"features": ["need_score"], "group_aware": True, "disadvantage": "lower"}
    for name, value in unused.items():
        with pytest.raises(UsageError, match=f"^{name}: "):
            iso.improvability(data, **(ask | {name: value}))


def test_a_plan_takes_the_options_of_the_call_and_has_no_defaults_of_its_own() -> None:
    """An audit fills in the defaults of the call; a second set of them could differ."""
    asked, called = (inspect.signature(function).parameters for function in (plan, improvability))
    assert set(asked) - {"source"} == set(called) - {"data", "rng", *READING}
    assert all(parameter.default is parameter.empty for parameter in asked.values())


def test_only_a_test_that_fits_nothing_begins_with_a_grouped_pass(data: dict[str, Any], ask: dict[str, Any]) -> None:
    source = open_source(data)
    del ask["rng"]
    (request,) = planned(source, ask).requests
    assert list(request.keys) == ["outcome value", "status_quo value", "candidate[need_score] value"]
    assert planned(source, ask | {"candidate": None, "rule": "linear", "features": "x1"}).requests == ()


def test_a_ready_candidate_needs_no_features() -> None:
    assert idle_roles({"candidate": "better"}) == {"features"}
    assert idle_roles({"rule": "lasso", "candidate": None}) == set()


def test_what_is_said_of_groups_is_settled_in_their_order(data: dict[str, Any], ask: dict[str, Any]) -> None:
    groups = [Group.of({"race": race}) for race in ("Black", "White")]
    del ask["rng"]
    gains = {"accuracy_gain": {"White": 0.2, "race=Black": 0.1}, "protected": {"race": "White"}}
    asked = planned(open_source(data), ask | gains)
    criteria = asked.settle(groups)
    assert criteria.accuracy_gains == (0.1, 0.2)
    assert criteria.protected == 1
    assert criteria.pairs == ((0, 1),)
    assert asked.training_share(criteria) == 0.5
    one = planned(open_source(data), ask | {"splits": 1, "capacity": None, "threshold": 1.0})
    assert one.training_share(one.settle(groups)) == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"splits": 3, "evidence": "whole"}, "splits: nothing looks at it"),
        ({"resamples": 30}, r"resamples: .*evidence=\"paper\""),
        ({"folds": 3}, r"folds: .*\"crossfit\""),
        ({"train_fraction": 0.4}, r"train_fraction: .*\"splits\" or \"paper\""),
        ({"fairness_test": "paper"}, "fairness_test"),
        ({"pvalue_form": "paper"}, "pvalue_form"),
        ({"evidence": "crossfit"}, "nothing is fitted"),
        ({"candidate": ["need_score", "lab"], "splits": 3}, "several are tested on all rows"),
        ({"candidate": ["lab", "lab"]}, "twice"),
        ({"candidate": {"g": None}}, "None is no column"),
        ({"candidate": ["lab", 3]}, "3 is no column"),
        ({"candidate": []}, "none given"),
        ({"candidate": None, "rule": "linear", "features": ["x1"], "evidence": "whole"}, "evidence"),
        ({"margin": 0.01, "accuracy_gain": 0.1}, "margin, accuracy_gain"),
        ({"margin": -0.1}, "margin"),
        ({"folds": 1, "candidate": None, "rule": "linear", "features": ["x1"]}, "folds"),
    ],
)
def test_what_goes_with_which_evidence(
    data: dict[str, Any], ready: dict[str, Any], change: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        iso.improvability(data, **(ready | change))


def test_the_papers_procedure_has_a_name(data: dict[str, Any], ready: dict[str, Any]) -> None:
    result = iso.improvability(data, **ready, **PAPER, splits=3, resamples=100)
    assert result.evidence == "paper"
    assert result.pvalue == min(1, 2 * result.median_pvalue)
    merged = iso.improvability(data, **ready, splits=3)
    assert merged.evidence == "splits"
    assert merged.pvalue <= min(1, 2 * merged.median_pvalue)


def test_utilities_have_the_readers_words() -> None:
    table = iso.simulate.lender(2_000, seed=1).frame()
    words = iso.Labels(metrics={"tpr": "approval rate of those who repay"})
    result = iso.improvability(
        iso.open_source(table, labels=words),
        outcome="repaid",
        groups="race",
        status_quo="approved",
        candidate="candidate_approved",
        fairness="tpr",
        rng=1,
    )
    assert "approval rate of those who repay" in result.summary()
    assert "true positive rate" not in result.summary()
