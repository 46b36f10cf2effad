"""The result of a projection from its parts: lines by group and label, and the plan."""

from __future__ import annotations

from typing import Any

import numpy as np

from isonomy.numerics.status import Status
from isonomy.numerics.tails import normal_isf
from isonomy.results import Provenance, Verdict
from isonomy.transport import wording
from isonomy.transport.criteria import Cells, Event, Moments
from isonomy.transport.distances import Distance
from isonomy.transport.evidence import Evidence
from isonomy.transport.result import Plan, ProjectionResult
from isonomy.transport.table import Table


def report(
    table: Table,
    asked: Moments,
    evidence: Evidence,
    *,
    null: str,
    criterion: str,
    alpha: float,
    tolerance: float | None,
    tolerance_side: str,
    distance: Distance,
    provenance: Provenance,
) -> ProjectionResult:
    """Lay the numbers out."""
    plan, complete = _plan(table, evidence, distance, provenance.backend)
    moved = float(evidence.solution.moved.sum())
    warnings = evidence.warnings
    if not complete:
        warnings = (*warnings, wording.shortened(plan.row.size))
    return ProjectionResult(
        null=null,
        verdict=_verdict(evidence, alpha),
        warnings=warnings,
        provenance=provenance,
        criterion=criterion,
        statistic=evidence.statistic,
        pvalue=evidence.pvalue,
        critical_value=evidence.critical_value,
        wald_statistic=evidence.wald_statistic,
        wald_pvalue=evidence.wald_pvalue,
        equivalence_pvalue=evidence.equivalence_pvalue,
        status=evidence.status,
        tested=distance.tested,
        alpha=alpha,
        tolerance=tolerance,
        tolerance_side=tolerance_side,
        bandwidth=evidence.bandwidth,
        weights=evidence.weights,
        moments=len(asked.names),
        rows=table.cells.rows,
        moved=moved,
        plan=plan,
        **_lines(table.cells, asked, evidence, alpha),
    )


def _verdict(evidence: Evidence, alpha: float) -> Verdict:
    if evidence.pvalue <= alpha:
        return Verdict.VIOLATION
    return Verdict.WITHIN_TOLERANCE if evidence.equivalence_pvalue <= alpha else Verdict.INCONCLUSIVE


def _lines(cells: Cells, asked: Moments, evidence: Evidence, alpha: float) -> dict[str, Any]:
    """One line an event; for a user-made tuple, one a moment, about the rows it concerns."""
    events = asked.events or tuple(
        Event(name, None, member, float(cells.count[member].sum()), float("nan"), -1)
        for name, member in zip(asked.names, (asked.phi != 0).T, strict=True)
    )
    place = asked.component if asked.events else np.arange(len(events))
    value, error = np.zeros(len(events)), np.full(len(events), np.nan)
    value[place], error[place] = asked.value, evidence.standard_error
    margin = float(normal_isf(alpha)) * error
    most = 1.0 if asked.events else np.inf  # rates differ by at most 1
    member = np.array([event.member for event in events], dtype=float)
    solution = evidence.solution
    up = member @ np.where(cells.selected == 0, solution.moved, 0.0)
    down = member @ np.where(cells.selected == 1, solution.moved, 0.0)
    count = np.array([event.count for event in events])
    with np.errstate(invalid="ignore"):
        mean = (member @ solution.cost) / (up + down)
    statuses = [Status.REFERENCE] * len(events)
    for at, constant in zip(place, evidence.constant, strict=True):
        statuses[at] = Status.CONSTANT if constant else Status.OK
    return {
        "group": tuple(event.name for event in events),
        "against": tuple(events[e.reference].name if e.reference >= 0 else "" for e in events),
        "outcome": tuple(event.label for event in events),
        "n": count,
        "rate": np.array([event.rate for event in events]),
        "disparity": value,
        "ci_low": np.maximum(value - margin, -most),
        "ci_high": np.minimum(value + margin, most),
        "moved_up": up,
        "moved_down": down,
        "share_moved": (up + down) / np.maximum(count, 1.0),
        "mean_distance": mean,
        "reach": (member * np.where(solution.moved == 0, 0.0, solution.reach)).max(axis=1),
        "statuses": tuple(statuses),
    }


def _plan(table: Table, evidence: Evidence, distance: Distance, backend: str) -> tuple[Plan, bool]:
    """The plan, and whether it lists everybody."""
    movers = table.movers(evidence.solution.moved, evidence.solution.reach)
    cells, cell = table.cells, movers.cell
    names = _cell_names(cells)
    outcome = np.full(cell.size, -1) if cells.outcome is None else cells.outcome[cell]
    plan = Plan(
        row=movers.row,
        group=tuple(names[i] for i in cell),
        outcome=outcome.astype(np.intp),
        decision=cells.selected[cell],
        distance=movers.distance,
        fraction=movers.fraction,
        features=distance.columns if movers.end.shape[1] else (),
        start=movers.start,
        end=movers.end,
        backend=backend,
    )
    return plan, movers.complete


def _cell_names(cells: Cells) -> list[str]:
    """Every group a cell belongs to, as one label; without groups, the value of each component of U."""
    if not cells.groups:
        return [" & ".join(f"{name}={v:g}" for name, v in zip(cells.u_names, u, strict=True)) for u in cells.u]
    return [
        " & ".join(
            groups[codes[i]].label if codes[i] >= 0 else wording.rest(groups[0].label)
            for codes, groups in zip(cells.codes, cells.groups, strict=True)
        )
        for i in range(cells.count.size)
    ]
