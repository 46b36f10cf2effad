"""Checking and spreading the arguments of designs: shares, probabilities, one value per group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from isonomy.errors import UnknownOption, UsageError
from isonomy.numerics.arrays import FloatArray
from isonomy.simulate.simulated import Array, whole

Each = float | Mapping[str, float] | Sequence[float]


def probability(argument: str, seen: ArrayLike) -> FloatArray:
    """``seen`` as an array if every value lies in [0, 1], otherwise `UsageError`."""
    values = np.asarray(seen, dtype=np.float64)
    if not np.all((values >= 0) & (values <= 1)):
        raise UsageError(f"{argument}: {_show(seen)} is not allowed; probabilities lie between 0 and 1.")
    return values


def number(argument: str, seen: float, low: float = -np.inf, high: float = np.inf) -> float:
    """``seen`` if it is a finite number in [low, high], otherwise `UsageError`."""
    if not isinstance(seen, (int, float, np.number)) or not np.isfinite(seen) or not low <= seen <= high:
        raise UsageError(f"{argument}: {seen!r} is not allowed; give a finite number in [{low:g}, {high:g}].")
    return float(seen)


def shares(argument: str, seen: Mapping[str, float]) -> tuple[tuple[str, ...], FloatArray]:
    """Names and shares of groups; the shares must be probabilities that sum to one."""
    names = tuple(seen)
    values = probability(argument, list(seen.values()))
    if not names or abs(values.sum() - 1) > 1e-9:
        raise UsageError(f"{argument}: the shares sum to {values.sum():g}; they must sum to 1.")
    return names, values / values.sum()


def group_shares(groups: int | Sequence[str] | Mapping[str, float]) -> tuple[tuple[str, ...], FloatArray]:
    """Groups given as a number (named a, b, ... or g000, g001, ...), as names of equal share, or with shares."""
    if isinstance(groups, Mapping):
        return shares("groups", groups)
    if isinstance(groups, (int, np.integer)):
        k = whole("groups", groups, 1)
        names = tuple(chr(97 + j) for j in range(k)) if k <= 26 else tuple(f"g{j:03d}" for j in range(k))
    else:
        names = tuple(groups)
    if not names or len(set(names)) != len(names):
        raise UsageError(f"groups: {names!r} is not allowed; give distinct names, at least one.")
    return names, np.full(len(names), 1 / len(names))


def each(argument: str, seen: Each, names: Sequence[str], default: float = 0.0) -> FloatArray:
    """One value per group: a number for all, a sequence in order, or a mapping with ``default`` for the rest."""
    if isinstance(seen, Mapping):
        unknown = [name for name in seen if name not in names]
        if unknown:
            raise UnknownOption(argument, unknown[0], names)
        values = np.array([seen.get(name, default) for name in names], dtype=np.float64)
    else:
        given = np.asarray(seen, dtype=np.float64)
        if given.ndim > 1 or (given.ndim == 1 and len(given) != len(names)):
            raise UsageError(f"{argument}: give one number, or {len(names)} of them (one per group).")
        values = np.broadcast_to(given, len(names)).copy()
    if not np.all(np.isfinite(values)):
        raise UsageError(f"{argument}: {_show(seen)} is not allowed; numbers must be finite.")
    return values


def members(rng: np.random.Generator, start: int, units: int, share: FloatArray, allocation: str = "random") -> Array:
    """The group of each unit: drawn at random, or spread evenly.

    "even" steps around the unit interval by the golden ratio, so that every stretch of n units holds n times
    the share of a group up to a few units: groups of (nearly) fixed size, as in designs with n rows per
    group.
    """
    if allocation == "even":
        position = np.modf((start + np.arange(units) + 0.5) * 0.6180339887498949)[0]
    else:
        position = rng.random(units)
    return np.minimum(np.searchsorted(np.cumsum(share), position, side="right"), len(share) - 1)


def plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """The mapping with numpy scalars and arrays turned into Python numbers and lists, at every depth."""
    return {
        key: plain(value)
        if isinstance(value, Mapping)
        else (value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value)
        for key, value in values.items()
    }


def _show(seen: object) -> str:
    return repr(seen.tolist() if isinstance(seen, np.ndarray) else seen)
