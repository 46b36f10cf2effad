"""What `flag` and `certify` return for a comparison within strata."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self

import numpy as np

from isonomy.frames.groups import CONDITION
from isonomy.likelihood import wording, wording_given
from isonomy.likelihood.estimate_given import Effects, Within
from isonomy.likelihood.plan import Plan
from isonomy.likelihood.plan_reference import To
from isonomy.likelihood.result import MOST_GROUPS, FlagResult, LikelihoodResult
from isonomy.likelihood.result_joint import CertifyResult
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray
from isonomy.results import Columns, phrases, storable
from isonomy.results.shape import as_frame

storable(Effects)

# The numbers of each group that strata add.
OF_STRATA = (
    *("raw_estimate", "raw_reference", "unconditional", "accounted", "accounted_low", "accounted_high"),
    *("share", "share_low", "share_high", "homogeneity", "homogeneity_df", "homogeneity_pvalue", "strata"),
    "one_sided",
)
WITHHELD = "(withheld)"  # all strata that are withheld, as one
BEFORE_STATUS = ("accounted", "accounted_low", "accounted_high", "homogeneity_pvalue", "strata", "one_sided")


def _with_strata(columns: tuple[str, ...]) -> tuple[str, ...]:
    """The columns of a table, and those that strata add: before the adjusted numbers, and before the status."""
    more = {
        "estimate": ("raw_estimate", "raw_reference", "unconditional", "estimate"),
        "status": (*BEFORE_STATUS, "status"),
    }
    return tuple(name for column in columns for name in more.get(column, (column,)))


@dataclass(frozen=True, eq=False, kw_only=True)
class WithinStrata(LikelihoodResult):
    """What a comparison within strata adds to each group, whichever question is asked."""

    __slots__ = ()  # its fields have theirs in the two results

    method: ClassVar[str] = wording_given.METHOD

    given: tuple[str, ...]
    bands: Mapping[str, tuple[str, ...]]
    raw_estimate: FloatArray
    raw_reference: FloatArray
    unconditional: FloatArray
    accounted: FloatArray
    accounted_low: FloatArray
    accounted_high: FloatArray
    share: FloatArray
    share_low: FloatArray
    share_high: FloatArray
    homogeneity: FloatArray
    homogeneity_df: IntArray | FloatArray  # NaN where it is withheld
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
            null=wording_given.null(whole.null, wording_given.alike(plan.given, plan.bands)),
            accounted=part.value,
            accounted_low=part.low,
            accounted_high=part.high,
        )

    def by_stratum(self, backend: str | None = None) -> Any:
        """The strata with enough rows on both sides, one row per group and stratum."""
        return as_frame(self._by_stratum(), backend, self.provenance.backend)

    def _by_stratum(self) -> Columns:
        effects, known = self.effects, np.flatnonzero(~np.isnan(self.effects.estimate))
        labels = [self.labels[i] for i in effects.group[known]], [effects.stratum[i] for i in known]
        numbers = ("n", "estimate", "reference_n", "reference", "disparity")
        return dict(zip(("group", "stratum"), labels, strict=True)) | {
            name: getattr(effects, name)[known] for name in numbers
        }

    def pages(self) -> Mapping[str, Columns]:
        """The table, and the strata one by one if any are listed; their numbers are raw."""
        strata = self._by_stratum()
        if not len(strata["stratum"]):
            return {}
        raw = {"estimate": "raw_estimate", "reference": "raw_reference"}
        listed = {raw.get(name, name): values for name, values in strata.items()}
        return {wording_given.NUMBERS: self.table(), wording_given.BY_STRATUM: listed}

    def headings(self) -> Mapping[str, str]:
        """Columns of the tables that this result calls by words of its own."""
        return {**super().headings(), **wording_given.HEADINGS}

    def table_note(self) -> str:
        """What adjusted numbers are."""
        return wording_given.adjusted_note(self.scale)

    def assumptions(self) -> tuple[tuple[str, str], ...]:
        """What is assumed, and how it was checked or that it cannot be."""
        return (*super().assumptions(), wording_given.ASSUMED)

    def suppressed(self, minimum: int, also: Collection[str] = ()) -> Self:
        """A copy that withholds the numbers of groups, and of strata, with fewer than ``minimum`` rows."""
        hidden = super().suppressed(minimum, also)
        return replace(hidden, effects=self._published_effects(hidden.n, minimum))

    def _published_effects(self, n: FloatArray, minimum: int) -> Effects:
        """The strata without those in which a cell is small, nor any from which one follows.

        Strata are withheld whole, the smallest first, until all that are withheld hold nobody of a group or enough,
        and as one stratum have no small cell either: then no sum or difference gives a small one. Where a group is
        withheld none is listed, since what others are compared with in a stratum has its rows in it; nor where not
        every cell is known.
        """
        effects = self.effects
        if np.isnan(n).any() or (minimum > 1 and not effects.complete):
            return _effects_at(effects, np.zeros(0, dtype=np.intp), complete=False)
        names, place = np.unique(np.array(effects.stratum, dtype=object), return_inverse=True)
        size, at = (len(self.groups), names.size), effects.group * names.size + place
        rows = (effects.n, effects.reference_n)
        cells = np.stack([np.bincount(at, part, minlength=size[0] * size[1]).reshape(size) for part in rows]).astype(
            float
        )
        small = self._telling(cells, minimum)
        if not small.any():
            return effects
        order = np.lexsort((cells.sum(axis=(0, 1)), ~small))
        together = np.cumsum(cells[:, :, order], axis=2)
        enough = ~self._telling(together, minimum) & (np.arange(names.size) >= small.sum() - 1)
        last = int(np.argmax(enough)) if enough.any() else names.size - 1
        kept = _effects_at(effects, np.flatnonzero(~np.isin(place, order[: last + 1])), complete=True)
        group = np.flatnonzero(together[:, :, last].any(axis=0))
        own, other = together[:, group, last]
        none = np.full(group.size, np.nan)
        return Effects(
            group=np.append(kept.group, group),
            stratum=(*kept.stratum, *(WITHHELD for _ in group)),
            n=np.append(kept.n, own),
            estimate=np.append(kept.estimate, none),
            reference_n=np.append(kept.reference_n, other),
            reference=np.append(kept.reference, none),
            disparity=np.append(kept.disparity, none),
            complete=True,
        )

    def _telling(self, cells: FloatArray, minimum: int) -> BoolArray:
        """In which strata a cell is small, or the difference of two of people who may overlap."""
        few = np.asarray(((cells > 0) & (cells < minimum)).any(axis=(0, 1)), dtype=bool)
        named = [any(name == CONDITION for name, _ in group.items) for group in self.groups]
        apart = [np.abs(cells[0] - cells[0, i]) for i in np.flatnonzero(named)]
        if self.reference_kind is To.GROUP:  # without its members in the group
            apart.append(np.diff(np.sort(cells[1], axis=0), axis=0))
        for difference in apart:
            few |= ((difference > 0) & (difference < minimum)).any(axis=0)
        return few

    def _accounts(self, i: int) -> str:
        """What the factors account for in one group."""
        difference = self.provenance.options.get("scale", "difference") == "difference"
        unit: wording_given.Unit = "ratio" if not difference else "points" if self.shares[i] else "number"
        ends = float(self.accounted_low[i]), float(self.accounted_high[i])
        whole, inside = float(self.unconditional[i]), float(self.disparity[i])
        sentences = [
            wording_given.finding(
                self.labels[i],
                (float(self.raw_estimate[i]), float(self.raw_reference[i])),
                whole,
                inside,
                phrases.listed(self.given),
                wording_given.alike(self.given, self.bands),
                unit,
                share=self.shares[i],
            ),
            wording_given.accounted(float(self.accounted[i]), ends, self.alpha, self.given, unit),
        ]
        share = 100.0 * np.array([self.share[i], self.share_low[i], self.share_high[i]])
        if np.isfinite(share).all():
            sentences.append(wording_given.share(*(float(value) for value in share)))
        return " ".join(sentences)

    def _banded(self) -> tuple[str, ...]:
        """The bands that numbers are cut into, one sentence each."""
        return tuple(wording_given.banded(name, bands) for name, bands in self.bands.items())


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class StratifiedResult(WithinStrata, FlagResult):
    """Every group's disparity within strata, beside the unconditional one. `to_frame` has one row per group.

    ``estimate`` and ``reference`` are adjusted: averages over the strata with Mantel and Haenszel's weights, whose
    difference (ratio) is the disparity. On the scale of odds ratios the group's is the rate with the common odds ratio
    to its reference's. ``raw_estimate`` and ``raw_reference`` are not adjusted, and give ``unconditional``.
    ``accounted`` is the unconditional disparity less the conditional one (for ratios, the one over the other), and
    ``share`` its share of the unconditional one; ``strata`` is the number of strata with rows on both sides,
    ``one_sided`` that of the others. `by_stratum` has the strata one by one.
    """

    def findings(self) -> tuple[str, ...]:
        """An overview, what the factors account for, then the groups, worst first."""
        overview, *others = FlagResult.findings(self)
        accounts = (self._accounts(i) for i in self._worst_first()[:MOST_GROUPS])
        return (overview, *accounts, *others, *self._banded())

    def _finding(self, i: int) -> wording.Finding:
        return replace(FlagResult._finding(self, i), adjusted_for=phrases.listed(self.given))


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class StratifiedCertifyResult(WithinStrata, CertifyResult):
    """One joint test of all groups within strata. `to_frame` has the columns of `StratifiedResult` beside its own."""

    def findings(self) -> tuple[str, ...]:
        """What decided, then what the factors account for in the groups furthest from their reference."""
        distance = np.where(np.isnan(self.ci_low), -1.0, np.abs(self.link.delta(self.disparity)))
        furthest = [int(i) for i in np.argsort(-distance, kind="stable")[:MOST_GROUPS] if distance[i] >= 0]
        return (*CertifyResult.findings(self), *(self._accounts(i) for i in furthest), *self._banded())


def _effects_at(effects: Effects, places: IntArray, *, complete: bool) -> Effects:
    """Some of the strata."""
    arrays = (item.name for item in fields(Effects) if item.name not in ("stratum", "complete"))
    stratum = tuple(effects.stratum[i] for i in places)
    return Effects(stratum=stratum, complete=complete, **{name: getattr(effects, name)[places] for name in arrays})
