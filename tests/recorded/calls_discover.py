"""Discovery: every option, engines, what was found as groups, and refusals."""

from __future__ import annotations

from functools import partial
from typing import Any

import isonomy as iso
from recorded import tables
from recorded.recording import Calls, Late

TABLE, GAPS = tables.decisions(), tables.gaps()
LABELS = iso.Labels(values={"sex": {"Female": "women"}}, metrics={"selection_rate": "approval rate"})
FEATURES = ["race", "sex", "age", "region", "income"]

_calls = Calls()
CALLS = _calls.calls


def discover(name: str, data: Any = TABLE, then: Any = None, **options: Any) -> None:
    given: dict[str, Any] = {"metric": "selection_rate", "prediction": "prediction", "features": FEATURES, "rng": 1}
    _calls.add("discover", name, data, then=then, **given | options)


discover("plain")
discover("features/cut", features=[iso.cut("age", [30, 50]), "sex", "debt"])
discover("features/where", features=[iso.where("young", iso.col("age") < 30), "race"])
discover("metric/tpr", metric="tpr", outcome="outcome")
discover("metric/brier", metric="brier", outcome="outcome", score="score")
discover("metric/own", metric=iso.Metric("amount", value=iso.col("amount")))
discover("positive", metric="selection_rate", prediction="approved", positive="yes")
discover("reference/number", reference=0.6)
discover("scale/ratio", scale="ratio", tolerance=0.9)
discover("scale/odds_ratio", scale="odds_ratio")
discover("side/better", side="better")
discover("side/both", side="both")
discover("better", better="lower")
discover("words", better="higher", side="worse", reference="rest", scale="difference", evidence="crossfit")
discover("tolerance", tolerance=0.02)
discover("alpha", alpha=0.2, missing="raise", missing_group="raise")
discover("most", most=2)
discover("min_size", min_size=60)
discover("search/all", search=iso.search(depth=2, cuts=4, min_share=0.1))
discover("evidence/all", evidence="all")
discover("evidence/all/certified", evidence="all", tolerance=0.6, features=["sex", "region"])
discover("given", given="better")
discover("given/ratio", given=["better", iso.cut("debt", [0])], scale="ratio")
discover("count", count="count")
discover("weight", weight="weight")
discover("cluster", cluster="household")
discover("missing/level", GAPS, missing_group="level")
discover("missing/drop", GAPS, missing_group="drop", missing="drop", metric="tpr", outcome="outcome")
discover("labels", Late(lambda: iso.open_source(TABLE, labels=LABELS)))
for _engine in tables.ENGINES:
    discover(f"engine/{_engine}", Late(partial(tables.in_engine, _engine, TABLE)))
discover("then/toml", then=lambda result: result.to_toml())
discover("then/found", then=lambda result: [group.name for group in result.groups_found])
discover("then/published", then=lambda result: result.published(70))

discover("refuses/the-prediction", features=["prediction", "sex"])
discover("refuses/nothing", features=[])
discover("refuses/column-near", features=["Sex"])
discover("refuses/auc", metric="auc", outcome="outcome", score="score")
discover("refuses/several", metric=["tpr", "fpr"], outcome="outcome")
discover("refuses/few-rows", min_size=400)
discover("refuses/missing-groups", GAPS)
_ALL: dict[str, dict[str, Any]] = {
    "weight": {"weight": "weight"},
    "given": {"given": "better"},
    "numbers": {"metric": "mean_prediction"},
    "depth": {"search": iso.search(depth=3)},
}
for _name, _options in _ALL.items():
    discover(f"refuses/all-{_name}", evidence="all", **_options)
