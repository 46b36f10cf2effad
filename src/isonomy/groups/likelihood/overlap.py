"""A group and a reference that share some rows and not others, or a reference that is an estimate of the caller's.

The general case has no one-parameter curve, so each group is a small joint likelihood (`joint`) with two estimating
functions, the group's and the reference's, and the reference profiled.

Standardised differences: (μ - θ)/σ, with the errors of the group's mean, of the reference and of σ all counted.

At the disparity d the group's mean is ρ = θ + d σ. σ is an estimate with influence values ψ, and the estimating
functions are 1_G (x - ρ) and 1_R (x - ρ + d σ) + d P(R) ψ, with ρ profiled: a small joint likelihood (`overlap`). At
d = 0 nothing is left of σ, and T is that of the difference.

σ is the root of a mean of squares about a mean, and ψ = ((x - m)² - σ²) / 2σ: the error of m does not matter, as a mean
of squares is least there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy import optimize

from isonomy.groups.likelihood.joint import Functions, Joint, Patterns
from isonomy.groups.likelihood.links import IDENTITY, LOGIT, Link
from isonomy.numerics.arrays import BoolArray, FloatArray
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


# Whose standard deviation is the unit: of all rows, of the group and its reference about their own means, of the
# reference.
Sigma = Literal["population", "pooled", "reference"]


@dataclass(frozen=True, slots=True, eq=False)
class Contrast:
    """A group's rows, and those of its reference (or the number it is); ``unit`` are those behind σ, where it is the
    reference's."""

    own: BoolArray
    referents: BoolArray | float
    unit: BoolArray | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """The estimates of one contrast, and the influence of each row on them, in units of one over all rows."""

    mean: float
    reference: float
    sigma: float
    on_mean: FloatArray
    on_reference: FloatArray
    on_sigma: FloatArray

    @property
    def disparity(self) -> float:
        """The standardised difference; NaN where nothing varies."""
        with np.errstate(all="ignore"):
            return float(np.divide(self.mean - self.reference, self.sigma)) if self.sigma > 0 else np.nan

    @property
    def influence(self) -> FloatArray:
        """What each row adds to the standardised difference."""
        with np.errstate(all="ignore"):
            return (self.on_mean - self.on_reference - self.disparity * self.on_sigma) / self.sigma


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """All rows: their ``value`` and ``mass``; and whose standard deviation is the unit."""

    value: FloatArray
    mass: FloatArray
    sigma: Sigma

    def fit(self, contrast: Contrast) -> Fit:
        """The estimates of a contrast with their influence values."""
        mean, on_mean = self._average(self.value, contrast.own)
        if isinstance(contrast.referents, float):
            reference, on_reference = contrast.referents, np.zeros(self.value.size)
        else:
            reference, on_reference = self._average(self.value, contrast.referents)
        square, on_square = self._square(contrast, mean, reference)
        sigma = float(np.sqrt(square))
        with np.errstate(all="ignore"):
            return Fit(mean, reference, sigma, on_mean, on_reference, on_square / (2.0 * sigma))

    def _square(self, contrast: Contrast, mean: float, reference: float) -> tuple[float, FloatArray]:
        """σ² and what each row adds to it."""
        if self.sigma != "pooled":
            rows = np.ones(self.value.size, dtype=bool) if contrast.unit is None else contrast.unit
            centre, _ = self._average(self.value, rows)
            return self._average((self.value - centre) ** 2, rows)
        assert not isinstance(contrast.referents, float)
        sides = [(contrast.own, mean), (contrast.referents, reference)]
        parts = [self._average((self.value - centre) ** 2, rows) for rows, centre in sides]
        masses = [float(self.mass[rows].sum()) for rows, _ in sides]
        # A row on both sides counts twice.
        squares = sum(mass * square for mass, (square, _) in zip(masses, parts, strict=True)) / sum(masses)
        shares = np.array([self.mass.sum() / sum(masses) * rows for rows, _ in sides])
        away = np.array([(self.value - centre) ** 2 - squares for _, centre in sides])
        return float(squares), (shares * away).sum(axis=0)

    def _average(self, values: FloatArray, rows: BoolArray) -> tuple[float, FloatArray]:
        """A mean over some rows, and what each of all rows adds to it."""
        mass = self.mass[rows]
        total = float(mass.sum())
        if not total > 0:
            return np.nan, np.zeros(values.size)
        mean = float(mass @ values[rows] / total)
        return mean, np.where(rows, (values - mean) * (self.mass.sum() / total), 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class EffectPair(Pair):
    """A group beside θ + d σ, in units of σ from θ: the columns are the metric, and P(R) times its influence on σ.

    ``error`` is the standard error of the disparity, and ``known`` says that θ is a number: then R is all rows, and the
    metric does not count in it.
    """

    error: float = 0.0
    known: bool = False

    @property
    def reach(self) -> float:
        """By its influence values σ is never below half its estimate."""
        return 8.0 * float(np.ptp(self.data.columns[0]))

    @property
    def standard_error(self) -> float:
        """From the influence values of mean, θ and σ."""
        return self.error

    def start(self, disparity: float) -> FloatArray:
        """ρ as estimated; at a difference of 0 from a number there is nothing to profile."""
        return np.empty(0) if self.known and disparity == 0 else np.array([disparity])

    def functions(self, disparity: float, theta: float | None = None) -> Functions:
        """1_G (M - ρ), and the equation of ρ."""
        slope = np.zeros((self.in_group.size, 2, 2))
        slope[:, 0, 0], slope[:, 1, 0] = self.in_group, 0.0 if self.known else self.in_reference
        slope[:, 1, 1] = disparity
        zero = np.zeros_like(self.in_group)
        if self.known and disparity == 0:
            return Functions(slope[:, :1], np.zeros((zero.size, 1, 0)), zero[:, None])
        nuisance = np.stack([self.in_group, self.in_reference], axis=1)[:, :, None]
        return Functions(slope, nuisance, np.stack([zero, -disparity * self.in_reference], axis=1))


@dataclass(frozen=True, slots=True, eq=False)
class Standardised:
    """The likelihood of each contrast's standardised difference; ``method`` is "el" or "eel"."""

    sample: Sample
    contrasts: tuple[Contrast, ...]
    method: str

    @property
    def disparity(self) -> FloatArray:
        """The estimates."""
        return np.array([self.sample.fit(contrast).disparity for contrast in self.contrasts])

    @property
    def standard_error(self) -> FloatArray:
        """Their large-sample standard errors."""
        return np.array([self._error(self.sample.fit(contrast)) for contrast in self.contrasts])

    def statistic(self, disparity: npt.ArrayLike) -> FloatArray:
        """T for the hypothesis that each disparity is ``disparity``."""
        target = np.broadcast_to(np.asarray(disparity, dtype=float), (len(self.contrasts),))
        pairs = zip(self._pairs(), target, strict=True)
        return np.array([float(Overlapping((pair,), self.method).statistic(d)[0]) for pair, d in pairs])

    def interval(self, critical: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
        """The disparities with T at most ``critical``."""
        level = np.broadcast_to(np.asarray(critical, dtype=float), (len(self.contrasts),))
        ends = [Overlapping((p,), self.method).interval(c) for p, c in zip(self._pairs(), level, strict=True)]
        low, high = (np.array([float(end[side][0]) for end in ends]) for side in (0, 1))
        return low, high

    def _error(self, fitted: Fit) -> float:
        mass = self.sample.mass
        return float(np.sqrt(mass @ fitted.influence**2)) / float(mass.sum())

    def _pairs(self) -> Iterator[EffectPair]:
        """One at a time: each holds columns of all rows."""
        sample = self.sample
        for contrast in self.contrasts:
            fitted = sample.fit(contrast)
            # About the reference and in σ, so that neither the metric's origin nor its unit matters to the solver.
            known = isinstance(contrast.referents, float)
            referents = np.ones_like(contrast.own) if isinstance(contrast.referents, float) else contrast.referents
            share = float(sample.mass[referents].sum() / sample.mass.sum())
            value = np.where(contrast.own | referents, (sample.value - fitted.reference) / fitted.sigma, 0.0)
            patterns = contrast.own.astype(np.intp) + 2 * referents
            data = Patterns(patterns, 4, (value, share * fitted.on_sigma / fitted.sigma), sample.mass)
            mine, theirs = np.array([0.0, 1.0, 0.0, 1.0]), np.array([0.0, 0.0, 1.0, 1.0])
            yield EffectPair(data, mine, theirs, 0.0, error=self._error(fitted), known=known)
