"""Rows that can be drawn again: a design, its truth, and its data in memory or in a file.

Rows come in blocks of `BLOCK` units (rows, or users with all their rows), each with a generator of its own
made from
(seed, name of the design, number of the block). So the data depend on the seed and the number of rows alone, never on
how much is held in memory at once.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isonomy.errors import UsageError
from isonomy.numerics.arrays import FloatArray

if TYPE_CHECKING:
    import polars as pl

Array = NDArray[Any]

BLOCK = 65_536  # units per block: part of what "same seed, same data" means, so never an argument


@dataclass(frozen=True, slots=True, eq=False)
class Labels:
    """A text column as integer codes and the names they stand for."""

    codes: Array
    names: tuple[str, ...]

    def text(self) -> Array:
        """The column as a numpy array of strings."""
        return np.array(self.names)[self.codes]


Column = Array | Labels
Block = dict[str, Column]
Draw = Callable[[np.random.Generator, int, int], Block]
Curve = Callable[[ArrayLike, str], FloatArray]


@dataclass(frozen=True, eq=False, kw_only=True)
class Simulated:
    """A simulated table and what is true of it.

    ``truth`` holds plain numbers in nested mappings, ``columns`` numpy arrays by name, ``frame()`` a polars
    frame. Nothing is drawn or integrated before it is asked for. ``curves`` (score designs only) maps a
    group's label to its outcome curve: ``curves["group=a"](scores, "user")``.
    """

    name: str
    description: str
    rows: int
    seed: int
    draw: Draw = field(repr=False)
    facts: Callable[[], dict[str, Any]] = field(repr=False)
    curves: Mapping[str, Curve] = field(default_factory=dict, repr=False)
    rows_per_unit: float = field(default=1.0, repr=False)

    def __post_init__(self) -> None:
        whole("rows", self.rows, 1)
        whole("seed", self.seed, 0)

    @cached_property
    def truth(self) -> dict[str, Any]:
        """What an error-free audit of the population would show."""
        return self.facts()

    @cached_property
    def columns(self) -> dict[str, Array]:
        """The data as numpy arrays by column name."""
        blocks = list(self._blocks(self.rows))
        return {
            name: np.concatenate([_array(block[name]) for block in blocks]) if len(blocks) > 1 else _array(column)
            for name, column in blocks[0].items()
        }

    def frame(self) -> pl.DataFrame:
        """The data as a polars frame; text columns are String."""
        import polars as pl

        return pl.concat([_frame(block) for block in self._blocks(self.rows)], rechunk=True)

    def write(self, path: str | os.PathLike[str], rows: int | None = None, *, chunk_rows: int = 262_144) -> Path:
        """Write ``rows`` rows (default: this table's) to one parquet file in bounded memory, and return its path.

        ``chunk_rows`` is the size of a row group; the data do not depend on it, and equal ``frame()`` of the
        same design, seed and number of rows. The file appears complete or not at all.
        """
        from polars.io.plugins import register_io_source

        rows = self.rows if rows is None else whole("rows", rows, 1)
        whole("chunk_rows", chunk_rows, 1)
        target = Path(path)
        partial = target.with_name(target.name + ".partial")
        schema = _frame(self.draw(self._rng(0), 0, 1)).schema

        def source(
            with_columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, batch_size: int | None
        ) -> Iterator[pl.DataFrame]:
            yield from map(_frame, self._blocks(rows))

        try:
            register_io_source(source, schema=schema).sink_parquet(partial, row_group_size=chunk_rows)
            os.replace(partial, target)
        finally:
            partial.unlink(missing_ok=True)
        return target

    def _rng(self, block: int) -> np.random.Generator:
        entropy = [self.seed, zlib.crc32(self.name.encode())]
        return np.random.Generator(np.random.PCG64(np.random.SeedSequence(entropy, spawn_key=(block,))))

    def _blocks(self, rows: int) -> Iterator[Block]:
        """Blocks whose rows add up to ``rows``; a design of users cuts short at most the table's last user.

        Blocks ask for about as many users as are still needed, so that few rows are drawn in vain.
        """
        number = start = made = 0
        while made < rows:
            units = min(BLOCK, rows - made)
            if self.rows_per_unit > 1:
                units = min(BLOCK, int(1.02 * (rows - made) / self.rows_per_unit) + 16)
            block = self.draw(self._rng(number), start, units)
            size = _length(next(iter(block.values())))
            if size > rows - made:
                block = {name: _head(column, rows - made) for name, column in block.items()}
            yield block
            number, start, made = number + 1, start + units, made + size


def whole(argument: str, seen: object, low: int) -> int:
    """``seen`` as an int if it is a whole number of at least ``low``, otherwise `UsageError`."""
    if isinstance(seen, bool) or not isinstance(seen, (int, np.integer)) or seen < low:
        raise UsageError(f"{argument}: {seen!r} is not allowed; give a whole number of at least {low}.")
    return int(seen)


def _length(column: Column) -> int:
    return len(column.codes if isinstance(column, Labels) else column)


def _head(column: Column, rows: int) -> Column:
    return Labels(column.codes[:rows], column.names) if isinstance(column, Labels) else column[:rows]


def _array(column: Column) -> Array:
    return column.text() if isinstance(column, Labels) else column


def _frame(block: Block) -> pl.DataFrame:
    import polars as pl

    return pl.DataFrame(
        {
            name: pl.Series(column.names).gather(pl.Series(column.codes.astype(np.uint32)))
            if isinstance(column, Labels)
            else pl.Series(column)
            for name, column in block.items()
        }
    )
