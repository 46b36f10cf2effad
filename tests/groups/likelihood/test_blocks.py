"""Disjoint groups: common shifts, and disparities from the rest."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

import isonomy as iso
from isonomy.groups.flag import Method
from isonomy.groups.likelihood.means import Binary, Means, Real
from isonomy.groups.likelihood.region import Rests, Shifted
from isonomy.numerics.ragged import Ragged
from isonomy.results import Status
from support.groups import counted

RATE: dict[str, Any] = {"metric": "selection_rate", "groups": "race", "prediction": "selected"}
LOSS: dict[str, Any] = {"metric": iso.Metric("loss", value=iso.col("loss")), "groups": "race"}


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


@pytest.mark.parametrize("method", ["el", "eel"])
def test_two_groups_against_their_rests_are_one_against_the_other(method: Method) -> None:
    data = counted((200, 103), (200, 110))
    for e in (0.1, -0.035, 0.02, -0.1, -0.02):
        rest = iso.certify(data, reference="rest", null=[e, -e], method=method, **RATE)
        level = iso.certify(data, reference={"race": "b"}, null=e, method=method, **RATE)
        assert (rest.df, level.df) == (1, 1)
        assert rest.statistic == pytest.approx(level.statistic, rel=1e-7, abs=1e-9)
        assert rest.contains([e, -e]) == level.contains(e)
    assert rest.contains([0.02, -0.02])


def by_search(codes: np.ndarray, values: np.ndarray, target: np.ndarray, method: Method) -> float:
    """The smallest likelihood ratio over shares and means that meet the disparities, by the simplex method."""
    n = np.bincount(codes).astype(float)
    own: Means = Real(Ragged.from_codes(codes, 3, values))
    if set(np.unique(values)) == {0.0, 1.0}:
        own = Binary(n, np.bincount(codes, weights=values))
    p = n / n.sum()

    def total(x: np.ndarray) -> float:
        mean, first = x[0], x[1]
        if target.size == 2:  # the third block's mean follows
            shares = np.array([first, x[2], 1 - first - x[2]])
            means = mean + target * (1 - shares[:2])
            means = np.append(means, (mean - shares[:2] @ means) / shares[2])
        else:  # the second share follows from a quadratic equation
            e1, e2, e3 = target
            c = 1 - first
            result = np.roots([-e2 - e3, e2 + e3 * (2 * c - 1), e1 * first * c + e3 * c * (1 - c)])
            second = result[np.argmin(np.abs(result - p[1]))]
            if abs(second.imag) > 0:
                return 1e9
            shares = np.array([first, second.real, c - second.real])
            means = mean + target * (1 - shares)
        if shares.min() <= 0:
            return 1e9
        if method == "eel":
            mine = n.sum() * shares
            return float(np.sum((mine - n) ** 2 / n + mine**2 * (means - own.mean) ** 2 / (n * own.variance)))
        return float(np.sum(own.statistic(means, np.arange(3)) + 2 * n * np.log(p / shares)))

    start = np.concatenate([[p @ own.mean], p[: 4 - target.size]])
    near = start + np.vstack([np.zeros(start.size), 0.02 * np.eye(start.size)])
    options: Any = {"initial_simplex": near, "xatol": 1e-9, "fatol": 1e-9, "maxiter": 2_000}
    return float(minimize(total, start, method="Nelder-Mead", options=options).fun)


@pytest.mark.parametrize("method", ["el", "eel"])
@pytest.mark.parametrize("kwargs", [RATE, LOSS], ids=["binary", "real"])
@pytest.mark.parametrize("leave", [False, True], ids=["all groups", "some rows in no group"])
def test_several_groups_against_their_rests(
    lender: dict[str, Any], kwargs: dict[str, Any], leave: bool, method: Method
) -> None:
    """The minimum over shares and means, against a direct search among weightings that meet the disparities."""
    groups: Any = "race" if not leave else [iso.where(g, iso.col("race") == g) for g in "ab"]
    result = iso.certify(lender, reference="rest", method=method, **{**kwargs, "groups": groups})
    assert result.region is not None
    estimate = result.disparity
    assert result.contains(estimate)
    for away in ([0.01, 0.0, 0.0], [0.02, -0.03, 0.01], [-0.03, 0.01, 0.04]):
        target = estimate + np.array(away)[: estimate.size]
        solution = result.region.test(target)
        assert solution.status is Status.OK
        assert solution.df == estimate.size
        codes = np.searchsorted(["a", "b", "c"], lender["race"])
        values = lender["selected" if kwargs is RATE else "loss"].astype(float)
        assert solution.statistic == pytest.approx(by_search(codes, values, target, method), rel=1e-5, abs=1e-6)


def test_disparities_from_the_rest_have_a_chi_square_statistic() -> None:
    """At true disparities that are not 0 the shares are tested too: three groups, three degrees of freedom."""
    rng = np.random.default_rng(8)
    shares, rates = np.array([0.5, 0.3, 0.2]), np.array([0.5, 0.6, 0.35])
    truth = (rates - shares @ rates) / (1 - shares)
    statistics = []
    for _ in range(80):
        n = rng.multinomial(900, shares)
        statistics.append(Rests(Binary(n, rng.binomial(n, rates)), truth, False).solve().statistic)
    # A chi-square with 3 df has variance 6; three standard errors.
    assert np.mean(statistics) == pytest.approx(3, abs=3 * np.sqrt(6 / 80))
    assert np.mean(np.array(statistics) > 7.815) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 80)
