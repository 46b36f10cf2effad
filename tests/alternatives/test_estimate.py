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


def test_too_few_rows_of_a_group(data: dict[str, Any], ask: dict[str, Any]) -> None:
    race = np.full(4000, "White")
    race[:7] = "Black"
    with pytest.raises(NotEnoughData, match=r"round 1: group 'race=Black' has .* rows in the .* part"):
        iso.improvability(data | {"race": race}, **ask)


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
