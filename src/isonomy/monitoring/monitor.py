"""Monitoring: has a disparity been shown, or begun, over batches of decisions that somebody looks at all the time?"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, Unpack

import numpy as np

from isonomy.errors import DataError, MissingRole, UnknownOption, UsageError, refuse_percent
from isonomy.frames import Group, Grouping, Groups, MetricLike, Request
from isonomy.frames.expressions import Scalar
from isonomy.frames.groups import CONDITION
from isonomy.frames.metrics import Measure, canonical, listed, measure, shared_cells
from isonomy.inference import Verdict, inside
from isonomy.inference.decide import Alternative, overall
from isonomy.inference.effect import too_skewed
from isonomy.inference.multiplicity import adjust as adjust_pvalues
from isonomy.monitoring import words
from isonomy.monitoring.read import add_batches, batch_request, read
from isonomy.monitoring.sequences import alarm as change
from isonomy.monitoring.sequences.exact import LEAST_PRIOR, ExactSequence
from isonomy.monitoring.sequences.score import (
    MeanSequence,
    PeopleSequence,
    RateSequence,
    batches_to_reach,
)
from isonomy.monitoring.sequences.strata import (
    BatchCounts,
    BatchMoments,
    close_counts,
    close_moments,
    merge_moments,
    sum_counts,
    sum_moments,
)
from isonomy.monitoring.state import (
    MonitorState,
    Unwritten,
    locked,
    read_option,
    read_state,
    save_state,
    written_option,
)
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray
from isonomy.numerics.status import Status
from isonomy.options import (
    ROW_DEFAULTS,
    Alpha,
    Column,
    Form,
    Number,
    Option,
    Positive,
    RowOptions,
    Tolerance,
    Whole,
    check,
    hints,
)
from isonomy.results import Columns, Evidence, Note, Plan, column, note_if, open_call, phrases, provenance, question
from isonomy.results.evidence import as_frame, plain_option

if TYPE_CHECKING:
    import altair as alt

Reference = Annotated[str | float | Mapping[str, object] | Group, Form("reference")]
CASES, ROWS = 10, 30  # cases and others, or rows of other metrics, before anything is judged
FEWEST_BUCKETS = 10
LATE = 0.05  # the share of rows without an outcome that is reported
VERDICTS = (Verdict.VIOLATION, Verdict.WITHIN_TOLERANCE, Verdict.INCONCLUSIVE)
# Options that may change after looking: they name columns, or say how rows are read and results displayed.
FREE = ("batch", "outcome", "prediction", "score", "better", "count", "missing", "missing_group")


@dataclass(frozen=True)
class MixtureOption(Option):
    """The normal-mixture boundary behind tests and intervals.

    Parameters
    ----------
    prior : float, optional
        The standard deviation of the disparities that the boundary is tuned for (of their logarithms, for ratios).
        Default: the tolerance, or a tenth of the metric's standard deviation if that is larger (for ratios, the
        logarithm of the tolerance, or 0.2).
    side : {"two-sided", "greater", "less"}, default "two-sided"
        Which disparities are looked for. On one side, intervals are bounds.
    interval : {"pointwise", "simultaneous"}, default "pointwise"
        Intervals for each group alone, or for all groups together.
    """

    name: ClassVar[str] = "mixture"
    prior: Positive | None = None
    side: Alternative = "two-sided"
    interval: Literal["pointwise", "simultaneous"] = "pointwise"


mixture = MixtureOption


# ---- call


@question(
    "MonitorPlan",
    asks="Over all batches so far, which groups are treated differently, and did a difference begin?",
    topic="{} over time",
    from_counts=True,
    badges={"inconclusive": "Not decided yet"},
    verdicts=words.VERDICTS,
    next_steps=words.NEXT_STEPS,
    meaning=words.MEANING,
)
def monitor(
    data: object = None,
    *,
    metric: MetricLike,
    groups: Groups,
    batch: Column | None = None,
    outcome: Column | None = None,
    prediction: Column | None = None,
    score: Column | None = None,
    positive: Scalar | None = None,
    reference: Reference = "rest",
    scale: Literal["difference", "ratio", "odds_ratio"] = "difference",
    tolerance: Tolerance = None,
    center: float | Mapping[str, float] | None = None,
    method: Literal["mixture", "exact"] | MixtureOption = "mixture",
    alpha: Alpha = 0.05,
    adjust: Literal["holm", "e-bh", "none"] = "holm",
    run_length: Annotated[int, Number(least=2, whole=True)] | None = 500,
    better: Literal["higher", "lower"] | None = None,
    depth: Whole = 1,
    min_size: Whole = 10,
    **rows: Unpack[RowOptions],
) -> MonitorResult:
    """Over all batches so far, which groups are treated differently, and did a difference begin?

    Verdicts, p-values and intervals are valid at any time: the probability that the monitor ever, at any look, shows a
    difference that is not there is at most ``alpha`` for all groups together. Batches are strata, as in `isonomy.flag`
    with ``given``: a group is compared with its reference in the same batch. `isonomy.Monitor` counts batch by batch,
    with the same numbers.

    Parameters
    ----------
    data : frame, mapping or path
        Any table, as in `isonomy.flag`.
    metric : str, Metric or sequence of these
        As in `isonomy.flag`; metrics that are means over rows.
    groups : str, cut, where or sequence of these
        The columns, cuts and conditions that form the groups.
    batch : str
        The column that says which batch a row belongs to, such as a week. Batches are taken in the order of its values.
    outcome, prediction, score : str, optional
        The columns with these roles, as the metric needs them.
    positive : str, int, float or bool, optional
        The label of the outcome and the prediction that counts as 1.
    reference : str, float, mapping or Group, default "rest"
        ``"rest"`` (or ``"population"``, which means the same here), a number, or a group such as ``{"race": "White"}``.
    scale : {"difference", "ratio", "odds_ratio"}, default "difference"
        How a group is compared with the reference. Odds ratios need ``method="exact"``.
    tolerance : float, optional
        The largest disparity that does not matter; for ratios a ratio, such as 0.8.
    center : float or mapping, optional
        The disparity that is accepted, if it is not zero (a ratio of 1): a number, or one for each group's label.
    method : {"mixture", "exact"} or iso.mixture(prior, side, interval), default "mixture"
        The normal-mixture boundary, or the exact conditional likelihood of an odds ratio.
    alpha : float, default 0.05
        The error rate over the whole life of the monitor.
    adjust : {"holm", "e-bh", "none"}, default "holm"
        The adjustment for the number of groups and metrics. ``"e-bh"`` controls the false discovery rate at any
        stopping time; its flags may be withdrawn later.
    run_length : int, optional
        The alarm for a disparity that begins late comes on average at most once in this many batches if there is none.
        None: no alarm. Default: 500.
    better : {"higher", "lower"}, optional
        Which values of the metric are better for the people concerned, as in `isonomy.flag`.
    depth : int, default 1
        How many of the columns, cuts and conditions are intersected.
    min_size : int, default 10
        Groups with fewer rows that meet the metric's condition are listed, not tested.
    **rows
        count, cluster, missing, missing_group: how rows are read; see `isonomy.RowOptions`. Weights are refused.

    Returns
    -------
    MonitorResult
        ``to_frame()`` has one row per group: group, size, n, estimate, reference, disparity, ci_low, ci_high, pvalue,
        adjusted_pvalue, verdict, direction, status, evalue, first_shown, alarm, since, evidence, batches and, with a
        tolerance, batches_needed. ``history()`` has one row per group and batch; ``alarms`` lists the alarms.

    Notes
    -----
    The disparity is the common Mantel-Haenszel difference or ratio with batches as strata; the test is a
    skewness-corrected score statistic with the normal-mixture boundary of Robbins. The interval is about the average of
    the batches so far, weighted by their information. It is about one and a half times as wide as that of one look.

    When it misleads: if outcomes of some groups arrive later than those of others (count all decisions at the same
    age); if rows belong together and no ``cluster`` says so; if the monitor is restarted often.

    References
    ----------
    Robbins, H. (1970). Statistical methods related to the law of the iterated logarithm. Annals of Mathematical
    Statistics 41, 1397-1409.

    Examples
    --------
    >>> import isonomy as iso
    >>> weeks = {"week": [w for w in range(8) for _ in range(100)], "sex": ["f", "m"] * 400}
    >>> weeks["ok"] = [int(i % 5 < (2 if s == "f" else 4)) for i, s in enumerate(weeks["sex"])]
    >>> result = iso.monitor(weeks, batch="week", metric="selection_rate", prediction="ok", groups="sex")
    >>> result.to_frame().select("group", "verdict", "first_shown").rows()
    [('sex=f', 'violation', '1'), ('sex=m', 'violation', '1')]
    """
    metric = canonical(metric)
    plan, _, record = open_call("monitor", MonitorPlan, locals())
    if plan.batch is None:
        raise MissingRole("batch: name the column that says which batch a row belongs to, such as a week.")
    state = MonitorState()
    add_batches(state, plan, read(plan))
    dropped = state.batches[0].dropped if state.batches else {}
    return conclude_monitor(state, plan, record(rows=sum(b.rows for b in state.batches), dropped=dropped, random=False))


class Monitor:
    """`isonomy.monitor` batch by batch: a state of sums that is updated, saved and loaded.

    Parameters
    ----------
    **options
        Those of `isonomy.monitor`, without ``data`` and ``batch``.

    Examples
    --------
    >>> import isonomy as iso
    >>> watch = iso.Monitor(metric="selection_rate", prediction="ok", groups="sex", tolerance=0.05)
    >>> for week in ("2026-W01", "2026-W02"):
    ...     result = watch.update({"sex": ["f", "m"] * 200, "ok": [0, 1] * 100 + [0, 0] * 100}, batch=week)
    >>> result.verdict.value, result.first_shown
    ('violation', ('2026-W01', '2026-W01'))
    """

    def __init__(self, **options: Any) -> None:
        known = hints(monitor)
        for name, value in options.items():
            if name in ("data", "batch") or name not in known:
                raise UsageError(f"{name}: not an option of Monitor; update takes data and batch.")
            check(name, value, known[name])
        self._options = options | {"metric": canonical(options.get("metric"))}
        self._state = MonitorState()
        self._plan_options(None)

    def _plan_options(self, source: Any) -> MonitorPlan:
        defaults = {name: part for name, part in _DEFAULTS.items() if part is not Ellipsis}
        given = {name: part for name, part in self._options.items() if name not in ROW_DEFAULTS}
        if absent := [name for name in _DEFAULTS if name not in {**defaults, **given} or given.get(name, 0) is None]:
            absent = [name for name in absent if _DEFAULTS[name] is Ellipsis]
            if absent:
                raise MissingRole(f"{absent[0]}: it is required.")
        if source is None and self._options.get("weight") is not None:
            raise UsageError(words.WEIGHTS)
        return MonitorPlan(source, **{**defaults, **given})

    def update(self, data: object, *, batch: str, note: str = "") -> MonitorResult:
        """Count the rows of one batch, and return the result to date."""
        check("batch", batch, str)
        check("note", note, str)
        for name, value in self._options.items():
            if any(isinstance(part, Unwritten) for part in (value if isinstance(value, (list, tuple)) else (value,))):
                raise UsageError(
                    f"{name}: the file cannot hold {str(value)!r}; give it again: Monitor.load(path, {name}=...)."
                )
        state = self._state
        for known in state.current:
            if known.id == batch:
                raise UsageError(
                    f"batch: {batch!r} has been counted already ({known.rows:,} rows on {known.at[:10]}). Give another "
                    "name, or restart the monitor."
                )
        reading = {name: value for name, value in self._options.items() if name in ROW_DEFAULTS}
        options = {**_DEFAULTS, **self._options}
        plan, _, record = open_call(
            "monitor",
            MonitorPlan,
            {
                **{name: value for name, value in options.items() if name not in ROW_DEFAULTS},
                "data": data,
                "rows": reading,
            },
        )
        asked = dict(record().options)
        self._refuse_changes(asked)
        entry = read(plan, batch)
        for known in state.current:
            if entry.fingerprint and known.fingerprint == entry.fingerprint:
                raise DataError(
                    f"data: these are the rows of batch {known.id!r} again (same fingerprint). A batch counts once."
                )
        entry.note = note
        if state.batches and not state.current and self._changed(asked):
            state.put_away()
        add_batches(state, plan, entry)
        state.question = asked
        state.options = {name: written_option(value) for name, value in self._options.items()}
        return self.result()

    def _changed(self, asked: Mapping[str, Any]) -> list[str]:
        """The options that decide what is tested, and differ from those with which batches were counted."""
        before = self._state.question
        return [name for name in before if name not in FREE and _plain(before[name]) != _plain(asked.get(name))]

    def _refuse_changes(self, asked: Mapping[str, Any]) -> None:
        for name in self._changed(asked) if self._state.current else ():
            raise UsageError(
                f"{name}: the monitor was started with {self._state.question[name]!r}, this call says "
                f"{asked.get(name)!r}. An option chosen after looking voids the error rate; restart the monitor to "
                "begin again with another."
            )

    def result(self) -> MonitorResult:
        """The evidence to date, without new rows."""
        state, rows = self._state, self._state.current
        dropped: dict[str, int] = {}
        for batch in rows:
            for name, n in batch.dropped.items():
                dropped[name] = dropped.get(name, 0) + n
        options = state.question or plain_option({**_DEFAULTS, **self._options})
        record = provenance("monitor", options, rows=sum(batch.rows for batch in rows), dropped=dropped)
        return conclude_monitor(state, self._plan_options(None), record)

    @property
    def about(self) -> dict[str, Any]:
        """Notes in plain JSON types that are saved with the state, such as the title of a report."""
        return self._state.about

    def restart(self, note: str = "") -> None:
        """Begin again: sums from zero, a new error rate, and perhaps other options. The history is kept."""
        check("note", note, str)
        self._state.epochs.append({"from": len(self._state.batches), "note": note})
        self._state.buckets = None

    def save(self, path: str | Path) -> None:
        """Write the state to a JSON file, complete or not at all. It has sums of small groups: keep it as the rows."""
        place = Path(path)
        with locked(place):
            save_state(self._state, place)

    @classmethod
    def load(cls, path: str | Path, **options: Any) -> Self:
        """The monitor in a file. ``options``: those that a file cannot hold, such as conditions, or that are to change.

        An option that decides what is tested can change only if no batch was counted since the last restart.
        """
        state = read_state(Path(path))
        stored = {name: read_option(value, {"mixture": MixtureOption}) for name, value in state.options.items()}
        loaded = cls(**{**stored, **options})
        loaded._state = state
        if state.current:
            loaded._refuse_changes(state.question | plain_option(options))
        return loaded


def _plain(value: Any) -> Any:
    """An option as it is compared: numbers by value, everything else as text."""
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value] if len(value) != 1 else _plain(value[0])
    if isinstance(value, Mapping):
        return {str(name): _plain(part) for name, part in value.items()}
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else value


# ---- plan


@dataclass(frozen=True, eq=False, kw_only=True)
class MonitorPlan(Plan):
    metric: MetricLike
    groups: Groups
    batch: str | None
    outcome: str | None
    prediction: str | None
    score: str | None
    positive: Scalar | None
    reference: Reference
    scale: Literal["difference", "ratio", "odds_ratio"]
    tolerance: float | None
    center: float | Mapping[str, float] | None
    method: Literal["mixture", "exact"] | MixtureOption
    alpha: float
    adjust: Literal["holm", "e-bh", "none"]
    run_length: int | None
    better: Literal["higher", "lower"] | None
    depth: int
    min_size: int

    def __post_init__(self) -> None:
        for refused, message in self.refusals():
            if refused:
                raise UsageError(message)
        if self.source is not None:
            _ = self.requests

    def refusals(self) -> Iterator[tuple[bool, str]]:
        ratio, tolerance, reference = self.scale != "difference", self.tolerance, self.reference
        yield (
            reference in ("highest", "lowest") if isinstance(reference, str) else False,
            f"reference: {reference!r} is not allowed in monitor; the best group may change from batch to batch. Give "
            "'rest', a group or a number.",
        )
        if isinstance(reference, str) and reference not in ("rest", "population"):
            raise UnknownOption("reference", reference, ("rest", "population", "a number", "a mapping"))
        if not isinstance(reference, (str, Mapping, Group)) and not Number().admits(reference):
            raise UnknownOption("reference", reference, ("rest", "population", "a number", "a mapping"))
        yield (
            isinstance(reference, Mapping) and not reference,
            'reference: an empty mapping; give for instance {"race": "Caucasian"}.',
        )
        yield (
            ratio and tolerance is not None and not 0 < tolerance < 1,
            f"tolerance: {tolerance!r} is not allowed for scale={self.scale!r}; give a ratio between 0 and 1: 0.8 "
            "tolerates ratios from 0.8 to 1.25.",
        )
        centers = self.center.values() if isinstance(self.center, Mapping) else [self.center]
        yield (
            ratio and any(c is not None and c <= 0 for c in centers),
            f"center: {self.center!r} is not allowed for scale={self.scale!r}; give a ratio above 0.",
        )
        yield (
            (self.scale == "odds_ratio") != (self.method == "exact"),
            f"scale: {self.scale!r} is not available with method={str(self.method)!r}; odds ratios need "
            "method='exact', which has no other scale.",
        )
        yield (
            self.method == "exact" and self.number is not None,
            "method: 'exact' is not available with a number as the reference; use 'mixture'.",
        )
        if self.source is None:
            return
        yield self.source.reading.weight is not None, words.WEIGHTS
        cluster, real = self.source.cluster is not None, [m.name for m in self.measures if not m.binary]
        special = [m.name for m in self.measures if m.functional]
        yield (
            bool(special),
            f"metric: {special[:1]} is not a mean over rows, which monitor needs; use flag on a period.",
        )
        yield cluster and ratio, f"scale: {self.scale!r} is not available with cluster; use 'difference'."
        yield cluster and self.number is not None, "reference: a number is not available with cluster."
        yield bool(cluster and real), f"cluster: not available with {real[:1]}, a metric that is not 0/1."
        yield bool(ratio and real), f"scale: {self.scale!r} is not available with {real[:1]}, a metric that is not 0/1."
        refuse_percent(not real and not ratio, tolerance)
        if self.number is not None:
            yield not real and not 0 <= self.number <= 1, f"reference: {self.number} cannot be a rate."
            yield len(self.measures) > 1, "reference: a number is not available with several metrics."

    @property
    def ratio(self) -> bool:
        return self.scale != "difference"

    @property
    def boundary(self) -> MixtureOption:
        return self.method if isinstance(self.method, MixtureOption) else MixtureOption()

    @property
    def number(self) -> float | None:
        """The reference, if it is a number."""
        return None if isinstance(self.reference, (str, Mapping, Group)) else float(self.reference)

    @cached_property
    def group(self) -> Group | None:
        """The reference, if it is a group."""
        if not isinstance(self.reference, (Mapping, Group)):
            return None
        group = self.reference if isinstance(self.reference, Group) else Group.from_mapping(self.reference)
        return group if self.source is None else self.source.labels.named([group])[0]

    def null(self, groups: Sequence[Group]) -> tuple[FloatArray, FloatArray]:
        """The ends of the null of each group: the tolerance around the center."""
        equal = 0.0 if self.scale == "difference" else 1.0
        centers = self.center if isinstance(self.center, Mapping) else {}
        plain = equal if self.center is None or isinstance(self.center, Mapping) else float(self.center)
        center = np.array([float(centers.get(group.label, plain)) for group in groups])
        if self.scale == "difference":
            return center - (self.tolerance or 0.0), center + (self.tolerance or 0.0)
        return center * (self.tolerance or 1.0), center / (self.tolerance or 1.0)

    @cached_property
    def grouping(self) -> Grouping:
        return self.source.grouping(self.groups, self.depth)

    @cached_property
    def measures(self) -> tuple[Measure, ...]:
        roles = {"outcome": self.outcome, "prediction": self.prediction, "score": self.score}
        return tuple(
            measure(self.source, metric, grouping=self.grouping, positive=self.positive, **roles)
            for metric in listed(self.metric)
        )

    @cached_property
    def metric_requests(self) -> tuple[Request, ...]:
        """The request of each metric, with the batch, the reference group and the person as further keys."""
        return tuple(batch_request(self, measure) for measure in self.measures)

    @cached_property
    def shared(self) -> Request | None:
        counted = [r for r, m in zip(self.metric_requests, self.measures, strict=True) if m.binary]
        return shared_cells(counted) if len(counted) > 1 else None

    @property
    def requests(self) -> tuple[Request, ...]:
        """The grouped passes; those of people are made by person, and not shared."""
        if self.source.cluster is not None:
            return self.metric_requests[:0]
        counted = [r for r, m in zip(self.metric_requests, self.measures, strict=True) if m.binary]
        return tuple(counted) if self.shared is None else (self.shared,)


# ---- read: see `isonomy.monitoring.read`

# ---- estimate


def estimate(state: MonitorState, plan: MonitorPlan, first: int, last: int) -> dict[str, Any]:
    """The evidence at every look of an epoch: arrays looks x lines, with the groups of each metric side by side."""
    looks, number = last - first, len(state.metrics)
    sums, groups = state.padded("sums", first, last, 8), state.groups
    spread = state.padded("spread", first, last, 4) if any(batch.spread for batch in state.batches) else None
    size = np.cumsum(np.stack([_filled(batch.sizes, len(groups)) for batch in state.batches[first:last]]), axis=0)
    conditions = np.array([any(name == CONDITION for name, _ in group.items) for group in groups], dtype=bool)
    present = np.tile((size > 0) | conditions, number) & ~np.tile([group == plan.group for group in groups], number)
    binary = [bool(fact["binary"]) for fact in state.metrics]
    # Rows of both sides: the third of four counts, or the fifth of eight moments.
    sizes = [np.cumsum(part[..., [0, 2 if kind else 4]], axis=0) for part, kind in zip(sums, binary, strict=True)]
    pairs = [_comparisons(groups, part, present, plan) + k * len(groups) for k, part in enumerate(sizes)]
    same = np.concatenate(pairs, axis=1)
    tests = np.array([max(np.unique(same[t][present[t]]).size, 1) for t in range(looks)], dtype=float)
    parts = []
    for k in range(number):
        totals = np.array([batch.totals[k] for batch in state.batches[first:last]], dtype=float)
        people = None if spread is None else spread[k]
        parts.append(_estimate_metric(plan, groups, sums[k], totals, people, tests, binary=binary[k]))
    columns = {name: np.concatenate([part[name] for part in parts], axis=-1) for name in parts[0]}
    return columns | {"size": np.tile(size, number), "present": present, "same": same, "tests": tests}


def _filled(values: Sequence[float], size: int) -> FloatArray:
    return np.concatenate([np.asarray(values, dtype=float), np.zeros(size - len(values))])


def _comparisons(groups: Sequence[Group], sizes: FloatArray, present: BoolArray, plan: MonitorPlan) -> IntArray:
    """A number for each comparison (looks x groups): two groups that are each other's rest are one."""
    looks, size = sizes.shape[:2]
    same = np.tile(np.arange(size), (looks, 1))
    if not isinstance(plan.reference, str):
        return same
    n1, n0 = sizes[..., 0], sizes[..., 1]
    by_columns: dict[tuple[str, ...], list[int]] = {}
    for j, group in enumerate(groups):
        by_columns.setdefault(tuple(name for name, _ in group.items), []).append(j)
    for columns, places in by_columns.items():
        if len(places) < 2 or CONDITION in columns:
            continue
        here = present[:, places]
        first, second = here.argmax(axis=1), len(places) - 1 - here[:, ::-1].argmax(axis=1)
        rows, (i, j) = np.arange(looks), (np.array(places)[first], np.array(places)[second])
        mirrored = (here.sum(axis=1) == 2) & (n1[rows, i] == n0[rows, j]) & (n0[rows, i] == n1[rows, j])
        same[rows[mirrored], j[mirrored]] = i[mirrored]
    return same


def _estimate_metric(
    plan: MonitorPlan,
    groups: Sequence[Group],
    given: FloatArray,
    totals: FloatArray,
    spread: FloatArray | None,
    tests: FloatArray,
    *,
    binary: bool,
) -> dict[str, FloatArray]:
    number, side, (low, high) = plan.number, plan.boundary.side, plan.null(groups)
    shape = given.shape[:2]
    prior = np.broadcast_to(_prior(plan, totals, binary=binary)[:, None], shape)
    gate, clusters = np.ones(shape, dtype=bool), np.full(shape, np.inf)
    sequence: Any
    if binary:
        counts = BatchCounts(*np.moveaxis(given[..., :4], -1, 0))
        strata = close_counts(counts, number=number is not None)
        sums = sum_counts(strata, number)
        n1, n0 = counts.n1, counts.n0
        mine, theirs = counts.s1 / np.maximum(n1, 1.0), counts.s0 / np.maximum(n0, 1.0)
        if plan.scale == "odds_ratio":
            sequence = ExactSequence(strata, max(LEAST_PRIOR, abs(float(np.log(plan.tolerance or 1.0)))))
        elif spread is None:
            sequence = RateSequence(sums, plan.scale, number)
        else:
            clusters = spread[..., 3]
            sequence = PeopleSequence(sums, np.moveaxis(spread[..., :3], -1, 0), clusters)
    else:
        moments = BatchMoments(*np.moveaxis(given, -1, 0))
        closed = close_moments(moments, number=number is not None)
        sums = sum_moments(closed, number)
        n1, n0, mine, theirs = moments.n1, moments.n0, moments.mean1, moments.mean0
        sequence = MeanSequence(closed, sums, number)
        skewness, rows = sequence.skewness()
        with np.errstate(all="ignore"):  # the gate of every mean, for as many tests as there are
            third, variance = skewness / rows**2, 1.0 / rows
            gate = np.stack([~too_skewed(third[t], variance[t], plan.alpha, int(m)) for t, m in enumerate(tests)])
    level = plan.alpha / tests[:, None] if plan.boundary.interval == "simultaneous" else plan.alpha
    ci_low, ci_high = sequence.interval(prior, np.broadcast_to(level, shape), side)
    alarms = change.Alarms(np.full(shape, np.nan), np.zeros(shape, dtype=bool), np.full(shape, -1.0))
    if plan.run_length is not None and plan.scale == "difference":
        if not binary:
            increments = change.mean_increments(sequence, prior, low, high, gate, side=side)
        else:
            effect = None if spread is None else _earlier_effect(spread[..., 0], sums.vc)
            increments = change.rate_increments(strata, prior, low, high, side=side, number=number, effect=effect)
        alarms = change.detect(increments, np.broadcast_to(plan.run_length * tests[:, None], shape))
    with np.errstate(all="ignore"):
        facing = theirs if number is None else np.full_like(theirs, number)
        batch = {"difference": mine - facing, "ratio": mine / facing}.get(plan.scale, np.full(shape, np.nan))
        reach = None if plan.tolerance is None else abs(float(np.log(plan.tolerance))) if plan.ratio else plan.tolerance
        pace = np.diff(sequence.information, axis=0, prepend=0.0)
        return {
            "n": np.cumsum(n1, axis=0),
            "batch_n": n1,
            "batches": np.cumsum(n1 > 0, axis=0).astype(float),
            "batch_disparity": np.where((n1 > 0) & ((n0 > 0) | (number is not None)), batch, np.nan),
            "closed": sums.w > 0,
            "estimate": sums.p1 / sums.w,
            "reference_value": sums.p0 / sums.w,
            "disparity": sequence.value,
            "ci_low": ci_low,
            "ci_high": ci_high,
            "log_evidence": sequence.evidence(low, high, prior, side),
            "usable": np.isfinite(sequence.information) & ~np.isnan(prior),
            "zero": (sums.p0 <= 0) & (sums.w > 0) & plan.ratio,
            "gate": gate,
            "clusters": clusters,
            "evidence": alarms.evidence,
            "raised": alarms.raised,
            "since": alarms.since,
            "low": np.broadcast_to(low, shape),
            "high": np.broadcast_to(high, shape),
            "batches_needed": np.full(shape, np.nan)
            if reach is None
            else batches_to_reach(sequence.information, prior, pace, reach, np.broadcast_to(level, shape)),
        }


def _earlier_effect(variance: FloatArray, independent: FloatArray) -> FloatArray:
    """The design effect of people who return, at the look before."""
    ratio = np.where(independent > 0, variance / np.where(independent > 0, independent, 1.0), 1.0)
    return np.maximum(np.concatenate([np.ones_like(ratio[:1]), ratio[:-1]]), 1.0)


def _prior(plan: MonitorPlan, totals: FloatArray, *, binary: bool) -> FloatArray:
    """The prior's standard deviation at each look; NaN until enough rows were counted, and then fixed."""
    if plan.method == "exact":
        return np.full(len(totals), LEAST_PRIOR)
    prior, whole = np.full(len(totals), np.nan), np.zeros(4)
    for t, total in enumerate(totals):
        if binary:
            whole[:2] += total[:2]
            n, cases = whole[:2]
            ready, deviation = min(cases, n - cases) >= CASES, np.sqrt(max(cases * (n - cases), 0.0)) / max(n, 1.0)
        else:
            whole = merge_moments(whole, np.append(total, 0.0))
            ready, deviation = whole[0] >= ROWS, np.sqrt(whole[2] / max(whole[0], 1.0))
        if ready:
            least = 0.2 if plan.ratio else 0.1 * deviation
            tolerance = 0.0 if plan.tolerance is None else plan.tolerance
            tolerated = abs(float(np.log(tolerance))) if plan.ratio and tolerance else tolerance
            prior[t:] = plan.boundary.prior or max(tolerated, least)
            break
    return prior


# ---- decide


def decide(columns: Mapping[str, Any], plan: MonitorPlan) -> dict[str, Any]:
    """At every look: p-values that never rise, adjusted for all comparisons so far; verdicts; and statuses.

    A violation that was once shown stays (not with e-BH, whose flags may be withdrawn).
    """
    tested = columns["present"] & columns["closed"] & columns["usable"] & (columns["n"] >= plan.min_size)
    tested &= ~columns["zero"] & (columns["clusters"] >= FEWEST_BUCKETS) & columns["gate"]
    log_e = np.where(tested, columns["log_evidence"], -np.inf)
    best = np.maximum.accumulate(log_e, axis=0)
    followed = np.logical_or.accumulate(tested, axis=0)
    pvalue = np.where(followed, np.minimum(np.exp(-np.maximum(best, 0.0)), 1.0), np.nan)
    now_p = np.where(tested, np.minimum(np.exp(-np.maximum(log_e, 0.0)), 1.0), np.nan)
    adjusted = np.full(pvalue.shape, np.nan)
    method = {"holm": "holm", "e-bh": "bh", "none": "none"}[plan.adjust]
    for t, p in enumerate(now_p if plan.adjust == "e-bh" else pvalue):
        # A group that is listed and not yet tested counts among the comparisons, with a p-value of 1.
        listed_p = np.where(np.isnan(p) & columns["present"][t], 1.0, p)
        adjusted[t] = np.where(np.isnan(p), np.nan, adjust_pvalues(listed_p, method, columns["same"][t]))
    if plan.adjust != "e-bh":
        adjusted = np.where(np.isnan(adjusted), np.nan, np.fmin.accumulate(adjusted, axis=0))
    shown = adjusted <= plan.alpha
    center = np.sqrt(columns["low"] * columns["high"]) if plan.ratio else (columns["low"] + columns["high"]) / 2.0
    with np.errstate(all="ignore"):
        ends = [np.log(end / center) if plan.ratio else end - center for end in (columns["ci_low"], columns["ci_high"])]
    reach = None if plan.tolerance is None else abs(float(np.log(plan.tolerance))) if plan.ratio else plan.tolerance
    within = inside(ends[0], ends[1], reach, plan.boundary.side) & tested
    status = np.full(tested.shape, Status.OK, dtype=object)
    for refused, kind in (
        (~columns["gate"], Status.SKEWED),
        (columns["clusters"] < FEWEST_BUCKETS, Status.FEW_CLUSTERS),
        (columns["closed"] & ~columns["usable"], Status.TOO_SMALL),
        (columns["zero"], Status.ZERO_BASELINE),
        (~columns["closed"], Status.EMPTY),
        (columns["n"] < plan.min_size, Status.TOO_SMALL),
        (~columns["present"] & (columns["size"] > 0), Status.REFERENCE),
    ):
        status[refused] = kind
    return {
        "pvalue": pvalue,
        "adjusted_pvalue": adjusted,
        "evalue": np.where(tested, np.exp(np.minimum(columns["log_evidence"], 700.0)), np.nan),
        "code": np.where(shown, 0, np.where(within, 1, 2)),
        "status": status,
        "tested": tested,
    }


def conclude_monitor(state: MonitorState, plan: MonitorPlan, record: Any) -> MonitorResult:
    """Every epoch has an error rate of its own; the result is the last look of the last one, with the whole history."""
    starts = [epoch["from"] for epoch in state.epochs]
    looks: dict[str, list[Any]] = {name: [] for name in BY_BATCH}
    columns: dict[str, Any] = {}
    lines = len(state.groups) * len(state.metrics)
    for first, last in zip(starts, [*starts[1:], len(state.batches)], strict=True):
        if first == last:
            columns = {}
            continue
        columns = estimate(state, plan, first, last)
        columns |= decide(columns, plan)
        known = columns["tested"]
        columns["since"] = np.where(columns["raised"], columns["since"] + first, np.nan)
        for name, (part, judged) in BY_BATCH.items():
            looks[name].append(np.where(known, columns[part], np.nan) if judged else columns[part].astype(float))
    groups = tuple(state.groups) * len(state.metrics)
    facts = [fact for fact in state.metrics for _ in state.groups]
    now_ = {name: values[-1] for name, values in columns.items() if np.ndim(values) == 2}
    blank = np.full(lines, np.nan)
    names = tuple(batch.id for batch in state.batches)
    codes = now_.get("code", np.full(lines, 2))
    verdicts = tuple(VERDICTS[int(code)] for code in codes)
    status = now_.get("status", np.full(lines, Status.EMPTY, dtype=object))
    judged = now_.get("tested", np.zeros(lines, dtype=bool))
    lower = np.array([fact["lower"] if plan.better is None else plan.better == "lower" for fact in facts], dtype=bool)
    middle = (now_["low"] + now_["high"]) / 2.0 if now_ else blank
    better = (now_.get("disparity", blank) > middle) != lower
    first_shown = _first(columns, "code", names, starts[-1], lines, lambda code: code == 0)
    last_alarm, since = _last_alarm(columns, names, starts[-1], lines)
    concerned = [v for v, s in zip(verdicts, status, strict=True) if s is not Status.REFERENCE]
    shown = np.array([v is Verdict.VIOLATION for v in verdicts], dtype=bool)
    numbers: dict[str, Any] = {name: now_.get(name, np.zeros(lines)) for name in ("size", "n", "batches")}
    numbers |= {name: now_.get(name, blank) for name in ("estimate", "reference_value", "disparity", "evidence")}
    numbers |= {name: now_.get(name, blank) for name in ("evalue", "pvalue", "adjusted_pvalue")}
    drawn = judged | (status == Status.SKEWED)
    numbers |= {name: np.where(drawn, now_.get(name, blank), np.nan) for name in ("ci_low", "ci_high")}
    numbers |= {name: np.concatenate(part) if part else np.zeros((0, lines)) for name, part in looks.items()}
    result = MonitorResult(
        null=words.null(plan),
        verdict=overall(concerned),
        notes=(),
        provenance=record,
        groups=groups,
        status=status,
        metrics=tuple(fact["name"] for fact in facts),
        shares=tuple(bool(fact["share"]) for fact in facts),
        **numbers,
        verdicts=verdicts,
        direction=tuple(
            "" if not s else words.FAVORED if b else words.DISFAVORED for s, b in zip(shown, better, strict=True)
        ),
        first_shown=first_shown,
        alarm=last_alarm,
        since=since,
        batches_needed=None
        if plan.tolerance is None
        else np.where(judged & (codes == 2), now_.get("batches_needed", blank), np.nan),
        batch_names=names,
        batch_rows=tuple(batch.rows for batch in state.batches),
        restarts=tuple(starts[1:]),
        restart_notes=tuple(str(epoch["note"]) for epoch in state.epochs[1:]),
        reference=words.reference(plan),
        scale=plan.scale,
        side=plan.boundary.side,
        alpha=plan.alpha,
        adjust=plan.adjust,
        tolerance=plan.tolerance,
        center=None if isinstance(plan.center, Mapping) else plan.center,
        run_length=plan.run_length if plan.scale == "difference" else None,
        comparisons=int(columns["tests"][-1]) if columns else 0,
    )
    return replace(result, notes=notes(result, state, plan, columns))


def _first(
    columns: Mapping[str, Any], name: str, names: Sequence[str], start: int, lines: int, holds: Any
) -> tuple[str, ...]:
    """The batch at which a verdict was first reached, and still holds; "" for none."""
    if not columns:
        return ("",) * lines
    hit = holds(columns[name])
    hit = np.flip(np.logical_and.accumulate(np.flip(hit, axis=0), axis=0), axis=0)
    return tuple(names[start + int(t)] if known else "" for t, known in zip(hit.argmax(axis=0), hit[-1], strict=True))


def _last_alarm(
    columns: Mapping[str, Any], names: Sequence[str], start: int, lines: int
) -> tuple[tuple[str, ...], ...]:
    """The batch of the last alarm of each line, and the batch since which; "" for none."""
    if not columns:
        return ("",) * lines, ("",) * lines
    raised = columns["raised"]
    last = len(raised) - 1 - raised[::-1].argmax(axis=0)
    pairs = [
        (names[start + int(t)], names[int(columns["since"][t, j])]) if raised[t, j] else ("", "")
        for j, t in enumerate(last)
    ]
    return tuple(a for a, _ in pairs), tuple(b for _, b in pairs)


def notes(
    result: MonitorResult, state: MonitorState, plan: MonitorPlan, columns: Mapping[str, Any]
) -> tuple[Note, ...]:
    """What the reader must know about the rows, and about groups that are not judged."""
    batches = state.current
    parts: list[Note] = []
    if any(result.provenance.dropped.values()):
        parts.append(Note("dropped", values=result.provenance.dropped))
    for batch in batches[-1:]:
        late = max(
            [0, *(n for name, n in batch.dropped.items() if name in (plan.outcome, plan.prediction, plan.score))]
        )
        if late > LATE * (batch.rows + late):
            parts.append(Note("late_outcomes", values={"batch": batch.id, "share": late / (batch.rows + late)}))
        if not batch.rows:
            parts.append(Note("empty_batch", values={"batch": batch.id}))
    if columns and len(batches) > 1:
        fresh = columns["present"][-1] & ~columns["present"][-2]
        values = {"batch": batches[-1].id, "least": plan.min_size}
        parts += note_if("new_groups", [result.names[j] for j in np.flatnonzero(fresh)], **values)
    if columns:
        for k, fact in enumerate(state.metrics):
            totals = np.array([batch.totals[k] for batch in batches], dtype=float).sum(axis=0)
            if fact["binary"] and min(totals[1], totals[0] - totals[1]) < CASES and plan.method != "exact":
                values = {"least": CASES, "cases": float(totals[1]), "others": float(totals[0] - totals[1])}
                parts.append(Note("not_started", values=values))
    for status, code in words.CONCERNS.items():
        small = [name for name, kind in zip(result.names, result.status, strict=True) if kind is status]
        parts += note_if(code, small, least=plan.min_size)
    if plan.run_length is not None and plan.scale != "difference":
        parts.append(Note("no_alarm_of_ratios"))
    return tuple(parts)


# ---- evidence


# The history: its field, the column of the estimates it holds, and whether it is shown only where a group was judged.
BY_BATCH = {
    "batch_n": ("batch_n", False),
    "batch_disparity": ("batch_disparity", False),
    "disparity_by_batch": ("disparity", True),
    "low_by_batch": ("ci_low", True),
    "high_by_batch": ("ci_high", True),
    "evalue_by_batch": ("evalue", True),
    "evidence_by_batch": ("evidence", False),
    "verdict_by_batch": ("code", False),
    "alarm_by_batch": ("since", False),
}


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class MonitorResult(Evidence):
    """The evidence to date about each group, valid at any time, and its history by batch.

    ``first_shown`` is the batch at which a violation was first shown, ``alarm`` that of the last alarm and ``since``
    the batch at which the disparity probably began; ``evidence`` is that of the alarm. ``batches_needed`` is about how
    many more batches would show that a group that does not differ is within the tolerance. Fields that end in
    ``_by_batch`` are batches x lines. `history` is their table.
    """

    method: ClassVar[str] = words.METHOD
    references: ClassVar[tuple[str, ...]] = words.REFERENCES
    never_shown: ClassVar[tuple[str, ...]] = words.LIMITS

    metrics: tuple[str, ...] = column("Metric", name="metric", withheld=False)
    shares: tuple[bool, ...] = column(listed=False, withheld=False)
    size: FloatArray = column("Rows in group", count=True)
    n: FloatArray = column("Rows counted", count=True)
    estimate: FloatArray = column()
    reference_value: FloatArray = column(name="reference")
    disparity: FloatArray = column("Disparity to date")
    ci_low: FloatArray = column("Interval from")
    ci_high: FloatArray = column("Interval to")
    pvalue: FloatArray = column("p‑value")
    adjusted_pvalue: FloatArray = column("Adjusted p‑value")
    verdicts: tuple[Verdict, ...] = column(name="verdict")
    direction: tuple[str, ...] = column("Favored or disfavored")
    evalue: FloatArray = column("e‑value")
    first_shown: tuple[str, ...] = column("First shown at")
    alarm: tuple[str, ...] = column("Last alarm")
    since: tuple[str, ...] = column("Since about")
    evidence: FloatArray = column("Evidence of a change")
    batches: FloatArray = column("Batches", count=True, sizes=False)
    batches_needed: FloatArray | None = column("More batches needed", whole=True, default=None)
    batch_n: FloatArray = column(listed=False)
    batch_disparity: FloatArray = column(listed=False)
    disparity_by_batch: FloatArray = column(listed=False)
    low_by_batch: FloatArray = column(listed=False)
    high_by_batch: FloatArray = column(listed=False)
    evalue_by_batch: FloatArray = column(listed=False)
    evidence_by_batch: FloatArray = column(listed=False)
    verdict_by_batch: FloatArray = column(listed=False)
    alarm_by_batch: FloatArray = column(listed=False)
    batch_names: tuple[str, ...]
    batch_rows: tuple[int, ...]
    restarts: tuple[int, ...]  # the places of the first batches after a restart
    restart_notes: tuple[str, ...]
    reference: str
    scale: str
    side: str
    alpha: float
    adjust: str
    tolerance: float | None
    center: float | None
    run_length: int | None
    comparisons: int

    @property
    def alarms(self) -> tuple[tuple[str, str, str], ...]:
        """Every alarm: its batch, the group, and the batch since which there probably is a disparity."""
        places = zip(*np.nonzero(~np.isnan(self.alarm_by_batch)), strict=True)
        names = self.batch_names
        return tuple((names[t], self.names[j], names[int(self.alarm_by_batch[t, j])]) for t, j in places)

    @property
    def alarmed(self) -> bool:
        """Whether the last batch raised an alarm."""
        return bool((~np.isnan(self.alarm_by_batch[-1:])).any())

    def history(self, group: str | Group | None = None, backend: str | None = None) -> Any:
        """One row per batch and group (of one ``group``, if it is named), with the evidence up to that batch."""
        lines = np.arange(len(self.groups))
        if group is not None:
            lines = np.array([j for j, label in enumerate(self.labels) if label == str(group)], dtype=np.intp)
            if not lines.size:
                raise UnknownOption("group", str(group), self.labels)
        looks = len(self.batch_names)

        def spread(values: Sequence[Any]) -> list[Any]:
            return [value for value in values for _ in range(looks)]

        def flat(values: FloatArray) -> FloatArray:
            return values[:, lines].T.ravel()

        codes = flat(self.verdict_by_batch)
        columns: Columns = {
            "batch": list(self.batch_names) * lines.size,
            "group": spread([self.labels[j] for j in lines]),
            **({"metric": spread([self.metrics[j] for j in lines])} if len(set(self.metrics)) > 1 else {}),
            "rows": list(self.batch_rows) * lines.size,
            "n": flat(self.batch_n),
            "batch_disparity": flat(self.batch_disparity),
            "disparity": flat(self.disparity_by_batch),
            "ci_low": flat(self.low_by_batch),
            "ci_high": flat(self.high_by_batch),
            "evalue": flat(self.evalue_by_batch),
            "evidence": flat(self.evidence_by_batch),
            "verdict": [VERDICTS[2 if np.isnan(code) else int(code)].value for code in codes],
        }
        return as_frame(columns, backend, self.provenance.backend, ("n",))

    def table(self) -> Columns:
        several = len(set(self.metrics)) > 1
        return {name: values for name, values in Evidence.table(self).items() if several or name != "metric"}

    def units(self) -> Mapping[str, str]:
        """Shares in percent, and their differences in points."""
        if not (self.shares and all(self.shares)):
            return {}
        points = ("disparity", "ci_low", "ci_high") if self.scale == "difference" else ()
        return {"estimate": "%", "reference": "%"} | dict.fromkeys(points, "points")

    @property
    def worst_first(self) -> list[int]:
        """The judged lines: violations, then alarms, then the smallest p-values."""
        known = np.flatnonzero(~np.isnan(self.pvalue)).tolist()
        return sorted(
            known, key=lambda j: (self.verdicts[j] is not Verdict.VIOLATION, not self.alarm[j], self.pvalue[j])
        )

    def headline(self) -> str:
        return words.headline(self) if self.answered else Evidence.headline(self)

    def findings(self) -> tuple[str, ...]:
        """The groups, worst first; the alarms; and what looking often means."""
        order = self.worst_first
        alarms = [words.alarm(self, j) for j in order if self.alarm[j]]
        return (*(words.finding(self, j) for j in order[: words.MOST]), *alarms, words.any_time(self)) if order else ()

    def assumptions(self) -> tuple[tuple[str, str], ...]:
        return (self.rows_assumed(), *words.ASSUMPTIONS)

    def movement(self) -> str:
        return phrases.VERDICTS_ALONE

    def suppressed(self, minimum: int, also: Any = ()) -> Self:
        """As in `Evidence`; looks and batches with fewer rows of a group are withheld too."""
        hidden = Evidence.suppressed(self, minimum, also)
        small = {name: getattr(hidden, name).copy() for name in BY_BATCH}
        to_date = np.zeros_like(hidden.batch_n)
        for first, last in zip((0, *self.restarts), (*self.restarts, len(self.batch_names)), strict=True):
            to_date[first:last] = np.cumsum(self.batch_n[first:last], axis=0)
        for name, values in small.items():
            values[(self.batch_n if name in ("batch_n", "batch_disparity") else to_date) < minimum] = np.nan
        return replace(hidden, **small)

    def plot(self) -> alt.TopLevelMixin:
        """The disparity to date of each group over batches, with its interval, the tolerance and the alarms."""
        from isonomy.monitoring.charts import over_time

        return over_time(self)


_DEFAULTS: dict[str, Any] = {
    name: Ellipsis if part.default is part.empty else part.default
    for name, part in inspect.signature(monitor).parameters.items()
    if name not in ("data", "rows")
}
