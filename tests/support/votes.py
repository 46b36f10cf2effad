"""Sums over rows at sites of the score axis, for tests of smoothing."""

from __future__ import annotations

from typing import Any

import numpy as np

from isonomy.frames import Group
from isonomy.scores.smoothing.comparisons import covariances
from isonomy.scores.smoothing.kernels import Axis
from isonomy.scores.smoothing.moments import VoteMoments

AXIS = Axis.between(0.0, 1.0)


def groups(size: int) -> tuple[Group, ...]:
    return tuple(Group.from_mapping({"g": g}) for g in range(size))


def moments(code: Any, size: int, *rows: Any, binary: bool = True, **options: Any) -> VoteMoments:
    """The sums of scores in [0, 1], outcomes and votes, optionally with lines and users."""
    return VoteMoments.from_rows("g", groups(size), binary, AXIS, np.asarray(code), *rows, **options)


def covariance(moments: Any, functionals: Any) -> Any:
    """Covariance of numbers to which the first two groups add their functionals."""
    sums = covariances(moments, (0, 1), functionals)
    return sums.sum(axis=0) + sums[2].T
