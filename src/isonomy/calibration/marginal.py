"""`marginal_outcomes`: do people who only just got a positive decision fare the same in every group?"""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any

import narwhals as nw
import numpy as np

from isonomy.calibration import compare, wording
from isonomy.calibration.margins import MarginalFamily, MarginalResult
from isonomy.calibration.parity import check_tolerance, overall_verdict, reference_pairs, settled
from isonomy.calibration.plan import Plan, solve
from isonomy.calibration.smoothing import KERNELS, Bandwidth, own_bandwidth
from isonomy.calibration.tally import Family, Roles, Table, score_axis, tally
from isonomy.errors import EmptyFrame, OneGroup, UsageError, choose, fraction, refuse_percent
from isonomy.frames import Request, Source, missing, open_source
from isonomy.frames.adapt import Adapted
from isonomy.inference import multiplicity
from isonomy.numerics import tails
from isonomy.results import Verdict, provenance

DEGREES = {"local-quadratic": 2, "local-linear": 1, "nadaraya-watson": 0}
ADJUSTMENTS = ("holm", "bonferroni", "bh", "by", "none")


def marginal_outcomes(
    data: Any,
    *,
    outcome: str,
    score: str,
    threshold: float,
    groups: Any,
    user: str | None = None,
    level: str | None = None,
    bandwidth: float | None = None,
    method: str = "local-quadratic",
    kernel: str = "gaussian",
    reference: Mapping[str, object] | None = None,
    adjust: str = "holm",
    tolerance: float | None = None,
    alpha: float = 0.05,
    depth: int = 1,
    count: str | None = None,
    missing: str = "raise",
    missing_group: str = "raise",
) -> MarginalResult:
    """Do people who only just got a positive decision have the same outcomes in every group?

    Null hypothesis: E[Y | S = threshold, G = g] is the same for all groups (Definition 5 of the paper), where the
    decision is positive when S >= threshold. Only rows from the threshold up are read, so outcomes may be missing below
    it. Assumes that users are independent.

    Parameters
    ----------
    data, outcome, score, groups, user, level, kernel, reference, tolerance, depth
        As in `predictive_parity`.
    threshold
        The score from which on the decision is positive.
    bandwidth
        Width of the kernel above the threshold. Default: the paper's rule at the threshold, with the users
        (or rows) of the average group above it.
    method
        ``"local-quadratic"``: its error at the edge of the data is of order h^3. ``"local-linear"`` keeps a bias from
        curvature. ``"nadaraya-watson"``: the paper's, with a bias of order h at an edge.
    adjust
        Over all pairs of groups that are compared: ``"holm"``, ``"bonferroni"``, ``"bh"``, ``"by"`` or ``"none"``.

    Returns
    -------
    MarginalResult
        `pvalue`, `verdict`, `families`; `to_frame()` has a line for each pair of groups.

    Notes
    -----
    It misleads if people near the threshold were handled differently (overrides), or if outcomes just above it change
    faster than the bandwidth can follow.

    References
    ----------
    DiCiccio et al., section 6, Definition 5, Theorem 3.

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
    given = {name: value for name, value in locals().items() if name != "data"}
    source = open_source(data, count=count, missing=missing, missing_group=missing_group)
    roles = Roles.of(source, outcome, score, groups, user, level, depth)
    choose("method", method, DEGREES)
    choose("kernel", kernel, KERNELS)
    choose("adjust", adjust, ADJUSTMENTS)
    fraction("alpha", alpha)
    tolerance = check_tolerance(tolerance)
    table = tally_above(source, roles, threshold)
    refuse_percent(table.families[0].binary, tolerance)
    families = settled(
        [
            _family(family, float(threshold), bandwidth, DEGREES[method], kernel, reference, tolerance, alpha)
            for family in table.families
        ],
        adjust,
        alpha,
        tolerance,
    )
    return MarginalResult(
        null=wording.marginal_null(threshold, tolerance),
        verdict=overall_verdict([family.verdict for family in families]),
        warnings=wording.marginal_warnings(
            families, table.families[0].axis.unit, method, _nobody_above(source, roles, float(threshold))
        ),
        provenance=provenance(
            "marginal_outcomes", given | {"level": roles.level}, source=source, rows=table.rows, dropped=table.dropped
        ),
        families=families,
        pvalue=multiplicity.smallest([family.pvalue for family in families]),
        threshold=float(threshold),
        alpha=alpha,
        test=method,
        clustered=user is not None,
    )


def tally_above(source: Source, roles: Roles, threshold: float) -> Table:
    """The rows from the threshold up. Missing scores stay, so that they are reported as elsewhere."""
    if isinstance(threshold, bool) or not isinstance(threshold, Real) or not np.isfinite(float(threshold)):
        raise UsageError(f"threshold: {threshold!r} is not allowed; give a finite score.")
    column = nw.col(roles.score)
    kept = (column >= float(threshold)) | missing(column, source.schema[roles.score])
    try:
        return tally(source.filter(kept), roles, score_axis(source, roles))
    except EmptyFrame:
        raise EmptyFrame(
            f"threshold: no row has a score of {threshold:g} or more; give one on the scale of {roles.score!r}."
        ) from None
    except OneGroup as error:
        raise OneGroup(f"{error} Only rows with a score of {threshold:g} or more are compared.") from None


def _nobody_above(source: Source, roles: Roles, threshold: float) -> list[str]:
    """Groups of which no row has a score from the threshold up."""
    # Rows below the threshold are not part of the test: a group that is missing there is no error.
    unknown = "level" if source.missing_group == "level" else "drop"
    whole = Source(
        Adapted(source.frame, source.backend, source.lazy), count=None, missing="drop", missing_group=unknown
    )
    request = Request(grouping=whole.grouping(roles.groups, depth=roles.depth))
    above = whole.filter(nw.col(roles.score) >= threshold)
    every, there = (
        [group.label for partition in part.cells(request).partitions for group in partition.groups]
        for part in (whole, above)
    )
    return [label for label in every if label not in set(there)]


def _family(
    family: Family,
    threshold: float,
    bandwidth: object,
    degree: int,
    kernel: str,
    reference: Mapping[str, object] | None,
    tolerance: float | None,
    alpha: float,
) -> MarginalFamily:
    """All comparisons among the groups of one family; p-values as if there were no other, verdicts to come."""
    point = np.array([threshold])
    axis = family.axis if degree else family.axis.published
    width = Bandwidth(axis, family.average, own_bandwidth(bandwidth, point), point).at(point)
    plan = Plan(point, width, degree, kernel)
    fit = solve(plan, family.rows.totals(plan))
    products = family.rows.products(plan, fit)
    effective, supported = compare.support(family, fit, products)
    covariance = products.curve[:, :, 0, 0]
    estimate = np.where(supported[:, 0], fit.beta[0][:, 0], np.nan)
    se = np.where(supported[:, 0], np.sqrt(np.diagonal(covariance)), np.nan)
    pairs = np.array(reference_pairs(family.groups, reference))
    i, j = pairs[:, 0], pairs[:, 1]
    difference = estimate[i] - estimate[j]
    variance = covariance[i, i] + covariance[j, j] - 2 * covariance[i, j]
    apart = np.sqrt(np.where(variance > 0, variance, np.nan))
    own = np.diagonal(covariance)
    df = compare.welch((own[i], effective[i, 0]), (own[j], effective[j, 0]))
    df = df if degree else np.full(df.shape, np.inf)  # the paper's method is kept as it is
    _, pvalue = compare.beyond(difference, apart, df, tolerance)
    half = float(tails.normal_isf(alpha))
    wide = compare.student_width(half, df) * apart
    low, high = difference - wide, difference + wide
    return MarginalFamily(
        dimensions=family.dimensions,
        groups=family.groups,
        size=family.size,
        users=family.users,
        spanning=family.spanning,
        bandwidth=float(width[0]),
        estimate=estimate,
        se=se,
        estimate_low=estimate - half * se,
        estimate_high=estimate + half * se,
        effective=effective[:, 0],
        pairs=pairs,
        difference=difference,
        difference_se=apart,
        low=low,
        high=high,
        pair_pvalue=pvalue,
        pair_adjusted=pvalue,
        pair_verdicts=(Verdict.INCONCLUSIVE,) * len(pairs),
        pvalue=multiplicity.smallest(pvalue),
        verdict=Verdict.INCONCLUSIVE,
    )
