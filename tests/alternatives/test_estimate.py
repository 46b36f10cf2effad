"""The rounds: what they refuse, naming the round, and that they come back the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isonomy as iso
from isonomy.alternatives import Algorithm, Training
from isonomy.errors import DataError, NotEnoughData
from isonomy.results import Status
from support.same import same

NUMBERS = ("accuracy", "fairness", "round_pvalues", "selected", "cutoffs", "undefined", "pvalue")


def test_perfectly_fair_status_quo(data: dict[str, Any], ask: dict[str, Any]) -> None:
    ask |= {"status_quo": "everyone", "accuracy": "selection_rate", "fairness": "selection_rate"}
    with pytest.raises(
        DataError, match=r"round 1: the status quo's unfairness in selection_rate is exactly 0.*excludes"
    ):
        iso.improvability(data | {"everyone": np.ones(4000)}, **ask)


def test_a_gap_that_is_zero_by_coincidence_is_no_error() -> None:
    """Twelve people a group: some splits have equal rates, and a large p-value there."""
    ask: dict[str, Any] = {
        "outcome": "y",
        "groups": "g",
        "status_quo": "d0",
        "candidate": "d1",
        "accuracy": "selection_rate",
        "evidence": "paper",
    }
    d0, d1 = [1] * 6 + [0] * 6 + [1] * 4 + [0] * 8, [1, 0] * 12
    small = {"g": [0] * 12 + [1] * 12, "y": [0, 1] * 12, "d0": d0, "d1": d1}
    result = iso.improvability(small, **ask, min_size=2, splits=40, resamples=50, rng=1)
    zero = result.fairness[:, 0, 1] == 0
    assert zero.any()
    assert (result.round_pvalues[zero] > 0.3).all()


def test_nobody_of_a_group_is_selected(data: dict[str, Any], ask: dict[str, Any]) -> None:
    score = np.where(data["race"] == "Black", -100.0, data["need_score"])
    with pytest.raises(NotEnoughData, match=r"round 1: .*'race=Black' under the candidate"):
        iso.improvability(data | {"need_score": score}, **ask)


def test_too_few_rows_of_a_group(data: dict[str, Any], ask: dict[str, Any]) -> None:
    race = np.full(4000, "White")
    race[:7] = "Black"
    with pytest.raises(NotEnoughData, match=r"round 1: group 'race=Black' has .* rows in the .* part"):
        iso.improvability(data | {"race": race}, **ask)


def test_resamples_without_anybody_are_counted_and_reported(data: dict[str, Any], ask: dict[str, Any]) -> None:
    race = np.full(4000, "White")
    top = np.argsort(data["need_score"])[-300::30]
    race[top] = "Black"
    race[np.argsort(data["need_score"])[:30]] = "Black"
    score = data["need_score"] + data["group"]
    result = iso.improvability(data | {"race": race, "cost_score": score}, **(ask | {"min_size": 2, "rng": 3}))
    assert (result.undefined > 0).any()
    assert any("count as exceeding" in w for w in result.warnings)
    assert (result.accuracy[:, 0, 2] >= result.undefined / 301).all()


def test_ratios_need_positive_accuracy(data: dict[str, Any], ask: dict[str, Any]) -> None:
    below = data | {"need": data["need"] - 10.0}
    with pytest.raises(DataError, match=r"round 1: .*difference"):
        iso.improvability(below, **ask)
    assert iso.improvability(below, **ask, scale="difference").reject


def test_same_seed_same_numbers_and_parallel_equals_serial(data: dict[str, Any], ask: dict[str, Any]) -> None:
    ask |= {"candidate": None, "rule": "linear", "features": ["x1", "x2"]}
    serial = iso.improvability(data, **ask)
    same(serial, iso.improvability(data, **ask), NUMBERS, rel=0, abs=0)
    same(serial, iso.improvability(data, **ask, n_jobs=2), NUMBERS, rel=0, abs=0)
    assert iso.improvability(data, **(ask | {"rng": 8})).round_pvalues.tolist() != serial.round_pvalues.tolist()
    assert serial.provenance.seed is not None
    assert serial.provenance.seed.entropy == 7


def test_progress_bar_changes_nothing(
    data: dict[str, Any], ask: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    same(iso.improvability(data, **ask), iso.improvability(data, **ask, progress=True), NUMBERS, rel=0, abs=0)
    assert "Rounds" in capsys.readouterr().out


def test_a_rule_may_find_nothing(data: dict[str, Any], fit: dict[str, Any]) -> None:
    def rule(training: Training) -> Algorithm:
        return Algorithm(None, Status.INFEASIBLE, "none improves")

    result = iso.improvability(data, **fit, rule=rule)
    assert result.round_pvalues.tolist() == [1.0, 1.0]
    assert result.pvalue == 1.0
    assert set(result.status) == {"infeasible"}
    assert "none improves" in result.warnings[0]
    assert np.isnan(result.accuracy[..., 0]).all()
    assert not np.isnan(result.accuracy[..., 1]).any()
    assert (result.surface().pvalues == 1).all()
    assert iso.from_json(result.to_json()).summary() == result.summary()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"capacity": None}, "round 1: status_quo.*capacity"),
        ({"capacity": None, "status_quo": "decision"}, "round 1: candidate.*threshold"),
    ],
)
def test_scores_need_a_way_to_decide(
    data: dict[str, Any], ask: dict[str, Any], change: dict[str, Any], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        iso.improvability(data, **(ask | change))


def test_rounds_draw_from_generators_of_their_own(data: dict[str, Any], ask: dict[str, Any]) -> None:
    """More rounds leave the first ones as they were, and a generator is used up alike whatever the verdict."""
    few, many = (iso.improvability(data, **(ask | {"splits": splits})) for splits in (2, 4))
    np.testing.assert_array_equal(many.round_pvalues[:2], few.round_pvalues)
    after = []
    for gain in (0.0, 0.9):
        rng = np.random.default_rng(5)
        iso.improvability(data, **(ask | {"rng": rng}), accuracy_gain=gain)
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
    assert result.accuracy[0, 1, 0] < always.accuracy[0, 1, 0]


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
    ready = {name: value for name, value in crossfit.items() if name not in ("features", "repeats")}
    dossier = iso.improvability(data | {"nobody": np.zeros(4000)}, **(ready | several))
    assert dossier.round_pvalues[1] == 1
    assert any("Candidate 'nobody'" in warning for warning in dossier.warnings)


def test_scores_alike_for_everybody_are_no_improvement_in_splits_either(
    data: dict[str, Any], ready: dict[str, Any]
) -> None:
    ask = ready | {"candidate": None, "features": ["x1"], "splits": 3}
    result = iso.improvability(data, **ask, rule=lambda training: lambda people: np.ones(len(people)))
    assert result.pvalue == 1
    assert any("gives everybody the same score" in warning for warning in result.warnings)


def test_with_more_groups_the_seed_changes_nothing(ready: dict[str, Any]) -> None:
    from support.tables import programme

    one, two = (iso.improvability(programme(3_000, groups=4), **(ready | {"rng": seed})) for seed in (1, 2))
    assert one.pvalue == two.pvalue
