"""Rows in: users, counts, conditions, missing values, and rows on one side of a threshold."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import isonomy as iso
from isonomy.calibration import (
    equalize_thresholds,
    marginal_outcomes,
    predictive_parity,
)
from isonomy.errors import (
    EmptyFrame,
    MissingValues,
    OneGroup,
    UsageError,
)
from support.tables import margins, rated, rising, scored

ROLES: dict[str, Any] = {"outcome": "y", "score": "s", "groups": "g"}


AT_HALF: dict[str, Any] = {"outcome": "y", "score": "s", "groups": "g", "threshold": 0.5}


def duck(columns: dict[str, Any]) -> Any:
    return pytest.importorskip("duckdb").connect().from_arrow(pl.DataFrame(columns).to_arrow())


def test_a_condition_is_compared_with_everybody_else() -> None:
    data = scored(slope=0.6)
    named = predictive_parity(data, outcome="y", score="s", groups=iso.where("b people", iso.col("g") == "b"), rng=1)
    plain = predictive_parity(data, **ROLES, rng=1)
    assert [g.label for g in named.families[0].groups] == ["b people", "not b people"]
    np.testing.assert_allclose(named.families[0].difference, -plain.families[0].difference, rtol=1e-12)


def test_several_columns_make_several_families() -> None:
    data = scored()
    data["h"] = np.arange(data["s"].size) % 2
    result = predictive_parity(data, outcome="y", score="s", groups=["g", "h"], depth=2, rng=1)
    assert [f.dimensions for f in result.families] == [("g",), ("h",), ("g", "h")]
    assert len(result.families[2].groups) == 4


def test_one_row_a_user_is_the_same_as_no_users() -> None:
    data = scored() | {"m": np.arange(3_000)}
    with_users = predictive_parity(data, **ROLES, user="m", rng=1)
    without = predictive_parity(data, **ROLES, rng=1)
    np.testing.assert_allclose(with_users.families[0].se, without.families[0].se, rtol=1e-10)
    assert with_users.pvalue == pytest.approx(without.pvalue, rel=1e-9)


def test_one_user_in_two_groups() -> None:
    data = scored()
    data["m"] = np.tile(np.arange(1_500), 2)  # everybody is in both groups
    result = predictive_parity(data, **ROLES, user="m", rng=1)
    assert result.families[0].spanning == 1_500
    assert any("more than one group" in warning for warning in result.warnings)
    same = data | {"y": np.tile(data["y"][:1_500], 2), "s": np.tile(data["s"][:1_500], 2)}
    twin = predictive_parity(same, **ROLES, user="m", rng=1).families[0]
    # The groups are the same rows of the same users: the difference is zero with no variance at all.
    assert np.all(np.isnan(twin.se) | (twin.se < 1e-9))


def test_strings_as_users_and_missing_ones() -> None:
    data = scored()
    numbers = predictive_parity(data, **ROLES, user="m", rng=1)
    names = predictive_parity(data | {"m": [f"user {m}" for m in data["m"]]}, **ROLES, user="m", rng=1)
    np.testing.assert_allclose(names.families[0].se, numbers.families[0].se, rtol=1e-10)
    gaps = data | {"m": [None if i == 7 else int(m) for i, m in enumerate(data["m"])]}
    with pytest.raises(MissingValues, match="user"):
        predictive_parity(gaps, **ROLES, user="m")
    dropped = predictive_parity(gaps, **ROLES, user="m", missing="drop", rng=1)
    assert dropped.provenance.dropped == {"m": 1}


def test_missing_values_are_named_or_dropped() -> None:
    data = scored()
    data["s"][3] = np.nan
    with pytest.raises(MissingValues, match="score"):
        predictive_parity(data, **ROLES)
    assert predictive_parity(data, **ROLES, missing="drop", rng=1).provenance.rows == 2_999


def test_counts_are_rows() -> None:
    data = scored(n=600)
    times = np.random.default_rng(1).integers(0, 4, 1_200)
    for user in (None, "m"):
        counted = predictive_parity(data | {"n": times}, **ROLES, user=user, count="n", rng=1)
        repeated = predictive_parity({k: np.repeat(v, times) for k, v in data.items()}, **ROLES, user=user, rng=1)
        assert counted.provenance.rows == repeated.provenance.rows
        for name in ("curve", "difference", "se", "effective", "size", "users"):
            a, b = getattr(counted.families[0], name), getattr(repeated.families[0], name)
            np.testing.assert_allclose(a, b, rtol=1e-9, err_msg=f"{name} {user}")


def test_bad_tables() -> None:
    data = scored(n=100)
    with pytest.raises(OneGroup):
        predictive_parity(data | {"g": ["a"] * 200}, **ROLES)
    with pytest.raises(EmptyFrame):
        predictive_parity({k: v[:0] for k, v in data.items()}, **ROLES)


def test_groups_with_nobody_above_the_threshold_are_told() -> None:
    data = margins()
    low = {"s": np.full(50, 0.2), "y": np.zeros(50), "g": np.repeat("c", 50), "m": np.arange(50)}
    joined = {name: np.concatenate([data[name], low[name]]) for name in data}
    assert "No row of g=c has a score from the threshold up" in " ".join(marginal_outcomes(joined, **AT_HALF).warnings)
    unlabelled = joined | {"s": np.where(joined["g"] == "c", 0.8, joined["s"])}
    unlabelled["y"] = np.where(joined["g"] == "c", np.nan, joined["y"])
    assert "No row of" not in " ".join(marginal_outcomes(unlabelled, **AT_HALF, missing="drop").warnings)
    only = {name: values[joined["g"] != "a"] for name, values in joined.items()}
    with pytest.raises(OneGroup, match=r"one group \(g=b\).* Only rows with a score of 0.5 or more"):
        marginal_outcomes(only, **AT_HALF)


def test_labels_below_the_threshold_are_not_needed() -> None:
    data = margins()
    full = marginal_outcomes(data, **AT_HALF)
    hidden = data | {"y": np.where(data["s"] < 0.5, np.nan, data["y"])}
    assert marginal_outcomes(hidden, **AT_HALF).to_frame().equals(full.to_frame())
    with pytest.raises(MissingValues):
        marginal_outcomes(data | {"y": np.where(data["s"] > 0.9, np.nan, data["y"])}, **AT_HALF)
    with pytest.raises(MissingValues, match="score"):
        marginal_outcomes(data | {"s": np.where(data["s"] > 0.9, np.nan, data["s"])}, **AT_HALF)


@pytest.mark.parametrize(
    ("engine", "value"),
    [*product([dict, pd.DataFrame, pl.DataFrame, pl.LazyFrame], [np.inf, -np.inf, np.nan]), (duck, -np.inf)],
)
def test_infinite_scores_are_missing(engine: Any, value: float) -> None:
    data, ask = rated(rising, n=3_000), AT_HALF | {"resamples": 100}
    keep = np.arange(6_000) % 10 > 0
    expected = equalize_thresholds({k: v[keep] for k, v in data.items()}, **ask)
    found = equalize_thresholds(engine(data | {"s": np.where(keep, data["s"], value)}), **ask, missing="drop")
    np.testing.assert_allclose(found.thresholds, expected.thresholds, rtol=1e-9)
    np.testing.assert_allclose(found.rate_after, expected.rate_after, rtol=1e-9)
    assert found.size.tolist() == expected.size.tolist()
    assert found.provenance.dropped == {"s": 600}


def test_a_column_of_numbers_is_not_a_column_of_groups() -> None:
    data = scored(500)
    with pytest.raises(UsageError, match=r"groups: 's' has 1,000 groups, and at most 100 .* iso.cut"):
        predictive_parity(data, outcome="y", score="s", groups="s", rng=1)


@pytest.mark.parametrize("user", ["all unique", "all equal"])
@pytest.mark.parametrize("level", ["user", "aggregate"])
def test_users_who_are_all_unique_or_all_one(user: str, level: Any) -> None:
    data = scored(1_000)
    data["m"] = np.arange(2_000) if user == "all unique" else np.zeros(2_000, dtype=int)
    result = predictive_parity(data, **ROLES, user="m", level=level, rng=1)
    if user == "all equal":
        assert not result.answered
    else:
        alone = predictive_parity(data, **ROLES, rng=1)
        np.testing.assert_allclose(result.families[0].se, alone.families[0].se, rtol=1e-9)


def test_scores_on_a_lattice() -> None:
    data = scored(4_000, seed=3)
    for steps in (1, 2, 10):
        result = predictive_parity(data | {"s": np.ceil(data["s"] * steps) / steps}, **ROLES, rng=1)
        assert result.answered
        assert result.verdict is not iso.Verdict.WITHIN_TOLERANCE


def weighted(seed: int = 0) -> dict[str, Any]:
    data = scored(800, seed=seed)
    return data | {"w": np.random.default_rng(seed).integers(1, 4, data["s"].size).astype(float)}


@pytest.mark.parametrize("user", [None, "m"])
def test_doubled_weights_change_nothing(user: str | None) -> None:
    data = weighted()
    questions: list[tuple[Any, dict[str, Any]]]
    questions = [(predictive_parity, {"rng": 1}), (marginal_outcomes, {"threshold": 0.5})]
    for ask, more in questions:
        one, two = (
            ask(data | {"w": factor * data["w"]}, **ROLES, **more, user=user, weight="w").families[0]
            for factor in (1, 2)
        )
        for name in ("difference", "low", "high", "pair_pvalue", "effective"):
            np.testing.assert_allclose(getattr(one, name), getattr(two, name), rtol=1e-9, err_msg=name)


def test_equal_weights_are_no_weights() -> None:
    data = weighted() | {"w": np.full(1_600, 3.0)}
    plain, equal = (predictive_parity(data, **ROLES, rng=1, weight=w).families[0] for w in (None, "w"))
    np.testing.assert_allclose(plain.se, equal.se, rtol=1e-9)
    np.testing.assert_allclose(plain.effective, equal.effective, rtol=1e-9)


def test_weights_are_not_counts() -> None:
    """The curves are those of as many rows, the errors those of the rows there are."""
    data = weighted()
    options: dict[str, Any] = {"method": "nadaraya-watson", "bandwidth": 0.1, "grid": [0.3, 0.5, 0.7], "rng": 1}
    heavy = predictive_parity(data, **ROLES, **options, weight="w").families[0]
    counted = predictive_parity(data, **ROLES, **options, count="w").families[0]
    np.testing.assert_allclose(heavy.difference, counted.difference, rtol=1e-9)
    assert np.all(heavy.se > 1.2 * counted.se)


def test_a_cluster_is_a_user_whose_rows_keep_their_votes() -> None:
    data = weighted()
    cluster = predictive_parity(data, **ROLES, rng=1, cluster="m")
    user = predictive_parity(data, **ROLES, rng=1, user="m", level="aggregate")
    np.testing.assert_array_equal(cluster.families[0].se, user.families[0].se)
    with pytest.raises(UsageError, match="says already which rows belong together"):
        predictive_parity(data, **ROLES, rng=1, cluster="m", user=ROLES["score"])


def paper_margin(data: dict[str, Any], threshold: float, bandwidth: float) -> list[float]:
    """The paper's estimator at the threshold: a row has 1 over all rows of its user, and those above are averaged."""
    rows, weight = (np.asarray(data.get(name, np.ones(data["s"].size)), dtype=float) for name in ("n", "w"))
    _, user = np.unique(data["m"], return_inverse=True)
    vote = (
        rows
        * weight
        / np.bincount(user, weights=rows)[user]
        * np.exp(-0.5 * ((data["s"] - threshold) / bandwidth) ** 2)
    )
    above = data["s"] >= threshold
    means = [np.average(data["y"][mine], weights=vote[mine]) for mine in (above & (data["g"] == g) for g in "ab")]
    return [float(mean) for mean in means]


def active(n: int = 400, seed: int = 0) -> dict[str, Any]:
    """Equal groups of users with ten rows: all from 0.5 up and mostly good outcomes, or one and mostly bad ones.

    At user level the expected outcome is (0.9 + 0.1 x 0.3) / 1.1 at every score from 0.5 up.
    """
    rng = np.random.default_rng(seed)
    m, first = np.repeat(np.arange(2 * n), 10), np.tile(np.arange(10), 2 * n) == 0
    busy = np.repeat(rng.random(2 * n) < 0.5, 10)
    # One score to a bin of the axis, so that nothing is rounded.
    low, high = (rng.integers(*ends, m.size) / 1024 + 0.5 / 1024 for ends in ((0, 512), (512, 1024)))
    s = np.where(busy | first, high, low)
    y = (rng.random(m.size) < np.where(busy, 0.9, 0.3)).astype(float)
    return {"s": s, "y": y, "g": np.where(m < n, "a", "b"), "m": m}


@pytest.mark.parametrize(
    "case", ["plain", "outcomes unknown below", "count", "weight", "users in both groups", "query"]
)
def test_a_vote_at_the_margin_is_one_over_all_rows_of_the_user(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = active()
    rng = np.random.default_rng(1)
    data |= {"n": rng.integers(1, 4, data["s"].size)} if case == "count" else {}
    data |= {"w": rng.integers(1, 4, data["s"].size).astype(float)} if case == "weight" else {}
    data |= {"g": rng.choice(["a", "b"], data["s"].size)} if case == "users in both groups" else {}
    known = data if case == "plain" else data | {"y": np.where(data["s"] < 0.5, np.nan, data["y"])}
    monkeypatch.setattr("isonomy.calibration.tally.HELD", 1_000)  # a query is read in parts
    columns = {"count": "n" if "n" in data else None, "weight": "w" if "w" in data else None}
    options: dict[str, Any] = AT_HALF | {"user": "m", "bandwidth": 0.2} | columns
    table = pl.LazyFrame(known) if case == "query" else known
    result = marginal_outcomes(table, **options, method="nadaraya-watson").families[0]
    np.testing.assert_allclose(result.estimate, paper_margin(data, 0.5, 0.2), rtol=1e-9)
    if case != "weight":
        np.testing.assert_allclose(result.estimate, 0.93 / 1.1, atol=0.04)
    present = marginal_outcomes(table, **options).families[0]
    thresholds = equalize_thresholds(table, **options, resamples=100, change="all", rng=0)
    np.testing.assert_allclose(thresholds.marginal_before, present.estimate, rtol=1e-9)


def test_rows_left_out_are_no_rows_of_their_users() -> None:
    data = active()
    lost = np.random.default_rng(2).random(data["s"].size) < 0.2
    above = data["s"] >= 0.5
    kept = {name: values[~(lost & above)] for name, values in data.items()}
    gaps = data | {"y": np.where(lost & above, np.nan, data["y"])}
    options: dict[str, Any] = AT_HALF | {"user": "m", "bandwidth": 0.2, "missing": "drop"}
    expected = marginal_outcomes(kept, **options)
    np.testing.assert_allclose(marginal_outcomes(gaps, **options).families[0].estimate, expected.families[0].estimate)
    kept = {name: values[~lost] for name, values in data.items()}
    gaps = data | {"s": np.where(lost, np.nan, data["s"])}
    expected = marginal_outcomes(kept, **options)
    np.testing.assert_allclose(marginal_outcomes(gaps, **options).families[0].estimate, expected.families[0].estimate)
    gaps = data | {"g": np.where(lost, None, data["g"].astype(object))}
    options["missing_group"] = "drop"
    np.testing.assert_allclose(marginal_outcomes(gaps, **options).families[0].estimate, expected.families[0].estimate)


def test_groups_in_parity_at_user_level_are_not_told_apart() -> None:
    """Everybody in b has half of ten rows above the threshold, and the outcomes that a has at user level."""
    called = 0
    for seed in range(20):
        data, rng = active(800, seed), np.random.default_rng(100 + seed)
        size = data["s"].size // 2
        half = np.tile(np.arange(10) < 5, size // 10)
        s = np.where(half, 0.5, 0.0) + 0.5 * rng.random(size)
        data["s"][size:], data["y"][size:] = s, rng.random(size) < 0.93 / 1.1
        called += marginal_outcomes(data, **AT_HALF, user="m").pvalue <= 0.05
    assert called <= 4  # 0.05 and three standard errors of 20 tables
