"""The lender's planted facts: what is alike is exactly alike, and every fact is a sentence."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from isonomy import simulate

ROWS = 250_000


@cache
def large() -> simulate.Simulated:
    return simulate.lender(ROWS, 17)


def test_what_is_truly_alike_is_exactly_alike() -> None:
    truth = large().truth
    rates = truth["flag"]["groups"]
    bands = [rates[f"age_band={b}"] for b in ("21-29", "30-59", "60-79")]
    for one, other in ((bands[0], bands[1]), (bands[0], bands[2]), (rates["race=White"], rates["race=Asian"])):
        assert all(one[m] == pytest.approx(other[m], abs=1e-12) for m in one if m != "share")
    curves = {label: np.array(curve["user"]) for label, curve in truth["predictive_parity"]["groups"].items()}
    for label in ("race=White", "age_band=60-79"):
        other = {"race=White": "race=Asian", "age_band=60-79": "age_band=21-29"}[label]
        np.testing.assert_allclose(curves[label], curves[other], rtol=0, atol=1e-12)
    assert np.all(curves["race=Black"] > curves["race=White"] + 0.01)
    gaps = truth["project"]["disparity"]
    assert gaps["race=Asian"]["equal_opportunity"] == pytest.approx(0, abs=1e-12)
    assert gaps["race=Black"]["equal_opportunity"] < -0.2


def test_facts_are_sentences_for_all_five_questions() -> None:
    facts = large().truth["facts"]
    assert list(facts) == ["flag", "project", "improvability", "treatment_bias", "predictive_parity"]
    for sentences in facts.values():
        assert sentences
        assert all(s.endswith(".") and "fair" not in s.lower() for s in sentences)
    assert "33.3 %" in facts["flag"][1]
