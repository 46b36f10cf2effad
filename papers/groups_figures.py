"""Figures 1, E.1, E.2, 2 and 3 of the paper: quantiles of T under the null, and power compared with Student's t.

    python papers/groups_figures.py [replications]

The figures are drawn, and printed as tables of the values that a reader would read off the curves. They were published
as curves, without numbers: quantiles agree if the shares up to the 0.95 quantile are those of Table 1 (n = 2,000), and
power curves if they are as the paper describes them: at n = 500 they are about 0.05 at the ends of the null hypothesis,
nearly 0 inside it, and rise to 1 outside.
"""

from __future__ import annotations

import sys

import numpy as np
from scipy import stats

from groups_tables import TABLE_1
from isonomy.groups.likelihood.means import Real
from isonomy.groups.likelihood.profile import Kind, ProfileLikelihood
from isonomy.inference.effect import Hypothesis
from isonomy.numerics.ragged import Ragged
from isonomy.numerics.tails import chi2_isf
from ledger import close, draw, lines, record


def quantiles(replications: int, n: int, m: int, rng: np.random.Generator) -> dict[tuple[str, str], np.ndarray]:
    """T at the true disparities, sorted, by model and likelihood."""
    statistics = {}
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
        statistics |= {(model, "EL"): np.sort(el), (model, "EEL"): np.sort(tu / (1 - tu / n))}
    return statistics


def figures_of_quantiles(replications: int) -> None:
    rng, levels = np.random.default_rng(1), np.array([0.25, 0.5, 0.75, 0.9, 0.95, 0.99])
    share = (np.arange(replications) + 0.5) / replications
    published = {(model, m): both for model, m, *both in TABLE_1}
    figures: dict[str, dict[str, tuple[float, float]]] = {"1": {}, "E.1": {}, "E.2": {}}
    for m in (2, 5, 10):
        print(f"\nQuantiles of T at the true disparities, n = 2,000, m = {m}, against chi-square with {m} df")
        print("quantile        " + "".join(f"{p:>9g}" for p in levels))
        print("chi-square      " + "".join(f"{float(q):9.3f}" for q in chi2_isf(1 - levels, m)))
        limit, panels = chi2_isf(1 - share, m), {}
        for (model, kind), values in quantiles(replications, 2_000, m, rng).items():
            name = f"{kind}, model {model}"
            print(f"{name:16}" + "".join(f"{q:9.3f}" for q in np.quantile(values, levels)))
            panels[name] = {"T": (limit, values), "chi-square": (limit, limit)}
            pair = published[model, m][kind == "EEL"][0], float(np.mean(values <= chi2_isf(0.05, m)))
            figures["E.2" if kind == "EEL" else "E.1"][f"{name}, m = {m}"] = pair
            if m == 5:
                figures["1"][name] = pair
        name = "1" if m == 5 else f"e_m{m}"
        draw(f"groups_figure_{name}", lines(panels, "chi-square quantile", "quantile of T", columns=4))
    for figure, pairs in figures.items():
        theirs, ours = zip(*pairs.values(), strict=True)
        why = ", ".join(f"{name} {here:.3f} for {there:.3f}" for name, (there, here) in pairs.items())
        why = f"shares up to the chi-square's 0.95 quantile, for those of Table 1: {why}"
        record(f"Groups, Figure {figure}", close(theirs, ours, 2_000, replications), why)


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


def power_curves(law: str, replications: int, figure: str) -> None:
    rng = np.random.default_rng(2)
    grid = np.array([-0.5, -0.3, -0.1, -0.05, 0.0, 0.05, 0.1, 0.3, 0.5])
    panels: dict[str, dict[str, tuple[np.ndarray, list[float]]]] = {}
    for n in (20, 50, 100, 500):
        noise = (
            rng.standard_normal((replications, n)) if law == "normal" else rng.exponential(size=(replications, n)) - 1
        )
        x = rng.random((replications, n))
        print(f"\n{law} errors, n = {n}: power of EL | t at each true disparity")
        print(" " * 17 + "".join(f"{tau:>14g}" for tau in grid))
        power: dict[str, list[tuple[float, float]]] = {name: [] for name in NULLS}
        for tau in grid:
            values = 2 * tau * x + noise
            means = Real(Ragged.from_codes(np.repeat(np.arange(replications), n), replications, values.ravel()))
            problem = ProfileLikelihood(Kind.FIXED, means, np.arange(replications), theta=np.zeros(replications))
            for name, (null, side) in NULLS.items():
                el, t = np.mean(problem.test(null)[1] <= 0.05), np.mean(student(values, side) <= 0.05)
                power[name].append((float(el), float(t)))
        for name, pairs in power.items():
            print(f"{name:17}" + "".join(f"{f'{el:6.3f}|{t:6.3f}':>14}" for el, t in pairs))
            curves = {test: (grid, [pair[k] for pair in pairs]) for k, test in enumerate(("EL", "t"))}
            panels[f"{name}, n = {n}"] = curves
    draw(f"groups_figure_{figure}", lines(panels, "true disparity", "rejected", columns=5))
    ends, inside, monotone = [], [], True
    for name, lower, upper in (
        ("(a) e = 0.05", 5, 5),
        ("(b) e >= 0.05", 5, 9),
        ("(c) e <= 0.05", -1, 5),
        ("(d) published p", 3, 5),
    ):
        el = np.array([pair[0] for pair in power[name]])  # at n = 500; the null hypothesis holds from lower to upper
        ends += [el[place] for place in {lower, upper} & set(range(grid.size))]
        inside += el[lower + 1 : upper].tolist()
        monotone &= bool((np.diff(el[: lower + 1]) <= 0).all() and (np.diff(el[upper:]) >= 0).all())
    agrees = min(ends) > 0.03 and max(ends) < 0.07 and max(inside) < 0.03 and monotone
    why = f"with 500 rows EL rejects {min(ends):.3f} to {max(ends):.3f} at the ends of the null hypothesis, at most "
    why += f"{max(inside):.3f} inside it, {'' if monotone else 'not '}more and more outside; published 0.05, 0, more"
    record(f"Groups, Figure {figure}", agrees, why)


if __name__ == "__main__":
    chosen = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000  # as published
    figures_of_quantiles(chosen)
    print("\nFigures 2 and 3: power at nominal 0.05")
    power_curves("normal", chosen, "2")
    power_curves("exponential", chosen, "3")
