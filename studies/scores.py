"""Size and power of `predictive_parity` and `marginal_outcomes` on designs with known truth.

python -m studies.scores [--tables N] [--only TEXT]        writes docs/scores/simulations.md (hours)
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from scipy import stats
from scipy.interpolate import BSpline
from scipy.special import expit

import isonomy as iso
from isonomy.numerics.arrays import FloatArray
from studies.lines import Asked, Line, Page, Run, Section, at_most, each, main, rejected

TABLES = 1_000
Columns = dict[str, Any]
Curve = Callable[[FloatArray], FloatArray]
Laws = tuple[tuple[float, float], tuple[float, float]]  # parameters of Beta densities
ROLES: dict[str, Any] = {"outcome": "y", "score": "s", "groups": "g"}
LEVELS = np.linspace(0, 1, 20_001)
QUANTILES = stats.beta.ppf(LEVELS, 2, 3), stats.beta.ppf(LEVELS, 3, 2)  # 20 times as fast as the quantile function


# Curves: the probability of the outcome at a score


def steep(s: FloatArray) -> FloatArray:
    return 1 / (1 + np.exp(-10 * (s - 0.5)))


def identity(s: FloatArray) -> FloatArray:
    return s


def curved(s: FloatArray) -> FloatArray:
    return 0.15 + 0.7 * s**2


def flat(s: FloatArray) -> FloatArray:
    return np.full(np.shape(s), 0.5)


def shifted(s: FloatArray) -> FloatArray:
    return np.clip(s + 0.05, 0, 1)


def steeper(s: FloatArray) -> FloatArray:
    return 1 / (1 + np.exp(-20 * (s - 0.5)))


def kinked(s: FloatArray) -> FloatArray:
    return 0.1 + 1.6 * np.maximum(s - 0.5, 0)


def ramped(s: FloatArray) -> FloatArray:
    """Kinked twice: 0.1, then rising with slope 8 around one half, then 0.9."""
    return np.clip(0.5 + 8 * (s - 0.5), 0.1, 0.9)


def stepped(s: FloatArray) -> FloatArray:
    return np.where(s < 0.5, 0.2, 0.7)


def rare(s: FloatArray) -> FloatArray:
    return 0.01 + 0.01 * s


def crossing(s: FloatArray) -> FloatArray:
    return np.clip(s + 0.25 * (s - 0.5), 0, 1)


def bumped(s: FloatArray) -> FloatArray:
    return np.clip(s + 0.15 * np.exp(-0.5 * ((s - 0.5) / 0.07) ** 2), 0, 1)


# Populations


def rows(
    rng: np.random.Generator,
    n: tuple[int, int],
    first: Curve,
    second: Curve | None = None,
    laws: Laws = ((2, 3), (3, 2)),
) -> Columns:
    """Independent rows of two groups whose scores are Beta distributed with parameters ``laws``."""
    s = np.concatenate([rng.beta(a, b, size) for (a, b), size in zip(laws, n, strict=True)])
    g = np.repeat([0, 1], n)
    p = np.where(g == 0, first(s), (second or first)(s))
    return {"s": s, "g": g, "y": (rng.random(s.size) < p).astype(np.int8)}


def users(rng: np.random.Generator, n: int, curve: Curve) -> Columns:
    """``n`` users per group with 5 rows on average; users with more positive outcomes have more rows.

    The normals behind the scores, and behind the outcomes, of a user have a correlation of 0.5. Given the score,
    activity and outcome have the same distribution in both groups, so parity holds at both levels.
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


def interleaved(rng: np.random.Generator, n: int, first: Curve, second: Curve | None = None) -> Columns:
    """The scores of one group lie between those of the other: around 0.5, and around 0.25 and 0.75."""
    s = np.concatenate([rng.normal(np.where(rng.random(n) < 0.5, 0.25, 0.75), 0.08), rng.normal(0.5, 0.08, n)])
    s, g = np.clip(s, 0, 1), np.repeat([0, 1], n)
    p = np.where(g == 0, first(s), (second or first)(s))
    return {"s": s, "g": g, "y": (rng.random(2 * n) < p).astype(np.int8)}


def apart(rng: np.random.Generator, n: int, gap: float, first: Curve) -> Columns:
    """The groups share no score: one lies below one half, the other above, with a ``gap`` between them."""
    g = np.repeat([0, 1], n)
    s = (0.5 - gap / 2) * rng.random(2 * n) + np.where(g == 0, 0.0, 0.5 + gap / 2)
    return {"s": s, "g": g, "y": (rng.random(2 * n) < first(s)).astype(np.int8)}


def deciles(rng: np.random.Generator, n: int, first: Curve) -> Columns:
    columns = rows(rng, (n, n), first)
    s = np.ceil(columns["s"] * 10) / 10
    return columns | {"s": s, "y": (rng.random(2 * n) < first(s)).astype(np.int8)}


def six_groups(rng: np.random.Generator) -> Columns:
    """Six groups of 1,000 rows with different scores, in parity."""
    s = np.concatenate([rng.beta(2 + k / 3, 4 - k / 3, 1_000) for k in range(6)])
    return {"s": s, "g": np.repeat(np.arange(6), 1_000), "y": (rng.random(6_000) < steep(s)).astype(np.int8)}


def heavy_users(rng: np.random.Generator, n: int) -> Columns:
    """``n`` users per group with correlated outcomes; the number of rows has a Pareto tail of index 1.5."""
    many = np.minimum(np.ceil(rng.pareto(1.5, 2 * n)), 1_000).astype(int)
    m = np.repeat(np.arange(2 * n), many)
    g = np.repeat([0, 1], n)[m]
    s = np.where(g == 0, rng.beta(2, 3, m.size), rng.beta(3, 2, m.size))
    half = np.sqrt(0.5)
    u = stats.norm.cdf(half * rng.normal(size=2 * n)[m] + half * rng.normal(size=m.size))
    return {"s": s, "g": g, "m": m, "y": (u < steep(s)).astype(np.int8)}


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
    """Four group columns that are independent of score and outcome."""
    columns = rows(rng, (1_000, 1_000), steep)
    return columns | {f"g{k}": rng.integers(0, 2, 2_000) for k in range(4)}


ELSEWHERE: dict[str, Curve] = {
    "s / 10": lambda s: s / 10,
    "log-odds of s": lambda s: np.log(s / (1 - s)),
    "s, one score of 10": lambda s: np.append(s[:-1], 10.0),
}


# P-values. Every table uses new normal draws; with one set for all tables, the size would depend on that set.

Draw = Callable[[np.random.Generator], Columns]


def parity(rng: np.random.Generator, draw: Draw, method: Any = None, level: Any = None, **options: Any) -> float:
    """The p-value of parity, which combines equal outcomes and the ordering."""
    curves = iso.curves(method, level=level, resamples=500)
    return iso.predictive_parity(draw(rng), **ROLES, method=curves, rng=rng, **options).pvalue


def ordering(rng: np.random.Generator, draw: Draw) -> float:
    """The p-value of "outcomes do not fall as the score rises", without the correction for its share of alpha."""
    return iso.predictive_parity(draw(rng), **ROLES, method=iso.curves(resamples=500), rng=rng).ordering_pvalue * 0.1


def first_pair(rng: np.random.Generator, draw: Draw, **options: Any) -> float:
    result = iso.predictive_parity(draw(rng), **ROLES, method=iso.curves(resamples=500), rng=rng, **options)
    return float(result.pair_pvalue[0])


def marginal(rng: np.random.Generator, draw: Draw, **options: Any) -> float:
    return iso.marginal_outcomes(draw(rng), **ROLES, **options).pvalue


def no_violation(rng: np.random.Generator, draw: Draw) -> float:
    """0 if the verdict over four columns is a violation, else 1; used like a p-value."""
    asked = ROLES | {"groups": ["g0", "g1", "g2", "g3"]}
    result = iso.predictive_parity(draw(rng), **asked, method=iso.curves(resamples=500), rng=rng)
    return float(result.verdict != iso.Verdict.VIOLATION)


def band_holds(rng: np.random.Generator, draw: Draw, method: Any) -> float:
    """0 if the band misses the true difference, s - s^2, at one of five scores, else 1; used like a p-value.

    A score with too few users has no band, which counts as covered.
    """
    grid = np.linspace(0.3, 0.7, 5)
    curves = iso.curves(method, grid=grid.tolist(), resamples=500)
    result = iso.predictive_parity(draw(rng), **ROLES, method=curves, rng=rng)
    true = grid - grid**2
    return float(not np.any((true < result.ci_low) | (result.ci_high < true)))


def of_pvalue(ask: Callable[[np.random.Generator], float]) -> Any:
    """A draw that returns whether a p-value rejects at 0.05."""
    return each(lambda rng: rejected(ask(rng)))


def line(design: str, method: str, ask: Callable[[np.random.Generator], float], asked: Asked | None) -> Run:
    return Run((Line((design, method), (asked,)),), of_pvalue(ask), TABLES)


PARTS = ("orthogonal", "cumulative", "trend")
PAPER = "published"  # the paper's method, for comparison; it has no target
LIMIT = at_most(0.05)
BESIDE = {("steep", 500): (*PARTS, PAPER), ("steep", 10_000): (PAPER,)}  # methods other than the default


def two_groups() -> list[Run]:
    runs = []
    for (name, curve), n in itertools.product((("steep", steep), ("f(s) = s", identity)), (500, 2_000, 10_000)):
        for method in ("omnibus", *BESIDE.get((name, n), ())):
            ask = partial(parity, draw=partial(rows, n=(n, n), first=curve), method=method)
            asked = None if method == PAPER else LIMIT
            runs.append(line(f"size, {name}, {n:,} rows per group", method, ask, asked))
    return runs


@dataclass(frozen=True)
class Hard:
    """A design in parity, with options of the call.

    ``residual``: whether the method of this name is run as well, without a target. ``regressed``: whether the rivals
    are run, which compare two groups and give each row one vote.
    """

    draw: Draw
    options: dict[str, Any] = field(default_factory=dict)
    residual: bool = False
    regressed: bool = True


HARD: dict[str, Hard] = {
    "interleaved scores, kinked twice, 2,000 rows per group": Hard(
        partial(interleaved, n=2_000, first=ramped), residual=True
    ),
    "interleaved scores, kinked twice, 5,000 rows per group": Hard(
        partial(interleaved, n=5_000, first=ramped), residual=True
    ),
    "interleaved scores, kinked curve, 2,000 rows per group": Hard(partial(interleaved, n=2_000, first=kinked)),
    "interleaved scores, kinked curve, 5,000 rows per group": Hard(partial(interleaved, n=5_000, first=kinked)),
    "interleaved scores, slope 20, 5,000 rows per group": Hard(partial(interleaved, n=5_000, first=steeper)),
    "interleaved scores, step, 5,000 rows per group": Hard(partial(interleaved, n=5_000, first=stepped)),
    "groups without a common score, slope 20, 2,000 rows per group": Hard(
        partial(apart, n=2_000, gap=0.0, first=steeper)
    ),
    "groups with a gap of 0.1 between them, slope 20, 2,000 rows per group": Hard(
        partial(apart, n=2_000, gap=0.1, first=steeper)
    ),
    "step, 5,000 rows per group": Hard(partial(rows, n=(5_000, 5_000), first=stepped)),
    "deciles, 2,000 rows per group": Hard(partial(deciles, n=2_000, first=steep)),
    "5,000 against 500 rows, steep": Hard(partial(rows, n=(5_000, 500), first=steep)),
    "default rates of 1 to 2 %, 5,000 rows per group": Hard(partial(rows, n=(5_000, 5_000), first=rare)),
    "default rates of 1 to 2 %, 20,000 against 2,000 rows": Hard(partial(rows, n=(20_000, 2_000), first=rare)),
    "six groups of 1,000 rows": Hard(six_groups, regressed=False),
    "heavy-tailed users, 500 per group, user level": Hard(
        partial(heavy_users, n=500), {"user": "m", "level": "user"}, regressed=False
    ),
    "heavy-tailed users, 500 per group, aggregate": Hard(
        partial(heavy_users, n=500), {"user": "m", "level": "aggregate"}
    ),
    "flat curves, 2,000 rows per group": Hard(partial(rows, n=(2_000, 2_000), first=flat)),
}


def hard_designs() -> list[Run]:
    runs = []
    for name, design in HARD.items():
        ask = partial(parity, draw=design.draw, **design.options)
        runs.append(line(f"size, {name}", "omnibus", ask, LIMIT))
        if design.residual:
            runs.append(line(f"size, {name}", "residual", partial(ask, method="residual"), None))
    return runs


def repeated_users() -> list[Run]:
    ways: dict[str, dict[str, Any]] = {
        "omnibus, user level": {"user": "m"},
        "omnibus, aggregate, clustered": {"user": "m", "level": "aggregate"},
        "omnibus, rows taken as independent": {},
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
    third = "size of a true-null pair next to a third group that deviates"
    level = partial(rows, n=(2_000, 2_000), first=flat)
    runs = [line(third, "omnibus", partial(first_pair, draw=third_group), LIMIT)]
    ask = partial(ordering, draw=level)
    runs.append(line("size of the ordering, flat curves, 2,000 rows per group", "ordering", ask, LIMIT))
    for name, change in ELSEWHERE.items():
        ask = partial(parity, draw=partial(elsewhere, change=change))
        runs.append(line(f"size, steep, scores {name}, 5,000 rows per group", "omnibus", ask, LIMIT))
    verdict = partial(no_violation, draw=four_columns)
    return [*runs, line("size of the verdict over four columns, 2,000 rows", "omnibus", verdict, LIMIT)]


def bands() -> list[Run]:
    """How often a band misses a curved true difference."""
    runs = []
    for n in (1_000, 5_000):
        for method in ("omnibus", "residual", PAPER):
            draw = partial(rows, n=(n, n), first=identity, second=np.square, laws=((2, 5), (5, 2)))
            design = f"band that leaves out the true difference, s against s^2, {n:,} rows per group"
            asked = Asked(0.06, "most", exact=True) if method == "omnibus" else None
            runs.append(line(design, method, partial(band_holds, draw=draw, method=method), asked))
    return runs


def ending(rng: np.random.Generator, n: int, first: Curve) -> Columns:
    """The scores of one group end 0.1 above the threshold of one half."""
    s, g = np.concatenate([0.6 * rng.beta(2, 2, n), rng.random(n)]), np.repeat([0, 1], n)
    return {"s": s, "g": g, "y": (rng.random(2 * n) < first(s)).astype(np.int8)}


AT_HALF: dict[str, Draw] = {
    "slope 20, 2,000 rows per group": partial(rows, n=(2_000, 2_000), first=steeper),
    "slope 20, unequal densities, 2,000 rows per group": partial(
        rows, n=(2_000, 2_000), first=steeper, laws=((2, 5), (5, 2))
    ),
    "slope 20, scores that end 0.1 above, 2,000 rows per group": partial(ending, n=2_000, first=steeper),
    "f(s) = s, 200 rows per group": partial(rows, n=(200, 200), first=identity),
    "f(s) = s, 100 rows per group": partial(rows, n=(100, 100), first=identity),
}


def at_threshold() -> list[Run]:
    runs = []
    for name, curve, threshold in (("curved", curved, 0.4), ("steep", steep, 0.5)):
        for method in ("local-quadratic", "local-linear", PAPER):
            draw = partial(rows, n=(2_000, 2_000), first=curve)
            ask = partial(marginal, draw=draw, method=method, threshold=threshold)
            asked = LIMIT if method == "local-quadratic" else None
            runs.append(line(f"size at a threshold, {name}, 2,000 rows per group", method, ask, asked))
    limit = Asked(0.07, "most", exact=True)
    return [
        *runs,
        *(
            line(f"size at a threshold, {name}", "local-quadratic", partial(marginal, draw=draw, threshold=0.5), limit)
            for name, draw in AT_HALF.items()
        ),
    ]


# Composites


def two_scores(rng: np.random.Generator, n: int, laws: Laws = ((2, 3), (3, 2)), skewed: bool = False) -> Columns:
    """Two calibrated scores, so that every weighted sum is in parity; the first has other densities in each group."""
    g, first = np.repeat([0, 1], n), np.concatenate([rng.beta(a, b, n) for a, b in laws])
    second = rng.beta(2, 2, 2 * n)
    u = first * rng.lognormal(-0.72, 1.2, 2 * n) if skewed else rng.random(2 * n) < first
    return {"g": g, "a": first, "b": second, "u": u.astype(float), "v": (rng.random(2 * n) < second).astype(float)}


def composed(rng: np.random.Generator, draw: Draw, weights: list[float] | None = None) -> list[float]:
    """Whether parity of all weights is rejected; or parity of the weights given, Lemma 1 and the best weights."""
    roles: Any = {"outcomes": ["u", "v"], "scores": ["a", "b"], "groups": "g"}
    result = iso.composite_parity(draw(rng), **roles, weights=weights, method=iso.curves(resamples=500), rng=rng)
    lemma = float(np.nanmin([test.pvalue for test in result.joint]))
    others = [] if result.better is None else [lemma, result.better.pvalue]
    return [float(rejected(p)) for p in (result.pvalue, *others)]


COMPOSITES: dict[str, Draw] = {
    "400 rows per group": partial(two_scores, n=400),
    "1,500 rows per group": partial(two_scores, n=1_500),
    "equal densities, 1,000 rows per group": partial(two_scores, n=1_000, laws=((1, 1), (1, 1))),
    "one outcome lognormal, 1,000 rows per group": partial(two_scores, n=1_000, skewed=True),
}


def composites() -> list[Run]:
    """The size over all weights; and of given weights, of Lemma 1's condition, and of "the weights are the best"."""
    runs = []
    parts = {None: ("every weight",), (2.0, 1.0): ("weights 2 and 1", "Lemma 1's condition", "best weights")}
    for (name, draw), (weights, names) in itertools.product(COMPOSITES.items(), parts.items()):
        lines = tuple(Line((f"{name}: {part}",), (LIMIT,)) for part in names)
        table = partial(composed, draw=draw, weights=None if weights is None else list(weights))
        runs.append(Run(lines, each(table), TABLES))
    return runs


# Power


OTHERS: dict[str, Curve] = {
    "shifted by 0.05": shifted,
    "crossing at 0.5, slope 1.25": crossing,
    "local bump of 0.15 at 0.5, width 0.07": bumped,
}
METHODS = ("omnibus", *PARTS, "residual")


def planted(rng: np.random.Generator, second: Curve) -> list[float]:
    """Whether each method rejects on the same rows: f(s) = s in one group, 2,000 rows per group."""
    columns = rows(rng, (2_000, 2_000), identity, second)
    return [float(rejected(parity(rng, lambda _: columns, method=method))) for method in METHODS]


def powers(name: str, second: Curve) -> Run:
    """The power of each method, and of the omnibus test relative to the better of two others."""

    def summary(outcomes: FloatArray) -> list[float]:
        power = dict(zip(METHODS, outcomes.mean(axis=0).tolist(), strict=True))
        return [*power.values(), power["omnibus"] - max(power["cumulative"], power["residual"])]

    lines = [Line((name, method)) for method in METHODS]
    beside = Line((name, "omnibus less the better of cumulative and residual"), (Asked(-0.05, "least", exact=True),))
    return Run((*lines, beside), each(partial(planted, second=second)), TABLES, summary)


# Rivals: logistic regressions with a level and a slope of one group


def rivals(rng: np.random.Generator, draw: Draw) -> list[float]:
    """Whether the group matters beside a curve common to both: a logistic one (recalibration), or a cubic spline."""
    columns = draw(rng)
    s = np.clip(columns["s"], 0.005, 0.995)
    inner = np.unique(np.quantile(s, np.arange(1, 9) / 9))
    inner = inner[(s.min() < inner) & (inner < s.max())]
    knots = np.concatenate([[s.min()] * 4, inner, [s.max()] * 4])
    odds = np.log(s / (1 - s))
    curves = np.column_stack([np.ones(s.size), odds]), BSpline.design_matrix(s, knots, 3).toarray()
    apart = (columns["g"] - 0.5)[:, None] * np.column_stack([np.ones(s.size), odds - odds.mean()])
    return [float(rejected(wald(np.hstack([curve, apart]), columns["y"], columns.get("m")))) for curve in curves]


def wald(x: FloatArray, y: FloatArray, user: Any = None) -> float:
    """The p-value of the last two slopes of a logistic regression, with a sandwich variance (by user)."""
    slopes, ridge = np.zeros(x.shape[1]), 1e-6 * np.identity(x.shape[1])
    for _ in range(15):  # Newton's steps
        p = expit(x @ slopes)
        inverse = np.linalg.pinv((x * (p * (1 - p))[:, None]).T @ x + ridge)
        slopes += np.clip(inverse @ (x.T @ (y - p) - ridge @ slopes), -5, 5)
    score = x * (y - expit(x @ slopes))[:, None]
    if user is not None:
        score = np.column_stack([np.bincount(user, column) for column in score.T])
    variance = (inverse @ (score.T @ score) @ inverse)[-2:, -2:]
    return float(stats.chi2.sf(slopes[-2:] @ np.linalg.solve(variance, slopes[-2:]), 2))


def beside_rivals(rng: np.random.Generator, second: Curve) -> list[float]:
    """Whether the default rejects, and whether its rivals do, on the same rows."""
    columns = rows(rng, (1_500, 1_500), identity, second)
    return [float(rejected(parity(rng, lambda _: columns))), *rivals(rng, lambda _: columns)]


NULLS: dict[str, Draw] = {
    "steep, 2,000 rows per group": partial(rows, n=(2_000, 2_000), first=steep),
    "kinked, 2,000 rows per group": partial(rows, n=(2_000, 2_000), first=kinked),
    "kinked twice, 2,000 rows per group": partial(rows, n=(2_000, 2_000), first=ramped),
    **{name: design.draw for name, design in HARD.items() if design.regressed},
}


# A tolerance of 0.1


def straight(s: FloatArray) -> FloatArray:
    return 0.1 + 0.7 * s


def verdicts(rng: np.random.Generator, n: int, apart: float) -> list[float]:
    """Whether a violation of the tolerance 0.1 was shown, and whether *within tolerance* was shown."""
    columns = rows(rng, (n, n), straight, lambda s: straight(s) + apart)
    verdict = iso.predictive_parity(columns, **ROLES, tolerance=0.1, method=iso.curves(resamples=500), rng=rng).verdict
    return [float(verdict == iso.Verdict.VIOLATION), float(verdict == iso.Verdict.WITHIN_TOLERANCE)]


def tolerances() -> list[Run]:
    """At the edge of the tolerance both verdicts are errors; without a difference "within" is right."""
    least = {5_000: Asked(0.4, "least", exact=True), 10_000: Asked(0.65, "least", exact=True)}
    return [
        Run(
            (Line((f"difference {apart:g}, {n:,} rows per group",), asked),),
            each(partial(verdicts, n=n, apart=apart)),
            1_000,
        )
        for n in (5_000, 10_000)
        for apart, asked in ((0.0, (LIMIT, least[n])), (0.1, (LIMIT, LIMIT)))
    ]


PAGE = Page(
    "scores/simulations",
    (
        Section(
            "Size at nominal 5 %",
            ("design", "method"),
            ("rejected",),
            (*two_groups(), *hard_designs(), *repeated_users(), *other_sizes(), *bands(), *at_threshold()),
        ),
        Section(
            "Power",
            ("the other group", "method"),
            ("power",),
            tuple(powers(name, second) for name, second in OTHERS.items()),
        ),
        Section(
            "Rivals: size at nominal 5 %",
            ("design",),
            ("recalibration", "spline regression"),
            tuple(Run((Line((name,)),), each(partial(rivals, draw=draw)), TABLES) for name, draw in NULLS.items()),
        ),
        Section(
            "Rivals: power, 1,500 rows per group",
            ("the other group",),
            ("omnibus", "recalibration", "spline regression"),
            tuple(
                Run((Line((name,)),), each(partial(beside_rivals, second=second)), TABLES)
                for name, second in {"equal": identity, **OTHERS}.items()
            ),
        ),
        Section("Composites at nominal 5 %", ("design",), ("rejected",), tuple(composites())),
        Section("Tolerance of 0.1", ("design",), ("violation", "within tolerance"), tuple(tolerances())),
    ),
)


if __name__ == "__main__":
    main(PAGE)
