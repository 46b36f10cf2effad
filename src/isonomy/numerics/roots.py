"""Where does a function cross zero? One bracketed problem, or very many monotone ones at once.

Nothing here raises because a problem has no root: the answer carries a `Status`, so that one odd group among a thousand
is reported as odd and the others are still solved.

    OK             a sign change was found and narrowed to the tolerance
    INFEASIBLE     no sign change between the ends
    NOT_CONVERGED  the iteration limit was reached first
    FAILED         the function returned NaN

`scipy.optimize.elementwise.find_root` uses no derivatives: it needs 11 evaluations where `roots` needs 7, and takes two
to three times as long for 5 to 20,000 problems (x exp(x) = c to 1e-13).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import optimize

from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray, ObjectArray
from isonomy.numerics.status import Status

Values = Callable[[FloatArray, IntArray], tuple[FloatArray, FloatArray]]
Direction = Literal["increasing", "decreasing"]

# Each expansion of an open end goes four times as far as the last: 1e36 after 60.
EXPANSIONS = 60
# How often the first step of an outward search is doubled.
DOUBLINGS = 40
# A step within this many tolerances may stop shrinking: that is rounding in the function, not a step gone wrong.
NEAR = 1e4
# A bracket on both sides of 0 has an absolute tolerance too: this share of ``rtol`` times the nearer end.
NEARER_END = 0.01
# brentq refuses a relative tolerance below four units in the last place.
FINEST = 4 * float(np.finfo(float).eps)


class _Missing(Exception):
    """The function returned NaN inside the bracket."""


class Root(NamedTuple):
    """One root. ``x`` is the best point known whatever the status (NaN when nothing could be evaluated)."""

    x: float
    status: Status


class Roots(NamedTuple):
    """Many roots: ``x``, ``status`` (an object array of `Status`), and which problems were solved."""

    x: FloatArray
    status: ObjectArray
    ok: BoolArray


def root(
    function: Callable[[float], float], low: float, high: float, *, rtol: float = FINEST, maxiter: int = 200
) -> Root:
    """Where does ``function`` cross zero between ``low`` and ``high``?

    Brent's method. An infinite end is replaced by a finite one, found by going four times as far at each step.
    Function values at the ends may be infinite: only their sign is used. ``rtol`` is as in `roots`.
    """
    low, high = float(low), float(high)
    if not low <= high:
        return Root(float("nan"), Status.INFEASIBLE)
    center = high if np.isfinite(high) else low if np.isfinite(low) else 0.0
    reach = max(1.0, abs(center))
    a = low if np.isfinite(low) else center - reach
    b = high if np.isfinite(high) else center + reach
    at_a, at_b = float(function(a)), float(function(b))
    for _ in range(EXPANSIONS):
        if (np.isfinite(low) and np.isfinite(high)) or not np.sign(at_a) * np.sign(at_b) > 0:
            break
        reach *= 4.0
        if not np.isfinite(low):
            at_a = float(function(a := center - reach))
        if not np.isfinite(high):
            at_b = float(function(b := center + reach))
    if np.isnan(at_a) or np.isnan(at_b):
        return Root(float("nan"), Status.FAILED)
    if at_a == 0 or at_b == 0:
        return Root(a if at_a == 0 else b, Status.OK)
    if np.sign(at_a) == np.sign(at_b):
        return Root(a if abs(at_a) < abs(at_b) else b, Status.INFEASIBLE)

    def checked(t: float) -> float:
        value = float(function(t))
        if np.isnan(value):
            raise _Missing  # brentq would raise ValueError, which the function itself may raise too
        return value

    least = max(float(_absolute_tolerance(a, b, rtol)), 1e-300)
    rtol = max(rtol, FINEST)
    try:
        x, report = optimize.brentq(checked, a, b, xtol=least, rtol=rtol, maxiter=maxiter, full_output=True, disp=False)
    except _Missing:
        return Root(float("nan"), Status.FAILED)
    return Root(float(x), Status.OK if report.converged else Status.NOT_CONVERGED)


def roots(
    function: Values,
    low: npt.ArrayLike,
    high: npt.ArrayLike,
    *,
    direction: Direction,
    x0: npt.ArrayLike | None = None,
    rtol: float = 1e-13,
    maxiter: int = 200,
) -> Roots:
    """Where does each of many monotone functions cross zero between its own two ends?

    Safeguarded Newton: a Newton step is taken when it stays inside the bracket and is at most half the step before it,
    a bisection otherwise, so the worst case is bisection and the usual case is quadratic. Finite ends are evaluated
    only if a problem runs into one, so they may be poles.

    ``function(x, index)`` returns (value, derivative) for the problems ``index`` (integers into ``low``); it is called
    only for those still being solved, and a derivative that is 0 or NaN leads to a bisection. The longest of ``low``,
    ``high`` and ``x0`` sets the number of problems. Infinite ends are replaced by finite ones, found by expansion from
    the other end or ``x0``, the starting points (the middle of the bracket when outside it or not given). A problem
    ends when its step is below ``rtol * abs(x)``; where the bracket straddles 0, below ``rtol / 100`` times the nearer
    end more, because rounding in the function leaves a root at 0 without any relative accuracy.
    """
    ends = np.broadcast_arrays(*map(np.atleast_1d, (low, high, np.nan if x0 is None else x0)))
    a, b, x = map(partial(np.array, dtype=float), ends)
    sign = 1.0 if direction == "increasing" else -1.0

    def evaluate(points: FloatArray, index: IntArray) -> tuple[FloatArray, FloatArray]:
        """Values and derivatives of increasing functions."""
        with np.errstate(all="ignore"):  # poles and overflow are handled by their sign
            value, slope = function(points, index)
        return sign * np.asarray(value, dtype=float), sign * np.asarray(slope, dtype=float)

    status = np.empty(a.shape, dtype=object)  # not `np.full`, which would store plain text
    status[:] = Status.NOT_CONVERGED
    status[~(a <= b)] = Status.INFEASIBLE
    limits = a.copy(), b.copy()
    _close(evaluate, a, b, x, status)
    active = np.flatnonzero(status == Status.NOT_CONVERGED)
    inside = (x > a) & (x < b)
    x[active] = np.where(inside, x, _middle(a, b))[active]
    previous, absolute = b - a, _absolute_tolerance(a, b, rtol)
    for _ in range(maxiter):
        if active.size == 0:
            break
        here = x[active]
        value, slope = evaluate(here, active)
        a[active], b[active] = np.where(value > 0, a[active], here), np.where(value > 0, here, b[active])
        tolerance = rtol * np.abs(here) + absolute[active]
        left, right = a[active], b[active]
        with np.errstate(all="ignore"):
            step = -value / slope
            target = here + step
            # Rounding may put a converged step on the end itself, hence the weak inequalities.
            good = (target >= left) & (target <= right) & (np.abs(step) <= 0.5 * previous[active])
            # A bisection here, of a bracket that is still wide, would lose the place; going on narrows it from both
            # sides. Strictly inside only: two points must not be visited in turn forever.
            near = (target > left) & (target < right) & (np.abs(step) <= NEAR * tolerance)
        target = np.where(good | near, target, _middle(left, right))
        exact, missing = value == 0, np.isnan(value)
        previous[active] = np.abs(target - here)
        close = (previous[active] <= tolerance) & ~exact & ~missing
        x[active] = np.where(exact | missing, here, target)
        status[active[close | exact]], status[active[missing]] = Status.OK, Status.FAILED
        # A function without a root runs into an end that was never evaluated: look there.
        for end, limit, side in ((a, limits[0], -1.0), (b, limits[1], 1.0)):
            at_end = (end[active] == limit[active]) & (np.abs(x[active] - limit[active]) <= 2 * tolerance)
            if (suspect := active[close & at_end]).size:
                wrong = ~(side * evaluate(limit[suspect], suspect)[0] >= 0)
                status[suspect[wrong]] = Status.INFEASIBLE
        active = active[~(close | exact | missing)]
    return Roots(x, status, np.asarray(status == Status.OK, dtype=bool))


def _close(evaluate: Values, a: FloatArray, b: FloatArray, x: FloatArray, status: ObjectArray) -> None:
    """Replace the infinite ends of brackets, in place, by finite ones with a root between them."""
    open_a, open_b = np.isinf(a), np.isinf(b)
    center = np.where(open_a, np.where(open_b, np.nan_to_num(x), b), a)
    reach = np.maximum(1.0, np.abs(center))
    solvable = status == Status.NOT_CONVERGED
    for end, opened, side in ((a, open_a, -1.0), (b, open_b, 1.0)):
        index, far = np.flatnonzero(opened & solvable), reach.copy()
        value = np.empty(0)
        for _ in range(EXPANSIONS + 1):
            if index.size == 0:
                break
            end[index] = center[index] + side * far[index]
            value = side * evaluate(end[index], index)[0]
            status[index[np.isnan(value)]] = Status.FAILED
            x[index[np.isnan(value)]] = np.nan
            x[index[value == 0]], status[index[value == 0]] = end[index[value == 0]], Status.OK
            index = index[value < 0]
            far[index] *= 4.0
        status[index], x[index] = Status.INFEASIBLE, end[index]
        end[opened & ~solvable] = (center + side * reach)[opened & ~solvable]


def outward(gap: Callable[[float], float], step: float, farthest: float = np.inf, *, rtol: float) -> float:
    """The root of an increasing ``gap`` that is below 0 at 0, bracketed by steps that double, starting with ``step``.

    Infinite if there is none up to ``farthest``; NaN if the function is, or if its root is not found.
    """
    inner = 0.0
    for _ in range(DOUBLINGS):
        value = gap(step)
        if np.isnan(value):
            return np.nan
        if value >= 0:
            solution = root(gap, inner, step, rtol=rtol)
            return solution.x if solution.status is Status.OK else np.nan
        if step > farthest:
            break
        inner, step = step, 2.0 * step
    return np.inf


def bisection(
    short: Callable[[FloatArray], BoolArray], near: FloatArray, far: FloatArray, halvings: int = 60
) -> FloatArray:
    """The first points from ``near`` to ``far`` that do not fall ``short``; ``far`` if all do."""
    for _ in range(halvings):
        halfway = (near + far) / 2.0
        before = short(halfway)
        near, far = np.where(before, halfway, near), np.where(before, far, halfway)
    return far


def _absolute_tolerance(a: npt.ArrayLike, b: npt.ArrayLike, rtol: float) -> FloatArray:
    """Above 0 only if the bracket has 0 inside."""
    return NEARER_END * rtol * np.maximum(np.minimum(np.negative(a), b), 0.0)


def _middle(a: FloatArray, b: FloatArray) -> FloatArray:
    """The midpoint, or the geometric mean when the ends have one sign and differ by orders of magnitude."""
    with np.errstate(all="ignore"):
        wide = (np.sign(a) * np.sign(b) > 0) & (
            np.maximum(np.abs(a), np.abs(b)) > 100 * np.minimum(np.abs(a), np.abs(b))
        )
        return np.where(wide, np.sign(a) * np.sqrt(np.abs(a)) * np.sqrt(np.abs(b)), a + 0.5 * (b - a))
