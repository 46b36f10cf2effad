"""The combination of rounds."""

from __future__ import annotations

from isonomy.alternatives.rules.rounds import combined, level, median


def test_smallest_median_and_doubling() -> None:
    assert float(median([0.4, 0.1, 0.2, 0.3])) == 0.2
    assert float(median([0.3, 0.1, 0.2])) == 0.2
    assert float(combined([0.3, 0.1, 0.2])) == 0.4
    assert float(combined([0.9, 0.8])) == 1.0
    assert float(combined([0.03])) == 0.03


def test_the_median_is_compared_with_half_of_alpha_unless_it_is_one_pvalue() -> None:
    assert level(0.05, 1) == 0.05
    assert level(0.05, 7) == 0.025
