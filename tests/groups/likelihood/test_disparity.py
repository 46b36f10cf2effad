"""Hypotheses about a disparity: p-values that meet at the ends of their intervals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isonomy as iso
from isonomy.groups import Estimate
from isonomy.groups.likelihood.means import Binary
from isonomy.groups.likelihood.profile import Kind, ProfileLikelihood
from isonomy.groups.options import LikelihoodKind as Method
from isonomy.inference.decide import Alternative
from isonomy.inference.effect import Hypothesis, Interval

ONE = ProfileLikelihood(Kind.FIXED, Binary([200], [60]), np.array([0]), theta=np.array([0.25]))  # disparity 0.05
REFERENCES = ["population", "rest", {"race": "a"}, 0.45, {"sex": "f"}]


def test_one_sided_nulls_have_half_the_tail_on_one_side_and_one_on_the_other() -> None:
    two = ONE.test(Hypothesis(0.0, 0.0, "two-sided"))[1]
    assert ONE.test(Hypothesis(0.0, 0.0, "greater"))[1] == pytest.approx(two / 2)
    assert ONE.test(Hypothesis(0.0, 0.0, "less"))[1] == 1.0
    assert ONE.test(Hypothesis(0.0, 0.0, "less"))[0] == 0.0


def test_an_interval_null_meets_the_two_sided_one_as_its_ends_meet() -> None:
    two = ONE.test(Hypothesis(0.0, 0.0, "two-sided"))[1]
    assert ONE.test(Hypothesis(0.0, 0.0, "outside"))[1] == pytest.approx(two)
    assert ONE.test(Hypothesis(0.0, 0.0, "outside-published"))[1] == pytest.approx(two / 2)
    assert ONE.test(Hypothesis(0.0, 0.1, "outside"))[1] == 1.0
    far = ONE.test(Hypothesis(-0.2, 0.0, "outside"))[1]
    assert far == pytest.approx(two / 2, rel=1e-6)


@pytest.mark.parametrize(
    ("reference", "method"), [*((r, "el") for r in REFERENCES), *((r, "eel") for r in REFERENCES[:2])], ids=str
)
def test_testing_at_an_interval_end_gives_alpha(lender: dict[str, Any], reference: Any, method: Method) -> None:
    def ask(**more: Any) -> iso.FlagResult:
        return iso.flag(
            lender,
            metric="selection_rate",
            groups=["race", "sex"],
            depth=2,
            prediction="selected",
            reference=reference,
            adjust="none",
            **{"method": method, **more},
        )

    first = ask(alpha=0.1)
    for j in np.flatnonzero(~np.isnan(first.pvalue))[[0, -1]]:
        for end in (first.ci_low[j], first.ci_high[j]):
            assert ask(null=float(end)).pvalue[j] == pytest.approx(0.1, abs=1e-6)
    bounds: tuple[tuple[Alternative, str], ...] = (("greater", "ci_low"), ("less", "ci_high"))
    for side, end_name in bounds if method == "el" else ():
        bound = ask(null=iso.null(side=side), method=iso.likelihood(method, interval="one-sided"), alpha=0.03)
        end = float(getattr(bound, end_name)[1])
        assert ask(null=iso.null(end, side=side)).pvalue[1] == pytest.approx(0.03, abs=1e-6)


@pytest.mark.parametrize("reference", ["population", "rest", {"race": "a"}, 1.2], ids=str)
def test_testing_at_an_interval_end_gives_alpha_for_a_real_metric(lender: dict[str, Any], reference: Any) -> None:
    metric = iso.Metric("loss", value=iso.col("loss"))
    first = iso.flag(lender, metric=metric, groups="race", reference=reference)
    for j in np.flatnonzero(~np.isnan(first.pvalue)):
        for end in (first.ci_low[j], first.ci_high[j]):
            again = iso.flag(lender, metric=metric, groups="race", reference=reference, null=float(end))
            assert again.pvalue[j] == pytest.approx(0.05, abs=1e-6)


def test_testing_at_an_interval_end_gives_alpha_for_an_estimate(lender: dict[str, Any]) -> None:
    rate = float(lender["selected"].mean())
    data = lender | {"psi": lender["selected"] - rate}
    options: dict[str, Any] = {"metric": "selection_rate", "groups": "race", "prediction": "selected"}
    options["reference"] = Estimate(rate, "psi")
    sides: list[tuple[Alternative, Interval]] = [
        ("two-sided", "pointwise"),
        ("greater", "one-sided"),
        ("less", "one-sided"),
    ]
    for side, interval in sides:
        first = iso.flag(data, null=iso.null(side=side), method=iso.likelihood(interval=interval), **options)
        for end in (first.ci_low[0], first.ci_high[0]):
            if np.isfinite(end):
                again = iso.flag(data, null=iso.null(float(end), side=side), **options)
                assert again.pvalue[0] == pytest.approx(0.05, abs=1e-6)


def test_simultaneous_intervals_use_sidaks_level(lender: dict[str, Any]) -> None:
    kwargs: dict[str, Any] = {"metric": "selection_rate", "groups": ["race", "sex"], "prediction": "selected"}
    together = iso.flag(lender, method=iso.likelihood(interval="simultaneous"), alpha=0.05, **kwargs)
    alone = iso.flag(lender, alpha=1 - 0.95 ** (1 / 5), **kwargs)
    assert together.ci_low == pytest.approx(alone.ci_low)
    assert together.ci_high == pytest.approx(alone.ci_high)
