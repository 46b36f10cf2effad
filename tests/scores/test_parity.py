"""Predictive parity through the public call: tables with a known truth, verdicts, rows, refusals, and words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest

import isonomy as iso
from isonomy.errors import MissingValues, UnknownColumn, UsageError, WrongType
from isonomy.frames import open_source
from isonomy.report import Document, Entry, html
from isonomy.results.questions import QUESTIONS
from isonomy.scores import predictive_parity
from isonomy.scores.words import parity_pair
from support.curved import curved
from support.tables import scored

ROLES: dict[str, Any] = {"outcome": "y", "score": "s", "groups": "g"}
VIOLATION, WITHIN, INCONCLUSIVE = iso.Verdict.VIOLATION, iso.Verdict.WITHIN_TOLERANCE, iso.Verdict.INCONCLUSIVE


def ask(data: Any, **options: Any) -> Any:
    return predictive_parity(data, **curved(ROLES | {"rng": 1} | options))


def differ_above(n: int = 20_000) -> dict[str, Any]:
    """Outcomes that are the same up to a score of 0.7, and differ from there on."""
    rng = np.random.default_rng(0)
    s, g = rng.random(n), np.repeat(["a", "b"], n // 2)
    return {"s": s, "g": g, "y": (rng.random(n) < np.where((g == "b") & (s > 0.7), 0.5 * s, s)).astype(int)}


def wrong_way_round(n: int = 6_000) -> dict[str, Any]:
    """Groups with the same outcomes, which fall as the score rises."""
    rng = np.random.default_rng(2)
    s = rng.random(n)
    return {"s": s, "g": np.repeat([0, 1], n // 2), "y": (rng.random(n) < 0.8 - 0.6 * s).astype(int)}


def weighted(seed: int = 0) -> dict[str, Any]:
    data = scored(800, seed=seed)
    return data | {"w": np.random.default_rng(seed).integers(1, 4, data["s"].size).astype(float)}


# ---- the truth is found


@pytest.mark.parametrize("method", ["residual", "orthogonal", "published", "cumulative"])
@pytest.mark.parametrize("user", [None, "m"])
def test_a_planted_difference_is_found(method: Any, user: str | None) -> None:
    result = ask(scored(slope=0.6), user=user, method=method)
    assert result.verdict is VIOLATION
    assert result.pvalue < 1e-3
    assert method == "published" or result.ordering_pvalue < 0.05
    at = int(np.nanargmax(np.abs(result.disparity / result.se)))
    true = 0.4 * result.score[at]
    assert result.ci_low[at] < true + 0.05
    assert result.ci_high[at] > true - 0.05


def test_three_groups_by_pair_and_against_a_reference() -> None:
    data = scored(slope=0.6, groups=3)
    pairs = ask(data)
    starts = pairs.starts()
    named = [(pairs.labels[i], pairs.against[i]) for i in starts]
    assert named == [("g=a", "g=b"), ("g=a", "g=c"), ("g=b", "g=c")]
    adjusted = pairs.pair_adjusted_pvalue[starts]
    assert adjusted[0] > 0.05 > max(adjusted[1:])
    base = ask(data, reference={"g": "c"})
    assert [(base.labels[i], base.against[i]) for i in base.starts()] == named[1:]
    np.testing.assert_allclose(base.disparity, pairs.disparity[starts[1] :], rtol=1e-12)


def test_user_level_and_aggregate_differ_when_activity_follows_the_outcome() -> None:
    rng = np.random.default_rng(0)
    many = np.where(rng.random(3_000) < 0.3, 10, 1)
    m, g = np.repeat(np.arange(3_000), many), np.repeat(rng.integers(0, 2, 3_000), many)
    s, busy = rng.beta(2, 2, m.size), np.repeat(many == 10, many)
    data = {"s": s, "y": (rng.random(m.size) < np.where(busy & (g == 1), 0.9 * s, s)).astype(int), "g": g, "m": m}
    user, aggregate = ask(data, user="m"), ask(data, user="m", level="aggregate")
    at = user.score.size // 2
    assert abs(aggregate.reference[at] - 0.92 * aggregate.score[at]) < 0.06
    assert user.reference[at] > aggregate.reference[at]


@pytest.mark.parametrize("kernel", ["gaussian4", "gaussian6"])
@pytest.mark.parametrize("method", ["published", "residual"])
def test_higher_order_kernels(kernel: Any, method: Any) -> None:
    assert ask(scored(slope=0.5), kernel=kernel, method=method).verdict is VIOLATION


def test_constant_scores_compare_means() -> None:
    data = scored(slope=0.6) | {"s": np.full(3_000, 0.4)}
    result = ask(data)
    a, b = (data["y"][data["g"] == g].mean() for g in "ab")
    np.testing.assert_allclose(result.disparity, [a - b], rtol=1e-9)
    assert any("so the test compares mean outcomes" in warning for warning in result.warnings)


def test_a_grid_says_what_it_leaves_out() -> None:
    single = ask(scored(), grid=0.5).warnings
    assert any("at a single score in the table g. The verdict says nothing about other scores" in w for w in single)
    outside = ask(scored(), grid=[-1.0, 0.4, 0.6, 2.0]).warnings
    assert any("2 of the 4 scores of the grid lie outside the range of the scores" in w for w in outside)


def test_a_difference_whose_interval_contains_zero_was_not_shown_at_its_score() -> None:
    result = ask(scored(slope=0.6))
    i = int(np.nanargmin(result.adjusted_pvalue))
    assert "The largest difference shown is at a score of" in parity_pair(result, i)
    crossing = replace(result, ci_low=result.ci_low * 0 - 0.01, ci_high=result.ci_high * 0 + 0.5)
    assert "The largest estimated difference is at a score of" in parity_pair(crossing, i)
    assert parity_pair(crossing, i).endswith("; the interval there includes 0.")


def test_nearly_every_score_the_same() -> None:
    data = scored()
    s = np.where(np.arange(data["s"].size) % 100 == 0, data["s"], 0.5)
    assert np.isfinite(ask(data | {"s": s}).estimate).any()


def test_scores_outside_the_unit_interval() -> None:
    data = scored(slope=0.6)
    plain = ask(data, bandwidth=0.1, grid=[0.3, 0.5])
    data["s"] = 100 * data["s"] - 20
    moved = ask(data, bandwidth=10, grid=[10, 30])
    np.testing.assert_allclose(moved.disparity, plain.disparity, rtol=0.02)
    assert any("below 0 or above 1" in warning for warning in moved.warnings)
    assert np.all(ask(data).bandwidth > 1)


@pytest.mark.parametrize("change", ["narrow", "wide", "stray", "far"])
def test_the_bandwidth_follows_where_the_scores_lie(change: str) -> None:
    data = scored()
    plain = ask(data)
    factor = {"narrow": 0.01, "wide": 1e6}.get(change, 1.0)
    s = factor * data["s"]
    if factor == 1:
        s[7] = 10 if change == "stray" else 1e9
    moved = ask(data | {"s": s})
    middle = slice(3, -3)
    for name, size in (("score", factor), ("bandwidth", factor)):
        np.testing.assert_allclose(getattr(moved, name)[middle], size * getattr(plain, name)[middle], rtol=0.1)
    for name in ("estimate", "reference"):
        np.testing.assert_allclose(getattr(moved, name)[middle], getattr(plain, name)[middle], atol=0.03)
    paper = ask(data | {"s": s}, method="published")
    assert paper.bandwidth.max() >= moved.bandwidth.max()  # the paper's rule is for [0, 1], or the whole range


@pytest.mark.parametrize("method", ["residual", "orthogonal"])
def test_a_difference_has_its_size_when_groups_score_differently(method: Any) -> None:
    """f is s in one group and s^2 in the other, scores Beta(2, 5) and Beta(5, 2): 0.25 apart at 0.5."""
    found = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        s = np.concatenate([rng.beta(2, 5, 5_000), rng.beta(5, 2, 5_000)])
        g = np.repeat(["a", "b"], 5_000)
        y = (rng.random(s.size) < np.where(g == "a", s, s**2)).astype(int)
        result = ask({"s": s, "g": g, "y": y}, method=method, grid=[0.4, 0.5])
        found.append(np.append(result.disparity, result.se))
    difference, se = np.split(np.mean(found, axis=0), 2)
    # Three standard errors of a mean of ten, and the bias of smoothing s - s^2 over the bandwidth of 0.1: its square.
    assert np.all(np.abs(difference - [0.24, 0.25]) < 3 * se / np.sqrt(10) + 0.01)


def test_a_third_group_does_not_enter_a_pair() -> None:
    two, three = scored(), scored()
    extra = scored(seed=5, slope=0.3)
    for name in three:
        more = np.full(extra["g"].size, "z") if name == "g" else extra[name]
        three[name] = np.concatenate([three[name], more])
    alone, beside = (ask(data, grid=[0.3, 0.5], bandwidth=0.1) for data in (two, three))
    # Bins stand at the mean of everybody's scores, which the third group moves by a part of a bin.
    np.testing.assert_allclose(alone.disparity, beside.disparity[:2], rtol=1e-3)


# ---- support


def test_a_point_with_few_users_is_not_estimated() -> None:
    data = scored()
    keep = (data["g"] == "a") | (data["s"] > 0.5)
    result = ask({k: v[keep] for k, v in data.items()}, grid=[0.1, 0.7])
    assert np.isnan(result.disparity).tolist() == [True, False]
    assert np.isnan(result.reference[0])
    assert not np.isnan(result.estimate[0])
    assert result.to_frame()["status"].to_list() == ["unsupported", "ok"]
    assert any("were not made" in warning for warning in result.warnings)


def test_the_support_rule_counts_the_rarer_outcome() -> None:
    data = scored(n=400)
    data["y"] = (np.arange(800) % 100 == 0).astype(int)  # 4 events a group; 10 are needed
    result = ask(data)
    assert np.isnan(result.pvalue)
    assert result.verdict is INCONCLUSIVE
    assert not result.answered


def test_a_group_without_events_is_compared_by_those_expected() -> None:
    data = scored(n=3_000)
    data["y"] = np.where(data["g"] == "a", 0, data["y"])
    result = ask(data)
    assert result.verdict is VIOLATION
    assert np.isnan(result.estimate).all()
    assert np.isfinite(result.disparity).any()


def test_a_test_over_all_scores_where_no_single_score_has_people_enough() -> None:
    rng = np.random.default_rng(0)
    g = np.repeat([0, 1], 800)
    s = rng.random(1_600)
    result = ask({"s": s, "g": g, "y": rng.random(1_600) < np.where(g == 1, 0.06, 0.015)})
    assert result.parity_pvalue < 0.01
    assert np.isnan(result.disparity).all()
    summary = " ".join(result.summary().split())
    assert "2 groups compared over all scores together" in summary
    assert "only the order" not in summary


def test_groups_without_a_common_score_are_judged_by_their_order() -> None:
    rng = np.random.default_rng(0)
    g = np.repeat([0, 1], 2_000)
    s = 0.4 * rng.random(4_000) + 0.6 * g
    y = rng.random(4_000) < 1 / (1 + np.exp(-20 * (s - 0.5)))
    result = ask({"s": s, "g": g, "y": y})
    assert np.isnan(result.parity_pvalue)
    assert result.verdict == "inconclusive"
    assert "only the order of scores was tested" in " ".join(result.summary().split())
    reversed_order = ask({"s": s, "g": g, "y": ~y})
    assert reversed_order.verdict == "violation"
    assert "The order of scores is reversed" in " ".join(reversed_order.summary().split())


def test_groups_that_no_score_compares_are_not_counted() -> None:
    rng = np.random.default_rng(0)
    size = [1_500, 1_500, 4]
    s = rng.random(sum(size))
    data = {"s": s, "g": np.repeat(["a", "b", "few"], size), "y": (rng.random(s.size) < s).astype(int)}
    assert "2 groups compared" in ask(data).findings()[0]


# ---- verdicts


def test_several_columns_are_allowed_for() -> None:
    """Four columns that mean nothing, one of which alone would be called a violation by chance."""
    rng = np.random.default_rng(0)
    s = rng.beta(2, 2, 1_000)
    columns = {f"g{k}": rng.integers(0, 2 + k % 2, 1_000) for k in range(4)}
    data = {"s": s, "y": (rng.random(1_000) < s).astype(int)} | columns
    alone = ask(data, groups="g0", resamples=200)
    result = ask(data, groups=list(columns), resamples=200)
    assert alone.verdict is VIOLATION
    # The columns have 1, 3, 1 and 3 pairs of groups; this pair has the smallest p-value, so Holm's factor is 8.
    assert result.pvalue == pytest.approx(8 * alone.pvalue, rel=1e-9)
    for each in (alone, result):
        shown = {*each.verdicts, *(test.verdict for test in each.orders)}
        assert (each.verdict is VIOLATION) == (each.pvalue <= 0.05) == (VIOLATION in shown)


def test_the_orders_of_several_columns_are_allowed_for() -> None:
    data = wrong_way_round(600)
    data["h"] = np.arange(600) % 2
    alone = [ask(data, groups=column, resamples=200).ordering_pvalue for column in ("g", "h")]
    assert alone[0] < alone[1]
    together = [test.pvalue for test in ask(data, groups=["g", "h"], resamples=200).orders]
    np.testing.assert_allclose(together, [2 * alone[0], alone[1]], rtol=1e-9)  # Holm


def test_within_tolerance_is_shown_at_every_score_and_of_the_order() -> None:
    data = scored(8_000, seed=1)
    wide = ask(data, tolerance=0.25)
    assert wide.verdict is wide.ordering_verdict is WITHIN
    # Two one-sided tests at every score: the interval at twice alpha, which is narrower than the band.
    assert np.nanmax(wide.pointwise_high) <= 0.25
    assert np.nanmean(wide.pointwise_high - wide.pointwise_low) < np.nanmean(wide.ci_high - wide.ci_low)
    assert ask(data, tolerance=0.001).verdict is INCONCLUSIVE
    strict = ask(data, tolerance=0.25, order=0.001)
    assert strict.verdict is strict.ordering_verdict is INCONCLUSIVE
    assert set(strict.verdicts) == {WITHIN}


@pytest.mark.parametrize("method", ["omnibus", "cumulative", "orthogonal"])
def test_a_small_difference_everywhere_is_within_a_wide_tolerance(method: Any) -> None:
    data = scored(n=20_000, slope=0.9)
    assert ask(data, method=method).verdict is VIOLATION
    allowed = ask(data, method=method, tolerance=0.2)
    assert allowed.pvalue == 1.0
    assert allowed.verdict is WITHIN
    assert ask(scored(n=20_000, slope=0.5), method=method, tolerance=0.05).verdict is VIOLATION


def test_a_tolerance_is_part_of_the_null() -> None:
    data = scored(n=20_000, slope=0.9)
    allowed = ask(data, grid=[0.3, 0.5], tolerance=0.1)
    assert allowed.verdict is WITHIN
    assert "at most 10.0 points" in allowed.null
    # As the tolerance goes to nothing the test becomes the one of equality.
    close, equal = (ask(data, grid=[0.3, 0.5], tolerance=t) for t in (1e-12, None))
    assert close.pvalues == pytest.approx(equal.pvalues, rel=1e-6)
    assert close.pvalue == pytest.approx(equal.pvalue, rel=1e-6)
    assert ask(scored(n=20_000), grid=[0.5, 50], tolerance=0.2).verdict is INCONCLUSIVE  # nothing is known at 50


def test_the_published_test_has_no_part_about_the_order() -> None:
    result = ask(scored(slope=0.85), method="published")
    # Bonferroni over the scores, and nothing else: no share of alpha is kept for the order.
    assert result.pvalue == result.parity_pvalue == np.nanmin(result.pvalues) * np.isfinite(result.pvalues).sum()
    assert result.orders == ()
    reversed_order = ask(wrong_way_round(), method="published")
    assert reversed_order.verdict is INCONCLUSIVE
    assert any("test rejects too often" in warning for warning in reversed_order.warnings)


@pytest.mark.parametrize("method", ["omnibus", "orthogonal", "residual"])
def test_the_order_can_be_left_out(method: Any) -> None:
    data = wrong_way_round()
    both, alone = (ask(data, method=method, order=order) for order in (True, False))
    assert both.verdict is both.ordering_verdict is VIOLATION
    assert alone.verdict is INCONCLUSIVE
    assert np.isnan(alone.ordering_pvalue)
    assert alone.pvalue == pytest.approx(float(both.pair_pvalue[0]), rel=1e-12)
    assert "at lower scores" in both.null
    assert "at lower scores" not in alone.null
    assert "The order of scores was not tested." in alone.findings()
    allowed = ask(data, method=method, order=False, tolerance=0.25, grid=[0.4, 0.5])
    assert allowed.verdict is WITHIN


@pytest.mark.parametrize("method", ["omnibus", "cumulative", "trend", "orthogonal"])
def test_a_grid_is_the_range_that_is_tested(method: Any) -> None:
    data = differ_above()
    assert ask(data, method=method).verdict is VIOLATION
    # 0.45 is several bandwidths away from 0.7.
    below, above = (ask(data, method=method, grid=grid) for grid in ([0.15, 0.3, 0.45], [0.8, 0.9]))
    assert below.parity_pvalue > 0.05
    assert below.verdict is INCONCLUSIVE
    assert above.verdict is VIOLATION
    assert "At every score from 0.150 to 0.450, " in below.null


def test_the_order_is_judged_on_the_range_of_the_grid() -> None:
    rng = np.random.default_rng(0)
    s, g = rng.random(20_000), np.repeat([0, 1], 10_000)
    data = {"s": s, "g": g, "y": (rng.random(20_000) < np.where(s < 0.5, s, 0.9 * (1 - s))).astype(int)}
    assert ask(data).ordering_verdict is VIOLATION
    assert ask(data, grid=[0.6, 0.8]).ordering_verdict is VIOLATION
    assert ask(data, grid=[0.1, 0.4]).ordering_verdict is INCONCLUSIVE
    one = ask(data, grid=[0.8])  # there is no order of a single score
    assert np.isnan(one.ordering_pvalue)
    assert one.pvalue == one.pair_pvalue[0]
    assert one.null == "At the score 0.800, the expected outcome is the same in all groups. Each row counts once."


@pytest.mark.parametrize("adjust", ["sup-t", "bonferroni", "holm"])
def test_adjustments_widen(adjust: Any) -> None:
    adjusted, plain = (ask(scored(), adjust=kind) for kind in (adjust, "none"))
    known = np.isfinite(plain.pvalues)
    assert np.all(adjusted.adjusted_pvalue[known] >= plain.pvalues[known] - 1e-15)
    assert np.nanmax(adjusted.ci_high - adjusted.ci_low) >= np.nanmax(plain.ci_high - plain.ci_low) - 1e-15


def test_sup_t_is_narrower_than_bonferroni() -> None:
    sup, bonferroni = (ask(scored(), adjust=kind) for kind in ("sup-t", "bonferroni"))
    assert np.nanmax((sup.ci_high - sup.ci_low) / (bonferroni.ci_high - bonferroni.ci_low)) < 1
    assert sup.pvalue <= bonferroni.pvalue


# ---- rows


def test_a_condition_is_compared_with_everybody_else() -> None:
    data = scored(slope=0.6)
    named, plain = ask(data, groups=iso.where("b people", iso.col("g") == "b")), ask(data)
    assert (named.labels[0], named.against[0]) == ("b people", "not b people")
    np.testing.assert_allclose(named.disparity, -plain.disparity, rtol=1e-12)


def test_several_columns_make_several_tables() -> None:
    data = scored()
    data["h"] = np.arange(data["s"].size) % 2
    result = ask(data, groups=["g", "h"], depth=2)
    assert list(dict.fromkeys(result.tables)) == ["g", "h", "g & h"]
    assert len(result.by_group("g & h")) == 4


def test_one_row_a_user_is_the_same_as_no_users() -> None:
    data = scored() | {"m": np.arange(3_000)}
    with_users, without = ask(data, user="m"), ask(data)
    np.testing.assert_allclose(with_users.se, without.se, rtol=1e-10)
    assert with_users.pvalue == pytest.approx(without.pvalue, rel=1e-9)
    assert not ask(data | {"m": np.zeros(3_000, dtype=int)}, user="m").answered  # one user is no sample


def test_one_user_in_two_groups() -> None:
    data = scored()
    data["m"] = np.tile(np.arange(1_500), 2)  # everybody is in both groups
    assert any("more than one group" in warning for warning in ask(data, user="m").warnings)
    same = data | {"y": np.tile(data["y"][:1_500], 2), "s": np.tile(data["s"][:1_500], 2)}
    twin = ask(same, user="m")
    # The groups are the same rows of the same users: the difference is zero with no variance at all.
    assert np.all(np.isnan(twin.se) | (twin.se < 1e-9))


def test_strings_as_users_and_missing_ones() -> None:
    data = scored()
    numbers = ask(data, user="m")
    names = ask(data | {"m": [f"user {m}" for m in data["m"]]}, user="m")
    np.testing.assert_allclose(names.se, numbers.se, rtol=1e-10)
    gaps = data | {"m": [None if i == 7 else int(m) for i, m in enumerate(data["m"])]}
    with pytest.raises(MissingValues, match="user"):
        ask(gaps, user="m")
    assert ask(gaps, user="m", missing="drop").provenance.dropped == {"m": 1}


@pytest.mark.parametrize("user", [None, "m"])
def test_counts_are_rows(user: str | None) -> None:
    data = scored(n=600)
    times = np.random.default_rng(1).integers(0, 4, 1_200)
    counted = ask(data | {"n": times}, user=user, count="n")
    repeated = ask({k: np.repeat(v, times) for k, v in data.items()}, user=user)
    assert counted.provenance.rows == repeated.provenance.rows
    for name in ("estimate", "disparity", "se", "effective_n", "n", "reference_n"):
        np.testing.assert_allclose(getattr(counted, name), getattr(repeated, name), rtol=1e-9, err_msg=name)


def test_weights_are_not_counts() -> None:
    """The curves are those of as many rows, the errors those of the rows there are."""
    data = weighted()
    options: dict[str, Any] = {"method": "published", "bandwidth": 0.1, "grid": [0.3, 0.5, 0.7]}
    heavy, counted = ask(data, **options, weight="w"), ask(data, **options, count="w")
    np.testing.assert_allclose(heavy.disparity, counted.disparity, rtol=1e-9)
    assert np.all(heavy.se > 1.2 * counted.se)


def test_a_cluster_is_a_user_whose_rows_keep_their_votes() -> None:
    data = weighted()
    np.testing.assert_array_equal(ask(data, cluster="m").se, ask(data, user="m", level="aggregate").se)
    with pytest.raises(UsageError, match="already says which rows belong together"):
        ask(data, cluster="m", user="s")


def test_scores_on_a_lattice() -> None:
    data = scored(4_000, seed=3)
    for steps in (1, 2, 10):
        result = ask(data | {"s": np.ceil(data["s"] * steps) / steps})
        assert result.answered
        assert result.verdict is not WITHIN


# ---- refusals


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"outcome": "nope"}, UnknownColumn),
        ({"score": "g"}, WrongType),
        ({"bandwidth": 1e-5}, UsageError),
        ({"bandwidth": [0.1, 0.2]}, UsageError),
        ({"grid": []}, UsageError),
        ({"grid": {0.5}}, UsageError),
        ({"grid": -1e308}, UsageError),
        ({"reference": {"g": "z"}}, UsageError),
        ({"method": "published", "order": 0.1}, UsageError),
        ({"method": "cumulative", "grid": 0.5}, UsageError),
        ({"order": True, "grid": 0.5}, UsageError),
        ({"method": "trend", "grid": [0.5]}, UsageError),
    ],
)
def test_bad_arguments(options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        ask(scored(n=200), **options)


def test_a_plan_says_what_an_engine_is_asked_first(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = scored(200)
    assert QUESTIONS["predictive_parity"].planned(open_source(columns), ROLES).requests == ()
    source = open_source(pl.LazyFrame(columns))
    plan = QUESTIONS["predictive_parity"].planned(source, ROLES | {"user": "m"})
    source.prefetch(plan.requests)
    monkeypatch.setattr("isonomy.frames.source.aggregate", None)  # no further grouped pass can be made
    assert ask(source, user="m").provenance.rows == 400


# ---- words, disclosure, charts


@pytest.fixture(scope="module")
def hostile(columns: dict[str, Any]) -> Any:
    return ask(columns)


def test_a_difference_is_said_not_to_be_that_of_the_two_estimates(hostile: Any) -> None:
    assert np.nanmax(np.abs(hostile.disparity - (hostile.estimate - hostile.reference))) > 1e-6
    page = html(Document(title="", entries=(Entry(name="a", kind="predictive_parity", result=hostile),)))
    assert page.count("is not exactly the estimate minus the reference") == 1
    published = ask(scored(), method="published")
    assert published.table_note() == ""
    known = np.isfinite(published.disparity)
    difference = (published.estimate - published.reference)[known]
    np.testing.assert_allclose(published.disparity[known], difference, atol=1e-12)


def test_one_withheld_group_leaves_the_others() -> None:
    rng = np.random.default_rng(0)
    size = [2_000, 2_000, 2_000, 300, 40]
    s = rng.random(sum(size))
    data = {"s": s, "g": np.repeat(list("abcde"), size), "y": (rng.random(s.size) < s).astype(int)}
    result = ask(data, resamples=200)
    published = result.published(60)
    withheld, shown = published.withheld_labels()
    assert withheld == {"g=d", "g=e"}  # the next smallest too: the total would give away one alone
    assert shown == {"g=a", "g=b", "g=c"}
    both = np.array([a in shown and b in shown for a, b in zip(result.labels, result.against, strict=True)])
    for name in ("disparity", "pvalues", "pair_adjusted_pvalue"):
        np.testing.assert_array_equal(getattr(published, name)[both], getattr(result, name)[both])
        assert np.isnan(getattr(published, name)[~both]).all()
    first = np.array([label in shown for label in result.labels])
    np.testing.assert_array_equal(published.estimate[first], result.estimate[first])
    assert np.isnan(published.n[~first]).all()
    assert "g=e" not in published.summary()


def test_every_pair_is_in_the_findings() -> None:
    rng = np.random.default_rng(0)
    score = rng.random(8_000)
    data = {"s": score, "g": np.arange(8_000) % 5, "y": rng.random(8_000) < score}
    told = [text.split(":")[0] for text in ask(data, resamples=200).findings()]
    pairs = {frozenset((f"g={i}", f"g={j}")) for i in range(5) for j in range(i)}
    assert {frozenset(text.split(" against ")) for text in told if " against " in text} == pairs


@pytest.mark.parametrize("method", ["omnibus", "orthogonal", "cumulative", "trend", "residual", "published"])
def test_outcomes_too_skewed_for_the_smaller_group_give_no_verdict(method: Any) -> None:
    rng = np.random.default_rng(1)
    table = {"g": np.repeat(["a", "b"], [150, 3_000]), "s": rng.random(3_150), "y": rng.lognormal(0, 1.2, 3_150)}
    roles: dict[str, Any] = {"outcome": "y", "score": "s", "groups": "g", "rng": 0, "method": method}
    result = iso.predictive_parity(table, **roles)
    assert not result.answered
    assert iso.Status.SKEWED in result.status
    assert iso.predictive_parity(table | {"y": rng.normal(size=3_150)}, **roles).answered


@pytest.mark.parametrize("weight", [3.7, 0.1])
def test_equal_weights_change_nothing(weight: float) -> None:
    rng = np.random.default_rng(34)
    score, group = np.round(rng.random(240), 2), rng.choice(["a", "b"], 240, p=[0.7, 0.3])
    outcome = rng.random(240) < np.clip(score, 0.1, 0.9) - 0.15 * (group == "b")
    table = {"g": group, "s": score, "y": outcome, "one": np.ones(240), "w": np.full(240, weight)}
    options: dict[str, Any] = {
        "outcome": "y",
        "score": "s",
        "groups": "g",
        "method": iso.curves(resamples=200),
        "rng": 1,
    }
    results = [iso.predictive_parity(table, **options, weight=name) for name in ("one", "w")]
    np.testing.assert_allclose(results[1].pair_pvalue, results[0].pair_pvalue, rtol=1e-9)
