"""Figures 1 and 2 of DiCiccio et al. as numbers and as pictures.

    python papers/scores_figures.py

Figure 1: Heart Disease before and after calibration, by sex. Figure 2: user level and aggregate level. The published
data are private; this platform is simulated such that activity is related to the outcome.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import norm
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import cross_val_predict

import isonomy as iso
from isonomy.scores import GroupCalibrator, predictive_parity
from ledger import draw, record
from scores_tables import heart_rows


def figure1() -> tuple[Any, Any]:
    """All 297 rows, scored by cross-validation; one half calibrates, the other tests."""
    values = heart_rows()
    y, sex = values[:, 13] > 0, values[:, 1].astype(int)
    forest = RandomForestClassifier(200, min_samples_leaf=2, random_state=0)
    s = cross_val_predict(forest, np.delete(values[:, :13], 1, axis=1), y, cv=5, method="predict_proba")[:, 1]
    order = np.random.default_rng(3).permutation(s.size)
    fit, test = order[: order.size // 2], order[order.size // 2 :]
    X = np.column_stack([s, sex])
    model = GroupCalibrator("published", groups=1, min_size=10).fit(X[fit], y[fit])
    held = {"y": y[test].astype(float), "g": sex[test]}
    roles = {"outcome": "y", "score": "s", "groups": "g", "method": "published", "rng": 1}
    before = predictive_parity(held | {"s": s[test]}, **roles)
    return before, predictive_parity(held | {"s": model.predict(X[test])}, **roles)


def platform(seed: int = 0) -> dict[str, Any]:
    """Users with many positive outcomes are the most active; parity holds at the user level."""
    rng = np.random.default_rng(seed)
    users = 6_000
    frequent = rng.random(users) < 0.5
    luck = rng.normal(size=users)
    many = np.where(frequent, 1 + rng.poisson(np.exp(1 + 0.8 * luck)), 1 + rng.poisson(1.0, users))
    m = np.repeat(np.arange(users), many)
    s = rng.beta(2, 2, m.size)
    latent = (luck[m] + rng.normal(size=m.size)) / np.sqrt(2)
    group = np.where(frequent[m], "frequent", "infrequent")
    return {"m": m, "g": group, "s": s, "y": (norm.sf(latent) < s).astype(int)}


def figure2() -> tuple[Any, Any]:
    data = platform()
    roles = {"outcome": "y", "score": "s", "groups": "g", "user": "m", "rng": 1}
    return predictive_parity(data, **roles), predictive_parity(data, **roles, method=iso.curves(level="aggregate"))


def show(number: int, title: str, names: tuple[str, str], results: tuple[Any, Any]) -> list[float]:
    """Print and draw both panels, and return the mean absolute differences between the groups."""
    print(f"Figure {number}, {title}")
    means = []
    for name, result in zip(names, results, strict=True):
        known = np.isfinite(result.disparity)
        gap = np.abs(result.disparity[known])
        means.append(float(gap.mean()))
        print(
            f"  {name:<12} mean absolute difference {gap.mean():.3f}, largest {gap.max():.3f}, "
            f"p = {result.pvalue:.3g} ({int(known.sum())} of {known.size} scores supported)"
        )
        draw(f"scores_figure_{number}_{name.replace(' ', '_')}", result.plot())
    return means


def main() -> None:
    before, after = show(1, "Heart Disease by sex", ("before", "after"), figure1())
    why = f"published as curves: the sexes are closer after calibration; here {before:.3f} before and {after:.3f} after"
    record("Scores, Figure 1", after < before, why)
    people, rows = figure2()
    show(2, "simulated platform", ("user level", "aggregate"), (people, rows))
    why = "private data, simulated here; published as curves: a difference is shown for rows and not for users"
    record("Scores, Figure 2", rows.pvalue < 0.05 < people.pvalue, why)


if __name__ == "__main__":
    main()
