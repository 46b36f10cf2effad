"""Composite parity: does every weighted sum of several scores mean the same thing for every group?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Unpack

import numpy as np

from isonomy.errors import UsageError
from isonomy.frames import Groups
from isonomy.inference import conclude
from isonomy.numerics.arrays import FloatArray, IntArray
from isonomy.options import Alpha, Column, Names, Number, RowOptions, Seeded, Whole
from isonomy.results import Columns, column, open_call, question
from isonomy.scores import words
from isonomy.scores.pairs import MOST_PAIRS, PairEvidence, join_tables, line_status, pair_lines, pair_starts
from isonomy.scores.read import Level, RowVotes, ScorePlan, ScoreRows, read_votes, table_groups
from isonomy.scores.smoothing.bands import walk
from isonomy.scores.smoothing.contrasts import enough, fit_curves, orthogonal, pool
from isonomy.scores.smoothing.kernels import Smoother
from isonomy.scores.smoothing.moments import Pair, VoteMoments
from isonomy.scores.smoothing.orders import STEPS, CompositePair, simplex, uniform

if TYPE_CHECKING:
    import altair as alt

MOST_SCORES = max(STEPS)
MOST_ROWS = 2**20


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
    reference: Mapping[str, object] | None
    alpha: float
    resamples: int

    def __post_init__(self) -> None:
        outcomes, scores = self.columns
        if len(outcomes) != len(scores) or not 2 <= len(scores) <= MOST_SCORES:
            raise UsageError(
                f"scores: {len(scores)} given, and {len(outcomes)} in outcomes; give 2 to {MOST_SCORES} scores, and an "
                "outcome for each, in the same order."
            )
        for outcome, score in zip(outcomes, scores, strict=True):
            self.source.require(outcomes=outcome, scores=score)
        _ = self.rows
        self.refuse_user_and_cluster()

    @cached_property
    def columns(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The outcomes, and the score of each."""
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
        """The weights that are tested: (weights, scores)."""
        return simplex(len(self.columns[1]))


# ---- read


def read(plan: CompositePlan) -> tuple[list[list[VoteMoments]], RowVotes]:
    """The groups of every table under each composite score, from rows with all scores and outcomes."""
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
            uniform([under_weights(table, pair) for table in composites], pair, plan.resamples, draws)
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


def under_weights(table: VoteMoments, pair: Pair) -> CompositePair:
    """Two groups under one composite score, by the orthogonal comparison at the published bandwidth."""
    grid = table.default_grid
    bandwidth = table.bandwidth(None, grid)
    smoother = Smoother(grid, bandwidth.widths(grid), 0)
    fit = fit_curves(table, smoother)
    usable = np.all(enough(fit.effective[list(pair)], fit.mean[list(pair)], binary=False), axis=0)
    pooled = pool(table, pair, bandwidth)
    contrast = orthogonal(table, pair, pooled, smoother)
    usable &= np.isfinite(np.diagonal(contrast.law(table, pair)[0]))
    return CompositePair(table, contrast, usable, walk(table, pair, pooled))


# ---- decide


def decide(columns: Mapping[str, Any], plan: CompositePlan) -> dict[str, Any]:
    """All pairs of all tables adjusted together; the p-value of a pair is already for all weights."""
    starts = pair_starts(columns["tables"], columns["groups"], columns["opposite"])
    shown = conclude(columns["pair_pvalue"][starts], alpha=plan.alpha, adjust="holm")
    many = len(plan.weights)
    return {
        "status": line_status(columns["disparity"]),
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
        """The line of each pair with the smallest p-value."""
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
