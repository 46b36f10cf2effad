"""What `flag` and `certify` return for a comparison within strata."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self

import numpy as np

from isonomy.frames import Group
from isonomy.likelihood import wording_given
from isonomy.likelihood.estimate_given import Effects, Within
from isonomy.likelihood.plan import Plan
from isonomy.likelihood.result import MOST_GROUPS, FlagResult, LikelihoodResult
from isonomy.likelihood.result_joint import CertifyResult
from isonomy.numerics.arrays import FloatArray, IntArray
from isonomy.results import storable
from isonomy.results.disclosure import withheld
from isonomy.results.shape import as_frame

storable(Effects)

# The numbers of each group that strata add.
OF_STRATA = (
    *("unconditional", "accounted", "accounted_low", "accounted_high", "share", "share_low", "share_high"),
    *("homogeneity", "homogeneity_df", "homogeneity_pvalue", "strata", "one_sided"),
)
STRATUM = "\x00stratum"  # the dimension of strata beside those of groups: no column has that name
BEFORE_STATUS = ("accounted", "accounted_low", "accounted_high", "homogeneity_pvalue", "strata", "one_sided")


def _with_strata(columns: tuple[str, ...]) -> tuple[str, ...]:
    """The columns of a table, and those that strata add: beside the disparity, and before the status."""
    more = {"disparity": ("unconditional", "disparity"), "status": (*BEFORE_STATUS, "status")}
    return tuple(name for column in columns for name in more.get(column, (column,)))


@dataclass(frozen=True, eq=False, kw_only=True)
class WithinStrata(LikelihoodResult):
    """What a comparison within strata adds to each group, whichever question is asked."""

    __slots__ = ()  # its fields have theirs in the two results

    method: ClassVar[str] = wording_given.METHOD

    given: tuple[str, ...]
    unconditional: FloatArray
    accounted: FloatArray
    accounted_low: FloatArray
    accounted_high: FloatArray
    share: FloatArray
    share_low: FloatArray
    share_high: FloatArray
    homogeneity: FloatArray
    homogeneity_df: IntArray
    homogeneity_pvalue: FloatArray
    strata: FloatArray
    one_sided: FloatArray
    effects: Effects

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        cls.references = (*super().references, *wording_given.REFERENCES)
        cls.never_shown = (*super().never_shown, wording_given.LEGITIMATE)
        cls.columns = _with_strata(super().columns)
        cls.withheld = (*super().withheld, *OF_STRATA)

    @classmethod
    def within(cls, whole: LikelihoodResult, plan: Plan, within: Within) -> Self:
        """Lay out what strata add to the result of the same question."""
        part = within.accounted
        return cls.gather(
            whole,
            within,
            part,
            plan,
            null=wording_given.null(whole.null, plan.given),
            accounted=part.value,
            accounted_low=part.low,
            accounted_high=part.high,
        )

    def by_stratum(self, backend: str | None = None) -> Any:
        """The strata with enough rows on both sides, one row per group and stratum."""
        columns = {item.name: getattr(self.effects, item.name) for item in fields(Effects)}
        columns["group"] = [self.labels[i] for i in self.effects.group]
        return as_frame(columns, backend, self.provenance.backend)

    def assumptions(self) -> tuple[tuple[str, str], ...]:
        """What is assumed, and how it was checked or that it cannot be."""
        return (*super().assumptions(), wording_given.ASSUMED)

    def suppressed(self, minimum: int, also: Collection[str] = ()) -> Self:
        """A copy that withholds the numbers of groups, and of strata, with fewer than ``minimum`` rows."""
        hidden = super().suppressed(minimum, also)
        return replace(hidden, effects=_kept_effects(self.effects, self.groups, hidden.n, minimum))

    def _accounts(self, i: int) -> str:
        """What the factors account for in one group."""
        difference = self.provenance.options.get("scale", "difference") == "difference"
        unit: wording_given.Unit = "ratio" if not difference else "points" if self.shares[i] else "number"
        ends = float(self.accounted_low[i]), float(self.accounted_high[i])
        whole, inside = float(self.unconditional[i]), float(self.disparity[i])
        sentences = [
            wording_given.finding(self.labels[i], whole, inside, self.given, unit),
            wording_given.accounted(float(self.accounted[i]), ends, self.alpha, self.given, unit),
        ]
        share = 100.0 * np.array([self.share[i], self.share_low[i], self.share_high[i]])
        if np.isfinite(share).all():
            sentences.append(wording_given.share(*(float(value) for value in share)))
        return " ".join(sentences)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class StratifiedResult(WithinStrata, FlagResult):
    """Every group's disparity within strata, beside the unconditional one. `to_frame` has one row per group.

    ``accounted`` is the unconditional disparity less the conditional one (for ratios, the one over the other), and
    ``share`` its share of the unconditional one; ``strata`` is the number of strata with rows on both sides,
    ``one_sided`` that of the others. `by_stratum` has the strata one by one.
    """

    def findings(self) -> tuple[str, ...]:
        """An overview, what the factors account for, then the groups, worst first."""
        overview, *others = FlagResult.findings(self)
        return (overview, *(self._accounts(i) for i in self._worst_first()[:MOST_GROUPS]), *others)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class StratifiedCertifyResult(WithinStrata, CertifyResult):
    """One joint test of all groups within strata. `to_frame` has the columns of `StratifiedResult` beside its own."""

    def findings(self) -> tuple[str, ...]:
        """What decided, then what the factors account for in the groups furthest from their reference."""
        distance = np.where(np.isnan(self.ci_low), -1.0, np.abs(self.link.delta(self.disparity)))
        furthest = [int(i) for i in np.argsort(-distance, kind="stable")[:MOST_GROUPS] if distance[i] >= 0]
        return (*CertifyResult.findings(self), *(self._accounts(i) for i in furthest))


def _kept_effects(effects: Effects, groups: Sequence[Group], n: FloatArray, minimum: int) -> Effects:
    """The strata with enough rows on both sides, and none from which another follows.

    Where a group is withheld none is listed: what others are compared with in a stratum has its rows in it.
    """
    few = (effects.n < minimum) | (effects.reference_n < minimum)
    parts = [Group((*groups[i].items, (STRATUM, name))) for i, name in zip(effects.group, effects.stratum, strict=True)]
    size = np.minimum(effects.n, effects.reference_n)
    kept = ~withheld(parts, size, few, minimum) & (not np.isnan(n).any())
    names = tuple(name for name, keep in zip(effects.stratum, kept, strict=True) if keep)
    arrays = {item.name: getattr(effects, item.name) for item in fields(Effects) if item.name != "stratum"}
    return Effects(stratum=names, **{name: values[kept] for name, values in arrays.items()})
