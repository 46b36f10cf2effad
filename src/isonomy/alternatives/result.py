"""What the improvability test returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isonomy.alternatives import wording
from isonomy.alternatives.decide import Decisions, verdict_without_gains
from isonomy.alternatives.estimate import Estimates
from isonomy.alternatives.mitigate import Recommendation
from isonomy.alternatives.plan import Plan
from isonomy.alternatives.rules import rounds as together
from isonomy.alternatives.rules.bootstrap import Comparison, Component, Exceedance, PvalueForm
from isonomy.alternatives.rules.criteria import Scale
from isonomy.alternatives.rules.rounds import Curves
from isonomy.alternatives.tally import Tally
from isonomy.errors import UsageError
from isonomy.frames import Group
from isonomy.numerics.arrays import FloatArray
from isonomy.results import Call, Result, Status, storable
from isonomy.results.storage import OF_ROWS

if TYPE_CHECKING:
    import altair as alt

for part in (Curves, Comparison, Component, Exceedance):
    storable(part)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ImprovabilityResult(Result):
    """The rounds, their combined p-value and what it means.

    Arrays have one entry per round. ``accuracy`` (rounds, components, 3) and ``fairness`` (rounds, utilities, 3) hold
    candidate, status quo and p-value; the components are the groups, or one where accuracy is pooled or weighted.

    Attributes
    ----------
    pvalue : float
        min(1, 2 x median) of the rounds' p-values; with one round its own. The null is rejected where it is at most
        ``alpha``.
    median_pvalue : float
        The smallest median of the rounds' p-values, compared with alpha / 2 in the paper.
    supported_fairness_gain, supported_accuracy_gain : float
        The largest gain at which the test still rejects, the other gain being 0: lower confidence bounds. NaN: none.
    recommended : Recommendation or None
        The rule's algorithm refitted on all rows when the test rejects, else None. Its estimates are not independent.
    evidence : tuple or None
        The resamples of each round (None where its rule found nothing), for surfaces over other grids. JSON keeps
        them on request only.
    """

    question: ClassVar[str] = wording.QUESTION
    method: ClassVar[str] = wording.METHOD
    references: ClassVar[tuple[str, ...]] = wording.REFERENCES

    groups: tuple[Group, ...]
    rule: str
    accuracy_utility: str
    accuracy_components: tuple[str, ...]
    fairness_utilities: tuple[str, ...]
    accuracy_gains: tuple[float, ...]
    fairness_gains: tuple[float, ...]
    scale: Scale
    capacity: float | None
    alpha: float
    resamples: int
    accuracy: FloatArray
    fairness: FloatArray
    round_pvalues: FloatArray
    pvalue: float
    median_pvalue: float
    reject: bool
    supported_fairness_gain: float
    supported_accuracy_gain: float
    selected: FloatArray  # (rounds, 2): shares of the test part selected by candidate and status quo
    # (rounds, 2), scores of the training part: NaN where decisions came ready
    cutoffs: FloatArray | None = field(metadata=OF_ROWS)
    train_rows: NDArray[np.int64]
    test_rows: NDArray[np.int64]  # (rounds, groups)
    undefined: NDArray[np.int64]  # resamples with an empty denominator
    distance: FloatArray  # of the status quo's unfairness from zero, in standard errors
    worst_pairs: tuple[tuple[str, ...], ...]  # (rounds, fairness utilities)
    status: tuple[Status, ...]
    details: tuple[Mapping[str, float], ...]
    curves: Curves
    recommended: Recommendation | None = None
    evidence: tuple[Comparison | None, ...] | None = field(default=None, repr=False, metadata=OF_ROWS)
    pvalue_form: PvalueForm = "add_one"

    @classmethod
    def of(
        cls,
        call: Call,
        plan: Plan,
        tally: Tally,
        estimates: Estimates,
        decisions: Decisions,
        recommended: Recommendation | None,
    ) -> Self:
        """Lay out what the steps found."""
        criteria, rounds = estimates.criteria, estimates.rounds
        comparisons = tuple(r.comparison for r in rounds)
        fairness = tuple(utility.name for utility in criteria.fairness)
        pairs = [f"{criteria.labels[a]} against {criteria.labels[b]}" for a, b in criteria.pairs]
        return cls.gather(
            decisions,
            estimates,
            criteria,
            tally,
            plan,
            null=wording.null(
                plan.rule_name,
                criteria.accuracy.name,
                criteria.accuracies,
                criteria.accuracy_gains,
                fairness,
                criteria.fairness_gains,
                criteria.scale,
            ),
            provenance=call.provenance(rows=tally.rows, dropped=tally.dropped),
            rule=plan.rule_name,
            accuracy_utility=criteria.accuracy.name,
            accuracy_components=criteria.accuracies,
            fairness_utilities=fairness,
            accuracy=np.stack([r.accuracy for r in rounds]),
            fairness=np.stack([r.fairness for r in rounds]),
            round_pvalues=np.array([r.pvalue for r in rounds]),
            selected=np.stack([r.selected for r in rounds]),
            cutoffs=np.stack([r.cutoffs for r in rounds]),
            train_rows=np.array([r.train_rows for r in rounds]),
            test_rows=np.stack([r.test_rows for r in rounds]),
            undefined=np.array([0 if c is None else c.undefined for c in comparisons]),
            distance=np.array([np.nan if c is None else c.distance for c in comparisons]),
            worst_pairs=tuple(tuple(pairs[q] for q in r.worst) for r in rounds),
            status=tuple(r.status for r in rounds),
            details=tuple(r.details for r in rounds),
            recommended=recommended,
            evidence=comparisons,
        )

    def to_dict(self, *, rows: bool = False) -> dict[str, Any]:
        """The result in plain JSON types, without the recommended algorithm itself. ``rows``: with the resamples."""
        kept = None if self.recommended is None else replace(self.recommended, algorithm=None, plan=None)
        return Result.to_dict(replace(self, recommended=kept), rows=rows)

    def table(self) -> dict[str, Any]:
        """The rounds, laid out as in the paper's Table 1."""
        columns: dict[str, Any] = {"round": np.arange(1, len(self.round_pvalues) + 1)}
        parts = [
            *((f"accuracy {name}", self.accuracy[:, i]) for i, name in enumerate(self.accuracy_components)),
            *((f"unfairness {name}", self.fairness[:, i]) for i, name in enumerate(self.fairness_utilities)),
        ]
        for name, part in parts:
            columns |= {f"{name} candidate": part[:, 0], f"{name} status_quo": part[:, 1], f"{name} pvalue": part[:, 2]}
        columns |= {
            "pvalue": self.round_pvalues,
            "selected candidate": self.selected[:, 0],
            "selected status_quo": self.selected[:, 1],
            "undefined": self.undefined,
            "rule": [self.rule] * len(self.round_pvalues),
            "worst_pair": ["; ".join(pairs) for pairs in self.worst_pairs],
            "status": list(self.status),
        }
        for name in sorted({name for details in self.details for name in details}):
            columns[f"rule {name}"] = np.array([details.get(name, np.nan) for details in self.details])
        return columns

    def surface(
        self, accuracy_gains: ArrayLike | None = None, fairness_gains: ArrayLike | None = None
    ) -> SurfaceResult:
        """p-values over a grid of required gains, from the splits and resamples of this test.

        Parameters
        ----------
        accuracy_gains, fairness_gains : array_like, optional
            Increasing numbers. By default the paper's: accuracy gains from -1 to 1 and fairness gains from 0 to 1 by
            0.01. Other grids need the resamples, which JSON does not keep unless it was written with ``rows=True``.
        """
        curves = self.curves
        if accuracy_gains is not None or fairness_gains is not None:
            if self.evidence is None:
                raise UsageError("surface: JSON keeps the default grid only; run improvability again for another grid.")
            a = curves.accuracy_gains if accuracy_gains is None else accuracy_gains
            f = curves.fairness_gains if fairness_gains is None else fairness_gains
            curves = together.curves(self.evidence, a, f, self.pvalue_form)
        return SurfaceResult.gather(
            curves,
            self,
            null=wording.SURFACE_NULL,
            verdict=verdict_without_gains(self.supported_fairness_gain),
            median_pvalues=curves.median_pvalues(),
            fairness_gain=self.supported_fairness_gain,
            accuracy_gain=self.supported_accuracy_gain,
        )

    @property
    def level(self) -> float:
        """What the median p-value is compared with: alpha / 2, or alpha for one round."""
        return together.level(self.alpha, len(self.round_pvalues))

    def findings(self) -> tuple[str, ...]:
        """The conclusion, the sizes, the largest gains supported."""
        splits = len(self.round_pvalues)
        accuracy = zip(self.accuracy_components, together.averages(self.accuracy), strict=True)
        fairness = zip(self.fairness_utilities, together.averages(self.fairness), strict=True)
        chosen = [set(pairs) for pairs in zip(*self.worst_pairs, strict=True)]
        pairs = [names.pop() if len(names) == 1 else wording.VARYING_PAIR for names in chosen]
        return (
            wording.conclusion(self.reject, self.pvalue, self.median_pvalue, splits, self.rule, self.alpha),
            *(wording.accuracy_effect(self.accuracy_utility, name, *both) for name, both in accuracy),
            *(wording.fairness_effect(name, pair, *both) for (name, both), pair in zip(fairness, pairs, strict=True)),
            wording.supported("fairness", self.supported_fairness_gain, self.scale, self.alpha),
            wording.supported("accuracy", self.supported_accuracy_gain, self.scale, self.alpha),
            wording.selected(*together.averages(self.selected)),
            *(() if self.recommended is None else (wording.recommended(self.rule),)),
        )

    def assumptions(self) -> tuple[tuple[str, str], ...]:
        """What is assumed, and how it was checked."""
        distances = self.distance[~np.isnan(self.distance)]
        middle = float(np.median(distances)) if len(distances) else float("nan")
        return wording.assumptions(len(self.round_pvalues), middle, int(self.test_rows.min()))

    def limits(self) -> tuple[str, ...]:
        """What this result does not show."""
        return wording.limits(self.reject)

    def plot(self) -> alt.TopLevelMixin:
        """Accuracy and unfairness of both algorithms in every round, and the surface of p-values."""
        from isonomy.alternatives.figure import result_chart

        return result_chart(self)

    def suppressed(self, minimum: int) -> Self:
        """A copy without resamples, and without the accuracies of groups with fewer than ``minimum`` test rows."""
        best = self.recommended
        shown = None if best is None else replace(best, cutoff=None, algorithm=None, plan=None)
        bare = replace(self, evidence=None, cutoffs=None, recommended=shown)
        small = (self.test_rows < minimum).any(axis=0)
        if not small.any():
            return bare
        accuracy, fairness = self.accuracy.copy(), self.fairness.copy()
        if len(self.accuracy_components) == len(self.groups):
            accuracy[:, small, :2] = np.nan
        fairness[:, :, :2] = np.nan  # a gap between two groups would give the small one away
        return replace(
            bare,
            accuracy=accuracy,
            fairness=fairness,
            test_rows=np.where(small, 0, self.test_rows),
            recommended=None,
            status=(Status.SUPPRESSED,) * len(self.status),
        )


@storable
@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class SurfaceResult(Result):
    """Median p-values over required gains, with the contour of the level and its crossings.

    ``level`` is alpha / 2 (alpha for one round): a point is supported where its median p-value is at most that.
    ``fairness_gain`` is where the contour crosses delta_a = 0, ``accuracy_gain`` where it crosses delta_f = 0; NaN
    where even (0, 0) is not supported.
    """

    question: ClassVar[str] = wording.QUESTION
    method: ClassVar[str] = wording.METHOD
    references: ClassVar[tuple[str, ...]] = wording.REFERENCES
    never_shown: ClassVar[tuple[str, ...]] = wording.SURFACE_LIMITS

    accuracy_gains: FloatArray
    fairness_gains: FloatArray
    median_pvalues: FloatArray
    level: float
    alpha: float
    scale: Scale
    fairness_gain: float
    accuracy_gain: float

    @property
    def contour(self) -> FloatArray:
        """For each fairness gain the largest accuracy gain supported without a break from below; NaN where none."""
        return together.reach(self.median_pvalues <= self.level, self.accuracy_gains)

    def table(self) -> dict[str, Any]:
        """One row per grid point."""
        a, f = np.meshgrid(self.accuracy_gains, self.fairness_gains, indexing="ij")
        p = self.median_pvalues.ravel()
        return {
            "accuracy_gain": a.ravel(),
            "fairness_gain": f.ravel(),
            "median_pvalue": p,
            "supported": p <= self.level,
        }

    def findings(self) -> tuple[str, ...]:
        """The two crossings."""
        return (
            wording.supported("fairness", self.fairness_gain, self.scale, self.alpha),
            wording.supported("accuracy", self.accuracy_gain, self.scale, self.alpha),
        )

    def plot(self) -> alt.TopLevelMixin:
        """Heat map with the contour and the crossings."""
        from isonomy.alternatives.figure import surface_chart
        from isonomy.results.theme import finish

        return finish(surface_chart(self))
