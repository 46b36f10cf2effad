"""The laws of the statistic: limits, symmetries and what happens at the edges."""

from __future__ import annotations

import numpy as np
import pytest

from isonomy.numerics.tails import chi2_isf, chi2_sf
from isonomy.transport.program import law
from isonomy.transport.program.law import Law, Null, maximum, observed, positive_definite

SIGMA = np.array([[2.0, 0.5], [0.5, 1.0]])
CURVATURE = np.array([[0.7, 0.1], [0.1, 0.4]])
EQUAL = Null(np.zeros(2), np.zeros(2))


def both(*limits: float) -> Null:
    return Null(-np.array(limits), np.array(limits))


def upper(*limits: float) -> Null:
    return Null(np.full(len(limits), -np.inf), np.array(limits))


def test_wald_is_the_case_where_the_curvature_is_the_covariance() -> None:
    law = Law(SIGMA, SIGMA, EQUAL)
    assert law.weights == pytest.approx([0.5, 0.5])
    for x in (0.3, 3.0, 40.0):
        assert law.sf(x / 2) == pytest.approx(float(chi2_sf(x, 2)), rel=1e-10)
    assert 2 * law.isf(0.05) == pytest.approx(float(chi2_isf(0.05, 2)), rel=1e-9)


def test_one_sided_is_half_a_chi_square() -> None:
    law = Law(np.array([[4.0]]), np.array([[0.5]]), upper(0.3))
    for s in (0.1, 1.0, 10.0):
        assert law.sf(s) == pytest.approx(float(chi2_sf(2 * 0.5 * s / 4.0, 1)) / 2, rel=1e-12)
    assert law.sf(0.0) == 1.0
    assert law.sf(law.isf(0.05)) == pytest.approx(0.05, rel=1e-9)


def test_a_wide_tolerance_is_one_sided() -> None:
    """Far from the other side, only one side counts; with no tolerance, both do."""
    wide = Law(np.array([[1.0]]), np.array([[1.0]]), both(50.0))
    none = Law(np.array([[1.0]]), np.array([[1.0]]), both(0.0))
    assert wide.sf(2.0) == pytest.approx(float(chi2_sf(4.0, 1)) / 2, rel=1e-12)
    assert none.sf(2.0) == pytest.approx(float(chi2_sf(4.0, 1)), rel=1e-12)


def test_simulated_laws_meet_the_closed_forms() -> None:
    """A second moment that is independent and hugely tolerated leaves the law of the first."""
    normals = np.random.default_rng(0).standard_normal((100_000, 2))
    sigma, curvature = np.diag([2.0, 1e-12]), np.diag([0.7, 1.0])
    for one, two in ((both(0.4), both(0.4, 9.0)), (upper(0.4), upper(0.4, 0.0))):
        known, drawn = Law(sigma[:1, :1], curvature[:1, :1], one), Law(sigma, curvature, two, normals)
        p = known.sf(3.0)
        assert drawn.sf(3.0) == pytest.approx(p, abs=4 * np.sqrt(p * (1 - p) / 1e5))
        assert drawn.isf(0.05) == pytest.approx(known.isf(0.05), rel=0.03)


def test_sides_that_differ() -> None:
    """One moment limited below alone, one above alone: mirrored, the law of two limited above."""
    normals = np.random.default_rng(0).standard_normal((100_000, 2))
    turned = np.array([[1.0, -1.0], [-1.0, 1.0]])
    above = Law(SIGMA, CURVATURE, upper(0.2, 0.1), normals)
    mixed = Law(SIGMA * turned, CURVATURE * turned, Null(np.array([-np.inf, -0.1]), np.array([0.2, np.inf])), normals)
    p = above.sf(3.0)
    assert mixed.sf(3.0) == pytest.approx(p, abs=6 * np.sqrt(p * (1 - p) / 1e5))
    narrow = Law(np.eye(1), np.eye(1), Null(np.array([-0.1]), np.array([0.5])))
    assert narrow.sf(2.0) == pytest.approx(Law(np.eye(1), np.eye(1), both(0.3)).sf(2.0), rel=1e-12)


def test_equality_of_one_and_tolerance_of_another() -> None:
    """A moment that must be 0 beside one that may be almost anything has the law of the first alone."""
    normals = np.random.default_rng(0).standard_normal((100_000, 2))
    law = Law(np.diag([2.0, 1e-12]), np.diag([0.7, 1.0]), both(0.0, 9.0), normals)
    p = float(chi2_sf(2 * 0.7 * 3.0 / 2.0, 1))
    assert law.sf(3.0) == pytest.approx(p, abs=4 * np.sqrt(p * (1 - p) / 1e5))


def test_maximum_without_slack_is_the_quadratic_form() -> None:
    w = np.random.default_rng(1).normal(size=(50, 2))
    expected = (w * np.linalg.solve(CURVATURE, w.T).T).sum(axis=1) / 2
    assert maximum(w, CURVATURE, EQUAL) == pytest.approx(expected, rel=1e-8)
    assert observed(w[0], CURVATURE, EQUAL) == pytest.approx(expected[0], rel=1e-12)
    assert maximum(w, CURVATURE, both(100.0, 100.0)) == pytest.approx(np.zeros(50))


def test_edges() -> None:
    law = Law(SIGMA, CURVATURE, EQUAL)
    assert np.isnan(law.sf(np.nan))
    assert law.sf(np.inf) == 0.0
    assert law.sf(-1.0) == 1.0
    with pytest.raises(ValueError, match="draws"):
        Law(SIGMA, CURVATURE, both(1.0, 1.0)).sf(1.0)
    assert positive_definite(SIGMA * 1e-20)
    assert not positive_definite(np.ones((2, 2)))
    assert not positive_definite(np.diag([1.0, 0.0]))
    assert not positive_definite(np.array([[np.nan]]))


def test_among_many_vertices_a_few_draws_choose_those_that_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five comparisons have 16 vertices: judged all, or the eight worst of a thousand draws, the tail is the same."""
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(2, 5, 5))
    covariance = np.eye(5) + 0.5 + 0.3 * first @ first.T / 5
    curvature = np.eye(5) + 0.5 + 0.3 * second @ second.T / 5
    tolerance = rng.uniform(0.5, 3, 5)
    arguments = covariance, curvature, Null(-tolerance, tolerance), rng.standard_normal((5_000, 5))
    screened = Law(*arguments)
    few = screened.sf(3.0), screened.isf(0.05)
    monkeypatch.setattr(law, "FINALISTS", 16)
    every = Law(*arguments)
    assert few == (every.sf(3.0), every.isf(0.05))
