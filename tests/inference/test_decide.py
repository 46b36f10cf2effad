"""The rule for verdicts: p = alpha rejects, NaN shows nothing, a violation outranks, an empty family shows nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isonomy.errors import UnknownOption
from isonomy.inference.decide import Verdict, answered, conclude, inside, overall, settle
from isonomy.inference.multiplicity import METHODS, adjust

V, W, I = Verdict.VIOLATION, Verdict.WITHIN_TOLERANCE, Verdict.INCONCLUSIVE  # noqa: E741
NAN = float("nan")

pvalues = st.lists(st.one_of(st.floats(0, 1), st.just(NAN), st.just(0.05)), min_size=1, max_size=12)


# settle: one hypothesis at a time


@pytest.mark.parametrize(
    ("pvalue", "within", "verdict"),
    [
        (0.0, False, V),
        (0.05, False, V),  # at most alpha, not below it
        (np.nextafter(0.05, 1), False, I),
        (0.05, True, V),  # a violation outranks
        (np.nextafter(0.05, 1), True, W),
        (1.0, True, W),
        (1.0, False, I),  # a large p-value is inconclusive
        (NAN, False, I),
        (NAN, True, W),  # an interval may show the tolerance without a p-value
    ],
)
def test_settle(pvalue: float, within: bool, verdict: Verdict) -> None:
    assert settle([pvalue], 0.05, [within]) == (verdict,)
    assert settle(pvalue, 0.05, within) == (verdict,)


# overall: all hypotheses together


@pytest.mark.parametrize(
    ("verdicts", "verdict"),
    [
        ([], I),  # no hypotheses show nothing
        ([V], V),
        ([W], W),
        ([I], I),
        ([W, W], W),
        ([W, I], I),
        ([I, V, W], V),
        ([W, W, V], V),
    ],
)
def test_overall(verdicts: list[Verdict], verdict: Verdict) -> None:
    assert overall(verdicts) is verdict
    assert overall(verdicts[::-1]) is verdict


# inside: intervals against the tolerance


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (-0.05, 0.05, True),  # the ends count
        (-0.01, np.nextafter(0.05, 1), False),
        (np.nextafter(-0.05, -1), 0.01, False),
        (0.0, 0.0, True),
        (-np.inf, 0.0, False),
        (0.0, np.inf, False),
        (NAN, 0.0, False),
        (0.0, NAN, False),
        (NAN, NAN, False),
    ],
)
def test_inside_on_both_sides(low: float, high: float, expected: bool) -> None:
    assert inside(low, high, 0.05) == expected
    assert inside([low], [high], 0.05).tolist() == [expected]


@pytest.mark.parametrize(
    ("alternative", "low", "high", "expected"),
    [
        ("greater", -np.inf, 0.05, True),  # only the upper end matters
        ("greater", -0.9, 0.04, True),
        ("greater", 0.0, 0.06, False),
        ("less", -0.05, np.inf, True),  # only the lower end matters
        ("less", -0.04, 0.9, True),
        ("less", -0.06, 0.0, False),
        ("greater", NAN, 0.0, False),  # half an interval is not enough, even if the other half decides
        ("less", 0.0, NAN, False),
    ],
)
def test_inside_on_one_side(alternative: Any, low: float, high: float, expected: bool) -> None:
    assert inside([low], [high], 0.05, alternative).tolist() == [expected]


def test_mirrored_intervals_and_alternatives_give_the_same_answer() -> None:
    rng = np.random.default_rng(0)
    low = rng.normal(size=200)
    high = low + rng.exponential(size=200)
    np.testing.assert_array_equal(inside(low, high, 0.5), inside(-high, -low, 0.5))
    np.testing.assert_array_equal(inside(low, high, 0.5, "greater"), inside(-high, -low, 0.5, "less"))
    np.testing.assert_array_equal(
        inside(low, high, 0.5), inside(low, high, 0.5, "greater") & inside(low, high, 0.5, "less")
    )


# decide: adjustment and verdicts


def test_decide_adjusts_before_it_concludes() -> None:
    plain, holm = (conclude([0.02, 0.04], alpha=0.05, adjust=method) for method in ("none", "holm"))
    assert plain.verdicts == (V, V)
    np.testing.assert_allclose(holm.adjusted, [0.04, 0.04])
    assert holm.verdicts == (V, V)
    bonferroni = conclude([0.02, 0.04], alpha=0.05, adjust="bonferroni")
    np.testing.assert_allclose(bonferroni.adjusted, [0.04, 0.08])
    assert bonferroni.verdicts == (V, I)
    with pytest.raises(UnknownOption, match="Did you mean 'holm'"):
        conclude([0.1], alpha=0.05, adjust="hlm")


def test_a_hypothesis_that_was_not_tested_is_not_counted() -> None:
    decisions = conclude([0.03, NAN, NAN], alpha=0.05, adjust="bonferroni")
    np.testing.assert_array_equal(decisions.adjusted, [0.03, NAN, NAN])
    assert decisions.verdicts == (V, I, I)
    assert decisions.verdict is V


def test_overall_is_within_only_if_everything_concerned_is() -> None:
    within = [True, True, False]
    assert conclude([0.5, 0.6, NAN], alpha=0.05, within=within).verdict is I
    # The reference itself is not tested.
    assert conclude([0.5, 0.6, NAN], alpha=0.05, within=within, concerned=[True, True, False]).verdict is W
    assert conclude([0.5, 0.6, NAN], alpha=0.05, within=within, concerned=[False, False, False]).verdict is I


def test_a_violation_counts_whoever_is_concerned() -> None:
    decisions = conclude([0.5, 0.001], alpha=0.05, within=[True, False], concerned=[True, False])
    assert decisions.verdicts == (W, V)
    assert decisions.verdict is V


@given(pvalues, st.sampled_from(METHODS), st.floats(0.001, 0.5))
def test_the_parts_and_the_whole_agree(p: list[float], method: str, alpha: float) -> None:
    decisions = conclude(p, alpha=alpha, adjust=method)
    np.testing.assert_array_equal(decisions.adjusted, adjust(p, method))
    assert decisions.verdicts == settle(decisions.adjusted, alpha)
    assert decisions.verdict is overall(decisions.verdicts)
    rejected = [verdict is V for verdict in decisions.verdicts]
    np.testing.assert_array_equal(rejected, np.nan_to_num(decisions.adjusted, nan=2.0) <= alpha)


@given(pvalues, st.randoms())
def test_the_order_of_hypotheses_does_not_matter(p: list[float], random: Any) -> None:
    order = list(range(len(p)))
    random.shuffle(order)
    plain, shuffled = conclude(p, alpha=0.05, adjust="bh"), conclude([p[i] for i in order], alpha=0.05, adjust="bh")
    assert shuffled.verdicts == tuple(plain.verdicts[i] for i in order)
    assert shuffled.verdict is plain.verdict


# answered: a missing p-value is not a large p-value


@pytest.mark.parametrize(
    ("verdict", "p", "expected"),
    [
        (I, [0.9, NAN], True),
        (I, 0.9, True),
        (I, [NAN, NAN], False),
        (I, NAN, False),
        (I, [], False),
        (V, [NAN], True),  # shown, by any method
        (W, [NAN], True),
        (W, [], True),
    ],
)
def test_answered(verdict: Verdict, p: Any, expected: bool) -> None:
    assert answered(verdict, p) is expected


def test_p_values_of_the_tolerance_are_adjusted_with_the_others() -> None:
    decisions = conclude([0.5, 0.5], alpha=0.05, adjust="bonferroni", within_pvalue=[0.02, 0.03])
    assert decisions.verdicts == (Verdict.WITHIN_TOLERANCE, Verdict.INCONCLUSIVE)
    assert conclude([0.01], alpha=0.05, within_pvalue=[0.001]).verdict is Verdict.VIOLATION
    assert conclude([0.5], alpha=0.05, within_pvalue=[np.nan]).verdict is Verdict.INCONCLUSIVE
