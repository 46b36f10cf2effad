"""Several contrasts at once, by their covariance: against other programs, and what can be asked of it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from isonomy.errors import UsageError
from isonomy.groups.likelihood.joint import NoDifference, quadratic, welch
from isonomy.numerics.tails import chi2_isf


def test_dependent_contrasts_count_once() -> None:
    rng = np.random.default_rng(1)
    loads, d = rng.normal(size=(3, 3)), rng.normal(size=3)
    covariance = loads @ loads.T
    expected = float(d @ np.linalg.solve(covariance, d))
    statistic, df = quadratic(d, covariance)
    assert df == 3
    assert statistic == pytest.approx(expected)
    double = np.vstack([np.eye(3), [[1.0, -2.0, 0.5], [0.0, 0.0, 0.0]]])  # a sum of others, and nothing
    statistic, df = quadratic(double @ d, double @ covariance @ double.T)
    assert df == 3
    assert statistic == pytest.approx(expected)


def test_means_are_compared_as_by_welchs_anova() -> None:
    oneway = pytest.importorskip("statsmodels.stats.oneway")
    rng = np.random.default_rng(2)
    samples = [rng.normal(0.3 * i, 1.0 + i, size=n) for i, n in enumerate((12, 20, 9, 30))]
    theirs = oneway.anova_oneway(samples, use_var="unequal", welch_correction=True)
    means, n = np.array([x.mean() for x in samples]), np.array([float(x.size) for x in samples])
    variance = np.array([x.var(ddof=1) for x in samples]) / n
    statistic, df = quadratic(means[1:] - means[0], np.diag(variance[1:]) + variance[0])
    assert welch(statistic, df, variance, n - 1.0) == pytest.approx(theirs.pvalue, rel=1e-9)
    assert welch(statistic, df, variance, np.full(4, 1e9)) == pytest.approx(stats.chi2.sf(statistic, df), rel=1e-6)


def test_only_no_difference_can_be_asked() -> None:
    kept = NoDifference(3, 7.5, 2, "ratio")
    assert (kept.test(1.0).statistic, kept.test(np.ones(3)).df) == (7.5, 2)
    assert kept.critical(0.05, 2) == pytest.approx(float(chi2_isf(0.05, 2)))
    with pytest.raises(UsageError, match=r"disparities: only no difference \(1\)"):
        kept.test(0.9)
