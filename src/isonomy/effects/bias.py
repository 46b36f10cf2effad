"""Treatment bias: which groups' effects an uplift model gets wrong, compared with all other groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Unpack

import narwhals as nw
import numpy as np

from isonomy.effects import experiment, words
from isonomy.effects.estimators import events
from isonomy.effects.estimators.collapse import AnyMeasure, Arms, Estimator, Measure
from isonomy.effects.estimators.errors import Errors, Gap, effects_of, errors_of, predicted_laws
from isonomy.effects.estimators.moments import Bootstrap, resample_rows
from isonomy.effects.experiment import MOVED, Experiment, Trial, TrialPart
from isonomy.errors import DataError, UsageError
from isonomy.frames import Group, Groups, Request
from isonomy.inference import Verdict, conclude
from isonomy.inference.effect import Effect, Hypothesis, Wald
from isonomy.inference.multiplicity import adjust as adjusted
from isonomy.numerics.arrays import AnyArray, BoolArray, FloatArray
from isonomy.numerics.status import Status
from isonomy.numerics.tails import normal_isf
from isonomy.options import Alpha, Column, Names, Number, Power, RowOptions, Seeded, Whole, check
from isonomy.results import POOLED, Columns, Evidence, Note, column, note_if, open_call, question

if TYPE_CHECKING:
    import altair as alt

Adjust = Literal["holm", "bonferroni", "bh", "by", "none"]
Quantity = Literal["bias", "error"]
HALVES = (np.array([0]), np.array([1]))  # rows of predictions, and rows of estimation
FEW_EVENTS = 10  # in an arm: fewer get a note, where tests rest on large-sample theory


# ---- call


@question(
    "BiasPlan",
    moved={
        **MOVED,
        "split": 'estimator=iso.arm_means(observed_effects="independent") (or the 0/1 column)',
        "variance": 'method=iso.bootstrap(resamples=..., over="cells") (or over="rows")',
        "resamples": "method=iso.bootstrap(resamples=...)",
        "test": 'method="welch" (or "automatic", the default)',
        "power": "result.detectable(power=...)",
    },
    asks="Does the model get the treatment effects of some groups wrong by more than those of others?",
    topic="Errors of predicted effects",
    meaning=words.meaning,
    badges={"violation": "Bias shown"},
    verdicts={"violation": "the predicted effects of some groups are wrong by more than those of others."},
    next_steps={
        "violation": (
            "Do not rank people of different groups by these predicted effects before they are corrected.",
            "Check a correction on rows that were not used to find it.",
        )
    },
)
def treatment_bias(
    data: object = None,
    *,
    effect: Column | Mapping[str, str],
    groups: Groups,
    treatment: Column | Arms | None = None,
    outcome: Column | None = None,
    measure: AnyMeasure | None = None,
    estimator: Estimator = "arm_means",
    given: Names | None = None,
    method: Literal["automatic", "welch", "published"] | Bootstrap = "automatic",
    adjust: Adjust = "holm",
    tolerance: Annotated[float, Number(above=0, unit="in units of the effect")] | None = None,
    alpha: Alpha = 0.05,
    depth: Whole = 1,
    min_size: Whole = 1,
    rng: Seeded = None,
    **rows: Unpack[RowOptions],
) -> TreatmentBiasResult:
    """Does an uplift model get some groups' treatment effects wrong by more than those of others?

    For each group g the predicted effects are collapsed to the group's predicted effect P_g and compared with the
    observed effect tau_g of a randomized experiment: error B_g = P_g - tau_g (equation 12). The bias is
    A_g = B_g - B_-g, where -g are all other groups (equation 11).

    Null hypotheses: B_g = 0 (equation 24; ``error_pvalue``) and A_g = 0 (equation 26; ``pvalue``), or, with a
    ``tolerance``, |A_g| <= tolerance (equation 13). Verdicts are about the bias, after adjustment over groups.

    Parameters
    ----------
    data : table
        Any table isonomy reads, with one row per person or session. It is read in one grouped pass, on its own engine.
    effect : str
        Column of predicted effects: ratios (1.1 means ten percent more), or differences with ``measure="difference"``.
        With several treatments, {value of the arm: column}.
    groups : str, list, cut or where
        The groups to compare: columns, `cut` or `where`.
    treatment, outcome : str, optional
        Columns with the 0/1 assignment, and with the outcome: 0/1 or any number. Several treatments are
        ``iso.arms(column, control)``: each is compared with the control, and all tests are adjusted together.
    measure : {"relative", "difference"} or iso.relative(collapse), optional
        Ratio of mean outcomes (equation 15), or their difference (equation 55), which most uplift models predict.
        ``iso.relative(collapse, baseline)`` also says how predicted ratios are weighted. Default: "relative", and
        predictions that are clearly differences are refused.
    estimator : {"arm_means"}, iso.arm_means, iso.regression(features) or iso.aipw(features), default "arm_means"
        Observed effects from arm means, from least squares on ``features`` within each arm of each group, or from
        cross-fitted gradient boosting on ``features``, which reads those columns into memory. All three estimate the
        same effect; the last two may be more precise. ``iso.arm_means(propensity, observed_effects, rest)`` names known
        probabilities of treatment, effects estimated elsewhere, or the rows in which effects are observed.
    given : list of str, optional
        Columns within which treatment was randomized (stratified randomization): arms are compared within them.
    method : {"automatic", "welch", "published"} or iso.bootstrap(resamples, over), default "automatic"
        "automatic": Welch's test and Fieller's interval; the law of the counts if a 0/1 outcome has fewer than 400
        events in an arm (only with the default estimator, collapse, rest and observed effects), and no verdict for a
        group with too few events for any test. "welch": always Welch's test. "published": the paper's procedure, that
        is random halves (unless ``observed_effects`` names a column), the pooled rest, equation (20) for ratios (16
        with ``iso.relative(baseline=...)``), and t-tests with n_g - 2 degrees of freedom (equations 25 and 27).
        ``iso.bootstrap()``: as "automatic", with standard errors from resamples.
    adjust : {"holm", "bonferroni", "bh", "by", "none"}, default "holm"
        Adjustment for multiple groups, over all groups of the call. Two groups that are compared with each other are
        one hypothesis, which counts once.
    tolerance : float, optional
        Largest bias that does not matter, in units of the effect.
    alpha : float, default 0.05
        Error rate of tests and of pointwise intervals.
    depth : int, default 1
        Intersections of up to this many columns.
    min_size : int, default 1
        Groups with fewer rows are not tested; they still belong to the other groups that a group is compared with. The
        paper leaves out countries with fewer than 10,000 rows.
    rng : int, Generator or None, default None
        Seed of splits, folds and resamples.
    **rows
        count, weight, cluster, missing, missing_group: how rows are read; see `isonomy.RowOptions`.

    Returns
    -------
    TreatmentBiasResult
        ``to_frame()`` has one row per group: n, estimate (the error), reference (the error of the other groups),
        disparity (the bias), ci_low, ci_high, pvalue, adjusted_pvalue, verdict, status, predicted, observed, and more.

    Notes
    -----
    With the default, B_g = b exactly when mean_control[Y (f - b)] = mean_treated[Y]: a Welch test, and the interval
    inverts it (Fieller). Limits of the bias combine those of the group and of the rest (MOVER). With weights, clusters,
    propensities or strata, the variance is that of the sums of influences over clusters, and rows are read into memory.

    When it misleads: if rows repeat people and no ``cluster`` is given (intervals are too short), or if the model was
    trained on the same rows. Groups with too few events, or with very skewed outcomes, get no verdict.

    References
    ----------
    Persson, Bakker, Bohle, Feuerriegel and von Wangenheim (working paper, 2024 or later), Detecting and Mitigating
    Algorithmic Bias in Treatment Effect Estimation: Theory, Methods, and Empirical Evidence.

    Examples
    --------
    >>> import isonomy as iso
    >>> table = iso.simulate.uplift(20_000, groups=["a", "b", "c"], baseline=0.4, error={"b": 0.4}).columns
    >>> result = iso.treatment_bias(
    ...     table, effect="effect", treatment="treatment", outcome="outcome", groups="group"
    ... )
    >>> [verdict.value for verdict in result.verdicts]
    ['violation', 'violation', 'violation']
    >>> bool(result.ci_low[1] < 0.4 < result.ci_high[1])
    True
    """
    plan, rng, record = open_call("treatment_bias", BiasPlan, locals())
    trial, rows_read = read(plan, rng)
    columns, facts = estimate(trial, plan, rng)
    return TreatmentBiasResult(
        **columns,
        **decide(columns, facts, plan),
        null=words.null(plan.tolerance, plan.formula.measure, binary=trial.binary),
        notes=notes(columns, facts, plan),
        provenance=record(
            rows=rows_read,
            dropped=trial.sample.dropped,
            random=plan.bootstrap is not None or plan.divided == "independent" or plan.formula.estimator == "aipw",
            measure=plan.formula.measure,
            collapse=plan.formula.collapse,
        ),
        measure=plan.formula.measure,
        alpha=plan.alpha,
        tolerance=plan.tolerance,
        experiment=plan.known is None,
        shares=plan.formula.rest if plan.propensity is None else "propensity",
    )


# ---- plan


@dataclass(frozen=True, eq=False, kw_only=True)
class BiasPlan(Experiment):
    divides: ClassVar[bool] = True
    adjust: Adjust = "holm"
    tolerance: float | None = None

    def __post_init__(self) -> None:
        if isinstance(self.treatment, Arms) != isinstance(self.effect, Mapping):
            raise UsageError(
                "effect, treatment: several treatments need a column of effects for each of them, "
                'effect={"mail": "f_mail", "call": "f_call"}, and treatment=iso.arms("arm", control="none").'
            )
        if not isinstance(self.treatment, Arms):
            super().__post_init__()
            return
        if self.by_rows or not self.effect:
            raise UsageError('effect, method: name at least one treatment, and use a bootstrap over="cells".')
        if self.propensity is not None or self.known is not None:
            raise UsageError(
                "propensity, observed_effects: every treatment has its own; ask about one treatment at a time."
            )
        arm_plans(self)

    @property
    def requests(self) -> tuple[Request, ...]:
        return () if isinstance(self.treatment, Arms) else super().requests


# ---- read


def arm_plans(plan: BiasPlan) -> dict[str, BiasPlan]:
    """For each of several treatments, the plan of the rows that had it, or that had none."""
    assert isinstance(plan.treatment, Arms)
    assert isinstance(plan.effect, Mapping)
    plan.source.require(treatment=plan.treatment.column)
    value, plans = nw.col(plan.treatment.column).cast(nw.String), {}
    for arm, effect in plan.effect.items():
        rows = plan.source.filter((value == arm) | (value == plan.treatment.control))
        treated = rows.fresh("treatment")
        source = rows.with_role(treated, (value == arm).cast(nw.Int64))
        plans[arm] = replace(plan, source=source, effect=effect, treatment=treated)
    return plans


def read(plan: BiasPlan, rng: np.random.Generator) -> tuple[Trial, int]:
    """The experiment, and its number of rows. Several treatments are partitions that share the control rows."""
    if not isinstance(plan.treatment, Arms):
        trial = experiment.read(plan, rng)
        return trial, trial.sample.rows
    trials = {name: experiment.read(arm, rng) for name, arm in arm_plans(plan).items()}
    parts = []
    for i, (name, trial) in enumerate(trials.items()):
        if not all(part.rows.sum(0).all() for part in trial.parts):
            raise DataError(
                f"treatment: {plan.treatment.column!r} has no rows equal to {name!r} or no rows equal to "
                f"{plan.treatment.control!r}; check the names of the arms."
            )
        label = (plan.treatment.column, name)
        for part in trial.parts:
            groups = tuple(Group((label, *group.items)) for group in part.groups)
            # Numbers of people count from the same start in every arm; an odd multiple tells them apart.
            parts.append(replace(part, groups=groups, members=part.members * (2 * i + 1)))
    first = next(iter(trials.values()))
    control = float(first.parts[0].rows[:, 0].sum())
    rows = sum(trial.sample.rows for trial in trials.values()) - round(control) * (len(trials) - 1)
    return Trial(first.sample, tuple(parts)), rows


# ---- estimate


def estimate(trial: Trial, plan: BiasPlan, rng: np.random.Generator) -> tuple[dict[str, Any], dict[str, Any]]:
    """The columns, one entry per group of every partition (NaN for a group without an answer), and other facts."""
    experiment.check_measure(trial.parts[0], plan)
    plain = [_errors(part, plan) for part in trial.parts]
    errors, lost = _resampled(plain, trial, plan, rng)
    errors, design = experiment.designed_errors(errors, trial, plan)
    errors = [experiment.large(error, part, plan) for error, part in zip(errors, trial.parts, strict=True)]
    reasons = trial.statuses(errors)
    answered = np.array([reason is Status.OK for reason in reasons])
    hypothesis = trial.hypotheses([error.in_rest for error in errors])
    number, least = np.unique(hypothesis[answered]).size, 0.0
    if plan.method not in ("welch", "published") and plan.known is None:
        among = number if plan.adjust != "none" else 1
        least = events.least_events(among, plan.alpha, binary=trial.binary, counted=plan.of_counts)
    tests, omnibus = [], []
    for error, first, part in zip(errors, plain, trial.parts, strict=True):
        laws = events.choose_laws(error, first, part.sums, plan.formula, counted=plan.of_counts)
        tests.append({**_tests(*laws, plan), "reference": error.rest.value, "events": _events(error, part, plan)})
        used = error.usable & (tests[-1]["events"] >= least) & np.isfinite(error.error.standard_error + error.error.df)
        used[len(part.groups) :] = False
        omnibus.append(
            (events.equal_errors(*laws, used), events.all_zero(laws[0], used), _independence(part, used, plan))
        )
    columns: dict[str, Any] = {
        name: np.where(answered, trial.joined([test[name] for test in tests]), np.nan) for name in tests[0]
    }
    within = columns.pop("within_pvalue")
    columns |= {
        "groups": trial.groups,
        "n": trial.joined([part.rows.sum(-1) for part in trial.parts]),
        "predicted": trial.joined([error.effects.predicted for error in errors]),
        "observed": trial.joined([error.effects.observed for error in errors]),
        "treated": trial.joined([part.rows[..., 1] for part in trial.parts]),
        "binary": trial.binary,
        "families": tuple(_family(part, plan) for part in trial.parts),
        "family": np.repeat(np.arange(len(trial.parts)), [len(part.groups) for part in trial.parts]).astype(float),
        **{
            f"{name}_{field}": np.array([tests[i][j] for tests in omnibus])
            for i, name in enumerate(("omnibus", "sufficiency", "independence"))
            for j, field in enumerate(("statistic", "pvalue"))
        },
        "hypotheses": number,
        "arms_differ": trial.arms_differ,
        "least_events": least,
        "design": design,
    }
    few = answered & (columns["events"] < least)
    # Had the predictions of a group been higher by c, its interval would have moved by c: its distance from 0.
    bias, low, high = columns["disparity"], columns["ci_low"], columns["ci_high"]
    columns["critical_bias"] = np.where(few, np.nan, np.where(bias >= 0, bias - low, high - bias))
    return columns, {
        "reasons": reasons,
        "answered": answered,
        "few": few,
        "unbounded": answered & ~(np.isfinite(columns["error_low"]) & np.isfinite(columns["error_high"])),
        "hypothesis": hypothesis,
        "within_pvalue": within,
        "lost": lost,
    }


def _family(part: TrialPart, plan: BiasPlan) -> str:
    arm = ""
    items = part.groups[0].items if part.groups else ()
    if isinstance(plan.treatment, Arms) and items:
        name, value = items[0]
        arm = f" ({name}={value})"
        items = items[1:]
    return " & ".join(name for name, _ in items) + arm


def _tests(error: Effect, bias: Effect, few: BoolArray, plan: BiasPlan) -> dict[str, FloatArray]:
    low, high = bias.limits(plan.alpha)
    error_low, error_high = error.limits(plan.alpha)
    inner = np.full((2, few.size), np.nan)
    if isinstance(bias, events.ByEvents):
        inner[:, few] = bias.counts.interval(events.INNER**2)
    pvalue, within = bias.pvalue(), inner[0]
    if plan.tolerance is not None:
        pvalue = bias.test(Hypothesis(-plan.tolerance, plan.tolerance, "outside"))[1]
        within = bias.within_pvalue(plan.tolerance)
    return {
        "estimate": error.value,
        "disparity": bias.value,
        "ci_low": low,
        "ci_high": high,
        "statistic": bias.root(0.0),
        "pvalue": pvalue,
        "standard_error": bias.standard_error,
        "error_se": error.standard_error,
        "error_low": error_low,
        "error_high": error_high,
        "error_pvalue": error.pvalue(),
        "inner_low": inner[0],
        "inner_high": inner[1],
        "within_pvalue": within,
    }


def _errors(part: TrialPart, plan: BiasPlan) -> Errors:
    if plan.divided is None:
        return errors_of(part.sums.moments(), plan.formula, part.known)
    prediction, estimation = (part.sums.moments(half) for half in HALVES)
    errors = errors_of(prediction, plan.formula, estimation=estimation)
    if not plan.published:
        return errors
    df = part.rows.sum(-1) - 2
    error, rest = replace(errors.error, df=df), replace(errors.rest, df=df)
    return replace(errors, error=error, rest=rest, gap=Gap(error, rest, df))


def _independence(part: TrialPart, used: BoolArray, plan: BiasPlan) -> tuple[float, float]:
    """Welch's test that the predicted effects of all ``used`` groups are equal; NaN where they do not vary."""
    if plan.designed or plan.known is not None or plan.divided is not None:
        return np.nan, np.nan
    law = predicted_laws(part.sums.moments(), plan.formula)
    variance = law.standard_error[used] ** 2
    if used.sum() < 2 or not (variance > 0).all():
        return np.nan, np.nan
    return events.welch_q(law.value[used], variance, np.asarray(law.df)[used])


def _events(errors: Errors, part: TrialPart, plan: BiasPlan) -> FloatArray:
    if plan.known is not None:  # effects come from elsewhere
        return np.full(errors.in_rest.shape, np.inf)
    observed = part.sums if plan.divided is None else part.sums.part(HALVES[1])  # effects are observed in these alone
    rows = part.rows.sum(-1) if plan.designed else None
    return events.events_behind(errors, observed, plan.formula, alpha=plan.alpha, counted=plan.of_counts, rows=rows)


def _resampled(
    errors: list[Errors], trial: Trial, plan: BiasPlan, rng: np.random.Generator
) -> tuple[list[Errors], float]:
    """Errors with the bootstrap's variances, and the largest share of a group's resamples that gave no number."""
    if plan.bootstrap is None:
        return errors, 0.0
    resamples, formula = plan.bootstrap.resamples, plan.formula
    halves = (np.array([0]),) if plan.divided is None else HALVES
    if plan.by_rows:
        assert trial.lines is not None
        drawn = [[moments] for moments in resample_rows(trial.lines, formula.columns, resamples, rng)]
    else:
        drawn = [[part.sums.part(half).resampled(resamples, rng) for half in halves] for part in trial.parts]
    resampled, lost = [], 0.0
    for error, moments, part in zip(errors, drawn, trial.parts, strict=True):
        effects = [
            effects_of(draws, formula, error.in_rest, fitted=part.sums.moments(half))
            for draws, half in zip(moments, halves, strict=True)
        ]
        effect = effects[0].observed_in(effects[-1])
        resampled.append(error.resampled(effect))
        if error.usable.any():
            lost = max(lost, float((~np.isfinite(effect.error[:, error.usable])).mean(0).max()))
    return resampled, lost


# ---- decide


def decide(columns: Mapping[str, Any], facts: Mapping[str, Any], plan: BiasPlan) -> dict[str, Any]:
    few = facts["few"]
    pvalue, within, error_pvalue = (
        np.where(few, np.nan, p) for p in (columns["pvalue"], facts["within_pvalue"], columns["error_pvalue"])
    )
    shown = conclude(
        pvalue,
        alpha=plan.alpha,
        adjust=plan.adjust,
        same=facts["hypothesis"],
        within_pvalue=None if plan.tolerance is None else within,
    )
    return {
        "status": tuple(
            Status.FEW_EVENTS if no_test else Status.UNBOUNDED if unbounded else reason
            for reason, unbounded, no_test in zip(facts["reasons"], facts["unbounded"], few, strict=True)
        ),
        "adjusted_pvalue": shown.adjusted,
        "error_adjusted_pvalue": adjusted(error_pvalue, plan.adjust),
        "verdicts": shown.verdicts,
        "verdict": shown.verdict,
    }


def notes(columns: Mapping[str, Any], facts: Mapping[str, Any], plan: BiasPlan) -> tuple[Note, ...]:
    labels, answered, few = np.array([str(group) for group in columns["groups"]]), facts["answered"], facts["few"]
    alone = answered & ~np.isfinite(columns["disparity"])
    uncertain = answered & ~few & np.isnan(columns["inner_low"]) & (columns["events"] < FEW_EVENTS)
    law = ("counts" if plan.of_counts else "normal") if columns["binary"] else "skewed"
    formula, doubtful = plan.formula, () if plan.formula.measure == "difference" else words.COLLAPSES
    return (
        *([Note("lost_resamples", values={"share": facts["lost"]})] if facts["lost"] > 0 else []),
        *unanswered(labels, facts["reasons"]),
        *note_if("unbounded_effect", list(labels[facts["unbounded"]])),
        *note_if("no_rest", list(labels[alone])),
        *note_if("too_few_events", list(labels[few]), least=columns["least_events"], law=law),
        *note_if("few_outcomes", list(labels[uncertain]), least=FEW_EVENTS),
        *other_measure(formula.measure, answered, columns),
        *([Note("pooled_rest")] if formula.rest == "pooled" else []),
        *([Note("shared_models")] if formula.estimator == "aipw" else []),
        *([Note(f"collapse_{formula.collapse}")] if formula.collapse in doubtful else []),
    )


def unanswered(labels: Sequence[str] | AnyArray, status: Sequence[Status]) -> list[Note]:
    named: dict[Status, list[str]] = {}
    for label, reason in zip(labels, status, strict=True):
        named.setdefault(reason, []).append(str(label))
    named.pop(Status.OK, None)
    return [Note("no_effect", tuple(groups), {"status": reason.value}) for reason, groups in named.items()]


def other_measure(measure: Measure, answered: BoolArray, columns: Mapping[str, Any]) -> list[Note]:
    """A note if the predicted effects of all answered groups look like those of the other measure."""
    predicted, observed = columns["predicted"][answered], columns["observed"][answered]
    if not predicted.size:
        return []
    if measure == "relative":
        far = (predicted < 0.5 * observed) | (predicted > 2.0 * observed)
        code, seen = "like_differences", observed.min() > 0.5 and bool(far.all())
    else:
        code, seen = "like_ratios", columns["binary"] and predicted.min() > 0.5 > np.abs(observed).max()
    means = {"predicted": float(predicted.mean()), "observed": float(observed.mean())}
    return [Note(code, values=means)] if seen else []


# ---- evidence


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class TreatmentBiasResult(Evidence):
    """Error of each group's predicted effect, and its bias against all other groups. One entry per group.

    ``estimate`` is the group's error (predicted minus observed effect), ``reference`` the error of the other groups,
    and ``disparity`` their difference, the bias. ``critical_bias`` is the smallest estimate that rejects, before
    adjustment: a true bias of that size is found half of the time. ``events`` are the events in the smaller arm that a
    comparison is based on; groups with fewer than ``least_events`` are not tested. ``omnibus_pvalue`` tests, for each
    of the ``families`` of groups, that all errors are equal (separation), ``sufficiency_pvalue`` that all errors are 0,
    and ``independence_pvalue`` that all predicted effects are equal; `criteria` explains them.
    """

    method: ClassVar[str] = words.METHOD
    references: ClassVar[tuple[str, ...]] = words.REFERENCES
    decisive: ClassVar[tuple[str, ...]] = ("adjusted_pvalue",)

    n: FloatArray = column("Rows counted", count=True)
    estimate: FloatArray = column("Error")
    reference: FloatArray = column("Error of the others")
    disparity: FloatArray = column("Bias")
    ci_low: FloatArray = column("Bias: interval from")
    ci_high: FloatArray = column("Bias: interval to")
    statistic: FloatArray = column("Test statistic")
    pvalue: FloatArray = column("Bias: p‑value")
    adjusted_pvalue: FloatArray = column("Bias: adjusted p‑value")
    verdicts: tuple[Verdict, ...] = column(name="verdict")
    standard_error: FloatArray = column("Bias: standard error")
    predicted: FloatArray = column("Predicted effect")
    observed: FloatArray = column("Observed effect")
    error_se: FloatArray = column("Error: standard error")
    error_low: FloatArray = column("Error: interval from")
    error_high: FloatArray = column("Error: interval to")
    error_pvalue: FloatArray = column("Error: p‑value")
    error_adjusted_pvalue: FloatArray = column("Error: adjusted p‑value")
    treated: FloatArray = column("Treated rows", count=True, sizes=False)
    critical_bias: FloatArray = column("Smallest bias that would be shown here")
    events: FloatArray = column(listed=False)
    inner_low: FloatArray = column(listed=False)  # limits at a smaller quantile, where the law of the counts was used
    inner_high: FloatArray = column(listed=False)
    family: FloatArray = column(listed=False, withheld=False)  # the number of the group's family
    binary: bool  # every outcome is 0 or 1: differences are of shares
    families: tuple[str, ...]
    omnibus_statistic: FloatArray = field(metadata=POOLED)
    omnibus_pvalue: FloatArray = field(metadata=POOLED)
    sufficiency_statistic: FloatArray = field(metadata=POOLED)
    sufficiency_pvalue: FloatArray = field(metadata=POOLED)
    independence_statistic: FloatArray = field(metadata=POOLED)
    independence_pvalue: FloatArray = field(metadata=POOLED)
    hypotheses: int  # about biases: two groups that are compared with each other have one
    arms_differ: bool  # treated shares differ between groups by more than 5 points and more than chance explains
    least_events: float
    measure: Measure
    alpha: float
    tolerance: float | None
    experiment: bool
    shares: words.Shares

    def detectable(self, power: float = 0.8) -> FloatArray:
        """The true bias of each group that would be found with this probability, before adjustment.

        (z_alpha/2 + z_power) standard errors. For a group with few events, the distance to the limit at z_alpha/2 on
        one side plus that to the limit at z_power on the other, whichever sum is larger (interpolated for a power other
        than 0.8).
        NaN for a group that was not tested.
        """
        check("power", power, Power)
        critical, reach = float(normal_isf(self.alpha)), float(normal_isf(1 - power, sides="one"))
        outer = np.stack([self.disparity - self.ci_low, self.ci_high - self.disparity])
        inner = np.stack([self.disparity - self.inner_low, self.inner_high - self.disparity])
        # The limit at z_power: the parabola through 0 and two known lengths.
        bend = (outer / critical - inner / events.INNER) / (critical - events.INNER)
        length = reach * (inner / events.INNER + bend * (reach - events.INNER))
        skewed = np.fmax(outer[0] + length[1], outer[1] + length[0])
        normal = Wald(self.disparity, self.standard_error).detectable(self.alpha, power)
        size = np.where(np.isfinite(self.inner_low), skewed, normal)
        return np.where(np.isfinite(self.adjusted_pvalue), size, np.nan)

    def criteria(self) -> Columns:
        """The three criteria of the paper's Appendix A for each family of groups: test, p-value and meaning.

        Independence: the predicted effects of all groups are equal. Separation: the errors are. Sufficiency: the errors
        are 0. P-values are not adjusted. Independence is not tested with weights, clusters, propensities, strata,
        splits or given effects.
        """
        families, names = self.families, ("independence", "omnibus", "sufficiency")
        tests = {part: [getattr(self, f"{name}_{part}") for name in names] for part in ("statistic", "pvalue")}
        return {
            "groups": [family for family in families for _ in words.CRITERIA],
            "criterion": [*words.CRITERIA] * len(families),
            **{part: np.stack(values, -1).ravel() for part, values in tests.items()},
            "meaning": [*words.CRITERIA.values()] * len(families),
        }

    def ranking(self) -> list[int]:
        """By adjusted p-value, the smallest first."""
        return np.lexsort((-np.abs(self.statistic), self.adjusted_pvalue)).tolist()

    def findings(self) -> tuple[str, ...]:
        """The count of shown biases, then groups by adjusted p-value, the smallest first."""
        tested = np.isfinite(self.adjusted_pvalue)
        order = self.ranking()
        return (
            words.count(self, order, int(tested.sum())),
            *(words.finding(self, i) for i in order if tested[i]),
            *(words.omnibus(self, i) for i in range(len(self.families)) if np.isfinite(self.omnibus_pvalue[i])),
            *words.detectable(self, 0.8),
        )

    def units(self) -> Mapping[str, str]:
        """Differences of shares are in points."""
        names = (
            *("estimate", "reference", "disparity", "ci_low", "ci_high", "standard_error", "critical_bias"),
            *("predicted", "observed", "error_se", "error_low", "error_high"),
        )
        return dict.fromkeys(names, "points") if words.unit(self) == "points" else {}

    def assumptions(self) -> tuple[tuple[str, str], ...]:
        return words.assumptions(self, experiment=self.experiment)

    def limits(self) -> tuple[str, ...]:
        return words.limits(self.measure)

    def plot(self, quantity: Quantity = "bias") -> alt.TopLevelMixin:
        """Biases (or ``quantity="error"``) by group with their intervals."""
        from isonomy.effects.charts import groups

        return groups(self, quantity)
