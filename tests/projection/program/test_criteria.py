"""Criteria, built in and user-defined, and the codes of their cells."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isonomy as iso
from isonomy import errors
from isonomy.projection import Discerning
from support.tables import decided

ROLES: dict[str, Any] = {"outcome": "y", "prediction": "c"}
SCORE: dict[str, Any] = ROLES | {"score": "score", "threshold": 0.2}


def test_a_condition_is_compared_with_everybody_else() -> None:
    data = decided(shift=0.4)
    young = iso.where("b", iso.col("group") == "b")
    result = iso.project(data, groups=young, **SCORE)
    assert result.labels == ("b", "not b")
    cut = iso.project(data, groups=iso.cut("age", [30, 50]), **SCORE)
    assert len(cut.labels) == 3


def test_a_tuple_of_ones_own_equals_the_built_in() -> None:
    data = decided(shift=0.2)
    built_in = iso.project(data, groups="sex", **SCORE)
    own = Discerning(
        u={
            "women": (iso.col("sex") == "F") & (iso.col("y") == 1),
            "men": (iso.col("sex") == "M") & (iso.col("y") == 1),
        },
        phi=lambda u, mean: u[:, 0] / mean[0] - u[:, 1] / mean[1],
        names=("women against men",),
    )
    result = iso.project(data, criterion=own, **SCORE)
    assert result.statistic == pytest.approx(built_in.statistic, rel=1e-9)
    assert result.pvalue == pytest.approx(built_in.pvalue, rel=1e-5)
    assert result.wald_pvalue == pytest.approx(built_in.wald_pvalue, rel=1e-5)
    assert "Women against men" in result.summary()


def test_two_attributes_that_say_the_same() -> None:
    data = decided(shift=0.2)
    data["again"] = np.where(data["sex"] == "F", "f", "m")
    once = iso.project(data, groups="sex", **SCORE)
    twice = iso.project(data, groups=["sex", "again"], **SCORE)
    assert twice.statistic == pytest.approx(once.statistic, rel=1e-9)
    assert twice.pvalue == pytest.approx(once.pvalue, rel=1e-9)
    assert any("were left out" in w for w in twice.warnings)
    with pytest.raises(errors.UsageError, match="follow from the others"):
        iso.project(data, groups=["sex", "again"], tolerance=0.1, **SCORE)


def test_wrong_tuples() -> None:
    data = decided()
    for u, message in (
        ({"f": iso.col("sexx") == "F"}, "criterion 'f': cannot be evaluated"),
        ({"f": iso.col("sex")}, "criterion 'f': the expression gives String"),
    ):
        wrong = Discerning(u=u, phi=lambda u, mean: u, names=("x",))
        with pytest.raises(errors.UsageError, match=message):
            iso.project(data, criterion=wrong, **SCORE)
    good: dict[str, Any] = {"u": {"f": iso.col("sex") == "F"}, "phi": lambda u, mean: u - mean, "names": ("x",)}
    for part, value in (("u", {}), ("u", {"f": "sex"}), ("phi", None), ("names", "x"), ("names", ())):
        with pytest.raises(errors.UsageError, match=f"criterion: {part} is"):
            Discerning(**(good | {part: value}))
    with pytest.raises(errors.UsageError, match="reference: a user-defined criterion does not use it"):
        iso.project(data, criterion=Discerning(**good), reference={"sex": "F"}, **SCORE)
    # Its moments have their own scale, so a tolerance of 1 or more can make sense.
    wide = Discerning(**(good | {"phi": lambda u, mean: 50 * (u - mean)}))
    assert iso.project(data, criterion=wide, tolerance=2.0, **SCORE).statistic == 0


def test_units_of_a_tuple_do_not_matter() -> None:
    rng = np.random.default_rng(1)
    group = rng.choice(["a", "b"], 2_000)
    score = rng.normal(size=2_000) + 0.3 * (group == "b")
    data = {"g": group, "c": (score >= 0).astype(int), "d": np.abs(score)}
    result = []
    for scale in (1.0, 1e-8, 1e8):
        own = Discerning(
            u={"b": (iso.col("g") == "b") * scale, "a": (iso.col("g") == "a") * scale},
            phi=lambda u, mean: u[:, 0] / mean[0] - u[:, 1] / mean[1],
            names=("b against a",),
        )
        result.append(iso.project(data, prediction="c", distance="d", criterion=own))
    for other in result[1:]:
        assert other.pvalue == pytest.approx(result[0].pvalue, rel=1e-6)
        assert other.wald_pvalue == pytest.approx(result[0].wald_pvalue, rel=1e-6)


def test_a_column_that_tells_people_apart_is_refused() -> None:
    table = {"id": np.arange(5_000), "c": np.arange(5_000) % 2, "d": np.ones(5_000)}
    with pytest.raises(errors.UsageError, match=r"4,999 comparisons at once, at most 2,000; 'id' has 5,000 levels"):
        iso.project(table, prediction="c", groups="id", distance="d", criterion="statistical_parity")
