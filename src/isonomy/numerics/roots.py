"""Where does a function cross zero? One bracketed problem, or very many at once.

Nothing here raises because a problem has no root: the answer carries a `Status`, so that one odd group
among a thousand is reported as odd and the others are still solved.

    OK             a sign change was found and narrowed to the tolerance
    INFEASIBLE     no sign change between the ends
    NOT_CONVERGED  the iteration limit was reached first
    FAILED         the function returned NaN
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy import optimize

from isonomy.errors import choose
from isonomy.numerics.arrays import FloatArray, IntArray
from isonomy.numerics.newton import EXPANSIONS, Search, Values, floor
from isonomy.numerics.status import Status

Direction = Literal["increasing", "decreasing"]

# brentq refuses a relative tolerance below four units in the last place.
FINEST = 4 * float(np.finfo(float).eps)


class _Missing(Exception):
    """The function returned NaN inside the bracket."""


@dataclass(frozen=True, slots=True)
class Root:
    """One root. ``x`` is the best point known whatever the status (NaN when nothing could be evaluated)."""

    x: float
    status: Status
    iterations: int


@dataclass(frozen=True, slots=True, eq=False)
class Roots:
    """Many roots: ``x``, ``status`` (an object array of `Status`) and ``iterations``, one each per problem."""

    x: FloatArray
    status: npt.NDArray[np.object_]
    iterations: IntArray

    @property
    def ok(self) -> npt.NDArray[np.bool_]:
        """Which problems were solved."""
        return np.asarray(self.status == Status.OK, dtype=bool)


def root(
    function: Callable[[float], float],
    low: float,
    high: float,
    *,
    rtol: float = FINEST,
    atol: float | None = None,
    maxiter: int = 200,
) -> Root:
    """Where does ``function`` cross zero between ``low`` and ``high``?

    Brent's method. An infinite end is replaced by a finite one found by going four times as far at each step.
    Infinite function values are allowed at the ends: only their sign is used. ``rtol`` and ``atol`` are as in `roots`.

    Examples
    --------
    >>> root(lambda x: x * x - 2, 0, 2).x
    1.414213562373095
    >>> root(lambda x: x * x + 1, 0, 2).status
    <Status.INFEASIBLE: 'infeasible'>
    """
    low, high = float(low), float(high)
    if not low <= high:
        return Root(float("nan"), Status.INFEASIBLE, 0)
    centre = high if np.isfinite(high) else low if np.isfinite(low) else 0.0
    reach = max(1.0, abs(centre))
    a = low if np.isfinite(low) else centre - reach
    b = high if np.isfinite(high) else centre + reach
    at_a, at_b = float(function(a)), float(function(b))
    for _ in range(EXPANSIONS):
        if (np.isfinite(low) and np.isfinite(high)) or not np.sign(at_a) * np.sign(at_b) > 0:
            break
        reach *= 4.0
        if not np.isfinite(low):
            at_a = float(function(a := centre - reach))
        if not np.isfinite(high):
            at_b = float(function(b := centre + reach))
    if np.isnan(at_a) or np.isnan(at_b):
        return Root(float("nan"), Status.FAILED, 0)
    if at_a == 0 or at_b == 0:
        return Root(a if at_a == 0 else b, Status.OK, 0)
    if np.sign(at_a) == np.sign(at_b):
        return Root(a if abs(at_a) < abs(at_b) else b, Status.INFEASIBLE, 0)

    def checked(t: float) -> float:
        value = float(function(t))
        if np.isnan(value):
            raise _Missing  # brentq would raise ValueError, which the function itself may raise too
        return value

    least = max(float(floor(np.array(a), np.array(b), rtol)) if atol is None else atol, 1e-300)
    rtol = max(rtol, FINEST)
    try:
        x, report = optimize.brentq(checked, a, b, xtol=least, rtol=rtol, maxiter=maxiter, full_output=True, disp=False)
    except _Missing:
        return Root(float("nan"), Status.FAILED, 0)
    return Root(float(x), Status.OK if report.converged else Status.NOT_CONVERGED, int(report.iterations))


def roots(
    function: Values,
    low: npt.ArrayLike,
    high: npt.ArrayLike,
    *,
    x0: npt.ArrayLike | None = None,
    direction: Direction | None = None,
    rtol: float = 1e-13,
    atol: npt.ArrayLike | None = None,
    maxiter: int = 200,
) -> Roots:
    """Where does each of many functions cross zero between its own two ends?

    Safeguarded Newton: a Newton step is taken when it stays inside the bracket and is at most half the step
    before it, a bisection otherwise, so the worst case is bisection and the usual case is quadratic.

    Parameters
    ----------
    function
        ``function(x, index) -> (value, derivative)`` for the problems ``index`` (integers into ``low``), called
        only for those still being solved. A derivative that is 0 or NaN is answered by a bisection.
    low, high
        Ends of the brackets, one per problem or one for all; the longest of ``low``, ``high`` and ``x0`` says how
        many problems there are. Infinite ends are replaced by finite ones found by
        expansion from the other end, or from ``x0``.
    x0
        Starting points; the middle of the bracket when outside it or not given.
    direction
        ``"increasing"`` or ``"decreasing"`` if every function is known to be monotone. Then finite ends are never
        evaluated, so they may be poles, and two evaluations are saved.
    rtol, atol
        A problem ends when its step is below ``rtol * abs(x) + atol``. By default ``atol`` is 0, except where the
        bracket straddles 0: there it is ``rtol / 100`` times the nearer end, because rounding in the function
        leaves a root at 0 without any relative accuracy.

    Examples
    --------
    >>> c = np.array([2.0, 3.0, -1.0])
    >>> found = roots(lambda x, i: (x * x - c[i], 2 * x), 0.0, np.full(3, 10.0))
    >>> found.x[:2]
    array([1.41421356, 1.73205081])
    >>> [str(s) for s in found.status]
    ['ok', 'ok', 'infeasible']
    """
    if direction is not None:
        choose("direction", direction, ("increasing", "decreasing"))
    a, b, start = (
        np.array(v, dtype=float, ndmin=1) for v in np.broadcast_arrays(low, high, np.nan if x0 is None else x0)
    )
    known = {None: 0.0, "increasing": 1.0, "decreasing": -1.0}[direction]
    search = Search(function, a, b, start, known)
    search.bracket()
    least = floor(search.a, search.b, rtol) if atol is None else np.asarray(atol, dtype=float)
    search.solve(rtol, np.broadcast_to(least, a.shape), maxiter)
    return Roots(search.x, search.status, search.iterations)
