"""What no engine can hold is refused at the door, by the same sentence for every function."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isonomy as iso

N = 60
BASE: dict[str, Any] = {"g": ["a", "b"] * (N // 2), "d": [0, 1, 1] * (N // 3), "y": [1] * N}


def flag(data: object, groups: str = "g", **options: Any) -> iso.FlagResult:
    return iso.flag(data, metric="selection_rate", prediction="d", groups=groups, **options)


def test_types_that_polars_cannot_hold() -> None:
    pa = pytest.importorskip("pyarrow")
    ends = pa.array(np.arange(1, N + 1), pa.int32())
    encoded = pa.RunEndEncodedArray.from_arrays(ends, pa.array(BASE["g"]))
    wide = pa.array(BASE["d"], pa.int64()).cast(pa.decimal256(40, 2))
    for column in (encoded, wide):
        with pytest.raises(iso.errors.WrongType, match=r"column 'g' is .*cast it to text, numbers or dates"):
            flag(pa.table({"g": column, "d": BASE["d"]}))


def test_half_a_character() -> None:
    half = "a\ud800"
    pd = pytest.importorskip("pandas")
    named = pd.DataFrame(BASE)
    named.columns = pd.Index([half, "d", "y"], dtype=object)
    for table in ({**BASE, half: BASE["g"]}, named):
        with pytest.raises(iso.errors.UsageError, match=r"column name .* is not text"):
            flag(table, half)
    with pytest.raises(iso.errors.WrongType, match="column 'g' cannot be read"):
        flag({**BASE, "g": [half, "b"] * (N // 2)})


def test_a_union_of_duckdb() -> None:
    duckdb = pytest.importorskip("duckdb")
    relation = duckdb.sql("select union_value(k := i) as g, i % 3 = 0 as d from range(60) r(i)")
    with pytest.raises(iso.errors.WrongType, match="column 'g' is a union"):
        flag(relation)


def test_a_closed_connection() -> None:
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    relation = connection.sql("select i % 2 as g, i % 3 = 0 as d from range(60) r(i)")
    connection.close()
    with pytest.raises(iso.errors.DataError, match="closed"):
        flag(relation)


@pytest.mark.parametrize("large", [2**53 + 1, 2**62, 2**63 - 1])
def test_counts_beyond_the_digits_of_a_float(large: int) -> None:
    table = {"g": ["a", "a", "b", "b"], "d": [0, 1, 0, 1], "n": [large, 5, 6, 7]}
    with pytest.raises(iso.errors.BadCount, match="too large"):
        flag(table, count="n")
    assert flag({**table, "n": [2**53 - 1, 5, 6, 7]}, count="n").n[0] > 2**52


def test_dates_are_no_outcomes() -> None:
    X = np.column_stack([np.linspace(0, 1, N), np.arange(N) % 2])
    dates = np.arange(N).astype("datetime64[s]")
    with pytest.raises(iso.errors.UsageError, match="y: holds dates"):
        iso.GroupCalibrator(groups=1).fit(X, dates)


def test_a_condition_that_no_row_meets() -> None:
    nobody = iso.where("nobody", iso.col("y") > 5)
    table = BASE | {"c": BASE["d"]}
    with pytest.raises(iso.errors.OneGroup, match="the rows form no group"):
        iso.improvability(table, outcome="y", groups=["g", nobody], status_quo="d", candidate="c")
