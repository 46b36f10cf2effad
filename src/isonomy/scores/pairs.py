"""Evidence about pairs of groups, with one line for each pair, or for each pair at each score or with each weight."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from isonomy.frames import Group
from isonomy.inference import Verdict, conclude, inside, overall
from isonomy.inference.multiplicity import smallest
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray
from isonomy.results import Columns, Evidence, Status, column, storable
from isonomy.results.disclosure import withheld
from isonomy.scores import words
from isonomy.scores.read import ScorePlan
from isonomy.scores.smoothing.moments import Pair, VoteMoments

MOST_PAIRS = 1_000  # in the findings; the table has them all
ORDER = 0.1  # the share of alpha for the order of scores; the differences between groups have the rest
# The columns of a group, and their names on the side of the group that it is compared with.
SIDES = {
    "estimate": "reference",
    "estimate_low": "reference_low",
    "estimate_high": "reference_high",
    "n": "reference_n",
    "effective_n": "reference_effective_n",
}


def pair_lines(
    table: VoteMoments, pairs: Sequence[Pair], repeats: int = 1, numbers: Mapping[str, FloatArray] | None = None
) -> dict[str, Any]:
    """The columns about both groups of each line; ``numbers`` (G, repeats): columns of groups, which become two."""
    first, second = np.repeat(np.array(pairs), repeats, axis=0).T
    opposite = tuple(table.groups[g] for g in second)
    sides = {name: values[np.array(pairs).T].reshape(2, -1) for name, values in (numbers or {}).items()}
    return {
        **{name: values[0] for name, values in sides.items()},
        **{SIDES[name]: values[1] for name, values in sides.items()},
        "tables": (table.title,) * first.size,
        "groups": tuple(table.groups[g] for g in first),
        "opposite": opposite,
        "against": tuple(group.label for group in opposite),
        "n": table.rows[first],
        "reference_n": table.rows[second],
    }


def line_status(disparity: FloatArray, tested: FloatArray) -> tuple[Status, ...]:
    """A difference without an estimate is unsupported; one that is NaN in ``tested`` alone is too skewed."""
    known = zip(np.isfinite(disparity), np.isfinite(tested), strict=True)
    return tuple((Status.OK if law else Status.SKEWED) if number else Status.UNSUPPORTED for number, law in known)


def pair_starts(tables: Sequence[str], groups: Sequence[Group], opposite: Sequence[Group]) -> IntArray:
    keys = list(zip(tables, groups, opposite, strict=True))
    return np.array([i for i, key in enumerate(keys) if i == 0 or key != keys[i - 1]], dtype=np.intp)


@dataclass(frozen=True, eq=False, kw_only=True)
class OrderedPlan(ScorePlan):
    uses: ClassVar[tuple[str, ...]] = ("order", "resamples")

    @property
    def order_tested(self) -> bool:
        return self.curves.order is None or bool(self.curves.order)

    @property
    def draws(self) -> int:
        return self.curves.resamples or 2_000

    @property
    def order_tolerance(self) -> float | None:
        """How much better outcomes at lower scores may be."""
        order = self.curves.order
        return self.tolerance if order is None or isinstance(order, bool | np.bool_) else float(order)


@storable
@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Reversal:
    """The test of the order of scores in one table, and the worst reversal.

    ``better`` has higher outcomes, by ``difference``, at scores around ``score`` than ``worse`` at scores around
    ``higher_score``. All reversals are at most ``limit``, by one-sided limits.
    """

    table: str
    pvalue: float
    limit: float
    better: str
    worse: str
    score: float
    higher_score: float
    difference: float
    verdict: Verdict = Verdict.INCONCLUSIVE


def conclude_parity(
    columns: Mapping[str, Any], orders: Sequence[Reversal], plan: OrderedPlan, *, complete: bool
) -> tuple[FloatArray, dict[str, Any]]:
    """Parity is both: equal outcomes, and scores in order. Holm's method over all pairs, and over all tables' orders.

    Each p-value is divided by its part's share of alpha, so that both are compared with alpha and together are wrong at
    most that often; if the order is not tested, the differences have all of alpha. A pair is within tolerance if all
    its pointwise intervals lie inside (two one-sided tests at every score); with ``complete``, all must be known. An
    order is within tolerance if every reversal was shown to be at most the tolerance. Returns the adjusted p-value of
    the pair of each line, and the verdicts.
    """
    starts, alpha = pair_starts(columns["tables"], columns["groups"], columns["opposite"]), plan.alpha
    least, most = (np.minimum, np.maximum) if complete else (np.fmin, np.fmax)
    ends = least.reduceat(columns["pointwise_low"], starts), most.reduceat(columns["pointwise_high"], starts)
    pairs = conclude(
        np.minimum(columns["pair_pvalue"][starts] / (1 - ORDER if orders else 1.0), 1.0),
        alpha=alpha,
        adjust="holm",
        within=inside(*ends, plan.tolerance),
    )
    limits = np.array([test.limit for test in orders])
    ordered = conclude(
        np.minimum(np.array([test.pvalue for test in orders]) / ORDER, 1.0),
        alpha=alpha,
        adjust="holm",
        within=inside(np.where(np.isnan(limits), np.nan, 0.0), limits, plan.order_tolerance, "greater"),
    )
    tests = tuple(
        replace(test, pvalue=float(p), verdict=verdict)
        for test, p, verdict in zip(orders, ordered.adjusted, ordered.verdicts, strict=True)
    )
    pair = np.repeat(np.arange(starts.size), np.diff(starts, append=len(columns["tables"])))
    return pairs.adjusted[pair], {
        "verdicts": tuple(pairs.verdicts[k] for k in pair),
        "verdict": overall([*pairs.verdicts, *ordered.verdicts]),
        "orders": tests,
    }


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class PairEvidence(Evidence):
    """Evidence whose lines compare ``groups`` with ``opposite``. ``binary``: every outcome is 0 or 1."""

    references: ClassVar[tuple[str, ...]] = words.REFERENCES

    opposite: tuple[Group, ...]
    tables: tuple[str, ...] = column("Table", name="table", withheld=False)
    against: tuple[str, ...] = column("Compared with", withheld=False)
    n: FloatArray = column("Rows counted", count=True)
    disparity: FloatArray = column("Difference")
    pvalues: FloatArray = column(name="pvalue")
    adjusted_pvalue: FloatArray = column()
    verdicts: tuple[Verdict, ...] = column(name="verdict")
    reference_n: FloatArray = column("Reference: rows", count=True, sized="opposite")
    alpha: float
    binary: bool

    @property
    def pvalue(self) -> float:
        return smallest(self.adjusted_pvalue)

    def units(self) -> Mapping[str, str]:
        """Outcomes of 0 and 1 in percent, and their differences in points."""
        outcomes = [name for side in SIDES.items() for name in side if not name.endswith("n")]
        differences = ("disparity", "se", "ci_low", "ci_high")
        return dict.fromkeys(outcomes, "%") | dict.fromkeys(differences, "points") if self.binary else {}

    def assumptions(self) -> tuple[tuple[str, str], ...]:
        clustered = self.provenance.options.get("user") is not None
        return (words.independent(clustered, self.rows_assumed()), *self.always_assumed)

    def starts(self) -> IntArray:
        return pair_starts(self.tables, self.groups, self.opposite)

    def lines_of(self, table: str) -> IntArray:
        return np.flatnonzero(np.array(self.tables, dtype=object) == table)

    def judged(self, table: str) -> tuple[Verdict, float]:
        lines = self.lines_of(table)
        return overall([self.verdicts[i] for i in lines]), smallest(self.adjusted_pvalue[lines])

    def deciding_first(self) -> list[str]:
        """The tables; those that share the overall verdict come first, by their p-values."""

        def place(table: str) -> tuple[bool, float]:
            verdict, pvalue = self.judged(table)
            return verdict is not self.verdict, float("inf") if np.isnan(pvalue) else pvalue

        return sorted(dict.fromkeys(self.tables), key=place)

    def by_group(self, table: str) -> dict[str, dict[str, FloatArray]]:
        lines = self.lines_of(table)
        points = lines.size // np.isin(self.starts(), lines).sum()
        numbers: dict[str, dict[str, FloatArray]] = {}
        for names, groups in ((SIDES, self.groups), (SIDES.values(), self.opposite)):
            for i in lines[::points]:
                sides = zip(SIDES, names, strict=True)
                columns = {name: getattr(self, side)[i : i + points] for name, side in sides}
                numbers.setdefault(groups[i].label, columns)
        return numbers

    def paged(self, pages: Mapping[str, str]) -> dict[str, Columns]:
        whole = self.table()
        return {title: {name: whole[name] for name in names.split()} for title, names in pages.items()}

    # ---- disclosure

    def suppressed(self, minimum: int, also: Collection[str] = ()) -> Self:
        """A copy that withholds groups with fewer than ``minimum`` rows, and those in ``also``."""
        size = dict(zip((*self.groups, *self.opposite), (*self.n, *self.reference_n), strict=True))
        groups, rows = tuple(size), np.array(list(size.values()))
        few = (rows < minimum) | np.isnan(rows) | np.array([group.label in also for group in groups])
        small = dict(zip(groups, withheld(groups, rows, few, minimum, rows=self.provenance.rows), strict=True))
        if not any(small.values()):
            return self
        first, second = (np.array([small[g] for g in side]) for side in (self.groups, self.opposite))
        return self.without(first, second)

    def without(self, first: BoolArray, second: BoolArray) -> Self:
        """A copy without the numbers of small groups: ``first`` and ``second`` mark them on either side of a line.

        Columns of one of the two groups are withheld with that group, the others with either.
        """
        hidden = Evidence.hide(self, first | second)
        shown: dict[str, Any] = {
            name: np.where(mask, np.nan, getattr(self, name))
            for mask, names in ((first, SIDES), (second, SIDES.values()))
            for name in names
            if hasattr(self, name)
        }
        return replace(hidden, **shown, verdict=overall(hidden.verdicts))


class OrderedEvidence(PairEvidence):
    """Evidence about equal outcomes and about the order of scores, whose tests are in ``orders``."""

    __slots__ = ()
    orders: tuple[Reversal, ...]

    @property
    def ordering_pvalue(self) -> float:
        """P-value of the order alone (the second part of Definition 2), adjusted; NaN if it was not tested."""
        return smallest([test.pvalue for test in self.orders])

    @property
    def ordering_verdict(self) -> Verdict:
        """The verdict on the order alone; inconclusive if it was not tested."""
        return overall([test.verdict for test in self.orders])

    def order_of(self, table: str) -> list[Reversal]:
        return [test for test in self.orders if test.table == table]

    def headline(self) -> str:
        """The verdict as a sentence, which says what was shown: different outcomes, a reversed order, or both."""
        sentence = super().headline()
        reversed_order = self.ordering_verdict is Verdict.VIOLATION
        return words.with_order(sentence, differ=Verdict.VIOLATION in self.verdicts) if reversed_order else sentence

    def without(self, first: BoolArray, second: BoolArray) -> Self:
        hidden = super().without(first, second)
        names = {group.label for group, hide in zip(self.groups, first, strict=True) if hide}
        names |= {group.label for group, hide in zip(self.opposite, second, strict=True) if hide}
        blank: dict[str, Any] = dict.fromkeys(("score", "higher_score", "difference"), np.nan)
        blank |= {"better": "", "worse": ""}
        orders = tuple(replace(test, **blank) if names & {test.better, test.worse} else test for test in self.orders)
        changed: dict[str, Any] = {"orders": orders}
        changed["verdict"] = overall([*hidden.verdicts, *(test.verdict for test in orders)])
        return replace(hidden, **changed)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class OutcomeEvidence(PairEvidence):
    estimate: FloatArray = column("Expected outcome")
    reference: FloatArray = column("Reference: expected outcome")
    ci_low: FloatArray = column()
    ci_high: FloatArray = column()
    estimate_low: FloatArray = column("Expected outcome, from")
    estimate_high: FloatArray = column("Expected outcome, to")
    reference_low: FloatArray = column("Reference: from")
    reference_high: FloatArray = column("Reference: to")
    se: FloatArray = column("Standard error")
    effective_n: FloatArray = column("Effective number")
    reference_effective_n: FloatArray = column("Reference: effective number")
    bandwidth: FloatArray = column("Bandwidth", withheld=False)

    @property
    def published_method(self) -> bool:
        """Whether this is the paper's procedure."""
        options = self.provenance.options
        return options.get("kind", options.get("method")) == "published"

    def table_note(self) -> str:
        """Why a difference is not exactly that of the two columns next to it."""
        return "" if self.published_method else words.DIRECT_DIFFERENCE
