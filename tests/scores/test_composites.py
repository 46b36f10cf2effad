"""Composite parity through the public call."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

import isonomy as iso
from isonomy.errors import UsageError
from isonomy.numerics.arrays import FloatArray
from isonomy.scores import composite_parity
from support.sampling import binomial_margin
from support.tables import two_scores

ROLES: dict[str, Any] = {
    "outcomes": ["u", "v"],
    "scores": ["a", "b"],
    "groups": "g",
    "method": iso.curves(resamples=300),
    "rng": 1,
}


def test_the_score_that_differs_has_the_worst_weight() -> None:
    result = composite_parity(two_scores(slope=0.7), **ROLES)
    assert result.verdict is iso.Verdict.VIOLATION
    assert result.worst_weights[0, 1] >= 0.5
    frame = result.to_frame()
    assert len(frame) == 11
    np.testing.assert_allclose(frame["weight a"] + frame["weight b"], 1.0)
    assert "The difference is clearest with weights of" in " ".join(result.summary().split())
    result.plot()
    again = iso.from_json(result.to_json())
    np.testing.assert_array_equal(again.to_frame()["pvalue"], frame["pvalue"])


def test_users_decide_the_variance() -> None:
    data = two_scores(500)
    twice = {name: np.repeat(values, 3) for name, values in data.items()} | {"m": np.repeat(np.arange(1_000), 3)}
    once, same = composite_parity(data, **ROLES), composite_parity(twice, **ROLES, user="m")
    np.testing.assert_allclose(same.disparity, once.disparity, rtol=1e-6)
    np.testing.assert_allclose(same.pvalues, once.pvalues, atol=0.02)


def test_a_line_counts_as_so_many_rows() -> None:
    data = two_scores(300)
    counted = composite_parity(data | {"k": np.full(data["g"].size, 3)}, **ROLES, count="k")
    copies = composite_parity({name: np.repeat(values, 3) for name, values in data.items()}, **ROLES)
    np.testing.assert_allclose(counted.disparity, copies.disparity, rtol=1e-9)
    np.testing.assert_allclose(counted.pvalues, copies.pvalues, rtol=1e-9)
    assert counted.pvalue == pytest.approx(copies.pvalue)


def test_rows_without_a_user_are_no_rows() -> None:
    """They shape neither the axis of scores nor the vote of the first user, and are counted by what they stand for."""
    data: dict[str, Any] = two_scores(400)
    rows = data["g"].size
    who = (np.arange(rows) // 2).astype(float)
    who[::7] = np.nan
    data |= {"m": who, "n": 1 + np.arange(rows) % 3}
    data["a"][::7] += 5.0
    kept = {name: values[~np.isnan(who)] for name, values in data.items()}
    for count in (None, "n"):
        options: dict[str, Any] = {**ROLES, "user": "m", "count": count}
        whole, part = composite_parity(data, **options, missing="drop"), composite_parity(kept, **options)
        np.testing.assert_allclose(whole.disparity, part.disparity, rtol=1e-12)
        assert whole.provenance.rows == part.provenance.rows
        lines = np.isnan(who) if count is None else data["n"] * np.isnan(who)
        assert whole.provenance.dropped == {"m": lines.sum()}


def test_many_rows_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("isonomy.scores.composites.MOST_ROWS", 100)
    with pytest.raises(UsageError, match="data: 200 rows; composite scores are compared on at most 100"):
        composite_parity(two_scores(100), **ROLES)


def by_user(rows: FloatArray) -> FloatArray:
    return np.asarray(rows[::2] + rows[1::2])


def spread(people: FloatArray) -> FloatArray:
    """HC3: the covariance of a sum over people, each divided by 1 - leverage."""
    leverage = np.diagonal(people @ np.linalg.solve(people.T @ people, people.T))
    return np.asarray(sum(np.outer(v, v) / (1 - h) ** 2 for v, h in zip(people, leverage, strict=True)))


def hotelling(people: FloatArray) -> float:
    (n, p), total = people.shape, people.sum(axis=0)
    square = total @ np.linalg.solve(spread(people), total)
    return float(stats.f.sf(square * (n - p) / (p * (n - 1)), p, n - p))


@pytest.mark.parametrize("tenths", [False, True])
def test_better_weights_and_joint_calibration_as_computed_by_hand(tenths: bool) -> None:
    """Against least squares with a sandwich over users, and HC3 with Hotelling's law of Y - S times a quadratic basis.

    ``tenths``: scores that equal some outcomes; these people count, although they add nothing to the sums.
    """
    data = two_scores(400, slope=0.8)
    size = data["g"].size
    if tenths:
        data |= {name: np.round(data[name] * 4) / 4 for name in ("a", "b")}
    data |= {"m": np.arange(size) // 2}
    used = np.array([2.0, 1.0])
    result = composite_parity(data, **ROLES, user="m", weights=used.tolist())
    S, Y = np.column_stack([data["a"], data["b"]]), np.column_stack([data["u"], data["v"]]).astype(float)
    root = np.full(size, 0.5) ** 0.5  # two rows a user, half a vote each
    slopes = np.linalg.lstsq(S * root[:, None], Y * root[:, None], rcond=None)[0]
    np.testing.assert_allclose(result.slopes, slopes, rtol=1e-10)
    best = slopes @ used
    np.testing.assert_allclose(result.better_weights(used.tolist()), best, rtol=1e-10)
    assert result.better is not None
    bread = np.linalg.inv(S.T @ S)
    covariance = bread @ spread(by_user((Y @ used - S @ best)[:, None] * S)) @ bread
    np.testing.assert_allclose(result.better.se, np.sqrt(np.diagonal(covariance)), rtol=1e-8)
    people = by_user((Y @ used - S @ used)[:, None] * S)  # under the null hypothesis
    np.testing.assert_allclose(result.better.pvalue, hotelling(people), rtol=1e-8)
    np.testing.assert_allclose(result.better.error, np.mean((Y @ used - S @ used) ** 2), rtol=1e-10)
    pvalues = []
    for k in range(2):
        basis = np.column_stack([np.ones(size), S, S[:, 0] ** 2, S[:, 0] * S[:, 1], S[:, 1] ** 2])
        pvalues.append(hotelling(by_user((Y[:, k] - S[:, k])[:, None] * basis)))
    holm = np.minimum(1, [2 * min(pvalues), max(max(pvalues), 2 * min(pvalues))])
    np.testing.assert_allclose(sorted(test.pvalue for test in result.joint), holm, rtol=1e-6)


def test_the_test_of_joint_calibration_holds_its_level_with_few_people() -> None:
    """With 200 people and Hotelling's law of the plain covariance it rejected 0.154 of 3,000 tables."""
    rng, pvalues = np.random.default_rng(0), []
    for _ in range(150):
        S = rng.random((200, 2))
        data: dict[str, Any] = {"a": S[:, 0], "b": S[:, 1], "g": np.arange(200) % 2}
        data |= {name: rng.random(200) < S[:, k] for k, name in enumerate("uv")}
        result = composite_parity(
            data, **ROLES | {"method": iso.curves(resamples=100, order=False)}, weights=[1.0, 1.0]
        )
        pvalues.append(min(test.pvalue for test in result.joint))
    assert np.mean(np.array(pvalues) <= 0.05) <= 0.05 + binomial_margin(0.05, 150)


def test_outcomes_that_are_too_skewed_have_no_test_of_joint_calibration() -> None:
    data = two_scores(200)
    skewed = np.random.default_rng(0).lognormal(sigma=2, size=data["g"].size)
    first, second = composite_parity(data | {"u": skewed}, **ROLES, weights=[1.0, 1.0]).joint
    assert np.isnan(first.pvalue)
    assert np.isfinite(second.pvalue)


def test_weights_in_production_are_one_weighted_score() -> None:
    """Scaling the weights scales the difference; a tolerance can be shown."""
    data = two_scores(slope=0.7)
    one, twice = (composite_parity(data, **ROLES, weights=[k * 0.5, k * 0.5]) for k in (1.0, 2.0))
    assert one.to_frame().shape[0] == 1
    np.testing.assert_allclose(twice.disparity, 2 * one.disparity, rtol=5e-3)  # other bins of the score axis
    np.testing.assert_allclose(twice.pvalues, one.pvalues, atol=0.02)
    tolerant = composite_parity(two_scores(4_000), **ROLES, weights=[0.5, 0.5], tolerance=0.5)
    assert tolerant.verdict is iso.Verdict.WITHIN_TOLERANCE
    with pytest.raises(UsageError, match=r"weights: .*give a finite number for each of the 2 scores"):
        composite_parity(data, **ROLES, weights=[1.0])


def test_a_reversed_order_is_a_violation_of_composites() -> None:
    rng = np.random.default_rng(2)
    a, b, g = rng.random(3_000), rng.random(3_000), np.repeat(["x", "y"], 1_500)
    data = {"a": a, "b": b, "g": g, "u": rng.random(3_000) < 0.9 - 0.8 * a, "v": rng.random(3_000) < 0.9 - 0.8 * b}
    both, alone = (
        composite_parity(data, **ROLES),
        composite_parity(data, **ROLES | {"method": iso.curves(resamples=300, order=False)}),
    )
    assert both.ordering_verdict is iso.Verdict.VIOLATION
    assert "one group has higher outcomes at lower scores" in both.headline()
    assert alone.orders == ()
    assert alone.verdict is iso.Verdict.INCONCLUSIVE


def test_skewed_composites_have_no_verdict() -> None:
    rng = np.random.default_rng(3)
    a, b, g = rng.random(2_100), rng.random(2_100), np.repeat(["x", "y"], [100, 2_000])
    u, v = a * rng.lognormal(0, 1.5, 2_100), b * rng.lognormal(0, 1.5, 2_100)
    result = composite_parity(
        {"a": a, "b": b, "g": g, "u": u, "v": v}, **ROLES | {"method": iso.curves(resamples=300, order=False)}
    )
    assert np.isnan(result.pvalues).all()
    assert iso.Status.SKEWED in result.status


def test_joint_calibration_needs_events() -> None:
    rng = np.random.default_rng(2)
    first = rng.beta(0.5, 20.0, 300)
    table: dict[str, Any] = {"g": rng.choice(["a", "b"], 300), "one": first, "two": rng.beta(2.0, 2.0, 300)}
    table |= {"y1": rng.random(300) < first, "y2": rng.random(300) < table["two"]}
    options: dict[str, Any] = {"outcomes": ["y1", "y2"], "scores": ["one", "two"], "groups": "g", "rng": 1}
    rare, common = composite_parity(table, **options, method=iso.curves(resamples=100)).joint
    assert np.isnan(rare.pvalue)
    assert 0 <= common.pvalue <= 1
