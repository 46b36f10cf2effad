"""Verdicts and warnings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isonomy as iso


def test_near_fair_status_quo_is_warned_about(data: dict[str, Any], ask: dict[str, Any]) -> None:
    result = iso.improvability(data, **(ask | {"status_quo": "need_score", "candidate": "cost_score"}))
    assert any("standard errors from zero" in w for w in result.warnings)


def test_unused_training_parts_are_pointed_out(data: dict[str, Any], ask: dict[str, Any]) -> None:
    ready = ask | {"status_quo": "decision", "candidate": "better", "capacity": None}
    assert any("a single split" in w for w in iso.improvability(data, **ready).warnings)


@pytest.mark.parametrize(("resamples", "reject"), [(19, True), (18, False)])
def test_a_pvalue_equal_to_alpha_rejects(resamples: int, reject: bool) -> None:
    """The status quo selects all of one group and nobody of the other: no resample exceeds, and p is 1/20 or 1/19."""
    rng = np.random.default_rng(0)
    group, outcome = np.arange(2000) % 2, rng.integers(0, 2, 2000)
    table = {"group": group, "outcome": outcome, "all of one": group, "right": outcome}
    result = iso.improvability(
        table,
        outcome="outcome",
        groups="group",
        status_quo="all of one",
        candidate="right",
        accuracy="accuracy",
        fairness="selection_rate",
        evidence="paper",
        splits=1,
        resamples=resamples,
        alpha=0.05,
        rng=1,
    )
    assert result.pvalue == 1 / (1 + resamples)
    assert (result.verdict == "violation", result.reject) == (reject, reject)
    assert (result.recommended is not None, not np.isnan(result.supported_fairness_gain)) == (reject, reject)
    surface = result.surface([0.0], [0.0])
    assert (surface.verdict == "violation") == reject
    assert bool(surface.to_frame("polars")["supported"][0]) == reject
    assert np.isnan(surface.contour[0]) != reject
    assert ("alternative was shown to exist" in result.findings()[0]) == reject
