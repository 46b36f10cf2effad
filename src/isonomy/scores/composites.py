"""Composite parity: does every weighted sum of several scores mean the same thing for every group?

Also whether each score is calibrated given all of them (the condition of Lemma 1), and which weights would predict the
weighted outcome better.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, Any, ClassVar, Unpack

import numpy as np
from scipy import special

from isonomy.errors import UsageError
from isonomy.frames import Groups
from isonomy.inference import Verdict, conclude
from isonomy.inference.effect import too_skewed
from isonomy.inference.multiplicity import normal_draws, smallest
from isonomy.numerics import resampling, tails
from isonomy.numerics.arrays import FloatArray, IntArray
from isonomy.options import Alpha, Column, Names, RowOptions, Seeded, Tolerance, Whole
from isonomy.results import Columns, column, open_call, question, storable
from isonomy.results.columns import join_tables
from isonomy.scores import words
from isonomy.scores.options import CurvesOption, moved
from isonomy.scores.pairs import (
    MOST_PAIRS,
    OrderedEvidence,
    OrderedPlan,
    PairEvidence,
    Reversal,
    conclude_parity,
    line_status,
    pair_lines,
)
from isonomy.scores.read import RowVotes, ScorePlan, ScoreRows, read_votes, table_groups
from isonomy.scores.smoothing import comparisons
from isonomy.scores.smoothing.kernels import BINS, Smoother
from isonomy.scores.smoothing.moments import Pair, VoteMoments

if TYPE_CHECKING:
    import altair as alt

STEPS = {2: 10, 3: 5, 4: 3}  # of the lattice of weights, by the number of scores
MOST_SCORES = max(STEPS)
MOST_ROWS = 2**20
LINES = 2**11  # users at a time
USERS = 30  # effective users for each number in the test of joint calibration
CASES = 4  # effective events, and non-events, of a 0/1 outcome for each of these numbers


# ---- call


@question(
    "CompositePlan",
    moved=moved("level", "order", "resamples"),
    asks="Does every weighted sum of these scores mean the same thing for every group?",
    topic="Meaning of weighted scores",
    badges={"violation": "Different meaning shown"},
    verdicts={"violation": "a weighted sum of the scores means different things in different groups."},
    next_steps=words.MEANING_STEPS,
)
def composite_parity(
    data: object,
    *,
    outcomes: Names,
    scores: Names,
    groups: Groups,
    user: Column | None = None,
    weights: Sequence[float] | None = None,
    reference: Mapping[str, object] | None = None,
    tolerance: Tolerance = None,
    method: CurvesOption = CurvesOption(),  # noqa: B008
    alpha: Alpha = 0.05,
    depth: Whole = 1,
    rng: Seeded = None,
    **rows: Unpack[RowOptions],
) -> CompositeResult:
    """Does every weighted sum of several scores mean the same thing for every group?

    Null hypothesis: for all nonnegative weights w, E[sum w_k Y^k | sum w_k S^k = s, G = g] is the same for all groups
    (section 5 of the paper), and composite scores are in order. The weights on a lattice of the simplex are tested
    together, by their joint law. Users are assumed to be independent.

    Parameters
    ----------
    data : table
        Any table isonomy reads, of up to a million rows.
    outcomes, scores : sequence of str
        Columns: two to four scores, and an outcome for each, in the same order.
    weights : sequence of float, optional
        The weights in production, one for each score: only this weighted sum is tested, and weights that would predict
        the weighted outcome better are estimated. Default: all weights of at least 0 that sum to 1, on a lattice.
    groups, user, reference, tolerance, method, alpha, depth, rng
        As in `predictive_parity`; of `isonomy.curves`, ``method`` takes level, order and resamples. A tolerance is in
        the unit of the weighted outcome; the order is tested for all weights, adjusted by Bonferroni's method.
    **rows
        count, weight, cluster, missing, missing_group: see `isonomy.RowOptions` and `predictive_parity`.

    Returns
    -------
    CompositeResult
        ``to_frame()`` has one row for each pair of groups and each choice of weights: the clearest ``disparity`` over
        all scores, ``pvalue`` (with these weights alone), ``adjusted_pvalue`` and ``verdict`` (of the pair, over all
        weights). `worst_weights` has the weights under which each pair differs most clearly. ``joint`` has the test of
        Lemma 1's condition for each score; `better_weights` has the best weights in the sense of squared error.

    Notes
    -----
    Lemma 1: if E[Y^k | S^1..S^K] = S^k for every k, every composite score is calibrated. Each score is tested by
    Hotelling's law of the sums, by user, of Y^k - S^k times 1, the scores, their squares and their products. If the
    condition fails, weights other than w may predict sum w_k Y^k better: B w, where column k of B has the coefficients
    of the regression of Y^k on all scores without a constant. (The paper prints Y^k for S^k in the better composite.)

    A composite outcome that is not 0/1 may be too skewed to be tested (status "skewed"; see `predictive_parity`).

    When it misleads: with few users, or if groups differ only under weights between the points of the lattice (steps of
    0.1 for two scores, 0.2 for three).

    References
    ----------
    C. DiCiccio, B. Hsu, Y. Yu, P. Nandy, K. Basu, "Detection and Mitigation of Algorithmic Bias via Predictive Rate
    Parity", section 5, Theorem 2.

    Examples
    --------
    >>> import numpy as np
    >>> from isonomy.scores import composite_parity
    >>> rng = np.random.default_rng(0)
    >>> g, a, b = np.repeat(["x", "y"], 1500), rng.random(3000), rng.random(3000)
    >>> data = {"g": g, "a": a, "b": b, "u": rng.random(3000) < a, "v": rng.random(3000) < np.where(g == "x", b, b / 2)}
    >>> result = composite_parity(data, outcomes=["u", "v"], scores=["a", "b"], groups="g", rng=1)
    >>> result.verdict.value
    'violation'
    """
    plan, rng, record = open_call("composite_parity", CompositePlan, locals())
    tables, votes = read(plan)
    columns, orders = estimate(tables, plan, rng)
    return CompositeResult(
        **columns,
        **decide(columns, orders, plan),
        **jointly(votes, plan),
        null=words.composite_null(plan.tolerance, given=plan.weights is not None, order=plan.order_tested),
        notes=(),
        tolerance=plan.tolerance,
        provenance=record(rows=votes.rows, dropped=votes.dropped, **plan.rows.provenance),
        scores=plan.columns[1],
        alpha=plan.alpha,
        binary=False,
    )


# ---- plan


@dataclass(frozen=True, eq=False, kw_only=True)
class CompositePlan(OrderedPlan):
    outcomes: str | Sequence[str]
    scores: str | Sequence[str]
    weights: Sequence[float] | None

    def __post_init__(self) -> None:
        outcomes, scores = self.columns
        if len(outcomes) != len(scores) or not 2 <= len(scores) <= MOST_SCORES:
            raise UsageError(
                f"scores: {len(scores)} given, and {len(outcomes)} in outcomes; give 2 to {MOST_SCORES} scores, and an "
                "outcome for each, in the same order."
            )
        for outcome, score in zip(outcomes, scores, strict=True):
            self.source.require(outcomes=outcome, scores=score)
        ScorePlan.__post_init__(self)
        given = self.composites[0]
        if given.size != len(scores) or not np.all(np.isfinite(given)) or not given.any():
            raise UsageError(f"weights: {self.weights!r}; give a finite number for each of the {len(scores)} scores.")

    @cached_property
    def columns(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        outcomes, scores = (
            (names,) if isinstance(names, str) else tuple(names) for names in (self.outcomes, self.scores)
        )
        return outcomes, scores

    @cached_property
    def rows(self) -> ScoreRows:
        """The columns of the first outcome and score; the groups and users are those of all."""
        (outcome, *_), (score, *_) = self.columns
        return self.reading(outcome, score)

    @cached_property
    def composites(self) -> FloatArray:
        """The weights given, or weights of at least 0 that sum to 1, on a lattice: (weights, scores)."""
        if self.weights is not None:
            return np.asarray(self.weights, dtype=np.float64)[None]
        scores = len(self.columns[1])
        last = STEPS[scores] + scores - 1
        bars = combinations(range(last), scores - 1)
        return np.array([np.diff((-1, *bar, last)) - 1 for bar in bars], dtype=np.float64) / STEPS[scores]


# ---- read


def read(plan: CompositePlan) -> tuple[list[list[VoteMoments]], RowVotes]:
    parts = dict(zip(("outcomes", "scores"), plan.columns, strict=True))
    numeric = {f"{part}[{k}]": name for part in ("scores", "outcomes") for k, name in enumerate(parts[part])}
    votes = read_votes(plan.rows, numeric)
    if votes.vote.size > MOST_ROWS:
        raise UsageError(
            f"data: {votes.vote.size:,} rows; composite scores are compared on at most {MOST_ROWS:,}. Use a sample of "
            "users."
        )
    score, outcome = both_columns(votes, plan)
    lines = np.ones(votes.vote.size) if votes.lines is None else votes.lines
    tables = []
    for partition in votes.partitions:
        groups, codes = table_groups(partition)
        composites = []
        for weight in plan.composites:
            s, y = score @ weight, outcome @ weight
            binary = bool(np.all(y * (1 - y) == 0))
            table, rows = (partition.title, groups, binary, votes.axis(s)), (codes, s, y)
            moments = VoteMoments.from_rows(*table, *rows, votes.vote, votes.lines, votes.user)
            if votes.user is None:  # products of different composites need the rows; k equal rows add up to one line
                vote, line = votes.vote / np.sqrt(lines), np.arange(lines.size)
                moments = replace(moments, tables=VoteMoments.from_rows(*table, *rows, vote, user=line).tables)
            composites.append(moments)
        tables.append(composites)
    return tables, votes


def both_columns(votes: RowVotes, plan: CompositePlan) -> FloatArray:
    size = range(len(plan.columns[1]))
    return np.array([np.column_stack([votes.numbers[f"{part}[{k}]"] for k in size]) for part in ("scores", "outcomes")])


# ---- estimate


def estimate(
    tables: Sequence[Sequence[VoteMoments]], plan: CompositePlan, rng: np.random.Generator
) -> tuple[dict[str, Any], list[Reversal]]:
    parts, orders, many = [], [], len(plan.composites)
    for composites, child in zip(tables, rng.spawn(len(tables)), strict=True):
        pairs = composites[0].pairs(plan.reference)
        *pair_draws, order_draws = child.spawn(len(pairs) + 1)
        tests = [uniform(composites, pair, plan, draws) for pair, draws in zip(pairs, pair_draws, strict=True)]
        columns = {name: np.concatenate([test[name] for test in tests]) for name in tests[0]}
        weights = np.tile(plan.composites.T, len(pairs))
        parts.append({**pair_lines(composites[0], pairs, many), "weights": weights, **columns})
        if plan.order_tested:
            orders.append(worst_order(composites, plan, order_draws))
    return join_tables(parts), orders


def worst_order(composites: Sequence[VoteMoments], plan: CompositePlan, rng: np.random.Generator) -> Reversal:
    """The clearest reversal over all weights, adjusted for their number; the limit is that of all weights."""
    labels = [group.label for group in composites[0].groups]
    options = (labels, plan.order_tolerance, plan.alpha, plan.draws)
    tests = [
        comparisons.ordering(comparisons.interval_means(table), *options, draws)
        for table, draws in zip(composites, rng.spawn(len(composites)), strict=True)
    ]
    worst = min(tests, key=lambda test: np.nan_to_num(test["pvalue"], nan=2.0))
    return Reversal(
        table=composites[0].title,
        **worst
        | {
            "pvalue": min(1.0, len(tests) * worst["pvalue"]) if worst["pvalue"] == worst["pvalue"] else np.nan,
            "limit": float(np.max([test["limit"] for test in tests])),
        },
    )


def under_weights(table: VoteMoments, pair: Pair, plan: CompositePlan) -> dict[str, Any]:
    """Two groups under one composite score, by the orthogonal comparison and by the walk.

    The ``score``, ``difference`` and pointwise ends at each usable point, the statistic of the ``walk`` (None if it is
    not known), and the functionals (2 BINS, P) of either group: those of the points, then those of the walk.
    """
    grid = table.default_grid
    bandwidth = table.bandwidth(None, grid)
    smoother = Smoother(grid, bandwidth.widths(grid), 0)
    pooled = comparisons.pool(table, pair, bandwidth)
    near = comparisons.supported(table, pair, pooled, smoother, comparisons.fit_curves(table, smoother))
    contrast = comparisons.orthogonal(table, pair, pooled, smoother)
    path = comparisons.walk(table, pair, pooled, alpha=plan.alpha)
    covariance, effect = contrast.law(table, pair, near, plan.alpha)
    usable = np.isfinite(np.diagonal(covariance))
    low, high = effect.band(tails.normal_isf(plan.alpha, sides="one"))
    steps = path.functionals if path.known else (np.empty((2, BINS, 0)),) * 2
    sides = zip(contrast.functionals, steps, strict=True)
    return {
        "score": np.abs(comparisons.judge(effect, plan.tolerance)[0][usable]),
        "difference": effect.value[usable],
        "estimated": effect.value[np.isfinite(effect.value)],
        "ends": (low[usable].min(), high[usable].max()) if usable.any() else (np.nan, np.nan),
        "walk": path.statistic(plan.tolerance) * (1 - 1e-12) if path.known else None,
        "least": path.least,
        "functionals": [np.concatenate([f[..., usable], w], axis=-1).reshape(2 * BINS, -1) for f, w in sides],
    }


def uniform(
    tables: Sequence[VoteMoments], pair: Pair, plan: CompositePlan, rng: np.random.Generator
) -> dict[str, FloatArray]:
    """The columns of a pair: the clearest difference and the p-value with each weight, and one p-value for all weights.

    The latter, ``pair_pvalue``, is that of the smallest p-value over all weights.
    """
    draws = plan.draws
    parts = [under_weights(table, pair, plan) for table in tables]
    ends = np.cumsum([0, *(part["functionals"][0].shape[1] for part in parts)])
    pvalues, difference = np.full((2, len(parts)), np.nan)
    low, high = np.array([part["ends"] for part in parts]).T
    columns = {"disparity": difference, "pvalues": pvalues, "pointwise_low": low, "pointwise_high": high}
    for k, part in enumerate(parts):  # a difference that is too skewed to be tested
        difference[k] = max(part["estimated"], key=abs, default=np.nan)
    if not ends[-1]:
        return columns | {"pair_pvalue": np.full(len(parts), np.nan)}
    covariance = np.zeros((ends[-1], ends[-1]))  # products, over users, of what they add to each number
    for start in range(0, tables[0].tables[0].shape[0], LINES):
        lines = slice(start, start + LINES)
        influence = np.hstack(
            [
                sum(table.tables[g][lines] @ f for g, f in zip(pair, part["functionals"], strict=True))
                for table, part in zip(tables, parts, strict=True)
            ]
        )
        covariance += influence.T @ influence
    scale = np.sqrt(np.maximum(np.diagonal(covariance), np.finfo(float).tiny))
    z = normal_draws(covariance / scale[:, None] / scale[None, :], draws, rng)
    smallest = np.ones(draws)
    for k, part in enumerate(parts):
        many, place = part["score"].size, slice(ends[k], ends[k + 1])
        tests = []
        if many:
            clearest = int(np.argmax(part["score"]))
            difference[k] = part["difference"][clearest]
            tests.append((float(part["score"][clearest]), np.abs(z[:, place][:, :many]).max(axis=1)))
        if part["walk"] is not None:
            spread = scale[place][many:]
            # The variance of the steps is small where events are few by chance.
            factor = max(1.0, part["least"] / max(float(np.sum(spread**2)), np.finfo(float).tiny)) ** 0.5
            tests.append((part["walk"], comparisons.span(np.cumsum(factor * spread * z[:, place][:, many:], axis=1))))
        if tests:
            smallest_test = min(float(resampling.resampled_pvalues(s, np.sort(law))) for s, law in tests)
            least = np.min([resampling.drawn_pvalues(law, s) for s, law in tests], axis=0)
            pvalues[k] = resampling.pvalue(int((least <= smallest_test).sum()), draws)
            # A draw's rank under this weight alone, so that weights with one test and with two are compared fairly.
            smallest = np.minimum(smallest, resampling.drawn_pvalues(-least, -smallest_test))
    pvalue = float(resampling.pvalue(int((smallest <= np.nanmin(pvalues) * (1 + 1e-12)).sum()), draws))
    return columns | {"pair_pvalue": np.full(len(parts), pvalue)}


def jointly(votes: RowVotes, plan: CompositePlan) -> dict[str, Any]:
    scores, outcomes = both_columns(votes, plan)
    vote, names = votes.vote / votes.vote.sum(), plan.columns[1]
    lines = np.ones(vote.size) if votes.lines is None else votes.lines

    def by_person(values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """What each person adds to the sums of the columns, and how many people with a vote add the same."""
        if votes.user is None:
            return values * (vote / lines)[:, None], lines * (vote > 0)
        people = np.column_stack([np.bincount(votes.user, vote * column) for column in values.T])
        return people.astype(np.float64), (np.bincount(votes.user, vote) > 0).astype(np.float64)

    scaled = (scores - vote @ scores) / np.maximum(scores.std(axis=0), 1e-12)
    products = [scaled[:, [k]] * scaled[:, k:] for k in range(len(names))]
    basis = np.column_stack([np.ones(vote.size), scaled, *products])
    binary = np.all(outcomes * (1 - outcomes) == 0, axis=0)
    tested = [
        hotelling(*by_person(gap[:, None] * basis), alpha=None if rate else plan.alpha)
        for gap, rate in zip((outcomes - scores).T, binary, strict=True)
    ]
    share, people = by_person(np.ones((vote.size, 1)))
    mean = vote @ outcomes
    cases = np.minimum(mean, 1.0 - mean) / float(people @ share[:, 0] ** 2)
    pvalues = np.where(binary & (cases < CASES * basis.shape[1]), np.nan, tested)
    decided = conclude(pvalues, alpha=plan.alpha, adjust="holm")
    tests = zip(names, decided.adjusted.tolist(), decided.verdicts, strict=True)
    bread = np.linalg.pinv((scores * vote[:, None]).T @ scores)
    slopes = bread @ (scores * vote[:, None]).T @ outcomes
    columns = {"joint": tuple(JointCalibration(*test) for test in tests), "slopes": slopes, "better": None}
    if plan.weights is None:
        return columns
    weight, outcome = plan.composites[0], outcomes @ plan.composites[0]
    best = slopes @ weight
    covariance, _ = sum_covariance(*by_person((outcome - scores @ best)[:, None] * scores))
    # No score predicts the errors of the best weights, nor those of the weights in production if they are the best.
    sums = by_person((outcome - scores @ weight)[:, None] * scores)
    pvalue = hotelling(*sums, alpha=None if binary.all() else plan.alpha)
    error, better_error = (float(vote @ (outcome - scores @ w) ** 2) for w in (weight, best))
    se = np.sqrt(np.diagonal(bread @ covariance @ bread))
    better = BetterWeights(tuple(best.tolist()), tuple(se.tolist()), error, better_error, pvalue)
    return columns | {"better": better}


def hotelling(values: FloatArray, people: FloatArray, alpha: float | None = None) -> float:
    """P-value of "the expectations are zero" for independent people, by Hotelling's law; NaN if they are too few.

    ``people``: how many people have each line of ``values``. With ``alpha``, the p-value is also NaN if a sum is too
    skewed for a test at this level.
    """
    n, second, third = float(people.sum()), people @ values**2, people @ values**3
    if n < USERS * values.shape[1] or (alpha is not None and too_skewed(third, second, alpha).any()):
        return np.nan
    (covariance, rank), sums = sum_covariance(values, people), people @ values
    if not rank:  # every outcome equals its score
        return np.nan
    square = float(sums @ np.linalg.pinv(covariance, rcond=1e-10, hermitian=True) @ sums)
    return float(special.fdtrc(rank, n - rank, square * (n - rank) / (rank * (n - 1))))


def sum_covariance(values: FloatArray, people: FloatArray) -> tuple[FloatArray, int]:
    """The covariance of the sums of ``values`` over people if their expectations are zero, and its rank.

    Values are divided by 1 - leverage (HC3). Otherwise a few outlying people move the sums more than their covariance.
    """
    gram = (values.T * people) @ values
    inverse, roots = np.linalg.pinv(gram, rcond=1e-10, hermitian=True), np.linalg.eigvalsh(gram)
    leverage = np.sum((values @ inverse) * values, axis=1)
    wide = values / (1 - np.minimum(leverage, comparisons.MOST_LEVERAGE))[:, None]
    return (wide.T * people) @ wide, int((roots > 1e-10 * roots[-1]).sum())


# ---- decide


def decide(columns: Mapping[str, Any], orders: Sequence[Reversal], plan: CompositePlan) -> dict[str, Any]:
    """All pairs of all tables adjusted together; the p-value of a pair is already for all weights."""
    adjusted, verdicts = conclude_parity(columns, orders, plan, complete=False)
    status = line_status(columns["disparity"], columns["pvalues"])
    return {"status": status, "adjusted_pvalue": adjusted, **verdicts}


# ---- evidence


@storable
@dataclass(frozen=True, slots=True)
class JointCalibration:
    score: str
    pvalue: float  # adjusted for the number of scores
    verdict: Verdict


@storable
@dataclass(frozen=True, slots=True)
class BetterWeights:
    """The weights of the scores that predict the weighted outcome best, their errors, and the mean squared errors."""

    weights: tuple[float, ...]
    se: tuple[float, ...]
    error: float  # with the weights in production
    better_error: float
    pvalue: float  # of "the weights in production are the best"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class CompositeResult(OrderedEvidence):
    """Parity of composite scores under every choice of weights; see `isonomy.composite_parity`.

    One line for each pair of groups and each choice of weights. ``weights`` (scores x lines) are also columns of the
    table, one for each score. ``adjusted_pvalue`` and ``verdicts`` are those of the pair, over all weights.
    """

    method: ClassVar[str] = words.COMPOSITE_METHOD
    always_assumed: ClassVar[tuple[tuple[str, str], ...]] = (words.SMOOTH,)
    never_shown: ClassVar[tuple[str, ...]] = words.parity_limits(published=False)

    weights: FloatArray = column(listed=False, withheld=False)
    pair_pvalue: FloatArray = column("Pair: p‑value")
    pointwise_low: FloatArray = column(listed=False)  # the lowest end of two one-sided tests over all scores
    pointwise_high: FloatArray = column(listed=False)
    scores: tuple[str, ...]
    tolerance: float | None
    orders: tuple[Reversal, ...]
    joint: tuple[JointCalibration, ...]
    slopes: FloatArray  # column k: the regression of the outcome of score k on all scores
    better: BetterWeights | None  # if weights were given

    @property
    def pvalue(self) -> float:
        """The p-value of both parts: the smallest adjusted one of all pairs and all orders."""
        return smallest([*self.adjusted_pvalue, self.ordering_pvalue])

    def better_weights(self, weights: Sequence[float]) -> FloatArray:
        """The weights of the scores that predict the outcome with these weights best, in the sense of squared error."""
        return np.asarray(self.slopes @ np.asarray(weights, dtype=np.float64))

    @property
    def worst_weights(self) -> FloatArray:
        """The weights under which each pair differs most clearly: (pairs, scores)."""
        return self.weights[:, self._clearest()].T

    def _clearest(self) -> IntArray:
        starts = self.starts()
        parts = np.split(np.nan_to_num(self.pvalues, nan=2.0), starts[1:])
        return starts + np.array([int(np.argmin(part)) for part in parts])

    def table(self) -> Columns:
        """The columns of `to_frame`, with the weights of each score after the groups."""
        columns = PairEvidence.table(self)
        keys = {name: columns[name] for name in ("table", "group", "against")}
        weights = {f"weight {name}": self.weights[k] for k, name in enumerate(self.scores)}
        return {**keys, **weights, **columns}

    def findings(self) -> tuple[str, ...]:
        """Each pair, with the weights under which it differs most clearly."""
        clearest = self._clearest()
        order = np.argsort(np.nan_to_num(self.adjusted_pvalue[clearest], nan=2.0), kind="stable")[:MOST_PAIRS]
        lines = [int(i) for i in clearest[order] if not np.isnan(self.adjusted_pvalue[i])]
        orders = [words.order(test, binary=False) for test in self.orders] or [words.ORDER_NOT_TESTED]
        better = [] if self.better is None else [words.better_weights(self, self.better)]
        return (*(words.composite_pair(self, i) for i in lines), *orders, words.jointly_calibrated(self), *better)

    def plot(self) -> alt.TopLevelMixin:
        """The clearest difference under each weight of the first score, by pair."""
        from isonomy.scores import charts

        return charts.composite(self)
