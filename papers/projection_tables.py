"""Tables 1, 2 and 3 of Si et al. (2021): how often is a naive SVM, and a fair one, rejected?

    python papers/projection_tables.py [splits]        (200 by default; the paper used 1,000: ISONOMY_FULL=1)

On random 70/30 splits, a linear SVM and the linear fair SVM of Donini et al. (2018) are fitted on the larger part and
tested on the smaller one at alpha = 0.05: equal opportunity (Table 1), equalized odds (Table 2), and Welch's t-test of
equal opportunity (Table 3). There are three readings: the authors' published loader with the hinge loss,
``SVC(kernel="linear")``; the same with the squared hinge, ``LinearSVC``; and the text with the squared hinge. The first
two use the paper's test, ``method="published"``, and the third uses ours. Splits in which a compared group has no row
with the label are left out and counted.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from sklearn.svm import SVC, LinearSVC

import isonomy as iso
from ledger import FULL, close, record
from projection_data import AUTHORS, OURS, Array, Dataset

Fit = Callable[[Array, Array], Array]
PUBLISHED = {
    "equal opportunity, projection (Table 1)": {
        "naive": {"arrhythmia": 0.684, "compas": 1.0, "drug": 0.301},
        "donini": {"arrhythmia": 0.116, "compas": 0.166, "drug": 0.216},
    },
    "equalized odds, projection (Table 2)": {
        "naive": {"arrhythmia": 0.751, "compas": 1.0, "drug": 0.305},
        "donini": {"arrhythmia": 0.137, "compas": 0.217, "drug": 0.172},
    },
    "equal opportunity, Welch (Table 3)": {
        "naive": {"arrhythmia": 0.761, "compas": 1.0, "drug": 0.355},
        "donini": {"arrhythmia": 0.14, "compas": 0.161, "drug": 0.23},
    },
}


def hinge(x: Array, y: Array) -> Array:
    """Coefficients and intercept of a linear SVM with the hinge loss."""
    model = SVC(kernel="linear", C=1.0, cache_size=500, max_iter=200_000).fit(x, y)
    return np.append(model.coef_[0], model.intercept_[0])


def squared_hinge(x: Array, y: Array) -> Array:
    """Coefficients and intercept of a linear SVM with the squared hinge loss."""
    model = LinearSVC(C=1.0, dual=False, max_iter=10_000).fit(x, y)
    return np.append(model.coef_[0], model.intercept_[0])


def naive(fit: Fit, x: Array, group: Array, y: Array) -> Array:
    """The SVM without changes."""
    return fit(x, y)


def donini(fit: Fit, x: Array, group: Array, y: Array) -> Array:
    """The linear fair SVM: coefficients orthogonal to u, the difference between the group means among label 1.

    Donini et al. (2018), Section 4: with i the largest entry of u, map x_j to x_j - x_i u_j / u_i and leave x_i out.
    """
    u = x[(group == 1) & (y == 1)].mean(axis=0) - x[(group == 0) & (y == 1)].mean(axis=0)
    i = int(np.argmax(np.abs(u)))
    others = np.arange(u.size) != i
    ratio = u[others] / u[i]
    reduced = fit(x[:, others] - x[:, [i]] * ratio, y)
    theta = np.empty(u.size + 1)
    theta[:-1][others], theta[i], theta[-1] = reduced[:-1], -reduced[:-1] @ ratio, reduced[-1]
    return theta


METHODS = {"naive": naive, "donini": donini}
READINGS = {
    "loader, hinge": (AUTHORS, hinge, "published"),
    "loader, squared": (AUTHORS, squared_hinge, "published"),
    "text, squared": (OURS, squared_hinge, "corrected"),
}


def tests(x: Array, group: Array, y: Array, theta: Array, law: str) -> list[float]:
    """P-values of the three tables for one classifier on one test set.

    The score is the signed Euclidean distance to the hyperplane, (theta'x + b) / |theta|: the published bandwidth
    N^(-1/5) is in units of that distance.
    """
    score = (x @ theta[:-1] + theta[-1]) / np.linalg.norm(theta[:-1])
    table = {"group": group, "y": y, "score": score, "decision": (score >= 0).astype(int)}
    roles = {"outcome": "y", "prediction": "decision", "score": "score", "threshold": 0.0, "groups": "group"}
    criteria = ("equal_opportunity", "equalized_odds")
    pvalues = [iso.project(table, criterion=c, method=law, rng=2021, **roles).pvalue for c in criteria]
    positive = y == 1
    halves = [table["decision"][positive & (group == g)] for g in (0, 1)]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)
        welch = float(stats.ttest_ind(*halves, equal_var=False).pvalue)
    return [*pvalues, welch]


def rejections(
    data: Dataset, fit: Fit, law: str, splits: int, seed: int = 2021
) -> tuple[dict[str, NDArray[np.float64]], int]:
    """Share of splits rejected by each test, by method, and the number of splits that could not be tested."""
    x, group, y = data
    rng = np.random.default_rng(seed)
    pvalues: dict[str, list[list[float]]] = {method: [] for method in METHODS}
    skipped = 0
    for _ in range(splits):
        order = rng.permutation(len(y))
        train, test = order[: int(0.7 * len(y))], order[int(0.7 * len(y)) :]
        centre, scale = x[train].mean(axis=0), x[train].std(axis=0)
        scaled = (x - centre) / np.where(scale > 0, scale, 1.0)
        try:
            for method, train_model in METHODS.items():
                theta = train_model(fit, scaled[train], group[train], y[train])
                pvalues[method].append(tests(scaled[test], group[test], y[test], theta, law))
        except iso.errors.NotEnoughData:
            skipped += 1
    return {m: (np.array(p) <= 0.05).mean(axis=0) for m, p in pvalues.items()}, skipped


def main(splits: int) -> None:
    pairs: dict[str, list[tuple[str, float, float]]] = {table: [] for table in PUBLISHED}
    print(f"{splits} splits; share rejected at 0.05\n")
    print(f"{'':42s}{'':8s}{'':12s}{'published':>10s}" + "".join(f"{reading:>18s}" for reading in READINGS))
    for name in OURS:
        measured = [rejections(data[name](), fit, law, splits) for data, fit, law in READINGS.values()]
        for i, (table, rows) in enumerate(PUBLISHED.items()):
            for method, published in rows.items():
                pairs[table].append((f"{method} on {name}", published[name], float(measured[0][0][method][i])))
                cells = "".join(f"{shares[method][i]:18.3f}" for shares, _ in measured)
                print(f"{table:42s}{method:8s}{name:12s}{published[name]:10.3f}{cells}", flush=True)
        print(f"{'':42s}{'':8s}{name:12s}{'not tested':>10s}" + "".join(f"{skipped:18d}" for _, skipped in measured))
    for table, cells in pairs.items():
        apart = [
            f"{what} {ours:.3f} for {theirs:.3f}"
            for what, theirs, ours in cells
            if not close(theirs, ours, 1_000, splits)
        ]
        why = f"{splits} splits, judged by what chance explains"
        why += f", except in the reading of the loader {', '.join(apart)}" if apart else ""
        why += "; the paper does not give the loss, the penalty or the positive label" if apart else ""
        record(f"Projection, {table}", not apart, why)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000 if FULL else 200)
