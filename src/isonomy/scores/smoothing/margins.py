"""Outcomes of those at the margin: local parabolas from the present threshold up, and the response to a threshold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import isotonic_regression

from isonomy.numerics.arrays import FloatArray
from isonomy.scores.smoothing.contrasts import EFFECTIVE, MOST_LEVERAGE, Smoother, local_polynomial
from isonomy.scores.smoothing.kernels import Bandwidth, kernel
from isonomy.scores.smoothing.targets import Response, ScoreBins, ScoreCells, ThresholdSearch, above, scatter

FALL = 3.0  # standard errors
DEGREE = 2  # at one score, as in `marginal_outcomes`
CURVE = 1  # of curves, whose error is smaller and whose bias matters less: they are read at other scores
POINTS = 201  # of a curve
FACTORS = (1.0, 1.4, 2.0, 2.8, 4.0)  # widths that a curve may have, in bandwidths
SLOPE = 2.0  # slopes are harder than levels: their widths are so much larger
# Standard errors, of a level and of a slope. At two a steep curve is read from too far, at one half a straight one from
# too near; a line's slope is the harder to know, and what it is multiplied by is short.
CONTRADICTION = (1.0, 2.0)
_EMPTY = 1e-3  # of the largest mass: beyond a group's last scores a local parabola runs wild


@dataclass(frozen=True, slots=True, eq=False)
class LocalDesign:
    """The kernel at each bin from the present threshold up (first axis) around each point, times powers of distance."""

    points: FloatArray
    width: FloatArray
    powers: tuple[FloatArray, ...]  # K u^k, k up to twice the degree

    @classmethod
    def of(cls, points: FloatArray, width: FloatArray, bins: ScoreBins, degree: int = DEGREE) -> LocalDesign:
        """Outcomes are read from the present threshold up."""
        smoother = Smoother(points, width, degree)
        powers = smoother.powers(smoother.scaled(bins.centers[bins.before :]))
        return cls(points, width, tuple(powers))


def margin_at(
    points: FloatArray, cells: ScoreCells, parts: ScoreCells | None, bandwidth: Bandwidth
) -> tuple[FloatArray, FloatArray]:
    """The outcome of each group at one score of its own, from the rows above the present threshold; covariances.

    ``parts``: the cells of independent parts of the table, where people have several rows.
    """
    width, groups = bandwidth.at(points), np.arange(points.size)
    beta, inverse, _ = local_polynomial(LocalDesign.of(points, width, cells.bins).powers, *_read(cells))
    beta, inverse = beta[:, groups, groups].T, inverse[groups, groups]

    def influence(own: ScoreCells) -> tuple[FloatArray, FloatArray, FloatArray]:
        u = (own.bins.centers - points[:, None]) / width[:, None]
        k = np.where(np.arange(own.bins.size) >= own.bins.before, kernel(u), 0.0)
        powers = u[..., None] ** np.arange(DEGREE + 1)
        lever = np.einsum("gbp,gpq->gbq", powers, inverse)
        leverage = np.clip(k * np.einsum("gbp,gbp->gb", lever, powers), 0, MOST_LEVERAGE)
        return k * lever[..., 0], np.einsum("gbp,gp->gb", powers, beta), leverage

    if parts is None:
        weight, fit, leverage = influence(cells)
        spread = np.maximum(cells.square - 2 * fit * cells.total + fit**2 * cells.known, 0.0)
        return beta[:, 0], np.diag(np.sum(weight**2 * spread / (1 - leverage), axis=-1))
    weight, fit, _ = influence(parts)
    return beta[:, 0], scatter(np.sum(weight * (parts.voted - fit * parts.vote), axis=-1))


def _read(cells: ScoreCells) -> tuple[FloatArray, FloatArray]:
    """Votes and votes times outcomes in the bins from the present threshold up."""
    return cells.vote[..., cells.bins.before :], cells.voted[..., cells.bins.before :]


@dataclass(frozen=True, slots=True, eq=False)
class MarginCurves:
    """How outcomes at the margin respond to thresholds: for these groups, and for samples of them in the same bins.

    Below the present threshold outcomes continue along a line. Each group's curve has at each point, and its line has,
    the widest kernel that no narrower one contradicts (Lepski): a curve that is straight is read from many rows, one
    that bends from those near.
    """

    points: FloatArray
    curves: tuple[LocalDesign, ...]  # of each group
    lines: tuple[LocalDesign, ...]

    @classmethod
    def of(cls, cells: ScoreCells, parts: ScoreCells | None, bandwidth: Bandwidth) -> MarginCurves:
        """From the present threshold up to the last bin. The caller's own bandwidth is taken as it is."""
        wide = cells.joined
        points = np.linspace(wide.bins.present, float(wide.bins.edges[-1]), POINTS)
        widths, fixed = bandwidth.at(points), bandwidth.given is not None
        residuals = _Residuals.of(wide, parts, LocalDesign.of(points, widths, wide.bins, CURVE))
        factors = (1.0,) if fixed else FACTORS
        curve = residuals.widest(points, widths, factors, 0)
        line = residuals.widest(points[:1], SLOPE * widths[:1], factors, 1)
        return cls(
            points,
            tuple(LocalDesign.of(points, own, wide.bins, CURVE) for own in curve),
            tuple(LocalDesign.of(points[:1], own, wide.bins, degree=1) for own in line),
        )

    def responses(self, cells: ScoreCells, *, rising: bool = True) -> list[Response]:
        """The response of each group: its curve made to rise, so that an outcome has one threshold, or as it is."""
        bins, edges, points = cells.bins, cells.bins.edges, self.points
        curves = []
        groups = zip(self.curves, self.lines, *_read(cells.joined), above(cells.rows), strict=True)
        for curve, line, vote, voted, rows in groups:
            with np.errstate(over="ignore", invalid="ignore"):  # at points far from a group, which are left out below
                beta, _, mass = local_polynomial(curve.powers, vote, voted)
            mass = mass / curve.width
            held = mass > _EMPTY * mass.max() if mass.max() > 0 else np.ones(mass.size, dtype=bool)
            values = beta[0][held]
            if rising:
                values = isotonic_regression(values, weights=np.maximum(mass[held], 1e-300)).x
            # Never quite level: a group that has the common outcome already keeps its threshold.
            least = 1e-9 * max(float(np.abs(values).max()), 1e-300) / bins.step
            slope = float(local_polynomial(line.powers, vote, voted)[0][1, 0]) / line.width[0]
            below = np.minimum(edges - bins.present, 0.0) * max(slope, least)
            curves.append(Response(edges, np.interp(edges, points[held], values) + below, rows, True))
        return curves


@dataclass(frozen=True, slots=True, eq=False)
class _Residuals:
    """How far outcomes are from a first curve, from which the errors of local lines of any width follow."""

    bins: ScoreBins
    vote: FloatArray  # (G, bins)
    voted: FloatArray
    spread: FloatArray  # (G, bins): sums of squares; of parts of the table (parts, G, bins): sums

    @classmethod
    def of(cls, cells: ScoreCells, parts: ScoreCells | None, first: LocalDesign) -> _Residuals:
        vote, voted = _read(cells)
        with np.errstate(over="ignore", invalid="ignore"):
            values = np.clip(local_polynomial(first.powers, vote, voted)[0][0], *_limits(cells))
        at = cells.bins.centers[cells.bins.before :]
        fit = np.stack([np.interp(at, first.points, own) for own in values])
        if parts is None:
            known, total, square = (part[:, cells.bins.before :] for part in (cells.known, cells.total, cells.square))
            return cls(cells.bins, vote, voted, np.maximum(square - 2 * fit * total + fit**2 * known, 0.0))
        own, sums = _read(parts)
        return cls(cells.bins, vote, voted, sums - fit * own)

    def widest(self, points: FloatArray, width: FloatArray, factors: Sequence[float], power: int) -> FloatArray:
        """The widths (G, J) of local lines whose level (power 0) or slope (1) no narrower one contradicts.

        Where both have a common truth the narrower one's variance is that of the wider one and of their difference.
        """
        chosen = np.broadcast_to(factors[0] * width, (len(self.vote), width.size))
        going = np.ones(chosen.shape, dtype=bool)
        narrower: list[tuple[FloatArray, FloatArray]] = []
        for factor in factors:
            value, variance, effective = self._line(LocalDesign.of(points, factor * width, self.bins, CURVE), power)
            value, variance = value / factor**power, variance / factor ** (2 * power)
            for other, more in narrower:
                going &= ~(np.abs(value - other) > CONTRADICTION[power] * np.sqrt(np.maximum(more - variance, 0.0)))
            chosen = np.where(going, factor * width, chosen)
            # Few rows lie on any line: their own says nothing against a wider one.
            few = effective < EFFECTIVE
            narrower.append((np.where(few, np.nan, value), variance))
        return chosen

    def _line(self, design: LocalDesign, power: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        """A coefficient of the local line of each group at each point, its variance, and the rows behind it."""
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            beta, inverse, mass = local_polynomial(design.powers, self.vote, self.voted)
            lever = np.moveaxis(inverse[..., power, :], -1, 0)
            k, ku = design.powers[:2]
            effective = np.nan_to_num(mass**2 / (self.vote @ (k * k)))
            if self.spread.ndim == 2:
                parts = [self.spread @ (k * k), self.spread @ (k * ku), self.spread @ (ku * ku)]
                variance = lever[0] ** 2 * parts[0] + 2 * lever[0] * lever[1] * parts[1] + lever[1] ** 2 * parts[2]
            else:
                each = lever[0] * (self.spread @ k) + lever[1] * (self.spread @ ku)
                variance = len(each) / max(len(each) - 1, 1) * np.sum((each - each.mean(axis=0)) ** 2, axis=0)
        return beta[power], variance, effective


def margins_after(
    cells: ScoreCells,
    parts: ScoreCells | None,
    bandwidth: Bandwidth,
    search: ThresholdSearch,
    thresholds: FloatArray,
    now: Mapping[str, Any],
) -> dict[str, Any]:
    """Outcomes at the new margins. Of groups whose outcomes fall, those of the curve as it was fitted.

    ``now``: the outcomes at the present margin, their standard errors, and which groups they are ``known`` for.
    """
    known, present = now["known"], search.present
    margins = MarginCurves.of(cells, parts, bandwidth)
    _, covariance = margin_at(np.maximum(thresholds, present), cells, parts, bandwidth)
    se = np.where(known, np.sqrt(np.diagonal(covariance)), np.nan)
    rising, fitted = (margins.responses(cells, rising=rising) for rising in (True, False))
    after, met = np.full(known.size, np.nan), np.ones(known.size, bool)
    falling, beyond_reach = np.zeros((2, known.size), bool)
    solution = search.solve(cells)
    for g in np.flatnonzero(known):
        t, block = float(thresholds[g]), solution.curves[search.blocks[g]]
        # Making a rising curve nondecreasing moves it by a part of its error; three standard errors are a fall.
        apart = [abs(rising[g].at(x) - fitted[g].at(x)) for x in (present, max(t, present))]
        falling[g] = apart[0] > FALL * now["se"][0, g] or apart[1] > FALL * se[g]
        after[g] = now["value"][0, g] if t == present else (fitted if falling[g] else rising)[g].at(t)
        allowed = max(float(se[g]), 1e-6)
        met[g] = abs(block.at(t) - solution.target) <= allowed
        beyond_reach[g] = not block.value[0] - allowed <= solution.target <= block.value[-1] + allowed
    return {"after": after[None], "se": se[None], "met": met, "falling": falling, "beyond_reach": beyond_reach}


def _limits(cells: ScoreCells) -> tuple[float, float]:
    """What outcomes can be: a curve of 0/1 outcomes far from a group's scores is no probability."""
    return (0.0, 1.0) if np.array_equal(cells.square, cells.total) else (-np.inf, np.inf)
