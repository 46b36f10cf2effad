"""Charts of adverse impact."""

from __future__ import annotations

import numpy as np

import isonomy as iso
from support.hires import hires


def test_the_axis_is_logarithmic_with_the_threshold() -> None:
    chart = iso.adverse_impact(hires(), prediction="hired", groups="race", threshold=0.9).plot().to_dict()
    layers = chart["layer"]
    named = chart["datasets"]
    assert [named[layer["data"]["name"]][0]["null"] for layer in layers[:2]] == [0.9, 1.0]
    assert layers[2]["encoding"]["x"]["scale"]["type"] == "log"


def test_scores_add_the_ratios_by_cutoff() -> None:
    chart = iso.adverse_impact(hires(), score="score", groups="race", rng=0).plot().to_dict()
    assert len(chart["vconcat"]) == 2


def test_the_axis_has_ticks_that_people_read_within_the_intervals() -> None:
    result = iso.adverse_impact(hires(), prediction="hired", groups="race")
    chart = result.plot().to_dict()
    ticks = [layer["encoding"]["x"]["axis"]["values"] for layer in chart["layer"] if "axis" in layer["encoding"]["x"]]
    assert ticks
    low, high = np.nanmin(result.ci_low), np.nanmax(result.ci_high)
    for values in ticks:
        assert {0.5, 0.8, 1} <= set(values)
        assert all(round(value, 2) == value for value in values)
        assert all(low / 1.5 <= value <= high * 1.5 for value in values)


def test_the_chart_says_which_error_rate_its_intervals_and_its_colors_follow() -> None:
    title = iso.adverse_impact(hires(), prediction="hired", groups="race").plot().to_dict()["title"]
    assert title["subtitle"][:2] == [
        "Intervals: 95 % for each category alone.",
        "Colors: at most a 5 % chance that any difference shown is false (Holm).",
    ]
    plain = iso.adverse_impact(hires(), prediction="hired", groups="race", adjust="none").plot().to_dict()["title"]
    assert isinstance(plain, str)
