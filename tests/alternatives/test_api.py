"""The test from end to end: forms of the question, and what comes back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isonomy as iso
from isonomy.alternatives import Training, Utility
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
    assert result.groups[0].label == "race=Black & x2 < 0"
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


def test_ready_candidates_use_every_row_and_select_the_capacity(data: dict[str, Any], ready: dict[str, Any]) -> None:
    result = iso.improvability(data, **ready)
    assert result.evidence == "whole"
    assert result.test_rows.sum() == 4000
    np.testing.assert_allclose(result.selected, 0.1, atol=1e-12)
    assert result.pvalue == result.round_pvalues[0]
    assert result.reject
    for change, part in (
        (result.accuracy_change[0], result.accuracy[0]),
        (result.fairness_change[0], result.fairness[0]),
    ):
        assert (change[:, 1] < change[:, 0]).all()
        assert (change[:, 0] < change[:, 2]).all()
        assert abs(change[:, 0]) == pytest.approx(abs(part[:, 0] / part[:, 1] - 1))
    point = iso.improvability(data, **ready, accuracy_gain=result.supported_accuracy_gain + 1e-6)
    assert not point.reject


def test_an_overfitting_rule_selects_the_capacity(data: dict[str, Any], crossfit: dict[str, Any]) -> None:
    """A forest that interpolates, and scores that are all ties but a few: the paper's cut-offs select other shares."""
    from sklearn.ensemble import RandomForestRegressor
    from sklearn.tree import DecisionTreeRegressor

    def two_scores(training: Training) -> Any:
        return lambda people: (people.features["lab"] > 1).astype(float)

    for rule in (RandomForestRegressor(10), DecisionTreeRegressor(max_depth=2), two_scores):
        result = iso.improvability(data, **crossfit, rule=rule)
        np.testing.assert_allclose(result.selected, 0.1, atol=1e-12)
        halves = iso.improvability(data, **(crossfit | {"repeats": None}), rule=rule, splits=2)
        np.testing.assert_allclose(halves.selected, 0.1, atol=1e-12)


def test_cross_fitting_is_repeatable_and_parallel(data: dict[str, Any], crossfit: dict[str, Any]) -> None:
    numbers = ("accuracy", "fairness", "accuracy_change", "fairness_change", "selected", "cutoffs", "pvalue")
    serial = iso.improvability(data, **crossfit, rule="linear")
    assert serial.evidence == "crossfit"
    same(serial, iso.improvability(data, **crossfit, rule="linear", n_jobs=2), numbers, rel=0, abs=0)
    assert serial.reject


def test_a_margin_allows_a_loss_stated_beforehand(data: dict[str, Any], ready: dict[str, Any]) -> None:
    asked = iso.improvability(data, **ready, margin=0.02)
    same(asked, iso.improvability(data, **ready, accuracy_gain=-0.02), ("accuracy", "fairness", "pvalue"))
    assert asked.accuracy_gains == (-0.02, -0.02)
    assert asked.pvalue <= iso.improvability(data, **ready).pvalue


def test_a_group_left_as_it_is_counts_as_no_less_accurate(data: dict[str, Any], ready: dict[str, Any]) -> None:
    """Only White people are decided otherwise: the first edition's p-value was 1."""
    mixed = np.where(data["race"] == "Black", data["decision"], data["better"])
    ask = ready | {"status_quo": "decision", "candidate": "mixed", "capacity": None}
    result = iso.improvability(data | {"mixed": mixed}, **ask)
    assert result.accuracy[0, 0, 2] == 0
    assert result.pvalue == max(result.accuracy[0, 1, 2], result.fairness[0, 0, 2])
    assert any("decide alike for everybody of race=Black" in warning for warning in result.warnings)
    more = iso.improvability(data | {"mixed": mixed}, **ask, accuracy_gain={"Black": 0.01, "White": 0.0})
    assert more.pvalue == 1


def test_the_status_quo_as_its_own_candidate(data: dict[str, Any], ready: dict[str, Any]) -> None:
    result = iso.improvability(data, **(ready | {"candidate": "cost_score"}))
    assert result.pvalue == 1
    assert any("same decisions as the status quo for everybody" in warning for warning in result.warnings)


def test_a_dossier_of_several_candidates(data: dict[str, Any], ready: dict[str, Any]) -> None:
    several = {"need": "need_score", "same": "cost_score", "laboratory": "lab"}
    tried: list[dict[str, str | float]] = [{"what": "a linear rule", "seed": 7, "date": "2025-03-01"}]
    result = iso.improvability(data, **(ready | {"candidate": several}), tried=tried)
    alone = iso.improvability(data, **ready)
    assert result.round_pvalues[0] == pytest.approx(alone.pvalue, abs=0)
    np.testing.assert_allclose(result.adjusted[0], 4 * alone.pvalue)
    assert result.pvalue == result.adjusted.min()
    assert result.verdicts[1] == "inconclusive"
    assert "need" in result.alternatives
    assert [entry["what"] for entry in result.log] == ["a linear rule", "need", "same", "laboratory"]
    frame = result.to_frame("polars")
    assert frame["candidate"].to_list() == list(several)
    assert {"accuracy race=Black low", "unfairness outcome_among_selected high", "verdict"} <= set(frame.columns)
    assert (result.accuracy_change[0, :, 1] < alone.accuracy_change[0, :, 1]).all()  # wider, for there are more
    again = iso.from_json(result.to_json())
    assert again.log == result.log
    assert again.summary() == result.summary()
    listed = iso.improvability(data, **(ready | {"candidate": ["need_score", "lab"]}))
    assert listed.candidates == ("need_score", "lab")


def test_text_features(data: dict[str, Any], crossfit: dict[str, Any]) -> None:
    town = np.array(["Rome", "Troy", "Ur"])[np.digitize(data["lab"], [1.0, 3.0])]
    ask = crossfit | {"features": ["x1", "town"]}
    with_town = iso.improvability(data | {"town": town}, **ask, rule="linear")
    codes = {f"is {name}": (town == name).astype(float) for name in ("Troy", "Ur")}
    by_hand = iso.improvability(data | codes, **(ask | {"features": ["x1", *codes]}), rule="linear")
    np.testing.assert_allclose(with_town.accuracy[..., :2], by_hand.accuracy[..., :2], rtol=0.05)
    best = with_town.recommended
    if best is not None:
        new = {"x1": data["x1"][:3], "town": ["Ur", "Rome", "Atlantis"]}
        assert len(best.score(new)) == 3
