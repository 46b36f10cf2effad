"""Forms of a table that must give the same answer, tables that may be refused, and invalid arguments."""

from __future__ import annotations

import contextlib
import datetime
import decimal
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import isonomy as iso

Rng = np.random.Generator
BINARY, TEXT, WHOLE, REAL = (
    ("y", "p", "q", "z", "t"),
    ("g", "h"),
    ("u", "k", "f"),
    ("s", "r", "v", "e", "b", "x", "w", "d", "l", "m", "n"),
)
AS_IS = ("c",)  # its values are named in the call


def renamed(rng: Rng, data: pl.DataFrame, names: list[str]) -> tuple[pl.DataFrame, dict[str, str]]:
    """The table with some columns renamed, and with additional columns."""
    columns = list(rng.permutation(data.columns))[: int(rng.integers(1, 6))]
    chosen = [str(name) for name in rng.permutation(names)]
    mapping = dict(zip(columns, chosen, strict=False))
    taken = {*mapping.values(), *data.columns}
    strangers = [name for name in chosen[len(columns) :] if name not in taken][: int(rng.integers(0, 40))]
    values = {name: data[str(rng.choice(data.columns))].shuffle(int(rng.integers(99))) for name in strangers}
    places = {name: name for name in data.columns if name in mapping.values()}
    if any(mapping.get(name, name) == name for name in places):  # an existing name
        return data, {}
    return data.rename(mapping).with_columns(value.alias(name) for name, value in values.items()), mapping


def typed(rng: Rng, data: pl.DataFrame) -> pl.DataFrame:
    """The table with some columns in other types with the same values."""
    return data.with_columns(
        _typed(rng, data[name]) for name in data.columns if name not in AS_IS and rng.random() < 0.4
    )


def _typed(rng: Rng, column: pl.Series) -> pl.Series:
    name = column.name
    if name in BINARY:
        kinds: tuple[Any, ...] = (*_INTEGERS, pl.Float32, pl.Float64, pl.Boolean, pl.Decimal(10, 2))
        return column.cast(kinds[rng.integers(len(kinds))])
    if name in WHOLE:
        if name == "u":
            return _people(rng, column)
        kinds = (*_INTEGERS, pl.Float32, pl.Float64, pl.Decimal(20, 3))
        return column.cast(kinds[rng.integers(len(kinds))])
    if name in REAL:
        kinds = (pl.Float32, pl.Decimal(20, 10), pl.Float64)
        return column.cast(kinds[rng.integers(len(kinds))])
    return _labels(rng, column)


_INTEGERS = (pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.Int128, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64)


def _people(rng: Rng, column: pl.Series) -> pl.Series:
    """The same people under identifiers of other types, in the same order."""
    start = datetime.datetime(2026, 1, 1)
    forms: tuple[Callable[[int], Any], ...] = (
        lambda i: start + datetime.timedelta(microseconds=i),
        lambda i: f"person {i:04d}",
        lambda i: 2**62 + i,
        lambda i: decimal.Decimal(10**17 + i) / 100,
    )
    form = forms[rng.integers(len(forms))]
    values = pl.Series(column.name, [form(int(i)) for i in column])
    if values.dtype == pl.Datetime:
        unit = ("ns", "us")[rng.integers(2)]
        ticks = np.datetime64(start).astype(f"datetime64[{unit}]").astype(np.int64) + column.to_numpy()
        return pl.Series(column.name, ticks.astype(f"datetime64[{unit}]"))
    return values


def _labels(rng: Rng, column: pl.Series) -> pl.Series:
    """The same groups under labels of other types, in the same order."""
    levels = sorted(column.unique())
    day = datetime.date(2026, 1, 1)
    forms: tuple[Callable[[int], Any], ...] = (
        lambda i: levels[i],
        lambda i: i,
        lambda i: i - 5,
        lambda i: i + 0.5,
        lambda i: 2**62 + i,
        lambda i: decimal.Decimal(10**20 + i),
        lambda i: decimal.Decimal(10**17 + i) / 100,
        lambda i: day + datetime.timedelta(days=i),
        lambda i: datetime.datetime(2026, 1, 1) + datetime.timedelta(microseconds=i),
        lambda i: datetime.time(1, i),
        lambda i: datetime.timedelta(days=i),
        lambda i: f"{levels[i]} \u202e<b>&'\"\n{{}}",
        lambda i: "\U0001f600" * (i + 1),
        lambda i: str(i).encode(),
        lambda i: f"\x01\ufffe{i}",
    )
    form = int(rng.integers(len(forms) + 2))
    if form >= len(forms):
        kind = pl.Categorical if form == len(forms) else pl.Enum(levels)
        return column.cast(kind)
    return pl.Series(column.name, [forms[form](levels.index(value)) for value in column])


def engine(rng: Rng, data: pl.DataFrame, *, memory: bool) -> Any:
    """The table in another library, or in files."""
    import duckdb

    choices: list[Callable[[], Any]] = [
        lambda: data,
        lambda: data.to_pandas(),
        lambda: data.to_arrow(),
    ]
    if not memory:
        choices += [
            lambda: data.lazy(),
            lambda: {name: data[name].to_numpy() for name in data.columns},
            lambda: duckdb.connect().from_arrow(data.to_arrow()),
            lambda: _files(data, int(rng.integers(1, 5))),
        ]
    try:
        return choices[rng.integers(len(choices))]()
    except Exception:  # a type or a name that the library does not support
        return data


def library(rng: Rng, data: pl.DataFrame, *, memory: bool) -> Any:
    """The table with the same values in types that only one library has, or with another index."""
    import duckdb
    import pandas as pd
    import pyarrow as pa

    def arrow() -> Any:
        table = data.to_arrow()
        for name in data.columns:
            if name not in AS_IS and rng.random() < 0.5:
                table = table.set_column(table.column_names.index(name), name, _arrow(rng, name, table[name]))
        return table

    def pandas() -> Any:
        frame = data.to_pandas()
        for name in data.columns:
            if name not in AS_IS and rng.random() < 0.5:
                frame[name] = _pandas(rng, name, frame[name])
        return _indexed(rng, frame)

    def engine() -> Any:
        relation = duckdb.connect().from_arrow(data.to_arrow())
        kinds = {name: "varchar" if name in AS_IS else _duckdb(rng, name) for name in data.columns}
        return relation.project(", ".join(f'cast("{name}" as {kind}) as "{name}"' for name, kind in kinds.items()))

    def _pandas(rng: Rng, name: str, column: Any) -> Any:
        if name in TEXT:
            kinds: tuple[Any, ...] = ("object", "category", "string[python]", pd.ArrowDtype(pa.string_view()))
            kinds += (pd.ArrowDtype(pa.large_string()), pd.ArrowDtype(pa.dictionary(pa.int8(), pa.string())))
        elif name in BINARY:
            kinds = ("Int64", "boolean", "int8", "float32", "Float64", "object", pd.ArrowDtype(pa.bool_()))
        elif name in REAL:
            kinds = ("float32", "Float32", pd.ArrowDtype(pa.float32()), pd.ArrowDtype(pa.decimal128(38, 20)), "object")
        else:
            kinds = ("Int64", "uint16", "float32", pd.ArrowDtype(pa.int16()), "object")
        return column.astype(kinds[rng.integers(len(kinds))])

    makers = [arrow, pandas] if memory else [arrow, pandas, engine]
    return makers[rng.integers(len(makers))]()


def _arrow(rng: Rng, name: str, column: Any) -> Any:
    import pyarrow as pa

    if name in TEXT:
        whole = column.combine_chunks().cast(pa.string())
        kinds: tuple[Any, ...] = (
            whole.cast(pa.string_view()),
            whole.cast(pa.large_string()),
            whole.dictionary_encode(),
        )
        return kinds[rng.integers(len(kinds))]
    small = (pa.int8(), pa.uint8(), pa.float32(), pa.bool_(), pa.decimal128(38, 20))
    numbers = {"binary": small, "real": (pa.float32(), pa.decimal128(38, 20)), "whole": (pa.int16(), pa.uint64())}
    chosen = numbers["binary" if name in BINARY else "real" if name in REAL else "whole"]
    kind = chosen[rng.integers(len(chosen))]
    if pa.types.is_decimal(kind):  # by way of text: casts would round
        return pa.array([decimal.Decimal(str(value)) for value in column.to_pylist()]).cast(kind)
    return column.cast(kind)


def _duckdb(rng: Rng, name: str) -> str:
    if name in TEXT:
        return str(rng.choice(["varchar", "enum('a', 'b', 'c', 'm', 'n')"]))
    if name in BINARY:
        return str(rng.choice(["boolean", "tinyint", "utinyint", "hugeint", "decimal(4, 1)", "double", "float"]))
    return str(rng.choice(["float", "double", "decimal(30, 12)"] if name in REAL else ["bigint", "hugeint", "integer"]))


def _indexed(rng: Rng, frame: Any) -> Any:
    """Another index: of several levels, named like columns, with the same value everywhere."""
    name = str(rng.choice(frame.columns))
    forms: tuple[Callable[[], Any], ...] = (
        lambda: frame,
        lambda: frame.set_index(name, drop=False),
        lambda: frame.set_index([name, "g"], drop=False) if name != "g" else frame,
        lambda: frame.rename_axis(name).rename_axis(name, axis=1),
        lambda: frame.set_axis([0] * len(frame)),
        lambda: frame.set_axis(frame.index[::-1]),
    )
    try:
        return forms[rng.integers(len(forms))]()
    except NotImplementedError:  # a type that pandas cannot have in an index
        return frame


STRANGE_NAMES = (
    "a\x00b", "\x00", "", " ", "*", "^.*$", "a\nb", '"', "'; drop table x; --", "$(x)", "{0}", "%s", "\u202eabc", "é",
    "e\u0301", "\U0001f600", "None", "nan", "select", "a" * 300, "__count", "index", "level_0", "group g", "1", "a.b",
    "a,b", "`x`",
)  # fmt: skip


def strange(rng: Rng, data: pl.DataFrame, columns: dict[str, Any], *, memory: bool) -> tuple[Any, dict[str, Any], str]:
    """A used column under a strange name, or in a type that few libraries hold."""
    import duckdb
    import pyarrow as pa

    used = [
        name
        for role, value in columns.items()
        if role != "y"
        for name in ([value] if isinstance(value, str) else value)
    ]
    name = used[rng.integers(len(used))]
    if rng.random() < 0.4:
        other = STRANGE_NAMES[rng.integers(len(STRANGE_NAMES))]
        mapping = {name: other}
        renamed = {
            role: value
            if role == "y"
            else mapping.get(value, value)
            if isinstance(value, str)
            else [mapping.get(v, v) for v in value]
            for role, value in columns.items()
        }
        arrow = data.to_arrow().rename_columns([mapping.get(column, column) for column in data.columns])
        given = arrow if rng.random() < 0.5 else data.rename(mapping)
        return given, renamed, f"{name} as {other!r}"
    start = np.datetime64("2026-01-01", "ns").astype(np.int64)
    codes = data[name].rank("dense").to_numpy().astype(np.int64)
    makers: dict[str, Callable[[], Any]] = {
        "instants": lambda: pa.array((start + codes).astype("datetime64[ns]")),
        "instants with a zone": lambda: pa.array(start + codes).cast(pa.timestamp("ns", "Europe/Berlin")),
        "times": lambda: pa.array(codes).cast(pa.time64("ns")),
        "durations": lambda: pa.array(codes).cast(pa.duration("ns")),
        "run ends": lambda: pa.RunEndEncodedArray.from_arrays(
            pa.array(np.arange(1, len(data) + 1, dtype=np.int32)), pa.array(codes)
        ),
        "decimal256": lambda: pa.array(codes).cast(pa.decimal256(60, 30)),
        "views of bytes": lambda: pa.array([str(code).encode() for code in codes]).cast(pa.binary_view()),
        "fixed bytes": lambda: pa.array([f"{code:04d}".encode() for code in codes], pa.binary(4)),
        "lists": lambda: pa.array([[int(code)] for code in codes]),
        "large numbers": lambda: pa.array([2**63 + int(code) for code in codes], pa.uint64()),
        "half floats": lambda: pa.array(codes.astype(np.float16)),
        "nothing": lambda: pa.nulls(len(data)),
        "alike": lambda: pa.array([("é", "e\u0301", "E\u0301")[code % 3] for code in codes]),
        "ends with null": lambda: pa.array(["a" + "\x00" * int(code % 3) for code in codes]),
        "json": lambda: pa.array([f'{{"a": {code}}}' for code in codes]),
    }
    kind = str(rng.choice(list(makers)))
    arrow = data.to_arrow()
    try:
        arrow = arrow.set_column(arrow.column_names.index(name), name, makers[kind]())
    except (pa.ArrowException, NotImplementedError):
        return data, columns, "nothing"
    if not memory and rng.random() < 0.3:
        with contextlib.suppress(Exception):  # a type that DuckDB does not read
            return duckdb.connect().from_arrow(arrow), columns, f"{name} as {kind} in duckdb"
    return arrow, columns, f"{name} as {kind}"


EDGES = (
    0.0, -0.0, 5e-324, 2.2e-308, 1e-300, 1e-17, 1 + 2**-52, 1 - 2**-53, 0.5 + 2**-53, 1e15, 2.0**53, 2.0**53 + 2, 1e70,
    1.1e70, 1e154, 1e300, 1.7e308, -1e300, 2**63 - 1, -(2**63), 2**31, float("nan"), float("inf"), -float("inf"), None,
)  # fmt: skip


def edges(rng: Rng, data: pl.DataFrame, columns: dict[str, Any], *, memory: bool) -> tuple[Any, dict[str, Any], str]:
    """Numbers at the ends of floats and integers in some rows of a used column, or in all of them."""
    del memory
    used = [name for value in columns.values() for name in ([value] if isinstance(value, str) else value)]
    name = used[rng.integers(len(used))]
    chosen = [EDGES[i] for i in rng.integers(len(EDGES), size=int(rng.integers(1, 4)))]
    rows = rng.random(len(data)) < rng.choice([0.01, 0.3, 1.0])
    old = data[name].to_list() if data[name].dtype.is_numeric() else [0.0] * len(data)
    values = [float(value) for value in old]
    mixed = [
        chosen[i % len(chosen)] if change else value for i, (value, change) in enumerate(zip(values, rows, strict=True))
    ]
    return (
        data.with_columns(pl.Series(name, [None if v is None else float(v) for v in mixed])),
        columns,
        f"{name}: {chosen}",
    )


def groups(rng: Rng, *, memory: bool) -> list[Any]:
    """One to three groups: columns, cuts, and conditions that some, all or none meet."""
    if memory:
        return [str(name) for name in rng.permutation(["g", "h", "z", "k", "u"])[: int(rng.integers(1, 4))]]
    choices: list[Any] = [
        "g", "h", "z", "k", iso.cut("x", [0.0]), iso.cut("x", [-99.0, 0.5, 99.0]), iso.cut("s", [0.5]),
        iso.where("none", iso.col("x") > 99), iso.where("all", iso.col("x") < 99), iso.where("some", iso.col("x") > 0),
        iso.where("one", iso.col("u") == 3), iso.where("null", iso.col("x") != iso.col("x")),
    ]  # fmt: skip
    return [choices[i] for i in rng.permutation(len(choices))[: int(rng.integers(1, 4))]]


_FOLDER = tempfile.TemporaryDirectory()


def _files(data: pl.DataFrame, parts: int) -> str:
    folder = Path(tempfile.mkdtemp(dir=_FOLDER.name))
    for i in range(parts):
        data[i::parts].write_parquet(folder / f"part{i}.parquet")
    return str(folder / "*.parquet")


def incomplete(rng: Rng, data: pl.DataFrame, columns: list[str]) -> pl.DataFrame:
    """The table with additional rows in which one of the ``columns`` is missing."""
    extra = data.head(int(rng.integers(1, 9)))
    name = columns[rng.integers(len(columns))]
    gone = float("nan") if data[name].dtype.is_float() and rng.random() < 0.5 else None
    extra = extra.with_columns(pl.lit(gone, dtype=data[name].dtype).alias(name))
    return pl.concat([data, extra])


def broken(rng: Rng, data: pl.DataFrame, columns: list[str]) -> Any:
    """A table that most calls must refuse."""
    name = columns[rng.integers(len(columns))]
    rows = len(data)
    values: dict[str, Any] = {
        "empty": lambda: data.head(0),
        "one row": lambda: data.head(1),
        "two rows": lambda: data.head(2),
        "five rows": lambda: data.head(5),
        "without a column": lambda: data.drop(name),
        "one value": lambda: data.with_columns(pl.lit(data[name][0]).alias(name)),
        "nothing but nulls": lambda: data.with_columns(pl.lit(None, dtype=data[name].dtype).alias(name)),
        "type null": lambda: data.with_columns(pl.lit(None).alias(name)),
        "infinite": lambda: data.with_columns(pl.Series(name, [float("inf")] * 3 + [0.0] * (rows - 3))),
        "huge": lambda: data.with_columns(pl.Series(name, [1e308] * 100 + [-1e308] * 100 + [0.0] * (rows - 200))),
        "tiny": lambda: data.with_columns(pl.Series(name, [5e-324] * 100 + [0.0] * (rows - 100))),
        "own": lambda: data.with_columns(pl.Series(name, range(rows))),
        "own text": lambda: data.with_columns(pl.Series(name, [f"v{i}" for i in range(rows)])),
        "lists": lambda: data.with_columns(pl.Series(name, [[1]] * rows)),
        "structs": lambda: data.with_columns(pl.Series(name, [{"a": 1}] * rows)),
        "bytes": lambda: data.with_columns(pl.Series(name, [b"1"] * rows)),
        "objects": lambda: data.with_columns(pl.Series(name, [object()] * rows, dtype=pl.Object)),
        "text": lambda: data.with_columns(pl.col(name).cast(pl.String)),
        "durations": lambda: data.with_columns(pl.Series(name, [datetime.timedelta(days=1)] * rows)),
        "times": lambda: data.with_columns(pl.Series(name, [datetime.time(1)] * rows)),
        "negative": lambda: data.with_columns(pl.Series(name, [-1] * rows)),
        "wide": lambda: data.with_columns(pl.Series(name, [10**30] * rows, dtype=pl.Int128)),
        "unsigned": lambda: data.with_columns(pl.Series(name, [2**64 - 1] * rows, dtype=pl.UInt64)),
        "zero": lambda: data.with_columns(pl.lit(0).alias(name)),
        "array": lambda: data.to_numpy(),
        "none": lambda: None,
        "list": lambda: data.rows(),
        "series": lambda: data[name],
        "numbered": lambda: data.to_pandas().set_axis(range(len(data.columns)), axis=1),
        "doubled": lambda: data.to_pandas()[[*data.columns, name]],
        "mixed": lambda: {c: data[c].to_list() for c in data.columns} | {name: [1, "a", None] * (rows // 3)},
        "ragged": lambda: {c: data[c].to_list() for c in data.columns} | {name: [1]},
        "path": lambda: PATHS[rng.integers(len(PATHS))],
        "failing": lambda: failing(rng, data),
        "failing often": lambda: failing(rng, data),
        "contains itself": lambda: {c: data[c].to_list() for c in data.columns} | {name: _self_containing() * rows},
        "number": lambda: 3,
        "pandas objects": lambda: _with_objects(data.to_pandas(), name),
        "complex": lambda: {c: data[c].to_numpy() for c in data.columns} | {name: np.full(rows, 1j)},
        "matrix": lambda: {c: data[c].to_numpy() for c in data.columns} | {name: np.ones((rows, 2))},
    }
    keys = list(values)
    return values[keys[rng.integers(len(keys))]]()


def _with_objects(data: Any, name: str) -> Any:
    return data.assign(**{name: [{1: 2}] * len(data)})


def _self_containing() -> list[Any]:
    nested: list[Any] = []
    nested.append(nested)
    return nested


def _twice_self_containing() -> list[Any]:
    nested: list[Any] = ["g"]
    nested += [nested, (nested, 1)]
    return nested


def _self_mapping() -> dict[Any, Any]:
    nested: dict[Any, Any] = {}
    nested |= {"g": nested, "h": [nested]}
    return nested


def _deep() -> Any:
    nested: Any = "g"
    for _ in range(20_000):
        nested = [nested]
    return nested


# Paths without a table, or with one that does not end.
PATHS = (
    "/nowhere/at/all.parquet", "/proc/**/*", "/proc/*/fd/*.csv", "/proc", "/dev/zero", "/dev/stdin", "/dev/null", "/",
    "/**/*.parquet", "\x00", "\x00.csv", "", ".", "~nobody/x.csv", "a" * 5_000 + ".csv", "[", "**", "/etc/passwd",
    "x.csv\n", "file:///etc/passwd", "/proc/self/mem", "s3//x.parquet",
)  # fmt: skip


def failing(rng: Rng, data: pl.DataFrame) -> pl.LazyFrame:
    """A lazy frame whose rows cannot be computed."""

    def broken(_: pl.DataFrame) -> pl.DataFrame:
        raise (KeyError, ValueError, RuntimeError, OSError)[rng.integers(4)]("of the caller's own")

    lazy = data.lazy()
    forms: tuple[Callable[[], pl.LazyFrame], ...] = (
        lambda: lazy.map_batches(broken, schema=data.schema),
        lambda: lazy.with_columns(pl.col("g").cast(pl.Int64)),
        lambda: lazy.with_columns(y=pl.col("y").gather([10**6] * len(data))),
        lambda: lazy.with_columns(pl.col("nobody")),
        lambda: lazy.filter(pl.col("g") > 1),
        lambda: lazy.with_columns(pl.lit("x").str.to_date("%Y").alias("y")),
    )
    return forms[rng.integers(len(forms))]()


# Arguments that are of the wrong type, unusual, or at the end of their range.
# fmt: off
HOSTILE: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 3, 25, 10**6, 10**18, 10**29, 10**400, -(10**29), 0.0, 0.5, 1.0, 1e-300, 1e-17,
    1e17, 1e308, -1e308, float("nan"), float("inf"), -float("inf"), "", "x", "y", "g", "s", "^g.*$", "*", "\x00",
    "é", "tpr", "population", b"x", [], ["y"], ["g", "h"], ["g", "g"], [1, 2], [None], [[1]], (), (0.1, 0.2),
    (1, 2, 3), {}, {"g": "a"}, {"g": "nobody"}, {"h": "m"}, {"nothing": 1}, {1: 2}, {"g": ["a"]}, {"g": None},
    set(), {"y"}, object(), object, len, lambda x: x, np.array([0.5, 0.1]), np.array([]), np.zeros((2, 2)),
    np.float64(0.5), np.int64(2), np.nan, np.datetime64("2026-01-01"), np.random.default_rng(0),
    decimal.Decimal("0.05"), 1j, datetime.date(2026, 1, 1), iso.col("y"), iso.col("nobody"), iso.col("y") == 1,
    iso.col("g") == "a", iso.col("y").sum(), iso.cut("x", [0.0]), iso.cut("g", [0.0]), iso.cut("nobody", [0]),
    iso.where("some", iso.col("x") > 0), iso.where("nobody", iso.col("x") > 99), iso.where("odd", iso.col("x")),
    iso.Group.from_mapping({"g": "a"}), iso.Metric("m", iso.col("v")), iso.Metric("m", iso.col("g")), pl.Series([1, 2]),
    pl.DataFrame({"a": [1]}), range(3), iter([1]), Ellipsis, NotImplemented, slice(1), "a" * 10_000,
    _self_containing(), _twice_self_containing(), _self_mapping(), _deep(), Exception("x"), *PATHS[1:3], "/dev/zero",
)
# fmt: on


# Wrong values in a file.
STORED: tuple[Any, ...] = (
    None, True, 0, 1, -1, 2, 10**18, 10**30, 0.5, 1e308, "", "x", "y", "g", "inf", "nan", "<U999999999",
    "|V99999999999", "violation", [], [1], ["y"], [[]], [None, "a"], {}, {"$type": "array"}, {"$type": "Nobody"},
    {"$type": "Group", "items": 3},
    {"$type": "array", "dtype": "<f8", "shape": [10**12], "data": []}, {"$type": "mapping", "items": [[[], 1]]},
    {"$type": "float", "value": "big"}, {"$type": "datetime", "value": "never"}, {"$type": "Verdict", "value": 7},
    {"$type": "decimal", "value": "many"}, {"g": "a"}, {"column": "y", "op": "<", "value": "x"}, {"column": "nobody"},
    {"name": "m", "value": "s"}, {"column": "x", "edges": [1, 0]}, datetime.date(2026, 1, 1),
    "../../../etc/passwd", "copy x to y", "\x00", *PATHS,
    {"column": "y", "equals": []}, {"column": "y", "equals": [1, "a"]}, {"column": "y", "equals": 1},
    {"$type": "array", "dtype": "<f8", "shape": [1], "data": [0.5]},
    {"$type": "array", "dtype": "<i8", "shape": [3], "data": [1, 2, 3]},
    {"$type": "array", "dtype": "object", "shape": [1], "data": ["x"]},
)  # fmt: skip


def tampered(rng: Rng, stored: Any) -> Any:
    """A document with one part replaced, removed, doubled or nested deeply."""
    if not isinstance(stored, (dict, list)) or not stored or rng.random() < 0.08:
        return STORED[rng.integers(len(STORED))]
    keys = list(stored) if isinstance(stored, dict) else list(range(len(stored)))
    key = keys[rng.integers(len(keys))]
    copy = stored.copy()
    change = rng.random()
    if change < 0.05:
        del copy[key]
    elif change < 0.08 and isinstance(copy, dict):
        copy["another"] = copy.pop(key)
    elif change < 0.11:
        for _ in range(int(rng.integers(1, 3000))):
            copy[key] = [copy[key]]
    else:
        copy[key] = tampered(rng, copy[key])
    return copy


def widths(rng: Rng, rows: np.ndarray[Any, Any]) -> Any:
    """Rows for a prediction with another number of columns than in the fit."""
    forms: tuple[Any, ...] = (
        rows[:, :1], rows[:, :-1], np.hstack([rows, rows]), rows[:, :0], rows[0], rows[:, 0], rows[None], rows[:0],
        rows.tolist()[:3], rows.astype(str), rows.astype(object), pl.DataFrame(rows), pl.DataFrame(rows[:, :1]), 3,
    )  # fmt: skip
    return forms[rng.integers(len(forms))]


def argument(rng: Rng, name: str, options: Mapping[str, Any]) -> Any:
    """A hostile value for an argument: from the list, a list of these, or one close to a valid value."""
    value = HOSTILE[rng.integers(len(HOSTILE))]
    if rng.random() < 0.15:
        return [value, HOSTILE[rng.integers(len(HOSTILE))]]
    if rng.random() < 0.1 and isinstance(options.get(name), str):
        return options[name].upper()
    return value
