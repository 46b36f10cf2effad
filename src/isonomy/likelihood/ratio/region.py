"""The joint likelihood of all disparities of a call: what `certify` tests and `contains` asks again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from isonomy.errors import UsageError
from isonomy.likelihood.ratio.blocks import Rests, Shifted
from isonomy.likelihood.ratio.joint import Functions, Joint, Patterns
from isonomy.likelihood.ratio.lines import Lines
from isonomy.likelihood.ratio.links import IDENTITY, LINKS, LOGIT, Link
from isonomy.likelihood.ratio.means import Means
from isonomy.likelihood.ratio.profile import linked, natural
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray
from isonomy.numerics.status import Status
from isonomy.numerics.tails import chi2_isf, weighted_chi2_isf

# Entries of the largest matrix of memberships that a joint test of overlapping groups may need.
LARGEST = 20_000_000
# Fewer rows than this in no tested group (than min_size, if that is less) leave their mean free: see `Region`.
HANDFUL = 10
# Disparities that cancel to this relative tolerance cancel.
SAME = 1e-9


def patterned(codes: Sequence[IntArray], marked: IntArray) -> tuple[IntArray, IntArray, FloatArray]:
    """The pattern of each line, and for each pattern its codes (a column for each of ``codes``) and its mark."""
    combined = marked
    for code in codes:
        # Renumbered at each step: the product of many dimensions does not fit an integer.
        combined = np.unique(combined * (int(code.max(initial=-1)) + 2) + code + 1, return_inverse=True)[1]
    _, first, pattern = np.unique(combined, return_index=True, return_inverse=True)
    return (pattern, np.column_stack([code[first] for code in codes]), marked[first].astype(float))


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """Lines by pattern of membership, and how the disparities of the tested groups, ``groups`` of them, are measured.

    ``pattern`` per line; ``slots`` holds the tested groups a pattern is in, one column for each partition (-1: none),
    ``referent`` whether it is in the reference (1 for the population). Values, references and influence values are in
    units (`lines.Units`) of ``unit`` of the metric's own.

    Groups that all differ from the population as they should fix the mean of the rows in no tested group too. A handful
    of such rows would have its mean tested, on which no chi-square can be relied, so that mean is left free. The
    population's mean is free with it, and what remains to be tested is how the groups differ among themselves:
    ``referent`` is then 0 everywhere.

    ``theta`` holds the plugged-in or known reference of each group, None when it is profiled;
    ``rest`` when each group has its own reference, all other rows. ``least`` is the smallest group tested; a
    difference of groups of less than half of it is no constraint of its own. ``factor`` is what T is divided by before
    it is held against a chi-square (Bartlett's correction). ``scale`` is that of the disparities (`links`), on which
    zero lies ``centre`` below the origin of the region's units.
    """

    groups: int
    method: str
    lines: Lines
    pattern: IntArray
    slots: IntArray
    referent: FloatArray
    theta: FloatArray | None
    estimate: float | None
    rest: bool
    least: int
    factor: float = 1.0
    unit: float = 1.0
    centre: float = 0.0
    scale: str = "difference"

    def test(self, disparities: npt.ArrayLike) -> Joint:
        """T, not divided by ``factor``, and its degrees of freedom at the disparities: one each, or one for all."""
        return self.solve(self.inner(disparities))

    def critical(self, alpha: float, df: int) -> float:
        """What T, not divided by ``factor``, is held against."""
        return self.factor * float(chi2_isf(alpha, df))

    def inner(self, disparities: npt.ArrayLike) -> FloatArray:
        """Disparities in the region's units: on another scale than that of differences, their δ."""
        delta = self.link.delta(np.broadcast_to(np.asarray(disparities, dtype=float), self.groups))
        return delta / self.unit if self.link is IDENTITY else delta

    @property
    def link(self) -> Link:
        """The scale of the disparities."""
        return LINKS[self.scale]

    def solve(self, target: FloatArray) -> Joint:
        """The same for disparities in the region's units; so are the reference found and the moves of means."""
        if self.method == "el" and self.disjoint and self.theta is not None:
            return self._sum(self._known(target, self.theta))
        if self.quick(target):
            return self._least(target)
        data, members = self.patterns, self.members()
        kept = self._kept(data.n, members)
        joint = self._among_all(data.n, kept, target[kept])
        if joint is None:
            functions, theta = self._functions(data, members[:, kept], kept, target[kept])
            joint = data.likelihood(functions, theta) if self.method == "el" else data.euclidean(functions, theta)
        return replace(joint, left_out=tuple(np.setdiff1d(np.arange(target.size), kept).tolist()))

    def _known(self, target: FloatArray, theta: FloatArray) -> FloatArray:
        """The means at disparities from known references."""
        if self.link is IDENTITY:
            return target + theta
        return self.link.moved(theta + self.centre, target) - self.centre

    @property
    def disjoint(self) -> bool:
        """Whether no pattern is in two tested groups."""
        return bool(((self.slots >= 0).sum(axis=1) <= 1).all())

    @property
    def single(self) -> IntArray:
        """The tested group of each pattern, -1 for none; for disjoint groups (else the last of several)."""
        return np.max(self.slots, axis=1, initial=-1)

    @property
    def everyone(self) -> bool:
        """Whether the reference, profiled, is the population or the rest."""
        return self.theta is None and self.estimate is None and (self.free or bool((self.referent == 1).all()))

    @property
    def free(self) -> bool:
        """Whether the population's mean is free, for a handful of rows in no tested group."""
        return self.theta is None and self.estimate is None and not self.referent.any()

    @property
    def spare(self) -> BoolArray:
        """Lines in no tested group."""
        return self.single[self.pattern] < 0

    def members(self) -> FloatArray:
        """Which tested groups each pattern is in, as a matrix of 0 and 1."""
        shape = (self.slots.shape[0], self.groups)
        if shape[0] * shape[1] > LARGEST:
            raise UsageError(
                f"groups: {shape[1]:,} overlapping groups are too many for one joint test; raise min_size."
            )
        result = np.zeros(shape)
        for column in self.slots.T:
            inside = np.flatnonzero(column >= 0)
            result[inside, column[inside]] = 1.0
        return result

    def _kept(self, n: FloatArray, members: FloatArray) -> IntArray:
        """Groups that single out no handful of rows.

        A group all but one of whose rows are in another tested group would constrain that one row. Pivoted Cholesky on
        the counts of common rows: a pivot is the number of rows a group adds to those before it, at most (for the
        last two of a partition n m / (n + m), hence half of ``least``). Pivots of 0 stay: such groups are unions and
        differences of others, and the rank of the estimating functions accounts for them. Disjoint groups and the
        population single out only the rows in no group, which are no handful (or their mean is free).
        """
        if self.disjoint and self.everyone:
            return np.arange(members.shape[1])
        first = self.referent if self.estimate is None else np.ones_like(self.referent)
        led = self.theta is None and not self.free
        functions = np.column_stack([first, members]) if led else members
        gram = functions.T @ (n[:, None] * functions)
        left = np.diag(gram).copy()
        factor = np.zeros((0, left.size))
        chosen: list[int] = []
        while len(chosen) < left.size:
            pivot = 0 if led and not chosen else int(np.argmax(left))
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
        return self.lines.patterns(self.pattern, self.slots.shape[0])

    def group_means(self, codes: IntArray) -> Means:
        """The tested groups of ``codes`` (one a pattern, -1: none) and, last, the patterns of code m."""
        return self.lines.means(codes[self.pattern], self.groups + 1)

    def quick(self, target: FloatArray) -> bool:
        """Whether the disparities fix the means of disjoint groups but for one common shift."""
        if self.method != "el" or not self.disjoint or self.theta is not None or self.estimate is not None:
            return False
        if self.rest or (self.referent == 1).all():
            return not target.any()
        # A named reference: apart from every tested group.
        return bool((self.referent[self.single >= 0] == 0).all())

    @property
    def blocks(self) -> IntArray:
        """For a quick test: the tested group of each pattern, m for the reference's other patterns, -1 for others."""
        return np.where(self.single >= 0, self.single, np.where(self.referent == 1, self.groups, -1))

    def shifted(
        self, target: FloatArray, copy: IntArray, line: IntArray, weight: FloatArray | None, copies: int
    ) -> Shifted:
        """The quick problem of each of many copies of the region, made of some lines with some weights each."""
        size = self.groups + 1
        block = self.blocks[self.pattern[line]]
        lines = Lines(self.lines.binary, self.lines.value[line] + self.centre, weight)
        groups = lines.means(np.where(block < 0, -1, copy * size + block), copies * size)
        place = np.arange(copies * size).reshape(copies, size)
        # The last place holds the rows of no tested group, or the named reference.
        shifted = linked(groups, self.link) if target.any() else groups
        return Shifted(shifted, place, groups.n[place] > 0, np.append(target, 0.0))

    def _sum(self, means: FloatArray) -> Joint:
        """Disjoint groups and known references: the sum of the groups' own statistics."""
        groups, m = self.group_means(self.single), self.groups
        index = np.arange(m)
        statistic = groups.statistic(means, index)
        second = groups.variance[:m] + (groups.mean[:m] - means) ** 2
        total = float(statistic.sum())
        status = Status.OK if np.isfinite(total) else Status.OUTSIDE_RANGE
        return Joint(total, int((second > 0).sum()), np.empty(0), status)

    def _least(self, target: FloatArray) -> Joint:
        """Disjoint groups with a profiled reference: the minimum over θ of the sum of T_j(θ + ε_j)."""
        every = np.arange(self.pattern.size)
        problem = self.shifted(target, np.zeros_like(every), every, self.lines.weight, 1)
        statistic, theta, status = problem.solve()
        if target.any() and self.link is not IDENTITY:
            moved = self.link.moved(self.link.inverse(theta), problem.shift) - natural(problem.groups).mean
        else:
            moved = theta + problem.shift - problem.groups.mean
        move = np.append(np.where(problem.counts[0], moved, 0.0), 0.0)[None, self.blocks]
        scale = np.ones(self.slots.shape[0])
        return Joint(float(statistic[0]), int(problem.df[0]), theta, status[0], scale=scale, move=move)

    def _functions(
        self, data: Patterns, members: FloatArray, kept: IntArray, target: FloatArray
    ) -> tuple[Functions, FloatArray]:
        """Estimating functions of the ``kept`` groups at ``target``, and the reference's starting value."""
        referent = self.referent
        columns = 1 if self.lines.influence is None else 2
        common = referent if referent.any() else members.max(axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = float(np.nan_to_num(common @ data.first[0] / (common @ data.n)))
        if self.theta is not None:
            offset = members * self._known(target, self.theta[kept])
            return Functions(_stacked(members, columns), np.zeros((*members.shape, 0)), offset), np.empty(0)
        stacked = _stacked(np.column_stack([members, referent]), columns)
        times, more = np.ones(target.size), target
        if self.link is not IDENTITY:  # M - r θ, zero being where it is
            times, more = np.exp(target), np.expm1(target) * self.centre
        nuisance = np.column_stack([members * times, referent])
        offset = np.column_stack([members * more, np.zeros(referent.size)])
        if self.estimate is not None:
            stacked[:, -1, 0], stacked[:, -1, 1], nuisance[:, -1] = 0.0, 1.0, 1.0
            offset[:, -1] = -self.estimate
            mean = self.estimate
        return Functions(stacked, nuisance[:, :, None], offset), np.array([mean])

    def _among_all(self, n: FloatArray, kept: IntArray, target: FloatArray) -> Joint | None:
        """Disparities from the population or the rest that say something about the groups' shares too.

        None where the estimating functions serve: all other references, and disparities of 0.
        """
        if self.link is not IDENTITY and target.any() and (self.rest or self.link is LOGIT):
            raise UsageError(
                f"scale: {self.scale!r} other than 1 can be tested for all groups at once against a named group that "
                "is apart from them only; use scale='difference'."
            )
        if not self.everyone or not target.any() or self.link is not IDENTITY:
            return None
        if not self.disjoint:
            if self.rest:
                raise UsageError(
                    "reference: overlapping groups can be tested jointly against their rests at disparity 0 only; "
                    "use reference='population' for other disparities."
                )
            return None
        if self.free and not self.rest:
            return None
        codes = np.full(self.groups + 1, kept.size)  # the last for patterns in no tested group
        codes[kept] = np.arange(kept.size)
        blocks = codes[self.single]
        rows = np.bincount(blocks, weights=n, minlength=kept.size + 1)
        size = kept.size + int(rows[-1] > 0)
        df = 1 if self.rest and size == 2 else kept.size
        if self.free:
            df = kept.size - 1
        elif size == kept.size and _contradictory(target, self.rest):
            return Joint(np.inf, df, np.empty(0), Status.INFEASIBLE)
        if not self.rest:
            return None
        if size == 2 and not self.free:
            # The rest of one is the other, whatever their shares.
            pair = replace(self, groups=1, slots=np.where(blocks == 0, 0, -1)[:, None], rest=False)
            return replace(pair, referent=(blocks == 1).astype(float)).solve(target[:1])
        if not rows[:size].all():
            return Joint(np.inf, df, np.empty(0), Status.OUTSIDE_RANGE)
        means = self.lines.means(blocks[self.pattern], size)
        joint = Rests(means, target, self.method == "eel", self.free).solve()
        assert joint.scale is not None
        assert joint.move is not None
        scale, move = np.append(joint.scale, 1.0)[blocks], np.append(joint.move, 0.0)[None, blocks]
        return replace(joint, df=df, scale=scale, move=move)


@dataclass(frozen=True, slots=True, eq=False)
class Stacked:
    """The regions of several metrics of the same rows: their statistics, each divided by its own factor, are added.

    ``weights`` are those of the chi-squares whose sum that is.
    """

    regions: tuple[Region, ...]
    weights: FloatArray

    @property
    def groups(self) -> int:
        """Disparities of all metrics."""
        return sum(region.groups for region in self.regions)

    def test(self, disparities: npt.ArrayLike) -> Joint:
        """The sum of the metrics' statistics at the disparities: one each, or one for all."""
        every = np.broadcast_to(np.asarray(disparities, dtype=float), self.groups)
        parts = np.split(every, np.cumsum([region.groups for region in self.regions])[:-1])
        joints = [region.test(part) for region, part in zip(self.regions, parts, strict=True)]
        worst = next((joint.status for joint in joints if joint.status is not Status.OK), Status.OK)
        statistic = sum(j.statistic / region.factor for j, region in zip(joints, self.regions, strict=True))
        return Joint(statistic, sum(j.df for j in joints), np.empty(0), worst)

    def critical(self, alpha: float, df: int) -> float:
        """What the sum is held against; as many chi-squares more as there are more degrees of freedom."""
        more = np.ones(max(df - self.weights.size, 0))
        return float(weighted_chi2_isf(alpha, np.concatenate([self.weights, more])))


def whitened(influences: Sequence[FloatArray], sizes: Sequence[int]) -> FloatArray:
    """What each line adds to several metrics' statistics, those of one metric independent of one another.

    ``influences`` hold what each line (a row, times the root of its mass) adds to the disparities of one metric, in
    ``sizes[i]`` directions that are not fixed by others.
    """
    parts = []
    for values, size in zip(influences, sizes, strict=True):
        scale, vectors = np.linalg.eigh(values.T @ values)
        parts.append(values @ (vectors[:, scale.size - size :] / np.sqrt(scale[scale.size - size :])))
    return np.hstack(parts)


def _contradictory(disparities: FloatArray, rest: bool) -> bool:
    """Whether no shares of groups that are all rows together give these disparities.

    With shares P the disparities ε from the population meet Σ P_j ε_j = 0, those from the rests
    Σ_{i<j} P_i P_j (ε_i + ε_j) = 0: possible if the ε, or the sums of two of them, have both signs or are all 0.
    """
    ordered = np.sort(disparities)
    low, high = (ordered[:2].sum(), ordered[-2:].sum()) if rest else (ordered[0], ordered[-1])
    least = SAME * float(np.abs(ordered).max())
    return bool((low < -least) != (high > least))


def _stacked(slope: FloatArray, columns: int) -> FloatArray:
    """The slope on the metric, and none on the influence values."""
    result = np.zeros((*slope.shape, columns))
    result[:, :, 0] = slope
    return result
