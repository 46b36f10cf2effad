"""Arm means adjusted for covariates: by least squares within each arm, or by predictions fitted on other rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from isonomy.numerics.arrays import BoolArray, FloatArray
from isonomy.treatment.effects.collapse import Formula
from isonomy.treatment.effects.moments import CONTROL, TREATED, Moments

FOLDS = 3


def slopes(moments: Moments, formula: Formula) -> dict[tuple[int, str], FloatArray]:
    """How each arm mean is adjusted for covariates: not at all, by least squares, or by given predictions.

    Least squares within each arm of each group (Lin 2013), from the covariances alone. The predictions of AIPW enter
    with slope one: mean of the prediction over everybody plus mean residual of the arm, the treated share being known.
    """
    predictions = {(CONTROL, "y"): "p0", (TREATED, "y"): "p1", (CONTROL, "yf"): "fp0"}
    adjusted = {key: name for key, name in predictions.items() if key[1] in moments.columns}
    if formula.estimator == "regression":
        at = [moments.columns.index(name) for name in formula.covariates]
        return {(arm, name): _least_squares(moments, arm, name, at) for arm, name in adjusted}
    if formula.estimator == "aipw":
        return {key: _slope(moments, [moments.columns.index(name)], 1.0) for key, name in adjusted.items()}
    return {}


def _least_squares(moments: Moments, arm: int, name: str, at: Sequence[int]) -> FloatArray:
    assert moments.cov is not None
    cov = moments.cov[..., arm, :, :]
    inside = cov[..., at, :][..., :, at]
    # Features may be constant or collinear within a group; the pseudo-inverse leaves those directions out.
    scale = np.sqrt(np.maximum(np.diagonal(inside, axis1=-2, axis2=-1), 0))
    scale = np.where(scale > 0, scale, 1.0)
    correlation = inside / (scale[..., :, None] * scale[..., None, :])
    target = cov[..., at, moments.columns.index(name)] / scale
    coefficient = (np.linalg.pinv(correlation, rcond=1e-10, hermitian=True) @ target[..., None])[..., 0] / scale
    return _slope(moments, at, coefficient)


def _slope(moments: Moments, at: Sequence[int], coefficient: FloatArray | float) -> FloatArray:
    """Coefficients of some columns among those of all."""
    slope = np.zeros((*moments.mean.shape[:-2], len(moments.columns)))
    slope[..., at] = coefficient
    return slope


def cross_fitted(
    features: FloatArray, outcome: FloatArray, in_arm: BoolArray, weight: FloatArray, rng: np.random.Generator
) -> FloatArray:
    """For every row, the mean outcome of one arm as predicted by a model fitted on the other folds of that arm."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    fold = rng.permutation(np.arange(len(outcome)) % FOLDS)
    predicted = np.full(len(outcome), np.average(outcome, weights=weight))
    for k in range(FOLDS):
        fit, use = in_arm & (fold != k), fold == k
        if fit.sum() >= 2 and use.any():
            seed = int(rng.integers(2**31))
            model = HistGradientBoostingRegressor(max_iter=50, early_stopping=False, random_state=seed)
            predicted[use] = model.fit(features[fit], outcome[fit], sample_weight=weight[fit]).predict(features[use])
    return predicted
