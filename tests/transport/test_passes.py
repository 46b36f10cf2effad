"""Lazy passes against arrays in memory, where binning is hardest: heavy tails, far rows, long plans."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

import isonomy as iso
from isonomy.frames import open_source
from isonomy.numerics.status import Status
from isonomy.transport import distances, memory, passes
from isonomy.transport.program import Solution, solve
from isonomy.transport.table import Options

ROLES: dict[str, Any] = {"prediction": "c", "criterion": "statistical_parity"}


def both(data: dict[str, Any], **options: Any) -> tuple[Any, Any]:
    frame = pl.DataFrame(data)
    return tuple(iso.project(table, **(ROLES | options)) for table in (frame, frame.lazy()))  # type: ignore[return-value]


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


def test_splitting_loses_no_row() -> None:
    """Segments of different cells, nested three deep and sharing their lower end, keep their rows and sums."""
    rng = np.random.default_rng(5)
    group = rng.choice(["a", "b", "c"], 20_000)
    data = {"group": group, "d": rng.exponential(size=20_000) ** 3, "c": rng.integers(0, 2, 20_000)}
    source = open_source(pl.DataFrame(data).lazy())
    options = Options(source.grouping("group"), None, "c", distances.Column("d"), {})
    pool = passes.Passes(source, options)
    segments = pool.coarse()
    assert segments.count.sum() == 20_000
    for depth in range(3):  # cell k is cut k + 1 times less often than cell 0
        first = np.zeros(segments.group.size, dtype=bool)
        for k in range(6):
            mine = np.flatnonzero(segments.group == k)
            if k <= 5 - depth:
                first[mine[np.argmin(segments.low[mine])]] = True
        first |= np.isinf(segments.high)
        cut = segments.where(first)
        finer = pool.split(cut)
        assert finer.count.sum() == cut.count.sum()
        assert finer.count @ finer.cost == pytest.approx(cut.count @ cut.cost, rel=1e-12)
        segments = segments.where(~first) + finer
    lowest = [segments.high[segments.group == k].min() for k in range(6)]
    assert len(set(np.round(lowest, 12))) > 1  # the cells really were at different depths


def test_a_long_plan_lists_the_nearest(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (memory, passes):
        monkeypatch.setattr(module, "PLAN_ROWS", 25)
    rng = np.random.default_rng(2)
    group = rng.choice(["a", "b"], 2_000)
    score = rng.normal(size=2_000) + (group == "b")
    eager, lazy = both({"group": group, "s": score, "c": score >= 0}, groups="group", score="s", threshold=0.0)
    assert eager.plan.row.size == lazy.plan.row.size == 25
    assert lazy.plan.distance == pytest.approx(eager.plan.distance, rel=1e-12)
    assert lazy.plan.group == eager.plan.group
    assert lazy.plan.start == pytest.approx(eager.plan.start, rel=1e-12)
    assert (lazy.plan.end == 0.0).all()
    assert any("lists the 25 nearest" in w for w in lazy.warnings)


def test_arrays_only_distances_read_the_columns_of_a_lazy_table() -> None:
    from sklearn.svm import SVC

    rng = np.random.default_rng(3)
    x = rng.normal(size=(400, 2))
    model = SVC().fit(x, (x[:, 0] + x[:, 1] ** 2 > 0.5).astype(int))
    data = {"a": x[:, 0], "b": x[:, 1], "group": rng.choice(["u", "v"], 400), "c": model.predict(x)}
    from isonomy.transport import estimators

    eager, lazy = both(data, groups="group", distance=estimators.of(model, ["a", "b"]))
    assert lazy.statistic == pytest.approx(eager.statistic, rel=1e-12)
    assert (lazy.plan.row == -1).all()


def test_passes_stay_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dozen grouped passes at most, whatever the number of rows: each round splits bins 256 ways."""
    seen: list[Solution] = []

    def count(*arguments: Any) -> Solution:
        seen.append(solve(*arguments))
        return seen[-1]

    monkeypatch.setattr("isonomy.transport.evidence.solve", count)
    rng = np.random.default_rng(4)
    group = rng.choice(["a", "b", "c"], 200_000)
    score = rng.normal(size=200_000) + 0.02 * (group == "b")
    frame = pl.DataFrame({"group": group, "s": score, "c": score >= 0}).lazy()
    found = iso.project(frame, groups="group", score="s", threshold=0.0, **ROLES)
    assert found.status is Status.OK
    assert seen[0].rounds <= 8
