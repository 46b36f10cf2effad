"""Is the least change more than chance? The program, its law and the Wald test beside it, on cells."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from isonomy.errors import UsageError
from isonomy.inference.designs import FEWEST
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray
from isonomy.numerics.status import Status
from isonomy.numerics.tails import normal_isf, t_sf
from isonomy.transport.program.cells import Cells, total
from isonomy.transport.program.criteria import Event, Moments, covariance, independent
from isonomy.transport.program.law import DRAWS, Law, Null, observed, positive_definite, simulated
from isonomy.transport.program.measured import Boundary, Measured, Sample
from isonomy.transport.program.rates import ENOUGH, EXCHANGED, Strata, permuted, strata
from isonomy.transport.program.solve import Constraint, Solution, solve

MOST_MOMENTS = 10  # of a two-sided tolerance: its law is simulated at 2^(m-1) corners
FEW = 10  # rows of a group within a label below which large-sample laws are not to be relied on
# Effective rows (or clusters) selected, and refused, that each side of a comparison needs, seen or expected under the
# null, where rows have weights or clusters. Rejected at 0.05 without a difference, in the worst of 72 designs: 0.073 of
# tables with 4, 0.066 with 5, 0.062 with 8 (three binomial errors: 0.065). Where 8 are expected, P(none) is 0.0003.
EVENTS = 8.0
SCARCE = 5.0  # rows expected selected, or refused, in a group, below which equality is tested by permutation
NEAR = 5.0  # rows of each compared group within one bandwidth of the boundary that its density needs
TIES = 0.5  # rows tied with one, over `flips_of_chance`, up to which the law is used: right up to about 2, wrong from 4
FREE = 0.1  # rows at distance 0, over the rows chance alone would flip, up to which the law is used
SOME = 3.0  # rows at distance 0 that are chance, however few flips chance needs


@dataclass(frozen=True, slots=True, eq=False)
class Inference:
    """What follows about one null."""

    solution: Solution
    constraint: Constraint
    tested_statistic: float
    pvalue: float
    critical_value: float
    wald_statistic: float
    wald_pvalue: float
    equivalence_pvalue: float
    status: Status
    bandwidth: float
    weights: FloatArray
    standard_error: FloatArray  # (m,): of each moment
    redundant: IntArray  # places of moments that follow from the others
    constant: BoolArray  # (m,): not tested, because the rates compared are all 0 or all 1
    few_events: BoolArray  # (m,): no test and no interval, because rows have weights or clusters and events are few
    left_out: bool  # whether those that are constant were left out, and others tested
    pooled: bool  # variances at the rates of the null, because some rates are 0 or 1
    df: float  # degrees of freedom of the variances; infinite without weights and clusters
    smoothed: bool  # the law is that of scores spread over the steps of their lattice
    permuted: bool  # the Wald test's p-value is by permutation
    random: bool  # something was drawn


@dataclass(frozen=True, slots=True, eq=False)
class _Trial:
    """The program on some rows, and what its law needs."""

    constraint: Constraint
    solution: Solution
    width: float
    curvature: FloatArray | None
    status: Status


def infer(
    rows: Measured,
    asked: Moments,
    null: Null,
    *,
    bandwidth: float | None = None,
    alpha: float | None = None,
    tested: bool = True,
    published: bool = False,
    draws: int = DRAWS,
    rng: np.random.Generator,
) -> Inference:
    """Solve the program, and compare its value with what chance would give. Without ``alpha``: no critical value.

    ``published``: by the paper's bandwidth, the groups' own rates and Theorems 1 and 2, whatever the rows are like.
    """
    cells, sample = rows.cells, rows.sample
    compared = _compared(cells, asked, null)
    kept, here = compared.kept, null.at(compared.kept)
    variances = _variances(rows, asked, kept)
    own = None if variances.sigma is None else variances.sigma[np.ix_(kept, kept)]
    width = cells.rows ** (-1 / 5) if published and bandwidth is None else bandwidth
    plain = _trial(rows, asked, kept, here, own, width)
    trial = plain
    if published:
        trial = _published(rows, asked.phi[:, kept], plain)
    elif plain.status is Status.ATOMS and plain.solution.status is Status.OK and tested:
        # A lattice that is spread over its steps may have a law where the rows as they are have none.
        smooth = rows.smoothed()
        spread = None if smooth is None else _trial(smooth, asked, kept, here, own, width)
        trial = plain if spread is None or spread.status is not Status.OK else spread
    edge, status = Edge(cells, asked, null), trial.status
    if own is None or plain.solution.status is not Status.OK:
        status = Status.CONSTANT if own is None else plain.solution.status
    elif status is Status.OK and not (here.equality or published or sample) and trial.solution.value > 0:
        # The law is a normal one, and few rows do not follow it.
        status = Status.UNSUPPORTED if edge.scarce(kept) < FEW else status
    moment, expected = asked.value[kept], np.inf
    if own is None or sample is not None:
        pass  # weights and clusters have their own law for small samples
    elif here.equality and asked.null_variance is not None:
        # Groups this small are judged at the rates of the null: their own are noise.
        expected = _expected(cells, asked, kept)
        if status is Status.UNSUPPORTED or expected < ENOUGH * kept.size:
            own = _null_sigma(cells, asked, kept, own)
        if status is Status.OK and expected < SCARCE and not published:
            status = Status.UNSUPPORTED
    elif status is Status.UNSUPPORTED or not (here.equality or (status is Status.OK and variances.own_rates)):
        own = edge.covariance(own, kept)
        moment = moment if here.equality or status is Status.OK else edge.moved(own, kept)
    few = np.zeros(asked.value.size, dtype=bool)
    if sample is not None:
        few = edge.few_events(sample) & ~compared.constant
    if variances.effective < FEWEST:
        status, own = Status.FEW_CLUSTERS, None
    elif few[kept].any():
        status, own = Status.FEW_EVENTS, None
    here, df = here.times(np.sqrt(cells.rows)), variances.df
    normals = _draws(rng, draws, kept.size, df) if simulated(here) else None
    wald, wald_pvalue, law, by_permutation = np.nan, np.nan, None, False
    if own is not None:
        wald = observed(np.sqrt(cells.rows) * moment, own, here)
        by_permutation = expected < SCARCE and cells.rows < EXCHANGED
        if by_permutation:
            wald_pvalue = permuted(cells, asked.phi[:, kept], own, wald, rng)
        else:
            wald_pvalue = Law(own, own, here, normals, df).sf(wald)
        if trial.curvature is not None and status is Status.OK and tested:
            theirs = covariance(cells, asked.influence)[np.ix_(kept, kept)] if published else own
            law = Law(theirs, trial.curvature, here, normals, df)
    error = variances.error(cells.rows, compared.constant | few)
    fallback = wald_pvalue if tested else np.nan
    return Inference(
        solution=plain.solution,
        constraint=plain.constraint,
        tested_statistic=trial.solution.value,
        pvalue=fallback if law is None else law.sf(trial.solution.value),
        critical_value=np.nan if law is None or alpha is None else law.isf(alpha),
        wald_statistic=2 * wald,
        wald_pvalue=wald_pvalue,
        equivalence_pvalue=np.nan if own is None else edge.within(error if sample else None, df),
        status=status,
        bandwidth=trial.width,
        weights=np.full(kept.size, np.nan) if law is None else law.weights,
        standard_error=error,
        redundant=compared.redundant,
        constant=compared.constant,
        few_events=few,
        left_out=compared.left_out,
        pooled=variances.sigma is not None and not variances.own_rates,
        df=df,
        smoothed=law is not None and trial.solution is not plain.solution,
        permuted=by_permutation,
        random=by_permutation or normals is not None,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Compared:
    """Which moments are tested, and why others are not."""

    kept: IntArray
    redundant: IntArray
    constant: BoolArray
    left_out: bool


def _compared(cells: Cells, asked: Moments, null: Null) -> _Compared:
    constant = np.zeros(asked.value.size, dtype=bool)
    if asked.null_variance is not None:
        # Among rows that are all selected or all refused the difference is 0, whoever is compared.
        constant = (cells.count * asked.null_variance) @ asked.phi**2 == 0
    kept = independent(asked.phi)
    redundant = np.setdiff1d(np.arange(asked.value.size), kept)
    left_out = bool(constant.any()) and not constant[kept].all()
    kept = kept[~constant[kept]] if left_out else kept
    _refuse_tolerance(null, kept, redundant)
    return _Compared(kept, redundant, constant, left_out)


@dataclass(frozen=True, slots=True, eq=False)
class _Variances:
    """The covariance of all moments, and what it rests on."""

    sigma: FloatArray | None  # None where nothing varies
    own_rates: bool  # False: at the rates of the null, because some are 0 or 1
    df: float = np.inf
    effective: float = np.inf  # the fewest clusters, or weighted rows, of equal mass that a compared group is worth

    def error(self, rows: float, untested: BoolArray) -> FloatArray:
        """Of each moment."""
        variance = np.full(untested.size, np.nan) if self.sigma is None else np.diag(self.sigma) / rows
        return np.where(untested, np.nan, np.sqrt(variance))


def _variances(rows: Measured, asked: Moments, kept: IntArray) -> _Variances:
    cells, sample = rows.cells, rows.sample
    if sample is None:
        return _Variances(*_sigma(cells, asked, kept))
    centred = asked.influence - cells.count / cells.rows @ asked.influence
    sigma = sample.covariance(centred, cells.rows)
    certain = positive_definite(sigma[np.ix_(kept, kept)])
    members = np.column_stack([event.member for event in asked.events]) if asked.events else asked.phi != 0
    return _Variances(sigma if certain else None, True, sample.df(centred[:, kept]), sample.effective(members).min())


def _draws(rng: np.random.Generator, draws: int, size: int, df: float) -> FloatArray:
    """Normal draws; of a t law, with one variance for all moments, where the covariance rests on few clusters."""
    normals = rng.standard_normal((draws, size))
    return normals * np.sqrt(df / rng.chisquare(df, (draws, 1))) if np.isfinite(df) else normals


def _published(rows: Measured, phi: FloatArray, trial: _Trial) -> _Trial:
    """The same with the kernel estimate of S as it is."""
    curvature = _kernel(rows.cells, rows.boundary(trial.width), phi, trial.width)
    if positive_definite(curvature):
        return replace(trial, curvature=curvature, status=Status.OK)
    return replace(trial, curvature=None, status=Status.UNSUPPORTED)


def _kernel(cells: Cells, boundary: Boundary, phi: FloatArray, width: float) -> FloatArray:
    return phi.T @ (boundary.kernel[:, None] / (cells.rows * width) * phi)


def _refuse_tolerance(null: Null, kept: IntArray, redundant: IntArray) -> None:
    """Raise about a tolerance whose law is not known."""
    if redundant.size and not null.equality:
        raise UsageError(
            "tolerance: some comparisons follow from the others; give groups that are not functions of each other."
        )
    two_sided = int(null.at(kept).two_sided.sum())
    if two_sided > MOST_MOMENTS:
        raise UsageError(
            f"tolerance: {two_sided} comparisons at once; a two-sided tolerance is checked at 2^(m-1) corners, at most "
            f'{MOST_MOMENTS} comparisons. Merge groups, or use tolerance_side="upper" or "lower".'
        )


def _trial(
    rows: Measured, asked: Moments, kept: IntArray, null: Null, sigma: FloatArray | None, bandwidth: float | None
) -> _Trial:
    """Solve the program, and look at the rows near the boundary."""
    cells, phi = rows.cells, asked.phi[:, kept]
    # Flipping a refused row adds phi to the moment, flipping a selected one takes it away.
    vectors = (1 - 2 * cells.selected)[:, None] * phi
    limits = null.times(cells.rows)
    constraint = Constraint(vectors, cells.rows * asked.value[kept], limits.low, limits.high)
    solution = solve(rows.pool(vectors), constraint)
    size = cells.rows if rows.sample is None else min(cells.rows, rows.sample.size)
    width = bandwidth or 1.06 * rows.spread * size ** (-1 / 5)
    return _Trial(constraint, solution, width, *_curvature(rows, phi, sigma, width, asked.events))


def _sigma(cells: Cells, asked: Moments, kept: IntArray) -> tuple[FloatArray | None, bool]:
    """Covariance at the groups' own rates (True), or at the null's where some are 0 or 1; None where nothing varies."""
    own = covariance(cells, asked.influence)
    if not asked.events:
        return (own if positive_definite(own[np.ix_(kept, kept)]) else None), True
    compared = [asked.events[i] for i in asked.component[kept]]
    compared += [asked.events[event.reference] for event in compared]
    if positive_definite(own[np.ix_(kept, kept)]) and all(0 < event.rate < 1 for event in compared):
        return own, True
    # A rate of 0 or 1 among few rows has no variance of its own and would pass for certainty.
    return _pooled(cells, asked, kept), False


def _pooled(cells: Cells, asked: Moments, kept: IntArray) -> FloatArray | None:
    """Covariance at the rates that hold under the null."""
    if asked.null_variance is None:
        return None
    pooled = asked.phi.T @ ((cells.count / cells.rows * asked.null_variance)[:, None] * asked.phi)
    return pooled if positive_definite(pooled[np.ix_(kept, kept)]) else None


def _null_sigma(cells: Cells, asked: Moments, kept: IntArray, own: FloatArray) -> FloatArray:
    """The same, but for how comparisons of different columns vary together.

    That the rates of each column are equal says nothing about the rates of their intersections: there the data speak.
    """
    pooled = _pooled(cells, asked, kept)
    if pooled is None:
        return own
    pooled = pooled[np.ix_(kept, kept)]
    base = np.array([asked.events[asked.component[t]].reference for t in kept])
    ratio = np.sqrt(np.diag(pooled) / np.diag(own))
    mixed = np.where(base[:, None] == base[None, :], pooled, own * np.outer(ratio, ratio))
    return mixed if positive_definite(mixed) else pooled


def _expected(cells: Cells, asked: Moments, kept: IntArray) -> float:
    """Fewest rows expected selected, or refused, in a compared group at the rates of the null."""
    places = set(asked.component[kept]) | {asked.events[i].reference for i in asked.component[kept]}
    fewest = np.inf
    for event in (asked.events[i] for i in places):
        within = np.ones(cells.count.size, dtype=bool) if event.label is None else cells.outcome == event.label
        rate = float(cells.count[within] @ cells.selected[within] / cells.count[within].sum())
        fewest = min(fewest, event.count * min(rate, 1 - rate))
    return float(fewest)


def _curvature(
    rows: Measured, phi: FloatArray, sigma: FloatArray | None, width: float, events: tuple[Event, ...]
) -> tuple[FloatArray | None, Status]:
    """S, the kernel estimate at the boundary, where the rows there allow one."""
    if not width > 0:  # all distances are equal
        return None, Status.ATOMS
    cells, boundary = rows.cells, rows.boundary(width)
    curvature = _kernel(cells, boundary, phi, width)
    # Each group counts for itself: one with hardly a row near the boundary would have a density of chance.
    members = np.column_stack([event.member for event in events]) if events else phi != 0
    near = boundary.near @ members
    if near.min() < NEAR or not positive_definite(curvature):
        return None, Status.UNSUPPORTED
    if sigma is None:
        return curvature, Status.OK
    # Rows at the boundary itself are averaged away over a bandwidth, yet they are the first to move, and free.
    segments = rows.pool(np.ones((cells.count.size, 1))).coarse()
    at = np.flatnonzero(segments.high == 0)
    free = float((total(segments.group[at], segments.count[at], cells.count.size) @ (phi != 0)).max())
    flips = flips_of_chance(cells, phi, sigma, curvature, width, boundary)
    if boundary.tie > TIES * flips or free > max(SOME, FREE * flips):
        return None, Status.ATOMS
    return curvature, Status.OK


def flips_of_chance(
    cells: Cells, phi: FloatArray, sigma: FloatArray, curvature: FloatArray, width: float, boundary: Boundary
) -> float:
    """Rows that chance alone would flip: as many as a moment's deviation holds changes of one row at the boundary."""
    density = boundary.kernel @ (phi != 0) / (cells.rows * width)
    return float(np.sqrt(cells.rows * np.diag(sigma) * density / np.diag(curvature)).min())


class Edge:
    """The edge of the null: each moment at its tolerance, on the side where it was seen."""

    def __init__(self, cells: Cells, asked: Moments, null: Null) -> None:
        self._rows, self._null, self._cells, self._phi = cells.rows, null, cells, asked.phi
        own = np.diag(covariance(cells, asked.influence))
        self._parts = [strata(cells, asked.phi[:, t], own[t]) for t in range(own.size)]

    def scarce(self, kept: IntArray) -> float:
        """Fewest rows expected selected, or refused, in a compared group."""
        return min(part.scarce(part.restricted(limit)) for part, limit, _ in map(self._outward, kept))

    def few_events(self, sample: Sample) -> BoolArray:
        """Which moments compare a rate that rests on fewer than `EVENTS` rows, or clusters, selected or refused.

        A group's own variance vanishes with its events, and the normal law with it. Events expected at the edge count
        as those seen do: a group without events where many are expected is no accident.
        """
        seen, expected = [], []  # rates, on the upper and the lower side of each moment
        for t in range(len(self._parts)):
            part, limit, sign = self._outward(t)
            restricted = part.restricted(limit)
            for side in (sign * part.weight > 0, sign * part.weight < 0):
                share = part.count * side / max(float(part.count @ side), 1e-300)
                seen.append(share @ (part.selected / part.count))
                expected.append(share @ restricted)
        rate, null = np.array(seen), np.array(expected)
        members = np.column_stack([side for phi in self._phi.T for side in (phi > 0, phi < 0)])
        sets, place = np.unique(members, axis=1, return_inverse=True)
        size = sample.effective(sets)[place.ravel()]
        # A share of a set is worth at least its square times what the set is worth: most sets need no closer look.
        least = size * np.maximum(np.minimum(rate, 1 - rate) ** 2, np.minimum(null, 1 - null))
        close = np.flatnonzero((size > 0) & (least < EVENTS))
        few = np.zeros(size.size, dtype=bool)
        if close.size:
            chosen = self._cells.selected[:, None] == 1
            for decided, at_null in ((chosen, null), (~chosen, 1 - null)):
                worth = sample.effective(members[:, close] & decided)
                few[close] |= np.maximum(worth, (size * at_null)[close]) < EVENTS
        return np.asarray(few.reshape(-1, 2).any(axis=1))

    def covariance(self, sigma: FloatArray, kept: IntArray) -> FloatArray:
        """``sigma`` with its variances taken at the edge; correlations are kept."""
        variance = [part.variance(part.restricted(limit)) for part, limit, _ in map(self._outward, kept)]
        ratio = self._rows * np.array(variance) / np.diag(sigma)
        # No rates are at an edge that lies beyond all that a moment can be: there `sigma` is as good as any.
        scale = np.sqrt(np.where(ratio > 1e-12, ratio, 1.0))
        return sigma * np.outer(scale, scale)

    def moved(self, sigma: FloatArray, kept: IntArray) -> FloatArray:
        """The moments where the normal law gives them the tails that they have among few rows."""
        moments = []
        for t, error in zip(kept, np.sqrt(np.diag(sigma) / self._rows), strict=True):
            part, limit, sign = self._outward(t)
            tail = np.clip(part.tail(limit), 1e-300, 1 - 1e-15)
            middle = sign * (self._null.low[t] + self._null.high[t]) / 2  # minus infinity where there is one side
            moments.append(sign * max(limit + error * float(normal_isf(tail, sides="one")), middle))
        return np.array(moments)

    def within(self, error: FloatArray | None = None, df: float = np.inf) -> float:
        """p-value of the claim that every difference lies within the tolerance: the worst of one-sided tests.

        With an ``error`` of each moment, where rows have weights or clusters, these are t-tests.
        """
        limits = np.concatenate([self._null.low, self._null.high])
        if not limits.all():  # a limit of 0 can be met, and not shown to be met
            return float("nan")
        if error is not None:
            value = np.array([part.value for part in self._parts])
            away = np.minimum(self._null.high - value, value - self._null.low) / error
            return float("nan") if np.isnan(away).all() else float(t_sf(np.nanmin(away), df))
        pairs = list(zip(self._parts, self._null.low, self._null.high, strict=True))
        p = [part.mirrored.tail(-high) for part, _, high in pairs if np.isfinite(high)]
        return max(p + [part.tail(low) for part, low, _ in pairs if np.isfinite(low)])

    def _outward(self, t: int) -> tuple[Strata, float, float]:
        """A moment turned so that the limit it is nearest to, or furthest beyond, is above; the limit; the sign."""
        part, low, high = self._parts[t], float(self._null.low[t]), float(self._null.high[t])
        return (part.mirrored, -low, -1.0) if low - part.value > part.value - high else (part, high, 1.0)
