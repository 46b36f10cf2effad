"""Two audits side by side: what changed, and what moved beyond its error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats

from isonomy.audit import Audit, AuditResult
from isonomy.audit.compare import ALPHA, compare
from isonomy.report import wording


def audited(gap: float, seed: int, *, rows: int = 4_000, **keys: Any) -> AuditResult:
    """An audit of decisions that favour the men by ``gap``."""
    rng = np.random.default_rng(seed)
    male = rng.random(rows) < 0.5
    table = pl.DataFrame({"sex": np.where(male, "m", "f"), "ok": (rng.random(rows) < 0.4 + gap * male).astype(int)})
    test = {"kind": "flag", "metric": "selection_rate", "tolerance": 0.05, **keys}
    config = {"columns": {"prediction": "ok", "groups": ["sex"]}, "tests": [test]}
    return Audit.from_dict(config, data=table).run()


def test_a_verdict_that_changed_and_numbers_that_moved() -> None:
    done = compare(audited(0.3, 1), audited(0.0, 2))
    (change,) = done.changes
    assert (change.before, change.after, change.changed) == ("Difference shown", "Within tolerance", True)
    assert done.headline == "1 verdict of 1 test changed; 2 numbers moved beyond the error of both audits."
    assert [move.split(":")[0] for move in change.moves] == ["sex=f", "sex=m"]
    assert wording.INDEPENDENT_ROWS in done.notes


def test_the_change_has_the_error_of_two_independent_tables() -> None:
    old, new = audited(0.3, 1), audited(0.1, 2)
    (change,) = compare(old, new).changes
    first, second = old["flag-selection_rate"], new["flag-selection_rate"]
    for i, move in enumerate(change.numbers):
        spread = np.hypot(first.standard_error[i], second.standard_error[i])  # type: ignore[attr-defined]
        moved = second.disparity[i] - first.disparity[i]  # type: ignore[attr-defined]
        assert move.pvalue == pytest.approx(2 * stats.norm.sf(abs(moved) / spread), rel=1e-9)
        assert move.interval == pytest.approx((moved - 1.959964 * spread, moved + 1.959964 * spread), rel=1e-6)
    ordered = sorted(move.pvalue for move in change.numbers)
    assert min(move.adjusted for move in change.numbers) == pytest.approx(min(1, 2 * ordered[0]))  # Holm


def test_nothing_moves_by_chance_more_often_than_alpha() -> None:
    """The share of comparisons of equal populations with any number moved: 200 of them, Monte Carlo error 0.0154."""
    pairs = [(audited(0.1, 1000 + i, rows=1_500), audited(0.1, 5000 + i, rows=1_500)) for i in range(200)]
    moved = [any(move.adjusted <= ALPHA for move in compare(*pair).changes[0].numbers) for pair in pairs]
    assert np.mean(moved) <= 0.05 + 2.33 * np.sqrt(0.05 * 0.95 / 200)


def test_the_same_rows_are_not_compared_by_number() -> None:
    done = compare(audited(0.3, 1), audited(0.3, 1))
    assert done.changes[0].moves == ()
    assert wording.SAME_ROWS in done.notes
    assert done.headline.startswith("0 verdicts of 1 test changed")


def test_tests_that_were_asked_differently() -> None:
    (change,) = compare(audited(0.3, 1), audited(0.3, 2, tolerance=0.5)).changes
    assert change.moves == ("Asked differently (tolerance): numbers are not compared.",)
    first, second = compare(audited(0.3, 1), audited(0.3, 2, id="another")).changes
    assert (first.after, second.before) == (wording.NOT_ASKED, wording.NOT_ASKED)


def test_the_files(tmp_path: Path) -> None:
    written = compare(audited(0.3, 1), audited(0.0, 2)).write(tmp_path / "out")
    assert [path.name for path in written] == ["compare.html", "compare.md"]
    page, text = (path.read_text() for path in written)
    assert "sex=f: from " in page
    assert "| **Within tolerance** |" in text
    assert "<script" not in page
