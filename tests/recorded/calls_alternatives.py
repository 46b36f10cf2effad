"""Improvability: rules and ready candidates, methods, utilities, gains, designs; and the planning of it."""

from __future__ import annotations

from functools import partial
from typing import Any

import isonomy as iso
from isonomy import alternatives
from recorded import tables
from recorded.recording import Calls, Late

TABLE = tables.programme()
SMALL = TABLE.head(240)
FEATURES = ["x1", "x2", "lab"]
RULES = ("linear", "lasso", "random_forest", "boosting", "group_thresholds", "milp", "reductions")
FOLDS = iso.crossfit(2, repeats=1)
NET = iso.Utility("net_benefit", lambda x, y, d: (d * (y - 2.0), 1.0))

# Their charts show the surface of p-values, of twenty thousand points.
DRAWN = ("accuracy/accuracy", "candidate/list", "scale/difference", "method/crossfit", "method/bootstrap")

_calls = Calls()
CALLS = _calls.calls


def ready(name: str, data: Any = TABLE, then: Any = None, **options: Any) -> None:
    """A test of ready decisions."""
    given: dict[str, Any] = {
        "outcome": "sick",
        "groups": "group",
        "status_quo": "decision",
        "candidate": "better",
        "rng": 1,
    } | options
    _calls.add("improvability", name, data, then=then, draw=name in DRAWN, **given)


def scored(name: str, data: Any = TABLE, then: Any = None, **options: Any) -> None:
    """A test of a ready score, cut at a capacity."""
    given: dict[str, Any] = {"status_quo": "score", "candidate": "need_score", "outcome": "need", "capacity": 0.2}
    ready(name, data, then, **(given | options))


def searched(name: str, data: Any = TABLE, then: Any = None, **options: Any) -> None:
    """A test of what a rule finds."""
    given: dict[str, Any] = {"candidate": None, "rule": "linear", "features": FEATURES, "method": FOLDS}
    scored(name, data, then, **(given | options))


def first(training: Any) -> Any:
    """A rule of one's own: the first feature is the score."""
    return alternatives.Algorithm(lambda people: people.features["lab"])


# Ready candidates and utilities.
for _utility in ("accuracy", "outcome_among_selected", "tpr", "tnr", "selection_rate"):
    ready(f"accuracy/{_utility}", accuracy=_utility)
for _utility in (
    *("accuracy", "outcome_among_selected", "outcome_among_unselected", "tpr", "tnr", "fpr", "selection_rate"),
    *("equal_opportunity", "predictive_equality", "equalized_odds", "statistical_parity"),
):
    ready(f"fairness/{_utility}", accuracy="accuracy", fairness=_utility)
ready("accuracy/profit", outcome="worth", status_quo="price", candidate="new_price", accuracy="profit")
ready(
    "fairness/profit", outcome="worth", status_quo="price", candidate="new_price", accuracy="profit",
    fairness="profit", gain=iso.gain(fairness=-0.5),
)  # fmt: skip
ready("fairness/several", accuracy="accuracy", fairness=["tpr", "selection_rate"])
ready("fairness/other-outcome", accuracy="accuracy", fairness={"utility": "outcome_among_selected", "outcome": "cost"})
scored("accuracy/own", accuracy=NET)
scored("accuracy/other-outcome", accuracy={"utility": "outcome_among_selected", "outcome": "lab"})
scored("capacity")
scored("capacity/above", capacity=iso.above(0.5), candidate="rough_score")
ready("candidate/list", accuracy="accuracy", candidate=["better", "other"])
scored("candidate/mapping", candidate={"by need": "need_score", "rough": "rough_score"})
ready("groups/intersections", accuracy="accuracy", groups=["group", "sex"])
ready("groups/cut", accuracy="accuracy", groups=iso.cut("x1", [0.0]))

# Gains, scales, weights, protection.
scored("gain/accuracy", gain=iso.gain(accuracy=0.05))
scored("gain/accuracy/groups", gain=iso.gain({"a": 0.0, "b": 0.05}))
scored("gain/fairness", gain=iso.gain(fairness=0.1))
ready(
    "gain/fairness/utilities",
    accuracy="accuracy",
    fairness="equalized_odds",
    gain=iso.gain(fairness={"tpr": 0.1, "fpr": 0.0}),
)
scored("gain/margin", gain=iso.gain(margin=0.02))
scored("scale/ratio", gain=iso.gain(scale="ratio"))
scored("scale/difference", gain=iso.gain(scale="difference", fairness=0.05))
scored("weights/pooled", accuracy={"utility": "outcome_among_selected", "weights": "pooled"})
scored("weights/mapping", accuracy={"utility": "outcome_among_selected", "weights": {"a": 0.5, "b": 0.5}})
scored("protected", fairness=iso.protected("b"))
scored("protected/lower", fairness=iso.protected({"group": "b"}, disadvantage="lower"))
ready("protected/higher", accuracy="accuracy", fairness=iso.protected("group=b", "fpr", "higher"))
scored("alpha", alpha=0.2)
scored("min_size", min_size=20, missing="raise", missing_group="raise")
scored("tried", tried=[{"what": "a linear rule", "seed": 7, "date": "2025-03-01"}])

# Methods.
scored("method/splits", method=iso.splits(3, train_fraction=0.4))
scored("method/splits/two", method=iso.splits(2))
scored("method/bootstrap", method=iso.splits(3, resamples=200, train_fraction=0.5))
scored("method/bootstrap/published", method=iso.splits(2, resamples=200, published=True))
scored("method/bootstrap/one", method=iso.splits(1, resamples=100))
scored("method/published", SMALL, method="published", capacity=0.3)
searched("method/crossfit", method=iso.crossfit(3, repeats=2, n_jobs=1, progress=True))
searched("method/crossfit/default", SMALL, method=None, capacity=0.3)
searched("method/splits/rule", method=iso.splits(2))
searched("method/bootstrap/rule", method=iso.splits(2, resamples=100))

# Rules.
for _rule in ("linear", "lasso", "boosting", "group_thresholds"):
    searched(f"rule/{_rule}", rule=_rule)
searched("rule/random_forest", SMALL, rule="random_forest", capacity=0.3)
searched(
    "rule/milp", SMALL, rule=iso.MILPRule(sample=24), outcome="sick", status_quo="decision", accuracy="accuracy",
    capacity=None, features=["lab"],
)  # fmt: skip
searched(
    "rule/milp/name", SMALL.head(60), rule="milp", outcome="sick", status_quo="decision", accuracy="accuracy",
    capacity=None, features=["lab"],
)  # fmt: skip
searched(
    "rule/milp/accuracy", SMALL, outcome="sick", status_quo="decision", accuracy="accuracy", capacity=None,
    rule=iso.MILPRule("accuracy", group="group=b", iota=0.0, margin=0.002, time_limit=60.0, sample=24,
    group_aware=True), features=["lab"],
)  # fmt: skip
searched(
    "rule/reductions",
    SMALL,
    rule="reductions",
    outcome="sick",
    status_quo="decision",
    accuracy="accuracy",
    capacity=None,
)
searched(
    "rule/reductions/object", SMALL, outcome="sick", status_quo="decision", accuracy="accuracy", capacity=None,
    rule=alternatives.ReductionsRule("equalized_odds", eps=0.05, max_iter=10),
)  # fmt: skip
searched("rule/callable", rule=first)
searched("rule/list", rule=iso.group_aware(["linear", "lasso"]))
searched("rule/list/mixed", rule=["linear", iso.group_aware("linear")])
searched("rule/group_aware", rule=iso.group_aware("linear"))
searched("rule/text-feature", features=["lab", "clinic"])
searched("then/recommendation", then=lambda r: None if r.recommended is None else r.recommended.decide(TABLE))
scored("then/surface", then=lambda result: result.surface())
scored("then/log", tried=[{"what": "another"}], then=lambda result: result.log)

# Designs and missing values.
ready("count", accuracy="accuracy", count="count")
scored("weight", weight="weight")
scored("cluster", cluster="household")
searched("weight/cluster/rule", weight="weight", cluster="household")
ready(
    "missing/drop",
    tables.without(tables.without(TABLE, "sick"), "group", 30),
    accuracy="accuracy",
    missing="drop",
    missing_group="drop",
)
ready("missing/level", tables.without(TABLE, "group"), accuracy="accuracy", missing_group="level")
ready(
    "labels",
    Late(
        lambda: iso.open_source(
            TABLE, labels=iso.Labels(values={"group": {"a": "East"}}, metrics={"accuracy": "hit rate"})
        )
    ),
    accuracy="accuracy",
)
for _engine in tables.ENGINES:
    ready(f"engine/{_engine}", Late(partial(tables.in_engine, _engine, TABLE)), accuracy="accuracy")

# Planning.
_calls.keep("splits_bound/plain", lambda: [alternatives.splits_bound(alpha) for alpha in (0.01, 0.05, 0.1)])
_calls.keep("false_rejection/plain", lambda: [alternatives.false_rejection(m, splits=7) for m in (1, 5, 100)])
_calls.keep(
    "false_rejection/correlated", lambda: alternatives.false_rejection(10, splits=5, alpha=0.1, correlation=0.4)
)
_calls.keep("manipulation/one-split", lambda: alternatives.manipulation(splits=1, cost=0.005))
_calls.keep(
    "manipulation/options",
    lambda: alternatives.manipulation(splits=5, alpha=0.1, cost=0.002, correlation=0.3, most=500),
)
_calls.keep(
    "manipulation/cost-function", lambda: alternatives.manipulation(splits=3, cost=lambda m: 0.001 * m**2, most=200)
)
_calls.keep("enough_splits/plain", lambda: alternatives.enough_splits(alpha=0.05, cost=0.001))
_calls.keep("enough_splits/correlated", lambda: alternatives.enough_splits(cost=0.02, correlation=0.2, most=51))
_calls.keep("enough_splits/refuses/cheap", lambda: alternatives.enough_splits(cost=1e-9, correlation=0.9, most=5))
_calls.keep("splits_bound/refuses/alpha", lambda: alternatives.splits_bound(2.0))

# Refusals.
ready("refuses/column-near", candidate="beter")
ready("refuses/rule-and-candidate", rule="linear")
ready("refuses/neither", candidate=None)
ready("refuses/features", features=FEATURES)
_calls.keep("crossfit/refuses/n_jobs", lambda: iso.crossfit(n_jobs=0))
scored("refuses/protected", fairness=iso.protected("z"))
scored("refuses/gain-groups", gain=iso.gain({"a": 0.1}))
scored("refuses/gain-utilities", gain=iso.gain(fairness={"tpr": 0.1}))
scored(
    "refuses/gain-weights",
    gain=iso.gain({"a": 0.1, "b": 0.1}),
    accuracy={"utility": "outcome_among_selected", "weights": "pooled"},
)
scored("refuses/weights", accuracy={"utility": "outcome_among_selected", "weights": {"a": -1.0, "b": 1.0}})
scored("refuses/weights-near", accuracy={"utility": "outcome_among_selected", "weights": "poled"})
scored("refuses/bootstrap-weights", method=iso.splits(resamples=100), weight="weight")
scored("refuses/crossfit", method=iso.crossfit())
ready("refuses/method", method="crossfit")
_calls.keep("gain/refuses/margin-and-gain", lambda: iso.gain(0.1, margin=0.1))
_calls.keep("gain/refuses/margin", lambda: iso.gain(margin=1.5))
_calls.keep("gain/refuses/loss", lambda: iso.gain(-1.5))
_calls.keep("gain/refuses/fairness", lambda: iso.gain(fairness=1.0))
_calls.keep("splits/refuses/published", lambda: iso.splits(7, published=True))
for _moved, _value in {
    "group_aware": True,
    "threshold": 0.5,
    "accuracy_gain": 0.1,
    "fairness_gain": 0.1,
    "margin": 0.1,
    "scale": "ratio",
    "accuracy_weights": "pooled",
    "protected": "b",
    "disadvantage": "lower",
    "n_jobs": 2,
    "progress": True,
    "fairness_test": "paper",
    "evidence": "paper",
    "folds": 3,
    "repeats": 2,
    "splits": 3,
    "train_fraction": 0.5,
    "resamples": 100,
    "pvalue_form": "paper",
}.items():
    ready(f"refuses/moved/{_moved}", **{_moved: _value})
ready("refuses/accuracy-near", accuracy="acuracy")
ready("refuses/accuracy-lower", accuracy="fpr")
ready("refuses/fairness", fairness="fairness")
ready("refuses/fairness-twice", fairness=["tpr", "equal_opportunity"])
searched("refuses/rule", rule="svm")
searched("refuses/rule-class", rule=dict)
searched("refuses/rule-features", features=None)
ready("refuses/outcome-as-candidate", candidate="sick")
ready("refuses/not-binary", outcome="cost", accuracy="accuracy")
ready("refuses/scores-without-cut", status_quo="score", candidate="need_score")
ready("refuses/candidates-splits", candidate=["better", "other"], method=iso.splits(2))
ready("refuses/one-group", TABLE.filter(TABLE["group"] == "a"), accuracy="accuracy")
_calls.keep("MILPRule/refuses/group", lambda: iso.MILPRule("accuracy"))
_calls.keep("Utility/refuses/function", lambda: iso.Utility("u", 3))  # type: ignore[arg-type]
