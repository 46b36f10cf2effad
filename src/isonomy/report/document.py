"""The contents of a report: one entry per test, and what applies to all of them."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from isonomy.report import wording
from isonomy.results import Evidence, Question, find_question

FAILED, ALARM = "failed", "alarm"
FINGERPRINT = "Fingerprint of the rows"  # the fact that tells whether two audits read the same rows
DATES = "Dates of the rows"
VERDICTS = ("violation", "within_tolerance", "inconclusive")


@dataclass(frozen=True, slots=True)
class Decided:
    """Who chose a threshold or a tolerance, on which day, and why."""

    by: str
    on: str
    why: str


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Entry:
    """One test of an audit: its result, or why there is none."""

    name: str  # the test's id, unique in the audit
    kind: str  # "flag", "certify", ...
    result: Evidence | None = None
    error: str | None = None
    error_kind: str | None = None  # "usage", "data" or "crash"
    title: str | None = None
    truth: tuple[str, ...] = ()  # known facts of simulated data, shown next to the findings
    seconds: float = 0.0
    peak_memory: int | None = None  # bytes, of the whole process when the test ended
    seed: int | None = None
    resumed: bool = False
    options: Mapping[str, object] = field(default_factory=dict)
    words: Mapping[str, str] = field(default_factory=dict)  # what readers call the table's columns
    further: tuple[str, ...] = ()  # methods of the result whose tables follow its own
    decided: Decided | None = None  # who chose its threshold and its tolerance
    chosen: str = "selected"  # what people with decision 1 are called

    @property
    def answered(self) -> bool:
        return self.result is not None and self.result.answered

    @property
    def fault(self) -> str | None:
        """Why there is no answer: "usage", "data" or "crash"; None if there is one. Nothing to test is "data"."""
        return None if self.answered else self.error_kind or ("crash" if self.result is None else "data")

    @property
    def verdict(self) -> str:
        return FAILED if self.result is None or not self.result.answered else self.result.verdict.value

    def failures(self, rules: Collection[str]) -> tuple[str, ...]:
        """The verdict and an alarm in the last batch, those of them that are among the ``rules``."""
        happened = (self.verdict, ALARM) if getattr(self.result, "alarmed", False) else (self.verdict,)
        return tuple(word for word in happened if word in rules)

    @property
    def definition(self) -> Question:
        return find_question(self.kind)

    @property
    def badge(self) -> str:
        return self.definition.badge(self.verdict)

    @property
    def look(self) -> str:
        return self.definition.looks.get(self.verdict, self.verdict)

    @property
    def lead(self) -> str:
        """The one sentence next to the verdict: the finding that decided it, or what went wrong."""
        return self.error or wording.FAILED if self.result is None else self.result.deciding()

    @property
    def leads(self) -> tuple[str, ...]:
        """The finding that decided, and the next one; the first warning if nothing could be tested."""
        if self.result is None:
            return (self.lead,)
        further = self.result.findings() if self.answered else self.result.warnings
        return (self.lead, *(text for text in further if text not in self.lead))[:2]

    @property
    def sentence(self) -> str:
        return wording.FAILED if self.result is None else self.result.headline()

    @property
    def given(self) -> Mapping[str, object]:
        return self.options if self.result is None else self.result.provenance.options

    @property
    def steps(self) -> tuple[str, ...]:
        known = {} if self.result is None else self.given
        steps = wording.next_steps(
            self.definition, self.verdict, known, stopped=self.result is None, recorded=self.decided is not None
        )
        return steps if self.result is None else self.result.next_steps(steps)

    @property
    def metrics(self) -> tuple[str, ...]:
        names = getattr(self.result, "metrics", None) or _several(self.given.get("metric"))
        return tuple(dict.fromkeys(map(str, names)))

    @property
    def scale(self) -> str | None:
        """On which scale groups are compared; None for a question that has no scales."""
        scale = self._scaled[1].get("scale")
        return None if scale is None or self.result is None else str(scale)

    @property
    def _scaled(self) -> tuple[str, Mapping[str, object]]:
        kind, options = self.definition.scale_of or (self.kind, {})
        return kind, {**self.given, **options}

    @property
    def asked(self) -> tuple[object, ...]:
        """What a question on another scale has in common with this one, its verdict included."""
        kind, options = self._scaled
        roles = [repr(_several(options.get(name))) for name in ("metric", "groups", "prediction", "given")]
        rows = None if self.result is None else self.result.provenance.rows
        return kind, *roles, rows, self.look

    @property
    def gloss(self) -> str:
        labels, chosen = getattr(self.result, "words", {}), getattr(self.result, "chosen", self.chosen)
        return wording.gloss(self.definition, self.given, self.metrics, labels, chosen)

    @property
    def adjusted(self) -> bool:
        """Whether people are compared with others who are alike in some factors."""
        return bool(getattr(self.result, "given", ()))

    @property
    def question(self) -> str:
        return self.definition.asks if self.result is None else self.result.question

    @property
    def heading(self) -> str:
        """The title that the author of the audit gave, else what the test is about."""
        groups = []
        for spec in _several(self.given.get("groups")):
            name = spec.get("column") or spec.get("name") or spec.get("proxy") if isinstance(spec, Mapping) else spec
            column = re.split(", (?:cut at|where|by probability) ", str(name))[0]
            groups.append(self.words.get(column, column))
        topic = wording.topic(self.definition, self.metrics, groups)
        return self.title or (topic and f"{topic}{wording.ADJUSTED * self.adjusted}") or self.question


def _several(value: object) -> tuple[object, ...]:
    return () if value is None else tuple(value) if isinstance(value, (tuple, list)) else (value,)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Document:
    title: str
    entries: tuple[Entry, ...]
    description: str = ""
    created: str = ""
    data: str = ""  # where the rows came from, in words
    rows: int | None = None
    suppress_below: int = 0
    fail_on: tuple[str, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()  # provenance of the whole run: name and value
    config: str = ""  # the audit file as it was read

    @property
    def dates(self) -> str:
        """The dates of the rows if the audit states them, otherwise the date of the run."""
        return dict(self.facts).get(DATES) or (f"run on {self.created[:10]}" if self.created else "")

    @property
    def failing(self) -> tuple[Entry, ...]:
        return tuple(entry for entry in self.entries if entry.failures(self.fail_on))

    @property
    def tally(self) -> dict[str, int]:
        """How many tests ended in each verdict (and how many failed), in a fixed order."""
        verdicts = [entry.verdict for entry in self.entries]
        return {verdict: verdicts.count(verdict) for verdict in (*VERDICTS, FAILED)}

    @property
    def counts(self) -> dict[str, int]:
        """The same for readers: alternatives and comparisons are separate; scales with one verdict are one question."""
        looks = [asked[0].look for asked in self.questions]
        return {look: looks.count(look) for look in wording.TALLIES}

    @property
    def headline(self) -> str:
        return wording.headline(self.counts, len(self.entries))

    @property
    def questions(self) -> list[list[Entry]]:
        """The entries, with those together that ask the same question of the same rows on different scales and come to
        the same verdict."""
        questions: list[tuple[object, list[Entry]]] = []
        for entry in self.entries:
            same = [entries for key, entries in questions if key == entry.asked]
            scales = [entries for entries in same if entry.scale not in [other.scale for other in entries]]
            if scales and entry.scale is not None:
                scales[0].append(entry)
            else:
                questions.append((entry.asked, [entry]))
        return [entries for _, entries in questions]
