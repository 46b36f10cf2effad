"""Questions against the normal law, and the level of two asked together."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import norm

from isonomy.alternatives.rules.contrasts import Contrast, Equivalence
from isonomy.alternatives.rules.influence import Moments
from isonomy.numerics.arrays import FloatArray


def test_a_contrast_is_the_normal_law() -> None:
    question = Contrast(2.0, 4.0, 1.0, 0.2, 0.5, 0.0, 100)
    for delta in (-0.5, 0.0, 0.3, 0.9):
        z = (2 - 4 * delta) / np.sqrt(1 - 0.4 * delta + 0.5 * delta**2)
        assert question.pvalue(delta) == pytest.approx(norm.sf(z))


def test_gains_without_variance() -> None:
    assert Contrast(1.0, 4.0, 0.0, 0.0, 0.0, 0.0, 99).pvalue(0.0) == pytest.approx(0.01)
    assert Contrast(0.0, 4.0, 0.0, 0.0, 0.0, 0.0, 99).pvalue(0.0) == 1
    untouched = Contrast(0.0, 4.0, 0.0, 0.0, 0.0, 0.0, 99, identical=True)
    assert untouched.pvalue([0.0, -0.01, 0.01]).tolist() == [0, 0, 1]
    beside_a_cutoff = Contrast(0.0, 4.0, 0.0, 0.0, 0.5, 0.0, 99, identical=True)
    assert beside_a_cutoff.pvalue([0.0, -0.01, 0.01]).tolist() == [0, 0, 1]


def gap_question(f0: float, f1: float, covariance: FloatArray, step: float = 0.0) -> Equivalence:
    known = Moments(np.array([f0, f1]), covariance, 1_000, (0,))
    base, gap = np.eye(2)
    upper, lower = known.contrast(base - gap, base), known.contrast(base + gap, base)
    return Equivalence(upper, lower, float((base - gap) @ covariance @ (base + gap)), step)


@pytest.mark.parametrize("cut", [0.0, 0.5, 0.7, 0.9])
def test_equivalence_has_its_level_on_the_boundary_and_is_never_weaker_than_two_questions(cut: float) -> None:
    """Appendix E, l = 100: the gap of the candidate is exactly what the required cut leaves."""
    covariance, tables = np.array([[10.0, 6.85], [6.85, 10.83]]) / 100, 2_000
    draws = np.random.default_rng(1).multivariate_normal([1.52, (1 - cut) * 1.52], covariance, size=tables)
    together, apart = [], []
    for f0, f1 in draws:
        question = gap_question(f0, f1, covariance)
        together.append(float(question.pvalue(cut)))
        apart.append(max(float(question.upper.pvalue(cut)), float(question.lower.pvalue(cut))))
    assert (np.array(together) <= np.array(apart) + 1e-15).all()
    assert abs(np.mean(np.array(together) <= 0.05) - 0.05) < 3 * np.sqrt(0.05 * 0.95 / tables)
    assert cut < 0.6 or np.mean(np.array(apart) <= 0.05) < 0.01


def test_equivalence_with_a_known_margin_is_the_most_powerful_unbiased_test() -> None:
    question = gap_question(1.0, 0.1, np.diag([1e-18, 0.25]))
    assert float(question.pvalue(0.0)) == pytest.approx(ndtr(-1.8) - ndtr(-2.2), abs=1e-6)
    assert float(gap_question(1.0, 0.1, np.diag([1e-18, 0.25]), step=0.05).pvalue(0.0)) == pytest.approx(
        ndtr(-1.7) - ndtr(-2.3), abs=1e-6
    )
    outside = gap_question(0.1, 0.2, np.diag([1e-18, 0.25]))
    assert float(outside.pvalue(0.0)) == float(outside.upper.pvalue(0.0)) > 0.5
    not_shown = gap_question(0.1, 0.0, np.diag([0.01, 4.0]))
    assert float(not_shown.pvalue(0.0)) == pytest.approx(ndtr(-1.0))
