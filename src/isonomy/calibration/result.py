"""What the calls of this folder return."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from isonomy.calibration import wording
from isonomy.calibration.compare import Order
from isonomy.frames import Group
from isonomy.inference.multiplicity import smallest
from isonomy.numerics.arrays import FloatArray
from isonomy.results import Result, Status, Verdict, storable
from isonomy.results.shape import read_only

if TYPE_CHECKING:
    import altair as alt

storable(Order)


class Frozen:
    """Makes the arrays of a part read-only, as `Result` does for its own."""

    __slots__ = ()

    def __post_init__(self) -> None:
        read_only(self)


@storable
@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ParityFamily(Frozen):
    """Curves, bands and tests for the groups made by one set of dimensions.

    Arrays are (groups, points) or (pairs, points). Curves have pointwise intervals, differences bands that hold at all
    supported points together; unsupported points are NaN.
    """

    dimensions: tuple[str, ...]
    groups: tuple[Group, ...]
    size: FloatArray
    users: FloatArray
    spanning: int
    grid: FloatArray
    bandwidth: FloatArray
    curve: FloatArray
    curve_low: FloatArray
    curve_high: FloatArray
    effective: FloatArray
    pairs: NDArray[np.intp]
    difference: FloatArray
    se: FloatArray
    low: FloatArray
    high: FloatArray
    pvalue_at: FloatArray
    adjusted_at: FloatArray
    pair_statistic: FloatArray
    pair_pvalue: FloatArray
    pair_adjusted: FloatArray
    pair_verdicts: tuple[Verdict, ...]
    pvalue: float
    order: Order
    verdict: Verdict

    @property
    def supported(self) -> NDArray[np.bool_]:
        """Where each pair is compared: enough users near the score in both groups."""
        return np.isfinite(self.difference)

    def labels(self, pair: int) -> tuple[str, str]:
        """The names of the two groups of a pair."""
        i, j = self.pairs[pair]
        return self.groups[i].label, self.groups[j].label

    def without(self, small: NDArray[np.bool_]) -> ParityFamily:
        """A copy that withholds the numbers of the groups marked ``small``."""
        hidden = small[self.pairs].any(axis=1)
        changes: dict[str, Any] = {}
        for names, mask in (
            (("curve", "curve_low", "curve_high", "effective", "size", "users"), small),
            (("difference", "se", "low", "high", "pvalue_at", "adjusted_at"), hidden),
            (("pair_statistic", "pair_pvalue", "pair_adjusted"), hidden),
        ):
            for name in names:
                values = np.array(getattr(self, name), dtype=np.float64)
                values[mask] = np.nan
                changes[name] = values
        if self.order.better >= 0 and (small[self.order.better] or small[self.order.worse]):
            nan = float("nan")
            changes["order"] = Order(self.order.pvalue, nan, nan, -1, -1, nan, nan)
        return replace(self, **changes)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ParityResult(Result):
    """Whether a score means the same thing for every group; see `isonomy.predictive_parity`."""

    question: ClassVar[str] = wording.PARITY_QUESTION
    method: ClassVar[str] = wording.PARITY_METHOD
    references: ClassVar[tuple[str, ...]] = wording.REFERENCES

    families: tuple[ParityFamily, ...]
    pvalue: float
    alpha: float
    tolerance: float | None
    test: str
    level: str
    clustered: bool
    minimum: int = 0  # groups with fewer rows are withheld

    @property
    def ordering_pvalue(self) -> float:
        """P-value of the order (Definition 2): the smallest of the families', each adjusted for all of them."""
        return smallest([family.order.pvalue for family in self.families])

    @property
    def ordering_verdict(self) -> Verdict:
        """Violation if a reversed order was shown."""
        return Verdict.VIOLATION if self.ordering_pvalue <= self.alpha else Verdict.INCONCLUSIVE

    def table(self) -> dict[str, Any]:
        """One line for each pair of groups and grid point."""
        parts = [_lines(family) for family in self.families]
        return {name: joined([part[name] for part in parts]) for name in parts[0]}

    def findings(self) -> tuple[str, ...]:
        """What was found."""
        return wording.parity_findings(self)

    def assumptions(self) -> tuple[tuple[str, str], ...]:
        """What is assumed."""
        return wording.parity_assumptions(self)

    def limits(self) -> tuple[str, ...]:
        """What this does not show."""
        return wording.PARITY_LIMITS

    def plot(
        self, beside: ParityResult | None = None, names: tuple[str, str] = ("before", "after")
    ) -> alt.TopLevelMixin:
        """Curves with intervals, and differences with their bands and the null.

        With ``beside`` another result, the curves of both side by side: before and after a correction, or user level
        against aggregate; ``names`` are their titles.
        """
        from isonomy.calibration import figure

        return figure.parity(self, beside, names)

    def suppressed(self, minimum: int) -> Self:
        """A copy that withholds groups with fewer than ``minimum`` rows."""
        families = tuple(family.without(family.size < minimum) for family in self.families)
        return replace(self, families=families, minimum=minimum)


def _lines(family: ParityFamily) -> dict[str, Any]:
    points = family.grid.size
    i, j = family.pairs[:, 0], family.pairs[:, 1]
    flat: dict[str, Any] = {
        "group": [family.groups[g].label for g in i for _ in range(points)],
        "reference": [family.groups[g].label for g in j for _ in range(points)],
        "score": np.tile(family.grid, len(i)),
        "estimate": family.curve[i].ravel(),
        "estimate_low": family.curve_low[i].ravel(),
        "estimate_high": family.curve_high[i].ravel(),
        "reference_estimate": family.curve[j].ravel(),
        "reference_low": family.curve_low[j].ravel(),
        "reference_high": family.curve_high[j].ravel(),
        "difference": family.difference.ravel(),
        "se": family.se.ravel(),
        "ci_low": family.low.ravel(),
        "ci_high": family.high.ravel(),
        "pvalue": family.pvalue_at.ravel(),
        "adjusted_pvalue": family.adjusted_at.ravel(),
        "effective_n": family.effective[i].ravel(),
        "reference_effective_n": family.effective[j].ravel(),
        "bandwidth": np.tile(family.bandwidth, len(i)),
    }
    hidden = hidden_pairs(family)
    flat["status"] = [
        Status.SUPPRESSED if hide else Status.OK if ok else Status.UNSUPPORTED
        for hide, line in zip(hidden, family.supported, strict=True)
        for ok in line
    ]
    return flat


def hidden_pairs(family: Any) -> list[bool]:
    """Which pairs have a withheld group."""
    return [bool(np.isnan(family.size[pair]).any()) for pair in family.pairs]


def joined(parts: list[Any]) -> Any:
    """Columns of several families, one after the other."""
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    return [item for part in parts for item in part]
