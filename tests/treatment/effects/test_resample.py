"""The bootstrap over cells against the bootstrap over rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from isonomy.frames import open_source
from isonomy.simulate import uplift
from isonomy.treatment.effects import resample
from isonomy.treatment.effects.errors import effects_of, errors_of
from isonomy.treatment.effects.resample import draw_moments, resample_rows, resample_sums
from isonomy.treatment.plan import Plan, plan
from isonomy.treatment.tally import Tally, tally


def counted(columns: object, **options: Any) -> tuple[Tally, Plan]:
    source = open_source(columns)
    asked = plan(source, effect="effect", treatment="treatment", outcome="outcome", groups="group", **options)
    return tally(source, asked, np.random.default_rng(0)), asked


@pytest.mark.parametrize("outcome", ["binary", "real"])
@pytest.mark.parametrize("measure", ["relative", "difference"])
def test_cells_and_rows_have_the_same_law(measure: Any, outcome: Any) -> None:
    columns = uplift(4_000, measure=measure, outcome=outcome, baseline=0.2, groups=2).columns
    counts, asked = counted(columns, measure=measure, variance="bootstrap_rows")
    sums, formula = counts.sums[0], asked.formula
    usable = errors_of(sums.moments(), formula).usable
    draws = 1_500
    fast = effects_of(resample_sums(sums, draws, np.random.default_rng(1)), formula, usable).error
    assert counts.lines is not None
    rows = resample_rows(counts.lines, formula.columns, draws, np.random.default_rng(2))[0]
    slow = effects_of(rows, formula, usable).error
    # A 5 % quantile of 1,500 draws has a standard error of 0.055 sd, a difference of two 0.077 sd: four of those.
    sd = slow.std(0)
    for q in (0.05, 0.25, 0.5, 0.75, 0.95):
        assert (np.abs(np.quantile(fast, q, axis=0) - np.quantile(slow, q, axis=0)) < 0.31 * sd).all()
    np.testing.assert_allclose(fast.std(0), sd, rtol=4 / np.sqrt(2 * draws) * np.sqrt(2))


def test_counts_of_events_are_whole_numbers() -> None:
    counts, _ = counted(uplift(500, baseline=0.05).columns)
    drawn = resample_sums(counts.sums[0], 50, np.random.default_rng(0))
    events = drawn.n * drawn.mean[..., 0]
    np.testing.assert_allclose(events, np.round(events), atol=1e-9)
    assert (drawn.n.sum((1, 2)) == 500).all()


def test_blocks_do_not_change_the_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    counts, _ = counted(uplift(2_000).columns)
    monkeypatch.setattr(resample, "_BLOCK", 30)
    drawn = resample_sums(counts.sums[0], 7, np.random.default_rng(0))
    assert drawn.mean.shape == (7, 3, 2, 2)
    assert (drawn.n.sum((1, 2)) == 2_000).all()


def test_resamples_without_a_number_are_left_out() -> None:
    draws = np.array([[1.0, np.nan], [3.0, 2.0], [5.0, 4.0], [3.0, np.inf]])
    variance, square = draw_moments(draws)
    np.testing.assert_allclose(variance, [np.var(draws[:, 0], ddof=1), 2.0])
    np.testing.assert_allclose(square, [11.0, 10.0])
