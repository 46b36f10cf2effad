"""Size and power of the projection test, against data whose truth is known.

    python tests/validity/test_transport.py study    the law without a bandwidth; ties
    python tests/validity/test_transport.py          writes docs/validity/transport.md (2,000 replications)
    pytest -m validity tests/validity/test_transport.py

Every design is `isonomy.simulate.classifier`, the paper's own (Appendix B.1) and its variations; replication i has
seed i. Margins: three binomial standard errors, sqrt(alpha (1 - alpha) / replications).
"""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from isonomy.numerics.status import Status
from isonomy.simulate import classifier
from isonomy.transport import evidence as steps
from isonomy.transport.criteria import Moments, covariance, moments
from isonomy.transport.evidence import Evidence, Null, weigh
from isonomy.transport.memory import Arrays

Array = NDArray[np.float64]
REPLICATIONS = 2_000
WORKERS = 2  # processes; the numbers do not depend on it
ALPHAS = np.array([0.10, 0.05, 0.01])
SIZES = (500, 1_000, 2_000)
EQUAL = Null("equality", 0.0)
TOLERANCE = 0.05


def deciles(columns: dict[str, Any]) -> None:
    """Replace the distance by that of decile scores 1 to 10, selected from 6 up."""
    edges = stats.norm.ppf(np.arange(0.1, 0.95, 0.1)) * np.sqrt(5)  # the score is N(0, 5) in every cell
    columns["distance"] = np.abs(np.digitize(columns["score"], edges) + 1 - 5.5)


def squared(columns: dict[str, Any]) -> None:
    """The paper's cost (3b)."""
    columns["distance"] = columns["distance"] ** 2


def outlier(columns: dict[str, Any]) -> None:
    """One row very far from the boundary."""
    columns["distance"][0] = 9_999.0


def sentinels(columns: dict[str, Any]) -> None:
    """A number that means "none" in one row of twenty."""
    columns["distance"][::20] = 1e6


@dataclass(frozen=True)
class Scenario:
    """A design, a criterion, a null, and what is done to the distances."""

    criterion: str = "equal_opportunity"
    null: Null = EQUAL
    design: dict[str, Any] = field(default_factory=dict)
    change: Callable[[dict[str, Any]], None] = lambda columns: None
    bandwidth: Callable[[int], float | None] = lambda n: None


SCENARIOS = {
    "paper's design": Scenario(),
    "features times 0.01": Scenario(design={"scale": 0.01}),
    "features times 100": Scenario(design={"scale": 100.0}),
    "equalized odds": Scenario("equalized_odds"),
    "three levels": Scenario(design={"levels": 3}),
    "one-sided tolerance, one comparison": Scenario(
        null=Null("upper", TOLERANCE), design={"equal_opportunity": TOLERANCE}
    ),
    "two-sided tolerance, one comparison": Scenario(
        null=Null("both", TOLERANCE), design={"equal_opportunity": TOLERANCE}
    ),
    "one-sided tolerance, two comparisons": Scenario(
        null=Null("upper", TOLERANCE),
        design={"levels": 3, "equal_opportunity": {"1": TOLERANCE, "2": TOLERANCE}},
    ),
    "two-sided tolerance, two comparisons": Scenario(
        null=Null("both", TOLERANCE),
        design={"levels": 3, "equal_opportunity": {"1": TOLERANCE, "2": -TOLERANCE}},
    ),
    "deciles (Wald by status)": Scenario(change=deciles),
    "one distance of 9999": Scenario(change=outlier),
    "5 % of the distances 1e6": Scenario(change=sentinels),
}

# What goes wrong without the corrections; measured for the method's page.
DEFECTS = {
    "h = N^(-1/5), features as given": Scenario(bandwidth=lambda n: n ** (-1 / 5)),
    "h = N^(-1/5), features times 0.01": Scenario(design={"scale": 0.01}, bandwidth=lambda n: n ** (-1 / 5)),
    "h = N^(-1/5), features times 100": Scenario(design={"scale": 100.0}, bandwidth=lambda n: n ** (-1 / 5)),
    "squared cost (3b)": Scenario(change=squared),
    "scores rounded to 0.5, projection's law": Scenario(design={"lattice": 0.5}),
    "deciles, projection's law": Scenario(change=deciles),
}

PLANTED = {
    "equal opportunity, gap {gap}": lambda gap: Scenario(design={"equal_opportunity": gap}),
    "equalized odds, gaps {gap} and {gap}": lambda gap: Scenario(
        "equalized_odds", design={"equal_opportunity": gap, "predictive_equality": gap}
    ),
    "three levels, gaps {gap} and -{gap}": lambda gap: Scenario(
        design={"levels": 3, "equal_opportunity": {"1": gap, "2": -gap}}
    ),
}


# A small group at the edge of the tolerance: rate of the reference, difference.
EDGES = ((0.002, 0.10), (0.02, 0.10), (0.30, -0.10), (0.50, 0.19))


def at_the_edge(rows: int, edge: tuple[float, float], replications: int) -> Array:
    """How often a group of ``rows``, beside 2,000, is called a violation, and within tolerance, at 0.05: both wrong."""
    rate, difference = edge
    null = Null("both", abs(difference))
    group = np.repeat(["0", "1"], [2_000, rows])
    label = np.zeros(group.size, dtype=int)
    shift = stats.norm.ppf(np.where(group == "1", rate + difference, rate))
    wrong = np.zeros(2)
    for seed in range(replications):
        rng = np.random.default_rng(seed)
        score = rng.normal(size=group.size) + shift  # the density is continuous at the boundary, as the law assumes
        table = Arrays.of(np.abs(score), (score >= 0).astype(int), label, group)
        asked = moments(table.cells, "statistical_parity", {"group": "0"})
        found = weigh(table, asked, null, bandwidth=None, alpha=None, tested=True, rng=rng)
        wrong += np.array([found.pvalue, found.equivalence_pvalue]) <= 0.05
    return wrong / replications


def draw(scenario: Scenario, rows: int, seed: int) -> tuple[Arrays, Moments, dict[str, Any]]:
    """One data set, in cells."""
    columns = dict(classifier(rows, seed, **scenario.design).columns)
    scenario.change(columns)
    table = Arrays.of(columns["distance"], columns["prediction"], columns["outcome"], columns["group"])
    return table, moments(table.cells, scenario.criterion, {"group": "0"}), columns


def replicate(scenario: Scenario, rows: int, seed: int) -> tuple[Evidence, dict[str, Any]]:
    """One data set, tested."""
    table, asked, columns = draw(scenario, rows, seed)
    found = weigh(
        table,
        asked,
        scenario.null,
        bandwidth=scenario.bandwidth(rows),
        alpha=None,
        tested=True,
        rng=np.random.default_rng(seed),
    )
    return found, columns


def pvalues(scenario: Scenario, rows: int, replications: int) -> tuple[Array, Array, float]:
    """p-values of the projection and of the Wald test, and the share of replications whose status is OK."""
    found = [replicate(scenario, rows, seed)[0] for seed in range(replications)]
    return (
        np.array([f.pvalue for f in found]),
        np.array([f.wald_pvalue for f in found]),
        float(np.mean([f.status is Status.OK for f in found])),
    )


def rejected(p: Array) -> Array:
    return (p[:, None] <= ALPHAS).mean(axis=0)


def margin(replications: int) -> Array:
    return 3 * np.sqrt(ALPHAS * (1 - ALPHAS) / replications)


def holds(rate: Array, rows: int, replications: int) -> bool:
    """At most alpha plus the margin; from 2,000 rows on, within it on both sides."""
    upper = bool(np.all(rate <= ALPHAS + margin(replications)))
    return upper and (rows < 2_000 or bool(np.all(rate >= ALPHAS - margin(replications))))


def rejections(scenario: Scenario, rows: int, replications: int) -> Array:
    """1 where rejected at 0.05, a line each data set: by the projection, the Wald test, Welch's (one comparison)."""
    decided = np.empty((replications, 3))
    for seed in range(replications):
        found, columns = replicate(scenario, rows, seed)
        welch = np.nan
        if found.weights.size == 1:
            positive = columns["outcome"] == 1
            halves = [columns["prediction"][positive & (columns["group"] == g)].astype(float) for g in "01"]
            welch = stats.ttest_ind(*halves, equal_var=False).pvalue
        decided[seed] = found.pvalue, found.wald_pvalue, welch
    return np.where(np.isnan(decided), np.nan, decided <= 0.05)


def power(scenario: Scenario, rows: int, replications: int) -> tuple[float, float, float]:
    """Rejections at 0.05 by the projection, the Wald test, and Welch's t-test (one comparison only)."""
    projection, wald, welch = rejections(scenario, rows, replications).mean(axis=0)
    return float(projection), float(wald), float(welch)


def normal_power(gap: float, rows: int) -> float:
    """Power at 0.05 against a planted gap in equal opportunity: two rates with known variances, by the normal law."""
    groups = classifier(1, equal_opportunity=gap).truth["groups"].values()
    variance = sum(g["tpr"] * (1 - g["tpr"]) / (rows * g["share"] * g["base_rate"]) for g in groups)
    shift, cut = gap / np.sqrt(variance), stats.norm.isf(0.025)
    return float(stats.norm.sf(cut - shift) + stats.norm.cdf(-cut - shift))


def without_bandwidth(scenario: Scenario, rows: int, seed: int) -> float:
    """p-value from solving the program again with right sides sqrt(N) V, V ~ N(0, Sigma): one moment, exactly.

    The value grows with the right side on either side of 0, so the p-value is the normal tail beyond the right
    sides at which it reaches the value seen.
    """
    table, asked, columns = draw(scenario, rows, seed)
    spread = np.sqrt(rows * float(covariance(table.cells, asked.influence)[0, 0]))
    change = ((1 - 2 * table.cells.selected) * asked.phi[:, 0])[table._cell]
    moment = rows * float(asked.value[0])

    def curve(direction: float) -> tuple[Array, Array]:
        useful = direction * change > 0
        gain, cost = direction * change[useful], columns["distance"][useful]
        order = np.argsort(cost / gain)
        return np.append(0.0, np.cumsum(gain[order])), np.append(0.0, np.cumsum(cost[order]))

    here, there = curve(-np.sign(moment)), curve(np.sign(moment))
    seen = float(np.interp(abs(moment), *here))
    opposite = float(np.interp(seen, there[1], there[0]))
    return float(stats.norm.sf(abs(moment) / spread) + stats.norm.sf(opposite / spread))


def study(replications: int) -> str:
    """Size of the bandwidth-free law, and of the projection's law on ever finer lattices, as Markdown."""
    lines = ["| design | rows | 0.10 | 0.05 | 0.01 |", "|---|---|---|---|---|"]
    for name in ("paper's design", "deciles (Wald by status)"):
        for rows in SIZES:
            p = np.array([without_bandwidth(SCENARIOS[name], rows, seed) for seed in range(replications)])
            lines.append(f"| {name} | {rows:,} | " + " | ".join(f"{r:.4f}" for r in rejected(p)) + " |")
    lines += ["", "| scores rounded to | rows | crowding | 0.10 | 0.05 | 0.01 |", "|---|---|---|---|---|---|"]
    for step in (0.5, 0.2, 0.1, 0.05, 0.02):
        for rows in (500, 2_000, 8_000):
            scenario = Scenario(design={"lattice": step})
            with law_throughout():
                p, _, _ = pvalues(scenario, rows, replications // 4)
            ratio = np.mean([crowding(scenario, rows, seed) for seed in range(20)])
            lines.append(f"| {step} | {rows:,} | {ratio:.2f} | " + " | ".join(f"{r:.3f}" for r in rejected(p)) + " |")
    return "\n".join(lines)


@contextmanager
def law_throughout() -> Iterator[None]:
    """The projection's law whatever the rows near the boundary: no rule about ties, zeros or support."""
    rules = {"TIES": np.inf, "FREE": np.inf, "NEAR": 0.0}
    kept = {name: getattr(steps, name) for name in rules}
    try:
        for name, value in rules.items():
            setattr(steps, name, value)
        yield
    finally:
        for name, value in kept.items():
            setattr(steps, name, value)


def crowding(scenario: Scenario, rows: int, seed: int) -> float:
    """The measure of ties that decides between the projection's law and the Wald test."""
    table, asked, _ = draw(scenario, rows, seed)
    width = 1.06 * table.spread * rows ** (-1 / 5)
    boundary = table.boundary(width)
    curvature = asked.phi.T @ (boundary.kernel[:, None] / (rows * width) * asked.phi)
    sigma = covariance(table.cells, asked.influence)
    return boundary.tie / steps.flips_of_chance(table.cells, asked.phi, sigma, curvature, width, boundary)


# --- tests -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["paper's design", "equalized odds", "two-sided tolerance, one comparison"])
def test_size_in_short(name: str) -> None:
    """200 replications: too few to prove the size, enough to catch a broken law."""
    p, wald, fine = pvalues(SCENARIOS[name], 1_000, 200)
    assert np.all(rejected(p) <= ALPHAS + margin(200))
    assert np.all(rejected(wald) <= ALPHAS + margin(200))
    assert fine > 0.99
    assert stats.kstest(p, "uniform").pvalue > 1e-4 or SCENARIOS[name].null is not EQUAL


def test_power_in_short() -> None:
    """Power as the normal law foretells, and the same as that of the Wald and Welch tests on the same data."""
    replications, gap = 200, 0.15
    decided = rejections(PLANTED["equal opportunity, gap {gap}"](gap), 1_000, replications)
    foretold = normal_power(gap, 1_000)
    # Three binomial standard errors of a share of ``replications``.
    assert np.all(np.abs(decided.mean(axis=0) - foretold) <= 3 * np.sqrt(foretold * (1 - foretold) / replications))
    # Paired: with equal power the data sets on which two tests disagree fall to either side like a fair coin, so the
    # difference of the two counts has standard deviation sqrt(disagreements).
    for other in (1, 2):
        difference = decided[:, 0] - decided[:, other]
        assert abs(difference.sum()) <= 3 * np.sqrt(np.abs(difference).sum())


def test_rescaling_is_exact() -> None:
    for seed in range(20):
        base, small, large = (
            replicate(SCENARIOS[n], 500, seed)[0].pvalue
            for n in ("paper's design", "features times 0.01", "features times 100")
        )
        assert small == pytest.approx(base, rel=1e-9)
        assert large == pytest.approx(base, rel=1e-9)


@pytest.mark.parametrize("name", ["one distance of 9999", "5 % of the distances 1e6"])
def test_wild_distances_leave_size_and_power(name: str) -> None:
    """With the standard deviation as spread, a planted gap of 0.2 is found in none of 100 data sets."""
    p, _, fine = pvalues(SCENARIOS[name], 1_000, 200)
    assert np.all(rejected(p) <= ALPHAS + margin(200))
    assert fine > 0.99
    planted = Scenario(design={"equal_opportunity": 0.2}, change=SCENARIOS[name].change)
    assert power(planted, 1_000, 100)[0] > 0.85  # 0.95 without the wild rows; three standard errors are 0.065


@pytest.mark.parametrize("rows", [12, 25])
@pytest.mark.parametrize("edge", [(0.002, 0.10), (0.50, 0.19)])
def test_a_small_group_at_the_edge_in_short(rows: int, edge: tuple[float, float]) -> None:
    assert np.all(at_the_edge(rows, edge, 200) <= 0.05 + margin(200)[1])


@pytest.mark.validity
@pytest.mark.parametrize("rows", [12, 25, 100])
@pytest.mark.parametrize("edge", EDGES)
def test_a_small_group_at_the_edge(rows: int, edge: tuple[float, float]) -> None:
    assert np.all(at_the_edge(rows, edge, REPLICATIONS) <= 0.05 + margin(REPLICATIONS)[1])


@pytest.mark.validity
@pytest.mark.parametrize("rows", SIZES)
@pytest.mark.parametrize("name", SCENARIOS)
def test_size(name: str, rows: int) -> None:
    p, _, _ = pvalues(SCENARIOS[name], rows, REPLICATIONS)
    assert holds(rejected(p), rows, REPLICATIONS), rejected(p)


@pytest.mark.validity
@pytest.mark.parametrize("rows", SIZES)
def test_rescaling_every_replication(rows: int) -> None:
    base, small, large = (
        pvalues(SCENARIOS[n], rows, REPLICATIONS)[0]
        for n in ("paper's design", "features times 0.01", "features times 100")
    )
    assert small == pytest.approx(base, rel=1e-9)
    assert large == pytest.approx(base, rel=1e-9)


# --- the page ----------------------------------------------------------------------------------------------------


def measure(task: tuple[str, str, float, int]) -> Any:
    """One line's numbers. Tasks are named, so that they can be handed to another process."""
    kind, name, at, replications = task
    steps.DRAWS = 5_000
    if kind == "size":
        return pvalues(SCENARIOS[name], int(at), replications)
    if kind == "edge":
        return at_the_edge(int(at), EDGES[int(name)], replications)
    if kind == "power":
        return power(PLANTED[name](at), 1_000, replications)
    with law_throughout():
        return pvalues(DEFECTS[name], int(at), replications)


def page(replications: int) -> str:
    """The figures as Markdown."""
    triple = "{:.4f} | {:.4f} | {:.4f}"
    tasks = [("size", name, rows, replications) for name in SCENARIOS for rows in SIZES]
    tasks += [("defect", name, 2_000, replications) for name in DEFECTS]
    tasks += [("edge", str(i), rows, replications) for i in range(len(EDGES)) for rows in (12, 25, 100)]
    tasks += [("power", name, gap, replications // 4) for name in PLANTED for gap in (0.05, 0.10, 0.15, 0.20)]
    size, defect, edges, planted = [], [], [], []
    base: dict[float, Array] = {}
    furthest = 0.0
    with multiprocessing.get_context("fork").Pool(WORKERS) as pool:
        for (kind, name, at, _), found in zip(tasks, pool.imap(measure, tasks), strict=True):
            if kind == "size":
                p, wald, fine = found
                if name == "paper's design":
                    base[at] = p
                if name.startswith("features"):
                    furthest = max(furthest, float(np.max(np.abs(p / base[at] - 1))))
                sizes = " | ".join(triple.format(*rejected(x)) for x in (p, wald))
                verdict = "yes" if holds(rejected(p), int(at), replications) else "no"
                size.append(f"| {name} | {at:,} | {sizes} | {fine:.3f} | {verdict} |")
            elif kind == "defect":
                defect.append(f"| {name} | {at:,} | {triple.format(*rejected(found[0]))} |")
            elif kind == "edge":
                rate, difference = EDGES[int(name)]
                edges.append(f"| {at} | {rate:g} | {rate + difference:g} | {found[0]:.4f} | {found[1]:.4f} |")
            else:
                shown = " | ".join("–" if np.isnan(v) else f"{v:.3f}" for v in found)
                planted.append(f"| {name.format(gap=at)} | 1,000 | {shown} |")
            print((size + defect + edges + planted)[-1], file=sys.stderr, flush=True)
    margins = ", ".join(f"{a:g}: {m:.4f}" for a, m in zip(ALPHAS, margin(replications), strict=True))
    return f"""# Optimal-transport projection: size and power

Made by `python tests/validity/test_transport.py {replications}`: {replications:,} replications of
`isonomy.simulate.classifier`, replication i with seed i. Laws without a closed form use 5,000 draws a p-value.

## Rejected when the null holds

Asked: at most alpha plus three binomial standard errors ({margins}) at 500 and 1,000 rows, within them on both sides
at 2,000. Tolerances ({TOLERANCE:g}) are tested at the boundary of the null.

| design | rows | 0.10 | 0.05 | 0.01 | Wald 0.10 | Wald 0.05 | Wald 0.01 | status ok | as asked |
|---|---|---|---|---|---|---|---|---|---|
{chr(10).join(size)}

Largest relative change of any p-value when all features are rescaled: {furthest:.1e}.

## A small group at the edge of a tolerance

Beside 2,000 rows, its rate differs from theirs by exactly the tolerance: *violation* and *within tolerance* are both
wrong, each in at most 0.05 of the data sets ({margin(replications)[1]:.4f} more is chance).

| rows | reference's rate | its rate | violation | within tolerance |
|---|---|---|---|---|
{chr(10).join(edges)}

## What goes wrong without the corrections

The projection's law, applied whatever the status.

| design | rows | 0.10 | 0.05 | 0.01 |
|---|---|---|---|---|
{chr(10).join(defect)}

## Power at 0.05

{replications // 4:,} replications.

| planted | rows | projection | Wald | Welch |
|---|---|---|---|---|
{chr(10).join(planted)}
"""


if __name__ == "__main__":
    if sys.argv[1:] == ["study"]:
        sys.exit(print(study(REPLICATIONS)))
    text = page(int(sys.argv[1]) if len(sys.argv) > 1 else REPLICATIONS)
    target = Path(__file__).resolve().parents[2] / "docs" / "validity" / "transport.md"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)
    print(f"wrote {target}")
