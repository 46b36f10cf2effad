"""Metrics: a value for each row, and the condition under which a row counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from isonomy.errors import MissingRole, UnknownOption, UsageError
from isonomy.frames.groups import Grouping
from isonomy.frames.request import Cells, Request, Rows
from isonomy.frames.source import Source
from isonomy.numerics.arrays import BoolArray
from isonomy.options import Form

Codes = NDArray[np.int8]


@dataclass(frozen=True, slots=True, eq=False)
class Metric:
    """A metric of your own: the mean of ``value`` over the rows where ``where`` holds.

    Both are narwhals expressions over the table's columns; without ``where`` every row counts. Say ``binary=True``
    when the value is always 0 or 1 (or true or false): the audit then needs counts only.

    >>> import isonomy as iso
    >>> thin = iso.Metric("thin-file approval", value=iso.col("ok"), where=iso.col("accounts") < 3, binary=True)
    >>> thin.name
    'thin-file approval'
    """

    name: str
    value: nw.Expr
    where: nw.Expr | None = None
    binary: bool = False

    def __post_init__(self) -> None:
        for part, expr in (("value", self.value), ("where", self.where)):
            if not isinstance(expr, nw.Expr) and not (part == "where" and expr is None):
                raise UsageError(
                    f"Metric({self.name!r}): {part} is a {type(expr).__name__}; give an expression such as "
                    'iso.col("amount") / 100.'
                )


MetricLike = Annotated[str | Metric, Form("metric")]


@dataclass(frozen=True, slots=True)
class _Rate:
    """A 0/1 metric read off the counts of (outcome, prediction)."""

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

# Scores are clipped here for the logarithm, so that one certain and wrong score does not make a whole group infinite.
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

NAMES = (*RATES, *MEANS)
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
    "precision": "ppv",
    "positive_predictive_value": "ppv",
    "predictive_parity": "ppv",
    "negative_predictive_value": "npv",
    "fdr": "false_discovery_rate",
    "for": "false_omission_rate",
    "demographic_parity": "selection_rate",
    "statistical_parity": "selection_rate",
    "approval_rate": "selection_rate",
    "positive_rate": "selection_rate",
    "calibration": "mean_error",
    "mean_absolute_error": "mae",
    "mean_squared_error": "mse",
    "brier_score": "brier",
    "logloss": "log_loss",
    "cross_entropy": "log_loss",
}


@dataclass(frozen=True, slots=True, eq=False)
class Measure:
    """A metric bound to the columns of a table: what to ask of the rows, and how to read the answer."""

    name: str
    binary: bool
    request: Request
    _rate: _Rate | None = None

    def inside(self, answer: Cells | Rows) -> BoolArray:
        """Which cells (or rows) meet the metric's condition."""
        keys = answer.keys if isinstance(answer, Cells) else answer.columns
        if self._rate is not None:
            return self._rate.inside({role: keys[role] for role in self._rate.roles})
        if "inside" in keys:
            return np.asarray(keys["inside"]) == 1
        size = len(answer.count) if isinstance(answer, Cells) else answer.size
        return np.ones(size, dtype=bool)

    def value(self, answer: Cells | Rows) -> NDArray[np.float64]:
        """The metric's value in each cell (0 or 1) or row. Meaningful where `inside`."""
        keys = answer.keys if isinstance(answer, Cells) else answer.columns
        if self._rate is not None:
            return self._rate.hit({role: keys[role] for role in self._rate.roles}).astype(np.float64)
        return np.asarray(keys["value"], dtype=np.float64)


def measure(
    source: Source,
    metric: str | Metric,
    *,
    grouping: Grouping | None = None,
    outcome: str | None = None,
    prediction: str | None = None,
    score: str | None = None,
) -> Measure:
    """Bind a metric to a table's columns. Reads the schema only.

    A 0/1 metric is read from ``source.cells(measure.request)``, any other from ``source.rows(measure.request)``.
    """
    given = {"outcome": outcome, "prediction": prediction, "score": score}
    source.require(**given)
    if isinstance(metric, Metric):
        return _own(source, metric, grouping)
    if not isinstance(metric, str):
        raise UsageError(f"metric: {metric!r}; give a name ({', '.join(NAMES)}) or an iso.Metric.")
    if metric in RATES:
        rate = RATES[metric]
        return Measure(metric, True, Request(grouping, binary=_roles(metric, rate.roles, given)), rate)
    if metric in MEANS:
        roles, formula = MEANS[metric]
        named = _roles(metric, roles, given)
        columns = {role: nw.col(column).cast(nw.Float64) for role, column in named.items()}
        binary = {r: c for r, c in named.items() if r == "outcome" and metric in ("brier", "log_loss")}
        numeric = {r: c for r, c in named.items() if r not in binary}
        values = {"value": formula(**columns)}
        chances = ("score",) if "score" in numeric else ()
        return Measure(metric, False, Request(grouping, binary, numeric, values=values, probabilities=chances))
    raise UnknownOption("metric", metric, NAMES, ALSO_CALLED)


def _roles(metric: str, roles: tuple[str, ...], given: Mapping[str, str | None]) -> dict[str, str]:
    named: dict[str, str] = {}
    for role in roles:
        column = given[role]
        if column is None:
            raise MissingRole(f"{role}: the metric {metric!r} needs it; pass {role}=<column name>.")
        named[role] = column
    return named


def _own(source: Source, metric: Metric, grouping: Grouping | None) -> Measure:
    """A user-made metric. A missing value matters only where the metric's condition holds."""
    source.check_expression(f"Metric({metric.name!r}) value", metric.value)
    value = metric.value.cast(nw.Float64)
    binary: dict[str, nw.Expr] = {}
    if metric.where is not None:
        source.check_expression(f"Metric({metric.name!r}) where", metric.where, boolean=True)
        value = nw.when(metric.where).then(value).otherwise(nw.lit(0.0))
        binary["inside"] = metric.where
    if metric.binary:
        return Measure(metric.name, True, Request(grouping, {**binary, "value": value}))
    return Measure(metric.name, False, Request(grouping, binary, {"value": value}))
