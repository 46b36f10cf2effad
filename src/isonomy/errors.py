"""Every error isonomy raises on purpose, an `IsonomyError` of one of three kinds.

- `UsageError`, the call is wrong: `UnknownColumn`, `UnknownOption`, `MissingRole`, `ConfigError`.
- `DataError`, the table is wrong: `EmptyFrame`, `DuplicateColumns`, `LengthMismatch`, `MixedTypes`, `WrongType`,
  `NotBinary`, `OutOfRange`, `MissingValues`, `MissingGroups`, `BadCount`, `BadWeight`, `OneGroup`, `NotEnoughData`.
- `MethodError`, the request was sound and could not be carried out: `RuleFailed`.

`UsageError` and `DataError` are also `ValueError`, so code that knows nothing of isonomy can catch them.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping


class IsonomyError(Exception):
    """Base of every error raised on purpose."""


class UsageError(IsonomyError, ValueError):
    """The call is wrong: fix the arguments."""


class ComputedName(str):
    """The name of a column that a call computed from a condition; errors do not list it among the columns."""

    __slots__ = ()


class UnknownColumn(UsageError):
    """A name that is not in the table."""

    def __init__(self, argument: str, column: object, columns: Iterable[str]) -> None:
        known = [str(name) for name in columns if not isinstance(name, ComputedName)]
        close = near(column if isinstance(column, str) else shown(column), known)
        super().__init__(
            f"{argument}: no column {shown(column)} in the data.{close} "
            f"Columns: {', '.join(known[:40])}{', ...' if len(known) > 40 else ''}."
        )


class UnknownOption(UsageError):
    """A value an argument does not take."""

    def __init__(
        self, argument: str, value: object, allowed: Iterable[object], also: Mapping[str, str] | None = None
    ) -> None:
        known = [str(a) for a in allowed]
        text = value if isinstance(value, str) else shown(value)
        ours = (also or {}).get(text.lower().replace("-", "_").replace(" ", "_"))
        hint = near(text, known) if ours is None else f" It is called {ours!r} here."
        super().__init__(f"{argument}: {shown(value)} is not allowed.{hint} Allowed: {', '.join(known)}.")


class MissingRole(UsageError):
    """A column role the request needs was not given."""


class ConfigError(UsageError):
    """The audit file is wrong: fix the key it names."""


class DataError(IsonomyError, ValueError):
    """The table is wrong: fix or filter the rows.

    ``public`` replaces the message in an audit that withholds small groups, if the message reveals one.
    """

    def __init__(self, message: str, public: str = "") -> None:
        super().__init__(message)
        self.public = public or message


class EmptyFrame(DataError):
    """No rows."""


class DuplicateColumns(DataError):
    """Two columns share a name."""


class LengthMismatch(DataError):
    """Columns of a mapping differ in length."""


class MixedTypes(DataError):
    """One column holds several types."""


class WrongType(DataError):
    """Text where numbers are needed, and the like."""


class NotBinary(DataError):
    """Values other than 0 and 1."""


class OutOfRange(DataError):
    """Values outside the range a metric is made for."""


class MissingValues(DataError):
    """Nulls, NaN or infinite values in a needed column."""


class MissingGroups(DataError):
    """Nulls in a column that defines groups."""


class BadCount(DataError):
    """A negative, fractional or missing count."""


class BadWeight(DataError):
    """A negative weight, or weights that are all 0."""


class OneGroup(DataError):
    """A comparison needs two groups."""


class NotEnoughData(DataError):
    """Too few rows to answer at all."""


class MethodError(IsonomyError, RuntimeError):
    """The request was sound and could not be carried out."""


class RuleFailed(MethodError):
    """A selection rule raised or returned what cannot be used."""


def near(value: str, known: Iterable[str]) -> str:
    """' Did you mean …?' if a close match exists, else an empty string."""
    lowered = {k.lower(): k for k in known}
    close = difflib.get_close_matches(value.lower(), lowered, n=3, cutoff=0.6)
    if not close:
        return ""
    return f" Did you mean {' or '.join(repr(lowered[c]) for c in close)}?"


def choose(argument: str, value: str, allowed: Iterable[str]) -> str:
    options = tuple(allowed)
    if not isinstance(value, str) or value not in options:
        raise UnknownOption(argument, value, options)
    return value


def refuse_percent(binary: bool, tolerance: float | None) -> None:
    """Rates lie in [0, 1]: a tolerance of 1 or more would pass anything, and is most likely a percentage."""
    if binary and tolerance is not None and tolerance >= 1:
        raise UsageError(
            f"tolerance: {tolerance!r} is not allowed for a rate; {tolerance:g} percentage points are written "
            f"{tolerance / 100:g}."
        )


def require_ratio(scale: str, tolerance: float | None) -> None:
    """A tolerance on a ratio scale is a ratio below 1; a tolerance near 0 is most likely a difference."""
    if tolerance is not None and not 0 < tolerance < 1:
        raise UsageError(
            f"tolerance: {tolerance!r} is not allowed for scale={scale!r}; give a ratio between 0 and 1: 0.8 tolerates "
            "ratios from 0.8 to 1.25."
        )
    if tolerance is not None and tolerance < 0.2:
        raise UsageError(
            f"tolerance: {tolerance!r} tolerates ratios from {tolerance:g} to {1 / tolerance:g}. On a ratio scale, "
            "give the smallest ratio that does not matter, such as 0.8."
        )


def shown(value: object) -> str:
    """The value as messages print it, truncated if it is long."""
    try:
        text = repr(value).partition("\n")[0]
    except Exception:  # nested too deeply, or a class without a working repr
        text = f"a {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:77]}..."
