"""Errors of groups."""

from __future__ import annotations

import numpy as np
import pytest

from isonomy.effects.estimators.collapse import Formula
from isonomy.effects.estimators.errors import GroupEffects, effects_of, errors_of
from isonomy.effects.estimators.moments import ArmMoments
from isonomy.numerics.status import Status

NAMES = ("y", "yf")


def moments(n: list[list[float]], y: list[list[float]], yf: list[list[float]]) -> ArmMoments:
    mean = np.stack([np.array(y), np.array(yf)], -1)
    cov = np.broadcast_to(np.array([[0.2, 0.1], [0.1, 0.3]]), (*mean.shape, 2))
    return ArmMoments(NAMES, np.array(n), mean, np.array(cov))


def sound() -> ArmMoments:
    return moments(
        [[100, 120], [80, 60], [40, 50]], [[0.4, 0.6], [0.5, 0.5], [0.2, 0.3]], [[0.5, 0], [0.6, 0], [0.3, 0]]
    )


def test_errors_by_hand() -> None:
    errors = errors_of(sound(), Formula())
    np.testing.assert_allclose(errors.effects.predicted, [1.25, 1.2, 1.5])
    np.testing.assert_allclose(errors.effects.observed, [1.5, 1.0, 1.5])
    np.testing.assert_allclose(errors.error.value, errors.effects.error)
    np.testing.assert_allclose(errors.rest.value, errors.effects.rest_error)
    # The rest of the first group: 140 and 90 rows of the others, as shares of both top and bottom.
    top, bottom = 140 * 0.6 + 90 * 0.3, 140 * 0.5 + 90 * 0.2
    assert errors.effects.rest_predicted[0] == pytest.approx(top / bottom)
    assert errors.status == (Status.OK,) * 3


def test_the_first_reason_is_reported() -> None:
    broken = moments(
        [[0, 0], [0, 9], [9, 0], [50, 50], [1, 50]],
        [[0, 0], [0, 0.5], [0.5, 0], [0.0, 0.5], [0.5, 0.5]],
        [[0, 0]] * 5,
    )
    errors = errors_of(broken, Formula())
    reasons = (Status.EMPTY, Status.NO_CONTROL, Status.NO_TREATED, Status.ZERO_BASELINE, Status.TOO_SMALL)
    assert errors.status == reasons
    assert not errors.usable.any()


def test_given_effects_have_their_own_standard_error() -> None:
    known = np.array([[1.5, 0.5], [1.0, 0.0], [np.nan, np.nan]])
    errors, without = (errors_of(sound(), Formula(), effects) for effects in (known, known * [1, 0]))
    assert errors.status[2] is Status.UNSUPPORTED
    np.testing.assert_allclose(errors.effects.observed[:2], [1.5, 1.0])
    variance, least = (e.error.standard_error**2 for e in (errors, without))
    np.testing.assert_allclose((variance - least)[:2], [0.25, 0.0], atol=1e-12)


def test_halves_take_predictions_from_one_and_outcomes_from_the_other() -> None:
    other = moments([[90, 90]] * 3, [[0.5, 0.7]] * 3, [[0.1, 0]] * 3)
    for rest in ("standardized", "pooled"):
        errors = errors_of(sound(), Formula(rest=rest), estimation=other)
        np.testing.assert_allclose(errors.effects.predicted, [1.25, 1.2, 1.5])
        np.testing.assert_allclose(errors.effects.observed, 1.4)
        np.testing.assert_allclose(errors.error.value, errors.effects.error)
        np.testing.assert_allclose(errors.rest.value, errors.effects.rest_error)


def test_variances_of_resamples() -> None:
    errors = errors_of(sound(), Formula())
    value = effects_of(sound(), Formula(), errors.in_rest)
    step = np.array([-0.1, 0.1, np.nan])[:, None] * np.ones(3)
    draws = GroupEffects(value.predicted + step, value.observed, value.rest_predicted + 2 * step, value.rest_observed)
    resampled = errors.resampled(draws)
    np.testing.assert_allclose(resampled.error.standard_error**2, 0.02)
    np.testing.assert_allclose(resampled.rest.standard_error**2, 0.08)
    np.testing.assert_allclose(resampled.error.value, errors.error.value)
