"""One door for every input: whatever holds the rows becomes a narwhals frame."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np

from isonomy.errors import DuplicateColumns, EmptyFrame, LengthMismatch, MixedTypes, UsageError

if TYPE_CHECKING:
    from narwhals.typing import Frame

ACCEPTED = (
    "a pandas, polars (eager or lazy) or pyarrow table, a DuckDB relation, a PySpark DataFrame, an Ibis "
    "table, a mapping of arrays, or a path to parquet or csv"
)


@dataclass(frozen=True, slots=True, eq=False)
class Adapted:
    """A narwhals frame and the kind of input it came from."""

    frame: Frame
    backend: str  # "pandas", "polars", "pyarrow", "duckdb", "pyspark", "ibis", "mapping", "path"
    lazy: bool  # an engine or a file holds the rows: they may not fit in memory


def adapt(data: object) -> Adapted:
    """Wrap ``data``, reading nothing but its schema."""
    if isinstance(data, (str, Path)):
        return Adapted(nw.from_native(_scan(Path(data))), "path", lazy=True)
    if isinstance(data, (nw.DataFrame, nw.LazyFrame)):
        return _native(data.to_native())
    if isinstance(data, Mapping):
        return Adapted(nw.from_native(_from_mapping(data)).lazy(), "mapping", lazy=False)
    return _native(data)


def _native(data: Any) -> Adapted:
    _refuse_duplicates(data)
    try:
        frame = nw.from_native(data)
    except TypeError:
        raise UsageError(f"data: cannot read {type(data).__name__}; give {ACCEPTED}.") from None
    if not isinstance(frame, (nw.DataFrame, nw.LazyFrame)):
        raise UsageError(f"data: cannot read {type(data).__name__}; give {ACCEPTED}.")
    lazy = isinstance(frame, nw.LazyFrame)
    if frame.implementation.is_polars():
        frame = frame.lazy()  # so that its streaming engine and its optimiser are always used
    return Adapted(frame, frame.implementation.value, lazy)


def _refuse_duplicates(data: Any) -> None:
    """Pandas, pyarrow and Spark allow two columns of one name; every later lookup would be ambiguous."""
    if type(data).__module__.startswith("polars"):  # never has duplicates, and a lazy frame warns when asked
        return
    names = getattr(data, "column_names", None)  # pyarrow
    if not isinstance(names, list):
        names = getattr(data, "columns", None)
    if names is None or callable(names):
        return
    twice = [str(name) for name, times in Counter(map(str, names)).items() if times > 1]
    if twice:
        raise DuplicateColumns(f"data: more than one column is called {', '.join(twice)}; rename or drop one.")


def _scan(path: Path) -> Any:
    import polars as pl

    pattern = str(path)
    matches = sorted(path.parent.glob(path.name)) if any(c in path.name for c in "*?[") else [path]
    if not matches or not matches[0].exists():
        raise UsageError(f"data: no file at {pattern}.")
    first = matches[0]
    if first.is_dir():
        if not any(first.rglob("*.parquet")):
            raise UsageError(f"data: the folder {pattern} holds no parquet file.")
        return pl.scan_parquet(first / "**" / "*.parquet")
    suffixes = "".join(first.suffixes[-2:]).lower()
    if first.stat().st_size == 0:
        raise EmptyFrame(f"data: the file {pattern} is empty.")
    if suffixes.endswith((".parquet", ".pq")):
        return pl.scan_parquet(pattern)
    if suffixes.endswith((".csv", ".csv.gz", ".csv.zst")):
        # Every row is looked at to type a column: a code that is a number for 100 rows and text later is common.
        return pl.scan_csv(pattern, infer_schema_length=None)
    raise UsageError(f"data: {pattern} is neither parquet nor csv (.parquet, .pq, .csv, .csv.gz, .csv.zst).")


def _from_mapping(data: Mapping[Any, Any]) -> Any:
    import polars as pl

    if not data:
        raise EmptyFrame("data: the mapping has no columns.")
    columns = {str(name): _column(str(name), values) for name, values in data.items()}
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{name}: {n}" for name, n in lengths.items())
        raise LengthMismatch(f"data: the columns differ in length ({shown}); each needs one value a row.")
    return pl.DataFrame(columns)


def _column(name: str, values: Any) -> Any:
    import polars as pl

    if isinstance(values, (str, bytes)) or not (
        isinstance(values, Sequence) or hasattr(values, "__array__") or hasattr(values, "__len__")
    ):
        raise UsageError(f"data: column {name!r} is a {type(values).__name__}; give an array of one value a row.")
    if isinstance(values, pl.Series):
        return values.alias(name)
    if isinstance(values, np.ndarray) and values.dtype != object:
        if values.ndim != 1:
            raise UsageError(f"data: column {name!r} has {values.ndim} dimensions; give a one-dimensional array.")
        return pl.Series(name, values)
    listed = [None if v is None else v.item() if isinstance(v, np.generic) else v for v in values]
    refuse_mixture(name, listed)
    if any(isinstance(v, float) for v in listed):
        listed = [float(v) if isinstance(v, int) else v for v in listed]
    return pl.Series(name, listed, strict=True)


def refuse_mixture(name: str, values: Sequence[object]) -> None:
    """Raise if the values that are there have several types (numbers count as one)."""
    kinds = {_kind(v) for v in values if v is not None and not (isinstance(v, float) and v != v)}
    if len(kinds) > 1:
        raise MixedTypes(
            f"data: column {name!r} mixes types ({', '.join(sorted(kinds))}); make it one type, for instance all text."
        )


def _kind(value: object) -> str:
    if isinstance(value, (bool, np.bool_)):
        return "bool"
    if isinstance(value, (int, float, np.number)):
        return "number"
    return type(value).__name__
