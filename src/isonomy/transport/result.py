"""What `project` returns: the least change, how surprising it is, and who would have to move."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from isonomy.numerics.arrays import FloatArray, IntArray
from isonomy.numerics.status import Status
from isonomy.results import Call, Columns, Result, Verdict, storable, suppress
from isonomy.results.shape import as_frame, read_only
from isonomy.results.storage import OF_ROWS
from isonomy.transport import wording
from isonomy.transport.decide import Decisions
from isonomy.transport.estimate import Estimates
from isonomy.transport.plan import Plan, ToleranceSide
from isonomy.transport.program.criteria import Discerning
from isonomy.transport.tally import Movers, Tally

if TYPE_CHECKING:
    import altair as alt

    from isonomy.transport.program.cells import Cells


LISTED = 5  # groups that the findings name
_COMPARED = ("disparity", "ci_low", "ci_high")
_NUMBERS = ("n", "rate", *_COMPARED, "moved_up", "moved_down", "share_moved", "mean_distance")


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


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ProjectionResult(Result):
    """The least change that would make selection rates equal, the evidence against chance, and who would move.

    Attributes
    ----------
    statistic
        s, the least total distance; infinite when no set of flips is enough, NaN when the solver stopped early.
    pvalue
        Of the projection's law, or the Wald test's where ``status`` is not OK; NaN where nothing is tested.
    critical_value
        The ``statistic`` at which the p-value is ``alpha``; NaN where ``status`` is not OK, because the Wald test that
        stands in then is on another scale.
    wald_statistic, wald_pvalue
        The Wald test of the same rates (chi-square scale for the equality null).
    equivalence_pvalue
        Of the test that shows every difference to lie within the tolerance, when small; NaN without a tolerance.
    moved
        Decisions that would have to flip, in all; NaN where there is no plan.
    group, against, outcome, n, rate, disparity, ci_low, ci_high
        One entry per group and label: what it is compared with, rows, selection rate, difference and its interval.
    moved_up, moved_down, share_moved, mean_distance
        Rows of it that flip to selected and to refused, their share and mean distance.
    reach, plan
        The furthest distance of each group, and the rows, nearest first. They are single people's: a stored or
        suppressed result has None here.
    """

    question: ClassVar[str] = wording.QUESTION
    method: ClassVar[str] = wording.METHOD
    references: ClassVar[tuple[str, ...]] = wording.REFERENCES
    always_assumed: ClassVar[tuple[tuple[str, str], ...]] = wording.ASSUMPTIONS

    criterion: str
    statistic: float
    pvalue: float
    critical_value: float
    wald_statistic: float
    wald_pvalue: float
    equivalence_pvalue: float
    status: Status
    tested: bool
    alpha: float
    tolerance: float | None
    tolerance_side: ToleranceSide
    bandwidth: float
    weights: FloatArray  # of the chi-squares of the law
    moments: int
    rows: float
    moved: float
    group: tuple[str, ...]
    against: tuple[str, ...]
    outcome: tuple[int | None, ...]
    n: FloatArray
    rate: FloatArray
    disparity: FloatArray
    ci_low: FloatArray
    ci_high: FloatArray
    moved_up: FloatArray
    moved_down: FloatArray
    share_moved: FloatArray
    mean_distance: FloatArray
    statuses: tuple[Status, ...]
    reach: FloatArray | None = field(metadata=OF_ROWS)  # one person's distance
    plan: Movement | None = field(metadata=OF_ROWS)

    @classmethod
    def of(cls, call: Call, plan: Plan, tally: Tally, estimates: Estimates, decisions: Decisions) -> ProjectionResult:
        """Lay the numbers out."""
        cells, events, inference = tally.cells, estimates.events, estimates.inference
        criterion = wording.OWN if isinstance(plan.criterion, Discerning) else plan.criterion
        return cls.gather(
            decisions,
            inference,
            estimates,
            plan,
            null=wording.null(criterion, plan.tolerance, plan.tolerance_side),
            provenance=call.provenance(
                rows=round(cells.rows), dropped=tally.dropped, random=plan.null.side != "equality"
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
            n=np.array([event.count for event in events]),
            rate=np.array([event.rate for event in events]),
            ci_low=estimates.interval[0],
            ci_high=estimates.interval[1],
            moved_up=estimates.moved[0],
            moved_down=estimates.moved[1],
            plan=Movement.of(estimates.movers, cells, plan.distance.columns, call.source.backend),
        )

    def table(self) -> Columns:
        """One row per group and label."""
        numbers = {"selection_rate" if name == "rate" else name: getattr(self, name) for name in _NUMBERS}
        labels = {"group": self.group, "against": self.against, "outcome": self.outcome}
        furthest = {} if self.reach is None else {"reach": self.reach}
        return {**labels, **numbers, **furthest, "status": self.statuses}

    def to_dict(self, *, rows: bool = False) -> dict[str, object]:
        """The result in plain JSON types; who would move is left out, unless ``rows`` asks for it."""
        listed = replace(self.plan, backend="polars") if rows and self.plan is not None else None
        return Result.to_dict(replace(self, plan=listed), rows=rows)

    def headline(self) -> str:
        """The verdict as a sentence."""
        if self.answered and self.criterion == wording.OWN:
            return wording.own_verdict(self.verdict, self.tolerance, self.tolerance_side)
        if self.verdict is Verdict.WITHIN_TOLERANCE and self.tolerance and self.tolerance_side != "both":
            return wording.within_one_side(self.tolerance, self.tolerance_side)
        return Result.headline(self)

    def findings(self) -> tuple[str, ...]:
        """Rates, the least change, the evidence, who would move."""
        sentences = [self._difference(i) for i in self._largest()[:LISTED]]
        if self.status in (Status.INFEASIBLE, Status.NOT_CONVERGED):
            sentences.append(wording.no_plan(self.status))
        else:
            sentences.append(
                wording.change(
                    self.criterion, self.moved, self.rows, self.statistic, self.tolerance, self.tolerance_side
                )
            )
        sentences.append(self._evidence())
        if self.tolerance:
            sentences.append(self._equivalence(self.tolerance))
        moving = [i for i in np.argsort(-self.share_moved) if self.share_moved[i] > 0][:LISTED]
        numbers = zip(self.share_moved, self.moved_up, self.moved_down, self.mean_distance, strict=True)
        moves = list(zip(self.group, self.outcome, numbers, strict=True))
        return (*sentences, *(wording.movers(self.criterion, *moves[i][:2], *moves[i][2]) for i in moving))

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
        rate = float(self.rate[i])
        other = rate - float(self.disparity[i])
        return wording.disparity(self.group[i], self.against[i], self.outcome[i], rate, other, low, high, self.alpha)

    def _evidence(self) -> str:
        return wording.evidence(
            self.criterion, self.pvalue, self.critical_value, self.alpha, self.wald_pvalue, self.status, self.tested
        )

    def _equivalence(self, tolerance: float) -> str:
        return wording.equivalence(self.criterion, self.equivalence_pvalue, tolerance, self.tolerance_side)

    def limits(self) -> tuple[str, ...]:
        """What this does not show."""
        return wording.limits(self.tolerance)

    def plot(self) -> alt.TopLevelMixin:
        """Who would have to move, and how far."""
        from isonomy.transport.figure import movement_chart

        return movement_chart(self)

    def suppressed(self, minimum: int) -> Self:
        """A copy that withholds the numbers of small groups, and lists no single row of anybody."""
        unlisted = replace(self, plan=None, reach=None)
        small = self.n < minimum
        # A rate and its difference from the reference give the reference's rate away.
        given_away = small | np.isin(self._reference(), np.flatnonzero(small))
        few = self.moved_up + self.moved_down < minimum
        unlisted = replace(unlisted, mean_distance=np.where(few, np.nan, self.mean_distance))
        hidden = suppress(unlisted, given_away, _COMPARED, "statuses")
        return suppress(hidden, small, _NUMBERS, "statuses")

    def _reference(self) -> IntArray:
        """The place of what each entry is compared with; -1 where there is none."""
        place = {key: i for i, key in enumerate(zip(self.group, self.outcome, strict=True))}
        keys = zip(self.against, self.outcome, strict=True)
        return np.array([place.get(key, -1) for key in keys], dtype=np.intp)


def _known(values: IntArray) -> IntArray | list[None]:
    """The numbers, or nothing at all where they are -1: all are known, or none."""
    return [None] * values.size if (values < 0).any() else values
