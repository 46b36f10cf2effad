"""Recorded calls with groups known only by probability."""

from __future__ import annotations

from functools import partial
from typing import Any

import isonomy as iso
from recorded import tables
from recorded.recording import REFUSES, Calls, Late

LENDER = iso.simulate.lender(1_500, 7, proxies=True).frame()
COLUMNS = {"White": "p_white", "Black": "p_black", "Hispanic": "p_hispanic", "Asian": "p_asian"}
WHITE = {"race": "White"}

_calls = Calls()
CALLS = _calls.calls


def race(**options: Any) -> Any:
    return iso.proxy("race", options.pop("columns", COLUMNS), **options)


def flag(name: str, data: Any = LENDER, then: Any = None, groups: Any = None, **options: Any) -> None:
    given: dict[str, Any] = {"metric": "selection_rate", "prediction": "approved", "reference": WHITE} | options
    _calls.add("flag", f"proxy/{name}", data, then=then, groups=race() if groups is None else groups, **given)


flag("bracket")
flag("tolerance", tolerance=0.02)
for _assume in ("weighted", "linear", "nothing", 0.3, (0.2, 0.6)):
    flag(f"assume/{_assume}", groups=race(assume=_assume), tolerance=0.05)
flag("assume/names", groups=race(assume="names", place="place"))
flag("known/random", groups=race(known="known", known_rows="random"))
flag("known/other", groups=race(known="known", known_rows="other"))
flag("other", groups=race(columns={"White": "p_white", "Black": "p_black"}, other="others"))
flag("reference/population", reference="population")
flag("reference/rest", reference="rest")
flag("ratio", scale="ratio", tolerance=0.8)
flag("condition", metric="tpr", outcome="repaid")
flag("mean", metric="mean_prediction", prediction="income")
flag("cluster", cluster="user")
flag("weight", weight="income")
flag("then/sensitivity", then=lambda result: result.sensitivity("polars").to_dict(as_series=False))
flag(
    "then/calibration",
    groups=race(known="known", known_rows="other"),
    then=lambda result: result.calibration("polars").to_dict(as_series=False),
)
for _engine in tables.ENGINES:
    flag(f"engine/{_engine}", Late(partial(tables.in_engine, _engine, LENDER)))
_calls.add("adverse_impact", "proxy/bracket", LENDER, groups=race(), prediction="approved", reference=WHITE)
_calls.add("adverse_impact", "proxy/linear", LENDER, groups=race(assume=1.0), prediction="approved", reference=WHITE)
_refused: dict[str, dict[str, Any]] = {
    "depth": {"depth": 2},
    "metric": {"metric": "f1", "outcome": "repaid"},
    "reference": {"reference": "highest"},
    "sums": {"groups": race(columns={"White": "p_white", "Black": "p_black"})},
    "share": {"groups": race(assume=9.0)},
}
for _name, _options in _refused.items():
    given: dict[str, Any] = {"metric": "selection_rate", "prediction": "approved", "groups": race(), "reference": WHITE}
    _calls.add("flag", f"proxy{REFUSES}{_name}", LENDER, **(given | _options))
for _word in ("bracket", "weighted", "linear", "names", "nothing", "validated", 0.5, (0.0, 0.5), None):
    _calls.add(
        *("proxy", f"assume/{_word}", "race", {"White": "p_white"}),
        other="Other",
        assume=_word,
        place="place" if _word == "names" else None,
        known="known",
        known_rows="random",
    )
_calls.add("proxy", "known_rows/other", name="race", probabilities=COLUMNS, known="known", known_rows="other")
_calls.add("proxy", "known_rows/none", "race", COLUMNS, known_rows=None)
_calls.add("certify", f"proxy{REFUSES}certify", LENDER, metric="selection_rate", prediction="approved", groups=race())
