"""Size, coverage and power of the empirical-likelihood method, against known truth.

    python tests/validity/test_likelihood.py        writes docs/validity/likelihood.md (a few minutes)
    pytest -m validity tests/validity/test_likelihood.py

Every replication is a group of its own to the library's solvers, so thousands are solved at once. Short versions run by
default. Margins are binomial standard errors.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from isonomy.inference.multiplicity import adjust
from isonomy.likelihood.correction import Adjusted, Corrected, bartlett_factor
from isonomy.likelihood.hypotheses import Hypothesis
from isonomy.likelihood.means import Binary, Means, Real
from isonomy.likelihood.power import detectable_disparity, power_of
from isonomy.likelihood.profile import Kind, Profile
from isonomy.likelihood.region import Region
from isonomy.likelihood.resample import null_mean
from isonomy.numerics.ragged import Ragged
from isonomy.numerics.tails import chi2_isf, chi2_sf

FULL, SHORT = 2_000, 300
CRITICAL = float(chi2_isf(0.05, 1))
ROOT = Path(__file__).resolve().parents[2]


def error(rate: float, replications: int) -> float:
    """One binomial standard error."""
    return float(np.sqrt(rate * (1 - rate) / replications))


def grouped(values: np.ndarray) -> Real:
    """Each line of ``values`` as one group."""
    lines, size = values.shape
    return Real(Ragged.from_codes(np.repeat(np.arange(lines), size), lines, values.ravel()))


# Table 1: m intervals of X, squared error, theta known to be 0 ------------------------------------------------------


def certified_coverage(model: str, m: int, n: int, replications: int, rng: np.random.Generator) -> tuple[float, float]:
    """How often the joint EL and EEL regions hold the true disparities."""
    el, eel = [], []
    block = max(1, 2_000_000 // n)
    for start in range(0, replications, block):
        lines = min(block, replications - start)
        x = rng.random((lines, n))
        scale = np.ones_like(x) if model == "5.1" else np.sqrt(x)
        loss = (scale * rng.standard_normal((lines, n))) ** 2
        group = np.minimum((x * m).astype(int), m - 1) + m * np.arange(lines)[:, None]
        truth = np.ones(m) if model == "5.1" else (2 * np.arange(1, m + 1) - 1) / (2 * m)
        means = Real(Ragged.from_codes(group.ravel(), m * lines, loss.ravel()))
        at = np.tile(truth, lines)
        statistic = means.statistic(at, np.arange(m * lines)).reshape(lines, m).sum(axis=1)
        total = means.n * (means.mean - at)
        second = means.n * (means.variance + (means.mean - at) ** 2)
        tu = (total**2 / second).reshape(lines, m).sum(axis=1)
        el.append(statistic <= chi2_isf(0.05, m))
        eel.append(tu / (1 - tu / n) <= chi2_isf(0.05, m))
    return float(np.mean(np.concatenate(el))), float(np.mean(np.concatenate(eel)))


def published_table1() -> list[tuple[str, int, int, float, float]]:
    rows = [
        ("5.1", 2, (0.9475, 0.9545, 0.9495), (0.9465, 0.952, 0.948)),
        ("5.1", 5, (0.948, 0.9505, 0.9465), (0.9405, 0.943, 0.9485)),
        ("5.1", 10, (0.9405, 0.9415, 0.951), (0.913, 0.926, 0.949)),
        ("5.2", 2, (0.9485, 0.952, 0.9545), (0.946, 0.949, 0.952)),
        ("5.2", 5, (0.951, 0.948, 0.944), (0.947, 0.944, 0.946)),
        ("5.2", 10, (0.9365, 0.9415, 0.9485), (0.9095, 0.929, 0.944)),
    ]
    sizes = (2000, 4000, 8000)
    return [(a, m, n, e, f) for a, m, el, eel in rows for n, e, f in zip(sizes, el, eel, strict=True)]


# The reference is estimated too ---------------------------------------------------------------------------------------


# What the plug-in interval covers in each design, by an independent simulation; None: it depends on the metric.
DESIGNS = {"equal": 0.832, "compas": 0.704, "larger": 0.932, "population": None, "population, equal": 0.997}


def reference_coverage(design: str, metric: str, replications: int, rng: np.random.Generator) -> tuple[float, float]:
    """How often 95 % intervals hold the true disparity: joint and plug-in."""
    shift = 0.18 if design == "population" else 0.0
    every = np.arange(replications)

    def draw(n: np.ndarray, mean: float) -> Binary | Real:
        if metric == "rate":
            return Binary(n, rng.binomial(n, mean))
        values = mean * rng.exponential(size=int(n.sum()))
        return Real(Ragged.from_codes(np.repeat(every, n), replications, values))

    if design.startswith("population"):
        n = rng.binomial(1000, 0.5, size=replications)
        high, low = 0.6 + shift, 0.6 - shift
        own, other = draw(n, high), draw(1000 - n, low)
        truth, kind = 0.5 * (high - low), Kind.NESTED
    else:
        sizes = {"equal": (500, 500), "compas": (2174, 854), "larger": (500, 2500)}[design]
        own, other = (draw(np.full(replications, size), 0.6) for size in sizes)
        truth, kind = 0.0, Kind.DISJOINT
    problem = Profile(kind, own, every, other=other, other_index=every)
    joint = problem.statistic(truth) <= CRITICAL
    plugin = problem.plugged().statistic(truth) <= CRITICAL
    return float(joint.mean()), float(plugin.mean())


# Degrees of freedom by rank -------------------------------------------------------------------------------------------


def joint_size(design: str, replications: int, rng: np.random.Generator) -> tuple[float, float, int]:
    """How often the joint test rejects equal rates: df by rank, and df by the number of groups."""
    shares = np.array([0.5, 0.3, 0.2]) if design != "cells" else np.outer([0.6, 0.4], [0.45, 0.55]).ravel()
    k = shares.size
    slots = np.arange(k)[:, None]
    referent = np.ones(k)
    if design == "cells":  # two races, two sexes, their four cells
        race, sex = np.repeat([0, 1], 2), np.tile([0, 1], 2)
        slots = np.column_stack([race, 2 + sex, 4 + np.arange(4)])
    if design == "level":
        slots, referent = np.array([[-1], [0], [1]]), np.array([1.0, 0.0, 0.0])
    groups = int(slots.max()) + 1
    by_rank, by_groups, df = [], [], 0
    for _ in range(replications):
        n = rng.multinomial(1500, shares)
        ones = rng.binomial(n, 0.35)
        found = Region(
            labels=tuple(map(str, range(groups))),
            method="el",
            binary=True,
            pattern=np.repeat(np.arange(k), 2),
            value=np.tile([0.0, 1.0], k),
            weight=np.column_stack([n - ones, ones]).ravel().astype(float),
            influence=None,
            slots=slots,
            referent=referent,
            theta=None,
            estimate=None,
            rest=False,
            least=10,
        ).test(0.0)
        df = found.df
        by_rank.append(chi2_sf(found.statistic, found.df) <= 0.05)
        by_groups.append(chi2_sf(found.statistic, groups) <= 0.05)
    return float(np.mean(by_rank)), float(np.mean(by_groups)), df


# Interval nulls, flagging, small samples, power -----------------------------------------------------------------------


def interval_null_size(width: float, replications: int, rng: np.random.Generator) -> tuple[float, float]:
    """Rejections at the end of an interval null ``width`` standard errors wide: ours and the published p-value."""
    n = 400
    means = grouped(rng.standard_normal((replications, n)))
    problem = Profile(Kind.FIXED, means, np.arange(replications), theta=np.zeros(replications))
    low = -width / np.sqrt(n)
    sizes = [
        float(np.mean(Hypothesis(low, 0.0, name).test(problem)[1] <= 0.05)) for name in ("outside", "outside-published")
    ]
    return sizes[0], sizes[1]


def flagging(
    tau: float, replications: int, rng: np.random.Generator, n: int = 1000, *, drawn: bool = False
) -> tuple[float, float]:
    """False flagging rate and power of Table 3: H0 disparity <= 0.05 in two groups, BH at 0.05.

    With ``drawn`` a null counts as true if it holds for the covariates drawn, not in the population. That matters at
    tau = 0.1 alone, where the first group's disparity is 0.05 exactly.
    """
    x = rng.random((replications, n))
    loss = 2 * tau * x + rng.standard_normal((replications, n))
    group = (x >= 0.5) + 2 * np.arange(replications)[:, None]
    means = Real(Ragged.from_codes(group.ravel(), 2 * replications, loss.ravel()))
    problem = Profile(Kind.FIXED, means, np.arange(2 * replications), theta=np.zeros(2 * replications))
    p = Hypothesis(0.05, 0.05, "greater").test(problem)[1].reshape(-1, 2)
    flagged = np.array([adjust(line, "bh") <= 0.05 for line in p])
    null = np.tile(np.array([0.5 * tau, 1.5 * tau]) <= 0.05 + 1e-12, (replications, 1))
    if drawn:
        signal = Real(Ragged.from_codes(group.ravel(), 2 * replications, 2 * tau * x.ravel()))
        null = signal.mean.reshape(-1, 2) <= 0.05
    false = (flagged & null).sum(axis=1) / np.maximum(flagged.sum(axis=1), 1)
    power = (flagged & ~null).sum(axis=1) / np.maximum((~null).sum(axis=1), 1)
    return float(false.mean()), float(power.mean())


def small_sample_coverage(n: int, law: str, replications: int, rng: np.random.Generator) -> dict[str, float]:
    """Coverage of nominal 95 % intervals of a skewed mean: EL, Bartlett, adjusted EL and Student's t."""
    draws = {
        "exponential": lambda: rng.exponential(size=(replications, n)),
        "lognormal": lambda: rng.lognormal(0, 1, size=(replications, n)),
    }[law]()
    truth = {"exponential": 1.0, "lognormal": float(np.exp(0.5))}[law]
    every = np.arange(replications)
    problem = Profile(Kind.FIXED, grouped(draws), every, theta=np.zeros(replications))
    corrected = Corrected(problem, bartlett_factor(problem, 0, rng))
    t = (draws.mean(axis=1) - truth) / (draws.std(axis=1, ddof=1) / np.sqrt(n))
    return {
        "EL": float(np.mean(problem.statistic(truth) <= CRITICAL)),
        "Bartlett": float(np.mean(corrected.statistic(truth) <= CRITICAL)),
        "adjusted": float(np.mean(Adjusted(problem).statistic(truth) <= CRITICAL)),
        "t": float(np.mean(np.abs(t) <= stats.t.isf(0.025, n - 1))),
    }


def joint_bartlett_coverage(n: int, replications: int, resamples: int, rng: np.random.Generator) -> tuple[float, float]:
    """Two exponential samples of n rows: joint EL, and with the resampled Bartlett factor."""
    own, other = (grouped(rng.exponential(size=(replications, n))) for _ in range(2))
    every = np.arange(replications)
    problem = Profile(Kind.DISJOINT, own, every, other=other, other_index=every)
    plain = problem.statistic(0.0)
    corrected = plain / bartlett_factor(problem, resamples, rng)
    return float(np.mean(plain <= CRITICAL)), float(np.mean(corrected <= CRITICAL))


def joint_bartlett_size(n: int, replications: int, resamples: int, rng: np.random.Generator) -> tuple[float, float]:
    """How often three exponential groups of n rows are said to differ from the population: EL, and with Bartlett."""
    critical = float(chi2_isf(0.05, 2))
    plain, corrected = [], []
    for _ in range(replications):
        region = Region(
            labels=("a", "b", "c"),
            method="el",
            binary=False,
            pattern=np.repeat(np.arange(3), n),
            value=rng.exponential(size=3 * n),
            weight=None,
            influence=None,
            slots=np.arange(3)[:, None],
            referent=np.ones(3),
            theta=None,
            estimate=None,
            rest=False,
            least=10,
        )
        found = region.test(0.0)
        plain.append(found.statistic > critical)
        corrected.append(found.statistic / null_mean(region, found, np.zeros(3), resamples, rng) > critical)
    return float(np.mean(plain)), float(np.mean(corrected))


def found_share(reference: str, n: int, other: int, rate: float, replications: int, rng: np.random.Generator) -> float:
    """How often the disparity that should be found with probability 0.8 is found."""
    size = detectable_disparity(n, reference=reference, reference_n=None if reference == "known" else other, rate=rate)
    every = np.arange(replications)
    if reference == "population":
        own_n = rng.binomial(n + other, n / (n + other), size=replications)
        rest = rate + size - size / (1 - n / (n + other))
        kind = Kind.NESTED
    else:
        own_n, rest, kind = np.full(replications, n), rate, Kind.DISJOINT
    own: Means = Binary(own_n, rng.binomial(own_n, rate + size))
    if reference == "known":
        problem = Profile(Kind.FIXED, own, every, theta=np.full(replications, rate))
    else:
        others = n + other - own_n if reference == "population" else np.full(replications, other)
        problem = Profile(kind, own, every, other=Binary(others, rng.binomial(others, rest)), other_index=every)
    return float(np.mean(problem.statistic(0.0) > CRITICAL))


# Tests ------------------------------------------------------------------------------------------------------------


def _runs(*cases: Any) -> list[Any]:
    """Every case short by default and in full under ``-m validity``."""
    return [pytest.param(*case, SHORT) for case in cases] + [
        pytest.param(*case, FULL, marks=pytest.mark.validity) for case in cases
    ]


@pytest.mark.parametrize(
    ("model", "m", "n", "el", "eel", "replications"),
    [pytest.param(*row, FULL, marks=pytest.mark.validity) for row in published_table1()]
    + [pytest.param(*published_table1()[3], SHORT), pytest.param(*published_table1()[12], SHORT)],
)
def test_table_1(model: str, m: int, n: int, el: float, eel: float, replications: int) -> None:
    found = certified_coverage(model, m, n, replications, np.random.default_rng([1, m, n, int(model[-1])]))
    # The published column is simulated with 2,000 replications itself.
    both = np.sqrt(error(0.95, replications) ** 2 + error(0.95, FULL) ** 2)
    assert found[0] == pytest.approx(el, abs=4.5 * (error(el, FULL) if replications == FULL else both))
    assert found[1] == pytest.approx(eel, abs=4.5 * both)


@pytest.mark.parametrize("metric", ["rate", "exponential"])
@pytest.mark.parametrize(("design", "expected", "replications"), _runs(*DESIGNS.items()))
def test_joint_intervals_cover_and_plugin_ones_do_not(
    design: str, expected: float | None, metric: str, replications: int
) -> None:
    joint, plugin = reference_coverage(design, metric, replications, np.random.default_rng([2, len(design)]))
    assert joint == pytest.approx(0.95, abs=3 * error(0.95, replications))
    if expected is not None:
        margin = 4 * np.hypot(error(expected, replications), error(expected, FULL))
        assert plugin == pytest.approx(expected, abs=margin)


@pytest.mark.parametrize(("design", "df", "replications"), _runs(("partition", 2), ("cells", 3), ("level", 2)))
def test_degrees_of_freedom_are_the_rank(design: str, df: int, replications: int) -> None:
    size, by_groups, found = joint_size(design, replications, np.random.default_rng([3, len(design)]))
    assert found == df
    assert size == pytest.approx(0.05, abs=3 * error(0.05, replications))
    if design != "level":
        assert by_groups < 0.04


@pytest.mark.parametrize(("width", "replications"), _runs((0.0,), (0.5,), (1.0,), (2.0,), (5.0,)))
def test_the_interval_null_keeps_its_level(width: float, replications: int) -> None:
    ours, published = interval_null_size(width, replications, np.random.default_rng([4, int(10 * width)]))
    assert ours <= 0.05 + 3 * error(0.05, replications)
    if width == 0:
        assert published == pytest.approx(0.1, abs=3 * error(0.1, replications))


@pytest.mark.parametrize(
    ("tau", "power", "replications"),
    _runs(
        (0.0, 0.0),
        (0.05, 0.0735),
        (0.1, 0.4805),
        (0.15, 0.5558),
        (0.2, 0.6475),
        (0.25, 0.7555),
        (0.3, 0.856),
        (0.4, 0.9783),
    ),
)
def test_table_3(tau: float, power: float, replications: int) -> None:
    seed = [5, round(100 * tau)]
    assert flagging(tau, replications, np.random.default_rng(seed))[0] <= 0.05
    false, found = flagging(tau, replications, np.random.default_rng(seed), drawn=True)
    assert false <= 0.05
    margin = 4 * np.sqrt(1 / replications + 1 / FULL) * np.sqrt(max(power * (1 - power), 0.002))
    assert found == pytest.approx(power, abs=margin)


@pytest.mark.validity
def test_bartlett_repairs_the_joint_test_of_small_groups() -> None:
    plain, corrected = joint_bartlett_size(20, 500, 99, np.random.default_rng(9))
    assert plain > 0.05 + 2 * error(0.05, 500)
    assert corrected <= 0.05 + 3 * error(0.05, 500)


@pytest.mark.parametrize(("n", "replications"), _runs((20,), (50,), (100,)))
def test_small_sample_corrections_help(n: int, replications: int) -> None:
    found = small_sample_coverage(n, "exponential", replications, np.random.default_rng([6, n]))
    slack = 2 * error(0.95, replications)
    assert found["EL"] - slack <= found["Bartlett"] <= 0.95 + slack
    assert found["EL"] < found["adjusted"] + slack


@pytest.mark.parametrize(
    ("reference", "n", "other", "replications"),
    _runs(("known", 800, 1), ("group", 500, 2000), ("population", 400, 1600)),
)
def test_the_detectable_disparity_is_found_as_often_as_promised(
    reference: str, n: int, other: int, replications: int
) -> None:
    share = found_share(reference, n, other, 0.3, replications, np.random.default_rng([7, n]))
    # Three standard errors, and 0.02 for the large-sample formula itself.
    assert share == pytest.approx(0.8, abs=3 * error(0.8, replications) + 0.02)
    assert power_of(0.0, 1.0) == pytest.approx(0.05)


# The page ---------------------------------------------------------------------------------------------------------


def _table(head: list[str], rows: list[list[Any]]) -> list[str]:
    shown = [[f"{v:.4f}" if isinstance(v, float) else str(v) for v in row] for row in rows]
    return [
        "",
        "| " + " | ".join(head) + " |",
        "|" + " --- |" * len(head),
        *("| " + " | ".join(r) + " |" for r in shown),
    ]


def page(replications: int = FULL) -> str:
    """The page of results, every number simulated here."""
    rng = np.random.default_rng(20_240)
    lines = [
        "# Empirical likelihood: what the simulations showed",
        "",
        f"Made by `python tests/validity/test_likelihood.py` with {replications:,} replications a line; one binomial",
        f"standard error at 0.95 is {error(0.95, replications):.4f}.",
        "",
        "## Joint regions (Table 1 of the paper), nominal 0.95",
    ]
    rows = [[a, m, n, e, f, *certified_coverage(a, m, n, replications, rng)] for a, m, n, e, f in published_table1()]
    lines += _table(["model", "m", "n", "EL published", "EEL published", "EL ours", "EEL ours"], rows)
    lines += ["", "## The reference is estimated: coverage of 95 % intervals"]
    named = {
        "equal": "another group, 500 against 500",
        "compas": "another group, 2174 against 854",
        "larger": "another group, 500 against 2500",
        "population": "population, the group is half of 1000 and differs",
        "population, equal": "population, the group is half of 1000 and does not differ",
    }
    rows = [
        [text, metric, *reference_coverage(design, metric, replications, rng)]
        for design, text in named.items()
        for metric in ("rate", "exponential")
    ]
    lines += _table(["reference", "metric", "joint (default)", "plug-in (published)"], rows)
    lines += ["", "## Size of the joint test at nominal 0.05, by how degrees of freedom are counted"]
    text = {
        "partition": "3 groups against the population",
        "cells": "2 races, 2 sexes, 4 cells",
        "level": "2 against a level",
    }
    rows = []
    for design, what in text.items():
        size, by_groups, df = joint_size(design, replications, rng)
        rows.append([what, df, size, by_groups])
    lines += _table(["groups", "rank", "size by rank", "size by number of groups"], rows)
    lines += ["", "## Size of the interval null at its end, nominal 0.05"]
    rows = [[w, *interval_null_size(w, replications, rng)] for w in (0.0, 0.5, 1.0, 2.0, 5.0)]
    lines += _table(["width in standard errors", "ours", "published"], rows)
    lines += ["", "## Flagging (Table 3 of the paper, n = 1000)"]
    published = json.loads(
        "[[-0.15,0,0],[-0.1,0,0],[-0.05,0,0],[0,0.0015,0],[0.05,0.0043,0.0735],[0.1,0.0163,0.4805],[0.15,0,0.5558],"
        "[0.2,0,0.6475],[0.25,0,0.7555],[0.3,0,0.856],[0.35,0,0.934],[0.4,0,0.9783],[0.45,0,0.994],[0.5,0,0.9985],"
        "[0.55,0,1],[0.6,0,0.9998]]"
    )
    rows = [[tau, float(f), float(p), *flagging(tau, replications, rng)] for tau, f, p in published]
    lines += _table(["tau", "FFR published", "power published", "FFR ours", "power ours"], rows)
    lines += [
        "",
        "At tau = 0.1 the first group's disparity is 0.05, the end of its null. Counted as a true null only in samples",
        "whose covariates put it at 0.05 or less (about half of them), the same tests give, in ten runs as long:",
    ]
    # Generators of their own: the numbers after this table do not depend on them.
    runs = [flagging(0.1, replications, one, drawn=True) for one in np.random.default_rng(20_241).spawn(10)]
    rows = [[0.1, 0.0163, 0.4805, *np.mean(runs, axis=0).tolist(), *np.std(runs, axis=0, ddof=1).tolist()]]
    head = [
        "tau",
        "FFR published",
        "power published",
        "mean FFR",
        "mean power",
        "sd of the FFR by run",
        "sd of the power by run",
    ]
    lines += _table(head, rows)
    lines += ["", "## Small samples: coverage of nominal 95 % intervals of a mean"]
    rows = []
    for law in ("exponential", "lognormal"):
        for n in (20, 50, 100):
            found = small_sample_coverage(n, law, replications, rng)
            rows.append([law, n, found["EL"], found["Bartlett"], found["adjusted"], found["t"]])
    lines += _table(["law", "n", "EL", "Bartlett", "adjusted EL", "Student's t"], rows)
    lines += ["", "Two exponential groups, the reference estimated (500 replications, 199 resamples each):"]
    rows = [[n, *joint_bartlett_coverage(n, min(500, replications), 199, rng)] for n in (20, 50)]
    lines += _table(["n in each", "joint EL", "with the resampled Bartlett factor"], rows)
    lines += ["", "## Power: how often the disparity promised with probability 0.8 is found"]
    designs = (("known", 800, 1), ("group", 500, 2000), ("population", 400, 1600))
    rows = [
        [ref, n, other if ref != "known" else "-", found_share(ref, n, other, 0.3, replications, rng)]
        for ref, n, other in designs
    ]
    lines += _table(["reference", "rows", "rows of the reference", "found"], rows)
    lines += ["", "## Bartlett's correction of the joint test: size at nominal 0.05"]
    lines += ["", "Three exponential groups against the population (500 replications, 99 resamples each):"]
    own = np.random.default_rng(20_242)
    rows = [[n, *joint_bartlett_size(n, min(500, replications), 99, own)] for n in (20, 50)]
    lines += _table(["n in each", "EL", "with the resampled Bartlett factor"], rows)
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    replications = int(sys.argv[1]) if len(sys.argv) > 1 else FULL
    target = ROOT / "docs" / "validity" / "likelihood.md"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(page(replications))
    print(target.read_text())
