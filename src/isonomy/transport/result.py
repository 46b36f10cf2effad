"""What `project` returns: the least change, how surprising it is, and who would have to move."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from isonomy.errors import choose
from isonomy.numerics.arrays import FloatArray, IntArray
from isonomy.numerics.status import Status
from isonomy.results import Result, Verdict, storable, suppress
from isonomy.results.shape import FRAME_LIBRARIES, as_frame, read_only
from isonomy.transport import wording

if TYPE_CHECKING:
    import altair as alt


_COMPARED = ("disparity", "ci_low", "ci_high")
_WITHHELD = ("n", "rate", *_COMPARED, "moved_up", "moved_down", "share_moved", "mean_distance", "reach")


@storable
@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Plan:
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

    def __post_init__(self) -> None:
        read_only(self)

    def table(self) -> dict[str, Any]:
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
        """The plan in the caller's library (pandas, polars or pyarrow); polars for any other input."""
        if backend is None:
            backend = self.backend if self.backend in FRAME_LIBRARIES else "polars"
        choose("backend", backend, FRAME_LIBRARIES)
        return as_frame(self.table(), backend)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ProjectionResult(Result):
    """The least change that would make selection rates equal, the evidence against chance, and the plan.

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
        One entry a group and label: what it is compared with, rows, selection rate, difference and its interval.
    moved_up, moved_down, share_moved, mean_distance, reach
        Rows of it that flip to selected and to refused, their share, mean distance and furthest distance.
    plan
        The rows, nearest first.
    """

    question: ClassVar[str] = wording.QUESTION
    method: ClassVar[str] = wording.METHOD
    references: ClassVar[tuple[str, ...]] = wording.REFERENCES

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
    tolerance_side: str
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
    reach: FloatArray
    statuses: tuple[Status, ...]
    plan: Plan

    def table(self) -> dict[str, Any]:
        """One line a group and label."""
        return {
            "group": self.group,
            "against": self.against,
            "outcome": self.outcome,
            "n": self.n,
            "selection_rate": self.rate,
            "disparity": self.disparity,
            "ci_low": self.ci_low,
            "ci_high": self.ci_high,
            "moved_up": self.moved_up,
            "moved_down": self.moved_down,
            "share_moved": self.share_moved,
            "mean_distance": self.mean_distance,
            "reach": self.reach,
            "status": self.statuses,
        }

    def to_dict(self) -> dict[str, Any]:
        """The whole result in plain JSON types; the caller's library is no part of it."""
        return Result.to_dict(replace(self, plan=replace(self.plan, backend="polars")))

    def headline(self) -> str:
        """The verdict as a sentence."""
        if self.verdict is Verdict.INCONCLUSIVE and np.isnan(self.pvalue):
            return wording.NOT_TESTED
        if self.criterion == wording.OWN:
            return wording.own_verdict(self.verdict.value, self.tolerance, self.tolerance_side)
        if self.verdict is Verdict.WITHIN_TOLERANCE and self.tolerance and self.tolerance_side != "both":
            return wording.within_one_side(self.tolerance, self.tolerance_side)
        return Result.headline(self)

    def findings(self) -> tuple[str, ...]:
        """Rates, the least change, the evidence, who would move."""
        compared = [i for i, s in enumerate(self.statuses) if s is Status.OK]
        compared.sort(key=lambda i: -abs(self.disparity[i]))
        said = [self._difference(i) for i in compared[:5]]
        if self.status in (Status.INFEASIBLE, Status.NOT_CONVERGED):
            said.append(wording.no_plan(self.status))
        else:
            said.append(self._change())
        said.append(self._evidence())
        if self.tolerance:
            said.append(self._equivalence(self.tolerance))
        moving = [i for i in np.argsort(-self.share_moved) if self.share_moved[i] > 0][:5]
        said += [
            wording.movers(
                self.criterion,
                self.group[i],
                self.outcome[i],
                self.share_moved[i],
                self.moved_up[i],
                self.moved_down[i],
                self.mean_distance[i],
            )
            for i in moving
        ]
        return tuple(said)

    def deciding(self) -> str:
        """The largest difference, and the test that decided."""
        if not self.answered:
            return self.headline()
        largest = [i for i, s in enumerate(self.statuses) if s is Status.OK]
        largest.sort(key=lambda i: -abs(self.disparity[i]))
        within = self.tolerance if self.verdict is Verdict.WITHIN_TOLERANCE else None
        test = self._evidence() if within is None else self._equivalence(within)
        return " ".join([*(self._difference(i) for i in largest[:1]), test])

    def _evidence(self) -> str:
        return wording.evidence(
            self.criterion,
            self.pvalue,
            self.critical_value,
            self.alpha,
            self.wald_pvalue,
            self.status,
            self.tested,
        )

    def _change(self) -> str:
        return wording.change(
            self.criterion, self.moved, self.rows, self.statistic, self.tolerance, self.tolerance_side
        )

    def _equivalence(self, tolerance: float) -> str:
        return wording.equivalence(self.criterion, self.equivalence_pvalue, tolerance, self.tolerance_side)

    def _difference(self, i: int) -> str:
        low, high = float(self.ci_low[i]), float(self.ci_high[i])
        if np.isnan(self.rate[i]):
            return wording.moment(self.group[i], float(self.disparity[i]), low, high, self.alpha)
        rate = float(self.rate[i])
        other = rate - float(self.disparity[i])
        return wording.disparity(self.group[i], self.against[i], self.outcome[i], rate, other, low, high, self.alpha)

    def assumptions(self) -> tuple[tuple[str, str], ...]:
        """What is assumed, and what was checked."""
        return wording.ASSUMPTIONS

    def limits(self) -> tuple[str, ...]:
        """What this does not show."""
        return wording.limits(self.tolerance)

    def plot(self) -> alt.TopLevelMixin:
        """Who would have to move, and how far."""
        from isonomy.transport.figure import plan_chart

        return plan_chart(self)

    def suppressed(self, minimum: int) -> Self:
        """A copy that withholds the numbers of small groups, and lists no single row of anybody."""
        small = self.n < minimum
        if not small.any():
            return self
        # A rate and its difference from the reference give the reference's rate away.
        told = small | np.isin(self._reference(), np.flatnonzero(small))
        hidden = suppress(suppress(self, told, _COMPARED, "statuses"), small, _WITHHELD, "statuses")
        return replace(hidden, plan=_nobody(self.plan))

    def _reference(self) -> IntArray:
        """The line each line is compared with; -1 where there is none."""
        place = {line: i for i, line in enumerate(zip(self.group, self.outcome, strict=True))}
        lines = zip(self.against, self.outcome, strict=True)
        return np.array([place.get(line, -1) for line in lines], dtype=np.intp)


def _known(values: IntArray) -> IntArray | list[None]:
    """The numbers, or nothing at all where they are -1: a plan has all of them or none."""
    return [None] * values.size if (values < 0).any() else values


def _nobody(plan: Plan) -> Plan:
    """A plan without rows: a row of a small group could be told by its labels."""
    arrays = ("row", "outcome", "decision", "distance", "fraction", "start", "end")
    return replace(plan, group=(), **{name: getattr(plan, name)[:0] for name in arrays})
