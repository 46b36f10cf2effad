"""Flagging: which groups are treated differently. Certification: all groups at once."""

from __future__ import annotations

from typing import Literal

from isonomy.frames import Groups, MetricLike
from isonomy.likelihood.decide import decide, decide_joint
from isonomy.likelihood.decide_given import decide_within
from isonomy.likelihood.estimate import estimate
from isonomy.likelihood.estimate_given import estimate_within
from isonomy.likelihood.estimate_joint import estimate_joint
from isonomy.likelihood.plan import Adjustment, Better, Disparities, FlagScale, Given, Label, Method, plan
from isonomy.likelihood.plan_reference import ReferenceLike, Uncertainty
from isonomy.likelihood.ratio.disparity import Against, Interval
from isonomy.likelihood.ratio.standardised import Sigma
from isonomy.likelihood.result import FlagResult
from isonomy.likelihood.result_given import StratifiedCertifyResult, StratifiedResult
from isonomy.likelihood.result_joint import CertifyResult
from isonomy.likelihood.tally import tally
from isonomy.options import Alpha, Column, Draws, Missing, MissingGroup, Seeded, Tolerance, Whole
from isonomy.results import open_call, question


@question(plan)
def flag(
    data: object = None,
    *,
    metric: MetricLike,
    groups: Groups,
    outcome: Column | None = None,
    prediction: Column | None = None,
    score: Column | None = None,
    positive: Label = None,
    reference: ReferenceLike = "population",
    uncertainty: Uncertainty = "joint",
    scale: FlagScale = "difference",
    sigma: Sigma = "population",
    null: float | tuple[float, float] | None = None,
    alternative: Against = "two-sided",
    tolerance: Tolerance = None,
    interval: Interval = "pointwise",
    alpha: Alpha = 0.05,
    adjust: Adjustment = "bh",
    better: Better = None,
    depth: Whole = 1,
    min_size: Whole = 10,
    method: Method = "el",
    correction: Literal["auto", "bartlett", "adjusted"] | None = "auto",
    resamples: Draws = 1_000,
    rng: Seeded = None,
    given: Given = None,
    count: Column | None = None,
    weight: Column | None = None,
    cluster: Column | None = None,
    missing: Missing = "raise",
    missing_group: MissingGroup = "raise",
) -> FlagResult:
    """Which groups does this model treat differently, by how much, and is that more than chance?

    The disparity of a group is the mean of the metric inside it less the reference, or divided by it (see ``scale``).
    Null hypothesis, for each group: the disparity equals ``null`` (or is at most, at least, or between; see
    ``alternative``). T is an empirical likelihood ratio, chi-square with one degree of freedom at the true disparity,
    whatever the metric's distribution.

    Parameters
    ----------
    data : frame, mapping or path
        Any table: pandas, polars, pyarrow, a DuckDB relation, PySpark, a mapping of arrays, a path.
    metric : str, Metric or sequence of these
        A name (``"ppv"``, ``"selection_rate"``, ``"mse"``, ...) or an `isonomy.Metric`, a mean or (in `flag`) a
        quantile; several are tested together, in one result with a column ``metric``. ``"equalized_odds"`` is
        ``["tpr", "fpr"]``.
    groups : str, cut, where or sequence of these
        Columns, cuts and conditions that make groups.
    outcome, prediction, score : str, optional
        The columns with these roles, as the metric needs them.
    positive : str, int, float or bool, optional
        The label of the outcome and the prediction that counts as 1, any other as 0: for text, and for one class of
        many. Without it both hold 0 and 1.
    reference : str, float, mapping, Group or Estimate, default "population"
        ``"population"``, ``"rest"`` (all rows outside the group), ``"highest"`` or ``"lowest"`` (the best-off of the
        groups that the same columns make, whichever it is: that it is unknown counts), a number, a group such as
        ``{"race": "Caucasian"}`` (for a named condition ``{"young men": True}``, or ``False``), or an `Estimate` with
        a column of influence values.
    uncertainty : {"joint", "plugin", "fixed"}, default "joint"
        Whether the reference's error counts (``"joint"``) or not (``"plugin"``). A number has no error:
        ``"fixed"``, to which the default comes down then.
    scale : {"difference", "ratio", "odds_ratio", "standardised"}, default "difference"
        How a group is set beside the reference: its mean less the reference, over it (for metrics that are never
        negative), or its odds over the reference's (for 0/1 metrics). T is the same, so p-values of "no difference"
        are; intervals, ``null`` and ``tolerance`` are in the scale's own unit. ``"standardised"`` is the difference in
        standard deviations, for metrics that are not 0/1; the error of the standard deviation counts.
    sigma : {"population", "pooled", "reference"}, default "population"
        Whose standard deviation is the unit of ``scale="standardised"``: that of all rows, that of the group and its
        reference about their own means (against a group, or the rest), or that of a reference group.
    null : float or (float, float), optional
        The disparity tested, or the ends of an interval of them; without it no difference, which is 0, or a ratio of 1.
    alternative : {"two-sided", "greater", "less", "outside", "outside-published"}, default "two-sided"
        ``"two-sided"`` tests disparity = null; ``"greater"`` flags groups above it, ``"less"`` below it;
        ``"outside"`` takes ``null=(low, high)`` and flags groups outside; ``"outside-published"`` does so with the
        paper's p-value.
    tolerance : float, optional
        The largest disparity that does not matter. The null becomes abs(disparity) <= tolerance, and a group whose
        interval lies inside the tolerance is shown to be within it. A ratio's tolerance is a ratio: 0.8 tolerates 0.8
        to 1.25.
    interval : {"pointwise", "simultaneous", "one-sided"}, default "pointwise"
        Intervals of one group at a time, of all tested groups together (Sidak's level), or a bound facing the
        alternative (without a tolerance, within which such a bound could show nothing).
    alpha : float, default 0.05
        The error rate of tests and intervals.
    adjust : {"bh", "by", "holm", "bonferroni", "none", "bh-tree", "bh-siblings", "max-t"}, default "bh"
        How p-values are adjusted for the number of groups, over all metrics; ``"bh-tree"`` is Benjamini-Hochberg level
        by level down the tree of intersections, ``"bh-siblings"`` among the children of each node, as the paper's
        authors do (groups that differ in the last of their columns alone, in the order of ``groups``). ``"max-t"``
        holds the chance of any false flag, as Holm's does, with the known covariance of all disparities (Romano and
        Wolf), from normal draws.
    better : {"higher", "lower"}, optional
        Which values of the metric are better for the people concerned: it says which flagged groups are *favoured* and
        which *disfavoured*, beside their reference or the disparity tested, if that is another than none. Without it
        lower ones of errors, higher ones of anything else.
    depth : int, default 1
        How many of the groups' columns, cuts and conditions are intersected.
    min_size : int, default 10
        Groups with fewer rows inside the metric's condition are listed, not tested.
    method : {"el", "eel"}, default "el"
        Empirical or Euclidean likelihood.
    correction : {"auto", "bartlett", "adjusted"}, optional
        For small groups. ``"auto"``, the default: where a group of a 0/1 metric or its reference has fewer than 20
        cases, or rows that are none, p-value and interval are by the score statistic with its skewness counted.
        ``"bartlett"``: T over its mean (with an estimated reference from resamples). ``"adjusted"``: one row more.
        None: the likelihood ratio throughout, as in the paper.
    resamples : int, default 1000
        Resamples behind a correction, at least 100.
    rng : int or Generator, optional
        The seed of the resamples.
    given : str, cut, where or sequence of these, optional
        Legitimate factors: each group is compared with people of the same stratum, a combination of their levels.
        See the notes on comparisons within strata.
    count : str, optional
        A column with the number of equal, independent rows each line stands for.
    weight : str, optional
        A column with the people each row stands for, such as a survey's weights. Only their proportions matter.
    cluster : str, optional
        A column that says which rows belong together: a person, a household, a branch. The error is then measured
        between clusters, and groups of fewer than 10 effective ones are listed, not tested.
    missing : {"raise", "drop"}, default "raise"
        What to do about missing values.
    missing_group : {"raise", "level", "drop"}, default "raise"
        What to do about missing groups.

    Returns
    -------
    FlagResult
        ``to_frame()`` has one row per group: group, size, n, estimate, reference, disparity, ci_low, ci_high,
        statistic, pvalue, adjusted_pvalue, verdict, direction, status, detectable (the smallest disparity that these
        rows would have shown four times in five) and, with a tolerance, rows_needed (rows with which a group that does
        not differ would as often be shown within it). ``widest()`` is the largest gap between groups.
        With ``given`` it is a `StratifiedResult`: ``estimate`` and ``reference`` are then adjusted for the factors and
        give ``disparity``; ``raw_estimate`` and ``raw_reference`` are not and give ``unconditional``. Further columns
        say how much of that the factors account for.

    Notes
    -----
    Assumes independent rows (or clusters, where they are named) and groups large enough for the limit. With weights or
    clusters ``statistic`` is the chi-square that is as far out as T over its design effect is under F(1, nu), and
    `to_frame` has the columns clusters, effective_clusters and design_effect.

    The reference is estimated from the same rows, and by default its error is part of the test. The paper's Theorem
    2 leaves it out; ``uncertainty="plugin"`` does the same and is wrong by as much as that error is large. The
    statistic is that of the paper's sections 3 and 4, its Algorithms G.2 to G.5; the joint reference and the
    interval null's p-value are corrections of it, described on the method's page.

    Within strata (``given``) the disparity is Mantel and Haenszel's common difference, ratio or odds ratio with the
    variances of Sato, of Greenland and Robins, and of Robins, Breslow and Greenland; the p-value of equality is
    Cochran, Mantel and Haenszel's, without a correction for continuity, and any other p-value and the intervals count
    standard errors. ``estimate`` and ``reference`` average the means of the group and of its reference over the
    strata, both with Mantel and Haenszel's weights n1 n0 / (n1 + n0), so that their difference (ratio) is the common
    one. No such averages give an odds ratio; on that scale ``estimate`` is the rate with the common odds ratio to
    ``reference``. Against the population or the rest, a group is compared with the rest of its stratum, and the
    unconditional disparity is that from the rest too. Strata in which one side is empty carry no information; they are
    counted. Whether a factor is legitimate is not a question of statistics.

    When it misleads: rows that belong together in ways no ``cluster`` says; groups chosen after looking at the data;
    groups of a few dozen rows with a skewed metric, where T is too large (see ``correction``).

    References
    ----------
    Tang, J., Xie, C., Zeng, X. and Zhu, L. (2026). Empirical likelihood-based fairness auditing: distribution-free
    certification and flagging. arXiv:2601.20269.

    Examples
    --------
    >>> import isonomy as iso
    >>> table = {"approved": [1] * 60 + [0] * 40 + [1] * 90 + [0] * 10, "sex": ["f"] * 100 + ["m"] * 100}
    >>> result = iso.flag(table, metric="selection_rate", groups="sex", prediction="approved", reference={"sex": "m"})
    >>> result.to_frame().select("group", "disparity", "status").rows()
    [('sex=f', -0.30000000000000004, 'ok'), ('sex=m', 0.0, 'reference')]
    >>> [str(group) for group in result.flagged]
    ['sex=f']
    """
    call = open_call("flag", locals())
    asked = plan(call.source, **call.options)
    sums = tally(call.source, asked)
    estimates = estimate(sums, asked, call.rng)
    decisions = decide(estimates, asked)
    if asked.given:
        within = estimate_within(sums[0], asked)
        decisions = decide_within(decisions, estimates, within, asked)
        return StratifiedResult.within(FlagResult.of(call, asked, sums, estimates, decisions), asked, within)
    return FlagResult.of(call, asked, sums, estimates, decisions)


@question(plan)
def certify(
    data: object = None,
    *,
    metric: MetricLike,
    groups: Groups,
    outcome: Column | None = None,
    prediction: Column | None = None,
    score: Column | None = None,
    positive: Label = None,
    reference: ReferenceLike = "population",
    uncertainty: Uncertainty = "joint",
    scale: FlagScale = "difference",
    sigma: Sigma = "population",
    null: Disparities | None = None,
    tolerance: Tolerance = None,
    alpha: Alpha = 0.05,
    depth: Whole = 1,
    min_size: Whole = 10,
    method: Method = "el",
    correction: Literal["auto", "bartlett"] | None = "auto",
    resamples: Draws = 1_000,
    rng: Seeded = None,
    given: Given = None,
    count: Column | None = None,
    weight: Column | None = None,
    cluster: Column | None = None,
    missing: Missing = "raise",
    missing_group: MissingGroup = "raise",
) -> CertifyResult:
    """Taken together, do the groups differ from the reference by more than chance?

    Null hypothesis: every tested group's disparity equals ``null`` (no difference by default) at once. T is the joint
    empirical (``"el"``) or Euclidean (``"eel"``) likelihood ratio, chi-square with as many degrees of freedom as there
    are independent estimating functions, less the references that are profiled: k groups that partition the rows have k
    - 1.

    Parameters
    ----------
    data, metric, groups, outcome, prediction, score, positive, reference, uncertainty
        As in `isonomy.flag`.
    scale, sigma
        As in `isonomy.flag`.
    null : float, sequence of float or mapping, optional
        One disparity for all groups, one per tested group in order, or a mapping from group labels; without it no
        difference.
    tolerance : float, optional
        The largest disparity that does not matter. The verdict is then *violation* if abs(disparity) <= tolerance is
        rejected for some group (Holm over groups), *within tolerance* if every simultaneous interval lies inside it,
        else *inconclusive*. Without, it is *violation* if the joint null is rejected.
    alpha : float, default 0.05
        The error rate of the test and of the simultaneous intervals.
    depth, min_size, method
        As in `isonomy.flag`.
    correction : {"auto", "bartlett"}, optional
        ``"bartlett"``: T divided by its mean over its degrees of freedom, in closed form for known references of
        disjoint groups, from resamples of rows that meet the null otherwise. It holds for the p-value and `contains`;
        the groups' own intervals are not corrected. ``"auto"``, the default: where the second-order term of T says that
        the level would be missed by a tenth of it or more, and there are neither weights nor clusters, which have a law
        of their own. None: never, as in the paper.
    resamples, rng, given, count, weight, cluster, missing, missing_group
        As in `isonomy.flag`.

    Returns
    -------
    CertifyResult
        ``statistic``, ``df``, ``pvalue``, ``verdict``, and ``contains(disparities)``: membership in the joint
        confidence region. With ``given`` it is a `StratifiedCertifyResult`, whose table has what the factors account
        for.

    Notes
    -----
    A large p-value is not proof of equal treatment. Against the population or the rest, groups that meet the null fix
    the mean of the rows in no tested group too, so these are part of the test. Fewer than 10 of them (than
    ``min_size``, if that is less) are left out, whichever the method: T then compares the tested groups with each
    other, on one degree of freedom less, and a warning says so. The same holds for a group whose values (not 0/1) are
    all equal, which do not show how its mean varies. Algorithms 1 and G.1 of the paper, with the degrees of freedom
    corrected to the rank.

    Some questions have no joint likelihood, and no difference is tested by the covariance of the groups' differences:
    within strata (``given``) by Cochran, Mantel and Haenszel's statistic for all groups; for metrics that are no mean
    over rows (f1, AUC, ...), and for values among several metrics, by their influence values, the groups set beside one
    another unless the reference is a group or a number. Several metrics are those of the same rows: a row that one of
    them cannot use is left out of all. No difference is the same in standard deviations: ``scale="standardised"``
    changes the intervals and the tolerance alone.

    When it misleads: at large n a violation without a tolerance may be too small to matter; with ``correction=None``
    many groups of few rows make T too large.

    References
    ----------
    Tang, J., Xie, C., Zeng, X. and Zhu, L. (2026). Empirical likelihood-based fairness auditing: distribution-free
    certification and flagging. arXiv:2601.20269.

    Examples
    --------
    >>> import isonomy as iso
    >>> table = {"approved": [1] * 60 + [0] * 40 + [1] * 70 + [0] * 30, "sex": ["f"] * 100 + ["m"] * 100}
    >>> result = iso.certify(table, metric="selection_rate", groups="sex", prediction="approved")
    >>> round(result.statistic, 3), result.df, round(result.pvalue, 3)
    (2.203, 1, 0.138)
    >>> result.contains([-0.05, 0.05]), result.contains([-0.2, 0.2])
    (True, False)
    """
    call = open_call("certify", locals())
    asked = plan(call.source, **call.options)
    sums = tally(call.source, asked)
    estimates = estimate_joint(sums, asked, call.rng)
    decisions = decide_joint(estimates, asked)
    if asked.given:
        within = estimate_within(sums[0], asked)
        decisions = decide_within(decisions, estimates.each, within, asked)
        return StratifiedCertifyResult.within(CertifyResult.of(call, asked, sums, estimates, decisions), asked, within)
    return CertifyResult.of(call, asked, sums, estimates, decisions)
