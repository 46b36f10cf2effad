"""What was shown: allowance for many tests, tolerances, statuses, and reasons for what is not known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isonomy as iso
from isonomy.calibration import (
    calibration_metrics,
    equalize_thresholds,
    marginal_outcomes,
    predictive_parity,
)
from support.tables import margins, measured, rated, rising, scored

ROLES: dict[str, Any] = {"outcome": "y", "score": "s", "groups": "g"}


AT_HALF: dict[str, Any] = {"outcome": "y", "score": "s", "groups": "g", "threshold": 0.5}


def test_several_columns_are_allowed_for() -> None:
    """Four columns that mean nothing: of 40 tables as many as one in twenty may be called a violation."""
    called = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        s = rng.beta(2, 2, 1_000)
        data = {"s": s, "y": (rng.random(1_000) < s).astype(int)}
        columns = {f"g{k}": rng.integers(0, 2 + k % 2, 1_000) for k in range(4)}
        result = predictive_parity(
            data | columns, outcome="y", score="s", groups=list(columns), resamples=200, rng=seed
        )
        called += result.verdict is iso.Verdict.VIOLATION
        shown = [family.verdict is iso.Verdict.VIOLATION for family in result.families]
        assert (result.verdict is iso.Verdict.VIOLATION) == (result.pvalue <= 0.05) == any(shown)
        for family, found in zip(result.families, shown, strict=True):
            assert found or iso.Verdict.VIOLATION not in family.pair_verdicts
    assert called <= 7  # 0.05 + 3 standard errors of 40; without an allowance 0.17 of such tables are


def test_within_tolerance_is_shown_at_every_score_and_of_the_order() -> None:
    data = scored(8_000, seed=1)
    wide = predictive_parity(data, **ROLES, tolerance=0.25, rng=1)
    assert wide.verdict is wide.ordering_verdict is iso.Verdict.WITHIN_TOLERANCE
    family = wide.families[0]
    # Two one-sided tests at every score: the interval at twice alpha, which is narrower than the band.
    assert np.nanmax(family.pointwise_high) <= 0.25
    assert np.nanmean(family.pointwise_high - family.pointwise_low) < np.nanmean(family.high - family.low)
    assert predictive_parity(data, **ROLES, tolerance=0.001, rng=1).verdict is iso.Verdict.INCONCLUSIVE
    strict = predictive_parity(data, **ROLES, tolerance=0.25, order_tolerance=0.001, rng=1)
    assert strict.verdict is strict.ordering_verdict is iso.Verdict.INCONCLUSIVE
    assert strict.families[0].pair_verdicts == (iso.Verdict.WITHIN_TOLERANCE,)


@pytest.mark.parametrize("method", ["omnibus", "cumulative", "orthogonal"])
def test_a_small_difference_everywhere_is_within_a_wide_tolerance(method: Any) -> None:
    data = scored(n=20_000, slope=0.9)
    assert predictive_parity(data, **ROLES, method=method, rng=1).verdict is iso.Verdict.VIOLATION
    allowed = predictive_parity(data, **ROLES, method=method, tolerance=0.2, rng=1)
    assert allowed.pvalue == 1.0
    assert allowed.verdict is iso.Verdict.WITHIN_TOLERANCE
    beyond = predictive_parity(scored(n=20_000, slope=0.5), **ROLES, method=method, tolerance=0.05, rng=1)
    assert beyond.verdict is iso.Verdict.VIOLATION


def test_a_group_without_events_is_compared_by_those_expected() -> None:
    data = scored(n=3_000)
    data["y"] = np.where(data["g"] == "a", 0, data["y"])
    result = predictive_parity(data, **ROLES, rng=1)
    assert result.verdict is iso.Verdict.VIOLATION
    assert np.isnan(result.families[0].curve[0]).all()
    assert result.families[0].supported.any()


def test_a_tolerance_is_part_of_the_null() -> None:
    data = scored(n=20_000, slope=0.9)
    options: dict[str, Any] = {"grid": [0.3, 0.5], "rng": 1}
    assert predictive_parity(data, **ROLES, **options).verdict is iso.Verdict.VIOLATION
    allowed = predictive_parity(data, **ROLES, **options, tolerance=0.1)
    assert allowed.verdict is iso.Verdict.WITHIN_TOLERANCE
    assert allowed.pvalue == 1.0
    assert "at most 10.0 points" in allowed.null
    beyond = predictive_parity(scored(n=20_000, slope=0.5), **ROLES, **options, tolerance=0.1)
    assert beyond.verdict is iso.Verdict.VIOLATION
    # As the tolerance goes to nothing the test becomes the one of equality.
    close, equal = (predictive_parity(data, **ROLES, **options, tolerance=t) for t in (1e-12, None))
    assert close.families[0].pvalue_at == pytest.approx(equal.families[0].pvalue_at, rel=1e-6)
    assert close.pvalue == pytest.approx(equal.pvalue, rel=1e-6)


def wrong_way_round(n: int = 6_000) -> dict[str, Any]:
    """Groups with the same outcomes, which fall as the score rises."""
    rng = np.random.default_rng(2)
    s = rng.random(n)
    return {"s": s, "g": np.repeat([0, 1], n // 2), "y": (rng.random(n) < 0.8 - 0.6 * s).astype(int)}


def test_the_published_test_has_no_part_about_the_order() -> None:
    data = scored(slope=0.85)
    result = predictive_parity(data, **ROLES, method="published", rng=1)
    family = result.families[0]
    # Bonferroni over the scores, and nothing else: no share of alpha is kept for the order.
    assert result.pvalue == result.parity_pvalue == np.nanmin(family.pvalue_at) * np.isfinite(family.pvalue_at).sum()
    both = predictive_parity(data, **ROLES, method="nadaraya-watson", rng=1)
    np.testing.assert_array_equal(both.families[0].pvalue_at, family.pvalue_at)
    assert both.parity_pvalue == pytest.approx(result.pvalue / 0.9, rel=1e-12)
    asked = predictive_parity(data, **ROLES, method="nadaraya-watson", order=False, rng=1)
    assert asked.pvalue == result.pvalue
    reversed_order = predictive_parity(wrong_way_round(), **ROLES, method="published", rng=1)
    assert reversed_order.verdict is iso.Verdict.INCONCLUSIVE
    assert any("Nadaraya-Watson test rejects too often" in warning for warning in reversed_order.warnings)


@pytest.mark.parametrize("method", ["omnibus", "orthogonal", "residual", "published"])
def test_the_order_can_be_left_out(method: Any) -> None:
    data = wrong_way_round()
    both, alone = (predictive_parity(data, **ROLES, method=method, order=order, rng=1) for order in (True, False))
    assert both.verdict is both.ordering_verdict is iso.Verdict.VIOLATION
    assert alone.verdict is iso.Verdict.INCONCLUSIVE
    assert np.isnan(alone.ordering_pvalue)
    assert alone.families[0].order_verdict is None
    assert alone.pvalue == pytest.approx(float(both.families[0].pair_pvalue[0]), rel=1e-12)
    assert "at lower scores" in both.null
    assert "at lower scores" not in alone.null
    assert "The order of scores was not tested." in alone.findings()
    assert iso.from_json(alone.to_json()).families[0].order_verdict is None
    allowed = predictive_parity(data, **ROLES, method=method, order=False, tolerance=0.25, grid=[0.4, 0.5], rng=1)
    assert allowed.verdict is iso.Verdict.WITHIN_TOLERANCE


def differ_above(n: int = 20_000) -> dict[str, Any]:
    """Outcomes that are the same up to a score of 0.7, and differ from there on."""
    rng = np.random.default_rng(0)
    s, g = rng.random(n), np.repeat(["a", "b"], n // 2)
    return {"s": s, "g": g, "y": (rng.random(n) < np.where((g == "b") & (s > 0.7), 0.5 * s, s)).astype(int)}


@pytest.mark.parametrize("method", ["omnibus", "cumulative", "trend", "orthogonal"])
def test_a_grid_is_the_range_that_is_tested(method: Any) -> None:
    data = differ_above()
    assert predictive_parity(data, **ROLES, method=method, rng=1).verdict is iso.Verdict.VIOLATION
    # 0.45 is several bandwidths away from 0.7.
    below, above = (
        predictive_parity(data, **ROLES, method=method, grid=grid, rng=1) for grid in ([0.15, 0.3, 0.45], [0.8, 0.9])
    )
    assert below.parity_pvalue > 0.05
    assert below.verdict is iso.Verdict.INCONCLUSIVE
    assert above.verdict is iso.Verdict.VIOLATION
    assert "at every score from 0.150 to 0.450 " in below.null


def test_the_order_is_judged_on_the_range_of_the_grid() -> None:
    rng = np.random.default_rng(0)
    s, g = rng.random(20_000), np.repeat([0, 1], 10_000)
    data = {"s": s, "g": g, "y": (rng.random(20_000) < np.where(s < 0.5, s, 0.9 * (1 - s))).astype(int)}
    assert predictive_parity(data, **ROLES, rng=1).ordering_verdict is iso.Verdict.VIOLATION
    assert predictive_parity(data, **ROLES, grid=[0.6, 0.8], rng=1).ordering_verdict is iso.Verdict.VIOLATION
    assert predictive_parity(data, **ROLES, grid=[0.1, 0.4], rng=1).ordering_verdict is iso.Verdict.INCONCLUSIVE
    one = predictive_parity(data, **ROLES, grid=[0.8], rng=1)  # there is no order of a single score
    assert np.isnan(one.ordering_pvalue)
    assert one.pvalue == one.families[0].pair_pvalue[0]
    assert one.null == "at the score 0.800 the expected outcome is the same in all groups, counting rows."


def test_nothing_is_within_tolerance_where_nothing_is_known() -> None:
    result = predictive_parity(scored(n=20_000), **ROLES, grid=[0.5, 50], tolerance=0.2, rng=1)
    assert result.verdict is iso.Verdict.INCONCLUSIVE


def test_several_columns_are_allowed_for_at_the_margin() -> None:
    data = margins()
    columns = {f"g{k}": np.random.default_rng(k).integers(0, 2, data["s"].size) for k in range(4)}
    ask: dict[str, Any] = {"outcome": "y", "score": "s", "threshold": 0.5}
    every = marginal_outcomes(data | columns, **ask, groups=list(columns))
    raw = [family.pair_pvalue[0] for family in every.families]
    assert every.pvalue == pytest.approx(min(1, 4 * min(raw)))
    assert (every.verdict is iso.Verdict.VIOLATION) == (every.pvalue <= 0.05)


def test_tolerance_and_reference() -> None:
    result = marginal_outcomes(margins(30_000), **AT_HALF, tolerance=0.2, reference={"g": "b"})
    assert result.verdict is iso.Verdict.WITHIN_TOLERANCE
    assert result.families[0].pairs.tolist() == [[0, 1]]


def test_a_tolerance_is_part_of_the_null_at_the_margin() -> None:
    data = margins(20_000, power=2)
    plain, allowed = (marginal_outcomes(data, **AT_HALF, tolerance=t) for t in (None, 0.6))
    assert plain.verdict is iso.Verdict.VIOLATION
    assert allowed.verdict is iso.Verdict.WITHIN_TOLERANCE
    assert allowed.pvalue == 1.0


def test_thresholds_with_tied_scores_say_so() -> None:
    data = margins(5_000, power=1.5)
    data["s"] = np.round(data["s"], 1)
    found = equalize_thresholds(data, **AT_HALF)
    assert abs(found.overall_after - found.overall_before) > 1e-3
    assert "could not be kept" in found.warnings[0]


@pytest.mark.parametrize("seed", range(3))
def test_flat_outcomes_cannot_be_made_equal(seed: int) -> None:
    data = rated(lambda s, g: np.where(g == "a", 0.3, 0.6), seed=seed)
    for direction in ("both", "raise", "lower"):
        found = equalize_thresholds(data, **AT_HALF, direction=direction, resamples=100)
        assert found.status.count(iso.Status.INFEASIBLE) == (2 if direction == "both" else 1)
        for g, status in enumerate(found.status):
            if status is not iso.Status.INFEASIBLE:
                # A group that stays has the outcome of `marginal_outcomes`, with its error.
                assert abs(found.marginal_after[g] - found.target) < max(0.03, 3 * np.nan_to_num(found.marginal_se[g]))
                assert 0 < found.rate_after[g] < 1
        kept = {"raise": 1, "lower": 0}.get(direction)  # the group whose outcome is aimed at
        assert kept is None or found.thresholds[kept] == pytest.approx(0.5, abs=1e-9)
        assert any("still differ" in said for said in found.warnings)
        for rate, whom in ((0.0, "Nobody"), (1.0, "Everybody")):
            assert any(said.startswith(whom) for said in found.warnings) == bool(np.any(found.rate_after == rate))
        assert "infeasible" in found.summary()


def test_falling_outcomes_are_seen() -> None:
    data = rated(lambda s, g: rising(1 - s, g))
    found = equalize_thresholds(data, **AT_HALF)
    assert found.status == (iso.Status.INFEASIBLE, iso.Status.INFEASIBLE)
    assert any("fall as the score rises: g=a and g=b" in said for said in found.warnings)
    # The outcomes at the present threshold are those seen there, not those of a curve made to rise.
    np.testing.assert_allclose(found.marginal_before, [0.5, 0.5**1.5], atol=0.05)
    fine = equalize_thresholds(rated(rising), **AT_HALF)
    assert fine.status == (iso.Status.EXTRAPOLATED, iso.Status.OK)
    assert fine.warnings == ()


def test_what_is_not_known_has_a_reason() -> None:
    data = measured()
    assert calibration_metrics(data, **ROLES).warnings == ()
    apart = data | {"s": np.where(data["g"] == "a", 0.001, 0.998) + 0.001 * data["s"]}
    found = calibration_metrics(apart, **ROLES)
    assert np.isnan(found.parity_error).all()
    assert "g=a" in found.warnings[0]
    assert "grid" in found.warnings[0]
    assert np.isfinite(found.auc).all()
    one = calibration_metrics(data | {"y": np.where(data["g"] == "a", 1, data["y"])}, **ROLES)
    assert np.isnan(one.auc[1])
    assert "only one is seen in g=a" in one.warnings[0]
    real = calibration_metrics(data | {"y": data["y"] * 2.5}, **ROLES)
    assert "0 and 1" in real.warnings[0]


def test_scores_that_nobody_is_near_are_not_compared() -> None:
    """The paper's averages have no value where every weight is 0."""
    rng = np.random.default_rng(5)
    score = rng.random(3_000)
    table = {"g": rng.choice(["a", "b"], 3_000), "s": score, "y": (rng.random(3_000) < 0.8 * score + 0.1).astype(float)}
    roles: dict[str, Any] = {"outcome": "y", "score": "s", "groups": "g", "method": "published", "rng": 0}
    frame = iso.predictive_parity(table, grid=[0.5, 1.3, 1.4], **roles).to_frame()
    assert frame["status"].to_list() == ["ok", "unsupported", "unsupported"]
    assert np.isnan(frame["pvalue"].to_numpy()).tolist() == [False, True, True]
