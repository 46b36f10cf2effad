"""Predicted effects of rows collapsed to the predicted effect of a group, by every estimator with a name.

A relative effect is collapsible with weights E[Y(0)|X] / E[Y(0)] (equation 6), so the predicted effect of a group is
P = M / m0, where m0 is the mean outcome of the controls and M = E[Y(0) f(X)] is the mean outcome that the model says
the group would have under treatment. Each estimator below is a formula for M. A difference has weights 1: P is the
plain mean of the predictions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from isonomy.numerics.arrays import FloatArray
from isonomy.options import Also
from isonomy.treatment.effects.moments import CONTROL, TREATED
from isonomy.treatment.effects.smooth import Arms, Smooth

Measure = Literal["relative", "difference"]
# What uplift analysts call the two.
CALLED = {
    "uplift": "difference",
    "incremental": "difference",
    "absolute": "difference",
    "risk_difference": "difference",
    "ate": "difference",
    "cate": "difference",
    "lift": "relative",
    "ratio": "relative",
    "risk_ratio": "relative",
    "relative_risk": "relative",
    "relative_uplift": "relative",
}
NamedMeasure = Annotated[Measure, Also(CALLED)]
CollapseName = Literal["control_outcome", "average", "weighted", "normalised", "positives", "positives_inverse"]
Estimator = Literal["arm_means", "regression", "aipw"]
Rest = Literal["standardised", "pooled"]


@dataclass(frozen=True, slots=True)
class Collapse:
    """One way to collapse relative effects: the columns it needs, and its formula for M."""

    columns: tuple[str, ...]
    formula: Callable[[Arms], Smooth]
    baseline: bool = False  # needs the predicted outcome without treatment


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


COLLAPSES: Mapping[CollapseName, Collapse] = {
    # Outcomes of the controls as weights: sum_c Y f / n_c. For 0/1 outcomes, f among the control positives.
    "control_outcome": Collapse(("y", "yf"), lambda arms: arms.control("yf")),
    # Plain average, equation (56): right only if Y(0) does not depend on X.
    "average": Collapse(("y", "f"), lambda arms: arms.control("y") * arms.overall("f")),
    # Predicted baselines as weights: divided by the control mean (16), or normalised to sum to one.
    "weighted": Collapse(("y", "h", "hf"), lambda arms: arms.overall("hf"), baseline=True),
    "normalised": Collapse(
        ("y", "h", "hf"), lambda arms: arms.control("y") * arms.overall("hf") / arms.overall("h"), baseline=True
    ),
    "positives": Collapse(("y", "yf"), _positives),
    "positives_inverse": Collapse(("y", "yf", "y/f"), _positives_inverse),
}


@dataclass(frozen=True, slots=True)
class Formula:
    """How the error of a group is computed from the means of its arms."""

    measure: Measure = "relative"
    collapse: CollapseName = "control_outcome"
    estimator: Estimator = "arm_means"
    covariates: tuple[str, ...] = ()
    rest: Rest = "standardised"
    outcomes: bool = True  # False: observed effects are brought, and nothing but predictions is read

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns whose moments it needs, in order."""
        names = COLLAPSES[self.collapse].columns if self.measure == "relative" else ("y", "f")
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


@dataclass(frozen=True, slots=True, eq=False)
class Pieces:
    """What effects are made of: predicted and observed tops over a shared bottom (1 for a difference)."""

    predicted: Smooth
    observed: Smooth
    bottom: Smooth


def pieces(arms: Arms, formula: Formula, known: FloatArray | None = None) -> Pieces:
    """Predicted effect = predicted / bottom, observed effect = observed / bottom.

    ``known``: each group's effect as the caller brought it, instead of the experiment's.
    """
    difference = formula.measure == "difference"
    if difference:
        predicted, bottom = arms.overall("f"), arms.constant(1.0)
    elif formula.outcomes:
        predicted, bottom = COLLAPSES[formula.collapse].formula(arms), arms.control("y")
    else:
        bottom = arms.overall("h")
        predicted = arms.overall("hf") if formula.collapse == "normalised" else arms.overall("f") * bottom
    if known is not None:
        return Pieces(predicted, bottom * known, bottom)
    treated = arms.treated("y")
    return Pieces(predicted, treated - arms.control("y") if difference else treated, bottom)
