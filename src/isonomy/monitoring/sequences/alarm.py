"""Has a disparity started? An e-detector of Shiryaev-Roberts type, with starts weighted by information.

The null: in every batch the disparity lies within the tolerance of the center. For the sides s = +1, -1 and the
factors f = 1/2, 1, 2, 4, a stratum with the score U at the null of its side multiplies

    M <- (M + omega) exp(lambda U - psi),   lambda = s f sigma / v,   omega = min(1, 4 sigma^2 w / v).

E[M] is at most the sum of the omegas, hence at most the number of batches: alarms when the mean of all M reaches
``run_length`` times the number of comparisons come on average at most once in ``run_length`` batches, over all
comparisons together (Shin, Ramdas and Rinaldo 2024). With omega = 1 an alarm would come because time passes.
On the ratio scale U = w (s1/n1 - rho s0/n0), and sigma is that of the logarithm times the common rate to date.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from isonomy.inference.decide import Alternative
from isonomy.monitoring.sequences.score import MeanSequence, rates_at
from isonomy.monitoring.sequences.strata import weights
from isonomy.numerics.arrays import BoolArray, FloatArray

FACTORS = (0.5, 1.0, 2.0, 4.0)
SIGNS = {"two-sided": (1.0, -1.0), "greater": (1.0,), "less": (-1.0,)}
LEAST_DF = 30  # degrees of freedom of each side from which means are watched


class Alarms(NamedTuple):
    """At each look: the evidence, whether it raised an alarm, and the look at which the change began (NaN: none)."""

    evidence: FloatArray
    raised: BoolArray
    since: FloatArray


def detect(gains: FloatArray, omega: FloatArray, limit: FloatArray) -> Alarms:
    """Follow the evidence. ``gains``: lambda U - psi, sides and factors x looks x comparisons, and 0 where nothing is
    watched; ``limit``: the evidence that raises an alarm."""
    _, looks, size = gains.shape
    logs, sums = np.full(gains[:, 0].shape, -np.inf), np.zeros(gains[:, 0].shape)
    starts = np.zeros(sums.shape, dtype=np.intp)
    evidence, since = np.zeros((looks, size)), np.full((looks, size), np.nan)
    with np.errstate(all="ignore"):
        for t in range(looks):
            counted = omega[t] > 0
            starts = np.where((sums <= 0) & counted, t, starts)
            sums = np.where(counted, np.maximum(sums, 0.0) + gains[:, t], sums)
            logs = np.where(counted, np.logaddexp(logs, np.log(omega[t])) + gains[:, t], logs)
            evidence[t] = np.exp(logs).mean(axis=0)
            raised = (evidence[t] >= limit[t]) & counted
            since[t, raised] = starts[sums.argmax(axis=0), np.arange(size)][raised]
            logs[:, raised], sums[:, raised] = -np.inf, 0.0
    return Alarms(evidence, ~np.isnan(since), since)


def rate_increments(
    strata: FloatArray,
    prior: FloatArray,
    low: FloatArray | float,
    high: FloatArray | float,
    *,
    scale: str = "difference",
    side: Alternative = "two-sided",
    number: float | None = None,
    effect: FloatArray | None = None,
) -> tuple[FloatArray, FloatArray]:
    """The gains of rates, and omega. ``low`` and ``high`` end the null; ``prior`` is NaN at looks that are not watched;
    ``effect``: the design effect of people who return, at each look."""
    (n1, s1), (n0, s0) = np.moveaxis(strata, (2, 3), (0, 1))
    w, a, c = weights(n1, n0, number=number is not None)
    total, cases = (n1, 0.0 * n1) if number is not None else (n1 + n0, s1 + s0)
    with np.errstate(all="ignore"):
        p, pooled = (np.cumsum(cases, axis=0) + 0.5) / (np.cumsum(total, axis=0) + 1.0), cases / total
        g, r, ratio, finite = s1 / n1, s0 / n0, n0 / n1, total / np.maximum(total - 1.0, 1.0)
        if number is not None:
            p = pooled = r = np.full_like(n1, number)
            ratio, finite = None, np.ones_like(n1)
        v, sigma = p * (1.0 - p), prior if scale == "difference" else prior * p
        deff = np.ones_like(v) if effect is None else effect
        known = (n1 > 0) & ~np.isnan(prior) & (v > 0)
        omega = np.where(known, np.minimum(1.0, 4.0 * sigma**2 * w / v) / deff, 0.0)
        gains = []
        for sign in SIGNS[side]:
            null = np.broadcast_to(np.asarray(high if sign > 0 else low, dtype=float), v.shape)
            factor, shift = (1.0, null) if scale == "difference" else (null, 0.0)
            u = w * (g - factor * r - shift)
            p1, p0 = rates_at(g, r, ratio, null, pooled, scale)
            center = w * (p1 if number is not None else p1 - factor * p0)
            for rate in (sign * f * sigma / v / deff for f in FACTORS):
                if effect is not None:
                    psi = 0.5 * rate**2 * deff * w * pooled * (1.0 - pooled) * finite
                else:
                    mine = n1 * np.log1p(p1 * np.expm1(rate * a))
                    theirs = n0 * np.log1p(p0 * np.expm1(-rate * factor * c))
                    psi = finite * (mine + theirs - rate * center)
                gains.append(np.where(known, rate * u - psi, 0.0))
    return np.stack(gains), omega


def mean_increments(
    means: MeanSequence,
    prior: FloatArray,
    low: FloatArray | float,
    high: FloatArray | float,
    open_gate: BoolArray,
    *,
    side: Alternative = "two-sided",
) -> tuple[FloatArray, FloatArray]:
    """Of means, with variances from earlier batches only; ``open_gate``: the looks that are not too skewed."""
    (n1, mean1, *_), (n0, mean0, *_) = np.moveaxis(means.strata, (2, 3), (0, 1))
    w, a, c = weights(n1, n0, number=means.number is not None)
    (_, df1, v1, *_), (_, df0, v0, *_) = means.sides
    if means.number is not None:
        mean0, v0, df0 = np.full_like(n0, means.number), 0.0 * v1, df1
    now = np.nan_to_num(np.stack([v1, v0, df1, df0, open_gate.astype(float)]))
    v1, v0, df1, df0, gate = np.concatenate([np.zeros_like(now[:, :1]), now[:, :-1]], axis=1)
    with np.errstate(all="ignore"):
        v = a * v1 + c * v0
        known = (np.minimum(df1, df0) >= LEAST_DF) & (gate > 0) & (w > 0) & (v > 0) & ~np.isnan(prior)
        omega = np.where(known, np.minimum(1.0, 4.0 * prior**2 * w / v), 0.0)
        gains = [
            np.where(known, rate * w * (mean1 - mean0 - (high if sign > 0 else low)) - 0.5 * rate**2 * w * v, 0.0)
            for sign in SIGNS[side]
            for rate in (sign * f * prior / v for f in FACTORS)
        ]
    return np.stack(gains), omega
