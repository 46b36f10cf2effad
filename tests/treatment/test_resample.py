"""The bootstrap over cells against the bootstrap over rows."""

from __future__ import annotations

import numpy as np
import pytest

from isonomy.frames import open_source
from isonomy.simulate import uplift
from isonomy.treatment.estimate import estimate, values
from isonomy.treatment.plan import make_plan
from isonomy.treatment.resample import resample_cells, resample_rows
from isonomy.treatment.tally import base_request, row_names, tally


@pytest.mark.parametrize("outcome", ["binary", "real"])
@pytest.mark.parametrize("measure", ["relative", "difference"])
def test_cells_and_rows_have_the_same_law(measure: str, outcome: str) -> None:
    source = open_source(uplift(4_000, measure=measure, outcome=outcome, baseline=0.2, groups=2).columns)
    plan = make_plan(effect="effect", treatment="treatment", outcome="outcome", groups="group", measure=measure)
    cells = tally(source, plan).partitions[0]
    usable = estimate(cells.moments(), plan).usable
    draws = 1_500
    fast = values(resample_cells(cells, draws, np.random.default_rng(1)), plan, usable).error
    rows = source.rows(base_request(source, plan))
    slow = values(
        resample_rows(rows, plan.columns, row_names(plan), draws, np.random.default_rng(2))[0], plan, usable
    ).error
    # A 5 % quantile of 1,500 draws has a standard error of 0.055 sd, a difference of two 0.077 sd: four of those.
    sd = slow.std(0)
    for q in (0.05, 0.25, 0.5, 0.75, 0.95):
        assert (np.abs(np.quantile(fast, q, axis=0) - np.quantile(slow, q, axis=0)) < 0.31 * sd).all()
    np.testing.assert_allclose(fast.std(0), sd, rtol=4 / np.sqrt(2 * draws) * np.sqrt(2))


def test_counts_of_events_are_whole_numbers() -> None:
    source = open_source(uplift(500, baseline=0.05).columns)
    plan = make_plan(effect="effect", treatment="treatment", outcome="outcome", groups="group")
    drawn = resample_cells(tally(source, plan).partitions[0], 50, np.random.default_rng(0))
    events = drawn.n * drawn.mean[..., 0]
    np.testing.assert_allclose(events, np.round(events), atol=1e-9)
    assert (drawn.n.sum((1, 2)) == 500).all()


def test_blocks_do_not_change_the_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    from isonomy.treatment import resample

    source = open_source(uplift(2_000).columns)
    plan = make_plan(effect="effect", treatment="treatment", outcome="outcome", groups="group")
    cells = tally(source, plan).partitions[0]
    monkeypatch.setattr(resample, "_BLOCK", 30)
    drawn = resample_cells(cells, 7, np.random.default_rng(0))
    assert drawn.mean.shape == (7, 3, 2, 2)
    assert (drawn.n.sum((1, 2)) == 2_000).all()
