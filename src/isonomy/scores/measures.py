"""Measures of calibration: how far scores are from outcomes, and groups from one another. Nothing is tested."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Unpack

import narwhals as nw
import numpy as np

from isonomy.errors import UsageError
from isonomy.frames import Group, Groups, Request, aggregate
from isonomy.frames.groups import ROW_COUNT, ROW_GROUP, with_groups
from isonomy.frames.sums import sums_at
from isonomy.inference.designs import count_clusters
from isonomy.numerics.arrays import FloatArray
from isonomy.options import Column, Names, Positive, RowOptions
from isonomy.results import Columns, Note, Provenance, column, note_if, open_call, phrases, question
from isonomy.results.columns import columns_of, join_tables
from isonomy.results.evidence import as_frame, read_only
from isonomy.scores.read import (
    COUNTED,
    OUTCOME,
    SCORE,
    USER,
    VOTE,
    Level,
    ScorePlan,
    ScoreRows,
    ScoreSums,
    read_sums,
    refuse_several,
)
from isonomy.scores.smoothing.comparisons import fit_curves
from isonomy.scores.smoothing.kernels import Axis, Smoother

OVERALL = "overall"
ECE_BINS = 10
ROUNDING = 1e-9  # of a bin, or of all votes: engines sum votes in different orders, and must find the same bins


# ---- call


@question("MetricsPlan", asks="How well calibrated is a score in each group?", topic="Calibration")
def calibration_metrics(
    data: object = None,
    *,
    outcome: Column,
    score: Names | Mapping[str, str],
    groups: Groups,
    user: Column | None = None,
    level: Level | None = None,
    grid: float | Sequence[float] | None = None,
    bandwidth: Positive | Sequence[Positive] | None = None,
    **rows: Unpack[RowOptions],
) -> CalibrationMetrics:
    """How far are scores from outcomes, and groups from one another, before and after a correction?

    Parameters
    ----------
    data : table
        Rows that neither the model nor the calibrator has seen; split by user (`split_users`), never by row.
    outcome, user, level, grid, bandwidth
        As in `predictive_parity`. The default grid has quantiles of each score.
    score : str, sequence of str or mapping of str to str
        One column, several, or names for them, such as ``{"before": "s", "after": "s_calibrated"}``.
    groups : str, cut or where
        One set of groups.
    **rows
        count, weight, cluster, missing, missing_group: see `isonomy.RowOptions`. ``cluster`` changes no measure; it
        adds the number and the effective number of clusters of each group.

    Returns
    -------
    CalibrationMetrics
        ``to_frame()`` has one row for each score, overall and by group. ``calibration_error``: mean over the grid of
        abs(f_g(s) - s), summed over groups in the overall row (the paper's Table 1). ``parity_error``: mean over the
        grid of abs(f_g(s) - f_h(s)), summed over ordered pairs in the overall row (Table 2) and over the other groups
        in the row of a group. f is the Nadaraya-Watson estimate at the paper's bandwidth. ``ece``: expected calibration
        error, the mean over 10 bins of abs(mean outcome - mean score); bins of equal width for scores in [0, 1] (Guo et
        al., 2017), otherwise bins with a tenth of the votes each. ``auc``, for outcomes of 0 and 1: the probability
        that a positive scores above a negative; equal scores count half. All measures use the votes of the level, and
        ``warnings`` explains why numbers are NaN.

    Notes
    -----
    When it misleads: on rows that the calibrator was fitted on, every error looks small. Nothing is tested, so a small
    difference may be due to chance.

    References
    ----------
    C. DiCiccio, B. Hsu, Y. Yu, P. Nandy, K. Basu, "Detection and Mitigation of Algorithmic Bias via Predictive Rate
    Parity", section 7. C. Guo, G. Pleiss, Y. Sun, K. Q. Weinberger, "On calibration of modern neural networks", 2017.

    Examples
    --------
    >>> import numpy as np
    >>> from isonomy.scores import calibration_metrics
    >>> rng = np.random.default_rng(0)
    >>> s, g = rng.random(5000), np.repeat(["a", "b"], 2500)
    >>> data = {"s": s, "worse": s**2, "g": g, "y": rng.random(5000) < s}
    >>> metrics = calibration_metrics(data, outcome="y", score=["s", "worse"], groups="g")
    >>> bool(metrics.ece[0] < metrics.ece[3])
    True
    """
    plan, _, record = open_call("calibration_metrics", MetricsPlan, locals())
    sums = {name: read_sums(rows) for name, rows in plan.scores.items()}
    columns, known = estimate(sums, plan)
    if plan.source.cluster is not None:
        grouping = next(iter(plan.scores.values())).grouping
        clusters = {label: both for label, *both in count_clusters(plan.source, grouping, OVERALL)}
        numbers = np.array([clusters.get(label, (0, np.nan)) for label in columns["group"]], dtype=float).T
        columns |= dict(zip(("clusters", "effective_clusters"), numbers, strict=True))
    dropped = {name: n for part in sums.values() for name, n in part.dropped.items()}
    rows_read = max(part.rows for part in sums.values())
    return CalibrationMetrics(
        **columns,
        notes=known,
        provenance=record(rows=rows_read, dropped=dropped, random=False),
    )


# ---- plan


@dataclass(frozen=True, eq=False, kw_only=True)
class MetricsPlan(ScorePlan):
    def __post_init__(self) -> None:
        for rows in self.scores.values():
            refuse_several(rows.grouping)
        _ = self.points

    @cached_property
    def scores(self) -> dict[str, ScoreRows]:
        score = [self.score] if isinstance(self.score, str) else self.score
        if isinstance(score, Mapping):
            columns = dict(score)
        else:
            listed = isinstance(score, (Sequence, np.ndarray)) and all(isinstance(name, str) for name in score)
            columns = {name: name for name in score} if listed else {}
        if not columns or not all(isinstance(name, str) for name in columns):
            raise UsageError(
                f"score: {self.score!r} is not allowed; give a column, several, or names for them such as "
                '{"before": "s", "after": "s_calibrated"}.'
            )
        return {name: self.reading(str(self.outcome), column) for name, column in columns.items()}

    @property
    def requests(self) -> tuple[Request, ...]:
        return tuple(request for rows in self.scores.values() for request in rows.requests)


# ---- read


def read_ranks(rows: ScoreRows, groups: tuple[Group, ...], axis: Axis) -> FloatArray:
    """ECE and AUC of everybody, then of each group: sums by score are ranked, and summed again."""
    source = rows.source
    labels = {} if rows.user is None else {USER: rows.user}
    counted = {} if source.count is None else {COUNTED: source.count}
    numbers = {SCORE: rows.score, OUTCOME: rows.outcome, **counted}
    frame = source.complete_rows(numbers, labels, rows.grouping)
    frame = frame if counted else frame.with_columns(nw.lit(1.0).alias(COUNTED))
    vote = nw.col(ROW_COUNT) / nw.col(COUNTED).sum().over(USER) if rows.level == "user" else nw.col(ROW_COUNT)
    frame = with_groups(frame.with_columns(vote.alias(VOTE)), rows.grouping, groups)
    weight, total, score = nw.col("weight"), nw.col("total"), nw.col("score")
    lines = []
    for part, size in ((frame.with_columns(nw.lit(0).alias(ROW_GROUP)), 1), (frame, len(groups))):
        keys = {"group": nw.col(ROW_GROUP), "score": nw.col(SCORE)}
        by_score = aggregate(part, keys, {"weight": nw.col(VOTE), "total": nw.col(VOTE) * nw.col(OUTCOME)})
        ranked = by_score.with_columns((weight - total).alias("negative")).with_columns(
            weight.cum_sum().over("group", order_by="score").alias("reached"),
            nw.col("negative").cum_sum().over("group", order_by="score").alias("passed"),
            weight.sum().over("group").alias("all"),
        )
        place = score if axis.unit else (nw.col("reached") - weight) / nw.col("all")
        bins = (place * ECE_BINS + (0.0 if axis.unit else ROUNDING)).floor().clip(0, ECE_BINS - 1)
        pairs = total * (nw.col("passed") - nw.col("negative") / 2)
        values = {"weight": weight, "total": total, "gap": total - weight * score, "pairs": pairs}
        sums = sums_at(ranked, {"group": (nw.col("group"), size), "bin": (bins, ECE_BINS)}, values)
        votes, positive, above = (sums[name].sum(axis=1) for name in ("weight", "total", "pairs"))
        # Votes of 1/n add up to whole numbers only almost: a group with one outcome must not seem to have two.
        mixed = np.minimum(positive, votes - positive) > ROUNDING * votes
        with np.errstate(divide="ignore", invalid="ignore"):
            auc = np.where(mixed, above / (positive * (votes - positive)), np.nan)
            lines.append(np.stack([np.abs(sums["gap"]).sum(axis=1) / np.where(votes > 0, votes, np.nan), auc], axis=1))
    return np.concatenate(lines)


# ---- estimate


def estimate(sums: Mapping[str, ScoreSums], plan: MetricsPlan) -> tuple[dict[str, Any], tuple[Note, ...]]:
    parts: list[dict[str, Any]] = []
    notes: list[Note] = []
    for name, score in sums.items():
        table = score.tables[0]
        labels = [OVERALL, *(group.label for group in table.groups)]
        points = table.default_grid if plan.points is None else plan.points
        width = table.bandwidth(plan.bandwidth, points, published=table.axis.unit).widths(points)
        curve = fit_curves(table, Smoother(points, width, 0)).mean
        from_score = np.abs(curve - points).mean(axis=1)
        from_others = np.abs(curve[:, None] - curve[None, :]).mean(axis=2).sum(axis=1)
        errors = np.array([[values.sum(), *values] for values in (from_score, from_others)])
        lost = np.count_nonzero(np.isnan(curve), axis=1)  # grid points near which a group has no row
        ranks = read_ranks(plan.scores[name], table.groups, table.axis)
        auc = ranks[:, 1] if table.binary else np.full(len(labels), np.nan)
        size = np.array([table.rows.sum(), *table.rows])
        keys = {"score": (name,) * len(labels), "group": tuple(labels), "size": size}
        parts.append(
            {**keys, "calibration_error": errors[0], "parity_error": errors[1], "ece": ranks[:, 0], "auc": auc}
        )
        far = {label: int(n) for label, n in zip(labels[1:], lost, strict=True) if n}
        notes += note_if("no_row_near", list(far), score=name, lost=far, points=points.size)
        single = [label for label, value in zip(labels, auc, strict=True) if np.isnan(value)]
        notes += note_if("auc_one_outcome" if table.binary else "auc_not_binary", single, score=name)
    return join_tables(parts), tuple(notes)


# ---- evidence


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class CalibrationMetrics:
    """One line for each score and group (``overall`` first): see `isonomy.calibration_metrics`."""

    group: tuple[str, ...] = column("Group")
    score: tuple[str, ...] = column("Score")
    size: FloatArray = column("Rows", count=True)
    calibration_error: FloatArray = column("Calibration error")
    parity_error: FloatArray = column("Parity error")
    ece: FloatArray = column("Expected calibration error")
    auc: FloatArray = column("Area under the ROC curve")
    clusters: FloatArray | None = column("Clusters", count=True, default=None)
    effective_clusters: FloatArray | None = column("Effective number of clusters", default=None)
    notes: tuple[Note, ...]
    provenance: Provenance

    def __post_init__(self) -> None:
        read_only(self)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Why some numbers are NaN, in sentences."""
        return tuple(note.text for note in self.notes)

    def table(self) -> Columns:
        """The columns of `to_frame`, in order."""
        columns = {name: getattr(self, name) for name in columns_of(CalibrationMetrics)}
        return {name: values for name, values in columns.items() if values is not None}

    def to_frame(self, backend: str | None = None) -> Any:
        """The table in the caller's library (pandas, polars or pyarrow); polars for any other input."""
        return as_frame(self.table(), backend, self.provenance.backend, ("size", "clusters"))

    def __repr__(self) -> str:
        return f"<CalibrationMetrics of {phrases.listed(list(dict.fromkeys(self.score)))}: {len(self.group):,} rows>"

    def _repr_html_(self) -> str:
        """Notebook display: the first rows of the table. Every label is text."""
        from isonomy.results.columns import table

        return table(self.table())
