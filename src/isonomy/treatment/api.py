"""The public functions: errors of predicted effects by group, and how well corrections of them would do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import numpy as np
import numpy.typing as npt

from isonomy.frames import Groups
from isonomy.numerics.arrays import FloatArray
from isonomy.options import (
    Alpha,
    Column,
    Form,
    Missing,
    MissingGroup,
    Names,
    Number,
    Power,
    Seeded,
    Whole,
    checked,
)
from isonomy.results import open_call, question
from isonomy.treatment.decide import decide, decide_corrections
from isonomy.treatment.effects.collapse import CollapseName, Estimator, Measure, Rest
from isonomy.treatment.effects.models import Predictor, effects_of
from isonomy.treatment.effects.shrinkage import Loss, risk_of, strategies_of
from isonomy.treatment.estimate import estimate, estimate_corrections
from isonomy.treatment.plan import Adjust, Resamples, RestCorrection, Variance, idle_roles, plan, plan_corrections
from isonomy.treatment.result import CorrectionsResult, TreatmentBiasResult
from isonomy.treatment.tally import tally, tally_corrections


@question(plan, idle=idle_roles)
def treatment_bias(
    data: object,
    *,
    effect: Column,
    groups: Groups,
    treatment: Column | None = None,
    outcome: Column | None = None,
    baseline: Column | None = None,
    measure: Measure = "relative",
    collapse: CollapseName | None = None,
    estimator: Estimator = "arm_means",
    features: Names | None = None,
    observed_effects: Annotated[Mapping[str, tuple[float, float]], Form("observed_effects")] | None = None,
    rest: Rest = "standardised",
    split: Annotated[str, Form("split")] | None = None,
    variance: Variance = "influence",
    adjust: Adjust = "holm",
    tolerance: Annotated[float, Number(above=0, unit="in units of the effect")] | None = None,
    alpha: Alpha = 0.05,
    power: Power = 0.8,
    depth: Whole = 1,
    resamples: Resamples = 1_000,
    rng: Seeded = None,
    count: Column | None = None,
    missing: Missing = "raise",
    missing_group: MissingGroup = "raise",
) -> TreatmentBiasResult:
    """Does an uplift model get some groups' treatment effects wrong more than others'?

    For each group g the predicted effects are collapsed to the group's predicted effect P_g and compared with the
    observed effect tau_g of a randomised experiment: error B_g = P_g - tau_g (equation 12). The bias is
    A_g = B_g - B_-g, where -g are all other groups (equation 11).

    Null hypotheses: B_g = 0 (equation 24; ``error_pvalue``) and A_g = 0 (equation 26; ``bias_pvalue``), or, with a
    ``tolerance``, |A_g| <= tolerance (equation 13). Verdicts are about the bias, after adjustment over groups.

    Parameters
    ----------
    data : table
        Any table isonomy reads; one row per person or session. One grouped pass over it, on its own engine.
    effect : str
        Column of predicted effects: ratios for ``measure="relative"`` (1.1 means ten percent more), else differences.
    groups : str, list, cut or where
        Whom to compare: columns, `cut` or `where`.
    treatment, outcome : str, optional
        Columns with the 0/1 assignment, and with the outcome: 0/1 or any number.
    baseline : str, optional
        Column with the predicted outcome without treatment; needed by the collapses "weighted" and "normalised".
    measure : {"relative", "difference"}, default "relative"
        Ratio of mean outcomes (equation 15), or their difference (equation 55).
    collapse : str, default "control_outcome"
        How predicted relative effects become a group's: "control_outcome" (outcomes of the controls as weights),
        "average" (56), "weighted" (16), "normalised", "positives" (20), "positives_inverse". Differences are averaged.
    estimator : {"arm_means", "regression", "aipw"}, default "arm_means"
        "regression": least squares on ``features`` within each arm of each group. "aipw": cross-fitted gradient
        boosting on ``features``, which brings those columns into memory. All three aim at the same effect; the others
        may be more precise.
    features : list of str, optional
        Numeric columns that "regression" and "aipw" adjust for.
    observed_effects : mapping of str to (float, float), optional
        {group: (effect, standard error)}, for effects estimated elsewhere (section 5.1), by label ("country=DE") or by
        value ("DE"). Then ``treatment`` and ``outcome`` may be left out.
    rest : {"standardised", "pooled"}, default "standardised"
        What a group is compared with: each other group with its share of rows, or the paper's pooled rows.
    split : str, optional
        "independent" (predicted and observed effects from random halves, Assumption 1), or a 0/1 column: 0 for rows of
        predictions, 1 for rows of estimation.
    variance : {"influence", "bootstrap", "bootstrap_rows"}, default "influence"
        Where standard errors come from: "bootstrap" is over cells (any number of rows), "bootstrap_rows" draws rows in
        memory.
    adjust : {"holm", "bonferroni", "bh", "by", "none"}, default "holm"
        Allowance for looking at several groups, over all groups of the call.
    tolerance : float, optional
        Largest bias that does not matter, in units of the effect.
    alpha : float, default 0.05
        Error rate of tests and of pointwise intervals.
    power : float, default 0.8
        Power at which ``detectable_bias`` is stated.
    depth : int, default 1
        Intersections up to this many columns.
    resamples : int, default 1000
        Of the bootstrap.
    rng : int, Generator or None, default None
        Seed of splits, folds and resamples.
    count : str, optional
        Column that says how many equal rows a line stands for.
    missing : {"raise", "drop"}, default "raise"
        What to do with rows that lack a value.
    missing_group : {"raise", "level", "drop"}, default "raise"
        What to do with rows that lack a group.

    Returns
    -------
    TreatmentBiasResult
        Error, bias, interval, p-values and verdict of each group.

    Notes
    -----
    With the default, B_g = b exactly when mean_control[Y (f - b)] = mean_treated[Y]: a Welch test, and the interval
    inverts it (Fieller). Limits of the bias combine those of the group and of the rest (MOVER).

    When it misleads: when rows repeat people (intervals too short), when the model saw the same rows in training, or
    when an arm has fewer than about ten rows with an outcome (a warning says so).

    References
    ----------
    Persson, Bakker, Bohle, Feuerriegel and von Wangenheim, Detecting and Mitigating Algorithmic Bias in Treatment
    Effect Estimation.

    Examples
    --------
    >>> import isonomy as iso
    >>> table = iso.simulate.uplift(20_000, groups=["a", "b", "c"], baseline=0.4, error={"b": 0.4}).columns
    >>> result = iso.treatment_bias(
    ...     table, effect="effect", treatment="treatment", outcome="outcome", groups="group"
    ... )
    >>> [verdict.value for verdict in result.verdicts]
    ['violation', 'violation', 'violation']
    >>> bool(result.bias_low[1] < 0.4 < result.bias_high[1])
    True
    """
    call = open_call("treatment_bias", locals())
    asked = plan(call.source, **call.options)
    sums = tally(call.source, asked, call.rng)
    estimates = estimate(sums, asked, call.rng)
    decisions = decide(estimates, asked)
    return TreatmentBiasResult.of(call, asked, sums, estimates, decisions)


@question(plan_corrections)
def evaluate_corrections(
    data: object,
    *,
    effect: Column,
    treatment: Column,
    outcome: Column,
    groups: Groups,
    baseline: Column | None = None,
    measure: Measure = "relative",
    collapse: CollapseName | None = None,
    strategies: Sequence[str] | None = None,
    rest: Rest = "standardised",
    rest_correction: RestCorrection = "rows",
    splits: Whole = 10,
    resamples: Resamples = 50,
    buckets: Annotated[int, Number(least=2, whole=True, unit="even")] = 20,
    alpha: Alpha = 0.05,
    progress: bool = False,
    rng: Seeded = None,
    count: Column | None = None,
    missing: Missing = "raise",
    missing_group: MissingGroup = "raise",
) -> CorrectionsResult:
    """How much of each group's error would remain after correcting the predicted effects?

    Repeats ``splits`` times: split the rows at random into two halves; on one, detect each group's error B with
    ``resamples`` bootstrap replicates and find the factor gamma of each strategy; on the other, subtract gamma B from
    the predictions of the group and estimate, with as many replicates, what remains of the error and of the bias;
    then swap the halves. Nothing that found a correction takes part in judging it, so the tests (50) and (51) of what
    remains are ordinary tests.

    The table is read once, whatever the number of splits: rows are spread over ``buckets`` random parts, and a half is
    half of the parts. The bootstrap is over cells (see `isonomy.treatment.effects.resample`).

    Parameters
    ----------
    data : table
        As in `treatment_bias`, as are the arguments not listed here.
    collapse : str, default "control_outcome"
        As in `treatment_bias`. "positives_inverse" is not linear in the effect and cannot be used.
    strategies : list of str, optional
        Names out of "none", "mean", "significant" (42), "mse_plus" (46), "mse_minus" (47), "positive_part"; all by
        default. "none" is always evaluated.
    rest_correction : {"rows", "single"}, default "rows"
        "rows": the rest collapses each row's own corrected prediction. "single": one factor for the whole rest, as in
        the paper's Algorithm 1.
    splits : int, default 10
        Random splits, each with its swap.
    resamples : int, default 50
        Bootstrap replicates on each half.
    buckets : int, default 20
        Random parts of the rows, an even number.
    alpha : float, default 0.05
        Error rate of the tests, and of the strategy "significant".
    progress : bool, default False
        Show a progress bar.

    Returns
    -------
    CorrectionsResult
        What remains of each group's error and bias, by strategy and run.

    Notes
    -----
    When it misleads: splits and swaps reuse the same rows, so the spread over them is not a standard error.

    References
    ----------
    Persson, Bakker, Bohle, Feuerriegel and von Wangenheim, Detecting and Mitigating Algorithmic Bias in Treatment
    Effect Estimation, section 7.

    Examples
    --------
    >>> import isonomy as iso
    >>> table = iso.simulate.uplift(40_000, groups=8, baseline=0.3, error={"b": 0.5, "f": -0.4}).columns
    >>> result = iso.evaluate_corrections(
    ...     table, effect="effect", treatment="treatment", outcome="outcome", groups="group", rng=1
    ... )
    >>> spread = dict(zip(result.strategies, result.spread("bias"), strict=True))
    >>> bool(spread["positive_part"] < spread["none"])
    True
    """
    call = open_call("evaluate_corrections", locals())
    asked = plan_corrections(call.source, **call.options)
    sums = tally_corrections(call.source, asked, call.rng)
    estimates = estimate_corrections(sums, asked, call.rng)
    decisions = decide_corrections(estimates, asked)
    return CorrectionsResult.of(call, asked, sums, estimates, decisions)


@checked
def correction_risk(
    ratios: Sequence[float] | FloatArray | None = None,
    strategies: Sequence[str] | None = None,
    *,
    alpha: Alpha = 0.05,
    loss: Loss = "squared",
) -> dict[str, FloatArray]:
    """How large an error does each correction leave, on average, when the true error is b and its estimate N(b, sd^2)?

    Parameters
    ----------
    ratios : array_like, optional
        True errors b / sd; 0 to 4 by default.
    strategies : list of str, optional
        Names as in `evaluate_corrections`; all by default.
    alpha : float, default 0.05
        Error rate of the strategy "significant".
    loss : {"squared", "absolute"}, default "squared"
        Mean of ((b - gamma B) / sd)^2, or of |b - gamma B| / sd.

    Returns
    -------
    dict of str to ndarray
        The risk under the key of each strategy, and the ratios under "ratio". ``none`` has squared risk (b / sd)^2 and
        ``mean`` has 1. No strategy is below all others everywhere.

    Examples
    --------
    >>> import isonomy as iso
    >>> risk = iso.correction_risk([0.0, 1.0, 2.0, 3.0])
    >>> risk["positive_part"].round(2).tolist()
    [0.33, 0.86, 1.45, 1.41]
    """
    at = np.linspace(0, 4, 81) if ratios is None else np.asarray(ratios, dtype=float)
    return {"ratio": at} | {name: risk_of(name, at, alpha, loss) for name in strategies_of(strategies)}


@checked
def predicted_effects(
    model: object,
    X: object,
    *,
    measure: Measure = "relative",
    gives: Measure | None = None,
    baseline: Annotated[npt.ArrayLike | Predictor | None, Form("baseline")] = None,
    column: int | None = None,
) -> FloatArray:
    """What effect does this model predict for each row of ``X``?

    Parameters
    ----------
    model : object
        An object with ``effect(X)`` (EconML) or ``predict(X)`` (causalml and most others); or a pair of outcome
        models, (control, treated), of which ``predict_proba`` is used where there is one.
    X : object
        What the model takes.
    measure : {"relative", "difference"}, default "relative"
        What is wanted: a ratio (1 is no effect) or a difference; the same as in `treatment_bias`.
    gives : {"relative", "difference"}, default "difference"
        What a single model predicts. A pair of models gives either.
    baseline : array_like or model, optional
        Predicted outcome without treatment for each row: turns a difference into a ratio, 1 + difference / baseline,
        and back.
    column : int, optional
        Which column, where the model predicts several treatments.

    Returns
    -------
    ndarray
        One effect per row.

    Examples
    --------
    >>> class Model:
    ...     def effect(self, X):
    ...         return X[:, :1] * 0.1
    >>> predicted_effects(Model(), np.array([[1.0], [2.0]]), measure="relative", baseline=[0.5, 0.4]).round(3).tolist()
    [1.2, 1.5]
    """
    return effects_of(model, X, measure=measure, gives=gives, baseline=baseline, column=column)
