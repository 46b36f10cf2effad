"""How little would have to change for this classifier to look fair, is that chance, and who would have to move?"""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any

import narwhals as nw
import numpy as np

from isonomy.errors import (
    DataError,
    MissingRole,
    NotBinary,
    NotEnoughData,
    UsageError,
    choose,
    fraction,
    refuse_percent,
)
from isonomy.frames import Grouping, Source, collect, open_source
from isonomy.numerics.randomness import resolve
from isonomy.results import provenance
from isonomy.transport import estimators, wording
from isonomy.transport.assemble import report
from isonomy.transport.criteria import ALSO_CALLED, LABELS, Discerning, moments
from isonomy.transport.distances import Column, Distance, Score
from isonomy.transport.evidence import Null, weigh
from isonomy.transport.result import ProjectionResult
from isonomy.transport.table import Options
from isonomy.transport.tally import require_numbers, tally

SIDES = ("both", "upper", "lower")


def project(
    data: Any,
    *,
    outcome: str | None = None,
    prediction: str,
    groups: Any = None,
    criterion: str | Discerning = "equal_opportunity",
    distance: str | Distance | Any = None,
    score: str | None = None,
    threshold: float | None = None,
    reference: Mapping[str, object] | None = None,
    tolerance: float | None = None,
    tolerance_side: str = "both",
    bandwidth: float | None = None,
    alpha: float = 0.05,
    rng: int | np.random.Generator | None = None,
    count: str | None = None,
    missing: str = "raise",
    missing_group: str = "raise",
) -> ProjectionResult:
    """How little would have to change for selection rates to look equal, and is that little enough to be chance?

    Null hypothesis: the selection rates named by ``criterion`` are equal across groups (or differ by no more than
    ``tolerance``). The statistic is the least total distance that rows would have to move, each across the decision
    boundary, for the rates in the table to satisfy the null exactly; the plan says which rows those are.

    Parameters
    ----------
    data
        Any table. An engine is asked for grouped passes only, when the distance is an expression of columns.
    outcome
        0/1 column of what happened; not needed for statistical parity.
    prediction
        0/1 column of the decision.
    groups
        Columns, `iso.cut` or `iso.where`. Each level is compared with the reference level, each named condition with
        everybody else; several groupings are tested together.
    criterion
        "equal_opportunity" (rates among outcome 1), "predictive_equality" (among outcome 0), "equalized_odds" (both),
        "statistical_parity" (among all), or a `Discerning` tuple of your own.
    distance
        A column of distances, a fitted scikit-learn estimator, or an object of `isonomy.transport.distances`.
    score, threshold
        Without ``distance``: distance is |score - threshold| (the threshold is inferred from the decisions if not
        given). With an estimator, ``threshold`` is its cut; other distances take none.
    reference
        Column -> level that others are compared with; by default the largest. A named condition has no level: it is
        compared with everybody else.
    tolerance, tolerance_side
        Differences of rates up to ``tolerance`` (5 percentage points are 0.05) belong to the null: either way
        ("both"), only above the reference ("upper") or only below it ("lower").
    bandwidth
        Of the density at the boundary, in units of the distance. Default 1.06 s N^(-1/5) with s = min(sd, IQR / 1.349)
        of the signed distances, so that rescaling the distances changes no p-value and a few wild ones hardly any.
    alpha
        Error rate.
    rng
        Seed for the two laws without a closed form (a tolerance with several comparisons).
    count, missing, missing_group
        As everywhere: rows already aggregated, and what to do about missing values.

    Returns
    -------
    ProjectionResult
        ``statistic``, ``pvalue``, ``critical_value``, ``wald_pvalue``, ``plan``, ``status``; `to_frame` has a line for
        each group and label. Where the projection's law does not hold (``status``) the p-value is the Wald test's and
        there is no critical value.

    Notes
    -----
    It misleads when the rows trained the classifier, when rows are not independent, and when distances in different
    features are not comparable. Si, Murthy, Blanchet and Nguyen (2021), equations (7) and (9), Theorems 1 and 2.

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
    given = {name: value for name, value in locals().items() if name not in ("data", "rng")}
    null = _null(criterion, tolerance, tolerance_side)
    fraction("alpha", alpha)
    number = isinstance(bandwidth, Real) and not isinstance(bandwidth, bool)
    if bandwidth is not None and not (number and 0 < bandwidth < np.inf):
        raise UsageError(f"bandwidth: {bandwidth!r} is not allowed; give a number above 0, in units of the distance.")
    source = open_source(data, count=count, missing=missing, missing_group=missing_group)
    options = _options(source, outcome, prediction, groups, criterion, distance, score, threshold)
    _check_reference(reference, options.grouping, criterion)
    generator, seed = resolve(rng)
    table = tally(source, options)
    asked = moments(table.cells, criterion, reference)
    evidence = weigh(
        table, asked, null, bandwidth=bandwidth, alpha=alpha, tested=options.distance.tested, rng=generator
    )
    record = provenance(
        "project",
        given,
        source=source,
        seed=seed if null.side != "equality" else None,
        rows=round(table.cells.rows),
        dropped=table.dropped,
    )
    name = criterion if isinstance(criterion, str) else "discerning"
    return report(
        table,
        asked,
        evidence,
        null=wording.null(name, tolerance, tolerance_side),
        criterion=name,
        alpha=alpha,
        tolerance=tolerance,
        tolerance_side=tolerance_side,
        distance=options.distance,
        provenance=record,
    )


def _null(criterion: str | Discerning, tolerance: float | None, side: str) -> Null:
    if not isinstance(criterion, Discerning):
        choose("criterion", criterion, LABELS, ALSO_CALLED)
    choose("tolerance_side", side, SIDES)
    if tolerance is None:
        if side != "both":
            raise UsageError(wording.side_without_tolerance(side))
        return Null("equality", 0.0)
    if isinstance(tolerance, bool) or not (isinstance(tolerance, Real) and 0 <= tolerance < np.inf):
        raise UsageError(f"tolerance: {tolerance!r} is not allowed; give a number from 0 up.")
    # Rates differ by at most 1: a larger tolerance would pass anything. Moments of one's own have their own scale.
    refuse_percent(not isinstance(criterion, Discerning), float(tolerance))
    if side == "both":
        return Null("both" if tolerance > 0 else "equality", float(tolerance))
    return Null("upper", float(tolerance), -1.0 if side == "lower" else 1.0)


def _check_reference(
    reference: Mapping[str, object] | None, grouping: Grouping | None, criterion: str | Discerning
) -> None:
    """A reference must be about a column that is compared; its level is checked once the levels are known."""
    if reference is None:
        return
    if not isinstance(reference, Mapping):
        raise UsageError(f'reference: {reference!r} is not allowed; give column -> level, such as {{"sex": "male"}}.')
    if isinstance(criterion, Discerning):
        raise UsageError(wording.reference_of_a_tuple())
    dimensions = () if grouping is None else grouping.dimensions
    columns = [dimension.name for dimension in dimensions if not dimension.condition]
    for name in reference:
        if any(dimension.condition and dimension.name == name for dimension in dimensions) or not columns:
            raise UsageError(wording.reference_of_a_condition(name, columns))
        choose("reference", name, columns)


def _options(
    source: Source,
    outcome: str | None,
    prediction: str,
    groups: Any,
    criterion: str | Discerning,
    distance: Any,
    score: str | None,
    threshold: float | None,
) -> Options:
    """Roles against the schema, and the distance that was meant."""
    custom = isinstance(criterion, Discerning)
    if prediction is None:  # the signature forbids it, and there is no other way to know the decisions
        raise MissingRole("prediction: None is not allowed; name the 0/1 column of the decision.")
    if groups is None and not custom:
        raise MissingRole("groups: name the columns to compare.")
    if outcome is None and not custom and criterion != "statistical_parity":
        raise MissingRole(f"outcome: {criterion} compares rates within an outcome; name its 0/1 column.")
    source.require(outcome=outcome, prediction=prediction, score=score)
    u = criterion.u if isinstance(criterion, Discerning) else {}
    for name, expr in u.items():
        source.check_expression(f"criterion {name!r}", expr)
        dtype = source.frame.head(0).select(expr.alias("u")).collect_schema()["u"]
        if not (dtype.is_numeric() or dtype == nw.Boolean):
            raise UsageError(wording.bad_u(name, dtype))
    return Options(
        grouping=None if groups is None else source.grouping(groups),
        outcome=outcome,
        prediction=prediction,
        distance=_distance(source, prediction, distance, score, threshold),
        u=u,
    )


def _distance(source: Source, prediction: str, distance: Any, score: str | None, threshold: float | None) -> Distance:
    if threshold is not None and not (isinstance(threshold, Real) and np.isfinite(threshold)):
        raise UsageError(f"threshold: {threshold!r} is not allowed; give a finite number.")
    if distance is not None and score is not None:
        raise UsageError("distance, score: give one of them.")
    if isinstance(distance, str | Distance):
        if threshold is not None:
            raise UsageError(wording.threshold_unused(threshold))
        return Column(distance) if isinstance(distance, str) else distance
    if distance is not None:
        return estimators.of(distance, threshold=threshold)
    if score is None:
        raise MissingRole(wording.need_distance())
    require_numbers(source, "score", score)
    require_numbers(source, "prediction", prediction)
    return Score(score, _cut(source, prediction, score) if threshold is None else float(threshold))


def _cut(source: Source, prediction: str, score: str) -> float:
    """The threshold behind the decisions: halfway between the highest score refused and the lowest selected."""
    decided, value = nw.col(prediction).cast(nw.Float64), nw.col(score).cast(nw.Float64)
    frame = source.frame.select(decided.alias("decision"), value.alias("score"))
    kept = frame.filter(nw.col("score").is_finite() & (nw.col("decision") >= 0))
    ends = kept.group_by("decision").agg(nw.col("score").min().alias("low"), nw.col("score").max().alias("high"))
    found = {row["decision"]: row for row in collect(ends).to_dicts()}
    if not found.keys() <= {0.0, 1.0}:
        raise NotBinary(f"prediction: column {prediction!r} has values that are neither 0 nor 1. Recode the column.")
    if len(found) < 2:
        raise NotEnoughData(wording.one_side())
    refused, selected = found[0.0]["high"], found[1.0]["low"]
    if refused > selected:
        raise DataError(wording.no_threshold(selected, refused))
    return float(refused + selected) / 2
