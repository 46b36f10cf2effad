"""Arrays and conditions in place of column names give the answers of a table with these columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import isonomy as iso
from isonomy.errors import IsonomyError, UnknownColumn
from isonomy.frames import open_source
from isonomy.frames.source import with_conditions

RNG = np.random.default_rng(0)
Y, P, G = RNG.integers(0, 2, 400), RNG.integers(0, 2, 400), RNG.choice(["a", "b"], 400)
TABLE: dict[str, Any] = {"y": Y, "p": P, "g": G, "deny": np.where(P == 1, "no", "yes")}
TPR: dict[str, Any] = {"metric": "tpr", "outcome": "y", "prediction": "p", "groups": "g"}
EXPECTED = iso.flag(TABLE, **TPR).pvalue


@pytest.mark.parametrize(
    ("groups", "label"),
    [
        (G, "group=a"),
        (G.tolist(), "group=a"),
        (pd.Series(G, name="race"), "race=a"),
        (pd.Series(G), "group=a"),
        (pl.Series("race", G), "race=a"),
        (pd.DataFrame({"race": G}), "race=a"),
        (pl.DataFrame({"race": G}), "race=a"),
        (G[:, None], "group_0=a"),
        ({"race": G}, "race=a"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_arrays_without_a_table(groups: Any, label: str) -> None:
    result = iso.flag(metric="tpr", outcome=Y, prediction=pd.Series(P, index=range(5, 405)), groups=groups)
    assert result.labels[0] == label
    assert result.pvalue == pytest.approx(EXPECTED)
    assert iso.from_json(result.to_json()).provenance.options["outcome"] == "outcome"


def test_several_sensitive_features_and_arrays_beside_a_table() -> None:
    two = iso.flag(metric="tpr", outcome=Y, prediction=P, groups=pd.DataFrame({"g": G, "h": G}), depth=2)
    assert "g=a & h=a" in two.labels
    for table in (TABLE, pd.DataFrame(TABLE), pl.DataFrame(TABLE)):
        beside = iso.flag(table, **{**TPR, "outcome": Y.tolist()}, weight=np.ones(400))
        assert beside.pvalue == pytest.approx(iso.flag(TABLE | {"w": np.ones(400)}, **TPR, weight="w").pvalue)


@pytest.mark.parametrize(
    "given", [Y, Y.tolist(), {"band": Y}, pd.Series(Y, name="band")], ids=lambda g: type(g).__name__
)
def test_arrays_of_factors(given: Any) -> None:
    beside = iso.flag(TABLE, metric="selection_rate", prediction="p", groups="g", given="y")
    result = iso.flag(metric="selection_rate", prediction=P, groups=G, given=given)
    assert result.to_frame()["accounted"].to_list() == pytest.approx(beside.to_frame()["accounted"].to_list())
    assert result.to_frame()["strata"].to_list() == [2, 2]


def test_other_questions_take_arrays() -> None:
    score = RNG.uniform(size=400)
    table = {"y": Y, "s": score, "g": G}
    by_name = iso.predictive_parity(table, outcome="y", score="s", groups="g", rng=1)
    assert iso.predictive_parity(outcome=Y, score=score, groups=G, rng=1).verdict is by_name.verdict


@pytest.mark.parametrize("lazy", [False, True])
def test_a_condition_is_a_column(lazy: bool) -> None:
    table = pl.DataFrame(TABLE).lazy() if lazy else pl.DataFrame(TABLE)
    result = iso.flag(table, **{**TPR, "prediction": iso.col("deny") == "no"})
    assert result.pvalue == pytest.approx(EXPECTED)


def test_a_condition_on_duckdb_and_labels_that_stay_text() -> None:
    duckdb = pytest.importorskip("duckdb")
    frame = pl.DataFrame(TABLE)  # noqa: F841 read by name
    relation = duckdb.sql("select *, deny as afam from frame")
    options = {**TPR, "prediction": iso.col("deny") == "no", "groups": "afam", "outcome": None}
    result = iso.flag(relation, **{**options, "metric": "selection_rate"})
    assert result.labels == ("afam=no", "afam=yes")


def test_the_same_condition_shares_its_passes() -> None:
    source = open_source(pl.DataFrame(TABLE))
    forms: dict[str, str | None] = {"prediction": "column"}
    first, named = with_conditions(source, {"prediction": iso.col("deny") == "no"}, forms)
    second, _ = with_conditions(source, {"prediction": iso.col("deny") == "no"}, forms)
    assert first is second
    assert named == {"prediction": "prediction"}
    taken, _ = with_conditions(open_source(TABLE | {"prediction": P}), {"prediction": iso.col("deny") == "no"}, forms)
    assert len(taken.schema) == len(TABLE) + 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"outcome": Y[:5]}, "data: the arrays differ in length (group: 400, outcome: 5, prediction: 400)"),
        ({"outcome": "y"}, "outcome: no column 'y' in the data"),
        ({"outcome": iso.col("nobody") == 1}, "outcome: cannot be evaluated"),
        ({"outcome": "y", "prediction": "p", "groups": "g"}, "data: give a table, or an array for each column"),
    ],
    ids=str,
)
def test_what_cannot_be_a_column(options: dict[str, Any], message: str) -> None:
    with pytest.raises(IsonomyError) as error:
        iso.flag(**{"metric": "tpr", "outcome": Y, "prediction": P, "groups": G, **options})
    assert message in str(error.value)


def test_arrays_cannot_be_laid_beside_the_rows_of_an_engine() -> None:
    with pytest.raises(IsonomyError, match="an array cannot be combined with rows that an engine"):
        iso.flag(pl.DataFrame(TABLE).lazy(), **{**TPR, "outcome": Y})


def test_an_audit_file_says_what_counts_as_one(tmp_path: Any) -> None:
    pl.DataFrame(TABLE | {"afam": TABLE["deny"]}).write_csv(tmp_path / "t.csv")
    columns = '[columns]\nprediction = {column = "deny", equals = "no"}\n'
    test = '[[tests]]\nkind = "flag"\nmetric = "selection_rate"\ngroups = "afam"\n'
    plain = f'[data]\npath = "t.csv"\n{columns}{test}'
    engine = f'[data]\nengine = "duckdb"\nquery = "select * from t"\ntables = {{t = "t.csv"}}\n{columns}{test}'
    for text in (plain, engine):
        (tmp_path / "audit.toml").write_text(text)
        entry = iso.Audit.from_toml(tmp_path / "audit.toml").run().entries[0]
        assert entry.error is None, entry.error
        assert entry.result is not None
        assert entry.result.to_frame()["group"].to_list() == ["afam=no", "afam=yes"]
        assert entry.result.to_frame()["estimate"].to_list() == [1.0, 0.0]


@pytest.mark.parametrize("wrong", [{"groups": "sx"}, {"groups": "sex", "reference": {"sx": "f"}}])
def test_an_error_lists_the_table_s_own_columns_alone(wrong: dict[str, Any]) -> None:
    table = {"sex": ["f", "m"] * 50, "deny": ["no", "yes"] * 50}
    with pytest.raises(UnknownColumn, match=r"Columns: sex, deny\.$"):
        iso.flag(table, metric="selection_rate", prediction=iso.col("deny") == "no", **wrong)
