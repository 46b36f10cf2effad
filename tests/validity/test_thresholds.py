"""Thresholds on new rows; quick versions of the lines of the simulations page."""

from __future__ import annotations

import numpy as np
import pytest

from studies.thresholds import EQUAL, LESS, PAGE, TARGETS, before, clustered, fitted, gap
from support.sampling import binomial_margin


@pytest.mark.parametrize("target", TARGETS)
def test_equal_groups_stay_equal_and_unequal_ones_come_nearer(target: str) -> None:
    rng = np.random.default_rng(3)
    after = [gap(EQUAL, target, fitted(rng, EQUAL, 5_000, target)) for _ in range(6)]
    # One table in twenty moves by chance, by about 0.07: three standard errors of a mean of six.
    assert np.mean(after) <= before(EQUAL, target) + 0.01 + 3 * 0.07 * np.sqrt(0.05 * 0.95 / 6)
    after = [gap(LESS, target, fitted(rng, LESS, 5_000, target)) for _ in range(6)]
    assert np.mean(after) < before(LESS, target)


def test_size_where_users_have_several_rows() -> None:
    rng = np.random.default_rng(0)
    rejected = np.mean([clustered(rng, "tpr") for _ in range(60)])
    assert rejected <= 0.05 + binomial_margin(0.05, 60)


def test_every_target_has_its_lines() -> None:
    aims = PAGE.find("Distance from the aim").runs
    assert [run.name for run in aims] == list(TARGETS)
