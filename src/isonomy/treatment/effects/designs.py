"""Rows with weights, propensities, strata or clusters: their masses, and the influence of each on errors and biases.

Known propensities and strata of the randomisation are weights: a treated row stands for 1 / p people of its group, a
control row for 1 / (1 - p). Means are then those of the masses (Hajek), and every estimate is a smooth function of
them. Its variance is the sum over clusters of squared sums of influences, as in `isonomy.inference.designs`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from isonomy.frames.design import Design
from isonomy.inference.designs import Influence, Law, Spread, spread
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray
from isonomy.treatment.effects.collapse import Formula, Pieces
from isonomy.treatment.effects.errors import Errors, pieces_of
from isonomy.treatment.effects.moments import Moments, column
from isonomy.treatment.effects.ratio import Gap, Ratio, of_others
from isonomy.treatment.effects.sums import Lines


def scaled(design: Design | None, rows: FloatArray, factor: FloatArray) -> Design:
    """A design with every line's mass multiplied by ``factor``."""
    base = Design(rows, rows, rows, rows, None) if design is None else design
    return base.scaled(factor)


def shares_within(group: IntArray, stratum: IntArray, arm: IntArray, mass: FloatArray) -> FloatArray:
    """The treated share of each line's stratum within its group; 0 or 1 where the stratum has one arm."""
    _, cell = np.unique(group * (int(stratum.max(initial=0)) + 1) + stratum, return_inverse=True)
    total, treated = np.bincount(cell, mass), np.bincount(cell, mass * arm)
    share: FloatArray = (treated / total)[cell]
    return share


@dataclass(frozen=True, slots=True, eq=False)
class Strata:
    """Strata of the randomisation, line by line: all 0 where there are none; and the chance of each line's own arm."""

    code: IntArray
    chance: FloatArray


def laws_of(
    lines: Lines, design: Design, errors: Errors, formula: Formula, moments: Moments, strata: Strata
) -> tuple[Law, Law, Spread]:
    """The laws of the errors and of the biases of one partition, and the sums over clusters behind the latter.

    ``lines`` has that partition alone.
    """
    ((group, groups),) = lines.groups
    own = pieces_of(moments, formula)
    bottom, parts = own.bottom, _parts(lines, own, moments, strata)
    size = moments.n.sum(-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        b = errors.error.value
        error = np.nan_to_num((parts[0] - b[group] * parts[1]) / bottom.value[group])
        usable, rest = errors.in_rest, errors.rest
        total = of_others(size, usable) * rest.bottom
        base = _base(parts, own, size, group, usable)
        loading = np.nan_to_num(np.stack([-1 / total, rest.value / total]))
    shared = np.einsum("li,il->l", base, loading[:, group])
    gap = Gap(errors.error, errors.rest)
    alone = spread(design, Influence.of_groups(group, error, groups))
    both = spread(design, Influence.of_groups(group, error - shared, groups, base, loading, usable[group]))
    return alone.law(errors.error.variance), both.law(gap.se**2), both


def together(lines: Lines, design: Design, errors: Errors, formula: Formula, moments: Moments, strata: Strata) -> Ratio:
    """All groups as one, under the law of the design; ``errors`` are those without it."""
    ((group, _),) = lines.groups
    own, size = pieces_of(moments, formula), moments.n.sum(-1)
    base = _base(_parts(lines, own, moments, strata), own, size, group, errors.usable)
    whole = errors.error.together(size, errors.usable)
    with np.errstate(divide="ignore", invalid="ignore"):
        influence = (base[:, 0] - whole.value * base[:, 1]) / (whole.bottom * size[errors.usable].sum())
    law = spread(design, Influence.of(np.nan_to_num(influence))).law(whole.variance)
    return whole.under(law.effect, law.df)


def _parts(lines: Lines, own: Pieces, moments: Moments, strata: Strata) -> tuple[FloatArray, FloatArray]:
    """What a unit of each line's mass adds to the top and to the bottom of its group's error.

    Within strata, apart from what its stratum adds to both arms.
    """
    ((group, _),) = lines.groups
    values = np.stack([lines.values(column(name)) for name in moments.columns], -1)
    top, bottom = (
        _centred(values, lines, group, lines.arm, strata, moments, piece.gradient)
        for piece in (own.predicted - own.observed, own.bottom)
    )
    return top, bottom


def _base(
    parts: tuple[FloatArray, FloatArray], own: Pieces, size: FloatArray, group: IntArray, usable: BoolArray
) -> FloatArray:
    """What a unit of each line's mass adds to the sums over groups of size times top, and of size times bottom."""
    tops = (own.predicted.value - own.observed.value, own.bottom.value)
    base = np.stack([size[group] * part + top[group] for part, top in zip(parts, tops, strict=True)], -1)
    return np.nan_to_num(base * usable[group][:, None])


def _centred(
    values: FloatArray,
    lines: Lines,
    group: IntArray,
    arm: IntArray,
    strata: Strata,
    moments: Moments,
    gradient: FloatArray | None,
) -> FloatArray:
    """The influence of one unit of each line's mass on a smooth function of arm means."""
    assert gradient is not None
    n = np.maximum(moments.n, 1e-300)
    if not strata.code.any():
        centred = values - moments.mean[group, arm]
        return np.einsum("lk,lk->l", gradient[group, arm], centred) / n[group, arm]
    width = int(strata.code.max()) + 1
    cell = group * width + strata.code
    place = cell * 2 + arm
    cells = moments.n.shape[0] * width
    mass = np.bincount(place, lines.weight, 2 * cells).reshape(cells, 2)
    sums = [np.bincount(place, lines.weight * v, 2 * cells).reshape(cells, 2) for v in values.T]
    mean = np.stack(sums, -1) / np.maximum(mass, 1e-300)[..., None]
    owner = np.arange(cells) // width
    within = np.einsum("lk,lk->l", gradient[group, arm], values - mean[cell, arm]) / n[group, arm]
    # A row of a stratum moves the stratum's share, and with it the means of both arms. A row has mass 1 / chance.
    between = (np.einsum("cak,cak->ca", gradient[owner], mean - moments.mean[owner]) / n[owner]).sum(-1)
    return within + between[cell] * strata.chance
