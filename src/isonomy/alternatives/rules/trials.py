"""Trials: both algorithms on rows that neither was fitted on.

There are three kinds. *Ready candidates* are tested on all rows, one trial each. With *cross-fitting* every row is
decided by rules fitted without it; averaged over folds and repeats, a decision is the probability that a mixture of the
fitted rules selects the row, and one trial tests that mixture. With *splits* each trial is a round: split, fit on one
part, test on the other. The bootstrap learns its cut-offs from the training part, as the paper does; otherwise both
algorithms select exactly the capacity among the rows they are judged on.

A trial is a dictionary. Its ``columns`` have a line for each accuracy, for the unfairness in each utility, and for all
of them together, which has the largest p-value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from isonomy.alternatives.options import Crossfit, Method, Splits
from isonomy.alternatives.rules import algorithm as rules
from isonomy.alternatives.rules import comparison
from isonomy.alternatives.rules.influence import Judged, moments, regularity
from isonomy.alternatives.rules.utilities import CANDIDATE, STATUS_QUO, Criteria, rates_of
from isonomy.errors import DataError, IsonomyError, NotEnoughData, RuleFailed
from isonomy.frames import Group
from isonomy.inference.designs import FEWEST
from isonomy.numerics.arrays import FloatArray, IntArray
from isonomy.numerics.status import Status

LIMITS = ("disparity", "ci_low", "ci_high")
# Why no law holds for a gain.
LAWLESS = {
    Status.SKEWED: "the outcome is too skewed for the number of rows that an algorithm selects in a group; about 30 "
    "times its squared skewness are needed",
    Status.FEW_EVENTS: f"fewer than {comparison.FEWEST_CHANGES} decisions change in effect, too few for the test",
}
FEWEST_ROWS = 10  # in a denominator: with fewer, means of skewed outcomes reject too often (0.12 at 0.05)

Trial = dict[str, Any]
Run = Callable[[Callable[..., Any], Sequence[tuple[Any, ...]]], list[Any]]  # a step, and the arguments of each call
Track = Callable[[Iterable[Any], int], Iterable[Any]]  # reports the progress of so many results
Selections = tuple[rules.Selection, rules.Selection]  # of the status quo and of the candidate


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Cases:
    """Distinct lines of the table in canonical order, and what is compared on them. It can be sent to a process.

    ``weight`` is the number of rows a line stands for; ``mass`` is what each of these rows weighs, scaled so that the
    weights of all rows sum to their number. ``outcomes`` has the outcome of the call under None, and the columns that
    utilities name.
    """

    groups: tuple[Group, ...]
    people: rules.People
    outcomes: Mapping[str | None, FloatArray]
    status_quo: FloatArray
    candidates: Mapping[str, FloatArray]
    weight: rules.Weight
    mass: FloatArray
    cluster: IntArray | None
    criteria: Criteria
    rule: rules.SelectionRule | None  # None: the candidates are columns
    rule_name: str
    method: Method
    alpha: float  # of the simultaneous limits, shared among all attempts
    min_size: int

    @property
    def rows(self) -> int:
        return int(self.weight.sum())

    @property
    def several(self) -> bool:
        """Whether there are several candidates: one that cannot be judged does not end the test."""
        return len(self.candidates) > 1

    @property
    def bootstrap(self) -> Splits | None:
        return self.method if isinstance(self.method, Splits) and self.method.resamples else None

    @property
    def training_share(self) -> float:
        """The share of rows that train in a round; 0 if nothing is learned from them, so that every row is tested.

        That is so for one test of a ready candidate with no cut-off to learn and no pair of groups to choose.
        """
        if not isinstance(self.method, Splits):
            return 0.0
        learned = self.rule is not None or self.criteria.capacity is not None or len(self.criteria.pairs) > 1
        return self.method.train_fraction if learned or self.method.rounds > 1 else 0.0

    def masses(self, weight: rules.Weight) -> rules.Mass:
        return weight if np.ptp(self.mass) == 0 else weight * self.mass

    def sizes(self, weight: rules.Weight) -> IntArray:
        labels = self.people.labels
        return np.bincount(self.people.group, weights=weight, minlength=len(labels)).astype(np.int64)

    def select(self, values: FloatArray, weight: rules.Mass, what: str, *, scores: bool = False) -> rules.Selection:
        """Decisions by a cut-off learned on the rows of ``weight``: the paper's quantile, or exactly the capacity."""
        return rules.select(values, weight, self.criteria, what, scores=scores, learn=self.bootstrap is not None)

    def judged(self, weight: rules.Weight, selections: Selections) -> Judged:
        used = np.flatnonzero(weight)
        status_quo, candidate = (replace(part, share=part.share[used], edge=part.edge[used]) for part in selections)
        people = self.people.take(used)
        return Judged(
            self.criteria,
            people.features,
            {name: column[used] for name, column in self.outcomes.items()},
            people.group,
            self.masses(weight)[used],
            (status_quo, candidate),
            (weight * self.mass**2)[used],
            None if self.cluster is None else np.unique(self.cluster[used], return_inverse=True)[1],
        )

    def measure(self, selections: Selections) -> FloatArray:
        """Accuracies and unfairness of the candidate and the status quo on all rows: (both kinds of criteria, 2)."""
        sums = self.judged(self.weight, selections).sums
        return np.concatenate(self.criteria.measured(sums))[:, [CANDIDATE, STATUS_QUO]]

    def fit_rule(self, learn: rules.Weight, status_quo: FloatArray, rng: np.random.Generator) -> rules.Algorithm:
        assert self.rule is not None
        rows = np.repeat(np.arange(len(learn)), learn)
        outcomes = {name: values[rows] for name, values in self.outcomes.items()}
        weight = None if np.ptp(self.mass) == 0 else self.mass[rows]
        training = rules.Training(self.people.take(rows), outcomes, status_quo[rows], self.criteria, rng, weight)
        return rules.find(self.rule, self.rule_name, training)


@dataclass(frozen=True, slots=True, eq=False)
class SearchReport:
    """How the search for a candidate went; ``groups`` are those that the note names."""

    succeeded: bool = True
    status: Status = Status.OK
    note: str = ""
    details: Mapping[str, float] = field(default_factory=dict)
    groups: tuple[str, ...] = ()


def run_tasks(n_jobs: int, track: Track, step: Callable[..., Any], tasks: Sequence[tuple[Any, ...]]) -> list[Any]:
    """The step for all tasks, in one process or several; their number changes no result."""
    # One thread: sums over several threads differ in the last digit, and serial must equal parallel.
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    if n_jobs == 1:
        results: Iterable[Any] = (step(*task) for task in tasks)
    else:
        from joblib import Parallel, delayed, parallel_config  # type: ignore[import-untyped]

        with parallel_config(backend="loky", inner_max_num_threads=1):
            results = Parallel(n_jobs=n_jobs, return_as="generator")(delayed(step)(*task) for task in tasks)
    with threadpool_limits(limits=1):
        return list(track(results, len(tasks)))


def run_trials(cases: Cases, rng: np.random.Generator, track: Track) -> tuple[list[Trial], list[SearchReport]]:
    capacity, method = cases.criteria.capacity, cases.method
    run = partial(run_tasks, getattr(method, "n_jobs", 1), track)
    if capacity is not None and capacity * cases.rows < 1:
        raise NotEnoughData(f"capacity: {capacity:g} of {cases.rows:,} rows selects nobody; give a larger share.")
    if isinstance(method, Splits):
        tasks = [(cases, number, child) for number, child in enumerate(rng.spawn(method.rounds), start=1)]
        trials: list[Trial] = run(play_round, tasks)
        if all(trial["report"].status is Status.FAILED for trial in trials):
            raise RuleFailed(f"round 1: {trials[0]['report'].note}")
        # A round that found nothing has a note of its own.
        return trials, [trial["report"] for trial in trials if trial["requirements"] is not None]
    _refuse_small(cases, cases.weight, "table")
    if isinstance(method, Crossfit):
        trial, reports = crossfit(cases, method, rng, run)
        return [trial], reports
    masses = cases.masses(cases.weight)
    status_quo = cases.select(cases.status_quo, masses, "status_quo")
    trials = []
    for name, values in cases.candidates.items():
        candidate = cases.select(values, masses, f"candidate {name!r}" if cases.several else "candidate")
        trials.append(judge(cases, cases.weight, (status_quo, candidate), rng.spawn(1)[0]))
    return trials, []


# ---- one trial


def judge(
    cases: Cases,
    weight: rules.Weight,
    selections: Selections,
    rng: np.random.Generator,
    *,
    worst: tuple[int, ...] | None = None,
    train_rows: int = 0,
    report: SearchReport = SearchReport(),  # noqa: B008
) -> Trial:
    """Compare both algorithms on the rows of ``weight``.

    ``worst`` are the status quo's most unequal pairs, if they were chosen on other rows. A candidate that is undefined
    on these rows has found nothing, unless it is the only one.
    """
    criteria, lines = cases.criteria, cases.judged(weight, selections)
    rates = rates_of(lines.sums)
    report = _judgeable(cases, lines, rates, report)
    differs = lines.selections[0].share != lines.selections[1].share
    identical = np.bincount(lines.group, weights=differs, minlength=len(criteria.labels)) == 0
    if criteria.weights is not None:
        identical = identical.all(keepdims=True)
    requirements: comparison.Requirements | None = None
    facts = {"candidate_distance": np.nan, "correlation": np.nan, "eigenvalue": np.nan, "least_share": np.nan}
    values = np.concatenate(criteria.measured(lines.sums))
    candidate, status_quo = np.full(len(values), np.nan), values[:, STATUS_QUO]
    limits, pvalue = np.full((len(values), 3), np.nan), np.ones(len(values))
    chosen = worst or (0,) * len(criteria.fairness)
    if report.succeeded:
        if cases.bootstrap:
            count, resamples = np.rint(lines.weight).astype(np.int64), cases.bootstrap.resamples or 0
            draws = comparison.resample(lines.values, lines.group, count, len(criteria.labels), resamples, rng)
            requirements = comparison.compare_resamples(
                criteria, lines.sums, draws, chosen, published=cases.bootstrap.published
            )
            known = moments(lines, chosen)
        else:
            _refuse_few_clusters(lines)
            known = moments(lines, worst)
            chosen = known.worst
            requirements, limits = comparison.assess(lines, known, identical, cases.alpha, rng)
        if not (cases.bootstrap and cases.bootstrap.published):
            reason = comparison.lawless(lines, known, identical, cases.alpha)
            if reason is not Status.OK:
                report = replace(report, succeeded=False, status=reason, note=LAWLESS[reason])
        facts = regularity(lines, known)
        _refuse_excluded(cases, requirements, selections[STATUS_QUO])
        parts = (*requirements.accuracy, *requirements.fairness)
        candidate, status_quo = (np.array([getattr(p, name) for p in parts]) for name in ("candidate", "status_quo"))
        pvalue = requirements.pvalues(criteria) if report.succeeded else pvalue
        if not report.succeeded:
            requirements, limits = None, np.full_like(limits, np.nan)
    selected = [
        np.nan if criteria.priced else np.average(part.share, weights=lines.weight) for part in lines.selections
    ]
    rows, theirs = cases.sizes(weight), _most_unequal(criteria, rates, CANDIDATE)
    columns = {
        "estimate": np.append(candidate, np.nan),
        "reference": np.append(status_quo, np.nan),
        **{name: np.append(part, np.nan) for name, part in zip(LIMITS, limits.T, strict=True)},
        "pvalues": np.append(pvalue, pvalue.max()),
        "status": (report.status,) * (len(values) + 1),
        "selected": np.full(len(values) + 1, selected[CANDIDATE]),
        "selected_status_quo": np.full(len(values) + 1, selected[STATUS_QUO]),
    }
    return {
        "columns": columns | _keys(cases, rows, chosen, theirs),
        "identical": identical,
        "cutoffs": np.array([part.cutoff for part in selections[::-1]]),
        "train_rows": train_rows,
        "test_rows": rows,
        "report": report,
        "requirements": requirements,
        **facts,
    }


def _keys(cases: Cases, rows: IntArray, chosen: Sequence[int], theirs: Sequence[int]) -> dict[str, Any]:
    """What each line is about. ``chosen``, ``theirs``: the most unequal pairs of the status quo and the candidate."""
    criteria, groups, pairs = cases.criteria, cases.groups, [cases.criteria.pairs[q] for q in chosen]
    accuracies, blank = len(criteria.accuracies), ("",) * len(criteria.accuracies)
    apart = criteria.weights is None  # each group has an accuracy
    unequal = [[groups[code] for code in criteria.pairs[q]] for q in theirs]
    return {
        "criteria": (*("accuracy",) * accuracies, *("unfairness",) * len(pairs), "all"),
        "groups": (
            *(groups if apart else [Group((), name) for name in criteria.accuracies]),
            *(groups[a] for a, _ in pairs),
            Group((), "all rows"),
        ),
        "against": (*blank, *(groups[b].label for _, b in pairs), ""),
        "metric": (*(criteria.accuracy.name,) * accuracies, *(utility.name for utility in criteria.fairness), ""),
        "n": np.array([*(rows if apart else [rows.sum()]), *(rows[[a, b]].sum() for a, b in pairs), rows.sum()], float),
        "candidate_pair": (*blank, *(f"{first} against {second}" for first, second in unequal), ""),
    }


def _judgeable(cases: Cases, lines: Judged, rates: FloatArray, report: SearchReport) -> SearchReport:
    _refuse_undefined(lines, rates[:, :1], "judged")
    if not report.succeeded:
        return report
    try:
        _refuse_undefined(lines, rates, "judged")
    except NotEnoughData as error:
        if cases.rule is None and not cases.several:
            raise
        undefined = np.flatnonzero(np.isnan(rates[:, CANDIDATE]).any(axis=0))
        named = tuple(cases.criteria.labels[code] for code in undefined)
        return replace(report, succeeded=False, status=Status.EMPTY, note=str(error), groups=named)
    few = lines.denominators.min() < FEWEST_ROWS * (1 - 1e-9)  # sums of shares are rounded
    if cases.bootstrap or not few:
        return report
    note = f"a denominator has fewer than {FEWEST_ROWS} rows, too few for the test"
    return replace(report, succeeded=False, status=Status.EMPTY, note=note)


def _most_unequal(criteria: Criteria, rates: FloatArray, which: int) -> tuple[int, ...]:
    unfair = criteria.unfairness(criteria.gaps(rates)[:, which])
    return tuple(np.argmax(np.nan_to_num(unfair), axis=1).tolist())


def _status_quo_rates(cases: Cases, weight: rules.Weight, before: rules.Selection, part: str) -> FloatArray:
    """The status quo's utilities on the rows of ``weight``; an error if one is undefined."""
    lines = cases.judged(weight, (before, before))
    rates = rates_of(lines.sums)
    _refuse_undefined(lines, rates[:, :1], part)
    return rates


def _report(algorithm: rules.Algorithm, cases: Cases, values: FloatArray) -> SearchReport:
    """How the search went; a score that is the same for everybody cannot be cut at a capacity."""
    report = SearchReport(algorithm.decide is not None, algorithm.status, algorithm.note, algorithm.details)
    cut = report.succeeded and cases.criteria.capacity and not cases.criteria.priced
    if not cut or len(values) < 2 or np.ptp(values) > 0:
        return report
    note = f"rule {cases.rule_name!r} gives everybody the same score, so a capacity cannot choose among them"
    return replace(report, succeeded=False, status=Status.CONSTANT, note=note)


# ---- cross-fitting


def crossfit(cases: Cases, method: Crossfit, rng: np.random.Generator, run: Run) -> tuple[Trial, list[SearchReport]]:
    weight = cases.weight
    if cases.rows < 2 * method.folds:
        raise NotEnoughData(f"folds: {cases.rows:,} rows are too few for {method.folds}.")
    status_quo = cases.select(cases.status_quo, cases.masses(weight), "status_quo")
    _status_quo_rates(cases, weight, status_quo, "judged")  # refuses before anything is fitted
    repeats = 1 if cases.criteria.priced else method.repeats  # a mean of prices is not a mixture of them
    drawn = [rules.fold(weight, method.folds, child, cases.cluster) for child in rng.spawn(repeats)]
    parts = list(np.concatenate(drawn))
    tasks = [(cases, part, status_quo.share, child) for part, child in zip(parts, rng.spawn(len(parts)), strict=True)]
    fitted: list[tuple[SearchReport, FloatArray]] = run(fit_fold, tasks)
    reports = [report for report, _ in fitted]
    lost = [report for report in reports if not report.succeeded]
    if all(report.status is Status.FAILED for report in reports):
        raise RuleFailed(f"fold 1: {lost[0].note}")
    details = {}
    for name in sorted({name for report in reports for name in report.details}):
        values = np.array([report.details.get(name, 0.0) for report in reports])
        details[name] = float(np.mean(values[~np.isnan(values)])) if (~np.isnan(values)).any() else np.nan
    status = next((report.status for report in (*lost, *reports) if report.status is not Status.OK), Status.OK)
    whole = SearchReport(len(lost) < len(parts), status, lost[0].note if lost else "", details)
    both = (status_quo, _mixture(cases, parts, fitted, repeats))
    return judge(cases, weight, both, rng.spawn(1)[0], train_rows=cases.rows, report=whole), reports


def fit_fold(
    cases: Cases, fold: rules.Weight, status_quo: FloatArray, rng: np.random.Generator
) -> tuple[SearchReport, FloatArray]:
    algorithm = cases.fit_rule(cases.weight - fold, status_quo, rng)
    algorithm, values = rules.applied(algorithm, cases.rule_name, cases.people.take(np.flatnonzero(fold)))
    return _report(algorithm, cases, values), values


def _mixture(
    cases: Cases, parts: Sequence[rules.Weight], fitted: Sequence[tuple[SearchReport, FloatArray]], repeats: int
) -> rules.Selection:
    """The share of the fitted rules that select each row: each fold selects the capacity among its own rows.

    A fold in which the rule failed keeps the status quo: no improvement.
    """
    share, edge, cuts = np.zeros(len(cases.weight)), np.zeros(len(cases.weight)), []
    criteria, capacity = cases.criteria, cases.criteria.capacity
    keeps_scores = not criteria.priced and rules.are_scores(cases.status_quo, criteria, "status_quo")
    for part, (report, values) in zip(parts, fitted, strict=True):
        lines = np.flatnonzero(part)
        scores, scored = (values, not criteria.priced) if report.succeeded else (cases.status_quo[lines], keeps_scores)
        if capacity is not None and scored:
            mass = part[lines] * cases.mass[lines]
            decided, close, cutoff = rules.at_capacity(scores, mass, capacity, cases.rows)
            edge[lines] += close
        else:
            decision = cases.select(scores, part[lines], f"rule {cases.rule_name!r}")
            decided, cutoff = decision.share, decision.cutoff
        cuts += [cutoff] if report.succeeded else []
        share[lines] += part[lines] * decided
    middle = float(np.mean(cuts)) if cuts else np.nan
    return rules.Selection(share / (repeats * cases.weight), edge / (edge.sum() or 1.0), capacity or 0.0, middle)


# ---- rounds


def play_round(cases: Cases, number: int, rng: np.random.Generator) -> Trial:
    """Split, let the rule find a candidate on the training part, test it on the other. Errors name the round."""
    try:
        return _round(cases, rng)
    except IsonomyError as error:
        error.args = (f"round {number}: {error}",)
        raise


def _round(cases: Cases, rng: np.random.Generator) -> Trial:
    criteria, share, ruled = cases.criteria, cases.training_share, cases.rule is not None
    train, test = rules.split(cases.weight, share, rng, cases.cluster)
    for part, weight in (("training", train), ("test", test)) if share else (("test", test),):
        _refuse_small(cases, weight, part)
    learn = train if share else test
    before = cases.select(cases.status_quo, cases.masses(learn), "status_quo")
    worst = (0,) * len(criteria.fairness)
    if len(criteria.pairs) > 1:
        worst = _most_unequal(criteria, _status_quo_rates(cases, learn, before, "training"), STATUS_QUO)
    report = SearchReport()
    if ruled:
        algorithm = cases.fit_rule(learn, before.share, rng)
        values = np.full(len(learn), np.nan)
        # The algorithm sees the two parts separately: one that ranks people must not rank test rows with training rows.
        for index in (np.flatnonzero(learn), np.flatnonzero(learn == 0)):
            if len(index):
                algorithm, values[index] = rules.applied(algorithm, cases.rule_name, cases.people.take(index))
        report = _report(algorithm, cases, values)
    else:
        (values,) = cases.candidates.values()
    where = cases.masses(learn if cases.bootstrap else test)
    candidate = status_quo = cases.select(cases.status_quo, where, "status_quo")
    if report.succeeded:
        what = f"rule {cases.rule_name!r}" if ruled else "candidate"
        candidate = cases.select(values, where, what, scores=ruled)
    rows = int(train.sum())
    return judge(cases, test, (status_quo, candidate), rng, worst=worst, train_rows=rows, report=report)


# ---- what is refused


def _refuse_small(cases: Cases, weight: rules.Weight, part: str) -> None:
    min_size = cases.min_size
    for label, size in zip(cases.people.labels, cases.sizes(weight), strict=True):
        if size < min_size:
            raise NotEnoughData(
                f"groups: {label!r} has {size:,} rows in the {part} part; at least {min_size} (min_size) are needed. "
                "Merge small groups, or leave them out.",
                f"groups: one has fewer than {min_size} rows in the {part} part (min_size). Merge small groups, or "
                "leave them out.",
            )


def _refuse_few_clusters(lines: Judged) -> None:
    for label, effective in zip(lines.criteria.labels, lines.effective_clusters, strict=True):
        if effective < FEWEST:
            raise NotEnoughData(
                f"cluster: group {label!r} has {effective:.1f} effective clusters; at least {FEWEST:g} are needed to "
                "measure the error between them.",
                f"cluster: a group has fewer than {FEWEST:g} effective clusters, too few to measure the error between "
                "them.",
            )


def _refuse_undefined(lines: Judged, rates: FloatArray, part: str) -> None:
    """Raise if a utility is undefined under the status quo, or the candidate if ``rates`` has it."""
    criteria = lines.criteria
    for k, which, code in np.argwhere(np.isnan(rates)):
        utility = criteria.utilities[k]
        if isinstance(criteria.weights, str) and utility not in criteria.fairness:
            continue  # accuracy over all rows needs no group's own
        decisive = bool(lines.slopes[:, k, 1].any())  # who counts depends on the decision
        counts = "has a decision that counts in it" if decisive else "has an outcome that counts in it"
        remedy = (
            f"{'raise the capacity, ' if decisive else ''}merge groups, or choose a utility with another denominator."
        )
        raise NotEnoughData(
            f"{utility.name} is undefined for group {criteria.labels[code]!r} under the "
            f"{('status quo', 'candidate')[which]}: none of its {part} rows {counts}; {remedy}",
            f"{utility.name} is undefined for a group: {remedy}",
        )


def _refuse_excluded(cases: Cases, requirements: comparison.Requirements, before: rules.Selection) -> None:
    """Raise for what the theory excludes: a status quo without any unfairness, and ratios of what is not positive.

    A gap that happens to be 0 in a small test part, and not on all rows, is no error: the p-value is large.
    """
    criteria = cases.criteria
    if criteria.protected is None and any(part.status_quo == 0 for part in requirements.fairness):
        everywhere = cases.measure((before, before))[len(criteria.accuracies) :]
        for utility, (_, value) in zip(criteria.fairness, everywhere, strict=True):
            if value == 0:
                raise DataError(
                    f"the status quo's unfairness in {utility.name} is exactly 0, so there is no disparity to reduce. "
                    "The theory (assumption 1) excludes that."
                )
    for name, part in zip(criteria.accuracies, requirements.accuracy, strict=True):
        if criteria.scale == "ratio" and part.status_quo <= 0:
            raise DataError(
                f"the status quo's {criteria.accuracy.name} for {name} is {part.status_quo:g}; gains as ratios "
                'need it above 0. Ask for differences: gain(scale="difference").'
            )
