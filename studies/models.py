"""Size and coverage of the paired comparison of two models.

python -m studies.models [--tables N] [--only TEXT]        writes docs/groups/models_simulations.md
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from scipy import special

import isonomy as iso
from isonomy.numerics.arrays import FloatArray
from studies.lines import Line, Page, Run, Section, at_most, each, main

TABLES = 1_000
METRICS = ("tpr", "ppv", "accuracy", "f1", "auc", "brier")


def applicants(rng: np.random.Generator, rows: int, small: float, worse: float, clustered: bool) -> dict[str, Any]:
    """Two scores of the same people, equally noisy or the second ``worse``; rows of ten per cluster share errors."""
    outcome = (rng.random(rows) < 0.5).astype(int)
    signal, noise = rng.normal(size=rows) + outcome, rng.normal(size=(2, rows))
    person = rng.integers(0, max(rows // 10, 1), rows)
    if clustered:
        noise = 0.6 * noise + 0.8 * rng.normal(size=(2, max(rows // 10, 1)))[:, person]
    scores = signal + np.array([[0.5], [0.5 + worse]]) * noise
    table = {"y": outcome, "g": np.where(rng.random(rows) < small, "small", "large"), "person": person}
    table |= {"weight": rng.lognormal(0.0, 0.4, rows)}
    for name, score in zip("ab", scores, strict=True):
        table |= {f"decided {name}": (score > 0.8).astype(int), f"score {name}": 1.0 / (1.0 + np.exp(-score))}
    return table


def columns_of(metric: str) -> dict[str, str]:
    kind = "score" if metric in ("auc", "brier") else "decided"
    return {"A": f"{kind} a", "B": f"{kind} b"}


def compared(table: dict[str, Any], metric: str, **options: Any) -> iso.ModelComparison:
    return iso.compare_models(
        table, columns_of(metric), metric=metric, groups="g", outcome="y", reference="rest", **options
    )


def metric_of(metric: str, noise: float) -> float:
    """The true metric of a score that is normal around the outcome with variance 1 + noise²."""
    deviation = float(np.sqrt(1.0 + noise**2))
    tpr, fpr = (float(special.ndtr((mean - 0.8) / deviation)) for mean in (1.0, 0.0))
    if metric == "brier":
        x, weight = np.polynomial.hermite_e.hermegauss(80)
        parts = [weight @ (special.expit(mean + deviation * x) - mean) ** 2 / weight.sum() for mean in (1.0, 0.0)]
        return float(sum(parts)) / 2.0
    return {
        "tpr": tpr,
        "ppv": tpr / (tpr + fpr),
        "accuracy": (tpr + 1.0 - fpr) / 2.0,
        "f1": 2.0 * tpr / (1.0 + tpr + fpr),
        "auc": float(special.ndtr(1.0 / (deviation * np.sqrt(2.0)))),
    }[metric]


def missed(rng: np.random.Generator, metric: str, rows: int, small: float, worse: float, design: str) -> FloatArray:
    """Whether intervals miss the truth: for everybody, in the small group, of its disparity; and whether it has any."""
    options = {"clusters": {"cluster": "person"}, "weights": {"weight": "weight"}}.get(design, {})
    table = applicants(rng, rows, small, worse, design == "clusters")
    result = compared(table, metric, **options)
    place = result.group.index("g=small") if "g=small" in result.group else 0
    change = metric_of(metric, 0.5 + worse) - metric_of(metric, 0.5)
    ends = [
        (result.ci_low[0], result.ci_high[0], change),
        (result.ci_low[place], result.ci_high[place], change),
        (result.disparity_low[place], result.disparity_high[place], 0.0),
    ]
    return np.array([*(bool(low > true or high < true) for low, high, true in ends), np.isnan(result.ci_low[place])])


def _run(metric: str, rows: int, small: float, worse: float, design: str) -> Run:
    cells = (design, metric, f"{rows:,}", f"{round(rows * small):,}")
    draw = each(partial(missed, metric=metric, rows=rows, small=small, worse=worse, design=design))
    return Run((Line(cells, (at_most(0.05), at_most(0.05), at_most(0.05), None)),), draw, TABLES)


COLUMNS, MEASURED = ("rows are", "metric", "rows", "in the group"), ("everybody", "group", "disparity", "not tested")
PAGE = Page(
    "groups/models_simulations",
    (
        Section(
            "Equally good models",
            COLUMNS,
            MEASURED,
            (
                *(_run(metric, 1_000, 0.2, 0.0, "independent") for metric in METRICS),
                *(_run(metric, 300, 0.1, 0.0, "independent") for metric in METRICS),
                *(_run(metric, 1_000, 0.3, 0.0, "clusters") for metric in METRICS),
                *(_run(metric, 1_000, 0.3, 0.0, "weights") for metric in ("tpr", "auc")),
            ),
        ),
        Section(
            "The second model is worse",
            COLUMNS,
            MEASURED,
            tuple(_run(metric, 1_000, 0.2, 1.0, "independent") for metric in METRICS),
        ),
    ),
)

if __name__ == "__main__":
    main(PAGE)
