"""Both algorithms on rows that neither was fitted on, and what the comparisons say together.

What is judged is one of four. *whole*: candidates that are ready, on all rows. *crossfit*: every row is decided by
rules fitted without it, five folds, repeated; averaged, a decision is the probability that a mixture of the fitted
rules selects the row. *splits*: rounds of split, select, test. *paper*: the same with the paper's cut-offs, learned
from the training part, and its bootstrap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from isonomy.alternatives.plan import Plan
from isonomy.alternatives.rules import bootstrap, cutoffs, influence
from isonomy.alternatives.rules import rounds as together
from isonomy.alternatives.rules.algorithm import Algorithm, Training, applied, find
from isonomy.alternatives.rules.bootstrap import Comparison, Component, PvalueForm
from isonomy.alternatives.rules.criteria import CANDIDATE, STATUS_QUO, Criteria
from isonomy.alternatives.rules.cutoffs import Decided, Mass, Weight
from isonomy.alternatives.rules.rounds import Curves
from isonomy.alternatives.tally import Tally
from isonomy.alternatives.wording import PROGRESS
from isonomy.errors import DataError, IsonomyError, NotEnoughData, RuleFailed
from isonomy.frames import Request
from isonomy.inference.designs import FEWEST
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray
from isonomy.numerics.status import Status
from isonomy.results.progress import tracked


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


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Estimates:
    """The trials, and the one p-value and the supported gains that follow."""

    criteria: Criteria
    trials: tuple[Trial, ...]
    failures: tuple[str, ...]  # why folds are scored as no improvement, where a rule failed in some
    remarks: tuple[str, ...]  # what rules that found something had to say
    pvalue: float
    median_pvalue: float
    supported_fairness_gain: float
    supported_accuracy_gain: float
    curves: Curves


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


Trials = tuple[tuple[Trial, ...], tuple[Search, ...]]  # and how the searches behind them went


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """What is to be compared on the rows of ``weight``: decisions of the status quo and of the candidate."""

    weight: Weight
    decided: tuple[Decided, Decided]
    worst: tuple[int, ...] | None = None  # chosen on other rows; None: all rows say
    learn: Weight | None = None
    search: Search = field(default_factory=Search)


def estimate(tally: Tally, plan: Plan, rng: np.random.Generator) -> Estimates:
    """Make the trials, each with its own generator, and combine them."""
    criteria = plan.settle(tally.groups)
    if plan.capacity is not None and plan.capacity * tally.rows < 1:
        raise NotEnoughData(f"capacity: {plan.capacity:g} of {tally.rows:,} rows selects nobody; give a larger share.")
    kinds: Mapping[str, Callable[..., Trials]]
    kinds = {"whole": _whole, "crossfit": _crossfit, "splits": _rounds, "paper": _rounds}
    trials, searches = kinds[plan.evidence](tally, plan, criteria, rng)
    pvalues, comparisons = [t.pvalue for t in trials], [t.comparison for t in trials]
    accuracy, unfairness = (np.stack([getattr(t, part)[:, 1] for t in trials]) for part in ("accuracy", "fairness"))
    grids = together.default_grids(criteria.scale, accuracy, unfairness)
    form, merge, attempts = plan.pvalue_form, plan.merge, plan.attempts
    curves = together.curves(comparisons, *grids, form, merge, attempts)
    supported = [
        together.largest_supported(comparisons, "fairness", curves, plan.alpha, form, plan.margin),
        together.largest_supported(comparisons, "accuracy", curves, plan.alpha, form),
    ]
    return Estimates(
        criteria=criteria,
        trials=trials,
        failures=tuple(search.note for search in searches if not search.found),
        remarks=tuple(search.note for search in searches if search.found and search.note),
        pvalue=float(together.combined(pvalues, merge, attempts)),
        median_pvalue=float(together.median(pvalues)),
        supported_fairness_gain=supported[0],
        supported_accuracy_gain=supported[1],
        curves=curves,
    )


# --- ready candidates, on all rows


def _whole(tally: Tally, plan: Plan, criteria: Criteria, rng: np.random.Generator) -> Trials:
    weight = tally.weight
    _refuse_small(tally, weight, "table", plan.min_size)
    status_quo = decided_on(tally.status_quo, plan, criteria, tally.masses(weight), "status_quo")
    trials = []
    for name, values in tally.candidates.items():
        what = "candidate" if len(tally.candidates) == 1 else f"candidate {name!r}"
        both = (status_quo, decided_on(values, plan, criteria, tally.masses(weight), what))
        trials.append(_compared(tally, plan, criteria, Judged(weight, both), rng.spawn(1)[0]))
    return tuple(trials), ()


# --- cross-fitting


def _crossfit(tally: Tally, plan: Plan, criteria: Criteria, rng: np.random.Generator) -> Trials:
    weight = tally.weight
    _refuse_small(tally, weight, "table", plan.min_size)
    if tally.rows < 2 * plan.folds:
        raise NotEnoughData(f"folds: {tally.rows:,} rows are too few for {plan.folds}.")
    status_quo = decided_on(tally.status_quo, plan, criteria, tally.masses(weight), "status_quo")
    repeats = 1 if criteria.priced else plan.repeats  # a mean of prices is not a mixture of them
    parts = [part for each in rng.spawn(repeats) for part in cutoffs.fold(weight, plan.folds, each, tally.cluster)]
    tasks = [
        (tally, plan, criteria, part, status_quo.share, each)
        for part, each in zip(parts, rng.spawn(len(parts)), strict=True)
    ]
    fitted: list[tuple[Search, FloatArray]] = _run(plan, one_fold, tasks)
    searches = [search for search, _ in fitted]
    lost = [search for search in searches if not search.found]
    if all(search.status is Status.FAILED for search in searches):
        raise RuleFailed(f"fold 1: {lost[0].note}")
    names = sorted({name for search in searches for name in search.details})
    details = {name: _mean([search.details.get(name, 0.0) for search in searches]) for name in names}
    status = next((search.status for search in (*lost, *searches) if search.status is not Status.OK), Status.OK)
    candidate = _mixture(tally, plan, criteria, parts, fitted)
    whole = Search(len(lost) < len(parts), status, lost[0].note if lost else "", details)
    judged = Judged(weight, (status_quo, candidate), learn=weight, search=whole)
    return (_compared(tally, plan, criteria, judged, rng.spawn(1)[0]),), tuple(searches)


def _mean(values: Sequence[float]) -> float:
    """Of those that are known."""
    known = [value for value in values if not np.isnan(value)]
    return float(np.mean(known)) if known else np.nan


def _mixture(
    tally: Tally, plan: Plan, criteria: Criteria, parts: Sequence[Weight], fitted: Sequence[tuple[Search, FloatArray]]
) -> Decided:
    """The share of the fitted rules that select each row: each fold selects the capacity among its own rows.

    A fold in which the rule failed keeps the status quo: no improvement.
    """
    share, edge, cuts, capacity = np.zeros(len(tally.weight)), np.zeros(len(tally.weight)), [], plan.capacity
    limits = {"capacity": capacity, "threshold": plan.threshold}
    kept_scores = not criteria.priced and cutoffs.are_scores(tally.status_quo, "status_quo", **limits)
    for part, (search, values) in zip(parts, fitted, strict=True):
        lines = np.flatnonzero(part)
        scores, scored = (values, not criteria.priced) if search.found else (tally.status_quo[lines], kept_scores)
        if capacity is not None and scored:
            near = cutoffs.reach(capacity, tally.rows)
            decided, close, cutoff = cutoffs.at_capacity(scores, part[lines] * tally.mass[lines], capacity, near)
            edge[lines] += close
        else:
            decision = decided_on(scores, plan, criteria, part[lines], f"rule {plan.rule_name!r}")
            decided, cutoff = decision.share, decision.cutoff
        cuts += [cutoff] if search.found else []
        share[lines] += part[lines] * decided
    middle = float(np.mean(cuts)) if cuts else np.nan
    repeats = len(parts) // plan.folds
    return Decided(share / (repeats * tally.weight), edge / (edge.sum() or 1.0), capacity or 0.0, middle)


def one_fold(
    tally: Tally, plan: Plan, criteria: Criteria, judge: Weight, status_quo: FloatArray, rng: np.random.Generator
) -> tuple[Search, FloatArray]:
    """Fit the rule without the rows of ``judge``, and apply it to their lines."""
    assert plan.rule is not None
    rows = training(tally, plan, criteria, tally.weight - judge, status_quo, rng)
    algorithm = find(plan.rule, plan.rule_name, rows)
    algorithm, values = applied(algorithm, plan.rule_name, tally.people.take(np.flatnonzero(judge)))
    return _useful(Search.of(algorithm), plan, criteria, values), values


def _useful(search: Search, plan: Plan, criteria: Criteria, values: FloatArray) -> Search:
    """What was found, unless it is one score for everybody and a capacity must cut it."""
    if not search.found or not plan.capacity or criteria.priced or len(values) < 2 or np.ptp(values) > 0:
        return search
    note = f"rule {plan.rule_name!r} gives everybody the same score, so the capacity selects nobody in particular"
    return replace(search, found=False, status=Status.CONSTANT, note=note)


def training(
    tally: Tally, plan: Plan, criteria: Criteria, learn: Weight, status_quo: FloatArray, rng: np.random.Generator
) -> Training:
    """What a rule sees: the rows of ``learn``, one by one."""
    rows = np.repeat(np.arange(len(learn)), learn)
    outcomes = {name: values[rows] for name, values in tally.outcomes.items()}
    weight = None if np.ptp(tally.mass) == 0 else tally.mass[rows]
    people = tally.people.take(rows)
    return Training(people, outcomes, status_quo[rows], criteria, plan.capacity, plan.threshold, rng, weight)


# --- rounds


def _rounds(tally: Tally, plan: Plan, criteria: Criteria, rng: np.random.Generator) -> Trials:
    tasks = [(tally, plan, criteria, number, each) for number, each in enumerate(rng.spawn(plan.splits), start=1)]
    trials = tuple(_run(plan, one_round, tasks))
    if all(trial.status is Status.FAILED for trial in trials):
        raise RuleFailed(f"round 1: {trials[0].note}")
    judged = [trial for trial in trials if trial.comparison is not None]
    return trials, tuple(Search(True, trial.status, trial.note) for trial in judged)


def _run(plan: Plan, step: Callable[..., Any], tasks: Sequence[tuple[Any, ...]]) -> list[Any]:
    """All tasks; the number of processes changes no number."""
    # One thread: sums over several threads differ in the last digit, and serial must equal parallel.
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    bare = replace(plan, request=Request(), groups=None)  # an engine's expressions need not reach other processes
    tasks = [(tally, bare, *rest) for tally, _, *rest in tasks]
    if plan.n_jobs == 1:
        results: Iterable[Any] = (step(*task) for task in tasks)
    else:
        from joblib import Parallel, delayed, parallel_config  # type: ignore[import-untyped]

        with parallel_config(backend="loky", inner_max_num_threads=1):
            results = Parallel(n_jobs=plan.n_jobs, return_as="generator")(delayed(step)(*task) for task in tasks)
    results = tracked(results, PROGRESS, len(tasks), bar=plan.progress)
    with threadpool_limits(limits=1):
        return list(results)


def one_round(tally: Tally, plan: Plan, criteria: Criteria, number: int, rng: np.random.Generator) -> Trial:
    """Split, let the rule find a candidate on the training part, test it on the other."""
    try:
        return _one_round(tally, plan, criteria, rng)
    except IsonomyError as error:
        error.args = (f"round {number}: {error}",)
        raise


def _one_round(tally: Tally, plan: Plan, criteria: Criteria, rng: np.random.Generator) -> Trial:
    share = plan.training_share(criteria)
    train, test = cutoffs.split(tally.weight, share, rng, tally.cluster)
    for part, weight in (("training", train), ("test", test)) if share else (("test", test),):
        _refuse_small(tally, weight, part, plan.min_size)
    learn = train if share else test
    before = decided_on(tally.status_quo, plan, criteria, tally.masses(learn), "status_quo")
    worst = _worst_pairs(tally, criteria, learn, before)
    search, what = Search(), "candidate"
    if plan.rule is None:
        (values,) = tally.candidates.values()
    else:
        search, values = _everywhere(tally, plan, criteria, learn, before.share, rng)
        what = f"rule {plan.rule_name!r}"
    where = tally.masses(learn if plan.evidence == "paper" else test)
    status_quo = decided_on(tally.status_quo, plan, criteria, where, "status_quo")
    ruled = plan.rule is not None
    candidate = decided_on(values, plan, criteria, where, what, scores=ruled) if search.found else status_quo
    return _compared(tally, plan, criteria, Judged(test, (status_quo, candidate), worst, train, search), rng)


def _everywhere(
    tally: Tally, plan: Plan, criteria: Criteria, learn: Weight, status_quo: FloatArray, rng: np.random.Generator
) -> tuple[Search, FloatArray]:
    """The rule fitted on the rows of ``learn``, and its values for every line.

    The algorithm sees the two parts apart: one that ranks what it is given must not rank test with training rows.
    """
    assert plan.rule is not None
    algorithm = find(plan.rule, plan.rule_name, training(tally, plan, criteria, learn, status_quo, rng))
    values = np.full(len(learn), np.nan)
    for index in (np.flatnonzero(learn), np.flatnonzero(learn == 0)):
        if len(index):
            algorithm, values[index] = applied(algorithm, plan.rule_name, tally.people.take(index))
    return _useful(Search.of(algorithm), plan, criteria, values), values


def decided_on(
    values: FloatArray, plan: Plan, criteria: Criteria, weight: Mass, what: str, *, scores: bool = False
) -> Decided:
    """Decisions by a cut-off learned on the rows of ``weight``: the paper's quantile, or exactly the capacity of them.

    Prices stay as they are. ``scores``: even what is 0 and 1 is cut at a capacity, as it comes from a rule.
    """
    if criteria.priced:
        return Decided(values, np.zeros(len(values)))
    limits = {"capacity": plan.capacity, "threshold": plan.threshold}
    if plan.evidence == "paper":
        return cutoffs.decisions(values, np.rint(weight).astype(np.int64), what, **limits)
    return cutoffs.judged(values, weight, what, **limits, scores=scores)


def _worst_pairs(tally: Tally, criteria: Criteria, learn: Weight, before: Decided) -> tuple[int, ...]:
    """The status quo's most unequal pair on the training part, for each fairness utility."""
    if len(criteria.pairs) == 1:
        return (0,) * len(criteria.fairness)
    _, worths = _lines(tally, criteria, Judged(learn, (before, before)))
    rates = influence.observed_rates(worths)
    _refuse_undefined(criteria, rates, ("status quo",), "training")
    return _most_unequal(criteria, rates, STATUS_QUO)


def _most_unequal(criteria: Criteria, rates: FloatArray, which: int) -> tuple[int, ...]:
    """The pair with the largest gap under one algorithm, for each fairness utility."""
    unfair = [criteria.unfairness(criteria.gaps(rates, k)[which]) for k in range(len(criteria.fairness))]
    return tuple(int(np.argmax(np.nan_to_num(one))) for one in unfair)


# --- the comparison


def _lines(tally: Tally, criteria: Criteria, judged: Judged) -> tuple[influence.Lines, influence.Worth]:
    """The lines that stand for some row, and what they are worth."""
    kept = np.flatnonzero(judged.weight)
    lines = influence.Lines(
        {name: column[kept] for name, column in tally.features.items()},
        {name: column[kept] for name, column in tally.outcomes.items()},
        tally.group[kept],
        tally.masses(judged.weight)[kept],
        (_at(judged.decided[0], kept), _at(judged.decided[1], kept)),
        (judged.weight * tally.mass**2)[kept],
        None if tally.cluster is None else np.unique(tally.cluster[kept], return_inverse=True)[1],
    )
    return lines, influence.worth(criteria, lines)


def _at(decided: Decided, kept: IntArray) -> Decided:
    return replace(decided, share=decided.share[kept], edge=decided.edge[kept])


def measure(tally: Tally, criteria: Criteria, judged: Judged) -> tuple[FloatArray, FloatArray]:
    """Accuracy and unfairness of candidate and status quo: (components, 2) and (utilities, 2)."""
    _, worths = _lines(tally, criteria, judged)
    rates = influence.observed_rates(worths)
    accuracy = criteria.accuracy_of(rates, worths.sums)
    unfair = np.array(
        [criteria.unfairness(criteria.gaps(rates, k)).max(axis=-1) for k in range(len(criteria.fairness))]
    )
    return np.column_stack([accuracy[CANDIDATE], accuracy[STATUS_QUO]]), unfair[:, [CANDIDATE, STATUS_QUO]]


def _compared(tally: Tally, plan: Plan, criteria: Criteria, judged: Judged, rng: np.random.Generator) -> Trial:
    lines, worths = _lines(tally, criteria, judged)
    rates = influence.observed_rates(worths)
    search = judged.search
    _refuse_undefined(criteria, rates, ("status quo",), "judged")
    if search.found:
        try:
            _refuse_undefined(criteria, rates, ("status quo", "candidate"), "judged")
        except NotEnoughData as error:
            if plan.rule is None and len(plan.candidates) == 1:
                raise
            search = replace(search, found=False, status=Status.EMPTY, note=str(error))
    worst, identical = judged.worst or (0,) * len(criteria.fairness), _identical(criteria, lines)
    comparison, empty = None, (np.full((n, 3), np.nan) for n in (len(criteria.accuracies), len(criteria.fairness)))
    changes = tuple(empty)
    if not search.found:
        measured = measure(tally, criteria, judged)
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
            known = influence.moments(criteria, lines, worths, judged.worst)
            level, worst = plan.alpha / plan.attempts, known.worst
            compared = influence.compare(criteria, known, worths, identical, level, rng)
            comparison, changes = compared.comparison, (compared.accuracy_change, compared.fairness_change)
        _refuse_excluded(tally, criteria, comparison, judged)
        accuracy = _laid_out(comparison.accuracy, criteria.accuracy_gains, plan.pvalue_form)
        fairness = _laid_out(comparison.fairness, criteria.fairness_gains, plan.pvalue_form)
    return Trial(
        accuracy=accuracy,
        fairness=fairness,
        accuracy_change=changes[0],
        fairness_change=changes[1],
        identical=identical,
        selected=np.array([np.average(d.share, weights=lines.weight) for d in lines.decided[::-1]]),
        cutoffs=np.array([decided.cutoff for decided in judged.decided[::-1]]),
        train_rows=0 if judged.learn is None else int(judged.learn.sum()),
        test_rows=tally.sizes(judged.weight),
        worst=worst,
        own_worst=_most_unequal(criteria, rates, CANDIDATE),
        status=search.status,
        note=search.note,
        details=dict(search.details),
        comparison=comparison,
    )


def _identical(criteria: Criteria, lines: influence.Lines) -> BoolArray:
    """Accuracy components none of whose rows is decided differently by the two algorithms."""
    differs = lines.decided[0].share != lines.decided[1].share
    by_group = np.bincount(lines.group, weights=differs, minlength=len(criteria.labels)) > 0
    return ~by_group if criteria.weights is None else np.array([not differs.any()])


def _laid_out(components: Sequence[Component], gains: Sequence[float], form: PvalueForm) -> FloatArray:
    return np.array(
        [(c.candidate, c.status_quo, float(c.pvalue(gain, form))) for c, gain in zip(components, gains, strict=True)]
    )


def _refuse_small(tally: Tally, weight: Weight, part: str, min_size: int) -> None:
    for group, size in zip(tally.groups, tally.sizes(weight), strict=True):
        if size < min_size:
            raise NotEnoughData(
                f"group {group.label!r} has {size:,} rows in the {part} part; at least {min_size} are needed "
                "(min_size). Merge small groups, leave them out, or change train_fraction.",
                f"groups: one has fewer than {min_size} rows in the {part} part (min_size). Merge small groups, leave "
                "them out, or change train_fraction.",
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


def _refuse_undefined(criteria: Criteria, rates: FloatArray, algorithms: Sequence[str], part: str) -> None:
    for k, which, code in np.argwhere(np.isnan(rates[:, : len(algorithms)])):
        utility = criteria.utilities[k]
        if isinstance(criteria.weights, str) and utility not in criteria.fairness:
            continue  # accuracy over all rows needs no group's own
        raise NotEnoughData(
            f"{utility.name} is undefined for group {criteria.labels[code]!r} under the {algorithms[which]}: none of "
            f"its {part} rows is in the denominator (for outcome_among_selected: nobody is selected). Raise the "
            "capacity, merge groups, or choose a utility whose denominator does not depend on the decision.",
            f"{utility.name} is undefined for a group: raise the capacity, merge groups, or choose a utility whose "
            "denominator does not depend on the decision.",
        )


def _refuse_excluded(tally: Tally, criteria: Criteria, comparison: Comparison, judged: Judged) -> None:
    """What the theory excludes: a status quo with no unfairness at all; ratios of what is not positive.

    A gap that is 0 in a small test part by coincidence, and not on all rows, is no error: the p-value is large.
    """
    if criteria.protected is None and any(unfairness.status_quo == 0 for unfairness in comparison.fairness):
        before = judged.decided[STATUS_QUO]
        _, everywhere = measure(tally, criteria, Judged(tally.weight, (before, before)))
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
