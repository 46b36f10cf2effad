"""Size and coverage for groups known only by probability (`iso.proxy`), in a simulated state of names and places.

python -m studies.proxies [--tables N] [--only TEXT]        writes docs/groups/proxies_simulations.md

The state has 400 places and 600 surnames with unequal shares of five groups. A person's name and place are independent
given the group, and the probabilities are Bayes' rule, exactly. An outcome of 0 or 1 has the mean 0.6 plus an effect of
the group, of the place's share of group B, and of the name's share of it.

The estimates of most tables come from the program in this file, written from the formulas with numpy. The first of
every 25 tables is also given to `iso.flag` or `iso.adverse_impact`, and the study stops if the answers differ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
from scipy import sparse, stats

import isonomy as iso
from isonomy.numerics.arrays import FloatArray, IntArray
from studies.lines import Asked, Line, Page, Run, Section, at_most, main, nominal

TABLES = 1_000
ALPHA, LEAST_SIZE, LEAST_DF, LEAST_KNOWN = 0.05, 10, 9, 20
GRID = (0.0, 0.25, 0.5, 0.75, 1.0)
GROUPS = ("A", "B", "C", "D", "Other")
SHARES = np.array([0.62, 0.21, 0.11, 0.04, 0.02])
PLACES, NAMES = 400, 600
LEAST = Asked(0.95, "least")
POPULATION = -1
Rng = np.random.Generator


# ---- the estimates, from the formulas


@dataclass(frozen=True)
class Table:
    """Probabilities p, condition v, value y, weight w, and the codes of clusters, places and known groups (-1: not)."""

    p: FloatArray
    y: FloatArray
    v: FloatArray | None = None
    w: FloatArray | None = None
    cluster: IntArray | None = None
    place: IntArray | None = None
    known: IntArray | None = None

    @property
    def inside(self) -> FloatArray:
        return np.ones(len(self.y)) if self.v is None else self.v

    @property
    def mass(self) -> FloatArray:
        return np.full(len(self.y), 1.0 / len(self.y)) if self.w is None else self.w / self.w.sum()

    def ask(self, reference: int = 0, question: Callable[..., Any] = iso.flag, **options: Any) -> Any:
        """The library's answer about the same table."""
        labels = [str(k) for k in range(self.p.shape[1])]
        columns: dict[str, Any] = {f"p{k}": self.p[:, int(k)] for k in labels} | {"y": self.y.astype(np.int8)}
        roles: dict[str, Any] = {"prediction": "y", "adjust": "none"}
        if question is iso.flag:
            roles["metric"] = "selection_rate" if self.v is None else "tpr"
        for name, values, role in (("v", self.v, "outcome"), ("w", self.w, "weight"), ("c", self.cluster, "cluster")):
            if values is not None:
                columns[name], roles[role] = values.astype(float if name == "w" else np.int64), name
        given = {"assume": options.pop("assume", None)}
        if given["assume"] == "names":
            columns["place"], given["place"] = self.place, "place"
        if self.known is not None:
            text = [labels[k] if k >= 0 else None for k in self.known]
            columns["known"] = pl.Series(text, dtype=pl.String)
            given |= {"known": "known", "known_rows": "random"}
        groups = iso.proxy("g", {k: f"p{k}" for k in labels}, **given)
        against: Any = "population" if reference == POPULATION else {"g": labels[reference]}
        return question(pl.DataFrame(columns), groups=groups, reference=against, **(roles | options))


@dataclass(frozen=True)
class Contrast:
    """A group's mean and its reference's at each point of an assumption, with variances, and whether it is tested."""

    means: FloatArray  # points x 2
    variances: FloatArray  # points x 3: of the group, of the reference, of the difference
    df: FloatArray
    tested: bool

    @property
    def difference(self) -> FloatArray:
        return self.means[:, 0] - self.means[:, 1]

    @property
    def interval(self) -> tuple[float, float]:
        reach = stats.t.isf(ALPHA / 2, self.df) * np.sqrt(self.variances[:, 2])
        return float((self.difference - reach).min()), float((self.difference + reach).max())

    def pvalue(self, tolerance: float = 0.0) -> float:
        error, size = np.sqrt(self.variances[:, 2]), np.abs(self.difference)
        if np.ptp(np.sign(self.difference)):
            return 1.0
        tails = stats.t.sf((size - tolerance) / error, self.df) + stats.t.sf((size + tolerance) / error, self.df)
        return float(np.max(np.minimum(tails, 1.0)))

    def below(self, ratio: float, side: float = 1.0) -> float:
        """The p-value of a ratio of at least ``ratio``; with side -1, of at most."""
        top, bottom, both = self.variances.T
        covariance = 0.5 * (top + bottom - both)
        variance = top - 2 * ratio * covariance + ratio**2 * bottom
        distance = side * (ratio * self.means[:, 1] - self.means[:, 0])
        return float(np.max(stats.t.sf(distance / np.sqrt(variance), self.df)))

    def at(self, point: int) -> Contrast:
        """One point of an assumption that is tested."""
        one = slice(point, point + 1)
        return Contrast(self.means[one], self.variances[one], self.df[one], self.tested)

    def covers(self, value: float) -> float:
        """Whether the interval holds the true difference; 1 if there is no interval."""
        low, high = self.interval
        return float(not self.tested or low <= value <= high)

    def covers_ratio(self, value: float) -> float:
        """Whether Fieller's limits of some point hold the true ratio."""
        top, bottom, both = self.variances.T
        variance = top - value * (top + bottom - both) + value**2 * bottom
        distance = np.abs(self.means[:, 0] - value * self.means[:, 1])
        return float(not self.tested or bool((distance <= stats.t.isf(ALPHA / 2, self.df) * np.sqrt(variance)).any()))

    def shows(self) -> float:
        return float(self.tested and self.pvalue() <= ALPHA)

    def verdict(self, tolerance: float, *, violation: bool = True, within: bool = True) -> list[float]:
        """Whether it says *violation* and *within tolerance*, as far as the assumption may."""
        low, high = self.interval
        beyond = violation and self.tested and self.pvalue(tolerance) <= ALPHA
        return [float(beyond), float(within and self.tested and -tolerance <= low and high <= tolerance)]

    def agrees(self, result: Any, group: int) -> None:
        """Stop unless the library gives the same interval and p-value."""
        expected = [*self.interval, self.pvalue()] if self.tested else [np.nan] * 3
        answer = [result.ci_low[group], result.ci_high[group], result.pvalue[group]]
        np.testing.assert_allclose(answer, expected, rtol=1e-6, atol=1e-8)


def contrast(table: Table, points: list[tuple[FloatArray, FloatArray, FloatArray]], *, tested: bool) -> Contrast:
    """From the means and the influences of rows (or of places) on each, with the weight of a unit."""
    means, variances, df = [], [], []
    for mean, influence, mass in points:
        units = influence * mass
        if table.cluster is not None and units.shape[1] == len(table.cluster):
            units = np.array([np.bincount(table.cluster, line) for line in units])
        gap = (units[0] - units[1]) ** 2
        square = np.array([units[0] @ units[0], units[1] @ units[1], gap.sum()])
        means.append(mean)
        variances.append(square * gap.size / (gap.size - 1))
        df.append(square[2] ** 2 / (gap @ gap) - 1)
    return Contrast(np.array(means), np.array(variances), np.array(df), tested and min(df) >= LEAST_DF)


def everybody(table: Table) -> tuple[float, FloatArray]:
    inside = float(table.mass @ table.inside)
    mean = float(table.mass @ (table.inside * table.y)) / inside
    return mean, table.inside * (table.y - mean) / inside


def family(table: Table, group: int, reference: int = 0, shares: tuple[float, ...] = GRID) -> Contrast:
    """nu = G^-1 E[p v y], delta = G^-1 E[p v], G = (1 - share) diag(pi) + share M; a mean is nu / delta."""
    p, v, rows = table.p, table.inside, len(table.y)
    weighted = p * table.mass[:, None]
    pi, cross, points, tested = weighted.sum(0), weighted.T @ p, [], True
    for share in shares:
        inverse = np.linalg.inv((1 - share) * np.diag(pi) + share * cross)
        values = (table.y,) if table.v is None else (v * table.y, v)
        slopes = [(part, inverse @ (weighted.T @ part)) for part in values]
        means, influences = np.empty(2), np.empty((2, rows))
        for place, k in enumerate((group, reference)):
            if k == POPULATION:
                means[place], influences[place] = everybody(table)
                continue
            lines = [
                (p @ inverse[k]) * (part - share * (p @ slope)) - (1 - share) * (p @ (inverse[k] * slope))
                for part, slope in slopes
            ]
            means[place], influences[place] = slopes[0][1][k], lines[0]
            if len(slopes) > 1:
                means[place] /= slopes[1][1][k]
                influences[place] = (lines[0] - means[place] * lines[1]) / slopes[1][1][k]
            tested &= bool(rows * weighted[:, k] @ v >= LEAST_SIZE)
            tested &= share < shares[-1] or bool(rows / inverse[k, k] >= LEAST_SIZE)
        points.append((means, influences, table.mass))
    return contrast(table, points, tested=tested)


def names(table: Table, group: int, reference: int = 0) -> Contrast:
    """A regression within places, with errors between places."""
    p, places = table.p, table.place
    assert places is not None
    size, codes = p.shape[1], np.unique(places, return_inverse=True)[1]
    units: Any = sparse.csr_array((table.mass, (codes, np.arange(len(codes)))))
    s, n = units @ p, units @ np.ones(len(codes))
    cross = (units @ (p[:, :, None] * p[:, None, :]).reshape(len(codes), -1)).reshape(-1, size, size)
    pi, whole = s.sum(0), cross.sum(0)
    within = cross - s[:, :, None] * s[:, None, :] / n[:, None, None]
    inverse, parts = np.linalg.pinv(within.sum(0), rcond=1e-8, hermitian=True), []
    for part in (table.inside * table.y, table.inside):
        total, product = units @ part, units @ (p * part[:, None])
        away = product - s * (total / n)[:, None]
        slope = inverse @ away.sum(0)
        mean = slope + (product.sum(0) - whole @ slope) / pi
        pull = (away - within @ slope) @ inverse
        parts.append((mean, (product - cross @ slope - (mean - slope) * s) / pi + pull - pull @ whole.T / pi))
    (top, over), (bottom, under) = parts
    mean = top / bottom
    influence = ((over - mean * under) / bottom).T
    pair = [group, reference]
    small = len(codes) * np.array([table.mass @ (p[:, k] * table.inside) for k in pair]) < LEAST_SIZE
    rows = table.mass[:, None] * p
    weak = len(codes) / np.diag(np.linalg.inv(rows.T @ p))[pair] < LEAST_SIZE
    point = mean[pair], influence[pair], np.ones(influence.shape[1])
    return contrast(Table(p, table.y), [point], tested=not (small.any() or weak.any()))


def validated(table: Table, group: int, reference: int = 0) -> Contrast:
    """E_s[1 v y] + factor (E[p v y] - E_s[p v y]) over the same with v; s: the known rows."""
    known, w, v, y = table.known, table.mass, table.inside, table.y
    assert known is not None
    means, influences, tested = np.empty(2), np.empty((2, len(y))), True
    sample = w * (known >= 0) / w[known >= 0].sum()
    for place, k in enumerate((group, reference)):
        member, p = (known == k).astype(float), table.p[:, k]
        first = v * (y - (sample @ (member * v * y)) / (sample @ (member * v)))
        mine, stated = member * first, p * first
        spread = sample @ stated**2 - (sample @ stated) ** 2
        factor = np.clip((sample @ (mine * stated) - (sample @ mine) * (sample @ stated)) / spread, 0.0, 1.0)
        top, bottom = (sample @ (member * part) + factor * ((w - sample) @ (p * part)) for part in (v * y, v))
        means[place], e = top / bottom, v * (y - top / bottom)
        seen = (member - factor * p) * e
        correction = np.where(known >= 0, (seen - sample @ seen) / w[known >= 0].sum(), 0.0)
        influences[place] = (factor * (p * e - w @ (p * e)) + correction) / bottom
        tested &= bool(member.sum() >= LEAST_KNOWN and len(y) * (w @ (p * v)) >= LEAST_SIZE)
    return contrast(table, [(means, influences, w)], tested=tested)


# ---- the state


@dataclass(frozen=True)
class World:
    """What the mean outcome depends on: the group B, its share of the place, its share of the name."""

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


def truth(world: World, group: int = 1) -> float:
    """The mean of a group less that of A."""
    by_place, by_name, in_place, in_name = state()
    gaps = [(given[:, group] - given[:, 0]) @ share for given, share in ((by_place, in_place), (by_name, in_name))]
    return float(world.group * (group == 1) + world.place * gaps[0] + world.name * gaps[1])


@dataclass(frozen=True)
class People:
    group: IntArray
    place: IntArray
    in_place: FloatArray  # the share of B in the place, less its mean
    in_name: FloatArray
    p: FloatArray

    def mean(self, world: World, start: float = 0.6) -> FloatArray:
        effect = world.group * (self.group == 1) + world.place * self.in_place + world.name * self.in_name
        return np.asarray(start + effect)

    def draw(self, rng: Rng, world: World, start: float = 0.6) -> FloatArray:
        return (rng.random(len(self.group)) < self.mean(world, start)).astype(float)

    def table(self, rng: Rng, world: World, start: float = 0.6, **more: Any) -> Table:
        return Table(self.p, self.draw(rng, world, start), place=self.place, **more)


def people(
    rng: Rng, rows: int, *, shares: FloatArray = SHARES, power: float = 1.0, places: IntArray | None = None
) -> People:
    """``shares`` are those of the applicants, and ``power`` makes probabilities too bold or too timid; ``places``: a
    sample of those of the state, in place of all of them."""
    by_place, by_name, in_place, in_name = state()
    if places is not None:
        by_place, in_place = by_place[places] / by_place[places].sum(0), in_place[places]
    group = rng.choice(len(GROUPS), rows, p=shares)
    place, name = np.empty(rows, dtype=int), np.empty(rows, dtype=int)
    for k in range(len(GROUPS)):
        members = np.flatnonzero(group == k)
        place[members] = rng.choice(PLACES, members.size, p=by_place[:, k])
        name[members] = rng.choice(NAMES, members.size, p=by_name[:, k])
    p = (by_place[place] * by_name[name] * SHARES) ** power
    away = [
        values[at] - SHARES @ (given.T @ values)
        for values, at, given in ((in_place, place, by_place), (in_name, name, by_name))
    ]
    return People(group, place, away[0], away[1], p / p.sum(1, keepdims=True))


# ---- the lines


def assumptions(rng: Rng, tables: int, world: str, rows: int) -> npt.ArrayLike:
    """Whether each assumption's interval of B less A covers the truth; the bracket of C less A; differences shown."""
    made, outcomes = WORLDS[world], []
    value, of_c = truth(made), truth(made, 2)
    for i in range(tables):
        table = people(rng, rows).table(rng, made)
        bracket, by_place, third = family(table, 1), names(table, 1), family(table, 2)
        points = zip((0.0, 1.0), (0, len(GRID) - 1), strict=True)
        ends = [bracket.at(k) if bracket.tested else family(table, 1, shares=(share,)) for share, k in points]
        if not i:
            answer = table.ask()
            bracket.agrees(answer, 1)
            third.agrees(answer, 2)
            by_place.agrees(table.ask(assume="names"), 1)
            for share, end in enumerate(ends):
                end.agrees(table.ask(assume=float(share)), 1)
        covered = [part.covers(value) for part in (*ends, bracket, by_place)]
        outcomes.append([*covered, third.covers(of_c), bracket.shows()])
    return np.array(outcomes)


def within_places(rng: Rng, tables: int, world: str, rows: int, anew: bool) -> npt.ArrayLike:
    """Names within places: coverage, the estimate and its standard error; places stay, or are drawn for each table."""
    made, outcomes = WORLDS[world], []
    for i in range(tables):
        places = rng.integers(0, PLACES, PLACES) if anew else None
        table = people(rng, rows, places=places).table(rng, made)
        answer = names(table, 1)
        if not i:
            answer.agrees(table.ask(assume="names"), 1)
        outcomes.append([answer.covers(truth(made)), answer.difference[0], np.sqrt(answer.variances[0, 2])])
    return np.array(outcomes)


def coverage_and_error(outcomes: FloatArray) -> list[float]:
    """Coverage, and the standard error over the standard deviation of the estimate."""
    covered, estimate, error = outcomes.T
    return [float(covered.mean()), float(np.sqrt(np.mean(error**2)) / estimate.std(ddof=1))]


def several(rng: Rng, tables: int, groups: int, share: float, rows: int, sharp: float, power: float) -> npt.ArrayLike:
    """The first group less the second: tested; shown without a difference; covered in the worlds of each assumption."""
    alpha = np.append(share, np.full(groups - 1, (1.0 - share) / (groups - 1))) * sharp
    effect, outcomes = 0.12, []
    within = (alpha[0] + 1) / (sharp + 1) - alpha[0] / (sharp + 1)  # E[p p] / E[p] less E[p q] / E[q]
    for i in range(tables):
        p = rng.dirichlet(alpha, rows)
        group = (p.cumsum(1) < rng.random((rows, 1))).sum(1).clip(0, groups - 1)
        stated = p**power / (p**power).sum(1, keepdims=True)

        def table(by_group: float, by_share: float, *, p: Any = p, group: Any = group, stated: Any = stated) -> Table:
            mean = 0.5 - by_group * (group == 0) - by_share * (p[:, 0] - share)
            return Table(stated, (rng.random(rows) < mean).astype(float))

        equal, mixed = table(0.0, 0.0), table(effect, effect)
        null, mixture = family(equal, 0, 1), family(mixed, 0, 1)
        weighted = family(table(0.0, effect), 0, 1, (0.0,)).covers(-effect * within)
        linear = family(table(effect, 0.0), 0, 1, (1.0,)).covers(-effect)
        if not i:
            null.agrees(equal.ask(1), 0)
            mixture.agrees(mixed.ask(1), 0)
        covered = [weighted, linear, mixture.covers(-effect - effect * within)]
        outcomes.append([float(null.tested), null.shows(), *covered])
    return np.array(outcomes)


def verdicts(table: Table, tolerance: float, *, check: bool) -> list[float]:
    """*Violation* and *within* of B under the bracket, the weighted and the linear estimate, by the rules of each."""
    bracket, weighted, linear = (family(table, 1, shares=shares) for shares in (GRID, (0.0,), (1.0,)))
    lines = [bracket.verdict(tolerance), weighted.verdict(tolerance, within=False), linear.verdict(tolerance)]
    lines[2][0] = float(linear.tested and bracket.pvalue(tolerance) <= ALPHA)
    for assume, line in zip(("bracket", "weighted", "linear"), lines, strict=True) if check else ():
        verdict = table.ask(assume=assume, tolerance=tolerance).verdicts[1]
        assert line == [verdict is iso.Verdict.VIOLATION, verdict is iso.Verdict.WITHIN_TOLERANCE], (assume, line)
    return [number for line in lines for number in line]


def edge(rng: Rng, tables: int, world: str, rows: int, times: float) -> npt.ArrayLike:
    """Verdicts where the true difference is ``times`` the tolerance."""
    made = WORLDS[world]
    tolerance = abs(truth(made)) / times if times else 0.05
    drawn = (people(rng, rows).table(rng, made if times else World()) for _ in range(tables))
    return np.array([verdicts(table, tolerance, check=not i) for i, table in enumerate(drawn)])


def ratios(rng: Rng, tables: int, world: str, rows: int, start: float, ratio: float) -> npt.ArrayLike:
    """Impact ratios: Fieller coverage of the linear estimate and the bracket; verdicts where the truth is ``ratio``."""
    shape, outcomes = WORLDS[world], []
    by_place, by_name, in_place, in_name = state()
    means = [state_mean(given, share) for given, share in ((by_place, in_place), (by_name, in_name))]
    # The effects are scaled so that mean B / mean A is the ratio.
    of_a, of_b = (shape.place * means[0][k] + shape.name * means[1][k] + shape.group * (k == 1) for k in (0, 1))
    scale = start * (1 - ratio) / (ratio * of_a - of_b)
    made = World(shape.group * scale, shape.place * scale, shape.name * scale)
    for i in range(tables):
        table = people(rng, rows).table(rng, made, start)
        bracket, weighted, linear = (family(table, 1, shares=shares) for shares in (GRID, (0.0,), (1.0,)))
        below, above = bracket.below(ratio) <= ALPHA, bracket.below(ratio, -1.0) <= ALPHA
        line = [bracket.tested and below, bracket.tested and above, weighted.tested and weighted.below(ratio) <= ALPHA]
        line += [linear.tested and below, linear.tested and linear.below(ratio, -1.0) <= ALPHA]
        if not i:
            answers = [table.ask(question=iso.adverse_impact, assume=a, threshold=ratio) for a in ("bracket", 0.0, 1.0)]
            found = [answer.verdicts[1] for answer in answers]
            violated, within = (
                [v is kind for v in found] for kind in (iso.Verdict.VIOLATION, iso.Verdict.WITHIN_TOLERANCE)
            )
            assert [violated[0], within[0], violated[1], violated[2], within[2]] == [bool(part) for part in line]
            assert not within[1]
        outcomes.append([linear.covers_ratio(ratio), bracket.covers_ratio(ratio), *map(float, line)])
    return np.array(outcomes)


def state_mean(given: FloatArray, share: FloatArray) -> FloatArray:
    """The mean share of B in the place or name of each group, less that of everybody."""
    return np.asarray(given.T @ share - SHARES @ (given.T @ share))


CONDITIONS = {  # of the condition (start 0.5) and of the decision (start 0.6)
    "nothing": (World(), World()),
    "condition by group": (World(group=-0.15), World()),
    "both by group": (World(group=-0.10), World(group=-0.10)),
    "both by place": (World(place=-0.15), World(place=-0.20)),
    "both by group and place": (World(group=-0.08, place=-0.10), World(group=-0.08, place=-0.15)),
}


def true_rate(condition: World, decision: World, group: int) -> float:
    """E[v y | group] / E[v | group]; effects of names are not used here."""
    by_place, _, in_place, _ = state()
    away = in_place - SHARES @ (by_place.T @ in_place)
    v, y = (start + w.group * (group == 1) + w.place * away for start, w in ((0.5, condition), (0.6, decision)))
    return float(by_place[:, group] @ (v * y) / (by_place[:, group] @ v))


def conditions(rng: Rng, tables: int, world: str, rows: int) -> npt.ArrayLike:
    """True positive rates of B less A."""
    condition, decision = CONDITIONS[world]
    value, outcomes = true_rate(condition, decision, 1) - true_rate(condition, decision, 0), []
    for i in range(tables):
        person = people(rng, rows)
        table = person.table(rng, decision, v=person.draw(rng, condition, 0.5))
        bracket, by_place = family(table, 1), names(table, 1)
        if not i:
            bracket.agrees(table.ask(), 1)
            by_place.agrees(table.ask(assume="names"), 1)
        parts = [family(table, 1, shares=(share,)) for share in (0.0, 1.0)]
        outcomes.append([*(part.covers(value) for part in (*parts, bracket, by_place)), bracket.shows()])
    return np.array(outcomes)


def clustered(rng: Rng, tables: int, weight: bool) -> npt.ArrayLike:
    """1,000 people with 1 to 6 rows each and an intraclass correlation of 0.5; only the group matters."""
    made, outcomes = WORLDS["group"], []
    reference = POPULATION if weight else 0
    value = truth(made) if reference == 0 else -0.10 * (1 - SHARES[1])
    for i in range(tables):
        person, times = people(rng, 1_000), rng.integers(1, 7, 1_000)
        code = np.repeat(np.arange(1_000), times)
        shared, chance = rng.random(code.size) < np.sqrt(0.5), rng.random(1_000)
        y = (np.where(shared, chance[code], rng.random(code.size)) < person.mean(made)[code]).astype(float)
        w = rng.lognormal(0.0, 0.5, code.size) if weight else None
        table = Table(person.p[code], y, w=w, cluster=code)
        linear, bracket = family(table, 1, reference, (1.0,)), family(table, 1, reference)
        if not i:
            bracket.agrees(table.ask(reference), 1)
        alone = family(Table(table.p, y, w=w), 1, reference, (1.0,))
        outcomes.append([part.covers(value) for part in (linear, bracket, alone)])
    return np.array(outcomes)


def misfit(rng: Rng, tables: int, rows: int, power: float, fewer: float) -> npt.ArrayLike:
    """Probabilities that are not calibrated: differences shown where there are none; coverage in a mixture."""
    shares, outcomes = SHARES * np.array([1.0, fewer, fewer, 1.0, 1.0]), []
    made = WORLDS["group and place"]
    for i in range(tables):
        person = people(rng, rows, shares=shares / shares.sum(), power=power)
        equal = person.table(rng, World())
        null, mixture = family(equal, 1), family(person.table(rng, made), 1)
        if not i:
            null.agrees(equal.ask(), 1)
        outcomes.append([null.shows(), mixture.covers(truth(made))])
    return np.array(outcomes)


def corrected(
    rng: Rng, tables: int, known: int, rows: int, group: int, metric: str, design: str, power: float
) -> npt.ArrayLike:
    """Whether the validated interval covers the truth, its width, and the width by known rows alone."""
    made, outcomes = WORLDS["group and place"], []
    value = truth(made, group)
    if metric == "tpr":
        value = true_rate(*CONDITIONS["both by group and place"], group)
        value -= true_rate(*CONDITIONS["both by group and place"], 0)
    for i in range(tables):
        size = rows // 2 if "cluster" in design else rows
        person = people(rng, size, power=power)
        chosen = np.isin(np.arange(size), rng.choice(size, known, replace=False))
        label = np.where(chosen, person.group, -1)
        code = np.repeat(np.arange(size), rows // size)  # with clusters, everybody has two rows
        shared = rng.random(rows) < (np.sqrt(0.5) if "cluster" in design else 0.0)

        def draw(world: World, start: float, *, code: Any = code, shared: Any = shared, person: Any = person) -> Any:
            chance = rng.random(len(person.group))
            above = np.where(shared, chance[code], rng.random(rows))
            return (above < person.mean(world, start)[code]).astype(float)

        y = draw(made, 0.6)
        table = Table(
            person.p[code],
            y,
            v=draw(CONDITIONS["both by group and place"][0], 0.5) if metric == "tpr" else None,
            w=rng.uniform(0.5, 2.0, rows) if "weight" in design else None,
            cluster=code if "cluster" in design else None,
            known=label[code],
        )
        estimate = validated(table, group)
        if not i:
            estimate.agrees(table.ask(), group)
        certain = np.isin(label[code], np.arange(len(GROUPS)))
        parts = (None if part is None else part[certain] for part in (table.v, table.w))
        alone = Table(np.eye(len(GROUPS))[label[code][certain]], y[certain], next(parts), next(parts))
        width = float(np.ptp(estimate.interval)) if estimate.tested else np.nan
        low, high = family(alone, group, shares=(0.0,)).interval
        outcomes.append([float(estimate.tested), estimate.covers(value), width, high - low])
    return np.array(outcomes)


def unassumed(rng: Rng, tables: int, metric: str, sharp: float) -> npt.ArrayLike:
    """Nearly certain groups, and no assumption: whether the library's bounds hold the truth, and their width."""
    alpha, outcomes = sharp * np.array([0.5, 0.3, 0.2]), []
    for _ in range(tables):
        p = rng.dirichlet(alpha, 2_000)
        group = (p.cumsum(1) < rng.random((2_000, 1))).sum(1).clip(0, 2)
        y = (rng.random(2_000) < 0.6 - 0.1 * (group == 1)).astype(float)
        v = (rng.random(2_000) < 0.5).astype(float) if metric == "tpr" else None
        answer = Table(p, y, v=v).ask(assume="nothing")
        low, high = answer.ci_low[1], answer.ci_high[1]
        outcomes.append([float(low <= -0.1 <= high), high - low])
    return np.array(outcomes)


EXACT = nominal(0.95)
_HOLDS = {  # weighted, linear, bracket, names, bracket of C
    "nothing": (EXACT, EXACT, LEAST, EXACT, LEAST, at_most(0.05)),
    "group": (None, EXACT, LEAST, EXACT, LEAST),
    "place and name": (EXACT, None, LEAST, None, LEAST),
    "group and place": (None, None, LEAST, EXACT),
    "group, place and name": (None, None, LEAST, None),
    "group against place": (None, None, None, EXACT),
}
_SIZES = (
    (2, 0.60, 500, 1.0, 1.0),
    (2, 0.60, 5_000, 8.0, 1.0),
    (2, 0.30, 500, 8.0, 1.0),
    (2, 0.30, 500, 8.0, 1.6),
    (2, 0.02, 500, 0.3, 1.0),
    (2, 0.02, 5_000, 3.0, 1.0),
    (2, 0.02, 5_000, 3.0, 0.6),
    (2, 0.02, 50_000, 3.0, 1.0),
    (3, 0.20, 500, 1.0, 1.0),
    (3, 0.20, 5_000, 8.0, 1.0),
    (3, 0.20, 5_000, 8.0, 1.6),
    (4, 0.40, 500, 3.0, 1.0),
    (4, 0.40, 500, 3.0, 0.6),
    (5, 0.12, 500, 5.0, 1.0),
    (5, 0.12, 5_000, 5.0, 0.6),
    (5, 0.12, 50_000, 5.0, 1.6),
    (6, 0.25, 500, 5.0, 1.0),
    (6, 0.25, 500, 5.0, 1.6),
    (6, 0.02, 5_000, 3.0, 1.0),
    (6, 0.02, 50_000, 3.0, 1.0),
    (6, 0.02, 50_000, 3.0, 0.6),
)
_EDGES = (
    *((world, 5_000, 1.0) for world in ("group", "place and name", "group, place and name")),
    ("nothing", 20_000, 0.0),
    ("group", 20_000, 0.4),
    ("group, place and name", 20_000, 2.0),
)
_CORRECTED = (
    (500, 20_000, 1, "selection_rate", "rows", 1.0, TABLES),
    (500, 20_000, 2, "selection_rate", "rows", 1.0, TABLES),
    (2_000, 20_000, 3, "selection_rate", "rows", 1.0, TABLES),
    (500, 20_000, 1, "selection_rate", "rows", 1.6, TABLES),
    (500, 20_000, 1, "selection_rate", "rows", 0.6, TABLES),
    (500, 10_000, 1, "selection_rate", "weight", 1.0, TABLES),
    (500, 10_000, 1, "selection_rate", "cluster", 1.0, TABLES),
    (500, 10_000, 1, "selection_rate", "weight and cluster", 1.0, TABLES),
    (1_000, 10_000, 1, "tpr", "rows", 1.0, TABLES),
    (1_000, 10_000, 1, "tpr", "weight", 1.0, TABLES),
    (1_000, 10_000, 1, "tpr", "weight and cluster", 1.0, 4 * TABLES),
    (1_000, 10_000, 2, "tpr", "weight and cluster", 1.0, 4 * TABLES),
)
_FALSE = (at_most(0.05), at_most(0.05), at_most(0.05), Asked(0.0, "most", exact=True), at_most(0.05), at_most(0.05))

PAGE = Page(
    "groups/proxies_simulations",
    (
        Section(
            "Coverage by what the outcome depends on, nominal 0.95",
            ("outcome depends on", "rows"),
            ("weighted", "linear", "bracket", "names", "bracket of C less A", "bracket shows a difference"),
            tuple(
                Run((Line((world, f"{n:,}"), _HOLDS[world]),), partial(assumptions, world=world, rows=n), TABLES)
                for n in (500, 5_000, 50_000)
                for world in WORLDS
            ),
        ),
        Section(
            "Names within places: places that stay the same, and places drawn for each table",
            ("outcome depends on", "rows", "places"),
            ("covered", "standard error over standard deviation"),
            tuple(
                Run(
                    (Line((world, "50,000", "drawn" if anew else "the same"), (EXACT if anew else LEAST,)),),
                    partial(within_places, world=world, rows=50_000, anew=anew),
                    4 * TABLES,
                    coverage_and_error,
                )
                for world in ("group and place", "group against place")
                for anew in (False, True)
            ),
        ),
        Section(
            "Numbers of groups: size of no difference, and coverage where each assumption holds",
            ("groups", "share", "rows", "sum of the Dirichlet parameters", "power of the probabilities"),
            ("tested", "size", "weighted", "linear", "bracket in a mixture"),
            tuple(
                Run(
                    (
                        Line(
                            (str(groups), f"{share:g}", f"{n:,}", f"{sharp:g}", f"{power:g}"),
                            (None, at_most(0.05), *((EXACT, EXACT, LEAST) if power == 1 and n * share > 20 else ())),
                        ),
                    ),
                    partial(several, groups=groups, share=share, rows=n, sharp=sharp, power=power),
                    TABLES,
                )
                for groups, share, n, sharp, power in _SIZES
            ),
        ),
        Section(
            "At the tolerance, and away from it: how often each verdict is given",
            ("outcome depends on", "rows", "true difference"),
            (
                *("bracket: violation", "bracket: within", "weighted: violation", "weighted: within"),
                *("linear: violation", "linear: within"),
            ),
            tuple(
                Run(
                    (
                        Line(
                            (world, f"{n:,}", "none" if not times else f"{times:g} × the tolerance"),
                            _FALSE if times == 1 else (),
                        ),
                    ),
                    partial(edge, world=world, rows=n, times=times),
                    TABLES,
                )
                for world, n, times in _EDGES
            ),
        ),
        Section(
            "Impact ratios: coverage, and verdicts where the true ratio is the threshold",
            ("outcome depends on", "rows", "mean rate", "ratio"),
            (
                *("linear covers", "bracket covers", "bracket: below", "bracket: at least", "weighted: below"),
                *("linear: below", "linear: at least"),
            ),
            tuple(
                Run(
                    (
                        Line(
                            (world, f"{n:,}", f"{rate:g}", f"{ratio:g}"),
                            (EXACT if world == "group" else None, LEAST, *[at_most(0.05)] * 5),
                        ),
                    ),
                    partial(ratios, world=world, rows=n, start=rate, ratio=ratio),
                    TABLES,
                )
                for world, n, rate, ratio in (
                    ("group", 2_000, 0.12, 0.8),
                    ("group", 5_000, 0.6, 0.8),
                    ("place and name", 5_000, 0.6, 0.8),
                    ("group, place and name", 5_000, 0.6, 0.8),
                )
            ),
        ),
        Section(
            "Rates with a condition: true positive rates",
            ("depends on", "rows"),
            ("weighted", "linear", "bracket", "names", "bracket shows a difference"),
            tuple(
                Run((Line((world, "5,000"), asked),), partial(conditions, world=world, rows=5_000), TABLES)
                for world, asked in (
                    ("nothing", (EXACT, EXACT, LEAST, EXACT, at_most(0.05))),
                    ("condition by group", (None, EXACT, LEAST, EXACT, at_most(0.05))),
                    ("both by group", (None, EXACT, LEAST, EXACT)),
                    ("both by place", (EXACT, None, LEAST, EXACT)),
                    ("both by group and place", (None, None, LEAST, EXACT)),
                )
            ),
        ),
        Section(
            "Clusters: 1,000 people with 1 to 6 rows",
            ("weights", "reference"),
            ("linear", "bracket", "linear by rows"),
            tuple(
                Run(
                    (Line(("yes" if weight else "no", "population" if weight else "A"), (EXACT, LEAST)),),
                    partial(clustered, weight=weight),
                    TABLES,
                )
                for weight in (False, True)
            ),
        ),
        Section(
            "Probabilities that are not calibrated",
            ("power of the probabilities", "B and C apply", "rows"),
            ("size of no difference", "bracket covers a mixture"),
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
            ("known", "group", "metric", "design", "power of the probabilities"),
            ("tested", "covered", "width", "width by known rows alone"),
            tuple(
                Run(
                    (Line((f"{m:,} of {n:,}", GROUPS[group], metric, design, f"{power:g}"), (None, EXACT)),),
                    partial(corrected, known=m, rows=n, group=group, metric=metric, design=design, power=power),
                    tables,
                )
                for m, n, group, metric, design, power, tables in _CORRECTED
            ),
        ),
        Section(
            "Nothing assumed: bounds of nearly certain groups",
            ("metric", "sum of the Dirichlet parameters"),
            ("covered", "width"),
            tuple(
                Run((Line((metric, f"{sharp:g}"), (LEAST,)),), partial(unassumed, metric=metric, sharp=sharp), TABLES)
                for metric in ("selection_rate", "tpr")
                for sharp in (0.001, 0.02)
            ),
        ),
    ),
)


if __name__ == "__main__":
    main(PAGE)
