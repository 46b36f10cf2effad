"""Questions about a score: parity between groups, outcomes at a threshold, equal thresholds, calibration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import numpy as np

from isonomy.calibration.decide import decide, decide_marginal, decide_metrics, decide_thresholds
from isonomy.calibration.estimate import estimate, estimate_marginal, estimate_metrics, estimate_thresholds
from isonomy.calibration.plan import (
    Comparison,
    EdgeFit,
    Level,
    PairAdjustment,
    plan,
    plan_marginal,
    plan_metrics,
    plan_thresholds,
)
from isonomy.calibration.result import CalibrationMetrics, MarginalResult, ParityResult, ThresholdsResult
from isonomy.calibration.smoothing.bands import Adjustment
from isonomy.calibration.smoothing.kernels import Kernel
from isonomy.calibration.smoothing.margins import Direction
from isonomy.calibration.tally import tally, tally_marginal, tally_metrics, tally_thresholds
from isonomy.errors import UsageError
from isonomy.frames import Groups
from isonomy.frames.estimators import series_of, user_codes
from isonomy.numerics.arrays import BoolArray
from isonomy.numerics.randomness import resolve
from isonomy.options import (
    Alpha,
    Column,
    Finite,
    Fraction,
    Missing,
    MissingGroup,
    Names,
    Number,
    Positive,
    Seeded,
    Tolerance,
    Whole,
    checked,
)
from isonomy.results import open_call, question


@question(plan)
def predictive_parity(
    data: object,
    *,
    outcome: Column,
    score: Column,
    groups: Groups,
    user: Column | None = None,
    level: Level | None = None,
    grid: float | Sequence[float] | None = None,
    bandwidth: Positive | Sequence[Positive] | None = None,
    method: Comparison = "residual",
    kernel: Kernel = "gaussian",
    reference: Mapping[str, object] | None = None,
    adjust: Adjustment = "sup-t",
    tolerance: Tolerance = None,
    alpha: Alpha = 0.05,
    resamples: Annotated[int, Number(least=100, whole=True)] = 2_000,
    depth: Whole = 1,
    count: Column | None = None,
    missing: Missing = "raise",
    missing_group: MissingGroup = "raise",
    rng: Seeded = None,
) -> ParityResult:
    """Does a score mean the same thing for every group, when users may appear many times?

    Null hypothesis: E[Y | S = s, G = g] is the same for all groups at every score of the grid (Definition 1 of the
    paper). The order of scores (Definition 2) is tested beside it: no group has better outcomes at a lower score than
    another at a higher one. Assumes that users are independent; rows of one user need not be, and a user may appear in
    several groups.

    Parameters
    ----------
    data : table
        Any table isonomy reads. DuckDB, Spark, Ibis and polars queries of more than 16 million rows are summed where
        they are.
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
    grid : sequence of float, optional
        Scores at which groups are compared, increasing. Default: the 1, 5, 10, ..., 95, 99 % quantiles.
    bandwidth : float or sequence of float, optional
        Width of the kernel: a number, or one per grid point. Default: the paper's rule,
        max(1.06 sqrt(s (1 - s)) n^(-1/5), n^(-1/5)/10), n being the users (or rows) of the average group, with [0, 1]
        scaled to where the scores lie.
    method : {"residual", "orthogonal", "nadaraya-watson", "cumulative"}, default "residual"
        ``"residual"``: smooth each group's residuals from the pooled curve of the compared groups. ``"orthogonal"``:
        smooth (1_g - share(S)) (Y - pooled(S)). ``"nadaraya-watson"``: the paper's, which rejects too often when groups
        have different scores. ``"cumulative"``: cumulative differences in score order; no bandwidth in the comparison.
    kernel : {"gaussian", "gaussian4", "gaussian6"}, default "gaussian"
        ``"gaussian"``, or of higher order: ``"gaussian4"``, ``"gaussian6"``.
    reference : mapping, optional
        The group each other group is compared with, such as ``{"race": "White"}``. Default: every pair.
    adjust : {"sup-t", "bonferroni", "holm", "none"}, default "sup-t"
        How p-values and bands allow for the number of grid points; ``"bonferroni"`` as in the paper. All pairs of all
        columns are adjusted by Holm's method.
    tolerance : float, optional
        Differences up to this size are part of the null. The verdict is "within tolerance" if the whole band lies
        inside it. Not for the cumulative test.
    alpha : float, default 0.05
        The error rate.
    resamples : int, default 2000
        Normal draws behind sup-t, the ordering and the cumulative test, 100 or more. No row is resampled.
    depth : int, default 1
        How many columns of ``groups`` are crossed: 2 compares their pairwise intersections too.
    count : str, optional
        Column that says how many equal rows a line stands for.
    missing : {"raise", "drop"}, default "raise"
        What to do with rows without a score, an outcome or a user.
    missing_group : {"raise", "level", "drop"}, default "raise"
        What to do with rows without a group; ``"level"`` makes them a group of their own.
    rng : int or numpy.random.Generator, optional
        Where the draws come from; a fresh seed is recorded if there is none.

    Returns
    -------
    ParityResult
        `pvalue`, `verdict`, `families` (curves, bands, pairs, ordering); `to_frame()` has one row for each pair of
        groups and grid point.

    Notes
    -----
    When it misleads: where few users have scores near a grid point, which is then reported as unsupported and not
    tested. A difference narrower than the bandwidth is smoothed away. The verdict concerns parity; `ordering_pvalue`
    has its own. A difference is estimated from residuals and has less bias than the difference of the two curves shown
    beside it.

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


@question(plan_marginal)
def marginal_outcomes(
    data: object,
    *,
    outcome: Column,
    score: Column,
    threshold: Finite,
    groups: Groups,
    user: Column | None = None,
    level: Level | None = None,
    bandwidth: Positive | None = None,
    method: EdgeFit = "local-quadratic",
    kernel: Kernel = "gaussian",
    reference: Mapping[str, object] | None = None,
    adjust: PairAdjustment = "holm",
    tolerance: Tolerance = None,
    alpha: Alpha = 0.05,
    depth: Whole = 1,
    count: Column | None = None,
    missing: Missing = "raise",
    missing_group: MissingGroup = "raise",
) -> MarginalResult:
    """Do people who only just got a positive decision have the same outcomes in every group?

    Null hypothesis: E[Y | S = threshold, G = g] is the same for all groups (Definition 5 of the paper), where the
    decision is positive when S >= threshold. Only rows from the threshold up are read, so outcomes may be missing below
    it. Assumes that users are independent.

    Parameters
    ----------
    data : table
        Any table isonomy reads.
    outcome, score, groups, user, level, kernel, reference, tolerance, alpha, depth, count, missing, missing_group
        As in `predictive_parity`.
    threshold : float
        The score from which on the decision is positive.
    bandwidth : float, optional
        Width of the kernel above the threshold. Default: the paper's rule at the threshold, with the users
        (or rows) of the average group above it.
    method : {"local-quadratic", "local-linear", "nadaraya-watson"}, default "local-quadratic"
        ``"local-quadratic"``: its error at the edge of the data is of order h^3. ``"local-linear"`` keeps a bias from
        curvature. ``"nadaraya-watson"``: the paper's, with a bias of order h at an edge.
    adjust : {"holm", "bonferroni", "bh", "by", "none"}, default "holm"
        How p-values allow for the number of pairs of groups that are compared.

    Returns
    -------
    MarginalResult
        `pvalue`, `verdict`, `families`; `to_frame()` has one row for each pair of groups.

    Notes
    -----
    When it misleads: if people near the threshold were handled differently (overrides), or if outcomes just above it
    change faster than the bandwidth can follow.

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


@question(plan_thresholds)
def equalize_thresholds(
    data: object,
    *,
    outcome: Column,
    score: Column,
    threshold: Finite,
    groups: Groups,
    direction: Direction = "both",
    user: Column | None = None,
    level: Level | None = None,
    bandwidth: Positive | None = None,
    count: Column | None = None,
    missing: Missing = "raise",
    missing_group: MissingGroup = "raise",
) -> ThresholdsResult:
    """Which group thresholds would make the outcomes at the margin equal?

    Solves f_g(t_g) = m for all groups, together with sum_g p_g (1 - F_g(t_g)) = the present positive rate. (Display (2)
    of the paper integrates f F where the rate is meant.) Outcomes are read from the present threshold up only.

    Parameters
    ----------
    data, outcome, score, threshold, user, level, count, missing, missing_group
        As in `marginal_outcomes`.
    groups : str, cut or where
        One column or condition: thresholds are set for disjoint groups.
    direction : {"both", "raise", "lower"}, default "both"
        ``"both"``: keep the overall positive rate. ``"raise"``: only raise thresholds, up to the highest marginal
        outcome; nothing is extrapolated. ``"lower"``: only lower them, to the lowest. These two cannot keep the rate.
    bandwidth : float, optional
        Of the outcome curves. Default: the paper's rule.

    Returns
    -------
    ThresholdsResult
        `thresholds`, marginal outcomes and positive rates before and after; `to_frame()` has one row for each group.

    Notes
    -----
    A threshold below the present one rests on a linear extrapolation and has the status "extrapolated". A group with
    too few outcomes just above the threshold keeps it, with the status "unsupported". A group has the status
    "infeasible" if its outcome at the new margin is not the common one (by more than its standard error), if nobody or
    everybody would be above its threshold, or if its outcomes fall as the score rises: do not use its threshold. With
    ``direction="both"`` the last two concern all groups, since the others make up for it. Where the next score above a
    threshold is further off than a tenth of the bandwidth (few distinct scores), that score is the threshold: it
    selects the same people, and the outcome at the margin is theirs.

    When it misleads: below the present threshold, where nobody's outcome is known. Curves are local lines made
    nondecreasing, so that an outcome has one threshold; `marginal_outcomes`, which only looks at the threshold, uses a
    parabola there, and its numbers differ a little.

    References
    ----------
    C. DiCiccio, B. Hsu, Y. Yu, P. Nandy, K. Basu, "Detection and Mitigation of Algorithmic Bias via Predictive Rate
    Parity", section 6.1, Theorem 4.

    Examples
    --------
    >>> import numpy as np
    >>> from isonomy.calibration import equalize_thresholds
    >>> rng = np.random.default_rng(0)
    >>> s = rng.random(20_000)
    >>> g = np.repeat(["a", "b"], 10_000)
    >>> y = rng.random(20_000) < np.where(g == "a", s, s**2)
    >>> result = equalize_thresholds({"y": y, "s": s, "g": g}, outcome="y", score="s", threshold=0.5, groups="g")
    >>> bool(result.thresholds[0] < 0.5 < result.thresholds[1])
    True
    """
    call = open_call("equalize_thresholds", locals())
    asked = plan_thresholds(call.source, **call.options)
    sums = tally_thresholds(call.source, asked)
    estimates = estimate_thresholds(sums, asked)
    return ThresholdsResult.of(call, asked, sums, estimates, decide_thresholds(estimates, asked))


@question(plan_metrics)
def calibration_metrics(
    data: object,
    *,
    outcome: Column,
    score: Names | Mapping[str, str],
    groups: Groups,
    user: Column | None = None,
    level: Level | None = None,
    grid: float | Sequence[float] | None = None,
    bandwidth: Positive | Sequence[Positive] | None = None,
    count: Column | None = None,
    missing: Missing = "raise",
    missing_group: MissingGroup = "raise",
) -> CalibrationMetrics:
    """How far are scores from outcomes, and groups from one another, before and after a correction?

    Parameters
    ----------
    data : table
        Rows that neither the model nor the calibrator has seen; split by user (`split_users`), never by row.
    outcome, user, level, grid, bandwidth, count, missing, missing_group
        As in `predictive_parity`. The default grid has quantiles of each score.
    score : str, sequence of str or mapping of str to str
        One column, several, or names for them, such as ``{"before": "s", "after": "s_calibrated"}``.
    groups : str, cut or where
        One set of groups.

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


@checked
def split_users(user: object, *, held_out: Fraction = 0.5, rng: Seeded = None) -> BoolArray:
    """Mark a random share of users as held out: True for all rows of a held-out user.

    Rows of one user are alike; splitting them between fit and test would make a calibrator look better than it is.
    Rows without a user are refused: they are not all one person.

    Parameters
    ----------
    user : array_like
        Who each row belongs to: an array, a list, or a series of any frame library.
    held_out : float, default 0.5
        The share of users that are held out; at least one, and not all.
    rng : int or numpy.random.Generator, optional
        Where the draw comes from.

    Returns
    -------
    numpy.ndarray of bool
        One entry per row.

    Examples
    --------
    >>> from isonomy.calibration import split_users
    >>> split_users(["a", "b", "a", "c", "b"], held_out=0.5, rng=0).sum() in (1, 2, 3)
    True
    """
    codes = user_codes(series_of(user), "user")
    size = int(codes.max()) + 1 if codes.size else 0
    if size < 2:
        raise UsageError("user: a split needs at least two users.")
    generator, _ = resolve(rng)
    chosen = np.zeros(size, dtype=bool)
    many = min(max(1, round(held_out * size)), size - 1)
    chosen[generator.permutation(size)[:many]] = True
    return chosen[codes]
