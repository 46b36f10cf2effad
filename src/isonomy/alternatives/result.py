"""What the improvability test returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isonomy.alternatives import surface as surfaces
from isonomy.alternatives import wording
from isonomy.alternatives.evidence import Evidence
from isonomy.alternatives.mitigate import Recommendation
from isonomy.alternatives.surface import Curves, SurfaceResult
from isonomy.alternatives.utilities import FloatArray
from isonomy.errors import UsageError
from isonomy.frames import Group
from isonomy.results import Result, Status, Verdict

if TYPE_CHECKING:
    import altair as alt


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ImprovabilityResult(Result):
    """The rounds, their combined p-value and what it means.

    Arrays have one line a round. ``accuracy`` (rounds, components, 3) and ``fairness`` (rounds, utilities, 3) hold
    candidate, status quo and p-value; the components are the groups, or one where accuracy is pooled or weighted.

    Attributes
    ----------
    pvalue
        min(1, 2 x median) of the rounds' p-values; with one round its own. The null is rejected where it is below
        ``alpha``.
    median_pvalue
        The smallest median of the rounds' p-values, compared with alpha / 2 in the paper.
    supported_fairness_gain, supported_accuracy_gain
        The largest gain at which the test still rejects, the other gain being 0: lower confidence bounds. NaN: none.
    recommended
        The rule's algorithm refitted on all rows when the test rejects, else None. Its estimates are not independent.
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
    scale: str
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
    cutoffs: FloatArray  # (rounds, 2): NaN where decisions came ready
    train_rows: NDArray[np.int64]
    test_rows: NDArray[np.int64]  # (rounds, groups)
    undefined: NDArray[np.int64]
    distance: FloatArray
    worst_pairs: tuple[tuple[str, ...], ...]  # (rounds, fairness utilities)
    status: tuple[Status, ...]
    details: tuple[Mapping[str, float], ...]
    curves: Curves
    recommended: Recommendation | None = None
    evidence: tuple[Evidence | None, ...] = field(default=(), repr=False)  # resamples, kept in memory only
    pvalue_form: str = "add_one"

    def to_dict(self) -> dict[str, Any]:
        """The whole result in plain JSON types, without the resamples and without the algorithm itself."""
        kept = None if self.recommended is None else self.recommended.without_algorithm()
        return Result.to_dict(replace(self, evidence=(), recommended=kept))

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

        Without grids: the paper's, accuracy gains from -1 to 1 and fairness gains from 0 to 1 by 0.01. Other grids
        need the resamples, which JSON does not keep.
        """
        if accuracy_gains is None and fairness_gains is None:
            found = self.curves
        elif not self.evidence:
            raise UsageError("surface: JSON keeps the default grid only; run improvability again for another grid.")
        else:
            a = self.curves.accuracy_gains if accuracy_gains is None else accuracy_gains
            f = self.curves.fairness_gains if fairness_gains is None else fairness_gains
            found = surfaces.curves(self.evidence, a, f, self.pvalue_form)
        return SurfaceResult(
            null=wording.surface_null(),
            verdict=self.verdict if not any((*self.accuracy_gains, *self.fairness_gains)) else self._at_zero(),
            warnings=self.warnings,
            provenance=self.provenance,
            accuracy_gains=found.accuracy_gains,
            fairness_gains=found.fairness_gains,
            median_pvalues=found.median_pvalues(),
            level=self.level,
            alpha=self.alpha,
            scale=self.scale,
            fairness_gain=self.supported_fairness_gain,
            accuracy_gain=self.supported_accuracy_gain,
        )

    @property
    def level(self) -> float:
        """What the median p-value is compared with: alpha / 2, or alpha for one round."""
        return self.alpha if len(self.round_pvalues) == 1 else self.alpha / 2

    def _at_zero(self) -> Verdict:
        return Verdict.INCONCLUSIVE if np.isnan(self.supported_fairness_gain) else Verdict.VIOLATION

    def findings(self) -> tuple[str, ...]:
        """The conclusion, the sizes, the largest gains supported."""
        accuracy, fairness = _round_means(self.accuracy), _round_means(self.fairness)
        pair = _common_pair(self.worst_pairs)
        sentences = [
            wording.conclusion(
                self.reject, self.pvalue, self.median_pvalue, len(self.round_pvalues), self.rule, self.alpha
            ),
            *(
                wording.accuracy_effect(self.accuracy_utility, name, accuracy[i, 0], accuracy[i, 1])
                for i, name in enumerate(self.accuracy_components)
            ),
            *(
                wording.fairness_effect(name, fairness[i, 0], fairness[i, 1], pair[i])
                for i, name in enumerate(self.fairness_utilities)
            ),
            wording.supported("fairness", self.supported_fairness_gain, self.scale, self.alpha),
            wording.supported("accuracy", self.supported_accuracy_gain, self.scale, self.alpha),
            wording.selected(*_round_means(self.selected)),
        ]
        if self.recommended is not None:
            sentences.append(wording.recommended(self.rule))
        return tuple(sentences)

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
        """A copy without the accuracies of groups whose test part has fewer than ``minimum`` rows in some round."""
        small = (self.test_rows < minimum).any(axis=0)
        if not small.any():
            return self
        accuracy, fairness = self.accuracy.copy(), self.fairness.copy()
        if len(self.accuracy_components) == len(self.groups):
            accuracy[:, small, :2] = np.nan
        fairness[:, :, :2] = np.nan  # a gap between two groups would give the small one away
        rows = np.where(small, 0, self.test_rows)
        return replace(
            self,
            accuracy=accuracy,
            fairness=fairness,
            test_rows=rows,
            recommended=None,
            status=(Status.SUPPRESSED,) * len(self.status),
        )


def _round_means(values: FloatArray) -> FloatArray:
    """Means over the rounds that found something, of candidate and status quo."""
    found = ~np.isnan(values).any(axis=tuple(range(1, values.ndim)))
    kept = values[found][..., :2]
    return kept.mean(axis=0) if len(kept) else np.full((*values.shape[1:-1], 2), np.nan)


def _common_pair(pairs: tuple[tuple[str, ...], ...]) -> list[str]:
    """The pair compared for each utility, where all rounds chose the same."""
    return [
        next(iter(names)) if len(names := {row[i] for row in pairs}) == 1 else "the most unequal pair"
        for i in range(len(pairs[0]))
    ]
