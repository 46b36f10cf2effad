"""The tables of the recorded calls: small, drawn from fixed seeds, and never changed.

Weights are sixteenths, so that their sums are exact in any order.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import polars as pl

ROWS = 900


@cache
def decisions(rows: int = ROWS, seed: int = 20) -> pl.DataFrame:
    """Decisions about people: groups, a 0/1 outcome, a score with its decision, amounts, and what a design needs."""
    rng = np.random.default_rng(seed)
    race = rng.choice(["White", "Black", "Asian", "Other"], rows, p=[0.5, 0.26, 0.18, 0.06])
    sex = rng.choice(["Female", "Male"], rows)
    household = rng.integers(0, rows // 3, rows)
    base = rng.normal(size=rows) + 0.35 * rng.normal(size=rows // 3)[household]
    latent = base - 0.5 * (race == "Black") + 0.2 * (sex == "Male")
    score = 1 / (1 + np.exp(-latent))
    outcome = (rng.random(rows) < 1 / (1 + np.exp(-base - 0.3))).astype(int)
    prediction = (score >= 0.5).astype(int)
    amount = np.round(rng.gamma(2.0, 50.0 * (1 + 0.4 * (race == "Asian"))), 2)
    return pl.DataFrame(
        {
            "race": race,
            "sex": sex,
            "age": rng.integers(18, 80, rows),
            "region": rng.choice(["north", "south", "east"], rows),
            "outcome": outcome,
            "prediction": prediction,
            "score": score,
            "second_score": np.clip(score + 0.15 * rng.normal(size=rows), 0.001, 0.999),
            "better": (base + 0.3 * rng.normal(size=rows) >= 0).astype(int),
            "amount": amount,
            "predicted_amount": amount + rng.normal(0, 20 + 10 * (sex == "Female"), rows),
            "influence": outcome - outcome.mean(),
            "distance": np.abs(latent),
            "income": 10 + 5 * base + rng.normal(size=rows),
            "debt": rng.normal(size=rows) - 0.5 * base,
            "repaid": np.where(outcome == 1, "yes", "no"),
            "approved": np.where(prediction == 1, "yes", "no"),
            "weight": rng.integers(8, 48, rows) / 16,
            "count": rng.integers(1, 4, rows),
            "household": household,
            "user": rng.integers(0, rows // 4, rows),
        }
    )


@cache
def gaps() -> pl.DataFrame:
    """The same decisions with missing outcomes, scores and groups."""
    table = decisions()
    rng = np.random.default_rng(21)
    absent = rng.random((3, len(table))) < 0.04
    names = ("outcome", "score", "race")
    return table.with_columns(
        pl.when(pl.Series(gone)).then(None).otherwise(pl.col(name)).alias(name)
        for name, gone in zip(names, absent, strict=True)
    )


@cache
def few() -> pl.DataFrame:
    """Decisions about few people, with groups of a handful and rates near 0 and 1."""
    rng = np.random.default_rng(22)
    group = np.repeat(["a", "b", "c", "d", "e"], [60, 40, 30, 12, 4])
    rate = {"a": 0.5, "b": 0.9, "c": 0.1, "d": 0.0, "e": 0.5}
    selected = rng.random(group.size) < [rate[name] for name in group]
    return pl.DataFrame(
        {
            "group": group,
            "selected": selected.astype(int),
            "outcome": rng.integers(0, 2, group.size),
            "value": rng.exponential(1.0, group.size),
        }
    )


@cache
def counted() -> pl.DataFrame:
    """A table that is already aggregated: one line for each cell, with its number of rows."""
    table = decisions()
    return table.group_by("race", "sex", "outcome", "prediction").agg(pl.len().alias("rows")).sort(pl.all())


@cache
def experiment(rows: int = 2_400, seed: int = 23, *, real: bool = False) -> pl.DataFrame:
    """A randomized experiment with predicted effects, ratios and differences, that are wrong about one group."""
    rng = np.random.default_rng(seed)
    group = rng.choice(["a", "b", "c", "d"], rows, p=[0.4, 0.3, 0.2, 0.1])
    x = rng.random(rows)
    propensity = np.where(group == "a", 0.5, 0.6)
    treatment = (rng.random(rows) < propensity).astype(int)
    baseline = 0.3 * (0.7 + 0.6 * x)
    ratio = 1.25 + 0.2 * (x - 0.5)
    mean = baseline * np.where(treatment == 1, ratio, 1.0)
    outcome = rng.exponential(mean) if real else (rng.random(rows) < mean).astype(float)
    effect = ratio + 0.5 * (group == "b") + 0.05 * rng.normal(size=rows)
    return pl.DataFrame(
        {
            "group": group,
            "sex": rng.choice(["f", "m"], rows),
            "x": x,
            "z": rng.normal(size=rows),
            "stratum": rng.choice(["u", "v"], rows),
            "half": rng.integers(0, 2, rows),
            "treatment": treatment,
            "propensity": propensity,
            "outcome": outcome,
            "effect": effect,
            "baseline": baseline,
            "difference": baseline * (effect - 1.0),
            "corrected": effect - 0.5 * (group == "b"),
            "shrunk": 0.5 * effect + 0.6,
            "corrected_difference": baseline * (effect - 0.5 * (group == "b") - 1.0),
            "weight": rng.integers(8, 32, rows) / 16,
            "count": rng.integers(1, 4, rows),
            "shop": rng.integers(0, rows // 8, rows),
        }
    )


@cache
def scores(rows: int = 1_800, seed: int = 24) -> pl.DataFrame:
    """Several scores with their outcomes, users with several rows each, and a group whose scores mean less."""
    rng = np.random.default_rng(seed)
    user = rng.integers(0, rows // 3, rows)
    group = np.array(["a", "b", "c"])[rng.choice(3, rows // 3, p=[0.45, 0.35, 0.2])][user]
    sex = np.array(["f", "m"])[rng.integers(0, 2, rows // 3)][user]
    s, r, q = rng.beta(2, 2.5, rows), rng.beta(2, 2, rows), rng.random(rows)
    low = np.where(group == "b", 0.75, 1.0)
    return pl.DataFrame(
        {
            "group": group,
            "sex": sex,
            "s": s,
            "r": r,
            "q": q,
            "points": np.round(300 + 500 * s),
            "y": (rng.random(rows) < low * s).astype(int),
            "z": (rng.random(rows) < r).astype(int),
            "w": (rng.random(rows) < q).astype(int),
            "amount": 10 * low * s + rng.normal(size=rows),
            "better": np.where(group == "b", 0.75 * s, s),
            "age": rng.integers(18, 80, rows),
            "user": user,
            "weight": rng.integers(8, 32, rows) / 16,
            "count": rng.integers(1, 4, rows),
            "branch": rng.integers(0, rows // 10, rows),
        }
    )


@cache
def programme(rows: int = 700, seed: int = 25) -> pl.DataFrame:
    """A care program: the score in use measures the need of one group better than that of the other."""
    rng = np.random.default_rng(seed)
    group = rng.choice(["a", "b"], rows, p=[0.6, 0.4])
    x1, x2 = rng.normal(size=rows), rng.normal(size=rows)
    need = rng.poisson(np.exp(0.8 + 0.5 * x1 + 0.2 * x2))
    noise = np.where(group == "a", 1.0, 6.0)
    score = (need - 2.5 + rng.normal(0, noise)) / np.sqrt(4 + noise**2)
    return pl.DataFrame(
        {
            "group": group,
            "sex": rng.choice(["f", "m"], rows),
            "x1": x1,
            "x2": x2,
            "clinic": rng.choice(["east", "west"], rows),
            "lab": need + rng.normal(0, 1.0, rows),
            "need": need,
            "sick": (need >= 2).astype(int),
            "cost": 100.0 * np.maximum(score + 2, 0),
            "score": score,
            "need_score": need + rng.normal(0, 0.3, rows),
            "rough_score": need + rng.normal(0, 1.5, rows),
            "decision": (score > 0.1).astype(int),
            "better": (need + rng.normal(0, 0.3, rows) > 1.5).astype(int),
            "other": (need + rng.normal(0, 1.5, rows) > 1.5).astype(int),
            "price": np.round(3.0 + 0.3 * need + rng.normal(0, 0.4, rows), 2),
            "new_price": np.round(2.0 + 0.8 * need + rng.normal(0, 0.2, rows), 2),
            "worth": need + 1.0 + rng.normal(0, 0.5, rows),
            "weight": rng.integers(8, 32, rows) / 16,
            "count": rng.integers(1, 4, rows),
            "household": rng.integers(0, rows // 2, rows),
        }
    )


@cache
def everything() -> pl.DataFrame:
    """Decisions and an experiment in one table: what every kind of test in an audit needs."""
    extra = experiment().head(ROWS).select("treatment", "effect", "baseline", "corrected", response="outcome")
    return decisions().hstack(extra)


def without(table: pl.DataFrame, column: str, every: int = 25) -> pl.DataFrame:
    """The table with the value of ``column`` missing in one row of ``every`` rows."""
    row = pl.int_range(pl.len())
    return table.with_columns(pl.when(row % every == 0).then(None).otherwise(pl.col(column)).alias(column))


def in_engine(engine: str, table: pl.DataFrame) -> Any:
    """The table in another library or engine."""
    if engine == "pandas":
        return table.to_pandas()
    import duckdb

    return duckdb.connect().from_arrow(table.to_arrow())


ENGINES = ("pandas", "duckdb")  # `tests/engines` has the others
