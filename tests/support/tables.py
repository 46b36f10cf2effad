"""Small tables for several tests: mappings of columns, drawn from a seed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import isonomy as iso

Columns = dict[str, Any]


def selected(**groups: Sequence[int]) -> Columns:
    """A column of groups and a column of 0/1 values: ``selected(a=[1, 0], b=[1])``."""
    return {
        "race": np.concatenate([[name] * len(values) for name, values in groups.items()]),
        "selected": np.concatenate([np.asarray(values, dtype=int) for values in groups.values()]),
    }


def applicants(n: int = 600, seed: int = 11) -> Columns:
    """Decisions about three races and two sexes with different rates, and a real-valued loss."""
    rng = np.random.default_rng(seed)
    race = rng.choice(["a", "b", "c"], size=n, p=[0.5, 0.3, 0.2])
    sex = rng.choice(["f", "m"], size=n)
    rate = 0.4 + 0.15 * (race == "b") - 0.1 * (sex == "f")
    return {
        "race": race,
        "sex": sex,
        "selected": (rng.random(n) < rate).astype(int),
        "outcome": (rng.random(n) < 0.5).astype(int),
        "loss": rng.exponential(1 + 0.3 * (race == "c"), size=n),
    }


def decided(n: int = 2_000, shift: float = 0.0, seed: int = 0) -> Columns:
    """Three groups, a score shifted for one of them and cut at 0.2, and an outcome that depends on the score."""
    rng = np.random.default_rng(seed)
    group = rng.choice(["a", "b", "c"], n, p=[0.5, 0.3, 0.2])
    score = rng.normal(size=n) + shift * (group == "b")
    return {
        "group": group,
        "sex": rng.choice(["F", "M"], n),
        "age": rng.integers(18, 70, n),
        "y": (score + rng.normal(size=n) > 0).astype(int),
        "score": score,
        "c": (score >= 0.2).astype(int),
        "distance": np.abs(score - 0.2),
    }


def programme(n: int = 4_000, seed: int = 0, groups: int = 2) -> Columns:
    """A care program: the score in use measures the need of the first group better than that of the others.

    ``need_score`` measures the need of all groups equally well.
    """
    rng = np.random.default_rng(seed)
    group = rng.integers(0, groups, n)
    x1, x2 = rng.normal(size=n), rng.normal(size=n)
    need = rng.poisson(np.exp(0.8 + 0.5 * x1 + 0.2 * x2))
    noise = np.array([2.0, 10.0, 6.0, 4.0])[group]
    score = (need - 2.5 + rng.normal(0, noise)) / np.sqrt(4 + noise**2)
    return {
        "group": group,
        "race": np.array(["Black", "White", "Asian", "Other"])[group],
        "x1": x1,
        "x2": x2,
        "lab": need + rng.normal(0, 1.0, n),
        "need": need,
        "sick": (need >= 2).astype(int),
        "cost": 100.0 * np.maximum(score + 2, 0),
        "cost_score": score,
        "need_score": need + rng.normal(0, 0.3, n),
        "decision": (score > 0.5).astype(int),
        "better": (need + rng.normal(0, 0.3, n) > 2.5).astype(int),
    }


def observed(effects: Any, **options: Any) -> Any:
    """Effects that were observed elsewhere, or the rows in which they are observed."""
    return iso.arm_means(observed_effects=effects, **options)


def experiment(rows: int = 20_000, seed: int = 0, **design: Any) -> Columns:
    """A randomized experiment with predicted effects: `isonomy.simulate.uplift`, three groups, base rate 0.3."""
    return dict(iso.simulate.uplift(rows, seed, **{"groups": ["a", "b", "c"], "baseline": 0.3, **design}).columns)


def uplift(rows: int = 30_000, **design: Any) -> Columns:
    """A randomized experiment with six groups."""
    return dict(iso.simulate.uplift(rows, **{"groups": 6, "baseline": 0.3, **design}).columns)


def broken() -> Columns:
    """Three valid groups, and one for each reason not to answer."""
    sound = experiment(12_000)
    n = 40

    def more(name: str, t: Any, y: Any) -> Columns:
        return {
            "group": np.full(n, name), "x": np.full(n, 0.5), "treatment": np.broadcast_to(t, n),
            "outcome": np.broadcast_to(y, n), "effect": np.full(n, 1.2), "baseline": np.full(n, 0.1),
        }  # fmt: skip

    half = np.arange(n) % 2
    extra = [
        more("no control", 1, half),
        more("no treated", 0, half),
        more("no event", half, half),  # outcomes only among the treated
        more("constant", half, 1),
        more("one each", (np.arange(n) == 0).astype(int), half),
    ]
    return {name: np.concatenate([sound[name], *(e[name] for e in extra)]) for name in sound}


def trial(n: int = 400, seed: int = 0, real: bool = False) -> Columns:
    """An experiment with independent columns and short names: g, t, y, f (effect), h (baseline)."""
    rng = np.random.default_rng(seed)
    y = rng.gamma(2.0, 1.0, n) if real else (rng.random(n) < 0.4).astype(float)
    return {
        "g": rng.choice(["a", "b", "c"], n),
        "t": rng.integers(0, 2, n),
        "y": y,
        "f": rng.normal(1.2, 0.2, n),
        "h": rng.random(n),
    }


def scored(n: int = 1_500, seed: int = 0, slope: float = 1.0, groups: int = 2, power: float = 1.0) -> Columns:
    """Scores and 0/1 outcomes, ``n`` rows per group, users with four rows each: s, y, g (a, b, ...), m.

    E[Y | s] = s, and slope * s ** power in the last group. The last groups score higher.
    """
    rng = np.random.default_rng(seed)
    g = np.repeat(np.arange(groups), n)
    s = rng.beta(2 + g / groups, 3 - g / groups)
    y = (rng.random(s.size) < np.where(g == groups - 1, slope * s**power, s)).astype(int)
    user = rng.integers(0, s.size // 4, s.size)
    return {"s": s, "y": y, "g": np.array(list("abcdef"))[g], "m": user}


def margins(n: int = 3_000, power: float = 1.0, seed: int = 0) -> Columns:
    """Groups a and b with different scores and users with several rows: E[Y | s] is s in a, and a power of s in b."""
    rng = np.random.default_rng(seed)
    g = np.repeat(["a", "b"], n)
    s = np.concatenate([rng.beta(2, 3, n), rng.beta(3, 2, n)])
    y = (rng.random(2 * n) < np.where(g == "b", s**power, s)).astype(float)
    return {"s": s, "y": y, "g": g, "m": rng.integers(0, n // 2, 2 * n)}


def rated(rate: Any, n: int = 10_000, seed: int = 0) -> Columns:
    """Groups a and b with uniform scores and E[Y | s, g] = rate(s, g)."""
    rng = np.random.default_rng(seed)
    s, g = rng.random(2 * n), np.repeat(["a", "b"], n)
    return {"s": s, "g": g, "y": (rng.random(2 * n) < rate(s, g)).astype(float)}


def rising(s: Any, g: Any) -> Any:
    """s in group a, s^1.5 in b."""
    return np.where(g == "a", s, s**1.5)


def measured(n: int = 4_000, seed: int = 0) -> Columns:
    """Calibrated scores of 900 users."""
    rng = np.random.default_rng(seed)
    s = rng.beta(2, 3, n)
    return {"s": s, "g": rng.choice(["a", "b"], n), "y": (rng.random(n) < s).astype(int), "m": rng.integers(0, 900, n)}


def users(n: int) -> Columns:
    """Columns for every method, several rows per user: a score cut at 0.25, a better decision, an outcome, a trial."""
    rng = np.random.default_rng(4)
    user, score = rng.integers(0, n // 5, n), rng.normal(size=n)
    chance = 1 / (1 + np.exp(-score))
    return {
        "user": user,
        "sex": np.where(user % 2 == 0, "f", "m").tolist(),
        "score": score,
        "chance": chance,
        "decision": (score >= 0.25).astype(int),
        "better": (score + 0.5 * rng.normal(size=n) >= 0.25).astype(int),
        "outcome": (rng.random(n) < chance).astype(int),
        "treated": rng.integers(0, 2, n),
        "effect": 0.1 * rng.random(n),
    }


def write_partitions(table: pl.DataFrame, folder: Path) -> None:
    """Write the table to a folder that is partitioned by sex, as engines do."""
    for (sex,), part in table.group_by("sex"):
        place = folder / f"sex={sex}"
        place.mkdir(parents=True)
        part.drop("sex").write_parquet(place / "part.parquet")


def two_scores(n: int = 1_500, slope: float = 1.0, seed: int = 0) -> Columns:
    """The second outcome of one group is lower at equal scores, unless the slope is 1."""
    rng = np.random.default_rng(seed)
    g, a, b = np.repeat(["x", "y"], n), rng.beta(2, 3, 2 * n), rng.beta(2, 2, 2 * n)
    v = rng.random(2 * n) < np.where(g == "x", b, slope * b)
    return {"g": g, "a": a, "b": b, "u": (rng.random(2 * n) < a).astype(int), "v": v.astype(int)}


def several(n: int = 3_000) -> Columns:
    """Decisions about three groups, one of which is selected less often."""
    rng = np.random.default_rng(0)
    g = rng.choice(["a", "b", "c"], n)
    p = (rng.uniform(size=n) < np.where(g == "a", 0.4, 0.6)).astype(int)
    return {"g": g, "y": rng.integers(0, 2, n), "p": p}
