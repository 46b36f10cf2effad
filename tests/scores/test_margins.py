"""Marginal outcomes through the public call: a known truth, verdicts, votes of users, refusals, and words."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

import isonomy as iso
from isonomy.errors import MissingValues, OneGroup
from isonomy.frames import open_source
from isonomy.results import theme
from isonomy.results.questions import QUESTIONS
from isonomy.scores import equalize_thresholds, marginal_outcomes
from support.curved import curved
from support.sampling import binomial_margin
from support.tables import margins

AT_HALF: dict[str, Any] = {"outcome": "y", "score": "s", "groups": "g", "threshold": 0.5}


def ask(data: Any, **options: Any) -> Any:
    return marginal_outcomes(data, **curved(AT_HALF | options))


def estimates(result: Any) -> Any:
    """The outcome of each group at the threshold, in order of their names."""
    (table,) = set(result.tables)
    numbers = result.by_group(table)
    return np.array([numbers[label]["estimate"][0] for label in sorted(numbers)])


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


def paper_margin(data: dict[str, Any], threshold: float, bandwidth: float) -> list[float]:
    """The paper's estimator at the threshold: a row has 1 over all rows of its user, and those above are averaged."""
    rows, weight = (np.asarray(data.get(name, np.ones(data["s"].size)), dtype=float) for name in ("n", "w"))
    _, user = np.unique(data["m"], return_inverse=True)
    each = np.bincount(user, weights=rows)[user]
    vote = rows * weight / each * np.exp(-0.5 * ((data["s"] - threshold) / bandwidth) ** 2)
    above = data["s"] >= threshold
    means = [np.average(data["y"][mine], weights=vote[mine]) for mine in (above & (data["g"] == g) for g in "ab")]
    return [float(mean) for mean in means]


# ---- numbers and verdicts


@pytest.mark.parametrize("method", ["local-quadratic", "local-linear", "published"])
@pytest.mark.parametrize("user", [None, "m"])
def test_a_planted_difference_at_the_margin_is_found(method: Any, user: str | None) -> None:
    result = ask(margins(8_000, power=3.0), method=method, user=user)
    assert result.verdict is iso.Verdict.VIOLATION
    if method != "published":
        for value, high, true in (
            (result.estimate, result.estimate_high, 0.5),
            (result.reference, result.reference_high, 0.125),
        ):
            assert abs(value[0] - true) < 4 * (high[0] - value[0]) / 1.96
    assert "higher" in " ".join(result.findings())


def test_several_columns_are_allowed_for() -> None:
    data = margins()
    columns = {f"g{k}": np.random.default_rng(k).integers(0, 2, data["s"].size) for k in range(4)}
    every = ask(data | columns, groups=list(columns))
    assert every.pvalue == pytest.approx(min(1, 4 * min(every.pvalues)))
    assert (every.verdict is iso.Verdict.VIOLATION) == (every.pvalue <= 0.05)


def test_a_tolerance_is_part_of_the_null() -> None:
    data = margins(20_000, power=2)
    plain, allowed = (ask(data, tolerance=t) for t in (None, 0.6))
    assert plain.verdict is iso.Verdict.VIOLATION
    assert allowed.verdict is iso.Verdict.WITHIN_TOLERANCE
    assert allowed.pvalue == 1.0
    assert allowed.null.endswith("differs by at most 60.0 points between groups.")
    reference = ask(margins(30_000), tolerance=0.2, reference={"g": "b"})
    assert (reference.labels, reference.against) == (("g=a",), ("g=b",))
    assert reference.verdict is iso.Verdict.WITHIN_TOLERANCE


def test_a_score_above_one_changes_little() -> None:
    data = margins(10_000, power=1.5)
    plain = ask(data)
    data["s"][np.argmax(data["s"])] = 1.0001
    beyond = ask(data)
    assert beyond.bandwidth == pytest.approx(plain.bandwidth, rel=0.02)
    assert beyond.pvalue == pytest.approx(plain.pvalue, rel=0.5)


def test_few_people_at_the_margin() -> None:
    data = margins(100)
    keep = (data["g"] == "a") | (data["s"] > 0.8) | (data["s"] < 0.5)
    result = ask({k: v[keep] for k, v in data.items()})
    assert result.to_frame()["status"].to_list() == ["unsupported"]
    assert result.verdict is iso.Verdict.INCONCLUSIVE
    assert "Too few people" in " ".join(result.warnings)


@pytest.mark.parametrize("bandwidth", [None, 0.3])
def test_scores_that_begin_away_from_the_threshold_do_not_tell_its_outcome(bandwidth: float | None) -> None:
    rng = np.random.default_rng(0)
    s = 0.6 + 0.4 * rng.random(4_000)
    result = ask({"s": s, "g": np.repeat([0, 1], 2_000), "y": rng.random(4_000) < s}, bandwidth=bandwidth)
    assert not result.answered
    assert any("Too few people are just above the threshold" in warning for warning in result.warnings)


# ---- rows


def test_groups_with_nobody_above_the_threshold_are_named() -> None:
    data = margins()
    low = {"s": np.full(50, 0.2), "y": np.zeros(50), "g": np.repeat("c", 50), "m": np.arange(50)}
    joined = {name: np.concatenate([data[name], low[name]]) for name in data}
    assert "No row of g=c has a score at or above the threshold" in " ".join(ask(joined).warnings)
    unlabelled = joined | {"s": np.where(joined["g"] == "c", 0.8, joined["s"])}
    unlabelled["y"] = np.where(joined["g"] == "c", np.nan, joined["y"])
    assert "No row of" not in " ".join(ask(unlabelled, missing="drop").warnings)
    only = {name: values[joined["g"] != "a"] for name, values in joined.items()}
    with pytest.raises(OneGroup, match=r"one group \(g=b\).* Only rows with a score of 0.5 or more"):
        ask(only)


def test_labels_below_the_threshold_are_not_needed() -> None:
    data = margins()
    hidden = data | {"y": np.where(data["s"] < 0.5, np.nan, data["y"])}
    assert ask(hidden).to_frame().equals(ask(data).to_frame())
    with pytest.raises(MissingValues):
        ask(data | {"y": np.where(data["s"] > 0.9, np.nan, data["y"])})
    with pytest.raises(MissingValues, match="score"):
        ask(data | {"s": np.where(data["s"] > 0.9, np.nan, data["s"])})


@pytest.mark.parametrize(
    "case", ["plain", "outcomes unknown below", "count", "weight", "users in both groups", "query"]
)
def test_a_vote_at_the_margin_is_one_over_all_rows_of_the_user(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = active(200)
    rng = np.random.default_rng(1)
    data |= {"n": rng.integers(1, 4, data["s"].size)} if case == "count" else {}
    data |= {"w": rng.integers(1, 4, data["s"].size).astype(float)} if case == "weight" else {}
    data |= {"g": rng.choice(["a", "b"], data["s"].size)} if case == "users in both groups" else {}
    known = data if case == "plain" else data | {"y": np.where(data["s"] < 0.5, np.nan, data["y"])}
    monkeypatch.setattr("isonomy.scores.read.HELD", 2_000)  # a query is read in parts
    columns = {"count": "n" if "n" in data else None, "weight": "w" if "w" in data else None}
    options: dict[str, Any] = {"user": "m", "bandwidth": 0.2} | columns
    table = pl.LazyFrame(known) if case == "query" else known
    found = estimates(ask(table, **options, method="published"))
    np.testing.assert_allclose(found, paper_margin(data, 0.5, 0.2), rtol=1e-9)
    if case != "weight":
        np.testing.assert_allclose(found, 0.93 / 1.1, atol=0.04)
    present = estimates(ask(table, **options))
    thresholds = equalize_thresholds(table, **curved(AT_HALF | options | {"resamples": 100, "change": "all", "rng": 0}))
    np.testing.assert_allclose(thresholds.before[0], present, rtol=1e-9)


def test_rows_left_out_are_no_rows_of_their_users() -> None:
    data = active()
    lost = np.random.default_rng(2).random(data["s"].size) < 0.2
    above = data["s"] >= 0.5
    options: dict[str, Any] = {"user": "m", "bandwidth": 0.2, "missing": "drop"}
    kept = {name: values[~(lost & above)] for name, values in data.items()}
    gaps = data | {"y": np.where(lost & above, np.nan, data["y"])}
    np.testing.assert_allclose(estimates(ask(gaps, **options)), estimates(ask(kept, **options)))
    expected = estimates(ask({name: values[~lost] for name, values in data.items()}, **options))
    gaps = data | {"s": np.where(lost, np.nan, data["s"])}
    np.testing.assert_allclose(estimates(ask(gaps, **options)), expected)
    gaps = data | {"g": np.where(lost, None, data["g"].astype(object))}
    np.testing.assert_allclose(estimates(ask(gaps, **options, missing_group="drop")), expected)


@pytest.mark.validity
def test_groups_in_parity_at_user_level_are_not_told_apart() -> None:
    """Everybody in b has half of ten rows above the threshold, and the outcomes that a has at user level."""
    called, tables = 0, 100
    for seed in range(tables):
        data, rng = active(800, seed), np.random.default_rng(100 + seed)
        size = data["s"].size // 2
        half = np.tile(np.arange(10) < 5, size // 10)
        s = np.where(half, 0.5, 0.0) + 0.5 * rng.random(size)
        data["s"][size:], data["y"][size:] = s, rng.random(size) < 0.93 / 1.1
        called += ask(data, user="m").pvalue <= 0.05
    assert called / tables <= 0.05 + binomial_margin(0.05, tables)


# ---- refusals, words, disclosure


def test_no_pass_can_be_shared() -> None:
    source = open_source(pl.LazyFrame(margins(100)))
    assert QUESTIONS["marginal_outcomes"].planned(source, AT_HALF).requests == ()


def test_small_groups_are_withheld() -> None:
    rng = np.random.default_rng(0)
    s = rng.random(8_000)
    data = {"s": s, "g": rng.choice(["a", "b", "c"], 8_000, p=[0.6, 0.39, 0.01]), "y": rng.random(8_000) < s}
    result = ask(data)
    hidden = result.published(200)
    withheld, shown = hidden.withheld_labels()
    assert withheld == {"g=b", "g=c"}  # of three groups, one alone would be given away
    assert shown == {"g=a"}
    assert np.isnan(hidden.disparity).all()
    assert hidden.findings()[-1] in result.findings()
    assert hidden.findings()[-1].startswith("g=a: the expected outcome")
    assert hidden.plot()
    assert theme.to_svg(result.plot()).startswith("<svg")


@pytest.mark.parametrize("user", [None, "u"])
def test_outcomes_too_skewed_for_the_people_near_the_threshold_give_no_verdict(user: str | None) -> None:
    rng = np.random.default_rng(1)
    g, s = np.repeat(["a", "b"], [500, 3_000]), rng.random(3_500)
    table = {"g": g, "s": s, "u": np.arange(3_500), "y": rng.lognormal(0, 1.2, 3_500)}
    result = ask(table, user=user)
    assert result.status == (iso.Status.SKEWED,)
    assert not result.answered
    assert np.isfinite(result.disparity).all()
    assert any("too skewed" in note.text for note in result.notes)
    assert ask(table | {"y": rng.normal(size=3_500)}, user=user).answered
