"""What stands where on the page: each entry becomes a section of finished pieces."""

from __future__ import annotations

import pytest

import isonomy as iso
from isonomy.report import Entry, glossary, layout
from isonomy.report.layout import section
from support.fakes import HOSTILE, fake, untested


def test_every_piece_of_a_result_has_its_place() -> None:
    entry = Entry(name="flag-tpr", kind="flag", result=fake(), truth=("It is so.",), seed=7, seconds=0.25)
    part = section(3, entry, picture=False)
    assert (part.anchor, part.verdict, part.badge) == ("test-3", "violation", "Difference shown")
    assert str(part.null) == "The difference of every group is 0"
    assert [str(text) for text in part.truth] == ["It is so."]
    assert len(part.findings) == 3
    assert part.gloss.startswith("True positive rate (tpr): the share selected")
    assert part.table is not None
    assert len(part.table.rows) == 3
    assert part.chart is None
    assert len(part.steps) == 3
    assert (len(part.assumptions), len(part.warnings), len(part.limits), len(part.references)) == (1, 1, 2, 1)


def test_facts_say_where_a_result_came_from() -> None:
    entry = Entry(name="a", kind="flag", result=fake(), seed=7, seconds=0.25, peak_memory=3 * 2**20, resumed=True)
    facts = dict(section(1, entry, picture=False).facts)
    assert facts["Function"] == "isonomy.flag"
    assert facts["Rows used"] == "600"
    assert facts["Rows left out, income missing"] == "3"
    assert facts["Setting groups"] == "race"
    assert facts["Seed of this test"] == "7"
    assert facts["Time"] == "0.25 s (kept from an earlier run)"
    assert facts["Peak memory so far"] == "3 MB"


def test_a_test_that_stopped_has_its_options_and_its_error() -> None:
    options: dict[str, object] = {"metric": "tpr", "groups": [], "reference": {"race": "White"}, "tolerance": None}
    part = section(1, Entry(name="a", kind="flag", error="No rows.", error_kind="data", options=options))
    assert [str(lead) for lead in part.leads] == ["No rows."]
    assert (part.table, part.null, part.chart) == (None, None, None)
    facts = dict(part.facts)
    assert facts["Setting reference"] == "race: White"
    assert not {"Setting groups", "Setting tolerance"} & set(facts)  # not set: nothing to tell
    assert "tpr" in part.gloss


def test_a_long_table_is_cut_to_the_rows_given() -> None:
    part = section(1, Entry(name="a", kind="flag", result=fake()), 2, picture=False)
    assert part.table is not None
    assert (len(part.table.rows), part.table.total) == (2, 3)


def test_right_to_left_labels_are_isolated_in_sentences() -> None:
    part = section(1, Entry(name="a", kind="flag", result=fake(HOSTILE)), picture=False)
    assert any("<bdi>race=שלום עולם</bdi>" in finding for finding in part.findings)


def test_the_summary_begins_with_the_finding_that_decided() -> None:
    leads = layout.section(1, Entry(name="x", kind="flag", result=fake(decider=2)), picture=False).leads
    assert [str(lead)[:16] for lead in leads] == ["For race=Asian t", "For race=Black t"]
    others = layout.section(1, Entry(name="x", kind="flag", result=fake()), picture=False).leads
    assert [str(lead)[:16] for lead in others] == ["For race=Black t", "For race=White t"]


def test_nothing_tested_is_not_answered() -> None:
    part = layout.section(1, Entry(name="x", kind="flag", result=untested()), picture=False)
    assert (part.verdict, part.badge) == ("failed", "Not answered")
    assert str(part.leads[0]).startswith("Not answered: no group could be tested")
    assert str(part.leads[1]) == "Some groups are small."


def test_a_picture_is_drawn_unless_it_is_not_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = Entry(name="a", kind="flag", result=fake(), title="How much?")
    part = section(1, entry)
    assert part.chart is not None
    assert part.chart.specification is not None
    assert part.chart_label == "Chart: How much? The table below it holds the same numbers."
    monkeypatch.setattr(layout, "chart", None)  # calling it would fail
    assert section(1, entry, picture=False).chart is None


def test_words_of_a_title_are_explained_too() -> None:
    part = section(1, Entry(name="a", kind="flag", result=fake(), title="Does the uplift model promise too much?"))
    assert "uplift" in part.text
    assert "Uplift, effect" in dict(glossary.reading(part.text))


def test_a_method_begins_with_a_capital_letter() -> None:
    result = iso.flag({"p": [0, 1] * 50, "g": ["a", "b"] * 50}, metric="selection_rate", prediction="p", groups="g")
    assert section(1, Entry(name="a", kind="flag", result=result), picture=False).method == "Empirical likelihood"
