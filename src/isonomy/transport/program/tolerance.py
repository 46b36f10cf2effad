"""How much difference is tolerated: one number, limits that differ by side, or by rate and by group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import numpy as np

from isonomy.errors import UnknownOption, UsageError, refuse_percent
from isonomy.options import Number
from isonomy.transport.program.law import Null

ToleranceSide = Literal["both", "upper", "lower"]
Limit = Annotated[float, Number(least=0)]
# By rate, by group, by side ("below", "above"), in this order as far as they differ.
Tolerated = Limit | Mapping[str, Limit | Mapping[str, Limit | Mapping[str, Limit]]]
SIDES = ("below", "above")


def check_tolerance(tolerance: Tolerated | None, side: ToleranceSide, *, rates: bool) -> None:
    """Raise about a tolerance that is none. ``rates``: differences of rates, which are at most 1."""
    if tolerance is None:
        if side != "both":
            raise UsageError(
                f"tolerance_side: {side!r} needs a tolerance; give tolerance (0 for a one-sided test of equality), or "
                "leave tolerance_side out."
            )
        return
    if not isinstance(tolerance, Mapping):
        # Rates differ by at most 1: a larger tolerance would pass anything. Moments of one's own have their own scale.
        refuse_percent(rates, float(tolerance))
        return
    if not tolerance:
        raise UsageError('tolerance: an empty mapping; name rates, groups or sides, such as {"tpr": 0.05, "fpr": 0.1}.')
    if side != "both" and set(tolerance) & set(SIDES):
        raise UsageError(f"tolerance_side: {side!r}, and tolerance names sides itself; leave one out.")
    for name in set(tolerance) & set(SIDES):
        if isinstance(tolerance[name], Mapping):
            raise UsageError(f"tolerance: {name!r} takes a number; name rates and groups outside the sides.")
    for inner in tolerance.values():
        check_tolerance(inner, side, rates=rates)


def tolerated(tolerance: Tolerated | None, side: ToleranceSide, comparisons: Sequence[tuple[str, ...]]) -> Null:
    """The limits of each comparison; ``comparisons``: the names each answers to, of its rate and of its group."""
    if isinstance(tolerance, Mapping):
        _check_names(tolerance, [*(list(dict.fromkeys(names)) for names in zip(*comparisons, strict=True)), SIDES])
    limits = np.array([_limits(tolerance, side, names) for names in comparisons])
    return Null(limits[:, 0], limits[:, 1])


def _limits(tolerance: Any, side: ToleranceSide, names: tuple[str, ...]) -> tuple[float, float]:
    if not isinstance(tolerance, Mapping):
        limit = float(tolerance or 0.0)
        return (-np.inf if side == "upper" else -limit), (np.inf if side == "lower" else limit)
    if set(tolerance) <= set(SIDES):
        below, above = (float(tolerance.get(which, np.inf)) for which in SIDES)
        return -below, above
    entry = next((name for name in names if name in tolerance), None)
    if entry is None:
        raise UsageError(
            f"tolerance: nothing is said about {' of '.join(names)}; name every rate that is compared, or every group "
            f"but the reference. Given: {', '.join(tolerance)}."
        )
    return _limits(tolerance[entry], side, names)


def _check_names(tolerance: Mapping[str, object], kinds: Sequence[Sequence[str]]) -> None:
    """Each mapping names rates, groups or sides, and not some of each: one of them would be left out without a word."""
    for name, inner in tolerance.items():
        if not any(name in kind for kind in kinds):
            raise UnknownOption("tolerance", name, [name for kind in kinds for name in kind])
        if isinstance(inner, Mapping):
            _check_names(inner, kinds)
    if not any(set(tolerance) <= set(kind) for kind in kinds):
        raise UsageError(
            f"tolerance: {', '.join(tolerance)} stand side by side; name rates, groups or sides, and the others within "
            'them, such as {"tpr": {"group=b": 0.05, "group=c": 0.1}, "fpr": 0.1}.'
        )
