"""The joint likelihood of all disparities of a call: what `certify` tests and `contains` asks again.

Disjoint groups, whose joint likelihood splits by block.

`Shifted`: a null fixes their means but for one common shift, and T is the minimum over θ of Σ T_j(θ + ε_j). T_j is
convex, and its derivative -2 n_j λ_j, so the minimum is where Σ n_j λ_j crosses zero. Rows that are all equal leave one
θ, as a known reference does. Many such problems are solved at once, which is what makes resampling them affordable.

`Rests`: each against all other rows, at disparities that are not 0. With P_j the share of block j and m_j its mean, the
rest of block j has the mean (μ - P_j m_j)/(1 - P_j), μ the mean of all rows, so a disparity ε_j from the rest says
m_j = μ + ε_j (1 - P_j). Given shares and means the likelihood splits by block, and T is the minimum of

    empirical    Σ_j  2 n_j log(p_j/P_j) + T_j(m_j),        p_j = n_j/n
    Euclidean    Σ_j  (n P_j - n_j)²/n_j + (n P_j)² (m_j - mean_j)²/(n_j v_j)

over P and μ (and the mean of a last block, of rows in no tested group, if there is one) with Σ P_j = 1 and
Σ P_j (m_j - μ) = 0. Without a last block the second equation is Σ_{i<j} P_i P_j (ε_i + ε_j) = 0: it restricts the
shares, and nothing solves it when the sums of two disparities all have one sign. A last block whose mean is left free
meets it whatever the other unknowns are: it is not asked then, and the block counts by its share alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import optimize

from isonomy.errors import UsageError
from isonomy.groups.likelihood.joint import Functions, Joint, Patterns
from isonomy.groups.likelihood.lines import Lines
from isonomy.groups.likelihood.links import IDENTITY, LINKS, LOGIT, Link
from isonomy.groups.likelihood.means import Means
from isonomy.groups.likelihood.profile import linked, natural
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray, ObjectArray
from isonomy.numerics.roots import roots
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


# Where T is continued as a parabola while the search is on: this part of the way is left from a block's mean to the end
# of its range (of the whole range, where that is less: a 0/1 block may lie at the end).
EDGE, LEAST = 1e-4, 1e-9
# How far inside the range, relative to it, the search begins.
INSIDE = 0.05
# Shares stay above this part of the data's own.
SMALLEST = 1e-6
# The variance, relative to the largest, of a block whose rows are all equal: its mean hardly moves.
FLAT = 1e-9
# How well, in standard errors, the two equations must hold.
MET = 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class Shifted:
    """Problems in rows, groups in columns: places in ``groups``, which of them count, and the ε_j of the columns."""

    groups: Means
    place: IntArray
    counts: BoolArray
    shift: FloatArray

    @property
    def centre(self) -> FloatArray:
        """The common shift that fits best if all variances are equal."""
        n = np.where(self.counts, self.groups.n[self.place], 0.0)
        fits = np.where(self.counts, self.groups.mean[self.place] - self.shift, 0.0)
        return (n * fits).sum(axis=1) / n.sum(axis=1)

    @property
    def df(self) -> IntArray:
        """Groups less the shift; 0 where no row differs from the null."""
        away = self.groups.mean[self.place] - self.shift - self.centre[:, None]
        moving = (self.groups.variance[self.place] + away**2 > 0) & self.counts
        # A group whose rows all equal the centre counts: it says what θ is.
        return np.where(moving.any(axis=1), np.maximum(self.counts.sum(axis=1) - 1, 0), 0)

    def solve(self) -> tuple[FloatArray, FloatArray, ObjectArray]:
        """T, θ and the status of each problem."""
        groups, df = self.groups, self.df
        low = np.where(self.counts, groups.low[self.place] - self.shift, -np.inf).max(axis=1)
        high = np.where(self.counts, groups.high[self.place] - self.shift, np.inf).min(axis=1)
        theta = np.where(df > 0, np.nan, self.centre)
        statistic = np.where(df > 0, np.inf, 0.0)
        # Neither np.where nor np.full, which make plain strings of an enum's members.
        status = np.empty(df.shape, dtype=object)
        status[:] = Status.OK
        pinned = np.flatnonzero((df > 0) & (low == high))
        at_end = self._total(low[pinned], pinned)
        statistic[pinned], theta[pinned] = (at_end, np.where(np.isfinite(at_end), low[pinned], np.nan))
        open_ = np.flatnonzero((df > 0) & (low < high))
        solution = roots(
            lambda x, active: self._slope(x, open_[active]),
            low[open_],
            high[open_],
            x0=self.centre[open_],
            direction="decreasing",
        )
        theta[open_], statistic[open_] = solution.x, self._total(solution.x, open_)
        # Without a root the minimum is at an end, which 0/1 rows may reach.
        status[open_] = np.where(solution.status == Status.INFEASIBLE, status[open_], solution.status)
        status[np.isinf(statistic)] = Status.OUTSIDE_RANGE
        return statistic, theta, status

    def _total(self, theta: FloatArray, index: IntArray) -> FloatArray:
        """Σ T_j(θ + ε_j)."""
        place = self.place[index]
        low, high = self.groups.low[place], self.groups.high[place]
        # Rows that are all equal allow one θ, and adding their ε_j back may miss it by rounding.
        means = np.where((low == high) & (low - self.shift == theta[:, None]), low, theta[:, None] + self.shift)
        alone = self.groups.statistic(means.ravel(), place.ravel()).reshape(place.shape)
        return np.where(self.counts[index], alone, 0.0).sum(axis=1)

    def _slope(self, theta: FloatArray, index: IntArray) -> tuple[FloatArray, FloatArray]:
        """Σ n_j λ_j and its derivative."""
        place, counts = self.place[index], self.counts[index]
        point = self.groups.locate((theta[:, None] + self.shift).ravel(), place.ravel())
        n = self.groups.n[place]
        pull = n * point.multiplier.reshape(place.shape)
        bend = n * (point.dmultiplier / point.dmean).reshape(place.shape)
        return np.where(counts, pull, 0.0).sum(axis=1), np.where(counts, bend, 0.0).sum(axis=1)


@dataclass(frozen=True, slots=True, eq=False)
class Rests:
    """Blocks that are all rows together; the first ``disparities.size`` are tested against their rests.

    The unknowns are the shares, μ and, if there is a last block and its mean is not ``free``, that mean, in this order.
    """

    blocks: Means
    disparities: FloatArray
    euclidean: bool
    free: bool = False

    def solve(self) -> Joint:
        """T from the data's own shares or, should no weighting be found from there, from equal ones.

        ``scale`` and ``move`` of the answer say how the likeliest weighting changes each block's share and mean.
        """
        own = self._from(self._share)
        if own.status is Status.OK:
            return own
        again = self._from(np.full(self._share.size, 1.0 / self._share.size))
        return again if again.statistic < own.statistic else own

    @property
    def _share(self) -> FloatArray:
        return self.blocks.n / self.blocks.n.sum()

    @property
    def _variance(self) -> FloatArray:
        return np.maximum(self.blocks.variance, FLAT * self.blocks.variance.max())

    def _from(self, shares: FloatArray) -> Joint:
        """Sequential quadratic programming in units of the unknowns' standard errors."""
        blocks, tested, own = self.blocks, self.disparities.size, self._share
        rows, mean = float(blocks.n.sum()), float(own @ blocks.mean)
        spread = float(own @ (blocks.variance + (blocks.mean - mean) ** 2))
        shift = self.disparities * (1.0 - shares[:tested])
        fitted = float(np.average((blocks.mean[:tested] - shift), weights=(blocks.n / self._variance)[:tested]))
        if not self.euclidean:
            low, high = float((blocks.low[:tested] - shift).max()), float((blocks.high[:tested] - shift).min())
            margin = INSIDE * (high - low)
            fitted = min(max(fitted, low + margin), high - margin) if low < high else 0.5 * (low + high)
        last = slice(own.size if self.free else tested, None)
        start = np.concatenate([shares, [fitted], blocks.mean[last]])
        squares = np.concatenate([own * (1.0 - own), [spread], (blocks.variance / own)[last]])
        unit = np.sqrt(squares / rows)
        size = np.abs(self.disparities).max() if tested == own.size else np.sqrt(spread)
        scale = np.array([1.0] if self.free else [1.0, size]) / np.sqrt(rows)

        def cost(y: FloatArray) -> tuple[float, FloatArray]:
            value, gradient = self._cost(start + unit * y)
            return value, unit * gradient

        constraints: list[Any] = [
            {
                "type": "eq",
                "fun": lambda y: self._balance(start + unit * y)[0] / scale,
                "jac": lambda y: self._balance(start + unit * y)[1] * unit / scale[:, None],
            }
        ]
        bounds: list[tuple[float | None, float | None]] = [(None, None)] * start.size
        if not self.euclidean:  # its weights may be negative
            bounds[: own.size] = [((SMALLEST * o - s) / u, None) for o, s, u in zip(own, shares, unit, strict=False)]
            constraints.append(self._ranges(start, unit))
        solution = optimize.minimize(
            cost,
            np.zeros(start.size),
            jac=True,
            method="SLSQP",
            bounds=bounds,
            constraints=constraints,
            options={"ftol": 1e-13, "maxiter": 500},
        )
        at = start + unit * solution.x
        means = self._means(at)[0]
        met = bool((np.abs(self._balance(at)[0]) <= MET * scale).all())
        slack = MET * np.sqrt(spread / rows)
        met &= self.euclidean or bool(((means >= blocks.low - slack) & (means <= blocks.high + slack)).all())
        value, status = float(solution.fun), Status.OK if solution.success else Status.NOT_CONVERGED
        if not met:
            value, status = np.inf, Status.OUTSIDE_RANGE
        elif not self.euclidean:
            alone = blocks.statistic(np.clip(means, blocks.low, blocks.high), np.arange(own.size))
            value = float(np.sum(alone + 2.0 * blocks.n * np.log(own / at[: own.size])))
        scale, move = at[: own.size] / own, means - blocks.mean
        return Joint(max(value, 0.0), tested, np.empty(0), status, scale=scale, move=move)

    def _means(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The blocks' means and their derivatives by the unknowns."""
        size, tested = self.blocks.n.size, self.disparities.size
        first = np.arange(tested)
        slope = np.zeros((size, x.size))
        slope[first, first], slope[first, size] = -self.disparities, 1.0
        # A free mean stays where it costs nothing.
        last = self.blocks.mean[tested:] if self.free else x[size + 1 :]
        means = np.concatenate([x[size] + self.disparities * (1.0 - x[:tested]), last])
        slope[tested:, size + 1 :] = 1.0
        return means, slope

    def _balance(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Σ P_j - 1 and, unless a mean is free, Σ P_j (m_j - μ), and their derivatives."""
        size = self.blocks.n.size
        shares, (means, slope) = x[:size], self._means(x)
        first = np.zeros(x.size)
        first[:size] = 1.0
        if self.free:
            return np.array([shares.sum() - 1.0]), first[None]
        slope[:, size] -= 1.0
        second = shares @ slope
        second[:size] += means - x[size]
        return np.array([shares.sum() - 1.0, shares @ (means - x[size])]), np.stack([first, second])

    def _ranges(self, start: FloatArray, unit: FloatArray) -> dict[str, Any]:
        """Means stay within the range of the data; they are linear in the unknowns."""
        blocks, slope = self.blocks, self._means(start)[1] * unit
        width = np.where(blocks.high > blocks.low, blocks.high - blocks.low, 1.0)

        def room(y: FloatArray) -> FloatArray:
            means = self._means(start + unit * y)[0]
            return np.concatenate([(means - blocks.low) / width, (blocks.high - means) / width])

        slopes = np.concatenate([slope, -slope]) / np.tile(width, 2)[:, None]
        return {"type": "ineq", "fun": room, "jac": lambda y: slopes}

    def _cost(self, x: FloatArray) -> tuple[float, FloatArray]:
        """The sum to minimise and its gradient."""
        blocks, size = self.blocks, self.blocks.n.size
        shares, (means, slope) = x[:size], self._means(x)
        n, rows = blocks.n, float(blocks.n.sum())
        if self.euclidean:
            away, gap = rows * shares - n, means - blocks.mean
            pull = rows * shares * gap / (n * self._variance)
            value = away**2 / n + rows * shares * gap * pull
            by_share = 2.0 * rows * (away / n + gap * pull)
            by_mean = 2.0 * rows * shares * pull
        else:
            value, by_mean = self._alone(means)
            value = value + 2.0 * n * np.log(n / (rows * shares))
            by_share = -2.0 * n / shares
        gradient = by_mean @ slope
        gradient[:size] += by_share
        return float(value.sum()), gradient

    def _alone(self, means: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Each block's T_j and its derivative, continued as a parabola where the range ends."""
        blocks = self.blocks
        edge = LEAST * (blocks.high - blocks.low)
        low = np.maximum(blocks.low + EDGE * (blocks.mean - blocks.low), blocks.low + edge)
        high = np.minimum(blocks.high - EDGE * (blocks.high - blocks.mean), blocks.high - edge)
        near = np.clip(means, low, high)
        with np.errstate(invalid="ignore", divide="ignore"):
            point = blocks.locate(near, np.arange(means.size))
            bend = -2.0 * blocks.n * point.dmultiplier / point.dmean
        slope, bend = (np.where(blocks.high > blocks.low, v, 0.0) for v in (-2.0 * blocks.n * point.multiplier, bend))
        away = means - near
        return (point.statistic + slope * away + 0.5 * bend * away**2, slope + bend * away)
