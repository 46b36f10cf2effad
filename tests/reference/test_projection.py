"""The projection against independent programs: HiGHS on the full linear program, closed forms and simulation for the
tails, statsmodels and scipy for the Wald test. Every reference number is computed when the tests run."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import special, stats
from scipy.optimize import linprog, minimize

import isonomy as iso
from isonomy.numerics.status import Status
from isonomy.numerics.tails import weighted_chi2_isf, weighted_chi2_sf
from isonomy.projection import distances
from isonomy.projection.program.law import Null, ProjectionLaw, maximum
from isonomy.projection.program.solve import Constraint, SingleRows, SortedRows, dual_value, fractions, solve
from support.data import folder

Array = NDArray[np.float64]
INSTANCES = 200
PAPERS = Path(__file__).resolve().parents[2] / "papers"
COMPAS = "compas-scores-two-years.csv"


def instance(seed: int) -> tuple[Array, NDArray[np.intp], Array | None, Constraint]:
    """A random program: m = 1 to 6, equality or either tolerance, with ties, zero and infinite distances, weights."""
    rng = np.random.default_rng(seed)
    m, side, kind = 1 + seed % 6, ("equality", "both", "upper")[seed % 3], seed % 4
    classes, rows = int(rng.integers(2 * m, 4 * m + 3)), int(rng.integers(20, 500))
    vectors = rng.normal(size=(classes, m)) * rng.choice([1.0, 10.0])
    group = rng.integers(0, classes, rows)
    distance = rng.exponential(size=rows)
    if kind == 1:
        distance = np.round(distance, 1)
    if kind == 2:
        distance[rng.random(rows) < 0.3] = 0.0
    if kind == 3:
        distance = np.round(distance, 2)
        distance[rng.random(rows) < 0.2] = np.inf
    weight = None if seed % 2 else rng.integers(1, 5, rows).astype(float)
    mass = np.ones(rows) if weight is None else weight
    flips = (rng.random(rows) < 0.2) & np.isfinite(distance)
    moment = -(vectors[group] * (flips * mass)[:, None]).sum(axis=0)
    high = np.zeros(m) if side == "equality" else 0.2 * np.abs(moment)
    low = np.full(m, -np.inf) if side == "upper" else -high
    return distance, group, weight, Constraint(vectors, moment, low, high)


def highs(distance: Array, group: NDArray[np.intp], weight: Array | None, c: Constraint) -> float:
    """The same program with one variable per row, solved by scipy's HiGHS."""
    finite = np.isfinite(distance)
    mass = np.ones(distance.size) if weight is None else weight
    size = c.moment.size
    columns = (c.vectors[group] * mass[:, None])[finite].T
    answer = linprog(
        np.concatenate([(distance * mass)[finite], np.zeros(size)]),
        A_eq=np.hstack([columns, -np.eye(size)]),
        b_eq=-c.moment,
        bounds=[(0, 1)] * int(finite.sum()) + list(zip(c.low, c.high, strict=True)),
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    assert answer.status in (0, 2), answer.message  # the reference solver must not give up
    return np.inf if answer.fun is None else float(answer.fun)


@pytest.mark.parametrize("block", range(10))
def test_agrees_with_highs(block: int) -> None:
    for seed in range(block * INSTANCES // 10, (block + 1) * INSTANCES // 10):
        distance, group, weight, c = instance(seed)
        rows = SingleRows(distance, group, weight)
        pool = rows if c.moment.size == 1 else SortedRows(distance, group, len(c.vectors), weight)
        result, expected = solve(pool, c), highs(distance, group, weight, c)
        assert result.status is Status.OK
        # The absolute tolerance matters only for a value of 0; 1e-8 of any other value is larger.
        assert expected == 0 or expected > 1e-3
        same = pytest.approx(expected, rel=1e-8, abs=1e-12)
        assert result.value == same, seed

        share = fractions(distance, group, result.moved, weight)
        mass = np.ones(distance.size) if weight is None else weight
        assert share.min() >= 0
        assert share.max() <= 1
        reached = c.moment + (c.vectors[group] * (share * mass)[:, None]).sum(axis=0)
        scale = max(1.0, np.abs(c.moment).max())
        assert np.maximum(reached - c.high, c.low - reached).max() <= 1e-10 * scale, seed

        flipped = share > 0
        cost = float((share * mass)[flipped] @ distance[flipped])
        assert cost == same, seed
        # Strong duality: the dual function, computed from the rows, equals the cost of the plan.
        each = mass.astype(int)
        dual = dual_value(result.dual, SingleRows(np.repeat(distance, each), np.repeat(group, each)).coarse, c)
        assert dual == same, seed


def test_infeasible_is_said_so() -> None:
    """All useful rows are infinitely far away: HiGHS and the projection both report infeasibility."""
    for m in (1, 2):
        distance, group = np.array([np.inf, np.inf, 1.0, 1.0]), np.array([0, 0, 1, 1])
        c = Constraint(np.vstack([np.ones(m), -np.ones(m)]), -np.ones(m), np.zeros(m), np.zeros(m))
        pool = SingleRows(distance, group) if m == 1 else SortedRows(distance, group, 2)
        result = solve(pool, c)
        assert np.isinf(highs(distance, group, None, c))
        assert result.status is Status.INFEASIBLE
        assert np.isinf(result.value)


# --- tails ------------------------------------------------------------------------------------------------------

TAILS = (0.3, 0.05, 1e-4, 1e-8, 1e-12)


@pytest.mark.parametrize("p", TAILS)
def test_equal_weights_are_a_chi_square(p: float) -> None:
    for df in (1, 2, 3, 6):
        x = 0.7 * 2 * special.gammainccinv(df / 2, p)
        assert weighted_chi2_sf(x, [0.7] * df) == pytest.approx(p, rel=1e-8)


@pytest.mark.parametrize("p", TAILS)
def test_pairs_of_weights_have_a_closed_form(p: float) -> None:
    """Each weight twice: a hypoexponential, P(Q > x) = (a exp(-x/2a) - b exp(-x/2b)) / (a - b)."""
    a, b = 2.0, 0.5
    x = float(weighted_chi2_isf(p, [a, a, b, b]))
    closed = (a * np.exp(-x / (2 * a)) - b * np.exp(-x / (2 * b))) / (a - b)
    assert closed == pytest.approx(p, rel=1e-8)
    assert weighted_chi2_sf(x, [a, a, b, b]) == pytest.approx(closed, rel=1e-8)


def test_tails_against_ten_million_draws() -> None:
    """Within 4 standard errors of the simulation at five points; each exceeds 4 with probability 6e-5."""
    rng = np.random.default_rng(2021)
    weights = np.array([1.3, 0.4, 0.05])
    points = weighted_chi2_isf(np.array([0.5, 0.1, 0.01, 1e-3, 1e-4]), weights)
    draws, above = 10_000_000, np.zeros(5)
    for _ in range(20):
        sample = (rng.standard_normal((draws // 20, 3)) ** 2) @ weights
        above += (sample[:, None] >= points).sum(axis=0)
    p = np.asarray(weighted_chi2_sf(points, weights))
    assert np.all(np.abs(above / draws - p) <= 4 * np.sqrt(p * (1 - p) / draws))


def by_minimiser(w: Array, s: Array, slack: Array, one_sided: bool) -> float:
    """m(W) by scipy's bounded minimizer; gamma = u - v with u, v >= 0 (v = 0 if one-sided) makes it smooth."""
    m = w.size

    def loss(uv: Array) -> float:
        g = uv[:m] - uv[m:]
        return float(-(g @ w - slack @ (uv[:m] + uv[m:]) - g @ s @ g / 2))

    top = [(0, None)] * m + [(0, 0 if one_sided else None)] * m
    return -float(minimize(loss, np.zeros(2 * m), bounds=top, method="L-BFGS-B", options={"ftol": 1e-15}).fun)


def test_maximum_is_the_quadratic_programs() -> None:
    rng = np.random.default_rng(5)
    for m in (2, 3, 4):
        a = rng.normal(size=(m, m))
        s, slack = a @ a.T + 0.3 * np.eye(m), rng.random(m)
        w = rng.normal(size=(3, m)) * 2
        for one_sided in (False, True):
            expected = [by_minimiser(row, s, slack, one_sided) for row in w]
            null = Null(np.full(m, -np.inf) if one_sided else -slack, slack)
            assert maximum(w, s, null) == pytest.approx(expected, abs=2e-6)


def test_two_sided_tolerance_is_the_folded_normal() -> None:
    """p = P(|V + sqrt(N) tol| - sqrt(N) tol >= a sigma), against simulation."""
    rng = np.random.default_rng(3)
    sigma, s, slack = 1.7, 0.6, 0.8
    law = ProjectionLaw(np.array([[sigma**2]]), np.array([[s]]), Null(np.array([-slack]), np.array([slack])))
    draws = np.abs(sigma * rng.standard_normal(1_000_000) + slack) - slack
    sample = np.where(draws > 0, draws, 0.0) ** 2 / (2 * s)
    for statistic in (0.5, 3.0, 9.0):
        p = law.sf(statistic)
        assert (sample >= statistic).mean() == pytest.approx(p, abs=4 * np.sqrt(p * (1 - p) / sample.size))
    assert law.sf(law.isf(0.05)) == pytest.approx(0.05, rel=1e-9)


# --- Wald --------------------------------------------------------------------------------------------------------


def test_wald_is_statsmodels_two_proportions() -> None:
    proportion = pytest.importorskip("statsmodels.stats.proportion")
    rng = np.random.default_rng(8)
    n = 900
    group, score = rng.choice(["a", "b"], n), rng.normal(size=n)
    decision = (score >= 0.2).astype(int)
    result = iso.project(
        {"g": group, "s": score, "c": decision},
        prediction="c",
        groups="g",
        score="s",
        threshold=0.2,
        criterion="statistical_parity",
    )
    count = [int(decision[group == g].sum()) for g in "ab"]
    size = [int((group == g).sum()) for g in "ab"]
    z, p = proportion.proportions_ztest(count, size, prop_var=False)
    variance = sum((c / k) * (1 - c / k) / k for c, k in zip(count, size, strict=True))
    z = (count[0] / size[0] - count[1] / size[1]) / np.sqrt(variance)
    assert result.wald_statistic == pytest.approx(z**2, rel=1e-9)
    assert result.wald_pvalue == pytest.approx(2 * special.ndtr(-abs(z)), rel=1e-9)
    assert result.wald_pvalue == pytest.approx(p, rel=0.02)  # statsmodels pools the variance
    low, high = proportion.confint_proportions_2indep(count[0], size[0], count[1], size[1], method="wald")
    i = [s is Status.OK for s in result.status].index(True)
    seen = sorted((abs(result.ci_low[i]), abs(result.ci_high[i])))
    assert seen == pytest.approx(sorted((abs(low), abs(high))), rel=1e-6)


# --- The scripts of papers/ -------------------------------------------------------------------------------------------


def script(name: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Import a script of papers/ without running it."""
    monkeypatch.syspath_prepend(str(PAPERS))
    return runpy.run_path(str(PAPERS / f"{name}.py"))


def test_the_tables_measure_distances_to_the_hyperplane(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables 1 to 3 by the paper's law, whose bandwidth has units; theta and 50 theta are the same classifier."""
    rng = np.random.default_rng(3)
    x, group, y = rng.normal(size=(800, 3)), rng.integers(0, 2, 800), rng.integers(0, 2, 800)
    theta = np.array([0.2, -0.3, 0.1, 0.05])
    pvalues = script("projection_tables", monkeypatch)["tests"]
    here = pvalues(x, group, y, theta, "published")
    assert pvalues(x, group, y, 50 * theta, "published") == pytest.approx(here, rel=1e-9)
    # The closed form of Lemma 1, and the distance that the library computes from the coefficients.
    features = ("a", "b", "c")
    table = dict(zip(features, x.T, strict=True)) | {"group": group, "y": y}
    table["decision"] = (x @ theta[:-1] + theta[-1] >= 0).astype(int)
    plane = distances.Linear(features, (0.2, -0.3, 0.1), 0.05)
    roles: dict[str, Any] = {"outcome": "y", "prediction": "decision", "groups": "group", "distance": plane}
    opportunity = iso.project(table, **roles, criterion="equal_opportunity", method="published")
    odds = iso.project(table, **roles, criterion="equalized_odds", method="published")
    assert [opportunity.pvalue, odds.pvalue] == pytest.approx(here[:2], rel=1e-9)


def test_figure_1_has_a_threshold_at_every_penalty(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The published threshold by hand: Theorem 1 with the rate of each group and a kernel of width N^(-1/5)."""
    place = folder()
    if place is None or not all((place / name).exists() for name in ("drug_consumption.data", COMPAS)):
        pytest.skip("the datasets are not there; set ISONOMY_DATA")
    figure = script("projection_figure1", monkeypatch)
    figure["main"]()
    assert "nan" not in capsys.readouterr().out
    _, make = figure["PANELS"]["(b) linear SVM, Drug"]
    x, group, y = figure["AUTHORS"]["drug"]()
    points = figure["curve"]((x, group, y), make, "published")
    order = np.random.default_rng(2021).permutation(len(y))
    train, test = order[: int(0.7 * len(y))], order[int(0.7 * len(y)) :]
    x = (x - x[train].mean(axis=0)) / x[train].std(axis=0)
    for point in points[::7]:
        model = make(1 / point["penalty"]).fit(x[train], y[train])
        signed = model.decision_function(x[test]) / np.linalg.norm(model.coef_)
        chosen, n = signed >= 0, len(test)
        members = [(y[test] == 1) & (group[test] == g) for g in (0, 1)]
        rates = [chosen[here].mean() for here in members]
        sigma = sum(r * (1 - r) / here.mean() for r, here in zip(rates, members, strict=True))
        density = stats.norm.pdf(signed, scale=n ** (-1 / 5))
        curvature = sum(density[here].sum() / n / here.mean() ** 2 for here in members)
        assert point["threshold"] == pytest.approx(stats.chi2.isf(0.05, 1) * sigma / (2 * curvature), rel=1e-9)


def test_corollary_1_is_not_the_plug_in_of_theorem_1(monkeypatch: pytest.MonkeyPatch) -> None:
    """With many rows the two variances agree; four rows that are never selected add nothing to that of Theorem 1."""
    table = script("projection_table4", monkeypatch)
    many = table["classifier"](40_000, 1).columns
    result = iso.project(many, method="published", **table["ROLES"])
    assert iso.project(many, method="corollary", **table["ROLES"]).pvalue == pytest.approx(result.pvalue, rel=0.01)
    few = {
        "group": np.repeat(["1", "0"], [4, 40]),
        "outcome": np.ones(44, dtype=int),
        "prediction": np.concatenate([np.zeros(4, dtype=int), np.tile([0, 1], 20)]),
        "distance": np.random.default_rng(4).exponential(size=44),
    }
    result = iso.project(few, method="published", **table["ROLES"])
    mu1, mu2, density = 4 / 44, 40 / 44, stats.norm.pdf(few["distance"], scale=44 ** (-1 / 5)) / 44
    curvature = density[:4].sum() / mu1**2 + density[4:].sum() / mu2**2
    own = 0.0 + 0.5 * 0.5 / mu2
    crossed = 0.5**2 / mu1 + 0.5 / mu2 - 1  # the rate of the forty for the four, and vice versa
    pvalues = [stats.chi2.sf(2 * curvature * result.statistic / variance, 1) for variance in (own, crossed)]
    printed = iso.project(few, method="corollary", **table["ROLES"])
    assert [result.pvalue, printed.pvalue] == pytest.approx(pvalues, rel=1e-9)
    assert pvalues[0] < 0.05 < pvalues[1]
