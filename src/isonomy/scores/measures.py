"""Measures of calibration: how far scores are from outcomes, and groups from one another, with their errors.

Errors are those of a jackknife: people are dealt into parts, and every measure is computed without each part, from sums
in bins of the score. The same parts are left out for every score, so that changes from one score to another are paired.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Unpack

import narwhals as nw
import numpy as np

from isonomy.errors import UsageError
from isonomy.frames import Group, Groups, Request, Source, aggregate
from isonomy.frames.adapt import Lazy
from isonomy.frames.groups import ROW_COUNT, ROW_GROUP, with_groups
from isonomy.frames.sums import sums_at
from isonomy.inference.designs import count_clusters
from isonomy.inference.effect import Wald
from isonomy.numerics import tails
from isonomy.numerics.arrays import FloatArray
from isonomy.options import Column, Names, RowOptions
from isonomy.results import Columns, Note, Provenance, column, note_if, open_call, phrases, question
from isonomy.results.columns import columns_of, join_tables
from isonomy.results.evidence import as_frame, read_only
from isonomy.scores.options import CurvesOption, moved
from isonomy.scores.read import (
    COUNTED,
    OUTCOME,
    SCORE,
    USER,
    VOTE,
    ScorePlan,
    ScoreRows,
    ScoreSums,
    bin_of,
    dealt,
    read_sums,
    refuse_several,
)
from isonomy.scores.smoothing.comparisons import fit_curves
from isonomy.scores.smoothing.kernels import BINS, Axis, Smoother, kernel
from isonomy.scores.smoothing.moments import VoteMoments

OVERALL = "overall"
ECE_BINS = 10
PARTS = 50  # of the people, for the jackknife
MEASURES = ("calibration_error", "parity_error", "ece", "auc")
_PART = "__p"
ROUNDING = 1e-9  # of a bin, or of all votes: engines sum votes in different orders, and must find the same bins


# ---- call


@question(
    "MetricsPlan",
    moved=moved("level", "grid", "bandwidth"),
    asks="How well calibrated is a score in each group?",
    topic="Calibration",
)
def calibration_metrics(
    data: object = None,
    *,
    outcome: Column,
    score: Names | Mapping[str, str],
    groups: Groups,
    user: Column | None = None,
    method: CurvesOption = CurvesOption(),  # noqa: B008
    **rows: Unpack[RowOptions],
) -> CalibrationMetrics:
    """How far are scores from outcomes, and groups from one another, before and after a correction?

    Parameters
    ----------
    data : table
        Rows that neither the model nor the calibrator has seen; split by user (`split_users`), never by row.
    outcome, user, method
        As in `predictive_parity`; of `isonomy.curves`, ``method`` takes level, grid and bandwidth. The default grid has
        quantiles of each score.
    score : str, sequence of str or mapping of str to str
        One column, several, or names for them, such as ``{"before": "s", "after": "s_calibrated"}``.
    groups : str, cut or where
        One set of groups.
    **rows
        count, weight, cluster, missing, missing_group: see `isonomy.RowOptions`. ``cluster`` changes only the
        standard errors, and adds the number and the effective number of clusters of each group.

    Returns
    -------
    CalibrationMetrics
        ``to_frame()`` has one row for each score, overall and by group, with the jackknife's standard error of each
        measure; `changes` compares scores with one of them, paired. ``calibration_error``: mean over the grid of
        abs(f_g(s) - s), summed over groups in the overall row (the paper's Table 1). ``parity_error``: mean over the
        grid of abs(f_g(s) - f_h(s)), summed over ordered pairs in the overall row (Table 2) and over the other groups
        in the row of a group. f is the Nadaraya-Watson estimate. ``ece``: expected calibration error, the mean over 10
        bins of abs(mean outcome - mean score); bins of equal width for scores in [0, 1] (Guo et al., 2017), otherwise
        bins with a tenth of the votes each. ``auc``, for outcomes of 0 and 1: the probability that a positive scores
        above a negative; equal scores count half. All measures use the votes of the level, and
        ``warnings`` explains why numbers are NaN.

    Notes
    -----
    Standard errors leave out one of up to 50 parts of the people (users, clusters or rows) at a time; the grid and the
    bandwidth stay as they are. Errors are absolute differences, which noise makes larger: a perfectly calibrated score
    has a calibration error above 0, and the smaller a group, the larger its error.

    When it misleads: on rows that the calibrator was fitted on, every error looks small.

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
    columns |= jackknife(sums, plan)
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
    uses: ClassVar[tuple[str, ...]] = ("grid", "bandwidth")

    def __post_init__(self) -> None:
        for rows in self.scores.values():
            refuse_several(rows.grouping)
        _ = self.points

    @cached_property
    def scores(self) -> dict[str, ScoreRows]:
        score = [self.score] if isinstance(self.score, str) else self.score
        names = [*score] if isinstance(score, (Mapping, Sequence, np.ndarray)) else []
        columns = dict(score) if isinstance(score, Mapping) else {name: name for name in map(str, names)}
        if not names or not all(isinstance(name, str) for name in names):
            raise UsageError(
                f"score: {self.score!r} is not allowed; give a column, several, or names for them such as "
                '{"before": "s", "after": "s_calibrated"}.'
            )
        return {name: self.reading(str(self.outcome), column) for name, column in columns.items()}

    @property
    def requests(self) -> tuple[Request, ...]:
        return tuple(request for rows in self.scores.values() for request in rows.requests)


# ---- read


def with_votes(rows: ScoreRows, groups: tuple[Group, ...], more: Mapping[str, str] | None = None) -> Lazy:
    """The complete rows of the groups, with their votes; ``more``: further columns of numbers."""
    source = rows.source
    labels = {} if rows.user is None else {USER: rows.user}
    counted = {} if source.count is None else {COUNTED: source.count}
    numbers = {SCORE: rows.score, OUTCOME: rows.outcome, **counted, **(more or {})}
    frame = source.complete_rows(numbers, labels, rows.grouping)
    frame = frame if counted else frame.with_columns(nw.lit(1.0).alias(COUNTED))
    vote = nw.col(ROW_COUNT) / nw.col(COUNTED).sum().over(USER) if rows.level == "user" else nw.col(ROW_COUNT)
    return with_groups(frame.with_columns(vote.alias(VOTE)), rows.grouping, groups)


def in_parts(plan: MetricsPlan) -> tuple[Source, str, int]:
    """The table with a column that has the number of each row's part of the people, and how many parts there are."""
    rows = next(iter(plan.scores.values()))
    source, part = rows.source, rows.source.fresh("part")
    if rows.person is None:
        number = source.fresh("row")
        return source.numbered(number).with_columns({part: nw.col(number) % PARTS}), part, PARTS
    frame, parts = dealt(source.frame, rows.person, part, PARTS)
    return source.derived(frame), part, parts


def read_parts(rows: ScoreRows, groups: tuple[Group, ...], axis: Axis, part: str, parts: int) -> FloatArray:
    frame = with_votes(rows, groups, {_PART: part})
    keys = {"part": (nw.col(_PART), parts), "group": (nw.col(ROW_GROUP), len(groups)), "bin": (bin_of(axis.bins), BINS)}
    vote = nw.col(VOTE)
    values = {"weight": vote, "total": vote * nw.col(OUTCOME), "place": vote * nw.col(SCORE)}
    sums = sums_at(frame, keys, values)
    return np.stack([sums[name] for name in values])


def read_ranks(rows: ScoreRows, groups: tuple[Group, ...], axis: Axis) -> FloatArray:
    """ECE and AUC of everybody, then of each group: sums by score are ranked, and summed again."""
    frame = with_votes(rows, groups)
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


def grid_of(table: VoteMoments, plan: MetricsPlan) -> tuple[FloatArray, FloatArray]:
    points = table.default_grid if plan.points is None else plan.points
    if plan.user is None:  # clusters are about errors: no measure depends on their number
        table = replace(table, users=table.rows)
    return points, table.bandwidth(plan.curves.bandwidth, points).widths(points)


def estimate(sums: Mapping[str, ScoreSums], plan: MetricsPlan) -> tuple[dict[str, Any], tuple[Note, ...]]:
    parts: list[dict[str, Any]] = []
    notes: list[Note] = []
    for name, score in sums.items():
        table = score.tables[0]
        labels = [OVERALL, *(group.label for group in table.groups)]
        points, width = grid_of(table, plan)
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


def jackknife(sums: Mapping[str, ScoreSums], plan: MetricsPlan) -> dict[str, Any]:
    """The measures without each part of the people (``replicates``: parts, measures, lines), and their errors."""
    source, part, parts = in_parts(plan)
    replicates = []
    for name, score in sums.items():
        table = score.tables[0]
        points, width = grid_of(table, plan)
        cells = read_parts(replace(plan.scores[name], source=source), table.groups, table.axis, part, parts)
        left = cells.sum(axis=1, keepdims=True) - cells
        replicates.append(binned_measures(left, table, points, width))
    lines, factor = np.concatenate(replicates, axis=-1), (parts - 1) / parts
    errors = dict(zip((f"{name}_se" for name in MEASURES), spread(lines, factor), strict=True))
    return {"replicates": lines, "factor": factor, **errors}


def spread(replicates: FloatArray, factor: float) -> FloatArray:
    return np.sqrt(factor * np.sum((replicates - replicates.mean(axis=0)) ** 2, axis=0))


def binned_measures(cells: FloatArray, table: VoteMoments, points: FloatArray, width: FloatArray) -> FloatArray:
    """The four measures (parts, measures, 1 + groups) of sums in bins of the score (3, parts, groups, BINS)."""
    weight, total, _ = cells
    k = kernel(Smoother(points, width, 0).scaled(table.site))
    with np.errstate(divide="ignore", invalid="ignore"):
        curve = (total @ k) / (weight @ k)
        from_score = np.abs(curve - points).mean(axis=-1)
        from_others = np.abs(curve[:, :, None] - curve[:, None, :]).mean(axis=-1).sum(axis=-1)
        weight, total, place = np.concatenate([cells.sum(axis=2, keepdims=True), cells], axis=2)
        share = np.cumsum(table.weight.sum(axis=0)) / table.weight.sum()
        tenth = np.minimum(ECE_BINS * (table.site if table.axis.unit else share), ECE_BINS - 1).astype(np.intp)
        inside = (tenth[:, None] == np.arange(ECE_BINS)).astype(np.float64)
        ece = np.abs((total - place) @ inside).sum(axis=-1) / weight.sum(axis=-1)
        negative = weight - total
        above = np.sum(total * (np.cumsum(negative, axis=-1) - negative / 2), axis=-1)
        auc = above / (total.sum(axis=-1) * negative.sum(axis=-1))
    errors = [np.concatenate([part.sum(axis=-1, keepdims=True), part], axis=-1) for part in (from_score, from_others)]
    return np.stack([*errors, ece, auc if table.binary else np.full_like(auc, np.nan)], axis=1)


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
    calibration_error_se: FloatArray = column("Calibration error: standard error")
    parity_error_se: FloatArray = column("Parity error: standard error")
    ece_se: FloatArray = column("Expected calibration error: standard error")
    auc_se: FloatArray = column("Area under the ROC curve: standard error")
    replicates: FloatArray  # (parts, measures, lines): the measures without each part of the people
    factor: float  # on the sum of squares of the replicates, for squared standard errors
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

    def changes(self, against: str | None = None, *, alpha: float = 0.05, backend: str | None = None) -> Any:
        """How much every score differs from one of them (by default the first) on the same people.

        One row for each other score, group and measure: ``estimate`` is the score's measure minus that of ``against``,
        with the standard error of paired differences, an interval and a p-value by Student's law; nothing is adjusted.
        """
        names = list(dict.fromkeys(self.score))
        base = names[0] if against is None else against
        if base not in names:
            raise UsageError(f"against: there is no score {against!r}; the scores are {', '.join(names)}.")
        place = {name: np.flatnonzero(np.array(self.score, dtype=object) == name) for name in names}
        others, values = [name for name in names if name != base], np.array([getattr(self, name) for name in MEASURES])
        groups = [self.group[k] for k in place[base]]
        keys = [(name, base, group, measure) for name in others for measure in MEASURES for group in groups]
        columns = {key: [line[k] for line in keys] for k, key in enumerate(("score", "against", "group", "measure"))}
        # Scores, then measures, then groups: as the keys.
        changes = [values[:, place[name]] - values[:, place[base]] for name in others]
        parts = [self.replicates[..., place[name]] - self.replicates[..., place[base]] for name in others]
        change, se = np.ravel(changes), np.ravel([spread(part, self.factor) for part in parts])
        with np.errstate(invalid="ignore", divide="ignore"):
            effect = Wald(change, np.where(se > 0, se, np.nan), float(len(self.replicates) - 1))
            low, high = effect.band(tails.normal_isf(alpha))
        numbers = {"estimate": change, "se": se, "ci_low": low, "ci_high": high, "pvalue": effect.pvalue()}
        return as_frame({**columns, **numbers}, backend, self.provenance.backend, ())

    def to_frame(self, backend: str | None = None) -> Any:
        """The table in the caller's library (pandas, polars or pyarrow); polars for any other input."""
        return as_frame(self.table(), backend, self.provenance.backend, ("size", "clusters"))

    def __repr__(self) -> str:
        return f"<CalibrationMetrics of {phrases.listed(list(dict.fromkeys(self.score)))}: {len(self.group):,} rows>"

    def _repr_html_(self) -> str:
        """Notebook display: the first rows of the table. Every label is text."""
        from isonomy.results.columns import table

        return table(self.table())
