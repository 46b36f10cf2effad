"""Size, coverage and power of `flag` and `certify` on designs with known truth.

python -m studies.groups [--tables N] [--only TEXT]        writes docs/groups/simulations.md
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import numpy as np
from scipy import stats

import isonomy as iso
from isonomy.frames.design import Clusters, Design
from isonomy.groups.likelihood.functionals import evaluate
from isonomy.groups.likelihood.joint import Patterns
from isonomy.groups.likelihood.means import IDENTITY, LINKS, LOG, LOGIT, Binary, linked
from isonomy.groups.likelihood.overlap import Overlapping, Pair, StandardizedContrast
from isonomy.groups.likelihood.profile import Kind, OnScale, ProfileLikelihood, odds_in_whole
from isonomy.inference.decide import inside
from isonomy.inference.designs import Influence, spread
from isonomy.inference.effect import AgainstBest, Hypothesis, every_pair, gap_limits
from isonomy.inference.multiplicity import adjust
from isonomy.numerics.arrays import FloatArray, IntArray
from isonomy.numerics.status import Status
from isonomy.numerics.tails import chi2_isf, chi2_sf
from studies.designs import regression
from studies.lines import Asked, Line, Number, Page, Run, Section, at_most, each, main, nominal, published, rejected

TABLES = 2_000  # as in the paper, so that published and measured rates have the same precision
VALUE = iso.Metric("value", value=iso.col("v"))

# tau: false flagging rate and power
TABLE_3 = {
    -0.15: (0.0, 0.0),
    -0.10: (0.0, 0.0),
    -0.05: (0.0, 0.0),
    0.0: (0.0015, 0.0),
    0.05: (0.0043, 0.0735),
    0.10: (0.0163, 0.4805),
    0.15: (0.0, 0.5558),
    0.20: (0.0, 0.6475),
    0.25: (0.0, 0.7555),
    0.30: (0.0, 0.856),
    0.35: (0.0, 0.934),
    0.40: (0.0, 0.9783),
    0.45: (0.0, 0.994),
    0.50: (0.0, 0.9985),
    0.55: (0.0, 1.0),
    0.60: (0.0, 0.9998),
}


# Estimated references


def draw_metric(rng: np.random.Generator, metric: str, n: int, mean: float) -> FloatArray:
    """A 0/1 metric, or an exponential one, with the given mean."""
    return (rng.random(n) < mean).astype(float) if metric == "rate" else mean * rng.exponential(size=n)


def covers(rng: np.random.Generator, metric: str, sizes: tuple[int, int] | None, shift: float = 0.0) -> list[float]:
    """Whether joint and plug-in 95 % intervals cover the true disparity.

    Two groups of the given sizes have the mean 0.6. Without sizes, the reference is the population of 1,000 rows; half
    of them are in the group, with mean 0.6 + shift, and the others have the mean 0.6 - shift.
    """
    n, other = sizes or (k := int(rng.binomial(1_000, 0.5)), 1_000 - k)
    v = np.concatenate([draw_metric(rng, metric, n, 0.6 + shift), draw_metric(rng, metric, other, 0.6 - shift)])
    columns = {"g": np.repeat(["a", "b"], [n, other]), "v": v}
    measure = iso.Metric("value", value=iso.col("v"), binary=metric == "rate")
    reference: Any = "population" if sizes is None else {"g": "b"}
    options: dict[str, Any] = {
        "metric": measure,
        "groups": "g",
        "reference": reference,
        "null": shift,
        "adjust": "none",
    }
    return [float(iso.flag(columns, **options, method=method).pvalue[0] > 0.05) for method in ("el", "published")]


REFERENCES: dict[str, dict[str, Any]] = {
    "another group, 500 against 500": {"sizes": (500, 500)},
    "another group, 2174 against 854": {"sizes": (2_174, 854)},
    "another group, 500 against 2500": {"sizes": (500, 2_500)},
    "population, the group is half of 1000 and differs": {"sizes": None, "shift": 0.18},
    "population, the group is half of 1000 and does not differ": {"sizes": None},
}


# Degrees of freedom


def joint(rng: np.random.Generator, design: str) -> list[float]:
    """The rank, and whether the joint test rejects equal rates with df from the rank and from the number of groups."""
    cells = design == "cells"
    shares = np.outer([0.6, 0.4], [0.45, 0.55]).ravel() if cells else np.array([0.5, 0.3, 0.2])
    cell = rng.choice(shares.size, size=1_500, p=shares)
    columns = {"race": cell // 2, "sex": cell % 2} if cells else {"race": cell}
    columns |= {"c": (rng.random(1_500) < 0.35).astype(int)}
    reference: Any = {"race": 0} if design == "level" else "population"
    groups = [name for name in ("race", "sex") if name in columns]
    result = iso.certify(
        columns, metric="selection_rate", prediction="c", groups=groups, depth=len(groups), reference=reference
    )
    tested = 2 if design == "level" else len(result.groups)
    return [result.df, *rejected([result.pvalue, float(chi2_sf(result.statistic, tested))])]


def with_rank(outcomes: FloatArray) -> list[Number]:
    """The rank as a whole number, then the rates."""
    return [f"{outcomes[:, 0].max():g}", *outcomes[:, 1:].mean(axis=0).tolist()]


FREEDOM = {
    "partition": "3 groups against the population",
    "cells": "2 races, 2 sexes, 4 cells",
    "level": "2 against a level",
}


# Every table is one group. The reference is known, so that one call tests a whole block.


def as_groups(values: FloatArray) -> dict[str, Any]:
    """Each row of ``values`` as one group."""
    tables, size = values.shape
    return {"t": np.repeat(np.arange(tables), size), "v": values.ravel()}


def known(values: FloatArray, **options: Any) -> FloatArray:
    """P-values of `flag` for each row of ``values``, whose mean is compared with a known reference."""
    return iso.flag(
        as_groups(values), metric=VALUE, groups="t", **{"reference": 0.0, "adjust": "none", **options}
    ).pvalue


def interval_null(rng: np.random.Generator, tables: int, width: float) -> FloatArray:
    """Rejections at the end of an interval null of ``width`` standard errors, by our and the published p-value."""
    values = rng.standard_normal((tables, 400))
    null = (-width / 20, 0.0)
    return np.column_stack([rejected(known(values, null=null, method=method)) for method in ("el", "published")])


def flagging(rng: np.random.Generator, tables: int, tau: float, drawn: bool = False) -> FloatArray:
    """False flagging proportion and power of Table 3: disparity <= 0.05 in two groups of 1,000 rows, BH at 0.05.

    With ``drawn``, a null counts as true if it holds for the covariates that were drawn, not in the population. This
    matters only at tau = 0.1, where the disparity of the first group is exactly 0.05.
    """
    drawings = [regression(1_000, int(rng.integers(2**31)), model="5.3", tau=tau).columns for _ in range(tables)]
    group = np.concatenate([2 * i + columns["group"].astype(int) - 1 for i, columns in enumerate(drawings)])
    columns = {"t": group, "v": np.concatenate([columns["residual"] for columns in drawings])}
    options: dict[str, Any] = {"reference": 0.0, "adjust": "none", "null": iso.null(0.05, side="greater")}
    p = iso.flag(columns, metric=VALUE, groups="t", **options).pvalue.reshape(-1, 2)
    flagged = np.array([adjust(pair, "bh") <= 0.05 for pair in p])
    null = np.tile(np.array([0.5 * tau, 1.5 * tau]) <= 0.05 + 1e-12, (tables, 1))
    if drawn:
        x = np.concatenate([columns["x"] for columns in drawings])
        null = (2 * tau * np.bincount(group, x) / np.bincount(group)).reshape(-1, 2) <= 0.05
    false = (flagged & null).sum(axis=1) / np.maximum(flagged.sum(axis=1), 1)
    power = (flagged & ~null).sum(axis=1) / np.maximum((~null).sum(axis=1), 1)
    return np.column_stack([false, power])


def ten_runs(outcomes: FloatArray) -> list[float]:
    """Means over all tables, and standard deviations of the means of ten runs."""
    runs = np.array([run.mean(axis=0) for run in np.array_split(outcomes, min(10, len(outcomes)))])
    return [*outcomes.mean(axis=0).tolist(), *runs.std(axis=0, ddof=1).tolist()]


LAWS = {"exponential": 1.0, "lognormal": float(np.exp(0.5))}  # their means


def skewed(rng: np.random.Generator, law: str, shape: tuple[int, int]) -> FloatArray:
    """Draws from a skewed distribution."""
    return rng.exponential(size=shape) if law == "exponential" else rng.lognormal(0, 1, size=shape)


def small_samples(rng: np.random.Generator, tables: int, law: str, rows: int) -> FloatArray:
    """Whether nominal 95 % intervals cover a skewed mean: EL, Bartlett, adjusted EL and Student's t."""
    values = skewed(rng, law, (tables, rows))
    methods = [iso.likelihood(correction=correction) for correction in (None, "bartlett", "adjusted")]
    p = [known(values, null=LAWS[law], method=method) for method in methods]
    p.append(np.asarray(stats.ttest_1samp(values, LAWS[law], axis=1).pvalue))
    return 1 - rejected(np.column_stack(p))


def two_small_groups(rng: np.random.Generator, rows: int) -> FloatArray:
    """Whether the interval of two exponential groups covers 0: joint EL, and with the resampled Bartlett factor."""
    columns = {"g": np.repeat(["a", "b"], rows), "v": rng.exponential(size=2 * rows)}
    options: dict[str, Any] = {"metric": VALUE, "groups": "g", "reference": {"g": "b"}, "rng": rng}
    methods = [iso.likelihood(correction=correction, resamples=199) for correction in (None, "bartlett")]
    return 1 - rejected([iso.flag(columns, **options, method=method).pvalue[0] for method in methods])


def three_small_groups(rng: np.random.Generator, rows: int) -> Any:
    """Whether equality of three exponential groups is rejected: joint EL, and with the resampled Bartlett factor."""
    columns = {"g": np.repeat(["a", "b", "c"], rows), "v": rng.exponential(size=3 * rows)}
    options: dict[str, Any] = {"metric": VALUE, "groups": "g", "rng": rng}
    methods = [iso.likelihood(correction=correction, resamples=100) for correction in (None, "bartlett")]
    return rejected([iso.certify(columns, **options, method=method).pvalue for method in methods])


def detectable(rng: np.random.Generator, tables: int, reference: Any, rows: int, others: int) -> Any:
    """Whether the disparity that should be detected with probability 0.8 is detected, at a rate of 0.3."""
    size = iso.detectable_disparity(
        rows, reference=reference, reference_n=None if reference == "known" else others, rate=0.3
    )
    if reference == "known":
        return rejected(known((rng.random((tables, rows)) < 0.3 + size).astype(float), reference=0.3))
    own: IntArray = np.full(tables, rows)
    rest = 0.3
    if reference == "population":
        own = rng.binomial(rows + others, rows / (rows + others), size=tables)
        rest = 0.3 + size - size / (1 - rows / (rows + others))
    p = []
    for n in own:
        other = rows + others - n if reference == "population" else others
        c = np.concatenate([rng.random(n) < 0.3 + size, rng.random(other) < rest]).astype(int)
        columns = {"g": np.repeat(["a", "b"], [n, other]), "c": c}
        against: Any = "population" if reference == "population" else {"g": "b"}
        options: dict[str, Any] = {"prediction": "c", "groups": "g", "reference": against, "adjust": "none"}
        p.append(iso.flag(columns, metric="selection_rate", **options).pvalue[0])
    return rejected(p)


# Scales, the best group, the widest gap, several metrics


def scales(rng: np.random.Generator, tables: int, rows: int, rate: float, whole: bool) -> FloatArray:
    """Whether 95 % intervals cover the difference, ratio and odds ratio of a group at 0.8 times the rate.

    The reference is another group of as many rows or, if ``whole``, all rows of both. A table whose reference has no
    ones has no interval of a ratio; it counts as covering the truth.
    """
    share = rng.binomial(2 * rows, 0.5, tables) if whole else np.full(tables, rows)
    own, other = Binary(share, rng.binomial(share, 0.8 * rate)), Binary(2 * rows - share, 0 * share)
    other = Binary(other.n, rng.binomial((2 * rows - share).astype(int), rate))
    every, held = np.arange(tables), []
    reference = 0.9 * rate if whole else rate
    for link in (IDENTITY, LOG, LOGIT):
        if whole and link is LOGIT:
            problem = odds_in_whole(own, every, other, every)
        else:
            kind = Kind.NESTED if whole else Kind.DISJOINT
            problem = ProfileLikelihood(kind, linked(own, link), every, other=linked(other, link), partner=every)
        truth = float(link.delta(link.compared(0.8 * rate, reference)))
        empty = ~link.comparable(problem.reference if link is not LOGIT or not whole else _pooled(own, other))
        statistic = problem.scoring_few().statistic(np.full(tables, truth))
        held.append(np.where(empty, True, statistic <= chi2_isf(0.05, 1)))
    return np.column_stack(held).astype(float)


def standardised(rng: np.random.Generator, law: str, rows: int, shift: float, clusters: int = 0) -> list[float]:
    """Whether 95 % intervals cover the true standardized difference of a group that lies ``shift`` higher.

    Each of 2 ``rows`` rows, or each cluster, falls in the group by chance; rows of a cluster are correlated. The
    reference is the other rows, in units of their standard deviation, of the pooled one and of that of all rows; then
    all rows.
    """
    size = 2 * rows
    member = np.arange(size) if not clusters else np.arange(size) * clusters // size
    own = (rng.random(clusters or size) < 0.5)[member]
    noise = rng.standard_normal(size) if law == "normal" else rng.exponential(size=size) - 1.0
    common = np.sqrt(0.2) * rng.standard_normal(clusters)[member] if clusters else 0.0
    value = common + noise * (np.sqrt(0.8) if clusters else 1.0) + shift * own
    ones = np.ones(size)
    design = Design(ones, ones, ones, ones, Clusters.from_rows(member, ones))
    everybody, whole = np.ones(size, dtype=bool), float(np.sqrt(1.0 + shift**2 / 4.0))
    comparisons = (  # the reference, the rows behind the standard deviation (None: both sides, pooled), the truth
        (~own, ~own, shift),
        (~own, None, shift),
        (~own, everybody, shift / whole),
        (everybody, everybody, shift / 2.0 / whole),
    )
    held = []
    for referents, unit, truth in comparisons:
        contrast = StandardizedContrast(value, ones, own, referents, unit)
        likelihood = Overlapping((contrast,), "el")
        statistic = likelihood.statistic(truth)
        if clusters:
            totals = spread(design, Influence.from_values(contrast.fit()[3] / size, own))
            statistic = totals.law(likelihood.standard_error**2).chi_square(statistic)
        held.append(float(statistic[0] <= chi2_isf(0.05, 1)))
    return held


STANDARDISED = (
    ("normal", 50, 0),
    ("normal", 300, 0),
    ("exponential", 50, 0),
    ("exponential", 300, 0),
    ("normal", 200, 50),
    ("exponential", 1_000, 100),
)


def quantiles(rng: np.random.Generator, law: str, rows: int, level: float) -> list[float]:
    """Whether the 95 % interval of the difference between two equal quantiles covers 0."""
    drawn = rng.standard_normal((2, rows)) if law == "normal" else rng.exponential(size=(2, rows))
    columns = [{"value": values, "level": np.full(rows, level)} for values in drawn]
    (value, own), (reference, other) = (evaluate("quantile", one, np.ones(rows)) for one in columns)
    nothing, codes = np.zeros(rows), np.repeat([1, 0], rows)
    lines = np.concatenate([value - reference + own, nothing]), np.concatenate([nothing, 2.0 * other])
    pair = Pair(Patterns(codes, 2, lines, None), np.array([0.0, 1.0]), np.zeros(2), 0.0)
    return [float(Overlapping((pair,), "el").statistic(0.0)[0] <= chi2_isf(0.05, 1))]


def _pooled(own: Binary, other: Binary) -> FloatArray:
    return np.asarray((own.ones + other.ones) / (own.n + other.n))


BEST = {
    "all equal": lambda k: np.ones(k),
    "one worse, at 0.7 of the others": lambda k: np.append(np.ones(k - 1), 0.7),
    "two tied for best, the others at 0.7": lambda k: np.append(np.ones(2), np.full(k - 2, 0.7)),
}


def best_groups(rng: np.random.Generator, tables: int, groups: int, rate: float, design: str) -> FloatArray:
    """Ratios of groups of 200 rows to the highest: whether the intervals of the first and the last group cover.

    Also whether the first group, one of the best, is found to be below 1, and whether the interval of the widest gap
    covers it.
    """
    rates = rate * BEST[design](groups)  # type: ignore[no-untyped-call]
    counts = Binary(np.full(groups * tables, 200), rng.binomial(200, rates, (tables, groups)).ravel())
    means = linked(counts, LOG)
    first, second = every_pair(groups)
    start = groups * np.arange(tables)[:, None]
    at, against = (start + first).ravel(), (start + second).ravel()
    best = AgainstBest(ProfileLikelihood(Kind.DISJOINT, means, at, other=means, partner=against).scoring_few(), at)
    low, high = (end.reshape(tables, groups) for end in best.interval(chi2_isf(0.05, 1)))
    truth = np.log(rates / rates.max())
    held = (low <= truth + 1e-12) & (truth - 1e-12 <= high)
    blamed = (best.statistic(0.0) >= chi2_isf(0.10, 1)).reshape(tables, groups)[:, 0]
    once = first < second
    at, against = ((start + part[once]).ravel() for part in (first, second))
    pairs = ProfileLikelihood(Kind.DISJOINT, means, at, other=means, partner=against).scoring_few()
    gaps = widest_gap_holds(pairs, tables, float(-truth.min()))
    return np.column_stack([held[:, 0], held[:, -1], blamed, gaps]).astype(float)


def widest_gap_holds(pairs: ProfileLikelihood, tables: int, truth: float) -> FloatArray:
    """Whether the interval of the widest gap of each table covers the truth; the pairs of a table are adjacent."""
    tests = pairs.group.size // tables
    least, most = (np.nanmax(end.reshape(tables, tests), axis=1) for end in gap_limits(pairs, 0.05, tests))
    return np.asarray((least <= truth + 1e-12) & (truth <= most + 1e-12), dtype=float)


def no_gap(rng: np.random.Generator, tables: int, groups: int) -> FloatArray:
    """Without any difference: whether our interval of the widest gap, and a percentile bootstrap's, cover 0.

    The bootstrap resamples the rows of the whole table 300 times, as fairlearn does for `MetricFrame.difference`.
    """
    ones = rng.binomial(200, 0.3, (tables, groups))
    counts = Binary(np.full(ones.size, 200), ones.ravel())
    first, second = np.triu_indices(groups, 1)
    start = groups * np.arange(tables)[:, None]
    at, against = (start + first).ravel(), (start + second).ravel()
    ours = widest_gap_holds(ProfileLikelihood(Kind.DISJOINT, counts, at, other=counts, partner=against), tables, 0.0)
    theirs = []
    for drawn in ones:
        cells = np.column_stack([drawn, 200 - drawn]).ravel() / (200 * groups)
        again = rng.multinomial(200 * groups, cells, size=300).reshape(300, groups, 2)
        rates = again[:, :, 0] / again.sum(axis=2)
        theirs.append(np.quantile(np.ptp(rates, axis=1), 0.025) <= 0)
    return np.column_stack([ours, theirs]).astype(float)


FOUR: Any = ["selection_rate", "tpr", "fpr", "ppv"]


def many_metrics(rng: np.random.Generator) -> list[float]:
    """Whether any of 10 equal groups is flagged for any of 4 metrics, and whether certify (3 metrics) rejects."""
    rows = 4_000
    columns = {"g": rng.integers(0, 10, rows), "y": rng.integers(0, 2, rows), "p": rng.integers(0, 2, rows)}
    options: dict[str, Any] = {"outcome": "y", "prediction": "p", "groups": "g"}
    flagged = iso.flag(columns, metric=FOUR, **options)
    joint = iso.certify(columns, metric=["selection_rate", "accuracy", "tpr"], **options)
    return [float(len(flagged.flagged) > 0), float(joint.pvalue <= 0.05)]


# Small and skewed groups: false verdicts, and how often there is no verdict


def drawn(rng: np.random.Generator, law: str, shape: tuple[int, int]) -> FloatArray:
    """Draws from a skewed distribution, or with a rate of 0.1."""
    return (rng.random(shape) < 0.1).astype(float) if law == "rate 0.1" else skewed(rng, law, shape)


def many_small_groups(rng: np.random.Generator, law: str, groups: int, rows: int) -> list[float]:
    """Whether `certify` finds that equal groups differ, cannot tell, and rejects without its correction."""
    columns = as_groups(drawn(rng, law, (groups, rows)))
    options: dict[str, Any] = {
        "metric": iso.Metric("value", value=iso.col("v"), binary=law == "rate 0.1"),
        "groups": "t",
    }
    ours = iso.certify(columns, **options, method=iso.likelihood(resamples=200), rng=rng)
    paper = iso.certify(columns, **options, method=iso.likelihood(correction=None))
    unsure = ours.verdict.value == "inconclusive" and ours.pvalue <= 0.05
    return [float(ours.verdict.value == "violation"), float(unsure), *rejected([paper.pvalue])]


def simultaneous(rng: np.random.Generator, law: str, groups: int, rows: int) -> list[float]:
    """Simultaneous intervals of equal groups against their known mean.

    Whether the verdict is false, the share of groups without one, and whether all intervals (with a verdict; all) hold.
    """
    mean = {**LAWS, "rate 0.1": 0.1}[law]
    columns = as_groups(drawn(rng, law, (groups, rows)))
    result = iso.certify(columns, metric=VALUE, groups="t", reference=mean, tolerance=1e-9)
    held = (result.ci_low <= 0) & (result.ci_high >= 0)
    shown = np.array([status is Status.OK for status in result.status])
    return [
        float(result.verdict.value == "violation"),
        float(1 - shown.mean()),
        float((held | ~shown).all()),
        float(held.all()),
    ]


def at_the_edge(rng: np.random.Generator, law: str, rows: int, sign: float) -> list[float]:
    """At the end of a tolerance of one standard deviation: whether the verdict is violation, within, or neither."""
    deviation = 1.0 if law == "exponential" else float(np.sqrt(np.expm1(1.0) * np.e))
    options: dict[str, Any] = {"reference": LAWS[law] - sign * deviation, "tolerance": deviation, "adjust": "none"}
    # One group per table: others would show how skewed the distribution is.
    result = iso.flag(as_groups(skewed(rng, law, (1, rows))), metric=VALUE, groups="t", **options)
    return [float(result.verdicts[0].value == v) for v in ("violation", "within_tolerance", "inconclusive")]


# The margin of 1,000 tables, for lines with more tables.
THOUSAND = Asked(0.05, "most", error=lambda own: float(np.sqrt(0.05 * 0.95 / 1_000)))


def rare(rng: np.random.Generator, tables: int, rows: int, others: int, rate: float, edge: float) -> FloatArray:
    """Two groups whose rates differ by ``edge``, the end of the tolerance, tested as in `flag` and by likelihood ratio.

    Whether the verdict is violation, whether it is within, and whether the 95 % interval misses the truth.
    """
    cases = np.column_stack([rng.binomial(rows, rate + edge, tables), rng.binomial(others, rate, tables)])
    distinct, place = np.unique(cases, axis=0, return_inverse=True)
    every = np.arange(len(distinct))
    own, other = (Binary(np.full(every.size, n), k) for n, k in zip((rows, others), distinct.T, strict=True))
    plain = ProfileLikelihood(Kind.DISJOINT, own, every, other=other, partner=every)
    outcomes = []
    for problem in (plain.scoring_few(), plain):
        low, high = problem.interval(chi2_isf(0.05, 1))
        violation = problem.test(Hypothesis(-edge, edge, "outside"))[1] <= 0.05
        outcomes += [violation, inside(low, high, edge), (low > edge) | (high < edge)]
    return np.column_stack(outcomes)[place.ravel()].astype(float)


# Families of overlapping groups with one reference


LEVELS = {5: (2, 3), 41: (2, 3, 5), 199: (7, 8, 8)}


def family(rng: np.random.Generator, groups: int) -> list[float]:
    """Overlapping groups against a fifth of the rows: any false flag of max-t and Holm, false flagging rate of BH.

    First without any difference, then with the first level of the first column 6 points lower; then also the power.
    """
    levels, rows = LEVELS[groups], 20_000 if groups > 100 else 4_000
    apart = rng.random(rows) < 0.2
    columns = {f"c{i}": np.where(apart, size, rng.integers(0, size, rows)) for i, size in enumerate(levels)}
    measured = []
    for shift in (0.0, 0.06):
        rate = 0.3 - shift * (columns["c0"] == 0)
        table = {**columns, "y": (rng.random(rows) < rate).astype(int)}
        options: dict[str, Any] = {"metric": "selection_rate", "prediction": "y", "groups": list(columns)}
        depth, reference = 1 if groups == 5 else 2, {"c0": levels[0]}
        result = iso.flag(table, **options, depth=depth, reference=reference, adjust="max-t", rng=rng)
        tested = ~np.isnan(result.pvalue)
        items = [dict(group.items) for group, kept in zip(result.groups, tested, strict=True) if kept]
        null = np.array([not shift or int(str(one.get("c0", "0"))) > 0 for one in items])
        p = result.pvalue[tested]
        flags = {"max-t": result.adjusted_pvalue[tested] <= 0.05}
        flags |= {name: adjust(p, name) <= 0.05 for name in ("holm", "bh")}
        measured += [float((flags[name] & null).any()) for name in ("max-t", "holm")]
        measured.append(float((flags["bh"] & null).sum() / max(flags["bh"].sum(), 1)))
        if shift:
            measured += [float(flags[name][~null].mean()) for name in ("max-t", "holm", "bh")]
    return measured


# Planning: is the requested power reached?


@cache
def enough(reference: Any, scale: Any, tolerance: float | None, disparity: float) -> int:
    """The rows that should suffice."""
    ratio = None if reference == "known" else 4.0
    return iso.rows_needed(disparity, reference=reference, ratio=ratio, rate=0.3, scale=scale, tolerance=tolerance)


def planned(
    rng: np.random.Generator,
    tables: int,
    reference: Any,
    scale: Any,
    tolerance: float | None,
    disparity: float,
) -> FloatArray:
    """Whether the verdict is reached with the rows that should suffice in 0.8 of tables, at rates of 0.3.

    The reference has four times as many rows.
    """
    link, rows = LINKS[scale], enough(reference, scale, tolerance, disparity)
    own_rate, every = float(link.moved(0.3, link.delta(disparity))), np.arange(tables)
    size, rest = np.full(tables, rows), 0.3
    if reference == "population":
        size, rest = rng.binomial(5 * rows, 0.2, tables), (0.3 - 0.2 * own_rate) / 0.8
    own = Binary(size, rng.binomial(size, own_rate))
    other = Binary(5 * rows - size, rng.binomial(5 * rows - size, rest))
    if reference == "known":
        problem = ProfileLikelihood(Kind.FIXED, own, every, theta=np.full(tables, 0.3))
    elif reference == "population" and link is LOGIT:
        problem = odds_in_whole(own, every, other, every)
    else:
        kind = Kind.NESTED if reference == "population" else Kind.DISJOINT
        problem = ProfileLikelihood(kind, linked(own, link), every, other=linked(other, link), partner=every)
    likelihood = OnScale.report(problem.scoring_few(), link)
    delta, reach = abs(float(link.delta(disparity))), 0.0
    if tolerance is not None:
        reach = abs(float(link.delta(tolerance)))
    if delta < reach:
        low, high = (link.delta(end) for end in likelihood.interval(chi2_isf(0.05, 1)))
        return inside(low, high, reach).astype(float)
    least, most = (float(end) for end in link.reported([-reach, reach]))
    return np.asarray(rejected(likelihood.test(Hypothesis(least, most, "outside"))[1]))


PLANS: tuple[tuple[Any, float | None, float], ...] = (
    ("difference", None, 0.05),
    ("difference", 0.03, 0.08),
    ("difference", 0.05, 0.0),
    ("difference", 0.05, 0.01),
    ("ratio", 0.8, 0.6),
    ("ratio", 0.8, 1.0),
    ("odds_ratio", 0.8, 0.5),
    ("odds_ratio", 0.8, 1.0),
)


def planned_clusters(
    rng: np.random.Generator, size: int, correlation: float, tolerance: float | None, disparity: float
) -> float:
    """The same for clusters, against a group of as many rows with a rate of 0.3."""
    cluster = size, correlation
    rows = iso.rows_needed(disparity, reference="group", rate=0.3, tolerance=tolerance, cluster=cluster)
    number, total = -(-rows // size), (1.0 - correlation) / correlation
    rates = [rng.beta(rate * total, (1.0 - rate) * total, number) for rate in (0.3 + disparity, 0.3)]
    chance = np.repeat(np.concatenate(rates), size)
    table = {
        "g": np.repeat(["a", "b"], number * size),
        "y": (rng.random(chance.size) < chance).astype(int),
        "c": np.repeat(np.arange(2 * number), size),
    }
    result = iso.flag(
        table,
        metric="selection_rate",
        prediction="y",
        groups="g",
        reference={"g": "b"},
        cluster="c",
        tolerance=tolerance,
    )
    within = tolerance is not None and disparity < tolerance
    return float(result.verdicts[0].value == ("within_tolerance" if within else "violation"))


CLUSTERED: tuple[tuple[int, float, float | None, float], ...] = (
    (20, 0.1, None, 0.08),
    (20, 0.1, 0.1, 0.0),
    (5, 0.4, 0.02, 0.12),
    (50, 0.2, None, 0.2),
)


PAGE = Page(
    "groups/simulations",
    (
        Section(
            "The reference is estimated: coverage of 95 % intervals",
            ("reference", "metric"),
            ("joint (default)", "plug-in (published)"),
            tuple(
                Run((Line((name, metric), (nominal(0.95),)),), each(partial(covers, metric=metric, **design)), TABLES)
                for name, design in REFERENCES.items()
                for metric in ("rate", "exponential")
            ),
            4,
        ),
        Section(
            "Size of the joint test at nominal 0.05, by how degrees of freedom are counted",
            ("groups",),
            ("rank", "size by rank", "size by number of groups"),
            tuple(
                Run((Line((name,), (None, nominal(0.05))),), each(partial(joint, design=design)), TABLES, with_rank)
                for design, name in FREEDOM.items()
            ),
            4,
        ),
        Section(
            "Size of the interval null at its end, nominal 0.05",
            ("width in standard errors",),
            ("ours", "published"),
            tuple(
                Run((Line((f"{width:g}",), (at_most(0.05),)),), partial(interval_null, width=width), TABLES)
                for width in (0.0, 0.5, 1.0, 2.0, 5.0)
            ),
            4,
        ),
        Section(
            "Flagging (Table 3 of the paper, n = 1000)",
            ("tau",),
            ("false flagging rate", "power"),
            tuple(
                Run(
                    (Line((f"{tau:g}",), (at_most(0.05, "FFR"), published(power, TABLES, "power"))),),
                    partial(flagging, tau=tau),
                    TABLES,
                )
                for tau, (_, power) in TABLE_3.items()
            ),
            4,
        ),
        Section(
            "Flagging at tau = 0.1, nulls counted as true for the covariates drawn",
            ("tau",),
            ("false flagging rate", "power", "sd of the FFR by run", "sd of the power by run"),
            (
                Run(
                    (Line(("0.1",), (published(0.0163, TABLES, "FFR"), published(0.4805, TABLES, "power"))),),
                    partial(flagging, tau=0.1, drawn=True),
                    10 * TABLES,
                    ten_runs,
                ),
            ),
            4,
        ),
        Section(
            "Small samples: coverage of nominal 95 % intervals of a mean",
            ("law", "n"),
            ("EL", "Bartlett", "adjusted EL", "Student's t"),
            tuple(
                Run((Line((law, str(n))),), partial(small_samples, law=law, rows=n), TABLES)
                for law in LAWS
                for n in (20, 50, 100)
            ),
            4,
        ),
        Section(
            "Small samples: two exponential groups, the reference estimated",
            ("n in each",),
            ("joint EL", "with the resampled Bartlett factor"),
            tuple(
                Run((Line((str(n),), (None, nominal(0.95))),), each(partial(two_small_groups, rows=n)), 500)
                for n in (20, 50)
            ),
            4,
        ),
        Section(
            "Power: how often the disparity promised with probability 0.8 is found",
            ("reference", "rows", "rows of the reference"),
            ("found",),
            tuple(
                Run(
                    (Line((reference, f"{n:,}", f"{others:,}" if others else "-"), (Asked(0.8, slack=0.02),)),),
                    partial(detectable, reference=reference, rows=n, others=others),
                    TABLES,
                )
                for reference, n, others in (("known", 800, 0), ("group", 500, 2_000), ("population", 400, 1_600))
            ),
            4,
        ),
        Section(
            "Planning: how often the verdict is reached with the rows that `rows_needed` names for 0.8",
            ("reference", "scale", "tolerance", "true disparity"),
            ("reached",),
            tuple(
                Run(
                    (
                        Line(
                            (reference, scale, str(tolerance or "-"), str(true)), (Asked(0.8, slack=0.03, exact=True),)
                        ),
                    ),
                    partial(planned, reference=reference, scale=scale, tolerance=tolerance, disparity=true),
                    4_000,
                )
                for reference in ("known", "group", "population")
                for scale, tolerance, true in PLANS
            ),
        ),
        Section(
            "Planning with clusters: how often the verdict is reached with the rows that `rows_needed` names for 0.8",
            ("rows of a cluster", "intraclass correlation", "tolerance", "true disparity"),
            ("reached",),
            tuple(
                Run(
                    (Line((str(m), str(rho), str(tolerance or "-"), str(true)), (Asked(0.8, slack=0.03),)),),
                    each(partial(planned_clusters, size=m, correlation=rho, tolerance=tolerance, disparity=true)),
                    1_000,
                )
                for m, rho, tolerance, true in CLUSTERED
            ),
        ),
        Section(
            "Small groups in `certify`: equal groups said to differ, nominal 0.05",
            ("law", "groups", "rows in each"),
            ("violation", "no verdict though p is at most 0.05", "without the correction"),
            tuple(
                Run(
                    (Line((law, str(k), str(n)), (at_most(0.05),)),),
                    each(partial(many_small_groups, law=law, groups=k, rows=n)),
                    1_000,
                )
                for law, k, n in (
                    *((law, 20, 20) for law in ("lognormal", "exponential", "rate 0.1")),
                    *((law, 5, 50) for law in ("lognormal", "exponential", "rate 0.1")),
                )
            ),
        ),
        Section(
            "Skewed groups against a known mean, simultaneous intervals at 0.95",
            ("law", "groups", "rows in each"),
            ("violation", "groups without a verdict", "all intervals a verdict may rest on hold", "all intervals hold"),
            tuple(
                Run(
                    (Line((law, str(k), str(n)), (at_most(0.05), None, Asked(0.95, "least"))),),
                    each(partial(simultaneous, law=law, groups=k, rows=n)),
                    1_000,
                )
                for law, k, n in (("lognormal", 40, 50), ("exponential", 40, 50), ("exponential", 40, 500))
            ),
        ),
        Section(
            "Skewed groups at the end of a tolerance of one standard deviation, nominal 0.05",
            ("law", "rows", "end"),
            ("violation", "within", "inconclusive"),
            tuple(
                Run(
                    (Line((law, str(n), "upper" if sign > 0 else "lower"), (at_most(0.05), at_most(0.05))),),
                    each(partial(at_the_edge, law=law, rows=n, sign=sign)),
                    1_000,
                )
                for law in ("lognormal", "exponential")
                for n in (20, 50, 200, 2_000)
                for sign in (1.0, -1.0)
            ),
        ),
        Section(
            "Rare rates in two groups whose difference is the end of the tolerance, nominal 0.05",
            ("rows", "rows of the reference", "its rate", "difference"),
            (
                "violation",
                "within",
                "interval misses",
                "violation, likelihood ratio",
                "within, likelihood ratio",
                "interval misses, likelihood ratio",
            ),
            tuple(
                Run(
                    (Line((f"{n:,}", f"{m:,}", str(rate), str(edge)), (THOUSAND,) * 3),),
                    partial(rare, rows=n, others=m, rate=rate, edge=edge),
                    2_000,
                )
                for n, m in ((100, 1_000), (100, 100), (50, 500), (20, 2_000), (1_000, 100))
                for rate, edge in ((0.02, 0.0), (0.02, 0.05), (0.1, 0.0), (0.1, 0.05))
            ),
        ),
        Section(
            "Overlapping groups and one reference: any false flag (max-t, Holm), the false flagging rate (BH), power",
            ("groups",),
            (
                *("max-t", "Holm", "BH", "max-t where some differ", "Holm where some differ", "BH where some differ"),
                *("power of max-t", "power of Holm", "power of BH"),
            ),
            tuple(
                Run((Line((str(k),), (at_most(0.05),) * 6),), each(partial(family, groups=k)), 1_000) for k in LEVELS
            ),
        ),
        Section(
            "Bartlett's correction of the joint test: size at nominal 0.05",
            ("n in each",),
            ("EL", "with the resampled Bartlett factor"),
            tuple(
                Run((Line((str(n),), (None, at_most(0.05))),), each(partial(three_small_groups, rows=n)), 500)
                for n in (20, 50)
            ),
            4,
        ),
        Section(
            "Scales: coverage of nominal 95 % intervals of a group at 0.8 times the reference's rate",
            ("reference", "rows in each", "rate"),
            ("difference", "ratio", "odds ratio"),
            tuple(
                Run(
                    (Line((name, f"{n:,}", str(rate)), (nominal(0.95), nominal(0.95), nominal(0.95))),),
                    partial(scales, rows=n, rate=rate, whole=whole),
                    1_000,
                )
                for name, whole in (("another group", False), ("the population", True))
                for n in (50, 200, 2_000)
                for rate in (0.02, 0.3, 0.9)
            ),
            3,
        ),
        Section(
            "Standardised differences: coverage of nominal 95 % intervals",
            ("law", "rows in each", "clusters", "true difference"),
            ("σ of the reference", "pooled", "of all rows", "of all rows, against them"),
            tuple(
                Run(
                    (Line((law, f"{n:,}", str(k) if k else "-", str(shift)), (nominal(0.95),) * 4),),
                    each(partial(standardised, law=law, rows=n, shift=shift, clusters=k)),
                    300,
                )
                for law, n, k in STANDARDISED
                for shift in (0.0, 0.5)
            ),
            3,
        ),
        Section(
            "Quantiles: coverage of nominal 95 % intervals of the difference of two groups",
            ("law", "rows in each", "level"),
            ("difference",),
            tuple(
                Run(
                    (Line((law, str(n), str(level)), (nominal(0.95),)),),
                    each(partial(quantiles, law=law, rows=n, level=level)),
                    1_000,
                )
                for law in ("normal", "exponential")
                for n in (50, 300)
                for level in (0.5, 0.9)
            ),
            3,
        ),
        Section(
            "Against the highest: coverage of nominal 95 % intervals of ratios, 200 rows in each group",
            ("truth", "groups", "rate"),
            ("a best group", "the last group", "a best group blamed", "the widest gap"),
            tuple(
                Run(
                    (
                        Line(
                            (design, str(k), str(rate)),
                            (Asked(0.95, "least"), Asked(0.95, "least"), at_most(0.05), Asked(0.95, "least")),
                        ),
                    ),
                    partial(best_groups, groups=k, rate=rate, design=design),
                    1_000,
                )
                for design in BEST
                for k in (2, 5, 12)
                for rate in (0.02, 0.3, 0.9)
            ),
            3,
        ),
        Section(
            "The widest gap where there is none: intervals that hold 0",
            ("groups",),
            ("ours", "percentile bootstrap"),
            tuple(
                Run((Line((str(k),), (Asked(0.95, "least"),)),), partial(no_gap, groups=k), 1_000) for k in (2, 5, 12)
            ),
            3,
        ),
        Section(
            "Several metrics at once: false alarms, 10 equal groups of about 400 rows",
            ("metrics",),
            ("flag: any of 40 (BH)", "certify: 3 metrics jointly"),
            (Run((Line(("4",), (at_most(0.05), nominal(0.05))),), each(many_metrics), 1_000),),
            3,
        ),
    ),
)


if __name__ == "__main__":
    main(PAGE)
