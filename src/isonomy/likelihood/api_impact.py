"""Adverse impact, as it is reported: the table that audits publish, with the uncertainty they lack."""

from __future__ import annotations

from isonomy.frames import Groups
from isonomy.likelihood.decide_impact import decide_impact
from isonomy.likelihood.estimate_impact import estimate_impact
from isonomy.likelihood.plan_impact import Comparator, Family, Share, plan_impact
from isonomy.likelihood.result_impact import AdverseImpactResult
from isonomy.likelihood.tally_impact import tally_impact
from isonomy.options import Alpha, Column, Fraction, Missing, MissingGroup, Seeded, Whole
from isonomy.results import open_call, question


@question(plan_impact)
def adverse_impact(
    data: object = None,
    *,
    groups: Groups,
    prediction: Column | None = None,
    score: Column | None = None,
    reference: Comparator = "highest",
    threshold: Fraction = 0.8,
    alpha: Alpha = 0.05,
    adjust: Family = "holm",
    depth: Whole = 1,
    min_size: Whole = 10,
    smallest_share: Share = 0.0,
    rng: Seeded = None,
    count: Column | None = None,
    weight: Column | None = None,
    cluster: Column | None = None,
    missing: Missing = "raise",
    missing_group: MissingGroup = "raise",
) -> AdverseImpactResult:
    """How often is each category selected beside the category selected most often, and what do the data show?

    The impact ratio of a category is its selection rate over that of its comparator. Three separate facts are given of
    each: that the ratio as observed is below ``threshold``; that a difference was shown; that a ratio below the
    threshold was shown (the verdict *violation*; *within tolerance* if a ratio of at least the threshold was).

    Parameters
    ----------
    data : frame, mapping or path, optional
        Any table, as in `isonomy.flag`; none is needed where every column is given as an array.
    groups : str, cut, where or sequence of these
        The categories. Each column is a table of its own with its own comparator and, with ``depth=2``, so is every
        combination of two columns.
    prediction : str, optional
        The decision, 1 for those selected.
    score : str, optional
        A score. Without decisions, selected means above the median of all scores (ties are not above); with them, the
        score adds the ratios by cut-off.
    reference : {"highest"} or mapping, default "highest"
        The category selected most often, in each table, or a level of every column of ``groups``, such as
        ``{"race": "White", "sex": "male"}``.
    threshold : float, default 0.8
        The ratio that is asked about, a custom and nobody's law.
    alpha : float, default 0.05
        The error rate of tests and intervals.
    adjust : {"holm", "bonferroni", "bh", "by", "none"}, default "holm"
        How p-values are adjusted for the number of categories in all tables.
    depth : int, default 1
        How many columns are combined to a table.
    min_size : int, default 10
        Categories with fewer rows are listed with their rate, without a ratio, and are nobody's comparator.
    smallest_share : float, default 0.0
        Categories with less than this share of a table's rows are treated in the same way.
    rng : int or Generator, optional
        The seed of the band over cut-offs.
    count : str, optional
        A column with the number of rows each line stands for.
    weight, cluster : str, optional
        As in `isonomy.flag`. With weights, ``n`` and ``selected`` count rows, ``weighted_n`` and ``weighted_selected``
        the people these rows stand for; rates, ratios and shortfalls are of those people. Weights whose average is
        less than 1 are scaled to an average of 1 for these counts. The band over cut-offs is left out.
    missing : {"raise", "drop"}, default "raise"
        What to do about missing decisions and scores.
    missing_group : {"raise", "level", "drop"}, default "raise"
        What to do about missing categories: ``"level"`` counts them as unknown, and gives bounds for each ratio
        whatever they are.

    Returns
    -------
    AdverseImpactResult
        ``to_frame()`` has one row per category of each table: table, group, n, selected, rate, impact_ratio, ci_low,
        ci_high, difference, pvalue, shortfall, verdict, status, and more.

    Notes
    -----
    The category selected most often is itself unknown. Its choice is part of the interval and of the p-values
    (multiple comparisons with the best), which otherwise blame the runner-up: the interval is that of the smallest of
    a category's ratios to all others. ``shortfall`` is the number of further selections of the category that would
    reach the threshold, all else unchanged; ``shortfall_parity`` that of its comparator's rate.

    Where a category or its comparator has fewer than 20 selections, or 20 refusals, the likelihood ratio gives way to
    the score statistic with its skewness counted, as in `isonomy.flag`.

    When it misleads: rows that are not independent; applicants that differ between categories, which `isonomy.flag`
    with ``given`` can compare like with like.

    References
    ----------
    Hsu, J. C. (1981). Simultaneous confidence intervals for all distances from the "best". Annals of Statistics 9,
    1026-1034.

    Examples
    --------
    >>> import isonomy as iso
    >>> table = {"hired": [1] * 48 + [0] * 32 + [1] * 12 + [0] * 28, "sex": ["m"] * 80 + ["f"] * 40}
    >>> result = iso.adverse_impact(table, prediction="hired", groups="sex")
    >>> result.to_frame().select("group", "n", "selected", "rate", "impact_ratio", "shortfall", "verdict").rows()
    [('sex=f', 40, 12, 0.3, 0.5, 8, 'violation'), ('sex=m', 80, 48, 0.6, 1.0, 0, 'inconclusive')]
    """
    call = open_call("adverse_impact", locals())
    asked = plan_impact(call.source, **call.options)
    sums = tally_impact(call.source, asked)
    estimates = estimate_impact(sums, asked, call.rng)
    return AdverseImpactResult.of(call, asked, sums, estimates, decide_impact(sums, estimates, asked))
