"""The law of the statistic, and rates at the edge of the null: limits, symmetries, closed forms, enumeration."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from isonomy.numerics.tails import chi2_isf, chi2_sf
from isonomy.projection.program import law
from isonomy.projection.program.law import Null, ProjectionLaw, RateStrata, maximum, positive_definite

SIGMA = np.array([[2.0, 0.5], [0.5, 1.0]])
CURVATURE = np.array([[0.7, 0.1], [0.1, 0.4]])
EQUAL = Null(np.zeros(2), np.zeros(2))


def both(*limits: float) -> Null:
    return Null(-np.array(limits), np.array(limits))


def upper(*limits: float) -> Null:
    return Null(np.full(len(limits), -np.inf), np.array(limits))


def test_wald_is_the_case_where_the_curvature_is_the_covariance() -> None:
    law = ProjectionLaw(SIGMA, SIGMA, EQUAL)
    assert law.weights == pytest.approx([0.5, 0.5])
    for x in (0.3, 3.0, 40.0):
        assert law.sf(x / 2) == pytest.approx(float(chi2_sf(x, 2)), rel=1e-10)
    assert 2 * law.isf(0.05) == pytest.approx(float(chi2_isf(0.05, 2)), rel=1e-9)


def test_one_sided_is_half_a_chi_square() -> None:
    law = ProjectionLaw(np.array([[4.0]]), np.array([[0.5]]), upper(0.3))
    for s in (0.1, 1.0, 10.0):
        assert law.sf(s) == pytest.approx(float(chi2_sf(2 * 0.5 * s / 4.0, 1)) / 2, rel=1e-12)
    assert law.sf(0.0) == 1.0
    assert law.sf(law.isf(0.05)) == pytest.approx(0.05, rel=1e-9)


def test_a_wide_tolerance_is_one_sided() -> None:
    """With a wide tolerance only one side matters; without tolerance, both do."""
    wide = ProjectionLaw(np.array([[1.0]]), np.array([[1.0]]), both(50.0))
    none = ProjectionLaw(np.array([[1.0]]), np.array([[1.0]]), both(0.0))
    assert wide.sf(2.0) == pytest.approx(float(chi2_sf(4.0, 1)) / 2, rel=1e-12)
    assert none.sf(2.0) == pytest.approx(float(chi2_sf(4.0, 1)), rel=1e-12)


def test_simulated_laws_meet_the_closed_forms() -> None:
    """An independent second moment with a huge tolerance does not change the law of the first."""
    normals = np.random.default_rng(0).standard_normal((100_000, 2))
    sigma, curvature = np.diag([2.0, 1e-12]), np.diag([0.7, 1.0])
    for one, two in ((both(0.4), both(0.4, 9.0)), (upper(0.4), upper(0.4, 0.0))):
        known, drawn = (
            ProjectionLaw(sigma[:1, :1], curvature[:1, :1], one),
            ProjectionLaw(sigma, curvature, two, normals),
        )
        p = known.sf(3.0)
        assert drawn.sf(3.0) == pytest.approx(p, abs=4 * np.sqrt(p * (1 - p) / 1e5))
        assert drawn.isf(0.05) == pytest.approx(known.isf(0.05), rel=0.03)


def test_sides_that_differ() -> None:
    """One moment limited only below and one only above: mirrored, this is the law of two limited above."""
    normals = np.random.default_rng(0).standard_normal((100_000, 2))
    turned = np.array([[1.0, -1.0], [-1.0, 1.0]])
    above = ProjectionLaw(SIGMA, CURVATURE, upper(0.2, 0.1), normals)
    mixed = ProjectionLaw(
        SIGMA * turned, CURVATURE * turned, Null(np.array([-np.inf, -0.1]), np.array([0.2, np.inf])), normals
    )
    p = above.sf(3.0)
    assert mixed.sf(3.0) == pytest.approx(p, abs=6 * np.sqrt(p * (1 - p) / 1e5))
    narrow = ProjectionLaw(np.eye(1), np.eye(1), Null(np.array([-0.1]), np.array([0.5])))
    assert narrow.sf(2.0) == pytest.approx(ProjectionLaw(np.eye(1), np.eye(1), both(0.3)).sf(2.0), rel=1e-12)


def test_equality_of_one_and_tolerance_of_another() -> None:
    """A moment that must be 0 and one that may be almost anything have the law of the first alone."""
    normals = np.random.default_rng(0).standard_normal((100_000, 2))
    law = ProjectionLaw(np.diag([2.0, 1e-12]), np.diag([0.7, 1.0]), both(0.0, 9.0), normals)
    p = float(chi2_sf(2 * 0.7 * 3.0 / 2.0, 1))
    assert law.sf(3.0) == pytest.approx(p, abs=4 * np.sqrt(p * (1 - p) / 1e5))


def test_maximum_without_slack_is_the_quadratic_form() -> None:
    w = np.random.default_rng(1).normal(size=(50, 2))
    expected = (w * np.linalg.solve(CURVATURE, w.T).T).sum(axis=1) / 2
    assert maximum(w, CURVATURE, EQUAL) == pytest.approx(expected, rel=1e-8)
    ascent = maximum(w, CURVATURE, both(1e-9, 1e-9))  # almost no slack, by coordinate ascent
    assert ascent == pytest.approx(expected, rel=1e-6)
    assert maximum(w, CURVATURE, both(100.0, 100.0)) == pytest.approx(np.zeros(50))


def test_edges() -> None:
    law = ProjectionLaw(SIGMA, CURVATURE, EQUAL)
    assert np.isnan(law.sf(np.nan))
    assert law.sf(np.inf) == 0.0
    assert law.sf(-1.0) == 1.0
    with pytest.raises(ValueError, match="draws"):
        ProjectionLaw(SIGMA, CURVATURE, both(1.0, 1.0)).sf(1.0)
    assert positive_definite(SIGMA * 1e-20)
    assert not positive_definite(np.ones((2, 2)))
    assert not positive_definite(np.diag([1.0, 0.0]))
    assert not positive_definite(np.array([[np.nan]]))


def test_among_many_vertices_a_few_draws_choose_those_that_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five comparisons have 16 vertices: all of them, or the eight worst of a thousand draws, give the same tail."""
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(2, 5, 5))
    covariance = np.eye(5) + 0.5 + 0.3 * first @ first.T / 5
    curvature = np.eye(5) + 0.5 + 0.3 * second @ second.T / 5
    tolerance = rng.uniform(0.5, 3, 5)
    arguments = covariance, curvature, Null(-tolerance, tolerance), rng.standard_normal((5_000, 5))
    screened = ProjectionLaw(*arguments)
    few = screened.sf(3.0), screened.isf(0.05)
    monkeypatch.setattr(law, "FINALISTS", 16)
    every = ProjectionLaw(*arguments)
    assert few == (every.sf(3.0), every.isf(0.05))


def pair(x1: float, n1: float, x0: float, n0: float) -> RateStrata:
    return RateStrata(np.array([1.0, -1.0]), np.array([n1, n0], dtype=float), np.array([x1, x0], dtype=float))


def farrington_manning(x1: float, n1: float, x0: float, n0: float, delta: float) -> tuple[float, float]:
    """The closed form of Farrington and Manning (1990): the most likely rates that differ by delta."""
    p1, p0, theta = x1 / n1, x0 / n0, n0 / n1
    a, b = 1 + theta, -(1 + theta + p1 + theta * p0 + delta * (theta + 2))
    c, d = delta**2 + delta * (2 * p1 + theta + 1) + p1 + theta * p0, -p1 * delta * (1 + delta)
    v = b**3 / (3 * a) ** 3 - b * c / (6 * a**2) + d / (2 * a)
    u = np.sign(v) * np.sqrt(max(0.0, b**2 / (3 * a) ** 2 - c / (3 * a)))
    w = (np.pi + np.arccos(np.clip(v / u**3, -1, 1))) / 3
    first = 2 * u * np.cos(w) - b / (3 * a)
    return first, first - delta


def test_restricted_rates_are_those_of_farrington_and_manning() -> None:
    rng = np.random.default_rng(0)
    for _ in range(500):
        n1, n0 = (int(n) for n in rng.integers(1, 400, 2))
        x1 = int(rng.choice(np.array([0, n1, rng.integers(0, n1 + 1)])))
        x0 = int(rng.choice(np.array([0, n0, rng.integers(0, n0 + 1)])))
        delta = float(rng.uniform(-0.9, 0.9))
        result = pair(x1, n1, x0, n0).restricted(delta)
        assert result == pytest.approx(farrington_manning(x1, n1, x0, n0, delta), abs=1e-9)


@pytest.mark.parametrize("delta", [-0.2, 0.05, 0.3])
def test_tails_of_few_rows_are_sums_over_both_binomials(delta: float) -> None:
    part = pair(6, 14, 2, 9)
    r1, r0 = part.restricted(delta)
    x, y = np.arange(15)[:, None], np.arange(10)[None, :]
    mass, seen = stats.binom.pmf(x, 14, r1) * stats.binom.pmf(y, 9, r0), x / 14 - y / 9
    half = 1 / 18  # half a row of the smaller group
    assert part.tail(delta) == pytest.approx(mass[seen >= part.value - half - 1e-12].sum(), rel=1e-10)
    assert part.mirrored.tail(-delta) == pytest.approx(mass[seen <= part.value + half + 1e-12].sum(), rel=1e-10)


def test_tails_of_many_rows_are_normal() -> None:
    part = pair(5_200, 10_000, 5_000, 10_000)
    z = 0.01 / np.sqrt(part.variance(part.restricted(0.01)))
    assert part.tail(0.01) == pytest.approx(stats.norm.sf(z), rel=1e-12)
    # The sum and the normal approximation agree where both can be used.
    near = pair(70, 200, 5_000, 20_000)
    assert near._summed(near.restricted(0.05), near.value) == pytest.approx(near.tail(0.05), rel=0.1)


@pytest.mark.parametrize("rows", [12, 25, 100])
def test_the_edge_is_crossed_by_chance_in_at_most_one_of_twenty(rows: int) -> None:
    """Enumerated: against a group so large that its rate is known, each error has probability at most 0.05."""
    others, x = 1_000_000, np.arange(rows + 1)
    for rate, tolerance in ((0.002, 0.1), (0.02, 0.1), (0.1, 0.05), (0.3, -0.1), (0.5, 0.19), (0.8, 0.15)):
        turn = 1.0 if tolerance > 0 else -1.0
        parts = [pair(float(k), rows, rate * others, others) for k in x]
        parts = [part if turn > 0 else part.mirrored for part in parts]
        mass = stats.binom.pmf(x, rows, rate + tolerance)
        beyond = np.array([part.tail(abs(tolerance)) for part in parts])
        within = np.array([part.mirrored.tail(-abs(tolerance)) for part in parts])
        assert mass[beyond <= 0.05].sum() <= 0.05
        assert mass[within <= 0.05].sum() <= 0.05


def test_edges_of_what_can_be() -> None:
    certain = pair(0, 50, 0, 80)
    assert certain.restricted(0.0) == pytest.approx([0.0, 0.0])
    assert certain.tail(0.0) == 1.0
    # Rates cannot differ by more than 1: the closest possible ones.
    assert pair(3, 5, 1, 5).restricted(2.0) == pytest.approx([1.0, 0.0], abs=1e-6)
