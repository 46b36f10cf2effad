"""The rule that chooses among rules, on rows that none of them was fitted on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from isonomy.alternatives.rules import influence
from isonomy.alternatives.rules.algorithm import Algorithm, Decide, People, SelectionRule, Training, applied, find
from isonomy.alternatives.rules.comparison import compare
from isonomy.alternatives.rules.criteria import Criteria
from isonomy.alternatives.rules.cutoffs import Selection, selection
from isonomy.numerics.arrays import FloatArray, IntArray

VALIDATION = 0.3  # of the training rows choose; the rule chosen is fitted on all of them


@dataclass(frozen=True, slots=True, eq=False)
class ChoiceRule:
    """Fit every rule on a part of the training rows, and keep the one that improves most surely on the others.

    What is compared is the largest p-value over the components of the null, which the utilities, the gains and the
    capacity asked for decide. The rule chosen is fitted again on all training rows.

    Parameters
    ----------
    rules : sequence of callables
        With the name of each.
    """

    rules: tuple[tuple[SelectionRule, str], ...]

    @property
    def name(self) -> str:
        """All names."""
        return " or ".join(name for _, name in self.rules)

    @property
    def group_aware(self) -> bool:
        """Whether one of the rules may look at the group."""
        return any(getattr(rule, "group_aware", True) for rule, _ in self.rules)

    def __call__(self, training: Training) -> Algorithm:
        """Choose and fit."""
        learn, check = stratified(training, 1 - VALIDATION)
        part, rest = training.take(learn), training.take(check)
        pvalues, notes, scores = [], [], []
        for rule, name in self.rules:
            algorithm, values = applied(find(rule, name, part), name, rest.people)
            pvalues.append(1.0 if algorithm.decide is None else _largest_pvalue(rest, values))
            notes.append(algorithm.note)
            scores.append(values)
        if all(notes):
            return Algorithm(None, algorithm.status, notes[0])
        best = int(np.argmin([np.inf if note else p for p, note in zip(pvalues, notes, strict=True)]))
        rule, name = self.rules[best]
        fitted = find(rule, name, training)
        details = {**fitted.details, f"chose {name}": 1.0}
        lost = next((f"{note.removesuffix('.')}, so it was not chosen." for note in notes if note), "")
        decide = fitted.decide
        if decide is not None and training.capacity is not None and not training.criteria.priced:
            cutoff = _decided(rest, scores[best]).cutoff
            decide = Standardised(decide, cutoff, float(scores[best].std()) or 1.0)
        return Algorithm(decide, fitted.status, fitted.note or lost, details)


@dataclass(frozen=True, slots=True, eq=False)
class Standardised:
    """Scores from a cut-off in standard deviations, both of rows the rule had not seen.

    Folds may choose different rules, and the cut-off to recommend is the mean of theirs: it needs one unit.
    """

    model: Decide
    cutoff: float
    deviation: float

    def __call__(self, people: People) -> FloatArray:
        """One number per person."""
        return (np.asarray(self.model(people), dtype=float) - self.cutoff) / self.deviation


def stratified(training: Training, share: float) -> tuple[IntArray, IntArray]:
    """Row numbers in two parts: ``share`` of each group, outcome and decision in the first, one at the least."""
    y = training.outcome
    high = y > np.median(y) if len(np.unique(y)) > 2 else y == y.max()
    strata = 4 * training.people.group + 2 * high + (training.status_quo > 0.5)
    order = np.lexsort((training.rng.random(len(y)), strata))
    sizes = np.bincount(strata)
    place = np.arange(len(y)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    first = place < np.maximum(1, np.rint(share * np.repeat(sizes, sizes)))
    return np.sort(order[first]), np.sort(order[~first])


def _largest_pvalue(rest: Training, values: FloatArray) -> float:
    """On rows no rule has seen; 1 where a utility is undefined on them."""
    both = (Selection(rest.status_quo, np.zeros(len(values))), _decided(rest, values))
    lines = influence.Lines(rest.people.features, rest.outcomes, rest.people.group, _weight(rest), both)
    return _pvalue(rest.criteria, lines, rest.rng)


def _decided(rest: Training, values: FloatArray) -> Selection:
    if rest.criteria.priced:
        return Selection(values, np.zeros(len(values)))
    return selection(values, _weight(rest), "rule", capacity=rest.capacity, threshold=rest.threshold, scores=True)


def _weight(rest: Training) -> FloatArray:
    return np.ones(len(rest.outcome)) if rest.weight is None else rest.weight


def _pvalue(criteria: Criteria, lines: influence.Lines, rng: np.random.Generator) -> float:
    worths = influence.worth(criteria, lines)
    if (worths.sums[:, :, 1] <= 0).any():
        return 1.0
    known = influence.moments(criteria, lines, worths)
    same = np.zeros(len(criteria.accuracies), dtype=bool)
    comparison = compare(criteria, known, worths, same, 0.05, rng).comparison
    parts = zip(
        (*comparison.accuracy, *comparison.fairness), (*criteria.accuracy_gains, *criteria.fairness_gains), strict=True
    )
    return max(float(component.pvalue(gain)) for component, gain in parts)
