"""Average coverage of estimates that are drawn together, their error next to the raw ones, and the size of Q.

python -m studies.shrunk [--tables N] [--only TEXT]        writes docs/groups/shrunk_simulations.md
"""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import Any

import numpy as np

import isonomy as iso
from isonomy.groups.likelihood.shrinkage import beyond_parts, rate_variance, shrink_means
from isonomy.numerics.arrays import FloatArray
from studies.lines import Asked, Line, Number, Page, Run, Section, at_most, each, main, rejected

TABLES = 1_000
# Shares of the levels of four columns: 96 groups, whose median has 12 of 2,000 rows.
SHARES = ((0.55, 0.25, 0.15, 0.05), (0.55, 0.45), (0.6, 0.3, 0.1), (0.4, 0.3, 0.2, 0.1))
TRUTHS = ("sum of parts and interactions", "sum of parts", "all equal", "one outlier", "no structure")
# Coverage on average over groups and tables. The coverage of a table varies by about 0.05 from table to table.
AVERAGE = Asked(0.95, "least", error=lambda tables: 0.05 / float(np.sqrt(tables)))


def design_of(sizes: tuple[int, ...], toward: str) -> FloatArray:
    """A constant and, toward the main effects, the levels of each column but the first."""
    groups = np.array(list(product(*map(range, sizes))))
    effects = [groups[:, i] == level for i, size in enumerate(sizes) for level in range(1, size)]
    return np.column_stack([np.ones(len(groups)), *(effects if toward == "main effects" else [])]).astype(float)


def truth_of(kind: str, rate: float, sizes: tuple[int, ...]) -> FloatArray:
    """The true rate of each group, the same in every table."""
    rng = np.random.default_rng(7)
    parts = design_of(sizes, "main effects")[:, 1:] @ rng.normal(0.0, 0.25 * rate, sum(sizes) - len(sizes))
    interactions, scatter = rng.normal(0.0, 0.15 * rate, parts.size), rng.normal(0.0, 0.35 * rate, parts.size)
    truth = {
        "sum of parts": rate + parts - parts.mean(),
        "sum of parts and interactions": rate + parts - parts.mean() + interactions,
        "one outlier": rate + parts - parts.mean() + interactions,
        "all equal": np.full(parts.size, rate),
        "no structure": rate + scatter,
    }[kind]
    if kind == "one outlier":
        truth[parts.size // 3] = rate / 4
    return np.clip(truth, rate / 5, 1.0 - rate / 5)


def sizes_of(rng: np.random.Generator, rows: int, shares: tuple[tuple[float, ...], ...]) -> FloatArray:
    chance = np.array([np.prod(part) for part in product(*shares)])
    return rng.multinomial(rows, chance / chance.sum()).astype(float)


def outcome(columns: dict[str, FloatArray], value: FloatArray, truth: FloatArray, there: Any) -> FloatArray:
    """For each group: whether its interval holds the truth, both squared errors, the width; NaN without rows."""
    covered = (columns["ci_low"] <= truth[there]) & (truth[there] <= columns["ci_high"])
    numbers = np.full((4, truth.size), np.nan)
    errors = (value - truth[there]) ** 2, (columns["shrunk"] - truth[there]) ** 2
    numbers[:, there] = covered, *errors, columns["ci_high"] - columns["ci_low"]
    return numbers


def rates(
    rng: np.random.Generator,
    kind: str,
    rows: int,
    rate: float,
    toward: str = "main effects",
    shares: tuple[tuple[float, ...], ...] = SHARES,
) -> FloatArray:
    sizes = tuple(map(len, shares))
    truth, n = truth_of(kind, rate, sizes), sizes_of(rng, rows, shares)
    there = n > 0
    value, design = rng.binomial(n[there].astype(int), truth[there]) / n[there], design_of(sizes, toward)[there]
    return outcome(shrink_means(value, rate_variance(value, n[there], design), design, 0.05)[0], value, truth, there)


def values(rng: np.random.Generator, law: str, rows: int) -> FloatArray:
    """Means of real values around a sum of parts with interactions, with the variance pooled within groups."""
    sizes, n = tuple(map(len, SHARES)), sizes_of(rng, rows, SHARES).astype(int)
    truth, there = 10.0 * truth_of("sum of parts and interactions", 0.3, sizes), n > 0
    spread = np.random.default_rng(8).uniform(2.0, 6.0, n.size) if law == "unequal variances" else np.full(n.size, 4.0)
    group = np.repeat(np.arange(n.size), n)
    noise = rng.normal(size=rows)
    if law == "lognormal":
        noise = (np.exp(rng.normal(size=rows)) - np.exp(0.5)) / np.sqrt((np.e - 1.0) * np.e)
    x = truth[group] + spread[group] * noise
    mean = np.bincount(group, x, n.size)[there] / n[there]
    within = ((x - np.bincount(group, x, n.size)[group] / n[group]) ** 2).sum() / (rows - there.sum())
    design = design_of(sizes, "main effects")[there]
    return outcome(shrink_means(mean, within / n[there], design, 0.05)[0], mean, truth, there)


def designed(rng: np.random.Generator, options: Any) -> FloatArray:
    """`flag` of 24 groups with weights or clusters, drawn toward their mean."""
    rows, groups = 1_500, 24
    truth = truth_of("no structure", 0.3, (4, 6))
    person = rng.integers(0, rows // 3, rows)
    of_person = rng.choice(groups, rows // 3, p=np.arange(1, groups + 1) / (groups * (groups + 1) / 2))
    group = of_person[person]
    shared = rng.random(rows) < 0.5  # half of the rows repeat what was drawn for their person
    draw = np.where(shared, rng.random(rows // 3)[person], rng.random(rows))
    weight = rng.lognormal(0.0, 0.5, rows)
    if "cluster" not in options:
        draw = rng.random(rows)
    table = {"g": group, "y": (draw < truth[group]).astype(int), "w": weight, "person": person}
    call: dict[str, Any] = {"metric": "selection_rate", "prediction": "y", "groups": "g", "min_size": 1}
    result = iso.flag(table, **call, **options).shrunk()
    there = np.isin(np.arange(groups), group)
    columns = {name: getattr(result, name) for name in ("shrunk", "ci_low", "ci_high")}
    return outcome(columns, result.estimate, truth, there)


def coverage(outcomes: FloatArray) -> list[Number]:
    """Average coverage, that of the worst group, the error of raw and of shrunk estimates, and the width."""
    covered, raw, shrunk, width = np.split(outcomes, 4, axis=1)
    by_group = np.nanmean(covered, axis=0)
    mean = [float(np.nanmean(part)) for part in (covered, raw, shrunk, width)]
    return [mean[0], float(by_group.min()), mean[1] ** 0.5, mean[2] ** 0.5, mean[3]]


def beyond(rng: np.random.Generator, kind: str, rows: int, rate: float) -> Any:
    """Whether Q rejects."""
    sizes = tuple(map(len, SHARES))
    truth, n = truth_of(kind, rate, sizes), sizes_of(rng, rows, SHARES)
    there, design = n > 0, design_of(sizes, "main effects")
    value = rng.binomial(n[there].astype(int), truth[there]) / n[there]
    variance = rate_variance(value, n[there], design[there])
    return rejected(beyond_parts(value, variance, design[there]).pvalue)


def _rates(kind: str, rows: int, rate: float, toward: str = "main effects") -> Run:
    draw = each(partial(rates, kind=kind, rows=rows, rate=rate, toward=toward))
    return Run((Line((kind, f"{rows:,}", f"{rate:g}", toward), (AVERAGE,)),), draw, TABLES, coverage)


def _few(shares: tuple[tuple[float, ...], ...], toward: str, kind: str) -> Run:
    groups, left = int(np.prod([len(part) for part in shares])), design_of(tuple(map(len, shares)), toward)
    draw = each(partial(rates, kind=kind, rows=25 * groups, rate=0.3, toward=toward, shares=shares))
    line = Line((f"{groups}", f"{groups - left.shape[1]}", toward, kind), (AVERAGE,))
    return Run((line,), draw, TABLES, coverage)


MEASURED = ("average coverage", "worst group", "RMSE raw", "RMSE shrunk", "width")
FEW = (
    (((0.5, 0.3, 0.2), (0.5, 0.3, 0.1, 0.1), (0.5, 0.5)), "main effects"),
    (((0.4, 0.3, 0.2, 0.1), (0.3, 0.3, 0.2, 0.1, 0.1)), "main effects"),
    (((0.5, 0.3, 0.1, 0.1), (0.6, 0.4)), "mean"),
)
PAGE = Page(
    "groups/shrunk_simulations",
    (
        Section(
            "Coverage on average over 96 groups",
            ("truth", "rows", "rate", "toward"),
            MEASURED,
            (
                *(_rates(kind, 2_000, 0.3) for kind in TRUTHS),
                *(_rates(kind, 2_000, 0.3, "mean") for kind in TRUTHS),
                _rates(TRUTHS[0], 600, 0.3),
                _rates(TRUTHS[0], 10_000, 0.3),
                _rates("one outlier", 10_000, 0.3),
                _rates(TRUTHS[0], 2_000, 0.08),
                _rates("all equal", 2_000, 0.08),
            ),
        ),
        Section(
            "Means of real values",
            ("law", "rows"),
            MEASURED,
            tuple(
                Run((Line((law, "2,000"), (AVERAGE,)),), each(partial(values, law=law, rows=2_000)), TABLES, coverage)
                for law in ("normal", "lognormal", "unequal variances")
            ),
        ),
        Section(
            "Few groups",
            ("groups", "groups less parameters", "toward", "truth"),
            MEASURED,
            tuple(
                _few(shares, toward, kind)
                for shares, toward in FEW
                for kind in (TRUTHS[0], "all equal", "no structure")
            ),
        ),
        Section(
            "Weights and clusters",
            ("rows",),
            MEASURED,
            tuple(
                Run((Line((name,), (AVERAGE,)),), each(partial(designed, options=options)), TABLES, coverage)
                for name, options in (
                    ("weights", {"weight": "w"}),
                    ("clusters of 3 rows", {"cluster": "person"}),
                    ("both", {"weight": "w", "cluster": "person"}),
                )
            ),
        ),
        Section(
            "More than the sum of the parts",
            ("truth", "rows", "rate"),
            ("rejected",),
            tuple(
                Run(
                    (Line((kind, f"{n:,}", f"{p:g}"), (asked,)),),
                    each(partial(beyond, kind=kind, rows=n, rate=p)),
                    TABLES,
                )
                for kind, asked in (("sum of parts", at_most(0.05)), ("all equal", at_most(0.05)), (TRUTHS[0], None))
                for n in (600, 2_000, 10_000)
                for p in (0.3, 0.08)
            ),
        ),
    ),
)

if __name__ == "__main__":
    main(PAGE)
