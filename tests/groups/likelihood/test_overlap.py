"""References that overlap a group in part."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isonomy as iso
from isonomy.groups.likelihood.joint import Patterns, _Dual
from isonomy.groups.likelihood.means import IDENTITY, LOG
from isonomy.groups.likelihood.overlap import IN_GROUP, IN_REFERENCE, Overlapping, OverlapScore, Pair
from isonomy.groups.options import LikelihoodKind as Method
from isonomy.numerics.arrays import FloatArray
from support.groups import moved

RATE: dict[str, Any] = {"metric": "selection_rate", "groups": "race", "prediction": "selected"}
M = iso.Metric("m", iso.col("x"))
LOSS: dict[str, Any] = {"metric": iso.Metric("loss", value=iso.col("loss")), "groups": "race"}
UNITS = [(1e6, 1.0), (0.0, 1e-12), (-1e6, 1e3), (0.0, 1e12)]


def test_an_interval_ends_beyond_what_the_estimated_reference_allows() -> None:
    """A group at 0.95 against a reference it shares rows with: 0.9 + 0.12 is no rate, but the reference may be 0.85."""
    data = {
        "race": np.repeat(["a", "b"], 60),
        "sex": np.tile(np.repeat(["f", "m"], 30), 2),
        "selected": np.concatenate([np.repeat([1, 0], [ones, 30 - ones]) for ones in (28, 29, 26, 25)]),
    }
    result = iso.flag(data, **RATE, reference={"sex": "f"}, alpha=0.001)
    assert result.reference_value[0] + result.ci_high[0] > 1
    end = iso.flag(data, **RATE, reference={"sex": "f"}, null=float(result.ci_high[0]), adjust="none")
    assert end.pvalue[0] == pytest.approx(0.001, rel=1e-5)


def test_a_partly_overlapping_reference_is_centred_over_all_rows() -> None:
    rng = np.random.default_rng(7)
    race, sex = rng.choice(["a", "b", "c"], size=300), rng.choice(["f", "m"], size=300)
    data = {"x": rng.exponential(size=300), "g": race, "s": sex}
    options: dict[str, Any] = {"metric": M, "groups": iso.where("a", iso.col("g") == "a"), "reference": {"s": "f"}}
    one = iso.flag(data, method="eel", **options)
    joint = iso.certify(data, method="eel", **options)
    assert one.statistic[0] == pytest.approx(joint.statistic, rel=1e-8)


@pytest.mark.parametrize("method", ["el", "eel"])
@pytest.mark.parametrize("reference", [{"sex": "u"}, "estimate"], ids=str)
def test_a_reference_that_overlaps_has_no_unit_and_no_origin(reference: Any, method: Method) -> None:
    def asked(shift: float, scale: float) -> iso.FlagResult:
        data, estimate = moved(shift, scale)
        chosen = estimate if reference == "estimate" else reference
        return iso.flag(data, method=method, reference=chosen, **LOSS)

    first = asked(0.0, 1.0)
    for shift, scale in UNITS:
        again = asked(shift, scale)
        assert again.statistic == pytest.approx(first.statistic, rel=1e-6)
        for name in ("disparity", "ci_low", "ci_high", "standard_error"):
            assert getattr(again, name) == pytest.approx(scale * getattr(first, name), rel=1e-6), name


def test_rounding_of_many_weighted_rows_does_not_use_up_the_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step that gains less than the sums' rounding was tried at every length: up to 5,000 steps, and no answer."""
    steps = 0
    evaluate = _Dual.evaluate

    def counted(dual: _Dual, multipliers: FloatArray, theta: FloatArray) -> None:
        nonlocal steps
        steps += 1
        evaluate(dual, multipliers, theta)

    monkeypatch.setattr(_Dual, "evaluate", counted)
    for seed in range(200):
        rng = np.random.default_rng(seed)
        n = 3_000
        group = rng.integers(0, 3, n) == 0
        values = rng.choice([-0.6, 0.0, 0.35, 0.7], n, p=[0.2, 0.3, 0.2, 0.3])
        weights = np.exp(0.5 * rng.normal(size=n))
        data = Patterns(group.astype(int), 2, (values,), weights * n / weights.sum())
        pair = Pair(data, np.array([0.0, 1.0]), np.ones(2))
        assert np.isfinite(Overlapping((pair,), "el").statistic(0.0)).all()
    assert steps < 200 * 20


N, ONES = np.array([[10.0, 24.0], [1_200.0, 800.0], [15.0, 36.0]]), np.array([[2.0, 3.0], [100.0, 80.0], [1.0, 5.0]])


def test_the_score_of_overlapping_rates_has_the_error_of_their_likelihood() -> None:
    for link in (IDENTITY, LOG):
        scores, pairs = OverlapScore(N, ONES, link), []
        for n, ones in zip(N.T, ONES.T, strict=True):
            mass = np.column_stack([n - ones, ones]).ravel()
            data = Patterns.from_counts(np.repeat([0, 1, 2], 2), 3, np.tile([0.0, 1.0], 3), mass)
            pairs.append(Pair(data, IN_GROUP, IN_REFERENCE, link=link))
        likelihood = Overlapping(tuple(pairs), "el")
        np.testing.assert_allclose(scores.value, likelihood.value, rtol=1e-12)
        np.testing.assert_allclose(scores.standard_error, likelihood.standard_error, rtol=1e-12)
        np.testing.assert_allclose(scores.statistic(0.0), likelihood.statistic(0.0), rtol=0.15)
        for end in scores.interval(3.84):
            np.testing.assert_allclose(scores.statistic(end), 3.84, rtol=1e-6)
    # Equality is the same hypothesis on both scales.
    np.testing.assert_allclose(scores.statistic(0.0), OverlapScore(N, ONES).statistic(0.0), rtol=1e-9)


def test_the_score_of_many_overlapping_rates_is_their_likelihood_ratio() -> None:
    scores = OverlapScore(1e6 * N, 1e6 * ONES)
    near = scores.value + 1.5 * scores.standard_error
    np.testing.assert_allclose(scores.statistic(near), 2.25, rtol=1e-3)


def test_overlapping_rates_without_a_case_have_an_interval() -> None:
    low, high = OverlapScore(np.array([[10.0], [900.0], [15.0]]), np.array([[0.0], [90.0], [0.0]])).interval(3.84)
    assert -0.13 < low[0] < -0.1
    assert 0.0 < high[0] < 0.1
