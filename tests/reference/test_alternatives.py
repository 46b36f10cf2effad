"""Reference values from independent programs in this file: row resampling in numpy, and the paper's formulas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import ks_2samp, kstest

import isonomy as iso
from isonomy.alternatives.rules.comparison import resample
from isonomy.alternatives.rules.utilities import READY, rates_of
from isonomy.numerics.arrays import FloatArray


def patients(n: int, rng: np.random.Generator, capacity: float = 0.1) -> dict[str, Any]:
    """Data like the paper's: an integer outcome, and a share selected by each of two scores."""
    black, y = rng.random(n) < 0.3, rng.poisson(1.5, n)
    s0, s1 = y + rng.normal(0, 4, n) + 0.5 * black, y + rng.normal(0, 2, n)
    d0, d1 = (s > np.quantile(s, 1 - capacity) for s in (s0, s1))
    return {"black": black.astype(int), "y": y, "d0": d0.astype(int), "d1": d1.astype(int)}


def row_bootstrap(data: dict[str, Any], resamples: int, rng: np.random.Generator) -> FloatArray:
    """Appendix A literally: resample rows and recompute A and F. Columns: A1 - A0 of both groups, |F0| - |F1|."""
    n = len(data["y"])
    out = np.empty((resamples, 3))
    for b in range(resamples):
        i = rng.integers(n, size=n)
        out[b] = statistics({name: column[i] for name, column in data.items()})
    return out


def statistics(data: dict[str, Any]) -> FloatArray:
    u = [[data["y"][(data["black"] == g) & (data[d] == 1)].mean() for g in (0, 1)] for d in ("d0", "d1")]
    return np.array([u[1][0] - u[0][0], u[1][1] - u[0][1], abs(u[0][0] - u[0][1]) - abs(u[1][0] - u[1][1])])


def cell_bootstrap(data: dict[str, Any], resamples: int, rng: np.random.Generator) -> FloatArray:
    """The same statistics, computed by the library."""
    utility = READY["outcome_among_selected"]
    decisions = [data[d].astype(float) for d in ("d0", "d1")]
    parts = [np.stack(utility.values({}, data["y"].astype(float), d), axis=-1) for d in decisions]
    values = np.stack(parts, axis=1)[:, None]  # (lines, utilities, 2 algorithms, 2)
    weight = np.ones(len(data["y"]), dtype=np.int64)
    draws = resample(values, data["black"].astype(np.intp), weight, 2, resamples, rng)
    u = rates_of(draws)[:, 0]
    gap = np.abs(u[:, :, 0] - u[:, :, 1])
    return np.column_stack([u[:, 1] - u[:, 0], gap[:, 0] - gap[:, 1]])


def ks_pvalues(tables: int, resamples: int, n: int) -> FloatArray:
    """One two-sample test for each table and statistic."""
    pvalues = []
    for rng in np.random.default_rng(11).spawn(tables):
        data = patients(n, rng)
        rows, cells = row_bootstrap(data, resamples, rng), cell_bootstrap(data, resamples, rng)
        pvalues.append([ks_2samp(rows[:, k], cells[:, k]).pvalue for k in range(3)])
    return np.array(pvalues)


def test_cells_have_the_law_of_rows() -> None:
    """KS p-values over tables are uniform (tested per statistic, because they are dependent within a table)."""
    ps = ks_pvalues(tables=25, resamples=150, n=400)
    for k in range(3):
        assert kstest(ps[:, k], "uniform").pvalue > 1e-3


@pytest.mark.validity
def test_cells_have_the_law_of_rows_over_many_seeds() -> None:
    ps = ks_pvalues(tables=300, resamples=1000, n=800)
    for k in range(3):
        assert kstest(ps[:, k], "uniform").pvalue > 1e-3
        assert (ps[:, k] < 0.05).mean() < 0.05 + 3 * np.sqrt(0.05 * 0.95 / 300)


def test_pvalues_are_those_of_row_resampling() -> None:
    """The three p-values of one round against row resampling with the paper's centering."""
    rng = np.random.default_rng(5)
    data = patients(1200, rng)
    result = iso.improvability(
        data,
        outcome="y",
        groups="black",
        status_quo="d0",
        candidate="d1",
        method=iso.splits(1, resamples=20_000, published=True),
        rng=1,
    )
    observed, resampled = statistics(data), row_bootstrap(data, 4_000, rng)
    expected = (resampled - observed >= observed).mean(axis=0)
    pvalues = result.pvalues[:3]
    margin = 4 * np.sqrt(expected * (1 - expected) * (1 / 4_000 + 1 / 20_000)) + 1e-3
    assert (abs(pvalues - expected) < margin).all()


def test_against_the_delta_method() -> None:
    """The bootstrap p-value of a difference of proportions is close to the normal one from scipy."""
    from scipy.stats import norm

    rng = np.random.default_rng(2)
    n = 20_000
    group, y = rng.integers(0, 2, n), rng.integers(0, 2, n)
    d0 = np.where(rng.random(n) < 0.70, y, 1 - y)
    d1 = np.where(rng.random(n) < 0.705, y, 1 - y)
    d0 = np.where((group == 1) & (rng.random(n) < 0.1), 1, d0)
    result = iso.improvability(
        {"g": group, "y": y, "d0": d0, "d1": d1},
        outcome="y",
        groups="g",
        status_quo="d0",
        candidate="d1",
        accuracy="accuracy",
        fairness="selection_rate",
        method=iso.splits(1, resamples=20_000),
        rng=3,
    )
    for g in (0, 1):
        gain = (d1 == y)[group == g].astype(float) - (d0 == y)[group == g]
        expected = norm.sf(gain.mean() / (gain.std() / np.sqrt(len(gain))))
        assert result.pvalues[g] == pytest.approx(expected, abs=4 * np.sqrt(expected / 20_000) + 2e-3)
