"""Is the least change more than chance? The program, its law and the Wald test beside it, on tallies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from isonomy.errors import UsageError
from isonomy.numerics.status import Status
from isonomy.numerics.tails import normal_sf
from isonomy.results.wording import transport as wording
from isonomy.transport.criteria import Cells, Event, Moments, covariance, independent
from isonomy.transport.law import DRAWS, Law, Side, observed, positive_definite
from isonomy.transport.program import Constraint, Solution, solve
from isonomy.transport.table import Boundary, Measured

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.intp]

MOST_MOMENTS = 10  # of a two-sided tolerance: its law is simulated at 2^(m-1) corners
FEW = 10  # rows of a group within a label below which large-sample laws are not to be relied on
NEAR = 5.0  # rows of each compared group within one bandwidth of the boundary that its density needs
TIES = 0.5  # the largest `crowding` at which the law is used: sizes are right up to about 2 and wrong from 4


@dataclass(frozen=True, slots=True, eq=False)
class Null:
    """Which differences belong to the null: none, or up to ``tolerance`` on the given side."""

    side: Side
    tolerance: float
    sign: float = 1.0  # -1: the tolerance is below the reference

    def bounds(self, size: int, rows: float) -> tuple[FloatArray, FloatArray]:
        """Least and largest total moment allowed."""
        high = np.full(size, rows * self.tolerance)
        return (np.full(size, -np.inf) if self.side == "upper" else -high), high


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """What the rows say about one null."""

    solution: Solution
    statistic: float
    pvalue: float
    critical_value: float
    wald_statistic: float
    wald_pvalue: float
    equivalence_pvalue: float
    status: Status
    bandwidth: float
    weights: FloatArray
    standard_error: FloatArray  # (m,): of each moment
    warnings: tuple[str, ...]


def weigh(
    table: Measured,
    asked: Moments,
    null: Null,
    *,
    bandwidth: float | None,
    alpha: float | None,
    tested: bool,
    rng: np.random.Generator,
) -> Evidence:
    """Solve the program, and compare its value with what chance would give. Without ``alpha``: no critical value."""
    cells = table.cells
    kept, warnings = _independent(asked, null)
    phi, value = null.sign * asked.phi[:, kept], null.sign * asked.value[kept]
    sigma, note = _sigma(cells, asked, kept)
    solution = _project(table, phi, value, null)
    width = bandwidth or 1.06 * table.spread * cells.rows ** (-1 / 5)
    own = None if sigma is None else sigma[np.ix_(kept, kept)]
    boundary = table.boundary(width) if width > 0 else None
    curvature, status = _curvature(cells, phi, own, width, boundary, asked.events)
    if own is None or solution.status is not Status.OK:
        status = Status.CONSTANT if own is None else solution.status
    if status is Status.UNSUPPORTED and null.side == "equality" and (pooled := _pooled(cells, asked, kept)) is not None:
        own = pooled[np.ix_(kept, kept)]  # groups this small are judged at the rates of the null: their own are noise
    slack = np.full(kept.size, np.sqrt(cells.rows) * null.tolerance)
    normals = rng.standard_normal((DRAWS, kept.size)) if null.side != "equality" and kept.size > 1 else None
    wald, wald_pvalue, law = np.nan, np.nan, None
    if own is not None:
        wald = observed(np.sqrt(cells.rows) * value, own, slack, null.side)
        wald_pvalue = Law(own, own, slack, null.side, normals).sf(wald)
        if curvature is not None and status is Status.OK and tested:
            law = Law(own, curvature, slack, null.side, normals)
    if not tested:
        note.append(wording.squared())
    elif status is not Status.OK:
        note.append(wording.status_warning(status))
    error = np.full(asked.value.size, np.nan) if sigma is None else np.sqrt(np.diag(sigma) / cells.rows)
    fallback = wald_pvalue if tested else np.nan
    return Evidence(
        solution=solution,
        statistic=solution.value,
        pvalue=fallback if law is None else law.sf(solution.value),
        critical_value=np.nan if law is None or alpha is None else law.isf(alpha),
        wald_statistic=2 * wald,
        wald_pvalue=wald_pvalue,
        equivalence_pvalue=_equivalence(asked.value, error, null),
        status=status,
        bandwidth=width,
        weights=np.full(kept.size, np.nan) if law is None else law.weights,
        standard_error=error,
        warnings=(*warnings, *note),
    )


def _independent(asked: Moments, null: Null) -> tuple[IntArray, list[str]]:
    """The moments to test, and what is to be said about them before anything is computed."""
    kept, warnings = independent(asked.phi), []
    if kept.size < len(asked.names):
        if null.side != "equality":
            raise UsageError(wording.dependent_with_tolerance())
        left_out = set(range(len(asked.names))) - set(kept.tolist())
        warnings.append(wording.redundant([asked.names[i] for i in sorted(left_out)]))
    if null.side == "both" and kept.size > MOST_MOMENTS:
        raise UsageError(wording.too_many_moments(kept.size, MOST_MOMENTS))
    few = [event.name for event in asked.events if event.count < FEW]
    if few:
        warnings.append(wording.few(few, FEW))
    return kept, warnings


def _project(table: Measured, phi: FloatArray, value: FloatArray, null: Null) -> Solution:
    cells = table.cells
    low, high = null.bounds(value.size, cells.rows)
    # Flipping a refused row adds phi to the moment, flipping a selected one takes it away.
    vectors = (1 - 2 * cells.selected)[:, None] * phi
    return solve(table.pool(vectors), Constraint(vectors, cells.rows * value, low, high))


def _sigma(cells: Cells, asked: Moments, kept: IntArray) -> tuple[FloatArray | None, list[str]]:
    """Covariance at the groups' own rates; at the null's where some rates are 0 or 1; None where nothing varies."""
    own = covariance(cells, asked.influence)
    if positive_definite(own[np.ix_(kept, kept)]) and all(0 < event.rate < 1 for event in asked.events):
        return own, []
    # A rate of 0 or 1 among few rows has no variance of its own and would pass for certainty.
    pooled = _pooled(cells, asked, kept)
    return (None, []) if pooled is None else (pooled, [wording.pooled()])


def _pooled(cells: Cells, asked: Moments, kept: IntArray) -> FloatArray | None:
    """Covariance at the rates that hold under the null."""
    if asked.null_variance is None:
        return None
    pooled = asked.phi.T @ ((cells.count / cells.rows * asked.null_variance)[:, None] * asked.phi)
    return pooled if positive_definite(pooled[np.ix_(kept, kept)]) else None


def _curvature(
    cells: Cells,
    phi: FloatArray,
    sigma: FloatArray | None,
    width: float,
    boundary: Boundary | None,
    events: tuple[Event, ...],
) -> tuple[FloatArray | None, Status]:
    """S, the kernel estimate at the boundary, where the rows there allow one."""
    if boundary is None:  # all distances are equal
        return None, Status.ATOMS
    curvature = phi.T @ (boundary.kernel[:, None] / (cells.rows * width) * phi)
    # Each group counts for itself: one with hardly a row near the boundary would have a density of chance.
    members = np.column_stack([event.member for event in events]) if events else phi != 0
    near = boundary.near @ members
    if near.min() < NEAR or not positive_definite(curvature):
        return None, Status.UNSUPPORTED
    if sigma is not None and crowding(cells, phi, sigma, curvature, width, boundary) > TIES:
        return None, Status.ATOMS
    return curvature, Status.OK


def crowding(
    cells: Cells, phi: FloatArray, sigma: FloatArray, curvature: FloatArray, width: float, boundary: Boundary
) -> float:
    """How coarse the distances are: a row's companions at its exact distance, over the rows chance alone would flip.

    Chance flips as many rows as the moment's standard deviation holds changes of one row at the boundary.
    """
    density = boundary.kernel @ (phi != 0) / (cells.rows * width)
    flips = np.sqrt(cells.rows * np.diag(sigma) * density / np.diag(curvature))
    return float(boundary.tie / flips.min())


def _equivalence(value: FloatArray, error: FloatArray, null: Null) -> float:
    """p-value of the claim that every difference lies within the tolerance: the worst of one-sided tests."""
    if null.side == "equality" or null.tolerance == 0:
        return float("nan")
    room = null.tolerance - (null.sign * value if null.side == "upper" else np.abs(value))
    return float(np.max(normal_sf(room / error, sides="one")))
