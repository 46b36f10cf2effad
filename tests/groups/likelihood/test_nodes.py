"""Bins with matched moments against the rows they stand for, where that is hardest: heavy tails, atoms, far groups."""

from __future__ import annotations

from typing import Any

import narwhals as nw
import numpy as np
import polars as pl
import pytest

import isonomy as iso
from isonomy.groups.likelihood import lines
from isonomy.groups.likelihood.lines import FINE, LogBins, choose_bins, quadrature
from isonomy.numerics.arrays import FloatArray
from support.same import same

RNG = np.random.default_rng(0)
SHAPES: dict[str, FloatArray] = {
    "lognormal": np.exp(1.5 * RNG.normal(size=100_000)),
    "cauchy": RNG.standard_cauchy(100_000),
    "pareto": RNG.pareto(1.1, 100_000),
    "left tail": -RNG.pareto(1.5, 100_000),
    "uniform": RNG.random(100_000),
    "atoms": np.where(RNG.random(100_000) < 0.5, 0.0, RNG.gamma(0.3, size=100_000)),
    "counts": RNG.poisson(3, 100_000).astype(float),
}


def sorted_into(values: FloatArray, sorting: LogBins) -> tuple[FloatArray, FloatArray]:
    """The values and weights that stand for all rows, by one grouped pass."""
    column = nw.col("x")
    rows = nw.from_native(pl.DataFrame({"x": values}))
    placed = rows.select(**sorting.keys(column), **sorting.sums(column)).to_native()
    counted = placed.group_by("bin").agg(pl.len(), pl.col("first", "second", "third").sum())
    sums = {power: counted[power].to_numpy() for power in ("first", "second", "third")}
    return sorting.nodes(counted["bin"].to_numpy(), counted["len"].to_numpy().astype(float), sums)[1:]


def chosen(values: FloatArray) -> LogBins:
    count, first, second = (np.array([np.sum(values**k)]) for k in range(3))
    sorting = choose_bins(count, first, second, values.min(), values.max())
    assert sorting is not None
    return sorting


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("reach", [-0.5, -0.01, 0.01, 0.5])
def test_sums_keep_the_bound_of_the_first_lines(name: str, reach: float) -> None:
    """T along the curve, at the furthest multiplier that the bound is stated for and close to its middle."""
    x = SHAPES[name]
    value, weight = sorted_into(x, chosen(x))
    assert weight.sum() == x.size
    w = reach / np.abs(x - x.mean()).max()

    def statistic(rows: FloatArray, mass: FloatArray | float) -> float:
        y = rows - x.mean()
        total = np.sum(mass * np.ones(rows.size))
        q = np.sum(mass * y / (1 + w * y)) / total
        return float(2 * total * (np.sum(mass * np.log1p(w * y)) / total + np.log1p(-w * q)))

    exact = statistic(x, 1.0)
    # T is what is left of two sums that nearly cancel: their rounding is not the bins'.
    rounding = 1e-15 * x.size * abs(w) * np.abs(x - x.mean()).mean() / abs(exact)
    assert statistic(value, weight) == pytest.approx(exact, rel=1 / (8 * FINE**4) + 10 * rounding)


@pytest.mark.parametrize("name", SHAPES)
def test_moments_are_those_of_the_rows(name: str) -> None:
    x = SHAPES[name]
    value, weight = sorted_into(x, chosen(x))
    assert value.size < 20_000
    assert value.min() >= x.min()
    assert value.max() <= x.max()
    for power in (1, 2, 3):
        size = np.sum(np.abs(x) ** power)
        assert weight @ value**power == pytest.approx(np.sum(x**power), abs=1e-12 * size)


def test_two_rows_come_back_as_they_were() -> None:
    place = np.array([[0.1, 0.9], [0.3, 0.3], [0.25, 0.26]])
    line, value, weight = quadrature(np.full(3, 2.0), *((place**k).mean(axis=1) for k in (1, 2, 3)))
    for i, pair in enumerate(place):
        mine = line == i
        assert np.sort(np.repeat(value[mine], weight[mine].astype(int))) == pytest.approx(pair, abs=1e-8)


def test_a_narrow_group_far_away_has_finer_bins() -> None:
    count, mean, deviation = np.full(3, 1e6), np.array([0.0, 1.0, 1e4]), np.ones(3)
    sorting = choose_bins(count, count * mean, count * (mean**2 + deviation**2), -5.0, 1e4 + 5)
    assert sorting is not None
    assert (np.abs(mean - sorting.center) + sorting.scale).max() / sorting.fine <= 1 / FINE


def test_no_bins_where_they_would_be_as_many_as_rows() -> None:
    one = np.ones(1_000)
    assert choose_bins(10 * one, one, 10 * one, -1.0, 1.0) is None  # a thousand groups of ten rows


def test_rows_that_are_all_alike_have_one_bin() -> None:
    value, weight = sorted_into(np.full(1_000, 0.1), chosen(np.full(1_000, 0.1)))
    assert (value.tolist(), weight.tolist()) == ([0.1], [1_000.0])


@pytest.mark.parametrize("rows", [5, 30, 900])
def test_a_small_group_far_from_all_others_is_as_exact_as_they_are(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    far = [1_000.0 + add + RNG.exponential(size=rows) for add in (0.0, 0.3)]
    frame = pl.DataFrame({"x": np.concatenate([RNG.exponential(size=100_000), *far])})
    frame = frame.with_columns(group=pl.Series(["near"] * 100_000 + ["far"] * rows + ["farther"] * rows))
    asked: dict[str, Any] = {
        "metric": iso.Metric("x", value=iso.col("x")),
        "groups": "group",
        "reference": {"group": "far"},
    }
    expected = iso.flag(frame, min_size=5, **asked)
    monkeypatch.setattr(lines, "READ", 0)
    binned = iso.flag(frame.lazy(), min_size=5, **asked)
    for name in ("statistic", "pvalue", "ci_low", "ci_high"):
        np.testing.assert_allclose(getattr(binned, name), getattr(expected, name), rtol=1e-9)


def test_workers_send_bins_of_large_groups_and_counted_values_of_small_ones_up_to_a_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    frame = pl.LazyFrame({"x": np.tile(SHAPES["counts"][:1_000], 20), "few": [0, 1] * 10_000, "many": range(20_000)})
    frame = frame.with_columns(pl.col("many") // 2)
    metric = iso.Metric("x", value=iso.col("x"))
    expected = {groups: iso.flag(frame, metric=metric, groups=groups) for groups in ("few", "many")}
    monkeypatch.setattr(lines, "has_workers", lambda _: True)
    monkeypatch.setattr("isonomy.frames.Source.rows", lambda *_: pytest.fail("rows were read"))
    for groups, answer in expected.items():
        same(iso.flag(frame, metric=metric, groups=groups), answer, ("estimate", "pvalue", "ci_low", "ci_high"))
    monkeypatch.setattr(lines, "SENT", 10_000)
    same(iso.flag(frame, metric=metric, groups="few"), expected["few"], ("estimate", "pvalue", "ci_low", "ci_high"))
    with pytest.raises(iso.errors.UsageError, match="10,000 groups need the value of each of 20,000 rows"):
        iso.flag(frame, metric=metric, groups="many")
