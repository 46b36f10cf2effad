"""Rows in: any frame, its roles, its groups and their intersections, its metrics, and grouped sums.

The only part of isonomy that touches rows. Everything after it works on small arrays.
"""

from isonomy.frames.design import Design
from isonomy.frames.groups import Group, Grouping, Groups, Partition, cut, where
from isonomy.frames.labels import Labels
from isonomy.frames.metrics import Metric, MetricLike
from isonomy.frames.request import Request, Sample
from isonomy.frames.source import Reading, Source, open_source
from isonomy.frames.sums import COUNT, Pass, aggregate, collect, missing

__all__ = [
    "COUNT",
    "Design",
    "Group",
    "Grouping",
    "Groups",
    "Labels",
    "Metric",
    "MetricLike",
    "Partition",
    "Pass",
    "Reading",
    "Request",
    "Sample",
    "Source",
    "aggregate",
    "collect",
    "cut",
    "missing",
    "open_source",
    "where",
]
