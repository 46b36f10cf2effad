"""What `marginal_outcomes` and `equalize_thresholds` return."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from isonomy.calibration import wording
from isonomy.calibration.result import Frozen, hidden_pairs, joined
from isonomy.frames import Group
from isonomy.numerics.arrays import FloatArray
from isonomy.results import Result, Status, Verdict, storable, suppress

if TYPE_CHECKING:
    import altair as alt


@storable
@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class MarginalFamily(Frozen):
    """Outcomes at the threshold for the groups made by one set of dimensions, and their differences by pair."""

    dimensions: tuple[str, ...]
    groups: tuple[Group, ...]
    size: FloatArray  # rows from the threshold up
    users: FloatArray
    spanning: int
    bandwidth: float
    estimate: FloatArray
    se: FloatArray
    estimate_low: FloatArray
    estimate_high: FloatArray
    effective: FloatArray
    pairs: NDArray[np.intp]
    difference: FloatArray
    difference_se: FloatArray
    low: FloatArray
    high: FloatArray
    pair_pvalue: FloatArray
    pair_adjusted: FloatArray
    pair_verdicts: tuple[Verdict, ...]
    pvalue: float
    verdict: Verdict

    @property
    def supported(self) -> NDArray[np.bool_]:
        """Which pairs are compared."""
        return np.isfinite(self.difference)

    def without(self, small: NDArray[np.bool_]) -> MarginalFamily:
        """A copy that withholds the numbers of the groups marked ``small``."""
        hidden = small[self.pairs].any(axis=1)
        changes: dict[str, Any] = {}
        own = ("size", "users", "estimate", "se", "estimate_low", "estimate_high", "effective")
        shared = ("difference", "difference_se", "low", "high", "pair_pvalue", "pair_adjusted")
        for names, mask in ((own, small), (shared, hidden)):
            for name in names:
                values = np.array(getattr(self, name), dtype=np.float64)
                values[mask] = np.nan
                changes[name] = values
        return replace(self, **changes)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class MarginalResult(Result):
    """Outcomes of those at the threshold, by group; see `isonomy.marginal_outcomes`."""

    question: ClassVar[str] = wording.MARGINAL_QUESTION
    method: ClassVar[str] = wording.MARGINAL_METHOD
    references: ClassVar[tuple[str, ...]] = wording.REFERENCES

    families: tuple[MarginalFamily, ...]
    pvalue: float
    threshold: float
    alpha: float
    test: str
    clustered: bool
    minimum: int = 0

    def table(self) -> dict[str, Any]:
        """One line for each pair of groups."""
        columns: dict[str, list[Any]] = {}
        for family in self.families:
            i, j = family.pairs[:, 0], family.pairs[:, 1]
            hidden = hidden_pairs(family)
            part: dict[str, Any] = {
                "group": [family.groups[g].label for g in i],
                "reference": [family.groups[g].label for g in j],
                "n": family.size[i],
                "reference_n": family.size[j],
                "estimate": family.estimate[i],
                "estimate_low": family.estimate_low[i],
                "estimate_high": family.estimate_high[i],
                "reference_estimate": family.estimate[j],
                "reference_low": family.estimate_low[j],
                "reference_high": family.estimate_high[j],
                "difference": family.difference,
                "se": family.difference_se,
                "ci_low": family.low,
                "ci_high": family.high,
                "pvalue": family.pair_pvalue,
                "adjusted_pvalue": family.pair_adjusted,
                "effective_n": family.effective[i],
                "reference_effective_n": family.effective[j],
                "verdict": family.pair_verdicts,
                "status": [
                    Status.SUPPRESSED if hide else Status.OK if ok else Status.UNSUPPORTED
                    for hide, ok in zip(hidden, family.supported, strict=True)
                ],
            }
            for name, values in part.items():
                columns.setdefault(name, []).append(values)
        return {name: joined(parts) for name, parts in columns.items()}

    def findings(self) -> tuple[str, ...]:
        """What was found."""
        return wording.marginal_findings(self)

    def assumptions(self) -> tuple[tuple[str, str], ...]:
        """What is assumed."""
        return wording.marginal_assumptions(self)

    def limits(self) -> tuple[str, ...]:
        """What this does not show."""
        return wording.MARGINAL_LIMITS

    def plot(self) -> alt.TopLevelMixin:
        """The outcome at the threshold in each group, with its interval."""
        from isonomy.calibration import figure

        return figure.marginal(self)

    def suppressed(self, minimum: int) -> Self:
        """A copy that withholds groups with fewer than ``minimum`` rows from the threshold up."""
        families = tuple(family.without(family.size < minimum) for family in self.families)
        return replace(self, families=families, minimum=minimum)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ThresholdsResult(Result):
    """Group thresholds with equal marginal outcomes; see `isonomy.equalize_thresholds`."""

    question: ClassVar[str] = wording.THRESHOLDS_QUESTION
    method: ClassVar[str] = wording.THRESHOLDS_METHOD
    references: ClassVar[tuple[str, ...]] = wording.REFERENCES

    groups: tuple[Group, ...]
    size: FloatArray
    threshold: float
    thresholds: FloatArray
    marginal_before: FloatArray
    marginal_after: FloatArray
    marginal_se: FloatArray
    target: float
    rate_before: FloatArray
    rate_after: FloatArray
    overall_before: float
    overall_after: float
    direction: str
    status: tuple[Status, ...]

    def table(self) -> dict[str, Any]:
        """One line for each group."""
        return {
            "group": [group.label for group in self.groups],
            "size": self.size,
            "threshold": np.full(len(self.groups), self.threshold),
            "new_threshold": self.thresholds,
            "marginal_before": self.marginal_before,
            "marginal_after": self.marginal_after,
            "marginal_se": self.marginal_se,
            "rate_before": self.rate_before,
            "rate_after": self.rate_after,
            "status": list(self.status),
        }

    def summary(self) -> str:
        """The thresholds in words. Nothing is tested, so there is no verdict to give."""
        return wording.threshold_summary(self)

    def findings(self) -> tuple[str, ...]:
        """The thresholds and what they do."""
        return wording.threshold_findings(self)

    def assumptions(self) -> tuple[tuple[str, str], ...]:
        """What is assumed."""
        return wording.THRESHOLDS_ASSUMPTIONS

    def limits(self) -> tuple[str, ...]:
        """What this does not show."""
        return wording.THRESHOLDS_LIMITS

    def plot(self) -> alt.TopLevelMixin:
        """Thresholds before and after, with the outcome at each."""
        from isonomy.calibration import figure

        return figure.thresholds(self)

    def suppressed(self, minimum: int) -> Self:
        """A copy that withholds groups with fewer than ``minimum`` rows."""
        names = ("thresholds", "marginal_before", "marginal_after", "marginal_se", "rate_before", "rate_after", "size")
        return suppress(self, self.size < minimum, names)
