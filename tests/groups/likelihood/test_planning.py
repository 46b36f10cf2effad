"""Power and numbers of rows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import t

import isonomy as iso
from isonomy.errors import UsageError
from isonomy.groups.likelihood.means import Binary
from isonomy.groups.likelihood.profile import Kind, ProfileLikelihood
from isonomy.inference.effect import Hypothesis
from isonomy.numerics.tails import chi2_isf


def test_rows_and_disparity_are_inverse() -> None:
    for reference in ("group", "population"):
        rows = iso.rows_needed(0.04, reference=reference, ratio=3.0, rate=0.3)
        result = iso.detectable_disparity(rows, reference=reference, reference_n=3.0 * rows, rate=0.3)
        assert result == pytest.approx(0.04, rel=2e-3)
    rows = iso.rows_needed(0.04, reference="known", rate=0.3)
    # Numbers of cases are whole: the chance leaps from one number of rows to the next.
    assert iso.detectable_disparity(rows, reference="known", rate=0.3) == pytest.approx(0.04, rel=1e-2)


def test_known_reference_is_the_papers_local_power() -> None:
    z, (two, one, power) = 1.959964 + 0.841621, t(399).ppf([0.975, 0.95, 0.8])  # means have Student's law
    assert iso.detectable_disparity(400, reference="known", variance=2.0) == pytest.approx(
        (two + power) * math.sqrt(2 / 400), rel=1e-5
    )
    assert iso.power_of(z * 0.1, 0.1) == pytest.approx(0.8, abs=1e-4)
    one_sided = iso.detectable_disparity(400, reference="known", variance=2.0, side="less")
    assert one_sided == pytest.approx(-(one + power) * math.sqrt(2 / 400), rel=1e-5)


def test_too_few_rows_can_show_nothing() -> None:
    assert iso.detectable_disparity(3, reference="group", reference_n=3, rate=0.5) == math.inf


def test_the_rows_outside_the_group_keep_a_rate() -> None:
    """A group that is nine tenths of a population with rate 0.3 is at most 1/30 above it: the others are at 0 then."""
    assert iso.detectable_disparity(9_000, reference_n=1_000, rate=0.3) < 0.3 / 9
    assert iso.detectable_disparity(45, reference_n=5, rate=0.3) == math.inf
    assert iso.rows_needed(0.03, ratio=1 / 9, rate=0.3) > 0
    with pytest.raises(UsageError, match=r"disparity: 0\.05 is not possible at ratio=0\.111.* rate of -0\.15"):
        iso.rows_needed(0.05, ratio=1 / 9, rate=0.3)


@pytest.mark.parametrize("reference", ["known", "group", "population"])
@pytest.mark.parametrize(
    ("scale", "tolerance", "disparity"),
    [
        ("difference", None, 0.06),
        ("difference", 0.04, -0.1),
        ("difference", 0.05, 0.0),
        ("ratio", 0.8, 0.6),
        ("ratio", 0.8, 1.0),
        ("odds_ratio", 0.7, 1.1),
    ],
)
def test_rows_and_power_agree_on_every_scale(reference: Any, scale: Any, tolerance: Any, disparity: float) -> None:
    options: dict[str, Any] = {"reference": reference, "scale": scale, "tolerance": tolerance, "rate": 0.3}
    rows = iso.rows_needed(disparity, ratio=None if reference == "known" else 2.0, **options)
    beside: dict[str, Any] = {} if reference == "known" else {"reference_n": 2.0 * rows}
    assert 0.8 <= iso.power_of(disparity, n=rows, **beside, **options) < 0.84
    if tolerance is not None and disparity not in (-0.1, 0.6):
        return
    side: dict[str, Any] = {"side": "less"} if disparity < 0 else {}
    smallest = iso.detectable_disparity(rows, **beside, **options, **side)
    assert smallest == pytest.approx(disparity, rel=0.1 if side else 0.02)  # of ratios two-sided the one below 1


@pytest.mark.parametrize(("disparity", "tolerance"), [(0.05, None), (0.0, 0.05), (0.01, 0.06), (0.1, 0.04)])
def test_the_power_promised_is_reached(disparity: float, tolerance: float | None) -> None:
    """By 4,000 tables of two groups at rates of 0.3: 0.03 is what is asked, and the simulation's error is 0.006."""
    rows = iso.rows_needed(disparity, reference="group", ratio=2.0, rate=0.3, tolerance=tolerance)
    rng, every = np.random.default_rng(11), np.arange(4_000)
    own = Binary(np.full(every.size, rows), rng.binomial(rows, 0.3 + disparity, every.size))
    other = Binary(np.full(every.size, 2 * rows), rng.binomial(2 * rows, 0.3, every.size))
    pairs = ProfileLikelihood(Kind.DISJOINT, own, every, other=other, partner=every)
    if tolerance is not None and disparity < tolerance:
        low, high = pairs.interval(chi2_isf(0.05, 1))
        shown = (low >= -tolerance) & (high <= tolerance)
    else:
        end = tolerance or 0.0
        shown = pairs.test(Hypothesis(-end, end, "outside"))[1] <= 0.05
    assert shown.mean() == pytest.approx(0.8, abs=0.03)


def test_clusters_cost_rows_and_few_of_them_show_nothing() -> None:
    options: dict[str, Any] = {"reference": "group", "rate": 0.3}
    plain = iso.rows_needed(0.05, **options)
    assert iso.rows_needed(0.05, **options, cluster=(1, 0.5)) == pytest.approx(plain, rel=0.01)
    assert iso.rows_needed(0.05, **options, cluster=(20, 0.1)) / plain == pytest.approx(1 + 19 * 0.1, rel=0.03)
    assert iso.rows_needed(0.6, **options, cluster=(50, 0.0)) >= 500
    assert iso.power_of(0.5, n=100, reference_n=5_000, cluster=(20, 0.1), **options) == 0.0


def test_metrics_that_are_not_rates_have_ratios_and_standard_deviations() -> None:
    z = 1.959964 + 0.841621
    rows = iso.rows_needed(0.5, scale="standardized", reference="known")
    student = float(t(36).ppf([0.975, 0.8]).sum())  # a mean of 37 rows
    assert rows == pytest.approx((student / 0.5) ** 2 * (1 + 0.5**2 / 2), abs=1)
    rows = iso.rows_needed(0.9, scale="ratio", mean=10.0, variance=4.0, reference="group")
    assert rows == pytest.approx(z**2 * (4 + 4) / 1.0**2, abs=2)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: iso.rows_needed(-0.1, rate=0.3, scale="ratio"), "a ratio lies above 0"),
        (lambda: iso.rows_needed(0.9, variance=1.0, scale="ratio"), "mean: give the reference's mean"),
        (lambda: iso.rows_needed(0.9, rate=0.3, scale="standardized"), "leave them out"),
        (lambda: iso.rows_needed(0.9, rate=0.3, scale="ratio", tolerance=1.2), r"tolerance: 1\.2 is not allowed"),
    ],
)
def test_what_a_plan_cannot_be_asked(call: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        call()


def test_power_is_a_probability_however_far_away() -> None:
    for disparity, error in ((1e308, 1e-308), (-1e308, 1e-308), (1e308, 1e308), (1e-308, 1e308), (5e-324, 5e-324)):
        for tolerance in (None, 1e-300, 1e300):
            for side in ("two-sided", "greater", "less"):
                assert 0.0 <= iso.power_of(disparity, error, tolerance=tolerance, side=side) <= 1.0
    assert iso.power_of(1e308, 1e-308) == 1.0


@pytest.mark.parametrize("scale", ["difference", "ratio", "odds_ratio"])
def test_a_disparity_that_leaves_nobody_selected_outside_is_the_easiest_to_show(scale: Any) -> None:
    # Twice the population's rate in half of it: the other half has a rate of 0, but for rounding.
    full = {"difference": 0.3, "ratio": 2.0, "odds_ratio": (0.6 / 0.4) / (0.3 / 0.7)}[scale]
    nearly = {"difference": 0.29, "ratio": 1.95, "odds_ratio": 3.3}[scale]
    for tolerance in (None, 0.05 if scale == "difference" else 0.9):
        plan: dict[str, Any] = {"rate": 0.3, "scale": scale, "tolerance": tolerance}
        assert iso.rows_needed(full, **plan) <= iso.rows_needed(nearly, **plan)
    assert iso.power_of(full, n=100, reference_n=100, rate=0.3, scale=scale) == pytest.approx(1.0)


def test_everybody_selected_is_a_rate_that_rounding_does_not_refuse() -> None:
    for rate in (0.3, 0.37, 0.11, 0.7):
        assert iso.power_of(1 / rate, n=200, reference="group", reference_n=200, rate=rate, scale="ratio") > 0.99


def test_a_known_reference_of_standardized_differences_has_no_rows() -> None:
    rows = iso.rows_needed(0.5, reference="known", scale="standardized")
    power = [iso.power_of(0.5, n=n, reference="known", scale="standardized") for n in (rows - 1, rows)]
    assert power[0] < 0.8 <= power[1]
