"""One comparison: two algorithms on the rows they are judged on, each requirement with its gain and its p-value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from isonomy.alternatives import wording
from isonomy.alternatives.plan import Plan
from isonomy.alternatives.rules import bootstrap, cutoffs, influence
from isonomy.alternatives.rules.algorithm import Algorithm
from isonomy.alternatives.rules.bootstrap import Comparison, Component, PvalueForm
from isonomy.alternatives.rules.comparison import compare
from isonomy.alternatives.rules.criteria import CANDIDATE, STATUS_QUO, Criteria
from isonomy.alternatives.rules.cutoffs import Mass, Selection, Weight
from isonomy.alternatives.tally import Tally
from isonomy.errors import DataError, NotEnoughData
from isonomy.inference.designs import FEWEST
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray
from isonomy.numerics.status import Status

FEWEST_ROWS = 10  # in a denominator: with fewer, means of skewed outcomes reject too often (0.12 at 0.05)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Trial:
    """One comparison: a round, a candidate, or all folds together.

    ``accuracy`` and ``fairness`` hold candidate, status quo and p-value of each component; the changes hold each gain
    with limits that are simultaneous within the trial.
    """

    accuracy: FloatArray
    fairness: FloatArray
    accuracy_change: FloatArray
    fairness_change: FloatArray
    identical: BoolArray  # accuracy components for which both algorithms decide alike
    selected: FloatArray  # shares selected: candidate, status quo
    cutoffs: FloatArray  # NaN where decisions came ready
    train_rows: int
    test_rows: IntArray  # by group
    worst: tuple[int, ...]  # the status quo's worst pair, for each fairness utility
    own_worst: tuple[int, ...]  # the candidate's
    status: Status
    note: str
    details: Mapping[str, float]
    comparison: Comparison | None  # None: no algorithm was found, or it cannot be judged

    @property
    def pvalue(self) -> float:
        """The largest over the components of the null: intersection-union."""
        return float(max(self.accuracy[:, 2].max(), self.fairness[:, 2].max()))


@dataclass(frozen=True, slots=True, eq=False)
class Search:
    """How the search for a candidate went."""

    found: bool = True
    status: Status = Status.OK
    note: str = ""
    details: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, algorithm: Algorithm) -> Search:
        """Without the algorithm itself, which may be large."""
        return cls(algorithm.decide is not None, algorithm.status, algorithm.note, algorithm.details)


@dataclass(frozen=True, slots=True, eq=False)
class Rivals:
    """What is to be compared on the rows of ``weight``: decisions of the status quo and of the candidate."""

    weight: Weight
    selections: tuple[Selection, Selection]
    worst: tuple[int, ...] | None = None  # chosen on other rows; None: all rows say
    learn: Weight | None = None
    search: Search = field(default_factory=Search)


def selection_on(
    values: FloatArray, plan: Plan, criteria: Criteria, weight: Mass, what: str, *, scores: bool = False
) -> Selection:
    """Decisions by a cut-off learned on the rows of ``weight``: the paper's quantile, or exactly the capacity of them.

    Prices stay as they are. ``scores``: even what is 0 and 1 is cut at a capacity, as it comes from a rule.
    """
    if criteria.priced:
        return Selection(values, np.zeros(len(values)))
    limits = {"capacity": plan.capacity, "threshold": plan.threshold}
    if plan.evidence == "paper":
        return cutoffs.decisions(values, np.rint(weight).astype(np.int64), what, **limits)
    return cutoffs.selection(values, weight, what, **limits, scores=scores)


def worst_pairs(tally: Tally, criteria: Criteria, learn: Weight, before: Selection) -> tuple[int, ...]:
    """The status quo's most unequal pair on the training part, for each fairness utility."""
    if len(criteria.pairs) == 1:
        return (0,) * len(criteria.fairness)
    return _most_unequal(criteria, status_quo_rates(tally, criteria, learn, before, "training"), STATUS_QUO)


def status_quo_rates(tally: Tally, criteria: Criteria, weight: Weight, before: Selection, part: str) -> FloatArray:
    """What the status quo reaches on the rows of ``weight``; an error where it is undefined."""
    _, worths = _lines(tally, criteria, Rivals(weight, (before, before)))
    rates = influence.observed_rates(worths)
    _refuse_undefined(criteria, worths, rates, ("status quo",), part)
    return rates


def _most_unequal(criteria: Criteria, rates: FloatArray, which: int) -> tuple[int, ...]:
    """The pair with the largest gap under one algorithm, for each fairness utility."""
    unfair = [criteria.unfairness(criteria.gaps(rates, k)[which]) for k in range(len(criteria.fairness))]
    return tuple(int(np.argmax(np.nan_to_num(one))) for one in unfair)


def _lines(tally: Tally, criteria: Criteria, rivals: Rivals) -> tuple[influence.Lines, influence.Worth]:
    """The lines that stand for some row, and what they are worth."""
    kept = np.flatnonzero(rivals.weight)
    lines = influence.Lines(
        {name: column[kept] for name, column in tally.features.items()},
        {name: column[kept] for name, column in tally.outcomes.items()},
        tally.group[kept],
        tally.masses(rivals.weight)[kept],
        (_at(rivals.selections[0], kept), _at(rivals.selections[1], kept)),
        (rivals.weight * tally.mass**2)[kept],
        None if tally.cluster is None else np.unique(tally.cluster[kept], return_inverse=True)[1],
    )
    return lines, influence.worth(criteria, lines)


def _at(selection: Selection, kept: IntArray) -> Selection:
    return replace(selection, share=selection.share[kept], edge=selection.edge[kept])


def measure(tally: Tally, criteria: Criteria, rivals: Rivals) -> tuple[FloatArray, FloatArray]:
    """Accuracy and unfairness of candidate and status quo: (components, 2) and (utilities, 2)."""
    _, worths = _lines(tally, criteria, rivals)
    rates = influence.observed_rates(worths)
    accuracy = criteria.accuracy_of(rates, worths.sums)
    unfair = np.array(
        [criteria.unfairness(criteria.gaps(rates, k)).max(axis=-1) for k in range(len(criteria.fairness))]
    )
    return np.column_stack([accuracy[CANDIDATE], accuracy[STATUS_QUO]]), unfair[:, [CANDIDATE, STATUS_QUO]]


def trial_of(tally: Tally, plan: Plan, criteria: Criteria, rivals: Rivals, rng: np.random.Generator) -> Trial:
    """Both algorithms on the rows judged; a candidate that is undefined there, one of several, has found nothing."""
    lines, worths = _lines(tally, criteria, rivals)
    rates = influence.observed_rates(worths)
    search = rivals.search
    _refuse_undefined(criteria, worths, rates, ("status quo",), "judged")
    if search.found:
        try:
            _refuse_undefined(criteria, worths, rates, ("status quo", "candidate"), "judged")
        except NotEnoughData as error:
            if plan.rule is None and len(plan.candidates) == 1:
                raise
            search = replace(search, found=False, status=Status.EMPTY, note=str(error))
    few = influence.denominators(lines, worths).min() < FEWEST_ROWS * (1 - 1e-9)  # sums of shares are rounded
    if search.found and plan.evidence != "paper" and few:
        search = replace(search, found=False, status=Status.EMPTY, note=wording.fewer_rows(FEWEST_ROWS))
    worst, identical = rivals.worst or (0,) * len(criteria.fairness), _identical(criteria, lines)
    comparison, empty = None, (np.full((n, 3), np.nan) for n in (len(criteria.accuracies), len(criteria.fairness)))
    changes = tuple(empty)
    if not search.found:
        measured = measure(tally, criteria, rivals)
        accuracy, fairness = (np.column_stack([m[:, 0] * np.nan, m[:, 1], np.ones(len(m))]) for m in measured)
    else:
        if plan.evidence == "paper":
            draws = bootstrap.resampled_sums(
                worths.values,
                lines.group,
                np.rint(lines.weight).astype(np.int64),
                len(tally.groups),
                plan.resamples,
                rng,
            )
            comparison = bootstrap.compare(criteria, worths.sums, draws, worst)
        else:
            _refuse_few_clusters(criteria, lines)
            known = influence.moments(criteria, lines, worths, rivals.worst)
            level, worst = plan.alpha / plan.attempts, known.worst
            both = compare(criteria, known, worths, identical, level, rng)
            comparison, changes = both.comparison, (both.accuracy_change, both.fairness_change)
        _refuse_excluded(tally, criteria, comparison, rivals)
        accuracy = _laid_out(comparison.accuracy, criteria.accuracy_gains, plan.pvalue_form)
        fairness = _laid_out(comparison.fairness, criteria.fairness_gains, plan.pvalue_form)
    return Trial(
        accuracy=accuracy,
        fairness=fairness,
        accuracy_change=changes[0],
        fairness_change=changes[1],
        identical=identical,
        selected=np.array([np.average(d.share, weights=lines.weight) for d in lines.selections[::-1]]),
        cutoffs=np.array([selection.cutoff for selection in rivals.selections[::-1]]),
        train_rows=0 if rivals.learn is None else int(rivals.learn.sum()),
        test_rows=tally.sizes(rivals.weight),
        worst=worst,
        own_worst=_most_unequal(criteria, rates, CANDIDATE),
        status=search.status,
        note=search.note,
        details=dict(search.details),
        comparison=comparison,
    )


def _identical(criteria: Criteria, lines: influence.Lines) -> BoolArray:
    """Accuracy components none of whose rows is decided differently by the two algorithms."""
    differs = lines.selections[0].share != lines.selections[1].share
    by_group = np.bincount(lines.group, weights=differs, minlength=len(criteria.labels)) > 0
    return ~by_group if criteria.weights is None else np.array([not differs.any()])


def _laid_out(components: Sequence[Component], gains: Sequence[float], form: PvalueForm) -> FloatArray:
    return np.array(
        [(c.candidate, c.status_quo, float(c.pvalue(gain, form))) for c, gain in zip(components, gains, strict=True)]
    )


def _refuse_few_clusters(criteria: Criteria, lines: influence.Lines) -> None:
    for label, effective in zip(criteria.labels, lines.effective(len(criteria.labels)), strict=True):
        if effective < FEWEST:
            raise NotEnoughData(
                f"cluster: group {label!r} has {effective:.1f} effective clusters; at least {FEWEST:g} are needed to "
                "measure the error between them.",
                f"cluster: a group has fewer than {FEWEST:g} effective clusters, too few to measure the error between "
                "them.",
            )


def _refuse_undefined(
    criteria: Criteria, worths: influence.Worth, rates: FloatArray, algorithms: Sequence[str], part: str
) -> None:
    for k, which, code in np.argwhere(np.isnan(rates[:, : len(algorithms)])):
        utility = criteria.utilities[k]
        if isinstance(criteria.weights, str) and utility not in criteria.fairness:
            continue  # accuracy over all rows needs no group's own
        decisive = bool(worths.slopes[:, k, 1].any())  # who counts depends on the decision
        counts = "is decided so as to count in it" if decisive else "has an outcome that counts in it"
        remedy = (
            f"{'raise the capacity, ' if decisive else ''}merge groups, or choose a utility with another denominator."
        )
        raise NotEnoughData(
            f"{utility.name} is undefined for group {criteria.labels[code]!r} under the {algorithms[which]}: none of "
            f"its {part} rows {counts}; {remedy}",
            f"{utility.name} is undefined for a group: {remedy}",
        )


def _refuse_excluded(tally: Tally, criteria: Criteria, comparison: Comparison, rivals: Rivals) -> None:
    """What the theory excludes: a status quo with no unfairness at all; ratios of what is not positive.

    A gap that is 0 in a small test part by coincidence, and not on all rows, is no error: the p-value is large.
    """
    if criteria.protected is None and any(unfairness.status_quo == 0 for unfairness in comparison.fairness):
        before = rivals.selections[STATUS_QUO]
        _, everywhere = measure(tally, criteria, Rivals(tally.weight, (before, before)))
        for utility, (_, value) in zip(criteria.fairness, everywhere, strict=True):
            if value == 0:
                raise DataError(
                    f"the status quo's unfairness in {utility.name} is exactly 0. The theory (assumption 1) excludes "
                    "a perfectly fair status quo: there is no disparity to reduce."
                )
    for name, component in zip(criteria.accuracies, comparison.accuracy, strict=True):
        if criteria.scale == "ratio" and component.status_quo <= 0:
            raise DataError(
                f"the status quo's {criteria.accuracy.name} for {name} is {component.status_quo:g}; gains as ratios "
                'need it above 0. Ask for differences: scale="difference".'
            )
