"""Predictions from models of any make."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression

import isonomy as iso
from isonomy.errors import DataError, UnknownOption, UsageError

X = np.array([[1.0, 0.0], [2.0, 1.0], [3.0, 0.0]])


class Effect:
    """As EconML: effect(X), one column."""

    def effect(self, X: Any) -> Any:
        return X[:, 0] * 0.1


class Several:
    """As causalml with two treatments: predict(X), one column each."""

    def predict(self, X: Any) -> Any:
        return np.stack([X[:, 0] * 0.1, X[:, 0] * 0.2], -1)


class Column:
    """As causalml with one treatment: predict(X) of shape (n, 1)."""

    def predict(self, X: Any) -> Any:
        return X[:, :1] * 0.1


@pytest.mark.parametrize("model", [Effect(), Column()])
def test_one_effect(model: object) -> None:
    np.testing.assert_allclose(iso.predicted_effects(model, X, measure="difference"), [0.1, 0.2, 0.3])


def test_several_effects_need_a_choice() -> None:
    np.testing.assert_allclose(iso.predicted_effects(Several(), X, measure="difference", column=1), [0.2, 0.4, 0.6])
    with pytest.raises(UsageError, match="2 effects"):
        iso.predicted_effects(Several(), X)


def test_between_measures() -> None:
    relative = iso.predicted_effects(Effect(), X, measure="relative", baseline=[0.5, 0.4, 0.3])
    np.testing.assert_allclose(relative, [1.2, 1.5, 2.0])

    class Ratio:
        def predict(self, X: Any) -> Any:
            return relative

    back = iso.predicted_effects(Ratio(), X, measure="difference", gives="relative", baseline=[0.5, 0.4, 0.3])
    np.testing.assert_allclose(back, [0.1, 0.2, 0.3])
    np.testing.assert_allclose(iso.predicted_effects(Ratio(), X, measure="relative", gives="relative"), relative)


def test_two_outcome_models() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(500, 2))
    control = LinearRegression().fit(x, 2 + x[:, 0])
    treated = LinearRegression().fit(x, 3 + x[:, 0])
    np.testing.assert_allclose(iso.predicted_effects((control, treated), X, measure="difference"), 1.0)
    np.testing.assert_allclose(iso.predicted_effects((control, treated), X), (3 + X[:, 0]) / (2 + X[:, 0]))
    y = (rng.random(500) < 0.4).astype(int)
    classifiers = LogisticRegression().fit(x, y), LogisticRegression().fit(x, 1 - y)
    effect = iso.predicted_effects(classifiers, x, measure="difference")
    np.testing.assert_allclose(effect, classifiers[1].predict_proba(x)[:, 1] - classifiers[0].predict_proba(x)[:, 1])
    level = iso.predicted_effects(Effect(), X, measure="relative", baseline=control)
    np.testing.assert_allclose(level, 1 + 0.1 * X[:, 0] / (2 + X[:, 0]))


def test_bad_models() -> None:
    with pytest.raises(UsageError, match="neither effect"):
        iso.predicted_effects(object(), X)
    with pytest.raises(UsageError, match="baseline"):
        iso.predicted_effects(Effect(), X, measure="relative")
    with pytest.raises(UsageError, match="2 values for 3 rows"):
        iso.predicted_effects(Effect(), X, measure="relative", baseline=[0.1, 0.2])
    with pytest.raises(DataError, match="1 rows"):
        iso.predicted_effects(Effect(), X, measure="relative", baseline=[0.1, 0.0, 0.3])
    with pytest.raises(UsageError, match="pair"):
        iso.predicted_effects((Effect(), Effect(), Effect()), X)
    others: list[dict[str, Any]] = [{"gives": "relative"}, {"baseline": [0.1, 0.2, 0.3]}]
    for options in others:
        with pytest.raises(UsageError, match=f"{next(iter(options))}: a pair of outcome models"):
            iso.predicted_effects((Effect(), Effect()), X, **options)
    with pytest.raises(UnknownOption, match="measure"):
        iso.predicted_effects(Effect(), X, measure="odds")  # type: ignore[arg-type]

    class Holes:
        def effect(self, X: Any) -> Any:
            return np.array([1.0, np.nan, 1.0])

    with pytest.raises(DataError, match="1 predicted effects"):
        iso.predicted_effects(Holes(), X, measure="difference")
