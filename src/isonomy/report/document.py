"""What a report is made of: one entry per test, and what holds for all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from isonomy.report import glossary, wording
from isonomy.results import Result, phrases

FAILED = "failed"
VERDICTS = ("violation", "within_tolerance", "inconclusive")


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Entry:
    """One test of an audit: its result, or why there is none."""

    name: str  # the test's id, unique in the audit
    kind: str  # "flag", "certify", ...
    result: Result | None = None
    error: str | None = None
    error_kind: str | None = None  # "usage", "data" or "crash"
    title: str | None = None
    truth: tuple[str, ...] = ()  # known facts of simulated data, shown beside the findings
    seconds: float = 0.0
    peak_memory: int | None = None  # bytes, of the whole process when the test ended
    seed: int | None = None
    resumed: bool = False
    options: Mapping[str, object] = field(default_factory=dict)
    words: Mapping[str, str] = field(default_factory=dict)  # what readers call the table's columns

    @property
    def answered(self) -> bool:
        """Whether the test came to its end and found something it could test."""
        return self.result is not None and self.result.answered

    @property
    def fault(self) -> str | None:
        """Why there is no answer: "usage", "data" or "crash"; None where there is one. Nothing to test is bad data."""
        return None if self.answered else self.error_kind or ("crash" if self.result is None else "data")

    @property
    def verdict(self) -> str:
        """The result's verdict, or 'failed'."""
        return self.result.verdict.value if self.result is not None and self.result.answered else FAILED

    @property
    def badge(self) -> str:
        """The verdict in the words of the question."""
        return phrases.badge(self.kind, self.verdict)

    @property
    def look(self) -> str:
        """How the verdict is coloured and counted."""
        return wording.look(self.kind, self.verdict)

    @property
    def lead(self) -> str:
        """The one sentence beside the verdict: the finding that decided it, or what went wrong."""
        return self.error or wording.FAILED if self.result is None else self.result.deciding()

    @property
    def leads(self) -> tuple[str, ...]:
        """The finding that decided, and the next one; what to know about it where nothing could be tested."""
        if self.result is None:
            return (self.lead,)
        further = self.result.findings() if self.answered else self.result.warnings
        return (self.lead, *(text for text in further if text not in self.lead))[:2]

    @property
    def sentence(self) -> str:
        """The verdict in words."""
        return wording.FAILED if self.result is None else self.result.headline()

    @property
    def steps(self) -> tuple[str, ...]:
        """What to do next."""
        if self.result is None:
            return wording.next_steps(self.kind, self.verdict)
        tolerant = self.result.provenance.options.get("tolerance", True) not in (None, 0)
        return wording.next_steps(self.kind, self.verdict, tolerant=tolerant, stopped=False)

    @property
    def gloss(self) -> str:
        """The technical words of this test, explained."""
        if self.result is None:
            return glossary.gloss(self.options, kind=self.kind)
        names = tuple(dict.fromkeys(getattr(self.result, "metrics", ())))
        metrics = names if all(isinstance(name, str) for name in names) else ()
        return glossary.gloss(self.result.provenance.options, metrics, self.kind, getattr(self.result, "words", {}))

    @property
    def question(self) -> str:
        """What was asked, in plain words."""
        return wording.QUESTIONS.get(self.kind, self.kind) if self.result is None else self.result.question

    @property
    def heading(self) -> str:
        """The title the author of the audit gave, else what the test is about."""
        options = self.options if self.result is None else self.result.provenance.options
        named = getattr(self.result, "metrics", None) or _several(options.get("metric"))
        metrics = [str(name) for name in dict.fromkeys(map(str, named))]
        return self.title or wording.topic(self.kind, metrics, self._groupings(options)) or self.question

    def _groupings(self, options: Mapping[str, object]) -> list[str]:
        """The columns that groups are made of, as readers know them, or the names of conditions."""
        names = _groupings(options.get("groups"))
        return [self.words.get(name, name) for name in names]


def _several(value: object) -> tuple[object, ...]:
    """One or more, as a tuple."""
    return () if value is None else tuple(value) if isinstance(value, (tuple, list)) else (value,)


def _groupings(groups: object) -> list[str]:
    """The columns that groups are made of, or the names of conditions."""
    each = [one.get("column") or one.get("name") if isinstance(one, Mapping) else one for one in _several(groups)]
    return [str(name).split(", cut at ")[0] for name in each]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Document:
    """A whole report."""

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
    def tally(self) -> dict[str, int]:
        """How many tests ended in each verdict (and how many failed), in a fixed order."""
        verdicts = [entry.verdict for entry in self.entries]
        return {verdict: verdicts.count(verdict) for verdict in (*VERDICTS, FAILED)}

    @property
    def counts(self) -> dict[str, int]:
        """The same for readers: what is shown and no complaint is counted apart."""
        looks = [entry.look for entry in self.entries]
        return {look: looks.count(look) for look in wording.TALLIES}
