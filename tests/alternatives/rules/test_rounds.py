"""What the rounds say together."""

from __future__ import annotations

import numpy as np

from isonomy.alternatives.rules.rounds import averages, combined, level, median, reach


def test_smallest_median_and_doubling() -> None:
    assert float(median([0.4, 0.1, 0.2, 0.3])) == 0.2
    assert float(median([0.3, 0.1, 0.2])) == 0.2
    assert float(combined([0.3, 0.1, 0.2])) == 0.4
    assert float(combined([0.9, 0.8])) == 1.0
    assert float(combined([0.03])) == 0.03


def test_the_median_is_compared_with_half_of_alpha_unless_it_is_one_pvalue() -> None:
    assert level(0.05, 1) == 0.05
    assert level(0.05, 7) == 0.025


def test_averages_leave_out_rounds_that_found_nothing() -> None:
    rounds = np.array([[[1.0, 3.0, 0.1]], [[np.nan, 9.0, 1.0]], [[2.0, 5.0, 0.2]]])
    assert averages(rounds).tolist() == [[1.5, 4.0]]
    assert np.isnan(averages(rounds[1:2])).all()


def test_reach_stops_at_the_first_break() -> None:
    supported = np.array([[True, True, False], [True, False, True], [False, True, True]])
    np.testing.assert_array_equal(reach(supported, np.array([-0.1, 0.0, 0.1])), [0.0, -0.1, np.nan])
