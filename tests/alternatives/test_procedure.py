"""The test from end to end: forms of the question, what comes back, and that it comes back the same."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import isonomy as iso
from isonomy.alternatives import Recommendation, Utility
from isonomy.alternatives import improvability as function
from isonomy.errors import UsageError
from isonomy.results.theme import specification


def same(a: Any, b: Any) -> None:
    for name in ("accuracy", "fairness", "round_pvalues", "selected", "cutoffs", "undefined"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    assert a.pvalue == b.pvalue


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
    same(ratio, difference)
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
    from pathlib import Path
    from runpy import run_path

    programme = run_path(str(Path(__file__).with_name("conftest.py")))["programme"]
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


def test_same_seed_same_numbers_and_parallel_equals_serial(data: dict[str, Any], ask: dict[str, Any]) -> None:
    ask |= {"candidate": None, "rule": "linear", "features": ["x1", "x2"]}
    serial = iso.improvability(data, **ask)
    same(serial, iso.improvability(data, **ask))
    same(serial, iso.improvability(data, **ask, n_jobs=2))
    assert iso.improvability(data, **(ask | {"rng": 8})).round_pvalues.tolist() != serial.round_pvalues.tolist()
    assert serial.provenance.seed is not None
    assert serial.provenance.seed.entropy == 7


def test_progress_bar_changes_nothing(data: dict[str, Any], ask: dict[str, Any], capsys: Any) -> None:
    same(iso.improvability(data, **ask), iso.improvability(data, **ask, progress=True))
    assert "Rounds" in capsys.readouterr().out


def test_recommended(data: dict[str, Any], ask: dict[str, Any]) -> None:
    ask |= {"candidate": None, "rule": "linear", "features": ["x1", "x2", "lab"], "group_aware": True}
    result = iso.improvability(data, **ask)
    assert result.reject
    best = result.recommended
    assert isinstance(best, Recommendation)
    assert not best.independent
    decided = best.decide(data)
    assert decided.mean() == pytest.approx(0.1, abs=0.002)
    for i, g in enumerate(("Black", "White")):
        chosen = (data["race"] == g) & (decided == 1)
        assert best.accuracy[i, 0] == pytest.approx(data["need"][chosen].mean())
    assert "not independent" in " ".join(result.findings())
    fewer = {name: column[:50] for name, column in data.items()}
    np.testing.assert_array_equal(best.decide(fewer), decided[:50])
    with pytest.raises(UsageError, match="groups"):
        best.decide(fewer | {"race": np.full(50, "Martian")})


def test_no_recommendation_without_rejection(data: dict[str, Any], ask: dict[str, Any]) -> None:
    result = iso.improvability(data, **ask, accuracy_gain=0.9)
    assert not result.reject
    assert result.recommended is None
    assert result.verdict == "inconclusive"
    assert "No less discriminatory alternative was shown" in result.summary()


def test_json_round_trip(data: dict[str, Any], ask: dict[str, Any]) -> None:
    ask |= {"candidate": None, "rule": "linear", "features": ["x1", "x2", "lab"]}
    result = iso.improvability(data, **ask)
    again = iso.from_json(result.to_json())
    same(result, again)
    assert again.summary() == result.summary()
    np.testing.assert_array_equal(again.surface().median_pvalues, result.surface().median_pvalues)
    assert again.recommended.accuracy.tolist() == result.recommended.accuracy.tolist()
    with pytest.raises(UsageError, match="again"):
        again.surface(accuracy_gains=[0.0, 0.1])
    with pytest.raises(UsageError, match="again"):
        again.recommended.decide(data)
    assert iso.from_json(result.surface().to_json()).fairness_gain == result.supported_fairness_gain


def test_charts(data: dict[str, Any], ask: dict[str, Any]) -> None:
    result = iso.improvability(data, **ask)
    drawn = specification(result.plot())
    surface = specification(result.surface().plot())
    assert drawn["vconcat"]
    assert len(str(surface)) > 1000
    nothing = iso.improvability(data, **ask, accuracy_gain=0.9, fairness_gain=0.9)
    assert specification(nothing.plot())["vconcat"]


def test_suppression(data: dict[str, Any], ask: dict[str, Any]) -> None:
    result = iso.improvability(data, **ask)
    assert result.suppressed(10) is result
    hidden = result.suppressed(10_000)
    assert np.isnan(hidden.accuracy[..., :2]).all()
    assert np.isnan(hidden.fairness[..., :2]).all()
    assert set(hidden.status) == {"suppressed"}


def test_the_package_is_its_entry_point(data: dict[str, Any], ask: dict[str, Any]) -> None:
    import isonomy.alternatives as package

    same(package(data, **ask), function(data, **ask))
    assert inspect.signature(package) == inspect.signature(function)


def test_options_that_nothing_looks_at_are_refused(data: dict[str, Any], ask: dict[str, Any]) -> None:
    for name, value in (("features", ["need_score"]), ("group_aware", True), ("disadvantage", "lower")):
        with pytest.raises(UsageError, match=f"^{name}: "):
            iso.improvability(data, **ask, **{name: value})
