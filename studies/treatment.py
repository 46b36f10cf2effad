"""Size, coverage, bias and power of the treatment-effect method, `treatment_bias`, against closed-form truth.

python -m studies.treatment [--tables N] [--only TEXT]        writes docs/validity/treatment.md
python -m studies.treatment --picture                         draws docs/images/treatment_risk.svg
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

import isonomy as iso
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

SIZES = (500, 2_000, 10_000, 50_000)
ARMS = {"half treated": 0.5, "one fifth treated": 0.2}
PLANTED: dict[str, Mapping[str, float]] = {
    "relative": {"n0": 0.3, "n2": -0.2},
    "difference": {"n0": 0.05, "n2": -0.03},
}


def covers(rng: np.random.Generator, measure: Any, sizes: Sequence[int], **design: Any) -> list[BoolArray]:
    """Whether 95 % intervals hold the true error, and the true bias, of each group."""
    table = experiment(rng, sizes, measure=measure, **design)
    result = iso.treatment_bias(table.columns, **ROLES, measure=measure)
    limits = {"error": (result.error_low, result.error_high), "bias": (result.bias_low, result.bias_high)}
    return [(low <= truth(table, name)) & (truth(table, name) <= high) for name, (low, high) in limits.items()]


def rejects(rng: np.random.Generator, measure: Any, sizes: Sequence[int], **design: Any) -> list[FloatArray]:
    """Whether tests of no error, and of no bias, reject for each group, where there is none."""
    table = experiment(rng, sizes, measure=measure, **design)
    result = iso.treatment_bias(table.columns, **ROLES, measure=measure)
    return [rejected(result.error_pvalue), rejected(result.bias_pvalue)]


def coverage(sizes: Sequence[int] = SIZES) -> tuple[Run, ...]:
    """Planted errors for coverage, none for size: measures, outcomes and arms."""
    runs = []
    for measure, planted in PLANTED.items():
        for outcome in ("binary", "real"):
            for arm, treated in ARMS.items():
                design: dict[str, Any] = {"measure": measure, "sizes": sizes, "outcome": outcome, "treated": treated}
                for kind, rate, draw in (
                    ("coverage", 0.95, partial(covers, **design, baseline=0.1, error=planted)),
                    ("size", 0.05, partial(rejects, **design, baseline=0.1)),
                ):
                    asked = (nominal(rate),) * len(sizes)
                    quantities = (f"error: {kind}", f"bias: {kind}")
                    lines = tuple(Line((measure, outcome, arm, quantity), asked) for quantity in quantities)
                    runs.append(Run(lines, each(draw), TABLES))
    return tuple(runs)


# From which size on

SMALL = (100, 250, 500, 1_000, 2_500, 10_000)


def welch(columns: Mapping[str, Any], error: FloatArray) -> FloatArray:
    """Degrees of freedom of each group's error: B = b exactly if the means of Y (f - b) and of Y agree across arms."""
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
    """Coverage at a low base rate: the error by Fieller's interval and by the delta method's, and the bias."""
    table = experiment(rng, SMALL, baseline=0.05, treated=0.2)
    result = iso.treatment_bias(table.columns, **ROLES)
    error, bias = truth(table, "error"), truth(table, "bias")
    return [
        (result.error_low <= error) & (error <= result.error_high),
        np.abs(result.error - error) <= stats.t.isf(0.025, welch(table.columns, result.error)) * result.error_se,
        (result.bias_low <= bias) & (bias <= result.bias_high),
    ]


# Collapsing estimators: one group of 40,000 rows, true effect 1.2917

COLLAPSES = ("control_outcome", "average", "weighted", "normalised", "positives", "positives_inverse")
CASES: dict[str, dict[str, float]] = {
    "the model is right": {},
    "baseline with half the true slope": {"heterogeneity": 0.36, "trend": 0.8, "predicted_trend": 0.4},
    "heterogeneity with the wrong sign": {"heterogeneity": 0.32, "predicted_heterogeneity": -0.32},
}


def collapsed(rng: np.random.Generator, collapse: Any, cases: Sequence[str] = tuple(CASES)) -> list[float]:
    """Error of the predicted effect in each case; beside the group there is another, since a bias needs a rest."""
    baseline = "baseline" if collapse in ("weighted", "normalised") else None
    errors = []
    for case in cases:
        table = experiment(rng, (40_000, 1_000), **CASES[case])
        result = iso.treatment_bias(table.columns, **ROLES, collapse=collapse, baseline=baseline)
        errors.append(float(result.predicted[0] - truth(table, "predicted")[0]))
    return errors


def mean_and_spread(outcomes: FloatArray) -> list[str]:
    """Such as "-0.0417 (0.0007)"."""
    pairs = zip(outcomes.mean(axis=0), outcomes.std(axis=0, ddof=1), strict=True)
    return [f"{mean:+.4f} ({spread:.4f})" for mean, spread in pairs]


# Three variances

TWO = (20_000, 50_000)
VARIANCES = ("influence", "bootstrap", "independent", "bootstrap / influence", "independent / influence")


def three_variances(rng: np.random.Generator, measure: Any, sizes: Sequence[int] = TWO) -> list[FloatArray]:
    """Estimates and standard errors of error and bias: by influence functions, bootstrap, and independent halves."""
    columns = experiment(rng, sizes, measure=measure, treated=0.3).columns
    ways: tuple[dict[str, Any], ...] = ({}, {"variance": "bootstrap", "resamples": 200}, {"split": "independent"})
    results = [iso.treatment_bias(columns, **ROLES, measure=measure, rng=rng, **way) for way in ways]
    return [np.concatenate([r.error, r.bias, r.error_se, r.bias_se]) for r in results]


def ratios(outcomes: FloatArray) -> list[float]:
    """Each way's standard error over the spread of its own estimates, and over the influence function's."""
    ways = outcomes.reshape(len(outcomes), 3, 2, -1)  # tables, ways, estimate or standard error, quantities
    spread = ways[:, :, 0].std(axis=0, ddof=1)
    size = np.sqrt(np.mean(ways[:, :, 1] ** 2, axis=0))
    # Each half has half of the rows: its variance is twice that of the whole.
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

ERRORS = (0.0, 0.1, 0.2, 0.3, 0.4)


def flagged(rng: np.random.Generator, errors: Sequence[float] = ERRORS) -> list[float]:
    """Whether the first of ten groups of 20,000 rows is flagged after Holm's adjustment, for each planted error."""
    flags = []
    for error in errors:
        columns = experiment(rng, [20_000] * 10, error={"n0": error}, baseline=0.1).columns
        flags.append(float(rejected(iso.treatment_bias(columns, **ROLES).adjusted_pvalue[0])))
    return flags


# Risk of corrections, by quadrature

RATIOS = np.arange(0, 4.5, 0.5)
STRATEGIES = ("none", "mean", "significant", "mse_plus", "mse_minus", "positive_part")


def risk(_: np.random.Generator, __: int, strategy: str) -> FloatArray:
    """Mean squared remaining error over the variance of the estimated error."""
    return iso.correction_risk(RATIOS)[strategy][None]


def regret(_: np.random.Generator, __: int, strategy: str) -> FloatArray:
    """Largest risk above the better of no and full correction, above the worse of them, and mean risk."""
    risks = iso.correction_risk()
    better, worse = np.minimum(risks["none"], risks["mean"]), np.maximum(risks["none"], risks["mean"])
    own = risks[strategy]
    return np.array([[np.max(own - better), max(0.0, np.max(own - worse)), np.mean(own)]])


def picture() -> None:
    """The risk table as a chart."""
    import altair as alt

    from isonomy.results import theme

    risks = iso.correction_risk()
    data = theme.data(
        {
            "strategy": np.repeat(np.array(STRATEGIES), risks["ratio"].size),
            "ratio": np.tile(risks["ratio"], len(STRATEGIES)),
            "risk": np.concatenate([risks[name] for name in STRATEGIES]),
        }
    )
    names = alt.Color("strategy:N", sort=list(STRATEGIES), title=None)
    chart = (
        alt.Chart(data)
        .mark_line(clip=True)
        .encode(
            x=alt.X("ratio:Q", title="true error / its standard error"),
            y=alt.Y("risk:Q", title="mean squared remaining error / variance", scale=alt.Scale(domain=[0, 3])),
            color=names,
            strokeDash=alt.StrokeDash("strategy:N", sort=list(STRATEGIES), title=None),
        )
        .properties(width=520, height=280)
    )
    path = Path(__file__).resolve().parents[1] / "docs" / "images" / "treatment_risk.svg"
    path.write_text(theme.to_svg(theme.finish(chart)))
    print(f"wrote {path}")


def of_sizes(sizes: Sequence[int]) -> tuple[str, ...]:
    """Column names."""
    return tuple(f"{size:,}" for size in sizes)


LARGE = (None, None, None, nominal(0.95), nominal(0.95), nominal(0.95))
PAGE = Page(
    "treatment",
    (
        Section(
            "Coverage of 95 % intervals, planted errors; size of 5 % tests, no error",
            ("measure", "outcome", "arms", "quantity"),
            of_sizes(SIZES),
            coverage(),
        ),
        Section(
            "From which size on",
            ("rows",),
            of_sizes(SMALL),
            (
                Run(
                    (
                        Line(("error, Fieller (default)",), LARGE),
                        Line(("error, delta method",)),
                        Line(("bias",), LARGE),
                    ),
                    each(few_events),
                    TABLES,
                ),
            ),
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
            (Run((Line(("found",), (at_most(0.05),)),), each(flagged), TABLES),),
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
