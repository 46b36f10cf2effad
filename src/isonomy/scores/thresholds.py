"""Thresholds for every group at which a rate, or the outcomes at the margin, are equal, and what they would cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, Unpack

import narwhals as nw
import numpy as np

from isonomy.errors import MissingRole, NotBinary, NotEnoughData, UsageError
from isonomy.frames import Group, Groups, Request, missing
from isonomy.frames.adapt import Lazy
from isonomy.frames.expressions import flag
from isonomy.frames.groups import ROW_COUNT, ROW_GROUP, compared, with_groups
from isonomy.frames.sums import count_persons, ends_at, sums_at
from isonomy.inference import conclude, multiplicity, rejected
from isonomy.numerics.arrays import AnyArray, BoolArray, FloatArray, IntArray
from isonomy.numerics.status import Status
from isonomy.options import Alpha, Column, Finite, Fraction, RowOptions, Seeded
from isonomy.results import POOLED, Columns, Evidence, Note, column, note_if, open_call, phrases, question
from isonomy.scores import words
from isonomy.scores.margins import at_threshold
from isonomy.scores.options import CurvesOption, moved
from isonomy.scores.read import (
    COUNTED,
    NO_USER,
    NOT_BINARY,
    OUTCOME,
    SCORE,
    USER,
    VOTE,
    ScorePlan,
    ScoreRows,
    ThresholdPlan,
    axis_of,
    bin_of,
    dealt,
    from_threshold,
    rows_above,
    without_users,
)
from isonomy.scores.smoothing import targets
from isonomy.scores.smoothing.kernels import Axis, Bandwidth, Bins
from isonomy.scores.smoothing.moments import VoteMoments
from isonomy.scores.smoothing.targets import Direction, ScoreCells, Target

if TYPE_CHECKING:
    import altair as alt

Change = Literal["shown", "all"]
APART = 0.1  # of a bandwidth: scores nearer than this are one point of a curve
_KNOWN, _PART, _UNIT, _WEIGHT = "__k", "__p", "__t", "__v"


# ---- call


@question(
    "ThresholdsPlan",
    moved=moved("level", "bandwidth", "resamples"),
    asks="Which thresholds would make a rate, or the outcomes at the margin, equal across groups?",
    topic="Thresholds",
    meaning=words.threshold_meaning,
    next_steps={
        "violation": (
            "Consult counsel before changing thresholds by group. Thresholds by group use the group in the decision, "
            "and so does a score that is calibrated by group.",
            "Try the thresholds on new rows before using them.",
        ),
        "inconclusive": (
            "Keep one threshold for all: the data show no difference that would call for others. That is not proof of "
            "equal treatment.",
        ),
    },
)
def equalize_thresholds(
    data: object = None,
    *,
    outcome: Column | None = None,
    score: Column,
    threshold: Finite | Mapping[Any, Finite],
    groups: Groups,
    target: Target = "outcome_at_margin",
    capacity: Fraction | None = None,
    change: Change = "shown",
    direction: Direction = "both",
    randomize: bool = False,
    user: Column | None = None,
    method: CurvesOption = CurvesOption(),  # noqa: B008
    alpha: Alpha = 0.05,
    rng: Seeded = None,
    **rows: Unpack[RowOptions],
) -> ThresholdsResult:
    """Which group thresholds would make a rate, or the outcomes at the margin, equal, and what would they cost?

    Null hypothesis: at the present threshold the metric is the same in all groups. Groups that were not shown to differ
    keep a common threshold. The others get thresholds at which the metric is the same for all and as many people are
    selected as before. Rows (users, if given) are assumed to be independent, and new rows to be like these.
    `isonomy.GroupThresholds` is the same as an estimator that decides new rows.

    Parameters
    ----------
    data, score, user
        As in `marginal_outcomes`.
    outcome : str, optional
        Column of outcomes, 0/1; any number for outcomes at the margin, for which outcomes below the present threshold
        are not read. Not needed for selection rates.
    threshold : float or mapping
        The present threshold: the decision is positive if the score reaches it. Thresholds by group, such as
        ``{"a": 0.38, "b": 0.62}``, are tested and moved again (Remark 4); groups that share a block then move by the
        same amount. For several group columns, join the values: ``{"Black & F": 0.4, ...}``.
    groups : str, cut, where, or several of them
        Thresholds are set for disjoint groups: of several columns, for all combinations of their values.
    target : {"outcome_at_margin", "selection_rate", "tpr", "fpr", "equalized_odds", "predictive_value"}
        What is made equal. ``"outcome_at_margin"`` (default): the expected outcome of people at the threshold (section
        6.1 of the paper). ``"tpr"``, ``"fpr"``: the share selected among people with outcome 1, or 0.
        ``"equalized_odds"``: both; with one threshold per group their mean is made equal, which for two groups
        minimizes the larger of the two differences. ``"predictive_value"``: the share of outcome 1 among the selected.
    capacity : float, optional
        The share of all rows to be selected. Default: the share selected at present.
    change : {"shown", "all"}, default "shown"
        ``"shown"``: groups that were not shown to differ share a threshold. ``"all"``: every group has its own,
        which makes equal groups unequal by chance.
    direction : {"both", "raise", "lower"}, default "both"
        ``"both"``: keep the overall selection rate. ``"raise"``, ``"lower"``: thresholds move in one direction only,
        which cannot keep the rate.
    randomize : bool, default False
        Whether people may be selected by lottery between two thresholds. Equalized odds then hold for both rates
        (Hardt, Price, Srebro), and people who share a score can be treated differently.
    method : curves, optional
        `isonomy.curves` with the level and the bandwidth for outcomes at the margin (other targets count rows, and
        users determine the variance), and with the number of bootstrap samples behind the intervals, by default 400:
        of rows, or of people (clusters) with all their rows.
    alpha : float, default 0.05
        The error rate of the test and of the intervals.
    rng : int or numpy.random.Generator, optional
        The seed of the draws. Default: a fresh seed, which is recorded.
    **rows
        count, weight, cluster, missing, missing_group: see `isonomy.RowOptions`. Only the proportions of weights
        matter. Without a cluster, the rows of a user vary together.

    Returns
    -------
    ThresholdsResult
        ``to_frame()`` has one row per group: ``estimate`` is the new threshold, with ``ci_low`` and ``ci_high``;
        ``reference`` is the present one; then the metrics and the selection rate before and after, and how many more
        people of the group are selected, with an interval.

    Notes
    -----
    A group with fewer than 10 effective events or non-events keeps the present threshold ("unsupported"). With outcomes
    at the margin, a threshold below the present one rests on a linear extrapolation ("extrapolated"). A threshold is
    "infeasible" if the group misses the common value by more than its standard error (coarse scores) or, with outcomes
    at the margin, if nobody or everybody would be above it or outcomes fall as the score rises: do not use it. If the
    next score above a threshold is more than a tenth of the bandwidth away, that score is the threshold.

    When it misleads: below the present threshold, where nobody's outcome is known; on rows that the score's model was
    fitted on. Intervals treat the choice of the groups that are moved as known. Display (2) of the paper integrates f F
    where the rate is meant.

    References
    ----------
    C. DiCiccio, B. Hsu, Y. Yu, P. Nandy, K. Basu, "Detection and Mitigation of Algorithmic Bias via Predictive Rate
    Parity", section 6.1, Theorem 4. M. Hardt, E. Price, N. Srebro, "Equality of opportunity in supervised learning",
    NeurIPS, 2016.

    Examples
    --------
    >>> import numpy as np
    >>> from isonomy.scores import equalize_thresholds
    >>> rng = np.random.default_rng(0)
    >>> s = rng.random(20_000)
    >>> g = np.repeat(["a", "b"], 10_000)
    >>> y = rng.random(20_000) < np.where(g == "a", s, s**2)
    >>> data = {"y": y, "s": s, "g": g}
    >>> result = equalize_thresholds(data, outcome="y", score="s", threshold=0.5, groups="g", rng=0)
    >>> bool(result.thresholds[0] < 0.5 < result.thresholds[1])
    True
    >>> result = equalize_thresholds(data, outcome="y", score="s", threshold=0.5, groups="g", target="tpr", rng=0)
    >>> bool(abs(result.after[0, 0] - result.after[0, 1]) < 0.01)
    True
    """
    plan, rng, record = open_call("equalize_thresholds", ThresholdsPlan, locals())
    sample = read(plan)
    columns = decide(estimate(sample, plan, rng), sample, plan)
    number = round(float(columns["size"].sum()))
    in_force = plan.rows.in_force
    present = np.array([in_force[group] for group in sample.groups]) if in_force else plan.present
    return ThresholdsResult(
        **columns,
        null=words.thresholds_null(plan.target, plan.in_force, plan.words),
        provenance=record(rows=number, dropped=sample.dropped, **plan.rows.provenance),
        metric=plan.target,
        metrics=targets.metrics_of(plan.target),
        threshold=present,
        direction=plan.direction,
        change=plan.change,
        alpha=plan.alpha,
        binary=sample.binary,
        words=plan.words,
        chosen=phrases.chosen(plan.source.labels.metrics),
    )


# ---- plan


@dataclass(frozen=True, eq=False, kw_only=True)
class ThresholdsPlan(ThresholdPlan):
    uses: ClassVar[tuple[str, ...]] = ("bandwidth", "resamples")

    target: Target
    capacity: float | None
    change: Change
    direction: Direction
    randomize: bool
    default_draws: int = 400

    def __post_init__(self) -> None:
        if self.outcome is None and self.target != "selection_rate":
            raise MissingRole(f"outcome: needed for target={self.target!r}; name the column of outcomes.")
        margin, lottery = 'target="outcome_at_margin"', self.randomize or None
        rows = f"has no effect with target={self.target!r}, which counts rows; leave it at None, or choose {margin}."
        one_way = (
            'is not allowed: thresholds that move in one direction only cannot keep a rate; leave direction at "both".'
        )
        refusals = (
            ("bandwidth", self.curves.bandwidth, not self.margin, rows),
            ("level", self.curves.level, not self.margin, rows),
            ("randomize", lottery, self.margin, f"is not allowed with {margin}: a lottery has no margin."),
            ("capacity", self.capacity, self.direction != "both", one_way),
            ("randomize", lottery, self.direction != "both", one_way),
        )
        for name, value, refused, reason in refusals:
            if value is not None and refused:
                raise UsageError(f"{name}: {value!r} {reason}")
        if self.margin:  # other targets count rows: users are people, and clusters may be wider
            ScorePlan.__post_init__(self)

    def reading(self, outcome: str, score: str) -> ScoreRows:
        rows = ScorePlan.reading(self, outcome, score)
        size = len(rows.grouping.dimensions)
        if size > 1 and any(dimension.condition for dimension in rows.grouping.dimensions):
            raise UsageError("groups: thresholds are set for disjoint groups; give columns, or one named condition.")
        return replace(rows, grouping=replace(rows.grouping, depth=size))

    @property
    def margin(self) -> bool:
        """Whether outcomes at the margin are made equal, for which those below the threshold need not be known."""
        return self.target == "outcome_at_margin"

    @cached_property
    def words(self) -> dict[str, str]:
        return words.target_words(self.source.labels.metrics)


# ---- read


@dataclass(frozen=True, slots=True, eq=False)
class ThresholdsSample:
    groups: tuple[Group, ...]
    cells: ScoreCells
    parts: ScoreCells | None  # of independent parts of the table, if people may have several rows
    margin: VoteMoments | None  # the rows from the present threshold up, for outcomes at the margin
    axis: Axis
    average: float  # users (or rows) of the average group whose outcomes at the margin are read
    binary: bool
    dropped: Mapping[str, int]
    people: Lazy

    def selected(self, *limits: FloatArray) -> dict[str, FloatArray]:
        """Rows, known outcomes and their total: of all, and of those who ``reached`` each limit (limits, 3, G).

        ``lowest``: the lowest score from the last limit up, or NaN; ``lines``: rows, whatever their weights.
        """
        size, group, score = limits[0].size, nw.col(ROW_GROUP), nw.col(SCORE)
        sums = {"rows": nw.col(ROW_COUNT), "known": nw.col(_KNOWN), "total": nw.col(_KNOWN) * nw.col(OUTCOME)}
        conditions = []
        for limit in limits:
            of_group: nw.Expr = nw.lit(float(limit[-1]))
            for g in range(size - 1):
                of_group = nw.when(group == g).then(nw.lit(float(limit[g]))).otherwise(of_group)
            conditions.append(score >= of_group)
        values = {
            f"{name} {k}": nw.when(above).then(value).otherwise(nw.lit(0.0))
            for k, above in enumerate(conditions)
            for name, value in sums.items()
        }
        counts = sums_at(self.people, {"group": (group, size)}, sums | values | {"lines": nw.col(COUNTED)})
        lowest, _ = ends_at(self.people.filter(conditions[-1]), group, size, score)
        return {
            "reached": np.array([[counts[f"{name} {k}"] for name in sums] for k in range(len(limits))]),
            "all": np.stack([counts[name] for name in sums]),
            "lines": counts["lines"],
            "lowest": lowest,
        }


def read(plan: ThresholdsPlan) -> ThresholdsSample:
    rows, present = plan.rows, plan.present
    source = rows.source
    groups, dropped, binary, size = check_rows(plan)
    margin = rows_above(rows, present).tables[-1] if plan.margin else None
    outcome, weight = nw.col(rows.outcome), source.reading["weight"]
    lost = missing(outcome, source.schema[rows.outcome])
    known, filled = source.fresh("known"), source.fresh("outcome")
    zero_if_lost = nw.when(lost).then(nw.lit(0.0)).otherwise(outcome.cast(nw.Float64))
    table = source.with_columns({known: 1.0 - flag(lost), filled: zero_if_lost})
    numbers = {SCORE: rows.score, _KNOWN: known, OUTCOME: filled}
    numbers |= {} if source.count is None else {COUNTED: source.count}
    numbers |= {} if weight is None else {_WEIGHT: weight}  # a row without one is left out
    unit = source.cluster or rows.user  # rows that vary together
    if unit is None and weight is not None:
        table = table.numbered(unit := source.fresh("row"))  # weighted rows, each by itself
    labels = {name: column for name, column in ((USER, rows.user), (_UNIT, unit)) if column is not None}
    people = with_groups(table.complete_rows(numbers, labels, rows.grouping), rows.grouping, groups)
    people = people if source.count is not None else people.with_columns(nw.lit(1.0).alias(COUNTED))
    if weight is not None:  # only the proportions of weights matter
        total = float(sums_at(people, {}, {"weight": nw.col(ROW_COUNT)})["weight"])
        people = people.with_columns((nw.col(ROW_COUNT) * (size / total)).alias(ROW_COUNT))
    if not plan.margin:  # rows without the outcome have been reported; with missing="drop" they are left out
        people = people.filter(nw.col(_KNOWN) > 0)
    above = flag(nw.col(SCORE) >= present)
    vote = nw.col(ROW_COUNT) * nw.col(_KNOWN) * above
    by_user = rows.user is not None and rows.level == "user"
    if by_user:  # votes are those of `rows_above`
        rows_of_user = (nw.col(COUNTED) * (1.0 - above * (1.0 - nw.col(_KNOWN)))).sum().over(USER)
        vote = nw.when(vote > 0).then(vote / rows_of_user).otherwise(nw.lit(0.0))
    people = people.with_columns((nw.col(ROW_COUNT) * nw.col(_KNOWN)).alias(_KNOWN), vote.alias(VOTE))
    axis = axis_of(people)
    bins = targets.threshold_bins(axis.low, axis.high, present)
    cells, parts = binned(people, bins, len(groups)), None
    users = float(cells.vote.sum())
    if unit is not None:
        named = USER if rows.user is not None else _UNIT if source.cluster is not None else None
        if named is not None:
            users = float(count_persons(people.filter(nw.col(VOTE) > 0), named, ROW_GROUP, len(groups))[0].sum())
        in_parts, pieces = dealt(people, _UNIT, _PART, targets.PARTS)
        parts = binned(in_parts, targets.join_bins(bins), len(groups), pieces)
        if by_user and cells.vote.any():  # only proportions matter: in the unit of users with a row above the threshold
            factor = users / cells.vote.sum()
            cells, parts = (replace(c, vote=c.vote * factor, voted=c.voted * factor) for c in (cells, parts))
    return ThresholdsSample(groups, cells, parts, margin, axis, users / len(groups), binary, dropped, people)


def check_rows(plan: ThresholdsPlan) -> tuple[tuple[Group, ...], Mapping[str, int], bool, int]:
    rows, present = plan.rows, plan.present
    source = rows.source
    score = nw.col(rows.score)
    above = source.filter((score >= present) | missing(score, source.schema[rows.score]))
    scores = source.cells(Request(grouping=rows.grouping, numeric={"score": rows.score}))
    with from_threshold(rows, present):
        cells = (above if plan.margin else source).cells(rows.checks)
        selected = cells if plan.margin else above.cells(rows.checks)
        groups, _ = compared(cells.partitions[-1])
    if not plan.margin and plan.capacity is None and selected.rows == cells.rows:
        if scores.rows > cells.rows and plan.outcome is not None:
            raise UsageError(
                f"outcome: {rows.outcome!r} is not known for anybody with a score below the threshold, and "
                f"target={plan.target!r} needs these outcomes too; use target='outcome_at_margin', which needs the "
                "outcomes of the selected only, or target='selection_rate' without an outcome."
            )
        raise UsageError(
            f"threshold: every score reaches {plan.threshold!r}, so everybody is selected; give a threshold within the "
            f"range of {plan.score!r}, or a capacity."
        )
    for group in scores.partitions[-1].groups:
        if group not in groups:
            raise NotEnoughData(
                f"groups: {group.label} has no row at or above the threshold; its margin cannot be estimated.",
                "groups: one group has no row at or above the threshold; its margin cannot be estimated.",
            )
    binary = not float(cells.values[NOT_BINARY].sum()) > 0
    if not binary and plan.target not in ("outcome_at_margin", "selection_rate"):
        raise NotBinary(
            f"outcome: column {rows.outcome!r} has values that are neither 0 nor 1, and target={plan.target!r} counts "
            "positives. Recode the column."
        )
    userless = 0 if rows.user is None else round(float(cells.values[NO_USER].sum()))
    whole = scores if plan.margin else cells
    return groups, without_users(rows, userless, whole.dropped), binary, whole.rows


def binned(people: Lazy, bins: Bins, groups: int, parts: int | None = None) -> ScoreCells:
    keys = {} if parts is None else {"part": (nw.col(_PART), parts)}
    keys |= {"group": (nw.col(ROW_GROUP), groups), "bin": (bin_of(bins), bins.size)}
    y, known, vote = nw.col(OUTCOME), nw.col(_KNOWN), nw.col(VOTE)
    values = dict(zip(targets.SUMS, (nw.col(ROW_COUNT), known, known * y, known * y * y, vote, vote * y), strict=True))
    sums = sums_at(people, keys, values)
    return ScoreCells(bins, *(sums[name] for name in targets.SUMS))


# ---- estimate


def estimate(sample: ThresholdsSample, plan: ThresholdsPlan, rng: np.random.Generator) -> dict[str, Any]:
    cells, parts, present = sample.cells, sample.parts, plan.present
    bandwidth = Bandwidth.checked(sample.axis, sample.average, plan.curves.bandwidth, np.array([present]))
    now = targets.present_rates(cells, parts, plan.target) if sample.margin is None else present_margins(sample, plan)
    if now["known"].sum() < 2:
        raise NotEnoughData(words.too_few(plan.target, plan.in_force, plan.words))
    pairs = np.triu_indices(len(sample.groups), 1)
    adjusted = np.full(now["pvalue"].shape, np.nan)
    adjusted[pairs] = multiplicity.adjust(now["pvalue"][pairs], "holm")
    apart = rejected(np.fmin(adjusted, adjusted.T), plan.alpha)
    if plan.change == "all":
        apart = ~np.eye(len(adjusted), dtype=bool)
    blocks = targets.blocks_of(now["value"].mean(axis=0), apart, now["known"])
    curves: Callable[[ScoreCells], list[targets.Response]] = partial(targets.responses, target=plan.target)
    if plan.margin:
        pooled = None if parts is None else parts.pooled(blocks)
        curves = partial(
            targets.margin_responses, curves=targets.margin_curves(cells.pooled(blocks), pooled, bandwidth)
        )
    rule = (plan.target, present, plan.capacity, plan.direction, bool(plan.randomize))
    search = targets.ThresholdSearch(*rule, blocks, curves)
    solution = search.solve(cells)
    low, high, probability = solution.rules
    counts = sample.selected(np.full(high.size, present), low, high)
    plain = low == high
    chosen = on_lattice(counts, blocks, high, present, bandwidth.widths(np.maximum(high, present)))
    low, high = np.where(plain, chosen, low), np.where(plain, chosen, high)
    before, reached, everybody = counts["reached"][0], counts["reached"][1:], counts["all"]
    after = probability * reached[0] + (1 - probability) * reached[1]
    ends = search.intervals(cells, parts, plan.curves.resamples or plan.default_draws, plan.alpha, rng)
    if plan.margin:
        levels = targets.margins_after(cells, parts, bandwidth, search, solution, high, now)
    else:
        exact = plan.target != "equalized_odds" or plan.randomize
        levels = targets.rates_after(plan.target, after, everybody, now["rows"], blocks, solution, exact=exact)
    certain = sample.binary and plan.outcome is not None and bool(np.all(everybody[0] == everybody[1]))
    right = [targets.accuracy(part, everybody) if certain else np.nan for part in (before, after)]
    gain = (after[0] - before[0]) * (counts["lines"] / everybody[0])  # rows, whatever their weights
    lowered = np.minimum(low, high) < present - 1e-12 * max(1.0, abs(present))
    if plan.rows.in_force:  # distances from the thresholds in force become scores
        offset = np.array([plan.rows.in_force[group] for group in sample.groups])
        low, high = low + offset, high + offset
        ends |= {name: ends[name] + offset for name in ("high", "low")}
    return {
        **levels,
        # Every interval holds its estimate: samples are drawn in wider bins than those in which thresholds are found.
        "thresholds_low": np.fmin(high, ends["high"][0]),
        "thresholds_high": np.fmax(high, ends["high"][1]),
        "lottery_low": np.fmin(low, ends["low"][0]),
        "lottery_high": np.fmax(low, ends["low"][1]),
        "groups": sample.groups,
        "size": counts["lines"],
        "blocks": blocks,
        "pvalue": multiplicity.smallest(adjusted),
        "thresholds": high,
        "lottery": low,
        "probability": probability,
        "target": float(solution.aim.mean()),
        "before": now["value"],
        "rate_before": before[0] / everybody[0],
        "rate_after": after[0] / everybody[0],
        "selected_change": gain,
        "selected_change_low": np.fmin(gain, ends["share"][0] * counts["lines"]),
        "selected_change_high": np.fmax(gain, ends["share"][1] * counts["lines"]),
        "overall_before": float(before[0].sum() / everybody[0].sum()),
        "overall_after": float(after[0].sum() / everybody[0].sum()),
        "accuracy_before": right[0],
        "accuracy_after": right[1],
        "accuracy_change_low": float(np.fmin(ends["accuracy"][0], right[1] - right[0])) if certain else np.nan,
        "accuracy_change_high": float(np.fmax(ends["accuracy"][1], right[1] - right[0])) if certain else np.nan,
        "known": now["known"],
        "known_share": float(everybody[1].sum() / everybody[0].sum()),
        "reached": solution.reached,
        "lowered": lowered,
    }


# Columns of the estimate that decide how far a threshold can be relied on, and are not reported themselves.
DOUBTS = ("known", "known_share", "reached", "lowered", "met", "falling", "beyond_reach")


def present_margins(sample: ThresholdsSample, plan: ThresholdsPlan) -> dict[str, Any]:
    assert sample.margin is not None
    now, difference = at_threshold(sample.margin, plan.present, plan.curves)
    place = [sample.margin.groups.index(group) for group in sample.groups]
    value, se, effective = (now[name][place][None] for name in ("estimate", "estimate_se", "effective_n"))
    pvalue = np.full((len(sample.margin.groups),) * 2, np.nan)
    first, second = now["pairs"].T
    pvalue[first, second] = pvalue[second, first] = difference.pvalue()
    known = np.isfinite(value[0])
    pvalue = np.where(known[:, None] & known[None, :], pvalue[np.ix_(place, place)], np.nan)
    return {"value": value, "se": se, "rows": effective, "known": known, "pvalue": pvalue}


def on_lattice(
    counts: Mapping[str, FloatArray], blocks: IntArray, high: FloatArray, present: float, width: FloatArray
) -> FloatArray:
    """One threshold for each block, if scores lie on a lattice.

    The present threshold if a block selects the same people; the lowest score selected if that is another point of the
    curve; otherwise the solution.
    """
    chosen, selected = np.full(high.size, present), counts["reached"][:, 0]
    for block in range(int(blocks.max()) + 1):
        members = blocks == block
        if np.any(selected[2, members] != selected[0, members]):
            lowest = np.fmin.reduce(counts["lowest"][members])  # NaN if nobody is selected
            chosen[members] = np.where(lowest - high[members] > APART * width[members], lowest, high[members])
    return chosen


# ---- decide


def decide(columns: Mapping[str, Any], sample: ThresholdsSample, plan: ThresholdsPlan) -> dict[str, Any]:
    """Whether the present threshold treats groups differently, and which new ones can be used."""
    known, rate = columns["known"], columns["rate_after"]
    moved = int(columns["blocks"].max()) > 0 or plan.capacity is not None
    sound = np.ones(known.size, dtype=bool)
    if plan.margin and moved:
        # Together they keep the rate: if one group no longer has a margin, the others were moved to make up for it.
        sound = (rate > 0) & ((rate < 1) | (columns["rate_before"] == 1))
        sound &= ~columns["falling"] & ~columns["beyond_reach"]
        sound &= plan.direction != "both" or bool(sound[known].all())
    status = np.where(columns["lowered"] & plan.margin, Status.EXTRAPOLATED, Status.OK)
    status = np.where(columns["met"] & sound, status, Status.INFEASIBLE)
    reported = {name: values for name, values in columns.items() if name not in DOUBTS}
    return reported | {
        "se": np.where(plan.margin & columns["lowered"], np.nan, columns["se"]),
        "status": np.where(known, status, Status.UNSUPPORTED),
        "verdict": conclude(columns["pvalue"], alpha=plan.alpha).verdict,
        "notes": notes(columns, sample, plan, moved=moved),
    }


def notes(
    columns: Mapping[str, Any], sample: ThresholdsSample, plan: ThresholdsPlan, *, moved: bool
) -> tuple[Note, ...]:
    labels, known, rate = np.array([g.label for g in sample.groups], object), columns["known"], columns["rate_after"]
    wanted = columns["overall_before"] if plan.capacity is None else plan.capacity
    unknown = 0 if plan.margin or plan.outcome is None else sample.dropped.get(plan.outcome, 0)
    shares = {"before": wanted, "after": columns["overall_after"], "rate": plan.words["selection_rate"]}
    known_share = columns["known_share"]

    def about(code: str, which: BoolArray, **values: Any) -> tuple[Note, ...]:
        return note_if(code, labels[which].tolist(), **values)

    listed = [
        *([Note("outcome_left_out", values={"rows": unknown})] if unknown else []),
        *([Note("outcome_of_some", values={"share": known_share})] if known_share < 1 else []),
        *about("threshold_stays", ~known, margin=plan.margin, name=plan.words[plan.target]),
    ]
    if plan.direction != "both":
        listed.append(Note("one_way", values=shares | {"direction": plan.direction}))
    elif not columns["reached"] or abs(columns["overall_after"] - wanted) > 1e-3:
        listed.append(Note("rate_not_kept", values=shares))
    if not moved:
        return tuple(listed)
    listed += about("outcomes_fall", columns["falling"])
    listed += about("nobody_at_threshold", known & (rate == 0))
    listed += about("everybody_at_threshold", known & (rate == 1))
    # Metrics that differ by more than their standard errors afterwards, between groups with different thresholds.
    for metric, after, se in zip(targets.metrics_of(plan.target), columns["after"], columns["se"], strict=True):
        low, high = int(np.nanargmin(after)), int(np.nanargmax(after))
        apart = after[high] - after[low] > max(float(np.hypot(se[low], se[high])), 1e-6)
        if apart and columns["blocks"][low] != columns["blocks"][high]:
            values = {
                "name": plan.words[metric],
                "low": float(after[low]),
                "high": float(after[high]),
                "share": sample.binary or metric != "outcome_at_margin",
                "odds": plan.target == "equalized_odds" and not plan.randomize,
            }
            listed.append(Note("still_differ", (labels[low], labels[high]), values))
    return tuple(listed)


# ---- evidence


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ThresholdsResult(Evidence):
    """Group thresholds at which a metric is equal; see `isonomy.equalize_thresholds`.

    ``before``, ``after`` and ``se`` have one line for each of the ``metrics``; ``target`` is their common value.
    Groups of one number in ``blocks`` share a threshold; -1 keeps the present one. From ``lottery`` up to the threshold
    people are selected with the ``probability``; if both are equal there is no lottery. ``pvalue`` is that of equality
    at the present threshold, adjusted for all pairs of groups.
    """

    method: ClassVar[str] = words.THRESHOLDS_METHOD
    references: ClassVar[tuple[str, ...]] = (*words.REFERENCES, words.HARDT)
    never_shown: ClassVar[tuple[str, ...]] = words.THRESHOLDS_LIMITS

    size: FloatArray = column("Rows in group", count=True)
    thresholds: FloatArray = column("New threshold", name="estimate")
    threshold: float | FloatArray = column("Present threshold", name="reference", withheld=False)
    thresholds_low: FloatArray = column("New threshold from", name="ci_low")
    thresholds_high: FloatArray = column("New threshold to", name="ci_high")
    lottery: FloatArray = column("Lottery from score")
    lottery_low: FloatArray = column("Lottery from score, at least")
    lottery_high: FloatArray = column("Lottery from score, at most")
    probability: FloatArray = column("Chance in the lottery", unit="%")
    before: FloatArray = column(listed=False)
    after: FloatArray = column(listed=False)
    se: FloatArray = column(listed=False)
    rate_before: FloatArray = column(unit="%")
    rate_after: FloatArray = column(unit="%")
    selected_change: FloatArray = column("More or fewer selected", count=True, sizes=False)
    selected_change_low: FloatArray = column("More or fewer, from", whole=True)
    selected_change_high: FloatArray = column("More or fewer, to", whole=True)
    metric: str  # the target
    metrics: tuple[str, ...]  # its rates
    blocks: IntArray
    pvalue: float = field(metadata=POOLED)
    target: float
    overall_before: float
    overall_after: float
    accuracy_before: float
    accuracy_after: float
    accuracy_change_low: float
    accuracy_change_high: float
    direction: str
    change: str
    alpha: float
    binary: bool = False  # whether every outcome is 0 or 1
    words: Mapping[str, str] = field(default_factory=lambda: words.TARGETS)  # what metrics are called
    chosen: str = "selected"  # what people above their threshold are

    @property
    def present(self) -> FloatArray:
        """The present threshold of each group."""
        return np.broadcast_to(np.asarray(self.threshold, dtype=np.float64), self.thresholds.shape)

    @property
    def moved(self) -> list[int]:
        """The lines of the groups that get another threshold, as far as they are reported."""
        return [int(k) for k in np.flatnonzero((self.thresholds != self.threshold) & ~np.isnan(self.size))]

    # ---- the table

    def metric_columns(self) -> dict[str, tuple[FloatArray, str, str]]:
        """The values of the columns about metrics, their headings (in the words of sentences) and their units."""
        columns = {}
        for k, metric in enumerate(self.metrics):
            name, share = ("marginal", self.binary) if metric == "outcome_at_margin" else (metric, True)
            for end, text in (("before", "before"), ("after", "after"), ("se", "standard error")):
                unit = "" if not share else "points" if end == "se" else "%"
                columns[f"{name}_{end}"] = getattr(self, end)[k], f"{self.words[metric]} {text}", unit
        return columns

    def table(self) -> Columns:
        """One row per group; metrics before and after stand before the rates, lotteries only where there are any."""
        whole, drawn = super(ThresholdsResult, self).table(), bool(np.any(self.lottery < self.thresholds))
        columns: dict[str, Sequence[object] | AnyArray] = {}
        for name, values in whole.items():
            if name == "rate_before":
                columns |= {key: numbers for key, (numbers, *_) in self.metric_columns().items()}
            if drawn or not name.startswith(("lottery", "probability")):
                columns[name] = values
        return columns

    def units(self) -> Mapping[str, str]:
        """Rates, and outcomes of 0 and 1, in percent, with errors in points."""
        units = {name: unit for name, (_, _, unit) in self.metric_columns().items() if unit}
        return {**super(ThresholdsResult, self).units(), **units}

    def headings(self) -> Mapping[str, str]:
        """What readers call the columns: metrics as sentences call them."""
        headings = {name: heading for name, (_, heading, _) in self.metric_columns().items()}
        headings |= {f"rate_{end}": f"{self.words['selection_rate']} {end}" for end in ("before", "after")}
        headings["selected_change"] = f"More or fewer {self.chosen}"
        return {**super(ThresholdsResult, self).headings(), **headings}

    # ---- words

    def assumptions(self) -> tuple[tuple[str, str], ...]:
        """What is assumed for all targets, and for outcomes at the margin."""
        margin = words.MARGIN_ASSUMPTIONS if self.metric == "outcome_at_margin" else ()
        return (*words.THRESHOLDS_ASSUMPTIONS, *margin)

    def limits(self) -> tuple[str, ...]:
        """What this result does not show."""
        return (*self.never_shown, *([words.EXTRAPOLATED] if Status.EXTRAPOLATED in self.status else []))

    def headline(self) -> str:
        """What was shown about the present threshold, and what was done."""
        return words.thresholds_headline(self)

    def ranking(self) -> list[int]:
        """The groups whose present value is lowest first."""
        return np.argsort(np.nan_to_num(self.before[0], nan=np.inf), kind="stable").tolist()

    def findings(self) -> tuple[str, ...]:
        """The common value, the thresholds and what they do, and what they cost."""
        reported = [k for k in self.ranking() if self.status[k] is not Status.SUPPRESSED]
        numbers = range(int(self.blocks.max()) + 1)
        blocks = [[self.labels[k] for k in reported if self.blocks[k] == number] for number in numbers]
        shared = [block for block in blocks if len(block) > 1] if self.moved else []
        costs = [words.accuracy_finding(self)] if self.moved and not np.isnan(self.accuracy_after) else []
        return (
            words.common_target(self),
            *([words.shared_threshold(shared, moves=np.ndim(self.threshold) > 0)] if shared else []),
            *(words.threshold_finding(self, k) for k in reported),
            *(words.selected_finding(self, k) for k in reported if k in self.moved),
            *costs,
        )

    def plot(self) -> alt.TopLevelMixin:
        """Thresholds before and after, with the metric at each."""
        from isonomy.scores.charts import thresholds

        return thresholds(self)

    def published(self, minimum: int, also: Any = ()) -> Self:
        """A copy without small groups; a note that compares two groups is withheld with either of them."""
        result = super(ThresholdsResult, self).published(minimum, also)
        notes = tuple(note for note in result.notes if note.code != "still_differ" or len(note.groups) == 2)
        if len(notes) == len(result.notes):
            return result
        withheld = Note("withheld")
        return replace(result, notes=notes if withheld in notes else (*notes, withheld))
