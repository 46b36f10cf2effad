"""Thresholds at which groups agree: what holds at the present one, the rules that solve it, and what they cost."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from isonomy.calibration.estimate import estimate_marginal
from isonomy.calibration.plan import ThresholdsPlan
from isonomy.calibration.smoothing.bands import beyond
from isonomy.calibration.smoothing.cells import FINE, PARTS, above, resampled
from isonomy.calibration.smoothing.cells import Cells as BinnedRows
from isonomy.calibration.smoothing.kernels import Bandwidth
from isonomy.calibration.smoothing.lotteries import Lottery, cut_up, equal_odds
from isonomy.calibration.smoothing.margins import Margin, scatter
from isonomy.calibration.smoothing.margins import Margins as MarginCurves
from isonomy.calibration.smoothing.targets import (
    EVENTS,
    Response,
    blocks_of,
    common_value,
    metrics_of,
    one_way,
    ratio,
    responses,
    within,
)
from isonomy.calibration.tally import Tally
from isonomy.calibration.tally_thresholds import SelectionCounts, ThresholdsTally
from isonomy.calibration.wording_thresholds import too_few
from isonomy.errors import NotEnoughData
from isonomy.frames import Group
from isonomy.inference import multiplicity, rejected
from isonomy.inference.simultaneous import beyond_rounding
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray

FALL = 3.0  # standard errors
APART = 0.1  # of a bandwidth: scores nearer than this are one point of a curve


@dataclass(frozen=True, slots=True, eq=False)
class Present:
    """The metrics (first axis) of each group at the present threshold, and how far pairs of groups differ."""

    value: FloatArray
    se: FloatArray
    rows: FloatArray  # effective denominators
    known: BoolArray  # which groups have enough events and non-events
    pvalue: FloatArray  # (G, G): of each pair, not adjusted; NaN where a group is not known


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """The rules of some blocks of groups, and the value that they aim at."""

    rules: list[Lottery]
    aim: FloatArray  # of each metric
    target: float  # the one number that is made equal
    curves: list[Response]
    reached: bool


@dataclass(frozen=True, slots=True, eq=False)
class Interval:
    """A number of each group, or of all, with its ends."""

    value: FloatArray
    low: FloatArray
    high: FloatArray


@dataclass(frozen=True, eq=False, kw_only=True)
class ThresholdsNumbers:
    """What the result reports as it was estimated: one entry per group."""

    __slots__ = ()  # its fields have theirs in the estimates and in the result

    metrics: tuple[str, ...]  # the rates that this means
    blocks: IntArray  # groups of one number share a threshold; -1 keeps the present one
    pvalue: float  # of equality at the present threshold, adjusted for all pairs of groups
    thresholds: FloatArray
    thresholds_low: FloatArray
    thresholds_high: FloatArray
    lottery: FloatArray  # from here up to the threshold people are selected with the probability; equal: no lottery
    lottery_low: FloatArray
    lottery_high: FloatArray
    probability: FloatArray
    target: float  # the common value
    before: FloatArray
    after: FloatArray
    se: FloatArray  # of the metrics after; of outcomes at the margin at the present threshold, where extrapolated
    rate_before: FloatArray
    rate_after: FloatArray
    overall_before: float
    overall_after: float
    accuracy_before: float
    accuracy_after: float


@dataclass(frozen=True, slots=True, eq=False)
class ThresholdsEstimates(ThresholdsNumbers):
    """The new thresholds, what they do and what they cost. Groups on the last axis, metrics on the one before."""

    groups: tuple[Group, ...]
    binary: bool  # whether every outcome is 0 or 1
    known: BoolArray  # which groups have enough events and non-events at the present threshold
    adjusted: FloatArray  # (G, G): p-value of each pair of groups at the present threshold
    lowered: BoolArray
    reached: bool  # whether the common value can be had while selecting as many as wanted
    met: BoolArray  # whether a group's block has the common value
    falling: BoolArray  # whether outcomes fall as the score rises, so that a rising curve is not theirs
    beyond: BoolArray  # whether no threshold at all gives a group's block the common outcome
    selected: SelectionCounts
    selected_change: Interval  # rows of each group
    accuracy_change: Interval


def estimate_thresholds(tally: ThresholdsTally, plan: ThresholdsPlan, rng: np.random.Generator) -> ThresholdsEstimates:
    """The thresholds at which the metric is equal, for groups that were shown to differ (or for all)."""
    cells, present = tally.cells, plan.threshold
    bandwidth = Bandwidth.of(tally.axis, tally.average, plan.bandwidth, np.array([present]))
    now = _rates_now(tally, plan) if tally.margin is None else _margin_now(tally, tally.margin, plan)
    if now.known.sum() < 2:
        raise NotEnoughData(too_few(plan.target, present, bool(now.known.any()), plan.words))
    above_diagonal = np.triu_indices(now.known.size, 1)
    adjusted = np.full(now.pvalue.shape, np.nan)
    adjusted[above_diagonal] = multiplicity.adjust(now.pvalue[above_diagonal], "holm")
    adjusted = np.fmin(adjusted, adjusted.T)
    apart = rejected(adjusted, plan.alpha) if plan.change == "shown" else ~np.eye(now.known.size, dtype=bool)
    blocks = blocks_of(now.value.mean(axis=0), apart, now.known)
    solver = _Solver(tally, plan, blocks, bandwidth)
    solution = solver.solve(cells)
    every = [solution.rules[block] if block >= 0 else Lottery.none(present) for block in blocks]
    low, high = np.array([[rule.low, rule.high] for rule in every]).T
    probability = np.array([rule.probability for rule in every])
    selected = tally.selected(present, low, high)
    plain = low == high
    # Scores on a lattice: a threshold that selects the same people as before is the present one, and where the lowest
    # score selected is another point of the curve, that is the threshold. One for all groups of a block.
    chosen, width = np.full(high.size, present), bandwidth.at(np.maximum(high, present))
    for block in range(int(blocks.max()) + 1):
        mine = blocks == block
        if np.any(selected.rows[2, mine] != selected.rows[0, mine]):
            lowest = np.fmin.reduce(selected.lowest[mine])  # NaN where nobody is selected
            chosen[mine] = np.where(lowest - high[mine] > APART * width[mine], lowest, high[mine])
    low, high = np.where(plain, chosen, low), np.where(plain, chosen, high)
    lowered = np.minimum(low, high) < present - 1e-12 * max(1.0, abs(present))
    after = selected.mixed(probability)
    ends = solver.ends(tally, rng)
    if plan.margin:
        levels = _margins_after(tally, plan, solver, high, now)
    else:
        levels = _rates_after(plan, selected, after, blocks, solution, now)
    accuracy = [_accuracy(counts, selected.size) for counts in (selected.before, after)]
    certain = tally.binary and plan.outcome is not None and bool(np.all(selected.size[0] == selected.size[1]))
    right = accuracy if certain else [np.nan, np.nan]
    gained = (after[0] - selected.before[0]) * (selected.lines / selected.size[0])  # rows, whatever they weigh
    return ThresholdsEstimates(
        groups=tally.groups,
        metrics=metrics_of(plan.target),
        binary=tally.binary,
        known=now.known,
        blocks=blocks,
        adjusted=adjusted,
        pvalue=multiplicity.smallest(adjusted),
        thresholds=high,
        thresholds_low=_end(high, ends.high[0], plain, -1),
        thresholds_high=_end(high, ends.high[1], plain, 1),
        lottery=low,
        lottery_low=_end(low, ends.low[0], plain, -1),
        lottery_high=_end(low, ends.low[1], plain, 1),
        probability=probability,
        lowered=lowered,
        target=solution.target,
        reached=solution.reached,
        before=now.value,
        after=levels.value,
        se=levels.se,
        met=levels.met,
        falling=levels.falling,
        beyond=levels.beyond,
        selected=selected,
        rate_before=selected.before[0] / selected.size[0],
        rate_after=after[0] / selected.size[0],
        overall_before=float(selected.before[0].sum() / selected.size[0].sum()),
        overall_after=float(after[0].sum() / selected.size[0].sum()),
        selected_change=Interval(gained, *(ends.share * selected.lines)),
        accuracy_before=right[0],
        accuracy_after=right[1],
        accuracy_change=Interval(np.array(right[1] - right[0]), *(ends.accuracy if certain else np.full(2, np.nan))),
    )


def _end(value: FloatArray, end: FloatArray, plain: BoolArray, side: int) -> FloatArray:
    """One end of the interval of a threshold, which holds the threshold where that was moved to a score."""
    return np.where(plain, np.fmin(value, end) if side < 0 else np.fmax(value, end), end)


def _accuracy(selected: FloatArray, size: FloatArray) -> float:
    """The share of right decisions; rows, known and total on the first axis."""
    wrong = selected[1] - selected[2] + size[2] - selected[2]
    return float(1 - wrong.sum() / size[1].sum()) if size[1].sum() else float("nan")


@dataclass(frozen=True, slots=True, eq=False)
class _Ends:
    """Ends of intervals (first axis): of both thresholds, of the share selected more than now, of the accuracy."""

    high: FloatArray
    low: FloatArray
    share: FloatArray
    accuracy: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class _Levels:
    """What the metrics are after."""

    value: FloatArray
    se: FloatArray
    met: BoolArray
    falling: BoolArray
    beyond: BoolArray


class _Solver:
    """Finds the rules of blocks of groups in any sample of the table."""

    def __init__(self, tally: ThresholdsTally, plan: ThresholdsPlan, blocks: IntArray, bandwidth: Bandwidth) -> None:
        self.plan, self.blocks, self.bandwidth = plan, blocks, bandwidth
        self.still = int(blocks.max()) == 0 and plan.capacity is None  # nobody moves
        parts = None if tally.parts is None else tally.parts.pooled(blocks)
        self.margins = MarginCurves.of(tally.cells.pooled(blocks), parts, bandwidth) if plan.margin else None

    def solve(self, cells: BinnedRows) -> Solution:
        """The rule of each block."""
        plan, present, pooled = self.plan, self.plan.threshold, cells.pooled(self.blocks)
        curves = self.margins.responses(pooled) if self.margins else responses(pooled, plan.target)
        if self.still:
            value = np.array([curves[0].at(present)])
            return Solution([Lottery.none(present)], value, float(value[0]), curves, True)
        wanted = self._wanted(cells)
        if plan.target == "equalized_odds" and plan.randomize:
            rules, pair, reached = equal_odds(pooled, wanted)
            return Solution(rules, pair, float(pair.mean()), curves, reached)
        target, reached = common_value(curves, wanted)
        if plan.direction != "both":
            target, reached = one_way(curves, present, plan.direction), True
        exact = cells.bins.size == FINE and not plan.margin  # joined bins hold many scores, which are not equal
        thresholds = [within(curve.threshold(target), present, plan.direction) for curve in curves]
        rules = [
            cut_up(t, curve, randomize=plan.randomize) if exact and t != present else Lottery.none(t)
            for t, curve in zip(thresholds, curves, strict=True)
        ]
        return Solution(rules, np.array([target]), target, curves, reached)

    def _wanted(self, cells: BinnedRows) -> float:
        """How many rows the groups that take part are to have selected."""
        now = above(cells.rows)[:, cells.bins.before]
        if self.plan.capacity is None:
            return float(now[self.blocks >= 0].sum())
        return float(self.plan.capacity * cells.rows.sum() - now[self.blocks < 0].sum())

    def ends(self, tally: ThresholdsTally, rng: np.random.Generator) -> _Ends:
        """Percentile intervals over samples drawn again, each with the same blocks."""
        size, present, plan = self.blocks.size, self.plan.threshold, self.plan
        if self.still or not plan.draws:  # without draws nobody asks for the ends
            stay = np.full((2, size), present)
            return _Ends(stay, stay, np.zeros((2, size)), np.zeros(2))
        draws: list[FloatArray] = []
        for cells in resampled(tally.cells, tally.parts, plan.draws, rng):
            rules = self.solve(cells).rules
            each = [rules[block] if block >= 0 else Lottery.none(present) for block in self.blocks]
            edges, numbers = cells.bins.edges, [above(v) for v in (cells.rows, cells.known, cells.total)]
            at = {
                end: np.array([[np.interp(t, edges, v[g]) for g, t in enumerate(limits)] for v in numbers])
                for end, limits in (("low", [r.low for r in each]), ("high", [r.high for r in each]))
            }
            lot = np.array([r.probability for r in each])
            after = lot * at["low"] + (1 - lot) * at["high"]
            before = np.stack([v[:, cells.bins.before] for v in numbers])
            whole = np.stack([v[:, 0] for v in numbers])
            gained = (after[0] - before[0]) / np.maximum(whole[0], 1.0)
            right = _accuracy(after, whole) - _accuracy(before, whole)
            draws.append(np.concatenate([[r.high for r in each], [r.low for r in each], gained, [right]]))
        ends = np.nanquantile(np.array(draws), [plan.alpha / 2, 1 - plan.alpha / 2], axis=0)
        return _Ends(ends[:, :size], ends[:, size : 2 * size], ends[:, 2 * size : 3 * size], ends[:, -1])


def _rates_now(tally: ThresholdsTally, plan: ThresholdsPlan) -> Present:
    """Rates at the present threshold; pairs by the score test, with effective rows where people have several."""
    at, values, errors, known, pvalues, denominators = tally.cells.bins.before, [], [], [], [], []
    for metric in metrics_of(plan.target):
        hit, rows = (part[..., at] for part in ratio(tally.cells, metric))
        with np.errstate(divide="ignore", invalid="ignore"):
            value = hit / rows
        effective, shared, df = rows, np.zeros((rows.size, rows.size)), np.inf
        if tally.parts is not None:
            own = [part[..., tally.parts.bins.before] for part in ratio(tally.parts, metric)]
            with np.errstate(divide="ignore", invalid="ignore"):
                covariance = scatter(np.nan_to_num((own[0] - value * own[1]) / rows))
                effective = np.fmin(rows, value * (1 - value) / np.diagonal(covariance))
            effective = np.where((value > 0) & (value < 1), np.nan_to_num(effective), rows)
            if own[0].shape[0] < PARTS:  # few people: their rows are no more than they are
                effective = np.minimum(effective, own[0].shape[0])
            shared, df = covariance - np.diag(np.diagonal(covariance)), float(max(own[0].shape[0] - 1, 1))
        together = np.nansum(value * effective) / max(float(effective.sum()), 1.0)
        known.append(effective * min(together, 1 - together) >= EVENTS)
        n, m = np.maximum(effective, 1e-300)[:, None], np.maximum(effective, 1e-300)[None, :]
        pooled = (n * value[:, None] + m * value[None, :]) / (n + m)
        spread = pooled * (1 - pooled) * (1 / n + 1 / m)
        with np.errstate(divide="ignore", invalid="ignore"):
            se = np.sqrt(beyond_rounding(spread - 2 * shared, spread))
            _, pvalue = beyond(value[:, None] - value[None, :], se, np.full(se.shape, df), None)
            errors.append(np.sqrt(value * (1 - value) / effective))
        values.append(value)
        pvalues.append(np.where(spread > 0, pvalue, 1.0))
        denominators.append(effective)
    every = np.all(known, axis=0)
    pvalue = np.minimum(len(pvalues) * np.min(pvalues, axis=0), 1.0)
    pvalue = np.where(every[:, None] & every[None, :], pvalue, np.nan)
    return Present(np.array(values), np.array(errors), np.array(denominators), every, pvalue)


def _margin_now(tally: ThresholdsTally, margin: Tally, plan: ThresholdsPlan) -> Present:
    """Outcomes at the present threshold, and differences between groups: those of `marginal_outcomes`."""
    now = estimate_marginal(margin, plan.marginal).families[0]
    place = [now.groups.index(group) for group in tally.groups]
    value, se, effective = (values[place] for values in (now.estimate, now.se, now.effective))
    pvalue = np.full((len(now.groups), len(now.groups)), np.nan)
    first, second = now.pairs.T
    pvalue[first, second] = pvalue[second, first] = now.pair_pvalue
    known = np.isfinite(value)
    pvalue = np.where(known[:, None] & known[None, :], pvalue[np.ix_(place, place)], np.nan)
    return Present(value[None], se[None], effective[None], known, pvalue)


def _rates_after(
    plan: ThresholdsPlan,
    selected: SelectionCounts,
    after: FloatArray,
    blocks: IntArray,
    solution: Solution,
    now: Present,
) -> _Levels:
    """Rates at the new thresholds, and whether those of each block are the common ones."""

    def rates(chosen: FloatArray, size: FloatArray) -> FloatArray:
        parts = {
            "selection_rate": (chosen[0], size[0]),
            "tpr": (chosen[2], size[2]),
            "fpr": (chosen[1] - chosen[2], size[1] - size[2]),
            "predictive_value": (chosen[2], chosen[1]),
        }
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.array([np.divide(*parts[metric]) for metric in metrics_of(plan.target)])

    value = rates(after, selected.size)
    with np.errstate(divide="ignore", invalid="ignore"):
        se = np.sqrt(value * (1 - value) / now.rows)
    member = (blocks[None, :] == np.arange(int(blocks.max()) + 1)[:, None]).astype(float)
    together = rates(after @ member.T, selected.size @ member.T)
    exact = plan.target != "equalized_odds" or plan.randomize
    off = np.abs((together if exact else together.mean(axis=0)) - (solution.aim[:, None] if exact else solution.target))
    off = np.atleast_2d(off).max(axis=0)
    allowed = np.nanmax(se, axis=0)
    met = np.array([off[block] <= max(allowed[g], 1e-6) if block >= 0 else True for g, block in enumerate(blocks)])
    return _Levels(value, se, met, *np.zeros((2, blocks.size), dtype=bool))


def _margins_after(
    tally: ThresholdsTally, plan: ThresholdsPlan, solver: _Solver, thresholds: FloatArray, now: Present
) -> _Levels:
    """Outcomes at the new margins. Of groups whose outcomes fall, those of the curve as it was fitted."""
    known, present = now.known, plan.threshold
    margins = MarginCurves.of(tally.cells, tally.parts, solver.bandwidth)
    margin = Margin.at(np.maximum(thresholds, present), tally.cells, tally.parts, solver.bandwidth)
    se = np.where(known, np.sqrt(np.diagonal(margin.covariance)), np.nan)
    own, fitted = (margins.responses(tally.cells, rising=rising) for rising in (True, False))
    after, met = np.full(known.size, np.nan), np.ones(known.size, bool)
    falling, beyond = np.zeros((2, known.size), bool)
    solution = solver.solve(tally.cells)
    for g in np.flatnonzero(known):
        t, block = float(thresholds[g]), solution.curves[solver.blocks[g]]
        # Making a rising curve nondecreasing moves it by a part of its error; three standard errors are a fall.
        apart = [abs(own[g].at(x) - fitted[g].at(x)) for x in (present, max(t, present))]
        falling[g] = apart[0] > FALL * now.se[0, g] or apart[1] > FALL * se[g]
        after[g] = now.value[0, g] if t == present else (fitted if falling[g] else own)[g].at(t)
        allowed = max(float(se[g]), 1e-6)
        met[g] = abs(block.at(t) - solution.target) <= allowed
        beyond[g] = not block.value[0] - allowed <= solution.target <= block.value[-1] + allowed
    return _Levels(after[None], se[None], met, falling, beyond)
