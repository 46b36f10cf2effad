"""Evidence: the one shape of every result. Frozen columns, the null in words, a verdict, notes, and a record.

A field declared with `column` is a column of the result's table. The table, its headings and units, what is withheld
for small groups and what two audits compare follow from these declarations.
"""

from __future__ import annotations

import json
import textwrap
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from enum import StrEnum
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from isonomy.errors import choose
from isonomy.frames.groups import CONDITION, Group
from isonomy.inference import Verdict, answered
from isonomy.inference.designs import DesignEffect, count_clusters
from isonomy.numerics.arrays import AnyArray, BoolArray, FloatArray
from isonomy.numerics.status import Status
from isonomy.options import Seed
from isonomy.results import phrases
from isonomy.results.columns import DESIGN, KEYS, WHOLE, Column, column, columns_of, html
from isonomy.results.disclosure import few_in_reference, hide_lines, leaves_few, withheld
from isonomy.results.phrases import Note, note_if, without
from isonomy.results.storage import SCHEMA_VERSION, encode, storable

if TYPE_CHECKING:
    import altair as alt

    from isonomy.frames import Grouping, Source
    from isonomy.results.questions import Question

storable(DesignEffect)

FRAME_LIBRARIES = {"pandas": "DataFrame", "polars": "DataFrame", "pyarrow": "table"}  # what makes a frame of columns
_FINDINGS = 50  # findings of a summary; a report has them all
_SEQUENCES = ("stratum", "candidate", "criterion", "round", "score", "time")  # keys that have an order of their own

Options = Mapping[str, Any]
Columns = Mapping[str, Sequence[object] | AnyArray]


@storable
@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Provenance:
    """Where a result came from, in enough detail to compute it again."""

    call: str
    version: str
    options: Options
    rows: int | None = None
    dropped: Mapping[str, int] = field(default_factory=dict)
    backend: str = "polars"
    seed: Seed | None = None
    remarks: tuple[Note, ...] = ()  # about the table itself; results list them among their notes
    clusters: tuple[tuple[str, int, float], ...] = ()  # of each group: their number, and the effective number
    counted: Mapping[str, int] = field(default_factory=dict)  # all rows ("size"), and those that each metric counts


def provenance(
    call: str,
    options: Options,
    source: Source | None = None,
    seed: Callable[[], Seed] | None = None,
    *,
    rows: int | None = None,
    dropped: Mapping[str, int] | None = None,
    random: bool = True,
    grouping: Grouping | None = None,
    counted: Mapping[str, int] | None = None,
    **chosen: object,
) -> Provenance:
    """Record a call. Options that JSON cannot hold are kept as their text.

    ``random``: whether anything was drawn; ``grouping``: the groups whose clusters the result does not report itself;
    ``chosen``: options that the call determined.
    """
    from isonomy import __version__

    clusters = count_clusters(source, grouping) if source and source.designed and grouping else ()
    remarks: tuple[Note, ...] = ()
    if source is not None and source.like_weights:
        remarks = (Note("like_weights", values={"column": source.count}),)
    return Provenance(
        call=call,
        version=__version__,
        options=plain_option({**options, **chosen}),
        rows=rows,
        dropped=dict(dropped or {}),
        remarks=remarks,
        backend="polars" if source is None else source.backend,
        seed=seed() if seed and random else None,
        clusters=clusters,
        counted=dict(counted or {}),
    )


def plain_option(value: Any) -> Any:
    """Options as numbers, text, tuples and mappings; expressions and objects as their text."""
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.size <= 1000):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): plain_option(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return tuple(map(plain_option, value))
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


@dataclass(frozen=True, slots=True, eq=False)
class Movement:
    """What two audits compare: a number for each line, its standard error, and what kind of number it is.

    ``kind`` is "points" for differences of shares, "ratio" for ratios (compared by their logarithms), "" otherwise.
    """

    value: FloatArray
    error: FloatArray
    kind: str = ""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Evidence(ABC):
    """What every question returns: frozen, not iterable, of the annotated type on every path.

    Columns have one entry per line of the table, on their last axis; so have ``groups`` and ``status`` if lines are
    about groups. A subclass states in `findings` what was found, in `limits` what was not shown.
    """

    method: ClassVar[str]
    references: ClassVar[tuple[str, ...]] = ()
    always_assumed: ClassVar[tuple[tuple[str, str], ...]] = ()
    never_shown: ClassVar[tuple[str, ...]] = ()
    decisive: ClassVar[tuple[str, ...]] = ("pvalue",)  # the fields with the p-values the verdict rests on

    null: str
    verdict: Verdict
    notes: tuple[Note, ...]
    provenance: Provenance
    groups: tuple[Group, ...] = ()
    status: tuple[Status, ...] = column(withheld=False, default=())
    design: DesignEffect | None = None  # where rows have weights or clusters

    def __init_subclass__(cls, **keywords: Any) -> None:
        super(Evidence, cls).__init_subclass__(**keywords)  # by name: with slots, the class is created anew
        # `dataclass` would write a repr that lists every array.
        cls.__repr__ = Evidence.__repr__  # type: ignore[method-assign]

    def __post_init__(self) -> None:
        if isinstance(self.status, np.ndarray):  # numpy turns the members of an enum into strings
            object.__setattr__(self, "status", tuple(map(Status, self.status)))
        if remarks := [remark for remark in self.provenance.remarks if remark not in self.notes]:
            object.__setattr__(self, "notes", (*remarks, *self.notes))
        read_only(self)

    # ---- the table

    @classmethod
    def declared(cls) -> Mapping[str, Column]:
        """What each column is, by the name of its field."""
        return columns_of(cls)

    def table(self) -> Columns:
        """The columns of `to_frame`, in order. A single number for all lines is repeated in every line."""
        labels = self.labels
        values = {c.name: getattr(self, name) for name, c in self.declared().items() if c.listed}
        if not labels:
            return {name: value for name, value in values.items() if value is not None and len(value)}
        if self.design is not None:
            values |= {"clusters": self.design.clusters, "effective_clusters": self.design.effective}
            values["design_effect"] = self.design.effect
        keys = {name: values.pop(name) for name in KEYS[: KEYS.index("group")] if name in values}
        numbers = {**keys, "group": labels, **values}
        columns = {name: v if np.ndim(v) else np.full(len(labels), v) for name, v in numbers.items() if v is not None}
        hidden = [status is Status.SUPPRESSED for status in self.status]
        if any(hidden):  # neither yes nor no may be printed about a withheld line
            for name, v in columns.items():
                if np.asarray(v).dtype.kind == "b" and len(hidden) == len(v):
                    columns[name] = [None if hide else bool(value) for value, hide in zip(v, hidden, strict=True)]
        return columns

    def pages(self) -> Mapping[str, Columns]:
        """The tables that a report shows before the chart, by heading; empty if one table is enough."""
        return {}

    def units(self) -> Mapping[str, str]:
        """The units of columns: "%" for shares, "points" for differences of shares."""
        return {c.name: c.unit for c in self.declared().values() if c.unit}

    def headings(self) -> Mapping[str, str]:
        """What readers call the columns."""
        return {c.name: c.heading for c in self.declared().values() if c.heading}

    def described(self, names: Iterable[str]) -> dict[str, Column]:
        """What each of the named columns is, in the words and units of this result."""
        declared = DESIGN | WHOLE | {c.name: c for c in self.declared().values()}
        units, headings = self.units(), self.headings()
        known = {name: declared.get(name, Column(name)) for name in names}
        return {
            name: replace(c, unit=units.get(name, ""), heading=headings.get(name, c.heading))
            for name, c in known.items()
        }

    def ranking(self) -> list[int]:
        """The lines of the table in the order of a report: worst first, in table, text and chart alike."""
        columns = self.table()
        size = columns.get("disparity")
        if size is None or not set(columns).isdisjoint(_SEQUENCES):
            return list(range(max(map(len, columns.values()), default=0)))
        return np.argsort(-np.abs(np.asarray(size, dtype=np.float64)), kind="stable").tolist()

    def key_line(self) -> int | None:
        """The line of the table that the first page of a report shows; None if there is none."""
        columns: Mapping[str, Any] = self.table()
        values = columns.get("disparity", columns.get("estimate"))
        return None if values is None else next((i for i in self.ranking() if np.isfinite(values[i])), None)

    def tested_claim(self) -> str:
        """What the p-value on the first page of a report tests, where that is not the absence of a difference."""
        return ""

    def marks(self) -> Mapping[str, str]:
        """The words of this result for the verdicts in its table, where they differ from the common ones."""
        return {}

    def table_note(self) -> str:
        """A caveat printed below the table; empty if there is none."""
        return ""

    @property
    def labels(self) -> tuple[str, ...]:
        """The groups' names, line by line."""
        return tuple(group.label for group in self.groups)

    def to_frame(self, backend: str | None = None) -> Any:
        """The table in the caller's library (pandas, polars or pyarrow); polars for any other input."""
        columns = self.table()
        counts = {name for name, c in self.described(columns).items() if c.count or name in WHOLE}
        return as_frame(columns, backend, self.provenance.backend, counts)

    # ---- the comparison of two audits

    @property
    def names(self) -> tuple[str, ...]:
        """The name of each line: its group and, if there are several metrics, its metric."""
        metrics = next((getattr(self, name) for name, c in self.declared().items() if c.name == "metric"), ())
        if len(set(metrics)) < 2:
            return self.labels
        return tuple(f"{label} ({metric})" for label, metric in zip(self.labels, metrics, strict=True))

    def keys(self) -> tuple[tuple[object, ...], ...]:
        """What each line is about: lines of two audits with equal keys are compared."""
        columns = [self.groups, *(getattr(self, name) for name, c in self.declared().items() if c.name in KEYS)]
        lines = max(map(len, columns))  # groups may be about other numbers than the lines
        return tuple(zip(*(column for column in columns if len(column) == lines), strict=True))

    def movement(self) -> Movement | str:
        """The numbers that two audits compare, or a sentence that says why they are not compared."""
        value, error = getattr(self, "disparity", None), getattr(self, "standard_error", None)
        if value is None or error is None:
            return phrases.VERDICTS_ALONE
        ratio = self.provenance.options.get("scale") in ("ratio", "odds_ratio")
        return Movement(value, error, "ratio" if ratio else self.units().get("disparity", ""))

    # ---- words

    @property
    def definition(self) -> Question:
        """The question this result answers, as it is declared."""
        from isonomy.results.questions import find_question

        return find_question(self.provenance.call)

    @property
    def question(self) -> str:
        """What was asked, in a sentence."""
        return self.definition.asks

    @property
    def warnings(self) -> tuple[str, ...]:
        """The notes, in sentences."""
        return tuple(note.text for note in self.notes)

    @abstractmethod
    def findings(self) -> tuple[str, ...]:
        """What was found, in sentences with effect sizes and intervals, most important first.

        The first is the one that decided the verdict, unless `deciding` says otherwise.
        """

    def assumptions(self) -> tuple[tuple[str, str], ...]:
        """What is assumed, and how it was checked or why it cannot be."""
        return tuple(self.rows_assumed() if pair == phrases.INDEPENDENT else pair for pair in self.always_assumed)

    def rows_assumed(self) -> tuple[str, str]:
        """What is assumed of the rows: that they are independent, or that their clusters are."""
        weight, cluster = (self.provenance.options.get(name) for name in ("weight", "cluster"))
        if cluster is not None:
            return (
                f"Rows with different values of {cluster!r} are independent; rows with the same value need not be.",
                "Errors are measured between clusters. That clusters are independent cannot be checked from the table.",
            )
        if weight is None:
            return phrases.INDEPENDENT
        rows, unchecked = phrases.INDEPENDENT
        return rows, f"Errors account for the weights in {weight!r}. {unchecked}"

    def limits(self) -> tuple[str, ...]:
        """What this result does not show."""
        return self.never_shown

    def next_steps(self, common: tuple[str, ...]) -> tuple[str, ...]:
        """What a reader can do next; ``common`` are the steps after this verdict on this question."""
        return common

    @abstractmethod
    def plot(self) -> alt.TopLevelMixin:
        """The chart of this result, from Altair. ``plot().save("chart.svg")`` writes it to a file."""

    @property
    def answered(self) -> bool:
        """Whether anything was tested: the absence of p-values is not a large p-value.

        True for a result without p-values, because it is not a test. False if everything is withheld.
        """
        if self.status and set(self.status) == {Status.SUPPRESSED}:
            return False
        if any(note.code == "pooled" for note in self.notes):  # the p-value is withheld
            return True
        return answered(self.verdict, np.concatenate([np.ravel(getattr(self, name, 0.0)) for name in self.decisive]))

    def deciding(self) -> str:
        """The finding that decided the verdict: the one sentence shown next to it."""
        findings = self.findings() if self.answered else ()
        return findings[0] if findings else self.headline()

    def headline(self) -> str:
        """The verdict as a sentence."""
        if not self.answered:
            return phrases.unanswered(map(str, self.status))
        tolerance = self.provenance.options.get("tolerance", True)
        tolerant = tolerance not in (None, 0)
        return self.definition.verdict(self.verdict.value, tolerant=tolerant, beyond=tolerant and tolerance is not True)

    def summary(self) -> str:
        """The result in words, for a terminal or an e-mail."""
        bullet = partial(
            textwrap.fill, width=100, initial_indent="  - ", subsequent_indent="    ", break_long_words=False
        )
        design = phrases.designed(self.provenance.options, self.provenance.clusters)
        findings, warnings = tuple(map(phrases.capital, self.findings())), self.warnings
        lines = [self.question, "", self.headline(), "", *([design, ""] if design else [])]
        table = self.screen()
        most = 1 if table else _FINDINGS
        lines += map(bullet, findings[:most])
        if table:
            lines += ["", *table]
        elif more := findings[most:]:
            lines.append(bullet(f"{len(more):,} more findings, in findings()."))
        lines += ["", f"Tested: {self.null}"]
        lines += ["", "Warnings", *map(bullet, warnings)] if warnings else []
        return "\n".join([*lines, "", "What this does not show", *map(bullet, self.limits())])

    def screen(self) -> tuple[str, ...]:
        """A table that `summary` shows instead of all findings but the first; empty if sentences are short enough."""
        return ()

    def __str__(self) -> str:
        return self.summary()

    def __repr__(self) -> str:
        answer = self.verdict.value if self.answered else "not answered"
        return f"<{type(self).__name__} {self.provenance.call}: {answer}. {phrases.cut(self.deciding(), 160)}>"

    def _repr_html_(self) -> str:
        """Notebook display: the verdict, the findings, the first rows of the table and the chart, in one piece."""
        return html(self)

    # ---- disclosure

    def suppressed(self, minimum: int, also: Collection[str] = ()) -> Self:
        """A copy that withholds the numbers of groups with fewer than ``minimum`` rows, and of those in ``also``."""
        sizes = [name for name, c in self.declared().items() if c.sizes]
        if not self.groups or not sizes:
            return self
        counts = np.array([getattr(self, name) for name in sizes])
        lines = zip(self.status, self.labels, strict=True)
        hidden = np.array([status is Status.SUPPRESSED or label in also for status, label in lines], dtype=bool)
        few = (counts < minimum).any(axis=0) | hidden
        for name, values in zip(sizes, counts, strict=True):
            metrics = getattr(self, "metrics", ()) if name == "n" else ()
            counted = metrics or [name] * len(self.groups)  # by each line
            rows = [self.provenance.counted.get(what, self.provenance.rows) for what in counted]
            few |= leaves_few(self.groups, values, np.array(rows, dtype=float), minimum)
        compared = self.compared_with()
        small = withheld(self.groups, counts.min(axis=0), few, minimum, references=compared, rows=self.provenance.rows)
        if (few & compared).any() or self.given_away(small & compared, ~small):
            raise few_in_reference(minimum)
        return self.hide(small) if small.any() else self

    def hide(self, small: BoolArray) -> Self:
        """A copy without the numbers of the lines that are ``small``: NaN, with `Status.SUPPRESSED`.

        The verdicts on these lines are withheld too, and so is an overall verdict that no published line supports.
        """
        columns = {name: getattr(self, name) for name, c in self.declared().items() if c.withheld or name == "status"}
        filled = {name: values for name, values in columns.items() if values is not None and np.size(values)}
        changes = hide_lines(filled, small)
        changes |= {name: np.full(np.shape(getattr(self, name)), np.nan)[()] for name in self.pooled_numbers()}
        verdicts = changes.get("verdicts", (Verdict.VIOLATION,))
        if small.all() or Verdict.VIOLATION not in verdicts:
            changes["verdict"] = Verdict.INCONCLUSIVE
        if self.design is not None:
            parts = (getattr(self.design, part.name) for part in fields(DesignEffect))
            changes["design"] = DesignEffect(*(np.where(small, np.nan, part) for part in parts))
        return replace(self, **changes)

    def pooled_numbers(self) -> list[str]:
        """The fields with numbers that all lines determine together; they would reveal those of withheld lines."""
        known = [(part.name, getattr(self, part.name)) for part in fields(self) if "pooled" in part.metadata]
        return [name for name, value in known if value is not None and not np.isnan(value).all()]

    def compared_with(self) -> BoolArray:
        """Which lines others are compared with."""
        return np.array([status is Status.REFERENCE for status in self.status], dtype=bool)

    def given_away(self, references: BoolArray, shown: BoolArray) -> bool:
        """Whether a comparison that is shown reveals the numbers of one of the withheld ``references``."""
        return bool(references.any() and shown.any())

    def withheld_labels(self) -> tuple[frozenset[str], frozenset[str]]:
        """The names of the groups whose numbers of rows are withheld, also with their metrics, and of the others."""
        hidden: set[str] = set()
        shown: set[str] = set()
        for name, c in self.declared().items():
            if not c.sizes or getattr(self, name) is None:
                continue
            counts, groups = np.atleast_1d(getattr(self, name)), getattr(self, c.sized)
            for group, n in zip(groups, counts, strict=True) if len(counts) == len(groups) else ():
                (hidden if np.isnan(n) else shown).add(group.label)
        if hidden:
            hidden |= {name for name, label in zip(self.names, self.labels, strict=True) if label in hidden}
        return frozenset(hidden), frozenset(shown - hidden)

    def published(self, minimum: int, also: Collection[str] = ()) -> Self:
        """A copy without small groups, and without anything else that would reveal them.

        That includes the numbers of clusters if a group has few, and notes about withheld groups. ``also``: the labels
        of groups that are withheld elsewhere, and therefore here.
        """
        result = self.suppressed(minimum, also)
        hidden, _ = result.withheld_labels()
        if hidden:
            pooled = [Note("pooled")] if set(self.pooled_numbers()) > set(result.pooled_numbers()) else []
            notes = (*without(self.notes, hidden), *pooled, *result.withheld_notes())
            result = replace(result, notes=tuple(n for i, n in enumerate(notes) if n not in notes[:i]))
        few = any(number < minimum or label in hidden for label, number, _ in self.provenance.clusters)
        if few or self.provenance.counted:
            clusters = () if few else self.provenance.clusters
            result = replace(result, provenance=replace(result.provenance, clusters=clusters, counted={}))
        return result

    def withheld_notes(self) -> tuple[Note, ...]:
        """Notes on how withheld groups might still be derived."""
        if len(self.status) != len(self.groups):
            return ()
        lines = zip(self.groups, self.status, strict=True)
        shown = dict.fromkeys(group for group, status in lines if status is not Status.SUPPRESSED)
        named = [group.label for group in shown if any(name == CONDITION for name, _ in group.items)]
        dimensions = {name for group in self.groups for name, _ in group.items if name != CONDITION}
        crossed = any(len(group.items) > 1 for group in self.groups)
        return (*note_if("overlapping", named), *([Note("merged")] if len(dimensions) > 1 and not crossed else []))

    # ---- storage

    def to_dict(self, *, rows: bool = False) -> dict[str, object]:
        """The result in plain JSON types. ``rows``: include fields that list single rows."""
        unplaced = replace(self, provenance=replace(self.provenance, backend="polars"))
        return {"schema_version": SCHEMA_VERSION, "result": encode(unplaced, rows=rows)}

    def to_json(self, *, indent: int | None = None, rows: bool = False) -> str:
        """The result as JSON, which `isonomy.from_json` reads. ``rows``: include fields that list single rows."""
        return json.dumps(self.to_dict(rows=rows), allow_nan=False, indent=indent, ensure_ascii=False)


def read_only(part: object) -> None:
    """Make the arrays of a dataclass read-only, and those of the dataclasses in its tuples."""
    for item in fields(part):  # type: ignore[arg-type]
        value = getattr(part, item.name)
        if isinstance(value, np.ndarray) and (value.flags.writeable or value.base is not None):
            value = value.copy()  # a view could be changed through its base
            value.flags.writeable = False
            object.__setattr__(part, item.name, value)
        elif isinstance(value, tuple) and any(map(is_dataclass, set(map(type, value)) - {Group, type})):
            for inner in value:
                if is_dataclass(inner) and not isinstance(inner, (type, Group)):  # there may be very many groups
                    read_only(inner)


def as_frame(columns: Columns, backend: str | None, caller: str = "polars", counts: Collection[str] = ()) -> Any:
    """Columns as a frame of the named library, or of the caller's; polars if that has no frames."""
    if backend is None:
        backend = caller if caller in FRAME_LIBRARIES else "polars"
    choose("backend", backend, FRAME_LIBRARIES)
    plain = {name: _plain_column(values, name in counts, backend) for name, values in columns.items()}
    return getattr(import_module(backend), FRAME_LIBRARIES[backend])(plain)


def _plain_column(values: Sequence[object] | AnyArray, count: bool, backend: str) -> Any:
    """Text for enums, and whole numbers for counts; a withheld count is missing."""
    if not isinstance(values, np.ndarray) or values.dtype.kind not in "fiub":
        return [value.value if isinstance(value, StrEnum) else value for value in values]
    missing = np.isnan(values)
    whole = count and values.dtype.kind == "f" and not missing.all()
    if not whole or not bool((missing | (np.floor(values) == values) & np.isfinite(values)).all()):
        return values
    if not missing.any():
        return values.astype(np.int64)
    numbers = [None if hide else int(value) for value, hide in zip(values, missing, strict=True)]
    return import_module("pandas").array(numbers, dtype="Int64") if backend == "pandas" else numbers
