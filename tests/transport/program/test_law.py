"""The laws of the statistic: limits, symmetries and what happens at the edges."""

from __future__ import annotations

import numpy as np
import pytest

from isonomy.numerics.tails import chi2_isf, chi2_sf
from isonomy.transport.program.law import Law, maximum, observed, positive_definite

SIGMA = np.array([[2.0, 0.5], [0.5, 1.0]])
CURVATURE = np.array([[0.7, 0.1], [0.1, 0.4]])


def test_wald_is_the_case_where_the_curvature_is_the_covariance() -> None:
    law = Law(SIGMA, SIGMA, np.zeros(2), "equality")
    assert law.weights == pytest.approx([0.5, 0.5])
    for x in (0.3, 3.0, 40.0):
        assert law.sf(x / 2) == pytest.approx(float(chi2_sf(x, 2)), rel=1e-10)
    assert 2 * law.isf(0.05) == pytest.approx(float(chi2_isf(0.05, 2)), rel=1e-9)


def test_one_sided_is_half_a_chi_square() -> None:
    law = Law(np.array([[4.0]]), np.array([[0.5]]), np.array([0.3]), "upper")
    for s in (0.1, 1.0, 10.0):
        assert law.sf(s) == pytest.approx(float(chi2_sf(2 * 0.5 * s / 4.0, 1)) / 2, rel=1e-12)
    assert law.sf(0.0) == 1.0
    assert law.sf(law.isf(0.05)) == pytest.approx(0.05, rel=1e-9)


def test_a_wide_tolerance_is_one_sided() -> None:
    """Far from the other side, only one side counts; with no tolerance, both do."""
    wide = Law(np.array([[1.0]]), np.array([[1.0]]), np.array([50.0]), "both")
    none = Law(np.array([[1.0]]), np.array([[1.0]]), np.array([0.0]), "both")
    assert wide.sf(2.0) == pytest.approx(float(chi2_sf(4.0, 1)) / 2, rel=1e-12)
    assert none.sf(2.0) == pytest.approx(float(chi2_sf(4.0, 1)), rel=1e-12)


def test_simulated_laws_meet_the_closed_forms() -> None:
    """A second moment that is independent and hugely tolerated leaves the law of the first."""
    normals = np.random.default_rng(0).standard_normal((100_000, 2))
    for side in ("both", "upper"):
        one = Law(np.array([[2.0]]), np.array([[0.7]]), np.array([0.4]), side)
        if side == "both":
            two = Law(np.diag([2.0, 1e-8]), np.diag([0.7, 1.0]), np.array([0.4, 9.0]), side, normals)
            p = one.sf(3.0)
            assert two.sf(3.0) == pytest.approx(p, abs=4 * np.sqrt(p * (1 - p) / 1e5))
            assert two.isf(0.05) == pytest.approx(one.isf(0.05), rel=0.03)
        else:
            both = Law(np.diag([2.0, 1e-12]), np.diag([0.7, 1.0]), np.zeros(2), "upper", normals)
            p = one.sf(3.0)
            assert both.sf(3.0) == pytest.approx(p, abs=4 * np.sqrt(p * (1 - p) / 1e5))


def test_maximum_without_slack_is_the_quadratic_form() -> None:
    w = np.random.default_rng(1).normal(size=(50, 2))
    expected = (w * np.linalg.solve(CURVATURE, w.T).T).sum(axis=1) / 2
    assert maximum(w, CURVATURE, np.zeros(2)) == pytest.approx(expected, rel=1e-8)
    assert observed(w[0], CURVATURE, np.zeros(2), "equality") == pytest.approx(expected[0], rel=1e-12)
    assert maximum(w, CURVATURE, np.full(2, 100.0)) == pytest.approx(np.zeros(50))


def test_edges() -> None:
    law = Law(SIGMA, CURVATURE, np.zeros(2), "equality")
    assert np.isnan(law.sf(np.nan))
    assert law.sf(np.inf) == 0.0
    assert law.sf(-1.0) == 1.0
    with pytest.raises(ValueError, match="draws"):
        Law(SIGMA, CURVATURE, np.ones(2), "both").sf(1.0)
    assert positive_definite(SIGMA * 1e-20)
    assert not positive_definite(np.ones((2, 2)))
    assert not positive_definite(np.diag([1.0, 0.0]))
    assert not positive_definite(np.array([[np.nan]]))
