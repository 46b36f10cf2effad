"""The lines of a simulations page: measured on simulated tables, with Monte Carlo margins, and written to the page.

A page is Markdown with hand-written prose. A `Section` is one of its tables, a `Line` one row of that table:

    | the columns of the design | asked | measured, one or several columns | tables |

A `Run` is one simulation. It fills one line, or several lines that share its tables, and returns numbers for each
simulated table (usually 1 if a test rejected or an interval covered the truth, and 0 otherwise). The line shows their
mean over tables, or their ``summary``. `Asked` is the target: within three standard errors of a nominal value, or on
one side of it. A line that misses its target is marked.

`main` runs the lines of a page and replaces only those rows, so that no figure is lost. Block b of a run uses a
generator seeded with [name of the run, b]: neither the number of processes nor the other lines change a figure.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed  # type: ignore[import-untyped]
from numpy.typing import ArrayLike

from isonomy.numerics.arrays import FloatArray

DOCS = Path(__file__).resolve().parents[1] / "docs"
ERRORS = 3.0  # how many standard errors a measured number may lie from its target
BLOCK = 25  # tables that share a generator; the figures depend on it, so it is not an option
PROCESSES = 2

Draw = Callable[[np.random.Generator, int], ArrayLike]
Number = float | str  # a measured number, or a text to print unchanged


@dataclass(frozen=True)
class Asked:
    """The target of a measured number, up to chance.

    ``side`` is "both" (near the nominal value), "most" or "least". ``error`` maps the number of tables to a standard
    error (None: the binomial one at the nominal value); if ``exact``, there is no error. ``slack`` is allowed in
    addition to chance. ``label`` is printed before the value.
    """

    nominal: float
    side: str = "both"
    slack: float = 0.0
    error: Callable[[int], float] | None = None
    exact: bool = False
    label: str = ""

    def margin(self, tables: int) -> float:
        """The largest distance from the nominal value that chance can explain."""
        if self.exact or not tables:
            return self.slack
        error = np.sqrt(self.nominal * (1 - self.nominal) / tables) if self.error is None else self.error(tables)
        return float(self.slack + ERRORS * error)

    def holds(self, value: float, tables: int) -> bool:
        """Whether a measured number meets the target."""
        margin = self.margin(tables)
        above, below = value > self.nominal + margin, value < self.nominal - margin
        return not ((above and self.side != "least") or (below and self.side != "most"))

    def text(self, tables: int) -> str:
        """For example "0.95 ± 0.015" or "at most 0.071"."""
        margin = self.margin(tables)
        digits = 4 if tables >= 2_000 else 3
        if self.side == "both":
            value = f"{self.nominal:g} ± {margin:.{digits}f}"
        else:
            limit = self.nominal + (margin if self.side == "most" else -margin)
            value = f"at {self.side} {limit:.{digits}f}" if margin else f"at {self.side} {limit:g}"
        return f"{self.label} {value}".strip()


def nominal(value: float, label: str = "") -> Asked:
    """Within three binomial standard errors of a rate, on both sides."""
    return Asked(value, label=label)


def at_most(value: float, label: str = "") -> Asked:
    """At most three binomial standard errors above a rate."""
    return Asked(value, "most", label=label)


def published(value: float, tables: int, label: str = "") -> Asked:
    """Within three standard errors of a published rate that was itself simulated on ``tables`` tables."""
    variance = max(value * (1 - value), 0.002)  # a published 0 or 1 has an error too
    return Asked(value, error=lambda own: float(np.sqrt(variance / own + variance / tables)), label=label)


@dataclass(frozen=True)
class Line:
    """One row of a page: the cells that name it, and the target of each measured number (None: no target)."""

    design: tuple[str, ...]
    asked: tuple[Asked | None, ...] = ()

    @property
    def name(self) -> str:
        """The cells as one string."""
        return ", ".join(self.design)

    def cells(self, values: Sequence[Number], tables: int, digits: int) -> tuple[str, ...]:
        """The whole row: design, targets, measured numbers, number of tables."""
        asked = (*self.asked, *[None] * (len(values) - len(self.asked)))
        texts = [
            value if isinstance(value, str) else f"{value:.{digits}f}{_mark(value, one, tables)}"
            for value, one in zip(values, asked, strict=True)
        ]
        limits = dict.fromkeys(one.text(tables) for one in asked if one is not None)
        return (*self.design, ", ".join(limits), *texts, f"{tables:,}" if tables else "exact")


def _mark(value: float, asked: Asked | None, tables: int) -> str:
    return "" if asked is None or asked.holds(value, tables) else " (missed)"


@dataclass(frozen=True)
class Run:
    """One simulation, and the lines that it fills.

    ``draw(rng, tables)`` returns one row per table, with the measured numbers of all lines in order. ``summary`` turns
    these rows into the numbers to print (default: their means). If ``tables`` is 0, nothing is drawn and the numbers
    are exact.
    """

    lines: tuple[Line, ...]
    draw: Draw
    tables: int
    summary: Callable[[FloatArray], Sequence[Number]] | None = None

    @property
    def name(self) -> str:
        """The name of the first line, which determines the seeds."""
        return self.lines[0].name

    def measure(self, tables: int | None = None, processes: int = 1) -> list[tuple[Number, ...]]:
        """The numbers of each line on ``tables`` tables (default: as many as the page has)."""
        sizes = _blocks((self.tables if tables is None else tables) if self.tables else 1)
        blocks = Parallel(n_jobs=processes)(delayed(_block)(self.draw, self.name, b, n) for b, n in enumerate(sizes))
        outcomes = np.concatenate(blocks)
        values: Sequence[Number]
        values = np.nanmean(outcomes, axis=0).tolist() if self.summary is None else self.summary(outcomes)
        ends = np.linspace(0, len(values), len(self.lines) + 1).astype(int)
        return [tuple(values[i:j]) for i, j in pairwise(ends)]

    def missed(self, tables: int) -> list[str]:
        """The rows that miss their target on ``tables`` tables; for quick checks."""
        rows = zip(self.lines, self.measure(tables), strict=True)
        cells = [" | ".join(line.cells(values, tables, 4)) for line, values in rows]
        return [row for row in cells if "(missed)" in row]


def each(function: Callable[[np.random.Generator], ArrayLike]) -> Draw:
    """A draw that calls ``function(rng)`` once per table; it draws one table and returns its numbers."""

    def draw(rng: np.random.Generator, tables: int) -> FloatArray:
        return np.array([np.ravel(np.asarray(function(rng), dtype=float)) for _ in range(tables)])

    return draw


def _blocks(tables: int) -> list[int]:
    whole, rest = divmod(tables, BLOCK)
    return [BLOCK] * whole + [rest] * (rest > 0)


def _block(draw: Draw, name: str, block: int, tables: int) -> FloatArray:
    rng = np.random.default_rng([zlib.crc32(name.encode()), block])
    outcomes = np.asarray(draw(rng, tables), dtype=float)
    return outcomes.reshape(len(outcomes), -1)


@dataclass(frozen=True)
class Section:
    """One table of a page: its heading, the names of its columns, and the simulations that fill it."""

    title: str
    design: tuple[str, ...]
    measured: tuple[str, ...]
    runs: tuple[Run, ...]
    digits: int = 3

    @property
    def head(self) -> tuple[str, ...]:
        """The names of all columns."""
        return (*self.design, "asked", *self.measured, "tables")

    def find(self, text: str) -> Run:
        """The first simulation whose name contains ``text``."""
        return next(run for run in self.runs if text in run.name)


@dataclass(frozen=True)
class Page:
    """A page of tables, for example docs/groups/simulations.md."""

    name: str
    sections: tuple[Section, ...]

    @property
    def path(self) -> Path:
        """The Markdown file."""
        return DOCS / f"{self.name}.md"

    def find(self, title: str) -> Section:
        """The first section whose heading contains ``title``."""
        return next(section for section in self.sections if title in section.title)

    def chosen(self, words: Sequence[str]) -> Iterator[tuple[Section, Run]]:
        """The simulations whose heading or line contains one of the words; without words, all of them."""
        for section in self.sections:
            for run in section.runs:
                names = [section.title, *(line.name for line in run.lines)]
                if not words or any(word in name for word in words for name in names):
                    yield section, run


def replace(text: str, section: Section, row: Sequence[str]) -> str:
    """Replace one row of a section's table, or add it if it is new; nothing else changes.

    >>> section = Section("Size", ("design",), ("rejected",), ())
    >>> print(replace("# Page\\n\\nProse.\\n", section, ("null", "at most 0.07", "0.050", "100")))
    # Page
    <BLANKLINE>
    Prose.
    <BLANKLINE>
    ## Size
    <BLANKLINE>
    | design | asked | rejected | tables |
    |---|---|---|---|
    | null | at most 0.07 | 0.050 | 100 |
    <BLANKLINE>
    """
    lines = text.rstrip("\n").split("\n")
    heading, head = f"## {section.title}", _row(section.head)
    if heading not in lines:
        lines += ["", heading, "", head, "|" + "---|" * len(section.head)]
    start = lines.index(heading)
    below = [i for i in range(start + 1, len(lines)) if lines[i].startswith("## ")]
    place = [i for i in range(start, below[0] if below else len(lines)) if lines[i] == head]
    if not place:
        raise ValueError(f"{heading!r} has no table with the columns {head}")
    end = first = place[0] + 2
    while end < len(lines) and lines[end].startswith("|"):
        end += 1
    same = [i for i in range(first, end) if lines[i].startswith(_row(row[: len(section.design)]) + " ")]
    lines[same[0] if same else end : same[0] + 1 if same else end] = [_row(row)]
    return "\n".join(lines) + "\n"


def arranged(text: str, page: Page) -> str:
    """Put the lines in the order of the study; a line that has no row yet is added as "not run"."""
    for section in page.sections:
        unknown = ["not run"] * len(section.measured)
        asked = [(line, line.cells(unknown, run.tables, 3)) for run in section.runs for line in run.lines]
        for line, cells in asked:
            if not any(known.startswith(_row(line.design) + " ") for known in _rows(text, section)):
                text = replace(text, section, (*cells[:-1], "0"))
        present = _rows(text, section)
        starts = [_row(line.design) + " " for line, _ in asked]
        ordered = [next(row for row in present if row.startswith(start)) for start in starts]
        others = [row for row in present if row.startswith("| expected events")]
        text = text.replace("\n".join(present), "\n".join([*ordered, *others]), 1)
    return text


def _rows(text: str, section: Section) -> list[str]:
    """The rows of a section's table."""
    if f"## {section.title}\n" not in text:
        return []
    below = text.split(f"## {section.title}\n")[1].split("\n## ")[0].splitlines()
    if _row(section.head) not in below:
        return []
    rows = below[below.index(_row(section.head)) + 2 :]
    return list(itertools.takewhile(lambda row: row.startswith("|"), rows))


def _missing(page: Page, section: Section, line: Line) -> bool:
    rows = [row for row in _rows(page.path.read_text(), section) if row.startswith(_row(line.design) + " ")]
    return not rows or rows[0].endswith(" 0 |")


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def main(page: Page, arguments: Sequence[str] | None = None) -> None:
    """The command line of a study."""
    parser = argparse.ArgumentParser(description=f"Simulate the lines of {page.path.name} and write them to it.")
    parser.add_argument("--tables", type=int, help="simulated tables per line; if fewer than on the page, print only")
    parser.add_argument("--only", action="append", default=[], metavar="TEXT", help="lines whose name contains TEXT")
    parser.add_argument("--processes", type=int, choices=range(1, PROCESSES + 1), default=PROCESSES)
    parser.add_argument("--missing", action="store_true", help="only lines that were not run yet")
    parser.add_argument("--arrange", action="store_true", help="only put the lines on the page in order")
    parser.add_argument("--list", action="store_true", help="list the lines without running them")
    options = parser.parse_args(arguments)
    script = sys.modules["__main__"].__spec__
    if script is not None and script.name.startswith("studies."):
        # Worker processes can import the functions of a module, but not those of a script.
        page = importlib.import_module(script.name).PAGE
    if options.arrange:
        page.path.write_text(arranged(page.path.read_text() if page.path.exists() else f"# {page.name}\n", page))
        return
    missed = 0
    for section, run in page.chosen(options.only):
        if options.missing and not any(_missing(page, section, line) for line in run.lines):
            continue
        if options.list:
            print(*(f"{section.title}: {line.name}" for line in run.lines), sep="\n")
            continue
        tables = (options.tables or run.tables) if run.tables else 0
        for line, values in zip(run.lines, run.measure(tables, options.processes), strict=True):
            row = line.cells(values, tables, section.digits)
            missed += "(missed)" in "".join(row)
            print(_row(row), flush=True)
            if tables >= run.tables:
                text = page.path.read_text() if page.path.exists() else f"# {page.name}\n"
                page.path.write_text(replace(text, section, row))
    if not options.list:
        print(f"Lines that missed their target: {missed}.")


def rejected(pvalues: ArrayLike, alpha: float = 0.05) -> Any:
    """1 where a p-value is at most alpha, else 0; NaN (not tested) is not a rejection."""
    return (np.asarray(pvalues, dtype=float) <= alpha).astype(float)
