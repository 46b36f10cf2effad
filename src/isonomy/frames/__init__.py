"""From rows to small arrays: any frame, its roles, groups, metrics and designs, and grouped sums over it.

Outside this folder only the heading *read* of a question sees rows.
"""

from isonomy.frames.design import Design
from isonomy.frames.expressions import missing
from isonomy.frames.groups import Group, Grouping, Groups, Labels, Partition, cut, where
from isonomy.frames.metrics import Metric, MetricLike
from isonomy.frames.proxies import proxy
from isonomy.frames.source import Request, Sample, Source, open_source
from isonomy.frames.sums import COUNT, aggregate, collect

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
    "Request",
    "Sample",
    "Source",
    "aggregate",
    "collect",
    "cut",
    "missing",
    "open_source",
    "proxy",
    "where",
]
