"""Size and coverage for groups known only by probability (`iso.proxy`), in a simulated state of names and places.

python -m studies.proxies [--tables N] [--only TEXT]        writes docs/groups/proxies_simulations.md

The state has 400 places and 600 surnames with unequal shares of five groups. A person's name and place are independent
given the group, and the probabilities are Bayes' rule, exactly. An outcome of 0 or 1 has the mean 0.6 plus an effect of
the group, of the place's share of group B, and of the name's share of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

import isonomy as iso
from isonomy.numerics.arrays import FloatArray
from studies.lines import Asked, Line, Page, Run, Section, at_most, main, nominal

TABLES = 1_000
GROUPS = ("A", "B", "C", "D", "Other")
SHARES = np.array([0.62, 0.21, 0.11, 0.04, 0.02])
COLUMNS = {group: f"p_{group}" for group in GROUPS}
PLACES, NAMES = 400, 600
LEAST = Asked(0.95, "least")


@dataclass(frozen=True)
class World:
    """What the mean outcome depends on: the group B, its share of the place, its share of the name; and of group C."""

    group: float = 0.0
    place: float = 0.0
    name: float = 0.0


WORLDS = {
    "nothing": World(),
    "group": World(group=-0.10),
    "place and name": World(place=-0.20, name=-0.12),
    "group and place": World(group=-0.08, place=-0.15),
    "group, place and name": World(group=-0.05, place=-0.10, name=-0.08),
    "group against place": World(group=-0.10, place=0.15),
}


@cache
def state() -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """P(place | group), P(name | group), and the share of group B in each place and name."""
    rng = np.random.default_rng(31)
    place = rng.dirichlet(2.0 * SHARES, PLACES) * rng.gamma(1.0, 1.0, PLACES)[:, None]
    # Names say little about B, and much about C and D; those of "Other" are everybody's.
    names = rng.dirichlet(np.array([0.62, 0.21, 0.05, 0.02, 0.10]) * 4.0, NAMES) * rng.gamma(0.4, 1.0, NAMES)[:, None]
    names[:60] = names[:60] * 0.05 + rng.gamma(0.4, 0.5, 60)[:, None] * np.array([0.05, 0.02, 0.9, 0.02, 0.01])
    names[60:90] = names[60:90] * 0.05 + rng.gamma(0.4, 0.4, 30)[:, None] * np.array([0.05, 0.02, 0.02, 0.9, 0.01])
    by_place, by_name = place / place.sum(0), names / names.sum(0)
    shares = [(given * SHARES)[:, 1] / (given * SHARES).sum(1) for given in (by_place, by_name)]
    return by_place, by_name, shares[0], shares[1]


def truth(world: World) -> float:
    """The mean of B less that of A."""
    by_place, by_name, in_place, in_name = state()
    gaps = [(given[:, 1] - given[:, 0]) @ share for given, share in ((by_place, in_place), (by_name, in_name))]
    return float(world.group + world.place * gaps[0] + world.name * gaps[1])


def people(
    rng: np.random.Generator, rows: int, world: World, *, shares: FloatArray = SHARES, power: float = 1.0
) -> dict[str, Any]:
    """A table; ``shares`` are those of the applicants, and ``power`` makes probabilities too bold or too timid."""
    by_place, by_name, in_place, in_name = state()
    group = rng.choice(len(GROUPS), rows, p=shares)
    place, name = np.empty(rows, dtype=int), np.empty(rows, dtype=int)
    for k in range(len(GROUPS)):
        members = np.flatnonzero(group == k)
        place[members] = rng.choice(PLACES, members.size, p=by_place[:, k])
        name[members] = rng.choice(NAMES, members.size, p=by_name[:, k])
    p = (by_place[place] * by_name[name] * SHARES) ** power
    p /= p.sum(1, keepdims=True)
    mean = 0.6 + world.group * (group == 1)
    mean += world.place * (in_place[place] - SHARES @ (by_place.T @ in_place))
    mean += world.name * (in_name[name] - SHARES @ (by_name.T @ in_name))
    columns: dict[str, Any] = {column: p[:, k] for k, column in enumerate(COLUMNS.values())}
    columns |= {"group": group, "place": place, "mean": mean, "y": (rng.random(rows) < mean).astype(np.int8)}
    return columns


def ask(columns: dict[str, Any], **options: Any) -> iso.FlagResult:
    groups = iso.proxy("g", COLUMNS, **options.pop("proxy", {}))
    options = {"metric": "selection_rate", "prediction": "y", "reference": {"g": "A"}, "adjust": "none"} | options
    return iso.flag(pl.DataFrame(columns), groups=groups, **options)


def covers(result: iso.FlagResult, value: float) -> float:
    """Whether the interval of B covers the truth; 1 if B was not tested, which decides nothing."""
    low, high = result.ci_low[1], result.ci_high[1]
    return float(np.isnan(low) or low <= value <= high)


def at_share(result: iso.FlagResult, share: float, value: float) -> float:
    assert result.curves is not None
    _, low, high, _ = result.curves[:, result.gammas.index(share), 1]
    return float(np.isnan(low) or low <= value <= high)


def assumptions(rng: np.random.Generator, tables: int, world: str, rows: int) -> npt.ArrayLike:
    """Whether each assumption's interval covers the truth, and whether the bracket shows a difference."""
    made, value, outcomes = WORLDS[world], truth(WORLDS[world]), []
    for _ in range(tables):
        table = people(rng, rows, made)
        bracket = ask(table)
        names = ask(table, proxy={"assume": "names", "place": "place"})
        parts = [at_share(bracket, share, value) for share in (0.0, 1.0)]
        shown = float(bracket.pvalue[1] <= 0.05)
        outcomes.append([*parts, covers(bracket, value), covers(names, value), shown])
    return np.array(outcomes)


def several(
    rng: np.random.Generator, tables: int, groups: int, share: float, rows: int, sharp: float, power: float
) -> npt.ArrayLike:
    """No difference at all: whether the bracket shows one, and whether it was tested; then coverage in a mixture."""
    alpha = np.append(share, np.full(groups - 1, (1.0 - share) / (groups - 1))) * sharp
    outcomes = []
    for _ in range(tables):
        p = rng.dirichlet(alpha, rows)
        group = (p.cumsum(1) < rng.random((rows, 1))).sum(1).clip(0, groups - 1)
        stated = p**power / (p**power).sum(1, keepdims=True)
        line: list[float] = []
        for effect in (0.0, 0.12):
            mean = 0.5 - effect * (group == 0) - effect * (p[:, 0] - share)
            columns = {f"p{k}": stated[:, k] for k in range(groups)} | {"y": (rng.random(rows) < mean).astype(np.int8)}
            named = iso.proxy("g", {str(k): f"p{k}" for k in range(groups)})
            options: dict[str, Any] = {"metric": "selection_rate", "prediction": "y", "groups": named, "adjust": "none"}
            result = iso.flag(pl.DataFrame(columns), reference={"g": "1"}, **options)
            mixed = share * (share * alpha.sum() + 1) / (alpha.sum() + 1) if effect else 0.0  # E[p p]
            other = share * alpha[1] / (alpha.sum() + 1) / (alpha[1] / alpha.sum()) if effect else 0.0
            value = -effect - effect * (mixed / share - other) if effect else 0.0
            low, high = result.ci_low[0], result.ci_high[0]
            line += [float(result.pvalue[0] <= 0.05), float(np.isnan(low) or low <= value <= high)]
        outcomes.append([line[0], line[3]])
    return np.array(outcomes)


def edge(rng: np.random.Generator, tables: int, world: str, rows: int) -> npt.ArrayLike:
    """The truth is the tolerance: whether each assumption says *violation*, and whether it says *within*."""
    made = WORLDS[world]
    tolerance, outcomes = abs(truth(made)), []
    for _ in range(tables):
        table = people(rng, rows, made)
        line = []
        for assume in ("bracket", "weighted", "linear"):
            verdict = ask(table, proxy={"assume": assume}, tolerance=tolerance).verdicts[1]
            line += [verdict is iso.Verdict.VIOLATION, verdict is iso.Verdict.WITHIN_TOLERANCE]
        outcomes.append(line)
    return np.array(outcomes, dtype=float)


def misfit(rng: np.random.Generator, tables: int, rows: int, power: float, fewer: float) -> npt.ArrayLike:
    """Probabilities that are not calibrated, and no difference: whether the bracket shows one."""
    shares = SHARES * np.array([1.0, fewer, fewer, 1.0, 1.0])
    outcomes = []
    for _ in range(tables):
        table = people(rng, rows, World(), shares=shares / shares.sum(), power=power)
        outcomes.append(float(ask(table).pvalue[1] <= 0.05))
    return np.array(outcomes)


def corrected(
    rng: np.random.Generator, tables: int, known: int, rows: int, metric: str, design: str, power: float
) -> npt.ArrayLike:
    """Whether the validated interval covers the truth, with conditions, weights and clusters."""
    made, outcomes = WORLDS["group, place and name"], []
    labels = np.array(GROUPS, dtype=object)
    value = truth(made)
    for _ in range(tables):
        table = people(rng, rows, made, power=power)
        group, options = table["group"], dict[str, Any](metric=metric)
        if metric == "tpr":  # the condition depends on the group, the decision within it has the same mean
            table["v"] = (rng.random(rows) < np.where(group == 1, 0.4, 0.6)).astype(np.int8)
            options["outcome"] = "v"
        if "weight" in design:
            table["w"] = rng.uniform(0.5, 2.0, rows)
            options["weight"] = "w"
        if "cluster" in design:  # people appear twice: the same row again
            table = {name: np.repeat(values[: rows // 2], 2) for name, values in table.items()}
            table["person"] = np.repeat(np.arange(rows // 2), 2)
            options["cluster"] = "person"
        size = len(table["y"])
        person = table.get("person", np.arange(size))
        chosen = np.isin(person, rng.choice(int(person.max()) + 1, known, replace=False))
        text = labels[table.pop("group")]
        text[~chosen] = None
        table["known"] = pl.Series(text.tolist(), dtype=pl.String)
        outcomes.append(covers(ask(table, proxy={"known": "known", "known_rows": "random"}, **options), value))
    return np.array(outcomes)


_HOLDS = {  # weighted, linear, bracket, names
    "nothing": (nominal(0.95), nominal(0.95), LEAST, nominal(0.95)),
    "group": (None, nominal(0.95), LEAST, nominal(0.95)),
    "place and name": (nominal(0.95), None, LEAST, None),
    "group and place": (None, None, LEAST, nominal(0.95)),
    "group, place and name": (None, None, LEAST, None),
    "group against place": (None, None, None, nominal(0.95)),
}
_SIZES = (
    (2, 0.60, 500, 1.0, 1.0),
    (2, 0.30, 500, 8.0, 1.0),
    (2, 0.02, 5_000, 3.0, 1.0),
    (2, 0.02, 50_000, 3.0, 1.0),
    (3, 0.20, 500, 1.0, 1.0),
    (3, 0.20, 5_000, 8.0, 1.6),
    (5, 0.12, 500, 5.0, 1.0),
    (5, 0.12, 5_000, 5.0, 0.6),
    (6, 0.25, 500, 5.0, 1.0),
    (6, 0.02, 5_000, 3.0, 1.0),
)
_CORRECTED = (
    (500, "selection_rate", "rows", 1.0),
    (500, "selection_rate", "rows", 1.6),
    (500, "selection_rate", "weight", 1.0),
    (500, "selection_rate", "cluster", 1.0),
    (1_000, "tpr", "rows", 1.0),
    (1_000, "tpr", "weight and cluster", 1.0),
)

PAGE = Page(
    "groups/proxies_simulations",
    (
        Section(
            "Coverage of B less A by what the outcome depends on, nominal 0.95",
            ("outcome depends on", "rows"),
            ("weighted", "linear", "bracket", "names", "bracket shows a difference"),
            tuple(
                Run(
                    (Line((world, f"{n:,}"), (*_HOLDS[world], at_most(0.05) if world == "nothing" else None)),),
                    partial(assumptions, world=world, rows=n),
                    TABLES,
                )
                for n in (1_000, 5_000)
                for world in WORLDS
            ),
        ),
        Section(
            "Numbers of groups: size of no difference, and coverage of the bracket in a mixture (calibrated only)",
            ("groups", "share", "rows", "sum of the Dirichlet parameters", "power of the probabilities"),
            ("size", "bracket covers"),
            tuple(
                Run(
                    (
                        Line(
                            (str(groups), f"{share:g}", f"{n:,}", f"{sharp:g}", f"{power:g}"),
                            (at_most(0.05), LEAST if power == 1 else None),
                        ),
                    ),
                    partial(several, groups=groups, share=share, rows=n, sharp=sharp, power=power),
                    TABLES,
                )
                for groups, share, n, sharp, power in _SIZES
            ),
        ),
        Section(
            "At the tolerance: how often a verdict is false",
            ("outcome depends on", "rows"),
            (
                *("bracket: violation", "bracket: within", "weighted: violation", "weighted: within"),
                *("linear: violation", "linear: within"),
            ),
            tuple(
                Run(
                    (
                        Line(
                            (world, "5,000"),
                            (
                                *(at_most(0.05), at_most(0.05), at_most(0.05), Asked(0.0, "most", exact=True)),
                                *(at_most(0.05), at_most(0.05)),
                            ),
                        ),
                    ),
                    partial(edge, world=world, rows=5_000),
                    TABLES,
                )
                for world in ("group", "place and name", "group, place and name")
            ),
        ),
        Section(
            "Probabilities that are not calibrated: size of no difference",
            ("power of the probabilities", "B and C apply", "rows"),
            ("size",),
            tuple(
                Run(
                    (Line((f"{power:g}", f"{fewer:g} times as often", "5,000"), (at_most(0.05),)),),
                    partial(misfit, rows=5_000, power=power, fewer=fewer),
                    TABLES,
                )
                for power, fewer in ((1.6, 1.0), (0.6, 1.0), (1.0, 0.5))
            ),
        ),
        Section(
            "Known rows as a correction: coverage of the validated interval, nominal 0.95",
            ("known", "metric", "design", "power of the probabilities"),
            ("covered",),
            tuple(
                Run(
                    (Line((f"{known:,} of 10,000", metric, design, f"{power:g}"), (nominal(0.95),)),),
                    partial(corrected, known=known, rows=10_000, metric=metric, design=design, power=power),
                    TABLES,
                )
                for known, metric, design, power in _CORRECTED
            ),
        ),
    ),
)


if __name__ == "__main__":
    main(PAGE)
