"""Checking and spreading the arguments of designs: shares, probabilities, one value per group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from isonomy.errors import UnknownOption, UsageError
from isonomy.numerics.arrays import FloatArray, IntArray
from isonomy.options import shown

Each = float | Mapping[str, float] | Sequence[float]  # one number for all groups, one per group in order, or by name
Groups = int | Sequence[str] | Mapping[str, float]  # how many groups, their names, or their names and shares


MOST_GROUPS = 100_000


def _numbers(argument: str, value: ArrayLike) -> FloatArray:
    try:
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise UsageError(f"{argument}: {shown(value)} is not allowed; give numbers.") from None


def probability(argument: str, value: ArrayLike) -> FloatArray:
    """The value as an array if it lies in [0, 1] throughout, otherwise `UsageError`."""
    values = _numbers(argument, value)
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


def each(argument: str, value: Each, names: Sequence[str], default: float = 0.0) -> FloatArray:
    """One value per group: a number for all, a sequence in order, or a mapping with ``default`` for the rest."""
    if isinstance(value, Mapping):
        unknown = [name for name in value if name not in names]
        if unknown:
            raise UnknownOption(argument, unknown[0], names)
        value = [value.get(name, default) for name in names]
    values = _numbers(argument, value)
    if values.ndim > 1 or (values.ndim == 1 and len(values) != len(names)):
        raise UsageError(f"{argument}: give one number, or {len(names)} of them (one per group).")
    if not np.all(np.isfinite(values)):
        raise UsageError(f"{argument}: {values.tolist()!r} is not allowed; numbers must be finite.")
    return np.broadcast_to(values, len(names)).copy()


def members(rng: np.random.Generator, units: int, share: FloatArray) -> IntArray:
    """The group of each unit, drawn at random."""
    return np.minimum(np.searchsorted(np.cumsum(share), rng.random(units), side="right"), len(share) - 1)


def plain(values: Mapping[str, object]) -> dict[str, object]:
    """The mapping with numpy scalars and arrays turned into Python numbers and lists, at every depth."""
    return {
        key: plain(value)
        if isinstance(value, Mapping)
        else (value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value)
        for key, value in values.items()
    }
