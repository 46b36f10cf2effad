"""How little would have to change for this classifier to look fair, is that chance, and who would have to move?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from isonomy.frames import Groups
from isonomy.options import Alpha, Column, Finite, Missing, MissingGroup, Number, Seeded
from isonomy.results import open_call, question
from isonomy.transport.decide import decide
from isonomy.transport.estimate import estimate
from isonomy.transport.plan import DistanceLike, LawName, idle_roles, plan
from isonomy.transport.program.criteria import Criterion
from isonomy.transport.program.tolerance import ToleranceSide, Tolerated
from isonomy.transport.result import ProjectionResult
from isonomy.transport.tally import tally


@question(plan, idle=idle_roles)
def project(
    data: object = None,
    *,
    outcome: Column | None = None,
    prediction: Column,
    groups: Groups = None,
    criterion: Criterion = "equal_opportunity",
    distance: DistanceLike | None = None,
    score: Column | None = None,
    threshold: Finite | None = None,
    reference: Mapping[str, object] | None = None,
    tolerance: Tolerated | None = None,
    tolerance_side: ToleranceSide = "both",
    bandwidth: Annotated[float, Number(above=0, unit="in units of the distance")] | None = None,
    law: LawName = "corrected",
    curve: bool = False,
    whole: bool = False,
    alpha: Alpha = 0.05,
    rng: Seeded = None,
    count: Column | None = None,
    weight: Column | None = None,
    cluster: Column | None = None,
    missing: Missing = "raise",
    missing_group: MissingGroup = "raise",
) -> ProjectionResult:
    """How little would have to change for selection rates to look equal, and is that little enough to be chance?

    Null hypothesis: the selection rates named by ``criterion`` are equal across groups (or differ by no more than
    ``tolerance``). The statistic is the least total distance that rows would have to move, each across the decision
    boundary, for the rates in the table to satisfy the null exactly; the plan says which rows those are.

    Parameters
    ----------
    data : table
        Any table. An engine is asked for grouped passes only, when the distance is an expression of columns.
    outcome : str, optional
        0/1 column of what happened; not needed for statistical parity.
    prediction : str
        0/1 column of the decision.
    groups : columns, `iso.cut` or `iso.where`, optional
        Each level is compared with the reference level, each named condition with everybody else; several groupings
        are tested together. Not needed for a `Discerning` criterion.
    criterion : str or `Discerning`, default "equal_opportunity"
        "equal_opportunity" (rates among outcome 1), "predictive_equality" (among outcome 0), "equalized_odds" (both),
        "statistical_parity" (among all), or a `Discerning` tuple of your own.
    distance : str, `Distance` or fitted scikit-learn estimator, optional
        A column of distances, an object of `isonomy.transport.distances`, or a model whose boundary is known.
    score : str, optional
        Without ``distance``: the column on whose axis distances are measured, |score - threshold|.
    threshold : float, optional
        The cut of the score, or of the estimator; other distances take none. A score's is inferred from the decisions
        if not given.
    reference : mapping of column to level, optional
        The levels that others are compared with; by default the largest. A named condition has no level: it is compared
        with everybody else.
    tolerance : float or mapping, optional
        Differences of rates up to this (5 percentage points are 0.05) belong to the null. A mapping names rates
        (``{"tpr": 0.05, "fpr": 0.1}``), groups (``{"race=Black": 0.05, ...}``), or sides (``{"below": 0.02}``, with no
        limit above), one within the other as far as they differ.
    tolerance_side : {"both", "upper", "lower"}, default "both"
        Either way, only above the reference, or only below it.
    bandwidth : float, optional
        Of the density at the boundary, in units of the distance. Default 1.06 s N^(-1/5) with s = min(sd, IQR / 1.349)
        of the signed distances, so that rescaling the distances changes no p-value and a few wild ones hardly any.
    law : {"corrected", "published"}, default "corrected"
        "published": the paper's own bandwidth N^(-1/5), variances and rule, without the corrections and checks that the
        method's page lists; for comparison.
    curve : bool, default False
        Whether to test every tolerance: the smallest that is not rejected, and the smallest that is shown to hold, are
        confidence limits for the largest difference. On ``tolerance_side``, the same for all comparisons.
    whole : bool, default False
        Whether the plan moves whole people only: of all ways to round, the one that comes nearest to the null.
    alpha : float, default 0.05
        Error rate.
    rng : int or numpy Generator, optional
        Seed for what has no closed form: a tolerance with several comparisons, and groups of a handful.
    count : str, optional
        Column that says how many equal rows each line stands for.
    weight : str, optional
        Column with the people each row stands for, such as a survey's weights. Only their proportions matter.
    cluster : str, optional
        Column that says which rows belong together: a person, a household, a branch. The error is then measured between
        clusters; nothing is tested where a compared group has fewer than 10 effective ones. With weights or clusters, a
        compared group also needs 8 effective rows or clusters selected, and 8 refused, seen or expected under the null.
    missing : {"raise", "drop"}, default "raise"
        What to do about rows with missing values.
    missing_group : {"raise", "level", "drop"}, default "raise"
        What to do about rows without a group.

    Returns
    -------
    ProjectionResult
        ``statistic``, ``pvalue``, ``critical_value``, ``wald_pvalue``, ``plan``, ``status``; `to_frame` has one row per
        group and label. Where the projection's law does not hold (``status``) the p-value is the Wald test's and there
        is no critical value.

    Notes
    -----
    *When it misleads*: when the rows trained the classifier, when rows are not independent, and when distances in
    different features are not comparable.

    References
    ----------
    Si, N., Murthy, K., Blanchet, J. and Nguyen, V. A. (2021). Testing group fairness via optimal transport projections.
    ICML 2021. Equations (7) and (9), Theorems 1 and 2.

    Examples
    --------
    >>> import numpy as np, isonomy as iso
    >>> rng = np.random.default_rng(1)
    >>> group = rng.choice(["a", "b"], 2000)
    >>> score = rng.normal(size=2000) + 0.3 * (group == "b")
    >>> table = {"hired": score >= 0, "score": score, "group": group}
    >>> result = iso.project(
    ...     table, prediction="hired", score="score", threshold=0.0, groups="group", criterion="statistical_parity"
    ... )
    >>> print(result.verdict, round(result.statistic, 2), result.pvalue < 0.001)
    violation 10.2 True
    """
    call = open_call("project", locals())
    asked = plan(call.source, **call.options)
    sums = tally(call.source, asked)
    estimates = estimate(call.source, sums, asked, call.rng)
    decisions = decide(estimates, asked)
    return ProjectionResult.of(call, asked, sums, estimates, decisions)
