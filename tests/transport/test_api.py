"""`project` as it is called: options checked by their annotations, seeds, what is recorded."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import polars as pl
import pytest

import isonomy as iso
from isonomy import errors
from isonomy.audit import Audit
from isonomy.transport import distances, estimators
from support.tables import decided

ROLES: dict[str, Any] = {"outcome": "y", "prediction": "c"}
SCORE: dict[str, Any] = ROLES | {"score": "score", "threshold": 0.2}


def test_the_same_seed_gives_the_same_pvalue() -> None:
    data = decided(shift=0.1)
    first, second, other = (
        iso.project(data, groups="group", tolerance=0.01, rng=seed, **SCORE).pvalue for seed in (1, 1, 2)
    )
    assert first == second
    assert first != other


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"criterion": "equal_odds"}, errors.UnknownOption, "mean 'equalized_odds'"),
        ({"criterion": "demographic_parity"}, errors.UnknownOption, "It is called 'statistical_parity' here"),
        ({"criterion": "TPR"}, errors.UnknownOption, "It is called 'equal_opportunity' here.* Allowed: equal_opp"),
        ({"criterion": 3}, errors.UsageError, "criterion: 3 is not allowed; give 'equal_opportunity', .* a Discerning"),
        (
            {"tolerance": -0.1},
            errors.UsageError,
            "tolerance: -0.1 is not allowed; give a number from 0 up, a mapping or None",
        ),
        ({"tolerance": "wide"}, errors.UsageError, "tolerance: 'wide'"),
        ({"tolerance": True}, errors.UsageError, "tolerance: True"),
        ({"tolerance": 0.1, "tolerance_side": "left"}, errors.UnknownOption, "both, upper, lower"),
        ({"bandwidth": 0.0}, errors.UsageError, "bandwidth"),
        ({"bandwidth": "x"}, errors.UsageError, "bandwidth: 'x' is not allowed; give a number above 0, in units of"),
        ({"bandwidth": True}, errors.UsageError, "bandwidth: True is not allowed"),
        ({"alpha": 1.5}, errors.UsageError, "alpha"),
        ({"threshold": np.nan}, errors.UsageError, "threshold"),
        ({"threshold": "half"}, errors.UsageError, "threshold: 'half'"),
        ({"reference": "a"}, errors.UsageError, "reference: 'a' is not allowed; give a mapping"),
    ],
)
def test_options_are_what_their_annotations_say(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        iso.project(decided(), **({"groups": "group"} | SCORE | options))


def test_what_was_asked_is_recorded() -> None:
    exact = iso.project(decided(), groups="group", rng=4, **SCORE).provenance
    assert exact.call == "project"
    assert exact.options["threshold"] == 0.2
    assert exact.options["missing"] == "raise"
    assert exact.seed is None  # nothing was drawn
    tolerant = iso.project(decided(), groups="group", tolerance=0.01, rng=4, **SCORE).provenance
    assert tolerant.seed is not None
    assert tolerant.seed.entropy == 4


def test_an_audit_can_ask() -> None:
    from isonomy.results import QUESTIONS

    asked = QUESTIONS["project"]
    assert asked.idle({"distance": "d", "score": "s"}) == {"score"}
    assert not asked.idle({"score": "s"})


def test_distances_are_found_under_both_names() -> None:
    assert import_module("isonomy.transport.distances") is distances
    assert import_module("isonomy.transport.estimators") is estimators


def test_an_audit_file_says_what_a_call_says() -> None:
    data = pl.DataFrame(decided(shift=0.4) | {"person": np.arange(2_000) // 2})
    tolerance = {"tpr": 0.05, "fpr": {"below": 0.1}}
    options: dict[str, Any] = {"criterion": "equalized_odds", "threshold": 0.2, "tolerance": tolerance, "whole": True}
    columns: dict[str, Any] = {"outcome": "y", "prediction": "c", "score": "score"}
    test = {"kind": "project", "groups": ["group"], **options}
    audit = Audit.from_dict({"seed": 3, "data": {"cluster": "person"}, "columns": columns, "tests": [test]}, data=data)
    (entry,) = audit.run().entries
    assert isinstance(entry.result, iso.ProjectionResult)
    called = iso.project(data, groups="group", cluster="person", rng=3, **columns, **options)
    assert entry.result.statistic == pytest.approx(called.statistic, rel=1e-12)
    assert entry.result.equivalence_pvalue == called.equivalence_pvalue
    assert entry.result.null == called.null
