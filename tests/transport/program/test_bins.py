"""Counting in bins against sorting, where binning is hardest: heavy tails, far rows, many orders of size."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

import isonomy as iso
from isonomy.frames import open_source
from isonomy.numerics.status import Status
from isonomy.transport import ProjectionResult
from isonomy.transport.program import bins
from isonomy.transport.program.segments import Pool
from isonomy.transport.program.solve import Solution, solve
from isonomy.transport.tally import tally
from support.movement import listed, planned
from support.same import same

PARITY: dict[str, Any] = {"prediction": "c", "criterion": "statistical_parity"}


def both(data: dict[str, Any], **options: Any) -> tuple[ProjectionResult, ProjectionResult]:
    """Sorted in memory, and counted by passes."""
    frame = pl.DataFrame(data)
    return iso.project(frame, **(PARITY | options)), iso.project(frame.lazy(), **(PARITY | options))


def test_heavy_tails() -> None:
    rng = np.random.default_rng(0)
    group = rng.choice(["a", "b", "c"], 3_000)
    score = rng.standard_cauchy(3_000) + 0.3 * (group == "b")
    for groups in (iso.where("b", iso.col("group") == "b"), "group"):
        eager, lazy = both({"group": group, "s": score, "c": score >= 0}, groups=groups, score="s", threshold=0.0)
        assert lazy.statistic == pytest.approx(eager.statistic, rel=1e-10)
        assert lazy.pvalue == pytest.approx(eager.pvalue, rel=1e-9)
        assert lazy.share_moved == pytest.approx(eager.share_moved, rel=1e-9)


@pytest.mark.parametrize("names", ["b", "bc"])
def test_rows_beyond_the_first_bins(names: str) -> None:
    """Near rows would only make it worse; ten rows a thousand times as far have to move by half."""
    rng = np.random.default_rng(1)
    group = np.array(["a"] * 2_000 + list(names) * (10 // len(names)))
    decision = np.append(np.arange(2_000) % 2, np.ones(10, dtype=int))
    near = np.where(decision[:2_000] == 1, 0.1, np.inf)
    data = {"group": group, "c": decision, "d": np.append(near, 1_000 + rng.random(10))}
    eager, lazy = both(data, groups="group", distance="d", reference={"group": "a"})
    assert eager.moved == pytest.approx(5.0)
    assert lazy.moved == pytest.approx(5.0)
    assert lazy.status == eager.status
    assert lazy.statistic == pytest.approx(eager.statistic, rel=1e-9)


def opened(data: dict[str, Any]) -> Pool:
    source = open_source(pl.DataFrame(data).lazy())
    rows = tally(source, planned(source, groups="group", distance="d", **PARITY))
    return rows.pool(np.ones((rows.cells.count.size, 2)))


@pytest.mark.parametrize("lines", [0, 50])
def test_splitting_loses_no_row(lines: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments of different cells at different depths, some by value, keep their rows and sums, and do not overlap."""
    monkeypatch.setattr(bins, "LINES", lines)
    rng = np.random.default_rng(5)
    group = rng.choice(["a", "b", "c"], 20_000)
    distance = np.round(rng.exponential(size=20_000) ** 3, 5)  # ties, zeros, and rows far beyond the first bins
    decision = rng.integers(0, 2, 20_000)
    pool = opened({"group": group, "d": distance, "c": decision})
    segments = pool.coarse()
    depths = set()
    for _ in range(8):
        # The lowest bins of some cells, and any others: intervals nest at every depth.
        coarse = segments.low < segments.high
        picked = coarse & ((rng.random(coarse.size) < 0.02) | ((segments.low == 0) & (rng.random(coarse.size) < 0.6)))
        picked |= coarse & np.isinf(segments.high) & (rng.random(coarse.size) < 0.3)
        if not picked.any():
            continue
        cut = segments.where(picked)
        finer = pool.split(cut)
        depths |= set(np.log2(cut.high - cut.low))
        assert finer.count.sum() == cut.count.sum()
        assert finer.count @ finer.cost == pytest.approx(cut.count @ cut.cost, rel=1e-12)
        segments = segments.where(~picked) + finer
    assert len(depths) > 2
    for k in range(6):
        mine = np.sort(distance[(group == "abc"[k // 2]) & (decision == k % 2)])
        here = segments.where(segments.group == k)
        here = here.where(np.lexsort((here.high, here.low)))
        assert (here.high[:-1] <= here.low[1:]).all()
        reached = np.searchsorted(mine, np.where(here.low < here.high, here.high, np.nextafter(here.high, np.inf)))
        assert np.cumsum(here.count) == pytest.approx(reached)


def test_passes_stay_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dozen grouped passes at most, whatever the number of rows: each round splits bins 256 ways."""
    seen: list[Solution] = []

    def count(*arguments: Any) -> Solution:
        seen.append(solve(*arguments))
        return seen[-1]

    monkeypatch.setattr("isonomy.transport.program.inference.solve", count)
    rng = np.random.default_rng(4)
    group = rng.choice(["a", "b", "c"], 200_000)
    score = rng.normal(size=200_000) + 0.02 * (group == "b")
    frame = pl.DataFrame({"group": group, "s": score, "c": score >= 0}).lazy()
    result = iso.project(frame, groups="group", score="s", threshold=0.0, **PARITY)
    assert result.status is Status.OK
    assert seen[0].rounds <= 4


@pytest.mark.parametrize("seed", [0, 5])
def test_tails_over_many_orders_with_several_moments(seed: int) -> None:
    """Bins, once priced on the scale of the furthest rows, were all alike to the solver, which then stopped."""
    rng = np.random.default_rng(seed)
    g, h = rng.choice(list("abc"), 4_000), rng.choice(list("xy"), 4_000)
    score = rng.normal(size=4_000) + 0.3 * (g == "b") + 0.2 * (h == "x")
    distance = np.abs(score) * np.exp(5 * rng.normal(size=4_000))
    data = {"g": g, "h": h, "y": rng.integers(0, 2, 4_000), "c": (score >= 0).astype(int), "d": distance}
    eager, lazy = both(data, groups=["g", "h"], outcome="y", criterion="equalized_odds", distance="d")
    numbers = ("statistic", "pvalue", "wald_pvalue", "critical_value", "bandwidth", "moved", "plan.distance", "status")
    same(lazy, eager, numbers, abs=0)
    assert listed(lazy).fraction.sum() == pytest.approx(listed(eager).fraction.sum(), rel=1e-9)
    assert listed(lazy).distance @ listed(lazy).fraction == pytest.approx(lazy.statistic, rel=1e-9)


@pytest.mark.parametrize("scale", [1e-310, 1e-200, 1e60, np.inf])
@pytest.mark.parametrize("groups", ["g", iso.where("b", iso.col("g") == "b")], ids=["several", "one"])
def test_distances_of_any_size(scale: float, groups: Any) -> None:
    """Squares that overflow or vanish, and rows that all cannot move."""
    rng = np.random.default_rng(0)
    g = rng.choice(list("abc"), 3_000)
    score = rng.normal(size=3_000) + 0.1 * (g == "b")
    data = {"g": g, "c": (score >= 0).astype(int), "d": np.abs(score) * scale}
    eager, lazy = both(data, groups=groups, distance="d")
    assert lazy.status == eager.status
    assert lazy.pvalue == pytest.approx(eager.pvalue, rel=1e-9)
    assert lazy.moved == pytest.approx(eager.moved, rel=1e-9, nan_ok=True)
    assert (eager.status is Status.INFEASIBLE) == np.isinf(scale)
