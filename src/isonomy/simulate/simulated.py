"""Data that can be drawn again: a design, its truth, and its rows in memory or in a file.

Rows come in blocks of `BLOCK` units (rows, or users with all their rows). Each block has its own generator, made from
the seed, the name of the design and the number of the block. The data therefore depend only on the seed and the number
of rows, never on how much is held in memory at once.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isonomy.errors import UnknownOption, UsageError
from isonomy.numerics.arrays import FloatArray, IntArray
from isonomy.options import Number, Whole, check, shown

if TYPE_CHECKING:
    import polars as pl

Array = NDArray[Any]
Truth = dict[str, Any]  # numbers and labels in mappings of any depth
Seed = Annotated[int, Number(least=0, whole=True)]

BLOCK = 65_536  # units per block; never an argument, because the data of a seed depend on it

Each = float | Mapping[str, float] | Sequence[float]  # one number for all groups, one per group in order, or by name
Groups = int | Sequence[str] | Mapping[str, float]  # how many groups, their names, or their names and shares
MOST_GROUPS = 100_000
Block = dict[str, Array]
Draw = Callable[[np.random.Generator, int, int], Block]


@dataclass(frozen=True, eq=False, kw_only=True)
class Simulated:
    """A simulated table and what is true of it.

    ``truth`` holds plain numbers in nested mappings, ``columns`` numpy arrays by name, ``frame()`` a polars frame.
    Everything is computed when it is first used.
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
        """Blocks that together have the rows of the table; only the last user of the table may be cut short."""
        number = start = 0
        missing = self.rows
        while missing > 0:
            # About as many users as are still needed, so that few rows are discarded.
            units = min(BLOCK, missing if self.rows_per_unit == 1 else int(1.02 * missing / self.rows_per_unit) + 16)
            block = self.draw(self._rng(number), start, units)
            yield {name: column[:missing] for name, column in block.items()}
            number, start, missing = number + 1, start + units, missing - len(next(iter(block.values())))


# ---- the arguments of designs: shares, probabilities, one value per group


def probability(argument: str, value: ArrayLike) -> FloatArray:
    """The value as an array; raises unless every number lies in [0, 1]."""
    values = np.asarray(value, dtype=np.float64)
    if not np.all((values >= 0) & (values <= 1)):
        raise UsageError(f"{argument}: {values.tolist()!r} is not allowed; probabilities lie between 0 and 1.")
    return values


def shares(argument: str, value: Mapping[str, float]) -> tuple[tuple[str, ...], FloatArray]:
    """Names and shares of groups; the shares must be probabilities that sum to one."""
    values = probability(argument, list(value.values()))
    if not value or abs(values.sum() - 1) > 1e-9:
        raise UsageError(f"{argument}: the shares sum to {values.sum():g}; they must sum to 1.")
    return tuple(value), values / values.sum()


def group_shares(groups: Groups) -> tuple[tuple[str, ...], FloatArray]:
    """Groups given as a number (named a, b, ... or g000, g001, ...), as names of equal share, or with shares."""
    if isinstance(groups, Mapping):
        return shares("groups", groups)
    if isinstance(groups, int):
        if not 1 <= groups <= MOST_GROUPS:
            raise UsageError(f"groups: {shown(groups)} is not allowed; give 1 to {MOST_GROUPS:,}.")
        names = tuple(chr(97 + j) for j in range(groups)) if groups <= 26 else tuple(f"g{j:03d}" for j in range(groups))
    else:
        listed = isinstance(groups, Sequence) and not isinstance(groups, (str, bytes))
        names = tuple(groups) if listed and all(isinstance(name, str) for name in groups) else ()
    if not names or len(set(names)) != len(names):
        raise UsageError(f"groups: {groups!r} is not allowed; give distinct names, at least one.")
    return names, np.full(len(names), 1 / len(names))


def per_group(argument: str, value: Each, names: Sequence[str], default: float = 0.0) -> FloatArray:
    """One value per group: a number for all, a sequence in order, or a mapping with ``default`` for the rest."""
    if isinstance(value, Mapping):
        unknown = [name for name in value if name not in names]
        if unknown:
            raise UnknownOption(argument, unknown[0], names)
        value = [value.get(name, default) for name in names]
    try:
        values = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise UsageError(f"{argument}: {shown(value)} is not allowed; give numbers.") from None
    if values.ndim > 1 or (values.ndim == 1 and len(values) != len(names)):
        raise UsageError(f"{argument}: give one number, or {len(names)} of them (one per group).")
    if not np.all(np.isfinite(values)):
        raise UsageError(f"{argument}: {values.tolist()!r} is not allowed; numbers must be finite.")
    return np.broadcast_to(values, len(names)).copy()


def members(rng: np.random.Generator, units: int, share: FloatArray) -> IntArray:
    return np.minimum(np.searchsorted(np.cumsum(share), rng.random(units), side="right"), len(share) - 1)


def plain(values: Mapping[str, object]) -> dict[str, object]:
    """The mapping with numpy scalars and arrays turned into Python numbers and lists, at every depth."""
    return {
        key: plain(value)
        if isinstance(value, Mapping)
        else (value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value)
        for key, value in values.items()
    }
