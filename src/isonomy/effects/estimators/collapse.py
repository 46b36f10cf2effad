"""The predicted and the observed effect of a group, as formulas of arm means.

A relative effect is collapsible with weights E[Y(0)|X] / E[Y(0)] (equation 6), so the predicted effect of a group is
P = M / m0, where m0 is the mean outcome of the controls and M = E[Y(0) f(X)] is the mean outcome that the model says
the group would have under treatment. Each collapse below is a formula for M. A difference has weights 1: P is the
plain mean of the predictions. Arm means can be adjusted for covariates, by least squares within each arm or by
predictions fitted on other rows.

Every estimator is a smooth function of a few means within the two arms of each group. Its derivative with respect to
those means is the influence function: a row of arm ``a`` moves it by ``gradient[a] @ (row - mean[a]) / n[a]``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from isonomy.effects.estimators.moments import CONTROL, TREATED, ArmMoments
from isonomy.numerics.arrays import AnyArray, BoolArray, FloatArray
from isonomy.options import COLUMN, NAMES, Also, Form, Option

Measure = Literal["relative", "difference"]
# What uplift analysts call the two.
CALLED = {
    **dict.fromkeys(("uplift", "incremental", "absolute", "risk_difference", "ate", "cate"), "difference"),
    **dict.fromkeys(("lift", "ratio", "risk_ratio", "relative_risk", "relative_uplift"), "relative"),
}
NamedMeasure = Annotated[Measure, Also(CALLED)]
CollapseName = Literal["control_outcome", "average", "weighted", "normalized", "positives", "positives_inverse"]
EstimatorName = Literal["arm_means", "regression", "aipw"]
Rest = Literal["standardized", "pooled"]
ObservedEffects = Annotated[Mapping[str, tuple[float, float]] | str, Form("observed_effects")]


@dataclass(frozen=True)
class Relative(Option):
    """Effects are ratios of mean outcomes; ``collapse`` says how those of rows become that of a group.

    Parameters
    ----------
    collapse : str, default "control_outcome"
        The weights of the predicted effects. "control_outcome": the outcomes of the controls. "average" (equation 56):
        none, which is right only if outcomes without treatment do not depend on the variables behind the predictions.
        "weighted" (16) and "normalized": the predicted outcomes without treatment, divided by the control mean or by
        their own sum; they need a ``baseline``. "positives" (20) and "positives_inverse": positive outcomes of both
        arms.
    baseline : str, optional
        Column with the predicted outcome without treatment.
    """

    name: ClassVar[str] = "relative"
    collapse: CollapseName | None = None
    baseline: Annotated[Any, COLUMN] | int | None = None  # a number is a column of X in `EffectCorrector`


@dataclass(frozen=True)
class ArmMeans(Option):
    """Observed effects from arm means, and how a group is compared with the others.

    Parameters
    ----------
    propensity : str, optional
        Column with the known probability of treatment, if it differs between rows: rows are weighted by its inverse.
    observed_effects : mapping of str to (float, float), or str, optional
        {group: (effect, standard error)}, for effects estimated elsewhere (section 5.1), by label ("country=DE") or by
        value ("DE"); a group that is not in the data is refused. ``treatment`` and ``outcome`` may then be left out. In
        `isonomy.treatment_bias` also "independent": predicted and observed effects come from random halves of the rows
        (Assumption 1); or a 0/1 column: 0 for rows of predictions, 1 for rows in which effects are observed.
    rest : {"standardized", "pooled"}, default "standardized"
        What a group is compared with: the other groups, each with its share of rows, or the paper's pooled rows.
    """

    name: ClassVar[str] = "arm_means"
    propensity: Annotated[Any, COLUMN] | int | None = None  # a number is a column of X in `EffectCorrector`
    observed_effects: ObservedEffects | None = None
    rest: Rest = "standardized"


@dataclass(frozen=True)
class Regression(Option):
    """Observed effects adjusted for numeric columns, by least squares within each arm of each group.

    Parameters
    ----------
    features : str or list of str
        The columns.
    """

    name: ClassVar[str] = "regression"
    features: Annotated[Any, NAMES]


@dataclass(frozen=True)
class Aipw(Option):
    """Observed effects adjusted by cross-fitted gradient boosting, which reads the columns into memory.

    Parameters
    ----------
    features : str or list of str
        Numeric columns that the outcome is predicted from.
    """

    name: ClassVar[str] = "aipw"
    features: Annotated[Any, NAMES]


@dataclass(frozen=True)
class Arms(Option):
    """Several treatments, each compared with the same control; ``effect`` then has a column for each of them.

    Parameters
    ----------
    column : str
        Column with the arm of each row.
    control : str
        The value of the arm without treatment.
    """

    name: ClassVar[str] = "arms"
    column: Annotated[Any, COLUMN]
    control: str


AnyMeasure = NamedMeasure | Relative
Estimator = Literal["arm_means"] | ArmMeans | Regression | Aipw


def _positives(arms: ArmMoments, *, inverse: bool = False) -> AnyArray:
    """Positive outcomes of both arms, equation (20): (c lambda^2 + t psi) / (c lambda + t).

    ``inverse``: treated outcomes are weighted by 1/f instead, (sum_c f + t) / (c + sum_t 1/f).
    """
    n0, n1 = arms.n[..., CONTROL], arms.n[..., TREATED]
    control, treated = arms.arm_mean(CONTROL, "y") * n0, arms.arm_mean(TREATED, "y") * n1  # numbers of events
    weighted = arms.arm_mean(CONTROL, "yf") * n0
    if inverse:
        share = (weighted + treated) / (control + arms.arm_mean(TREATED, "y/f") * n1)
    else:
        share = (weighted * (weighted / control) + arms.arm_mean(TREATED, "yf") * n1) / (weighted + treated)
    return arms.arm_mean(CONTROL, "y") * share


# The columns that each collapse of relative effects needs ("h": the predicted outcome without treatment), and its M.
COLLAPSES: Mapping[CollapseName, tuple[tuple[str, ...], Callable[[ArmMoments], AnyArray]]] = {
    # Outcomes of the controls as weights: sum_c Y f / n_c. For 0/1 outcomes, f among the control positives.
    "control_outcome": (("y", "yf"), lambda arms: arms.arm_mean(CONTROL, "yf")),
    # Plain average, equation (56): right only if Y(0) does not depend on X.
    "average": (("y", "f"), lambda arms: arms.arm_mean(CONTROL, "y") * arms.overall("f")),
    # Predicted baselines as weights: divided by the control mean (16), or normalized to sum to one.
    "weighted": (("y", "h", "hf"), lambda arms: arms.overall("hf")),
    "normalized": (("y", "h", "hf"), lambda arms: arms.arm_mean(CONTROL, "y") * arms.overall("hf") / arms.overall("h")),
    "positives": (("y", "yf"), _positives),
    "positives_inverse": (("y", "yf", "y/f"), partial(_positives, inverse=True)),
}


@dataclass(frozen=True, slots=True)
class Formula:
    measure: Measure = "relative"
    collapse: CollapseName = "control_outcome"
    estimator: EstimatorName = "arm_means"
    covariates: tuple[str, ...] = ()
    rest: Rest = "standardized"
    outcomes: bool = True  # False: observed effects are given, and only predictions are read

    @property
    def columns(self) -> tuple[str, ...]:
        names = COLLAPSES[self.collapse][0] if self.measure == "relative" else ("y", "f")
        if not self.outcomes:  # the predicted baseline stands for the control mean
            names = tuple(name for name in names if name != "y")
            return tuple(dict.fromkeys((*names, "h"))) if self.measure == "relative" else names
        if self.estimator == "aipw":
            return (*names, "p0", "p1", "fp0") if "yf" in names else (*names, "p0", "p1")
        return (*names, *self.covariates) if self.estimator == "regression" else names

    @property
    def lost(self) -> int:
        """Coefficients fitted within each arm of each group."""
        return len(self.covariates) if self.estimator == "regression" else 0


def pieces(
    moments: ArmMoments, formula: Formula, known: FloatArray | None = None, fitted: ArmMoments | None = None
) -> AnyArray:
    """Tops and bottom of the effects of each group (first axis): predicted = first / third, observed = second / third.

    The bottom of a difference is 1. ``known``: effects and standard errors (last axis) that the caller gives instead of
    the experiment's. ``fitted``: the moments that slopes of an adjustment come from, if ``moments`` has no covariances.
    """
    return _pieces(replace(moments, slopes=slopes(moments if fitted is None else fitted, formula)), formula, known)


def _pieces(arms: ArmMoments, formula: Formula, known: FloatArray | None) -> AnyArray:
    difference = formula.measure == "difference"
    with np.errstate(divide="ignore", invalid="ignore"):
        if difference:
            predicted, bottom = arms.overall("f"), np.ones(arms.n.shape[:-1])
        elif formula.outcomes:
            predicted, bottom = COLLAPSES[formula.collapse][1](arms), arms.arm_mean(CONTROL, "y")
        else:
            bottom = arms.overall("h")
            predicted = arms.overall("hf") if formula.collapse == "normalized" else arms.overall("f") * bottom
        if known is not None:
            return np.stack([predicted, bottom * known[..., 0], bottom])
        treated = arms.arm_mean(TREATED, "y")
        return np.stack([predicted, treated - arms.arm_mean(CONTROL, "y") if difference else treated, bottom])


def gradients(moments: ArmMoments, formula: Formula, known: FloatArray | None = None) -> FloatArray:
    """Derivatives of `pieces` with respect to the arm means, shape ``(3, ..., G, 2, k)``.

    Complex steps, f(x + ih) = f(x) + ih f'(x): exact to rounding, because nothing cancels.
    """
    step, gradient = 1e-150, np.zeros((3, *moments.mean.shape))  # far below any unit of the outcome
    adjusted = slopes(moments, formula)
    for place in np.ndindex(moments.mean.shape[-2:]):
        means = moments.mean.astype(complex)
        means[..., *place] += 1j * step
        gradient[..., *place] = _pieces(replace(moments, mean=means, slopes=adjusted), formula, known).imag / step
    return gradient


FOLDS = 3


def slopes(moments: ArmMoments, formula: Formula) -> dict[tuple[int, str], FloatArray]:
    """How each arm mean is adjusted for covariates: not at all, by least squares, or by given predictions.

    Least squares within each arm of each group (Lin 2013), from the covariances alone. The predictions of AIPW enter
    with slope one: mean of the prediction over everybody plus mean residual of the arm, the treated share being known.
    """
    adjusted = {}
    predictions = {(CONTROL, "y"): "p0", (TREATED, "y"): "p1", (CONTROL, "yf"): "fp0"}
    for (arm, name), prediction in predictions.items() if formula.estimator != "arm_means" else ():
        if name in moments.columns:
            regression = formula.estimator == "regression"
            columns = [moments.columns.index(c) for c in (formula.covariates if regression else (prediction,))]
            slope = np.zeros((*moments.mean.shape[:-2], len(moments.columns)))
            slope[..., columns] = _least_squares(moments, arm, name, columns) if regression else 1.0
            adjusted[arm, name] = slope
    return adjusted


def _least_squares(moments: ArmMoments, arm: int, name: str, columns: Sequence[int]) -> FloatArray:
    assert moments.cov is not None
    cov = moments.cov[..., arm, :, :]
    inside = cov[..., columns, :][..., :, columns]
    # Features may be constant or collinear within a group; the pseudo-inverse leaves those directions out.
    scale = np.sqrt(np.maximum(np.diagonal(inside, axis1=-2, axis2=-1), 0))
    scale = np.where(scale > 0, scale, 1.0)
    correlation = inside / (scale[..., :, None] * scale[..., None, :])
    target = cov[..., columns, moments.columns.index(name)] / scale
    return (np.linalg.pinv(correlation, rcond=1e-10, hermitian=True) @ target[..., None])[..., 0] / scale


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
