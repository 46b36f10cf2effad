"""The test from end to end: forms of the question, and what comes back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isonomy as iso
from isonomy.alternatives import Utility
from support.same import same
from support.tables import programme

NUMBERS = ("accuracy", "fairness", "round_pvalues", "selected", "cutoffs", "undefined", "pvalue")


def test_ready_candidate(data: dict[str, Any], ask: dict[str, Any]) -> None:
    result = iso.improvability(data, **ask)
    assert result.reject
    assert result.verdict == "violation"
    assert result.pvalue == min(1, 2 * result.median_pvalue) == 2 * np.sort(result.round_pvalues)[1]
    np.testing.assert_array_equal(
        result.round_pvalues, np.maximum(result.accuracy[..., 2].max(axis=1), result.fairness[..., 2].max(axis=1))
    )
    assert (result.accuracy[..., 0] > result.accuracy[..., 1]).all()
    assert (abs(result.selected - 0.1) < 0.03).all()
    assert result.test_rows.sum(axis=1).tolist() == [2000] * 3
    assert result.groups[0].label == "race=Black"
    frame = result.to_frame()
    assert len(frame) == 3
    assert "accuracy race=Black candidate" in frame.columns
    assert "less discriminatory alternative was shown" in result.findings()[0]


def test_unfairness_and_accuracy_by_hand(data: dict[str, Any], ask: dict[str, Any]) -> None:
    """Decisions given, one split, no capacity: every row is tested."""
    ask |= {"status_quo": "decision", "candidate": "better", "capacity": None, "splits": 1}
    result = iso.improvability(data, **ask)
    assert result.train_rows.tolist() == [0]
    assert result.test_rows.sum() == 4000
    need, race = data["need"], data["race"]
    for column, k in (("better", 0), ("decision", 1)):
        means = [need[(race == g) & (data[column] == 1)].mean() for g in ("Black", "White")]
        np.testing.assert_allclose(result.accuracy[0, :, k], means)
        assert result.fairness[0, 0, k] == pytest.approx(abs(means[0] - means[1]))
    assert result.pvalue == result.round_pvalues[0]  # undoubled
    assert result.level == result.alpha


def test_capacity_cuts_at_the_training_quantile(data: dict[str, Any], ask: dict[str, Any]) -> None:
    result = iso.improvability(data, **(ask | {"train_fraction": 0.6}))
    assert result.cutoffs is not None
    for column, k in (("need_score", 0), ("cost_score", 1)):
        share = [(data[column] > cut).mean() for cut in result.cutoffs[:, k]]
        assert np.allclose(share, 0.1, atol=0.02)


def test_threshold(data: dict[str, Any], ask: dict[str, Any]) -> None:
    ask |= {"capacity": None, "threshold": 0.5, "splits": 1}
    result = iso.improvability(data, **ask)
    expected = [(data["need_score"] > 0.5).mean(), (data["cost_score"] > 0.5).mean()]
    np.testing.assert_allclose(result.selected[0], expected)


def test_requirements_make_it_harder(data: dict[str, Any], ask: dict[str, Any]) -> None:
    free = iso.improvability(data, **ask)
    asked = iso.improvability(data, **ask, accuracy_gain={"Black": 0.3, "race=White": 0.0}, fairness_gain=0.3)
    assert (asked.round_pvalues >= free.round_pvalues).all()
    np.testing.assert_array_equal(asked.accuracy[:, 1], free.accuracy[:, 1])
    assert asked.accuracy_gains == (0.3, 0.0)
    assert (asked.accuracy[:, 0, 2] > free.accuracy[:, 0, 2]).any()


def test_ratio_and_difference_agree_without_gains(data: dict[str, Any], ask: dict[str, Any]) -> None:
    ratio, difference = (iso.improvability(data, **ask, scale=s) for s in ("ratio", "difference"))
    same(ratio, difference, NUMBERS, rel=0, abs=0)
    harder = iso.improvability(data, **ask, scale="difference", accuracy_gain=0.5)
    assert (harder.accuracy[..., 2] >= ratio.accuracy[..., 2]).all()


def test_pooled_and_weighted_accuracy(data: dict[str, Any], ask: dict[str, Any]) -> None:
    pooled = iso.improvability(data, **ask, accuracy_weights="pooled")
    assert pooled.accuracy.shape == (3, 1, 3)
    weighted = iso.improvability(data, **ask, accuracy_weights={"Black": 2, "White": 1})
    apart = iso.improvability(data, **ask)
    np.testing.assert_allclose(weighted.accuracy[:, 0, :2], apart.accuracy[:, :, :2].transpose(0, 2, 1) @ [2, 1])


def test_pooled_accuracy_needs_no_groups_own(data: dict[str, Any], ask: dict[str, Any]) -> None:
    """Nobody of one group is selected: its own accuracy is undefined, the pooled one is not."""
    score = np.where(data["race"] == "Black", -100.0, data["need_score"])
    result = iso.improvability(
        data | {"need_score": score}, **ask, accuracy_weights="pooled", fairness="selection_rate"
    )
    assert (result.accuracy[:, 0, 0] > 0).all()
    assert not result.reject


def test_several_fairness_criteria(data: dict[str, Any], ask: dict[str, Any]) -> None:
    ask |= {"outcome": "sick", "accuracy": "accuracy", "fairness": ["equalized_odds", "selection_rate"]}
    result = iso.improvability(data, **ask, fairness_gain={"tpr": 0.0, "fpr": 0.1, "selection_rate": -0.1})
    assert result.fairness_utilities == ("tpr", "fpr", "selection_rate")
    assert result.fairness.shape == (3, 3, 3)
    assert (result.round_pvalues >= result.fairness[..., 2].max(axis=1)).all()


def test_one_sided_unfairness(data: dict[str, Any], ask: dict[str, Any]) -> None:
    """White people are selected with less need: 'higher' is Black people's disadvantage, not 'lower'."""
    harmed = iso.improvability(data, **ask, protected="Black", disadvantage="higher")
    both = iso.improvability(data, **ask)
    np.testing.assert_allclose(harmed.fairness[..., 1], both.fairness[..., 1])
    assert harmed.reject
    other = iso.improvability(data, **ask, protected={"race": "Black"})
    assert (other.fairness[..., 1] == 0).all()
    assert not other.reject
    assert any("not worse off" in w for w in other.warnings)


def test_more_than_two_groups(ask: dict[str, Any]) -> None:
    result = iso.improvability(programme(8000, groups=4), **ask)
    assert result.accuracy.shape == (3, 4, 3)
    assert result.fairness.shape == (3, 1, 3)
    assert all(len(pairs) == 1 for pairs in result.worst_pairs)
    single = iso.improvability(programme(8000, groups=4), **(ask | {"splits": 1, "capacity": None, "threshold": 1.0}))
    assert single.train_rows[0] == 4000  # the worst pair is chosen on other rows
    assert any("most unequal pair" in w for w in single.warnings)


def test_two_columns_mean_their_intersections(data: dict[str, Any], ask: dict[str, Any]) -> None:
    result = iso.improvability(data, **(ask | {"groups": ["race", iso.cut("x2", [0.0])]}))
    assert result.groups[0].label == "race=Black & x2=<0"
    assert len(result.groups) == 4


def test_other_outcome_for_accuracy(data: dict[str, Any], ask: dict[str, Any]) -> None:
    """Cost as accuracy, need as fairness (appendix H.3)."""
    cost = {"utility": "outcome_among_selected", "outcome": "cost"}
    result = iso.improvability(data, **ask, accuracy=cost, fairness="outcome_among_selected")
    plain = iso.improvability(data, **ask)
    np.testing.assert_allclose(result.fairness[..., :2], plain.fairness[..., :2])
    assert (result.accuracy[..., 1] > 100).all()


def test_user_utility_and_numbers_as_decisions(data: dict[str, Any], ask: dict[str, Any]) -> None:
    ask |= {"accuracy": "profit", "capacity": None, "status_quo": "price0", "candidate": "price1"}
    prices = {"price0": 1.0 + 1.5 * data["group"], "price1": np.full(4000, 2.0)}
    result = iso.improvability(data | prices, **ask)
    assert result.accuracy[0, 0, 0] == pytest.approx(2 * (data["need"] >= 2).mean(), abs=0.15)
    mine = Utility("net", lambda x, y, d: (d * (y - 1.0), 1.0))
    ask |= {"status_quo": "decision", "candidate": "better", "accuracy": mine, "fairness": "selection_rate"}
    assert iso.improvability(data, **ask).accuracy_utility == "net"


def test_paper_pvalues_can_be_zero(data: dict[str, Any], ask: dict[str, Any]) -> None:
    paper = iso.improvability(data, **ask, pvalue_form="paper")
    ours = iso.improvability(data, **ask)
    np.testing.assert_allclose(ours.round_pvalues, (1 + 300 * paper.round_pvalues) / 301)
