"""Scores, groups and users as columns of X: what the estimators of this folder read from arrays and frames.

Groups and users travel as columns of X, named in the constructor, and not as fit metadata: so they survive pipelines,
grid searches and cross-validation.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import _check_sample_weight, check_array, validate_data

from isonomy.calibration.smoothing import Floats
from isonomy.errors import UnknownColumn, UsageError

Column = str | int


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """The columns of X that a calibrator uses, one entry a row."""

    scores: Floats  # (rows, objectives)
    group: NDArray[np.intp]  # number of each row's group
    keys: tuple[tuple[Hashable, ...], ...]  # the values that group stands for
    user: NDArray[Any] | None


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
    frame = _frame(X)
    if frame is None:
        mixed = bool(groups) or user is not None
        X = validate_data(estimator, X, reset=reset, dtype=None if mixed else "numeric", ensure_all_finite=not mixed)
    else:
        validate_data(estimator, X, reset=reset, skip_check_array=True)

    def column(name: Column, argument: str) -> NDArray[Any]:
        return _column(X if frame is None else frame, name, argument)

    taken = np.column_stack([column(name, "score_column") for name in scores])
    numbers = check_array(taken, dtype=np.float64, input_name="X")
    levels = [_levels(column(name, "group_columns")) for name in groups]
    codes, keys = _crossed(levels, len(numbers))
    return Columns(numbers, codes, keys, None if user is None else column(user, "user_column"))


def numbers_of(y: NDArray[Any]) -> Floats:
    """Outcomes as numbers."""
    try:
        return y.astype(np.float64)
    except (TypeError, ValueError):
        raise UsageError(f"y: holds {y.dtype} such as {y[0]!r}; recode the outcome as 0 and 1, or numbers.") from None


def weights(X_rows: Floats, columns: Columns, sample_weight: Any) -> Floats:
    """The vote of each row (each user having one, if there are users)."""
    given: Floats = _check_sample_weight(sample_weight, X_rows, dtype=np.float64, ensure_non_negative=True)
    if columns.user is None:
        return given
    _, user = np.unique(columns.user.astype(str) if columns.user.dtype == object else columns.user, return_inverse=True)
    each = np.bincount(user, weights=given)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(given > 0, given / each[user], 0.0)


def _frame(X: Any) -> Any:
    """X as a narwhals frame, or None if it is an array or a list."""
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    return frame if isinstance(frame, nw.DataFrame) else None


def _column(X: Any, name: Column, argument: str) -> NDArray[Any]:
    if isinstance(X, nw.DataFrame):
        names = X.columns
        if not isinstance(name, str):
            if not -len(names) <= name < len(names):
                raise UsageError(f"{argument}: no column number {name}; X has {len(names)} columns.")
            name = names[name]
        if name not in names:
            raise UnknownColumn(argument, name, names)
        return X.get_column(name).to_numpy()
    if isinstance(name, str):
        raise UsageError(f"{argument}: {name!r} is a name, but X is an array; give a column number, or a frame.")
    if not -X.shape[1] <= name < X.shape[1]:
        raise UsageError(
            f"{argument}: no column number {name}; X has {X.shape[1]} columns (n_features = {X.shape[1]})."
        )
    return np.asarray(X)[:, name]


def _levels(values: NDArray[Any]) -> tuple[NDArray[np.intp], list[Hashable]]:
    """A number for each row, and the value it stands for (None: missing)."""
    import polars as pl

    series = pl.Series(values.tolist() if values.dtype == object else values, strict=False)
    if series.dtype.is_float():
        series = series.fill_nan(None)
    found = series.unique().sort(nulls_last=True)
    codes = series.rank("dense").fill_null(len(found)).to_numpy().astype(np.intp) - 1
    return codes, found.to_list()


def _crossed(
    levels: list[tuple[NDArray[np.intp], list[Hashable]]], size: int
) -> tuple[NDArray[np.intp], tuple[tuple[Hashable, ...], ...]]:
    codes = np.zeros(size, dtype=np.intp)
    for own, values in levels:
        codes = codes * len(values) + own
    found, group = np.unique(codes, return_inverse=True)
    keys: list[tuple[Hashable, ...]] = []
    for code in found:
        key: list[Hashable] = []
        for _, values in reversed(levels):
            code, place = divmod(int(code), len(values))
            key.append(values[place])
        keys.append(tuple(reversed(key)))
    return group, tuple(keys)
