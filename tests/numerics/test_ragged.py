"""Sums, minima and maxima of groups of different sizes in one array."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isonomy.errors import LengthMismatch
from isonomy.numerics.ragged import Ragged


@given(
    st.integers(1, 12).flatmap(
        lambda g: st.tuples(st.just(g), st.lists(st.tuples(st.integers(-1, g - 1), st.integers(-99, 99)), max_size=60))
    )
)
def test_sums_minima_maxima_agree_with_loops(problem: Any) -> None:
    n_groups, rows = problem
    codes = np.array([c for c, _ in rows], dtype=int)
    values = np.array([v for _, v in rows], dtype=float)
    ragged = Ragged.from_codes(codes, n_groups, values, weights=np.abs(values))
    (column,) = ragged.columns
    for g in range(n_groups):
        mine = values[codes == g]
        np.testing.assert_array_equal(column[ragged.offsets[g] : ragged.offsets[g + 1]], mine)
        assert ragged.sum(column)[g] == mine.sum()
        assert ragged.weighted_sum(column)[g] == (mine * np.abs(mine)).sum()
        assert ragged.totals[g] == np.abs(mine).sum()
        assert ragged.min(column)[g] == min(mine, default=np.inf)
        assert ragged.max(column)[g] == max(mine, default=-np.inf)


def test_empty_groups_at_both_ends_and_in_the_middle() -> None:
    ragged = Ragged.from_codes([1, 3, 3, 1], 6, [1.0, 2.0, 3.0, 4.0])
    np.testing.assert_array_equal(ragged.sum(ragged.columns[0]), [0, 5, 0, 5, 0, 0])
    np.testing.assert_array_equal(ragged.min(ragged.columns[0]), [np.inf, 1, np.inf, 2, np.inf, np.inf])
    np.testing.assert_array_equal(ragged.sizes, [0, 2, 0, 2, 0, 0])
    np.testing.assert_array_equal(ragged.totals, [0, 2, 0, 2, 0, 0])


@pytest.mark.parametrize("codes", [[], [-1, -1]])
@pytest.mark.parametrize("n_groups", [0, 3])
def test_no_rows(codes: Any, n_groups: Any) -> None:
    ragged = Ragged.from_codes(np.array(codes, dtype=int), n_groups, np.ones(len(codes)))
    assert (ragged.n_rows, ragged.n_groups) == (0, n_groups)
    np.testing.assert_array_equal(ragged.sum(ragged.columns[0]), np.zeros(n_groups))
    np.testing.assert_array_equal(ragged.max(ragged.columns[0]), np.full(n_groups, -np.inf))


@pytest.mark.parametrize("n_groups", [3, 255, 65_535, 65_536, 65_537, 200_000])
@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64])
def test_order_is_stable_on_either_side_of_sixteen_bits(n_groups: Any, dtype: Any) -> None:
    codes = np.random.default_rng(n_groups).integers(-1, min(n_groups, np.iinfo(dtype).max), 50_000).astype(dtype)
    codes[:2] = min(n_groups - 1, np.iinfo(dtype).max), -1
    ragged = Ragged.from_codes(codes, n_groups, np.arange(codes.size))
    expected = np.argsort(codes, kind="stable")[np.sum(codes < 0) :]
    np.testing.assert_array_equal(ragged.columns[0], expected)
    np.testing.assert_array_equal(ragged.sizes, np.bincount(codes[codes >= 0], minlength=n_groups))


def test_sorted_codes_keep_their_rows() -> None:
    ragged = Ragged.from_codes([0, 0, 2], 3, ["a", "b", "c"])
    assert ragged.columns[0].tolist() == ["a", "b", "c"]
    assert ragged.weighted_sum([1.0, 2.0, 4.0]).tolist() == [3.0, 0.0, 4.0]


def test_repeat_is_the_inverse_of_a_mean() -> None:
    ragged = Ragged.from_codes([2, 0, 2], 3, [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(ragged.repeat([10, 20, 30]), [10, 30, 30])
    np.testing.assert_array_equal(ragged.repeat([[1, 2], [3, 4], [5, 6]]), [[1, 2], [5, 6], [5, 6]])


def test_sums_of_matrices_and_their_weights() -> None:
    ragged = Ragged.from_codes([1, 0, 1], 3, weights=[1.0, 2.0, 3.0])
    rows = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])  # in group order: weights 2, 1, 3
    np.testing.assert_array_equal(ragged.sum(rows), [[1, 2], [8, 10], [0, 0]])
    np.testing.assert_array_equal(ragged.weighted_sum(rows), [[2, 4], [18, 22], [0, 0]])


def test_long_segments_are_summed_pairwise() -> None:
    n = 2_000_000
    ragged = Ragged.from_codes(np.zeros(n, dtype=np.int8), 1, np.full(n, 0.1))
    assert ragged.sum(ragged.columns[0])[0] == pytest.approx(n / 10, rel=1e-14)  # a running sum has an error of 1e-12


def test_bad_input() -> None:
    with pytest.raises(LengthMismatch):
        Ragged.from_codes([0, 1], 2, [1.0])
    with pytest.raises(LengthMismatch):
        Ragged.from_codes([0, 1], 2, weights=[1.0])
    with pytest.raises(LengthMismatch):
        Ragged.from_codes([0, 1], 2).sum([1.0, 2.0, 3.0])
    for codes in ([0, 2], [-2, 0]):
        with pytest.raises(IndexError):
            Ragged.from_codes(codes, 2)
