"""Disparities between groups known only by probability.

pi = E[p], M = E[p p'], b = E[p v y] and d = E[p v] are means over rows, y measured from its center. For the share gamma
of a disparity that remains among people with the same probabilities,

    G = (1 - gamma) diag(pi) + gamma M,   nu = G^-1 b,   delta = G^-1 d,   mean of a group = nu / delta.

gamma = 0 is the probability-weighted mean, gamma = 1 the least-squares regression on the probabilities. Every estimator
here gives `Totals`: E[1(group) v y] and E[1(group) v], with the influence of rows on them. Constants are left out of an
influence where they cancel in a ratio of totals.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from isonomy.frames.proxies import LinearInfluence, ProxyMoments, ProxyRows
from isonomy.numerics.arrays import FloatArray

SINGULAR = 1e-12  # least eigenvalue of G relative to diag(pi); below, a group is not identified
WITHIN = 1e-8  # relative cutoff of the pseudo-inverse within places
POPULATION, REST = -1, -2  # references that are not one of the groups


@dataclass(frozen=True, eq=False)
class Totals:
    """E[1(group) v y] (``value``) and E[1(group) v] (``inside``) of each group, then of everybody; their influences.

    Influences have one line per group and one for everybody. ``lines`` wraps them for the pass over rows.
    """

    value: FloatArray
    inside: FloatArray
    value_lines: FloatArray
    inside_lines: FloatArray
    gamma: float = 0.0
    slopes: tuple[FloatArray, FloatArray] | None = None

    def levels(self, reference: int) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Each group's mean and its reference's, and the influences on both."""
        with np.errstate(divide="ignore", invalid="ignore"):
            mean, lines = self._ratio(self.value[:-1], self.inside[:-1], self.value_lines[:-1], self.inside_lines[:-1])
            if reference >= 0:
                size = mean.size
                return mean, np.full(size, mean[reference]), lines, np.repeat(lines[[reference]], size, axis=0)
            whole = self.value[-1:], self.inside[-1:], self.value_lines[-1:], self.inside_lines[-1:]
            parts = self.value[:-1], self.inside[:-1], self.value_lines[:-1], self.inside_lines[:-1]
            out = float(reference == REST)
            other = self._ratio(*(every - out * part for every, part in zip(whole, parts, strict=True)))
        return mean, other[0], lines, other[1]

    @staticmethod
    def _ratio(
        top: FloatArray, bottom: FloatArray, over: FloatArray, under: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        mean = top / bottom
        return mean, (over - mean[:, None] * under) / bottom[:, None]

    def wrapped(self, lines: FloatArray) -> LinearInfluence:
        nothing = np.zeros(self.value.size - 1)
        return LinearInfluence(self.gamma, *(self.slopes or (nothing, nothing)), lines)


def _blocks(size: int, **blocks: FloatArray) -> FloatArray:
    """Influences of each group, and a last line of zeros; keywords are blocks of `LinearInfluence` by their letter."""
    lines = np.zeros((size + 1, 8 * size + 2))
    for letter, block in blocks.items():
        place = "abcdfghk".index(letter) * size
        lines[:size, place : place + size] = block
    return lines


class Family:
    """The estimates for one share gamma."""

    def __init__(self, moments: ProxyMoments, gamma: float, *, conditional: bool) -> None:
        self.moments, self.gamma, self.conditional = moments, gamma, conditional
        root = np.sqrt(np.where(moments.share > 0, moments.share, 1.0))
        eigenvalues, vectors = np.linalg.eigh(moments.cross / np.outer(root, root))
        spread = np.maximum(1.0 - gamma + gamma * eigenvalues, SINGULAR)
        self.inverse = (vectors / spread) @ vectors.T / np.outer(root, root)
        self.largest = float(1.0 / max(1.0 - float(eigenvalues[0]), SINGULAR))  # G can be inverted below this share

    @property
    def identified(self) -> FloatArray:
        """How many rows with a certain group would tell as much about each group."""
        return np.where(self.moments.share > 0, self.moments.rows / np.diag(self.inverse), 0.0)

    def totals(self) -> Totals:
        m, size = self.moments, self.moments.share.size
        nu, unit, weights = self.inverse @ m.value, np.eye(size), m.share[:, None] * self.inverse
        delta = self.inverse @ m.inside if self.conditional else np.ones(size)
        value = _blocks(size, a=weights, c=unit * nu - (1.0 - self.gamma) * weights * nu)
        inside = _blocks(size, c=unit)
        if self.conditional:
            inside = _blocks(size, b=weights, c=unit * delta - (1.0 - self.gamma) * weights * delta)
        value[-1, -2] = inside[-1, -1] = 1.0
        tops = np.append(m.share * nu, m.value.sum()), np.append(m.share * delta, m.inside.sum())
        return Totals(*tops, value, inside, self.gamma, (nu, delta))


def tipping_weights(moments: ProxyMoments, reference: int) -> FloatArray:
    """By how much a gap of each group among people with the same probabilities moves each disparity."""
    with np.errstate(divide="ignore", invalid="ignore"):
        steering = np.eye(moments.share.size) - moments.cross / moments.share[:, None]
        if reference == REST:
            return steering / (1.0 - moments.share)[:, None]
    return steering if reference == POPULATION else steering - steering[reference]


def validated(rows: ProxyRows) -> Totals:
    """Known rows, a random sample, correct the weighted sums.

    E_s[1 v y] + lambda (E[p v y] - E_s[p v y]), and likewise with v; lambda is the slope of 1 e on p e among known rows
    with e = v (y - mean), clipped to [0, 1]. One factor for each group: calibrating to all totals at once fails with
    rare groups.
    """
    size, every, known = rows.size, rows.moments(), rows.moments(known=True)
    counts, unit = rows.members() / known.mass, np.eye(rows.size)
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = np.nan_to_num(np.clip(rows.factors(np.nan_to_num(counts[:, 4] / counts[:, 3])), 0.0, 1.0))
    ratio, scaled = every.mass / known.mass, unit * factor
    tops, lines = [], []
    for own, letters, mean, sample in (
        (counts[:, 4], "adg", every.value, known.value),
        (counts[:, 3], "bfh", every.inside, known.inside),
    ):
        constants = (-np.append(factor * mean, mean.sum())[:, None], -ratio * (own - factor * sample)[:, None])
        blocks = dict(zip(letters, (scaled, -ratio * scaled, ratio * unit), strict=True))
        line = _blocks(size, **blocks, k=np.repeat(constants[1], size, axis=1))
        line[:, 2 * size : 3 * size] = constants[0]  # times p, which sums to 1
        tops.append(np.append(own + factor * (mean - sample), mean.sum()))
        lines.append(line)
    lines[0][-1, -2] = lines[1][-1, -1] = 1.0
    return Totals(tops[0], tops[1], lines[0], lines[1])


def by_known_group(rows: ProxyRows) -> Totals:
    """Means by known group, among the rows with one."""
    known, unit = rows.moments(known=True), np.eye(rows.size)
    counts = rows.members() / known.mass
    value, inside = _blocks(rows.size, g=unit), _blocks(rows.size, h=unit)
    value[-1, -2] = inside[-1, -1] = 1.0
    tops = np.append(counts[:, 4], known.value.sum()), np.append(counts[:, 3], known.inside.sum())
    return Totals(*tops, value, inside)


def within_places(rows: ProxyRows) -> Totals:
    """Outcomes do not depend on the name, given group and place: a regression on p within places.

    Cpp and Cpy are sums within places; a = Cpp^+ Cpy, and the mean is a + diag(pi)^-1 (b - M a). Influences are those
    of places, or of clusters of places.
    """
    sums, codes = rows.by_place()
    mass = float(sums[:, :, 0].sum())
    s, cross, n = sums[:, :, 0], sums[:, :, 3:], sums[:, :, 0].sum(1)
    pi, m = s.sum(0) / mass, cross.sum(0) / mass
    within = cross - s[:, :, None] * s[:, None, :] / n[:, None, None]
    inverse = np.linalg.pinv(within.sum(0) / mass, rcond=WITHIN, hermitian=True)
    tops, lines = [], []
    for place in (2, 1):
        product, total = sums[:, :, place], sums[:, :, place].sum(1)
        with_value = product - s * (total / n)[:, None]
        slope = inverse @ (with_value.sum(0) / mass)
        mean = slope + (product.sum(0) / mass - m @ slope) / pi
        pull = (with_value - within @ slope) @ inverse
        line = product - cross @ slope - (mean - slope) * s + pi * pull - pull @ m + s * mean
        added = np.zeros((int(codes.max()) + 1, pi.size + 1))
        np.add.at(added, codes, np.column_stack([line, total]) / mass)
        tops.append(np.append(pi * mean, total.sum() / mass))
        lines.append(added.T)
    return Totals(tops[0], tops[1], lines[0], lines[1])


def number_of_bins(rows: float) -> int:
    """More bins than a hundredth of the rows would narrow the bounds by noise."""
    return int(min(100.0, max(5.0, rows // 100)))
