"""How rows stand for people: what each line weighs, and which rows belong together.

``count`` says that a line is k equal, independent rows; ``weight`` that a row stands for w people; ``cluster`` that
some rows belong to one person, household or branch. A `Design` carries what a variance needs of all three.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
from scipy import sparse

from isonomy.errors import BadWeight, UsageError
from isonomy.frames.adapt import Lazy
from isonomy.frames.sums import aggregate, collect, plain_keys
from isonomy.numerics.arrays import FloatArray, IntArray

if TYPE_CHECKING:
    import polars as pl

Matrix = Any  # a scipy.sparse.csr_array, which has no element type of its own
MASS, SECOND, FOURTH, CLUSTER, CELL = "mass", "second", "fourth", "cluster", "cell"
# Rows of an engine that are brought into memory at once, in parts of whole clusters.
ROWS_AT_ONCE = 20_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Design:
    """The lines of an answer (cells or rows) as they stand for people.

    ``mass`` is the sum of the weights of a line's rows, scaled so that all of them sum to the number of rows;
    ``second`` and ``fourth`` are the sums of the second and fourth powers. ``parts`` yields matrices of masses,
    clusters by lines, each holding whole clusters; it is None where every row is a cluster of its own.
    """

    mass: FloatArray
    second: FloatArray
    fourth: FloatArray
    rows: FloatArray
    parts: Callable[[], Iterator[Matrix]] | None

    def restricted(self, lines: Any) -> Design:
        """The same for some of the lines."""
        within = None
        if (parts := self.parts) is not None:

            def within() -> Iterator[Matrix]:
                for part in parts():
                    yield part[:, lines]

        return Design(self.mass[lines], self.second[lines], self.fourth[lines], self.rows[lines], within)


def designed(
    count: FloatArray, sums: dict[str, FloatArray], parts: Callable[[float], Iterator[Matrix]] | None
) -> Design:
    """A design whose masses sum to the rows. ``parts`` is given the scale of the masses."""
    total = float(sums[MASS].sum())
    if not total > 0:
        raise BadWeight("weight: all weights are 0; give the rows that count a weight above 0.")
    scale = float(count.sum()) / total
    if not (1e-60 < scale < 1e60 and np.isfinite(sums[FOURTH]).all()):
        raise BadWeight("weight: the weights are too large or too small to compute with; rescale them.")
    return Design(
        mass=sums[MASS] * scale,
        second=sums[SECOND] * scale**2,
        fourth=sums[FOURTH] * scale**4,
        rows=count,
        parts=None if parts is None else lambda: parts(scale),
    )


def masses_by(
    frame: Lazy, cluster: nw.Expr, keys: Mapping[str, nw.Expr], mass: nw.Expr, place: pl.DataFrame
) -> pl.DataFrame:
    """Masses by `CLUSTER` and `CELL`, the number in ``place`` of the keys' values; rows of no such cell are left out.

    Where polars has the rows they are joined to their cells as they are: a table by cluster and all keys takes much
    longer to make. Other engines make that table, and bring it here.
    """
    import polars as pl

    if not frame.implementation.is_polars():
        table = plain_keys(collect(aggregate(frame, {CLUSTER: cluster, **keys}, {MASS: mass})), list(keys))
        table = table.with_columns(_typed_as(place, table, list(keys)))
        return table.join(place, on=list(keys), how="inner", nulls_equal=True)
    named = {f"key {i}": key for i, key in enumerate(keys.values())}
    rows = frame.select(cluster.alias(CLUSTER), mass.alias(MASS), *(key.alias(name) for name, key in named.items()))
    cells = collect(rows.select(*named).unique())  # in the rows' own types, which those of ``place`` may not be
    plain = plain_keys(cells, list(named)).rename(dict(zip(named, keys, strict=True)))
    plain = plain.with_columns(_typed_as(place, plain, list(keys)))
    position = plain.join(place, on=list(keys), how="left", nulls_equal=True, maintain_order="left")[CELL]
    numbered = cells.with_columns(position)
    joined = rows.to_native().join(numbered.lazy(), on=list(named), how="inner", nulls_equal=True)
    return collect(nw.from_native(joined.filter(pl.col(CELL).is_not_null()).select(CLUSTER, CELL, MASS)))


def _typed_as(place: pl.DataFrame, table: pl.DataFrame, keys: list[str]) -> list[pl.Series]:
    """The 0/1 keys that an engine has as true and false, as the numbers that their cells have."""
    import polars as pl

    truths = [key for key in keys if table.schema[key] == pl.Boolean != place.schema[key]]
    return [table[key].cast(place.schema[key]) for key in truths]


def membership_matrix(cluster: pl.Series, line: IntArray, mass: FloatArray, lines: int) -> Matrix:
    """Masses by cluster and line, one entry for each of the rows given."""
    codes, number = cluster_codes(cluster)
    return sparse.csr_array((mass, (codes, line)), shape=(number, lines))


def cluster_codes(cluster: pl.Series) -> tuple[IntArray, int]:
    """A number from 0 up for each cluster, some of which may stand for none; and how many numbers there are."""
    import polars as pl

    if cluster.dtype in (pl.Int128, pl.UInt128):
        cluster = cluster.cast(pl.String)
    if cluster.dtype == pl.String:
        cluster = cluster.cast(pl.Categorical)
    if isinstance(cluster.dtype, (pl.Categorical, pl.Enum)):
        cluster = cluster.to_physical()
    if cluster.dtype.is_integer() and len(cluster):
        low, high = int(cluster.min()), int(cluster.max())  # type: ignore[arg-type]
        if high - low < 4 * len(cluster):  # dense enough to be its own number
            return (cluster - low).cast(pl.Int64).to_numpy(), high - low + 1
    codes = cluster.rank("dense").cast(pl.Int64).to_numpy() - 1
    return codes, int(codes.max(initial=-1)) + 1


def refuse_bad_weights(column: str, n: float) -> None:
    """Raise if ``n`` rows have a negative weight."""
    if n:
        raise BadWeight(f"weight: column {column!r} has {n:,.0f} rows with a negative weight; weights are 0 or more.")


def refuse_cluster(cluster: str | None, names: set[str]) -> None:
    """Raise if the clusters are the groups: a group would be one cluster, whose mean has no spread to judge by."""
    if cluster is not None and cluster in names:
        raise UsageError(
            f"cluster: {cluster!r} is also a group; each group would be a single cluster, and nothing could be tested. "
            "Name the column that says which rows belong together."
        )
