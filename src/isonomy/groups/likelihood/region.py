"""The joint likelihood of all disparities of a call: what `certify` tests, and what `contains` evaluates again.

The joint likelihood of disjoint groups splits by group. A null fixes their means up to a common shift (`Shifted`), and
T is the minimum over θ of Σ T_j(θ + ε_j). T_j is convex, and its derivative is -2 n_j λ_j, so the minimum is where Σ
n_j λ_j crosses zero. Rows that are all equal leave one θ, as a known reference does. Many such problems are solved at
once, which makes resampling them affordable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from isonomy.errors import UsageError
from isonomy.groups.likelihood.joint import Functions, Joint, Patterns
from isonomy.groups.likelihood.lines import Lines
from isonomy.groups.likelihood.means import IDENTITY, LINKS, LOGIT, Link, Means, linked, natural
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray, ObjectArray
from isonomy.numerics.roots import roots
from isonomy.numerics.status import Status
from isonomy.numerics.tails import chi2_isf, weighted_chi2_isf

# Entries of the largest membership matrix that a joint test of overlapping groups may need.
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

    ``pattern`` per line; ``slots`` holds the tested groups that a pattern belongs to, one column for each partition
    (-1: none), ``referent`` whether it belongs to the reference (1 for the population). Values, references and
    influence values are in units (`lines.Units`) of size ``unit``.

    Groups that all differ from the population as the null says determine the mean of the rows in no tested group too. A
    handful of such rows would have its mean tested, for which no chi-square is reliable, so that mean is left free. The
    population's mean is then free as well, and the test compares the groups with one another: ``referent`` is 0
    everywhere.

    ``theta`` holds the plugged-in or known reference of each group, None if it is profiled; ``rest``: each group has
    its own reference, all other rows. ``least`` is the smallest group tested; a difference of groups of less than half
    of it is not a constraint of its own. T is divided by ``factor`` (Bartlett's correction) before it is compared with
    a chi-square. ``scale`` is that of the disparities (`profile.Link`), on which the origin of the region's units lies
    ``center`` above zero.
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
    center: float = 0.0
    scale: str = "difference"

    def test(self, disparities: npt.ArrayLike) -> Joint:
        """T, not divided by ``factor``, and its degrees of freedom at the disparities: one each, or one for all."""
        return self.solve(self.inner(disparities))

    def critical(self, alpha: float, df: int) -> float:
        """The critical value of T, not divided by ``factor``."""
        return self.factor * float(chi2_isf(alpha, df))

    def inner(self, disparities: npt.ArrayLike) -> FloatArray:
        """Disparities in the region's units: their δ on the scale of ratios."""
        delta = self.link.delta(np.broadcast_to(np.asarray(disparities, dtype=float), self.groups))
        return delta / self.unit if self.link is IDENTITY else delta

    @property
    def link(self) -> Link:
        """The scale of the disparities."""
        return LINKS[self.scale]

    def solve(self, target: FloatArray) -> Joint:
        """The same for disparities in the region's units, as are the estimated reference and the moves of means."""
        if self.method == "el" and self.disjoint and self.theta is not None:
            means, groups, every = self._known(target, self.theta), self.group_means(), np.arange(self.groups)
            total = float(groups.statistic(means, every).sum())
            second = groups.variance[every] + (groups.mean[every] - means) ** 2
            status = Status.OK if np.isfinite(total) else Status.OUTSIDE_RANGE
            return Joint(total, int((second > 0).sum()), np.empty(0), status)
        if self.quick(target):
            return self._least(target)
        data, members = self.patterns, self._members()
        usable = self._usable(data.n, members)
        joint = self._population_or_rest(data.n, usable, target[usable])
        if joint is None:
            functions, theta = self._functions(data, members[:, usable], usable, target[usable])
            joint = data.likelihood(functions, theta) if self.method == "el" else data.euclidean(functions, theta)
        return replace(joint, left_out=tuple(np.setdiff1d(np.arange(target.size), usable).tolist()))

    def _known(self, target: FloatArray, theta: FloatArray) -> FloatArray:
        """The means at disparities from known references."""
        if self.link is IDENTITY:
            return target + theta
        return self.link.moved(theta + self.center, target) - self.center

    @property
    def disjoint(self) -> bool:
        """Whether no pattern is in two tested groups."""
        return bool(((self.slots >= 0).sum(axis=1) <= 1).all())

    @property
    def single(self) -> IntArray:
        """The tested group of each pattern, -1 for none, if groups are disjoint (else the last of several)."""
        return np.max(self.slots, axis=1, initial=-1)

    @property
    def free(self) -> bool:
        """Whether the population's mean is free because only a handful of rows are in no tested group."""
        return self.theta is None and self.estimate is None and not self.referent.any()

    @property
    def spare(self) -> BoolArray:
        """Lines in no tested group."""
        return self.single[self.pattern] < 0

    @property
    def _everyone(self) -> bool:
        """Whether the reference, profiled, is the population or the rest."""
        return self.theta is None and self.estimate is None and (self.free or bool((self.referent == 1).all()))

    def _members(self) -> FloatArray:
        """The tested groups that each pattern belongs to, as a matrix of 0 and 1."""
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

    def _usable(self, n: FloatArray, members: FloatArray) -> IntArray:
        """Groups that do not single out a handful of rows.

        A group with all but one of its rows in another tested group would constrain that row. Pivoted Cholesky on the
        counts of common rows: a pivot is an upper bound on the rows that a group adds to those before it (for the last
        two of a partition n m / (n + m), hence half of ``least``). Groups with a pivot of 0 stay: they are unions and
        differences of others, and the rank of the estimating functions accounts for them. Disjoint groups and the
        population single out only the rows in no group, which are not a handful (or their mean is free).
        """
        if self.disjoint and self._everyone:
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

    def group_means(self) -> Means:
        """The means of the tested groups, which are disjoint."""
        return self.lines.means(self.single[self.pattern], self.groups + 1)

    def quick(self, target: FloatArray) -> bool:
        """Whether the disparities fix the means of disjoint groups up to a common shift."""
        if self.method != "el" or not self.disjoint or self.theta is not None or self.estimate is not None:
            return False
        if self.rest or (self.referent == 1).all():
            return not target.any()
        # A named reference that is apart from every tested group.
        return bool((self.referent[self.single >= 0] == 0).all())

    @property
    def _blocks(self) -> IntArray:
        """For a quick test: the tested group of each pattern, m for the reference's other patterns, -1 for others."""
        return np.where(self.single >= 0, self.single, np.where(self.referent == 1, self.groups, -1))

    def shifted(
        self, target: FloatArray, copy: IntArray, line: IntArray, weight: FloatArray | None, copies: int
    ) -> Shifted:
        """The quick problem for many copies of the region, each made of some lines with some weights."""
        size = self.groups + 1
        block = self._blocks[self.pattern[line]]
        lines = Lines(self.lines.binary, self.lines.value[line] + self.center, weight)
        groups = lines.means(np.where(block < 0, -1, copy * size + block), copies * size)
        place = np.arange(copies * size).reshape(copies, size)
        # The last place holds the rows of no tested group, or the named reference.
        shifted = linked(groups, self.link) if target.any() else groups
        return Shifted(shifted, place, groups.n[place] > 0, np.append(target, 0.0))

    def _least(self, target: FloatArray) -> Joint:
        """Disjoint groups with a profiled reference: the minimum over θ of the sum of T_j(θ + ε_j)."""
        every = np.arange(self.pattern.size)
        problem = self.shifted(target, np.zeros_like(every), every, self.lines.weight, 1)
        statistic, theta, status = problem.solve()
        if target.any() and self.link is not IDENTITY:
            moved = self.link.moved(self.link.inverse(theta), problem.shift) - natural(problem.groups).mean
        else:
            moved = theta + problem.shift - problem.groups.mean
        move = np.append(np.where(problem.counts[0], moved, 0.0), 0.0)[None, self._blocks]
        scale = np.ones(self.slots.shape[0])
        return Joint(float(statistic[0]), int(problem.df[0]), theta, status[0], scale=scale, move=move)

    def _functions(
        self, data: Patterns, members: FloatArray, usable: IntArray, target: FloatArray
    ) -> tuple[Functions, FloatArray]:
        """Estimating functions of the ``usable`` groups at ``target``, and the reference's starting value."""
        referent, columns = self.referent, 1 if self.lines.influence is None else 2
        both = members if self.theta is not None else np.column_stack([members, referent])
        slope = np.zeros((*both.shape, columns))
        slope[:, :, 0] = both
        if self.theta is not None:
            offset = members * self._known(target, self.theta[usable])
            return Functions(slope, np.zeros((*members.shape, 0)), offset), np.empty(0)
        common = referent if referent.any() else members.max(axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = float(np.nan_to_num(common @ data.first[0] / (common @ data.n)))
        times, more = np.ones(target.size), target
        if self.link is not IDENTITY:  # M - r θ, about the true zero
            times, more = np.exp(target), np.expm1(target) * self.center
        nuisance = np.column_stack([members * times, referent])
        offset = np.column_stack([members * more, np.zeros(referent.size)])
        if self.estimate is not None:
            slope[:, -1, 0], slope[:, -1, 1], nuisance[:, -1] = 0.0, 1.0, 1.0
            offset[:, -1] = -self.estimate
            mean = self.estimate
        return Functions(slope, nuisance[:, :, None], offset), np.array([mean])

    def _population_or_rest(self, n: FloatArray, usable: IntArray, target: FloatArray) -> Joint | None:
        """Disparities from the population or the rest that restrict the groups' shares; None if functions serve.

        With shares P the disparities of groups that are all rows meet Σ P_j ε_j = 0: that is possible if they have both
        signs or are all 0. Disparities from the rests depend on the shares of all groups, except for two groups.
        """
        if not target.any():
            return None
        if self.link is not IDENTITY:
            if not self.rest and self.link is not LOGIT:
                return None
            raise UsageError(
                f"scale: {self.scale!r} other than 1 can be tested jointly only against a named group that is disjoint "
                "from the tested groups; use scale='difference'."
            )
        if not self._everyone or (self.free and not self.rest) or not (self.disjoint or self.rest):
            return None
        codes = np.full(self.groups + 1, usable.size)  # the last for patterns in no tested group
        codes[usable] = np.arange(usable.size)
        blocks = codes[self.single]
        rows = np.bincount(blocks, weights=n, minlength=usable.size + 1)
        size = usable.size + int(rows[-1] > 0)
        if self.rest and (size != 2 or self.free or not self.disjoint):
            raise UsageError(
                "reference: more than two groups can be tested jointly against their rests only at a disparity of 0; "
                "use reference='population' for other disparities."
            )
        least, most = (target.sum(), target.sum()) if self.rest else (target.min(), target.max())
        zero = SAME * float(np.abs(target).max())
        if size == usable.size and (least < -zero) != (most > zero):
            return Joint(np.inf, 1 if self.rest else usable.size, np.empty(0), Status.INFEASIBLE)
        if not self.rest:
            return None
        # The rest of each of two groups is the other one, whatever their shares.
        pair = replace(self, groups=1, slots=np.where(blocks == 0, 0, -1)[:, None], rest=False)
        return replace(pair, referent=(blocks == 1).astype(float)).solve(target[:1])


@dataclass(frozen=True, slots=True, eq=False)
class Stacked:
    """The regions of several metrics of the same rows: their statistics, each divided by its factor, are added.

    The sum is a sum of chi-squares with these ``weights``.
    """

    regions: tuple[Region, ...]
    weights: FloatArray

    @property
    def groups(self) -> int:
        """The number of disparities of all metrics."""
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
        """The critical value of the sum, with unit weights for degrees of freedom beyond ``weights``."""
        more = np.ones(max(df - self.weights.size, 0))
        return float(weighted_chi2_isf(alpha, np.concatenate([self.weights, more])))


@dataclass(frozen=True, slots=True, eq=False)
class Shifted:
    """Problems in rows, groups in columns: places in ``groups``, which of them count, and the ε_j of the columns."""

    groups: Means
    place: IntArray
    counts: BoolArray
    shift: FloatArray

    @property
    def center(self) -> FloatArray:
        """The common shift that fits best if all variances are equal."""
        n = np.where(self.counts, self.groups.n[self.place], 0.0)
        fits = np.where(self.counts, self.groups.mean[self.place] - self.shift, 0.0)
        return (n * fits).sum(axis=1) / n.sum(axis=1)

    @property
    def df(self) -> IntArray:
        """The number of groups minus one for the shift; 0 if no row differs from the null."""
        away = self.groups.mean[self.place] - self.shift - self.center[:, None]
        moving = (self.groups.variance[self.place] + away**2 > 0) & self.counts
        # A group whose rows all equal the center counts: it determines θ.
        return np.where(moving.any(axis=1), np.maximum(self.counts.sum(axis=1) - 1, 0), 0)

    def solve(self) -> tuple[FloatArray, FloatArray, ObjectArray]:
        """T, θ and the status of each problem."""
        groups, df = self.groups, self.df
        low = np.where(self.counts, groups.low[self.place] - self.shift, -np.inf).max(axis=1)
        high = np.where(self.counts, groups.high[self.place] - self.shift, np.inf).min(axis=1)
        theta = np.where(df > 0, np.nan, self.center)
        statistic = np.where(df > 0, np.inf, 0.0)
        # Neither np.where nor np.full: they turn the members of an enum into plain strings.
        status = np.empty(df.shape, dtype=object)
        status[:] = Status.OK
        pinned = np.flatnonzero((df > 0) & (low == high))
        at_end = self._total(low[pinned], pinned)
        statistic[pinned], theta[pinned] = (at_end, np.where(np.isfinite(at_end), low[pinned], np.nan))
        open_ = np.flatnonzero((df > 0) & (low < high))

        def slope(x: FloatArray, active: IntArray) -> tuple[FloatArray, FloatArray]:
            """Σ n_j λ_j and its derivative."""
            place, counts = self.place[open_[active]], self.counts[open_[active]]
            point = groups.locate((x[:, None] + self.shift).ravel(), place.ravel())
            n = groups.n[place]
            pull = np.where(counts, n * point.multiplier.reshape(place.shape), 0.0)
            bend = np.where(counts, n * (point.dmultiplier / point.dmean).reshape(place.shape), 0.0)
            return pull.sum(axis=1), bend.sum(axis=1)

        solution = roots(slope, low[open_], high[open_], x0=self.center[open_], direction="decreasing")
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
