"""Quick checks of size, coverage and power of `treatment_bias`; the simulations page has the long ones."""

from __future__ import annotations

import numpy as np
import pytest

import isonomy as iso
from studies.effects import (
    COLLAPSES,
    PAGE,
    collapsed,
    counted,
    coverage,
    flagged,
    many_pvalues,
    omnibus_pvalue,
    ratios,
    three_variances,
)
from studies.lines import each
from support.sampling import binomial_margin


@pytest.mark.parametrize("name", ["relative, binary", "difference, real"])
def test_coverage_and_size(name: str) -> None:
    """25 tables catch coverage below 0.82 and a size above 0.18."""
    runs = [run for run in coverage((500, 1_000, 2_000)) if run.name.startswith(name)]
    assert len(runs) == 2
    for run in runs:
        assert not run.missed(25)


# Error of each estimator when the model is right, and its standard deviation over 400 tables of 40,000 rows.
EXPECTED = {
    "control_outcome": (0.0002, 0.0033),
    "average": (-0.0416, 0.0007),
    "weighted": (0.0013, 0.0282),
    "normalized": (0.0000, 0.0007),
    "positives": (0.0075, 0.0021),
    "positives_inverse": (0.0001, 0.0022),
}


@pytest.mark.validity
@pytest.mark.parametrize("collapse", COLLAPSES)
def test_collapsing_estimators(collapse: str) -> None:
    """Both means have Monte Carlo errors: ours that of 30 tables, the specified one that of 400 and rounding."""
    rng, case = np.random.default_rng(3), ("the model is right",)
    errors = np.array([collapsed(rng, collapse, case) for _ in range(30)])
    mean, spread = EXPECTED[collapse]
    assert errors.mean() == pytest.approx(mean, abs=4 * spread * np.sqrt(1 / 30 + 1 / 400) + 0.0001)
    assert errors.std(ddof=1) == pytest.approx(spread, rel=4 / np.sqrt(60) + 4 / np.sqrt(800) + 0.05)


@pytest.mark.validity
def test_only_control_outcomes_survive_a_wrong_model() -> None:
    rng = np.random.default_rng(4)
    cases = ("baseline with half the true slope", "heterogeneity with the wrong sign")
    right = np.array([collapsed(rng, "control_outcome", cases) for _ in range(20)])
    assert np.all(np.abs(right.mean(axis=0)) <= 4 * right.std(axis=0, ddof=1) / np.sqrt(20) + 0.0005)
    wrong = np.array([collapsed(rng, "normalized", cases[:1]) for _ in range(5)])
    assert wrong.mean() == pytest.approx(-0.060, abs=0.003)


@pytest.mark.validity
def test_three_variances_agree() -> None:
    """Root mean squares over 20 tables of standard errors that differ by a few percent from table to table."""
    draw = each(lambda rng: three_variances(rng, "relative", (10_000, 10_000)))
    outcomes = np.asarray(draw(np.random.default_rng(11), 20))
    beside = np.array(ratios(outcomes)).reshape(4, 5)[:, 3:]
    assert np.abs(beside - 1).max() <= 0.05


def test_the_default_correction_is_never_worse_than_both_none_and_full() -> None:
    risks = iso.correction_risk()
    for name in ("mse_plus", "mse_minus", "positive_part"):
        assert (risks[name] <= np.maximum(risks["none"], risks["mean"])).all(), name
        regret = risks[name] - np.minimum(risks["none"], risks["mean"])
        assert regret.max() <= 0.5  # in units of the variance of the estimated error


@pytest.mark.validity
def test_power_rises_to_one() -> None:
    rng = np.random.default_rng(5)
    low, high = np.mean([flagged(rng, (0.0, 0.6)) for _ in range(15)], axis=0)
    assert low <= 0.05 + binomial_margin(0.05, 15)
    assert high >= 0.963 - binomial_margin(0.963, 15)  # 0.963 of 300 tables


@pytest.mark.parametrize("measure", ["relative", "difference"])
def test_the_study_of_few_events_has_the_pvalues_of_the_public_test(measure: str) -> None:
    rng = np.random.default_rng(5)
    tables = [counted(rng, measure, [250] * 30, 0.5) for _ in range(2)]
    pvalues = many_pvalues(tables, relative=measure == "relative")
    for table, expected in zip(tables, pvalues, strict=True):
        roles = {"effect": "effect", "treatment": "treatment", "outcome": "outcome", "groups": "group"}
        result = iso.treatment_bias(table, **roles, measure=measure, count="rows")  # type: ignore[arg-type]
        tested = np.isfinite(result.adjusted_pvalue)
        np.testing.assert_allclose(result.pvalue[tested], expected[tested], rtol=1e-5)
        np.testing.assert_array_equal(np.isfinite(expected), tested)
        assert omnibus_pvalue(table, measure) == pytest.approx(result.omnibus_pvalue[0])  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["relative, half treated", "difference, 5 % treated"])
def test_the_size_of_the_test_that_all_errors_are_equal(name: str) -> None:
    assert not PAGE.find("Size of the test").find(name).missed(60)


@pytest.mark.parametrize("name", ["relative, half treated", "difference, 5 % treated"])
def test_the_family_wise_error_of_30_groups_with_few_events(name: str) -> None:
    assert not PAGE.find("Family-wise").find(name).missed(30)


def test_the_default_correction_makes_no_bias_of_a_common_error() -> None:
    """500 tables in the study, 10 here. The remaining bias of each strategy, in units of 0.0001."""
    section = PAGE.find("Remaining squared bias")
    names = [column.strip("`") for column in section.measured]
    for design in ("12, common", "60, none"):
        left = dict(zip(names, section.find(design).measure(10)[0], strict=True))
        assert float(left["empirical_bayes_mixture"]) < 0.2 * float(left["positive_part"])
