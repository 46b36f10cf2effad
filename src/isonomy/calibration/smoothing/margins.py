"""Outcomes of those at the margin: local parabolas from the present threshold up, and the response to a threshold."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import isotonic_regression

from isonomy.calibration.smoothing.cells import Bins, Cells, above
from isonomy.calibration.smoothing.contrasts import MOST_LEVERAGE
from isonomy.calibration.smoothing.kernels import Bandwidth, kernel
from isonomy.calibration.smoothing.targets import Response
from isonomy.numerics.arrays import FloatArray

DEGREE = 2  # at one score, as in `marginal_outcomes`
CURVE = 1  # of curves, whose error is smaller and whose bias matters less: they are read at other scores
POINTS = 201  # of a curve
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
    mean: FloatArray  # (G, J): mean outcome under the kernel

    @classmethod
    def at(cls, design: Design, cells: Cells) -> Local:
        """Fitted to the votes of the cells."""
        used, degree = slice(cells.bins.before, None), (len(design.weighted) - 1) // 2
        powers = [cells.vote[:, used] @ weighted for weighted in design.weighted]
        products = [cells.voted[:, used] @ weighted for weighted in design.weighted[: degree + 1]]
        order = np.arange(degree + 1)
        gram = np.stack(powers, axis=-1)[..., order[:, None] + order[None, :]]
        scale = np.maximum(powers[0], np.finfo(float).tiny)[..., None, None]
        inverse = np.linalg.pinv(gram / scale, rcond=1e-12, hermitian=True) / scale
        beta = (inverse @ np.stack(products, axis=-1)[..., None])[..., 0]
        with np.errstate(divide="ignore", invalid="ignore"):
            return cls(beta, inverse, powers[0], products[0] / powers[0])


@dataclass(frozen=True, slots=True, eq=False)
class Margin:
    """The outcome of each group at one score of its own, from the rows above the present threshold."""

    value: FloatArray
    covariance: FloatArray
    effective: FloatArray  # users (rows) behind each
    mean: FloatArray  # of the outcomes near the score

    @classmethod
    def at(cls, points: FloatArray, cells: Cells, parts: Cells | None, bandwidth: Bandwidth) -> Margin:
        """``parts``: the cells of independent parts of the table, where people have several rows."""
        width, groups = bandwidth.at(points), np.arange(points.size)
        local = Local.at(Design.of(points, width, cells.bins), cells)
        beta, inverse = local.beta[groups, groups], local.inverse[groups, groups]
        mass, mean = local.mass[groups, groups], local.mean[groups, groups]

        def influence(own: Cells) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
            u = (own.bins.centres - points[:, None]) / width[:, None]
            k = np.where(np.arange(own.bins.size) >= own.bins.before, kernel(u), 0.0)
            powers = u[..., None] ** np.arange(DEGREE + 1)
            lever = np.einsum("gbp,gpq->gbq", powers, inverse)
            leverage = np.clip(k * np.einsum("gbp,gbp->gb", lever, powers), 0, MOST_LEVERAGE)
            return k, k * lever[..., 0], np.einsum("gbp,gp->gb", powers, beta), leverage

        if parts is None:
            k, weight, fit, leverage = influence(cells)
            spread = np.maximum(cells.square - 2 * fit * cells.total + fit**2 * cells.known, 0.0)
            covariance = np.diag(np.sum(weight**2 * spread / (1 - leverage), axis=-1))
            square = np.sum(k**2 * cells.vote, axis=-1)
        else:
            k, weight, fit, _ = influence(parts)
            each = np.sum(weight * (parts.voted - fit * parts.vote), axis=-1)
            covariance = scatter(each)
            square = np.sum(np.sum(k * parts.vote, axis=-1) ** 2, axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            effective = np.nan_to_num(mass**2 / square)
        # Those within a bandwidth, at most twice those within half of it: as in `users_near`.
        distance = (cells.bins.centres - points[:, None]) / width[:, None]
        read = np.where(np.arange(cells.bins.size) >= cells.bins.before, cells.vote, 0.0)
        whole, half = (np.where(np.abs(distance) <= reach, read, 0.0).sum(axis=-1) for reach in (1.0, 0.5))
        effective = np.minimum(effective, np.minimum(whole, 2 * half))
        return cls(beta[:, 0], covariance, effective, mean)


def scatter(each: FloatArray) -> FloatArray:
    """The covariance of a sum of independent parts, from what each part contributes (first axis)."""
    size = each.shape[0]
    centred = each - each.mean(axis=0)
    return np.asarray(size / max(size - 1, 1) * centred.T @ centred)


@dataclass(frozen=True, slots=True, eq=False)
class Margins:
    """How outcomes at the margin respond to thresholds: made once for all samples in the same bins.

    Below the present threshold outcomes continue along a line fitted at twice the width: slopes are harder than levels.
    """

    curve: Design
    line: Design

    @classmethod
    def of(cls, bins: Bins, bandwidth: Bandwidth) -> Margins:
        """From the present threshold up to the last bin."""
        points = np.linspace(bins.present, float(bins.edges[-1]), POINTS)
        start = points[:1]
        return cls(
            Design.of(points, bandwidth.at(points), bins, CURVE),
            Design.of(start, 2 * bandwidth.at(start), bins, degree=1),
        )

    def responses(self, cells: Cells, *, rising: bool = True) -> list[Response]:
        """The response of each group: its curve made to rise, so that an outcome has one threshold, or as it is."""
        bins, edges, selected = cells.bins, cells.bins.edges, above(cells.rows)
        points = self.curve.points
        with np.errstate(over="ignore", invalid="ignore"):  # at points far from a group, which are left out below
            local = Local.at(self.curve, cells)
        slopes = Local.at(self.line, cells).beta[:, 0, 1] / self.line.width[0]
        curves = []
        for value, mass, slope, rows in zip(local.beta[..., 0], local.mass, slopes, selected, strict=True):
            held = mass > _EMPTY * mass.max() if mass.max() > 0 else np.ones(mass.size, dtype=bool)
            values = value[held]
            if rising:
                values = isotonic_regression(values, weights=np.maximum(mass[held], 1e-300)).x
            # Never quite level: a group that has the common outcome already keeps its threshold.
            least = 1e-9 * max(float(np.abs(values).max()), 1e-300) / bins.step
            below = np.minimum(edges - bins.present, 0.0) * max(float(slope), least)
            curves.append(Response(edges, np.interp(edges, points[held], values) + below, rows, True))
        return curves
