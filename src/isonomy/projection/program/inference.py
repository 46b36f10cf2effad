"""Is the least change more than chance? The program, its law and the Wald test, on cells."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from isonomy.errors import UsageError
from isonomy.inference.designs import FEWEST
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray
from isonomy.numerics.status import Status
from isonomy.numerics.tails import interval_isf, normal_isf, rows_for, t_isf, t_sf
from isonomy.projection.program.criteria import Comparisons, DecisionCells, covariance, independent, total
from isonomy.projection.program.law import (
    DRAWS,
    ENOUGH,
    EXCHANGED,
    Null,
    ProjectionLaw,
    RateStrata,
    observed,
    permuted,
    positive_definite,
    strata,
)
from isonomy.projection.program.rows import Boundary, DesignedRows, Measured
from isonomy.projection.program.solve import Constraint, LeastChange, solve

MOST_MOMENTS = 10  # of a two-sided tolerance: its law is simulated at 2^(m-1) corners
FEW = 10  # rows of a group within an outcome below which large-sample laws are not reliable
# Effective rows (or clusters) selected, and refused, that each side of a comparison needs with weights or clusters,
# observed or expected under the null. Rejected at 0.05 without a difference, in the worst of 72 designs: 0.073 of
# tables with 4, 0.066 with 5, 0.062 with 8 (three binomial errors: 0.065). If 8 are expected, P(none) is 0.0003.
EVENTS = 8.0
SCARCE = 5.0  # rows expected selected, or refused, in a group, below which equality is tested by permutation
NEAR = 5.0  # rows of each compared group within one bandwidth of the boundary that its density needs
TIES = 0.5  # rows tied with one, over the rows chance alone would flip, up to which the law is used: wrong from 4
FREE = 0.1  # rows at distance 0, over the rows chance alone would flip, up to which the law is used
POWER = 0.8  # probability with which the detectable difference, and a tolerance at equal rates, would be shown
SOME = 3.0  # rows at distance 0 that are chance, however few flips chance needs


class _Trial(NamedTuple):
    """The program on some rows, and what its law needs."""

    constraint: Constraint
    change: LeastChange
    width: float
    curvature: FloatArray | None
    status: Status


def infer(
    rows: Measured,
    moments: Comparisons,
    null: Null,
    *,
    bandwidth: float | None = None,
    alpha: float | None = None,
    tested: bool = True,
    published: bool = False,
    draws: int = DRAWS,
    rng: np.random.Generator,
) -> dict[str, Any]:
    """Solve the program, and compare its value with what chance would give. Without ``alpha``: no critical value.

    ``published``: by the paper's bandwidth, the groups' own rates and Theorems 1 and 2, whatever the rows are like.
    Returns the facts of a test by name. Those with one entry per moment: ``standard_error``; ``constant``: not tested,
    because the rates compared are all 0 or all 1; ``few_events``: neither tested nor given an interval, because rows
    have weights or clusters and events are few.
    """
    cells, sample = rows.cells, rows.sample
    constant = np.zeros(moments.value.size, dtype=bool)
    if moments.null_variance is not None:
        # Among rows that are all selected or all refused the difference is 0, whoever is compared.
        constant = (cells.count * moments.null_variance) @ moments.phi**2 == 0
    places = independent(moments.phi)
    redundant = np.setdiff1d(np.arange(moments.value.size), places)
    left_out = bool(constant.any()) and not constant[places].all()
    places = places[~constant[places]] if left_out else places
    limits = null.at(places)
    _refuse_tolerance(null, limits, redundant)
    sigma_all, own_rates, df, effective = _variances(rows, moments, places)
    sigma = None if sigma_all is None else sigma_all[np.ix_(places, places)]
    width = cells.rows ** (-1 / 5) if published else bandwidth
    plain = _trial(rows, moments, places, limits, sigma, width)
    trial = plain
    if published:  # the kernel estimate of S as it is
        curvature = _kernel(cells, rows.boundary(plain.width), moments.phi[:, places], plain.width)
        definite = positive_definite(curvature)
        trial = plain._replace(
            curvature=curvature if definite else None, status=Status.OK if definite else Status.UNSUPPORTED
        )
    elif plain.status is Status.ATOMS and plain.change.status is Status.OK and tested:
        # A lattice that is spread over its steps may have a law where the rows as they are have none.
        smooth = rows.smoothed()
        spread = None if smooth is None else _trial(smooth, moments, places, limits, sigma, width)
        trial = plain if spread is None or spread.status is not Status.OK else spread
    edge, status = Edge(cells, moments, null), trial.status
    if sigma is None or plain.change.status is not Status.OK:
        status = Status.CONSTANT if sigma is None else plain.change.status
    elif status is Status.OK and not (limits.equality or published or sample) and trial.change.value > 0:
        # The law is normal, and few rows do not follow it.
        status = Status.UNSUPPORTED if edge.scarce(places) < FEW else status
    moment, expected = moments.value[places], np.inf
    if sigma is None or sample is not None:
        pass  # weights and clusters have their own law for small samples
    elif limits.equality and moments.null_variance is not None:
        # Groups this small are judged at the rates of the null: their own are noise.
        expected = _expected(cells, moments, places)
        if status is Status.UNSUPPORTED or expected < ENOUGH * places.size:
            sigma = _null_sigma(cells, moments, places, sigma)
        if status is Status.OK and expected < SCARCE and not published:
            status = Status.UNSUPPORTED
    elif status is Status.UNSUPPORTED or not (limits.equality or (status is Status.OK and own_rates)):
        sigma = edge.covariance(sigma, places)
        moment = moment if limits.equality or status is Status.OK else edge.moved(sigma, places)
    few = np.zeros(moments.value.size, dtype=bool)
    if sample is not None:
        few = edge.few_events(sample) & ~constant
    if effective < FEWEST:
        status, sigma = Status.FEW_CLUSTERS, None
    elif few[places].any():
        status, sigma = Status.FEW_EVENTS, None
    limits = limits.times(np.sqrt(cells.rows))
    normals = None
    if limits.simulated:
        normals = rng.standard_normal((draws, places.size))
        if np.isfinite(df):  # a t law, with one variance for all moments, if the covariance rests on few clusters
            normals = normals * np.sqrt(df / rng.chisquare(df, (draws, 1)))
    wald, wald_pvalue, law, by_permutation = np.nan, np.nan, None, False
    if sigma is not None:
        wald = observed(np.sqrt(cells.rows) * moment, sigma, limits)
        by_permutation = expected < SCARCE and cells.rows < EXCHANGED
        if by_permutation:
            wald_pvalue = permuted(cells, moments.phi[:, places], sigma, wald, rng)
        else:
            wald_pvalue = ProjectionLaw(sigma, sigma, limits, normals, df).sf(wald)
        if trial.curvature is not None and status is Status.OK and tested:
            theirs = covariance(cells, moments.influence)[np.ix_(places, places)] if published else sigma
            law = ProjectionLaw(theirs, trial.curvature, limits, normals, df)
    variance = np.full(constant.size, np.nan) if sigma_all is None else np.diag(sigma_all) / cells.rows
    error = np.where(constant | few, np.nan, np.sqrt(variance))
    fallback = wald_pvalue if tested else np.nan
    return {
        "change": plain.change,
        "constraint": plain.constraint,
        "tested_statistic": trial.change.value,
        "pvalue": fallback if law is None else law.sf(trial.change.value),
        "critical_value": np.nan if law is None or alpha is None else law.isf(alpha),
        "wald_statistic": 2 * wald,
        "wald_pvalue": wald_pvalue,
        "equivalence_pvalue": np.nan if sigma is None else edge.within(error if sample else None, df),
        "status": status,
        "bandwidth": trial.width,
        "weights": np.full(places.size, np.nan) if law is None else law.weights,
        "standard_error": error,
        "df": df,  # of the variances; infinite without weights and clusters
        "redundant": redundant,  # places of moments that follow from the others
        "constant": constant,
        "left_out": left_out,  # whether constant ones were left out, and others tested
        "few_events": few,
        "pooled": sigma_all is not None and not own_rates,  # variances at the rates of the null: some rates are 0 or 1
        "smoothed": law is not None and trial.change is not plain.change,  # scores spread over the steps of a lattice
        "permuted": by_permutation,  # the Wald test's p-value
        "random": by_permutation or normals is not None,
    }


def _refuse_tolerance(null: Null, tested: Null, redundant: IntArray) -> None:
    """Raise if the law of this tolerance is not known."""
    if redundant.size and not null.equality:
        raise UsageError(
            "tolerance: some comparisons follow from the others; give groups that are not functions of each other."
        )
    sides = int(tested.two_sided.sum())
    if sides > MOST_MOMENTS:
        raise UsageError(
            f"tolerance: {sides} comparisons at once; a two-sided tolerance is checked at 2^(m-1) corners, at most "
            f'{MOST_MOMENTS} comparisons. Merge groups, or limit one side only: tolerance={{"above": ...}} or '
            '{"below": ...}.'
        )


def _trial(
    rows: Measured,
    moments: Comparisons,
    places: IntArray,
    null: Null,
    sigma: FloatArray | None,
    bandwidth: float | None,
) -> _Trial:
    """Solve the program, and examine the rows near the boundary."""
    cells, phi = rows.cells, moments.phi[:, places]
    # Flipping a refused row adds phi to the moment, flipping a selected one subtracts it.
    vectors = (1 - 2 * cells.selected)[:, None] * phi
    limits = null.times(cells.rows)
    constraint = Constraint(vectors, cells.rows * moments.value[places], limits.low, limits.high)
    change = solve(rows.pool(vectors), constraint)
    size = cells.rows if rows.sample is None else min(cells.rows, rows.sample.size)
    width = bandwidth or 1.06 * rows.spread * size ** (-1 / 5)
    members = phi != 0 if moments.user_defined else moments.member
    return _Trial(constraint, change, width, *_curvature(rows, phi, sigma, width, members))


# ---- variances


def _variances(rows: Measured, moments: Comparisons, places: IntArray) -> tuple[FloatArray | None, bool, float, float]:
    """The covariance of all moments, whether it is at the groups' own rates, its degrees of freedom, and its clusters.

    No covariance if nothing varies. At the rates of the null if some are 0 or 1. The last is the smallest effective
    number of clusters, or of weighted rows, of a compared group.
    """
    cells, sample, tested = rows.cells, rows.sample, np.ix_(places, places)
    if sample is not None:
        centred = moments.influence - cells.count / cells.rows @ moments.influence
        sigma = sample.covariance(centred, cells.rows)
        effective = float(sample.effective(moments.member).min())
        return (sigma if positive_definite(sigma[tested]) else None), True, sample.df(centred[:, places]), effective
    sigma = covariance(cells, moments.influence)
    definite = positive_definite(sigma[tested])
    if moments.user_defined:
        return (sigma if definite else None), True, np.inf, np.inf
    rate = moments.rate[[*moments.event[places], *moments.reference[moments.event[places]]]]
    if definite and ((rate > 0) & (rate < 1)).all():
        return sigma, True, np.inf, np.inf
    # A rate of 0 or 1 among few rows has no variance of its own and would pass for certainty.
    return _pooled(cells, moments, places), False, np.inf, np.inf


def _pooled(cells: DecisionCells, moments: Comparisons, places: IntArray) -> FloatArray | None:
    """Covariance at the rates that hold under the null."""
    if moments.null_variance is None:
        return None
    pooled = moments.phi.T @ ((cells.count / cells.rows * moments.null_variance)[:, None] * moments.phi)
    return pooled if positive_definite(pooled[np.ix_(places, places)]) else None


def _null_sigma(cells: DecisionCells, moments: Comparisons, places: IntArray, sigma: FloatArray) -> FloatArray:
    """The same, except for the correlation of comparisons of different columns, which is taken from the data.

    Equal rates in each column imply nothing about the rates of their intersections.
    """
    pooled = _pooled(cells, moments, places)
    if pooled is None:
        return sigma
    pooled = pooled[np.ix_(places, places)]
    base = moments.reference[moments.event[places]]
    ratio = np.sqrt(np.diag(pooled) / np.diag(sigma))
    mixed = np.where(base[:, None] == base[None, :], pooled, sigma * np.outer(ratio, ratio))
    return mixed if positive_definite(mixed) else pooled


def _expected(cells: DecisionCells, moments: Comparisons, places: IntArray) -> float:
    """Fewest rows expected selected, or refused, in a compared group at the rates of the null."""
    fewest = np.inf
    for i in {*moments.event[places], *moments.reference[moments.event[places]]}:
        within = cells.within(moments.outcomes[i])
        rate = float(cells.count[within] @ cells.selected[within] / cells.count[within].sum())
        fewest = min(fewest, float(moments.count[i]) * min(rate, 1 - rate))
    return fewest


# ---- the density at the boundary


def _kernel(cells: DecisionCells, boundary: Boundary, phi: FloatArray, width: float) -> FloatArray:
    return phi.T @ (boundary.kernel[:, None] / (cells.rows * width) * phi)


def _curvature(
    rows: Measured, phi: FloatArray, sigma: FloatArray | None, width: float, members: BoolArray
) -> tuple[FloatArray | None, Status]:
    """S, the kernel estimate at the boundary, where the rows there allow one."""
    if not width > 0:  # all distances are equal
        return None, Status.ATOMS
    cells, boundary = rows.cells, rows.boundary(width)
    curvature = _kernel(cells, boundary, phi, width)
    # Each group counts for itself: the density of one with hardly a row near the boundary would be chance.
    if (boundary.near @ members).min() < NEAR or not positive_definite(curvature):
        return None, Status.UNSUPPORTED
    if sigma is None:
        return curvature, Status.OK
    # Rows at the boundary itself are averaged away over a bandwidth, yet they are the first to move, and free.
    segments = rows.pool(np.ones((cells.count.size, 1))).coarse()
    at = np.flatnonzero(segments.high == 0)
    free = float((total(segments.group[at], segments.count[at], cells.count.size) @ (phi != 0)).max())
    # Rows that chance alone would flip: a moment's deviation over its change by one row at the boundary.
    density = boundary.kernel @ (phi != 0) / (cells.rows * width)
    flips = float(np.sqrt(cells.rows * np.diag(sigma) * density / np.diag(curvature)).min())
    if boundary.tie > TIES * flips or free > max(SOME, FREE * flips):
        return None, Status.ATOMS
    return curvature, Status.OK


# ---- the edge of the null


class Edge:
    """The edge of the null: each moment at its tolerance, on the side where it was observed."""

    def __init__(self, cells: DecisionCells, moments: Comparisons, null: Null) -> None:
        self._rows, self._null, self._cells, self._phi = cells.rows, null, cells, moments.phi
        variance = np.diag(covariance(cells, moments.influence))
        self._parts = [strata(cells, moments.phi[:, t], variance[t]) for t in range(variance.size)]

    def scarce(self, places: IntArray) -> float:
        """Fewest rows expected selected, or refused, in a compared group."""
        return min(part.scarce(part.restricted(limit)) for part, limit, _ in map(self._outward, places))

    def few_events(self, sample: DesignedRows) -> BoolArray:
        """Which moments compare a rate that rests on fewer than `EVENTS` rows, or clusters, selected or refused.

        A group's own variance vanishes with its events, and the normal law with it. Expected events at the edge count
        like observed ones: a group without events where many are expected is no accident.
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
        # The effective size of a share of a set is at least its square times that of the set: most need no closer look.
        least = size * np.maximum(np.minimum(rate, 1 - rate) ** 2, np.minimum(null, 1 - null))
        close = np.flatnonzero((size > 0) & (least < EVENTS))
        few = np.zeros(size.size, dtype=bool)
        if close.size:
            chosen = self._cells.selected[:, None] == 1
            for decided, at_null in ((chosen, null), (~chosen, 1 - null)):
                worth = sample.effective(members[:, close] & decided)
                few[close] |= np.maximum(worth, (size * at_null)[close]) < EVENTS
        return np.asarray(few.reshape(-1, 2).any(axis=1))

    def covariance(self, sigma: FloatArray, places: IntArray) -> FloatArray:
        """``sigma`` with its variances taken at the edge; correlations are places."""
        variance = [part.variance(part.restricted(limit)) for part, limit, _ in map(self._outward, places)]
        ratio = self._rows * np.array(variance) / np.diag(sigma)
        # No rates reach an edge beyond the range of the moment: there `sigma` is as good as any.
        scale = np.sqrt(np.where(ratio > 1e-12, ratio, 1.0))
        return sigma * np.outer(scale, scale)

    def moved(self, sigma: FloatArray, places: IntArray) -> FloatArray:
        """The moments, moved to where the normal law gives them the tails that they have among few rows."""
        moments = []
        for t, error in zip(places, np.sqrt(np.diag(sigma) / self._rows), strict=True):
            part, limit, sign = self._outward(t)
            tail = np.clip(part.tail(limit), 1e-300, 1 - 1e-15)
            middle = sign * (self._null.low[t] + self._null.high[t]) / 2  # minus infinity where there is one side
            moments.append(sign * max(limit + error * float(normal_isf(tail, sides="one")), middle))
        return np.array(moments)

    def within(self, error: FloatArray | None = None, df: float = np.inf) -> float:
        """p-value of the claim that every difference lies within the tolerance: the largest of one-sided tests.

        With an ``error`` of each moment, for rows with weights or clusters, these are t-tests.
        """
        limits = np.concatenate([self._null.low, self._null.high])
        if not limits.all():  # a limit of 0 can be met, but not be shown to be met
            return float("nan")
        if error is not None:
            value = np.array([part.value for part in self._parts])
            away = np.minimum(self._null.high - value, value - self._null.low) / error
            return float("nan") if np.isnan(away).all() else float(t_sf(np.nanmin(away), df))
        pairs = list(zip(self._parts, self._null.low, self._null.high, strict=True))
        p = [part.mirrored.tail(-high) for part, _, high in pairs if np.isfinite(high)]
        return max(p + [part.tail(low) for part, low, _ in pairs if np.isfinite(low)])

    def _outward(self, t: int) -> tuple[RateStrata, float, float]:
        """A moment turned so that the limit it is nearest to, or furthest beyond, is above; the limit; the sign."""
        part, low, high = self._parts[t], float(self._null.low[t]), float(self._null.high[t])
        return (part.mirrored, -low, -1.0) if low - part.value > part.value - high else (part, high, 1.0)


# ---- planning


def plan_rows(
    null: Null, error: FloatArray, size: FloatArray, alpha: float, df: float
) -> tuple[FloatArray, FloatArray]:
    """The smallest difference each comparison alone would show, and the rows that its tolerance needs, at `POWER`.

    Rows needed are for equal rates, and keep the proportions of the groups, and the clusters that the error rests on.
    """
    limit = np.fmin(np.where(np.isinf(null.low), np.nan, -null.low), np.where(np.isinf(null.high), np.nan, null.high))
    both = np.isfinite(null.low) & np.isfinite(null.high)
    with np.errstate(divide="ignore", invalid="ignore"):
        room = np.where(np.isnan(error), np.nan, (null.high - null.low) / error)
        detectable = limit + (interval_isf(room, alpha, df) + t_isf(1 - POWER, df)) * error
        # Both one-sided tests must succeed: each with more than `POWER`.
        fails = np.where(both & (null.low == -null.high), (1 - POWER) / 2, 1 - POWER)
        needed = np.where(limit > 0, rows_for(limit, error, size, (alpha, fails), df), np.nan)
    return detectable, needed
