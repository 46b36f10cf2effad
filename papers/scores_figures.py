"""Figures 1 and 2 of DiCiccio et al. as numbers (and as pictures, if a folder is given).

    python papers/scores_figures.py [folder]

Figure 1: Heart Disease before and after calibration, by sex. Figure 2: user level and aggregate level. The published
data are private; this platform is simulated such that activity is related to the outcome.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import norm
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import cross_val_predict

from isonomy.results import theme
from isonomy.scores import GroupCalibrator, predictive_parity
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
    return predictive_parity(data, **roles), predictive_parity(data, **roles, level="aggregate")


def show(title: str, names: tuple[str, str], results: tuple[Any, Any], folder: Path | None, file: str) -> None:
    print(title)
    for name, result in zip(names, results, strict=True):
        known = np.isfinite(result.disparity)
        gap = np.abs(result.disparity[known])
        print(
            f"  {name:<12} mean absolute difference {gap.mean():.3f}, largest {gap.max():.3f}, "
            f"p = {result.pvalue:.3g} ({int(known.sum())} of {known.size} scores supported)"
        )
        if folder is not None:
            (folder / f"{file}_{name.replace(' ', '_')}.svg").write_text(theme.to_svg(result.plot()))


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    show("Figure 1, Heart Disease by sex", ("before", "after"), figure1(), folder, "scores_figure1")
    show("Figure 2, simulated platform", ("user level", "aggregate"), figure2(), folder, "scores_figure2")


if __name__ == "__main__":
    main()
