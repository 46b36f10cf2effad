"""The collapsing estimators on rows small enough for arithmetic by hand."""

from __future__ import annotations

import numpy as np
import pytest

import isonomy as iso
from isonomy.treatment.effects.collapse import COLLAPSES, CollapseName, Formula

# Ten rows of one group: control outcomes 1 1 0 0 0, treated outcomes 1 1 1 0 0. A second group makes a rest.
F = np.array([1.0, 2.0, 1.0, 1.5, 0.5, 1.0, 2.0, 4.0, 1.0, 3.0])
Y = np.array([1, 1, 0, 0, 0, 1, 1, 1, 0, 0])
T = np.array([0] * 5 + [1] * 5)
H = np.array([0.4, 0.6, 0.2, 0.2, 0.1, 0.3, 0.5, 0.9, 0.1, 0.7])


def trial_rows() -> dict[str, object]:
    return {
        "group": ["a"] * 10 + ["b"] * 10,
        "effect": np.tile(F, 2),
        "outcome": np.tile(Y, 2),
        "treatment": np.tile(T, 2),
        "baseline": np.tile(H, 2),
    }


BY_HAND = {
    "control_outcome": (1.0 + 2.0) / 2,
    "average": F.mean(),
    "weighted": (H * F).mean() / 0.4,
    "normalised": (H * F).sum() / H.sum(),
    # c = 2, t = 3, lambda = 3 / 2, psi = 7 / 3
    "positives": (2 * 1.5**2 + 3 * (7 / 3)) / (2 * 1.5 + 3),
    "positives_inverse": (3.0 + 3) / (2 + (1 + 1 / 2 + 1 / 4)),
}


@pytest.mark.parametrize("collapse", COLLAPSES)
def test_by_hand(collapse: CollapseName) -> None:
    result = iso.treatment_bias(
        trial_rows(),
        effect="effect",
        treatment="treatment",
        outcome="outcome",
        groups="group",
        baseline="baseline" if COLLAPSES[collapse].baseline else None,
        collapse=collapse,
    )
    np.testing.assert_allclose(result.predicted, BY_HAND[collapse], rtol=1e-12)
    np.testing.assert_allclose(result.observed, (3 / 5) / (2 / 5), rtol=1e-12)
    np.testing.assert_allclose(result.error, BY_HAND[collapse] - 1.5, atol=1e-12)
    np.testing.assert_allclose(result.bias, 0, atol=1e-12)


def test_differences_are_averaged() -> None:
    result = iso.treatment_bias(
        trial_rows(), effect="effect", treatment="treatment", outcome="outcome", groups="group", measure="difference"
    )
    np.testing.assert_allclose(result.predicted, F.mean())
    np.testing.assert_allclose(result.observed, 0.6 - 0.4)


@pytest.mark.parametrize("collapse", COLLAPSES)
def test_a_constant_effect_collapses_to_itself(collapse: CollapseName) -> None:
    rng = np.random.default_rng(0)
    n = 400
    columns = {"g": rng.integers(0, 2, n), "t": rng.integers(0, 2, n), "y": rng.integers(0, 2, n), "f": np.full(n, 1.3)}
    columns["h"] = np.full(n, columns["y"][columns["t"] == 0].mean())
    result = iso.treatment_bias(
        columns,
        effect="f",
        treatment="t",
        outcome="y",
        groups="g",
        baseline="h" if COLLAPSES[collapse].baseline else None,
        collapse=collapse,
    )
    if collapse != "weighted":  # its weights have mean one only in expectation: one reason not to use it
        np.testing.assert_allclose(result.predicted, 1.3)


def test_columns_in_order() -> None:
    assert Formula().columns == ("y", "yf")
    assert Formula(measure="difference", collapse="average").columns == ("y", "f")
    assert Formula(estimator="regression", covariates=("x:0",)).columns == ("y", "yf", "x:0")
    assert Formula(estimator="aipw", covariates=("x:0",)).columns == ("y", "yf", "p0", "p1", "fp0")
    assert Formula(collapse="average", outcomes=False).columns == ("f", "h")
    assert Formula(collapse="normalised", outcomes=False).columns == ("h", "hf")
    assert Formula(measure="difference", collapse="average", outcomes=False).columns == ("f",)
