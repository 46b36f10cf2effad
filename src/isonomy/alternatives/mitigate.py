"""The alternative to adopt: the rule run again on all rows, once the test has rejected (section 3.1)."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from isonomy.alternatives.decide import Decisions
from isonomy.alternatives.estimate import Estimates, measure, select
from isonomy.alternatives.plan import Plan
from isonomy.alternatives.rules.algorithm import Algorithm
from isonomy.alternatives.tally import Tally, read_people
from isonomy.errors import UsageError
from isonomy.frames import open_source
from isonomy.numerics.arrays import FloatArray
from isonomy.results import storable
from isonomy.results.storage import OF_ROWS


@storable
@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Recommendation:
    """The algorithm the rule makes of all rows. Its estimates are not independent of the rows it was fitted on.

    ``accuracy`` and ``fairness`` hold candidate and status quo of each component. `decide` applies the algorithm to
    new rows; it is not kept in JSON.
    """

    rule: str
    accuracy: FloatArray
    fairness: FloatArray
    selected: FloatArray
    cutoff: float | None = field(metadata=OF_ROWS)  # a score of the training part
    labels: tuple[str, ...]
    independent: bool = False
    algorithm: Algorithm | None = field(default=None, repr=False, metadata=OF_ROWS)
    plan: Plan | None = field(default=None, repr=False, metadata=OF_ROWS)

    def decide(self, data: object) -> FloatArray:
        """Decisions (0/1, or prices) for the rows of ``data``, which needs the features and the group columns."""
        if self.algorithm is None or self.plan is None:
            raise UsageError("decide: the algorithm is not stored in JSON; run improvability again with its seed.")
        values = np.asarray(self.algorithm(read_people(open_source(data), self.plan, self.labels)), dtype=float)
        ready = self.cutoff is None or np.isnan(self.cutoff)
        return values if ready else (values > self.cutoff).astype(float)


def recommend(
    tally: Tally, plan: Plan, estimates: Estimates, decisions: Decisions, rng: np.random.Generator
) -> Recommendation | None:
    """Run the rule on all rows and measure it on the same rows; None where nothing was shown, or nothing is found."""
    if not decisions.reject:
        return None
    criteria, whole = estimates.criteria, tally.weight
    selection = select(tally, plan, criteria, whole, rng)
    if selection.algorithm.decide is None:
        return None
    a0, a1 = selection.decisions
    accuracy, fairness = measure(tally, criteria, whole, (a0, a1), selection.worst)
    return Recommendation(
        rule=plan.rule_name,
        accuracy=accuracy,
        fairness=fairness,
        selected=np.array([np.average(a, weights=whole) for a in (a1, a0)]),
        cutoff=selection.cutoffs[1],
        labels=criteria.labels,
        algorithm=None if plan.rule is None else selection.algorithm,
        plan=None if plan.rule is None else plan,
    )
