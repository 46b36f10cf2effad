"""How well calibrated scores are, and how alike across groups: before and after a correction, on held-out users.

The paper's section 7 measures: non-parametric calibration error, parity error, AUC and expected calibration error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import ArrayLike, NDArray

from isonomy.calibration import wording
from isonomy.calibration.compare import default_grid
from isonomy.calibration.engine import GROUP, OUTCOME, SCORE, VOTE, Engine
from isonomy.calibration.memory import Memory
from isonomy.calibration.plan import Plan, solve
from isonomy.calibration.result import Frozen
from isonomy.calibration.smoothing import Bandwidth, own_bandwidth, own_grid
from isonomy.calibration.tally import Family, Roles, tally
from isonomy.errors import UsageError, fraction
from isonomy.frames import aggregate, collect, open_source
from isonomy.numerics.arrays import FloatArray
from isonomy.numerics.randomness import resolve
from isonomy.results.shape import FRAME_LIBRARIES, as_frame

ECE_BINS = 10
ROUNDING = 1e-9  # of a bin, or of all votes: engines add votes up in other orders, and must come to the same bins


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class CalibrationMetrics(Frozen):
    """One line for each score and group (``overall`` first): see `calibration_metrics`."""

    score: tuple[str, ...]
    group: tuple[str, ...]
    size: FloatArray  # rows
    calibration_error: FloatArray
    parity_error: FloatArray
    ece: FloatArray
    auc: FloatArray
    dropped: Mapping[str, int]  # rows left out, by the column whose value is missing
    backend: str = "polars"
    warnings: tuple[str, ...] = ()  # why some numbers are NaN

    def to_frame(self, backend: str | None = None) -> Any:
        """The table in the caller's library (pandas, polars or pyarrow); polars for any other input."""
        if backend is None:
            backend = self.backend if self.backend in FRAME_LIBRARIES else "polars"
        columns = {
            name: getattr(self, name)
            for name in ("score", "group", "size", "calibration_error", "parity_error", "ece", "auc")
        }
        return as_frame(columns, backend)


def calibration_metrics(
    data: Any,
    *,
    outcome: str,
    score: str | Sequence[str] | Mapping[str, str],
    groups: Any,
    user: str | None = None,
    level: str | None = None,
    grid: Sequence[float] | FloatArray | None = None,
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
        calibration error, the mean over 10 bins of abs(mean outcome - mean score): bins of equal width for scores in
        [0, 1] (Guo et al., 2017), otherwise of a tenth of the line's votes each, in order of the score and with equal
        scores never apart, so that one score far out moves no bin. ``auc``, for outcomes of 0 and 1: the chance that a
        positive scores above a negative, equal scores counting half. Both are exact on every engine. All use the votes
        of the level; f is Nadaraya-Watson at the paper's bandwidth (scaled to where most scores lie, if some are not
        in [0, 1]). ``dropped`` counts rows left out. ``warnings`` says
        why numbers are NaN.

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
    named = _named(score)
    said: list[str] = []
    lines: list[tuple[str, str, float, float, float, float, float]] = []
    dropped: dict[str, int] = {}
    for name, column in named.items():
        roles = Roles.of(source, outcome, column, groups, user, level, 1)
        table = tally(source, roles)
        if len(table.families) != 1:
            raise UsageError("groups: give one column (or one named condition).")
        family = table.families[0]
        labels = ["overall", *(group.label for group in family.groups)]
        values, far, points = _measure(family, own_grid(grid), bandwidth)
        said += wording.metric_warnings(name, labels, far, points, values[:, 3], family.binary)
        dropped |= table.dropped
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
        warnings=tuple(said),
    )


def _named(score: object) -> dict[str, str]:
    """Score columns by the name they are reported under."""
    if isinstance(score, str):
        return {score: score}
    if isinstance(score, Mapping):
        named = dict(score)
    else:
        named = {name: name for name in score} if isinstance(score, (Sequence, np.ndarray)) else {}
    if not named or not all(isinstance(name, str) for name in named):
        raise UsageError(
            f"score: {score!r} is not allowed; give a column, several, or names for them such as "
            '{"before": "s", "after": "s_calibrated"}.'
        )
    return named


def _measure(family: Family, grid: FloatArray | None, bandwidth: object) -> tuple[FloatArray, NDArray[np.intp], int]:
    """Lines overall and by group, columns calibration error, parity error, ECE, AUC; points far from each group."""
    points = default_grid(family, family.rows.histogram()[0].sum(axis=0)) if grid is None else grid
    axis = family.axis.published if family.axis.unit else family.axis
    width = Bandwidth(axis, family.average, own_bandwidth(bandwidth, points), points).at(points)
    plan = Plan(points, width, 0)
    curve = solve(plan, family.rows.totals(plan)).mean
    own = np.abs(curve - points).mean(axis=1)
    apart = np.abs(curve[:, None] - curve[None, :]).mean(axis=2).sum(axis=1)
    found = np.empty((len(family.groups) + 1, 4))
    found[0, :2], found[1:, 0], found[1:, 1] = (own.sum(), apart.sum()), own, apart
    rows, unit = family.rows, family.axis.unit
    found[:, 2:] = _in_memory(rows, unit) if isinstance(rows, Memory) else _in_engine(rows, unit)
    if not family.binary:
        found[:, 3] = np.nan
    return found, np.count_nonzero(np.isnan(curve), axis=1), points.size


def _in_memory(rows: Memory, unit: bool) -> FloatArray:
    """ECE and AUC of everybody, then of each group. ``unit``: scores lie in [0, 1]."""
    parts = [slice(0, rows.score.size), *(slice(a, b) for a, b in pairwise(rows.offsets))]
    found = []
    for part in parts:
        score, rank = np.unique(rows.score[part], return_inverse=True)
        vote = rows.vote[part]
        weight, total = np.bincount(rank, vote), np.bincount(rank, vote * rows.outcome[part])
        reached, passed = np.cumsum(weight), np.cumsum(weight - total)
        votes = float(weight.sum())
        place = score if unit else (reached - weight) / votes
        bins = np.minimum(np.floor(place * ECE_BINS + (0.0 if unit else ROUNDING)), ECE_BINS - 1)
        gap = np.bincount(bins.astype(np.intp), total - weight * score).astype(np.float64)
        pairs = float(total @ (passed - (weight - total) / 2))
        found.append(_ece_and_auc(gap, votes, float(total.sum()), pairs))
    return np.array(found)


def _in_engine(rows: Engine, unit: bool) -> FloatArray:
    """The same; the engine sums by score, ranks the scores and sums again, so that no row leaves it."""
    found = []
    weight, total, score = nw.col("weight"), nw.col("total"), nw.col("score")
    negative = weight - total
    for frame, size in ((rows.frame.with_columns(nw.lit(0).alias(GROUP)), 1), (rows.frame, rows.size)):
        keys = {"group": nw.col(GROUP), "score": nw.col(SCORE)}
        values: Any = aggregate(frame, keys, {"weight": nw.col(VOTE), "total": nw.col(VOTE) * nw.col(OUTCOME)})
        ranked = values.with_columns(negative.alias("negative")).with_columns(
            weight.cum_sum().over("group", order_by="score").alias("reached"),
            nw.col("negative").cum_sum().over("group", order_by="score").alias("passed"),
            weight.sum().over("group").alias("all"),
        )
        place = score if unit else (nw.col("reached") - weight) / nw.col("all")
        bins = (place * ECE_BINS + (0.0 if unit else ROUNDING)).floor().clip(0, ECE_BINS - 1)
        pairs = total * (nw.col("passed") - nw.col("negative") / 2)
        summed = {"weight": weight, "total": total, "gap": total - weight * score, "pairs": pairs}
        cells = collect(aggregate(ranked, {"group": nw.col("group"), "bin": bins}, summed))
        home = cells["group"].to_numpy().astype(np.intp)
        for g in range(size):
            mine = cells.filter(home == g)
            votes, positive, all_pairs = (float(mine[name].sum()) for name in ("weight", "total", "pairs"))
            found.append(_ece_and_auc(mine["gap"].to_numpy(), votes, positive, all_pairs))
    return np.array(found)


def _ece_and_auc(gap: FloatArray, votes: float, positive: float, pairs: float) -> tuple[float, float]:
    """From outcomes less scores by bin; votes; votes of positives; pairs of which the positive scores higher."""
    if not votes > 0:
        return float("nan"), float("nan")
    every = positive * (votes - positive)
    # Votes of 1/n add up to whole numbers only almost: a line with one outcome must not seem to have two.
    known = min(positive, votes - positive) > ROUNDING * votes
    return float(np.abs(gap).sum() / votes), pairs / every if known else float("nan")


def split_users(
    user: ArrayLike, *, held_out: float = 0.5, rng: int | np.random.Generator | None = None
) -> NDArray[np.bool_]:
    """Mark a random share of users as held out: True for all rows of a held-out user.

    Rows of one user are alike; splitting them between fit and test would make a calibrator look better than it is.
    Rows without a user are refused: they are not all one person.

    >>> from isonomy.calibration import split_users
    >>> split_users(["a", "b", "a", "c", "b"], held_out=0.5, rng=0).sum() in (1, 2, 3)
    True
    """
    from isonomy.calibration.columns import user_codes

    fraction("held_out", held_out)
    series = nw.from_native(user, series_only=True, pass_through=True)
    # A list stays what it is: as one array 1 and "1" would be the same, and large whole numbers not all different.
    kept = object if isinstance(user, (list, tuple)) else None
    values = series if isinstance(series, nw.Series) else np.asarray(user, dtype=kept)
    if len(values.shape) != 1:
        raise UsageError(f"user: {len(values.shape)} dimensions are not allowed; give one user a row.")
    code = user_codes(values, "user") if len(values) else np.empty(0, dtype=np.intp)
    size = int(code.max()) + 1 if code.size else 0
    if size < 2:
        raise UsageError("user: a split needs at least two users.")
    generator, _ = resolve(rng)
    chosen = np.zeros(size, dtype=bool)
    many = min(max(1, round(held_out * size)), size - 1)
    chosen[generator.permutation(size)[:many]] = True
    return chosen[code]
