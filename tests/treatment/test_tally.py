"""Rows to cells: equal to plain numpy, whatever the split."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from isonomy.errors import UsageError
from isonomy.frames import open_source, where
from isonomy.treatment.moments import COLUMNS
from isonomy.treatment.plan import Plan, make_plan
from isonomy.treatment.tally import requests, tally, tally_buckets


def table(n: int = 5_000) -> dict[str, Any]:
    rng = np.random.default_rng(8)
    y = np.where(rng.random(n) < 0.5, 0.0, rng.choice([1.0, 2.5, -1.0], n))
    return {
        "g": rng.choice(["a", "b", "c"], n),
        "t": rng.integers(0, 2, n),
        "y": y,
        "f": rng.normal(1.2, 0.3, n),
        "h": rng.random(n),
    }


def plan(**options: Any) -> Plan:
    return make_plan(**{"effect": "f", "groups": "g", "treatment": "t", "outcome": "y", **options})


@pytest.mark.parametrize("collapse", ["control_outcome", "weighted", "positives_inverse"])
def test_moments_equal_numpy(collapse: str) -> None:
    made = table()
    cells = tally(
        open_source(made), plan(collapse=collapse, baseline="h" if collapse == "weighted" else None)
    ).partitions[0]
    moments = cells.moments()
    formulas = {
        "y": made["y"], "yf": made["y"] * made["f"], "y/f": made["y"] / made["f"], "h": made["h"],
        "hf": made["h"] * made["f"], "f": made["f"],
    }  # fmt: skip
    for g, name in enumerate("abc"):
        for t in (0, 1):
            here = (made["g"] == name) & (made["t"] == t)
            rows = np.stack([formulas[c][here] for c in moments.columns])
            assert moments.n[g, t] == here.sum()
            np.testing.assert_allclose(moments.mean[g, t], rows.mean(1), rtol=1e-11)
            assert moments.cov is not None
            np.testing.assert_allclose(moments.cov[g, t], np.cov(rows), rtol=1e-8, atol=1e-12)


def test_one_pass_is_asked_for() -> None:
    source = open_source(table())
    asked = requests(source, plan())
    assert len(asked) == 1
    assert len(asked[0].values) == 5  # y, yf, and the three products of the two


def test_buckets_are_equal_random_parts() -> None:
    n = 60_000
    made = {**table(n)}
    cells = tally_buckets(open_source(made), plan(), 20, np.random.default_rng(3)).partitions[0]
    sizes = cells.n.sum((0, 2, 3))
    assert sizes.sum() == n
    chi_square = ((sizes - n / 20) ** 2 / (n / 20)).sum()
    assert chi_square < 43.8  # 0.999 quantile at 19 degrees of freedom
    np.testing.assert_allclose(cells.moments().mean, tally(open_source(made), plan()).partitions[0].moments().mean)


def test_buckets_do_not_follow_the_order_of_rows() -> None:
    """A table sorted by group, or alternating, must not have its structure copied into the buckets."""
    n = 40_000
    for pattern in (np.arange(n) % 2, np.arange(n) % 20, (np.arange(n) >= n // 2).astype(int)):
        made = {**table(n), "g": pattern}
        cells = tally_buckets(open_source(made), plan(), 10, np.random.default_rng(11)).partitions[0]
        counts = cells.n.sum((2, 3))
        expected = counts.sum(1, keepdims=True) / 10
        df = counts.size - len(counts)
        assert ((counts - expected) ** 2 / expected).sum() < df + 4.5 * np.sqrt(2 * df)


def test_neighbouring_rows_are_split_independently() -> None:
    n = 40_000
    made = {**table(n), "g": np.repeat(np.arange(n // 2), 2)}
    counts = tally_buckets(open_source(made), plan(), 2, np.random.default_rng(2)).partitions[0].n.sum((2, 3))
    together = (counts.max(1) == 2).mean()
    assert abs(together - 0.5) < 4 * np.sqrt(0.25 / (n // 2))


def test_seeds_decide_buckets() -> None:
    source = open_source(table())
    one, two, other = (tally_buckets(source, plan(), 4, np.random.default_rng(s)).partitions[0].sums for s in (1, 1, 2))
    np.testing.assert_allclose(one, two, rtol=1e-9)
    assert not np.allclose(one, other)


def test_rows_outside_a_condition_are_the_last_group() -> None:
    made = table()
    cells = tally(open_source(made), plan(groups=where("low", pl_free(0.5)))).partitions[0]
    assert len(cells.groups) == 1
    assert cells.n.shape[0] == 2
    assert cells.n[0].sum() == (made["h"] < 0.5).sum()
    assert cells.n.sum() == len(made["h"])


def pl_free(edge: float) -> Any:
    import narwhals as nw

    return nw.col("h") < edge


def test_a_line_of_several_rows_is_spread_over_buckets() -> None:
    made = {**table(300), "k": np.full(300, 50)}
    sample = tally_buckets(open_source(made, count="k"), plan(), 5, np.random.default_rng(1))
    cells = sample.partitions[0]
    assert sample.rows == 15_000
    sizes = cells.n.sum((0, 2, 3))
    assert ((sizes - 3_000) ** 2 / 3_000).sum() < 18.5  # 0.999 quantile at 4 degrees of freedom
    whole = tally(open_source(made, count="k"), plan()).partitions[0]
    np.testing.assert_allclose(cells.products.sum(1), whole.products.sum(1))


def test_a_feature_may_be_called_like_a_column_of_ours() -> None:
    made = {**table(), "y2": table()["y"]}
    named = {
        "effect": "f",
        "groups": "g",
        "treatment": "t",
        "outcome": "y2",
        "estimator": "regression",
        "features": ["h"],
    }
    one = tally(open_source(made), make_plan(**named)).partitions[0].moments()
    clash = {**{k: v for k, v in made.items() if k not in ("y", "h")}, "y": made["h"]}
    two = tally(open_source(clash), make_plan(**{**named, "features": ["y"]})).partitions[0].moments()
    assert set(one.columns) & set(COLUMNS) == {"y", "yf"}
    np.testing.assert_allclose(one.mean, two.mean)


def test_engines_without_row_numbers_say_so() -> None:
    source = open_source(pl.DataFrame(table()))

    class Kind:
        def __getattr__(self, name: str) -> Any:
            return lambda: False

    class Frame:
        implementation = Kind()

        def to_native(self) -> None:
            return None

    source.frame = Frame()
    source.backend = "ibis"
    with pytest.raises(UsageError, match="split column"):
        tally_buckets(source, plan(), 2, np.random.default_rng(0))
