"""The real-valued designs of the empirical-likelihood paper, models (5.1), (5.2) and (5.3)."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from isonomy.options import Finite, Whole, checked
from isonomy.simulate.simulated import Block, Simulated, plain


@checked
def regression(
    rows: int,
    seed: int = 0,
    *,
    model: Literal["5.1", "5.2", "5.3"] = "5.1",
    groups: Whole = 2,
    tau: Finite = 0.0,
    noise: Literal["normal", "exponential"] = "normal",
) -> Simulated:
    """A regression whose error in each group is known.

    x is uniform on (0, 1), the groups are ``groups`` equal intervals of x named "1", "2", ..., outcome =
    2x + e:

    * "5.1": e has variance 1, prediction = 2x;
    * "5.2": e has variance x, prediction = 2x;
    * "5.3": e has variance 1, prediction = (2 - 2 tau) x.

    ``noise`` is "normal" or "exponential" (shifted to mean 0: skewed). Columns: ``x``, ``group``,
    ``outcome``, ``prediction``, ``residual`` (outcome - prediction), ``squared_error``. For theta = 0 the
    disparity of group j is its truth itself: mse 1 in (5.1), (2j - 1) / (2m) in (5.2), mean residual
    tau (2j - 1) / m in (5.3).

    Truth: ``population`` and ``groups["group=j"]``: share, mse, mean_residual (outcome - prediction),
    mean_error (prediction - outcome), mean_outcome, mean_prediction.

    >>> round(regression(100, model="5.2", groups=5).truth["groups"]["group=2"]["mse"], 12)
    0.3
    >>> round(regression(100, model="5.3", tau=0.2).truth["groups"]["group=2"]["mean_residual"], 12)
    0.3
    """
    m = groups
    slope = 2 - 2 * tau if model == "5.3" else 2.0
    names = tuple(str(j + 1) for j in range(m))

    def draw(rng: np.random.Generator, start: int, units: int) -> Block:
        x = rng.random(units)
        error = rng.standard_normal(units) if noise == "normal" else rng.standard_exponential(units) - 1
        outcome = 2 * x + (error * np.sqrt(x) if model == "5.2" else error)
        residual = outcome - slope * x
        return {
            "x": x,
            "group": np.array(names)[(x * m).astype(np.intp)],
            "outcome": outcome,
            "prediction": slope * x,
            "residual": residual,
            "squared_error": residual**2,
        }

    def interval(low: float, high: float) -> dict[str, float]:
        first = (low + high) / 2  # E[x], E[x^2] on the interval
        second = (low * low + low * high + high * high) / 3
        variance = first if model == "5.2" else 1.0
        return {
            "share": high - low,
            "mse": variance + (2 - slope) ** 2 * second,
            "mean_residual": (2 - slope) * first,
            "mean_error": (slope - 2) * first,
            "mean_outcome": 2 * first,
            "mean_prediction": slope * first,
        }

    def facts() -> dict[str, Any]:
        by_group = {f"group={name}": interval(j / m, (j + 1) / m) for j, name in enumerate(names)}
        return plain({"population": interval(0.0, 1.0), "groups": by_group})

    return Simulated(name=f"regression {model}", rows=rows, seed=seed, draw=draw, facts=facts)
