"""Estimates of many small groups, drawn toward what the groups have in common. No verdict rests on them."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from isonomy.errors import UsageError
from isonomy.frames.groups import CONDITION
from isonomy.groups import words
from isonomy.groups.likelihood.shrinkage import BeyondParts, rate_variance, shrink_means
from isonomy.numerics.arrays import FloatArray
from isonomy.numerics.status import Status
from isonomy.results import Columns, column
from isonomy.results.columns import Column
from isonomy.results.evidence import as_frame, read_only

if TYPE_CHECKING:
    from isonomy.groups.disparities import GroupEvidence

Toward = Literal["main_effects", "mean"]

FEWEST = 8  # groups
LEFT = 10  # groups beyond the fitted parameters; with 3, the intervals of 8 groups covered 93.2 % on average


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ShrunkResult:
    """Estimates drawn toward what the groups have in common, next to the raw ones. There is no verdict.

    ``weight`` is the weight of the raw estimate, and ``expected`` what it is drawn toward. ``beyond_parts`` has Q, df
    and pvalue of the hypothesis that the groups do not differ beyond that.
    """

    title: ClassVar[str] = words.SHRUNK

    group: tuple[str, ...] = column("Group")
    n: FloatArray = column("Rows counted", count=True)
    estimate: FloatArray = column("Raw estimate", unit="%")
    shrunk: FloatArray = column("Shrunk estimate", unit="%")
    ci_low: FloatArray = column("Interval from", unit="%")
    ci_high: FloatArray = column("Interval to", unit="%")
    weight: FloatArray = column("Weight of the raw estimate")
    expected: FloatArray = column("Drawn toward", unit="%")
    beyond_parts: BeyondParts
    columns: tuple[str, ...]  # what forms the groups
    toward: Toward
    equal: bool  # whether the groups spread no more than chance spreads them
    share: bool  # whether the metric is a share of people
    alpha: float
    backend: str

    def __post_init__(self) -> None:
        read_only(self)

    def described(self) -> dict[str, Column]:
        """The columns of the table, in order, with their headings and units."""
        declared = {part.name: part.metadata["column"] for part in fields(self) if part.metadata}
        return {name: replace(c, name=name, unit=c.unit if self.share else "") for name, c in declared.items()}

    def table(self) -> Columns:
        return {name: getattr(self, name) for name in self.described()}

    def to_frame(self, backend: str | None = None) -> Any:
        """One row per group: group, n, estimate (the raw one), shrunk, ci_low, ci_high, weight, expected."""
        return as_frame(self.table(), backend, self.backend, ["n"])

    def summary(self) -> str:
        """How to read the table, and whether the groups differ beyond what they are drawn toward."""
        return words.shrunk(self)

    __str__ = summary

    def __repr__(self) -> str:
        return f"<ShrunkResult of {len(self.group):,} groups by {' & '.join(self.columns)}: no verdict>"


def shrink(r: GroupEvidence, toward: Toward, of: tuple[str, ...] | None, alpha: float) -> ShrunkResult:
    rates = r.all_shares or bool(np.isfinite(r.planning_rate).any())
    columns, lines = _lines(r, of)
    n, value = r.n[lines], r.estimate[lines]
    levels = [dict.fromkeys(column) for column in zip(*(r.groups[i].items for i in lines), strict=True)]
    several = sum(len(column) > 1 for column in levels) > 1
    toward = toward if several else "mean"
    effects = [level for column in levels for level in list(column)[1:]] if toward == "main_effects" else []
    design = np.array([[True, *(level in r.groups[i].items for level in effects)] for i in lines], dtype=float)
    left = len(lines) - int(np.linalg.matrix_rank(design)) if lines else 0
    within = 0.0
    if not rates and r.variance is not None:
        within = float(n @ r.variance[lines]) / max(float(n.sum()) - len(lines), 1.0)
    effect = np.ones(len(lines)) if r.design is None else r.design.effect[lines]
    known = np.isfinite(effect)
    refusals = (
        (bool(r.proxy), "groups are known only by probability, so that they share their rows."),
        (bool(r.given), "groups were compared within strata (given)."),
        (len(set(r.metrics)) > 1, "the result has several metrics; call flag with one of them."),
        (not rates and r.variance is None, f"{r.metrics[0]} is not a mean over rows."),
        (
            len(lines) < FEWEST,
            f"{len(lines)} groups are too few to learn from one another; at least {FEWEST} are needed.",
        ),
        (
            toward == "main_effects" and left < LEFT,
            f"main effects leave {left} of {len(lines)} groups to judge by, and {LEFT} are needed; give toward='mean'.",
        ),
        (not (rates or within > 0), f"{r.metrics[0]} does not vary within groups, so chance cannot be judged."),
        (not known.any(), "no group has enough clusters, so the design effect is unknown."),
    )
    for refused, reason in refusals:
        if refused:
            raise UsageError(f"shrunk: {reason}")
    variance = rate_variance(value, n, design) if rates else within / n
    numbers, beyond, equal = shrink_means(
        value, variance * float(np.average(effect[known], weights=n[known])), design, alpha
    )
    if rates:
        numbers |= {name: np.clip(numbers[name], 0.0, 1.0) for name in ("shrunk", "ci_low", "ci_high")}
    return ShrunkResult(
        group=tuple(r.groups[i].label for i in lines),
        n=n,
        estimate=value,
        **numbers,
        beyond_parts=beyond,
        columns=columns,
        toward=toward,
        equal=equal,
        share=r.all_shares,
        alpha=alpha,
        backend=r.provenance.backend,
    )


def _lines(r: GroupEvidence, of: tuple[str, ...] | None) -> tuple[tuple[str, ...], list[int]]:
    """The columns that form the groups, and the lines of these groups that have rows and are not withheld."""
    sets: dict[tuple[str, ...], list[int]] = {}
    for i, group in enumerate(r.groups):
        names = tuple(str(level) if name == CONDITION else name for name, level in group.items)
        lines = sets.setdefault(names, [])
        if r.status[i] is not Status.SUPPRESSED and r.n[i] > 0 and np.isfinite(r.estimate[i]):
            lines.append(i)
    if not sets:
        raise UsageError("shrunk: the result has no groups.")
    deepest = max(map(len, sets))
    chosen = [names for names in sets if (len(names) == deepest if of is None else set(names) == set(of))]
    if not chosen:
        raise UsageError(f"of: no groups are formed by {of!r}. Allowed: {', '.join(map(str, [*sets][:10]))}.")
    if len(chosen) > 1:
        raise UsageError(f"shrunk: the groups overlap; name one set of columns: of={chosen[0]!r}.")
    return chosen[0], sets[chosen[0]]
