"""Adverse impact: decisions and scores, comparators, adjustments, designs."""

from __future__ import annotations

from functools import partial
from typing import Any

import isonomy as iso
from recorded import tables
from recorded.recording import Calls, Late

TABLE, GAPS, FEW = tables.decisions(), tables.gaps(), tables.few()
LABELS = iso.Labels(values={"sex": {"Female": "women"}}, metrics={"selection_rate": "approval rate"})

_calls = Calls()
CALLS = _calls.calls


def impact(name: str, data: Any = TABLE, then: Any = None, **options: Any) -> None:
    given: dict[str, Any] = {"prediction": "prediction", "groups": ["race", "sex"], "rng": 1} | options
    _calls.add("adverse_impact", name, data, then=then, **given)


impact("plain")
impact("one-table", groups="race")
impact("depth-2", depth=2)
impact("cut", groups=[iso.cut("age", [40]), "sex"])
impact("where", groups=iso.where("young", iso.col("age") < 30))
impact("score", prediction=None, score="score")
impact("score/depth-2", prediction=None, score="amount", depth=2)
impact("score/decisions", score="score")
impact("reference/highest", reference="highest")
impact("reference/levels", reference={"race": "White", "sex": "Male"})
impact("reference/group", groups="race", reference=iso.Group.from_mapping({"race": "White"}))
impact("threshold", threshold=0.9)
impact("threshold/low", threshold=0.3)
impact("alpha", alpha=0.2, missing="raise", missing_group="raise")
for _adjust in ("holm", "bonferroni", "bh", "by", "none"):
    impact(f"adjust/{_adjust}", adjust=_adjust, threshold=0.95)
impact("min_size", min_size=100)
impact("smallest_share", smallest_share=0.1)
impact("count", count="count")
impact("count/aggregated", tables.counted(), count="rows")
impact("weight", weight="weight")
impact("weight/score", weight="weight", prediction=None, score="score")
impact("cluster", cluster="household")
impact("cluster/reference", cluster="household", reference={"race": "White", "sex": "Male"}, threshold=0.9)
impact("missing/drop", GAPS, missing="drop", missing_group="drop", prediction=None, score="score")
impact("missing/level", GAPS, missing_group="level")
impact("missing/level/reference", GAPS, missing_group="level", groups="race", reference={"race": "White"})
impact("few", FEW, groups="group", prediction="selected")
impact("few/min_size", FEW, groups="group", prediction="selected", min_size=1, threshold=0.5)
impact("condition", prediction=iso.col("approved") == "yes")
impact("labels", Late(lambda: iso.open_source(TABLE, labels=LABELS)))
for _engine in tables.ENGINES:
    impact(f"engine/{_engine}", Late(partial(tables.in_engine, _engine, TABLE)))
impact("then/published", FEW, groups="group", prediction="selected", then=lambda result: result.published(35))
impact("then/verdicts", then=lambda result: [result.verdicts, result.below_threshold, result.difference_shown])

impact("refuses/nothing-decided", prediction=None)
impact("refuses/column-near", prediction="Prediction")
impact("refuses/reference-word", reference="lowest")
impact("refuses/reference-number", reference=0.5)
impact("refuses/reference-incomplete", reference={"race": "White"})
impact("refuses/reference-stranger", reference={"race": "White", "sex": "Male", "region": "north"})
impact("refuses/reference-level", reference={"race": "white", "sex": "Male"})
impact("refuses/threshold", threshold=80)
impact("refuses/adjust", adjust="max-t")
impact("refuses/smallest_share", smallest_share=1.0)
impact("refuses/missing-groups", GAPS)
impact("refuses/not-binary", prediction="amount")
impact("given", groups="race", reference={"race": "White"}, given=iso.comparable("age", "sex"))
