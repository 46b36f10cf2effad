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
    NotBinary,
    NotEnoughData,
    UnknownColumn,
    UnknownOption,
    UsageError,
    WrongType,
)
from isonomy.frames import Source, open_source
from isonomy.results.call import QUESTIONS, Planned
from support.tables import margins, measured, rated, rising, scored

ROLES: dict[str, Any] = {"outcome": "y", "score": "s", "groups": "g"}


AT_HALF: dict[str, Any] = {"outcome": "y", "score": "s", "groups": "g", "threshold": 0.5}


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
        ({"grid": {0.5}}, UsageError),
        ({"grid": -1e308}, UsageError),
        ({"grid": [0.1, np.nan]}, UsageError),
        ({"grid": [0.8, 0.2]}, UsageError),
        ({"reference": {"g": "z"}}, UsageError),
        ({"reference": "a"}, UsageError),
        ({"tolerance": 5}, UsageError),
        ({"bandwidth": 1e-5}, UsageError),
        ({"bandwidth": "cross"}, UnknownOption),
        ({"order_tolerance": -1}, UsageError),
        ({"order": "no"}, UsageError),
        ({"order": False, "order_tolerance": 0.1}, UsageError),
        ({"method": "published", "order_tolerance": 0.1}, UsageError),
        ({"method": "cumulative", "grid": 0.5}, UsageError),
        ({"order": True, "grid": 0.5}, UsageError),
        ({"method": "trend", "grid": [0.5]}, UsageError),
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


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"target": "recall"}, UnknownOption, "target"),
        ({"target": "tpr", "outcome": None}, MissingRole, "outcome: needed for target='tpr'"),
        ({"target": "tpr", "bandwidth": 0.1}, UsageError, "bandwidth: 0.1 has no effect"),
        ({"target": "tpr", "level": "aggregate"}, UsageError, "level: 'aggregate' has no effect"),
        ({"randomize": True}, UsageError, "a lottery has no margin"),
        ({"target": "tpr", "direction": "raise", "capacity": 0.2}, UsageError, "capacity: .* cannot keep a rate"),
        ({"capacity": 1.5}, UsageError, "capacity"),
        ({"threshold": 2.0, "target": "tpr"}, EmptyFrame, "threshold: no row has a score of 2 or more"),
        ({"threshold": -1.0, "target": "tpr"}, UsageError, "threshold: every score is -1 or more"),
        ({"outcome": "s", "target": "tpr"}, NotBinary, "outcome: column 's' has values that are neither 0 nor 1"),
    ],
)
def test_thresholds_say_what_is_wrong(options: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        equalize_thresholds(margins(500), **(AT_HALF | options))


def test_thresholds_of_groups_without_events() -> None:
    data = margins(2_000)
    data["y"] = np.where(data["g"] == "b", 0, data["y"])
    with pytest.raises(NotEnoughData, match="one group has enough rows to know the true positive rate"):
        equalize_thresholds(data, **AT_HALF, target="tpr")
    one = data | {"m": np.zeros(data["s"].size, dtype=int)}
    with pytest.raises(NotEnoughData, match="no group has enough"):
        equalize_thresholds(one, **AT_HALF, target="selection_rate", user="m")


@pytest.mark.parametrize("threshold", [np.float32(0.5), np.float64(0.5), np.array(0.5)[()]])
def test_thresholds_of_numpy_are_numbers(threshold: Any) -> None:
    data, ask = rated(rising, n=3_000), AT_HALF | {"resamples": 100}
    plain = equalize_thresholds(data, **ask)
    found = equalize_thresholds(data, **(ask | {"threshold": threshold}))
    np.testing.assert_array_equal(found.thresholds, plain.thresholds)
    whole = equalize_thresholds(data | {"s": data["s"] * 10}, **(ask | {"threshold": np.int64(5)}))
    assert whole.threshold == 5.0
    with pytest.raises(iso.errors.UsageError, match="threshold"):
        equalize_thresholds(data, **(ask | {"threshold": np.True_}))


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
