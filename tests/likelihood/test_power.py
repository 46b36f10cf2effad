from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from isonomy import likelihood as iso
from isonomy.errors import UsageError


def test_rows_and_disparity_are_inverse() -> None:
    for reference in ("group", "population"):
        rows = iso.rows_needed(0.04, reference=reference, ratio=3.0, rate=0.3)
        found = iso.detectable_disparity(rows, reference=reference, reference_n=3.0 * rows, rate=0.3)
        assert found == pytest.approx(0.04, rel=2e-3)
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


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: iso.detectable_disparity(100, rate=0.3), "reference_n"),
        (lambda: iso.detectable_disparity(100, reference_n=0, rate=0.3), "reference_n"),
        (lambda: iso.detectable_disparity(100, reference="known"), "rate, variance"),
        (lambda: iso.detectable_disparity(100, reference="known", rate=0.3, variance=1.0), "rate, variance"),
        (lambda: iso.detectable_disparity(0, reference="known", rate=0.3), "n"),
        (lambda: iso.detectable_disparity(100, reference="known", rate=0.3, tests=0), "tests"),
        (lambda: iso.rows_needed(0.0, rate=0.3), "disparity"),
        (lambda: iso.rows_needed(0.9, rate=0.3), "disparity"),
        (lambda: iso.rows_needed(-0.1, rate=0.3, alternative="greater"), "disparity"),
        (lambda: iso.rows_needed(0.1, rate=0.3, ratio=0), "ratio"),
        (lambda: iso.rows_needed(0.1, variance=-1.0), "variance"),
        (lambda: iso.rows_needed(0.1, variance=math.inf), "variance"),
        (lambda: iso.rows_needed(0.1, variance=1.0, reference_variance=0.0), "reference_variance"),
        (lambda: iso.rows_needed(0.05, rate=0.3, tests=0), "tests"),
        (lambda: iso.rows_needed(0.05, rate=0.3, tests=1.5), "tests"),  # type: ignore[arg-type]
        (lambda: iso.power_of(0.05, 0.0), "standard_error"),
        (lambda: iso.power_of(0.05, math.nan), "standard_error"),
        (lambda: iso.power_of(math.inf, 0.1), "disparity"),
        (lambda: iso.power_of(None, 0.1), "disparity"),  # type: ignore[arg-type]
        (lambda: iso.power_of(0.05, "a"), "standard_error"),  # type: ignore[arg-type]
        (lambda: iso.detectable_disparity("a", reference="known", rate=0.3), "n"),  # type: ignore[arg-type]
        (lambda: iso.detectable_disparity(9, reference_n="a", rate=0.3), "reference_n"),  # type: ignore[arg-type]
        (lambda: iso.rows_needed("a", rate=0.3), "disparity"),  # type: ignore[arg-type]
        (lambda: iso.rows_needed(0.1, variance="a"), "variance"),  # type: ignore[arg-type]
        (lambda: iso.rows_needed(0.1, rate=0.3, ratio="a"), "ratio"),  # type: ignore[arg-type]
        (lambda: iso.rows_needed(1e-200, rate=0.3), "disparity"),
        (lambda: iso.rows_needed(1e-9, rate=0.3), "disparity"),
        (lambda: iso.detectable_disparity(100, reference="known", rate=0.3, power=0.01), "power"),
        (lambda: iso.rows_needed(0.1, rate=0.3, power=0.05), "power"),
        # What would have no effect.
        (lambda: iso.rows_needed(0.1, rate=0.3, reference_variance=1.0), "reference_variance"),
        (lambda: iso.rows_needed(0.1, reference="known", variance=1.0, reference_variance=1.0), "reference_variance"),
        (lambda: iso.detectable_disparity(100, reference="known", reference_n=50, rate=0.3), "reference_n"),
        (lambda: iso.rows_needed(0.1, reference="known", rate=0.3, ratio=2.0), "ratio"),
    ],
)
def test_bad_input_names_the_argument(call: Callable[[], object], argument: str) -> None:
    with pytest.raises(UsageError, match=f"^{argument}:"):
        call()
