"""Rates by hand, from one table of two cells."""

from __future__ import annotations

import numpy as np
import pytest

from isonomy.simulate.rates import rates, rates_by_group


def test_rates_by_hand() -> None:
    # A tenth true positives, a tenth false positives, a fifth false negatives, a tenth true negatives; half of all.
    known = rates(np.array([0.5, 0.1, 0.1, 0.2, 0.1]))
    assert known == pytest.approx(
        {
            "share": 0.5,
            "base_rate": 0.6,
            "selection_rate": 0.4,
            "tpr": 1 / 3,
            "fpr": 0.5,
            "fnr": 2 / 3,
            "tnr": 0.5,
            "ppv": 0.5,
            "npv": 1 / 3,
            "accuracy": 0.4,
            "error_rate": 0.6,
        }
    )


def test_groups_of_all_depths_and_their_rests() -> None:
    names = {"g": (("a", "b"), np.array([0.5, 0.5])), "h": (("x",), np.array([1.0]))}
    cells = np.array([[0, 0], [1, 0]], dtype=np.intp)
    masses = np.array([[0.5, 0.2, 0.1, 0.1, 0.1], [0.5, 0.1, 0.2, 0.1, 0.1]])
    truth = rates_by_group(names, cells, masses)
    assert list(truth["groups"]) == ["g=a", "g=b", "h=x", "g=a & h=x", "g=b & h=x"]
    assert truth["rest"]["g=a"] == pytest.approx(truth["groups"]["g=b"])
    assert truth["disparity"]["rest"]["g=a"]["tpr"] == pytest.approx(2 / 3 - 1 / 2)
    assert truth["disparity"]["population"]["g=a"]["tpr"] == pytest.approx(2 / 3 - 3 / 5)
    assert np.isnan(truth["rest"]["h=x"]["tpr"])  # nobody is left
