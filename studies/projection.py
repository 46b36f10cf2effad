"""Size and power of `project` on data with known truth.

    python -m studies.projection [--tables N] [--only TEXT]        writes docs/projection/simulations.md

Every population is `studies.designs.classifier`: the paper's (Appendix B.1) and variations of it. Three sections show
what goes wrong without the corrections: they apply the law of Corollary 1 for one comparison by hand (`Law`), without
looking at the rows near the boundary.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from scipy import stats

import isonomy as iso
from isonomy.numerics.arrays import FloatArray
from studies.designs import classifier
from studies.designs.fitted import FEATURES, applicants, models
from studies.lines import Asked, Line, Page, Run, Section, at_most, each, main, nominal, rejected

TABLES = 1_000
MORE_TABLES = 2_000  # of lines with narrower margins
ALPHAS = (0.10, 0.05, 0.01)
SIZES = (500, 1_000, 2_000)
ROLES: dict[str, Any] = {"outcome": "outcome", "prediction": "prediction", "groups": "group", "distance": "distance"}
Columns = dict[str, Any]


def deciles(columns: Columns) -> None:
    """Replace the distance by the distance of decile scores 1 to 10; scores of 6 or more are selected."""
    edges = stats.norm.ppf(np.arange(0.1, 0.95, 0.1)) * np.sqrt(5)  # the score is N(0, 5) in every cell
    columns["distance"] = np.abs(np.digitize(columns["score"], edges) + 1 - 5.5)


def squared(columns: Columns) -> None:
    """Use the paper's cost (3b)."""
    columns["distance"] = columns["distance"] ** 2


def outlier(columns: Columns) -> None:
    """Put one row very far from the boundary."""
    columns["distance"][0] = 9_999.0


def sentinels(columns: Columns) -> None:
    """Put a number that means "none" in one row of twenty."""
    columns["distance"][::20] = 1e6


@dataclass(frozen=True)
class Scenario:
    """A population, a change to its distances, the options of the call, and the number of tables of its size."""

    design: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    change: Callable[[Columns], None] = lambda columns: None
    bandwidth: Callable[[int], float | None] = lambda rows: None
    tables: int = TABLES

    def draw(self, rng: np.random.Generator, rows: int) -> Columns:
        """One table."""
        columns = dict(classifier(rows, int(rng.integers(2**31)), **self.design).columns)
        self.change(columns)
        return columns

    def ask(self, rng: np.random.Generator, columns: Columns) -> iso.ProjectionResult:
        """Test the table against level 0."""
        width = self.bandwidth(len(columns["group"]))
        options: dict[str, Any] = {"method": iso.corrected(width)} | self.options
        return iso.project(columns, **ROLES, reference={"group": "0"}, rng=rng, **options)


SCENARIOS = {
    "paper's design": Scenario(),
    "equalized odds": Scenario(options={"criterion": "equalized_odds"}),
    "three levels": Scenario({"levels": 3}),
    "one-sided tolerance, one comparison": Scenario({"equal_opportunity": 0.05}, {"tolerance": {"above": 0.05}}),
    "two-sided tolerance, one comparison": Scenario({"equal_opportunity": 0.05}, {"tolerance": 0.05}),
    "tolerances that differ by level and side": Scenario(
        {"levels": 3, "equal_opportunity": {"1": 0.1, "2": -0.03}},
        {"tolerance": {"group=1": {"above": 0.1}, "group=2": {"below": 0.03, "above": 0.08}}},
        tables=MORE_TABLES,
    ),
    "scores rounded to 0.5": Scenario({"lattice": 0.5}, tables=MORE_TABLES),
    "scores rounded to 0.05": Scenario({"lattice": 0.05}, tables=MORE_TABLES),
    "three levels, scores rounded to 0.2": Scenario({"lattice": 0.2, "levels": 3}, tables=MORE_TABLES),
    "deciles": Scenario(change=deciles, tables=MORE_TABLES),
    "one distance of 9999": Scenario(change=outlier),
    "5 % of the distances 1e6": Scenario(change=sentinels),
}


def size(rng: np.random.Generator, scenario: Scenario, rows: int) -> list[float]:
    """Rejections at each level by the projection and by the Wald test, and whether the law could be used."""
    result = scenario.ask(rng, scenario.draw(rng, rows))
    p = [rejected(value, alpha) for value in (result.pvalue, result.wald_pvalue) for alpha in ALPHAS]
    return [*p, float(result.test_status is iso.Status.OK)]


def rescaled(rng: np.random.Generator) -> list[float]:
    """Relative changes of the p-value when all features are multiplied by 0.01 and by 100, at each size."""
    changes = []
    for rows in SIZES:
        seed = int(rng.integers(2**31))
        p = [
            iso.project(classifier(rows, seed, scale=scale).columns, **ROLES, reference={"group": "0"}).pvalue
            for scale in (1.0, 0.01, 100.0)
        ]
        changes += [abs(p[1] / p[0] - 1), abs(p[2] / p[0] - 1)]
    return changes


# A small group at the edge of the tolerance: rate of the reference, difference.
EDGES = ((0.002, 0.10), (0.02, 0.10), (0.30, -0.10), (0.50, 0.19))


def small_group(rng: np.random.Generator, rows: int, rate: float, difference: float) -> Any:
    """Whether a group of ``rows``, compared with 2,000, is a violation or within tolerance; both are wrong."""
    group = np.repeat(["0", "1"], [2_000, rows])
    shift = stats.norm.ppf(np.where(group == "1", rate + difference, rate))
    score = rng.normal(size=group.size) + shift  # the density is continuous at the boundary, as the law assumes
    columns = {"group": group, "distance": np.abs(score), "prediction": (score >= 0).astype(int)}
    result = iso.project(
        columns,
        prediction="prediction",
        groups="group",
        distance="distance",
        criterion="statistical_parity",
        tolerance=abs(difference),
        reference={"group": "0"},
        rng=rng,
    )
    return rejected([result.pvalue, result.equivalence_pvalue])


@dataclass(frozen=True)
class Law:
    """Corollary 1 by hand for equal opportunity of level 1 against level 0, with a kernel estimate of S."""

    columns: Columns
    result: iso.ProjectionResult

    @property
    def phi(self) -> FloatArray:
        """The contribution of selecting a row to the moment, times the number of rows."""
        positive, first = self.columns["outcome"] == 1, self.columns["group"] == "1"
        share = [np.mean(positive & ~first), np.mean(positive & first)]
        return np.where(positive, np.where(first, 1 / share[1], -1 / share[0]), 0.0)

    @property
    def moment(self) -> float:
        """Difference of the true positive rates."""
        return float(np.mean(self.phi * self.columns["prediction"]))

    @property
    def sigma(self) -> float:
        """Variance of sqrt(N) times the moment."""
        total = 0.0
        for level in ("0", "1"):
            rows = (self.columns["outcome"] == 1) & (self.columns["group"] == level)
            rate = self.columns["prediction"][rows].mean()
            total += rate * (1 - rate) / rows.mean()
        return float(total)

    @property
    def kernel(self) -> FloatArray:
        """The contribution of each row to the density at the boundary."""
        h = self.result.bandwidth
        return np.asarray(stats.norm.pdf(self.columns["distance"] / h) / (self.phi.size * h))

    def pvalue(self) -> float:
        """The statistic tends to sigma / (2 S) times a chi-square with one degree of freedom."""
        curvature = float(self.kernel @ self.phi**2)
        return float(stats.chi2.sf(2 * curvature * self.result.statistic / self.sigma, 1))

    def crowding(self) -> float:
        """Rows at the same distance as a row near the boundary, divided by the rows that chance alone would flip."""
        sign = np.where(self.columns["prediction"] == 1, 1.0, -1.0)
        signed = (sign * self.columns["distance"])[self.columns["distance"] <= self.result.bandwidth]
        shared = np.unique(signed, return_counts=True)[1].astype(float)
        density, curvature = float(self.kernel @ (self.phi != 0)), float(self.kernel @ self.phi**2)
        flips = np.sqrt(self.phi.size * self.sigma * density / curvature)
        return float(((shared**2).sum() / shared.sum() - 1) / flips) if shared.size else 0.0

    def without_bandwidth(self) -> float:
        """P-value from solving the program with right-hand sides sqrt(N) V, V ~ N(0, sigma).

        The optimal value grows with the distance of the right-hand side from 0, so the p-value is the normal tail
        beyond the two right-hand sides at which the optimal value equals that of the data.
        """
        rows = self.phi.size
        spread, moment = np.sqrt(rows * self.sigma), rows * self.moment
        change = (1 - 2 * self.columns["prediction"]) * self.phi

        def curve(direction: float) -> tuple[FloatArray, FloatArray]:
            useful = direction * change > 0
            gain, cost = direction * change[useful], self.columns["distance"][useful]
            order = np.argsort(cost / gain)
            return np.append(0.0, np.cumsum(gain[order])), np.append(0.0, np.cumsum(cost[order]))

        here, there = curve(-np.sign(moment)), curve(np.sign(moment))
        value = float(np.interp(abs(moment), *here))
        opposite = float(np.interp(value, there[1], there[0]))
        return float(stats.norm.sf(abs(moment) / spread) + stats.norm.sf(opposite / spread))


def power_law(rows: int) -> float:
    """The paper's bandwidth, which ignores the unit of the distance."""
    return float(rows ** (-1 / 5))


DEFECTS = {
    "h = N^(-1/5), features as given": Scenario(bandwidth=power_law),
    "h = N^(-1/5), features times 0.01": Scenario({"scale": 0.01}, bandwidth=power_law),
    "h = N^(-1/5), features times 100": Scenario({"scale": 100.0}, bandwidth=power_law),
    "squared cost (3b)": Scenario(change=squared),
    "scores rounded to 0.5, projection's law": Scenario({"lattice": 0.5}),
    "deciles, projection's law": Scenario(change=deciles),
}


def by_law(rng: np.random.Generator, scenario: Scenario, rows: int) -> list[float]:
    """Rejections at each level by the law of the projection, regardless of the status, and the crowding."""
    columns = scenario.draw(rng, rows)
    law = Law(columns, scenario.ask(rng, columns))
    return [*(float(rejected(law.pvalue(), alpha)) for alpha in ALPHAS), law.crowding()]


def by_program(rng: np.random.Generator, scenario: Scenario, rows: int) -> list[float]:
    """Rejections at each level by the law without a bandwidth."""
    columns = scenario.draw(rng, rows)
    p = Law(columns, scenario.ask(rng, columns)).without_bandwidth()
    return [float(rejected(p, alpha)) for alpha in ALPHAS]


PLANTED: dict[str, Callable[[float], Scenario]] = {
    "equal opportunity, gap {gap:g}": lambda gap: Scenario({"equal_opportunity": gap}),
    "equalized odds, gaps {gap:g} and {gap:g}": lambda gap: Scenario(
        {"equal_opportunity": gap, "predictive_equality": gap}, {"criterion": "equalized_odds"}
    ),
    "three levels, gaps {gap:g} and -{gap:g}": lambda gap: Scenario(
        {"levels": 3, "equal_opportunity": {"1": gap, "2": -gap}}
    ),
}


def power(rng: np.random.Generator, scenario: Scenario, rows: int) -> list[float]:
    """Rejections at 0.05 by the projection, the Wald test, and Welch's t-test (one comparison only)."""
    columns = scenario.draw(rng, rows)
    result = scenario.ask(rng, columns)
    welch = np.nan
    if result.weights.size == 1:
        halves = [
            columns["prediction"][(columns["outcome"] == 1) & (columns["group"] == g)].astype(float) for g in "01"
        ]
        welch = float(rejected(stats.ttest_ind(*halves, equal_var=False).pvalue))
    return [float(rejected(result.pvalue)), float(rejected(result.wald_pvalue)), welch]


def by_distance(rng: np.random.Generator, name: str, rows: int) -> list[float]:
    """Rejections at 0.05 by the projection and by Wald, and whether the law was used, without and with a difference."""
    model, distance = models()[name]
    numbers: list[float] = []
    for shift in (0.0, 0.2):
        group, x = applicants(rng, rows, shift)
        columns = dict(zip(FEATURES, x.T, strict=True)) | {"group": group, "prediction": model.predict(x)}
        roles: dict[str, Any] = {"prediction": "prediction", "groups": "group", "criterion": "statistical_parity"}
        result = iso.project(columns, distance=distance, rng=rng, **roles)
        numbers += [*rejected([result.pvalue, result.wald_pvalue]), float(result.test_status is iso.Status.OK)]
    return numbers


# Groups that are compared with a group of 1,600 rows, and the rate of all groups.
SMALL = (
    ("4 of 100", [100] * 4, 0.1),
    ("4 of 100", [100] * 4, 0.3),
    ("8 of 50", [50] * 8, 0.3),
    ("10 of 20", [20] * 10, 0.05),
    ("10 of 20", [20] * 10, 0.3),
    ("1 of 50", [50], 0.1),
    ("1 of 25", [25], 0.02),
    ("1 of 25", [25], 0.5),
)


def small_groups(rng: np.random.Generator, sizes: list[int], rate: float) -> list[float]:
    """Rejections at 0.05 of equal rates by the projection and by the Wald test, and whether the law was used."""
    group = np.repeat(np.arange(1 + len(sizes)).astype(str), [1_600, *sizes])
    score = rng.normal(size=group.size) - stats.norm.isf(rate)
    result = iso.project(
        {"group": group, "score": score, "prediction": (score >= 0).astype(int)},
        prediction="prediction",
        groups="group",
        score="score",
        threshold=0.0,
        criterion="statistical_parity",
        rng=rng,
    )
    return [*rejected([result.pvalue, result.wald_pvalue]), float(result.test_status is iso.Status.OK)]


def curve_limits(rng: np.random.Generator, scenario: Scenario, true: float, rows: int) -> list[float]:
    """Whether the limits of the curve are on the wrong side of the largest difference, and whether they exist."""
    result = scenario.ask(rng, scenario.draw(rng, rows))
    curve = result.curve
    assert curve is not None
    return [curve.least > true, curve.most < true, curve.least > 0, np.isfinite(curve.most)]


def planned_rows(rng: np.random.Generator, share: float, rate: float, tolerance: float | None) -> list[float]:
    """Whether a second table gets the verdict that the first one predicts for 80 % of samples."""

    def ask(rows: int, gap: float) -> iso.ProjectionResult:
        group = np.where(np.arange(rows) < rows * share, "1", "0")
        score = rng.normal(size=rows) + stats.norm.ppf(np.where(group == "1", rate + gap, rate))
        columns = {"group": group, "score": score, "prediction": (score >= 0).astype(int)}
        options: dict[str, Any] = {"criterion": "statistical_parity", "reference": {"group": "0"}, "threshold": 0.0}
        return iso.project(
            columns, prediction="prediction", groups="group", score="score", tolerance=tolerance, rng=rng, **options
        )

    pilot = ask(20_000, 0.0)
    place = pilot.labels.index("group=1")
    if tolerance is None:
        return [float(ask(20_000, float(pilot.detectable[place])).verdict is iso.Verdict.VIOLATION)]
    rows = round(float(pilot.rows_needed[place]) / share)
    return [float(ask(rows, 0.0).verdict is iso.Verdict.WITHIN_TOLERANCE)]


def shares(outcomes: FloatArray) -> list[Any]:
    """Means, and a dash if there is no such test."""
    return ["–" if np.isnan(column).all() else float(column.mean()) for column in outcomes.T]


def normal_power(gap: float, rows: int) -> float:
    """Power at 0.05 against a planted gap in equal opportunity, for two normal rates with known variances."""
    groups = classifier(1, equal_opportunity=gap).truth["groups"].values()
    variance = sum(g["tpr"] * (1 - g["tpr"]) / (rows * g["share"] * g["base_rate"]) for g in groups)
    shift, cut = gap / np.sqrt(variance), stats.norm.isf(0.025)
    return float(stats.norm.sf(cut - shift) + stats.norm.cdf(-cut - shift))


def asked_of_size(rows: int) -> tuple[Asked, ...]:
    """At most the level, up to chance; with 2,000 rows or more, near it."""
    return tuple((nominal if rows >= 2_000 else at_most)(alpha) for alpha in ALPHAS)


LEVELS = tuple(f"{alpha:.2f}" for alpha in ALPHAS)
WHERE = ("design", "rows")
PAGE = Page(
    "projection/simulations",
    (
        Section(
            "Rejected when the null holds",
            WHERE,
            (*LEVELS, *(f"Wald {level}" for level in LEVELS), "status ok"),
            tuple(
                Run(
                    (Line((name, f"{rows:,}"), asked_of_size(rows)),),
                    each(partial(size, scenario=scenario, rows=rows)),
                    scenario.tables,
                )
                for name, scenario in SCENARIOS.items()
                for rows in SIZES
            ),
            4,
        ),
        Section(
            "Rescaling all features",
            ("rows",),
            ("largest relative change of a p-value",),
            (
                Run(
                    (Line(("500, 1,000 and 2,000",), (Asked(1e-9, "most", exact=True),)),),
                    each(rescaled),
                    MORE_TABLES,
                    lambda outcomes: [f"{outcomes.max():.1e}"],
                ),
            ),
        ),
        Section(
            "A small group at the edge of a tolerance",
            ("rows", "reference's rate", "its rate"),
            ("violation", "within tolerance"),
            tuple(
                Run(
                    (Line((str(rows), f"{rate:g}", f"{rate + difference:g}"), (at_most(0.05), at_most(0.05))),),
                    each(partial(small_group, rows=rows, rate=rate, difference=difference)),
                    TABLES,
                )
                for rate, difference in EDGES
                for rows in (12, 25, 100)
            ),
            4,
        ),
        Section(
            "Small groups",
            ("groups beside 1,600 rows", "rate"),
            ("projection", "Wald", "law used"),
            tuple(
                Run(
                    (Line((name, f"{rate:g}"), (at_most(0.05), at_most(0.05))),),
                    each(partial(small_groups, sizes=sizes, rate=rate)),
                    400,
                )
                for name, sizes, rate in SMALL
            ),
        ),
        Section(
            "The tolerance curve",
            ("true differences", "rows"),
            ("lower limit above", "upper limit below", "lower limit above 0", "upper limit finite"),
            tuple(
                Run(
                    (Line((name, f"{rows:,}"), (at_most(0.05), at_most(0.05))),),
                    each(partial(curve_limits, scenario=scenario, true=true, rows=rows)),
                    tables,
                )
                for name, true, scenario, tables in (
                    ("none", 0.0, Scenario({}, {"method": iso.corrected(curve=True)}), 1_000),
                    ("0.1", 0.1, Scenario({"equal_opportunity": 0.1}, {"method": iso.corrected(curve=True)}), 1_000),
                    (
                        "0.1 and -0.05",
                        0.1,
                        Scenario(
                            {"levels": 3, "equal_opportunity": {"1": 0.1, "2": -0.05}},
                            {"method": iso.corrected(curve=True)},
                        ),
                        200,
                    ),
                )
                for rows in (1_000, 4_000)
            ),
        ),
        Section(
            "Planning",
            ("share of the group", "rate", "asked for"),
            ("shown",),
            tuple(
                Run(
                    (Line((f"{share:g}", f"{rate:g}", what), (Asked(0.8, slack=0.03),)),),
                    each(partial(planned_rows, share=share, rate=rate, tolerance=tolerance)),
                    1_000,
                )
                for share, rate in ((0.5, 0.5), (0.1, 0.3), (0.2, 0.1))
                for what, tolerance in (("smallest difference shown", None), ("within 0.05", 0.05))
            ),
        ),
        Section(
            "Every distance that tests",
            ("distance", "rows"),
            ("null", "null, Wald", "law used", "shifted", "shifted, Wald", "law used there"),
            tuple(
                Run(
                    (Line((name, f"{rows:,}"), (at_most(0.05), at_most(0.05))),),
                    each(partial(by_distance, name=name, rows=rows)),
                    400,
                )
                for name, sizes in (
                    ("linear", (500, 2_000)),
                    ("linear, immutable and costs", (500, 2_000)),
                    ("linear, by group (1 and 3)", (500, 2_000)),
                    ("mixed", (500, 2_000)),
                    ("kernel", (500, 2_000)),
                    ("tree", (500, 2_000)),
                    ("forest, on its score", (500, 2_000)),
                    ("boosting, on its score", (500, 2_000)),
                    ("nearest neighbors, searched", (500,)),
                )
                for rows in sizes
            ),
        ),
        Section(
            "What goes wrong without the corrections",
            WHERE,
            LEVELS,
            tuple(
                Run(
                    (Line((name, "2,000")),),
                    each(partial(by_law, scenario=scenario, rows=2_000)),
                    TABLES,
                    lambda outcomes: outcomes[:, :3].mean(axis=0).tolist(),
                )
                for name, scenario in DEFECTS.items()
            ),
            4,
        ),
        Section(
            "Ties: the projection's law, applied throughout",
            ("scores rounded to", "rows"),
            (*LEVELS, "crowding"),
            tuple(
                Run(
                    (Line((f"{step:g}", f"{rows:,}")),),
                    each(partial(by_law, scenario=Scenario({"lattice": step}), rows=rows)),
                    500,
                )
                for step in (0.5, 0.2, 0.1, 0.05, 0.02)
                for rows in (500, 2_000, 8_000)
            ),
        ),
        Section(
            "A law without a bandwidth",
            WHERE,
            LEVELS,
            tuple(
                Run(
                    (Line((name, f"{rows:,}"), tuple(at_most(alpha) for alpha in ALPHAS)),),
                    each(partial(by_program, scenario=SCENARIOS[name], rows=rows)),
                    MORE_TABLES,
                )
                for name in ("paper's design", "deciles")
                for rows in SIZES
            ),
            4,
        ),
        Section(
            "Power at 0.05",
            ("planted", "rows"),
            ("projection", "Wald", "Welch"),
            tuple(
                Run(
                    (Line((name.format(gap=gap), "1,000")),),
                    each(partial(power, scenario=scenario(gap), rows=1_000)),
                    500,
                    shares,
                )
                for name, scenario in PLANTED.items()
                for gap in (0.10, 0.20)
            ),
        ),
    ),
)


if __name__ == "__main__":
    main(PAGE)
