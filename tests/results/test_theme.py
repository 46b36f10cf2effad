"""The style of charts, which are drawn without a browser or a network."""

from __future__ import annotations

import re
import zlib

import altair as alt
import numpy as np
import pytest

import isonomy as iso
from isonomy.results import Verdict, theme
from support.fakes import HOSTILE, fake


@pytest.fixture(scope="module")
def chart() -> alt.TopLevelMixin:
    columns = {"x": [1.0, 2.0], "group": ["a", "<script>alert(1)</script>"]}
    picture: alt.TopLevelMixin = theme.finish(alt.Chart(theme.data(columns)).mark_point().encode(x="x:Q", y="group:N"))
    return picture


@pytest.mark.parametrize("label", HOSTILE)
def test_a_label_fits_beside_an_axis(label: str) -> None:
    line = theme.short(label)
    assert len(line) <= theme.LABEL_LENGTH
    assert "\n" not in line
    assert "\t" not in line


def test_numbers_that_json_has_no_word_for_are_null() -> None:
    columns = {"x": np.array([1.0, np.nan, np.inf]), "g": ["a", "b", "c"], "n": np.array([1, 2, 3])}
    assert theme.data(columns).to_dict()["values"] == [
        {"x": 1.0, "g": "a", "n": 1},
        {"x": None, "g": "b", "n": 2},
        {"x": None, "g": "c", "n": 3},
    ]
    with pytest.raises(ValueError, match="shorter"):
        theme.data({"x": [1, 2], "g": ["a"]})


def test_the_common_look_and_all_data_are_in_the_specification(chart: alt.TopLevelMixin) -> None:
    specification = theme.specification(chart)
    assert specification["config"]["range"]["category"] == list(theme.PALETTE)
    rows = {"x": np.arange(6_000.0)}  # more than altair embeds by default
    large = theme.specification(alt.Chart(theme.data(rows)).mark_point().encode(x="x:Q"))
    assert len(large["datasets"][large["data"]["name"]]) == 6_000


def test_every_verdict_has_a_colour_of_its_own() -> None:
    assert set(theme.VERDICT_COLORS) == {verdict.value for verdict in Verdict}
    assert len(set(theme.VERDICT_COLORS.values())) == 3
    assert len(set(theme.PALETTE)) == len(theme.PALETTE)


def test_pictures_have_a_background_that_is_not_the_pages(chart: alt.TopLevelMixin) -> None:
    """Black text on a transparent picture cannot be read on a dark page."""
    for picture in (chart, fake().plot()):
        assert re.search(r'<rect width="[\d.]+" height="[\d.]+" fill="white"', theme.to_svg(picture))
        assert corner(theme.to_png(picture, scale=1.0)) == (255, 255, 255, 255)


def corner(png: bytes) -> tuple[int, ...]:
    """The first pixel of a picture with 8 bits each for red, green, blue and opacity, with any filter."""
    assert (png[24], png[25]) == (8, 6)
    parts, at = b"", 8
    while at < len(png):
        size = int.from_bytes(png[at : at + 4], "big")
        parts += png[at + 8 : at + 8 + size] if png[at + 4 : at + 8] == b"IDAT" else b""
        at += 12 + size
    return tuple(zlib.decompress(parts)[1:5])


def test_pictures_hold_no_script(chart: alt.TopLevelMixin) -> None:
    svg = theme.to_svg(chart)
    assert svg.startswith("<svg")
    assert "<script" not in svg
    assert theme.to_png(chart, scale=1.0).startswith(b"\x89PNG")
    assert "<svg" in theme.to_svg(fake().plot())


def test_a_dark_chart_is_dark_and_has_light_letters() -> None:
    chart = iso.dark(fake().plot())
    red, green, blue, _ = corner(theme.to_png(chart, scale=1.0))
    assert max(red, green, blue) < 50
    config = theme.specification(chart)["config"]
    for name in ("axis", "legend", "header"):
        assert config[name]["labelColor"] == theme.LIGHT
    assert config["range"] == theme.CONFIG["range"]  # the same colors on both
    assert theme.specification(fake().plot())["config"]["background"] == "white"
