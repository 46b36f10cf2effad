"""Thresholds for every group."""

from __future__ import annotations

from typing import Annotated

from isonomy.calibration.decide import decide_thresholds
from isonomy.calibration.estimate_thresholds import estimate_thresholds
from isonomy.calibration.plan import Change, Level, plan_thresholds
from isonomy.calibration.result_thresholds import ThresholdsResult
from isonomy.calibration.smoothing.targets import Direction, Target
from isonomy.calibration.tally_thresholds import tally_thresholds
from isonomy.frames import Groups
from isonomy.options import Alpha, Column, Finite, Fraction, Missing, MissingGroup, Number, Positive, Seeded
from isonomy.results import open_call, question


@question(plan_thresholds)
def equalize_thresholds(
    data: object = None,
    *,
    outcome: Column | None = None,
    score: Column,
    threshold: Finite,
    groups: Groups,
    target: Target = "outcome_at_margin",
    capacity: Fraction | None = None,
    change: Change = "shown",
    direction: Direction = "both",
    randomize: bool = False,
    user: Column | None = None,
    level: Level | None = None,
    bandwidth: Positive | None = None,
    alpha: Alpha = 0.05,
    resamples: Annotated[int, Number(least=100, most=100_000, whole=True)] = 400,
    count: Column | None = None,
    weight: Column | None = None,
    cluster: Column | None = None,
    missing: Missing = "raise",
    missing_group: MissingGroup = "raise",
    rng: Seeded = None,
) -> ThresholdsResult:
    """Which group thresholds would make a rate, or the outcomes at the margin, equal, and what would they cost?

    First tests whether groups differ at the present threshold. Those that were not shown to differ keep a common
    threshold; the others get one of their own, such that the metric is the same for all and as many people are
    selected as before. `isonomy.GroupThresholds` is the same as an object that decides new rows.

    Null hypothesis: at the present threshold the metric is the same in all groups. Assumes that rows (users, if given)
    are independent, and that new rows are like these.

    Parameters
    ----------
    data, score, user, count, missing, missing_group
        As in `marginal_outcomes`.
    outcome : str, optional
        Column of outcomes, 0/1; any number for outcomes at the margin, for which those below the present threshold are
        not read. Not needed for selection rates.
    threshold : float
        The present threshold: the decision is positive when the score reaches it.
    groups : str, cut or where
        One column or condition: thresholds are set for disjoint groups.
    target : {"outcome_at_margin", "selection_rate", "tpr", "fpr", "equalized_odds", "predictive_value"}
        What is made equal. ``"outcome_at_margin"`` (default): the expected outcome of those at the threshold, the
        paper's section 6.1. ``"tpr"``, ``"fpr"``: the share selected of those with outcome 1, or 0.
        ``"equalized_odds"``: both; with one threshold per group their mean is made equal, which for two groups makes
        the larger of the two differences as small as it can be. ``"predictive_value"``: the share of outcome 1 among
        those selected.
    capacity : float, optional
        The share of all rows to be selected. Default: the share selected now.
    change : {"shown", "all"}, default "shown"
        ``"shown"``: groups of which no two were shown to differ share a threshold. ``"all"``: every group has its own,
        which makes equal groups unequal by chance.
    direction : {"both", "raise", "lower"}, default "both"
        ``"both"``: keep the overall positive rate. ``"raise"``, ``"lower"``: thresholds only move one way, which cannot
        keep the rate.
    randomize : bool, default False
        Whether people may be selected by lot between two thresholds: equal odds then hold for both rates (Hardt,
        Price, Srebro), and scores that many people share can be cut up.
    level : {"user", "aggregate"}, optional
        As in `marginal_outcomes`, for outcomes at the margin. Other targets count rows; users decide the variance.
    bandwidth : float, optional
        Of the outcomes at the margin. Default: the paper's rule.
    alpha : float, default 0.05
        The error rate, of the test and of the intervals.
    resamples : int, default 400
        Samples behind the intervals: rows drawn again, or people (clusters) with all their rows.
    weight : str, optional
        A column with the people each row stands for. Only their proportions matter.
    cluster : str, optional
        A column that says which rows vary together, such as a branch; users, if there is none.
    rng : int or numpy.random.Generator, optional
        Where the draws come from; a fresh seed is recorded if there is none.

    Returns
    -------
    ThresholdsResult
        `thresholds` with intervals, the metric and the positive rate before and after, how many more people of each
        group are selected, and the change of accuracy, with intervals; `pvalue` and `verdict` of the present threshold.
        `to_frame()` has one row for each group.

    Notes
    -----
    A group with fewer than 10 effective events or non-events keeps the present threshold, status "unsupported". With
    outcomes at the margin a threshold below the present one rests on a linear extrapolation, status "extrapolated". A
    group has the status "infeasible" if it does not reach the common value (by more than its standard error: coarse
    scores), and with outcomes at the margin if nobody or everybody would be above its threshold or its outcomes fall as
    the score rises: do not use its threshold. Where the next score above a threshold, in the groups that share it, is
    further off than a tenth of the bandwidth (few distinct scores), that score is the threshold: it selects the same
    people.

    When it misleads: below the present threshold, where nobody's outcome is known; on rows the score's model was
    fitted on. Intervals take it as known which groups are moved. Display (2) of the paper integrates f F where the
    rate is meant.

    References
    ----------
    C. DiCiccio, B. Hsu, Y. Yu, P. Nandy, K. Basu, "Detection and Mitigation of Algorithmic Bias via Predictive Rate
    Parity", section 6.1, Theorem 4. M. Hardt, E. Price, N. Srebro, "Equality of opportunity in supervised learning",
    NeurIPS, 2016.

    Examples
    --------
    >>> import numpy as np
    >>> from isonomy.calibration import equalize_thresholds
    >>> rng = np.random.default_rng(0)
    >>> s = rng.random(20_000)
    >>> g = np.repeat(["a", "b"], 10_000)
    >>> y = rng.random(20_000) < np.where(g == "a", s, s**2)
    >>> data = {"y": y, "s": s, "g": g}
    >>> result = equalize_thresholds(data, outcome="y", score="s", threshold=0.5, groups="g", rng=0)
    >>> bool(result.thresholds[0] < 0.5 < result.thresholds[1])
    True
    >>> result = equalize_thresholds(data, outcome="y", score="s", threshold=0.5, groups="g", target="tpr", rng=0)
    >>> bool(abs(result.after[0, 0] - result.after[0, 1]) < 0.01)
    True
    """
    call = open_call("equalize_thresholds", locals())
    asked = plan_thresholds(call.source, **call.options)
    sums = tally_thresholds(call.source, asked)
    estimates = estimate_thresholds(sums, asked, call.rng)
    return ThresholdsResult.of(call, asked, sums, estimates, decide_thresholds(estimates, asked))
