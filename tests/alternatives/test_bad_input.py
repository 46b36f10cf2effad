"""Bad input: what is said, and that it names the round."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isonomy as iso
from isonomy.errors import (
    DataError,
    MissingValues,
    NotBinary,
    NotEnoughData,
    OneGroup,
    UnknownColumn,
    UnknownOption,
    UsageError,
    WrongType,
)


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
        ({"capacity": None}, DataError, "round 1: status_quo.*capacity"),
        ({"capacity": None, "status_quo": "decision"}, DataError, "round 1: candidate.*threshold"),
    ],
)
def test_refused(
    data: dict[str, Any], ask: dict[str, Any], change: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        iso.improvability(data, **(ask | change))


def test_one_group(data: dict[str, Any], ask: dict[str, Any]) -> None:
    with pytest.raises(OneGroup, match="at least two"):
        iso.improvability(data | {"race": np.full(4000, "Black")}, **ask)
    with pytest.raises(OneGroup):
        iso.improvability(data, **(ask | {"groups": iso.where("Black people", iso.col("race") == "Black")}))


def test_perfectly_fair_status_quo(data: dict[str, Any], ask: dict[str, Any]) -> None:
    ask |= {"status_quo": "everyone", "accuracy": "selection_rate", "fairness": "selection_rate"}
    with pytest.raises(
        DataError, match=r"round 1: the status quo's unfairness in selection_rate is exactly 0.*excludes"
    ):
        iso.improvability(data | {"everyone": np.ones(4000)}, **ask)


def test_a_gap_that_is_zero_by_coincidence_is_no_error(data: dict[str, Any]) -> None:
    """Twelve people a group: some splits have equal rates, and a large p-value there."""
    ask = {"outcome": "y", "groups": "g", "status_quo": "d0", "candidate": "d1", "accuracy": "selection_rate"}
    d0, d1 = [1] * 6 + [0] * 6 + [1] * 4 + [0] * 8, [1, 0] * 12
    small = {"g": [0] * 12 + [1] * 12, "y": [0, 1] * 12, "d0": d0, "d1": d1}
    result = iso.improvability(small, **ask, min_size=2, splits=40, resamples=50, rng=1)
    zero = result.fairness[:, 0, 1] == 0
    assert zero.any()
    assert (result.round_pvalues[zero] > 0.3).all()


def test_nobody_of_a_group_is_selected(data: dict[str, Any], ask: dict[str, Any]) -> None:
    score = np.where(data["race"] == "Black", -100.0, data["need_score"])
    with pytest.raises(NotEnoughData, match=r"round 1: .*'race=Black' under the candidate"):
        iso.improvability(data | {"need_score": score}, **ask)


def test_too_few_rows_of_a_group(data: dict[str, Any], ask: dict[str, Any]) -> None:
    race = np.full(4000, "White")
    race[:7] = "Black"
    with pytest.raises(NotEnoughData, match=r"round 1: group 'race=Black' has .* rows in the .* part"):
        iso.improvability(data | {"race": race}, **ask)


def test_resamples_without_anybody_are_counted_and_reported(data: dict[str, Any], ask: dict[str, Any]) -> None:
    race = np.full(4000, "White")
    top = np.argsort(data["need_score"])[-300::30]
    race[top] = "Black"
    race[np.argsort(data["need_score"])[:30]] = "Black"
    score = data["need_score"] + data["group"]
    result = iso.improvability(data | {"race": race, "cost_score": score}, **(ask | {"min_size": 2, "rng": 3}))
    assert (result.undefined > 0).any()
    assert any("count as exceeding" in w for w in result.warnings)
    assert (result.accuracy[:, 0, 2] >= result.undefined / 301).all()


def test_ratios_need_positive_accuracy(data: dict[str, Any], ask: dict[str, Any]) -> None:
    below = data | {"need": data["need"] - 10.0}
    with pytest.raises(DataError, match=r"round 1: .*difference"):
        iso.improvability(below, **ask)
    assert iso.improvability(below, **ask, scale="difference").reject


def test_missing_values(data: dict[str, Any], ask: dict[str, Any]) -> None:
    need = data["need"].astype(float)
    need[:5] = np.nan
    with pytest.raises(MissingValues, match="5 rows"):
        iso.improvability(data | {"need": need}, **ask)
    result = iso.improvability(data | {"need": need}, **ask, missing="drop")
    assert result.provenance.dropped == {"need": 5}
    assert result.test_rows[0].sum() == 1998


def test_missing_features(data: dict[str, Any], ask: dict[str, Any]) -> None:
    x1 = data["x1"].copy()
    x1[0] = np.nan
    fit = ask | {"candidate": None, "rule": "linear", "features": ["x1"]}
    with pytest.raises(MissingValues, match="x1"):
        iso.improvability(data | {"x1": x1}, **fit)
    with pytest.raises(UnknownColumn, match="x9"):
        iso.improvability(data, **(fit | {"features": ["x9"]}))


def test_near_fair_status_quo_is_warned_about(data: dict[str, Any], ask: dict[str, Any]) -> None:
    result = iso.improvability(data, **(ask | {"status_quo": "need_score", "candidate": "cost_score"}))
    assert any("standard errors from zero" in w for w in result.warnings)


def test_unused_training_parts_are_pointed_out(data: dict[str, Any], ask: dict[str, Any]) -> None:
    ready = ask | {"status_quo": "decision", "candidate": "better", "capacity": None}
    assert any("splits=1" in w for w in iso.improvability(data, **ready).warnings)
