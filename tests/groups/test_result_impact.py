"""A table of adverse impact: its pages, its words, its storage."""

from __future__ import annotations

import numpy as np

import isonomy as iso
from isonomy.results import Status
from support.hires import hires


def result() -> iso.AdverseImpactResult:
    return iso.adverse_impact(hires(), prediction="hired", score="score", groups=["race", "sex"], rng=0)


def test_it_is_stored_whole() -> None:
    whole = result()
    again = iso.from_json(whole.to_json())
    assert again.to_frame().equals(whole.to_frame())
    assert again.summary() == whole.summary()
    assert np.array_equal(again.cutoff_low, whole.cutoff_low, equal_nan=True)


def test_the_published_table_is_the_first_page() -> None:
    pages = result().pages()
    first = next(iter(pages.values()))
    assert list(first) == ["table", "group", "n", "selected", "estimate", "disparity", "against"]
    assert list(pages)[-1] == "Shortfalls"


def test_weights_have_columns_of_their_own() -> None:
    data = {**hires(), "w": np.where(hires()["hired"] == 1, 30.0, 10.0)}
    weighted = iso.adverse_impact(data, prediction="hired", groups="race", weight="w")
    people = ["weighted_n", "weighted_selected"]
    assert set(people) <= set(weighted.to_frame().columns)
    assert not set(people) & set(result().to_frame().columns)
    pages = weighted.pages()
    assert list(pages["The table as it is published"])[2:7] == ["n", "selected", *people, "estimate"]
    assert list(pages["Shortfalls"])[2:] == [*people, "shortfall", "shortfall_parity"]
    assert weighted.headings()["selected"] == "Rows selected"
    assert iso.from_json(weighted.to_json()).findings() == weighted.findings()
    hidden = weighted.suppressed(1_000)
    small = np.array([status is Status.SUPPRESSED for status in hidden.status])
    assert small.any()
    assert hidden.weighted_n is not None
    assert hidden.weighted_selected is not None
    assert np.isnan(hidden.weighted_n[small]).all()
    assert np.isnan(hidden.weighted_selected[small]).all()


def test_small_categories_are_withheld() -> None:
    hidden = result().suppressed(700)
    small = np.array([status is Status.SUPPRESSED for status in hidden.status])
    assert small.any()
    assert np.isnan(hidden.selected[small]).all()
    assert np.isnan(hidden.cutoff_ratio[:, small]).all()
    for page in hidden.pages().values():
        assert set(list(page["group"])[-int(small.sum()) :]) == {hidden.labels[i] for i in np.flatnonzero(small)}


def test_columns_with_the_same_words_are_tables_of_their_own() -> None:
    source = iso.open_source(hires(), labels=iso.Labels(columns={"race": "People", "sex": "People"}))
    assert set(iso.adverse_impact(source, prediction="hired", groups=["race", "sex"]).tables) == {"race", "sex"}


def test_no_threshold_is_called_the_laws() -> None:
    text = result().summary().lower()
    assert "no threshold is the law's" in " ".join(text.split())
    assert not any(word in text for word in ("four-fifths rule", "eeoc", "violates", "illegal"))


def test_a_table_without_categories_withholds_nothing() -> None:
    unknown = {"p": [1, 0, 1], "g": [None, None, None]}
    published = iso.adverse_impact(unknown, prediction="p", groups="g", missing_group="level").published(5)
    assert published.to_frame().is_empty()


def test_selection_has_the_readers_words() -> None:
    for label, word in (("approved", "approved"), ("called back", "called back"), ("hiring rate", "selected")):
        source = iso.open_source(hires(), labels=iso.Labels(metrics={"selection_rate": label}))
        told = iso.adverse_impact(source, prediction="hired", groups="race")
        assert f" {word} (" in told.findings()[1]
        assert iso.from_json(told.to_json()).findings() == told.findings()
