"""What comes back: JSON, suppression, arrays that cannot be written to."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isonomy as iso
from isonomy.alternatives import ImprovabilityResult
from isonomy.errors import UsageError
from isonomy.report import Entry
from isonomy.report.layout import section
from support.same import same

NUMBERS = ("accuracy", "fairness", "round_pvalues", "selected", "undefined", "pvalue")


def test_json_round_trip(data: dict[str, Any], ask: dict[str, Any]) -> None:
    ask |= {"candidate": None, "rule": "linear", "features": ["x1", "x2", "lab"]}
    result = iso.improvability(data, **ask)
    again = iso.from_json(result.to_json())
    same(result, again, NUMBERS, rel=0, abs=0)
    assert again.summary() == result.summary()
    np.testing.assert_array_equal(again.surface().pvalues, result.surface().pvalues)
    assert result.recommended is not None
    assert again.recommended.accuracy.tolist() == result.recommended.accuracy.tolist()
    assert again.cutoffs is again.recommended.cutoff is None  # they may be the scores of single people
    stored = iso.from_json(result.to_json(rows=True))
    same(result, stored, ("cutoffs", "recommended.cutoff"), rel=0, abs=0)
    with pytest.raises(UsageError, match="again"):
        again.surface(accuracy_gains=[0.0, 0.1])
    with pytest.raises(UsageError, match="again"):
        again.recommended.decide(data)
    assert iso.from_json(result.surface().to_json()).fairness_gain == result.supported_fairness_gain


@pytest.mark.parametrize("binary", [True, False])
def test_sizes_have_the_same_unit_in_the_table_and_in_words(binary: bool) -> None:
    rng = np.random.default_rng(0)
    need = rng.random((2, 2_000))
    table = {"g": np.arange(2_000) % 2, "y": (need[0] < 0.5) if binary else need[0], "a": need[1] < 0.5}
    table["b"] = need.sum(axis=0) < 1.0
    accuracy = "accuracy" if binary else "outcome_among_selected"
    asked: dict[str, Any] = {"outcome": "y", "groups": "g", "status_quo": "a", "candidate": "b", "accuracy": accuracy}
    result = iso.improvability(table, fairness="selection_rate", rng=0, **asked)
    (_, compared), *_ = section(1, Entry(name="a", kind="improvability", result=result), picture=False).tables
    column = [column.name for column in compared.columns].index("alternative")
    assert compared.columns[column].heading == "Alternative" + (" (%, unfairness in points)" if binary else "")
    size = compared.rows[0][column].text
    assert f": {size}{' %' if binary else ''} with the alternative" in " ".join(result.findings())


def test_suppression(data: dict[str, Any], ask: dict[str, Any]) -> None:
    result = iso.improvability(data, **ask)
    shown = result.suppressed(10)
    same(shown, result, NUMBERS, rel=0, abs=0)
    assert shown.comparisons is None
    assert shown.cutoffs is None
    if result.recommended is not None:
        assert shown.recommended is not None
        assert shown.recommended.cutoff is None
        assert shown.recommended.algorithm is None
        same(shown.recommended, result.recommended, ("accuracy", "fairness", "selected"), rel=0, abs=0)
    hidden = result.suppressed(10_000)
    assert np.isnan(hidden.accuracy[..., :2]).all()
    assert np.isnan(hidden.fairness[..., :2]).all()
    assert set(hidden.status) == {"suppressed"}
    assert hidden.comparisons is None
    assert hidden.recommended is None


def test_a_report_has_one_row_per_thing_compared(data: dict[str, Any], ready: dict[str, Any]) -> None:
    asked = iso.improvability(data, **ready)
    whole = asked.table()
    trial_of, compared = asked.pages().values()
    names = [f"accuracy {name}" for name in asked.accuracy_components]
    names += [f"unfairness {name}" for name in asked.fairness_utilities]
    for place, name in enumerate(names):
        words = ("candidate", "status_quo", "pvalue", "gain", "low", "high")
        columns = ("alternative", "status_quo", "pvalue", "gain", "ci_low", "ci_high")
        for word, column in zip(words, columns, strict=True):
            np.testing.assert_equal(trial_of[column][place :: len(names)], whole[f"{name} {word}"])
    assert not any("_" in str(text) for text in trial_of["criterion"])
    np.testing.assert_equal(compared["adjusted_pvalue"], asked.adjusted)
    assert set(asked.units()) >= {"selected_candidate", "selected_status_quo"}


def test_resamples_are_stored_on_request(result: ImprovabilityResult) -> None:
    assert iso.from_json(result.to_json()).comparisons is None
    again = iso.from_json(result.to_json(rows=True))
    np.testing.assert_array_equal(again.surface([0.0, 0.07], [0.1]).pvalues, result.surface([0.0, 0.07], [0.1]).pvalues)


def test_arrays_are_read_only(result: ImprovabilityResult) -> None:
    for array in (result.accuracy, result.curves.accuracy, result.curves.fairness_gains):
        assert not array.flags.writeable


def test_shares_with_the_readers_words_are_told_in_percent_and_points(
    data: dict[str, Any], ready: dict[str, Any]
) -> None:
    data = data | {"sick": (data["need"] > np.median(data["need"])).astype(int)}
    ready = ready | {"outcome": "sick", "accuracy": "accuracy", "fairness": "tpr"}
    source = iso.open_source(
        data, labels=iso.Labels(metrics={"tpr": "enrolled of the sick", "accuracy": "rightly placed"})
    )
    told, ours = iso.improvability(source, **ready), iso.improvability(data, **ready)
    theirs = [text.replace("enrolled of the sick", "true positive rate") for text in told.findings()]
    assert [text.replace("Rightly placed", "Accuracy") for text in theirs] == list(ours.findings())
    assert " points with the alternative" in " ".join(told.findings())
    assert told.words == {"accuracy": "rightly placed", "tpr": "enrolled of the sick"}
    gloss = Entry(name="a", kind="improvability", result=told).gloss
    assert "Enrolled of the sick (tpr): " in gloss
    assert "True positive rate" not in gloss


def test_every_group_is_in_the_findings(data: dict[str, Any], ready: dict[str, Any]) -> None:
    many = data | {"race": np.array([f"g{i}" for i in np.arange(len(data["race"])) % 8])}
    result = iso.improvability(many, **ready)
    assert all(f"race=g{i}:" in " ".join(result.findings()) for i in range(8))


def test_outcomes_of_0_and_1_among_those_selected_are_shares(data: dict[str, Any], ready: dict[str, Any]) -> None:
    data = data | {"sick": (data["need"] > np.median(data["need"])).astype(int)}
    known = iso.improvability(data, **ready | {"outcome": "sick", "fairness": "tpr"})
    assert " % with the alternative, " in known.findings()[1]  # tpr is for outcomes of 0 and 1 alone
    need = iso.improvability(data, **ready)
    assert " % with the alternative, " not in " ".join(need.findings())
