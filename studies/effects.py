"""Size, coverage, bias and power of `treatment_bias` on designs with closed-form truth.

python -m studies.effects [--tables N] [--only TEXT]        writes docs/effects/simulations.md
python -m studies.effects --picture                         draws docs/images/effects_risk.svg
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, cast

import numpy as np
from scipy import stats

import isonomy as iso
from isonomy.effects.estimators import shrinkage
from isonomy.effects.estimators.collapse import Formula, Measure
from isonomy.effects.estimators.errors import errors_of
from isonomy.effects.estimators.events import CountGap, choose_laws, equal_errors, law_of, rest_of
from isonomy.effects.estimators.moments import EventCounts, ExperimentRows, Sums
from isonomy.effects.estimators.shrinkage import Detected, correction, strategies_of
from isonomy.effects.price import QUANTITIES, loss, policy_value, qini, standard_error
from isonomy.inference.effect import Fieller
from isonomy.inference.multiplicity import adjust
from isonomy.numerics.arrays import BoolArray, FloatArray
from studies.lines import Asked, Line, Page, Run, Section, at_most, each, main, nominal, rejected

TABLES = 1_000
ROLES: dict[str, Any] = {"effect": "effect", "treatment": "treatment", "outcome": "outcome", "groups": "group"}


def experiment(rng: np.random.Generator, sizes: Sequence[int], **design: Any) -> iso.simulate.Simulated:
    """One table of `isonomy.simulate.uplift`, with groups of about these sizes: n0, n1, ..."""
    total = sum(sizes)
    shares = {f"n{i}": size / total for i, size in enumerate(sizes)}
    return iso.simulate.uplift(total, int(rng.integers(2**31)), groups=shares, **design)


def truth(table: iso.simulate.Simulated, name: str) -> FloatArray:
    """A known quantity of each group."""
    return np.array([group[name] for group in table.truth["groups"].values()])


# Coverage and size

SIZES = (500, 2_000, 10_000)
PLANTED: dict[str, Mapping[str, float]] = {
    "relative": {"n0": 0.3, "n2": -0.2},
    "difference": {"n0": 0.05, "n2": -0.03},
}


def covers(rng: np.random.Generator, measure: Any, sizes: Sequence[int], **design: Any) -> list[BoolArray]:
    """Whether 95 % intervals cover the true error, and the true bias, of each group."""
    table = experiment(rng, sizes, measure=measure, treated=0.2, baseline=0.1, error=PLANTED[measure], **design)
    result = iso.treatment_bias(table.columns, **ROLES, measure=measure)
    limits = {"error": (result.error_low, result.error_high), "bias": (result.ci_low, result.ci_high)}
    return [(low <= truth(table, name)) & (truth(table, name) <= high) for name, (low, high) in limits.items()]


def rejects(rng: np.random.Generator, measure: Any, sizes: Sequence[int], **design: Any) -> list[FloatArray]:
    """Whether the tests of no error, and of no bias, reject in each group although there is none."""
    table = experiment(rng, sizes, measure=measure, treated=0.2, baseline=0.1, **design)
    result = iso.treatment_bias(table.columns, **ROLES, measure=measure)
    return [rejected(result.error_pvalue), rejected(result.pvalue)]


def coverage(sizes: Sequence[int] = SIZES) -> tuple[Run, ...]:
    """Coverage with planted errors and size without, of the default method, for both measures and kinds of outcome.

    The run that missed its target with 1,000 tables has 4,000.
    """
    runs = []
    for measure in PLANTED:
        for outcome in ("binary", "real"):
            design: dict[str, Any] = {"measure": measure, "sizes": sizes, "outcome": outcome}
            for kind, rate, draw in (("coverage", 0.95, covers), ("size", 0.05, rejects)):
                quantities = (f"error: {kind}", f"bias: {kind}")
                lines = tuple(Line((measure, outcome, name), (nominal(rate),) * len(sizes)) for name in quantities)
                tables = 4 * TABLES if (measure, outcome, kind) == ("relative", "real", "size") else TABLES
                runs.append(Run(lines, each(partial(draw, **design)), tables))
    return tuple(runs)


# Coverage by group size

SMALL = (100, 250, 500, 1_000, 2_500, 10_000)


def welch(columns: Mapping[str, Any], error: FloatArray) -> FloatArray:
    """Degrees of freedom of each group's error; B = b exactly if the means of Y (f - b) and of Y agree across arms."""
    freedom = []
    for name, b in zip(np.unique(columns["group"]), error, strict=True):
        rows = columns["group"] == name
        y, f, t = (columns[k][rows] for k in ("outcome", "effect", "treatment"))
        arms = [(y * (f - b))[t == 0], y[t == 1]]
        with np.errstate(invalid="ignore", divide="ignore"):
            parts = np.array([np.var(arm, ddof=1) / arm.size for arm in arms])
            freedom.append(parts.sum() ** 2 / (parts**2 / [arm.size - 1 for arm in arms]).sum())
    return np.where(np.isnan(freedom), np.inf, freedom)


def few_events(rng: np.random.Generator) -> list[BoolArray]:
    """Coverage at a low base rate: the distribution of the counts, Fieller's interval and the delta method."""
    table = experiment(rng, SMALL, baseline=0.05, treated=0.2)
    default = iso.treatment_bias(table.columns, **ROLES)
    fieller = iso.treatment_bias(table.columns, **ROLES, method="welch")
    error, bias = truth(table, "error"), truth(table, "bias")
    return [
        (default.error_low <= error) & (error <= default.error_high),
        (default.ci_low <= bias) & (bias <= default.ci_high),
        (fieller.error_low <= error) & (error <= fieller.error_high),
        np.abs(fieller.estimate - error)
        <= stats.t.isf(0.025, welch(table.columns, fieller.estimate)) * fieller.error_se,
        (fieller.ci_low <= bias) & (bias <= fieller.ci_high),
    ]


# Few events. The tables are counts, so that a thousand tables of a million rows take minutes.

SHARES = {"half treated": 0.5, "5 % treated": 0.05}
EVENTS = (10, 20, 40, 80)
GROUPS = 30
EFFECT = {"relative": 1.25, "difference": 0.05}
MEAN = {"relative": 0.1 * 1.25 * (1 + 0.1 / 3), "difference": 0.15}  # mean outcome of the treated
LITTLE = (2, 5, 15, 40)


def counted(
    rng: np.random.Generator,
    measure: str,
    rows: Sequence[int] | FloatArray,
    treated: float,
    base: float = 0.1,
    error: float | FloatArray = 0.0,
) -> dict[str, FloatArray]:
    """The experiment of `isonomy.simulate.uplift` as counts: x has two values, v = 2x - 1 = -+ 1 / sqrt(3)."""
    size = np.asarray(rows)
    g, v = np.meshgrid(np.arange(size.size), np.array([-1.0, 1.0]) / np.sqrt(3), indexing="ij")
    n = rng.multinomial(size, [(1 - treated) / 2, (1 - treated) / 2, treated / 2, treated / 2])
    effect = EFFECT[measure] * (1 + 0.2 * v)
    m0 = base * (1 + 0.5 * v)
    m1 = m0 * effect if measure == "relative" else m0 + effect
    predicted = effect + np.broadcast_to(np.asarray(error, dtype=float), size.shape)[:, None]
    columns: dict[str, list[FloatArray]] = {"group": [], "treatment": [], "outcome": [], "effect": [], "rows": []}
    for arm, mean in ((0, m0), (1, m1)):
        there = n[:, 2 * arm : 2 * arm + 2]
        events = rng.binomial(there, mean)
        for y, count in ((0, there - events), (1, events)):
            values = {"group": g, "treatment": g * 0 + arm, "outcome": g * 0 + y, "effect": predicted, "rows": count}
            for name, array in values.items():
                columns[name].append(np.ravel(array))
    return {name: np.concatenate(parts) for name, parts in columns.items()}


def any_flagged(rng: np.random.Generator, tables: int, measure: str, treated: float) -> FloatArray:
    """Whether any of 30 groups without bias is flagged, for each number of expected treated events.

    Uses the functions that `isonomy.treatment_bias` calls; `tests/validity` compares the two on single tables.
    """
    relative = measure == "relative"
    flags = []
    for expected in EVENTS:
        rows = [round(expected / MEAN[measure] / treated)] * GROUPS
        columns = [counted(rng, measure, rows, treated) for _ in range(tables)]
        pvalue = many_pvalues(columns, relative=relative)
        flags.append([rejected(adjust(each_table, "holm")).any() for each_table in pvalue])
    return np.array(flags, dtype=float).T


def added(table: Mapping[str, FloatArray], *, relative: bool, groups: int = GROUPS) -> Sums:
    """The sums of a table of counts."""
    y, f, group = table["outcome"], table["effect"], table["group"].astype(np.intp)
    lines = ExperimentRows(
        {"y": y.astype(float), "f": f},
        table["treatment"].astype(int),
        y.astype(int),
        table["rows"].astype(float),
        ((group, groups),),
    )
    return lines.sums(("y", "yf") if relative else ("y", "f"))[0]


def many_pvalues(tables: Sequence[Mapping[str, FloatArray]], *, relative: bool) -> FloatArray:
    """P-values of bias (table, group) from the distribution of the counts, for count tables with the same groups."""
    sums = [added(table, relative=relative) for table in tables]
    parts = [errors_of(one.moments(), Formula(measure="relative" if relative else "difference")) for one in sums]
    counts = EventCounts(np.stack([one.counts.n for one in sums]), np.stack([one.counts.x for one in sums]))
    fields = ("top", "bottom", "tt", "tb", "bb", "df")
    error, rest = (
        Fieller(*(np.stack([getattr(getattr(part, which), name) for part in parts]) for name in fields))
        for which in ("error", "rest")
    )
    usable, every = np.stack([part.in_rest for part in parts]), np.ones(GROUPS, dtype=bool)
    own = law_of(counts, error, rest.value, relative=relative)
    others = rest_of(counts, rest, counts.n.sum(-1), usable, every, relative=relative)
    pvalue = 2 * stats.norm.sf(np.abs(CountGap(own, others).root()))
    effect = np.stack([part.effects.predicted for part in parts]) - rest.value
    few = counts.expected(effect, relative=relative) < np.log(2 * usable.sum(-1, keepdims=True) / 0.05)
    return np.where(few | ~usable, np.nan, np.minimum(pvalue, 1.0))


def family_wise() -> tuple[Run, ...]:
    """Both measures, half and 5 % treated."""
    return tuple(
        Run(
            (Line((measure, share), (at_most(0.05),) * len(EVENTS)),),
            partial(any_flagged, measure=measure, treated=treated),
            TABLES,
        )
        for measure in PLANTED
        for share, treated in SHARES.items()
    )


# Options without a distribution of counts, and their events; below the floor of 136 nothing is tested.
OTHER_WAYS: dict[str, dict[str, Any]] = {
    "regression": {"estimator": iso.regression(["x"])},
    "pooled rest": {"estimator": iso.arm_means(rest="pooled")},
    "weights": {"weight": "weight"},
}
OTHER_EVENTS = (80, 160, 320)


def other_ways(rng: np.random.Generator, measure: Any, way: str) -> list[float]:
    """With 5 % treated: whether any of 30 groups is flagged, and the share tested, with an option of `OTHER_WAYS`."""
    outcomes = []
    for expected in OTHER_EVENTS:
        table = counted(rng, measure, [round(expected / MEAN[measure] / 0.05)] * GROUPS, 0.05)
        extra = {"x": np.round(table["effect"], 6), "weight": np.ones(table["effect"].size)}
        result = iso.treatment_bias(table | extra, **ROLES, measure=measure, count="rows", **OTHER_WAYS[way])
        outcomes += [
            float(iso.Verdict.VIOLATION in result.verdicts),
            float(np.mean([status == "ok" for status in result.status])),
        ]
    return outcomes


def less_bias(rng: np.random.Generator, measure: Any) -> list[float]:
    """Whether a correction is found to reduce a bias of 0; one group of four has few treated events."""
    outcomes = []
    for expected in LITTLE:
        sizes = [round(expected / MEAN[measure] / 0.2), 2_000, 2_000, 2_000]
        table = counted(rng, measure, sizes, 0.2)
        options: dict[str, Any] = {"strategies": ["none", "mean"], "method": iso.heldout(2, 20)}
        written = {name: np.repeat(values, table["rows"].astype(int)) for name, values in table.items()}
        result = iso.evaluate_corrections(written, **ROLES, measure=measure, **options, rng=rng)
        outcomes.append(float(rejected(result.adjusted_pvalue).any()))
    return outcomes


# Corrections that gain nothing on average: groups with normal errors, in standard errors of a half of the rows.

GAINING = ("mean", "significant", "positive_part", "empirical_bayes")
SHAPES: dict[str, Any] = {
    "one group": lambda groups: np.eye(groups)[-1],
    "all groups, up and down": lambda groups: np.resize([1.0, -1.0], groups),
}


def gain(strategy: Any, first: FloatArray, second: FloatArray) -> FloatArray:
    """How much less squared bias is left in the second half by the correction that the first half finds."""
    groups = first.shape[-1]
    others = (1 - np.eye(groups)) / (groups - 1)
    amount = correction(strategy, Detected(first, np.ones(groups)))
    bias, left = second - second @ others, second - amount - (second - amount) @ others
    return np.asarray((bias**2 - left**2).mean(-1))


@cache
def break_even(strategy: str, shape: str, groups: int) -> float:
    """The size of the errors at which a strategy neither gains nor loses on average."""
    noise = np.random.default_rng(5).standard_normal((2, 4_000, groups))

    def mean(size: float) -> float:
        true = size * SHAPES[shape](groups)
        return float(gain(strategy, true + noise[0], np.broadcast_to(true, noise[0].shape)).mean())

    low, high = 0.0, 12.0
    for _ in range(14):
        middle = (low + high) / 2
        low, high = (low, middle) if mean(middle) > 0 else (middle, high)
    return high


def no_gain(rng: np.random.Generator, shape: str, groups: int, strategies: Sequence[str] = GAINING) -> list[float]:
    """Whether each strategy is said to leave less bias although it gains nothing on average; ten splits and swaps."""
    others, found = (1 - np.eye(groups)) / (groups - 1), []
    for strategy in strategies:
        whole = break_even(strategy, shape, groups) * SHAPES[shape](groups) + rng.normal(0, np.sqrt(0.5), groups)
        split = rng.normal(0, np.sqrt(0.5), (10, groups))
        decrease = np.mean([gain(strategy, whole + half, whole - half) for half in (split, -split)])
        law = shrinkage.NormalErrors(Detected(whole, np.ones(groups), np.full(groups, np.inf)), others, groups, False)
        found.append(float(shrinkage.less_bias(float(decrease), cast("Any", strategy), [law], 0.05, rng) <= 0.05))
    return found


def power_of_corrections(rng: np.random.Generator) -> list[float]:
    """Whether a bias is found, the default correction is shown to leave less, and any of all corrections is."""
    table = iso.simulate.uplift(20_000, int(rng.integers(2**31)), groups=4, baseline=0.2, error={"b": 0.35}).columns
    bias = iso.treatment_bias(table, **ROLES)
    result = iso.evaluate_corrections(table, **ROLES, rng=rng)
    shown = dict(zip(result.strategies, result.shown, strict=True))
    return [float(bias.verdict == "violation"), float(shown["empirical_bayes_mixture"]), float(result.shown.any())]


ONLINE: dict[str, tuple[dict[str, float], dict[str, float], float]] = {
    "no bias in either arm": ({}, {}, 0.5),
    "0.4 in one group of both arms": ({"b": 0.4}, {"b": 0.4}, 0.5),
    "0.4 in different groups": ({"b": 0.4}, {"c": -0.4}, 0.5),
    "0.4 in different groups, a tenth without correction": ({"b": 0.4}, {"c": -0.4}, 0.1),
}


def online(rng: np.random.Generator, design: str) -> list[float]:
    """Whether the arm with a correction is said to leave less bias than the arm without, although it leaves as much."""
    first, second, share = ONLINE[design]
    arms = []
    for name, error, rows in (("none", first, share), ("corrected", second, 1 - share)):
        size = round(8_000 * rows)
        arm = iso.simulate.uplift(size, int(rng.integers(2**31)), groups=4, baseline=0.2, error=error).columns
        arms.append({**arm, "arm": np.full(size, name)})
    table = {name: np.concatenate([arm[name] for arm in arms]) for name in arms[0]}
    result = iso.evaluate_corrections(table, **ROLES, method=iso.online("arm"))
    return [float(result.shown.any())]


def criteria(rng: np.random.Generator, measure: Any) -> list[float]:
    """Whether the tests of the three criteria reject although all of them hold."""
    table = iso.simulate.uplift(6_000, int(rng.integers(2**31)), groups=6, measure=measure, baseline=0.2, noise=0.1)
    result = iso.treatment_bias(table.columns, **ROLES, measure=measure)
    return [float(rejected(pvalue)) for pvalue in np.asarray(result.criteria()["pvalue"])]


def omnibus(rng: np.random.Generator, measure: Any, treated: float) -> list[float]:
    """Whether the test of equal errors rejects although all 30 groups have the same error."""
    sizes = [[round(expected / MEAN[measure] / treated)] * GROUPS for expected in EVENTS]
    tables = [counted(rng, measure, rows, treated, error=0.1 * EFFECT[measure]) for rows in sizes]
    return [float(rejected(omnibus_pvalue(table, measure))) for table in tables]


def omnibus_pvalue(table: Mapping[str, FloatArray], measure: Measure) -> float:
    """The p-value of equal errors, as in `isonomy.treatment_bias`; `tests/validity` compares the two."""
    relative, formula = measure == "relative", Formula(measure=measure)
    sums = added(table, relative=relative)
    part = errors_of(sums.moments(), formula)
    error, bias, few = choose_laws(part, part, sums, formula, counted=True)
    events = sums.counts.expected(part.effects.predicted - part.rest.value, relative=relative)
    used = part.usable & (events >= np.log(2 * part.usable.sum() / 0.05))
    return equal_errors(error, bias, few, used)[1]


# Rare outcomes, heavy tails, few treated

RARE = (1_000, 5_000, 20_000, 100_000)
HEAVY = (*RARE, 500_000)


def rare(rng: np.random.Generator, treated: float) -> list[FloatArray]:
    """Outcomes of 1 %: whether intervals cover the true error and bias (0.2 in the first group), and who is tested."""
    planted = np.array([0.2, 0.0, 0.0, 0.0])
    columns = counted(rng, "relative", RARE, treated, base=0.01, error=planted)
    result = iso.treatment_bias(columns, **ROLES, count="rows")
    size = np.array(RARE)
    bias = planted - (size @ planted - size * planted) / (size.sum() - size)
    holds = [(low <= true) & (true <= high) for low, high, true in (
        (result.error_low, result.error_high, planted), (result.ci_low, result.ci_high, bias)
    )]  # fmt: skip
    return [*holds, np.isfinite(result.adjusted_pvalue).astype(float)]


def of_revenue(rng: np.random.Generator, treated: float, sizes: Sequence[int]) -> iso.TreatmentBiasResult:
    """The audit of a table of revenue: one customer in ten buys, and the revenue is lognormal with sigma 1.2.

    The effect is a difference of 0, predicted without error. Customers without revenue are one line per group and arm.
    """
    arms = rng.multinomial(sizes, [1 - treated, treated])
    buyers = rng.binomial(arms, 0.1)
    g, t = np.indices(arms.shape)
    number = buyers.ravel()
    revenue = np.exp(1.2 * rng.standard_normal(int(number.sum())))
    columns = {
        "group": np.concatenate([g.ravel(), np.repeat(g.ravel(), number)]),
        "treatment": np.concatenate([t.ravel(), np.repeat(t.ravel(), number)]),
        "outcome": np.concatenate([np.zeros(number.size), revenue]),
        "rows": np.concatenate([arms.ravel() - number, np.ones(revenue.size, dtype=int)]),
    }
    columns["effect"] = np.zeros(columns["outcome"].size)
    return iso.treatment_bias(columns, **ROLES, measure="difference", count="rows")


def heavy(rng: np.random.Generator, treated: float, sizes: Sequence[int] = HEAVY) -> list[FloatArray]:
    """Coverage of the error, coverage if the group is tested, and whether it is tested."""
    result = of_revenue(rng, treated, sizes)
    holds = (result.error_low <= 0) & (result.error_high >= 0)
    tested = np.isfinite(result.adjusted_pvalue)
    return [holds.astype(float), np.where(tested, holds, np.nan), tested.astype(float)]


def where_tested(outcomes: FloatArray) -> list[float | str]:
    """Means over the tables with a number."""
    return [float(np.nanmean(one)) if np.isfinite(one).any() else "none tested" for one in outcomes.T]


def any_revenue_flagged(rng: np.random.Generator, treated: float) -> list[list[float]]:
    """Whether any of 30 groups of one size is flagged after Holm's adjustment, and the share tested."""
    results = [of_revenue(rng, treated, [size] * GROUPS) for size in RARE[:2]]
    flags = [float(rejected(result.adjusted_pvalue).any()) for result in results]
    return [flags, [float(np.isfinite(result.adjusted_pvalue).mean()) for result in results]]


def other_intervals(rng: np.random.Generator, treated: float, sizes: Sequence[int] = RARE[:3]) -> FloatArray:
    """Whether 95 % intervals of the difference of such revenue cover 0: Welch, bootstrap-t, and Hall (1992)."""
    return np.array([_three_intervals(rng, round(size * treated), size) for size in sizes]).T


def _three_intervals(rng: np.random.Generator, treated: int, size: int, resamples: int = 199) -> list[float]:
    numbers = np.array([treated, size - treated])
    buyers = [np.exp(1.2 * rng.standard_normal(rng.binomial(n, 0.1))) for n in numbers]
    powers = np.array([[(arm**k).sum() / n for k in (1, 2, 3)] for arm, n in zip(buyers, numbers, strict=True)])
    mean, variance = powers[:, 0], (powers[:, 1] - powers[:, 0] ** 2) / (numbers - 1)
    error = np.sqrt(variance.sum())
    t = (mean[0] - mean[1]) / error
    third = (powers[:, 2] - 3 * mean * powers[:, 1] + 2 * mean**3) / numbers**2
    skewness = (third[0] - third[1]) / error**3
    straight = t + skewness / 3 * t**2 + skewness**2 / 27 * t**3 + skewness / 6
    df = variance.sum() ** 2 / (variance**2 / (numbers - 1)).sum()
    drawn = np.array([[_drawn(rng, arm, n) for arm, n in zip(buyers, numbers, strict=True)] for _ in range(resamples)])
    with np.errstate(divide="ignore", invalid="ignore"):
        moved = drawn[:, 0, 0] - drawn[:, 1, 0] - (mean[0] - mean[1])
        low, high = np.quantile(np.nan_to_num(moved / np.sqrt(drawn[:, :, 1].sum(-1))), [0.025, 0.975])
    critical = stats.t.isf(0.025, df)
    return [float(abs(t) <= critical), float(low <= t <= high), float(abs(straight) <= critical)]


def _drawn(rng: np.random.Generator, buyers: FloatArray, rows: int) -> tuple[float, float]:
    """A resample of rows that are 0 except for the buyers: its mean, and the variance of the mean."""
    number = rng.binomial(rows, buyers.size / rows)
    sample = buyers[rng.integers(0, max(buyers.size, 1), number)] if buyers.size else buyers
    mean = float(sample.sum()) / rows
    return mean, (float((sample**2).sum()) / rows - mean**2) / rows


# The price of fairness


def price_covers(rng: np.random.Generator, tables: int, rows: int) -> FloatArray:
    """Whether intervals of the paired changes cover the changes in the 400,000 rows from which samples are drawn."""
    table = iso.simulate.uplift(
        400_000, 7, groups=4, baseline=0.3, measure="difference", error={"b": 0.1, "d": -0.1}, noise=0.05
    ).columns
    before = table["effect"]
    after = before - np.where(table["group"] == "b", 0.08, np.where(table["group"] == "d", -0.08, 0.01))
    transformed = table["outcome"] * (table["treatment"] - 0.5) / 0.25

    def changes(at: Any) -> list[tuple[float, float]]:
        drawn = transformed[at]
        weight = np.ones(drawn.size)
        scores = [
            (qini(drawn, f[at], weight), loss(drawn, f[at], weight), policy_value(drawn, f[at], weight, 0.3))
            for f in (before, after)
        ]
        pairs = zip(*scores, strict=True)
        return [(new - old, float(standard_error(moved - still, weight))) for (old, still), (new, moved) in pairs]

    truths = np.array([value for value, _ in changes(slice(None))])
    held = []
    for _ in range(tables):
        values, errors = np.array(changes(rng.integers(0, before.size, rows))).T
        held.append(np.abs(values - truths) <= 1.959964 * errors)
    return np.array(held, dtype=float)


# Corrections: the remaining bias

DESIGNS = ("none", "common", "few large", "many small")
ALL = (
    *("none", "mean", "significant", "mse_plus", "mse_minus", "positive_part"),
    "empirical_bayes",
    "empirical_bayes_t",
    "empirical_bayes_mixture",
)


def left(rng: np.random.Generator, groups: int, design: str) -> list[float]:
    """The mean squared bias over groups after each strategy, in units of 0.0001."""
    rows = np.round(np.exp(rng.uniform(np.log(1_000), np.log(30_000), groups))).astype(int)
    error = np.zeros(groups)
    if design == "common":
        error[:] = 0.3
    elif design == "few large":
        error[: max(1, groups // 10)] = 0.6 * rng.choice([-1, 1])
    elif design == "many small":
        error = rng.normal(0.0, 0.12, groups)
    columns = counted(rng, "relative", rows, 0.5, error=error)
    part = errors_of(added(columns, relative=True, groups=groups).moments(), Formula())
    detected = Detected(part.effects.error, part.error.standard_error)
    biases = []
    for strategy in strategies_of(ALL):
        remaining = error - correction(strategy, detected)
        rest = (rows @ remaining - rows * remaining) / (rows.sum() - rows)
        biases.append(1e4 * float(np.mean((remaining - rest) ** 2)))
    return biases


# Collapsing estimators: one group of 40,000 rows, true effect 1.2917

COLLAPSES = ("control_outcome", "average", "weighted", "normalized", "positives", "positives_inverse")
CASES: dict[str, dict[str, float]] = {
    "the model is right": {},
    "baseline with half the true slope": {"heterogeneity": 0.36, "trend": 0.8, "predicted_trend": 0.4},
    "heterogeneity with the wrong sign": {"heterogeneity": 0.32, "predicted_heterogeneity": -0.32},
}


def collapsed(rng: np.random.Generator, collapse: Any, cases: Sequence[str] = tuple(CASES)) -> list[float]:
    """Error of the predicted effect in each case. A second group is added because a bias needs a rest."""
    baseline = "baseline" if collapse in ("weighted", "normalized") else None
    errors = []
    for case in cases:
        table = experiment(rng, (40_000, 1_000), **CASES[case])
        result = iso.treatment_bias(table.columns, **ROLES, measure=iso.relative(collapse, baseline))
        errors.append(float(result.predicted[0] - truth(table, "predicted")[0]))
    return errors


def mean_and_spread(outcomes: FloatArray) -> list[str]:
    """For example "-0.0417 (0.0007)"."""
    pairs = zip(outcomes.mean(axis=0), outcomes.std(axis=0, ddof=1), strict=True)
    return [f"{mean:+.4f} ({spread:.4f})" for mean, spread in pairs]


# Three variances

TWO = (20_000, 50_000)
VARIANCES = ("influence", "bootstrap", "independent", "bootstrap / influence", "independent / influence")


def three_variances(rng: np.random.Generator, measure: Any, sizes: Sequence[int] = TWO) -> list[FloatArray]:
    """Estimates and standard errors of error and bias from influence functions, bootstrap, and independent halves."""
    columns = experiment(rng, sizes, measure=measure, treated=0.3).columns
    ways: tuple[dict[str, Any], ...] = (
        {},
        {"method": iso.bootstrap(200)},
        {"estimator": iso.arm_means(observed_effects="independent")},
    )
    results = [iso.treatment_bias(columns, **ROLES, measure=measure, rng=rng, **way) for way in ways]
    return [np.concatenate([r.estimate, r.disparity, r.error_se, r.standard_error]) for r in results]


def ratios(outcomes: FloatArray) -> list[float]:
    """Each standard error relative to the spread of its estimates, and to the one from influence functions."""
    ways = outcomes.reshape(len(outcomes), 3, 2, -1)  # tables, methods, estimate or standard error, quantities
    spread = ways[:, :, 0].std(axis=0, ddof=1)
    size = np.sqrt(np.mean(ways[:, :, 1] ** 2, axis=0))
    # Each half has half of the rows, so its variance is twice that of the whole.
    beside = np.stack([size[1] / size[0], size[2] / np.sqrt(2) / size[0]])
    columns: list[float] = np.concatenate([size / spread, beside]).T.ravel().tolist()
    return columns


def spread_error(tables: int) -> float:
    """Relative standard error of a Monte Carlo standard deviation."""
    return float(1 / np.sqrt(2 * tables))


def variances() -> tuple[Run, ...]:
    """Both measures, error and bias, two groups."""
    asked = (*[Asked(1.0, slack=0.05, error=spread_error)] * 3, *[Asked(1.0, slack=0.05, exact=True)] * 2)
    return tuple(
        Run(
            tuple(
                Line((measure, f"{quantity}, {size:,} rows"), asked) for quantity in ("error", "bias") for size in TWO
            ),
            each(partial(three_variances, measure=measure)),
            TABLES,
            ratios,
        )
        for measure in PLANTED
    )


# Power

ERRORS = (0.0, 0.2, 0.4, 0.6)


def flagged(rng: np.random.Generator, errors: Sequence[float] = ERRORS) -> list[float]:
    """Whether the first of ten groups of 5,000 rows is flagged after Holm's adjustment, for each planted error."""
    flags = []
    for error in errors:
        columns = experiment(rng, [5_000] * 10, error={"n0": error}, baseline=0.1).columns
        flags.append(float(rejected(iso.treatment_bias(columns, **ROLES).adjusted_pvalue[0])))
    return flags


# Risk of corrections, by quadrature

RATIOS = np.arange(0, 4.5, 0.5)
STRATEGIES = ("none", "mean", "significant", "mse_plus", "mse_minus", "positive_part")


def risk(_: np.random.Generator, __: int, strategy: str) -> FloatArray:
    """Mean squared remaining error, divided by the variance of the estimated error."""
    return iso.correction_risk(RATIOS)[strategy][None]


def regret(_: np.random.Generator, __: int, strategy: str) -> FloatArray:
    """The largest excess risk over the better of no and full correction, over the worse of them, and the mean risk."""
    risks = iso.correction_risk()
    better, worse = np.minimum(risks["none"], risks["mean"]), np.maximum(risks["none"], risks["mean"])
    own = risks[strategy]
    return np.array([[np.max(own - better), max(0.0, np.max(own - worse)), np.mean(own)]])


def picture() -> None:
    """Draw the risk table as a chart."""
    import altair as alt

    from isonomy.results import theme

    risks, drawn = iso.correction_risk(), [*STRATEGIES, "oracle"]
    data = theme.data(
        {
            "strategy": np.repeat(np.array(drawn), risks["ratio"].size),
            "ratio": np.tile(risks["ratio"], len(drawn)),
            "risk": np.concatenate([risks[name] for name in drawn]),
        }
    )
    names = alt.Color("strategy:N", sort=drawn, title=None)
    chart = (
        alt.Chart(data)
        .mark_line(clip=True)
        .encode(
            x=alt.X("ratio:Q", title="true error / its standard error"),
            y=alt.Y("risk:Q", title="mean squared remaining error / variance", scale=alt.Scale(domain=[0, 3])),
            color=names,
            strokeDash=alt.StrokeDash("strategy:N", sort=drawn, title=None),
        )
        .properties(width=520, height=280)
    )
    path = Path(__file__).resolve().parents[1] / "docs" / "images" / "effects_risk.svg"
    path.write_text(theme.to_svg(theme.finish(chart)))
    print(f"wrote {path}")


def of_sizes(sizes: Sequence[int]) -> tuple[str, ...]:
    """Column names."""
    return tuple(f"{size:,}" for size in sizes)


LARGE = (None, None, None, nominal(0.95), nominal(0.95), nominal(0.95))
PAGE = Page(
    "effects/simulations",
    (
        Section(
            "Coverage of 95 % intervals, planted errors; size of 5 % tests, no error",
            ("measure", "outcome", "quantity"),
            of_sizes(SIZES),
            coverage(),
        ),
        Section(
            "Coverage by group size",
            ("rows",),
            of_sizes(SMALL),
            (
                Run(
                    (
                        Line(("error, default",), LARGE),
                        Line(("bias, default",), LARGE),
                        Line(('error, Fieller (`method="welch"`)',), LARGE),
                        Line(("error, delta method",)),
                        Line(('bias, `method="welch"`',), LARGE),
                    ),
                    each(few_events),
                    TABLES,
                ),
            ),
        ),
        Section(
            "Family-wise error with few events",
            ("measure", "arms"),
            tuple(f"{events} events" for events in EVENTS),
            family_wise(),
        ),
        Section(
            "Size of the test that all errors are equal",
            ("measure", "arms"),
            tuple(f"{events} events" for events in EVENTS),
            tuple(
                Run(
                    (Line((measure, share), (at_most(0.05),) * len(EVENTS)),),
                    each(partial(omnibus, measure=measure, treated=treated)),
                    TABLES,
                )
                for measure in PLANTED
                for share, treated in SHARES.items()
            ),
        ),
        Section(
            "Few events: options without a law of the counts",
            ("way", "measure"),
            tuple(text for events in OTHER_EVENTS for text in (f"{events} events: any flag", "groups tested")),
            tuple(
                Run(
                    (Line((way, measure), (at_most(0.05), None) * len(OTHER_EVENTS)),),
                    each(partial(other_ways, measure=measure, way=way)),
                    TABLES,
                )
                for way in OTHER_WAYS
                for measure in PLANTED
            ),
        ),
        Section(
            "False reports of less bias where there is none",
            ("measure",),
            tuple(f"{events} treated events in one group of four" for events in LITTLE),
            tuple(
                Run(
                    (Line((measure,), (at_most(0.05),) * len(LITTLE)),),
                    each(partial(less_bias, measure=measure)),
                    TABLES,
                )
                for measure in PLANTED
            ),
        ),
        Section(
            "False reports of less bias where a correction gains nothing on average",
            ("groups", "errors"),
            tuple(f"`{name}`" for name in GAINING),
            tuple(
                Run(
                    (Line((f"{groups}", shape), (at_most(0.05),) * len(GAINING)),),
                    each(partial(no_gain, shape=shape, groups=groups)),
                    TABLES,
                )
                for groups in (2, 4, 12)
                for shape in SHAPES
            ),
        ),
        Section(
            "False reports of less bias by the default where it gains nothing on average",
            ("groups", "errors"),
            ("`empirical_bayes_mixture`",),
            tuple(
                Run(
                    (Line((f"{groups}", "one group"), (at_most(0.05),)),),
                    each(partial(no_gain, shape="one group", groups=groups, strategies=("empirical_bayes_mixture",))),
                    400,
                )
                for groups in (4, 12)
            ),
        ),
        Section(
            "Power of the comparison of corrections",
            ("design",),
            ("bias found", "default shown to leave less", "any correction shown to leave less"),
            (
                Run(
                    (Line(("four groups of 5,000 rows, one off by 0.35",)),),
                    each(power_of_corrections),
                    100,
                ),
            ),
        ),
        Section(
            "False reports of less bias in an online arm that leaves as much",
            ("biases",),
            ("less bias shown",),
            tuple(
                Run((Line((design,), (at_most(0.05),)),), each(partial(online, design=design)), TABLES)
                for design in ONLINE
            ),
        ),
        Section(
            "Size of the tests of three criteria",
            ("measure",),
            ("independence", "separation", "sufficiency"),
            tuple(
                Run((Line((measure,), (at_most(0.05),) * 3),), each(partial(criteria, measure=measure)), TABLES)
                for measure in PLANTED
            ),
        ),
        Section(
            "Outcomes of 1 %",
            ("arms", "quantity"),
            of_sizes(RARE),
            tuple(
                Run(
                    (
                        Line((share, "error: coverage"), (None, None, nominal(0.95), nominal(0.95))),
                        Line((share, "bias: coverage"), (None, None, nominal(0.95), nominal(0.95))),
                        Line(
                            (share, "tested"),
                        ),
                    ),
                    each(partial(rare, treated=treated)),
                    TABLES,
                )
                for share, treated in SHARES.items()
            ),
        ),
        Section(
            "Heavy-tailed revenue",
            ("arms", "quantity"),
            of_sizes(HEAVY),
            tuple(
                Run(
                    (
                        Line((share, "error: coverage"), (*[asked] * 3, nominal(0.95), nominal(0.95))),
                        Line((share, "error: coverage where tested"), (None, asked, asked, asked, asked)),
                        Line((share, "tested")),
                    ),
                    each(partial(heavy, treated=treated)),
                    TABLES,
                    where_tested,
                )
                for (share, treated), asked in zip(SHARES.items(), (nominal(0.95), None), strict=True)
            ),
        ),
        Section(
            "Family-wise error with heavy-tailed revenue",
            ("arms", "quantity"),
            of_sizes(RARE[:2]),
            tuple(
                Run(
                    (Line((share, "any flagged"), (at_most(0.05),) * 2), Line((share, "tested"))),
                    each(partial(any_revenue_flagged, treated=treated)),
                    TABLES,
                )
                for share, treated in SHARES.items()
            ),
        ),
        Section(
            "Other intervals of heavy-tailed revenue",
            ("arms", "interval"),
            of_sizes(RARE[:3]),
            tuple(
                Run(
                    tuple(Line((share, name)) for name in ("Welch", "bootstrap-t", "Hall")),
                    each(partial(other_intervals, treated=treated)),
                    TABLES,
                )
                for share, treated in SHARES.items()
            ),
        ),
        Section(
            "Coverage of intervals for the price",
            ("rows",),
            QUANTITIES,
            tuple(
                Run((Line((f"{rows:,}",), (asked,) * 3),), partial(price_covers, rows=rows), TABLES)
                for rows, asked in ((1_000, Asked(0.95, "least")), (5_000, nominal(0.95)))
            ),
        ),
        Section(
            "Remaining squared bias",
            ("groups", "errors"),
            tuple(f"`{name}`" for name in ALL),
            tuple(
                Run((Line((f"{groups}", design)),), each(partial(left, groups=groups, design=design)), 500)
                for groups in (4, 12, 60)
                for design in DESIGNS
            ),
            1,
        ),
        Section(
            "Collapsing estimators",
            ("collapse",),
            tuple(CASES),
            tuple(
                Run((Line((f"`{name}`",)),), each(partial(collapsed, collapse=name)), 400, mean_and_spread)
                for name in COLLAPSES
            ),
        ),
        Section("Three variances", ("measure", "quantity"), VARIANCES, variances()),
        Section(
            "Power",
            ("planted",),
            tuple(f"{error:g}" for error in ERRORS),
            (Run((Line(("found",), (at_most(0.05),)),), each(flagged), 300),),
        ),
        Section(
            "Risk of corrections",
            ("b / sd",),
            tuple(f"{ratio:g}" for ratio in RATIOS),
            tuple(Run((Line((f"`{name}`",)),), partial(risk, strategy=name), 0) for name in STRATEGIES),
            2,
        ),
        Section(
            "Regret of corrections",
            ("strategy",),
            (
                "largest risk above the better of `none` and `mean`",
                "above the worse of them",
                "mean risk over [0, 4]",
            ),
            tuple(
                Run((Line((f"`{name}`",)),), partial(regret, strategy=name), 0)
                for name in ("significant", "mse_plus", "positive_part")
            ),
            2,
        ),
    ),
)


if __name__ == "__main__":
    picture() if "--picture" in sys.argv else main(PAGE)
