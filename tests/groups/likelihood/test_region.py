"""The joint region: what it holds, what it leaves out, whatever the unit and the origin."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isonomy as iso
from isonomy.groups.likelihood.means import Binary
from isonomy.groups.likelihood.region import Region
from isonomy.groups.options import LikelihoodKind as Method
from isonomy.results import Status
from support.groups import counted, moved

RATE: dict[str, Any] = {"metric": "selection_rate", "groups": "race", "prediction": "selected"}
LOSS: dict[str, Any] = {"metric": iso.Metric("loss", value=iso.col("loss")), "groups": "race"}
UNITS = [(0.0, 1e-12), (-1e6, 1e3), (0.0, 1e12)]


@pytest.mark.parametrize("reference", ["population", {"race": "a"}, 0.42], ids=str)
@pytest.mark.parametrize("method", ["el", "eel"])
def test_the_region_holds_the_estimates_and_not_far_disparities(
    lender: dict[str, Any], reference: Any, method: Method
) -> None:
    result = iso.certify(lender, reference=reference, method=method, **RATE)
    tested = ~np.isnan(result.ci_low)
    assert result.contains(result.disparity[tested])
    assert result.contains(dict(zip(np.array(result.labels)[tested], result.disparity[tested], strict=True)))
    assert not result.contains(result.disparity[tested] + np.linspace(-0.3, 0.3, tested.sum()))
    assert result.contains(0.0) == (result.pvalue > result.alpha)


def test_the_quick_path_is_the_general_one(lender: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Disjoint groups with a common shift are solved by one scalar root; the dual must agree."""
    for kwargs in (RATE, LOSS):
        for reference in ("population", {"race": "b"}):
            region = iso.certify(lender, reference=reference, **kwargs).region
            assert region is not None
            null = 0.0 if reference == "population" else 0.05
            quick = region.test(null)
            with monkeypatch.context() as patch:
                patch.setattr(Region, "quick", lambda self, target: False)
                slow = region.test(null)
            assert quick.statistic == pytest.approx(slow.statistic, rel=1e-7)
            assert quick.df == slow.df


def test_a_null_that_the_estimated_reference_cannot_meet_may_be_met_by_another() -> None:
    """Rates near 1: 0.9 + 0.12 is no rate, 0.85 + 0.12 is."""
    data = counted((60, 57), (60, 50), c=(60, 54))
    result = iso.certify(data, null=[0.12, -0.12, 0.0], method=iso.likelihood(correction=None), **RATE)
    assert result.joint_status is Status.OK
    n, k, e = np.array([60.0] * 3), np.array([57.0, 50.0, 54.0]), np.array([0.12, -0.12, 0.0])
    at = np.arange(3)
    # The shares must balance, and with these disparities already do: only the common shift is left.
    best = min(float(Binary(n, k).statistic(t + e, at).sum()) for t in np.linspace(0.84, 0.87, 3_001))
    assert result.statistic == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize(
    ("more", "method"),
    [
        ({"groups": ["race", "sex"], "depth": 2}, "el"),
        ({"groups": ["race", "sex"], "depth": 2}, "eel"),
        ({"groups": ["race", "sex"], "published": True}, "el"),
        ({"null": [0.05, -0.05, 0.0]}, "el"),
        ({"reference": {"sex": "u"}}, "eel"),
        ({"reference": "estimate"}, "el"),
        ({"reference": 1.05}, "el"),
    ],
    ids=str,
)
def test_the_joint_test_has_no_unit_and_no_origin(more: dict[str, Any], method: Method) -> None:
    def asked(shift: float, scale: float) -> iso.CertifyResult:
        data, estimate = moved(shift, scale)
        options: dict[str, Any] = {**LOSS, **more}
        published = options.pop("published", False)
        options["method"] = iso.likelihood(method, correction=None, published=published)
        if "null" in more:
            options["null"] = [scale * e for e in more["null"]]
        if more.get("reference") == "estimate":
            options["reference"] = estimate
        elif more.get("reference") == 1.05:
            options["reference"] = shift + scale * 1.05
        return iso.certify(data, **options)

    first = asked(0.0, 1.0)
    for shift, scale in UNITS:
        again = asked(shift, scale)
        # Values at 1e6 are rounded to 1e-10 of their unit.
        assert again.statistic == pytest.approx(first.statistic, rel=1e-6)
        assert again.df == first.df
        assert again.joint_status is Status.OK
        assert again.disparity == pytest.approx(scale * first.disparity, rel=1e-6, abs=1e-9 * scale)
        assert again.contains(again.disparity[~np.isnan(again.null_disparity)])
