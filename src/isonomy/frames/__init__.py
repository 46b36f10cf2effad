"""Rows in: any frame, its roles, its groups and their intersections, its metrics, and grouped sums.

The only part of isonomy that touches rows. Everything after it works on small arrays.
"""

from isonomy.frames.groups import Group, Grouping, Partition, cut, where
from isonomy.frames.request import Request, Rows, Tally
from isonomy.frames.source import Source, open_source
from isonomy.frames.sums import COUNT, Sums, aggregate, collect, missing

__all__ = [
    "COUNT",
    "Group",
    "Grouping",
    "Partition",
    "Request",
    "Rows",
    "Source",
    "Sums",
    "Tally",
    "aggregate",
    "collect",
    "cut",
    "missing",
    "open_source",
    "where",
]
