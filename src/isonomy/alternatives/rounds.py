"""One round: split, select, test (steps 1 to 3 of section 3.1); and all rounds, on one core or several."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isonomy.alternatives import decisions, wording
from isonomy.alternatives import evidence as ev
from isonomy.alternatives.evidence import CANDIDATE, STATUS_QUO, Criteria, Evidence
from isonomy.alternatives.requirements import Plan
from isonomy.alternatives.tally import Table, Weight
from isonomy.alternatives.utilities import FloatArray
from isonomy.errors import DataError, IsonomyError, NotEnoughData
from isonomy.numerics.status import Status


@dataclass(frozen=True, slots=True, eq=False)
class Round:
    """What one round found. ``accuracy`` and ``fairness``: a line a component of candidate, status quo, p-value."""

    accuracy: FloatArray
    fairness: FloatArray
    pvalue: float
    selected: FloatArray  # shares selected in the test part: candidate, status quo
    cutoffs: FloatArray  # NaN where decisions came ready
    train_rows: int
    test_rows: NDArray[np.int64]  # by group
    undefined: int  # resamples with an empty denominator
    fewest: float  # the smallest denominator
    distance: float  # of the status quo's unfairness from zero, in standard errors
    worst: tuple[int, ...]  # the status quo's worst pair, for each fairness utility
    status: Status = Status.OK
    note: str = ""
    details: Mapping[str, float] = field(default_factory=dict)
    evidence: Evidence | None = None


def run(
    table: Table,
    plan: Plan,
    generators: Sequence[np.random.Generator],
    *,
    n_jobs: int = 1,
    progress: bool = False,
) -> tuple[Round, ...]:
    """All rounds, each with its own generator, so that the number of processes changes no number."""
    # One thread: sums over several threads differ in the last digit, and serial must equal parallel.
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    tasks = [(table, plan, k, rng) for k, rng in enumerate(generators, start=1)]
    if n_jobs == 1:
        done: Iterable[Round] = (one_round(*task) for task in tasks)
    else:
        from joblib import Parallel, delayed, parallel_config  # type: ignore[import-untyped]

        with parallel_config(backend="loky", inner_max_num_threads=1):
            done = Parallel(n_jobs=n_jobs, return_as="generator")(delayed(one_round)(*task) for task in tasks)
    if progress:
        from rich.progress import track

        done = track(done, description=wording.PROGRESS, total=len(tasks))
    with threadpool_limits(limits=1):
        return tuple(done)


def one_round(table: Table, plan: Plan, number: int, rng: np.random.Generator) -> Round:
    """Split, let the rule find a candidate on the training part, test it on the other."""
    try:
        return _one_round(table, plan, number, rng)
    except IsonomyError as error:
        error.args = (f"round {number}: {error}",)
        raise


def _one_round(table: Table, plan: Plan, number: int, rng: np.random.Generator) -> Round:
    train, test = decisions.split(table.weight, plan.train_fraction, rng)
    for part, weight in (("training", train), ("test", test)):
        if part == "test" or plan.train_fraction:
            _refuse_small(table, weight, part, plan.min_size)
    learn = train if plan.train_fraction else test
    a0, cut0 = decisions.status_quo(table, plan, learn)
    algorithm = decisions.select(table, plan, learn, a0, rng)
    a1, cut1 = decisions.candidate(table, plan, algorithm, learn)
    worst = worst_pairs(table, plan.criteria, learn, a0)
    sizes = np.bincount(table.group, weights=test, minlength=len(table.groups)).astype(np.int64)
    found: dict[str, Any] = {
        "selected": np.array([np.average(a, weights=test) for a in (a1, a0)]),
        "cutoffs": np.array([cut1, cut0]),
        "train_rows": int(train.sum()),
        "test_rows": sizes,
        "worst": worst,
        "status": algorithm.status,
        "note": algorithm.note,
        "details": dict(algorithm.details),
    }
    if algorithm.decide is None:
        return _nothing_found(table, plan, test, a0, worst, found)
    return _tested(table, plan, test, (a0, a1), worst, found, rng)


def worst_pairs(table: Table, criteria: Criteria, learn: Weight, a0: FloatArray) -> tuple[int, ...]:
    """The status quo's most unequal pair on the training part, for each fairness utility."""
    if len(criteria.pairs) == 1:
        return (0,) * len(criteria.fairness)
    rates = ev.rates_of(_sums(table, criteria, learn, (a0, a0)))
    _refuse_undefined(criteria, rates, ("status quo",), "training")
    unfair = [criteria.unfairness(criteria.gaps(rates, k)[STATUS_QUO]) for k in range(len(criteria.fairness))]
    return tuple(int(np.argmax(one)) for one in unfair)


def _sums(table: Table, criteria: Criteria, weight: Weight, both: Sequence[FloatArray]) -> FloatArray:
    values = ev.summands(criteria.utilities, table.features, table.outcomes, both)
    return ev.group_sums(values, table.group, weight, len(table.groups))


def measure(
    table: Table, criteria: Criteria, weight: Weight, both: Sequence[FloatArray], worst: Sequence[int]
) -> tuple[FloatArray, FloatArray]:
    """Accuracy and unfairness of candidate and status quo: (components, 2) and (utilities, 2)."""
    sums = _sums(table, criteria, weight, both)
    rates = ev.rates_of(sums)
    accuracy = criteria.accuracy_of(rates, sums)
    unfair = [criteria.unfairness(criteria.gaps(rates, k)) for k in range(len(worst))]
    pairs = [(f[CANDIDATE].max(), f[STATUS_QUO, q]) for f, q in zip(unfair, worst, strict=True)]
    return np.column_stack([accuracy[CANDIDATE], accuracy[STATUS_QUO]]), np.array(pairs)


def _nothing_found(
    table: Table, plan: Plan, test: Weight, a0: FloatArray, worst: tuple[int, ...], found: Mapping[str, Any]
) -> Round:
    """The rule found no algorithm: the round is no evidence, p = 1."""
    accuracy, fairness = measure(table, plan.criteria, test, (a0, a0), worst)
    blank = (np.column_stack([np.full(len(m), np.nan), m[:, 1], np.ones(len(m))]) for m in (accuracy, fairness))
    accuracy, fairness = blank
    return Round(accuracy=accuracy, fairness=fairness, pvalue=1.0, undefined=0, fewest=np.nan, distance=np.nan, **found)


def _tested(
    table: Table,
    plan: Plan,
    test: Weight,
    both: tuple[FloatArray, FloatArray],
    worst: tuple[int, ...],
    found: Mapping[str, Any],
    rng: np.random.Generator,
) -> Round:
    criteria, form = plan.criteria, plan.pvalue_form
    lines = np.flatnonzero(test)
    values = ev.summands(
        criteria.utilities,
        {name: column[lines] for name, column in table.features.items()},
        {name: column[lines] for name, column in table.outcomes.items()},
        [a[lines] for a in both],
    )
    group, weight, n_groups = table.group[lines], test[lines], len(table.groups)
    observed = ev.group_sums(values, group, weight, n_groups)
    _refuse_undefined(criteria, ev.rates_of(observed), ("status quo", "candidate"), "test")
    draws = ev.resampled_sums(values, group, weight, n_groups, plan.resamples, rng)
    shown = ev.weigh(criteria, observed, draws, worst)
    _refuse_excluded(table, criteria, shown, both[STATUS_QUO], worst)
    accuracy = _lines(shown.accuracy, plan.accuracy_gains, form)
    fairness = _lines(shown.fairness, plan.fairness_gains, form)
    return Round(
        accuracy=accuracy,
        fairness=fairness,
        pvalue=float(max(accuracy[:, 2].max(), fairness[:, 2].max())),  # intersection-union
        undefined=shown.undefined,
        fewest=float(observed[:, :, 1].min()),
        distance=shown.distance,
        evidence=shown,
        **found,
    )


def _lines(components: Sequence[ev.Component], gains: Sequence[float], form: str) -> FloatArray:
    return np.array(
        [(c.candidate, c.status_quo, float(c.pvalue(gain, form))) for c, gain in zip(components, gains, strict=True)]
    )


def _refuse_small(table: Table, weight: Weight, part: str, min_size: int) -> None:
    sizes = np.bincount(table.group, weights=weight, minlength=len(table.groups))
    for label, size in zip(table.labels, sizes, strict=True):
        if size < min_size:
            raise NotEnoughData(wording.too_few(label, int(size), part, min_size))


def _refuse_undefined(criteria: Criteria, rates: FloatArray, algorithms: Sequence[str], part: str) -> None:
    for k, utility in enumerate(criteria.utilities):
        if isinstance(criteria.weights, str) and utility not in criteria.fairness:
            continue  # accuracy over all rows needs no group's own
        for code, label in enumerate(criteria.labels):
            for which, name in enumerate(algorithms):
                if np.isnan(rates[k, which, code]):
                    raise NotEnoughData(wording.empty_denominator(utility.name, label, name, part))


def _refuse_excluded(table: Table, criteria: Criteria, shown: Evidence, a0: FloatArray, worst: Sequence[int]) -> None:
    """What the theory excludes: a status quo with no unfairness at all; ratios of what is not positive.

    A gap that is 0 in a small test part by coincidence, and not on all rows, is no error: the p-value is large.
    """
    if criteria.protected is None and any(unfairness.status_quo == 0 for unfairness in shown.fairness):
        _, everywhere = measure(table, criteria, table.weight, (a0, a0), worst)
        for utility, (_, value) in zip(criteria.fairness, everywhere, strict=True):
            if value == 0:
                raise DataError(wording.perfectly_fair(utility.name))
    for name, component in zip(criteria.accuracies, shown.accuracy, strict=True):
        if criteria.scale == "ratio" and component.status_quo <= 0:
            raise DataError(wording.not_positive(criteria.accuracy.name, name, component.status_quo))
