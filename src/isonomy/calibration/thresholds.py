"""`equalize_thresholds`: which thresholds would make the outcomes at the margin equal across groups?"""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from isonomy.calibration import compare, wording
from isonomy.calibration.marginal import tally_above
from isonomy.calibration.margins import ThresholdsResult
from isonomy.calibration.plan import Plan, solve
from isonomy.calibration.smoothing import Bandwidth, own_bandwidth
from isonomy.calibration.tally import Family, Roles, membership
from isonomy.errors import NotEnoughData, UsageError, choose
from isonomy.frames import Group, Request, Source, aggregate, collect, missing, open_source
from isonomy.numerics.arrays import FloatArray
from isonomy.numerics.roots import root
from isonomy.results import Status, Verdict, provenance

DIRECTIONS = ("both", "raise", "lower")
FINE = 2**14  # bins of the score axis behind the share of each group above a threshold
APART = 0.1  # of a bandwidth: scores nearer than this are one point of a curve
FALL = 3.0  # standard errors


@dataclass(frozen=True, slots=True, eq=False)
class Margin:
    """One group: its outcome curve from the present threshold up, its slope there, its scores."""

    points: FloatArray  # from the present threshold up
    curve: FloatArray  # expected outcome there, nondecreasing
    line: FloatArray  # the same as it was fitted
    slope: float  # at the present threshold; outcomes below it are extrapolated along it
    edges: FloatArray
    share_above: FloatArray  # of the group's rows with a score of at least each edge
    size: float

    def threshold(self, outcome: float) -> float:
        """The lowest score at which the expected outcome reaches ``outcome``."""
        start, value = float(self.points[0]), float(self.curve[0])
        rounding = 1e-12 * float(np.abs(self.curve).max())  # a level stretch is level up to this only
        if outcome < value - rounding:
            lowest = float(self.edges[0])
            return max(lowest, start - (value - outcome) / self.slope) if self.slope > 0 else lowest
        if outcome > self.curve[-1] + rounding:
            return float(self.points[-1])
        rising = np.concatenate(([True], np.diff(self.curve) > rounding))
        return float(np.interp(outcome, self.curve[rising], self.points[rising]))

    def outcome(self, threshold: float) -> float:
        """The expected outcome at a threshold; extrapolated below the present one."""
        start = float(self.points[0])
        if threshold < start:
            return float(self.curve[0]) + self.slope * (threshold - start)
        return float(np.interp(threshold, self.points, self.curve))

    def positives(self, threshold: float) -> float:
        """Rows with a score of at least ``threshold``."""
        return self.size * float(np.interp(threshold, self.edges, self.share_above))


def equalize_thresholds(
    data: Any,
    *,
    outcome: str,
    score: str,
    threshold: float,
    groups: Any,
    direction: str = "both",
    user: str | None = None,
    level: str | None = None,
    bandwidth: float | None = None,
    count: str | None = None,
    missing: str = "raise",
    missing_group: str = "raise",
) -> ThresholdsResult:
    """Which group thresholds would make the outcomes at the margin equal?

    Solves f_g(t_g) = m for all groups, together with sum_g p_g (1 - F_g(t_g)) = the present positive rate. (Display (2)
    of the paper integrates f F where the rate is meant.) Outcomes are read from the present threshold up only.

    Parameters
    ----------
    data, outcome, score, threshold, groups, user, level
        As in `marginal_outcomes`; one set of groups.
    direction
        ``"both"``: keep the overall positive rate. ``"raise"``: only raise thresholds, up to the highest marginal
        outcome; nothing is extrapolated. ``"lower"``: only lower them, to the lowest. These two cannot keep the rate.
    bandwidth
        Of the outcome curves. Default: the paper's rule.

    Returns
    -------
    ThresholdsResult
        `thresholds`, marginal outcomes and positive rates before and after; `to_frame()` has a line for each group.

    Notes
    -----
    A threshold below the present one rests on a linear extrapolation and has the status "extrapolated". A group with
    too few outcomes just above the threshold keeps it, with the status "unsupported". A group has the status
    "infeasible" if its outcome at the new margin is not the common one (by more than its standard error), if nobody or
    everybody would be above its threshold, or if its outcomes fall as the score rises: do not use its threshold. With
    ``direction="both"`` the last two concern all groups, since the others make up for it. Where the next score above a
    threshold is further off than a tenth of the bandwidth (few distinct scores), that score is the threshold: it
    selects the same people, and the outcome at the margin is theirs.

    Curves are local lines made nondecreasing, so that an outcome has one threshold; `marginal_outcomes`, which only
    looks at the threshold, uses a parabola there, and its numbers differ a little.

    References
    ----------
    DiCiccio et al., section 6.1, Theorem 4.

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
    given = {name: value for name, value in locals().items() if name != "data"}
    source = open_source(data, count=count, missing=missing, missing_group=missing_group)
    roles = Roles.of(source, outcome, score, groups, user, level, 1)
    choose("direction", direction, DIRECTIONS)
    threshold = float(threshold) if isinstance(threshold, Real) and not isinstance(threshold, bool) else threshold
    table = tally_above(source, roles, threshold)
    if len(table.families) != 1:
        raise UsageError("groups: give one column (or one named condition): thresholds are set for disjoint groups.")
    family, present = table.families[0], float(threshold)
    known, now_se = _supported(family, present, bandwidth)
    if known.sum() < 2:
        raise NotEnoughData(
            f"threshold: {known.sum()} groups have enough outcomes just above {present:g} (10 effective events and "
            "non-events are needed); thresholds are set by comparing two or more."
        )
    everyone, dropped = _scores(source, roles, family)
    margins = [m for m, ok in zip(_margins(family, everyone, present, bandwidth), known, strict=True) if ok]
    target, reached = _target(margins, present, direction)
    # A group whose outcomes at the margin are not known keeps its threshold.
    thresholds = np.full(known.size, present)
    thresholds[known] = [_moved(margin, present, target, direction) for margin in margins]
    rows, positives, lowest = _count(source, roles, family.groups, thresholds, present)
    # Scores on a lattice: a threshold that selects the same people as before is the present one.
    moved = known & (positives[1] != positives[0])
    thresholds = np.where(moved, _selecting(family, thresholds, lowest, present, bandwidth), present)
    se = _errors(family, thresholds, present, bandwidth)
    seen = _Seen.at(margins, known, thresholds, present, now_se, se)
    rates = positives / rows
    lowered = thresholds < present - 1e-12 * max(1.0, abs(present))
    some = (rates[1] > 0) & ((rates[1] < 1) | (rates[0] == 1))
    # Together they keep the rate: if one group has no margin any more, the others were moved to make up for it.
    sound = some & ~seen.falling
    sound &= direction != "both" or bool(sound[known].all())
    status = _status(seen, known, lowered, sound, target)
    left = tuple(group.label for group, ok in zip(family.groups, known, strict=True) if not ok)
    return ThresholdsResult(
        null=wording.THRESHOLDS_NULL,
        verdict=Verdict.INCONCLUSIVE,
        warnings=wording.threshold_warnings(
            direction, reached, positives[0].sum(), positives[1].sum(), rows.sum(), left
        )
        + wording.margin_warnings(
            [group.label for group in family.groups], known, seen.falling, rates[1], seen.after, seen.se
        ),
        provenance=provenance(
            "equalize_thresholds",
            given | {"level": roles.level},
            source=source,
            rows=round(float(rows.sum())),
            dropped=dropped,
        ),
        groups=family.groups,
        size=rows,
        threshold=present,
        thresholds=thresholds,
        marginal_before=seen.before,
        marginal_after=seen.after,
        marginal_se=np.where(known & ~lowered, se, np.nan),
        target=target,
        rate_before=rates[0],
        rate_after=rates[1],
        overall_before=float(positives[0].sum() / rows.sum()),
        overall_after=float(positives[1].sum() / rows.sum()),
        direction=direction,
        status=status,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Seen:
    """Outcomes at the margin of each group, NaN where they are not known."""

    before: FloatArray
    after: FloatArray
    se: FloatArray  # of the outcome after; at the present threshold, where the new one is extrapolated
    falling: NDArray[np.bool_]  # whether outcomes fall as the score rises, so that the rising curve is not theirs

    @classmethod
    def at(
        cls,
        margins: list[Margin],
        known: NDArray[np.bool_],
        thresholds: FloatArray,
        present: float,
        now_se: FloatArray,
        se: FloatArray,
    ) -> _Seen:
        """At the new thresholds. Of groups that fall, the outcomes are those of the line as it was fitted."""
        before, after = np.full((2, known.size), np.nan)
        falling = np.zeros(known.size, dtype=bool)
        for margin, g in zip(margins, np.flatnonzero(known), strict=True):
            fitted = replace(margin, curve=margin.line)
            at = max(float(thresholds[g]), present)
            # Making a rising curve nondecreasing moves it by a part of its error; three standard errors are a fall.
            apart = [abs(margin.outcome(x) - fitted.outcome(x)) for x in (present, at)]
            falling[g] = apart[0] > FALL * now_se[g] or apart[1] > FALL * se[g]
            shown = fitted if falling[g] else margin
            before[g], after[g] = shown.outcome(present), shown.outcome(float(thresholds[g]))
        return cls(before, after, np.where(known, se, np.nan), falling)


def _status(
    seen: _Seen, known: NDArray[np.bool_], lowered: NDArray[np.bool_], sound: NDArray[np.bool_], target: float
) -> tuple[Status, ...]:
    """``lowered``: below the present threshold; ``sound``: whether the new one has a margin to speak of."""
    met = np.abs(seen.after - target) <= np.fmax(seen.se, 1e-6)
    chosen = np.where(lowered, Status.EXTRAPOLATED, Status.OK)
    chosen = np.where(met & sound, chosen, Status.INFEASIBLE)
    return tuple(Status(str(one)) for one in np.where(known, chosen, Status.UNSUPPORTED))


def _supported(family: Family, present: float, bandwidth: object) -> tuple[NDArray[np.bool_], FloatArray]:
    """Which groups have enough outcomes just above the present threshold, by the rule of `compare.support`.

    And the standard errors of their outcomes there.
    """
    point = np.array([present])
    width = _widths(family, point, bandwidth)
    plan = Plan(point, width, 1)
    fit = solve(plan, family.rows.totals(plan))
    products = family.rows.products(plan, fit)
    _, supported = compare.support(family, fit, products)
    each = np.arange(len(family.groups))
    return supported[:, 0], np.sqrt(products.curve[each, each, 0, 0])


def _scores(source: Source, roles: Roles, family: Family) -> tuple[tuple[FloatArray, FloatArray], dict[str, int]]:
    """Edges of fine bins, and the rows of each group in each bin, whether their outcome is known or not."""
    axis, lost = family.axis, missing(nw.col(roles.score), source.schema[roles.score])
    # Missing scores are left out by the pass itself; until then they need a bin (Spark has no floor of infinity).
    column = nw.when(lost).then(nw.lit(axis.low)).otherwise(nw.col(roles.score).cast(nw.Float64))
    position = ((column - axis.low) * (FINE / axis.length)).floor().clip(0, FINE - 1)
    request = Request(grouping=source.grouping(roles.groups), numeric={"score": roles.score}, keys={"bin": position})
    cells = source.cells(request)
    partition = cells.partitions[0]
    counts = np.zeros((len(family.groups), FINE))
    place = [_position(family.groups, group) for group in partition.groups]
    rest = np.append(np.array(place, dtype=np.intp), len(family.groups) - 1)  # -1: everybody else
    np.add.at(counts, (rest[partition.codes], cells.keys["bin"].astype(np.intp)), cells.count)
    return (axis.low + axis.length * np.arange(FINE + 1) / FINE, counts), dict(cells.dropped)


def _position(groups: tuple[Group, ...], group: Group) -> int:
    if group not in groups:
        raise NotEnoughData(f"groups: {group.label} has no row from the threshold up; its margin cannot be estimated.")
    return groups.index(group)


def _margins(
    family: Family, everyone: tuple[FloatArray, FloatArray], present: float, bandwidth: object
) -> list[Margin]:
    from sklearn.isotonic import IsotonicRegression

    edges, counts = everyone
    highest = float(edges[-1])
    points = np.linspace(present, highest, 201) if highest > present else np.array([present])
    width = _widths(family, points, bandwidth)
    plan = Plan(points, width, 1)
    with np.errstate(over="ignore", invalid="ignore"):  # at points far from a group, which are left out below
        fit = solve(plan, family.rows.totals(plan))
    margins = []
    for g in range(len(family.groups)):
        mass = fit.mass[g]
        # Beyond a group's last scores a local line runs wild; there the curve stays where the data end.
        held = mass > 1e-3 * mass.max()
        rising = IsotonicRegression().fit(points[held], fit.beta[0, g][held], sample_weight=mass[held])
        curve, line = (np.interp(points, points[held], y) for y in (rising.predict(points[held]), fit.beta[0, g][held]))
        size = float(counts[g].sum())
        share = 1 - np.concatenate(([0.0], np.cumsum(counts[g]))) / size
        margins.append(Margin(points, curve, line, _slope(family, g, present, bandwidth), edges, share, size))
    return margins


def _slope(family: Family, g: int, present: float, bandwidth: object) -> float:
    """Slope of a line through outcomes near the threshold, at twice the bandwidth: slopes are harder than levels."""
    point = np.array([present])
    width = 2 * _widths(family, point, bandwidth)
    plan = Plan(point, width, 1)
    return float(solve(plan, family.rows.totals(plan)).beta[1, g, 0] / width[0])


def _target(margins: list[Margin], present: float, direction: str) -> tuple[float, bool]:
    """The common marginal outcome, and whether it can be reached while keeping the rate."""
    now = [float(margin.curve[0]) for margin in margins]
    if direction != "both":
        return (max(now) if direction == "raise" else min(now)), True
    wanted = sum(margin.positives(present) for margin in margins)

    def surplus(outcome: float) -> float:
        return sum(margin.positives(margin.threshold(outcome)) for margin in margins) - wanted

    low, high = min(now), max(now)
    if high - low < 1e-12:
        return low, True
    # At the lowest present outcome no threshold rises and at the highest none falls: the root lies between.
    found = root(surplus, low, high)
    return float(found.x), found.status is Status.OK


def _moved(margin: Margin, present: float, target: float, direction: str) -> float:
    t = margin.threshold(target)
    if direction == "raise":
        return max(t, present)
    return min(t, present) if direction == "lower" else t


def _widths(family: Family, points: FloatArray, bandwidth: object) -> FloatArray:
    return Bandwidth(family.axis, family.average, own_bandwidth(bandwidth, points[:1]), points).at(points)


def _selecting(
    family: Family, thresholds: FloatArray, lowest: FloatArray, present: float, bandwidth: object
) -> FloatArray:
    """The thresholds, or the lowest score that each selects (``lowest``) where that is another point of the curve."""
    points = np.maximum(thresholds, present)
    width = _widths(family, points, bandwidth)
    return np.where(lowest - thresholds > APART * width, lowest, thresholds)


def _errors(family: Family, thresholds: FloatArray, present: float, bandwidth: object) -> FloatArray:
    """Standard errors of the outcome at the new thresholds, or at the present one where they are below it."""
    points = np.maximum(thresholds, present)
    width = _widths(family, points, bandwidth)
    plan = Plan(points, width, 1)
    products = family.rows.products(plan, solve(plan, family.rows.totals(plan)))
    each = np.arange(points.size)
    return np.sqrt(products.curve[each, each, each, each])


def _count(
    source: Source, roles: Roles, groups: tuple[Group, ...], thresholds: FloatArray, present: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Rows of each group, and how many are positive at the present and at the new thresholds: counted, not smoothed.

    And the lowest score that is positive at the new ones (NaN: none).
    """
    grouping = source.grouping(roles.groups)
    column = nw.col(roles.score).cast(nw.Float64)
    lines = nw.lit(1.0) if source.count is None else nw.col(source.count).cast(nw.Float64)
    kept = ~missing(nw.col(roles.score), source.schema[roles.score])
    frame = source.frame.filter(kept).select(
        column.alias("s"), lines.alias("n"), *(key.alias(f"__d{i}") for i, key in enumerate(grouping.keys.values()))
    )
    frame = frame.with_columns(membership(grouping, groups).alias("g")).filter(nw.col("g") >= 0)
    limit: Any = nw.lit(float(thresholds[-1]))
    for g in range(len(groups) - 1):
        limit = nw.when(nw.col("g") == g).then(nw.lit(float(thresholds[g]))).otherwise(limit)

    def positive(at: Any) -> Any:
        return nw.when(nw.col("s") >= at).then(nw.col("n")).otherwise(nw.lit(0.0))

    values = {"n": nw.col("n"), "before": positive(nw.lit(present)), "after": positive(limit)}
    cells = collect(aggregate(frame, {"g": nw.col("g")}, values))
    at = cells["g"].to_numpy().astype(np.intp)
    found = np.zeros((3, len(groups)))
    for k, name in enumerate(values):
        found[k, at] = cells[name].to_numpy()
    ends = collect(frame.filter(nw.col("s") >= limit).group_by("g").agg(nw.col("s").min()))
    lowest = np.full(len(groups), np.nan)
    lowest[ends["g"].to_numpy().astype(np.intp)] = ends["s"].to_numpy()
    return found[0], found[1:], lowest
