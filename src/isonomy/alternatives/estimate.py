"""Both algorithms on rows that neither was fitted on, and what the comparisons say together.

What is judged is one of four. *whole*: candidates that are ready, on all rows. *crossfit*: every row is decided by
rules fitted without it, five folds, repeated; averaged, a decision is the probability that a mixture of the fitted
rules selects the row. *splits*: rounds of split, select, test. *paper*: the same with the paper's cut-offs, learned
from the training part, and its bootstrap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from isonomy.alternatives.estimate_comparison import (
    Rivals,
    Search,
    Trial,
    selection_on,
    status_quo_rates,
    trial_of,
    worst_pairs,
)
from isonomy.alternatives.plan import Plan
from isonomy.alternatives.rules import cutoffs
from isonomy.alternatives.rules import rounds as together
from isonomy.alternatives.rules.algorithm import Training, applied, find
from isonomy.alternatives.rules.criteria import Criteria
from isonomy.alternatives.rules.cutoffs import Selection, Weight
from isonomy.alternatives.rules.rounds import Curves
from isonomy.alternatives.tally import Tally
from isonomy.alternatives.wording import PROGRESS
from isonomy.errors import IsonomyError, NotEnoughData, RuleFailed
from isonomy.frames import Request
from isonomy.numerics.arrays import FloatArray
from isonomy.numerics.status import Status
from isonomy.results.progress import tracked


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


Trials = tuple[tuple[Trial, ...], tuple[Search, ...]]  # and how the searches behind them went


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
    status_quo = selection_on(tally.status_quo, plan, criteria, tally.masses(weight), "status_quo")
    trials = []
    for name, values in tally.candidates.items():
        what = "candidate" if len(tally.candidates) == 1 else f"candidate {name!r}"
        both = (status_quo, selection_on(values, plan, criteria, tally.masses(weight), what))
        trials.append(trial_of(tally, plan, criteria, Rivals(weight, both), rng.spawn(1)[0]))
    return tuple(trials), ()


# --- cross-fitting


def _crossfit(tally: Tally, plan: Plan, criteria: Criteria, rng: np.random.Generator) -> Trials:
    weight = tally.weight
    _refuse_small(tally, weight, "table", plan.min_size)
    if tally.rows < 2 * plan.folds:
        raise NotEnoughData(f"folds: {tally.rows:,} rows are too few for {plan.folds}.")
    status_quo = selection_on(tally.status_quo, plan, criteria, tally.masses(weight), "status_quo")
    status_quo_rates(tally, criteria, weight, status_quo, "judged")  # undefined: known before anything is fitted
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
    judged = Rivals(weight, (status_quo, candidate), learn=weight, search=whole)
    return (trial_of(tally, plan, criteria, judged, rng.spawn(1)[0]),), tuple(searches)


def _mean(values: Sequence[float]) -> float:
    """Of those that are known."""
    known = [value for value in values if not np.isnan(value)]
    return float(np.mean(known)) if known else np.nan


def _mixture(
    tally: Tally, plan: Plan, criteria: Criteria, parts: Sequence[Weight], fitted: Sequence[tuple[Search, FloatArray]]
) -> Selection:
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
            decision = selection_on(scores, plan, criteria, part[lines], f"rule {plan.rule_name!r}")
            decided, cutoff = decision.share, decision.cutoff
        cuts += [cutoff] if search.found else []
        share[lines] += part[lines] * decided
    middle = float(np.mean(cuts)) if cuts else np.nan
    repeats = len(parts) // plan.folds
    return Selection(share / (repeats * tally.weight), edge / (edge.sum() or 1.0), capacity or 0.0, middle)


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
    before = selection_on(tally.status_quo, plan, criteria, tally.masses(learn), "status_quo")
    worst = worst_pairs(tally, criteria, learn, before)
    search, what = Search(), "candidate"
    if plan.rule is None:
        (values,) = tally.candidates.values()
    else:
        search, values = _everywhere(tally, plan, criteria, learn, before.share, rng)
        what = f"rule {plan.rule_name!r}"
    where = tally.masses(learn if plan.evidence == "paper" else test)
    status_quo = selection_on(tally.status_quo, plan, criteria, where, "status_quo")
    ruled = plan.rule is not None
    candidate = selection_on(values, plan, criteria, where, what, scores=ruled) if search.found else status_quo
    return trial_of(tally, plan, criteria, Rivals(test, (status_quo, candidate), worst, train, search), rng)


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


def _refuse_small(tally: Tally, weight: Weight, part: str, min_size: int) -> None:
    for group, size in zip(tally.groups, tally.sizes(weight), strict=True):
        if size < min_size:
            raise NotEnoughData(
                f"group {group.label!r} has {size:,} rows in the {part} part; at least {min_size} are needed "
                "(min_size). Merge small groups, leave them out, or change train_fraction.",
                f"groups: one has fewer than {min_size} rows in the {part} part (min_size). Merge small groups, leave "
                "them out, or change train_fraction.",
            )
