"""Effects of a treatment: their errors by group, corrections, what these cost, and the planning of experiments."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import polars as pl

import isonomy as iso
from recorded import tables
from recorded.recording import Calls, Late, fitted

TABLE, REAL = tables.experiment(), tables.experiment(1_200, real=True)
# Online arms ("none", "corrected"), and several treatments ("none", "mail", "call").
ARMS = TABLE.with_columns(
    online=pl.when(pl.col("half") == 0).then(pl.lit("none")).otherwise(pl.lit("corrected")),
    arm=pl.when(pl.col("treatment") == 0)
    .then(pl.lit("none"))
    .otherwise(pl.when(pl.col("sex") == "f").then(pl.lit("mail")).otherwise(pl.lit("call"))),
)
GAPS = tables.without(tables.without(TABLE, "outcome"), "group", 30)
OBSERVED = {"a": (1.2, 0.05), "b": (1.3, 0.06), "c": (1.25, 0.1), "d": (1.1, 0.2)}
NEAR = {"a": (0.05, 0.02), "b": (0.06, 0.02), "c": (0.04, 0.03), "d": (0.05, 0.05)}
GIVEN_NEAR = iso.arm_means(observed_effects=NEAR)
GIVEN, POOLED = iso.arm_means(observed_effects=OBSERVED), iso.arm_means(rest="pooled")
HALVES, BY_COLUMN = (iso.arm_means(observed_effects=split) for split in ("independent", "half"))
STRATEGIES = (
    *("none", "mean", "significant", "mse_plus", "mse_minus", "positive_part"),
    *("empirical_bayes", "empirical_bayes_t", "empirical_bayes_mixture"),
)
DIFFERENCE: dict[str, Any] = {"measure": "difference", "effect": "difference"}
TRIAL: dict[str, Any] = {"effect": "effect", "treatment": "treatment", "outcome": "outcome", "groups": "group"}
QUICK = iso.heldout(splits=2, resamples=20)
LABELS = iso.Labels(columns={"group": "country"}, values={"group": {"b": "Belgium"}})

_calls = Calls()
CALLS = _calls.calls


def half(errors: Any, standard_errors: Any) -> Any:
    """A custom correction: half of each error."""
    return np.asarray(errors) / 2


def deadband(truth: Any, subtracted: Any) -> Any:
    """A loss of one's own: remainders below 0.1 do not matter."""
    return np.maximum(np.abs(truth - subtracted) - 0.1, 0.0)


def bias(name: str, data: Any = TABLE, then: Any = None, **options: Any) -> None:
    _calls.add("treatment_bias", name, data, then=then, **(TRIAL | {"rng": 1} | options))


def corrections(name: str, data: Any = TABLE, then: Any = None, **options: Any) -> None:
    quick: dict[str, Any] = {"method": QUICK, "rng": 1, "strategies": ["mean", "positive_part"]}
    _calls.add("evaluate_corrections", name, data, then=then, **(TRIAL | quick | options))


def price(name: str, data: Any = TABLE, then: Any = None, **options: Any) -> None:
    _calls.add("price_of_fairness", name, data, then=then, **(TRIAL | {"corrected": "corrected"} | options))


def corrector(
    name: str, data: Any = TABLE, y: Any = "outcome", new: Any = None, fit: Any = None, **options: Any
) -> None:
    outcomes = None if y is None else data[y].to_numpy()
    ask = fitted(data, outcomes, new, **(fit or {}))
    given: dict[str, Any] = {"groups": "group", "random_state": 1}
    _calls.add("EffectCorrector", name, then=ask, **(given | options))


_collapse: Any  # the names of collapses, in the loops below

# Bias.
bias("measure/relative", measure="relative")
bias("measure/difference", **DIFFERENCE)
bias("real", REAL)
bias("real/difference", REAL, **DIFFERENCE)
for _collapse in ("control_outcome", "average", "positives", "positives_inverse"):
    bias(f"collapse/{_collapse}", measure=iso.relative(_collapse))
for _collapse in ("weighted", "normalized"):
    bias(f"collapse/{_collapse}", measure=iso.relative(collapse=_collapse, baseline="baseline"))
bias("estimator/arm_means", estimator="arm_means", method="welch")
bias("estimator/regression", estimator=iso.regression(["x", "z"]))
bias("estimator/regression/difference", estimator=iso.regression("x"), **DIFFERENCE)
bias("estimator/aipw", TABLE.head(800), estimator=iso.aipw(features=["x"]), groups="sex")
bias("propensity", estimator=iso.arm_means(propensity="propensity"))
bias("given", given=["stratum"])
bias("given/difference", given="stratum", **DIFFERENCE)
bias("observed_effects", estimator=GIVEN)
bias(
    "observed_effects/alone",
    treatment=None,
    outcome=None,
    measure=iso.relative(baseline="baseline"),
    estimator=GIVEN,
)
bias(
    "observed_effects/difference",
    treatment=None,
    outcome=None,
    estimator=iso.arm_means(observed_effects=NEAR),
    **DIFFERENCE,
)
bias("rest/standardized", estimator=iso.arm_means(rest="standardized"), **DIFFERENCE)
bias("rest/pooled", estimator=POOLED)
bias("split/independent", estimator=HALVES)
bias("split/column", estimator=BY_COLUMN)
bias("method/automatic", method="automatic")
bias("method/welch", method="welch")
bias("method/bootstrap", method=iso.bootstrap(resamples=50))
bias("method/bootstrap/split", method=iso.bootstrap(50), estimator=HALVES)
bias("method/bootstrap/rows", method=iso.bootstrap(20, over="rows"))
bias("method/published", method="published")
bias("method/published/difference", method="published", **DIFFERENCE)
bias("method/published/baseline", method="published", measure=iso.relative(baseline="baseline"), estimator=BY_COLUMN)
for _adjust in ("holm", "bonferroni", "bh", "by", "none"):
    bias(f"adjust/{_adjust}", adjust=_adjust)
bias("tolerance", tolerance=0.2)
bias("tolerance/wide", tolerance=1.0, **DIFFERENCE)
bias("alpha", alpha=0.2, missing="raise", missing_group="raise")
bias("then/detectable", then=lambda result: [result.detectable(), result.detectable(power=0.5)])
bias("depth-2", groups=["group", "sex"], depth=2)
bias("cut", groups=iso.cut("x", [0.3, 0.7]))
bias("where", groups=iso.where("low", iso.col("x") < 0.4))
bias("few", TABLE.head(120))
bias("min_size", min_size=300)
bias("arms", ARMS, effect={"mail": "effect", "call": "effect"}, treatment=iso.arms("arm", control="none"))
bias("then/criteria", then=lambda result: result.criteria())
bias("count", count="count")
bias("weight", weight="weight")
bias("cluster", cluster="shop")
bias("weight/cluster/difference", weight="weight", cluster="shop", **DIFFERENCE)
bias("missing/drop", GAPS, missing="drop", missing_group="drop")
bias("missing/level", GAPS, missing="drop", missing_group="level")
bias("labels", Late(lambda: iso.open_source(TABLE, labels=LABELS)))
bias("condition", treatment=iso.col("treatment") == 1, outcome="outcome")
for _engine in tables.ENGINES:
    bias(f"engine/{_engine}", Late(partial(tables.in_engine, _engine, TABLE)))
bias("then/plot", then=lambda result: result.plot("error").to_dict(validate=False)["title"])

# Corrections.
corrections("strategies/all", strategies=list(STRATEGIES))
corrections("strategies/own", strategies=["mean", half])
corrections("measure/relative", measure="relative")
corrections("measure/difference", **DIFFERENCE)
for _collapse in ("control_outcome", "average", "positives"):
    corrections(f"collapse/{_collapse}", measure=iso.relative(_collapse))
for _collapse in ("weighted", "normalized"):
    corrections(f"collapse/{_collapse}", measure=iso.relative(_collapse, "baseline"))
corrections("estimator/arm_means", estimator="arm_means")
corrections("estimator/regression", estimator=iso.regression(["x"]))
corrections("estimator/aipw", TABLE.head(800), estimator=iso.aipw(["x"]), groups="sex")
corrections("propensity", estimator=iso.arm_means(propensity="propensity"))
corrections("observed_effects", estimator=GIVEN)
corrections("form/additive", form="additive")
corrections("form/multiplicative", form="multiplicative")
corrections("rest/standardized", estimator=iso.arm_means(rest="standardized"))
corrections("rest/pooled", estimator=POOLED)
corrections("method/heldout", TABLE.head(800), method="heldout")
corrections("method/published", TABLE.head(800), method="published", strategies=None)
corrections("method/published/difference", method="published", strategies=["mean"], **DIFFERENCE)
corrections("method/independent", method=iso.heldout(2, 20, split="independent"))
corrections("method/swapped", method=iso.heldout(2, 20, split="swapped"))
corrections("method/cells", method=iso.heldout(2, 20, over="cells"))
corrections("method/rows", method=iso.heldout(2, 20, over="rows"))
corrections("method/rows/independent", TABLE.head(800), method=iso.heldout(2, 20, over="rows", split="independent"))
corrections("method/published/cells", method=iso.published(2, 20, over="cells"), strategies=None)
corrections("method/online", ARMS, method=iso.online("online", control="none"), strategies=None)
corrections("strategies/least_risk", strategies=[iso.least_risk(deadband)])
corrections("min_size", min_size=300, missing="raise", missing_group="raise")
corrections("then/detection", then=lambda r: [r.detection_error, r.detection_se, r.detection_bias, r.recommended])
corrections("alpha", alpha=0.2, strategies=["significant"])
corrections("depth-2", groups=["sex", "stratum"], depth=2)
corrections("progress", method=iso.heldout(2, 20, progress=True))
corrections("count", count="count")
corrections("weight", weight="weight")
corrections("cluster", cluster="shop")
corrections("missing/drop", GAPS, missing="drop", missing_group="drop")
corrections("missing/level", GAPS, missing="drop", missing_group="level")
corrections("then/arrays", then=lambda result: [result.factor, result.error, result.bias, result.bias_se])
corrections("then/plot", then=lambda r: [sorted(r.plot(q).to_dict(validate=False)) for q in ("error", "statistic")])

# Prices.
price("measure/relative", measure="relative")
price("measure/difference", corrected="corrected_difference", **DIFFERENCE)
price("several", corrected=["corrected", "shrunk"])
price("baseline", baseline="baseline")
price("propensity", estimator=iso.arm_means(propensity="propensity"), baseline="baseline")
price("budget", budget=0.1, estimator="arm_means")
price("profit", budget=iso.budget(value=20.0, cost=1.5), baseline="baseline")
price("profit/cost", budget=iso.budget(cost=0.02))
price("then/targeted", then=lambda r: [r.targeted(), r.targeted(0.5), r.curves()], budget=iso.budget(value=2.0))
price("then/plots", then=lambda r: [sorted(r.plot(q).to_dict(validate=False)) for q in ("targeted", "curves")])
price("alpha", alpha=0.2, missing="raise", missing_group="raise")
price("groups", groups=["group", "sex"])
price("depth-2", groups=["group", "sex"], depth=2)
price("count", count="count")
price("weight", weight="weight")
price("cluster", cluster="shop")
price("missing/drop", GAPS, missing="drop", missing_group="drop")
price("missing/level", GAPS, missing="drop", missing_group="level")
price("real", REAL)
price("engine/duckdb", Late(lambda: tables.in_engine("duckdb", TABLE)))
price("then/plot", then=lambda r: [sorted(r.plot(q).to_dict(validate=False)) for q in ("qini", "loss", "policy_value")])

# Correctors.
for _strategy in STRATEGIES:
    corrector(f"strategy/{_strategy}", strategy=_strategy)
corrector("strategy/own", strategy=half)
corrector("form/additive", form="additive")
corrector("form/multiplicative", form="multiplicative")
corrector("columns", TABLE.rename({"effect": "e", "treatment": "t"}), effect="e", treatment="t")
corrector("groups/two", groups=["group", "sex"], strategy="mean")
corrector("measure/relative", measure="relative", strategy="mean")
corrector("measure/difference", measure="difference", effect="difference", strategy="mean")
for _collapse in ("control_outcome", "average", "positives", "positives_inverse"):
    corrector(f"collapse/{_collapse}", measure=iso.relative(_collapse), strategy="mean")
for _collapse in ("weighted", "normalized"):
    corrector(f"collapse/{_collapse}", measure=iso.relative(_collapse, "baseline"), strategy="mean")
corrector("estimator/arm_means", estimator="arm_means", strategy="positive_part")
corrector("estimator/regression", estimator=iso.regression(["x"]), strategy="positive_part")
corrector("estimator/aipw", TABLE.head(800), estimator=iso.aipw(["x"]), groups="sex")
corrector("method/automatic", method="automatic")
corrector("method/bootstrap", method=iso.bootstrap(50), strategy="mse_plus")
corrector("method/bootstrap/rows", method=iso.bootstrap(20, over="rows"), strategy="mse_plus")
corrector("alpha", alpha=0.3, strategy="significant")
corrector("unknown/pooled", TABLE.filter(TABLE["group"] != "d"), new=TABLE, unknown="pooled")
corrector("unknown/error", unknown="error", strategy="mean")
corrector("observed_effects", y=None, estimator=GIVEN, measure=iso.relative(baseline="baseline"))
corrector("weight", weight="weight")
corrector("cluster", cluster="shop")
corrector("propensity", estimator=iso.arm_means(propensity="propensity"))
corrector("sample_weight", fit={"sample_weight": TABLE["count"].to_numpy()})

# Planning and models.
COUNTRIES = iso.planned(baseline={"DE": 0.1, "FR": 0.05}, effect={"DE": 1.2, "FR": 1.1})
_calls.add("bias_sample_size", "rates", 0.2, iso.planned(0.1, 1.25, groups=4))
_calls.add(
    "bias_sample_size",
    "keywords",
    bias=0.2,
    experiment=iso.planned(baseline={"DE": 0.1, "FR": 0.05}, effect={"DE": 1.2, "FR": 1.1}),
)
_calls.add(
    "bias_sample_size", "difference", 0.02, iso.planned(0.3, 0.05, "difference", treated=0.3), alpha=0.1, power=0.9
)
_calls.add("bias_sample_size", "spread", 0.2, iso.planned(2.0, 1.1, spread=3.0, measure="relative"))
_calls.add("bias_sample_size", "pilot", 0.3, Late(lambda: iso.treatment_bias(TABLE, **TRIAL)))
_calls.add("bias_sample_size", "refuses/rate", 0.2, iso.planned(1.5, 1.2))
_calls.add("bias_sample_size", "refuses/bias", -0.2, iso.planned(0.1, 1.2))
_calls.add("correction_risk", "default")
_calls.add("correction_risk", "options", [0.0, 1.0, 2.5], ["mean", "significant", "positive_part"], alpha=0.2)
_calls.add("correction_risk", "absolute", ratios=[0.0, 1.0, 3.0], loss="absolute")
_calls.add("correction_risk", "squared", [0.5], strategies=["mse_plus", "mse_minus"], loss="squared")
_calls.add("correction_risk", "own", [0.0, 2.0], ["mean", iso.least_risk(deadband)], loss=deadband)
_calls.add("correction_risk", "refuses/strategy", [0.5], ["empirical_bayes"])
_calls.add("correction_risk", "refuses/loss", [0.5], loss="huber")


class _Effects:
    def effect(self, X: Any) -> Any:
        return 0.1 * X[:, :1]


class _Several:
    def predict(self, X: Any) -> Any:
        return np.column_stack([X[:, 0], 1.0 + 0.1 * X[:, 0]])


class _Outcome:
    def __init__(self, rate: float) -> None:
        self.rate = rate

    def predict(self, X: Any) -> Any:
        return (self.predict_proba(X)[:, 1] > 0.5).astype(int)

    def predict_proba(self, X: Any) -> Any:
        chance = self.rate * np.ones(len(X)) + 0.01 * X[:, 0]
        return np.column_stack([1 - chance, chance])


X = np.arange(1.0, 6.0)[:, None]
_calls.add("predicted_effects", "relative", _Effects(), X, measure="relative", baseline=np.full(5, 0.5))
_calls.add("predicted_effects", "keywords", model=_Effects(), X=X, measure="difference", gives="difference")
_calls.add("predicted_effects", "gives/relative", _Several(), X, gives="relative", column=1)
_calls.add("predicted_effects", "refuses/baseline-model", _Effects(), X, baseline=_Outcome(0.3))
_calls.add("predicted_effects", "pair", (_Outcome(0.2), _Outcome(0.3)), X)
_calls.add("predicted_effects", "pair/difference", (_Outcome(0.2), _Outcome(0.3)), X, measure="difference")
_calls.add("predicted_effects", "single", _Outcome(0.2), np.column_stack([X[:, 0] * 0, X[:, 0]]), treatment=0)
_calls.add("predicted_effects", "refuses/treatment", _Outcome(0.2), X, treatment="t")
_calls.add("predicted_effects", "refuses/baseline", _Effects(), X)
_calls.add("predicted_effects", "refuses/model", object(), X)
_calls.add("predicted_effects", "refuses/columns", _Several(), X, measure="difference")

# Refusals.
bias("refuses/column-near", effect="efect")
bias("refuses/arms-effect", ARMS, treatment=iso.arms("arm", control="none"))
bias("refuses/arms-none", ARMS, effect={"letter": "effect"}, treatment=iso.arms("arm", control="none"))
bias("refuses/treatment", treatment=None)
bias("refuses/treatment-values", treatment="z")
bias("refuses/baseline-missing", measure=iso.relative("weighted"))
bias("refuses/baseline-idle", measure=iso.relative(baseline="baseline"))
bias("refuses/baseline-observed", treatment=None, outcome=None, estimator=GIVEN)
bias("refuses/features-missing", estimator=iso.regression([]))
bias("refuses/estimator", estimator="regression")
bias("refuses/propensity-given", estimator=iso.arm_means(propensity="propensity"), given="stratum")
bias("refuses/design-bootstrap", weight="weight", method=iso.bootstrap())
bias("refuses/design-published", cluster="shop", method="published")
bias("refuses/observed-bootstrap", estimator=GIVEN, method=iso.bootstrap())
bias("refuses/observed-error", estimator=iso.arm_means(observed_effects={"a": (1.2, -1.0)}))
bias("refuses/observed-unknown", estimator=iso.arm_means(observed_effects={"a": (1.2, 0.1), "z": (1.2, 0.1)}))
bias("refuses/split-rows", estimator=BY_COLUMN, method=iso.bootstrap(over="rows"))
bias("refuses/split-near", estimator=iso.arm_means(observed_effects="halv"))
bias("refuses/measure", measure="absolute")
bias("refuses/tolerance", tolerance=0)
bias("refuses/propensity-range", estimator=iso.arm_means(propensity="treatment"))
bias("refuses/missing", GAPS)
_calls.add("bootstrap", "refuses/over", over="people")
_calls.add("relative", "refuses/collapse", "weigthed")
corrections("refuses/collapse", measure=iso.relative("positives_inverse"))
corrections("refuses/published", method="published", strategies=["empirical_bayes"])
corrections("refuses/multiplicative", form="multiplicative", **DIFFERENCE)
corrections("refuses/design-split", cluster="shop", method=iso.heldout(split="swapped"))
corrections("refuses/strategy-near", strategies=["men"])
corrections("refuses/count-rows", method=iso.heldout(over="rows"), count="count")
price("refuses/corrected", corrected=[])
price("refuses/corrected-near", corrected="corected")
price("refuses/budget", budget=1.0)
price("refuses/rest", estimator=POOLED)
price("refuses/targeted", then=lambda result: result.targeted(0.33))
corrections("refuses/online", ARMS, method=iso.online("online", control="control"), strategies=None)
corrections("refuses/online-strategies", ARMS, method=iso.online("online"))
corrector("refuses/groups", groups=())
corrector("refuses/multiplicative", form="multiplicative", measure="difference", effect="difference")
corrector("refuses/outcomes", y=None)
corrector("refuses/unknown", TABLE.filter(TABLE["group"] != "d"), new=TABLE)
corrector("refuses/bootstrap", weight="weight", method=iso.bootstrap())
corrector("refuses/column", effect="efect")
corrector("refuses/strategy", strategy="median")

# Keywords of earlier versions.
_moved = ("baseline", "collapse", "features", "propensity", "observed_effects", "rest")
for _name in (*_moved, "split", "variance", "resamples", "test", "power"):
    bias(f"refuses/moved/{_name}", **{_name: 1})
for _name in (*_moved, "rest_correction", "split", "variance", "splits", "resamples", "progress"):
    corrections(f"refuses/moved/{_name}", **{_name: 1})
for _name in ("effect", "treatment", "baseline", "weight", "cluster", "propensity"):
    _column: dict[str, Any] = {f"{_name}_column": _name}
    _calls.add("EffectCorrector", f"refuses/moved/{_name}_column", **_column)
for _name in ("propensity", "value", "cost"):
    price(f"refuses/moved/{_name}", **{_name: 1})
for _name in ("pilot", "baseline", "effect", "measure", "treated", "spread", "groups"):
    _column = {_name: 1}
    _calls.add("bias_sample_size", f"refuses/moved/{_name}", 0.2, **_column)
for _name in (
    *("baseline", "group_columns", "feature_columns", "collapse", "variance", "resamples"),
    *("propensity", "observed_effects"),
):
    _column = {_name: "x"}
    _calls.add("EffectCorrector", f"refuses/moved/{_name}", **_column)
