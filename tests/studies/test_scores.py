"""Outcome curves of repeated users at both levels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from studies.designs import scores
from support.sampling import clustered, rows_of, standard_errors

ROWS = 200_000
LIMIT = 4.5  # standard errors; about 1e-5 two-sided for each of some hundred means, seeds fixed


DESIGNS: dict[str, dict[str, Any]] = {
    "once": {},
    "active": {"rows_per_user": 5.0, "activity": 0.5, "correlation": 0.5},
    "unlike": {
        "rows_per_user": {"a": 5.0, "b": 2.0},
        "activity": {"a": 1.0, "b": -0.5},
        "correlation": 0.5,
        "curve": "identity",
        "planted": {"b": {"bump": (0.1, 0.5, 0.1)}},
        "level": "aggregate",
    },
    "both": {"both": 0.4, "rows_per_user": 3.0, "activity": 0.8, "correlation": 0.6, "planted": {"b": {"shift": 0.05}}},
    "miscalibrated": {"curve": "identity", "planted": {"a": {"intercept": 0.4, "slope": 0.7}}, "correlation": 0.3},
}


@pytest.mark.parametrize("name", DESIGNS)
def test_curves_hold_at_both_levels(name: str) -> None:
    """Residuals from the curve have mean zero in every score band: weights 1/n at the user level, 1 at the other."""
    table = scores(ROWS, 6, **DESIGNS[name])
    columns = table.columns
    user, s, y = columns["user"], columns["score"], columns["outcome"]
    votes = {"user": 1 / np.bincount(user)[user], "aggregate": np.ones(ROWS)}
    for label, curve in table.curves.items():
        for low in np.arange(0, 1, 0.2):
            rows = rows_of(columns, label) & (s >= low) & (s < low + 0.2)
            for level, weight in votes.items():
                residual = (y[rows] - curve(s[rows], level)) * weight[rows]
                assert abs(clustered(residual, user[rows])) < LIMIT, (label, low, level)
        rows = rows_of(columns, label)
        for level, weight in votes.items():
            mean = table.truth["groups"][label][f"mean_outcome_{level}"]
            assert abs(clustered((weight * (y - mean))[rows], user[rows])) < LIMIT


def test_the_levels_differ_when_activity_is_related_to_the_outcome() -> None:
    """Shows that the test above can fail: at the wrong level, the residuals are far from zero."""
    table = scores(ROWS, 6, **DESIGNS["active"])
    columns = table.columns
    rows = rows_of(columns, "group=a")
    residual = columns["outcome"] - table.curves["group=a"](columns["score"], "user")
    assert clustered(residual[rows], columns["user"][rows]) > 10


def test_user_level_curve_is_the_one_asked_for() -> None:
    grid = np.linspace(0.01, 0.99, 99)
    steep = 1 / (1 + np.exp(-10 * (grid - 0.5)))
    user = scores(1, **DESIGNS["active"]).curves["group=b"](grid, "user")
    assert np.allclose(user, steep, rtol=0, atol=1e-14)
    aggregate = scores(1, level="aggregate", **DESIGNS["active"]).curves["group=b"](grid, "aggregate")
    assert np.allclose(aggregate, steep, rtol=0, atol=1e-12)
    own = scores(1, curve=lambda s: s**2).curves["group=a"](grid, "user")
    assert np.allclose(own, grid**2)


def test_parity_at_one_level_may_be_a_disparity_at_the_other() -> None:
    options: dict[str, Any] = {"rows_per_user": 4.0, "activity": {"a": 1.0, "b": 0.0}, "correlation": 0.5}
    assert scores(1, **options).truth["parity"] == {"user": True, "aggregate": False}
    assert scores(1, level="aggregate", **options).truth["parity"] == {"user": False, "aggregate": True}
    assert scores(1).truth["parity"] == {"user": True, "aggregate": True}


def test_planted_differences_are_in_the_truth() -> None:
    truth = scores(1, curve="identity", planted={"b": {"shift": 0.05}}).truth
    assert truth["difference"]["group=b"]["user"][:10] == pytest.approx([0.05] * 10)
    bump = scores(1, curve="identity", planted={"b": {"bump": (0.1, 0.5, 0.1)}}).truth["difference"]["group=b"]
    assert bump["user"][truth["grid"].index(0.5)] == pytest.approx(0.1)
    assert bump["user"][0] < 1e-4


def test_densities_users_and_correlation() -> None:
    table = scores(ROWS, 9, rows_per_user=5.0, activity=0.5, correlation=0.5)
    columns = table.columns
    a = columns["group"] == "a"
    assert abs(standard_errors(columns["score"][a], 0.4)) < LIMIT
    assert abs(standard_errors(columns["score"][~a], 0.6)) < LIMIT
    counts = np.bincount(columns["user"])
    assert counts.min() >= 1
    assert abs(standard_errors(counts[:-1], 5.0)) < LIMIT
    assert np.all(np.diff(columns["user"]) >= 0)
    assert len({*zip(columns["user"].tolist(), columns["group"].tolist(), strict=True)}) == len(counts)
    # Two rows of a user are both positive more often than independent rows.
    pair = np.flatnonzero(np.diff(columns["user"]) == 0)
    residual = columns["outcome"] - np.where(
        a, *(table.curves[f"group={g}"](columns["score"], "aggregate") for g in "ab")
    )
    assert np.mean(residual[pair] * residual[pair + 1]) > 0.02


def test_users_in_two_groups() -> None:
    columns = scores(20_000, 2, both=1.0, rows_per_user=4.0).columns
    groups_of = {(u, g) for u, g in zip(columns["user"].tolist(), columns["group"].tolist(), strict=True)}
    assert len(groups_of) > 1.5 * len(np.unique(columns["user"]))
