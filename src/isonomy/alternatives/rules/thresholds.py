"""A cut-off for each group, on any score: the commonest remedy in practice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from isonomy.alternatives.rules.algorithm import Algorithm, Decide, People, SelectionRule, Training, applied, find
from isonomy.alternatives.rules.criteria import CANDIDATE, STATUS_QUO, Criteria, rates_of
from isonomy.alternatives.rules.cutoffs import Selection
from isonomy.alternatives.rules.influence import Lines, worth
from isonomy.errors import UsageError
from isonomy.numerics.arrays import FloatArray, IntArray

STEPS = 80  # shares of a group that are tried
FOLDS = 3  # scores that choose cut-offs come from rows the score was not fitted on
ROUNDS = 4  # passes over the groups


@dataclass(frozen=True, slots=True, eq=False)
class ThresholdsRule:
    """Cut-offs by group on the score of another rule, chosen for what is asked of the alternative.

    Among the shares selected of each group (which keep the capacity, where there is one) those are taken at which
    every accuracy requirement is met and unfairness is smallest; or, where none meets them, those that miss least. The
    scores that choose come from rows the score was not fitted on. It needs everybody's group.

    Parameters
    ----------
    score : callable
        The rule that makes the score.
    """

    score: SelectionRule
    name: str = "group_thresholds"
    group_aware: bool = True

    def __call__(self, training: Training) -> Algorithm:
        """Fit the score on all training rows, and the cut-offs on scores from rows it was not fitted on."""
        if training.criteria.priced:
            raise UsageError("accuracy with the group_thresholds rule: a price has no cut-off.")
        if not training.scored:
            raise UsageError("capacity, threshold: group_thresholds moves the cut-off of a score; give one of them.")
        n = len(training.outcome)
        fold, scores = training.rng.permutation(n) % FOLDS, np.full(n, np.nan)
        for number in range(FOLDS):
            learn, judge = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
            part = find(self.score, self.name, training.take(learn))
            part, scores[judge] = applied(part, self.name, training.people.take(judge))
            if part.decide is None:
                return part
        whole = find(self.score, self.name, training)
        if whole.decide is None:
            return whole
        return Algorithm(Shifted(whole.decide, tuple(_cutoffs(training, scores)), training.threshold or 0.0))


@dataclass(frozen=True, slots=True, eq=False)
class Shifted:
    """A score less its group's cut-off, so that one cut-off serves all."""

    model: Decide
    cutoffs: tuple[float, ...]
    threshold: float

    def __call__(self, people: People) -> FloatArray:
        """One number per person."""
        return np.asarray(self.model(people), dtype=float) - np.array(self.cutoffs)[people.group] + self.threshold


def _cutoffs(training: Training, scores: FloatArray) -> list[float]:
    """The cut-off of each group: group after group is moved to its best share, the others making room."""
    group, n_groups = training.people.group, len(training.people.labels)
    members = [np.flatnonzero(group == code) for code in range(n_groups)]
    ordered = [rows[np.argsort(-scores[rows], kind="stable")] for rows in members]
    sizes = np.array([len(rows) for rows in members], dtype=float)
    total = None if training.capacity is None else training.capacity * sizes.sum()
    start = training.capacity or float((scores > (training.threshold or 0.0)).mean())
    taken, totals = start * sizes, _Totals.of(training, ordered)
    best = totals.cost(taken)
    for _ in range(ROUNDS):
        before = best
        for code in range(n_groups):
            for share in np.linspace(0, 1, STEPS + 1)[1:-1] * (1.0 if total is None else min(1.0, 2 * start)):
                tried = _moved(taken, sizes, code, share, total)
                cost = totals.cost(tried)
                if cost < best:
                    best, taken = cost, tried
        if best == before:
            break
    return [_between(scores[rows], round(k)) for rows, k in zip(ordered, taken, strict=True)]


def _moved(taken: FloatArray, sizes: FloatArray, code: int, share: float, total: float | None) -> FloatArray:
    """``share`` of one group selected; the others scaled to keep the total."""
    moved = taken.copy()
    moved[code] = share * sizes[code]
    if total is not None:
        others = np.arange(len(sizes)) != code
        left = max(0.0, total - moved[code])
        moved[others] = np.minimum(sizes[others], moved[others] * left / max(moved[others].sum(), 1e-12))
        moved[code] = min(sizes[code], total - moved[others].sum())
    return moved


@dataclass(frozen=True, slots=True, eq=False)
class _Totals:
    """Sums of u and w: the status quo's, and those of selecting the first so many of each group."""

    criteria: Criteria
    status_quo: FloatArray  # (utilities, 2, groups)
    selecting: tuple[FloatArray, ...]  # of each group: (0 to all selected, utilities, 2)

    @classmethod
    def of(cls, training: Training, ordered: Sequence[IntArray]) -> _Totals:
        """From the training rows, ordered by score within each group."""
        n = len(training.outcome)
        both = (Selection(training.status_quo, np.zeros(n)), Selection(np.zeros(n), np.zeros(n)))
        people = training.people
        weight = np.ones(n) if training.weight is None else training.weight
        lines = Lines(people.features, training.outcomes, people.group, weight, both)
        known = worth(training.criteria, lines)
        selecting = [
            np.cumsum(
                np.concatenate(
                    [known.sums[None, :, CANDIDATE, :, code], weight[rows, None, None] * known.slopes[rows]]
                ),
                axis=0,
            )
            for code, rows in enumerate(ordered)
        ]
        return cls(training.criteria, known.sums[:, STATUS_QUO], tuple(selecting))

    def cost(self, taken: FloatArray) -> float:
        """How far these numbers selected of each group are from what is asked."""
        candidate = np.stack([sums[round(k)] for sums, k in zip(self.selecting, taken, strict=True)], axis=-1)
        return shortfall(self.criteria, np.stack([self.status_quo, candidate], axis=1))


def shortfall(criteria: Criteria, sums: FloatArray) -> float:
    """How far sums by group are from what is asked: 0 for perfect equality at the accuracy required.

    The largest unfairness as a share of the status quo's, and ten times what accuracy lacks.
    """
    rates = rates_of(sums)
    accuracy = criteria.accuracy_of(rates, sums)
    ratio = criteria.scale == "ratio"
    scale = np.abs(accuracy[STATUS_QUO]) if ratio else np.ones(accuracy.shape[1])
    missing = np.array(criteria.accuracy_gains) * scale - (accuracy[CANDIDATE] - accuracy[STATUS_QUO])
    unfair = [criteria.unfairness(criteria.gaps(rates, k)).max(axis=-1) for k in range(len(criteria.fairness))]
    relative = [after / max(before, 1e-12) for before, after in unfair]
    cost = max(relative) + 10 * float(np.maximum(missing / np.maximum(np.abs(accuracy[STATUS_QUO]), 1e-12), 0).max())
    return float(cost) if np.isfinite(cost) else np.inf


def _between(descending: FloatArray, k: int) -> float:
    """A cut-off that selects the first ``k`` of scores in descending order."""
    if k <= 0:
        return float(descending[0])
    if k >= len(descending):
        return float(np.nextafter(descending[-1], -np.inf))
    return float((descending[k - 1] + descending[k]) / 2)
