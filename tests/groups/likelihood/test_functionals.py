"""Metrics that are no mean over rows: values and errors as other programs have them, and their tests' size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats
from sklearn import metrics

import isonomy as iso
from isonomy.errors import UsageError
from isonomy.groups.likelihood.functionals import FUNCTIONALS, evaluate

RNG = np.random.default_rng(4)
ROWS = 600
Y = RNG.integers(0, 2, ROWS)
SCORE = np.round(np.clip(0.3 * Y + RNG.uniform(0, 0.7, ROWS), 0, 1), 2)  # with ties
P = (SCORE > 0.5).astype(int)
G = RNG.choice(["a", "b", "c"], ROWS)
REAL = RNG.normal(size=ROWS)
GUESS = REAL + RNG.normal(size=ROWS) * np.where(G == "a", 1.5, 1.0)
TABLE: dict[str, Any] = {"y": Y, "s": SCORE, "p": P, "g": G, "real": REAL, "guess": GUESS}
CASES: dict[str, tuple[dict[str, Any], Any]] = {
    "balanced_accuracy": ({"outcome": "y", "prediction": "p"}, metrics.balanced_accuracy_score),
    "f1": ({"outcome": "y", "prediction": "p"}, metrics.f1_score),
    "auc": ({"outcome": "y", "score": "s"}, metrics.roc_auc_score),
    "rmse": ({"outcome": "real", "prediction": "guess"}, metrics.root_mean_squared_error),
    "r2": ({"outcome": "real", "prediction": "guess"}, metrics.r2_score),
}


def columns(name: str, rows: Any = slice(None)) -> dict[str, Any]:
    return {role: np.asarray(TABLE[column], dtype=float)[rows] for role, column in CASES[name][0].items()}


@pytest.mark.parametrize("name", CASES)
def test_values_are_scikit_learns_and_influences_those_of_the_jackknife(name: str) -> None:
    value, influence = evaluate(name, columns(name), np.ones(ROWS))
    first, second = CASES[name][0].values()
    assert value == pytest.approx(CASES[name][1](TABLE[first], TABLE[second]))
    assert influence.mean() == pytest.approx(0.0, abs=1e-12)
    for row in range(5):  # leaving a row out moves the value by its influence over the rows
        rest = np.delete(np.arange(ROWS), row)
        without = evaluate(name, columns(name, rest), np.ones(ROWS - 1))[0]
        assert (ROWS - 1) * (value - without) == pytest.approx(influence[row], abs=0.05 * (1 + abs(influence[row])))


@pytest.mark.parametrize("name", CASES)
def test_doubled_rows_are_rows_twice(name: str) -> None:
    twice = {role: np.tile(values, 2) for role, values in columns(name).items()}
    assert evaluate(name, columns(name), np.full(ROWS, 2.0))[0] == pytest.approx(
        evaluate(name, twice, np.ones(2 * ROWS))[0]
    )


@pytest.mark.parametrize("reference", ["population", "rest", {"g": "c"}, "highest", 0.5], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_groups_are_compared_like_means(name: str, reference: Any) -> None:
    result = iso.flag(TABLE, metric=name, **CASES[name][0], groups="g", reference=reference)
    first, second = (np.asarray(TABLE[column]) for column in CASES[name][0].values())
    for i, group in enumerate("abc"):
        assert result.estimate[i] == pytest.approx(CASES[name][1](first[group == G], second[group == G]))
    assert result.disparity == pytest.approx(result.estimate - result.reference_value)
    tested = ~np.isnan(result.pvalue)
    assert (result.ci_low[tested] <= result.disparity[tested]).all()
    assert (result.disparity[tested] <= result.ci_high[tested]).all()
    if name != "r2" and reference != 0.5:
        ratio = iso.flag(TABLE, metric=name, **CASES[name][0], groups="g", reference=reference, scale="ratio")
        assert ratio.pvalue == pytest.approx(result.pvalue, rel=1e-5, abs=1e-8, nan_ok=True)


def test_an_auc_has_delongs_error() -> None:
    """The variance of AUC from the placement values' variances (DeLong 1988, equation 3), by hand."""
    one = iso.flag(TABLE, metric="auc", outcome="y", score="s", groups="g", reference=0.5)
    chosen = G == "a"
    positives, negatives = SCORE[chosen & (Y == 1)], SCORE[chosen & (Y == 0)]
    wins = (positives[:, None] > negatives) + 0.5 * (positives[:, None] == negatives)
    variance = wins.mean(axis=1).var() / positives.size + wins.mean(axis=0).var() / negatives.size
    assert one.standard_error[0] == pytest.approx(np.sqrt(variance), rel=1e-9)


def test_means_as_functionals_and_cells_as_rows() -> None:
    """Accuracy by counts has the error of its rows; f1 over cells that of f1 over rows."""
    cells = iso.flag(TABLE, metric="f1", outcome="y", prediction="p", groups="g", reference="rest")
    weights = iso.flag(
        TABLE | {"n": np.ones(ROWS, int)},
        metric="f1",
        outcome="y",
        prediction="p",
        groups="g",
        reference="rest",
        count="n",
    )
    assert weights.pvalue == pytest.approx(cells.pvalue)
    assert cells.n.sum() == ROWS


def test_groups_with_one_class_are_not_estimated() -> None:
    table = {
        "y": np.repeat([1, 0, 1], [20, 20, 20]),
        "s": np.tile([0.1, 0.6], 30) + np.arange(60) / 99,
        "g": np.repeat(["a", "b"], [40, 20]),
    }
    result = iso.flag(table, metric="auc", outcome="y", score="s", groups="g", reference=0.5)
    assert [str(status) for status in result.status] == ["ok", "unsupported"]


@pytest.mark.parametrize("options", [{"null": 0.1}, {"method": "eel"}, {"method": "published"}], ids=str)
def test_what_all_groups_at_once_cannot_be_asked(options: dict[str, Any]) -> None:
    argument = next(iter(options))
    with pytest.raises(UsageError, match=f"^{argument}: "):
        iso.certify(TABLE, metric="auc", outcome="y", score="s", groups="g", **options)


@pytest.mark.parametrize("name", ["f1", "auc"])
def test_all_groups_at_once(name: str) -> None:
    """Groups are independent: the sum of squared distances from their weighted mean, in standard errors."""
    roles: dict[str, Any] = {"metric": name, "outcome": "y", "prediction": "p", "score": "s", "groups": "g"}
    joint = iso.certify(TABLE, **roles)
    alone = iso.flag(TABLE, **roles, reference=0.5)
    weight = 1.0 / alone.standard_error**2
    expected = weight @ (alone.estimate - np.average(alone.estimate, weights=weight)) ** 2
    assert joint.df == alone.estimate.size - 1
    assert joint.statistic == pytest.approx(expected, rel=0.1)  # and Welch's law for their errors
    assert joint.pvalue >= stats.chi2.sf(expected, joint.df) * 0.99
    assert joint.contains(0.0) is bool(joint.pvalue > 0.05)
    named = iso.certify(TABLE, **roles, reference={"g": TABLE["g"][0]})
    assert named.pvalue == pytest.approx(joint.pvalue, rel=0.02)
    assert iso.from_json(joint.to_json(rows=True)).contains(0.0) is joint.contains(0.0)


def test_several_at_once_with_and_without_clusters() -> None:
    roles: dict[str, Any] = {"metric": ["f1", "tpr"], "outcome": "y", "prediction": "p", "groups": "g"}
    joint = iso.certify(TABLE, **roles)
    groups = len(set(TABLE["g"]))
    assert joint.df == 2 * (groups - 1)
    twice = {name: np.repeat(values, 2) for name, values in TABLE.items()} | {"who": np.repeat(np.arange(ROWS), 2)}
    assert iso.certify(twice, **roles, cluster="who").pvalue == pytest.approx(joint.pvalue, abs=0.02)


@pytest.mark.parametrize("name", ["f1", "auc"])
def test_equal_groups_are_rejected_at_the_level(name: str) -> None:
    """50 tables of two equal groups of 200 rows; nominal 0.05 and three standard errors."""
    rng, rejected = np.random.default_rng(7), 0
    for _ in range(50):
        y = rng.integers(0, 2, 400)
        score = np.clip(0.3 * y + rng.uniform(0, 0.7, 400), 0, 1)
        table = {"y": y, "s": score, "p": (score > 0.5) if name == "f1" else score, "g": np.repeat([0, 1], 200)}
        roles: dict[str, Any] = {"outcome": "y", "score": "s"} if name == "auc" else {"outcome": "y", "prediction": "p"}
        result = iso.flag(table, metric=name, **roles, groups="g", reference={"g": 0}, adjust="none")
        rejected += int(result.pvalue[1] <= 0.05)
    assert rejected / 50 <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 50)


@pytest.mark.parametrize("level", [0.1, 0.5, 0.9])
def test_a_quantile_is_scipys_with_the_error_of_a_bootstrap(level: float) -> None:
    rng = np.random.default_rng(8)
    values, at = rng.gamma(2.0, size=ROWS), {"level": np.full(ROWS, level)}
    value, influence = evaluate("quantile", {"value": values, **at}, np.ones(ROWS))
    assert value == np.quantile(values, level, method="inverted_cdf")
    assert influence.mean() == pytest.approx(0.0, abs=1e-12)
    draws = np.quantile(rng.choice(values, (4_000, ROWS)), level, axis=1, method="inverted_cdf")
    # The error of a bootstrap with very many draws: the standard deviation of 4,000 has one of 1.1 %.
    assert np.sqrt(np.mean(influence**2) / ROWS) == pytest.approx(np.std(draws), rel=0.04)
    order = np.argsort(values)
    split = np.full(ROWS, 0.5)
    halves = evaluate(
        "quantile", {"value": np.repeat(values[order], 2), "level": np.full(2 * ROWS, level)}, split.repeat(2)
    )
    assert halves[0] == value
    assert np.sum(halves[1] ** 2) == pytest.approx(2.0 * np.sum(influence**2), rel=0.02)
    assert set(FUNCTIONALS) == {*CASES, "quantile"}


def test_values_that_repeat_have_no_error_to_judge_a_quantile_by() -> None:
    rounded = {"x": np.round(np.random.default_rng(2).normal(size=400)), "g": ["a", "b"] * 200}
    result = iso.flag(rounded, metric=iso.Metric("median", iso.col("x"), quantile=0.5), groups="g")
    assert [status.value for status in result.status] == ["unsupported"] * 2
    assert any("too many equal values" in warning for warning in result.warnings)


def test_a_quantile_is_flagged_and_certified() -> None:
    rng = np.random.default_rng(6)
    group = np.repeat(["a", "b"], 300)
    table = {"g": group, "x": rng.normal(size=600) + (group == "b")}
    median = iso.Metric("median", iso.col("x"), quantile=0.5)
    result = iso.flag(table, metric=median, groups="g", reference={"g": "a"})
    assert result.estimate[1] == pytest.approx(np.quantile(table["x"][300:], 0.5, method="inverted_cdf"))
    end = iso.flag(table, metric=median, groups="g", reference={"g": "a"}, null=float(result.ci_low[1]), adjust="none")
    assert end.pvalue[1] == pytest.approx(0.05, rel=1e-5)
    assert result.labels == ("g=a", "g=b")
    assert iso.certify(table, metric=median, groups="g").verdict == "violation"
    with pytest.raises(UsageError, match="'median', which is not a mean over rows and can be negative"):
        iso.flag(table, metric=median, groups="g", scale="ratio")


def classified(rows: int, positives: int, quality: float, hits: int | None = None) -> dict[str, Any]:
    """A group with this many rows and positives against 2,000 rows with as large a share of positives."""
    rng = np.random.default_rng(11)
    sizes = [(rows, positives), (2_000, 2_000 * positives // rows)]
    y = np.concatenate([np.arange(n) < ones for n, ones in sizes]).astype(int)
    score = rng.normal(quality * y, 1.0)
    p = (score > quality / 2).astype(int)
    if hits is not None:
        p[:positives] = np.arange(positives) < hits
    return {"g": np.repeat(["a", "b"], [n for n, _ in sizes]), "y": y, "s": score, "p": p}


def test_an_auc_with_few_events_has_no_verdict_and_one_with_many_has() -> None:
    roles: dict[str, Any] = {"metric": "auc", "outcome": "y", "score": "s", "groups": "g", "reference": {"g": "b"}}
    tables = [classified(*size, 2.3) for size in ((60, 9), (400, 80))]
    for table in tables:
        table["s"][0] = 0.0  # a positive below many negatives: no AUC is 1
    few, many = (iso.flag(table, **roles) for table in tables)
    assert (str(few.status[0]), str(many.status[0])) == ("few_events", "ok")
    assert np.isnan(few.pvalue[0])
    assert any("too few rows of one class" in warning for warning in few.warnings)


def test_nine_positives_that_are_all_right_are_no_evidence() -> None:
    """Their variance is 0 by their own rows; at the reference's rate of 0.77 it is not."""
    roles: dict[str, Any] = {"metric": "balanced_accuracy", "outcome": "y", "prediction": "p", "groups": "g"}
    result = iso.flag(classified(60, 9, 1.5, hits=9), **roles, reference={"g": "b"})
    assert result.disparity[0] > 0.05
    assert result.pvalue[0] > 0.05
    assert result.ci_low[0] < 0 < result.ci_high[0]
    # One rate alone is a binomial score test: the other class is so large that its rate is known.
    wrong = iso.flag(classified(60, 9, 1.5, hits=2), **roles, reference={"g": "b"})
    assert wrong.pvalue[0] < 0.01


def test_errors_with_long_tails_have_no_verdict() -> None:
    rng = np.random.default_rng(3)
    y = rng.normal(size=2_100)
    table = {"g": np.repeat(["a", "b"], [100, 2_000]), "y": y, "p": y + rng.standard_t(3, 2_100)}
    roles: dict[str, Any] = {
        "metric": "rmse",
        "outcome": "y",
        "prediction": "p",
        "groups": "g",
        "reference": {"g": "b"},
    }
    assert str(iso.flag(table, **roles).status[0]) == "skewed"
    assert str(iso.flag(table | {"p": y + rng.normal(size=2_100)}, **roles).status[0]) == "ok"


def test_the_interval_of_a_median_ends_at_order_statistics() -> None:
    """Against a number: mid-p binomial limits, which scipy's exact interval contains by less than one row."""
    values = np.sort(np.random.default_rng(5).lognormal(size=25))
    median = iso.Metric("median", iso.col("x"), quantile=0.5)
    result = iso.flag({"x": values, "g": ["a"] * 25}, metric=median, groups="g", reference=1.0)
    exact: Any = stats.quantile_test(values, q=1.0, p=0.5).confidence_interval(0.95)
    low, high = exact
    places = np.searchsorted(values, [low, high])
    assert low <= result.ci_low[0] + 1.0 <= values[places[0] + 1]
    assert values[places[1] - 1] <= result.ci_high[0] + 1.0 <= high
