"""Composite scores: the moments of each weighted sum of the scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import narwhals as nw
import numpy as np

from isonomy.calibration.plan import CompositePlan
from isonomy.calibration.smoothing.axis import Axis
from isonomy.calibration.smoothing.moments import Moments
from isonomy.calibration.tally import Family, refuse_many, without_users
from isonomy.errors import UsageError
from isonomy.frames import Request, Source
from isonomy.frames.membership import compared, person_codes

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
    user, kept = (np.arange(rows.size), None) if not keys else person_codes(rows.columns["user"])
    lines, dropped = rows.count, dict(rows.dropped)
    vote = rows.columns.get("weight", np.ones(rows.size)) * (1.0 if lines is None else lines)
    if kept is not None:
        dropped = without_users(source, plan.rows, int((~kept).sum()), dropped)
        vote = np.where(kept, vote, 0.0)
    if plan.rows.level == "user":
        vote = vote / np.bincount(user, weights=lines)[user]
    score, outcome = (
        np.column_stack([rows.columns[f"{name}[{k}]"] for k in range(len(plan.scores))])
        for name in ("scores", "outcomes")
    )
    families = []
    for partition in rows.partitions:
        groups, codes = compared(partition)
        refuse_many(partition, groups)
        codes = codes if kept is None else np.where(kept, codes, -1)
        own = []
        for weight in plan.weights:
            s, y = score @ weight, outcome @ weight
            axis = Axis.of(float(s.min()), float(s.max())).focused_on(s, lines)
            sums = Moments.of(axis, codes, len(groups), s, y, vote, lines, user, products=False)
            own.append(Family(partition.titles or partition.dimensions, groups, sums, binary=False))
        families.append(tuple(own))
    return CompositeTally(tuple(families), rows.rows, dropped)
