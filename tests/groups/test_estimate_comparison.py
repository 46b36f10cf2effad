"""What groups are set beside, which can be tested, and by which likelihood."""

from __future__ import annotations

from typing import Any

import numpy as np

import isonomy as iso
from isonomy.results import Status

RATE: dict[str, Any] = {"metric": "selection_rate", "groups": "race", "prediction": "selected"}


def test_the_reference_level_itself_is_not_tested(lender: dict[str, Any]) -> None:
    result = iso.flag(lender, reference={"race": "b"}, **RATE)
    assert result.status == (Status.OK, Status.REFERENCE, Status.OK)
    assert np.isnan(result.pvalue[1])
    assert result.disparity[1] == 0


def test_the_error_of_a_quantile_rests_on_the_clusters_and_weights_there_are() -> None:
    rng = np.random.default_rng(3)
    x, group = rng.normal(size=100), np.repeat(["a", "b"], [40, 60])
    asked: dict[str, Any] = {"metric": iso.Metric("median", iso.col("x"), quantile=0.5), "groups": "g"}
    each = {"x": x, "g": group, "id": np.arange(100)}
    repeated = {name: np.repeat(values, 50) for name, values in each.items()}
    plain = iso.flag(each, cluster="id", reference={"g": "b"}, **asked)
    many = iso.flag(repeated, cluster="id", reference={"g": "b"}, **asked)
    assert many.status[0] is Status.OK
    np.testing.assert_allclose([many.ci_low[0], many.ci_high[0]], [plain.ci_low[0], plain.ci_high[0]], rtol=1e-9)
    # What the rows of one group weigh beside those of another is nothing to a group's own error.
    heavy = iso.flag(each | {"w": np.where(group == "a", 50.0, 1.0)}, weight="w", reference=0.0, **asked)
    equal = iso.flag(each | {"w": np.ones(100)}, weight="w", reference=0.0, **asked)
    np.testing.assert_allclose([heavy.ci_low, heavy.ci_high], [equal.ci_low, equal.ci_high], rtol=1e-7)
