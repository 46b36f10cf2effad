from __future__ import annotations

import math

import pytest

from isonomy import likelihood as iso
from isonomy.errors import UsageError


def test_rows_and_disparity_are_inverse() -> None:
    for reference in ("known", "group", "population"):
        rows = iso.rows_needed(0.04, reference=reference, ratio=3.0, rate=0.3)
        found = iso.detectable_disparity(rows, reference=reference, reference_n=3.0 * rows, rate=0.3)
        assert found == pytest.approx(0.04, rel=2e-3)


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


@pytest.mark.parametrize(
    "call",
    [
        lambda: iso.detectable_disparity(100, rate=0.3),
        lambda: iso.detectable_disparity(100, reference="known"),
        lambda: iso.detectable_disparity(100, reference="known", rate=0.3, variance=1.0),
        lambda: iso.detectable_disparity(0, reference="known", rate=0.3),
        lambda: iso.rows_needed(0.0, rate=0.3),
        lambda: iso.rows_needed(0.9, rate=0.3),
        lambda: iso.rows_needed(-0.1, rate=0.3, alternative="greater"),
        lambda: iso.rows_needed(0.1, rate=0.3, ratio=0),
        lambda: iso.rows_needed(0.1, variance=-1.0),
    ],
)
def test_bad_input(call: object) -> None:
    with pytest.raises(UsageError):
        call()  # type: ignore[operator]
