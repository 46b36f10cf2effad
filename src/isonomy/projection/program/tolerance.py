"""Which differences are tolerated, and the curve of all tolerances.

A tolerance is one number, limits that differ by side, or by rate and by group. The curve tests every tolerance: the
smallest that is not rejected is a lower confidence limit for the largest difference, the smallest that is shown to hold
an upper one. Each is wrong with probability at most alpha.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal

import numpy as np

from isonomy.errors import UnknownOption, UsageError, refuse_percent
from isonomy.numerics.arrays import FloatArray
from isonomy.numerics.roots import root
from isonomy.options import Number
from isonomy.projection.program.inference import Edge, ProjectionTest
from isonomy.projection.program.law import Null

Limit = Annotated[float, Number(least=0)]
# By rate, by group, by side ("below", "above"), in this order, as far as they differ.
Tolerance = Limit | Mapping[str, Limit | Mapping[str, Limit | Mapping[str, Limit]]]
Side = Literal["both", "above", "below"]
SIDES = ("below", "above")

POINTS = 15  # of the curve, between 0 and beyond both limits
DRAWS = 10_000  # of each p-value
HALVINGS = 12  # of the interval that holds the lower limit


def check_tolerance(tolerance: Tolerance | None, *, rates: bool) -> None:
    """Raise if this is not a tolerance. ``rates``: for differences of rates, which are at most 1."""
    if not isinstance(tolerance, Mapping):
        if tolerance is not None:  # rates differ by at most 1: a larger tolerance would pass anything
            refuse_percent(rates, float(tolerance))
        return
    if not tolerance:
        raise UsageError('tolerance: an empty mapping; name rates, groups or sides, such as {"tpr": 0.05, "fpr": 0.1}.')
    for name, inner in tolerance.items():
        if name in SIDES and isinstance(inner, Mapping):
            raise UsageError(f"tolerance: {name!r} takes a number; name rates and groups outside the sides.")
        check_tolerance(inner, rates=rates)


def one_side(tolerance: Tolerance | None) -> tuple[Tolerance | None, Side]:
    """The tolerance and its side: a mapping such as {"above": 0.05} is 0.05 above, with no limit below."""
    if isinstance(tolerance, Mapping) and len(tolerance) == 1:
        for side in ("above", "below"):
            if side in tolerance:
                return tolerance[side], side
    return tolerance, "both"


def two_sided(tolerance: Tolerance | None) -> bool:
    """Whether it limits some difference on both sides."""
    if not isinstance(tolerance, Mapping):
        return tolerance is not None
    if set(tolerance) <= set(SIDES):
        return len(tolerance) == 2
    return any(two_sided(inner) for inner in tolerance.values())


def tolerated(tolerance: Tolerance | None, comparisons: Sequence[tuple[str, ...]]) -> Null:
    """The limits of each comparison; ``comparisons``: the names of its rate and of its group."""
    if isinstance(tolerance, Mapping):
        _check_names(tolerance, [*(list(dict.fromkeys(names)) for names in zip(*comparisons, strict=True)), SIDES])
    limits = np.array([_limits(tolerance, names) for names in comparisons])
    return Null(limits[:, 0], limits[:, 1])


def _limits(tolerance: Any, names: tuple[str, ...]) -> tuple[float, float]:
    if not isinstance(tolerance, Mapping):
        return -float(tolerance or 0.0), float(tolerance or 0.0)
    if set(tolerance) <= set(SIDES):
        below, above = (float(tolerance.get(side, np.inf)) for side in SIDES)
        return -below, above
    entry = next((name for name in names if name in tolerance), None)
    if entry is None:
        raise UsageError(
            f"tolerance: there is no entry for {' of '.join(names)}; name every rate that is compared, or every group "
            f"but the reference. Given: {', '.join(tolerance)}."
        )
    return _limits(tolerance[entry], names)


def _check_names(tolerance: Mapping[str, object], kinds: Sequence[Sequence[str]]) -> None:
    """Each mapping must name rates, groups or sides, and not mix them: some entries would be ignored."""
    for name, inner in tolerance.items():
        if not any(name in kind for kind in kinds):
            raise UnknownOption("tolerance", name, [name for kind in kinds for name in kind])
        if isinstance(inner, Mapping):
            _check_names(inner, kinds)
    if not any(set(tolerance) <= set(kind) for kind in kinds):
        raise UsageError(
            f"tolerance: {', '.join(tolerance)} are at the same level; name rates, groups or sides, and the others "
            'within them, such as {"tpr": {"group=b": 0.05, "group=c": 0.1}, "fpr": 0.1}.'
        )


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ToleranceCurve:
    """p-values of every tolerance, and confidence limits for the largest difference.

    Attributes
    ----------
    tolerance, pvalue, within_pvalue : ndarray
        The tolerances, the p-value of "every difference is within it", and that of "some difference is at least it".
    least : float
        The smallest tolerance that is not rejected: with confidence 1 - alpha some difference is larger. 0 if equality
        is not rejected, NaN if nothing was tested.
    most : float
        The smallest tolerance that is shown to hold: with confidence 1 - alpha no difference is larger. Infinite if
        none is.
    """

    tolerance: FloatArray
    pvalue: FloatArray
    within_pvalue: FloatArray
    least: float
    most: float

    def __post_init__(self) -> None:
        for values in (self.tolerance, self.pvalue, self.within_pvalue):
            values.flags.writeable = False


def tolerance_curve(test: ProjectionTest, side: Side, *, alpha: float, rng: np.random.Generator) -> ToleranceCurve:
    """Test every tolerance, with the same draws for all."""
    rows, moments, seed = test.rows, test.moments, int(rng.integers(2**63))

    def null(tolerance: float) -> Null:
        return tolerated(tolerance if side == "both" else {side: tolerance}, moments.keys)

    @cache
    def pvalue(tolerance: float) -> float:
        facts = test.against(null(tolerance), draws=DRAWS, rng=np.random.default_rng(seed))
        return float(facts["pvalue"])

    equal = test.against(null(0.0), draws=DRAWS, rng=np.random.default_rng(seed))
    error = None if rows.sample is None else equal["standard_error"]

    def within(tolerance: float) -> float:
        if np.isnan(equal["wald_pvalue"]):  # nothing varies, or there are too few clusters
            return float("nan")
        return Edge(rows.cells, moments, null(tolerance)).within(error, test.df)

    beyond = {"both": np.abs(moments.value), "above": moments.value, "below": -moments.value}[side]
    largest = max(0.0, float(beyond.max()))
    least, high = 0.0, largest
    if np.isnan(pvalue(0.0)):
        least = np.nan
    elif pvalue(0.0) <= alpha and largest > 0:
        for _ in range(HALVINGS):
            middle = (least + high) / 2
            least, high = (middle, high) if pvalue(middle) <= alpha else (least, middle)
    # A tolerance of 0 cannot be shown to hold, whatever was observed.
    bottom, top = largest + 1e-12, 100 * (largest + 1e-12) if moments.user_defined else 1.0 - 1e-9
    shown = within(top) <= alpha  # as far as tolerances go
    most = root(lambda t: within(t) - alpha, bottom, top).x if shown and within(bottom) > alpha else np.inf
    end = 1.5 * (most if np.isfinite(most) else max(largest, 1e-3))
    grid = np.linspace(0.0, min(end, top), POINTS)
    return ToleranceCurve(
        tolerance=grid,
        pvalue=np.array([pvalue(float(t)) for t in grid]),
        within_pvalue=np.array([within(float(t)) for t in grid]),
        least=float(least),
        most=float(most),
    )
