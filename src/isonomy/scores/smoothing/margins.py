"""Outcomes at the margin: local parabolas from the present threshold up, and the response to a threshold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import isotonic_regression

from isonomy.numerics.arrays import FloatArray
from isonomy.scores.smoothing.contrasts import EFFECTIVE, MOST_LEVERAGE
from isonomy.scores.smoothing.kernels import Bandwidth, Bins, Smoother, kernel, local_polynomial, power_sums
from isonomy.scores.smoothing.targets import Response, ScoreCells, ThresholdSearch, above, scatter

FALL = 3.0  # standard errors
DEGREE = 2  # at one score, as in `marginal_outcomes`
CURVE = 1  # of curves, whose error is smaller and whose bias matters less: they are read at other scores
POINTS = 201  # of a curve
FACTORS = (1.0, 1.4, 2.0, 2.8, 4.0)  # widths that a curve may have, in bandwidths
SLOPE = 2.0  # the factor on widths for slopes, which are harder to estimate than levels
# Standard errors, of a level and of a slope. At two a steep curve is read from too far, at one half a straight one from
# too near. The slope of a line is harder to estimate, and it is multiplied by a short distance.
CONTRADICTION = (1.0, 2.0)
_EMPTY = 1e-3  # of the largest mass: beyond a group's last scores a local parabola runs wild


@dataclass(frozen=True, slots=True, eq=False)
class LocalDesign:
    """The kernel at each bin from the present threshold up (first axis) around each point, times powers of distance."""

    points: FloatArray
    width: FloatArray
    powers: list[FloatArray]  # K u^k, k up to twice the degree

    @classmethod
    def build(cls, points: FloatArray, width: FloatArray, bins: Bins, degree: int = CURVE) -> LocalDesign:
        """Outcomes are read from the present threshold up."""
        smoother = Smoother(points, width, degree)
        return cls(points, width, smoother.powers(smoother.scaled(bins.centers[bins.before :])))

    def fit(self, vote: FloatArray, voted: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Coefficients, inverse Gram matrices, and kernel masses. Numbers far from a group are not used."""
        with np.errstate(over="ignore", invalid="ignore"):
            power, outcome = power_sums(self.powers, vote, voted)
            return *local_polynomial(power, outcome), power[0]


def margin_at(
    points: FloatArray, cells: ScoreCells, parts: ScoreCells | None, bandwidth: Bandwidth
) -> tuple[FloatArray, FloatArray]:
    """The outcome of each group at one score each, from the rows above the present threshold; covariances.

    ``parts``: the cells of independent parts of the table, if people have several rows.
    """
    width, groups = bandwidth.widths(points), np.arange(points.size)
    beta, inverse, _ = LocalDesign.build(points, width, cells.bins, DEGREE).fit(*_votes(cells))
    beta, inverse = beta[:, groups, groups].T, inverse[groups, groups]
    bins = cells.bins if parts is None else parts.bins
    u = (bins.centers - points[:, None]) / width[:, None]
    k = np.where(np.arange(bins.size) >= bins.before, kernel(u), 0.0)
    powers = u[..., None] ** np.arange(DEGREE + 1)
    lever, fit = np.einsum("gbp,gpq->gbq", powers, inverse), np.einsum("gbp,gp->gb", powers, beta)
    weight = k * lever[..., 0]
    if parts is not None:
        return beta[:, 0], scatter(np.sum(weight * (parts.voted - fit * parts.vote), axis=-1))
    leverage = np.clip(k * np.einsum("gbp,gbp->gb", lever, powers), 0, MOST_LEVERAGE)
    spread = np.maximum(cells.square - 2 * fit * cells.total + fit**2 * cells.known, 0.0)
    return beta[:, 0], np.diag(np.sum(weight**2 * spread / (1 - leverage), axis=-1))


def _votes(cells: ScoreCells) -> tuple[FloatArray, FloatArray]:
    """Votes and votes times outcomes in the bins from the present threshold up."""
    return cells.vote[..., cells.bins.before :], cells.voted[..., cells.bins.before :]


@dataclass(frozen=True, slots=True, eq=False)
class MarginCurves:
    """How outcomes at the margin respond to thresholds: for these groups, and for samples of them in the same bins.

    Below the present threshold outcomes continue along a line. At each point, each group's curve has the widest kernel
    that no narrower one contradicts (Lepski), and so has its line: a straight curve is read from many rows, one that
    bends from those nearby.
    """

    points: FloatArray
    curves: tuple[LocalDesign, ...]  # of each group
    lines: tuple[LocalDesign, ...]

    @classmethod
    def build(cls, cells: ScoreCells, parts: ScoreCells | None, bandwidth: Bandwidth) -> MarginCurves:
        """From the present threshold up to the last bin. A bandwidth given by the caller is not changed."""
        wide = cells.joined
        bins, (vote, voted) = wide.bins, _votes(wide)
        points = np.linspace(bins.anchor, float(bins.edges[-1]), POINTS)
        widths = bandwidth.widths(points)
        # Outcomes of 0 and 1 bound a curve even far from a group's scores.
        limits = (0.0, 1.0) if np.array_equal(wide.square, wide.total) else (-np.inf, np.inf)
        values = np.clip(LocalDesign.build(points, widths, bins).fit(vote, voted)[0][0], *limits)
        fit = np.stack([np.interp(bins.centers[bins.before :], points, curve) for curve in values])
        if parts is None:
            known, total, square = (part[:, bins.before :] for part in (wide.known, wide.total, wide.square))
            spread = np.maximum(square - 2 * fit * total + fit**2 * known, 0.0)
        else:
            part_vote, part_voted = _votes(parts)
            spread = part_voted - fit * part_vote
        residuals = _Residuals(bins, vote, voted, spread)
        factors = FACTORS if bandwidth.given is None else (1.0,)
        curve = residuals.widest(points, widths, factors, 0)
        line = residuals.widest(points[:1], SLOPE * widths[:1], factors, 1)
        return cls(
            points,
            tuple(LocalDesign.build(points, width, bins) for width in curve),
            tuple(LocalDesign.build(points[:1], width, bins) for width in line),
        )

    def responses(self, cells: ScoreCells, *, rising: bool = True) -> list[Response]:
        """The response of each group: its curve made to rise, so that an outcome has one threshold, or as it is."""
        bins, edges = cells.bins, cells.bins.edges
        curves = []
        groups = zip(self.curves, self.lines, *_votes(cells.joined), above(cells.rows), strict=True)
        for curve, line, vote, voted, rows in groups:
            beta, _, mass = curve.fit(vote, voted)
            mass = mass / curve.width
            near = mass > _EMPTY * mass.max() if mass.max() > 0 else np.ones(mass.size, dtype=bool)
            values = beta[0][near]
            if rising:
                values = isotonic_regression(values, weights=np.maximum(mass[near], 1e-300)).x
            # Never quite level: a group that already has the common outcome keeps its threshold.
            least = 1e-9 * max(float(np.abs(values).max()), 1e-300) / bins.step
            slope = float(line.fit(vote, voted)[0][1, 0]) / line.width[0]
            below = np.minimum(edges - bins.anchor, 0.0) * max(slope, least)
            curves.append(Response(edges, np.interp(edges, self.points[near], values) + below, rows, True))
        return curves


@dataclass(frozen=True, slots=True, eq=False)
class _Residuals:
    """How far outcomes are from a first curve, from which the errors of local lines of any width follow."""

    bins: Bins
    vote: FloatArray  # (G, bins)
    voted: FloatArray
    spread: FloatArray  # (G, bins): sums of squares; of parts of the table (parts, G, bins): sums

    def widest(self, points: FloatArray, width: FloatArray, factors: Sequence[float], power: int) -> FloatArray:
        """The widths (G, J) of local lines whose level (power 0) or slope (1) no narrower one contradicts.

        If both estimate the same value, the variance of the narrower one is that of the wider one plus that of their
        difference.
        """
        chosen = np.broadcast_to(factors[0] * width, (len(self.vote), width.size))
        going = np.ones(chosen.shape, dtype=bool)
        narrower: list[tuple[FloatArray, FloatArray]] = []
        for factor in factors:
            value, variance, effective = self._line(LocalDesign.build(points, factor * width, self.bins), power)
            value, variance = value / factor**power, variance / factor ** (2 * power)
            for other, more in narrower:
                going &= ~(np.abs(value - other) > CONTRADICTION[power] * np.sqrt(np.maximum(more - variance, 0.0)))
            chosen = np.where(going, factor * width, chosen)
            # Few rows lie on any line: they do not contradict a wider one.
            narrower.append((np.where(effective < EFFECTIVE, np.nan, value), variance))
        return chosen

    def _line(self, design: LocalDesign, power: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        """A coefficient of the local line of each group at each point, its variance, and the rows behind it."""
        beta, inverse, mass = design.fit(self.vote, self.voted)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            lever = np.moveaxis(inverse[..., power, :], -1, 0)
            k, ku = design.powers[:2]
            effective = np.nan_to_num(mass**2 / (self.vote @ (k * k)))
            if self.spread.ndim == 2:
                parts = [self.spread @ (k * k), self.spread @ (k * ku), self.spread @ (ku * ku)]
                variance = lever[0] ** 2 * parts[0] + 2 * lever[0] * lever[1] * parts[1] + lever[1] ** 2 * parts[2]
            else:
                sums = lever[0] * (self.spread @ k) + lever[1] * (self.spread @ ku)
                variance = len(sums) / max(len(sums) - 1, 1) * np.sum((sums - sums.mean(axis=0)) ** 2, axis=0)
        return beta[power], variance, effective


def margins_after(
    cells: ScoreCells,
    parts: ScoreCells | None,
    bandwidth: Bandwidth,
    search: ThresholdSearch,
    thresholds: FloatArray,
    now: Mapping[str, Any],
) -> dict[str, Any]:
    """Outcomes at the new margins; if a group's outcomes fall, those of its curve as fitted.

    ``now``: the outcomes at the present margin, their standard errors, and which groups they are ``known`` for.
    """
    known, present = now["known"], search.present
    margins = MarginCurves.build(cells, parts, bandwidth)
    _, covariance = margin_at(np.maximum(thresholds, present), cells, parts, bandwidth)
    se = np.where(known, np.sqrt(np.diagonal(covariance)), np.nan)
    rising, fitted = (margins.responses(cells, rising=rising) for rising in (True, False))
    after, met = np.full(known.size, np.nan), np.ones(known.size, bool)
    falling, beyond_reach = np.zeros((2, known.size), bool)
    solution = search.solve(cells)
    for g in np.flatnonzero(known):
        t, block = float(thresholds[g]), solution.curves[search.blocks[g]]
        # Making a rising curve nondecreasing moves it by a fraction of its error; three standard errors are a fall.
        apart = [abs(rising[g].metric(x) - fitted[g].metric(x)) for x in (present, max(t, present))]
        falling[g] = apart[0] > FALL * now["se"][0, g] or apart[1] > FALL * se[g]
        after[g] = now["value"][0, g] if t == present else (fitted if falling[g] else rising)[g].metric(t)
        allowed = max(float(se[g]), 1e-6)
        met[g] = abs(block.metric(t) - solution.target) <= allowed
        beyond_reach[g] = not block.value[0] - allowed <= solution.target <= block.value[-1] + allowed
    return {"after": after[None], "se": se[None], "met": met, "falling": falling, "beyond_reach": beyond_reach}
