"""Corrections on held-out rows, and densities."""

from __future__ import annotations

import numpy as np
from scipy import stats

from isonomy.effects.estimators.collapse import Formula
from isonomy.effects.estimators.errors import errors_of
from isonomy.effects.estimators.heldout import REACH, Evaluation, Halves, Remainders, densities, density, silverman
from isonomy.effects.estimators.moments import ExperimentRows, Sums

HALVES: list[Halves] = [(np.array([0]), np.array([1])), (np.array([1]), np.array([0]))]


def sums(rows: int = 4_000) -> Sums:
    rng = np.random.default_rng(6)
    group, arm, y = rng.integers(0, 3, rows), rng.integers(0, 2, rows), rng.integers(0, 2, rows)
    factors = {"y": y.astype(float), "f": rng.normal(1.2, 0.2, rows) + 0.5 * (group == 1)}
    lines = ExperimentRows(factors, arm, y, np.ones(rows), ((group, 3),))
    return lines.sums(("y", "yf"), np.arange(rows), np.ones(rows), np.arange(rows) % 2, 2)[0]


def run(*, size: int = 3, single: bool = False) -> tuple[Remainders, np.ndarray[tuple[int, ...], np.dtype[np.float64]]]:
    evaluation = Evaluation(Formula(), ("none", "mean"), single, 20, 0.05)
    return evaluation.run(sums(), size, HALVES, np.random.default_rng(1))


def test_axes_are_strategy_run_and_group() -> None:
    remainders, statistics = run()
    assert remainders["error"].shape == (2, 2, 3)
    assert remainders["bias_draws"].shape == (2, 2, 20, 3)
    assert statistics.shape == (2, 3)
    first, statistics = run(size=1)
    assert first["bias_draws"].shape == (2, 2, 20, 1)
    assert statistics.shape == (2, 1)
    np.testing.assert_array_equal(first["bias_draws"], remainders["bias_draws"][..., :1])


def test_what_remains_is_the_difference_of_the_halves() -> None:
    remainders, _ = run()
    one, two = (errors_of(sums().part(half).moments(), Formula()).effects.error for half in HALVES[0])
    np.testing.assert_allclose(remainders["error"][0, 0], two)
    np.testing.assert_allclose(remainders["error"][1, 0], two - one, atol=1e-12)
    np.testing.assert_allclose(remainders["error"][1, 1], one - two, atol=1e-12)


def test_one_factor_for_the_rest_changes_biases_alone() -> None:
    rows, single = run()[0], run(single=True)[0]
    np.testing.assert_allclose(rows["error"], single["error"])
    np.testing.assert_allclose(rows["bias"][0], single["bias"][0])
    # Subtracting each group's own error, or the rest's own: equal up to what the shares of the halves differ.
    np.testing.assert_allclose(rows["bias"][1], single["bias"][1], atol=0.05)
    assert not np.array_equal(rows["bias"][1], single["bias"][1])


def test_a_density_is_scipys_with_the_same_bandwidth() -> None:
    sample = np.random.default_rng(0).normal(size=2_000)
    at = np.linspace(-3, 3, 31)
    kernel = stats.gaussian_kde(sample, bw_method=2 * silverman(sample) / np.std(sample, ddof=1))
    np.testing.assert_allclose(density(sample, at), kernel(at), atol=2e-4)  # values are binned


def test_samples_share_the_unit_of_the_first() -> None:
    rng = np.random.default_rng(1)
    wide, narrow = 5 * rng.normal(size=4_000), rng.normal(size=4_000)
    at, both, scale = densities([np.append(wide, np.nan), narrow])
    assert scale == np.std(wide)
    assert (at[0], at[-1]) == (-REACH, REACH)
    np.testing.assert_allclose(both.sum(1) * (at[1] - at[0]), 1, atol=0.01)
    assert both[1].max() > 3 * both[0].max()


def test_nothing_to_draw() -> None:
    for sample in (np.array([]), np.array([np.nan]), np.ones(5)):
        _, empty, scale = densities([sample, np.arange(3.0)])
        assert np.isnan(scale)
        assert np.isnan(empty).all()
    assert np.isnan(density(np.ones(5), np.zeros(2))).all()
