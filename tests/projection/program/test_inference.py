"""Inference with extreme distances, few rows, rows on the boundary, and constant rates."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats

import isonomy as iso
from isonomy.numerics.status import Status
from isonomy.projection import Discerning, ProjectionResult
from support.tables import decided

ROLES: dict[str, Any] = {"outcome": "y", "prediction": "c"}
SCORE: dict[str, Any] = ROLES | {"score": "score", "threshold": 0.2}


PARITY: dict[str, Any] = {"prediction": "c", "groups": "g", "criterion": "statistical_parity"}
OWN = Discerning(
    u={"in": iso.col("g") == 1, "out": iso.col("g") == 0},
    phi=lambda u, mean: u[:, 0] / mean[0] - u[:, 1] / mean[1],
    names=("1 against 0",),
)


def scores(n: int = 2_000, shift: float = 0.3, seed: int = 1) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    group = rng.choice(["a", "b"], n)
    score = rng.normal(size=n) + shift * (group == "b")
    return {"g": group, "s": score, "c": (score >= 0).astype(int), "d": np.abs(score)}


def handful(selected: int, rows: int, others: int, rate: float, **options: Any) -> ProjectionResult:
    """A small group and a large one."""
    decided = np.zeros(others + rows, dtype=int)
    decided[: round(others * rate)] = 1
    decided[others : others + selected] = 1
    distance = np.random.default_rng(0).exponential(size=others + rows)
    data = {"g": [0] * others + [1] * rows, "c": decided, "d": distance}
    return iso.project(data, **({"distance": "d"} | PARITY | options))


# --- wild distances ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wild", [slice(0, 1), slice(None, None, 20)])
def test_wild_distances_do_not_disable_the_test(wild: slice) -> None:
    """A bandwidth from the standard deviation would give p = 0.5 with one row at 9999, and 1 with sentinels."""
    data = scores()
    plain = iso.project(data, distance="d", **PARITY)
    data["d"] = data["d"].copy()
    data["d"][wild] = 1e6
    result = iso.project(data, distance="d", **PARITY)
    assert result.test_status is Status.OK
    assert result.bandwidth == pytest.approx(plain.bandwidth, rel=0.2)
    assert result.pvalue < 1e-4
    lazy = iso.project(pl.DataFrame(data).lazy(), distance="d", **PARITY)
    assert lazy.bandwidth == pytest.approx(result.bandwidth, rel=1e-9)
    assert lazy.pvalue == pytest.approx(result.pvalue, rel=1e-9)


# --- few rows at the edge of a tolerance -------------------------------------------------------------------------


@pytest.mark.parametrize("own", [False, True])
def test_nobody_of_a_handful_shows_nothing_about_a_tolerance(own: bool) -> None:
    """0 of 12 selected has probability 0.9^12 = 0.28 at the edge; a pooled variance gave 7e-17."""
    options = {"criterion": OWN, "groups": None} if own else {}
    result = handful(0, 12, 20_000, 1 / 600, tolerance=0.1, **options)
    assert result.equivalence_pvalue == pytest.approx((1 - 0.1 - 1 / 600) ** 12, rel=0.01)
    assert result.verdict is iso.Verdict.INCONCLUSIVE


@pytest.mark.parametrize("own", [False, True])
def test_all_of_a_handful_is_no_violation_of_a_wide_tolerance(own: bool) -> None:
    """3 of 3 at a rate of 0.55; a pooled variance gave 5e-90."""
    options = {"criterion": OWN, "groups": None} if own else {}
    result = handful(3, 3, 2_000, 0.05, tolerance=0.5, **options)
    assert result.test_status is Status.UNSUPPORTED
    assert result.pvalue == pytest.approx(0.55**3, rel=0.01)
    assert any("p-value is that of the Wald test" in w for w in result.warnings)


@pytest.mark.parametrize("tolerance", [40.0, {"above": 40.0}, {"below": 40.0}])
def test_a_tolerance_beyond_all_that_can_be(tolerance: Any) -> None:
    """No rates are at its edge, so there is no variance there."""
    options: dict[str, Any] = {"criterion": OWN, "groups": None, "tolerance": tolerance}
    for selected in (0, 5, 12):
        result = handful(selected, 12, 300, 0.3, **options)
        assert result.pvalue == 1.0
        assert result.verdict is iso.Verdict.WITHIN_TOLERANCE


def test_large_groups_are_judged_as_before() -> None:
    """With many rows the restricted rates are those of the groups: the usual z-test of the tolerance."""
    result = handful(2_200, 20_000, 20_000, 0.10, tolerance=0.03)
    z = (0.03 - 0.01) / np.sqrt((0.11 * 0.89 + 0.10 * 0.90) / 20_000)
    assert stats.norm.isf(result.equivalence_pvalue) == pytest.approx(z, rel=0.02)
    assert result.verdict is iso.Verdict.WITHIN_TOLERANCE


def test_several_small_groups_at_once() -> None:
    """Several comparisons with a tolerance: the small group alone does not cause a violation."""
    rng = np.random.default_rng(2)
    group = np.repeat(["a", "b", "c"], [2_000, 1_000, 3])
    decided = (rng.random(3_003) < 0.05).astype(int)
    decided[-3:] = 1
    data = {"g": group, "c": decided, "d": rng.exponential(size=3_003)}
    result = iso.project(data, distance="d", tolerance=0.5, rng=1, **PARITY)
    assert result.test_status is Status.UNSUPPORTED
    assert result.pvalue > 0.1
    assert result.equivalence_pvalue > 0.5


# --- rates that are 0 or 1 everywhere ----------------------------------------------------------------------------


@pytest.mark.parametrize("tolerance", [None, 0.05])
def test_a_label_without_variation_is_left_out(tolerance: float | None) -> None:
    rng = np.random.default_rng(2)
    group, outcome = rng.choice(["a", "b"], 4_000), rng.integers(0, 2, 4_000)
    selected = (rng.random(4_000) < 0.3 + 0.3 * (group == "b")) & (outcome == 1)
    data = {"g": group, "y": outcome, "c": selected.astype(int), "d": rng.exponential(size=4_000)}
    roles: dict[str, Any] = {"outcome": "y", "prediction": "c", "groups": "g", "distance": "d", "tolerance": tolerance}
    both = iso.project(data, criterion="equalized_odds", **roles)
    one = iso.project(data, criterion="equal_opportunity", **roles)
    assert both.pvalue == pytest.approx(one.pvalue, rel=1e-9)
    assert both.wald_pvalue == pytest.approx(one.wald_pvalue, rel=1e-9)
    assert both.verdict is iso.Verdict.VIOLATION
    assert any("Not tested" in w and "among those with outcome 0" in w for w in both.warnings)
    assert list(both.status).count(Status.CONSTANT) == 1
    untested = both.status.index(Status.CONSTANT)
    assert both.outcome[untested] == 0
    assert np.isnan(both.ci_low[untested])


# --- rows on the boundary ----------------------------------------------------------------------------------------


def test_an_atom_at_the_boundary_gets_the_wald_test() -> None:
    """2 % of the rows move for free; averaged over a bandwidth, they were overlooked and removed the power."""
    data = scores()
    free = np.random.default_rng(3).random(2_000) < 0.02
    atom = data | {"d": np.where(free, 0.0, data["d"])}
    for table in (atom, pl.DataFrame(atom).lazy()):
        result = iso.project(table, distance="d", **PARITY)
        assert result.test_status is Status.ATOMS
        assert result.pvalue == result.wald_pvalue
    two = data | {"d": np.where(np.arange(2_000) < 2, 0.0, data["d"])}
    assert iso.project(two, distance="d", **PARITY).test_status is Status.OK


def test_intervals_of_rates_stay_between_minus_one_and_one() -> None:
    result = handful(6, 6, 2_000, 0.02)
    assert result.disparity.max() == pytest.approx(0.98)
    assert result.ci_high.max(initial=-1.0, where=np.isfinite(result.ci_high)) <= 1.0
    small = handful(2, 3, 4, 0.25)
    assert np.nanmin(small.ci_low) >= -1.0
    assert np.nanmax(small.ci_high) <= 1.0


def test_infeasible_is_about_costs_not_evidence() -> None:
    data = decided(shift=0.5)
    data["distance"] = np.where(data["group"] == "c", data["distance"], np.inf)
    result = iso.project(data, groups="group", distance="distance", **ROLES)
    assert result.test_status is Status.INFEASIBLE
    assert result.statistic == np.inf
    assert result.pvalue == result.wald_pvalue
    assert np.isnan(result.critical_value)
    assert "infeasible" in result.summary()


def test_scores_on_a_lattice_are_spread_over_its_steps() -> None:
    """Rounding to a tenth hardly changes the p-value, also on engines."""
    data = decided(8_000, shift=0.25)
    plain = iso.project(data, groups="group", **SCORE)
    rounded = data | {"score": np.floor((data["score"] - 0.2) * 10) / 10 + 0.2}
    for table in (rounded, pl.DataFrame(rounded).lazy(), rounded | {"score": rounded["score"] + 0.05}):
        result = iso.project(table, groups="group", **SCORE)
        assert result.test_status is Status.OK
        assert np.log(result.pvalue) == pytest.approx(np.log(plain.pvalue), rel=0.2)
        assert result.tested_statistic == pytest.approx(plain.statistic, rel=0.2)
        assert (result.tested_statistic >= result.critical_value) == (result.pvalue <= 0.05)


@pytest.mark.parametrize("places", [[-1.0, 0.3, 0.4, 0.9, 1.7], [-0.1, 0.1]])
def test_other_ties_get_the_wald_test(places: list[float]) -> None:
    """Unequal steps, or too few steps, have no density."""
    rng = np.random.default_rng(0)
    score = rng.choice([*places, -0.2, -0.35, -0.9], 4_000)
    data = {"g": rng.choice(["a", "b"], 4_000), "s": score, "c": score >= 0}
    result = iso.project(data, score="s", threshold=0.0, method=iso.corrected(1.0), **PARITY)
    assert result.test_status is Status.ATOMS
    assert result.pvalue == result.wald_pvalue
    assert np.isfinite(result.statistic)
    assert np.isnan(result.critical_value)  # that of the Wald test would be on another scale than the statistic


def test_several_small_groups_are_judged_at_the_rates_of_the_null() -> None:
    """Pearson's chi-square of the same counts; at the observed rates, 0.096 of true nulls were rejected."""
    rng = np.random.default_rng(1)
    group = np.repeat(["a", "b", "c", "d", "e"], [1_600, 100, 100, 100, 100])
    score = rng.normal(size=group.size) - 1.28
    data = {"g": group, "s": score, "c": (score >= 0).astype(int)}
    result = iso.project(data, score="s", threshold=0.0, **PARITY)
    counts = [[(data["c"][group == g] == c).sum() for g in "abcde"] for c in (0, 1)]
    assert result.wald_pvalue == pytest.approx(stats.chi2_contingency(counts, correction=False).pvalue, rel=1e-9)


def test_a_handful_is_compared_by_permutation() -> None:
    """4 of 6 selected against 100 of 2,000: the exact tail of the hypergeometric distribution."""
    result = handful(4, 6, 2_000, 0.05, rng=3)
    table = np.array([[4, 2], [100, 1_900]])
    assert result.test_status is Status.UNSUPPORTED
    assert result.pvalue == pytest.approx(stats.fisher_exact(table).pvalue, abs=3e-4)
    assert result.provenance.seed is not None
    some = handful(1, 6, 2_000, 0.05, rng=3)
    expected = stats.hypergeom.sf(0, 2_006, 101, 6)  # one or more: none at all is less unusual
    assert some.pvalue == pytest.approx(expected, abs=4 * np.sqrt(expected / 20_000))


def test_each_group_needs_rows_near_the_boundary() -> None:
    """The rows of other groups say nothing about the density of a group without rows there."""
    rng = np.random.default_rng(0)
    group = np.array(["a"] * 1_000 + ["b"] * 1_000 + ["c"] * 20)
    score = rng.normal(size=group.size)
    score[-20:] = np.where(np.arange(20) < 6, 1.5, -1.5) + 0.1 * rng.normal(size=20)
    data = {"g": group, "s": score, "c": score >= 0}
    options: dict[str, Any] = PARITY | {"score": "s", "threshold": 0.0}
    result = iso.project(data, **options)
    assert result.test_status is Status.UNSUPPORTED
    assert result.pvalue == result.wald_pvalue
    without = {name: values[:-20] for name, values in data.items()}
    assert iso.project(without, **options).test_status is Status.OK


def test_rates_of_zero_and_one_use_the_nulls_variance() -> None:
    data = {"g": ["a"] * 200 + ["b"] * 200, "c": [1] * 200 + [0] * 200, "d": np.random.default_rng(0).random(400)}
    result = iso.project(data, prediction="c", groups="g", distance="d", criterion="statistical_parity")
    assert result.verdict is iso.Verdict.VIOLATION
    assert any("always or never" in w for w in result.warnings)


def test_the_published_law_is_the_papers() -> None:
    """Corollary 1 by hand: h = N^(-1/5) and the rates of the groups, for any rows."""
    data = scores(300)
    result = iso.project(data, score="s", threshold=0.0, method="published", **PARITY)
    assert result.bandwidth == pytest.approx(300 ** (-1 / 5))
    share = {g: (data["g"] == g).mean() for g in "ab"}
    rate = {g: data["c"][data["g"] == g].mean() for g in "ab"}
    sigma = sum(rate[g] * (1 - rate[g]) / share[g] for g in "ab")
    phi = np.where(data["g"] == "a", 1 / share["a"], 1 / share["b"])
    kernel = stats.norm.pdf(data["d"] / result.bandwidth) / (300 * result.bandwidth)
    assert result.pvalue == pytest.approx(stats.chi2.sf(2 * (kernel @ phi**2) * result.statistic / sigma, 1), rel=1e-9)
    assert any("the published procedure of the paper" in w for w in result.warnings)
    tiny = handful(3, 3, 40, 0.5, method="published")  # three rows without variance were treated as certain
    assert tiny.test_status is Status.OK
    with pytest.raises(iso.errors.UsageError, match=r"method: .published. has no law"):
        iso.project(data, score="s", threshold=0.0, method="published", tolerance=0.1, **PARITY)


def test_few_clusters_are_not_tested() -> None:
    data = scores(400) | {"branch": np.arange(400) % 8, "w": np.ones(400)}
    result = iso.project(data, score="s", threshold=0.0, cluster="branch", **PARITY)
    assert result.test_status is Status.FEW_CLUSTERS
    assert np.isnan(result.pvalue)
    assert result.verdict is iso.Verdict.INCONCLUSIVE
    assert any("fewer than 10 effective clusters" in w for w in result.warnings)
    assert sorted(result.status) == [Status.FEW_CLUSTERS, Status.REFERENCE]
    assert np.isnan(result.ci_low).all()
    weighted = iso.project(data, score="s", threshold=0.0, weight="w", **PARITY)
    with pytest.raises(iso.errors.UsageError, match="whole: rows with weights"):
        weighted.moved_rows(whole=True)
    with pytest.raises(iso.errors.UsageError, match="neither weight nor"):
        iso.project(data, score="s", threshold=0.0, weight="w", method="published", **PARITY)


def test_one_comparison_of_clusters_is_a_t_test() -> None:
    """By hand: the linearized difference of two weighted rates, with the variance of the sums over clusters."""
    rng = np.random.default_rng(4)
    data = scores(900) | {"branch": rng.integers(0, 60, 900), "w": np.exp(0.3 * rng.normal(size=900))}
    result = iso.project(data, score="s", threshold=0.0, cluster="branch", weight="w", **PARITY)
    in_b = data["g"] == "b"
    psi = np.zeros(900)
    for rows, sign in ((in_b, 1.0), (~in_b, -1.0)):
        mean = np.average(data["c"][rows], weights=data["w"][rows])
        psi[rows] = sign * data["w"][rows] * (data["c"][rows] - mean) / data["w"][rows].sum()
    sums = np.bincount(data["branch"], psi)
    variance = 60 / 59 * (sums**2).sum()
    df = (sums**2).sum() ** 2 / (sums**4).sum() - 1
    difference = np.nansum(np.abs(result.disparity))
    assert result.wald_statistic == pytest.approx(difference**2 / variance, rel=1e-9)
    assert result.wald_pvalue == pytest.approx(2 * stats.t.sf(difference / np.sqrt(variance), df), rel=1e-9)


@pytest.mark.parametrize("design", ["weight", "cluster"])
def test_rates_of_0_and_1_have_no_variance_with_weights_or_clusters(design: str) -> None:
    """One group is always selected, the other never: decisions vary, but no rate has a variance."""
    group = np.repeat(["a", "b"], 200)
    data = {"g": group, "c": (group == "a").astype(int), "d": np.linspace(0.1, 1.0, 400), "w": np.arange(400) % 7 + 1}
    options: dict[str, Any] = {design: "w" if design == "weight" else np.arange(400) // 4}
    result = iso.project(data, distance="d", **PARITY, **options)
    assert result.test_status is Status.CONSTANT
    assert sorted(result.status) == [Status.CONSTANT, Status.REFERENCE]
    assert np.isnan(result.pvalue)
    assert np.abs(result.disparity).max() == 1.0
    assert any("everybody in some group, has the same decision" in w for w in result.warnings)
    assert not any("do not vary" in w for w in result.warnings)


def test_constant_moments_of_a_user_defined_criterion_have_words_of_their_own() -> None:
    data = scores() | {"c": np.zeros(2_000, dtype=int)}
    criterion = Discerning(u={"b": iso.col("g") == "b"}, phi=lambda u, mean: u[:, 0], names=("selected in b",))
    result = iso.project(data, prediction="c", distance="d", criterion=criterion)
    assert result.test_status is Status.CONSTANT
    assert any("moments of this criterion do not vary" in w for w in result.warnings)


# --- few events with weights or clusters -------------------------------------------------------------------------


DESIGNS: dict[str, dict[str, Any]] = {"weight": {"weight": "w"}, "cluster": {"cluster": "k"}}


def designed(selected: int, rows: int, others: int, rate: float, **options: Any) -> ProjectionResult:
    """The same small and large groups, where every row has a weight of 1 and is its own cluster."""
    size = others + rows
    decided = np.zeros(size, dtype=int)
    decided[: round(others * rate)] = 1
    decided[others : others + selected] = 1
    distance = np.random.default_rng(0).exponential(size=size)
    data = {"g": [0] * others + [1] * rows, "c": decided, "d": distance, "w": np.ones(size), "k": np.arange(size)}
    data |= {"y": np.ones(size, dtype=int)}
    return iso.project(data, **({"distance": "d"} | PARITY | options))


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize(("rows", "others", "rate"), [(40, 2_000, 0.05), (100, 4_000, 0.02)])
def test_a_group_without_events_is_not_accused(design: str, rows: int, others: int, rate: float) -> None:
    """Its estimated variance is 0: the p-value was below 0.001, although nobody of 40 has a probability of 0.13."""
    result = designed(0, rows, others, rate, **DESIGNS[design])
    assert result.test_status is Status.FEW_EVENTS
    assert result.status[result.labels.index("g=1")] is Status.FEW_EVENTS
    assert result.verdict is iso.Verdict.INCONCLUSIVE
    assert np.isnan([result.pvalue, result.wald_pvalue, result.critical_value]).all()
    assert np.isnan(result.ci_low[result.labels.index("g=1")])
    assert result.disparity[result.labels.index("g=1")] == pytest.approx(-rate)
    assert result.moved > 0  # the plan needs no distribution
    assert any("Not tested" in w and "refused: g=1." in w for w in result.warnings)
    assert "Not answered" in result.headline()
    refused = designed(rows, rows, others, 1 - rate, **DESIGNS[design])
    assert refused.test_status is Status.FEW_EVENTS  # the same if nobody is refused


@pytest.mark.parametrize(
    "criterion", ["equal_opportunity", "predictive_equality", "equalized_odds", "statistical_parity"]
)
def test_few_events_in_every_criterion(criterion: str) -> None:
    """The small group has no event among the compared rows, but enough among the others."""
    rng = np.random.default_rng(3)
    group, outcome = np.repeat([0, 1], [4_000, 80]), np.tile([0, 1], 2_040)
    chosen = (rng.random(4_080) < np.where(group == 1, 0.5, 0.05)).astype(int)
    empty = {"equal_opportunity": [1], "predictive_equality": [0], "equalized_odds": [0], "statistical_parity": [0, 1]}
    chosen[(group == 1) & np.isin(outcome, empty[criterion])] = 0
    data = {"g": group, "y": outcome, "c": chosen, "d": rng.exponential(size=4_080), "w": np.ones(4_080)}
    roles = PARITY | {"outcome": "y", "distance": "d", "weight": "w", "criterion": criterion}
    result = iso.project(data, **roles)
    assert result.test_status is Status.FEW_EVENTS
    assert np.isnan(result.pvalue)
    few = [i for i, status in enumerate(result.status) if status is Status.FEW_EVENTS]
    assert [(result.labels[i], result.outcome[i]) for i in few] == [
        ("g=1", None if criterion == "statistical_parity" else empty[criterion][0])
    ]


def test_few_events_of_a_tuple_of_ones_own() -> None:
    result = designed(0, 40, 2_000, 0.05, weight="w", criterion=OWN, groups=None)
    assert result.test_status is Status.FEW_EVENTS
    assert any("refused: 1 against 0. With weights" in w for w in result.warnings)
    assert designed(9, 40, 2_000, 0.05, weight="w", criterion=OWN, groups=None).test_status is not Status.FEW_EVENTS


@pytest.mark.parametrize("design", DESIGNS)
def test_the_number_of_events_that_a_design_needs(design: str) -> None:
    """8 observed, or 8 expected at the rate of the null: if so many are expected, observing none is not chance."""
    few, enough = (designed(n, 40, 2_000, 0.05, **DESIGNS[design]) for n in (7, 8))
    assert few.test_status is Status.FEW_EVENTS
    assert enough.test_status is not Status.FEW_EVENTS
    assert enough.pvalue < 0.05
    none = designed(0, 200, 2_000, 0.5, **DESIGNS[design])
    assert none.verdict is iso.Verdict.VIOLATION
    small, large = (designed(0, n, 8_000, 0.05, **DESIGNS[design]) for n in (159, 170))
    assert small.test_status is Status.FEW_EVENTS  # 159 x 0.049
    assert large.verdict is iso.Verdict.VIOLATION


def test_events_are_counted_by_what_they_are_worth() -> None:
    """(sum of weights)^2 / (sum of squared weights) of the events; repeated rows of one person are one event."""
    selected = np.zeros(2_040, dtype=int)
    selected[:100], selected[2_000:2_010] = 1, 1
    weight = np.ones(2_040)
    data = {"g": np.repeat([0, 1], [2_000, 40]), "c": selected, "d": np.random.default_rng(0).random(2_040)}
    for heavy in (2.0, 4.0):
        weight[2_000] = heavy
        worth = weight[2_000:2_010].sum() ** 2 / (weight[2_000:2_010] ** 2).sum()
        assert (worth < 8) == (heavy > 3)
        result = iso.project(data | {"w": weight}, distance="d", weight="w", **PARITY)
        assert (result.test_status is Status.FEW_EVENTS) == (worth < 8)
    person = np.arange(2_040)
    person[2_000:2_010] = np.arange(2_000, 2_010) // 2  # ten events of five people
    assert iso.project(data | {"k": person}, distance="d", cluster="k", **PARITY).test_status is Status.FEW_EVENTS


def test_few_events_show_no_tolerance_to_hold() -> None:
    """0 of 12 says little about a tolerance of 0.1 (0.9^12 = 0.28); the t-test was certain."""
    result = designed(0, 12, 20_000, 1 / 600, tolerance=0.1, weight="w", method=iso.corrected(curve=True))
    assert result.test_status is Status.FEW_EVENTS
    assert np.isnan(result.equivalence_pvalue)
    assert result.verdict is iso.Verdict.INCONCLUSIVE
    assert result.curve is not None
    assert np.isnan(result.curve.least)
    assert np.isinf(result.curve.most)
    beyond = designed(0, 12, 2_000, 0.2, tolerance=0.05, weight="w")  # 0.85^12 = 0.14 at the edge
    assert beyond.test_status is Status.FEW_EVENTS
    far = designed(0, 200, 2_000, 0.5, tolerance=0.05, weight="w")
    assert far.verdict is iso.Verdict.VIOLATION
