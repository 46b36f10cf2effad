"""Verdicts against the threshold."""

from __future__ import annotations

from typing import Any

import pytest

import isonomy as iso
from isonomy.inference import Verdict
from isonomy.results import Status
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


def test_the_comparator_is_not_judged_whether_it_was_named_or_not() -> None:
    references: list[Any] = ["highest", {"race": "a"}]
    highest, named = (
        iso.adverse_impact(hires(), prediction="hired", groups="race", reference=one) for one in references
    )
    assert highest.status == named.status == (Status.REFERENCE, Status.OK, Status.OK)
    assert highest.verdicts == named.verdicts
    assert highest.verdicts[0] is Verdict.INCONCLUSIVE


@pytest.mark.parametrize("reference", ["highest", {"race": "a"}])
def test_one_category_left_is_compared_with_nothing(reference: Any) -> None:
    alone = iso.adverse_impact(hires(), prediction="hired", groups="race", min_size=1_000, reference=reference)
    assert alone.status == (Status.REFERENCE, Status.TOO_SMALL, Status.TOO_SMALL)
    assert not alone.answered
    assert alone.headline().startswith("Not answered: only one group has enough rows, which leaves nothing to compare")
    assert alone.findings() == ()
    both = iso.adverse_impact(hires(), prediction="hired", groups=["race", "sex"], min_size=1_000, reference="highest")
    assert both.answered
    assert both.status[0] is Status.REFERENCE
    assert "Fewer than two categories can be compared in the table race." in both.warnings
