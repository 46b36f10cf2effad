"""Predictive parity: does a score mean the same thing for every group, when users appear many times?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Unpack, get_args

import numpy as np

from isonomy.errors import UsageError, refuse_percent
from isonomy.frames import Groups, Request
from isonomy.inference import Verdict, overall
from isonomy.inference.multiplicity import smallest
from isonomy.numerics import tails
from isonomy.numerics.arrays import BoolArray, FloatArray
from isonomy.options import Alpha, Column, RowOptions, Seeded, Tolerance, Whole, members
from isonomy.results import Columns, Note, column, open_call, question
from isonomy.results.columns import join_tables
from isonomy.scores import words
from isonomy.scores.options import Comparison, CurvesOption, moved
from isonomy.scores.pairs import (
    MOST_PAIRS,
    OrderedEvidence,
    OrderedPlan,
    OutcomeEvidence,
    PairEvidence,
    Reversal,
    conclude_parity,
    line_status,
    pair_lines,
)
from isonomy.scores.read import ScorePlan, ScoreSums, read_sums
from isonomy.scores.smoothing import comparisons
from isonomy.scores.smoothing.kernels import Bandwidth, Smoother
from isonomy.scores.smoothing.moments import Pair, VoteMoments

if TYPE_CHECKING:
    import altair as alt

FEWEST = 2.0  # effective users at a score; the paper's method has no rule
MANY = 0.2  # of the comparisons at a score: fewer that were not made hardly matter


# ---- call


@question(
    "ParityPlan",
    moved={
        **moved("level", "grid", "bandwidth", "kernel", "order", "resamples"),
        "order_tolerance": "method=iso.curves(order={})",
    },
    asks="Does a score mean the same thing for every group?",
    topic="Meaning of the score",
    badges={"violation": "Different meaning shown"},
    verdicts={"violation": "the same score means different things in different groups."},
    next_steps=words.MEANING_STEPS,
    meaning="The expected outcome at a score is the average outcome of people with that score.",
)
def predictive_parity(
    data: object = None,
    *,
    outcome: Column,
    score: Column,
    groups: Groups,
    user: Column | None = None,
    method: Comparison | CurvesOption = "omnibus",
    reference: Mapping[str, object] | None = None,
    adjust: comparisons.Adjustment | None = None,
    tolerance: Tolerance = None,
    alpha: Alpha = 0.05,
    depth: Whole = 1,
    rng: Seeded = None,
    **rows: Unpack[RowOptions],
) -> ParityResult:
    """Does a score mean the same thing for every group, when users may appear many times?

    Null hypothesis: E[Y | S = s, G = g] is the same for all groups at every score (Definition 1 of the paper), and the
    scores are in order (Definition 2): no group has better outcomes at lower scores than another at higher ones. The
    verdict covers both parts. Users are assumed to be independent; the rows of one user may be dependent, and a user
    may appear in several groups.

    Parameters
    ----------
    data : table
        Any table isonomy reads. More than 16 million rows are read in parts.
    outcome, score : str
        Columns of outcomes (0/1, or any number) and of scores, in any unit.
    groups : str, cut, where, or several of them
        Columns, `isonomy.cut` or `isonomy.where`. A `where` is compared with everybody else.
    user : str, optional
        Column that identifies the user of each row. Default: rows are independent.
    method : {"omnibus", "orthogonal", "cumulative", "trend", "residual", "published"} or curves, default "omnibus"
        The test; `isonomy.curves` has its level (users or rows), grid, bandwidth, kernel, order and draws.
        ``"orthogonal"``: near each score, Y - pooled(S) is regressed on 1_g - share(S); the test uses the largest
        difference over the grid. ``"cumulative"``: sums of (1_g - share(S)) (Y - pooled(S)) in score order.
        ``"trend"``: the level and the slope of these sums. ``"omnibus"``: the smallest p-value of these three, by their
        joint law. ``"residual"``: each group's mean residual from the pooled curve; it rejects too often if the scores
        of one group lie between those of another. ``"published"``: the paper's procedure, with Nadaraya-Watson means
        and Bonferroni's adjustment; it rejects too often if groups have different scores, and does not test the order.
    reference : mapping, optional
        The group with which every other group is compared, such as ``{"race": "White"}``. Default: every pair.
    adjust : {"sup-t", "bonferroni", "holm", "none"}, optional
        How p-values and bands are adjusted for the number of grid points. Default: ``"sup-t"``, or ``"bonferroni"``
        with ``method="published"``, which allows no other. All pairs in all tables are adjusted by Holm's method.
    tolerance : float, optional
        Differences up to this size are part of the null hypothesis. The verdict is "within tolerance" if two one-sided
        tests at alpha show this at every supported score (at every score of a given grid) and for the order.
    alpha : float, default 0.05
        The error rate.
    depth : int, default 1
        How many columns of ``groups`` are crossed: 2 compares their pairwise intersections too.
    rng : int or numpy.random.Generator, optional
        The seed or generator of the draws. Default: a fresh seed, which is recorded.
    **rows
        count, weight, cluster, missing, missing_group: see `isonomy.RowOptions`. At user level, a user's vote is the
        mean weight of the user's rows. ``cluster`` is for rows that belong together if there is no user.

    Returns
    -------
    ParityResult
        ``to_frame()`` has one row for each pair of groups and each score. `pvalue` and `verdict` are about both parts
        of the null hypothesis, `parity_pvalue` and `ordering_pvalue` about one part each (NaN if it was not tested).

    Notes
    -----
    When it misleads: a point near which few users have scores is unsupported and is not tested. (Ten effective events
    and ten non-events are needed in either group, among users within a bandwidth whose scores occur in both groups.) A
    difference over a range narrower than the bandwidth is smoothed away.

    Outcomes that are not 0/1 may be too skewed for the number of users: a difference is then estimated but not tested
    (status "skewed"), and if nothing can be tested, the verdict is inconclusive. Groups of unequal size need about 300
    times the squared skewness in effective users of the smaller group; where groups have equal sizes, skewness cancels.

    Differences have nine tenths of ``alpha`` and the order has one tenth; p-values are divided by these shares, so that
    all are compared with ``alpha``. Without the order, differences have all of ``alpha``.

    ``disparity`` is an average over a bandwidth. It has less bias than ``estimate - reference``, and is not equal to
    it. Its band is centered on a local parabola, so that it covers a difference that bends (Calonico, Cattaneo and
    Farrell 2018). Scores are replaced by the mean of their bin, of 1,024 bins on the axis, which changes a number by
    about (bin / bandwidth)^2 / 24 of itself.

    References
    ----------
    C. DiCiccio, B. Hsu, Y. Yu, P. Nandy, K. Basu, "Detection and Mitigation of Algorithmic Bias via Predictive Rate
    Parity", sections 2, 3 and 7, Theorem 1.

    Examples
    --------
    >>> import numpy as np
    >>> from isonomy.scores import predictive_parity
    >>> rng = np.random.default_rng(0)
    >>> s = rng.beta(2, 2, 4000)
    >>> g = np.repeat(["a", "b"], 2000)
    >>> y = rng.random(4000) < np.where(g == "a", s, 0.7 * s)
    >>> result = predictive_parity({"y": y, "s": s, "g": g}, outcome="y", score="s", groups="g", rng=1)
    >>> result.verdict.value
    'violation'
    """
    plan, rng, record = open_call("predictive_parity", ParityPlan, locals())
    sums = read(plan)
    columns, orders = estimate(sums, plan, rng)
    binary = sums.tables[0].binary
    return ParityResult(
        **columns,
        **decide(columns, orders, plan),
        null=words.parity_null(plan.rows.level, plan.tolerance, plan.range, order=plan.order_tested, binary=binary),
        notes=notes(sums, columns, plan),
        provenance=record(rows=sums.rows, dropped=sums.dropped, **plan.chosen, **plan.rows.provenance),
        alpha=plan.alpha,
        tolerance=plan.tolerance,
        binary=binary,
    )


# ---- plan


@dataclass(frozen=True, eq=False, kw_only=True)
class ParityPlan(OrderedPlan):
    uses: ClassVar[tuple[str, ...]] = ("grid", "bandwidth", "kernel", "order", "resamples")
    kinds: ClassVar[tuple[str, ...]] = get_args(members(Comparison)[0])

    adjust: comparisons.Adjustment | None

    def __post_init__(self) -> None:
        ScorePlan.__post_init__(self)
        order, ordered = self.curves.order, bool(self.curves.order)
        if self.single and (ordered or self.kind in ("cumulative", "trend")):
            needs = f"order={order!r}" if ordered else f"method={self.kind!r}"
            raise UsageError(
                f"grid: {self.curves.grid!r} is a single score, and {needs} needs a range of scores; give two or more."
            )
        refused = {"order": ordered and order, "adjust": self.adjust not in (None, "bonferroni") and self.adjust}
        for name, value in refused.items():
            if self.published and value:
                raise UsageError(
                    f"{name}: {value!r} is not part of the paper's procedure; leave {name} at None with "
                    'method="published", or choose another method.'
                )

    @property
    def requests(self) -> tuple[Request, ...]:
        return self.rows.requests

    @property
    def single(self) -> bool:
        return self.points is not None and self.points.size == 1

    @property
    def range(self) -> tuple[float, float] | None:
        """The lowest and the highest score that are compared; None: all scores."""
        return None if self.points is None else (float(self.points[0]), float(self.points[-1]))

    @property
    def published(self) -> bool:
        return self.kind == "published"

    @property
    def order_tested(self) -> bool:
        return not (self.published or self.single) if self.curves.order is None else bool(self.curves.order)

    def within(self, table: VoteMoments) -> BoolArray | None:
        """The sites to which a grid limits the test, up to rounding; None: all."""
        if self.range is None:
            return None
        site, rounding = table.site, 1e-9 * table.axis.length
        return np.asarray((site >= self.range[0] - rounding) & (site <= self.range[1] + rounding))


# ---- read


def read(plan: ParityPlan) -> ScoreSums:
    sums = read_sums(plan.rows)
    refuse_percent(sums.tables[0].binary, plan.tolerance)
    return sums


# ---- estimate


def estimate(sums: ScoreSums, plan: ParityPlan, rng: np.random.Generator) -> tuple[dict[str, Any], list[Reversal]]:
    """The columns of all tables, and the test of each table's order; p-values are not adjusted for other tables."""
    tables, orders = [], []
    for table, child in zip(sums.tables, rng.spawn(len(sums.tables)), strict=True):
        curve_draws, order_draws = child.spawn(2)
        tables.append(compare(table, plan, curve_draws))
        if plan.order_tested:
            means_by_interval = comparisons.interval_means(table, plan.within(table))
            labels = [group.label for group in table.groups]
            options = (plan.order_tolerance, plan.alpha, plan.draws, order_draws)
            orders.append(Reversal(table=table.title, **comparisons.ordering(means_by_interval, labels, *options)))
    return join_tables(tables), orders


def compare(table: VoteMoments, plan: ParityPlan, rng: np.random.Generator) -> dict[str, Any]:
    """The columns of one table: the curves of both groups, and their difference with its band, at each score.

    Curves have pointwise intervals; differences have bands that hold at all supported points together.
    """
    published = plan.published
    grid = table.default_grid if plan.points is None else plan.points
    bandwidth = table.bandwidth(plan.curves.bandwidth, grid, published=published)
    smoother = Smoother(grid, bandwidth.widths(grid), 0 if published else 1, plan.curves.kernel)
    fit = comparisons.fit_curves(table, smoother)
    # An interval around a local line misses curves that bend; one around a local parabola does not.
    robust = fit if published else comparisons.fit_curves(table, replace(smoother, degree=2))
    known = _averaged(fit) if published else comparisons.enough(fit.effective, fit.mean, binary=table.binary)
    pairs = table.pairs(plan.reference)
    bands = [
        band(table, plan, bandwidth, smoother, fit, pair, child)
        for pair, child in zip(pairs, rng.spawn(len(pairs)), strict=True)
    ]
    half = float(tails.normal_isf(plan.alpha)) * robust.errors
    curves = {"": fit.beta[0], "_low": robust.beta[0] - half, "_high": robust.beta[0] + half}
    limits = (0.0, 1.0) if table.binary else (-np.inf, np.inf)
    sides = {f"estimate{end}": np.where(known, np.clip(values, *limits), np.nan) for end, values in curves.items()}
    return {
        **pair_lines(table, pairs, grid.size, {"effective_n": fit.effective, **sides}),
        **{name: np.concatenate([part[name] for part in bands]) for name in bands[0]},
        "score": np.tile(grid, len(pairs)),
        "bandwidth": np.tile(smoother.width, len(pairs)),
    }


def _averaged(fit: comparisons.GroupCurves) -> BoolArray:
    """Where the paper's average is compared: the group has enough people, and some of them are near the score."""
    return np.asarray((fit.users >= FEWEST) & (fit.effective >= 1.0))


def band(
    table: VoteMoments,
    plan: ParityPlan,
    bandwidth: Bandwidth,
    smoother: Smoother,
    fit: comparisons.GroupCurves,
    pair: Pair,
    rng: np.random.Generator,
) -> dict[str, Any]:
    residual, average = plan.kind == "residual", replace(smoother, degree=0)
    pooled = robust = path = None
    usable = np.asarray(_averaged(fit)[list(pair)].all(axis=0))
    if not plan.published:
        pooled = comparisons.pool(table, pair, bandwidth, comparisons.RESIDUAL if residual else comparisons.POOLED)
        usable = comparisons.supported(table, pair, pooled, smoother, fit)
    if pooled is None or residual:
        contrast = comparisons.means(table, pair, pooled, average, fit.users[list(pair)])
    else:
        contrast = comparisons.orthogonal(table, pair, pooled, average)
        robust = comparisons.orthogonal(table, pair, pooled, replace(smoother, degree=2))
        if plan.kind != "orthogonal":
            path = comparisons.walk(table, pair, pooled, plan.within(table), plan.alpha)
    adjust = plan.adjust or ("bonferroni" if plan.published else "sup-t")
    judgment = comparisons.Judgment(plan.kind, adjust, plan.alpha, plan.tolerance, plan.draws)
    return judgment.band(table, pair, contrast, robust, usable, path, rng)


# ---- decide


def decide(columns: Mapping[str, Any], orders: Sequence[Reversal], plan: ParityPlan) -> dict[str, Any]:
    # Every score of a given grid has to be within the tolerance; of the default grid only those that are known.
    adjusted, verdicts = conclude_parity(columns, orders, plan, complete=plan.points is not None)
    status = line_status(columns["disparity"], columns["se"])
    return {"status": status, "pair_adjusted_pvalue": adjusted, **verdicts}


def notes(sums: ScoreSums, columns: Mapping[str, Any], plan: ParityPlan) -> tuple[Note, ...]:
    known = [] if sums.tables[0].axis.unit else [Note("outside_unit")]
    if plan.published:
        known.append(Note("published_parity"))
    tables, lost = np.array(columns["tables"], dtype=object), np.isnan(columns["disparity"])
    for table in sums.tables:
        lines, values = tables == table.title, {"table": table.title}
        scores = np.unique(columns["score"][lines])
        occupied = table.site[table.weight.sum(axis=0) > 0]
        outside = int(((scores < occupied[0]) | (scores > occupied[-1])).sum())
        if plan.points is not None and outside:
            known.append(Note("grid_outside", values=values | {"outside": outside, "points": scores.size}))
        if scores.size == 1:
            known.append(Note("single_score" if plan.points is None else "single_point", values=values))
        if table.spanning:
            known.append(Note("spanning", values=values))
        if lost[lines].sum() >= MANY * lines.sum():
            code = "scores_without_users" if plan.published else "scores_not_compared"
            known.append(Note(code, values=values | {"lost": int(lost[lines].sum()), "comparisons": int(lines.sum())}))
        skewed = int((lines & ~lost & np.isnan(columns["se"])).sum())
        if skewed:
            known.append(Note("skewed_scores", values=values | {"skewed": skewed, "comparisons": int(lines.sum())}))
    return tuple(known)


# ---- evidence


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ParityResult(OrderedEvidence, OutcomeEvidence):
    """Whether a score means the same thing for every group; see `isonomy.predictive_parity`.

    One line for each pair of groups and each score. ``pair_pvalue``, ``pair_adjusted_pvalue`` and ``verdicts`` are
    those of the pair, over all scores. ``orders`` has the test of the order in each table, if it was tested.
    """

    method: ClassVar[str] = words.PARITY_METHOD

    score: FloatArray = column("Score", withheld=False)
    pair_pvalue: FloatArray = column("Pair: p‑value")
    pair_adjusted_pvalue: FloatArray = column("Pair: adjusted p‑value")
    pointwise_low: FloatArray = column(listed=False)  # the interval of two one-sided tests at alpha
    pointwise_high: FloatArray = column(listed=False)
    tolerance: float | None
    orders: tuple[Reversal, ...]

    @property
    def pvalue(self) -> float:
        """The p-value of both parts: the smallest adjusted one of all pairs and all orders."""
        return smallest([self.parity_pvalue, self.ordering_pvalue])

    @property
    def parity_pvalue(self) -> float:
        """P-value of equal outcomes alone (Definition 1): the smallest adjusted one of all pairs."""
        return smallest(self.pair_adjusted_pvalue)

    def assumptions(self) -> tuple[tuple[str, str], ...]:
        """What is assumed, and how it was checked or why it cannot be."""
        normal = words.PUBLISHED_NORMAL if self.published_method else words.NORMAL
        return (*PairEvidence.assumptions(self), normal, words.SMOOTH)

    def limits(self) -> tuple[str, ...]:
        """What this result does not show."""
        return words.parity_limits(published=self.published_method)

    def pages(self) -> Mapping[str, Columns]:
        """The pairs, then the differences at each score."""
        pairs, scores = self.paged(words.PARITY_PAGES).items()
        starts = sorted(self.starts(), key=lambda i: np.nan_to_num(self.pair_adjusted_pvalue[i], nan=2.0))
        return dict([(pairs[0], {name: [values[i] for i in starts] for name, values in pairs[1].items()}), scores])

    def key_line(self) -> int | None:
        """The difference that the findings report for the pair with the smallest p-value."""
        return min(self._clearest(), key=lambda i: float(self.pair_adjusted_pvalue[i]), default=None)

    def findings(self) -> tuple[str, ...]:
        """Each table's test, its largest differences, and its order; what decides the verdict comes first."""
        findings = []
        for table in self.deciding_first():
            tests = self.order_of(table)
            order = words.order(tests[0], binary=self.binary) if tests else words.ORDER_NOT_TESTED
            findings += [*self._compared(table, ordered=bool(tests)), order]
        return tuple(findings)

    def judged(self, table: str) -> tuple[Verdict, float]:
        """The verdict on a table and its p-value, of the pairs and of the order."""
        lines, tests = self.lines_of(table), self.order_of(table)
        pvalue = smallest([*self.pair_adjusted_pvalue[lines], *(test.pvalue for test in tests)])
        return overall([*(self.verdicts[i] for i in lines), *(test.verdict for test in tests)]), pvalue

    def _compared(self, table: str, *, ordered: bool) -> list[str]:
        """The test of one table and its pairs: those with the table's verdict first, by their p-values."""
        lines, verdict = self.lines_of(table), self.judged(table)[0]
        if np.isnan(self.pair_adjusted_pvalue[lines]).all():
            return [words.scores_not_compared(table, ordered=ordered)]
        known = lines[np.isfinite(self.se[lines])]
        overview = words.parity_table(self, lines, known)
        if not known.size:
            return [overview, words.NOWHERE]
        clearest = [i for i in self._clearest() if self.tables[i] == table]
        clearest.sort(key=lambda i: (self.verdicts[i] is not verdict, self.pair_adjusted_pvalue[i]))
        return [overview, *(words.parity_pair(self, i) for i in clearest[:MOST_PAIRS])]

    def _clearest(self) -> list[int]:
        """The largest difference of each pair tested: of those shown at a single score, if any, else of all."""
        known = np.isfinite(self.se) & ~np.isnan(self.pair_adjusted_pvalue)
        shown, clearest = known & (self.adjusted_pvalue <= self.alpha), []
        for pair in np.split(np.arange(known.size), self.starts()[1:]):
            lines = pair[shown[pair]] if shown[pair].any() else pair[known[pair]]
            clearest += [int(lines[np.argmax(np.abs(self.disparity[lines]))])] if lines.size else []
        return clearest

    def plot(self) -> alt.TopLevelMixin:
        """Curves with intervals, and differences with their bands and the null."""
        from isonomy.scores import charts

        return charts.parity(self)
