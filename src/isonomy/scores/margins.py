"""Marginal outcomes: do people who only just got a positive decision have the same outcomes in every group?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Unpack

import narwhals as nw
import numpy as np

from isonomy.errors import refuse_percent
from isonomy.frames import Groups, Request, Source
from isonomy.frames.expressions import flag
from isonomy.inference import conclude, inside
from isonomy.inference.effect import Wald
from isonomy.numerics import tails
from isonomy.options import ROW_DEFAULTS, Alpha, Column, Finite, RowOptions, Tolerance, Whole
from isonomy.results import Columns, Note, note_if, open_call, question
from isonomy.results.columns import join_tables
from isonomy.scores import words
from isonomy.scores.options import CurvesOption, EdgeFit, moved
from isonomy.scores.pairs import MOST_PAIRS, OutcomeEvidence, line_status, pair_lines
from isonomy.scores.read import ScoreSums, ThresholdPlan, rows_above
from isonomy.scores.smoothing import comparisons
from isonomy.scores.smoothing.kernels import Smoother
from isonomy.scores.smoothing.moments import VoteMoments

if TYPE_CHECKING:
    import altair as alt

PairAdjustment = Literal["holm", "bonferroni", "bh", "by", "none"]
DEGREES = {"local-quadratic": 2, "local-linear": 1, "published": 0}
FEWEST = 2.0  # effective users next to the threshold
NEXT_TO = 0.25  # of a bandwidth: how near to the threshold these must be


# ---- call


@question(
    "MarginalPlan",
    moved=moved("level", "bandwidth", "kernel"),
    asks="Do people who only just got a positive decision have the same outcomes in every group?",
    topic="Outcomes at the threshold",
    badges={"violation": "Different outcomes shown"},
    verdicts={"violation": "people at the threshold have different outcomes in different groups."},
    next_steps={
        "violation": (
            "Ask why people who were only just accepted do better in one group than in another: that group may be held "
            "to a higher standard.",
            "Have the threshold reviewed, and the information that the score leaves out.",
        )
    },
    meaning="People at the margin are those whose score only just reached the threshold.",
)
def marginal_outcomes(
    data: object = None,
    *,
    outcome: Column,
    score: Column,
    threshold: Finite | Mapping[Any, Finite],
    groups: Groups,
    user: Column | None = None,
    method: EdgeFit | CurvesOption = "local-quadratic",
    reference: Mapping[str, object] | None = None,
    adjust: PairAdjustment = "holm",
    tolerance: Tolerance = None,
    alpha: Alpha = 0.05,
    depth: Whole = 1,
    **rows: Unpack[RowOptions],
) -> MarginalResult:
    """Do people who only just got a positive decision have the same outcomes in every group?

    Null hypothesis: E[Y | S = threshold, G = g] is the same for all groups (Definition 5 of the paper), where the
    decision is positive if S >= threshold. Only outcomes from the threshold up are read, so they may be missing below
    it. At user level a user's vote is split over all of the user's rows with a score, so keep the rows below the
    threshold in the table. Users are assumed to be independent.

    Parameters
    ----------
    data : table
        Any table isonomy reads.
    outcome, score, groups, user, reference, tolerance, alpha, depth
        As in `predictive_parity`.
    threshold : float or mapping
        The decision is positive for scores of at least this number. Thresholds by group, such as ``{"a": 0.38,
        "b": 0.62}``, are those in force: outcomes at each group's own threshold are compared (Remark 4). For several
        group columns, join the values: ``{"Black & F": 0.4, ...}``.
    method : {"local-quadratic", "local-linear", "published"} or curves, default "local-quadratic"
        The local polynomial for a group's outcome, and for the *difference* between two groups after the curve that
        they share has been removed. ``"local-linear"`` keeps a bias from curvature. ``"published"``: the paper's
        Nadaraya-Watson means, which have a bias of order h at an edge. Level, bandwidth and kernel: `isonomy.curves`.
    adjust : {"holm", "bonferroni", "bh", "by", "none"}, default "holm"
        How p-values are adjusted for the number of pairs of groups that are compared.
    **rows
        count, weight, cluster, missing, missing_group: see `isonomy.RowOptions` and `predictive_parity`.

    Returns
    -------
    MarginalResult
        ``to_frame()`` has one row for each pair of groups. `pvalue` and `verdict` are those of all pairs together.

    Notes
    -----
    When it misleads: if people near the threshold were handled differently (overrides), or if the difference between
    two groups changes within a bandwidth above the threshold. ``disparity`` is not ``estimate - reference``: these two
    have a bias where the curve is steep, and the disparity does not. Outcomes that are not 0/1 and too skewed for the
    number of users near the threshold give no verdict (status "skewed"; see `predictive_parity`).

    References
    ----------
    C. DiCiccio, B. Hsu, Y. Yu, P. Nandy, K. Basu, "Detection and Mitigation of Algorithmic Bias via Predictive Rate
    Parity", section 6, Definition 5, Theorem 3.

    Examples
    --------
    >>> import numpy as np
    >>> from isonomy.scores import marginal_outcomes
    >>> rng = np.random.default_rng(0)
    >>> s = rng.random(6000)
    >>> g = np.repeat(["a", "b"], 3000)
    >>> y = np.where(s < 0.5, np.nan, rng.random(6000) < np.where(g == "a", s, 0.6 * s))
    >>> result = marginal_outcomes({"y": y, "s": s, "g": g}, outcome="y", score="s", threshold=0.5, groups="g")
    >>> result.verdict.value
    'violation'
    """
    plan, _, record = open_call("marginal_outcomes", MarginalPlan, locals())
    sums = read(plan)
    columns = estimate(sums, plan)
    binary, reading = sums.tables[0].binary, plan.rows.provenance
    return MarginalResult(
        **columns,
        **decide(columns, plan),
        null=words.marginal_null(plan.in_force, plan.tolerance, binary=binary),
        notes=notes(sums, columns, plan),
        provenance=record(rows=sums.rows, dropped=sums.dropped, random=False, **plan.chosen, **reading),
        threshold=plan.in_force,
        alpha=plan.alpha,
        binary=binary,
    )


# ---- plan


@dataclass(frozen=True, eq=False, kw_only=True)
class MarginalPlan(ThresholdPlan):
    uses: ClassVar[tuple[str, ...]] = ("bandwidth", "kernel")
    kinds: ClassVar[tuple[str, ...]] = tuple(DEGREES)

    adjust: PairAdjustment


# ---- read


def read(plan: MarginalPlan) -> ScoreSums:
    sums = rows_above(plan.rows, plan.present)
    refuse_percent(sums.tables[0].binary, plan.tolerance)
    return sums


def groups_below(plan: MarginalPlan) -> tuple[str, ...]:
    source = plan.rows.source
    # Rows below the threshold are not part of the test: a group that is missing there is no error.
    reading = RowOptions(missing="drop", missing_group="level" if source.missing_group == "level" else "drop")
    whole = Source(source.frame, source.backend, source.lazy, frozenset(), {**ROW_DEFAULTS, **reading})
    above = flag(nw.col(plan.rows.score) >= plan.present)
    cells = whole.cells(Request(grouping=plan.rows.grouping, keys={"above": above}))
    return tuple(
        group.label
        for partition in cells.partitions
        for group, n in zip(partition.groups, partition.sum(cells.columns["above"] * cells.count), strict=True)
        if n == 0
    )


# ---- estimate


def estimate(sums: ScoreSums, plan: MarginalPlan) -> dict[str, Any]:
    tables, critical = [], float(tails.normal_isf(plan.alpha))
    for table in sums.tables:
        numbers, difference = at_threshold(table, plan.present, plan.curves, plan.kind, plan.reference, plan.alpha)
        outcome = Wald(numbers["estimate"], numbers["estimate_se"])
        ends = zip(("estimate", "estimate_low", "estimate_high"), (outcome.value, *outcome.band(critical)), strict=True)
        sides = {"effective_n": numbers["effective_n"], **dict(ends)}
        low, high = difference.band(critical)
        tables.append(
            {
                **pair_lines(table, numbers["pairs"], numbers=sides),
                "disparity": difference.value,
                "se": difference.standard_error,
                "ci_low": low,
                "ci_high": high,
                "pvalues": comparisons.judge(difference, plan.tolerance)[1],
                "bandwidth": np.full(len(numbers["pairs"]), numbers["bandwidth"]),
            }
        )
    return join_tables(tables)


def at_threshold(
    table: VoteMoments,
    threshold: float,
    curves: CurvesOption,
    kind: str = "local-quadratic",
    reference: Mapping[str, object] | None = None,
    alpha: float = 0.05,
) -> tuple[dict[str, Any], Wald]:
    """Outcomes of the groups of a table at the threshold, and differences of its ``pairs``; NaN if unsupported."""
    point, degree = np.array([threshold]), DEGREES[kind]
    widths = table.bandwidth(curves.bandwidth, point, published=not degree)
    smoother = Smoother(point, widths.widths(point), degree, curves.kernel)
    fit = comparisons.fit_curves(table, smoother)
    # A curve that begins far from the threshold is not known there.
    reach = replace(smoother, width=NEXT_TO * smoother.width)
    near = comparisons.users_near(table, range(table.size), reach)[:, 0] >= FEWEST
    known = comparisons.enough(fit.effective, fit.mean, binary=table.binary)[:, 0] & near
    pairs = table.pairs(reference)
    numbers = np.full((3, len(pairs)), np.nan)
    for k, (i, j) in enumerate(pairs):
        if degree:  # a group without events can be compared
            pooled = comparisons.pool(table, (i, j), widths)
            if not (near[i] and near[j] and comparisons.supported(table, (i, j), pooled, smoother, fit).all()):
                continue
            contrast = comparisons.orthogonal(table, (i, j), pooled, smoother)
        elif known[i] and known[j]:
            contrast = comparisons.means(table, (i, j), None, smoother, fit.users[[i, j]])
        else:
            continue
        law = contrast.law(table, (i, j), alpha=alpha)[1]
        numbers[:, k] = law.value[0], law.standard_error[0], np.asarray(law.df)[0]
    outcomes = {
        "estimate": np.where(known, fit.beta[0][:, 0], np.nan),
        "estimate_se": np.where(known, fit.errors[:, 0], np.nan),
        "effective_n": fit.effective[:, 0],
        "pairs": np.array(pairs),
        "bandwidth": float(smoother.width[0]),
    }
    return outcomes, Wald(*numbers)


# ---- decide


def decide(columns: Mapping[str, Any], plan: MarginalPlan) -> dict[str, Any]:
    within = inside(columns["ci_low"], columns["ci_high"], plan.tolerance)
    shown = conclude(columns["pvalues"], alpha=plan.alpha, adjust=plan.adjust, within=within)
    tests = {"adjusted_pvalue": shown.adjusted, "verdicts": shown.verdicts, "verdict": shown.verdict}
    return {"status": line_status(columns["disparity"], columns["se"]), **tests}


def notes(sums: ScoreSums, columns: Mapping[str, Any], plan: MarginalPlan) -> tuple[Note, ...]:
    known = [] if sums.tables[0].axis.unit or plan.rows.in_force else [Note("outside_unit")]
    if plan.kind == "published":
        known.append(Note("published_margin"))
    known.extend(note_if("nobody_above", groups_below(plan)))
    tables = np.array(columns["tables"], dtype=object)
    for table in sums.tables:
        lines = np.flatnonzero(tables == table.title)
        few = {columns["groups"][i] for i in lines if np.isnan(columns["estimate"][i])}
        few |= {columns["opposite"][i] for i in lines if np.isnan(columns["reference"][i])}
        labels = [group.label for group in table.groups if group in few]
        known.extend(note_if("few_at_threshold", labels, width=float(columns["bandwidth"][lines[0]])))
        skewed = np.isfinite(columns["disparity"][lines]) & np.isnan(columns["se"][lines])
        concerned = {side[i] for i in lines[skewed] for side in (columns["groups"], columns["opposite"])}
        labels = [group.label for group in table.groups if group in concerned]
        known.extend(note_if("skewed_at_threshold", labels))
        if table.spanning:
            known.append(Note("spanning_above"))
    return tuple(known)


# ---- evidence


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class MarginalResult(OutcomeEvidence):
    """Outcomes of people at the threshold, one line for each pair of groups; see `isonomy.marginal_outcomes`."""

    method: ClassVar[str] = words.MARGINAL_METHOD
    always_assumed: ClassVar[tuple[tuple[str, str], ...]] = words.MARGINAL_ASSUMPTIONS
    never_shown: ClassVar[tuple[str, ...]] = words.MARGINAL_LIMITS

    threshold: float | Mapping[str, float]  # for everybody, or of each group

    def pages(self) -> Mapping[str, Columns]:
        """The differences, then the outcomes of both groups."""
        return self.paged(words.MARGINAL_PAGES)

    def ranking(self) -> list[int]:
        """Table by table, the pairs by adjusted p-value, the smallest first."""
        tables = list(dict.fromkeys(self.tables))
        return np.lexsort((self.adjusted_pvalue, np.array([tables.index(table) for table in self.tables]))).tolist()

    def findings(self) -> tuple[str, ...]:
        """Each pair, then the outcome at the threshold by group; the table that decides the verdict comes first."""
        findings = []
        for table in self.deciding_first():
            lines, verdict = self.lines_of(table).tolist(), self.judged(table)[0]
            pairs = [i for i in lines if np.isfinite(self.disparity[i]) and not np.isnan(self.adjusted_pvalue[i])]
            pairs.sort(key=lambda i: (self.verdicts[i] is not verdict, self.adjusted_pvalue[i]))
            findings += [words.marginal_pair(self, i) for i in pairs[:MOST_PAIRS]]
            if not np.isfinite(self.se[lines]).any():
                findings.append(words.margins_not_compared(table))
            for label, numbers in self.by_group(table).items():
                if np.isfinite(numbers["estimate"][0]):
                    findings.append(words.marginal_group(self, label, numbers))
        return tuple(findings)

    def plot(self) -> alt.TopLevelMixin:
        """The outcome at the threshold in each group, with its interval."""
        from isonomy.scores import charts

        return charts.marginal(self)
