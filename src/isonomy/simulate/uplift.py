"""A randomised experiment and an uplift model that is wrong about some groups by a known amount."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from isonomy.errors import UsageError, choose
from isonomy.numerics.arrays import FloatArray
from isonomy.simulate.arguments import Each, each, group_shares, members, number, plain, probability
from isonomy.simulate.normal import legendre
from isonomy.simulate.simulated import Array, Block, Labels, Simulated


def uplift(
    rows: int,
    seed: int = 0,
    *,
    groups: int | Sequence[str] | Mapping[str, float] = 3,
    measure: str = "relative",
    outcome: str = "binary",
    treated: Each = 0.5,
    baseline: Each = 0.1,
    effect: Each | None = None,
    error: Each = 0.0,
    heterogeneity: float = 0.2,
    predicted_heterogeneity: float | None = None,
    trend: float = 0.5,
    predicted_trend: float | None = None,
    noise: float = 0.0,
    dispersion: float = 1.0,
    allocation: str = "random",
) -> Simulated:
    """An experiment whose group effects, and the errors of the predicted effects, are known exactly.

    x is uniform on (0, 1) and v = 2x - 1. Without treatment the mean outcome is m0 = baseline (1 + trend v);
    the true effect is effect (1 + heterogeneity v), and with treatment the mean is m0 times it
    (``measure="relative"``) or m0 plus it
    ("difference"). The model predicts effect (1 + predicted_heterogeneity v) + error + noise Z for the effect and
    baseline (1 + predicted_trend v) for the outcome without treatment.

    Columns: ``group``, ``x``, ``treatment`` (0/1), ``outcome``, ``effect`` (predicted), ``baseline``
    (predicted).

    Parameters
    ----------
    groups : a number (a, b, ...; g000, ... above 26), names, or {name: share} treated, baseline, effect,
    error : one number, or one per group (a mapping leaves the other groups at the default)
        Defaults: half treated, baseline 0.1, effect 1.25 (relative) or 0.05 (difference), no error.
    outcome : "binary", or "real" (gamma with the same mean and coefficient of variation ``dispersion``:
    positive, skewed) noise : standard deviation of noise in the predicted effect, independent of everything
    allocation : "random", or "even" for groups of nearly fixed size

    Truth
    -----
    ``groups[label]``: share, treated, control_mean, treated_mean, observed (the true effect tau_g), predicted
    (P_g), error (B_g = P_g - tau_g), bias (A_g = B_g - B_-g), rest_observed, rest_predicted, rest_error (the
    other groups, standardised to their shares), pooled_observed (effect of the other groups' pooled rows:
    confounded when treated shares differ), and what other collapsing estimators tend to: predicted_average
    (plain mean), predicted_baseline_weighted (predicted baseline as weights), predicted_positives (binary,
    relative, no noise: positives of both arms). Also ``measure`` and ``outcome``.

    With E v = 0 and E v^2 = 1/3, relative: tau_g = effect (1 + trend heterogeneity / 3) and P_g = effect (1 +
    trend predicted_heterogeneity / 3) + error. The defaults are the design with true effect 1.2917 in which
    the plain average is wrong by -0.0417.

    >>> group = uplift(1_000, error={"b": 0.2}).truth["groups"]["group=b"]
    >>> {k: round(group[k], 4) for k in ("observed", "predicted", "error", "bias", "predicted_average")}
    {'observed': 1.2917, 'predicted': 1.4917, 'error': 0.2, 'bias': 0.2, 'predicted_average': 1.45}
    """
    choose("measure", measure, ("relative", "difference"))
    choose("outcome", outcome, ("binary", "real"))
    choose("allocation", allocation, ("random", "even"))
    relative = measure == "relative"
    names, share = group_shares(groups)
    arm = probability("treated", each("treated", treated, names, 0.5))
    base = each("baseline", baseline, names, 0.1)
    true = each("effect", (1.25 if relative else 0.05) if effect is None else effect, names, 1.25 if relative else 0.05)
    wrong = each("error", error, names)
    seen = heterogeneity if predicted_heterogeneity is None else predicted_heterogeneity
    tilt = trend if predicted_trend is None else predicted_trend
    for argument, value in (("heterogeneity", heterogeneity), ("trend", trend), ("predicted_trend", tilt)):
        number(argument, value, -1, 1)
    number("predicted_heterogeneity", seen)
    number("noise", noise, 0)
    number("dispersion", dispersion, 1e-6)

    def means(g: Any, v: FloatArray) -> tuple[FloatArray, FloatArray]:
        without = base[g] * (1 + trend * v)
        change = true[g] * (1 + heterogeneity * v)
        return without, without * change if relative else without + change

    def predicted(g: Any, v: FloatArray) -> FloatArray:
        return np.asarray(true[g] * (1 + seen * v) + wrong[g])

    nodes, weights = legendre(64)
    every = np.arange(len(names))[:, None]
    _check_means(outcome, *means(every, np.linspace(-1, 1, 201)[None, :]))

    def draw(rng: np.random.Generator, start: int, units: int) -> Block:
        g = members(rng, start, units, share, allocation)
        x = rng.random(units)
        treatment = (rng.random(units) < arm[g]).astype(np.int8)
        v = 2 * x - 1
        mean = np.where(treatment == 1, *means(g, v)[::-1])
        if outcome == "binary":
            y: Array = (rng.random(units) < mean).astype(np.int8)
        else:
            y = mean * rng.standard_gamma(dispersion**-2, units) * dispersion**2
        effects = predicted(g, v)
        if noise:
            effects = effects + noise * rng.standard_normal(units)
        return {
            "group": Labels(g, names),
            "x": x,
            "treatment": treatment,
            "outcome": y,
            "effect": effects,
            "baseline": base[g] * (1 + tilt * v),
        }

    labels = [f"group={name}" for name in names]

    def facts() -> dict[str, Any]:
        v, w = nodes[None, :], weights / 2
        m0, m1 = means(every, v)
        f = predicted(every, v)
        guess = base[:, None] * (1 + tilt * v)
        sums = {"m0": m0 @ w, "m1": m1 @ w, "average": f @ w, "weighted": (guess * f) @ w / (guess @ w)}
        sums["predicted"] = (m0 * f) @ w / sums["m0"] if relative else sums["average"]
        if relative and outcome == "binary" and noise == 0:
            with np.errstate(divide="ignore"):
                control = (1 - arm) * np.array([sums["m0"] * sums["predicted"], sums["m0"]])
                positives = (control[0] + arm * sums["m1"]) / (control[1] + arm * ((m1 / f) @ w))
            sums["positives"] = positives
        return {"measure": measure, "outcome": outcome, "groups": effects_by_group(relative, labels, share, arm, sums)}

    return Simulated(
        name=f"uplift {measure} {outcome}",
        description=f"A randomised experiment in {len(names)} groups: {outcome} outcome, {measure} effects.",
        rows=rows,
        seed=seed,
        draw=draw,
        facts=facts,
    )


def _check_means(outcome: str, without: FloatArray, treated: FloatArray) -> None:
    low, high = min(without.min(), treated.min()), max(without.max(), treated.max())
    if low < 0 or (outcome == "binary" and high > 1):
        raise UsageError(
            f"baseline, effect, trend and heterogeneity give mean outcomes between {low:.3g} and {high:.3g}; "
            + ("a binary outcome needs [0, 1]." if outcome == "binary" else "a positive outcome needs means above 0.")
        )


def effects_by_group(
    relative: bool, labels: Sequence[str], share: FloatArray, arm: FloatArray, sums: Mapping[str, FloatArray]
) -> dict[str, dict[str, float]]:
    """Effects, errors and biases of groups and of their rests, from the means by arm and the collapsed predictions.

    ``sums``: m0, m1, predicted, average, weighted (and positives), one value per group.
    """
    m0, m1, p = sums["m0"], sums["m1"], sums["predicted"]
    observed = m1 / m0 if relative else m1 - m0
    groups = {}
    for j, label in enumerate(labels):
        others = np.arange(len(labels)) != j
        rest = {"observed": np.nan, "predicted": np.nan, "pooled": np.nan}
        if others.any():
            s, c, t = share[others], m0[others], m1[others]
            pi = arm[others]
            with np.errstate(invalid="ignore", divide="ignore"):
                means = (s * pi) @ t / (s @ pi), (s * (1 - pi)) @ c / (s @ (1 - pi))
                rest["pooled"] = means[0] / means[1] if relative else means[0] - means[1]
            weight = s * c if relative else s
            rest["observed"] = (s @ t) / (s @ c) if relative else s @ (t - c) / s.sum()
            rest["predicted"] = weight @ p[others] / weight.sum()
        values = {
            "share": share[j],
            "treated": arm[j],
            "control_mean": m0[j],
            "treated_mean": m1[j],
            "observed": observed[j],
            "predicted": p[j],
            "error": p[j] - observed[j],
            "bias": p[j] - observed[j] - (rest["predicted"] - rest["observed"]),
            "rest_observed": rest["observed"],
            "rest_predicted": rest["predicted"],
            "rest_error": rest["predicted"] - rest["observed"],
            "pooled_observed": rest["pooled"],
            "predicted_average": sums["average"][j],
            "predicted_baseline_weighted": sums["weighted"][j],
        }
        if "positives" in sums:
            values["predicted_positives"] = sums["positives"][j]
        groups[label] = plain(values)
    return groups
