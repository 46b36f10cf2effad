"""Predicted effects of groups, and adjusted arm means."""

from __future__ import annotations

import numpy as np
import pytest

import isonomy as iso
from isonomy.effects.estimators.collapse import COLLAPSES, FOLDS, CollapseName, Formula, cross_fitted, slopes
from isonomy.effects.estimators.moments import CONTROL, TREATED, ArmMoments

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
    "normalized": (H * F).sum() / H.sum(),
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
        measure=iso.relative(collapse, "baseline" if "h" in COLLAPSES[collapse][0] else None),
    )
    np.testing.assert_allclose(result.predicted, BY_HAND[collapse], rtol=1e-12)
    np.testing.assert_allclose(result.observed, (3 / 5) / (2 / 5), rtol=1e-12)
    np.testing.assert_allclose(result.estimate, BY_HAND[collapse] - 1.5, atol=1e-12)
    np.testing.assert_allclose(result.disparity, 0, atol=1e-12)


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
        measure=iso.relative(collapse, "h" if "h" in COLLAPSES[collapse][0] else None),
    )
    if collapse != "weighted":  # its weights have mean one only in expectation, one reason not to use it
        np.testing.assert_allclose(result.predicted, 1.3)


def test_slopes_are_those_of_least_squares_within_the_arm() -> None:
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(2, 200, 4))
    rows[..., 0] += 2 * rows[..., 2] - rows[..., 3]
    products = np.einsum("ani,anj->aij", rows, rows)[None]
    moments = ArmMoments.from_sums(
        ("y", "yf", "features[0]", "features[1]"), np.full((1, 2), 200.0), rows.sum(1)[None], products
    )
    fitted = slopes(moments, Formula(estimator="regression", covariates=("features[0]", "features[1]")))
    assert set(fitted) == {(CONTROL, "y"), (TREATED, "y"), (CONTROL, "yf")}
    for arm in (CONTROL, TREATED):
        design = np.column_stack([np.ones(200), rows[arm][:, 2:]])
        expected = np.linalg.lstsq(design, rows[arm][:, 0], rcond=None)[0][1:]
        np.testing.assert_allclose(fitted[arm, "y"][0], [0, 0, *expected], rtol=1e-9, atol=1e-12)


def test_a_row_takes_no_part_in_its_own_prediction() -> None:
    """The outcome of a row changes the predictions of the other folds, but not its own."""
    rng = np.random.default_rng(0)
    features, outcome, everybody = rng.normal(size=(300, 1)), rng.normal(size=300), np.ones(300, dtype=bool)
    moved = outcome.copy()
    moved[7] += 1_000

    def predicted(y: np.ndarray[tuple[int], np.dtype[np.float64]]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return cross_fitted(features, y, everybody, np.ones(300), np.random.default_rng(5))

    apart = predicted(moved) != predicted(outcome)
    assert not apart[7]
    assert apart.sum() > 300 / FOLDS / 2
