"""What is asked, checked against the schema: no row is read."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

import isonomy as iso
from isonomy import errors
from isonomy.frames import open_source
from isonomy.transport import distances
from isonomy.transport.plan import Plan, idle_roles
from isonomy.transport.tally import tally
from support.movement import planned
from support.tables import decided

ROLES: dict[str, Any] = {"outcome": "y", "prediction": "c"}
SCORE: dict[str, Any] = ROLES | {"score": "score", "threshold": 0.2}


SOME = iso.where("some", iso.col("age") < 30)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"groups": "nobody"}, errors.UnknownColumn, "nobody"),
        ({"groups": None}, errors.MissingRole, "groups"),
        ({"outcome": None}, errors.MissingRole, "outcome"),
        ({"score": None}, errors.MissingRole, "distance: none given"),
        ({"distance": "distance"}, errors.UsageError, "give one of them"),
        ({"tolerance": 5}, errors.UsageError, "tolerance: 5.0 .* written 0.05"),
        ({"tolerance": 1.0}, errors.UsageError, "tolerance: 1.0"),
        ({"tolerance_side": "upper"}, errors.UsageError, "tolerance_side: 'upper' needs a tolerance"),
        ({"prediction": None}, errors.UsageError, "prediction: None is not allowed; give the name of a column"),
        ({"threshold": 0.5}, errors.DataError, "other side of the boundary"),
        ({"reference": {"group": "z"}}, errors.UnknownOption, "reference"),
        ({"reference": {"grup": "a"}}, errors.UnknownOption, "reference: 'grup' .* mean 'group'.* Allowed: group"),
        ({"reference": {"sex": "F"}}, errors.UnknownOption, "reference: 'sex' .* Allowed: group"),
        ({"groups": SOME, "reference": {"group": "a"}}, errors.UsageError, "compared with everybody else"),
        ({"groups": ["sex", SOME], "reference": {"some": 1}}, errors.UsageError, "everybody else. Allowed: sex"),
        ({"score": None, "distance": "distance"}, errors.UsageError, "threshold: 0.2 .* uses none"),
        ({"score": None, "distance": distances.Column("distance")}, errors.UsageError, "threshold: 0.2 .* uses none"),
        ({"score": "sex"}, errors.WrongType, "score: column 'sex'"),
        ({"score": None, "threshold": None, "distance": "sex"}, errors.WrongType, "distance: column 'sex'"),
        ({"prediction": "score"}, errors.NotBinary, "prediction"),
        ({"outcome": "age"}, errors.NotBinary, "outcome"),
    ],
)
def test_wrong_calls(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        iso.project(decided(), **({"groups": "group"} | SCORE | options))


def asked(table: object, **options: Any) -> Plan:
    return planned(open_source(table), **({"groups": "group"} | SCORE | options))


def test_the_first_pass_is_known_from_the_schema() -> None:
    """An audit shares it; where rows are read, or a threshold has to be found first, there is none."""
    lazy, eager = pl.DataFrame(decided()).lazy(), pl.DataFrame(decided())
    (request,) = asked(lazy).requests
    assert list(request.binary) == ["outcome", "prediction"]
    assert list(request.values) == ["first", "second", "infinite", "across"]
    assert asked(eager).requests == ()
    assert asked(lazy, threshold=None).requests == ()
    kernel = distances.Kernel(("score",), lambda rows: rows[:, 0], 1.0)
    assert asked(lazy, score=None, threshold=None, distance=kernel).requests == ()


def test_planning_reads_no_row() -> None:
    """Every value of the table would raise when it is computed."""

    def fail(values: pl.Series) -> pl.Series:
        raise AssertionError("a row was read")

    schema = pl.DataFrame(decided()).schema
    table = pl.LazyFrame(schema=schema).map_batches(lambda frame: fail(frame[:, 0]).to_frame(), schema=schema)
    planned = asked(table, threshold=None)
    assert planned.inferred
    with pytest.raises((AssertionError, errors.DataError, pl.exceptions.PolarsError), match="a row was read"):
        tally(open_source(table), planned)


def test_a_score_is_idle_where_distances_are_given() -> None:
    assert idle_roles({"distance": "d"}) == {"score"}
    assert idle_roles({"distance": None, "score": "s"}) == set()
