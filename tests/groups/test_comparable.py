"""Comparable people: estimates that add up, people without a comparable one, refusals, words, files."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

import isonomy as iso
from isonomy.errors import MissingValues, UnknownColumn, UsageError
from isonomy.numerics.status import Status
from isonomy.results import Verdict
from studies.comparable import drawn
from support.data import folder

RATE: dict[str, Any] = {"metric": "selection_rate", "prediction": "y", "groups": "g"}
NAMES = ("a", "b", "c", "d")
ALIKE = iso.comparable(*NAMES)
COLUMNS = ("estimate", "reference", "disparity", "ci_low", "ci_high", "pvalue", "accounted", "accounted_low", "lacking")


@pytest.fixture(scope="module")
def table() -> dict[str, Any]:
    rng = np.random.default_rng(8)
    x, y, group = drawn(rng, 400, 800, 0.5, "logistic", 0.5, -0.8)
    third = rng.random(y.size) < 0.2
    g = np.where(group, "g", np.where(third, "h", "r"))
    amount = x["a"] + 3.0 * y + rng.exponential(size=y.size)
    return {**x, "y": y.astype(int), "g": g, "amount": amount, "region": rng.choice(["n", "s", "w"], y.size)}


def flagged(table: dict[str, Any], **options: Any) -> Any:
    return iso.flag(table, **{**RATE, "reference": {"g": "r"}, "given": ALIKE, **options})


def numbers(result: Any) -> pl.DataFrame:
    return result.to_frame().select("group", *COLUMNS).sort("group")


def close(first: pl.DataFrame, second: pl.DataFrame, tolerance: float = 1e-8) -> None:
    assert first["group"].to_list() == second["group"].to_list()
    for name in COLUMNS:
        np.testing.assert_allclose(first[name], second[name], rtol=tolerance, atol=1e-10, err_msg=name)


@pytest.mark.parametrize("model", ["doubly_robust", "logistic"])
@pytest.mark.parametrize("scale", ["difference", "ratio", "odds_ratio"])
def test_estimates_add_up(table: dict[str, Any], model: str, scale: str) -> None:
    result = flagged(table, given=iso.comparable(*NAMES, "region", model=model), scale=scale)
    y, g = table["y"], table["g"]
    assert result.estimate[0] == pytest.approx(y[g == "g"].mean())
    assert result.raw_reference[0] == pytest.approx(y[g == "r"].mean())
    both = result.estimate, result.reference_value
    odds = [part / (1.0 - part) for part in both]
    expected = {"difference": both[0] - both[1], "ratio": both[0] / both[1], "odds_ratio": odds[0] / odds[1]}[scale]
    np.testing.assert_allclose(result.disparity, expected, rtol=1e-12)
    gap = result.unconditional - result.disparity if scale == "difference" else result.unconditional / result.disparity
    np.testing.assert_allclose(result.accounted, gap, rtol=1e-9, atol=1e-12)
    assert result.groups[0] in result.flagged
    # No difference has one p-value on every scale.
    assert result.pvalue[0] == pytest.approx(flagged(table, given=result_given(model)).pvalue[0], rel=1e-9)


def result_given(model: str) -> Any:
    return iso.comparable(*NAMES, "region", model=model)


def test_testing_at_an_end_gives_alpha(table: dict[str, Any]) -> None:
    for scale in ("difference", "ratio", "odds_ratio"):
        end = float(flagged(table, scale=scale).ci_high[0])
        assert flagged(table, scale=scale, null=end).pvalue[0] == pytest.approx(0.05, rel=1e-6)


def test_order_names_and_units_do_not_matter(table: dict[str, Any]) -> None:
    whole = numbers(flagged(table))
    order = np.random.default_rng(0).permutation(len(table["y"]))
    close(numbers(flagged({name: np.asarray(v)[order] for name, v in table.items()})), whole)
    close(
        numbers(flagged({**table, "a": 5.0 + 1e3 * table["a"]}, given=iso.comparable("d", "c", "a", "b"))), whole, 1e-7
    )


def test_counts_are_repeated_rows(table: dict[str, Any]) -> None:
    counts = np.random.default_rng(1).integers(0, 4, len(table["y"]))
    repeated = {name: np.repeat(v, counts) for name, v in table.items()}
    close(numbers(flagged({**table, "k": counts}, count="k")), numbers(flagged(repeated)))


def test_equal_weights_and_clusters_of_one_row_change_only_the_law(table: dict[str, Any]) -> None:
    plain = flagged(table)
    design = flagged(
        {**table, "w": np.full(len(table["y"]), 7.0), "i": np.arange(len(table["y"]))}, weight="w", cluster="i"
    )
    for name in ("estimate", "reference_value", "disparity", "accounted", "lacking"):
        np.testing.assert_allclose(getattr(design, name), getattr(plain, name), rtol=1e-9)
    np.testing.assert_allclose(design.standard_error[:2], plain.standard_error[:2], rtol=2e-3)
    np.testing.assert_allclose(design.accounted_low[:2], plain.accounted_low[:2], rtol=2e-2)


def test_repeated_people_are_one_cluster(table: dict[str, Any]) -> None:
    twice = {name: np.tile(v, 2) for name, v in table.items()} | {"i": np.tile(np.arange(len(table["y"])), 2)}
    once, design, naive = flagged(table), flagged(twice, cluster="i"), flagged(twice)
    np.testing.assert_allclose(design.standard_error[:2], once.standard_error[:2], rtol=1e-2)
    assert naive.standard_error[0] < 0.75 * design.standard_error[0]


def test_against_the_rest_and_the_population(table: dict[str, Any]) -> None:
    rest, population = flagged(table, reference="rest"), flagged(table, reference="population")
    close(numbers(rest), numbers(population))
    two = {**table, "g": np.where(table["g"] == "g", "g", "r")}
    np.testing.assert_allclose(flagged(two, reference="rest").disparity[0], flagged(two).disparity[0], rtol=1e-10)


def test_several_metrics_tolerances_and_max_t(table: dict[str, Any]) -> None:
    metrics = ["selection_rate", iso.Metric("amount", value=iso.col("amount"))]
    result = flagged(table, metric=metrics, adjust="max-t", rng=1)
    alone = flagged(table), flagged(table, metric=metrics[1])
    np.testing.assert_allclose(result.disparity, np.concatenate([part.disparity for part in alone]), rtol=1e-10)
    assert (result.adjusted_pvalue[:2] >= result.pvalue[:2]).all()
    assert flagged(table, tolerance=0.6).verdicts[0] is Verdict.WITHIN_TOLERANCE
    assert flagged(table, tolerance=0.02).verdicts[0] is Verdict.VIOLATION


def test_a_stratified_model_is_given(table: dict[str, Any]) -> None:
    banded = iso.comparable("region", iso.cut("a", [0, 1]), model="strata")
    first, second = flagged(table, given=banded), flagged(table, given=["region", iso.cut("a", [0, 1])])
    assert first.to_frame().equals(second.to_frame())


def test_people_without_a_comparable_one_are_counted(table: dict[str, Any]) -> None:
    far = {**table, "a": np.where(table["g"] == "g", table["a"] + 8.0, table["a"])}
    result = flagged(far, given=iso.comparable("a", "d"))
    assert result.status[0] is Status.NO_OVERLAP
    assert result.lacking[0] > 0.9
    assert np.isnan(result.pvalue[0])
    assert result.verdicts[0] is Verdict.INCONCLUSIVE
    assert any("more than a third" in sentence for sentence in result.warnings)
    # A region with no one of the reference: its people are left out, and counted.
    alone = {**table, "region": np.where((table["g"] == "g") & (table["d"] > 0.9), "far", table["region"])}
    part = flagged(alone, given=iso.comparable("a", "region"))
    missed = (alone["region"] == "far").sum() / (table["g"] == "g").sum()
    assert part.status[0] is Status.OK
    assert part.lacking[0] >= missed
    said = [text for text in part.warnings if "nobody comparable in the reference" in text]
    assert [text.startswith("In ") and ", up to " in text for text in said] == [True]
    inside = (table["g"] == "g") & (alone["region"] != "far")
    assert part.estimate[0] == pytest.approx(table["y"][inside].mean())
    assert part.raw_estimate[0] == pytest.approx(table["y"][table["g"] == "g"].mean())


def test_an_outcome_that_a_factor_determines_has_no_verdict(table: dict[str, Any]) -> None:
    result = flagged({**table, "same": table["y"] * 2.0}, given=iso.comparable("same", "a"))
    assert set(result.status[:2]) == {Status.SEPARATED}
    assert any("determine the outcome" in sentence for sentence in result.warnings)
    few = {name: v[:440] for name, v in table.items()}
    assert flagged(few).status[0] is Status.FEW_EVENTS


@pytest.mark.parametrize(
    ("change", "given", "message"),
    [
        ({"k": 1.0}, ("a", "k"), r"'k' has the same value in every row"),
        ({"k": "twice"}, ("a", "k"), r"'k' is determined by the other factors \(collinear\)"),
        ({"k": "many"}, ("a", "k"), r"'k' has 1,200 levels, and 50 are the most"),
    ],
)
def test_factors_are_refused(table: dict[str, Any], change: dict[str, Any], given: Any, message: str) -> None:
    size = len(table["y"])
    special = {"twice": 2.0 * table["a"] + 1.0, "many": [f"p{i}" for i in range(size)]}
    more = {name: special.get(value, [value] * size) for name, value in change.items()}
    with pytest.raises(UsageError, match=message):
        flagged({**table, **more}, given=iso.comparable(*given))


def test_other_refusals(table: dict[str, Any]) -> None:
    with pytest.raises(UnknownColumn, match="given"):
        flagged(table, given=iso.comparable("aa"))
    with pytest.raises(UsageError, match="no factor is named"):
        iso.comparable()
    with pytest.raises(UsageError, match="model"):
        iso.comparable("a", model="probit")
    with pytest.raises(UsageError, match="given: needs people to compare with"):
        flagged(table, reference="highest")
    with pytest.raises(UsageError, match="not a mean over rows"):
        flagged(table, metric="auc", outcome="y", score="a", prediction=None, given=iso.comparable("b"))
    with pytest.raises(UsageError, match=r"iso.comparable\(...\) is for iso.flag"):
        iso.certify(table, **RATE, given=ALIKE)
    with pytest.raises(UsageError, match="given: needs decisions, and people"):
        iso.adverse_impact(table, prediction="y", groups="g", given=ALIKE)
    missing = {**table, "a": np.where(np.arange(len(table["y"])) < 5, np.nan, table["a"])}
    with pytest.raises(MissingValues, match="column 'a' has 5 rows"):
        flagged(missing)
    assert flagged(missing, missing="drop").provenance.dropped == {"a": 5}


def test_impact_ratios_among_comparable_people(table: dict[str, Any]) -> None:
    result = iso.adverse_impact(
        table,
        prediction="y",
        groups=["g", "region"],
        reference={"g": "r", "region": "n"},
        given=iso.comparable("a", "b"),
    )
    expected = flagged(table, given=iso.comparable("a", "b"), scale="ratio", adjust="holm")
    assert result.comparable_ratio is not None
    assert result.comparable_low is not None
    np.testing.assert_allclose(result.comparable_ratio[:2], expected.disparity[:2])
    np.testing.assert_allclose(result.comparable_low[:2], expected.ci_low[:2])
    assert result.disparity[0] == pytest.approx(expected.raw_estimate[0] / expected.raw_reference[0])
    assert "Among people with the same a and b" in result.summary()
    assert "Among comparable people" in result.pages()
    assert "What courts ask" in result.pages()
    same = iso.from_json(result.to_json())
    np.testing.assert_allclose(np.asarray(same.comparable_ratio), result.comparable_ratio)


def test_mortgages_in_boston() -> None:
    """Munnell and others (1996): among comparable applicants, Black applicants were denied more often."""
    place = folder()
    if place is None or not (place / "hmda_boston.csv").exists():
        pytest.skip("no folder of public datasets (ISONOMY_DATA)")
    data = pl.read_csv(place / "hmda_boston.csv")
    given = iso.comparable("pirat", "lvrat", "chist", "mhist", "phist", "insurance", "selfemp", "single")
    denied = iso.col("deny") == "yes"
    result = iso.flag(
        data, metric="selection_rate", prediction=denied, groups="afam", reference={"afam": "no"}, given=given
    )
    black = result.labels.index("afam=yes")
    assert result.unconditional is not None
    assert result.lacking is not None
    assert 0.1 < result.unconditional[black] < 0.25
    assert 0.03 < result.disparity[black] < 0.12
    assert result.verdicts[black] is Verdict.VIOLATION
    assert result.lacking[black] < 1 / 3


@pytest.mark.parametrize("largest", [1e3, 1e6, 1e9])
def test_one_very_large_value_does_not_end_the_regression(table: dict[str, Any], largest: float) -> None:
    """A fit whose coefficients are large has not separated anything."""
    plain = flagged(table, given=iso.comparable("a", "b"))
    result = flagged(
        {**table, "a": np.where(np.arange(len(table["y"])) == 7, largest, table["a"])}, given=iso.comparable("a", "b")
    )
    assert result.status[0] is Status.OK
    assert result.disparity[0] == pytest.approx(plain.disparity[0], abs=0.02)


def test_factors_far_apart_are_no_overlap_and_not_separated_outcomes(table: dict[str, Any]) -> None:
    rng = np.random.default_rng(2)
    apart = {**table, "far": np.where(table["g"] == "g", 5.0, 0.0) + 0.1 * rng.normal(size=len(table["y"]))}
    assert flagged(apart, given=iso.comparable("far")).status[0] is Status.NO_OVERLAP


def test_a_logistic_fit_is_that_of_statsmodels_for_columns_of_any_scale() -> None:
    import statsmodels.api as sm

    from isonomy.groups.likelihood.regression import fit

    rng = np.random.default_rng(4)
    x = np.column_stack([np.ones(500), rng.normal(size=500), np.exp(2.0 * rng.normal(size=500))])
    y = (rng.random(500) < 1.0 / (1.0 + np.exp(-x[:, 1]))).astype(float)
    expected = sm.Logit(y, x).fit(disp=0, tol=1e-12).params
    scale = np.array([1.0, 1e-7, 1e6])
    beta, fitted = fit([(x * scale, y, np.ones(500))])
    assert fitted
    np.testing.assert_allclose(beta * scale, expected, rtol=1e-8)


def test_few_comparable_people_have_students_law() -> None:
    """Satterthwaite's degrees of freedom: members count alike, people of the reference by their squared influence."""
    from scipy import stats

    from isonomy.groups.likelihood.regression import Referents, Terms, compare

    x, y, group = drawn(np.random.default_rng(1), 60, 60, 0.5, "logistic", 1.0, 0.0)
    small = {"a": x["a"], "y": y.astype(int), "g": np.where(group, "g", "r")}
    result = flagged(small, given=iso.comparable("a"))
    terms, mass = Terms.of_factors({"a": x["a"]}, {}, np.ones(y.size)), np.ones(y.size)
    pair = compare(terms, y, mass, group, Referents(terms, y, mass, ~group, binary=True), model="doubly_robust")
    added = pair.influence[0] - pair.influence[1]
    mine, theirs = added[: pair.members] ** 2, added[pair.members :] ** 2
    df0 = theirs.sum() ** 2 / (theirs**2).sum() - 1
    df = added @ added * (added @ added) / (mine.sum() ** 2 / 59 + theirs.sum() ** 2 / df0)
    t = (pair.means[0] - pair.means[1]) / np.sqrt(added @ added)
    assert df < 40
    assert result.pvalue[0] == pytest.approx(2 * stats.t.sf(abs(t), df), rel=1e-9)
    assert result.ci_low[0] == pytest.approx(result.disparity[0] - stats.t.isf(0.025, df) * np.sqrt(added @ added))


def test_two_groups_among_comparable_people_are_two_hypotheses() -> None:
    """Each is compared with people who have its own factors, so that the two p-values differ."""
    rng = np.random.default_rng(5)
    group = rng.choice(["a", "b"], 600, p=[0.8, 0.2])
    factor = rng.normal(0.7 * (group == "b"), 1.0)
    chance = 1 / (1 + np.exp(-0.8 + 0.6 * factor + (0.5 + 0.5 * factor) * (group == "b")))
    table = {"g": group, "x": factor, "p": (rng.random(600) < chance).astype(int)}
    result = iso.flag(
        table,
        metric="selection_rate",
        prediction="p",
        groups="g",
        reference="rest",
        given=iso.comparable("x"),
        adjust="holm",
    )
    assert abs(result.pvalue[0] / result.pvalue[1] - 1) > 0.05
    low, high = np.argsort(result.pvalue)
    assert result.adjusted_pvalue[low] == pytest.approx(2 * result.pvalue[low])
    assert result.adjusted_pvalue[high] == pytest.approx(max(result.pvalue[high], 2 * result.pvalue[low]))
