"""Comparable people: size where they are treated alike, coverage where they are not, and power beside a group dummy.

python -m studies.comparable [--tables N] [--only TEXT]        writes docs/groups/comparable_simulations.md
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import numpy as np
from scipy.special import expit

import isonomy as iso
from isonomy.groups.likelihood.means import IDENTITY
from isonomy.groups.likelihood.regression import Comparable, Referents, Terms, compare
from isonomy.inference.effect import Effect
from isonomy.numerics.arrays import BoolArray, FloatArray
from studies.lines import Asked, Line, Number, Page, Run, Section, at_most, each, main

TABLES = 1_000
CRITICAL = 3.841459
COVERED = Asked(0.95, "least")
Table = tuple[dict[str, FloatArray], FloatArray, BoolArray]


def probability(x: dict[str, FloatArray], truth: str) -> FloatArray:
    """The sum of the terms; "bent" has thresholds and interactions that the models do not contain."""
    a, b, c, d = x.values()
    if truth == "logistic":
        return -0.8 * a - 0.5 * b + 0.5 * c + d
    return -1.5 * (a > 0.5) + (a > 0) * (d > 0.5) - 0.8 * c * a + 0.5 * (b > 1.5)


def factors(rng: np.random.Generator, group: FloatArray, shift: float) -> dict[str, FloatArray]:
    """Four factors whose means differ by ``shift`` standard deviations between the group and the reference."""
    size = group.size
    return {
        "a": rng.normal(size=size) + shift * group,
        "b": np.exp(0.5 * (rng.normal(size=size) - shift * group)),
        "c": (rng.random(size) < 0.4 + 0.2 * group).astype(float),
        "d": rng.uniform(size=size),
    }


@cache
def level(truth: str, rate: float, shift: float) -> float:
    """The intercept at which the reference has the ``rate``."""
    along = probability(factors(np.random.default_rng(5), np.zeros(200_000), shift), truth)
    value = 0.0
    for _ in range(50):
        p = expit(value + along)
        value += (rate - p.mean()) / (p * (1 - p)).mean()
    return float(value)


def drawn(
    rng: np.random.Generator, n1: int, n0: int, rate: float, truth: str, shift: float, effect: float = 0.0
) -> Table:
    """A group and its reference; ``effect`` is added to the log odds of the group's people."""
    group = np.arange(n1 + n0) < n1
    x = factors(rng, group.astype(float), shift)
    p = expit(level(truth, rate, shift) + probability(x, truth) + effect * group)
    return x, (rng.random(group.size) < p).astype(float), group


@cache
def difference(rate: float, truth: str, shift: float, effect: float) -> float:
    x = factors(np.random.default_rng(6), np.ones(1_000_000), shift)
    along = level(truth, rate, shift) + probability(x, truth)
    return float((expit(along + effect) - expit(along)).mean())


def measured(table: Table, model: str = "doubly_robust") -> tuple[Effect | None, float]:
    """The effect (None: not tested), and the T of the group in a logistic regression with linear terms."""
    x, y, group = table
    mass = np.ones(y.size)
    terms = Terms.of_factors(x, {}, mass)
    pair = compare(terms, y, mass, group, Referents(terms, y, mass, ~group, binary=True), model=model)
    dummy = 0.0 if pair.odds is None else float(pair.odds[0] ** 2 / (pair.odds[1] ** 2).sum())
    if pair.status != "ok":
        return None, dummy
    return Comparable((pair,), mass, binary=True).effect(np.array([0]), IDENTITY), dummy


def rejections(rng: np.random.Generator, **design: Any) -> list[float]:
    """Whether each test rejects, and whether the first was made."""
    table = drawn(rng, **design)
    robust, (regression, dummy) = measured(table)[0], measured(table, "logistic")
    values = [0.0 if part is None else float(part.statistic(0.0)[0]) for part in (robust, regression)]
    return [*(float(value > CRITICAL) for value in (*values, dummy)), float(robust is None)]


def covered(rng: np.random.Generator, **design: Any) -> list[float]:
    truth = difference(design["rate"], design["truth"], design["shift"], design["effect"])
    effect = measured(drawn(rng, **design))[0]
    if effect is None:
        return [np.nan, np.nan, np.nan]
    low, high = (float(end[0]) for end in effect.interval(CRITICAL))
    return [float(low <= truth <= high), high - low, float(effect.value[0]) - truth]


def averages(outcomes: FloatArray) -> list[Number]:
    return [*np.nanmean(outcomes, axis=0).tolist(), float(np.isnan(outcomes[:, 0]).mean())]


def families(rng: np.random.Generator, groups: int, rows: int, reference: str, clusters: int = 0) -> float:
    """Whether `flag` shows any difference, of groups whose people are treated alike given the factors."""
    weight = np.arange(1, groups + 1) + 1.0
    g = rng.choice(groups, rows, p=weight / weight.sum())
    owner = rng.integers(0, max(clusters, 1), rows)
    if clusters:  # a cluster has one group, and a share of its people's luck
        g = rng.choice(groups, clusters, p=weight / weight.sum())[owner]
    x = factors(rng, 0.4 * g / groups, 1.0)
    luck = rng.normal(0.0, 0.7, max(clusters, 1))[owner] if clusters else 0.0
    y = rng.random(rows) < expit(level("logistic", 0.4, 0.4) + probability(x, "logistic") + luck)
    call: dict[str, Any] = {"cluster": "owner"} if clusters else {}
    against: Any = {"g": groups - 1} if reference == "a group" else "rest"
    given = iso.comparable(*x)
    data = {**x, "g": g, "y": y.astype(int), "owner": owner}
    return float(
        bool(
            iso.flag(
                data, metric="selection_rate", prediction="y", groups="g", reference=against, given=given, **call
            ).flagged
        )
    )


def means(rng: np.random.Generator, n1: int, n0: int, law: str) -> float:
    """Whether `flag` shows a difference of real values."""
    group = np.arange(n1 + n0) < n1
    x = factors(rng, group.astype(float), 0.5)
    noise = rng.normal(size=group.size) if law == "normal" else rng.exponential(size=group.size) - 1.0
    data = {**x, "y": x["a"] + np.sin(2.0 * x["a"]) + x["c"] + noise, "g": np.where(group, "g", "r")}
    metric = iso.Metric("value", value=iso.col("y"))
    return float(
        bool(iso.flag(data, metric=metric, groups="g", reference={"g": "r"}, given=iso.comparable(*x)).flagged)
    )


def _line(kind: Any, asked: tuple[Asked | None, ...], summary: Any = None, **design: Any) -> Run:
    cells = tuple(f"{value:,}" if isinstance(value, int) else f"{value}" for value in design.values())
    extra = {} if summary is None else {"summary": summary}
    return Run((Line(cells, asked),), each(partial(kind, **design)), TABLES, **extra)


SIZES = ((60, 2_000), (60, 300), (60, 60), (200, 200), (2_000, 200), (2_000, 2_000))
NAMES = ("group", "reference", "rate", "truth", "shift")
PAGE = Page(
    "groups/comparable_simulations",
    (
        Section(
            "Size: people are treated alike given the factors",
            NAMES,
            ("doubly robust", "Peters-Belson", "group dummy", "not tested"),
            tuple(
                _line(rejections, (at_most(0.05),), n1=n1, n0=n0, rate=rate, truth=truth, shift=shift)
                for n1, n0, rate, truth, shift in (
                    *((n1, n0, 0.4, "logistic", 0.5) for n1, n0 in SIZES),
                    *((n1, n0, 0.4, "bent", 0.5) for n1, n0 in SIZES),
                    *((n1, n0, rate, "logistic", 0.5) for n1, n0 in SIZES[:4] for rate in (0.05, 0.9)),
                    *((500, 2_000, 0.4, truth, 1.5) for truth in ("logistic", "bent")),
                    *((500, 2_000, 0.4, truth, 1.2) for truth in ("logistic", "bent")),
                    *((200, 500, 0.4, truth, 1.0) for truth in ("logistic", "bent")),
                )
            ),
        ),
        Section(
            "Any false finding of flag, adjusted by Benjamini and Hochberg",
            ("groups", "rows", "against", "clusters"),
            ("any finding",),
            tuple(
                _line(families, (at_most(0.05),), groups=groups, rows=rows, reference=reference, clusters=clusters)
                for groups, rows, reference, clusters in (
                    (2, 1_000, "a group", 0),
                    (12, 3_000, "a group", 0),
                    (12, 3_000, "the rest", 0),
                    (2, 1_000, "a group", 150),
                    (4, 3_000, "the rest", 300),
                )
            ),
        ),
        Section(
            "Size for values that are not 0/1",
            ("group", "reference", "law"),
            ("rejected",),
            tuple(
                _line(means, (at_most(0.05),), n1=n1, n0=n0, law=law)
                for n1, n0 in ((60, 300), (200, 200))
                for law in ("normal", "exponential")
            ),
        ),
        Section(
            "Coverage of 95 % intervals where people are not treated alike",
            (*NAMES, "log odds"),
            ("covered", "width", "bias", "not tested"),
            tuple(
                _line(covered, (COVERED,), averages, n1=n1, n0=n0, rate=rate, truth=truth, shift=0.5, effect=effect)
                for n1, n0 in ((60, 300), (200, 200), (2_000, 2_000))
                for rate, effect in ((0.4, -0.7), (0.9, -0.7))
                for truth in ("logistic", "bent")
            ),
        ),
        Section(
            "Power beside a logistic regression with a group dummy",
            (*NAMES, "log odds"),
            ("doubly robust", "Peters-Belson", "group dummy", "not tested"),
            tuple(
                _line(rejections, (), n1=n1, n0=n0, rate=0.4, truth=truth, shift=0.5, effect=-0.5)
                for n1, n0 in ((60, 2_000), (200, 200), (500, 500))
                for truth in ("logistic", "bent")
            ),
        ),
    ),
)

if __name__ == "__main__":
    main(PAGE)
