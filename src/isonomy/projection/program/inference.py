"""Is the least change more than chance? The program, its law and the Wald test, on cells."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import qr

from isonomy.errors import UsageError
from isonomy.inference.designs import FEWEST
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray
from isonomy.numerics.roots import root
from isonomy.numerics.status import Status
from isonomy.numerics.tails import interval_isf, normal_isf, rows_for, t_isf, t_sf
from isonomy.projection.program import law
from isonomy.projection.program.criteria import Comparisons, DecisionCells, corollary_covariance, covariance
from isonomy.projection.program.solve import Constraint, Pool, solve

if TYPE_CHECKING:
    from isonomy.projection.read import DesignedRows, Rows

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

POINTS = 15  # of the tolerance curve, between 0 and beyond both limits
CURVE_DRAWS = 10_000  # of each of its p-values
HALVINGS = 12  # of the interval that holds its lower limit


class ProjectionTest:
    """The test of a criterion on some rows. What does not depend on the null is computed once, on first use.

    ``method``: "published" uses the paper's bandwidth, the groups' own rates and Theorems 1 and 2, without checks;
    "corollary" is the same with the variances of Corollary 1 as printed; "corrected" is ours.
    ``constant`` marks moments that are not tested because the rates compared are all 0 or all 1, ``left_out`` says
    whether others are tested; ``redundant`` are the places of moments that follow from the others.
    """

    def __init__(self, rows: Rows, moments: Comparisons, *, bandwidth: float | None, tested: bool, method: str) -> None:
        self.rows, self.moments, self._tested, self._method = rows, moments, tested, method
        self.published = method != "corrected"
        self.constant, self._pooled = np.zeros(moments.value.size, dtype=bool), None
        if moments.null_rate is not None:  # the covariance at the rates that hold under the null
            variance = rows.cells.count / rows.cells.rows * moments.null_rate * (1 - moments.null_rate)
            self._pooled = moments.phi.T @ (variance[:, None] * moments.phi)
            # Among rows that are all selected or all refused the difference is 0, whoever is compared.
            self.constant = np.diag(self._pooled) == 0
        # Moments that are not linear combinations of the others (two attributes may coincide).
        _, triangle, order = qr(moments.phi / np.abs(moments.phi).max(axis=0), mode="economic", pivoting=True)
        pivot = np.abs(np.diag(triangle))
        places = np.sort(order[: int((pivot > 1e-10 * pivot[0]).sum())]).astype(np.intp)
        self.redundant = np.setdiff1d(np.arange(moments.value.size), places)
        self.left_out = bool(self.constant.any()) and not self.constant[places].all()
        self._places = places[~self.constant[places]] if self.left_out else places
        self.phi, event = moments.phi[:, self._places], moments.event[self._places]
        self._compared = [*event, *moments.reference[event]]
        self._width = rows.cells.rows ** (-1 / 5) if self.published else bandwidth
        self._pool = rows.pool(self.phi)
        self._own_rates, self.df, self._effective = True, np.inf, np.inf
        square = np.ix_(self._places, self._places)
        if rows.sample is not None:
            centered = moments.influence - rows.cells.count / rows.cells.rows @ moments.influence
            sigma = rows.sample.covariance(centered, rows.cells.rows)
            self.df = rows.sample.df(centered[:, self._places])
            # The smallest effective number of clusters, or of weighted rows, of a compared group.
            self._effective = float(rows.sample.effective(moments.member).min())
        else:
            sigma, rate = covariance(rows.cells, moments.influence), moments.rate[self._compared]
            varying = law.positive_definite(sigma[square]) and ((rate > 0) & (rate < 1)).all()
            if self._pooled is not None and not varying:
                # A rate of 0 or 1 among few rows has no variance of its own and would pass for certainty.
                sigma, self._own_rates = self._pooled, False
        # The covariance of all moments, and of those that are tested; None if nothing varies.
        self._sigma = sigma if law.positive_definite(sigma[square]) else None
        self.sigma = None if self._sigma is None else sigma[square]

    @cached_property
    def boundary(self) -> tuple[float, FloatArray | None, Status, float]:
        return self._density(self.rows)

    @cached_property
    def _smooth(self) -> tuple[Pool, float, FloatArray | None, float] | None:
        """Rows of a lattice spread over its steps: their pool, bandwidth, S and density, if they have a law."""
        rows = self.rows.smoothed()
        if rows is None:
            return None
        width, curvature, status, density = self._density(rows)
        return (rows.pool(self.phi), width, curvature, density) if status is Status.OK else None

    def constraint(self, null: law.Null) -> Constraint:
        """What the flips have to achieve: a refused row adds phi to the moment, a selected one subtracts it."""
        cells, limits = self.rows.cells, null.subset(self._places).times(self.rows.cells.rows)
        vectors = (1 - 2 * cells.selected)[:, None] * self.phi
        return Constraint(vectors, cells.rows * self.moments.value[self._places], limits.low, limits.high)

    def against(
        self, null: law.Null, *, alpha: float | None = None, draws: int = law.DRAWS, rng: np.random.Generator
    ) -> dict[str, Any]:
        """Solve the program, and compare its value with what chance would give. Without ``alpha``: no critical value.

        Returns the facts of the test by name. Those with one entry per moment: ``standard_error``; ``few_events``:
        neither tested nor given an interval, because rows have weights or clusters and events are few.
        """
        rows, moments, places, df = self.rows, self.moments, self._places, self.df
        cells, sample, limits, sigma = rows.cells, rows.sample, null.subset(places), self.sigma
        self._refuse_tolerance(null)
        change = plain = solve(self._pool, self.constraint(null))  # an engine locates the quartiles on the way
        (width, curvature, status, density), edge = self.boundary, Edge(cells, moments, null)
        if status is Status.ATOMS and plain.status is Status.OK and self._tested and self._smooth:
            # A lattice that is spread over its steps has a law where the rows as they are have none.
            (pool, width, curvature, density), status = self._smooth, Status.OK
            change = solve(pool, self.constraint(null))
        if sigma is None or plain.status is not Status.OK:
            status = Status.CONSTANT if sigma is None else plain.status
        elif status is Status.OK and not (limits.equality or self.published or sample) and change.value > 0:
            # The law is normal, and few rows do not follow it.
            scarce = min(part.scarce(rate) for part, _, _, rate in (edge.outward[t] for t in places))
            status = Status.UNSUPPORTED if scarce < FEW else status
        moment, expected = moments.value[places], np.inf
        if sigma is None or sample is not None:
            pass  # weights and clusters have their own law for small samples
        elif limits.equality and moments.null_rate is not None:
            # Groups this small are judged at the rates of the null: their own are noise.
            shared = (moments.member * moments.null_rate[:, None]).max(axis=0)
            expected = float((cells.count @ moments.member * np.minimum(shared, 1 - shared))[self._compared].min())
            if status is Status.UNSUPPORTED or expected < law.ENOUGH * places.size:
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
        wald, wald_pvalue, theorem, by_permutation = np.nan, np.nan, None, False
        if sigma is not None:
            wald = float(law.maximum(np.sqrt(cells.rows) * moment[None, :], sigma, limits)[0])
            by_permutation = expected < SCARCE and cells.rows < law.EXCHANGED
            if by_permutation:
                wald_pvalue = law.permuted(cells, self.phi, sigma, wald, rng)
            else:
                wald_pvalue = law.ProjectionLaw(sigma, sigma, limits, normals, df).sf(wald)
            if curvature is not None and status is Status.OK and self._tested:
                if self._method == "published":
                    sigma = covariance(cells, moments.influence)[np.ix_(places, places)]
                elif self._method == "corollary":
                    sigma = corollary_covariance(cells, moments)[np.ix_(places, places)]
                theorem = law.ProjectionLaw(sigma, curvature, limits, normals, df)
        error = np.full(self.constant.size, np.nan)
        if self._sigma is not None and status is not Status.FEW_CLUSTERS:
            error = np.where(self.constant | few, np.nan, np.sqrt(np.diag(self._sigma) / cells.rows))
        fallback = wald_pvalue if self._tested else np.nan
        return {
            "change": plain,
            "tested_statistic": change.value,
            "pvalue": fallback if theorem is None else theorem.sf(change.value),
            "critical_value": np.nan if theorem is None or alpha is None else theorem.isf(alpha),
            "wald_statistic": 2 * wald,
            "wald_pvalue": wald_pvalue,
            "equivalence_pvalue": np.nan if sigma is None else edge.within(error if sample else None, df),
            "test_status": status,
            "bandwidth": width,
            "density": density,
            "weights": np.full(places.size, np.nan) if theorem is None else theorem.weights,
            # Sigma and S of the law, one row for each moment that it tests.
            "covariance": None if theorem is None else theorem.covariance,
            "curvature": None if theorem is None else theorem.curvature,
            "places": places,
            "standard_error": error,
            "few_events": few,
            # Variances at the rates of the null, because some rates are 0 or 1.
            "pooled": self._sigma is not None and not self._own_rates,
            "smoothed": theorem is not None and change is not plain,  # scores spread over the steps of a lattice
            "permuted": by_permutation,  # the Wald test's p-value
            "random": by_permutation or normals is not None,
        }

    def _refuse_tolerance(self, null: law.Null) -> None:
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

    def _null_sigma(self, sigma: FloatArray) -> FloatArray:
        """The covariance at the rates of the null. Comparisons of different columns have the correlation in ``sigma``.

        Equal rates in each column imply nothing about the rates of their intersections.
        """
        assert self._pooled is not None
        pooled = self._pooled[np.ix_(self._places, self._places)]
        if not law.positive_definite(pooled):
            return sigma
        base = self.moments.reference[self.moments.event[self._places]]
        ratio = np.sqrt(np.diag(pooled) / np.diag(sigma))
        mixed = np.where(base[:, None] == base[None, :], pooled, sigma * np.outer(ratio, ratio))
        return mixed if law.positive_definite(mixed) else pooled

    def _density(self, rows: Rows) -> tuple[float, FloatArray | None, Status, float]:
        """The bandwidth; S, the kernel estimate at the boundary, where the rows there allow one; and f(0)."""
        size, phi, sigma = rows.cells.rows, self.phi, self.sigma
        effective = size
        if rows.sample is not None:
            effective = min(size, float(rows.sample.effective(np.ones((len(phi), 1), dtype=bool))[0]))
        width = self._width or 1.06 * rows.spread * effective ** (-1 / 5)
        if not width > 0:  # all distances are equal
            return width, None, Status.ATOMS, np.nan
        kernel, near, free, tie = rows.boundary(width)
        curvature, density = phi.T @ (kernel[:, None] / (size * width) * phi), float(kernel.sum() / (size * width))
        # Each group counts for itself: the density of one with hardly a row near the boundary would be chance.
        members = phi != 0 if self.moments.user_defined else self.moments.member
        if not law.positive_definite(curvature) or (not self.published and (near @ members).min() < NEAR):
            return width, None, Status.UNSUPPORTED, density
        if self.published or sigma is None:
            return width, curvature, Status.OK, density
        # Rows that chance alone would flip: a moment's deviation over its change by one row at the boundary.
        compared = kernel @ (phi != 0) / (size * width)
        flips = float(np.sqrt(size * np.diag(sigma) * compared / np.diag(curvature)).min())
        # Rows at the boundary itself are averaged away over a bandwidth, yet they are the first to move, and free.
        if tie > TIES * flips or float((free @ (phi != 0)).max()) > max(SOME, FREE * flips):
            return width, None, Status.ATOMS, density
        return width, curvature, Status.OK, density


# ---- the edge of the null


class Edge:
    """The edge of the null: each moment at its tolerance, on the side where it was observed."""

    def __init__(self, cells: DecisionCells, moments: Comparisons, null: law.Null) -> None:
        self._cells, self._phi, self._null = cells, moments.phi, null
        variance = np.diag(covariance(cells, moments.influence))
        self._parts = [law.strata(cells, moments.phi[:, t], variance[t]) for t in range(variance.size)]

    @cached_property
    def outward(self) -> list[tuple[law.RateStrata, float, float, FloatArray]]:
        """Each moment turned so that the limit it is nearest to, or furthest beyond, is above.

        With the limit, the sign of the turn, and the likeliest rates at the limit.
        """
        turned = []
        for part, low, high in zip(self._parts, self._null.low, self._null.high, strict=True):
            below = low - part.value > part.value - high
            turned.append((part.mirrored, -float(low), -1.0) if below else (part, float(high), 1.0))
        return [(part, limit, sign, part.restricted(limit)) for part, limit, sign in turned]

    def few_events(self, sample: DesignedRows) -> BoolArray:
        """Which moments compare a rate that rests on fewer than `EVENTS` rows, or clusters, selected or refused.

        A group's own variance vanishes with its events, and the normal law with it. Expected events at the edge count
        like observed ones: a group without events where many are expected is no accident.
        """
        expected = [
            (part.count * side) @ rate / max(float(part.count @ side), 1e-300)
            for part, _, sign, rate in self.outward
            for side in (sign * part.weight > 0, sign * part.weight < 0)
        ]
        null, chosen = np.array(expected), self._cells.selected[:, None] == 1
        members = np.column_stack([side for phi in self._phi.T for side in (phi > 0, phi < 0)])
        sets, place = np.unique(members, axis=1, return_inverse=True)  # a reference is in many comparisons
        size = sample.effective(sets)[place.ravel()]
        few = np.zeros(size.size, dtype=bool)
        for decided, at_null in ((chosen, null), (~chosen, 1 - null)):
            few |= np.maximum(sample.effective(sets & decided)[place.ravel()], size * at_null) < EVENTS
        return np.asarray((few & (size > 0)).reshape(-1, 2).any(axis=1))

    def covariance(self, sigma: FloatArray, places: IntArray) -> FloatArray:
        """``sigma`` with its variances taken at the edge; correlations stay as they are."""
        variance = [part.variance(rate) for part, _, _, rate in (self.outward[t] for t in places)]
        ratio = self._cells.rows * np.array(variance) / np.diag(sigma)
        # No rates reach an edge beyond the range of the moment: there `sigma` is as good as any.
        scale = np.sqrt(np.where(ratio > 1e-12, ratio, 1.0))
        return sigma * np.outer(scale, scale)

    def moved(self, sigma: FloatArray, places: IntArray) -> FloatArray:
        """The moments, moved to where the normal law gives them the tails that they have among few rows."""
        moments = []
        for t, error in zip(places, np.sqrt(np.diag(sigma) / self._cells.rows), strict=True):
            part, limit, sign, _ = self.outward[t]
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


# ---- the tolerance curve, and planning


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ToleranceCurve:
    """p-values of every tolerance, and confidence limits for the largest difference.

    Attributes
    ----------
    tolerance, pvalue, within_pvalue : ndarray
        The tolerances, the p-value of "every difference is within it", and that of "some difference is at least it".
    least : float
        The smallest tolerance that is not rejected: with confidence 1 - alpha some difference is larger. 0 if equality
        is not rejected, NaN if nothing was tested.
    most : float
        The smallest tolerance that is shown to hold: with confidence 1 - alpha no difference is larger. Infinite if
        none is.
    """

    tolerance: FloatArray
    pvalue: FloatArray
    within_pvalue: FloatArray
    least: float
    most: float

    def __post_init__(self) -> None:
        for values in (self.tolerance, self.pvalue, self.within_pvalue):
            values.flags.writeable = False


def tolerance_curve(test: ProjectionTest, side: law.Side, *, alpha: float, rng: np.random.Generator) -> ToleranceCurve:
    rows, moments, seed = test.rows, test.moments, int(rng.integers(2**63))

    def null(tolerance: float) -> law.Null:
        return law.tolerated(tolerance if side == "both" else {side: tolerance}, moments.keys)

    @cache
    def facts(tolerance: float) -> dict[str, Any]:  # with the same draws for every tolerance
        return test.against(null(tolerance), draws=CURVE_DRAWS, rng=np.random.default_rng(seed))

    def pvalue(tolerance: float) -> float:
        return float(facts(tolerance)["pvalue"])

    equal = facts(0.0)
    error = None if rows.sample is None else equal["standard_error"]

    def within(tolerance: float) -> float:
        if np.isnan(equal["wald_pvalue"]):  # nothing varies, or there are too few clusters
            return float("nan")
        return Edge(rows.cells, moments, null(tolerance)).within(error, test.df)

    beyond = {"both": np.abs(moments.value), "above": moments.value, "below": -moments.value}[side]
    largest = max(0.0, float(beyond.max()))
    least, high = 0.0, largest
    if np.isnan(pvalue(0.0)):
        least = np.nan
    elif pvalue(0.0) <= alpha and largest > 0:
        for _ in range(HALVINGS):
            middle = (least + high) / 2
            least, high = (middle, high) if pvalue(middle) <= alpha else (least, middle)
    # A tolerance of 0 cannot be shown to hold, whatever was observed.
    bottom, top = largest + 1e-12, 100 * (largest + 1e-12) if moments.user_defined else 1.0 - 1e-9
    shown = within(top) <= alpha  # as far as tolerances go
    most = root(lambda t: within(t) - alpha, bottom, top).x if shown and within(bottom) > alpha else np.inf
    end = 1.5 * (most if np.isfinite(most) else max(largest, 1e-3))
    grid = np.linspace(0.0, min(end, top), POINTS)
    return ToleranceCurve(
        tolerance=grid,
        pvalue=np.array([pvalue(float(t)) for t in grid]),
        within_pvalue=np.array([within(float(t)) for t in grid]),
        least=float(least),
        most=float(most),
    )


def plan_rows(
    null: law.Null, error: FloatArray, size: FloatArray, alpha: float, df: float
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
