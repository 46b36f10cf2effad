"""Enough of a table to tell whether two runs looked at the same rows."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

import narwhals as nw

from isonomy.frames.checks import flag
from isonomy.frames.source import Source
from isonomy.frames.sums import COUNT, Pass, missing


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """The number of rows, and a digest of the schema and of a sum for each column. ``columns`` were looked at."""

    rows: int
    digest: str
    columns: int


def fingerprint(source: Source) -> Fingerprint:
    """One pass: for each column its missing values and its total (for text, of lengths), to nine digits."""
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
    cells = source.sums(Pass({}, values))
    rows = round(float(cells[COUNT].sum())) if len(cells) else 0
    contents = {
        "schema": {name: str(dtype) for name, dtype in source.schema.items()},
        "rows": rows,
        "sums": {name: f"{float(cells[name].sum()):.9g}" for name in values},
    }
    digest = hashlib.sha256(json.dumps(contents, sort_keys=True).encode()).hexdigest()
    return Fingerprint(rows, digest, len(values))
