"""Composite parity: does every weighted sum of several scores mean the same thing for every group?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Unpack

import numpy as np

from isonomy.errors import UsageError
from isonomy.frames import Groups
from isonomy.inference import conclude
from isonomy.inference.multiplicity import normal_draws
from isonomy.numerics import resampling
from isonomy.numerics.arrays import FloatArray, IntArray
from isonomy.options import Alpha, Column, Names, Number, RowOptions, Seeded, Whole
from isonomy.results import Columns, column, open_call, question
from isonomy.results.columns import join_tables
from isonomy.scores import words
from isonomy.scores.pairs import MOST_PAIRS, PairEvidence, line_status, pair_lines, pair_starts
from isonomy.scores.read import Level, RowVotes, ScorePlan, ScoreRows, read_votes, table_groups
from isonomy.scores.smoothing.comparisons import enough, fit_curves, judge, orthogonal, pool, span, walk
from isonomy.scores.smoothing.kernels import BINS, Smoother
from isonomy.scores.smoothing.moments import Pair, VoteMoments

if TYPE_CHECKING:
    import altair as alt

STEPS = {2: 10, 3: 5, 4: 3}  # of the lattice of weights, by the number of scores
MOST_SCORES = max(STEPS)
MOST_ROWS = 2**20
LINES = 2**11  # users at a time


# ---- call


@question(
    "CompositePlan",
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
    level: Level | None = None,
    reference: Mapping[str, object] | None = None,
    alpha: Alpha = 0.05,
    resamples: Annotated[int, Number(least=100, most=100_000, whole=True)] = 2_000,
    depth: Whole = 1,
    rng: Seeded = None,
    **rows: Unpack[RowOptions],
) -> CompositeResult:
    """Does every weighted sum of several scores mean the same thing for every group?

    Null hypothesis: for all nonnegative weights w, E[sum w_k Y^k | sum w_k S^k = s, G = g] is the same for all groups
    (section 5 of the paper). The weights on a lattice of the simplex are tested together, by their joint law. Users are
    assumed to be independent. The order of scores is not tested.

    Parameters
    ----------
    data : table
        Any table isonomy reads, of up to a million rows.
    outcomes, scores : sequence of str
        Columns: two to four scores, and an outcome for each, in the same order.
    groups, user, level, reference, alpha, resamples, depth, rng
        As in `predictive_parity`.
    **rows
        count, weight, cluster, missing, missing_group: see `isonomy.RowOptions` and `predictive_parity`.

    Returns
    -------
    CompositeResult
        ``to_frame()`` has one row for each pair of groups and each choice of weights: the clearest ``disparity`` over
        all scores, ``pvalue`` (with these weights alone), ``adjusted_pvalue`` and ``verdict`` (of the pair, over all
        weights). `worst_weights` has the weights under which each pair differs most clearly.

    Notes
    -----
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
    columns = estimate(tables, plan, rng)
    return CompositeResult(
        **columns,
        **decide(columns, plan),
        null=words.COMPOSITE_NULL,
        notes=(),
        provenance=record(rows=votes.rows, dropped=votes.dropped, **plan.rows.provenance),
        scores=plan.columns[1],
        alpha=plan.alpha,
        binary=False,
    )


# ---- plan


@dataclass(frozen=True, eq=False, kw_only=True)
class CompositePlan(ScorePlan):
    """The call, and what follows from it and the schema. Rows are read once for all weights, in a separate pass."""

    outcomes: str | Sequence[str]
    scores: str | Sequence[str]

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
    def weights(self) -> FloatArray:
        """Weights of at least 0 that sum to 1, on a lattice: (weights, scores)."""
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
    user = np.arange(votes.vote.size) if votes.user is None else votes.user
    outcome, score = (
        np.column_stack([votes.numbers[f"{part}[{k}]"] for k in range(len(names))]) for part, names in parts.items()
    )
    tables = []
    for partition in votes.partitions:
        groups, codes = table_groups(partition)
        composites = []
        for weight in plan.weights:
            s, y = score @ weight, outcome @ weight
            lines = (codes, s, y, votes.vote, votes.lines, user)
            composites.append(
                VoteMoments.from_rows(partition.title, groups, False, votes.axis(s), *lines, products=False)
            )
        tables.append(composites)
    return tables, votes


# ---- estimate


def estimate(tables: Sequence[Sequence[VoteMoments]], plan: CompositePlan, rng: np.random.Generator) -> dict[str, Any]:
    """Every pair of groups of each table, under all weights; ``pair_pvalue`` is for all weights together."""
    parts = []
    for composites, child in zip(tables, rng.spawn(len(tables)), strict=True):
        pairs = composites[0].pairs(plan.reference)
        tests = [
            uniform(composites, pair, plan.resamples, draws)
            for pair, draws in zip(pairs, child.spawn(len(pairs)), strict=True)
        ]
        pair_pvalue, pvalues, differences = zip(*tests, strict=True)
        parts.append(
            {
                **pair_lines(composites[0], pairs, len(plan.weights)),
                "weights": np.tile(plan.weights.T, len(pairs)),
                "disparity": np.concatenate(differences),
                "pvalues": np.concatenate(pvalues),
                "pair_pvalue": np.repeat(pair_pvalue, len(plan.weights)),
            }
        )
    return join_tables(parts)


def under_weights(table: VoteMoments, pair: Pair) -> dict[str, Any]:
    """Two groups under one composite score, by the orthogonal comparison at the published bandwidth and by the walk.

    The ``score`` and the ``difference`` at each usable point, the statistic of the ``walk`` (None if it is not known),
    and the functionals (2 BINS, P) of either group: those of the points, then those of the walk.
    """
    grid = table.default_grid
    bandwidth = table.bandwidth(None, grid)
    smoother = Smoother(grid, bandwidth.widths(grid), 0)
    fit = fit_curves(table, smoother)
    usable = np.all(enough(fit.effective[list(pair)], fit.mean[list(pair)], binary=False), axis=0)
    pooled = pool(table, pair, bandwidth)
    contrast, path = orthogonal(table, pair, pooled, smoother), walk(table, pair, pooled, alpha=None)
    covariance, effect = contrast.law(table, pair, alpha=None)
    usable &= np.isfinite(np.diagonal(covariance))
    steps = path.functionals if path.known else (np.empty((2, BINS, 0)),) * 2
    sides = zip(contrast.functionals, steps, strict=True)
    return {
        "score": np.abs(judge(effect, None)[0][usable]),
        "difference": effect.value[usable],
        "walk": path.statistic(None) * (1 - 1e-12) if path.known else None,
        "functionals": [np.concatenate([f[..., usable], w], axis=-1).reshape(2 * BINS, -1) for f, w in sides],
    }


def uniform(
    tables: Sequence[VoteMoments], pair: Pair, draws: int, rng: np.random.Generator
) -> tuple[float, FloatArray, FloatArray]:
    """P-value of "equal under every weight", of each weight alone, and the clearest difference under each.

    The first is that of the smallest p-value over all weights of points and walk, by their joint law.
    """
    parts = [under_weights(table, pair) for table in tables]
    ends = np.cumsum([0, *(part["functionals"][0].shape[1] for part in parts)])
    pvalues, difference = np.full((2, len(parts)), np.nan)
    if not ends[-1]:
        return np.nan, pvalues, difference
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
        many, columns = part["score"].size, slice(ends[k], ends[k + 1])
        tests = []
        if many:
            clearest = int(np.argmax(part["score"]))
            difference[k] = part["difference"][clearest]
            tests.append((float(part["score"][clearest]), np.abs(z[:, columns][:, :many]).max(axis=1)))
        if part["walk"] is not None:
            tests.append((part["walk"], span(np.cumsum((z * scale)[:, columns][:, many:], axis=1))))
        if tests:
            smallest_test = min(float(resampling.resampled_pvalues(s, np.sort(law))) for s, law in tests)
            least = np.min([resampling.resampled_pvalues(law, np.sort(law)) for _, law in tests], axis=0)
            pvalues[k] = resampling.pvalue(int((least <= smallest_test).sum()), draws)
            # A draw's rank under this weight alone, so that weights with one test and with two are compared fairly.
            smallest = np.minimum(smallest, resampling.resampled_pvalues(-least, np.sort(-least)))
    pvalue = float(resampling.pvalue(int((smallest <= np.nanmin(pvalues) * (1 + 1e-12)).sum()), draws))
    return pvalue, pvalues, difference


# ---- decide


def decide(columns: Mapping[str, Any], plan: CompositePlan) -> dict[str, Any]:
    """All pairs of all tables adjusted together; the p-value of a pair is already for all weights."""
    starts = pair_starts(columns["tables"], columns["groups"], columns["opposite"])
    shown = conclude(columns["pair_pvalue"][starts], alpha=plan.alpha, adjust="holm")
    many = len(plan.weights)
    return {
        "status": line_status(columns["disparity"], columns["pvalues"]),
        "adjusted_pvalue": np.repeat(shown.adjusted, many),
        "verdicts": tuple(verdict for verdict in shown.verdicts for _ in range(many)),
        "verdict": shown.verdict,
    }


# ---- evidence


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class CompositeResult(PairEvidence):
    """Parity of composite scores under every choice of weights; see `isonomy.composite_parity`.

    One line for each pair of groups and each choice of weights. ``weights`` (scores x lines) are also columns of the
    table, one for each score. ``adjusted_pvalue`` and ``verdicts`` are those of the pair, over all weights.
    """

    method: ClassVar[str] = words.COMPOSITE_METHOD
    always_assumed: ClassVar[tuple[tuple[str, str], ...]] = (words.SMOOTH,)
    never_shown: ClassVar[tuple[str, ...]] = words.parity_limits(published=False)

    weights: FloatArray = column(listed=False, withheld=False)
    pair_pvalue: FloatArray = column("Pair: p‑value")
    scores: tuple[str, ...]

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
        return tuple(words.composite_pair(self, i) for i in lines)

    def plot(self) -> alt.TopLevelMixin:
        """The clearest difference under each weight of the first score, by pair."""
        from isonomy.scores import charts

        return charts.composite(self)
