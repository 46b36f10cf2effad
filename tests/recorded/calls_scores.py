"""Scores: parity, composites, outcomes at a threshold, equal thresholds, calibration, and the estimators of these."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import isonomy as iso
from recorded import tables
from recorded.recording import Calls, Late, fitted

TABLE = tables.scores()
SMALL = TABLE.head(400)
GAPS = tables.without(tables.without(TABLE, "s"), "group", 30)
KNOWN = TABLE.with_columns(y=TABLE["y"].cast(float).set(TABLE["s"] < 0.5, None))
ROLES: dict[str, Any] = {"outcome": "y", "score": "s", "groups": "group"}
LABELS = iso.Labels(columns={"group": "country"}, values={"group": {"b": "Belgium"}}, metrics={"tpr": "hit rate"})
KERNELS = ("gaussian", "gaussian4", "gaussian6")
PAIRS = ("holm", "bonferroni", "bh", "by", "none")

_calls = Calls()
CALLS = _calls.calls


def curved(options: dict[str, Any]) -> dict[str, Any]:
    """The options of a call, with those of curves in their place."""
    names = ("level", "grid", "bandwidth", "kernel", "order", "resamples")
    inner = {name: options.pop(name) for name in names if name in options}
    if not inner:
        return options
    return options | {"method": Late(partial(iso.curves, options.get("method"), **inner))}


def parity(name: str, data: Any = TABLE, then: Any = None, **options: Any) -> None:
    _calls.add("predictive_parity", name, data, then=then, **curved(ROLES | {"resamples": 200, "rng": 1} | options))


def composite(name: str, data: Any = SMALL, then: Any = None, **options: Any) -> None:
    both: dict[str, Any] = {"outcomes": ["y", "z"], "scores": ["s", "r"], "groups": "sex", "resamples": 100, "rng": 1}
    _calls.add("composite_parity", name, data, then=then, **curved(both | options))


def marginal(name: str, data: Any = TABLE, then: Any = None, **options: Any) -> None:
    _calls.add("marginal_outcomes", name, data, then=then, **curved(ROLES | {"threshold": 0.4} | options))


def thresholds(name: str, data: Any = TABLE, then: Any = None, **options: Any) -> None:
    given: dict[str, Any] = ROLES | {"threshold": 0.4, "resamples": 100, "rng": 1} | options
    _calls.add("equalize_thresholds", name, data, then=then, **curved(given))


def metrics(name: str, data: Any = TABLE, then: Any = None, **options: Any) -> None:
    _calls.add("calibration_metrics", name, data, then=then, **curved(ROLES | options))


# Parity.
for _method in ("omnibus", "orthogonal", "cumulative", "trend", "residual", "published"):
    parity(f"method/{_method}", method=_method)
for _kernel in KERNELS:
    parity(f"kernel/{_kernel}", kernel=_kernel, grid=[0.2, 0.4, 0.6])
for _adjust in ("sup-t", "bonferroni", "holm", "none"):
    parity(f"adjust/{_adjust}", adjust=_adjust, method="orthogonal", grid=[0.2, 0.4, 0.6])
parity("user", user="user")
parity("level/user", user="user", level="user", grid=[0.3, 0.5])
parity("level/aggregate", user="user", level="aggregate", grid=[0.3, 0.5])
parity("grid", grid=[0.1, 0.3, 0.5, 0.7])
parity("grid/number", grid=0.5)
parity("bandwidth", bandwidth=0.1, grid=[0.3, 0.5])
parity("bandwidth/list", bandwidth=[0.1, 0.2], grid=[0.3, 0.5])
parity("bandwidth/cross-validation", bandwidth="cross-validation", grid=[0.3, 0.5])
parity("reference", reference={"group": "a"})
parity("tolerance", tolerance=0.1, grid=[0.3, 0.5])
parity("tolerance/wide", tolerance=0.6)
parity("order_tolerance", tolerance=0.2, order=0.4, grid=[0.3, 0.5])
parity("order/false", order=False, grid=[0.3, 0.5])
parity("order/true", order=True, tolerance=0.2, grid=[0.3, 0.5])
parity("alpha", alpha=0.2, grid=[0.3, 0.5], missing="raise", missing_group="raise")
parity("depth-2", groups=["group", "sex"], depth=2, grid=[0.3, 0.5])
parity("cut", groups=iso.cut("age", [40]), grid=[0.3, 0.5])
parity("where", groups=iso.where("young", iso.col("age") < 30), grid=[0.3, 0.5])
parity("points", score="points")
parity("amount", outcome="amount", grid=[0.3, 0.5])
parity("count", count="count", grid=[0.3, 0.5])
parity("weight", weight="weight", grid=[0.3, 0.5])
parity("weight/user", weight="weight", user="user", grid=[0.3, 0.5])
parity("cluster", cluster="branch", grid=[0.3, 0.5])
parity("missing/drop", GAPS, missing="drop", missing_group="drop", grid=[0.3, 0.5])
parity("missing/level", GAPS, missing="drop", missing_group="level", grid=[0.3, 0.5])
parity("few", TABLE.head(150))
parity("labels", Late(lambda: iso.open_source(TABLE, labels=LABELS)), grid=[0.3, 0.5])
for _engine in tables.ENGINES:
    parity(f"engine/{_engine}", Late(partial(tables.in_engine, _engine, TABLE)), grid=[0.3, 0.5])
parity("then/parts", then=lambda r: [r.parity_pvalue, r.ordering_pvalue, r.ordering_verdict])

# Composites.
composite("plain")
composite("three", SMALL, outcomes=["y", "z", "w"], scores=["s", "r", "q"])
composite("user", user="user")
composite("level/user", user="user", level="user")
composite("level/aggregate", user="user", level="aggregate")
composite("reference", groups="group", reference={"group": "a"})
composite("alpha", alpha=0.2, missing="raise", missing_group="raise")
composite("weights", weights=[2.0, 1.0], then=lambda r: [r.better, r.joint, r.better_weights([1.0, 0.0])])
composite("tolerance", weights=[0.5, 0.5], tolerance=0.9)
composite("order/false", order=False)
composite("order/number", order=0.3, missing_group="drop")
composite("depth-2", groups=[iso.cut("age", [40]), "sex"], depth=2)
composite("count", count="count")
composite("weight", weight="weight")
composite("cluster", cluster="branch")
composite("missing/level", GAPS.head(600), groups="group", missing="drop", missing_group="level")
composite("engine/duckdb", Late(lambda: tables.in_engine("duckdb", SMALL)))
composite("then/worst", then=lambda result: [result.worst_weights, result.pvalue])

# Outcomes at a threshold.
for _method in ("local-quadratic", "local-linear", "published"):
    marginal(f"method/{_method}", method=_method)
for _kernel in KERNELS:
    marginal(f"kernel/{_kernel}", kernel=_kernel)
for _adjust in PAIRS:
    marginal(f"adjust/{_adjust}", adjust=_adjust)
marginal("known-above", KNOWN, threshold=0.5)
marginal("user", user="user")
marginal("level/user", user="user", level="user")
marginal("level/aggregate", user="user", level="aggregate")
marginal("bandwidth", bandwidth=0.15)
marginal("bandwidth/cross-validation", bandwidth="cross-validation")
marginal("reference", reference={"group": "a"})
marginal("tolerance", tolerance=0.5)
marginal("alpha", alpha=0.2, missing="raise", missing_group="raise")
marginal("depth-2", groups=["group", "sex"], depth=2)
marginal("points", score="points", threshold=500)
marginal("amount", outcome="amount")
marginal("count", count="count")
marginal("weight", weight="weight")
marginal("cluster", cluster="branch")
marginal("missing/drop", GAPS, missing="drop", missing_group="drop")
marginal("missing/level", GAPS, missing="drop", missing_group="level")
marginal("high", threshold=0.9)
marginal("threshold/groups", threshold={"a": 0.35, "b": 0.45, "c": 0.4})
marginal("engine/duckdb", Late(lambda: tables.in_engine("duckdb", TABLE)))

# Equal thresholds.
for _target in ("outcome_at_margin", "selection_rate", "tpr", "fpr", "equalized_odds", "predictive_value"):
    thresholds(f"target/{_target}", target=_target)
thresholds("no-outcome", target="selection_rate", outcome=None)
thresholds("capacity", target="tpr", capacity=0.3)
thresholds("change/shown", target="tpr", change="shown")
for _direction in ("both", "raise", "lower"):
    thresholds(f"direction/{_direction}", target="tpr", direction=_direction, change="all")
thresholds("randomize", target="equalized_odds", randomize=True, change="all")
thresholds("randomize/points", target="tpr", randomize=True, score="points", threshold=500, change="all")
thresholds("threshold/groups", target="tpr", threshold={"a": 0.35, "b": 0.45, "c": 0.4})
thresholds("threshold/groups/margin", threshold={"a": 0.35, "b": 0.45, "c": 0.4}, change="all")
thresholds("groups/two", target="tpr", groups=["group", "sex"])
thresholds("user", user="user")
thresholds("level/user", user="user", level="user")
thresholds("level/aggregate", user="user", level="aggregate")
thresholds("bandwidth", bandwidth=0.2)
thresholds("alpha", target="tpr", alpha=0.2, missing="raise", missing_group="raise")
thresholds("count", target="tpr", count="count")
thresholds("weight", target="tpr", weight="weight")
thresholds("cluster", target="fpr", cluster="branch")
thresholds("missing/drop", GAPS, target="tpr", missing="drop", missing_group="drop")
thresholds("missing/level", GAPS, target="tpr", missing="drop", missing_group="level")
thresholds("where", target="tpr", groups=iso.where("young", iso.col("age") < 30))
thresholds("labels", Late(lambda: iso.open_source(TABLE, labels=LABELS)), target="tpr")
thresholds("engine/duckdb", Late(lambda: tables.in_engine("duckdb", TABLE)), target="tpr")
thresholds("engine/pandas", Late(lambda: tables.in_engine("pandas", TABLE)))

# Metrics of calibration.
metrics("plain")
metrics("several", score=["s", "better", "r"])
metrics("named", score={"before": "s", "after": "better"})
metrics("user", user="user")
metrics("level/user", user="user", level="user")
metrics("level/aggregate", user="user", level="aggregate")
metrics("grid", grid=[0.2, 0.5, 0.8], missing="raise", missing_group="raise")
metrics("bandwidth", bandwidth=0.1)
metrics("bandwidth/list", bandwidth=[0.1, 0.2], grid=[0.3, 0.6])
metrics("points", score="points")
metrics("amount", outcome="amount")
metrics("count", count="count")
metrics("weight", weight="weight")
metrics("cluster", cluster="branch")
metrics("missing/drop", GAPS, missing="drop", missing_group="drop")
metrics("missing/level", GAPS, missing="drop", missing_group="level")
metrics("engine/duckdb", Late(lambda: tables.in_engine("duckdb", TABLE)))
metrics("then/warnings", TABLE.head(40), then=lambda made: [made.warnings, made.provenance.dropped])

metrics("then/changes", score={"before": "s", "after": "r"}, then=lambda made: made.changes())
metrics("then/changes/against", score=["s", "r"], then=lambda made: made.changes("r", alpha=0.1))


def evaluated(name: str, data: Any = TABLE, then: Any = None, **options: Any) -> None:
    _calls.add("evaluate_calibrators", name, data, then=then, **(ROLES | {"splits": 2, "rng": 1} | options))


# Calibrators compared.
evaluated("plain", then=lambda made: made.changes())
evaluated("user", user="user")
evaluated("level/aggregate", user="user", level="aggregate")
evaluated("level/user", user="user", level="user")
evaluated("method/heldout", method="heldout", calibrators=["binning"])
evaluated("calibrators", calibrators=["binning", "isotonic"])
evaluated("calibrators/named", calibrators=Late(lambda: {"few bins": iso.GroupCalibrator(bins=5)}))
evaluated("method/published", method="published", splits=3)
evaluated("amount", outcome="amount")
evaluated("weight", weight="weight")
evaluated("missing/drop", GAPS, missing="drop", missing_group="drop")
evaluated("refuses/count", count="count")
evaluated("refuses/cluster", cluster="user")
evaluated("refuses/calibrators", calibrators={"none": 3})

# Estimators.
Y, Z = TABLE["y"].to_numpy(), TABLE.select("y", "z")
ROWS = TABLE.select("s", "r", "group", "sex", "user")


def calibrator(name: str, data: Any = ROWS, y: Any = Y, new: Any = None, fit: Any = None, **options: Any) -> None:
    given: dict[str, Any] = {"score_column": "s", "groups": "group"} | options
    _calls.add("GroupCalibrator", name, then=fitted(data, y, new, **(fit or {})), **given)


def rule(name: str, data: Any = ROWS, y: Any = Y, new: Any = None, fit: Any = None, **options: Any) -> None:
    given: dict[str, Any] = {
        "score_column": "s",
        "groups": "group",
        "threshold": 0.4,
        "random_state": 1,
    } | options
    _calls.add("GroupThresholds", name, then=fitted(data, y, new, **(fit or {})), **curved(given))


def together(name: str, data: Any = ROWS, y: Any = Z, new: Any = None, fit: Any = None, **options: Any) -> None:
    given: dict[str, Any] = {"scores": ["s", "r"], "groups": "group"} | options
    _calls.add("MultiObjectiveCalibrator", name, then=fitted(data, y, new, **(fit or {})), **given)


def regression() -> Any:
    from sklearn.linear_model import LinearRegression

    return LinearRegression()


def classifier() -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(solver="newton-cholesky", tol=1e-12)


FEATURES = TABLE.select("s", "r", "group", "user")
calibrator("estimator", FEATURES, estimator=Late(classifier), score_column=0)
calibrator("estimator/user", FEATURES, estimator=Late(classifier), score_column=0, user="user", cv=3)
rule("estimator", FEATURES, estimator=Late(classifier), score_column=0, target="tpr", user="user")
rule("estimator/cv", FEATURES, estimator=Late(classifier), score_column=0, target="tpr", user="user", cv=3)
rule("direction/both", target="tpr", direction="both")
rule("direction/lower", target="tpr", direction="lower", change="all")
rule("direction/raise", target="tpr", direction="raise", change="all")
rule("level/user", user="user", level="user")
rule("level/aggregate", user="user", level="aggregate")
rule("cluster", target="tpr", cluster="user")
rule("bandwidth", bandwidth=0.2)
rule("resamples", target="tpr", resamples=100, change="all")
rule("threshold/groups", target="tpr", threshold={"a": 0.35, "b": 0.45, "c": 0.4})
for _method in ("near_unbiased", "published", "binning", "isotonic", "platt"):
    calibrator(f"method/{_method}", method=_method)
    calibrator(f"method/{_method}/monotone", method=_method, monotone=True)
calibrator("groups/none", groups=())
calibrator("groups/two", groups=["group", "sex"])
calibrator("user", user="user")
calibrator("bins", bins=8)
calibrator("bandwidth", bandwidth=0.2)
calibrator("onto", onto={"group": "a"})
calibrator("min_size", min_size=500)
calibrator("new-group", ROWS.filter(ROWS["group"] != "c"), Y[(ROWS["group"] != "c").to_numpy()], ROWS)
calibrator("sample_weight", fit={"sample_weight": TABLE["weight"].to_numpy()})
calibrator("array", np.column_stack([TABLE["s"], TABLE["group"] == "b"]), score_column=0, groups=1)
calibrator("pandas", ROWS.to_pandas())
for _target in ("outcome_at_margin", "selection_rate", "tpr", "fpr", "equalized_odds", "predictive_value"):
    rule(f"target/{_target}", target=_target, change="all")
rule("user", user="user")
rule("capacity", target="tpr", capacity=0.3)
rule("change/shown", target="tpr", change="shown")
rule("randomize", target="equalized_odds", randomize=True, change="all")
rule("alpha", target="tpr", alpha=0.5)
rule("no-outcome", y=None, target="selection_rate")
rule(
    "unknown/present", ROWS.filter(ROWS["group"] != "c"), Y[(ROWS["group"] != "c").to_numpy()], ROWS, unknown="present"
)
rule("unknown/error", target="tpr", unknown="error")
rule("sample_weight", target="tpr", fit={"sample_weight": TABLE["weight"].to_numpy()})
together("plain")
together("user", user="user")
together("estimator", estimator=Late(regression))
together("bandwidth", bandwidth=0.3)
together("min_size", min_size=800)
together("first-columns", TABLE.select("s", "r", "group"), scores=None)
together("one-outcome", y=Y, scores=["s"])
_calls.add(
    "MultiObjectiveCalibrator", "combine", scores=["s", "r"], groups="group",
    then=lambda model: model.fit(ROWS, Z).combine(ROWS, [0.3, 0.7]),
)  # fmt: skip
_calls.add("split_users", "plain", TABLE["user"].to_numpy(), rng=1)
_calls.add("split_users", "options", user=TABLE["user"], held_out=0.2, rng=2)

# Refusals.
parity("refuses/column-near", score="S")
parity("refuses/level", level="user")
parity("refuses/grid", grid=[0.5, 0.2])
parity("refuses/bandwidth-grid", bandwidth=[0.1, 0.2, 0.3], grid=[0.3, 0.5])
parity("refuses/user-cluster", user="user", cluster="branch")
parity("refuses/method", method="kernel")
parity("refuses/method-old", method="nadaraya-watson")
parity("refuses/order_tolerance", order_tolerance=0.1)
_calls.add("predictive_parity", "refuses/grid-moved", TABLE, **ROLES, grid=[0.3, 0.5])
_calls.add("GroupThresholds", "refuses/bandwidth-moved", bandwidth=0.2)
marginal("refuses/grid-unused", grid=[0.3, 0.5])
marginal("refuses/kind", method="trend", bandwidth=0.2)
parity("refuses/published-order", method="published", order=True)
parity("refuses/published-adjust", method="published", adjust="sup-t")
parity("refuses/single-order", order=0.1, grid=0.5)
parity("refuses/resamples", resamples=10)
parity("refuses/reference", reference={"group": "z"})
parity("refuses/one-group", TABLE.filter(TABLE["group"] == "a"))
parity("refuses/missing", GAPS)
composite("refuses/one", outcomes=["y"], scores=["s"])
composite("refuses/lengths", outcomes=["y", "z"], scores=["s", "r", "q"])
composite("refuses/near", scores=["s", "R"])
marginal("refuses/threshold", threshold=2.0)
marginal("refuses/threshold-text", threshold="high")
marginal("refuses/adjust", adjust="sup-t")
thresholds("refuses/outcome", target="tpr", outcome=None)
thresholds("refuses/bandwidth", target="tpr", bandwidth=0.1)
thresholds("refuses/level", target="tpr", user="user", level="user")
thresholds("refuses/randomize", randomize=True)
thresholds("refuses/direction-capacity", target="tpr", direction="raise", capacity=0.3)
thresholds("refuses/groups", target="tpr", groups=["group", iso.where("young", iso.col("age") < 30)])
thresholds("refuses/threshold-groups", target="tpr", threshold={"a": 0.35})
marginal("refuses/threshold-groups", threshold={"a": 0.35, "b": 0.45, "c": 0.4, "d": 0.5})
composite("refuses/weights", weights=[1.0])
thresholds("refuses/target", target="recall")
thresholds("refuses/not-binary", target="tpr", outcome="amount")
metrics("refuses/score", score=3)
metrics("refuses/groups", groups=["group", "sex"])
calibrator("refuses/unused", method="platt", bins=5)
calibrator("refuses/estimator", estimator="logistic", score_column=0)
calibrator("refuses/estimator-score", FEATURES, estimator=Late(classifier))
calibrator("refuses/onto", onto={"group": "z"})
calibrator("refuses/onto-columns", onto={"sex": "f"})
calibrator("refuses/column", score_column="t")
calibrator("refuses/lengths", y=Y[:10])
calibrator("refuses/platt", y=TABLE["amount"].to_numpy(), method="platt")
calibrator("refuses/lazy", ROWS.lazy())
rule("refuses/groups", groups=())
rule("refuses/group_columns", group_columns="group")
calibrator("refuses/smoother", smoother="nadaraya-watson")
together("refuses/score_columns", score_columns=["s", "r"])
rule("refuses/outcomes", y=None, target="tpr")
rule("refuses/unknown", ROWS.filter(ROWS["group"] != "c"), Y[(ROWS["group"] != "c").to_numpy()], ROWS, unknown="error")
together("refuses/columns", scores=["s"])
together("refuses/estimator", estimator="ridge")
_calls.add(
    "MultiObjectiveCalibrator",
    "refuses/weights",
    scores=["s", "r"],
    then=lambda m: m.fit(ROWS.select("s", "r"), Z).combine(ROWS.select("s", "r"), [1.0]),
)
_calls.add("split_users", "refuses/one", ["a", "a"])
_calls.add("split_users", "refuses/share", [1, 2, 3], held_out=1.0)
