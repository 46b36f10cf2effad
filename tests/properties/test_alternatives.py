"""Invariance to the order of rows, the names of groups, and rows given once with a count."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import isonomy as iso
from isonomy.alternatives.rules.comparison import combined, exceedance
from isonomy.errors import NotEnoughData, UsageError
from support.same import same
from support.trials import accuracy, gains, unfairness

SEEDS = st.integers(0, 10_000)
NUMBERS = ("estimate", "reference", "pvalues", "selected", "cutoffs")
ASK: dict[str, Any] = {
    "outcome": "y",
    "groups": "g",
    "status_quo": "s0",
    "candidate": "s1",
    "capacity": 0.3,
    "method": iso.splits(3, resamples=60),
    "min_size": 2,
    "rng": 5,
}


def people(seed: int, n: int = 240) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    g, y = rng.integers(0, 2, n), rng.poisson(2, n)
    s0, s1 = np.round(y + g + rng.normal(0, 2, n), 1), np.round(y + rng.normal(0, 1, n), 1)
    return {"g": g, "y": y, "s0": s0, "s1": s1, "x": np.round(rng.normal(size=n) + y, 1)}


@settings(max_examples=4)
@given(SEEDS)
def test_row_order_does_not_matter(seed: int) -> None:
    data = people(seed)
    order = np.random.default_rng(seed).permutation(len(data["g"]))
    shuffled = {name: column[order] for name, column in data.items()}
    same(iso.improvability(data, **ASK), iso.improvability(shuffled, **ASK), NUMBERS, abs=0)
    fit = ASK | {"candidate": None, "rule": "linear", "features": ["x"]}
    same(iso.improvability(data, **fit), iso.improvability(shuffled, **fit), NUMBERS, abs=0)


@settings(max_examples=4)
@given(SEEDS)
def test_a_count_equals_repeated_rows(seed: int) -> None:
    data = people(seed)
    times = np.random.default_rng(seed).integers(1, 4, len(data["g"]))
    counted = data | {"times": times}
    repeated = {name: np.repeat(column, times) for name, column in data.items()}
    same(iso.improvability(counted, **ASK, count="times"), iso.improvability(repeated, **ASK), NUMBERS, abs=0)
    fit = ASK | {"candidate": None, "rule": "linear", "features": ["x"]}
    same(iso.improvability(counted, **fit, count="times"), iso.improvability(repeated, **fit), NUMBERS, abs=0)


@settings(max_examples=4)
@given(SEEDS)
def test_swapping_the_group_names_swaps_the_columns(seed: int) -> None:
    """The distribution does not depend on labels: with decisions on all rows, the estimates are the same."""
    data = people(seed)
    ask = ASK | {"capacity": iso.above(2.5), "method": iso.splits(1, resamples=60)}
    one, other = iso.improvability(data, **ask), iso.improvability(data | {"g": 1 - data["g"]}, **ask)
    np.testing.assert_allclose(accuracy(one)[:, :, :2], accuracy(other)[:, ::-1, :2])
    np.testing.assert_allclose(unfairness(one)[..., :2], unfairness(other)[..., :2])


@settings(max_examples=4)
@given(SEEDS, st.floats(0.1, 100))
def test_rescaling_outcome_or_scores_does_not_matter(seed: int, factor: float) -> None:
    """Ratios have no unit; scores only rank."""
    data = people(seed)
    plain = iso.improvability(data, **ASK)
    scaled = iso.improvability(data | {"s0": data["s0"] * 4.0, "s1": data["s1"] * 2.0}, **ASK)
    np.testing.assert_allclose(scaled.round_pvalues, plain.round_pvalues)
    outcome = iso.improvability(data | {"y": data["y"] * factor}, **ASK, gain=iso.gain(0.1))
    gained = iso.improvability(data, **ASK, gain=iso.gain(0.1))
    np.testing.assert_allclose(outcome.round_pvalues, gained.round_pvalues, atol=3 / 61)


@settings(max_examples=4)
@given(SEEDS)
def test_the_status_quo_never_improves_on_itself(seed: int) -> None:
    result = iso.improvability(people(seed), **(ASK | {"candidate": "s0"}))
    assert (result.round_pvalues == 1).all()


@given(SEEDS)
def test_pvalues_rise_with_what_is_asked(seed: int) -> None:
    rng = np.random.default_rng(seed)
    base = 5.0
    test = exceedance(rng.normal(), base, rng.normal(size=50), base + rng.normal(size=50))
    ps = test.pvalue(np.linspace(-1, 1, 21))
    assert (np.diff(ps) >= 0).all()
    assert (ps > 0).all()
    assert (ps <= 1).all()


@given(st.lists(st.floats(0.001, 1), min_size=1, max_size=15))
def test_combined_pvalue(ps: list[float]) -> None:
    """At most alpha exactly when at least half of the rounds are at most alpha / 2."""
    p = float(combined(ps))
    if len(ps) == 1:
        assert p == ps[0]
    else:
        for alpha in (0.05, 0.3):
            assert (p <= alpha) == (2 * sum(q <= alpha / 2 for q in ps) >= len(ps))


def test_columns_that_are_not_asked_for_do_not_matter() -> None:
    data = people(1)
    extra = pl.DataFrame(data).with_columns(pl.lit(None).alias("empty"), pl.lit("text").alias("text"))
    same(iso.improvability(data, **ASK), iso.improvability(extra, **ASK), NUMBERS, abs=0)


# --- weights and clusters

READY_ASK = {name: value for name, value in ASK.items() if name != "method"}
FIT_ASK = READY_ASK | {"candidate": None, "rule": "linear", "features": ["x"], "method": iso.crossfit(repeats=1)}
SHOWN = ("estimate", "reference", "pvalues", "disparity", "ci_low", "ci_high", "selected", "pvalue")


@pytest.mark.parametrize("ask", [READY_ASK, FIT_ASK, FIT_ASK | {"method": iso.splits(3)}])
def test_only_the_proportions_of_weights_matter(ask: dict[str, Any]) -> None:
    data = people(3, 600)
    weights = np.random.default_rng(0).integers(1, 5, 600) / 2
    once = iso.improvability(data | {"w": weights}, **ask, weight="w")
    twice = iso.improvability(data | {"w": 2 * weights}, **ask, weight="w")
    same(once, twice, SHOWN, rel=1e-9, abs=1e-9)
    assert (once.round_pvalues != iso.improvability(data, **ask).round_pvalues).all()


@pytest.mark.parametrize("ask", [READY_ASK, FIT_ASK])
def test_equal_weights_change_nothing(ask: dict[str, Any]) -> None:
    data = people(4, 400)
    weighted = iso.improvability(data | {"w": np.full(400, 2.5)}, **ask, weight="w")
    same(weighted, iso.improvability(data, **ask), SHOWN, rel=1e-9, abs=1e-9)


def test_every_row_its_own_cluster_is_no_cluster() -> None:
    """Except for the distribution: t with degrees of freedom from the rows of the smaller group, minus one."""
    data = people(5, 3_000)
    alone = iso.improvability(data | {"c": np.arange(3_000)}, **READY_ASK, cluster="c")
    none = iso.improvability(data, **READY_ASK)
    same(alone, none, ("selected",), abs=1e-12)
    np.testing.assert_allclose(accuracy(alone)[..., :2], accuracy(none)[..., :2])
    np.testing.assert_allclose(accuracy(alone)[..., 2], accuracy(none)[..., 2], rtol=0.1, atol=1e-9)
    np.testing.assert_allclose(unfairness(alone)[..., 2], unfairness(none)[..., 2], rtol=0.1, atol=1e-9)
    np.testing.assert_allclose(gains(alone), gains(none), rtol=0.01, atol=0.003)


@pytest.mark.parametrize("ask", [READY_ASK, FIT_ASK])
def test_copies_of_a_row_in_one_cluster_are_that_row(ask: dict[str, Any]) -> None:
    """Four copies without clusters would halve the standard errors."""
    data = people(6, 900)
    copied = {name: np.repeat(column, 4) for name, column in data.items()} | {"c": np.repeat(np.arange(900), 4)}
    original = iso.improvability(data | {"c": np.arange(900)}, **ask, cluster="c")
    clustered = iso.improvability(copied, **ask, cluster="c")
    np.testing.assert_allclose(gains(clustered), gains(original), rtol=0.1, atol=0.02)
    np.testing.assert_allclose(clustered.round_pvalues, original.round_pvalues, rtol=0.3, atol=0.03)
    careless = iso.improvability(copied, **ask)
    width = [np.diff(gains(r)[0, :, 1:]).max() for r in (clustered, careless)]
    assert width[1] < 0.6 * width[0]


def test_a_count_and_a_weight_are_different_things() -> None:
    """Two rows carry more information than one row with twice the weight."""
    data = people(7, 500)
    two = np.full(500, 2)
    counted = iso.improvability(data | {"k": two}, **READY_ASK, count="k")
    weighted = iso.improvability(data | {"k": two}, **READY_ASK, weight="k")
    np.testing.assert_allclose(accuracy(counted)[..., :2], accuracy(weighted)[..., :2])
    assert np.diff(gains(counted)[0, :, 1:]).max() < 0.8 * np.diff(gains(weighted)[0, :, 1:]).max()


def test_few_clusters_are_refused() -> None:
    data = people(8, 400)
    with pytest.raises(NotEnoughData, match="effective clusters"):
        iso.improvability(data | {"c": np.arange(400) % 6}, **READY_ASK, cluster="c")
    with pytest.raises(UsageError, match="single rows"):
        iso.improvability(data | {"c": np.arange(400)}, **ASK, cluster="c")
