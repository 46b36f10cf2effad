"""The selection rule that searches linear classifiers by mixed integer programming (appendix F)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from isonomy.alternatives.rules.algorithm import Algorithm, People, Training
from isonomy.alternatives.rules.choice import stratified
from isonomy.alternatives.rules.program import MARGIN, Objective, Worth, search
from isonomy.alternatives.rules.utilities import Utility
from isonomy.errors import UnknownOption, UsageError
from isonomy.numerics.arrays import FloatArray
from isonomy.numerics.status import Status
from isonomy.options import Finite, Number, Positive, Whole, check_parameters


@dataclass(frozen=True, slots=True, eq=False)
class MILPRule:
    """A linear classifier found by mixed integer programming on the training part (appendix F).

    It serves the utilities and gains asked for: utilities whose denominator does not depend on the decision, and by the
    linearised calibration program the outcome among the selected, which needs a capacity. With a capacity the linear
    score is cut there. Only for small training parts: at most a few hundred rows (``sample`` draws that many). Reports
    status, value, bound and gap in the details.

    Parameters
    ----------
    objective : {"fairness", "accuracy"}, default "fairness"
        ``"fairness"`` (F.5, P'): the smallest gap between groups at no loss of accuracy.
        ``"accuracy"`` (F.6): the highest accuracy of ``group`` at no larger gap and no loss to the others.
    group : str, optional
        The label of the group whose accuracy is made highest.
    iota : float, default 0
        How much every constrained accuracy must gain on the training part.
    margin : float, default 0.001
        x'b must be below -margin times the largest C where the decision is 0; see `isonomy.alternatives.rules.program`.
    time_limit : float, default 60
        Seconds; the best classifier by then is used and its certified gap reported.
    sample : int, default 200
        Fit on about this many training rows, drawn from every group and outcome alike; None: on all.
    group_aware : bool, default False
        Whether the group is among the features.
    """

    objective: Objective = "fairness"
    group: str | None = None
    iota: Finite = 0.0
    margin: Annotated[float, Number(above=1e-6, unit="the solver's integrality tolerance")] = MARGIN
    time_limit: Positive = 60.0
    sample: Whole | None = 200
    group_aware: bool = False
    name: str = "milp"

    def __post_init__(self) -> None:
        check_parameters(self, {name: getattr(self, name) for name in self.__slots__})
        if self.objective == "accuracy" and self.group is None:
            raise UsageError('group: objective="accuracy" needs the label of the group whose accuracy to raise.')

    def __call__(self, training: Training) -> Algorithm:
        """Solve the program on the training part (or the sample of it)."""
        criteria, labels = training.criteria, training.people.labels
        if criteria.priced:
            raise UsageError("accuracy with the milp rule: a price is not a 0/1 decision.")
        n = len(training.outcome)
        part = training
        if self.sample is not None and n > self.sample:
            part = training.take(stratified(training, self.sample / n)[0])
        people = part.people
        worths = [_worth(utility, part) for utility in (criteria.accuracy, *criteria.fairness)]
        members = [np.flatnonzero(people.group == code) for code in range(len(labels))]
        with np.errstate(invalid="ignore", divide="ignore"):
            before = np.array([worth.reached(members, part.status_quo) for worth in worths])
        if np.isnan(before).any():
            raise UsageError("the sampled training rows have a group without status-quo utility; enlarge `sample`.")
        ratio = criteria.scale == "ratio"
        mix = np.eye(len(labels))
        if isinstance(criteria.weights, str):  # pooled: by each group's part of the denominator
            if not worths[0].linear:
                raise UsageError("accuracy_weights with the milp rule: pooled needs a denominator that is fixed.")
            mix = np.array([[worths[0].w[i, 0].sum() for i in members]]) / worths[0].w[:, 0].sum()
        elif criteria.weights is not None:
            mix = criteria.weights[None]
        level = mix @ before[0]
        required = level + np.array(criteria.accuracy_gains) * (np.abs(level) if ratio else 1.0) + self.iota
        gaps = [np.ptp(rates) for rates in before[1:]]
        cuts = zip(gaps, criteria.fairness_gains, strict=True)
        solution = search(
            people.matrix(group_aware=self.group_aware),
            people.group,
            worths[0],
            worths[1:],
            mix=mix,
            required=required,
            largest_gaps=[(gap * (1 - gain) if ratio else gap - gain) - self.iota for gap, gain in cuts],
            objective=self.objective,
            target=self._target(labels),
            capacity=training.capacity,
            margin=self.margin,
            time_limit=self.time_limit,
        )
        details = {"value": solution.value, "bound": solution.bound, "gap": solution.gap}
        if solution.coefficients is None:
            why = f" within {self.time_limit:g} seconds" if solution.status is Status.TIME_LIMIT else ""
            return Algorithm(None, solution.status, f"no linear classifier was found{why}", details)
        linear = Linear(solution.coefficients, self.group_aware, training.capacity is not None)
        return Algorithm(linear, solution.status, "", details)

    def _target(self, labels: tuple[str, ...]) -> int | None:
        if self.group is None:
            return None
        if self.group not in labels:
            raise UnknownOption("group of the milp rule", self.group, labels)
        return labels.index(self.group)


@dataclass(frozen=True, slots=True, eq=False)
class Linear:
    """A linear classifier, constant first: its score where a capacity cuts it, else whether it is at least 0."""

    model: FloatArray
    group_aware: bool
    scores: bool

    def __call__(self, people: People) -> FloatArray:
        """One number per person."""
        score = self.model[0] + people.matrix(group_aware=self.group_aware) @ self.model[1:]
        return np.asarray(score if self.scores else score >= 0, dtype=float)


def _worth(utility: Utility, part: Training) -> Worth:
    y = part.outcomes[utility.outcome]
    both = [utility.values(part.people.features, y, np.full(len(y), decision)) for decision in (0.0, 1.0)]
    u, w = (np.column_stack([one[k] for one in both]) for k in (0, 1))
    return Worth(u, w)
