"""What `project` returns: the least change, how surprising it is, and who would have to move."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from isonomy.numerics.status import Status
from isonomy.results import Result, storable, suppress
from isonomy.results.shape import as_frame
from isonomy.results.wording import transport as wording

if TYPE_CHECKING:
    import altair as alt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.intp]

_WITHHELD = (
    "n",
    "rate",
    "disparity",
    "ci_low",
    "ci_high",
    "moved_up",
    "moved_down",
    "share_moved",
    "mean_distance",
    "reach",
)


@storable
@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Plan:
    """The rows that would have to move, nearest first.

    ``row`` is the position in the data (-1 where an engine has no order), ``fraction`` the share of the row that flips
    (1 but for the last ones), ``start`` and ``end`` the features before and after, where the distance knows them.
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

    def table(self) -> dict[str, Any]:
        """The columns of `to_frame`, in order."""
        columns: dict[str, Any] = {
            "row": self.row,
            "group": self.group,
            "outcome": self.outcome,
            "decision": self.decision,
            "distance": self.distance,
            "fraction": self.fraction,
        }
        for j, name in enumerate(self.features):
            columns[f"{name} from"] = self.start[:, j]
            columns[f"{name} to"] = self.end[:, j]
        return columns

    def to_frame(self, backend: str = "polars") -> Any:
        """The plan as a pandas, polars or pyarrow table."""
        return as_frame(self.table(), backend)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ProjectionResult(Result):
    """The least change that would make selection rates equal, the evidence against chance, and the plan.

    Attributes
    ----------
    statistic
        s, the least total distance; infinite when no set of flips is enough.
    pvalue, critical_value
        Of the projection's law, or the Wald test's where ``status`` is not OK.
    wald_statistic, wald_pvalue
        The Wald test of the same rates (chi-square scale for the equality null).
    equivalence_pvalue
        That every difference lies within the tolerance; NaN without one.
    group, outcome, n, rate, disparity, ci_low, ci_high
        One entry a group and label: rows, selection rate, difference from the reference and its interval.
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

    def findings(self) -> tuple[str, ...]:
        """Rates, the least change, the evidence, who would move."""
        compared = [i for i, s in enumerate(self.statuses) if s is Status.OK]
        compared.sort(key=lambda i: -abs(self.disparity[i]))
        said = [self._difference(i) for i in compared[:5]]
        if np.isinf(self.statistic):
            said.append(wording.unreachable())
        else:
            said.append(wording.change(self.moved, self.rows, self.statistic, self.tolerance))
        said.append(
            wording.evidence(self.pvalue, self.critical_value, self.alpha, self.wald_pvalue, self.status, self.tested)
        )
        if self.tolerance is not None:
            said.append(wording.equivalence(self.equivalence_pvalue, self.tolerance))
        moving = [i for i in np.argsort(-self.share_moved) if self.share_moved[i] > 0][:5]
        said += [
            wording.movers(
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
        return wording.LIMITS

    def plot(self) -> alt.TopLevelMixin:
        """Who would have to move, and how far."""
        from isonomy.transport.figure import plan_chart

        return plan_chart(self)

    def suppressed(self, minimum: int) -> Self:
        """A copy that withholds the numbers of small groups, and lists no single row of anybody."""
        small = self.n < minimum
        if not small.any():
            return self
        return replace(suppress(self, small, _WITHHELD, "statuses"), plan=_nobody(self.plan))


def _nobody(plan: Plan) -> Plan:
    """A plan without rows: a row of a small group could be told by its labels."""
    return Plan(
        row=plan.row[:0],
        group=(),
        outcome=plan.outcome[:0],
        decision=plan.decision[:0],
        distance=plan.distance[:0],
        fraction=plan.fraction[:0],
        features=plan.features,
        start=plan.start[:0],
        end=plan.end[:0],
    )
