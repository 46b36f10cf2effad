"""Projection: criteria, distances, tolerances, laws, designs."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import numpy as np

import isonomy as iso
from isonomy.projection import distances, estimators
from recorded import tables
from recorded.recording import Calls, Late

TABLE, GAPS = tables.decisions(), tables.gaps()
FEATURES = ["income", "debt"]
CRITERIA = ("equal_opportunity", "predictive_equality", "equalized_odds", "statistical_parity", "demographic_parity")
WOMEN = iso.Discerning(
    u={"women": iso.col("sex") == "Female", "men": iso.col("sex") == "Male"},
    phi=lambda u, mean: u[:, [0]] / mean[0] - u[:, [1]] / mean[1],
    names=("women against men",),
)

_calls = Calls()
CALLS = _calls.calls


def project(name: str, data: Any = TABLE, then: Any = None, **options: Any) -> None:
    given: dict[str, Any] = {"outcome": "outcome", "prediction": "prediction", "groups": "race", "rng": 1}
    if "distance" not in options:
        given |= {"score": "score", "threshold": 0.5}
    given |= options
    _calls.add("project", name, data, then=then, **given)


@cache
def model(kind: str) -> Any:
    """A classifier of the decision, fitted on two columns."""
    from sklearn.base import clone
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC
    from sklearn.tree import DecisionTreeClassifier

    # Newton's method converges to the last digits on every machine.
    logistic = LogisticRegression(solver="newton-cholesky", tol=1e-12)
    made: dict[str, Any] = {
        "logistic": logistic,
        "scaled": make_pipeline(StandardScaler(), clone(logistic)),
        "tree": DecisionTreeClassifier(max_depth=3, random_state=0),
        "svc": SVC(kernel="rbf", gamma=0.1),
        "forest": RandomForestClassifier(20, random_state=0),
    }
    return made[kind].fit(TABLE.select(FEATURES).to_pandas(), TABLE["outcome"].to_numpy())


def decided_by(kind: str) -> Any:
    decision = model(kind).predict(TABLE.select(FEATURES).to_pandas())
    return TABLE.with_columns(prediction=np.asarray(decision).astype(int))


for _criterion in CRITERIA:
    project(f"criterion/{_criterion}", criterion=_criterion)
project("criterion/equalized_odds/sex", criterion="equalized_odds", groups="sex")
project("criterion/own", criterion=WOMEN, groups=None)
project("criterion/own/groups", criterion=WOMEN, groups="sex", outcome=None)
project("criterion/statistical_parity/no-outcome", criterion="statistical_parity", outcome=None)
project("groups/several", groups=["race", "sex"])
project("groups/cut", groups=iso.cut("age", [30, 50]))
project("groups/where", groups=["sex", iso.where("young", iso.col("age") < 30)])
project("threshold/inferred", threshold=None)
project("distance/column", distance="distance")
project("distance/score", distance=distances.Score("score", 0.5))
project(
    "distance/per-group",
    distance=distances.PerGroup(distances.Score("score", 0.5), "sex", {"Female": 1.0, "Male": 2.0}),
)
project(
    "distance/linear", Late(lambda: decided_by("logistic")),
    distance=Late(lambda: estimators.distance(model("logistic"), FEATURES, norm="l1", costs={"income": 2.0})),
    then=lambda result: [result, result.plan],
)  # fmt: skip
project("distance/logistic", Late(lambda: decided_by("logistic")), distance=Late(lambda: model("logistic")))
project(
    "distance/immutable", Late(lambda: decided_by("logistic")),
    distance=Late(lambda: estimators.distance(model("logistic"), FEATURES, norm="linf", immutable=["debt"])),
)  # fmt: skip
project("distance/scaled", Late(lambda: decided_by("scaled")), distance=Late(lambda: model("scaled")))
project("distance/tree", Late(lambda: decided_by("tree")), distance=Late(lambda: model("tree")))
project("distance/svc", Late(lambda: decided_by("svc")), distance=Late(lambda: model("svc")))
project(
    "distance/svc/squared", Late(lambda: decided_by("svc")),
    distance=Late(lambda: estimators.distance(model("svc"), squared=True)),
)  # fmt: skip
project("distance/forest", Late(lambda: decided_by("forest")), distance=Late(lambda: model("forest")))
project("reference", reference={"race": "Black"})
project("tolerance", tolerance=0.05)
project("tolerance/wide", tolerance=0.5)
project("tolerance/upper", tolerance={"above": 0.0})
project("tolerance/lower", tolerance={"below": 0.02}, groups="sex")
project("tolerance/both", tolerance={"below": 0.1, "above": 0.2}, groups="sex")
project(
    "tolerance/rates/above", tolerance={"tpr": {"above": 0.1}, "fpr": 0.1}, criterion="equalized_odds", groups="sex"
)
project("tolerance/rates", tolerance={"tpr": 0.05, "fpr": 0.1}, criterion="equalized_odds", groups="sex")
project("tolerance/groups", tolerance={"race=Asian": 0.05, "race=Black": 0.1, "race=Other": 0.2})
project("tolerance/sides", tolerance={"below": 0.02}, groups="sex")
project("bandwidth", method=iso.corrected(0.1))
project("method/corrected", method="corrected", groups="sex")
project("method/corollary", method="corollary", groups="sex")
project("model", prediction=None, score=None, threshold=None, model=Late(lambda: model("logistic")), groups="sex")
project("refuses/prediction-and-model", model=object())
project("method/published", method="published")
project("method/published/lower", method="published", tolerance={"below": 0.05}, groups="sex")
project("curve", method=iso.corrected(curve=True), groups="sex", then=lambda result: [result, result.curve])
project("curve/upper", method=iso.corrected(curve=True), tolerance={"above": 0.0})
project("whole", groups="sex", then=lambda result: [result, result.moved_rows(whole=True)])
project("alpha", alpha=0.2, missing="raise", missing_group="raise")
project("count", count="count")
project("weight", weight="weight")
project("cluster", cluster="household")
project("weight/cluster/tolerance", weight="weight", cluster="household", tolerance=0.1)
project("cluster/few", TABLE.with_columns(branch=np.arange(TABLE.height) % 6), cluster="branch", groups="sex")
project(
    "weight/always-never",
    TABLE.with_columns(prediction=(TABLE["sex"] == "Female").cast(int)),
    distance="distance",
    weight="weight",
    groups="sex",
)
project("missing/drop", GAPS, missing="drop", missing_group="drop")
project("missing/level", GAPS, missing="drop", missing_group="level")
project(
    "labels",
    Late(
        lambda: iso.open_source(
            TABLE, labels=iso.Labels(columns={"race": "origin"}, values={"race": {"Black": "Black applicants"}})
        )
    ),
)
project("then/plan", then=lambda result: result.plan)
project("then/plan/column", distance="distance", then=lambda result: result.plan)
for _engine in tables.ENGINES:
    project(f"engine/{_engine}", Late(partial(tables.in_engine, _engine, TABLE)), groups="sex")
project(
    "engine/duckdb/inferred",
    Late(lambda: tables.in_engine("duckdb", TABLE)),
    threshold=None,
    criterion="equalized_odds",
)

project("refuses/criterion", criterion="tpr")
project("refuses/criterion-near", criterion="equal_oportunity")
project("refuses/own-reference", criterion=WOMEN, reference={"sex": "Male"})
project("refuses/outcome", outcome=None)
project("refuses/groups", groups=None)
project("refuses/no-distance", score=None, threshold=None)
project("refuses/both-distances", distance="distance", score="score")
project("refuses/threshold-of-column", distance="distance", threshold=0.5)
project("refuses/not-fitted", distance=object())
project("refuses/no-threshold", prediction="better", threshold=None)
project("refuses/other-side", prediction="better")
project("refuses/law", law="published")
project("refuses/tolerance-percent", tolerance=5.0)
project("refuses/tolerance-empty", tolerance={})
project("refuses/tolerance-name", tolerance={"tnr": 0.1})
project("refuses/tolerance-side", tolerance=0.1, tolerance_side="upper")
project("refuses/published-tolerance", method="published", tolerance=0.1)
project("refuses/published-bandwidth", method="published", bandwidth=0.1)
project("refuses/curve", curve=True)
project("refuses/whole", whole=True)
project("refuses/published-weights", method="published", weight="weight")
project("refuses/whole-weights", weight="weight", then=lambda result: result.moved_rows(whole=True))
project("refuses/reference-column", reference={"region": "north"})
project("refuses/reference-level", reference={"race": "Martian"})
project("refuses/reference-condition", groups=iso.where("young", iso.col("age") < 30), reference={"young": True})
_calls.keep("corrected/refuses/bandwidth", lambda: iso.corrected(0))
project("refuses/distance-near", distance="distanse")
_calls.keep("Discerning/refuses/names", lambda: iso.Discerning(u=WOMEN.u, phi=WOMEN.phi, names=()))
_calls.keep("distances/refuses/linear", lambda: distances.Linear(("x",), (0.0,)))
