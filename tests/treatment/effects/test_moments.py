"""Columns, their products, and what can be done with moments alone, against plain rows."""

from __future__ import annotations

import numpy as np
import pytest

from isonomy.numerics.arrays import FloatArray
from isonomy.treatment.effects.moments import COLUMNS, Moments, column, products


def of_rows(columns: tuple[str, ...], rows: list[list[FloatArray]]) -> Moments:
    """Moments of groups of two arms, each an array (row, column)."""
    n = np.array([[float(len(arm)) for arm in group] for group in rows])
    sums = np.array([[arm.sum(0) for arm in group] for group in rows])
    return Moments.from_sums(columns, n, sums, np.array([[arm.T @ arm for arm in group] for group in rows]))


def drawn(width: int) -> list[list[FloatArray]]:
    rng = np.random.default_rng(1)
    return [[rng.gamma(2.0, size=(size, width)) for size in sizes] for sizes in ((30, 40), (25, 60), (80, 12))]


def test_equal_products_have_one_name() -> None:
    assert (column("y") * column("hf")).name == (column("yf") * column("h")).name
    assert list(products(("y", "yf"))) == ["y", "y f", "y y", "y y f", "y y f f", "y y y"]
    assert column("x:0").name == "x:0"


def test_moments_of_rows() -> None:
    rows = drawn(2)
    moments = of_rows(("y", "yf"), rows)
    assert moments.cov is not None
    np.testing.assert_allclose(moments.mean[1, 0], rows[1][0].mean(0))
    np.testing.assert_allclose(moments.cov[2, 1], np.cov(rows[2][1].T), rtol=1e-9)


def test_the_rest_is_the_other_groups_pooled() -> None:
    rows = drawn(2)
    others = of_rows(("y", "yf"), rows).others()
    pooled = np.concatenate([rows[0][1], rows[2][1]])
    assert others.cov is not None
    assert others.n[1, 1] == len(pooled)
    np.testing.assert_allclose(others.mean[1, 1], pooled.mean(0))
    np.testing.assert_allclose(others.cov[1, 1], np.cov(pooled.T), rtol=1e-9)


def test_a_correction_moves_the_moments_as_it_moves_the_rows() -> None:
    names = tuple(name for name, one in COLUMNS.items() if one.slope is not None)
    rng = np.random.default_rng(2)
    factors = {name: rng.gamma(2.0, size=(2, 2, 50)) for name in ("y", "f", "h", "p0", "p1")}
    delta = np.array([0.3, -0.2])

    def moments(effect: FloatArray) -> Moments:
        values = {**factors, "f": effect}
        columns = [np.prod([values[term] for term in column(name).terms], axis=0) for name in names]
        stacked = np.stack(columns, -1)
        return of_rows(names, [list(group) for group in stacked])

    expected, actual = moments(factors["f"] - delta[:, None, None]), moments(factors["f"]).shifted(delta)
    assert expected.cov is not None
    assert actual.cov is not None
    np.testing.assert_allclose(actual.mean, expected.mean, rtol=1e-9)
    np.testing.assert_allclose(actual.cov, expected.cov, rtol=1e-7, atol=1e-10)


def test_the_column_with_one_over_f_cannot_be_moved() -> None:
    with pytest.raises(ValueError, match="y/f is not linear"):
        of_rows(("y", "y/f"), drawn(2)).shifted(np.zeros(3))


def test_what_rounding_leaves_of_a_constant_is_no_variance() -> None:
    moments = of_rows(("y",), [[np.full((1000, 1), 0.1), np.full((7, 1), 1e6 + 0.1)]])
    assert moments.cov is not None
    assert (moments.cov == 0).all()
