"""Quick checks of size and power of `project`; the simulations page has the long ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

import isonomy as iso
from studies.lines import each
from studies.projection import (
    PAGE,
    PLANTED,
    SCENARIOS,
    Law,
    Scenario,
    normal_power,
    outlier,
    power,
    rescaled,
    sentinels,
)
from support.sampling import binomial_margin


@pytest.mark.parametrize(
    "name",
    [
        "paper's design, 1,000",
        "equalized odds, 1,000",
        "two-sided tolerance, one comparison, 1,000",
        "one distance of 9999, 1,000",
        "5 % of the distances 1e6, 1,000",
        "deciles, 1,000",
    ],
)
def test_size(name: str) -> None:
    """50 tables catch a size above 0.23 at 0.1, above 0.14 at 0.05 and above 0.05 at 0.01."""
    assert not PAGE.find("Rejected when the null holds").find(name).missed(50)


@pytest.mark.parametrize("name", ["12, 0.002", "25, 0.002", "12, 0.5", "25, 0.5"])
def test_a_small_group_at_the_edge_of_a_tolerance(name: str) -> None:
    """30 tables catch a size above 0.17."""
    assert not PAGE.find("A small group").find(name).missed(30)


def test_power_is_what_the_normal_law_foretells_and_that_of_other_tests() -> None:
    tables, gap = 60, 0.15
    scenario = PLANTED["equal opportunity, gap {gap:g}"](gap)
    decided = np.asarray(each(lambda rng: power(rng, scenario, 1_000))(np.random.default_rng(7), tables))
    expected = normal_power(gap, 1_000)
    assert np.all(np.abs(decided.mean(axis=0) - expected) <= binomial_margin(expected, tables))
    # Paired: with equal power the tables on which two tests disagree fall to either side like a fair coin, so the
    # difference of the two counts has standard deviation sqrt(disagreements).
    for other in (1, 2):
        difference = decided[:, 0] - decided[:, other]
        assert abs(difference.sum()) <= 3 * np.sqrt(np.abs(difference).sum())


@pytest.mark.parametrize("change", [outlier, sentinels])
def test_wild_distances_leave_the_power(change: object) -> None:
    """With the standard deviation as spread, a planted gap of 0.2 is found in no table at all."""
    scenario = Scenario({"equal_opportunity": 0.2}, change=change)  # type: ignore[arg-type]
    decided = np.asarray(each(lambda rng: power(rng, scenario, 1_000))(np.random.default_rng(8), 40))
    assert decided[:, 0].mean() > 0.84  # 0.95 without the wild rows; three standard errors are 0.1


def test_rescaling_changes_no_p_value() -> None:
    rng = np.random.default_rng(9)
    assert max(max(rescaled(rng)) for _ in range(10)) < 1e-9


def test_the_law_by_hand_is_the_law_that_is_used() -> None:
    """Corollary 1 as computed in the study gives the p-value of `project` whenever the law is used."""
    rng = np.random.default_rng(10)
    for scenario in (SCENARIOS["paper's design"], Scenario({"scale": 0.01}), SCENARIOS["one distance of 9999"]):
        for _ in range(5):
            columns = scenario.draw(rng, 4_000)
            result = scenario.ask(rng, columns)
            assert result.test_status is iso.Status.OK
            assert Law(columns, result).pvalue() == pytest.approx(result.pvalue, rel=1e-9)


@pytest.mark.parametrize("design", ["weight", "cluster"])
@pytest.mark.parametrize(("rows", "others", "rate"), [(40, 2_000, 0.05), (100, 4_000, 0.02)])
def test_few_events_with_weights_or_clusters(design: str, rows: int, others: int, rate: float) -> None:
    """A group without an event has an estimated variance of 0: p was below 0.001 in 13 to 20 % of such tables."""
    rng, tables = np.random.default_rng(11), 30
    options: dict[str, Any] = {design: design}
    group = np.repeat([0, 1], [others, rows])
    pvalues = []
    for _ in range(tables):
        score = rng.normal(size=group.size) + norm.ppf(rate)
        data = {
            "g": group,
            "s": score,
            "c": (score >= 0).astype(int),
            "weight": np.exp(0.5 * rng.normal(size=group.size)),
        }
        data["cluster"] = np.arange(group.size) // 2
        result = iso.project(
            data,
            prediction="c",
            groups="g",
            score="s",
            threshold=0.0,
            criterion="statistical_parity",
            **options,
        )
        pvalues.append(result.pvalue)
    for alpha in (0.05, 0.001):
        assert np.mean(np.array(pvalues) <= alpha) <= alpha + binomial_margin(alpha, tables)
