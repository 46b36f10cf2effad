"""Small samples: Bartlett's factor in closed form and by resampling, adjusted likelihood."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.optimize import brentq

import isonomy as iso
from isonomy.groups import Estimate
from isonomy.groups.likelihood.means import Real
from isonomy.groups.likelihood.region import Region, joint_factor, least_shift, meeting_null
from isonomy.numerics.ragged import Ragged
from isonomy.results import Status
from support.groups import handful
from support.tables import selected

ADJUSTED, QUICK = iso.likelihood(correction="adjusted"), iso.likelihood("el", "bartlett", 100)
LOSS: dict[str, Any] = {"metric": iso.Metric("loss", value=iso.col("loss")), "groups": "race"}
RATE: dict[str, Any] = {"metric": "selection_rate", "groups": "race", "prediction": "selected"}
CORRECTED: list[tuple[str, dict[str, Any]]] = [
    ("flag", {"reference": "population"}),
    ("flag", {"reference": "rest"}),
    ("flag", {"reference": {"race": "a"}}),
    ("certify", {}),
    ("certify", {"reference": {"race": "b"}, "null": 0.1}),
    ("certify", {"groups": ["race", "sex"]}),
    ("certify", {"reference": Estimate(1.0, "psi")}),
]


def test_corrections(lender: dict[str, Any]) -> None:
    plain = iso.flag(lender, **LOSS, reference=1.0, method=iso.likelihood(correction=None))
    bartlett = iso.flag(lender, **LOSS, reference=1.0, method=iso.likelihood(correction="bartlett"))
    adjusted = iso.flag(lender, **LOSS, reference=1.0, method=iso.likelihood(correction="adjusted"))
    for j, g in enumerate("abc"):
        x = lender["loss"][lender["race"] == g]
        m2, m3, m4 = (np.mean((x - x.mean()) ** k) for k in (2, 3, 4))
        a = m4 / (2 * m2**2) - m3**2 / (3 * m2**3)
        assert bartlett.statistic[j] == pytest.approx(plain.statistic[j] / (1 + a / x.size), rel=1e-9)
    assert (bartlett.ci_high > plain.ci_high).all()
    assert (adjusted.statistic < plain.statistic).all()
    joint = iso.flag(lender, **LOSS, method=iso.likelihood("el", "bartlett", 200), rng=1)
    again = iso.flag(lender, **LOSS, method=iso.likelihood("el", "bartlett", 200), rng=1)
    assert joint.statistic.tolist() == again.statistic.tolist()
    assert joint.provenance.seed is not None
    assert joint.provenance.seed.entropy == 1


def test_an_adjusted_interval_may_have_no_end() -> None:
    result = iso.flag(
        selected(a=[0, 1, 1], b=[0, 1] * 30), **RATE, reference=0.5, method=ADJUSTED, min_size=1, alpha=0.01
    )
    assert result.status[0] is Status.UNBOUNDED
    assert result.ci_high[0] == np.inf


def test_bartlett_in_closed_form_for_a_known_reference(lender: dict[str, Any]) -> None:
    plain = iso.certify(lender, reference=1.0, **LOSS)
    corrected = iso.certify(lender, reference=1.0, method=iso.likelihood(correction="bartlett"), **LOSS)
    parts = []
    for g in "abc":
        x = lender["loss"][lender["race"] == g]
        m2, m3, m4 = (np.mean((x - x.mean()) ** k) for k in (2, 3, 4))
        parts.append((m4 / (2 * m2**2) - m3**2 / (3 * m2**3)) / x.size)
    assert plain.statistic / corrected.statistic == pytest.approx(1 + np.mean(parts), rel=1e-9)


def exponential(rng: np.random.Generator, n: int, groups: str = "abc") -> dict[str, Any]:
    return {"race": np.repeat(list(groups), n), "loss": rng.exponential(size=n * len(groups))}


@pytest.mark.parametrize("reference", ["population", pytest.param("rest", marks=pytest.mark.validity)])
def test_bartletts_factor_is_the_mean_of_the_statistic_under_the_null(reference: Any) -> None:
    """Three groups of 20 exponential rows: T / df has mean 1.28, simulated here; each sample's factor estimates it."""
    rng = np.random.default_rng(4)
    size, draws = 20, 1_000
    rows = Ragged.from_codes(np.repeat(np.arange(3 * draws), size), 3 * draws, rng.exponential(size=3 * draws * size))
    place = np.arange(3 * draws).reshape(draws, 3)
    mean = np.mean(least_shift(Real(rows), place, np.ones(place.shape, dtype=bool), np.zeros(3))[0]) / 2
    factors = []
    for _ in range(12):
        data = exponential(rng, size)
        plain = iso.certify(data, reference=reference, method=iso.likelihood(correction=None), **LOSS)
        corrected = iso.certify(data, reference=reference, method=QUICK, rng=rng, **LOSS)
        assert corrected.df == plain.df == 2
        factors.append(plain.statistic / corrected.statistic)
    # Three standard errors of the mean factor.
    assert np.mean(factors) == pytest.approx(mean, abs=3 * np.std(factors) / np.sqrt(12))
    assert mean > 1.2


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"null": [0.1, -0.1, 0.1]},
        {"groups": ["race", "sex"]},
        {"reference": {"race": "a"}, "null": [0.1, 0.0]},
        {"reference": {"sex": "f"}},
        {"reference": "estimate"},
    ],
    ids=str,
)
def test_resamples_come_from_rows_that_meet_the_null(lender: dict[str, Any], more: dict[str, Any]) -> None:
    data = lender
    for kwargs in (LOSS, RATE):
        options = {**kwargs, **more}
        if more.get("reference") == "estimate":
            value = "loss" if kwargs is LOSS else "selected"
            data = lender | {"psi": lender[value] - lender[value].mean()}
            options["reference"] = Estimate(float(lender[value].mean()), "psi")
        result = iso.certify(data, **options)
        assert isinstance(result.region, Region)
        target = result.null_disparity[~np.isnan(result.null_disparity)]
        solution = result.region.test(target)
        assert solution.statistic > 0.1
        assert solution.scale is not None
        assert solution.move is not None
        again = meeting_null(result.region, solution.scale, solution.move).test(target)
        assert again.statistic == pytest.approx(0, abs=1e-6)
        assert again.df == solution.df


def test_resamples_are_solved_together_as_they_are_alone(lender: dict[str, Any]) -> None:
    for kwargs in (LOSS, RATE):
        region = iso.certify(lender, **kwargs).region
        assert isinstance(region, Region)
        result = region.test(0.0)
        arguments = (region, result, np.zeros(3), 20)
        together = joint_factor(*arguments, np.random.default_rng(1))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Region, "quick", lambda self, target: False)
            alone = joint_factor(*arguments, np.random.default_rng(1))
        assert together == pytest.approx(alone, rel=1e-7)


def test_the_region_is_corrected_as_the_p_value_is() -> None:
    data = exponential(np.random.default_rng(2), 20)

    def excess(theta: float) -> float:
        return iso.certify(data, reference=theta, **LOSS).pvalue - 0.048

    # A reference that is just rejected without the correction, and not with it.
    theta = brentq(excess, data["loss"].mean(), 2 * data["loss"].mean())
    plain = iso.certify(data, reference=theta, **LOSS)
    corrected = iso.certify(data, reference=theta, method=iso.likelihood(correction="bartlett"), **LOSS)
    assert plain.pvalue < 0.05 < corrected.pvalue
    assert corrected.contains(0.0)
    again = iso.from_json(corrected.to_json(rows=True))
    assert again.contains(0.0)
    assert not plain.contains(0.0)


def test_a_free_mean_is_resampled_as_it_is_tested() -> None:
    for more in ({}, {"null": [0.1, -0.1]}):
        options: dict[str, Any] = {**LOSS, **more}
        plain = iso.certify(handful(5), **options)
        corrected = iso.certify(handful(5), method=iso.likelihood("el", "bartlett", 100), rng=1, **options)
        assert corrected.df == plain.df == 1
        assert not any("could not be made" in w for w in corrected.warnings)
        # Mean 1, standard deviation sqrt(2): three standard errors of 100 resamples.
        assert plain.statistic / corrected.statistic == pytest.approx(1, abs=3 * np.sqrt(2 / 100))


@pytest.mark.parametrize(("name", "more"), CORRECTED, ids=str)
def test_draws_do_not_depend_on_how_the_rows_came(lender: dict[str, Any], name: str, more: dict[str, Any]) -> None:
    ask = getattr(iso, name)
    table = pl.DataFrame(lender).select("race", "sex", pl.col("loss").round(1))[:150]
    table = table.with_columns(psi=pl.col("loss") - pl.col("loss").mean())
    options: dict[str, Any] = {**LOSS, "method": iso.likelihood("el", "bartlett", 100), "rng": 1, **more}
    first = ask(table, **options).statistic
    counted = table.group_by("race", "sex", "loss", "psi").agg(n=pl.len())
    assert counted.height < table.height
    shuffled = table.sample(fraction=1, shuffle=True, seed=5)
    for again in (
        ask(counted, count="n", **options),
        ask(shuffled.to_pandas(), **options),
    ):
        assert again.statistic == pytest.approx(first, rel=1e-9, nan_ok=True)
