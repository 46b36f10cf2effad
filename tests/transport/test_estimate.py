"""What follows from the rows: the plan does what it says, at the least cost."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

import isonomy as iso
from isonomy.numerics.status import Status
from isonomy.transport.estimate import _planning
from isonomy.transport.program.criteria import Equality
from isonomy.transport.program.law import Null
from support.movement import listed
from support.tables import decided

ROLES: dict[str, Any] = {"outcome": "y", "prediction": "c"}
SCORE: dict[str, Any] = ROLES | {"score": "score", "threshold": 0.2}


@pytest.mark.parametrize(
    "criterion", ["equal_opportunity", "predictive_equality", "equalized_odds", "statistical_parity"]
)
@pytest.mark.parametrize("groups", ["sex", "group", ["group", "sex"]])
def test_the_plan_does_what_it_says(criterion: Equality, groups: Any) -> None:
    """Flipping the listed rows, by the listed fractions, makes every compared rate equal."""
    data = decided(shift=0.3)
    result = iso.project(data, groups=groups, criterion=criterion, **SCORE)
    assert result.status is Status.OK
    assert result.statistic == pytest.approx(float(listed(result).fraction @ listed(result).distance), rel=1e-9)
    assert np.all(np.diff(listed(result).distance) >= 0)
    final = data["c"].astype(float)
    rows = listed(result).row
    final[rows] += np.where(data["c"][rows] == 1, -1, 1) * listed(result).fraction
    for column in [groups] if isinstance(groups, str) else groups:
        for label in {"equal_opportunity": [1], "predictive_equality": [0], "equalized_odds": [0, 1]}.get(
            criterion, [None]
        ):
            within = np.ones(len(final), bool) if label is None else data["y"] == label
            rates = [final[within & (data[column] == level)].mean() for level in np.unique(data[column])]
            assert rates == pytest.approx([rates[0]] * len(rates), abs=1e-10)


def test_a_planted_difference_is_found() -> None:
    result = iso.project(decided(shift=0.5), groups="group", criterion="statistical_parity", **SCORE)
    assert result.verdict is iso.Verdict.VIOLATION
    assert result.pvalue < 1e-6
    assert result.statistic > result.critical_value
    assert result.wald_pvalue < 1e-6
    b = result.group.index("group=b")
    assert result.disparity[b] > 0.05
    assert result.ci_low[b] < result.disparity[b] < result.ci_high[b]
    assert result.statuses[result.group.index("group=a")] is Status.REFERENCE


def test_equal_rates_cost_nothing() -> None:
    data = {"g": ["a", "a", "b", "b"] * 50, "c": [0, 1, 0, 1] * 50, "d": np.linspace(0.1, 1, 200)}
    result = iso.project(data, prediction="c", groups="g", distance="d", criterion="statistical_parity")
    assert result.statistic == 0
    assert result.pvalue == 1
    assert result.verdict is iso.Verdict.INCONCLUSIVE
    assert listed(result).row.size == 0
    assert "No decision would have to change" in result.summary()


def test_base_level_does_not_matter_for_equality() -> None:
    data = decided(shift=0.2)
    by = [iso.project(data, groups="group", reference={"group": level}, **SCORE) for level in "abc"]
    assert [r.statistic for r in by] == pytest.approx([by[0].statistic] * 3, rel=1e-9)
    assert [r.pvalue for r in by] == pytest.approx([by[0].pvalue] * 3, rel=1e-6)
    assert by[1].against == ("group=b",) * 3


def test_zero_tolerance_is_equality() -> None:
    data = decided(shift=0.2)
    exact, zero = (iso.project(data, groups="group", tolerance=t, **SCORE) for t in (None, 0.0))
    assert exact.pvalue == zero.pvalue


def test_infinite_distances_never_move() -> None:
    data = decided(shift=0.3)
    free = data["distance"].copy()
    stuck = np.random.default_rng(1).random(free.size) < 0.5
    data["distance"] = np.where(stuck, np.inf, free)
    result = iso.project(data, groups="group", distance="distance", **ROLES)
    assert result.status is Status.OK
    assert not stuck[listed(result).row].any()


def test_free_rows_move_first() -> None:
    data = decided(shift=0.3)
    data["distance"] = np.where(np.arange(2_000) % 10 == 0, 0.0, data["distance"])
    result = iso.project(data, groups="group", distance="distance", **ROLES)
    assert (listed(result).distance[:5] == 0).all()


def test_whole_people_only() -> None:
    """No fraction is left, and what remains of the difference is less than one person of each group."""
    data = decided(shift=0.3)
    for groups in ("group", "sex"):
        result = iso.project(data, groups=groups, criterion="statistical_parity", whole=True, **SCORE)
        plan = listed(result)
        assert set(plan.fraction) == {1.0}
        final = data["c"].copy()
        final[plan.row] = 1 - final[plan.row]
        rates = [final[data[groups] == level].mean() for level in np.unique(data[groups])]
        smallest = min((data[groups] == level).sum() for level in np.unique(data[groups]))
        assert np.ptp(rates) <= 1 / smallest


def test_a_plan_is_looked_up_when_it_is_asked_for() -> None:
    """Nobody is listed before; a table that has changed meanwhile is refused."""
    data = decided(shift=0.3)
    result = iso.project(data, groups="group", criterion="statistical_parity", **SCORE)
    assert callable(result.listing)
    assert listed(result) is listed(result)


def test_planning_is_the_usual_arithmetic() -> None:
    """Two groups of equal size and rate 1/2: se = 1 / sqrt(n)."""
    rng = np.random.default_rng(0)
    group = np.repeat(["a", "b"], 10_000)
    score = rng.permutation(np.tile([-1.0, 1.0], 10_000)) * rng.random(20_000)
    data = {"g": group, "s": score, "c": score >= 0}
    roles: dict[str, Any] = {"prediction": "c", "groups": "g", "score": "s", "threshold": 0.0, "rng": 0}
    plain, tolerant = (iso.project(data, criterion="statistical_parity", tolerance=t, **roles) for t in (None, 0.05))
    b = plain.statuses.index(Status.OK)
    error = np.sqrt(2 * 0.25 / 10_000)
    assert plain.detectable[b] == pytest.approx((1.959964 + 0.841621) * error, rel=1e-3)
    assert np.isnan(plain.rows_needed[b])
    assert tolerant.detectable[b] == pytest.approx(0.05 + (1.644854 + 0.841621) * error, rel=1e-3)
    assert tolerant.rows_needed[b] == pytest.approx(2 * 0.25 * ((1.644854 + 1.281552) / 0.05) ** 2, rel=2e-3)
    # Next to no tolerance is no easier than none.
    slight = iso.project(data, criterion="statistical_parity", tolerance=1e-6, **roles)
    assert slight.detectable[b] == pytest.approx(plain.detectable[b], rel=1e-3)


def test_few_clusters_show_less_and_need_more_rows() -> None:
    """An error of 0.05 on 9 degrees of freedom: Student's law, with as many more of them as there are more rows."""
    null, error, size = Null(np.array([-0.2]), np.array([0.2])), np.array([0.05]), np.array([1_200.0])
    smallest, needed = _planning(null, error, size, 0.05, 9.0)
    assert smallest[0] == pytest.approx(0.2 + (stats.t.isf(0.05, 9) + stats.t.isf(0.2, 9)) * 0.05, rel=1e-4)
    freedom = 9 * needed[0] / 1_200
    expected = 1_200 * ((stats.t.isf(0.05, freedom) + stats.t.isf(0.1, freedom)) * 0.05 / 0.2) ** 2
    assert needed[0] == pytest.approx(expected, rel=2e-3)
    assert needed[0] > 1.1 * _planning(null, error, size, 0.05, np.inf)[1][0]
