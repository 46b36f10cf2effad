"""Verdicts against the threshold."""

from __future__ import annotations

import isonomy as iso
from isonomy.inference import Verdict
from support.hires import hires


def test_p_values_are_adjusted_over_all_tables() -> None:
    options = {"prediction": "hired", "groups": ["race", "sex"]}
    holm, none = (iso.adverse_impact(hires(), **options, adjust=how) for how in ("holm", "none"))  # type: ignore[arg-type]
    place = list(holm.labels).index("race=b")
    assert holm.adjusted_pvalue[place] == 3 * none.adjusted_pvalue[place]
    assert holm.verdicts[place] is Verdict.VIOLATION
    assert holm.verdict is Verdict.VIOLATION


def test_equal_rates_in_many_rows_are_shown_to_reach_the_threshold() -> None:
    data = {"p": [0, 1] * 4_000, "g": ["x", "x", "y", "y"] * 2_000}
    assert iso.adverse_impact(data, prediction="p", groups="g").verdict is Verdict.WITHIN_TOLERANCE


def test_left_out_categories_are_named() -> None:
    result = iso.adverse_impact(hires(), prediction="hired", groups="race", smallest_share=0.25)
    assert any("race=c" in sentence and "25 %" in sentence for sentence in result.warnings)
