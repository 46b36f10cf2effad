"""Columns of X for scikit-learn estimators: numbers, groups and users from any eager frame or array.

Groups and users travel as columns of X, named in the constructor, and not as fit metadata: so they survive pipelines,
grid searches and cross-validation. Scikit-learn is loaded only when X is validated.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import narwhals as nw
import numpy as np

from isonomy.errors import MissingValues, UnknownColumn, UsageError
from isonomy.numerics.arrays import AnyArray, FloatArray, IntArray

Column = str | int  # the name of a column of X, or its number
Eager = nw.DataFrame[Any]
Series = nw.Series[Any]
Values = AnyArray | Series
Levels = tuple[IntArray, list[Hashable]]
Key = tuple[Hashable, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """The columns of X that an estimator uses, one entry per row."""

    numbers: FloatArray  # (rows, columns)
    group: IntArray  # number of each row's group
    keys: tuple[Key, ...]  # the values that each group stands for
    user: IntArray | None  # number of each row's user


def as_tuple(columns: Column | Sequence[Column]) -> tuple[Column, ...]:
    """One column or several, as a tuple."""
    return (columns,) if isinstance(columns, (str, int, np.integer)) else tuple(columns)


def read_columns(
    estimator: object,
    X: object,
    *,
    numbers: Sequence[Column],
    groups: Sequence[Column] = (),
    user: Column | None = None,
    reset: bool,
    argument: str = "score_column",
) -> Columns:
    """Take the named columns of X and check them.

    Only ``numbers`` have to be numbers; ``argument`` is what they are called in a message. ``reset``: whether this is
    a fit, which remembers the columns of X on the ``estimator``, or a prediction, which compares them.
    """
    from sklearn.utils.validation import check_array, validate_data

    frame = eager(X)
    if frame is None:
        mixed = bool(groups) or user is not None
        X = validate_data(estimator, X, reset=reset, dtype=None if mixed else "numeric", ensure_all_finite=not mixed)
    else:
        validate_data(estimator, X, reset=reset, skip_check_array=True)
    table = np.asarray(X) if frame is None else frame
    taken = np.column_stack([_plain(column_of(table, name, argument)) for name in numbers])
    checked = check_array(taken, dtype=np.float64, input_name="X")
    parts = [levels(column_of(table, name, "group_columns"), "group_columns") for name in groups]
    codes, keys = _crossed(parts, len(checked))
    users = None if user is None else user_codes(column_of(table, user, "user_column"), "user_column")
    return Columns(checked, codes, keys, users)


def eager(X: object) -> Eager | None:
    """X as a narwhals frame, or None if it is an array or a list."""
    frame: object = nw.from_native(X, pass_through=True)
    if isinstance(frame, nw.LazyFrame):  # its rows have no order, so they cannot be matched with y
        kind = f"{type(X).__module__.partition('.')[0]} {type(X).__name__}"
        raise UsageError(f"X: a {kind} is read row by row here; collect it into a frame (or an array) first.")
    return frame if isinstance(frame, nw.DataFrame) else None


def names_of(X: object) -> list[str] | None:
    """The names of the columns of a frame; None for an array or a list."""
    frame = eager(X)
    return None if frame is None else frame.columns


def outcomes(y: AnyArray) -> FloatArray:
    """Outcomes as numbers."""
    try:
        return y.astype(np.float64)
    except (TypeError, ValueError):
        raise UsageError(
            f"y: holds {y.dtype} such as {y.flat[0]!r}; recode the outcome as 0 and 1, or numbers."
        ) from None


def votes(columns: Columns, sample_weight: object) -> FloatArray:
    """The vote of each row: its weight, which sums to one for each user if there are users."""
    from sklearn.utils.validation import _check_sample_weight

    given: FloatArray = _check_sample_weight(sample_weight, columns.numbers, dtype=np.float64, ensure_non_negative=True)
    if columns.user is None:
        return given
    each = np.bincount(columns.user, weights=given)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(given > 0, given / each[columns.user], 0.0)


def column_of(X: Eager | AnyArray, name: Column, argument: str) -> Values:
    """A column of a frame or of an array."""
    frame = isinstance(X, nw.DataFrame)
    width = X.shape[1]
    if not isinstance(name, str) and not -width <= name < width:
        size = "" if frame else f" (n_features = {width})"
        raise UsageError(f"{argument}: no column number {name}; X has {width} columns{size}.")
    if isinstance(X, nw.DataFrame):
        chosen = name if isinstance(name, str) else X.columns[name]
        if chosen not in X.columns:
            raise UnknownColumn(argument, chosen, X.columns)
        return X.get_column(chosen)
    if isinstance(name, str):
        raise UsageError(f"{argument}: {name!r} is a name, but X is an array; give a column number, or a frame.")
    column: AnyArray = X[:, name]
    return column


def series_of(values: object) -> Values:
    """A series of any frame library, an array or a list, as a series or an array."""
    series: object = nw.from_native(values, series_only=True, pass_through=True)
    if isinstance(series, nw.Series):
        return series
    # A list stays what it is: as one array 1 and "1" would be the same, and large whole numbers not all different.
    return np.asarray(values, dtype=object if isinstance(values, (list, tuple)) else None)


def levels(values: Values, argument: str) -> Levels:
    """A number for each row, and the value it stands for (None: missing).

    Values stay what they are in Python, whatever else is in the column: a row of one group has the same key alone, in
    any batch, and in any frame library (1, 1.0 and numpy's 1 are equal keys).
    """
    numbers = values.to_numpy() if isinstance(values, nw.Series) and not values.is_null().any() else values
    if isinstance(numbers, np.ndarray) and numbers.dtype.kind in "biuf":
        distinct, codes = np.unique(numbers, return_inverse=True)
        return codes.astype(np.intp), [None if value != value else value for value in distinct.tolist()]
    if isinstance(values, np.ndarray) and values.dtype.kind == "M":
        values = values.astype("datetime64[us]")  # as nanoseconds they would turn into whole numbers
    rows = values.to_list() if isinstance(values, nw.Series) else values.tolist()
    known: dict[Hashable, int] = {}
    try:
        each = [known.setdefault(_key(value), len(known)) for value in rows]
    except TypeError:
        raise UsageError(
            f"{argument}: holds values that cannot be told apart, such as lists; give text or numbers."
        ) from None
    order = _sorted(list(known))
    rank = np.empty(len(known), dtype=np.intp)
    rank[[known[key] for key in order]] = np.arange(len(known))
    return rank[np.array(each, dtype=np.intp)], order


def user_codes(values: Values, argument: str) -> IntArray:
    """A number for each row's user; rows without one are refused, for they are not all the same person."""
    if len(values.shape) != 1:
        raise UsageError(f"{argument}: {len(values.shape)} dimensions are not allowed; give one user per row.")
    codes, keys = levels(values, argument)
    if None in keys:
        gone = int(np.count_nonzero(codes == keys.index(None)))
        raise MissingValues(f"{argument}: {gone:,} rows have no value. Fix them, or leave those rows out.")
    return codes


def _plain(values: Values) -> AnyArray:
    return values.to_numpy() if isinstance(values, nw.Series) else values


def _key(value: Hashable) -> Hashable:
    """None for every kind of missing value."""
    try:
        return None if value is None or value != value else value  # NaN and NaT differ from themselves
    except (TypeError, ValueError):  # pandas.NA has no truth value
        return None


def _sorted(keys: list[Hashable]) -> list[Hashable]:
    """Values in order, numbers before text and missing last; types that have no order among each other by name."""

    def kind(key: Hashable) -> str:
        return "" if isinstance(key, Real) else type(key).__name__

    try:
        return sorted(keys, key=lambda key: (key is None, kind(key), 0 if key is None else key))
    except TypeError:
        return sorted(keys, key=lambda key: (key is None, kind(key), repr(key)))


def _crossed(parts: list[Levels], size: int) -> tuple[IntArray, tuple[Key, ...]]:
    """The combinations of levels that occur, and which of them each row has."""
    if not parts:
        return np.zeros(size, dtype=np.intp), ((),)
    shape = [len(values) for _, values in parts]
    codes = np.ravel_multi_index([own for own, _ in parts], shape)
    distinct, group = np.unique(codes, return_inverse=True)
    places = np.unravel_index(distinct, shape)
    columns = [[values[i] for i in place] for (_, values), place in zip(parts, places, strict=True)]
    return group, tuple(zip(*columns, strict=True))
