"""Is the least change more than chance? The program, its law and the Wald test beside it, on cells."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from isonomy.errors import UsageError
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray
from isonomy.numerics.status import Status
from isonomy.numerics.tails import normal_isf
from isonomy.transport.program.cells import Cells, total
from isonomy.transport.program.criteria import Event, Moments, covariance, independent
from isonomy.transport.program.law import DRAWS, Law, Null, observed, positive_definite
from isonomy.transport.program.measured import Boundary, Measured
from isonomy.transport.program.rates import Strata, strata
from isonomy.transport.program.solve import Constraint, Solution, solve

MOST_MOMENTS = 10  # of a two-sided tolerance: its law is simulated at 2^(m-1) corners
FEW = 10  # rows of a group within a label below which large-sample laws are not to be relied on
NEAR = 5.0  # rows of each compared group within one bandwidth of the boundary that its density needs
TIES = 0.5  # rows tied with one, over `flips_of_chance`, up to which the law is used: right up to about 2, wrong from 4
FREE = 0.1  # rows at distance 0, over the rows chance alone would flip, up to which the law is used
SOME = 3.0  # rows at distance 0 that are chance, however few flips chance needs


@dataclass(frozen=True, slots=True, eq=False)
class Inference:
    """What follows about one null."""

    solution: Solution
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
    left_out: bool  # whether those that are constant were left out, and others tested
    pooled: bool  # variances at the rates of the null, because some rates are 0 or 1


def infer(
    rows: Measured,
    asked: Moments,
    null: Null,
    *,
    bandwidth: float | None = None,
    alpha: float | None = None,
    tested: bool = True,
    rng: np.random.Generator,
) -> Inference:
    """Solve the program, and compare its value with what chance would give. Without ``alpha``: no critical value."""
    cells = rows.cells
    constant = np.zeros(asked.value.size, dtype=bool)
    if asked.null_variance is not None:
        # Among rows that are all selected or all refused the difference is 0, whoever is compared.
        constant = (cells.count * asked.null_variance) @ asked.phi**2 == 0
    kept = independent(asked.phi)
    redundant = np.setdiff1d(np.arange(asked.value.size), kept)
    if redundant.size and null.side != "equality":
        raise UsageError(
            "tolerance: some comparisons follow from the others; give groups that are not functions of each other."
        )
    left_out = bool(constant.any()) and not constant[kept].all()
    kept = kept[~constant[kept]] if left_out else kept
    if null.side == "both" and kept.size > MOST_MOMENTS:
        raise UsageError(
            f"tolerance: {kept.size} comparisons at once; a two-sided tolerance is checked at 2^(m-1) corners, at most "
            f'{MOST_MOMENTS} comparisons. Merge groups, or use tolerance_side="upper" or "lower".'
        )
    phi, value = null.sign * asked.phi[:, kept], null.sign * asked.value[kept]
    sigma, own_rates = _sigma(cells, asked, kept)
    # Flipping a refused row adds phi to the moment, flipping a selected one takes it away.
    vectors = (1 - 2 * cells.selected)[:, None] * phi
    bounds = null.bounds(value.size, cells.rows)
    solution = solve(rows.pool(vectors), Constraint(vectors, cells.rows * value, *bounds))
    width = bandwidth or 1.06 * rows.spread * cells.rows ** (-1 / 5)
    own = None if sigma is None else sigma[np.ix_(kept, kept)]
    curvature, status = _curvature(rows, phi, own, width, asked.events)
    edge = _Edge(cells, asked, null)
    if own is None or solution.status is not Status.OK:
        status = Status.CONSTANT if own is None else solution.status
    elif status is Status.OK and null.side != "equality" and solution.value > 0 and edge.scarce(kept) < FEW:
        status = Status.UNSUPPORTED  # the law is a normal one, and so few rows do not follow it
    moment = value
    if own is not None and null.side == "equality" and status is Status.UNSUPPORTED:
        # Groups this small are judged at the rates of the null: their own are noise.
        pooled = _pooled(cells, asked, kept)
        own = edge.covariance(own, kept) if pooled is None else pooled[np.ix_(kept, kept)]
    elif own is not None and null.side != "equality" and not (status is Status.OK and own_rates):
        own = edge.covariance(own, kept)
        moment = value if status is Status.OK else edge.moved(own, kept)
    slack = np.full(kept.size, np.sqrt(cells.rows) * null.tolerance)
    normals = rng.standard_normal((DRAWS, kept.size)) if null.side != "equality" and kept.size > 1 else None
    wald, wald_pvalue, law = np.nan, np.nan, None
    if own is not None:
        wald = observed(np.sqrt(cells.rows) * moment, own, slack, null.side)
        wald_pvalue = Law(own, own, slack, null.side, normals).sf(wald)
        if curvature is not None and status is Status.OK and tested:
            law = Law(own, curvature, slack, null.side, normals)
    error = np.full(asked.value.size, np.nan) if sigma is None else np.sqrt(np.diag(sigma) / cells.rows)
    error[constant] = np.nan
    fallback = wald_pvalue if tested else np.nan
    return Inference(
        solution=solution,
        pvalue=fallback if law is None else law.sf(solution.value),
        critical_value=np.nan if law is None or alpha is None else law.isf(alpha),
        wald_statistic=2 * wald,
        wald_pvalue=wald_pvalue,
        equivalence_pvalue=np.nan if own is None else edge.within(),
        status=status,
        bandwidth=width,
        weights=np.full(kept.size, np.nan) if law is None else law.weights,
        standard_error=error,
        redundant=redundant,
        constant=constant,
        left_out=left_out,
        pooled=sigma is not None and not own_rates,
    )


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


def _curvature(
    rows: Measured, phi: FloatArray, sigma: FloatArray | None, width: float, events: tuple[Event, ...]
) -> tuple[FloatArray | None, Status]:
    """S, the kernel estimate at the boundary, where the rows there allow one."""
    if not width > 0:  # all distances are equal
        return None, Status.ATOMS
    cells, boundary = rows.cells, rows.boundary(width)
    curvature = phi.T @ (boundary.kernel[:, None] / (cells.rows * width) * phi)
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


class _Edge:
    """The edge of the null: each moment at its tolerance, on the side where it was seen."""

    def __init__(self, cells: Cells, asked: Moments, null: Null) -> None:
        self._rows, self._null = cells.rows, null
        own = np.diag(covariance(cells, asked.influence))
        self._parts = [strata(cells, null.sign * asked.phi[:, t], own[t]) for t in range(own.size)]

    def scarce(self, kept: IntArray) -> float:
        """Fewest rows expected selected, or refused, in a compared group."""
        parts = [self._outward(t) for t in kept]
        return min(part.scarce(part.restricted(self._null.tolerance)) for part in parts)

    def covariance(self, sigma: FloatArray, kept: IntArray) -> FloatArray:
        """``sigma`` with its variances taken at the edge; correlations are kept."""
        parts = [self._outward(t) for t in kept]
        variance = [part.variance(part.restricted(self._null.tolerance)) for part in parts]
        ratio = self._rows * np.array(variance) / np.diag(sigma)
        # No rates are at an edge that lies beyond all that a moment can be: there `sigma` is as good as any.
        scale = np.sqrt(np.where(ratio > 1e-12, ratio, 1.0))
        return sigma * np.outer(scale, scale)

    def moved(self, sigma: FloatArray, kept: IntArray) -> FloatArray:
        """The moments where the normal law gives them the tails that they have among few rows."""
        error = np.sqrt(np.diag(sigma) / self._rows)
        tail = [self._outward(t).tail(self._null.tolerance) for t in kept]
        distance = self._null.tolerance + error * normal_isf(np.clip(tail, 1e-300, 1 - 1e-15), sides="one")
        if self._null.side == "upper":
            return distance
        return np.maximum(distance, 0.0) * [-1.0 if self._parts[t].value < 0 else 1.0 for t in kept]

    def within(self) -> float:
        """p-value of the claim that every difference lies within the tolerance: the worst of one-sided tests."""
        tolerance = self._null.tolerance
        if self._null.side == "equality" or tolerance == 0:
            return float("nan")
        p = [part.mirrored.tail(-tolerance) for part in self._parts]
        if self._null.side == "both":
            p += [part.tail(-tolerance) for part in self._parts]
        return max(p)

    def _outward(self, t: int) -> Strata:
        """A moment, turned so that the edge is above."""
        part = self._parts[t]
        return part.mirrored if self._null.side != "upper" and part.value < 0 else part
