"""`project` end to end: what it returns, its options, and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isonomy as iso
from isonomy import errors
from isonomy.numerics.status import Status
from isonomy.transport import Discerning, distances


def table(n: int = 2_000, shift: float = 0.0, seed: int = 0) -> dict[str, Any]:
    """Two groups, a score shifted for one of them, an outcome that depends on the score."""
    rng = np.random.default_rng(seed)
    group = rng.choice(["a", "b", "c"], n, p=[0.5, 0.3, 0.2])
    score = rng.normal(size=n) + shift * (group == "b")
    return {
        "group": group,
        "sex": rng.choice(["F", "M"], n),
        "age": rng.integers(18, 70, n),
        "y": (score + rng.normal(size=n) > 0).astype(int),
        "score": score,
        "c": (score >= 0.2).astype(int),
        "distance": np.abs(score - 0.2),
    }


ROLES: dict[str, Any] = {"outcome": "y", "prediction": "c"}
SCORE: dict[str, Any] = ROLES | {"score": "score", "threshold": 0.2}


SOME = iso.where("some", iso.col("age") < 30)


@pytest.mark.parametrize(
    "criterion", ["equal_opportunity", "predictive_equality", "equalized_odds", "statistical_parity"]
)
@pytest.mark.parametrize("groups", ["sex", "group", ["group", "sex"]])
def test_the_plan_does_what_it_says(criterion: str, groups: Any) -> None:
    """Flipping the listed rows, by the listed fractions, makes every compared rate equal."""
    data = table(shift=0.3)
    found = iso.project(data, groups=groups, criterion=criterion, **SCORE)
    assert found.status is Status.OK
    assert found.statistic == pytest.approx(float(found.plan.fraction @ found.plan.distance), rel=1e-9)
    assert np.all(np.diff(found.plan.distance) >= 0)
    decided = data["c"].astype(float)
    rows = found.plan.row
    decided[rows] += np.where(data["c"][rows] == 1, -1, 1) * found.plan.fraction
    for column in [groups] if isinstance(groups, str) else groups:
        for label in {"equal_opportunity": [1], "predictive_equality": [0], "equalized_odds": [0, 1]}.get(
            criterion, [None]
        ):
            within = np.ones(len(decided), bool) if label is None else data["y"] == label
            rates = [decided[within & (data[column] == level)].mean() for level in np.unique(data[column])]
            assert rates == pytest.approx([rates[0]] * len(rates), abs=1e-10)


def test_a_planted_difference_is_found() -> None:
    found = iso.project(table(shift=0.5), groups="group", criterion="statistical_parity", **SCORE)
    assert found.verdict is iso.Verdict.VIOLATION
    assert found.pvalue < 1e-6
    assert found.statistic > found.critical_value
    assert found.wald_pvalue < 1e-6
    b = found.group.index("group=b")
    assert found.disparity[b] > 0.05
    assert found.ci_low[b] < found.disparity[b] < found.ci_high[b]
    assert found.statuses[found.group.index("group=a")] is Status.REFERENCE


def test_equal_rates_cost_nothing() -> None:
    data = {"g": ["a", "a", "b", "b"] * 50, "c": [0, 1, 0, 1] * 50, "d": np.linspace(0.1, 1, 200)}
    found = iso.project(data, prediction="c", groups="g", distance="d", criterion="statistical_parity")
    assert found.statistic == 0
    assert found.pvalue == 1
    assert found.verdict is iso.Verdict.INCONCLUSIVE
    assert found.plan.row.size == 0
    assert "No decision would have to change" in found.summary()


def test_base_level_does_not_matter_for_equality() -> None:
    data = table(shift=0.2)
    by = [iso.project(data, groups="group", reference={"group": level}, **SCORE) for level in "abc"]
    assert [r.statistic for r in by] == pytest.approx([by[0].statistic] * 3, rel=1e-9)
    assert [r.pvalue for r in by] == pytest.approx([by[0].pvalue] * 3, rel=1e-6)
    assert by[1].against == ("group=b",) * 3


def test_a_condition_is_compared_with_everybody_else() -> None:
    data = table(shift=0.4)
    young = iso.where("b", iso.col("group") == "b")
    found = iso.project(data, groups=young, **SCORE)
    assert found.group == ("b", "not b")
    cut = iso.project(data, groups=iso.cut("age", [30, 50]), **SCORE)
    assert len(cut.group) == 3


def test_a_tuple_of_ones_own_equals_the_built_in() -> None:
    data = table(shift=0.2)
    built_in = iso.project(data, groups="sex", **SCORE)
    own = Discerning(
        u={
            "women": (iso.col("sex") == "F") & (iso.col("y") == 1),
            "men": (iso.col("sex") == "M") & (iso.col("y") == 1),
        },
        phi=lambda u, mean: u[:, 0] / mean[0] - u[:, 1] / mean[1],
        names=("women against men",),
    )
    found = iso.project(data, criterion=own, **SCORE)
    assert found.statistic == pytest.approx(built_in.statistic, rel=1e-9)
    assert found.pvalue == pytest.approx(built_in.pvalue, rel=1e-5)
    assert found.wald_pvalue == pytest.approx(built_in.wald_pvalue, rel=1e-5)
    assert "women against men" in found.summary()


def test_tolerance_verdicts() -> None:
    data = table(20_000, shift=0.02)
    wide = iso.project(data, groups="sex", criterion="statistical_parity", tolerance=0.1, **SCORE)
    assert wide.verdict is iso.Verdict.WITHIN_TOLERANCE
    assert wide.statistic == 0
    data = table(20_000, shift=0.5)
    narrow = iso.project(data, groups="group", criterion="statistical_parity", tolerance=0.02, rng=3, **SCORE)
    assert narrow.verdict is iso.Verdict.VIOLATION
    assert narrow.provenance.seed is not None
    assert "within 0.02" in narrow.null.replace("0.0200", "0.02")
    upper = iso.project(
        data, groups="group", criterion="statistical_parity", tolerance=0.02, tolerance_side="upper", rng=3, **SCORE
    )
    lower = iso.project(
        data, groups="group", criterion="statistical_parity", tolerance=0.02, tolerance_side="lower", rng=3, **SCORE
    )
    assert upper.verdict is iso.Verdict.VIOLATION  # group b is selected more often than the largest group, a
    assert lower.verdict is not iso.Verdict.VIOLATION


def test_zero_tolerance_is_equality() -> None:
    data = table(shift=0.2)
    exact, zero = (iso.project(data, groups="group", tolerance=t, **SCORE) for t in (None, 0.0))
    assert exact.pvalue == zero.pvalue


def test_the_same_seed_gives_the_same_pvalue() -> None:
    data = table(shift=0.1)
    first, second, other = (
        iso.project(data, groups="group", tolerance=0.01, rng=seed, **SCORE).pvalue for seed in (1, 1, 2)
    )
    assert first == second
    assert first != other


def test_threshold_is_inferred() -> None:
    data = table(shift=0.2)
    given = iso.project(data, groups="group", **SCORE)
    inferred = iso.project(data, groups="group", score="score", **ROLES)
    assert inferred.statistic == pytest.approx(given.statistic, rel=0.02)


def test_infinite_distances_never_move() -> None:
    data = table(shift=0.3)
    free = data["distance"].copy()
    stuck = np.random.default_rng(1).random(free.size) < 0.5
    data["distance"] = np.where(stuck, np.inf, free)
    found = iso.project(data, groups="group", distance="distance", **ROLES)
    assert found.status is Status.OK
    assert not stuck[found.plan.row].any()


def test_infeasible_is_about_costs_not_evidence() -> None:
    data = table(shift=0.5)
    data["distance"] = np.where(data["group"] == "c", data["distance"], np.inf)
    found = iso.project(data, groups="group", distance="distance", **ROLES)
    assert found.status is Status.INFEASIBLE
    assert found.statistic == np.inf
    assert found.pvalue == found.wald_pvalue
    assert np.isnan(found.critical_value)
    assert "infeasible" in found.summary()


def test_lattice_scores_get_the_wald_test() -> None:
    data = table(shift=0.3)
    data["score"] = np.floor(np.clip(data["score"], -2, 2) / 0.4)
    data["c"] = (data["score"] >= 0).astype(int)
    found = iso.project(data, groups="group", score="score", threshold=-0.5, **ROLES)
    assert found.status is Status.ATOMS
    assert found.pvalue == found.wald_pvalue
    assert np.isfinite(found.statistic)
    assert np.isnan(found.critical_value)  # the Wald test's would be on another scale than the statistic


def test_each_group_needs_rows_near_the_boundary() -> None:
    """The others' rows say nothing about the density of a group that has none there."""
    rng = np.random.default_rng(0)
    group = np.array(["a"] * 1_000 + ["b"] * 1_000 + ["c"] * 20)
    score = rng.normal(size=group.size)
    score[-20:] = np.where(np.arange(20) < 6, 1.5, -1.5) + 0.1 * rng.normal(size=20)
    data = {"g": group, "s": score, "c": score >= 0}
    options = {"prediction": "c", "groups": "g", "score": "s", "threshold": 0.0, "criterion": "statistical_parity"}
    found = iso.project(data, **options)
    assert found.status is Status.UNSUPPORTED
    assert found.pvalue == found.wald_pvalue
    without = {name: values[:-20] for name, values in data.items()}
    assert iso.project(without, **options).status is Status.OK


def test_free_rows_move_first() -> None:
    data = table(shift=0.3)
    data["distance"] = np.where(np.arange(2_000) % 10 == 0, 0.0, data["distance"])
    found = iso.project(data, groups="group", distance="distance", **ROLES)
    assert (found.plan.distance[:5] == 0).all()


def test_constant_decisions_have_no_pvalue() -> None:
    data = table()
    data["c"] = np.ones(2_000, dtype=int)
    found = iso.project(data, groups="group", distance="distance", **ROLES)
    assert found.status is Status.CONSTANT
    assert np.isnan(found.pvalue)
    assert found.verdict is iso.Verdict.INCONCLUSIVE


def test_rates_of_zero_and_one_use_the_nulls_variance() -> None:
    data = {"g": ["a"] * 200 + ["b"] * 200, "c": [1] * 200 + [0] * 200, "d": np.random.default_rng(0).random(400)}
    found = iso.project(data, prediction="c", groups="g", distance="d", criterion="statistical_parity")
    assert found.verdict is iso.Verdict.VIOLATION
    assert any("always or never" in w for w in found.warnings)


def test_certainty_is_not_claimed_for_a_handful() -> None:
    """Five rows a group, all selected: no difference is seen, and nothing is shown about the tolerance."""
    data = {"g": ["a"] * 5 + ["b"] * 5, "c": [1] * 10, "d": np.linspace(0.1, 1.0, 10)}
    found = iso.project(data, prediction="c", groups="g", distance="d", criterion="statistical_parity", tolerance=0.1)
    assert found.verdict is iso.Verdict.INCONCLUSIVE
    data["c"] = [1] * 5 + [1, 1, 1, 1, 0]
    found = iso.project(data, prediction="c", groups="g", distance="d", criterion="statistical_parity", tolerance=0.3)
    assert found.verdict is iso.Verdict.INCONCLUSIVE
    assert any("Fewer than 10 rows" in w for w in found.warnings)


def test_two_attributes_that_say_the_same() -> None:
    data = table(shift=0.2)
    data["again"] = np.where(data["sex"] == "F", "f", "m")
    once = iso.project(data, groups="sex", **SCORE)
    twice = iso.project(data, groups=["sex", "again"], **SCORE)
    assert twice.statistic == pytest.approx(once.statistic, rel=1e-9)
    assert twice.pvalue == pytest.approx(once.pvalue, rel=1e-9)
    assert any("Left out" in w for w in twice.warnings)
    with pytest.raises(errors.UsageError, match="follow from the others"):
        iso.project(data, groups=["sex", "again"], tolerance=0.1, **SCORE)


def test_missing_values() -> None:
    data = table()
    data["distance"] = data["distance"].copy()
    data["distance"][:7] = np.nan
    with pytest.raises(errors.MissingValues, match=r"distance \(from .distance.\): .* 7 rows"):
        iso.project(data, groups="sex", distance="distance", **ROLES)
    found = iso.project(data, groups="sex", distance="distance", missing="drop", **ROLES)
    assert found.rows == 1_993
    assert sum(found.provenance.dropped.values()) == 7
    assert found.plan.row.min() >= 7


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"groups": "nobody"}, errors.UnknownColumn, "nobody"),
        ({"groups": None}, errors.MissingRole, "groups"),
        ({"outcome": None}, errors.MissingRole, "outcome"),
        ({"score": None}, errors.MissingRole, "distance: none given"),
        ({"distance": "distance"}, errors.UsageError, "give one of them"),
        ({"criterion": "equal_odds"}, errors.UnknownOption, "equalized_odds"),
        ({"tolerance": -0.1}, errors.UsageError, "tolerance"),
        ({"tolerance": "wide"}, errors.UsageError, "tolerance: 'wide'"),
        ({"tolerance": 5}, errors.UsageError, "tolerance: 5.0 .* written 0.05"),
        ({"tolerance": 1.0}, errors.UsageError, "tolerance: 1.0"),
        ({"tolerance_side": "upper"}, errors.UsageError, "tolerance_side: 'upper' needs a tolerance"),
        ({"tolerance": 0.1, "tolerance_side": "left"}, errors.UnknownOption, "both, upper, lower"),
        ({"bandwidth": 0.0}, errors.UsageError, "bandwidth"),
        ({"bandwidth": "x"}, errors.UsageError, "bandwidth: 'x' is not allowed; give a number above 0"),
        ({"bandwidth": True}, errors.UsageError, "bandwidth: True is not allowed"),
        ({"prediction": None}, errors.UsageError, "prediction: None is not allowed; name the 0/1 column"),
        ({"alpha": 1.5}, errors.UsageError, "alpha"),
        ({"threshold": np.nan}, errors.UsageError, "threshold"),
        ({"threshold": "half"}, errors.UsageError, "threshold: 'half'"),
        ({"threshold": 0.5}, errors.DataError, "other side of the boundary"),
        ({"reference": {"group": "z"}}, errors.UnknownOption, "reference"),
        ({"reference": {"grup": "a"}}, errors.UnknownOption, "reference: 'grup' .* mean 'group'.* Allowed: group"),
        ({"reference": {"sex": "F"}}, errors.UnknownOption, "reference: 'sex' .* Allowed: group"),
        ({"reference": "a"}, errors.UsageError, "reference: 'a' .* column -> level"),
        ({"groups": SOME, "reference": {"group": "a"}}, errors.UsageError, "compared with everybody else"),
        ({"groups": ["sex", SOME], "reference": {"some": 1}}, errors.UsageError, "everybody else. Allowed: sex"),
        ({"score": None, "distance": "distance"}, errors.UsageError, "threshold: 0.2 .* uses none"),
        ({"score": None, "distance": distances.Column("distance")}, errors.UsageError, "threshold: 0.2 .* uses none"),
        ({"score": "sex"}, errors.WrongType, "score: column 'sex'"),
        ({"score": None, "threshold": None, "distance": "sex"}, errors.WrongType, "distance: column 'sex'"),
        ({"prediction": "score"}, errors.NotBinary, "prediction"),
        ({"outcome": "age"}, errors.NotBinary, "outcome"),
    ],
)
def test_wrong_calls(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        iso.project(table(), **({"groups": "group"} | SCORE | options))


def test_wrong_data() -> None:
    data = table()
    with pytest.raises(errors.DataError, match="negative"):
        iso.project(data | {"distance": -data["distance"]}, groups="group", distance="distance", **ROLES)
    one_label = data | {"y": np.where(data["group"] == "b", 0, data["y"])}
    with pytest.raises(errors.NotEnoughData, match="'group=b' has no row with outcome 1"):
        iso.project(one_label, groups="group", **SCORE)
    with pytest.raises(errors.OneGroup):
        iso.project(data | {"sex": ["F"] * 2_000}, groups="sex", **SCORE)
    with pytest.raises(errors.NotEnoughData, match="same decision"):
        iso.project(data | {"c": np.ones(2_000, int)}, groups="sex", score="score", **ROLES)
    with pytest.raises(errors.NotBinary, match="prediction"):
        iso.project(data | {"c": 1 + data["c"]}, groups="sex", score="score", **ROLES)
    with pytest.raises(errors.WrongType, match="prediction"):
        iso.project(data | {"c": data["sex"]}, groups="sex", score="score", **ROLES)
    with pytest.raises(errors.DataError, match="no one threshold"):
        iso.project(data | {"c": 1 - data["c"]}, groups="sex", score="score", **ROLES)
    wrong = Discerning(u={"f": iso.col("sex") == "F"}, phi=lambda u, mean: u[:1], names=("x",))
    with pytest.raises(errors.UsageError, match="phi returned"):
        iso.project(data, criterion=wrong, **SCORE)
    empty = Discerning(u={"f": iso.col("sex") == "F"}, phi=lambda u, mean: 0 * u, names=("x",))
    with pytest.raises(errors.UsageError, match="0 for every row"):
        iso.project(data, criterion=empty, **SCORE)


def test_wrong_tuples() -> None:
    data = table()
    for u, message in (
        ({"f": iso.col("sexx") == "F"}, "criterion 'f': cannot be evaluated"),
        ({"f": iso.col("sex")}, "criterion 'f': the expression gives String"),
    ):
        wrong = Discerning(u=u, phi=lambda u, mean: u, names=("x",))
        with pytest.raises(errors.UsageError, match=message):
            iso.project(data, criterion=wrong, **SCORE)
    good: dict[str, Any] = {"u": {"f": iso.col("sex") == "F"}, "phi": lambda u, mean: u - mean, "names": ("x",)}
    for part, value in (("u", {}), ("u", {"f": "sex"}), ("phi", None), ("names", "x"), ("names", ())):
        with pytest.raises(errors.UsageError, match=f"criterion: {part} is"):
            Discerning(**(good | {part: value}))
    with pytest.raises(errors.UsageError, match="reference: not used by a criterion of your own"):
        iso.project(data, criterion=Discerning(**good), reference={"sex": "F"}, **SCORE)
    # Its moments have a scale of their own: a tolerance of 1 or more can make sense.
    wide = Discerning(**(good | {"phi": lambda u, mean: 50 * (u - mean)}))
    assert iso.project(data, criterion=wide, tolerance=2.0, **SCORE).statistic == 0


def test_missing_values_of_a_tuple_are_missing_values() -> None:
    data = table()
    sex = np.array(data["sex"], dtype=object)
    sex[:9] = None
    own = Discerning(
        u={"f": iso.col("sex") == "F", "m": iso.col("sex") == "M"},
        phi=lambda u, mean: u[:, 0] / mean[0] - u[:, 1] / mean[1],
        names=("f against m",),
    )
    gaps = data | {"sex": sex.tolist()}
    with pytest.raises(errors.MissingValues, match=r"criterion 'f': .* 9 rows"):
        iso.project(gaps, criterion=own, **SCORE)
    found = iso.project(gaps, criterion=own, missing="drop", **SCORE)
    assert found.rows == 1_991


def test_costs_that_depend_on_the_attribute() -> None:
    data = table(shift=0.3)
    price = distances.PerGroup(distances.Score("score", 0.2), "group", {"a": 1.0, "b": 2.0, "c": 1.0})
    plain = iso.project(data, groups="group", **SCORE)
    dear = iso.project(data, groups="group", distance=price, **ROLES)
    b = plain.group.index("group=b")
    assert dear.share_moved[b] < plain.share_moved[b]
    some = distances.PerGroup(distances.Score("score", 0.2), "group", {"a": 1.0})
    with pytest.raises(errors.MissingValues, match="factors"):
        iso.project(data, groups="group", distance=some, **ROLES)


def test_count_equals_repeated_rows() -> None:
    data = table(500, shift=0.3)
    times = np.random.default_rng(3).integers(0, 4, 500)
    counted = iso.project(
        data | {"n": times}, groups="group", criterion="equalized_odds", count="n", bandwidth=0.3, **SCORE
    )
    rows = {name: np.repeat(np.asarray(values), times) for name, values in data.items()}
    repeated = iso.project(rows, groups="group", criterion="equalized_odds", bandwidth=0.3, **SCORE)
    assert counted.rows == repeated.rows
    assert counted.statistic == pytest.approx(repeated.statistic, rel=1e-9)
    assert counted.pvalue == pytest.approx(repeated.pvalue, rel=1e-9)
    assert counted.wald_pvalue == pytest.approx(repeated.wald_pvalue, rel=1e-9)
    assert counted.moved_up == pytest.approx(repeated.moved_up, rel=1e-9)
