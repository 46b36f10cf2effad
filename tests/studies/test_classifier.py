"""Rates of linear classifiers against large samples and independent arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from studies.designs import classifier
from support.sampling import rows_of, standard_errors

ROWS = 200_000
LIMIT = 4.5  # standard errors; about 1e-5 two-sided for each of some hundred means, seeds fixed


CLASSIFIERS = [
    {},
    {"equal_opportunity": 0.1, "predictive_equality": -0.05},
    {"levels": 3, "equal_opportunity": {"1": 0.05, "2": -0.05}, "scale": 0.01},
    {"theta": (1.0, -2.0), "threshold": 0.7, "scale": 100.0},
    {"lattice": 0.5, "equal_opportunity": 0.1},
]


@pytest.mark.parametrize("options", CLASSIFIERS)
def test_classifier_rates(options: dict[str, Any]) -> None:
    table = classifier(ROWS, 5, **options)
    columns, truth = table.columns, table.truth
    for label, known in truth["groups"].items():
        rows = rows_of(columns, label)
        for rate, outcome in (("tpr", 1), ("fpr", 0)):
            chosen = rows & (columns["outcome"] == outcome)
            assert abs(standard_errors(columns["prediction"][chosen], known[rate])) < LIMIT
        assert abs(standard_errors(columns["prediction"][rows], known["selection_rate"])) < LIMIT
        assert abs(standard_errors(columns["outcome"][rows], known["base_rate"])) < LIMIT
        assert abs(standard_errors(rows, known["share"])) < LIMIT
    assert np.array_equal(columns["prediction"], columns["score"] >= truth["threshold"])


def test_classifier_geometry_and_scale() -> None:
    options: dict[str, Any] = {"theta": (1.0, -2.0), "threshold": 0.7}
    small, large = (classifier(1_000, 5, scale=s, **options) for s in (1.0, 100.0))
    assert np.array_equal(small.columns["prediction"], large.columns["prediction"])
    for table, scale in ((small, 1.0), (large, 100.0)):
        x = np.stack([table.columns["x1"], table.columns["x2"]], axis=1)
        signed = (x @ [1.0, -2.0] - np.log(0.7 / 0.3) * scale) / np.sqrt(5)
        assert np.allclose(table.columns["distance"], np.abs(signed), rtol=1e-9, atol=1e-9)
    assert np.allclose(large.columns["distance"], 100 * small.columns["distance"])


def test_classifier_boundary_density() -> None:
    """The share of rows within a thin band around the boundary, against the density there."""
    table = classifier(ROWS, 6, equal_opportunity=0.2)
    band = 0.02
    inside = table.columns["distance"] < band
    assert abs(standard_errors(inside / (2 * band), table.truth["boundary"]["density"])) < LIMIT
    assert sum(table.truth["boundary"]["shares"].values()) == pytest.approx(1)
    level = (table.columns["group"] == "1") & (table.columns["outcome"] == 1)
    assert abs(standard_errors(level[inside], table.truth["boundary"]["shares"]["group=1 & outcome=1"])) < LIMIT


def test_planted_gaps_are_exact() -> None:
    truth = classifier(1, levels=3, equal_opportunity={"1": 0.05, "2": -0.05}, predictive_equality=0.02).truth
    gaps = truth["disparity"]
    assert [gaps[f"group={g}"]["equal_opportunity"] for g in "12"] == pytest.approx([0.05, -0.05])
    assert [gaps[f"group={g}"]["predictive_equality"] for g in "12"] == pytest.approx([0.02, 0])
    normal = stats.norm.sf(0, loc=0, scale=np.sqrt(5))
    assert classifier(1).truth["groups"]["group=0"]["tpr"] == pytest.approx(normal)
