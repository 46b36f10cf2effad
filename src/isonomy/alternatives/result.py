"""What the improvability test returns."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isonomy.alternatives import wording
from isonomy.alternatives.decide import Decisions
from isonomy.alternatives.estimate import Estimates
from isonomy.alternatives.mitigate import Recommendation
from isonomy.alternatives.plan import Evidence, Plan
from isonomy.alternatives.result_surface import SurfaceResult
from isonomy.alternatives.rules import rounds as together
from isonomy.alternatives.rules.bootstrap import Comparison, Component, Exceedance, PvalueForm
from isonomy.alternatives.rules.contrasts import Contrast, Equivalence
from isonomy.alternatives.rules.criteria import Scale
from isonomy.alternatives.rules.rounds import Curves
from isonomy.alternatives.tally import Tally
from isonomy.errors import UsageError
from isonomy.frames import Group
from isonomy.frames.metrics import RATES
from isonomy.inference import Verdict, rejected
from isonomy.numerics.arrays import AnyArray, FloatArray
from isonomy.results import Call, Columns, Result, Status, storable
from isonomy.results.disclosure import withheld
from isonomy.results.storage import OF_ROWS

if TYPE_CHECKING:
    import altair as alt

# Fields with one entry per trial.
_EACH = ("accuracy", "fairness", "accuracy_change", "fairness_change", "selected", "cutoffs", "train_rows", "test_rows")
for part in (Curves, Comparison, Component, Exceedance, Contrast, Equivalence):
    storable(part)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ImprovabilityResult(Result):
    """The dossier: every candidate (or round, or all folds together), the p-value of all of them and what it means.

    Arrays have one entry per trial: a ready candidate, a round of splitting, or one for all folds. ``accuracy``
    (trials, components, 3) and ``fairness`` (trials, utilities, 3) hold candidate, status quo and p-value; the
    components are the groups, or one where accuracy is pooled or weighted. ``accuracy_change`` and ``fairness_change``
    hold each gain (cut) with limits that hold for all of a result's gains at once; NaN for the paper's bootstrap.

    Attributes
    ----------
    pvalue : float
        One p-value for all trials and all attempts named. The null is rejected where it is at most ``alpha``.
    median_pvalue : float
        The smallest median of the trials' p-values, compared with alpha / 2 in the paper.
    adjusted, verdicts : array and tuple
        Of every candidate, adjusted by Holm over candidates and earlier attempts; one for rounds together.
    tried : tuple
        The attempts made before, as they were given.
    supported_fairness_gain, supported_accuracy_gain : float
        The largest gain at which the test still rejects, the other gain being 0: lower confidence bounds. NaN: none.
    recommended : Recommendation or None
        The rule's algorithm refitted on all rows when the test rejects, else None. Its estimates are not independent.
    comparisons : tuple or None
        The questions of each trial (None where nothing could be judged), for surfaces over other grids. JSON keeps
        them on request only.
    """

    question: ClassVar[str] = wording.QUESTION
    method: ClassVar[str] = wording.METHOD
    references: ClassVar[tuple[str, ...]] = wording.REFERENCES

    groups: tuple[Group, ...]
    rule: str
    candidates: tuple[str, ...]
    evidence: Evidence
    folds: int
    repeats: int
    tried: tuple[Mapping[str, object], ...]
    margin: float
    accuracy_utility: str
    accuracy_components: tuple[str, ...]
    fairness_utilities: tuple[str, ...]
    accuracy_gains: tuple[float, ...]
    fairness_gains: tuple[float, ...]
    scale: Scale
    capacity: float | None
    alpha: float
    resamples: int
    accuracy: FloatArray
    fairness: FloatArray
    accuracy_change: FloatArray
    fairness_change: FloatArray
    adjusted: FloatArray
    verdicts: tuple[Verdict, ...]
    round_pvalues: FloatArray
    pvalue: float
    median_pvalue: float
    reject: bool
    supported_fairness_gain: float
    supported_accuracy_gain: float
    selected: FloatArray  # (rounds, 2): shares of the rows judged that candidate and status quo select
    # (rounds, 2), scores of single people: NaN where decisions came ready
    cutoffs: FloatArray | None = field(metadata=OF_ROWS)
    train_rows: NDArray[np.int64]
    test_rows: NDArray[np.int64]  # (rounds, groups)
    undefined: NDArray[np.int64]  # resamples with an empty denominator
    distance: FloatArray  # of the status quo's unfairness from zero, in standard errors
    worst_pairs: tuple[tuple[str, ...], ...]  # of the status quo: (rounds, fairness utilities)
    own_worst_pairs: tuple[tuple[str, ...], ...]  # of the candidate
    status: tuple[Status, ...]
    details: tuple[Mapping[str, float], ...]
    curves: Curves
    recommended: Recommendation | None = None
    comparisons: tuple[Comparison | None, ...] | None = field(default=None, repr=False, metadata=OF_ROWS)
    pvalue_form: PvalueForm = "add_one"

    @classmethod
    def of(
        cls,
        call: Call,
        plan: Plan,
        tally: Tally,
        estimates: Estimates,
        decisions: Decisions,
        recommended: Recommendation | None,
    ) -> Self:
        """Lay out what the steps found."""
        criteria, trials = estimates.criteria, estimates.trials
        comparisons = tuple(trial.comparison for trial in trials)
        fairness = tuple(utility.name for utility in criteria.fairness)
        pairs = [f"{criteria.labels[a]} against {criteria.labels[b]}" for a, b in criteria.pairs]
        return cls.gather(
            decisions,
            estimates,
            criteria,
            tally,
            plan,
            null=wording.null(
                plan.rule_name,
                criteria.accuracy.name,
                criteria.accuracies,
                criteria.accuracy_gains,
                fairness,
                criteria.fairness_gains,
                criteria.scale,
            ),
            provenance=call.provenance(rows=tally.rows, dropped=tally.dropped, grouping=plan.request.grouping),
            rule=plan.rule_name,
            candidates=plan.candidates,
            accuracy_utility=criteria.accuracy.name,
            accuracy_components=criteria.accuracies,
            fairness_utilities=fairness,
            round_pvalues=np.array([r.pvalue for r in trials]),
            **{name: np.stack([getattr(trial, name) for trial in trials]) for name in _EACH},
            undefined=np.array([0 if c is None else c.undefined for c in comparisons]),
            distance=np.array([np.nan if c is None else c.distance for c in comparisons]),
            worst_pairs=tuple(tuple(pairs[q] for q in r.worst) for r in trials),
            own_worst_pairs=tuple(tuple(pairs[q] for q in r.own_worst) for r in trials),
            status=tuple(r.status for r in trials),
            details=tuple(r.details for r in trials),
            recommended=recommended,
            comparisons=comparisons,
        )

    def to_dict(self, *, rows: bool = False) -> dict[str, object]:
        """The result in plain JSON types, without the recommended algorithm itself. ``rows``: with the resamples."""
        kept = None if self.recommended is None else replace(self.recommended, algorithm=None, inputs=None)
        return Result.to_dict(replace(self, recommended=kept), rows=rows)

    @property
    def rounds(self) -> bool:
        """Whether the trials are rounds of splitting."""
        return self.evidence in ("splits", "paper")

    @property
    def alternatives(self) -> tuple[str, ...]:
        """The candidates (or the rule) that were shown to be alternatives."""
        names = self.candidates or (self.rule,)
        return tuple(n for n, v in zip(names, self.verdicts, strict=True) if v is Verdict.VIOLATION)

    @property
    def log(self) -> tuple[dict[str, object], ...]:
        """Everything that was tried: the attempts named, then those of this call, with its seed and p-values."""
        seed = None if self.provenance.seed is None else self.provenance.seed.entropy
        names = self.candidates or (self.rule,)
        own: list[dict[str, object]] = [
            {"what": name, "evidence": self.evidence, "seed": seed, "adjusted pvalue": float(p), "verdict": v.value}
            for name, p, v in zip(names, self.adjusted, self.verdicts, strict=True)
        ]
        return (*(dict(entry) for entry in self.tried), *own)

    def table(self) -> Columns:
        """One row per trial: the rounds laid out as in the paper's Table 1, or the candidates with their limits."""
        trials = len(self.round_pvalues)
        columns: dict[str, Any] = {"round": np.arange(1, trials + 1)}
        if not self.rounds:
            columns = {"candidate": list(self.candidates) or [self.rule]}
        parts = [
            *(
                (f"accuracy {name}", self.accuracy[:, i], self.accuracy_change[:, i])
                for i, name in enumerate(self.accuracy_components)
            ),
            *(
                (f"unfairness {name}", self.fairness[:, i], self.fairness_change[:, i])
                for i, name in enumerate(self.fairness_utilities)
            ),
        ]
        for name, part, change in parts:
            columns |= {f"{name} candidate": part[:, 0], f"{name} status_quo": part[:, 1], f"{name} pvalue": part[:, 2]}
            if self.evidence != "paper":
                columns |= {f"{name} {word}": change[:, k] for k, word in enumerate(("gain", "low", "high"))}
        columns["pvalue"] = self.round_pvalues
        if not self.rounds:
            columns |= {"adjusted": self.adjusted, "verdict": list(self.verdicts)}
        columns |= {
            "selected candidate": self.selected[:, 0],
            "selected status_quo": self.selected[:, 1],
            "undefined": self.undefined,
            "rule": [self.rule] * trials,
            "worst_pair": ["; ".join(pairs) for pairs in self.worst_pairs],
            "status": list(self.status),
        }
        for name in sorted({name for details in self.details for name in details}):
            columns[f"rule {name}"] = np.array([details.get(name, np.nan) for details in self.details])
        return columns

    def pages(self) -> Mapping[str, Columns]:
        """For readers: one row per candidate and thing compared, and one row per candidate."""
        if self.rounds:
            return {}
        names = list(self.candidates) or [self.rule]
        parts = [
            *(
                (wording.accuracy_of(self.accuracy_utility, name), self.accuracy[:, i], self.accuracy_change[:, i])
                for i, name in enumerate(self.accuracy_components)
            ),
            *(
                (wording.unfairness_of(name), self.fairness[:, i], self.fairness_change[:, i])
                for i, name in enumerate(self.fairness_utilities)
            ),
        ]
        both = np.stack([sizes for _, sizes, _ in parts], axis=1).reshape(-1, 3).T
        change = np.stack([gains for _, _, gains in parts], axis=1).reshape(-1, 3).T
        compared: Columns = {
            "candidate": [name for name in names for _ in parts],
            "criterion": [part[0] for part in parts] * len(names),
            **dict(zip(("alternative", "status_quo", "pvalue"), both, strict=True)),
            **dict(zip(("gain", "ci_low", "ci_high"), change, strict=True)),
        }
        whole: dict[str, Sequence[object] | AnyArray] = {
            **self.table(),
            "adjusted_pvalue": self.adjusted,
            "selected_candidate": self.selected[:, 0],
            "selected_status_quo": self.selected[:, 1],
        }
        kept = (
            "verdict",
            "pvalue",
            "adjusted_pvalue",
            "selected_candidate",
            "selected_status_quo",
            "worst_pair",
            "status",
        )
        return {
            wording.COMPARED: compared,
            wording.ALTERNATIVES: {"candidate": names, **{name: whole[name] for name in kept}},
        }

    def units(self) -> Mapping[str, str]:
        """Gains are percentages where they are relative ones, and sizes where they are shares or their differences."""
        gains = ("gain", "ci_low", "ci_high") if self.scale == "ratio" else ()
        shares = all(map(self._share, (self.accuracy_utility, *self.fairness_utilities)))
        sizes = dict.fromkeys(("alternative", "status_quo"), "%, unfairness in points") if shares else {}
        return dict.fromkeys((*gains, "selected_candidate", "selected_status_quo"), "%") | sizes

    def surface(
        self, accuracy_gains: ArrayLike | None = None, fairness_gains: ArrayLike | None = None
    ) -> SurfaceResult:
        """p-values over a grid of required gains, from the comparisons of this test.

        Parameters
        ----------
        accuracy_gains, fairness_gains : array_like, optional
            Increasing numbers. By default the paper's: accuracy gains from -1 to 1 and fairness gains from 0 to 1 by
            0.01. Other grids need the comparisons, which JSON does not keep unless it was written with ``rows=True``.
        """
        curves = self.curves
        if accuracy_gains is not None or fairness_gains is not None:
            if self.comparisons is None:
                raise UsageError("surface: JSON keeps the default grid only; run improvability again for another grid.")
            a = curves.accuracy_gains if accuracy_gains is None else accuracy_gains
            f = curves.fairness_gains if fairness_gains is None else fairness_gains
            curves = together.curves(self.comparisons, a, f, self.pvalue_form, curves.merge, curves.attempts)
        reach = [self.supported_fairness_gain, self.supported_accuracy_gain]
        pvalues = curves.pvalues()
        return SurfaceResult.gather(
            curves,
            self,
            null=wording.SURFACE_NULL,
            # Some gain is supported exactly where the test of none rejects.
            verdict=Verdict.INCONCLUSIVE if np.isnan(reach[0]) else Verdict.VIOLATION,
            pvalues=pvalues,
            supported=rejected(pvalues, self.alpha),
            level=self.alpha,
            fairness_gain=reach[0],
            accuracy_gain=reach[1],
        )

    @property
    def level(self) -> float:
        """What the median p-value is compared with in the paper: alpha / 2, or alpha for one round."""
        return together.level(self.alpha, len(self.round_pvalues))

    def findings(self) -> tuple[str, ...]:
        """The conclusion, the sizes, the largest gains supported."""
        trials, alpha = len(self.round_pvalues), self.alpha
        who = wording.subject(self.rule, self.candidates, self.alternatives, self.reject)
        attempts = self.curves.attempts
        how = wording.basis(self.evidence, self.median_pvalue, trials, self.folds, self.repeats, attempts)
        first = wording.conclusion(self.reject, self.pvalue, alpha, who, how)
        several_candidates = len(self.candidates) > 1
        kept = [int(np.argmin(self.round_pvalues))] if several_candidates else list(range(trials))
        pairs, own_pairs = (
            [names.pop() if len(names) == 1 else wording.VARYING_PAIR for names in map(set, zip(*listed, strict=True))]
            for listed in ([part[i] for i in kept] for part in (self.worst_pairs, self.own_worst_pairs))
        )
        several, best = len(self.groups) > 2, self.candidates[kept[0]] if several_candidates else ""
        accuracy, fairness = together.averages(self.accuracy[kept]), together.averages(self.fairness[kept])
        alone = len(kept) == 1
        gains, cuts = (
            [wording.limits_of(kind, *map(float, row), scale=self.scale, alpha=alpha) if alone else "" for row in part]
            for kind, part in (
                ("accuracy", self.accuracy_change[kept][0]),
                ("fairness", self.fairness_change[kept][0]),
            )
        )
        return (
            first,
            *((wording.log(self.log, best),) if len(self.log) > 1 else ()),
            *(
                wording.accuracy_effect(
                    self.accuracy_utility, name, *both, change=change, share=self._share(self.accuracy_utility)
                )
                for name, both, change in zip(self.accuracy_components, accuracy, gains, strict=True)
            ),
            *(
                wording.fairness_effect(
                    *(name, pair, *both),
                    change=change,
                    own_pair=own if several else None,
                    corrected=not self.rounds,
                    share=self._share(name),
                )
                for name, pair, own, both, change in zip(
                    self.fairness_utilities, pairs, own_pairs, fairness, cuts, strict=True
                )
            ),
            wording.supported("fairness", self.supported_fairness_gain, self.scale, alpha, self.margin),
            wording.supported("accuracy", self.supported_accuracy_gain, self.scale, alpha),
            wording.selected(*together.averages(self.selected[kept])),
            *(() if self.recommended is None or self.candidates else (wording.recommended(self.rule),)),
        )

    @property
    def words(self) -> Mapping[str, str]:
        """What readers call each utility, by its name in the call."""
        options = self.provenance.options
        words: dict[str, str] = {}
        for option, called in (("accuracy", (self.accuracy_utility,)), ("fairness", self.fairness_utilities)):
            asked = options.get(option)
            names = list(asked) if isinstance(asked, (tuple, list)) else [asked]
            if len(names) == len(called):
                words |= dict(zip(map(str, names), called, strict=True))
        return words

    def _share(self, utility: str) -> bool:
        """Whether a utility is a share of people, told in percent: an outcome is, where another needs it 0/1."""
        names = [name for name, called in self.words.items() if called == utility] or [utility]
        binary = any(name in RATES and "outcome" in RATES[name].roles for name in self.words)
        return any(name in RATES or (binary and name.startswith("outcome_among_")) for name in names)

    def assumptions(self) -> tuple[tuple[str, str], ...]:
        """What is assumed, and how it was checked."""
        distances = self.distance[~np.isnan(self.distance)]
        middle = float(np.median(distances)) if len(distances) else float("nan")
        smallest = int(self.test_rows.min())
        return wording.assumptions(self.evidence, len(self.round_pvalues), middle, smallest, self.rows_assumed())

    def limits(self) -> tuple[str, ...]:
        """What this result does not show."""
        return wording.limits(self.reject, fitted=self.rule != wording.CANDIDATE)

    def plot(self) -> alt.TopLevelMixin:
        """Accuracy and unfairness of both algorithms in every trial, and the surface of p-values.

        Of several candidates the frontier: what each does to the worst group's accuracy, and to unfairness.
        """
        from isonomy.alternatives.figure import result_chart

        return result_chart(self)

    def withheld_labels(self) -> tuple[frozenset[str], frozenset[str]]:
        """The names of the groups that are withheld, and of those that are not."""
        labels = np.array([group.label for group in self.groups])
        hidden = (self.test_rows == 0).all(axis=0)
        return frozenset(labels[hidden].tolist()), frozenset(labels[~hidden].tolist())

    def suppressed(self, minimum: int, also: Collection[str] = ()) -> Self:
        """A copy without resamples, and without the accuracies of groups with fewer than ``minimum`` test rows."""
        best = self.recommended
        shown = None if best is None else replace(best, cutoff=None, algorithm=None, inputs=None)
        bare = replace(self, comparisons=None, cutoffs=None, recommended=shown)
        fewest = self.test_rows.min(axis=0).astype(float)
        small = (fewest < minimum) | np.array([group.label in also for group in self.groups], dtype=bool)
        small = withheld(self.groups, fewest, small, minimum)
        if not small.any():
            return bare
        accuracy, fairness = self.accuracy.copy(), self.fairness.copy()
        gains = self.accuracy_change.copy()
        if len(self.accuracy_components) == len(self.groups):
            accuracy[:, small, :2] = gains[:, small] = np.nan
        fairness[:, :, :2] = np.nan  # a gap between two groups would give the small one away
        return replace(
            bare,
            accuracy=accuracy,
            fairness=fairness,
            accuracy_change=gains,
            fairness_change=np.full_like(self.fairness_change, np.nan),
            test_rows=np.where(small, 0, self.test_rows),
            recommended=None,
            status=(Status.SUPPRESSED,) * len(self.status),
        )
