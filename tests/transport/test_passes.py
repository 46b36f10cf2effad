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


def opened(data: dict[str, Any]) -> passes.Passes:
    source = open_source(pl.DataFrame(data).lazy())
    return passes.Passes(source, Options(source.grouping("group"), None, "c", distances.Column("d"), {}))


@pytest.mark.parametrize("lines", [0, 50])
def test_splitting_loses_no_row(lines: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments of different cells at different depths, some by value, keep their rows and sums, and do not overlap."""
    monkeypatch.setattr(passes, "LINES", lines)
    rng = np.random.default_rng(5)
    group = rng.choice(["a", "b", "c"], 20_000)
    distance = np.round(rng.exponential(size=20_000) ** 3, 5)  # ties, zeros, and rows far beyond the first bins
    decision = rng.integers(0, 2, 20_000)
    pool = opened({"group": group, "d": distance, "c": decision})
    segments = pool.coarse()
    depths = set()
    for _ in range(12):
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
    assert seen[0].rounds <= 4


def same(eager: Any, lazy: Any, rel: float = 1e-9) -> None:
    assert lazy.status == eager.status
    for field in ("statistic", "pvalue", "wald_pvalue", "critical_value", "bandwidth", "moved"):
        assert getattr(lazy, field) == pytest.approx(getattr(eager, field), rel=rel, nan_ok=True), field
    assert lazy.plan.distance == pytest.approx(eager.plan.distance, rel=rel)
    assert lazy.plan.fraction.sum() == pytest.approx(eager.plan.fraction.sum(), rel=rel)


@pytest.mark.parametrize("seed", [0, 5])
def test_tails_over_many_orders_with_several_moments(seed: int) -> None:
    """Bins, once priced on the scale of the furthest rows, were all alike to the solver, which then stopped."""
    rng = np.random.default_rng(seed)
    g, h = rng.choice(list("abc"), 4_000), rng.choice(list("xy"), 4_000)
    score = rng.normal(size=4_000) + 0.3 * (g == "b") + 0.2 * (h == "x")
    distance = np.abs(score) * np.exp(5 * rng.normal(size=4_000))
    data = {"g": g, "h": h, "y": rng.integers(0, 2, 4_000), "c": (score >= 0).astype(int), "d": distance}
    eager, lazy = both(data, groups=["g", "h"], outcome="y", criterion="equalized_odds", distance="d")
    same(eager, lazy)
    assert lazy.plan.distance @ lazy.plan.fraction == pytest.approx(lazy.statistic, rel=1e-9)


@pytest.mark.parametrize("far", [5.0, 0.0])
def test_a_long_plan_of_rows_that_are_not_at_the_boundary(far: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Away from the boundary by 5, or with one row in twenty at a sentinel: where the nearest are is looked up."""
    for module in (memory, passes):
        monkeypatch.setattr(module, "PLAN_ROWS", 200)
    monkeypatch.setattr(passes, "FETCH", 800)
    monkeypatch.setattr(passes, "LINES", 100)
    rng = np.random.default_rng(0)
    g = rng.choice(["a", "b"], 20_000)
    score = rng.normal(size=20_000) + 1.5 * (g == "b")
    distance = np.abs(score) + far
    if not far:
        distance = np.where(rng.random(20_000) < 0.05, 1e15, distance)
    data = {"g": g, "c": (score >= 0).astype(int), "d": distance, "n": rng.integers(0, 5, 20_000)}
    for count in (None, "n"):
        eager, lazy = both(data, groups="g", distance="d", count=count)
        same(eager, lazy)
        assert lazy.plan.row.size == 200


@pytest.mark.parametrize("seed", range(12))
def test_rows_on_the_boundary_are_one_tie_on_both_sides_of_it(seed: int) -> None:
    """Few enough zeros that it depends on how they are counted whether the law is used."""
    rng = np.random.default_rng(seed)
    g = rng.choice(["a", "b"], 4_000)
    score = rng.normal(size=4_000)
    distance = np.where(rng.random(4_000) < rng.uniform(0.01, 0.04), 0.0, np.abs(score))
    data = {"g": g, "c": (score >= 0).astype(int), "d": distance}
    tables = pl.DataFrame(data), pl.DataFrame(data).lazy()
    ties = []
    for table in tables:
        source = open_source(table)
        options = Options(source.grouping("g"), None, "c", distances.Column("d"), {})
        ties.append((passes.Passes if source.lazy else memory.InMemory)(source, options).boundary(0.2).tie)
    assert ties[1] == pytest.approx(ties[0], rel=1e-12)
    same(*both(data, groups="g", distance="d"))


def test_dropped_rows_are_no_ties() -> None:
    rng = np.random.default_rng(3)
    score = rng.normal(size=2_000)
    g = np.where(rng.random(2_000) < 0.5, rng.choice(["a", "b"], 2_000), "none")
    distance = np.where(g == "none", 0.001, np.abs(score))
    data = {"g": pl.Series(g).replace({"none": None}), "c": (score >= 0).astype(int), "d": distance}
    eager, lazy = both(data, groups="g", distance="d", missing_group="drop")
    assert eager.status is Status.OK
    same(eager, lazy)


@pytest.mark.parametrize("count", [None, "n"])
def test_the_spread_is_robust_and_the_same(count: str | None) -> None:
    """Far rows leave it where it is: quartiles by sorting, and by bins, are the same numbers."""
    rng = np.random.default_rng(11)
    near = np.abs(rng.normal(size=30_000))
    decision, number = rng.integers(0, 2, 30_000), rng.integers(0, 4, 30_000)
    group = rng.choice(["a", "b"], 30_000)
    weight = np.ones(30_000) if count is None else number
    kinds = {
        "normal": near,
        "far": np.where(rng.random(30_000) < 0.05, 1e15, near),
        "stuck": np.where(rng.random(30_000) < 0.3, np.inf, near),
        "lattice": np.round(near, 1),
        "tails": near * np.exp(5 * rng.normal(size=30_000)),
    }
    for name, distance in kinds.items():
        data = {"group": group, "d": distance, "c": decision, "n": number}
        found = []
        for table in (pl.DataFrame(data), pl.DataFrame(data).lazy()):
            source = open_source(table, count=count)
            options = Options(source.grouping("group"), None, "c", distances.Column("d"), {})
            found.append((passes.Passes if source.lazy else memory.InMemory)(source, options).spread)
        signed = np.repeat(np.where(decision == 1, distance, -distance), weight.astype(int))
        signed = np.sort(signed[np.isfinite(signed)])
        low, high = (signed[int(np.ceil(q * signed.size)) - 1] for q in (0.25, 0.75))
        expected = min(signed.std(), (high - low) / 1.3489795003921634)
        assert found == pytest.approx([expected] * 2, rel=1e-12), name
        if name == "normal":
            assert expected == pytest.approx(signed.std(), rel=0.03)  # 4 standard errors of a quartile's width
        if name == "far":
            assert expected < 1.2


@pytest.mark.parametrize("scale", [1e-310, 1e-200, 1e200, np.inf])
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
