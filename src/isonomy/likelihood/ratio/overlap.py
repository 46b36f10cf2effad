"""A group and a reference that share some rows and not others, or a reference that is an estimate of the caller's.

The general case has no one-parameter curve, so each group is a small joint likelihood (`joint`) with two estimating
functions, the group's and the reference's, and the reference profiled.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import optimize

from isonomy.likelihood.ratio.joint import Functions, Joint, Patterns
from isonomy.likelihood.ratio.links import IDENTITY, LOGIT, Link
from isonomy.numerics.arrays import FloatArray
from isonomy.numerics.roots import root
from isonomy.numerics.status import Status

# Doublings of the step with which an interval's end is bracketed, from one standard error on.
DOUBLINGS = 40


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    """One group and its reference: which patterns are in the group, and in the reference (a named group) or, with
    ``estimate``, the caller's value whose influence values are the second column.

    Disparities are those of the ``link``; on the scale of ratios the data's origin is ``centre`` below their zero."""

    data: Patterns
    in_group: FloatArray
    in_reference: FloatArray
    estimate: float | None = None
    link: Link = IDENTITY
    centre: float = 0.0

    @property
    def means(self) -> tuple[float, float]:
        """The group's mean and the reference."""
        n, first = self.data.n, self.data.first[0]
        mean = float(self.in_group @ first / (self.in_group @ n))
        if self.estimate is not None:
            return mean, self.estimate
        return mean, float(self.in_reference @ first / (self.in_reference @ n))

    @property
    def disparity(self) -> float:
        """The estimated disparity."""
        mean, reference = self.means
        with np.errstate(divide="ignore", invalid="ignore"):
            mine, theirs = self.link.forward(np.array([mean, reference]) + self.centre)
            return float(mine - theirs)

    @property
    def reach(self) -> float:
        """No disparity can be further than this from the estimate: the metric's whole range."""
        if self.link is not IDENTITY:
            return np.inf
        values = self.data.columns[0]
        if self.estimate is not None:
            return float(np.ptp(values) + np.ptp(self.data.columns[1]))
        return 2.0 * float(np.ptp(values))

    @property
    def standard_error(self) -> float:
        """From the influence function 1_G (M - mean) n/n_G less that of the reference, each over n."""
        mean, reference = self.means
        second = self.data.moments(self.functions(self.disparity, reference), np.empty(0))[1]
        other = self.data.total if self.estimate is not None else float(self.in_reference @ self.data.n)
        with np.errstate(divide="ignore", invalid="ignore"):
            mine, theirs = self.link.unit(np.array([mean, reference]) + self.centre)
            parts = np.array([1.0 / float(self.in_group @ self.data.n) / mine, -1.0 / other / theirs])
            return float(np.sqrt(parts @ second @ parts))

    def start(self, disparity: float) -> FloatArray:
        """Where the profiled reference is looked for first."""
        return np.array([self.means[1]])

    def functions(self, disparity: float, theta: float | None = None) -> Functions:
        """1_G (M - θ - ε), or 1_G (M - r θ), and the reference's own equation; θ is unknown, or ``theta``."""
        zero = np.zeros_like(self.in_group)
        slope = np.zeros((zero.size, 2, self.data.columns.shape[0]))
        slope[:, 0, 0] = self.in_group
        if self.estimate is None:
            slope[:, 1, 0] = self.in_reference
            whole, fixed = self.in_reference, zero
        else:
            slope[:, 1, 1] = 1.0
            whole, fixed = zero + 1.0, zero - self.estimate
        if theta is not None:
            mean = float(self.link.moved(theta + self.centre, disparity)) - self.centre
            known = np.stack([self.in_group * mean, whole * theta + fixed], axis=1)
            return Functions(slope, np.zeros((zero.size, 2, 0)), known)
        times = 1.0 if self.link is IDENTITY else float(np.exp(disparity))
        more = disparity if self.link is IDENTITY else (times - 1.0) * self.centre
        nuisance = np.stack([self.in_group * times, whole], axis=1)[:, :, None]
        return Functions(slope, nuisance, np.stack([self.in_group * more, fixed], axis=1))


@dataclass(frozen=True, slots=True, eq=False)
class Overlapping:
    """The likelihood of each pair's disparity; ``method`` is "el" or "eel".

    ``rows`` is n of the Euclidean likelihood, which is centred over all rows of the audit; None: those of the pair.
    """

    pairs: tuple[Pair, ...]
    method: str
    rows: float | None = None

    @property
    def disparity(self) -> FloatArray:
        """The estimated disparities."""
        return np.array([pair.disparity for pair in self.pairs])

    @property
    def standard_error(self) -> FloatArray:
        """The large-sample standard error of each disparity."""
        return np.array([pair.standard_error for pair in self.pairs])

    def statistic(self, disparity: npt.ArrayLike) -> FloatArray:
        """T for the hypothesis that each disparity is ``disparity``."""
        target = np.broadcast_to(np.asarray(disparity, dtype=float), (len(self.pairs),))
        return np.array([self._at(pair, float(e)) for pair, e in zip(self.pairs, target, strict=True)])

    def interval(self, critical: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
        """The disparities with T at most ``critical``."""
        level = np.broadcast_to(np.asarray(critical, dtype=float), (len(self.pairs),))
        low = [self._end(pair, float(c), -1.0) for pair, c in zip(self.pairs, level, strict=True)]
        high = [self._end(pair, float(c), 1.0) for pair, c in zip(self.pairs, level, strict=True)]
        return np.array(low), np.array(high)

    def _at(self, pair: Pair, disparity: float) -> float:
        """T, or NaN where the solver did not converge."""
        if disparity == pair.disparity:
            return 0.0
        if pair.link is not LOGIT:
            joint = self._solved(pair, pair.functions(disparity), pair.start(disparity))
            return np.nan if joint.status is Status.NOT_CONVERGED else joint.statistic

        def known(theta: float) -> float:  # odds are not linear in θ: it is searched for
            return self._solved(pair, pair.functions(disparity, theta), np.empty(0)).statistic

        start, near = pair.means[1], float(pair.link.moved(pair.means[0], -disparity))
        ends = (min(start, near), max(start, near))
        return float(optimize.minimize_scalar(known, bounds=ends, method="bounded", options={"xatol": 1e-11}).fun)

    def _solved(self, pair: Pair, functions: Functions, start: FloatArray) -> Joint:
        if self.method == "el":
            return pair.data.likelihood(functions, start)
        return pair.data.euclidean(functions, start, self.rows)

    def _end(self, pair: Pair, level: float, sign: float) -> float:
        """Step out until T exceeds the level, then close in; NaN if T is not known on the way."""
        estimate, error, wanted = pair.disparity, pair.standard_error, np.sqrt(level)
        inner, step = 0.0, 1.2 * max(wanted, 1e-3)

        def gap(x: float) -> float:
            return float(np.sqrt(self._at(pair, estimate + sign * x * error))) - wanted

        if not np.isfinite(estimate):  # no case on one side
            return np.nan

        for _ in range(DOUBLINGS):
            outer = gap(step)
            if np.isnan(outer):
                return np.nan
            if outer >= 0:
                solution = root(gap, inner, step, rtol=1e-12)
                return estimate + sign * solution.x * error if solution.status is Status.OK else np.nan
            if step * error > pair.reach:
                break
            inner, step = step, 2.0 * step
        return sign * np.inf
