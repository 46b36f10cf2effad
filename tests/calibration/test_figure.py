"""Charts carry their data and can be drawn."""

from __future__ import annotations

from typing import Any

from isonomy.results import theme


def test_charts_have_their_data_inside(results: list[Any]) -> None:
    for result in results:
        specification = theme.specification(result.plot())
        assert "datasets" in specification or "data" in str(specification)
        assert theme.to_svg(result.plot()).startswith("<svg")
    assert "svg" in theme.to_svg(results[0].plot(beside=results[0], names=("user level", "aggregate")))
