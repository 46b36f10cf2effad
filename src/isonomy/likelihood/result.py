"""What `flag` and `certify` return."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from isonomy.errors import UsageError, fraction
from isonomy.frames import Group
from isonomy.likelihood import wording
from isonomy.likelihood.region import Disparities, Region
from isonomy.numerics.arrays import FloatArray
from isonomy.numerics.status import Status
from isonomy.numerics.tails import chi2_isf, normal_isf, normal_sf
from isonomy.results import Result, Verdict, suppress

if TYPE_CHECKING:
    import altair as alt


# Groups described in words; the table has them all.
DESCRIBED = 10
# Lines (cells or rows) up to which a certification carries its data into JSON, so that `contains` works after
# reading back.
STORED_LINES = 50_000
WITHHELD = ("size", "n", "estimate", "reference_value", "disparity", "standard_error", "ci_low", "ci_high")


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class GroupResult(Result):
    """What both results hold about each group; arrays have one entry a group."""

    method: ClassVar[str] = wording.METHOD
    references: ClassVar[tuple[str, ...]] = wording.REFERENCES

    metric: str
    reference: str
    joint: bool
    overlapping: bool
    alpha: float
    tolerance: float | None
    groups: tuple[Group, ...]
    size: FloatArray
    n: FloatArray
    estimate: FloatArray
    reference_value: FloatArray
    disparity: FloatArray
    standard_error: FloatArray
    ci_low: FloatArray
    ci_high: FloatArray
    status: tuple[Status, ...]

    @property
    def labels(self) -> tuple[str, ...]:
        """The groups' names."""
        return tuple(str(group) for group in self.groups)

    def _columns(self) -> dict[str, Any]:
        """The columns both tables begin with."""
        return {
            "group": list(self.labels),
            "size": self.size,
            "n": self.n,
            "estimate": self.estimate,
            "reference": self.reference_value,
            "disparity": self.disparity,
            "ci_low": self.ci_low,
            "ci_high": self.ci_high,
        }

    def detectable(self, power: float = 0.8) -> FloatArray:
        """The smallest disparity each group would show two-sided at ``alpha`` with this power, other groups aside.

        With a tolerance: the smallest that would be shown to lie beyond it.
        """
        fraction("power", power)
        room = (self.tolerance or 0.0) / self.standard_error
        # p = P(Z > x - room) + P(Z > x + room): between the one-sided and the two-sided law.
        low, high = room + float(normal_isf(self.alpha, sides="one")), room + float(normal_isf(self.alpha))
        for _ in range(50):
            middle = (low + high) / 2
            short = normal_sf(middle - room, sides="one") + normal_sf(middle + room, sides="one") > self.alpha
            low, high = np.where(short, middle, low), np.where(short, high, middle)
        return np.asarray((high + float(normal_isf(1.0 - power, sides="one"))) * self.standard_error)

    def assumptions(self) -> tuple[tuple[str, str], ...]:
        """What is assumed, and how it was checked or that it cannot be."""
        return wording.assumptions(joint=self.joint, reference=self.reference, overlapping=self.overlapping)

    def limits(self) -> tuple[str, ...]:
        """What this result does not show."""
        return wording.limits()

    def _drawn(self, verdicts: tuple[Verdict, ...], low: FloatArray, high: FloatArray, kind: str) -> alt.TopLevelMixin:
        """Intervals by group, coloured by ``verdicts``, with each group's null from ``low`` to ``high``."""
        from isonomy.likelihood.figure import intervals

        return intervals(self, verdicts, low, high, kind)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class FlagResult(GroupResult):
    """Every group's disparity, tested. `to_frame` has one line a group.

    ``statistic``, ``pvalue`` and ``adjusted_pvalue`` are NaN, and ``verdicts`` inconclusive, for groups that were
    not tested.
    """

    question: ClassVar[str] = wording.FLAG_QUESTION

    null_low: float
    null_high: float
    alternative: str
    adjust: str
    statistic: FloatArray
    pvalue: FloatArray
    adjusted_pvalue: FloatArray
    verdicts: tuple[Verdict, ...]
    contrast: str

    @property
    def flagged(self) -> tuple[Group, ...]:
        """The groups whose null was rejected."""
        return tuple(g for g, v in zip(self.groups, self.verdicts, strict=True) if v is Verdict.VIOLATION)

    def plot(self) -> alt.TopLevelMixin:
        """Intervals by group, sorted, with the null and the tolerance drawn."""
        low, high = (np.full(self.n.shape, end) for end in (self.null_low, self.null_high))
        return self._drawn(self.verdicts, low, high, str(self.provenance.options.get("interval", "pointwise")))

    def headline(self) -> str:
        """The verdict as a sentence; a one-sided tolerance says nothing about the other side."""
        if self.verdict is Verdict.WITHIN_TOLERANCE and self.alternative in wording.WITHIN:
            return wording.within_one_side(self.alternative)
        return Result.headline(self)

    def table(self) -> dict[str, Any]:
        """One line a group."""
        return {
            **self._columns(),
            "statistic": self.statistic,
            "pvalue": self.pvalue,
            "adjusted_pvalue": self.adjusted_pvalue,
            "verdict": list(self.verdicts),
            "status": list(self.status),
        }

    def findings(self) -> tuple[str, ...]:
        """An overview, then the groups with the smallest p-values, then what the reference's error changed."""
        tested = np.flatnonzero(~np.isnan(self.pvalue))
        order = tested[np.argsort(self.pvalue[tested], kind="stable")][:DESCRIBED]
        within = sum(v is Verdict.WITHIN_TOLERANCE for v in self.verdicts)
        listed = sum(s is not Status.REFERENCE for s in self.status)
        lines = [wording.flag_overview([str(g) for g in self.flagged], within, tested.size, listed, self.alternative)]
        lines += [
            wording.group_finding(
                group=str(self.groups[i]),
                metric=self.metric,
                n=float(self.n[i]),
                estimate=float(self.estimate[i]),
                reference=float(self.reference_value[i]),
                disparity=float(self.disparity[i]),
                interval=(float(self.ci_low[i]), float(self.ci_high[i])),
                alpha=self.alpha,
                pvalue=float(self.pvalue[i]),
                adjusted=float(self.adjusted_pvalue[i]),
                verdict=self.verdicts[i].value,
                alternative=self.alternative,
            )
            for i in order
        ]
        return tuple(lines + ([self.contrast] if self.contrast else []))

    def suppressed(self, minimum: int) -> Self:
        """A copy that withholds the numbers of groups with fewer than ``minimum`` rows."""
        small = (self.size < minimum) | (self.n < minimum)
        withheld = suppress(
            self,
            small,
            (*WITHHELD, "statistic", "pvalue", "adjusted_pvalue"),
        )
        verdicts = tuple(Verdict.INCONCLUSIVE if hide else v for v, hide in zip(self.verdicts, small, strict=True))
        # The sentence about the reference's error names groups.
        return replace(withheld, verdicts=verdicts, contrast="" if small.any() else self.contrast)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class CertifyResult(GroupResult):
    """One joint test of all groups, with simultaneous intervals. `to_frame` has one line a group."""

    question: ClassVar[str] = wording.CERTIFY_QUESTION
    decisive: ClassVar[tuple[str, ...]] = ("pvalue", "tolerance_pvalue")

    likelihood: str
    statistic: float
    df: int
    pvalue: float
    tolerance_pvalue: FloatArray
    null_disparity: FloatArray
    joint_status: Status
    region: Region | None

    def plot(self) -> alt.TopLevelMixin:
        """Intervals by group, sorted, with the null and the tolerance drawn.

        A group's colour says whether its simultaneous interval lies beyond the null (or the tolerance), within the
        tolerance, or neither.
        """
        reach = self.tolerance or 0.0
        low, high = self.null_disparity - reach, self.null_disparity + reach
        beyond = (self.ci_low > high) | (self.ci_high < low)
        within = (self.ci_low >= low) & (self.ci_high <= high) & (reach > 0)
        names = (Verdict.VIOLATION, Verdict.WITHIN_TOLERANCE, Verdict.INCONCLUSIVE)
        verdicts = tuple(names[k] for k in np.where(beyond, 0, np.where(within, 1, 2)))
        return self._drawn(verdicts, low, high, "simultaneous")

    def contains(self, disparities: Disparities) -> bool:
        """Whether the joint confidence region of level 1 - alpha holds these disparities.

        One number for all groups, one per tested group in the order of `to_frame`, or a mapping from group labels.
        The degrees of freedom are the rank of the estimating functions at these disparities.
        """
        if self.region is None:
            withheld = Status.SUPPRESSED in self.status
            why = "are withheld with the small groups" if withheld else "were too many to store"
            raise UsageError(f"contains: the rows behind this result {why}; call certify again.")
        found = self.region.test(disparities)
        if found.df == 0:
            return bool(found.statistic <= 0)
        return bool(found.statistic / self.region.factor <= chi2_isf(self.alpha, found.df))

    def table(self) -> dict[str, Any]:
        """One line a group; the intervals hold simultaneously."""
        return {**self._columns(), "status": list(self.status)}

    def findings(self) -> tuple[str, ...]:
        """What decided: the joint statistic, or with a tolerance the intervals; then the largest difference."""
        lines = [wording.certify_finding(self.statistic, self.df, self.pvalue, self.likelihood)]
        known = np.flatnonzero(~np.isnan(self.ci_low))
        if known.size:
            i = known[np.argmax(np.abs(self.disparity[known]))]
            ends = float(self.ci_low[i]), float(self.ci_high[i])
            lines.append(wording.largest_finding(str(self.groups[i]), float(self.disparity[i]), ends, self.alpha))
        if self.tolerance is None:
            return (*lines, wording.large_sample_note())
        outside = [str(self.groups[i]) for i in known if self.tolerance_pvalue[i] <= self.alpha]
        inside = (self.ci_low[known] >= -self.tolerance) & (self.ci_high[known] <= self.tolerance)
        decided = wording.tolerance_finding(outside, int(inside.sum()), known.size, self.tolerance)
        return (decided, *lines[1:], lines[0], wording.RESTS_ON_THE_TOLERANCE)

    def to_dict(self) -> dict[str, Any]:
        """The whole result in plain JSON types; the data behind `contains` only if they are few."""
        large = self.region is not None and self.region.value.size > STORED_LINES
        return Result.to_dict(replace(self, region=None) if large else self)

    def suppressed(self, minimum: int) -> Self:
        """A copy that withholds the numbers of groups with fewer than ``minimum`` rows."""
        small = (self.size < minimum) | (self.n < minimum)
        withheld = suppress(self, small, (*WITHHELD, "tolerance_pvalue"))
        return replace(withheld, region=None) if small.any() else withheld
