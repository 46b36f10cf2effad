"""Profiles of a table's columns, from which their meaning can be guessed, and a fingerprint of a table.

A fingerprint shows whether two runs read the same rows. Neither contains a row.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Literal

import narwhals as nw

from isonomy.errors import WrongType
from isonomy.frames.expressions import flag, missing
from isonomy.frames.source import Source
from isonomy.frames.sums import COUNT, collect

if TYPE_CHECKING:
    import polars as pl

Kind = Literal["binary", "number", "text", "other"]

ROWS = 200_000  # rows read
FEW = 20  # values listed at most
ROUNDED = 0.005  # the error of a number with two decimals


@dataclass(frozen=True, slots=True)
class Profile:
    """The first rows of one column: its kind, and its values if they are few."""

    name: str
    kind: Kind
    levels: int  # distinct values
    missing: bool
    values: tuple[str | float, ...] = ()  # sorted, if there are at most `FEW`
    low: float = 0.0
    high: float = 0.0

    @property
    def unit(self) -> bool:
        return self.kind in ("binary", "number") and self.low >= 0 and self.high <= 1


def profiles(source: Source, rows: int = ROWS) -> tuple[Profile, ...]:
    table = source.head(rows)
    return tuple(profile(column) for column in table) if len(table) else ()


def distinct(source: Source, column: str, other: str, value: str | float, rows: int = ROWS) -> tuple[int, int]:
    import polars as pl
    from polars import selectors

    table = source.head(rows).select(column, other).with_columns(selectors.float().fill_nan(None)).drop_nulls()
    equal = pl.col(other).cast(pl.String if isinstance(value, str) else pl.Float64) == value
    return table.filter(equal)[column].n_unique(), table.filter(~equal)[column].n_unique()


def sum_to_one(source: Source, columns: Sequence[str], rows: int = ROWS) -> bool:
    """Whether the columns sum to 1 in all of the first rows without a missing value, up to rounding to two digits."""
    import polars as pl

    table = source.head(rows).select(pl.col(columns).cast(pl.Float64).fill_nan(None)).drop_nulls()
    return bool(len(table) and ((table.sum_horizontal() - 1.0).abs() <= ROUNDED * len(columns)).all())


def profile(column: pl.Series) -> Profile:
    import polars as pl

    dtype = column.dtype
    absent = bool(column.null_count())
    if dtype == pl.Boolean:
        return Profile(column.name, "binary", column.drop_nulls().n_unique(), absent, (0.0, 1.0), 0.0, 1.0)
    if dtype.is_numeric():
        numbers = column.cast(pl.Float64)
        finite = numbers.filter(numbers.is_finite()).unique().sort()
        absent |= bool((~numbers.is_finite()).fill_null(True).any())
        if not len(finite):
            return Profile(column.name, "other", 0, absent)
        values = tuple(finite.to_list()) if len(finite) <= FEW else ()
        kind: Kind = "binary" if values == (0.0, 1.0) else "number"
        return Profile(column.name, kind, len(finite), absent, values, float(finite[0]), float(finite[-1]))
    if dtype in (pl.String, pl.Categorical) or isinstance(dtype, pl.Enum):
        texts = column.drop_nulls().cast(pl.String).unique().sort()
        return Profile(column.name, "text", len(texts), absent, tuple(texts.to_list()) if len(texts) <= FEW else ())
    return Profile(column.name, "other", 0, absent)


def date_range(source: Source, name: str) -> str:
    """The first and the last date of a column, in words; the message about any other column quotes no value."""
    column = nw.col(name)
    ends = collect(source.frame.select(column.min().alias("first"), column.max().alias("last"))).row(0)
    try:
        first, last = (date.fromisoformat(str(end)[:10]) for end in ends)
    except ValueError:
        raise WrongType(f"data.date: column {name!r} does not hold dates, such as 2026-11-10.") from None
    return str(first) if first == last else f"{first} to {last}"


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """The number of rows, and a digest of the schema and of the sums of ``columns`` columns."""

    rows: int
    digest: str
    columns: int


def fingerprint(source: Source) -> Fingerprint:
    """One pass: the missing values and the total of each column (of lengths, for text), to nine digits."""
    values: dict[str, nw.Expr] = {}
    for i, (name, dtype) in enumerate(source.schema.items()):
        column = nw.col(name)
        absent = missing(column, dtype)
        values[f"missing {i}"] = flag(absent)
        if dtype.is_numeric() or dtype == nw.Boolean:
            number = column.cast(nw.Float64)
        elif dtype == nw.String:
            number = column.str.len_chars().cast(nw.Float64)
        else:
            continue
        values[f"total {i}"] = nw.when(~absent).then(number).otherwise(nw.lit(0.0))
    cells = source.sums({}, values)
    rows = round(float(cells[COUNT].sum())) if len(cells) else 0
    contents = {
        "schema": {name: str(dtype) for name, dtype in source.schema.items()},
        "rows": rows,
        "sums": {name: f"{float(cells[name].sum()):.9g}" for name in values},
    }
    digest = hashlib.sha256(json.dumps(contents, sort_keys=True).encode()).hexdigest()
    return Fingerprint(rows, digest, len(values))
