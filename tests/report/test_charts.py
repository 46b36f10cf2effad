"""A picture as data that cannot end the element it stands in; one that fails leaves its reason."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from isonomy.report.charts import chart, embedded, library
from isonomy.results import Verdict
from support.fakes import HOSTILE, FakeResult, fake


def test_labels_cannot_end_the_script_that_holds_them() -> None:
    specification = chart(fake(HOSTILE)).specification
    assert specification is not None
    assert not set("<>&") & set(specification)
    assert "vega-lite" in json.loads(specification)["$schema"]


def test_a_chart_on_the_page_has_the_pages_background() -> None:
    """The page gives its charts its own ink, which is light on a dark page."""
    specification = chart(fake()).specification
    assert specification is not None
    assert json.loads(specification)["config"]["background"] == "transparent"


def test_embedded_values_are_plain() -> None:
    value: dict[str, Any] = {"a": np.float64(0.5), "b": np.int8(3), "c": Verdict.VIOLATION, "d": "</script>&"}
    assert json.loads(embedded(value)) == {"a": 0.5, "b": 3, "c": "violation", "d": "</script>&"}
    with pytest.raises(ValueError, match="not JSON compliant"):
        embedded([float("nan")])


def test_a_picture_that_cannot_be_drawn_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeResult, "plot", lambda self: 1 / 0)
    picture = chart(fake())
    assert picture.specification is None
    assert picture.problem.startswith("The picture could not be drawn (ZeroDivisionError: division by zero)")


def test_the_library_is_in_the_package() -> None:
    assert "vegaEmbed" in library()
    assert "</script" not in library().lower()
