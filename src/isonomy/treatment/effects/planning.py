"""How many rows a test of bias needs: from the variance of one row, and from the events it must see."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from isonomy.errors import UsageError
from isonomy.numerics.arrays import FloatArray
from isonomy.treatment.effects.collapse import Measure
from isonomy.treatment.effects.ratio import t_critical

Sizes = dict[str, list[str] | FloatArray]


def sizes_from_pilot(
    bias: float,
    labels: Sequence[str],
    n: FloatArray,
    treated: FloatArray,
    se: FloatArray,
    alpha: float,
    power: float,
) -> Sizes:
    """Rows of each group of a pilot; NaN where it had no standard error. Its groups grow alike."""
    tested = max(int(np.isfinite(se).sum()), 1)
    with np.errstate(invalid="ignore"):
        rows = rows_for(n * se**2, bias, alpha / tested, power)
        return {"group": list(labels), "rows": rows, "treated": np.ceil(rows * treated / n)}


def sizes_from_rates(
    bias: float,
    measure: Measure,
    baseline: float | None,
    effect: float | None,
    treated: float,
    spread: float | None,
    groups: int,
    alpha: float,
    power: float,
) -> Sizes:
    """Rows of each of several groups of equal size; enough events for a test of a 0/1 outcome among them."""
    if baseline is None or effect is None:
        raise UsageError("baseline, effect: give both, or a pilot (a result of treatment_bias on a smaller table).")
    after = baseline * effect if measure == "relative" else baseline + effect
    if spread is None and not (0 < baseline < 1 and 0 < after < 1):
        raise UsageError(
            f"baseline, effect: they give mean outcomes of {baseline:g} and {after:g}; a 0/1 outcome needs means "
            "strictly between 0 and 1. For another outcome give spread, its standard deviation."
        )
    if measure == "relative" and not (baseline > 0 and effect > 0):
        raise UsageError(f"baseline, effect: {baseline:g} and {effect:g}; a relative effect needs both above 0.")
    if groups < 2:
        raise UsageError(f"groups: {groups}; a bias compares a group with the others, so give 2 or more.")
    control, changed = (m * (1 - m) if spread is None else spread**2 for m in (baseline, after))
    variance = changed / treated + control / (1 - treated)
    if measure == "relative":
        variance = (changed / treated + effect**2 * control / (1 - treated)) / baseline**2
    rows = rows_for(
        variance * groups / (groups - 1), bias, alpha / groups, power
    )  # the rest is measured with error too
    if spread is None:
        events = np.log(2 * groups / alpha)
        rows = np.maximum(rows, np.ceil(events / min(after * treated, baseline * (1 - treated))))
    every = np.full(groups, float(rows))
    return {"group": [f"group {i + 1}" for i in range(groups)], "rows": every, "treated": np.ceil(every * treated)}


def rows_for(variance: FloatArray | float, bias: float, alpha: float, power: float) -> FloatArray:
    """Rows at which a bias is found with this power: (z_alpha/2 + z_power)^2 variance / bias^2."""
    normal = float(t_critical(alpha / 2, np.inf) + t_critical(1 - power, np.inf))
    return np.ceil(np.asarray(variance, dtype=float) * (normal / bias) ** 2)
