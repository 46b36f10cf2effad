"""Rates of decisions, regressions and classifiers against large samples and independent arithmetic."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from isonomy import simulate
from isonomy.errors import UnknownOption, UsageError

ROWS = 200_000
LIMIT = 4.5  # standard errors; about 1e-5 two-sided for each of some hundred means, seeds fixed


def sample_rates(columns, rows):
    y, p, s = (columns[k][rows] for k in ("outcome", "prediction", "score"))
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
        "mean_score": s,
        "brier": (s - y) ** 2,
        "log_loss": -np.log(np.where(y == 1, s, 1 - s)),
    }


def test_every_rate_of_every_group_is_that_of_a_large_sample(off, rows_of):
    table = simulate.decisions(ROWS, 11, age_band=True)
    truth, columns = table.truth, table.columns
    assert len(truth["groups"]) == 3 + 2 + 3 + 6 + 9 + 6 + 18
    for label, known in truth["groups"].items():
        rows = rows_of(columns, label)
        assert abs(off(rows, known["share"])) < LIMIT
        for where, values in ((rows, known), (~rows, truth["rest"][label])):
            seen = sample_rates(columns, where)
            assert set(seen) == set(values) - {"share"}
            assert max(abs(off(seen[m].astype(float), values[m])) for m in seen) < LIMIT, label
    assert np.array_equal(columns["prediction"], columns["score"] >= 0.5)


def test_disparities_are_group_minus_reference():
    truth = simulate.decisions(10).truth
    label = "race=Black & sex=Female"
    for metric, value in truth["disparity"]["population"][label].items():
        assert value == pytest.approx(truth["groups"][label][metric] - truth["population"][metric], abs=1e-15)
        assert truth["disparity"]["rest"][label][metric] == pytest.approx(
            truth["groups"][label][metric] - truth["rest"][label][metric], abs=1e-15
        )


def test_what_is_planted_is_what_is_found():
    planted = {"race=Black": {"ppv": -0.06}, "sex=Male": {"selection_rate": 0.04, "base_rate": 0.1}}
    truth = simulate.decisions(10, groups={"race": {"Black": 0.4, "White": 0.6}, "sex": {"Male": 0.3, "Female": 0.7}},
                               planted=planted).truth["groups"]  # fmt: skip
    for sex in ("Male", "Female"):
        black, white = (truth[f"race={r} & sex={sex}"] for r in ("Black", "White"))
        assert black["ppv"] - white["ppv"] == pytest.approx(-0.06)
        assert black["tpr"] == pytest.approx(white["tpr"])
    men, women = truth["race=White & sex=Male"], truth["race=White & sex=Female"]
    assert men["base_rate"] - women["base_rate"] == pytest.approx(0.1)
    assert men["tpr"] - women["tpr"] == pytest.approx(0.04)


def test_nothing_planted_is_no_disparity_anywhere():
    disparity = simulate.decisions(10, planted={}, age_band=True).truth["disparity"]
    assert max(abs(v) for ref in disparity.values() for m in ref.values() for v in m.values()) < 1e-12


def test_even_allocation_fixes_group_sizes():
    groups = {"race": {"a": 854 / 3028, "b": 2174 / 3028}}
    sizes = {
        np.sum(simulate.decisions(3028, s, groups=groups, allocation="even").columns["race"] == "a") for s in range(5)
    }
    assert len(sizes) == 1
    assert abs(sizes.pop() - 854) <= 3


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"base_rate": 1.2}, UsageError),
        ({"tpr": -0.1}, UsageError),
        ({"planted": {"race=Black": {"fpr": 0.9}}}, UsageError),
        ({"planted": {"race=Green": {"fpr": 0.1}}}, UnknownOption),
        ({"planted": {"colour=Black": {"fpr": 0.1}}}, UnknownOption),
        ({"planted": {"race=Black": {"auc": 0.1}}}, UnknownOption),
        ({"planted": {"race=Black": {"ppv": 0.9}}}, UsageError),
        ({"groups": {"race": {"a": 0.5, "b": 0.6}}}, UsageError),
        ({"groups": {"race": {"a": 1.5, "b": -0.5}}}, UsageError),
        ({"groups": {"race": {}}}, UsageError),
        ({"groups": {}}, UsageError),
        ({"allocation": "sorted"}, UnknownOption),
    ],
)
def test_bad_arguments_of_decisions(options, error):
    with pytest.raises(error):
        simulate.decisions(10, **options)


@pytest.mark.parametrize("model", ["5.1", "5.2", "5.3"])
@pytest.mark.parametrize("noise", ["normal", "exponential"])
def test_regression_errors_by_interval(model, noise, off, rows_of):
    table = simulate.regression(ROWS, 3, model=model, groups=5, tau=0.3, noise=noise)
    columns = table.columns
    assert np.array_equal(columns["group"].astype(int), np.floor(columns["x"] * 5).astype(int) + 1)
    for label, known in table.truth["groups"].items():
        rows = rows_of(columns, label)
        assert abs(off(columns["squared_error"][rows], known["mse"])) < LIMIT
        assert abs(off(columns["residual"][rows], known["mean_residual"])) < LIMIT
        assert abs(off(-columns["residual"][rows], known["mean_error"])) < LIMIT
        assert abs(off(columns["outcome"][rows], known["mean_outcome"])) < LIMIT
        assert abs(off(columns["prediction"][rows], known["mean_prediction"])) < LIMIT


def test_regression_truth_is_the_paper_s():
    for m in (2, 5, 10):
        for j in range(1, m + 1):
            assert simulate.regression(1, groups=m).truth["groups"][f"group={j}"]["mse"] == pytest.approx(1)
            second = simulate.regression(1, model="5.2", groups=m).truth["groups"][f"group={j}"]["mse"]
            assert second == pytest.approx((2 * j - 1) / (2 * m))
    third = simulate.regression(1, model="5.3", tau=0.2).truth["groups"]
    assert [third[f"group={j}"]["mean_residual"] for j in (1, 2)] == pytest.approx([0.1, 0.3])


@pytest.mark.parametrize(
    "options", [{"model": "5.4"}, {"groups": 0}, {"tau": float("nan")}, {"noise": "cauchy"}, {"groups": 2.5}]
)
def test_bad_arguments_of_regression(options):
    with pytest.raises(UsageError):
        simulate.regression(10, **{"model": "5.3", **options})


CLASSIFIERS = [
    {},
    {"equal_opportunity": 0.1, "predictive_equality": -0.05},
    {"levels": 3, "equal_opportunity": {"1": 0.05, "2": -0.05}, "scale": 0.01},
    {"theta": (1.0, -2.0), "threshold": 0.7, "scale": 100.0},
    {"lattice": 0.5, "equal_opportunity": 0.1},
]


@pytest.mark.parametrize("options", CLASSIFIERS)
def test_classifier_rates(options, off, rows_of):
    table = simulate.classifier(ROWS, 5, **options)
    columns, truth = table.columns, table.truth
    for label, known in truth["groups"].items():
        rows = rows_of(columns, label)
        for rate, outcome in (("tpr", 1), ("fpr", 0)):
            chosen = rows & (columns["outcome"] == outcome)
            assert abs(off(columns["prediction"][chosen], known[rate])) < LIMIT
        assert abs(off(columns["prediction"][rows], known["selection_rate"])) < LIMIT
        assert abs(off(columns["outcome"][rows], known["base_rate"])) < LIMIT
        assert abs(off(rows, known["share"])) < LIMIT
    assert np.array_equal(columns["prediction"], columns["score"] >= truth["threshold"])


def test_classifier_geometry_and_scale():
    options = {"theta": (1.0, -2.0), "threshold": 0.7}
    small, large = (simulate.classifier(1_000, 5, scale=s, **options) for s in (1.0, 100.0))
    assert np.array_equal(small.columns["prediction"], large.columns["prediction"])
    for table, scale in ((small, 1.0), (large, 100.0)):
        x = np.stack([table.columns["x1"], table.columns["x2"]], axis=1)
        signed = (x @ [1.0, -2.0] - np.log(0.7 / 0.3) * scale) / np.sqrt(5)
        assert np.allclose(table.columns["distance"], np.abs(signed), rtol=1e-9, atol=1e-9)
    assert np.allclose(large.columns["distance"], 100 * small.columns["distance"])


def test_classifier_boundary_density(off):
    """The share of rows within a thin band around the boundary, against the density there."""
    table = simulate.classifier(ROWS, 6, equal_opportunity=0.2)
    band = 0.02
    inside = table.columns["distance"] < band
    assert abs(off(inside / (2 * band), table.truth["boundary"]["density"])) < LIMIT
    assert sum(table.truth["boundary"]["shares"].values()) == pytest.approx(1)
    level = (table.columns["group"] == "1") & (table.columns["outcome"] == 1)
    assert abs(off(level[inside], table.truth["boundary"]["shares"]["group=1 & outcome=1"])) < LIMIT


def test_planted_gaps_are_exact():
    truth = simulate.classifier(1, levels=3, equal_opportunity={"1": 0.05, "2": -0.05}, predictive_equality=0.02).truth
    found = truth["disparity"]
    assert [found[f"group={g}"]["equal_opportunity"] for g in "12"] == pytest.approx([0.05, -0.05])
    assert [found[f"group={g}"]["predictive_equality"] for g in "12"] == pytest.approx([0.02, 0])
    normal = stats.norm.sf(0, loc=0, scale=np.sqrt(5))
    assert simulate.classifier(1).truth["groups"]["group=0"]["tpr"] == pytest.approx(normal)


@pytest.mark.parametrize(
    "options",
    [
        {"levels": 4},
        {"equal_opportunity": 0.7},
        {"equal_opportunity": 0.5},
        {"equal_opportunity": {"5": 0.1}},
        {"equal_opportunity": {"0": 0.1}},
        {"theta": (0.0, 0.0)},
        {"theta": (1.0,)},
        {"threshold": 1.0},
        {"scale": 0.0},
        {"lattice": -1.0},
    ],
)
def test_bad_arguments_of_classifier(options):
    with pytest.raises(UsageError):
        simulate.classifier(10, **options)
