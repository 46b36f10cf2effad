"""Flag and certify: every metric, reference, scale, adjustment and design."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import isonomy as iso
from recorded import tables
from recorded.recording import REFUSES, Calls, Late

TABLE, GAPS, FEW = tables.decisions(), tables.gaps(), tables.few()
SMALL = TABLE.head(300)  # for what takes long
ROLES: dict[str, Any] = {"outcome": "outcome", "prediction": "prediction"}
AMOUNTS: dict[str, Any] = {"outcome": "amount", "prediction": "predicted_amount"}
RACE: dict[str, Any] = {"groups": "race"}
WHITE = {"race": "White"}
YOUNG_MEN = iso.where("young men", (iso.col("age") < 30) & (iso.col("sex") == "Male"))
MEDIAN = iso.Metric("median amount", value=iso.col("amount"), quantile=0.5)
LARGE = iso.Metric("large amounts", value=iso.col("amount") > 150, binary=True)
AMOUNT = iso.Metric("amount of the approved", value=iso.col("amount"), where=iso.col("prediction") == 1)
CONSTANT = iso.Metric("constant", value=iso.col("age") * 0 + 1)
LABELS = iso.Labels(
    columns={"race": "origin", "age": "years"},
    values={"sex": {"Female": "women", "Male": "men"}, "age": {"<30": "applicants under 30"}},
    groups={"race=Black & sex=Female": "Black women"},
    metrics={"tpr": "approval of those who repay", "selection_rate": "approval rate"},
    population="all applicants",
)
RATES = (
    *("selection_rate", "tpr", "fpr", "fnr", "tnr", "ppv", "npv", "false_discovery_rate", "false_omission_rate"),
    *("accuracy", "error_rate", "recall", "precision", "equalized_odds"),
)
FUNCTIONALS = ("balanced_accuracy", "f1")
MEANS = ("mean_prediction", "mean_error", "mae", "mse")
ADJUSTMENTS = ("bh", "by", "holm", "bonferroni", "none", "bh-tree", "bh-siblings", "max-t")

_calls = Calls()
CALLS = _calls.calls


def flag(name: str, data: Any = TABLE, then: Any = None, **options: Any) -> None:
    given: dict[str, Any] = {"metric": "tpr", "rng": 1} | (ROLES if "outcome" not in options else {}) | RACE | options
    _calls.add("flag", name, data, then=then, **given)


def certify(name: str, data: Any = TABLE, then: Any = None, **options: Any) -> None:
    method = iso.likelihood(resamples=200)
    given: dict[str, Any] = {"metric": "tpr", "rng": 1, "method": method} | (ROLES if "outcome" not in options else {})
    _calls.add("certify", name, data, then=then, **(given | RACE | options))


def refuse(name: str, data: Any = TABLE, **options: Any) -> None:
    flag(f"{REFUSES[1:]}{name}", data, **options)


# Estimates drawn together.
CROSSED: dict[str, Any] = {"groups": ["race", "sex", iso.cut("age", [30, 45])], "depth": 3, "metric": "selection_rate"}


def drawn_together(result: Any, **options: Any) -> Any:
    shrunk = result.shrunk(**options)
    return [shrunk.to_frame("polars"), shrunk.summary(), list(shrunk.beyond_parts)]


flag("shrunk/main effects", then=drawn_together, **CROSSED)
flag("shrunk/mean", then=partial(drawn_together, toward="mean", of=("race", "age"), alpha=0.1), **CROSSED)
flag("shrunk/clusters", then=drawn_together, **CROSSED, cluster="household")
refuse("shrunk/overlap", then=drawn_together, **CROSSED | {"depth": 2})

# Tables of another form, and models compared.
flag("then/wide", then=lambda r: [r.wide(), r.wide("disparity", "polars")], metric=["tpr", "ppv"])
flag("several/many", metric=["tpr", "fpr", "ppv"], groups=["race", "sex", iso.cut("age", [30, 45])], tolerance=0.05)


def models(name: str, data: Any = TABLE, **options: Any) -> None:
    two = {"now": "prediction", "inverse": 1 - iso.col("prediction")}
    given: dict[str, Any] = {"metric": ["tpr", "ppv"], "outcome": "outcome", "models": two} | RACE | options
    _calls.add("compare_models", name, data, then=lambda r: [r.to_frame("polars"), r.summary(), repr(r)], **given)


models("plain", reference="population")
models("reference/rest", reference="rest", depth=2, groups=["race", "sex"])
models("reference/group", reference=WHITE, alpha=0.1, min_size=50)
models("weight/cluster", weight="weight", cluster="household")
models("count", count="count")
models("missing/drop", GAPS, missing="drop", missing_group="level", cluster="household")
models("functional", metric=["f1", "balanced_accuracy"])
models("scores", models={"a": "score", "b": 1 - iso.col("score")}, metric=["auc", "brier"])
models("three", models={"a": "prediction", "b": "outcome", "c": 1 - iso.col("outcome")}, metric="selection_rate")
models(f"{REFUSES[1:]}roles", metric=["tpr", "auc"])

# Metrics.
for _metric in RATES:
    flag(f"metric/{_metric}", metric=_metric)
for _metric in FUNCTIONALS:
    flag(f"metric/{_metric}", SMALL, metric=_metric, groups="sex")
for _metric in MEANS:
    flag(f"metric/{_metric}", metric=_metric, **AMOUNTS)
for _metric in ("rmse", "r2"):
    flag(f"metric/{_metric}", SMALL, metric=_metric, groups="sex", **AMOUNTS)
for _metric in ("brier", "log_loss"):
    flag(f"metric/{_metric}", metric=_metric, score="score")
flag("metric/auc", SMALL, metric="auc", score="score", groups="sex")
flag("metric/quantile", SMALL, metric=MEDIAN, groups="sex")
flag("metric/own-rate", metric=LARGE)
flag("metric/own-mean-where", metric=AMOUNT)
flag("metric/several", draw=True, metric=["tpr", "fpr", "accuracy"])
flag("metric/several-kinds", metric=["accuracy", AMOUNT])
flag("metric/constant", metric=CONSTANT)

# References.
flag("reference/rest", reference="rest")
flag("reference/group", reference=WHITE)
flag("reference/group-object", reference=iso.Group.from_mapping(WHITE), metric="selection_rate")
flag("reference/highest", reference="highest", metric="selection_rate")
flag("reference/lowest", reference="lowest", metric="fpr")
flag("reference/number", reference=0.7)
flag("reference/plugin", method="published")
flag("reference/plugin-group", method="published", reference=WHITE, metric="mae", **AMOUNTS)
flag("reference/plugin-number", method="published", reference=0.7)
flag(
    "reference/estimate",
    metric=iso.Metric("repayment", value=iso.col("outcome"), binary=True),
    reference=iso.Estimate(float(TABLE["outcome"].mean()), "influence"),  # type: ignore[arg-type]
)
flag("reference/condition", groups=[YOUNG_MEN], reference={"young men": False})
flag("reference/mean-rest", metric="mae", reference="rest", **AMOUNTS)

# Scales.
for _scale in ("difference", "ratio", "odds_ratio"):
    flag(f"scale/{_scale}", scale=_scale, metric="selection_rate", reference=WHITE, draw=True)
    flag(f"scale/{_scale}/population", scale=_scale, metric="ppv")
flag("scale/ratio/mean", scale="ratio", metric="mae", reference="rest", **AMOUNTS)
flag("scale/ratio/tolerance", scale="ratio", metric="selection_rate", tolerance=0.8, reference=WHITE)
flag("scale/odds-ratio/tolerance", scale="odds_ratio", metric="selection_rate", tolerance=0.6)
flag("scale/standardized", SMALL, draw=True, groups="sex", scale="standardized", metric="mean_prediction", **AMOUNTS)
flag(
    "scale/standardized/population", SMALL, groups="region", scale=iso.standardized("population"), metric="mae",
    **AMOUNTS,
)  # fmt: skip
flag(
    "scale/standardized/pooled", SMALL, groups="sex", scale=iso.standardized("pooled"), reference="rest",
    metric="mae", **AMOUNTS,
)  # fmt: skip
flag(
    "scale/standardized/reference", SMALL, groups="sex", scale=iso.standardized("reference"),
    reference={"sex": "Male"}, metric="mae", **AMOUNTS,
)  # fmt: skip
flag(
    "scale/standardized/weights", SMALL, groups="sex", scale="standardized", metric="mae", weight="weight",
    tolerance=0.3, **AMOUNTS,
)  # fmt: skip

# Nulls, alternatives, tolerances, intervals.
flag("null/number", null=0.05)
flag("null/ratio", null=0.9, scale="ratio")
flag("alternative/two-sided", null=iso.null(side="two-sided"), reference=WHITE)
flag("alternative/greater", null=iso.null(side="greater"))
flag("alternative/less", null=iso.null(side="less"), reference="rest")
flag("alternative/outside", null=iso.null(-0.05, 0.05))
flag("alternative/outside-pair", null=(-0.05, 0.05))
flag("alternative/outside-published", method="published", null=(-0.05, 0.05))
flag("alternative/outside-published/number", method="published", null=(-0.05, 0.05), reference=0.7)
flag("alternative/less/tolerance", null=iso.null(side="less"), tolerance=0.1)
flag(
    "alternative/greater/tolerance", null=iso.null(side="greater"), tolerance=0.1,
    method=iso.likelihood(interval="simultaneous"),
)  # fmt: skip
flag("alternative/outside-published/tolerance", method="published", tolerance=0.05)
flag("tolerance", tolerance=0.02)
flag("tolerance/wide", tolerance=0.3)
flag("tolerance/mean", metric="mae", tolerance=5.0, **AMOUNTS)
flag("interval/pointwise", method=iso.likelihood(interval="pointwise"))
flag("interval/simultaneous", method=iso.likelihood(interval="simultaneous"))
BOUND = iso.likelihood(interval="one-sided")
flag("interval/one-sided/greater", method=BOUND, null=iso.null(side="greater"))
flag("interval/one-sided/less", method=BOUND, null=iso.null(side="less"), reference=WHITE)
flag("alpha", alpha=0.2, missing="raise", missing_group="raise")
for _adjust in ADJUSTMENTS:
    flag(f"adjust/{_adjust}", adjust=_adjust, groups=["race", "sex"], depth=2, metric="selection_rate")
flag("adjust/max-t/several", adjust="max-t", metric=["tpr", "fpr"])
flag("better/higher", better="higher", metric="error_rate")
flag("better/lower", better="lower", metric="selection_rate")

# Groups.
flag("groups/several", groups=["race", "sex", "region"])
flag("groups/depth-2", draw=True, groups=["race", "sex"], depth=2)
flag("groups/depth-2/rest", groups=["race", "sex"], depth=2, reference="rest", metric="ppv")
flag("groups/depth-3", groups=["race", "sex", "region"], depth=3, min_size=40, metric="selection_rate")
flag("groups/cut", groups=iso.cut("age", [30, 50]))
flag("groups/where", groups=YOUNG_MEN, metric="accuracy")
flag("groups/mixed", groups=["sex", iso.cut("age", [40]), YOUNG_MEN], depth=2)
flag("groups/numbers", groups="count")
flag("min_size", min_size=100)
flag("few", FEW, metric="selection_rate", groups="group", prediction="selected", outcome=None)
flag("few/tolerance", FEW, metric="selection_rate", groups="group", prediction="selected", outcome=None, tolerance=0.3)
flag(
    "few/ratio", FEW, metric="selection_rate", groups="group", prediction="selected", outcome=None, scale="ratio",
    reference={"group": "a"},
)  # fmt: skip
flag("few/mean", FEW, metric=iso.Metric("value", iso.col("value")), groups="group", outcome=None, prediction=None)
flag("few/min_size", FEW, metric="accuracy", groups="group", prediction="selected", min_size=1)

# Likelihoods and corrections.
flag("method/el", method="el", metric="mae", **AMOUNTS)
flag("method/eel", method="eel")
flag("method/eel/mean", method="eel", metric="mae", reference="rest", **AMOUNTS)
flag("method/eel/number", method="eel", reference=0.7)
BARTLETT = iso.likelihood(correction="bartlett")
ADJUSTED = iso.likelihood(correction="adjusted")
flag("method/eel/published", method=iso.likelihood("eel", published=True))
flag("correction/none", method=iso.likelihood(correction=None))
flag("correction/auto", method=iso.likelihood("el", correction="auto"), metric="selection_rate")
flag("correction/bartlett", method=iso.likelihood(correction="bartlett", resamples=200))
flag("correction/bartlett/mean", method=iso.likelihood("el", "bartlett", 150), metric="mae", **AMOUNTS)
flag("correction/bartlett/number", method=BARTLETT, reference=0.7)
flag("correction/adjusted", method=iso.likelihood(correction="adjusted", published=True))
flag("correction/adjusted/number", method=ADJUSTED, reference=60.0, metric="mae", **AMOUNTS)

# Strata.
for _scale in ("difference", "ratio", "odds_ratio"):
    flag(f"given/{_scale}", given="region", scale=_scale, metric="selection_rate")
flag("given/group", given=["region", "sex"], reference=WHITE)
flag("given/tolerance", given="region", tolerance=0.2, metric="selection_rate")
flag("given/cut", given=iso.cut("age", [30, 50]), metric="ppv", reference="rest")
flag("given/where", given=YOUNG_MEN, metric="accuracy")
flag("given/mean", given="region", metric="mae", **AMOUNTS)
flag("given/weights", given="region", metric="selection_rate", weight="weight")
flag("given/clusters", given="region", metric="selection_rate", cluster="household")
flag("given/less", given="region", metric="selection_rate", null=iso.null(-0.05, side="less"), reference="rest")

# Designs and missing values.
flag("count", count="count")
flag("count/aggregated", tables.counted(), count="rows", groups=["race", "sex"], depth=2)
flag("weight", weight="weight")
flag("weight/mean", weight="weight", metric="mae", **AMOUNTS)
flag("weight/auc", SMALL, groups="sex", weight="weight", metric="auc", score="score")
flag("weight/tolerance/ratio", weight="weight", scale="ratio", tolerance=0.7, reference=WHITE, metric="selection_rate")
flag("cluster", cluster="household")
flag("cluster/rest", cluster="household", reference="rest", metric="selection_rate", tolerance=0.1)
flag("cluster/highest", cluster="household", reference="highest", metric="selection_rate")
flag("cluster/quantile", SMALL, groups="sex", cluster="household", metric=MEDIAN)
flag("weight/cluster", weight="weight", cluster="user", groups=["race", "sex"])
flag("missing/drop", GAPS, missing="drop", missing_group="drop")
flag("missing/level", GAPS, missing="drop", missing_group="level")

# Roles: labels, conditions and arrays.
flag("positive", outcome="repaid", prediction="approved", positive="yes")
flag("positive/number", positive=0, metric="recall")
flag("role/condition", outcome=iso.col("repaid") == "yes", prediction=iso.col("score") > 0.6)
_calls.add(
    "flag", "role/arrays", metric="tpr", outcome=TABLE["outcome"].to_numpy(), prediction=TABLE["prediction"].to_list(),
    groups=TABLE["race"].to_numpy(), rng=0,
)  # fmt: skip
flag("labels", Late(lambda: iso.open_source(TABLE, labels=LABELS)), groups=["race", "sex"], depth=2)
flag("labels/cut", Late(lambda: iso.open_source(TABLE, labels=LABELS)), groups=iso.cut("age", [30]), reference="rest")
flag("labels/metric", Late(lambda: iso.open_source(TABLE, labels=LABELS)), metric="selection_rate", tolerance=0.1)
flag("rng/generator", rng=Late(lambda: np.random.default_rng(3)), method=iso.likelihood("el", "bartlett", 100))
for _engine in tables.ENGINES:
    flag(f"engine/{_engine}", Late(partial(tables.in_engine, _engine, TABLE)), groups=["race", "sex"])
    flag(
        f"engine/{_engine}/mean", Late(partial(tables.in_engine, _engine, TABLE)), metric="mae",
        cluster="household", **AMOUNTS,
    )  # fmt: skip

# What a result can be asked further.
flag("then/widest", then=lambda result: result.widest())
flag("then/widest/depth", groups=["race", "sex"], then=lambda result: result.widest())
flag("then/flagged", then=lambda result: result.flagged, metric="selection_rate")
flag("then/detectable", then=lambda result: result.detectable(0.9))
flag("then/rows_for_tolerance", tolerance=0.1, then=lambda result: result.rows_for_tolerance(0.9))
flag("then/pandas", then=lambda result: result.to_frame("pandas"))
flag("then/pyarrow", then=lambda result: result.to_frame("pyarrow").num_columns)
flag("then/published", FEW, metric="selection_rate", groups="group", prediction="selected", outcome=None,
     then=lambda result: result.published(35))  # fmt: skip
flag("then/repr", then=repr)

# Certify.
for _metric in ("selection_rate", "tpr", "ppv", "accuracy", "equalized_odds"):
    certify(f"metric/{_metric}", metric=_metric)
certify("metric/mae", metric="mae", **AMOUNTS)
certify("metric/auc", SMALL, groups="sex", metric="auc", score="score")
certify("metric/f1", SMALL, groups="sex", metric="f1")
certify("metric/several", metric=["tpr", "mean_prediction"])
certify("metric/quantile", SMALL, groups="sex", metric=MEDIAN)
certify("positive", outcome="repaid", prediction="approved", positive="yes")
certify("reference/rest", reference="rest")
certify("reference/group", reference=WHITE)
certify("reference/highest", reference="highest", metric="selection_rate")
certify("reference/lowest", reference="lowest", metric="selection_rate")
certify("reference/number", reference=0.7)
certify("reference/plugin", method="published")
certify("reference/plugin/bartlett", method=iso.likelihood(correction="bartlett", resamples=200, published=True))
for _scale in ("difference", "ratio", "odds_ratio"):
    certify(f"scale/{_scale}", scale=_scale, metric="selection_rate")
certify("scale/standardized", SMALL, groups="sex", scale="standardized", metric="mae", **AMOUNTS)
certify(
    "scale/standardized/pooled", SMALL, groups="sex", scale=iso.standardized("pooled"), metric="mae",
    reference="rest", **AMOUNTS,
)  # fmt: skip
certify(
    "scale/standardized/reference", SMALL, groups="sex", scale=iso.standardized("reference"), metric="mae",
    reference={"sex": "Male"}, **AMOUNTS,
)  # fmt: skip
certify("null/number", null=0.0)
certify("null/list", null=[0.0, 0.02, -0.02], reference=WHITE)
certify("null/mapping", null={"race=Asian": 0.0, "race=Black": -0.1, "race=Other": 0.0}, reference=WHITE)
certify("tolerance", tolerance=0.2)
certify("tolerance/ratio", draw=True, tolerance=0.5, scale="ratio", metric="selection_rate")
certify("alpha", alpha=0.2, missing="raise", missing_group="raise")
certify("groups/depth-2", groups=["race", "sex"], depth=2, metric="selection_rate")
certify("groups/overlapping", draw=True, groups=["sex", iso.cut("age", [40]), YOUNG_MEN], metric="selection_rate")
certify("min_size", min_size=100)
certify("method/el", method=iso.likelihood("el", resamples=200))
certify("method/el/plain", method="el")
certify("method/eel", method="eel")
certify("method/eel/mean", method="eel", metric="mae", **AMOUNTS)
certify("correction/none", method=iso.likelihood(correction=None))
certify("correction/auto", metric="mae", **AMOUNTS)
certify("correction/bartlett", method=iso.likelihood(correction="bartlett", resamples=100))
certify("given", given="region", metric="selection_rate")
certify("given/group", given=["region"], reference=WHITE, metric="mae", **AMOUNTS)
certify("count", count="count")
certify("weight", weight="weight")
certify("cluster", cluster="household", metric="mae", **AMOUNTS)
certify("cluster/several", cluster="household", metric=["tpr", "fpr"])
certify("missing/drop", GAPS, missing="drop", missing_group="drop")
certify("missing/level", GAPS, missing="drop", missing_group="level", metric="brier", score="score")
certify("labels", Late(lambda: iso.open_source(TABLE, labels=LABELS)))
certify("few", FEW, metric="selection_rate", groups="group", prediction="selected", outcome=None)
certify("engine/duckdb", Late(lambda: tables.in_engine("duckdb", TABLE)), groups=["race", "sex"])
certify("then/contains", then=lambda result: [result.contains(d) for d in (0.0, [0.1, -0.2, 0.1, 0.1], 0.5)])
certify("then/contains/mean", metric="mae", then=lambda result: result.contains(0.5), **AMOUNTS)
certify("then/widest", then=lambda result: result.widest())
certify("then/detectable", then=lambda result: result.detectable())

# Refusals.
refuse("column-near", prediction="predicton")
refuse("groups-near", groups="Race")
refuse("groups-none", groups=[])
refuse("groups-twice", groups=["race", "race"])
refuse("groups-mapping", groups={"race": 1})
refuse("metric-near", metric="trp")
flag("metric/synonym", metric="demographic_parity", draw=False)
refuse("metric-other-name", metric="Demographic parity")
refuse("metric-median", metric="median")
refuse("metric-twice", metric=["tpr", "equalized_odds"])
refuse("metric-number", metric=3)
refuse("outcome-none", outcome=None)
refuse("outcome-not-binary", outcome="amount")
refuse("prediction-text", prediction="approved")
refuse("option-unknown", scale="log")
refuse("option-number", alpha=1.5)
refuse("option-boolean", alpha=True)
refuse("option-whole", depth=0)
refuse("keyword-unknown", tolerence=0.1)
for _old in ("sigma", "alternative", "uncertainty", "correction", "resamples", "interval"):
    refuse(f"moved-{_old}", **{_old: "joint"})
refuse("standardized-spelling", scale="standardised")
refuse("standardized-binary", scale="standardized")
refuse("standardized-pooled", scale=iso.standardized("pooled"), metric="mae", **AMOUNTS)
refuse("odds-ratio-mean", scale="odds_ratio", metric="mae", **AMOUNTS)
refuse("ratio-tolerance", scale="ratio", tolerance=1.2)
refuse("tolerance-percent", tolerance=5)
refuse("null-with-tolerance", null=0.1, tolerance=0.1)
refuse("null-interval", null=(0.1, -0.1))
refuse("null-ratio-negative", null=-1.0, scale="ratio")
refuse("one-sided-interval", method=BOUND)
refuse("one-sided-tolerance", method=BOUND, null=iso.null(side="less"), tolerance=0.1)
refuse("max-t-highest", adjust="max-t", reference="highest")
refuse("highest-greater", reference="highest", null=iso.null(side="greater"))
refuse("highest-plugin", reference="highest", method="published")
refuse("reference-unknown", reference="majority")
refuse("reference-rate", reference=1.5)
refuse("reference-level", reference={"race": "Martian"})
flag("reference/other-column", reference={"region": "north"})
refuse("reference-column", reference={"religion": "north"})
refuse("reference-empty", reference={})
refuse("reference-number-several", reference=0.5, metric=["tpr", "fpr"])
refuse("estimate-functional", metric="auc", score="score", reference=iso.Estimate(0.5, "influence"))
refuse("correction-weights", method=BARTLETT, weight="weight")
refuse("correction-adjusted-joint", method=ADJUSTED)
refuse("given-groups", given="race")
refuse("given-number", given="region", reference=0.5)
refuse("given-plugin", given="region", method="published")
refuse("given-functional", given="region", metric="f1")
refuse("given-several", given="region", metric=["tpr", "fpr"])
refuse("missing-values", GAPS, groups="sex")
refuse("missing-groups", GAPS, missing="drop")
refuse("positive-absent", positive="maybe", outcome="repaid", prediction="approved")
refuse("positive-mean", positive="yes", metric="mae", **AMOUNTS)
refuse("count-fractions", count="weight")
refuse("weight-unknown", weight="wieght")
refuse("score-range", metric="brier", score="amount")
refuse("no-data", None)
refuse("empty", TABLE.head(0))
refuse("lengths", {"race": ["a", "b"], "outcome": [1], "prediction": [0, 1]})
certify("refuses/null-highest", reference="highest", null=0.1)
certify("refuses/null-standardized", scale="standardized", null=0.1, metric="mae", **AMOUNTS)
certify("refuses/null-mapping", null={"race=Martian": 0.1}, reference=WHITE)
certify("refuses/null-length", null=[0.1, 0.2])
certify("refuses/eel-given", given="region", method="eel")
certify("refuses/several-null", metric=["tpr", "fpr"], null=0.1)
certify("refuses/alternative", alternative="less")
certify("refuses/interval", method=BOUND)
certify("refuses/adjusted", method=ADJUSTED)
_calls.keep("null/refuses/outside-number", lambda: iso.null(side="outside"))
_calls.keep("null/refuses/order", lambda: iso.null(0.1, -0.1))
_calls.keep("null/refuses/one-sided-interval", lambda: iso.null(0.0, 0.1, side="greater"))
_calls.keep("likelihood/refuses/eel", lambda: iso.likelihood("eel", correction="bartlett"))
_calls.keep("likelihood/refuses/few-resamples", lambda: iso.likelihood(correction="bartlett", resamples=10))
_calls.keep("standardized/refuses/sigma", lambda: iso.standardized("group"))  # type: ignore[arg-type]
_calls.keep("cut/refuses/decreasing", lambda: iso.cut("age", [50, 30]))
_calls.keep("where/refuses/text", lambda: iso.where("young", "age < 30"))  # type: ignore[arg-type]
_calls.keep("Metric/refuses/quantile", lambda: iso.Metric("m", iso.col("amount"), quantile=2.0))
_calls.keep("Labels/refuses/values", lambda: iso.Labels(columns="origin"))  # type: ignore[arg-type]
_calls.keep("from_json/refuses/text", lambda: iso.from_json("{}"))
_calls.add("cut", "labels", "age", [25, 45.5], then=lambda made: made.labels)
_calls.add("cut", "keywords", column="age", edges=[25], then=str)
_calls.add("where", "name", "young", iso.col("age") < 30, then=lambda made: made.name)
_calls.add("where", "keywords", name="young", condition=iso.col("age") < 30, then=lambda made: made.name)
_calls.add("from_json", "flag", text=Late(lambda: iso.flag(TABLE, metric="tpr", **ROLES, groups="race").to_json()))
_calls.add(
    "open_source", "options", data=TABLE, count=None, weight="weight", cluster="household", missing="drop",
    missing_group="level", labels=LABELS, then=lambda source: iso.flag(source, metric="tpr", groups="sex", **ROLES),
)  # fmt: skip
_calls.add(
    "open_source", "count", TABLE, count="count", missing="raise", missing_group="drop",
    then=lambda source: iso.certify(source, metric="tpr", groups="sex", rng=0, **ROLES),
)  # fmt: skip
_calls.add(
    "open_source", "missing-group/raise", TABLE, missing_group="raise",
    then=lambda source: iso.flag(source, metric="tpr", groups="sex", **ROLES).verdict,
)  # fmt: skip


class _Model:
    """A fitted model whose probabilities are one of its columns."""

    def predict(self, X: Any) -> Any:
        return (X["score"].to_numpy() >= 0.5).astype(int)

    def predict_proba(self, X: Any) -> Any:
        score = X["score"].to_numpy()
        return np.column_stack([1 - score, score])


def scored(scorer: Any) -> float:
    return float(scorer(_Model(), TABLE, TABLE["outcome"].to_numpy()))


_calls.add("disparity_scorer", "tpr", metric="tpr", groups=["race", "sex"], then=scored)
_calls.add("disparity_scorer", "options", "brier", groups=["race", "sex"], depth=2, min_size=30, then=scored)
_calls.add("disparity_scorer", "several", ["tpr", "selection_rate"], groups="race", then=scored)

# Comparable people.
ALIKE: dict[str, Any] = {"metric": "selection_rate", "reference": WHITE, "given": iso.comparable("age", "sex")}
flag("comparable", **ALIKE)
for _scale in ("ratio", "odds_ratio"):
    flag(f"comparable/{_scale}", **ALIKE, scale=_scale)
flag("comparable/logistic", **(ALIKE | {"given": iso.comparable("age", "sex", model="logistic")}))
flag("comparable/strata", **(ALIKE | {"given": iso.comparable(iso.cut("age", [40]), "sex", model="strata")}))
flag("comparable/rest", **(ALIKE | {"reference": "rest"}))
flag("comparable/mean", **(ALIKE | {"metric": AMOUNT}))
refuse("comparable-best", **(ALIKE | {"reference": "highest"}))
refuse("comparable-collinear", **(ALIKE | {"given": iso.comparable("age", iso.where("young", iso.col("age") < 0))}))
