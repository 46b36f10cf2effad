"""What a table of adverse impact is asked: decisions or scores, categories, the comparator, the threshold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from isonomy.errors import MissingRole, UnknownOption, UsageError
from isonomy.frames import Group, Groups, Request, Source
from isonomy.frames.metrics import Measure, measure
from isonomy.options import Form, Number, shown
from isonomy.results import phrases

Comparator = Annotated[str | Mapping[str, object] | Group, Form("comparator")]
Share = Annotated[float, Number(least=0, below=1)]
Family = Literal["holm", "bonferroni", "bh", "by", "none"]


@dataclass(frozen=True, slots=True, eq=False)
class ImpactPlan:
    """What was asked. ``measure`` reads decisions and is None where scores alone are given; ``reference`` is None for
    the group selected most often, else the level of each dimension that is compared with."""

    measure: Measure | None
    request: Request
    score: str | None
    reference: Mapping[str, object] | None
    threshold: float
    alpha: float
    adjust: Family
    min_size: int
    smallest_share: float
    chosen: str  # what people are whose decision is 1

    @property
    def by_row(self) -> bool:
        """Scores have to be read row by row; decisions are counted."""
        return self.score is not None

    @property
    def requests(self) -> tuple[Request, ...]:
        """The grouped pass over the rows, where counts are enough."""
        return () if self.by_row else (self.request,)


def plan_impact(
    source: Source,
    *,
    groups: Groups,
    prediction: str | None,
    score: str | None,
    reference: Comparator,
    threshold: float,
    alpha: float,
    adjust: Family,
    depth: int,
    min_size: int,
    smallest_share: float,
) -> ImpactPlan:
    """The plan of `adverse_impact`. Reads the schema only."""
    grouping = source.grouping(groups, depth)
    if prediction is None and score is None:
        raise MissingRole("prediction: decisions or scores are needed; pass prediction=<column> or score=<column>.")
    source.require(score=score)
    bound, request = None, Request(grouping)
    if prediction is not None:
        bound = measure(source, "selection_rate", grouping=grouping, prediction=prediction)
        request = bound.request
    if score is not None:
        request = Request(grouping, binary=request.binary, numeric={**request.numeric, "score": score})
    return ImpactPlan(
        measure=bound,
        request=request,
        score=score,
        reference=_levels(reference, [dimension.name for dimension in grouping.dimensions]),
        threshold=threshold,
        alpha=alpha,
        adjust=adjust,
        min_size=min_size,
        smallest_share=smallest_share,
        chosen=phrases.chosen(source.labels.metrics),
    )


def _levels(reference: Comparator, dimensions: list[str]) -> Mapping[str, object] | None:
    """The level of every dimension that is compared with, or None for whoever is selected most often."""
    if isinstance(reference, str):
        if reference == "highest":
            return None
        raise UnknownOption("reference", reference, ("highest", "a mapping such as {'race': 'White', 'sex': 'male'}"))
    if not isinstance(reference, (Group, Mapping)):
        raise UsageError(
            f"reference: {shown(reference)} is not allowed; give 'highest', or a mapping such as "
            "{'race': 'White', 'sex': 'male'}."
        )
    levels = dict(reference.items) if isinstance(reference, Group) else dict(reference)
    absent = [name for name in dimensions if name not in levels]
    unknown = [name for name in levels if name not in dimensions]
    if absent or unknown:
        raise UsageError(
            f"reference: each table has its own; give a level of every one of {', '.join(dimensions)}, or 'highest'. "
            f"Without a level: {', '.join(absent) or 'none'}; not among the groups: {', '.join(unknown) or 'none'}."
        )
    return levels
