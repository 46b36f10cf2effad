"""Size and power of the parity tests, against known truth.

    python tests/validity/test_calibration.py [workers] [resume]     writes docs/validity/calibration.md
    pytest -m validity tests/validity/test_calibration.py

Short versions run by default. Margins are three binomial standard errors. With "resume", the lines the page has are
kept and the others made: the whole takes hours.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from isonomy.calibration import equalize_thresholds, marginal_outcomes, predictive_parity

FULL, SHORT = 1_000, 60
ROOT = Path(__file__).resolve().parents[2]
Columns = dict[str, Any]
LEVELS = np.linspace(0, 1, 20_001)
QUANTILES = stats.beta.ppf(LEVELS, 2, 3), stats.beta.ppf(LEVELS, 3, 2)  # a table is 20 times as fast as the function


def steep(s: Any) -> Any:
    return 1 / (1 + np.exp(-10 * (s - 0.5)))


def identity(s: Any) -> Any:
    return s


def curved(s: Any) -> Any:
    return 0.15 + 0.7 * s**2


def flat(s: Any) -> Any:
    return np.full(np.shape(s), 0.5)


def rows(
    rng: np.random.Generator,
    n: tuple[int, int],
    first: Callable[[Any], Any],
    second: Callable[[Any], Any] | None = None,
) -> Columns:
    """Two groups with scores Beta(2, 3) and Beta(3, 2); independent rows."""
    s = np.concatenate([rng.beta(2, 3, n[0]), rng.beta(3, 2, n[1])])
    g = np.repeat([0, 1], n)
    p = np.where(g == 0, first(s), (second or first)(s))
    return {"s": s, "g": g, "y": (rng.random(s.size) < p).astype(np.int8)}


def users(rng: np.random.Generator, n: int, curve: Callable[[Any], Any]) -> Columns:
    """``n`` users a group with 5 rows on average, more for those with more positive outcomes.

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


def bumped(s: Any) -> Any:
    return np.clip(s + 0.15 * np.exp(-0.5 * ((s - 0.5) / 0.07) ** 2), 0, 1)


def shifted(s: Any) -> Any:
    return np.clip(s + 0.05, 0, 1)


OTHERS = {"shifted by 0.05": shifted, "local bump of 0.15 at 0.5, width 0.07": bumped}


@dataclass(frozen=True)
class Design:
    """A population and a question; ``bound`` is the largest rejection rate expected of 1,000 replications."""

    name: str
    draw: Callable[[np.random.Generator], Columns]
    ask: Callable[[Columns, np.random.Generator], float]
    bound: float | None = None


SETTINGS: dict[str, Any] = {"outcome": "y", "score": "s", "groups": "g", "resamples": 500}


def apart(rng: np.random.Generator, n: int) -> Columns:
    """Groups that score differently, Beta(2, 5) and Beta(5, 2), and differ by s - s^2 in their outcomes."""
    s = np.concatenate([rng.beta(2, 5, n), rng.beta(5, 2, n)])
    g = np.repeat([0, 1], n)
    return {"s": s, "g": g, "y": (rng.random(s.size) < np.where(g == 0, s, s**2)).astype(np.int8)}


def missed(columns: Columns, rng: np.random.Generator, method: str) -> float:
    """0 if the band leaves the true difference out at one of five scores, else 1: a p-value of sorts."""
    grid = np.linspace(0.3, 0.7, 5)
    family = predictive_parity(columns, rng=rng, grid=grid, method=method, **SETTINGS).families[0]
    true = grid - grid**2
    return float(np.all((family.low[0] <= true) & (true <= family.high[0])))


def parity(columns: Columns, rng: np.random.Generator, **options: Any) -> float:
    """Every replication has normal draws of its own: one set for all would make the size that of those draws."""
    return predictive_parity(columns, rng=rng, **SETTINGS, **options).pvalue


def order(columns: Columns, rng: np.random.Generator) -> float:
    return predictive_parity(columns, rng=rng, **SETTINGS).ordering_pvalue


def marginal(columns: Columns, _: np.random.Generator, **options: Any) -> float:
    return marginal_outcomes(columns, outcome="y", score="s", groups="g", **options).pvalue


def third_group(rng: np.random.Generator) -> Columns:
    """Groups 0 and 1 are in parity; group 2 is far from both."""
    two = rows(rng, (2_000, 2_000), steep)
    s = rng.beta(2, 2, 2_000)
    y = (rng.random(2_000) < np.clip(steep(s) + 0.2, 0, 1)).astype(np.int8)
    return {"s": np.append(two["s"], s), "g": np.append(two["g"], np.full(2_000, 2)), "y": np.append(two["y"], y)}


def pair_of_three(columns: Columns, rng: np.random.Generator, **options: Any) -> float:
    return float(predictive_parity(columns, rng=rng, **SETTINGS, **options).families[0].pair_pvalue[0])


def elsewhere(rng: np.random.Generator, change: Callable[[Any], Any]) -> Columns:
    """Parity, with scores that do not fill [0, 1]."""
    columns = rows(rng, (5_000, 5_000), steep)
    return columns | {"s": change(columns["s"])}


def tenth(s: Any) -> Any:
    return s / 10


def log_odds(s: Any) -> Any:
    return np.log(s / (1 - s))


def stray(s: Any) -> Any:
    return np.append(s[:-1], 10.0)


def many_columns(rng: np.random.Generator) -> Columns:
    """Four columns that have nothing to do with the score or the outcome."""
    columns = rows(rng, (1_000, 1_000), steep)
    return columns | {f"g{k}": rng.integers(0, 2, 2_000) for k in range(4)}


def any_column(columns: Columns, rng: np.random.Generator) -> float:
    """0 if the verdict is a violation, else 1: a p-value of sorts."""
    asked = SETTINGS | {"groups": ["g0", "g1", "g2", "g3"]}
    return float(predictive_parity(columns, rng=rng, **asked).verdict != "violation")


def designs() -> list[Design]:
    """Every line of the table."""
    found = []
    for name, curve in (("steep", steep), ("f(s) = s", identity)):
        for n in (500, 2_000, 10_000):
            for method in ("residual", "orthogonal", "cumulative", "nadaraya-watson"):
                bound = None if method == "nadaraya-watson" else 0.0707
                draw, ask = partial(rows, n=(n, n), first=curve), partial(parity, method=method)
                found.append(Design(f"size, {name}, {n:,} rows a group | {method}", draw, ask, bound))
    for n in (500, 2_000, 10_000):
        draw = partial(users, n=n, curve=steep)
        label = f"size, repeated users, {n:,} a group"
        found.append(Design(f"{label} | residual, user level", draw, partial(parity, user="m"), 0.0707))
        aggregate = partial(parity, user="m", level="aggregate")
        found.append(Design(f"{label} | residual, aggregate, clustered", draw, aggregate, 0.0707))
        found.append(Design(f"{label} | residual, rows taken as independent", draw, parity))
    found += [
        Design(
            "size, 5,000 against 500 rows, steep | residual", partial(rows, n=(5_000, 500), first=steep), parity, 0.0707
        ),
        Design(
            "size of a true-null pair beside a third group that deviates | residual", third_group, pair_of_three, 0.0707
        ),
        Design(
            "size of a true-null pair beside a third group that deviates | orthogonal",
            third_group,
            partial(pair_of_three, method="orthogonal"),
            0.0707,
        ),
        Design(
            "size of the ordering, flat curves, 2,000 rows a group | ordering",
            partial(rows, n=(2_000, 2_000), first=flat),
            order,
            0.0707,
        ),
    ]
    for name, change in (("s / 10", tenth), ("log-odds of s", log_odds), ("s, one score of 10", stray)):
        for method in ("residual", "nadaraya-watson"):
            bound = None if method == "nadaraya-watson" else 0.0707
            ask = partial(parity, method=method)
            label = f"size, steep, scores {name}, 5,000 rows a group | {method}"
            found.append(Design(label, partial(elsewhere, change=change), ask, bound))
    label = "size of the verdict over four columns, 2,000 rows | residual"
    found.append(Design(label, many_columns, any_column, 0.0707))
    for n in (1_000, 5_000):
        for method in ("residual", "orthogonal", "nadaraya-watson"):
            bound = None if method == "nadaraya-watson" else 0.0707
            label = f"band that leaves out the true difference, s against s^2, {n:,} rows a group | {method}"
            found.append(Design(label, partial(apart, n=n), partial(missed, method=method), bound))
    for name, curve, threshold in (("curved", curved, 0.4), ("steep", steep, 0.5)):
        for method in ("local-quadratic", "local-linear", "nadaraya-watson"):
            bound = 0.08 if method == "local-quadratic" else None
            ask = partial(marginal, method=method, threshold=threshold)
            draw = partial(rows, n=(2_000, 2_000), first=curve)
            found.append(Design(f"size at a threshold, {name}, 2,000 rows a group | {method}", draw, ask, bound))
    return sorted(found, key=cost)


def cost(design: Design) -> int:
    """Lines that the documentation leans on first, the slowest last: the table is written as it grows."""
    main = design.name.endswith(("residual", "nadaraya-watson", "quadratic", "user level", "independent"))
    return 3 * ("10,000" in design.name) + ("users, 2,000" in design.name) + 2 * (not main)


def pvalue(design: Design, seed: int) -> float:
    rng = np.random.default_rng(seed)
    return design.ask(design.draw(rng), rng)


def pvalues(design: Design, replications: int, workers: int = 1) -> Any:
    seeds = range(replications)
    if workers == 1:
        return np.array([pvalue(design, seed) for seed in seeds])
    return np.array(list(pool(workers).map(partial(pvalue, design), seeds, chunksize=10)))


@cache
def pool(workers: int) -> ProcessPoolExecutor:
    """Fresh processes: one forked from a process that has used polars would hang."""
    return ProcessPoolExecutor(workers, mp_context=get_context("spawn"))


def power(method: str, second: Callable[[Any], Any], replications: int, workers: int = 1) -> tuple[float, float]:
    """Power at 2,000 rows a group: as it is, and with a critical p-value that makes the size 5 % under f(s) = s."""
    ask = partial(parity, method=method)
    null = pvalues(Design("", partial(rows, n=(2_000, 2_000), first=identity), ask), replications, workers)
    draw = partial(rows, n=(2_000, 2_000), first=identity, second=second)
    p = pvalues(Design("", draw, ask), replications, workers)
    return float(np.mean(p <= 0.05)), float(np.mean(p <= np.quantile(null, 0.05)))


DESIGNS = designs()


# What is not reached: recorded as such in the table, and noticed when it is reached.
LIMITS = {
    "size, repeated users, 2,000 a group | residual, aggregate, clustered": "75 of 1,000; 58 of 1,000 in other draws",
    "band that leaves out the true difference, s against s^2, 5,000 rows a group | residual": "curvature, 96 of 1,000",
    "band that leaves out the true difference, s against s^2, 5,000 rows a group | orthogonal": "curvature, 76 of 1000",
}


def _tested(design: Design) -> Any:
    limit = LIMITS.get(design.name)
    marks = [] if limit is None else [pytest.mark.xfail(reason=limit, raises=AssertionError, strict=True)]
    return pytest.param(design, marks=marks, id=design.name)


@pytest.mark.validity
@pytest.mark.parametrize("design", [_tested(d) for d in DESIGNS if d.bound])
def test_size(design: Design) -> None:
    rate = np.mean(pvalues(design, FULL) <= 0.05)
    assert rate <= design.bound


@pytest.mark.parametrize("method", ["residual", "orthogonal", "cumulative"])
def test_size_is_right_where_the_papers_is_not(method: str) -> None:
    """60 replications: a size of 0.05 exceeds 0.05 + 3 se = 0.134 about once in 500; the paper's size is 0.9 here."""
    draw = partial(rows, n=(500, 500), first=steep)
    assert np.mean(pvalues(Design("", draw, partial(parity, method=method)), SHORT) <= 0.05) <= 0.134
    if method == "residual":
        paper = pvalues(Design("", draw, partial(parity, method="nadaraya-watson")), SHORT)
        assert np.mean(paper <= 0.05) > 0.7


def test_users_decide_the_variance() -> None:
    draw = partial(users, n=400, curve=steep)
    clustered = pvalues(Design("", draw, partial(parity, user="m")), SHORT)
    naive = pvalues(Design("", draw, parity), SHORT)
    assert np.mean(clustered <= 0.05) <= 0.134
    assert np.mean(naive <= 0.05) > np.mean(clustered <= 0.05)


def test_marginal_size() -> None:
    draw = partial(rows, n=(2_000, 2_000), first=curved)

    assert np.mean(pvalues(Design("", draw, partial(marginal, threshold=0.4)), SHORT) <= 0.05) <= 0.134


@pytest.mark.parametrize("name", ["shifted by 0.05", "local bump of 0.15 at 0.5, width 0.07"])
def test_power_against_planted_violations(name: str) -> None:
    """The validity table's power, 0.63 and 0.91, less three binomial standard errors of 40 replications."""
    power = {"shifted by 0.05": 0.63, "local bump of 0.15 at 0.5, width 0.07": 0.91}[name]
    draw = partial(rows, n=(2_000, 2_000), first=identity, second=OTHERS[name])
    found = np.mean(pvalues(Design("", draw, parity), 40) <= 0.05)
    assert found >= power - 3 * np.sqrt(power * (1 - power) / 40)


def thresholds_error(replications: int) -> tuple[float, np.ndarray]:
    """Largest change of the overall positive rate, and the gaps of the true outcomes at the new margins."""
    rate, gap = [], []
    for seed in range(replications):
        columns = rows(np.random.default_rng(seed), (5_000, 5_000), identity, lambda s: s**1.5)
        found = equalize_thresholds(columns, outcome="y", score="s", groups="g", threshold=0.5)
        rate.append(abs(found.overall_after - found.overall_before))
        gap.append(found.thresholds[0] - found.thresholds[1] ** 1.5)
    return max(rate), np.array(gap)


def test_thresholds_keep_the_rate_and_equalize_the_margin() -> None:
    rate, gaps = thresholds_error(8)
    assert rate <= 1e-3
    # 0.146 before. `marginal_outcomes` gives a difference at the margin a standard error of 0.045 in this design, and
    # the gaps of 40 replications have a standard deviation of 0.036: three standard errors of a mean of eight.
    assert abs(gaps.mean()) <= 3 * 0.045 / np.sqrt(8)


HEAD = f"""# Validity of predictive rate parity

Nominal 5 %, {FULL:,} replications (standard error 0.007; 0.05 + 3 standard errors is 0.071), sup-t over the default
grid. Written by `python tests/validity/test_calibration.py`.

| design | method | rejected | expected |
|---|---|---|---|
"""
POWER = """
Power, f(s) = s in one group, 2,000 rows a group. Matched: the critical p-value is set so that the size is 5 %.

| the other group | method | power | power at matched size |
|---|---|---|---|
"""


def write(workers: int, resume: bool) -> None:
    path = ROOT / "docs" / "validity" / "calibration.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    known = path.read_text().splitlines() if resume and path.exists() else []
    sizes: list[str] = []
    powers: list[str] = []
    last = ""

    def line(start: str, into: list[str], make: Callable[[], str]) -> None:
        kept = [old for old in known if old.startswith(start)]
        into.append(kept[0] if kept else f"{start} {make()} |")
        path.write_text(HEAD + "\n".join(sizes) + "\n" + POWER + "\n".join(powers) + "\n" + last)
        print(into[-1], flush=True)

    def size(design: Design) -> str:
        rate = float(np.mean(pvalues(design, FULL, workers) <= 0.05))
        expected = "" if design.bound is None else f"at most {design.bound:.3f}"
        mark = " (above)" if design.bound is not None and rate > design.bound else ""
        return f"{rate:.3f}{mark} | {expected}"

    def both(method: str, second: Callable[[Any], Any]) -> str:
        return " | ".join(f"{rate:.3f}" for rate in power(method, second, FULL, workers))

    rate, gaps = thresholds_error(100)
    gap = np.abs(gaps).mean()
    last = (
        "\nThresholds, 100 replications of 5,000 rows a group, f(s) = s against s^1.5, present threshold 0.5: largest\n"
        f"change of the overall positive rate {rate:.1e}; mean gap of true outcomes at the margin {gap:.3f} (0.146\n"
        "before).\n"
    )
    early = [design for design in DESIGNS if cost(design) < 2]
    for design in early:
        line("| " + design.name + " |", sizes, partial(size, design))
    for name, second in OTHERS.items():
        for method in ("residual", "nadaraya-watson", "orthogonal", "cumulative"):
            line(f"| {name} | {method} |", powers, partial(both, method, second))
    for design in DESIGNS[len(early) :]:
        line("| " + design.name + " |", sizes, partial(size, design))


if __name__ == "__main__":
    told = [int(word) for word in sys.argv[1:] if word.isdigit()]
    write(told[0] if told else 1, resume="resume" in sys.argv)
