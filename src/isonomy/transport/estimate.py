"""What follows from the rows: the least change, how surprising it is, and whom it concerns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from isonomy.numerics.arrays import FloatArray, IntArray
from isonomy.numerics.tails import normal_isf
from isonomy.transport.plan import Plan
from isonomy.transport.program.cells import Cells
from isonomy.transport.program.criteria import Event, Moments, moments
from isonomy.transport.program.inference import Inference, infer
from isonomy.transport.tally import TRACE, Movers, Tally


@dataclass(frozen=True, slots=True, eq=False)
class Estimates:
    """The numbers behind a projection. Arrays that end in (events,) have one entry per event."""

    asked: Moments
    inference: Inference
    events: tuple[Event, ...]  # of a criterion of one's own: the rows that each moment is about
    place: IntArray  # (m,): the event each moment is about
    disparity: FloatArray  # (events,)
    interval: FloatArray  # (2, events): its ends
    moved: FloatArray  # (2, events): rows that flip to selected, to refused
    share_moved: FloatArray  # (events,)
    mean_distance: FloatArray  # (events,)
    reach: FloatArray  # (events,): the furthest distance
    movers: Movers


def estimate(tally: Tally, plan: Plan, rng: np.random.Generator) -> Estimates:
    """Solve the program, judge its value, and say what it would mean for each event."""
    cells = tally.cells
    asked = moments(cells, plan.criterion, plan.reference)
    inference = infer(
        tally, asked, plan.null, bandwidth=plan.bandwidth, alpha=plan.alpha, tested=plan.distance.tested, rng=rng
    )
    events, solution = asked.events or _concerned(cells, asked), inference.solution
    place = asked.component if asked.events else np.arange(len(events))
    value, error = np.zeros(len(events)), np.full(len(events), np.nan)
    value[place], error[place] = asked.value, inference.standard_error
    margin = float(normal_isf(plan.alpha)) * error
    most = 1.0 if asked.events else np.inf  # rates differ by at most 1
    member = np.array([event.member for event in events], dtype=float)
    up, down = (member @ np.where(cells.selected == decision, solution.moved, 0.0) for decision in (0, 1))
    up, down = (np.where(rows <= TRACE, 0.0, rows) for rows in (up, down))
    with np.errstate(invalid="ignore", divide="ignore"):
        # The mean over a single row would be that row's own distance.
        mean = np.where(up + down > 1 + TRACE, (member @ solution.cost) / (up + down), np.nan)
    return Estimates(
        asked=asked,
        inference=inference,
        events=events,
        place=place,
        disparity=value,
        interval=np.array([np.maximum(value - margin, -most), np.minimum(value + margin, most)]),
        moved=np.array([up, down]),
        share_moved=(up + down) / np.maximum([event.count for event in events], 1.0),
        mean_distance=mean,
        reach=(member * np.where(solution.moved == 0, 0.0, solution.reach)).max(axis=1),
        movers=tally.movers(solution.moved),
    )


def _concerned(cells: Cells, asked: Moments) -> tuple[Event, ...]:
    """The rows that each moment of a criterion of one's own is about."""
    return tuple(
        Event(name, None, member, float(cells.count[member].sum()), float("nan"), -1)
        for name, member in zip(asked.names, (asked.phi != 0).T, strict=True)
    )
