"""Predicted effects of rows collapsed to the predicted effect of a group, by every estimator with a name.

A relative effect is collapsible with weights E[Y(0)|X] / E[Y(0)] (equation 6), so the predicted effect of a group is
P = M / m0, where m0 is the mean outcome of the controls and M = E[Y(0) f(X)] is the mean outcome that the model says
the group would have under treatment. Each estimator below is a formula for M. A difference has weights 1: P is the
plain mean of the predictions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from isonomy.errors import MissingRole, UsageError, choose
from isonomy.numerics.arrays import FloatArray
from isonomy.treatment.moments import CONTROL, TREATED, Arms, Moments
from isonomy.treatment.smooth import Smooth

MEASURES = ("relative", "difference")
ESTIMATORS = ("arm_means", "regression", "aipw")


@dataclass(frozen=True, slots=True)
class Collapse:
    """One way to collapse relative effects: the columns it needs, and its formula for M."""

    columns: tuple[str, ...]
    formula: Callable[[Arms], Smooth]
    baseline: bool = False  # needs the predicted outcome without treatment

    @property
    def outcomes(self) -> bool:
        """Whether the formula looks at outcomes."""
        return any(name.startswith("y") for name in self.columns)


def _control_outcome(arms: Arms) -> Smooth:
    """Outcomes of the controls as weights: sum_c Y f / n_c. For 0/1 outcomes, f among the control positives."""
    return arms.control("yf")


def _average(arms: Arms) -> Smooth:
    """Plain average, equation (56): right only if Y(0) does not depend on X."""
    return arms.control("y") * arms.overall("f")


def _weighted(arms: Arms) -> Smooth:
    """Predicted baselines as weights, divided by the control mean: equation (16)."""
    return arms.overall("hf")


def _normalised(arms: Arms) -> Smooth:
    """Predicted baselines as weights, normalised to sum to one."""
    return arms.control("y") * arms.overall("hf") / arms.overall("h")


def _positives(arms: Arms) -> Smooth:
    """Positive outcomes of both arms, equation (20): (c lambda^2 + t psi) / (c lambda + t)."""
    events_control, events_treated, sum_control, sum_treated = _event_sums(arms)
    mean_control = sum_control / events_control
    top = sum_control * mean_control + sum_treated
    return arms.control("y") * top / (sum_control + events_treated)


def _positives_inverse(arms: Arms) -> Smooth:
    """Positive outcomes of both arms, treated ones by 1/f: (sum_c f + t) / (c + sum_t 1/f)."""
    events_control, events_treated, sum_control, _ = _event_sums(arms)
    inverse = arms.treated("y/f") * arms.moments.n[..., TREATED]
    return arms.control("y") * (sum_control + events_treated) / (events_control + inverse)


def _event_sums(arms: Arms) -> tuple[Smooth, Smooth, Smooth, Smooth]:
    n_control, n_treated = arms.moments.n[..., CONTROL], arms.moments.n[..., TREATED]
    return (
        arms.control("y") * n_control,
        arms.treated("y") * n_treated,
        arms.control("yf") * n_control,
        arms.treated("yf") * n_treated,
    )


COLLAPSES: Mapping[str, Collapse] = {
    "control_outcome": Collapse(("y", "yf"), _control_outcome),
    "average": Collapse(("y", "f"), _average),
    "weighted": Collapse(("y", "h", "hf"), _weighted, baseline=True),
    "normalised": Collapse(("y", "h", "hf"), _normalised, baseline=True),
    "positives": Collapse(("y", "yf"), _positives),
    "positives_inverse": Collapse(("y", "yf", "y/f"), _positives_inverse),
}


def choose_collapse(collapse: str | None, measure: str, baseline: str | None) -> str:
    """The estimator to use: the named one if it fits, else the default of the measure."""
    choose("measure", measure, MEASURES)
    if measure == "difference":
        if collapse not in (None, "average"):
            raise UsageError(
                f"collapse: {collapse!r} weighs by the baseline, which a relative effect needs and a difference does "
                'not; with measure="difference" leave it out or give "average".'
            )
        return "average"
    name = choose("collapse", collapse or "control_outcome", COLLAPSES)
    if COLLAPSES[name].baseline and baseline is None:
        raise MissingRole(
            f"baseline: collapse={name!r} weighs by the predicted outcome without treatment; name its column."
        )
    return name


def columns_of(collapse: str, measure: str, estimator: str, features: Sequence[str]) -> tuple[str, ...]:
    """The columns whose moments an analysis needs, in order."""
    names = COLLAPSES[collapse].columns if measure == "relative" else ("y", "f")
    extra: Sequence[str] = ()
    if estimator == "regression":
        extra = features
    elif estimator == "aipw":
        extra = ("p0", "p1", "fp0") if "yf" in names else ("p0", "p1")
    return tuple(dict.fromkeys((*names, *extra)))


@dataclass(frozen=True, slots=True, eq=False)
class Pieces:
    """What effects are made of: predicted and observed tops over a shared bottom (1 for a difference)."""

    predicted: Smooth
    observed: Smooth
    bottom: Smooth


def pieces(arms: Arms, measure: str, collapse: str, known: FloatArray | None = None) -> Pieces:
    """Predicted effect = predicted / bottom, observed effect = observed / bottom.

    ``known``: each group's effect as the caller brought it, instead of the experiment's.
    """
    if measure == "difference":
        predicted, bottom = arms.overall("f"), arms.constant(1.0)
    elif "y" in arms.moments.columns:
        predicted, bottom = COLLAPSES[collapse].formula(arms), arms.control("y")
    else:  # no outcomes: the predicted baseline stands for the control mean
        bottom = arms.overall("h")
        predicted = arms.overall("hf") if collapse == "normalised" else arms.overall("f") * bottom
    if known is not None:
        return Pieces(predicted, bottom * known, bottom)
    treated = arms.treated("y")
    return Pieces(predicted, treated - arms.control("y") if measure == "difference" else treated, bottom)


def slopes(moments: Moments, estimator: str, features: Sequence[str]) -> dict[tuple[int, str], FloatArray]:
    """How each arm mean is adjusted for covariates: not at all, by least squares, or by given predictions.

    Least squares within each arm of each group (Lin 2013), from the covariances alone. The predictions of AIPW enter
    with slope one: mean of the prediction over everybody plus mean residual of the arm, the treated share being known.
    """
    adjusted = [(CONTROL, "y"), (TREATED, "y"), (CONTROL, "yf")]
    adjusted = [(arm, name) for arm, name in adjusted if name in moments.columns]
    if estimator == "regression":
        at = [moments.columns.index(name) for name in features]
        return {(arm, name): _least_squares(moments, arm, name, at) for arm, name in adjusted}
    if estimator == "aipw":
        prediction = {(CONTROL, "y"): "p0", (TREATED, "y"): "p1", (CONTROL, "yf"): "fp0"}
        return {key: _unit(moments, prediction[key]) for key in adjusted}
    return {}


def _least_squares(moments: Moments, arm: int, name: str, at: list[int]) -> FloatArray:
    assert moments.cov is not None
    cov = moments.cov[..., arm, :, :]
    inside = cov[..., at, :][..., :, at]
    # Features may be constant or collinear within a group; the pseudo-inverse leaves those directions out.
    scale = np.sqrt(np.maximum(np.diagonal(inside, axis1=-2, axis2=-1), 0))
    scale = np.where(scale > 0, scale, 1.0)
    correlation = inside / (scale[..., :, None] * scale[..., None, :])
    target = cov[..., at, moments.columns.index(name)] / scale
    coefficient = (np.linalg.pinv(correlation, rcond=1e-10, hermitian=True) @ target[..., None])[..., 0] / scale
    slope = np.zeros((*moments.mean.shape[:-2], len(moments.columns)))
    slope[..., at] = coefficient
    return slope


def _unit(moments: Moments, name: str) -> FloatArray:
    slope = np.zeros((*moments.mean.shape[:-2], len(moments.columns)))
    slope[..., moments.columns.index(name)] = 1.0
    return slope
