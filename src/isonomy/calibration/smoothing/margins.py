"""Outcomes of those at the margin: local parabolas from the present threshold up, and the response to a threshold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import isotonic_regression

from isonomy.calibration.smoothing.cells import Bins, Cells, above
from isonomy.calibration.smoothing.contrasts import MOST_LEVERAGE
from isonomy.calibration.smoothing.kernels import Bandwidth, kernel
from isonomy.calibration.smoothing.sums import EFFECTIVE, solve
from isonomy.calibration.smoothing.targets import Response
from isonomy.numerics.arrays import FloatArray

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
class Design:
    """The kernel at each bin from the present threshold up (first axis) around each point, times powers of distance."""

    points: FloatArray
    width: FloatArray
    weighted: tuple[FloatArray, ...]  # K u^k, k up to twice the degree

    @classmethod
    def of(cls, points: FloatArray, width: FloatArray, bins: Bins, degree: int = DEGREE) -> Design:
        """Outcomes are read from the present threshold up."""
        u = (bins.centres[bins.before :, None] - points) / width
        weighted = [kernel(u)]
        for _ in range(2 * degree):
            weighted.append(weighted[-1] * u)
        return cls(points, width, tuple(weighted))


@dataclass(frozen=True, slots=True, eq=False)
class Local:
    """Local polynomials (first axis: groups) at points (second)."""

    beta: FloatArray  # (G, J, degree + 1), in units of the width
    inverse: FloatArray  # (G, J, degree + 1, degree + 1): of the weighted Gram matrix
    mass: FloatArray  # (G, J): sum of the kernel

    @classmethod
    def at(cls, design: Design, vote: FloatArray, voted: FloatArray) -> Local:
        """Fitted to votes and votes times outcomes, in the bins from the present threshold up."""
        degree = (len(design.weighted) - 1) // 2
        powers = [vote @ weighted for weighted in design.weighted]
        products = [voted @ weighted for weighted in design.weighted[: degree + 1]]
        beta, inverse = solve(np.stack(powers), np.stack(products))
        return cls(np.moveaxis(beta, 0, -1), inverse, powers[0])


@dataclass(frozen=True, slots=True, eq=False)
class Margin:
    """The outcome of each group at one score of its own, from the rows above the present threshold."""

    value: FloatArray
    covariance: FloatArray

    @classmethod
    def at(cls, points: FloatArray, cells: Cells, parts: Cells | None, bandwidth: Bandwidth) -> Margin:
        """``parts``: the cells of independent parts of the table, where people have several rows."""
        width, groups = bandwidth.at(points), np.arange(points.size)
        local = Local.at(Design.of(points, width, cells.bins), *_read(cells))
        beta, inverse = local.beta[groups, groups], local.inverse[groups, groups]

        def influence(own: Cells) -> tuple[FloatArray, FloatArray, FloatArray]:
            u = (own.bins.centres - points[:, None]) / width[:, None]
            k = np.where(np.arange(own.bins.size) >= own.bins.before, kernel(u), 0.0)
            powers = u[..., None] ** np.arange(DEGREE + 1)
            lever = np.einsum("gbp,gpq->gbq", powers, inverse)
            leverage = np.clip(k * np.einsum("gbp,gbp->gb", lever, powers), 0, MOST_LEVERAGE)
            return k * lever[..., 0], np.einsum("gbp,gp->gb", powers, beta), leverage

        if parts is None:
            weight, fit, leverage = influence(cells)
            spread = np.maximum(cells.square - 2 * fit * cells.total + fit**2 * cells.known, 0.0)
            return cls(beta[:, 0], np.diag(np.sum(weight**2 * spread / (1 - leverage), axis=-1)))
        weight, fit, _ = influence(parts)
        return cls(beta[:, 0], scatter(np.sum(weight * (parts.voted - fit * parts.vote), axis=-1)))


def scatter(each: FloatArray) -> FloatArray:
    """The covariance of a sum of independent parts, from what each part contributes (first axis)."""
    size = each.shape[0]
    centred = each - each.mean(axis=0)
    return np.asarray(size / max(size - 1, 1) * centred.T @ centred)


def _read(cells: Cells) -> tuple[FloatArray, FloatArray]:
    """Votes and votes times outcomes in the bins from the present threshold up."""
    return cells.vote[..., cells.bins.before :], cells.voted[..., cells.bins.before :]


@dataclass(frozen=True, slots=True, eq=False)
class Margins:
    """How outcomes at the margin respond to thresholds: for these groups, and for samples of them in the same bins.

    Below the present threshold outcomes continue along a line. Each group's curve has at each point, and its line has,
    the widest kernel that no narrower one contradicts (Lepski): a curve that is straight is read from many rows, one
    that bends from those near.
    """

    points: FloatArray
    curves: tuple[Design, ...]  # of each group
    lines: tuple[Design, ...]

    @classmethod
    def of(cls, cells: Cells, parts: Cells | None, bandwidth: Bandwidth) -> Margins:
        """From the present threshold up to the last bin. The caller's own bandwidth is taken as it is."""
        wide = cells.joined
        points = np.linspace(wide.bins.present, float(wide.bins.edges[-1]), POINTS)
        widths, fixed = bandwidth.at(points), bandwidth.given is not None
        residuals = _Residuals.of(wide, parts, Design.of(points, widths, wide.bins, CURVE))
        factors = (1.0,) if fixed else FACTORS
        curve = residuals.widest(points, widths, factors, 0)
        line = residuals.widest(points[:1], SLOPE * widths[:1], factors, 1)
        return cls(
            points,
            tuple(Design.of(points, own, wide.bins, CURVE) for own in curve),
            tuple(Design.of(points[:1], own, wide.bins, degree=1) for own in line),
        )

    def responses(self, cells: Cells, *, rising: bool = True) -> list[Response]:
        """The response of each group: its curve made to rise, so that an outcome has one threshold, or as it is."""
        bins, edges, points = cells.bins, cells.bins.edges, self.points
        curves = []
        groups = zip(self.curves, self.lines, *_read(cells.joined), above(cells.rows), strict=True)
        for curve, line, vote, voted, rows in groups:
            with np.errstate(over="ignore", invalid="ignore"):  # at points far from a group, which are left out below
                local = Local.at(curve, vote, voted)
            mass = local.mass / curve.width
            held = mass > _EMPTY * mass.max() if mass.max() > 0 else np.ones(mass.size, dtype=bool)
            values = local.beta[held, 0]
            if rising:
                values = isotonic_regression(values, weights=np.maximum(mass[held], 1e-300)).x
            # Never quite level: a group that has the common outcome already keeps its threshold.
            least = 1e-9 * max(float(np.abs(values).max()), 1e-300) / bins.step
            slope = float(Local.at(line, vote, voted).beta[0, 1]) / line.width[0]
            below = np.minimum(edges - bins.present, 0.0) * max(slope, least)
            curves.append(Response(edges, np.interp(edges, points[held], values) + below, rows, True))
        return curves


@dataclass(frozen=True, slots=True, eq=False)
class _Residuals:
    """How far outcomes are from a first curve, from which the errors of local lines of any width follow."""

    bins: Bins
    vote: FloatArray  # (G, bins)
    voted: FloatArray
    spread: FloatArray  # (G, bins): sums of squares; of parts of the table (parts, G, bins): sums

    @classmethod
    def of(cls, cells: Cells, parts: Cells | None, first: Design) -> _Residuals:
        vote, voted = _read(cells)
        with np.errstate(over="ignore", invalid="ignore"):
            values = np.clip(Local.at(first, vote, voted).beta[..., 0], *_limits(cells))
        at = cells.bins.centres[cells.bins.before :]
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
            value, variance, effective = self._line(Design.of(points, factor * width, self.bins, CURVE), power)
            value, variance = value / factor**power, variance / factor ** (2 * power)
            for other, more in narrower:
                going &= ~(np.abs(value - other) > CONTRADICTION[power] * np.sqrt(np.maximum(more - variance, 0.0)))
            chosen = np.where(going, factor * width, chosen)
            # Few rows lie on any line: their own says nothing against a wider one.
            few = effective < EFFECTIVE
            narrower.append((np.where(few, np.nan, value), variance))
        return chosen

    def _line(self, design: Design, power: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        """A coefficient of the local line of each group at each point, its variance, and the rows behind it."""
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            local = Local.at(design, self.vote, self.voted)
            lever = np.moveaxis(local.inverse[..., power, :], -1, 0)
            k, ku = design.weighted[:2]
            effective = np.nan_to_num(local.mass**2 / (self.vote @ (k * k)))
            if self.spread.ndim == 2:
                parts = [self.spread @ (k * k), self.spread @ (k * ku), self.spread @ (ku * ku)]
                variance = lever[0] ** 2 * parts[0] + 2 * lever[0] * lever[1] * parts[1] + lever[1] ** 2 * parts[2]
            else:
                each = lever[0] * (self.spread @ k) + lever[1] * (self.spread @ ku)
                variance = len(each) / max(len(each) - 1, 1) * np.sum((each - each.mean(axis=0)) ** 2, axis=0)
        return local.beta[..., power], variance, effective


def _limits(cells: Cells) -> tuple[float, float]:
    """What outcomes can be: a curve of 0/1 outcomes far from a group's scores is no probability."""
    return (0.0, 1.0) if np.array_equal(cells.square, cells.total) else (-np.inf, np.inf)
