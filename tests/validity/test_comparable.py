"""Quick checks of the size, coverage and power of comparable people; the simulations page has the long ones."""

from __future__ import annotations

import numpy as np
import pytest

from studies.comparable import PAGE, drawn, measured


@pytest.mark.parametrize(
    "name",
    [
        *("60, 2,000, 0.05, logistic", "60, 60, 0.4, logistic", "200, 200, 0.4, bent"),
        *("500, 2,000, 0.4, logistic, 1.2", "500, 2,000, 0.4, bent, 1.5"),
    ],
)
def test_people_who_are_treated_alike_are_seldom_said_not_to_be(name: str) -> None:
    assert not PAGE.find("Size: people").find(name).missed(40)


@pytest.mark.parametrize("name", ["12, 3,000, a group", "2, 1,000, a group, 150"])
def test_families_and_clusters(name: str) -> None:
    assert not PAGE.find("Any false finding").find(name).missed(15)


def test_intervals_cover_the_difference() -> None:
    assert not PAGE.find("Coverage").find("200, 200, 0.4, bent").missed(60)


def test_a_planted_difference_is_shown() -> None:
    rng, shown = np.random.default_rng(2), 0
    for _ in range(20):
        effect, _dummy = measured(drawn(rng, 500, 500, 0.4, "bent", 0.5, -1.2))
        shown += effect is not None and bool(effect.statistic(0.0)[0] > 3.84)
    assert shown >= 18
