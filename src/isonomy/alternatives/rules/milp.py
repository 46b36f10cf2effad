"""The selection rule that searches linear classifiers by mixed integer programming (appendix F)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from isonomy.alternatives.rules.algorithm import Algorithm, People, Training
from isonomy.alternatives.rules.program import MARGIN, Objective, Solution, search
from isonomy.errors import UnknownOption, UsageError
from isonomy.numerics.arrays import FloatArray, IntArray
from isonomy.options import Finite, Number, Positive, Whole, check_parameters


@dataclass(frozen=True, slots=True, eq=False)
class MILPRule:
    """A linear classifier found by mixed integer programming on the training part (appendix F).

    Classification utility where the call's accuracy is ``"accuracy"``; the linearised calibration program where it is
    ``"outcome_among_selected"``, which then needs a capacity. Only for small training parts: at most a few hundred
    rows (``sample`` draws that many). Reports status, value, bound and gap in the rounds' details.

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
        Fit on at most this many training rows, drawn at random; None: on all.
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
        utility = training.accuracy.name
        if utility not in ("accuracy", "outcome_among_selected"):
            raise UnknownOption("accuracy with the milp rule", utility, ("accuracy", "outcome_among_selected"))
        kept = self._sampled(training)
        people, labels = training.people.take(kept), training.people.labels
        y, decisions = training.outcome[kept], training.status_quo[kept]
        u, w = training.accuracy.values(people.features, y, decisions)
        masses = np.bincount(people.group, weights=w, minlength=len(labels))
        if (masses == 0).any():
            raise UsageError("the sampled training rows have a group without status-quo utility; enlarge `sample`.")
        solution = search(
            people.matrix(group_aware=self.group_aware),
            y,
            people.group,
            np.bincount(people.group, weights=u, minlength=len(labels)) / masses,
            utility=utility,
            objective=self.objective,
            target=self._target(labels),
            capacity=training.capacity,
            iota=self.iota,
            margin=self.margin,
            time_limit=self.time_limit,
        )
        return _algorithm(solution, self.group_aware)

    def _sampled(self, training: Training) -> IntArray:
        n = len(training.outcome)
        if self.sample is None or n <= self.sample:
            return np.arange(n)
        return np.sort(training.rng.choice(n, self.sample, replace=False))

    def _target(self, labels: tuple[str, ...]) -> int | None:
        if self.group is None:
            return None
        if self.group not in labels:
            raise UnknownOption("group of the milp rule", self.group, labels)
        return labels.index(self.group)


def _algorithm(solution: Solution, group_aware: bool) -> Algorithm:
    details = {"value": solution.value, "bound": solution.bound, "gap": solution.gap}
    if solution.coefficients is None:
        return Algorithm(None, solution.status, "no linear classifier was found", details)
    constant, slopes = solution.coefficients[0], solution.coefficients[1:]

    def decide(people: People) -> FloatArray:
        return (constant + people.matrix(group_aware=group_aware) @ slopes >= 0).astype(float)

    return Algorithm(decide, solution.status, "", details)
