"""Columns of X for scikit-learn estimators: numbers, groups and users from any eager frame or array.

Groups and users are columns of X, named in the constructor, and not fit metadata: so they survive pipelines, grid
searches and cross-validation. Scikit-learn is imported only when X is validated.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, Self

import narwhals as nw
import numpy as np

from isonomy import errors
from isonomy.frames.adapt import as_polars, refuse_instants, refuse_levels, refuse_name
from isonomy.frames.expressions import LARGEST
from isonomy.frames.source import refuse_nested
from isonomy.numerics.arrays import AnyArray, BoolArray, FloatArray, IntArray
from isonomy.options import check_contents, shown

Column = str | int  # the name of a column of X, or its number
Eager = nw.DataFrame[Any]
Series = nw.Series[Any]
Values = AnyArray | Series
Levels = tuple[IntArray, list[Hashable]]
Key = tuple[Hashable, ...]
_LARGE = (nw.Int128, nw.UInt128, nw.Decimal)  # numbers that numpy arrays cannot hold exactly


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    numbers: FloatArray  # (rows, columns)
    group: IntArray  # the group of each row
    keys: tuple[Key, ...]  # the values of each group
    user: IntArray | None  # the user of each row


class Renamed:
    """A mixin for estimators that refuses parameters of earlier versions, and names their replacements."""

    moved: ClassVar[Mapping[str, str]]

    def __new__(cls, *_: object, **parameters: object) -> Self:
        for name in parameters:
            if name in cls.moved:
                raise errors.UsageError(f"{name}: it has moved; write {cls.moved[name]}.")
        return super().__new__(cls)


def as_tuple(columns: Column | Sequence[Column]) -> tuple[Column, ...]:
    if isinstance(columns, (str, int, np.integer)):
        return (columns,)
    if not isinstance(columns, (Sequence, np.ndarray)) or not all(
        isinstance(c, (str, int, np.integer)) for c in columns
    ):
        raise errors.UsageError(
            f"groups, scores: {shown(columns)} is not allowed; give names or numbers of columns of X."
        )
    return tuple(columns)


def read_columns(
    estimator: object,
    X: object,
    *,
    numbers: Sequence[Column],
    groups: Sequence[Column] = (),
    user: Column | None = None,
    reset: bool,
) -> Columns:
    """Only ``numbers``, the scores if any, must be numeric. ``reset``: whether this is a fit, which stores the columns
    of X on the estimator, or a prediction (see `known_columns`).
    """
    from sklearn.utils.validation import check_array, validate_data

    frame, argument = eager(X), "score_column"
    refuse_empty(frame)
    if frame is None:
        mixed = bool(groups) or user is not None or not numbers
        with about("X"):
            kind = None if mixed else "numeric"
            X = validate_data(estimator, X, reset=reset, dtype=kind, ensure_all_finite=not mixed)
    elif reset:
        validate_data(estimator, X, skip_check_array=True)
    table = np.asarray(X) if frame is None else frame
    if not reset:
        numbers, groups = known_columns(estimator, X, numbers), known_columns(estimator, X, groups)
    checked = np.empty((len(table), 0))
    if numbers:
        taken = np.column_stack([_numbers(column_of(table, name, argument), argument) for name in numbers])
        with about("X", ValueError if frame is None else (TypeError, ValueError)):
            checked = check_array(taken, dtype=np.float64, input_name="X")
    if np.abs(checked).max(initial=0.0) > LARGEST:
        raise errors.UsageError(
            f"{argument}: holds numbers beyond {LARGEST:g}, which cannot be computed with; rescale them."
        )
    parts = [levels(_grouping(column_of(table, name, "groups")), "groups") for name in groups]
    codes, keys = crossed_levels(parts, len(checked))
    users = None if user is None else user_codes(column_of(table, user, "user"), "user")
    return Columns(checked, codes, keys, users)


@contextmanager
def about(argument: str, refused: type[Exception] | tuple[type[Exception], ...] = ValueError) -> Iterator[None]:
    """Turn scikit-learn's refusals into errors about the argument."""
    try:
        yield
    except errors.IsonomyError:
        raise
    except refused as error:
        raise errors.UsageError(f"{argument}: {error}") from error


def refuse_empty(frame: Eager | None) -> None:
    if frame is not None and not len(frame):
        raise errors.EmptyFrame("X: the table has no rows.")


def known_columns(estimator: object, X: object, columns: Sequence[Column]) -> tuple[Column, ...]:
    """The columns of new rows that an estimator reads; X may have them in another order, and others besides.

    Columns of a frame are found by name; those chosen by number, by the name that number had in the fit. Columns of an
    array have no names, so new rows must have as many columns as in the fit.
    """
    from sklearn.utils.validation import validate_data

    names = getattr(estimator, "feature_names_in_", None)
    numbered = any(not isinstance(column, str) for column in columns)
    if eager(X) is None or (numbered and names is None):
        with about("X", (TypeError, ValueError)):
            validate_data(estimator, X, reset=False, skip_check_array=True)
        return tuple(columns)
    return tuple(column if isinstance(column, str) or names is None else str(names[column]) for column in columns)


def eager(X: object) -> Eager | None:
    """X as a narwhals frame, or None if it is an array or a list."""
    check_contents("X", X)
    # A sparse matrix may be a mapping too; scikit-learn refuses it.
    if X is None or (isinstance(X, (str, bytes, Mapping)) and not hasattr(X, "tocsr")):
        raise errors.UsageError(f"X: a {type(X).__name__}; give a frame or an array with one row per person.")
    try:
        frame: object = nw.from_native(X, pass_through=True)
    except nw.exceptions.DuplicateError:
        raise errors.DuplicateColumns("X: more than one column has the same name; rename or drop one.") from None
    if isinstance(frame, nw.LazyFrame):  # without an order of rows they cannot be matched with y
        kind = f"{type(X).__module__.partition('.')[0]} {type(X).__name__}"
        raise errors.UsageError(f"X: a {kind} is read row by row here; collect it into a frame (or an array) first.")
    return frame if isinstance(frame, nw.DataFrame) else None


def target(y: object) -> object:
    """The target; a series, or the columns of a frame, as floats."""
    check_contents("y", y)
    values: object = nw.from_native(y, allow_series=True, pass_through=True)
    if isinstance(values, nw.Series):
        return outcomes(_numbers(values, "y") if values.dtype in _LARGE else values.to_numpy())
    if isinstance(values, nw.DataFrame):
        return np.column_stack([np.asarray(target(values.get_column(name).to_native())) for name in values.columns])
    return y


def outcomes(y: AnyArray) -> FloatArray:
    values, numbers = y.ravel(), None
    text = [value for value in values.tolist() if isinstance(value, (str, bytes))] if y.dtype.kind == "O" else []
    with suppress(TypeError, ValueError):
        numbers = None if text or y.dtype.kind in "MmUS" else y.astype(np.float64)  # dates would be nanoseconds
    if numbers is None:
        kinds = {"O": "objects", "U": "text", "S": "bytes", "M": "dates", "m": "durations"}
        kind, example = ("text", text[0]) if text else (kinds.get(y.dtype.kind, "values"), values[:1].tolist()[0])
        raise errors.UsageError(f"y: holds {kind} such as {shown(example)}; recode the outcome as 0 and 1, or numbers.")
    return numbers


@dataclass(frozen=True, slots=True, eq=False)
class Votes:
    """The vote of each row, and its vote without weights: rows with unequal weights are worth fewer rows."""

    weighted: FloatArray
    equal: FloatArray

    def among(self, rows: IntArray | BoolArray) -> FloatArray:
        """The votes of some rows, which sum to their effective number of users (Kish)."""
        votes, equal = self.weighted[rows], self.equal[rows]
        largest = float(votes.max(initial=0.0))
        if self.weighted is self.equal or largest == 0:
            return votes
        votes = votes / largest  # squares of large weights would overflow
        return votes * float(votes.sum() / (votes**2 / equal).sum())


def votes(columns: Columns, sample_weight: object) -> Votes:
    """The votes of rows. Without users a weight counts rows, as in scikit-learn: 2 equals two copies of the row.

    With users a weight is the number of people that a user stands for, shared by the user's rows; only proportions
    matter.
    """
    from sklearn.utils.validation import _check_sample_weight

    given: FloatArray
    check_contents("sample_weight", sample_weight)
    with about("sample_weight", (TypeError, ValueError)):
        given = _check_sample_weight(sample_weight, columns.numbers, dtype=np.float64, ensure_non_negative=True)
    if columns.user is None:
        return Votes(given, given)
    equal = 1 / np.maximum(np.bincount(columns.user, weights=given > 0), 1)[columns.user]
    return Votes(given * equal, equal)


def column_of(X: Eager | AnyArray, name: Column, argument: str) -> Values:
    frame = isinstance(X, nw.DataFrame)
    if len(X.shape) != 2:
        raise errors.UsageError(f"X: has {len(X.shape)} dimensions; give a frame, or an array of rows and columns.")
    width = X.shape[1]
    if not isinstance(name, str) and not -width <= name < width:
        size = "" if frame else f" (n_features = {width})"
        raise errors.UsageError(f"{argument}: no column number {name}; X has {width} columns{size}.")
    if isinstance(X, nw.DataFrame):
        chosen = name if isinstance(name, str) else X.columns[name]
        if chosen not in X.columns:
            raise errors.UnknownColumn(argument, chosen, X.columns)
        refuse_name("X", chosen)
        return nw.from_native(as_polars(X.get_column(chosen)), series_only=True)
    if isinstance(name, str):
        raise errors.UsageError(f"{argument}: {name!r} is a name, but X is an array; give a column number, or a frame.")
    column: AnyArray = X[:, name]
    return column


def _grouping(values: Values) -> Values:
    if isinstance(values, nw.Series):
        refuse_levels("groups", values.name, values.dtype)
        refuse_instants("groups", values.name, values.to_native())
    return values


def series_of(values: object) -> Values:
    series: object = nw.from_native(values, series_only=True, pass_through=True)
    if isinstance(series, nw.Series):
        return series
    # As a plain array a list would merge 1 and "1", and some large integers.
    return np.asarray(values, dtype=object if isinstance(values, (list, tuple)) else None)


def levels(values: Values, argument: str) -> Levels:
    """A code for each row, and the value of each code (None: missing).

    Values keep their Python type, whatever else is in the column: a group has the same key in any batch and in any
    frame library (1, 1.0 and numpy's 1 are equal keys).
    """
    if isinstance(values, nw.Series):
        refuse_nested({values.name: values.dtype}, argument, values.name)
        if isinstance(values.dtype, nw.Datetime) and values.dtype.time_zone is not None:
            values = values.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
        if values.dtype in (nw.Datetime, nw.Duration):
            values = values.to_numpy()
    numbers = values
    if isinstance(values, nw.Series) and values.dtype not in _LARGE and not values.is_null().any():
        numbers = values.to_numpy()
    if isinstance(numbers, np.ndarray) and numbers.dtype.kind in "biufmM":
        distinct, codes = np.unique(numbers, return_inverse=True)
        return codes.astype(np.intp), [None if value != value else value for value in _scalars(distinct)]
    rows = values.to_list() if isinstance(values, nw.Series) else values.tolist()
    known: dict[Hashable, int] = {}
    try:
        codes = np.array([known.setdefault(_key(value), len(known)) for value in rows], dtype=np.intp)
    except TypeError:
        raise errors.UsageError(
            f"{argument}: holds values that cannot be compared, such as lists; give text or numbers."
        ) from None
    order = _sorted(list(known))
    rank = np.empty(len(known), dtype=np.intp)
    rank[[known[key] for key in order]] = np.arange(len(known))
    return rank[codes], order


def user_codes(values: Values, argument: str) -> IntArray:
    """A code for each row's user; rows without one are refused, as they are not all the same person."""
    if len(values.shape) != 1:
        raise errors.UsageError(f"{argument}: {len(values.shape)} dimensions are not allowed; give one user per row.")
    codes, keys = levels(values, argument)
    if None in keys:
        number = int(np.count_nonzero(codes == keys.index(None)))
        raise errors.MissingValues(f"{argument}: {number:,} rows have no value. Fix them, or leave those rows out.")
    return codes


def _numbers(values: Values, argument: str) -> AnyArray:
    """A column of numbers as an array; integers of 128 bits and decimals are rounded to floats."""
    if not isinstance(values, nw.Series):
        return values
    if values.dtype in _LARGE:
        values = values.cast(nw.Float64)
    elif not (values.dtype.is_numeric() or values.dtype in (nw.Boolean, nw.Object, nw.Unknown)):
        raise errors.WrongType(f"{argument}: column {values.name!r} is {values.dtype}; give a column of numbers.")
    unknown = int(values.is_null().sum())
    if unknown:
        raise errors.MissingValues(f"{argument}: {unknown:,} rows have no value. Fix them, or leave those rows out.")
    return values.to_numpy()


def _scalars(values: AnyArray) -> list[Hashable]:
    """Python values; instants between microseconds, which Python cannot represent, stay numpy's."""
    if values.dtype.kind not in "mM":
        return list(values.tolist())
    whole = values.astype(f"{values.dtype.kind}8[us]")
    return [us if same else exact for exact, us, same in zip(values, whole.tolist(), whole == values, strict=True)]


def _key(value: Hashable) -> Hashable:
    try:
        return None if value is None or value != value else value  # NaN and NaT differ from themselves
    except (TypeError, ValueError):  # pandas.NA has no truth value
        return None


def _sorted(keys: list[Hashable]) -> list[Hashable]:
    """Values in order: numbers before text, missing last; values without an order by their text."""

    def kind(key: Hashable) -> str:
        return "" if isinstance(key, Real) else type(key).__name__

    try:
        return sorted(keys, key=lambda key: (key is None, kind(key), 0 if key is None else key))
    except TypeError:
        return sorted(keys, key=lambda key: (key is None, kind(key), repr(key)))


def crossed_levels(parts: list[Levels], size: int) -> tuple[IntArray, tuple[Key, ...]]:
    if not parts:
        return np.zeros(size, dtype=np.intp), ((),)
    shape = [len(values) for _, values in parts]
    codes = np.ravel_multi_index([part for part, _ in parts], shape)
    distinct, group = np.unique(codes, return_inverse=True)
    places = np.unravel_index(distinct, shape)
    columns = [[values[i] for i in place] for (_, values), place in zip(parts, places, strict=True)]
    return group, tuple(zip(*columns, strict=True))
