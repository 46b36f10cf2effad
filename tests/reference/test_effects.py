"""Comparison with independent programs: scipy's Welch test, statsmodels' regressions, and plain numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
import statsmodels.api as sm
from scipy import optimize, stats

import isonomy as iso
from isonomy.results import Status
from support.data import folder
from support.tables import observed as observed_in

ROLES: dict[str, Any] = {"effect": "effect", "treatment": "treatment", "outcome": "outcome", "groups": "group"}


def group(trial_rows: dict[str, Any], name: str) -> tuple[Any, Any, Any, Any]:
    here = trial_rows["group"] == name
    return tuple(np.asarray(trial_rows[k], dtype=float)[here] for k in ("treatment", "outcome", "effect", "x"))


@pytest.fixture(scope="module", params=["binary", "real"])
def trial_rows(request: pytest.FixtureRequest) -> dict[str, Any]:
    return dict(iso.simulate.uplift(9_000, 2, groups=3, baseline=0.2, treated=0.3, outcome=request.param).columns)


def test_the_error_is_a_welch_test(trial_rows: dict[str, Any]) -> None:
    """B = b exactly when the means of Y (f - b) among controls and of Y among the treated are equal."""
    result = iso.treatment_bias(trial_rows, **ROLES, method="welch")
    for i, name in enumerate("abc"):
        t, y, f, _ = group(trial_rows, name)

        def welch(b: float, t: Any = t, y: Any = y, f: Any = f) -> Any:
            return stats.ttest_ind(y[t == 0] * (f[t == 0] - b), y[t == 1], equal_var=False)

        at_zero = welch(0.0)
        # Our degrees of freedom are those at the estimate, scipy's those at the null: they differ in the fourth digit.
        assert result.error_pvalue[i] == pytest.approx(at_zero.pvalue, rel=0.01)
        assert welch(result.estimate[i]).statistic == pytest.approx(0, abs=1e-9)
        se = result.error_se[i]
        low = optimize.brentq(lambda b: welch(b).pvalue - 0.05, result.estimate[i] - 4 * se, result.estimate[i] - se)
        high = optimize.brentq(lambda b: welch(b).pvalue - 0.05, result.estimate[i] + se, result.estimate[i] + 5 * se)
        assert result.error_low[i] == pytest.approx(low, abs=0.01 * se)
        assert result.error_high[i] == pytest.approx(high, abs=0.01 * se)


def test_the_influence_function_of_the_paper_row_by_row(trial_rows: dict[str, Any]) -> None:
    """(1-T)/(1-pi) [Y (f - P) + tau (Y - m0)] / m0 - T/pi (Y - m1) / m0, its variance over the rows."""
    result = iso.treatment_bias(trial_rows, **ROLES)
    for i, name in enumerate("abc"):
        t, y, f, _ = group(trial_rows, name)
        m0, m1, pi = y[t == 0].mean(), y[t == 1].mean(), t.mean()
        p, tau = (y * f)[t == 0].mean() / m0, m1 / m0
        influence = (1 - t) / (1 - pi) * (y * (f - p) + tau * (y - m0)) / m0 - t / pi * (y - m1) / m0
        assert result.estimate[i] == pytest.approx(p - tau, rel=1e-12)
        # n against n - 1 in each arm
        assert result.error_se[i] == pytest.approx(np.sqrt(np.mean(influence**2) / len(t)), rel=2e-3)


def test_a_difference_against_scipy(trial_rows: dict[str, Any]) -> None:
    """With a constant prediction, the error of a difference is a Welch comparison of the arm means."""
    made = {**trial_rows, "effect": np.full(len(trial_rows["x"]), 0.05)}
    result = iso.treatment_bias(made, **ROLES, measure="difference", method="welch")
    for i, name in enumerate("abc"):
        t, y, _, _ = group(made, name)
        welch = stats.ttest_ind(y[t == 1], y[t == 0] + 0.05, equal_var=False)
        interval = welch.confidence_interval(0.95)
        assert result.error_pvalue[i] == pytest.approx(welch.pvalue, rel=1e-8)
        assert result.error_low[i] == pytest.approx(-interval.high, rel=1e-8)
        assert result.error_high[i] == pytest.approx(-interval.low, rel=1e-8)


def test_the_ratio_of_means_against_statsmodels() -> None:
    """The observed relative effect of a 0/1 outcome is statsmodels' risk ratio."""
    made = dict(iso.simulate.uplift(9_000, 2, groups=3, baseline=0.2, treated=0.3).columns)
    result = iso.treatment_bias(made, **ROLES)
    for i, name in enumerate("abc"):
        t, y, _, _ = group(made, name)
        counts = [[((t == a) & (y == b)).sum() for b in (1, 0)] for a in (1, 0)]
        assert result.observed[i] == pytest.approx(sm.stats.Table2x2(np.array(counts)).riskratio, rel=1e-12)


def test_regression_adjustment_against_statsmodels(trial_rows: dict[str, Any]) -> None:
    """Lin's estimator: the coefficient of T in a regression of Y on T, centered x and their product."""
    made = {**trial_rows, "effect": np.full(len(trial_rows["x"]), 0.05)}
    result = iso.treatment_bias(made, **ROLES, measure="difference", estimator=iso.regression(["x"]))
    for i, name in enumerate("abc"):
        t, y, _, x = group(made, name)
        centred = x - x.mean()
        fit = sm.OLS(y, np.column_stack([np.ones(len(t)), t, centred, t * centred])).fit(cov_type="HC2")
        assert result.observed[i] == pytest.approx(fit.params[1], rel=1e-9)
        # Ours also includes the sampling of x (a population effect), and both are estimates: within 2 %.
        assert result.error_se[i] == pytest.approx(fit.bse[1], rel=0.02)


def test_adjusted_pvalues_against_statsmodels(trial_rows: dict[str, Any]) -> None:
    from statsmodels.stats.multitest import multipletests

    names: list[tuple[Any, str]] = [("holm", "holm"), ("bonferroni", "bonferroni"), ("bh", "fdr_bh")]
    for ours, theirs in names:
        result = iso.treatment_bias(trial_rows, **ROLES, adjust=ours)
        np.testing.assert_allclose(result.adjusted_pvalue, multipletests(result.pvalue, method=theirs)[1])


def test_few_events_by_an_exact_conditional_test() -> None:
    """Without heterogeneity, x1 given x1 + x0 is binomial, and scipy's binomial gives the mid-p value."""
    counts = {"a": (3_000, 12, 2_000, 3), "b": (400_000, 1_600, 400_000, 2_000)}
    lines = [
        (name, t, y, 1.25, rows - events if y == 0 else events)
        for name, (n0, x0, n1, x1) in counts.items()
        for t, rows, events in ((0, n0, x0), (1, n1, x1))
        for y in (0, 1)
    ]
    columns = dict(zip(("group", "treatment", "outcome", "effect", "rows"), zip(*lines, strict=True), strict=True))
    result = iso.treatment_bias({k: np.array(v) for k, v in columns.items()}, **ROLES, count="rows", adjust="none")
    chance = 1.25 * 2_000 / (1.25 * 2_000 + 3_000)
    law = stats.binom(15, chance)
    # At rates of 0.4 %, the binomials are Poisson up to a factor of 0.996 in the variance.
    assert result.error_pvalue[0] == pytest.approx(2 * (law.cdf(3) - law.pmf(3) / 2), rel=0.01)
    assert result.status[0] is Status.OK


@pytest.mark.parametrize("name", ["Hillstrom", "social pressure", "NSW"])
def test_from_fitting_to_correction_to_evaluation(name: str) -> None:
    """The worked example on public experiments, with observed effects computed by hand."""
    from papers.effects_worked import EXPERIMENTS, SEED, worked

    experiment, place = EXPERIMENTS[name], folder()
    if place is None or not (place / experiment.file).exists():
        pytest.skip(f"{experiment.file} is not there; set ISONOMY_DATA")
    table = pl.read_csv(place / experiment.file, infer_schema_length=None)
    result = worked(table, experiment)
    rows = experiment.prepare(table)
    judged = rows.filter(pl.Series(np.random.default_rng(SEED).integers(0, 3, len(rows)) == 2))
    for label, observed in zip(result.before.labels, result.before.observed, strict=True):
        here = judged.filter(pl.col("group").cast(pl.String) == label.removeprefix("group="))
        m0, m1 = (float(here.filter(treatment=t)["outcome"].mean()) for t in (0, 1))  # type: ignore[arg-type]
        assert observed == pytest.approx(m1 / m0 if experiment.measure == "relative" else m1 - m0, rel=1e-9)
    # A correction of a whole group changes its error by the same amount.
    np.testing.assert_allclose(result.before.estimate - result.after.estimate, result.corrector.correction_, rtol=1e-6)
    assert not any(verdict.value == "violation" for verdict in result.after.verdicts)
    # The second and third parts together are twice the rows of the third, which alone shows no bias.
    shown = {"social pressure": "Less bias shown: by 1 of 8 corrections"}
    assert shown.get(name, "none of 8 was shown") in result.evaluation.headline()
    if name != "NSW":  # 240 rows of earnings are too few to learn a correction from
        assert result.price.bias_after[0] < result.price.bias_before[0]


def test_the_papers_procedure_on_the_platform_is_the_papers() -> None:
    """Equations 15 and 20 by hand, on separate halves of the rows and against the pooled rest."""
    from papers.effects_platform import procedures

    detection, evaluation = procedures("cells")["as published"]
    rows = dict(iso.simulate.uplift(60_000, 3, groups=3, baseline=0.3, error={"b": 0.3}, noise=0.2).columns)
    rows["half"] = np.random.default_rng(1).integers(0, 2, 60_000)
    group, half, t, y, f = (np.asarray(rows[k]) for k in ("group", "half", "treatment", "outcome", "effect"))

    def error(here: Any) -> float:
        p, e = here & (half == 0), here & (half == 1)  # the prediction set and the estimation set
        events = [float(y[p & (t == arm)].sum()) for arm in (0, 1)]
        untreated, treated = (float((y * f)[p & (t == arm)].sum()) / events[arm] for arm in (0, 1))  # (19), (18)
        predicted = (events[0] * untreated**2 + events[1] * treated) / (events[0] * untreated + events[1])  # (20)
        return predicted - float(y[e & (t == 1)].mean() / y[e & (t == 0)].mean())  # (15)

    result = iso.treatment_bias(rows, **ROLES, **{**detection, "estimator": observed_in("half")}, rng=1)
    expected = [error(group == name) for name in "abc"]
    np.testing.assert_allclose(result.estimate, expected, rtol=1e-9)
    rest = [error(group != name) for name in "abc"]
    np.testing.assert_allclose(result.disparity, np.array(expected) - rest, rtol=1e-9)
    df = np.array([float((group == name).sum() - 2) for name in "abc"])  # equation (27)
    t_statistic = np.abs(result.disparity) / result.standard_error
    np.testing.assert_allclose(result.pvalue, 2 * stats.t.sf(t_statistic, df), rtol=1e-6)
    corrections = iso.evaluate_corrections(rows, **ROLES, **evaluation, rng=1)
    assert corrections.strategies == ("none", "mean", "significant", "mse_plus", "mse_minus")
    assert evaluation == {"method": iso.published(over="cells")}
    assert procedures("cells")["our defaults"] == ({}, {})
