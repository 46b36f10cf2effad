"""What fits together, what is known from the schema alone, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isonomy as iso
from isonomy.errors import MissingRole, UnknownOption, UsageError
from isonomy.frames import Source
from isonomy.results.call import QUESTIONS
from isonomy.treatment.plan import CorrectionsPlan, Plan, idle_roles, plan
from support.tables import experiment

ROLES: dict[str, Any] = {"effect": "effect", "treatment": "treatment", "outcome": "outcome", "groups": "group"}


def asked(columns: dict[str, Any] | None = None, **options: Any) -> Plan:
    return plan(iso.open_source(experiment(100) if columns is None else columns), **{**ROLES, **options})


def corrections(source: Source, **options: Any) -> CorrectionsPlan:
    asked = QUESTIONS["evaluate_corrections"].planned(source, ROLES | options)
    assert isinstance(asked, CorrectionsPlan)
    return asked


def test_the_pass_can_be_made_before(monkeypatch: pytest.MonkeyPatch) -> None:
    source = iso.open_source(experiment())
    source.prefetch(plan(source, **ROLES).requests)
    monkeypatch.setattr(source, "_pass", None)  # another pass would fail
    assert np.isfinite(iso.treatment_bias(source, **ROLES).bias).all()


def test_one_pass_is_asked_for() -> None:
    requests = asked().requests
    assert len(requests) == 1
    assert len(requests[0].values) == 6  # y, yf, the three products of the two, and the cube of y


@pytest.mark.parametrize("options", [{"split": "independent"}, {"estimator": "aipw", "features": ["x"]}])
def test_no_pass_is_known_before_rows_are_drawn_or_fitted(options: dict[str, Any]) -> None:
    assert asked(**options).requests == ()


def test_a_split_by_column_is_one_pass() -> None:
    (request,) = asked({**experiment(100), "half": np.arange(100) % 2}, split="half").requests
    assert dict(request.binary) == {"treatment": "treatment", "split": "half"}


def test_the_plan_reads_no_row(monkeypatch: pytest.MonkeyPatch) -> None:
    source = iso.open_source(experiment(100))
    for name in ("_pass", "rows", "cells", "sums"):
        monkeypatch.setattr(source, name, None)
    assert plan(source, **ROLES).requests


def test_a_baseline_that_nothing_looks_at_is_refused() -> None:
    others: list[dict[str, Any]] = [{}, {"measure": "difference"}, {"collapse": "average"}]
    for options in others:
        with pytest.raises(UsageError, match=r"baseline: .* does not look at it"):
            iso.treatment_bias(experiment(), **ROLES, baseline="baseline", **options)


def test_the_default_follows_the_measure() -> None:
    assert asked().formula.collapse == "control_outcome"
    assert asked(measure="difference").formula.collapse == "average"
    brought = {"treatment": None, "outcome": None, "observed_effects": {"a": (1.0, 0.1)}}
    assert asked(**brought, baseline="baseline").formula.collapse == "normalised"


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(UsageError, match="difference"):
        asked(collapse="control_outcome", measure="difference")
    with pytest.raises(MissingRole, match="baseline"):
        asked(collapse="normalised")
    with pytest.raises(UnknownOption, match="Did you mean 'control_outcome'"):
        iso.treatment_bias(experiment(100), **ROLES, collapse="control_outcomes")  # type: ignore[arg-type]
    with pytest.raises(UnknownOption, match="measure"):
        iso.treatment_bias(experiment(100), **ROLES, measure="ratio")  # type: ignore[arg-type]


def test_every_brought_effect_is_checked_and_must_be_a_pair() -> None:
    with pytest.raises(UsageError, match="nobody has 3"):
        asked(observed_effects={"a": (1.0, 0.1), "nobody": 3})
    with pytest.raises(UsageError, match="observed_effects: 3; give a mapping"):
        asked(observed_effects=3)
    with pytest.raises(UsageError, match="independent already"):
        asked(treatment=None, measure="difference", observed_effects={"a": (1.0, 0.1)}, split="independent")


def test_roles_that_nothing_would_look_at() -> None:
    assert idle_roles({}) == {"features", "baseline"}
    assert idle_roles({"estimator": "aipw"}) == {"baseline"}
    assert idle_roles({"estimator": "regression", "collapse": "weighted"}) == set()
    assert idle_roles({"collapse": "normalised"}) == {"features"}
    assert idle_roles({"collapse": "average"}) == {"features", "baseline"}


def test_the_number_of_buckets_is_even() -> None:
    source = iso.open_source(experiment(100))
    with pytest.raises(UsageError, match="a multiple of 2"):
        corrections(source, buckets=7)
    assert corrections(source, strategies=["mean"]).strategies == ("none", "mean")
    assert corrections(source).requests == ()
