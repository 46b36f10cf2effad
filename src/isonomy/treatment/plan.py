"""What a caller asked for, checked once: roles, effect measure, estimators, variance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from isonomy.errors import MissingRole, UsageError, choose, fraction
from isonomy.treatment.collapse import COLLAPSES, ESTIMATORS, choose_collapse, columns_of

VARIANCES = ("influence", "bootstrap", "bootstrap_rows")
RESTS = ("standardised", "pooled")
FEATURE = "x:"  # a feature's column, so that its name cannot clash with "y", "f" or "h"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A checked request. ``columns`` are the functions of a row whose moments it needs."""

    effect: str
    groups: object
    treatment: str | None
    outcome: str | None
    baseline: str | None
    measure: str
    collapse: str
    estimator: str
    features: tuple[str, ...]
    rest: str
    variance: str
    resamples: int
    columns: tuple[str, ...]
    observed_effects: Mapping[str, tuple[float, float]] | None = None
    depth: int = 1

    @property
    def options(self) -> dict[str, Any]:
        """What was asked for, as the caller would write it."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name != "columns"}

    @property
    def covariates(self) -> tuple[str, ...]:
        """The features' columns."""
        return tuple(f"{FEATURE}{name}" for name in self.features)

    @property
    def lost(self) -> int:
        """Coefficients fitted within each arm of each group."""
        return len(self.features) if self.estimator == "regression" else 0


def make_plan(
    *,
    effect: str,
    groups: object,
    treatment: str | None,
    outcome: str | None,
    baseline: str | None = None,
    measure: str = "relative",
    collapse: str | None = None,
    estimator: str = "arm_means",
    features: Sequence[str] | str | None = None,
    rest: str = "standardised",
    variance: str = "influence",
    resamples: int = 1_000,
    observed_effects: Mapping[str, tuple[float, float]] | None = None,
    depth: int = 1,
) -> Plan:
    """Check the options against each other; no column is looked at yet."""
    names = (features,) if isinstance(features, str) else tuple(features or ())
    experiment = treatment is not None and outcome is not None
    if not experiment:
        if observed_effects is None:
            raise MissingRole(
                "treatment, outcome: name both columns of the experiment, or bring each group's effect with its "
                "standard error as observed_effects."
            )
        collapse = _without_outcomes(collapse, measure, baseline)
    collapse = choose_collapse(collapse, measure, baseline)
    if experiment and baseline is not None and (measure == "difference" or not COLLAPSES[collapse].baseline):
        raise UsageError(
            f"baseline: measure={measure!r} with collapse={collapse!r} does not look at it; leave it out, or choose "
            'collapse="weighted" or "normalised" of a relative effect.'
        )
    if observed_effects is not None and (rest, variance, estimator) != ("standardised", "influence", "arm_means"):
        raise UsageError(
            'observed_effects: effects brought with standard errors need rest="standardised", variance="influence" and '
            'estimator="arm_means".'
        )
    choose("estimator", estimator, ESTIMATORS)
    if (estimator != "arm_means") != bool(names):
        raise MissingRole(
            f'features: estimator={estimator!r} {"takes no" if names else "needs"} features; "regression" and "aipw" '
            'adjust for the numeric columns named there, "arm_means" does not.'
        )
    if isinstance(resamples, bool) or not isinstance(resamples, int) or resamples < 2:
        raise UsageError(f"resamples: {resamples!r}; give a whole number from 2 up.")
    covariates = [f"{FEATURE}{name}" for name in names]
    columns = columns_of(collapse, measure, estimator, covariates)
    if not experiment:
        columns = tuple(c for c in dict.fromkeys((*columns, *(("h",) if baseline else ()))) if c != "y")
    return Plan(
        effect=effect,
        groups=groups,
        treatment=treatment if experiment else None,
        outcome=outcome if experiment else None,
        baseline=baseline,
        measure=measure,
        collapse=collapse,
        estimator=estimator,
        features=names,
        rest=choose("rest", rest, RESTS),
        variance=choose("variance", variance, VARIANCES),
        resamples=resamples,
        columns=columns,
        observed_effects=observed_effects,
        depth=depth,
    )


def _without_outcomes(collapse: str | None, measure: str, baseline: str | None) -> str | None:
    """Collapsing when only predictions are there: outcomes cannot be the weights."""
    if measure == "difference":
        return collapse
    if baseline is None:
        raise MissingRole(
            "baseline: without outcomes, relative effects are weighed by the predicted outcome without treatment; "
            'name its column, or use measure="difference".'
        )
    name = collapse or "normalised"
    if name in COLLAPSES and name not in ("normalised", "average"):
        raise MissingRole(
            f'collapse: {name!r} uses outcomes; without treatment and outcome use "normalised" or "average".'
        )
    return name


def check_level(alpha: float, tolerance: float | None, power: float) -> None:
    """The error rate, the tolerance and the power lie where they must."""
    fraction("alpha", alpha)
    fraction("power", power)
    if tolerance is not None and not (isinstance(tolerance, (int, float)) and 0 < tolerance < float("inf")):
        raise UsageError(f"tolerance: {tolerance!r}; give a positive number in units of the effect, or None.")
