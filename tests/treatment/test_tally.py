"""Rows to cells: equal to plain numpy, whatever the split."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest

import isonomy as iso
from isonomy.errors import UsageError
from isonomy.frames import Source, open_source, where
from isonomy.results.call import QUESTIONS
from isonomy.treatment.effects.moments import COLUMNS
from isonomy.treatment.plan import CorrectionsPlan, plan
from isonomy.treatment.tally import Tally, tally, tally_corrections, tally_experiment, tally_rows


def trial_rows(n: int = 5_000) -> dict[str, Any]:
    rng = np.random.default_rng(8)
    y = np.where(rng.random(n) < 0.5, 0.0, rng.choice([1.0, 2.5, -1.0], n))
    return {
        "g": rng.choice(["a", "b", "c"], n),
        "t": rng.integers(0, 2, n),
        "y": y,
        "f": rng.normal(1.2, 0.3, n),
        "h": rng.random(n),
    }


ROLES: dict[str, Any] = {"effect": "f", "groups": "g", "treatment": "t", "outcome": "y"}


def sums_of(source: Source, **options: Any) -> Tally:
    return tally(source, plan(source, **{**ROLES, **options}), np.random.default_rng(0))


def corrections(source: Source, **options: Any) -> CorrectionsPlan:
    asked = QUESTIONS["evaluate_corrections"].planned(source, ROLES | options)
    assert isinstance(asked, CorrectionsPlan)
    return asked


def buckets_of(source: Source, buckets: int, seed: int) -> Tally:
    asked = replace(corrections(source), buckets=buckets)
    return tally_corrections(source, asked, np.random.default_rng(seed))


@pytest.mark.parametrize("collapse", ["control_outcome", "weighted", "positives_inverse"])
def test_moments_equal_numpy(collapse: str) -> None:
    made = trial_rows()
    baseline = "h" if collapse == "weighted" else None
    moments = sums_of(open_source(made), collapse=collapse, baseline=baseline).sums[0].moments()
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


def test_buckets_are_equal_random_parts() -> None:
    n = 60_000
    made = {**trial_rows(n)}
    cells = buckets_of(open_source(made), 20, 3).sums[0]
    sizes = cells.n.sum((0, 2, 3))
    assert sizes.sum() == n
    chi_square = ((sizes - n / 20) ** 2 / (n / 20)).sum()
    assert chi_square < 43.8  # 0.999 quantile at 19 degrees of freedom
    np.testing.assert_allclose(cells.moments().mean, sums_of(open_source(made)).sums[0].moments().mean)


def test_buckets_do_not_follow_the_order_of_rows() -> None:
    """A table sorted by group, or alternating, must not have its structure copied into the buckets."""
    n = 40_000
    for pattern in (np.arange(n) % 2, np.arange(n) % 20, (np.arange(n) >= n // 2).astype(int)):
        made = {**trial_rows(n), "g": pattern}
        cells = buckets_of(open_source(made), 10, 11).sums[0]
        counts = cells.n.sum((2, 3))
        expected = counts.sum(1, keepdims=True) / 10
        df = counts.size - len(counts)
        assert ((counts - expected) ** 2 / expected).sum() < df + 4.5 * np.sqrt(2 * df)


def test_neighbouring_rows_are_split_independently() -> None:
    n = 40_000
    made = {**trial_rows(n), "g": np.repeat(np.arange(n // 2), 2)}
    counts = buckets_of(open_source(made), 2, 2).sums[0].n.sum((2, 3))
    together = (counts.max(1) == 2).mean()
    assert abs(together - 0.5) < 4 * np.sqrt(0.25 / (n // 2))


def test_seeds_decide_buckets() -> None:
    source = open_source(trial_rows())
    one, two, other = (buckets_of(source, 4, s).sums[0].sums for s in (1, 1, 2))
    np.testing.assert_allclose(one, two, rtol=1e-9)
    assert not np.allclose(one, other)


def test_rows_outside_a_condition_are_the_last_group() -> None:
    made = trial_rows()
    counted = sums_of(open_source(made), groups=where("low", iso.col("h") < 0.5))
    assert [len(groups) for groups in counted.groups] == [1]
    cells = counted.sums[0]
    assert cells.n.shape[0] == 2
    assert cells.n[0].sum() == (made["h"] < 0.5).sum()
    assert cells.n.sum() == len(made["h"])


def test_a_line_of_several_rows_is_spread_over_buckets() -> None:
    made = {**trial_rows(300), "k": np.full(300, 50)}
    sample = buckets_of(open_source(made, count="k"), 5, 1)
    cells = sample.sums[0]
    assert sample.rows == 15_000
    sizes = cells.n.sum((0, 2, 3))
    assert ((sizes - 3_000) ** 2 / 3_000).sum() < 18.5  # 0.999 quantile at 4 degrees of freedom
    whole = sums_of(open_source(made, count="k")).sums[0]
    np.testing.assert_allclose(cells.products.sum(1), whole.products.sum(1))


def test_a_feature_may_be_called_like_a_column_of_ours() -> None:
    made = {**trial_rows(), "y2": trial_rows()["y"]}
    named = {"outcome": "y2", "estimator": "regression"}
    one = sums_of(open_source(made), **named, features=["h"]).sums[0].moments()
    clash = {**{k: v for k, v in made.items() if k not in ("y", "h")}, "y": made["h"]}
    two = sums_of(open_source(clash), **named, features=["y"]).sums[0].moments()
    assert set(one.columns) & set(COLUMNS) == {"y", "yf"}
    np.testing.assert_allclose(one.mean, two.mean)


def test_engines_without_row_numbers_say_so() -> None:
    source = open_source(pl.DataFrame(trial_rows()))

    class Kind:
        def __getattr__(self, name: str) -> Any:
            return lambda: False

    class Frame:
        implementation = Kind()

        def to_native(self) -> None:
            return None

    asked = corrections(source)
    source.frame = Frame()  # type: ignore[assignment]
    source.backend = "ibis"
    with pytest.raises(UsageError, match="split column"):
        tally_corrections(source, asked, np.random.default_rng(0))


def test_columns_may_be_called_like_names_of_ours() -> None:
    """Random splits number the rows and AIPW predicts outcomes: not under a name the table has."""
    names = ("row", "bucket", "kind", "p0", "p1", "__row", "__bucket")
    made = trial_rows(600)
    clash = {**made, **{name: np.arange(600) % 7 for name in names}}
    for options in ({"split": "independent"}, {"estimator": "aipw", "features": ["h"]}):
        one, two = (sums_of(open_source(columns), **options).sums[0] for columns in (made, clash))
        np.testing.assert_allclose(one.products, two.products, rtol=1e-12)
    grouped = sums_of(open_source(clash), groups=list(names), split="independent")
    assert [len(groups) for groups in grouped.groups] == [7] * len(names)


def test_rows_in_memory_add_up_to_the_cells() -> None:
    made = {**trial_rows(900), "half": np.arange(900) % 2}
    cells = sums_of(open_source(made), split="half").sums[0]
    rows = sums_of(open_source(made), split="half", estimator="aipw", features=["h"]).sums[0]
    np.testing.assert_array_equal(rows.n, cells.n)
    np.testing.assert_allclose(rows.sums[..., :2], cells.sums, rtol=1e-12)


def test_a_group_column_of_a_corrector_may_be_called_like_a_role() -> None:
    made = trial_rows(50)
    X = {"outcome": made["g"], "effect": made["f"], "treatment": made["t"]}
    source, names = tally_experiment(
        pl.DataFrame(X), made["y"], None, ["outcome"], {"effect": "effect", "treatment": "treatment"}
    )
    assert names["outcome"] != "outcome"
    assert set(source.schema) == {"outcome", *names.values()}


def test_rows_to_correct_keep_their_order_and_their_missing_groups() -> None:
    X = pl.DataFrame({"g": ["b", None, "a", "b"], "f": [1.0, 2.0, 3.0, 4.0]})
    effects, groups, codes = tally_rows(X, "f", {"g": "g"})
    assert effects.tolist() == [1.0, 2.0, 3.0, 4.0]
    assert [groups[code].label for code in codes] == ["g=b", "g=(missing)", "g=a", "g=b"]
