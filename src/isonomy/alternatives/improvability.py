"""Improvability: is there an alternative that is at least as accurate for every group and less unequal?

Both algorithms are judged on rows that no rule was fitted on. Auerbach, Liang, Okumura and Tabord-Meehan (2025).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, Unpack

import numpy as np
from numpy.typing import NDArray

from isonomy.alternatives import words
from isonomy.alternatives.followup import Recommendation, SurfaceResult, intersections, recommend
from isonomy.alternatives.options import PUBLISHED, Above, Crossfit, Gain, GroupAware, Method, Protected, Scale, Splits
from isonomy.alternatives.rules import comparison
from isonomy.alternatives.rules.algorithm import People, SelectionRule
from isonomy.alternatives.rules.comparison import GainCurves, Merge
from isonomy.alternatives.rules.named import selection_rule
from isonomy.alternatives.rules.trials import Cases, SearchReport, Trial, run_trials
from isonomy.alternatives.rules.utilities import (
    Criteria,
    Utility,
    UtilityLike,
    accuracy_utility,
    by_group,
    fairness_utilities,
    group_code,
)
from isonomy.errors import MissingRole, OneGroup, UsageError
from isonomy.frames import Group, Groups, Request
from isonomy.frames.expressions import is_category, number, text
from isonomy.frames.metrics import RATES
from isonomy.inference import Verdict, conclude, rejected
from isonomy.numerics.arrays import BoolArray, FloatArray
from isonomy.numerics.resampling import collapse
from isonomy.numerics.status import Status
from isonomy.options import Alpha, Column, Form, Fraction, Names, Number, RowOptions, Seeded, Whole, check, shown
from isonomy.results import POOLED, Columns, Evidence, Note, Plan, column, open_call, question, storable
from isonomy.results.columns import join_tables
from isonomy.results.disclosure import withheld
from isonomy.results.evidence import as_frame
from isonomy.results.progress import tracked
from isonomy.results.storage import OF_ROWS

if TYPE_CHECKING:
    import altair as alt

Candidates = Annotated[str | Sequence[str] | Mapping[str, str] | None, Form("candidates")]
Basis = Literal["whole", "crossfit", "splits", "bootstrap", "published"]
# How the p-values of rounds, or of candidates, become one.
MERGES: Mapping[Basis, Merge] = {
    "whole": "smallest",
    "crossfit": "smallest",
    "splits": "exchangeable",
    "bootstrap": "median",
    "published": "median",
}

WEIGHT, CLUSTER = "weight of a row", "cluster of a row"
LARGEST = 10**9  # numpy's hypergeometric draws, which make the splits, stop here
FEW = 30  # rows in a denominator below which p-values are called approximate
NEAR = 2.0  # standard errors within which an unfairness is called close to zero
# Numbers of a trial: see `ImprovabilityResult`.
BY_TRIAL = ("cutoffs", "train_rows", "test_rows", "candidate_distance", "correlation", "eigenvalue", "least_share")

storable(GainCurves)


# ---- call


@question(
    "ImprovabilityPlan",
    idle=lambda options: set() if options.get("candidate") is None else {"features"},
    moved={
        "group_aware": "rule=iso.group_aware(rule)",
        "threshold": "capacity=iso.above(threshold)",
        "accuracy_gain": "gain=iso.gain(accuracy=...)",
        "fairness_gain": "gain=iso.gain(fairness=...)",
        "margin": "gain=iso.gain(margin=...)",
        "scale": "gain=iso.gain(scale=...)",
        "accuracy_weights": 'accuracy={"utility": ..., "weights": ...}',
        "protected": "fairness=iso.protected(group={}, utility=...); utility is what fairness had, if anything",
        "disadvantage": "fairness=iso.protected(group, utility, disadvantage={})",
        "n_jobs": "method=iso.crossfit(n_jobs={}) or iso.splits(n_jobs={}); leave it out for a ready candidate",
        "progress": "method=iso.crossfit(progress={}) or iso.splits(progress={}); leave it out for a ready candidate",
        "fairness_test": 'method="published" for the paper\'s test; the other methods have one test each',
        "evidence": 'method=iso.crossfit(), iso.splits() or "published"',
        "folds": "method=iso.crossfit(folds)",
        "repeats": "method=iso.crossfit(repeats=...)",
        "splits": "method=iso.splits(rounds)",
        "train_fraction": "method=iso.splits(train_fraction=...)",
        "resamples": "method=iso.splits(resamples=...)",
        "pvalue_form": 'method="published" for p-values that can be 0',
    },
    asks="Is there an alternative that is at least as accurate and less unequal?",
    topic="A less unequal alternative",
    badges={"violation": "Alternative shown", "inconclusive": "No alternative shown"},
    verdicts={
        "violation": "an algorithm that is at least as accurate and less unequal exists.",
        "inconclusive": "no algorithm that is at least as accurate and less unequal was shown to exist. Another search "
        "might find one.",
    },
    next_steps={
        "violation": (
            "Have those responsible for the model review the alternative. It was found on these data and must be "
            "tested on new data.",
            "Record the reason if it is not adopted.",
        ),
        "inconclusive": (
            "Do not report this as proof that no alternative exists: other features, rules or data may yield one.",
            "Record which alternatives were tried, and how.",
        ),
    },
    looks={"violation": "shown"},
    meaning="The status quo is the rule in use; the alternative, or candidate, would replace it.",
)
def improvability(
    data: object = None,
    *,
    outcome: Column,
    groups: Groups,
    status_quo: Column,
    features: Names | None = None,
    candidate: Candidates = None,
    rule: Annotated[object, Form("rule")] | GroupAware = None,
    capacity: Fraction | Above | None = None,
    accuracy: Annotated[UtilityLike, Form("utility")] = "outcome_among_selected",
    fairness: Annotated[UtilityLike | Sequence[UtilityLike] | None, Form("utilities")] | Protected = None,
    gain: Gain = Gain(),  # noqa: B008
    method: Literal["published"] | Crossfit | Splits | None = None,
    tried: Sequence[Mapping[str, str | float]] | None = None,
    alpha: Alpha = 0.05,
    min_size: Whole = 10,
    rng: Seeded = None,
    **rows: Unpack[RowOptions],
) -> ImprovabilityResult:
    """Is there an alternative that is at least as accurate for every group and less unequal?

    Null hypothesis: no algorithm that the rule can find is at least as accurate as the status quo for every group and
    less unequal between groups, by as much as ``gain`` requires. Both algorithms are judged on rows that no rule was
    fitted on, where both select exactly the ``capacity``; the p-value is the largest over the components of the null. A
    rejection shows that a less discriminatory alternative exists.

    Parameters
    ----------
    data : table
        Any frame. If a rule fits features, the columns it needs are read into memory; a ready ``candidate`` needs only
        grouped counts.
    outcome : str
        The column y: 0/1 for ``accuracy``, ``tpr``, ``tnr`` and ``fpr``; any number for the other utilities.
    groups : str or list
        A column, or several (their intersections are the groups).
    status_quo : str
        The algorithm in use: 0/1 decisions, or a score that ``capacity`` turns into decisions.
    features : list of str, optional
        The columns a rule may use, and the x of your own utilities.
    candidate : str, list or mapping, optional
        Instead of a rule: a column of ready decisions or scores, tested on all rows. Several columns, or a mapping from
        names to columns, are adjusted for one another, and the result is a dossier of all of them.
    rule : str, estimator, callable, list or iso.group_aware, optional
        What finds the candidate: ``"linear"``, ``"lasso"``, ``"random_forest"``, ``"boosting"``,
        ``"group_thresholds"``, ``"milp"``, ``"reductions"``, any scikit-learn estimator, or any callable
        ``rule(training) -> algorithm``. From a list, the rule that does best on a part of the training rows is chosen.
        ``iso.group_aware("linear")`` lets the rule use the group.
    capacity : float or iso.above, optional
        The share of the rows to select: exactly the highest scores of the rows that both are judged on, with those tied
        at the cut-off selected with equal probability. ``iso.above(0.5)`` selects scores strictly above 0.5.
    accuracy : str, Utility or mapping, default "outcome_among_selected"
        A name (see `isonomy.alternatives.READY`), a `Utility`, or a mapping ``{"utility": ..., "outcome": ...,
        "weights": ...}``. By default every group must gain; with weights there is one accuracy, over all rows
        (``"pooled"``) or a weighted sum (a mapping by group).
    fairness : str, Utility, mapping, list of them, or iso.protected, optional
        Utilities that must all become less unequal, or a criterion such as ``"equalized_odds"``. By default the
        accuracy utility. ``iso.protected(group, utility)`` is one-sided: only gaps at the expense of this group
        count.
    gain : iso.gain, optional
        How much better the alternative must be: ``iso.gain(accuracy=0.0, fairness=0.0, margin=0.0,
        scale="ratio")``.
    method : {"published"}, iso.crossfit or iso.splits, optional
        By default ``iso.crossfit(folds=5, repeats=3)`` for a rule, and one test on all rows for ready candidates.
        ``iso.splits(7)`` makes rounds of split, select and test, merged as exchangeable p-values. ``"published"``
        is the paper's procedure: 7 rounds with cut-offs learned from the training part, a bootstrap of the absolute
        gap with 10,000 resamples, and twice the median of the p-values. ``n_jobs`` and ``progress`` of ``crossfit`` and
        ``splits`` are the number of processes and a progress bar.
    tried : list of mappings, optional
        The alternatives tried before this call, such as ``{"what": "a linear rule", "seed": 7, "date": "2025-03-01"}``.
        Each counts as an attempt in the p-value, and stays in the result's log.
    alpha : float, default 0.05
        The error rate.
    min_size : int, default 10
        The fewest rows of a group in the table, or in either part of a split.
    rng : int or numpy.random.Generator, optional
        A seed; by default a fresh one is drawn and recorded.
    **rows
        count, weight, cluster, missing, missing_group: how rows are read; see `isonomy.RowOptions`. The capacity is a
        share of the weight. Folds and splits keep clusters whole, and every group needs 10 effective clusters.

    Returns
    -------
    ImprovabilityResult
        ``to_frame()`` has one row per trial (a candidate, a round, or all folds) and criterion: candidate, criterion,
        round, group, against, metric, n, estimate (the alternative's), reference (the status quo's), disparity (the
        gain), ci_low, ci_high, pvalue, adjusted_pvalue, verdict, status, selected and selected_status_quo (the shares
        selected; NaN for prices).

    Notes
    -----
    The test misleads if rows are not independent, if the decision changes the outcome, and if rules are tried until one
    rejects without being named in ``tried``. Cross-fitting relies on rules that change little when one row changes. A
    result that does not reject shows little: another rule might find an alternative.

    References
    ----------
    Auerbach, E., Liang, A., Okumura, K. and Tabord-Meehan, M. (2025), Testing the Fairness-Accuracy Improvability of
    Algorithms: definition 2, section 3, corollary 1. Gasparin, M., Wang, R. and Ramdas, A. (2025), Combining
    exchangeable p-values.

    Examples
    --------
    >>> import numpy as np
    >>> import isonomy as iso
    >>> rng = np.random.default_rng(1)
    >>> group, need = rng.integers(0, 2, 8000), rng.poisson(2, 8000)
    >>> data = {"group": group, "need": need, "cost_score": need + 2.0 * group + rng.normal(0, 2, 8000),
    ...         "need_score": need + rng.normal(0, 0.5, 8000)}
    >>> result = iso.improvability(data, outcome="need", groups="group", status_quo="cost_score",
    ...     candidate="need_score", capacity=0.1, rng=1)
    >>> result.reject, result.pvalue < 0.05
    (True, True)
    """
    plan, rng, record = open_call("improvability", ImprovabilityPlan, locals())
    cases, dropped = read(plan)

    def track(results: Iterable[Any], total: int) -> Iterable[Any]:
        return tracked(results, words.PROGRESS, total, bar=getattr(cases.method, "progress", False))

    trials, reports = run_trials(cases, rng, track)
    columns = estimate(trials, cases, plan)
    decisions = decide(columns, plan)
    generator = rng.spawn(1)[0]  # drawn whatever the verdict
    shown = decisions["verdict"] is Verdict.VIOLATION
    return ImprovabilityResult(
        **columns,
        **decisions,
        null=words.null(cases.rule_name, cases.criteria),
        notes=notes(trials, reports, cases),
        provenance=record(rows=cases.rows, dropped=dropped, grouping=plan.request.grouping),
        members=cases.groups,
        rule=cases.rule_name,
        basis=plan.basis,
        folds=getattr(cases.method, "folds", 0),
        repeats=getattr(cases.method, "repeats", 0),
        tried=tuple(dict(entry) for entry in plan.tried or ()),
        margin=plan.gain.margin,
        scale=plan.gain.scale,
        alpha=plan.alpha,
        words={utility.name: plan.called(utility) for utility in plan.utilities},
        protected=cases.criteria.protected_label,
        recommended=recommend(cases, trials, plan.candidates, plan.groups, generator) if shown else None,
    )


# ---- plan


@dataclass(frozen=True, eq=False, kw_only=True)
class ImprovabilityPlan(Plan):
    outcome: str
    groups: Groups
    status_quo: str
    features: Names | None
    candidate: Candidates
    rule: object
    capacity: float | Above | None
    accuracy: UtilityLike
    fairness: UtilityLike | Sequence[UtilityLike] | Protected | None
    gain: Gain
    method: Literal["published"] | Crossfit | Splits | None
    tried: Sequence[Mapping[str, str | float]] | None
    alpha: float
    min_size: int

    def __post_init__(self) -> None:
        if (self.rule is None) == (self.candidate is None):
            raise MissingRole("rule, candidate: give exactly one: a rule that searches, or a candidate column.")
        self.source.require(outcome=self.outcome)
        ready, resampled = self.candidates, self.basis in ("bootstrap", "published")
        outcomes = {self.outcome, *(u.outcome for u in self.utilities if u.outcome is not None)}
        read = {"features": self.names, "candidate": ready.values(), "status_quo": (self.status_quo,)}
        refusals = (
            (
                ready and self.names and all(utility.ready for utility in self.utilities),
                "features: a ready candidate needs none; leave them out, or give a rule.",
            ),
            (
                ready and self.basis == "crossfit",
                "method: a ready candidate needs no cross-fitting; leave it out to use all rows.",
            ),
            (
                len(ready) > 1 and self.settled is not None,
                "candidate: several are tested on all rows; leave method out.",
            ),
            (
                resampled and self.source.designed,
                "weight, cluster: the bootstrap resamples single rows; choose another method.",
            ),
            (
                isinstance(self.gain.accuracy, Mapping) and accuracy_utility(self.accuracy)[1] is not None,
                "gain: one accuracy is tested (accuracy has weights), so give one number for accuracy.",
            ),
            *(
                (name in outcomes, f"{argument}: {name!r} is an outcome, which is unknown when the decision is made.")
                for argument, columns in read.items()
                for name in sorted(columns)
            ),
        )
        _ = self.fairness_gains, self.fitted, self.request
        for refused, message in refusals:
            if refused:
                raise UsageError(message)

    @property
    def names(self) -> tuple[str, ...]:
        return (self.features,) if isinstance(self.features, str) else tuple(self.features or ())

    @cached_property
    def candidates(self) -> dict[str, str]:
        given = self.candidate
        if given is None:
            return {}
        if not isinstance(given, (str, Sequence, Mapping)) or not given:
            raise UsageError(f"candidate: {shown(given)} is not allowed; give a column, or a list of columns.")
        listed = [given] if isinstance(given, str) else list(given)
        ready: dict[str, str] = {}
        for name in listed:
            column_name = given[name] if isinstance(given, Mapping) else name
            if not isinstance(column_name, str):
                raise UsageError(f"candidate: {shown(column_name)} is not the name of a column; give text.")
            if str(name) in ready:
                raise UsageError(f"candidate: {shown(name)} is named twice; name each candidate once.")
            ready[str(name)] = column_name
        return ready

    @property
    def settled(self) -> Method:
        if self.method == "published":
            return PUBLISHED
        return Crossfit() if self.method is None and self.rule is not None else self.method

    @property
    def basis(self) -> Basis:
        if not isinstance(self.settled, Splits):
            return "whole" if self.settled is None else "crossfit"
        if self.settled.resamples is None:
            return "splits"
        return "published" if self.settled.published else "bootstrap"

    @property
    def attempts(self) -> int:
        """How many alternatives were tried, each of which counts in the p-value."""
        return max(1, len(self.candidates)) + len(self.tried or ())

    @cached_property
    def utilities(self) -> tuple[Utility, ...]:
        accuracy, _ = accuracy_utility(self.accuracy)
        fairness: Any = self.fairness.utility if isinstance(self.fairness, Protected) else self.fairness
        return (accuracy, *fairness_utilities(fairness, accuracy))

    @cached_property
    def fairness_gains(self) -> tuple[float, ...]:
        gain, names = self.gain.fairness, [utility.name for utility in self.utilities[1:]]
        if not isinstance(gain, Mapping):
            return (float(gain),) * len(names)
        if set(gain) != set(names):
            raise UsageError(f"gain: fairness={dict(gain)!r}; give one number for each of {', '.join(names)}.")
        return tuple(float(gain[name]) for name in names)

    @cached_property
    def fitted(self) -> tuple[SelectionRule | None, str]:
        return (None, words.CANDIDATE) if self.rule is None else selection_rule(self.rule, features=self.names)

    def called(self, utility: Utility) -> str:
        return self.source.labels.metrics.get(utility.name, utility.name)

    @cached_property
    def columns(self) -> dict[str, str]:
        others = {f"outcome of {self.called(u)}": u.outcome for u in self.utilities if u.outcome is not None}
        return {
            "outcome": self.outcome,
            "status_quo": self.status_quo,
            **{f"candidate[{name}]": column for name, column in self.candidates.items()},
            **others,
            **{f"features[{name}]": name for name in self.names},
        }

    @cached_property
    def texts(self) -> tuple[str, ...]:
        return tuple(name for name in self.names if is_category(self.source.schema[name]))

    @property
    def by_row(self) -> bool:
        """Whether single rows are read: features, weights and clusters are not counted in cells."""
        return bool(self.names) or self.source.designed

    @cached_property
    def request(self) -> Request:
        source = self.source
        source.require(**self.columns)
        two_valued = any(u.binary_outcome and u.outcome is None for u in self.utilities)
        binary = {"outcome": self.outcome} if two_valued else {}
        aside = (*binary, *(f"features[{name}]" for name in self.texts))
        numeric = {role: name for role, name in self.columns.items() if role not in aside}
        keys = {} if self.by_row else {f"{role} value": number(name) for role, name in numeric.items()}
        if (weight := source.reading["weight"]) is not None:
            numeric[WEIGHT] = weight
        return Request(
            grouping=intersections(source, self.groups),
            binary=binary,
            numeric=numeric,
            keys=keys
            | {f"text {name}": text(name) for name in self.texts}
            | ({} if source.cluster is None else {CLUSTER: text(source.cluster)}),
            labels={f"features[{name}]": name for name in self.texts},
        )

    @property
    def requests(self) -> tuple[Request, ...]:
        return () if self.by_row else (self.request,)

    def criteria(self, members: Sequence[Group]) -> Criteria:
        accuracy, *fairness = (replace(utility, name=self.called(utility)) for utility in self.utilities)
        protected = self.fairness if isinstance(self.fairness, Protected) else Protected(None)
        weights, gain = accuracy_utility(self.accuracy)[1], self.gain.accuracy
        worse = {"higher": "lower", "lower": "higher"}
        criteria = Criteria(
            accuracy,
            tuple(fairness),
            tuple(group.label for group in members),
            weights=by_group("accuracy", members, weights) if isinstance(weights, Mapping) else weights,
            scale=self.gain.scale,
            protected=None if protected.group is None else group_code("protected", members, protected.group),
            # +1 if having less of the utility is the disadvantage, -1 if having more is.
            harm=tuple(1 if (protected.disadvantage or worse[u.better]) == "lower" else -1 for u in fairness),
            fairness_gains=self.fairness_gains,
            capacity=None if isinstance(self.capacity, Above) else self.capacity,
            threshold=self.capacity.threshold if isinstance(self.capacity, Above) else None,
        )
        if isinstance(gain, Mapping):
            gains = tuple(by_group("gain", members, gain).tolist())
        else:
            gains = (float(gain) - self.gain.margin,) * len(criteria.accuracies)
        return replace(criteria, accuracy_gains=gains)


# ---- read


def read(plan: ImprovabilityPlan) -> tuple[Cases, Mapping[str, int]]:
    """The distinct lines the method needs, with what is compared on them, and the rows dropped.

    Splits are drawn over lines in canonical order. So no number depends on the order of rows, on the engine that holds
    them, or on whether equal rows come once with a count or many times.
    """
    source, levels = plan.source, {}
    if plan.by_row:
        sample = source.rows(plan.request)
        held = dict(sample.columns)
        for name in plan.texts:
            distinct, held[f"features[{name}]"] = np.unique(held[f"text {name}"].astype(str), return_inverse=True)
            levels[name] = tuple(distinct.tolist())
    else:
        sample = source.cells(plan.request)
        held = {role.removesuffix(" value"): values for role, values in sample.columns.items()}
    weight, partition = sample.counts, sample.partitions[-1]
    if len(partition.groups) < 2:
        formed = f"one group ({partition.groups[0]})" if partition.groups else "no group"
        raise OneGroup(
            f"groups: the rows form {formed}; improvability compares at least two. "
            "Name a column with two values or more."
        )
    mass = held.get(WEIGHT, np.ones(len(weight)))
    cluster = [np.unique(held[CLUSTER].astype(str), return_inverse=True)[1]] if CLUSTER in held else []
    columns = [partition.codes, *(held[role] for role in plan.columns), mass, *cluster]
    lines = collapse(columns, weights=np.where((partition.codes >= 0) & (mass > 0), weight, 0.0))
    if lines.total >= LARGEST:
        raise UsageError(f"data: {lines.total:,.0f} rows; splits are drawn over fewer than {LARGEST:,}.")
    codes, *values = np.ascontiguousarray(lines.values.T)
    clusters = np.unique(values.pop(), return_inverse=True)[1] if cluster else None
    mass, count = values.pop(), np.rint(lines.counts).astype(np.int64)
    values_of = dict(zip(plan.columns, values, strict=True))
    named = [utility for utility in plan.utilities if utility.outcome is not None]
    features = {name: values_of[f"features[{name}]"] for name in plan.names}
    criteria = plan.criteria(partition.groups)
    cases = Cases(
        groups=partition.groups,
        people=People(features, codes.astype(np.intp), criteria.labels, levels),
        outcomes={None: values_of["outcome"], **{u.outcome: values_of[f"outcome of {plan.called(u)}"] for u in named}},
        status_quo=values_of["status_quo"],
        candidates={name: values_of[f"candidate[{name}]"] for name in plan.candidates},
        weight=count,
        mass=mass * (count.sum() / (mass @ count)),
        cluster=clusters,
        criteria=criteria,
        rule=plan.fitted[0],
        rule_name=plan.fitted[1],
        method=plan.settled,
        alpha=plan.alpha / plan.attempts,
        min_size=plan.min_size,
    )
    return cases, sample.dropped


# ---- estimate


def estimate(trials: Sequence[Trial], cases: Cases, plan: ImprovabilityPlan) -> dict[str, Any]:
    """The columns of every trial, one after the other, what has one entry per trial, and the gains supported."""
    parts, places = [trial["columns"] for trial in trials], np.arange(len(trials))
    size, in_rounds = len(parts[0]["criteria"]), isinstance(cases.method, Splits)
    names = list(cases.candidates) or [cases.rule_name]
    # Rates are shares of people. So is an outcome that another utility needs to be 0 or 1.
    used, accuracies = plan.utilities, len(cases.criteria.accuracies)
    binary = any(utility.binary_outcome and utility.outcome is None for utility in used)
    shares = [u.name in RATES or (binary and u.outcome is None and u.name.startswith("outcome_among_")) for u in used]
    tested = tuple(trial["requirements"] for trial in trials)
    before = np.stack([part["reference"][:-1] for part in parts])
    gains, cuts = (np.linspace(low, 1, size) for low, size in zip((-1, 0), comparison.GRID, strict=True))
    if plan.gain.scale == "difference":  # the paper's grid of ratios, times the largest values of the status quo
        gains *= float(np.abs(before[:, :accuracies]).max()) or 1.0
        cuts *= float(before[:, accuracies:].max()) or 1.0
    curves = comparison.curves(tested, gains, cuts, MERGES[plan.basis], plan.attempts)
    fairness, accuracy = (
        comparison.largest_supported(tested, kind, curves, plan.alpha, plan.gain.margin)
        for kind in ("fairness", "accuracy")
    )
    return {
        **join_tables(parts),
        "candidate": tuple(names[0 if in_rounds else place] for place in places for _ in range(size)),
        "rounds": np.repeat(places + 1 if in_rounds else np.ones_like(places), size),
        **{name: np.stack([trial[name] for trial in trials]) for name in BY_TRIAL},
        "share": np.tile([*[shares[0]] * accuracies, *shares[1:], False], len(trials)),
        "undefined": np.array([0 if part is None else part.undefined for part in tested]),
        "distance": np.array([np.nan if part is None else part.distance for part in tested]),
        "details": tuple(dict(trial["report"].details) for trial in trials),
        "curves": curves,
        "supported_fairness_gain": fairness,
        "supported_accuracy_gain": accuracy,
    }


# ---- decide


def decide(columns: Mapping[str, Any], plan: ImprovabilityPlan) -> dict[str, Any]:
    """Conclude from the p-value of each candidate, or of all rounds together; every earlier attempt counts.

    The verdict on a candidate stands in its line for all criteria. Rounds have one verdict together.
    """
    overall, merge = np.array(columns["criteria"]) == "all", MERGES[plan.basis]
    trials = columns["pvalues"][overall]
    tested = trials if merge == "smallest" else [float(comparison.combined(trials, merge))]
    concluded = conclude([*tested, *[1.0] * len(plan.tried or ())], alpha=plan.alpha, adjust="holm")
    adjusted = np.full(len(overall), np.nan)
    adjusted[overall] = concluded.adjusted[: len(tested)]
    verdicts = iter(concluded.verdicts[: len(tested)] * (len(trials) // len(tested)))
    return {
        "adjusted_pvalue": adjusted,
        "verdicts": tuple(next(verdicts) if whole else Verdict.INCONCLUSIVE for whole in overall),
        "verdict": concluded.verdict,
        "pvalue": float(comparison.combined(trials, merge, plan.attempts)),
        "median_pvalue": float(comparison.median(trials)),
    }


def notes(trials: Sequence[Trial], reports: Sequence[SearchReport], cases: Cases) -> tuple[Note, ...]:
    criteria, method, known, result = cases.criteria, cases.method, list(cases.candidates), list[Note]()
    in_rounds = isinstance(method, Splits)
    tested = {place: trial for place, trial in enumerate(trials) if trial["requirements"] is not None}
    tests = {place: trial["requirements"] for place, trial in tested.items()}

    def add(code: str, places: Sequence[int], groups: Collection[str] = (), **values: Any) -> None:
        if places:
            names = [str(p + 1) if in_rounds else repr(known[p]) for p in places if in_rounds or cases.several]
            result.append(Note(code, tuple(groups), {"trials": tuple(names), "rounds": in_rounds, **values}))

    fits = method.folds * method.repeats if isinstance(method, Crossfit) else len(trials)
    failures = [report for report in reports if not report.succeeded]
    if lost := [place for place in range(len(trials)) if place not in tested]:
        report = trials[lost[0]]["report"]
        add("nothing_found", lost, report.groups, reason=report.note or "no reason given")
    elif failures:
        values = {"folds": len(failures), "fits": fits, "reason": failures[0].note}
        result.append(Note("folds_lost", values=values))
    remarks = [report.note for report in reports if report.succeeded and report.note]
    counted = {remark: remarks.count(remark) for remark in remarks}
    result += [Note("rule_remark", values={"folds": k, "fits": fits, "remark": note}) for note, k in counted.items()]
    late = [place for place, trial in tested.items() if trial["report"].status == Status.TIME_LIMIT]
    add("solver_stopped", late)
    undefined = {place: part.undefined for place, part in tests.items() if part.undefined}
    resamples = cases.bootstrap.resamples if cases.bootstrap else 0
    add("undefined_resamples", list(undefined), most=max(undefined.values(), default=0), resamples=resamples)
    few = {place: part.fewest for place, part in tests.items() if part.fewest < FEW}
    add("few_in_denominator", list(few), fewest=min(few.values(), default=np.inf), utility=criteria.accuracy.name)
    same = {place: trial["identical"] for place, trial in tested.items()}
    add("same_decisions", [place for place, identical in same.items() if identical.all()])
    for i, name in enumerate(criteria.accuracies):
        untouched = [place for place, identical in same.items() if identical[i] and not identical.all()]
        group = (name,) if criteria.weights is None else ()
        add("untouched_group", untouched, group, name=name)
    for k, utility in enumerate(criteria.fairness, start=len(criteria.accuracies)):
        if criteria.protected is not None:
            zero = [place for place, trial in enumerate(trials) if trial["columns"]["reference"][k] == 0]
            add("not_disadvantaged", zero, (criteria.protected_label,), utility=utility.name)
    if cases.bootstrap:
        equal = [place for place, trial in tested.items() if trial["candidate_distance"] < NEAR]
        add("candidate_near_fair", equal, utility=criteria.fairness[0].name)
    distance = float(np.median([part.distance for part in tests.values()])) if tests else np.inf
    if distance < NEAR:
        names = ", ".join(utility.name for utility in criteria.fairness)
        result.append(Note("near_fair", values={"utility": names, "distance": distance}))
    ready = cases.rule is None and criteria.capacity is None
    if ready and cases.training_share:
        several = len(criteria.pairs) > 1 and len(trials) == 1
        result.append(Note("split_for_pairs" if several else "nothing_learned"))
    return tuple(result)


# ---- evidence


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ImprovabilityResult(Evidence):
    """The dossier: every trial and criterion, and one p-value for all of them.

    A trial is a ready candidate, a round of splitting, or all folds together. Its lines are the accuracies (one per
    group, or one if accuracy is pooled or weighted), the unfairness in each fairness utility (between the status quo's
    most unequal groups), and all criteria together. ``disparity`` is the gain, or the cut, with limits that hold for
    all gains of the result at once; the bootstrap has none.

    Attributes
    ----------
    pvalue : float
        One p-value for all trials and all named attempts. The null is rejected if it is at most ``alpha``.
    median_pvalue : float
        The smallest median of the trials' p-values, compared with alpha / 2 in the paper.
    adjusted_pvalue, verdicts : array and tuple
        In the line for all criteria: those of each candidate, adjusted by Holm over candidates and earlier attempts, or
        those of all rounds together.
    supported_fairness_gain, supported_accuracy_gain : float
        The largest gain at which the test still rejects if the other gain is 0: lower confidence bounds. NaN if none.
    protected : str
        The group at whose expense gaps count; empty if every gap counts.
    recommended : Recommendation or None
        The rule's algorithm refitted on all rows if the test rejects, else None. Its estimates are not independent.
    cutoffs, train_rows, test_rows, undefined, distance, details : arrays and tuple
        One entry per trial: cut-offs of the candidate and the status quo (NaN for ready decisions), training rows, rows
        judged by group, resamples with an empty denominator, standard errors of the status quo's unfairness from zero,
        and what the rule reports.
    candidate_distance, correlation, eigenvalue, least_share : arrays
        One entry per trial, about the paper's assumptions: standard errors of the candidate's unfairness from zero
        (Theorem 2), the largest correlation of the two algorithms' utilities and the smallest eigenvalue of the
        correlation matrix of all utilities (Assumption 3), and the smallest share of a group's rows in a denominator
        (Assumption 2).
    """

    method: ClassVar[str] = words.METHOD
    references: ClassVar[tuple[str, ...]] = words.REFERENCES

    candidate: tuple[str, ...] = column("Candidate", withheld=False)
    criteria: tuple[str, ...] = column(name="criterion", withheld=False)
    rounds: NDArray[np.int64] = column("Round", name="round", withheld=False)
    against: tuple[str, ...] = column(withheld=False)
    metric: tuple[str, ...] = column("Metric", withheld=False)
    n: FloatArray = column("Rows judged", count=True)
    estimate: FloatArray = column("Alternative")
    reference: FloatArray = column("Status quo")
    disparity: FloatArray = column("Gain, or cut")
    ci_low: FloatArray = column()
    ci_high: FloatArray = column()
    pvalues: FloatArray = column(name="pvalue", withheld=False)
    adjusted_pvalue: FloatArray = column(withheld=False)
    verdicts: tuple[Verdict, ...] = column(name="verdict", withheld=False)
    selected: FloatArray = column("Selected by the alternative", unit="%", withheld=False)
    selected_status_quo: FloatArray = column("Selected by the status quo", unit="%", withheld=False)
    candidate_pair: tuple[str, ...] = column("Most unequal with the alternative", withheld=False)
    share: BoolArray = column(listed=False, withheld=False)  # whether sizes are shares of people
    members: tuple[Group, ...]
    rule: str
    basis: Basis
    folds: int
    repeats: int
    tried: tuple[Mapping[str, object], ...]
    margin: float
    scale: Scale
    alpha: float
    pvalue: float = field(metadata=POOLED)
    median_pvalue: float = field(metadata=POOLED)
    supported_fairness_gain: float = field(metadata=POOLED)
    supported_accuracy_gain: float = field(metadata=POOLED)
    words: Mapping[str, str]  # what readers call each utility, by its name in the call
    protected: str = ""
    cutoffs: FloatArray | None = field(metadata=OF_ROWS)  # scores of single people
    train_rows: NDArray[np.int64]
    test_rows: NDArray[np.int64]
    undefined: NDArray[np.int64]
    distance: FloatArray
    candidate_distance: FloatArray
    correlation: FloatArray
    eigenvalue: FloatArray
    least_share: FloatArray
    details: tuple[Mapping[str, float], ...]
    curves: GainCurves
    recommended: Recommendation | None = None

    @property
    def reject(self) -> bool:
        """Whether an alternative was shown to exist."""
        return self.verdict is Verdict.VIOLATION

    @property
    def trials(self) -> int:
        return len(self.train_rows)

    @property
    def in_rounds(self) -> bool:
        """Whether the trials are rounds of splitting."""
        return self.basis in ("splits", "bootstrap", "published")

    def lines(self, criterion: str) -> NDArray[np.intp]:
        """The lines of a criterion, "accuracy", "unfairness" or "all": (trials, components)."""
        return np.flatnonzero(np.array(self.criteria) == criterion).reshape(self.trials, -1)

    def values(self, criterion: str, name: str) -> FloatArray:
        """A column by trial: ``values("accuracy", "estimate")`` has one row per trial, one column per accuracy."""
        return np.asarray(getattr(self, name))[self.lines(criterion)]

    @property
    def round_pvalues(self) -> FloatArray:
        """The p-value of each trial: the largest of its criteria's."""
        return self.pvalues[self.lines("all")[:, 0]]

    @property
    def candidates(self) -> tuple[str, ...]:
        """The names of ready candidates."""
        return tuple(dict.fromkeys(self.candidate)) if self.rule == words.CANDIDATE else ()

    @property
    def alternatives(self) -> tuple[str, ...]:
        """The candidates (or the rule) that were shown to be alternatives."""
        shown = [self.candidate[i] for i in self.lines("all")[:, 0] if self.verdicts[i] is Verdict.VIOLATION]
        return tuple(dict.fromkeys(shown))

    @property
    def log(self) -> tuple[dict[str, object], ...]:
        """Everything that was tried: the named attempts, then those of this call with their seed and p-values."""
        seed = None if self.provenance.seed is None else self.provenance.seed.entropy
        tested: dict[str, dict[str, object]] = {
            self.candidate[i]: {
                "what": self.candidate[i],
                "method": self.basis,
                "seed": seed,
                "adjusted pvalue": float(self.adjusted_pvalue[i]),
                "verdict": self.verdicts[i].value,
            }
            for i in self.lines("all")[:, 0]
        }
        return (*(dict(entry) for entry in self.tried), *tested.values())

    def table(self) -> Columns:
        """One row per trial and criterion, with what the rule reports for each trial."""
        size = len(self.criteria) // self.trials
        reported = {
            f"rule {name}": np.repeat([details.get(name, np.nan) for details in self.details], size)
            for name in sorted({name for details in self.details for name in details})
        }
        return {**Evidence.table(self), **reported}

    def pages(self) -> Mapping[str, Columns]:
        """For readers: one row per candidate and criterion, then one row per candidate."""
        if self.in_rounds:
            return {}
        whole = {**self.table(), "criterion": [words.criterion(self, i) for i in range(len(self.criteria))]}
        overall = self.lines("all")[:, 0].tolist()
        others = [i for i, kind in enumerate(self.criteria) if kind != "all"]
        pairs = [
            "; ".join(f"{self.labels[i]} against {self.against[i]}" for i in row) for row in self.lines("unfairness")
        ]

        def page(names: str, rows: Sequence[int]) -> dict[str, Any]:
            return {name: [whole[name][i] for i in rows] for name in names.split()}

        compared = page("candidate criterion estimate reference pvalue disparity ci_low ci_high", others)
        tested = page("candidate verdict pvalue adjusted_pvalue selected selected_status_quo status", overall)
        return {words.COMPARED: compared, words.ALTERNATIVES: tested | {"worst_pair": pairs}}

    def key_line(self) -> int | None:
        """The cut in unfairness that is smallest, in the round or by the candidate with the smallest p-value."""
        lines = self.lines("unfairness")[int(np.argmin(self.round_pvalues))]
        return int(lines[np.argmin(self.disparity[lines])])

    def units(self) -> Mapping[str, str]:
        """Gains are percentages if they are ratios; sizes are, if all are shares or differences of shares."""
        gains = ("disparity", "ci_low", "ci_high") if self.scale == "ratio" else ()
        sizes = ("estimate", "reference") if self.share[np.array(self.criteria) != "all"].all() else ()
        return {**Evidence.units(self), **dict.fromkeys(gains, "%"), **dict.fromkeys(sizes, "%, unfairness in points")}

    def welfare(self, weights: Mapping[str, float] | None = None, unfairness: float = 0.0) -> Any:
        """What both algorithms are worth by the welfare criteria of the paper's Remark 3, averaged over trials.

        Utilitarian (groups count by their rows), Rawlsian (the worst-off group) and, with ``weights`` by group label,
        weighted: sum of weight times accuracy, less ``unfairness`` times the largest unfairness. An alternative that is
        shown to be more accurate for every group and less unequal is better by all of them.
        """
        if len(self.lines("accuracy").T) != len(self.members):
            raise UsageError("welfare: accuracy has weights already; leave them out to have one accuracy per group.")
        check("unfairness", unfairness, Annotated[float, Number(least=0)])
        weight = None if weights is None else by_group("weights", self.members, weights)
        if weight is not None and not (weight > 0).all():
            raise UsageError(f"weights: {dict(weights or {})!r} is not allowed; give numbers above 0.")
        share, worth = self.test_rows.sum(axis=0) / self.test_rows.sum(), {}
        for side, name in (("alternative", "estimate"), ("status_quo", "reference")):
            accuracy = np.nanmean(self.values("accuracy", name), axis=0)
            worth[side] = [float(share @ accuracy), float(accuracy.min())]
            if weight is not None:
                gap = float(np.nanmean(self.values("unfairness", name).max(axis=1)))
                worth[side].append(float(weight @ accuracy) - unfairness * gap)
        criteria = ["utilitarian", "Rawlsian", "weighted"][: len(worth["alternative"])]
        gain = np.subtract(worth["alternative"], worth["status_quo"])
        return as_frame({"criterion": criteria, **worth, "gain": gain}, None, self.provenance.backend)

    def surface(self) -> SurfaceResult:
        """p-values over the paper's grid of required gains: accuracy gains from -1 to 1, fairness gains from 0 to 1.

        With ``scale="difference"`` the grid is multiplied by the largest accuracy and unfairness of the status quo.
        """
        pvalues = self.curves.pvalues()
        gains, cuts = np.meshgrid(self.curves.accuracy_gains, self.curves.fairness_gains, indexing="ij")
        return SurfaceResult(
            null=words.SURFACE_NULL,
            # Some gain is supported exactly if the test of no gain rejects.
            verdict=Verdict.INCONCLUSIVE if np.isnan(self.supported_fairness_gain) else Verdict.VIOLATION,
            notes=self.notes,
            provenance=self.provenance,
            accuracy_gain=gains.ravel(),
            fairness_gain=cuts.ravel(),
            pvalue=pvalues.ravel(),
            supported=rejected(pvalues, self.alpha).ravel(),
            alpha=self.alpha,
            scale=self.scale,
            supported_fairness_gain=self.supported_fairness_gain,
            supported_accuracy_gain=self.supported_accuracy_gain,
        )

    def findings(self) -> tuple[str, ...]:
        """The conclusion, the sizes, the largest gains supported."""
        several = len(self.candidates) > 1
        used = [int(np.argmin(self.round_pvalues))] if several else list(range(self.trials))
        best = self.candidates[used[0]] if several else ""
        effects = [lines for name in ("accuracy", "unfairness") for lines in self.lines(name)[used].T]
        return (
            words.conclusion(self),
            *((words.log(self, best),) if len(self.log) > 1 else ()),
            *(words.effect(self, lines.tolist()) for lines in effects),
            *words.supported(self, self.margin),
            *(() if np.isnan(self.selected).any() else (words.selected(self, self.lines("all")[used, 0].tolist()),)),
            *(() if self.recommended is None or self.candidates else (words.recommended(self.rule),)),
        )

    def assumptions(self) -> tuple[tuple[str, str], ...]:
        return words.assumptions(self)

    def limits(self) -> tuple[str, ...]:
        return words.limits(self)

    def plot(self) -> alt.TopLevelMixin:
        """Accuracy and unfairness of both algorithms in every trial, and the surface of p-values.

        For several candidates, the frontier: what each does to the worst group's accuracy, and to unfairness.
        """
        from isonomy.alternatives.charts import result_chart

        return result_chart(self)

    def to_dict(self, *, rows: bool = False) -> dict[str, object]:
        """The result in plain JSON types, without the recommended algorithm itself. ``rows``: with cut-offs."""
        best = self.recommended and replace(self.recommended, algorithm=None, inputs=None)
        return Evidence.to_dict(replace(self, recommended=best), rows=rows)

    # ---- disclosure

    def withheld_labels(self) -> tuple[frozenset[str], frozenset[str]]:
        """The names of the groups that are withheld, and of those that are not."""
        labels, shown = np.array([group.label for group in self.members]), self.test_rows.any(axis=0)
        return frozenset(labels[~shown].tolist()), frozenset(labels[shown].tolist())

    def suppressed(self, minimum: int, also: Collection[str] = ()) -> Self:
        """A copy without cut-offs, and without the numbers of groups with fewer than ``minimum`` rows judged.

        If a group is withheld, so is every unfairness: a gap between two groups would reveal the small one.
        """
        best = self.recommended and replace(self.recommended, cutoff=None, algorithm=None, inputs=None)
        bare = replace(self, cutoffs=None, recommended=best)
        fewest = self.test_rows.min(axis=0).astype(float)
        small = (fewest < minimum) | np.array([group.label in also for group in self.members], dtype=bool)
        small = withheld(self.members, fewest, small, minimum)
        if not small.any():
            return bare
        hidden = [group.label for group, hide in zip(self.members, small, strict=True) if hide]
        lines = np.isin(self.labels, hidden) | (np.array(self.criteria) == "unfairness")
        unknown: dict[str, Any] = {name: np.full(self.trials, np.nan) for name in BY_TRIAL[3:]}
        unknown |= {name: np.full(len(self.labels), np.nan) for name in ("pvalues", "adjusted_pvalue")}
        curves = {name: np.full_like(getattr(self.curves, name), np.nan) for name in ("accuracy", "fairness")}
        return replace(
            bare.hide(lines),
            verdict=self.verdict,
            test_rows=np.where(small, 0, self.test_rows),
            recommended=None,
            details=({},) * self.trials,
            curves=replace(self.curves, **curves),
            status=(Status.SUPPRESSED,) * len(self.status),
            **unknown,
        )
