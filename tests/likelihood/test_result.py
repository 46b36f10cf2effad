"""What results say about themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isonomy as iso
from isonomy.errors import UsageError
from isonomy.results import Status

RATE: dict[str, Any] = {"metric": "selection_rate", "prediction": "p", "groups": "g"}
DATA = {"p": np.tile([1, 0, 0], 60), "g": np.repeat(["a", "b", "c"], [80, 80, 20])}


def test_why_the_rows_behind_a_result_are_gone() -> None:
    found = iso.certify(DATA, **RATE)
    assert found.suppressed(5).contains(0.0)
    with pytest.raises(UsageError, match="withheld"):
        found.suppressed(50).contains(0.0)


def test_a_chart_says_what_its_intervals_hold_for() -> None:
    def title(chart: Any) -> str:
        return str(chart.to_dict()["title"])

    assert "Simultaneous 95 % intervals" in title(iso.certify(DATA, **RATE).plot())
    assert "Simultaneous 90 % intervals" in title(iso.flag(DATA, interval="simultaneous", alpha=0.1, **RATE).plot())
    assert "One-sided" in title(iso.flag(DATA, interval="one-sided", alternative="less", **RATE).plot())
    plain = title(iso.flag(DATA, **RATE).plot())
    assert "95 % intervals" in plain
    assert "imultaneous" not in plain


def test_a_constant_rate_with_an_endless_interval_is_told() -> None:
    data = {"p": [0] * 20 + [0, 1] * 30, "g": ["a"] * 20 + ["b"] * 60}
    found = iso.flag(data, reference=0.5, correction="adjusted", **RATE)
    assert np.isinf(found.ci_low[0])
    assert found.status[0] is Status.UNBOUNDED
    assert any("no end" in w for w in found.warnings)
    assert any("0 for every row" in w for w in found.warnings)


@pytest.mark.parametrize("options", [{"null": True}, {"null": (False, True), "alternative": "outside"}], ids=str)
def test_a_null_is_a_number(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=r"^null:"):
        iso.flag(DATA, **RATE, **options)


def test_a_tolerance_is_a_number() -> None:
    with pytest.raises(UsageError, match=r"^tolerance: True"):
        iso.flag(DATA, tolerance=True, **RATE)
    assert iso.flag(DATA, tolerance=np.float32(0.25), **RATE).tolerance == 0.25
