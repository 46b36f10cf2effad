"""The collapsing estimators on rows small enough for arithmetic by hand."""

from __future__ import annotations

import numpy as np
import pytest

import isonomy as iso
from isonomy.errors import MissingRole, UnknownOption, UsageError
from isonomy.treatment.collapse import COLLAPSES, choose_collapse

# Ten rows of one group: control outcomes 1 1 0 0 0, treated outcomes 1 1 1 0 0. A second group makes a rest.
F = np.array([1.0, 2.0, 1.0, 1.5, 0.5, 1.0, 2.0, 4.0, 1.0, 3.0])
Y = np.array([1, 1, 0, 0, 0, 1, 1, 1, 0, 0])
T = np.array([0] * 5 + [1] * 5)
H = np.array([0.4, 0.6, 0.2, 0.2, 0.1, 0.3, 0.5, 0.9, 0.1, 0.7])


def table() -> dict[str, object]:
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
def test_by_hand(collapse: str) -> None:
    result = iso.treatment_bias(
        table(),
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
        table(), effect="effect", treatment="treatment", outcome="outcome", groups="group", measure="difference"
    )
    np.testing.assert_allclose(result.predicted, F.mean())
    np.testing.assert_allclose(result.observed, 0.6 - 0.4)


@pytest.mark.parametrize("collapse", COLLAPSES)
def test_a_constant_effect_collapses_to_itself(collapse: str) -> None:
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


def test_the_default_follows_the_measure() -> None:
    assert choose_collapse(None, "relative", None) == "control_outcome"
    assert choose_collapse(None, "difference", None) == "average"


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(UsageError, match="difference"):
        choose_collapse("control_outcome", "difference", None)
    with pytest.raises(MissingRole, match="baseline"):
        choose_collapse("normalised", "relative", None)
    with pytest.raises(UnknownOption, match="Did you mean 'control_outcome'"):
        choose_collapse("control_outcomes", "relative", None)
    with pytest.raises(UnknownOption, match="measure"):
        choose_collapse(None, "ratio", None)
