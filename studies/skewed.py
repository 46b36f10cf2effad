"""Error rates where tables are skewed, tiny, or decided by a few clusters, and the share of tables without a verdict.

python -m studies.skewed [--tables N] [--only TEXT]        writes docs/skewed_simulations.md
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy import stats

import isonomy as iso
from isonomy.errors import DataError
from isonomy.groups.flag import OVERWHELMING, ROOT
from isonomy.groups.likelihood.comparison import LACKING
from isonomy.groups.likelihood.means import Real
from isonomy.groups.likelihood.profile import FEW_ROWS, Kind, ProfileLikelihood
from isonomy.inference import Verdict, multiplicity
from isonomy.inference.designs import Contribution
from isonomy.inference.effect import Bent, Wald, bend, combined, too_skewed
from isonomy.numerics.arrays import BoolArray, FloatArray
from isonomy.numerics.ragged import Ragged
from isonomy.numerics.tails import t_sf
from studies.lines import Asked, Line, Page, Run, Section, at_most, each, main

TABLES = 1_000
FEW_TABLES = 50  # tables with a valid interval below which the share that misses is not reported
VALUE = iso.Metric("value", value=iso.col("v"))
GROUPS: dict[str, Any] = {"metric": VALUE, "groups": "g", "reference": {"g": "ref"}}
RATE: dict[str, Any] = {"metric": "selection_rate", "prediction": "v"}
PERMUTATIONS = 199
SIGNS = (-1.0, 1.0, 1.0, 1.0)  # of what a reference contributes to a difference: its third moment is subtracted
Table = dict[str, Any]
Draw = Callable[[np.random.Generator, int], FloatArray]


# ---- values without a difference between groups


def lognormal(rng: np.random.Generator, n: int) -> FloatArray:
    """Amounts whose logarithm has a standard deviation of 1.2; their skewness is 11."""
    return rng.lognormal(0.0, 1.2, n)


def zero_inflated(rng: np.random.Generator, n: int) -> FloatArray:
    """Nothing for 90 % of people, a lognormal amount for the others."""
    return np.where(rng.random(n) < 0.1, rng.lognormal(0.0, 1.0, n), 0.0)


def among_zeros(share: float, draw: Draw) -> Draw:
    """An amount for this share of people, nothing for the others."""
    return lambda rng, n: np.where(rng.random(n) < share, draw(rng, n), 0.0)


def weibull(shape: float) -> Draw:
    """Amounts whose skewness is 6.6 for a shape of 0.5."""
    return lambda rng, n: rng.weibull(shape, n)


def rare(scale: float) -> Draw:
    """Nothing for 95 % of people; lognormal amounts with this log-sd for the others, or exponential ones if 0."""

    def draw(rng: np.random.Generator, n: int) -> FloatArray:
        amounts = rng.lognormal(0.0, scale, n) if scale else rng.exponential(size=n)
        return np.where(rng.random(n) < 0.05, amounts, 0.0)

    return draw


def rare_losses(rng: np.random.Generator, n: int) -> FloatArray:
    """Normal amounts; 1 % of people lose a hundred standard deviations more."""
    return rng.normal(1.0, 0.3, n) + np.where(rng.random(n) < 0.01, 30.0, 0.0)


def exponential(rng: np.random.Generator, n: int) -> FloatArray:
    return rng.exponential(size=n)


def gamma(rng: np.random.Generator, n: int) -> FloatArray:
    """Mildly skewed amounts: their skewness is 1."""
    return rng.gamma(4.0, size=n)


def normal(rng: np.random.Generator, n: int) -> FloatArray:
    return rng.normal(size=n)


def positive(rng: np.random.Generator, n: int) -> FloatArray:
    return rng.normal(10.0, 1.0, n)


def uniform(rng: np.random.Generator, n: int) -> FloatArray:
    return rng.random(n)


def rate(p: float) -> Draw:
    """0/1 decisions."""
    return lambda rng, n: (rng.random(n) < p).astype(float)


def pareto(rng: np.random.Generator, n: int) -> FloatArray:
    """Amounts without a third moment."""
    return rng.pareto(2.5, n) + 1.0


def gamma_amounts(rng: np.random.Generator, n: int) -> FloatArray:
    """Nothing for 90 % of people, a gamma amount of shape 0.5 for the others; their skewness is 9."""
    return np.where(rng.random(n) < 0.1, rng.gamma(0.5, 2.0, n), 0.0)


def rare_gains(rng: np.random.Generator, n: int) -> FloatArray:
    """Normal amounts; 3 % of people gain ten standard deviations more, on average."""
    return rng.normal(size=n) + np.where(rng.random(n) < 0.03, rng.exponential(10.0, n), 0.0)


def beta(a: float) -> Draw:
    """Scores between 0 and 1, most of them nearly 0."""
    return lambda rng, n: rng.beta(a, 2.0, n)


def gamma_tenth(rng: np.random.Generator, n: int) -> FloatArray:
    """Most amounts are nearly 0; their skewness is 6.3."""
    return rng.gamma(0.1, size=n)


MEANS: dict[Draw, float] = {
    lognormal: np.exp(0.72),
    zero_inflated: 0.1 * np.exp(0.5),
    exponential: 1.0,
    normal: 0.0,
    rare_gains: 0.3,
}


def sides(rng: np.random.Generator, draw: Draw, sizes: list[int], reference: int, strata: int = 1) -> Table:
    """Small groups g0, g1, ... and a reference, whose values have one distribution."""
    group = np.repeat([*(f"g{i}" for i in range(len(sizes))), "ref"], [*sizes, reference])
    return {"g": group, "v": draw(rng, group.size), "s": rng.integers(0, strata, group.size)}


# ---- what a result shows


def shown(result: Any, truth: float = 0.0) -> list[float]:
    """Whether any violation is shown, the share of valid intervals that miss the truth, and of groups left open."""
    frame = result.to_frame()
    low, high, status = (frame[name].to_numpy() for name in ("ci_low", "ci_high", "status"))
    compared = status != "reference"
    valid = compared & np.isin(status, ("ok", "unbounded"))  # an interval without an end is valid too
    missed = (low.astype(float) > truth) | (high.astype(float) < truth)
    share = float(missed[valid].mean()) if valid.any() else np.nan
    return [float(result.verdict is Verdict.VIOLATION), share, float(1.0 - valid.sum() / compared.sum())]


def groups(rng: np.random.Generator, table: Callable[[np.random.Generator], Table], **options: Any) -> list[float]:
    """`flag` of small groups against a reference."""
    return shown(iso.flag(table(rng), **(GROUPS | options)))


def at_once(drawn: list[Table]) -> tuple[FloatArray, BoolArray]:
    """The p-values of the groups of each table, and which have no verdict: `flag`'s law for means, on many tables.

    All tables have the same groups, in the same order, and the reference last. The likelihoods of all tables are solved
    together, which takes a twentieth of the time of as many calls; `flag` is called for the first table and must agree.
    """
    name = drawn[0]["g"]
    ends = np.append(np.flatnonzero(name[1:] != name[:-1]) + 1, name.size)
    n = np.diff(ends, prepend=0).astype(float)
    size, number = len(drawn), n.size
    codes = np.repeat(np.arange(size * number), np.tile(n.astype(int), size))
    means = Real(Ragged.from_codes(codes, size * number, np.concatenate([table["v"] for table in drawn])))
    index = np.arange(size * number).reshape(size, number)
    references = np.repeat(index[:, -1], number - 1)
    problem = ProfileLikelihood(Kind.DISJOINT, means, index[:, :-1].ravel(), other=means, partner=references)
    square, third = (means.moments.central(k).reshape(size, number) for k in (2, 3))
    away = means.rows.weighted_sum(np.abs(means.centered)).reshape(size, number) / n
    carrying = (n * away**2).sum(axis=1) / (n * square).sum(axis=1)
    laws, skews, narrows = [], [], []
    for i in range(size):
        every = Contribution.of_rows(third[i] / n**2, square[i] / n, n)
        mine = Contribution(*(part[:-1] for part in every))
        theirs = Contribution(*(np.full(number - 1, sign * part[-1]) for part, sign in zip(every, SIGNS, strict=True)))
        whole = combined([mine, theirs])
        skews.append(too_skewed(whole.third, whole.variance, 0.05, number - 1))
        law = bend(mine, theirs, 0.05, number - 1, carrying=carrying[i], corrected=True, welch=FEW_ROWS)
        used = (skews[-1] & law.trusted) | law.few
        laws.append((*np.where(used, law.excess, 0.0), *np.where(used, law.level, 0.0), law.trusted, whole.df))
        narrows.append((mine.variance + theirs.variance) / whole.variance)
    *bent, trusted, df = np.concatenate(laws, axis=1)
    effect = problem.by_welch()
    pvalue = 2.0 * t_sf(np.sqrt(Bent(effect, np.array(bent[:2]), np.array(bent[2:])).statistic(0.0)), df)
    narrow, fewest = np.concatenate(narrows), np.minimum(np.tile(n[:-1], size), n[-1])
    lacking = (fewest < FEW_ROWS) & (narrow < stats.chi2.ppf(LACKING, fewest - 1.0) / (fewest - 1.0))
    widened = Wald(effect.value, effect.standard_error / np.sqrt(narrow), df).pvalue()
    overwhelming = np.maximum(pvalue, widened) <= OVERWHELMING * 0.05 / (number - 1) ** ROOT
    opened = (np.concatenate(skews) & ~trusted.astype(bool) | lacking) & ~overwhelming
    pvalue, opened = pvalue.reshape(size, -1), opened.reshape(size, -1)
    frame = iso.flag(drawn[0], **GROUPS).to_frame()
    line = [frame["group"].to_list().index(f"g={label}") for label in name[ends - 1][:-1]]
    np.testing.assert_allclose(pvalue[0], frame["pvalue"].to_numpy()[line], rtol=1e-6)
    np.testing.assert_array_equal(opened[0], frame["status"].to_numpy()[line] == "skewed")
    return pvalue, opened


def judged(drawn: list[Table]) -> FloatArray:
    """The three numbers of `shown` for each table; the true difference is 0."""
    pvalue, opened = at_once(drawn)
    rows = []
    for p, unknown in zip(pvalue, opened, strict=True):
        violation = (multiplicity.adjust(p, "holm") <= 0.05) & ~unknown
        missed = (p[~unknown] <= 0.05).mean() if not unknown.all() else np.nan
        rows.append([float(violation.any()), missed, unknown.mean()])
    return np.array(rows)


def together(table: Callable[[np.random.Generator], Table]) -> Any:
    """A draw of many tables, which are judged at once."""
    return lambda rng, tables: judged([table(rng) for _ in range(tables)])


def rejects(result: Any) -> list[float]:
    """Whether a violation is shown, and whether no verdict was possible."""
    pvalue = np.ravel(np.asarray(result.pvalue, dtype=float))
    return [float(result.verdict is Verdict.VIOLATION), float(np.isnan(pvalue).all() or not result.answered)]


# ---- flag: means


def within_strata(rng: np.random.Generator, draw: Draw, sizes: list[int], reference: int, strata: int) -> list[float]:
    return groups(rng, lambda r: sides(r, draw, sizes, reference, strata), given="s")


def at_the_edge(rng: np.random.Generator, **options: Any) -> list[float]:
    """One group of 100 lognormal rows whose mean lies exactly at the lower edge of the tolerance."""
    table = sides(rng, lognormal, [100], 3_000, 4)
    table["v"] = table["v"] - 0.5 * (table["g"] == "g0")
    return shown(iso.flag(table, **GROUPS, given="s", tolerance=0.5), -0.5)


def best(rng: np.random.Generator, draw: Draw) -> list[float]:
    return groups(rng, lambda r: sides(r, draw, [100] * 5, 100), reference="highest")


def weighted(rng: np.random.Generator, draw: Draw) -> list[float]:
    table = sides(rng, draw, [100] * 6, 3_000)
    return groups(rng, lambda r: table | {"w": r.uniform(0.5, 1.5, table["v"].size)}, weight="w")


def overlapping(rng: np.random.Generator, draw: Draw, rows: int) -> list[float]:
    """People of sex X, 60 % of whom belong to the reference race=White."""
    n = 2_000
    sex, race = np.repeat(["X", "F"], [rows, n]), np.where(rng.random(n + rows) < 0.6, "White", "Black")
    race[:rows] = np.where(np.arange(rows) < 0.6 * rows, "White", "Black")
    table = {"sex": sex, "race": race, "v": draw(rng, n + rows)}
    metric = VALUE if draw is lognormal else iso.Metric("value", value=iso.col("v"), binary=True)
    result = iso.flag(table, metric=metric, groups=["sex", "race"], reference={"race": "White"}, adjust="none")
    frame = result.to_frame()
    line = frame["group"].to_list().index("sex=X")
    low, high, pvalue = (float(frame[name][line]) for name in ("ci_low", "ci_high", "pvalue"))
    valid = frame["status"][line] == "ok"
    violation = valid and frame["verdict"][line] == "violation"
    return [float(violation), float(low > 0 or high < 0) if valid else np.nan, float(not valid or np.isnan(pvalue))]


def quantile(rng: np.random.Generator, rows: int, level: float) -> list[float]:
    metric = iso.Metric("q", value=iso.col("v"), quantile=level)
    return groups(rng, lambda r: sides(r, lognormal, [rows], 2_000), metric=metric)


# ---- flag: metrics that are not means


def classified(rng: np.random.Generator, sizes: list[tuple[int, int]], quality: float = 1.5) -> Table:
    """Groups of (rows, positives) whose score separates the classes alike; the last one is the reference."""
    names = [*(f"g{i}" for i in range(len(sizes) - 1)), "ref"]
    group = np.repeat(names, [n for n, _ in sizes])
    outcome = np.concatenate([np.arange(n) < positives for n, positives in sizes]).astype(int)
    score = rng.normal(quality * outcome, 1.0)
    return {"g": group, "outcome": outcome, "score": score, "prediction": (score > 0.5 * quality).astype(int)}


def classes(rng: np.random.Generator, metric: str, sizes: list[tuple[int, int]], quality: float = 1.5) -> list[float]:
    role: dict[str, Any] = {"score": "score"} if metric == "auc" else {"prediction": "prediction"}
    table = classified(rng, sizes, quality)
    return shown(iso.flag(table, metric=metric, groups="g", reference={"g": "ref"}, outcome="outcome", **role))


def errors(rng: np.random.Generator, metric: str, rows: int, df: float) -> list[float]:
    """A prediction with errors that are normal, or have t with ``df`` degrees of freedom."""
    n = rows + 2_000
    truth = rng.normal(size=n)
    noise = rng.normal(size=n) if np.isinf(df) else rng.standard_t(df, n)
    table = {"g": np.repeat(["g0", "ref"], [rows, 2_000]), "y": truth, "p": truth + 0.5 * noise}
    return shown(iso.flag(table, metric=metric, groups="g", reference={"g": "ref"}, outcome="y", prediction="p"))


# ---- rates within strata


def strata_rate(rng: np.random.Generator, rows: int, p: float, less: float, tolerance: float | None) -> list[float]:
    """A small group within five strata; its rate is ``less`` below that of its reference."""
    table = sides(rng, rate(0.0), [rows], 2_000, 5)
    table["v"] = (rng.random(rows + 2_000) < p - less * (table["g"] == "g0")).astype(int)
    options: dict[str, Any] = {"metric": "selection_rate", "groups": "g", "reference": {"g": "ref"}}
    return shown(iso.flag(table, **options, prediction="v", given="s", tolerance=tolerance), -less)


# ---- rates in clusters


def clustered(
    rng: np.random.Generator, p: float, correlation: float, elsewhere: float | None = None, other: float = 0.02
) -> Table:
    """60 clusters of 5 people against 400 clusters with another rate; the correlation there is the same by default."""
    rates, people = np.repeat([p, other], [60, 400]), np.repeat(np.arange(460), 5)
    within = np.repeat([correlation, correlation if elsewhere is None else elsewhere], [60, 400])
    share = (1.0 - within) / within
    table: Table = {"g": np.where(people < 60, "g0", "ref"), "c": people}
    table["v"] = (rng.random(people.size) < rng.beta(rates * share, (1.0 - rates) * share)[people]).astype(int)
    return table


def few_cases(rng: np.random.Generator, p: float, other: float = 0.02, **options: float) -> list[float]:
    return shown(iso.flag(clustered(rng, p, other=other, **options), **GROUPS | RATE, cluster="c"), p - other)


def above_and_below(rng: np.random.Generator, options: dict[str, float]) -> list[float]:
    """Whether `flag` and its rivals show a higher and a lower rate of the group."""
    table = clustered(rng, **options)
    mine, theirs = _sides(table)
    pvalues = [iso.flag(table, **GROUPS | RATE, cluster="c").to_frame()["pvalue"].to_list()[0]]
    pvalues += [rival(rng, table) for rival in (rao_scott, permuted_clusters)]
    higher = bool(mine.mean() > theirs.mean())
    return [float(p <= 0.05 and side is higher) for p in pvalues for side in (True, False)]


# ---- planning


PLANS = tuple((reference, apart) for reference in ("known", "group") for apart in (0.8, 1.0, 1.2))


def enough(reference: Any, apart: float) -> int:
    """Rows with which a difference of so many standard deviations should be found with probability 0.8."""
    ratio = None if reference == "known" else 100.0
    return iso.rows_needed(apart, variance=1.0, reference=reference, ratio=ratio)


def planned(rng: np.random.Generator, reference: str, apart: float) -> list[float]:
    """Whether it is found, and whether there is no verdict."""
    rows = enough(reference, apart)
    if reference == "known":
        result = iso.flag({"g": np.full(rows, "g0"), "v": normal(rng, rows) + apart}, **GROUPS | {"reference": 0.0})
    else:
        result = iso.flag(shifted(rng, rows, 100 * rows, apart), **GROUPS)
    return [float(result.verdict is Verdict.VIOLATION), shown(result)[2]]


# ---- certify


def equalized_odds(rng: np.random.Generator, sizes: list[int], p: float) -> list[float]:
    group = np.repeat(np.arange(len(sizes)).astype(str), sizes)
    table = {"g": group, "y": (rng.random(group.size) < p).astype(int), "d": (rng.random(group.size) < p).astype(int)}
    return rejects(iso.certify(table, metric="equalized_odds", groups="g", outcome="y", prediction="d", rng=0))


def certified(rng: np.random.Generator, draw: Draw, sizes: list[int]) -> list[float]:
    group = np.repeat(np.arange(len(sizes)).astype(str), sizes)
    return rejects(iso.certify({"g": group, "v": draw(rng, group.size)}, metric=VALUE, groups="g", rng=0))


# ---- adverse impact over cut-offs


def band(rng: np.random.Generator, small: int, large: int) -> list[float]:
    """Whether the simultaneous band over cut-offs leaves out the true ratio, 1, anywhere."""
    table = {"g": np.repeat(["a", "b"], [large, small]), "x": rng.normal(size=small + large)}
    table["d"] = (table["x"] > 0.5).astype(int)
    try:
        result = iso.adverse_impact(table, prediction="d", score="x", groups="g", reference={"g": "a"})
    except DataError:
        return [0.0, 1.0]
    line = result.labels.index("g=b")
    low, high = result.cutoff_low[:, line], result.cutoff_high[:, line]
    known = ~np.isnan(low) & ~np.isnan(high)
    return [float(((low > 1.0) | (high < 1.0))[known].any()), float(not known.any())]


def weighted_ratio(rng: np.random.Generator, rows: int, p: float, reference: int) -> list[float]:
    """Weights of 1 or 2; the true ratio is 0.8, the threshold."""
    table: Table = {"g": np.repeat(["a", "b"], [reference, rows])}
    table["d"] = (rng.random(rows + reference) < p * np.where(table["g"] == "a", 1.0, 0.8)).astype(int)
    table["w"] = rng.integers(1, 3, rows + reference)
    result = iso.adverse_impact(table, prediction="d", groups="g", reference={"g": "a"}, weight="w")
    line = result.labels.index("g=b")
    low, high = result.ci_low[line], result.ci_high[line]
    shown = [result.verdicts[line] is Verdict.VIOLATION, low > 0.8 or high < 0.8, result.status[line] != "ok"]
    return [float(value) for value in shown]


# ---- scores


def scored(rng: np.random.Generator, draw: Draw, sizes: tuple[int, int], threshold: float | None) -> list[float]:
    """Outcomes that have one distribution at every score, in two groups."""
    n = sum(sizes)
    table = {"g": np.repeat(["a", "b"], sizes), "score": rng.random(n), "y": draw(rng, n)}
    roles: dict[str, Any] = {"score": "score", "outcome": "y", "groups": "g"}
    try:
        if threshold is None:
            return rejects(iso.predictive_parity(table, **roles, rng=0))
        return rejects(iso.marginal_outcomes(table, **roles, threshold=threshold))
    except DataError:
        return [0.0, 1.0]


# ---- effects


def treated_clusters(rng: np.random.Generator, clusters: int, share: float, correlation: float) -> list[float]:
    """Whole clusters are treated, and belong to one of two groups; predicted effects are right for everybody."""
    size = 50
    treated = rng.random(clusters) < share
    people = np.repeat(np.arange(clusters), size)
    common = rng.normal(0.0, np.sqrt(correlation), clusters)[people]
    outcome = common + rng.normal(0.0, np.sqrt(1.0 - correlation), people.size) + 0.2 * treated[people]
    table = {"c": people, "t": treated[people].astype(int), "y": outcome, "e": np.full(people.size, 0.2)}
    table["g"] = rng.choice(["a", "b"], clusters)[people]
    roles: dict[str, Any] = {"effect": "e", "treatment": "t", "outcome": "y", "groups": "g", "cluster": "c"}
    try:
        result = iso.treatment_bias(table, **roles, measure="difference")
    except DataError:
        return [0.0, 0.0, 1.0]
    frame = result.to_frame()
    low, high = frame["error_low"].to_numpy().astype(float), frame["error_high"].to_numpy().astype(float)
    known = ~np.isnan(low)
    missed = float(((low > 0) | (high < 0))[known].mean()) if known.any() else np.nan
    return [float(result.verdict is Verdict.VIOLATION), missed, float(1.0 - known.mean())]


# ---- alternatives


def flips(rng: np.random.Generator, changed: int) -> list[float]:
    """A candidate that changes the decisions of a few people of the worse group, right or wrong by a coin."""
    n = 1_000
    table = {"g": rng.choice(["a", "b"], n), "y": rng.integers(0, 2, n)}
    now = np.where(rng.random(n) < np.where(table["g"] == "a", 0.9, 0.5), table["y"], 1 - table["y"])
    new = now.copy()
    few = rng.choice(np.flatnonzero(table["g"] == "b"), changed, replace=False)
    new[few] = 1 - now[few]
    table |= {"now": now, "new": new}
    roles: dict[str, Any] = {"outcome": "y", "groups": "g", "status_quo": "now", "candidate": "new"}
    return alternative(iso.improvability(table, **roles, accuracy="accuracy", rng=0))


def alternative(result: Any) -> list[float]:
    """Whether an alternative is shown, and whether no law held for it."""
    return [float(result.reject), float("skewed" in result.status or "few_events" in result.status)]


def selected(rng: np.random.Generator, rows: int, draw: Draw = lognormal) -> list[float]:
    """A lognormal outcome; of one group the status quo selects a few rows and the candidate 200, all at random.

    Both select the same 200 rows of the other group, so that the candidate is less unequal in the rates of selection.
    """
    n = 1_000
    table: Table = {"g": np.repeat(["a", "b"], n), "y": draw(rng, 2 * n)}
    same, few, many = ((rng.permutation(n) < number).astype(int) for number in (200, rows, 200))
    table |= {"now": np.concatenate([same, few]), "new": np.concatenate([same, many])}
    roles: dict[str, Any] = {"outcome": "y", "groups": "g", "status_quo": "now", "candidate": "new"}
    return alternative(iso.improvability(table, **roles, fairness="selection_rate", rng=0))


# ---- project


def projected(rng: np.random.Generator, sizes: tuple[int, int], p: float, reading: str) -> list[float]:
    """Rates of two groups with weights, or with clusters of one row; rejected means p below 0.001."""
    n = sum(sizes)
    table = {"g": np.repeat(["a", "b"], sizes), "d": (rng.random(n) < p).astype(int), "score": rng.random(n)}
    table |= {"w": rng.uniform(0.5, 1.5, n), "c": np.arange(n)}
    options: dict[str, Any] = {"criterion": "statistical_parity", "prediction": "d", "groups": "g", "score": "score"}
    options[reading] = reading[0]
    try:
        result = iso.project(table, **options, rng=0)
    except DataError:
        return [0.0, 1.0]
    pvalue = np.ravel(np.asarray(result.pvalue, dtype=float))
    return [float((pvalue < 0.001).any()), float(np.isnan(pvalue).all())]


# ---- power, beside valid rivals


def permuted(rng: np.random.Generator, table: Table) -> float:
    """The p-value of Welch's t of the first group, by permutation of all rows: twice that of the nearer tail."""
    return _permuted(rng, table["v"], table["g"] == "g0")


def _permuted(rng: np.random.Generator, value: FloatArray, first: BoolArray) -> float:
    n, m = int(first.sum()), int((~first).sum())
    drawn = [np.flatnonzero(first), *(rng.choice(n + m, n, replace=False, shuffle=False) for _ in range(PERMUTATIONS))]
    total, square = (np.array([part[rows].sum() for rows in drawn]) for part in (value, value**2))
    other, other_square = value.sum() - total, (value**2).sum() - square
    variance = (square - total**2 / n) / (n - 1) / n + (other_square - other**2 / m) / (m - 1) / m
    t = (total / n - other / m) / np.sqrt(np.maximum(variance, 1e-300))
    return float(2.0 * min((t >= t[0]).mean(), (t <= t[0]).mean()))


def permuted_clusters(rng: np.random.Generator, table: Table) -> float:
    """The same by permutation of whole clusters, all of which have as many rows."""
    cases = np.bincount(table["c"], table["v"]).astype(float)
    return _permuted(rng, cases, np.bincount(table["c"], table["g"] == "g0") > 0)


def permuted_anova(rng: np.random.Generator, table: Table) -> float:
    """The p-value of Welch's F of all groups, by permutation of all rows: studentized, so variances may differ."""
    codes, value = np.unique(table["g"], return_inverse=True)[1], table["v"]
    drawn, between = [codes, *(rng.permutation(codes) for _ in range(PERMUTATIONS))], []
    for c in drawn:
        n, mean = np.bincount(c), np.bincount(c, value) / np.bincount(c)
        weight = n * (n - 1.0) / np.bincount(c, (value - mean[c]) ** 2)
        between.append(weight @ (mean - weight @ mean / weight.sum()) ** 2)
    return float((np.array(between) >= between[0] * (1.0 - 1e-12)).mean())


def screened(rng: np.random.Generator, table: Table) -> float:
    """The p-value of Welch's t if Shapiro and Wilk's of the group is above 0.2; otherwise 1."""
    return welch(rng, table) if stats.shapiro(_sides(table)[0]).pvalue > 0.2 else 1.0


def bootstrap(rng: np.random.Generator, table: Table) -> float:
    """The p-value of Welch's t by its equal-tailed bootstrap law, each side resampled."""
    mine, theirs = _sides(table)
    away, error = mine.mean() - theirs.mean(), np.sqrt(mine.var(ddof=1) / mine.size + theirs.var(ddof=1) / theirs.size)
    drawn = [part[rng.integers(0, part.size, (PERMUTATIONS, part.size))] for part in (mine, theirs)]
    square = sum(part.var(axis=1, ddof=1) / part.shape[1] for part in drawn)
    t = (drawn[0].mean(axis=1) - drawn[1].mean(axis=1) - away) / np.sqrt(np.maximum(square, 1e-300))
    beyond = min((t >= away / error).sum(), (t <= away / error).sum())
    return float(2.0 * (1.0 + beyond) / (1.0 + PERMUTATIONS))


def unlike(rng: np.random.Generator, draw: Draw, rows: int, other: Draw = normal, reference: int = 2_000) -> Table:
    """A group whose amounts have the mean of the reference, 0, and another shape."""
    values = [part(rng, n) - MEANS[part] for part, n in ((draw, rows), (other, reference))]
    return {"g": np.repeat(["g0", "ref"], [rows, reference]), "v": np.concatenate(values)}


def rivals(*tests: Callable[[np.random.Generator, Table], float], table: Callable[[np.random.Generator], Table]) -> Any:
    """Whether `flag` and each rival show a difference, and whether `flag` has no verdict."""

    def draw(rng: np.random.Generator, tables: int) -> FloatArray:
        drawn = [table(rng) for _ in range(tables)]
        other = [[rival(rng, one) <= 0.05 for rival in tests] for one in drawn]
        found, _, opened = judged(drawn).T
        return np.column_stack([found, np.array(other, dtype=float), opened])

    return draw


def compare_each(
    *tests: Callable[[np.random.Generator, Table], float], table: Callable[[np.random.Generator], Table]
) -> Any:
    """On the same tables, for each rival: whether `flag` shows a difference, the rival does, and `flag` is open."""
    draw = rivals(*tests, table=table)

    def drawn(rng: np.random.Generator, tables: int) -> FloatArray:
        found, *others, opened = draw(rng, tables).T
        return np.column_stack([column for other in others for column in (found, other, opened)])

    return drawn


def welch(_: np.random.Generator, table: Table) -> float:
    return float(stats.ttest_ind(*_sides(table), equal_var=False).pvalue)


def fisher(_: np.random.Generator, table: Table) -> float:
    mine, theirs = _sides(table)
    cases = np.array([[part.sum(), part.size - part.sum()] for part in (mine, theirs)], dtype=int)
    return float(stats.fisher_exact(cases).pvalue)


def mantel_haenszel(_: np.random.Generator, table: Table) -> float:
    n, n1 = np.bincount(table["s"]), np.bincount(table["s"], table["g"] == "g0")
    cases, a = np.bincount(table["s"], table["v"]), np.bincount(table["s"], table["v"] * (table["g"] == "g0"))
    variance = n1 * (n - n1) * cases * (n - cases) / (n**2 * (n - 1.0))
    return float(stats.chi2.sf((a - n1 * cases / n).sum() ** 2 / variance.sum(), 1))


def rao_scott(_: np.random.Generator, table: Table) -> float:
    """Pearson's chi-square over the design effect of all clusters together."""
    mine, theirs = _sides(table)
    away = table["v"] - np.where(table["g"] == "g0", mine.mean(), theirs.mean())
    effect = np.sum(np.bincount(table["c"], away) ** 2) / np.sum(away**2)
    mean = table["v"].mean()
    square = (mine.mean() - theirs.mean()) ** 2 / (mean * (1.0 - mean) * (1.0 / mine.size + 1.0 / theirs.size))
    return float(stats.chi2.sf(square / effect, 1))


def _sides(table: Table) -> tuple[FloatArray, FloatArray]:
    return table["v"][table["g"] == "g0"], table["v"][table["g"] != "g0"]


def beside(
    rng: np.random.Generator,
    table: Callable[[np.random.Generator], Table],
    rival: Callable[[np.random.Generator, Table], float],
    **options: Any,
) -> list[float]:
    """Whether `flag` shows a difference, whether the rival does, and whether `flag` has no verdict."""
    drawn = table(rng)
    result = iso.flag(drawn, **(GROUPS | options)) if rival is not permuted_anova else certified_table(drawn)
    open_ = rejects(result)[1] if rival is permuted_anova else shown(result)[2]
    return [float(result.verdict is Verdict.VIOLATION), float(rival(rng, drawn) <= 0.05), open_]


def certified_table(table: Table) -> Any:
    return iso.certify(table, metric=VALUE, groups="g", rng=0)


def scaled(rng: np.random.Generator, draw: Draw, rows: int, reference: int, factor: float, groups: int = 1) -> Table:
    """Groups of which the first has amounts ``factor`` times as large."""
    table = sides(rng, draw, [rows] * groups, reference)
    table["v"] = table["v"] * np.where(table["g"] == "g0", factor, 1.0)
    return table


def shifted(rng: np.random.Generator, rows: int, reference: int, shift: float) -> Table:
    table = sides(rng, normal, [rows], reference)
    table["v"] = table["v"] + shift * (table["g"] == "g0")
    return table


def raised(rng: np.random.Generator, rows: int, reference: int, p: float, other: float, strata: int = 1) -> Table:
    """0/1 rows; the rate of the group is ``other``."""
    table = sides(rng, rate(0.0), [rows], reference, strata)
    table["v"] = (rng.random(rows + reference) < np.where(table["g"] == "g0", other, p)).astype(float)
    return table


def known_mean(rng: np.random.Generator, sizes: list[int]) -> list[float]:
    return groups(rng, lambda r: sides(r, gamma_amounts, sizes, 0), reference=0.1)


# ---- the page


def line(name: str, call: Any, limit: float = 0.05, columns: int = 1) -> Run:
    """A line whose first ``columns`` numbers may not exceed ``limit`` by more than chance."""
    return lines(name, each(call), limit, columns)


def lines(name: str, draw: Any, limit: float = 0.05, columns: int = 2) -> Run:
    return Run((Line((name,), (at_most(limit),) * columns),), draw, TABLES, means)


def long_run(name: str, draw: Any) -> Run:
    """A line with four times as many tables, and so a narrower margin."""
    return Run((Line((name,), (at_most(0.05),) * 2),), draw, 4 * TABLES, means)


def equal_rates(p: float, strata: int = 1) -> Callable[[np.random.Generator], Table]:
    return partial(raised, rows=60, reference=2_000, p=p, other=p, strata=strata)


def apart(draw: Draw, sizes: list[int], reference: int = 2_000) -> Any:
    """Small groups and a reference with one distribution."""
    return together(partial(sides, draw=draw, sizes=sizes, reference=reference))


def wider(sizes: list[int], times: float) -> Any:
    """Gamma amounts among zeros, which vary more in the groups than in their reference; the means are equal."""

    def table(rng: np.random.Generator) -> Table:
        drawn = sides(rng, gamma_amounts, sizes, 3_000)
        return drawn | {"v": 0.1 + (drawn["v"] - 0.1) * np.where(drawn["g"] == "ref", 1.0, times)}

    return together(table)


def means(outcomes: FloatArray) -> list[float | str]:
    """The mean of each number over the tables that have it, if they are enough for its margin."""
    known = (~np.isnan(outcomes)).sum(axis=0)
    enough = known >= min(FEW_TABLES, len(outcomes))
    return [
        float(np.nanmean(part)) if some else f"{n} tables"
        for part, some, n in zip(outcomes.T, enough, known, strict=True)
    ]


MEASURED = ("any violation", "intervals that miss", "without a verdict")
TESTED = ("violation", "without a verdict")
FEW = [(60, 9)]
# Whether a rival rejects at most 0.071 of true nulls in every design in which it was run.
VALID = {
    "Welch's t, screened": "yes",
    "permuted Welch's t": "no",
    "Fisher": "yes",
    "Mantel-Haenszel": "yes",
    "permuted clusters": "no",
    "Rao-Scott, pooled": "no",
    "permuted Welch's F": "if all groups have one shape",
}
RIVALS = {"Welch's t, screened": screened, "permuted Welch's t": permuted}  # of `flag` of means

PAGE = Page(
    "skewed_simulations",
    (
        Section(
            "`flag` of means",
            ("design",),
            MEASURED,
            tuple(
                line(name, call, columns=2)
                for name, call in {
                    "within 4 strata, 20 groups of 50 lognormal rows": partial(
                        within_strata, draw=lognormal, sizes=[50] * 20, reference=3_000, strata=4
                    ),
                    "within 3 strata, 6 groups of 100 zero-inflated amounts": partial(
                        within_strata, draw=zero_inflated, sizes=[100] * 6, reference=3_000, strata=3
                    ),
                    "within 4 strata, 100 lognormal rows at the edge of a tolerance": at_the_edge,
                    "against the highest, 6 groups of 100 lognormal rows": partial(best, draw=lognormal),
                    "against the highest, 6 groups of 100 zero-inflated amounts": partial(best, draw=zero_inflated),
                    "with weights, 6 groups of 100 lognormal rows": partial(weighted, draw=lognormal),
                    "overlapping, 25 rows, rate 0.1": partial(overlapping, draw=rate(0.1), rows=25),
                    "overlapping, 60 rows, rate 0.1": partial(overlapping, draw=rate(0.1), rows=60),
                    "overlapping, 60 rows, rate 0.04": partial(overlapping, draw=rate(0.04), rows=60),
                    "overlapping, 25 rows, rate 0.9": partial(overlapping, draw=rate(0.9), rows=25),
                    "overlapping, 60 lognormal rows": partial(overlapping, draw=lognormal, rows=60),
                    "median of 12 lognormal rows": partial(quantile, rows=12, level=0.5),
                    "median of 20 lognormal rows": partial(quantile, rows=20, level=0.5),
                    "0.9 quantile of 20 lognormal rows": partial(quantile, rows=20, level=0.9),
                }.items()
            )
            + tuple(
                lines(name, draw)
                for name, draw in {
                    "10 normal rows": apart(normal, [10]),
                    "15 normal rows": apart(normal, [15]),
                    "12 uniform rows": apart(uniform, [12]),
                    "20 groups of 10 normal rows": apart(normal, [10] * 20),
                    "40 groups of 12 normal rows": apart(normal, [12] * 40),
                    "6 groups of 400 lognormal rows": apart(lognormal, [400] * 6),
                    "200 amounts among 95 % zeros, exponential, against 3,000": apart(rare(0.0), [200], 3_000),
                    "200 amounts among 95 % zeros, lognormal, against 3,000": apart(rare(1.0), [200], 3_000),
                    "400 amounts among 95 % zeros, exponential, against 3,000": apart(rare(0.0), [400], 3_000),
                    "600 amounts among 95 % zeros, lognormal, against 10,000": apart(rare(1.0), [600], 10_000),
                    "5 groups of 300 with rare large losses": apart(rare_losses, [300] * 5),
                    "60 exponential rows": apart(exponential, [60]),
                    "10 groups of 80 exponential rows": apart(exponential, [80] * 10),
                    "100 groups of 80 exponential rows": apart(exponential, [80] * 100),
                    "200 gamma rows, shape 0.1": apart(gamma_tenth, [200]),
                    "6 groups of 200 gamma rows, shape 0.1": apart(gamma_tenth, [200] * 6),
                    "30 groups of 200 gamma rows, shape 0.1": apart(gamma_tenth, [200] * 30),
                    "6 groups of 300 zero-inflated amounts, against 3,000": apart(zero_inflated, [300] * 6, 3_000),
                    "30 groups of 300 zero-inflated amounts, against 3,000": apart(zero_inflated, [300] * 30, 3_000),
                    "300 gamma amounts among 90 % zeros": apart(gamma_amounts, [300], 3_000),
                    "6 groups of 300 gamma amounts among 90 % zeros": apart(gamma_amounts, [300] * 6, 3_000),
                    "30 groups of 300 gamma amounts among 90 % zeros": apart(gamma_amounts, [300] * 30, 3_000),
                    "60 Pareto rows, against 3,000": apart(pareto, [60], 3_000),
                    "200 Pareto rows, against 3,000": apart(pareto, [200], 3_000),
                    "6 groups of 400 Pareto rows, against 3,000": apart(pareto, [400] * 6, 3_000),
                    **{
                        f"{rows} {name} rows against {reference:,} {beside} ones": together(
                            partial(unlike, draw=draw, rows=rows, other=other, reference=reference)
                        )
                        for rows, name, draw, reference, beside, other in (
                            (60, "lognormal", lognormal, 3_000, "exponential", exponential),
                            (200, "lognormal", lognormal, 3_000, "exponential", exponential),
                            (60, "lognormal", lognormal, 3_000, "normal", normal),
                            (400, "lognormal", lognormal, 3_000, "normal", normal),
                            (400, "exponential", exponential, 3_000, "lognormal", lognormal),
                        )
                    },
                }.items()
            )
            + tuple(
                long_run(name, draw)
                for name, draw in {
                    "120 lognormal rows against 120": apart(lognormal, [120], 120),
                    "60 exponential rows against 60": apart(exponential, [60], 60),
                    "200 Pareto rows against 200": apart(pareto, [200], 200),
                    "4 groups of 400 zero-inflated amounts, against 400": apart(zero_inflated, [400] * 4, 400),
                }.items()
            ),
        ),
        Section(
            "`flag` of means, designs not used to choose the law",
            ("design",),
            MEASURED,
            tuple(
                lines(name, draw)
                for name, draw in {
                    "12 groups of 500 amounts among 92 % zeros, exponential": apart(
                        among_zeros(0.08, exponential), [500] * 12, 4_000
                    ),
                    "3 groups of 700 amounts among 95 % zeros, Weibull (0.7)": apart(
                        among_zeros(0.05, weibull(0.7)), [700] * 3, 3_000
                    ),
                    "250 Weibull rows (0.5)": apart(weibull(0.5), [250], 2_500),
                    "8 groups of 150 Weibull rows (0.5)": apart(weibull(0.5), [150] * 8, 1_500),
                    "20 groups of 350 lognormal rows (1.4)": apart(
                        lambda rng, n: rng.lognormal(0.0, 1.4, n), [350] * 20, 2_500
                    ),
                    "5 groups of 250 gamma rows (0.15)": apart(
                        lambda rng, n: rng.gamma(0.15, size=n), [250] * 5, 1_000
                    ),
                    "40 groups of 120 gamma rows (0.3)": apart(lambda rng, n: rng.gamma(0.3, size=n), [120] * 40),
                    "10 groups of 300 Pareto rows (3)": apart(lambda rng, n: rng.pareto(3.0, n), [300] * 10, 3_000),
                }.items()
            ),
        ),
        Section(
            "`flag` of means, designs that a search for failures proposed",
            ("design",),
            MEASURED,
            tuple(
                lines(name, draw)
                for name, draw in {
                    "6 groups of 150 beta rows (0.05, 2)": apart(beta(0.05), [150] * 6),
                    "60 groups of 150 beta rows (0.05, 2)": apart(beta(0.05), [150] * 60),
                    "6 groups of 100 beta rows (0.1, 2)": apart(beta(0.1), [100] * 6),
                    "60 groups of 100 beta rows (0.1, 2)": apart(beta(0.1), [100] * 60),
                    "6 groups of 300 gamma amounts among 90 % zeros, 3 times as variable": wider([300] * 6, 3.0),
                    "10 groups of 300 gamma amounts among 90 % zeros, 1.5 times as variable": wider([300] * 10, 1.5),
                    "30 groups of 600 gamma amounts among 90 % zeros, 3 times as variable": wider([600] * 30, 3.0),
                    "30 groups of 1,200 gamma amounts among 90 % zeros, against 30,000": apart(
                        gamma_amounts, [1_200] * 30, 30_000
                    ),
                    "300 gamma amounts among 90 % zeros, against their known mean": each(
                        partial(known_mean, sizes=[300])
                    ),
                    "10 groups of 300 gamma amounts among 90 % zeros, against their known mean": each(
                        partial(known_mean, sizes=[300] * 10)
                    ),
                    "170 amounts of 0 or 5 (5 %) against 170": apart(
                        lambda rng, n: np.where(rng.random(n) < 0.05, 5.0, 0.0), [170], 170
                    ),
                }.items()
            ),
        ),
        Section(
            "`flag` of other metrics",
            ("design",),
            MEASURED,
            tuple(
                line(name, call, columns=2)
                for name, call in {
                    "balanced accuracy, 60 rows with 9 positives against 1,000": partial(
                        classes, metric="balanced_accuracy", sizes=[(60, 9), (1_000, 150)]
                    ),
                    "balanced accuracy, 200 rows with 20 positives against 2,000": partial(
                        classes, metric="balanced_accuracy", sizes=[(200, 20), (2_000, 200)]
                    ),
                    "balanced accuracy, 8 groups of 60 rows with 9 positives against 1,000": partial(
                        classes, metric="balanced_accuracy", sizes=[*FEW * 8, (1_000, 150)]
                    ),
                    "auc, 60 rows with 9 positives against 400": partial(
                        classes, metric="auc", sizes=[(60, 9), (400, 60)]
                    ),
                    "auc 0.95, 60 rows with 9 positives against 400": partial(
                        classes, metric="auc", sizes=[(60, 9), (400, 60)], quality=2.3
                    ),
                    "auc 0.95, 200 rows with 20 positives against 2,000": partial(
                        classes, metric="auc", sizes=[(200, 20), (2_000, 200)], quality=2.3
                    ),
                    "balanced accuracy, 400 rows with 80 positives against 2,000": partial(
                        classes, metric="balanced_accuracy", sizes=[(400, 80), (2_000, 400)]
                    ),
                    "auc, 400 rows with 80 positives against 2,000": partial(
                        classes, metric="auc", sizes=[(400, 80), (2_000, 400)]
                    ),
                    "rmse, 400 rows with t(10) errors": partial(errors, metric="rmse", rows=400, df=10.0),
                    "rmse, 30 rows with normal errors": partial(errors, metric="rmse", rows=30, df=np.inf),
                    "rmse, 100 rows with t(4) errors": partial(errors, metric="rmse", rows=100, df=4.0),
                    "r2, 30 rows with normal errors": partial(errors, metric="r2", rows=30, df=np.inf),
                }.items()
            ),
        ),
        Section(
            "`flag` of rates within five strata",
            ("design",),
            MEASURED,
            tuple(
                line(name, call, columns=2)
                for name, call in {
                    "60 against 2,000, rate 0.03": partial(strata_rate, rows=60, p=0.03, less=0.0, tolerance=None),
                    "40 against 2,000, rate 0.95": partial(strata_rate, rows=40, p=0.95, less=0.0, tolerance=None),
                    "80 against 2,000, 0.05 below 0.10, tolerance 0.05": partial(
                        strata_rate, rows=80, p=0.10, less=0.05, tolerance=0.05
                    ),
                    "150 against 2,000, 0.05 below 0.10, tolerance 0.05": partial(
                        strata_rate, rows=150, p=0.10, less=0.05, tolerance=0.05
                    ),
                }.items()
            ),
        ),
        Section(
            "`flag` of rates with few cases in 60 clusters of 5",
            ("design",),
            MEASURED,
            (
                *(
                    line(f"rate 0.02, correlation {part:g}", partial(few_cases, p=0.02, correlation=part), columns=2)
                    for part in (0.02, 0.05, 0.2)
                ),
                *(
                    line(
                        f"rate {p:g}, correlation 0.3, elsewhere 0.02",
                        partial(few_cases, p=p, other=p, correlation=0.3, elsewhere=0.02),
                        columns=2,
                    )
                    for p in (0.02, 0.05)
                ),
                Run(
                    (Line(("rate 0.06 against 0.02, correlation 0.05",), (None, at_most(0.05))),),
                    each(partial(few_cases, p=0.06, correlation=0.05)),
                    TABLES,
                    means,
                ),
            ),
        ),
        Section(
            "`certify`",
            ("design",),
            TESTED,
            tuple(
                line(name, call)
                for name, call in {
                    "equalized odds, 12 groups of 40": partial(equalized_odds, sizes=[40] * 12, p=0.5),
                    "equalized odds, 2,000 and eight groups of 60, rate 0.06": partial(
                        equalized_odds, sizes=[2_000, *[60] * 8], p=0.06
                    ),
                    "zero-inflated amounts, 1,000 and six groups of 60": partial(
                        certified, draw=zero_inflated, sizes=[1_000, *[60] * 6]
                    ),
                }.items()
            ),
        ),
        Section(
            "The band of `adverse_impact` over cutoffs",
            ("design",),
            ("leaves out the true curve", "without a band"),
            tuple(
                line(f"{small} against {large:,}", partial(band, small=small, large=large))
                for small, large in ((30, 2_000), (100, 2_000), (200, 5_000))
            ),
        ),
        Section(
            "`adverse_impact` with weights of 1 or 2, true ratio at the threshold",
            ("design",),
            ("below is shown", "intervals that miss", "without a verdict"),
            tuple(
                line(
                    f"{rows} against {reference}, rate {p:g}",
                    partial(weighted_ratio, rows=rows, p=p, reference=reference),
                    columns=2,
                )
                for rows, reference, p in ((24, 60, 0.5), (24, 60, 0.9), (60, 60, 0.5), (60, 400, 0.2))
            ),
        ),
        Section(
            "Scores with real outcomes",
            ("design",),
            TESTED,
            tuple(
                line(f"{name}, {label}, {a:,} against {b:,}", partial(scored, draw=draw, sizes=(a, b), threshold=cut))
                for name, cut, label, draw, a, b in (
                    ("predictive_parity", None, "lognormal", lognormal, 150, 3_000),
                    ("predictive_parity", None, "zero-inflated", zero_inflated, 150, 3_000),
                    ("predictive_parity", None, "lognormal", lognormal, 1_000, 1_000),
                    ("predictive_parity", None, "lognormal", lognormal, 2_000, 20_000),
                    ("marginal_outcomes", 0.5, "lognormal", lognormal, 500, 3_000),
                    ("marginal_outcomes", 0.5, "zero-inflated", zero_inflated, 500, 3_000),
                    ("predictive_parity", None, "normal", normal, 150, 3_000),
                    ("predictive_parity", None, "gamma", gamma, 1_000, 5_000),
                    ("marginal_outcomes", 0.5, "normal", normal, 500, 3_000),
                )
            ),
        ),
        Section(
            "Treatment by cluster",
            ("design",),
            ("bias", "intervals of errors that miss", "without a verdict"),
            tuple(
                line(name, call, columns=2)
                for name, call in {
                    "40 clusters of 50, 10 % treated": partial(
                        treated_clusters, clusters=40, share=0.1, correlation=0.1
                    ),
                    "60 clusters of 50, 15 % treated, correlation 0.2": partial(
                        treated_clusters, clusters=60, share=0.15, correlation=0.2
                    ),
                    "100 clusters of 50, 30 % treated, correlation 0.2": partial(
                        treated_clusters, clusters=100, share=0.3, correlation=0.2
                    ),
                }.items()
            ),
        ),
        Section(
            "`improvability`",
            ("design",),
            TESTED,
            tuple(
                line(name, call)
                for name, call in {
                    "3 decisions changed": partial(flips, changed=3),
                    "9 decisions changed": partial(flips, changed=9),
                    "lognormal outcome, 12 rows selected": partial(selected, rows=12),
                    "lognormal outcome, 20 rows selected": partial(selected, rows=20),
                    "lognormal outcome, 40 rows selected": partial(selected, rows=40),
                    "normal outcome, 40 rows selected": partial(selected, rows=40, draw=positive),
                }.items()
            ),
        ),
        Section(
            "`project` with a design: p below 0.001",
            ("design",),
            TESTED,
            tuple(
                line(f"{reading}, {a} against {b:,} at {p:g}", partial(projected, sizes=(a, b), p=p, reading=reading))
                for a, b, p in ((40, 2_000, 0.05), (100, 4_000, 0.02))
                for reading in ("weight", "cluster")
            ),
        ),
        Section(
            "Means that do not differ: what `flag` and its rivals show",
            ("design",),
            ("`flag`", "Welch", "Welch, screened", "permuted Welch", "bootstrap t", "without a verdict"),
            tuple(
                lines(name, rivals(welch, screened, permuted, bootstrap, table=table), columns=1)
                for name, table in (
                    ("10 normal rows", partial(sides, draw=normal, sizes=[10], reference=2_000)),
                    *(
                        (
                            f"{rows} lognormal rows against {reference:,} {name} ones",
                            partial(unlike, draw=lognormal, rows=rows, other=other, reference=reference),
                        )
                        for rows, reference, name, other in (
                            (10, 2_000, "normal", normal),
                            (15, 2_000, "normal", normal),
                            (60, 2_000, "normal", normal),
                            (60, 3_000, "exponential", exponential),
                            (400, 3_000, "normal", normal),
                        )
                    ),
                    (
                        "100 zero-inflated amounts against 2,000 normal ones",
                        partial(unlike, draw=zero_inflated, rows=100),
                    ),
                )
            ),
        ),
        Section(
            "Rates in 60 clusters of 5 that do not differ: what `flag` and its rivals show",
            ("design",),
            tuple(
                f"{name}: {side}"
                for name in ("`flag`", "Rao-Scott", "permuted clusters")
                for side in ("above", "below")
            ),
            tuple(
                Run((Line((name,)),), each(partial(above_and_below, options=options)), TABLES)
                for name, options in (
                    ("rate 0.02, correlation 0.05", {"p": 0.02, "correlation": 0.05}),
                    ("rate 0.02, correlation 0.2", {"p": 0.02, "correlation": 0.2}),
                    (
                        "rate 0.02, correlation 0.3, elsewhere 0.02",
                        {"p": 0.02, "correlation": 0.3, "elsewhere": 0.02},
                    ),
                    (
                        "rate 0.02, correlation 0.02, elsewhere 0.3",
                        {"p": 0.02, "correlation": 0.02, "elsewhere": 0.3},
                    ),
                )
            ),
        ),
        Section(
            "Differences found with the rows that `rows_needed` names for 0.8, normal rows",
            ("reference", "standard deviations", "rows"),
            ("found", "without a verdict"),
            tuple(
                Run(
                    (Line((reference, f"{apart:g}", str(enough(reference, apart))), (Asked(0.8, slack=0.03),)),),
                    each(partial(planned, reference=reference, apart=apart)),
                    TABLES,
                )
                for reference, apart in PLANS
            ),
        ),
        Section(
            "Rates that do not differ: what `flag` and its rivals show",
            ("design", "rival"),
            ("`flag`", "rival", "without a verdict"),
            tuple(
                Run((Line((name, label), (at_most(0.05),)),), each(partial(beside, rival=rival, **options)), TABLES)
                for name, label, rival, options in (
                    ("60 against 2,000, rate 0.05", "Fisher", fisher, RATE | {"table": equal_rates(0.05)}),
                    (
                        "60 against 2,000, rate 0.03, within five strata",
                        "Mantel-Haenszel",
                        mantel_haenszel,
                        RATE | {"given": "s", "table": equal_rates(0.03, 5)},
                    ),
                )
            ),
        ),
        Section(
            "Rare large amounts beside normal rows: a known failure",
            ("design",),
            MEASURED,
            tuple(
                Run(
                    (Line((f"{rows} rows, 3 % of them large, against 2,000 normal ones",)),),
                    together(partial(unlike, draw=rare_gains, rows=rows)),
                    TABLES,
                    means,
                )
                for rows in (100, 200, 400)
            ),
        ),
        Section(
            "Differences found, beside a rival",
            ("design", "rival", "valid"),
            ("found", "found by the rival", "without a verdict"),
            tuple(
                Run(
                    tuple(Line((f"mean, {name}", label, VALID[label])) for label in RIVALS),
                    compare_each(*RIVALS.values(), table=table),
                    TABLES,
                )
                for name, table in (
                    (
                        "10 normal rows against 2,000, one standard deviation",
                        partial(shifted, rows=10, reference=2_000, shift=1.0),
                    ),
                    (
                        "60 exponential rows against 2,000, 1.5 times as much",
                        partial(scaled, draw=exponential, rows=60, reference=2_000, factor=1.5),
                    ),
                    (
                        "400 lognormal rows against 3,000, 0.7 times as much",
                        partial(scaled, draw=lognormal, rows=400, reference=3_000, factor=0.7),
                    ),
                    (
                        "400 amounts among 95 % zeros against 3,000, 0.4 times as much",
                        partial(scaled, draw=rare(0.0), rows=400, reference=3_000, factor=0.4),
                    ),
                )
            )
            + tuple(
                Run(
                    (Line((name, label, VALID[label])),),
                    each(partial(beside, table=table, rival=rival, **options)),
                    TABLES,
                )
                for name, label, table, rival, options in (
                    (
                        "rate, 60 against 2,000, 0.15 for 0.05",
                        "Fisher",
                        partial(raised, rows=60, reference=2_000, p=0.05, other=0.15),
                        fisher,
                        RATE,
                    ),
                    (
                        "rate within five strata, 60 against 2,000, 0.12 for 0.03",
                        "Mantel-Haenszel",
                        partial(raised, rows=60, reference=2_000, p=0.03, other=0.12, strata=5),
                        mantel_haenszel,
                        RATE | {"given": "s"},
                    ),
                    (
                        "rate in 60 clusters of 5, 0.06 for 0.02, correlation 0.1",
                        "permuted clusters",
                        partial(clustered, p=0.06, correlation=0.1),
                        permuted_clusters,
                        RATE | {"cluster": "c"},
                    ),
                    (
                        "rate in 60 clusters of 5, 0.06 for 0.02, correlation 0.1",
                        "Rao-Scott, pooled",
                        partial(clustered, p=0.06, correlation=0.1),
                        rao_scott,
                        RATE | {"cluster": "c"},
                    ),
                    (
                        "certify, 6 groups of 80 exponential rows, one has 1.6 times as much",
                        "permuted Welch's F",
                        partial(scaled, draw=exponential, rows=80, reference=80, factor=1.6, groups=5),
                        permuted_anova,
                        {},
                    ),
                )
            ),
        ),
    ),
)


if __name__ == "__main__":
    main(PAGE)
