"""Marginal outcomes: do people who only just got a positive decision have the same outcomes in every group?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Unpack

import narwhals as nw
import numpy as np

from isonomy.errors import refuse_percent
from isonomy.frames import Groups, Reading, Request, Source
from isonomy.frames.adapt import Input
from isonomy.frames.checks import flag
from isonomy.inference import conclude, inside
from isonomy.inference.multiplicity import smallest
from isonomy.numerics import tails
from isonomy.options import Alpha, Also, Column, Finite, Positive, RowOptions, Tolerance, Whole
from isonomy.results import Columns, Note, note_if, open_call, question
from isonomy.scores import words
from isonomy.scores.pairs import MOST_PAIRS, OutcomeEvidence, join_tables, line_status, pair_lines
from isonomy.scores.read import Level, ScorePlan, ScoreSums, rows_above
from isonomy.scores.smoothing.bands import beyond
from isonomy.scores.smoothing.contrasts import (
    GroupCurves,
    Pair,
    Smoother,
    enough,
    fit_curves,
    means,
    orthogonal,
    users_near,
)
from isonomy.scores.smoothing.families import Family
from isonomy.scores.smoothing.kernels import Bandwidth, Kernel

if TYPE_CHECKING:
    import altair as alt

EdgeFit = Annotated[Literal["local-quadratic", "local-linear", "published"], Also({"nadaraya_watson": "published"})]
PairAdjustment = Literal["holm", "bonferroni", "bh", "by", "none"]
DEGREES = {"local-quadratic": 2, "local-linear": 1, "published": 0}
FEWEST = 2.0  # effective users beside the threshold
BESIDE = 0.25  # of a bandwidth: how near to a threshold some rows must be


# ---- call


@question(
    "MarginalPlan",
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
    threshold: Finite,
    groups: Groups,
    user: Column | None = None,
    level: Level | None = None,
    bandwidth: Positive | Literal["cross-validation"] | None = None,
    method: EdgeFit = "local-quadratic",
    kernel: Kernel = "gaussian",
    reference: Mapping[str, object] | None = None,
    adjust: PairAdjustment = "holm",
    tolerance: Tolerance = None,
    alpha: Alpha = 0.05,
    depth: Whole = 1,
    **rows: Unpack[RowOptions],
) -> MarginalResult:
    """Do people who only just got a positive decision have the same outcomes in every group?

    Null hypothesis: E[Y | S = threshold, G = g] is the same for all groups (Definition 5 of the paper), where the
    decision is positive when S >= threshold. Only outcomes from the threshold up are read, so they may be missing below
    it. At user level a user's vote is split over all of the user's rows with a score, including those below the
    threshold: keep these rows in the table. Assumes that users are independent.

    Parameters
    ----------
    data : table
        Any table isonomy reads.
    outcome, score, groups, user, level, kernel, reference, tolerance, alpha, depth
        As in `predictive_parity`.
    threshold : float
        The decision is positive for scores of at least this number.
    bandwidth : float or "cross-validation", optional
        Width of the kernel above the threshold. Default: the paper's rule at the threshold, with the users
        (or rows) of the average group above it.
    method : {"local-quadratic", "local-linear", "published"}, default "local-quadratic"
        The local polynomial in the score by which a group's outcome, and the *difference* between two groups, is
        estimated near the threshold. The part that both groups' curves have in common is removed first, however steep
        it is. ``"local-linear"`` keeps a bias from curvature. ``"published"``: the paper's Nadaraya-Watson, which has a
        bias of order h at an edge.
    adjust : {"holm", "bonferroni", "bh", "by", "none"}, default "holm"
        How p-values are adjusted for the number of pairs of groups that are compared.
    **rows
        count, weight, cluster, missing, missing_group: how rows are read; see `isonomy.RowOptions` and
        `predictive_parity`.

    Returns
    -------
    MarginalResult
        ``to_frame()`` has one row for each pair of groups: table, group, against, n, estimate, reference, disparity,
        ci_low, ci_high, pvalue, adjusted_pvalue, verdict, status, and more. `pvalue` and `verdict` are those of all
        pairs together.

    Notes
    -----
    When it misleads: if people near the threshold were handled differently (overrides), or if the difference between
    two groups changes faster just above it than the bandwidth can follow. ``disparity`` is not ``estimate -
    reference``: these two have a bias where the curve is steep, and the disparity does not.

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
    call = open_call("marginal_outcomes", locals())
    plan = MarginalPlan(call.source, **call.options)
    sums = read(plan)
    columns = estimate(sums, plan)
    binary, level = sums.families[0].binary, plan.rows.level
    return MarginalResult(
        **columns,
        **decide(columns, plan),
        null=words.marginal_null(plan.threshold, plan.tolerance, binary=binary),
        notes=notes(sums, columns, plan),
        provenance=call.provenance(
            rows=sums.rows, dropped=sums.dropped, random=False, level=level, grouping=plan.rows.grouping
        ),
        threshold=float(plan.threshold),
        alpha=plan.alpha,
        binary=binary,
    )


# ---- plan


@dataclass(frozen=True, eq=False, kw_only=True)
class MarginalPlan(ScorePlan):
    """The call, and what follows from it and the schema."""

    threshold: float
    bandwidth: float | Literal["cross-validation"] | None
    method: str
    kernel: Kernel
    reference: Mapping[str, object] | None
    adjust: PairAdjustment
    tolerance: float | None
    alpha: float


# ---- read


def read(plan: MarginalPlan) -> ScoreSums:
    """The rows from the threshold up."""
    sums = rows_above(plan.rows, float(plan.threshold))
    refuse_percent(sums.families[0].binary, plan.tolerance)
    return sums


def groups_below(plan: MarginalPlan) -> tuple[str, ...]:
    """Groups of which no row has a score from the threshold up."""
    source = plan.source
    # Rows below the threshold are not part of the test: a group that is missing there is no error.
    origin = Input(source.frame, source.backend, source.lazy)
    unknown = source.missing_group if source.missing_group == "level" else "drop"
    whole = Source(origin, Reading(missing="drop", missing_group=unknown))
    above = flag(nw.col(plan.score) >= float(plan.threshold))
    cells = whole.cells(Request(grouping=plan.rows.grouping, keys={"above": above}))
    counts = [partition.sum(cells.columns["above"] * cells.count) for partition in cells.partitions]
    return tuple(
        group.label
        for partition, sizes in zip(cells.partitions, counts, strict=True)
        for group, n in zip(partition.groups, sizes, strict=True)
        if n == 0
    )


# ---- estimate


def estimate(sums: ScoreSums, plan: MarginalPlan) -> dict[str, Any]:
    """The columns of all tables: the outcomes of both groups at the threshold, and their difference."""
    tables = []
    for family in sums.families:
        numbers = at_threshold(
            family,
            float(plan.threshold),
            bandwidth=plan.bandwidth,
            method=plan.method,
            kernel=plan.kernel,
            reference=plan.reference,
            tolerance=plan.tolerance,
        )
        first, second = numbers["pairs"].T
        wide = tails.t_as_rare(float(tails.normal_isf(plan.alpha)), numbers["df"]) * numbers["se"]
        critical = float(tails.normal_isf(plan.alpha)) * numbers["estimate_se"]
        outcomes = {"": numbers["estimate"]}
        outcomes |= {"_low": outcomes[""] - critical, "_high": outcomes[""] + critical}
        tables.append(
            {
                **pair_lines(family, numbers["pairs"]),
                **{f"estimate{end}": values[first] for end, values in outcomes.items()},
                **{f"reference{end}": values[second] for end, values in outcomes.items()},
                "disparity": numbers["disparity"],
                "se": numbers["se"],
                "ci_low": numbers["disparity"] - wide,
                "ci_high": numbers["disparity"] + wide,
                "pvalues": numbers["pvalue"],
                "effective_n": numbers["effective_n"][first],
                "reference_effective_n": numbers["effective_n"][second],
                "bandwidth": np.full(first.size, numbers["bandwidth"]),
            }
        )
    return join_tables(tables)


def at_threshold(
    family: Family,
    threshold: float,
    *,
    bandwidth: float | Literal["cross-validation"] | None = None,
    method: str = "local-quadratic",
    kernel: Kernel = "gaussian",
    reference: Mapping[str, object] | None = None,
    tolerance: float | None = None,
) -> dict[str, Any]:
    """Outcomes of the groups of one table at the threshold, and the differences of its pairs; NaN where unsupported.

    Of each group: estimate, estimate_se, effective_n. Of each of the ``pairs``: disparity, se, df, pvalue.
    """
    sums, point, degree = family.sums, np.array([threshold]), DEGREES[method]
    widths = family.bandwidth(bandwidth, point, published=not degree)
    smoother = Smoother(point, widths.at(point), degree, kernel)
    fit = fit_curves(sums, smoother)
    # A curve that begins far from the threshold is not known there.
    reach = replace(smoother, width=BESIDE * smoother.width)
    beside = users_near(sums, range(sums.size), reach)[:, 0] >= FEWEST
    supported = enough(fit.effective, fit.mean, binary=family.binary)[:, 0] & beside
    pairs = np.array(family.pairs(reference))
    contrasts = [_difference(family, widths, smoother, fit, (int(i), int(j))) for i, j in pairs]
    compared = (beside if degree else supported)[pairs].all(axis=1)  # a group without events can be compared
    difference, se, df = (np.where(compared, values, np.nan) for values in zip(*contrasts, strict=True))
    return {
        "estimate": np.where(supported, fit.beta[0][:, 0], np.nan),
        "estimate_se": np.where(supported, fit.errors(sums)[:, 0], np.nan),
        "effective_n": fit.effective[:, 0],
        "pairs": pairs,
        "disparity": difference,
        "se": se,
        "df": df,
        "pvalue": beyond(difference, se, df, tolerance)[1],
        "bandwidth": float(smoother.width[0]),
    }


def _difference(
    family: Family, bandwidth: Bandwidth, smoother: Smoother, fit: GroupCurves, pair: Pair
) -> tuple[float, float, float]:
    """The difference of two groups at the threshold, its standard error and its degrees of freedom."""
    if not smoother.degree:
        contrast = means(family.sums, pair, None, smoother, fit.users[list(pair)])
    else:
        pooled = family.pooled(pair, bandwidth)
        if not family.supported(pair, pooled, smoother, fit).all():
            return np.nan, np.nan, np.nan
        contrast = orthogonal(family.sums, pair, pooled, smoother, binary=family.binary)
    covariance, df = contrast.law(family.sums, pair)
    return float(contrast.estimate[0]), float(contrast.errors(covariance)[0]), float(df[0])


# ---- decide


def decide(columns: Mapping[str, Any], plan: MarginalPlan) -> dict[str, Any]:
    """All pairs of all tables adjusted together."""
    within = inside(columns["ci_low"], columns["ci_high"], plan.tolerance)
    shown = conclude(columns["pvalues"], alpha=plan.alpha, adjust=plan.adjust, within=within)
    return {
        "status": line_status(columns["disparity"]),
        "adjusted_pvalue": shown.adjusted,
        "verdicts": shown.verdicts,
        "verdict": shown.verdict,
    }


def notes(sums: ScoreSums, columns: Mapping[str, Any], plan: MarginalPlan) -> tuple[Note, ...]:
    """What the reader must know about the scores, the method, and groups whose outcome is not known."""
    known: list[Note] = [] if sums.families[0].sums.axis.unit else [Note("outside_unit")]
    if plan.method == "published":
        known.append(Note("published_margin"))
    known.extend(note_if("nobody_above", groups_below(plan)))
    tables = np.array(columns["tables"], dtype=object)
    for family in sums.families:
        lines = np.flatnonzero(tables == family.title)
        few = {columns["groups"][i] for i in lines if np.isnan(columns["estimate"][i])}
        few |= {columns["opposite"][i] for i in lines if np.isnan(columns["reference"][i])}
        labels = [group.label for group in family.groups if group in few]
        known.extend(note_if("few_at_threshold", labels, width=float(columns["bandwidth"][lines[0]])))
        if family.sums.spanning:
            known.append(Note("spanning_above"))
    return tuple(known)


# ---- evidence


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class MarginalResult(OutcomeEvidence):
    """Outcomes of those at the threshold, one line for each pair of groups; see `isonomy.marginal_outcomes`."""

    method: ClassVar[str] = words.MARGINAL_METHOD
    always_assumed: ClassVar[tuple[tuple[str, str], ...]] = words.MARGINAL_ASSUMPTIONS
    never_shown: ClassVar[tuple[str, ...]] = words.MARGINAL_LIMITS

    threshold: float

    @property
    def pvalue(self) -> float:
        """The smallest of all pairs' p-values, adjusted."""
        return smallest(self.adjusted_pvalue)

    def pages(self) -> Mapping[str, Columns]:
        """The differences, then the outcomes of both groups."""
        return self.paged(words.MARGINAL_PAGES)

    def findings(self) -> tuple[str, ...]:
        """Each pair, then the outcome at the threshold by group; the table that decides the verdict comes first."""
        findings = []
        for table in self.deciding_first():
            lines, verdict = self.lines_of(table).tolist(), self.judged(table)[0]
            pairs = [i for i in lines if np.isfinite(self.disparity[i]) and not np.isnan(self.adjusted_pvalue[i])]
            pairs.sort(key=lambda i: (self.verdicts[i] is not verdict, self.adjusted_pvalue[i]))
            findings += [words.marginal_pair(self, i) for i in pairs[:MOST_PAIRS]]
            if not np.isfinite(self.disparity[lines]).any():
                findings.append(words.margins_not_compared(table))
            for label, numbers in self.by_group(table).items():
                if np.isfinite(numbers["estimate"][0]):
                    findings.append(words.marginal_group(self, label, numbers))
        return tuple(findings)

    def plot(self) -> alt.TopLevelMixin:
        """The outcome at the threshold in each group, with its interval."""
        from isonomy.scores import charts

        return charts.marginal(self)
