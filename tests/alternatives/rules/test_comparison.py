"""Limits that hold for all gains at once, and groups that nothing is changed for."""

from __future__ import annotations

import numpy as np

from isonomy.alternatives.rules.comparison import compare
from isonomy.alternatives.rules.criteria import Criteria
from isonomy.alternatives.rules.cutoffs import Selection, selection
from isonomy.alternatives.rules.influence import Lines, moments, worth
from isonomy.alternatives.rules.utilities import READY


def test_limits_cover_all_gains_at_once() -> None:
    """The status quo itself as the candidate of other people: all gains are 0. 200 tables, 95 % asked for."""
    utility, rate, covered = READY["outcome_among_selected"], READY["selection_rate"], []
    form = Criteria(
        utility, (utility, rate), ("a", "b"), accuracy_gains=(0.0,) * 2, fairness_gains=(0.0,) * 2, scale="difference"
    )
    for seed in range(200):
        rng = np.random.default_rng(seed)
        n = 500
        group, y = rng.integers(0, 2, n), rng.poisson(2, n).astype(float)
        first, second = ((rng.random(n) < 0.3 + 0.2 * group).astype(float) for _ in range(2))
        none = np.zeros(n)
        asked = Lines(
            {}, {None: y}, group, np.ones(n, dtype=np.int64), (Selection(first, none), Selection(second, none))
        )
        values = worth(form, asked)
        estimates = moments(form, asked, values, (0, 0))
        compared = compare(form, estimates, values, np.zeros(2, dtype=bool), 0.05, rng)
        low, high = compared.accuracy_change[:, 1], compared.accuracy_change[:, 2]
        covered.append(bool((low <= 0).all() and (high >= 0).all() and (compared.fairness_change[:, 1] <= 0).all()))
    assert np.mean(covered) > 0.95 - 3 * np.sqrt(0.05 * 0.95 / 200)


def test_a_group_decided_as_before_meets_any_margin_at_a_capacity_too() -> None:
    """Scores change places within one group: the cut-off and the other group's decisions stay as they are."""
    rng = np.random.default_rng(3)
    group, y = rng.integers(0, 2, 1_000), rng.integers(0, 2, 1_000).astype(float)
    before = y + rng.normal(0, 3, 1_000)
    after, b = before.copy(), np.flatnonzero(group == 1)
    after[b[np.argsort(y[b] + rng.normal(0, 0.1, len(b)))]] = np.sort(before[b])
    weight = np.ones(1_000, dtype=np.int64)
    both = [selection(s, weight, "s", capacity=0.2, threshold=None) for s in (before, after)]
    asked = Lines({}, {None: y}, group, weight, (both[0], both[1]))
    form = Criteria(READY["tpr"], (READY["tpr"],), ("a", "b"), accuracy_gains=(0.0, 0.0), fairness_gains=(0.0,))
    values, same = worth(form, asked), np.array([True, False])
    compared = compare(form, moments(form, asked, values, (0,)), values, same, 0.05, rng)
    untouched = compared.comparison.accuracy[0]
    assert [float(untouched.pvalue(gain)) for gain in (0.0, -0.01, 0.01)] == [0, 0, 1]
    assert compared.accuracy_change[0].tolist() == [0, 0, 0]
