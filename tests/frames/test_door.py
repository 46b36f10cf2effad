"""What no engine can hold is refused at the door, by the same sentence for every function."""

from __future__ import annotations

from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import polars as pl
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
        with pytest.raises(iso.errors.UsageError, match=r"groups: .* contains half of a surrogate pair"):
            flag(table, half)
        with pytest.raises(iso.errors.UsageError, match=r"column name .* is not text"):
            flag(table, "y")
    with pytest.raises(iso.errors.WrongType, match="column 'g' cannot be read"):
        flag({**BASE, "g": [half, "b"] * (N // 2)})


def test_a_union_of_duckdb() -> None:
    duckdb = pytest.importorskip("duckdb")
    relation = duckdb.sql("select union_value(k := i) as g, i % 3 = 0 as d from range(60) r(i)")
    with pytest.raises(iso.errors.WrongType, match="column 'g' is a union"):
        flag(relation)


def test_intervals_of_duckdb_identify_nobody() -> None:
    duckdb = pytest.importorskip("duckdb")
    relation = duckdb.sql("select i % 2 as g, i % 3 = 0 as d, to_days(i::int % 20) as u from range(60) r(i)")
    with pytest.raises(iso.errors.DataError, match="the engine cannot read the table"):
        flag(relation, cluster="u", min_size=2)


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
    with pytest.raises(iso.errors.BadCount, match=r"adds up to 9e\+15 rows; at most"):
        flag({**table, "n": [2**53 - 1, 5, 6, 7]}, count="n")
    assert flag({**table, "n": [2**53 - 20, 5, 6, 7]}, count="n").n[0] == 2**53 - 15


def test_dates_are_no_outcomes() -> None:
    X = np.column_stack([np.linspace(0, 1, N), np.arange(N) % 2])
    dates = np.arange(N).astype("datetime64[s]")
    with pytest.raises(iso.errors.UsageError, match="y: holds dates"):
        iso.GroupCalibrator(groups=1).fit(X, dates)


def test_a_condition_that_no_row_meets() -> None:
    nobody = iso.where("nobody", iso.col("y") > 5)
    table = BASE | {"c": BASE["d"], "h": [0, 0, 1, 1, 1] * (N // 5)}
    assert flag(table, groups=["g", nobody], given="h").n[-1] == 0  # type: ignore[arg-type]
    with pytest.raises(iso.errors.OneGroup, match="the rows form no group"):
        iso.improvability(table, outcome="y", groups=["g", nobody], status_quo="d", candidate="c")


def _scored(groups: Any) -> pl.DataFrame:
    rng = np.random.default_rng(0)
    return pl.DataFrame({"s": rng.random(N), "v": rng.random(N), "t": np.arange(N) % 2, "g": groups})


def _measured(table: Any) -> Any:
    return iso.calibration_metrics(table, outcome="y", score="s", groups="g").to_frame().select(pl.selectors.numeric())


def _calls(data: Any) -> list[Any]:
    """Every way in: a function, and the two readers of estimators."""
    y = np.arange(N) // 2 % 2
    table = {"d": y, "s": np.arange(N) / N, "g": data["g"]}
    return [
        lambda: flag(table),
        lambda: flag(data.assign(d=y) if hasattr(data, "assign") else data.with_columns(d=y)),
        lambda: iso.GroupCalibrator(score_column="s", groups="g", min_size=2).fit(data, y).predict(data),
        lambda: iso.EffectCorrector(effect="s", treatment="t", groups="g", measure="difference").fit(data, data["v"]),
    ]


@pytest.mark.filterwarnings("ignore::UserWarning")  # of few rows
@pytest.mark.parametrize("kind", [pl.Datetime("ns"), pl.Datetime("ns", "UTC"), pl.Time])
def test_instants_that_python_cannot_tell_apart_are_no_groups(kind: Any) -> None:
    """As Python's values, 0 and 1 nanoseconds would be one group, and rows at 1 nanosecond would be in none."""
    near = pl.Series(np.arange(N) % 2).cast(kind)
    for call in _calls(_scored(near)):
        with pytest.raises(iso.errors.WrongType, match=r"groups: column 'g' holds instants between two microseconds"):
            call()
    apart = pl.Series(np.arange(N) % 2 * 1_000).cast(kind)
    for call in _calls(_scored(apart)):
        call()


def test_durations_and_bytes_are_no_groups() -> None:
    for values in (pl.Series(np.arange(N) % 2).cast(pl.Duration("us")), pl.Series([b"a", b"b"] * (N // 2))):
        for call in _calls(_scored(values)):
            with pytest.raises(iso.errors.WrongType, match=r"groups: column 'g' is .*; groups need text, numbers"):
                call()


@pytest.mark.filterwarnings("ignore::UserWarning")  # of few rows
def test_text_that_looks_alike_stays_apart() -> None:
    """One letter, or a letter and an accent; and with characters that end a text elsewhere."""
    for values in (["\u00e9", "e\u0301"], ["a", "a\x00"]):
        for call in _calls(_scored(values * (N // 2))):
            answer = call()
            if isinstance(answer, iso.FlagResult):
                assert len(set(answer.labels)) == 2


@pytest.mark.filterwarnings("ignore::UserWarning")  # of few rows
def test_text_views_of_arrow() -> None:
    pa, pd = pytest.importorskip("pyarrow"), pytest.importorskip("pandas")
    table = _scored(["a", "b"] * (N // 2)).to_pandas()
    table["g"] = pd.Series(table["g"], dtype=pd.ArrowDtype(pa.string_view()))
    for call in _calls(table):
        call()


def test_a_null_character_in_a_name() -> None:
    for table in ({**BASE, "a\x00b": BASE["g"]}, pl.DataFrame({**BASE, "a\x00b": BASE["g"]})):
        with pytest.raises(iso.errors.UsageError, match=r"column name 'a\\x00b' contains a null character"):
            flag(table, "a\x00b")


def test_digits_beyond_a_float_change_no_number() -> None:
    """Decimals on the other side of a threshold than the floats nearest to them."""
    duckdb = pytest.importorskip("duckdb")
    rng = np.random.default_rng(1)
    quarters = rng.integers(0, 5, 400) / 4
    table = pl.DataFrame({"y": rng.integers(0, 2, 400), "g": rng.choice(["a", "b"], 400), "s": quarters})
    for tiny in (Decimal("1e-19"), Decimal("-1e-19")):
        with localcontext(prec=60):
            digits = [Decimal(value) + tiny for value in quarters.tolist()]
        near = table.with_columns(s=pl.Series(digits, dtype=pl.Decimal(38, 20)))
        for engine in (near, duckdb.from_arrow(near.to_arrow())):
            for edges in (iso.cut("s", [0.25, 0.5]), iso.where("high", iso.col("s") >= 0.5)):
                expected = iso.flag(table, metric="selection_rate", prediction="y", groups=edges)
                answer = iso.flag(engine, metric="selection_rate", prediction="y", groups=edges)
                np.testing.assert_array_equal(answer.n, expected.n)
            np.testing.assert_allclose(_measured(engine).to_numpy(), _measured(table).to_numpy(), rtol=1e-12)
