"""Adverse impact: the selection rate of each category relative to the category selected most often, or to one named.

The table that audits publish, with the uncertainty they lack. A ratio's logarithm has the likelihood of `profile` on
the scale of `LOG`. The group that is selected most often is itself unknown, which `AgainstBest` accounts for: "below
the threshold" is shown by the smallest of a group's one-sided p-values against the others, times their number, and "at
least the threshold" by the largest of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Unpack

import numpy as np

from isonomy.errors import MissingRole, UnknownOption, UsageError, near
from isonomy.frames import Group, Grouping, Groups, Partition, Request, Sample, Source
from isonomy.frames.metrics import Measure, measure
from isonomy.frames.proxies import proxy_of
from isonomy.groups import proxy_words, words
from isonomy.groups.disparities import Given
from isonomy.groups.flag import flag
from isonomy.groups.likelihood.comparison import pair_effect
from isonomy.groups.likelihood.means import LOG, Binary, linked
from isonomy.groups.likelihood.profile import Kind, ProfileLikelihood
from isonomy.groups.proxy import ProxyEvidence, ProxyPlan, impact_by_proxy, impact_columns
from isonomy.inference import Verdict, conclude, rejected
from isonomy.inference.decide import Alternative
from isonomy.inference.designs import FEWEST, Influence, Law, Spread, spread
from isonomy.inference.effect import AgainstBest, Designed, Effect, Hypothesis, every_pair
from isonomy.inference.multiplicity import adjust as adjusted
from isonomy.inference.multiplicity import sup_t
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray
from isonomy.numerics.roots import bisection
from isonomy.numerics.status import Status
from isonomy.numerics.tails import chi2_isf
from isonomy.options import Alpha, Column, Form, Fraction, Number, RowOptions, Seeded, Whole
from isonomy.results import Columns, Evidence, Movement, Note, Plan, column, note_if, open_call, phrases, question
from isonomy.results.columns import join_tables

if TYPE_CHECKING:
    import altair as alt

Comparator = Annotated[str | Mapping[str, object] | Group, Form("comparator")]
Share = Annotated[float, Number(least=0, below=1)]
Family = Literal["holm", "bonferroni", "bh", "by", "none"]

# Cutoffs at which ratios are computed: quantiles of all scores, which reveal nothing about single people.
CUTOFFS = np.arange(2, 100, 2) / 100
MOST_GROUPS = 1_000  # categories described in words; the table has them all
# Selections that a group must have at a cutoff for a ratio there, and refusals as well for its band: the critical value
# is that of normal statistics.
SELECTED = 10
# Groups up to which the band uses the correlation between cutoffs; beyond, Bonferroni's critical value.
CORRELATED, DRAWS = 20, 4_000

Laws = Callable[[IntArray, IntArray], Law]  # of T for pairs of groups, for rows with weights or clusters


# ---- call


@question(
    "plan_impact",
    asks="How often is each category selected, relative to its comparator, and what do the data show?",
    topic="Impact ratios",
    speaks_of=("selected",),
    from_counts=True,
    scale_of=("flag", {"metric": "selection_rate", "scale": "ratio"}),
    badges={"violation": "Lower rate shown"},
    verdicts={
        "violation": "an impact ratio is below the threshold, by more than chance explains.",
        "within_tolerance": "every impact ratio was shown to be at least the threshold.",
        "inconclusive": "for at least one category, these data do not show whether its impact ratio is below the "
        "threshold.",
    },
    next_steps={
        "violation": (
            "Have counsel review the selection of these categories: the legal meaning of a ratio is not a statistical "
            "question.",
            "Ask whether the selection criteria are needed, and whether other criteria would lead to smaller "
            "differences.",
            phrases.WITHIN_FACTORS,
        ),
        "within_tolerance": (
            phrases.RECORD_CHOICE[1],
            "Repeat the table for the next period, and for every stage of the selection.",
        ),
        "inconclusive": (
            "Do not report this as equal treatment. An observed ratio below the threshold remains one, even if chance "
            "can explain it.",
            "Combine several periods if the categories are small.",
        ),
    },
)
def adverse_impact(
    data: object = None,
    *,
    groups: Groups,
    prediction: Column | None = None,
    score: Column | None = None,
    reference: Comparator = "highest",
    threshold: Fraction = 0.8,
    alpha: Alpha = 0.05,
    adjust: Family = "holm",
    depth: Whole = 1,
    min_size: Whole = 10,
    smallest_share: Share = 0.0,
    given: Given = None,
    rng: Seeded = None,
    **rows: Unpack[RowOptions],
) -> AdverseImpactResult:
    """How often is each category selected, relative to the one selected most often, and what do the data show?

    The impact ratio of a category is its selection rate divided by that of its comparator. Three facts are reported
    separately: whether the observed ratio is below ``threshold``; whether a difference was shown; and whether a ratio
    below the threshold was shown (the verdict *violation*; *within tolerance* if a ratio of at least the threshold
    was).

    Parameters
    ----------
    data, alpha, rng
        As in `isonomy.flag`.
    groups : str, cut, where or sequence of these, or proxy
        The categories. Each column is a table with its own comparator and, with ``depth=2``, so is every combination of
        two columns. `isonomy.proxy`: groups known only by probability, with a named reference.
    prediction : str, optional
        The decision, 1 for those selected.
    score : str, optional
        A score. Without decisions, selected means above the median of all scores (ties are not above); with decisions,
        the score adds the ratios by cutoff.
    reference : {"highest"} or mapping, default "highest"
        The category selected most often in each table, or a level of every column of ``groups``, such as
        ``{"race": "White", "sex": "male"}``.
    threshold : float, default 0.8
        The ratio in question: a convention, not a law.
    adjust : {"holm", "bonferroni", "bh", "by", "none"}, default "holm"
        The adjustment of p-values for the number of categories in all tables.
    depth : int, default 1
        How many columns are combined into a table.
    min_size : int, default 10
        Categories with fewer rows are listed with their rate but without a ratio, and are not comparators.
    smallest_share : float, default 0.0
        Categories with a smaller share of a table's rows are treated in the same way.
    given : str, cut, where or sequence of these, or iso.comparable(...), optional
        Legitimate factors: the ratios among comparable people stand beside the others, as `isonomy.flag` computes them
        with ``scale="ratio"``. Needs decisions and a named ``reference``. Verdicts are about the ratios of all people.
    **rows
        count, weight, cluster, missing, missing_group: how rows are read; see `isonomy.RowOptions`. With weights, ``n``
        and ``selected`` count rows, ``weighted_n`` and ``weighted_selected`` the people they stand for; rates, ratios
        and shortfalls refer to people. Weights that average less than 1 are scaled to an average of 1 for these counts,
        and there is no band over cutoffs. ``missing_group="level"`` counts missing categories as unknown, with bounds
        for each ratio.

    Returns
    -------
    AdverseImpactResult
        ``to_frame()`` has one row per category of each table: table, group, against, n, estimate, reference, disparity,
        ci_low, ci_high, pvalue, adjusted_pvalue, verdict, status, selected, difference, shortfall, and more. If the
        comparator is named, or there are two categories, of independent rows without weights: ``deviations``, the
        number of standard deviations between the selections and those expected at equal rates (hypergeometric), and
        ``fisher_pvalue``, that of Fisher's exact test, which is conditional on the margins.

    Notes
    -----
    The category selected most often is itself unknown. Intervals and p-values account for its choice (multiple
    comparisons with the best); otherwise they would blame the runner-up. The interval is that of the smallest of a
    category's ratios to all others. ``shortfall`` is the number of additional selections with which the category would
    reach the threshold, all else unchanged; ``shortfall_parity`` that for the comparator's rate.

    If a category or its comparator has fewer than 20 selections or 20 rejections, the skewness-corrected score
    statistic replaces the likelihood ratio, as in `isonomy.flag`.

    When it misleads: if rows are not independent, or if applicants differ between categories; `isonomy.flag` with
    ``given`` compares like with like.

    References
    ----------
    Hsu, J. C. (1981). Simultaneous confidence intervals for all distances from the "best". Annals of Statistics 9,
    1026-1034.

    Examples
    --------
    >>> import isonomy as iso
    >>> table = {"hired": [1] * 48 + [0] * 32 + [1] * 12 + [0] * 28, "sex": ["m"] * 80 + ["f"] * 40}
    >>> result = iso.adverse_impact(table, prediction="hired", groups="sex")
    >>> result.to_frame().select("group", "n", "selected", "estimate", "disparity", "shortfall", "verdict").rows()
    [('sex=f', 40, 12, 0.3, 0.5, 8, 'violation'), ('sex=m', 80, 48, 0.6, 1.0, 0, 'inconclusive')]
    """
    plan, rng, record = open_call("adverse_impact", plan_impact, locals())
    if isinstance(plan, ProxyPlan):
        return AdverseImpactResult(**impact_columns(plan, record, phrases.chosen(plan.source.labels.metrics)))
    sample = plan.source.cells(plan.request) if plan.score is None else plan.source.rows(plan.request)
    tables = [Table(partition, sample, plan) for partition in sample.partitions]
    columns = join_tables([compare(table, plan, rng) for table in tables])
    alike, about = ({}, ()) if plan.given is None else compare_alike(tables, plan)
    design = None
    if sample.design is not None:
        totals = Spread.join([table.spread for table in tables])
        with np.errstate(all="ignore"):
            design = totals.effect(totals.law(np.concatenate([table.variance for table in tables])))
    return AdverseImpactResult(
        **columns,
        **alike,
        **decide(columns, plan),
        design=design,
        null=words.IMPACT_NULL.format(phrases.number(plan.threshold)),
        notes=(*notes(tables, columns, plan, sample.dropped), *about),
        provenance=record(rows=sample.rows, dropped=sample.dropped, random=plan.score is not None),
        threshold=plan.threshold,
        alpha=plan.alpha,
        median=tables[0].median,
        named=plan.levels is not None,
        unknown={table.name: round(table.unknown_rows) for table in tables},
        cutoffs=tables[0].cutoffs,
        chosen=phrases.chosen(plan.source.labels.metrics),
    )


# ---- plan


def plan_impact(source: Source, **options: Any) -> ImpactPlan | ProxyPlan:
    proxy = proxy_of(options["groups"])
    return ImpactPlan(source, **options) if proxy is None else impact_by_proxy(source, proxy, options)


@dataclass(frozen=True, eq=False, kw_only=True)
class ImpactPlan(Plan):
    groups: Groups
    prediction: str | None
    score: str | None
    reference: Comparator
    threshold: float
    alpha: float
    adjust: Family
    depth: int
    min_size: int
    smallest_share: float
    given: Given

    def __post_init__(self) -> None:
        _ = self.grouping
        if self.given is not None and (self.levels is None or self.prediction is None):
            raise UsageError(
                "given: needs decisions, and people to compare with; give prediction=<column> and a reference such as "
                "{'race': 'White'}."
            )
        if self.prediction is None and self.score is None:
            raise MissingRole("prediction: decisions or scores are needed; name the column of one of them.")
        self.source.require(score=self.score)
        _ = self.request, self.levels

    @cached_property
    def grouping(self) -> Grouping:
        return self.source.grouping(self.groups, self.depth)

    @cached_property
    def measure(self) -> Measure | None:
        """The decisions; None if there are only scores."""
        if self.prediction is None:
            return None
        return measure(self.source, "selection_rate", grouping=self.grouping, prediction=self.prediction)

    @cached_property
    def request(self) -> Request:
        request = Request(self.grouping) if self.measure is None else self.measure.request
        if self.score is None:
            return request
        return Request(self.grouping, binary=request.binary, numeric={**request.numeric, "score": self.score})

    @property
    def requests(self) -> tuple[Request, ...]:
        return (self.request,) if self.score is None else ()

    @cached_property
    def levels(self) -> Mapping[str, object] | None:
        """The comparator's level of every dimension; None for the category selected most often."""
        reference, dimensions = self.reference, [dimension.name for dimension in self.grouping.dimensions]
        if isinstance(reference, str) and reference == "highest":
            return None
        if not isinstance(reference, (Group, Mapping)):
            raise UnknownOption("reference", reference, ("highest", "a mapping such as {'race': 'White'}"))
        levels = dict(reference.items) if isinstance(reference, Group) else dict(reference)
        absent = [name for name in dimensions if name not in levels]
        unknown = [name for name in levels if name not in dimensions]
        if absent:
            example = ", ".join(f"{name!r}: {levels.get(name, '...')!r}".replace("'...'", "...") for name in dimensions)
            raise UsageError(
                "reference: every column, cut or condition of the groups has a table of impact ratios of its own, and "
                f"each table needs a group to compare with. None is given for {phrases.listed(absent)}. Give one for "
                f"each, {{{example}}}; or give 'highest', which takes the group selected most often in each table."
            )
        if unknown:
            raise UsageError(
                f"reference: {unknown[0]!r} is not among the groups, {phrases.listed(dimensions)}; leave it out."
            )
        return levels


# ---- read


class Table:
    """The categories of one partition, and the rows whose category is unknown.

    ``n`` and ``selected`` are by weight, ``rows`` and ``chosen`` count rows. ``people`` is how many people a row of
    average weight stands for, at least 1. ``above`` (cutoffs x categories) is the mass above each cutoff.
    """

    def __init__(self, partition: Partition, sample: Sample, plan: ImpactPlan) -> None:
        mass = np.asarray(sample.mass, dtype=float)
        counts = mass if sample.design is None else sample.design.rows
        score = np.asarray(sample.columns.get("score", np.zeros(mass.size)), dtype=float)
        self.cutoffs = np.empty(0) if plan.score is None else np.unique(quantiles(score, mass, CUTOFFS))
        self.median = float(quantiles(score, mass, np.array([0.5]))[0]) if plan.measure is None else None
        self.decided = (score > self.median).astype(float) if plan.measure is None else plan.measure.value(sample)
        n = partition.sum(mass)
        unknown = np.array([any(value is None for _, value in group.items) for group in partition.groups], dtype=bool)
        known = ~unknown & (n > 0)
        self.name, self.design = partition.title, sample.design
        self.people = 1.0 if sample.design is None else max(sample.design.people, 1.0)
        self.unknown_rows = float(partition.sum(counts)[unknown].sum())
        self.groups = tuple(group for group, keep in zip(partition.groups, known, strict=True) if keep)
        self.codes = np.append(np.where(known, np.cumsum(known) - 1, -1), -1)[partition.codes]
        selected = partition.sum(mass * self.decided)
        self.n, self.selected, self.rate = n[known], selected[known], selected[known] / n[known]
        self.variance = self.rate * (1.0 - self.rate) / self.n
        self.rows, self.chosen = partition.sum(counts)[known], partition.sum(counts * self.decided)[known]
        self.unknown, self.unknown_selected = float(n[unknown].sum()), float(selected[unknown].sum())
        above = [partition.sum(mass * (score > cutoff))[known] for cutoff in self.cutoffs]
        self.above = np.array(above).reshape(self.cutoffs.size, self.n.size)

    @cached_property
    def influence(self) -> Influence:
        values = (self.decided - self.rate[self.codes]) / self.n[self.codes]
        return Influence.from_groups(self.codes, values, self.n.size)

    @cached_property
    def spread(self) -> Spread:
        assert self.design is not None
        return spread(self.design, self.influence)

    @cached_property
    def worth(self) -> FloatArray:
        """Equal rows that would know each rate as well: fewer, with weights, than the rows.

        The smaller number of two: by the weights alone, which is right whatever the rate if they do not depend on the
        decisions; and by the spread of the weighted decisions, which few selections seldom show.
        """
        if self.design is None or self.design.clusters is not None:
            return self.n
        with np.errstate(all="ignore"):
            by_spread = self.n * self.variance / self.spread.variance
        return np.fmin(self.spread.effective, np.where(by_spread > 0, by_spread, np.inf))

    def law(self, i: IntArray, j: IntArray) -> Law:
        """The law of T for pairs of categories, whose rates are dependent if clusters have rows in both.

        With weights alone, T is that of as many equal rows as they are worth.
        """
        assert self.design is not None
        if self.design.clusters is None:
            return Law(np.ones(i.size), np.minimum(self.worth[i], self.worth[j]) - 1.0)
        effect, totals = pair_effect(self.design, self.influence, self.variance, i, j)
        return Law(effect, np.minimum(totals.df[i], totals.df[j]))

    def place(self, levels: Mapping[str, object]) -> int:
        for place, group in enumerate(self.groups):
            if all(str(levels.get(name)) == str(value) for name, value in group.items):
                return place
        dimensions = dict(self.groups[0].items) if self.groups else levels
        label = Group.from_mapping({name: levels[name] for name in levels if name in dimensions}).label
        close = near(label, [str(group) for group in self.groups[:1000]])
        raise UsageError(f"reference: no row of the table {self.name!r} has {label}.{close}")


def quantiles(values: FloatArray, mass: FloatArray, levels: FloatArray) -> FloatArray:
    """Quantiles of rows that each stand for ``mass``; halfway between two rows if one ends exactly there."""
    order = np.argsort(values, kind="stable")
    total = np.cumsum(mass[order])
    target = levels * total[-1]
    close = 1e-9 * total[-1]
    low, high = (np.searchsorted(total, target + shift, side="left") for shift in (-close, close))
    last = values.size - 1
    return 0.5 * (values[order][np.minimum(low, last)] + values[order][np.minimum(high, last)])


# ---- estimate


def compare(table: Table, plan: ImpactPlan, rng: np.random.Generator) -> dict[str, Any]:
    """The columns of one table, which has its own comparator; NaN for comparisons that are not made."""
    n, size = table.n, table.n.size
    status = np.full(size, Status.OK, dtype=object)
    small = (table.rows < plan.min_size) | (n < plan.smallest_share * (n.sum() + table.unknown))
    status[small] = Status.TOO_SMALL
    if table.design is not None:
        status[(table.spread.effective < FEWEST) & ~small] = Status.FEW_CLUSTERS
    reference = None if plan.levels is None else table.place(plan.levels)
    if reference is not None:
        status[reference] = Status.REFERENCE
    used = np.flatnonzero(np.isin(status, (Status.OK, Status.REFERENCE)))
    if used.size == 1:  # nobody is left to compare it with
        status[used] = Status.REFERENCE
    columns: dict[str, Any] = {name: np.full(size, np.nan) for name in COMPARED}
    columns |= {name: np.full(table.above.shape, np.nan) for name in BY_CUTOFF}
    columns |= {"tables": (table.name,) * size, "groups": table.groups, "against": ("",) * size}
    columns |= {"n": table.rows, "selected": table.chosen, "estimate": table.rate, "status": status}
    people, chosen = table.people * n, table.people * table.selected
    if plan.source.reading["weight"] is not None:
        columns |= {"weighted_n": people, "weighted_selected": chosen}
    if used.size < 2:
        return columns
    named = None if reference is None else int(np.flatnonzero(used == reference)[0])
    laws = None if table.design is None else lambda first, second: table.law(used[first], used[second])
    worth = table.worth[used]
    place, ratios = impact_ratios(worth, table.rate[used] * worth, named, plan.alpha, plan.threshold, laws)
    best = int(used[place])
    status[best] = Status.REFERENCE
    if table.selected[best] == 0:
        status[used] = Status.ZERO_BASELINE
        return columns
    columns["against"] = tuple(str(table.groups[best]) if i in used else "" for i in range(size))
    rate = float(table.rate[best])
    compared = {
        "reference": rate,
        **ratios,
        "shortfall": shortfall(people[used], chosen[used], plan.threshold * rate),
        "shortfall_parity": shortfall(people[used], chosen[used], rate),
    }
    if table.design is None and (named is not None or used.size == 2):  # the choice of one of two changes nothing
        compared |= two_by_two(n[used], table.selected[used], place)
    if table.unknown:
        refused = table.unknown - table.unknown_selected
        bounds = unknown_bounds(n[used], table.selected[used], table.unknown_selected, refused, named)
        compared |= dict(zip(("bound_low", "bound_high"), bounds, strict=True))
    for name, values in compared.items():
        columns[name][used] = values
    curves = band(n[used], table.above[:, used], named, plan.alpha, rng)
    # The band assumes independent rows.
    for name, values in zip(BY_CUTOFF, curves if table.design is None else curves[:1], strict=False):
        columns[name][:, used] = values
    return columns


def compare_alike(tables: list[Table], plan: ImpactPlan) -> tuple[dict[str, Any], tuple[Note, ...]]:
    """The ratios among comparable people, by `flag`, and its notes; each table has its own comparator."""
    specs = plan.groups if isinstance(plan.groups, (list, tuple)) else [plan.groups]
    spec_of = {dimension.name: spec for dimension, spec in zip(plan.grouping.dimensions, specs, strict=True)}
    assert plan.levels is not None
    columns: dict[str, list[float]] = {name: [] for name in ALIKE}
    about: list[Note] = []
    for dimensions, table in zip(plan.grouping.subsets, tables, strict=True):
        names = [dimension.name for dimension in dimensions]
        result = flag(
            plan.source,
            metric="selection_rate",
            prediction=plan.prediction,
            groups=[spec_of[name] for name in names],
            reference={name: plan.levels[name] for name in names},
            scale="ratio",
            given=plan.given,
            alpha=plan.alpha,
            adjust=plan.adjust,
            depth=len(names),
            min_size=plan.min_size,
        )
        places = {label: i for i, label in enumerate(result.labels)}
        for label in map(str, table.groups):
            i = places.get(label)
            for name, source in ALIKE.items():
                columns[name].append(np.nan if i is None else float(getattr(result, source)[i]))
        about += [note for note in result.notes if note.code not in ("dropped", "large_sample")]
    factors = {"given": result.given, "model": result.model}
    return {name: np.array(values) for name, values in columns.items()} | factors, tuple(about)


# The columns of ratios among comparable people, and their names in `flag`.
ALIKE = {
    "comparable_estimate": "estimate",
    "comparable_rate": "reference_value",
    "comparable_ratio": "disparity",
    "comparable_low": "ci_low",
    "comparable_high": "ci_high",
    "comparable_pvalue": "adjusted_pvalue",
}


def two_by_two(n: FloatArray, k: FloatArray, reference: int) -> dict[str, FloatArray]:
    """Each group against the reference, given both margins: standard deviations from the expected, and Fisher's p."""
    from scipy.stats import fisher_exact  # slow to import

    total, hits = n + n[reference], k + k[reference]
    with np.errstate(all="ignore"):
        variance = n * n[reference] * hits * (total - hits) / (total**2 * (total - 1.0))
        deviations = (k - n * hits / total) / np.sqrt(variance)
    counts = [np.rint([[k[i], n[i] - k[i]], [k[reference], (n - k)[reference]]]) for i in range(n.size)]
    exact = np.array([float(fisher_exact(table.astype(int)).pvalue) for table in counts])
    alone = np.arange(n.size) == reference
    return {"deviations": np.where(alone, np.nan, deviations), "fisher_pvalue": np.where(alone, np.nan, exact)}


# The columns of a comparison.
COMPARED = (
    *("reference", "disparity", "ci_low", "ci_high", "difference", "pvalue", "below_pvalue", "at_least_pvalue"),
    *("shortfall", "shortfall_parity", "bound_low", "bound_high", "deviations", "fisher_pvalue"),
)
BY_CUTOFF = ("cutoff_ratio", "cutoff_low", "cutoff_high")


def impact_ratios(
    n: FloatArray, k: FloatArray, reference: int | None, alpha: float, threshold: float, laws: Laws | None = None
) -> tuple[int, dict[str, FloatArray]]:
    """Each group's rate over that of its comparator, and the place of the comparator.

    ``k`` of ``n`` rows of each group were selected. Groups are compared with the one selected most often, whichever
    that is, or with a ``reference`` that was named beforehand, which has no p-values and no interval. ``pvalue`` is
    that of no difference, ``below_pvalue`` that of a ratio of at least the threshold (small: it was shown to be below),
    ``at_least_pvalue`` that of a ratio of at most the threshold.
    """
    rate, size, limit = k / n, n.size, float(np.log(threshold))
    best = int(np.argmax(rate)) if reference is None else reference
    if reference is None:
        tested, (first, second) = np.arange(size), every_pair(size)
        effect: Effect = AgainstBest(log_ratios(n, k, first, second, laws), first)
    else:
        tested = np.flatnonzero(np.arange(size) != reference)
        effect = log_ratios(n, k, tested, np.full(tested.size, reference), laws)

    def placed(values: FloatArray) -> FloatArray:
        result = np.full(size, np.nan)
        result[tested] = values
        return result

    def tail(null: float, side: Alternative) -> FloatArray:
        statistic, pvalue = effect.test(Hypothesis(null, null, side))
        return placed(np.where(np.isnan(statistic), np.nan, pvalue))

    with np.errstate(all="ignore"):
        low, high = (placed(np.exp(end)) for end in effect.interval(chi2_isf(alpha, 1)))
        # The data decide which of two groups is the best: no difference is rejected in either direction.
        equal = np.minimum(2.0 * tail(0.0, "less"), 1.0) if reference is None else tail(0.0, "two-sided")
        ratios = {"disparity": rate / rate[best], "ci_low": low, "ci_high": high, "difference": rate - rate[best]}
        pvalues = {"below_pvalue": tail(limit, "less"), "at_least_pvalue": tail(limit, "greater")}
        return best, ratios | {"pvalue": equal} | pvalues


def log_ratios(n: FloatArray, k: FloatArray, first: IntArray, second: IntArray, laws: Laws | None) -> Effect:
    """The logarithm of each pair's ratio; few selections, or few refusals, have the score statistic."""
    rates = linked(Binary(n, k), LOG)
    pairs = ProfileLikelihood(Kind.DISJOINT, rates, first, other=rates, partner=second)
    if laws is None:
        return pairs.scoring_few()
    law = laws(first, second)
    return Designed(pairs.scoring_few() if (law.effect == 1).all() else pairs, law)


def shortfall(n: FloatArray, k: FloatArray, rate: float) -> FloatArray:
    """How many more people of each group would have to be selected to reach ``rate``; 0 if it is reached."""
    # 0.8 x 0.5 x 100 is 40.000000000000004 in binary arithmetic, but 40 selections are enough.
    need = rate * n - k
    return np.maximum(np.ceil(need - 1e-9 * np.maximum(n, 1.0)), 0.0)


def unknown_bounds(
    n: FloatArray, k: FloatArray, selected: float, refused: float, reference: int | None
) -> tuple[FloatArray, FloatArray]:
    """The smallest and the largest impact ratios, whichever categories the unknown rows belong to.

    ``selected`` and ``refused`` unknown rows may belong to any category, each to one. A group's ratio is smallest if
    all that were refused are its own and all that were selected are the comparator's. It is largest if those selected
    are its own and those refused lower the rate of the comparator, or of all groups that could be the best.
    """
    size = n.size
    least, most = np.full(size, np.nan), np.full(size, np.nan)
    for g in range(size):
        others = np.arange(size) != g
        if reference is not None:
            others &= np.arange(size) == reference
        if not others.any():
            continue
        with np.errstate(all="ignore"):
            low = k[g] / (n[g] + refused) / ((k[others] + selected) / (n[others] + selected))
            most[g] = (k[g] + selected) / (n[g] + selected) / _lowest_best(n[others], k[others], refused)
        least[g] = float(np.nanmin(low, initial=np.inf))
    if reference is None:
        least, most = np.minimum(least, 1.0), np.minimum(most, 1.0)
    return least, most


def _lowest_best(n: FloatArray, k: FloatArray, refused: float) -> float:
    """The smallest possible largest rate if ``refused`` whole rows more, none selected, are shared out."""
    high = float(np.max(k / n))
    if high == 0.0 or refused == 0.0:
        return high

    def added(rate: FloatArray) -> FloatArray:
        with np.errstate(all="ignore"):
            return np.maximum(np.ceil(k / rate - n - 1e-9), 0.0)

    lowest = bisection(lambda rate: np.array(added(rate).sum() > refused), np.array(0.0), np.array(high))
    return float(np.max(k / (n + added(lowest))))


def band(
    n: FloatArray, above: FloatArray, reference: int | None, alpha: float, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Impact ratios at many cutoffs (cutoffs x groups), with a simultaneous band.

    ``above`` (cutoffs x groups) counts each group's rows above each cutoff; cutoffs increase. For every group and each
    possible comparator, the logarithm of the ratio has a normal limit with a known correlation between cutoffs; the
    critical value is that of the largest deviation, at alpha over the number of comparators. The limits at a cutoff are
    those of the ratio there (`log_ratios`) at that critical value.
    """
    points, size = above.shape
    with np.errstate(all="ignore"):
        share = above / n
        variance = np.where(np.minimum(above, n - above) >= SELECTED, (1.0 - share) / above, np.nan)
        rate = np.log(np.where(above >= SELECTED, share, np.nan))
        best = np.nanmax(np.where(np.isnan(rate), -np.inf, rate), axis=1)
    ratio, low, high = np.full((3, points, size), np.nan)
    for g in range(size):
        others = [reference] if reference is not None else [j for j in range(size) if j != g]
        if others == [g] or not np.isfinite(rate[:, g]).any():
            continue
        ratio[:, g] = rate[:, g] - (best if reference is None else rate[:, reference])
        ends = np.full((2, points, len(others)), np.nan)
        for i, j in enumerate(others):
            known = np.flatnonzero(~np.isnan(variance[:, [g, j]]).any(axis=1))
            if known.size:
                critical = _critical(variance[known][:, [g, j]], alpha / len(others), rng, size)
                first = np.arange(known.size)
                rows, selected = np.repeat(n[[g, j]], known.size), above[known][:, [g, j]].T.ravel()
                pairs = log_ratios(rows, selected, first, first + known.size, None)
                ends[:, known, i] = pairs.interval(critical**2)
        # A comparator with too few selections for a limit could be anything: the lower limit is then unknown.
        low[:, g], high[:, g] = np.min(ends[0], axis=1), np.fmin.reduce(ends[1], axis=1)
    ratio, low, high = np.exp(ratio), np.exp(low), np.exp(high)
    if reference is None:
        low, high = np.minimum(low, 1.0), np.minimum(high, 1.0)
    return ratio, low, high


def _critical(variance: FloatArray, alpha: float, rng: np.random.Generator, groups: int) -> float:
    """The critical value of the largest deviation over cutoffs of a difference of two logarithms of rates.

    The logarithm of the share S above c has the variance (1 - S)/(n S), which increases with c and is also its
    covariance with the logarithm at any higher cutoff.
    """
    both = variance.sum(axis=1)
    if groups > CORRELATED:
        return float(np.sqrt(chi2_isf(alpha / both.size, 1)))
    covariance, deviation = np.minimum.outer(both, both), np.sqrt(both)
    correlation = np.where(covariance > 0, covariance / np.maximum(np.outer(deviation, deviation), 1e-300), np.nan)
    return sup_t(correlation, alpha=alpha, draws=DRAWS, rng=rng).critical


# ---- decide


def decide(columns: Mapping[str, Any], plan: ImpactPlan) -> dict[str, Any]:
    """Three facts about each category, the last of which is the verdict; p-values are adjusted over all tables."""
    comparators = columns["status"] == Status.REFERENCE
    # The observed best of a table is compared with the others too, but cannot be below them.
    untested = comparators & (plan.levels is None)
    below, equal = (np.where(untested, np.nan, columns[name]) for name in ("below_pvalue", "pvalue"))
    shown = conclude(
        below, alpha=plan.alpha, adjust=plan.adjust, within_pvalue=columns["at_least_pvalue"], concerned=~comparators
    )
    with np.errstate(invalid="ignore"):
        observed = columns["disparity"] < plan.threshold
    return {
        "below_threshold": observed,
        "difference_shown": rejected(adjusted(equal, plan.adjust), plan.alpha),
        "adjusted_pvalue": shown.adjusted,
        "verdict": shown.verdict,
        "verdicts": tuple(  # the comparator itself is not judged
            Verdict.INCONCLUSIVE if itself else verdict
            for itself, verdict in zip(comparators, shown.verdicts, strict=True)
        ),
    }


def notes(
    tables: list[Table], columns: Mapping[str, Any], plan: ImpactPlan, dropped: Mapping[str, int]
) -> tuple[Note, ...]:
    status, labels = columns["status"], np.array([str(group) for group in columns["groups"]])
    able = ~np.isin(status, (Status.TOO_SMALL, Status.FEW_CLUSTERS))
    alone = [table.name for table in tables if int(able[np.array(columns["tables"]) == table.name].sum()) < 2]
    unknown = [{"table": t.name, "unknown": t.unknown_rows, "rows": t.unknown_rows + t.rows.sum()} for t in tables]
    return (
        *([Note("dropped", values=dropped)] if any(dropped.values()) else []),
        *(Note("unknown_category", values=values) for values in unknown if values["unknown"]),
        *note_if(
            "left_out", labels[status == Status.TOO_SMALL].tolist(), least=plan.min_size, share=plan.smallest_share
        ),
        *note_if("few_clusters", labels[status == Status.FEW_CLUSTERS].tolist()),
        *note_if("nobody_selected", labels[status == Status.ZERO_BASELINE].tolist()),
        *([Note("nothing_to_compare", values={"tables": alone})] if alone else []),
    )


# ---- evidence


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class AdverseImpactResult(ProxyEvidence):
    """The table of impact ratios, one row per category of every table, and what the data show.

    ``n`` and ``selected`` count rows. With weights, ``weighted_n`` and ``weighted_selected`` count the people these
    rows stand for, and the shortfalls count the same people; without weights the two are None.

    ``unknown`` is the number of rows without a category in each table. With a score, ``cutoffs`` are quantiles of all
    scores, and ``cutoff_ratio``, ``cutoff_low``, ``cutoff_high`` (cutoffs x categories) the ratios there with a
    simultaneous band.
    """

    never_shown: ClassVar[tuple[str, ...]] = words.IMPACT_LIMITS
    decisive: ClassVar[tuple[str, ...]] = ("below_pvalue",)

    tables: tuple[str, ...] = column("Table", name="table", withheld=False)
    against: tuple[str, ...] = column("Compared with")
    n: FloatArray = column("Rows counted", count=True)
    estimate: FloatArray = column("Selection rate", unit="%")
    reference: FloatArray = column("Comparator's rate", unit="%")
    disparity: FloatArray = column("Impact ratio")
    ci_low: FloatArray = column()
    ci_high: FloatArray = column()
    pvalue: FloatArray = column()
    adjusted_pvalue: FloatArray = column()
    verdicts: tuple[Verdict, ...] = column(name="verdict")
    selected: FloatArray = column("Selected", count=True, sizes=False)
    weighted_n: FloatArray | None = column("People by weight", count=True, sizes=False, default=None)
    weighted_selected: FloatArray | None = column("People selected, by weight", count=True, sizes=False, default=None)
    difference: FloatArray = column("Difference", unit="points")
    shortfall: FloatArray = column("More selections to reach the threshold", count=True, sizes=False)
    shortfall_parity: FloatArray = column("More selections to reach parity", count=True, sizes=False)
    below_threshold: BoolArray = column("Observed below the threshold")
    difference_shown: BoolArray = column()
    deviations: FloatArray | None = column("Standard deviations from equal rates", default=None)
    fisher_pvalue: FloatArray | None = column("Fisher's exact test: p‑value", default=None)
    comparable_estimate: FloatArray | None = column("Rate, adjusted", unit="%", default=None)
    comparable_rate: FloatArray | None = column("Comparable people's rate", unit="%", default=None)
    comparable_ratio: FloatArray | None = column("Ratio among comparable people", default=None)
    comparable_low: FloatArray | None = column("Ratio among comparable people, from", default=None)
    comparable_high: FloatArray | None = column("Ratio among comparable people, to", default=None)
    comparable_pvalue: FloatArray | None = column("Among comparable people: p‑value", default=None)
    below_pvalue: FloatArray = column()
    at_least_pvalue: FloatArray = column()
    bound_low: FloatArray = column("Ratio at least")
    bound_high: FloatArray = column("Ratio at most")
    cutoff_ratio: FloatArray = column(listed=False)
    cutoff_low: FloatArray = column(listed=False)
    cutoff_high: FloatArray = column(listed=False)
    threshold: float
    alpha: float
    median: float | None
    named: bool
    unknown: Mapping[str, int]
    cutoffs: FloatArray
    chosen: str = "selected"
    given: tuple[str, ...] = ()
    model: str = ""  # by which people are comparable; empty within strata

    @property
    def method(self) -> str:  # type: ignore[override]
        return proxy_words.METHOD if self.proxy else words.IMPACT_METHOD

    @property
    def references(self) -> tuple[str, ...]:  # type: ignore[override]
        return proxy_words.REFERENCES if self.proxy else words.IMPACT_REFERENCES

    def table(self) -> Columns:
        columns = Evidence.table(self)
        return {name: v for name, v in columns.items() if not self.proxy or name not in proxy_words.IDLE}

    def limits(self) -> tuple[str, ...]:
        return (*self.never_shown, *(proxy_words.limits(self) if self.proxy else ()))

    def given_away(self, references: BoolArray, shown: BoolArray) -> bool:
        """Whether a comparison shown in the same table reveals one of the withheld ``references``."""
        tables = np.array(self.tables)
        return bool(np.isin(tables[references], tables[shown]).any())

    def headings(self) -> Mapping[str, str]:
        """The threshold and the words for decision 1; with weights, headings that distinguish rows from people."""
        weighted = {} if self.weighted_n is None else words.WEIGHTED_HEADINGS
        return {**Evidence.headings(self), **words.impact_headings(self), **weighted}

    def pages(self) -> Mapping[str, Columns]:
        """The table as it is published, what the data show, bounds for unknown categories, and shortfalls."""
        if not self.groups:
            return {}
        if self.proxy:
            return self.proxy_pages()
        last = sorted(range(len(self.status)), key=lambda i: self.status[i] is Status.SUPPRESSED)
        whole = {name: [values[i] for i in last] for name, values in self.table().items()}
        parts = {title: names.split() for title, names in words.IMPACT_PAGES.items()}
        if not any(self.unknown.values()):
            del parts[words.BOUNDS]
        if not self.given:
            del parts[words.ALIKE]
        if self.deviations is None or np.isnan(self.deviations).all():
            del parts[words.COURTS]
        if self.weighted_n is None:
            people = {"weighted_n", "weighted_selected"}
            parts = {title: [name for name in names if name not in people] for title, names in parts.items()}
        else:
            parts[words.SHORTFALLS] = [name for name in parts[words.SHORTFALLS] if name not in ("n", "selected")]
        return {title: {name: whole[name] for name in names} for title, names in parts.items()}

    def ranking(self) -> list[int]:
        """In each table the smallest ratios first; the comparator, and categories without a ratio, last."""
        tables, alone = list(dict.fromkeys(self.tables)), np.array(self.compared_with()) | np.isnan(self.disparity)
        return np.lexsort((self.disparity, alone, np.array([tables.index(table) for table in self.tables]))).tolist()

    def key_line(self) -> int | None:
        others = np.where(self.compared_with(), np.nan, self.disparity)
        return int(np.nanargmin(others)) if np.isfinite(others).any() else None

    def tested_claim(self) -> str:
        return f"ratio ≥ {self.threshold:g}"

    def marks(self) -> Mapping[str, str]:
        """Whether the ratio was shown to be below the threshold: an open answer is not an inconclusive difference."""
        return words.IMPACT_MARKS

    def findings(self) -> tuple[str, ...]:
        """The three facts, then the categories, smallest ratios first."""
        if self.proxy:
            return proxy_words.findings(self, self.against[0], False, True)
        compared = np.flatnonzero(~np.isnan(self.disparity))
        if not compared.size:
            return ()
        others = [int(i) for i in compared if self.status[i] is not Status.REFERENCE]
        order = [i for i in self.ranking() if i in others][:MOST_GROUPS]
        scored = [] if self.median is None else [words.MEDIAN.format(phrases.number(self.median, 6))]
        best = [] if self.named else [words.against_best(f"category {self.chosen} most often")]
        overview = words.impact_overview(self, others, compared.size)
        return (overview, *scored, *(words.impact_finding(self, i) for i in order), *best)

    def assumptions(self) -> tuple[tuple[str, str], ...]:
        if self.proxy:
            return (*proxy_words.assumptions(self), words.ASSUMED_NAMED)
        return (self.rows_assumed(), phrases.SAMPLE, words.ASSUMED_NAMED if self.named else words.ASSUMED_BEST)

    def movement(self) -> Movement | str:
        """The impact ratios, with standard errors that treat the rates of both categories as independent."""
        if self.proxy:
            return phrases.VERDICTS_ALONE
        if self.provenance.options.get("weight") is not None:
            return words.WEIGHTED_RATIOS
        places = {pair: i for i, pair in enumerate(zip(self.tables, self.labels, strict=True))}
        others = [places.get(pair, i) for i, pair in enumerate(zip(self.tables, self.against, strict=True))]
        with np.errstate(all="ignore"):
            squared = (1.0 - self.estimate) / (self.n * self.estimate)
            if self.design is not None:
                squared = squared * self.design.effect
            error = self.disparity * np.sqrt(squared + squared[others])
        return Movement(self.disparity, np.where(self.compared_with(), np.nan, error), "ratio")

    def plot(self) -> alt.TopLevelMixin:
        """Impact ratios with intervals and the threshold; with a score, also the ratios by cutoff."""
        from isonomy.groups.charts import impact

        return impact(self)
