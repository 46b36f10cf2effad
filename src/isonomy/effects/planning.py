"""Planning: the rows that an experiment needs to find a bias, and the risk of each correction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar, Literal

import numpy as np

from isonomy.effects.bias import TreatmentBiasResult
from isonomy.effects.estimators.collapse import NamedMeasure
from isonomy.effects.estimators.shrinkage import STRATEGIES, Custom, Detected, Loss, correction, name_of, strategies_of
from isonomy.errors import UsageError, choose
from isonomy.frames.expressions import LARGEST
from isonomy.inference.effect import Wald
from isonomy.numerics.arrays import FloatArray
from isonomy.numerics.tails import normal_isf
from isonomy.options import Alpha, Draws, Finite, Form, Fraction, Option, Positive, Power, checked, shown

Sizes = dict[str, list[str] | FloatArray]
# Keywords of earlier versions.
MOVED = dict.fromkeys(
    ("pilot", "baseline", "effect", "measure", "treated", "spread", "groups"),
    "experiment=iso.planned(baseline, effect, ...), or the result of a pilot",
)
MOST = 2.0**53  # rows, more than a float can count one by one


@checked
def correction_risk(
    ratios: Sequence[float] | FloatArray | None = None,
    strategies: Sequence[str | Custom] | None = None,
    *,
    alpha: Alpha = 0.05,
    loss: Literal["squared", "absolute"] | Annotated[Loss, Form("loss")] = "squared",
) -> dict[str, FloatArray]:
    """How large an error does each correction leave, on average, if the true error is b and its estimate N(b, sd^2)?

    Parameters
    ----------
    ratios : array_like, optional
        True errors b / sd; 0 to 4 by default.
    strategies : list of str or callable, optional
        Names out of the paper's and "positive_part", all by default, or strategies of your own such as
        ``iso.least_risk(loss)``. What "empirical_bayes" leaves depends on the other groups.
    alpha : float, default 0.05
        Error rate of the strategy "significant".
    loss : {"squared", "absolute"} or callable, default "squared"
        Mean of ((b - gamma B) / sd)^2, of |b - gamma B| / sd, or of your own function of two arrays, b / sd and
        gamma B / sd.

    Returns
    -------
    dict of str to ndarray
        The risk under the key of each strategy, the ratios under "ratio", and under "oracle" the smallest risk of any
        fixed gamma in [0, 1] for somebody who knows b (equation 39): the floor that strategies are compared with.
        ``none`` has squared risk (b / sd)^2, ``mean`` has 1, and the oracle b^2 / (b^2 + sd^2) by Proposition 3. No
        strategy is best everywhere.

    Examples
    --------
    >>> import isonomy as iso
    >>> risk = iso.correction_risk([0.0, 1.0, 2.0, 3.0])
    >>> risk["positive_part"].round(2).tolist()
    [0.33, 0.86, 1.45, 1.41]
    >>> risk["oracle"].round(2).tolist()
    [0.0, 0.5, 0.8, 0.9]
    """
    try:
        points = np.linspace(0, 4, 81) if ratios is None else np.asarray(ratios, dtype=float)
    except (TypeError, ValueError, OverflowError):
        points = np.empty((0, 0))
    if points.ndim != 1 or not np.isfinite(points).all():
        raise UsageError(f"ratios: {shown(ratios)}; give a list of finite numbers.")
    loss_of: Loss = loss if callable(loss) else LOSSES[choose("loss", loss, LOSSES)]
    try:
        loss_of(np.zeros(1), np.zeros(1))
    except TypeError as error:
        raise UsageError(f"loss: {shown(loss)} cannot be called with two arrays: {error}.") from error
    risks = {"ratio": points}
    for strategy in strategies_of(strategies, STRATEGIES):
        # The integrand jumps (significant) and has kinks: a fine midpoint rule, error below 1e-4 at this step.
        grid, weight = _normal_grid(1e-3 if isinstance(strategy, str) else 2e-2)
        risks[name_of(strategy)] = np.empty(points.shape)
        for i, b in enumerate(points):
            subtracted = correction(strategy, Detected(b + grid, np.ones(grid.shape)), alpha)
            risks[name_of(strategy)][i] = np.asarray(loss_of(np.full(grid.shape, b), subtracted), dtype=float) @ weight
    (grid, weight), share = _normal_grid(2e-2), np.linspace(0.0, 1.0, 201)[:, None]
    floor = [np.min(loss_of(np.full((share.size, grid.size), b), share * (b + grid)) @ weight) for b in points]
    return {**risks, "oracle": np.array(floor)}


def _normal_grid(step: float) -> tuple[FloatArray, FloatArray]:
    grid = np.arange(-9, 9, step) + step / 2
    return grid, np.exp(-(grid**2) / 2) * (step / np.sqrt(2 * np.pi))


LOSSES: Mapping[str, Loss] = {
    "squared": lambda truth, subtracted: (truth - subtracted) ** 2,
    "absolute": lambda truth, subtracted: np.abs(truth - subtracted),
}


@dataclass(frozen=True)
class Planned(Option):
    """A planned experiment, for `isonomy.bias_sample_size`.

    Parameters
    ----------
    baseline, effect : float or mapping of str to float
        The mean outcome without treatment, and the effect in the given ``measure``; one for all groups, or
        {group: number}.
    measure : {"relative", "difference"}, default "relative"
        As in `treatment_bias`.
    treated : float, default 0.5
        Share of rows that are treated.
    spread : float, optional
        Standard deviation of the outcome within an arm. Default: that of a 0/1 outcome.
    groups : int, default 2
        Number of groups compared, if ``baseline`` and ``effect`` do not name them.
    """

    name: ClassVar[str] = "planned"
    baseline: Finite | Mapping[str, float]
    effect: Finite | Mapping[str, float]
    measure: NamedMeasure = "relative"
    treated: Fraction = 0.5
    spread: Positive | None = None
    groups: Draws | None = None


@partial(checked, moved=MOVED)
def bias_sample_size(
    bias: Positive, experiment: Planned | TreatmentBiasResult, *, alpha: Alpha = 0.05, power: Power = 0.8
) -> Sizes:
    """How many rows does an experiment need to find a bias of this size in a group?

    Parameters
    ----------
    bias : float
        The true bias to be found, in units of the effect.
    experiment : iso.planned(baseline, effect) or TreatmentBiasResult
        The expected rates; or a pilot, which is the result of `treatment_bias` on a smaller table: its groups,
        intervals, treated shares and events are used.
    alpha, power : float, default 0.05 and 0.8
        Error rate, shared by the groups (Bonferroni, where Holm's method starts; two groups are one hypothesis), and
        the probability of finding the bias.

    Returns
    -------
    dict of str to list or ndarray
        One entry per group: ``group``, ``rows`` and ``treated``, the rows of the group and the treated ones among them.

    Notes
    -----
    (z_alpha/2 + z_power)^2 times the variance of one row over the squared bias. For 0/1 outcomes, at least as many as
    bring log(2 groups / alpha) events into the smaller arm (log(2 / alpha) for two groups), without which
    `treatment_bias` gives no verdict; from a pilot, as many as its own options require (``least_events``). A pilot's
    intervals include the error of the rest of each group as it is there: with more rows, all groups grow alike. From
    rates, groups get the rows that give their errors equal precision.

    Examples
    --------
    >>> import isonomy as iso
    >>> iso.bias_sample_size(0.2, iso.planned(0.1, 1.25, groups=4))["rows"].tolist()
    [18586.0, 18586.0, 18586.0, 18586.0]
    >>> sizes = iso.bias_sample_size(0.2, iso.planned({"DE": 0.1, "FR": 0.05}, 1.25))
    >>> dict(zip(sizes["group"], sizes["rows"].tolist(), strict=True))
    {'DE': 19623.0, 'FR': 41698.0}
    """
    if isinstance(experiment, TreatmentBiasResult):
        return _sizes_from_pilot(bias, experiment, alpha, power)
    labels, relative = _labels(experiment), experiment.measure == "relative"
    treated, spread = experiment.treated, experiment.spread
    before, times = (
        np.array([rate[label] if isinstance(rate, Mapping) else rate for label in labels], dtype=float)
        for rate in (experiment.baseline, experiment.effect)
    )
    after = before * times if relative else before + times
    for label, m0, m1, change in zip(labels, before, after, times, strict=True):
        if spread is None and not (0 < m0 < 1 and 0 < m1 < 1):
            raise UsageError(
                f"baseline, effect: they give {label} mean outcomes of {m0:g} and {m1:g}; a 0/1 outcome needs means "
                "strictly between 0 and 1. For another outcome give spread, its standard deviation."
            )
        if relative and not (m0 > 0 and change > 0):
            raise UsageError(f"baseline, effect: {m0:g} and {change:g}; a relative effect needs both above 0.")
    with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
        means = (before, after)
        control, changed = (m * (1 - m) if spread is None else np.square(np.full(m.shape, spread)) for m in means)
        variance = changed / treated + control / (1 - treated)
        if relative:
            variance = (changed / treated + times**2 * control / (1 - treated)) / before**2
    if not np.all((variance > 1 / LARGEST) & (variance < LARGEST)):
        raise UsageError("baseline, effect, spread: too large or too small to compute with; choose another unit.")
    # The rest is estimated with error too: the others, each with its share of their rows.
    others = variance.sum() - variance
    rest = (np.square(variance).sum() - variance**2) / others**2
    hypotheses = len(labels) if len(labels) > 2 else 1  # two groups are each other's rest
    rows = _rows_needed(variance * (1 + rest), bias, alpha / hypotheses, power)
    if spread is None:
        events = np.log(2 * hypotheses / alpha)
        rows = np.maximum(rows, np.ceil(events / np.minimum(after * treated, before * (1 - treated))))
    return {"group": labels, "rows": rows, "treated": np.ceil(rows * treated)}


def _sizes_from_pilot(bias: float, pilot: TreatmentBiasResult, alpha: float, power: float) -> Sizes:
    # Half the interval over its quantile: the standard error of the law that was used, which no empty arm makes 0.
    error = (pilot.ci_high - pilot.ci_low) / (2 * float(normal_isf(pilot.alpha)))
    with np.errstate(divide="ignore", invalid="ignore"):
        rows = _rows_needed(pilot.n * error**2, bias, alpha / max(pilot.hypotheses, 1), power)
        if pilot.least_events > 0:
            floor = np.ceil(pilot.n * pilot.least_events / pilot.events)
            rows = np.where(np.isfinite(error), np.maximum(rows, floor), np.nan)
        return {"group": list(pilot.labels), "rows": rows, "treated": np.ceil(rows * pilot.treated / pilot.n)}


def _labels(experiment: Planned) -> list[str]:
    groups = experiment.groups
    named = [list(rate) for rate in (experiment.baseline, experiment.effect) if isinstance(rate, Mapping)]
    if named and (set(named[0]) != set(named[-1]) or groups not in (None, len(named[0]))):
        raise UsageError(
            "baseline, effect, groups: they name different groups; name the same ones, or leave out groups."
        )
    labels = named[0] if named else [f"group {i + 1}" for i in range(2 if groups is None else groups)]
    if len(labels) < 2:
        raise UsageError(f"groups: {len(labels)}; a bias compares a group with the others, so give 2 or more.")
    return labels


def _rows_needed(variance: FloatArray, bias: float, alpha: float, power: float) -> FloatArray:
    rows = Wald(np.zeros(variance.shape), np.sqrt(variance)).rows_needed(bias, 1.0, alpha / 2, 1 - power)
    if (rows > MOST).any():
        raise UsageError(f"bias: {bias:g} is not allowed; no number of rows can show such a small bias.")
    return rows
