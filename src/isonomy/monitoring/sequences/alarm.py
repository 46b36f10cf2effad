"""Has a disparity started? An e-detector of Shiryaev-Roberts type, with starts weighted by information.

The null: in every batch the disparity lies within the tolerance of the center. For the sides s = +1, -1 and the
factors f = 1/2, 1, 2, 4, a stratum with the score U at the null of its side multiplies

    M <- (M + omega) exp(lambda U - psi),   lambda = s f sigma / v,   omega = min(1, 4 sigma^2 w / v).

E[M] is at most the sum of the omegas, hence at most the number of batches: alarms when the mean of all M reaches
``run_length`` times the number of comparisons come on average at most once in ``run_length`` batches, over all
comparisons together (Shin, Ramdas and Rinaldo 2024). With omega = 1 an alarm would come because time passes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from isonomy.inference.decide import Alternative
from isonomy.monitoring.sequences.score import MeanSequence, difference_rates
from isonomy.monitoring.sequences.strata import BatchCounts, weights
from isonomy.numerics.arrays import BoolArray, FloatArray

FACTORS = (0.5, 1.0, 2.0, 4.0)
LEAST_DF = 30  # degrees of freedom of each side from which means are watched


class Alarms(NamedTuple):
    """At each look: the evidence, whether it raised an alarm, and the look at which the change began (-1: none)."""

    evidence: FloatArray
    raised: BoolArray
    since: FloatArray


class Increments(NamedTuple):
    """What each look contributes: lambda U - psi (sides and factors x looks x comparisons), and omega."""

    log: FloatArray
    omega: FloatArray


def detect(increments: Increments, limit: FloatArray) -> Alarms:
    """Follow the evidence; ``limit`` (looks x comparisons) is the evidence that raises an alarm."""
    gains, omega = increments
    _, looks, size = gains.shape
    logs, sums = np.full(gains[:, 0].shape, -np.inf), np.zeros(gains[:, 0].shape)
    starts = np.zeros(sums.shape, dtype=np.intp)
    evidence, raised, since = np.zeros((looks, size)), np.zeros((looks, size), dtype=bool), np.full((looks, size), -1.0)
    with np.errstate(all="ignore"):
        for t in range(looks):
            counted = omega[t] > 0
            starts = np.where((sums <= 0) & counted, t, starts)
            sums = np.where(counted, np.maximum(sums, 0.0) + gains[:, t], sums)
            logs = np.where(counted, np.logaddexp(logs, np.log(omega[t])) + gains[:, t], logs)
            evidence[t] = np.exp(logs).mean(axis=0)
            raised[t] = (evidence[t] >= limit[t]) & counted
            best = sums.argmax(axis=0)
            since[t] = np.where(raised[t], np.take_along_axis(starts, best[None], axis=0)[0], -1.0)
            logs, sums = np.where(raised[t], -np.inf, logs), np.where(raised[t], 0.0, sums)
    return Alarms(evidence, raised, since)


def _sides(side: Alternative) -> list[tuple[float, float]]:
    signs = {"two-sided": (1.0, -1.0), "greater": (1.0,), "less": (-1.0,)}[side]
    return [(sign, factor) for sign in signs for factor in FACTORS]


def rate_increments(
    strata: BatchCounts,
    prior: FloatArray,
    low: FloatArray | float,
    high: FloatArray | float,
    *,
    side: Alternative = "two-sided",
    number: float | None = None,
    effect: FloatArray | None = None,
) -> Increments:
    """Of rates. ``low`` and ``high`` end the null; ``effect``: the design effect of people who return, at each look.

    ``prior`` is NaN at looks that are not watched.
    """
    n1, s1, n0, s0 = strata
    w, a, c = weights(n1, n0, number=number is not None)
    known = (n1 > 0) & ~np.isnan(prior)
    with np.errstate(all="ignore"):
        if number is None:
            p = (np.cumsum(s1 + s0, axis=0) + 0.5) / (np.cumsum(n1 + n0, axis=0) + 1.0)
            total, g, r = n1 + n0, s1 / n1, s0 / n0
            pooled, finite = (s1 + s0) / total, total / np.maximum(total - 1.0, 1.0)
        else:
            p, g, r = np.full_like(n1, number), s1 / n1, np.full_like(n1, number)
            total, pooled, finite = n1, p, np.ones_like(n1)
        v = p * (1.0 - p)
        deff = np.ones_like(v) if effect is None else effect
        omega = np.where(known & (v > 0), np.minimum(1.0, 4.0 * prior**2 * w / v) / deff, 0.0)
        logs = []
        for sign, factor in _sides(side):
            null = np.broadcast_to(np.asarray(high if sign > 0 else low, dtype=float), v.shape)
            rate = sign * factor * prior / v / deff
            u = w * (g - r - null)
            if effect is not None:
                cases = s1 + s0
                psi = 0.5 * rate**2 * deff * w * cases * (total - cases) / (total * np.maximum(total - 1.0, 1.0))
            else:
                p1 = number + null if number is not None else difference_rates(g, r, n1, n0, null)
                p1 = np.clip(np.where(null == 0, pooled, p1), 0.0, 1.0)
                p0 = np.where(null == 0, p1, p1 - null)
                shift = rate * (w * null if number is None else n1 * (number + null))
                mine = n1 * np.log1p(p1 * np.expm1(rate * a))
                theirs = n0 * np.log1p(p0 * np.expm1(-rate * c)) if number is None else 0.0
                psi = finite * (mine + theirs - shift)
            logs.append(np.where(omega > 0, rate * u - psi, 0.0))
    return Increments(np.stack(logs), omega)


def mean_increments(
    means: MeanSequence,
    prior: FloatArray,
    low: FloatArray | float,
    high: FloatArray | float,
    open_gate: BoolArray,
    *,
    side: Alternative = "two-sided",
) -> Increments:
    """Of means, with variances from earlier batches only; ``open_gate``: the looks that are not too skewed."""
    strata, number = means.strata, means.number
    w, a, c = weights(strata.n1, strata.n0, number=number is not None)

    def earlier(x: FloatArray) -> FloatArray:
        return np.concatenate([np.zeros_like(x[:1]), x[:-1]])

    (_, df1, v1, *_), (_, df0, v0, *_) = means.sides
    v1, df1, df0 = earlier(np.nan_to_num(v1)), earlier(df1), earlier(df0)
    v0 = np.zeros_like(v1) if number is not None else earlier(np.nan_to_num(v0))
    ready = (df1 >= LEAST_DF) & ((df0 >= LEAST_DF) | (number is not None)) & (earlier(open_gate.astype(float)) > 0)
    with np.errstate(all="ignore"):
        v = a * v1 + c * v0
        omega = np.where(ready & (w > 0) & (v > 0) & ~np.isnan(prior), np.minimum(1.0, 4.0 * prior**2 * w / v), 0.0)
        logs = []
        for sign, factor in _sides(side):
            null = high if sign > 0 else low
            rate = sign * factor * prior / v
            u = w * (strata.mean1 - (strata.mean0 if number is None else number) - null)
            logs.append(np.where(omega > 0, rate * u - 0.5 * rate**2 * w * v, 0.0))
    return Increments(np.stack(logs), omega)
