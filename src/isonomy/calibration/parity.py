"""`predictive_parity`: does a score mean the same thing for every group?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from isonomy.calibration import compare
from isonomy.calibration.plan import Marks, Plan
from isonomy.calibration.result import ParityFamily, ParityResult
from isonomy.calibration.smoothing import KERNELS, Bandwidth, Floats, own_bandwidth, own_grid
from isonomy.calibration.tally import Family, Roles, tally
from isonomy.errors import UsageError, choose, fraction
from isonomy.frames import Group, open_source
from isonomy.numerics import multiplicity, tails
from isonomy.numerics.randomness import resolve
from isonomy.results import Verdict, provenance
from isonomy.results.wording import calibration as wording


@dataclass(frozen=True, slots=True, eq=False)
class Options:
    """The checked options of a call."""

    method: str
    kernel: str
    adjust: str
    alpha: float
    draws: int
    tolerance: float | None
    reference: Mapping[str, object] | None
    grid: Floats | None
    bandwidth: object


def predictive_parity(
    data: Any,
    *,
    outcome: str,
    score: str,
    groups: Any,
    user: str | None = None,
    level: str | None = None,
    grid: Sequence[float] | Floats | None = None,
    bandwidth: float | Sequence[float] | Floats | None = None,
    method: str = "residual",
    kernel: str = "gaussian",
    reference: Mapping[str, object] | None = None,
    adjust: str = "sup-t",
    tolerance: float | None = None,
    alpha: float = 0.05,
    resamples: int = 2_000,
    depth: int = 1,
    count: str | None = None,
    missing: str = "raise",
    missing_group: str = "raise",
    rng: int | np.random.Generator | None = None,
) -> ParityResult:
    """Does a score mean the same thing for every group, when users may appear many times?

    Null hypothesis: E[Y | S = s, G = g] is the same for all groups at every score of the grid (Definition 1 of the
    paper). The order of scores (Definition 2) is tested beside it: no group has better outcomes at a lower score than
    another at a higher one. Assumes that users are independent; rows of one user need not be, and a user may appear in
    several groups.

    Parameters
    ----------
    data
        Any table isonomy reads. Lazy ones (polars, DuckDB, Spark, Ibis) are summed where they are.
    outcome
        Column of outcomes: 0/1, or any number.
    score
        Column of scores. Outside [0, 1] the bandwidth rule is scaled to the range of the scores.
    groups
        Columns, `isonomy.cut` or `isonomy.where`; ``depth`` as elsewhere. A `where` is compared with everybody else.
    user
        Column that says whom a row belongs to. None: rows are independent.
    level
        ``"user"``: each user has one vote, split evenly over all of its rows. ``"aggregate"``: each row has one vote
        (users, if given, still decide the variance). Default: "user" if ``user`` is given.
    grid
        Scores at which groups are compared. Default: the 1, 5, 10, ..., 95, 99 % quantiles.
    bandwidth
        Width of the kernel: a number, or one a grid point. Default: the paper's rule,
        max(1.06 sqrt(s (1 - s)) n^(-1/5), n^(-1/5)/10), n being the users (or rows) of the average group.
    method
        ``"residual"``: smooth each group's residuals from the pooled curve of the compared groups. ``"orthogonal"``:
        smooth (1_g - share(S)) (Y - pooled(S)). ``"nadaraya-watson"``: the paper's, which rejects too often when groups
        have different scores. ``"cumulative"``: cumulative differences in score order; no bandwidth in the comparison.
    kernel
        ``"gaussian"``, or of higher order: ``"gaussian4"``, ``"gaussian6"``.
    reference
        The group each other group is compared with, such as ``{"race": "White"}``. Default: every pair.
    adjust
        Over grid points: ``"sup-t"``, ``"bonferroni"`` (as in the paper), ``"holm"`` or ``"none"``. Pairs are adjusted
        by Holm's method.
    tolerance
        Differences up to this size are called within tolerance, if the whole band lies inside it.
    resamples
        Normal draws behind sup-t, the ordering and the cumulative test. No row is resampled.

    Returns
    -------
    ParityResult
        `pvalue`, `verdict`, `families` (curves, bands, pairs, ordering); `to_frame()` has a line for each pair of
        groups and grid point.

    Notes
    -----
    It misleads where few users have scores near a grid point: such points are reported as unsupported and not tested. A
    difference narrower than the bandwidth is smoothed away. The verdict concerns parity; `ordering_pvalue` has its own.

    References
    ----------
    DiCiccio, Hsu, Yu, Nandy, Basu, "Detection and Mitigation of Algorithmic Bias via Predictive Rate Parity", sections
    2, 3 and 7, Theorem 1.

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
    source = open_source(data, count=count, missing=missing, missing_group=missing_group)
    roles = Roles.of(source, outcome, score, groups, user, level, depth)
    options = Options(
        choose("method", method, compare.METHODS),
        choose("kernel", kernel, KERNELS),
        choose("adjust", adjust, compare.ADJUSTMENTS),
        fraction("alpha", alpha),
        _draws(resamples),
        check_tolerance(tolerance),
        reference,
        own_grid(grid),
        bandwidth,
    )
    generator, seed = resolve(rng)
    table = tally(source, roles)
    families = tuple(
        _family(family, options, child)
        for family, child in zip(table.families, generator.spawn(len(table.families)), strict=True)
    )
    pvalues = np.array([family.pvalue for family in families])
    known = pvalues[~np.isnan(pvalues)]
    given = {
        "outcome": outcome,
        "score": score,
        "groups": groups,
        "user": user,
        "level": roles.level,
        "grid": grid,
        "bandwidth": bandwidth,
        "method": method,
        "kernel": kernel,
        "reference": reference,
        "adjust": adjust,
        "tolerance": tolerance,
        "alpha": alpha,
        "resamples": resamples,
        "depth": depth,
    }
    return ParityResult(
        null=wording.parity_null(roles.level),
        verdict=overall_verdict([family.verdict for family in families]),
        warnings=wording.parity_warnings(families, table.families[0].axis.unit, method),
        provenance=provenance(
            "predictive_parity", given, source=source, seed=seed, rows=table.rows, dropped=table.dropped
        ),
        families=families,
        pvalue=min(1.0, float(known.min()) * known.size) if known.size else float("nan"),
        alpha=options.alpha,
        tolerance=options.tolerance,
        test=method,
        level=roles.level,
        clustered=user is not None,
    )


def _family(family: Family, options: Options, rng: np.random.Generator) -> ParityFamily:
    """All comparisons among the groups of one family."""
    weight, total = family.rows.histogram()
    grid = options.grid if options.grid is not None else compare.default_grid(family, weight.sum(axis=0))
    own = own_bandwidth(options.bandwidth, grid)
    bandwidth = Bandwidth(family.axis, family.average, own, grid)
    plain = options.method == "nadaraya-watson"
    marks = None if plain else Marks(compare.pooled(family, bandwidth, weight, total))
    plan = Plan(grid, bandwidth.at(grid), 0 if plain else 1, options.kernel, marks)
    found = compare.smooth(family, plan)
    pairs = reference_pairs(family.groups, options.reference)
    draws, order_draws, joint_draws = rng.spawn(3)
    bands, statistics = [], []
    for (i, j), child in zip(pairs, draws.spawn(len(pairs)), strict=True):
        own_band, own_statistic = _pair(family, options, plan, found, bandwidth, weight, total, i, j, child)
        bands.append(own_band)
        statistics.append(own_statistic)
    overall = np.array([b.overall for b in bands])
    adjusted = multiplicity.adjust(overall, "holm")
    joint = len(family.groups) > 2 and options.reference is None and options.adjust == "sup-t"
    if joint and options.method in ("residual", "nadaraya-watson"):
        pvalue = compare.joint_pvalue(found, options.draws, joint_draws)
    else:
        pvalue = float(np.nanmin(adjusted)) if np.any(~np.isnan(adjusted)) else float("nan")
    se = np.sqrt(np.einsum("ggjj->gj", found.covariance))
    half = float(tails.normal_isf(options.alpha)) * se
    shown = np.where(found.supported, found.curve, np.nan)
    verdicts = tuple(
        verdict_of(p, b.low, b.high, options.alpha, options.tolerance) for p, b in zip(adjusted, bands, strict=True)
    )
    return ParityFamily(
        dimensions=family.dimensions,
        groups=family.groups,
        size=family.size,
        users=family.users,
        spanning=family.spanning,
        grid=grid,
        bandwidth=plan.width,
        curve=shown,
        curve_low=shown - half,
        curve_high=shown + half,
        effective=found.effective,
        pairs=np.array(pairs),
        difference=np.stack([b.difference for b in bands]),
        se=np.stack([b.se for b in bands]),
        low=np.stack([b.low for b in bands]),
        high=np.stack([b.high for b in bands]),
        pvalue_at=np.stack([b.pvalue for b in bands]),
        adjusted_at=np.stack([b.adjusted for b in bands]),
        pair_statistic=np.array(statistics),
        pair_pvalue=overall,
        pair_adjusted=adjusted,
        pair_verdicts=verdicts,
        pvalue=pvalue,
        order=compare.ordering(found, grid, options.draws, order_draws),
        verdict=Verdict.VIOLATION if pvalue <= options.alpha else overall_verdict(list(verdicts)),
    )


def _pair(
    family: Family,
    options: Options,
    plan: Plan,
    found: compare.Smoothed,
    bandwidth: Bandwidth,
    weight: Floats,
    total: Floats,
    i: int,
    j: int,
    rng: np.random.Generator,
) -> tuple[compare.Band, float]:
    """Compare two groups, pooled with each other only: a third group would bias the pooled curve."""
    settings: dict[str, Any] = {"adjust": options.adjust, "alpha": options.alpha, "draws": options.draws, "rng": rng}
    two = [i, j]
    if plan.marks is None:
        band = compare.pair_band(found, i, j, **settings)
        return band, _largest(band)
    alone = len(family.groups) == 2 and (i, j) == (0, 1)
    rows = family.rows.pair(i, j)
    own = family if alone else _two(family, two, rows)
    outcome = plan.marks.outcome if alone else compare.pooled(own, bandwidth, weight[two], total[two])
    share = None
    if options.method in ("orthogonal", "cumulative"):
        share = compare.share(own, bandwidth, weight[two])
    if alone and options.method != "orthogonal":
        smoothed = found
    else:
        marks = Marks(outcome, share if options.method == "orthogonal" else None)
        smoothed = compare.smooth(own, Plan(plan.points, plan.width, 0, plan.kernel, marks, curves=False))
    band = compare.pair_band(smoothed, 0, 1, **settings)
    if options.method != "cumulative":
        return band, _largest(band)
    statistic, pvalue = compare.cumulative(own, Marks(outcome, share), weight[two], options.draws, rng)
    return replace(band, overall=pvalue), statistic


def _two(family: Family, two: list[int], rows: Any) -> Family:
    groups = tuple(family.groups[g] for g in two)
    return Family(
        family.dimensions,
        groups,
        family.size[two],
        family.users[two],
        rows,
        family.axis,
        family.binary,
        family.spanning,
    )


def _largest(band: compare.Band) -> float:
    t = np.abs(band.difference / band.se)
    return float(np.nanmax(t)) if np.any(np.isfinite(t)) else float("nan")


def reference_pairs(groups: tuple[Group, ...], reference: Mapping[str, object] | None) -> list[tuple[int, int]]:
    """Every pair (the later group against the earlier one), or each group against the reference."""
    if reference is None:
        return list(combinations(range(len(groups)), 2))
    wanted = {str(k): v for k, v in reference.items()}
    bases = [i for i, group in enumerate(groups) if dict(group.mapping) == wanted]
    if not bases:
        raise UsageError(
            f"reference: no group {reference!r}; groups: {', '.join(group.label for group in groups[:20])}."
        )
    return [(i, bases[0]) for i in range(len(groups)) if i != bases[0]]


def verdict_of(pvalue: float, low: Any, high: Any, alpha: float, tolerance: float | None) -> Verdict:
    """Violation if significant; within tolerance if the whole (simultaneous) interval is; else inconclusive."""
    if pvalue <= alpha:
        return Verdict.VIOLATION
    ends = np.abs(np.concatenate([np.atleast_1d(low), np.atleast_1d(high)]))
    shown = ends[np.isfinite(ends)]
    within = tolerance is not None and shown.size > 0 and float(shown.max()) <= tolerance
    return Verdict.WITHIN_TOLERANCE if within else Verdict.INCONCLUSIVE


def overall_verdict(verdicts: list[Verdict]) -> Verdict:
    """A violation anywhere is one; within tolerance only if everything is."""
    if Verdict.VIOLATION in verdicts:
        return Verdict.VIOLATION
    every = all(verdict is Verdict.WITHIN_TOLERANCE for verdict in verdicts)
    return Verdict.WITHIN_TOLERANCE if every else Verdict.INCONCLUSIVE


def check_tolerance(tolerance: float | None) -> float | None:
    """None or a positive number."""
    if tolerance is None or (isinstance(tolerance, (int, float)) and 0 < tolerance < np.inf):
        return None if tolerance is None else float(tolerance)
    raise UsageError(f"tolerance: {tolerance!r} is not allowed; give None or a positive number.")


def _draws(resamples: int) -> int:
    if isinstance(resamples, bool) or not isinstance(resamples, int) or resamples < 100:
        raise UsageError(f"resamples: {resamples!r} is not allowed; give a whole number from 100 up.")
    return resamples
