"""The alternative to adopt: the rule run again on all rows, once the test has rejected (section 3.1)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from isonomy.alternatives import decisions, rounds
from isonomy.alternatives.requirements import Plan
from isonomy.alternatives.rules import Algorithm, People
from isonomy.alternatives.tally import Roles, Table
from isonomy.alternatives.utilities import FloatArray
from isonomy.errors import UsageError
from isonomy.frames import Request, open_source
from isonomy.results import storable


@storable
@dataclass(frozen=True, slots=True, eq=False)
class Recommendation:
    """The algorithm the rule makes of all rows. Its estimates are not independent of the rows it was fitted on.

    ``accuracy`` and ``fairness`` have one line a component: candidate, status quo. `decide` applies the algorithm to
    new rows; it is not kept in JSON.
    """

    rule: str
    accuracy: FloatArray
    fairness: FloatArray
    selected: FloatArray
    cutoff: float
    independent: bool = False
    algorithm: Algorithm | None = field(default=None, repr=False)
    roles: Roles | None = field(default=None, repr=False)
    labels: tuple[str, ...] = ()

    def without_algorithm(self) -> Recommendation:
        """A copy that JSON can hold."""
        return replace(self, algorithm=None, roles=None)

    def decide(self, data: object) -> FloatArray:
        """Decisions (0/1, or prices) for the rows of ``data``, which needs the features and the group columns."""
        if self.algorithm is None or self.roles is None:
            raise UsageError("decide: the algorithm is not stored in JSON; run improvability again with its seed.")
        source = open_source(data)
        roles = self.roles
        grouping = source.grouping(roles.groups, depth=len(source.grouping(roles.groups).dimensions))
        rows = source.rows(Request(grouping=grouping, numeric={f"features[{name}]": name for name in roles.features}))
        partition = rows.partitions[-1]
        unknown = [group.label for group in partition.groups if group.label not in self.labels]
        if unknown:
            raise UsageError(f"decide: groups {unknown} were not in the data the algorithm was made from.")
        codes = np.array([self.labels.index(group.label) for group in partition.groups], dtype=np.intp)
        features = {name: rows.columns[f"features[{name}]"] for name in roles.features}
        values = np.asarray(self.algorithm(People(features, codes[partition.codes], self.labels)), dtype=float)
        return values if np.isnan(self.cutoff) else (values > self.cutoff).astype(float)


def recommend(table: Table, plan: Plan, roles: Roles, rng: np.random.Generator) -> Recommendation | None:
    """Run the rule on all rows and measure it on the same rows; None where it finds nothing."""
    whole = table.weight
    a0, _ = decisions.status_quo(table, plan, whole)
    algorithm = decisions.select(table, plan, whole, a0, rng)
    if algorithm.decide is None:
        return None
    a1, cutoff = decisions.candidate(table, plan, algorithm, whole)
    worst = rounds.worst_pairs(table, plan.criteria, whole, a0)
    accuracy, fairness = rounds.measure(table, plan.criteria, whole, (a0, a1), worst)
    ready: dict[str, Any] = {"algorithm": algorithm, "roles": roles, "labels": table.labels}
    return Recommendation(
        rule=plan.rule_name,
        accuracy=accuracy,
        fairness=fairness,
        selected=np.array([np.average(a, weights=whole) for a in (a1, a0)]),
        cutoff=cutoff,
        **(ready if plan.rule is not None else {"labels": table.labels}),
    )
