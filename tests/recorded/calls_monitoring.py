"""Monitoring: metrics, references, scales, methods, adjustments, designs, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np

import isonomy as iso
from recorded import tables
from recorded.recording import REFUSES, Calls

_calls = Calls()
CALLS = _calls.calls


def weekly() -> dict[str, Any]:
    """The table of decisions, with weeks, people who return, and a drop from week 6 on."""
    table = tables.decisions(3_600).to_dict()
    size = 3_600
    rng = np.random.default_rng(11)
    week = np.arange(size) * 12 // size
    race = np.asarray(table["race"])
    drop = (race == sorted(set(race.tolist()))[0]) & (week >= 6) & (rng.random(size) < 0.5)
    prediction = np.where(drop, 0, np.asarray(table["prediction"]))
    return table | {"week": week, "prediction": prediction, "person": rng.integers(0, 400, size)}


TABLE = weekly()


def monitor(name: str, data: Any = TABLE, then: Any = None, **options: Any) -> None:
    given = {"batch": "week", "metric": "selection_rate", "prediction": "prediction", "groups": ["race", "sex"]}
    _calls.add("monitor", name, data, then=then, **(given | options))


monitor("plain")
monitor("tolerance", tolerance=0.05)
monitor("metrics", metric=["tpr", "fpr"], outcome="outcome")
monitor("numbers", metric="mean_prediction", prediction="score", tolerance=0.1)
monitor("reference/group", reference={"sex": "Male"}, groups="sex")
monitor("reference/number", reference=0.4)
monitor("reference/population", reference="population")
monitor("scale/ratio", scale="ratio", tolerance=0.8)
monitor("method/exact", scale="odds_ratio", method="exact")
monitor("method/prior", method=iso.mixture(prior=0.1))
monitor("method/greater", method=iso.mixture(side="greater"))
monitor("method/simultaneous", method=iso.mixture(side="less", interval="simultaneous"))
monitor("center", method=iso.mixture(center=-0.05), tolerance=0.02)
monitor("alpha", alpha=0.2, missing_group="raise")
monitor("weight", weight=None, groups="sex")
monitor("scale/difference", scale="difference", method="mixture", adjust="holm", better="higher")
monitor("score", metric="brier", outcome="outcome", score="score")
monitor("positive", TABLE | {"prediction": np.where(TABLE["prediction"] == 1, "yes", "no")}, positive="yes")
monitor("count", TABLE | {"times": np.full(3_600, 2)}, count="times")
monitor("missing", missing="drop", missing_group="drop")
monitor("missing/level", missing="raise", missing_group="level")
monitor("adjust/e-bh", adjust="e-bh")
monitor("adjust/none", adjust="none")
monitor("run_length", method=iso.mixture(run_length=20))
monitor("run_length/none", method=iso.mixture(run_length=None))
monitor("better", better="lower")
monitor("depth", depth=2, reference="rest")
monitor("min_size", min_size=300)
monitor("cluster", cluster="person", groups="race")
monitor("published", then=lambda result: result.published(200))
monitor("history", then=lambda result: result.history().to_dict(as_series=False), groups="sex")
monitor(f"options{REFUSES}batch", batch=None)
monitor(f"options{REFUSES}center", center=-0.05)
monitor(f"options{REFUSES}run-length", run_length=20)
monitor(f"options{REFUSES}highest", reference="highest")
monitor(f"options{REFUSES}weight", weight="week")
monitor(f"options{REFUSES}ratio-of-people", scale="ratio", cluster="person")
