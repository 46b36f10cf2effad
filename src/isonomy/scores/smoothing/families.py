"""Disjoint groups that are compared with one another: the sums over their rows, and what a pair of them needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np

from isonomy.errors import UsageError
from isonomy.frames import Group
from isonomy.numerics.arrays import BoolArray, FloatArray
from isonomy.scores.smoothing.contrasts import GroupCurves, Pair, Pooled, Smoother, common_sites, enough, users_near
from isonomy.scores.smoothing.kernels import POOLED, Bandwidth, cross_validated
from isonomy.scores.smoothing.moments import VoteMoments

Widths = float | Sequence[float] | Literal["cross-validation"] | None


@dataclass(frozen=True, slots=True, eq=False)
class Family:
    """The groups of one table, and the sums over their rows. ``binary``: every outcome is 0 or 1."""

    dimensions: tuple[str, ...]
    groups: tuple[Group, ...]
    sums: VoteMoments
    binary: bool

    @property
    def title(self) -> str:
        """The name of the table."""
        return " & ".join(self.dimensions)

    @property
    def default_grid(self) -> FloatArray:
        """Quantiles of all scores."""
        return self.sums.axis.grid(self.sums.weight.sum(axis=0))

    def bandwidth(self, given: Widths, points: FloatArray, *, published: bool = False) -> Bandwidth:
        """The bandwidth that was asked for; n is the number of users (or rows) of the average group.

        ``published``: the rule is scaled to all scores, as in the paper, not to where most of them lie.
        """
        axis = self.sums.axis.published if published else self.sums.axis
        average = float(self.sums.users.sum()) / len(self.groups)
        if not isinstance(given, str):
            return Bandwidth.of(axis, average, given, points)
        votes, outcomes = self.sums.weight.sum(axis=0), self.sums.total.sum(axis=0)
        return cross_validated(Bandwidth(axis, average), votes, outcomes)

    def pooled(self, pair: Pair, bandwidth: Bandwidth, part: float = POOLED) -> Pooled:
        """The outcome curve of two groups together, and the share of the first, at each site."""
        chosen = list(pair)
        weight, total, site = self.sums.weight[chosen], self.sums.total[chosen], self.sums.site
        outcome = bandwidth.smooth(weight.sum(axis=0), total.sum(axis=0), part)
        common = common_sites(weight, self.sums.square[chosen], site, bandwidth.at(site))
        return Pooled(outcome(site), bandwidth.share(weight, part)(site), common)

    def supported(self, pair: Pair, pooled: Pooled, smoother: Smoother, fit: GroupCurves) -> BoolArray:
        """Points near which both groups have enough users at common scores, given the pair's rate of events."""
        chosen = list(pair)
        effective = users_near(self.sums, pair, smoother, pooled.common)
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = np.nansum(fit.mean[chosen] * fit.mass[chosen], axis=0) / fit.mass[chosen].sum(axis=0)
        return np.asarray(np.all(enough(effective, mean, binary=self.binary), axis=0))

    def pairs(self, reference: Mapping[str, object] | None) -> list[Pair]:
        """Every pair (the later group against the earlier one), or each group against the reference."""
        if reference is None:
            return list(combinations(range(len(self.groups)), 2))
        wanted = {str(name): value for name, value in reference.items()}
        base = next((i for i, group in enumerate(self.groups) if dict(group.mapping) == wanted), None)
        if base is None:
            labels = ", ".join(group.label for group in self.groups[:20])
            raise UsageError(f"reference: there is no group {reference!r}; the groups are {labels}.")
        return [(i, base) for i in range(len(self.groups)) if i != base]
