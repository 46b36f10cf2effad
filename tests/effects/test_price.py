"""The price of fairness: quantities, their changes, and the sentences about them."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import isonomy as iso
from isonomy.effects.price import loss, policy_value, qini, standard_error
from isonomy.errors import DataError, UsageError
from isonomy.numerics.arrays import FloatArray
from support.tables import uplift

ROLES: dict[str, Any] = {"effect": "effect", "treatment": "treatment", "outcome": "outcome", "groups": "group"}


def scores(z: Any, effect: Any, ranks: Any, weight: Any, budget: float) -> tuple[Any, Any, Any]:
    return qini(z, ranks, weight), loss(z, effect, weight), policy_value(z, ranks, weight, budget)


def corrected(measure: Any = "relative", rows: int = 20_000, **options: Any) -> iso.PriceResult:
    made = uplift(rows, error={"b": 1.0}, measure=measure, baseline=0.3)
    shift = np.where(made["group"] == "b", 1.0, 0.0)
    made |= {"right": made["effect"] - shift, "same": made["effect"], "p": np.full(rows, 0.5)}
    return iso.price_of_fairness(made, **ROLES, corrected=["right", "same"], measure=measure, **options)


def test_the_price_of_a_right_correction_is_negative() -> None:
    """Predictions that were far too high for one group directed the budget there; the correction recovers it."""
    price = corrected(baseline="baseline", budget=0.2)
    right = dict(zip(price.metric[:3], price.disparity[:3], strict=True))
    assert right["loss"] < 0 < right["qini"]
    assert price.bias_after[0] < 0.2 * price.bias_before[0]
    np.testing.assert_array_equal(price.disparity[3:], 0)
    np.testing.assert_array_equal(price.adjusted_pvalue[3:], 1)
    assert "1 of 6 changes of the ranking was shown to be more than chance" in price.headline()
    back = iso.from_json(price.to_json())
    assert back.summary() == price.summary()
    assert price.to_frame().shape == (6, 13)
    for quantity in price.metric[:3]:
        assert price.plot(quantity).to_dict()  # type: ignore[arg-type]


def test_a_price_without_a_baseline_says_what_is_not_known() -> None:
    price = corrected()
    assert np.isnan(price.disparity[1::3]).all()
    assert any("Without a baseline column" in warning for warning in price.warnings)
    known = corrected(measure="difference", estimator=iso.arm_means("p"))
    share = corrected(measure="difference")
    np.testing.assert_allclose(known.reference, share.reference, rtol=0.05)


def test_a_price_honours_weights_and_clusters() -> None:
    """Doubled weights change nothing; rows repeated within clusters count as their clusters."""
    made = uplift(3_000, error={"b": 1.0}, measure="difference", baseline=0.3)
    made |= {"right": made["effect"] - (made["group"] == "b"), "w": np.full(3_000, 2.0), "who": np.arange(3_000)}
    options: dict[str, Any] = {**ROLES, "corrected": "right", "measure": "difference"}
    plain, doubled = (iso.price_of_fairness(made, **options, weight=weight) for weight in (None, "w"))
    repeated = {name: np.tile(values, 4) for name, values in made.items()}
    clustered, counted = (iso.price_of_fairness(repeated, **options, cluster=cluster) for cluster in ("who", None))
    for price in (doubled, clustered):
        np.testing.assert_allclose(price.disparity, plain.disparity, rtol=1e-9)
        np.testing.assert_allclose(price.standard_error, plain.standard_error, rtol=0.01)
        assert price.bias_before == pytest.approx(plain.bias_before, rel=0.01)
    np.testing.assert_allclose(counted.standard_error, plain.standard_error / 2, rtol=0.01)
    few = iso.price_of_fairness({**made, "who": made["who"] % 5}, **options, cluster="who")
    assert few.headline().startswith("Not answered")
    assert any("fewer than 10 effective clusters" in warning for warning in few.warnings)


def test_a_price_with_known_propensities_compares_like_with_like() -> None:
    """Half of each group is treated nine times as often and is better off: without propensities there is a bias."""
    rng = np.random.default_rng(3)
    made = uplift(40_000, measure="difference", baseline=0.3)
    p = np.where((made["group"] == "a") & (made["x"] > 0.5), 0.9, 0.5)
    treated = (rng.random(p.size) < p).astype(int)
    outcome = (rng.random(p.size) < 0.2 + 0.4 * (made["x"] > 0.5) + 0.05 * treated).astype(int)
    made |= {"p": p, "treatment": treated, "outcome": outcome, "effect": np.full(p.size, 0.05), "same": p * 0 + 0.05}
    options: dict[str, Any] = {**ROLES, "corrected": "same", "measure": "difference"}
    known, unknown = (
        iso.price_of_fairness(made, **options, estimator=iso.arm_means(propensity)) for propensity in ("p", None)
    )
    assert known.bias_before[0] < 0.02 < unknown.bias_before[0]
    with pytest.raises(DataError, match="all rows are in one arm"):
        iso.price_of_fairness(made | {"treatment": np.ones(p.size)}, **options)


def test_differences_are_not_taken_for_ratios() -> None:
    made = dict(iso.simulate.uplift(8_000, 3, groups=3, measure="difference", error={"b": 0.05}).columns)
    with pytest.raises(UsageError, match=r'measure: none given.*measure="difference".*measure="relative"'):
        iso.price_of_fairness(made, **ROLES, corrected="effect")
    assert iso.price_of_fairness(made, **ROLES, corrected="effect", measure="difference").bias_before[0] > 0


@cache
def intersections() -> dict[str, Any]:
    made = dict(iso.simulate.uplift(6_000, 4, groups=3, baseline=0.3, measure="difference", error={"b": 0.2}).columns)
    made |= {"less": made["effect"] - 0.2 * (made["group"] == "b"), "one": np.ones(6_000), "who": np.arange(6_000)}
    return made | {"sex": np.where(made["x"] < 0.4, "f", "m")}


GROUPINGS: dict[str, Any] = {
    "columns": (["group", "sex"], 1),
    "depth": (["group", "sex"], 2),
    "cuts": (["group", iso.cut("x", [0.3, 0.6])], 2),
    "conditions": ([iso.where("young", iso.col("x") < 0.5), iso.where("b", iso.col("group") == "b"), "sex"], 3),
}


@pytest.mark.parametrize(
    ("name", "design"),
    [*((name, {}) for name in GROUPINGS), ("depth", {"weight": "one"}), ("conditions", {"cluster": "who"})],
)
def test_bias_left_is_that_of_all_groups(name: str, design: dict[str, Any]) -> None:
    """As in `treatment_bias`, column by column; the ranking does not depend on the grouping."""
    made, (groups, depth) = intersections(), GROUPINGS[name]
    roles: dict[str, Any] = {**ROLES, "groups": groups, "depth": depth, "measure": "difference", **design}
    price = iso.price_of_fairness(made, **roles, corrected=["less", "effect"])
    left = []
    for effect in ("effect", "less"):
        found = iso.treatment_bias(made, **{**roles, "effect": effect}, method="welch")
        left.append(np.sqrt(max(float(np.mean(found.disparity**2 - found.standard_error**2)), 0.0)))
    assert [price.bias_before[0], *price.bias_after[::3]] == pytest.approx([*left, left[0]], rel=1e-9)
    assert price.bias_after[0] < 0.5 * price.bias_before[0]
    plain = iso.price_of_fairness(made, **ROLES, corrected="less", measure="difference")
    np.testing.assert_allclose(price.disparity[:3], plain.disparity[:3])
    assert iso.from_json(price.to_json()).bias_before[0] == price.bias_before[0]


def test_treated_shares_are_looked_at_in_every_column() -> None:
    made = dict(intersections())
    rng = np.random.default_rng(0)
    made["treatment"] = (rng.random(6_000) < np.where(made["sex"] == "f", 0.3, 0.6)).astype(int)
    price = iso.price_of_fairness(made, **{**ROLES, "groups": ["group", "sex"]}, corrected="less", measure="difference")
    assert price.arms_differ


ONES = np.ones(4)


def test_quantities_by_hand() -> None:
    z, f = np.array([4.0, 2.0, 0.0, -2.0]), np.array([0.9, 0.7, 0.3, 0.1])
    # Shares ranked above: 1/8, 3/8, 5/8, 7/8, ties with oneself half.
    assert qini(z, f, ONES)[0] == pytest.approx((4 * 3 / 8 + 2 / 8 + 2 * 3 / 8) / 4)
    assert policy_value(z, f, ONES, 0.5)[0] == pytest.approx(6 / 4)
    assert policy_value(z, f, ONES, 0.375)[0] == pytest.approx((4 + 2 * 0.5) / 4)
    assert loss(z, f, ONES)[0] == pytest.approx(np.mean((z - f) ** 2))


def test_ties_are_treated_at_random() -> None:
    z = np.array([4.0, 2.0, 0.0, -2.0])
    assert qini(z, ONES, ONES)[0] == pytest.approx(0)
    assert policy_value(z, ONES, ONES, 0.25)[0] == pytest.approx(0.25 * z.mean())


def test_lines_stand_for_rows() -> None:
    rng = np.random.default_rng(0)
    z, f, k = rng.normal(size=50), rng.integers(0, 9, 50).astype(float), rng.integers(1, 4, 50)
    counted = scores(z, f, f, k.astype(float), 0.3)
    repeated = scores(np.repeat(z, k), np.repeat(f, k), np.repeat(f, k), np.ones(k.sum()), 0.3)
    for one, two in zip(counted[:2], repeated[:2], strict=True):
        assert one[0] == pytest.approx(two[0])
        assert standard_error(one[1], k.astype(float)) == pytest.approx(standard_error(two[1], np.ones(k.sum())))


def sample(rng: np.random.Generator, n: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    x = rng.random(n)
    return x + 3 * rng.standard_normal(n), x + 0.3 * rng.standard_normal(n), x + 0.6 * rng.standard_normal(n)


def test_standard_errors_are_the_spread_of_paired_changes() -> None:
    """600 tables: the spread of a standard deviation is 3 %."""
    rng = np.random.default_rng(1)
    changes, errors = [], []
    for _ in range(600):
        z, one, two = sample(rng, 400)
        pairs = list(zip(*(scores(z, f, f, np.ones(400), 0.3) for f in (one, two)), strict=True))
        changes.append([new - old for (old, _), (new, _) in pairs])
        errors.append([standard_error(b - a, np.ones(400)) for (_, a), (_, b) in pairs])
    spread = np.std(changes, axis=0, ddof=1)
    np.testing.assert_allclose(np.sqrt(np.mean(np.square(errors), axis=0)) / spread, 1, atol=0.12)


def targeted_by_hand(effect: FloatArray, group: FloatArray, budget: float) -> dict[str, tuple[float, float]]:
    """The targeted share of each group, and its share of those targeted, from a sorted list without ties."""
    chosen = np.argsort(-effect)[: round(budget * effect.size)]
    return {
        name: (float((group[chosen] == name).sum() / (group == name).sum()), float((group[chosen] == name).mean()))
        for name in np.unique(group)
    }


def test_who_is_targeted_before_and_after() -> None:
    made = uplift(10_000, error={"b": 1.0}, measure="difference", baseline=0.3, noise=0.01)
    made |= {"right": made["effect"] - (made["group"] == "b")}
    price = iso.price_of_fairness(made, **ROLES, corrected="right", measure="difference", budget=0.2)
    for budget in (0.2, 0.5):
        table = price.targeted(budget)
        before, after = (targeted_by_hand(made[name], made["group"], budget) for name in ("effect", "right"))
        for i, label in enumerate(table["group"]):
            name = str(label).removeprefix("group=")
            expected = [before[name][0], after[name][0], before[name][1], after[name][1]]
            names = ("targeted_before", "targeted_after", "of_targeted_before", "of_targeted_after")
            np.testing.assert_allclose([np.asarray(table[column])[i] for column in names], expected, atol=1e-9)
    assert "with a budget of 20 %, the correction changes the shares of groups" in price.findings()[-1]
    with pytest.raises(UsageError, match=r"a multiple of 0\.05"):
        price.targeted(0.33)
    hidden = price.suppressed(int(price.n.max()))
    shown = [group.label for group, n in zip(price.groups, hidden.n, strict=True) if np.isfinite(n)]
    assert np.isfinite(np.asarray(hidden.targeted()["targeted_after"])).sum() == len(shown)
    assert all(label in shown or label not in hidden.findings()[-1] for label in price.labels)
    for chart in ("targeted", "curves"):
        assert price.plot(chart).to_dict()


def test_profit_is_the_policy_value_in_money() -> None:
    price = corrected(baseline="baseline", budget=iso.budget(0.2, value=50.0, cost=3.0))
    assert price.metric == ("qini", "loss", "policy_value", "profit") * 2
    gain, profit = (np.array(price.metric) == name for name in ("policy_value", "profit"))
    np.testing.assert_allclose(price.estimate[profit], 50 * price.estimate[gain] - 3 * 0.2)
    np.testing.assert_allclose(price.ci_low[profit], 50 * price.ci_low[gain])
    plain = corrected(baseline="baseline", budget=0.2)
    np.testing.assert_allclose(price.adjusted_pvalue[~profit], plain.adjusted_pvalue)  # no further hypothesis
    np.testing.assert_array_equal(price.adjusted_pvalue[profit], price.adjusted_pvalue[gain])
    assert "of 6 changes" in price.headline()
    curves = price.curves()
    at = np.isclose(np.asarray(curves["budget"]), 0.2) & (np.array(curves["predictions"]) == "right")
    np.testing.assert_allclose(np.asarray(curves["profit"])[at], price.estimate[profit][0])


def test_qini_is_the_area_between_its_curve_and_the_diagonal() -> None:
    made = uplift(20_000, measure="difference", baseline=0.3, effect=0.2, heterogeneity=1.0)
    price = iso.price_of_fairness(made, **ROLES, corrected="effect", measure="difference")
    gain, budget = price.gain[0], price.budgets
    above = gain - budget * gain[-1]
    area = float((np.diff(budget) * (above[1:] + above[:-1]) / 2).sum())
    assert area == pytest.approx(float(price.reference[0]), rel=0.02)
