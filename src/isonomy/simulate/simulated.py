"""Rows that can be drawn again: a design, its truth, and its data in memory or in a file.

Rows come in blocks of `BLOCK` units (rows, or users with all their rows), each with its own generator, made from
(seed, name of the design, number of the block). So the data depend on the seed and the number of rows alone, never on
how much is held in memory at once.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import NDArray

from isonomy.options import Number, Whole, check
from isonomy.simulate.arguments import plain

if TYPE_CHECKING:
    import polars as pl

Array = NDArray[Any]
Truth = dict[str, Any]  # numbers and labels in mappings of any depth
Seed = Annotated[int, Number(least=0, whole=True)]

BLOCK = 65_536  # units per block: part of what "same seed, same data" means, so never an argument

Block = dict[str, Array]
Draw = Callable[[np.random.Generator, int, int], Block]


@dataclass(frozen=True, eq=False, kw_only=True)
class Simulated:
    """A simulated table and what is true of it.

    ``truth`` holds plain numbers in nested mappings, ``columns`` numpy arrays by name, ``frame()`` a polars frame.
    Nothing is drawn or integrated before it is asked for.
    """

    name: str
    rows: int
    seed: int
    draw: Draw = field(repr=False)
    facts: Callable[[], Truth] = field(repr=False)
    rows_per_unit: float = field(default=1.0, repr=False)

    def __post_init__(self) -> None:
        check("rows", self.rows, Whole)
        check("seed", self.seed, Seed)

    @cached_property
    def truth(self) -> Truth:
        """What an error-free audit of the population would show."""
        return plain(self.facts())

    @cached_property
    def columns(self) -> dict[str, Array]:
        """The data as numpy arrays by column name."""
        blocks = list(self._blocks())
        return {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}

    def frame(self) -> pl.DataFrame:
        """The data as a polars frame; text columns are String."""
        import polars as pl

        return pl.concat([pl.DataFrame(block) for block in self._blocks()], rechunk=True)

    def write(self, path: str | os.PathLike[str]) -> Path:
        """Write the same rows as ``frame()`` to one parquet file in bounded memory, and return its path.

        The file appears complete or not at all.
        """
        import polars as pl
        from polars.io.plugins import register_io_source

        target = Path(path)
        partial = target.with_name(target.name + ".partial")
        schema = pl.DataFrame(self.draw(self._rng(0), 0, 1)).schema

        def source(
            with_columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, batch_size: int | None
        ) -> Iterator[pl.DataFrame]:
            yield from map(pl.DataFrame, self._blocks())

        try:
            register_io_source(source, schema=schema).sink_parquet(partial, row_group_size=262_144)
            os.replace(partial, target)
        finally:
            partial.unlink(missing_ok=True)
        return target

    def _rng(self, block: int) -> np.random.Generator:
        entropy = [self.seed, zlib.crc32(self.name.encode())]
        return np.random.Generator(np.random.PCG64(np.random.SeedSequence(entropy, spawn_key=(block,))))

    def _blocks(self) -> Iterator[Block]:
        """Blocks whose rows add up to the table's; a design of users cuts short at most the table's last user.

        Blocks ask for about as many users as are still needed, so that few rows are drawn in vain.
        """
        number = start = 0
        missing = self.rows
        while missing > 0:
            units = min(BLOCK, missing if self.rows_per_unit == 1 else int(1.02 * missing / self.rows_per_unit) + 16)
            block = self.draw(self._rng(number), start, units)
            yield {name: column[:missing] for name, column in block.items()}
            number, start, missing = number + 1, start + units, missing - len(next(iter(block.values())))
