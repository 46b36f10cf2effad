"""Behind a joint test: implied weights, the region's shape, the bootstrap of its rivals, and single definitions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import chi2

import isonomy as iso
from isonomy.errors import UsageError

Y = iso.Metric("y", iso.col("y"))


def table(rows: int = 400) -> dict[str, Any]:
    rng = np.random.default_rng(3)
    group = rng.choice(list("abc"), rows, p=[0.5, 0.3, 0.2])
    return {
        "g": group,
        "h": rng.choice(["x", "z"], rows),
        "y": rng.gamma(2.0, 1.0, rows) + 0.3 * (group == "b"),
        "p": (rng.random(rows) < 0.4 + 0.15 * (group == "b")).astype(int),
        "o": rng.integers(0, 2, rows),
    }


@pytest.mark.parametrize("reference", ["population", {"g": "a"}, 2.1])
@pytest.mark.parametrize("metric", [Y, "selection_rate"])
def test_weights_meet_the_null_and_make_the_statistic(metric: Any, reference: Any) -> None:
    reference = 0.45 if reference == 2.1 and metric != Y else reference
    data = table()
    options: dict[str, Any] = {} if metric is Y else {"prediction": "p"}
    method = iso.likelihood(correction=None)
    result = iso.certify(data, metric=metric, groups="g", reference=reference, method=method, **options)
    total, means = 0.0, []
    for label in [name for name, null in zip(result.names, result.null_disparity, strict=True) if not np.isnan(null)]:
        value, rows, weight, _ = result.weights(label).to_numpy().T
        means.append(float((value * rows * weight).sum() / (rows * weight).sum()))
        total += -2 * float(rows @ np.log(weight))
        values = data["y" if metric is Y else "p"][data["g"] == label[-1]]
        np.testing.assert_allclose(value @ rows, values.sum())
    np.testing.assert_allclose(means, means[0], rtol=1e-9)
    if isinstance(reference, float):
        assert means[0] == pytest.approx(reference, rel=1e-9)
    if not isinstance(reference, dict):  # a named reference has weights of its own
        assert total == pytest.approx(result.statistic, rel=1e-8)


def test_weights_of_overlapping_groups_meet_the_null() -> None:
    result = iso.certify(table(), metric=Y, groups=["g", "h"], method=iso.likelihood(correction=None))
    means = []
    for label in result.names:
        value, rows, weight, _ = result.weights(label).to_numpy().T
        means.append(float((value * rows * weight).sum() / (rows * weight).sum()))
    np.testing.assert_allclose(means, means[0], rtol=1e-6)


def binomial_ratio(ones: float, n: float, p: float) -> float:
    return 2 * (ones * np.log(ones / n / p) + (n - ones) * np.log((1 - ones / n) / (1 - p)))


def test_projections_and_contour_of_known_references() -> None:
    data = table()
    method = iso.likelihood(correction=None)
    result = iso.certify(
        data, metric="selection_rate", prediction="p", groups="g", reference=0.45, alpha=0.1, method=method
    )
    critical = chi2.isf(0.1, 3)
    counts = {k: (data["p"][data["g"] == k].sum(), (data["g"] == k).sum()) for k in "abc"}
    shape = result.projections().to_dict(as_series=False)
    for place, key in enumerate("abc"):
        ones, n = counts[key]
        low = brentq(lambda p: binomial_ratio(ones, n, p) - critical, 1e-9, ones / n)  # noqa: B023
        high = brentq(lambda p: binomial_ratio(ones, n, p) - critical, ones / n, 1 - 1e-9)  # noqa: B023
        assert shape["low"][place] == pytest.approx(low - 0.45, abs=1e-6)
        assert shape["high"][place] == pytest.approx(high - 0.45, abs=1e-6)
    points = result.contour("g=a", "g=c").to_numpy()
    for first, second in points:
        both = binomial_ratio(*counts["a"], first + 0.45) + binomial_ratio(*counts["c"], second + 0.45)
        assert both == pytest.approx(critical, abs=1e-4)


def test_a_contour_lies_within_the_projections() -> None:
    result = iso.certify(table(), metric="selection_rate", prediction="p", groups="g", reference={"g": "a"})
    shape, points = result.projections(), result.contour("g=b", "g=c").to_numpy()
    assert (points >= shape["low"].to_numpy() - 1e-5).all()
    assert (points <= shape["high"].to_numpy() + 1e-5).all()
    np.testing.assert_allclose(points.max(axis=0), shape["high"].to_numpy(), atol=0.01)


def test_bootstrap_by_plain_resampling() -> None:
    data, rng = table(), np.random.default_rng(1)
    result = iso.certify(data, metric=Y, groups="g", reference=2.0)
    group, y = data["g"], data["y"]
    share = np.array([(group == k).mean() for k in "abc"])
    mean = np.array([y[group == k].mean() for k in "abc"])
    largest = []
    for _ in range(4_000):
        rows = rng.integers(0, y.size, y.size)
        new, code = y[rows], group[rows]
        drawn = [(code == k).mean() * (new[code == k].mean() - m) for k, m in zip("abc", mean, strict=True)]
        largest.append(max(share * drawn))
    bound = np.quantile(largest, 0.95) / share**2
    region = result.bootstrap(resamples=4_000, rng=2)
    np.testing.assert_allclose(region["high"].to_numpy() - region["disparity"].to_numpy(), bound, rtol=0.05)
    assert region.equals(result.bootstrap(resamples=4_000, rng=2))


def test_a_verdict_for_each_definition() -> None:
    data = table()
    result = iso.certify(data, metric=["tpr", "fpr"], outcome="o", prediction="p", groups="g")
    alone = {m: iso.certify(data, metric=m, outcome="o", prediction="p", groups="g").pvalue for m in ("tpr", "fpr")}
    frame = result.by_metric()
    np.testing.assert_allclose(frame["pvalue"].to_numpy(), list(alone.values()), rtol=1e-9)
    least = min(alone.values())
    assert frame["adjusted_pvalue"].min() == pytest.approx(min(1.0, 2 * least))
    assert frame.equals(iso.from_json(result.to_json()).by_metric())
    assert sum("adjusted over 2 metrics" in text for text in result.findings()) == 2
    assert not result.suppressed(150).definitions


def test_refusals() -> None:
    data = table()
    result = iso.certify(data, metric="selection_rate", prediction="p", groups="g")
    with pytest.raises(UsageError, match=r"group.*'g=q'.*g=a"):
        result.weights("g=q")
    with pytest.raises(UsageError, match="same group"):
        result.contour("g=a", "g=a")
    with pytest.raises(UsageError, match="several metrics"):
        result.by_metric()
    with pytest.raises(UsageError, match="not stored"):
        iso.from_json(result.to_json()).projections()
    with pytest.raises(UsageError, match="empirical likelihood"):
        iso.certify(data, metric="selection_rate", prediction="p", groups="g", method="eel").weights("g=a")
    with pytest.raises(UsageError, match="against the rest"):
        iso.certify(data, metric="selection_rate", prediction="p", groups="g", reference="rest").projections()
    weighted = iso.certify(data | {"w": np.ones(400)}, metric=Y, groups="g", weight="w")
    with pytest.raises(UsageError, match="without weights"):
        weighted.bootstrap()
