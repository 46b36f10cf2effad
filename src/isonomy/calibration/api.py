"""Questions about a score: parity between groups, outcomes at a threshold, equal thresholds, calibration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from isonomy.calibration.decide import decide, decide_composite, decide_marginal, decide_metrics
from isonomy.calibration.estimate import estimate, estimate_composite, estimate_marginal, estimate_metrics
from isonomy.calibration.plan import (
    Comparison,
    DataDriven,
    EdgeFit,
    Level,
    PairAdjustment,
    plan,
    plan_composite,
    plan_marginal,
    plan_metrics,
)
from isonomy.calibration.result import MarginalResult, ParityResult
from isonomy.calibration.result_composite import CompositeResult
from isonomy.calibration.result_metrics import CalibrationMetrics
from isonomy.calibration.smoothing.bands import Adjustment
from isonomy.calibration.smoothing.kernels import Kernel
from isonomy.calibration.tally import tally, tally_marginal
from isonomy.calibration.tally_composite import tally_composite
from isonomy.calibration.tally_metrics import tally_metrics
from isonomy.frames import Groups
from isonomy.options import (
    Alpha,
    Column,
    Finite,
    Missing,
    MissingGroup,
    Names,
    Number,
    Positive,
    Seeded,
    Tolerance,
    Whole,
)
from isonomy.results import open_call, question


@question(plan)
def predictive_parity(
    data: object = None,
    *,
    outcome: Column,
    score: Column,
    groups: Groups,
    user: Column | None = None,
    level: Level | None = None,
    grid: float | Sequence[float] | None = None,
    bandwidth: Positive | Sequence[Positive] | DataDriven | None = None,
    method: Comparison = "omnibus",
    kernel: Kernel = "gaussian",
    reference: Mapping[str, object] | None = None,
    adjust: Adjustment | None = None,
    tolerance: Tolerance = None,
    order: bool | None = None,
    order_tolerance: Tolerance = None,
    alpha: Alpha = 0.05,
    resamples: Annotated[int, Number(least=100, most=100_000, whole=True)] = 2_000,
    depth: Whole = 1,
    count: Column | None = None,
    weight: Column | None = None,
    cluster: Column | None = None,
    missing: Missing = "raise",
    missing_group: MissingGroup = "raise",
    rng: Seeded = None,
) -> ParityResult:
    """Does a score mean the same thing for every group, when users may appear many times?

    Null hypothesis: E[Y | S = s, G = g] is the same for all groups at every score (Definition 1 of the paper), and in
    order (Definition 2): no group has better outcomes at lower scores than another at higher ones. The verdict is on
    both. Assumes that users are independent; rows of one user need not be, and a user may appear in several groups.

    Parameters
    ----------
    data : table
        Any table isonomy reads. Queries of more than 16 million rows are read in parts, each with all the rows of some
        users.
    outcome : str
        Column of outcomes: 0/1, or any number.
    score : str
        Column of scores, in any unit: the bandwidth rule is scaled to where the scores lie, stray ones aside.
    groups : str, cut, where, or several of them
        Columns, `isonomy.cut` or `isonomy.where`. A `where` is compared with everybody else.
    user : str, optional
        Column that says whom a row belongs to. None: rows are independent.
    level : {"user", "aggregate"}, optional
        ``"user"``: each user has one vote, split evenly over all of its rows. ``"aggregate"``: each row has one vote
        (users, if given, still decide the variance). Default: "user" if ``user`` is given.
    grid : float or sequence of float, optional
        Scores at which groups are compared, increasing. Default: the 1, 5, 10, ..., 95, 99 % quantiles. A grid is also
        the range that is tested: the cumulative sums, the trend and the order then use rows with scores from its first
        to its last point only, and the verdict says nothing about other scores. (Curves are smooth: rows within a
        bandwidth of a point still count towards it.)
    bandwidth : float, sequence of float or "cross-validation", optional
        Width of the kernel: a number, or one per grid point. Default: the paper's rule,
        max(1.06 sqrt(s (1 - s)) n^(-1/5), n^(-1/5)/10), n being the users (or rows) of the average group, with [0, 1]
        scaled to where the scores lie. ``"cross-validation"``: that rule times the factor, from 1/4 to 2, whose local
        line best predicts the mean outcome of a bin of scores from the others.
    method : {"omnibus", "orthogonal", "cumulative", "trend", "residual", "nadaraya-watson", "published"}
        ``"orthogonal"``: near each score, Y - pooled(S) on 1_g - share(S), so that neither the outcome curve nor the
        groups' shares bias the difference; the largest over the grid is judged. ``"cumulative"``: sums of
        (1_g - share(S)) (Y - pooled(S)) in score order; no bandwidth in the comparison. ``"trend"``: these sums as a
        level and a line over the order of scores. ``"omnibus"`` (default): the smallest p-value of these three, by
        their joint law. ``"residual"``: each group's mean residual from the pooled curve; it rejects too often where
        one group's scores lie between another's. ``"nadaraya-watson"``: the paper's smoother, at the paper's bandwidth
        and without a support rule, which rejects too often when groups have different scores. ``"published"``: the
        paper's test as it stands, which is ``"nadaraya-watson"`` with Bonferroni's adjustment over the grid and no
        test of the order.
    kernel : {"gaussian", "gaussian4", "gaussian6"}, default "gaussian"
        ``"gaussian"``, or of higher order: ``"gaussian4"``, ``"gaussian6"``.
    reference : mapping, optional
        The group each other group is compared with, such as ``{"race": "White"}``. Default: every pair.
    adjust : {"sup-t", "bonferroni", "holm", "none"}, optional
        How p-values and bands allow for the number of grid points. Default: ``"sup-t"``, and with
        ``method="nadaraya-watson"`` or ``"published"`` ``"bonferroni"``, as in the paper. All pairs of all columns are
        adjusted by Holm's method.
    tolerance : float, optional
        Differences up to this size are part of the null. The verdict is "within tolerance" if two one-sided tests at
        alpha show it at every supported score (of the grid, if one is given), and of the order too.
    order : bool, optional
        Whether the order of scores is tested too. If it is not, the test of differences has the whole of ``alpha``.
        Default: True, but False with ``method="published"`` and with a grid of one score, which has no order.
    order_tolerance : float, optional
        The same for reversals of the order: how much better outcomes at lower scores may be. Default: ``tolerance``.
    alpha : float, default 0.05
        The error rate.
    resamples : int, default 2000
        Normal draws behind sup-t, the cumulative test and the order, 100 or more. No row is resampled.
    depth : int, default 1
        How many columns of ``groups`` are crossed: 2 compares their pairwise intersections too.
    count : str, optional
        Column that says how many equal rows a line stands for.
    weight : str, optional
        Column of weights: how many people a row stands for, up to a common factor. At user level a user's vote is the
        mean weight of its rows.
    cluster : str, optional
        Column that says which rows belong together, where there is no user: each row keeps its vote, and clusters
        decide the variance.
    missing : {"raise", "drop"}, default "raise"
        What to do with rows without a score, an outcome or a user.
    missing_group : {"raise", "level", "drop"}, default "raise"
        What to do with rows without a group; ``"level"`` makes them a group of their own.
    rng : int or numpy.random.Generator, optional
        Where the draws come from; a fresh seed is recorded if there is none.

    Returns
    -------
    ParityResult
        `pvalue` and `verdict` of both parts, `parity_pvalue` and `ordering_pvalue` of either (NaN if it was not
        tested), `families` (curves, bands, pairs, order); `to_frame()` has one row for each pair of groups and grid
        point. Its ``difference`` is estimated by itself and is not ``estimate - reference_estimate`` (see Notes).

    Notes
    -----
    When it misleads: where few users have scores near a grid point, which is then reported as unsupported and not
    tested (10 effective events and non-events are needed in either group, of users within a bandwidth whose scores the
    other group has too). A difference narrower than the bandwidth is smoothed away.

    Differences between groups have nine tenths of ``alpha`` and the order has one tenth; p-values are divided by these
    shares, so that all of them are compared with ``alpha``. With ``order=False`` differences have all of it, and their
    p-values are not divided. The order compares mean outcomes in ten intervals of the
    score, of one group in a lower with another in a higher one.

    A difference is an average over a bandwidth, and has less bias than the difference of the two curves beside it. Its
    band is robust: centred on a local parabola, so that it covers a difference that bends (Calonico, Cattaneo and
    Farrell 2018). Scores are taken to the mean of their bin, of 1,024 on the axis: that changes a number by about
    (bin / bandwidth)^2 / 24 of itself.

    References
    ----------
    C. DiCiccio, B. Hsu, Y. Yu, P. Nandy, K. Basu, "Detection and Mitigation of Algorithmic Bias via Predictive Rate
    Parity", sections 2, 3 and 7, Theorem 1.

    Examples
    --------
    >>> import numpy as np
    >>> from isonomy.calibration import predictive_parity
    >>> rng = np.random.default_rng(0)
    >>> s = rng.beta(2, 2, 4000)
    >>> g = np.repeat(["a", "b"], 2000)
    >>> y = rng.random(4000) < np.where(g == "a", s, 0.7 * s)
    >>> result = predictive_parity({"y": y, "s": s, "g": g}, outcome="y", score="s", groups="g", rng=1)
    >>> result.verdict.value
    'violation'
    """
    call = open_call("predictive_parity", locals())
    asked = plan(call.source, **call.options)
    sums = tally(call.source, asked)
    estimates = estimate(sums, asked, call.rng)
    return ParityResult.of(call, asked, sums, estimates, decide(estimates, asked))


@question(plan_composite)
def composite_parity(
    data: object,
    *,
    outcomes: Names,
    scores: Names,
    groups: Groups,
    user: Column | None = None,
    level: Level | None = None,
    reference: Mapping[str, object] | None = None,
    alpha: Alpha = 0.05,
    resamples: Annotated[int, Number(least=100, most=100_000, whole=True)] = 2_000,
    depth: Whole = 1,
    count: Column | None = None,
    weight: Column | None = None,
    cluster: Column | None = None,
    missing: Missing = "raise",
    missing_group: MissingGroup = "raise",
    rng: Seeded = None,
) -> CompositeResult:
    """Does every weighted sum of several scores mean the same thing for every group?

    Null hypothesis: for all weights w of at least 0, E[sum w_k Y^k | sum w_k S^k = s, G = g] is the same for all
    groups (section 5 of the paper). Weights on a lattice of the simplex are tested together, by the joint law of all of
    them; the weights under which groups differ most clearly are reported. Assumes that users are independent.

    Parameters
    ----------
    data : table
        Any table isonomy reads, of up to a million rows.
    outcomes, scores : sequence of str
        Columns: two to four scores, and an outcome for each, in the same order.
    groups, user, level, reference, alpha, resamples, depth, count, weight, cluster, missing, missing_group, rng
        As in `predictive_parity`.

    Returns
    -------
    CompositeResult
        `pvalue`, `verdict`, `worst_weights`; `to_frame()` has one row for each pair of groups and weights.

    Notes
    -----
    When it misleads: with few users, or weights between the points of the lattice (steps of 0.1 for two scores, 0.2
    for three). The order of scores is not tested here.

    References
    ----------
    C. DiCiccio, B. Hsu, Y. Yu, P. Nandy, K. Basu, "Detection and Mitigation of Algorithmic Bias via Predictive Rate
    Parity", section 5, Theorem 2.

    Examples
    --------
    >>> import numpy as np
    >>> from isonomy.calibration import composite_parity
    >>> rng = np.random.default_rng(0)
    >>> g, a, b = np.repeat(["x", "y"], 1500), rng.random(3000), rng.random(3000)
    >>> data = {"g": g, "a": a, "b": b, "u": rng.random(3000) < a, "v": rng.random(3000) < np.where(g == "x", b, b / 2)}
    >>> result = composite_parity(data, outcomes=["u", "v"], scores=["a", "b"], groups="g", rng=1)
    >>> result.verdict.value
    'violation'
    """
    call = open_call("composite_parity", locals())
    asked = plan_composite(call.source, **call.options)
    sums = tally_composite(call.source, asked)
    estimates = estimate_composite(sums, asked, call.rng)
    return CompositeResult.of(call, asked, sums, estimates, decide_composite(estimates, asked))


@question(plan_marginal)
def marginal_outcomes(
    data: object = None,
    *,
    outcome: Column,
    score: Column,
    threshold: Finite,
    groups: Groups,
    user: Column | None = None,
    level: Level | None = None,
    bandwidth: Positive | DataDriven | None = None,
    method: EdgeFit = "local-quadratic",
    kernel: Kernel = "gaussian",
    reference: Mapping[str, object] | None = None,
    adjust: PairAdjustment = "holm",
    tolerance: Tolerance = None,
    alpha: Alpha = 0.05,
    depth: Whole = 1,
    count: Column | None = None,
    weight: Column | None = None,
    cluster: Column | None = None,
    missing: Missing = "raise",
    missing_group: MissingGroup = "raise",
) -> MarginalResult:
    """Do people who only just got a positive decision have the same outcomes in every group?

    Null hypothesis: E[Y | S = threshold, G = g] is the same for all groups (Definition 5 of the paper), where the
    decision is positive when S >= threshold. Only outcomes from the threshold up are read, so they may be missing below
    it. At user level a user's vote is split over all of its rows with a score, those below the threshold included: keep
    these rows in the table. Assumes that users are independent.

    Parameters
    ----------
    data : table
        Any table isonomy reads.
    outcome, score, groups, user, level, kernel, reference, tolerance, alpha, depth
        As in `predictive_parity`.
    count, weight, cluster, missing, missing_group
        As in `predictive_parity`.
    threshold : float
        The score from which on the decision is positive.
    bandwidth : float or "cross-validation", optional
        Width of the kernel above the threshold. Default: the paper's rule at the threshold, with the users
        (or rows) of the average group above it.
    method : {"local-quadratic", "local-linear", "nadaraya-watson"}, default "local-quadratic"
        The polynomial in the score that a group's outcome is taken for near the threshold, and that the *difference* of
        two groups is: what both groups' curves have in common is taken out first, however steep it is.
        ``"local-linear"`` keeps a bias from curvature. ``"nadaraya-watson"``: the paper's, with a bias of order h at
        an edge.
    adjust : {"holm", "bonferroni", "bh", "by", "none"}, default "holm"
        How p-values allow for the number of pairs of groups that are compared.

    Returns
    -------
    MarginalResult
        `pvalue`, `verdict`, `families`; `to_frame()` has one row for each pair of groups.

    Notes
    -----
    When it misleads: if people near the threshold were handled differently (overrides), or if the difference of two
    groups changes faster just above it than the bandwidth can follow. The difference is not that of the two groups'
    estimates beside it, which have a bias where the curve is steep that the difference has not.

    References
    ----------
    C. DiCiccio, B. Hsu, Y. Yu, P. Nandy, K. Basu, "Detection and Mitigation of Algorithmic Bias via Predictive Rate
    Parity", section 6, Definition 5, Theorem 3.

    Examples
    --------
    >>> import numpy as np
    >>> from isonomy.calibration import marginal_outcomes
    >>> rng = np.random.default_rng(0)
    >>> s = rng.random(6000)
    >>> g = np.repeat(["a", "b"], 3000)
    >>> y = np.where(s < 0.5, np.nan, rng.random(6000) < np.where(g == "a", s, 0.6 * s))
    >>> result = marginal_outcomes({"y": y, "s": s, "g": g}, outcome="y", score="s", threshold=0.5, groups="g")
    >>> result.verdict.value
    'violation'
    """
    call = open_call("marginal_outcomes", locals())
    asked = plan_marginal(call.source, **call.options)
    sums = tally_marginal(call.source, asked)
    estimates = estimate_marginal(sums, asked)
    return MarginalResult.of(call, asked, sums, estimates, decide_marginal(estimates, asked))


@question(plan_metrics)
def calibration_metrics(
    data: object = None,
    *,
    outcome: Column,
    score: Names | Mapping[str, str],
    groups: Groups,
    user: Column | None = None,
    level: Level | None = None,
    grid: float | Sequence[float] | None = None,
    bandwidth: Positive | Sequence[Positive] | None = None,
    count: Column | None = None,
    weight: Column | None = None,
    cluster: Column | None = None,
    missing: Missing = "raise",
    missing_group: MissingGroup = "raise",
) -> CalibrationMetrics:
    """How far are scores from outcomes, and groups from one another, before and after a correction?

    Parameters
    ----------
    data : table
        Rows that neither the model nor the calibrator has seen; split by user (`split_users`), never by row.
    outcome, user, level, grid, bandwidth, count, weight, missing, missing_group
        As in `predictive_parity`. The default grid has quantiles of each score.
    score : str, sequence of str or mapping of str to str
        One column, several, or names for them, such as ``{"before": "s", "after": "s_calibrated"}``.
    groups : str, cut or where
        One set of groups.
    cluster : str, optional
        Column that says which rows belong together. Nothing is tested, so that no measure changes: the result says how
        many clusters each group has, and how many of equal weight they are worth (clusters, effective_clusters).

    Returns
    -------
    CalibrationMetrics
        For each score, overall and by group. ``calibration_error``: mean over the grid of abs(f_g(s) - s), summed over
        groups in the overall row (the paper's Table 1). ``parity_error``: mean over the grid of abs(f_g(s) - f_h(s)),
        summed over ordered pairs in the overall row (Table 2), over the other groups in a group's. ``ece``: expected
        calibration error, the mean over 10 bins of abs(mean outcome - mean score): bins of equal width for scores in
        [0, 1] (Guo et al., 2017), otherwise of a tenth of the row's votes each, in order of the score and with equal
        scores never apart, so that one score far out moves no bin. ``auc``, for outcomes of 0 and 1: the chance that a
        positive scores above a negative, equal scores counting half. Both are exact on every engine. All use the votes
        of the level; f is Nadaraya-Watson at the paper's bandwidth (scaled to where most scores lie, if some are not
        in [0, 1]). ``dropped`` counts rows left out. ``warnings`` says why numbers are NaN.

    Notes
    -----
    When it misleads: on rows that the calibrator was fitted on, where every error looks small; and nothing is tested,
    so that a small difference may be chance.

    References
    ----------
    C. DiCiccio, B. Hsu, Y. Yu, P. Nandy, K. Basu, "Detection and Mitigation of Algorithmic Bias via Predictive Rate
    Parity", section 7. C. Guo, G. Pleiss, Y. Sun, K. Q. Weinberger, "On calibration of modern neural networks", 2017.

    Examples
    --------
    >>> import numpy as np
    >>> from isonomy.calibration import calibration_metrics
    >>> rng = np.random.default_rng(0)
    >>> s, g = rng.random(5000), np.repeat(["a", "b"], 2500)
    >>> data = {"s": s, "worse": s**2, "g": g, "y": rng.random(5000) < s}
    >>> metrics = calibration_metrics(data, outcome="y", score=["s", "worse"], groups="g")
    >>> bool(metrics.ece[0] < metrics.ece[3])
    True
    """
    call = open_call("calibration_metrics", locals())
    asked = plan_metrics(call.source, **call.options)
    sums = tally_metrics(call.source, asked)
    estimates = estimate_metrics(sums, asked)
    return CalibrationMetrics.of(call, asked, sums, estimates, decide_metrics(estimates, asked))
