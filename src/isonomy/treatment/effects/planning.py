"""How many rows a test of bias needs: from the variance of one row, and from the events it must see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from isonomy.errors import UsageError
from isonomy.frames.sums import LARGEST
from isonomy.numerics.arrays import FloatArray
from isonomy.numerics.tails import t_isf
from isonomy.treatment.effects.collapse import Measure

Sizes = dict[str, list[str] | FloatArray]
Rate = float | Mapping[str, float]  # one for all groups, or one for each by its name
MOST = 2.0**53  # rows, more than a float can count one by one


def sizes_from_pilot(
    bias: float,
    labels: Sequence[str],
    n: FloatArray,
    treated: FloatArray,
    se: FloatArray,
    events: FloatArray,
    least: float,
    hypotheses: int,
    alpha: float,
    power: float,
) -> Sizes:
    """Rows of each group of a pilot; NaN where it had no standard error. Its groups grow alike.

    ``events``: that the smaller arm of each group stood on; ``least``: without which a group has no verdict;
    ``hypotheses``: how many share the error rate.
    """
    known = np.isfinite(se)
    with np.errstate(divide="ignore", invalid="ignore"):
        rows = rows_for(n * se**2, bias, alpha / max(hypotheses, 1), power)
        rows = np.where(known, np.maximum(rows, np.ceil(n * least / events)), np.nan) if least > 0 else rows
        return {"group": list(labels), "rows": rows, "treated": np.ceil(rows * treated / n)}


def sizes_from_rates(
    bias: float,
    measure: Measure,
    baseline: Rate | None,
    effect: Rate | None,
    treated: float,
    spread: float | None,
    groups: int | None,
    alpha: float,
    power: float,
) -> Sizes:
    """Rows of each of several groups, which see their errors alike; enough events for a test of a 0/1 outcome."""
    if baseline is None or effect is None:
        raise UsageError("baseline, effect: give both, or a pilot (a result of treatment_bias on a smaller table).")
    labels = _labels(baseline, effect, groups)
    before, times = (_of_groups(rate, labels) for rate in (baseline, effect))
    after = before * times if measure == "relative" else before + times
    for label, m0, m1, change in zip(labels, before, after, times, strict=True):
        if spread is None and not (0 < m0 < 1 and 0 < m1 < 1):
            raise UsageError(
                f"baseline, effect: they give {label} mean outcomes of {m0:g} and {m1:g}; a 0/1 outcome needs means "
                "strictly between 0 and 1. For another outcome give spread, its standard deviation."
            )
        if measure == "relative" and not (m0 > 0 and change > 0):
            raise UsageError(f"baseline, effect: {m0:g} and {change:g}; a relative effect needs both above 0.")
    with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
        means = (before, after)
        control, changed = (m * (1 - m) if spread is None else np.square(np.full(m.shape, spread)) for m in means)
        variance = changed / treated + control / (1 - treated)
        if measure == "relative":
            variance = (changed / treated + times**2 * control / (1 - treated)) / before**2
    if not np.all((variance > 1 / LARGEST) & (variance < LARGEST)):
        raise UsageError("baseline, effect, spread: too large or too small to compute with; choose another unit.")
    # The rest is measured with error too: the others, each with its share of their rows.
    others = variance.sum() - variance
    rest = (np.square(variance).sum() - variance**2) / others**2
    hypotheses = len(labels) if len(labels) > 2 else 1  # two groups are each other's rest
    rows = rows_for(variance * (1 + rest), bias, alpha / hypotheses, power)
    if spread is None:
        events = np.log(2 * hypotheses / alpha)
        rows = np.maximum(rows, np.ceil(events / np.minimum(after * treated, before * (1 - treated))))
    return {"group": labels, "rows": rows, "treated": np.ceil(rows * treated)}


def _labels(baseline: Rate, effect: Rate, groups: int | None) -> list[str]:
    """The groups that were named, or as many as were asked for."""
    named = [list(rate) for rate in (baseline, effect) if isinstance(rate, Mapping)]
    if named and (set(named[0]) != set(named[-1]) or groups not in (None, len(named[0]))):
        raise UsageError(
            "baseline, effect, groups: they are not of the same groups; name the same ones, or leave out groups."
        )
    labels = named[0] if named else [f"group {i + 1}" for i in range(2 if groups is None else groups)]
    if len(labels) < 2:
        raise UsageError(f"groups: {len(labels)}; a bias compares a group with the others, so give 2 or more.")
    return labels


def _of_groups(rate: Rate, labels: Sequence[str]) -> FloatArray:
    return np.array([rate[label] if isinstance(rate, Mapping) else rate for label in labels], dtype=float)


def rows_for(variance: FloatArray | float, bias: float, alpha: float, power: float) -> FloatArray:
    """Rows at which a bias is found with this power: (z_alpha/2 + z_power)^2 variance / bias^2."""
    normal = float(t_isf(alpha / 2, np.inf) + t_isf(1 - power, np.inf))
    with np.errstate(over="ignore"):
        rows = np.ceil(np.asarray(variance, dtype=float) * np.square(normal / bias))
    if (rows > MOST).any():
        raise UsageError(f"bias: {bias:g} is not allowed; no number of rows shows one so small.")
    return rows
