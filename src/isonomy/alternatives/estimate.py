"""The rounds (split, select, test: steps 1 to 3 of section 3.1), on one core or several, and what they say together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from isonomy.alternatives.plan import Plan
from isonomy.alternatives.rules import bootstrap, cutoffs
from isonomy.alternatives.rules import rounds as together
from isonomy.alternatives.rules.algorithm import Algorithm, Training, find, values_of
from isonomy.alternatives.rules.bootstrap import Comparison, Component, PvalueForm
from isonomy.alternatives.rules.criteria import CANDIDATE, STATUS_QUO, Criteria, group_sums, rates_of, summands
from isonomy.alternatives.rules.cutoffs import Weight
from isonomy.alternatives.rules.rounds import Curves
from isonomy.alternatives.tally import Tally
from isonomy.alternatives.wording import PROGRESS
from isonomy.errors import DataError, IsonomyError, NotEnoughData
from isonomy.frames import Request
from isonomy.numerics.arrays import FloatArray, IntArray
from isonomy.numerics.status import Status


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Round:
    """What one round found. ``accuracy`` and ``fairness``: candidate, status quo and p-value of each component."""

    accuracy: FloatArray
    fairness: FloatArray
    selected: FloatArray  # shares selected in the test part: candidate, status quo
    cutoffs: FloatArray  # NaN where decisions came ready
    train_rows: int
    test_rows: IntArray  # by group
    worst: tuple[int, ...]  # the status quo's worst pair, for each fairness utility
    status: Status
    note: str
    details: Mapping[str, float]
    comparison: Comparison | None  # None: the rule found no algorithm

    @property
    def pvalue(self) -> float:
        """The largest over the components of the null: intersection-union."""
        return float(max(self.accuracy[:, 2].max(), self.fairness[:, 2].max()))


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Estimates:
    """The rounds, and the one p-value and the supported gains that follow."""

    criteria: Criteria
    rounds: tuple[Round, ...]
    pvalue: float
    median_pvalue: float
    supported_fairness_gain: float
    supported_accuracy_gain: float
    curves: Curves


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """What the rule found on some rows, and everybody's decision under both algorithms."""

    algorithm: Algorithm
    decisions: tuple[FloatArray, FloatArray]  # status quo, candidate (NaN where nothing was found)
    cutoffs: tuple[float, float]
    worst: tuple[int, ...]


def estimate(tally: Tally, plan: Plan, rng: np.random.Generator) -> Estimates:
    """Run the rounds, each with its own generator, and combine them."""
    criteria = plan.settle(tally.groups)
    rounds = _run(tally, plan, criteria, rng.spawn(plan.splits))
    pvalues, comparisons = [r.pvalue for r in rounds], [r.comparison for r in rounds]
    accuracy, unfairness = (np.stack([getattr(r, part)[:, 1] for r in rounds]) for part in ("accuracy", "fairness"))
    grids = together.default_grids(criteria.scale, accuracy, unfairness)
    level, form = together.level(plan.alpha, plan.splits), plan.pvalue_form
    return Estimates(
        criteria=criteria,
        rounds=rounds,
        pvalue=float(together.combined(pvalues)),
        median_pvalue=float(together.median(pvalues)),
        supported_fairness_gain=together.largest_supported(comparisons, "fairness", grids[1], level, form),
        supported_accuracy_gain=together.largest_supported(comparisons, "accuracy", grids[0], level, form),
        curves=together.curves(comparisons, *grids, form),
    )


def _run(tally: Tally, plan: Plan, criteria: Criteria, generators: Sequence[np.random.Generator]) -> tuple[Round, ...]:
    """All rounds; the number of processes changes no number."""
    # One thread: sums over several threads differ in the last digit, and serial must equal parallel.
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    asked = replace(plan, request=Request(), groups=None)  # an engine's expressions need not reach other processes
    tasks = [(tally, asked, criteria, number, rng) for number, rng in enumerate(generators, start=1)]
    if plan.n_jobs == 1:
        rounds: Iterable[Round] = (one_round(*task) for task in tasks)
    else:
        from joblib import Parallel, delayed, parallel_config  # type: ignore[import-untyped]

        with parallel_config(backend="loky", inner_max_num_threads=1):
            rounds = Parallel(n_jobs=plan.n_jobs, return_as="generator")(delayed(one_round)(*task) for task in tasks)
    if plan.progress:
        from rich.progress import track

        rounds = track(rounds, description=PROGRESS, total=len(tasks))
    with threadpool_limits(limits=1):
        return tuple(rounds)


def one_round(tally: Tally, plan: Plan, criteria: Criteria, number: int, rng: np.random.Generator) -> Round:
    """Split, let the rule find a candidate on the training part, test it on the other."""
    try:
        return _one_round(tally, plan, criteria, rng)
    except IsonomyError as error:
        error.args = (f"round {number}: {error}",)
        raise


def _one_round(tally: Tally, plan: Plan, criteria: Criteria, rng: np.random.Generator) -> Round:
    share = plan.training_share(criteria)
    train, test = cutoffs.split(tally.weight, share, rng)
    for part, weight in (("training", train), ("test", test)) if share else (("test", test),):
        _refuse_small(tally, weight, part, plan.min_size)
    selection = select(tally, plan, criteria, train if share else test, rng)
    algorithm, (a0, a1) = selection.algorithm, selection.decisions
    if algorithm.decide is None:
        comparison = None
        measured = measure(tally, criteria, test, (a0, a0), selection.worst)
        accuracy, fairness = (np.column_stack([m[:, 0] * np.nan, m[:, 1], np.ones(len(m))]) for m in measured)
    else:
        comparison = _compare(tally, plan, criteria, test, selection, rng)
        accuracy = _laid_out(comparison.accuracy, criteria.accuracy_gains, plan.pvalue_form)
        fairness = _laid_out(comparison.fairness, criteria.fairness_gains, plan.pvalue_form)
    return Round(
        accuracy=accuracy,
        fairness=fairness,
        selected=np.array([np.average(a, weights=test) for a in (a1, a0)]),
        cutoffs=np.array(selection.cutoffs[::-1]),
        train_rows=int(train.sum()),
        test_rows=tally.sizes(test),
        worst=selection.worst,
        status=algorithm.status,
        note=algorithm.note,
        details=dict(algorithm.details),
        comparison=comparison,
    )


def select(tally: Tally, plan: Plan, criteria: Criteria, learn: Weight, rng: np.random.Generator) -> Selection:
    """Let the rule find a candidate on the rows of ``learn``; a candidate column stands for itself."""
    a0, cut0 = _decisions(tally.status_quo, plan, criteria, learn, "status_quo")
    if plan.rule is None:
        assert tally.candidate is not None
        values, algorithm, what = tally.candidate, Algorithm(lambda people: np.empty(0)), "candidate"
    else:
        rows = np.repeat(np.arange(len(learn)), learn)
        training = Training(
            people=tally.people.take(rows),
            outcome=tally.outcomes[None][rows],
            status_quo=a0[rows],
            accuracy=criteria.accuracy,
            capacity=plan.capacity,
            scored=plan.capacity is not None or plan.threshold is not None,
            rng=rng,
        )
        algorithm, what = find(plan.rule, plan.rule_name, training), f"rule {plan.rule_name!r}"
        values = values_of(algorithm, plan.rule_name, tally.people, learn > 0)
    a1, cut1 = _decisions(values, plan, criteria, learn, what)
    return Selection(algorithm, (a0, a1), (cut0, cut1), _worst_pairs(tally, criteria, learn, a0))


def _decisions(
    values: FloatArray, plan: Plan, criteria: Criteria, learn: Weight, what: str
) -> tuple[FloatArray, float]:
    """Decisions and the cut-off that made them; prices, and the NaN of a rule that found nothing, stay as they are."""
    if criteria.priced or np.isnan(values).all():
        return values, np.nan
    return cutoffs.decisions(values, learn, what, capacity=plan.capacity, threshold=plan.threshold)


def _worst_pairs(tally: Tally, criteria: Criteria, learn: Weight, a0: FloatArray) -> tuple[int, ...]:
    """The status quo's most unequal pair on the training part, for each fairness utility."""
    if len(criteria.pairs) == 1:
        return (0,) * len(criteria.fairness)
    rates = rates_of(_sums(tally, criteria, learn, (a0, a0)))
    _refuse_undefined(criteria, rates, ("status quo",), "training")
    unfair = [criteria.unfairness(criteria.gaps(rates, k)[STATUS_QUO]) for k in range(len(criteria.fairness))]
    return tuple(int(np.argmax(one)) for one in unfair)


def _sums(tally: Tally, criteria: Criteria, weight: Weight, both: Sequence[FloatArray]) -> FloatArray:
    values = summands(criteria.utilities, tally.features, tally.outcomes, both)
    return group_sums(values, tally.group, weight, len(tally.groups))


def measure(
    tally: Tally, criteria: Criteria, weight: Weight, both: Sequence[FloatArray], worst: Sequence[int]
) -> tuple[FloatArray, FloatArray]:
    """Accuracy and unfairness of candidate and status quo: (components, 2) and (utilities, 2)."""
    sums = _sums(tally, criteria, weight, both)
    rates = rates_of(sums)
    accuracy = criteria.accuracy_of(rates, sums)
    unfair = [criteria.unfairness(criteria.gaps(rates, k)) for k in range(len(worst))]
    pairs = [(f[CANDIDATE].max(), f[STATUS_QUO, q]) for f, q in zip(unfair, worst, strict=True)]
    return np.column_stack([accuracy[CANDIDATE], accuracy[STATUS_QUO]]), np.array(pairs)


def _compare(
    tally: Tally, plan: Plan, criteria: Criteria, test: Weight, selection: Selection, rng: np.random.Generator
) -> Comparison:
    lines = np.flatnonzero(test)
    values = summands(
        criteria.utilities,
        {name: column[lines] for name, column in tally.features.items()},
        {name: column[lines] for name, column in tally.outcomes.items()},
        [a[lines] for a in selection.decisions],
    )
    group, weight, n_groups = tally.group[lines], test[lines], len(tally.groups)
    observed = group_sums(values, group, weight, n_groups)
    _refuse_undefined(criteria, rates_of(observed), ("status quo", "candidate"), "test")
    draws = bootstrap.resampled_sums(values, group, weight, n_groups, plan.resamples, rng)
    comparison = bootstrap.compare(criteria, observed, draws, selection.worst)
    _refuse_excluded(tally, criteria, comparison, selection)
    return comparison


def _laid_out(components: Sequence[Component], gains: Sequence[float], form: PvalueForm) -> FloatArray:
    return np.array(
        [(c.candidate, c.status_quo, float(c.pvalue(gain, form))) for c, gain in zip(components, gains, strict=True)]
    )


def _refuse_small(tally: Tally, weight: Weight, part: str, min_size: int) -> None:
    for group, size in zip(tally.groups, tally.sizes(weight), strict=True):
        if size < min_size:
            raise NotEnoughData(
                f"group {group.label!r} has {size:,} rows in the {part} part; at least {min_size} are needed "
                "(min_size). Merge small groups, leave them out, or change train_fraction."
            )


def _refuse_undefined(criteria: Criteria, rates: FloatArray, algorithms: Sequence[str], part: str) -> None:
    for k, which, code in np.argwhere(np.isnan(rates[:, : len(algorithms)])):
        utility = criteria.utilities[k]
        if isinstance(criteria.weights, str) and utility not in criteria.fairness:
            continue  # accuracy over all rows needs no group's own
        raise NotEnoughData(
            f"{utility.name} is undefined for group {criteria.labels[code]!r} under the {algorithms[which]}: no row of "
            f"its {part} part is in the denominator (for outcome_among_selected: nobody is selected). Raise the "
            "capacity, merge groups, or choose a utility whose denominator does not depend on the decision."
        )


def _refuse_excluded(tally: Tally, criteria: Criteria, comparison: Comparison, selection: Selection) -> None:
    """What the theory excludes: a status quo with no unfairness at all; ratios of what is not positive.

    A gap that is 0 in a small test part by coincidence, and not on all rows, is no error: the p-value is large.
    """
    if criteria.protected is None and any(unfairness.status_quo == 0 for unfairness in comparison.fairness):
        a0, worst = selection.decisions[STATUS_QUO], selection.worst
        _, everywhere = measure(tally, criteria, tally.weight, (a0, a0), worst)
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
