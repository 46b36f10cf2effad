"""Notes: what a reader must know about a result, as data. They become sentences last.

A topic registers its sentences once, by code::

    register({"too_small": "Fewer than {least:,} rows, so listed and not tested: {groups}."})

and its decisions say ``Note("too_small", groups=labels, values={"least": 10})``. Disclosure control drops the groups
that are withheld from ``groups``; it never edits a sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from isonomy.results import phrases
from isonomy.results.storage import storable

Sentence = str | Callable[["Note"], str]
SENTENCES: dict[str, Sentence] = {}


@storable
@dataclass(frozen=True, slots=True)
class Note:
    """A fact for the reader: its code, the labels of the groups it is about, and the values in its sentence."""

    code: str
    groups: tuple[str, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The sentence."""
        sentence = SENTENCES[self.code]
        if callable(sentence):
            return sentence(self)
        return sentence.format(groups=phrases.listed(self.groups), **self.values)


def register(sentences: Mapping[str, Sentence]) -> None:
    """Add a topic's sentences: text with ``{groups}`` and the note's values in braces, or a function of the note."""
    for code, sentence in sentences.items():
        if SENTENCES.setdefault(code, sentence) is not sentence:
            raise ValueError(f"two sentences for the note {code!r}")


def note_if(code: str, groups: Sequence[str], **values: Any) -> tuple[Note, ...]:
    """A note about ``groups``; none if there are no groups."""
    return (Note(code, tuple(groups), values),) if groups else ()


def without(notes: Sequence[Note], hidden: Collection[str]) -> tuple[Note, ...]:
    """The notes without the ``hidden`` groups; a note about them alone is dropped, and a last note says so."""
    left = [replace(note, groups=tuple(label for label in note.groups if label not in hidden)) for note in notes]
    left = [new for old, new in zip(notes, left, strict=True) if new.groups or not old.groups]
    return tuple(left) if len(left) == len(notes) else (*left, Note("withheld"))


register(
    {
        "dropped": lambda note: phrases.dropped(note.values),
        "like_weights": lambda note: phrases.like_weights(note.values["column"]),
        "withheld": "Warnings about groups whose numbers are withheld are withheld too.",
        "overlapping": "Named groups may overlap with others: the numbers of a withheld group may follow by "
        "subtraction from those of {groups} and of other groups. If they do, do not publish the named groups.",
        "merged": "If the groups of one column are unions of groups of another, the numbers of a withheld group may "
        "follow from both by subtraction. In that case publish only one of the two columns, or test their "
        "intersections too.",
        "other_rows": "This audit withholds groups, and this test uses other rows, or other cuts of a column, than "
        "another test. The numbers of a withheld group may follow from both by subtraction. Use the same filters and "
        "cuts in all tests, or publish only one of them.",
        "repeated": "Some people appear more than once: {rows:,} rows belong to {people:,} people (column {user!r}). "
        "This test assumes that rows are independent, so its errors may be too small. Name that column as the cluster "
        "of the data to measure errors between people.",
    }
)
