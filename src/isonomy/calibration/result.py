"""What the calls of this folder return."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

import numpy as np

from isonomy.calibration import wording
from isonomy.calibration.decide import Decisions, FamilyDecisions
from isonomy.calibration.estimate import Curves, Estimates, MarginalEstimates, Margins, Pairs
from isonomy.calibration.plan import MarginalPlan, Plan
from isonomy.calibration.smoothing.orders import Order
from isonomy.calibration.tally import Tally
from isonomy.frames import Group
from isonomy.inference import overall
from isonomy.inference.multiplicity import smallest
from isonomy.numerics.arrays import BoolArray, FloatArray
from isonomy.results import Call, Columns, Result, Status, Verdict, storable
from isonomy.results.disclosure import withheld
from isonomy.results.shape import read_only

if TYPE_CHECKING:
    import altair as alt

MOST_PAIRS = 1_000  # in the findings
storable(Order)


@dataclass(frozen=True, eq=False, kw_only=True)
class Family(Pairs, ABC):
    """What the families of both tests share: pairs of groups, their verdicts, and how they are laid out."""

    __slots__ = ()  # its own fields have theirs in the two families
    # Numbers that are withheld with a small group, and with a pair that has one.
    of_groups: ClassVar[tuple[str, ...]] = ("size", "users", "effective")
    of_pairs: ClassVar[tuple[str, ...]] = ("difference", "low", "high", "pair_pvalue", "pair_adjusted")

    pair_adjusted: FloatArray
    pair_verdicts: tuple[Verdict, ...]
    verdict: Verdict

    def __post_init__(self) -> None:
        read_only(self)

    @classmethod
    def of(cls, estimates: Pairs, decisions: FamilyDecisions) -> Self:
        """The estimates of a family as they are, with what was shown; its p-value is the adjusted one."""
        numbers: dict[str, Any] = {item.name: getattr(estimates, item.name) for item in fields(estimates)}
        numbers |= {"pvalue": decisions.pvalue, "pair_adjusted": decisions.adjusted}
        if decisions.order_verdict is not None:
            order = replace(numbers["order"], pvalue=decisions.order_pvalue)
            numbers |= {"order": order, "order_verdict": decisions.order_verdict}
        return cls(**numbers, pair_verdicts=decisions.verdicts, verdict=decisions.verdict)

    @abstractmethod
    def table(self) -> Columns:
        """One row for each pair of groups (and grid point)."""

    def without(self, small: BoolArray) -> Self:
        """A copy that withholds the numbers of the groups marked ``small``."""
        concerned: BoolArray = np.asarray(small[self.pairs].any(axis=1))
        masks = dict.fromkeys(self.of_groups, small) | dict.fromkeys(self.of_pairs, concerned)
        changes: dict[str, Any] = {n: np.where(mask, np.nan, getattr(self, n).T).T for n, mask in masks.items()}
        verdicts = withheld_verdicts(self.pair_verdicts, concerned)
        order = getattr(self, "order_verdict", None)
        whole = overall([*verdicts, *([] if order is None else [order])])
        return replace(self, **changes, pair_verdicts=verdicts, verdict=whole if concerned.any() else self.verdict)

    @property
    def supported(self) -> BoolArray:
        """Where each pair is compared: enough users near the score in both groups."""
        return np.isfinite(self.difference)

    def labels(self, pair: int) -> tuple[str, str]:
        """The names of the two groups of a pair."""
        i, j = self.pairs[pair]
        return self.groups[i].label, self.groups[j].label

    def ranked(self) -> list[int]:
        """The compared pairs whose verdict is the family's, by adjusted p-value; then the others."""
        others = np.array([verdict is not self.verdict for verdict in self.pair_verdicts])
        order = [int(pair) for pair in np.lexsort([self.pair_adjusted, others])]
        return [pair for pair in order if self.supported[pair].any() and not np.isnan(self.pair_adjusted[pair])]

    def statuses(self) -> list[Status]:
        """Of each difference."""
        hidden = np.atleast_1d(np.isnan(self.size[self.pairs]).any(axis=1))
        return [
            Status.SUPPRESSED if hide else Status.OK if known else Status.UNSUPPORTED
            for hide, row in zip(hidden, self.supported.reshape(len(self.pairs), -1), strict=True)
            for known in row
        ]

    def numbers(self, estimates: Sequence[FloatArray], errors: Sequence[FloatArray]) -> dict[str, FloatArray]:
        """The columns of both tests' tables.

        ``estimates``: of each group, with the ends of their intervals; ``errors``: the differences' standard errors,
        p-values and adjusted p-values.
        """
        i, j = self.pairs[:, 0], self.pairs[:, 1]
        columns = {f"estimate{end}": values[i] for end, values in zip(_ENDS, estimates, strict=True)}
        columns |= {f"reference{end or '_estimate'}": values[j] for end, values in zip(_ENDS, estimates, strict=True)}
        se, pvalue, adjusted = errors
        columns |= {"difference": self.difference, "se": se, "ci_low": self.low, "ci_high": self.high}
        columns |= {"pvalue": pvalue, "adjusted_pvalue": adjusted}
        columns |= {"effective_n": self.effective[i], "reference_effective_n": self.effective[j]}
        return {name: values.ravel() for name, values in columns.items()}


_ENDS = ("", "_low", "_high")


@storable
@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ParityFamily(Family, Curves):
    """Curves, bands and tests for the groups made by one set of dimensions.

    Arrays are (groups, points) or (pairs, points). Curves have pointwise intervals, differences bands that hold at all
    supported points together; unsupported points are NaN.
    """

    of_groups: ClassVar[tuple[str, ...]] = (*Family.of_groups, "curve", "curve_low", "curve_high")
    of_pairs: ClassVar[tuple[str, ...]] = (
        *(*Family.of_pairs, "se", "pvalue_at", "adjusted_at", "pair_statistic", "pointwise_low", "pointwise_high"),
    )

    order_verdict: Verdict | None = None  # None: the order was not tested

    def without(self, small: BoolArray) -> Self:
        """A copy that withholds the numbers of the groups marked ``small``."""
        concerned = self.order.better >= 0 and (small[self.order.better] or small[self.order.worse])
        return replace(Family.without(self, small), order=Order(self.order.pvalue) if concerned else self.order)

    def table(self) -> Columns:
        """One row for each pair of groups and grid point."""
        points, size = self.grid.size, len(self.pairs)
        curves = (self.curve, self.curve_low, self.curve_high)
        return {
            "group": [self.groups[g].label for g in self.pairs[:, 0] for _ in range(points)],
            "reference": [self.groups[g].label for g in self.pairs[:, 1] for _ in range(points)],
            "score": np.tile(self.grid, size),
            **self.numbers(curves, (self.se, self.pvalue_at, self.adjusted_at)),
            "bandwidth": np.tile(self.bandwidth, size),
            "status": self.statuses(),
        }

    def findings(self, alpha: float, tolerance: float | None, families: int, *, binary: bool) -> list[str]:
        """The family's test, its clearest pairs, and the order."""
        if np.isnan(self.pair_adjusted).all():
            ordered = self.order_verdict is not None
            return [wording.not_compared(self.dimensions, ordered=ordered), self._order(binary)]
        compared = np.unique(self.pairs[self.supported.any(axis=1)]).size or len(self.groups)
        sizes = (compared, int(self.supported.any(axis=0).sum()), families)
        shown = overall(self.pair_verdicts), smallest(self.pair_adjusted)
        first = wording.family_finding(self.dimensions, *shown, tolerance, *sizes, binary=binary)
        if not self.supported.any():
            return [first, wording.NOWHERE, self._order(binary)]
        clearest = [self._pair(pair, alpha, binary) for pair in self.ranked()[:MOST_PAIRS]]
        return [first, *clearest, self._order(binary)]

    def _pair(self, pair: int, alpha: float, binary: bool) -> str:
        at = int(np.nanargmax(np.abs(self.difference[pair] / self.se[pair])))
        ends = self.low[pair, at], self.high[pair, at]
        tested = self.labels(pair), self.pair_verdicts[pair], self.pair_adjusted[pair]
        return wording.pair_finding(*tested, self.grid[at], self.difference[pair, at], ends, alpha, binary=binary)

    def _order(self, binary: bool) -> str:
        order = self.order
        if self.order_verdict is None:
            return wording.ORDER_NOT_TESTED
        if order.better < 0 or self.order_verdict is not Verdict.VIOLATION:
            return wording.order_not_shown(order.pvalue, self.order_verdict)
        better, worse = self.groups[order.better].label, self.groups[order.worse].label
        numbers = (order.pvalue, better, order.at, order.difference, worse, order.above)
        return wording.order_reversed(*numbers, binary=binary)


@storable
@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class MarginalFamily(Family, Margins):
    """Outcomes at the threshold for the groups made by one set of dimensions, and their differences by pair."""

    of_groups: ClassVar[tuple[str, ...]] = (*Family.of_groups, "estimate", "se", "estimate_low", "estimate_high")
    of_pairs: ClassVar[tuple[str, ...]] = (*Family.of_pairs, "difference_se")

    def table(self) -> Columns:
        """One row for each pair of groups."""
        i, j = self.pairs[:, 0], self.pairs[:, 1]
        estimates = (self.estimate, self.estimate_low, self.estimate_high)
        return {
            "group": [self.groups[g].label for g in i],
            "reference": [self.groups[g].label for g in j],
            "n": self.size[i],
            "reference_n": self.size[j],
            **self.numbers(estimates, (self.difference_se, self.pair_pvalue, self.pair_adjusted)),
            "verdict": self.pair_verdicts,
            "status": self.statuses(),
        }

    def findings(self, alpha: float, *, binary: bool) -> list[str]:
        """Each pair, then the outcome at the threshold by group."""
        findings = [self._pair(pair, alpha, binary) for pair in self.ranked()[:MOST_PAIRS]]
        if not self.supported.any():
            findings.append(wording.not_compared(self.dimensions, margin=True))
        numbers = zip(self.groups, self.estimate, self.estimate_low, self.estimate_high, self.size, strict=True)
        return findings + [
            wording.group_margin(group.label, estimate, (low, high), alpha, rows, binary=binary)
            for group, estimate, low, high, rows in numbers
            if not np.isnan(estimate)
        ]

    def _pair(self, pair: int, alpha: float, binary: bool) -> str:
        tested = self.labels(pair), self.pair_verdicts[pair], self.pair_adjusted[pair]
        ends = (self.low[pair], self.high[pair])
        return wording.margin_finding(*tested, self.difference[pair], ends, alpha, binary=binary)


F = TypeVar("F", ParityFamily, MarginalFamily)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class FamiliesResult(Result, Generic[F]):
    """What the results of both tests share."""

    references: ClassVar[tuple[str, ...]] = wording.REFERENCES

    families: tuple[F, ...]
    pvalue: float
    alpha: float
    test: str
    clustered: bool
    minimum: int = 0  # groups with fewer rows are withheld
    binary: bool = False  # whether every outcome is 0 or 1: expected outcomes are shares then

    def units(self) -> Mapping[str, str]:
        """Outcomes of 0 and 1 in percent, and their differences in points."""
        outcomes = [f"estimate{end}" for end in _ENDS] + [f"reference{end or '_estimate'}" for end in _ENDS]
        differences = ("difference", "se", "ci_low", "ci_high")
        return dict.fromkeys(outcomes, "%") | dict.fromkeys(differences, "points") if self.binary else {}

    def table_note(self) -> str:
        """That a difference is not that of the two columns beside it, unless it is."""
        return "" if self.test in wording.AVERAGES else wording.OWN_DIFFERENCE

    def table(self) -> Columns:
        """One row for each pair of groups (and grid point), family after family."""
        parts = [family.table() for family in self.families]
        columns = {name: [part[name] for part in parts] for name in parts[0]}
        return {
            name: np.concatenate(values) if isinstance(values[0], np.ndarray) else list(chain(*values))  # type: ignore[arg-type]
            for name, values in columns.items()
        }

    def assumptions(self) -> tuple[tuple[str, str], ...]:
        """What is assumed, and how it was checked or why it cannot be."""
        return (wording.independent(self.clustered, self.rows_assumed()), *self.always_assumed)

    def deciding_first(self) -> list[F]:
        """The families; what decides the verdict comes first.

        One family that was not compared keeps all from being within tolerance.
        """
        return sorted(self.families, key=lambda f: (f.verdict is not self.verdict, np.nan_to_num(f.pvalue, nan=np.inf)))

    def suppressed(self, minimum: int, also: Collection[str] = ()) -> Self:
        """A copy that withholds groups with fewer than ``minimum`` rows (from the threshold up), or in ``also``."""
        small = hidden_groups(self._groups, self._size, minimum, also, self.provenance.rows)
        parts = np.split(small, np.cumsum([len(family.groups) for family in self.families])[:-1])
        families = tuple(family.without(part) for family, part in zip(self.families, parts, strict=True))
        verdict = overall([family.verdict for family in families]) if small.any() else self.verdict
        return replace(self, families=families, minimum=minimum, verdict=verdict)

    def withheld_labels(self) -> tuple[frozenset[str], frozenset[str]]:
        """The names of the groups that are withheld, and of those that are not."""
        return withheld_names(self._groups, np.isnan(self._size))

    @property
    def _groups(self) -> tuple[Group, ...]:
        return tuple(group for family in self.families for group in family.groups)

    @property
    def _size(self) -> FloatArray:
        return np.concatenate([family.size for family in self.families])


def hidden_groups(
    groups: Sequence[Group], size: FloatArray, minimum: int, also: Collection[str], rows: int | None
) -> BoolArray:
    """The groups that are withheld: small ones, those in ``also``, and those that would give them away."""
    hidden = np.isnan(size) | np.array([group.label in also for group in groups], dtype=bool)
    return withheld(groups, size, (size < minimum) | hidden, minimum, rows=rows)


def withheld_verdicts(verdicts: Sequence[Verdict], hidden: BoolArray) -> tuple[Verdict, ...]:
    """The verdicts of pairs; what is hidden of one shows nothing."""
    pairs = zip(verdicts, hidden, strict=True)
    return tuple(Verdict.INCONCLUSIVE if hide else verdict for verdict, hide in pairs)


def withheld_names(groups: Sequence[Group], hidden: BoolArray) -> tuple[frozenset[str], frozenset[str]]:
    """The names of hidden groups, and of the others."""
    names = frozenset(group.label for group, hide in zip(groups, hidden, strict=True) if hide)
    return names, frozenset(group.label for group in groups) - names


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ParityResult(FamiliesResult[ParityFamily]):
    """Whether a score means the same thing for every group; see `isonomy.predictive_parity`."""

    question: ClassVar[str] = wording.PARITY_QUESTION
    method: ClassVar[str] = wording.PARITY_METHOD
    always_assumed: ClassVar[tuple[tuple[str, str], ...]] = wording.PARITY_ASSUMPTIONS
    never_shown: ClassVar[tuple[str, ...]] = wording.PARITY_LIMITS

    tolerance: float | None
    level: str

    @classmethod
    def of(cls, call: Call, plan: Plan, tally: Tally, estimates: Estimates, decisions: Decisions) -> ParityResult:
        """Lay out what was found."""
        parts = zip(estimates.families, decisions.families, strict=True)
        return cls.gather(
            decisions,
            plan,
            plan.rows,
            null=wording.parity_null(
                plan.rows.level, plan.tolerance, plan.range, order=plan.order, binary=tally.families[0].binary
            ),
            provenance=call.provenance(
                rows=tally.rows, dropped=tally.dropped, level=plan.rows.level, grouping=plan.rows.grouping
            ),
            families=tuple(ParityFamily.of(*part) for part in parts),
            test=plan.method,
            clustered=plan.rows.user is not None,
            binary=tally.families[0].binary,
        )

    @property
    def parity_pvalue(self) -> float:
        """P-value of equal outcomes alone (Definition 1): the smallest of all pairs', adjusted."""
        return smallest([pvalue for family in self.families for pvalue in family.pair_adjusted])

    @property
    def ordering_pvalue(self) -> float:
        """P-value of the order alone (Definition 2's second part): the smallest of the families', adjusted.

        NaN where the order was not tested.
        """
        return smallest([family.order.pvalue for family in self.families])

    @property
    def ordering_verdict(self) -> Verdict:
        """Violation if a reversed order was shown; within tolerance if all reversals were shown to be.

        Inconclusive where the order was not tested.
        """
        return overall([family.order_verdict for family in self.families if family.order_verdict is not None])

    def findings(self) -> tuple[str, ...]:
        """Each family's test, its largest differences, and the order."""
        asked = (self.alpha, self.tolerance, len(self.families))
        return tuple(chain(*(f.findings(*asked, binary=self.binary) for f in self.deciding_first())))

    def plot(
        self, beside: ParityResult | None = None, names: tuple[str, str] = ("before", "after")
    ) -> alt.TopLevelMixin:
        """Curves with intervals, and differences with their bands and the null.

        With ``beside`` another result, the curves of both side by side: before and after a correction, or user level
        against aggregate; ``names`` are their titles.
        """
        from isonomy.calibration import figure

        if beside is not None:
            return figure.side_by_side(
                list(zip(self.families, beside.families, strict=False)), names, binary=self.binary
            )
        return figure.parity(
            self.families, pointwise=self.provenance.options.get("adjust") == "none", binary=self.binary
        )


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class MarginalResult(FamiliesResult[MarginalFamily]):
    """Outcomes of those at the threshold, by group; see `isonomy.marginal_outcomes`."""

    question: ClassVar[str] = wording.MARGINAL_QUESTION
    method: ClassVar[str] = wording.MARGINAL_METHOD
    always_assumed: ClassVar[tuple[tuple[str, str], ...]] = wording.MARGINAL_ASSUMPTIONS
    never_shown: ClassVar[tuple[str, ...]] = wording.MARGINAL_LIMITS

    threshold: float

    @classmethod
    def of(
        cls, call: Call, plan: MarginalPlan, tally: Tally, estimates: MarginalEstimates, decisions: Decisions
    ) -> MarginalResult:
        """Lay out what was found."""
        parts = zip(estimates.families, decisions.families, strict=True)
        return cls.gather(
            decisions,
            plan,
            null=wording.marginal_null(plan.threshold, plan.tolerance, binary=tally.families[0].binary),
            provenance=call.provenance(
                rows=tally.rows, dropped=tally.dropped, random=False, level=plan.rows.level, grouping=plan.rows.grouping
            ),
            families=tuple(MarginalFamily.of(*part) for part in parts),
            test=plan.method,
            clustered=plan.rows.user is not None,
            binary=tally.families[0].binary,
        )

    def findings(self) -> tuple[str, ...]:
        """Each pair, then the outcome at the threshold by group."""
        return tuple(chain(*(family.findings(self.alpha, binary=self.binary) for family in self.deciding_first())))

    def plot(self) -> alt.TopLevelMixin:
        """The outcome at the threshold in each group, with its interval."""
        from isonomy.calibration import figure

        return figure.marginal(self.families, binary=self.binary)
