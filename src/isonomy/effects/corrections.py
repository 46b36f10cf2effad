"""Corrections of predicted effects: how much bias each of them leaves, on rows that were not used to find it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Unpack

import narwhals as nw
import numpy as np

from isonomy.effects import experiment, words
from isonomy.effects.bias import other_measure, unanswered
from isonomy.effects.estimators import shrinkage
from isonomy.effects.estimators.collapse import AnyMeasure, Estimator, Relative
from isonomy.effects.estimators.errors import Errors, GroupEffects, effects_of, others_shares
from isonomy.effects.estimators.events import least_events
from isonomy.effects.estimators.moments import ArmMoments, Clustered, Sums, draw_moments
from isonomy.effects.experiment import MOVED, Experiment, Trial, TrialPart
from isonomy.errors import UsageError
from isonomy.frames import Group, Groups, Request
from isonomy.inference import Verdict, rejected
from isonomy.inference.effect import Wald
from isonomy.inference.multiplicity import weighted_holm
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray
from isonomy.numerics.status import Status
from isonomy.numerics.tails import normal_sf, t_sf
from isonomy.options import Alpha, Column, RowOptions, Seeded, Whole
from isonomy.results import Columns, Evidence, column, open_call, question
from isonomy.results.progress import tracked

if TYPE_CHECKING:
    import altair as alt

QUANTITIES = ("error", "bias")
DETECTED = ("detection_error", "detection_se", "detection_bias", "detection_statistic")  # axes: run, group
BY_GROUP = ("factor", "error", "bias", "bias_se", "error_pvalue", "bias_pvalue")  # axes: strategy, run, group
Halves = tuple[Sums, ...]  # the rows of a half; with an inner split, also those of either part of it


# ---- call


@question(
    "CorrectionsPlan",
    moved={
        **MOVED,
        "rest_correction": 'method="published" for one factor for the whole rest',
        "split": 'method=iso.heldout(split="...")',
        "variance": 'method=iso.heldout(over="cells") (or over="rows")',
        "splits": "method=iso.heldout(splits=...)",
        "resamples": "method=iso.heldout(resamples=...)",
        "progress": "method=iso.heldout(progress={})",
    },
    asks="Is less bias left after correcting the predicted effects?",
    topic="Corrections of predicted effects",
    meaning=words.meaning,
    badges={"violation": "Less bias shown", "inconclusive": "Corrections compared"},
    next_steps={
        "inconclusive": (
            "Do not adopt a correction because of this comparison alone: first try the one that leaves the least bias "
            "on new rows.",
        )
    },
    looks={"violation": "shown", "inconclusive": "compared"},
)
def evaluate_corrections(
    data: object = None,
    *,
    effect: Column,
    treatment: Column,
    outcome: Column,
    groups: Groups,
    measure: AnyMeasure | None = None,
    estimator: Estimator = "arm_means",
    strategies: Sequence[str | shrinkage.Custom] | None = None,
    form: shrinkage.Form = "additive",
    method: Literal["heldout", "published"] | shrinkage.Heldout | shrinkage.Published | shrinkage.Online = "heldout",
    alpha: Alpha = 0.05,
    depth: Whole = 1,
    min_size: Whole = 1,
    rng: Seeded = None,
    **rows: Unpack[RowOptions],
) -> CorrectionsResult:
    """How much of each group's error would remain after correcting the predicted effects?

    The rows are split at random into two halves. One half is used to detect each group's error B, with bootstrap
    replicates, and to find the factor gamma of each strategy. On the other half, gamma B is subtracted from the
    predictions of the group, and what remains of the error and of the bias is estimated. The halves then swap roles,
    and all of it is repeated for several splits. No row that found a correction is used to judge it, so the tests (50)
    and (51) of what remains are ordinary tests.

    Parameters
    ----------
    data : table
        Any table isonomy reads. It is read once, whatever the number of splits.
    effect, treatment, outcome, groups, estimator, depth, min_size, rng
        As in `treatment_bias`. Corrections are found with the ``observed_effects`` of an estimator, and what they leave
        is judged against the experiment of these rows.
    measure : {"relative", "difference"} or iso.relative(collapse), optional
        As in `treatment_bias`. The collapse "positives_inverse" is not linear in the effect and cannot be used.
    strategies : list of str or callable, optional
        Names out of "none", "mean", "significant" (42), "mse_plus" (46), "mse_minus" (47), "positive_part",
        "empirical_bayes", "empirical_bayes_t", "empirical_bayes_mixture" (see `EffectCorrector`), all by default;
        ``iso.least_risk(loss)``, which minimizes your own loss; or functions of two arrays, the errors of all groups
        and their standard errors, that return what is subtracted from each group's predictions. "none" is always
        evaluated.
    form : {"additive", "multiplicative"}, default "additive"
        Subtract the correction from every prediction of a group, or multiply them so that the group's effect falls by
        it: a relative effect then stays above 0.
    method : {"heldout", "published"}, iso.heldout(...), iso.published(...) or iso.online(arm), default "heldout"
        "heldout" stands for ``iso.heldout()``: 10 splits, each with its swap, and 50 bootstrap replicates on each half.
        "published" stands for ``iso.published()``: the paper's Algorithm 1, with rows resampled and divided anew into
        prediction and estimation sets in every replicate, the pooled rest with one factor for the whole rest, equation
        (20) for ratios (16 with a baseline), and the paper's five strategies unless others are named.
        ``iso.online(arm)``: every correction was used for people of its own (section 7.1).
    alpha : float, default 0.05
        Error rate of the tests, and of the strategy "significant".
    **rows
        count, weight, cluster, missing, missing_group: how rows are read; see `isonomy.RowOptions`. Halves and
        resamples consist of whole clusters: a person is never in both halves. Groups of fewer than 10 effective
        clusters in a half take no part in that split.

    Returns
    -------
    CorrectionsResult
        ``to_frame()`` has one row per strategy: candidate, estimate (the bias left), reference (the bias without
        correction), disparity, pvalue, adjusted_pvalue, and more. The fields by strategy, run and group are arrays.

    Notes
    -----
    The null hypothesis of a strategy: on average over samples like this one, the mean over groups of the squared bias
    is at least as large with it as without it. The decrease on held-out rows, averaged over splits and swaps, is tested
    against its law at errors for which the strategy gains nothing on average. P-values are adjusted by Holm's method
    with half of the error rate for "empirical_bayes_mixture", the default of `EffectCorrector`, if it is compared.

    When it misleads: splits and swaps reuse the same rows, so the spread over them is not a standard error.

    References
    ----------
    Persson, Bakker, Bohle, Feuerriegel and von Wangenheim (working paper, 2024 or later), Detecting and Mitigating
    Algorithmic Bias in Treatment Effect Estimation: Theory, Methods, and Empirical Evidence, section 7.

    Examples
    --------
    >>> import isonomy as iso
    >>> table = iso.simulate.uplift(40_000, groups=8, baseline=0.3, error={"b": 0.5, "f": -0.4}).columns
    >>> result = iso.evaluate_corrections(
    ...     table, effect="effect", treatment="treatment", outcome="outcome", groups="group", rng=1
    ... )
    >>> left = dict(zip(result.strategies, result.estimate, strict=True))
    >>> bool(left["empirical_bayes_mixture"] < left["none"])
    True
    >>> result.headline()
    'Less bias shown: by 8 of 8 corrections. Recommended: "empirical_bayes_mixture".'
    """
    plan, rng, record = open_call("evaluate_corrections", CorrectionsPlan, locals())
    if isinstance(plan.method, shrinkage.Online):
        trials = read_arms(plan, plan.method, rng)
        columns, facts = estimate_arms(trials, plan)
    else:
        trials = {"": experiment.read(plan, rng, shrinkage.BUCKETS)}
        columns, facts = estimate(trials[""], plan, rng)
    return CorrectionsResult(
        **columns,
        **decide(columns, plan),
        null=words.ONLINE_NULL if isinstance(plan.method, shrinkage.Online) else words.CORRECTIONS_NULL,
        notes=(
            *unanswered([group.label for group in columns["groups"]], columns["status"]),
            *other_measure(plan.formula.measure, facts["answered"], facts),
        ),
        provenance=record(
            rows=sum(trial.sample.rows for trial in trials.values()),
            dropped=dict(sum((Counter(trial.sample.dropped) for trial in trials.values()), Counter[str]())),
            grouping=plan.grouping,
            random=not isinstance(plan.method, shrinkage.Online),
            measure=plan.formula.measure,
            collapse=plan.formula.collapse,
            strategies=columns["strategies"],
        ),
        alpha=plan.alpha,
        shares=plan.formula.rest if plan.propensity is None else "propensity",
    )


# ---- plan


@dataclass(frozen=True, eq=False, kw_only=True)
class CorrectionsPlan(Experiment):
    strategies: Sequence[str | shrinkage.Custom] | None
    form: shrinkage.Form
    method: Literal["heldout", "published"] | shrinkage.Heldout | shrinkage.Online

    def refusals(self) -> tuple[tuple[bool, str], ...]:
        by_row, designed = self.by_rows, self.designed or self.by_rows
        from_paper = all(strategy in shrinkage.PAPER for strategy in self.chosen)
        online = isinstance(self.method, shrinkage.Online)
        return (
            (
                online and (self.strategies is not None or self.form != "additive" or self.known is not None),
                "strategies, form, observed_effects: an online comparison has the corrections of its arms; leave them "
                "out.",
            ),
            (
                isinstance(self.measure, Relative) and self.measure.collapse == "positives_inverse",
                'collapse: "positives_inverse" divides by the effect, so every correction needs another pass over the '
                'rows; use another collapse, for instance "control_outcome".',
            ),
            (
                self.published and not from_paper,
                f'strategies: method="published" has the paper\'s strategies: {", ".join(shrinkage.PAPER)}.',
            ),
            (
                self.form == "multiplicative" and (self.published or self.measure == "difference"),
                'form: "multiplicative" is for relative effects, which must stay above 0, and is not available with '
                'method="published"; leave it out, or give "additive".',
            ),
            *Experiment.refusals(self),
            (
                self.designed and self.heldout.split is not None,
                'weight, cluster, propensity: not available with split or with method="published"; leave those out.',
            ),
            (
                by_row and self.formula.estimator != "arm_means",
                'method: over="rows" is available with estimator="arm_means"; use over="cells", as in '
                'iso.published(over="cells").',
            ),
            (
                designed and self.source.count is not None and self.source.cluster is None,
                "count: lines that stand for several rows cannot be split with weights, propensities or "
                'over="rows"; give one line per row, or a cluster, or use over="cells".',
            ),
        )

    @property
    def heldout(self) -> shrinkage.Heldout:
        if isinstance(self.method, shrinkage.Heldout):
            return self.method
        return shrinkage.Published() if self.method == "published" else shrinkage.Heldout()

    @property
    def published(self) -> bool:
        return isinstance(self.heldout, shrinkage.Published)

    @property
    def by_rows(self) -> bool:
        return self.heldout.over == "rows"

    @property
    def divided(self) -> str | None:
        return None  # rows are divided within each half

    @cached_property
    def chosen(self) -> tuple[shrinkage.AnyStrategy, ...]:
        default = shrinkage.PAPER if self.published else None
        named = shrinkage.strategies_of(default if self.strategies is None else self.strategies)
        return tuple(dict.fromkeys(("none", *named)))

    @property
    def requests(self) -> tuple[Request, ...]:
        return ()  # rows are spread over random buckets first


# ---- read: see `isonomy.effects.experiment.read`


def read_arms(plan: CorrectionsPlan, online: shrinkage.Online, rng: np.random.Generator) -> dict[str, Trial]:
    """The people of each arm as an experiment of their own, the arm without correction first."""
    arms = plan.source.cells(Request(grouping=plan.source.grouping([online.arm]))).partitions[0].groups
    values = {str(value): value for arm in arms for _, value in arm.items}
    if online.control not in values or len(values) < 2:
        raise UsageError(
            f"method: the column {online.arm!r} has the arms {', '.join(map(repr, values))}; name the one without "
            'correction, as in iso.online("arm", control="..."); the column needs at least one other arm.'
        )
    names = (online.control, *sorted(values.keys() - {online.control}))
    sources = {name: plan.source.filter(nw.col(online.arm) == values[name]) for name in names}
    return {name: experiment.read(replace(plan, source=source), rng, 1) for name, source in sources.items()}


# ---- estimate


def estimate(trial: Trial, plan: CorrectionsPlan, rng: np.random.Generator) -> tuple[dict[str, Any], dict[str, Any]]:
    least = _least(trial, plan)
    clustered = isinstance(trial.parts[0].sums, Clustered)
    children = zip(trial.parts, rng.spawn(len(trial.parts)), strict=True)
    runs = [_evaluate(part, plan, least, child) for part, child in children]
    both = {name: np.concatenate([run[name] for run in runs], axis=-1) for name in runs[0]}
    none = plan.chosen.index("none")
    # Groups that no half could answer: for the reason that all rows give twice as many events, or that halves alone do.
    whole = _errors(trial, 2 * least, plan)
    otherwise = Status.FEW_CLUSTERS if clustered else Status.FEW_EVENTS
    status = tuple(
        Status.OK if not lost else reason if reason is not Status.OK else otherwise
        for reason, lost in zip(trial.statuses(whole), np.isnan(both["error"]).all((0, 1)), strict=True)
    )
    # One sample per strategy: all its draws, of all partitions.
    draws = {
        quantity: [
            np.concatenate([np.ravel(run[f"{quantity}_draws"][i]) for run in runs]) for i in range(len(plan.chosen))
        ]
        for quantity in QUANTITIES
    }
    columns = {
        **_columns(both, draws, none, plan),
        "groups": trial.groups,
        "status": status,
        "strategies": tuple(map(shrinkage.name_of, plan.chosen)),
        "n": trial.joined([part.rows.sum(-1) for part in trial.parts]),
        "pvalue": _pvalues(both, whole, trial, plan, rng),
        "arms_differ": trial.arms_differ,
    }
    facts = {
        "answered": np.array([reason is Status.OK for reason in status]),
        "predicted": trial.joined([errors.effects.predicted for errors in whole]),
        "observed": trial.joined([errors.effects.observed for errors in whole]),
        "binary": trial.binary,
    }
    return columns, facts


def _least(trial: Trial, plan: CorrectionsPlan) -> float:
    everybody = [np.ones(len(part.sums.n), dtype=bool) for part in trial.parts]
    return least_events(np.unique(trial.hypotheses(everybody)).size, plan.alpha)


def _errors(trial: Trial, least: float, plan: CorrectionsPlan) -> list[Errors]:
    experiment.check_measure(trial.parts[0], plan)
    laws = [shrinkage.judged(part.sums, plan.formula, least, part.known) for part in trial.parts]
    return [experiment.large(law, part, plan) for law, part in zip(laws, trial.parts, strict=True)]


def _columns(
    both: Mapping[str, FloatArray], draws: Mapping[str, Sequence[FloatArray]], none: int, plan: CorrectionsPlan
) -> dict[str, Any]:
    """What is left with each strategy, from its errors and biases by run and group; ``none``: without correction."""

    def mean(array: FloatArray) -> FloatArray:  # over runs and groups that were answered
        return np.where(np.isfinite(array).any((1, 2)), shrinkage.mean_answered(array, (1, 2)), np.nan)

    left = np.sqrt(np.maximum(mean(both["bias"] ** 2 - both["bias_se"] ** 2), 0.0))
    columns: dict[str, Any] = {
        "estimate": left,
        "reference": np.full(left.shape, left[none]),
        "disparity": left - left[none],
        "factor_mean": mean(both["factor"]),
        **{name: both[name] for name in (*BY_GROUP, *DETECTED)},
    }
    for quantity in QUANTITIES:
        remaining, pvalue = both[quantity], both[f"{quantity}_pvalue"]
        columns |= {
            f"{quantity}_mean": mean(remaining),
            f"{quantity}_rms": np.sqrt(mean(remaining**2)),
            f"{quantity}_mae": mean(np.abs(remaining)),
            f"{quantity}_rejected": mean(np.where(np.isfinite(pvalue), rejected(pvalue, plan.alpha), np.nan)),
        }
        at, columns[f"{quantity}_density"], columns[f"{quantity}_scale"] = shrinkage.densities(draws[quantity])
        columns["density_at"] = at
    return columns


def _pvalues(
    both: Mapping[str, FloatArray],
    whole: Sequence[Errors],
    trial: Trial,
    plan: CorrectionsPlan,
    rng: np.random.Generator,
) -> FloatArray:
    none, clustered, bias = plan.chosen.index("none"), plan.designed, both["bias"]
    decrease = shrinkage.mean_answered(bias[none] ** 2 - bias**2)  # by strategy and run
    if plan.known is not None:
        # Corrections do not depend on the halves: the decrease is linear in the bias, whose error halves average out.
        draws = shrinkage.mean_answered(both["bias_draws"][none] ** 2 - both["bias_draws"] ** 2)
        error = np.sqrt(np.mean(np.var(draws, axis=-1, ddof=1), axis=-1) / 2)
        df = np.nanmin(both["bias_df"][none]) if clustered else np.inf
        with np.errstate(divide="ignore", invalid="ignore"):
            pvalue = np.where(error > 0, t_sf(decrease.mean(-1) / error, df), 1.0)
    else:
        models, first = [], 0
        for errors, part in zip(whole, trial.parts, strict=True):
            groups = slice(first, first + len(part.groups))
            first = groups.stop
            value, variance, df = (
                shrinkage.mean_answered(values[:, groups], 0)
                for values in (both["detection_error"], both["detection_se"] ** 2, both["bias_df"][none])
            )
            used = np.isfinite(bias[none][:, groups]).any(0) & (variance > 0)
            law = shrinkage.Detected(
                value[used], np.sqrt(variance[used]), df[used] if clustered else np.full(used.sum(), np.inf)
            )
            others = others_shares(errors, part.sums.moments())[: used.size, : used.size]
            models.append(shrinkage.NormalErrors(law, others[used][:, used], int(used.sum()), plan.published))
        lines = zip(decrease.mean(-1), plan.chosen, rng.spawn(len(plan.chosen)), strict=True)
        pvalue = np.array(
            [shrinkage.less_bias(float(mean), rule, models, plan.alpha, child) for mean, rule, child in lines]
        )
    pvalue[none] = np.nan
    return np.where(np.isfinite(bias).any(), pvalue, np.nan)


def estimate_arms(trials: Mapping[str, Trial], plan: CorrectionsPlan) -> tuple[dict[str, Any], dict[str, Any]]:
    """As `estimate`, with arms as strategies and a single run, for the groups that could be judged in every arm."""
    arms = [(trial, _errors(trial, _least(trial, plan), plan)) for trial in trials.values()]
    reasons = [dict(zip(trial.groups, trial.statuses(errors), strict=True)) for trial, errors in arms]
    groups = tuple(dict.fromkeys(group for reason in reasons for group in reason))
    by_group = [[reason.get(group, Status.EMPTY) for reason in reasons] for group in groups]
    status = tuple(next((reason for reason in lines if reason is not Status.OK), Status.OK) for lines in by_group)
    used = np.array([reason is Status.OK for reason in status])
    both = {name: np.full((len(arms), 1, used.size), np.nan) for name in (*BY_GROUP, "predicted", "observed")}
    sizes, squares = np.zeros(used.size), []
    for i, (trial, errors) in enumerate(arms):
        place = np.array([groups.index(group) for group in trial.groups])
        values = {
            "error": [law.effects.error for law in errors],
            "bias": [law.gap.value for law in errors],
            "bias_se": [law.gap.standard_error for law in errors],
            "error_pvalue": [law.error.pvalue() for law in errors],
            "bias_pvalue": [law.gap.pvalue() for law in errors],
            "predicted": [law.effects.predicted for law in errors],
            "observed": [law.effects.observed for law in errors],
        }
        for name, parts in values.items():
            both[name][i, 0, place] = np.where(used[place], trial.joined(parts), np.nan)
        sizes[place] += trial.joined([part.rows.sum(-1) for part in trial.parts])
        squares.append(_squared_bias(errors, trial, {group for group, use in zip(groups, used, strict=True) if use}))
    value, error = np.array(squares).T
    with np.errstate(divide="ignore", invalid="ignore"):
        pvalue = normal_sf((value[0] - value) / np.hypot(error[0], error), sides="one")
    pvalue[0] = np.nan
    both |= dict.fromkeys(DETECTED, np.zeros((0, used.size)))
    predicted, observed = both["predicted"][0, 0], both["observed"][0, 0]
    columns = {
        **_columns(both, {name: list(both[name][:, 0]) for name in QUANTITIES}, 0, plan),
        "groups": groups,
        "status": status,
        "strategies": tuple(trials),
        "n": sizes,
        "pvalue": pvalue,
        "arms_differ": any(trial.arms_differ for trial in trials.values()),
    }
    return columns, {"answered": used, "predicted": predicted, "observed": observed, "binary": arms[0][0].binary}


def _squared_bias(errors: Sequence[Errors], trial: Trial, used: set[Group]) -> tuple[float, float]:
    """The mean over groups of the squared bias, without sampling error, and its standard error.

    For a normal vector A with covariance V, the variance of A'A is 4 a'Va + 2 tr V^2, a being its mean; A'VA is too
    large by tr V^2. Partitions describe the same people, so their errors are added.
    """
    total, error = 0.0, 0.0
    for law, part in zip(errors, trial.parts, strict=True):
        judged_here = [i for i, group in enumerate(part.groups) if group in used]
        contrast = np.eye(len(law.usable)) - others_shares(law, part.sums.moments())
        variance = np.nan_to_num(np.where(law.in_rest, law.error.standard_error**2, 0.0))
        bias, v = law.gap.value[judged_here], ((contrast * variance) @ contrast.T)[np.ix_(judged_here, judged_here)]
        noise = float((v**2).sum())
        total += float((bias**2 - np.diag(v)).sum())
        error += np.sqrt(max(4 * float(bias @ v @ bias) - 2 * noise, 2 * noise))
    return (total / len(used), error / len(used)) if used else (np.nan, np.nan)


def _evaluate(part: TrialPart, plan: CorrectionsPlan, least: float, rng: np.random.Generator) -> dict[str, FloatArray]:
    """What remains of the errors and biases of one partition, and what was detected before correction.

    Axes: strategy, run, group; resamples: strategy, run, resample, group; detected: run, group.
    """
    halves: list[tuple[IntArray, IntArray]] = []
    for _ in range(plan.heldout.splits):
        first, second = np.sort(rng.permutation(shrinkage.BUCKETS).reshape(2, -1))
        halves += [(first, second), (second, first)]
    runs, found = [], []
    for detection, mitigation in tracked(halves, words.PROGRESS, len(halves), bar=plan.heldout.progress):
        detected, rest, predicted, gap = _detect(_sets(part.sums, detection, plan), part, plan, least, rng)
        found.append((detected.value, detected.standard_error, gap.value, gap.root(0.0)))
        runs.append(list(_correct(_sets(part.sums, mitigation, plan), detected, rest, predicted, plan, least, rng)))
    size = len(part.groups)
    remaining = {
        name: np.array([[left[name] for left in run] for run in runs]).swapaxes(0, 1)[..., :size] for name in runs[0][0]
    }
    detections = np.moveaxis(np.array(found), 1, 0)[..., :size]
    return {**remaining, **dict(zip(DETECTED, detections, strict=True))}


def _sets(sample: Sums, buckets: IntArray, plan: CorrectionsPlan) -> Halves:
    """The rows of a half; and, with an inner split, those that predicted and those that observed effects come from."""
    inner = () if plan.heldout.split is None else (sample.part(buckets[::2]), sample.part(buckets[1::2]))
    return (sample.part(buckets), *inner)


def _effects(
    sets: tuple[ArmMoments, ...],
    fitted: tuple[ArmMoments, ...],
    in_rest: BoolArray,
    plan: CorrectionsPlan,
    known: FloatArray | None = None,
) -> GroupEffects:
    """Effects of the sets; ``fitted``: the moments that slopes of an adjustment are taken from."""
    pairs = zip(sets[-2:], fitted[-2:], strict=True)
    first, *others = (effects_of(part, plan.formula, in_rest, known, fitted=fit) for part, fit in pairs)
    if not others:
        return first
    forth, back = first.observed_in(others[0]), others[0].observed_in(first)
    if plan.heldout.split == "independent":
        return forth
    return GroupEffects(*((getattr(forth, f.name) + getattr(back, f.name)) / 2 for f in fields(forth)))


def _replicates(sets: Halves, plan: CorrectionsPlan, rng: np.random.Generator) -> tuple[ArmMoments, ...]:
    parts = len(sets[-2:])  # with an inner split, each resample is divided anew
    return tuple(sets[0].resampled(plan.heldout.resamples, rng, 1 / parts) for _ in range(parts))


def _detect(
    sets: Halves, part: TrialPart, plan: CorrectionsPlan, least: float, rng: np.random.Generator
) -> tuple[shrinkage.Detected, shrinkage.Detected, FloatArray, shrinkage.Detected]:
    """Errors of the groups and of their rests on the detection rows, predicted effects, and biases."""
    moments, known = tuple(half.moments() for half in sets), part.known
    errors = experiment.large(shrinkage.judged(sets[0], plan.formula, least, known), part, plan)
    effects = _effects(moments, moments, errors.in_rest, plan, known)
    if known is not None:  # effects as other studies of the same precision would have found them
        noise = rng.standard_normal((plan.heldout.resamples, len(known)))
        known = np.stack([known[:, 0] + known[:, 1] * noise, np.broadcast_to(known[:, 1], noise.shape)], -1)
    drawn = _effects(_replicates(sets, plan, rng), moments, errors.in_rest, plan, known)
    error, rest_error = np.where(errors.usable, effects.error, np.nan), effects.rest_error
    detected = shrinkage.Detected.from_draws(error, drawn.error, errors.error.df)
    rest = shrinkage.Detected.from_draws(rest_error, drawn.rest_error, errors.rest.df)
    gap = shrinkage.Detected.from_draws(error - rest_error, drawn.error - drawn.rest_error)
    return detected, rest, effects.predicted, gap


def _correct(
    sets: Halves,
    detected: shrinkage.Detected,
    rest: shrinkage.Detected,
    predicted: FloatArray,
    plan: CorrectionsPlan,
    least: float,
    rng: np.random.Generator,
) -> Iterator[dict[str, FloatArray]]:
    moments = tuple(part.moments() for part in sets)
    held = shrinkage.judged(sets[0], plan.formula, least)
    replicates = _replicates(sets, plan, rng)
    answered = held.usable & np.isfinite(detected.value)
    for strategy in plan.chosen:
        amount = shrinkage.correction(strategy, detected, plan.alpha)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(amount == 0, 0.0, amount / detected.value)
        multiple, shift = np.ones(amount.shape), amount
        if plan.form == "multiplicative":
            multiple, shift = shrinkage.multiple_of(amount, predicted), np.zeros(amount.shape)
        corrected = tuple(part.corrected(multiple, shift) for part in moments)
        left = []  # errors and biases, as estimated and as resampled
        for drawn in (moments, replicates):
            effects = _effects(tuple(part.corrected(multiple, shift) for part in drawn), corrected, held.in_rest, plan)
            rest_error = effects.rest_error
            if plan.published:  # one factor for the whole rest
                uncorrected = _effects(drawn, moments, held.in_rest, plan)
                rest_error = uncorrected.rest_error - shrinkage.correction(strategy, rest, plan.alpha)
            left += [np.where(answered, values, np.nan) for values in (effects.error, effects.error - rest_error)]
        error, bias, error_draws, bias_draws = left
        error_se, bias_se = (np.sqrt(draw_moments(draws)[0]) for draws in (error_draws, bias_draws))
        yield {
            "factor": np.where(answered, share, np.nan),
            "error": error,
            "bias": bias,
            "bias_se": np.where(answered, bias_se, np.nan),
            "bias_df": np.where(answered, held.gap.df, np.nan),
            "error_pvalue": Wald(error, error_se, held.error.df).pvalue(),  # equation (50)
            "bias_pvalue": Wald(bias, bias_se, held.gap.df).pvalue(),  # equation (51)
            "error_draws": error_draws,
            "bias_draws": bias_draws,
        }


# ---- decide


def decide(columns: Mapping[str, Any], plan: CorrectionsPlan) -> dict[str, Any]:
    """Which corrections were shown to leave less bias, and the ``best`` of these, or of all if none was."""
    names = columns["strategies"]
    pvalue = weighted_holm(
        columns["pvalue"], np.array([max(len(names) - 2, 1) if name == shrinkage.DEFAULT else 1 for name in names])
    )
    shown = rejected(pvalue, plan.alpha)
    left = np.where(shown if shown.any() else True, columns["estimate"], np.inf)
    return {
        "adjusted_pvalue": pvalue,
        "shown": shown,
        "verdict": Verdict.INCONCLUSIVE,
        "best": names[int(np.argmin(np.where(np.isfinite(left), left, np.inf)))],
    }


# ---- evidence


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class CorrectionsResult(Evidence):
    """What remains of group errors and biases after each correction, on rows that were not used to find it.

    A line of the table is a strategy: ``estimate`` is the root mean square of the biases that are left, without the
    sampling error of the held-out rows, ``reference`` the same without correction. ``pvalue`` tests that no less bias
    is left than without correction. ``factor``, ``error``, ``bias``, ``bias_se``, ``error_pvalue`` (50) and
    ``bias_pvalue`` (51) have the axes strategy, run (split and swap) and group. ``detection_error``, ``detection_se``,
    ``detection_bias`` and ``detection_statistic`` (the t statistic of the bias) are those of the detection half before
    correction, by run and group. Densities are over groups, runs and bootstrap replicates, in units of the standard
    deviation before correction, as in the paper's Figures 1 and 3.
    """

    method: ClassVar[str] = words.CORRECTIONS_METHOD
    references: ClassVar[tuple[str, ...]] = words.REFERENCES
    never_shown: ClassVar[tuple[str, ...]] = words.CORRECTIONS_LIMITS

    strategies: tuple[str, ...] = column("Correction", name="candidate", withheld=False)
    estimate: FloatArray = column("Bias left", withheld=False)
    reference: FloatArray = column("Bias without correction", withheld=False)
    disparity: FloatArray = column("Change of the bias", withheld=False)
    pvalue: FloatArray = column(withheld=False)
    adjusted_pvalue: FloatArray = column(withheld=False)
    shown: BoolArray = column("Less bias shown", withheld=False)
    factor_mean: FloatArray = column("Share of the error subtracted", name="factor", withheld=False)
    error_mean: FloatArray = column("Error: mean", withheld=False)
    error_rms: FloatArray = column("Error: root mean square", withheld=False)
    error_mae: FloatArray = column("Error: mean size", withheld=False)
    error_rejected: FloatArray = column("Error: tests that reject", withheld=False)
    bias_mean: FloatArray = column("Bias: mean", withheld=False)
    bias_rms: FloatArray = column("Bias: root mean square", withheld=False)
    bias_mae: FloatArray = column("Bias: mean size", withheld=False)
    bias_rejected: FloatArray = column("Bias: tests that reject", withheld=False)
    n: FloatArray = column(count=True, listed=False)
    factor: FloatArray = column(listed=False)
    error: FloatArray = column(listed=False)
    bias: FloatArray = column(listed=False)
    bias_se: FloatArray = column(listed=False)
    error_pvalue: FloatArray = column(listed=False)
    bias_pvalue: FloatArray = column(listed=False)
    detection_error: FloatArray = column(listed=False)
    detection_se: FloatArray = column(listed=False)
    detection_bias: FloatArray = column(listed=False)
    detection_statistic: FloatArray = column(listed=False)
    density_at: FloatArray  # in standard deviations before correction
    error_density: FloatArray  # (strategy, point)
    bias_density: FloatArray
    error_scale: float  # the standard deviations that densities are measured in
    bias_scale: float
    best: str
    arms_differ: bool
    alpha: float
    shares: words.Shares

    def table(self) -> Columns:
        """One row per strategy."""
        return {c.name: getattr(self, name) for name, c in self.declared().items() if c.listed and name != "status"}

    @property
    def recommended(self) -> str:
        """The strategy that left the least bias among those shown to leave less; "none" if there is no such one."""
        return self.best if self.shown.any() else self.strategies[0]

    def headline(self) -> str:
        """Whether less bias was shown to be left."""
        return words.less(self) if self.answered or len(self.strategies) == 1 else Evidence.headline(self)

    def findings(self) -> tuple[str, ...]:
        """What is recommended, then one sentence per strategy, the best first."""
        if not self.answered and len(self.strategies) > 1:
            return ()
        order = np.lexsort((self.bias_rms, self.estimate))
        recommended = [words.recommendation(self)] if len(self.strategies) > 1 else []
        return (*recommended, *(words.remaining(self, i) for i in order))

    def assumptions(self) -> tuple[tuple[str, str], ...]:
        return words.assumptions(self)[:3]

    def plot(self, quantity: Literal["bias", "error", "statistic"] = "bias") -> alt.TopLevelMixin:
        """Densities of what remains ("bias", "error"), or t statistics before correction ("statistic")."""
        from isonomy.effects.charts import densities, statistics

        return statistics(self) if quantity == "statistic" else densities(self, quantity)
