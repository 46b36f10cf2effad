"""Improvability from end to end: options, refusals and results."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import isonomy as iso
from isonomy.alternatives import Algorithm, Training, Utility
from isonomy.errors import DataError, NotEnoughData, RuleFailed, UnknownColumn, UnknownOption, UsageError, WrongType
from isonomy.report import Entry
from isonomy.report.layout import Section
from isonomy.results import Status
from isonomy.results.questions import QUESTIONS
from support.same import same
from support.tables import programme
from support.trials import accuracy, gains, unfairness

NUMBERS = ("estimate", "reference", "pvalues", "selected", "cutoffs", "undefined", "pvalue")


def test_ready_candidate(data: dict[str, Any], ask: dict[str, Any]) -> None:
    result = iso.improvability(data, **ask)
    assert result.reject
    assert result.verdict == "violation"
    assert result.pvalue == min(1, 2 * result.median_pvalue) == 2 * np.sort(result.round_pvalues)[1]
    np.testing.assert_array_equal(
        result.round_pvalues, np.maximum(accuracy(result)[..., 2].max(axis=1), unfairness(result)[..., 2].max(axis=1))
    )
    assert (accuracy(result)[..., 0] > accuracy(result)[..., 1]).all()
    assert (abs(result.selected - 0.1) < 0.03).all()
    assert result.test_rows.sum(axis=1).tolist() == [2000] * 3
    assert result.groups[0].label == "race=Black"
    frame = result.to_frame()
    assert len(frame) == 3 * 4
    assert frame["criterion"].to_list() == ["accuracy", "accuracy", "unfairness", "all"] * 3
    assert frame["round"].to_list() == np.repeat([1, 2, 3], 4).tolist()
    assert "less discriminatory alternative was shown" in result.findings()[0]


def test_unfairness_and_accuracy_by_hand(data: dict[str, Any], ask: dict[str, Any]) -> None:
    """With given decisions, one split and no capacity, every row is tested."""
    ask |= {"status_quo": "decision", "candidate": "better", "capacity": None, "method": iso.splits(1, resamples=300)}
    result = iso.improvability(data, **ask)
    assert result.train_rows.tolist() == [0]
    assert result.test_rows.sum() == 4000
    need, race = data["need"], data["race"]
    for column, k in (("better", 0), ("decision", 1)):
        means = [need[(race == g) & (data[column] == 1)].mean() for g in ("Black", "White")]
        np.testing.assert_allclose(accuracy(result)[0, :, k], means)
        assert unfairness(result)[0, 0, k] == pytest.approx(abs(means[0] - means[1]))
    assert result.pvalue == result.round_pvalues[0]  # not doubled


def test_capacity_cuts_at_the_training_quantile(data: dict[str, Any], ask: dict[str, Any]) -> None:
    result = iso.improvability(data, **(ask | {"method": iso.splits(3, train_fraction=0.6, resamples=300)}))
    assert result.cutoffs is not None
    for column, k in (("need_score", 0), ("cost_score", 1)):
        share = [(data[column] > cut).mean() for cut in result.cutoffs[:, k]]
        assert np.allclose(share, 0.1, atol=0.02)


def test_threshold(data: dict[str, Any], ask: dict[str, Any]) -> None:
    ask |= {"capacity": iso.above(0.5), "method": iso.splits(1, resamples=300)}
    result = iso.improvability(data, **ask)
    expected = [(data["need_score"] > 0.5).mean(), (data["cost_score"] > 0.5).mean()]
    np.testing.assert_allclose([result.selected[0], result.selected_status_quo[0]], expected)


def test_ratio_and_difference_agree_without_gains(data: dict[str, Any], ask: dict[str, Any]) -> None:
    ratio, difference = (iso.improvability(data, **ask, gain=iso.gain(scale=s)) for s in ("ratio", "difference"))
    same(ratio, difference, NUMBERS, rel=0, abs=0)
    harder = iso.improvability(data, **ask, gain=iso.gain(scale="difference", accuracy=0.5))
    assert (accuracy(harder)[..., 2] >= accuracy(ratio)[..., 2]).all()


def test_pooled_and_weighted_accuracy(data: dict[str, Any], ask: dict[str, Any]) -> None:
    chosen: dict[str, Any] = {"utility": "outcome_among_selected", "weights": "pooled"}
    pooled = iso.improvability(data, **ask, accuracy=chosen)
    assert accuracy(pooled).shape == (3, 1, 3)
    weighted = iso.improvability(data, **ask, accuracy=chosen | {"weights": {"Black": 2, "White": 1}})
    apart = iso.improvability(data, **ask)
    np.testing.assert_allclose(accuracy(weighted)[:, 0, :2], accuracy(apart)[:, :, :2].transpose(0, 2, 1) @ [2, 1])


def test_pooled_accuracy_needs_no_groups_own(data: dict[str, Any], ask: dict[str, Any]) -> None:
    """Nobody of one group is selected: its accuracy is undefined, but the pooled one is defined."""
    score = np.where(data["race"] == "Black", -100.0, data["need_score"])
    pooled = {"utility": "outcome_among_selected", "weights": "pooled"}
    result = iso.improvability(data | {"need_score": score}, **ask, accuracy=pooled, fairness="selection_rate")
    assert (accuracy(result)[:, 0, 0] > 0).all()
    assert not result.reject


def test_several_fairness_criteria(data: dict[str, Any], ask: dict[str, Any]) -> None:
    ask |= {"outcome": "sick", "accuracy": "accuracy", "fairness": ["equalized_odds", "selection_rate"]}
    result = iso.improvability(data, **ask, gain=iso.gain(fairness={"tpr": 0.0, "fpr": 0.1, "selection_rate": -0.1}))
    assert [result.metric[i] for i in result.lines("unfairness")[0]] == ["tpr", "fpr", "selection_rate"]
    assert unfairness(result).shape == (3, 3, 3)
    assert (result.round_pvalues >= unfairness(result)[..., 2].max(axis=1)).all()


def test_one_sided_unfairness(data: dict[str, Any], ask: dict[str, Any]) -> None:
    """White people are selected with less need: 'higher' is the disadvantage of Black people, not 'lower'."""
    harmed = iso.improvability(data, **ask, fairness=iso.protected("Black", disadvantage="higher"))
    both = iso.improvability(data, **ask)
    np.testing.assert_allclose(unfairness(harmed)[..., 1], unfairness(both)[..., 1])
    assert harmed.reject
    other = iso.improvability(data, **ask, fairness=iso.protected({"race": "Black"}))
    assert (unfairness(other)[..., 1] == 0).all()
    assert not other.reject
    assert any("not worse off" in w for w in other.warnings)


def test_one_sided_unfairness_is_told(ask: dict[str, Any]) -> None:
    data = programme(8000, groups=4)
    result = iso.improvability(data, **ask, fairness=iso.protected("Black", disadvantage="higher"))
    harmed = "outcome among those selected at the expense of race=Black"
    assert f"unfairness in {harmed}: smaller" in result.null
    (sentence,) = (text for text in result.findings() if text.startswith(f"Unfairness in {harmed}: "))
    assert "two most unequal groups" not in sentence
    assert "at the expense" not in "".join((two_sided := iso.improvability(data, **ask)).findings())
    assert "between the two most unequal groups" in "".join(two_sided.findings())


def test_more_than_two_groups(ask: dict[str, Any]) -> None:
    result = iso.improvability(programme(8000, groups=4), **ask)
    assert accuracy(result).shape == (3, 4, 3)
    assert unfairness(result).shape == (3, 1, 3)
    assert all(result.against[i] for i in result.lines("unfairness").ravel())
    single = iso.improvability(
        programme(8000, groups=4), **(ask | {"method": iso.splits(1, resamples=300), "capacity": iso.above(1.0)})
    )
    assert single.train_rows[0] == 4000  # the worst pair is chosen on other rows
    assert any("most unequal pair" in w for w in single.warnings)


def test_two_columns_mean_their_intersections(data: dict[str, Any], ask: dict[str, Any]) -> None:
    result = iso.improvability(data, **(ask | {"groups": ["race", iso.cut("x2", [0.0])]}))
    assert result.labels[0] == "race=Black & x2 < 0"
    assert len(result.members) == 4


def test_other_outcome_for_accuracy(data: dict[str, Any], ask: dict[str, Any]) -> None:
    """Cost as accuracy, need as fairness (appendix H.3)."""
    cost = {"utility": "outcome_among_selected", "outcome": "cost"}
    result = iso.improvability(data, **ask, accuracy=cost, fairness="outcome_among_selected")
    plain = iso.improvability(data, **ask)
    np.testing.assert_allclose(unfairness(result)[..., :2], unfairness(plain)[..., :2])
    assert (accuracy(result)[..., 1] > 100).all()


def test_a_price_has_no_group_thresholds(data: dict[str, Any], ask: dict[str, Any]) -> None:
    """A capacity would not help, so it is not advised."""
    ask |= {"accuracy": "profit", "capacity": None, "status_quo": "price0", "candidate": None, "features": ["x1", "x2"]}
    prices = {"price0": 1.0 + 1.5 * data["group"]}
    with pytest.raises(RuleFailed, match="accuracy: the group_thresholds rule needs 0/1 decisions"):
        iso.improvability(data | prices, **ask, rule="group_thresholds")


def test_user_utility_and_numbers_as_decisions(data: dict[str, Any], ask: dict[str, Any]) -> None:
    ask |= {"accuracy": "profit", "capacity": None, "status_quo": "price0", "candidate": "price1"}
    prices = {"price0": 1.0 + 1.5 * data["group"], "price1": np.full(4000, 2.0)}
    result = iso.improvability(data | prices, **ask)
    assert accuracy(result)[0, 0, 0] == pytest.approx(2 * (data["need"] >= 2).mean(), abs=0.15)
    mine = Utility("net", lambda x, y, d: (d * (y - 1.0), 1.0))
    ask |= {"status_quo": "decision", "candidate": "better", "accuracy": mine, "fairness": "selection_rate"}
    assert iso.improvability(data, **ask).metric[0] == "net"


def test_paper_pvalues_can_be_zero(data: dict[str, Any], ask: dict[str, Any]) -> None:
    """The test of accuracy is the same, except that the published p-value does not add one to the counts."""
    published = iso.improvability(data, **(ask | {"method": iso.splits(3, resamples=300, published=True)}))
    ours = iso.improvability(data, **ask)
    np.testing.assert_allclose(accuracy(ours)[..., 2], (1 + 300 * accuracy(published)[..., 2]) / 301)


def test_ready_candidates_use_every_row_and_select_the_capacity(data: dict[str, Any], ready: dict[str, Any]) -> None:
    result = iso.improvability(data, **ready)
    assert result.basis == "whole"
    assert result.test_rows.sum() == 4000
    np.testing.assert_allclose(result.selected, 0.1, atol=1e-12)
    assert result.pvalue == result.round_pvalues[0]
    assert result.reject
    for change, part in (
        (gains(result)[0], accuracy(result)[0]),
        (gains(result, "unfairness")[0], unfairness(result)[0]),
    ):
        assert (change[:, 1] < change[:, 0]).all()
        assert (change[:, 0] < change[:, 2]).all()
        assert abs(change[:, 0]) == pytest.approx(abs(part[:, 0] / part[:, 1] - 1))
    point = iso.improvability(data, **ready, gain=iso.gain(accuracy=result.supported_accuracy_gain + 1e-6))
    assert not point.reject


def test_an_overfitting_rule_selects_the_capacity(data: dict[str, Any], crossfit: dict[str, Any]) -> None:
    """With an interpolating forest, or scores that are nearly all ties, the paper's cutoffs select other shares."""
    from sklearn.ensemble import RandomForestRegressor
    from sklearn.tree import DecisionTreeRegressor

    def two_scores(training: Training) -> Any:
        return lambda people: (people.features["lab"] > 1).astype(float)

    for rule in (RandomForestRegressor(10), DecisionTreeRegressor(max_depth=2), two_scores):
        result = iso.improvability(data, **crossfit, rule=rule)
        np.testing.assert_allclose(result.selected, 0.1, atol=1e-12)
        halves = iso.improvability(data, **(crossfit | {"method": iso.splits(2)}), rule=rule)
        np.testing.assert_allclose(halves.selected, 0.1, atol=1e-12)


def test_cross_fitting_is_repeatable_and_parallel(data: dict[str, Any], crossfit: dict[str, Any]) -> None:
    numbers = (*NUMBERS, "disparity", "ci_low", "ci_high")
    serial = iso.improvability(data, **crossfit, rule="linear")
    assert serial.basis == "crossfit"
    parallel = crossfit | {"method": replace(crossfit["method"], n_jobs=2)}
    same(serial, iso.improvability(data, **parallel, rule="linear"), numbers, rel=0, abs=0)
    assert serial.reject


def test_a_margin_allows_a_loss_stated_beforehand(data: dict[str, Any], ready: dict[str, Any]) -> None:
    required = iso.improvability(data, **ready, gain=iso.gain(margin=0.02))
    allowed = iso.improvability(data, **ready, gain=iso.gain(accuracy=-0.02))
    same(required, allowed, ("estimate", "reference", "pvalues", "pvalue"))
    assert required.pvalue <= iso.improvability(data, **ready).pvalue


def test_a_group_left_as_it_is_counts_as_no_less_accurate(data: dict[str, Any], ready: dict[str, Any]) -> None:
    """Only decisions about White people change; the p-value of the first edition was 1."""
    mixed = np.where(data["race"] == "Black", data["decision"], data["better"])
    ask = ready | {"status_quo": "decision", "candidate": "mixed", "capacity": None}
    result = iso.improvability(data | {"mixed": mixed}, **ask)
    assert accuracy(result)[0, 0, 2] == 0
    assert result.pvalue == max(accuracy(result)[0, 1, 2], unfairness(result)[0, 0, 2])
    assert any("make the same decisions for everybody in race=Black" in warning for warning in result.warnings)
    more = iso.improvability(data | {"mixed": mixed}, **ask, gain=iso.gain(accuracy={"Black": 0.01, "White": 0.0}))
    assert more.pvalue == 1


def test_a_dossier_of_several_candidates(data: dict[str, Any], ready: dict[str, Any]) -> None:
    several = {"need": "need_score", "same": "cost_score", "laboratory": "lab"}
    tried: list[dict[str, str | float]] = [{"what": "a linear rule", "seed": 7, "date": "2025-03-01"}]
    result = iso.improvability(data, **(ready | {"candidate": several}), tried=tried)
    alone = iso.improvability(data, **ready)
    assert result.round_pvalues[0] == pytest.approx(alone.pvalue, abs=0)
    adjusted = result.values("all", "adjusted_pvalue")[:, 0]
    np.testing.assert_allclose(adjusted[0], 4 * alone.pvalue)
    assert result.pvalue == adjusted.min()
    assert result.verdicts[result.lines("all")[1, 0]] == "inconclusive"
    assert "need" in result.alternatives
    assert [entry["what"] for entry in result.log] == ["a linear rule", "need", "same", "laboratory"]
    frame = result.to_frame("polars")
    assert frame["candidate"].to_list() == np.repeat(list(several), 4).tolist()
    assert {"criterion", "group", "ci_low", "ci_high", "verdict"} <= set(frame.columns)
    assert (gains(result)[0, :, 1] < gains(alone)[0, :, 1]).all()  # wider, because there are more
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
    np.testing.assert_allclose(accuracy(with_town)[..., :2], accuracy(by_hand)[..., :2], rtol=0.05)
    best = with_town.recommended
    if best is not None:
        new = {"x1": data["x1"][:3], "town": ["Ur", "Rome", "Atlantis"]}
        assert len(best.score(new)) == 3


def test_unused_training_parts_are_pointed_out(data: dict[str, Any], ask: dict[str, Any]) -> None:
    ready = ask | {"status_quo": "decision", "candidate": "better", "capacity": None}
    assert any("A single split" in w for w in iso.improvability(data, **ready).warnings)


@pytest.mark.parametrize(("resamples", "reject"), [(19, True), (18, False)])
def test_a_pvalue_equal_to_alpha_rejects(resamples: int, reject: bool) -> None:
    """The status quo selects all of one group and nobody of the other: no resample exceeds, so p is 1/20 or 1/19."""
    rng = np.random.default_rng(0)
    group, outcome = np.arange(2000) % 2, rng.integers(0, 2, 2000)
    table = {"group": group, "outcome": outcome, "all of one": group, "right": outcome}
    result = iso.improvability(
        table,
        outcome="outcome",
        groups="group",
        status_quo="all of one",
        candidate="right",
        accuracy="accuracy",
        fairness="selection_rate",
        method=iso.splits(1, resamples=resamples),
        alpha=0.05,
        rng=1,
    )
    assert result.pvalue == 1 / (1 + resamples)
    assert (result.verdict == "violation", result.reject) == (reject, reject)
    assert (result.recommended is not None, not np.isnan(result.supported_fairness_gain)) == (reject, reject)
    surface = result.surface()
    point = int(np.argmin(np.abs(surface.accuracy_gain) + np.abs(surface.fairness_gain)))
    assert (surface.verdict == "violation") == reject
    assert bool(surface.to_frame("polars")["supported"][point]) == reject
    assert np.isnan(surface.contour[0]) != reject
    assert ("alternative was shown to exist" in result.findings()[0]) == reject


NUMBERS = ("estimate", "reference", "pvalues", "selected", "cutoffs", "undefined", "pvalue")


def test_too_few_rows_of_a_group(data: dict[str, Any], ask: dict[str, Any]) -> None:
    race = np.full(4000, "White")
    race[:7] = "Black"
    with pytest.raises(NotEnoughData, match=r"round 1: groups: 'race=Black' has .* rows in the .* part"):
        iso.improvability(data | {"race": race}, **ask)


def test_same_seed_same_numbers_and_parallel_equals_serial(data: dict[str, Any], ask: dict[str, Any]) -> None:
    ask |= {"candidate": None, "rule": "linear", "features": ["x1", "x2"]}
    serial = iso.improvability(data, **ask)
    same(serial, iso.improvability(data, **ask), NUMBERS, rel=0, abs=0)
    parallel = ask | {"method": replace(ask["method"], n_jobs=2)}
    same(serial, iso.improvability(data, **parallel), NUMBERS, rel=0, abs=0)
    assert iso.improvability(data, **(ask | {"rng": 8})).round_pvalues.tolist() != serial.round_pvalues.tolist()
    assert serial.provenance.seed is not None
    assert serial.provenance.seed.entropy == 7


def test_progress_bar_changes_nothing(
    data: dict[str, Any], ask: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    with_bar = ask | {"method": replace(ask["method"], progress=True)}
    same(iso.improvability(data, **ask), iso.improvability(data, **with_bar), NUMBERS, rel=0, abs=0)
    assert "Rounds" in capsys.readouterr().out


def test_a_rule_may_find_nothing(data: dict[str, Any], fit: dict[str, Any]) -> None:
    def rule(training: Training) -> Algorithm:
        return Algorithm(None, Status.INFEASIBLE, "none improves")

    result = iso.improvability(data, **fit, rule=rule)
    assert result.round_pvalues.tolist() == [1.0, 1.0]
    assert result.pvalue == 1.0
    assert set(result.status) == {"infeasible"}
    assert "none improves" in result.warnings[0]
    assert np.isnan(accuracy(result)[..., 0]).all()
    assert not np.isnan(accuracy(result)[..., 1]).any()
    assert (result.surface().pvalue == 1).all()
    assert iso.from_json(result.to_json()).summary() == result.summary()


def test_rounds_draw_from_generators_of_their_own(data: dict[str, Any], ask: dict[str, Any]) -> None:
    """More rounds do not change the first ones, and a generator advances equally for every verdict."""
    few, many = (iso.improvability(data, **(ask | {"method": iso.splits(splits, resamples=300)})) for splits in (2, 4))
    np.testing.assert_array_equal(many.round_pvalues[:2], few.round_pvalues)
    after = []
    for gain in (0.0, 0.9):
        rng = np.random.default_rng(5)
        iso.improvability(data, **(ask | {"rng": rng}), gain=iso.gain(accuracy=gain))
        after.append(rng.spawn(1)[0].random())
    assert after[0] == after[1]


def test_a_capacity_that_selects_nobody(data: dict[str, Any], ready: dict[str, Any]) -> None:
    with pytest.raises(NotEnoughData, match=r"capacity: 0.0001 of 4,000 rows selects nobody"):
        iso.improvability(data, **(ready | {"capacity": 0.0001}))


def test_folds_without_an_algorithm_keep_the_status_quo(data: dict[str, Any], crossfit: dict[str, Any]) -> None:
    calls: list[int] = []

    def sometimes(training: Training) -> Any:
        calls.append(1)
        if len(calls) == 2:
            raise ValueError("no luck")
        if len(calls) == 3:
            return lambda people: np.ones(len(people))
        return lambda people: people.features["lab"]

    result = iso.improvability(data, **crossfit, rule=sometimes)
    assert any("In 2 of 5 fits" in warning and "no luck" in warning for warning in result.warnings)
    np.testing.assert_allclose(result.selected, 0.1, atol=1e-12)
    always = iso.improvability(data, **crossfit, rule=lambda training: lambda people: people.features["lab"])
    assert accuracy(result)[0, 1, 0] < accuracy(always)[0, 1, 0]


def test_a_rule_that_gives_everybody_one_score_finds_nothing(data: dict[str, Any], crossfit: dict[str, Any]) -> None:
    result = iso.improvability(data, **crossfit, rule=lambda training: lambda people: np.ones(len(people)))
    assert result.pvalue == 1
    assert set(result.status) == {"constant"}
    assert "same score" in result.warnings[0]


def test_a_rule_that_selects_nobody_of_a_group_finds_nothing(data: dict[str, Any], crossfit: dict[str, Any]) -> None:
    ask = crossfit | {"capacity": None, "status_quo": "decision", "features": ["x1", "group"]}
    result = iso.improvability(
        data,
        **ask,
        rule=lambda training: lambda people: ((people.features["x1"] > 0) & (people.group == 1)).astype(float),
    )
    assert result.pvalue == 1
    assert "undefined for group" in result.warnings[0]
    several = {"status_quo": "decision", "candidate": ["better", "nobody"], "capacity": None}
    ready = {name: value for name, value in crossfit.items() if name not in ("features", "method")}
    dossier = iso.improvability(data | {"nobody": np.zeros(4000)}, **(ready | several))
    assert dossier.round_pvalues[1] == 1
    assert any("Candidate 'nobody'" in warning for warning in dossier.warnings)


def test_scores_alike_for_everybody_are_no_improvement_in_splits_either(
    data: dict[str, Any], ready: dict[str, Any]
) -> None:
    ask = ready | {"candidate": None, "features": ["x1"], "method": iso.splits(3)}
    result = iso.improvability(data, **ask, rule=lambda training: lambda people: np.ones(len(people)))
    assert result.pvalue == 1
    assert any("gives everybody the same score" in warning for warning in result.warnings)


def test_with_more_groups_the_seed_changes_nothing(ready: dict[str, Any]) -> None:
    from support.tables import programme

    one, two = (iso.improvability(programme(3_000, groups=4), **(ready | {"rng": seed})) for seed in (1, 2))
    assert one.pvalue == two.pvalue


def test_perfectly_fair_status_quo(data: dict[str, Any], ask: dict[str, Any]) -> None:
    ask |= {"status_quo": "everyone", "accuracy": "selection_rate", "fairness": "selection_rate"}
    with pytest.raises(
        DataError, match=r"round 1: the status quo's unfairness in selection_rate is exactly 0.*excludes"
    ):
        iso.improvability(data | {"everyone": np.ones(4000)}, **ask)


def test_a_gap_that_is_zero_by_coincidence_is_no_error() -> None:
    """Twelve people per group: some splits have equal rates and a large p-value."""
    ask: dict[str, Any] = {
        "outcome": "y",
        "groups": "g",
        "status_quo": "d0",
        "candidate": "d1",
        "accuracy": "selection_rate",
    }
    d0, d1 = [1] * 6 + [0] * 6 + [1] * 4 + [0] * 8, [1, 0] * 12
    small = {"g": [0] * 12 + [1] * 12, "y": [0, 1] * 12, "d0": d0, "d1": d1}
    result = iso.improvability(small, **ask, min_size=2, method=iso.splits(40, resamples=50), rng=1)
    zero = unfairness(result)[:, 0, 1] == 0
    assert zero.any()
    assert (result.round_pvalues[zero] > 0.3).all()


def test_nobody_of_a_group_is_selected(data: dict[str, Any], ask: dict[str, Any]) -> None:
    score = np.where(data["race"] == "Black", -100.0, data["need_score"])
    with pytest.raises(NotEnoughData, match=r"round 1: .*'race=Black' under the candidate"):
        iso.improvability(data | {"need_score": score}, **ask)


def test_resamples_without_anybody_are_counted_and_reported(data: dict[str, Any], ask: dict[str, Any]) -> None:
    race = np.full(4000, "White")
    top = np.argsort(data["need_score"])[-300::30]
    race[top] = "Black"
    race[np.argsort(data["need_score"])[:30]] = "Black"
    score = data["need_score"] + data["group"]
    result = iso.improvability(data | {"race": race, "cost_score": score}, **(ask | {"min_size": 2, "rng": 3}))
    assert (result.undefined > 0).any()
    assert any("count as exceeding" in w for w in result.warnings)
    assert (accuracy(result)[:, 0, 2] >= result.undefined / 301).all()


def test_ratios_need_positive_accuracy(data: dict[str, Any], ask: dict[str, Any]) -> None:
    below = data | {"need": data["need"] - 10.0}
    with pytest.raises(DataError, match=r"round 1: .*difference"):
        iso.improvability(below, **ask)
    assert iso.improvability(below, **ask, gain=iso.gain(scale="difference")).reject


def test_a_group_without_outcomes_is_refused_before_anything_is_fitted(
    data: dict[str, Any], crossfit: dict[str, Any]
) -> None:
    sick = np.where(data["race"] == "Black", 0, data["sick"])
    calls: list[object] = []
    call = {"outcome": "sick", "accuracy": "accuracy", "fairness": "tpr", "rule": calls.append}
    with pytest.raises(NotEnoughData, match=r"tpr is undefined for group 'race=Black'.* has an outcome that counts"):
        iso.improvability(data | {"sick": sick}, **(crossfit | call))
    assert not calls


def test_a_denominator_of_a_few_rows_shows_nothing(data: dict[str, Any], ready: dict[str, Any]) -> None:
    """Means of skewed outcomes over six people reject a true null twice as often as allowed."""
    result = iso.improvability(data, **(ready | {"capacity": 0.004}))
    assert result.pvalue == 1
    assert result.verdict == "inconclusive"
    assert "too few for the test" in result.warnings[0]


@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_the_unit_of_a_denominator_does_not_matter(data: dict[str, Any], ready: dict[str, Any], unit: float) -> None:
    ask = ready | {"accuracy": Utility("mean", lambda x, y, d: (unit * y * d, unit * d))}
    same = ready | {"accuracy": "outcome_among_selected"}
    assert iso.improvability(data, **ask).pvalue == pytest.approx(iso.improvability(data, **same).pvalue, rel=1e-6)
    few = iso.improvability(data, **(ask | {"capacity": 0.004}))
    assert "a denominator has fewer than 10 rows" in few.warnings[0]


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"gain": iso.gain({"Black": 0.1})}, UsageError, "nothing given for race=White"),
        ({"gain": iso.gain({"Martian": 0.1})}, UnknownOption, "race=Black"),
        ({"status_quo": "need"}, UsageError, "status_quo: 'need' is an outcome"),
        (
            {"candidate": None, "rule": "linear", "features": ["x1", "need"]},
            UsageError,
            "features: 'need' is an outcome",
        ),
        ({"fairness": iso.protected("Martian")}, UnknownOption, "protected"),
        ({"outcome": "ned"}, UnknownColumn, "need"),
        ({"status_quo": "nope"}, UnknownColumn, "status_quo"),
        ({"candidate": "nope"}, UnknownColumn, "candidate"),
        ({"status_quo": "race"}, WrongType, "status_quo"),
        ({"groups": "nope"}, UnknownColumn, "groups"),
        ({"accuracy": {"utility": "selection_rate", "outcome": "nope"}}, UnknownColumn, "nope"),
        ({"candidate": ["lab", "lab"]}, UsageError, "candidate: 'lab' is named twice"),
        ({"candidate": {"g": None}}, UsageError, "candidate: None is not the name of a column"),
        ({"candidate": ["lab", 3]}, UsageError, "candidate: 3 is not the name of a column"),
        ({"candidate": []}, UsageError, r"candidate: \[\] is not allowed"),
    ],
)
def test_refused(
    data: dict[str, Any], ask: dict[str, Any], change: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        iso.improvability(data, **(ask | change))


def test_only_a_test_that_fits_nothing_begins_with_a_grouped_pass(data: dict[str, Any], ask: dict[str, Any]) -> None:
    source, question = iso.open_source(data), QUESTIONS["improvability"]
    del ask["rng"]
    (request,) = question.planned(source, ask).requests
    assert list(request.keys) == ["outcome value", "status_quo value", "candidate[need_score] value"]
    assert question.planned(source, ask | {"candidate": None, "rule": "linear", "features": "x1"}).requests == ()
    assert question.idle({"candidate": "better"}) == {"features"}
    assert question.idle({"rule": "lasso", "candidate": None}) == set()


def test_the_papers_procedure_has_a_name(data: dict[str, Any], ready: dict[str, Any]) -> None:
    result = iso.improvability(data, **ready, method="published")
    assert (result.basis, result.trials) == ("published", 7)
    assert result.pvalue == min(1, 2 * result.median_pvalue)
    again = iso.improvability(data, **ready, method=iso.splits(7, resamples=10_000, published=True))
    same(result, again, NUMBERS, rel=0, abs=0)
    merged = iso.improvability(data, **ready, method=iso.splits(3))
    assert merged.basis == "splits"
    assert merged.pvalue <= min(1, 2 * merged.median_pvalue)


STORED = ("estimate", "reference", "pvalues", "selected", "undefined", "pvalue")


def test_json_round_trip(data: dict[str, Any], ask: dict[str, Any]) -> None:
    ask |= {"candidate": None, "rule": "linear", "features": ["x1", "x2", "lab"]}
    result = iso.improvability(data, **ask)
    again = iso.from_json(result.to_json())
    same(result, again, STORED, rel=0, abs=0)
    assert again.summary() == result.summary()
    np.testing.assert_array_equal(again.surface().pvalue, result.surface().pvalue)
    assert result.recommended is not None
    assert again.recommended.accuracy.tolist() == result.recommended.accuracy.tolist()
    assert again.cutoffs is again.recommended.cutoff is None  # they may identify single people
    stored = iso.from_json(result.to_json(rows=True))
    same(result, stored, ("cutoffs", "recommended.cutoff"), rel=0, abs=0)
    with pytest.raises(UsageError, match="again"):
        again.recommended.decide(data)
    assert iso.from_json(result.surface().to_json()).supported_fairness_gain == result.supported_fairness_gain


@pytest.mark.parametrize("binary", [True, False])
def test_sizes_have_the_same_unit_in_the_table_and_in_words(binary: bool) -> None:
    rng = np.random.default_rng(0)
    need = rng.random((2, 2_000))
    table = {"g": np.arange(2_000) % 2, "y": (need[0] < 0.5) if binary else need[0], "a": need[1] < 0.5}
    table["b"] = need.sum(axis=0) < 1.0
    accuracy = "accuracy" if binary else "outcome_among_selected"
    call: dict[str, Any] = {"outcome": "y", "groups": "g", "status_quo": "a", "candidate": "b", "accuracy": accuracy}
    result = iso.improvability(table, fairness="selection_rate", rng=0, **call)
    (_, compared, _), *_ = Section(1, Entry(name="a", kind="improvability", result=result), drawn=False).tables
    column = [column.name for column in compared.columns].index("estimate")
    assert compared.columns[column].heading == "Alternative" + (" (%, unfairness in points)" if binary else "")
    size = compared.rows[0][column].text
    assert f": {size}{' %' if binary else ''} with the alternative" in " ".join(result.findings())


def test_suppression(data: dict[str, Any], ask: dict[str, Any]) -> None:
    result = iso.improvability(data, **ask)
    shown = result.suppressed(10)
    same(shown, result, STORED, rel=0, abs=0)
    assert shown.cutoffs is None
    if result.recommended is not None:
        assert shown.recommended is not None
        assert shown.recommended.cutoff is None
        assert shown.recommended.algorithm is None
        same(shown.recommended, result.recommended, ("accuracy", "fairness", "selected"), rel=0, abs=0)
    hidden = result.suppressed(10_000)
    assert np.isnan(accuracy(hidden)[..., :2]).all()
    assert np.isnan(unfairness(hidden)[..., :2]).all()
    assert set(hidden.status) == {"suppressed"}
    assert hidden.recommended is None


def test_every_group_is_in_the_findings(data: dict[str, Any], ready: dict[str, Any]) -> None:
    many = data | {"race": np.array([f"g{i}" for i in np.arange(len(data["race"])) % 8])}
    result = iso.improvability(many, **ready)
    assert all(f"race=g{i}:" in " ".join(result.findings()) for i in range(8))


@pytest.mark.parametrize("right", [3, 9])
def test_few_changed_decisions_are_judged_by_their_binomial_law(right: int) -> None:
    """All changes are right: p is that of as many heads in a row."""
    g, y = np.repeat(["a", "b"], 400), np.tile([0, 1], 400)
    now = np.where(np.arange(800) % 10 < np.where(g == "a", 9, 5), y, 1 - y)
    new = now.copy()
    wrong = np.flatnonzero((g == "b") & (now != y))[:right]
    new[wrong] = y[wrong]
    roles: dict[str, Any] = {"outcome": "y", "groups": "g", "status_quo": "now", "candidate": "new"}
    result = iso.improvability({"g": g, "y": y, "now": now, "new": new}, **roles, accuracy="accuracy", rng=0)
    assert accuracy(result)[0, 1, 2] == pytest.approx(max(0.5**right, result.pvalues[1]), rel=1e-9)
    assert accuracy(result)[0, 1, 2] >= 0.5**right * (1 - 1e-9)
    assert result.reject == (right == 9)


def test_an_outcome_too_skewed_for_the_rows_selected_has_no_verdict() -> None:
    rng = np.random.default_rng(2)
    few, many = (np.arange(1_000) < n for n in (20, 200))
    table = {"g": np.repeat(["a", "b"], 1_000), "now": np.append(many, few), "new": np.append(many, many)}
    roles: dict[str, Any] = {"outcome": "y", "groups": "g", "status_quo": "now", "candidate": "new"}
    skewed = rng.lognormal(0, 1.2, 2_000)
    for y, status in ((skewed, Status.SKEWED), (rng.normal(10, 1, 2_000), Status.OK)):
        result = iso.improvability(table | {"y": y}, **roles, fairness="selection_rate", rng=0)
        assert set(result.status) == {status}
        assert status is Status.OK or result.pvalue == 1


# ---- what the paper assumes and remarks


def small(rows: int = 2_000, seed: int = 3) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 2, rows)
    x = rng.normal(size=rows)
    y = (x + rng.normal(size=rows) > 0).astype(int)
    return {
        "group": group,
        "x": x,
        "y": y,
        "old": (x + 0.8 * group > 0.2).astype(int),
        "new": (x + 0.1 * group > 0.2).astype(int),
    }


def test_a_utility_may_look_at_features_of_ready_candidates() -> None:
    """The benefit is larger for people with a large x: by hand from the rows."""
    data = small()
    worth = Utility("worth", lambda x, y, d: (d * y * (x["x"] > 0), 1.0))
    ask: dict[str, Any] = {"outcome": "y", "groups": "group", "status_quo": "old", "candidate": "new", "rng": 1}
    result = iso.improvability(data, **ask, features=["x"], accuracy=worth, fairness="tpr")
    here = data["group"] == 0
    by_hand = (data["new"] * data["y"] * (data["x"] > 0))[here].mean()
    assert result.estimate[0] == pytest.approx(by_hand, rel=1e-12)
    with pytest.raises(UsageError, match="a ready candidate needs none"):
        iso.improvability(data, **ask, features=["x"], accuracy="accuracy")


def test_a_mean_inside_a_utility_is_refused() -> None:
    centered = Utility("centered", lambda x, y, d: (d * (y - y.mean() + 2), 1.0))
    ask: dict[str, Any] = {"outcome": "y", "groups": "group", "status_quo": "old", "candidate": "new", "rng": 1}
    with pytest.raises(UsageError, match="depend on the other rows"):
        iso.improvability(small(), **ask, accuracy=centered)


def test_what_the_paper_assumes_is_reported() -> None:
    data = small()
    ask: dict[str, Any] = {"outcome": "y", "groups": "group", "status_quo": "old", "candidate": "new", "rng": 1}
    result = iso.improvability(data, **ask, accuracy="accuracy", fairness="selection_rate")
    # The correlation of two selection rates of the same people, by hand.
    here = data["group"] == 0
    pairs = [np.corrcoef(data["old"][data["group"] == g], data["new"][data["group"] == g])[0, 1] for g in (0, 1)]
    hits = [
        np.corrcoef((data["old"] == data["y"])[data["group"] == g], (data["new"] == data["y"])[data["group"] == g])[
            0, 1
        ]
        for g in (0, 1)
    ]
    assert result.correlation[0] == pytest.approx(max(pairs + hits), rel=1e-9)
    utilities = [data["old"], data["new"], data["old"] == data["y"], data["new"] == data["y"]]
    smallest = [np.linalg.eigvalsh(np.corrcoef([u[data["group"] == g] for u in utilities]))[0] for g in (0, 1)]
    assert result.eigenvalue[0] == pytest.approx(max(min(smallest), 0.0), abs=1e-12)
    assert result.least_share[0] == pytest.approx(1.0)
    gap = data["new"][~here].mean() - data["new"][here].mean()
    error = np.sqrt(sum(data["new"][data["group"] == g].var() / (data["group"] == g).sum() for g in (0, 1)))
    assert result.candidate_distance[0] == pytest.approx(abs(gap) / error, rel=1e-9)
    hidden = result.suppressed(10**6)
    assert np.isnan(hidden.correlation).all()
    equal = data | {"even": (data["x"] > 0.2).astype(int)}
    near = iso.improvability(
        equal, **(ask | {"candidate": "even"}), accuracy="accuracy", method=iso.splits(1, 0.5, 200)
    )
    assert near.candidate_distance[0] < 2
    assert any("within two standard errors of zero" in warning for warning in near.warnings)


def test_welfare() -> None:
    data = small()
    ask: dict[str, Any] = {"outcome": "y", "groups": "group", "status_quo": "old", "candidate": "new", "rng": 1}
    result = iso.improvability(data, **ask, accuracy="accuracy", fairness="tpr")
    frame = result.welfare({"0": 1.0, "1": 2.0}, unfairness=0.5)
    rates = [(data["new"] == data["y"])[data["group"] == g].mean() for g in (0, 1)]
    utilitarian, rawlsian, weighted = frame["alternative"].to_list()
    assert utilitarian == pytest.approx((data["new"] == data["y"]).mean())
    assert rawlsian == pytest.approx(min(rates))
    assert weighted == pytest.approx(rates[0] + 2 * rates[1] - 0.5 * result.values("unfairness", "estimate")[0, 0])
    with pytest.raises(UsageError, match="numbers above 0"):
        result.welfare({"0": 0.0, "1": 1.0})


def test_the_solver_is_silent(capfd: pytest.CaptureFixture[str]) -> None:
    from isonomy.alternatives import MILPRule

    data = small(400)
    for limit in (0.01, 5.0):
        iso.improvability(
            data,
            outcome="y",
            groups="group",
            status_quo="old",
            features=["x"],
            rule=MILPRule(time_limit=limit),
            accuracy="accuracy",
            fairness="tpr",
            method=iso.crossfit(2, 1),
            rng=1,
        )
    assert capfd.readouterr() == ("", "")
