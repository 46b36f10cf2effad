"""The recommended algorithm, fitted on all rows after the test has rejected."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import isonomy as iso
from isonomy.alternatives import Recommendation
from isonomy.errors import UnknownColumn, UsageError
from support.tables import programme


def test_recommended(data: dict[str, Any], ask: dict[str, Any]) -> None:
    ask |= {"candidate": None, "rule": iso.group_aware("linear"), "features": ["x1", "x2", "lab"]}
    result = iso.improvability(data, **ask)
    assert result.reject
    best = result.recommended
    assert isinstance(best, Recommendation)
    assert not best.independent
    decided = best.decide(data)
    assert decided.mean() == pytest.approx(0.1, abs=0.01)
    for i, g in enumerate(("Black", "White")):
        chosen = (data["race"] == g) & (decided == 1)
        assert best.accuracy[i, 0] == pytest.approx(data["need"][chosen].mean())
    assert "not independent" in " ".join(result.findings())
    fewer = {name: column[:50] for name, column in data.items()}
    np.testing.assert_array_equal(best.decide(fewer), decided[:50])
    with pytest.raises(UsageError, match="groups"):
        best.decide(fewer | {"race": np.full(50, "Martian")})


def test_no_recommendation_without_rejection(data: dict[str, Any], ask: dict[str, Any]) -> None:
    result = iso.improvability(data, **ask, gain=iso.gain(accuracy=0.9))
    assert not result.reject
    assert result.recommended is None
    assert result.verdict == "inconclusive"
    assert "No less discriminatory alternative was shown" in result.summary()


def test_it_can_be_pickled_and_needs_only_its_columns(data: dict[str, Any], crossfit: dict[str, Any]) -> None:
    for rule in ("linear", "boosting", ["linear", "lasso"]):
        best = iso.improvability(data, **crossfit, rule=rule).recommended
        assert best is not None
        again = pickle.loads(pickle.dumps(best))
        new = {name: data[name][:40] for name in ("x1", "x2", "lab")}
        np.testing.assert_array_equal(again.decide(new), best.decide(new))
        np.testing.assert_array_equal(again.decide(new), (again.score(new) > again.cutoff_).astype(float))
        assert hasattr(best.estimator_, "predict")


def test_a_rule_that_looks_at_the_group_needs_it(data: dict[str, Any], crossfit: dict[str, Any]) -> None:
    best = iso.improvability(data, **crossfit, rule=iso.group_aware("linear")).recommended
    assert best is not None
    with pytest.raises(UnknownColumn, match="race"):
        best.decide({name: data[name] for name in ("x1", "x2", "lab")})


def test_the_cutoff_comes_from_rows_the_rule_had_not_seen(data: dict[str, Any], crossfit: dict[str, Any]) -> None:
    """A forest that is cut at its scores for its training rows would select too few."""
    from sklearn.ensemble import RandomForestRegressor

    best = iso.improvability(data, **crossfit, rule=RandomForestRegressor(20)).recommended
    assert best is not None
    fresh = programme(4_000, seed=9)
    assert best.decide(fresh).mean() == pytest.approx(0.1, abs=0.025)


def test_a_ready_candidate_decides_by_its_column(data: dict[str, Any], ready: dict[str, Any]) -> None:
    best = iso.improvability(data, **(ready | {"candidate": {"by need": "need_score"}})).recommended
    assert best is not None
    again = pickle.loads(pickle.dumps(best))
    decided = again.decide({"need_score": data["need_score"]})
    assert decided.mean() == pytest.approx(0.1, abs=0.001)
    np.testing.assert_array_equal(again.score({"need_score": data["need_score"][:5]}), data["need_score"][:5])


def test_cutoffs_by_group_show_the_estimator_behind_them(data: dict[str, Any], crossfit: dict[str, Any]) -> None:
    best = iso.improvability(data, **crossfit, rule="group_thresholds").recommended
    assert best is not None
    assert hasattr(best.estimator_, "predict")
