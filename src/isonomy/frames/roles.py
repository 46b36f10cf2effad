"""Roles that are not columns of the table: arrays and conditions, which become columns before a test reads the table.

With ``y_true``, ``y_pred`` and ``sensitive_features`` as arrays no table is needed. If a column has "yes" and "no"
instead of 1 and 0, a condition says which counts as 1: ``iso.col("deny") == "no"``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np

from isonomy.errors import LengthMismatch, UsageError
from isonomy.frames.adapt import adapt, as_column
from isonomy.frames.source import Source
from isonomy.frames.sums import collect

if TYPE_CHECKING:
    import polars as pl

# The name of an array under these arguments, if it has none.
UNNAMED = {"groups": "group", "given": "stratum"}


def with_arrays(
    data: object, arguments: Mapping[str, Any], forms: Mapping[str, str | None]
) -> tuple[object, dict[str, Any]]:
    """The table with the arrays among the ``arguments`` as columns, and the arguments with the columns' names.

    Parameters
    ----------
    data : object
        A table, or None if there are only arrays.
    arguments : mapping
        The keywords of a call.
    forms : mapping
        The form of each keyword: ``"column"``, ``"names"``, ``"groups"``, ``"given"`` or another.
    """
    columns: dict[str, pl.Series] = {}
    named = dict(arguments)
    for argument, value in arguments.items():
        form = forms.get(argument)
        if form in ("column", "names", "groups", "given"):
            parts = _arrays(argument, value, alone=data is None or form == "column")
            names = [_add(columns, name, values, argument) for name, values in parts]
            if names:
                named[argument] = names[0] if len(names) == 1 and form != "names" else names
    if not columns:
        if data is None:
            raise UsageError(
                "data: give a table, or an array for each column (outcome=y_true, prediction=y_pred, ...)."
            )
        return data, named
    return _joined(data, columns), named


def _arrays(argument: str, value: object, *, alone: bool) -> list[tuple[str, object]]:
    """The arrays in an argument, with names; an empty list if it names columns of the table."""
    name = UNNAMED.get(argument, argument)
    if isinstance(value, Mapping) and argument in UNNAMED:
        parts = [(str(key), _arrays(argument, part, alone=True)) for key, part in value.items()]
        return [(key, arrays[0][1]) for key, arrays in parts if len(arrays) == 1] if all(a for _, a in parts) else []
    frame: object = nw.from_native(value, pass_through=True, eager_only=True, allow_series=True)
    if isinstance(frame, nw.DataFrame):
        return [(column, frame[column].to_native()) for column in frame.columns]
    if isinstance(frame, nw.Series):
        return [(frame.name if isinstance(frame.name, str) and frame.name else name, value)]
    if not isinstance(value, (np.ndarray, nw.Expr)) and hasattr(value, "__array__") and hasattr(value, "__len__"):
        value = list(value) if isinstance(value, Sequence) else np.asarray(value)  # an extension array of pandas
    if isinstance(value, np.ndarray):
        if value.ndim == 2:
            return [(f"{name}_{i}", column) for i, column in enumerate(value.T)]
        return [(name, value)]
    if alone and isinstance(value, Sequence) and not isinstance(value, (str, bytes)) and _plain(value):
        return [(name, value)]
    return []


def _plain(values: Sequence[object]) -> bool:
    """Whether a list holds values, as opposed to columns, cuts or conditions."""
    return len(values) > 0 and all(v is None or isinstance(v, (bool, int, float, str, np.generic)) for v in values)


def _add(columns: dict[str, pl.Series], name: str, values: object, argument: str) -> str:
    """Add an array under its name, prefixed by its role if another array has the name; returns the name."""
    column = as_column(name, values)
    if name in columns and not columns[name].equals(column):
        name = f"{argument} {name}"
    columns[name] = column.alias(name)
    return name


def _joined(data: object, columns: Mapping[str, pl.Series]) -> pl.DataFrame:
    import polars as pl

    lengths = {name: len(column) for name, column in columns.items()}
    table = pl.DataFrame()
    if data is not None:
        adapted = None if isinstance(data, Source) else adapt(data)
        if adapted is None or adapted.lazy:
            raise UsageError(
                f"{next(iter(columns))}: an array cannot be combined with rows that an engine or a file holds; add "
                "it to them as a column."
            )
        table = collect(adapted.frame)
        lengths = {"data": len(table), **lengths}
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{name}: {n:,}" for name, n in lengths.items())
        raise LengthMismatch(f"data: the arrays differ in length ({shown}); each needs one value per row.")
    return table.with_columns(*columns.values()) if data is not None else pl.DataFrame(list(columns.values()))


# The printed form of conditions on one column, and their wording.
_WORDING = (
    (re.compile(r"col\((.+?)\)\.__eq__\((.+)\)"), "{} is {}"),
    (re.compile(r"col\((.+?)\)\.is_in\(other=\[(.+)\]\)"), "{} is one of {}"),
)


def in_words(condition: object) -> str:
    """A condition in words, for the provenance: 'deny is no'."""
    text = repr(condition)
    for form, words in _WORDING:
        if match := form.fullmatch(text):
            return words.format(*match.groups())
    return text


def with_conditions(
    source: Source, arguments: Mapping[str, Any], forms: Mapping[str, str | None]
) -> tuple[Source, dict[str, Any]]:
    """The table with the conditions among the ``arguments`` as columns, and the arguments with the columns' names."""
    named = dict(arguments)
    conditions = {
        argument: value
        for argument, value in arguments.items()
        if isinstance(value, nw.Expr) and forms.get(argument) == "column"
    }
    for argument, condition in conditions.items():
        source.check_expression(argument, condition)
        named[argument] = argument if argument not in source.schema else source.fresh(f"{argument} ")
        source = source.with_role(named[argument], condition)
    return source, named
