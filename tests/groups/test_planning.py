"""Planning: what is refused, and in which words."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

import isonomy as iso
from isonomy.errors import UsageError


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: iso.detectable_disparity(100, rate=0.3), "reference_n"),
        (lambda: iso.detectable_disparity(100, reference_n=0, rate=0.3), "reference_n"),
        (lambda: iso.detectable_disparity(0, reference="known", rate=0.3), "n"),
        (lambda: iso.detectable_disparity(100, reference="known", rate=0.3, tests=0), "tests"),
        (lambda: iso.rows_needed(0.9, rate=0.3), "disparity"),
        (lambda: iso.rows_needed(-0.1, rate=0.3, side="greater"), "disparity"),
        (lambda: iso.rows_needed(0.1, rate=0.3, ratio=0), "ratio"),
        (lambda: iso.rows_needed(0.1, variance=-1.0), "variance"),
        (lambda: iso.rows_needed(0.1, variance=math.inf), "variance"),
        (lambda: iso.rows_needed(0.1, variance=(1.0, 0.0)), "variance"),
        (lambda: iso.rows_needed(0.05, rate=0.3, tests=0), "tests"),
        (lambda: iso.rows_needed(0.05, rate=0.3, tests=1.5), "tests"),  # type: ignore[arg-type]
        (lambda: iso.power_of(0.05, 0.0), "standard_error"),
        (lambda: iso.power_of(0.05, math.nan), "standard_error"),
        (lambda: iso.power_of(math.inf, 0.1), "disparity"),
        (lambda: iso.power_of(None, 0.1), "disparity"),  # type: ignore[arg-type]
        (lambda: iso.power_of(0.05, "a"), "standard_error"),  # type: ignore[arg-type]
        (lambda: iso.detectable_disparity("a", reference="known", rate=0.3), "n"),  # type: ignore[arg-type]
        (lambda: iso.detectable_disparity(9, reference_n="a", rate=0.3), "reference_n"),  # type: ignore[arg-type]
        (lambda: iso.rows_needed("a", rate=0.3), "disparity"),  # type: ignore[arg-type]
        (lambda: iso.rows_needed(0.1, variance="a"), "variance"),  # type: ignore[arg-type]
        (lambda: iso.rows_needed(0.1, rate=0.3, ratio="a"), "ratio"),  # type: ignore[arg-type]
        (lambda: iso.rows_needed(1e-200, rate=0.3), "disparity"),
        (lambda: iso.rows_needed(1e-9, rate=0.3), "disparity"),
        # What would have no effect.
        (lambda: iso.rows_needed(0.1, rate=0.3, reference_variance=1.0), "reference_variance"),  # type: ignore[call-arg]
        (lambda: iso.rows_needed(0.1, reference="known", variance=(1.0, 1.0)), "variance"),
        (lambda: iso.detectable_disparity(100, reference="known", reference_n=50, rate=0.3), "reference_n"),
    ],
)
def test_bad_input_names_the_argument(call: Callable[[], object], argument: str) -> None:
    with pytest.raises(UsageError, match=f"^{argument}:"):
        call()


def test_the_power_of_a_dozen_rows_counts_the_skewness_that_normal_rows_show() -> None:
    rng = np.random.default_rng(3)
    n = iso.rows_needed(1.0, reference="known", variance=1.0)
    x = rng.normal(1.0, 1.0, size=(20_000, n))
    t, skewness = stats.ttest_1samp(x, 0.0, axis=1).statistic, stats.skew(x, axis=1)
    against = 1.5 * np.sqrt(n - 1.0) / (n - 2.0) * np.maximum(-skewness * np.sign(t), 0.0)
    bent = np.abs(t) - against * (t**2 / 3 + 1 / 6) + against**2 * np.abs(t) ** 3 / 27
    judged = np.abs(skewness) <= 2.5 * np.sqrt(6 * (n - 2) / ((n + 1) * (n + 3)))
    shown = (judged & (bent >= stats.t.isf(0.025, n - 1))).mean()
    assert shown >= 0.79
    assert iso.power_of(1.0, n=n, reference="known", variance=1.0) == pytest.approx(shown, abs=0.05)
