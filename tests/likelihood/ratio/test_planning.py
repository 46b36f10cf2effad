"""Power and numbers of rows."""

from __future__ import annotations

import math

import pytest

import isonomy as iso
from isonomy.errors import UsageError


def test_rows_and_disparity_are_inverse() -> None:
    for reference in ("group", "population"):
        rows = iso.rows_needed(0.04, reference=reference, ratio=3.0, rate=0.3)
        result = iso.detectable_disparity(rows, reference=reference, reference_n=3.0 * rows, rate=0.3)
        assert result == pytest.approx(0.04, rel=2e-3)
    rows = iso.rows_needed(0.04, reference="known", rate=0.3)
    assert iso.detectable_disparity(rows, reference="known", rate=0.3) == pytest.approx(0.04, rel=2e-3)


def test_known_reference_is_the_papers_local_power() -> None:
    z = 1.959964 + 0.841621
    assert iso.detectable_disparity(400, reference="known", variance=2.0) == pytest.approx(
        z * math.sqrt(2 / 400), rel=1e-5
    )
    assert iso.power_of(z * 0.1, 0.1) == pytest.approx(0.8, abs=1e-4)
    one_sided = iso.detectable_disparity(400, reference="known", variance=2.0, alternative="less")
    assert one_sided == pytest.approx(-(1.644854 + 0.841621) * math.sqrt(2 / 400), rel=1e-5)


def test_too_few_rows_can_show_nothing() -> None:
    assert iso.detectable_disparity(3, reference="group", reference_n=3, rate=0.5) == math.inf


def test_the_rows_outside_the_group_keep_a_rate() -> None:
    """A group that is nine tenths of a population with rate 0.3 is at most 1/30 above it: the others are at 0 then."""
    assert iso.detectable_disparity(9_000, reference_n=1_000, rate=0.3) < 0.3 / 9
    assert iso.detectable_disparity(45, reference_n=5, rate=0.3) == math.inf
    assert iso.rows_needed(0.03, ratio=1 / 9, rate=0.3) > 0
    with pytest.raises(UsageError, match=r"disparity: 0\.05 is not possible at ratio=0\.111.* rate of -0\.15"):
        iso.rows_needed(0.05, ratio=1 / 9, rate=0.3)
