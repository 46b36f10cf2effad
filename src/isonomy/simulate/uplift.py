"""A randomized experiment, and an uplift model that is wrong about some groups by a known amount."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

import numpy as np

from isonomy.errors import UsageError
from isonomy.numerics.arrays import FloatArray, IntArray
from isonomy.options import Finite, Number, checked
from isonomy.simulate.simulated import (
    Array,
    Block,
    Each,
    Groups,
    Simulated,
    Truth,
    group_shares,
    members,
    per_group,
    probability,
)

Slope = Annotated[float, Number(least=-1, most=1)]
Spread = Annotated[float, Number(least=0)]


@checked
def uplift(
    rows: int,
    seed: int = 0,
    *,
    groups: Groups = 3,
    measure: Literal["relative", "difference"] = "relative",
    outcome: Literal["binary", "real"] = "binary",
    treated: Each = 0.5,
    baseline: Each = 0.1,
    effect: Each | None = None,
    error: Each = 0.0,
    heterogeneity: Slope = 0.2,
    predicted_heterogeneity: Finite | None = None,
    trend: Slope = 0.5,
    predicted_trend: Slope | None = None,
    noise: Spread = 0.0,
) -> Simulated:
    """An experiment whose group effects, and the errors of the predicted effects, are known exactly.

    x is uniform on (0, 1) and v = 2x - 1. Without treatment the mean outcome is m0 = baseline (1 + trend v); the true
    effect is effect (1 + heterogeneity v), and with treatment the mean is m0 times it (``measure="relative"``) or m0
    plus it ("difference"). The model predicts effect (1 + predicted_heterogeneity v) + error + noise Z for the effect
    and baseline (1 + predicted_trend v) for the outcome without treatment.

    Columns: ``group``, ``x``, ``treatment`` (0/1), ``outcome``, ``effect`` (predicted), ``baseline`` (predicted).

    Parameters
    ----------
    rows : int
        The number of rows.
    seed : int, default 0
        The same seed gives the same rows.
    groups : int, sequence of names, or {name: share}
        A number names them a, b, ...; g000, g001, ... above 26.
    measure : "relative" or "difference"
    outcome : "binary" or "real"
        "real" is exponential with the same mean: positive, skewed.
    treated, baseline, effect, error : number, one per group, or {name: number}
        A mapping leaves the other groups at the default: half treated, baseline 0.1, effect 1.25 (relative) or 0.05
        (difference), no error.
    heterogeneity, trend, predicted_heterogeneity, predicted_trend : float
        Slopes in v, as above; the predicted ones are the true ones unless given.
    noise : float, default 0
        Standard deviation of noise in the predicted effect, independent of everything.

    Returns
    -------
    Simulated
        Its ``truth``: ``measure``, ``outcome`` and ``groups[label]`` with share, treated, control_mean, treated_mean,
        observed (the true effect tau_g), predicted (P_g), predicted_average (the plain mean of predictions), error
        (B_g = P_g - tau_g), bias (A_g = B_g - B_-g), rest_observed, rest_predicted, rest_error (the other groups,
        standardized to their shares).

    Notes
    -----
    With E v = 0 and E v^2 = 1/3, relative: tau_g = effect (1 + trend heterogeneity / 3) and
    P_g = effect (1 + trend predicted_heterogeneity / 3) + error. The defaults are the design with true effect 1.2917
    in which the plain average is wrong by -0.0417.

    Examples
    --------
    >>> group = uplift(1_000, error={"b": 0.2}).truth["groups"]["group=b"]
    >>> {k: round(group[k], 4) for k in ("observed", "predicted", "error", "bias", "predicted_average")}
    {'observed': 1.2917, 'predicted': 1.4917, 'error': 0.2, 'bias': 0.2, 'predicted_average': 1.45}
    """
    relative = measure == "relative"
    usual = 1.25 if relative else 0.05
    names, share = group_shares(groups)
    arm = probability("treated", per_group("treated", treated, names, 0.5))
    base = per_group("baseline", baseline, names, 0.1)
    true = per_group("effect", usual if effect is None else effect, names, usual)
    wrong = per_group("error", error, names)
    slope = heterogeneity if predicted_heterogeneity is None else predicted_heterogeneity
    tilt = trend if predicted_trend is None else predicted_trend

    def means(g: IntArray, v: FloatArray) -> tuple[FloatArray, FloatArray]:
        without = base[g] * (1 + trend * v)
        change = true[g] * (1 + heterogeneity * v)
        return without, without * change if relative else without + change

    extremes = means(np.arange(len(names))[:, None], np.linspace(-1, 1, 201)[None, :])
    low, high = float(np.min(extremes)), float(np.max(extremes))
    if low < 0 or (outcome == "binary" and high > 1):
        raise UsageError(
            f"baseline, effect, trend and heterogeneity give mean outcomes between {low:.3g} and {high:.3g}; "
            + ("a binary outcome needs [0, 1]." if outcome == "binary" else "a positive outcome needs means above 0.")
        )

    def draw(rng: np.random.Generator, start: int, units: int) -> Block:
        g = members(rng, units, share)
        x = rng.random(units)
        treatment = (rng.random(units) < arm[g]).astype(np.int8)
        v = 2 * x - 1
        mean = np.where(treatment == 1, *means(g, v)[::-1])
        if outcome == "binary":
            y: Array = (rng.random(units) < mean).astype(np.int8)
        else:
            y = mean * rng.standard_gamma(1.0, units)
        predictions = true[g] * (1 + slope * v) + wrong[g]
        if noise:
            predictions = predictions + noise * rng.standard_normal(units)
        return {
            "group": np.array(names)[g],
            "x": x,
            "treatment": treatment,
            "outcome": y,
            "effect": predictions,
            "baseline": base[g] * (1 + tilt * v),
        }

    def facts() -> Truth:
        product = trend / 3 if relative else 0.0  # E of (1 + trend v) times v; differences are averaged plainly
        observed = true * (1 + product * heterogeneity)
        average = true + wrong
        sums = {"m0": base, "m1": base * observed if relative else base + observed, "average": average}
        sums["predicted"] = average + true * product * slope
        labels = [f"group={name}" for name in names]
        return {"measure": measure, "outcome": outcome, "groups": effects_by_group(relative, labels, share, arm, sums)}

    return Simulated(name=f"uplift {measure} {outcome}", rows=rows, seed=seed, draw=draw, facts=facts)


def effects_by_group(
    relative: bool, labels: Sequence[str], share: FloatArray, arm: FloatArray, sums: Mapping[str, FloatArray]
) -> dict[str, dict[str, float]]:
    """Effects, errors and biases of groups and of their rests, from means by arm and collapsed predictions.

    ``sums``: m0, m1, predicted and average, one value per group.
    """
    m0, m1, predicted = sums["m0"], sums["m1"], sums["predicted"]
    observed = m1 / m0 if relative else m1 - m0
    weight = share * m0 if relative else share  # with it the other groups' effects average to that of all of them
    groups = {}
    for j, label in enumerate(labels):
        others = weight * (np.arange(len(labels)) != j)
        with np.errstate(invalid="ignore"):  # a single group has no rest
            rest_observed, rest_predicted = others @ observed / others.sum(), others @ predicted / others.sum()
        error = predicted[j] - observed[j]
        groups[label] = {
            "share": share[j],
            "treated": arm[j],
            "control_mean": m0[j],
            "treated_mean": m1[j],
            "observed": observed[j],
            "predicted": predicted[j],
            "predicted_average": sums["average"][j],
            "error": error,
            "bias": error - (rest_predicted - rest_observed),
            "rest_observed": rest_observed,
            "rest_predicted": rest_predicted,
            "rest_error": rest_predicted - rest_observed,
        }
    return groups
