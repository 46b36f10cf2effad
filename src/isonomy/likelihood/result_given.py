"""What `flag` returns for a comparison within strata."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self

import numpy as np

from isonomy.likelihood import wording_given
from isonomy.likelihood.decide import Decisions
from isonomy.likelihood.estimate import Estimates, Widest
from isonomy.likelihood.estimate_given import Effects, Within
from isonomy.likelihood.plan import Plan
from isonomy.likelihood.result import DESCRIBED, FlagResult
from isonomy.likelihood.tally import Tally
from isonomy.numerics.arrays import FloatArray
from isonomy.results import Call, Columns, storable
from isonomy.results.shape import as_frame

storable(Effects)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class StratifiedResult(FlagResult):
    """Every group's disparity within strata, beside the unconditional one. `to_frame` has one row per group.

    ``accounted`` is the unconditional disparity less the conditional one (for ratios, the one over the other), and
    ``share`` its share of the unconditional one; ``strata`` is the number of strata with rows on both sides,
    ``one_sided`` that of the others. `by_stratum` has the strata one by one.
    """

    method: ClassVar[str] = wording_given.METHOD
    references: ClassVar[tuple[str, ...]] = (*FlagResult.references, *wording_given.REFERENCES)
    never_shown: ClassVar[tuple[str, ...]] = (*FlagResult.never_shown, wording_given.LEGITIMATE)
    columns: ClassVar[tuple[str, ...]] = tuple(
        name
        for column in FlagResult.columns
        for name in {
            "disparity": ("unconditional", "disparity"),
            "status": (
                *("accounted", "accounted_low", "accounted_high", "homogeneity_pvalue", "strata", "one_sided"),
                "status",
            ),
        }.get(column, (column,))
    )
    own: ClassVar[tuple[str, ...]] = (
        *("unconditional", "accounted", "accounted_low", "accounted_high", "share", "share_low", "share_high"),
        *("homogeneity", "homogeneity_pvalue", "strata", "one_sided"),
    )
    withheld: ClassVar[tuple[str, ...]] = (*FlagResult.withheld, *own)

    given: tuple[str, ...]
    unconditional: FloatArray
    accounted: FloatArray
    accounted_low: FloatArray
    accounted_high: FloatArray
    share: FloatArray
    share_low: FloatArray
    share_high: FloatArray
    homogeneity: FloatArray
    homogeneity_df: FloatArray
    homogeneity_pvalue: FloatArray
    strata: FloatArray
    one_sided: FloatArray
    effects: Effects

    @classmethod
    def within(
        cls,
        call: Call,
        plan: Plan,
        sums: Sequence[Tally],
        estimates: tuple[Estimates, Widest | None],
        decisions: Decisions,
        within: Within,
    ) -> StratifiedResult:
        """Lay out what was estimated and decided."""
        whole, part = FlagResult.of(call, plan, sums, estimates, decisions), within.accounted
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
        effects = self.effects
        columns: Columns = {
            "group": [self.labels[i] for i in effects.group],
            "stratum": list(effects.stratum),
            "n": effects.n,
            "estimate": effects.estimate,
            "reference_n": effects.reference_n,
            "reference": effects.reference,
            "disparity": effects.disparity,
        }
        return as_frame(columns, backend, self.provenance.backend)

    def findings(self) -> tuple[str, ...]:
        """An overview, what the factors account for, then the groups with the smallest p-values."""
        overview, *others = FlagResult.findings(self)
        tested = np.flatnonzero(~np.isnan(self.pvalue))
        order = tested[np.argsort(self.pvalue[tested], kind="stable")][:DESCRIBED]
        return (overview, *(self._accounts(int(i)) for i in order), *others)

    def _accounts(self, i: int) -> str:
        """What the factors account for in one group."""
        ratio = self.provenance.options.get("scale", "difference") != "difference"
        ends = float(self.accounted_low[i]), float(self.accounted_high[i])
        sentences = [
            wording_given.finding(
                self.labels[i], float(self.unconditional[i]), float(self.disparity[i]), self.given, ratio=ratio
            ),
            wording_given.accounted(float(self.accounted[i]), ends, self.alpha, self.given, ratio=ratio),
        ]
        share = 100.0 * np.array([self.share[i], self.share_low[i], self.share_high[i]])
        if np.isfinite(share).all():
            sentences.append(wording_given.share(*(float(value) for value in share)))
        return " ".join(sentences)

    def assumptions(self) -> tuple[tuple[str, str], ...]:
        """What is assumed, and how it was checked or that it cannot be."""
        return (*FlagResult.assumptions(self), wording_given.ASSUMED)

    def suppressed(self, minimum: int) -> Self:
        """A copy that withholds the numbers of groups, and of strata, with fewer than ``minimum`` rows."""
        hidden = FlagResult.suppressed(self, minimum)
        kept = (self.effects.n >= minimum) & (self.effects.reference_n >= minimum)
        kept &= ~np.isnan(hidden.n[self.effects.group])
        names = tuple(name for name, keep in zip(self.effects.stratum, kept, strict=True) if keep)
        arrays = {item.name: getattr(self.effects, item.name) for item in fields(Effects) if item.name != "stratum"}
        effects = Effects(stratum=names, **{name: values[kept] for name, values in arrays.items()})
        return replace(hidden, effects=effects)
