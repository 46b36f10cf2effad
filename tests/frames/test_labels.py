"""Labels of groups and metrics for readers."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

import isonomy as iso
from isonomy.frames import Group
from support import engines

TABLE = pl.DataFrame(
    {"sex": [1, 2, 2, 1] * 60, "age": [20, 50] * 120, "ok": [0, 1, 1, 1, 0, 1] * 40, "race": ["a", "b", "b"] * 80}
)
WORDS = iso.Labels(
    columns={"race": "Race"},
    values={"sex": {"1": "men", "2": "women"}, "age": {"<25": "applicants under 25"}},
    groups={"race=b & sex=2": "women of race b"},
    metrics={"selection_rate": "approval rate"},
    population="all applicants",
)


def of(**items: object) -> Group:
    return Group.from_mapping(items)


@pytest.mark.parametrize(
    ("group", "label"),
    [
        (of(sex=2), "women"),
        (of(age="<25", sex=1), "applicants under 25, men"),
        (of(race="b", sex=2), "women of race b"),
        (of(race="a"), "Race a"),
        (of(race=None), "Race (missing)"),
        (of(race="a", sex=1), "Race a, men"),
        (of(sex=1, city="x"), "men, city x"),
        (of(city="x"), "city x"),
        (Group((("", "young"),)), "young"),
    ],
    ids=lambda value: str(value),
)
def test_names(group: Group, label: str) -> None:
    (named,) = WORDS.named([group])
    assert named.label == label
    assert named == group  # the same group under another name
    assert hash(named) == hash(group)


def test_names_that_coincide_are_not_used() -> None:
    words = iso.Labels(values={"sex": {"1": "people", "2": "people", "3": "others"}})
    assert [g.label for g in words.named([of(sex=1), of(sex=2), of(sex=3)])] == ["sex=1", "sex=2", "others"]
    assert [g.label for g in iso.Labels(metrics={"tpr": "x"}).named([of(sex=1)])] == ["sex=1"]  # no words for groups


def test_columns_have_their_words_in_the_names_of_groupings() -> None:
    source = iso.open_source(TABLE, labels=WORDS)
    impact = iso.adverse_impact(source, prediction="ok", groups=["race", "sex"], depth=2)
    assert list(dict.fromkeys(impact.tables)) == ["Race", "sex", "Race & sex"]
    named = iso.adverse_impact(source, prediction="ok", groups="race", reference={"race": "a"})
    assert set(named.against) == {"Race a"}
    scored = iso.open_source(TABLE.with_columns(s=np.linspace(0, 1, 240)), labels=WORDS)
    parity = iso.predictive_parity(scored, outcome="ok", score="s", groups="race")
    assert set(parity.tables) == {"Race"}


@pytest.mark.parametrize("engine", [engines.frame, engines.pandas, engines.duckdb])
def test_results_are_told_in_words_and_have_the_same_numbers(engine: engines.Engine) -> None:
    question: Any = {"metric": "selection_rate", "prediction": "ok", "groups": ["sex", iso.cut("age", [25])]}
    plain = iso.flag(TABLE, **question)
    told = iso.flag(iso.open_source(engine(TABLE.to_dict(as_series=False)), labels=WORDS), **question)
    assert told.labels == ("men", "women", "applicants under 25", "age 25 and over")
    assert told.groups == plain.groups
    np.testing.assert_allclose(told.pvalue, plain.pvalue, rtol=1e-12)
    assert "approval rate equals that of all applicants" in told.null
    assert told.provenance.options["metric"] == "selection_rate"
    assert iso.from_json(told.to_json()).labels == told.labels


def test_a_reference_group_has_its_name() -> None:
    source = iso.open_source(TABLE, labels=WORDS)
    result = iso.flag(source, metric="selection_rate", prediction="ok", groups="sex", reference={"sex": 1})
    assert result.reference == "men"


@pytest.mark.parametrize(("words", "argument"), [((5,), "columns"), (({}, {"sex": 5}), "values"), (([],), "columns")])
def test_words_of_another_kind_are_refused(words: tuple[Any, ...], argument: str) -> None:
    with pytest.raises(iso.errors.UsageError, match=f"{argument}: .* is not allowed; give a mapping"):
        iso.Labels(*words)


def test_ranges_of_a_column_with_words() -> None:
    words = iso.Labels(columns={"age": "Age"})
    source = iso.open_source({"age": [20, 30, 50, 70] * 5, "p": [0, 1] * 10}, labels=words)
    result = iso.flag(source, metric="selection_rate", prediction="p", groups=iso.cut("age", [25, 45, 65]))
    assert result.labels == ("Age under 25", "Age 25 to under 45", "Age 45 to under 65", "Age 65 and over")
