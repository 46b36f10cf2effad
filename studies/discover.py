"""Subgroups found in the data: false findings, coverage on the rows that did not choose them, and power.

python -m studies.discover [--tables N] [--only TEXT]        writes docs/groups/discover_simulations.md

Tables have 20 features: 10 of 2 to 6 levels and 10 numbers, from normal variables with one common factor. The steps of
`isonomy.discover` run on arrays, without reading a table; rates have the numbers of `isonomy.flag`, computed directly
(tests/studies/test_discover.py compares them).
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import numpy as np

import isonomy as iso
from isonomy.frames import open_source
from isonomy.groups.discover import (
    CodedFeature,
    CodedRows,
    DiscoverPlan,
    estimate,
    plan_discover,
    scoring,
)
from isonomy.groups.likelihood.means import Binary
from isonomy.groups.likelihood.profile import Kind, ProfileLikelihood
from isonomy.groups.likelihood.search import Codes, candidates, family, fisher, jaccard, search
from isonomy.groups.options import SearchOption
from isonomy.inference import Verdict
from isonomy.inference.effect import Hypothesis
from isonomy.inference.multiplicity import adjust
from isonomy.numerics.arrays import BoolArray, FloatArray
from studies.lines import Asked, Line, Number, Page, Run, Section, at_most, each, main

TABLES, DESIGNED = 1_000, 300
LEVELS, NUMBERS, BINS = (2, 3, 4, 5, 6, 2, 3, 4, 5, 6), 10, 8
SHOWN = at_most(0.05)
# Coverage of intervals, several of which share a table.
COVERED = Asked(0.95, "least", label="coverage")
SPECIFIED = 150  # tables behind the figures that the power should reach


@cache
def plan_of(design: str = "", evidence: str = "crossfit", binary: bool = True) -> DiscoverPlan:
    """The call on a table of the same columns; only its schema is read."""
    names = [f"f{i}" for i in range(len(LEVELS) + NUMBERS)]
    table = {name: [0.0, 1.0] for name in (*names, "w", "person")} | {"y": [0, 1], "stratum": ["a", "b"]}
    rows: Any = {"weight": "w"} if "weight" in design else {}
    rows |= {"cluster": "person"} if "cluster" in design else {}
    options: dict[str, Any] = dict.fromkeys(("outcome", "prediction", "score", "positive", "tolerance"))
    options |= {"reference": "rest", "scale": "difference", "side": "worse", "alpha": 0.05, "most": 5}
    return plan_discover(
        open_source(table, **rows),
        metric=iso.Metric("mean", value=iso.col("y"), binary=binary),
        features=names,
        better="higher",
        min_size=30,
        search=SearchOption(),
        evidence=evidence,
        given="stratum" if "strata" in design else None,
        **options,
    )


def latent_of(rng: np.random.Generator, rows: int, correlation: float) -> FloatArray:
    common, own = rng.normal(size=rows), rng.normal(size=(len(LEVELS) + NUMBERS, rows))
    return np.sqrt(correlation) * common + np.sqrt(1 - correlation) * own


def coded(latent: FloatArray) -> Codes:
    """The bins: levels of unequal shares, and numbers at the quantiles of all rows."""
    codes = []
    for i, values in enumerate(latent):
        levels = LEVELS[i] if i < len(LEVELS) else BINS
        shares = np.arange(levels + 1, 1, -1) if i < len(LEVELS) else np.ones(levels)
        edges = np.quantile(values, np.cumsum(shares / shares.sum())[:-1])
        codes.append(np.searchsorted(edges, values, side="right"))
    return np.array(codes, dtype=np.int8)


def rows_of(codes: Codes, value: FloatArray, **columns: Any) -> CodedRows:
    anything: Any = None
    features = [
        CodedFeature(f"f{i}", anything, anything, tuple(range(LEVELS[i])))
        if i < len(LEVELS)
        else CodedFeature(f"f{i}", anything, anything, edges=tuple(map(float, range(1, BINS))))
        for i in range(len(codes))
    ]
    plain: dict[str, Any] = dict.fromkeys(("mass", "cluster", "strata")) | {"dropped": {}, "left_out": ()}
    least = max(30, round(0.01 * value.size / 2))
    return CodedRows(features=tuple(features), codes=codes, value=value, least=least, **plain | columns)


def crossfit(
    rng: np.random.Generator, rows: CodedRows, chance: FloatArray, design: str = "", *, binary: bool = True
) -> tuple[list[BoolArray], list[bool], FloatArray, FloatArray]:
    """The members of each subgroup tested, whether it was confirmed, covered, and its true difference."""
    plan = plan_of(design, binary=binary)
    columns = estimate(rows, plan, rng)[0] if design or not binary else halves_of_rates(rng, rows, plan)
    members = [subgroup.members(rows.codes) for subgroup in columns["subgroups"]]
    mass = np.ones(chance.size) if rows.mass is None else rows.mass
    truth = np.array(
        [np.average(chance[m], weights=mass[m]) - np.average(chance[~m], weights=mass[~m]) for m in members]
    )
    truth *= "strata" not in design  # within strata the common difference is 0, whatever the crude one is
    confirmed = [verdict is Verdict.VIOLATION for verdict in columns["verdicts"]]
    known = np.isfinite(columns["ci_low"])
    covered = (columns["ci_low"] <= truth) & (truth <= columns["ci_high"])
    return members, confirmed, np.where(known, covered, np.nan).astype(float), truth


def halves_of_rates(rng: np.random.Generator, rows: CodedRows, plan: DiscoverPlan) -> dict[str, Any]:
    """The subgroups of both halves with the numbers that `flag` has for rates, without making its tables."""
    first = np.isin(np.arange(rows.value.size), rng.permutation(rows.value.size)[: rows.value.size // 2])
    columns: dict[str, Any] = {"subgroups": [], "verdicts": [], "ci_low": [], "ci_high": []}
    for half in (first, ~first):
        lines, held = np.flatnonzero(half), np.flatnonzero(~half)
        outcome = rows.outcome(lines)
        score = scoring(outcome, rows, plan)
        found = search(rows.codes[:, lines], outcome, rows.literals, score, depth=3, most=plan.most)
        if not found:
            continue
        members = np.array([subgroup.members(rows.codes[:, held]) for subgroup in found])
        n, s = members.sum(axis=1).astype(float), members @ rows.value[held]
        every, places = rows.value[held], np.arange(n.size)
        rates = Binary(n, s), Binary(every.size - n, every.sum() - s)
        effect = ProfileLikelihood(Kind.DISJOINT, rates[0], places, other=rates[1], partner=places).scoring_few()
        pvalue = np.where(n >= 10, effect.test(Hypothesis(0.0, 0.0, "less"))[1], 1.0)
        shown = np.minimum(2.0 * adjust(pvalue, "holm", ranked=True), 1.0) <= plan.alpha
        low, high = np.where(n >= 10, effect.limits(plan.alpha), np.nan)
        columns["subgroups"] += found
        columns["verdicts"] += [Verdict.VIOLATION if reject else Verdict.INCONCLUSIVE for reject in shown]
        columns["ci_low"] += low.tolist()
        columns["ci_high"] += high.tolist()
    return columns | {end: np.array(columns[end]) for end in ("ci_low", "ci_high")}


def counted(rows: CodedRows, chance: FloatArray) -> tuple[list[BoolArray], bool, float, float]:
    """All rows: subgroups confirmed with all counted; the worst alone, at 0.05 and by its interval."""
    plan, outcome = plan_of(evidence="all"), rows.outcome(np.arange(rows.value.size))
    every = family(rows.codes, outcome, rows.literals, scoring(outcome, rows, plan), 2)
    pool = candidates(every, rows.literals)[:10]
    if not pool:
        return [], False, 0.0, np.nan
    pvalue = fisher(pool, *outcome.moments[:2], plan.signs)
    shown = [g.members(rows.codes) for g, p in zip(pool, pvalue, strict=True) if p * np.isfinite(every.z).sum() <= 0.05]
    inside = pool[0].members(rows.codes)
    means = [(rows.value[m].mean(), rows.value[m].var() / m.sum(), chance[m].mean()) for m in (inside, ~inside)]
    (mean, variance, true), (other, more, rest) = means
    away = abs(mean - other - (true - rest)) <= 1.96 * np.sqrt(variance + more)
    return shown, bool(len(shown)), float(pvalue[0] <= 0.05), float(away)


def nothing(
    rng: np.random.Generator,
    rows: int,
    correlation: float,
    law: str,
    hard: str = "",
    designs: str = "",
    *,
    every: bool = False,
) -> list[float]:
    """No subgroup differs: whether any was confirmed, by halves and in all rows; the worst one; coverage."""
    latent = latent_of(rng, rows, correlation)
    if hard == "copies":
        latent[11:] = latent[10]
    elif hard == "functions":
        latent[11:] = [np.cos(k * latent[10]) for k in range(1, NUMBERS)]
    columns: dict[str, Any] = {}
    draw = rng.random(rows)
    if "cluster" in designs:  # four rows of a person share the features and, half of the time, the outcome
        person = np.arange(rows) // 4
        latent, columns["cluster"] = latent[:, person * 4], person
        draw = np.where(rng.random(rows) < 0.5, draw[person * 4], draw)
    if "weight" in designs:
        columns["mass"] = rng.lognormal(0.0, 0.5, rows)
        columns["mass"] /= columns["mass"].mean()
    rate = np.full(rows, float(law.split()[1])) if law.startswith("rate") else np.zeros(rows)
    if "strata" in designs:  # the stratum changes the rate, and some features depend on it
        columns["strata"] = (latent[0] + rng.normal(size=rows) > 0).astype(np.int64)
        rate = np.where(columns["strata"] == 1, 0.5, 0.2)
    binary = law.startswith("rate")
    value = (draw < rate).astype(float)
    if not binary:
        value = np.exp(float(law.split()[1]) * rng.normal(size=rows))
        rate = np.full(rows, np.exp(float(law.split()[1]) ** 2 / 2))
    table = rows_of(coded(latent), value, **columns)
    _, confirmed, covered, _ = crossfit(rng, table, rate, designs, binary=binary)
    coverage = float(np.nanmean(covered)) if np.isfinite(covered).any() else np.nan
    if designs or not binary:
        return [float(any(confirmed)), coverage]
    _, shown, worst, _ = counted(table, rate) if every else ([], np.nan, np.nan, np.nan)
    return [float(any(confirmed)), coverage, float(shown), worst]


def planted(rng: np.random.Generator, conditions: int, z: float, rows: int = 4_000) -> list[float]:
    """One subgroup is worse off: found and confirmed by halves, in all rows; coverage held out and naive; false."""
    latent = latent_of(rng, rows, 0.5)
    codes = coded(latent)
    cut = (1 + conditions + rng.random()) / BINS  # anywhere between two cuts of the search
    number = latent[10] < np.quantile(latent[10], cut)
    parts = [number, codes[5] == 0, codes[6] == 0][:conditions]
    inside = np.logical_and.reduce(parts)
    n, ones = inside.sum(), round(0.4 * rows)
    # Of the ones, as many lie inside as give the planted subgroup the score z.
    gap = z * np.sqrt(0.24 * rows / (n * (rows - n)))
    selected = round(n * (ones - gap * (rows - n)) / rows)
    value = np.zeros(rows)
    value[rng.choice(np.flatnonzero(inside), selected, replace=False)] = 1.0
    value[rng.choice(np.flatnonzero(~inside), ones - selected, replace=False)] = 1.0
    chance = np.where(inside, selected / n, (ones - selected) / (rows - n))
    table = rows_of(codes, value)
    members, confirmed, covered, truth = crossfit(rng, table, chance)
    right = [shown and jaccard(m, inside) >= 0.5 for m, shown in zip(members, confirmed, strict=True)]
    false = [shown and not low for shown, low in zip(confirmed, truth < 0, strict=True)]
    shown, _, _, naive = counted(table, chance)
    all_rows = any(jaccard(m, inside) >= 0.5 for m in shown)
    return [
        float(any(right)),
        float(all_rows),
        float(np.nanmean(covered)) if covered.size else np.nan,
        naive,
        float(any(false)),
    ]


def _null(rows: int, correlation: float, law: str, hard: str = "", *, every: bool = False) -> Run:
    line = Line((f"{rows:,}", f"{correlation:g}", law, hard or "drawn one by one"), (SHOWN, COVERED, SHOWN))
    draw = each(partial(nothing, rows=rows, correlation=correlation, law=law, hard=hard, every=every))
    return Run((line,), draw, TABLES, means)


def _designed(rows: int, law: str, designs: str) -> Run:
    line = Line((f"{rows:,}", law, designs or "plain"), (SHOWN, COVERED))
    draw = each(partial(nothing, rows=rows, correlation=0.5, law=law, designs=designs))
    return Run((line,), draw, DESIGNED, means)


def means(outcomes: FloatArray) -> list[Number]:
    return [float(np.nanmean(part)) if np.isfinite(part).any() else "–" for part in outcomes.T]


def _power(conditions: int, z: float, crossfit: float | None = None, every: float | None = None) -> Run:
    asked = tuple(
        None if value is None else Asked(value, "least", error=partial(_error, value), label=name)
        for name, value in (("halves", crossfit), ("all", every))
    )
    line = Line((f"{conditions}", f"{z:g}"), (*asked, COVERED, None, SHOWN))
    return Run((line,), each(partial(planted, conditions=conditions, z=z)), TABLES, means)


def _error(value: float, tables: int) -> float:
    return float(np.sqrt(value * (1 - value) * (1 / tables + 1 / SPECIFIED)))


PAGE = Page(
    "groups/discover_simulations",
    (
        Section(
            "No subgroup differs",
            ("rows", "correlation", "metric", "features"),
            ("halves: any confirmed", "coverage", "all: any confirmed", "worst alone at 0.05"),
            (
                _null(4_000, 0.0, "rate 0.4"),
                _null(4_000, 0.5, "rate 0.4", every=True),
                _null(4_000, 0.9, "rate 0.4"),
                _null(1_000, 0.5, "rate 0.4"),
                _null(2_000, 0.5, "rate 0.05"),
                _null(4_000, 0.0, "rate 0.02"),
                _null(2_000, 0.5, "rate 0.4", "copies"),
                _null(2_000, 0.5, "rate 0.4", "functions"),
                _null(200, 0.5, "rate 0.4", every=True),
            ),
        ),
        Section(
            "Numbers, weights, clusters and strata",
            ("rows", "metric", "design"),
            ("any confirmed", "coverage"),
            (
                _designed(8_000, "lognormal 1", ""),
                _designed(4_000, "lognormal 0.5", ""),
                _designed(2_000, "rate 0.4", "weight"),
                _designed(4_000, "rate 0.4", "cluster"),
                _designed(2_000, "rate 0.4", "strata"),
            ),
        ),
        Section(
            "One subgroup is worse off",
            ("conditions", "z"),
            ("halves", "all", "coverage", "coverage of the worst in all rows", "any false finding"),
            (
                _power(1, 6, 0.92, 0.98),
                _power(2, 6, 0.74, 0.84),
                _power(3, 6, 0.48, 0.31),
            ),
        ),
    ),
)

if __name__ == "__main__":
    main(PAGE)
