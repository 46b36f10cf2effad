"""The layout of the page: each entry becomes a section of finished parts."""

from __future__ import annotations

import json

import numpy as np
import pytest

import isonomy as iso
from isonomy.report import Entry, layout, wording
from isonomy.report.layout import Section, chart
from isonomy.results.theme import specification
from support.fakes import HOSTILE, FakeResult, fake


def test_every_piece_of_a_result_has_its_place() -> None:
    entry = Entry(name="flag-tpr", kind="flag", result=fake(), truth=("It is so.",), seed=7, seconds=0.25)
    part = Section(3, entry, drawn=False)
    assert part.anchor == "test-3"
    assert str(part.null) == "The difference of every group is 0"
    assert [str(text) for text in part.truth] == ["It is so."]
    assert len(part.findings) == 3
    assert part.gloss.startswith("True positive rate (tpr): the share selected")
    ((_, shown, _),) = part.tables
    assert len(shown.rows) == 3
    assert part.chart is None
    assert len(part.steps) == 3
    assert (len(part.assumptions), len(part.warnings), len(part.limits), len(part.references)) == (1, 1, 2, 1)


def test_facts_say_where_a_result_came_from() -> None:
    entry = Entry(name="a", kind="flag", result=fake(), seed=7, seconds=0.25, peak_memory=3 * 2**20, resumed=True)
    facts = dict(Section(1, entry, drawn=False).facts)
    assert facts["Function"] == "isonomy.flag"
    assert facts["Rows used"] == "600"
    assert facts["Rows left out, income missing"] == "3"
    assert facts["Setting groups"] == "race"
    assert facts["Seed of this test"] == "7"
    assert facts["Time"] == "0.25 s (kept from an earlier run)"
    assert facts["Peak memory so far"] == "3 MB"


def test_a_test_that_stopped_has_its_options_and_its_error() -> None:
    options: dict[str, object] = {"metric": "tpr", "groups": [], "reference": {"race": "White"}, "tolerance": None}
    part = Section(1, Entry(name="a", kind="flag", error="No rows.", error_kind="data", options=options))
    assert [str(lead) for lead in part.leads] == ["No rows."]
    assert (part.tables, part.null, part.chart) == ((), None, None)
    facts = dict(part.facts)
    assert facts["Setting reference"] == "race: White"
    assert not {"Setting groups", "Setting tolerance"} & set(facts)  # not set, so nothing to report
    assert "tpr" in part.gloss


def test_the_summary_begins_with_the_finding_that_decided() -> None:
    leads = layout.Section(1, Entry(name="x", kind="flag", result=fake(decider=2)), drawn=False).leads
    assert [str(lead)[:16] for lead in leads] == ["For race=Asian t", "For race=Black t"]
    others = layout.Section(1, Entry(name="x", kind="flag", result=fake()), drawn=False).leads
    assert [str(lead)[:16] for lead in others] == ["For race=Black t", "For race=White t"]


def test_a_picture_is_drawn_unless_it_is_not_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = Entry(name="a", kind="flag", result=fake(), title="How much?")
    part = Section(1, entry)
    assert part.chart is not None
    assert wording.chart_label(part.label) == "Chart: How much? The table below it contains the same numbers."
    monkeypatch.setattr(layout, "chart", None)  # calling it would fail
    assert Section(1, entry, drawn=False).chart is None


def test_labels_cannot_end_the_script_that_holds_them() -> None:
    specification, _ = chart(fake(HOSTILE))
    assert specification is not None
    assert not set("<>&") & set(specification)
    assert "vega-lite" in json.loads(specification)["$schema"]


def test_a_chart_on_the_page_has_the_background_of_the_page() -> None:
    """Charts use the ink of the page, which is light on a dark page."""
    specification, _ = chart(fake())
    assert specification is not None
    assert json.loads(specification)["config"]["background"] == "transparent"


def test_a_picture_that_cannot_be_drawn_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeResult, "plot", lambda self: 1 / 0)
    specification, problem = chart(fake())
    assert specification is None
    assert problem.startswith("The chart could not be drawn (ZeroDivisionError: division by zero)")


def test_a_page_has_at_most_five_sentences_and_the_appendix_the_others() -> None:
    part = Section(1, Entry(name="a", kind="flag", result=fake([f"g{i}" for i in range(9)])), drawn=False)
    assert (len(part.said), len(part.unsaid)) == (5, 4)
    assert part.findings == (*part.said, *part.unsaid)


def test_methods_are_printed_once() -> None:
    parts = [Section(i, Entry(name=str(i), kind="flag", result=fake()), drawn=False) for i in (1, 2)]
    layout.refer_back(parts)
    assert [part.like for part in parts] == [None, 1]


def test_table_text_and_chart_have_one_order() -> None:
    rate = {"a": 0.5, "b": 0.2, "c": 0.9}
    rng = np.random.default_rng(0)
    group = np.repeat(list(rate), 2_000)
    data = {"p": (rng.random(6_000) < np.vectorize(rate.get)(group)).astype(int), "g": group}
    result = iso.flag(data, metric="selection_rate", prediction="p", groups="g")
    part = Section(1, Entry(name="a", kind="flag", result=result), drawn=False)
    lines = [row[0].text for row in part.tables[0][1].rows]
    assert lines == ["g=b", "g=a", "g=c"]
    assert [text.partition(":")[0] for text in result.findings()[1:4]] == lines
    drawn = [rows for rows in specification(result.plot())["datasets"].values() if "group" in rows[0]]
    assert [[row["group"] for row in rows] for rows in drawn] == [lines, lines]  # rates, and differences
    errors = iso.flag(data | {"y": 1 - data["p"]}, metric="error_rate", prediction="p", outcome="y", groups="g")
    assert len(errors.ranking()) == 3
    worst = iso.flag({"p": data["p"], "g": group}, metric="selection_rate", prediction="p", groups="g", better="lower")
    assert [worst.labels[i] for i in worst.ranking()] == ["g=c", "g=a", "g=b"]


def test_both_ends_of_an_interval_have_the_same_decimals() -> None:
    ratio = {"ci_low": np.array([0.946]), "ci_high": np.array([1.01])}
    (row,) = layout.table({"group": ["a"], "disparity": np.array([0.98]), **ratio}).rows
    assert [cell.text for cell in row] == ["a", "0.980", "0.946", "1.010"]
