"""Split, select, test, repeat: the improvability test from end to end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from isonomy.alternatives import evidence as ev
from isonomy.alternatives import requirements as required
from isonomy.alternatives import rounds as steps
from isonomy.alternatives import surface as surfaces
from isonomy.alternatives import wording
from isonomy.alternatives.cautions import cautions
from isonomy.alternatives.evidence import Criteria
from isonomy.alternatives.mitigate import recommend
from isonomy.alternatives.requirements import Plan
from isonomy.alternatives.result import ImprovabilityResult
from isonomy.alternatives.rounds import Round
from isonomy.alternatives.rules import selection_rule
from isonomy.alternatives.tally import Roles, Table, tally
from isonomy.alternatives.utilities import UtilityLike, accuracy_utility, fairness_utilities
from isonomy.errors import MissingRole, UsageError, choose
from isonomy.frames import open_source
from isonomy.numerics.randomness import resolve
from isonomy.results import Verdict, provenance


def improvability(
    data: object,
    *,
    outcome: str,
    groups: object,
    status_quo: str,
    features: Sequence[str] | None = None,
    candidate: str | None = None,
    rule: object = None,
    group_aware: bool = False,
    capacity: float | None = None,
    threshold: float | None = None,
    accuracy: UtilityLike = "outcome_among_selected",
    fairness: UtilityLike | Sequence[UtilityLike] | None = None,
    accuracy_gain: required.Gain = 0.0,
    fairness_gain: required.Gain = 0.0,
    scale: str = "ratio",
    accuracy_weights: str | Mapping[Any, float] | None = None,
    protected: object = None,
    disadvantage: str | None = None,
    fairness_test: str = "two_one_sided",
    splits: int = 7,
    train_fraction: float = 0.5,
    resamples: int = 10_000,
    alpha: float = 0.05,
    pvalue_form: str = "add_one",
    min_size: int = 10,
    n_jobs: int = 1,
    progress: bool = False,
    rng: int | np.random.Generator | None = None,
    count: str | None = None,
    missing: str = "raise",
    missing_group: str = "raise",
) -> ImprovabilityResult:
    """Is there an alternative that is at least as accurate for every group and less unequal?

    Null hypothesis: no algorithm that the rule can find is more accurate than the status quo for every group (by more
    than ``accuracy_gain``) and less unequal between groups (by more than ``fairness_gain``). Each round splits the
    rows, lets the rule find a candidate on the training part, and tests it on the other by the bootstrap; the round's
    p-value is the largest over the components of the null, and the test's is twice the median over rounds. Valid
    whatever the rule is; a rejection shows that a less discriminatory alternative exists.

    Parameters
    ----------
    data
        Any frame. Where a rule fits features the needed columns are read into memory; a ready ``candidate`` needs
        only grouped counts.
    outcome
        The column y: 0/1 for ``accuracy``, ``tpr``, ``tnr``, ``fpr``; any number for the other utilities.
    groups
        A column, or several (their intersections are the groups).
    status_quo
        The algorithm in use: 0/1 decisions, or a score that ``capacity`` or ``threshold`` turns into decisions.
    features, rule, group_aware
        What finds the candidate: ``"linear"``, ``"lasso"``, ``"random_forest"``, ``"milp"``, ``"reductions"``, any
        scikit-learn estimator, or any callable ``rule(training) -> algorithm``; fitted on ``features``, and on the
        group too if ``group_aware``.
    candidate
        In place of a rule: a column of ready decisions or scores. ``splits=1`` without ``capacity`` then tests it on
        all rows (two groups).
    capacity, threshold
        Select scores strictly above the training part's 1 - capacity quantile, or above a fixed threshold.
    accuracy, fairness
        Utilities: a name (see `isonomy.alternatives.READY`), a `Utility`, or ``{"utility": ..., "outcome": ...}``.
        ``fairness`` may be several, all of which must improve, or a criterion such as ``"equalized_odds"``; None: the
        accuracy utility.
    accuracy_gain, fairness_gain
        Required gains: 0.1 asks for accuracy above 1.1 times, unfairness below 0.9 times the status quo's
        (``scale="ratio"``), or for differences in the utility's own unit (``scale="difference"``). Negative gains
        allow a loss. A number, or a mapping by group (by utility for fairness).
    accuracy_weights
        None: every group must gain. ``"pooled"``: one accuracy over all rows. A mapping by group: a weighted sum.
    protected, disadvantage
        One-sided unfairness: only gaps at the expense of this group count. It is at a disadvantage when its utility
        is ``"lower"`` than another's, or ``"higher"``; None: whichever is worse for the utility.
    fairness_test
        ``"two_one_sided"``: the candidate's gap must be shown to be smaller on both sides. ``"paper"``: the bootstrap
        of the absolute gap, which over-rejects where the gap asked for is within about three standard errors of 0.
    splits, train_fraction
        Rounds, and the share of rows that train. 7 rounds make re-running the test unprofitable; see `manipulation`.
    resamples, alpha, pvalue_form
        Bootstrap resamples a round; the error rate; ``"add_one"`` for (1 + exceeding) / (1 + resamples), which is
        never 0, or ``"paper"`` for exceeding / resamples.
    min_size
        The fewest rows of a group in either part.
    n_jobs, progress, rng
        Processes (the numbers are the same for any); a progress bar; None, a seed or a Generator.

    Notes
    -----
    It misleads when rows are not independent, when the decision changes the outcome, and when rules are tried until
    one rejects. A result that does not reject says little: another rule might find an alternative.

    References
    ----------
    Auerbach, Liang, Okumura, Tabord-Meehan (2025), Testing the Fairness-Accuracy Improvability of Algorithms:
    definition 2, section 3, corollary 1.

    Examples
    --------
    >>> import numpy as np
    >>> import isonomy as iso
    >>> rng = np.random.default_rng(1)
    >>> group, need = rng.integers(0, 2, 8000), rng.poisson(2, 8000)
    >>> data = {"group": group, "need": need, "cost_score": need + 2.0 * group + rng.normal(0, 2, 8000),
    ...         "need_score": need + rng.normal(0, 0.5, 8000)}
    >>> result = iso.improvability(data, outcome="need", groups="group", status_quo="cost_score",
    ...     candidate="need_score", capacity=0.1, splits=3, resamples=500, rng=1)
    >>> result.reject, result.pvalue < 0.05
    (True, True)
    """
    options = {name: value for name, value in locals().items() if name not in ("data", "progress", "n_jobs", "rng")}
    required.check_numbers(
        capacity=capacity,
        threshold=threshold,
        train_fraction=train_fraction,
        alpha=alpha,
        resamples=resamples,
        splits=splits,
        min_size=min_size,
        n_jobs=n_jobs,
    )
    choose("scale", scale, ("ratio", "difference"))
    choose("fairness_test", fairness_test, ("two_one_sided", "paper"))
    choose("pvalue_form", pvalue_form, ("add_one", "paper"))
    names = tuple([features] if isinstance(features, str) else features or ())
    if (rule is None) == (candidate is None):
        raise MissingRole("rule, candidate: give one of them; a rule finds the alternative, a candidate is one.")
    if candidate is not None and (names or group_aware):
        unused = "features" if names else "group_aware"
        raise UsageError(f"{unused}: nothing is fitted where the candidate is ready; leave it out, or give a rule.")
    if disadvantage is not None and protected is None:
        raise UsageError("disadvantage: says which gaps count against the protected group; give protected too.")
    chosen = None if rule is None else selection_rule(rule, group_aware=group_aware, features=names)
    wanted = accuracy_utility(accuracy)
    unfair = fairness_utilities(fairness, wanted)
    source = open_source(data, count=count, missing=missing, missing_group=missing_group)
    roles = Roles(outcome, groups, status_quo, candidate, names, tuple(dict.fromkeys((wanted, *unfair))))
    table = tally(source, roles)
    criteria = Criteria(
        accuracy=wanted,
        fairness=unfair,
        labels=table.labels,
        weights=required.weights_of(table.groups, accuracy_weights),
        scale=scale,
        protected=None if protected is None else required.code_of("protected", table.groups, protected),
        harm=tuple(required.harm_of(u, disadvantage) for u in unfair),
        fairness_test=fairness_test,
    )
    all_rows = candidate is not None and splits == 1 and capacity is None and len(criteria.pairs) == 1
    plan = Plan(
        criteria=criteria,
        accuracy_gains=required.accuracy_gains(criteria, table.groups, accuracy_gain),
        fairness_gains=required.fairness_gains(criteria, fairness_gain),
        rule=chosen,
        capacity=capacity,
        threshold=threshold,
        train_fraction=0.0 if all_rows else train_fraction,
        resamples=resamples,
        pvalue_form=pvalue_form,
        min_size=min_size,
    )
    generator, seed = resolve(rng)
    *streams, last = generator.spawn(splits + 1)
    done = steps.run(table, plan, streams, n_jobs=n_jobs, progress=progress)
    pvalue = float(ev.combined([r.pvalue for r in done]))
    best = recommend(table, plan, roles, last) if pvalue < alpha else None
    record = provenance("improvability", options, source=source, seed=seed, rows=table.rows, dropped=table.dropped)
    return _result(table, plan, done, alpha, best, record)


def _result(
    table: Table, plan: Plan, done: Sequence[Round], alpha: float, best: Any, record: Any
) -> ImprovabilityResult:
    criteria = plan.criteria
    evidence = tuple(r.evidence for r in done)
    pvalues = np.array([r.pvalue for r in done])
    pvalue, level = float(ev.combined(pvalues)), alpha if len(done) == 1 else alpha / 2
    accuracy, fairness = (np.stack([getattr(r, name) for r in done]) for name in ("accuracy", "fairness"))
    grids = surfaces.default_grids(criteria.scale, accuracy[..., 1], fairness[..., 1])
    pairs = [f"{criteria.labels[a]} against {criteria.labels[b]}" for a, b in criteria.pairs]
    return ImprovabilityResult(
        null=wording.null(
            plan.rule_name,
            criteria.accuracy.name,
            criteria.accuracies,
            plan.accuracy_gains,
            [u.name for u in criteria.fairness],
            plan.fairness_gains,
            criteria.scale,
        ),
        verdict=Verdict.VIOLATION if pvalue < alpha else Verdict.INCONCLUSIVE,
        warnings=cautions(table, plan, done),
        provenance=record,
        groups=table.groups,
        rule=plan.rule_name,
        accuracy_utility=criteria.accuracy.name,
        accuracy_components=criteria.accuracies,
        fairness_utilities=tuple(u.name for u in criteria.fairness),
        accuracy_gains=plan.accuracy_gains,
        fairness_gains=plan.fairness_gains,
        scale=criteria.scale,
        capacity=plan.capacity,
        alpha=alpha,
        resamples=plan.resamples,
        accuracy=accuracy,
        fairness=fairness,
        round_pvalues=pvalues,
        pvalue=pvalue,
        median_pvalue=float(ev.median(pvalues)),
        reject=pvalue < alpha,
        supported_fairness_gain=surfaces.largest_supported(evidence, "fairness", grids[1], level, plan.pvalue_form),
        supported_accuracy_gain=surfaces.largest_supported(evidence, "accuracy", grids[0], level, plan.pvalue_form),
        selected=np.stack([r.selected for r in done]),
        cutoffs=np.stack([r.cutoffs for r in done]),
        train_rows=np.array([r.train_rows for r in done]),
        test_rows=np.stack([r.test_rows for r in done]),
        undefined=np.array([r.undefined for r in done]),
        distance=np.array([r.distance for r in done]),
        worst_pairs=tuple(tuple(pairs[q] for q in r.worst) for r in done),
        status=tuple(r.status for r in done),
        details=tuple(r.details for r in done),
        curves=surfaces.curves(evidence, *grids, plan.pvalue_form),
        recommended=best,
        evidence=evidence,
        pvalue_form=plan.pvalue_form,
    )
