"""Metrics: a value for each row, and the condition under which a row counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, TypeVar

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from isonomy.errors import MissingRole, UnknownOption, UsageError
from isonomy.frames.expressions import Comparison, Scalar, number
from isonomy.frames.groups import Grouping
from isonomy.frames.source import Request, Sample, Source
from isonomy.frames.sums import identity
from isonomy.numerics.arrays import BoolArray
from isonomy.options import Form, check

Codes = NDArray[np.int8]
V = TypeVar("V")


@dataclass(frozen=True, slots=True, eq=False)
class Metric:
    """A custom metric: the mean of ``value`` over the rows in which ``where`` holds.

    Both are narwhals expressions over the table's columns; without ``where`` every row counts. Set ``binary=True`` if
    the value is always 0 or 1 (or true or false): counts are then enough. With ``quantile`` the metric is that quantile
    of the value instead of its mean; 0.5 is the median.

    >>> import isonomy as iso
    >>> thin = iso.Metric("thin-file approval", value=iso.col("ok"), where=iso.col("accounts") < 3, binary=True)
    >>> thin.name
    'thin-file approval'
    >>> iso.Metric("median amount", value=iso.col("amount"), quantile=0.5).quantile
    0.5
    """

    name: str
    value: nw.Expr
    where: nw.Expr | None = None
    binary: bool = False
    quantile: float | None = None

    def __post_init__(self) -> None:
        check("name", self.name, str)
        check("binary", self.binary, bool)
        check("quantile", self.quantile, float | None)
        if self.quantile is not None and (self.binary or not 0 < self.quantile < 1):
            value = "binary=True" if self.binary else f"{self.quantile!r}"
            raise UsageError(
                f"Metric({self.name!r}): quantile needs a number between 0 and 1, of values that are not 0/1; saw "
                f"{value}."
            )
        for part, expr in (("value", self.value), ("where", self.where)):
            if not isinstance(expr, nw.Expr) and not (part == "where" and expr is None):
                raise UsageError(
                    f"Metric({self.name!r}): {part} is a {type(expr).__name__}; give an expression such as "
                    'iso.col("amount") / 100.'
                )


MetricLike = Annotated[str | Metric | Sequence[str | Metric], Form("metric")]


@dataclass(frozen=True, slots=True)
class _Rate:
    roles: tuple[str, ...]
    inside: Callable[[Mapping[str, Codes]], BoolArray]
    hit: Callable[[Mapping[str, Codes]], BoolArray]


def _all(keys: Mapping[str, Codes]) -> BoolArray:
    return np.ones(len(next(iter(keys.values()))), dtype=bool)


_BOTH = ("outcome", "prediction")
RATES: dict[str, _Rate] = {
    "selection_rate": _Rate(("prediction",), _all, lambda k: k["prediction"] == 1),
    "tpr": _Rate(_BOTH, lambda k: k["outcome"] == 1, lambda k: k["prediction"] == 1),
    "fpr": _Rate(_BOTH, lambda k: k["outcome"] == 0, lambda k: k["prediction"] == 1),
    "fnr": _Rate(_BOTH, lambda k: k["outcome"] == 1, lambda k: k["prediction"] == 0),
    "tnr": _Rate(_BOTH, lambda k: k["outcome"] == 0, lambda k: k["prediction"] == 0),
    "ppv": _Rate(_BOTH, lambda k: k["prediction"] == 1, lambda k: k["outcome"] == 1),
    "npv": _Rate(_BOTH, lambda k: k["prediction"] == 0, lambda k: k["outcome"] == 0),
    "false_discovery_rate": _Rate(_BOTH, lambda k: k["prediction"] == 1, lambda k: k["outcome"] == 0),
    "false_omission_rate": _Rate(_BOTH, lambda k: k["prediction"] == 0, lambda k: k["outcome"] == 1),
    "accuracy": _Rate(_BOTH, _all, lambda k: k["outcome"] == k["prediction"]),
    "error_rate": _Rate(_BOTH, _all, lambda k: k["outcome"] != k["prediction"]),
}
# Scores are clipped for the logarithm, so that a single certain and wrong score does not make a group infinite.
_CLIP = 1e-15


def _log_loss(outcome: nw.Expr, score: nw.Expr) -> nw.Expr:
    safe = score.clip(_CLIP, 1 - _CLIP)
    return -(outcome * safe.log() + (1 - outcome) * (1 - safe).log())


MEANS: dict[str, tuple[tuple[str, ...], Callable[..., nw.Expr]]] = {
    "mean_prediction": (("prediction",), lambda prediction: prediction),
    "mean_error": (_BOTH, lambda outcome, prediction: prediction - outcome),
    "mae": (_BOTH, lambda outcome, prediction: (prediction - outcome).abs()),
    "mse": (_BOTH, lambda outcome, prediction: (prediction - outcome) * (prediction - outcome)),
    "brier": (("outcome", "score"), lambda outcome, score: (score - outcome) * (score - outcome)),
    "log_loss": (("outcome", "score"), _log_loss),
}

# Metrics that are not a mean over rows: their roles, and those of them that must be 0/1.
FUNCTIONALS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "balanced_accuracy": (_BOTH, _BOTH),
    "f1": (_BOTH, _BOTH),
    "auc": (("outcome", "score"), ("outcome",)),
    "rmse": (_BOTH, ()),
    "r2": (_BOTH, ()),
}
# Several metrics under one name.
BUNDLES = {"equalized_odds": ("tpr", "fpr")}
# Error metrics: lower is better. For all others, higher is better.
ERRORS = frozenset({"fpr", "fnr", "false_discovery_rate", "false_omission_rate", "error_rate"})
ERRORS |= {"mae", "mse", "rmse", "brier", "log_loss"}

NAMES = (*RATES, *MEANS, *FUNCTIONALS)
# Synonyms, which are accepted; results use the names above.
ALSO_CALLED = {
    "true_positive_rate": "tpr",
    "true_positive": "tpr",
    "recall": "tpr",
    "sensitivity": "tpr",
    "equal_opportunity": "tpr",
    "false_positive_rate": "fpr",
    "predictive_equality": "fpr",
    "false_negative_rate": "fnr",
    "true_negative_rate": "tnr",
    "specificity": "tnr",
    "positive_predictive_value": "ppv",
    "precision": "ppv",
    "predictive_parity": "ppv",
    "negative_predictive_value": "npv",
    "fdr": "false_discovery_rate",
    "for": "false_omission_rate",
    "demographic_parity": "selection_rate",
    "statistical_parity": "selection_rate",
    "approval_rate": "selection_rate",
    "positive_rate": "selection_rate",
    "equalised_odds": "equalized_odds",
    "mean_absolute_error": "mae",
    "mean_squared_error": "mse",
    "brier_score": "brier",
    "f1_score": "f1",
    "roc_auc": "auc",
    "roc_auc_score": "auc",
    "r2_score": "r2",
    "balanced_accuracy_score": "balanced_accuracy",
    "root_mean_squared_error": "rmse",
    "logloss": "log_loss",
    "cross_entropy": "log_loss",
}


@dataclass(frozen=True, slots=True, eq=False)
class Measure:
    """A metric bound to the columns of a table: the request for the rows, and how to read the answer."""

    name: str
    binary: bool
    request: Request
    _rate: _Rate | None = None
    functional: str = ""  # which of `FUNCTIONALS` (or "quantile"), for a metric that is not a mean over rows
    level: float | None = None  # of a quantile
    positive: Scalar | None = None  # the label that counts as 1

    @property
    def by_row(self) -> bool:
        """Whether values are needed row by row; counts are enough if every column is 0/1."""
        return bool(self.request.numeric) or not (self.binary or self.functional)

    def roles(self, answer: Sample) -> dict[str, NDArray[np.float64]]:
        keys = answer.columns
        if self.level is not None:
            values = np.asarray(keys["value"], dtype=np.float64)
            return {"value": values, "level": np.full(values.shape, self.level)}
        return {role: np.asarray(keys[role], dtype=np.float64) for role in FUNCTIONALS[self.functional][0]}

    def refuse_absent(self, answer: Sample) -> None:
        """Raise if no row has the label that counts as 1: it is probably spelled differently."""
        if self.positive is None:
            return
        labeled = [role for role in self.request.binary if role in _BOTH]
        if not any(bool((answer.columns[role] == 1).any()) for role in labeled):
            raise UsageError(f"positive: no row has {self.positive!r} as its {' or '.join(labeled)}.")

    def inside(self, answer: Sample) -> BoolArray:
        keys = answer.columns
        if self._rate is not None:
            return self._rate.inside(keys)
        return np.asarray(keys["inside"]) == 1 if "inside" in keys else np.ones(answer.size, dtype=bool)

    def value(self, answer: Sample) -> NDArray[np.float64]:
        """The metric's value in each cell (0 or 1) or row. Meaningful where `inside`."""
        keys = answer.columns
        if self.functional:
            return np.zeros(len(next(iter(keys.values()))))
        if self._rate is not None:
            return self._rate.hit(keys).astype(np.float64)
        return np.asarray(keys["value"], dtype=np.float64)

    def expressions(self) -> tuple[nw.Expr | None, nw.Expr]:
        """The condition (None: every row counts) and the value of each row of a rate or a mean, as expressions."""
        codes: Any = {role: number(column) for role, column in self.request.binary.items()}
        if self._rate is not None:
            inside = None if self._rate.inside is _all else self._rate.inside(codes)
            return inside, number(self._rate.hit(codes))  # type: ignore[arg-type, return-value]
        value = {**self.request.binary, **self.request.numeric, **self.request.values}["value"]
        return codes["inside"] == 1 if "inside" in codes else None, number(value)


def canonical(metric: Any) -> Any:
    if isinstance(metric, (list, tuple)):
        return [canonical(entry) for entry in metric]
    return ALSO_CALLED.get(metric, metric) if isinstance(metric, str) else metric


def listed(metric: str | Metric | Sequence[str | Metric]) -> tuple[str | Metric, ...]:
    """The metrics of an argument, with bundles spelled out; raises for duplicates."""
    given = (metric,) if isinstance(metric, (str, Metric)) else tuple(metric) if isinstance(metric, Sequence) else ()
    single: list[str | Metric] = []
    for entry in map(canonical, given):
        if not isinstance(entry, (str, Metric)):
            single.clear()
            break
        single += BUNDLES.get(entry, (entry,)) if isinstance(entry, str) else (entry,)
    if not single:
        raise UsageError(
            f"metric: {metric!r}; give a name ({', '.join((*NAMES, *BUNDLES))}), an iso.Metric, or a list."
        )
    names = [part.name if isinstance(part, Metric) else part for part in single]
    if len(set(names)) < len(names):
        raise UsageError(f"metric: {', '.join(names)} names one metric twice.")
    return tuple(single)


def shared_cells(requests: Sequence[Request]) -> Request | None:
    """One request whose pass serves all of several; None if they differ in more than their 0/1 columns."""
    binary = {role: column for request in requests for role, column in request.binary.items()}
    plain = all(isinstance(column, str) or role in _BOTH for role, column in binary.items())
    alike = all(
        identity(request.binary.get(role, column)) == identity(column)
        for request in requests
        for role, column in binary.items()
    )
    simple = not any(request.numeric or request.values for request in requests)
    return replace(requests[0], binary=binary) if len(requests) > 1 and plain and alike and simple else None


# The columns of a custom metric, which differ between metrics.
_CUSTOM = ("inside", "value")


def shared_rows(requests: Sequence[Request]) -> Request:
    """One request for the columns of all of them, row by row; `metric_columns` selects those of one."""

    def renamed(parts: Iterable[Mapping[str, V]]) -> dict[str, V]:
        return {_numbered(role, i): column for i, part in enumerate(parts) for role, column in part.items()}

    return Request(
        requests[0].grouping,
        binary=renamed(request.binary for request in requests),
        numeric=renamed(request.numeric for request in requests),
        keys=renamed(request.keys for request in requests),
        values=renamed(request.values for request in requests),
        probabilities=tuple(dict.fromkeys(role for request in requests for role in request.probabilities)),
    )


def metric_columns(rows: Sample, place: int) -> Sample:
    named = {role: rows.columns[name] for role in _CUSTOM if (name := _numbered(role, place)) in rows.columns}
    return replace(rows, columns={**rows.columns, **named})


def _numbered(role: str, place: int) -> str:
    return f"{role} of metric {place + 1}" if role in _CUSTOM else role


def measure(
    source: Source,
    metric: str | Metric,
    *,
    grouping: Grouping | None = None,
    outcome: str | None = None,
    prediction: str | None = None,
    score: str | None = None,
    positive: Scalar | None = None,
) -> Measure:
    """Bind a metric to a table's columns. Reads the schema only.

    With ``positive`` the outcome and the prediction are 1 for that label and 0 for others. A 0/1 metric is read from
    ``source.cells(measure.request)``, any other from ``source.rows(measure.request)``.
    """
    given = {"outcome": outcome, "prediction": prediction, "score": score}
    source.require(**given)
    if positive is not None:
        bound = measure(source, metric, grouping=grouping, outcome=outcome, prediction=prediction, score=score)
        return _with_label(source, bound, positive)
    if isinstance(metric, Metric):
        return _custom(source, metric, grouping)
    if not isinstance(metric, str):
        raise UsageError(f"metric: {metric!r}; give a name ({', '.join(NAMES)}) or an iso.Metric.")
    metric = str(canonical(metric))
    name = metric
    for key, words in source.labels.metrics.items():
        if canonical(key) == metric:
            name = words
    if metric in RATES:
        rate = RATES[metric]
        roles, codes = rate.roles, rate.roles
    elif metric in FUNCTIONALS:
        roles, codes = FUNCTIONALS[metric]
    elif metric in MEANS:
        roles, codes = MEANS[metric][0], ("outcome",) if metric in ("brier", "log_loss") else ()
    elif metric in ("quantile", "median"):
        raise UsageError(
            f"metric: {metric!r} needs to know of what; give an iso.Metric such as "
            'iso.Metric("median amount", value=iso.col("amount"), quantile=0.5).'
        )
    else:
        raise UnknownOption("metric", metric, (*NAMES, *BUNDLES), ALSO_CALLED | {"calibration": "mean_error"})
    binary: dict[str, str | nw.Expr] = {}
    numeric: dict[str, str | nw.Expr] = {}
    for role in roles:
        column = given[role]
        if column is None:
            raise MissingRole(f"{role}: the metric {metric!r} needs it; name its column.")
        (binary if role in codes else numeric)[role] = column
    if metric in RATES:
        return Measure(name, True, Request(grouping, binary), rate)
    if metric in FUNCTIONALS:
        return Measure(name, False, Request(grouping, binary, numeric), functional=metric)
    values = {"value": MEANS[metric][1](**{role: number(str(given[role])) for role in roles})}
    chances = ("score",) if "score" in numeric else ()
    return Measure(name, False, Request(grouping, binary, numeric, values=values, probabilities=chances))


def _with_label(source: Source, bound: Measure, positive: Scalar) -> Measure:
    """A metric whose outcome and prediction are labels, one of which counts as 1; a missing label stays missing."""
    if not any(role in _BOTH for role in bound.request.binary):
        raise UsageError(f"positive: the metric {bound.name!r} has no 0/1 outcome or prediction; leave it out.")
    binary: dict[str, str | nw.Expr] = {}
    for role, column in bound.request.binary.items():
        binary[role] = column
        if role in _BOTH and isinstance(column, str):
            label = Comparison(column, "==", positive)
            if problem := label.mismatch(source.schema[column]):
                raise UsageError(f"positive: {problem}.")
            binary[role] = nw.when(~nw.col(column).is_null()).then(label.expression())
    return replace(bound, request=replace(bound.request, binary=binary), positive=positive)


def _custom(source: Source, metric: Metric, grouping: Grouping | None) -> Measure:
    """A custom metric. A missing value matters only where the metric's condition holds."""
    source.check_expression(f"Metric({metric.name!r}) value", metric.value)
    value = metric.value.cast(nw.Float64)
    binary: dict[str, nw.Expr] = {}
    if metric.where is not None:
        source.check_expression(f"Metric({metric.name!r}) where", metric.where, boolean=True)
        value = nw.when(metric.where).then(value).otherwise(nw.lit(0.0))
        binary["inside"] = metric.where
    if metric.binary:
        return Measure(metric.name, True, Request(grouping, {**binary, "value": value}))
    request, functional = Request(grouping, binary, {"value": value}), "" if metric.quantile is None else "quantile"
    return Measure(metric.name, False, request, functional=functional, level=metric.quantile)
