"""Rows aggregated to cells, and bootstrap sums drawn from them."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from isonomy.errors import BadCount, LengthMismatch, UsageError
from isonomy.numerics import resampling
from isonomy.numerics.resampling import Cells, bootstrap_sums, collapse, pvalue, resampled_pvalues

cell_values = st.sampled_from([-1.5, -0.0, 0.0, 0.25, 1.0, 2.0, 1e9])
tables = st.integers(1, 4).flatmap(lambda k: st.lists(st.tuples(*[cell_values] * k), min_size=1, max_size=40))


def exact_moments(cells: Any) -> Any:
    """Mean and covariance of resampled column sums: n times those of one draw."""
    n = cells.counts.sum()
    mean = cells.counts @ cells.values / n
    centred = cells.values - mean
    return n * mean, (cells.counts[:, None] * centred).T @ centred


def assert_moments(sums: Any, cells: Any) -> Any:
    """Mean and covariance of the draws within five Monte Carlo standard errors of the exact ones."""
    mean, covariance = exact_moments(cells)
    draws = sums.shape[0]
    sd = np.sqrt(np.diagonal(covariance))
    np.testing.assert_array_less(np.abs(sums.mean(axis=0) - mean), 5 * sd / np.sqrt(draws) + 1e-9)
    margin = 5 * np.outer(sd, sd) * np.sqrt(2 / draws) + 1e-9
    np.testing.assert_array_less(np.abs(np.cov(sums.T) - covariance), margin)


@given(tables)
def test_collapse_agrees_with_unique_rows(rows: Any) -> None:
    table = np.array(rows)
    values, counts = np.unique(table + 0.0, axis=0, return_counts=True)
    cells = collapse([*table.T])
    np.testing.assert_array_equal(cells.values, values)
    np.testing.assert_array_equal(cells.counts, counts)
    assert not np.signbit(cells.values[cells.values == 0]).any()
    assert cells.total == len(rows)
    np.testing.assert_allclose(cells.counts @ cells.values, table.sum(axis=0))


@given(tables, st.randoms())
def test_collapse_knows_rows_as_a_set(rows: Any, random: Any) -> None:
    cells = collapse([*np.array(rows).T])
    random.shuffle(rows)
    again = collapse([np.array(c) for c in zip(*rows, strict=True)])
    np.testing.assert_array_equal(again.values, cells.values)
    np.testing.assert_array_equal(again.counts, cells.counts)


def test_weights_are_repeated_rows_and_zero_weights_leave() -> None:
    x = np.array([3.0, 1.0, 3.0, 2.0])
    cells = collapse([x, x], weights=[2, 1, 3, 0])
    np.testing.assert_array_equal(cells.values, [[1, 1], [3, 3]])
    np.testing.assert_array_equal(cells.counts, [1, 5])


def test_many_columns_of_many_values_do_not_overflow_the_key() -> None:
    rng = np.random.default_rng(0)
    base = rng.random((500, 12))
    table = base[rng.integers(500, size=3000)]
    values, counts = np.unique(table, axis=0, return_counts=True)
    cells = collapse([*table.T])
    np.testing.assert_array_equal(cells.values, values)
    np.testing.assert_array_equal(cells.counts, counts)
    weighted = collapse([*table.T], weights=np.full(3000, 2.0))
    np.testing.assert_array_equal(weighted.counts, 2 * counts)


def test_collapse_without_rows_and_bad_input() -> None:
    assert collapse([*np.empty((3, 0))]).values.shape == (0, 3)
    with pytest.raises(LengthMismatch):
        collapse([[1.0, 2.0], [1.0]])
    with pytest.raises(LengthMismatch):
        collapse([[1.0, 2.0]], weights=[1.0])
    for weights in ([1.0, -1.0], [1.0, np.nan]):
        with pytest.raises(BadCount):
            collapse([[1.0, 2.0]], weights=weights)


@pytest.mark.parametrize("cost", [0, 10**9], ids=["over cells", "over rows"])
def test_both_ways_of_drawing_have_the_multinomial_law(cost: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # Six rows in three cells: all 28 outcomes and their exact probabilities; chi-square test of fit.
    monkeypatch.setattr(resampling, "BINOMIAL_COST", cost)
    cells = Cells(np.eye(3), np.array([3.0, 2.0, 1.0]))
    draws = 60_000
    counts = bootstrap_sums(cells, draws, np.random.default_rng(11)).astype(int)
    assert (counts.sum(axis=1) == 6).all()
    outcomes = np.array([(a, b, 6 - a - b) for a in range(7) for b in range(7 - a)])
    expected = draws * stats.multinomial.pmf(outcomes, 6, [3 / 6, 2 / 6, 1 / 6])
    observed = np.array([(counts == o).all(axis=1).sum() for o in outcomes])
    common = expected >= 5
    observed, expected = (np.append(v[common], v[~common].sum()) for v in (observed.astype(float), expected))
    assert stats.chisquare(observed, expected).pvalue > 1e-4


@pytest.mark.parametrize("distinct", [True, False])
def test_moments_of_resampled_sums(distinct: Any) -> None:
    rng = np.random.default_rng(4)
    x = rng.normal(size=400) if distinct else rng.integers(0, 5, 400)
    cells = collapse([x, x**2, np.ones(400)])
    assert (cells.counts.size == 400) == distinct
    sums = bootstrap_sums(cells, 20_000, rng)
    np.testing.assert_array_equal(sums[:, 2], 400)
    assert_moments(sums[:, :2], Cells(cells.values[:, :2], cells.counts))


@pytest.mark.parametrize("cost", [0, 10**9], ids=["over cells", "over rows"])
def test_the_size_of_blocks_does_not_change_the_draws(cost: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resampling, "BINOMIAL_COST", cost)
    rng = np.random.default_rng(4)
    cells = collapse([rng.integers(0, 9, 301), rng.integers(0, 4, 301)])
    whole = bootstrap_sums(cells, 503, np.random.default_rng(7))
    for block_bytes in (1, 3000, 20_000):
        monkeypatch.setattr(resampling, "BLOCK_BYTES", block_bytes)
        blocked = bootstrap_sums(cells, 503, np.random.default_rng(7))
        np.testing.assert_array_equal(blocked, whole)


def test_order_of_rows_does_not_change_the_draws() -> None:
    rng = np.random.default_rng(4)
    table = rng.integers(0, 6, (200, 3))
    one, two = (bootstrap_sums(collapse([*t.T]), 50, np.random.default_rng(7)) for t in (table, rng.permutation(table)))
    np.testing.assert_array_equal(one, two)
    assert len(np.unique(one[:, 0])) > 5


def test_the_same_law_as_resampling_rows() -> None:
    rng = np.random.default_rng(9)
    x = rng.standard_gamma(0.3, size=60).round(1)  # skewed, with ties
    rows = x[rng.integers(60, size=(20_000, 60))].sum(axis=1)
    cells = bootstrap_sums(collapse([x]), 20_000, rng)[:, 0]
    assert stats.ks_2samp(rows, cells).pvalue > 1e-3


def test_edges_of_the_bootstrap() -> None:
    rng = np.random.default_rng(0)
    one = Cells(np.array([[2.0]]), np.array([5.0]))
    np.testing.assert_array_equal(bootstrap_sums(one, 3, rng), np.full((3, 1), 10.0))
    assert bootstrap_sums(one, 0, rng).shape == (0, 1)
    none = Cells(np.empty((0, 2)), np.empty(0))
    np.testing.assert_array_equal(bootstrap_sums(none, 3, rng), np.zeros((3, 2)))
    for counts in ([1.5, 2.0], [-1.0, 2.0], [np.nan, 1.0]):
        with pytest.raises(BadCount):
            bootstrap_sums(Cells(np.ones((2, 1)), np.array(counts)), 3, rng)


def test_memory_stays_within_the_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    import tracemalloc

    cells = collapse([np.random.default_rng(0).random(20_000)])
    monkeypatch.setattr(resampling, "BLOCK_BYTES", 2**22)
    tracemalloc.start()
    bootstrap_sums(cells, 60, np.random.default_rng(0))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**23  # drawing all at once takes 30 MB


def test_resampled_p_values_are_never_zero() -> None:
    assert pvalue(0, 999) == 0.001
    assert pvalue(999, 999) == 1
    assert pvalue(0, 0) == 1
    assert pvalue(3, 10).ndim == 0
    np.testing.assert_allclose(pvalue(np.array([0, 9]), 9), [0.1, 1.0])
    for exceeding in (-1, 11):
        with pytest.raises(UsageError):
            pvalue(exceeding, 10)


def test_the_standard_error_of_a_ratio() -> None:
    """Against the delta method, within four relative errors (0.005 each) of the standard deviation of 20,000 draws."""
    rng = np.random.default_rng(22)
    y, w = rng.poisson(3, 20_000), rng.integers(1, 4, 20_000)
    sums = bootstrap_sums(collapse([y, w]), 20_000, rng)
    ratio = sums[:, 0] / sums[:, 1]
    residual = y - y.sum() / w.sum() * w
    assert ratio.std() == pytest.approx(np.sqrt((residual**2).sum()) / w.sum(), rel=0.02)


def test_p_values_among_draws() -> None:
    draws = np.array([-2.0, 0.5, 0.5, 3.0])
    np.testing.assert_allclose(resampled_pvalues([-3.0, 0.5, 0.6, 9.0], draws), [1.0, 0.8, 0.4, 0.2])
    assert np.isnan(resampled_pvalues([np.nan], draws)).all()
    assert resampled_pvalues(0.5, draws).ndim == 0


def test_a_draw_has_the_p_value_that_it_would_have_if_it_were_observed() -> None:
    values = np.random.default_rng(2).integers(0, 12, 30).astype(float)  # with ties
    for seen, drawn in ((0, 7), (7, 0), (3, 21)):
        others = np.delete(values, seen)
        place = drawn - (drawn > seen)
        by_draw = resampling.drawn_pvalues(others, float(values[seen]))[place]
        as_observed = resampling.resampled_pvalues(values[drawn], np.sort(np.delete(values, drawn)))
        assert by_draw == pytest.approx(float(as_observed))
