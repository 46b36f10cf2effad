"""What follows from the rows: the least change, how surprising it is, and whom it concerns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from isonomy.frames import Source
from isonomy.numerics.arrays import FloatArray, IntArray
from isonomy.numerics.tails import interval_isf, rows_for, t_isf
from isonomy.transport.plan import Plan
from isonomy.transport.program.cells import Cells
from isonomy.transport.program.criteria import Event, Moments, moments
from isonomy.transport.program.curve import ToleranceCurve, tolerance_curve
from isonomy.transport.program.inference import Inference, infer
from isonomy.transport.program.law import Null
from isonomy.transport.program.solve import whole
from isonomy.transport.program.tolerance import tolerated
from isonomy.transport.tally import TRACE, Listing, Tally

POWER = 0.8  # with which the smallest difference is shown, and a tolerance shown to hold where rates are equal


@dataclass(frozen=True, slots=True, eq=False)
class Estimates:
    """The numbers behind a projection. Arrays that end in (events,) have one entry per event."""

    asked: Moments
    inference: Inference
    events: tuple[Event, ...]  # of a criterion of one's own: the rows that each moment is about
    place: IntArray  # (m,): the event each moment is about
    disparity: FloatArray  # (events,)
    tolerated: FloatArray  # (2, events): least and largest difference that belongs to the null
    interval: FloatArray  # (2, events): its ends
    detectable: FloatArray  # (events,): the smallest difference that these rows would have shown
    rows_needed: FloatArray  # (events,): rows of the group from which the tolerance could be shown to hold
    moved: FloatArray  # (2, events): rows that flip to selected, to refused
    share_moved: FloatArray  # (events,)
    mean_distance: FloatArray  # (events,)
    overall_share: float  # of all rows, that flips
    overall_distance: float  # mean over those that flip
    reach: FloatArray  # (events,): the furthest distance
    listing: Listing
    curve: ToleranceCurve | None


def estimate(source: Source, tally: Tally, plan: Plan, rng: np.random.Generator) -> Estimates:
    """Solve the program, judge its value, and say what it would mean for each event."""
    cells = tally.cells
    asked = moments(cells, plan.criterion, plan.reference)
    null = tolerated(plan.tolerance, plan.tolerance_side, asked.keys)
    options: dict[str, Any] = {
        "bandwidth": plan.bandwidth,
        "tested": plan.distance.tested,
        "published": plan.law == "published",
    }
    curve = None
    if plan.curve:
        curve = tolerance_curve(tally, asked, plan.tolerance_side, alpha=plan.alpha, rng=rng.spawn(1)[0], **options)
    inference = infer(tally, asked, null, alpha=plan.alpha, rng=rng, **options)
    events, solution = asked.events or _concerned(cells, asked), inference.solution
    place = asked.component if asked.events else np.arange(len(events))
    value, error = np.zeros(len(events)), np.full(len(events), np.nan)
    value[place], error[place] = asked.value, inference.standard_error
    room = np.full((2, len(events)), np.nan)
    room[:, place] = null.low, null.high
    size = np.array([event.rows for event in events])
    detectable, needed = _planning(Null(*room), error, size, plan.alpha, inference.df)
    margin = t_isf(plan.alpha / 2, inference.df) * error
    most = 1.0 if asked.events else np.inf  # rates differ by at most 1
    member = np.array([event.member for event in events], dtype=float)
    up, down = (member @ np.where(cells.selected == decision, solution.moved, 0.0) for decision in (0, 1))
    up, down = (np.where(rows <= TRACE, 0.0, rows) for rows in (up, down))
    total = float(solution.moved.sum())
    with np.errstate(invalid="ignore", divide="ignore"):
        # The mean over a single row would be that row's own distance.
        mean = np.where(up + down > 1 + TRACE, (member @ solution.cost) / (up + down), np.nan)
        average = float(np.float64(solution.value) / total)
    return Estimates(
        asked=asked,
        inference=inference,
        events=events,
        place=place,
        disparity=value,
        tolerated=room,
        interval=np.array([np.maximum(value - margin, -most), np.minimum(value + margin, most)]),
        detectable=np.where(detectable <= most, detectable, np.nan),
        rows_needed=needed,
        moved=np.array([up, down]),
        share_moved=(up + down) / np.maximum([event.count for event in events], 1e-300),
        mean_distance=mean,
        overall_share=total / cells.rows,
        overall_distance=average,
        reach=(member * np.where(solution.moved == 0, 0.0, solution.reach)).max(axis=1),
        listing=Listing(
            source, plan, cells.count, whole(solution, inference.constraint) if plan.whole else solution.moved
        ),
        curve=curve,
    )


def _planning(
    null: Null, error: FloatArray, size: FloatArray, alpha: float, df: float
) -> tuple[FloatArray, FloatArray]:
    """The smallest difference each comparison alone would show, and the rows that its tolerance needs, at `POWER`.

    Rows needed are for rates that are equal, and keep the sizes of the groups in proportion, and the clusters that the
    error rests on.
    """
    limit = np.fmin(np.where(np.isinf(null.low), np.nan, -null.low), np.where(np.isinf(null.high), np.nan, null.high))
    both = np.isfinite(null.low) & np.isfinite(null.high)
    with np.errstate(divide="ignore", invalid="ignore"):
        room = np.where(np.isnan(error), np.nan, (null.high - null.low) / error)
        detectable = limit + (interval_isf(room, alpha, df) + t_isf(1 - POWER, df)) * error
        # Both one-sided tests must succeed: each with more than `POWER`.
        fails = np.where(both & (null.low == -null.high), (1 - POWER) / 2, 1 - POWER)
        needed = np.where(limit > 0, rows_for(limit, error, size, (alpha, fails), df), np.nan)
    return detectable, needed


def _concerned(cells: Cells, asked: Moments) -> tuple[Event, ...]:
    """The rows that each moment of a criterion of one's own is about."""
    return tuple(
        Event(name, None, member, float(cells.count[member].sum()), float("nan"), -1, cells.rows_of(member))
        for name, member in zip(asked.names, (asked.phi != 0).T, strict=True)
    )
