"""Slopes against least squares, and predictions that no row took part in."""

from __future__ import annotations

import numpy as np

from isonomy.treatment.effects.adjust import FOLDS, cross_fitted, slopes
from isonomy.treatment.effects.collapse import Formula
from isonomy.treatment.effects.moments import CONTROL, TREATED, Moments


def test_slopes_are_those_of_least_squares_within_the_arm() -> None:
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(2, 200, 4))
    rows[..., 0] += 2 * rows[..., 2] - rows[..., 3]
    products = np.einsum("ani,anj->aij", rows, rows)[None]
    moments = Moments.from_sums(("y", "yf", "x:0", "x:1"), np.full((1, 2), 200.0), rows.sum(1)[None], products)
    fitted = slopes(moments, Formula(estimator="regression", covariates=("x:0", "x:1")))
    assert set(fitted) == {(CONTROL, "y"), (TREATED, "y"), (CONTROL, "yf")}
    for arm in (CONTROL, TREATED):
        design = np.column_stack([np.ones(200), rows[arm][:, 2:]])
        expected = np.linalg.lstsq(design, rows[arm][:, 0], rcond=None)[0][1:]
        np.testing.assert_allclose(fitted[arm, "y"][0], [0, 0, *expected], rtol=1e-9, atol=1e-12)


def test_predictions_enter_with_slope_one() -> None:
    moments = Moments(("y", "f", "p0", "p1"), np.ones((1, 2)), np.ones((1, 2, 4)), None)
    fitted = slopes(moments, Formula("difference", "average", "aipw", ("x:0",)))
    np.testing.assert_array_equal(fitted[CONTROL, "y"], [[0, 0, 1, 0]])
    np.testing.assert_array_equal(fitted[TREATED, "y"], [[0, 0, 0, 1]])
    assert slopes(moments, Formula()) == {}


def test_a_row_takes_no_part_in_its_own_prediction() -> None:
    """One row's outcome moves the predictions of the other folds, and not its own."""
    rng = np.random.default_rng(0)
    features, outcome, everybody = rng.normal(size=(300, 1)), rng.normal(size=300), np.ones(300, dtype=bool)
    moved = outcome.copy()
    moved[7] += 1_000

    def predicted(y: np.ndarray[tuple[int], np.dtype[np.float64]]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return cross_fitted(features, y, everybody, np.ones(300), np.random.default_rng(5))

    apart = predicted(moved) != predicted(outcome)
    assert not apart[7]
    assert apart.sum() > 300 / FOLDS / 2


def test_an_arm_without_rows_is_predicted_by_the_mean() -> None:
    outcome = np.arange(9.0)
    nobody = np.zeros(9, dtype=bool)
    predicted = cross_fitted(np.zeros((9, 1)), outcome, nobody, np.ones(9), np.random.default_rng(0))
    np.testing.assert_array_equal(predicted, 4.0)
