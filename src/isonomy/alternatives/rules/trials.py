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
from isonomy.alternatives.rules import cutoffs, influence
from isonomy.alternatives.rules.algorithm import Algorithm, People, SelectionRule, Training, applied, find
from isonomy.alternatives.rules.comparison import Requirements, assess, compare_resamples, resample
from isonomy.alternatives.rules.cutoffs import Mass, Selection, Weight
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

    ``weight`` is the number of rows a line stands for; ``mass`` what each of these rows weighs, scaled so that all rows
    together weigh their number. ``outcomes`` has the outcome of the call under None, and the columns that utilities
    name.
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
        """Rows, the ``count`` column honored."""
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
    """What a trial needs to know of the call. It can be sent to another process."""

    criteria: Criteria
    capacity: float | None
    threshold: float | None
    rule: SelectionRule | None  # None: the candidates are columns
    rule_name: str
    method: Method
    alpha: float  # of the simultaneous limits, shared among all attempts
    min_size: int
    several: bool  # candidates: one that cannot be judged does not end the test

    @property
    def bootstrap(self) -> Splits | None:
        """The method, where it resamples."""
        return self.method if isinstance(self.method, Splits) and self.method.resamples else None


@dataclass(frozen=True, slots=True, eq=False)
class SearchReport:
    """How the search for a candidate went; ``groups`` are those that the note names."""

    found: bool = True
    status: Status = Status.OK
    note: str = ""
    details: Mapping[str, float] = field(default_factory=dict)
    groups: tuple[str, ...] = ()


# ---- one trial


def select(values: FloatArray, terms: Terms, weight: Mass, what: str, *, scores: bool = False) -> Selection:
    """Decisions by a cut-off learned on the rows of ``weight``: the paper's quantile, or exactly the capacity of them.

    Prices stay as they are. ``scores``: values of 0 and 1 are scores too, because a rule made them.
    """
    if terms.criteria.priced:
        return Selection(values, np.zeros(len(values)))
    limits = {"capacity": terms.capacity, "threshold": terms.threshold}
    if terms.bootstrap:
        return cutoffs.decisions(values, np.rint(weight).astype(np.int64), what, **limits)
    return cutoffs.selection(values, weight, what, **limits, scores=scores)


def measure(cases: Cases, criteria: Criteria, weight: Weight, selections: Selections) -> FloatArray:
    """Accuracies and unfairness of the candidate and the status quo: (accuracies and fairness utilities, 2)."""
    _, worths = _judged(cases, criteria, weight, selections)
    rates = rates_of(worths.sums)
    accuracy = criteria.accuracy_of(rates, worths.sums)
    unfair = [criteria.unfairness(criteria.gaps(rates, k)).max(axis=-1) for k in range(len(criteria.fairness))]
    return np.concatenate([accuracy.T, np.array(unfair)])[:, [CANDIDATE, STATUS_QUO]]


def _judged(
    cases: Cases, criteria: Criteria, weight: Weight, selections: Selections
) -> tuple[influence.Judged, influence.Worth]:
    """The lines that stand for some row of ``weight``, and what they are worth."""
    kept = np.flatnonzero(weight)
    status_quo, candidate = (replace(part, share=part.share[kept], edge=part.edge[kept]) for part in selections)
    lines = influence.Judged(
        {name: column[kept] for name, column in cases.people.features.items()},
        {name: column[kept] for name, column in cases.outcomes.items()},
        cases.people.group[kept],
        cases.masses(weight)[kept],
        (status_quo, candidate),
        (weight * cases.mass**2)[kept],
        None if cases.cluster is None else np.unique(cases.cluster[kept], return_inverse=True)[1],
    )
    return lines, influence.worth(criteria, lines)


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
    lines, worths = _judged(cases, criteria, weight, selections)
    rates = rates_of(worths.sums)
    _refuse_undefined(criteria, worths, rates, ("status quo",), "judged")
    if report.found:
        try:
            _refuse_undefined(criteria, worths, rates, ("status quo", "candidate"), "judged")
        except NotEnoughData as error:
            if terms.rule is None and not terms.several:
                raise
            undefined = np.flatnonzero(np.isnan(rates[:, CANDIDATE]).any(axis=0))
            named = tuple(criteria.labels[code] for code in undefined)
            report = replace(report, found=False, status=Status.EMPTY, note=str(error), groups=named)
    few = influence.denominators(lines, worths).min() < FEWEST_ROWS * (1 - 1e-9)  # sums of shares are rounded
    if report.found and not bootstrap and few:
        note = f"a denominator has fewer than {FEWEST_ROWS} rows, too few for the test"
        report = replace(report, found=False, status=Status.EMPTY, note=note)
    differs = lines.selections[0].share != lines.selections[1].share
    if criteria.weights is None:
        identical = np.bincount(lines.group, weights=differs, minlength=len(criteria.labels)) == 0
    else:
        identical = np.array([not differs.any()])
    requirements: Requirements | None = None
    size = len(criteria.accuracies) + len(criteria.fairness)
    limits, pvalue, pairs = np.full((size, 3), np.nan), np.ones(size), worst or (0,) * len(criteria.fairness)
    if not report.found:
        candidate, status_quo = np.full(size, np.nan), measure(cases, criteria, weight, selections)[:, 1]
    else:
        if bootstrap:
            count = np.rint(lines.weight).astype(np.int64)
            n_groups, resamples = len(criteria.labels), bootstrap.resamples or 0
            draws = resample(worths.values, lines.group, count, n_groups, resamples, rng)
            requirements = compare_resamples(criteria, worths.sums, draws, pairs, published=bootstrap.published)
        else:
            _refuse_few_clusters(criteria, lines)
            known = influence.moments(criteria, lines, worths, worst)
            pairs = known.worst
            requirements, limits = assess(criteria, known, worths, identical, terms.alpha, rng)
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
    unfair = [criteria.unfairness(criteria.gaps(rates, k)[which]) for k in range(len(criteria.fairness))]
    return tuple(int(np.argmax(np.nan_to_num(gaps))) for gaps in unfair)


def _status_quo_rates(cases: Cases, criteria: Criteria, weight: Weight, before: Selection, part: str) -> FloatArray:
    """What the status quo reaches on the rows of ``weight``; an error where it is undefined."""
    _, worths = _judged(cases, criteria, weight, (before, before))
    rates = rates_of(worths.sums)
    _refuse_undefined(criteria, worths, rates, ("status quo",), part)
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
    _status_quo_rates(cases, criteria, weight, status_quo, "judged")  # undefined: known before anything is fitted
    repeats = 1 if criteria.priced else method.repeats  # a mean of prices is not a mixture of them
    parts = [part for each in rng.spawn(repeats) for part in cutoffs.fold(weight, method.folds, each, cases.cluster)]
    generators = rng.spawn(len(parts))
    tasks = [(cases, terms, part, status_quo.share, each) for part, each in zip(parts, generators, strict=True)]
    fitted: list[tuple[SearchReport, FloatArray]] = run(fit_fold, tasks)
    reports = [report for report, _ in fitted]
    lost = [report for report in reports if not report.found]
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
    assert terms.rule is not None
    algorithm = find(terms.rule, terms.rule_name, training(cases, terms, cases.weight - fold, status_quo, rng))
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
    capacity, priced = terms.capacity, terms.criteria.priced
    limits = {"capacity": capacity, "threshold": terms.threshold}
    kept_scores = not priced and cutoffs.are_scores(cases.status_quo, "status_quo", **limits)
    for part, (report, values) in zip(parts, fitted, strict=True):
        lines = np.flatnonzero(part)
        scores, scored = (values, not priced) if report.found else (cases.status_quo[lines], kept_scores)
        if capacity is not None and scored:
            near = cutoffs.reach(capacity, cases.rows)
            decided, close, cutoff = cutoffs.at_capacity(scores, part[lines] * cases.mass[lines], capacity, near)
            edge[lines] += close
        else:
            decision = select(scores, terms, part[lines], f"rule {terms.rule_name!r}")
            decided, cutoff = decision.share, decision.cutoff
        cuts += [cutoff] if report.found else []
        share[lines] += part[lines] * decided
    middle = float(np.mean(cuts)) if cuts else np.nan
    return Selection(share / (repeats * cases.weight), edge / (edge.sum() or 1.0), capacity or 0.0, middle)


def _report(algorithm: Algorithm, terms: Terms, values: FloatArray) -> SearchReport:
    """What was found, unless it is one score for everybody and a capacity must cut it."""
    report = SearchReport(algorithm.decide is not None, algorithm.status, algorithm.note, algorithm.details)
    cut = report.found and terms.capacity and not terms.criteria.priced
    if not cut or len(values) < 2 or np.ptp(values) > 0:
        return report
    note = f"rule {terms.rule_name!r} gives everybody the same score, so a capacity cannot choose among them"
    return replace(report, found=False, status=Status.CONSTANT, note=note)


def training(cases: Cases, terms: Terms, learn: Weight, status_quo: FloatArray, rng: np.random.Generator) -> Training:
    """What a rule sees: the rows of ``learn``, one by one."""
    rows = np.repeat(np.arange(len(learn)), learn)
    outcomes = {name: values[rows] for name, values in cases.outcomes.items()}
    weight = None if np.ptp(cases.mass) == 0 else cases.mass[rows]
    people, limits = cases.people.take(rows), (terms.capacity, terms.threshold)
    return Training(people, outcomes, status_quo[rows], terms.criteria, *limits, rng, weight)


# ---- rounds


def training_share(terms: Terms, method: Splits) -> float:
    """The share of rows that train; 0 if nothing is chosen on them, so that every row is tested.

    That is so for one test of a ready candidate with no cut-off to learn and no pair of groups to choose.
    """
    single = terms.rule is None and method.rounds == 1 and terms.capacity is None and len(terms.criteria.pairs) == 1
    return 0.0 if single else method.train_fraction


def rounds(cases: Cases, terms: Terms, method: Splits, rng: np.random.Generator, run: Run) -> list[Trial]:
    """Every round, each with a generator of its own."""
    tasks = [(cases, terms, method, number, each) for number, each in enumerate(rng.spawn(method.rounds), start=1)]
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
    criteria, share = terms.criteria, training_share(terms, method)
    train, test = cutoffs.split(cases.weight, share, rng, cases.cluster)
    for part, weight in (("training", train), ("test", test)) if share else (("test", test),):
        _refuse_small(cases, weight, part, terms.min_size)
    learn = train if share else test
    before = select(cases.status_quo, terms, cases.masses(learn), "status_quo")
    worst = (0,) * len(criteria.fairness)
    if len(criteria.pairs) > 1:
        rates = _status_quo_rates(cases, criteria, learn, before, "training")
        worst = _most_unequal(criteria, rates, STATUS_QUO)
    report, what = SearchReport(), "candidate"
    if terms.rule is None:
        (values,) = cases.candidates.values()
    else:
        what = f"rule {terms.rule_name!r}"
        algorithm = find(terms.rule, terms.rule_name, training(cases, terms, learn, before.share, rng))
        values = np.full(len(learn), np.nan)
        # The algorithm sees the two parts apart: one that ranks what it is given must not rank test with training rows.
        for index in (np.flatnonzero(learn), np.flatnonzero(learn == 0)):
            if len(index):
                algorithm, values[index] = applied(algorithm, terms.rule_name, cases.people.take(index))
        report = _report(algorithm, terms, values)
    where = cases.masses(learn if terms.bootstrap else test)
    status_quo = select(cases.status_quo, terms, where, "status_quo")
    ruled = terms.rule is not None
    candidate = select(values, terms, where, what, scores=ruled) if report.found else status_quo
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


def _refuse_few_clusters(criteria: Criteria, lines: influence.Judged) -> None:
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
        counts = "has a decision that counts in it" if decisive else "has an outcome that counts in it"
        remedy = (
            f"{'raise the capacity, ' if decisive else ''}merge groups, or choose a utility with another denominator."
        )
        raise NotEnoughData(
            f"{utility.name} is undefined for group {criteria.labels[code]!r} under the {algorithms[which]}: none of "
            f"its {part} rows {counts}; {remedy}",
            f"{utility.name} is undefined for a group: {remedy}",
        )


def _refuse_excluded(cases: Cases, criteria: Criteria, requirements: Requirements, before: Selection) -> None:
    """What the theory excludes: a status quo with no unfairness at all; ratios of what is not positive.

    A gap that is 0 in a small test part by coincidence, and not on all rows, is no error: the p-value is large.
    """
    if criteria.protected is None and any(part.status_quo == 0 for part in requirements.fairness):
        everywhere = measure(cases, criteria, cases.weight, (before, before))[len(criteria.accuracies) :]
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
