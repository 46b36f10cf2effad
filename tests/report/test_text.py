"""Labels from the data have no effect on the text around them."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given
from markupsafe import escape

from isonomy.report.text import LONG, markdown, one_line, sentence, visible
from support.fakes import HOSTILE


@given(st.text(st.characters(exclude_categories=()), max_size=200))
def test_visible_leaves_no_control_and_no_reordering_mark(text: str) -> None:
    shown = visible(text)
    assert not [c for c in shown if ord(c) < 32 and c not in "\n\t"]
    assert not [c for c in shown if c in "\u202a\u202b\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\x7f\x9b"]
    shown.encode("utf-8")


def test_ordinary_text_is_unchanged() -> None:
    for text in ("race=Black & sex=Female", "שלום", "👩🏽‍⚖️", "naïve\tcafé\nline"):
        assert visible(text) == text


def test_one_line_shows_newlines_and_cuts() -> None:
    assert one_line("a\nb") == "a ⏎ b"
    assert one_line("x" * 50, 10) == "x" * 9 + "…"


@pytest.mark.parametrize("label", HOSTILE)
def test_sentence_holds_the_label_as_text(label: str) -> None:
    shown = sentence(f"For {label} the difference is 0.2.", [label])
    assert str(escape(visible(label))) in str(shown).replace("<bdi>", "").replace("</bdi>", "")
    assert "<script" not in shown


def test_right_to_left_labels_are_isolated() -> None:
    assert "<bdi>race=שלום</bdi>" in sentence("For race=שלום: 0.2.", ["race=שלום", "race=Black"])


def test_a_very_long_sentence_can_be_unfolded() -> None:
    assert str(sentence("x" * (LONG + 1))).startswith("<details")
    assert "<details" not in sentence("x" * LONG)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a|b", r"a\|b"),
        ("<b>", "&lt;b&gt;"),
        ("*x* _y_ `z`", r"\*x\* \_y\_ \`z\`"),
        ("[a](b)", r"\[a\](b)"),
        ("- item", r"\- item"),
        ("1. item", r"1\. item"),
        ("two\nlines", "two ⏎ lines"),
        ("http://x.org", r"http\://x.org"),
        ("www.x.org", r"www\.x.org"),
        ("p = 0.05: no", "p = 0.05: no"),
    ],
)
def test_markdown_shows_text_as_it_is(text: str, expected: str) -> None:
    assert markdown(text) == expected


def test_no_line_ends_inside_a_number() -> None:
    shown = str(sentence("A 95 % interval of 3.1 points, p < 0.001 and p = 0.02; a map of 3 pointsmen"))
    assert "95\u00a0% interval" in shown
    assert "3.1\u00a0points," in shown
    assert "p\u00a0&lt;\u00a00.001" in shown
    assert "p\u00a0=\u00a00.02" in shown
    assert "3 pointsmen" in shown
