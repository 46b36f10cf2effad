"""What `project` returns: the least change, how surprising it is, and who would have to move."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from isonomy.frames.groups import CONDITION, Group
from isonomy.numerics.arrays import FloatArray, IntArray
from isonomy.numerics.status import Status
from isonomy.results import Call, Columns, Result, Verdict, storable, suppress
from isonomy.results.disclosure import withheld
from isonomy.results.shape import as_frame, read_only
from isonomy.results.storage import OF_ROWS
from isonomy.transport import wording
from isonomy.transport.decide import Decisions
from isonomy.transport.estimate import Estimates
from isonomy.transport.plan import LawName, Plan
from isonomy.transport.program.cells import Cells
from isonomy.transport.program.criteria import Discerning, Event
from isonomy.transport.program.curve import ToleranceCurve
from isonomy.transport.program.tolerance import ToleranceSide, Tolerated
from isonomy.transport.tally import Movers, Tally

if TYPE_CHECKING:
    import altair as alt


MOST_GROUPS = 5  # groups that the findings name
_COMPARED = ("disparity", "ci_low", "ci_high", "detectable", "rows_needed")
_NUMBERS = ("n", "rate", *_COMPARED, "moved_up", "moved_down", "share_moved", "mean_distance")
storable(ToleranceCurve)


@storable
@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Movement:
    """The rows that would have to move, nearest first.

    ``row`` is the position in the data (-1 where an engine has no order), ``decision`` the decision as it is (0 or 1),
    ``fraction`` the share of the row that flips (1 but for the last ones), ``start`` and ``end`` the features before
    and after, where the distance knows them. `to_frame` says the same in words.
    """

    row: IntArray
    group: tuple[str, ...]
    outcome: IntArray  # -1 where none was given
    decision: IntArray
    distance: FloatArray
    fraction: FloatArray
    features: tuple[str, ...]
    start: FloatArray
    end: FloatArray
    complete: bool = True  # False where only the nearest are listed
    backend: str = "polars"  # the caller's library

    @classmethod
    def of(cls, movers: Movers, cells: Cells, features: tuple[str, ...], backend: str) -> Movement:
        """The rows that move, each with what its cell says of it."""
        names, cell = cells.names, movers.cell
        return cls(
            row=movers.row,
            group=tuple(names[i] for i in cell),
            outcome=np.full(cell.size, -1, dtype=np.intp) if cells.outcome is None else cells.outcome[cell],
            decision=cells.selected[cell],
            distance=movers.distance,
            fraction=movers.fraction,
            features=features if movers.end.shape[1] else (),
            start=movers.start,
            end=movers.end,
            complete=movers.complete,
            backend=backend,
        )

    def __post_init__(self) -> None:
        read_only(self)

    def table(self) -> Columns:
        """The columns of `to_frame`, in order. What is not known is empty, not -1: that would be a row's number."""
        columns: dict[str, Any] = {
            "row": _known(self.row),
            "group": self.group,
            "outcome": _known(self.outcome),
            "decision": [wording.flip(int(decision)) for decision in self.decision],
            "distance": self.distance,
            "fraction": self.fraction,
        }
        for j, name in enumerate(self.features):
            columns[f"{name} from"] = self.start[:, j]
            columns[f"{name} to"] = self.end[:, j]
        return columns

    def to_frame(self, backend: str | None = None) -> Any:
        """The rows in the caller's library (pandas, polars or pyarrow); polars for any other input."""
        return as_frame(self.table(), backend, self.backend)


def _used(cells: Cells, events: Sequence[Event]) -> float:
    """The rows whose rates are compared: those with one of the outcomes that the criterion is about."""
    member = np.zeros(cells.count.size, dtype=bool)
    for event in events:
        member |= True if event.label is None or cells.outcome is None else cells.outcome == event.label
    return cells.rows_of(member if events else ~member)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ProjectionResult(Result):
    """The least change that would make selection rates equal, the evidence against chance, and who would move.

    Attributes
    ----------
    statistic : float
        s, the least total distance; infinite when no set of flips is enough, NaN when the solver stopped early.
    tested_statistic : float
        What the law judges: ``statistic``, or that of scores spread over the steps of their lattice.
    pvalue : float
        Of the projection's law, or the Wald test's where ``status`` is not OK; NaN where nothing is tested (``status``
        is "constant", "few_clusters" or "few_events").
    critical_value : float
        The ``tested_statistic`` at which the p-value is ``alpha``; NaN where ``status`` is not OK, because the Wald
        test that stands in then is on another scale.
    wald_statistic, wald_pvalue : float
        The Wald test of the same rates (chi-square scale for the equality null).
    equivalence_pvalue : float
        Of the test that shows every difference to lie within the tolerance, when small; NaN without a tolerance.
    moved, overall_share, overall_distance : float
        Decisions that would have to flip, in all, their share of all decisions, and their mean distance; NaN where
        there is no plan.
    group, against : tuple of str
        One entry per group and label, as in all that follow: the group, and what it is compared with.
    outcome : tuple of int or None
        The label within which rates are compared.
    n, rate, disparity, ci_low, ci_high : ndarray
        Rows, selection rate, difference from the reference and its interval.
    tolerated_low, tolerated_high : ndarray
        The least and the largest difference that belongs to the null.
    detectable, rows_needed : ndarray
        The smallest difference that these rows would have shown, and the rows of the group from which equal rates
        would be shown to be within tolerance, each in 80 % of samples and for this comparison alone.
    moved_up, moved_down, share_moved, mean_distance : ndarray
        Rows of it that flip to selected and to refused, their share and mean distance.
    curve : ToleranceCurve or None
        What every other tolerance would have given, where it was asked for.
    reach : ndarray or None
        The furthest distance of each group. It is a single person's: a stored or suppressed result has None here.
    plan : Movement or None
        The rows that would have to move, nearest first, read from the table when they are asked for; None in a
        stored or suppressed result.
    """

    question: ClassVar[str] = wording.QUESTION
    method: ClassVar[str] = wording.METHOD
    references: ClassVar[tuple[str, ...]] = wording.REFERENCES
    always_assumed: ClassVar[tuple[tuple[str, str], ...]] = wording.ASSUMPTIONS

    criterion: str
    statistic: float
    tested_statistic: float
    pvalue: float
    critical_value: float
    wald_statistic: float
    wald_pvalue: float
    equivalence_pvalue: float
    status: Status
    tested: bool
    alpha: float
    tolerance: Tolerated | None
    tolerance_side: ToleranceSide
    bandwidth: float
    law: LawName
    weights: FloatArray  # of the chi-squares of the law
    moments: int
    rows: float
    moved: float
    overall_share: float
    overall_distance: float
    group: tuple[str, ...]
    against: tuple[str, ...]
    outcome: tuple[int | None, ...]
    n: FloatArray
    rate: FloatArray
    disparity: FloatArray
    ci_low: FloatArray
    ci_high: FloatArray
    tolerated_low: FloatArray
    tolerated_high: FloatArray
    detectable: FloatArray
    rows_needed: FloatArray
    moved_up: FloatArray
    moved_down: FloatArray
    share_moved: FloatArray
    mean_distance: FloatArray
    statuses: tuple[Status, ...]
    curve: ToleranceCurve | None
    chosen: str = "selected"  # what people are whose decision is 1
    reach: FloatArray | None = field(metadata=OF_ROWS)  # one person's distance
    listing: Movement | Callable[[], Movement] | None = field(metadata=OF_ROWS, repr=False)  # behind `plan`

    @classmethod
    def of(cls, call: Call, plan: Plan, tally: Tally, estimates: Estimates, decisions: Decisions) -> ProjectionResult:
        """Lay the numbers out."""
        cells, events, inference = tally.cells, estimates.events, estimates.inference
        criterion = wording.OWN if isinstance(plan.criterion, Discerning) else plan.criterion
        features, backend = plan.distance.columns, call.source.backend
        return cls.gather(
            decisions,
            inference,
            estimates,
            plan,
            null=wording.null(criterion, plan.tolerance, plan.tolerance_side),
            provenance=call.provenance(
                rows=round(_used(cells, events)),
                dropped=tally.dropped,
                random=inference.random or plan.curve,
                grouping=plan.grouping,
            ),
            criterion=criterion,
            statistic=inference.solution.value,
            tested=plan.distance.tested,
            moments=len(estimates.asked.names),
            rows=cells.rows,
            moved=float(inference.solution.moved.sum()),
            group=tuple(event.name for event in events),
            against=tuple(events[event.reference].name if event.reference >= 0 else "" for event in events),
            outcome=tuple(event.label for event in events),
            n=np.array([event.rows for event in events]),
            rate=np.array([event.rate for event in events]),
            ci_low=estimates.interval[0],
            ci_high=estimates.interval[1],
            tolerated_low=estimates.tolerated[0],
            tolerated_high=estimates.tolerated[1],
            moved_up=estimates.moved[0],
            moved_down=estimates.moved[1],
            listing=lambda: Movement.of(estimates.listing(), cells, features, backend),
        )

    @property
    def plan(self) -> Movement | None:
        """The rows that would have to move, nearest first: looked up in the table the first time it is asked for."""
        if self.listing is not None and not isinstance(self.listing, Movement):
            object.__setattr__(self, "listing", self.listing())
        return self.listing if isinstance(self.listing, Movement) else None

    def table(self) -> Columns:
        """One row per group and label."""
        numbers = {"selection_rate" if name == "rate" else name: getattr(self, name) for name in _NUMBERS}
        labels = {"group": self.group, "against": self.against, "outcome": self.outcome}
        furthest = {} if self.reach is None else {"reach": self.reach}
        return {**labels, **numbers, **furthest, "status": self.statuses}

    def units(self) -> Mapping[str, str]:
        """Rates in percent, and their differences in points; moments of one's own as they are."""
        if self.criterion == wording.OWN:
            return {}
        differences = ("disparity", "ci_low", "ci_high", "tolerated_low", "tolerated_high", "detectable")
        return {"selection_rate": "%", "share_moved": "%", **dict.fromkeys(differences, "points")}

    def to_dict(self, *, rows: bool = False) -> dict[str, object]:
        """The result in plain JSON types; who would move is left out, unless ``rows`` asks for it."""
        plan = self.plan if rows else None
        return Result.to_dict(replace(self, listing=plan and replace(plan, backend="polars")), rows=rows)

    def headline(self) -> str:
        """The verdict as a sentence."""
        if self.answered and self.criterion == wording.OWN:
            return wording.own_verdict(self.verdict, self.tolerance, self.tolerance_side)
        if self.verdict is Verdict.WITHIN_TOLERANCE and self.tolerance and self.tolerance_side != "both":
            return wording.within_one_side(self.tolerance, self.tolerance_side)
        return Result.headline(self)

    def findings(self) -> tuple[str, ...]:
        """Rates, the least change, the evidence, who would move, what the rows could show."""
        sentences = [self._difference(i) for i in self._largest()]
        if self.status in (Status.INFEASIBLE, Status.NOT_CONVERGED):
            sentences.append(wording.no_plan(self.status))
        else:
            change = (self.moved, self.rows, self.overall_share, self.statistic, self.overall_distance)
            sentences.append(wording.change(self.criterion, self.tolerance, self.tolerance_side, *change))
        sentences.append(self._evidence())
        if self.tolerance:
            sentences.append(self._equivalence(self.tolerance))
        if self.curve is not None:
            about = (self.tolerance_side, self.alpha)
            sentences.append(wording.least_difference(self.criterion, self.curve.least, *about))
            sentences.append(wording.largest_difference(self.criterion, self.curve.most, *about))
        moving = [i for i in np.argsort(-self.share_moved) if self.share_moved[i] > 0][:MOST_GROUPS]
        numbers = zip(self.share_moved, self.moved_up, self.moved_down, self.mean_distance, strict=True)
        moves = list(zip(self.group, self.outcome, numbers, strict=True))
        sentences += [wording.movers(self.criterion, *moves[i][:2], *moves[i][2]) for i in moving]
        plans = zip(self.group, self.outcome, self.detectable, self.rows_needed, self.n, strict=True)
        shown = list(plans)
        return (*sentences, *(wording.planning(self.criterion, *shown[i]) for i in self._largest()[:MOST_GROUPS]))

    def deciding(self) -> str:
        """The largest difference, and the test that decided."""
        if not self.answered:
            return self.headline()
        within = self.tolerance if self.verdict is Verdict.WITHIN_TOLERANCE else None
        test = self._evidence() if within is None else self._equivalence(within)
        return " ".join([*(self._difference(i) for i in self._largest()[:1]), test])

    def _largest(self) -> list[int]:
        """Places of the comparisons that were tested, largest difference first."""
        tested = [i for i, status in enumerate(self.statuses) if status is Status.OK]
        return sorted(tested, key=lambda i: -abs(self.disparity[i]))

    def _difference(self, i: int) -> str:
        low, high = float(self.ci_low[i]), float(self.ci_high[i])
        if np.isnan(self.rate[i]):
            return wording.moment(self.group[i], float(self.disparity[i]), low, high, self.alpha)
        rates = (float(self.rate[i]), float(self.rate[self._reference()[i]]), float(self.disparity[i]))
        return wording.disparity(
            self.group[i], self.against[i], self.outcome[i], rates, (low, high), self.alpha, self.chosen
        )

    def _evidence(self) -> str:
        return wording.evidence(
            self.criterion,
            self.pvalue,
            self.critical_value,
            self.alpha,
            self.wald_pvalue,
            self.status,
            self.tested,
            None if self.tested_statistic == self.statistic else self.tested_statistic,
        )

    def _equivalence(self, tolerance: Tolerated) -> str:
        return wording.equivalence(self.criterion, self.equivalence_pvalue, tolerance, self.tolerance_side)

    def limits(self) -> tuple[str, ...]:
        """What this does not show."""
        return wording.limits(self.tolerance)

    def plot(self) -> alt.TopLevelMixin:
        """Who would have to move, and how far; with the tolerance curve, where it was asked for."""
        from isonomy.transport.figure import picture

        return picture(self)

    def suppressed(self, minimum: int, also: Collection[str] = ()) -> Self:
        """A copy that withholds the numbers of small groups, and lists no single row of anybody."""
        unlisted = replace(self, listing=None, reach=None)
        small = (self.n < minimum) | np.isnan(self.n) | np.isin(self.group, list(also))
        base = np.isin(np.arange(len(self.group)), self._reference())
        # The groups compared with one and the same are everybody; those of one's own criterion may overlap.
        parts = [Group(((against or CONDITION, name),)) for name, against in zip(self.group, self.against, strict=True)]
        small = withheld(parts, self.n, small, minimum, kept=base)
        # A rate and its difference from the reference give the reference's rate away.
        given_away = small | np.isin(self._reference(), np.flatnonzero(small))
        few = self.moved_up + self.moved_down < minimum
        unlisted = replace(unlisted, mean_distance=np.where(few, np.nan, self.mean_distance))
        hidden = suppress(unlisted, given_away, _COMPARED, "statuses")
        return suppress(hidden, small, _NUMBERS, "statuses")

    def withheld_labels(self) -> tuple[frozenset[str], frozenset[str]]:
        """The names of the groups that are withheld, and of those that are not."""
        hidden = frozenset(name for name, n in zip(self.group, self.n, strict=True) if np.isnan(n))
        return hidden, frozenset(self.group) - hidden

    def _reference(self) -> IntArray:
        """The place of what each entry is compared with; -1 where there is none."""
        place = {key: i for i, key in enumerate(zip(self.group, self.outcome, strict=True))}
        keys = zip(self.against, self.outcome, strict=True)
        return np.array([place.get(key, -1) for key in keys], dtype=np.intp)


def _known(values: IntArray) -> IntArray | list[None]:
    """The numbers, or nothing at all where they are -1: all are known, or none."""
    return [None] * values.size if (values < 0).any() else values
