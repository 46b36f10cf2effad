"""Influence values against resampling that learns both cut-offs again, and questions against the normal law."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import norm

import isonomy as iso
from isonomy.alternatives.rules.criteria import CANDIDATE, STATUS_QUO, Criteria
from isonomy.alternatives.rules.cutoffs import Decided, judged
from isonomy.alternatives.rules.influence import Contrast, Equivalence, Lines, Moments, compare, moments, worth
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
    return moments(criteria(), asked, worth(criteria(), asked), (0, 0))


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
    naive = moments(criteria(), learned, worth(criteria(), learned), (0, 0))
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
        estimates = moments(form, asked, values, (0, 0))
        compared = compare(form, estimates, values, np.zeros(2, dtype=bool), 0.05, rng)
        low, high = compared.accuracy_change[:, 1], compared.accuracy_change[:, 2]
        covered.append(bool((low <= 0).all() and (high >= 0).all() and (compared.fairness_change[:, 1] <= 0).all()))
    assert np.mean(covered) > 0.95 - 3 * np.sqrt(0.05 * 0.95 / 200)


def test_pooled_accuracy_is_that_of_all_rows() -> None:
    data = scored(1_000, 1, rounded=False)
    asked, form = lines(data), criteria(weights="pooled")
    estimates = moments(form, asked, worth(form, asked), (0, 0))
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
    one, two = (moments(criteria(), part, worth(criteria(), part), (0, 0)) for part in (asked, twice))
    np.testing.assert_allclose(two.estimates, one.estimates)
    np.testing.assert_allclose(two.covariance, one.covariance / 2)


def three(rng: np.random.Generator, rates: tuple[tuple[float, float], ...], n: int) -> tuple[Criteria, Lines]:
    """Selection rates of each group under the status quo and the candidate."""
    group = rng.integers(0, len(rates), n)
    both = tuple(
        Decided((rng.random(n) < np.array(rates)[group, a]).astype(float), np.zeros(n)) for a in (STATUS_QUO, CANDIDATE)
    )
    utility, size = READY["selection_rate"], len(rates)
    labels = tuple("abcdef"[:size])
    form = Criteria(utility, (utility,), labels, accuracy_gains=(0.0,) * size, fairness_gains=(0.0,))
    return form, Lines({}, {None: np.zeros(n)}, group, np.ones(n, dtype=np.int64), (both[0], both[1]))


def test_the_worst_of_several_gaps_does_not_depend_on_how_rows_are_collapsed_or_groups_called() -> None:
    form, rows = three(np.random.default_rng(4), ((0.6, 0.5), (0.42, 0.5), (0.44, 0.5)), 300)
    key = 4 * rows.group + 2 * rows.decided[0].share.astype(int) + rows.decided[1].share.astype(int)
    _, first, count = np.unique(key, return_index=True, return_counts=True)
    none = np.zeros(len(first))
    both = [Decided(d.share[first], none) for d in rows.decided]
    cells = Lines({}, {None: none}, rows.group[first], count, (both[0], both[1]))
    renamed = replace(rows, group=np.array([2, 0, 1])[rows.group])
    one, *others = (moments(form, part, worth(form, part)) for part in (rows, cells, renamed))
    for other in others:
        np.testing.assert_allclose(other.estimates[-1], one.estimates[-1])
        np.testing.assert_allclose(other.covariance[-1, -1], one.covariance[-1, -1])
    np.testing.assert_allclose(others[0].covariance, one.covariance)
    assert one.worst == others[0].worst


def test_the_worst_of_several_gaps_is_not_overestimated() -> None:
    """Three pairs of four groups tie at 0.2: the largest of their estimates is too large, ours is not."""
    naive, ours = [], []
    for seed in range(150):
        form, rows = three(np.random.default_rng(seed), ((0.6, 0.5), (0.4, 0.5), (0.4, 0.5), (0.4, 0.5)), 400)
        known = moments(form, rows, worth(form, rows))
        naive.append(np.ptp(known.estimates[:4]))
        ours.append(known.estimates[-1])
        assert known.covariance[-1, -1] >= 0
    error = 3 * np.std(ours) / np.sqrt(len(ours))
    assert np.mean(naive) > 0.2 + 0.03
    assert np.mean(ours) <= 0.2 + error


def gap_question(f0: float, f1: float, covariance: FloatArray, step: float = 0.0) -> Equivalence:
    known = Moments(np.array([f0, f1]), covariance, 1_000, (0,))
    base, gap = np.eye(2)
    upper, lower = known.contrast(base - gap, base), known.contrast(base + gap, base)
    return Equivalence(upper, lower, float((base - gap) @ covariance @ (base + gap)), step)


@pytest.mark.parametrize("cut", [0.0, 0.5, 0.7, 0.9])
def test_equivalence_has_its_level_on_the_boundary_and_is_never_weaker_than_two_questions(cut: float) -> None:
    """Appendix E, l = 100: the gap of the candidate is exactly what the required cut leaves."""
    covariance, tables = np.array([[10.0, 6.85], [6.85, 10.83]]) / 100, 2_000
    draws = np.random.default_rng(1).multivariate_normal([1.52, (1 - cut) * 1.52], covariance, size=tables)
    together, apart = [], []
    for f0, f1 in draws:
        question = gap_question(f0, f1, covariance)
        together.append(float(question.pvalue(cut)))
        apart.append(max(float(question.upper.pvalue(cut)), float(question.lower.pvalue(cut))))
    assert (np.array(together) <= np.array(apart) + 1e-15).all()
    assert abs(np.mean(np.array(together) <= 0.05) - 0.05) < 3 * np.sqrt(0.05 * 0.95 / tables)
    assert cut < 0.6 or np.mean(np.array(apart) <= 0.05) < 0.01


def test_equivalence_with_a_known_margin_is_the_most_powerful_unbiased_test() -> None:
    question = gap_question(1.0, 0.1, np.diag([1e-18, 0.25]))
    assert float(question.pvalue(0.0)) == pytest.approx(ndtr(-1.8) - ndtr(-2.2), abs=1e-6)
    assert float(gap_question(1.0, 0.1, np.diag([1e-18, 0.25]), step=0.05).pvalue(0.0)) == pytest.approx(
        ndtr(-1.7) - ndtr(-2.3), abs=1e-6
    )
    outside = gap_question(0.1, 0.2, np.diag([1e-18, 0.25]))
    assert float(outside.pvalue(0.0)) == float(outside.upper.pvalue(0.0)) > 0.5
    not_shown = gap_question(0.1, 0.0, np.diag([0.01, 4.0]))
    assert float(not_shown.pvalue(0.0)) == pytest.approx(ndtr(-1.0))
