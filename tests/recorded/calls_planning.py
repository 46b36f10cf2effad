"""Planning of comparisons, and the simulated tables."""

from __future__ import annotations

from typing import Any

import isonomy as iso
from recorded.recording import Calls

_calls = Calls()
CALLS = _calls.calls
SIDES = ("two-sided", "greater", "less")
RATE: dict[str, Any] = {"rate": 0.3}
MEAN: dict[str, Any] = {"variance": 4.0}

ROWS: dict[str, dict[str, Any]] = {
    "detectable_disparity": {"n": 400, "reference_n": 900},
    "power_of": {"n": 400, "reference_n": 900},
    "rows_needed": {"ratio": 2.0},
}


def add(function: str, name: str, at: float = 0.08, **options: Any) -> None:
    """A call about a disparity, where the function takes one. A known reference has no rows."""
    rows = ROWS[function]
    if options.get("reference") == "known":
        rows = {key: value for key, value in rows.items() if key == "n"}
    asked: dict[str, Any] = {} if function == "detectable_disparity" else {"disparity": at}
    _calls.add(function, name, **asked, **rows, **options)


for _function in ROWS:
    for _reference in ("known", "group", "population"):
        add(_function, f"reference/{_reference}", reference=_reference, **RATE)
        add(_function, f"reference/{_reference}/variance", reference=_reference, **MEAN)
    for _side in SIDES:
        add(_function, f"side/{_side}", -0.08 if _side == "less" else 0.08, side=_side, **RATE)
    add(_function, "scale/difference", scale="difference", **RATE)
    add(_function, "scale/ratio", 0.8, scale="ratio", **RATE)
    add(_function, "scale/odds_ratio", 0.6, scale="odds_ratio", reference="group", **RATE)
    add(_function, "scale/ratio/mean", 0.8, scale="ratio", mean=5.0, **MEAN)
    add(_function, "scale/standardized", 0.3, scale="standardized")
    add(_function, "variance/pair", 0.5, reference="group", variance=(4.0, 9.0))
    add(_function, "tolerance", tolerance=0.02, **RATE)
    add(_function, "tolerance/ratio", 0.7, tolerance=0.9, scale="ratio", **RATE)
    add(_function, "cluster", cluster=(20, 0.05), **RATE)
    add(_function, "alpha/tests", alpha=0.1, tests=5, **RATE)
    add(_function, "refuses/rate-and-variance", **RATE, **MEAN)
    add(_function, "refuses/neither")
    add(_function, "refuses/odds-ratio", scale="odds_ratio", **MEAN)
    add(_function, "refuses/mean", mean=3.0, **RATE)
    add(_function, "refuses/cluster", cluster=(0.5, 2.0), **RATE)
    if _function != "power_of":
        add(_function, "power", power=0.9, reference="group", **RATE)
        add(_function, "refuses/power", power=0.01, **RATE)
    if _function != "detectable_disparity":
        add(_function, "within", 0.0, tolerance=0.1, reference="group", **RATE)
        add(_function, "refuses/at-the-end", tolerance=0.08, **RATE)
_calls.add("detectable_disparity", "keywords", n=500, reference="known", rate=0.4)
_calls.add("power_of", "keywords", disparity=0.05, standard_error=0.02)
_calls.add("power_of", "standard_error/options", 0.05, 0.02, tolerance=0.01, alpha=0.1, side="greater", tests=2)
_calls.add("power_of", "refuses/both", 0.05, 0.02, n=30, rate=0.3)
_calls.add("power_of", "refuses/standard-error-rate", 0.05, 0.02, rate=0.3)
_calls.add("rows_needed", "keywords", disparity=0.05, rate=0.4)
_calls.add("rows_needed", "refuses/ratio-known", 0.05, reference="known", ratio=2.0, rate=0.3)
_calls.add("rows_needed", "refuses/none", 0.0, rate=0.3)
_calls.add("rows_needed", "refuses/moved", 0.05, rate=0.3, alternative="less")

_calls.keep("simulate/decisions", lambda: _simulated(iso.simulate.decisions(500, 3)))
_calls.keep(
    "simulate/decisions/options",
    lambda: _simulated(
        iso.simulate.decisions(
            300,
            4,
            groups={"g": {"a": 0.6, "b": 0.4}},
            base_rate=0.5,
            tpr=0.8,
            fpr=0.2,
            planted={"g=b": {"tpr": -0.1, "base_rate": 0.1}},
        )
    ),
)
_calls.keep("simulate/lender", lambda: _simulated(iso.simulate.lender(400, 5)))
_calls.keep("simulate/uplift", lambda: _simulated(iso.simulate.uplift(400, 6)))
_calls.keep(
    "simulate/uplift/options",
    lambda: _simulated(
        iso.simulate.uplift(
            300,
            7,
            groups=["a", "b"],
            measure="difference",
            outcome="real",
            treated=0.4,
            baseline=0.3,
            effect=0.1,
            error={"b": 0.2},
            heterogeneity=0.1,
            predicted_heterogeneity=0.3,
            trend=0.4,
            predicted_trend=0.2,
            noise=0.05,
        )
    ),
)
_calls.keep("simulate/refuses/planted", lambda: iso.simulate.decisions(100, planted={"race=Green": {"tpr": 0.1}}))
_calls.keep("simulate/refuses/groups", lambda: iso.simulate.uplift(100, groups=0))


def _simulated(made: Any) -> dict[str, Any]:
    return {"rows": made.frame(), "truth": made.truth}
