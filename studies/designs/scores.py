"""Scores of users with several rows: the meaning of a score in each group, for the average user and the average row.

Why the curves are exact. User m has a standard normal effect U and n = 1 + Poisson(k exp(a U - a^2/2)) rows,
k = rows per user minus one, a = activity. A row has score S, independent of U and n, and outcome 1 when
sqrt(r) U + sqrt(1-r) E > -q(S).

* User level, weights 1/n: E[(1/n) sum K(S_i - s) Y_i] = E[K(S - s) Phi(q(S))], because given U the rows of a
  user are alike, S does not depend on (U, n), and sqrt(r) U + sqrt(1-r) E is standard normal. So the curve is
  Phi(q(s)), whatever the activity.
* Aggregate level, each row one vote: rows carry U with density proportional to
  E[n | U] = 1 + k exp(a U - a^2/2) times the normal density, that is N(0, 1) with weight 1/(1+k) and N(a, 1)
  with weight k/(1+k). So the curve is [Phi(q(s)) + k Phi(q(s) + sqrt(r) a)] / (1 + k).

With ``level="user"`` q = Phi^-1(f), so f holds at the user level; with ``level="aggregate"`` q solves the
second display for f.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats
from scipy.special import expit, logit, ndtr, ndtri, roots_jacobi

from isonomy.errors import UnknownOption, UsageError
from isonomy.numerics.arrays import FloatArray
from isonomy.options import Number, check, checked
from isonomy.simulate.simulated import Block, Each, Simulated, members, per_group, plain, probability, shares

Curve = Callable[[ArrayLike, str], FloatArray]
Share = Annotated[float, Number(least=0, most=1)]

CURVES: Mapping[str, Callable[[FloatArray], FloatArray]] = {
    "steep": lambda s: 1 / (1 + np.exp(-10 * (s - 0.5))),
    "identity": lambda s: s,
}
_GRID = np.round(np.arange(0.05, 0.951, 0.05), 2)
_PLANTABLE = ("shift", "bump", "intercept", "slope")


@dataclass(frozen=True, eq=False, kw_only=True)
class Scored(Simulated):
    """A table of scores; ``curves["group=a"](scores, "user")`` is a group's outcome curve."""

    curves: Mapping[str, Curve] = field(repr=False)


@checked
def scores(
    rows: int,
    seed: int = 0,
    *,
    densities: Mapping[str, tuple[float, float]] | None = None,
    shares_by_group: Mapping[str, float] | None = None,
    curve: str | Callable[[FloatArray], FloatArray] = "steep",
    planted: Mapping[str, Mapping[str, object]] | None = None,
    level: Literal["user", "aggregate"] = "user",
    rows_per_user: Each = 1.0,
    activity: Each = 0.0,
    correlation: Share = 0.0,
    both: Share = 0.0,
) -> Scored:
    """Scores and 0/1 outcomes of users with a known outcome curve f_g(s) = P(outcome = 1 | score = s, group g).

    Columns: ``user`` (a whole number), ``group``, ``score`` in (0, 1), ``outcome`` (0/1). Rows of a user
    are adjacent; only the last user of the table may be cut short.

    Parameters
    ----------
    densities : {group: (a, b)}, Beta densities of the score; default a: (2, 3), b: (3, 2)
    shares_by_group : shares of users; equal by default
    curve : "steep" (1/(1 + exp(-10 (s - 1/2)))), "identity", or a function of an array of scores
    planted : {group: {"shift": c, "bump": (height, centre, width), "intercept": i, "slope": b}}
        logit f = i + b logit(curve); then shift and the Gaussian bump are added, and f is kept within [0, 1].
    level : "user" or "aggregate": the level at which f_g holds exactly (see the module docstring)
    rows_per_user : mean number of rows of a user, at least 1
    activity : log-rate of further rows per unit of the user effect
        Above 0, users with better outcomes come more often. When rows_per_user or activity differ by group,
        parity at one level is a disparity at the other.
    correlation : of the latent outcomes of two rows of a user (r above)
    both : share of users whose rows fall in groups that are drawn row by row
        The user-level curve is then that of weights 1/n, n all rows of the user; weights 1/(rows of the user
        in the group) tend to a slightly different one when activity is not 0. Needs the same rows_per_user
        and activity in all groups.

    Truth
    -----
    ``grid``: scores; ``groups[label]``: share (of users), rows_per_user, mean_score, ``user`` and
    ``aggregate`` (the curves on the grid), mean_outcome_user, mean_outcome_aggregate;
    ``difference[label]["user" | "aggregate"]``: minus the first group, on the grid; ``parity["user" |
    "aggregate"]``: True when all groups have one curve. ``curves[label](s, level)`` of the returned object
    gives any point.

    >>> table = scores(1_000, seed=3, planted={"b": {"shift": 0.05}}, rows_per_user=5.0, activity=0.5, correlation=0.5)
    >>> table.truth["parity"]
    {'user': False, 'aggregate': False}
    >>> [round(float(table.curves["group=b"](0.5, level)), 4) for level in ("user", "aggregate")]
    [0.55, 0.6573]
    """
    densities = {"a": (2.0, 3.0), "b": (3.0, 2.0)} if densities is None else densities
    names, share = shares(
        "shares_by_group", dict.fromkeys(densities, 1 / len(densities)) if shares_by_group is None else shares_by_group
    )
    if set(names) != set(densities):
        raise UsageError(f"densities and shares_by_group name different groups: {list(densities)}, {list(names)}.")
    beta = np.array([densities[name] for name in names], dtype=np.float64)
    if beta.shape != (len(names), 2) or not np.all(beta > 0):
        raise UsageError("densities: give two positive numbers (a, b) for each group.")
    further = per_group("rows_per_user", rows_per_user, names, 1.0) - 1
    if np.any(further < 0):
        raise UsageError("rows_per_user: give numbers of at least 1.")
    active = per_group("activity", activity, names)
    r = correlation
    if both > 0 and (np.ptp(further) > 0 or np.ptp(active) > 0):
        raise UsageError("both: users in two groups need the same rows_per_user and activity in every group.")
    functions = _curves(curve, planted or {}, names)
    lift = np.sqrt(r) * active

    def index(g: int, s: FloatArray) -> FloatArray:
        f = probability("curve", functions[g](s))
        return ndtri(f) if level == "user" else _aggregate_index(f, further[g], lift[g])

    def draw(rng: np.random.Generator, start: int, units: int) -> Block:
        home = members(rng, units, share)
        effect = rng.standard_normal(units)
        rate = further[home] * np.exp(active[home] * effect - active[home] ** 2 / 2)
        repeats = 1 + rng.poisson(rate) if np.any(further) else np.ones(units, dtype=np.int64)
        user = np.repeat(np.arange(start, start + units), repeats)
        size = len(user)
        group = np.repeat(home, repeats)
        if both > 0:
            moves = np.repeat(rng.random(units) < both, repeats)
            group = np.where(moves, members(rng, size, share), group)
        score = rng.beta(beta[group, 0], beta[group, 1])
        q = np.empty(size)
        for g in range(len(names)):
            q[group == g] = index(g, score[group == g])
        latent = np.sqrt(r) * np.repeat(effect, repeats) + np.sqrt(1 - r) * rng.standard_normal(size)
        return {
            "user": user,
            "group": np.array(names)[group],
            "score": score,
            "outcome": (latent > -q).astype(np.int8),
        }

    def curve_of(g: int) -> Curve:
        def value(s: ArrayLike, at: str = "user") -> FloatArray:
            q = index(g, np.asarray(s, dtype=np.float64))
            check("level", at, Literal["user", "aggregate"])
            return ndtr(q) if at == "user" else _aggregate(q, further[g], lift[g])

        return value

    curves = {f"group={name}": curve_of(g) for g, name in enumerate(names)}
    return Scored(
        name="scores",
        rows=rows,
        seed=seed,
        draw=draw,
        facts=lambda: _truth(names, share, beta, further, curves),
        curves=curves,
        rows_per_unit=float(share @ (1 + further)),
    )


def _curves(
    curve: str | Callable[[FloatArray], FloatArray], planted: Mapping[str, Mapping[str, object]], names: tuple[str, ...]
) -> list[Callable[[FloatArray], FloatArray]]:
    if isinstance(curve, str) and curve not in CURVES:
        raise UnknownOption("curve", curve, CURVES)
    base = CURVES[curve] if isinstance(curve, str) else curve
    for name, change in planted.items():
        if name not in names:
            raise UnknownOption("planted", name, names)
        for key in change:
            if key not in _PLANTABLE:
                raise UnknownOption(f"planted[{name!r}]", key, _PLANTABLE)
    changes: Mapping[str, Any] = planted
    return [_planted(base, **changes.get(name, {})) for name in names]


def _planted(
    base: Callable[[FloatArray], FloatArray],
    shift: float = 0.0,
    bump: tuple[float, float, float] | None = None,
    intercept: float = 0.0,
    slope: float = 1.0,
) -> Callable[[FloatArray], FloatArray]:
    def value(s: FloatArray) -> FloatArray:
        f = np.asarray(base(s), dtype=np.float64)
        if intercept or slope != 1:
            f = np.asarray(expit(intercept + slope * logit(f)))
        if bump is not None:
            height, centre, width = bump
            f = f + height * np.exp(-0.5 * ((s - centre) / width) ** 2)
        return np.clip(f + shift, 0.0, 1.0) if (shift or bump is not None) else f

    return value


def _aggregate(q: FloatArray, further: float, lift: float) -> FloatArray:
    """The row-level curve from the index: user effects are N(0, 1) and N(a, 1) in the ratio 1 : further."""
    return (ndtr(q) + further * ndtr(q + lift)) / (1 + further)


def _aggregate_index(f: FloatArray, further: float, lift: float) -> FloatArray:
    """The index at which the row-level curve is f, by safeguarded Newton steps inside a bracket."""
    upper = ndtri(f)
    if further == 0 or lift == 0:
        return upper
    low, high = upper - max(lift, 0.0), upper - min(lift, 0.0)
    inner = np.isfinite(upper)
    q, f, low, high = (v[inner] for v in (0.5 * (low + high), f, low, high))
    for _ in range(60):
        gap = _aggregate(q, further, lift) - f
        low, high = np.where(gap < 0, q, low), np.where(gap < 0, high, q)
        slope = (stats.norm.pdf(q) + further * stats.norm.pdf(q + lift)) / (1 + further)
        step = q - gap / np.maximum(slope, 1e-300)
        new = np.where((step >= low) & (step <= high), step, 0.5 * (low + high))
        done = np.max(np.abs(new - q), initial=0.0) < 1e-13
        q = new
        if done:
            break
    upper[inner] = q
    return upper


def _truth(
    names: tuple[str, ...], share: FloatArray, beta: FloatArray, further: FloatArray, curves: Mapping[str, Curve]
) -> dict[str, Any]:
    groups: dict[str, dict[str, Any]] = {}
    for g, (label, value) in enumerate(curves.items()):
        a, b = beta[g]
        x, w = roots_jacobi(200, b - 1, a - 1)
        s, w = (x + 1) / 2, w / w.sum()
        groups[label] = {
            "share": share[g],
            "rows_per_user": 1 + further[g],
            "mean_score": a / (a + b),
            "user": value(_GRID, "user"),
            "aggregate": value(_GRID, "aggregate"),
            "mean_outcome_user": w @ value(s, "user"),
            "mean_outcome_aggregate": w @ value(s, "aggregate"),
        }
    first = next(iter(groups.values()))
    difference = {
        label: {at: values[at] - first[at] for at in ("user", "aggregate")} for label, values in groups.items()
    }
    fine = np.linspace(0.001, 0.999, 999)
    parity = {
        at: all(
            np.allclose(c(fine, at), curves[f"group={names[0]}"](fine, at), rtol=0, atol=1e-12) for c in curves.values()
        )
        for at in ("user", "aggregate")
    }
    return plain({"grid": _GRID, "groups": groups, "difference": difference, "parity": parity})
