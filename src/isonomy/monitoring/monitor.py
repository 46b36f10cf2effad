"""Monitoring: has a disparity been shown, or begun, over batches of decisions that somebody looks at all the time?"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, Unpack

import numpy as np

from isonomy.errors import DataError, MissingRole, UnknownOption, UsageError, near, refuse_percent, require_ratio
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
from isonomy.monitoring.sequences.score import MeanSequence, PeopleSequence, RateSequence, batches_to_reach
from isonomy.monitoring.sequences.strata import close, power_sums, sum_strata
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
    shown,
)
from isonomy.results import Columns, Evidence, Note, Plan, column, note_if, open_call, phrases, provenance, question
from isonomy.results.evidence import as_frame, plain_option
from isonomy.results.storage import storable

if TYPE_CHECKING:
    import altair as alt

Reference = Annotated[str | float | Mapping[str, object] | Group, Form("reference")]
CASES, ROWS = 10, 30  # cases and others, or rows of other metrics, before anything is judged
FEWEST_BUCKETS = 10
LATE = 0.05  # the share of rows without an outcome that is reported
VERDICTS = (Verdict.VIOLATION, Verdict.WITHIN_TOLERANCE, Verdict.INCONCLUSIVE)
# Options that may change after looking: they name columns, or say how rows are read and results displayed.
FREE = ("batch", "outcome", "prediction", "score", "better", "count", "missing", "missing_group")


@storable
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
    center : float or mapping, optional
        The disparity that is accepted, if it is not zero (a ratio of 1): a number, or one for each group's label.
    run_length : int, optional
        The alarm for a disparity that begins late comes on average at most once in this many batches if there is none.
        None: no alarm. Default: 500.
    """

    name: ClassVar[str] = "mixture"
    prior: Positive | None = None
    side: Alternative = "two-sided"
    interval: Literal["pointwise", "simultaneous"] = "pointwise"
    center: float | Mapping[str, float] | None = None
    run_length: Annotated[int, Number(least=2, whole=True)] | None = 500


mixture = MixtureOption


def called(group: Group) -> tuple[str, str]:
    """The names of a group as a key of ``center``: its label, or its value."""
    return group.label, " & ".join(str(value) for _, value in group.items)


def center_key(center: Mapping[str, float], group: Group) -> str | None:
    """The key that gives the center of a group."""
    return next((name for name in called(group) if name in center), None)


def accepted(center: float | Mapping[str, float] | None, group: Group, scale: str) -> float:
    if isinstance(center, Mapping):
        key = center_key(center, group)
        center = None if key is None else center[key]
    return words.EQUAL[scale] if center is None else float(center)


MOVED = {name: f"method=iso.mixture({name}={{}})" for name in ("center", "run_length")}


# ---- call


@question(
    "MonitorPlan",
    moved=MOVED,
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
    method: Literal["mixture", "exact"] | MixtureOption = "mixture",
    alpha: Alpha = 0.05,
    adjust: Literal["holm", "e-bh", "none"] = "holm",
    better: Literal["higher", "lower"] | None = None,
    depth: Whole = 1,
    min_size: Whole = 10,
    **rows: Unpack[RowOptions],
) -> MonitorResult:
    """Over all batches so far, which groups are treated differently, and did a difference begin?

    Verdicts, p-values and intervals are valid at any time: the probability that the monitor ever, at any look, shows a
    difference that is not there is at most ``alpha`` for all groups together. A group is compared with its reference in
    the same batch. `isonomy.Monitor` counts batch by batch, with the same numbers.

    Parameters
    ----------
    data, metric, groups, outcome, prediction, score, positive, better, depth, min_size
        As in `isonomy.flag`. Metrics are means over rows, and groups are known.
    batch : str
        The column that says which batch a row belongs to, such as a week. Batches are taken in the order of its values.
    reference : str, float, mapping or Group, default "rest"
        ``"rest"`` (or ``"population"``, which means the same here), a number, or a group such as ``{"race": "White"}``.
    scale : {"difference", "ratio", "odds_ratio"}, default "difference"
        How a group is compared with the reference. Odds ratios need ``method="exact"``.
    tolerance : float, optional
        The largest disparity that does not matter; for ratios a ratio, such as 0.8.
    method : {"mixture", "exact"} or iso.mixture(prior, side, interval, center, run_length), default "mixture"
        The normal-mixture boundary, or the exact conditional likelihood of an odds ratio.
    alpha : float, default 0.05
        The error rate over the whole life of the monitor.
    adjust : {"holm", "e-bh", "none"}, default "holm"
        The adjustment for the number of groups and metrics. ``"e-bh"`` controls the false discovery rate at any
        stopping time; its flags may be withdrawn later.
    **rows
        count, cluster, missing, missing_group: how rows are read; see `isonomy.RowOptions`. Weights are refused.

    Returns
    -------
    MonitorResult
        ``to_frame()`` has one row per group, ``history()`` one per group and batch; ``alarms`` lists the alarms.

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
    plan.refuse_unnamed(state.groups)
    dropped = state.batches[0].dropped if state.batches else {}
    return conclude_monitor(state, plan, record(rows=sum(b.rows for b in state.batches), dropped=dropped, random=False))


_DEFAULTS: dict[str, Any] = {
    name: part.default for name, part in inspect.signature(monitor).parameters.items() if name not in ("data", "rows")
}


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
            if name in MOVED:
                raise UsageError(f"{name}: it has moved; write {MOVED[name].replace('{}', shown(value))}.")
            if name in ("data", "batch") or name not in known:
                raise UsageError(f"{name}: not an option of Monitor; update takes data and batch.")
            check(name, value, known[name])
        for name in ("metric", "groups"):
            if options.get(name) is None:
                raise MissingRole(f"{name}: it is required.")
        if options.get("weight") is not None:
            raise UsageError(words.WEIGHTS)
        self._reading = {name: value for name, value in options.items() if name in ROW_DEFAULTS}
        self._options = {name: value for name, value in options.items() if name not in ROW_DEFAULTS}
        self._options["metric"] = canonical(options["metric"])
        self._state = MonitorState(options={name: written_option(value) for name, value in options.items()})
        self._plan = MonitorPlan(None, **_DEFAULTS | self._options)  # type: ignore[arg-type]

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
        arguments = _DEFAULTS | self._options | {"data": data, "rows": self._reading}
        plan, _, record = open_call("monitor", MonitorPlan, arguments)
        options = dict(record().options)
        self._refuse_changes(options)
        tally = read(plan, batch)
        for known in state.current:
            if tally.fingerprint and known.fingerprint == tally.fingerprint:
                raise DataError(
                    f"data: these are the rows of batch {known.id!r} again (same fingerprint). A batch counts once."
                )
        if state.batches and not state.current and self._changed(options):
            state.put_away()
        add_batches(state, plan, tally, note)
        state.question = options
        return self.result()

    def _changed(self, options: Mapping[str, Any]) -> list[str]:
        """The options that decide what is tested, and differ from those with which batches were counted."""
        before = self._state.question
        return [name for name in before if name not in FREE and _plain(before[name]) != _plain(options.get(name))]

    def _refuse_changes(self, options: Mapping[str, Any]) -> None:
        for name in self._changed(options) if self._state.current else ():
            raise UsageError(
                f"{name}: the monitor was started with {self._state.question[name]!r}, this call says "
                f"{options.get(name)!r}. An option chosen after looking voids the error rate; restart the monitor to "
                "begin again with another."
            )

    def result(self) -> MonitorResult:
        """The evidence to date, without new rows."""
        state, dropped = self._state, Counter[str]()
        for batch in state.current:
            dropped.update(batch.dropped)
        options = state.question or plain_option(_DEFAULTS | self._options | self._reading)
        record = provenance("monitor", options, rows=sum(batch.rows for batch in state.current), dropped=dropped)
        return conclude_monitor(state, self._plan, record)

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
        check("path", path, str | Path)
        with locked(Path(path)):
            save_state(self._state, Path(path))

    @classmethod
    def load(cls, path: str | Path, **options: Any) -> Self:
        """The monitor in a file. ``options``: those that a file cannot hold, such as conditions, or that are to change.

        An option that decides what is tested can change only if no batch was counted since the last restart.
        """
        check("path", path, str | Path)
        state = read_state(Path(path))
        try:
            stored = {name: read_option(value) for name, value in state.options.items()}
            loaded = cls(**stored | options)
            loaded._state, state.options = state, loaded._state.options
            to_date = loaded.result()
            to_date.history()  # raises for sums of the wrong type or shape
            to_date.summary()
        except (UsageError, DataError):
            raise
        except Exception as error:  # a file may hold anything
            raise UsageError(f"{Path(path).name}: not a monitor's state ({type(error).__name__}: {error}).") from None
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
    method: Literal["mixture", "exact"] | MixtureOption
    alpha: float
    adjust: Literal["holm", "e-bh", "none"]
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
        scale, tolerance, reference, number = self.scale, self.tolerance, self.reference, self.number
        yield (
            isinstance(reference, str) and reference in ("highest", "lowest"),
            f"reference: {reference!r} is not allowed in monitor; the best group may change from batch to batch. Give "
            "'rest', a group or a number.",
        )
        named = reference in ("rest", "population") if isinstance(reference, str) else number is not None
        if not named and (self.group is None or not self.group.items):
            raise UnknownOption("reference", reference, ("rest", "population", "a number", '{"race": "White"}'))
        given = self.boundary.center
        centers = [x for x in (given.values() if isinstance(given, Mapping) else [given]) if x is not None]
        if self.ratio:
            require_ratio(scale, tolerance)
            yield (
                any(center <= 0 for center in centers),
                f"center: {given!r} is not allowed for scale={scale!r}; give a ratio above 0.",
            )
        yield (
            (scale == "odds_ratio") != (self.method == "exact"),
            f"scale: {scale!r} is not available with method={str(self.method)!r}; odds ratios need method='exact', "
            "which has no other scale.",
        )
        exact = self.method == "exact" and number is not None
        yield exact, "method: 'exact' is not available with a number as the reference; use 'mixture'."
        if self.source is None:
            return
        yield self.source.reading["weight"] is not None, words.WEIGHTS
        people, real = self.source.cluster is not None, [m.name for m in self.measures if not m.binary]
        special = [m.name for m in self.measures if m.functional][:1]
        yield bool(special), f"metric: {special} is not a mean over rows, which monitor needs; use flag on a period."
        without_cluster = {
            f"scale={scale!r}; use 'difference', or leave cluster out": self.ratio,
            "a number as the reference; give 'rest' or a group, or leave cluster out": number is not None,
            f"{real[:1]}, which is not 0/1; leave cluster out": bool(real),
        }
        for what, refused in without_cluster.items():
            yield people and refused, f"cluster: not available with {what}."
        yield self.ratio and bool(real), f"scale: {scale!r} is not available with {real[:1]}, which is not 0/1."
        refuse_percent(not real and not self.ratio, tolerance)
        yield (
            not real and not self.ratio and any(abs(center) >= 1 for center in centers),
            f"center: {given!r} is not allowed for a rate; give a difference between -1 and 1, such as -0.05.",
        )
        if number is not None:
            yield not real and not 0 <= number <= 1, f"reference: {number} cannot be a rate."
            yield len(self.measures) > 1, "reference: a number is not available with several metrics."

    @property
    def ratio(self) -> bool:
        return self.scale != "difference"

    @property
    def boundary(self) -> MixtureOption:
        return self.method if isinstance(self.method, MixtureOption) else MixtureOption()

    @property
    def number(self) -> float | None:
        return float(self.reference) if Number().admits(self.reference) else None  # type: ignore[arg-type]

    @cached_property
    def group(self) -> Group | None:
        if not isinstance(self.reference, (Mapping, Group)):
            return None
        group = self.reference if isinstance(self.reference, Group) else Group.from_mapping(self.reference)
        return group if self.source is None else self.source.labels.named([group])[0]

    @property
    def reach(self) -> float:
        """The tolerance on the scale of differences, or of logarithms of ratios; 0 without one."""
        return abs(float(np.log(self.tolerance or 1.0))) if self.ratio else self.tolerance or 0.0

    def null(self, groups: Sequence[Group]) -> tuple[FloatArray, FloatArray]:
        """The ends of the null of each group: the tolerance around the center."""
        center = np.array([accepted(self.boundary.center, group, self.scale) for group in groups])
        if self.ratio:
            return center * (self.tolerance or 1.0), center / (self.tolerance or 1.0)
        return center - self.reach, center + self.reach

    def unnamed(self, groups: Sequence[Group]) -> list[str]:
        """The keys of the center that apply to none of these groups."""
        center = self.boundary.center
        if not isinstance(center, Mapping):
            return []
        used = {center_key(center, group) for group in groups if group != self.group}
        return [key for key in center if key not in used]

    def refuse_unnamed(self, groups: Sequence[Group]) -> None:
        for key in self.unnamed(groups) if groups else ():
            names = {name: group for group in groups for name in called(group)}
            if key in names:
                why = "is the reference" if names[key] == self.group else f"is also called {names[key].label!r}"
                raise UsageError(f"center: {key!r} {why}; give one center for each group that is compared.")
            listed_groups = phrases.listed([group.label for group in groups])
            raise UsageError(f"center: no group is called {key!r}; groups: {listed_groups}.{near(key, names)}")

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
        return tuple(batch_request(self, measure) for measure in self.measures)

    @property
    def counted(self) -> tuple[Request, ...]:
        """The requests of 0/1 metrics that can be shared: none if rows are clustered, which are read by person."""
        pairs = zip(self.metric_requests, self.measures, strict=True)
        return tuple(request for request, bound in pairs if bound.binary and self.source.cluster is None)

    @cached_property
    def shared(self) -> Request | None:
        return shared_cells(self.counted)

    @property
    def requests(self) -> tuple[Request, ...]:
        return self.counted if self.shared is None else (self.shared,)


# ---- read: see `isonomy.monitoring.read`

# ---- estimate


def estimate(state: MonitorState, plan: MonitorPlan, first: int, last: int) -> dict[str, Any]:
    """The evidence at every look of an epoch: arrays looks x lines, with the groups of each metric side by side."""
    groups, number, batches = state.groups, len(state.metrics), state.batches[first:last]
    sums = state.padded("sums", first, last, 8)
    spread = state.padded("spread", first, last, 4) if any(batch.spread for batch in batches) else [None] * number
    sizes = [np.pad(np.asarray(batch.sizes, dtype=float), (0, len(groups) - len(batch.sizes))) for batch in batches]
    size = np.tile(np.cumsum(np.stack(sizes), axis=0), number)
    facts = [(any(name == CONDITION for name, _ in group.items), group == plan.group) for group in groups]
    conditions, reference = np.tile(np.array(facts, dtype=bool).reshape(-1, 2).T, number)
    present = ((size > 0) | conditions) & ~reference
    binary = [bool(fact["binary"]) for fact in state.metrics]
    # Rows of both sides: the third of four counts, or the fifth of eight moments.
    rows = [np.cumsum(part[..., [0, 2 if kind else 4]], axis=0) for part, kind in zip(sums, binary, strict=True)]
    pairs = [_comparisons(groups, part, present, plan) + k * len(groups) for k, part in enumerate(rows)]
    same = np.concatenate(pairs, axis=1)
    tests = np.array([max(np.unique(line[known]).size, 1) for line, known in zip(same, present, strict=True)], float)
    parts = []
    for k in range(number):
        totals = np.array([batch.totals[k][: 2 if binary[k] else 3] for batch in batches], dtype=float)
        parts.append(_follow(plan, groups, sums[k], totals, spread[k], tests, binary=binary[k]))
    floor = np.concatenate([part.pop("floor") for part in parts], axis=1)
    level: FloatArray = np.full(present.shape, plan.alpha)
    if plan.boundary.interval == "simultaneous":
        level = plan.alpha * late_shares(present, floor) / tests[:, None]
    for k, part in enumerate(parts):
        sequence, prior = part.pop("sequence"), part.pop("prior")
        mine = level[:, k * len(groups) : (k + 1) * len(groups)]
        part["ci_low"], part["ci_high"] = sequence.interval(prior, mine, plan.boundary.side)
        if plan.tolerance is not None:
            part["batches_needed"] = batches_to_reach(sequence.information, prior, plan.reach, mine)
    columns = {name: np.concatenate([part[name] for part in parts], axis=-1) for name in parts[0]}
    share = late_shares(present, columns["log_evidence"])
    return columns | {"size": size, "present": present, "same": same, "tests": tests, "share": share}


def late_shares(present: BoolArray, log_evidence: FloatArray) -> FloatArray:
    """The share of an equal part of alpha that is left for each line; 1 for those that are present from the start.

    A comparison at the threshold m/alpha that has reached the e-value e will still cross m'/alpha with probability at
    most e alpha/m', by Ville's inequality. When the number of comparisons grows from m to m', those that are there
    give up e alpha (1/m - 1/m') each, and the new ones get what the least of them gives up, or less: alpha e/m' each,
    with e at most 1. The sum stays below alpha, whichever hypotheses are true.
    """
    share = np.ones(present.shape[1])
    for t in np.flatnonzero((present[1:] & ~present[:-1]).any(axis=1)):
        left = share * np.exp(np.minimum(np.nan_to_num(log_evidence[t], nan=0.0), 0.0))
        share[present[t + 1] & ~present[t]] = left[present[t]].min(initial=1.0)
    return share


def _comparisons(groups: Sequence[Group], sizes: FloatArray, present: BoolArray, plan: MonitorPlan) -> IntArray:
    """A number for each comparison (looks x groups): two groups that are each other's rest are one."""
    looks, size = sizes.shape[:2]
    same = np.tile(np.arange(size), (looks, 1))
    if not isinstance(plan.reference, str):
        return same
    by_columns: dict[tuple[str, ...], list[int]] = {}
    for j, group in enumerate(groups):
        by_columns.setdefault(tuple(name for name, _ in group.items), []).append(j)
    for columns, places in by_columns.items():
        if len(places) < 2 or CONDITION in columns:
            continue
        here = present[:, places]
        first, second = here.argmax(axis=1), len(places) - 1 - here[:, ::-1].argmax(axis=1)
        rows, (i, j) = np.arange(looks), (np.array(places)[first], np.array(places)[second])
        mirrored = (here.sum(axis=1) == 2) & (sizes[rows, i] == sizes[rows, j, ::-1]).all(axis=1)
        same[rows[mirrored], j[mirrored]] = i[mirrored]
    return same


def _follow(
    plan: MonitorPlan,
    groups: Sequence[Group],
    given: FloatArray,
    totals: FloatArray,
    spread: FloatArray | None,
    tests: FloatArray,
    *,
    binary: bool,
) -> dict[str, Any]:
    """One metric: its sequence, the e-values against the null, and the alarms."""
    side, (low, high), shape = plan.boundary.side, plan.null(groups), given.shape[:2]
    gate, clusters, pivot = np.ones(shape, dtype=bool), np.full(shape, np.inf), 0.0
    batches = given[..., :4].reshape(*shape, 2, 2)
    if not binary:  # sums of powers about the mean of all rows
        pivot = float(np.average(totals[:, 1], weights=totals[:, 0])) if totals[:, 0].any() else 0.0
        batches = power_sums(given.reshape(*shape, 2, 4), pivot)
        totals = power_sums(np.pad(totals, ((0, 0), (0, 1))), pivot)
    number = None if plan.number is None else plan.number - pivot
    prior = np.broadcast_to(_prior(plan, totals, binary=binary)[:, None], shape)
    strata = close(batches, number=number is not None)
    sequence: Any
    if not binary:
        sequence = MeanSequence(strata, number)
        skewness, rows = sequence.skewness()
        with np.errstate(all="ignore"):  # the gate of every mean, for as many tests as there are
            third, variance = skewness / rows**2, 1.0 / rows
            gate = np.stack([~too_skewed(third[t], variance[t], plan.alpha, int(m)) for t, m in enumerate(tests)])
    elif plan.scale == "odds_ratio":
        sequence = ExactSequence(strata, max(LEAST_PRIOR, plan.reach))
    elif spread is None:
        sequence = RateSequence(sum_strata(strata, number), plan.scale, number)
    else:
        clusters = spread[..., 3]
        sequence = PeopleSequence(sum_strata(strata), np.moveaxis(spread[..., :3], -1, 0), clusters)
    sums = sequence.sums
    (n1, s1, *_), (n0, s0, *_) = np.moveaxis(batches, (2, 3), (0, 1))
    alarms = change.Alarms(np.full(shape, np.nan), np.zeros(shape, dtype=bool), np.full(shape, np.nan))
    with np.errstate(all="ignore"):
        if plan.boundary.run_length is not None and plan.scale != "odds_ratio":
            if not binary:
                steps = change.mean_increments(sequence, prior, low, high, gate, side=side)
            else:
                effect = None
                if spread is not None:  # the design effect of people who return, at the look before
                    now = np.where(sums.vc > 0, spread[..., 0] / sums.vc, 1.0)
                    effect = np.maximum(np.concatenate([np.ones_like(now[:1]), now[:-1]]), 1.0)
                steps = change.rate_increments(
                    strata, prior, low, high, scale=plan.scale, side=side, number=number, effect=effect
                )
            alarms = change.detect(*steps, np.broadcast_to(plan.boundary.run_length * tests[:, None], shape))
        mine, theirs = s1 / n1 + pivot, (s0 / n0 if number is None else np.full(shape, number)) + pivot
        apart = {"difference": mine - theirs, "ratio": mine / theirs, "odds_ratio": np.full(shape, np.nan)}[plan.scale]
        return {
            "n": np.cumsum(n1, axis=0),
            "batch_n": n1,
            "batches": np.cumsum(n1 > 0, axis=0).astype(float),
            "batch_disparity": np.where(np.isfinite(apart), apart, np.nan),
            "closed": sums.w > 0,
            "estimate": sums.p1 / sums.w + pivot,
            "reference_value": sums.p0 / sums.w + pivot,
            "disparity": sequence.value,
            "log_evidence": sequence.evidence(low, high, prior, side),
            "started": ~np.isnan(prior),
            "constant": ~np.isfinite(sequence.information),
            "zero": (sums.p0 <= 0) & (sums.w > 0) & plan.ratio,
            "gate": gate,
            "clusters": clusters,
            "evidence": alarms.evidence,
            "raised": alarms.raised,
            "since": alarms.since,
            "low": np.broadcast_to(low, shape),
            "high": np.broadcast_to(high, shape),
            "floor": np.broadcast_to(sequence.least_evidence(prior, side), shape),
            "sequence": sequence,
            "prior": prior,
        }


def _prior(plan: MonitorPlan, totals: FloatArray, *, binary: bool) -> FloatArray:
    """The prior's standard deviation at each look; NaN until enough rows were counted, and then fixed."""
    if plan.method == "exact":
        return np.full(len(totals), LEAST_PRIOR)
    n, x, *more = np.cumsum(totals, axis=0).T
    ready = np.minimum(x, n - x) >= CASES if binary else n >= ROWS
    if not ready.any():
        return np.full(len(totals), np.nan)
    t = int(ready.argmax())
    squares = x[t] if binary else more[0][t]
    least = 0.2 if plan.ratio else 0.1 * float(np.sqrt(max(squares / n[t] - (x[t] / n[t]) ** 2, 0.0)))
    return np.where(np.arange(len(totals)) >= t, plan.boundary.prior or max(plan.reach, least), np.nan)


# ---- decide


def decide(columns: Mapping[str, Any], plan: MonitorPlan) -> dict[str, Any]:
    """At every look: p-values that never rise, adjusted for all comparisons so far; verdicts; and statuses.

    A violation that was once shown stays (not with e-BH, whose flags may be withdrawn).
    """
    status = np.full(columns["present"].shape, Status.OK, dtype=object)
    for refused, kind in (
        (~columns["gate"], Status.SKEWED),
        (columns["clusters"] < FEWEST_BUCKETS, Status.FEW_CLUSTERS),
        (columns["constant"], Status.CONSTANT),
        (~columns["started"], Status.TOO_SMALL),
        (columns["zero"], Status.ZERO_BASELINE),
        (~columns["closed"], Status.EMPTY),
        (columns["n"] < plan.min_size, Status.TOO_SMALL),
        (~columns["present"] & (columns["size"] > 0), Status.REFERENCE),
    ):
        status[refused] = kind
    tested = (status == Status.OK) & columns["present"]
    log_e = np.where(tested, columns["log_evidence"], np.nan)
    with np.errstate(over="ignore"):
        p_now, evalue = np.minimum(np.exp(-log_e), 1.0), np.exp(np.minimum(log_e, 700.0))
    pvalue = np.fmin.accumulate(p_now, axis=0)
    judged, method = (p_now, "bh") if plan.adjust == "e-bh" else (pvalue, plan.adjust)
    if plan.adjust == "holm":
        judged = np.minimum(judged / np.maximum(columns["share"], 1e-300), 1.0)
    # A group that is listed and not yet tested counts among the comparisons, with a p-value of 1.
    listed_p = np.where(np.isnan(judged) & columns["present"], 1.0, judged)
    lines = zip(listed_p, columns["same"], strict=True)
    adjusted = np.where(np.isnan(judged), np.nan, [adjust_pvalues(p, method, same) for p, same in lines])
    if plan.adjust != "e-bh":
        adjusted = np.where(np.isnan(adjusted), np.nan, np.fmin.accumulate(adjusted, axis=0))
    with np.errstate(all="ignore"):
        low, high = columns["ci_low"], columns["ci_high"]
        if plan.ratio:
            low, high = (np.log(end / np.sqrt(columns["low"] * columns["high"])) for end in (low, high))
        else:
            low, high = (end - (columns["low"] + columns["high"]) / 2.0 for end in (low, high))
    within = inside(low, high, None if plan.tolerance is None else plan.reach, plan.boundary.side) & tested
    return {
        "pvalue": pvalue,
        "adjusted_pvalue": adjusted,
        "evalue": evalue,
        "code": np.where(adjusted <= plan.alpha, 0, np.where(within, 1, 2)),
        "status": status,
        "tested": tested,
    }


def conclude_monitor(state: MonitorState, plan: MonitorPlan, record: Any) -> MonitorResult:
    """Every epoch has an error rate of its own; the result is the last look of the last one, with the whole history."""
    starts, lines = [epoch["from"] for epoch in state.epochs], len(state.groups) * len(state.metrics)
    looks: dict[str, list[Any]] = {name: [np.zeros((0, lines))] for name in BY_BATCH}
    columns: dict[str, Any] = {}
    for first, last in zip(starts, [*starts[1:], len(state.batches)], strict=True):
        columns = estimate(state, plan, first, last) if first < last else {}
        if columns:
            columns |= decide(columns, plan)
            columns["since"] = columns["since"] + first
            for name, (part, judged, _) in BY_BATCH.items():
                looks[name].append(np.where(columns["tested"] | (not judged), columns[part], np.nan))

    def last_look(name: str, blank: Any = np.nan) -> Any:
        return columns[name][-1] if name in columns else np.full(lines, blank)

    names, start = tuple(batch.id for batch in state.batches), starts[-1]
    facts = [fact for fact in state.metrics for _ in state.groups]
    codes, status, judged = last_look("code", 2), last_look("status", Status.EMPTY), last_look("tested", False)
    verdicts = tuple(VERDICTS[int(code)] for code in codes)
    lower = np.array([fact["lower"] if plan.better is None else plan.better == "lower" for fact in facts], dtype=bool)
    better = (last_look("disparity") > (last_look("low") + last_look("high")) / 2.0) != lower
    first_shown, alarm, since = ([""] * lines for _ in range(3))
    for j in range(lines if columns else 0):
        if codes[j] == 0:  # since when it has been shown without interruption
            first_shown[j] = names[start + int((np.append(-1, np.flatnonzero(columns["code"][:, j] != 0))).max()) + 1]
        if (raised := np.flatnonzero(columns["raised"][:, j])).size:
            alarm[j], since[j] = names[start + raised[-1]], names[int(columns["since"][raised[-1], j])]
    centers = np.array([accepted(plan.boundary.center, group, plan.scale) for group in state.groups])
    plain_null = np.tile(centers == words.EQUAL[plan.scale], len(state.metrics))
    # Beyond an accepted disparity, a group may be disfavored less than is accepted, and is not favored.
    direction = np.where((codes == 0) & plain_null, np.where(better, words.FAVORED, words.DISFAVORED), "").tolist()
    drawn = judged | (status == Status.SKEWED)
    needed = np.where(judged & (codes == 2), last_look("batches_needed"), np.nan)
    plain = ("estimate", "reference_value", "disparity", "evidence", "evalue", "pvalue", "adjusted_pvalue")
    numbers: dict[str, Any] = {name: last_look(name, 0.0) for name in ("size", "n", "batches")}
    numbers |= {name: last_look(name) for name in plain}
    numbers |= {name: np.where(drawn, last_look(name), np.nan) for name in ("ci_low", "ci_high")}
    numbers |= {name: np.concatenate(part) for name, part in looks.items()}
    counted = {
        fact["name"]: round(sum(batch.totals[k][0] for batch in state.current)) for k, fact in enumerate(state.metrics)
    }
    counted["size"] = sum(batch.rows for batch in state.current)
    result = MonitorResult(
        null=words.null(plan, share=bool(facts) and all(fact["share"] for fact in facts)),
        verdict=overall([v for v, s in zip(verdicts, status, strict=True) if s is not Status.REFERENCE]),
        notes=(),
        provenance=replace(record, counted=counted),
        groups=tuple(state.groups) * len(state.metrics),
        status=status,
        metrics=tuple(fact["name"] for fact in facts),
        shares=tuple(bool(fact["share"]) for fact in facts),
        **numbers,
        verdicts=verdicts,
        direction=tuple(direction),
        first_shown=tuple(first_shown),
        alarm=tuple(alarm),
        since=tuple(since),
        batches_needed=None if plan.tolerance is None else needed,
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
        center=plan.boundary.center,
        run_length=plan.boundary.run_length if plan.scale != "odds_ratio" else None,
        comparisons=int(columns["tests"][-1]) if columns else 0,
    )
    return replace(result, notes=tuple(notes(result, state, plan, columns)))


def notes(result: MonitorResult, state: MonitorState, plan: MonitorPlan, columns: Mapping[str, Any]) -> Iterator[Note]:
    """What the reader must know about the rows, and about groups that are not judged."""
    batches, dropped = state.current, result.provenance.dropped
    if any(dropped.values()):
        yield Note("dropped", values=dropped)
    for batch in batches[-1:]:
        roles = {"outcome": plan.outcome, "prediction": plan.prediction, "score": plan.score}
        # A condition is dropped under the name of its role.
        late = max(batch.dropped.get(role if isinstance(role, str) else name, 0) for name, role in roles.items())
        if late > LATE * (batch.rows + late):
            yield Note("late_outcomes", values={"batch": batch.id, "share": late / (batch.rows + late)})
        if not batch.rows:
            yield Note("empty_batch", values={"batch": batch.id})
    if columns:
        names, shares = np.array(result.names, dtype=object), columns["share"]
        fresh = columns["present"][-1] & ~columns["present"][-2] if len(batches) > 1 else np.zeros(names.size, bool)
        yield from note_if("new_groups", names[fresh].tolist(), batch=batches[-1].id, least=plan.min_size)
        if plan.adjust == "holm":
            yield from note_if("late_groups", names[shares < 1.0].tolist(), share=float(shares.min(initial=1.0)))
        if unnamed := plan.unnamed(state.groups):
            seen = [name for group in state.groups for name in called(group)]
            close_names = "".join(near(key, seen) for key in unnamed)
            yield Note("center_unnamed", values={"names": phrases.listed([*map(repr, unnamed)]), "near": close_names})
        for k, fact in enumerate(state.metrics):
            rows, cases = np.sum([batch.totals[k][:2] for batch in batches], axis=0).tolist()
            if fact["binary"] and min(cases, rows - cases) < CASES and plan.method != "exact":
                yield Note("not_started", values={"least": CASES, "cases": float(cases), "others": float(rows - cases)})
    for status, code in words.CONCERNS.items():
        small = [name for name, kind in zip(result.names, result.status, strict=True) if kind is status]
        yield from note_if(code, small, least=plan.min_size)
    if plan.scale == "odds_ratio":
        yield Note("no_alarm_of_ratios")


# ---- evidence


# The history: its field, the column of the estimates it holds, whether it is shown only where a group is judged, and
# its name in `history`.
BY_BATCH = {
    "batch_n": ("batch_n", False, "n"),
    "batch_disparity": ("batch_disparity", False, "batch_disparity"),
    "disparity_by_batch": ("disparity", True, "disparity"),
    "low_by_batch": ("ci_low", True, "ci_low"),
    "high_by_batch": ("ci_high", True, "ci_high"),
    "evalue_by_batch": ("evalue", True, "evalue"),
    "evidence_by_batch": ("evidence", False, "evidence"),
    "verdict_by_batch": ("code", False, "verdict"),
    "alarm_by_batch": ("since", False, ""),
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
    center: float | Mapping[str, float] | None
    run_length: int | None
    comparisons: int

    def accepted(self, j: int) -> float:
        """The disparity of a line that is accepted: its center."""
        return accepted(self.center, self.groups[j], self.scale)

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
        lines = [j for j, label in enumerate(self.labels) if group is None or label == str(group)]
        if group is not None and not lines:
            raise UnknownOption("group", str(group), self.labels)
        looks, several = len(self.batch_names), len(set(self.metrics)) > 1
        numbers = {name: getattr(self, part)[:, lines].T.ravel() for part, (*_, name) in BY_BATCH.items() if name}
        columns: Columns = {
            "batch": list(self.batch_names) * len(lines),
            "group": [self.labels[j] for j in lines for _ in range(looks)],
            **({"metric": [self.metrics[j] for j in lines for _ in range(looks)]} if several else {}),
            "rows": list(self.batch_rows) * len(lines),
            **numbers,
            "verdict": [VERDICTS[2 if np.isnan(code) else int(code)].value for code in numbers["verdict"]],
        }
        return as_frame(columns, backend, self.provenance.backend, ("n",))

    def table(self) -> Columns:
        several = len(set(self.metrics)) > 1
        return {name: values for name, values in Evidence.table(self).items() if several or name != "metric"}

    def units(self) -> Mapping[str, str]:
        if not (self.shares and all(self.shares)):
            return {}
        points = ("disparity", "ci_low", "ci_high") if self.scale == "difference" else ()
        return {"estimate": "%", "reference": "%"} | dict.fromkeys(points, "points")

    @property
    def worst_first(self) -> list[int]:
        """The judged lines: violations, then alarms, then the smallest p-values; of two alike, the disfavored one."""
        known = np.flatnonzero(~np.isnan(self.pvalue)).tolist()

        def rank(j: int) -> tuple[bool, bool, float, bool]:  # mirrored groups differ in the last digits
            shown = self.verdicts[j] is Verdict.VIOLATION
            pvalue = float(f"{self.pvalue[j]:.9g}")
            return not shown, not self.alarm[j], pvalue, self.direction[j] != words.DISFAVORED

        return sorted(known, key=rank)

    def ranking(self) -> list[int]:
        order = self.worst_first
        return [*order, *sorted({*range(len(self.groups))} - {*order})]

    def headline(self) -> str:
        return words.headline(self) if self.answered else Evidence.headline(self)

    def findings(self) -> tuple[str, ...]:
        """Alarms of the last batch; the groups, worst first; earlier alarms; and what looking often means."""
        order = self.worst_first
        if not order:
            return ()
        last = np.asarray(np.isfinite(self.alarm_by_batch[-1:]).any(axis=0))
        now, before = (
            [words.alarm(self, j) for j in order if self.alarm[j] and last[j] == new] for new in (True, False)
        )
        return (*now, *(words.finding(self, j) for j in order[: words.MOST]), *before, words.any_time(self))

    def assumptions(self) -> tuple[tuple[str, str], ...]:
        return (self.rows_assumed(), *words.ASSUMPTIONS)

    def movement(self) -> str:
        return phrases.VERDICTS_ALONE

    def suppressed(self, minimum: int, also: Any = ()) -> Self:
        """As in `Evidence`; looks and batches with fewer rows of a group are withheld too.

        So is a look if fewer rows of a group were counted before it, or between it and the next published look: the
        looks and batches around it would reveal these rows.
        """
        hidden = Evidence.suppressed(self, minimum, also)
        small = {name: getattr(hidden, name).copy() for name in BY_BATCH}
        to_date, published = np.zeros_like(hidden.batch_n), np.isfinite(hidden.n)
        look = np.ones(len(self.batch_names), dtype=bool)
        alone = look.copy()  # batches between two looks that are published
        for first, last in zip((0, *self.restarts), (*self.restarts, len(self.batch_names)), strict=True):
            to_date[first:last] = np.cumsum(self.batch_n[first:last], axis=0)
            following = last - 1
            for t in range(last - 1, first - 1, -1):
                counted = np.array([to_date[t], to_date[following] - to_date[t]])[:, published]
                look[t] = not ((counted > 0) & (counted < minimum)).any()
                following = t if look[t] else following
            alone[first:last] = look[first:last] & np.append(True, look[first : last - 1])[: last - first]
        for name, values in small.items():
            by_batch = name in ("batch_n", "batch_disparity")
            values[(self.batch_n if by_batch else to_date) < minimum] = np.nan
            values[~(alone if by_batch else look)] = np.nan
        return replace(hidden, **small)

    def published(self, minimum: int, also: Any = ()) -> Self:
        """As in `Evidence`, with a note if the last batch has few rows of a group: the look before may be published."""
        result = Evidence.published(self, minimum, also)
        first = {0, *self.restarts}  # the looks before which nothing was published
        last = self.batch_n[-1:, np.isfinite(result.n)] if len(self.batch_names) - 1 not in first else np.zeros(1)
        if not ((last > 0) & (last < minimum)).any():
            return result
        return replace(result, notes=(*result.notes, Note("last_batch", values={"minimum": minimum})))

    def plot(self) -> alt.TopLevelMixin:
        """The disparity to date of each group over batches, with its interval, the tolerance and the alarms."""
        from isonomy.monitoring.charts import over_time

        return over_time(self)
