"""Measures of calibration: the sums of all rows for each score, and exact ranks of its scores."""

from __future__ import annotations

from dataclasses import replace

import narwhals as nw
import numpy as np

from isonomy.calibration.plan import MetricsPlan, RowsPlan
from isonomy.calibration.smoothing import ranks
from isonomy.calibration.smoothing.axis import Axis
from isonomy.calibration.tally import COUNTED, OUTCOME, SCORE, USER, VOTE, Tally, tally_rows
from isonomy.frames import Group, Source, aggregate
from isonomy.frames.membership import GROUP, LINES, coded, complete_rows
from isonomy.frames.products import sums_at
from isonomy.numerics.arrays import FloatArray


def tally_metrics(source: Source, plan: MetricsPlan) -> dict[str, Tally]:
    """All rows, once for each score."""
    tallies = {name: tally_rows(source, rows) for name, rows in plan.scores.items()}
    families = {name: tally.families[0] for name, tally in tallies.items()}
    return {
        name: replace(tally, ranks=_ranked(source, plan.scores[name], families[name].groups, families[name].axis))
        for name, tally in tallies.items()
    }


def _ranked(source: Source, plan: RowsPlan, groups: tuple[Group, ...], axis: Axis) -> FloatArray:
    """ECE and AUC of everybody, then of each group: sums by score are ranked, and summed again."""
    labels = {} if plan.user is None else {USER: plan.user}
    counted = {} if source.count is None else {COUNTED: source.count}
    numbers = {SCORE: plan.score, OUTCOME: plan.outcome, **counted}
    frame = complete_rows(source, numbers, labels, plan.grouping)
    frame = frame if counted else frame.with_columns(nw.lit(1.0).alias(COUNTED))
    vote = nw.col(LINES) / nw.col(COUNTED).sum().over(USER) if plan.level == "user" else nw.col(LINES)
    frame = coded(frame.with_columns(vote.alias(VOTE)), plan.grouping, groups)
    weight, total, score = nw.col("weight"), nw.col("total"), nw.col("score")
    lines = []
    for rows, size in ((frame.with_columns(nw.lit(0).alias(GROUP)), 1), (frame, len(groups))):
        keys = {"group": nw.col(GROUP), "score": nw.col(SCORE)}
        by_score = aggregate(rows, keys, {"weight": nw.col(VOTE), "total": nw.col(VOTE) * nw.col(OUTCOME)})
        ranked = by_score.with_columns((weight - total).alias("negative")).with_columns(
            weight.cum_sum().over("group", order_by="score").alias("reached"),
            nw.col("negative").cum_sum().over("group", order_by="score").alias("passed"),
            weight.sum().over("group").alias("all"),
        )
        place = score if axis.unit else (nw.col("reached") - weight) / nw.col("all")
        bins = (place * ranks.BINS + (0.0 if axis.unit else ranks.ROUNDING)).floor().clip(0, ranks.BINS - 1)
        pairs = total * (nw.col("passed") - nw.col("negative") / 2)
        values = {"weight": weight, "total": total, "gap": total - weight * score, "pairs": pairs}
        sums = sums_at(ranked, {"group": (nw.col("group"), size), "bin": (bins, ranks.BINS)}, values)
        for g in range(size):
            votes, positive, above = (float(sums[name][g].sum()) for name in ("weight", "total", "pairs"))
            lines.append(ranks.ece_and_auc(sums["gap"][g], votes, positive, above))
    return np.array(lines)
