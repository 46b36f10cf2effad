"""Influence values against resampling that learns both cut-offs again, and questions against the normal law."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

import isonomy as iso
from isonomy.alternatives.rules.criteria import Criteria
from isonomy.alternatives.rules.cutoffs import Decided, judged
from isonomy.alternatives.rules.influence import Contrast, Lines, Moments, compare, moments, worth
from isonomy.alternatives.rules.utilities import READY
from isonomy.numerics.arrays import FloatArray

CAPACITY = 0.15


def scored(n: int, seed: int, *, rounded: bool) -> dict[str, Any]:
    """An integer outcome and two scores for two groups; rounded scores have many ties at the cut-off."""
    rng = np.random.default_rng(seed)
    group, y = rng.integers(0, 2, n), rng.poisson(2, n).astype(float)
    s0, s1 = y + group + rng.normal(0, 2, n), y + rng.normal(0, 1, n)
    return {"g": group, "y": y, "s": [np.round(s) if rounded else s for s in (s0, s1)]}


def lines(data: dict[str, Any]) -> Lines:
    weight = np.ones(len(data["y"]), dtype=np.int64)
    decided = [judged(s, weight, "s", capacity=CAPACITY, threshold=None) for s in data["s"]]
    return Lines({}, {None: data["y"]}, data["g"], weight, (decided[0], decided[1]))


def criteria(**more: Any) -> Criteria:
    utility, rate = READY["outcome_among_selected"], READY["selection_rate"]
    return Criteria(utility, (utility, rate), ("a", "b"), accuracy_gains=(0.0, 0.0), fairness_gains=(0.0, 0.0), **more)


def known(data: dict[str, Any]) -> Moments:
    asked = lines(data)
    return moments(criteria(), asked, worth(criteria(), asked), choosing=None, worst=(0, 0))


def rates(data: dict[str, Any]) -> FloatArray:
    """Written out: cut at the quantile of these rows, ties by lot in expectation."""
    out = []
    for s in data["s"]:
        n = len(s)
        top = np.sort(s)[::-1]
        cut = top[int(np.ceil(CAPACITY * n)) - 1]
        part = (CAPACITY * n - (s > cut).sum()) / (s == cut).sum()
        d = (s > cut) + part * (s == cut)
        out.append([[(data["y"] * d)[data["g"] == g].sum() / d[data["g"] == g].sum() for g in (0, 1)]])
        out[-1].append([d[data["g"] == g].mean() for g in (0, 1)])
    return np.array(out).transpose(1, 0, 2).ravel()


@pytest.mark.parametrize("rounded", [False, True])
def test_standard_errors_are_those_of_resampling_with_new_cutoffs(rounded: bool) -> None:
    """Spread of 600 resamples has a relative error of 3 %; four of these, and the choice of the edge, are allowed."""
    data, rng = scored(4_000, 3, rounded=rounded), np.random.default_rng(0)
    estimates = known(data)
    np.testing.assert_allclose(estimates.estimates[:8], rates(data), rtol=1e-9)
    draws = []
    for _ in range(600):
        i = rng.integers(4_000, size=4_000)
        draws.append(rates({"g": data["g"][i], "y": data["y"][i], "s": [s[i] for s in data["s"]]}))
    ours, theirs = np.sqrt(np.diagonal(estimates.covariance)[:8]), np.std(draws, axis=0)
    np.testing.assert_allclose(ours, theirs, rtol=0.15)
    fixed = lines(data)
    before, after = (Decided(decided.share, 0 * decided.edge) for decided in fixed.decided)
    learned = Lines({}, fixed.outcomes, fixed.group, fixed.weight, (before, after))
    naive = moments(criteria(), learned, worth(criteria(), learned), choosing=None, worst=(0, 0))
    # A fixed cut-off would make the selection rates of both groups vary together; a capacity makes them opposite.
    assert estimates.covariance[4, 5] < 0 <= naive.covariance[4, 5] + 1e-9


def test_a_contrast_is_the_normal_law() -> None:
    question = Contrast(2.0, 4.0, 1.0, 0.2, 0.5, 0.0, 100)
    for delta in (-0.5, 0.0, 0.3, 0.9):
        z = (2 - 4 * delta) / np.sqrt(1 - 0.4 * delta + 0.5 * delta**2)
        assert question.pvalue(delta) == pytest.approx(norm.sf(z))


def test_gains_without_variance() -> None:
    assert Contrast(1.0, 4.0, 0.0, 0.0, 0.0, 0.0, 99).pvalue(0.0) == pytest.approx(0.01)
    assert Contrast(0.0, 4.0, 0.0, 0.0, 0.0, 0.0, 99).pvalue(0.0) == 1
    untouched = Contrast(0.0, 4.0, 0.0, 0.0, 0.0, 0.0, 99, identical=True)
    assert untouched.pvalue([0.0, -0.01, 0.01]).tolist() == [0, 0, 1]


def test_limits_cover_all_gains_at_once() -> None:
    """The status quo itself as the candidate of other people: all gains are 0. 200 tables, 95 % asked for."""
    covered = []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        n = 500
        group, y = rng.integers(0, 2, n), rng.poisson(2, n).astype(float)
        first, second = ((rng.random(n) < 0.3 + 0.2 * group).astype(float) for _ in range(2))
        none = np.zeros(n)
        asked = Lines({}, {None: y}, group, np.ones(n, dtype=np.int64), (Decided(first, none), Decided(second, none)))
        form = criteria(scale="difference")
        values = worth(form, asked)
        estimates = moments(form, asked, values, choosing=None, worst=(0, 0))
        compared = compare(form, estimates, values, np.zeros(2, dtype=bool), 0.05, rng)
        low, high = compared.accuracy_change[:, 1], compared.accuracy_change[:, 2]
        covered.append(bool((low <= 0).all() and (high >= 0).all() and (compared.fairness_change[:, 1] <= 0).all()))
    assert np.mean(covered) > 0.95 - 3 * np.sqrt(0.05 * 0.95 / 200)


def test_pooled_accuracy_is_that_of_all_rows() -> None:
    data = scored(1_000, 1, rounded=False)
    asked, form = lines(data), criteria(weights="pooled")
    estimates = moments(form, asked, worth(form, asked), choosing=None, worst=(0, 0))
    for a in (0, 1):
        d = asked.decided[a].share
        assert estimates.estimates[8 + a] == pytest.approx((data["y"] * d).sum() / d.sum())


def test_more_groups_use_every_row(ready: dict[str, Any]) -> None:
    from support.tables import programme

    result = iso.improvability(programme(6_000, groups=4), **ready)
    assert result.train_rows.tolist() == [0]
    assert result.test_rows.sum() == 6_000
    assert 0 < result.pvalue < 1


def test_doubled_rows_halve_the_variance() -> None:
    data = scored(800, 2, rounded=True)
    asked = lines(data)
    twice = Lines(asked.features, asked.outcomes, asked.group, 2 * asked.weight, asked.decided)
    one, two = (
        moments(criteria(), part, worth(criteria(), part), choosing=None, worst=(0, 0)) for part in (asked, twice)
    )
    np.testing.assert_allclose(two.estimates, one.estimates)
    np.testing.assert_allclose(two.covariance, one.covariance / 2)


def test_rows_that_chose_the_pair_know_nothing_of_its_gap_however_rows_are_collapsed() -> None:
    """Three groups: lines of several rows, some of which choose, against the same rows one by one."""
    rng = np.random.default_rng(4)
    n = 60
    group, y, count = rng.integers(0, 3, n), rng.poisson(2, n).astype(float), rng.integers(1, 6, n)
    d0, d1 = rng.integers(0, 2, n).astype(float), rng.integers(0, 2, n).astype(float)
    chose = rng.binomial(count, 0.3)
    utility = READY["selection_rate"]
    form = Criteria(utility, (utility,), ("a", "b", "c"), accuracy_gains=(0.0,) * 3, fairness_gains=(0.0,))
    row = np.repeat(np.arange(n), count)
    flags = np.concatenate([[1.0] * c + [0.0] * (k - c) for c, k in zip(chose, count, strict=True)])
    answers = []
    for index, weight, choosing in ((np.arange(n), count, chose.astype(float)), (row, np.ones(len(row)), flags)):
        none = np.zeros(len(index))
        both = (Decided(d0[index], none), Decided(d1[index], none))
        asked = Lines({}, {None: y[index]}, group[index], weight, both)
        answers.append(moments(form, asked, worth(form, asked), choosing=choosing, worst=(0,)))
    np.testing.assert_allclose(answers[0].estimates, answers[1].estimates)
    np.testing.assert_allclose(answers[0].covariance, answers[1].covariance)
    assert answers[0].worst == answers[1].worst
