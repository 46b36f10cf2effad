"""Quick checks of size and power of `improvability`; the simulations page has the long ones."""

from __future__ import annotations

import pytest

from studies.alternatives import PAGE
from studies.lines import Run

SECTIONS = ("Size and power", "Ready candidates", "Scores cut")
RUNS = [run for title in SECTIONS for run in PAGE.find(title).runs]
LINES = [run for run in RUNS if run.lines[0].asked and run.lines[0].asked[0] is not None]


@pytest.mark.validity
@pytest.mark.parametrize("run", LINES, ids=lambda run: run.name)
def test_size_and_power(run: Run) -> None:
    """20 tables: a size of 0.05 exceeds 0.05 + 3 standard errors, 3 of 20, about once in 400 lines."""
    assert not run.missed(20)


def test_the_largest_gap_cannot_be_resampled_as_it_is() -> None:
    """The reason for one question per pair: the size is 0.17 with six groups."""
    share = float(PAGE.find("Size and power").find("6 groups, ties, bootstrap").measure(200)[0][0])
    assert share > 0.05 + 3 * (0.05 * 0.95 / 200) ** 0.5


def test_rerunning_until_it_rejects_does_not_pay() -> None:
    assert not PAGE.find("Analysts").find("10, 0.5").missed(1_000)


@pytest.mark.validity
def test_cross_fitting_holds_its_level_and_selects_the_capacity() -> None:
    run = PAGE.find("Rules, cross").find("linear, unfairness, 1,000")
    assert not run.missed(20)
    assert float(run.measure(5)[0][1]) < 1e-12
