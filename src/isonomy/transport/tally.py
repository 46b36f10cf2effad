"""Rows in: memory or passes, whichever the table and the distance allow."""

from __future__ import annotations

import narwhals as nw

from isonomy.errors import MissingValues, WrongType
from isonomy.frames import Request, Source, aggregate, collect
from isonomy.frames.sums import COUNT
from isonomy.transport.distances import Distance, PerGroup
from isonomy.transport.memory import InMemory
from isonomy.transport.passes import Passes, counting
from isonomy.transport.table import Options, Table


def requests(source: Source, options: Options) -> tuple[Request, ...]:
    """The passes an audit can share with other tests."""
    return (counting(options),) if source.lazy and options.distance.expression() is not None else ()


def tally(source: Source, options: Options) -> Table:
    """Open the rows: in memory, or by passes where an engine holds them and the distance is an expression."""
    source.require(outcome=options.outcome, prediction=options.prediction)
    for column in options.distance.reads:
        source.require(distance=column)
    for column in options.distance.columns:
        require_numbers(source, "distance", column)
    kind = Passes if source.lazy and options.distance.expression() is not None else InMemory
    try:
        return kind(source, options)
    except MissingValues:
        refuse_levels_without_factor(source, options.distance)
        raise


def refuse_levels_without_factor(source: Source, distance: Distance) -> None:
    """Raise about the levels that `PerGroup` was told no factor for: they are forgotten, not missing."""
    while isinstance(distance, PerGroup):
        column, without = distance.without()
        found = collect(aggregate(source.frame.filter(without), {"level": nw.col(column)}, {}))
        if len(found):
            levels = ", ".join(sorted(map(repr, found["level"].to_list()))[:10])
            known = ", ".join(map(repr, distance.factors))
            raise MissingValues(
                f"factors: {found[COUNT].sum():,.0f} rows have a level of {column!r} without a factor: {levels}. "
                f"Given: {known}. Give one for each level."
            )
        distance = distance.distance


def require_numbers(source: Source, argument: str, column: str) -> None:
    """Raise about a column that cannot be measured."""
    dtype = source.schema[column]
    if not (dtype.is_numeric() or dtype == nw.Boolean):
        raise WrongType(f"{argument}: column {column!r} is {dtype}; it must hold numbers.")
