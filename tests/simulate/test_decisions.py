"""Rates of decisions against large samples and independent arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from isonomy import simulate
from isonomy.errors import UnknownOption, UsageError
from isonomy.simulate.decisions import rates, rates_by_group
from support.sampling import rows_of, standard_errors

ROWS = 200_000
LIMIT = 4.5  # standard errors; about 1e-5 two-sided for each of some hundred means, seeds fixed


def sample_rates(columns: dict[str, Any], rows: Any) -> dict[str, Any]:
    y, p = (columns[k][rows] for k in ("outcome", "prediction"))
    return {
        "base_rate": y,
        "selection_rate": p,
        "tpr": p[y == 1],
        "fpr": p[y == 0],
        "fnr": 1 - p[y == 1],
        "tnr": 1 - p[y == 0],
        "ppv": y[p == 1],
        "npv": 1 - y[p == 0],
        "accuracy": y == p,
        "error_rate": y != p,
    }


def test_every_rate_of_every_group_is_that_of_a_large_sample() -> None:
    table = simulate.decisions(ROWS, 11)
    truth, columns = table.truth, table.columns
    assert len(truth["groups"]) == 3 + 2 + 6
    for label, known in truth["groups"].items():
        rows = rows_of(columns, label)
        assert abs(standard_errors(rows, known["share"])) < LIMIT
        for where, values in ((rows, known), (~rows, truth["rest"][label])):
            rates = sample_rates(columns, where)
            assert set(rates) == set(values) - {"share"}
            assert max(abs(standard_errors(rates[m], values[m])) for m in rates) < LIMIT, label
    assert np.array_equal(columns["prediction"], columns["score"] >= 0.5)


def test_disparities_are_group_minus_reference() -> None:
    truth = simulate.decisions(10).truth
    label = "race=Black & sex=Female"
    for metric, value in truth["disparity"]["population"][label].items():
        assert value == pytest.approx(truth["groups"][label][metric] - truth["population"][metric], abs=1e-15)
        assert truth["disparity"]["rest"][label][metric] == pytest.approx(
            truth["groups"][label][metric] - truth["rest"][label][metric], abs=1e-15
        )


def test_what_is_planted_is_what_is_true() -> None:
    shares = {"race": {"Black": 0.4, "White": 0.6}, "sex": {"Male": 0.3, "Female": 0.7}}
    planted = {"race=Black": {"fpr": -0.06}, "sex=Male": {"selection_rate": 0.04, "base_rate": 0.1}}
    truth = simulate.decisions(10, groups=shares, planted=planted).truth["groups"]
    for sex in ("Male", "Female"):
        black, white = (truth[f"race={r} & sex={sex}"] for r in ("Black", "White"))
        assert black["fpr"] - white["fpr"] == pytest.approx(-0.06)
        assert black["tpr"] == pytest.approx(white["tpr"])
    men, women = truth["race=White & sex=Male"], truth["race=White & sex=Female"]
    assert men["base_rate"] - women["base_rate"] == pytest.approx(0.1)
    assert men["tpr"] - women["tpr"] == pytest.approx(0.04)


@pytest.mark.parametrize("groups", [None, {"race": {"a": 0.5, "b": 0.5}, "age": {"old": 0.2, "young": 0.8}}])
def test_nothing_planted_is_no_disparity_anywhere(groups: Any) -> None:
    disparity = simulate.decisions(10, groups=groups, planted={}).truth["disparity"]
    assert max(abs(v) for ref in disparity.values() for m in ref.values() for v in m.values()) < 1e-12
    own = simulate.decisions(10, groups={"race": {"a": 0.5, "b": 0.5}}).truth["disparity"]["rest"]["race=a"]
    assert max(map(abs, own.values())) < 1e-12


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"base_rate": 1.2}, UsageError),
        ({"base_rate": True}, UsageError),
        ({"tpr": -0.1}, UsageError),
        ({"planted": {"race=Black": {"fpr": 0.9}}}, UsageError),
        ({"planted": {"race=Green": {"fpr": 0.1}}}, UnknownOption),
        ({"planted": {"colour=Black": {"fpr": 0.1}}}, UnknownOption),
        ({"planted": {"race=Black": {"auc": 0.1}}}, UnknownOption),
        ({"planted": {"race=Black": {"fpr": "much"}}}, UsageError),
        ({"groups": {"race": {"a": 0.5, "b": 0.6}}}, UsageError),
        ({"groups": {"race": {"a": 1.5, "b": -0.5}}}, UsageError),
        ({"groups": {"race": {}}}, UsageError),
        ({"groups": {}}, UsageError),
    ],
)
def test_bad_arguments_of_decisions(options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        simulate.decisions(10, **options)


def test_rates_by_hand() -> None:
    # A tenth true positives, a tenth false positives, a fifth false negatives, a tenth true negatives; half of all.
    known = rates(np.array([0.5, 0.1, 0.1, 0.2, 0.1]))
    assert known == pytest.approx(
        {
            "share": 0.5,
            "base_rate": 0.6,
            "selection_rate": 0.4,
            "tpr": 1 / 3,
            "fpr": 0.5,
            "fnr": 2 / 3,
            "tnr": 0.5,
            "ppv": 0.5,
            "npv": 1 / 3,
            "accuracy": 0.4,
            "error_rate": 0.6,
        }
    )


def test_groups_of_all_depths_and_their_rests() -> None:
    names = {"g": (("a", "b"), np.array([0.5, 0.5])), "h": (("x",), np.array([1.0]))}
    cells = np.array([[0, 0], [1, 0]], dtype=np.intp)
    masses = np.array([[0.5, 0.2, 0.1, 0.1, 0.1], [0.5, 0.1, 0.2, 0.1, 0.1]])
    truth = rates_by_group(names, cells, masses)
    assert list(truth["groups"]) == ["g=a", "g=b", "h=x", "g=a & h=x", "g=b & h=x"]
    assert truth["rest"]["g=a"] == pytest.approx(truth["groups"]["g=b"])
    assert truth["disparity"]["rest"]["g=a"]["tpr"] == pytest.approx(2 / 3 - 1 / 2)
    assert truth["disparity"]["population"]["g=a"]["tpr"] == pytest.approx(2 / 3 - 3 / 5)
    assert np.isnan(truth["rest"]["h=x"]["tpr"])  # nobody is left
