"""Sums, moments, smooth functions of them, and the bootstrap."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from isonomy.effects.estimators.collapse import (
    COLLAPSES,
    CollapseName,
    EstimatorName,
    Formula,
    Measure,
    gradients,
    pieces,
)
from isonomy.effects.estimators.errors import effects_of, errors_of
from isonomy.effects.estimators.moments import (
    COLUMNS,
    ArmMoments,
    ExperimentRows,
    product,
    resample_rows,
)
from isonomy.numerics.arrays import FloatArray
from isonomy.simulate import uplift


def of_rows(columns: tuple[str, ...], rows: list[list[FloatArray]]) -> ArmMoments:
    """Moments of groups of two arms, each an array (row, column)."""
    n = np.array([[float(len(arm)) for arm in group] for group in rows])
    sums = np.array([[arm.sum(0) for arm in group] for group in rows])
    return ArmMoments.from_sums(columns, n, sums, np.array([[arm.T @ arm for arm in group] for group in rows]))


def test_a_correction_moves_the_moments_as_it_moves_the_rows() -> None:
    names = ("y", "f", "h", "p0", "p1", *(name for name in COLUMNS if name != "y/f"))
    rng = np.random.default_rng(2)
    factors = {name: rng.gamma(2.0, size=(2, 2, 50)) for name in ("y", "f", "h", "p0", "p1")}
    delta = np.array([0.3, -0.2])

    def moments(effect: FloatArray) -> ArmMoments:
        values = {**factors, "f": effect}
        columns = [np.prod([values[factor] for factor in product(name).split()], axis=0) for name in names]
        stacked = np.stack(columns, -1)
        return of_rows(names, [list(group) for group in stacked])

    expected, actual = moments(factors["f"] - delta[:, None, None]), moments(factors["f"]).corrected(np.ones(2), delta)
    assert expected.cov is not None
    assert actual.cov is not None
    np.testing.assert_allclose(actual.mean, expected.mean, rtol=1e-9)
    np.testing.assert_allclose(actual.cov, expected.cov, rtol=1e-7, atol=1e-10)


def test_what_rounding_leaves_of_a_constant_is_no_variance() -> None:
    moments = of_rows(("y",), [[np.full((1000, 1), 0.1), np.full((7, 1), 1e6 + 0.1)]])
    assert moments.cov is not None
    assert (moments.cov == 0).all()


def test_the_skewness_of_a_comparison_of_arms() -> None:
    """One group: the third cumulants of both means add up; equal arms cancel out."""
    rng = np.random.default_rng(0)
    y, arm = rng.exponential(size=5_000), (rng.random(5_000) < 0.1).astype(np.intp)
    kind, zero = np.full(5_000, 2), np.zeros(5_000, dtype=np.intp)
    rows = ExperimentRows({"y": y}, arm, kind, np.ones(5_000), ((zero, 1),))
    (whole,) = rows.sums(("y",))
    treated, control = y[arm == 1], y[arm == 0]
    for effect in (1.0, 1.5):
        third = stats.moment(treated, 3) / treated.size**2 - effect**3 * stats.moment(control, 3) / control.size**2
        variance = treated.var() / treated.size + effect**2 * control.var() / control.size
        own = third / variance**1.5
        pooled = np.concatenate([treated - treated.mean(), control - control.mean()])
        number = 1 / treated.size**2 - 1 / control.size**2, 1 / treated.size + 1 / control.size
        both = (pooled**3).mean() / (pooled**2).mean() ** 1.5 * number[0] / number[1] ** 1.5
        np.testing.assert_allclose(whole.skewness(np.array([effect])), max(own, both))
    twice = replace(rows, arm=np.r_[zero[:2_500], zero[:2_500] + 1], factors={"y": np.tile(y[:2_500], 2)})
    (equal,) = twice.sums(("y",))
    assert abs(equal.skewness(np.ones(1))[0]) < 1e-9


NAMES = ("y", "yf", "y/f", "f", "h", "hf", "x:a", "x:b")


def moments() -> ArmMoments:
    rng = np.random.default_rng(4)
    groups, width = 3, len(NAMES)
    rows = rng.gamma(2.0, 0.5, size=(groups, 2, 400, width)) + 0.2
    mean = rows.mean(2)
    cov = np.einsum("gani,ganj->gaij", rows - mean[:, :, None], rows - mean[:, :, None]) / 399
    return ArmMoments(NAMES, np.array([[400.0, 300.0], [250.0, 500.0], [90.0, 80.0]]), mean, cov)


@pytest.mark.parametrize("estimator", ["arm_means", "regression"])
@pytest.mark.parametrize("measure", ["relative", "difference"])
@pytest.mark.parametrize("collapse", COLLAPSES)
def test_gradients_are_derivatives(collapse: CollapseName, measure: Measure, estimator: EstimatorName) -> None:
    base = moments()
    formula = Formula(measure, collapse, estimator, ("x:a", "x:b"))
    for part, (value, gradient) in enumerate(zip(pieces(base, formula), gradients(base, formula), strict=True)):
        for group, arm, k in ((0, 0, 0), (1, 1, 1), (2, 0, 5), (0, 1, 2), (1, 0, 6), (2, 1, 7)):
            step = 1e-6
            moved = base.mean.copy()
            moved[group, arm, k] += step
            shifted = pieces(replace(base, mean=moved), formula, fitted=base)
            slope = (shifted[part][group] - value[group]) / step
            assert gradient[group, arm, k] == pytest.approx(slope, rel=1e-4, abs=1e-6)


def experiment(rows: int, **design: Any) -> ExperimentRows:
    made = uplift(rows, **design).columns
    group, arm, y = np.unique(made["group"], return_inverse=True)[1], made["treatment"], made["outcome"]
    kind = np.where(y == 0, 0, np.where(y == 1, 1, 2))
    factors = {"y": y.astype(float), "f": made["effect"]}
    return ExperimentRows(factors, arm.astype(np.intp), kind, np.ones(rows), ((group, int(group.max()) + 1),))


@pytest.mark.parametrize("outcome", ["binary", "real"])
@pytest.mark.parametrize("measure", ["relative", "difference"])
def test_cells_and_rows_have_the_same_law(measure: Any, outcome: Any) -> None:
    lines = experiment(4_000, measure=measure, outcome=outcome, baseline=0.2, groups=2)
    formula = Formula(measure=measure)
    (sums,) = lines.sums(formula.columns)
    usable = errors_of(sums.moments(), formula).usable
    draws = 1_500
    fast = effects_of(sums.resampled(draws, np.random.default_rng(1)), formula, usable).error
    rows = resample_rows(lines, formula.columns, draws, np.random.default_rng(2))[0]
    slow = effects_of(rows, formula, usable).error
    # A 5 % quantile of 1,500 draws has a standard error of 0.055 sd, a difference of two 0.077 sd: four of those.
    sd = slow.std(0)
    for q in (0.05, 0.25, 0.5, 0.75, 0.95):
        assert (np.abs(np.quantile(fast, q, axis=0) - np.quantile(slow, q, axis=0)) < 0.31 * sd).all()
    np.testing.assert_allclose(fast.std(0), sd, rtol=4 / np.sqrt(2 * draws) * np.sqrt(2))
