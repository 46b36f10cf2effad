"""Table 4 and Figure 2 of Si et al. (2021): how often is a classifier that is fair by construction rejected?

    python papers/projection_table4.py [replications]        (500 by default; the paper has 2,000: ISONOMY_FULL=1)

The paper's test, ``method="published"``, uses h = N^(-1/5) and Theorem 1 with the empirical covariance, which centers
each group at its own rate. Corollary 1 simplifies the variance under the null; as printed, it centers each group at the
rate of the other. The two agree in the limit but differ for few rows, so the test with the variance of Corollary 1 has
separate columns. A sample in which a compared group has no row with outcome 1 cannot be tested: it is a rejection in
these columns, which reproduces the published row for N = 30 with ``method="published"``, and is left out of ours.
Figure 2 compares the statistic with its limit; we print the largest distance between the two distribution functions,
and draw both.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from scipy import stats

import isonomy as iso
from isonomy.errors import NotEnoughData, OneGroup
from ledger import FULL, close, draw, record
from studies.designs import classifier

PUBLISHED = {
    30: (0.2875, 0.2255, 0.1415),
    100: (0.0945, 0.0540, 0.0250),
    500: (0.0895, 0.0450, 0.0085),
    1000: (0.0900, 0.0430, 0.0065),
    2000: (0.0870, 0.0460, 0.0080),
}
ALPHAS = np.array([0.10, 0.05, 0.01])
ROLES: dict[str, Any] = {"outcome": "outcome", "prediction": "prediction", "groups": "group", "distance": "distance"}


def limit() -> float:
    """Scale of the limit: s tends to this times a chi-square with one degree of freedom (Corollary 1).

    Both rates are 1/2 and the distance is N(0, 5) in every cell, so that the shares of the groups cancel.
    """
    return 0.25 / (2 * stats.norm.pdf(0, scale=np.sqrt(5)))


def picture(statistics: dict[int, list[float]]) -> Any:
    """Figure 2: the distribution of the statistic beside its limit, for each number of rows."""
    import altair as alt

    from isonomy.results import theme

    grid = np.linspace(0.01, 6 * limit(), 120)
    limiting = stats.chi2.cdf(grid / limit(), 1)
    charts = []
    for rows, values in statistics.items():
        observed = np.searchsorted(np.sort(values), grid, "right") / len(values)
        columns = {
            "s": np.tile(grid, 2),
            "share": np.concatenate([observed, limiting]),
            "of": ["statistic"] * grid.size + ["limit"] * grid.size,
        }
        lines = alt.Chart(theme.data(columns), title=f"N = {rows:,}").mark_line()
        color = alt.Color("of:N", title=None)
        charts.append(lines.encode(x="s:Q", y=alt.Y("share:Q", title="share up to s"), color=color))
    return theme.finish(alt.concat(*(chart.properties(width=220, height=160) for chart in charts), columns=3))


def main(replications: int) -> None:
    pairs: list[tuple[float, float]] = []
    distances: list[float] = []
    drawn_statistics: dict[int, list[float]] = {}
    print(f"{replications} replications; rejected at 0.10, 0.05, 0.01\n")
    heads = ("published", "method='published'", "Corollary 1", "ours")
    print(f"{'N':>5s}  " + "".join(f"{head:24s}" for head in heads) + "KS to limit  not tested")
    for n, published in PUBLISHED.items():
        paper, printed, ours, statistics, skipped = [], [], [], [], 0
        for seed in range(replications):
            drawn = classifier(n, seed).columns
            try:
                methods: tuple[Any, ...] = ("published", "corollary", "corrected")
                fixed, simplified, scaled = (iso.project(drawn, method=method, rng=seed, **ROLES) for method in methods)
            except (NotEnoughData, OneGroup):
                skipped += 1
                paper.append(0.0)
                printed.append(0.0)
                continue
            paper.append(fixed.pvalue)
            printed.append(simplified.pvalue)
            ours.append(scaled.pvalue)
            statistics.append(scaled.statistic)
        drawn_statistics[n] = statistics
        distance = stats.kstest(np.array(statistics) / limit(), "chi2", args=(1,)).statistic
        shown = [tuple((np.array(p)[:, None] <= ALPHAS).mean(axis=0)) for p in (paper, printed, ours)]
        cells = "".join("".join(f"{v:8.4f}" for v in row) for row in (published, *shown))
        pairs += zip(published, shown[0], strict=True)
        distances.append(float(distance))
        print(f"{n:5d}{cells}{distance:12.4f}{skipped:12d}", flush=True)
    agree = close(*zip(*pairs, strict=True), 2_000, replications)
    record("Projection, Table 4", agree, f"15 shares of {replications:,} replications, judged by what chance explains")
    chance = 1.63 / np.sqrt(replications)  # Kolmogorov and Smirnov's law at 0.01
    why = f"distance from the limit at N = 2,000: {distances[-1]:.3f}; chance explains {chance:.3f}"
    record("Projection, Figure 2", distances[-1] < chance, why)
    draw("projection_figure_2", picture(drawn_statistics))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2_000 if FULL else 500)
