"""Standardized differences: influence values of mean, reference and standard deviation together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isonomy as iso
from isonomy.errors import UsageError
from isonomy.groups.likelihood.overlap import Sigma, StandardizedContrast

M = iso.Metric("x", iso.col("x"))


def table(rows: int = 200, shift: float = 0.0, scale: float = 1.0) -> dict[str, Any]:
    rng = np.random.default_rng(3)
    group = rng.choice(["a", "b", "c"], rows, p=[0.5, 0.3, 0.2])
    value = rng.gamma(2.0, 1.0, rows) + 0.5 * (group == "b")
    return {"g": group, "x": shift + scale * value, "h": rng.choice(["u", "v"], rows), "w": rng.integers(1, 4, rows)}


@pytest.mark.parametrize("sigma", ["population", "pooled", "reference"])
def test_influence_values_are_what_a_row_adds(sigma: Sigma) -> None:
    """A little more weight on one row moves the disparity by its influence value."""
    data = table(60)
    own, other = data["g"] == "a", data["h"] == "u"  # some rows are in both
    unit = {"population": np.ones(60, dtype=bool), "pooled": None, "reference": other}[sigma]
    mass, step = np.ones(60), 1e-6
    value, _, _, influence, _ = StandardizedContrast(data["x"], mass, own, other, unit).fit()
    assert influence.sum() == pytest.approx(0.0, abs=1e-9)
    for row in range(0, 60, 7):
        heavier = mass + step * (np.arange(60) == row)
        moved = StandardizedContrast(data["x"], heavier, own, other, unit).value - value
        assert 60 * moved / step == pytest.approx(influence[row], abs=1e-4)


def test_sigma_is_the_standard_deviation_that_was_named() -> None:
    data = table()
    x, own, other = data["x"], data["g"] == "a", data["g"] == "b"
    apart = np.concatenate([x[own] - x[own].mean(), x[other] - x[other].mean()])
    expected: dict[Sigma, float] = {"population": x.std(), "reference": x[other].std(), "pooled": apart.std()}
    for sigma, deviation in expected.items():
        result = iso.flag(data, metric=M, groups="g", reference={"g": "b"}, scale=iso.standardized(sigma))
        assert result.sigma == sigma
        assert result.sigma_value is not None
        assert result.sigma_value[0] == pytest.approx(deviation)
        assert result.disparity[0] == pytest.approx((x[own].mean() - x[other].mean()) / deviation)
        assert result.to_frame()["sigma"][0] == pytest.approx(deviation)


@pytest.mark.parametrize("reference", ["population", "rest", {"g": "b"}, {"h": "u"}, 2.0], ids=str)
def test_no_difference_has_the_p_value_of_the_difference(reference: Any) -> None:
    data = table()
    plain = iso.flag(data, metric=M, groups="g", reference=reference)
    result = iso.flag(data, metric=M, groups="g", reference=reference, scale="standardized")
    assert result.pvalue == pytest.approx(plain.pvalue, rel=1e-6, nan_ok=True)


def test_an_interval_ends_where_the_test_rejects_and_has_neither_unit_nor_origin() -> None:
    options: dict[str, Any] = {"metric": M, "groups": "g", "reference": "rest", "scale": "standardized"}
    first = iso.flag(table(), **options)
    end = iso.flag(table(), **options, null=float(first.ci_low[0]), adjust="none")
    assert end.pvalue[0] == pytest.approx(0.05, rel=1e-5)
    again = iso.flag(table(shift=1e5, scale=1e3), **options)
    for name in ("disparity", "ci_low", "ci_high", "pvalue", "standard_error"):
        assert getattr(again, name) == pytest.approx(getattr(first, name), rel=1e-5), name


def test_the_standard_error_is_that_of_a_bootstrap() -> None:
    data, rng = table(400), np.random.default_rng(5)
    own = data["g"] == "a"
    everybody = np.ones(400, dtype=bool)
    contrast = StandardizedContrast(data["x"], np.ones(400), own, ~own, everybody)
    draws = []
    for _ in range(2_000):
        mass = rng.multinomial(400, np.full(400, 1 / 400)).astype(float)
        draws.append(StandardizedContrast(data["x"], mass, own, ~own, everybody).value)
    # The standard deviation of 2,000 draws is known to 1.6 %, and the bootstrap adds terms of order 1/n.
    assert np.std(draws) == pytest.approx(contrast.standard_error, rel=0.05)


def test_counts_are_rows() -> None:
    data = table(120)
    repeated = {name: np.repeat(values, data["w"]) for name, values in data.items()}
    options: dict[str, Any] = {"metric": M, "groups": "g", "reference": {"g": "a"}, "scale": "standardized"}
    counted, plain = iso.flag(data, **options, count="w"), iso.flag(repeated, **options)
    for name in ("disparity", "ci_low", "ci_high", "pvalue"):
        assert getattr(counted, name) == pytest.approx(getattr(plain, name), rel=1e-6, nan_ok=True), name


def test_rows_that_come_twice_are_known_by_their_cluster() -> None:
    data = table(150)
    twice = {name: np.repeat(values, 2) for name, values in data.items()} | {"id": np.repeat(np.arange(150), 2)}
    options: dict[str, Any] = {"metric": M, "groups": "g", "reference": {"g": "a"}, "scale": "standardized"}
    clustered = iso.flag(twice, **options, cluster="id")
    assert clustered.design is not None
    # All 150 clusters add to the standard deviation of all rows, and so to the contrast.
    assert clustered.design.effect[1] == pytest.approx(2.0 * 150.0 / 149.0)
    assert clustered.design.clusters[1] == (data["g"] == "b").sum()
    once = iso.flag(data, **options)
    assert clustered.standard_error[1] == pytest.approx(once.standard_error[1], rel=0.02)


def test_a_constant_reference_has_no_unit() -> None:
    data = table(100)
    data["x"] = np.where(data["g"] == "b", 1.0, data["x"])
    with pytest.raises(UsageError, match=r"scale: 'x' is the same in every row of g=b"):
        iso.flag(data, metric=M, groups="g", reference={"g": "b"}, scale=iso.standardized("reference"))


def test_the_words_say_whose_standard_deviation() -> None:
    result = iso.flag(table(), metric=M, groups="g", scale="standardized", tolerance=0.2)
    assert "in standard deviations of all rows, lies between -0.200 and 0.200" in result.null
    assert any("a standardized difference of" in finding for finding in result.findings())
    assert "in standard deviations of all rows" in str(result.plot().to_dict())
    assert iso.from_json(result.to_json()).to_frame().equals(result.to_frame())
    hidden = result.suppressed(50)
    assert hidden.sigma_value is not None
    assert np.isnan(hidden.sigma_value).sum() == sum(status.value == "suppressed" for status in hidden.status)
