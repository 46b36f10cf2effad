"""A status quo and an alternative with known utilities: on the boundary of the null, inside it, or outside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any, Literal

import numpy as np
from scipy import stats
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtri

from isonomy.errors import UsageError
from isonomy.numerics.arrays import FloatArray
from isonomy.options import Finite, Number, checked
from isonomy.simulate.lender import both_above
from isonomy.simulate.simulated import (
    Array,
    Block,
    Each,
    Groups,
    Simulated,
    group_shares,
    members,
    per_group,
    plain,
    probability,
)

Where = Literal["improving", "equal_accuracy", "equal_unfairness", "equal", "worse", "tied"]
Kind = Literal["binary", "count", "real"]
# mean outcome among the selected: status quo's best and worst group, one step up; then the mean outcome of all rows
_LEVELS = {"binary": (0.65, 0.50, 0.05, 0.4), "count": (6.3, 5.1, 0.5, 1.5), "real": (0.7, 0.4, 0.1, 0.0)}


@checked
def alternatives(
    rows: int,
    seed: int = 0,
    *,
    design: Where = "improving",
    groups: Groups = 2,
    outcome: Kind = "binary",
    capacity: float | None = None,
    status_quo: Sequence[float] | None = None,
    candidate: Sequence[float] | None = None,
    status_quo_selected: Each | None = None,
    candidate_selected: Each | None = None,
    mean_outcome: Each | None = None,
    agreement: Annotated[float, Number(least=-1, most=1)] = 0.3,
) -> Simulated:
    """Two scores for the same rows, each with exactly the stated mean outcome among the selected of every group.

    Latent L is standard normal; score = m + r L + sqrt(1 - r^2) E, selected when score > 0, with m and r
    chosen per group and algorithm so that P(selected) and E[outcome | selected] are as stated. The pooled
    quantile at ``capacity`` is 0 for both, so a capacity rule and the decision columns agree in the
    population.

    Columns: ``group`` (a, b, ...), ``outcome``, ``status_quo``, ``candidate`` (scores),
    ``status_quo_decision``, ``candidate_decision`` (0/1), ``x1``, ``x2`` (features: x1 + x2 is the candidate
    score up to a group constant and scale).

    Parameters
    ----------
    design : what the candidate does to "outcome_among_selected", as accuracy and as fairness
        "improving": better in every group, a third of the unfairness. "equal_accuracy": equal in the best
        group, better in the others, a third of the unfairness (boundary of the accuracy null).
        "equal_unfairness": better in every group by the same step (boundary of the fairness null). "equal":
        the same utilities. "worse": less accurate, less unequal. "tied": better (k > 2), and every pair of an
        upper with a lower group is exactly as unequal as the status quo's worst pair (boundary, with ties).
    outcome : "binary"; "count" (geometric: skewed, like counts of illnesses); "real" (normal, variance 1)
    capacity : share selected in every group by both (default 0.3; 0.03 for counts)
    status_quo, candidate : mean outcome among the selected by group, in place of the design's
    status_quo_selected, candidate_selected : share selected by group, in place of the capacity
    mean_outcome : mean outcome of all rows of a group
    agreement : correlation of the two scores given L

    Truth
    -----
    ``groups[label]``: share, mean_outcome, and for each of status_quo, candidate: selection_rate,
    outcome_among_selected, outcome_among_unselected (binary also accuracy, tpr, fpr, tnr);
    ``unfairness[algorithm][utility]``: largest difference between two groups; ``capacity[algorithm]``: share
    selected overall; ``improves``: True when the candidate has a strictly higher outcome_among_selected in
    every group and strictly less unfairness in it.

    >>> truth = alternatives(1_000, design="equal_accuracy").truth
    >>> unfairness = truth["unfairness"]
    >>> [round(unfairness[a]["outcome_among_selected"], 9) for a in ("status_quo", "candidate")]
    [0.15, 0.05]
    >>> truth["improves"]
    False
    """
    names, share = group_shares(groups)
    default = (0.03 if outcome == "count" else 0.3) if capacity is None else capacity
    mean = per_group("mean_outcome", _LEVELS[outcome][3] if mean_outcome is None else mean_outcome, names)
    if outcome == "binary":
        probability("mean_outcome", mean)
    selected = {
        "status_quo": _selected("status_quo_selected", status_quo_selected, default, names),
        "candidate": _selected("candidate_selected", candidate_selected, default, names),
    }
    drawn = _utilities(design, outcome, len(names))
    utility = {
        "status_quo": per_group("status_quo", drawn[0].tolist() if status_quo is None else status_quo, names),
        "candidate": per_group("candidate", drawn[1].tolist() if candidate is None else candidate, names),
    }
    shift = {a: ndtri(q) for a, q in selected.items()}
    slope = {
        a: np.array([_slope(outcome, *map(float, row)) for row in zip(mean, selected[a], utility[a], strict=True)])
        for a in utility
    }

    def draw(rng: np.random.Generator, start: int, units: int) -> Block:
        g = members(rng, units, share)
        latent, first, second, across = rng.standard_normal((4, units))
        second = agreement * first + np.sqrt(1 - agreement**2) * second
        r0, r1 = slope["status_quo"][g], slope["candidate"][g]
        score0 = r0 * latent + np.sqrt(1 - r0**2) * first
        score1 = r1 * latent + np.sqrt(1 - r1**2) * second
        total0, total1 = score0 + shift["status_quo"][g], score1 + shift["candidate"][g]
        return {
            "group": np.array(names)[g],
            "outcome": _outcome(outcome, latent, mean[g]),
            "status_quo": total0,
            "candidate": total1,
            "status_quo_decision": (total0 > 0).astype(np.int8),
            "candidate_decision": (total1 > 0).astype(np.int8),
            "x1": (score1 + across) / np.sqrt(2),
            "x2": (score1 - across) / np.sqrt(2),
        }

    return Simulated(
        name=f"alternatives {outcome}",
        rows=rows,
        seed=seed,
        draw=draw,
        facts=lambda: compare(
            [f"group={name}" for name in names], share, mean, selected, utility, binary=outcome == "binary"
        ),
    )


@checked
def discrepancies(rows: int, seed: int = 0, *, eta: Finite = 1.52) -> Simulated:
    """The bivariate normal design of the improvability paper's appendix E.

    Columns ``status_quo``, ``candidate``: draws of the utility discrepancy between groups, means 1.52 and
    ``eta``, covariance [[10, 6.85], [6.85, 10.83]]. The null |E candidate| >= |E status quo| holds for |eta| >= 1.52.

    >>> discrepancies(400, eta=1.0).truth["improves"]
    True
    """
    factor = np.linalg.cholesky(np.array([[10.0, 6.85], [6.85, 10.83]]))

    def draw(rng: np.random.Generator, start: int, units: int) -> Block:
        both = np.array([[1.52], [eta]]) + factor @ rng.standard_normal((2, units))
        return {"status_quo": both[0], "candidate": both[1]}

    def facts() -> dict[str, Any]:
        mean = {"status_quo": 1.52, "candidate": float(eta)}
        covariance = {"status_quo": 10.0, "candidate": 10.83, "both": 6.85}
        return {"mean": mean, "covariance": covariance, "improves": abs(eta) < 1.52}

    return Simulated(name="discrepancies", rows=rows, seed=seed, draw=draw, facts=facts)


def _selected(argument: str, value: Each | None, capacity: float, names: Sequence[str]) -> FloatArray:
    values = probability(argument, per_group(argument, capacity if value is None else value, names, capacity))
    if not np.all((values > 0) & (values < 1)):
        raise UsageError(f"{argument}: shares selected must lie strictly between 0 and 1.")
    return values


def _utilities(design: str, outcome: str, k: int) -> tuple[FloatArray, FloatArray]:
    """Mean outcome among the selected by group, for the status quo and for the candidate."""
    high, low, step, _ = _LEVELS[outcome]
    gap = high - low
    before = np.linspace(high, low, k)
    after = {
        "improving": np.linspace(high + step, high + step - gap / 3, k),
        "equal_accuracy": np.linspace(high, high - gap / 3, k),
        "equal_unfairness": before + step,
        "equal": before,
        "worse": np.linspace(low, low - gap / 3, k),
        "tied": np.where(np.arange(k) < (k + 1) // 2, high + gap, high),
    }[design]
    return before, after


def _outcome(kind: str, latent: FloatArray, mean: FloatArray) -> Array:
    if kind == "real":
        return mean + latent
    if kind == "binary":
        return (latent > -ndtri(mean)).astype(np.int8)
    # Geometric with P(Y >= k) = (mean / (1 + mean))^k: the number of those powers at or above the upper tail of L.
    return np.floor(log_ndtr(-latent) / np.log(mean / (1 + mean))).astype(np.int64)


@lru_cache(maxsize=1024)
def _slope(kind: str, mean: float, selected: float, utility: float) -> float:
    """The correlation of score and latent variable for which E[outcome | selected] is ``utility``."""

    def among_selected(r: float) -> float:
        cut = -float(ndtri(selected))
        if kind == "real":
            return mean + r * float(stats.norm.pdf(cut)) / selected
        if kind == "binary":
            return float(both_above(cut, -ndtri(mean), r)) / selected
        ratio = mean / (1 + mean)
        powers = ratio ** np.arange(1, int(-34 / np.log(ratio)) + 2)  # down to 1e-15
        return float(both_above(cut, -ndtri(powers), r).sum()) / selected

    low, high = among_selected(-0.99), among_selected(0.99)
    if not low < utility < high:
        raise UsageError(
            f"a mean outcome of {utility:g} among the selected cannot be had with {selected:g} selected and mean "
            f"{mean:g}; it must lie between {low:.3g} and {high:.3g}."
        )
    return float(brentq(lambda r: among_selected(r) - utility, -0.99, 0.99, xtol=1e-15, rtol=1e-14))


def compare(
    labels: Sequence[str],
    share: FloatArray,
    mean: FloatArray,
    selected: Mapping[str, FloatArray],
    utility: Mapping[str, FloatArray],
    *,
    binary: bool,
) -> dict[str, Any]:
    """Utilities by group from P(selected) and E[outcome | selected], and whether the candidate improves."""
    values: dict[str, dict[str, FloatArray]] = {}
    for a, q in selected.items():
        hit = utility[a] * q
        values[a] = {
            "selection_rate": q,
            "outcome_among_selected": utility[a],
            "outcome_among_unselected": (mean - hit) / (1 - q),
        }
        if binary:
            values[a] |= {
                "accuracy": 1 - (q - hit) - (mean - hit),
                "tpr": hit / mean,
                "fpr": (q - hit) / (1 - mean),
                "tnr": 1 - (q - hit) / (1 - mean),
            }
    groups = {
        label: {"share": share[j], "mean_outcome": mean[j]}
        | {a: {u: v[j] for u, v in by.items()} for a, by in values.items()}
        for j, label in enumerate(labels)
    }
    unfairness = {a: {u: float(np.ptp(v)) for u, v in by.items()} for a, by in values.items()}
    better = np.all(utility["candidate"] > utility["status_quo"] + 1e-12)
    fairer = (
        unfairness["candidate"]["outcome_among_selected"] < unfairness["status_quo"]["outcome_among_selected"] - 1e-12
    )
    capacity = {a: float(share @ q) for a, q in selected.items()}
    return plain(
        {"groups": groups, "unfairness": unfairness, "capacity": capacity, "improves": bool(better and fairer)}
    )
