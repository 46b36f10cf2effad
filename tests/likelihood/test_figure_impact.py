"""Charts of adverse impact."""

from __future__ import annotations

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
