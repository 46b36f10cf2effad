"""The public calls of the sweep, each with a valid table and valid arguments."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
import polars as pl

import isonomy as iso

SOURCE = Path(iso.__file__).parent
Arguments = Mapping[str, Any]
KNOWN = frozenset("ypqdsrzghtvebxuwklmnfc")  # the columns of `table`


@dataclass(frozen=True, slots=True)
class Public:
    """A public call: its function, the arguments that name columns, and the others."""

    name: str
    function: Callable[..., Any]
    columns: Mapping[str, Any]
    options: Arguments
    ordered: bool = False  # its draws belong to rows, so that they change with the order of rows
    shared: tuple[str, ...] = ()  # columns whose missing values change the bins or the parts of the other rows


def table(rows: int = 240) -> pl.DataFrame:
    """A table for every call. Numbers are dyadic, so that narrow types represent them exactly."""
    rng = np.random.default_rng(7)
    group = rng.integers(0, 3, rows)
    score = rng.integers(1, 255, rows) / 256
    outcome = (rng.random(rows) < score).astype(int)
    treatment = rng.integers(0, 2, rows)
    return pl.DataFrame(
        {
            "y": outcome,
            "p": (score + 0.15 * rng.standard_normal(rows) > 0.45 + 0.05 * group).astype(int),
            "q": (score >= 0.5).astype(int),
            "d": rng.integers(1, 65, rows) / 64,
            "s": score,
            "r": rng.integers(1, 255, rows) / 256,
            "z": rng.integers(0, 2, rows),
            "g": np.array(["a", "b", "c"])[group],
            "h": np.array(["m", "n"])[rng.integers(0, 2, rows)],
            "t": treatment,
            "v": (10 + treatment * (1 + group) + rng.integers(-8, 8, rows) / 8),
            "e": 1 + rng.integers(-16, 16, rows) / 64,
            "b": 10 + rng.integers(-8, 8, rows) / 8,
            "x": rng.integers(-64, 64, rows) / 32,
            "u": rng.integers(0, 90, rows),
            "w": rng.integers(1, 9, rows) / 4,
            "k": rng.integers(1, 4, rows),
            "l": (first := rng.integers(0, 33, rows) / 64),
            "m": (second := rng.integers(0, 33, rows) / 64),
            "n": 1 - first - second,
            "f": rng.integers(0, 3, rows),
            "c": np.where(rng.random(rows) < 0.4, np.array(["a", "b", "c"])[rng.integers(0, 3, rows)], ""),
        }
    )


def _by_probability(function: Callable[..., Any], **assumed: Any) -> Callable[..., Any]:
    """A question about groups known by the probabilities in the named columns; of the last, if they are too few."""

    def call(data: Any, *, shares: Any, known: Any = None, place: Any = None, **options: Any) -> Any:
        probabilities = dict(zip("abc", shares, strict=False))
        more = assumed | ({} if known is None else {"known": known}) | ({} if place is None else {"place": place})
        other = "c" if len(probabilities) < 3 else None
        return function(data, groups=iso.proxy("o", probabilities, other=other, **more), **options)

    return call


def _comparable(function: Callable[..., Any], model: str) -> Callable[..., Any]:
    """A question among people who are comparable by the named columns."""

    def call(data: Any, *, by: Any, **options: Any) -> Any:
        return function(data, given=iso.comparable(*by, model=model), **options)

    return call


def _compared(data: Any, *, pair: Any, **options: Any) -> Any:
    """`isonomy.compare_models` with the models in the named columns."""
    return iso.compare_models(data, dict(zip("AB", pair, strict=True)), **options)


def _shrunk(data: Any, **options: Any) -> Any:
    """Estimates of many groups, drawn toward their mean."""
    return iso.flag(data, **options).shrunk(toward="mean")


def _monitored(data: Any, **options: Any) -> Any:
    """`isonomy.Monitor` with a batch of all rows."""
    monitor = iso.Monitor(**options)
    monitor.update(data, batch="first")
    return monitor.result()


def _estimator(make: Callable[..., Any]) -> Callable[..., Any]:
    """Fit and predict on one table; ``y`` names the outcomes."""

    def call(data: Any, *, y: Any, **parameters: Any) -> Any:
        named = [y] if isinstance(y, str) else list(y)
        whole = isinstance(data, pl.DataFrame) and set(named) <= set(data.columns)
        held = data if whole else table() if set(named) <= KNOWN else None
        outcomes = y if held is None else held[y] if isinstance(y, str) else held.select(named)
        return make(**parameters).fit(data, outcomes).predict(data)

    return call


def public() -> list[Public]:
    """Every public call with valid arguments for `table`."""
    both = {"outcome": "y", "prediction": "p", "groups": ["g"]}
    scored = {"outcome": "y", "score": "s", "groups": ["g"]}
    trial = {"effect": "e", "treatment": "t", "outcome": "v", "groups": ["g"]}
    quick = {"method": iso.curves(resamples=100), "rng": 0}
    rule = {"outcome": "y", "groups": ["g"], "status_quo": "p", "candidate": "q"}
    return [
        Public("flag", iso.flag, both, {"metric": "tpr", "rng": 0}),
        Public("flag, intersections", iso.flag, both | {"groups": ["g", "h"]}, {"metric": "error_rate", "depth": 2}),
        Public("flag, a mean", iso.flag, both | {"prediction": "s"}, {"metric": "mae", "rng": 0}),
        Public(
            "flag, strata", iso.flag, {"prediction": "p", "groups": ["g"], "given": ["h"]}, {"metric": "selection_rate"}
        ),
        Public("flag, a design", iso.flag, both | {"weight": "w", "cluster": "u"}, {"metric": "accuracy"}),
        Public("flag, counts", iso.flag, both | {"count": "k"}, {"metric": "fpr", "scale": "ratio"}),
        Public("certify", iso.certify, {"prediction": "p", "groups": ["g"]}, {"metric": "selection_rate", "rng": 0}),
        Public("certify, a mean", iso.certify, both | {"prediction": "s"}, {"metric": "mean_error", "rng": 0}),
        Public("adverse_impact", iso.adverse_impact, {"prediction": "p", "groups": ["g"]}, {"rng": 0}),
        Public(
            "flag, by probability",
            _by_probability(iso.flag),
            {"prediction": "p", "shares": ["l", "m", "n"]},
            {"metric": "selection_rate"},
        ),
        Public(
            "adverse_impact, by probability",
            _by_probability(iso.adverse_impact),
            {"prediction": "p", "shares": ["l", "m", "n"]},
            {"reference": {"o": "a"}},
        ),
        Public(
            "flag, probabilities and labels",
            _by_probability(iso.flag, known_rows="random"),
            {"outcome": "y", "prediction": "p", "shares": ["l", "m"], "known": "c"},
            {"metric": "tpr"},
        ),
        Public(
            "flag, probabilities of places",
            _by_probability(iso.flag, assume="names"),
            {"prediction": "p", "shares": ["l", "m", "n"], "place": "h"},
            {"metric": "selection_rate"},
        ),
        Public(
            "flag, comparable people",
            _comparable(iso.flag, "doubly_robust"),
            {"prediction": "p", "groups": ["g"], "by": ["x", "h"]},
            {"metric": "selection_rate"},
        ),
        Public(
            "flag, comparable by a regression",
            _comparable(iso.flag, "logistic"),
            {"prediction": "p", "groups": ["g"], "by": ["x", "f"]},
            {"metric": "selection_rate"},
        ),
        Public(
            "flag, comparable strata",
            _comparable(iso.flag, "strata"),
            {"outcome": "y", "prediction": "p", "groups": ["h"], "by": ["z"]},
            {"metric": "accuracy"},
        ),
        Public(
            "shrunk",
            _shrunk,
            {"prediction": "p", "groups": ["g", "h", "z"]},
            {"metric": "selection_rate", "depth": 3, "min_size": 5},
        ),
        Public("flag, several metrics", iso.flag, both, {"metric": ["tpr", "fpr", "ppv"]}),
        Public(
            "compare_models",
            _compared,
            {"outcome": "y", "pair": ["p", "q"], "groups": ["g"]},
            {"metric": ["tpr", "selection_rate"]},
        ),
        Public(
            "compare_models, scores",
            _compared,
            {"outcome": "y", "pair": ["s", "r"], "groups": ["g", "h"]},
            {"metric": "mae", "reference": "rest"},
        ),
        Public("Monitor", _monitored, both, {"metric": "accuracy", "tolerance": 0.05}),
        Public(
            "monitor, a mean", iso.monitor, both | {"prediction": "s", "batch": "f"}, {"metric": "mae"}, shared=("f",)
        ),
        Public("monitor", iso.monitor, both | {"batch": "f"}, {"metric": "tpr"}, shared=("f",)),
        Public(
            "discover",
            iso.discover,
            {"prediction": "p", "features": ["d", "x"]},  # numbers alone: labels of another type are other features
            {"metric": "selection_rate", "min_size": 5, "rng": 0},
            shared=("d", "x"),
        ),
        Public(
            "discover, a mean",
            iso.discover,
            {"outcome": "y", "score": "s", "features": ["d", "x"], "cluster": "u"},
            {"metric": "brier", "min_size": 5, "rng": 0},
            shared=("d", "x"),
        ),
        Public(
            "discover, everything",
            iso.discover,
            {"prediction": "p", "features": ["d", "x"]},
            {"metric": "selection_rate", "min_size": 5, "evidence": "all", "rng": 0},
            shared=("d", "x"),
        ),
        Public("project", iso.project, both | {"distance": "d"}, {"rng": 0}),
        Public("project, a score", iso.project, both | {"prediction": "q", "score": "s"}, {"threshold": 0.5, "rng": 0}),
        Public("improvability", iso.improvability, rule, {"rng": 0, "accuracy": "accuracy"}),
        Public("treatment_bias", iso.treatment_bias, trial, {"measure": "difference", "rng": 0}),
        Public(
            "treatment_bias, relative",
            iso.treatment_bias,
            trial,
            {"measure": iso.relative("weighted", "b"), "rng": 0},
        ),
        Public(
            "evaluate_corrections",
            iso.evaluate_corrections,
            trial,
            {"measure": "difference", "method": iso.heldout(2, 20), "rng": 0},
            ordered=True,
        ),
        Public("price_of_fairness", iso.price_of_fairness, trial | {"corrected": ["b"]}, {"measure": "difference"}),
        Public(
            "price_of_fairness, money",
            iso.price_of_fairness,
            trial | {"corrected": ["b"]},
            {"measure": "difference", "budget": iso.budget(0.5, value=2.0, cost=1.0)},
        ),
        Public("predictive_parity", iso.predictive_parity, scored, quick, ordered=True),
        Public("predictive_parity, people", iso.predictive_parity, scored | {"user": "u"}, quick, ordered=True),
        Public(
            "composite_parity",
            iso.composite_parity,
            {"outcomes": ["y", "z"], "scores": ["s", "r"], "groups": ["g"]},
            quick,
            ordered=True,
        ),
        Public("marginal_outcomes", iso.marginal_outcomes, scored, {"threshold": 0.5}),
        Public("calibration_metrics", iso.calibration_metrics, scored | {"score": ["s", "r"]}, {}, ordered=True),
        Public("calibration_metrics, people", iso.calibration_metrics, scored | {"score": ["s"], "user": "u"}, {}),
        Public(
            "evaluate_calibrators",
            iso.evaluate_calibrators,
            scored | {"user": "u"},
            {"calibrators": ["binning"], "splits": 2, "rng": 0},
            ordered=True,
        ),
        Public("equalize_thresholds", iso.equalize_thresholds, scored, {"threshold": 0.5, "target": "tpr"} | quick),
        Public(
            "GroupCalibrator",
            _estimator(iso.GroupCalibrator),
            {"y": "y", "score_column": "s", "groups": ["g"], "user": "u"},
            {"min_size": 10},
            ordered=True,
        ),
        Public(
            "GroupThresholds",
            _estimator(iso.GroupThresholds),
            {"y": "y", "score_column": "s", "groups": ["g"]},
            {"target": "tpr", "random_state": 0},
            ordered=True,
        ),
        Public(
            "MultiObjectiveCalibrator",
            _estimator(iso.MultiObjectiveCalibrator),
            {"y": ["y", "z"], "scores": ["s", "r"], "groups": ["g"]},
            {"min_size": 10},
            ordered=True,
        ),
        Public(
            "EffectCorrector",
            _estimator(iso.EffectCorrector),
            {"y": "v", "effect": "e", "treatment": "t", "groups": ["g"]},
            {"measure": "difference", "random_state": 0},
            ordered=True,
        ),
    ]


def fitted(call: Public, rows: np.ndarray[Any, Any]) -> Any:
    """The estimator of a call, fitted on an array, whose columns have numbers."""
    place = {name: i for i, name in enumerate(table().columns)}
    numbers = {
        name: place[value] if isinstance(value, str) else [place[part] for part in value]
        for name, value in call.columns.items()
        if name != "y"
    }
    y = call.columns["y"]
    outcomes = rows[:, place[y]] if isinstance(y, str) else rows[:, [place[part] for part in y]]
    return getattr(iso, call.name)(**numbers, **call.options).fit(rows, outcomes)


def rows_of_numbers() -> np.ndarray[Any, Any]:
    """The table as an array, with numbers for groups."""
    coded = table().with_columns(pl.col("g", "h", "c").cast(pl.Categorical).to_physical().cast(pl.Float64))
    return coded.cast(pl.Float64).to_numpy()


def plain() -> list[Public]:
    """Public calls without a table."""
    stored = iso.flag(table(), metric="tpr", outcome="y", prediction="p", groups="g").to_json()
    return [
        Public("rows_needed", iso.rows_needed, {}, {"disparity": 0.05, "rate": 0.4}),
        Public("detectable_disparity", iso.detectable_disparity, {}, {"n": 400, "reference_n": 900, "rate": 0.4}),
        Public("power_of", iso.power_of, {}, {"disparity": 0.05, "standard_error": 0.02}),
        Public(
            "bias_sample_size", iso.bias_sample_size, {}, {"bias": 0.1, "experiment": iso.planned(0.2, 1.1, groups=3)}
        ),
        Public("Labels", iso.Labels, {}, {"columns": {"g": "origin"}, "values": {"g": {"a": "A"}}}),
        Public("Metric", iso.Metric, {}, {"name": "m", "value": iso.col("v")}),
        Public("correction_risk", iso.correction_risk, {}, {"ratios": [0.5, 1.0]}),
        Public("split_users", iso.split_users, {}, {"user": [1, 2, 2, 3], "rng": 0}),
        Public("cut", iso.cut, {}, {"column": "x", "edges": [0, 1]}),
        Public("where", iso.where, {}, {"name": "young", "condition": iso.col("x") < 1}),
        Public("disparity_scorer", iso.disparity_scorer, {}, {"metric": "tpr", "groups": ["g"]}),
        Public("from_json", iso.from_json, {}, {"text": stored}),
        Public("Audit", validated, {}, {"config": AUDIT}),
        Public("command line", validated, {}, {}),  # see `commands`
        Public("init", validated, {}, {}),
        Public("open_source", iso.open_source, {}, {"data": table(), "weight": "w"}),
        Public("simulate.decisions", iso.simulate.decisions, {}, {"rows": 50}),
        Public("simulate.lender", iso.simulate.lender, {}, {"rows": 50}),
        Public("simulate.uplift", iso.simulate.uplift, {}, {"rows": 50}),
    ]


def stored() -> list[str]:
    """Stored results of every kind."""
    answers = [call.function(table(), **call.columns, **call.options) for call in public()[::2]]
    return [answer.to_json() for answer in answers if isinstance(answer, iso.Evidence)]


# An audit file with most of its keys.
AUDIT: dict[str, Any] = {
    "title": "Audit", "seed": 1, "fail_on": ["violation"], "suppress_below": 5, "output": "report",
    "data": {"missing": "drop", "missing_group": "level"},
    "columns": {"outcome": "y", "prediction": "p", "score": "s", "groups": ["g", {"column": "x", "edges": [0, 1]}]},
    "filters": [{"column": "x", "op": ">", "value": -9}],
    "labels": {"columns": {"g": "origin"}, "values": {"g": {"a": "A"}}, "metrics": {"tpr": "hits"}},
    "tests": [
        {"kind": "flag", "metric": "tpr", "alpha": 0.05, "reference": {"g": "a"}, "depth": 2},
        {"kind": "certify", "metric": {"name": "m", "value": "s", "where": [{"column": "x", "op": "<", "value": 1}]}},
        {"kind": "project", "prediction": "q", "score": "s", "threshold": 0.5, "groups": ["g"]},
        {"kind": "improvability", "status_quo": "p", "candidate": "q", "groups": "g"},
        {"kind": "treatment_bias", "effect": "e", "treatment": "t", "outcome": "v", "measure": "difference"},
        {"kind": "predictive_parity", "user": "u", "method": {"curves": {"resamples": 100}}},
        {"kind": "equalize_thresholds", "groups": "g", "threshold": 0.5, "target": "tpr"},
        {"kind": "adverse_impact", "groups": ["g"], "threshold": 0.8},
        {"kind": "discover", "metric": "selection_rate", "features": ["g", "x"], "search": {"search": {"depth": 2}}},
    ],
}  # fmt: skip


def validated(config: Any) -> list[str]:
    """Validate an audit of `table` with this file."""
    return iso.Audit.from_dict(config, data=table()).validate()


def opened(path: str) -> list[str]:
    """Validate an audit of the rows at a path."""
    return iso.Audit.from_dict({**AUDIT, "data": {"path": path}}).validate()


def internal_names() -> list[str]:
    """The names of the package's internal columns, found in its source."""
    files = [*SOURCE.glob("frames/*.py"), *SOURCE.glob("*/tally*.py"), *SOURCE.glob("*/mitigate.py")]
    names: set[str] = set()
    for file in files:
        tree = ast.parse(file.read_text())
        inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
                names.add(node.value)
            elif isinstance(node, ast.JoinedStr):
                texts = [str(part.value) if isinstance(part, ast.Constant) else None for part in node.values]
                for filler in ("0", "1", "g", "y", "outcome", "prediction"):
                    names.add("".join(filler if text is None else text for text in texts))
    kinds = ("role", "key", "number", "value", "missing", "outside", "design", "group")
    names |= {f"{kind} {name}" for kind in kinds for name in ("outcome", "prediction", "score", "g", "value", "mass")}
    return sorted(name for name in names if re.fullmatch(r"[A-Za-z_][A-Za-z_ 0-9]{0,19}", name))


def numbers(answer: object) -> list[float]:
    """Every number of an answer in order, without its record of the call."""
    return [float(number) for number in _numbers(answer)]


def _numbers(answer: Any) -> Iterator[float]:
    if isinstance(answer, nw.Expr) or answer is None or isinstance(answer, (str, Enum)):
        return
    if isinstance(answer, (bool, int, float, np.number, np.bool_)):
        yield float(answer)
    elif isinstance(answer, np.ndarray):
        if answer.dtype.kind in "fiub":
            yield from answer.astype(float).ravel().tolist()
    elif isinstance(answer, Mapping):
        for value in answer.values():
            yield from _numbers(value)
    elif isinstance(answer, (list, tuple)):
        for value in answer:
            yield from _numbers(value)
    elif isinstance(answer, iso.Group):
        return
    elif is_dataclass(answer):
        for field in fields(answer):
            # The record and the notes count rows left out, which the plain table does not have.
            if field.name not in ("provenance", "dropped", "notes") and field.repr and "rows" not in field.metadata:
                yield from _numbers(getattr(answer, field.name))
