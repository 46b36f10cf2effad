"""Size and power of `improvability` on designs with known truth.

    python -m studies.alternatives [--tables N] [--only TEXT]        writes docs/alternatives/simulations.md

A run with K = 7 rounds also gives K = 1, its first round.

Under the null of a rule, the status quo is exactly as unequal (or as accurate) as the rule is on average when fitted on
four fifths of the rows. This average is estimated first, from fits on other rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

import numpy as np
from scipy.special import ndtri
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import LassoLarsCV, LinearRegression
from sklearn.neighbors import KNeighborsRegressor
from sklearn.tree import DecisionTreeRegressor

import isonomy as iso
from isonomy.alternatives.rules.algorithm import Decide, Training
from isonomy.alternatives.rules.comparison import combined
from isonomy.alternatives.rules.named import EstimatorRule
from isonomy.numerics.arrays import FloatArray
from studies.designs import alternatives
from studies.designs.reruns import simulate_reruns
from studies.lines import Asked, Line, Page, Run, Section, at_most, each, main, rejected

TABLES = 1_000
RESAMPLES = 400
Columns = dict[str, Any]


def classified(
    rng: np.random.Generator, accuracy: list[tuple[float, float]], selected: list[tuple[float, float]], rows: int
) -> Columns:
    """0/1 outcomes, with the accuracy and the share selected of (status quo, candidate) in each group."""
    group = rng.integers(0, len(accuracy), rows)
    y = rng.integers(0, 2, rows)
    decisions = []
    for k in (0, 1):
        a, s = np.array(accuracy)[group, k], np.array(selected)[group, k]
        decisions.append((rng.random(rows) < np.where(y == 1, s + a - 0.5, s - a + 0.5)).astype(int))
    return {"g": group, "y": y, "d0": decisions[0], "d1": decisions[1]}


def rising(rng: np.random.Generator, slopes: list[tuple[float, float]], rows: int) -> Columns:
    """Poisson outcomes; decisions rise with the outcome, with the slopes of (status quo, candidate) in each group."""
    group, y = rng.integers(0, len(slopes), rows), rng.poisson(2.0, rows)
    chance = [1 / (1 + np.exp(2.2 - np.array(slopes)[group, k] * (y - 1))) for k in (0, 1)]
    decisions = [(rng.random(rows) < c).astype(int) for c in chance]
    return {"g": group, "y": y, "d0": decisions[0], "d1": decisions[1]}


def tied(groups: int) -> Callable[[np.random.Generator], Columns]:
    """Equal largest gaps: many pairs tie for the largest under the status quo, only one pair has it for the candidate.

    The largest of several tied gaps is overestimated, so that a bootstrap of the largest gap finds an improvement.
    """
    half = groups // 2
    before = [0.6] * half + [0.42] * (groups - half)
    after = [0.6] + [0.51] * (groups - 2) + [0.42]
    pairs = list(zip(before, after, strict=True))
    return partial(classified, accuracy=[(0.6, 0.85)] * groups, selected=pairs, rows=400 * groups)


@dataclass(frozen=True)
class Design:
    """A population and the question asked of it."""

    draw: Callable[[np.random.Generator], Columns]
    options: dict[str, Any] = field(default_factory=dict)
    published: bool = False  # the paper's form of the bootstrap

    def ask(self, rng: np.random.Generator) -> list[float]:
        """Whether one round, and seven rounds, reject on one table."""
        options = {"accuracy": "accuracy", "fairness": "selection_rate"} | self.options
        result = iso.improvability(
            self.draw(rng),
            outcome="y",
            groups="g",
            status_quo="d0",
            candidate="d1",
            method=iso.splits(7, resamples=RESAMPLES, published=self.published),
            min_size=1,
            rng=rng,
            **options,
        )
        return [float(rejected(result.round_pvalues[0])), float(rejected(result.pvalue))]

    def ask_all_rows(self, rng: np.random.Generator) -> float:
        """Whether the test on all rows rejects on one table."""
        options = {"accuracy": "accuracy", "fairness": "selection_rate"} | self.options
        columns = self.draw(rng)
        result = iso.improvability(
            columns, outcome="y", groups="g", status_quo="d0", candidate="d1", min_size=1, rng=rng, **options
        )
        return float(rejected(result.pvalue))


def largest_gap(rng: np.random.Generator, groups: int) -> float:
    """Whether a bootstrap of the largest gap over pairs would reject (the fairness component alone)."""
    columns = tied(groups)(rng)
    cells = np.zeros((groups, 4))  # in each group: d0, d1 = 00, 01, 10, 11
    np.add.at(cells, (columns["g"], 2 * columns["d0"] + columns["d1"]), 1)
    rows = cells.sum(axis=1)
    draws = np.stack([rng.multinomial(int(n), c / n, size=RESAMPLES) for n, c in zip(rows, cells, strict=True)], axis=1)

    def gain(counts: Any) -> Any:
        before, after = (counts[..., k].sum(axis=-1) / rows for k in ([2, 3], [1, 3]))
        return np.ptp(before, axis=-1) - np.ptp(after, axis=-1)

    observed = float(gain(cells))
    p = (1 + (gain(draws) - observed >= observed).sum()) / (1 + RESAMPLES)
    return float(rejected(p))


EQUAL_UNFAIRNESS = partial(classified, accuracy=[(0.62, 0.8)] * 2, selected=[(0.6, 0.6), (0.45, 0.45)], rows=800)
STEEP = partial(classified, accuracy=[(0.62, 0.85)] * 2, selected=[(0.62, 0.535), (0.38, 0.465)], rows=800)
AMONG = {"accuracy": "outcome_among_selected", "fairness": "outcome_among_selected"}
CUT = {"gain": iso.gain(fairness=1 - 0.07 / 0.24)}
STEEPER = partial(classified, accuracy=[(0.62, 0.85)] * 2, selected=[(0.62, 0.512), (0.38, 0.488)], rows=800)

NULLS = {
    "equal accuracy of one group": Design(
        partial(classified, accuracy=[(0.7, 0.7), (0.7, 0.85)], selected=[(0.65, 0.5), (0.4, 0.45)], rows=800)
    ),
    "equal accuracy, outcome among selected": Design(
        partial(rising, slopes=[(0.5, 0.5), (0.0, 0.45)], rows=3_000), AMONG
    ),
    "equal unfairness": Design(EQUAL_UNFAIRNESS),
    "equal unfairness, 3 groups, ties": Design(tied(3)),
    "equal unfairness, 6 groups, ties": Design(tied(6)),
    "unfairness cut by 70 %, 70 % asked for": Design(STEEP, CUT),
}
CUTS = {
    "unfairness cut by 90 %, 90 % asked for": Design(STEEPER, {"gain": iso.gain(fairness=0.9)}),
}
# The reason for two one-sided questions: if the paper's form kept its level, it could be the default.
PAPER = {
    "equal unfairness, the paper's form": Design(EQUAL_UNFAIRNESS, published=True),
    "unfairness cut by 70 %, 70 % asked for, the paper's form": Design(STEEP, CUT, published=True),
}
BETTER = {
    "both better: accuracy 0.62 to 0.80, gap 0.30 to 0.03": Design(
        partial(classified, accuracy=[(0.62, 0.8)] * 2, selected=[(0.6, 0.515), (0.3, 0.485)], rows=800)
    ),
}


def line(name: str, truth: str, asked: Asked | None, draw: Callable[[np.random.Generator], Any]) -> Run:
    """A run that fills one line, with the same target for one round and for seven."""
    return Run((Line((name, truth), (asked, asked)),), each(draw), TABLES)


def with_one_round(outcomes: FloatArray) -> list[Any]:
    """One round only."""
    return [float(outcomes.mean()), "–"]


def reruns(rng: np.random.Generator, tables: int, times: int, correlation: float) -> FloatArray:
    """How often an analyst who runs the test ``times`` times rejects a true null, with one split and with seven."""
    shares = [
        simulate_reruns(times, splits=splits, correlation=correlation, replications=tables, rng=rng)
        for splits in (1, 7)
    ]
    return np.tile(shares, (tables, 1))


# --- fixed scores, cut at a capacity


def apart(result: Any, capacity: float) -> float:
    """The largest difference of a share selected, by either algorithm, from the capacity."""
    return float(max(abs(shares - capacity).max() for shares in (result.selected, result.selected_status_quo)))


def at_capacity(rng: np.random.Generator, design: Any, capacity: float, rows: int) -> list[float]:
    """Whether the test on all rows rejects, and the largest difference of a share selected from the capacity."""
    table = alternatives(rows, int(rng.integers(2**31)), design=design, outcome="binary", capacity=capacity)
    result = iso.improvability(
        table.columns,
        outcome="outcome",
        groups="group",
        status_quo="status_quo",
        candidate="candidate",
        capacity=capacity,
        min_size=1,
        rng=rng,
    )
    return [float(rejected(result.pvalue)), apart(result, capacity)]


# --- fitted rules

# Small models: fifteen are fitted on every table, and a forest of five trees reacts more to a row than a large one.
SELECTORS: dict[str, Any] = {
    "linear": LinearRegression(),
    "LASSO": LassoLarsCV(cv=5),
    "forest": RandomForestRegressor(5, min_samples_leaf=5, max_features=2, max_samples=0.5),
    "boosting": HistGradientBoostingRegressor(
        max_iter=10, max_leaf_nodes=4, learning_rate=0.3, max_bins=32, early_stopping=False
    ),
    "nearest neighbours": KNeighborsRegressor(15),
    "full tree": DecisionTreeRegressor(),
}
FEATURES = ["x0", "x1", "x2", "x3"]
SPLITS = iso.splits(7)


def people(rng: np.random.Generator, rows: int, groups: int) -> Columns:
    """Outcomes that depend on two of four features; the first feature is lower in later groups."""
    group, x = rng.integers(0, groups, rows), rng.normal(size=(rows, 4))
    x[:, 0] += np.linspace(0.4, -0.4, groups)[group]
    y = (x[:, 0] + 0.5 * x[:, 1] + rng.normal(size=rows) > 0.3).astype(int)
    return {"g": group, "y": y} | dict(zip(FEATURES, x.T, strict=True))


def matrix(columns: Columns) -> FloatArray:
    """The features as columns."""
    return np.column_stack([columns[name] for name in FEATURES])


class Once:
    """A rule that fits and predicts only once on the same rows, for any status quo."""

    def __init__(self, rule: str) -> None:
        self.rule, self.values = EstimatorRule(clone(SELECTORS[rule])), dict[tuple[bytes, ...], Any]()

    def __call__(self, training: Training) -> Decide:
        """The algorithm fitted on these people, cached."""
        fit = training.people.features["x0"].tobytes()
        fitted = self._kept((fit,), lambda: self.rule(training))
        return lambda people: self._kept((fit, people.features["x0"].tobytes()), lambda: fitted(people))

    def _kept(self, key: tuple[bytes, ...], make: Callable[[], Any]) -> Any:
        if key not in self.values:
            self.values[key] = make()
        return self.values[key]


@cache
def reached(rule: str, rows: int, groups: int, capacity: float) -> tuple[FloatArray, FloatArray]:
    """The mean share that a rule fitted on ``rows`` rows selects of each group and outcome, and the share of each cell.

    Averages over 40 fits, each evaluated on 20,000 people: about thirty times as precise as one table.
    """
    rng = np.random.default_rng(5)
    rates, shares = [], []
    for _ in range(40):
        learn, judge = people(rng, rows, groups), people(rng, 20_000, groups)
        model = clone(SELECTORS[rule]).fit(matrix(learn), learn["y"])
        score = model.predict(matrix(judge)) + 1e-9 * rng.normal(size=20_000)  # break ties at random
        chosen = score > np.quantile(score, 1 - capacity)
        cells = [(judge["g"] == g) & (judge["y"] == y) for g in range(groups) for y in (0, 1)]
        rates.append([chosen[cell].mean() for cell in cells])
        shares.append([cell.mean() for cell in cells])
    return np.mean(rates, axis=0).reshape(groups, 2), np.mean(shares, axis=0).reshape(groups, 2)


def status_quo(boundary: str, rate: FloatArray, share: FloatArray) -> FloatArray:
    """The share that a status quo on or inside the boundary selects of each group and outcome, at the same capacity.

    The true positive rate of a group falls by d while as many are selected, so that its accuracy falls by 2 d times its
    base rate; or it changes by e with the accuracy unchanged, and the other group compensates.
    """
    size = share.sum(axis=1)
    base = share[:, 1] / size
    d = 0.25 * rate[:, 1].min()
    changed = rate.copy()
    if boundary == "unfairness":
        fall = np.full(len(rate), d)
    elif boundary == "an improvement":
        fall = np.linspace(1.5, 2.8, len(rate)) * d
    elif boundary == "a small improvement":
        fall = np.linspace(0.7, 1.4, len(rate)) * d
    else:
        e, f = (0.2 * d, 2 * d) if boundary == "accuracy" else (-0.5 * d, 0.5 * d)
        changed[0] += e * np.array([base[0] / (1 - base[0]), 1.0])
        changed[1, 1] -= f
        changed[1, 0] += (base[1] * f - size[0] / size[1] * 2 * base[0] * e) / (1 - base[1])
        fall = np.zeros(len(rate))
    changed[:, 1] -= fall
    changed[:, 0] += fall * base / (1 - base)
    if not ((changed > 0) & (changed < 1)).all():
        raise ValueError(f"{boundary}: no status quo with these rates: {changed.tolist()}")
    return changed


@dataclass(frozen=True)
class Fitted:
    """A rule and the status quo with which it is compared."""

    rule: str
    boundary: str
    rows: int = 1_000
    groups: int = 2
    capacity: float = 0.2

    def facing(self, columns: Columns, noise: FloatArray) -> Columns:
        """These people with the score of the status quo, ordered by the noise within each group and outcome."""
        rate, share = reached(self.rule, self.rows * 4 // 5, self.groups, self.capacity)
        chance = status_quo(self.boundary, rate, share)[columns["g"], columns["y"]]
        return columns | {"s0": ndtri(chance) + noise}

    def draw(self, rng: np.random.Generator) -> Columns:
        """One table."""
        return self.facing(people(rng, self.rows, self.groups), rng.normal(size=self.rows))

    def ask(self, columns: Columns, rng: np.random.Generator, **how: Any) -> Any:
        """The test on one table."""
        return iso.improvability(
            columns,
            outcome="y",
            groups="g",
            status_quo="s0",
            capacity=self.capacity,
            accuracy="accuracy",
            fairness="tpr",
            features=FEATURES,
            rng=rng,
            **{"rule": Once(self.rule)} | how,
        )

    def all_procedures(self, rng: np.random.Generator) -> list[float]:
        """Rejections of one split, 2 x median of 7, the merge of 7, and cross-fitting."""
        columns = self.draw(rng)
        splits, crossfit = self.ask(columns, rng, method=SPLITS), self.ask(columns, rng)
        doubled = float(combined(splits.round_pvalues, "median"))
        return [float(rejected(p)) for p in (splits.round_pvalues[0], doubled, splits.pvalue, crossfit.pvalue)]

    def reruns(self, rng: np.random.Generator) -> list[float]:
        """Twenty seeds on one table: the share that agrees with the majority, and whether any rejects."""
        columns = self.draw(rng)
        each = []
        for seed in rng.integers(2**31, size=20):
            splits, crossfit = (
                self.ask(columns, np.random.default_rng(seed), **how) for how in ({"method": SPLITS}, {})
            )
            doubled = float(combined(splits.round_pvalues, "median"))
            each.append([rejected(p) for p in (splits.round_pvalues[0], doubled, splits.pvalue, crossfit.pvalue)])
        share = np.mean(each, axis=0)
        return [*np.maximum(share, 1 - share), *(share > 0)]


def crossfits(lines: Sequence[Fitted], rng: np.random.Generator) -> list[float]:
    """For each line, whether cross-fitting rejects, and the largest difference of a share selected from the capacity.

    The lines share people, folds and fits. A fit does not depend on the status quo. Neither does the order of rows,
    from which folds are drawn, because these scores have the same order in every group and outcome.
    """
    rule, seed = Once(lines[0].rule), int(rng.integers(2**31))
    columns, noise = people(rng, lines[0].rows, lines[0].groups), rng.normal(size=lines[0].rows)
    numbers = []
    for line in lines:
        result = line.ask(line.facing(columns, noise), np.random.default_rng(seed), rule=rule)
        numbers += [float(rejected(result.pvalue)), apart(result, line.capacity)]
    if len(rule.values) > 2 * FITS:
        raise ValueError(f"{lines}: more than the {FITS} fits that they should share")
    return numbers


def shares_too(outcomes: FloatArray) -> list[Any]:
    """For each line, the share of rejections and the largest difference of a share selected from the capacity."""
    pairs = zip(outcomes[:, ::2].T, outcomes[:, 1::2].T, strict=True)
    return [value for rejections, apart in pairs for value in (float(rejections.mean()), f"{apart.max():.0e}")]


STABLE = ("linear", "LASSO", "forest", "boosting", "nearest neighbours")
FITS = 16  # five folds, three times, and once on all rows if an alternative is recommended
RULE_NULLS = (  # each entry: lines that share their fits
    *(tuple(Fitted(rule, boundary) for boundary in ("unfairness", "accuracy", "both")) for rule in STABLE),
    *((Fitted(rule, "unfairness", 2_000, 3),) for rule in STABLE),
    *((Fitted(rule, "unfairness", 3_000, 6),) for rule in STABLE),
    *(tuple(Fitted(rule, "unfairness", 2_000, 2, capacity) for capacity in (0.03, 0.1)) for rule in STABLE),
    tuple(Fitted("full tree", boundary) for boundary in ("unfairness", "accuracy")),
)
POWER = (
    Fitted("linear", "unfairness"),
    Fitted("nearest neighbours", "unfairness"),
    Fitted("linear", "an improvement"),
    Fitted("linear", "a small improvement", 4_000),
)
RERUN = (POWER[0], POWER[2], Fitted("linear", "an improvement", 2_000, 3))
PROCEDURES = ("one split", "2 x median of 7", "exchangeable merge of 7", "cross-fit")
SIZE, LEAST = at_most(0.05), Asked(0.8, "least", exact=True)

NULL, ALTERNATIVE = "null, boundary", "alternative"
NAIVE = "equal unfairness, {} groups, ties, bootstrap of the largest gap (fairness alone)"
PAGE = Page(
    "alternatives/simulations",
    (
        Section(
            "Size and power",
            ("design", "truth"),
            ("K = 1", "K = 7"),
            (
                *(line(name, NULL, at_most(0.05), design.ask) for name, design in NULLS.items()),
                *(line(name, NULL, None, design.ask) for name, design in PAPER.items()),
                *(
                    line(name, ALTERNATIVE, Asked(0.8, "least", exact=True), design.ask)
                    for name, design in BETTER.items()
                ),
                *(
                    Run((Line((NAIVE.format(k), NULL)),), each(partial(largest_gap, groups=k)), TABLES, with_one_round)
                    for k in (3, 6)
                ),
            ),
        ),
        Section(
            "Ready candidates on all rows",
            ("design", "truth"),
            ("rejected",),
            (
                *(Run((Line((n, NULL), (SIZE,)),), each(d.ask_all_rows), TABLES) for n, d in (NULLS | CUTS).items()),
                *(Run((Line((n, ALTERNATIVE), (LEAST,)),), each(d.ask_all_rows), TABLES) for n, d in BETTER.items()),
            ),
        ),
        Section(
            "Scores cut at a capacity, on all rows",
            ("design", "capacity", "rows"),
            ("rejected", "largest difference of a share selected"),
            tuple(
                Run(
                    (Line((design, f"{capacity:g}", f"{rows:,}"), (SIZE,)),),
                    each(partial(at_capacity, design=design, capacity=capacity, rows=rows)),
                    TABLES,
                    shares_too,
                )
                for design in ("equal_accuracy", "equal_unfairness")
                for capacity, rows in ((0.03, 20_000), (0.1, 10_000), (0.2, 5_000))
            ),
        ),
        Section(
            "Rules, cross-fitted",
            ("rule", "boundary of", "rows", "groups", "capacity"),
            ("rejected", "largest difference of a share selected"),
            tuple(
                Run(
                    tuple(
                        Line((f.rule, f.boundary, f"{f.rows:,}", str(f.groups), f"{f.capacity:g}"), (SIZE,))
                        for f in lines
                    ),
                    each(partial(crossfits, lines)),
                    TABLES,
                    shares_too,
                )
                for lines in RULE_NULLS
            ),
        ),
        Section(
            "Procedures side by side",
            ("rule", "status quo", "rows"),
            PROCEDURES,
            tuple(Run((Line((f.rule, f.boundary, f"{f.rows:,}")),), each(f.all_procedures), TABLES) for f in POWER),
        ),
        Section(
            "Twenty seeds on one table",
            ("rule", "status quo", "rows", "groups", "share"),
            PROCEDURES,
            tuple(
                Run(
                    tuple(
                        Line((f.rule, f.boundary, f"{f.rows:,}", str(f.groups), share))
                        for share in ("of seeds that agree with most", "of tables on which one of 20 rejects")
                    ),
                    each(f.reruns),
                    100,
                )
                for f in RERUN
            ),
        ),
        Section(
            "Analysts who re-run the test until it rejects",
            ("re-runs", "correlation"),
            ("one split", "median of 7"),
            tuple(
                Run(
                    (Line((str(times), f"{correlation:.1f}"), (None, at_most(0.05))),),
                    partial(reruns, times=times, correlation=correlation),
                    10_000,
                )
                for correlation in (0.0, 0.5, 0.9)
                for times in (1, 10, 50)
            ),
        ),
    ),
)


if __name__ == "__main__":
    main(PAGE)
