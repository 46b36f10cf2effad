"""What the words of a report mean: metrics and technical terms. The texts are in `glossary.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from types import MappingProxyType

from isonomy.results import Question, phrases

_TEXTS = tomllib.loads((files("isonomy.report") / "glossary.toml").read_text(encoding="utf-8"))
READING = tuple((entry["term"], entry["meaning"]) for entry in _TEXTS["reading"])  # in every report
# Technical words, explained in reports that use them: the text that is searched for, the term, its meaning.
TERMS = tuple((entry["word"], entry["term"], entry["meaning"]) for entry in _TEXTS["terms"])
GLOSSARY: dict[str, str] = _TEXTS["metrics"]


def gloss(
    question: Question,
    options: Mapping[str, object],
    names: Sequence[str] = (),
    labels: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """What the technical words of a test mean; empty if it uses none.

    ``names``: what the metrics are called in this audit, in the order of the option; ``labels``: the same by the names
    of the metrics.
    """
    words: dict[str, str] = {}
    for option in ("metric", "criterion", "accuracy", "fairness", "target"):
        given = options.get(option)
        listed = list(given) if isinstance(given, (tuple, list)) else [given]
        called = names if option == "metric" and len(names) == len(listed) else listed
        for word, name in zip(listed, called, strict=True):
            if isinstance(word, str) and word in GLOSSARY:
                words.setdefault(word, phrases.metric(labels.get(word, str(name))))
    # 'True positive rate (tpr)': the words of the report, and the name in the audit file.
    named = {word: "" if name.replace(" ", "_").lower() == word else f" ({word})" for word, name in words.items()}
    meanings = [f"{name[:1].upper()}{name[1:]}{named[word]}: {GLOSSARY[word]}." for word, name in words.items()]
    meaning = question.meaning(options) if callable(question.meaning) else question.meaning
    roles = _roles(options, " ".join([*question.speaks_of, *(GLOSSARY[word] for word in words)]))
    return " ".join(filter(None, [meaning, *meanings, *roles, phrases.designed(options)]))


def _roles(options: Mapping[str, object], meanings: str) -> Iterator[str]:
    """What counts as selected, and as outcome 1, in this table."""
    one = 1 if options.get("positive") is None else options["positive"]
    for role, word in (("prediction", "selected"), ("outcome", "outcome 1")):
        column = options.get(role)
        if isinstance(column, str) and word in meanings:
            condition = column if " is " in column and "(" not in column else f"{column} is {one}"
            yield f"Here, {word} means that {condition}."


def reading(text: str) -> tuple[tuple[str, str], ...]:
    """How to read a report: what every report needs, then the technical words that this ``text`` uses."""
    lower = text.lower()
    return (*READING, *((term, meaning) for word, term, meaning in TERMS if word in lower))
