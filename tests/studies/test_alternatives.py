"""Utilities of status quo and candidate against large samples, and which designs lie on the boundary of the null."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from isonomy.errors import UsageError
from studies.designs import alternatives, discrepancies
from support.sampling import rows_of, standard_errors

ROWS = 200_000
LIMIT = 4.5  # standard errors; about 1e-5 two-sided for each of some hundred means, seeds fixed

DESIGNS: tuple[Any, ...] = ("improving", "equal_accuracy", "equal_unfairness", "equal", "worse", "tied")


@pytest.mark.parametrize("outcome", ["binary", "count", "real"])
@pytest.mark.parametrize("design", ["improving", "tied"])
def test_utilities_are_those_of_a_large_sample(outcome: Any, design: Any) -> None:
    table = alternatives(ROWS, 2, design=design, groups=3, outcome=outcome)
    columns, truth = table.columns, table.truth
    y = columns["outcome"].astype(float)
    for label, known in truth["groups"].items():
        rows = rows_of(columns, label)
        assert abs(standard_errors(rows, known["share"])) < LIMIT
        assert abs(standard_errors(y[rows], known["mean_outcome"])) < LIMIT
        for algorithm in ("status_quo", "candidate"):
            chosen = columns[f"{algorithm}_decision"] == 1
            assert np.array_equal(chosen, columns[algorithm] > 0)
            samples = {
                "selection_rate": chosen[rows],
                "outcome_among_selected": y[rows & chosen],
                "outcome_among_unselected": y[rows & ~chosen],
                "accuracy": (chosen == y)[rows],
                "tpr": chosen[rows & (y == 1)],
                "fpr": chosen[rows & (y == 0)],
                "tnr": ~chosen[rows & (y == 0)],
            }
            utilities = known[algorithm]
            assert len(utilities) == (7 if outcome == "binary" else 3)
            assert max(abs(standard_errors(samples[u].astype(float), v)) for u, v in utilities.items()) < LIMIT


@pytest.mark.parametrize("outcome", ["binary", "count", "real"])
@pytest.mark.parametrize("groups", [2, 3, 6])
def test_designs_lie_where_they_should(outcome: Any, groups: int) -> None:
    key = "outcome_among_selected"
    for design in DESIGNS:
        truth = alternatives(1, design=design, groups=groups, outcome=outcome).truth
        gain = np.array([g["candidate"][key] - g["status_quo"][key] for g in truth["groups"].values()])
        before, after = (truth["unfairness"][a][key] for a in ("status_quo", "candidate"))
        assert truth["improves"] == (design == "improving")
        if design == "improving":
            assert gain.min() > 0.01
            assert after == pytest.approx(before / 3)
        if design == "equal_accuracy":
            assert gain[0] == pytest.approx(0, abs=1e-12)
            assert gain[1:].min() > 0.01
            assert after < before
        if design in ("equal_unfairness", "tied"):
            assert gain.min() > 0.01
            assert after == pytest.approx(before)
        if design == "equal":
            assert np.abs(gain).max() < 1e-12
        if design == "worse":
            assert gain.max() < 0.0 or gain[-1] < 0.0
            assert after < before
    candidate = [g["candidate"][key] for g in truth["groups"].values()]  # tied: only two levels
    assert len(np.unique(np.round(candidate, 12))) == 2


def test_zero_is_the_pooled_quantile_at_capacity() -> None:
    table = alternatives(ROWS, 3, status_quo_selected={"a": 0.4, "b": 0.2}, candidate_selected={"a": 0.3, "b": 0.3})
    assert table.truth["capacity"] == pytest.approx({"status_quo": 0.3, "candidate": 0.3})
    for algorithm in ("status_quo", "candidate"):
        share = np.mean(table.columns[algorithm] > 0)
        assert abs(share - 0.3) < LIMIT * np.sqrt(0.21 / ROWS)


def test_features_carry_the_candidate_score() -> None:
    columns = alternatives(2_000, 4).columns
    for label in ("group=a", "group=b"):
        rows = rows_of(columns, label)
        rest = columns["candidate"][rows] - (columns["x1"] + columns["x2"])[rows] / np.sqrt(2)
        assert np.ptp(rest) < 1e-12


def test_own_utilities_and_shares() -> None:
    table = alternatives(
        1, groups={"r": 0.885, "b": 0.115}, outcome="count", status_quo=[5.1, 6.3], candidate=[7.3, 7.4]
    )
    groups = table.truth["groups"]
    assert groups["group=b"]["share"] == pytest.approx(0.115)
    assert groups["group=r"]["candidate"]["outcome_among_selected"] == pytest.approx(7.3)
    assert groups["group=r"]["candidate"]["selection_rate"] == pytest.approx(0.03)


def test_discrepancies_have_the_printed_moments() -> None:
    table = discrepancies(ROWS, 5, eta=0.7)
    both = np.stack([table.columns["status_quo"], table.columns["candidate"]])
    assert np.abs((both.mean(1) - [1.52, 0.7]) / np.sqrt(np.array([10, 10.83]) / ROWS)).max() < LIMIT
    # Var of a sample covariance: (s11 s22 + s12^2) / n for normals.
    printed = np.array([[10, 6.85], [6.85, 10.83]])
    spread = np.sqrt((np.outer(np.diag(printed), np.diag(printed)) + printed**2) / ROWS)
    assert (np.abs(np.cov(both) - printed) / spread).max() < LIMIT
    assert [discrepancies(1, eta=e).truth["improves"] for e in (1.0, 1.52, -1.6)] == [True, False, False]
    with pytest.raises(UsageError):
        discrepancies(10, eta=float("inf"))
