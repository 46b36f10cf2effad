"""What must not matter: the order of rows, the names of groups, rows given once with a count."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

import isonomy as iso
from isonomy.alternatives.rules.bootstrap import Exceedance
from isonomy.alternatives.rules.rounds import combined
from support.same import same

SEEDS = st.integers(0, 10_000)
NUMBERS = ("accuracy", "fairness", "round_pvalues", "selected", "cutoffs")
ASK: dict[str, Any] = {
    "outcome": "y",
    "groups": "g",
    "status_quo": "s0",
    "candidate": "s1",
    "capacity": 0.3,
    "splits": 3,
    "resamples": 60,
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
    """Law, not draws, depends on labels: with decisions on all rows the estimates are the same numbers."""
    data = people(seed)
    ask = ASK | {"capacity": None, "threshold": 2.5, "splits": 1}
    one, other = iso.improvability(data, **ask), iso.improvability(data | {"g": 1 - data["g"]}, **ask)
    np.testing.assert_allclose(one.accuracy[:, :, :2], other.accuracy[:, ::-1, :2])
    np.testing.assert_allclose(one.fairness[..., :2], other.fairness[..., :2])


@settings(max_examples=4)
@given(SEEDS, st.floats(0.1, 100))
def test_rescaling_outcome_or_scores_does_not_matter(seed: int, factor: float) -> None:
    """Ratios have no unit; scores only rank."""
    data = people(seed)
    plain = iso.improvability(data, **ASK)
    scaled = iso.improvability(data | {"s0": data["s0"] * 4.0, "s1": data["s1"] * 2.0}, **ASK)
    np.testing.assert_allclose(scaled.round_pvalues, plain.round_pvalues)
    outcome = iso.improvability(data | {"y": data["y"] * factor}, **ASK, accuracy_gain=0.1)
    gained = iso.improvability(data, **ASK, accuracy_gain=0.1)
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
    exceedance = Exceedance.of(rng.normal(), base, rng.normal(size=50), base + rng.normal(size=50))
    ps = exceedance.pvalue(np.linspace(-1, 1, 21))
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
