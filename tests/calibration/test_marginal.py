"""Marginal outcomes and group thresholds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isonomy as iso
from isonomy.calibration import equalize_thresholds, marginal_outcomes
from isonomy.errors import EmptyFrame, MissingValues, NotEnoughData, OneGroup, UnknownOption, UsageError

ROLES = {"outcome": "y", "score": "s", "groups": "g", "threshold": 0.5}


def table(n: int = 3_000, power: float = 1.0, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    g = np.repeat(["a", "b"], n)
    s = np.concatenate([rng.beta(2, 3, n), rng.beta(3, 2, n)])
    y = (rng.random(2 * n) < np.where(g == "b", s**power, s)).astype(float)
    return {"s": s, "y": y, "g": g, "m": rng.integers(0, n // 2, 2 * n)}


@pytest.mark.parametrize("method", ["local-quadratic", "local-linear", "nadaraya-watson"])
@pytest.mark.parametrize("user", [None, "m"])
def test_a_planted_difference_is_found(method: str, user: str | None) -> None:
    result = marginal_outcomes(table(8_000, power=3.0), **ROLES, method=method, user=user)
    assert result.verdict is iso.Verdict.VIOLATION
    family = result.families[0]
    if method != "nadaraya-watson":
        assert np.all(np.abs(family.estimate - [0.5, 0.125]) < 4 * family.se)
    assert "higher" in " ".join(result.findings())


def test_a_score_above_one_changes_little() -> None:
    data = table(10_000, power=1.5)
    plain = marginal_outcomes(data, **ROLES)
    data["s"][np.argmax(data["s"])] = 1.0001
    beyond = marginal_outcomes(data, **ROLES)
    assert beyond.families[0].bandwidth == pytest.approx(plain.families[0].bandwidth, rel=0.02)
    assert beyond.pvalue == pytest.approx(plain.pvalue, rel=0.5)


def test_groups_with_nobody_above_the_threshold_are_told() -> None:
    data = table()
    low = {"s": np.full(50, 0.2), "y": np.zeros(50), "g": np.repeat("c", 50), "m": np.arange(50)}
    joined = {name: np.concatenate([data[name], low[name]]) for name in data}
    assert "No row of g=c has a score from the threshold up" in " ".join(marginal_outcomes(joined, **ROLES).warnings)
    unlabelled = joined | {"s": np.where(joined["g"] == "c", 0.8, joined["s"])}
    unlabelled["y"] = np.where(joined["g"] == "c", np.nan, joined["y"])
    assert "No row of" not in " ".join(marginal_outcomes(unlabelled, **ROLES, missing="drop").warnings)
    only = {name: values[joined["g"] != "a"] for name, values in joined.items()}
    with pytest.raises(OneGroup, match=r"one group \(g=b\).* Only rows with a score of 0.5 or more"):
        marginal_outcomes(only, **ROLES)


def test_several_columns_are_allowed_for() -> None:
    data = table()
    columns = {f"g{k}": np.random.default_rng(k).integers(0, 2, data["s"].size) for k in range(4)}
    ask = {"outcome": "y", "score": "s", "threshold": 0.5}
    every = marginal_outcomes(data | columns, **ask, groups=list(columns))
    raw = [family.pair_pvalue[0] for family in every.families]
    assert every.pvalue == pytest.approx(min(1, 4 * min(raw)))
    assert (every.verdict is iso.Verdict.VIOLATION) == (every.pvalue <= 0.05)


def test_labels_below_the_threshold_are_not_needed() -> None:
    data = table()
    full = marginal_outcomes(data, **ROLES)
    hidden = data | {"y": np.where(data["s"] < 0.5, np.nan, data["y"])}
    assert marginal_outcomes(hidden, **ROLES).to_frame().equals(full.to_frame())
    with pytest.raises(MissingValues):
        marginal_outcomes(data | {"y": np.where(data["s"] > 0.9, np.nan, data["y"])}, **ROLES)
    with pytest.raises(MissingValues, match="score"):
        marginal_outcomes(data | {"s": np.where(data["s"] > 0.9, np.nan, data["s"])}, **ROLES)


def test_few_people_at_the_margin() -> None:
    data = table(100)
    keep = (data["g"] == "a") | (data["s"] > 0.8) | (data["s"] < 0.5)
    result = marginal_outcomes({k: v[keep] for k, v in data.items()}, **ROLES)
    assert result.to_frame()["status"].to_list() == ["unsupported"]
    assert result.verdict is iso.Verdict.INCONCLUSIVE
    assert "Too few" in " ".join(result.warnings)


def test_tolerance_and_reference() -> None:
    result = marginal_outcomes(table(30_000), **ROLES, tolerance=0.2, reference={"g": "b"})
    assert result.verdict is iso.Verdict.WITHIN_TOLERANCE
    assert result.families[0].pairs.tolist() == [[0, 1]]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"threshold": np.nan}, UsageError),
        ({"threshold": "0.5"}, UsageError),
        ({"method": "cubic"}, UnknownOption),
        ({"adjust": "sup-t"}, UnknownOption),
        ({"bandwidth": -1}, UsageError),
        ({"tolerance": 5}, UsageError),
        ({"reference": "a"}, UsageError),
        ({"threshold": 50}, EmptyFrame),
    ],
)
def test_bad_arguments(options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        marginal_outcomes(table(200), **(ROLES | options))


def test_thresholds_equalize_and_keep_the_rate() -> None:
    found = equalize_thresholds(table(20_000, power=1.5), **ROLES)
    assert abs(found.overall_after - found.overall_before) < 1e-3
    np.testing.assert_allclose(found.marginal_after, found.target, atol=1e-6)
    true = found.thresholds[0], found.thresholds[1] ** 1.5
    assert abs(true[0] - true[1]) < 0.03
    assert found.status[0] is iso.Status.EXTRAPOLATED
    assert np.isnan(found.marginal_se[0])
    assert found.status[1] is iso.Status.OK
    assert not found.warnings


def test_thresholds_one_way() -> None:
    data = table(20_000, power=1.5)
    up = equalize_thresholds(data, **ROLES, direction="raise")
    down = equalize_thresholds(data, **ROLES, direction="lower")
    assert up.thresholds[0] == 0.5 < up.thresholds[1]
    assert up.overall_after < up.overall_before
    assert down.thresholds[1] == 0.5 > down.thresholds[0]
    assert down.overall_after > down.overall_before
    assert "cannot also be kept" in up.warnings[0]


def test_thresholds_of_groups_in_parity_hardly_move() -> None:
    found = equalize_thresholds(table(20_000), **ROLES)
    assert np.all(np.abs(found.thresholds - 0.5) < 0.05)


def test_thresholds_with_tied_scores_say_so() -> None:
    data = table(5_000, power=1.5)
    data["s"] = np.round(data["s"], 1)
    found = equalize_thresholds(data, **ROLES)
    assert abs(found.overall_after - found.overall_before) > 1e-3
    assert "could not be kept" in found.warnings[0]


def test_a_tolerance_is_part_of_the_null() -> None:
    data = table(20_000, power=2)
    plain, allowed = (marginal_outcomes(data, **ROLES, tolerance=t) for t in (None, 0.6))
    assert plain.verdict is iso.Verdict.VIOLATION
    assert allowed.verdict is iso.Verdict.WITHIN_TOLERANCE
    assert allowed.pvalue == 1.0


def test_a_group_without_outcomes_at_the_margin_keeps_its_threshold() -> None:
    data = table(5_000)
    few = {k: np.append(v, v[:2]) for k, v in data.items()}
    few["g"] = np.append(data["g"].astype("U9"), ["few", "few"])
    few["s"][-2:] = 0.9
    result = equalize_thresholds(few, **ROLES)
    at = [group.label for group in result.groups].index("g=few")
    assert result.thresholds[at] == result.threshold
    assert result.status[at] is iso.Status.UNSUPPORTED
    assert np.isnan(result.marginal_after[at])
    assert any("g=few" in warning for warning in result.warnings)
    with pytest.raises(NotEnoughData, match="0 groups have enough"):
        equalize_thresholds(data | {"y": np.ones(data["y"].size)}, **ROLES)


def test_thresholds_refuse() -> None:
    data = table(500)
    with pytest.raises(UsageError):
        equalize_thresholds(data | {"h": data["g"]}, **(ROLES | {"groups": ["g", "h"]}))
    with pytest.raises(UnknownOption):
        equalize_thresholds(data, **ROLES, direction="up")
    lost = {k: v[(data["g"] != "b") | (data["s"] < 0.5)] for k, v in data.items()}
    extra = {k: np.append(v, v[:1]) for k, v in lost.items()}
    extra["g"][-1], extra["s"][-1] = "c", 0.6
    with pytest.raises(NotEnoughData):
        equalize_thresholds(extra, **ROLES)
