"""Rows in: memory or passes, whichever the table and the distance allow."""

from __future__ import annotations

import narwhals as nw

from isonomy.errors import WrongType
from isonomy.frames import Request, Source
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
    if source.lazy and options.distance.expression() is not None:
        return Passes(source, options)
    return InMemory(source, options)


def require_numbers(source: Source, argument: str, column: str) -> None:
    """Raise about a column that cannot be measured."""
    dtype = source.schema[column]
    if not (dtype.is_numeric() or dtype == nw.Boolean):
        raise WrongType(f"{argument}: column {column!r} is {dtype}; it must hold numbers.")
