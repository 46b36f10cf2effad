"""`predictive_parity`: does a score mean the same thing for every group?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from numbers import Integral, Real
from typing import Any, TypeVar

import numpy as np

from isonomy.calibration import compare, wording
from isonomy.calibration.plan import Marks, Plan
from isonomy.calibration.result import ParityFamily, ParityResult
from isonomy.calibration.smoothing import KERNELS, Bandwidth, own_bandwidth, own_grid
from isonomy.calibration.tally import Family, Roles, tally
from isonomy.errors import UsageError, choose, fraction, refuse_percent
from isonomy.frames import Group, open_source
from isonomy.inference import multiplicity
from isonomy.numerics import tails
from isonomy.numerics.arrays import FloatArray
from isonomy.numerics.randomness import resolve
from isonomy.results import Verdict, provenance

F = TypeVar("F", bound=Any)  # a family of groups, of this test or of `marginal_outcomes`


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
    grid: FloatArray | None
    bandwidth: object

    @property
    def bands(self) -> dict[str, Any]:
        """What `compare.band` wants to know."""
        return {"adjust": self.adjust, "alpha": self.alpha, "tolerance": self.tolerance, "draws": self.draws}


def predictive_parity(
    data: Any,
    *,
    outcome: str,
    score: str,
    groups: Any,
    user: str | None = None,
    level: str | None = None,
    grid: Sequence[float] | FloatArray | None = None,
    bandwidth: float | Sequence[float] | FloatArray | None = None,
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
        Any table isonomy reads. DuckDB, Spark, Ibis and polars queries of more than 16 million rows are summed where
        they are.
    outcome
        Column of outcomes: 0/1, or any number.
    score
        Column of scores, in any unit: the bandwidth rule is scaled to where the scores lie, stray ones aside.
    groups
        Columns, `isonomy.cut` or `isonomy.where`; ``depth`` as elsewhere. A `where` is compared with everybody else.
    user
        Column that says whom a row belongs to. None: rows are independent.
    level
        ``"user"``: each user has one vote, split evenly over all of its rows. ``"aggregate"``: each row has one vote
        (users, if given, still decide the variance). Default: "user" if ``user`` is given.
    grid
        Scores at which groups are compared, increasing. Default: the 1, 5, 10, ..., 95, 99 % quantiles.
    bandwidth
        Width of the kernel: a number, or one a grid point. Default: the paper's rule,
        max(1.06 sqrt(s (1 - s)) n^(-1/5), n^(-1/5)/10), n being the users (or rows) of the average group, with [0, 1]
        scaled to where the scores lie.
    method
        ``"residual"``: smooth each group's residuals from the pooled curve of the compared groups. ``"orthogonal"``:
        smooth (1_g - share(S)) (Y - pooled(S)). ``"nadaraya-watson"``: the paper's, which rejects too often when groups
        have different scores. ``"cumulative"``: cumulative differences in score order; no bandwidth in the comparison.
    kernel
        ``"gaussian"``, or of higher order: ``"gaussian4"``, ``"gaussian6"``.
    reference
        The group each other group is compared with, such as ``{"race": "White"}``. Default: every pair.
    adjust
        Over grid points: ``"sup-t"``, ``"bonferroni"`` (as in the paper), ``"holm"`` or ``"none"``. All
        pairs of all columns are adjusted by Holm's method.
    tolerance
        Differences up to this size are part of the null. The verdict is "within tolerance" if the whole band lies
        inside it. Not for the cumulative test.
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
    A difference is estimated from residuals and has less bias than the difference of the two curves shown beside it.

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
    given = {name: value for name, value in locals().items() if name not in ("data", "rng")}
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
    if tolerance is not None and method == "cumulative":
        raise UsageError('tolerance: the cumulative test has none; choose another method, such as "residual".')
    generator, seed = resolve(rng)
    table = tally(source, roles)
    refuse_percent(table.families[0].binary, options.tolerance)
    single = [
        _family(family, options, child)
        for family, child in zip(table.families, generator.spawn(len(table.families)), strict=True)
    ]
    order = multiplicity.adjust([family.order.pvalue for family in single], "holm")
    families = settled(
        [replace(f, order=replace(f.order, pvalue=float(p))) for f, p in zip(single, order, strict=True)],
        "holm",
        options.alpha,
        options.tolerance,
        whole=multiplicity.adjust([family.pvalue for family in single], "holm"),
        strict=options.grid is not None,  # every score that was asked for has to be within the tolerance
    )
    return ParityResult(
        null=wording.parity_null(roles.level, options.tolerance),
        verdict=overall_verdict([family.verdict for family in families]),
        warnings=wording.parity_warnings(families, table.families[0].axis.unit, method),
        provenance=provenance(
            "predictive_parity",
            given | {"level": roles.level},
            source=source,
            seed=seed,
            rows=table.rows,
            dropped=table.dropped,
        ),
        families=families,
        pvalue=multiplicity.smallest([family.pvalue for family in families]),
        alpha=options.alpha,
        tolerance=options.tolerance,
        test=method,
        level=roles.level,
        clustered=user is not None,
    )


def _family(family: Family, options: Options, rng: np.random.Generator) -> ParityFamily:
    """All comparisons among the groups of one family; p-values as if there were no other, verdicts to come."""
    weight, total = family.rows.histogram()
    grid = options.grid if options.grid is not None else compare.default_grid(family, weight.sum(axis=0))
    own = own_bandwidth(options.bandwidth, grid)
    plain = options.method == "nadaraya-watson"
    bandwidth = Bandwidth(family.axis.published if plain else family.axis, family.average, own, grid)
    marks = None if plain else Marks(compare.pooled(family, bandwidth, weight, total))
    plan = Plan(grid, bandwidth.at(grid), 0 if plain else 1, options.kernel, marks)
    found = compare.smooth(family, plan)
    pairs = reference_pairs(family.groups, options.reference)
    draws, order_draws, joint_draws = rng.spawn(3)
    bands = [
        _pair(family, options, plan, found, bandwidth, (weight, total), pair, child)
        for pair, child in zip(pairs, draws.spawn(len(pairs)), strict=True)
    ]
    overall = np.array([b.overall for b in bands])
    joint = len(family.groups) > 2 and options.reference is None and options.adjust == "sup-t"
    if joint and options.tolerance is None and options.method in ("residual", "nadaraya-watson"):
        pvalue = compare.joint_pvalue(found, options.draws, joint_draws)
    else:
        pvalue = multiplicity.smallest(multiplicity.adjust(overall, "holm"))
    se = np.sqrt(np.einsum("ggjj->gj", found.covariance))
    half = float(tails.normal_isf(options.alpha)) * se
    shown = np.where(found.supported, found.curve, np.nan)
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
        pair_statistic=np.array([b.statistic for b in bands]),
        pair_pvalue=overall,
        pair_adjusted=overall,
        pair_verdicts=(Verdict.INCONCLUSIVE,) * len(pairs),
        pvalue=pvalue,
        order=compare.ordering(found, grid, options.draws, order_draws),
        verdict=Verdict.INCONCLUSIVE,
    )


def settled(
    families: Sequence[F],
    adjust: str,
    alpha: float,
    tolerance: float | None,
    *,
    whole: FloatArray | None = None,
    strict: bool = True,
) -> tuple[F, ...]:
    """P-values adjusted over all pairs of all families, and the verdicts that follow from them.

    ``whole``: the families' own p-values, adjusted for one another; a pair then differs only where its family was shown
    to. Without them a family's is the smallest of its pairs'.
    """
    pairs = multiplicity.adjust(np.concatenate([family.pair_pvalue for family in families]), adjust)
    ends = np.cumsum([family.pair_pvalue.size for family in families])[:-1]
    made = []
    for k, (family, own) in enumerate(zip(families, np.split(pairs, ends), strict=True)):
        pvalue = multiplicity.smallest(own) if whole is None else float(whole[k])
        adjusted = own if whole is None else np.where(np.isnan(own), np.nan, np.fmax(own, pvalue))
        verdicts = [
            verdict_of(p, low, high, alpha, tolerance, strict=strict)
            for p, low, high in zip(adjusted, family.low, family.high, strict=True)
        ]
        overall = Verdict.VIOLATION if pvalue <= alpha else overall_verdict(verdicts)
        found = {"pair_adjusted": adjusted, "pair_verdicts": tuple(verdicts), "pvalue": pvalue, "verdict": overall}
        made.append(replace(family, **found))
    return tuple(made)


def _pair(
    family: Family,
    options: Options,
    plan: Plan,
    found: compare.Smoothed,
    bandwidth: Bandwidth,
    histogram: tuple[FloatArray, FloatArray],
    pair: tuple[int, int],
    rng: np.random.Generator,
) -> compare.Band:
    """Compare two groups, pooled with each other only: a third group would bias the pooled curve."""
    two = list(pair)
    weight, total = (values[two] for values in histogram)
    if plan.marks is None:
        return compare.pair_band(found, *pair, rng=rng, **options.bands)
    alone = len(family.groups) == 2 and pair == (0, 1)
    own = family if alone else _two(family, two, family.rows.pair(*pair))
    outcome = plan.marks.outcome if alone else compare.pooled(own, bandwidth, weight, total)
    share = compare.share(own, bandwidth, weight)
    orthogonal = options.method == "orthogonal"
    smoothed = found
    if orthogonal or not alone:
        marks = Marks(outcome, share if orthogonal else None)
        smoothed = compare.smooth(own, Plan(plan.points, plan.width, 0, plan.kernel, marks, curves=False))
    per_unit = 1.0 if orthogonal else compare.attenuation(own, plan, share, weight)
    band = compare.pair_band(smoothed, 0, 1, per_unit, rng=rng, **options.bands)
    if options.method != "cumulative":
        return band
    statistic, pvalue = compare.cumulative(own, Marks(outcome, share), weight, options.draws, rng)
    return replace(band, overall=pvalue, statistic=statistic)


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


def reference_pairs(groups: tuple[Group, ...], reference: Mapping[str, object] | None) -> list[tuple[int, int]]:
    """Every pair (the later group against the earlier one), or each group against the reference."""
    if reference is None:
        return list(combinations(range(len(groups)), 2))
    if not isinstance(reference, Mapping):
        raise UsageError(f'reference: {reference!r}; name a group by its columns, such as {{"race": "White"}}.')
    wanted = {str(k): v for k, v in reference.items()}
    bases = [i for i, group in enumerate(groups) if dict(group.mapping) == wanted]
    if not bases:
        raise UsageError(
            f"reference: no group {reference!r}; groups: {', '.join(group.label for group in groups[:20])}."
        )
    return [(i, bases[0]) for i in range(len(groups)) if i != bases[0]]


def verdict_of(
    pvalue: float, low: Any, high: Any, alpha: float, tolerance: float | None, *, strict: bool = True
) -> Verdict:
    """Violation if significant; within tolerance if the whole (simultaneous) interval is; else inconclusive.

    ``strict``: an interval that could not be had (an unsupported score) is not within anything.
    """
    if pvalue <= alpha:
        return Verdict.VIOLATION
    ends = np.abs(np.concatenate([np.atleast_1d(low), np.atleast_1d(high)]))
    shown = ends[np.isfinite(ends)]
    enough = shown.size == ends.size if strict else shown.size > 0
    within = tolerance is not None and enough and float(shown.max()) <= tolerance
    return Verdict.WITHIN_TOLERANCE if within else Verdict.INCONCLUSIVE


def overall_verdict(verdicts: list[Verdict]) -> Verdict:
    """A violation anywhere is one; within tolerance only if everything is."""
    if Verdict.VIOLATION in verdicts:
        return Verdict.VIOLATION
    every = all(verdict is Verdict.WITHIN_TOLERANCE for verdict in verdicts)
    return Verdict.WITHIN_TOLERANCE if every else Verdict.INCONCLUSIVE


def check_tolerance(tolerance: float | None) -> float | None:
    """None or a positive number."""
    if tolerance is None:
        return None
    if isinstance(tolerance, Real) and not isinstance(tolerance, bool) and 0 < float(tolerance) < np.inf:
        return float(tolerance)
    raise UsageError(f"tolerance: {tolerance!r} is not allowed; give None or a positive number.")


def _draws(resamples: int) -> int:
    if isinstance(resamples, bool) or not isinstance(resamples, Integral) or int(resamples) < 100:
        raise UsageError(f"resamples: {resamples!r} is not allowed; give a whole number from 100 up.")
    return int(resamples)
