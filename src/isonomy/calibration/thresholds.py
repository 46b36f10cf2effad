"""`equalize_thresholds`: which thresholds would make the outcomes at the margin equal across groups?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from isonomy.calibration import compare
from isonomy.calibration.marginal import tally_above
from isonomy.calibration.margins import ThresholdsResult
from isonomy.calibration.plan import Plan, solve
from isonomy.calibration.smoothing import Axis, Bandwidth, Floats, own_bandwidth
from isonomy.calibration.tally import Family, Roles, membership
from isonomy.errors import NotEnoughData, UsageError, choose
from isonomy.frames import Group, Request, Source, aggregate, collect, open_source
from isonomy.numerics.roots import root
from isonomy.results import Status, Verdict, provenance
from isonomy.results.wording import calibration as wording

DIRECTIONS = ("both", "raise", "lower")
FINE = 2**14  # bins of the score axis behind the share of each group above a threshold


@dataclass(frozen=True, slots=True, eq=False)
class Margin:
    """One group: its outcome curve from the present threshold up, its slope there, its scores."""

    points: Floats  # from the present threshold up
    curve: Floats  # expected outcome there, nondecreasing
    slope: float  # at the present threshold; outcomes below it are extrapolated along it
    edges: Floats
    share_above: Floats  # of the group's rows with a score of at least each edge
    size: float

    def threshold(self, outcome: float) -> float:
        """The lowest score at which the expected outcome reaches ``outcome``."""
        start, value = float(self.points[0]), float(self.curve[0])
        if outcome < value:
            lowest = float(self.edges[0])
            return max(lowest, start - (value - outcome) / self.slope) if self.slope > 0 else lowest
        if outcome >= self.curve[-1]:
            return float(self.points[-1])
        rising = np.concatenate(([True], np.diff(self.curve) > 0))
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
    too few outcomes just above the threshold keeps it, with the status "unsupported". Curves are local lines made
    nondecreasing, so that an outcome has one threshold; `marginal_outcomes`, which only looks at the threshold, uses a
    parabola there, and its numbers differ a little. It misleads where outcomes do not rise with the score.

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
    table = tally_above(source, roles, threshold)
    if len(table.families) != 1:
        raise UsageError("groups: give one column (or one named condition): thresholds are set for disjoint groups.")
    family, present = table.families[0], float(threshold)
    known = _supported(family, present, bandwidth)
    if known.sum() < 2:
        raise NotEnoughData(
            f"threshold: {known.sum()} groups have enough outcomes just above {present:g} (10 effective events and "
            "non-events are needed); thresholds are set by comparing two or more."
        )
    everyone, dropped = _scores(source, roles, family)
    margins = [m for m, ok in zip(_margins(family, everyone, present, bandwidth), known, strict=True) if ok]
    target, reached = _target(margins, present, direction)
    # A group whose outcomes at the margin are not known keeps its threshold.
    thresholds, before, after = np.full((3, known.size), [[present], [np.nan], [np.nan]])
    thresholds[known] = [_moved(margin, present, target, direction) for margin in margins]
    before[known] = [float(margin.curve[0]) for margin in margins]
    after[known] = [margin.outcome(t) for margin, t in zip(margins, thresholds[known], strict=True)]
    rows, positives = _count(source, roles, family.groups, thresholds, present)
    status = tuple(
        Status.UNSUPPORTED
        if not ok
        else Status.EXTRAPOLATED
        if t < present - 1e-12
        else Status.OK
        if np.isclose(value, target, atol=1e-6)
        else Status.INFEASIBLE
        for ok, t, value in zip(known, thresholds, after, strict=True)
    )
    left = tuple(group.label for group, ok in zip(family.groups, known, strict=True) if not ok)
    return ThresholdsResult(
        null=wording.THRESHOLDS_NULL,
        verdict=Verdict.INCONCLUSIVE,
        warnings=wording.threshold_warnings(
            direction, reached, positives[0].sum(), positives[1].sum(), rows.sum(), left
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
        marginal_before=before,
        marginal_after=after,
        marginal_se=np.where(known, _errors(family, thresholds, present, bandwidth), np.nan),
        target=target,
        rate_before=positives[0] / rows,
        rate_after=positives[1] / rows,
        overall_before=float(positives[0].sum() / rows.sum()),
        overall_after=float(positives[1].sum() / rows.sum()),
        direction=direction,
        status=status,
    )


def _supported(family: Family, present: float, bandwidth: object) -> NDArray[np.bool_]:
    """Which groups have enough outcomes just above the present threshold, by the rule of `compare.support`."""
    point = np.array([present])
    width = Bandwidth(family.axis, family.average, own_bandwidth(bandwidth, point), point).at(point)
    plan = Plan(point, width, 1)
    fit = solve(plan, family.rows.totals(plan))
    _, supported = compare.support(family, fit, family.rows.products(plan, fit))
    return supported[:, 0]


def _scores(source: Source, roles: Roles, family: Family) -> tuple[tuple[Floats, Floats], dict[str, int]]:
    """Edges of fine bins, and the rows of each group in each bin, whether their outcome is known or not."""
    column = nw.col(roles.score).cast(nw.Float64)
    ends = collect(source.frame.select(column.min().alias("low"), column.max().alias("high")))
    axis = Axis.of(float(ends["low"][0]), float(ends["high"][0]))
    position = ((column - axis.low) * (FINE / axis.length)).floor().clip(0, FINE - 1)
    request = Request(grouping=source.grouping(roles.groups), numeric={"score": roles.score}, keys={"bin": position})
    cells = source.tally(request)
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


def _margins(family: Family, everyone: tuple[Floats, Floats], present: float, bandwidth: object) -> list[Margin]:
    from sklearn.isotonic import IsotonicRegression

    edges, counts = everyone
    highest = float(edges[-1])
    points = np.linspace(present, highest, 201) if highest > present else np.array([present])
    width = Bandwidth(family.axis, family.average, own_bandwidth(bandwidth, points[:1]), points).at(points)
    plan = Plan(points, width, 1)
    fit = solve(plan, family.rows.totals(plan))
    margins = []
    for g in range(len(family.groups)):
        mass = fit.mass[g]
        # Beyond a group's last scores a local line runs wild; there the curve stays where the data end.
        held = mass > 1e-3 * mass.max()
        rising = IsotonicRegression().fit(points[held], fit.beta[0, g][held], sample_weight=mass[held])
        curve = np.interp(points, points[held], rising.predict(points[held]))
        size = float(counts[g].sum())
        share = 1 - np.concatenate(([0.0], np.cumsum(counts[g]))) / size
        margins.append(Margin(points, curve, _slope(family, g, present, bandwidth), edges, share, size))
    return margins


def _slope(family: Family, g: int, present: float, bandwidth: object) -> float:
    """Slope of a line through outcomes near the threshold, at twice the bandwidth: slopes are harder than levels."""
    point = np.array([present])
    width = 2 * Bandwidth(family.axis, family.average, own_bandwidth(bandwidth, point), point).at(point)
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


def _errors(family: Family, thresholds: Floats, present: float, bandwidth: object) -> Floats:
    """Standard errors of the outcome at the new thresholds; NaN where it is extrapolated."""
    points = np.maximum(thresholds, present)
    width = Bandwidth(family.axis, family.average, own_bandwidth(bandwidth, points[:1]), points).at(points)
    plan = Plan(points, width, 1)
    products = family.rows.products(plan, solve(plan, family.rows.totals(plan)))
    each = np.arange(points.size)
    se = np.sqrt(products.curve[each, each, each, each])
    return np.where(thresholds < present - 1e-12, np.nan, se)


def _count(
    source: Source, roles: Roles, groups: tuple[Group, ...], thresholds: Floats, present: float
) -> tuple[Floats, Floats]:
    """Rows of each group, and how many are positive at the present and at the new thresholds: counted, not smoothed."""
    grouping = source.grouping(roles.groups)
    column = nw.col(roles.score).cast(nw.Float64)
    lines = nw.lit(1.0) if source.count is None else nw.col(source.count).cast(nw.Float64)
    frame = source.frame.select(
        column.alias("s"), lines.alias("n"), *(key.alias(f"__d{i}") for i, key in enumerate(grouping.keys.values()))
    ).filter(~nw.col("s").is_null())
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
    return found[0], found[1:]
