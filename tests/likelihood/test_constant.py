"""Blocks of equal rows: they say exactly what the reference is, and a null they contradict has no weighting at all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isonomy as iso
from isonomy.likelihood.euclid import Euclidean
from isonomy.likelihood.means import Real
from isonomy.likelihood.profile import Kind, Profile
from isonomy.likelihood.shifted import Shifted
from isonomy.numerics.ragged import Ragged
from isonomy.results import Status, Verdict

M = iso.Metric("m", iso.col("x"))
VALUE: dict[str, Any] = {"metric": M, "groups": "g"}
RATE: dict[str, Any] = {"metric": "selection_rate", "prediction": "p", "groups": "g"}
# One group that varies beside 30 equal rows; and two of them.
ONE = {"x": np.r_[np.linspace(-1, 1, 30), np.full(30, 0.25)], "g": ["a"] * 30 + ["b"] * 30}
TWO = {
    "x": np.r_[np.linspace(-1, 1, 30), np.linspace(-1.1, 1.5, 40), np.full(30, 0.1)],
    "g": ["a"] * 30 + ["b"] * 40 + ["c"] * 30,
}


def test_rows_that_are_all_equal_give_no_joint_evidence() -> None:
    found = iso.certify({"p": [1] * 40, "g": ["a", "b"] * 20}, **RATE)
    assert (found.statistic, found.df, found.pvalue) == (0.0, 0, 1.0)
    assert found.joint_status is Status.OK
    assert found.verdict is Verdict.INCONCLUSIVE


def test_groups_whose_ranges_do_not_meet_have_no_common_mean() -> None:
    found = iso.certify({"x": [*range(20), *range(100, 120)], "g": ["a"] * 20 + ["b"] * 20}, **VALUE)
    assert (found.statistic, found.df, found.pvalue) == (np.inf, 1, 0.0)
    assert found.joint_status is Status.OUTSIDE_RANGE
    assert any("T is infinite" in w for w in found.warnings)
    assert not found.contains(0.0)


def test_a_condition_that_leaves_a_handful_outside_has_nothing_to_compare_with() -> None:
    x = np.random.default_rng(0).normal(size=40)
    found = iso.certify({"x": x}, metric=M, groups=iso.where("low", iso.col("x") < np.sort(x)[34]))
    assert (found.statistic, found.df, found.pvalue) == (0.0, 0, 1.0)
    assert found.joint_status is Status.OK


def test_an_untested_group_without_errors_puts_equal_errors_outside_the_range() -> None:
    outcome = np.tile([0.0, 1.0], 30)
    data = {"y": outcome, "s": outcome + np.r_[np.linspace(0.1, 0.3, 30), np.zeros(30)], "g": ["a"] * 30 + ["b"] * 30}
    found = iso.certify(data, metric="mae", outcome="y", prediction="s", groups="g")
    assert (found.statistic, found.pvalue, found.joint_status) == (np.inf, 0.0, Status.OUTSIDE_RANGE)


@pytest.mark.parametrize("method", ["el", "eel"])
@pytest.mark.parametrize("null", [0.0, 0.1, -0.3])
def test_a_reference_of_equal_rows_is_a_known_number(method: str, null: float) -> None:
    options: dict[str, Any] = {**VALUE, "null": null, "method": method}
    known = iso.flag(ONE, reference=0.25, **options)
    named = iso.flag(ONE, reference={"g": "b"}, **options)
    assert named.statistic[0] == pytest.approx(known.statistic[0], rel=1e-9)
    assert (named.ci_low[0], named.ci_high[0]) == pytest.approx((known.ci_low[0], known.ci_high[0]), rel=1e-6)
    joint = iso.certify(ONE, reference={"g": "b"}, **options)
    assert (joint.statistic, joint.df) == (pytest.approx(known.statistic[0], rel=1e-9), 1)
    assert joint.joint_status is Status.OK


def test_euclidean_numbers_of_a_reference_of_equal_rows() -> None:
    """Tu = n² 0.25² / Σ (x - 0.25)² = 4.477, T = Tu / (1 - Tu/60)."""
    found = iso.flag(ONE, reference={"g": "b"}, method="eel", **VALUE)
    z = ONE["x"][:30] - 0.25
    tu = z.sum() ** 2 / (z**2).sum()
    assert found.statistic[0] == pytest.approx(tu / (1 - tu / 60), rel=1e-12)
    assert (found.ci_low[0], found.ci_high[0]) == pytest.approx((-0.471, -0.029), abs=5e-4)


@pytest.mark.parametrize("method", ["el", "eel"])
@pytest.mark.parametrize("reference", ["population", "rest", {"g": "c"}], ids=str)
def test_an_untested_group_of_equal_rows_says_what_the_common_mean_is(method: str, reference: Any) -> None:
    known = iso.certify(TWO, reference=0.1, method=method, **VALUE)
    found = iso.certify(TWO, reference=reference, method=method, **VALUE)
    assert (found.statistic, found.df) == (pytest.approx(known.statistic, rel=1e-9), 2)


def test_equal_rows_at_the_centre_count_for_the_degrees_of_freedom() -> None:
    x = np.tile([-1.0, 1.0], 15)
    data = {"x": np.r_[x + 0.25, x - 0.25, np.zeros(30)], "g": np.repeat(["a", "b", "c"], 30)}
    assert iso.certify(data, **VALUE).df == iso.certify(data, reference=0.0, **VALUE).df == 2


def test_the_minimum_may_lie_at_the_end_of_a_rate() -> None:
    """Two groups without a one, at a disparity of -0.2: the reference is at 0.2, and T = -2 n log 0.8."""
    found = iso.certify({"p": [0] * 40, "g": ["a", "b"] * 20}, reference={"g": "b"}, null=-0.2, **RATE)
    assert found.statistic == pytest.approx(-40 * np.log(0.8), rel=1e-9)
    assert found.joint_status is Status.OK


def test_statuses_of_many_problems_are_members_of_the_enumeration() -> None:
    rows = Ragged.from_codes([0, 0, 1, 1, 2, 2, 3, 3], 4, [0.0, 1.0, 0.2, 0.9, 5.0, 6.0, 0.5, 0.5])
    place = np.array([[0, 1], [0, 2], [0, 3], [3, 3]])
    solved = Shifted(Real(rows), place, np.ones(place.shape, dtype=bool), np.zeros(2)).solve()
    assert [type(s) for s in solved[2]] == [Status] * 4
    assert list(solved[2]) == [Status.OK, Status.OUTSIDE_RANGE, Status.OK, Status.OK]
    assert np.isinf(solved[0]).tolist() == [False, True, False, False]


def test_the_only_possible_reference_is_met_whatever_the_rounding() -> None:
    """Equal rows at c with ε: (c - ε) + ε is not always c."""
    c, shift = 0.1, 0.7
    assert (c - shift) + shift != c
    rows = Ragged.from_codes([0, 0, 0, 1, 1], 2, [-1.0, -0.5, 0.2, c, c])
    problem = Shifted(Real(rows), np.array([[0, 1]]), np.ones((1, 2), dtype=bool), np.array([0.0, shift]))
    statistic, theta, status = problem.solve()
    expected = problem.groups.statistic(np.array([c - shift]), np.array([0]))
    assert (statistic[0], theta[0], status[0]) == (pytest.approx(expected[0]), c - shift, Status.OK)


@pytest.mark.parametrize("kind", [Kind.DISJOINT, Kind.NESTED])
@pytest.mark.parametrize("spread", [0.0, 1e-6, 1e-3, 1.0])
def test_the_euclidean_minimum_is_found_on_every_scale(kind: Kind, spread: float) -> None:
    """Against a search over θ that is fine near every place where a block fits."""
    rng = np.random.default_rng(3)
    x, y = rng.normal(0.2, 1.0, size=50), 0.1 + spread * rng.normal(size=40)
    means = Real(Ragged.from_codes(np.repeat([0, 1], [50, 40]), 2, np.r_[x, y]))
    problem = Profile(kind, means, np.array([0]), other=means, other_index=np.array([1]))
    found = Euclidean(problem, 90.0)
    near = np.r_[0.0, np.geomspace(1e-12, 10.0, 6000)]
    for null in (0.0, 0.003, -0.2, 0.6):
        fits = (x.mean() - null, means.mean[1], means.mean[1] + 50 * null / 40, problem.reference[0])
        theta = np.concatenate([fit + sign * near for fit in fits for sign in (-1.0, 1.0)])
        index = np.zeros(theta.size, dtype=np.intp)
        tu = float(found._uncentred(np.full(theta.size, null), theta, index).min())
        # The search steps by 0.5 %, which a minimum notices in the square.
        assert found.statistic(null)[0] == pytest.approx(tu / (1 - tu / 90), rel=1e-4)


def test_a_partly_overlapping_reference_is_centred_over_all_rows() -> None:
    rng = np.random.default_rng(7)
    race, sex = rng.choice(["a", "b", "c"], size=300), rng.choice(["f", "m"], size=300)
    data = {"x": rng.exponential(size=300), "g": race, "s": sex}
    options: dict[str, Any] = {"metric": M, "groups": iso.where("a", iso.col("g") == "a"), "reference": {"s": "f"}}
    one = iso.flag(data, method="eel", **options)
    joint = iso.certify(data, method="eel", **options)
    assert one.statistic[0] == pytest.approx(joint.statistic, rel=1e-8)
