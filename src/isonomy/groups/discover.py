"""Discovery: which subgroup, by any conjunction of features, is treated worst, and is that more than chance?

``evidence="crossfit"``: the rows are halved at random. What the search finds in one half is tested by `flag` in the
other, and the other way round. Given the half that was searched, the hypotheses and their order are fixed: each half
errs with probability at most alpha / 2, as Holm's p-values of a half, weighted by that order, are doubled. (One family
of both halves is not proven to keep alpha: the number of true hypotheses in one list depends on the rows that test the
other.)

``evidence="all"``: subgroups are searched and tested in all rows. With M subgroups that could have been named, p-values
are those of Fisher's exact test times M, and intervals have the level alpha / M.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import combinations
from typing import Annotated, Any, Literal, Self, Unpack

import narwhals as nw
import numpy as np

from isonomy.errors import MissingGroups, NotEnoughData, UsageError
from isonomy.frames import Group, Grouping, MetricLike, Request, Sample, Source, open_source, where
from isonomy.frames.expressions import LARGEST, Comparison, Scalar, all_of, missing
from isonomy.frames.expressions import column as table_column
from isonomy.frames.groups import CONDITION, Cut, Dimension, Features, Where
from isonomy.frames.metrics import ERRORS, RATES, Measure, Metric, canonical, listed
from isonomy.frames.sums import COUNT, aggregate, collect, collect_rows, plain_keys
from isonomy.groups import discover_words, words
from isonomy.groups.disparities import GroupEvidence
from isonomy.groups.disparities import read as read_groups
from isonomy.groups.flag import Better, FlagPlan, FlagResult, conclude_groups
from isonomy.groups.flag import estimate as estimate_groups
from isonomy.groups.likelihood.means import Binary, linked
from isonomy.groups.likelihood.profile import Kind, ProfileLikelihood
from isonomy.groups.likelihood.search import (
    EVENTS,
    Codes,
    Crossed,
    Literals,
    Outcome,
    SearchScore,
    Subgroup,
    candidates,
    distinct,
    family,
    fisher,
    jaccard,
    readable_edges,
)
from isonomy.groups.likelihood.search import search as search_rows
from isonomy.groups.likelihood.strata import Scale
from isonomy.groups.options import NullOption, SearchOption
from isonomy.inference import Verdict, inside
from isonomy.inference.decide import Alternative, overall
from isonomy.inference.designs import FEWEST, DesignEffect
from isonomy.inference.multiplicity import adjust
from isonomy.numerics.arrays import AnyArray, BoolArray, FloatArray, IntArray
from isonomy.numerics.status import Status
from isonomy.options import Alpha, Column, Form, RowOptions, Seeded, Tolerance, Whole
from isonomy.results import Columns, Evidence, Note, column, note_if, open_call, question, storable
from isonomy.results.phrases import without

Factors = Annotated[object, Form("given")] | None
EvidenceKind = Literal["crossfit", "all"]
WorseOrBetter = Literal["worse", "better", "both"]

MOST_ROWS, SEARCHED = 50_000_000, 5_000_000  # rows whose codes are read; rows of a half that are searched
MANY, FINE, COARSE = 100_000, 16, 8  # numbers are cut more finely if more rows than this are searched
FEW_VALUES, MOST_LEVELS = 12, 50  # numbers with so few values are not cut; values of a feature that make subgroups
MOST_LITERALS = 5_000
TESTED = 10  # held-out rows that a test needs
SAME, PART = 0.5, 0.8  # Jaccard index of nearly the same subgroups; share of a subgroup that makes it part of another
EXACT = 50  # of all subgroups, the clearest ones, which are ranked by their exact p-values


# ---- call


@question(
    "plan_discover",
    asks="Which subgroups are treated differently, among all that these features can make, and is it more than chance?",
    topic="Subgroups found: {}",
    badges={"violation": "Subgroup shown"},
    verdicts={
        "violation": "at least one subgroup differs from the rest by more than chance explains.",
        "beyond": "at least one subgroup differs by more than the tolerance, beyond what chance explains.",
        "within_tolerance": "every subgroup that could have been named was shown to lie within the tolerance.",
        "inconclusive": "no subgroup was shown to differ. This is not evidence that none does.",
    },
    next_steps={
        "violation": (
            "Test the same subgroups on new rows: name them as groups of the next audit.",
            "Ask people who know the process for the reason: a subgroup says who is affected, not why.",
        ),
        "inconclusive": (
            "Do not report this as equal treatment: smaller differences, and other subgroups, remain possible.",
            "If you suspect a particular subgroup, test it directly: a search needs more rows than a single test.",
        ),
    },
)
def discover(
    data: object = None,
    *,
    metric: MetricLike,
    features: Features,
    outcome: Column | None = None,
    prediction: Column | None = None,
    score: Column | None = None,
    positive: Scalar | None = None,
    reference: Literal["rest"] | float = "rest",
    scale: Scale = "difference",
    side: WorseOrBetter = "worse",
    better: Better = None,
    tolerance: Tolerance = None,
    alpha: Alpha = 0.05,
    most: Whole = 5,
    min_size: Whole = 30,
    search: SearchOption | None = None,
    evidence: EvidenceKind = "crossfit",
    given: Factors = None,
    rng: Seeded = None,
    **rows: Unpack[RowOptions],
) -> DiscoverResult:
    """Which subgroup is treated worst, among all that these features can make, and is that more than chance?

    A subgroup is a conjunction of up to three conditions, such as ``sex = f and age < 25``. Those that stand out in one
    half of the rows are tested in the other half, both ways. Null hypothesis, for each of them: its mean is not worse
    than that of the rest (by more than ``tolerance``). The probability of any false finding is at most ``alpha``.

    Parameters
    ----------
    data, outcome, prediction, score, positive, better
        As in `isonomy.flag`.
    metric : str or Metric
        One metric that is a mean: a rate such as ``"selection_rate"`` or ``"fnr"``, ``"mae"``, ``"brier"``, or an
        `isonomy.Metric`.
    features : str, cut, where or sequence of these
        What subgroups are made of: text, booleans and dates by their values; numbers by intervals between quantiles
        that are rounded to few digits, or between their values if these are at most 12; `isonomy.cut` by its
        intervals; `isonomy.where` by whether it holds. With ``missing_group="level"``, missing is a value too.
    reference : {"rest"} or float, default "rest"
        What a subgroup is compared with: all other rows, or a number.
    scale : {"difference", "ratio", "odds_ratio"}, default "difference"
        How a subgroup is compared. ``tolerance`` and intervals are in its unit.
    side : {"worse", "better", "both"}, default "worse"
        Which subgroups are looked for.
    tolerance : float, optional
        The largest disparity that does not matter: subgroups that differ by more are looked for.
    alpha : float, default 0.05
        The probability of any false finding, and the error rate of intervals.
    most : int, default 5
        How many subgroups each half may propose.
    min_size : int, default 30
        The fewest rows of a subgroup among those that are searched.
    search : iso.search(depth, cuts, min_share), optional
        Which subgroups are looked at: how many conditions, how finely numbers are cut, how small a share of the rows.
    evidence : {"crossfit", "all"}, default "crossfit"
        ``"all"`` searches and tests in all rows, with every p-value multiplied by the number of subgroups that could
        have been named (of at most two conditions). It takes 0/1 metrics of independent rows, draws nothing, and can
        show that no subgroup lies beyond the tolerance.
    given : str, cut, where or sequence of these, optional
        Legitimate factors: subgroups are compared with people of the same stratum, as in `isonomy.flag`.
    rng : int or Generator, optional
        The seed of the halves.
    **rows
        count, weight, cluster, missing, missing_group: how rows are read; see `isonomy.RowOptions`. Clusters are
        halved as a whole.

    Returns
    -------
    DiscoverResult
        ``to_frame()`` has one row per subgroup: group, n, estimate, reference, disparity, ci_low, ci_high, pvalue,
        adjusted_pvalue, verdict, direction, status, share (of all rows), found (the half that found it), again (the
        other half found nearly the same) and within (a listed subgroup that most of its rows belong to).
        ``groups_found`` has the subgroups for `isonomy.flag` and `isonomy.monitor` on new rows, and ``to_toml()``
        writes them for an audit file.

    Notes
    -----
    All numbers of a subgroup come from the half that did not find it, by the methods of `isonomy.flag`, so the search
    does not inflate them. Adjusted p-values are Holm's within a half, times two. The subgroups of a half have the
    weights 1, 1/2, 1/3, ... in the order in which they stood out: the clearest one needs the least evidence.

    When it misleads: if rows belong together and no ``cluster`` says so, one half is no check on the other. Another
    seed makes other halves, and may list other subgroups: report the seed, and do not try several.

    References
    ----------
    Cherian, J. J. and Candès, E. J. (2024). Statistical inference for fairness auditing. JMLR 25 (149), 1-49.

    Goeman, J. and Solari, A. (2024). On selection and conditioning in multiple testing and selective inference.
    Biometrika 111, 393-416.

    Examples
    --------
    >>> import isonomy as iso
    >>> people = range(2_000)
    >>> table = {"sex": ["f" if i % 2 else "m" for i in people], "age": [18 + 7 * i % 60 for i in people]}
    >>> table["approved"] = [int(i % 10 > 2) & int(i % 2 == 0 or 18 + 7 * i % 60 >= 30) for i in people]
    >>> call = {"metric": "selection_rate", "prediction": "approved", "rng": 1}
    >>> features = ["sex", iso.cut("age", [30, 50, 65])]
    >>> iso.discover(table, features=features, **call).to_frame().select("group", "found", "again", "verdict").rows()[0]
    ('sex=f & age < 30', 'first', True, 'violation')
    """
    metric = canonical(metric)
    plan, rng, record = open_call("discover", plan_discover, locals())
    coded = read(plan)
    columns, facts = estimate(coded, plan, rng)
    columns |= decide(columns, facts, coded, plan)
    all_rows, known = plan.evidence == "all", {part.name for part in fields(DiscoverResult)}
    return DiscoverResult(
        **{name: values for name, values in columns.items() if name in known},
        **plan.described(),
        null=words.null(plan).replace("For each group", "For each subgroup"),
        null_low=plan.hypothesis.low,
        null_high=plan.hypothesis.high,
        alternative=plan.hypothesis.alternative,
        adjust="bonferroni" if all_rows else "holm",
        interval="simultaneous" if all_rows else "pointwise",
        notes=notes(columns, facts, coded),
        provenance=record(rows=coded.value.size, dropped=coded.dropped, random=not all_rows),
        side=side,
        evidence=evidence,
        depth=plan.conditions,
        min_share=plan.search.min_share,
        tried=facts["tried"],
        counted=facts["counted"],
        _widest_gap=None,
    )


# ---- plan


def plan_discover(
    source: Source,
    *,
    features: Features,
    side: WorseOrBetter,
    better: Better,
    min_size: int,
    search: SearchOption | None,
    **options: Any,
) -> DiscoverPlan:
    """The features as groups of `flag`, which refuses what it cannot test."""
    lower = listed(options["metric"])[0] in ERRORS if better is None else better == "lower"
    facing: Alternative = "greater" if lower == (side == "worse") else "less"
    return DiscoverPlan(
        source,
        groups=source.grouping(features, argument="features"),
        specs=tuple(features) if isinstance(features, (list, tuple)) else (features,),
        fewest=min_size,
        search=search or SearchOption(),
        null=NullOption(side="two-sided" if side == "both" else facing),
        better="lower" if lower else "higher",
        method="el",
        adjust="holm",
        depth=1,
        min_size=TESTED,
        **options,
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class DiscoverPlan(FlagPlan):
    """A call of `flag`; ``specs`` are the features as they were given, ``fewest`` the rows that a subgroup needs."""

    specs: tuple[object, ...]
    fewest: int
    most: int
    search: SearchOption
    evidence: EvidenceKind

    def refusals(self) -> Iterator[tuple[bool, str]]:
        mean = "metric: discover takes one metric that is a mean;"
        yield len(self.measures) > 1, f"{mean} several are given."
        yield bool(self.measure.functional), f"{mean} {self.measure.name!r} is not a mean."
        reading = self.source.reading
        roles = {"prediction": self.prediction, "outcome": self.outcome, "score": self.score}
        roles |= {"count": reading["count"], "weight": reading["weight"], "cluster": reading["cluster"]}
        for name in (str(getattr(spec, "column", spec)) for spec in self.specs):
            role = next((f"the {role}" for role, taken in roles.items() if taken == name), "used by the metric")
            yield (
                name in roles.values() or needs(self.source, listed(self.metric)[0], name),
                f"features: {name!r} is {role} and cannot describe subgroups; leave it out.",
            )
        for refused, what in (
            (reading["weight"] is not None, "weight"),
            (reading["cluster"] is not None, "cluster"),
            (self.given is not None, "given"),
            (not self.measure.binary, f"{self.measure.name!r}, a metric of numbers"),
            (self.search.depth == 3, "a depth of 3"),
            (self.reference != "rest", "a number as reference"),
        ):
            yield (
                refused and self.evidence == "all",
                f"evidence: 'all' counts 0/1 rows one by one; it does not go with {what}. Use 'crossfit'.",
            )
        yield from FlagPlan.refusals(self)

    @property
    def requests(self) -> tuple[Request, ...]:
        return ()  # rows are read one by one

    @property
    def measure(self) -> Measure:
        return self.measures[0]

    @property
    def conditions(self) -> int:
        return self.search.depth or (2 if self.evidence == "all" else 3)

    @property
    def signs(self) -> tuple[float, ...]:
        """Where subgroups are looked for: below the reference (-1), above it (1)."""
        return {"less": (-1.0,), "greater": (1.0,)}.get(self.null_option.side, (-1.0, 1.0))


# ---- read


@dataclass(frozen=True, eq=False)
class CodedFeature:
    """A feature as bins: its values, or the intervals between ``edges``. Rows in which ``key`` is null have no value.

    ``further``: some values are too rare for a bin.
    """

    name: str
    key: nw.Expr
    code: nw.Expr
    values: tuple[Any, ...] = ()
    edges: tuple[float, ...] = ()
    condition: bool = False
    floating: bool = False
    further: bool = False

    @property
    def bins(self) -> int:
        return len(self.edges) + 1 if self.edges else len(self.values)

    def condition_on(self, first: int, last: int, *, absent: bool) -> tuple[tuple[str, object], list[Comparison]]:
        """Some bins as a part of a `Group`, and as comparisons of a column; ``absent``: some rows have no value."""
        compared = [Comparison(self.name, "is present")] if absent else []
        if first == self.bins:
            return (self.name, None), [Comparison(self.name, "is missing")]
        if self.values and first == last:
            value = self.values[first]
            item = (CONDITION, self.name) if self.condition and value else (self.name, short(value))
            return item, [*compared, Comparison(self.name, "==", value)]
        edges = [int(edge) if float(edge).is_integer() and abs(edge) < 2**53 else edge for edge in self.edges]
        low, high = edges[first - 1] if first else None, edges[last] if last < len(edges) else None
        compared += [] if low is None else [Comparison(self.name, ">=", low)]
        if high is not None or (absent and self.floating):  # NaN compares as larger than any number
            compared.append(Comparison(self.name, "<", LARGEST if high is None else high))
        ends = Cut(self.name, tuple(short(edge) for edge in (low, high) if edge is not None))
        return (self.name, ends.labels[low is not None]), compared


def short(value: Any) -> Any:
    """3.2 in a name, where single precision made 3.200000047683716 of it; any other value as it is."""
    if not isinstance(value, float) or abs(value) > np.finfo(np.float32).max or np.float32(value) != value:
        return value
    return float(str(np.float32(value)))


@dataclass(frozen=True, eq=False, kw_only=True)
class CodedRows:
    """The rows that count, in canonical order: the bins of each feature, the metric, and what rows stand for."""

    features: tuple[CodedFeature, ...]
    codes: Codes
    value: FloatArray
    mass: FloatArray | None
    cluster: IntArray | None
    strata: IntArray | None
    dropped: Mapping[str, int]
    left_out: tuple[str, ...]
    least: int

    @cached_property
    def absent(self) -> tuple[bool, ...]:
        return tuple(bool((code == f.bins).any()) for f, code in zip(self.features, self.codes, strict=True))

    @cached_property
    def literals(self) -> Literals:
        sizes = tuple(f.bins + gap for f, gap in zip(self.features, self.absent, strict=True))
        return Literals(sizes, tuple(len(f.edges) + 1 if f.edges else 0 for f in self.features))

    def outcome(self, lines: IntArray) -> Outcome:
        """What the search looks at: the metric or, within strata, its distance from the mean of the stratum."""
        plain = Outcome(self.value, self.mass).taken(lines)
        if self.strata is None:
            return plain
        mass, hits = (np.bincount(self.strata[lines], weight) for weight in plain.sums)
        with np.errstate(invalid="ignore"):
            centered = plain.value - (hits / mass)[self.strata[lines]] + hits.sum() / mass.sum()
        return Outcome(np.nan_to_num(centered), plain.mass)

    def group(self, subgroup: Subgroup) -> tuple[Group, tuple[Comparison, ...]]:
        parts = [self.features[f].condition_on(*span, absent=self.absent[f]) for f, *span in subgroup.literals]
        return Group(tuple(item for item, _ in parts)), tuple(c for _, compared in parts for c in compared)


def needs(source: Source, metric: str | Metric, name: str) -> bool:
    """Whether a metric of the caller's own cannot be computed without a column."""
    if not isinstance(metric, Metric) or name not in source.schema:
        return False
    try:
        source.frame.head(0).drop(name).select(metric.value.alias("value")).collect_schema()
    except Exception:  # every engine has its own errors
        return True
    return False


def read(plan: DiscoverPlan) -> CodedRows:
    """Two passes: the values of each feature, then the bin of each row, a byte per feature."""
    source, (condition, value) = plan.source, plan.measure.expressions()
    source.check(replace(plan.measure.request, grouping=plan.grouping))
    within = source.filter(~missing(value, nw.Float64()) & (nw.lit(True) if condition is None else condition))
    total, rows = (int(part.sums({}, {})[COUNT].sum()) for part in (source, within))
    if total > MOST_ROWS:
        raise UsageError(
            f"data: {total:,} rows; discover reads the codes of at most {MOST_ROWS:,}. Give a sample: subgroups that "
            "need more rows to be found are below a thousandth of everybody."
        )
    searched = rows if plan.evidence == "all" else rows // 2
    least = max(plan.fewest, round(plan.search.min_share * searched))
    cuts = plan.search.cuts or (FINE if searched > MANY else COARSE)
    pairs = zip(plan.grouping.dimensions, plan.specs, strict=True)
    coded = {dimension.name: code_feature(within, dimension, spec, least, cuts) for dimension, spec in pairs}
    features = tuple(feature for feature in coded.values() if feature is not None)
    if not features:
        raise UsageError("features: nothing to make subgroups of; give columns with few values or numbers.")
    keys = {
        f"feature {i}": nw.when(~f.key.is_null()).then(f.code).otherwise(nw.lit(f.bins)).cast(nw.Int8)
        for i, f in enumerate(features)
    }
    if source.cluster is not None:
        keys["cluster"] = nw.col(source.cluster)
    strata = plan.grouping.strata
    grouping = Grouping((), strata=strata) if strata else None
    sample = source.rows(replace(plan.measure.request, grouping=grouping, keys=keys))
    plan.measure.refuse_absent(sample)
    left_out = tuple(name for name, feature in coded.items() if feature is None)
    return in_canonical_order(sample, features, left_out, least, plan)


def code_feature(source: Source, dimension: Dimension, spec: object, least: int, cuts: int) -> CodedFeature | None:
    """The bins of a feature; None if it makes no subgroup."""
    name, key = dimension.name, dimension.key
    if isinstance(spec, Where):
        return CodedFeature(name, key, nw.when(key).then(nw.lit(1)).otherwise(nw.lit(0)), (False, True), condition=True)
    if isinstance(spec, Cut):
        return CodedFeature(name, key, spec.codes(), edges=spec.edges, floating=source.schema[name].is_float())
    if (dtype := source.schema[name]).is_numeric():
        key = nw.when(~missing(nw.col(name), dtype)).then(nw.col(name))
        values, edges = number_bins(source, key, cuts)
        codes = Cut(name, edges).codes()
        return CodedFeature(name, key, codes, values, edges, floating=dtype.is_float()) if edges else None
    levels = aggregate(source.frame, {"value": key}, {"rows": source.number}).filter(nw.col("rows") >= least)
    table = plain_keys(collect(levels.filter(~nw.col("value").is_null())), ["value"])
    frequent = table.sort(["rows", "value"], descending=[True, False])["value"].to_list()
    chosen, code = tuple(sorted(frequent[:MOST_LEVELS])), nw.lit(-1)
    for i, value in enumerate(chosen):
        code = nw.when(key == value).then(nw.lit(i)).otherwise(code)
    return CodedFeature(name, key, code, chosen, further=len(frequent) > MOST_LEVELS) if chosen else None


def number_bins(source: Source, known: nw.Expr, cuts: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The values of a column of numbers, if they are few, and the edges between its bins; none for a single value."""
    numbers = collect_rows(source.frame.select(known.cast(nw.Float64).alias("value"), source.number.alias(COUNT)))
    numbers = numbers.filter(numbers["value"].is_not_null())
    value, count = numbers["value"].to_numpy(), None if source.count is None else numbers[COUNT].to_numpy()
    few = np.unique(value[: 100 * FEW_VALUES])
    few = np.unique(value) if few.size <= FEW_VALUES else few
    if few.size > FEW_VALUES:
        at = np.quantile(value, np.arange(1, cuts) / cuts, method="inverted_cdf", weights=count)
        return (), readable_edges(at, float(value.min()), float(value.max()))
    return tuple(int(v) if v.is_integer() else v for v in few.tolist()), tuple(few[1:].tolist())


def in_canonical_order(
    sample: Sample, features: tuple[CodedFeature, ...], left_out: tuple[str, ...], least: int, plan: DiscoverPlan
) -> CodedRows:
    """The rows that count, one by one, sorted by a digest of their contents: engines agree on their order."""
    import polars as pl

    codes = np.array([sample.columns[f"feature {i}"] for i in range(len(features))], dtype=np.int8)
    counts, dropped, policy = plan.measure.inside(sample), dict(sample.dropped), plan.source.missing_group
    for feature, code in zip(features, codes, strict=True):
        absent = counts & (code == feature.bins)
        if policy != "level" and absent.any():
            dropped[feature.name] = round(float(sample.counts[absent].sum()))
            if policy == "raise":
                raise MissingGroups(
                    f"features: {feature.name!r} has {dropped[feature.name]:,} rows with no value. Pass "
                    'missing_group="level" to make them a value of their own, or missing_group="drop" to leave them '
                    "out and have them counted."
                )
            counts = counts & ~absent
    columns: dict[str, AnyArray] = {"value": plan.measure.value(sample)}
    if plan.source.reading["weight"] is not None:
        columns["mass"] = sample.mass / sample.counts
    if "cluster" in sample.columns:
        labels = pl.Series(sample.columns["cluster"], strict=False)
        labels = pl.Series(map(str, labels)) if labels.dtype == pl.Object else labels  # decimals, for example
        columns["cluster"] = labels.rank("dense").fill_null(0).to_numpy().astype(np.int64)
    if sample.partitions:
        columns["strata"] = sample.partitions[0].codes
    lines = np.flatnonzero(counts)
    if sample.count is not None:
        lines = np.repeat(lines, sample.count[lines].astype(np.intp))
    if lines.size < 4 * plan.fewest:
        raise NotEnoughData(
            f"data: only {lines.size:,} rows enter the metric; discover needs {4 * plan.fewest:,} to search in one "
            "half and test in the other."
        )
    packed = np.ascontiguousarray(np.pad(codes, ((0, -len(codes) % 8), (0, 0))).T)  # eight features in a word
    lines = lines[np.argsort(digest([*packed.view(np.int64).T, *columns.values()])[lines])]
    return CodedRows(
        features=features,
        codes=np.ascontiguousarray(packed[lines].T[: len(codes)]),
        value=columns["value"][lines].astype(float),
        **{name: columns[name][lines] if name in columns else None for name in ("mass", "cluster", "strata")},
        dropped=dropped,
        left_out=left_out,
        least=least,
    )


def digest(columns: Sequence[AnyArray]) -> AnyArray:
    """A number per row, equal for equal rows. Real numbers count in single precision: engines differ in last digits."""
    mixed = np.zeros(columns[0].size, dtype=np.uint64)
    for values in columns:
        whole = values.astype(np.float32).view(np.int32) if values.dtype.kind == "f" else values
        mixed = (mixed ^ whole.astype(np.int64).view(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    return mixed


# ---- estimate


def estimate(rows: CodedRows, plan: DiscoverPlan, rng: np.random.Generator) -> tuple[dict[str, Any], dict[str, Any]]:
    literals = rows.literals
    if len(literals) > MOST_LITERALS:
        raise UsageError(
            f"features: {len(rows.features)} columns make {len(literals):,} conditions; the limit is "
            f"{MOST_LITERALS:,}. Name fewer columns, or use search=iso.search(cuts=4)."
        )
    if plan.evidence == "all":
        return count_every(rows, plan)
    unit = np.arange(rows.value.size) if rows.cluster is None else np.unique(rows.cluster, return_inverse=True)[1]
    number = int(unit.max()) + 1
    if number < FEWEST:
        raise NotEnoughData(f"cluster: there are {number} clusters; discover needs {FEWEST:g} to halve them.")
    first = np.isin(unit, rng.permutation(number)[: number // 2])
    parts, facts = [], {"tried": 0, "counted": 0, "certified": False, "searched": 0}
    for name, half in (("first", first), ("second", ~first)):
        lines = np.flatnonzero(half)
        if lines.size > SEARCHED:
            lines, facts["searched"] = np.sort(rng.choice(lines, SEARCHED, replace=False)), SEARCHED
        codes, outcome = rows.codes[:, lines], rows.outcome(lines)
        score = scoring(outcome, rows, plan)
        found = search_rows(codes, outcome, literals, score, depth=plan.conditions, most=plan.most)
        if found:
            part, tests, comparison = tested(rows, np.flatnonzero(~half), found, plan, plan.alpha)
            every = np.nan_to_num(part["pvalue"], nan=1.0)  # what cannot be tested counts too
            doubled = 2.0 * adjust(every, "holm", ranked=True)
            part["adjusted_pvalue"] = np.where(np.isnan(part["pvalue"]), np.nan, np.minimum(doubled, 1.0))
            parts.append(judged(part, tests, comparison, name, (Verdict.VIOLATION,)))
        facts["tried"] += len(found)
    if not parts:
        return no_lines(rows, plan), facts
    return {name: lines_of([part[name] for part in parts]) for name in parts[0]}, facts


def scoring(outcome: Outcome, rows: CodedRows, plan: DiscoverPlan) -> SearchScore:
    link, reach = plan.link, plan.link.reach(plan.tolerance) or 0.0
    skewness = 0.0 if plan.measure.binary else outcome.moments[3]
    return SearchScore(
        plan.signs,
        lambda reference, sign: link.moved(reference, sign * reach) if reach else reference,
        max(float(rows.least), EVENTS * skewness**2),
        plan.target.value,
    )


def tested(
    rows: CodedRows, lines: IntArray, subgroups: Sequence[Subgroup], plan: DiscoverPlan, alpha: float
) -> tuple[dict[str, Any], dict[str, Any], FlagPlan]:
    """Subgroups tested by `flag` on some of the rows: its columns, what its decisions need, and its plan."""
    names = [f"group {i}" for i in range(len(subgroups))]
    table: dict[str, AnyArray] = {"value": rows.value[lines].astype(np.int8 if plan.measure.binary else float)}
    table |= {n: subgroup.members(rows.codes[:, lines]) for n, subgroup in zip(names, subgroups, strict=True)}
    known = {"weight": rows.mass, "cluster": rows.cluster, "strata": rows.strata}
    table |= {name: values[lines] for name, values in known.items() if values is not None}
    source = open_source(table, **{name: name for name in ("weight", "cluster") if name in table})  # type: ignore[arg-type]
    metric = Metric(plan.measure.name, value=table_column("value"), binary=plan.measure.binary)
    groups = [where(name, table_column(name)) for name in names]
    given = None if rows.strata is None else "strata"
    roles: dict[str, Any] = dict.fromkeys(("outcome", "prediction", "score", "positive"))
    comparison = replace(plan, source=source, metric=metric, groups=groups, given=given, alpha=alpha, **roles)
    columns, tests = estimate_groups(comparison.compare(read_groups(comparison), np.random.default_rng(0)), comparison)
    shares = (listed(plan.metric)[0] in RATES,) * len(subgroups)
    return columns | {"subgroups": tuple(subgroups), "shares": shares, "effects": None}, tests, comparison


def judged(
    part: dict[str, Any], tests: Mapping[str, Any], comparison: FlagPlan, found: str, known: Collection[Verdict]
) -> dict[str, Any]:
    """The columns with the verdicts, of which only the ``known`` ones can be shown."""
    shown, status = conclude_groups(part["adjusted_pvalue"], part, tests, comparison)
    verdicts = tuple(verdict if verdict in known else Verdict.INCONCLUSIVE for verdict in shown.verdicts)
    return part | {"verdicts": verdicts, "status": tuple(map(Status, status)), "found": (found,) * len(verdicts)}


def no_lines(rows: CodedRows, plan: DiscoverPlan) -> dict[str, Any]:
    """The columns of a search in which nothing stood out: those of any subgroup, without its line."""
    any_subgroup, every = Subgroup(rows.literals.every[:1], 0.0, 0.0, 0.0), np.arange(rows.value.size)
    part, tests, comparison = tested(rows, every, [any_subgroup], plan, plan.alpha)
    part["adjusted_pvalue"] = part["pvalue"]
    return {name: lines_of([values], []) for name, values in judged(part, tests, comparison, "", ()).items()}


def count_every(rows: CodedRows, plan: DiscoverPlan) -> tuple[dict[str, Any], dict[str, Any]]:
    """All rows, and every subgroup of at most two conditions that has enough of them counted."""
    literals, outcome = rows.literals, rows.outcome(np.arange(rows.value.size))
    every = family(rows.codes, outcome, literals, scoring(outcome, rows, plan), plan.conditions)
    (total, hits, *_), counted = outcome.moments, int(np.isfinite(every.z).sum())
    pool = candidates(every, literals)
    clearest = np.argsort(fisher(pool[:EXACT], total, hits, plan.signs), kind="stable")
    found = distinct([*(pool[i] for i in clearest), *pool[EXACT:]], rows.codes, plan.most)
    facts = {"tried": len(found), "counted": counted, "searched": 0}
    facts["certified"] = plan.tolerance is not None and counted > 0 and within_everywhere(every, outcome, plan)
    if not found:
        return no_lines(rows, plan), facts
    part, tests, comparison = tested(rows, np.arange(rows.value.size), found, plan, plan.alpha / counted)
    if plan.tolerance is None:  # exact, however skewed
        part["pvalue"], tests["skewed"] = fisher(found, total, hits, plan.signs), np.zeros(len(found), dtype=bool)
    part["adjusted_pvalue"] = np.minimum(counted * part["pvalue"], 1.0)
    return judged(part, tests, replace(comparison, alpha=plan.alpha), "all", tuple(Verdict)), facts


def within_everywhere(every: Crossed, outcome: Outcome, plan: DiscoverPlan) -> bool:
    """Whether the interval of every subgroup, at the level alpha / M, keeps the tolerance."""
    link, (total, hits, *_), members = plan.link, outcome.moments, np.isfinite(every.z)
    n, s, places = every.n[members], every.s[members], np.arange(np.count_nonzero(members))
    mine, others = (linked(Binary(a, b), link) for a, b in ((n, s), (total - n, hits - s)))
    pairs = ProfileLikelihood(Kind.DISJOINT, mine, places, other=others, partner=places).scoring_few()
    limits = pairs.limits(plan.alpha / n.size)
    return bool(inside(*limits, link.reach(plan.tolerance), plan.hypothesis.side).all())


def lines_of(parts: Sequence[Any], lines: Any = slice(None)) -> Any:
    """Some lines of a column, or of the design, that is in parts."""
    if isinstance(parts[0], DesignEffect):
        pieces = ([getattr(part, field.name) for part in parts] for field in fields(DesignEffect))
        return DesignEffect(*(lines_of(piece, lines) for piece in pieces))
    if isinstance(parts[0], tuple):
        every = np.fromiter((value for part in parts for value in part), dtype=object)
        return tuple(every[lines])
    return None if parts[0] is None else np.concatenate(parts, axis=-1)[..., lines]


# ---- decide


def decide(columns: Mapping[str, Any], facts: Mapping[str, Any], rows: CodedRows, plan: DiscoverPlan) -> dict[str, Any]:
    """Which subgroups are listed, in which order and under which names, and the overall verdict.

    Of nearly the same subgroup found in both halves, the one that was shown, or has the smaller p-value, is listed.
    """
    subgroups, found, link = columns["subgroups"], columns["found"], plan.link
    members = [subgroup.members(rows.codes) for subgroup in subgroups]
    adjusted, single = (np.nan_to_num(columns[name], nan=2.0) for name in ("adjusted_pvalue", "pvalue"))
    shown = np.array([verdict is Verdict.VIOLATION for verdict in columns["verdicts"]], dtype=bool)
    again, once = np.zeros(len(members), dtype=bool), np.ones(len(members), dtype=bool)
    for i, j in combinations(range(len(members)), 2):
        if found[i] != found[j] and jaccard(members[i], members[j]) >= SAME:
            again[[i, j]] = True
            once[j if (~shown[i], adjusted[i]) <= (~shown[j], adjusted[j]) else i] = False
    nearest = np.minimum(*(np.abs(link.delta(columns[end])) for end in ("ci_low", "ci_high")))
    order = np.lexsort((single, np.where(shown, -nearest, adjusted), ~shown))
    order = order[once[order]].astype(np.intp)
    named = [rows.group(subgroups[i]) for i in order]
    groups = plan.source.labels.named([group for group, _ in named])
    worse = (columns["disparity"] > link.equal) == (plan.better == "lower")
    direction = np.where(shown, np.where(worse, words.DISFAVORED, words.FAVORED), "")
    lines = {name: lines_of([values], order) for name, values in columns.items()}
    mass = Outcome(rows.value, rows.mass).sums[0]
    certified = facts["certified"] and not shown.any()
    return lines | {
        "groups": groups,
        "again": again[order],
        "within": tuple(container([members[i] for i in order], place, groups) for place in range(len(order))),
        "people": np.array([mass[members[i]].sum() / mass.sum() for i in order]),
        "direction": tuple(direction[order].tolist()),
        "conditions": tuple(compared for _, compared in named),
        "verdict": Verdict.WITHIN_TOLERANCE if certified else overall(lines["verdicts"] if shown.any() else ()),
    }


def container(members: Sequence[BoolArray], place: int, groups: Sequence[Group]) -> str:
    """The smallest of the larger subgroups that most rows of one belong to; empty if there is none."""
    sizes = [np.count_nonzero(rows) for rows in members]
    holds = [
        (size, i)
        for i, size in enumerate(sizes)
        if size > sizes[place] and np.count_nonzero(members[i] & members[place]) >= PART * sizes[place]
    ]
    return groups[min(holds)[1]].label if holds else ""


def notes(columns: Mapping[str, Any], facts: Mapping[str, Any], rows: CodedRows) -> tuple[Note, ...]:
    lines = list(zip(columns["groups"], columns["status"], strict=True))
    concerns = {Status.TOO_SMALL: "small_groups", **words.CONCERNS}
    return (
        *([Note("dropped", values=dict(rows.dropped))] if any(rows.dropped.values()) else []),
        *note_if("no_subgroups", rows.left_out, least=rows.least),
        *note_if("few_levels", [feature.name for feature in rows.features if feature.further], most=MOST_LEVELS),
        *([Note("searched_part", values={"rows": SEARCHED})] if facts["searched"] else []),
        *(
            note
            for status, code in concerns.items()
            for note in note_if(code, [str(group) for group, seen in lines if seen is status], least=TESTED)
        ),
    )


# ---- evidence


storable(Comparison)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class DiscoverResult(FlagResult):
    """The subgroups that were found, tested. `to_frame` has one row per subgroup.

    ``conditions`` are the comparisons whose conjunction is each subgroup. ``tried`` is the number of subgroups tested,
    ``counted`` that of all subgroups that could have been named (``evidence="all"``).
    """

    never_shown, headline = discover_words.LIMITS, Evidence.headline

    people: FloatArray = column("Share of all rows", name="share")
    found: tuple[str, ...] = column("Found in half", withheld=False)
    again: BoolArray = column("Found in both halves")
    within: tuple[str, ...] = column("Most also belong to")
    conditions: tuple[tuple[Comparison, ...], ...]
    side: str
    evidence: str
    depth: int
    min_share: float
    tried: int
    counted: int

    @property
    def groups_found(self) -> tuple[Where, ...]:
        """The subgroups as `isonomy.where` conditions, for `flag` and `monitor` on new rows.

        A feature that was itself an `isonomy.where` appears as a column of that name, which the new table needs.
        """
        return tuple(where(*pair) for pair in zip(self.labels, map(all_of, self.conditions), strict=True))  # type: ignore[arg-type]

    def to_toml(self) -> str:
        """The subgroups as ``[[columns.groups]]`` entries of an audit file, to be tested on new rows."""
        return "\n".join(map(discover_words.toml, self.labels, self.conditions))

    def table(self) -> Columns:
        """One row per subgroup; without any, the columns alone."""
        listed = {c.name: getattr(self, name) for name, c in self.declared().items() if c.listed}
        columns: dict[str, Any] = {"group": [], **{name: [] for name, values in listed.items() if values is not None}}
        columns = dict(GroupEvidence.table(self)) if self.labels else columns
        unused = ("metric", "size", "statistic", "detectable", "rows_needed")
        return {name: values for name, values in columns.items() if name not in unused}

    def units(self) -> Mapping[str, str]:
        return {**GroupEvidence.units(self), "share": "%"}

    @property
    def method(self) -> str:  # type: ignore[override]
        return discover_words.METHODS[self.evidence]

    @property
    def references(self) -> tuple[str, ...]:  # type: ignore[override]
        shared = GroupEvidence.references.fget(self)  # type: ignore[attr-defined]
        return (*discover_words.REFERENCES, *(text for text in shared if not text.startswith("Benjamini")))

    @property
    def answered(self) -> bool:
        """Whether anything was tested; a search in which nothing stands out is an answer too."""
        return not self.labels or bool(np.isfinite(self.pvalue).any())

    def ranking(self) -> list[int]:
        """The order of the lines: those shown first, by the end of the interval nearer to no difference."""
        return list(range(len(self.labels)))

    def key_line(self) -> int | None:
        return next((i for i in self.ranking() if np.isfinite(self.pvalue[i])), None)

    def findings(self) -> tuple[str, ...]:
        """An overview, then the subgroups, worst first, and how they were tested."""
        subgroups = [discover_words.finding(self, i) for i in np.flatnonzero(np.isfinite(self.pvalue)).tolist()]
        how = [discover_words.HOW] if self.evidence == "crossfit" and self.labels else []
        return (discover_words.overview(self), *subgroups, *how)

    def assumptions(self) -> tuple[tuple[str, str], ...]:
        return (*GroupEvidence.assumptions(self), *discover_words.ASSUMED[self.evidence])

    def suppressed(self, minimum: int, also: Collection[str] = ()) -> Self:
        """A copy that does not list subgroups with fewer than ``minimum`` rows, nor those in ``also``.

        A subgroup is left out, too, if its number of rows differs by less than that from the number of a subgroup
        listed before it and tested on the same rows, or from all rows: the difference would be a small group.
        """
        listed: list[int] = []
        rows = float(self.provenance.rows or np.inf) / (1 if self.evidence == "all" else 2)
        for i, (n, label, half) in enumerate(zip(self.n, self.labels, self.found, strict=True)):
            others = [rows, *(self.n[j] for j in listed if self.found[j] == half)]
            if n >= minimum and label not in also and all(abs(n - other) >= minimum for other in others):
                listed.append(i)
        if len(listed) == len(self.labels):
            return self
        chosen = {n: lines_of([getattr(self, n)], listed) for n in (*self.declared(), "groups", "conditions", "design")}
        hidden = set(self.labels) - {self.labels[i] for i in listed}
        chosen["within"] = tuple("" if label in hidden else label for label in chosen["within"])
        if self.verdict is Verdict.VIOLATION and Verdict.VIOLATION not in chosen["verdicts"]:
            chosen["verdict"] = Verdict.INCONCLUSIVE
        return replace(
            self, notes=(*without(self.notes, hidden), Note("unlisted", values={"least": minimum})), **chosen
        )
