"""Composite scores: the moments of each weighted sum of the scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import narwhals as nw
import numpy as np

from isonomy.calibration.plan import CompositePlan
from isonomy.calibration.smoothing.axis import Axis
from isonomy.calibration.smoothing.moments import Moments
from isonomy.calibration.tally import NO_ROW_LEFT, Family, Votes, refuse_many
from isonomy.errors import EmptyFrame, UsageError
from isonomy.frames import Request, Source
from isonomy.frames.membership import compared

MANY = 2**20  # rows on which composite scores are compared


@dataclass(frozen=True, slots=True, eq=False)
class CompositeTally:
    """The families of groups of a call, each under every composite score."""

    families: tuple[tuple[Family, ...], ...]
    rows: int
    dropped: Mapping[str, int]


def tally_composite(source: Source, plan: CompositePlan) -> CompositeTally:
    """The moments of each composite score, of rows with all scores and outcomes."""
    numbers = {f"scores[{k}]": name for k, name in enumerate(plan.scores)}
    numbers |= {f"outcomes[{k}]": name for k, name in enumerate(plan.outcomes)}
    weights = {} if source.reading.weight is None else {"weight": source.reading.weight}
    keys = {} if plan.rows.person is None else {"user": nw.col(plan.rows.person)}
    rows = source.rows(Request(grouping=plan.rows.grouping, numeric={**numbers, **weights}, keys=keys))
    if rows.size > MANY:
        raise UsageError(f"data: {rows.size:,} rows; composite scores are compared on up to {MANY:,}: take some users.")
    votes = Votes.of(source, plan.rows, rows)
    if not votes.vote.size:
        raise EmptyFrame(NO_ROW_LEFT)
    user = np.arange(votes.vote.size) if votes.user is None else votes.user
    score, outcome = (
        np.column_stack([rows.columns[f"{name}[{k}]"][votes.kept] for k in range(len(plan.scores))])
        for name in ("scores", "outcomes")
    )
    families = []
    for partition in rows.partitions:
        groups, codes = compared(partition)
        refuse_many(partition, groups)
        own = []
        for weight in plan.weights:
            s, y = score @ weight, outcome @ weight
            axis = Axis.of(float(s.min()), float(s.max())).focused_on(s, votes.lines)
            each = (s, y, votes.vote, votes.lines, user)
            sums = Moments.of(axis, codes[votes.kept], len(groups), *each, products=False)
            own.append(Family(partition.titles or partition.dimensions, groups, sums, binary=False))
        families.append(tuple(own))
    return CompositeTally(tuple(families), votes.rows, votes.dropped)
