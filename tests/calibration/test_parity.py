"""`predictive_parity`: what it finds, what it refuses, and how it treats awkward tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isonomy as iso
from isonomy.calibration import memory, predictive_parity
from isonomy.calibration.compare import EVENTS
from isonomy.errors import (
    EmptyFrame,
    MissingRole,
    MissingValues,
    OneGroup,
    UnknownColumn,
    UnknownOption,
    UsageError,
    WrongType,
)

ROLES = {"outcome": "y", "score": "s", "groups": "g"}
METHODS = ("residual", "orthogonal", "nadaraya-watson", "cumulative")


def table(n: int = 1_500, seed: int = 0, slope: float = 1.0, groups: int = 2) -> dict[str, Any]:
    """Outcomes E[Y | s] = s, times ``slope`` in the last group."""
    rng = np.random.default_rng(seed)
    g = np.repeat(np.arange(groups), n)
    s = rng.beta(2 + g / groups, 3 - g / groups)
    y = (rng.random(s.size) < np.where(g == groups - 1, slope * s, s)).astype(int)
    user = rng.integers(0, s.size // 4, s.size)
    return {"s": s, "y": y, "g": np.array(list("abcdef"))[g], "m": user}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("user", [None, "m"])
def test_a_planted_difference_is_found(method: str, user: str | None) -> None:
    result = predictive_parity(table(slope=0.6), **ROLES, user=user, method=method, rng=1)
    assert result.verdict is iso.Verdict.VIOLATION
    assert result.pvalue < 1e-3
    assert result.ordering_pvalue < 0.05
    family = result.families[0]
    at = int(np.nanargmax(np.abs(family.difference[0] / family.se[0])))
    true = 0.4 * family.grid[at]
    assert family.low[0, at] < true + 0.05
    assert family.high[0, at] > true - 0.05


@pytest.mark.parametrize("change", ["narrow", "wide", "stray", "far"])
def test_the_bandwidth_follows_where_the_scores_lie(change: str) -> None:
    data = table()
    plain = predictive_parity(data, **ROLES, rng=1).families[0]
    factor = {"narrow": 0.01, "wide": 1e6}.get(change, 1.0)
    s = factor * data["s"]
    if factor == 1:
        s[7] = 10 if change == "stray" else 1e9
    moved = predictive_parity(data | {"s": s}, **ROLES, rng=1).families[0]
    middle = slice(3, -3)
    np.testing.assert_allclose(moved.grid[middle], factor * plain.grid[middle], rtol=0.05)
    np.testing.assert_allclose(moved.bandwidth[middle], factor * plain.bandwidth[middle], rtol=0.1)
    np.testing.assert_allclose(moved.curve[:, middle], plain.curve[:, middle], atol=0.03)
    paper = predictive_parity(data | {"s": s}, **ROLES, rng=1, method="nadaraya-watson").families[0]
    assert paper.bandwidth.max() >= moved.bandwidth.max()  # by name, the paper's rule for [0, 1] or the whole range


def test_nearly_every_score_the_same() -> None:
    data = table()
    s = np.where(np.arange(data["s"].size) % 100 == 0, data["s"], 0.5)
    family = predictive_parity(data | {"s": s}, **ROLES, rng=1).families[0]
    assert np.isfinite(family.curve).any()


def test_several_columns_are_allowed_for() -> None:
    """Four columns that mean nothing: of 40 tables as many as one in twenty may be called a violation."""
    called = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        s = rng.beta(2, 2, 1_000)
        data = {"s": s, "y": (rng.random(1_000) < s).astype(int)}
        columns = {f"g{k}": rng.integers(0, 2 + k % 2, 1_000) for k in range(4)}
        result = predictive_parity(
            data | columns, outcome="y", score="s", groups=list(columns), resamples=200, rng=seed
        )
        called += result.verdict is iso.Verdict.VIOLATION
        shown = [family.verdict is iso.Verdict.VIOLATION for family in result.families]
        assert (result.verdict is iso.Verdict.VIOLATION) == (result.pvalue <= 0.05) == any(shown)
        for family, found in zip(result.families, shown, strict=True):
            assert found or iso.Verdict.VIOLATION not in family.pair_verdicts
    assert called <= 7  # 0.05 + 3 standard errors of 40; without an allowance 0.17 of such tables are


@pytest.mark.parametrize("adjust", ["sup-t", "bonferroni", "holm", "none"])
def test_adjustments_are_ordered(adjust: str) -> None:
    family = predictive_parity(table(), **ROLES, adjust=adjust, rng=1).families[0]
    plain = predictive_parity(table(), **ROLES, adjust="none", rng=1).families[0]
    assert np.all(family.adjusted_at[family.supported] >= plain.pvalue_at[plain.supported] - 1e-15)
    assert np.nanmax(family.high - family.low) >= np.nanmax(plain.high - plain.low) - 1e-15


def test_sup_t_is_narrower_than_bonferroni() -> None:
    sup, bonferroni = (
        predictive_parity(table(), **ROLES, adjust=a, rng=1).families[0] for a in ("sup-t", "bonferroni")
    )
    assert np.nanmax((sup.high - sup.low) / (bonferroni.high - bonferroni.low)) < 1
    assert sup.pvalue <= bonferroni.pvalue


def test_within_tolerance_needs_the_whole_band() -> None:
    wide = predictive_parity(table(8_000), **ROLES, tolerance=0.25, rng=1)
    assert wide.verdict is iso.Verdict.WITHIN_TOLERANCE
    assert predictive_parity(table(8_000), **ROLES, tolerance=0.001, rng=1).verdict is iso.Verdict.INCONCLUSIVE


def test_a_tolerance_is_part_of_the_null() -> None:
    data = table(n=20_000, slope=0.9)
    options = {"grid": [0.3, 0.5], "rng": 1}
    assert predictive_parity(data, **ROLES, **options).verdict is iso.Verdict.VIOLATION
    allowed = predictive_parity(data, **ROLES, **options, tolerance=0.1)
    assert allowed.verdict is iso.Verdict.WITHIN_TOLERANCE
    assert allowed.pvalue == 1.0
    assert "at most 0.1" in allowed.null
    beyond = predictive_parity(table(n=20_000, slope=0.5), **ROLES, **options, tolerance=0.1)
    assert beyond.verdict is iso.Verdict.VIOLATION
    # As the tolerance goes to nothing the test becomes the one of equality.
    close, equal = (predictive_parity(data, **ROLES, **options, tolerance=t) for t in (1e-12, None))
    assert close.families[0].pvalue_at == pytest.approx(equal.families[0].pvalue_at, rel=1e-6)
    assert close.pvalue == pytest.approx(equal.pvalue, rel=1e-6)


def test_nothing_is_within_tolerance_where_nothing_is_known() -> None:
    result = predictive_parity(table(n=20_000), **ROLES, grid=[0.5, 50], tolerance=0.2, rng=1)
    assert result.verdict is iso.Verdict.INCONCLUSIVE


@pytest.mark.parametrize("method", ["residual", "orthogonal"])
def test_a_difference_has_its_size_when_groups_score_differently(method: str) -> None:
    """f is s in one group and s^2 in the other, scores Beta(2, 5) and Beta(5, 2): 0.25 apart at 0.5."""
    found = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        s = np.concatenate([rng.beta(2, 5, 5_000), rng.beta(5, 2, 5_000)])
        g = np.repeat(["a", "b"], 5_000)
        y = (rng.random(s.size) < np.where(g == "a", s, s**2)).astype(int)
        family = predictive_parity({"s": s, "g": g, "y": y}, **ROLES, method=method, grid=[0.4, 0.5], rng=1).families[0]
        found.append(np.append(family.difference[0], family.se[0]))
    difference, se = np.split(np.mean(found, axis=0), 2)
    # Three standard errors of a mean of ten, and the bias of smoothing s - s^2 over the bandwidth of 0.1: its square.
    assert np.all(np.abs(difference - [0.24, 0.25]) < 3 * se / np.sqrt(10) + 0.01)


def test_three_groups_by_pair_against_a_base_and_overall() -> None:
    data = table(slope=0.6, groups=3)
    pairs = predictive_parity(data, **ROLES, rng=1).families[0]
    assert pairs.pairs.tolist() == [[0, 1], [0, 2], [1, 2]]
    assert pairs.pair_adjusted[0] > 0.05 > max(pairs.pair_adjusted[1:])
    assert pairs.pvalue < 1e-3
    base = predictive_parity(data, **ROLES, reference={"g": "c"}, rng=1).families[0]
    assert base.pairs.tolist() == [[0, 2], [1, 2]]
    np.testing.assert_allclose(base.difference, pairs.difference[1:], rtol=1e-12)


def test_a_third_group_does_not_enter_a_pair() -> None:
    two, three = table(), table()
    extra = table(seed=5, slope=0.3)
    for name in three:
        more = np.full(extra["g"].size, "z") if name == "g" else extra[name]
        three[name] = np.concatenate([three[name], more])
    grid = [0.3, 0.5]
    alone = predictive_parity(two, **ROLES, grid=grid, bandwidth=0.1, rng=1).families[0]
    beside = predictive_parity(three, **ROLES, grid=grid, bandwidth=0.1, rng=1).families[0]
    np.testing.assert_allclose(alone.difference[0], beside.difference[0], rtol=1e-12)


def test_a_condition_is_compared_with_everybody_else() -> None:
    data = table(slope=0.6)
    named = predictive_parity(data, outcome="y", score="s", groups=iso.where("b people", iso.col("g") == "b"), rng=1)
    plain = predictive_parity(data, **ROLES, rng=1)
    assert [g.label for g in named.families[0].groups] == ["b people", "not b people"]
    np.testing.assert_allclose(named.families[0].difference, -plain.families[0].difference, rtol=1e-12)


def test_several_columns_make_several_families() -> None:
    data = table()
    data["h"] = np.arange(data["s"].size) % 2
    result = predictive_parity(data, outcome="y", score="s", groups=["g", "h"], depth=2, rng=1)
    assert [f.dimensions for f in result.families] == [("g",), ("h",), ("g", "h")]
    assert len(result.families[2].groups) == 4


def test_user_level_and_aggregate_differ_when_activity_follows_the_outcome() -> None:
    rng = np.random.default_rng(0)
    many = np.where(rng.random(3_000) < 0.3, 10, 1)
    m = np.repeat(np.arange(3_000), many)
    g = np.repeat(rng.integers(0, 2, 3_000), many)
    s = rng.beta(2, 2, m.size)
    busy = np.repeat(many == 10, many)
    y = (rng.random(m.size) < np.where(busy & (g == 1), 0.9 * s, s)).astype(int)
    data = {"s": s, "y": y, "g": g, "m": m}
    user = predictive_parity(data, **ROLES, user="m", rng=1).families[0]
    aggregate = predictive_parity(data, **ROLES, user="m", level="aggregate", rng=1).families[0]
    at = user.grid.size // 2
    assert abs(aggregate.curve[1, at] - 0.92 * aggregate.grid[at]) < 0.06
    assert user.curve[1, at] > aggregate.curve[1, at]


def test_one_row_a_user_is_the_same_as_no_users() -> None:
    data = table() | {"m": np.arange(3_000)}
    with_users = predictive_parity(data, **ROLES, user="m", rng=1)
    without = predictive_parity(data, **ROLES, rng=1)
    np.testing.assert_allclose(with_users.families[0].se, without.families[0].se, rtol=1e-10)
    assert with_users.pvalue == pytest.approx(without.pvalue, rel=1e-9)


@pytest.mark.parametrize("unit", [1, 0.3])
@pytest.mark.parametrize("user", [None, "m"])
def test_many_rows_take_the_fast_path_to_the_same_numbers(
    user: str | None, unit: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Outcomes 0 and 1, and other numbers, which have another way through the sums."""
    data = table()
    data["y"] = data["y"] * unit
    exact = predictive_parity(data, **ROLES, user=user, rng=1).families[0]
    monkeypatch.setattr(memory, "MANY", 10)
    fast = predictive_parity(data, **ROLES, user=user, rng=1).families[0]
    for name in ("curve", "difference", "se", "effective", "curve_low"):
        np.testing.assert_allclose(getattr(fast, name), getattr(exact, name), rtol=1e-8, atol=1e-10, err_msg=name)
    assert not np.array_equal(fast.difference, exact.difference, equal_nan=True)  # it was another path


@pytest.mark.parametrize("kernel", ["gaussian4", "gaussian6"])
@pytest.mark.parametrize("method", ["nadaraya-watson", "residual"])
def test_higher_order_kernels(kernel: str, method: str) -> None:
    result = predictive_parity(table(slope=0.5), **ROLES, kernel=kernel, method=method, rng=1)
    assert result.verdict is iso.Verdict.VIOLATION


def test_scores_outside_the_unit_interval() -> None:
    data = table(slope=0.6)
    plain = predictive_parity(data, **ROLES, bandwidth=0.1, grid=[0.3, 0.5], rng=1)
    data["s"] = 100 * data["s"] - 20
    moved = predictive_parity(data, **ROLES, bandwidth=10, grid=[10, 30], rng=1)
    np.testing.assert_allclose(moved.families[0].difference, plain.families[0].difference, rtol=0.02)
    assert any("outside [0, 1]" in warning for warning in moved.warnings)
    ruled = predictive_parity(data, **ROLES, rng=1)
    assert np.all(ruled.families[0].bandwidth > 1)


def test_constant_scores_compare_means() -> None:
    data = table(slope=0.6) | {"s": np.full(3_000, 0.4)}
    result = predictive_parity(data, **ROLES, rng=1)
    family = result.families[0]
    a, b = (data["y"][data["g"] == g].mean() for g in "ab")
    assert family.grid.size == 1
    np.testing.assert_allclose(family.difference, a - b, rtol=1e-9)
    assert any("single score" in warning for warning in result.warnings)


def test_a_point_with_few_users_is_not_estimated() -> None:
    data = table()
    keep = (data["g"] == "a") | (data["s"] > 0.5)
    result = predictive_parity({k: v[keep] for k, v in data.items()}, **ROLES, grid=[0.1, 0.7], rng=1)
    family = result.families[0]
    assert family.supported.tolist() == [[False, True]]
    assert np.isnan(family.curve[1, 0])
    assert not np.isnan(family.curve[0, 0])
    frame = result.to_frame()
    assert frame["status"].to_list() == ["unsupported", "ok"]
    assert any("were not made" in warning for warning in result.warnings)


def test_the_support_rule_counts_the_rarer_outcome() -> None:
    data = table(n=400)
    data["y"] = (np.arange(800) % 100 == 0).astype(int)  # 4 events a group
    result = predictive_parity(data, **ROLES, rng=1)
    assert EVENTS == 10
    assert np.isnan(result.pvalue)
    assert result.verdict is iso.Verdict.INCONCLUSIVE


def test_one_user_in_two_groups() -> None:
    data = table()
    data["m"] = np.tile(np.arange(1_500), 2)  # everybody is in both groups
    result = predictive_parity(data, **ROLES, user="m", rng=1)
    assert result.families[0].spanning == 1_500
    assert any("more than one group" in warning for warning in result.warnings)
    same = data | {"y": np.tile(data["y"][:1_500], 2), "s": np.tile(data["s"][:1_500], 2)}
    twin = predictive_parity(same, **ROLES, user="m", rng=1).families[0]
    # The groups are the same rows of the same users: the difference is zero with no variance at all.
    assert np.all(np.isnan(twin.se) | (twin.se < 1e-9))


def test_numeric_outcomes() -> None:
    data = table(slope=0.6)
    data["y"] = 10 + 3 * data["y"] + np.random.default_rng(0).normal(size=3_000)
    assert predictive_parity(data, **ROLES, rng=1).verdict is iso.Verdict.VIOLATION


def test_strings_as_users_and_missing_ones() -> None:
    data = table()
    numbers = predictive_parity(data, **ROLES, user="m", rng=1)
    names = predictive_parity(data | {"m": [f"user {m}" for m in data["m"]]}, **ROLES, user="m", rng=1)
    np.testing.assert_allclose(names.families[0].se, numbers.families[0].se, rtol=1e-10)
    gaps = data | {"m": [None if i == 7 else int(m) for i, m in enumerate(data["m"])]}
    with pytest.raises(MissingValues, match="user"):
        predictive_parity(gaps, **ROLES, user="m")
    dropped = predictive_parity(gaps, **ROLES, user="m", missing="drop", rng=1)
    assert dropped.provenance.dropped == {"m": 1}


def test_missing_values_are_named_or_dropped() -> None:
    data = table()
    data["s"][3] = np.nan
    with pytest.raises(MissingValues, match="score"):
        predictive_parity(data, **ROLES)
    assert predictive_parity(data, **ROLES, missing="drop", rng=1).provenance.rows == 2_999


def test_counts_are_rows() -> None:
    data = table(n=600)
    times = np.random.default_rng(1).integers(0, 4, 1_200)
    for user in (None, "m"):
        counted = predictive_parity(data | {"n": times}, **ROLES, user=user, count="n", rng=1)
        repeated = predictive_parity({k: np.repeat(v, times) for k, v in data.items()}, **ROLES, user=user, rng=1)
        assert counted.provenance.rows == repeated.provenance.rows
        for name in ("curve", "difference", "se", "effective", "size", "users"):
            a, b = getattr(counted.families[0], name), getattr(repeated.families[0], name)
            np.testing.assert_allclose(a, b, rtol=1e-9, err_msg=f"{name} {user}")


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"outcome": "nope"}, UnknownColumn),
        ({"score": "g"}, WrongType),
        ({"groups": []}, UsageError),
        ({"level": "user"}, MissingRole),
        ({"level": "rows"}, UnknownOption),
        ({"method": "nw"}, UnknownOption),
        ({"kernel": "box"}, UnknownOption),
        ({"adjust": "bh"}, UnknownOption),
        ({"alpha": 0}, UsageError),
        ({"alpha": 5}, UsageError),
        ({"resamples": 3}, UsageError),
        ({"tolerance": -1}, UsageError),
        ({"bandwidth": 0}, UsageError),
        ({"bandwidth": "wide"}, UsageError),
        ({"bandwidth": [0.1, 0.2]}, UsageError),
        ({"grid": []}, UsageError),
        ({"grid": [0.1, np.nan]}, UsageError),
        ({"grid": [0.8, 0.2]}, UsageError),
        ({"reference": {"g": "z"}}, UsageError),
        ({"reference": "a"}, UsageError),
        ({"tolerance": 5}, UsageError),
        ({"tolerance": 0.1, "method": "cumulative"}, UsageError),
        ({"rng": -1}, UsageError),
    ],
)
def test_bad_arguments(options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        predictive_parity(table(n=200), **(ROLES | options))


def test_bad_tables() -> None:
    data = table(n=100)
    with pytest.raises(OneGroup):
        predictive_parity(data | {"g": ["a"] * 200}, **ROLES)
    with pytest.raises(EmptyFrame):
        predictive_parity({k: v[:0] for k, v in data.items()}, **ROLES)


def test_the_seed_repeats_the_result() -> None:
    first, second = (predictive_parity(table(), **ROLES, rng=7) for _ in range(2))
    assert first.to_json() == second.to_json()
    drawn = predictive_parity(table(), **ROLES)
    again = predictive_parity(table(), **ROLES, rng=drawn.provenance.seed.entropy)
    assert again.pvalue == drawn.pvalue
