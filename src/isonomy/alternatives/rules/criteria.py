"""What counts as accurate and as unfair, on sums of u and w by group, and how much better it must be."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from isonomy.alternatives.rules.utilities import Utility
from isonomy.numerics.arrays import FloatArray, IntArray

CANDIDATE, STATUS_QUO = 1, 0

Scale = Literal["ratio", "difference"]
FairnessTest = Literal["equivalence", "two_one_sided", "paper"]


@dataclass(frozen=True, slots=True, eq=False)
class Criteria:
    """What counts as accurate and as unfair, and what gains are required.

    ``weights`` is None (every group must gain), an array with one weight per group, or "pooled" (all rows together).
    ``protected`` is the code of the group that one-sided unfairness protects, None for two-sided.
    ``harm`` is, for each fairness utility, +1 where the protected group is harmed by having less of it, else -1.
    The gains are those required of each accuracy component and of each fairness utility.
    """

    accuracy: Utility
    fairness: tuple[Utility, ...]
    labels: tuple[str, ...]
    weights: FloatArray | Literal["pooled"] | None = None
    scale: Scale = "ratio"
    protected: int | None = None
    harm: tuple[int, ...] = ()
    fairness_test: FairnessTest = "equivalence"
    accuracy_gains: tuple[float, ...] = ()
    fairness_gains: tuple[float, ...] = ()

    @property
    def utilities(self) -> tuple[Utility, ...]:
        """The distinct utilities, accuracy first."""
        return tuple(dict.fromkeys((self.accuracy, *self.fairness)))

    @property
    def priced(self) -> bool:
        """Whether decisions are numbers (prices), not 0/1."""
        return not all(utility.binary for utility in self.utilities)

    @property
    def accuracies(self) -> tuple[str, ...]:
        """What the accuracy components are called."""
        if self.weights is None:
            return self.labels
        return ("all rows",) if isinstance(self.weights, str) else ("weighted groups",)

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """Pairs of groups whose utilities are compared."""
        codes = range(len(self.labels))
        if self.protected is None:
            return tuple(combinations(codes, 2))
        return tuple((other, self.protected) for other in codes if other != self.protected)

    def accuracy_of(self, rates: FloatArray, sums: FloatArray) -> FloatArray:
        """Accuracy components of both algorithms: (..., 2, components)."""
        if isinstance(self.weights, str):
            pooled = sums[..., 0, :, :, :].sum(axis=-1, keepdims=True)
            return _ratio(pooled[..., 0, :], pooled[..., 1, :])
        by_group: FloatArray = rates[..., 0, :, :]
        return by_group if self.weights is None else (by_group @ self.weights)[..., None]

    def gaps(self, rates: FloatArray, utility: int) -> FloatArray:
        """Gap between the groups of each pair, for both algorithms: (..., 2, pairs).

        One-sided, a positive gap is the protected group's disadvantage.
        """
        by_group = rates[..., self.utilities.index(self.fairness[utility]), :, :]
        first, second = np.array(self.pairs).T
        gap: FloatArray = by_group[..., first] - by_group[..., second]
        return gap if self.protected is None else self.harm[utility] * gap

    def unfairness(self, gap: FloatArray) -> FloatArray:
        """|gap|, or its positive part when one group is protected."""
        return np.abs(gap) if self.protected is None else np.maximum(gap, 0.0)


def group_sums(
    values: FloatArray, group: IntArray, weight: NDArray[np.int64] | FloatArray, n_groups: int
) -> FloatArray:
    """Sums of u and w by group: (utilities, algorithms, 2, groups)."""
    flat = values.reshape(len(values), -1) * weight[:, None]
    sums = np.zeros((n_groups, flat.shape[1]))
    np.add.at(sums, group, flat)
    return sums.T.reshape(*values.shape[1:], n_groups)


def rates_of(sums: FloatArray) -> FloatArray:
    """U = sum of u / sum of w, NaN where nothing is in the denominator: (..., utilities, algorithms, groups)."""
    return _ratio(sums[..., 0, :], sums[..., 1, :])


def _ratio(u: FloatArray, w: FloatArray) -> FloatArray:
    return np.divide(u, w, out=np.full(np.shape(u), np.nan), where=w > 0)
