"""What `composite_parity` returns."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from isonomy.calibration import wording
from isonomy.calibration.decide import CompositeDecisions
from isonomy.calibration.estimate import CompositeEstimates
from isonomy.calibration.plan import CompositePlan
from isonomy.calibration.result import MOST_PAIRS, hidden_groups, withheld_names, withheld_verdicts
from isonomy.calibration.tally_composite import CompositeTally
from isonomy.frames import Group
from isonomy.inference import overall
from isonomy.inference.multiplicity import smallest
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray
from isonomy.results import Call, Columns, Result, Verdict

if TYPE_CHECKING:
    import altair as alt


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class CompositeResult(Result):
    """Parity of composite scores under every weight; see `isonomy.composite_parity`.

    Arrays are (pairs,) or (pairs, weights): all pairs of all families, and the points of the simplex that were tested.
    """

    question: ClassVar[str] = wording.COMPOSITE_QUESTION
    method: ClassVar[str] = wording.COMPOSITE_METHOD
    references: ClassVar[tuple[str, ...]] = wording.REFERENCES
    always_assumed: ClassVar[tuple[tuple[str, str], ...]] = wording.PARITY_ASSUMPTIONS[1:]
    never_shown: ClassVar[tuple[str, ...]] = wording.PARITY_LIMITS

    scores: tuple[str, ...]
    groups: tuple[Group, ...]
    size: FloatArray  # rows of each group
    pairs: IntArray  # places of the two groups of each pair
    weights: FloatArray  # (weights, scores)
    pair_adjusted: FloatArray
    pair_verdicts: tuple[Verdict, ...]
    pvalue_at: FloatArray  # of each pair under each weight alone
    difference: FloatArray  # the clearest under each weight
    pvalue: float
    alpha: float
    clustered: bool

    @classmethod
    def of(
        cls,
        call: Call,
        plan: CompositePlan,
        tally: CompositeTally,
        estimates: CompositeEstimates,
        decisions: CompositeDecisions,
    ) -> CompositeResult:
        """Lay out the tests of all pairs."""
        families = estimates.families
        tests = [test for family in families for test in family.tests]
        firsts = np.cumsum([0, *(len(family.groups) for family in families[:-1])])
        return cls.gather(
            decisions,
            plan,
            null=wording.COMPOSITE_NULL,
            provenance=call.provenance(
                rows=tally.rows, dropped=tally.dropped, level=plan.rows.level, grouping=plan.rows.grouping
            ),
            groups=tuple(group for family in families for group in family.groups),
            size=np.concatenate([family.size for family in families]),
            pairs=np.concatenate([family.pairs + first for family, first in zip(families, firsts, strict=True)]),
            pair_adjusted=decisions.adjusted,
            pair_verdicts=decisions.verdicts,
            pvalue_at=np.stack([test.each for test in tests]),
            difference=np.stack([test.difference for test in tests]),
            clustered=plan.rows.user is not None,
        )

    @property
    def labels(self) -> tuple[tuple[str, str], ...]:
        """The names of the two groups of each pair."""
        return tuple((self.groups[i].label, self.groups[j].label) for i, j in self.pairs)

    def suppressed(self, minimum: int, also: Collection[str] = ()) -> Self:
        """A copy that withholds groups with fewer than ``minimum`` rows, and those in ``also``."""
        small = hidden_groups(self.groups, self.size, minimum, also, self.provenance.rows)
        concerned: BoolArray = np.asarray(small[self.pairs].any(axis=1))
        verdicts = withheld_verdicts(self.pair_verdicts, concerned)
        return replace(
            self,
            size=np.where(small, np.nan, self.size),
            pair_adjusted=np.where(concerned, np.nan, self.pair_adjusted),
            pvalue_at=np.where(concerned[:, None], np.nan, self.pvalue_at),
            difference=np.where(concerned[:, None], np.nan, self.difference),
            pair_verdicts=verdicts,
            verdict=overall(verdicts) if concerned.any() else self.verdict,
            pvalue=smallest(self.pair_adjusted[~concerned]) if concerned.any() else self.pvalue,
        )

    def withheld_labels(self) -> tuple[frozenset[str], frozenset[str]]:
        """The names of the groups that are withheld, and of those that are not."""
        return withheld_names(self.groups, np.isnan(self.size))

    @property
    def worst_weights(self) -> FloatArray:
        """The weights under which each pair differs most clearly: (pairs, scores)."""
        return self.weights[np.argmin(np.nan_to_num(self.pvalue_at, nan=2.0), axis=1)]

    def table(self) -> Columns:
        """One row for each pair of groups and weights."""
        pairs, many = self.pvalue_at.shape
        return {
            "group": [label for label, _ in self.labels for _ in range(many)],
            "reference": [label for _, label in self.labels for _ in range(many)],
            **{f"weight {name}": np.tile(self.weights[:, k], pairs) for k, name in enumerate(self.scores)},
            "difference": self.difference.ravel(),
            "pvalue": self.pvalue_at.ravel(),
            "adjusted_pvalue": np.repeat(self.pair_adjusted, many),
        }

    def findings(self) -> tuple[str, ...]:
        """Each pair, with the weights under which it differs most clearly."""
        worst = np.argmin(np.nan_to_num(self.pvalue_at, nan=2.0), axis=1)
        order = np.argsort(np.nan_to_num(self.pair_adjusted, nan=2.0), kind="stable")[:MOST_PAIRS]
        return tuple(
            wording.composite_finding(
                self.labels[p],
                self.pair_verdicts[p],
                self.pair_adjusted[p],
                list(zip(self.scores, self.weights[worst[p]].tolist(), strict=True)),
                self.difference[p, worst[p]],
            )
            for p in order
            if not np.isnan(self.pair_adjusted[p])
        )

    def assumptions(self) -> tuple[tuple[str, str], ...]:
        """What is assumed, and how it was checked or why it cannot be."""
        return (wording.independent(self.clustered, self.rows_assumed()), *self.always_assumed)

    def plot(self) -> alt.TopLevelMixin:
        """The clearest difference under each weight of the first score, by pair."""
        from isonomy.calibration import figure

        return figure.composite(self)
