"""Influence values against resampling that recomputes both cutoffs; the worst of several gaps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import isonomy as iso
from isonomy.alternatives.rules.algorithm import Selection, select
from isonomy.alternatives.rules.influence import Judged, RateMoments, moments
from isonomy.alternatives.rules.utilities import CANDIDATE, READY, STATUS_QUO, Criteria
from isonomy.numerics.arrays import FloatArray

CAPACITY = 0.15


def scored(n: int, seed: int, *, rounded: bool) -> dict[str, Any]:
    """An integer outcome and two scores for two groups; rounded scores have many ties at the cutoff."""
    rng = np.random.default_rng(seed)
    group, y = rng.integers(0, 2, n), rng.poisson(2, n).astype(float)
    s0, s1 = y + group + rng.normal(0, 2, n), y + rng.normal(0, 1, n)
    return {"g": group, "y": y, "s": [np.round(s) if rounded else s for s in (s0, s1)]}


def criteria(**more: Any) -> Criteria:
    utility, rate = READY["outcome_among_selected"], READY["selection_rate"]
    gains: dict[str, Any] = {"accuracy_gains": (0.0, 0.0), "fairness_gains": (0.0, 0.0)}
    return Criteria(utility, (utility, rate), ("a", "b"), capacity=CAPACITY, **gains, **more)


def lines(data: dict[str, Any], **more: Any) -> Judged:
    weight, form = np.ones(len(data["y"]), dtype=np.int64), criteria(**more)
    before, after = (select(s, weight, form, "s") for s in data["s"])
    return Judged(form, {}, {None: data["y"]}, data["g"], weight, (before, after))


def known(data: dict[str, Any]) -> RateMoments:
    return moments(lines(data), (0, 0))


def rates(data: dict[str, Any]) -> FloatArray:
    """Computed directly: cut at the quantile of these rows, with random ties in expectation."""
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
    """The spread of 600 resamples has a relative error of 3 %; four errors, and the choice of the edge, are allowed."""
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
    before, after = (Selection(part.share, 0 * part.edge) for part in fixed.selections)
    naive = moments(replace(fixed, selections=(before, after)), (0, 0))
    # With a fixed cutoff, the selection rates of both groups would vary together; with a capacity, they are opposed.
    assert estimates.covariance[4, 5] < 0 <= naive.covariance[4, 5] + 1e-9


def test_pooled_accuracy_is_that_of_all_rows() -> None:
    data = scored(1_000, 1, rounded=False)
    judged = lines(data, weights="pooled")
    estimates = moments(judged, (0, 0))
    for a in (0, 1):
        d = judged.selections[a].share
        assert estimates.estimates[8 + a] == pytest.approx((data["y"] * d).sum() / d.sum())


def test_more_groups_use_every_row(ready: dict[str, Any]) -> None:
    from support.tables import programme

    result = iso.improvability(programme(6_000, groups=4), **ready)
    assert result.train_rows.tolist() == [0]
    assert result.test_rows.sum() == 6_000
    assert 0 < result.pvalue < 1


def test_doubled_rows_halve_the_variance() -> None:
    data = scored(800, 2, rounded=True)
    judged = lines(data)
    once, twice = (moments(part, (0, 0)) for part in (judged, replace(judged, weight=2 * judged.weight)))
    np.testing.assert_allclose(twice.estimates, once.estimates)
    np.testing.assert_allclose(twice.covariance, once.covariance / 2)


def three(rng: np.random.Generator, rates: tuple[tuple[float, float], ...], n: int) -> Judged:
    """Selection rates of each group for the status quo and the candidate."""
    group = rng.integers(0, len(rates), n)
    both = tuple(
        Selection((rng.random(n) < np.array(rates)[group, a]).astype(float), np.zeros(n))
        for a in (STATUS_QUO, CANDIDATE)
    )
    utility, size = READY["selection_rate"], len(rates)
    labels = tuple("abcdef"[:size])
    form = Criteria(utility, (utility,), labels, accuracy_gains=(0.0,) * size, fairness_gains=(0.0,))
    return Judged(form, {}, {None: np.zeros(n)}, group, np.ones(n, dtype=np.int64), (both[0], both[1]))


def test_the_worst_of_several_gaps_does_not_depend_on_how_rows_are_collapsed_or_groups_called() -> None:
    rows = three(np.random.default_rng(4), ((0.6, 0.5), (0.42, 0.5), (0.44, 0.5)), 300)
    key = 4 * rows.group + 2 * rows.selections[0].share.astype(int) + rows.selections[1].share.astype(int)
    _, first, count = np.unique(key, return_index=True, return_counts=True)
    none = np.zeros(len(first))
    both = [Selection(d.share[first], none) for d in rows.selections]
    cells = Judged(rows.criteria, {}, {None: none}, rows.group[first], count, (both[0], both[1]))
    renamed = replace(rows, group=np.array([2, 0, 1])[rows.group])
    plain, *others = (moments(part) for part in (rows, cells, renamed))
    for other in others:
        np.testing.assert_allclose(other.estimates[-1], plain.estimates[-1])
        np.testing.assert_allclose(other.covariance[-1, -1], plain.covariance[-1, -1])
    np.testing.assert_allclose(others[0].covariance, plain.covariance)
    assert plain.worst == others[0].worst


def test_the_worst_of_several_gaps_is_not_overestimated() -> None:
    """Three pairs of four groups tie at 0.2: the largest of their estimates is biased upward, ours is not."""
    naive, ours = [], []
    for seed in range(150):
        known = moments(three(np.random.default_rng(seed), ((0.6, 0.5), (0.4, 0.5), (0.4, 0.5), (0.4, 0.5)), 400))
        naive.append(np.ptp(known.estimates[:4]))
        ours.append(known.estimates[-1])
        assert known.covariance[-1, -1] >= 0
    error = 3 * np.std(ours) / np.sqrt(len(ours))
    assert np.mean(naive) > 0.2 + 0.03
    assert np.mean(ours) <= 0.2 + error
