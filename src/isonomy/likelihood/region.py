"""The joint likelihood of all disparities of a call: what `certify` tests and `contains` asks again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from isonomy.errors import UsageError
from isonomy.likelihood.joint import Functions, Joint, Patterns
from isonomy.likelihood.means import Binary, Means, Real
from isonomy.numerics.ragged import Ragged
from isonomy.numerics.roots import root
from isonomy.numerics.status import Status
from isonomy.results import storable

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.intp]
# Entries of the largest matrix of memberships that a joint test of overlapping groups may need.
LARGEST = 20_000_000
# One number for all groups, one each in order, or a mapping from group labels.
Disparities = float | Sequence[float] | FloatArray | Mapping[str, float]


@storable
@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """Lines by pattern of membership, and how their disparities are measured.

    ``pattern``, ``value``, ``weight`` (None: one row a line) and ``influence`` (or None) per line; ``slots`` holds the
    tested groups a pattern is in, one column a partition (-1: none), ``referent`` whether it is in the reference (1
    for the population). ``theta`` holds the plugged-in or known reference of each group, None when it is profiled;
    ``rest`` when each group has its own reference, all other rows. ``least`` is the smallest group tested; a
    difference of groups of less than half of it is no constraint of its own.
    """

    labels: tuple[str, ...]
    method: str
    binary: bool
    pattern: IntArray
    value: FloatArray
    weight: FloatArray | None
    influence: FloatArray | None
    slots: IntArray
    referent: FloatArray
    theta: FloatArray | None
    estimate: float | None
    rest: bool
    least: int

    def vector(self, disparities: Disparities) -> FloatArray:
        """One disparity per tested group, from any of the forms a caller may give."""
        m = len(self.labels)
        if isinstance(disparities, Mapping):
            unknown = [str(key) for key in disparities if str(key) not in self.labels]
            absent = [label for label in self.labels if label not in {str(k) for k in disparities}]
            if unknown or absent:
                raise UsageError(f"disparities: unknown groups {unknown[:5]}, groups without a value {absent[:5]}.")
            by_label = {str(key): float(value) for key, value in disparities.items()}
            return np.array([by_label[label] for label in self.labels])
        values = np.asarray(disparities, dtype=float)
        if values.shape not in ((), (m,)) or not np.isfinite(values).all():
            raise UsageError(
                f"disparities: shape {values.shape}; give one finite number, or one for each of {m:,} groups."
            )
        return np.broadcast_to(values, (m,)).astype(float)

    def test(self, disparities: Disparities) -> Joint:
        """T and its degrees of freedom at the given disparities."""
        target = self.vector(disparities)
        if self.method == "el" and self.disjoint:
            if self.theta is not None:
                return self._sum(target + self.theta)
            if self._common(target):
                return self._least(target)
        data, members = self.patterns, self.members()
        kept = self._kept(data.n, members)
        functions, theta = self._functions(data, members[:, kept], kept, target[kept])
        found = data.likelihood(functions, theta) if self.method == "el" else data.euclidean(functions, theta)
        return replace(found, left_out=target.size - kept.size)

    @property
    def disjoint(self) -> bool:
        """Whether no pattern is in two tested groups."""
        return bool(((self.slots >= 0).sum(axis=1) <= 1).all())

    @property
    def single(self) -> IntArray:
        """The tested group of each pattern, -1 for none; for disjoint groups."""
        return np.max(self.slots, axis=1, initial=-1)

    def members(self) -> FloatArray:
        """Which tested groups each pattern is in, as a matrix of 0 and 1."""
        shape = (self.slots.shape[0], len(self.labels))
        if shape[0] * shape[1] > LARGEST:
            raise UsageError(
                f"groups: {shape[1]:,} overlapping groups are too many for one joint test; raise min_size."
            )
        result = np.zeros(shape)
        for column in self.slots.T:
            inside = np.flatnonzero(column >= 0)
            result[inside, column[inside]] = 1.0
        return result

    def totals(self, by_pattern: FloatArray) -> FloatArray:
        """Sum over the patterns of each tested group."""
        m = len(self.labels)
        counted = [np.bincount(c + 1, weights=by_pattern, minlength=m + 1)[1:] for c in self.slots.T]
        return np.sum(counted, axis=0)

    def _kept(self, n: FloatArray, members: FloatArray) -> IntArray:
        """Groups that single out no handful of rows.

        A group all but one of whose rows are in another tested group would constrain that one row. Pivoted Cholesky on
        the counts of common rows: a pivot is the number of rows a group adds to those before it, at most (for the
        last two of a partition n m / (n + m), hence half of ``least``). Pivots of 0 stay: such groups are unions and
        differences of others, and the rank of the estimating functions accounts for them.
        """
        first = self.referent if self.estimate is None else np.ones_like(self.referent)
        functions = members if self.theta is not None else np.column_stack([first, members])
        gram = functions.T @ (n[:, None] * functions)
        left = np.diag(gram).copy()
        factor = np.zeros((0, left.size))
        chosen: list[int] = []
        while len(chosen) < left.size:
            pivot = 0 if self.theta is None and not chosen else int(np.argmax(left))
            if left[pivot] < max(0.5 * self.least - 1e-9, 1e-6):
                break
            row = (gram[pivot] - factor[:, pivot] @ factor) / np.sqrt(left[pivot])
            factor = np.vstack([factor, row])
            left = np.maximum(left - row**2, 0.0)
            left[[*chosen, pivot]] = 0.0
            chosen.append(pivot)
        lost = (left > 1e-6) & (self.least > 1)
        return np.flatnonzero(~lost[left.size - members.shape[1] :])

    @property
    def patterns(self) -> Patterns:
        """The lines arranged for a joint likelihood."""
        size = self.slots.shape[0]
        if self.binary and self.influence is None:
            weight = np.ones(self.value.size) if self.weight is None else self.weight
            return Patterns.of_counts(self.pattern, size, self.value, weight)
        columns = (self.value,) if self.influence is None else (self.value, self.influence)
        return Patterns(self.pattern, size, columns, self.weight)

    def resampled(self, rng: np.random.Generator) -> Region:
        """The same number of rows, drawn again with replacement."""
        weight = np.ones(self.value.size) if self.weight is None else self.weight
        total = round(float(weight.sum()))
        drawn = rng.multinomial(total, weight / weight.sum()).astype(float)
        keep = drawn > 0
        influence = None if self.influence is None else self.influence[keep]
        return replace(
            self, pattern=self.pattern[keep], value=self.value[keep], weight=drawn[keep], influence=influence
        )

    def means(self, codes: IntArray, size: int) -> Means:
        """Groups of lines by ``codes`` (one a line)."""
        if self.binary:
            weight = np.ones(self.value.size) if self.weight is None else self.weight
            n = np.bincount(codes + 1, weights=weight, minlength=size + 1)[1:]
            return Binary(n, np.bincount(codes + 1, weights=weight * self.value, minlength=size + 1)[1:])
        return Real(Ragged.from_codes(codes, size, self.value, weights=self.weight))

    def estimates(self) -> FloatArray:
        """The estimated disparities of the tested groups."""
        data = self.patterns
        n, first = data.n, data.first[0]
        own, rows = self.totals(first), self.totals(n)
        if self.theta is not None:
            return own / rows - self.theta
        if self.estimate is not None:
            return own / rows - self.estimate
        if self.rest:
            return own / rows - (first.sum() - own) / (n.sum() - rows)
        return own / rows - float(self.referent @ first / (self.referent @ n))

    def group_means(self, last: IntArray | None = None) -> tuple[Means, int]:
        """The disjoint tested groups and, last, the lines of no tested group (or the patterns ``last``)."""
        m = len(self.labels)
        group = np.where(self.single >= 0, self.single, m)
        if last is not None:
            group = np.where(self.single >= 0, self.single, np.where(last, m, -1))
        return self.means(group[self.pattern], m + 1), m

    def _common(self, target: FloatArray) -> bool:
        """Whether the disparities fix all groups' means but for one common shift."""
        if self.estimate is not None:
            return False
        if (self.referent == 1).all():
            return not target.any()
        # A named reference: apart from every tested group.
        return bool((self.referent[self.single >= 0] == 0).all())

    def _sum(self, means: FloatArray) -> Joint:
        """Disjoint groups and known references: the sum of the groups' own statistics."""
        groups, m = self.group_means()
        index = np.arange(m)
        statistic = groups.statistic(means, index)
        second = groups.variance[:m] + (groups.mean[:m] - means) ** 2
        total = float(statistic.sum())
        status = Status.OK if np.isfinite(total) else Status.OUTSIDE_RANGE
        return Joint(total, int((second > 0).sum()), np.empty(0), status)

    def _least(self, target: FloatArray) -> Joint:
        """Disjoint groups with a profiled reference: the minimum over θ of the sum of T_j(θ + ε_j)."""
        everyone = bool((self.referent == 1).all())
        groups, m = self.group_means(None if everyone else self.referent == 1)
        # The last place holds the rows of no tested group, or the named reference; too few of the former say nothing.
        index = np.flatnonzero(groups.n >= np.append(np.ones(m), self.least if everyone else 1))
        shift = np.append(target, 0.0)[index]
        low, high = float(np.max(groups.low[index] - shift)), float(np.min(groups.high[index] - shift))
        centre = float(np.sum(groups.n[index] * (groups.mean[index] - shift)) / groups.n[index].sum())
        df = int((groups.variance[index] + (groups.mean[index] - shift - centre) ** 2 > 0).sum()) - 1

        def slope(theta: float) -> float:
            return float(np.sum(groups.n[index] * groups.locate(theta + shift, index).multiplier))

        if df <= 0:
            return Joint(0.0, 0, np.array([centre]), Status.OK)
        if not low < high:
            return Joint(np.inf, df, np.array([np.nan]), Status.OUTSIDE_RANGE)
        found = root(lambda theta: -slope(theta), low, high, rtol=1e-14)
        statistic = float(np.sum(groups.statistic(found.x + shift, index)))
        return Joint(statistic, df, np.array([found.x]), found.status)

    def _functions(
        self, data: Patterns, members: FloatArray, kept: IntArray, target: FloatArray
    ) -> tuple[Functions, FloatArray]:
        """Estimating functions of the ``kept`` groups at ``target``, and the references' starting values."""
        referent = self.referent
        slope = members
        columns = 1 if self.influence is None else 2
        with np.errstate(invalid="ignore"):
            mean = float(referent @ data.first[0] / (referent @ data.n)) if referent.any() else 0.0
        if self.theta is not None:
            offset = members * (target + self.theta[kept])
            return Functions(_stacked(slope, columns), np.zeros((*slope.shape, 0)), offset), np.empty(0)
        if self.rest and target.any():
            if not self.disjoint:
                raise UsageError(
                    "reference: overlapping groups can be tested jointly against their rests at disparity 0 only; "
                    "use reference='population' for other disparities."
                )
            return self._against_rests(data, members, target)
        nuisance = np.column_stack([members, referent])
        offset = np.column_stack([members * target, np.zeros(referent.size)])
        stacked = _stacked(nuisance, columns)
        if self.estimate is not None:
            stacked[:, -1, 0], stacked[:, -1, 1], nuisance[:, -1] = 0.0, 1.0, 1.0
            offset[:, -1] = -self.estimate
            mean = self.estimate
        return Functions(stacked, nuisance[:, :, None], offset), np.array([mean])

    def _against_rests(self, data: Patterns, members: FloatArray, target: FloatArray) -> tuple[Functions, FloatArray]:
        """Each group against all other rows: a reference of its own for each, and two functions."""
        m = target.size
        others = self.referent[:, None] - members
        slope = np.concatenate([members, others], axis=1)
        nuisance = np.zeros((*slope.shape, m))
        for j in range(m):
            nuisance[:, j, j], nuisance[:, m + j, j] = members[:, j], others[:, j]
        offset = np.concatenate([members * target, np.zeros_like(others)], axis=1)
        means = (others.T @ data.first[0]) / (others.T @ data.n)
        return Functions(_stacked(slope, 1), nuisance, offset), means


def _stacked(slope: FloatArray, columns: int) -> FloatArray:
    """The slope on the metric, and none on the influence values."""
    result = np.zeros((*slope.shape, columns))
    result[:, :, 0] = slope
    return result
