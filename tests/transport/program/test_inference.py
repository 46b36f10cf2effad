"""What the evidence rests on when rows are wild, few, free or all alike."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats

import isonomy as iso
from isonomy.numerics.status import Status
from isonomy.transport import Discerning, ProjectionResult
from support.tables import decided

ROLES: dict[str, Any] = {"outcome": "y", "prediction": "c"}
SCORE: dict[str, Any] = ROLES | {"score": "score", "threshold": 0.2}


PARITY: dict[str, Any] = {"prediction": "c", "groups": "g", "criterion": "statistical_parity"}
OWN = Discerning(
    u={"in": iso.col("g") == 1, "out": iso.col("g") == 0},
    phi=lambda u, mean: u[:, 0] / mean[0] - u[:, 1] / mean[1],
    names=("1 against 0",),
)


def scores(n: int = 2_000, shift: float = 0.3, seed: int = 1) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    group = rng.choice(["a", "b"], n)
    score = rng.normal(size=n) + shift * (group == "b")
    return {"g": group, "s": score, "c": (score >= 0).astype(int), "d": np.abs(score)}


def handful(selected: int, rows: int, others: int, rate: float, **options: Any) -> ProjectionResult:
    """A small group beside a large one."""
    decided = np.zeros(others + rows, dtype=int)
    decided[: round(others * rate)] = 1
    decided[others : others + selected] = 1
    distance = np.random.default_rng(0).exponential(size=others + rows)
    data = {"g": [0] * others + [1] * rows, "c": decided, "d": distance}
    return iso.project(data, **({"distance": "d"} | PARITY | options))


# --- wild distances ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wild", [slice(0, 1), slice(None, None, 20)])
def test_wild_distances_do_not_disable_the_test(wild: slice) -> None:
    """A bandwidth from the standard deviation gives p = 0.5 with one row at 9999, and 1 with sentinels."""
    data = scores()
    plain = iso.project(data, distance="d", **PARITY)
    data["d"] = data["d"].copy()
    data["d"][wild] = 1e6
    result = iso.project(data, distance="d", **PARITY)
    assert result.status is Status.OK
    assert result.bandwidth == pytest.approx(plain.bandwidth, rel=0.2)
    assert result.pvalue < 1e-4
    lazy = iso.project(pl.DataFrame(data).lazy(), distance="d", **PARITY)
    assert lazy.bandwidth == pytest.approx(result.bandwidth, rel=1e-9)
    assert lazy.pvalue == pytest.approx(result.pvalue, rel=1e-9)


# --- few rows at the edge of a tolerance -------------------------------------------------------------------------


@pytest.mark.parametrize("own", [False, True])
def test_nobody_of_a_handful_shows_nothing_about_a_tolerance(own: bool) -> None:
    """0 of 12 selected has probability 0.9^12 = 0.28 at the edge; a pooled variance made it 7e-17."""
    options = {"criterion": OWN, "groups": None} if own else {}
    result = handful(0, 12, 20_000, 1 / 600, tolerance=0.1, **options)
    assert result.equivalence_pvalue == pytest.approx((1 - 0.1 - 1 / 600) ** 12, rel=0.01)
    assert result.verdict is iso.Verdict.INCONCLUSIVE


@pytest.mark.parametrize("own", [False, True])
def test_all_of_a_handful_is_no_violation_of_a_wide_tolerance(own: bool) -> None:
    """3 of 3 at a rate of 0.55; a pooled variance made it 5e-90."""
    options = {"criterion": OWN, "groups": None} if own else {}
    result = handful(3, 3, 2_000, 0.05, tolerance=0.5, **options)
    assert result.status is Status.UNSUPPORTED
    assert result.pvalue == pytest.approx(0.55**3, rel=0.01)
    assert any("taken at the rates of the null" in w for w in result.warnings)


@pytest.mark.parametrize("side", ["both", "upper", "lower"])
def test_a_tolerance_beyond_all_that_can_be(side: str) -> None:
    """No rates are at its edge, and there is no variance to take there."""
    options: dict[str, Any] = {"criterion": OWN, "groups": None, "tolerance": 40.0, "tolerance_side": side}
    for selected in (0, 5, 12):
        result = handful(selected, 12, 300, 0.3, **options)
        assert result.pvalue == 1.0
        assert result.verdict is iso.Verdict.WITHIN_TOLERANCE


def test_large_groups_are_judged_as_before() -> None:
    """Where rows are many the restricted rates are the groups' own: the usual z-test of the tolerance."""
    result = handful(2_200, 20_000, 20_000, 0.10, tolerance=0.03)
    z = (0.03 - 0.01) / np.sqrt((0.11 * 0.89 + 0.10 * 0.90) / 20_000)
    assert stats.norm.isf(result.equivalence_pvalue) == pytest.approx(z, rel=0.02)
    assert result.verdict is iso.Verdict.WITHIN_TOLERANCE


def test_several_small_groups_at_once() -> None:
    """Several comparisons with a tolerance: the small one alone does not make a violation."""
    rng = np.random.default_rng(2)
    group = np.repeat(["a", "b", "c"], [2_000, 1_000, 3])
    decided = (rng.random(3_003) < 0.05).astype(int)
    decided[-3:] = 1
    data = {"g": group, "c": decided, "d": rng.exponential(size=3_003)}
    result = iso.project(data, distance="d", tolerance=0.5, rng=1, **PARITY)
    assert result.status is Status.UNSUPPORTED
    assert result.pvalue > 0.1
    assert result.equivalence_pvalue > 0.5


# --- rates that are 0 or 1 everywhere ----------------------------------------------------------------------------


@pytest.mark.parametrize("tolerance", [None, 0.05])
def test_a_label_without_variation_is_left_out(tolerance: float | None) -> None:
    rng = np.random.default_rng(2)
    group, outcome = rng.choice(["a", "b"], 4_000), rng.integers(0, 2, 4_000)
    selected = (rng.random(4_000) < 0.3 + 0.3 * (group == "b")) & (outcome == 1)
    data = {"g": group, "y": outcome, "c": selected.astype(int), "d": rng.exponential(size=4_000)}
    roles: dict[str, Any] = {"outcome": "y", "prediction": "c", "groups": "g", "distance": "d", "tolerance": tolerance}
    both = iso.project(data, criterion="equalized_odds", **roles)
    one = iso.project(data, criterion="equal_opportunity", **roles)
    assert both.pvalue == pytest.approx(one.pvalue, rel=1e-9)
    assert both.wald_pvalue == pytest.approx(one.wald_pvalue, rel=1e-9)
    assert both.verdict is iso.Verdict.VIOLATION
    assert any("Not tested" in w and "among rows with outcome 0" in w for w in both.warnings)
    assert list(both.statuses).count(Status.CONSTANT) == 1
    untested = both.statuses.index(Status.CONSTANT)
    assert both.outcome[untested] == 0
    assert np.isnan(both.ci_low[untested])


# --- rows on the boundary ----------------------------------------------------------------------------------------


def test_an_atom_at_the_boundary_gets_the_wald_test() -> None:
    """2 % of the rows move free; averaged over a bandwidth they went unseen, and took the power away."""
    data = scores()
    free = np.random.default_rng(3).random(2_000) < 0.02
    atom = data | {"d": np.where(free, 0.0, data["d"])}
    for table in (atom, pl.DataFrame(atom).lazy()):
        result = iso.project(table, distance="d", **PARITY)
        assert result.status is Status.ATOMS
        assert result.pvalue == result.wald_pvalue
    two = data | {"d": np.where(np.arange(2_000) < 2, 0.0, data["d"])}
    assert iso.project(two, distance="d", **PARITY).status is Status.OK


def test_intervals_of_rates_stay_between_minus_one_and_one() -> None:
    result = handful(6, 6, 2_000, 0.02)
    assert result.disparity.max() == pytest.approx(0.98)
    assert result.ci_high.max(initial=-1.0, where=np.isfinite(result.ci_high)) <= 1.0
    small = handful(2, 3, 4, 0.25)
    assert np.nanmin(small.ci_low) >= -1.0
    assert np.nanmax(small.ci_high) <= 1.0


def test_infeasible_is_about_costs_not_evidence() -> None:
    data = decided(shift=0.5)
    data["distance"] = np.where(data["group"] == "c", data["distance"], np.inf)
    result = iso.project(data, groups="group", distance="distance", **ROLES)
    assert result.status is Status.INFEASIBLE
    assert result.statistic == np.inf
    assert result.pvalue == result.wald_pvalue
    assert np.isnan(result.critical_value)
    assert "infeasible" in result.summary()


def test_lattice_scores_get_the_wald_test() -> None:
    data = decided(shift=0.3)
    data["score"] = np.floor(np.clip(data["score"], -2, 2) / 0.4)
    data["c"] = (data["score"] >= 0).astype(int)
    result = iso.project(data, groups="group", score="score", threshold=-0.5, **ROLES)
    assert result.status is Status.ATOMS
    assert result.pvalue == result.wald_pvalue
    assert np.isfinite(result.statistic)
    assert np.isnan(result.critical_value)  # the Wald test's would be on another scale than the statistic


def test_each_group_needs_rows_near_the_boundary() -> None:
    """The others' rows say nothing about the density of a group that has none there."""
    rng = np.random.default_rng(0)
    group = np.array(["a"] * 1_000 + ["b"] * 1_000 + ["c"] * 20)
    score = rng.normal(size=group.size)
    score[-20:] = np.where(np.arange(20) < 6, 1.5, -1.5) + 0.1 * rng.normal(size=20)
    data = {"g": group, "s": score, "c": score >= 0}
    options: dict[str, Any] = PARITY | {"score": "s", "threshold": 0.0}
    result = iso.project(data, **options)
    assert result.status is Status.UNSUPPORTED
    assert result.pvalue == result.wald_pvalue
    without = {name: values[:-20] for name, values in data.items()}
    assert iso.project(without, **options).status is Status.OK


def test_rates_of_zero_and_one_use_the_nulls_variance() -> None:
    data = {"g": ["a"] * 200 + ["b"] * 200, "c": [1] * 200 + [0] * 200, "d": np.random.default_rng(0).random(400)}
    result = iso.project(data, prediction="c", groups="g", distance="d", criterion="statistical_parity")
    assert result.verdict is iso.Verdict.VIOLATION
    assert any("always or never" in w for w in result.warnings)
