"""Text from the data, made safe to show: a label cannot act, or hide or reorder the text around it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from markupsafe import Markup, escape

LONG = 600  # characters of a sentence shown before the reader has to ask for the rest

# Embeddings, overrides, isolates and marks: they reorder the text around a label.
_BIDI = {chr(code) for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x061C)}
_CONTROL = {code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\n\t"} | {0x7F: "\u2421"}
_CONTROL |= {ord(mark): f"⟦U+{ord(mark):04X}⟧" for mark in _BIDI}
_CONTROL |= dict.fromkeys((*range(0x80, 0xA0), 0xFFFE, 0xFFFF, *range(0xD800, 0xE000)), "\ufffd")

# No line ends inside "p < 0.001" or "95 %".
_TOGETHER = re.compile(r"(?<=\d) (?=%|points\b)|(?<=\bp) (?=[<=])|(?<=\bp [<=]) (?=\d)")


def visible(text: str) -> str:
    """The text with control characters and reordering marks shown as symbols. Newlines and tabs stay."""
    return text.translate(_CONTROL)


def one_line(text: str, limit: int | None = None) -> str:
    """The text on one line, with newlines shown as ⏎, cut to ``limit`` characters if given."""
    line = visible(text).replace("\r\n", "\n").replace("\n", " ⏎ ").replace("\t", " ⇥ ")
    return line if limit is None or len(line) <= limit else f"{line[: limit - 1]}…"


def right_to_left(text: str) -> bool:
    return any(unicodedata.bidirectional(character) in ("R", "AL") for character in text)


def sentence(text: str, labels: Iterable[str] = ()) -> Markup:
    """A sentence as HTML. Right-to-left labels in it are isolated; a very long one can be unfolded."""
    safe = _isolated(_TOGETHER.sub("\u00a0", visible(text)), [visible(label) for label in labels])
    if len(text) <= LONG:
        return safe
    head = escape(visible(text[: LONG // 2]))
    return Markup("<details class='long'><summary>{}…</summary>{}</details>").format(head, safe)


def _isolated(text: str, labels: list[str]) -> Markup:
    strange = sorted(filter(right_to_left, set(labels)), key=len, reverse=True)
    if not strange:
        return Markup(escape(text))
    pieces = re.split("(" + "|".join(map(re.escape, strange)) + ")", text)
    return Markup("").join(
        Markup("<bdi>{}</bdi>").format(piece) if piece in strange else escape(piece) for piece in pieces
    )


_MARKDOWN = re.compile(r"([\\`*_{}\[\]#|~$@])")


def markdown(text: str) -> str:
    """The text on one line, in markdown that shows it as it is."""
    line = _MARKDOWN.sub(r"\\\1", one_line(text)).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    line = re.sub(r":(?=\S)", r"\\:", line)  # no automatic links, no :emoji:
    line = re.sub(r"(?i)\bwww\.", r"www\\.", line)
    return re.sub(r"^(\s*)(?:([-+=])|(\d+)([.)]))", r"\1\3\\\2\4", line)
