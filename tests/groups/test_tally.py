"""What is read of the rows: sizes, missing values, influence values."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

import isonomy as iso
from isonomy.errors import BadWeight, MissingValues, UsageError
from isonomy.frames import Source
from isonomy.groups import Estimate
from support.same import same

RATE: dict[str, Any] = {"metric": "selection_rate", "groups": "race", "prediction": "selected"}


def test_size_counts_all_rows_and_n_those_inside_the_condition(lender: dict[str, Any]) -> None:
    result = iso.flag(lender, metric="tpr", groups="race", outcome="outcome", prediction="selected")
    race, outcome = lender["race"], lender["outcome"]
    assert result.size.tolist() == [np.sum(race == g) for g in "abc"]
    assert result.n.tolist() == [np.sum((race == g) & (outcome == 1)) for g in "abc"]


def test_missing_values_raise_or_are_counted(lender: dict[str, Any]) -> None:
    loss = lender["loss"].copy()
    loss[:7] = np.nan
    with pytest.raises(MissingValues, match="7 rows"):
        iso.flag(lender | {"loss": loss}, metric="mean_prediction", prediction="loss", groups="race")
    result = iso.flag(
        lender | {"loss": loss}, metric="mean_prediction", prediction="loss", groups="race", missing="drop"
    )
    assert result.provenance.dropped == {"loss": 7}
    assert any("7 with no 'loss'" in w for w in result.warnings)


@pytest.mark.parametrize("kind", ["flag", "certify"])
def test_influence_values_must_average_to_zero(lender: dict[str, Any], kind: str) -> None:
    rate = float(lender["selected"].mean())
    ask = iso.flag if kind == "flag" else iso.certify
    with pytest.raises(UsageError, match=r"'selected' must average to zero.* mean is 0\.4"):
        ask(lender, **RATE, reference=Estimate(rate, "selected"))
    with pytest.raises(UsageError, match="'psi' are all 0"):
        ask(lender | {"psi": np.zeros(600)}, **RATE, reference=Estimate(rate, "psi"))
    # What one-step estimates leave is small against the standard error, here 0.02.
    ask(lender | {"psi": lender["selected"] - rate + 0.001}, **RATE, reference=Estimate(rate, "psi"))


def many(rows: int = 20_000) -> pl.DataFrame:
    rng = np.random.default_rng(1)
    group = rng.choice(list("abcd"), rows, p=[0.4, 0.3, 0.2, 0.1])
    amount = np.exp(1.5 * rng.normal(size=rows)) * (1 + 0.05 * (group == "b"))
    amount[::997] = np.nan
    columns = {"group": group, "amount": amount, "half": rng.integers(0, 2, rows), "score": rng.beta(2, 3, rows)}
    return pl.DataFrame({**columns, "outcome": rng.integers(0, 2, rows), "count": rng.integers(0, 3, rows)})


AMOUNT = iso.Metric("amount", value=iso.col("amount"))
HALF = iso.Metric("amount of half", value=iso.col("amount"), where=iso.col("half") == 1)
NUMBERS = ("n", "size", "estimate", "disparity", "standard_error", "statistic", "pvalue", "ci_low", "ci_high")


@pytest.mark.parametrize(
    "options",
    [
        {"metric": AMOUNT},
        {"metric": AMOUNT, "groups": ["group", "half"], "depth": 2, "reference": "rest"},
        {"metric": HALF, "reference": {"group": "a"}},
        {"metric": AMOUNT, "count": "count", "scale": "ratio"},
        {"metric": AMOUNT, "given": "half"},
        {"metric": "brier", "outcome": "outcome", "score": "score", "reference": "highest"},
    ],
    ids=["plain", "depth", "where", "count", "given", "brier"],
)
def test_of_very_many_rows_bins_stand_for_the_values(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {"groups": "group", "missing": "drop"} | options
    rows = iso.flag(many(), **asked)

    def refuse(*_: Any) -> None:
        raise AssertionError("rows were read")

    monkeypatch.setattr("isonomy.groups.likelihood.lines.READ", 0)
    monkeypatch.setattr("isonomy.frames.source.Source.rows", refuse)
    binned = iso.flag(many().lazy(), **asked)
    same(binned, rows, NUMBERS, rel=1e-9, abs=1e-12)
    assert binned.verdicts == rows.verdicts
    assert binned.provenance.dropped == rows.provenance.dropped
    assert binned.provenance.rows == rows.provenance.rows


def test_bins_of_very_many_groups_are_counted_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("isonomy.groups.likelihood.lines.READ", 0)
    whole = iso.flag(many().lazy(), metric=AMOUNT, groups="group", missing="drop")
    monkeypatch.setattr("isonomy.groups.likelihood.lines.MANY", 0)
    monkeypatch.setattr("isonomy.groups.likelihood.lines.PART", 6_000)
    passes: list[object] = []
    sums = Source.sums

    def watched(self: Source, request: Any) -> pl.DataFrame:
        passes.append(request)
        return sums(self, request)

    monkeypatch.setattr(Source, "sums", watched)
    same(iso.flag(many().lazy(), metric=AMOUNT, groups="group", missing="drop"), whole, NUMBERS)
    assert len(passes) == 1 + 4


def test_a_joint_test_takes_bins_too(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {"metric": "brier", "outcome": "outcome", "score": "score", "groups": "group"}
    rows = iso.certify(many(), **asked)
    monkeypatch.setattr("isonomy.groups.likelihood.lines.READ", 0)
    binned = iso.certify(many().lazy(), **asked)
    assert binned.statistic == pytest.approx(rows.statistic, rel=1e-9)
    assert binned.pvalue == pytest.approx(rows.pvalue, rel=1e-9)


@pytest.mark.parametrize("ask", [iso.flag, iso.certify])
def test_nobody_who_counts_weighs_anything(ask: Any) -> None:
    data = {"g": np.tile(["a", "b"], 100), "y": np.repeat([0, 1], 100), "p": np.arange(200) % 3 == 0}
    data |= {"p": data["p"].astype(int), "w": (data["g"] == "b").astype(float)}
    roles: dict[str, Any] = {"outcome": "y", "prediction": "p", "groups": "g"}
    for reference in ("population", "rest", {"g": "a"}):
        with pytest.raises(BadWeight, match="'fpr' is about weighs 0"):
            ask(data, metric="fpr", weight="y", reference=reference, **roles)
    with pytest.raises(UsageError, match=r"no row of g=a lies inside the metric's condition and weighs more than 0\.$"):
        ask(data, metric="fpr", weight="w", reference={"g": "a"}, **roles)
    data["y"] = (data["g"] == "b").astype(int)
    with pytest.raises(UsageError, match=r"no row of g=a lies inside the metric's condition\.$"):
        ask(data, metric="tpr", reference={"g": "a"}, **roles)
