"""Flagging: which groups are treated differently."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from isonomy.errors import choose, fraction, refuse_percent
from isonomy.frames import Group, open_source
from isonomy.frames.metrics import Metric
from isonomy.likelihood import wording
from isonomy.likelihood.comparison import Tools, compare
from isonomy.likelihood.decision import ADJUSTMENTS, contrast, decide, warnings
from isonomy.likelihood.hypotheses import hypothesis, refuse_interval
from isonomy.likelihood.reference import Estimate
from isonomy.likelihood.result import FlagResult
from isonomy.likelihood.tally import plan, tally
from isonomy.numerics.randomness import resolve
from isonomy.numerics.status import Status
from isonomy.results import provenance


def flag(
    data: object,
    *,
    metric: str | Metric,
    groups: object,
    outcome: str | None = None,
    prediction: str | None = None,
    score: str | None = None,
    reference: str | float | Mapping[str, object] | Group | Estimate = "population",
    uncertainty: str = "joint",
    null: float | tuple[float, float] = 0.0,
    alternative: str = "two-sided",
    tolerance: float | None = None,
    interval: str = "pointwise",
    alpha: float = 0.05,
    adjust: str = "bh",
    depth: int = 1,
    min_size: int = 10,
    method: str = "el",
    correction: str | None = None,
    resamples: int = 1_000,
    rng: int | np.random.Generator | None = None,
    count: str | None = None,
    missing: str = "raise",
    missing_group: str = "raise",
) -> FlagResult:
    """Which groups does this model treat differently, by how much, and is that more than chance?

    The disparity of a group is the mean of the metric inside it less the reference. Null hypothesis, for each
    group: the disparity equals ``null`` (or is at most, at least, or between; see ``alternative``). T is an
    empirical likelihood ratio, chi-square with one degree of freedom at the true disparity, whatever the metric's
    distribution.

    Assumes independent rows and groups large enough for the limit. The reference is estimated from the same rows,
    and by default its error is part of the test. The paper's Theorem 2 leaves it out; ``uncertainty="plugin"`` does
    the same and is wrong by as much as that error is large.

    Parameters
    ----------
    data
        Any table: pandas, polars, pyarrow, a DuckDB relation, PySpark, a mapping of arrays, a path.
    metric
        A name (``"ppv"``, ``"selection_rate"``, ``"mse"``, ...) or an `isonomy.Metric`.
    groups, depth
        Columns, cuts and conditions that make groups, and how many of them are intersected.
    outcome, prediction, score
        The columns with these roles, as the metric needs them.
    reference
        ``"population"``, ``"rest"`` (all rows outside the group), a number, a group such as ``{"race":
        "Caucasian"}`` (for a named condition ``{"young men": True}``, or ``False``), or an `Estimate` with a column of
        influence values.
    uncertainty
        ``"joint"`` (the reference's error counts) or ``"plugin"`` (it does not). A number has no error: ``"fixed"``, to
        which the default comes down then.
    null, alternative
        ``"two-sided"`` tests disparity = null; ``"greater"`` flags groups above it, ``"less"`` below it;
        ``"outside"`` takes ``null=(low, high)`` and flags groups outside; ``"outside-published"`` does so with the
        paper's p-value.
    tolerance
        The largest disparity that does not matter. The null becomes abs(disparity) <= tolerance, and a group whose
        interval lies inside the tolerance is shown to be within it.
    interval
        ``"pointwise"``, ``"simultaneous"`` (Sidak's level over all tested groups) or ``"one-sided"`` (a bound facing
        the alternative).
    adjust
        ``"bh"``, ``"by"``, ``"holm"``, ``"bonferroni"``, ``"none"``, or ``"bh-tree"``: Benjamini-Hochberg level by
        level down the tree of intersections.
    min_size
        Groups with fewer rows inside the metric's condition are listed, not tested.
    method
        ``"el"`` or ``"eel"`` (Euclidean likelihood).
    correction
        For small groups: ``"bartlett"`` (with an estimated reference from ``resamples`` resamples drawn by ``rng``)
        or ``"adjusted"``.
    count, missing, missing_group
        A column with the number of rows each line stands for; what to do about missing values and missing groups.

    Returns
    -------
    FlagResult
        ``to_frame()`` has one line a group: group, size, n, estimate, reference, disparity, ci_low, ci_high,
        statistic, pvalue, adjusted_pvalue, verdict, status.

    When it misleads: rows that are not independent; groups chosen after looking at the data; groups of a few dozen
    rows with a skewed metric, where T is too large (see ``correction``).

    The statistic is that of the paper's sections 3 and 4, its Algorithms G.2 to G.5; the joint reference and the
    interval null's p-value are corrections of it, described on the method's page.

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
    options = {name: value for name, value in locals().items() if name not in ("data", "rng")}
    tested = hypothesis(null, alternative, tolerance)
    refuse_interval(interval, tested.alternative)
    choose("adjust", adjust, ADJUSTMENTS)
    fraction("alpha", alpha)
    generator, seed = resolve(rng)
    tools = Tools(method, correction, min_size, resamples, generator)
    source = open_source(data, count=count, missing=missing, missing_group=missing_group)
    asked = plan(
        source,
        metric=metric,
        groups=groups,
        outcome=outcome,
        prediction=prediction,
        score=score,
        reference=reference,
        uncertainty=uncertainty,
        depth=depth,
    )
    refuse_percent(asked.measure.binary, tolerance)
    evidence = tally(source, asked)
    comparison = compare(evidence, asked.reference, tools)
    decided = decide(comparison, tested, interval, alpha, adjust, tolerance)
    resampled = correction == "bartlett" and asked.reference.joint
    said = warnings(evidence, asked.reference, comparison, decided, adjust, min_size, tolerance)
    if resampled and bool(np.any((decided.adjusted > alpha / 1.5) & (decided.adjusted < 1.5 * alpha))):
        said = (*said, wording.resampled_warning(resamples))
    return FlagResult(
        null=wording.null(tested.low, tested.high, tested.alternative, asked.measure.name, asked.reference.label),
        verdict=decided.overall,
        warnings=said,
        provenance=provenance(
            "flag",
            options,
            source=source,
            seed=seed if resampled else None,
            rows=evidence.rows,
            dropped=evidence.dropped,
        ),
        metric=asked.measure.name,
        reference=asked.reference.label,
        joint=asked.reference.joint,
        overlapping=len(evidence.partitions) > 1,
        alpha=alpha,
        tolerance=tolerance,
        ci_low=decided.low,
        ci_high=decided.high,
        status=tuple(Status(s) for s in decided.status),
        null_low=tested.low,
        null_high=tested.high,
        alternative=tested.alternative,
        adjust=adjust,
        statistic=decided.statistic,
        pvalue=decided.pvalue,
        adjusted_pvalue=decided.adjusted,
        verdicts=decided.verdicts,
        contrast=contrast(evidence, asked.reference, comparison, decided, tested, tools, alpha, adjust),
        **comparison.columns(),
    )
