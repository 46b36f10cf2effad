"""What is refused before a row is read, and what a plan will ask."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

import isonomy as iso
from isonomy.calibration import (
    calibration_metrics,
    equalize_thresholds,
    marginal_outcomes,
    predictive_parity,
)
from isonomy.calibration.plan import Plan
from isonomy.calibration.tally import tally
from isonomy.errors import (
    EmptyFrame,
    MissingRole,
    NotEnoughData,
    UnknownColumn,
    UnknownOption,
    UsageError,
    WrongType,
)
from isonomy.frames import Source, open_source
from isonomy.results.call import QUESTIONS, Planned
from support.tables import scored

ROLES: dict[str, Any] = {"outcome": "y", "score": "s", "groups": "g"}


AT_HALF: dict[str, Any] = {"outcome": "y", "score": "s", "groups": "g", "threshold": 0.5}


def margins(n: int = 3_000, power: float = 1.0, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    g = np.repeat(["a", "b"], n)
    s = np.concatenate([rng.beta(2, 3, n), rng.beta(3, 2, n)])
    y = (rng.random(2 * n) < np.where(g == "b", s**power, s)).astype(float)
    return {"s": s, "y": y, "g": g, "m": rng.integers(0, n // 2, 2 * n)}


def rated(rate: Any, n: int = 10_000, seed: int = 0) -> dict[str, Any]:
    """Groups a and b with uniform scores and E[Y | s, g] = rate(s, g)."""
    rng = np.random.default_rng(seed)
    s, g = rng.random(2 * n), np.repeat(["a", "b"], n)
    return {"s": s, "g": g, "y": (rng.random(2 * n) < rate(s, g)).astype(float)}


def rising(s: Any, g: Any) -> Any:
    return np.where(g == "a", s, s**1.5)


def measured(n: int = 4_000, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    s = rng.beta(2, 3, n)
    return {"s": s, "g": rng.choice(["a", "b"], n), "y": (rng.random(n) < s).astype(int), "m": rng.integers(0, 900, n)}


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"outcome": "nope"}, UnknownColumn),
        ({"score": "g"}, WrongType),
        ({"groups": []}, UsageError),
        ({"level": "user"}, MissingRole),
        ({"level": "rows"}, UnknownOption),
        ({"method": "nw"}, UnknownOption),
        ({"kernel": "box"}, UnknownOption),
        ({"adjust": "bh"}, UnknownOption),
        ({"alpha": 0}, UsageError),
        ({"alpha": 5}, UsageError),
        ({"resamples": 3}, UsageError),
        ({"tolerance": -1}, UsageError),
        ({"bandwidth": 0}, UsageError),
        ({"bandwidth": "wide"}, UsageError),
        ({"bandwidth": [0.1, 0.2]}, UsageError),
        ({"grid": []}, UsageError),
        ({"grid": [0.1, np.nan]}, UsageError),
        ({"grid": [0.8, 0.2]}, UsageError),
        ({"reference": {"g": "z"}}, UsageError),
        ({"reference": "a"}, UsageError),
        ({"tolerance": 5}, UsageError),
        ({"tolerance": 0.1, "method": "cumulative"}, UsageError),
        ({"rng": -1}, UsageError),
    ],
)
def test_bad_arguments_of_parity(options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        predictive_parity(scored(n=200), **(ROLES | options))


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"threshold": np.nan}, UsageError),
        ({"threshold": "0.5"}, UsageError),
        ({"method": "cubic"}, UnknownOption),
        ({"adjust": "sup-t"}, UnknownOption),
        ({"bandwidth": -1}, UsageError),
        ({"tolerance": 5}, UsageError),
        ({"reference": "a"}, UsageError),
        ({"threshold": 50}, EmptyFrame),
    ],
)
def test_bad_arguments_of_marginal_outcomes(options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        marginal_outcomes(margins(200), **(AT_HALF | options))


def test_thresholds_refuse() -> None:
    data = margins(500)
    with pytest.raises(UsageError):
        equalize_thresholds(data | {"h": data["g"]}, **(AT_HALF | {"groups": ["g", "h"]}))
    with pytest.raises(UnknownOption):
        equalize_thresholds(data, **(AT_HALF | {"direction": "up"}))
    lost = {k: v[(data["g"] != "b") | (data["s"] < 0.5)] for k, v in data.items()}
    extra = {k: np.append(v, v[:1]) for k, v in lost.items()}
    extra["g"][-1], extra["s"][-1] = "c", 0.6
    with pytest.raises(NotEnoughData):
        equalize_thresholds(extra, **AT_HALF)


@pytest.mark.parametrize("threshold", [np.float32(0.5), np.float64(0.5), np.array(0.5)[()]])
def test_thresholds_of_numpy_are_numbers(threshold: Any) -> None:
    data = rated(rising, n=3_000)
    plain = equalize_thresholds(data, **AT_HALF)
    found = equalize_thresholds(data, **(AT_HALF | {"threshold": threshold}))
    np.testing.assert_array_equal(found.thresholds, plain.thresholds)
    whole = equalize_thresholds(data | {"s": data["s"] * 10}, **(AT_HALF | {"threshold": np.int64(5)}))
    assert whole.threshold == 5.0
    with pytest.raises(iso.errors.UsageError, match="threshold"):
        equalize_thresholds(data, **(AT_HALF | {"threshold": np.True_}))


@pytest.mark.parametrize("score", [[], {}, 5, None, [5], {1: "s"}])
def test_scores_are_columns(score: Any) -> None:
    with pytest.raises(UsageError, match=r"^score:"):
        calibration_metrics(measured(100), outcome="y", score=score, groups="g")


def planned(name: str, source: Source, **options: Any) -> Planned:
    return QUESTIONS[name].planned(source, options)


def parity(source: Source, **options: Any) -> Plan:
    asked = planned("predictive_parity", source, **ROLES, **options)
    assert isinstance(asked, Plan)
    return asked


def test_a_plan_says_what_an_engine_is_asked_first(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = scored(200)
    assert parity(open_source(columns)).requests == ()
    source = open_source(pl.LazyFrame(columns))
    plan = parity(source, user="m")
    source.prefetch(plan.requests)
    monkeypatch.setattr(source, "_pass", None)  # no further grouped pass can be made
    assert tally(source, plan).rows == 400
    assert planned("marginal_outcomes", source, **AT_HALF).requests == ()
    assert (
        len(planned("calibration_metrics", source, outcome="y", score={"a": "s", "b": "y"}, groups="g").requests) == 2
    )


def test_the_level_follows_the_user() -> None:
    source = open_source(scored(200))
    assert parity(source).rows.level == "aggregate"
    assert parity(source, user="m").rows.level == "user"
    assert parity(source, user="m", level="aggregate").rows.level == "aggregate"
