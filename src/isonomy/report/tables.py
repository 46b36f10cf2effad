"""A result's table as cells, with the text that is shown and the values for sorting and download."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np

from isonomy.report import wording
from isonomy.report.text import visible
from isonomy.results import Columns, Status
from isonomy.results.columns import KEYS, VOCABULARY, Column, cell_text, place, plain_value

MAXIMUM_ROWS = 1_000

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_MINOR = ("size", "statistic", "direction", "status")  # common columns that are shown only on request
_SPARE = ("n", "reference", "estimate")  # common columns that are shown only if there is room
_ROOM = 8  # columns that are shown at once
_PAPER = 13  # columns that fit an upright page
_BELOW = 10  # columns of the tables that paper prints below the first
PRINTED = 100  # lines of a table on paper
_LONG = 30  # a table with more lines is printed in two halves side by side
_HALF = 7  # columns that fit half a page
_RUN = 8  # lines about the same groups that get a heading of their own


@dataclass(frozen=True, slots=True)
class Cell:
    """One value: ``text`` is shown, ``raw`` is downloaded and sorted by."""

    text: str
    raw: str
    mark: str = ""  # "violation", "suppressed", ...: verdicts and statuses have a style of their own


@dataclass(frozen=True, slots=True)
class PageColumn:
    """A heading, whether the column holds numbers, and whether it is shown only on request."""

    name: str
    heading: str
    numeric: bool
    minor: bool = False

    @property
    def key(self) -> bool:
        """Whether the column says what a line is about: it is repeated in every part of a table printed in parts."""
        compared = self.name == "reference" and not self.numeric
        return not self.minor and (self.name in KEYS or compared)


@dataclass(frozen=True, slots=True)
class PageTable:
    """The first lines of a result's table, and how many there are in all."""

    columns: tuple[PageColumn, ...]
    rows: tuple[tuple[Cell, ...], ...]
    total: int
    title: str = ""  # what all lines are about, if no column says so

    @property
    def long(self) -> bool:
        """Whether paper prints the lines in two halves side by side."""
        return len(self.rows) > _LONG

    @property
    def constant(self) -> tuple[tuple[str, str], ...]:
        """The columns of a long table that are the same in every line, with their value: they are printed once."""
        return tuple((self.columns[i].heading, self.rows[0][i].text) for i in self._constant())

    def _constant(self) -> list[int]:
        if not self.long:
            return []
        return [i for i in range(len(self.columns)) if len({row[i].text for row in self.rows[:PRINTED]}) == 1]

    @property
    def halves(self) -> tuple[tuple[PageTable, ...], ...]:
        """A long table on paper: a few columns at a time, with lines about the same groups under their names."""
        if not self.long:
            return ()
        varying = [i for i in range(len(self.columns)) if i not in self._constant()]
        names = [i for i in varying if self.columns[i].key and not self.columns[i].numeric]
        runs = [list(run) for _, run in groupby(self.rows[:PRINTED], lambda row: [row[i].text for i in names])]
        if not names or len(self.rows[:PRINTED]) < _RUN * len(runs):
            names, runs = [], [list(self.rows[:PRINTED])]
        keys = [i for i in varying if self.columns[i].key and i not in names]
        others = [i for i in varying if i not in (*keys, *names)]
        room = max(1, _HALF - len(keys))
        parts = [[*keys, *others[at : at + room]] for at in range(0, max(1, len(others)), room)]
        return tuple(
            tuple(replace(self._only(part, run), title=", ".join(run[0][i].text for i in names)) for run in runs)
            for part in parts
        )

    @property
    def wide(self) -> bool:
        """Whether an upright page has no room for all columns."""
        return len(self.columns) > _PAPER

    @property
    def continued(self) -> tuple[PageTable, ...]:
        """The columns for which paper has no room next to the others, in tables below them."""
        if not self.wide or self.long:
            return ()
        keys = [i for i, column in enumerate(self.columns) if column.key]
        minor = [i for i, column in enumerate(self.columns) if column.minor]
        room = _BELOW - len(keys)
        return tuple(self._only([*keys, *minor[at : at + room]], self.rows) for at in range(0, len(minor), room))

    def _only(self, places: Sequence[int], rows: Sequence[tuple[Cell, ...]]) -> PageTable:
        columns = tuple(replace(self.columns[i], minor=False) for i in places)
        return PageTable(columns, tuple(tuple(row[i] for i in places) for row in rows[:PRINTED]), self.total)

    @property
    def shortened(self) -> str:
        """A note if lines were left out; empty otherwise."""
        return "" if len(self.rows) == self.total else wording.shortened(len(self.rows), self.total)


def table(
    columns: Columns,
    described: Mapping[str, Column] | None = None,
    limit: int = MAXIMUM_ROWS,
    *,
    chosen: bool = False,
) -> PageTable:
    """The columns of a result, ready to be shown. ``chosen``: the result chose them and their order."""
    described = described or {name: Column(name) for name in columns}
    order = list(columns) if chosen else sorted(columns, key=place)
    listed = {name: [v.item() if isinstance(v, np.generic) else v for v in columns[name]] for name in order}
    if "status" in listed:  # lines whose numbers are all withheld come last
        lines = sorted(range(len(listed["status"])), key=lambda i: listed["status"][i] == Status.SUPPRESSED)
        listed = {name: [values[i] for i in lines] for name, values in listed.items()}
    known = {name: [value for value in values if plain_value(value) is not None] for name, values in listed.items()}
    listed = {name: values for name, values in listed.items() if name in KEYS or known[name]}
    if len(set(listed.get("table", ()))) == 1:  # the only table needs no name
        del listed["table"]
    numeric = {name: bool(known[name]) and {type(value) for value in known[name]} <= {int, float} for name in listed}
    shown = _shown(list(listed))
    drawn = {
        name: [_cell(described[name], value, numeric[name]) for value in values[:limit]]
        for name, values in listed.items()
    }
    for i, status in enumerate(drawn.get("status", [])):  # the comparator and withheld groups are not judged
        if status.mark in ("reference", "suppressed") and "verdict" in drawn:
            drawn["verdict"][i] = replace(status, raw=drawn["verdict"][i].raw)
    return PageTable(
        columns=tuple(PageColumn(n, described[n].title, numeric[n], minor=n not in shown) for n in listed),
        rows=tuple(zip(*drawn.values(), strict=True)),
        total=max((len(values) for values in listed.values()), default=0),
    )


def _shown(names: Sequence[str]) -> list[str]:
    """The columns that are shown at once, always with the verdict; the others are shown on request."""
    minor = (*_MINOR, "pvalue") if "adjusted_pvalue" in names else _MINOR
    major = [name for name in names if name not in minor]
    excess = sum(name in VOCABULARY for name in major) - _ROOM
    spare = [name for name in _SPARE if name in major][: max(0, excess)]
    shown = [name for name in major if name not in spare][:_ROOM]
    return [*shown[:-1], "verdict"] if "verdict" in major and "verdict" not in shown else shown


def safe_csv(text: str) -> str:
    """A label that a spreadsheet shows and does not compute."""
    return f"'{text}" if text.startswith(_FORMULA) else text


def _cell(column: Column, value: object, numeric: bool) -> Cell:
    text, plain = visible(cell_text(column, value)), plain_value(value)
    if plain is None:
        return Cell(text, "")
    if numeric:
        return Cell(text, repr(value) if isinstance(value, float) else str(value))
    if isinstance(plain, bool):
        return Cell(text, str(plain))
    if column.name in ("verdict", "status"):
        return Cell(text, str(plain), mark=str(plain))
    return Cell(text, safe_csv(text))
