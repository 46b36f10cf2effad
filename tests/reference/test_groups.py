"""Independent programs: statsmodels' empirical likelihood and its intervals of two rates, scipy's G test, the values of
scikit-learn and of fairlearn's MetricFrame, and the published COMPAS interval."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats
from sklearn import metrics
from statsmodels.emplike.descriptive import DescStat
from statsmodels.stats.proportion import confint_proportions_2indep

import isonomy as iso
from isonomy.groups.likelihood.joint import Functions, Patterns
from isonomy.numerics.status import Status
from isonomy.results import Verdict


def datasets() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    return {
        "symmetric": rng.normal(2.0, 1.5, size=80),
        "skewed": rng.exponential(size=300),
        "heavy": rng.standard_t(2.5, size=45),
    }


@pytest.mark.parametrize("name", datasets())
@pytest.mark.parametrize("away", [-1.5, 0.4, 2.5])
def test_statistic_of_a_mean_agrees_with_statsmodels(name: str, away: float) -> None:
    x = datasets()[name]
    theta = float(x.mean() + away * x.std() / np.sqrt(x.size))
    expected, p = DescStat(x).test_mean(theta, result_object=False)
    result = iso.flag(
        {"x": x, "g": ["a"] * x.size},
        metric="mean_prediction",
        prediction="x",
        groups="g",
        reference=theta,
        method=iso.likelihood(correction=None),
    )
    assert result.statistic[0] == pytest.approx(expected, abs=1e-8)
    assert result.pvalue[0] == pytest.approx(p, abs=1e-8)


@pytest.mark.parametrize("name", datasets())
def test_interval_of_a_mean_agrees_with_statsmodels(name: str) -> None:
    x = datasets()[name]
    low, high = DescStat(x).ci_mean(0.05)
    result = iso.flag(
        {"x": x, "g": ["a"] * x.size},
        metric="mean_prediction",
        prediction="x",
        groups="g",
        reference=0.0,
        method=iso.likelihood(correction=None),
    )
    assert (result.ci_low[0], result.ci_high[0]) == pytest.approx((low, high), abs=1e-5)  # their root's tolerance


def test_joint_statistic_of_equal_rates_is_the_likelihood_ratio_of_the_table() -> None:
    """For k groups against their population at disparity 0, this is the G test of independence."""
    table = np.array([[30, 70], [55, 45], [12, 28], [40, 20]])
    expected = stats.chi2_contingency(table, correction=False, lambda_="log-likelihood")
    data = {
        "g": np.repeat(["a", "a", "b", "b", "c", "c", "d", "d"], table.ravel()),
        "y": np.repeat([1, 0] * 4, table.ravel()),
    }
    result = iso.certify(data, metric="selection_rate", prediction="y", groups="g")
    assert result.statistic == pytest.approx(expected.statistic, rel=1e-12)
    assert result.df == expected.dof
    assert result.pvalue == pytest.approx(expected.pvalue, rel=1e-9)


def test_joint_mean_of_two_columns_agrees_with_statsmodels() -> None:
    """The general dual, with rows in two overlapping functions, against statsmodels' multivariate mean."""
    rng = np.random.default_rng(4)
    x = rng.exponential(size=(120, 2)) @ np.array([[1.0, 0.4], [0.0, 1.0]])
    target = x.mean(axis=0) + np.array([0.1, -0.08])
    expected, _ = DescStat(x).mv_test_mean(target, result_object=False)
    data = Patterns(np.zeros(120, dtype=np.intp), 1, (x[:, 0], x[:, 1]), None)
    functions = Functions(np.eye(2)[None], np.zeros((1, 2, 0)), target[None])
    assert data.likelihood(functions, np.empty(0)).statistic == pytest.approx(expected, abs=1e-6)


@pytest.fixture(scope="module")
def compas(data_folder: Path) -> pl.DataFrame:
    table = pl.read_csv(data_folder / "compas-scores-two-years.csv", infer_schema_length=None)
    return table.with_columns(high=(pl.col("decile_score") >= 5).cast(pl.Int8))


PPV: dict[str, Any] = {"metric": "ppv", "groups": "race", "outcome": "two_year_recid", "prediction": "high"}


@pytest.mark.parametrize(("alpha", "published"), [(0.05, (0.018, 0.058)), (0.1, (0.022, 0.055))])
def test_published_compas_interval(compas: pl.DataFrame, alpha: float, published: tuple[float, float]) -> None:
    result = iso.flag(compas, **PPV, reference={"race": "Caucasian"}, method="published", alpha=alpha)
    group = result.labels.index("race=African-American")
    assert result.n[group] == 2174
    assert result.n.sum() == 3317
    assert (result.ci_low[group], result.ci_high[group]) == pytest.approx(published, abs=1e-3)


def test_compas_with_the_reference_estimated(compas: pl.DataFrame) -> None:
    """The published analysis ignores the error of the Caucasian rate."""
    result = iso.flag(compas, **PPV, reference={"race": "Caucasian"})
    group = result.labels.index("race=African-American")
    table = [[1369, 2174 - 1369], [505, 854 - 505]]
    expected = stats.chi2_contingency(table, correction=False, lambda_="log-likelihood")
    assert result.statistic[group] == pytest.approx(expected.statistic, rel=1e-12)
    assert result.pvalue[group] == pytest.approx(0.05096, abs=1e-5)
    assert result.ci_low[group] < 0 < result.ci_high[group]
    assert result.verdict is Verdict.INCONCLUSIVE
    assert "treats it as known" in " ".join(result.summary().split())


RATES = [(60, 100, 90, 120), (150, 1_000, 200, 1_000), (700, 10_000, 900, 10_000)]


INTERVALS = [
    ("difference", "diff", "score"),
    ("ratio", "ratio", "score"),
    ("ratio", "ratio", "log"),
    ("odds_ratio", "odds-ratio", "score"),
    ("odds_ratio", "odds-ratio", "logit"),
]


@pytest.mark.parametrize("counts", RATES, ids=str)
@pytest.mark.parametrize(("scale", "compare", "method"), INTERVALS)
def test_intervals_of_two_rates_are_close_to_statsmodels(counts: Any, scale: Any, compare: str, method: str) -> None:
    """The ends of likelihood, score and Wald intervals are close, but not equal.

    Their largest distance, relative to the width, is 2.2 % with a few hundred rows (the log interval; the score
    interval 0.8 %), 0.4 % with a thousand and 0.1 % with ten thousand.
    """
    ones, n, others, m = counts
    with np.errstate(invalid="ignore"):  # in its search for a bracket
        low, high = confint_proportions_2indep(ones, n, others, m, compare=compare, method=method)
    data = {
        "g": np.repeat(["a", "a", "b", "b"], [ones, n - ones, others, m - others]),
        "y": np.repeat([1, 0, 1, 0], [ones, n - ones, others, m - others]),
    }
    result = iso.flag(data, metric="selection_rate", prediction="y", groups="g", reference={"g": "b"}, scale=scale)
    apart = np.abs([result.ci_low[0] - low, result.ci_high[0] - high]) / (high - low)
    assert apart.max() < CLOSE[n], apart


CLOSE = {100: 0.025, 1_000: 0.005, 10_000: 0.002}
EXPECTED: dict[str, Any] = {
    "selection_rate": lambda y, p: p.mean(),
    "tpr": metrics.recall_score,
    "tnr": lambda y, p: metrics.recall_score(y, p, pos_label=0),
    "fpr": lambda y, p: 1 - metrics.recall_score(y, p, pos_label=0),
    "fnr": lambda y, p: 1 - metrics.recall_score(y, p),
    "ppv": metrics.precision_score,
    "npv": lambda y, p: metrics.precision_score(y, p, pos_label=0),
    "false_discovery_rate": lambda y, p: 1 - metrics.precision_score(y, p),
    "false_omission_rate": lambda y, p: 1 - metrics.precision_score(y, p, pos_label=0),
    "accuracy": metrics.accuracy_score,
    "error_rate": metrics.zero_one_loss,
    "balanced_accuracy": metrics.balanced_accuracy_score,
    "f1": metrics.f1_score,
    "mae": metrics.mean_absolute_error,
    "mse": metrics.mean_squared_error,
    "rmse": metrics.root_mean_squared_error,
    "r2": metrics.r2_score,
    "auc": metrics.roc_auc_score,
    "brier": metrics.brier_score_loss,
    "log_loss": metrics.log_loss,
}


@pytest.mark.parametrize("name", EXPECTED)
def test_every_metric_by_group_is_scikit_learns_and_fairlearns(name: str) -> None:
    rng = np.random.default_rng(9)
    group, y = rng.choice(["a", "b", "c"], 400), rng.integers(0, 2, 400)
    score = np.clip(0.3 * y + rng.uniform(0.02, 0.68, 400), 0, 1)
    guess = score if name in ("auc", "brier", "log_loss") else (score > 0.5).astype(int)
    role = "score" if name in ("auc", "brier", "log_loss") else "prediction"
    roles: dict[str, Any] = {"outcome": "y", role: role}
    result = iso.flag({"g": group, "y": y, role: guess}, metric=name, groups="g", **roles)
    expected = [EXPECTED[name](y[group == g], guess[group == g]) for g in "abc"]
    assert result.estimate == pytest.approx(expected)
    fairlearn = pytest.importorskip("fairlearn.metrics")
    frame = fairlearn.MetricFrame(metrics=EXPECTED[name], y_true=y, y_pred=guess, sensitive_features=group)
    assert result.estimate == pytest.approx(frame.by_group.to_numpy(dtype=float))
    assert result.widest().value == pytest.approx(frame.difference(method="between_groups"))


def test_many_overlapping_groups_of_adult_end_with_a_number(data_folder: Path) -> None:
    """142 groups with 78 empty cells: T lies between the two bounds from duality, which are 1e-6 apart."""
    table = pl.read_csv(data_folder / "adult.data", has_header=False, infer_schema_length=None)
    names, places = ["education", "marital", "sex", "income"], [3, 5, 9, 14]
    table = table.select(
        pl.col(table.columns[i]).alias(name) for i, name in zip(places, names, strict=True)
    ).drop_nulls()
    table = table.with_columns(rich=(pl.col("income").str.strip_chars() == ">50K").cast(pl.Int8))
    options: dict[str, Any] = {"metric": "selection_rate", "prediction": "rich", "groups": names[:3], "depth": 2}
    result = iso.certify(table, **options, method=iso.likelihood(correction=None))
    assert result.joint_status is Status.OK
    assert result.df == 109
    assert 11312.6474 < result.statistic < 11312.6475


def test_the_bootstrap_of_table_1_resamples_rows() -> None:
    """Its critical value is that of rows drawn with replacement, not of their normal limit, which is not skewed."""
    rng = np.random.default_rng(5)
    n, m, resamples = 300, 10, 20_000
    group, loss = rng.integers(0, m, n), rng.standard_normal(n) ** 2
    member = (group[:, None] == np.arange(m)).astype(float)
    share, error = member.mean(axis=0), loss @ member / member.sum(axis=0)
    largest = []
    for _ in range(resamples):
        rows = rng.integers(0, n, n)
        count = member[rows].sum(axis=0)
        largest.append((share * (loss[rows] @ member[rows] / n - count / n * error)).max())
    # The quantile has the probability 0.95 within three standard errors of both samples.
    result = iso.certify({"x": loss, "g": group}, metric=iso.Metric("x", iso.col("x")), groups="g", reference=1.0)
    region = result.bootstrap(resamples=resamples, rng=6)
    half = region["high"].to_numpy() - region["disparity"].to_numpy()
    value = float((half * share**2)[0])
    np.testing.assert_allclose(half * share**2, value)
    assert np.mean(np.array(largest) <= value) == pytest.approx(0.95, abs=3 * np.sqrt(2 * 0.95 * 0.05 / resamples))
