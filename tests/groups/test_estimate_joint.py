"""All groups at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.stats import chi2

import isonomy as iso
from isonomy.errors import MissingValues, NotEnoughData, UsageError
from isonomy.groups.flag import Method
from isonomy.results import Status, Verdict
from support.groups import handful

RATE: dict[str, Any] = {"metric": "selection_rate", "groups": "race", "prediction": "selected"}
RATE_P: dict[str, Any] = {"metric": "selection_rate", "prediction": "p", "groups": "g"}
M = iso.Metric("m", iso.col("x"))
VALUE: dict[str, Any] = {"metric": M, "groups": "g"}
# One group that varies beside 30 equal rows; and two of them.
ONE = {"x": np.r_[np.linspace(-1, 1, 30), np.full(30, 0.25)], "g": ["a"] * 30 + ["b"] * 30}
TWO = {
    "x": np.r_[np.linspace(-1, 1, 30), np.linspace(-1.1, 1.5, 40), np.full(30, 0.1)],
    "g": ["a"] * 30 + ["b"] * 40 + ["c"] * 30,
}
LOSS: dict[str, Any] = {"metric": iso.Metric("loss", value=iso.col("loss")), "groups": "race"}


def test_rows_that_are_all_equal_give_no_joint_evidence() -> None:
    result = iso.certify({"p": [1] * 40, "g": ["a", "b"] * 20}, **RATE_P)
    assert (result.statistic, result.df, result.pvalue) == (0.0, 0, 1.0)
    assert result.joint_status is Status.OK
    assert result.verdict is Verdict.INCONCLUSIVE


def test_groups_whose_ranges_do_not_meet_have_no_common_mean() -> None:
    result = iso.certify({"x": [*range(20), *range(100, 120)], "g": ["a"] * 20 + ["b"] * 20}, **VALUE)
    assert (result.statistic, result.df, result.pvalue) == (np.inf, 1, 0.0)
    assert result.joint_status is Status.OUTSIDE_RANGE
    assert any("T is infinite" in w for w in result.warnings)
    assert not result.contains(0.0)


def test_a_condition_that_leaves_a_handful_outside_has_nothing_to_compare_with() -> None:
    x = np.random.default_rng(0).normal(size=40)
    result = iso.certify({"x": x}, metric=M, groups=iso.where("low", iso.col("x") < np.sort(x)[34]))
    assert (result.statistic, result.df, result.pvalue) == (0.0, 0, 1.0)
    assert result.joint_status is Status.OK


def test_one_group_that_varies_leaves_nothing_to_test() -> None:
    """Nobody of b has an error, which does not show how far from none its mean may be."""
    outcome = np.tile([0.0, 1.0], 30)
    data = {"y": outcome, "s": outcome + np.r_[np.linspace(0.1, 0.3, 30), np.zeros(30)], "g": ["a"] * 30 + ["b"] * 30}
    result = iso.certify(data, metric="mae", outcome="y", prediction="s", groups="g")
    assert (result.statistic, result.df, result.pvalue, result.joint_status) == (0.0, 0, 1.0, Status.OK)
    assert result.verdict is Verdict.INCONCLUSIVE
    assert any("one group alone leaves no test" in warning for warning in result.warnings)


@pytest.mark.parametrize("method", ["el", "eel"])
@pytest.mark.parametrize("null", [0.0, 0.1, -0.3])
def test_a_reference_of_equal_rows_is_a_known_number(method: Method, null: float) -> None:
    options: dict[str, Any] = {**VALUE, "null": null, "method": method}
    known = iso.flag(ONE, reference=0.25, **options)
    named = iso.flag(ONE, reference={"g": "b"}, **options)
    assert named.statistic[0] == pytest.approx(known.statistic[0], rel=1e-9)
    assert (named.ci_low[0], named.ci_high[0]) == pytest.approx((known.ci_low[0], known.ci_high[0]), rel=1e-6)
    joint = iso.certify(ONE, reference={"g": "b"}, **options)
    assert joint.df == 1
    assert joint.statistic == pytest.approx(known.statistic[0], rel=1e-9)
    assert joint.joint_status is Status.OK


@pytest.mark.parametrize("method", ["el", "eel"])
def test_a_named_reference_of_equal_rows_says_what_the_common_mean_is(method: Method) -> None:
    known = iso.certify(TWO, reference=0.1, method=method, **VALUE)
    result = iso.certify(TWO, reference={"g": "c"}, method=method, **VALUE)
    assert result.df == 2
    assert result.statistic == pytest.approx(known.statistic, rel=1e-9)


@pytest.mark.parametrize("method", ["el", "eel"])
@pytest.mark.parametrize("reference", ["population", "rest"])
def test_an_untested_group_of_equal_rows_is_no_part_of_the_joint_test(method: Method, reference: str) -> None:
    """Its rows do not show how its mean varies: the others are compared with each other, as if it were not there."""
    result = iso.certify(TWO, reference=reference, method=method, **VALUE)
    others = {name: values[:70] for name, values in TWO.items()}
    expected = iso.certify(others, reference=reference, method=method, **VALUE)
    assert result.df == expected.df == 1
    # Rows with no function count in the Euclidean n, as they do elsewhere.
    assert result.statistic == pytest.approx(expected.statistic, rel=1e-9 if method == "el" else 2e-2)
    assert any("(g=c) were left out of the joint test: all rows of a group" in warning for warning in result.warnings)
    assert result.region is not None
    assert result.region.test(result.disparity[:2]).statistic == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("reference", ["population", {"g": "a"}, "highest"], ids=str)
def test_rows_of_an_untested_group_are_no_part_of_the_test_of_overlapping_groups(reference: Any) -> None:
    """The groups of h have these rows too: with them, the means of all others would fix that of the untested group."""
    table = TWO | {"h": np.tile(["u", "v"], 50)}
    result = iso.certify(table, metric=M, groups=["g", "h"], reference=reference)
    others = {name: values[:70] for name, values in table.items()}
    expected = iso.certify(others, metric=M, groups=["g", "h"], reference=reference)
    assert result.df == expected.df == 2
    assert result.statistic == pytest.approx(expected.statistic, rel=1e-6)
    assert result.contains(0.0) == expected.contains(0.0)
    with pytest.raises(UsageError, match="only no difference"):
        result.contains(0.1)


def test_rare_losses_that_are_alike_are_not_told_apart_by_groups_without_any() -> None:
    """In half of these tables some group has no error, which once put every such table outside the range."""
    for seed in range(8):
        table = small_cells(seed)
        error = np.random.default_rng(100 + seed).random(len(table["g"])) < 0.05
        table["p"] = np.where(error, 1 - table["y"], table["y"])
        result = iso.certify(table, metric="mse", outcome="y", prediction="p", groups="g", resamples=100)
        assert result.joint_status is Status.OK
        assert result.verdict is Verdict.INCONCLUSIVE


def test_equal_rows_of_a_named_reference_count_for_the_degrees_of_freedom() -> None:
    x = np.tile([-1.0, 1.0], 15)
    data = {"x": np.r_[x + 0.25, x - 0.25, np.zeros(30)], "g": np.repeat(["a", "b", "c"], 30)}
    assert iso.certify(data, reference={"g": "c"}, **VALUE).df == iso.certify(data, reference=0.0, **VALUE).df == 2


def test_the_minimum_may_lie_at_the_end_of_a_rate() -> None:
    """Two groups without a one, at a disparity of -0.2: the reference is at 0.2, and T = -2 n log 0.8."""
    result = iso.certify(
        {"p": [0] * 40, "g": ["a", "b"] * 20}, reference={"g": "b"}, null=-0.2, correction=None, **RATE_P
    )
    assert result.statistic == pytest.approx(-40 * np.log(0.8), rel=1e-9)
    assert result.joint_status is Status.OK


@pytest.mark.parametrize("kwargs", [RATE, LOSS], ids=["binary", "real"])
@pytest.mark.parametrize("method", ["el", "eel"])
def test_a_partition_has_one_statistic_whatever_the_reference(
    lender: dict[str, Any], kwargs: dict[str, Any], method: Method
) -> None:
    result = [
        iso.certify(lender, reference=r, method=method, **kwargs)
        for r in ("population", "rest", {"race": "a"}, {"race": "c"})
    ]
    assert {r.df for r in result} == {2}
    assert [r.statistic for r in result] == pytest.approx([result[0].statistic] * 4, rel=1e-7)


def test_race_sex_and_their_cells_have_rank_three_for_two_races(lender: dict[str, Any]) -> None:
    two = {name: values[lender["race"] != "c"] for name, values in lender.items()}
    result = iso.certify(two, **{**RATE, "groups": ["race", "sex"]}, depth=2)
    assert result.df == 3
    cells = two | {"cell": np.char.add(two["race"].astype(str), two["sex"].astype(str))}
    alone = iso.certify(cells, **{**RATE, "groups": "cell"})
    assert result.statistic == pytest.approx(alone.statistic, rel=1e-8)


def test_known_reference_adds_up_disjoint_groups(lender: dict[str, Any]) -> None:
    joint = iso.certify(lender, reference=0.42, **RATE)
    alone = iso.flag(lender, reference=0.42, **RATE)
    assert joint.statistic == pytest.approx(alone.statistic.sum())
    assert joint.df == 3


def test_overlapping_groups_against_their_rests_are_tested_at_zero_only(lender: dict[str, Any]) -> None:
    kwargs = {**RATE, "groups": ["race", "sex"], "depth": 2}
    rest, population = (iso.certify(lender, reference=r, **kwargs) for r in ("rest", "population"))
    assert rest.statistic == pytest.approx(population.statistic)
    with pytest.raises(UsageError, match="population"):
        rest.contains(0.01)


def test_equal_to_the_population_includes_those_in_no_tested_group() -> None:
    """Two of three groups equal to the population's rate: then the third is too, and it is part of the test."""
    data = {"g": np.repeat(["a", "b", "c"], [600, 600, 300]), "c": np.tile([1, 0, 0], 500)}
    data["c"][-300:] = np.tile([1, 1, 1, 0], 75)
    options: dict[str, Any] = {"metric": "selection_rate", "groups": "g", "prediction": "c"}
    every, two = (iso.certify(data, min_size=n, **options) for n in (10, 500))
    assert two.statistic == pytest.approx(every.statistic, rel=1e-9)
    assert two.df == every.df == 2


@pytest.mark.parametrize("method", ["el", "eel"])
@pytest.mark.parametrize("reference", ["population", "rest"])
@pytest.mark.parametrize("rows", [1, 4, 9])
def test_a_handful_of_rows_in_no_tested_group_is_left_out(rows: int, reference: str, method: Method) -> None:
    data = handful(rows)
    result = iso.certify(data, reference=reference, method=method, **LOSS)
    only = {name: values[:500] for name, values in data.items()}
    expected = iso.certify(only, reference=reference, method=method, **LOSS)
    assert result.df == expected.df == 1
    # Rows with no function count in the Euclidean n, as they do elsewhere.
    assert result.statistic == pytest.approx(expected.statistic, rel=1e-9 if method == "el" else 1e-2)
    assert any("no tested group (race=c) were left out" in w and "fewer than 10" in w for w in result.warnings)
    assert not any("left out" in w for w in expected.warnings)
    assert result.n.tolist() == [300, 200, rows]
    # Their mean is free: the estimates, which count them, are met exactly, and so is any common move of both groups.
    assert result.region is not None
    tested = result.disparity[:2]
    assert result.region.test(tested).statistic == pytest.approx(0, abs=1e-12)
    assert result.region.test(tested).df == 1
    away = result.region.test(tested + np.array([0.3, 0.0]))
    assert away.statistic > 1
    if reference == "population":
        assert result.region.test(tested + np.array([0.4, 0.1])).statistic == pytest.approx(away.statistic, rel=1e-7)


@pytest.mark.parametrize("method", ["el", "eel"])
def test_more_than_a_handful_of_rows_in_no_tested_group_is_tested(method: Method) -> None:
    for rows, min_size in ((10, 100), (30, 100), (7, 5), (4, 3)):
        result = iso.certify(handful(rows), method=method, min_size=min_size, **LOSS)
        assert result.df == 2
        assert not any("left out" in w for w in result.warnings)


def test_one_group_and_a_handful_leave_nothing_to_test() -> None:
    groups = iso.where("most", iso.col("race") != "c")
    result = iso.certify(handful(7), metric=LOSS["metric"], groups=groups)
    assert (result.df, result.statistic, result.pvalue) == (0, 0.0, 1.0)
    assert any("one group alone leaves no test" in w for w in result.warnings)


def scored(n: int = 450) -> dict[str, Any]:
    """Three groups that differ a little, a score, and a loss."""
    rng = np.random.default_rng(8)
    g, y = rng.choice(["a", "b", "c"], n), rng.integers(0, 2, n)
    p = (rng.random(n) < np.where(y == 1, 0.7, 0.3) - 0.1 * (g == "a")).astype(int)
    return {
        "g": g,
        "y": y,
        "p": p,
        "s": rng.normal(size=n) + y * np.where(g == "b", 1.6, 1.0),
        "x": rng.exponential(size=n),
    }


ROLES: dict[str, Any] = {"outcome": "y", "prediction": "p", "score": "s", "groups": "g"}
TAIL = iso.Metric("tail", value=iso.col("x") > 1, where=iso.col("p") == 1, binary=True)


@pytest.mark.parametrize("metrics", [["f1", "auc"], [M, TAIL, "tpr"]], ids=["no means", "values and rates"])
@pytest.mark.parametrize("reference", ["population", {"g": "a"}], ids=str)
def test_metrics_of_any_kind_are_tested_jointly(metrics: list[Any], reference: Any) -> None:
    """T is the sum of the metrics' own, and its law that of their covariance: independent ones have a chi-square."""
    table = scored()
    joint = iso.certify(table, metric=metrics, reference=reference, **ROLES)
    alone = [iso.certify(table, metric=metric, reference=reference, **ROLES) for metric in metrics]
    assert joint.df == sum(one.df for one in alone)
    assert joint.statistic == pytest.approx(sum(one.statistic for one in alone), rel=0.02)  # values: not the likelihood
    turned = iso.certify(table, metric=metrics[::-1], reference=reference, **ROLES)
    assert turned.pvalue == pytest.approx(joint.pvalue, rel=1e-9)
    np.testing.assert_allclose(joint.estimate, np.concatenate([one.estimate for one in alone]))
    lazily = iso.certify(pl.LazyFrame(table), metric=metrics, reference=reference, **ROLES)
    assert lazily.pvalue == pytest.approx(joint.pvalue, rel=1e-9)


def test_one_metric_twice_over_is_one_test() -> None:
    """A value, and the same in another unit: one chi-square of 2 degrees of freedom, counted twice."""
    table = scored()
    table["z"] = 3.0 * table["x"] - 1.0
    other = iso.Metric("other", value=iso.col("z"))
    single, twice = iso.certify(table, metric=M, groups="g"), iso.certify(table, metric=[M, other], groups="g")
    by_welch = twice.statistic / 2.0
    assert twice.pvalue == pytest.approx(chi2.sf(by_welch, 2), rel=1e-6)
    assert by_welch == pytest.approx(single.statistic, rel=0.05)


def test_rows_that_one_metric_cannot_use_are_left_out_of_all() -> None:
    table = scored()
    table["s"][:60] = np.nan
    with pytest.raises(MissingValues, match=r"score: column 's' has 60 rows"):
        iso.certify(table, metric=["f1", "auc"], **ROLES)
    kept = {name: values[60:] for name, values in table.items()}
    dropped = iso.certify(table, metric=["f1", "auc"], **ROLES, missing="drop")
    assert dropped.pvalue == pytest.approx(iso.certify(kept, metric=["f1", "auc"], **ROLES).pvalue)


def test_metrics_against_the_best_group_depend_on_each_other_as_against_a_group() -> None:
    table = scored()
    asked: dict[str, Any] = {**ROLES, "metric": ["selection_rate", "tpr"]}
    best, named = iso.certify(table, reference="highest", **asked), iso.certify(table, reference={"g": "a"}, **asked)
    assert best.pvalue == pytest.approx(named.pvalue, rel=1e-6)


def test_what_belongs_to_the_likelihood_is_refused_of_values_among_several_metrics() -> None:
    table = scored()
    refused: list[dict[str, Any]] = [{"method": "eel"}, {"uncertainty": "plugin"}]
    for options in refused:
        with pytest.raises(UsageError, match="not available in a joint test of several metrics"):
            iso.certify(table, metric=[M, "selection_rate"], **ROLES, **options)
    table["x"][:] = 1.0
    with pytest.raises(NotEnoughData, match="none can be tested by 'm'"):
        iso.certify(table, metric=[M, "selection_rate"], **ROLES)


def small_cells(seed: int) -> dict[str, Any]:
    """A group of 1,500 rows and nine of 50, alike; few of the rows with outcome 0 are selected."""
    rng = np.random.default_rng(seed)
    g = np.repeat(["big", *(f"g{i}" for i in range(9))], [1_500] + [50] * 9)
    y = (rng.random(g.size) < 0.3).astype(int)
    return {"g": g, "y": y, "p": (rng.random(g.size) < np.where(y == 1, 0.8, 0.1)).astype(int)}


def without_any(table: dict[str, Any], *groups: str) -> dict[str, Any]:
    """The same, in which nobody of these groups with outcome 0 was selected."""
    empty = np.isin(table["g"], groups) & (table["y"] == 0)
    return table | {"p": np.where(empty, 0, table["p"])}


ODDS: dict[str, Any] = {"metric": "equalized_odds", "outcome": "y", "prediction": "p", "groups": "g"}


@pytest.mark.parametrize("groups", [("g1",), ("g1", "g2"), ("g1", "g2", "g3", "g4")], ids=len)
def test_cells_without_variation_count_in_a_test_of_several_metrics(groups: tuple[str, ...]) -> None:
    """Rates of those with outcome 1 and with outcome 0 rest on other rows: T is the sum, and so are its df."""
    table = without_any(small_cells(4), *groups)
    joint = iso.certify(table, correction=None, **ODDS)
    tpr, fpr = (iso.certify(table, correction=None, **{**ODDS, "metric": metric}) for metric in ("tpr", "fpr"))
    assert joint.df == tpr.df + fpr.df
    assert joint.statistic == pytest.approx(tpr.statistic + fpr.statistic)
    assert joint.pvalue == pytest.approx(chi2.sf(joint.statistic, joint.df), rel=1e-9)
    constant = {name for name, status in zip(joint.names, joint.status, strict=True) if status is Status.CONSTANT}
    assert {f"g={name} (fpr)" for name in groups} <= constant


@pytest.mark.parametrize("metric", ["fpr", "equalized_odds"])
def test_cells_without_variation_count_where_rows_have_weights(metric: str) -> None:
    """Equal weights are no weights: T is that of the rows, held against an F instead of a chi-square."""
    table = without_any(small_cells(4), "g1", "g2", "g3")
    plain = iso.certify(table, correction=None, **{**ODDS, "metric": metric})
    weighed = iso.certify(table | {"w": np.full(len(table["g"]), 2.0)}, weight="w", **{**ODDS, "metric": metric})
    assert weighed.df == plain.df
    assert plain.pvalue < weighed.pvalue < plain.pvalue + 0.1


def test_several_metrics_of_small_groups_are_corrected_one_by_one() -> None:
    table = small_cells(4)
    joint = iso.certify(table, rng=1, **ODDS)
    alone = [iso.certify(table, rng=1, **{**ODDS, "metric": metric}) for metric in ("tpr", "fpr")]
    plain = iso.certify(table, correction=None, **ODDS)
    assert joint.statistic == pytest.approx(sum(one.statistic for one in alone), rel=0.02)  # other resamples
    assert joint.statistic < 0.97 * plain.statistic
    assert joint.df == plain.df
    assert joint.pvalue == pytest.approx(chi2.sf(joint.statistic, joint.df), rel=1e-9)
    divided = plain.statistic / joint.statistic
    assert any(f"Its statistic was divided by {divided:.3g}" in warning for warning in joint.warnings)
    assert joint.region is not None
    assert joint.region.test(0.0).statistic == pytest.approx(joint.statistic)
