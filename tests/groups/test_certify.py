"""Certification through the public call: all groups at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.stats import chi2

import isonomy as iso
from isonomy.errors import MissingValues, NotEnoughData, UsageError
from isonomy.groups.options import LikelihoodKind as Method
from isonomy.results import Status, Verdict
from support.charts import main_panel
from support.groups import counted, handful
from support.tables import several

RATE: dict[str, Any] = {"metric": "selection_rate", "groups": "race", "prediction": "selected"}


PLAIN, QUICK = iso.likelihood(correction=None), iso.likelihood(resamples=100)
RATE_P: dict[str, Any] = {"metric": "selection_rate", "prediction": "p", "groups": "g"}


THREE = {"p": np.tile([1, 0, 0], 60), "g": np.repeat(["a", "b", "c"], [80, 80, 20])}


def test_bad_input(lender: dict[str, Any]) -> None:
    with pytest.raises(NotEnoughData, match=r"each has fewer than [\d,]+ rows that count, or no variation"):
        iso.certify(lender, min_size=1000, **RATE)
    for method in (iso.likelihood(correction="adjusted"), iso.likelihood(interval="one-sided")):
        with pytest.raises(UsageError, match=r"^(correction: 'adjusted' is for|interval: the intervals of certify)"):
            iso.certify(lender, method=method, **RATE)
    result = iso.certify(lender, **RATE)
    with pytest.raises(UsageError, match="one for each of 3"):
        result.contains([0.0, 0.1])
    with pytest.raises(UsageError, match="unknown groups"):
        result.contains({"race=z": 0.0})
    with pytest.raises(UsageError, match="null: 'much'"):
        iso.certify(lender, null="much", **RATE)  # type: ignore[arg-type]
    for null in (0.3, [0.1, 0.0, -0.1], {"race=a": 0.1}):
        with pytest.raises(UsageError, match="a tolerance sets the null"):
            iso.certify(lender, null=null, tolerance=0.02, **RATE)


def test_one_group_says_that_it_is_one() -> None:
    with pytest.raises(NotEnoughData, match="everybody is in one group"):
        iso.certify({"g": ["a"] * 50, "p": [0, 1] * 25}, metric="selection_rate", prediction="p", groups="g")


LOSS: dict[str, Any] = {"metric": iso.Metric("loss", value=iso.col("loss")), "groups": "race"}


def test_verdicts() -> None:
    data = {"race": ["a"] * 4000 + ["b"] * 4000, "selected": [0, 1] * 4000}
    assert iso.certify(data, **RATE).verdict is Verdict.INCONCLUSIVE
    assert iso.certify(data, tolerance=0.05, **RATE).verdict is Verdict.WITHIN_TOLERANCE
    assert iso.certify(data, tolerance=0.005, **RATE).verdict is Verdict.INCONCLUSIVE
    data["selected"] = [1] * 3000 + [0] * 5000
    assert iso.certify(data, tolerance=0.05, **RATE).verdict is Verdict.VIOLATION
    assert iso.certify(data, **RATE).verdict is Verdict.VIOLATION


def test_a_group_without_the_rare_amounts_of_all_others_has_no_verdict() -> None:
    """One percent of people lose much, but nobody of one group: only by its own variance is p small."""
    rng, group = np.random.default_rng(0), np.repeat(["a", "b", "c", "d"], [2_000, 300, 300, 300])
    value = rng.normal(1.0, 0.3, group.size) + np.where((rng.random(group.size) < 0.01) & (group != "d"), 30.0, 0.0)
    roles: dict[str, Any] = {"metric": iso.Metric("value", value=iso.col("v")), "groups": "g", "rng": 0}
    result = iso.certify({"g": group, "v": value}, **roles)
    assert result.pvalue < 0.05
    assert result.verdict is Verdict.INCONCLUSIVE
    assert "joint_narrow" in [note.code for note in result.notes]
    different = rng.exponential(np.where(group == "d", 0.7, 1.0))
    assert iso.certify({"g": group, "v": different}, **roles).verdict is Verdict.VIOLATION
    few = rng.exponential(np.where(np.arange(160) < 40, 0.3, 1.0))
    result = iso.certify({"g": np.repeat(["a", "b", "c", "d"], 40), "v": few}, **roles)
    assert result.verdict is Verdict.VIOLATION


def test_constraints_that_single_out_too_few_rows_are_left_out() -> None:
    """All but one row of race=b are men: race=b and its men together would pin that single row."""
    race = ["a"] * 100 + ["b"] * 31
    sex = ["f", "m"] * 50 + ["f"] + ["m"] * 30
    selected = [0, 0, 1, 1] * 25 + [1] + [0, 1] * 15
    data = {"race": race, "sex": sex, "selected": selected}
    result = iso.certify(data, **{**RATE, "groups": ["race", "sex"]}, depth=2)
    assert result.joint_status is Status.OK
    assert result.df == 2
    assert any(
        "Left out of the joint test: race=a & sex=f, race=a & sex=m and race=b & sex=m." in w for w in result.warnings
    ), result.warnings
    strict = iso.certify(data, **{**RATE, "groups": ["race", "sex"]}, depth=2, min_size=1)
    assert strict.df == 3


def test_a_factor_that_cannot_be_had_is_warned_about() -> None:
    """In most resamples of two rows a group, one group is constant."""
    data = {"race": ["a", "a", "b", "b"], "loss": [0.0, 1.0, 0.5, 1.5]}
    result = iso.certify(data, min_size=1, method=iso.likelihood("el", "bartlett", 100), rng=1, **LOSS)
    assert result.statistic == iso.certify(data, min_size=1, **LOSS).statistic
    assert any("correction could not be computed" in w for w in result.warnings)
    flagged = iso.flag(data, min_size=1, method=iso.likelihood("el", "bartlett", 100), rng=1, **LOSS)
    assert any("correction could not be computed for race=a" in w for w in flagged.warnings)
    ratios = iso.flag(data, min_size=1, method=iso.likelihood("el", "bartlett", 100), rng=1, scale="ratio", **LOSS)
    assert any("correction could not be computed for race=a" in w for w in ratios.warnings)


@pytest.mark.parametrize("method", ["el", "eel"])
@pytest.mark.parametrize(
    ("reference", "null"),
    [("rest", [0.1, 0.1]), ("rest", 0.1), ("population", [0.1, 0.0]), ("rest", [0.1, -0.05])],
    ids=str,
)
def test_a_null_that_contradicts_itself_is_called_so(reference: str, null: Any, method: Method) -> None:
    result = iso.certify(counted((200, 110), (200, 110)), reference=reference, null=null, method=method, **RATE)
    assert result.joint_status is Status.INFEASIBLE
    assert np.isinf(result.statistic)
    assert any("contradicts itself" in w for w in result.warnings)
    three = iso.certify(counted((200, 110), (200, 110), c=(100, 50)), method=method, **RATE)
    assert not three.contains([0.1, 0.1, 0.05])
    assert three.region is not None
    assert three.region.test([0.1, 0.1, 0.05]).status is Status.INFEASIBLE
    assert three.region.test([0.1, 0.1, -0.15]).status is not Status.INFEASIBLE


def test_no_weighting_meets_the_null(lender: dict[str, Any]) -> None:
    result = iso.certify(lender, reference=100.0, **LOSS)
    assert result.joint_status is Status.OUTSIDE_RANGE
    assert result.pvalue == 0.0
    assert result.verdict is Verdict.VIOLATION


@pytest.mark.parametrize(("rows", "told"), [(40, False), (400_000, True)])
def test_one_verdict_is_called_small_only_where_every_difference_may_be(rows: int, told: bool) -> None:
    """Half a point in a large table; thirty points in a small one; a tolerance, which leaves nothing to say."""
    high = 0.505 if told else 0.8
    counts = [round(high * rows), round((1 - high) * rows), rows // 2, rows // 2]
    table = {"g": ["a", "a", "b", "b"], "p": [1, 0, 1, 0], "n": counts}
    options: dict[str, Any] = {**RATE_P, "reference": {"g": "b"}, "count": "n"}
    result = iso.certify(table, **options)
    assert result.verdict is Verdict.VIOLATION
    assert ("too small to matter" in " ".join(result.summary().split())) == told
    assert "too small to matter" not in " ".join(iso.certify(table, tolerance=0.001, **options).summary().split())


M = iso.Metric("m", iso.col("x"))


VALUE: dict[str, Any] = {"metric": M, "groups": "g"}


# One group that varies beside 30 equal rows; and two of them.
ONE = {"x": np.r_[np.linspace(-1, 1, 30), np.full(30, 0.25)], "g": ["a"] * 30 + ["b"] * 30}


TWO = {
    "x": np.r_[np.linspace(-1, 1, 30), np.linspace(-1.1, 1.5, 40), np.full(30, 0.1)],
    "g": ["a"] * 30 + ["b"] * 40 + ["c"] * 30,
}


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
    if reference == "population":
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
        result = iso.certify(table, metric="mse", outcome="y", prediction="p", groups="g", method=QUICK)
        assert result.joint_status is Status.OK
        assert result.verdict is Verdict.INCONCLUSIVE


def test_equal_rows_of_a_named_reference_count_for_the_degrees_of_freedom() -> None:
    x = np.tile([-1.0, 1.0], 15)
    data = {"x": np.r_[x + 0.25, x - 0.25, np.zeros(30)], "g": np.repeat(["a", "b", "c"], 30)}
    assert iso.certify(data, reference={"g": "c"}, **VALUE).df == iso.certify(data, reference=0.0, **VALUE).df == 2


def test_the_minimum_may_lie_at_the_end_of_a_rate() -> None:
    """Two groups without a one, at a disparity of -0.2: the reference is at 0.2, and T = -2 n log 0.8."""
    result = iso.certify(
        {"p": [0] * 40, "g": ["a", "b"] * 20},
        reference={"g": "b"},
        null=-0.2,
        method=PLAIN,
        **RATE_P,
    )
    assert result.statistic == pytest.approx(-40 * np.log(0.8), rel=1e-9)
    assert result.joint_status is Status.OK


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
    if reference == "rest":
        return
    # Their mean is free: the estimates, which count them, are met exactly, and so is any common move of both groups.
    assert result.region is not None
    tested = result.disparity[:2]
    assert result.region.test(tested).statistic == pytest.approx(0, abs=1e-12)
    assert result.region.test(tested).df == 1
    away = result.region.test(tested + np.array([0.3, 0.0]))
    assert away.statistic > 1
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
    refused: list[dict[str, Any]] = [{"method": "eel"}, {"method": "published"}]
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
    joint = iso.certify(table, method=PLAIN, **ODDS)
    tpr, fpr = (iso.certify(table, method=PLAIN, **{**ODDS, "metric": metric}) for metric in ("tpr", "fpr"))
    assert joint.df == tpr.df + fpr.df
    assert joint.statistic == pytest.approx(tpr.statistic + fpr.statistic)
    assert joint.pvalue == pytest.approx(chi2.sf(joint.statistic, joint.df), rel=1e-9)
    constant = {name for name, status in zip(joint.names, joint.status, strict=True) if status is Status.CONSTANT}
    assert {f"g={name} (fpr)" for name in groups} <= constant


@pytest.mark.parametrize("metric", ["fpr", "equalized_odds"])
def test_cells_without_variation_count_where_rows_have_weights(metric: str) -> None:
    """Equal weights are no weights: T is that of the rows, held against an F instead of a chi-square."""
    table = without_any(small_cells(4), "g1", "g2", "g3")
    plain = iso.certify(table, method=PLAIN, **{**ODDS, "metric": metric})
    weighed = iso.certify(table | {"w": np.full(len(table["g"]), 2.0)}, weight="w", **{**ODDS, "metric": metric})
    assert weighed.df == plain.df
    assert plain.pvalue < weighed.pvalue < plain.pvalue + 0.1


def test_several_metrics_of_small_groups_are_corrected_one_by_one() -> None:
    table = small_cells(4)
    joint = iso.certify(table, rng=1, **ODDS)
    alone = [iso.certify(table, rng=1, **{**ODDS, "metric": metric}) for metric in ("tpr", "fpr")]
    plain = iso.certify(table, method=PLAIN, **ODDS)
    assert joint.statistic == pytest.approx(sum(one.statistic for one in alone), rel=0.02)  # other resamples
    assert joint.statistic < 0.97 * plain.statistic
    assert joint.df == plain.df
    assert joint.pvalue == pytest.approx(chi2.sf(joint.statistic, joint.df), rel=1e-9)
    divided = plain.statistic / joint.statistic
    assert any(f"Its statistic was divided by {divided:.3g}" in warning for warning in joint.warnings)
    assert joint.region is not None
    assert joint.region.test(0.0).statistic == pytest.approx(joint.statistic)


BOTH: dict[str, Any] = {"outcome": "y", "prediction": "p", "groups": "g"}


def test_why_the_rows_behind_a_result_are_gone() -> None:
    result = iso.certify(THREE, **RATE_P)
    for copy in (result.suppressed(5), iso.from_json(result.to_json())):
        assert copy.region is None
        with pytest.raises(UsageError, match=r"keep the result in memory, or store it with to_json\(rows=True\)"):
            copy.contains(0.0)
    with pytest.raises(UsageError, match="withheld"):
        result.suppressed(50).contains(0.0)


def test_no_row_is_stored_unless_asked_for(lender: dict[str, Any]) -> None:
    data = lender | {"loss": lender["loss"] + 0.123456789}
    result = iso.certify(data, metric=iso.Metric("loss", value=iso.col("loss")), groups="race")
    assert result.region is not None
    without: Any = result.to_dict()["result"]
    whole: Any = result.to_dict(rows=True)["result"]
    assert without["region"] is None
    assert whole["region"]["lines"]["value"]["shape"] == [600]
    assert len(result.to_json()) < 6_000
    assert result.suppressed(1).region is None


def test_a_round_trip_keeps_the_region_on_request(lender: dict[str, Any]) -> None:
    loss: dict[str, Any] = {"metric": iso.Metric("loss", value=iso.col("loss")), "groups": ["race", "sex"]}
    for options in (RATE, loss):
        result = iso.certify(lender, **options)
        again = iso.from_json(result.to_json(rows=True))
        for disparity in (0.01, 0.2):
            assert again.contains(disparity) == result.contains(disparity)
        assert again.to_frame().equals(result.to_frame())
        assert main_panel(result.plot())["layer"]


def test_certifying_several_metrics_adds_what_is_independent() -> None:
    table = several()
    both = iso.certify(table, metric="equalized_odds", **BOTH)
    alone = [iso.certify(table, metric=metric, **BOTH) for metric in ("tpr", "fpr")]
    assert both.statistic == pytest.approx(sum(one.statistic for one in alone))
    assert both.pvalue == pytest.approx(chi2.sf(both.statistic, 4))  # no row counts for both
    assert not both.contains(0.0)
    with pytest.raises(UsageError, match="only no difference"):
        both.contains(both.disparity)
    # The same metric twice over, but for its sign: one chi-square of 2 df counted twice.
    twice = iso.certify(table, metric=["tpr", "fnr"], **BOTH)
    assert twice.pvalue == pytest.approx(chi2.sf(alone[0].statistic, 2), rel=1e-6)


def test_one_group_that_varies_beside_constant_ones_has_its_own_degrees_of_freedom() -> None:
    rng, n = np.random.default_rng(0), 40
    group = np.array(list("vwxy"))[rng.integers(0, 3, n)]
    outcome = rng.integers(0, 2, n)
    guess = (rng.random(n) < 0.5).astype(int)
    table = {"g": group, "y": outcome, "d": np.where(group == "v", outcome, guess)}
    result = iso.certify(
        table, metric="f1", outcome="y", prediction="d", groups="g", min_size=5, reference={"g": "w"}, rng=1
    )
    assert [status for status, name in zip(result.status, result.labels, strict=True) if name == "g=v"] == ["constant"]
    assert 0.0 < result.pvalue < 1.0
