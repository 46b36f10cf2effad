"""Safeguarded Newton for many bracketed problems at once: the moving parts of `numerics.roots.roots`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from isonomy.numerics.arrays import FloatArray, IntArray
from isonomy.numerics.status import Status

Values = Callable[[FloatArray, IntArray], tuple[FloatArray, FloatArray]]

# Each expansion of an open end goes four times as far as the last: 1e36 after 60.
EXPANSIONS = 60
# A step within this many tolerances may stop shrinking: that is rounding in the function, not a step gone wrong.
NEAR = 1e4


class Search:
    """Brackets, orientation, current points and how each problem stands."""

    def __init__(self, function: Values, a: FloatArray, b: FloatArray, x0: FloatArray, known: float) -> None:
        self.function, self.a, self.b, self.x, self.known = function, a, b, x0, known
        self.low, self.high = a.copy(), b.copy()
        self.up = np.full(a.shape, known)  # +1: negative at a, positive at b; -1: the other way round
        self.status = np.empty(a.shape, dtype=object)
        self.finish(np.arange(a.size), Status.NOT_CONVERGED)
        self.iterations = np.zeros(a.shape, dtype=np.intp)

    def evaluate(self, x: FloatArray, index: IntArray) -> tuple[FloatArray, FloatArray]:
        """Values and derivatives of the problems ``index``; none are asked for when there are none."""
        if index.size == 0:
            return np.empty(0), np.empty(0)
        with np.errstate(all="ignore"):  # poles and overflow are handled by their sign
            value, slope = self.function(x, index)
        return np.asarray(value, dtype=float), np.asarray(slope, dtype=float)

    def finish(self, index: IntArray, status: Status, x: FloatArray | None = None) -> None:
        """Record how the problems ``index`` ended, and where."""
        self.status[index] = status
        if x is not None:
            self.x[index] = x

    def bracket(self) -> None:
        """Make both ends finite and find which way each function crosses."""
        self.finish(np.flatnonzero(~(self.a <= self.b)), Status.INFEASIBLE)
        index = np.flatnonzero(self.a <= self.b)
        open_a, open_b = np.isinf(self.a), np.isinf(self.b)
        centre = np.where(open_a, np.where(open_b, np.nan_to_num(self.x), self.b), self.a)
        reach = np.maximum(1.0, np.abs(centre))
        self.a[open_a], self.b[open_b] = (centre - reach)[open_a], (centre + reach)[open_b]
        # A known direction gives the sign at finite ends without evaluating there.
        at_a, at_b = np.full(self.a.shape, -self.known), np.full(self.a.shape, self.known)
        pending_a = index if not self.known else index[open_a[index]]
        pending_b = index if not self.known else index[open_b[index]]
        for _ in range(EXPANSIONS + 1):
            at_a[pending_a] = self.evaluate(self.a[pending_a], pending_a)[0]
            at_b[pending_b] = self.evaluate(self.b[pending_b], pending_b)[0]
            same = (np.sign(at_a) * np.sign(at_b) > 0)[index]
            again = index[same & (open_a | open_b)[index]]
            if again.size == 0:
                break
            pending_a, pending_b = again[open_a[again]], again[open_b[again]]
            reach[again] *= 4.0
            self.a[pending_a] = (centre - reach)[pending_a]
            self.b[pending_b] = (centre + reach)[pending_b]
        self._orient(index, at_a[index], at_b[index])

    def _orient(self, index: IntArray, at_a: FloatArray, at_b: FloatArray) -> None:
        self.up[index] = np.sign(at_b)
        missing = np.isnan(at_a) | np.isnan(at_b)
        wrong = (np.sign(at_a) == np.sign(at_b)) | (self.known * np.sign(at_b) < 0)
        nearer = np.where(np.abs(at_a) < np.abs(at_b), self.a[index], self.b[index])
        self.finish(index[wrong], Status.INFEASIBLE, nearer[wrong])
        zero_a, zero_b = at_a == 0, at_b == 0
        self.finish(index[zero_a], Status.OK, self.a[index[zero_a]])
        self.finish(index[zero_b], Status.OK, self.b[index[zero_b]])
        self.finish(index[missing], Status.FAILED, np.full(int(missing.sum()), np.nan))

    def solve(self, rtol: float, atol: FloatArray, maxiter: int) -> None:
        """Newton inside the brackets until every problem has ended."""
        active = np.flatnonzero(self.status == Status.NOT_CONVERGED)
        inside = (self.x > self.a) & (self.x < self.b)
        self.x[active] = np.where(inside, self.x, middle(self.a, self.b))[active]
        previous = self.b - self.a
        for _ in range(maxiter):
            if active.size == 0:
                return
            self.iterations[active] += 1
            x = self.x[active]
            value, slope = self.evaluate(x, active)
            above = value * self.up[active] > 0
            self.b[active] = np.where(above, x, self.b[active])
            self.a[active] = np.where(above, self.a[active], x)
            a, b = self.a[active], self.b[active]
            tolerance = rtol * np.abs(x) + atol[active]
            target = propose(x, value, slope, a, b, previous[active], tolerance)
            step = np.abs(target - x)
            exact, missing = value == 0, np.isnan(value)
            close = (step <= tolerance) & ~exact & ~missing
            previous[active] = step
            self.x[active] = np.where(exact | missing, x, target)
            self.finish(active[close | exact], Status.OK)
            self.finish(active[missing], Status.FAILED)
            if self.known:
                self._at_ends(active[close], tolerance[close])
            active = active[~(close | exact | missing)]

    def _at_ends(self, index: IntArray, tolerance: FloatArray) -> None:
        """A monotone function without a root runs into an end that was never evaluated: look there."""
        for end, bound, sign in ((self.a, self.low, -self.known), (self.b, self.high, self.known)):
            near = (end[index] == bound[index]) & (np.abs(self.x[index] - bound[index]) <= 2 * tolerance)
            suspect = index[near]
            value = self.evaluate(bound[suspect], suspect)[0]
            self.finish(suspect[~(value * sign >= 0)], Status.INFEASIBLE)


def propose(
    x: FloatArray,
    value: FloatArray,
    slope: FloatArray,
    a: FloatArray,
    b: FloatArray,
    previous: FloatArray,
    tolerance: FloatArray,
) -> FloatArray:
    """The next points: by Newton where that stays inside and halves the step, otherwise by bisection."""
    with np.errstate(all="ignore"):
        step = -value / slope
        target = x + step
        # Rounding may put a converged step on the end itself, hence the weak inequalities.
        good = (target >= a) & (target <= b) & (np.abs(step) <= 0.5 * previous)
        # A bisection here, of a bracket that is still wide, would lose the place; going on narrows it from both
        # sides. Strictly inside only: two points must not be visited in turn for ever.
        near = (target > a) & (target < b) & (np.abs(step) <= NEAR * tolerance)
    return np.where(good | near, target, middle(a, b))


def floor(a: FloatArray, b: FloatArray, rtol: float) -> FloatArray:
    """The absolute tolerance where none was given: above 0 only where the bracket straddles 0."""
    nearer = np.minimum(np.abs(a), np.abs(b))
    return np.where((a < 0) & (b > 0), 0.01 * rtol * nearer, 0.0)


def middle(a: FloatArray, b: FloatArray) -> FloatArray:
    """The midpoint, or the geometric mean when the ends have one sign and differ by orders of magnitude."""
    with np.errstate(all="ignore"):
        wide = (np.sign(a) * np.sign(b) > 0) & (
            np.maximum(np.abs(a), np.abs(b)) > 100 * np.minimum(np.abs(a), np.abs(b))
        )
        return np.where(wide, np.sign(a) * np.sqrt(np.abs(a)) * np.sqrt(np.abs(b)), a + 0.5 * (b - a))
