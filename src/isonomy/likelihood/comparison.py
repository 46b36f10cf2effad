"""Every group of a call beside its reference: estimates, statuses, and the likelihood that answers for each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from isonomy.errors import UsageError, choose
from isonomy.frames import Group
from isonomy.frames.groups import Partition
from isonomy.likelihood.correction import Adjusted, Corrected, bartlett_factor
from isonomy.likelihood.euclid import Euclidean
from isonomy.likelihood.hypotheses import Likelihood, whole
from isonomy.likelihood.means import Binary, Real
from isonomy.likelihood.overlap import Overlapping, Pair
from isonomy.likelihood.profile import Kind, Profile
from isonomy.likelihood.reference import Reference, To
from isonomy.likelihood.tally import Evidence
from isonomy.likelihood.units import Units
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray
from isonomy.numerics.status import Status

METHODS = ("el", "eel")
CORRECTIONS = ("bartlett", "adjusted")
# Fewer resamples than this give Bartlett's factor an error as large as the correction itself.
RESAMPLES = 100


@dataclass(frozen=True, slots=True)
class Tools:
    """How likelihoods are formed: the method, the small-sample correction and its resamples, the smallest group
    tested."""

    method: str
    correction: str | None
    min_size: int
    resamples: int
    rng: np.random.Generator

    def __post_init__(self) -> None:
        choose("method", self.method, METHODS)
        if self.correction is not None:
            choose("correction", self.correction, CORRECTIONS)
            if self.method == "eel":
                raise UsageError("correction: it belongs to method='el'; the Euclidean likelihood has none.")
        whole("min_size", self.min_size)
        whole("resamples", self.resamples)
        if self.correction == "bartlett" and self.resamples < RESAMPLES:
            raise UsageError(
                f"resamples: {self.resamples} are too few for the mean of T; give at least {RESAMPLES}, better 1,000."
            )

    def likelihood(self, problem: Profile, rows: float) -> Likelihood:
        """The likelihood asked for, of the problems in ``problem``."""
        if self.method == "eel":
            return Euclidean(problem, rows)
        if self.correction == "bartlett":
            return Corrected(problem, bartlett_factor(problem, self.resamples, self.rng))
        if self.correction == "adjusted":
            if problem.kind is not Kind.FIXED:
                raise UsageError(
                    "correction: 'adjusted' needs a known or plugged-in reference; with an estimated one use "
                    "'bartlett'."
                )
            return Adjusted(problem)
        return problem


@dataclass(frozen=True, slots=True, eq=False)
class Mirrored:
    """A likelihood with the roles of group and reference exchanged."""

    inner: Likelihood

    @property
    def disparity(self) -> FloatArray:
        """Minus the inner disparity."""
        return -self.inner.disparity

    @property
    def standard_error(self) -> FloatArray:
        """The inner standard error."""
        return self.inner.standard_error

    def statistic(self, disparity: npt.ArrayLike) -> FloatArray:
        """T of the mirrored disparity."""
        return self.inner.statistic(-np.asarray(disparity, dtype=float))

    def interval(self, critical: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
        """The mirrored interval."""
        low, high = self.inner.interval(critical)
        return -high, -low


@dataclass(frozen=True, slots=True, eq=False)
class Rescaled:
    """A likelihood worked out in other units, one of which is ``scale`` of the metric's own."""

    inner: Likelihood
    scale: float

    @property
    def disparity(self) -> FloatArray:
        """The inner disparity in the metric's units."""
        return self.scale * self.inner.disparity

    @property
    def standard_error(self) -> FloatArray:
        """The inner standard error in the metric's units."""
        return self.scale * self.inner.standard_error

    def statistic(self, disparity: npt.ArrayLike) -> FloatArray:
        """T, which has no unit."""
        return self.inner.statistic(np.asarray(disparity, dtype=float) / self.scale)

    def interval(self, critical: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
        """The inner interval in the metric's units."""
        low, high = self.inner.interval(critical)
        return self.scale * low, self.scale * high


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """All groups in order; ``parts`` hold the likelihoods of those tested, at their positions.

    ``disparity``, T and intervals are NaN for groups that are not tested.
    """

    groups: tuple[Group, ...]
    size: FloatArray
    n: FloatArray
    estimate: FloatArray
    reference: FloatArray
    status: npt.NDArray[np.object_]
    parts: tuple[tuple[IntArray, Likelihood], ...]

    @property
    def tested(self) -> BoolArray:
        """Which groups have a likelihood."""
        mask = np.zeros(len(self.groups), dtype=bool)
        for positions, _ in self.parts:
            mask[positions] = True
        return mask

    @property
    def disparity(self) -> FloatArray:
        """The estimated disparities."""
        return self.estimate - self.reference

    @property
    def uncorrected(self) -> list[str]:
        """Tested groups whose Bartlett factor could not be had."""
        inner = [(where, part.inner if isinstance(part, Mirrored) else part) for where, part in self.parts]
        missing = [where[np.isnan(part.factor)] for where, part in inner if isinstance(part, Corrected)]
        return [str(self.groups[i]) for where in missing for i in where]

    @property
    def standard_error(self) -> FloatArray:
        """The large-sample standard errors of the disparities."""
        result = np.full(self.n.shape, np.nan)
        for positions, likelihood in self.parts:
            result[positions] = likelihood.standard_error
        return result

    def statistic(self, disparity: npt.ArrayLike) -> FloatArray:
        """T for the hypothesis that each disparity is ``disparity``."""
        target = np.broadcast_to(np.asarray(disparity, dtype=float), self.n.shape)
        result = np.full(self.n.shape, np.nan)
        for positions, likelihood in self.parts:
            result[positions] = likelihood.statistic(target[positions])
        return result

    def interval(self, critical: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
        """The disparities with T at most ``critical``."""
        level = np.broadcast_to(np.asarray(critical, dtype=float), self.n.shape)
        low, high = np.full(self.n.shape, np.nan), np.full(self.n.shape, np.nan)
        for positions, likelihood in self.parts:
            low[positions], high[positions] = likelihood.interval(level[positions])
        return low, high

    def columns(self) -> dict[str, Any]:
        """What every result says of each group."""
        return {
            "groups": self.groups,
            "size": self.size,
            "n": self.n,
            "estimate": self.estimate,
            "reference_value": self.reference,
            "disparity": self.disparity,
            "standard_error": self.standard_error,
        }


def compare(evidence: Evidence, reference: Reference, tools: Tools) -> Comparison:
    """Set every group of every partition beside its reference."""
    pieces = [
        _compare(evidence, partition, size, reference, tools)
        for partition, size in zip(evidence.partitions, evidence.sizes, strict=True)
    ]
    starts = np.cumsum([0, *(len(piece.groups) for piece in pieces)])
    parts = [
        (positions + start, likelihood)
        for piece, start in zip(pieces, starts, strict=False)
        for positions, likelihood in piece.parts
    ]
    return Comparison(
        groups=tuple(group for piece in pieces for group in piece.groups),
        parts=tuple(_together(parts)),
        **{
            name: np.concatenate([getattr(piece, name) for piece in pieces])
            for name in ("size", "n", "estimate", "reference", "status")
        },
    )


def _together(parts: list[tuple[IntArray, Any]]) -> list[tuple[IntArray, Any]]:
    """Problems known by counts, of all partitions, as one: many small solves cost more than one large one."""
    done: list[tuple[IntArray, Any]] = []
    for kind in Kind:
        alike = [p for p in parts if isinstance(p[1], Profile) and p[1].kind is kind and isinstance(p[1].own, Binary)]
        if alike:
            done.append((np.concatenate([where for where, _ in alike]), Profile.pooled([part for _, part in alike])))
    return done + [p for p in parts if not (isinstance(p[1], Profile) and isinstance(p[1].own, Binary))]


def _compare(
    evidence: Evidence, partition: Partition, size: FloatArray, reference: Reference, tools: Tools
) -> Comparison:
    groups = len(partition.groups)
    # Rows in no group of this partition are one more group, so that a group and its rest are all rows.
    own = evidence.means(np.where(partition.codes < 0, groups, partition.codes), groups + 1)
    n, estimate = own.n[:groups], own.mean[:groups]
    status = np.full(groups, Status.OK, dtype=object)
    value = _reference_values(evidence, own, reference)[:groups]
    itself = _same_rows(evidence, partition, own, reference)
    status[(own.variance[:groups] <= 0)] = Status.CONSTANT
    status[n < tools.min_size] = Status.TOO_SMALL
    status[itself] = Status.REFERENCE
    status[n == 0] = Status.EMPTY
    # A constant 0/1 group still has a binomial likelihood; constant numbers have no likelihood to speak of.
    able = (Status.OK, Status.CONSTANT) if isinstance(own, Binary) else (Status.OK,)
    tested = np.flatnonzero(np.isin(status, able))
    parts = tuple(
        (positions, likelihood)
        for positions, likelihood in _likelihoods(evidence, partition, own, tested, value, reference, tools)
        if positions.size
    )
    return Comparison(partition.groups, size, n, estimate, value, status, parts)


def _reference_values(evidence: Evidence, own: Binary | Real, reference: Reference) -> FloatArray:
    """The reference's value for each group."""
    if reference.number is not None:
        return np.full(own.n.size, reference.number)
    if reference.estimate is not None:
        return np.full(own.n.size, reference.estimate.value)
    sums = own.n * np.nan_to_num(own.mean)
    with np.errstate(invalid="ignore", divide="ignore"):
        if reference.to is To.REST:
            return (sums.sum() - sums) / (own.n.sum() - own.n)
        if reference.to is To.POPULATION:
            return np.full(own.n.size, sums.sum() / own.n.sum())
    assert evidence.in_reference is not None
    mass = evidence.mass * evidence.in_reference
    return np.full(own.n.size, float(mass @ evidence.value / mass.sum()))


def _same_rows(evidence: Evidence, partition: Partition, own: Binary | Real, reference: Reference) -> BoolArray:
    """Groups that are their own reference, or that leave no rest to compare with."""
    n = own.n[: len(partition.groups)]
    if reference.to in (To.POPULATION, To.REST):
        return (n == own.n.sum()) & (n > 0)
    if evidence.in_reference is None:
        return np.zeros(n.size, dtype=bool)
    mass = evidence.mass * evidence.in_reference
    return (partition.sum(mass) == n) & (n == mass.sum()) & (n > 0)


def _likelihoods(
    evidence: Evidence,
    partition: Partition,
    own: Binary | Real,
    tested: IntArray,
    value: FloatArray,
    reference: Reference,
    tools: Tools,
) -> list[tuple[IntArray, Any]]:
    if not reference.joint:
        return [(tested, tools.likelihood(Profile(Kind.FIXED, own, tested, theta=value[tested]), evidence.n))]
    if reference.to in (To.POPULATION, To.REST):
        kind = Kind.NESTED if reference.to is To.POPULATION else Kind.DISJOINT
        problem = Profile(kind, own, tested, other=own.rest(), other_index=tested)
        return [(tested, tools.likelihood(problem, evidence.n))]
    if reference.estimate is not None:
        _refuse_correction(tools)
        if not tested.size:
            return []
        units = Units.of(evidence)
        rows, estimate = units.standard(evidence), float(units.turned(np.array(reference.estimate.value)))
        pairs = tuple(_with_estimate(rows, partition, int(j), estimate) for j in tested)
        return [(tested, Rescaled(Overlapping(pairs, tools.method), units.scale))]
    return _against_group(evidence, partition, own, tested, tools)


def _against_group(
    evidence: Evidence, partition: Partition, own: Binary | Real, tested: IntArray, tools: Tools
) -> list[tuple[IntArray, Any]]:
    """A named reference: apart from the group, around it, within it, or partly overlapping it."""
    assert evidence.in_reference is not None
    chosen, codes, groups = evidence.in_reference, partition.codes, len(partition.groups)
    filled = np.where(codes < 0, groups, codes)
    level = evidence.means(np.where(chosen, 0, -1), 1)
    common = partition.sum(evidence.mass * chosen)[tested]
    n, total = own.n[tested], level.n[0]
    apart, around, within = common == 0, (common == n) & (n > 0), common == total
    partly = ~(apart | around | within)
    rows, parts = evidence.n, []
    first = np.zeros(groups + 1, dtype=np.intp)
    if apart.any():
        which = tested[apart]
        problem = Profile(Kind.DISJOINT, own, which, other=level, other_index=first[which])
        parts.append((which, tools.likelihood(problem, rows)))
    if around.any():
        which = tested[around]
        inside = evidence.means(np.where(chosen, filled, -1), groups + 1)
        problem = Profile(Kind.NESTED, inside, which, other=inside.rest(), other_index=which)
        parts.append((which, tools.likelihood(problem, rows)))
    if within.any():
        which = tested[within]
        beyond = evidence.means(np.where(chosen, -1, filled), groups + 1)
        problem = Profile(Kind.NESTED, level, first[which], other=beyond, other_index=which)
        parts.append((which, Mirrored(tools.likelihood(problem, rows))))
    if partly.any():
        _refuse_correction(tools)
        which = tested[partly]
        units = Units.of(evidence)
        standard = units.standard(evidence)
        pairs = tuple(_with_group(standard, codes == j) for j in which)
        parts.append((which, Rescaled(Overlapping(pairs, tools.method, rows), units.scale)))
    return parts


def _refuse_correction(tools: Tools) -> None:
    if tools.correction is not None:
        raise UsageError(
            "correction: not available for a reference that overlaps a group in part, or brings influence values."
        )


def _with_group(evidence: Evidence, in_group: BoolArray) -> Pair:
    """Rows in the group or the reference, by which of the two they are in; rows in neither drop out."""
    assert evidence.in_reference is not None
    pattern = in_group.astype(np.intp) + 2 * evidence.in_reference - 1
    return Pair(evidence.patterns(pattern, 3), np.array([1.0, 0.0, 1.0]), np.array([0.0, 1.0, 1.0]))


def _with_estimate(evidence: Evidence, partition: Partition, group: int, value: float) -> Pair:
    """All rows: their influence values count whether or not they are in the group."""
    member = partition.codes == group
    if evidence.inside is not None:
        member = member & evidence.inside
    return Pair(evidence.patterns(member.astype(np.intp), 2), np.array([0.0, 1.0]), np.zeros(2), value)
