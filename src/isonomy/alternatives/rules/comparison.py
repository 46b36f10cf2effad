"""What the estimates and their covariance say of every requirement, and each gain with simultaneous limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from isonomy.alternatives.rules.bootstrap import Comparison, Component, Question
from isonomy.alternatives.rules.contrasts import Equivalence
from isonomy.alternatives.rules.criteria import CANDIDATE, STATUS_QUO, Criteria
from isonomy.alternatives.rules.influence import Moments, Worth, gap_forms
from isonomy.inference.simultaneous import RANK_TOLERANCE, sup_t
from isonomy.numerics.arrays import BoolArray, FloatArray
from isonomy.numerics.tails import t_as_rare


@dataclass(frozen=True, slots=True, eq=False)
class Assessment:
    """The comparison, and each gain with simultaneous limits: (components, 3) and (fairness utilities, 3)."""

    comparison: Comparison
    accuracy_change: FloatArray
    fairness_change: FloatArray


def compare(
    criteria: Criteria, known: Moments, worths: Worth, identical: BoolArray, alpha: float, rng: np.random.Generator
) -> Assessment:
    """The questions about every component, in the form of `isonomy.alternatives.rules.bootstrap`.

    ``identical`` says for which accuracy components both algorithms decide alike.
    """
    size, n_cells = len(known.estimates), int(np.prod((len(criteria.utilities), 2, len(criteria.labels))))
    unit = np.eye(size)
    if isinstance(criteria.weights, str):
        accuracies = unit[n_cells : n_cells + 2, :, None]
    else:
        rates = unit[:, :n_cells].reshape(size, len(criteria.utilities), 2, len(criteria.labels))
        accuracies = np.moveaxis(criteria.accuracy_of(rates, rates), 1, 0)  # (2, columns, components)
    ratio = criteria.scale == "ratio"
    accuracy, asked = [], []
    for i in range(accuracies.shape[2]):
        base = accuracies[STATUS_QUO, :, i]
        gain = accuracies[CANDIDATE, :, i] - base if not identical[i] else np.zeros(size)
        question = known.contrast(gain, base if ratio else None, identical=bool(identical[i]))
        level = float(base @ known.estimates)
        accuracy.append(Component(level + question.gain, level, (question,)))
        asked.append([(gain, base if ratio else None)])
    forms, distance, fairness = gap_forms(criteria, size), np.inf, []
    sides = (1, -1) if criteria.protected is None else (1,)
    for k, form in enumerate(forms):
        base = unit[size - len(forms) + k]
        pairs = [
            (base - side * form[:, CANDIDATE, p], base if ratio else None)
            for p in range(form.shape[2])
            for side in sides
        ]
        contrasts = [known.contrast(*pair) for pair in pairs]
        questions: list[Question] = list(contrasts)
        shown = known.contrast(base, None)
        if criteria.fairness_test == "equivalence" and criteria.protected is None:
            steps = _steps(criteria, worths, k)
            both = zip(pairs[::2], pairs[1::2], strict=True)
            shared = [float(first[0] @ known.covariance @ second[0]) for first, second in both]
            questions = list(map(Equivalence, contrasts[::2], contrasts[1::2], shared, steps))
        if criteria.protected is not None:
            # A protected group that is not worse off has no disadvantage to cut: the status quo's must be shown too.
            questions.append(known.contrast(base, np.zeros(size)))
        unfair = float(criteria.unfairness(known.estimates @ form[:, CANDIDATE]).max())
        fairness.append(Component(unfair, max(shown.gain, 0.0), tuple(questions)))
        asked.append(pairs)
        if shown.variance > shown.noise:
            distance = min(distance, abs(shown.gain) / np.sqrt(shown.variance))
    changes = _limits(known, asked, alpha, rng)
    if ratio:  # unfairness cannot fall by more than all of itself
        changes[len(accuracy) :] = np.minimum(changes[len(accuracy) :], 1.0)
    fewest = float(worths.sums[:, :, 1].min())
    comparison = Comparison(tuple(accuracy), tuple(fairness), 0, fewest, float(distance))
    return Assessment(comparison, changes[: len(accuracy)], changes[len(accuracy) :])


def _steps(criteria: Criteria, worths: Worth, k: int) -> list[float]:
    """Half of what one row can change in the candidate's gap of each pair, by the larger of its two groups."""
    which = criteria.utilities.index(criteria.fairness[k])
    values = np.unique(worths.values[:, which, CANDIDATE, 0])
    smallest = float(np.diff(values).min()) if len(values) > 1 else 0.0
    denominators = worths.sums[which, CANDIDATE, 1]
    return [0.5 * smallest / max(denominators[list(pair)].max(), 1.0) for pair in criteria.pairs]


def _limits(
    known: Moments,
    asked: Sequence[Sequence[tuple[FloatArray, FloatArray | None]]],
    alpha: float,
    rng: np.random.Generator,
) -> FloatArray:
    """Each component's gain, and limits that hold for all at once; unfairness falls by the least of its gains."""
    contrasts = [known.contrast(*pair) for part in asked for pair in part]
    ends = np.cumsum([len(part) for part in asked])[:-1]
    gradients = []
    for (gain, base), contrast in zip([pair for part in asked for pair in part], contrasts, strict=True):
        usable = contrast.base if contrast.base > 0 else np.nan
        gradients.append(gain if base is None else (gain - contrast.gain / usable * base) / usable)
    estimates = np.array([c.gain / (c.base if c.base > 0 else np.nan) for c in contrasts])
    jacobian = np.array(gradients)
    covariance = np.where(np.isnan(jacobian).any(axis=1), np.nan, 1.0)[:, None] * (
        np.nan_to_num(jacobian) @ known.covariance @ np.nan_to_num(jacobian).T
    )
    noise = RANK_TOLERANCE * (jacobian**2 @ np.diagonal(known.covariance))
    variance = np.diagonal(covariance)
    deviation = np.sqrt(np.where(variance > noise, variance, np.nan))
    with np.errstate(invalid="ignore"):
        correlation = covariance / deviation[:, None] / deviation
    np.fill_diagonal(correlation, np.where(np.isnan(deviation), np.nan, 1.0))
    critical = float(t_as_rare(sup_t(correlation, alpha=alpha, rng=rng).critical, known.df))
    margin = np.where(np.isnan(estimates), np.nan, np.nan_to_num(critical * np.nan_to_num(deviation)))
    rows = np.stack([estimates, estimates - margin, estimates + margin], axis=1)
    return np.stack([part.min(axis=0) for part in np.split(rows, ends)])
