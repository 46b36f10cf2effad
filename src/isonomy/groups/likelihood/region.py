"""All groups at once: the region of their disparities, small-sample corrections, and contrasts without a likelihood.

The joint likelihood of disjoint groups splits by group. A null fixes their means up to a common shift (`least_shift`),
and T is the minimum over θ of Σ T_j(θ + ε_j). T_j is convex, and its derivative is -2 n_j λ_j, so the minimum is where
Σ n_j λ_j crosses zero. Rows that are all equal leave one θ, as a known reference does. Many such problems are solved at
once, which makes resampling them affordable.

A joint T is divided by the mean of T over its degrees of freedom (Bartlett). At the estimates the rank of the
estimating functions may be another one, if it depends on the disparities, as against the population. So the rows are
first made to meet the tested null, and each resample is tested at that null.

Whether a joint test needs the correction follows from the second-order term of T. The mean of T over its degrees of
freedom is about 1 + A, with A the mean over groups of a/n (`variants`): T is chi-square times 1 + A, so a nominal level
becomes P(χ² > critical / (1 + A)). With many degrees of freedom a small A matters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from isonomy.errors import UsageError
from isonomy.groups.likelihood.comparison import ComparedGroups, stacked
from isonomy.groups.likelihood.joint import Functions, Joint, Patterns, quadratic
from isonomy.groups.likelihood.lines import Lines, refuse_many
from isonomy.groups.likelihood.means import IDENTITY, LINKS, LOGIT, Binary, Link, Means, Real, linked, natural
from isonomy.groups.likelihood.profile import bartlett_constant, mean_of_usable
from isonomy.groups.options import Reference, To
from isonomy.inference.effect import SKEWED
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray, ObjectArray
from isonomy.numerics.roots import roots
from isonomy.numerics.status import Status
from isonomy.numerics.tails import chi2_isf, chi2_sf

# Entries of the largest membership matrix that a joint test of overlapping groups may need.
LARGEST = 20_000_000
# Fewer rows than this in no tested group (than min_size, if that is less) leave their mean free: see `Region`.
HANDFUL = 10
# Disparities that cancel to this relative tolerance cancel.
SAME = 1e-9
# Lines of all resamples of a joint test that are in memory at once.
BLOCK = 2_000_000
# The correction is needed if the level would be missed by more than this factor.
MISSED = 1.1
# Lines of all resamples, and the fewest resamples worth drawing; beyond that, the closed form is used.
LINES, FEWEST = 20_000_000, 100
# Overlapping groups are solved one resample at a time: this many, and only if the p-value may depend on them.
SLOW, SETTLED = 200, 1e-6


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
    ``center`` above zero; ``origin`` is the metric's value there.
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
    origin: float = 0.0
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
        return LINKS[self.scale]

    def solve(self, target: FloatArray) -> Joint:
        """The same for disparities in the region's units."""
        if self.method == "el" and self.disjoint and self.theta is not None:
            means, groups, every = self.known(target, self.theta), self.group_means(), np.arange(self.groups)
            total = float(groups.statistic(means, every).sum())
            second = groups.variance[every] + (groups.mean[every] - means) ** 2
            status = Status.OK if np.isfinite(total) else Status.OUTSIDE_RANGE
            return Joint(total, int((second > 0).sum()), np.empty(0), status)
        if self.quick(target):
            return self._least(target)
        data = self.lines.patterns(self.pattern, self.slots.shape[0])
        members = self.members()
        usable = self._usable(data.n, members)
        joint = self._population_or_rest(data.n, usable, target[usable])
        if joint is None:
            functions, theta = self._functions(data, members[:, usable], usable, target[usable])
            joint = data.likelihood(functions, theta) if self.method == "el" else data.euclidean(functions, theta)
        return replace(joint, left_out=tuple(np.setdiff1d(np.arange(target.size), usable).tolist()))

    def known(self, target: FloatArray, theta: FloatArray) -> FloatArray:
        if self.link is IDENTITY:
            return target + theta
        return self.link.moved(theta + self.center, target) - self.center

    @property
    def disjoint(self) -> bool:
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
    def _everyone(self) -> bool:
        return self.theta is None and self.estimate is None and (self.free or bool((self.referent == 1).all()))

    def members(self) -> FloatArray:
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

    def group_means(self) -> Means:
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
    ) -> tuple[Means, IntArray, BoolArray, FloatArray]:
        """The quick problem (see `least_shift`) for many copies of the region, each of some lines with some weights."""
        size = self.groups + 1
        block = self._blocks[self.pattern[line]]
        lines = Lines(self.lines.binary, self.lines.value[line] + self.center, weight)
        groups = lines.means(np.where(block < 0, -1, copy * size + block), copies * size)
        place = np.arange(copies * size).reshape(copies, size)
        # The last place holds the rows of no tested group, or the named reference.
        shifted = linked(groups, self.link) if target.any() else groups
        return shifted, place, groups.n[place] > 0, np.append(target, 0.0)

    def _least(self, target: FloatArray) -> Joint:
        """Disjoint groups with a profiled reference: the minimum over θ of the sum of T_j(θ + ε_j)."""
        every = np.arange(self.pattern.size)
        groups, place, counts, shift = self.shifted(target, np.zeros_like(every), every, self.lines.weight, 1)
        statistic, theta, status, df = least_shift(groups, place, counts, shift)
        if target.any() and self.link is not IDENTITY:
            moved = self.link.moved(self.link.inverse(theta), shift) - natural(groups).mean
        else:
            moved = theta + shift - groups.mean
        move = np.append(np.where(counts[0], moved, 0.0), 0.0)[None, self._blocks]
        scale = np.ones(self.slots.shape[0])
        return Joint(float(statistic[0]), int(df[0]), theta, status[0], scale=scale, move=move)

    def _functions(
        self, data: Patterns, members: FloatArray, usable: IntArray, target: FloatArray
    ) -> tuple[Functions, FloatArray]:
        """Estimating functions of the ``usable`` groups at ``target``, and the reference's starting value."""
        if self.theta is not None:
            offset = members * self.known(target, self.theta[usable])
            return Functions(members[:, :, None], np.zeros((*members.shape, 0)), offset), np.empty(0)
        common, mean = self.referent if self.referent.any() else members.max(axis=1), self.estimate
        if mean is None:
            with np.errstate(invalid="ignore", divide="ignore"):
                mean = float(np.nan_to_num(common @ data.first[0] / (common @ data.n)))
        sides = members, self.referent, target
        return Functions.compared(*sides, self.estimate, self.link, self.center), np.array([mean])

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


def least_shift(
    groups: Means, place: IntArray, counts: BoolArray, shift: FloatArray
) -> tuple[FloatArray, FloatArray, ObjectArray, IntArray]:
    """T, θ, the status and the degrees of freedom of many problems: the minimum over θ of Σ T_j(θ + ε_j).

    Problems in rows, groups in columns: their places in ``groups``, which of them count, and the ε_j of the columns.
    """
    n = np.where(counts, groups.n[place], 0.0)
    # The common shift that fits best if all variances are equal.
    center = (n * np.where(counts, groups.mean[place] - shift, 0.0)).sum(axis=1) / n.sum(axis=1)
    away = groups.mean[place] - shift - center[:, None]
    moving = (groups.variance[place] + away**2 > 0) & counts
    # A group whose rows all equal the center counts: it determines θ. Nothing to test if no row differs from the null.
    df = np.where(moving.any(axis=1), np.maximum(counts.sum(axis=1) - 1, 0), 0)
    low, high = groups.low[place], groups.high[place]
    least = np.where(counts, low - shift, -np.inf).max(axis=1)
    most = np.where(counts, high - shift, np.inf).min(axis=1)

    def total(theta: FloatArray, index: IntArray) -> FloatArray:
        ends, at = low[index], theta[:, None] + shift
        # Rows that are all equal allow one θ, and adding their ε_j back may miss it by rounding.
        means = np.where((ends == high[index]) & (ends - shift == theta[:, None]), ends, at)
        alone = groups.statistic(means.ravel(), place[index].ravel()).reshape(at.shape)
        return np.where(counts[index], alone, 0.0).sum(axis=1)

    def slope(x: FloatArray, active: IntArray) -> tuple[FloatArray, FloatArray]:
        """Σ n_j λ_j and its derivative."""
        where, used = place[open_[active]], counts[open_[active]]
        point = groups.locate((x[:, None] + shift).ravel(), where.ravel())
        parts = point.multiplier, point.dmultiplier / point.dmean
        pull, bend = (np.where(used, groups.n[where] * part.reshape(where.shape), 0.0) for part in parts)
        return pull.sum(axis=1), bend.sum(axis=1)

    theta, statistic = np.where(df > 0, np.nan, center), np.where(df > 0, np.inf, 0.0)
    # Neither np.where nor np.full: they turn the members of an enum into plain strings.
    status = np.empty(df.shape, dtype=object)
    status[:] = Status.OK
    pinned, open_ = np.flatnonzero((df > 0) & (least == most)), np.flatnonzero((df > 0) & (least < most))
    statistic[pinned] = total(least[pinned], pinned)
    theta[pinned] = np.where(np.isfinite(statistic[pinned]), least[pinned], np.nan)
    solution = roots(slope, least[open_], most[open_], x0=center[open_], direction="decreasing")
    theta[open_], statistic[open_] = solution.x, total(solution.x, open_)
    # Without a root the minimum is at an end, which 0/1 rows may reach.
    status[open_] = np.where(solution.status == Status.INFEASIBLE, status[open_], solution.status)
    status[np.isinf(statistic)] = Status.OUTSIDE_RANGE
    return statistic, theta, status, df


def directions(assumed: FloatArray, most: int) -> int:
    """The number of directions, at most ``most``, in which contrasts with this covariance vary."""
    return min(most, quadratic(np.zeros(len(assumed)), assumed)[1])


def padded_weights(weights: FloatArray, df: int) -> FloatArray:
    """One weight for each of ``df`` directions.

    A 0/1 group with equal rows has a likelihood, and so counts in T and in its degrees of freedom, but its rows do not
    show how it varies. Directions that several such groups leave open get the mean weight.
    """
    return np.append(weights, np.full(df - weights.size, weights.mean() if weights.size else 1.0))


def without_reference(part: ComparedGroups) -> ComparedGroups:
    """The same groups, for the influence of lines on a group's own value."""
    return replace(part, reference=Reference(To.HIGHEST, True))


def contrasts_of(parts: Sequence[ComparedGroups], tested: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Contrasts that are 0 if no group differs, for a metric that is not a mean over rows; and each line's influence.

    Against a group or a number, these are the groups' differences from it. Otherwise the groups of a partition are
    compared with its first group: whether the value of all rows follows from theirs depends on the metric.
    """
    values, influences = [], []
    for part, chosen in zip(parts, np.split(tested, np.cumsum([len(part.size) for part in parts])[:-1]), strict=True):
        refuse_many("groups", part.partition.codes.size, len(part.size))
        among = int(chosen.sum()) > 1 and part.reference.to not in (To.GROUP, To.NUMBER)
        influence = (without_reference(part) if among else part).influence().dense()[:, chosen]
        means = part.estimate[chosen]
        values.append(means[1:] - means[0] if among else means - part.reference_value[chosen])
        influences.append(influence[:, 1:] - influence[:, :1] if among else influence)
    return np.concatenate(values), np.hstack(influences)


def region_of(
    parts: Sequence[ComparedGroups], tested: BoolArray, target: FloatArray, min_size: int
) -> tuple[Region, list[int]]:
    """The region of the tested groups, and the groups whose lines are left out of it.

    These are groups that are not tested because all their rows are equal. If the other groups have the mean of the
    population, so do these, and a likelihood takes that mean as known exactly: a group in which nobody happens to have
    a loss would contradict every other group. Overlapping groups are tested without their lines, except those of a
    named reference; otherwise the mean of the population is left free.
    """
    sums, reference, link = parts[0].sums, parts[0].reference, parts[0].link
    unvaried = (stacked(parts, "status") == Status.CONSTANT) & ~tested
    position = np.where(tested, np.cumsum(tested) - 1, -1)
    start, codes, equal = 0, [], np.zeros(sums.value.size, dtype=bool)
    for partition in sums.partitions:
        end = start + len(partition.groups)
        equal |= np.append(unvaried[start:end], False)[partition.codes]
        # Lines outside every tested group of this partition share one code.
        code = np.append(position[start:end], -1)[partition.codes]
        codes.append(code if sums.inside is None else np.where(sums.inside, code, -1))
        start = end
    marked = np.zeros(equal.size, dtype=np.intp)
    if sums.in_reference is not None:
        equal, marked = equal & ~sums.in_reference, sums.in_reference.astype(np.intp)
    dropping = equal.any() and len(sums.partitions) > 1 and not target.any() and reference.estimate is None
    used = ~equal if dropping else slice(None)
    combined = marked[used]
    for code in codes:
        # Renumbered at each step: the product of many dimensions does not fit an integer.
        combined = combined * (int(code.max(initial=-1)) + 2) + code[used] + 1
        combined = np.unique(combined, return_inverse=True)[1]
    _, first, pattern = np.unique(combined, return_index=True, return_inverse=True)
    slots, referent = np.column_stack([code[used][first] for code in codes]), marked[used][first].astype(float)
    if reference.to in (To.POPULATION, To.REST):
        outside = slots.max(axis=1, initial=-1)[pattern] < 0
        few = 0 < float(sums.mass[used][outside].sum()) < min(min_size, HANDFUL)
        referent = np.full(referent.size, 0.0 if few or equal[used][outside].any() else 1.0)
    elif reference.to.best:  # the tested groups are compared with each other
        referent = np.zeros(referent.size)
    (units, lines), joint = sums.standard(), reference.joint
    weight, influence = (None if part is None else part[used] for part in (lines.weight, lines.influence))
    value = reference.estimate.value if joint and reference.estimate is not None else None
    region = Region(
        groups=int(tested.sum()),
        method=parts[0].method,
        lines=replace(lines, value=lines.value[used], weight=weight, influence=influence if joint else None),
        pattern=pattern,
        slots=slots,
        referent=referent,
        theta=None if joint else units.standard(stacked(parts, "reference_value")[tested]),
        estimate=None if value is None else float(units.standard(np.array(value))),
        rest=reference.to is To.REST,
        least=min_size,
        unit=units.scale,
        origin=units.center,
        center=units.zero if link is not IDENTITY else 0.0,
        scale=link.name,
    )
    return region, np.flatnonzero(unvaried).tolist() if dropping else []


# ---- small samples


def joint_factor(region: Region, joint: Joint, target: FloatArray, resamples: int, rng: np.random.Generator) -> float:
    """The mean of T over its degrees of freedom under the null, by which T is divided; NaN if it is not available."""
    if not joint.df:
        return 1.0
    if region.theta is not None and region.disjoint:
        groups, every = region.group_means(), np.arange(region.groups)
        return 1.0 + float(np.mean(bartlett_constant(groups, every) / groups.n[every]))
    if joint.scale is None or joint.move is None:
        return np.nan
    pattern, lines = region.lines.collapsed(region.pattern)
    null = meeting_null(replace(region, pattern=pattern, lines=lines), joint.scale, joint.move)
    mass, inner = null.lines.mass, region.inner(target)
    rows, chance = round(float(mass.sum())), mass / mass.sum()
    usable: list[float] = []
    step = max(1, BLOCK // chance.size)
    for start in range(0, resamples, step):
        counts = rng.multinomial(rows, chance, size=min(step, resamples - start)).astype(float)
        tests = _resampled_tests(null, counts, inner)
        usable += [statistic for statistic, df in tests if df == joint.df and np.isfinite(statistic)]
    return mean_of_usable(usable, resamples) / joint.df


def meeting_null(region: Region, scale: FloatArray, move: FloatArray) -> Region:
    """The region with rows that meet a null exactly: reweighted (0/1), or moved pattern by pattern (any other)."""
    lines = region.lines
    if lines.binary and lines.influence is None:
        data = lines.patterns(region.pattern, region.slots.shape[0])
        filled = np.flatnonzero(data.n > 0)
        ones = np.clip((data.first[0, filled] / data.n[filled]) + move[0, filled], 0.0, 1.0)
        weight = (data.n * scale)[filled, None] * np.column_stack([1.0 - ones, ones])
        value = np.tile([0.0, 1.0], filled.size)
        return replace(region, pattern=np.repeat(filled, 2), lines=Lines(True, value, weight.ravel()))
    influence = None if lines.influence is None else lines.influence + move[1, region.pattern]
    value = lines.value + move[0, region.pattern]
    return replace(region, lines=Lines(lines.binary, value, lines.mass * scale[region.pattern], influence))


def _resampled_tests(region: Region, counts: FloatArray, target: FloatArray) -> list[tuple[float, int]]:
    if region.quick(target):
        which, line = np.nonzero(counts)
        problem = region.shifted(target, which, line, counts[which, line], counts.shape[0])
        statistic, _, _, df = least_shift(*problem)
        return list(zip(statistic.tolist(), df.tolist(), strict=True))
    tests, lines = [], region.lines
    for resample in counts:
        drawn = resample > 0
        influence = None if lines.influence is None else lines.influence[drawn]
        again = Lines(lines.binary, lines.value[drawn], resample[drawn], influence)
        joint = replace(region, pattern=region.pattern[drawn], lines=again).solve(target)
        tests.append((joint.statistic, joint.df))
    return tests


def second_order_term(region: Region) -> float:
    """A: the mean of a/n over the tested groups, and the rows in none of them if they are part of the test."""
    terms, outside = [], -1 if region.free or region.theta is not None else region.groups
    for column in region.slots.T:
        codes = np.where(column < 0, outside, column)
        groups = np.unique(codes[codes >= 0])
        means = region.lines.means(codes[region.pattern], region.groups + 1)
        if isinstance(means, Binary):
            # No group's true rate is 0 or 1 if others' are not: add half a row on each side.
            means = Binary(means.n + 1.0, means.ones + 0.5)
        terms.append(bartlett_constant(means, groups) / means.n[groups])
    every = np.concatenate([*terms, np.zeros(0)])
    return float(every.mean()) if every.size else 0.0


def automatic_factor(
    region: Region, joint: Joint, target: FloatArray, alpha: float, resamples: int, rng: np.random.Generator
) -> float:
    """The factor by which T is divided if the level would be missed, else 1; NaN if needed but not available."""
    if not joint.df:
        return 1.0
    closed = 1.0 + second_order_term(region)
    if chi2_sf(float(chi2_isf(alpha, joint.df)) / closed, joint.df) <= MISSED * alpha:
        return 1.0
    known = region.theta is not None
    if known and region.disjoint and isinstance(means := region.group_means(), Real):
        # Skewed groups err in the same direction, which resampling accounts for if they are compared with each other,
        # but no factor does if they are compared with a number.
        m2, m3, n = means.moments.central(2)[:-1], means.moments.central(3)[:-1], means.n[:-1]
        with np.errstate(divide="ignore", invalid="ignore"):
            if SKEWED * np.where(m2 > 0, m3**2 / m2**3 / n, 0.0).mean() > 1:
                return np.nan
    number = min(resamples, max(LINES // max(region.pattern.size, 1), 1))
    if not np.isfinite(joint.statistic) or number < FEWEST:
        return closed
    slow = not region.disjoint if known else not region.quick(region.inner(target))
    if slow and not known:
        plain, corrected = (float(chi2_sf(joint.statistic / factor, joint.df)) for factor in (1.0, closed))
        if plain > alpha or corrected < SETTLED:
            return closed
    return joint_factor(region, joint, target, min(number, SLOW) if slow else number, rng)
