"""Disparities between groups known only by probability.

pi = E[p], M = E[p p'], b = E[p v y] and d = E[p v] are means over rows, y measured from its center. For the share gamma
of a disparity that remains among people with the same probabilities,

    G = (1 - gamma) diag(pi) + gamma M,   nu = G^-1 b,   delta = G^-1 d,   mean of a group = nu / delta.

gamma = 0 is the probability-weighted mean, gamma = 1 the least-squares regression on the probabilities. Every estimator
here is a smooth function of means over rows: `Totals`, E[1(group) v y] and E[1(group) v]. How a row influences it is
its gradient times what the row adds to these means; `gradient` takes it by a complex step, exact to rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from isonomy.frames.proxies import PARTS, ProxyRows
from isonomy.numerics.arrays import FloatArray

SINGULAR = 1e-12  # least eigenvalue of G relative to diag(pi); below, a group is not identified
WITHIN = 1e-8  # relative cutoff of the pseudo-inverse within places
STEP = 1e-30
POPULATION, REST = -1, -2  # references that are not one of the groups

Means = npt.NDArray[Any]  # like ``ProxyRows.means``, real or complex, with further axes in front


class Totals(NamedTuple):
    """E[1(group) v y] and E[1(group) v] of each group, then of everybody."""

    value: Means
    inside: Means
    everybody: tuple[Means, Means]

    def levels(self, reference: int) -> Means:
        """Each group's mean, and its reference's."""
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = self.value / self.inside
            if reference >= 0:
                return np.stack([mean, np.broadcast_to(mean[..., [reference]], mean.shape)], axis=-2)
            value, inside = (total[..., None] for total in self.everybody)
            out = float(reference == REST)
            other = (value - out * self.value) / (inside - out * self.inside)
            return np.stack([mean, np.broadcast_to(other, mean.shape)], axis=-2)


Estimator = Callable[[Means], Totals]


def gradient(function: Callable[[Means], Means], means: FloatArray) -> FloatArray:
    """The derivative of each number of ``function(means)`` with respect to each mean."""
    steps = 1j * STEP * np.eye(means.size).reshape(-1, *means.shape)
    moved = np.moveaxis(function(means + steps).imag / STEP, 0, -1)
    return np.asarray(moved.reshape(*moved.shape[:-1], *means.shape))


def everybody(means: Means) -> tuple[Means, Means, Means, Means]:
    """pi, d, b and M."""
    total = means.sum(-3)
    return total[..., 0], total[..., 1], total[..., 2], total[..., PARTS:]


class Family:
    """The estimates for one share gamma."""

    def __init__(self, means: FloatArray, gamma: float, *, conditional: bool) -> None:
        self.gamma, self.conditional = gamma, conditional
        share, _, _, cross = everybody(means)
        root = np.sqrt(np.where(share > 0, share, 1.0))
        eigenvalues, vectors = np.linalg.eigh(cross / np.outer(root, root))
        spread = 1.0 - gamma + gamma * eigenvalues
        lifted = np.maximum(spread, SINGULAR)
        inverse = (vectors / lifted) @ vectors.T / np.outer(root, root)
        # What G lacks: the diagonal of groups that nobody can be a member of, and the least eigenvalue.
        self.lift = (vectors * lifted) @ vectors.T * np.outer(root, root) - self._matrix(share, cross)
        self.largest = float(1.0 / max(1.0 - float(eigenvalues[0]), SINGULAR))  # G can be inverted below this share
        self.identified = np.where(share > 0, 1.0 / np.diag(inverse), 0.0)  # as a share of the rows

    def _matrix(self, share: Means, cross: Means) -> Means:
        return (1.0 - self.gamma) * share[..., None] * np.eye(share.shape[-1]) + self.gamma * cross

    def totals(self, means: Means) -> Totals:
        share, inside, value, cross = everybody(means)
        matrix = self._matrix(share, cross) + self.lift
        nu = np.linalg.solve(matrix, value[..., None])[..., 0]
        delta = np.linalg.solve(matrix, inside[..., None])[..., 0] if self.conditional else np.ones_like(nu)
        return Totals(share * nu, share * delta, (value.sum(-1), inside.sum(-1)))


def known_means(means: Means) -> Means:
    rest = np.zeros_like(means[..., :1, :, :])
    known = means[..., 1:, :, :]
    return np.concatenate([rest, known / known[..., 0].sum((-1, -2))[..., None, None, None]], axis=-3)


def by_known_group(means: Means) -> Totals:
    """Means by known group, among the rows with one."""
    known = known_means(means)
    members, total = known[..., 1:, :, :].sum(-2), known.sum((-3, -2))
    return Totals(members[..., 2], members[..., 1], (total[..., 2], total[..., 1]))


def validated(rows: ProxyRows) -> Estimator:
    """Known rows, a random sample, correct the weighted sums.

    E_s[1 v y] + lambda (E[p v y] - E_s[p v y]), and likewise with v; lambda is the slope of 1 e on p e among known rows
    with e = v (y - mean), clipped to [0, 1]. One factor for each group: calibrating to all totals at once fails with
    rare groups.
    """
    by_group = by_known_group(rows.means)
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = np.nan_to_num(np.clip(rows.factors(np.nan_to_num(by_group.value / by_group.inside)), 0.0, 1.0))

    def totals(means: Means) -> Totals:
        known = by_known_group(means)
        # Divided by their total, which is 1: a row adds to it as well.
        _, inside, value, _ = everybody(means / means[..., 0].sum((-1, -2))[..., None, None, None])
        _, known_inside, known_value, _ = everybody(known_means(means))
        return Totals(
            known.value + factor * (value - known_value),
            known.inside + factor * (inside - known_inside),
            (value.sum(-1), inside.sum(-1)),
        )

    return totals


def within_places(sums: FloatArray) -> tuple[Estimator, FloatArray]:
    """Outcomes do not depend on the name, given group and place: a regression on p within places.

    Cpp and Cpy are sums within places; a = Cpp^+ Cpy, and the mean is a + diag(pi)^-1 (b - M a). ``sums`` are those of
    places; returned with the estimator is what each place adds to the means that it takes.
    """
    size, of_place = sums.shape[1], sums[:, :, 0].sum(1)[:, None, None]
    between = sums[:, :, :1] * np.concatenate([sums[:, :, 1:PARTS].sum(1), sums[:, :, 0]], axis=1)[:, None] / of_place
    features = np.concatenate([sums, sums[:, :, 1:] - between], axis=2)
    eigenvalues, vectors = np.linalg.eigh(features.sum(0)[:, -size:])
    vectors = vectors[:, eigenvalues > WITHIN * eigenvalues[-1]]

    def totals(means: Means) -> Totals:
        share, inside, value, cross = everybody(means[..., : PARTS + size])
        within = means.sum(-3)[..., -size - 2 :]
        slopes = vectors @ np.linalg.solve(vectors.T @ within[..., 2:] @ vectors, vectors.T @ within[..., :2])
        total = np.stack([inside, value], axis=-1) - cross @ slopes + share[..., None] * slopes
        return Totals(total[..., 1], total[..., 0], (value.sum(-1), inside.sum(-1)))

    return totals, features


def checks(means: Means, families: Sequence[Family], reference: int) -> Means:
    """Among known rows: observed less stated shares, the slope of membership on p, what each family misses."""
    known = known_means(means)
    stated, _, _, cross = everybody(known)
    observed, both = known[..., 1:, :, 0].sum(-1), np.diagonal(known[..., 1:, :, 0], axis1=-2, axis2=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = (both - observed * stated) / (np.diagonal(cross, axis1=-2, axis2=-1) - stated**2)
    lines = [observed - stated, slope]
    for totals in (family.totals(known) for family in families):
        missed = by_known_group(means).levels(reference) - totals.levels(reference)
        lines.append(missed[..., 0, :] - missed[..., 1, :])
    return np.stack(lines, axis=-2)
