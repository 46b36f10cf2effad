"""Counting in grouped passes against sorting in memory, in hard cases: heavy tails, distant rows, ties."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

import isonomy as iso
from isonomy import errors
from isonomy.frames import open_source
from isonomy.numerics.status import Status
from isonomy.projection import Discerning, ProjectionResult, distances, estimators
from isonomy.projection import read as module
from isonomy.projection.program import solve as program
from isonomy.projection.program.solve import BinnedRows, Pool, Segments
from isonomy.projection.project import read
from support.movement import listed, planned
from support.same import same
from support.tables import decided

BY: dict[str, Any] = {"prediction": "c", "criterion": "statistical_parity"}
ROLES: dict[str, Any] = {"outcome": "y", "prediction": "c"}
SCORE: dict[str, Any] = ROLES | {"score": "score", "threshold": 0.2}
PARITY: dict[str, Any] = BY | {"groups": "g"}


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
    """Near rows would only make it worse; ten rows a thousand times as far away must move by half."""
    rng = np.random.default_rng(1)
    group = np.array(["a"] * 2_000 + list(names) * (10 // len(names)))
    decision = np.append(np.arange(2_000) % 2, np.ones(10, dtype=int))
    near = np.where(decision[:2_000] == 1, 0.1, np.inf)
    data = {"group": group, "c": decision, "d": np.append(near, 1_000 + rng.random(10))}
    eager, lazy = both(data, groups="group", distance="d", reference={"group": "a"})
    assert eager.moved == pytest.approx(5.0)
    assert lazy.moved == pytest.approx(5.0)
    assert lazy.test_status == eager.test_status
    assert lazy.statistic == pytest.approx(eager.statistic, rel=1e-9)


def pooled(data: dict[str, Any]) -> Pool:
    source = open_source(pl.DataFrame(data).lazy())
    rows = read(planned(source, groups="group", distance="d", **BY))
    return rows.pool(np.ones((rows.cells.count.size, 2)))


@pytest.mark.parametrize("lines", [0, 50])
def test_splitting_loses_no_row(lines: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments of different cells at different depths, some by value, keep their rows and sums, and do not overlap."""
    monkeypatch.setattr(program, "LINES", lines)
    rng = np.random.default_rng(5)
    group = rng.choice(["a", "b", "c"], 20_000)
    distance = np.round(rng.exponential(size=20_000) ** 3, 5)  # ties, zeros, and rows far beyond the first bins
    decision = rng.integers(0, 2, 20_000)
    pool = pooled({"group": group, "d": distance, "c": decision})
    segments = pool.coarse
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
    """At most a dozen grouped passes for any number of rows: each round splits bins into 256."""
    splits: list[Segments] = []
    split = BinnedRows.split

    def count(rows: BinnedRows, cut: Segments) -> Segments:
        splits.append(cut)
        return split(rows, cut)

    monkeypatch.setattr(BinnedRows, "split", count)
    rng = np.random.default_rng(4)
    group = rng.choice(["a", "b", "c"], 200_000)
    score = rng.normal(size=200_000) + 0.02 * (group == "b")
    frame = pl.DataFrame({"group": group, "s": score, "c": score >= 0}).lazy()
    result = iso.project(frame, groups="group", score="s", threshold=0.0, **BY)
    assert result.test_status is Status.OK
    assert len(splits) < 4  # four rounds


@pytest.mark.parametrize("seed", [0, 5])
def test_tails_over_many_orders_with_several_moments(seed: int) -> None:
    """When bins were priced on the scale of the farthest rows, the solver could not distinguish them and stopped."""
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
    """Squares that overflow or underflow, and tables in which no row can move."""
    rng = np.random.default_rng(0)
    g = rng.choice(list("abc"), 3_000)
    score = rng.normal(size=3_000) + 0.1 * (g == "b")
    data = {"g": g, "c": (score >= 0).astype(int), "d": np.abs(score) * scale}
    eager, lazy = both(data, groups=groups, distance="d")
    assert lazy.test_status == eager.test_status
    assert lazy.pvalue == pytest.approx(eager.pvalue, rel=1e-9)
    assert lazy.moved == pytest.approx(eager.moved, rel=1e-9, nan_ok=True)
    assert (eager.test_status is Status.INFEASIBLE) == np.isinf(scale)


def test_wrong_data() -> None:
    data = decided()
    with pytest.raises(errors.DataError, match="negative"):
        iso.project(data | {"distance": -data["distance"]}, groups="group", distance="distance", **ROLES)
    one_label = data | {"y": np.where(data["group"] == "b", 0, data["y"])}
    with pytest.raises(errors.NotEnoughData, match="'group=b' has no row with outcome 1"):
        iso.project(one_label, groups="group", **SCORE)
    with pytest.raises(errors.OneGroup):
        iso.project(data | {"sex": ["F"] * 2_000}, groups="sex", **SCORE)
    with pytest.raises(errors.NotEnoughData, match="same decision"):
        iso.project(data | {"c": np.ones(2_000, int)}, groups="sex", score="score", **ROLES)
    with pytest.raises(errors.NotBinary, match="prediction"):
        iso.project(data | {"c": 1 + data["c"]}, groups="sex", score="score", **ROLES)
    with pytest.raises(errors.WrongType, match="prediction"):
        iso.project(data | {"c": data["sex"]}, groups="sex", score="score", **ROLES)
    with pytest.raises(errors.DataError, match="no one threshold"):
        iso.project(data | {"c": 1 - data["c"]}, groups="sex", score="score", **ROLES)
    wrong = Discerning(u={"f": iso.col("sex") == "F"}, phi=lambda u, mean: u[:1], names=("x",))
    with pytest.raises(errors.UsageError, match="phi returned"):
        iso.project(data, criterion=wrong, **SCORE)
    empty = Discerning(u={"f": iso.col("sex") == "F"}, phi=lambda u, mean: 0 * u, names=("x",))
    with pytest.raises(errors.UsageError, match="0 for every row"):
        iso.project(data, criterion=empty, **SCORE)


def test_missing_values_of_a_tuple_are_missing_values() -> None:
    data = decided()
    sex = np.array(data["sex"], dtype=object)
    sex[:9] = None
    own = Discerning(
        u={"f": iso.col("sex") == "F", "m": iso.col("sex") == "M"},
        phi=lambda u, mean: u[:, 0] / mean[0] - u[:, 1] / mean[1],
        names=("f against m",),
    )
    gaps = data | {"sex": sex.tolist()}
    with pytest.raises(errors.MissingValues, match=r"criterion 'f': .* 9 rows"):
        iso.project(gaps, criterion=own, **SCORE)
    result = iso.project(gaps, criterion=own, missing="drop", **SCORE)
    assert result.rows == 1_991


def test_count_equals_repeated_rows() -> None:
    data = decided(500, shift=0.3)
    times = np.random.default_rng(3).integers(0, 4, 500)
    counted = iso.project(
        data | {"n": times}, groups="group", criterion="equalized_odds", count="n", method=iso.corrected(0.3), **SCORE
    )
    rows = {name: np.repeat(np.asarray(values), times) for name, values in data.items()}
    repeated = iso.project(rows, groups="group", criterion="equalized_odds", method=iso.corrected(0.3), **SCORE)
    assert counted.rows == repeated.rows
    assert counted.statistic == pytest.approx(repeated.statistic, rel=1e-9)
    assert counted.pvalue == pytest.approx(repeated.pvalue, rel=1e-9)
    assert counted.wald_pvalue == pytest.approx(repeated.wald_pvalue, rel=1e-9)
    assert counted.moved_up == pytest.approx(repeated.moved_up, rel=1e-9)


def few() -> dict[str, list[Any]]:
    """Twelve rows, one of which has a count of 0."""
    return {
        "g": ["a"] * 6 + ["b"] * 6,
        "c": [1, 1, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0],
        "d": [0.1, 0.2, 0.3, 0.4, 0.1, 0.2, 0.5, 0.1, 0.2, 0.3, 0.4, 0.5],
        "w": [1] * 7 + [0] + [1] * 4,
    }


def test_lines_that_stand_for_no_row_keep_their_number() -> None:
    result = listed(iso.project(few(), distance="d", count="w", **PARITY))
    assert result.row.tolist() == [0, 1, 8]
    assert result.distance == pytest.approx(np.array(few()["d"])[result.row])


def test_points_are_those_of_the_rows_named() -> None:
    data = pl.DataFrame(few()).with_columns(s=pl.when(pl.col("c") == 1).then("d").otherwise(-pl.col("d")))
    rows = listed(iso.project(data, distance=distances.Score("s", 0.0), count="w", **PARITY))
    assert rows.start[:, 0] == pytest.approx(data["s"].to_numpy()[rows.row])


@pytest.mark.parametrize("name", ["__row_number", "row number", "row number_"])
def test_a_column_may_be_called_like_ours(name: str) -> None:
    data = {**few(), name: list("abcdefghijkl")}
    assert iso.project(data, distance="d", **PARITY).statistic == iso.project(few(), distance="d", **PARITY).statistic


@pytest.mark.parametrize("lazy", [False, True])
def test_levels_without_a_factor_are_named(lazy: bool) -> None:
    data = pl.DataFrame(few())
    priced = distances.PerGroup(distances.ColumnDistance("d"), "g", {"a": 2.0})
    with pytest.raises(iso.errors.MissingValues, match=r"factors: 6 rows have a level of 'g' without a factor: 'b'"):
        iso.project(data.lazy() if lazy else data, distance=priced, **PARITY)


def equal(eager: ProjectionResult, lazy: ProjectionResult) -> None:
    """Sorting and counting give the same numbers, and list rows at the same distances."""
    numbers = ("statistic", "pvalue", "wald_pvalue", "critical_value", "bandwidth", "moved", "plan.distance")
    same(lazy, eager, (*numbers, "status"), abs=0)
    assert listed(lazy).fraction.sum() == pytest.approx(listed(eager).fraction.sum(), rel=1e-9)


def opened(table: object, groups: str = "g", count: str | None = None) -> Any:
    source = open_source(table, count=count)
    return read(planned(source, groups=groups, distance="d", **BY))


def test_a_long_plan_lists_the_nearest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PLAN_ROWS", 25)
    rng = np.random.default_rng(2)
    group = rng.choice(["a", "b"], 2_000)
    score = rng.normal(size=2_000) + (group == "b")
    eager, lazy = both({"group": group, "s": score, "c": score >= 0}, groups="group", score="s", threshold=0.0)
    assert listed(eager).row.size == listed(lazy).row.size == 25
    assert listed(lazy).distance == pytest.approx(listed(eager).distance, rel=1e-12)
    assert listed(lazy).group == listed(eager).group
    assert listed(lazy).start == pytest.approx(listed(eager).start, rel=1e-12)
    assert (listed(lazy).end == 0.0).all()
    assert not listed(lazy).complete


def test_arrays_only_distances_read_the_columns_of_a_lazy_table() -> None:
    from sklearn.svm import SVC

    rng = np.random.default_rng(3)
    x = rng.normal(size=(400, 2))
    model = SVC().fit(x, (x[:, 0] + x[:, 1] ** 2 > 0.5).astype(int))
    data = {"a": x[:, 0], "b": x[:, 1], "group": rng.choice(["u", "v"], 400), "c": model.predict(x)}
    eager, lazy = both(data, groups="group", distance=estimators.distance(model, ["a", "b"]))
    assert lazy.statistic == pytest.approx(eager.statistic, rel=1e-12)
    assert (listed(lazy).row == -1).all()


@pytest.mark.parametrize("far", [5.0, 0.0])
def test_a_long_plan_of_rows_that_are_not_at_the_boundary(far: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """All rows are at least 5 from the boundary, or one in twenty has a sentinel: the nearest rows are looked up."""
    monkeypatch.setattr(module, "PLAN_ROWS", 200)
    monkeypatch.setattr(module, "FETCH", 800)
    monkeypatch.setattr(program, "LINES", 100)
    fetched: list[int] = []
    list_moves = module.list_moves

    def counting(distance: Any, *args: Any) -> Any:
        fetched.append(len(distance))
        return list_moves(distance, *args)

    monkeypatch.setattr(module, "list_moves", counting)
    rng = np.random.default_rng(0)
    g = rng.choice(["a", "b"], 20_000)
    score = rng.normal(size=20_000) + 1.5 * (g == "b")
    distance = np.abs(score) + far
    if not far:
        distance = np.where(rng.random(20_000) < 0.05, 1e15, distance)
    data = {"g": g, "c": (score >= 0).astype(int), "d": distance, "n": rng.integers(0, 5, 20_000)}
    for count in (None, "n"):
        eager, lazy = both(data, groups="g", distance="d", count=count)
        assert listed(eager).row.size == 200
        fetched.clear()
        assert listed(lazy).row.size == 200
        assert max(fetched) <= 1_000  # of 20,000
        equal(eager, lazy)


@pytest.mark.parametrize("seed", range(12))
def test_rows_on_the_boundary_are_one_tie_on_both_sides_of_it(seed: int) -> None:
    """There are so few zeros that the use of the law depends on how they are counted."""
    rng = np.random.default_rng(seed)
    g = rng.choice(["a", "b"], 4_000)
    score = rng.normal(size=4_000)
    distance = np.where(rng.random(4_000) < rng.uniform(0.01, 0.04), 0.0, np.abs(score))
    data = {"g": g, "c": (score >= 0).astype(int), "d": distance}
    ties = [opened(table).boundary(0.2)[3] for table in (pl.DataFrame(data), pl.DataFrame(data).lazy())]
    assert ties[1] == pytest.approx(ties[0], rel=1e-12)
    equal(*both(data, groups="g", distance="d"))


def test_dropped_rows_are_no_ties() -> None:
    rng = np.random.default_rng(3)
    score = rng.normal(size=2_000)
    g = np.where(rng.random(2_000) < 0.5, rng.choice(["a", "b"], 2_000), "none")
    distance = np.where(g == "none", 0.001, np.abs(score))
    data = {"g": pl.Series(g).replace({"none": None}), "c": (score >= 0).astype(int), "d": distance}
    eager, lazy = both(data, groups="g", distance="d", missing_group="drop")
    assert eager.test_status is Status.OK
    equal(eager, lazy)


@pytest.mark.parametrize("count", [None, "n"])
def test_the_spread_is_robust_and_the_same(count: str | None) -> None:
    """Distant rows do not change it, and quartiles from sorting and from bins are the same."""
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
        tables = pl.DataFrame(data), pl.DataFrame(data).lazy()
        spreads = [opened(table, "group", count).spread for table in tables]
        signed = np.repeat(np.where(decision == 1, distance, -distance), weight.astype(int))
        signed = np.sort(signed[np.isfinite(signed)])
        low, high = (signed[int(np.ceil(q * signed.size)) - 1] for q in (0.25, 0.75))
        expected = min(signed.std(), (high - low) / 1.3489795003921634)
        assert spreads == pytest.approx([expected] * 2, rel=1e-12), name
        if name == "normal":
            assert expected == pytest.approx(signed.std(), rel=0.03)  # 4 standard errors of a quartile's width
        if name == "far":
            assert expected < 1.2


def test_more_rows_than_can_be_counted_are_refused() -> None:
    data = pl.DataFrame(
        {"g": ["a", "b"] * 50, "s": np.linspace(-1, 1, 100), "c": [0] * 50 + [1] * 50, "n": [8 * 10**15] * 100}
    )
    for table in (data, data.lazy()):
        with pytest.raises(errors.BadCount, match=r"count: column 'n' adds up to 8e\+17 rows; .* not counts"):
            iso.project(
                table, prediction="c", groups="g", score="s", threshold=0.0, criterion="statistical_parity", count="n"
            )
