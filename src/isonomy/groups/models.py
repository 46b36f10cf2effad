"""Two or more models on the same rows: by how much do their metrics, and their disparities, differ?

A difference of metrics of the same people is not a difference of two independent estimates. Each row has an influence
value on the metric of each model; the difference of the two is its influence on the change, and its spread over rows
(or clusters, with weights) is the error of the change:

    change = m_B(group) - m_A(group),    error^2 = C / (C - 1) sum over rows or clusters of (psi_B - psi_A)^2,

with Student's t on (sum S^2)^2 / sum S^4 - 1 degrees of freedom: for 0/1 decisions, about the number of people on whom
the models disagree, less one. The change of a disparity is that of the group minus that of its reference.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Literal, Unpack

import numpy as np

from isonomy.errors import UnknownOption, UsageError, near
from isonomy.frames import Design, Grouping, Groups, MetricLike, Request, Sample, Source, open_source
from isonomy.frames.adapt import with_arrays
from isonomy.frames.expressions import flag as mark
from isonomy.frames.groups import Group, belongs
from isonomy.frames.metrics import ALSO_CALLED, FUNCTIONALS, MEANS, RATES, Measure, listed, measure
from isonomy.frames.source import with_conditions
from isonomy.groups import words
from isonomy.groups.likelihood.functionals import evaluate, ranked
from isonomy.groups.likelihood.lines import refuse_many
from isonomy.inference.designs import FEWEST, Influence, spread
from isonomy.inference.effect import Wald, too_skewed
from isonomy.inference.multiplicity import adjust
from isonomy.numerics.arrays import BoolArray, FloatArray, ObjectArray
from isonomy.numerics.status import Status
from isonomy.options import ROW_DEFAULTS, Alpha, Column, RowOptions, Whole, checked
from isonomy.results import Columns, column
from isonomy.results.columns import join_tables
from isonomy.results.disclosure import few_in_reference, hide_lines, leaves_few, withheld
from isonomy.results.evidence import as_frame, read_only

EVERYBODY = words.EVERYBODY
AGREE = 1e-12  # a standard error below which models agree on every row, up to rounding
FEWEST_CHANGES = 5  # effective rows or clusters on which the models disagree: fewer do not show how a change varies
NAMES = (
    ("baseline", "estimate", "change", "ci_low", "ci_high", "pvalue"),
    ("disparity_before", "disparity_after", "disparity_change", "disparity_low", "disparity_high", "disparity_pvalue"),
)


@checked
def compare_models(
    data: object = None,
    models: Mapping[str, Any] | None = None,
    *,
    metric: MetricLike,
    groups: Groups,
    outcome: Column | None = None,
    reference: Literal["population", "rest"] | Mapping[str, object] | Group = "population",
    alpha: Alpha = 0.05,
    depth: Whole = 1,
    min_size: Whole = 10,
    **rows: Unpack[RowOptions],
) -> ModelComparison:
    """By how much do the metrics and the disparities of two models differ on the same rows?

    Both models decided on, or scored, the same people. Their metrics are therefore dependent, and the difference is
    known better than each of them: its error is that of paired rows.

    Parameters
    ----------
    data, groups, outcome, alpha, depth, min_size, **rows
        As in `isonomy.flag`. Everybody is always the first line.
    models : mapping of str to str
        The name of each model and its column: ``{"A": "pred_a", "B": "pred_b"}``. The first is what the others are
        compared with. If metrics need a prediction and a score, give both:
        ``{"A": {"prediction": "pred_a", "score": "score_a"}, ...}``.
    metric : str or sequence of str
        The metrics to compare, by the names that `isonomy.flag` takes.
    reference : {"population", "rest"}, mapping or Group, default "population"
        Whom a group's disparity is measured from, as in `isonomy.flag`.

    Returns
    -------
    ModelComparison
        ``to_frame()`` has one row per group and metric: group, metric, n, baseline (the metric of the first model),
        estimate (that of the other), change, ci_low, ci_high, pvalue, adjusted_pvalue; the disparities of both models,
        disparity_before and disparity_after, disparity_change with disparity_low, disparity_high, disparity_pvalue and
        disparity_adjusted_pvalue; and status. With more than two models a column ``candidate`` names the other model.

    Notes
    -----
    Null hypotheses: both models have the same metric in the group; both have the same disparity. P-values are adjusted
    by Holm's method over all lines, those of changes and those of disparities separately. Assumes independent rows, or
    clusters if they are named. Metrics that are means are not tested if too few rows carry too skewed a difference
    (status ``skewed``), and nothing is tested where the models agree on every row (status ``constant``).

    When it misleads: if a model was trained on these rows, or chosen because of them.

    References
    ----------
    DeLong, E. R., DeLong, D. M. and Clarke-Pearson, D. L. (1988). Comparing the areas under two or more correlated
    receiver operating characteristic curves. Biometrics 44, 837-845.

    Examples
    --------
    >>> import isonomy as iso
    >>> table = iso.simulate.lender(5_000, seed=1).frame()
    >>> models = {"today": "approved", "candidate": "candidate_approved"}
    >>> result = iso.compare_models(table, models, metric="tpr", groups="sex", outcome="repaid")
    >>> [(group, round(change, 3)) for group, change in result.to_frame().select("group", "change").rows()]
    [('everybody', 0.08), ('sex=Female', 0.091), ('sex=Male', 0.069)]
    """
    plan = open_models(data, models, {"outcome": outcome, "groups": groups, **rows}, metric, reference, depth)
    sample = plan.read()
    pairs = [(i, place) for i in range(1, len(plan.models)) for place in range(len(plan.metrics))]
    columns = join_tables([plan.compare(sample, *pair, alpha, min_size) for pair in pairs])
    for name in ("pvalue", "disparity_pvalue"):
        columns[name.replace("pvalue", "adjusted_pvalue")] = adjust(columns[name], "holm")
    about: dict[str, Any] = {"models": tuple(plan.models), "reference": plan.reference, "rows": sample.rows}
    return ModelComparison(**columns, **about, alpha=alpha, backend=plan.source.backend)


def open_models(
    data: object,
    models: Mapping[str, Any] | None,
    arguments: Mapping[str, Any],
    metric: Any,
    reference: Any,
    depth: int,
) -> ModelPlan:
    """The plan of a call: arrays and conditions become columns, and each model has one for every role it needs."""
    metrics = [name for name in listed(metric) if isinstance(name, str)]
    if len(metrics) < len(listed(metric)):
        raise UsageError("metric: an iso.Metric does not say which columns are a model's; give names of metrics.")
    if models is None or len(models) < 2:
        raise UsageError('models: give at least two, such as {"A": "pred_a", "B": "pred_b"}.')
    known = {name: rate.roles for name, rate in RATES.items()}
    known |= {name: roles for name, (roles, _) in (*MEANS.items(), *FUNCTIONALS.items())}
    if unknown := [name for name in metrics if name not in known]:
        raise UnknownOption("metric", unknown[0], known, ALSO_CALLED)
    roles = {role for name in metrics for role in known[name]}
    needed = [role for role in ("prediction", "score") if role in roles]
    columns: dict[str, Any] = {}
    for name, spec in models.items():
        given = dict(spec) if isinstance(spec, Mapping) else dict.fromkeys(needed[:1], spec)
        if not set(needed) <= set(given):
            shown = ", ".join(f"'{role}': ..." for role in needed)
            raise UsageError(f"models: the metrics need {' and '.join(needed)}; give {name!r} as {{{shown}}}.")
        columns |= {f"{role} of {name}": given[role] for role in needed}
    forms = {"groups": "groups"} | dict.fromkeys((*columns, "outcome", "count", "weight", "cluster"), "column")
    table, flat = with_arrays(data, {**arguments, **columns}, forms)
    source = open_source(table, **{key: flat.pop(key) for key in ROW_DEFAULTS if key in flat})
    source, flat = with_conditions(source, flat, forms)
    return ModelPlan(
        source,
        {name: {role: flat[f"{role} of {name}"] for role in needed} for name in models},
        flat["outcome"],
        tuple(metrics),
        source.grouping(flat["groups"], depth),
        Group.from_mapping(reference) if isinstance(reference, Mapping) else reference,
    )


# What evaluates a model on some of the lines: its metric, and the influence of each line on it per unit of mass.
Evaluate = Callable[[BoolArray], tuple[float, FloatArray]]


@dataclass(frozen=True, eq=False)
class ModelPlan:
    source: Source
    models: Mapping[str, Mapping[str, str]]
    outcome: str | None
    metrics: tuple[str, ...]
    grouping: Grouping
    reference: str | Group

    @cached_property
    def measures(self) -> list[list[Measure]]:
        return [
            [measure(self.source, name, grouping=self.grouping, outcome=self.outcome, **roles) for name in self.metrics]
            for roles in self.models.values()
        ]

    def read(self) -> Sample:
        """One pass for all models and metrics: cells if every column is 0/1, otherwise rows."""
        binary: dict[str, Any] = {}
        numeric: dict[str, Any] = {}
        values: dict[str, Any] = {}
        unit: set[str] = set()
        for i, bound in enumerate(self.measures):
            for place, part in enumerate(bound):
                binary |= {self.named(role, i): name for role, name in part.request.binary.items()}
                numeric |= {self.named(role, i): name for role, name in part.request.numeric.items()}
                values |= {f"{role} {i} {place}": expr for role, expr in part.request.values.items()}
                unit |= {self.named(role, i) for role in part.request.probabilities}
        keys = {}
        if isinstance(self.reference, Group):
            keys["reference"] = mark(belongs(self.reference, self.grouping, self.source.schema))
        request = Request(
            self.grouping,
            binary,
            {role: name for role, name in numeric.items() if role not in binary},
            keys,
            values,
            probabilities=tuple(sorted(unit)),
        )
        return self.source.rows(request) if request.numeric or values else self.source.cells(request)

    def named(self, role: str, i: int) -> str:
        """Models share the outcome, and nothing else."""
        return role if role == "outcome" else f"{role} of {list(self.models)[i]}"

    def evaluation(self, sample: Sample, i: int, place: int) -> tuple[BoolArray, Evaluate]:
        bound, mass = self.measures[i][place], np.asarray(sample.mass, dtype=float)
        request = bound.request
        columns = {role: sample.columns[self.named(role, i)] for role in (*request.binary, *request.numeric)}
        columns |= {role: sample.columns[f"{role} {i} {place}"] for role in request.values}
        mine = replace(sample, columns=columns)
        inside, value, roles = bound.inside(mine), bound.value(mine), {}
        if bound.functional:
            roles = ranked(bound.roles(mine))

        def evaluate_rows(rows: BoolArray) -> tuple[float, FloatArray]:
            lines, influence = np.flatnonzero(rows & inside), np.zeros(rows.size)
            total = float(mass[lines].sum())
            if not total > 0:
                return np.nan, influence
            if bound.functional:
                metric, added = evaluate(bound.functional, {r: v[lines] for r, v in roles.items()}, mass[lines])
            else:
                metric = float(mass[lines] @ value[lines]) / total
                added = value[lines] - metric
            influence[lines] = added / total
            return metric, influence

        return inside, evaluate_rows

    def compare(self, sample: Sample, i: int, place: int, alpha: float, min_size: int) -> dict[str, Any]:
        """The lines of one metric, the first about everybody: model ``i`` next to the first."""
        counted, evaluations = zip(*(self.evaluation(sample, model, place) for model in (0, i)), strict=True)
        inside = counted[0] | counted[1]
        sets, groups = [np.ones(sample.size, dtype=bool)], [Group(())]
        for partition in sample.partitions:
            sets += [partition.codes == code for code in range(len(partition.groups))]
            groups += partition.groups
        labels = [EVERYBODY, *(group.label for group in groups[1:])]
        refuse_many("groups", sample.size, 2 * len(sets))
        referents = sets[0] if self.reference != "rest" else None
        if isinstance(self.reference, Group):
            referents = np.asarray(sample.columns["reference"]) == 1
            if not referents.any():
                raise UsageError(f"reference: no row has {self.reference}.{near(str(self.reference), labels)}")
        common = None if referents is None else [part(referents) for part in evaluations]
        metrics, others = np.full((2, 2, len(sets)), np.nan)
        changes = np.zeros((2, sample.size, len(sets)))  # influence on the change, and on that of the disparity
        for g, rows in enumerate(sets):
            theirs = common or [part(~rows) for part in evaluations]
            for model, sign in ((0, -1.0), (1, 1.0)):
                metrics[model, g], influence = evaluations[model](rows)
                changes[:, :, g] += sign * influence
                if g:
                    others[model, g] = theirs[model][0]
                    changes[1, :, g] -= sign * theirs[model][1]
        rows_counted = sample.counts if sample.design is None else sample.design.rows
        n = np.array([float(rows_counted[rows & inside].sum()) for rows in sets])
        by_model = np.array([[float(rows_counted[rows & part].sum()) for rows in sets] for part in counted])
        status = np.full(len(sets), Status.OK, dtype=object)
        status[np.isnan(metrics).any(axis=0)] = Status.UNSUPPORTED
        status[n < min_size] = Status.TOO_SMALL
        status[n == 0] = Status.EMPTY
        disparities = metrics - others
        bound, members = self.measures[0][place], np.column_stack([rows & inside for rows in sets])
        columns: dict[str, Any] = {}
        # A disparity may change although nothing changes in the group itself: its test has a status of its own.
        statuses = status, status.copy()
        parts = (metrics, changes[0]), (disparities, changes[1])
        for (values, table), names, tested in zip(parts, NAMES, statuses, strict=True):
            change = values[1] - values[0]
            limits = _test(sample, change, table, members, alpha, tested, bound)
            columns |= dict(zip(names, (*values, change, *limits), strict=True))
        return columns | {
            "candidate": (list(self.models)[i],) * len(sets),
            "group": tuple(labels),
            "groups": tuple(groups),
            "counted": by_model,
            "reference_n": np.full(
                len(sets),
                np.nan if referents is None else min(rows_counted[referents & part].sum() for part in counted),
            ),
            "metric": (bound.name,) * len(sets),
            "n": n,
            "status": tuple(map(Status, status)),
            "shares": (self.metrics[place] in RATES,) * len(sets),
        }


def _test(
    sample: Sample,
    change: FloatArray,
    influence: FloatArray,
    members: BoolArray,
    alpha: float,
    status: ObjectArray,
    bound: Measure,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Limits and p-values of contrasts with this influence of each line; where there is no test, NaN and a status."""
    mass = np.asarray(sample.mass, dtype=float)
    totals = spread(sample.design or Design(mass, mass, mass, mass, None), Influence.from_values(influence, members))
    able = status == Status.OK
    if not bound.binary:
        status[able & too_skewed(totals.third, totals.second, alpha)] = Status.SKEWED
    status[able & ~(totals.df >= FEWEST_CHANGES - 1)] = Status.FEW_EVENTS
    status[able & ~(totals.second > AGREE**2)] = Status.CONSTANT
    if sample.design is not None:
        status[able & ~(totals.effective >= FEWEST)] = Status.FEW_CLUSTERS
    with np.errstate(all="ignore"):
        effect = Wald(change, np.sqrt(totals.variance), totals.df)
        parts = *effect.limits(alpha), effect.pvalue()
    low, high, pvalue = (np.where(status == Status.OK, part, np.nan) for part in parts)
    return low, high, pvalue


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ModelComparison:
    """The metrics of models on the same rows, and their differences. There is no verdict."""

    candidate: tuple[str, ...] = column("Model")
    group: tuple[str, ...] = column("Group")
    metric: tuple[str, ...] = column("Metric")
    n: FloatArray = column("Rows counted", count=True)
    baseline: FloatArray = column("First model")
    estimate: FloatArray = column("This model")
    change: FloatArray = column("Change")
    ci_low: FloatArray = column("Interval from")
    ci_high: FloatArray = column("Interval to")
    pvalue: FloatArray = column()
    adjusted_pvalue: FloatArray = column()
    disparity_before: FloatArray = column("Disparity, first model")
    disparity_after: FloatArray = column("Disparity, this model")
    disparity_change: FloatArray = column("Change of the disparity")
    disparity_low: FloatArray = column("Change of the disparity, from")
    disparity_high: FloatArray = column("Change of the disparity, to")
    disparity_pvalue: FloatArray = column()
    disparity_adjusted_pvalue: FloatArray = column()
    status: tuple[Status, ...] = column()
    shares: tuple[bool, ...]
    groups: tuple[Group, ...]
    reference: str | Group
    counted: FloatArray  # of the rows, those that the metric of either model counts
    reference_n: FloatArray  # the fewest of these in the reference; NaN if it is everybody else
    models: tuple[str, ...]
    rows: int
    alpha: float
    backend: str

    def __post_init__(self) -> None:
        read_only(self)

    def published(self, minimum: int) -> ModelComparison:
        """A copy that withholds the numbers of groups with fewer than ``minimum`` rows, and those that reveal them."""
        fewest = self.counted.min(axis=0)
        few = fewest < minimum
        tables = list(zip(self.metric, self.candidate, strict=True))
        for table in dict.fromkeys(tables):
            lines = np.array([other == table for other in tables])
            for part in self.counted:
                few |= lines & leaves_few(self.groups, part, part[lines][0], minimum)
        small = withheld(self.groups, fewest, few, minimum, rows=self.rows)
        reference_hidden = any(hide and group == self.reference for hide, group in zip(small, self.groups, strict=True))
        if reference_hidden or (self.reference_n < minimum).any():
            raise few_in_reference(minimum)
        hidden = ("group", "metric", "candidate")
        columns = {name: value for name, value in self._columns().items() if name not in hidden}
        return replace(self, **hide_lines(columns, small), counted=np.where(small, np.nan, self.counted))

    def _columns(self) -> dict[str, Any]:
        return {part.name: getattr(self, part.name) for part in fields(self) if part.metadata}

    def table(self) -> Columns:
        columns = self._columns()
        return columns if len(self.models) > 2 else {name: v for name, v in columns.items() if name != "candidate"}

    def to_frame(self, backend: str | None = None) -> Any:
        """One row per group and metric, everybody first."""
        return as_frame(self.table(), backend, self.backend, ["n"])

    def summary(self) -> str:
        """The changes for everybody, and the groups in which a metric or a disparity was shown to change."""
        return words.compared_models(self)

    __str__ = summary

    def __repr__(self) -> str:
        return f"<ModelComparison of {', '.join(self.models)}: {self.rows:,} rows, no verdict>"
