"""Treatment bias: which groups' effects an uplift model gets wrong, compared with all other groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Unpack

import numpy as np

from isonomy.effects import words
from isonomy.effects.estimators.collapse import AnyMeasure, Estimator, Measure, Rest
from isonomy.effects.estimators.errors import Errors, GroupEffects, arms_differ, effects_of, errors_of, errors_of_halves
from isonomy.effects.estimators.events import INNER, equal_errors, events_behind, least_events, tests_of
from isonomy.effects.estimators.moments import Bootstrap, Sums, resample_rows, resample_sums
from isonomy.effects.experiment import (
    MOVED,
    Experiment,
    ObservedEffects,
    Trial,
    TrialPart,
    check_measure,
    idle_roles,
    read,
    under_design,
)
from isonomy.frames import Groups
from isonomy.inference import Verdict, conclude
from isonomy.inference.multiplicity import adjust as adjusted
from isonomy.numerics.arrays import AnyArray, BoolArray, FloatArray
from isonomy.numerics.status import Status
from isonomy.numerics.tails import t_isf, t_sf
from isonomy.options import Alpha, Column, Form, Names, Number, Power, RowOptions, Seeded, Whole, check
from isonomy.results import Evidence, Note, column, note_if, open_call, question

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
        "variance": 'method=iso.bootstrap(resamples=..., over="cells") (or over="rows")',
        "resamples": "method=iso.bootstrap(resamples=...)",
        "test": 'method="welch" (or "automatic", the default)',
        "power": "result.detectable(power=...)",
    },
    idle=idle_roles,
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
    effect: Column,
    groups: Groups,
    treatment: Column | None = None,
    outcome: Column | None = None,
    baseline: Column | None = None,
    measure: AnyMeasure | None = None,
    estimator: Estimator = "arm_means",
    propensity: Column | None = None,
    given: Names | None = None,
    observed_effects: ObservedEffects | None = None,
    rest: Rest = "standardized",
    split: Annotated[str, Form("split")] | None = None,
    method: Literal["automatic", "welch", "published"] | Bootstrap = "automatic",
    adjust: Adjust = "holm",
    tolerance: Annotated[float, Number(above=0, unit="in units of the effect")] | None = None,
    alpha: Alpha = 0.05,
    depth: Whole = 1,
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
    groups : str, list, cut or where
        The groups to compare: columns, `cut` or `where`.
    treatment, outcome : str, optional
        Columns with the 0/1 assignment, and with the outcome: 0/1 or any number.
    baseline : str, optional
        Column with the predicted outcome without treatment; needed by the collapses "weighted" and "normalized".
    measure : {"relative", "difference"} or iso.relative(collapse), optional
        Ratio of mean outcomes (equation 15), or their difference (equation 55), which most uplift models predict.
        ``iso.relative(collapse="...")`` also says how predicted ratios are weighted. Default: "relative", and
        predictions that are clearly differences are refused.
    estimator : {"arm_means"}, iso.regression(features) or iso.aipw(features), default "arm_means"
        Observed effects from arm means, from least squares on ``features`` within each arm of each group, or from
        cross-fitted gradient boosting on ``features``, which reads those columns into memory. All three estimate the
        same effect; the last two may be more precise.
    propensity : str, optional
        Column with the known probability of treatment, if it differs between rows: rows are weighted by its inverse.
    given : list of str, optional
        Columns within which treatment was randomized (stratified randomization): arms are compared within them.
    observed_effects : mapping of str to (float, float), optional
        {group: (effect, standard error)}, for effects estimated elsewhere (section 5.1), by label ("country=DE") or by
        value ("DE"). ``treatment`` and ``outcome`` may then be left out.
    rest : {"standardized", "pooled"}, default "standardized"
        What a group is compared with: the other groups, each with its share of rows, or the paper's pooled rows.
    split : str, optional
        "independent" (predicted and observed effects come from random halves, Assumption 1), or a 0/1 column: 0 for
        rows of predictions, 1 for rows of estimation.
    method : {"automatic", "welch", "published"} or iso.bootstrap(resamples, over), default "automatic"
        "automatic": if a 0/1 outcome has fewer than 400 events in an arm, the law of the counts (ratios: conditional
        binomial, mid-p; differences: score test corrected for skewness), and no verdict for a group with too few events
        for any test; otherwise Welch's test and Fieller's interval. The law of the counts is not available with other
        estimators, collapses or rests than the default, with splits, or with designs; a verdict then needs more events.
        "welch": always Welch's test. "published": the paper's procedure, that is random halves (unless ``split`` names
        a column), the pooled rest, equation (20) for ratios (16 with a ``baseline``), and t-tests with n_g - 2 degrees
        of freedom (equations 25 and 27). ``iso.bootstrap()``: as "automatic", with standard errors from resamples.
    adjust : {"holm", "bonferroni", "bh", "by", "none"}, default "holm"
        Adjustment for multiple groups, over all groups of the call. Two groups that are compared with each other are
        one hypothesis, which counts once.
    tolerance : float, optional
        Largest bias that does not matter, in units of the effect.
    alpha : float, default 0.05
        Error rate of tests and of pointwise intervals.
    depth : int, default 1
        Intersections of up to this many columns.
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
    inverts it (Fieller). Limits of the bias combine those of the group and of the rest (MOVER).

    With weights, clusters, propensities or strata, means are weighted, and the variance is that of the sums of
    influences over clusters; the columns named are read into memory.

    When it misleads: if rows repeat people and no ``cluster`` says so (intervals are too short), or if the model was
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
    call = open_call("treatment_bias", locals())
    plan = BiasPlan(call.source, **call.options)
    trial = read(plan, call.rng)
    columns, facts = estimate(trial, plan, call.rng)
    return TreatmentBiasResult(
        **columns,
        **decide(columns, facts, plan),
        null=words.null(plan.tolerance, plan.formula.measure),
        notes=notes(columns, facts, plan),
        provenance=call.provenance(
            rows=trial.sample.rows,
            dropped=trial.sample.dropped,
            random=plan.random,
            measure=plan.formula.measure,
            collapse=plan.formula.collapse,
        ),
        measure=plan.formula.measure,
        alpha=plan.alpha,
        tolerance=plan.tolerance,
        experiment=plan.observed_effects is None,
        shares=plan.formula.rest if plan.propensity is None else "propensity",
    )


# ---- plan


@dataclass(frozen=True, eq=False, kw_only=True)
class BiasPlan(Experiment):
    """The call, and what follows from it and the schema."""

    adjust: Adjust = "holm"
    tolerance: float | None = None

    @property
    def random(self) -> bool:
        """Whether anything is drawn."""
        return self.bootstrap is not None or self.divided == "independent" or self.formula.estimator == "aipw"


# ---- read: see `isonomy.effects.experiment.read`

# ---- estimate


def estimate(trial: Trial, plan: BiasPlan, rng: np.random.Generator) -> tuple[dict[str, Any], dict[str, Any]]:
    """The columns, one entry per group of every partition (NaN for a group without an answer), and other facts."""
    check_measure(trial.parts[0], plan)
    plain = [_errors(part, plan) for part in trial.parts]
    errors, lost = _resampled(plain, trial, plan, rng)
    errors, design = under_design(errors, trial, plan)
    status = tuple(s for own, part in zip(errors, trial.parts, strict=True) for s in own.status[: len(part.groups)])
    answered = np.array([s is Status.OK for s in status])
    tests, laws = zip(
        *(
            tests_of(
                *(own, first, part.sums, plan.formula),
                alpha=plan.alpha,
                tolerance=plan.tolerance or 0.0,
                counted=plan.of_counts,
            )
            for own, first, part in zip(errors, plain, trial.parts, strict=True)
        ),
        strict=True,
    )
    events = [_events(own, part, plan) for own, part in zip(errors, trial.parts, strict=True)]

    def joined(arrays: Sequence[FloatArray]) -> FloatArray:
        return np.where(answered, trial.joined(arrays), np.nan)

    tested = {name: joined([test[name] for test in tests]) for name in tests[0]}
    disparity, low, high = joined([own.gap.value for own in errors]), tested["ci_low"], tested["ci_high"]
    df, above, below, upward = tested["df"], tested["above"], tested["below"], disparity >= 0
    near, far = np.where(upward, above, -below), np.where(upward, below, -above)
    hypothesis = trial.hypotheses([own.in_rest for own in errors])
    number, least = np.unique(hypothesis[answered]).size, 0.0
    if plan.method not in ("welch", "published") and plan.observed_effects is None:
        among = number if plan.adjust != "none" else 1
        least = least_events(among, plan.alpha, binary=trial.binary, counted=plan.of_counts)
    omnibus = np.array(
        [
            _omnibus(own, np.isfinite(test["inner_low"]), law, seen >= least, len(part.groups))
            for own, test, law, seen, part in zip(errors, tests, laws, events, trial.parts, strict=True)
        ]
    )
    columns = {
        "groups": trial.groups,
        "n": trial.joined([part.rows.sum(-1) for part in trial.parts]),
        "estimate": joined([own.error.value for own in errors]),
        "reference": joined([own.rest.value for own in errors]),
        "disparity": disparity,
        "ci_low": low,
        "ci_high": high,
        "statistic": tested["statistic"],
        # P(|estimate| as large) at the edge of the tolerance; twice the tail if there is none.
        "pvalue": np.minimum(t_sf(near, df) + t_sf(far, df), 1.0),
        "standard_error": joined([own.gap.se for own in errors]),
        "predicted": trial.joined([own.effects.predicted for own in errors]),
        "observed": trial.joined([own.effects.observed for own in errors]),
        "error_se": joined([own.error.se for own in errors]),
        "error_low": tested["error_low"],
        "error_high": tested["error_high"],
        "error_pvalue": np.minimum(2 * t_sf(np.abs(tested["error_statistic"]), tested["error_df"]), 1.0),
        "treated": trial.joined([part.rows[..., 1] for part in trial.parts]),
        "events": joined(events),
        "inner_low": tested["inner_low"],
        "inner_high": tested["inner_high"],
        "binary": trial.binary,
        "families": tuple(
            " & ".join(name for name, _ in part.groups[0].items) if part.groups else "" for part in trial.parts
        ),
        "omnibus_statistic": omnibus[:, 0],
        "omnibus_pvalue": omnibus[:, 1],
        "hypotheses": number,
        "arms_differ": any(arms_differ(part.rows[: len(part.groups)]) for part in trial.parts),
        "least_events": least,
        "design": design,
    }
    # Had the predictions of a group been higher by c, its interval would have moved by c: so far to 0.
    critical = np.where(upward, disparity - low, high - disparity)
    columns["critical_bias"] = np.where(columns["events"] < least, np.nan, critical)
    bounded = np.isfinite(columns["error_low"]) & np.isfinite(columns["error_high"])
    return columns, {
        "reasons": status,
        "answered": answered,
        "few": answered & (columns["events"] < least),
        "unbounded": answered & ~bounded,
        "hypothesis": hypothesis,
        "within_pvalue": np.maximum(t_sf(-above, df), t_sf(below, df)),
        "lost": lost,
    }


def _errors(part: TrialPart, plan: BiasPlan) -> Errors:
    if plan.divided is None:
        return errors_of(part.sums.moments(), plan.formula, part.known)
    prediction, estimation = (part.sums.moments(half) for half in HALVES)
    errors = errors_of_halves(prediction, estimation, plan.formula)
    return errors.with_freedom(part.rows.sum(-1) - 2) if plan.published else errors


def _events(errors: Errors, part: TrialPart, plan: BiasPlan) -> FloatArray:
    """The events that each group's bias stands on; infinitely many if effects come from elsewhere."""
    if plan.observed_effects is not None:
        return np.full(errors.error.value.shape, np.inf)
    observed = part.sums if plan.divided is None else part.sums.part(HALVES[1])  # effects are observed in these alone
    rows = part.rows.sum(-1) if plan.designed else None
    return events_behind(errors, observed, plan.formula, alpha=plan.alpha, counted=plan.of_counts, rows=rows)


def _omnibus(errors: Errors, counted: BoolArray, law: Any, enough: BoolArray, size: int) -> tuple[float, float]:
    """The test that all groups which can be tested share one error."""
    used = errors.usable & enough & np.isfinite(errors.error.variance + errors.error.df)
    used[size:] = False
    return equal_errors(errors.error, used, counted, law)


def _resampled(
    errors: list[Errors], trial: Trial, plan: BiasPlan, rng: np.random.Generator
) -> tuple[list[Errors], float]:
    """Errors of every partition with the bootstrap's variances, and the largest share of resamples that were lost."""
    if plan.bootstrap is None:
        return errors, 0.0
    resamples, formula = plan.bootstrap.resamples, plan.formula

    def drawn(sums: Sums, own: Errors) -> GroupEffects:
        moments = resample_sums(sums, resamples, rng)
        return effects_of(moments, formula, own.in_rest, fitted=sums.moments())

    if plan.by_rows:
        assert trial.lines is not None
        moments = resample_rows(trial.lines, formula.columns, resamples, rng)
        draws = [
            effects_of(one, formula, own.in_rest, fitted=part.sums.moments())
            for one, own, part in zip(moments, errors, trial.parts, strict=True)
        ]
    elif plan.divided is None:
        draws = [drawn(part.sums, own) for part, own in zip(trial.parts, errors, strict=True)]
    else:
        halves = [
            [drawn(part.sums.part(half), own) for half in HALVES] for part, own in zip(trial.parts, errors, strict=True)
        ]
        draws = [prediction.observed_in(estimation) for prediction, estimation in halves]
    pairs = list(zip(errors, draws, strict=True))
    return [own.resampled(draw) for own, draw in pairs], max(own.lost(draw) for own, draw in pairs)


# ---- decide


def decide(columns: Mapping[str, Any], facts: Mapping[str, Any], plan: BiasPlan) -> dict[str, Any]:
    """Adjust over all groups of the call, and conclude; verdicts are about the bias."""
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
    """What the reader must know about groups without an answer, and about the options chosen."""
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
    """One note per reason."""
    kinds = [kind for kind in dict.fromkeys(status) if kind is not Status.OK]
    named = {kind: [str(label) for label, one in zip(labels, status, strict=True) if one is kind] for kind in kinds}
    return [Note("no_effect", tuple(groups), {"status": kind.value}) for kind, groups in named.items()]


def other_measure(measure: Measure, answered: BoolArray, columns: Mapping[str, Any]) -> list[Note]:
    """A note if the predicted effects of all answered groups look like those of the other measure."""
    predicted, observed = columns["predicted"][answered], columns["observed"][answered]
    if not predicted.size:
        return []
    if measure == "relative":
        code, seen = "like_differences", np.abs(predicted).max() < 0.5 < observed.min()
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
    adjustment: a true bias of that size is found half of the time. ``events`` are those that the smaller arm of a group
    and of its rest stands on; groups with fewer than ``least_events`` are not tested. ``omnibus_pvalue`` tests, for
    each of the ``families`` of groups, that all errors are equal.
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
    binary: bool  # every outcome is 0 or 1: differences are of shares
    families: tuple[str, ...]
    omnibus_statistic: FloatArray
    omnibus_pvalue: FloatArray
    hypotheses: int  # about biases: two groups that are compared with each other have one
    arms_differ: bool  # treated shares do between groups, by more than 5 points and more than chance explains
    least_events: float
    measure: Measure
    alpha: float
    tolerance: float | None
    experiment: bool
    shares: words.Shares

    def detectable(self, power: float = 0.8) -> FloatArray:
        """The true bias of each group that would be found with this probability, before adjustment.

        (z_alpha/2 + z_power) standard errors; for a group with few events, as far as its limit at z_alpha/2 in one
        direction and at z_power in the other, whichever way round is more (for a power other than 0.8 interpolated).
        NaN for a group that was not tested.
        """
        check("power", power, Power)
        critical, reach = float(t_isf(self.alpha / 2, np.inf)), float(t_isf(1 - power, np.inf))
        below, above = self.disparity - self.ci_low, self.ci_high - self.disparity

        def length(inner: FloatArray, outer: FloatArray) -> FloatArray:
            """How far the limit at z_power is: the parabola through 0 and two known lengths."""
            bend = (outer / critical - inner / INNER) / (critical - INNER)
            return reach * (inner / INNER + bend * (reach - INNER))

        far_below, far_above = (
            length(self.disparity - self.inner_low, below),
            length(self.inner_high - self.disparity, above),
        )
        skewed = np.fmax(below + far_above, above + far_below)
        size = np.where(np.isfinite(self.inner_low), skewed, (critical + reach) * self.standard_error)
        return np.where(np.isfinite(self.adjusted_pvalue), size, np.nan)

    def findings(self) -> tuple[str, ...]:
        """The count of shown biases, then groups by adjusted p-value, the smallest first."""
        tested = np.isfinite(self.adjusted_pvalue)
        order = np.lexsort((-np.abs(self.statistic), self.adjusted_pvalue))
        return (
            words.count(self, order, int(tested.sum())),
            *(words.finding(self, i) for i in order if tested[i]),
            *(words.omnibus(self, i) for i in range(len(self.families)) if np.isfinite(self.omnibus_pvalue[i])),
            *words.detectable(self, 0.8),
        )

    def units(self) -> Mapping[str, str]:
        """Differences of shares are in points."""
        return dict.fromkeys(IN_UNITS, "points") if words.unit(self) == "points" else {}

    def assumptions(self) -> tuple[tuple[str, str], ...]:
        """What is assumed, and how it was checked or why it cannot be."""
        return words.assumptions(self, experiment=self.experiment)

    def limits(self) -> tuple[str, ...]:
        """What this result does not show."""
        return words.limits(self.measure)

    def plot(self, quantity: Quantity = "bias") -> alt.TopLevelMixin:
        """Biases (or ``quantity="error"``) by group with their intervals."""
        from isonomy.effects.charts import groups

        return groups(self, quantity)


IN_UNITS = (
    *("estimate", "reference", "disparity", "ci_low", "ci_high", "standard_error", "critical_bias"),
    *("predicted", "observed", "error_se", "error_low", "error_high"),
)
