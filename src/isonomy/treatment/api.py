"""The public functions: errors of predicted effects by group, and how well corrections of them would do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from isonomy.frames import Groups
from isonomy.options import Alpha, Column, Draws, Fraction, Missing, MissingGroup, Names, Number, Power, Seeded, Whole
from isonomy.options import Form as FileForm
from isonomy.results import open_call, question
from isonomy.treatment.decide import decide, decide_corrections, decide_price
from isonomy.treatment.effects.collapse import CollapseName, Estimator, NamedMeasure, Rest
from isonomy.treatment.effects.heldout import Inner
from isonomy.treatment.effects.shrinkage import Custom, Form
from isonomy.treatment.estimate import estimate
from isonomy.treatment.estimate_corrections import estimate_corrections
from isonomy.treatment.estimate_price import estimate_price
from isonomy.treatment.plan import (
    Adjust,
    Bootstrap,
    Resamples,
    RestCorrection,
    Test,
    Variance,
    idle_roles,
    plan,
    plan_corrections,
    plan_price,
)
from isonomy.treatment.result import CorrectionsResult, PriceResult, TreatmentBiasResult
from isonomy.treatment.tally import tally, tally_corrections, tally_price


@question(plan, idle=idle_roles)
def treatment_bias(
    data: object = None,
    *,
    effect: Column,
    groups: Groups,
    treatment: Column | None = None,
    outcome: Column | None = None,
    baseline: Column | None = None,
    measure: NamedMeasure | None = None,
    collapse: CollapseName | None = None,
    estimator: Estimator = "arm_means",
    features: Names | None = None,
    propensity: Column | None = None,
    given: Names | None = None,
    observed_effects: Annotated[Mapping[str, tuple[float, float]], FileForm("observed_effects")] | None = None,
    rest: Rest = "standardised",
    split: Annotated[str, FileForm("split")] | None = None,
    variance: Variance = "influence",
    test: Test = "automatic",
    adjust: Adjust = "holm",
    tolerance: Annotated[float, Number(above=0, unit="in units of the effect")] | None = None,
    alpha: Alpha = 0.05,
    power: Power = 0.8,
    depth: Whole = 1,
    resamples: Resamples = 1_000,
    rng: Seeded = None,
    count: Column | None = None,
    weight: Column | None = None,
    cluster: Column | None = None,
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
        Column of predicted effects: ratios (1.1 means ten percent more), or differences with ``measure="difference"``.
    groups : str, list, cut or where
        Whom to compare: columns, `cut` or `where`.
    treatment, outcome : str, optional
        Columns with the 0/1 assignment, and with the outcome: 0/1 or any number.
    baseline : str, optional
        Column with the predicted outcome without treatment; needed by the collapses "weighted" and "normalised".
    measure : {"relative", "difference"}, optional
        Ratio of mean outcomes (equation 15), or their difference (equation 55), which uplift models mostly predict.
        Left out, it is "relative", and predictions that are clearly differences are refused.
    collapse : str, default "control_outcome"
        How predicted relative effects become a group's: "control_outcome" (outcomes of the controls as weights),
        "average" (56), "weighted" (16), "normalised", "positives" (20), "positives_inverse". Differences are averaged.
    estimator : {"arm_means", "regression", "aipw"}, default "arm_means"
        "regression": least squares on ``features`` within each arm of each group. "aipw": cross-fitted gradient
        boosting on ``features``, which brings those columns into memory. All three aim at the same effect; the others
        may be more precise.
    features : list of str, optional
        Numeric columns that "regression" and "aipw" adjust for.
    propensity : str, optional
        Column with the known probability of treatment of each row, where it differs: rows are weighed by its inverse.
    given : list of str, optional
        Columns within which treatment was randomised (stratified randomisation): arms are compared within them.
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
        memory. Tests of few events are those of ``test`` whatever it is.
    test : {"automatic", "welch"}, default "automatic"
        "automatic": where a 0/1 outcome has fewer than 400 events in an arm, the law of the counts (ratios: conditional
        binomial, mid-p; differences: score test with its skewness), and no verdict on a group with too few events for
        any; otherwise Welch's test and Fieller's interval. With other estimators, collapses and rests than the default,
        splits and designs there is no such law, and a verdict needs more events. "welch": Welch's test always.
    adjust : {"holm", "bonferroni", "bh", "by", "none"}, default "holm"
        Allowance for looking at several groups, over all groups of the call. Two groups that are compared with each
        other are one hypothesis, which counts once.
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
    weight : str, optional
        Column with the people each row stands for, such as a survey's weights. Only their proportions matter.
    cluster : str, optional
        Column that says which rows belong together: a person, a household, a shop that was randomised as a whole. The
        error is then measured between clusters, and groups of fewer than 10 effective ones are listed, not tested.
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

    Weights, clusters, propensities and strata: means are weighted, and the variance is that of the sums of influences
    over clusters; the columns named are read into memory.

    When it misleads: when rows repeat people and no ``cluster`` says so (intervals too short), or when the model saw
    the same rows in training. Groups with too few events, or too skewed outcomes, are not given a verdict.

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
    >>> bool(result.bias_low[1] < 0.4 < result.bias_high[1])
    True
    """
    call = open_call("treatment_bias", locals())
    asked = plan(call.source, **call.options)
    sums = tally(call.source, asked, call.rng)
    estimates = estimate(sums, asked, call.rng)
    decisions = decide(estimates, asked)
    return TreatmentBiasResult.of(call, asked, sums, estimates, decisions)


@question(plan_corrections, idle=idle_roles)
def evaluate_corrections(
    data: object = None,
    *,
    effect: Column,
    treatment: Column,
    outcome: Column,
    groups: Groups,
    baseline: Column | None = None,
    measure: NamedMeasure | None = None,
    collapse: CollapseName | None = None,
    estimator: Estimator = "arm_means",
    features: Names | None = None,
    propensity: Column | None = None,
    observed_effects: Annotated[Mapping[str, tuple[float, float]], FileForm("observed_effects")] | None = None,
    strategies: Sequence[str | Custom] | None = None,
    form: Form = "additive",
    rest: Rest = "standardised",
    rest_correction: RestCorrection = "rows",
    split: Inner | None = None,
    variance: Bootstrap = "bootstrap",
    splits: Draws = 10,
    resamples: Resamples = 50,
    buckets: Annotated[int, Number(least=2, most=1_000, whole=True, unit="even")] = 20,
    alpha: Alpha = 0.05,
    depth: Whole = 1,
    progress: bool = False,
    rng: Seeded = None,
    count: Column | None = None,
    weight: Column | None = None,
    cluster: Column | None = None,
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
    half of the parts.

    Parameters
    ----------
    data : table
        Any table isonomy reads.
    effect, treatment, outcome, groups, baseline, measure, estimator, features, propensity, rest, rng
        As in `treatment_bias`.
    observed_effects : mapping of str to (float, float), optional
        Effects estimated elsewhere, as in `treatment_bias`: corrections are found with these, and what they leave is
        judged against the experiment of these rows.
    collapse : str, default "control_outcome"
        As in `treatment_bias`. "positives_inverse" is not linear in the effect and cannot be used.
    strategies : list of str or callable, optional
        Names out of "none", "mean", "significant" (42), "mse_plus" (46), "mse_minus" (47), "positive_part",
        "empirical_bayes", "empirical_bayes_t", "empirical_bayes_mixture" (see `EffectCorrector`), all by default; or
        functions of two arrays, the errors of all groups and their standard errors, that return what is subtracted from
        each group's predictions. "none" is always evaluated.
    form : {"additive", "multiplicative"}, default "additive"
        Subtract the correction from every prediction of a group, or multiply them so that the group's effect falls by
        it: a relative effect then stays above 0.
    rest_correction : {"rows", "single"}, default "rows"
        "rows": the rest collapses each row's own corrected prediction. "single": one factor for the whole rest, as in
        the paper's Algorithm 1.
    split : {"independent", "swapped"}, optional
        Steps 5 to 7 of Algorithm 1: within each half, predicted effects come from one half of the rows and observed
        ones from the other; "swapped" averages over both ways round (Appendix E). Not needed here, since variances
        count the covariance of the two.
    variance : {"bootstrap", "bootstrap_rows"}, default "bootstrap"
        Over cells, for any number of rows (see `isonomy.treatment.effects.resample`); or rows drawn in memory.
    splits : int, default 10
        Random splits, each with its swap.
    resamples : int, default 50
        Bootstrap replicates on each half.
    buckets : int, default 20
        Random parts of the rows: an even number, and a multiple of 4 with ``split``.
    alpha : float, default 0.05
        Error rate of the tests, and of the strategy "significant".
    depth : int, default 1
        Intersections up to this many columns.
    progress : bool, default False
        Show a progress bar.
    weight, cluster : str, optional
        As in `treatment_bias`. Halves and resamples are of whole clusters: a person is never in both halves. Groups of
        fewer than 10 effective clusters in a half take no part in that split.

    Returns
    -------
    CorrectionsResult
        What remains of each group's error and bias, by strategy and run.

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
    >>> spread = dict(zip(result.strategies, result.spread("bias"), strict=True))
    >>> bool(spread["empirical_bayes_mixture"] < spread["none"])
    True
    >>> result.headline()
    'Less bias shown: less remains after 8 of 8 corrections, and least after empirical bayes mixture.'
    """
    call = open_call("evaluate_corrections", locals())
    asked = plan_corrections(call.source, **call.options)
    sums = tally_corrections(call.source, asked, call.rng)
    estimates = estimate_corrections(sums, asked, call.rng)
    decisions = decide_corrections(estimates, asked)
    return CorrectionsResult.of(call, asked, sums, estimates, decisions)


@question(plan_price)
def price_of_fairness(
    data: object,
    *,
    effect: Column,
    corrected: Names,
    treatment: Column,
    outcome: Column,
    groups: Groups,
    measure: NamedMeasure | None = None,
    baseline: Column | None = None,
    propensity: Column | None = None,
    budget: Fraction = 0.3,
    alpha: Alpha = 0.05,
    depth: Whole = 1,
    count: Column | None = None,
    weight: Column | None = None,
    cluster: Column | None = None,
    missing: Missing = "raise",
    missing_group: MissingGroup = "raise",
) -> PriceResult:
    """What do corrected effects cost in the ranking of persons?

    A correction moves the predictions of whole groups, and so the order of persons across groups. Three quantities
    are compared before and after, on the same rows: Qini (area between the gain from treating those ranked highest and
    from treating as many at random), transformed-outcome loss (mean squared distance of the predicted differences from
    Z = Y (T - p) / (p (1 - p)), whose mean is the effect), and the value of treating the ``budget`` share that is
    ranked highest. Null hypothesis, for each column and quantity: no change.

    Parameters
    ----------
    data : table
        Rows of an experiment that took no part in fitting the corrections. The columns named here are read into memory.
    effect : str
        Column of predicted effects before correction.
    corrected : str or list of str
        Columns of corrected effects.
    treatment, outcome, groups, measure, alpha, depth, count, weight, cluster, missing, missing_group
        As in `treatment_bias`.
    baseline : str, optional
        Column with the predicted outcome without treatment. Relative effects are then ranked and judged as differences.
    propensity : str, optional
        Column with the known probability of treatment; the treated share of all rows otherwise.
    budget : float, default 0.3
        Share of persons that can be treated.

    Returns
    -------
    PriceResult
        Each quantity before and after, its paired change with an interval, and the bias left.

    Notes
    -----
    When it misleads: without ``propensity`` where the share treated differs between groups; on rows that the
    corrections were fitted on.

    References
    ----------
    Persson, Bakker, Bohle, Feuerriegel and von Wangenheim (working paper, 2024 or later), section 6.5. Athey and Imbens
    (2016), Recursive partitioning for heterogeneous causal effects. PNAS 113.

    Examples
    --------
    >>> import isonomy as iso
    >>> made = iso.simulate.uplift(20_000, groups=["a", "b"], baseline=0.3, error={"b": 0.5}).frame()
    >>> corrector = iso.EffectCorrector(group_columns="group").fit(made, made["outcome"])
    >>> new = iso.simulate.uplift(20_000, 1, groups=["a", "b"], baseline=0.3, error={"b": 0.5}).frame()
    >>> new = new.with_columns(corrected=corrector.predict(new))
    >>> price = iso.price_of_fairness(
    ...     new, effect="effect", corrected="corrected", treatment="treatment", outcome="outcome", groups="group",
    ...     baseline="baseline",
    ... )
    >>> bool(price.bias_after[0] < price.bias_before)
    True
    """
    call = open_call("price_of_fairness", locals())
    asked = plan_price(call.source, **call.options)
    rows = tally_price(call.source, asked)
    estimates = estimate_price(rows, asked)
    decisions = decide_price(estimates, asked)
    return PriceResult.of(call, asked, rows, estimates, decisions)
