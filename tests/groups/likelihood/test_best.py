"""Against the best group, whichever it is: by hand from the pairs, and its levels by simulation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isonomy as iso
from isonomy.groups.likelihood.means import LOG, Binary, Linked
from isonomy.groups.likelihood.profile import Kind, ProfileLikelihood
from isonomy.inference.effect import AgainstBest, every_pair, widest
from isonomy.numerics.tails import chi2_isf, chi2_sf

ONES, ROWS = np.array([50.0, 60.0, 30.0, 58.0]), np.full(4, 100.0)
TABLE = {
    "p": np.concatenate([np.repeat([1, 0], [int(k), 100 - int(k)]) for k in ONES]),
    "g": np.repeat(["a", "b", "c", "d"], 100),
}
RATE: dict[str, Any] = {"metric": "selection_rate", "prediction": "p", "groups": "g"}


def pair(i: int, j: int) -> ProfileLikelihood:
    means = Linked(Binary(ROWS, ONES), LOG)
    return ProfileLikelihood(Kind.DISJOINT, means, np.array([i]), other=means, partner=np.array([j]))


@pytest.mark.parametrize("group", range(4))
def test_limits_and_p_values_are_those_of_the_pairs(group: int) -> None:
    result = iso.flag(TABLE, **RATE, reference="highest", scale="ratio", null=iso.null(0.8, side="less"))
    others = [pair(group, j) for j in range(4) if j != group]
    low = min(float(np.exp(p.interval(chi2_isf(0.05, 1))[0][0])) for p in others)
    high = min(float(np.exp(p.interval(chi2_isf(0.05 / 3, 1))[1][0])) for p in others)
    assert result.ci_low[group] == pytest.approx(min(low, 1.0), rel=1e-9)
    assert result.ci_high[group] == pytest.approx(min(high, 1.0), rel=1e-9)
    ratios = [float(np.exp(p.value[0])) for p in others]
    assert result.disparity[group] == pytest.approx(min(1.0, *ratios))
    tails = [
        0.5 * float(chi2_sf(p.statistic(np.log(0.8))[0], 1)) if r < 0.8 else 1.0
        for p, r in zip(others, ratios, strict=True)
    ]
    assert result.pvalue[group] == pytest.approx(min(1.0, 3 * min(tails)), rel=1e-9)


def test_within_is_shown_by_the_largest_p_value_unadjusted() -> None:
    means = Linked(Binary(ROWS, ONES), LOG)
    first, second = every_pair(4)
    best = AgainstBest(ProfileLikelihood(Kind.DISJOINT, means, first, other=means, partner=second), first)
    least = min(float(pair(1, j).statistic(np.log(0.8))[0]) for j in (0, 2, 3))
    assert best.statistic(np.log(0.8))[1] == pytest.approx(least)
    assert np.isinf(best.statistic(0.1)).all()


def test_the_lowest_is_the_highest_of_what_is_left() -> None:
    """1 - p in the place of p, on the scale of differences."""
    high = iso.flag(TABLE, **RATE, reference="highest")
    low = iso.flag(TABLE | {"p": 1 - TABLE["p"]}, **RATE, reference="lowest")
    assert low.disparity == pytest.approx(-high.disparity)
    assert low.ci_low == pytest.approx(-high.ci_high)
    assert low.ci_high == pytest.approx(-high.ci_low)
    assert low.pvalue == pytest.approx(high.pvalue)


def test_all_groups_at_once_is_the_test_of_equal_groups() -> None:
    best, everybody = iso.certify(TABLE, **RATE, reference="highest"), iso.certify(TABLE, **RATE)
    assert best.df == everybody.df == 3
    assert best.pvalue == pytest.approx(everybody.pvalue, rel=1e-9)


def test_groups_without_a_case_and_groups_that_are_too_small() -> None:
    table = {"p": np.repeat([1, 0, 0, 1], [40, 60, 130, 2]), "g": np.repeat(["a", "b", "c", "d"], [100, 70, 60, 2])}
    result = iso.flag(table, **RATE, reference="highest", scale="ratio")
    assert [str(s) for s in result.status] == ["ok", "constant", "constant", "too_small"]
    assert result.disparity[:3] == pytest.approx([1.0, 0.0, 0.0])
    assert (result.ci_low[1], result.ci_high[1] < 0.3) == (0.0, True)
    nothing = {"p": np.zeros(60, dtype=int), "g": np.repeat(["a", "b", "c"], 20)}
    assert {str(s) for s in iso.flag(nothing, **RATE, reference="highest", scale="ratio").status} == {"zero_baseline"}


@pytest.mark.parametrize("tables", [60, pytest.param(300, marks=pytest.mark.validity)])
@pytest.mark.parametrize(("groups", "rate"), [(2, 0.3), (5, 0.3), (12, 0.5)])
def test_the_intervals_cover_with_all_groups_tied(groups: int, rate: float, tables: int) -> None:
    """0.95 less three standard errors."""
    rng = np.random.default_rng(groups)
    first, second = every_pair(groups)
    covered = gaps = 0
    for _ in range(tables):
        means = Linked(Binary(np.full(groups, 200), rng.binomial(200, rate, groups)), LOG)
        pairs = ProfileLikelihood(Kind.DISJOINT, means, first, other=means, partner=second)
        low, high = AgainstBest(pairs, first).interval(chi2_isf(0.05, 1))
        covered += int(low[0] <= 0 <= high[0])
        half = ProfileLikelihood(
            Kind.DISJOINT, means, first[first < second], other=means, partner=second[first < second]
        )
        gaps += int(widest(half, 0.05, half.group.size)[1] == 0)
    margin = 3 * np.sqrt(0.05 * 0.95 / tables)
    assert covered / tables >= 0.95 - margin
    assert gaps / tables >= 0.95 - margin
