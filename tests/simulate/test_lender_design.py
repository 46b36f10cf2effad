"""The lender's scores against a large sample of what they decide."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from isonomy import simulate
from isonomy.simulate import lender_design
from support.sampling import clustered, rows_of

ROWS = 250_000
LIMIT = 4.5  # standard errors
GRID = np.round(np.arange(0.4, 0.951, 0.05), 2)


@cache
def large() -> simulate.Simulated:
    return simulate.lender(ROWS, 17)


def test_curves_of_the_score() -> None:
    columns = large().columns
    user, s, y = columns["user"], columns["score"], columns["repaid"]
    votes = {"user": 1 / np.bincount(user)[user], "aggregate": np.ones(ROWS)}
    for label, curves in large().truth["predictive_parity"]["groups"].items():
        assert curves["user"] == pytest.approx(lender_design.curve(label, GRID).tolist(), abs=1e-12)
        for low in (0.5, 0.7):
            rows = rows_of(columns, label) & (s >= low) & (s < low + 0.2)
            for level, weight in votes.items():
                residual = (y[rows] - lender_design.curve(label, s[rows], level)) * weight[rows]
                assert abs(clustered(residual, user[rows])) < LIMIT


def test_the_candidate_score_means_the_same_for_every_user_group() -> None:
    columns = large().columns
    user, s, y = columns["user"], columns["candidate"], columns["repaid"]
    weight = 1 / np.bincount(user)[user]
    for label in ("race=White", "race=Black", "race=Hispanic", "race=Asian"):
        for low in np.arange(0.1, 1, 0.2):
            rows = rows_of(columns, label) & (s >= low) & (s < low + 0.2)
            assert abs(clustered(((y - s) * weight)[rows], user[rows])) < LIMIT
