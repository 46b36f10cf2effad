"""Simulated people have the requested rates, clusters and weights."""

from __future__ import annotations

import numpy as np
import pytest

from studies.designs import people


@pytest.mark.parametrize("correlation", [0.0, 0.4])
def test_the_rate_and_the_correlation_within_clusters(correlation: float) -> None:
    table = people(np.random.default_rng(1), clusters=4_000, correlation=correlation)
    decision = table["decision"].reshape(4_000, -1)
    assert decision.mean() == pytest.approx(0.3, abs=0.02)
    between, whole = decision.mean(axis=1).var(ddof=1), decision.var()
    rows = decision.shape[1]
    assert (between / whole * rows - 1) / (rows - 1) == pytest.approx(correlation, abs=0.03)


def test_one_cluster_has_a_fifth_of_the_rows() -> None:
    sizes = np.bincount(people(np.random.default_rng(2), clusters=200, heavy=True)["cluster"])
    assert sizes[0] / sizes.sum() == pytest.approx(0.2, abs=0.01)


def test_clusters_lie_within_groups_and_weights_follow_decisions() -> None:
    table = people(np.random.default_rng(3), clusters=500, within=True, spread=1.0, related=True)
    groups = {(c, g) for c, g in zip(table["cluster"], table["group"], strict=True)}
    assert len(groups) == 500
    positive = table["decision"] == 1
    assert np.log(table["weight"][positive]).mean() > np.log(table["weight"][~positive]).mean() + 0.5
