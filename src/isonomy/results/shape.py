"""The shape every result shares: frozen numbers, the null in words, a verdict, and where they came from."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import numpy as np

from isonomy.errors import NotEnoughData, choose
from isonomy.frames.groups import CONDITION, Group
from isonomy.inference import Verdict, answered
from isonomy.inference.designs import DesignEffect
from isonomy.numerics.arrays import AnyArray, BoolArray
from isonomy.numerics.randomness import Seed
from isonomy.numerics.status import Status
from isonomy.results import phrases
from isonomy.results.disclosure import silent, withheld
from isonomy.results.storage import SCHEMA_VERSION, encode, storable

if TYPE_CHECKING:
    import altair as alt

    from isonomy.frames import Source

storable(DesignEffect)

FRAME_LIBRARIES = ("pandas", "polars", "pyarrow")
# Columns that count rows or people: whole numbers in a frame, though sums of them are kept as floats.
COUNTS = frozenset(
    {
        *("n", "reference_n", "size", "users", "clusters"),
        *("selected", "shortfall", "shortfall_parity", "strata", "one_sided"),
    }
)

Options = Mapping[str, Any]
Columns = Mapping[str, Sequence[object] | AnyArray]
R = TypeVar("R", bound="Result")


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
    remarks: tuple[str, ...] = ()  # about the table itself; they stand among the warnings
    clusters: tuple[tuple[str, int, float], ...] = ()  # of each group, and how many of equal mass they are worth


def provenance(
    call: str,
    options: Options,
    *,
    source: Source | None = None,
    seed: Seed | None = None,
    rows: int | None = None,
    dropped: Mapping[str, int] | None = None,
    clusters: tuple[tuple[str, int, float], ...] = (),
) -> Provenance:
    """Record a call. Options that JSON cannot hold are kept as their text."""
    from isonomy import __version__

    return Provenance(
        call=call,
        version=__version__,
        options={name: _plain(value) for name, value in options.items()},
        rows=rows,
        dropped=dict(dropped or {}),
        remarks=() if source is None or not source.like_weights else (phrases.like_weights(source.count),),
        backend="polars" if source is None else source.backend,
        seed=seed,
        clusters=clusters,
    )


def _plain(value: object) -> object:
    """Options as numbers, text, tuples and mappings; expressions and objects as their text."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return tuple(_plain(v) for v in value)
    if isinstance(value, np.ndarray) and value.size <= 1000:
        return tuple(_plain(v) for v in value.tolist())
    if isinstance(value, np.generic):
        return value.item()
    return str(value)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Result(ABC):
    """What every test returns: frozen, not iterable, the same type on every path.

    Subclasses hold numbers in arrays (one entry per group, grid point or round) and say in `table` how they are
    laid out, in `findings` what they show, in `limits` what they do not. What is assumed and not shown whatever the
    data are the class variables ``always_assumed`` and ``never_shown``.
    """

    question: ClassVar[str]
    method: ClassVar[str]
    references: ClassVar[tuple[str, ...]] = ()
    always_assumed: ClassVar[tuple[tuple[str, str], ...]] = ()
    never_shown: ClassVar[tuple[str, ...]] = ()
    decisive: ClassVar[tuple[str, ...]] = ("pvalue",)  # the fields with the p-values the verdict rests on

    null: str
    verdict: Verdict
    warnings: tuple[str, ...]
    provenance: Provenance

    def __init_subclass__(cls, **keywords: Any) -> None:
        super(Result, cls).__init_subclass__(**keywords)  # by name: with slots the class is made anew
        # `dataclass` writes a repr, of every array, for classes that have none of their own.
        cls.__repr__ = Result.__repr__  # type: ignore[method-assign]

    def __post_init__(self) -> None:
        remarks = tuple(remark for remark in self.provenance.remarks if remark not in self.warnings)
        if remarks:
            object.__setattr__(self, "warnings", (*remarks, *self.warnings))
        read_only(self)

    @classmethod
    def gather(cls, *steps: object, **own: object) -> Self:
        """Lay out what the steps found: each field is one of the ``own``, or that of the first step with its name."""
        values: dict[str, Any] = dict(own)
        for item in fields(cls):
            step = next((step for step in steps if hasattr(step, item.name)), None)
            if item.name not in own and step is not None:
                values[item.name] = getattr(step, item.name)
        return cls(**values)

    @abstractmethod
    def table(self) -> Columns:
        """The columns of `to_frame`, in order."""

    def pages(self) -> Mapping[str, Columns]:
        """The tables a report shows before the picture, by heading, where one table would not do; else none."""
        return {}

    def units(self) -> Mapping[str, str]:
        """Columns of the tables that are shares, which readers see as "%", or differences of shares, as "points"."""
        return {}

    def headings(self) -> Mapping[str, str]:
        """Columns of the tables that this result calls by words of its own."""
        return {}

    def table_note(self) -> str:
        """What a reader of the table might take amiss, in a sentence; nothing where there is none."""
        return ""

    @abstractmethod
    def findings(self) -> tuple[str, ...]:
        """What was found, in sentences with effect sizes and intervals, most important first.

        The first is the one that decided the verdict, unless `deciding` says otherwise.
        """

    def assumptions(self) -> tuple[tuple[str, str], ...]:
        """What is assumed, and how it was checked or why it cannot be."""
        return tuple(self.rows_assumed() if one == phrases.INDEPENDENT else one for one in self.always_assumed)

    def rows_assumed(self) -> tuple[str, str]:
        """What is assumed of the rows: that they are independent, or that their clusters are."""
        reading = self.provenance.options
        return phrases.rows_assumed(reading.get("weight"), reading.get("cluster"))

    def limits(self) -> tuple[str, ...]:
        """What this result does not show."""
        return self.never_shown

    @abstractmethod
    def plot(self) -> alt.TopLevelMixin:
        """The picture of this result, an Altair chart."""

    @property
    def answered(self) -> bool:
        """Whether anything was tested: no p-value at all is not a large p-value.

        True of a result that has no field of p-values, because it is no test. What is withheld is not answered.
        """
        statuses = getattr(self, "status", ())
        if isinstance(statuses, tuple) and statuses and set(statuses) == {Status.SUPPRESSED}:
            return False
        return answered(self.verdict, np.concatenate([np.ravel(getattr(self, name, 0.0)) for name in self.decisive]))

    def deciding(self) -> str:
        """The finding that decided the verdict: the one sentence shown beside it."""
        findings = self.findings() if self.answered else ()
        return findings[0] if findings else self.headline()

    def headline(self) -> str:
        """The verdict as a sentence."""
        if not self.answered:
            return phrases.unanswered(str(status) for status in getattr(self, "status", ()))
        tolerance = self.provenance.options.get("tolerance", True)
        tolerant = tolerance not in (None, 0)
        beyond = tolerant and tolerance is not True
        return phrases.verdict(self.provenance.call, self.verdict.value, tolerant=tolerant, beyond=beyond)

    def suppressed(self, minimum: int, also: Collection[str] = ()) -> Self:
        """A copy that withholds the numbers of groups with fewer than ``minimum`` rows, and of those in ``also``."""
        return self

    def withheld_labels(self) -> tuple[frozenset[str], frozenset[str]]:
        """The names of the groups that are withheld, and of those that are not."""
        return frozenset(), frozenset()

    def published(self, minimum: int, also: Collection[str] = ()) -> Self:
        """A copy without small groups, and without what else would tell of them.

        That is how many clusters there are if one of them has so few, and warnings that name a group that is withheld.
        ``also``: the names of groups that are withheld elsewhere, and so here.
        """
        result = self.suppressed(minimum, also)
        hidden, others = result.withheld_labels()
        if hidden:
            warnings = silent(self.warnings, hidden, hidden | others)
            result = replace(result, warnings=tuple(dict.fromkeys((*warnings, *result.withheld_warnings()))))
        clusters = self.provenance.clusters
        if all(number >= minimum for _, number, _ in clusters) and not any(label in hidden for label, *_ in clusters):
            return result
        return replace(result, provenance=replace(result.provenance, clusters=()))

    def withheld_warnings(self) -> tuple[str, ...]:
        """What cannot be ruled out although groups are withheld."""
        return ()

    def summary(self) -> str:
        """The result in words, for a terminal or an e-mail."""
        return phrases.summary(
            question=self.question,
            null=self.null,
            headline=self.headline(),
            design=phrases.designed(self.provenance.options, self.provenance.clusters),
            findings=self.findings(),
            warnings=self.warnings,
            limits=self.limits(),
        )

    def to_dict(self, *, rows: bool = False) -> dict[str, object]:
        """The result in plain JSON types. ``rows``: with what lists single rows, if the result holds any."""
        unplaced = replace(self, provenance=replace(self.provenance, backend="polars"))
        return {"schema_version": SCHEMA_VERSION, "result": encode(unplaced, rows=rows)}

    def to_json(self, *, indent: int | None = None, rows: bool = False) -> str:
        """The result as JSON; `isonomy.from_json` brings it back. ``rows``: with what lists single rows."""
        return json.dumps(self.to_dict(rows=rows), allow_nan=False, indent=indent, ensure_ascii=False)

    def to_frame(self, backend: str | None = None) -> Any:
        """The table in the caller's library (pandas, polars or pyarrow); polars for any other input."""
        return as_frame(self.table(), backend, self.provenance.backend)

    def __str__(self) -> str:
        return self.summary()

    def __repr__(self) -> str:
        answer = self.verdict.value if self.answered else "not answered"
        return f"<{type(self).__name__} {self.provenance.call}: {answer}. {phrases.cut(self.deciding(), 160)}>"

    def _repr_html_(self) -> str:
        """Notebook display: the verdict, the findings, the first rows of the table and the picture, in one piece."""
        from isonomy.results.display import html

        return html(self)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class GroupResult(Result):
    """A result whose arrays have one entry per group, on their last axis."""

    columns: ClassVar[tuple[str, ...]]  # of the table, after the group: each is a field, if need be under another name
    fields_shown: ClassVar[Mapping[str, str]] = {"verdict": "verdicts"}
    counts: ClassVar[tuple[str, ...]] = ("n",)  # a group is small if one of these is
    withheld: ClassVar[tuple[str, ...]]  # the numbers of small groups

    groups: tuple[Group, ...]
    status: tuple[Status, ...]
    design: DesignEffect | None = None  # where rows have weights or clusters

    @property
    def labels(self) -> tuple[str, ...]:
        """The groups' names."""
        return tuple(group.label for group in self.groups)

    def table(self) -> Columns:
        """One row per group."""
        values = {name: getattr(self, self.fields_shown.get(name, name)) for name in self.columns}
        if self.design is not None:
            effects = {"clusters": self.design.clusters, "effective_clusters": self.design.effective}
            values |= effects | {"design_effect": self.design.effect}
        size = len(self.groups)  # what is one number for all groups stands in every row
        return {"group": self.labels} | {n: v if np.ndim(v) else np.full(size, v) for n, v in values.items()}

    def suppressed(self, minimum: int, also: Collection[str] = ()) -> Self:
        """A copy that withholds the numbers of groups with fewer than ``minimum`` rows, and of those in ``also``."""
        counts = np.array([getattr(self, name) for name in self.counts])
        gone = [one is Status.SUPPRESSED or name in also for one, name in zip(self.status, self.labels, strict=True)]
        small = (counts < minimum).any(axis=0) | np.array(gone, dtype=bool)
        compared, rows, few = self.compared_with(), self.provenance.rows, small
        small = withheld(self.groups, counts.min(axis=0), small, minimum, kept=compared, rows=rows)
        if (few & compared).any() or self.given_away(small & compared, ~small):
            raise NotEnoughData(
                f"reference: the group compared with has fewer than {minimum:,} rows, the least that is published, or "
                "would give away one that has; every comparison would give its numbers away; choose another reference."
            )
        hidden = suppress(self, small, self.withheld)
        if self.design is None or hidden is self:
            return hidden
        kept = (np.where(small, np.nan, getattr(self.design, part.name)) for part in fields(DesignEffect))
        return replace(hidden, design=DesignEffect(*kept))

    def compared_with(self) -> BoolArray:
        """Which groups others are compared with."""
        return np.array([one is Status.REFERENCE for one in self.status], dtype=bool)

    def given_away(self, references: BoolArray, shown: BoolArray) -> bool:
        """Whether a comparison that is shown gives the numbers of one of the withheld ``references`` away."""
        return bool(references.any() and shown.any())

    def withheld_labels(self) -> tuple[frozenset[str], frozenset[str]]:
        """The names of the groups that are withheld, and of those that are not."""
        hidden = [label for label, one in zip(self.labels, self.status, strict=True) if one is Status.SUPPRESSED]
        return frozenset(hidden), frozenset(self.labels) - frozenset(hidden)

    def withheld_warnings(self) -> tuple[str, ...]:
        """What cannot be ruled out although groups are withheld."""
        named = [
            group.label
            for group, one in zip(self.groups, self.status, strict=True)
            if one is not Status.SUPPRESSED and any(name == CONDITION for name, _ in group.items)
        ]
        columns = {name for group in self.groups for name, _ in group.items if name != CONDITION}
        crossed = any(len(group.items) > 1 for group in self.groups)
        merged = (phrases.MERGED,) if len(columns) > 1 and not crossed else ()
        return ((phrases.overlapping(list(dict.fromkeys(named))),) if named else ()) + merged


def read_only(part: object) -> None:
    """Make the arrays of a dataclass read-only, and those of the dataclasses in its tuples."""
    for item in fields(part):  # type: ignore[arg-type]
        value = getattr(part, item.name)
        if isinstance(value, np.ndarray) and (value.flags.writeable or value.base is not None):
            value = value.copy()  # a view could be changed through the array it looks into
            value.flags.writeable = False
            object.__setattr__(part, item.name, value)
        elif isinstance(value, tuple) and any(map(is_dataclass, {type(inner) for inner in value} - {Group, type})):
            for inner in value:
                if is_dataclass(inner) and not isinstance(inner, (type, Group)):  # of groups there may be very many
                    read_only(inner)


def as_frame(columns: Columns, backend: str | None, caller: str = "polars") -> Any:
    """Columns as a frame of the named library, else of the caller's; polars if that has no frames of its own."""
    if backend is None:
        backend = caller if caller in FRAME_LIBRARIES else "polars"
    choose("backend", backend, FRAME_LIBRARIES)
    plain = {name: _column(name, values) for name, values in columns.items()}
    if backend == "pandas":
        import pandas as pd

        return pd.DataFrame(plain)
    if backend == "pyarrow":
        import pyarrow as pa

        return pa.table(plain)
    import polars as pl

    return pl.DataFrame(plain)


def _column(name: str, values: Sequence[object] | AnyArray) -> Sequence[object] | AnyArray:
    if isinstance(values, np.ndarray) and values.dtype.kind in "fiub":
        # A withheld count is NaN, which no integer can say: that column stays as it is.
        whole = name in COUNTS and values.dtype.kind == "f" and bool((np.floor(values) == values).all())
        return values.astype(np.int64) if whole and np.isfinite(values).all() else values
    return [value.value if isinstance(value, StrEnum) else value for value in values]


def suppress(result: R, small: BoolArray, withheld: Sequence[str], status: str = "status") -> R:
    """Withhold the ``withheld`` arrays (one entry per group) where ``small``: NaN, with `Status.SUPPRESSED`.

    The verdict on such a group, if it has one of its own, is withheld too, and with it an overall verdict that no
    published group bears out.
    """
    if not small.any():
        return result
    changes: dict[str, Any] = {name: np.where(small, np.nan, getattr(result, name)) for name in withheld}
    for name, hidden in ((status, Status.SUPPRESSED), ("verdicts", Verdict.INCONCLUSIVE)):
        if hasattr(result, name):
            changes[name] = tuple(
                hidden if hide else old for old, hide in zip(getattr(result, name), small, strict=True)
            )
    if small.all() or Verdict.VIOLATION not in changes.get("verdicts", (Verdict.VIOLATION,)):
        changes["verdict"] = Verdict.INCONCLUSIVE
    return replace(result, **changes)
