"""Figures 1 to 3 of the paper: quantiles of T under the null, and power curves compared with Student's t.

    python papers/groups_figures.py [replications]

The figures are printed as tables of the values that a reader would read off the curves.
"""

from __future__ import annotations

import sys

import numpy as np
from scipy import stats

from isonomy.groups.likelihood.means import Real
from isonomy.groups.likelihood.profile import Kind, ProfileLikelihood
from isonomy.inference.effect import Hypothesis
from isonomy.numerics.ragged import Ragged
from isonomy.numerics.tails import chi2_isf


def figure_1(replications: int, n: int = 2000, m: int = 5) -> None:
    rng = np.random.default_rng(1)
    print(f"Figure 1: quantiles of T at the true disparities, n = {n}, m = {m}, against chi-square with {m} df")
    levels = np.array([0.25, 0.5, 0.75, 0.9, 0.95, 0.99])
    print("quantile        " + "".join(f"{p:>9g}" for p in levels))
    print("chi-square      " + "".join(f"{float(q):9.3f}" for q in chi2_isf(1 - levels, m)))
    for model in ("5.1", "5.2"):
        x = rng.random((replications, n))
        loss = (rng.standard_normal(x.shape) * (1 if model == "5.1" else np.sqrt(x))) ** 2
        code = np.minimum((x * m).astype(int), m - 1) + m * np.arange(replications)[:, None]
        means = Real(Ragged.from_codes(code.ravel(), m * replications, loss.ravel()))
        truth = np.ones(m) if model == "5.1" else (2 * np.arange(1, m + 1) - 1) / (2 * m)
        at = np.tile(truth, replications)
        el = means.statistic(at, np.arange(at.size)).reshape(-1, m).sum(axis=1)
        gap = means.mean - at
        tu = (means.n * gap**2 / (means.variance + gap**2)).reshape(-1, m).sum(axis=1)
        for name, values in (("EL", el), ("EEL", tu / (1 - tu / n))):
            print(f"{model} {name:12}" + "".join(f"{q:9.3f}" for q in np.quantile(values, levels)))


NULLS = {
    "(a) e = 0.05": (Hypothesis(0.05, 0.05, "two-sided"), "two-sided"),
    "(b) e >= 0.05": (Hypothesis(0.05, 0.05, "less"), "less"),
    "(c) e <= 0.05": (Hypothesis(0.05, 0.05, "greater"), "greater"),
    "(d) |e| <= 0.05": (Hypothesis(-0.05, 0.05, "outside"), "outside"),
    "(d) published p": (Hypothesis(-0.05, 0.05, "outside-published"), "outside"),
}


def student(values: np.ndarray, side: str) -> np.ndarray:
    """The p-value of the t-test; for the interval null, twice the smaller of its two one-sided p-values."""
    n = values.shape[1]
    error = values.std(axis=1, ddof=1) / np.sqrt(n)

    def t(at: float) -> np.ndarray:
        return (values.mean(axis=1) - at) / error

    match side:
        case "two-sided":
            return 2 * stats.t.sf(np.abs(t(0.05)), n - 1)
        case "less":
            return stats.t.cdf(t(0.05), n - 1)
        case "greater":
            return stats.t.sf(t(0.05), n - 1)
    return np.minimum(1.0, 2 * np.minimum(stats.t.cdf(t(-0.05), n - 1), stats.t.sf(t(0.05), n - 1)))


def power_curves(law: str, replications: int) -> None:
    rng = np.random.default_rng(2)
    grid = np.array([-0.5, -0.3, -0.1, -0.05, 0.0, 0.05, 0.1, 0.3, 0.5])
    for n in (20, 50, 100, 500):
        noise = (
            rng.standard_normal((replications, n)) if law == "normal" else rng.exponential(size=(replications, n)) - 1
        )
        x = rng.random((replications, n))
        print(f"\n{law} errors, n = {n}: power of EL | t at each true disparity")
        print(" " * 17 + "".join(f"{tau:>14g}" for tau in grid))
        tables = {name: [] for name in NULLS}
        for tau in grid:
            values = 2 * tau * x + noise
            means = Real(Ragged.from_codes(np.repeat(np.arange(replications), n), replications, values.ravel()))
            problem = ProfileLikelihood(Kind.FIXED, means, np.arange(replications), theta=np.zeros(replications))
            for name, (null, side) in NULLS.items():
                el = np.mean(problem.test(null)[1] <= 0.05)
                tables[name].append(f"{el:6.3f}|{np.mean(student(values, side) <= 0.05):6.3f}")
        for name, cells in tables.items():
            print(f"{name:17}" + "".join(f"{cell:>14}" for cell in cells))


if __name__ == "__main__":
    chosen = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000
    figure_1(chosen)
    print("\nFigures 2 and 3: power at nominal 0.05")
    power_curves("normal", chosen)
    power_curves("exponential", chosen)
