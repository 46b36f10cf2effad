"""Size and power of the tests of a score's meaning, `predictive_parity` and `marginal_outcomes`, against known truth.

python -m studies.calibration [--tables N] [--only TEXT]        writes docs/validity/calibration.md (hours)
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy import stats

import isonomy as iso
from isonomy.numerics.arrays import FloatArray
from studies.lines import Asked, Line, Page, Run, Section, at_most, each, main, rejected

TABLES = 1_000
Columns = dict[str, Any]
Curve = Callable[[FloatArray], FloatArray]
Laws = tuple[tuple[float, float], tuple[float, float]]  # parameters of Beta densities
ROLES: dict[str, Any] = {"outcome": "y", "score": "s", "groups": "g"}
LEVELS = np.linspace(0, 1, 20_001)
QUANTILES = stats.beta.ppf(LEVELS, 2, 3), stats.beta.ppf(LEVELS, 3, 2)  # a table is 20 times as fast as the function


# Curves: the probability of the outcome at a score


def steep(s: FloatArray) -> FloatArray:
    """From 0 to 1 around a score of one half."""
    return 1 / (1 + np.exp(-10 * (s - 0.5)))


def identity(s: FloatArray) -> FloatArray:
    """The score means what it says."""
    return s


def curved(s: FloatArray) -> FloatArray:
    """Convex."""
    return 0.15 + 0.7 * s**2


def flat(s: FloatArray) -> FloatArray:
    """The score means nothing."""
    return np.full(np.shape(s), 0.5)


def shifted(s: FloatArray) -> FloatArray:
    """More than the score says, everywhere."""
    return np.clip(s + 0.05, 0, 1)


def bumped(s: FloatArray) -> FloatArray:
    """More than the score says, around one half."""
    return np.clip(s + 0.15 * np.exp(-0.5 * ((s - 0.5) / 0.07) ** 2), 0, 1)


# Populations


def rows(
    rng: np.random.Generator,
    n: tuple[int, int],
    first: Curve,
    second: Curve | None = None,
    laws: Laws = ((2, 3), (3, 2)),
) -> Columns:
    """Two groups with scores Beta(2, 3) and Beta(3, 2) unless other laws are given; independent rows."""
    s = np.concatenate([rng.beta(a, b, size) for (a, b), size in zip(laws, n, strict=True)])
    g = np.repeat([0, 1], n)
    p = np.where(g == 0, first(s), (second or first)(s))
    return {"s": s, "g": g, "y": (rng.random(s.size) < p).astype(np.int8)}


def users(rng: np.random.Generator, n: int, curve: Curve) -> Columns:
    """``n`` users per group with 5 rows on average, more for those with more positive outcomes.

    Scores and outcomes of a user are correlated by 0.5 (on the scale of the underlying normals). Given the score,
    activity and outcome have the same law in both groups, so parity holds at both levels.
    """
    group = np.repeat([0, 1], n)
    luck, place = rng.normal(size=2 * n), rng.normal(size=2 * n)
    many = 1 + rng.poisson(8 * stats.norm.sf(luck))
    m = np.repeat(np.arange(2 * n), many)
    half = np.sqrt(0.5)
    u = stats.norm.cdf(half * luck[m] + half * rng.normal(size=m.size))
    v = stats.norm.cdf(half * place[m] + half * rng.normal(size=m.size))
    g = group[m]
    s = np.where(g == 0, np.interp(v, LEVELS, QUANTILES[0]), np.interp(v, LEVELS, QUANTILES[1]))
    return {"s": s, "g": g, "m": m, "y": (u < curve(s)).astype(np.int8)}


def third_group(rng: np.random.Generator) -> Columns:
    """Groups 0 and 1 are in parity; group 2 is far from both."""
    two = rows(rng, (2_000, 2_000), steep)
    s = rng.beta(2, 2, 2_000)
    y = (rng.random(2_000) < np.clip(steep(s) + 0.2, 0, 1)).astype(np.int8)
    return {"s": np.append(two["s"], s), "g": np.append(two["g"], np.full(2_000, 2)), "y": np.append(two["y"], y)}


def elsewhere(rng: np.random.Generator, change: Curve) -> Columns:
    """Parity, with scores that do not fill [0, 1]."""
    columns = rows(rng, (5_000, 5_000), steep)
    return columns | {"s": change(columns["s"])}


def four_columns(rng: np.random.Generator) -> Columns:
    """Four columns of groups that have nothing to do with the score or the outcome."""
    columns = rows(rng, (1_000, 1_000), steep)
    return columns | {f"g{k}": rng.integers(0, 2, 2_000) for k in range(4)}


ELSEWHERE: dict[str, Curve] = {
    "s / 10": lambda s: s / 10,
    "log-odds of s": lambda s: np.log(s / (1 - s)),
    "s, one score of 10": lambda s: np.append(s[:-1], 10.0),
}


# Questions: p-values. Every table has normal draws of its own: one set for all would make the size that of those draws.

Draw = Callable[[np.random.Generator], Columns]


def parity(rng: np.random.Generator, draw: Draw, **options: Any) -> float:
    """The p-value of parity."""
    return iso.predictive_parity(draw(rng), **(ROLES | {"resamples": 500, "rng": rng} | options)).pvalue


def ordering(rng: np.random.Generator, draw: Draw) -> float:
    """The p-value of "outcomes do not fall as the score rises"."""
    return float(iso.predictive_parity(draw(rng), **ROLES, resamples=500, rng=rng).ordering_pvalue)


def first_pair(rng: np.random.Generator, draw: Draw, **options: Any) -> float:
    """The p-value of the first pair of groups."""
    result = iso.predictive_parity(draw(rng), **ROLES, resamples=500, rng=rng, **options)
    return float(result.families[0].pair_pvalue[0])


def marginal(rng: np.random.Generator, draw: Draw, **options: Any) -> float:
    """The p-value of equal outcomes at a threshold."""
    return iso.marginal_outcomes(draw(rng), **ROLES, **options).pvalue


def no_violation(rng: np.random.Generator, draw: Draw) -> float:
    """0 if the verdict over four columns is a violation, else 1: a p-value of sorts."""
    asked = ROLES | {"groups": ["g0", "g1", "g2", "g3"]}
    return float(iso.predictive_parity(draw(rng), **asked, resamples=500, rng=rng).verdict != iso.Verdict.VIOLATION)


def band_holds(rng: np.random.Generator, draw: Draw, method: Any) -> float:
    """0 if the band leaves the true difference, s - s^2, out at one of five scores, else 1: a p-value of sorts."""
    grid = np.linspace(0.3, 0.7, 5)
    options = ROLES | {"resamples": 500, "rng": rng, "grid": grid.tolist(), "method": method}
    family = iso.predictive_parity(draw(rng), **options).families[0]
    true = grid - grid**2
    return float(np.all((family.low[0] <= true) & (true <= family.high[0])))


def of_pvalue(ask: Callable[[np.random.Generator], float]) -> Any:
    """A draw that says whether a p-value rejects at 0.05."""
    return each(lambda rng: rejected(ask(rng)))


def line(design: str, method: str, ask: Callable[[np.random.Generator], float], asked: Asked | None) -> Run:
    """A run that fills one line."""
    return Run((Line((design, method), (asked,)),), of_pvalue(ask), TABLES)


OURS = ("residual", "orthogonal", "cumulative")
PAPER = "nadaraya-watson"  # the paper's method, for comparison: nothing is asked of it
LIMIT = at_most(0.05)


def two_groups() -> list[Run]:
    """Parity of two groups, by curve, size and method; then groups of unlike size."""
    runs = []
    for name, curve in (("steep", steep), ("f(s) = s", identity)):
        for n in (500, 2_000, 10_000):
            for method in (*OURS, PAPER):
                ask = partial(parity, draw=partial(rows, n=(n, n), first=curve), method=method)
                asked = None if method == PAPER else LIMIT
                runs.append(line(f"size, {name}, {n:,} rows per group", method, ask, asked))
    ask = partial(parity, draw=partial(rows, n=(5_000, 500), first=steep))
    return [*runs, line("size, 5,000 against 500 rows, steep", "residual", ask, LIMIT)]


def repeated_users() -> list[Run]:
    """Users with several rows: at both levels, and as if rows were independent."""
    ways: dict[str, dict[str, Any]] = {
        "residual, user level": {"user": "m"},
        "residual, aggregate, clustered": {"user": "m", "level": "aggregate"},
        "residual, rows taken as independent": {},
    }
    return [
        line(
            f"size, repeated users, {n:,} per group",
            name,
            partial(parity, draw=partial(users, n=n, curve=steep), **options),
            LIMIT if options else None,
        )
        for n in (500, 2_000, 10_000)
        for name, options in ways.items()
    ]


def other_sizes() -> list[Run]:
    """Several groups, several columns, the ordering, and scores on other scales."""
    third = "size of a true-null pair beside a third group that deviates"
    level = partial(rows, n=(2_000, 2_000), first=flat)
    runs = [line(third, m, partial(first_pair, draw=third_group, method=m), LIMIT) for m in ("residual", "orthogonal")]
    ask = partial(ordering, draw=level)
    runs.append(line("size of the ordering, flat curves, 2,000 rows per group", "ordering", ask, LIMIT))
    for name, change in ELSEWHERE.items():
        for method in ("residual", PAPER):
            ask = partial(parity, draw=partial(elsewhere, change=change), method=method)
            asked = None if method == PAPER else LIMIT
            runs.append(line(f"size, steep, scores {name}, 5,000 rows per group", method, ask, asked))
    verdict = partial(no_violation, draw=four_columns)
    return [*runs, line("size of the verdict over four columns, 2,000 rows", "residual", verdict, LIMIT)]


def bands() -> list[Run]:
    """How often a band leaves out a true difference that bends."""
    runs = []
    for n in (1_000, 5_000):
        for method in ("residual", "orthogonal", PAPER):
            draw = partial(rows, n=(n, n), first=identity, second=np.square, laws=((2, 5), (5, 2)))
            design = f"band that leaves out the true difference, s against s^2, {n:,} rows per group"
            ask = partial(band_holds, draw=draw, method=method)
            runs.append(line(design, method, ask, None if method == PAPER else LIMIT))
    return runs


def at_threshold() -> list[Run]:
    """Equal outcomes at a threshold; asked for at most 0.08 on 1,000 tables."""
    runs = []
    for name, curve, threshold in (("curved", curved, 0.4), ("steep", steep, 0.5)):
        for method in ("local-quadratic", "local-linear", PAPER):
            draw = partial(rows, n=(2_000, 2_000), first=curve)
            ask = partial(marginal, draw=draw, method=method, threshold=threshold)
            asked = Asked(0.05, "most", slack=0.0093) if method == "local-quadratic" else None
            runs.append(line(f"size at a threshold, {name}, 2,000 rows per group", method, ask, asked))
    return runs


# Power


OTHERS: dict[str, Curve] = {"shifted by 0.05": shifted, "local bump of 0.15 at 0.5, width 0.07": bumped}


def null_and_planted(rng: np.random.Generator, method: Any, second: Curve) -> list[float]:
    """p-values where parity holds, and where it does not: f(s) = s in one group, 2,000 rows per group."""
    null = partial(rows, n=(2_000, 2_000), first=identity)
    planted = partial(rows, n=(2_000, 2_000), first=identity, second=second)
    return [parity(rng, draw, method=method) for draw in (null, planted)]


def power(outcomes: FloatArray) -> list[float]:
    """As it is, and with a critical p-value that makes the size 5 %."""
    null, planted = outcomes.T
    return [float(np.mean(planted <= 0.05)), float(np.mean(planted <= np.quantile(null, 0.05)))]


# Thresholds


def thresholds(rng: np.random.Generator) -> list[float]:
    """Change of the overall positive rate, and the gap of the true outcomes at the new margins: s against s^1.5."""
    columns = rows(rng, (5_000, 5_000), identity, lambda s: s**1.5)
    result = iso.equalize_thresholds(columns, **ROLES, threshold=0.5)
    change = abs(result.overall_after - result.overall_before)
    return [change, float(result.thresholds[0] - result.thresholds[1] ** 1.5)]


def largest_and_mean(outcomes: FloatArray) -> list[Any]:
    """The largest change, and the mean gap without its sign."""
    return [f"{outcomes[:, 0].max():.1e}", float(np.abs(outcomes[:, 1]).mean())]


PAGE = Page(
    "calibration",
    (
        Section(
            "Size at nominal 5 %",
            ("design", "method"),
            ("rejected",),
            (*two_groups(), *repeated_users(), *other_sizes(), *bands(), *at_threshold()),
        ),
        Section(
            "Power",
            ("the other group", "method"),
            ("power", "power at matched size"),
            tuple(
                Run(
                    (Line((name, method)),),
                    each(partial(null_and_planted, method=method, second=second)),
                    TABLES,
                    power,
                )
                for name, second in OTHERS.items()
                for method in ("residual", PAPER, "orthogonal", "cumulative")
            ),
        ),
        Section(
            "Equalised thresholds",
            ("design",),
            ("largest change of the overall positive rate", "mean gap of true outcomes at the margin"),
            (
                Run(
                    (Line(("f(s) = s against s^1.5, threshold 0.5, 5,000 rows per group",)),),
                    each(thresholds),
                    100,
                    largest_and_mean,
                ),
            ),
        ),
    ),
)


if __name__ == "__main__":
    main(PAGE)
