"""What one row adds to a group's disparity, for the variance of rows with weights or clusters."""

from __future__ import annotations

import numpy as np

from isonomy.frames import Design
from isonomy.inference.designs import Influence, Spread, covariance, spread
from isonomy.likelihood.ratio.means import Means
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray


def alone(codes: IntArray, value: FloatArray, own: Means, groups: int) -> Influence:
    """Against a reference without error: (x - mean) / mass in each group."""
    return Influence.of_groups(codes, _own(codes, value, own), groups)


def against(codes: IntArray, value: FloatArray, own: Means, groups: int, reference: FloatArray) -> Influence:
    """Against a reference on which each line has the influence ``reference``, NaN for lines that have none."""
    reached = ~np.isnan(reference)
    base, loading = np.where(reached, reference, 0.0)[:, None], np.full((1, groups), -1.0)
    return Influence.of_groups(codes, _own(codes, value, own), groups, base, loading, reached)


def against_rest(codes: IntArray, value: FloatArray, own: Means, groups: int, inside: BoolArray) -> Influence:
    """Against all rows outside the group, whose mean m and mass V differ from group to group.

    A line outside has -(x - m) / V. Written for all lines it is a base of (x - centre) and 1, and what a line of the
    group has too much by it is taken back in its own part.
    """
    total = own.n * np.nan_to_num(own.mean)
    centre = float(total.sum() / own.n.sum())
    with np.errstate(all="ignore"):
        others = own.n.sum() - own.n
        mean = (total.sum() - total) / others
    mean, others = mean[:groups], np.where(others > 0, others, np.nan)[:groups]
    own_part = _own(codes, value, own) + (value - mean[codes]) / others[codes]
    base = np.where(inside[:, None], np.column_stack([value - centre, np.ones(value.size)]), 0.0)
    return Influence.of_groups(
        codes, own_part, groups, base, np.stack([-1.0 / others, (mean - centre) / others]), inside
    )


def pair_effect(
    design: Design, influence: Influence, variance: FloatArray, first: IntArray, second: IntArray
) -> tuple[FloatArray, Spread]:
    """The design effect on differences of two groups, which vary together where clusters are in both.

    ``variance`` is what each group's estimate is assumed to have. With the spread of each group alone.
    """
    joint, totals = covariance(design, influence), spread(design, influence)
    actual = joint[first, first] + joint[second, second] - 2.0 * joint[first, second]
    assumed = variance[first] + variance[second]
    with np.errstate(all="ignore"):
        return np.where(assumed > 0, actual / assumed, (totals.squared_mass / totals.mass)[first]), totals


def _own(codes: IntArray, value: FloatArray, own: Means) -> FloatArray:
    with np.errstate(all="ignore"):
        return (value - own.mean[codes]) / own.n[codes]
