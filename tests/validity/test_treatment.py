"""Size, coverage, bias and power of the treatment-effect method, against closed-form truth.

    python tests/validity/test_treatment.py      writes docs/validity/treatment.md and docs/images/treatment_risk.svg
    pytest -m validity tests/validity/test_treatment.py

Short versions of every simulation run by default. Margins are three binomial standard errors.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from isonomy.simulate import uplift
from isonomy.treatment.collapse import COLLAPSES
from isonomy.treatment.estimate import estimate, estimate_split, values
from isonomy.treatment.mitigate import DEFAULT_STRATEGY, STRATEGIES, correction_risk
from isonomy.treatment.moments import column
from isonomy.treatment.plan import Plan, make_plan
from isonomy.treatment.ratio import Gap, t_critical, t_tail
from isonomy.treatment.resample import resample_cells
from isonomy.treatment.tally import KINDS, Cells

ALPHA = 0.05
FULL, SHORT = 1_000, 150


def margin(rate: float, replications: int) -> float:
    """Three binomial standard errors."""
    return 3 * float(np.sqrt(rate * (1 - rate) / replications))


def plan_for(measure: str, collapse: str | None = None, **options: Any) -> Plan:
    roles = {"effect": "effect", "treatment": "treatment", "outcome": "outcome", "groups": "group"}
    baseline = "baseline" if collapse is not None and COLLAPSES[collapse].baseline else None
    return make_plan(**roles, baseline=baseline, measure=measure, collapse=collapse, **options)


def cells_of(block: Mapping[str, Any], plan: Plan, groups: int, halves: bool = False) -> Cells:
    """The cells of one simulated table, by numpy instead of an engine."""
    arrays = {"f": block["effect"], "h": block["baseline"], "x:x": block["x"]}
    y = np.asarray(block["outcome"], dtype=float)
    codes = block["group"].codes
    kind = np.where(y == 0, 0, np.where(y == 1, 1, 2))
    half = np.arange(len(y)) % 2 if halves else np.zeros(len(y), dtype=int)
    shape = (groups, 1 + halves, 2, KINDS)
    at = np.ravel_multi_index((codes, half, block["treatment"], kind), shape)
    rows = []
    for name in plan.columns:
        made = y ** column(name).power
        for factor in column(name).factors:
            made = made / block["effect"] if factor == "1/f" else made * arrays[factor]
        rows.append(made)

    def total(weights: Any) -> Any:
        return np.bincount(at, weights, int(np.prod(shape))).reshape(shape)

    products = [[total(a * b) for b in rows] for a in rows]
    return Cells(
        plan.columns,
        (),
        total(np.ones(len(y))),
        np.stack([total(r) for r in rows], -1),
        np.moveaxis(np.array(products), (0, 1), (-2, -1)),
    )


@dataclass(frozen=True)
class Study:
    """One design: estimates of every replication, and the truth."""

    error: Any  # (replication, group)
    rest: Any
    truth: Sequence[Mapping[str, float]]

    def coverage(self) -> tuple[Any, Any]:
        """Share of intervals that hold the true error, and the true bias."""
        error, gap = self.error, Gap(self.error, self.rest)
        made = []
        for law, name in ((error, "error"), (gap, "bias")):
            low, high = law.limits(t_critical(ALPHA / 2, law.df))
            true = np.array([t[name] for t in self.truth])
            made.append(((low <= true) & (true <= high)).mean(0))
        return made[0], made[1]

    def delta_coverage(self) -> Any:
        """The same for the error, with the delta method's interval."""
        true = np.array([t["error"] for t in self.truth])
        return (np.abs(self.error.value - true) <= t_critical(ALPHA / 2, self.error.df) * self.error.se).mean(0)

    def rejections(self) -> tuple[Any, Any]:
        """Share of tests that reject at ALPHA: no error, no bias."""
        gap = Gap(self.error, self.rest)
        return tuple((2 * t_tail(np.abs(law.statistic()), law.df) <= ALPHA).mean(0) for law in (self.error, gap))  # type: ignore[return-value]


def study(
    sizes: Sequence[int], replications: int, *, seed: int, plan: Plan, halves: bool = False, **design: Any
) -> Study:
    """Draw, tally and estimate ``replications`` tables with groups of the given sizes."""
    names = [f"n{i}" for i in range(len(sizes))]
    total = sum(sizes)
    simulated = uplift(
        total, groups={n: s / total for n, s in zip(names, sizes, strict=True)}, measure=plan.measure, **design
    )
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(replications):
        cells = cells_of(simulated.draw(rng, 0, total), plan, len(sizes), halves)
        parts = [cells.moments(np.array([k])) for k in range(1 + halves)]
        made.append(estimate_split(parts[0], parts[1], plan) if halves else estimate(parts[0], plan))
    truth = [simulated.truth["groups"][f"group={n}"] for n in names]
    return Study(_stacked([m.error for m in made]), _stacked([m.rest for m in made]), truth)


def _stacked(laws: list[Any]) -> Any:
    return type(laws[0])(
        *(np.stack([getattr(law, n) for law in laws]) for n in ("top", "bottom", "tt", "tb", "bb", "df"))
    )


SIZES = (500, 2_000, 10_000, 50_000)
ARMS = {"half treated": 0.5, "one fifth treated": 0.2}
DESIGNS = [
    (measure, outcome, arm) for measure in ("relative", "difference") for outcome in ("binary", "real") for arm in ARMS
]


def coverage_study(
    measure: str, outcome: str, arm: str, replications: int, sizes: Sequence[int], planted: bool
) -> Study:
    """At least ten expected events in the smaller arm of the smallest group (500 rows): 100 treated, base rate 0.1."""
    error = {"n0": 0.3, "n2": -0.2} if planted else 0.0
    if measure == "difference":
        error = {"n0": 0.05, "n2": -0.03} if planted else 0.0
    return study(
        sizes,
        replications,
        seed=zlib.crc32(f"{measure} {outcome} {arm} {planted}".encode()),
        plan=plan_for(measure),
        outcome=outcome,
        treated=ARMS[arm],
        baseline=0.1,
        error=error,
    )


def check_coverage(found: Study, replications: int) -> None:
    for rates in found.coverage():
        assert np.abs(rates - (1 - ALPHA)).max() <= margin(ALPHA, replications), rates


def check_size(found: Study, replications: int) -> None:
    for rates in found.rejections():
        assert np.abs(rates - ALPHA).max() <= margin(ALPHA, replications), rates


@pytest.mark.validity
@pytest.mark.parametrize(("measure", "outcome", "arm"), DESIGNS)
def test_coverage(measure: str, outcome: str, arm: str) -> None:
    check_coverage(coverage_study(measure, outcome, arm, FULL, SIZES, planted=True), FULL)


@pytest.mark.validity
@pytest.mark.parametrize(("measure", "outcome", "arm"), DESIGNS)
def test_size(measure: str, outcome: str, arm: str) -> None:
    check_size(coverage_study(measure, outcome, arm, FULL, SIZES, planted=False), FULL)


@pytest.mark.parametrize(("measure", "outcome"), [("relative", "binary"), ("difference", "real")])
def test_coverage_and_size_short(measure: str, outcome: str) -> None:
    found = coverage_study(measure, outcome, "one fifth treated", SHORT, (500, 4_000), planted=False)
    check_coverage(found, SHORT)
    check_size(found, SHORT)


# Collapsing estimators: n = 40,000, one group, true effect 1.2917

COLLAPSE_CASES: dict[str, dict[str, float]] = {
    "the model is right": {},
    "baseline with half the true slope": {"heterogeneity": 0.36, "trend": 0.8, "predicted_trend": 0.4},
    "heterogeneity with the wrong sign": {"heterogeneity": 0.32, "predicted_heterogeneity": -0.32},
}


def collapse_study(case: str, replications: int, seed: int = 3) -> dict[str, tuple[float, float]]:
    """Mean error and standard deviation of each collapsing estimator of the predicted effect."""
    simulated = uplift(40_000, groups=1, **COLLAPSE_CASES[case])
    truth = simulated.truth["groups"]["group=a"]["predicted"]
    plans = {name: plan_for("relative", name) for name in COLLAPSES}
    rng = np.random.default_rng(seed)
    found: dict[str, list[float]] = {name: [] for name in plans}
    for _ in range(replications):
        block = simulated.draw(rng, 0, 40_000)
        for name, plan in plans.items():
            moments = cells_of(block, plan, 1).moments()
            found[name].append(float(values(moments, plan, np.array([True])).predicted[0]) - truth)
    return {name: (float(np.mean(v)), float(np.std(v, ddof=1))) for name, v in found.items()}


# The specification's table: error of each estimator when the model is right.
EXPECTED = {
    "average": (-0.0416, 0.0007),
    "weighted": (0.0013, 0.0282),
    "normalised": (0.0000, 0.0007),
    "positives": (0.0075, 0.0021),
    "control_outcome": (0.0002, 0.0033),
    "positives_inverse": (0.0001, 0.0022),
}


@pytest.mark.validity
def test_collapsing_estimators() -> None:
    check_collapse(400)


def test_collapsing_estimators_short() -> None:
    check_collapse(60)


def check_collapse(replications: int) -> None:
    """Both means have Monte Carlo error: ours of ``replications``, the published one of 400 and of rounding."""
    for name, (mean, sd) in collapse_study("the model is right", replications).items():
        published, published_sd = EXPECTED[name]
        slack = 4 * published_sd * np.sqrt(1 / replications + 1 / 400) + 0.0001
        assert abs(mean - published) <= slack, (name, mean, published)
        assert abs(sd / published_sd - 1) <= 4 / np.sqrt(2 * replications) + 4 / np.sqrt(800) + 0.05, (name, sd)


def test_only_control_outcomes_survive_a_wrong_model() -> None:
    wrong_baseline = collapse_study("baseline with half the true slope", 40)
    wrong_sign = collapse_study("heterogeneity with the wrong sign", 40)
    for found in (wrong_baseline, wrong_sign):
        mean, sd = found["control_outcome"]
        assert abs(mean) <= 4 * sd / np.sqrt(40) + 0.0005
    assert wrong_baseline["normalised"][0] == pytest.approx(-0.060, abs=0.001)
    assert wrong_sign["positives_inverse"][0] == pytest.approx(-0.040, abs=0.002)


# Three variances


def variance_study(measure: str, replications: int, sizes: Sequence[int], resamples: int = 200) -> dict[str, Any]:
    """Mean standard error by each of the three ways, over the Monte Carlo standard deviation of its own estimate."""
    plan = plan_for(measure)
    names = [f"n{i}" for i in range(len(sizes))]
    total = sum(sizes)
    simulated = uplift(
        total, groups={n: s / total for n, s in zip(names, sizes, strict=True)}, measure=measure, treated=0.3
    )
    rng = np.random.default_rng(11)
    se: dict[str, list[Any]] = {"influence": [], "bootstrap": [], "independent": []}
    value: dict[str, list[Any]] = {"whole": [], "split": []}
    for _ in range(replications):
        cells = cells_of(simulated.draw(rng, 0, total), plan, len(sizes), halves=True)
        moments = cells.moments()
        whole = estimate(moments, plan)
        drawn = values(resample_cells(cells, resamples, rng), plan, whole.usable)
        split = estimate_split(cells.moments(np.array([0])), cells.moments(np.array([1])), plan)
        gaps = Gap(whole.error, whole.rest), Gap(split.error, split.rest)
        se["influence"].append([whole.error.se, gaps[0].se])
        se["bootstrap"].append([drawn.error.std(0, ddof=1), (drawn.error - drawn.rest_error).std(0, ddof=1)])
        se["independent"].append([split.error.se, gaps[1].se])
        value["whole"].append([whole.error.value, gaps[0].value])
        value["split"].append([split.error.value, gaps[1].value])
    spread = {name: np.std(v, axis=0, ddof=1) for name, v in value.items()}
    mean = {name: np.sqrt(np.mean(np.square(v), axis=0)) for name, v in se.items()}
    return {
        "influence": mean["influence"] / spread["whole"],
        "bootstrap": mean["bootstrap"] / spread["whole"],
        "independent": mean["independent"] / spread["split"],
        # Each half has half of the rows: its variance is twice that of the whole.
        "bootstrap / influence": mean["bootstrap"] / mean["influence"],
        "independent / influence": mean["independent"] / np.sqrt(2) / mean["influence"],
    }


@pytest.mark.validity
@pytest.mark.parametrize("measure", ["relative", "difference"])
def test_three_variances_agree(measure: str) -> None:
    check_variances(variance_study(measure, FULL, (20_000, 50_000)), FULL)


def test_three_variances_agree_short() -> None:
    check_ratios(variance_study("relative", 30, (20_000, 20_000)))


def check_ratios(found: Mapping[str, Any]) -> None:
    for name in ("bootstrap / influence", "independent / influence"):
        assert np.abs(found[name] - 1).max() <= 0.05, (name, found[name])


def check_variances(found: Mapping[str, Any], replications: int) -> None:
    check_ratios(found)
    for name in ("influence", "bootstrap", "independent"):
        # The Monte Carlo standard deviation has a relative error of 1 / sqrt(2 replications).
        assert np.abs(found[name] - 1).max() <= 0.05 + 3 / np.sqrt(2 * replications), (name, found[name])


# Corrections


def test_the_default_is_never_worse_than_both_none_and_mean() -> None:
    risks = correction_risk()
    for name in ("mse_plus", "mse_minus", "positive_part"):
        assert (risks[name] <= np.maximum(risks["none"], risks["mean"])).all(), name
    regret = risks[DEFAULT_STRATEGY] - np.minimum(risks["none"], risks["mean"])
    assert regret.max() <= 0.5  # in units of the variance of the estimated error


def power_study(replications: int, error: Sequence[float], size: int = 20_000, groups: int = 10) -> Any:
    """Share of replications in which the first group's bias is found (Holm over groups), for each planted error."""
    from isonomy.inference.multiplicity import adjust

    plan = plan_for("relative")
    rates = []
    for planted in error:
        found = study([size] * groups, replications, seed=5, plan=plan, error={"n0": planted}, baseline=0.1)
        gap = Gap(found.error, found.rest)
        pvalues = 2 * t_tail(np.abs(gap.statistic()), gap.df)
        rates.append(np.mean([adjust(p, "holm")[0] <= ALPHA for p in pvalues]))
    return np.array(rates)


def test_power_rises_to_one() -> None:
    low, high = power_study(40, [0.0, 0.4])
    assert low <= 0.05 + margin(0.05, 40)
    assert high >= 0.9


# The report


def report() -> str:
    lines = [
        "# Validity of the treatment-effect method",
        "",
        "Made by `python tests/validity/test_treatment.py`; truth in closed form from `isonomy.simulate.uplift`.",
        f"{FULL:,} replications unless said otherwise; a rate of 0.95 or 0.05 has a margin of "
        f"+-{margin(ALPHA, FULL):.4f} (three standard errors).",
        "",
        "## Coverage of 95 % intervals, planted errors; size of 5 % tests, no error",
        "",
        f"Four groups of {', '.join(f'{s:,}' for s in SIZES)} rows, base rate 0.1 (real outcomes: gamma, coefficient "
        "of variation 1). The smallest group has 100 treated rows when one fifth is treated: 12 expected events.",
        "",
        "| measure | outcome | arms | quantity | " + " | ".join(f"{s:,}" for s in SIZES) + " |",
        "|---|---|---|---|" + "---|" * len(SIZES),
    ]
    lines += coverage_lines()
    lines += from_which_size()
    lines += [
        "",
        "## Collapsing estimators",
        "",
        "Error (standard deviation) of the predicted effect, one group of 40,000 rows, half treated, base rate 0.1, "
        "400 replications.",
        "",
        "| collapse | " + " | ".join(COLLAPSE_CASES) + " |",
        "|---|" + "---|" * len(COLLAPSE_CASES),
    ]
    cases = [collapse_study(case, 400) for case in COLLAPSE_CASES]
    for name in COLLAPSES:
        lines.append(f"| `{name}` | " + " | ".join(f"{c[name][0]:+.4f} ({c[name][1]:.4f})" for c in cases) + " |")
    lines += [
        "",
        "## Three variances",
        "",
        "Root mean square standard error over the Monte Carlo standard deviation of the same estimate (first three), "
        "and over the influence function's (last two; the split's rows are halved, so its standard error is divided by "
        "sqrt 2). Two groups of 20,000 and 50,000 rows, three tenths treated, 200 resamples.",
        "",
        "| measure | quantity | " + " | ".join(_VARIANCES) + " |",
        "|---|---|" + "---|" * len(_VARIANCES),
    ]
    for measure in ("relative", "difference"):
        found = variance_study(measure, FULL, (20_000, 50_000))
        for q, quantity in enumerate(("error", "bias")):
            for g, size in enumerate(("20,000", "50,000")):
                row = " | ".join(f"{found[name][q][g]:.3f}" for name in _VARIANCES)
                lines.append(f"| {measure} | {quantity}, {size} rows | {row} |")
    planted = [0.0, 0.1, 0.2, 0.3, 0.4]
    power = power_study(FULL, planted)
    lines += [
        "",
        "## Power",
        "",
        "Ten groups of 20,000 rows, base rate 0.1, one group's predicted relative effect off by the planted error; "
        "share of replications in which its bias is found after Holm's adjustment.",
        "",
        "| planted | " + " | ".join(f"{p:g}" for p in planted) + " |",
        "|---|" + "---|" * len(planted),
        "| found | " + " | ".join(f"{p:.3f}" for p in power) + " |",
        "",
        "## Risk of corrections",
        "",
        "Mean squared remaining error over the variance of the estimated error (`isonomy.correction_risk`, by "
        "quadrature).",
        "",
    ]
    at = np.arange(0, 4.5, 0.5)
    risks = correction_risk(at)
    lines += ["| b / sd | " + " | ".join(f"{a:g}" for a in at) + " |", "|---|" + "---|" * len(at)]
    lines += [f"| `{name}` | " + " | ".join(f"{r:.2f}" for r in risks[name]) + " |" for name in STRATEGIES]
    fine = correction_risk()
    for name in ("significant", "mse_plus", "positive_part"):
        better, worse = np.minimum(fine["none"], fine["mean"]), np.maximum(fine["none"], fine["mean"])
        lines.append(
            ("\n" if name == "significant" else "")
            + f"`{name}`: at most {np.max(fine[name] - better):.2f} above the better of `none` and `mean`, at most "
            f"{max(0.0, np.max(fine[name] - worse)):.2f} above the worse of them, mean over [0, 4] "
            f"{np.mean(fine[name]):.2f}.  "
        )
    return "\n".join(lines) + "\n"


_VARIANCES = ("influence", "bootstrap", "independent", "bootstrap / influence", "independent / influence")


def from_which_size() -> list[str]:
    """Coverage by number of rows at a low base rate: what matters is the number of events in the smaller arm."""
    sizes = (100, 250, 500, 1_000, 2_500, 10_000)
    found = study(sizes, FULL, seed=9, plan=plan_for("relative"), baseline=0.05, treated=0.2)
    error, bias = found.coverage()
    events = [s * 0.2 * 0.05 * 1.2917 for s in sizes]
    return [
        "",
        "## From which size on",
        "",
        "Relative effects, 0/1 outcome, base rate 0.05, one fifth treated, no error: coverage of 95 % intervals.",
        "",
        "| rows | " + " | ".join(f"{s:,}" for s in sizes) + " |",
        "|---|" + "---|" * len(sizes),
        "| expected events among the treated | " + " | ".join(f"{e:.1f}" for e in events) + " |",
        "| error, Fieller (default) | " + " | ".join(f"{r:.3f}" for r in error) + " |",
        "| error, delta method | " + " | ".join(f"{r:.3f}" for r in found.delta_coverage()) + " |",
        "| bias | " + " | ".join(f"{r:.3f}" for r in bias) + " |",
    ]


def coverage_lines() -> list[str]:
    lines = []
    names = ("error: coverage", "bias: coverage", "error: size", "bias: size")
    for design in DESIGNS:
        covered = coverage_study(*design, FULL, SIZES, planted=True).coverage()
        rejected = coverage_study(*design, FULL, SIZES, planted=False).rejections()
        made = [
            f"| {' | '.join(design)} | {name} | " + " | ".join(f"{r:.3f}" for r in rates) + " |"
            for name, rates in zip(names, (*covered, *rejected), strict=True)
        ]
        print("\n".join(made), file=sys.stderr, flush=True)
        lines += made
    return lines


def draw_risk(folder: Path) -> None:
    """The picture of the risk table."""
    from isonomy.results.theme import to_svg
    from isonomy.treatment.figure import risk

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "treatment_risk.svg").write_text(to_svg(risk(correction_risk())))


if __name__ == "__main__":
    docs = Path(__file__).resolve().parents[2] / "docs"
    draw_risk(docs / "images")
    (docs / "validity").mkdir(parents=True, exist_ok=True)
    (docs / "validity" / "treatment.md").write_text(report())
    print(f"wrote {docs / 'validity' / 'treatment.md'}", file=sys.stderr)
