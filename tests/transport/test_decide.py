"""What was shown, and what the reader is warned of."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import isonomy as iso
from isonomy.frames import open_source
from isonomy.numerics.status import Status
from isonomy.transport.decide import decide
from isonomy.transport.estimate import estimate
from isonomy.transport.tally import tally
from support.movement import planned
from support.tables import decided

ROLES: dict[str, Any] = {"outcome": "y", "prediction": "c"}
SCORE: dict[str, Any] = ROLES | {"score": "score", "threshold": 0.2}


def test_tolerance_verdicts() -> None:
    data = decided(20_000, shift=0.02)
    wide = iso.project(data, groups="sex", criterion="statistical_parity", tolerance=0.1, **SCORE)
    assert wide.verdict is iso.Verdict.WITHIN_TOLERANCE
    assert wide.statistic == 0
    data = decided(20_000, shift=0.5)
    narrow = iso.project(data, groups="group", criterion="statistical_parity", tolerance=0.02, rng=3, **SCORE)
    assert narrow.verdict is iso.Verdict.VIOLATION
    assert narrow.provenance.seed is not None
    assert "within 0.02" in narrow.null.replace("0.0200", "0.02")
    upper = iso.project(
        data, groups="group", criterion="statistical_parity", tolerance=0.02, tolerance_side="upper", rng=3, **SCORE
    )
    lower = iso.project(
        data, groups="group", criterion="statistical_parity", tolerance=0.02, tolerance_side="lower", rng=3, **SCORE
    )
    assert upper.verdict is iso.Verdict.VIOLATION  # group b is selected more often than the largest group, a
    assert lower.verdict is not iso.Verdict.VIOLATION


def test_constant_decisions_have_no_pvalue() -> None:
    data = decided()
    data["c"] = np.ones(2_000, dtype=int)
    result = iso.project(data, groups="group", distance="distance", **ROLES)
    assert result.status is Status.CONSTANT
    assert np.isnan(result.pvalue)
    assert result.verdict is iso.Verdict.INCONCLUSIVE


def test_certainty_is_not_claimed_for_a_handful() -> None:
    """Five rows a group, all selected: no difference is seen, and nothing is shown about the tolerance."""
    data = {"g": ["a"] * 5 + ["b"] * 5, "c": [1] * 10, "d": np.linspace(0.1, 1.0, 10)}
    result = iso.project(data, prediction="c", groups="g", distance="d", criterion="statistical_parity", tolerance=0.1)
    assert result.verdict is iso.Verdict.INCONCLUSIVE
    data["c"] = [1] * 5 + [1, 1, 1, 1, 0]
    result = iso.project(data, prediction="c", groups="g", distance="d", criterion="statistical_parity", tolerance=0.3)
    assert result.verdict is iso.Verdict.INCONCLUSIVE
    assert any("Fewer than 10 rows" in w for w in result.warnings)


@pytest.mark.parametrize(
    ("pvalue", "equivalence", "verdict"),
    [
        (0.05, np.nan, iso.Verdict.VIOLATION),
        (0.06, 0.05, iso.Verdict.WITHIN_TOLERANCE),
        (0.01, 0.01, iso.Verdict.VIOLATION),
        (0.06, np.nan, iso.Verdict.INCONCLUSIVE),
        (np.nan, 0.2, iso.Verdict.INCONCLUSIVE),
    ],
)
def test_the_rule(pvalue: float, equivalence: float, verdict: iso.Verdict) -> None:
    """At most alpha, on either side; a violation outranks."""
    source = open_source(decided())
    asked = planned(source, groups="group", **SCORE)
    estimates = estimate(source, tally(source, asked), asked, np.random.default_rng(0))
    inference = replace(estimates.inference, pvalue=pvalue, equivalence_pvalue=equivalence)
    assert decide(replace(estimates, inference=inference), asked).verdict is verdict


def test_warnings_come_in_order() -> None:
    """What was left out first, then what the numbers rest on, then what the list leaves out."""
    source = open_source(decided())
    asked = planned(source, groups="group", **SCORE)
    estimates = estimate(source, tally(source, asked), asked, np.random.default_rng(0))
    assert decide(estimates, asked).warnings == ()
    inference = replace(estimates.inference, redundant=np.array([0]), pooled=True, status=Status.ATOMS, permuted=True)
    redundant, pooled, atoms, permuted = decide(replace(estimates, inference=inference), asked).warnings
    assert redundant.startswith("Left out")
    assert "always or never" in pooled
    assert "have the same distance" in atoms
    assert "by permutation" in permuted
