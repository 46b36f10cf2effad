"""Built-in metrics against scikit-learn, and user-defined metrics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import narwhals as nw
import numpy as np
import polars as pl
import pytest
import sklearn.metrics as sk

import isonomy as iso
from isonomy import errors
from isonomy.frames import open_source
from isonomy.frames.metrics import (
    ALSO_CALLED,
    BUNDLES,
    MEANS,
    NAMES,
    RATES,
    Metric,
    measure,
    metric_columns,
    shared_rows,
)

rng = np.random.default_rng(1)
N = 500
Y, P = rng.integers(0, 2, N), rng.integers(0, 2, N)
S = rng.uniform(0.01, 0.99, N)
TABLE = {"y": Y, "p": P, "s": S}
ROLES: dict[str, Any] = {"outcome": "y", "prediction": "p", "score": "s"}

EXPECTED: dict[str, Callable[[], float]] = {
    "selection_rate": lambda: P.mean(),
    "tpr": lambda: sk.recall_score(Y, P),
    "fpr": lambda: 1 - sk.recall_score(Y, P, pos_label=0),
    "fnr": lambda: 1 - sk.recall_score(Y, P),
    "tnr": lambda: sk.recall_score(Y, P, pos_label=0),
    "ppv": lambda: sk.precision_score(Y, P),
    "false_discovery_rate": lambda: 1 - sk.precision_score(Y, P),
    "false_omission_rate": lambda: 1 - sk.precision_score(Y, P, pos_label=0),
    "npv": lambda: sk.precision_score(Y, P, pos_label=0),
    "accuracy": lambda: sk.accuracy_score(Y, P),
    "error_rate": lambda: 1 - sk.accuracy_score(Y, P),
    "mean_prediction": lambda: P.mean(),
    "mean_error": lambda: (P - Y).mean(),
    "mae": lambda: sk.mean_absolute_error(Y, P),
    "mse": lambda: sk.mean_squared_error(Y, P),
    "brier": lambda: sk.brier_score_loss(Y, S),
    "log_loss": lambda: sk.log_loss(Y, S),
}


def mean(metric: Any, data: Any = TABLE, **roles: Any) -> float:
    source = open_source(data)
    bound = measure(source, metric, **(roles or ROLES))
    answer: Any = source.cells(bound.request) if bound.binary else source.rows(bound.request)
    weight = answer.counts if bound.binary else np.ones(answer.size)
    inside = bound.inside(answer)
    return float(np.average(bound.value(answer)[inside], weights=weight[inside]))


@pytest.mark.parametrize("metric", [*RATES, *MEANS])  # the others: tests/likelihood/ratio/test_functionals.py
def test_metric_equals_scikit_learn(metric: str) -> None:
    assert mean(metric) == pytest.approx(EXPECTED[metric](), rel=1e-12)


def test_own_metric() -> None:
    real = iso.Metric("score of the selected", value=iso.col("s") * 2, where=iso.col("p") == 1)
    assert mean(real) == pytest.approx(2 * S[P == 1].mean())
    rate = iso.Metric("high score", value=iso.col("s") > 0.5, where=iso.col("y") == 1, binary=True)
    assert mean(rate) == pytest.approx((S[Y == 1] > 0.5).mean())


def test_log_loss_of_a_certain_wrong_score_is_finite() -> None:
    assert np.isfinite(mean("log_loss", {"y": [1, 0], "s": [0.0, 1.0]}, outcome="y", score="s"))


def test_synonyms_are_accepted_and_results_have_one_name() -> None:
    assert set(ALSO_CALLED.values()) <= {*NAMES, *BUNDLES}
    assert not set(ALSO_CALLED) & set(NAMES)
    for name, ours in ALSO_CALLED.items():
        if ours in RATES:
            assert mean(name) == mean(ours)
    roles: dict[str, Any] = {"outcome": "y", "prediction": "p", "groups": "g"}
    table = TABLE | {"g": np.tile(["a", "b"], N // 2)}
    result = iso.flag(table, metric=["recall", "predictive_equality"], **roles)
    assert result.metrics == ("tpr", "tpr", "fpr", "fpr")
    assert result.provenance.options["metric"] == ("tpr", "fpr")
    named = iso.open_source(table, labels=iso.Labels(metrics={"recall": "found"}))
    assert iso.flag(named, metric="sensitivity", **roles).metrics == ("found", "found")
    with pytest.raises(errors.UsageError, match="names one metric twice"):
        iso.flag(table, metric=["recall", "tpr"], **roles)


def test_a_metric_of_text_is_refused() -> None:
    data = {"t": ["a", "b"], "g": [0, 1]}
    with pytest.raises(errors.UsageError, match="gives String; give numbers"):
        iso.flag(data, metric=iso.Metric("own", value=iso.col("t")), groups="g")


def test_the_parts_of_a_metric_are_expressions() -> None:
    with pytest.raises(errors.UsageError, match=r"Metric\('m'\): value is a str; give an expression"):
        iso.Metric("m", value="x")  # type: ignore[arg-type]
    with pytest.raises(errors.UsageError, match=r"Metric\('m'\): where is a bool"):
        iso.Metric("m", value=iso.col("x"), where=True)  # type: ignore[arg-type]


def test_own_metric_checks_its_values_inside_its_condition_only() -> None:
    data = pl.DataFrame({"g": ["a", "a", "b"], "x": [1.0, None, 0.0], "use": [True, False, True]})
    source = open_source(data)
    fine = iso.Metric("m", value=iso.col("x"), where=iso.col("use"), binary=True)
    bound = measure(source, fine, grouping=source.grouping("g"))
    cells = source.cells(bound.request)
    assert cells.counts[bound.inside(cells)].sum() == 2
    bad = iso.Metric("m", value=iso.col("x"))
    with pytest.raises(errors.MissingValues, match="value: the expression has 1 rows"):
        source.rows(measure(source, bad, grouping=source.grouping("g")).request)


LABELS = {"y": np.array(["no", "approved", "later"])[rng.integers(0, 3, N)], "g": np.tile(["a", "b"], N // 2)}
LABELS["p"] = np.where(rng.random(N) < 0.7, LABELS["y"], np.roll(LABELS["y"], 1))
LABELLED: dict[str, Any] = {"outcome": "y", "prediction": "p", "groups": "g", "positive": "approved"}


@pytest.mark.parametrize("name", ["tpr", "fpr", "ppv", "accuracy", "f1", "balanced_accuracy"])
def test_one_label_counts_as_1_in_every_library(name: str) -> None:
    plain = {"y": (LABELS["y"] == "approved") * 1, "p": (LABELS["p"] == "approved") * 1, "g": LABELS["g"]}
    expected = iso.flag(plain, metric=name, outcome="y", prediction="p", groups="g")
    for data in (LABELS, pl.DataFrame(LABELS), pl.LazyFrame(LABELS), pl.DataFrame(LABELS).to_pandas()):
        result = iso.flag(data, metric=name, **LABELLED)
        assert result.estimate.tolist() == expected.estimate.tolist()
        assert result.pvalue.tolist() == expected.pvalue.tolist()


def test_recall_of_one_class_is_scikit_learns() -> None:
    result = iso.flag(LABELS, metric="recall", **LABELLED)
    assert result.pvalue.tolist() == iso.flag(LABELS, metric="tpr", **LABELLED).pvalue.tolist()
    inside = LABELS["g"] == "a"
    recalls = sk.recall_score(LABELS["y"][inside], LABELS["p"][inside], labels=["approved"], average=None)
    assert result.estimate[0] == pytest.approx(recalls[0])
    both = iso.certify(LABELS, metric=["tpr", "fpr"], **LABELLED)
    assert both.df == 2


def test_labels_that_no_row_has_are_refused_and_missing_ones_stay_missing() -> None:
    def refused(data: Any = LABELS, **options: Any) -> str:
        with pytest.raises(errors.IsonomyError) as error:
            iso.flag(data, **{"metric": "tpr", **LABELLED, **options})
        return str(error.value)

    assert refused(positive="Approved") == "positive: no row has 'Approved' as its outcome or prediction."
    assert "positive: column 'y' is String; it cannot be compared with 1" in refused(positive=1)
    assert "has no 0/1 outcome or prediction" in refused(metric=iso.Metric("m", iso.col("y") == "no"))
    gone = pl.DataFrame(LABELS).with_columns(y=pl.when(pl.int_range(N) > 0).then(pl.col("y")))
    for data in (gone, gone.to_pandas()):
        assert "1 rows" in refused(data)


def test_requests_side_by_side_keep_the_names_of_each() -> None:
    """Two user-defined metrics both name their values "value"; each gets its own values."""
    table = {"x": [1.0, 2.0, 3.0], "z": [4.0, 5.0, 6.0], "y": [0, 1, 1], "p": [1, 1, 0]}
    source = open_source(table)
    metrics: list[str | Metric] = ["f1", Metric("x", nw.col("x")), Metric("z", nw.col("z"), where=nw.col("y") == 1)]
    bound = [measure(source, metric, outcome="y", prediction="p") for metric in metrics]
    rows = source.rows(shared_rows([one.request for one in bound]))
    each = [metric_columns(rows, place) for place in range(3)]
    assert bound[0].roles(each[0])["prediction"].tolist() == [1, 1, 0]
    assert bound[1].value(each[1]).tolist() == [1.0, 2.0, 3.0]
    assert bound[1].inside(each[1]).all()
    assert bound[2].value(each[2])[1:].tolist() == [5.0, 6.0]
    assert bound[2].inside(each[2]).tolist() == [False, True, True]
