"""Composite parity: does every weighted sum of several scores mean the same thing for every group?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Unpack

import numpy as np

from isonomy.errors import EmptyFrame, UsageError
from isonomy.frames import Groups
from isonomy.frames.membership import compared
from isonomy.inference import conclude
from isonomy.inference.multiplicity import smallest
from isonomy.numerics.arrays import FloatArray, IntArray
from isonomy.options import Alpha, Column, Names, Number, RowOptions, Seeded, Whole
from isonomy.results import Columns, Plan, column, open_call, question
from isonomy.scores import words
from isonomy.scores.pairs import MOST_PAIRS, PairEvidence, join_tables, line_status, pair_lines, pair_starts
from isonomy.scores.read import (
    NO_ROW_LEFT,
    Level,
    RowVotes,
    ScoreRows,
    read_votes,
    refuse_many,
    refuse_user_and_cluster,
    score_rows,
)
from isonomy.scores.smoothing.bands import walk
from isonomy.scores.smoothing.contrasts import Pair, Smoother, enough, fit_curves, orthogonal
from isonomy.scores.smoothing.families import Family
from isonomy.scores.smoothing.kernels import Axis
from isonomy.scores.smoothing.moments import VoteMoments
from isonomy.scores.smoothing.orders import STEPS, CompositePair, simplex, uniform

if TYPE_CHECKING:
    import altair as alt

MOST_SCORES = max(STEPS)
MANY = 2**20  # rows on which composite scores are compared


# ---- call


@question(
    "CompositePlan",
    asks="Does every weighted sum of these scores mean the same thing for every group?",
    topic="Meaning of weighted scores",
    badges={"violation": "Different meaning shown"},
    verdicts={"violation": "a weighted sum of the scores means different things in different groups."},
    next_steps={
        "violation": (
            "Ask whether decisions use the score with one cut-off for all groups. The same cut-off then means "
            "different things in different groups.",
            "Consider calibrating the score by group, where that is permitted, and repeat the test on new rows.",
        )
    },
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
    (section 5 of the paper). The weights on a lattice of the simplex are tested together, by their joint law; the
    weights under which groups differ most clearly are reported. Assumes that users are independent.

    Parameters
    ----------
    data : table
        Any table isonomy reads, of up to a million rows.
    outcomes, scores : sequence of str
        Columns: two to four scores, and an outcome for each, in the same order.
    groups, user, level, reference, alpha, resamples, depth, rng
        As in `predictive_parity`.
    **rows
        count, weight, cluster, missing, missing_group: how rows are read; see `isonomy.RowOptions` and
        `predictive_parity`.

    Returns
    -------
    CompositeResult
        ``to_frame()`` has one row for each pair of groups and each choice of weights: table, group, against, the
        weights, disparity (the clearest over all scores), pvalue (with these weights alone), adjusted_pvalue and
        verdict (of the pair, over all weights), status. `pvalue` and `verdict` are those of all pairs together;
        `worst_weights` has the weights under which each pair differs most clearly.

    Notes
    -----
    When it misleads: with few users, or weights between the points of the lattice (steps of 0.1 for two scores, 0.2
    for three). The order of scores is not tested here.

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
    call = open_call("composite_parity", locals())
    plan = CompositePlan(call.source, **call.options)
    families, votes = read(plan)
    columns = estimate(families, plan, call.rng)
    return CompositeResult(
        **columns,
        **decide(columns, plan),
        null=words.COMPOSITE_NULL,
        notes=(),
        provenance=call.provenance(
            rows=votes.rows, dropped=votes.dropped, level=plan.rows.level, grouping=plan.rows.grouping
        ),
        scores=plan.columns[1],
        alpha=plan.alpha,
        binary=False,
    )


# ---- plan


@dataclass(frozen=True, eq=False, kw_only=True)
class CompositePlan(Plan):
    """The call, and what follows from it and the schema. Rows are read once for all weights, in a pass of their own."""

    outcomes: str | Sequence[str]
    scores: str | Sequence[str]
    groups: Groups
    user: str | None
    level: Level | None
    reference: Mapping[str, object] | None
    alpha: float
    resamples: int
    depth: int

    def __post_init__(self) -> None:
        outcomes, scores = self.columns
        if len(outcomes) != len(scores) or not 2 <= len(scores) <= MOST_SCORES:
            raise UsageError(
                f"scores: {len(scores)} scores for {len(outcomes)} outcomes; give 2 to {MOST_SCORES} scores, and an "
                "outcome for each, in the same order."
            )
        for outcome, score in zip(outcomes, scores, strict=True):
            self.source.require(outcomes=outcome, scores=score)
        _ = self.rows
        refuse_user_and_cluster(self.source, self.user)

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
        roles: Any = {"outcome": outcome, "score": score, "user": self.user}
        return score_rows(self.source, **roles, groups=self.groups, level=self.level, depth=self.depth)

    @cached_property
    def weights(self) -> FloatArray:
        """The weights that are tested: (weights, scores)."""
        return simplex(len(self.columns[1]))


# ---- read


def read(plan: CompositePlan) -> tuple[list[list[Family]], RowVotes]:
    """The groups of every table under each composite score, from rows with all scores and outcomes."""
    parts = dict(zip(("outcomes", "scores"), plan.columns, strict=True))
    numeric = {f"{part}[{k}]": name for part in ("scores", "outcomes") for k, name in enumerate(parts[part])}
    sample, votes = read_votes(plan.rows, numeric)
    if sample.size > MANY:
        raise UsageError(
            f"data: {sample.size:,} rows; composite scores are compared on at most {MANY:,}. Use a sample of users."
        )
    if not votes.vote.size:
        raise EmptyFrame(NO_ROW_LEFT)
    user = np.arange(votes.vote.size) if votes.user is None else votes.user
    outcome, score = (
        np.column_stack([sample.columns[f"{part}[{k}]"][votes.kept] for k in range(len(names))])
        for part, names in parts.items()
    )
    tables = []
    for partition in sample.partitions:
        groups, codes = compared(partition)
        refuse_many(partition, groups)
        families = []
        for weight in plan.weights:
            s, y = score @ weight, outcome @ weight
            axis = Axis.of(float(s.min()), float(s.max())).focused_on(s, votes.lines)
            lines = (s, y, votes.vote, votes.lines, user)
            sums = VoteMoments.of(axis, codes[votes.kept], len(groups), *lines, products=False)
            families.append(Family(partition.titles or partition.dimensions, groups, sums, binary=False))
        tables.append(families)
    return tables, votes


# ---- estimate


def estimate(tables: Sequence[Sequence[Family]], plan: CompositePlan, rng: np.random.Generator) -> dict[str, Any]:
    """Every pair of groups of each table, under all weights; ``pair_pvalue`` is for all weights together."""
    parts = []
    for families, child in zip(tables, rng.spawn(len(tables)), strict=True):
        pairs = families[0].pairs(plan.reference)
        tests = [
            uniform([_under_weights(family, pair) for family in families], pair, plan.resamples, draws)
            for pair, draws in zip(pairs, child.spawn(len(pairs)), strict=True)
        ]
        parts.append(
            {
                **pair_lines(families[0], pairs, len(plan.weights)),
                "weights": np.tile(plan.weights.T, len(pairs)),
                "disparity": np.concatenate([test.difference for test in tests]),
                "pvalues": np.concatenate([test.each for test in tests]),
                "pair_pvalue": np.repeat([test.pvalue for test in tests], len(plan.weights)),
            }
        )
    return join_tables(parts)


def _under_weights(family: Family, pair: Pair) -> CompositePair:
    """Two groups under one composite score, by the orthogonal comparison at the published bandwidth."""
    sums, grid = family.sums, family.default_grid
    bandwidth = family.bandwidth(None, grid)
    smoother = Smoother(grid, bandwidth.at(grid), 0)
    fit = fit_curves(sums, smoother)
    usable = np.all(enough(fit.effective[list(pair)], fit.mean[list(pair)], binary=False), axis=0)
    pooled = family.pooled(pair, bandwidth)
    contrast = orthogonal(sums, pair, pooled, smoother, binary=False)
    usable &= np.isfinite(np.diagonal(contrast.law(sums, pair)[0]))
    return CompositePair(sums, contrast, usable, walk(sums, pair, pooled, binary=False))


# ---- decide


def decide(columns: Mapping[str, Any], plan: CompositePlan) -> dict[str, Any]:
    """All pairs of all tables adjusted together; a pair's p-value is for all weights already."""
    starts = pair_starts(columns)
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
    always_assumed: ClassVar[tuple[tuple[str, str], ...]] = words.PARITY_ASSUMPTIONS[1:]
    never_shown: ClassVar[tuple[str, ...]] = words.PARITY_LIMITS

    weights: FloatArray = column(listed=False, withheld=False)
    pair_pvalue: FloatArray = column("Pair: p‑value")
    scores: tuple[str, ...]

    @property
    def pvalue(self) -> float:
        """The smallest of all pairs' p-values, adjusted."""
        return smallest(self.adjusted_pvalue)

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
