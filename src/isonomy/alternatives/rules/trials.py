"""Trials: both algorithms on rows that neither was fitted on.

There are three kinds. *Ready candidates* are tested on all rows, one trial each. With *cross-fitting* every row is
decided by rules fitted without it; averaged over folds and repeats, a decision is the probability that a mixture of the
fitted rules selects the row, and one trial tests that mixture. With *splits* each trial is a round: split, fit on one
part, test on the other. The bootstrap learns its cut-offs from the training part, as the paper does; otherwise both
algorithms select exactly the capacity among the rows they are judged on.

A trial is a dictionary of arrays. The accuracies come first and the fairness utilities follow in ``candidate``,
``status_quo``, ``pvalue`` and ``limits`` (the gain with its simultaneous limits).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from isonomy.alternatives.options import Crossfit, Method, Splits
from isonomy.alternatives.rules import cutoffs
from isonomy.alternatives.rules.algorithm import Algorithm, People, SelectionRule, Training, applied, find
from isonomy.alternatives.rules.comparison import Requirements, assess, compare_resamples, resample
from isonomy.alternatives.rules.cutoffs import Mass, Selection, Weight
from isonomy.alternatives.rules.influence import Judged, moments
from isonomy.alternatives.rules.utilities import CANDIDATE, STATUS_QUO, Criteria, rates_of
from isonomy.errors import DataError, IsonomyError, NotEnoughData, RuleFailed
from isonomy.inference.designs import FEWEST
from isonomy.numerics.arrays import FloatArray, IntArray
from isonomy.numerics.status import Status

FEWEST_ROWS = 10  # in a denominator: with fewer, means of skewed outcomes reject too often (0.12 at 0.05)

Trial = dict[str, Any]
Run = Callable[[Callable[..., Any], Sequence[tuple[Any, ...]]], list[Any]]  # a step, and the arguments of each call
Selections = tuple[Selection, Selection]  # of the status quo and of the candidate


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Cases:
    """Distinct lines of the table in canonical order.

    ``weight`` is the number of rows a line stands for; ``mass`` is what each of these rows weighs, scaled so that the
    weights of all rows sum to their number. ``outcomes`` has the outcome of the call under None, and the columns that
    utilities name.
    """

    people: People
    outcomes: Mapping[str | None, FloatArray]
    status_quo: FloatArray
    candidates: Mapping[str, FloatArray]
    weight: Weight
    mass: FloatArray
    cluster: IntArray | None = None

    @property
    def rows(self) -> int:
        """The number of rows, with the ``count`` column taken into account."""
        return int(self.weight.sum())

    def masses(self, weight: Weight) -> Mass:
        """What these rows of each line weigh."""
        return weight if np.ptp(self.mass) == 0 else weight * self.mass

    def sizes(self, weight: Weight) -> IntArray:
        """How many rows of each group ``weight`` counts."""
        labels = self.people.labels
        return np.bincount(self.people.group, weights=weight, minlength=len(labels)).astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Terms:
    """What a trial needs to know about the call. It can be sent to another process."""

    criteria: Criteria
    rule: SelectionRule | None  # None: the candidates are columns
    rule_name: str
    method: Method
    alpha: float  # of the simultaneous limits, shared among all attempts
    min_size: int
    several: bool  # candidates: one that cannot be judged does not end the test

    @property
    def bootstrap(self) -> Splits | None:
        """The method, if it resamples."""
        return self.method if isinstance(self.method, Splits) and self.method.resamples else None


@dataclass(frozen=True, slots=True, eq=False)
class SearchReport:
    """How the search for a candidate went; ``groups`` are those that the note names."""

    succeeded: bool = True
    status: Status = Status.OK
    note: str = ""
    details: Mapping[str, float] = field(default_factory=dict)
    groups: tuple[str, ...] = ()


def run_trials(
    cases: Cases, terms: Terms, rng: np.random.Generator, run: Run
) -> tuple[list[Trial], list[SearchReport]]:
    """The trials, and how each search behind them went."""
    capacity = terms.criteria.capacity
    if capacity is not None and capacity * cases.rows < 1:
        raise NotEnoughData(f"capacity: {capacity:g} of {cases.rows:,} rows selects nobody; give a larger share.")
    if isinstance(terms.method, Crossfit):
        trial, reports = crossfit(cases, terms, terms.method, rng, run)
        return [trial], reports
    if isinstance(terms.method, Splits):
        trials = rounds(cases, terms, terms.method, rng, run)
        # A round that found nothing has a note of its own.
        return trials, [trial["report"] for trial in trials if trial["requirements"] is not None]
    return ready(cases, terms, rng), []


# ---- one trial


def select(values: FloatArray, terms: Terms, weight: Mass, what: str, *, scores: bool = False) -> Selection:
    """Decisions by a cut-off learned on the rows of ``weight``: the paper's quantile, or exactly the capacity."""
    return cutoffs.select(values, weight, terms.criteria, what, scores=scores, learn=terms.bootstrap is not None)


def measure(cases: Cases, criteria: Criteria, selections: Selections, weight: Weight | None = None) -> FloatArray:
    """Accuracies and unfairness of the candidate and the status quo: (accuracies and fairness utilities, 2)."""
    sums = judged_lines(cases, criteria, cases.weight if weight is None else weight, selections).sums
    return np.concatenate(criteria.measured(sums))[:, [CANDIDATE, STATUS_QUO]]


def judged_lines(cases: Cases, criteria: Criteria, weight: Weight, selections: Selections) -> Judged:
    """The lines that stand for some row of ``weight``."""
    used = np.flatnonzero(weight)
    status_quo, candidate = (replace(part, share=part.share[used], edge=part.edge[used]) for part in selections)
    return Judged(
        criteria,
        {name: column[used] for name, column in cases.people.features.items()},
        {name: column[used] for name, column in cases.outcomes.items()},
        cases.people.group[used],
        cases.masses(weight)[used],
        (status_quo, candidate),
        (weight * cases.mass**2)[used],
        None if cases.cluster is None else np.unique(cases.cluster[used], return_inverse=True)[1],
    )


def judge(
    cases: Cases,
    terms: Terms,
    weight: Weight,
    selections: Selections,
    rng: np.random.Generator,
    *,
    worst: tuple[int, ...] | None = None,
    train_rows: int = 0,
    report: SearchReport | None = None,
) -> Trial:
    """Compare both algorithms on the rows of ``weight``.

    ``worst`` are the status quo's most unequal pairs, if they were chosen on other rows. A candidate that is undefined
    on these rows has found nothing, unless it is the only one.
    """
    criteria, bootstrap = terms.criteria, terms.bootstrap
    report = report or SearchReport()
    lines = judged_lines(cases, criteria, weight, selections)
    rates = rates_of(lines.sums)
    _refuse_undefined(lines, rates[:, :1], "judged")
    if report.succeeded:
        try:
            _refuse_undefined(lines, rates, "judged")
        except NotEnoughData as error:
            if terms.rule is None and not terms.several:
                raise
            undefined = np.flatnonzero(np.isnan(rates[:, CANDIDATE]).any(axis=0))
            named = tuple(criteria.labels[code] for code in undefined)
            report = replace(report, succeeded=False, status=Status.EMPTY, note=str(error), groups=named)
    few = lines.denominators.min() < FEWEST_ROWS * (1 - 1e-9)  # sums of shares are rounded
    if report.succeeded and not bootstrap and few:
        note = f"a denominator has fewer than {FEWEST_ROWS} rows, too few for the test"
        report = replace(report, succeeded=False, status=Status.EMPTY, note=note)
    differs = lines.selections[0].share != lines.selections[1].share
    identical = np.bincount(lines.group, weights=differs, minlength=len(criteria.labels)) == 0
    if criteria.weights is not None:
        identical = identical.all(keepdims=True)
    requirements: Requirements | None = None
    size = len(criteria.accuracies) + len(criteria.fairness)
    limits, pvalue, pairs = np.full((size, 3), np.nan), np.ones(size), worst or (0,) * len(criteria.fairness)
    if not report.succeeded:
        candidate, status_quo = np.full(size, np.nan), measure(cases, criteria, selections, weight)[:, 1]
    else:
        if bootstrap:
            count = np.rint(lines.weight).astype(np.int64)
            n_groups, resamples = len(criteria.labels), bootstrap.resamples or 0
            draws = resample(lines.values, lines.group, count, n_groups, resamples, rng)
            requirements = compare_resamples(criteria, lines.sums, draws, pairs, published=bootstrap.published)
        else:
            _refuse_few_clusters(lines)
            known = moments(lines, worst)
            pairs = known.worst
            requirements, limits = assess(lines, known, identical, terms.alpha, rng)
        _refuse_excluded(cases, criteria, requirements, selections[STATUS_QUO])
        parts = (*requirements.accuracy, *requirements.fairness)
        gains = (*criteria.accuracy_gains, *criteria.fairness_gains)
        candidate, status_quo = (np.array([getattr(p, name) for p in parts]) for name in ("candidate", "status_quo"))
        pvalue = np.array([float(part.pvalue(gain)) for part, gain in zip(parts, gains, strict=True)])
    selected = [
        np.nan if criteria.priced else np.average(part.share, weights=lines.weight) for part in lines.selections
    ]
    return {
        "candidate": candidate,
        "status_quo": status_quo,
        "pvalue": pvalue,
        "limits": limits,
        "identical": identical,
        "selected": np.array(selected[::-1]),
        "cutoffs": np.array([part.cutoff for part in selections[::-1]]),
        "train_rows": train_rows,
        "test_rows": cases.sizes(weight),
        "pairs": pairs,
        "candidate_pairs": _most_unequal(criteria, rates, CANDIDATE),
        "report": report,
        "requirements": requirements,
    }


def _most_unequal(criteria: Criteria, rates: FloatArray, which: int) -> tuple[int, ...]:
    """The pair with the largest gap under one algorithm, for each fairness utility."""
    unfair = criteria.unfairness(criteria.gaps(rates)[:, which])
    return tuple(np.argmax(np.nan_to_num(unfair), axis=1).tolist())


def _status_quo_rates(cases: Cases, criteria: Criteria, weight: Weight, before: Selection, part: str) -> FloatArray:
    """The status quo's utilities on the rows of ``weight``; an error if one is undefined."""
    lines = judged_lines(cases, criteria, weight, (before, before))
    rates = rates_of(lines.sums)
    _refuse_undefined(lines, rates[:, :1], part)
    return rates


# ---- ready candidates


def ready(cases: Cases, terms: Terms, rng: np.random.Generator) -> list[Trial]:
    """Each candidate on all rows."""
    _refuse_small(cases, cases.weight, "table", terms.min_size)
    masses = cases.masses(cases.weight)
    status_quo = select(cases.status_quo, terms, masses, "status_quo")
    trials = []
    for name, values in cases.candidates.items():
        what = f"candidate {name!r}" if terms.several else "candidate"
        both = (status_quo, select(values, terms, masses, what))
        trials.append(judge(cases, terms, cases.weight, both, rng.spawn(1)[0]))
    return trials


# ---- cross-fitting


def crossfit(
    cases: Cases, terms: Terms, method: Crossfit, rng: np.random.Generator, run: Run
) -> tuple[Trial, list[SearchReport]]:
    """The trial of all folds together, and how the search went in each fold."""
    criteria, weight = terms.criteria, cases.weight
    _refuse_small(cases, weight, "table", terms.min_size)
    if cases.rows < 2 * method.folds:
        raise NotEnoughData(f"folds: {cases.rows:,} rows are too few for {method.folds}.")
    status_quo = select(cases.status_quo, terms, cases.masses(weight), "status_quo")
    _status_quo_rates(cases, criteria, weight, status_quo, "judged")  # refuses before anything is fitted
    repeats = 1 if criteria.priced else method.repeats  # a mean of prices is not a mixture of them
    drawn = [cutoffs.fold(weight, method.folds, child, cases.cluster) for child in rng.spawn(repeats)]
    parts = list(np.concatenate(drawn))
    generators = rng.spawn(len(parts))
    tasks = [(cases, terms, part, status_quo.share, child) for part, child in zip(parts, generators, strict=True)]
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
    both = (status_quo, _mixture(cases, terms, parts, fitted, repeats))
    trial = judge(cases, terms, weight, both, rng.spawn(1)[0], train_rows=cases.rows, report=whole)
    return trial, reports


def fit_fold(
    cases: Cases, terms: Terms, fold: Weight, status_quo: FloatArray, rng: np.random.Generator
) -> tuple[SearchReport, FloatArray]:
    """Fit the rule without the rows of ``fold``, and apply it to their lines."""
    algorithm = fit_rule(cases, terms, cases.weight - fold, status_quo, rng)
    algorithm, values = applied(algorithm, terms.rule_name, cases.people.take(np.flatnonzero(fold)))
    return _report(algorithm, terms, values), values


def _mixture(
    cases: Cases,
    terms: Terms,
    parts: Sequence[Weight],
    fitted: Sequence[tuple[SearchReport, FloatArray]],
    repeats: int,
) -> Selection:
    """The share of the fitted rules that select each row: each fold selects the capacity among its own rows.

    A fold in which the rule failed keeps the status quo: no improvement.
    """
    share, edge, cuts = np.zeros(len(cases.weight)), np.zeros(len(cases.weight)), []
    criteria, capacity = terms.criteria, terms.criteria.capacity
    keeps_scores = not criteria.priced and cutoffs.are_scores(cases.status_quo, criteria, "status_quo")
    for part, (report, values) in zip(parts, fitted, strict=True):
        lines = np.flatnonzero(part)
        scores, scored = (values, not criteria.priced) if report.succeeded else (cases.status_quo[lines], keeps_scores)
        if capacity is not None and scored:
            near = cutoffs.reach(capacity, cases.rows)
            decided, close, cutoff = cutoffs.at_capacity(scores, part[lines] * cases.mass[lines], capacity, near)
            edge[lines] += close
        else:
            decision = select(scores, terms, part[lines], f"rule {terms.rule_name!r}")
            decided, cutoff = decision.share, decision.cutoff
        cuts += [cutoff] if report.succeeded else []
        share[lines] += part[lines] * decided
    middle = float(np.mean(cuts)) if cuts else np.nan
    return Selection(share / (repeats * cases.weight), edge / (edge.sum() or 1.0), capacity or 0.0, middle)


def _report(algorithm: Algorithm, terms: Terms, values: FloatArray) -> SearchReport:
    """How the search went; a score that is the same for everybody cannot be cut at a capacity."""
    report = SearchReport(algorithm.decide is not None, algorithm.status, algorithm.note, algorithm.details)
    cut = report.succeeded and terms.criteria.capacity and not terms.criteria.priced
    if not cut or len(values) < 2 or np.ptp(values) > 0:
        return report
    note = f"rule {terms.rule_name!r} gives everybody the same score, so a capacity cannot choose among them"
    return replace(report, succeeded=False, status=Status.CONSTANT, note=note)


def fit_rule(cases: Cases, terms: Terms, learn: Weight, status_quo: FloatArray, rng: np.random.Generator) -> Algorithm:
    """What the rule finds on the rows of ``learn``, which it sees one by one."""
    assert terms.rule is not None
    rows = np.repeat(np.arange(len(learn)), learn)
    outcomes = {name: values[rows] for name, values in cases.outcomes.items()}
    weight = None if np.ptp(cases.mass) == 0 else cases.mass[rows]
    training = Training(cases.people.take(rows), outcomes, status_quo[rows], terms.criteria, rng, weight)
    return find(terms.rule, terms.rule_name, training)


# ---- rounds


def training_share(terms: Terms, method: Splits) -> float:
    """The share of rows that train; 0 if nothing is learned from them, so that every row is tested.

    That is so for one test of a ready candidate with no cut-off to learn and no pair of groups to choose.
    """
    criteria = terms.criteria
    single = terms.rule is None and method.rounds == 1 and criteria.capacity is None and len(criteria.pairs) == 1
    return 0.0 if single else method.train_fraction


def rounds(cases: Cases, terms: Terms, method: Splits, rng: np.random.Generator, run: Run) -> list[Trial]:
    """Every round, each with its own generator."""
    tasks = [(cases, terms, method, number, child) for number, child in enumerate(rng.spawn(method.rounds), start=1)]
    trials: list[Trial] = run(play_round, tasks)
    if all(trial["report"].status is Status.FAILED for trial in trials):
        raise RuleFailed(f"round 1: {trials[0]['report'].note}")
    return trials


def play_round(cases: Cases, terms: Terms, method: Splits, number: int, rng: np.random.Generator) -> Trial:
    """Split, let the rule find a candidate on the training part, test it on the other. Errors name the round."""
    try:
        return _round(cases, terms, method, rng)
    except IsonomyError as error:
        error.args = (f"round {number}: {error}",)
        raise


def _round(cases: Cases, terms: Terms, method: Splits, rng: np.random.Generator) -> Trial:
    criteria, share, ruled = terms.criteria, training_share(terms, method), terms.rule is not None
    train, test = cutoffs.split(cases.weight, share, rng, cases.cluster)
    for part, weight in (("training", train), ("test", test)) if share else (("test", test),):
        _refuse_small(cases, weight, part, terms.min_size)
    learn = train if share else test
    before = select(cases.status_quo, terms, cases.masses(learn), "status_quo")
    worst = (0,) * len(criteria.fairness)
    if len(criteria.pairs) > 1:
        rates = _status_quo_rates(cases, criteria, learn, before, "training")
        worst = _most_unequal(criteria, rates, STATUS_QUO)
    report = SearchReport()
    if ruled:
        algorithm = fit_rule(cases, terms, learn, before.share, rng)
        values = np.full(len(learn), np.nan)
        # The algorithm sees the two parts separately: one that ranks people must not rank test rows with training rows.
        for index in (np.flatnonzero(learn), np.flatnonzero(learn == 0)):
            if len(index):
                algorithm, values[index] = applied(algorithm, terms.rule_name, cases.people.take(index))
        report = _report(algorithm, terms, values)
    else:
        (values,) = cases.candidates.values()
    where = cases.masses(learn if terms.bootstrap else test)
    candidate = status_quo = select(cases.status_quo, terms, where, "status_quo")
    if report.succeeded:
        what = f"rule {terms.rule_name!r}" if ruled else "candidate"
        candidate = select(values, terms, where, what, scores=ruled)
    both, rows = (status_quo, candidate), int(train.sum())
    return judge(cases, terms, test, both, rng, worst=worst, train_rows=rows, report=report)


# ---- what is refused


def _refuse_small(cases: Cases, weight: Weight, part: str, min_size: int) -> None:
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


def _refuse_excluded(cases: Cases, criteria: Criteria, requirements: Requirements, before: Selection) -> None:
    """Raise for what the theory excludes: a status quo without any unfairness, and ratios of what is not positive.

    A gap that happens to be 0 in a small test part, and not on all rows, is no error: the p-value is large.
    """
    if criteria.protected is None and any(part.status_quo == 0 for part in requirements.fairness):
        everywhere = measure(cases, criteria, (before, before))[len(criteria.accuracies) :]
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
