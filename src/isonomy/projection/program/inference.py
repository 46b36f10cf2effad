"""Is the least change more than chance? The program, its law and the Wald test, on cells."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from isonomy.errors import UsageError
from isonomy.inference.designs import FEWEST
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray
from isonomy.numerics.status import Status
from isonomy.numerics.tails import interval_isf, normal_isf, rows_for, t_isf, t_sf
from isonomy.projection.program.criteria import Comparisons, DecisionCells, covariance, independent
from isonomy.projection.program.law import (
    DRAWS,
    ENOUGH,
    EXCHANGED,
    Null,
    ProjectionLaw,
    RateStrata,
    maximum,
    permuted,
    positive_definite,
    strata,
)
from isonomy.projection.program.rows import DesignedRows, MeasuredArrays
from isonomy.projection.program.solve import Constraint, solve

if TYPE_CHECKING:
    from isonomy.projection.read import RowsByPasses

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


class ProjectionTest:
    """The test of a criterion on some rows. What does not depend on the null is computed once, on first use.

    ``published``: use the paper's bandwidth, the groups' own rates and Theorems 1 and 2, without checks.
    ``constant`` marks moments that are not tested because the rates compared are all 0 or all 1, ``left_out`` says
    whether others are tested; ``redundant`` are the places of moments that follow from the others.
    """

    def __init__(
        self,
        rows: MeasuredArrays | RowsByPasses,
        moments: Comparisons,
        *,
        bandwidth: float | None = None,
        tested: bool = True,
        published: bool = False,
    ) -> None:
        self.rows, self.moments, self._tested, self.published = rows, moments, tested, published
        self.constant = np.zeros(moments.value.size, dtype=bool)
        if moments.null_variance is not None:
            # Among rows that are all selected or all refused the difference is 0, whoever is compared.
            self.constant = (rows.cells.count * moments.null_variance) @ moments.phi**2 == 0
        places = independent(moments.phi)
        self.redundant = np.setdiff1d(np.arange(moments.value.size), places)
        self.left_out = bool(self.constant.any()) and not self.constant[places].all()
        self._places = places[~self.constant[places]] if self.left_out else places
        self._width = rows.cells.rows ** (-1 / 5) if published else bandwidth
        self._sigma, self._own_rates, self.df, self._effective = self._variances()

    @cached_property
    def _plain(self) -> BoundaryProgram:
        return BoundaryProgram(self, self.rows, self._width)

    @cached_property
    def _smooth(self) -> BoundaryProgram | None:
        """The program on a lattice that is spread over its steps, if there is one and it has a law."""
        rows = self.rows.smoothed()
        program = None if rows is None else BoundaryProgram(self, rows, self._width)
        return program if program is not None and program.density[1] is Status.OK else None

    @property
    def sigma(self) -> FloatArray | None:
        """The covariance of the moments that are tested."""
        return None if self._sigma is None else self._sigma[np.ix_(self._places, self._places)]

    @property
    def phi(self) -> FloatArray:
        """The moments that are tested, cell by cell."""
        return self.moments.phi[:, self._places]

    def constraint(self, null: Null) -> Constraint:
        """What the flips have to achieve: a refused row adds phi to the moment, a selected one subtracts it."""
        cells, limits = self.rows.cells, null.subset(self._places).times(self.rows.cells.rows)
        vectors = (1 - 2 * cells.selected)[:, None] * self.phi
        return Constraint(vectors, cells.rows * self.moments.value[self._places], limits.low, limits.high)

    def against(
        self, null: Null, *, alpha: float | None = None, draws: int = DRAWS, rng: np.random.Generator
    ) -> dict[str, Any]:
        """Solve the program, and compare its value with what chance would give. Without ``alpha``: no critical value.

        Returns the facts of the test by name. Those with one entry per moment: ``standard_error``; ``few_events``:
        neither tested nor given an interval, because rows have weights or clusters and events are few.
        """
        rows, moments, places, df = self.rows, self.moments, self._places, self.df
        cells, sample, limits, sigma = rows.cells, rows.sample, null.subset(places), self.sigma
        self._refuse_tolerance(null)
        plain = solve(self._plain.pool, self.constraint(null))
        change, program = plain, self._plain
        if program.density[1] is Status.ATOMS and plain.status is Status.OK and self._tested and self._smooth:
            # A lattice that is spread over its steps has a law where the rows as they are have none.
            program = self._smooth
            change = solve(program.pool, self.constraint(null))
        (curvature, status), edge = program.density, Edge(cells, moments, null)
        if sigma is None or plain.status is not Status.OK:
            status = Status.CONSTANT if sigma is None else plain.status
        elif status is Status.OK and not (limits.equality or self.published or sample) and change.value > 0:
            # The law is normal, and few rows do not follow it.
            status = Status.UNSUPPORTED if edge.scarce(places) < FEW else status
        moment, expected = moments.value[places], np.inf
        if sigma is None or sample is not None:
            pass  # weights and clusters have their own law for small samples
        elif limits.equality and moments.null_rate is not None:
            # Groups this small are judged at the rates of the null: their own are noise.
            shared = (moments.member * moments.null_rate[:, None]).max(axis=0)
            compared = [*moments.event[places], *moments.reference[moments.event[places]]]
            expected = float((moments.count * np.minimum(shared, 1 - shared))[compared].min())
            if status is Status.UNSUPPORTED or expected < ENOUGH * places.size:
                sigma = self._null_sigma(sigma)
            if status is Status.OK and expected < SCARCE and not self.published:
                status = Status.UNSUPPORTED
        elif status is Status.UNSUPPORTED or not (limits.equality or (status is Status.OK and self._own_rates)):
            sigma = edge.covariance(sigma, places)
            moment = moment if limits.equality or status is Status.OK else edge.moved(sigma, places)
        few = np.zeros(moments.value.size, dtype=bool)
        if self._effective < FEWEST:
            status, sigma = Status.FEW_CLUSTERS, None
        elif sample is not None:
            few = edge.few_events(sample) & ~self.constant
            status, sigma = (Status.FEW_EVENTS, None) if few[places].any() else (status, sigma)
        limits = limits.times(np.sqrt(cells.rows))
        normals = None
        if limits.simulated:
            normals = rng.standard_normal((draws, places.size))
            if np.isfinite(df):  # a t law, with one variance for all moments, if the covariance rests on few clusters
                normals = normals * np.sqrt(df / rng.chisquare(df, (draws, 1)))
        wald, wald_pvalue, law, by_permutation = np.nan, np.nan, None, False
        if sigma is not None:
            wald = float(maximum(np.sqrt(cells.rows) * moment[None, :], sigma, limits)[0])
            by_permutation = expected < SCARCE and cells.rows < EXCHANGED
            if by_permutation:
                wald_pvalue = permuted(cells, self.phi, sigma, wald, rng)
            else:
                wald_pvalue = ProjectionLaw(sigma, sigma, limits, normals, df).sf(wald)
            if curvature is not None and status is Status.OK and self._tested:
                theirs = covariance(cells, moments.influence)[np.ix_(places, places)] if self.published else sigma
                law = ProjectionLaw(theirs, curvature, limits, normals, df)
        error = np.full(self.constant.size, np.nan)
        if self._sigma is not None and status is not Status.FEW_CLUSTERS:
            error = np.where(self.constant | few, np.nan, np.sqrt(np.diag(self._sigma) / cells.rows))
        fallback = wald_pvalue if self._tested else np.nan
        return {
            "change": plain,
            "tested_statistic": change.value,
            "pvalue": fallback if law is None else law.sf(change.value),
            "critical_value": np.nan if law is None or alpha is None else law.isf(alpha),
            "wald_statistic": 2 * wald,
            "wald_pvalue": wald_pvalue,
            "equivalence_pvalue": np.nan if sigma is None else edge.within(error if sample else None, df),
            "status": status,
            "bandwidth": program.width,
            "weights": np.full(places.size, np.nan) if law is None else law.weights,
            "standard_error": error,
            "few_events": few,
            # Variances at the rates of the null, because some rates are 0 or 1.
            "pooled": self._sigma is not None and not self._own_rates,
            "smoothed": law is not None and change is not plain,  # scores spread over the steps of a lattice
            "permuted": by_permutation,  # the Wald test's p-value
            "random": by_permutation or normals is not None,
        }

    def _refuse_tolerance(self, null: Null) -> None:
        """Raise if the law of this tolerance is not known."""
        if self.redundant.size and not null.equality:
            raise UsageError(
                "tolerance: some comparisons follow from the others; give groups that are not functions of each other."
            )
        sides = int(null.subset(self._places).two_sided.sum())
        if sides > MOST_MOMENTS:
            raise UsageError(
                f"tolerance: {sides} comparisons at once; a two-sided tolerance is checked at 2^(m-1) corners, at most "
                f'{MOST_MOMENTS} comparisons. Merge groups, or limit one side only: tolerance={{"above": ...}} or '
                '{"below": ...}.'
            )

    # ---- variances

    def _variances(self) -> tuple[FloatArray | None, bool, float, float]:
        """The covariance of all moments, whether it is at the groups' own rates, its degrees of freedom, its clusters.

        No covariance if nothing varies. At the rates of the null if some are 0 or 1. The last is the smallest effective
        number of clusters, or of weighted rows, of a compared group.
        """
        cells, sample, moments, places = self.rows.cells, self.rows.sample, self.moments, self._places
        tested = np.ix_(places, places)
        if sample is not None:
            centered = moments.influence - cells.count / cells.rows @ moments.influence
            sigma = sample.covariance(centered, cells.rows)
            effective = float(sample.effective(moments.member).min())
            return (
                (sigma if positive_definite(sigma[tested]) else None),
                True,
                sample.df(centered[:, places]),
                effective,
            )
        sigma = covariance(cells, moments.influence)
        definite = positive_definite(sigma[tested])
        if moments.user_defined:
            return (sigma if definite else None), True, np.inf, np.inf
        rate = moments.rate[[*moments.event[places], *moments.reference[moments.event[places]]]]
        if definite and ((rate > 0) & (rate < 1)).all():
            return sigma, True, np.inf, np.inf
        # A rate of 0 or 1 among few rows has no variance of its own and would pass for certainty.
        pooled = self._pooled()
        return (pooled if positive_definite(pooled[tested]) else None), False, np.inf, np.inf

    def _pooled(self) -> FloatArray:
        """Covariance at the rates that hold under the null."""
        cells, phi, variance = self.rows.cells, self.moments.phi, self.moments.null_variance
        assert variance is not None
        return phi.T @ ((cells.count / cells.rows * variance)[:, None] * phi)

    def _null_sigma(self, sigma: FloatArray) -> FloatArray:
        """The same, except for the correlation of comparisons of different columns, which is taken from the data.

        Equal rates in each column imply nothing about the rates of their intersections.
        """
        places = self._places
        pooled = self._pooled()[np.ix_(places, places)]
        if not positive_definite(pooled):
            return sigma
        base = self.moments.reference[self.moments.event[places]]
        ratio = np.sqrt(np.diag(pooled) / np.diag(sigma))
        mixed = np.where(base[:, None] == base[None, :], pooled, sigma * np.outer(ratio, ratio))
        return mixed if positive_definite(mixed) else pooled


class BoundaryProgram:
    """The program of a test on some rows, and the density at their boundary."""

    def __init__(self, test: ProjectionTest, rows: MeasuredArrays | RowsByPasses, bandwidth: float | None) -> None:
        self._test, self._rows, self._bandwidth = test, rows, bandwidth
        self.pool = rows.pool(test.phi)

    @cached_property
    def width(self) -> float:
        """The bandwidth of the density."""
        size, sample = self._rows.cells.rows, self._rows.sample
        if sample is not None:
            size = min(size, float(sample.effective(np.ones((self._rows.cells.count.size, 1), dtype=bool))[0]))
        return self._bandwidth or 1.06 * self._rows.spread * size ** (-1 / 5)

    @cached_property
    def density(self) -> tuple[FloatArray | None, Status]:
        """S, the kernel estimate at the boundary, where the rows there allow one."""
        if not self.width > 0:  # all distances are equal
            return None, Status.ATOMS
        cells, boundary, phi, sigma = (
            self._rows.cells,
            self._rows.boundary(self.width),
            self._test.phi,
            self._test.sigma,
        )
        curvature = phi.T @ (boundary.kernel[:, None] / (cells.rows * self.width) * phi)
        definite = positive_definite(curvature)
        if self._test.published:  # S as it is
            return (curvature, Status.OK) if definite else (None, Status.UNSUPPORTED)
        # Each group counts for itself: the density of one with hardly a row near the boundary would be chance.
        members = phi != 0 if self._test.moments.user_defined else self._test.moments.member
        if (boundary.near @ members).min() < NEAR or not definite:
            return None, Status.UNSUPPORTED
        if sigma is None:
            return curvature, Status.OK
        # Rows that chance alone would flip: a moment's deviation over its change by one row at the boundary.
        density = boundary.kernel @ (phi != 0) / (cells.rows * self.width)
        flips = float(np.sqrt(cells.rows * np.diag(sigma) * density / np.diag(curvature)).min())
        # Rows at the boundary itself are averaged away over a bandwidth, yet they are the first to move, and free.
        free = float((boundary.free @ (phi != 0)).max())
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
        """``sigma`` with its variances taken at the edge; correlations stay as they are."""
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
