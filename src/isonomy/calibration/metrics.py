"""How well calibrated scores are, and how alike across groups: before and after a correction, on held-out users.

The paper's section 7 measures: non-parametric calibration error, parity error, AUC and expected calibration error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isonomy.calibration.compare import default_grid
from isonomy.calibration.plan import Plan, solve
from isonomy.calibration.result import Frozen
from isonomy.calibration.smoothing import Bandwidth, Floats, own_bandwidth, own_grid
from isonomy.calibration.tally import Family, Roles, tally
from isonomy.errors import UsageError, fraction
from isonomy.frames import open_source
from isonomy.numerics.randomness import resolve
from isonomy.results.shape import FRAME_LIBRARIES, as_frame

ECE_BINS = 10


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class CalibrationMetrics(Frozen):
    """One line for each score and group (``overall`` first): see `calibration_metrics`."""

    score: tuple[str, ...]
    group: tuple[str, ...]
    size: Floats  # rows
    calibration_error: Floats
    parity_error: Floats
    ece: Floats
    auc: Floats
    dropped: Mapping[str, int]  # rows left out, by the column whose value is missing
    backend: str = "polars"

    def to_frame(self, backend: str | None = None) -> Any:
        """The table in the caller's library (pandas, polars or pyarrow); polars for any other input."""
        mine = self.backend if self.backend in FRAME_LIBRARIES else "polars"
        columns = {
            name: getattr(self, name)
            for name in ("score", "group", "size", "calibration_error", "parity_error", "ece", "auc")
        }
        return as_frame(columns, backend or mine)


def calibration_metrics(
    data: Any,
    *,
    outcome: str,
    score: str | Sequence[str] | Mapping[str, str],
    groups: Any,
    user: str | None = None,
    level: str | None = None,
    grid: Sequence[float] | Floats | None = None,
    bandwidth: float | None = None,
    count: str | None = None,
    missing: str = "raise",
    missing_group: str = "raise",
) -> CalibrationMetrics:
    """How far are scores from outcomes, and groups from one another, before and after a correction?

    Parameters
    ----------
    data
        Rows that neither the model nor the calibrator has seen; split by user (`split_users`), never by row.
    score
        One column, several, or names for them, such as ``{"before": "s", "after": "s_calibrated"}``.
    groups, user, level, grid, bandwidth
        As in `predictive_parity`; one set of groups. The default grid has quantiles of each score.

    Returns
    -------
    CalibrationMetrics
        For each score, overall and by group. ``calibration_error``: mean over the grid of abs(f_g(s) - s), summed over
        groups in the overall line (the paper's Table 1). ``parity_error``: mean over the grid of abs(f_g(s) - f_h(s)),
        summed over ordered pairs in the overall line (Table 2), over the other groups in a group's. ``ece``: expected
        calibration error with 10 equal-width bins. ``auc``, for outcomes of 0 and 1. All use the votes of the level; f
        is Nadaraya-Watson at the paper's bandwidth. ``dropped`` counts rows left out.

    Examples
    --------
    >>> import numpy as np
    >>> from isonomy.calibration import calibration_metrics
    >>> rng = np.random.default_rng(0)
    >>> s, g = rng.random(5000), np.repeat(["a", "b"], 2500)
    >>> data = {"s": s, "worse": s**2, "g": g, "y": rng.random(5000) < s}
    >>> found = calibration_metrics(data, outcome="y", score=["s", "worse"], groups="g")
    >>> bool(found.ece[0] < found.ece[3])
    True
    """
    source = open_source(data, count=count, missing=missing, missing_group=missing_group)
    named = {score: score} if isinstance(score, str) else score
    named = dict(named) if isinstance(named, Mapping) else {name: name for name in named}
    lines: list[tuple[str, str, float, float, float, float, float]] = []
    dropped: dict[str, int] = {}
    for name, column in named.items():
        roles = Roles.of(source, outcome, column, groups, user, level, 1)
        table = tally(source, roles)
        if len(table.families) != 1:
            raise UsageError("groups: give one column (or one named condition).")
        family = table.families[0]
        values = _measure(family, own_grid(grid), bandwidth)
        dropped |= table.dropped
        labels = ["overall", *(group.label for group in family.groups)]
        sizes = [family.size.sum(), *family.size]
        lines += [(name, label, n, *line) for label, n, line in zip(labels, sizes, values.tolist(), strict=True)]
    names, groups_named, *numbers = zip(*lines, strict=True)
    size, calibration_error, parity_error, ece, auc = (np.array(column, dtype=np.float64) for column in numbers)
    return CalibrationMetrics(
        score=names,
        group=groups_named,
        size=size,
        calibration_error=calibration_error,
        parity_error=parity_error,
        ece=ece,
        auc=auc,
        dropped=dropped,
        backend=source.backend,
    )


def _measure(family: Family, grid: Floats | None, bandwidth: object) -> Floats:
    """Lines overall and by group; columns calibration error, parity error, ECE, AUC."""
    weight, total = family.rows.histogram()
    points = default_grid(family, weight.sum(axis=0)) if grid is None else grid
    width = Bandwidth(family.axis, family.average, own_bandwidth(bandwidth, points), points).at(points)
    plan = Plan(points, width, 0)
    curve = solve(plan, family.rows.totals(plan)).mean
    own = np.abs(curve - points).mean(axis=1)
    apart = np.abs(curve[:, None] - curve[None, :]).mean(axis=2).sum(axis=1)
    groups = len(family.groups)
    found = np.empty((groups + 1, 4))
    found[0, :2], found[1:, 0], found[1:, 1] = (own.sum(), apart.sum()), own, apart
    for g in range(groups + 1):
        w, t = (weight.sum(axis=0), total.sum(axis=0)) if g == 0 else (weight[g - 1], total[g - 1])
        found[g, 2:] = _ece(family.axis.centres, w, t), _auc(w, t) if family.binary else float("nan")
    return found


def _ece(score: Floats, weight: Floats, total: Floats) -> float:
    """Guo et al. (2017): bins of equal width; on the fine axis a score is off by at most half of one of its bins."""
    low, high = score[0], score[-1]
    place = np.minimum((ECE_BINS * (score - low) / (high - low)).astype(np.intp), ECE_BINS - 1)
    gap = np.bincount(place, total - weight * score, ECE_BINS)
    return float(np.abs(gap).sum() / weight.sum())


def _auc(weight: Floats, total: Floats) -> float:
    """Chance that a positive scores above a negative, ties (in a bin of the fine axis) counting half."""
    positive, negative = total, weight - total
    below = np.cumsum(negative) - negative / 2
    pairs = positive.sum() * negative.sum()
    return float(positive @ below / pairs) if pairs > 0 else float("nan")


def split_users(
    user: ArrayLike, *, held_out: float = 0.5, rng: int | np.random.Generator | None = None
) -> NDArray[np.bool_]:
    """Mark a random share of users as held out: True for all rows of a held-out user.

    Rows of one user are alike; splitting them between fit and test would make a calibrator look better than it is.

    >>> from isonomy.calibration import split_users
    >>> split_users(["a", "b", "a", "c", "b"], held_out=0.5, rng=0).sum() in (1, 2, 3)
    True
    """
    fraction("held_out", held_out)
    values = np.asarray(user)
    found, code = np.unique(values.astype(str) if values.dtype == object else values, return_inverse=True)
    if found.size < 2:
        raise UsageError("user: a split needs at least two users.")
    generator, _ = resolve(rng)
    chosen = np.zeros(found.size, dtype=bool)
    many = min(max(1, round(held_out * found.size)), found.size - 1)
    chosen[generator.permutation(found.size)[:many]] = True
    return chosen[code]
