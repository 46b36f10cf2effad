"""Figure 1 of Si et al. (2021): does strong regularisation make a classifier pass?

    python papers/transport_figure1.py [picture.svg]

Test statistic, rejection threshold at 0.05 and accuracy against the penalty, equal opportunity, one 70/30 split: (a)
logistic regression on COMPAS, (b) a linear SVM on Drug. Published as curves, without numbers: the statistic falls only
mildly and, on COMPAS, stays above the threshold however strong the penalty. Distances are Euclidean (l2) in
standardised features.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

import isonomy as iso
from isonomy.transport import distances
from transport_data import OURS

PANELS: dict[str, tuple[str, Any]] = {
    "(a) logistic regression, COMPAS": ("compas", lambda c: LogisticRegression(C=c, max_iter=2_000)),
    "(b) linear SVM, Drug": ("drug", lambda c: LinearSVC(C=c, dual=False, max_iter=20_000)),
}
PENALTIES = 10.0 ** np.arange(-3, 4.5, 0.5)


def curve(name: str, make: Any, seed: int = 2021) -> list[dict[str, float]]:
    x, group, y = OURS[name]()
    order = np.random.default_rng(seed).permutation(len(y))
    train, test = order[: int(0.7 * len(y))], order[int(0.7 * len(y)) :]
    scaled = (x - x[train].mean(axis=0)) / np.maximum(x[train].std(axis=0), 1e-12)
    features = tuple(f"x{j}" for j in range(x.shape[1]))
    table = dict(zip(features, scaled[test].T, strict=True)) | {"group": group[test], "y": y[test]}
    points = []
    for penalty in PENALTIES:
        model = make(1 / penalty).fit(scaled[train], y[train])
        plane = distances.Linear(features, tuple(model.coef_[0].tolist()), float(model.intercept_[0]))
        decided = model.predict(scaled[test]).astype(int)
        found = iso.project(
            table | {"decision": decided}, outcome="y", prediction="decision", groups="group", distance=plane
        )
        points.append(
            {
                "penalty": penalty,
                "statistic": found.statistic,
                "threshold": found.critical_value,
                "pvalue": found.pvalue,
                "accuracy": float((decided == y[test]).mean()),
            }
        )
    return points


def picture(panels: dict[str, list[dict[str, float]]]) -> Any:
    import altair as alt

    from isonomy.results import theme

    charts = []
    for title, points in panels.items():
        rows = [p | {"what": w, "value": p[w]} for p in points for w in ("statistic", "threshold", "accuracy")]
        columns = {key: [row[key] for row in rows] for key in ("penalty", "what", "value")}
        charts.append(
            alt.Chart(theme.data(columns), title=title)
            .mark_line(point=True)
            .encode(
                x=alt.X("penalty:Q", scale=alt.Scale(type="log"), title="penalty"),
                y=alt.Y("value:Q", scale=alt.Scale(type="symlog"), title=None),
                color=alt.Color("what:N", title=None),
            )
            .properties(width=320)
        )
    return theme.finish(alt.hconcat(*charts))


def main(target: str | None) -> None:
    panels = {title: curve(name, make) for title, (name, make) in PANELS.items()}
    for title, points in panels.items():
        print(f"\n{title}\n{'penalty':>10s}{'statistic':>12s}{'threshold':>12s}{'p-value':>12s}{'accuracy':>10s}")
        for p in points:
            shown = f"{p['penalty']:10.3g}{p['statistic']:12.4g}{p['threshold']:12.4g}"
            print(f"{shown}{p['pvalue']:12.2g}{p['accuracy']:10.3f}")
    if target is not None:
        from isonomy.results.theme import to_svg

        Path(target).write_text(to_svg(picture(panels)))
        print(f"\nwrote {target}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
