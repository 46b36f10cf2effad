"""Corrections of predicted effects: how much bias each of them leaves, on rows that were not used to find it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Unpack

import numpy as np

from isonomy.effects import experiment, words
from isonomy.effects.bias import other_measure, unanswered
from isonomy.effects.estimators import shrinkage
from isonomy.effects.estimators.collapse import AnyMeasure, Estimator, Relative, Rest
from isonomy.effects.estimators.errors import GroupEffects, effects_of
from isonomy.effects.estimators.events import least_events
from isonomy.effects.estimators.moments import ArmMoments, Clustered, Sums, draw_moments
from isonomy.effects.estimators.shrinkage import PAPER, AnyStrategy, Custom, Detected, Form, Heldout, judged, name_of
from isonomy.effects.experiment import MOVED, Experiment, ObservedEffects, Trial, TrialPart, idle_roles
from isonomy.frames import Groups, Request
from isonomy.inference import Verdict, rejected
from isonomy.inference.effect import Wald
from isonomy.inference.multiplicity import adjust
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray
from isonomy.numerics.status import Status
from isonomy.options import Alpha, Column, RowOptions, Seeded, Whole
from isonomy.results import Columns, Evidence, column, open_call, question
from isonomy.results.progress import tracked

if TYPE_CHECKING:
    import altair as alt

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
        "buckets": "method=iso.heldout(buckets=...)",
    },
    idle=idle_roles,
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
    baseline: Column | None = None,
    measure: AnyMeasure | None = None,
    estimator: Estimator = "arm_means",
    propensity: Column | None = None,
    observed_effects: ObservedEffects | None = None,
    strategies: Sequence[str | Custom] | None = None,
    form: Form = "additive",
    rest: Rest = "standardized",
    method: Literal["heldout", "published"] | Heldout = "heldout",
    alpha: Alpha = 0.05,
    depth: Whole = 1,
    progress: bool = False,
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
    effect, treatment, outcome, groups, baseline, estimator, propensity, rest, depth, rng
        As in `treatment_bias`.
    measure : {"relative", "difference"} or iso.relative(collapse), optional
        As in `treatment_bias`. The collapse "positives_inverse" is not linear in the effect and cannot be used.
    observed_effects : mapping of str to (float, float), optional
        Effects estimated elsewhere, as in `treatment_bias`: corrections are found with these, and what they leave is
        judged against the experiment of these rows.
    strategies : list of str or callable, optional
        Names out of "none", "mean", "significant" (42), "mse_plus" (46), "mse_minus" (47), "positive_part",
        "empirical_bayes", "empirical_bayes_t", "empirical_bayes_mixture" (see `EffectCorrector`), all by default; or
        functions of two arrays, the errors of all groups and their standard errors, that return what is subtracted from
        each group's predictions. "none" is always evaluated.
    form : {"additive", "multiplicative"}, default "additive"
        Subtract the correction from every prediction of a group, or multiply them so that the group's effect falls by
        it: a relative effect then stays above 0.
    method : {"heldout", "published"} or iso.heldout(splits, resamples, over, split, buckets), default "heldout"
        "heldout" stands for ``iso.heldout()``: 10 splits, each with its swap, and 50 bootstrap replicates on each half.
        "published": the paper's Algorithm 1, with independent prediction and estimation sets within each half, the
        pooled rest with one factor for the whole rest, equation (20) for ratios (16 with a ``baseline``), and the
        paper's five strategies unless others are named.
    alpha : float, default 0.05
        Error rate of the tests, and of the strategy "significant".
    progress : bool, default False
        Show a progress bar.
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
    'Less bias shown: 8 of 8 corrections leave less bias, and empirical bayes mixture leaves the least.'
    """
    plan, rng, record = open_call("evaluate_corrections", CorrectionsPlan, locals())
    trial = experiment.read(plan, rng, plan.heldout.buckets)
    columns, facts = estimate(trial, plan, rng)
    return CorrectionsResult(
        **columns,
        **decide(columns, plan),
        null=words.CORRECTIONS_NULL,
        notes=(
            *unanswered([group.label for group in trial.groups], columns["status"]),
            *other_measure(plan.formula.measure, facts["answered"], facts),
        ),
        provenance=record(
            rows=trial.sample.rows,
            dropped=trial.sample.dropped,
            grouping=plan.grouping,
            measure=plan.formula.measure,
            collapse=plan.formula.collapse,
            strategies=tuple(map(name_of, plan.chosen)),
        ),
        strategies=tuple(map(name_of, plan.chosen)),
        alpha=plan.alpha,
        shares=plan.formula.rest if plan.propensity is None else "propensity",
    )


# ---- plan


@dataclass(frozen=True, eq=False, kw_only=True)
class CorrectionsPlan(Experiment):
    strategies: Sequence[str | Custom] | None
    form: Form
    method: Literal["heldout", "published"] | Heldout
    progress: bool

    def refusals(self) -> tuple[tuple[bool, str], ...]:
        by_row, designed = self.by_rows, self.designed or self.by_rows
        from_paper = all(strategy in PAPER for strategy in self.chosen)
        return (
            (
                isinstance(self.measure, Relative) and self.measure.collapse == "positives_inverse",
                'collapse: "positives_inverse" divides by the effect, so every correction needs another pass over the '
                'rows; use another collapse, for instance "control_outcome".',
            ),
            (
                self.published and not from_paper,
                f'strategies: method="published" has the paper\'s strategies: {", ".join(PAPER)}.',
            ),
            (
                self.form == "multiplicative" and (self.published or self.measure == "difference"),
                'form: "multiplicative" is for relative effects, which must stay above 0, and is not available with '
                'method="published"; leave it out, or give "additive".',
            ),
            *Experiment.refusals(self),
            (
                designed and (self.published or self.heldout.split is not None),
                'weight, cluster, propensity, over="rows": not available with split or with method="published"; '
                "leave those out.",
            ),
            (
                by_row and self.estimator != "arm_means",
                'method: over="rows" is available with estimator="arm_means"; use over="cells".',
            ),
            (
                designed and self.source.count is not None and self.source.cluster is None,
                "count: lines that stand for several rows cannot be split with weights, propensities or "
                'over="rows"; give one line per row, or a cluster.',
            ),
        )

    @property
    def heldout(self) -> Heldout:
        if isinstance(self.method, Heldout):
            return self.method
        return Heldout(split="independent") if self.published else Heldout()

    @property
    def divided(self) -> str | None:
        return None  # rows are divided within each half

    @cached_property
    def chosen(self) -> tuple[AnyStrategy, ...]:
        default = PAPER if self.published else None
        named = shrinkage.strategies_of(default if self.strategies is None else self.strategies)
        return tuple(dict.fromkeys(("none", *named)))

    @property
    def requests(self) -> tuple[Request, ...]:
        return ()  # rows are spread over random buckets first


# ---- read: see `isonomy.effects.experiment.read`

# ---- estimate


def estimate(trial: Trial, plan: CorrectionsPlan, rng: np.random.Generator) -> tuple[dict[str, Any], dict[str, Any]]:
    """Columns by strategy, arrays by strategy, run and group, and the facts that notes need."""
    everybody = [np.ones(len(part.sums.n), dtype=bool) for part in trial.parts]
    least = least_events(np.unique(trial.hypotheses(everybody)).size, plan.alpha)
    experiment.check_measure(trial.parts[0], plan)
    clustered = isinstance(trial.parts[0].sums, Clustered)
    children = zip(trial.parts, rng.spawn(len(trial.parts)), strict=True)
    runs = [_evaluate(part, plan, least, child) for part, child in children]
    both = {name: np.concatenate([run[name] for run in runs], axis=-1) for name in runs[0]}
    none, statistic = plan.chosen.index("none"), both["statistic"]
    # Groups that no half could answer: for the reason that all rows give twice as many events, or that halves alone do.
    whole = [judged(part.sums, plan.formula, 2 * least, part.known) for part in trial.parts]
    otherwise = Status.FEW_CLUSTERS if clustered else Status.FEW_EVENTS
    status = tuple(
        Status.OK if not lost else reason if reason is not Status.OK else otherwise
        for reason, lost in zip(trial.statuses(whole), np.isnan(both["error"]).all((0, 1)), strict=True)
    )
    left = np.sqrt(np.maximum(_mean(both["bias"] ** 2 - both["bias_se"] ** 2), 0.0))
    columns: dict[str, Any] = {
        "groups": trial.groups,
        "status": status,
        "n": trial.joined([part.rows.sum(-1) for part in trial.parts]),
        "estimate": left,
        "reference": np.full(left.shape, left[none]),
        "disparity": left - left[none],
        "pvalue": shrinkage.fewer_squares(both, none, clusters=clustered),
        "factor_mean": _mean(both["factor"]),
        **{name: both[name] for name in BY_GROUP},
        "detection_statistic": statistic,
        "arms_differ": trial.arms_differ,
    }
    columns["statistic_at"], columns["statistic_density"] = shrinkage.density_and_normal(statistic)
    for quantity in ("error", "bias"):
        remaining, pvalue = both[quantity], both[f"{quantity}_pvalue"]
        # One sample per strategy: all its draws, of all partitions.
        draws = [
            np.concatenate([np.ravel(run[f"{quantity}_draws"][s]) for run in runs]) for s in range(len(plan.chosen))
        ]
        columns["density_at"], density, scale = shrinkage.densities(draws)
        columns |= {
            f"{quantity}_mean": _mean(remaining),
            f"{quantity}_rms": np.sqrt(_mean(remaining**2)),
            f"{quantity}_mae": _mean(np.abs(remaining)),
            f"{quantity}_rejected": _mean(np.where(np.isfinite(pvalue), rejected(pvalue, plan.alpha), np.nan)),
            f"{quantity}_density": density,
            f"{quantity}_scale": scale,
        }
    facts = {
        "answered": np.array([reason is Status.OK for reason in status]),
        "predicted": trial.joined([errors.effects.predicted for errors in whole]),
        "observed": trial.joined([errors.effects.observed for errors in whole]),
        "binary": trial.binary,
    }
    return columns, facts


def _evaluate(part: TrialPart, plan: CorrectionsPlan, least: float, rng: np.random.Generator) -> dict[str, FloatArray]:
    """What remains of the errors and biases of one partition, and the statistics of the bias before correction.

    Axes: strategy, run, group; resamples: strategy, run, resample, group; statistics: run, group.
    """
    halves: list[tuple[IntArray, IntArray]] = []
    for _ in range(plan.heldout.splits):
        order = rng.permutation(plan.heldout.buckets)
        first, second = np.sort(order[: order.size // 2]), np.sort(order[order.size // 2 :])
        halves += [(first, second), (second, first)]
    runs, statistics = [], []
    for detection, mitigation in tracked(halves, words.PROGRESS, len(halves), bar=plan.progress):
        detected, rest, predicted, statistic = _detect(_sets(part.sums, detection, plan), part.known, plan, least, rng)
        statistics.append(statistic)
        runs.append(list(_correct(_sets(part.sums, mitigation, plan), detected, rest, predicted, plan, least, rng)))
    size = len(part.groups)
    remaining = {
        name: np.array([[left[name] for left in run] for run in runs]).swapaxes(0, 1)[..., :size] for name in runs[0][0]
    }
    return {**remaining, "statistic": np.array(statistics)[:, :size]}


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


def _detect(
    sets: Halves, known: FloatArray | None, plan: CorrectionsPlan, least: float, rng: np.random.Generator
) -> tuple[Detected, Detected, FloatArray, FloatArray]:
    """Errors of the groups and of their rests on the detection rows, predicted effects, statistics of the bias."""
    moments = tuple(part.moments() for part in sets)
    errors = judged(sets[0], plan.formula, least, known)
    effects = _effects(moments, moments, errors.in_rest, plan, known)
    if known is not None:  # effects as other studies of the same precision would have found them
        noise = rng.standard_normal((plan.heldout.resamples, len(known)))
        known = np.stack([known[:, 0] + known[:, 1] * noise, np.broadcast_to(known[:, 1], noise.shape)], -1)
    replicates = tuple(part.resampled(plan.heldout.resamples, rng) for part in sets[-2:])
    drawn = _effects(replicates, moments, errors.in_rest, plan, known)
    error, rest_error = np.where(errors.usable, effects.error, np.nan), effects.rest_error
    detected = Detected.from_draws(error, drawn.error, errors.error.df)
    rest = Detected.from_draws(rest_error, drawn.rest_error, errors.rest.df)
    gap = Detected.from_draws(error - rest_error, drawn.error - drawn.rest_error)
    return detected, rest, effects.predicted, gap.root(0.0)


def _correct(
    sets: Halves,
    detected: Detected,
    rest: Detected,
    predicted: FloatArray,
    plan: CorrectionsPlan,
    least: float,
    rng: np.random.Generator,
) -> Iterator[dict[str, FloatArray]]:
    """What remains on held-out rows, strategy by strategy; all strategies see the same replicates."""
    moments = tuple(part.moments() for part in sets)
    held = judged(sets[0], plan.formula, least)
    replicates = tuple(part.resampled(plan.heldout.resamples, rng) for part in sets[-2:])
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


def _mean(array: FloatArray) -> FloatArray:
    """Mean over runs and groups that were answered; NaN where none was."""
    return np.where(np.isfinite(array).any((1, 2)), shrinkage.mean_answered(array, (1, 2)), np.nan)


# ---- decide


def decide(columns: Mapping[str, Any], plan: CorrectionsPlan) -> dict[str, Any]:
    """Which corrections were shown to leave less bias, adjusted for one another. No verdict is given on the model.

    ``best`` is the strategy that left least, among those shown to leave less; among all, if none was.
    """
    pvalue = adjust(columns["pvalue"], "holm")
    shown = rejected(pvalue, plan.alpha)
    left = np.where(shown if shown.any() else True, columns["estimate"], np.inf)
    return {
        "adjusted_pvalue": pvalue,
        "shown": shown,
        "verdict": Verdict.INCONCLUSIVE,
        "best": name_of(plan.chosen[int(np.argmin(np.where(np.isfinite(left), left, np.inf)))]),
    }


# ---- evidence


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class CorrectionsResult(Evidence):
    """What remains of group errors and biases after each correction, on rows that were not used to find it.

    A line of the table is a strategy: ``estimate`` is the root mean square of the biases that are left, without the
    sampling error of the held-out rows, ``reference`` the same without correction. ``pvalue`` tests that no less bias
    is left than without correction. ``factor``, ``error``, ``bias``, ``bias_se``, ``error_pvalue`` (50) and
    ``bias_pvalue`` (51) have the axes strategy, run (split and swap) and group; ``detection_statistic`` has the t
    statistics of the bias before correction, by run and group. Densities are over groups, runs and bootstrap
    replicates, in units of the standard deviation before correction, as in the paper's Figures 1 and 3.
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
    detection_statistic: FloatArray = column(listed=False)
    density_at: FloatArray  # in standard deviations before correction
    error_density: FloatArray  # (strategy, point)
    bias_density: FloatArray
    error_scale: float  # the standard deviations that densities are measured in
    bias_scale: float
    statistic_at: FloatArray
    statistic_density: FloatArray  # (2, point): of the detection statistics, and the standard normal one
    best: str
    arms_differ: bool
    alpha: float
    shares: words.Shares

    def table(self) -> Columns:
        """One row per strategy."""
        return {c.name: getattr(self, name) for name, c in self.declared().items() if c.listed and name != "status"}

    def headline(self) -> str:
        """Whether less bias was shown to be left."""
        if not self.answered and len(self.strategies) > 1:
            return Evidence.headline(self)
        return words.less(self)

    def findings(self) -> tuple[str, ...]:
        """One sentence per strategy, the best first."""
        if not self.answered and len(self.strategies) > 1:
            return ()
        return tuple(words.remaining(self, i) for i in np.lexsort((self.bias_rms, self.estimate)))

    def assumptions(self) -> tuple[tuple[str, str], ...]:
        """What is assumed, and how it was checked or why it cannot be."""
        return words.assumptions(self)[:3]

    def plot(self, quantity: Literal["bias", "error", "statistic"] = "bias") -> alt.TopLevelMixin:
        """Densities of what remains ("bias", "error"), or t statistics before correction ("statistic")."""
        from isonomy.effects.charts import densities, statistics

        return statistics(self) if quantity == "statistic" else densities(self, quantity)
