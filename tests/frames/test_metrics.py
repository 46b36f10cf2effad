"""Ready-made metrics against scikit-learn, and user-made ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import sklearn.metrics as sk

import isonomy as iso
from isonomy import errors
from isonomy.frames import open_source
from isonomy.frames.metrics import NAMES, measure

rng = np.random.default_rng(1)
N = 500
Y, P = rng.integers(0, 2, N), rng.integers(0, 2, N)
S = rng.uniform(0.01, 0.99, N)
TABLE = {"y": Y, "p": P, "s": S}

EXPECTED: dict[str, Callable[[], float]] = {
    "selection_rate": lambda: P.mean(),
    "tpr": lambda: sk.recall_score(Y, P),
    "fpr": lambda: 1 - sk.recall_score(Y, P, pos_label=0),
    "fnr": lambda: 1 - sk.recall_score(Y, P),
    "tnr": lambda: sk.recall_score(Y, P, pos_label=0),
    "ppv": lambda: sk.precision_score(Y, P),
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


def mean(metric: Any, data: Any = TABLE, **roles: str) -> float:
    source = open_source(data)
    bound = measure(source, metric, **(roles or {"outcome": "y", "prediction": "p", "score": "s"}))
    got: Any = source.cells(bound.request) if bound.binary else source.rows(bound.request)
    weight = got.count if bound.binary else np.ones(got.size)
    inside = bound.inside(got)
    return float(np.average(bound.value(got)[inside], weights=weight[inside]))


@pytest.mark.parametrize("metric", NAMES)
def test_metric_equals_scikit_learn(metric: str) -> None:
    assert mean(metric) == pytest.approx(EXPECTED[metric](), rel=1e-12)


def test_own_metric() -> None:
    real = iso.Metric("score of the selected", value=iso.col("s") * 2, where=iso.col("p") == 1)
    assert mean(real) == pytest.approx(2 * S[P == 1].mean())
    rate = iso.Metric("high score", value=iso.col("s") > 0.5, where=iso.col("y") == 1, binary=True)
    assert mean(rate) == pytest.approx((S[Y == 1] > 0.5).mean())


def test_log_loss_of_a_certain_wrong_score_is_finite() -> None:
    assert np.isfinite(mean("log_loss", {"y": [1, 0], "s": [0.0, 1.0]}, outcome="y", score="s"))


def test_one_pass_serves_every_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    from isonomy.frames import source as module

    passes: list[object] = []
    original = module.aggregate
    monkeypatch.setattr(module, "aggregate", lambda *a: passes.append(a) or original(*a))
    source = open_source(TABLE)
    roles = {"outcome": "y", "prediction": "p"}
    requests = [measure(source, m, **roles).request for m in ("tpr", "fpr", "ppv", "npv", "accuracy")]
    source.prefetch(requests)
    for request in requests:
        source.cells(request)
    assert len(passes) == 1


@pytest.mark.parametrize(
    ("name", "ours"), [("true-positive rate", "tpr"), ("Precision", "ppv"), ("demographic_parity", "selection_rate")]
)
def test_names_that_others_use(name: str, ours: str) -> None:
    with pytest.raises(errors.UnknownOption, match=f"It is called '{ours}' here"):
        iso.flag({"y": [0, 1], "g": [0, 1]}, metric=name, groups="g", outcome="y", prediction="y")


def test_a_metric_of_text_is_refused() -> None:
    data = {"t": ["a", "b"], "g": [0, 1]}
    with pytest.raises(errors.UsageError, match="gives String; give numbers"):
        iso.flag(data, metric=iso.Metric("own", value=iso.col("t")), groups="g")
