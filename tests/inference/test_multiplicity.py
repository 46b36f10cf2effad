"""Adjusted p-values, in a list and down a tree."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.multitest import multipletests

from isonomy.errors import UnknownOption, UsageError
from isonomy.inference.multiplicity import METHODS, adjust, false_discoveries, intersections, max_t, tree

STATSMODELS = {"bh": "fdr_bh", "by": "fdr_by", "holm": "holm", "bonferroni": "bonferroni"}
pvalues = st.lists(st.sampled_from([0.0, 1e-12, 0.001, 0.01, 0.01, 0.04, 0.05, 0.3, 0.99, 1.0]), max_size=15)


@given(pvalues.filter(bool), st.sampled_from(sorted(STATSMODELS)))
def test_against_statsmodels(p: Any, method: Any) -> None:
    expected = multipletests(p, method=STATSMODELS[method])[1]
    np.testing.assert_allclose(adjust(p, method), expected, rtol=1e-12)


@pytest.mark.parametrize("method", ["bh", "by"])
def test_against_scipy(method: Any) -> None:
    from scipy.stats import false_discovery_control

    p = np.random.default_rng(0).random(500) ** 3
    np.testing.assert_allclose(adjust(p, method), false_discovery_control(p, method=method), rtol=1e-12)


@given(pvalues, st.sampled_from(METHODS), st.randoms())
def test_missing_values_are_not_counted_and_order_does_not_matter(p: Any, method: Any, random: Any) -> None:
    plain = dict(zip(p, adjust(p, method), strict=True))  # ties are adjusted equally, so a dictionary is enough
    mixed = [*p, float("nan"), float("nan")]
    random.shuffle(mixed)
    for given_, adjusted in zip(mixed, adjust(mixed, method), strict=True):
        assert np.isnan(adjusted) if np.isnan(given_) else adjusted == plain[given_]


def test_by_hand() -> None:
    p = [0.01, 0.02, 0.04]
    np.testing.assert_allclose(adjust(p, "bh"), [0.03, 0.03, 0.04])
    np.testing.assert_allclose(adjust(p, "by"), np.array([0.03, 0.03, 0.04]) * (1 + 1 / 2 + 1 / 3))
    np.testing.assert_allclose(adjust(p, "holm"), [0.03, 0.04, 0.04])
    np.testing.assert_allclose(adjust(p, "bonferroni"), [0.03, 0.06, 0.12])
    np.testing.assert_allclose(adjust(p, "none"), p)


@pytest.mark.parametrize("method", METHODS)
def test_empty_and_all_missing(method: Any) -> None:
    assert adjust([], method).shape == (0,)
    assert np.isnan(adjust([np.nan, np.nan], method)).all()
    assert adjust(np.full((2, 3), 0.5), method).shape == (2, 3)


@given(pvalues.filter(bool), st.sampled_from(METHODS), st.lists(st.integers(0, 4), min_size=15, max_size=15))
def test_the_same_hypothesis_counts_once(p: Any, method: Any, labels: Any) -> None:
    same = labels[: len(p)]
    largest = {label: max(v for v, other in zip(p, same, strict=True) if other == label) for label in same}
    once = dict(zip(largest, adjust(list(largest.values()), method), strict=True))
    np.testing.assert_array_equal(adjust(p, method, same), [once[label] for label in same])


def test_a_hypothesis_that_was_not_tested_stays_so_beside_its_equal() -> None:
    np.testing.assert_allclose(adjust([0.01, np.nan, 0.04, 0.01], "holm", [7, 7, 3, 7]), [0.02, np.nan, 0.04, 0.02])


def test_bad_input() -> None:
    with pytest.raises(UnknownOption, match="Did you mean 'holm'"):
        adjust([0.1], "hlm")
    for p in ([-0.1], [1.1]):
        with pytest.raises(UsageError):
            adjust(p)


def test_bh_holds_the_false_discovery_rate() -> None:
    # 900 true nulls, 100 strong effects; FDR is alpha x 0.9 = 0.09 in theory, sd of the mean over 200 runs < 0.002.
    rng = np.random.default_rng(3)
    rates = []
    for _ in range(200):
        p = rng.random(1000)
        p[:100] *= 1e-6
        rejected = adjust(p, "bh") <= 0.1
        rates.append(rejected[100:].sum() / max(1, rejected.sum()))
    assert np.mean(rates) == pytest.approx(0.09, abs=0.008)


# race = A, B; sex = F, M; then the four intersections; then one three-way group under two of them.
LEVELS = [1, 1, 1, 1, 2, 2, 2, 2, 3]
PARENTS = [(), (), (), (), (0, 2), (0, 3), (1, 2), (1, 3), (4, 7)]


def test_tree_tests_a_child_if_any_parent_was_rejected() -> None:
    p = [0.001, 0.9, 0.8, 0.7, 0.01, 0.04, 0.0001, 0.0001, 0.03]
    result = tree(p, LEVELS, PARENTS, 0.05)
    # Level 2: only the children of hypothesis 0 are tested, so m = 2 there; level 3 hangs on a rejected parent.
    assert result.tested.tolist() == [True] * 6 + [False, False, True]
    assert result.rejected.tolist() == [True, False, False, False, True, True, False, False, True]
    np.testing.assert_allclose(result.adjusted[:4], adjust(p[:4]))
    np.testing.assert_allclose(result.adjusted[4:6], [0.02, 0.04])
    assert np.isnan(result.adjusted[6:8]).all()
    assert result.adjusted[8] == 0.03


def test_tree_with_nothing_at_the_top_tests_nothing_below() -> None:
    result = tree([0.5] * 4 + [1e-9] * 5, LEVELS, PARENTS, 0.05)
    assert not result.rejected.any()
    assert result.tested.sum() == 4


def test_tree_with_missing_values_and_rows_in_any_order() -> None:
    p = np.array([0.001, np.nan, 0.8, 0.7, 0.01, 0.04, 0.0001, np.nan, 0.03])
    straight = tree(p, LEVELS, PARENTS, 0.05)
    np.testing.assert_allclose(straight.adjusted[:4], adjust(p[:4]))
    assert not straight.tested[[1, 6, 7]].any()
    order = np.random.default_rng(0).permutation(9)
    place = np.argsort(order)
    shuffled = tree(p[order], np.array(LEVELS)[order], [[place[q] for q in PARENTS[k]] for k in order], 0.05)
    np.testing.assert_array_equal(shuffled.adjusted, straight.adjusted[order])
    np.testing.assert_array_equal(shuffled.rejected, straight.rejected[order])


@given(pvalues)
def test_a_tree_of_one_level_is_plain_adjustment(p: Any) -> None:
    result = tree(p, np.ones(len(p)), [()] * len(p), 0.05)
    np.testing.assert_array_equal(result.adjusted, adjust(p, "bh"))
    np.testing.assert_array_equal(result.rejected, adjust(p, "bh") <= 0.05)


def test_tree_bad_input() -> None:
    with pytest.raises(UsageError, match="lower level"):
        tree([0.1, 0.1], [1, 1], [(), (0,)], 0.05)
    with pytest.raises(UsageError, match="lower level"):
        tree([0.1], [1], [(3,)], 0.05)
    with pytest.raises(UsageError, match="entries"):
        tree([0.1], [1, 2], [()], 0.05)


def test_a_tree_rejects_a_true_global_null_at_its_level() -> None:
    """Under the global null any rejection starts at the top level, so P(any) is BH's at the top: 0.05."""
    rng = np.random.default_rng(23)
    levels, parents = LEVELS[:8], PARENTS[:8]
    share = np.mean([tree(rng.random(8), levels, parents, 0.05).rejected.any() for _ in range(2_000)])
    assert share == pytest.approx(0.05, abs=4 * np.sqrt(0.05 * 0.95 / 2_000))


def test_intersections_are_a_tree_whose_parents_have_one_item_less() -> None:
    p = [0.001, 0.9, 0.8, 0.7, 0.01, 0.04, 0.0001, 0.0001]
    items = [["A"], ["B"], ["F"], ["M"], ["A", "F"], ["A", "M"], ["B", "F"], ["B", "M"]]
    plain, named = tree(p, LEVELS[:8], PARENTS[:8], 0.05), intersections(p, items, 0.05)
    np.testing.assert_array_equal(named.adjusted, plain.adjusted)
    np.testing.assert_array_equal(named.rejected, plain.rejected)
    # The order of items does not matter.
    turned = intersections(p, [item[::-1] for item in items], 0.05)
    np.testing.assert_array_equal(turned.adjusted, plain.adjusted)
    assert intersections([0.001], [["A", "F"]], 0.05).adjusted[0] == 0.001  # without parents, it is at the top


def test_max_t_holds_the_family_wise_rate_and_beats_holm() -> None:
    rng = np.random.default_rng(1)
    correlation = 0.9 * np.ones((8, 8)) + 0.1 * np.eye(8)
    root = np.linalg.cholesky(correlation)
    p = 2 * stats.norm.sf(np.abs(rng.standard_normal((6_000, 8)) @ root.T))
    rate = {"max-t": 0.0, "holm": 0.0}
    for each in p[:1_000]:
        rate["max-t"] += bool((max_t(each, p[1_000:]) <= 0.05).any()) / 1_000
        rate["holm"] += bool((adjust(each, "holm") <= 0.05).any()) / 1_000
    assert rate["max-t"] <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 1_000)
    assert rate["holm"] < rate["max-t"]


def test_max_t_is_never_less_than_the_p_value_itself() -> None:
    drawn = np.random.default_rng(3).random((1_000, 3))
    single = np.array([0.0501, np.nan, np.nan])
    assert np.mean(drawn[:, 0] <= 0.0501) < 0.05  # the estimate from the draws alone
    assert max_t(single, drawn)[0] == pytest.approx(0.0501)
    several = np.linspace(0.01, 0.99, 300).reshape(-1, 3)
    assert all((max_t(p, drawn) >= p).all() for p in several)


def test_false_discoveries_of_independent_tests_are_alpha_times_the_share_of_nulls() -> None:
    drawn = np.random.default_rng(2).random((20_000, 10))
    # Three standard errors; the rate is larger if every hypothesis is true.
    assert false_discoveries(drawn, 0.05, np.zeros(10)) == pytest.approx(0.05, abs=0.005)
    assert false_discoveries(drawn, 0.05, np.ones(10)) == pytest.approx(0.05, abs=0.005)
    assert false_discoveries(np.full((10, 2), 0.9), 0.05, [False, False]) == 0.0
