"""Lines of a validity page: measured on simulated tables, printed with their Monte Carlo margins, written in place.

A page of docs/validity is Markdown, and its prose is written there by hand. A `Section` is one of its tables, a `Line`
one row of that table:

    | the design's own columns | asked | measured, one column or several | tables |

A `Run` is one simulation and fills one line, or several that share its tables. It gives a number for each of a block of
tables (most often 1 where a test rejected or an interval held the truth, else 0); the line shows the mean over tables,
or what ``summary`` makes of them. `Asked` is what the number should be: within three standard errors of a nominal
value, or on one side of it. A line that misses says so.

`main` runs a page's lines and replaces those rows, and only those, so that no figure is lost. Block b of a run has the
generator with the seed [name of the run, b]: neither the number of processes nor the other lines change a figure.
"""

from __future__ import annotations

import argparse
import itertools
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

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "validity"
ERRORS = 3.0  # standard errors a measured number may lie from what is asked
BLOCK = 25  # tables that share a generator: part of what a seed means, so never an option
PROCESSES = 2

Draw = Callable[[np.random.Generator, int], ArrayLike]
Number = float | str  # a measured number, or one that is shown as it is


@dataclass(frozen=True)
class Asked:
    """What a measured number should be, up to chance.

    ``side``: "both" (near the nominal value), "most" or "least". ``error`` gives its standard error from the number of
    tables; None is the binomial one at the nominal value, and ``exact`` says that there is none. ``slack`` is allowed
    for besides chance, ``label`` is shown before the value.
    """

    nominal: float
    side: str = "both"
    slack: float = 0.0
    error: Callable[[int], float] | None = None
    exact: bool = False
    label: str = ""

    def margin(self, tables: int) -> float:
        """How far from the nominal value is still chance."""
        if self.exact or not tables:
            return self.slack
        error = np.sqrt(self.nominal * (1 - self.nominal) / tables) if self.error is None else self.error(tables)
        return float(self.slack + ERRORS * error)

    def holds(self, value: float, tables: int) -> bool:
        """Whether a measured number is as asked."""
        margin = self.margin(tables)
        above, below = value > self.nominal + margin, value < self.nominal - margin
        return not ((above and self.side != "least") or (below and self.side != "most"))

    def text(self, tables: int) -> str:
        """Such as "0.95 ± 0.015", "at most 0.071"."""
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
    """Within three standard errors of a published rate that was simulated on so many tables itself."""
    variance = max(value * (1 - value), 0.002)  # a published 0 or 1 is not without error
    return Asked(value, error=lambda own: float(np.sqrt(variance / own + variance / tables)), label=label)


@dataclass(frozen=True)
class Line:
    """One row of a page: the cells that name it, and what is asked of each measured number (None: nothing)."""

    design: tuple[str, ...]
    asked: tuple[Asked | None, ...] = ()

    @property
    def name(self) -> str:
        """The cells in one string."""
        return ", ".join(self.design)

    def cells(self, values: Sequence[Number], tables: int, digits: int) -> tuple[str, ...]:
        """The whole row: the design, what is asked, what was measured, how many tables."""
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

    ``draw(rng, tables)`` has one row per table, with the measured numbers of all lines in order. ``summary`` turns all
    of them into the numbers to show: their means unless something else is given. No ``tables``: nothing is drawn, and
    the numbers are exact.
    """

    lines: tuple[Line, ...]
    draw: Draw
    tables: int
    summary: Callable[[FloatArray], Sequence[Number]] | None = None

    @property
    def name(self) -> str:
        """The name of the first line, from which the seeds follow."""
        return self.lines[0].name

    def measure(self, tables: int | None = None, processes: int = 1) -> list[tuple[Number, ...]]:
        """The numbers of each line, on so many tables (as many as the page asks for, unless given)."""
        sizes = _blocks((self.tables if tables is None else tables) if self.tables else 1)
        blocks = Parallel(n_jobs=processes)(delayed(_block)(self.draw, self.name, b, n) for b, n in enumerate(sizes))
        outcomes = np.concatenate(blocks)
        values: Sequence[Number]
        values = np.nanmean(outcomes, axis=0).tolist() if self.summary is None else self.summary(outcomes)
        ends = np.linspace(0, len(values), len(self.lines) + 1).astype(int)
        return [tuple(values[i:j]) for i, j in pairwise(ends)]

    def missed(self, tables: int) -> list[str]:
        """What is not as asked on so many tables; for quick checks."""
        rows = zip(self.lines, self.measure(tables), strict=True)
        cells = [" | ".join(line.cells(values, tables, 4)) for line, values in rows]
        return [row for row in cells if "(missed)" in row]


def each(function: Callable[[np.random.Generator], ArrayLike]) -> Draw:
    """A draw that asks table after table; ``function(rng)`` draws one and returns its numbers."""

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
        """The first simulation whose name holds ``text``."""
        return next(run for run in self.runs if text in run.name)


@dataclass(frozen=True)
class Page:
    """A page of docs/validity."""

    name: str
    sections: tuple[Section, ...]

    @property
    def path(self) -> Path:
        """Where it stands."""
        return FOLDER / f"{self.name}.md"

    def find(self, title: str) -> Section:
        """The first section whose heading holds ``title``."""
        return next(section for section in self.sections if title in section.title)

    def chosen(self, words: Sequence[str]) -> Iterator[tuple[Section, Run]]:
        """The simulations whose heading or line holds one of the words; all of them if there are none."""
        for section in self.sections:
            for run in section.runs:
                names = [section.title, *(line.name for line in run.lines)]
                if not words or any(word in name for word in words for name in names):
                    yield section, run


def replace(text: str, section: Section, row: Sequence[str]) -> str:
    """The page with one row of a section's table replaced, or added where it is new; nothing else changes.

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
    """The page with every line in the order of the study; a line that has no row yet is there as not run."""
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


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def main(page: Page, arguments: Sequence[str] | None = None) -> None:
    """The command line of a study."""
    parser = argparse.ArgumentParser(description=f"Simulate the lines of {page.path.name}, and write them there.")
    parser.add_argument("--tables", type=int, help="simulated tables per line; fewer than the page has are only shown")
    parser.add_argument("--only", action="append", default=[], metavar="TEXT", help="lines whose name holds TEXT")
    parser.add_argument("--processes", type=int, choices=range(1, PROCESSES + 1), default=PROCESSES)
    parser.add_argument("--arrange", action="store_true", help="only put every line on the page, in order")
    parser.add_argument("--list", action="store_true", help="name the lines, and run nothing")
    options = parser.parse_args(arguments)
    if options.arrange:
        page.path.write_text(arranged(page.path.read_text() if page.path.exists() else f"# {page.name}\n", page))
        return
    missed = 0
    for section, run in page.chosen(options.only):
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
        print(f"Lines that missed what was asked of them: {missed}.")


def rejected(pvalues: ArrayLike, alpha: float = 0.05) -> Any:
    """1 where a p-value is at most alpha, else 0; NaN, nothing tested, is no rejection."""
    return (np.asarray(pvalues, dtype=float) <= alpha).astype(float)
