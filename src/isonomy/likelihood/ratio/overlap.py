"""A group and a reference that share some rows and not others, or a reference that is an estimate of the caller's.

The general case has no one-parameter curve, so each group is a small joint likelihood (`joint`) with two estimating
functions, the group's and the reference's, and the reference profiled.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from isonomy.likelihood.ratio.joint import Functions, Patterns
from isonomy.numerics.arrays import FloatArray
from isonomy.numerics.roots import root
from isonomy.numerics.status import Status

# Doublings of the step with which an interval's end is bracketed, from one standard error on.
DOUBLINGS = 40


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    """One group and its reference: which patterns are in the group, and in the reference (a named group) or, with
    ``estimate``, the caller's value whose influence values are the second column."""

    data: Patterns
    in_group: FloatArray
    in_reference: FloatArray
    estimate: float | None = None

    @property
    def means(self) -> tuple[float, float]:
        """The group's mean and the reference."""
        n, first = self.data.n, self.data.first[0]
        mean = float(self.in_group @ first / (self.in_group @ n))
        if self.estimate is not None:
            return mean, self.estimate
        return mean, float(self.in_reference @ first / (self.in_reference @ n))

    @property
    def reach(self) -> float:
        """No disparity can be further than this from the estimate: the metric's whole range."""
        values = self.data.columns[0]
        if self.estimate is not None:
            return float(np.ptp(values) + np.ptp(self.data.columns[1]))
        return 2.0 * float(np.ptp(values))

    @property
    def standard_error(self) -> float:
        """From the influence function 1_G (M - mean) n/n_G less that of the reference, each over n."""
        mean, reference = self.means
        second = self.data.moments(self.functions(mean - reference), np.array([reference]))[1]
        other = self.data.total if self.estimate is not None else float(self.in_reference @ self.data.n)
        parts = np.array([1.0 / float(self.in_group @ self.data.n), -1.0 / other])
        return float(np.sqrt(parts @ second @ parts))

    def functions(self, disparity: float) -> Functions:
        """1_G (M - θ - ε) and the reference's own equation."""
        zero = np.zeros_like(self.in_group)
        slope = np.zeros((zero.size, 2, self.data.columns.shape[0]))
        slope[:, 0, 0] = self.in_group
        if self.estimate is None:
            slope[:, 1, 0] = self.in_reference
            nuisance, fixed = np.stack([self.in_group, self.in_reference], axis=1), zero
        else:
            slope[:, 1, 1] = 1.0
            nuisance, fixed = np.stack([self.in_group, zero + 1.0], axis=1), zero - self.estimate
        return Functions(slope, nuisance[:, :, None], np.stack([self.in_group * disparity, fixed], axis=1))


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
        return np.array([pair.means[0] - pair.means[1] for pair in self.pairs])

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
        mean, reference = pair.means
        if disparity == mean - reference:
            return 0.0
        functions, start = pair.functions(disparity), np.array([reference])
        if self.method == "el":
            joint = pair.data.likelihood(functions, start)
        else:
            joint = pair.data.euclidean(functions, start, self.rows)
        return np.nan if joint.status is Status.NOT_CONVERGED else joint.statistic

    def _end(self, pair: Pair, level: float, sign: float) -> float:
        """Step out until T exceeds the level, then close in; NaN if T is not known on the way."""
        mean, reference = pair.means
        error, wanted = pair.standard_error, np.sqrt(level)
        inner, step = 0.0, 1.2 * max(wanted, 1e-3)

        def gap(x: float) -> float:
            return float(np.sqrt(self._at(pair, mean - reference + sign * x * error))) - wanted

        for _ in range(DOUBLINGS):
            outer = gap(step)
            if np.isnan(outer):
                return np.nan
            if outer >= 0:
                solution = root(gap, inner, step, rtol=1e-12)
                return mean - reference + sign * solution.x * error if solution.status is Status.OK else np.nan
            if step * error > pair.reach:
                break
            inner, step = step, 2.0 * step
        return sign * np.inf
