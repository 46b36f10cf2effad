"""The alternative to adopt: the rule run again on all rows, once the test has rejected (section 3.1)."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from isonomy.alternatives.decide import Decisions
from isonomy.alternatives.estimate import Estimates, training
from isonomy.alternatives.estimate_comparison import Rivals, measure, selection_on
from isonomy.alternatives.plan import Plan
from isonomy.alternatives.rules.algorithm import Algorithm, People, applied, find
from isonomy.alternatives.rules.choice import Standardised
from isonomy.alternatives.rules.cutoffs import Selection
from isonomy.alternatives.rules.thresholds import Shifted
from isonomy.alternatives.tally import Inputs, Tally
from isonomy.errors import UsageError
from isonomy.frames import open_source
from isonomy.numerics.arrays import FloatArray
from isonomy.results import storable
from isonomy.results.storage import OF_ROWS


@storable
@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Recommendation:
    """The algorithm that the rule makes of all rows (or the ready candidate), to be run on new ones; it can be pickled.

    ``accuracy`` and ``fairness`` hold candidate and status quo of each component on the rows it was fitted on: they are
    not independent evidence. Its cut-off is the mean of those of the rows it was judged on, which no rule had seen
    (with ``evidence="paper"`` that of the rows it was fitted on). The algorithm itself is not kept in JSON.
    """

    rule: str
    accuracy: FloatArray
    fairness: FloatArray
    selected: FloatArray
    cutoff: float | None = field(metadata=OF_ROWS)  # may be the score of a single person
    labels: tuple[str, ...]
    independent: bool = False
    algorithm: Algorithm | None = field(default=None, repr=False, metadata=OF_ROWS)
    inputs: Inputs | None = field(default=None, repr=False, metadata=OF_ROWS)

    @property
    def estimator_(self) -> object:
        """The fitted scikit-learn estimator, or whatever else the rule returned."""
        decide: object = self._fitted[0].decide
        while isinstance(decide, (Shifted, Standardised)):  # made of another algorithm's score
            decide = decide.model
        return getattr(decide, "model", decide)

    @property
    def cutoff_(self) -> float | None:
        """Scores above it are selected; None where the algorithm decides by itself."""
        return None if self.cutoff is None or np.isnan(self.cutoff) else self.cutoff

    def score(self, data: object) -> FloatArray:
        """What the algorithm gives the rows of ``data``: scores, or decisions where it has no cut-off.

        ``data`` needs the features, and the group columns only if the rule looks at them.
        """
        algorithm, inputs = self._fitted
        return np.asarray(algorithm(inputs.read(open_source(data))), dtype=float)

    def decide(self, data: object) -> FloatArray:
        """Decisions (0/1, or prices) for the rows of ``data``."""
        scores = self.score(data)
        return scores if self.cutoff_ is None else (scores > self.cutoff_).astype(float)

    @property
    def _fitted(self) -> tuple[Algorithm, Inputs]:
        if self.algorithm is None or self.inputs is None:
            raise UsageError("decide: the algorithm is not stored in JSON; run improvability again with its seed.")
        return self.algorithm, self.inputs


@dataclass(frozen=True, slots=True)
class Ready:
    """A candidate that is a column of the data: its scores or decisions are the column's."""

    column: str

    def __call__(self, people: People) -> FloatArray:
        """One number per person."""
        return people.features[self.column]


def recommend(
    tally: Tally, plan: Plan, estimates: Estimates, decisions: Decisions, rng: np.random.Generator
) -> Recommendation | None:
    """Run the rule on all rows and measure it on the same rows; None where nothing was shown, or nothing is found.

    Of several ready candidates the one with the smallest p-value.
    """
    if not decisions.reject:
        return None
    criteria, whole, name = estimates.criteria, tally.weight, plan.rule_name
    masses = tally.masses(whole)
    before = selection_on(tally.status_quo, plan, criteria, masses, "status_quo")
    features, groups = plan.features, plan.groups if plan.group_aware else None
    if plan.rule is None:
        several = len(plan.candidates) > 1
        best = int(np.argmin([trial.pvalue for trial in estimates.trials])) if several else 0
        name = plan.candidates[best] if several else name
        values = tally.candidates[plan.candidates[best]]
        column = plan.columns[f"candidate[{plan.candidates[best]}]"]
        algorithm, features, groups = Algorithm(Ready(column)), (column,), None
    else:
        algorithm = find(plan.rule, name, training(tally, plan, criteria, whole, before.share, rng))
        algorithm, values = applied(algorithm, name, tally.people)
        if algorithm.decide is None:
            return None
    if criteria.priced or plan.rule is None or plan.evidence == "paper" or not plan.capacity:
        after = selection_on(values, plan, criteria, masses, f"rule {name!r}")
    else:
        cutoff = float(np.nanmean([trial.cutoffs[0] for trial in estimates.trials]))
        after = Selection((values > cutoff).astype(float), np.zeros(len(whole)), cutoff=cutoff)
    accuracy, fairness = measure(tally, criteria, Rivals(whole, (before, after)))
    return Recommendation(
        rule=name,
        accuracy=accuracy,
        fairness=fairness,
        selected=np.array([np.average(decided.share, weights=masses) for decided in (after, before)]),
        cutoff=after.cutoff,
        labels=criteria.labels,
        algorithm=algorithm,
        inputs=Inputs(features, tally.levels, groups, criteria.labels),
    )
