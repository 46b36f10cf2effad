"""Scores, groups and users as columns of X: what the estimators of this folder read from arrays and frames.

Groups and users travel as columns of X, named in the constructor, and not as fit metadata: so they survive pipelines,
grid searches and cross-validation.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import _check_sample_weight, check_array, validate_data

from isonomy.errors import MissingValues, UnknownColumn, UsageError
from isonomy.numerics.arrays import FloatArray

Column = str | int
Levels = tuple[NDArray[np.intp], list[Hashable]]


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """The columns of X that a calibrator uses, one entry a row."""

    scores: FloatArray  # (rows, objectives)
    group: NDArray[np.intp]  # number of each row's group
    keys: tuple[tuple[Hashable, ...], ...]  # the values that group stands for
    user: NDArray[np.intp] | None  # number of each row's user


def as_tuple(columns: Column | Sequence[Column]) -> tuple[Column, ...]:
    """One column or several, as a tuple."""
    return (columns,) if isinstance(columns, (str, int, np.integer)) else tuple(columns)


def read(
    estimator: Any,
    X: Any,
    *,
    scores: Sequence[Column],
    groups: Sequence[Column],
    user: Column | None,
    reset: bool,
) -> Columns:
    """Take the named columns of X and check them. Only scores have to be numbers."""
    frame = eager(X)
    if frame is None:
        mixed = bool(groups) or user is not None
        X = validate_data(estimator, X, reset=reset, dtype=None if mixed else "numeric", ensure_all_finite=not mixed)
    else:
        validate_data(estimator, X, reset=reset, skip_check_array=True)

    def column(name: Column, argument: str) -> Any:
        return _column(X if frame is None else frame, name, argument)

    taken = np.column_stack([_numpy(column(name, "score_column")) for name in scores])
    numbers = check_array(taken, dtype=np.float64, input_name="X")
    made = [levels(column(name, "group_columns"), "group_columns") for name in groups]
    codes, keys = _crossed(made, len(numbers))
    users = None if user is None else user_codes(column(user, "user_column"), "user_column")
    return Columns(numbers, codes, keys, users)


def numbers_of(y: NDArray[Any]) -> FloatArray:
    """Outcomes as numbers."""
    try:
        return y.astype(np.float64)
    except (TypeError, ValueError):
        raise UsageError(
            f"y: holds {y.dtype} such as {y.flat[0]!r}; recode the outcome as 0 and 1, or numbers."
        ) from None


def weights(X_rows: FloatArray, columns: Columns, sample_weight: Any) -> FloatArray:
    """The vote of each row (each user having one, if there are users)."""
    given: FloatArray = _check_sample_weight(sample_weight, X_rows, dtype=np.float64, ensure_non_negative=True)
    if columns.user is None:
        return given
    each = np.bincount(columns.user, weights=given)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(given > 0, given / each[columns.user], 0.0)


def positive(argument: str, seen: Any) -> None:
    """Raise unless ``seen`` is None or a positive number."""
    if seen is not None and (isinstance(seen, bool) or not (isinstance(seen, Real) and 0 < float(seen) < np.inf)):
        raise UsageError(f"{argument}: {seen!r} is not allowed; give None or a positive number.")


def check_min_size(seen: Any) -> None:
    """Raise unless ``seen`` can be the smallest size of a group."""
    if isinstance(seen, bool) or not (isinstance(seen, Real) and float(seen) >= 0):
        raise UsageError(f"min_size: {seen!r} is not allowed; give a number from 0 up.")


def eager(X: Any) -> Any:
    """X as a narwhals frame, or None if it is an array or a list."""
    frame = nw.from_native(X, pass_through=True)
    if isinstance(frame, nw.LazyFrame):  # its rows have no order, so they cannot be matched with y
        kind = f"{type(X).__module__.partition('.')[0]} {type(X).__name__}"
        raise UsageError(f"X: a {kind} is read row by row here; collect it into a frame (or an array) first.")
    return frame if isinstance(frame, nw.DataFrame) else None


def _numpy(values: Any) -> NDArray[Any]:
    return values.to_numpy() if isinstance(values, nw.Series) else values


def _column(X: Any, name: Column, argument: str) -> Any:
    """A column of a frame (narwhals) or of an array (numpy)."""
    if isinstance(X, nw.DataFrame):
        names = X.columns
        if not isinstance(name, str):
            if not -len(names) <= name < len(names):
                raise UsageError(f"{argument}: no column number {name}; X has {len(names)} columns.")
            name = names[name]
        if name not in names:
            raise UnknownColumn(argument, name, names)
        return X.get_column(name)
    if isinstance(name, str):
        raise UsageError(f"{argument}: {name!r} is a name, but X is an array; give a column number, or a frame.")
    if not -X.shape[1] <= name < X.shape[1]:
        raise UsageError(
            f"{argument}: no column number {name}; X has {X.shape[1]} columns (n_features = {X.shape[1]})."
        )
    return np.asarray(X)[:, name]


def levels(values: Any, argument: str) -> Levels:
    """A number for each row, and the value it stands for (None: missing).

    Values stay what they are in Python, whatever else is in the column: a row of one group has the same key alone, in
    any batch, and in any frame library (1, 1.0 and numpy's 1 are equal keys).
    """
    numbers = values.to_numpy() if isinstance(values, nw.Series) and not values.is_null().any() else values
    if isinstance(numbers, np.ndarray) and numbers.dtype.kind in "biuf":
        found, codes = np.unique(numbers, return_inverse=True)
        return codes.astype(np.intp), [None if value != value else value for value in found.tolist()]
    if isinstance(values, np.ndarray) and values.dtype.kind == "M":
        values = values.astype("datetime64[us]")  # as nanoseconds they would turn into whole numbers
    rows = values.to_list() if isinstance(values, nw.Series) else values.tolist()
    seen: dict[Hashable, int] = {}
    try:
        each = [seen.setdefault(_key(value), len(seen)) for value in rows]
    except TypeError:
        raise UsageError(
            f"{argument}: holds values that cannot be told apart, such as lists; give text or numbers."
        ) from None
    order = _sorted(list(seen))
    rank = np.empty(len(seen), dtype=np.intp)
    rank[[seen[key] for key in order]] = np.arange(len(seen))
    return rank[np.array(each, dtype=np.intp)], order


def user_codes(values: Any, argument: str) -> NDArray[np.intp]:
    """A number for each row's user; rows without one are refused, for they are not all the same person."""
    codes, keys = levels(values, argument)
    if None in keys:
        gone = int(np.count_nonzero(codes == keys.index(None)))
        raise MissingValues(f"{argument}: {gone:,} rows have no value. Fix them, or leave those rows out.")
    return codes


def _key(value: Any) -> Hashable:
    """None for every kind of missing value."""
    try:
        return None if value is None or value != value else value  # NaN and NaT differ from themselves
    except (TypeError, ValueError):  # pandas.NA has no truth value
        return None


def _sorted(keys: list[Hashable]) -> list[Hashable]:
    """Values in order, numbers before text and missing last; types that have no order among each other by name."""

    def kind(key: Hashable) -> str:
        return "" if isinstance(key, Real) else type(key).__name__

    def place(key: Any) -> tuple[bool, str, Any]:
        return key is None, kind(key), 0 if key is None else key

    try:
        return sorted(keys, key=place)
    except TypeError:
        return sorted(keys, key=lambda key: (key is None, kind(key), repr(key)))


def _crossed(made: list[Levels], size: int) -> tuple[NDArray[np.intp], tuple[tuple[Hashable, ...], ...]]:
    codes = np.zeros(size, dtype=np.intp)
    for own, values in made:
        codes = codes * len(values) + own
    found, group = np.unique(codes, return_inverse=True)
    keys: list[tuple[Hashable, ...]] = []
    for code in found:
        key: list[Hashable] = []
        for _, values in reversed(made):
            code, place = divmod(int(code), len(values))
            key.append(values[place])
        keys.append(tuple(reversed(key)))
    return group, tuple(keys)
