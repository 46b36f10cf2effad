"""Filters, groups, metrics and references as a file writes them, and as the functions take them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
import pytest
from pydantic import TypeAdapter, ValidationError

import isonomy as iso
from isonomy.audit import Audit
from isonomy.audit.conditions import (
    Condition,
    Cut,
    EstimateOf,
    GroupSpec,
    OwnMetric,
    Reference,
    Where,
    columns_of,
    groups,
    metric,
    reference,
)
from isonomy.errors import ConfigError
from isonomy.frames.groups import Cut as CutGroup
from isonomy.frames.groups import Where as WhereGroup
from isonomy.likelihood import Estimate
from support.same import same

YOUNG = {"column": "age", "op": "<", "value": 25}


def test_a_condition_compares_with_equality_unless_told_otherwise() -> None:
    assert Condition.model_validate({"column": "sex", "value": "Male"}).comparison.operator == "=="
    with pytest.raises(ValidationError, match='op "<" takes one value'):
        Condition.model_validate({**YOUNG, "value": [1, 2]})


@pytest.mark.parametrize("edges", [[45.0, 25.0], [25.0, 25.0]])
def test_edges_increase(edges: list[float]) -> None:
    with pytest.raises(ValidationError, match="must increase"):
        Cut(column="age", edges=edges)


@pytest.mark.parametrize(
    ("written", "kind"),
    [
        ("race", str),
        ({"column": "age", "edges": [25, 45]}, Cut),
        ({"name": "young", "where": [YOUNG]}, Where),
    ],
)
def test_what_a_group_is_follows_from_its_keys(written: object, kind: type) -> None:
    spec = TypeAdapter[Any](GroupSpec).validate_python(written)
    assert type(spec) is kind
    assert TypeAdapter[Any](GroupSpec).validate_python(spec) == spec


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("rest", "rest"),
        (0.5, 0.5),
        ({"race": "White"}, {"race": "White"}),
        ({"value": 0.5, "influence": "i"}, EstimateOf(value=0.5, influence="i")),
    ],
)
def test_what_a_reference_is_follows_from_its_keys(written: object, expected: object) -> None:
    assert TypeAdapter[Any](Reference).validate_python(written) == expected


def test_references_become_estimates() -> None:
    assert reference(EstimateOf(value=0.5, influence="i")) == Estimate(0.5, "i")
    assert reference("population") == "population"


def test_groups_become_those_of_the_functions() -> None:
    young = Where(name="young", where=[Condition.model_validate(YOUNG)])
    column, cut, named = (groups(spec) for spec in ("race", Cut(column="age", edges=[25.0]), young))
    assert column == "race"
    assert cut == CutGroup("age", (25.0,))
    assert isinstance(named, WhereGroup)
    assert named.name == "young"
    assert groups("race") == "race"
    assert groups(["race"]) == ["race"]


def test_a_metric_of_one_s_own_becomes_that_of_the_functions() -> None:
    own = metric(OwnMetric(name="thin", value="ok", where=[Condition.model_validate(YOUNG)], binary=True))
    assert isinstance(own, iso.Metric)
    assert (own.name, own.binary) == ("thin", True)
    assert own.where is not None
    median = metric(OwnMetric(name="median", value="ok", quantile=0.5))
    assert isinstance(median, iso.Metric)
    assert median.quantile == 0.5
    everybody = metric(OwnMetric(name="all", value="ok"))
    assert isinstance(everybody, iso.Metric)
    assert everybody.where is None
    assert metric("tpr") == "tpr"


def test_columns_of_groups_and_metrics() -> None:
    young = Condition.model_validate(YOUNG)
    cut = Cut(column="age", edges=[25.0])
    assert list(columns_of("race")) == [("race", None)]
    assert list(columns_of(cut)) == [("age", cut)]
    assert list(columns_of(Where(name="young", where=[young]))) == [("age", young)]
    assert list(columns_of(OwnMetric(name="m", value="v", where=[young]))) == [("v", None), ("age", young)]
    assert list(columns_of(EstimateOf(value=0.5, influence="i"))) == [("i", None)]
    assert list(columns_of(0.5)) == []


def test_groups_of_every_form(table: pl.DataFrame, audit: Callable[..., Audit]) -> None:
    groups = [
        "race",
        {"column": "score", "edges": [0.3, 0.6]},
        {
            "name": "men, low",
            "where": [{"column": "sex", "value": "Male"}, {"column": "score", "op": "<", "value": 0.5}],
        },
    ]
    metric = {
        "name": "own",
        "value": "prediction",
        "where": [{"column": "score", "op": ">", "value": 0.1}],
        "binary": True,
    }
    done = audit(table, [{"kind": "flag", "metric": metric, "groups": groups}]).run(debug=True)
    labels = list(done["flag-own"].table()["group"])
    assert "men, low" in labels
    assert "score 0.3 to <0.6" in labels


def test_a_reference_estimated_elsewhere(table: pl.DataFrame, audit: Callable[..., Audit]) -> None:
    rate = float(table["prediction"].cast(float).mean())  # type: ignore[arg-type]
    held = table.with_columns((pl.col("prediction").cast(float) - rate).alias("influence"))
    asked = {"kind": "flag", "metric": "selection_rate", "groups": "race"}
    given = {"value": rate, "influence": "influence"}
    done = audit(held, [{**asked, "reference": given, "id": "given"}, {**asked, "id": "population"}]).run()
    same(done["given"].table()["pvalue"], done["population"].table()["pvalue"], rel=1e-6)
    with pytest.raises(ConfigError, match=r"no column 'influenc' in the data. Did you mean 'influence'"):
        audit(held, [{**asked, "reference": {**given, "influence": "influenc"}}]).run()


@pytest.mark.parametrize("equals", [[], ["a", 1]])
def test_a_role_that_no_value_makes_is_refused(equals: list[object]) -> None:
    test = {"kind": "flag", "metric": "selection_rate", "prediction": {"column": "p", "equals": equals}, "groups": "g"}
    with pytest.raises(ConfigError, match="takes a list of values of one type, and at least one"):
        Audit.from_dict({"data": {"path": "x.csv"}, "tests": [test]})
