from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.optimize import brentq, minimize

import isonomy as iso
from isonomy.errors import NotEnoughData, UsageError
from isonomy.frames import open_source
from isonomy.likelihood import Estimate
from isonomy.likelihood.means import Binary, Means, Real
from isonomy.likelihood.region import Region
from isonomy.likelihood.resample import met, null_mean
from isonomy.likelihood.rests import Rests
from isonomy.likelihood.shifted import Shifted
from isonomy.likelihood.tally import Evidence, plan, tally
from isonomy.likelihood.units import Units
from isonomy.numerics.ragged import Ragged
from isonomy.results import Status, Verdict

RATE: dict[str, Any] = {"metric": "selection_rate", "groups": "race", "prediction": "selected"}
LOSS: dict[str, Any] = {"metric": iso.Metric("loss", value=iso.col("loss")), "groups": "race"}


@pytest.mark.parametrize("kwargs", [RATE, LOSS], ids=["binary", "real"])
@pytest.mark.parametrize("method", ["el", "eel"])
def test_a_partition_has_one_statistic_whatever_the_reference(
    lender: dict[str, Any], kwargs: dict[str, Any], method: str
) -> None:
    found = [
        iso.certify(lender, reference=r, method=method, **kwargs)
        for r in ("population", "rest", {"race": "a"}, {"race": "c"})
    ]
    assert {r.df for r in found} == {2}
    assert [r.statistic for r in found] == pytest.approx([found[0].statistic] * 4, rel=1e-7)


def test_race_sex_and_their_cells_have_rank_three_for_two_races(lender: dict[str, Any]) -> None:
    two = {name: values[lender["race"] != "c"] for name, values in lender.items()}
    result = iso.certify(two, **{**RATE, "groups": ["race", "sex"]}, depth=2)
    assert result.df == 3
    cells = two | {"cell": np.char.add(two["race"].astype(str), two["sex"].astype(str))}
    alone = iso.certify(cells, **{**RATE, "groups": "cell"})
    assert result.statistic == pytest.approx(alone.statistic, rel=1e-8)


def test_known_reference_adds_up_disjoint_groups(lender: dict[str, Any]) -> None:
    joint = iso.certify(lender, reference=0.42, **RATE)
    alone = iso.flag(lender, reference=0.42, **RATE)
    assert joint.statistic == pytest.approx(alone.statistic.sum())
    assert joint.df == 3


def test_euclidean_statistic_of_disjoint_groups_is_centred_over_all_rows(lender: dict[str, Any]) -> None:
    result = iso.certify(lender, reference=1.0, method="eel", **LOSS)
    tu = 0.0
    for g in "abc":
        z = lender["loss"][lender["race"] == g] - 1.0
        tu += z.sum() ** 2 / (z**2).sum()
    assert result.statistic == pytest.approx(tu / (1 - tu / 600), rel=1e-10)


@pytest.mark.parametrize("reference", ["population", "rest", {"race": "a"}, 0.42], ids=str)
@pytest.mark.parametrize("method", ["el", "eel"])
def test_the_region_holds_the_estimates_and_not_far_disparities(
    lender: dict[str, Any], reference: Any, method: str
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


def test_verdicts() -> None:
    data = {"race": ["a"] * 4000 + ["b"] * 4000, "selected": [0, 1] * 4000}
    assert iso.certify(data, **RATE).verdict is Verdict.INCONCLUSIVE
    assert iso.certify(data, tolerance=0.05, **RATE).verdict is Verdict.WITHIN_TOLERANCE
    assert iso.certify(data, tolerance=0.005, **RATE).verdict is Verdict.INCONCLUSIVE
    data["selected"] = [1] * 3000 + [0] * 5000
    assert iso.certify(data, tolerance=0.05, **RATE).verdict is Verdict.VIOLATION
    assert iso.certify(data, **RATE).verdict is Verdict.VIOLATION


def test_constraints_that_single_out_too_few_rows_are_left_out() -> None:
    """All but one row of race=b are men: race=b and its men together would pin that single row."""
    race = ["a"] * 100 + ["b"] * 31
    sex = ["f", "m"] * 50 + ["f"] + ["m"] * 30
    selected = [0, 0, 1, 1] * 25 + [1] + [0, 1] * 15
    data = {"race": race, "sex": sex, "selected": selected}
    result = iso.certify(data, **{**RATE, "groups": ["race", "sex"]}, depth=2)
    assert result.joint_status is Status.OK
    assert result.df == 2
    assert any(
        "left out of the joint test: race=a & sex=f, race=a & sex=m and race=b & sex=m." in w for w in result.warnings
    ), result.warnings
    strict = iso.certify(data, **{**RATE, "groups": ["race", "sex"]}, depth=2, min_size=1)
    assert strict.df == 3


def test_bartlett_in_closed_form_for_a_known_reference(lender: dict[str, Any]) -> None:
    plain = iso.certify(lender, reference=1.0, **LOSS)
    corrected = iso.certify(lender, reference=1.0, correction="bartlett", **LOSS)
    parts = []
    for g in "abc":
        x = lender["loss"][lender["race"] == g]
        m2, m3, m4 = (np.mean((x - x.mean()) ** k) for k in (2, 3, 4))
        parts.append((m4 / (2 * m2**2) - m3**2 / (3 * m2**3)) / x.size)
    assert plain.statistic / corrected.statistic == pytest.approx(1 + np.mean(parts), rel=1e-9)


def exponential(rng: np.random.Generator, n: int, groups: str = "abc") -> dict[str, Any]:
    return {"race": np.repeat(list(groups), n), "loss": rng.exponential(size=n * len(groups))}


@pytest.mark.parametrize("reference", ["population", "rest"])
def test_bartletts_factor_is_the_mean_of_the_statistic_under_the_null(reference: Any) -> None:
    """Three groups of 20 exponential rows: T / df has mean 1.28, simulated here; each sample's factor estimates it."""
    rng = np.random.default_rng(4)
    size, draws = 20, 1_000
    rows = Ragged.from_codes(np.repeat(np.arange(3 * draws), size), 3 * draws, rng.exponential(size=3 * draws * size))
    place = np.arange(3 * draws).reshape(draws, 3)
    mean = np.mean(Shifted(Real(rows), place, np.ones(place.shape, dtype=bool), np.zeros(3)).solve()[0]) / 2
    factors = []
    for _ in range(12):
        data = exponential(rng, size)
        plain = iso.certify(data, reference=reference, **LOSS)
        corrected = iso.certify(data, reference=reference, correction="bartlett", resamples=100, rng=rng, **LOSS)
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
        {"reference": "rest", "null": [0.1, -0.1, 0.05]},
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
        assert result.region is not None
        target = result.null_disparity[~np.isnan(result.null_disparity)]
        found = result.region.test(target)
        assert found.statistic > 0.1
        assert found.scale is not None
        assert found.move is not None
        again = met(result.region, found.scale, found.move).test(target)
        assert again.statistic == pytest.approx(0, abs=1e-6)
        assert again.df == found.df


def test_resamples_are_solved_together_as_they_are_alone(lender: dict[str, Any]) -> None:
    for kwargs in (LOSS, RATE):
        region = iso.certify(lender, **kwargs).region
        assert region is not None
        found = region.test(0.0)
        arguments = (region, found, np.zeros(3), 20)
        together = null_mean(*arguments, np.random.default_rng(1))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Region, "quick", lambda self, target: False)
            alone = null_mean(*arguments, np.random.default_rng(1))
        assert together == pytest.approx(alone, rel=1e-7)


def test_the_region_is_corrected_as_the_p_value_is() -> None:
    data = exponential(np.random.default_rng(2), 20)

    def excess(theta: float) -> float:
        return iso.certify(data, reference=theta, **LOSS).pvalue - 0.048

    # A reference that is just rejected without the correction, and not with it.
    theta = brentq(excess, data["loss"].mean(), 2 * data["loss"].mean())
    plain = iso.certify(data, reference=theta, **LOSS)
    corrected = iso.certify(data, reference=theta, correction="bartlett", **LOSS)
    assert plain.pvalue < 0.05 < corrected.pvalue
    assert corrected.contains(0.0)
    again = iso.from_json(corrected.to_json())
    assert again.contains(0.0)
    assert not plain.contains(0.0)


def test_a_factor_that_cannot_be_had_is_warned_about() -> None:
    """In most resamples of two rows a group, one group is constant."""
    data = {"race": ["a", "a", "b", "b"], "loss": [0.0, 1.0, 0.5, 1.5]}
    result = iso.certify(data, min_size=1, correction="bartlett", resamples=100, rng=1, **LOSS)
    assert result.statistic == iso.certify(data, min_size=1, **LOSS).statistic
    assert any("correction could not be made" in w for w in result.warnings)
    flagged = iso.flag(data, min_size=1, correction="bartlett", resamples=100, rng=1, **LOSS)
    assert any("correction could not be made for race=a" in w for w in flagged.warnings)


def two(a: tuple[int, int], b: tuple[int, int], **more: tuple[int, int]) -> dict[str, Any]:
    """Groups by their numbers of rows and of ones."""
    sizes = {"a": a, "b": b, **more}
    return {
        "race": np.repeat(list(sizes), [n for n, _ in sizes.values()]),
        "selected": np.concatenate([np.repeat([1, 0], [k, n - k]) for n, k in sizes.values()]),
    }


@pytest.mark.parametrize("method", ["el", "eel"])
def test_two_groups_against_their_rests_are_one_against_the_other(method: str) -> None:
    data = two((200, 103), (200, 110))
    for e in (0.1, -0.035, 0.02, -0.1, -0.02):
        rest = iso.certify(data, reference="rest", null=[e, -e], method=method, **RATE)
        level = iso.certify(data, reference={"race": "b"}, null=e, method=method, **RATE)
        assert (rest.df, level.df) == (1, 1)
        assert rest.statistic == pytest.approx(level.statistic, rel=1e-7, abs=1e-9)
        assert rest.contains([e, -e]) == level.contains(e)
    assert rest.contains([0.02, -0.02])


@pytest.mark.parametrize("method", ["el", "eel"])
@pytest.mark.parametrize("kwargs", [RATE, LOSS], ids=["binary", "real"])
@pytest.mark.parametrize("leave", [False, True], ids=["all groups", "some rows in no group"])
def test_several_groups_against_their_rests(
    lender: dict[str, Any], kwargs: dict[str, Any], leave: bool, method: str
) -> None:
    """The minimum over shares and means, against a direct search among weightings that meet the disparities."""
    groups: Any = "race" if not leave else [iso.where(g, iso.col("race") == g) for g in "ab"]
    result = iso.certify(lender, reference="rest", method=method, **{**kwargs, "groups": groups})
    assert result.region is not None
    estimate = result.disparity
    assert result.contains(estimate)
    for away in ([0.01, 0.0, 0.0], [0.02, -0.03, 0.01], [-0.03, 0.01, 0.04]):
        target = estimate + np.array(away)[: estimate.size]
        found = result.region.test(target)
        assert found.status is Status.OK
        assert found.df == estimate.size
        codes = np.searchsorted(["a", "b", "c"], lender["race"])
        values = lender["selected" if kwargs is RATE else "loss"].astype(float)
        assert found.statistic == pytest.approx(by_search(codes, values, target, method), rel=1e-5, abs=1e-6)


def by_search(codes: np.ndarray, values: np.ndarray, target: np.ndarray, method: str) -> float:
    """The smallest likelihood ratio over shares and means that meet the disparities, by the simplex method."""
    n = np.bincount(codes).astype(float)
    own: Means = Real(Ragged.from_codes(codes, 3, values))
    if set(np.unique(values)) == {0.0, 1.0}:
        own = Binary(n, np.bincount(codes, weights=values))
    p = n / n.sum()

    def total(x: np.ndarray) -> float:
        mean, first = x[0], x[1]
        if target.size == 2:  # the third block's mean follows
            shares = np.array([first, x[2], 1 - first - x[2]])
            means = mean + target * (1 - shares[:2])
            means = np.append(means, (mean - shares[:2] @ means) / shares[2])
        else:  # the second share follows from a quadratic equation
            e1, e2, e3 = target
            c = 1 - first
            found = np.roots([-e2 - e3, e2 + e3 * (2 * c - 1), e1 * first * c + e3 * c * (1 - c)])
            second = found[np.argmin(np.abs(found - p[1]))]
            if abs(second.imag) > 0:
                return 1e9
            shares = np.array([first, second.real, c - second.real])
            means = mean + target * (1 - shares)
        if shares.min() <= 0:
            return 1e9
        if method == "eel":
            mine = n.sum() * shares
            return float(np.sum((mine - n) ** 2 / n + mine**2 * (means - own.mean) ** 2 / (n * own.variance)))
        return float(np.sum(own.statistic(means, np.arange(3)) + 2 * n * np.log(p / shares)))

    start = np.concatenate([[p @ own.mean], p[: 4 - target.size]])
    near = start + np.vstack([np.zeros(start.size), 0.02 * np.eye(start.size)])
    options = {"initial_simplex": near, "xatol": 1e-9, "fatol": 1e-9, "maxiter": 2_000}
    return float(minimize(total, start, method="Nelder-Mead", options=options).fun)


def test_disparities_from_the_rest_have_a_chi_square_statistic() -> None:
    """At true disparities that are not 0 the shares are tested too: three groups, three degrees of freedom."""
    rng = np.random.default_rng(8)
    shares, rates = np.array([0.5, 0.3, 0.2]), np.array([0.5, 0.6, 0.35])
    truth = (rates - shares @ rates) / (1 - shares)
    statistics = []
    for _ in range(80):
        n = rng.multinomial(900, shares)
        statistics.append(Rests(Binary(n, rng.binomial(n, rates)), truth, False).solve().statistic)
    # A chi-square with 3 df has variance 6; three standard errors.
    assert np.mean(statistics) == pytest.approx(3, abs=3 * np.sqrt(6 / 80))
    assert np.mean(np.array(statistics) > 7.815) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 80)


@pytest.mark.parametrize("method", ["el", "eel"])
@pytest.mark.parametrize(
    ("reference", "null"),
    [("rest", [0.1, 0.1]), ("rest", 0.1), ("population", [0.1, 0.0]), ("rest", [0.1, -0.05])],
    ids=str,
)
def test_a_null_that_contradicts_itself_is_called_so(reference: str, null: Any, method: str) -> None:
    result = iso.certify(two((200, 110), (200, 110)), reference=reference, null=null, method=method, **RATE)
    assert result.joint_status is Status.INFEASIBLE
    assert np.isinf(result.statistic)
    assert any("contradicts itself" in w for w in result.warnings)
    three = iso.certify(two((200, 110), (200, 110), c=(100, 50)), reference="rest", method=method, **RATE)
    assert not three.contains([0.1, 0.1, -0.05])
    assert three.region is not None
    assert three.region.test([0.1, 0.1, -0.05]).status is Status.INFEASIBLE
    assert three.region.test([0.1, 0.1, -0.15]).status is not Status.INFEASIBLE


def test_a_null_that_the_estimated_reference_cannot_meet_may_be_met_by_another() -> None:
    """Rates near 1: 0.9 + 0.12 is no rate, 0.85 + 0.12 is."""
    data = two((60, 57), (60, 50), c=(60, 54))
    result = iso.certify(data, null=[0.12, -0.12, 0.0], **RATE)
    assert result.joint_status is Status.OK
    n, k, e = np.array([60.0] * 3), np.array([57.0, 50.0, 54.0]), np.array([0.12, -0.12, 0.0])
    at = np.arange(3)
    # The shares must balance, and with these disparities already do: only the common shift is left.
    best = min(float(Binary(n, k).statistic(t + e, at).sum()) for t in np.linspace(0.84, 0.87, 3_001))
    assert result.statistic == pytest.approx(best, rel=1e-6)


def test_bad_input(lender: dict[str, Any]) -> None:
    with pytest.raises(NotEnoughData, match="min_size"):
        iso.certify(lender, min_size=1000, **RATE)
    with pytest.raises(UsageError, match="bartlett"):
        iso.certify(lender, correction="adjusted", **RATE)
    result = iso.certify(lender, **RATE)
    with pytest.raises(UsageError, match="one for each of 3"):
        result.contains([0.0, 0.1])
    with pytest.raises(UsageError, match="unknown groups"):
        result.contains({"race=z": 0.0})
    with pytest.raises(UsageError, match="null: 'much'"):
        iso.certify(lender, null="much", **RATE)  # type: ignore[arg-type]
    for null in (0.3, [0.1, 0.0, -0.1], {"race=a": 0.1}):
        with pytest.raises(UsageError, match="the tolerance sets the null"):
            iso.certify(lender, null=null, tolerance=0.02, **RATE)
    with pytest.raises(UsageError, match="Euclidean"):
        iso.certify(lender, method="eel", correction="bartlett", **RATE)
    with pytest.raises(UsageError, match="resamples: 0"):
        iso.certify(lender, correction="bartlett", resamples=0, **RATE)
    for ask in (iso.certify, iso.flag):
        with pytest.raises(UsageError, match="resamples: 1 are too few for the mean of T; give at least 100"):
            ask(lender, correction="bartlett", resamples=1, **RATE)


def test_the_chart_shows_the_null(lender: dict[str, Any]) -> None:
    def drawn(result: iso.CertifyResult, mark: str) -> list[float]:
        chart = result.plot().to_dict()
        layers = [
            one for one in chart["layer"] if one["mark"].get("type") == mark and one["encoding"]["x"]["field"] == "null"
        ]
        found = [chart["datasets"][(one.get("data") or chart["data"])["name"]] for one in layers]
        return [line["null"] for lines in found for line in lines]

    assert drawn(iso.certify(lender, null=0.1, reference=0.4, **RATE), "rule") == [0.1]
    assert drawn(iso.certify(lender, tolerance=0.1, **RATE), "rule") == [0.0]
    several = iso.certify(lender, null=[0.1, -0.1, 0.0], reference=0.4, **RATE)
    assert sorted(drawn(several, "tick")) == [-0.1, 0.0, 0.1]
    assert drawn(several, "rule") == []
    again = iso.from_json(several.to_json())
    assert again.null_disparity.tolist() == [0.1, -0.1, 0.0]


def test_overlapping_groups_against_their_rests_are_tested_at_zero_only(lender: dict[str, Any]) -> None:
    kwargs = {**RATE, "groups": ["race", "sex"], "depth": 2}
    rest, population = (iso.certify(lender, reference=r, **kwargs) for r in ("rest", "population"))
    assert rest.statistic == pytest.approx(population.statistic)
    with pytest.raises(UsageError, match="population"):
        rest.contains(0.01)


def test_no_weighting_meets_the_null(lender: dict[str, Any]) -> None:
    result = iso.certify(lender, reference=100.0, **LOSS)
    assert result.joint_status is Status.OUTSIDE_RANGE
    assert result.pvalue == 0.0
    assert result.verdict is Verdict.VIOLATION


def test_round_trip_keeps_the_region_when_it_is_small(lender: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    result = iso.certify(lender, **RATE)
    again = iso.from_json(result.to_json())
    assert again.contains(0.01) == result.contains(0.01)
    assert again.to_frame().equals(result.to_frame())
    assert result.plot().to_dict()["layer"]
    monkeypatch.setattr("isonomy.likelihood.result.STORED_LINES", 3)
    with pytest.raises(UsageError, match="too many"):
        iso.from_json(result.to_json()).contains(0.0)


def test_equal_to_the_population_includes_those_in_no_tested_group() -> None:
    """Two of three groups equal to the population's rate: then the third is too, and it is part of the test."""
    data = {"g": np.repeat(["a", "b", "c"], [600, 600, 300]), "c": np.tile([1, 0, 0], 500)}
    data["c"][-300:] = np.tile([1, 1, 1, 0], 75)
    options: dict[str, Any] = {"metric": "selection_rate", "groups": "g", "prediction": "c"}
    every, two = (iso.certify(data, min_size=n, **options) for n in (10, 500))
    assert two.statistic == pytest.approx(every.statistic, rel=1e-9)
    assert two.df == every.df == 2


def test_a_tolerance_decides_and_not_the_joint_p_value(lender: dict[str, Any]) -> None:
    said = iso.certify(lender, **RATE, tolerance=0.2).summary()
    assert "rests on the tolerance" in said


def handful(rows: int, seed: int = 7, shift: float = 1.0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    loss = rng.normal(size=500 + rows)
    loss[500:] += shift
    return {"race": np.repeat(["a", "b", "c"], [300, 200, rows]), "loss": loss}


@pytest.mark.parametrize("method", ["el", "eel"])
@pytest.mark.parametrize("reference", ["population", "rest"])
@pytest.mark.parametrize("rows", [1, 4, 9])
def test_a_handful_of_rows_in_no_tested_group_is_left_out(rows: int, reference: str, method: str) -> None:
    data = handful(rows)
    result = iso.certify(data, reference=reference, method=method, **LOSS)
    only = {name: values[:500] for name, values in data.items()}
    expected = iso.certify(only, reference=reference, method=method, **LOSS)
    assert result.df == expected.df == 1
    # Rows with no function count in the Euclidean n, as they do elsewhere.
    assert result.statistic == pytest.approx(expected.statistic, rel=1e-9 if method == "el" else 1e-2)
    assert any("no tested group (race=c) were left out" in w and "fewer than 10" in w for w in result.warnings)
    assert not any("left out" in w for w in expected.warnings)
    assert result.n.tolist() == [300, 200, rows]
    # Their mean is free: the estimates, which count them, are met exactly, and so is any common move of both groups.
    assert result.region is not None
    tested = result.disparity[:2]
    assert result.region.test(tested).statistic == pytest.approx(0, abs=1e-12)
    assert result.region.test(tested).df == 1
    away = result.region.test(tested + np.array([0.3, 0.0]))
    assert away.statistic > 1
    if reference == "population":
        assert result.region.test(tested + np.array([0.4, 0.1])).statistic == pytest.approx(away.statistic, rel=1e-7)


@pytest.mark.parametrize("method", ["el", "eel"])
def test_more_than_a_handful_of_rows_in_no_tested_group_is_tested(method: str) -> None:
    for rows, min_size in ((10, 100), (30, 100), (7, 5), (4, 3)):
        result = iso.certify(handful(rows), method=method, min_size=min_size, **LOSS)
        assert result.df == 2
        assert not any("left out" in w for w in result.warnings)


def test_one_group_and_a_handful_leave_nothing_to_test() -> None:
    groups = iso.where("most", iso.col("race") != "c")
    result = iso.certify(handful(7), metric=LOSS["metric"], groups=groups)
    assert (result.df, result.statistic, result.pvalue) == (0, 0.0, 1.0)
    assert any("one group alone leaves no test" in w for w in result.warnings)


def test_a_free_mean_is_resampled_as_it_is_tested() -> None:
    for more in ({}, {"null": [0.1, -0.1]}, {"reference": "rest", "null": [0.1, -0.1]}):
        options: dict[str, Any] = {**LOSS, **more}
        plain = iso.certify(handful(5), **options)
        corrected = iso.certify(handful(5), correction="bartlett", resamples=100, rng=1, **options)
        assert corrected.df == plain.df == 1
        assert not any("could not be made" in w for w in corrected.warnings)
        # Mean 1, standard deviation sqrt(2): three standard errors of 100 resamples.
        assert plain.statistic / corrected.statistic == pytest.approx(1, abs=3 * np.sqrt(2 / 100))


CORRECTED: list[tuple[str, dict[str, Any]]] = [
    ("flag", {"reference": "population"}),
    ("flag", {"reference": "rest"}),
    ("flag", {"reference": {"race": "a"}}),
    ("certify", {}),
    ("certify", {"reference": {"race": "b"}, "null": 0.1}),
    ("certify", {"groups": ["race", "sex"]}),
    ("certify", {"reference": Estimate(1.0, "psi")}),
]


@pytest.mark.parametrize(("name", "more"), CORRECTED, ids=str)
def test_draws_do_not_depend_on_how_the_rows_came(lender: dict[str, Any], name: str, more: dict[str, Any]) -> None:
    ask = getattr(iso, name)
    table = pl.DataFrame(lender).select("race", "sex", pl.col("loss").round(1))[:150]
    table = table.with_columns(psi=pl.col("loss") - pl.col("loss").mean())
    options: dict[str, Any] = {**LOSS, "correction": "bartlett", "resamples": 100, "rng": 1, **more}
    first = ask(table, **options).statistic
    counted = table.group_by("race", "sex", "loss", "psi").agg(n=pl.len())
    assert counted.height < table.height
    shuffled = table.sample(fraction=1, shuffle=True, seed=5)
    for again in (
        ask(table.reverse(), **options),
        ask(counted, count="n", **options),
        ask(shuffled.to_pandas(), **options),
    ):
        assert again.statistic == pytest.approx(first, rel=1e-9, nan_ok=True)


def moved(shift: float, scale: float) -> tuple[dict[str, Any], Estimate]:
    """160 exponential rows, their overlapping groups and an estimate, all in other units."""
    rng = np.random.default_rng(11)
    sex = rng.choice(["u", "v"], size=160)
    loss, chosen = rng.exponential(size=160), sex == "u"
    psi = chosen * (loss - loss[chosen].mean()) / chosen.mean()
    data = {"race": np.repeat(["a", "b", "c"], [50, 80, 30]), "sex": sex, "loss": shift + scale * loss}
    return data | {"psi": scale * psi}, Estimate(float(data["loss"][chosen].mean()), "psi")


UNITS = [(1e6, 1.0), (0.0, 1e-12), (-1e6, 1e3), (0.0, 1e12)]


@pytest.mark.parametrize("method", ["el", "eel"])
@pytest.mark.parametrize(
    "more",
    [
        {"groups": ["race", "sex"], "depth": 2},
        {"groups": ["race", "sex"], "uncertainty": "plugin"},
        {"null": [0.05, -0.05, 0.0]},
        {"reference": "rest", "null": [0.05, -0.05, 0.0]},
        {"reference": {"sex": "u"}},
        {"reference": "estimate"},
        {"reference": 1.05},
    ],
    ids=str,
)
def test_the_joint_test_has_no_unit_and_no_origin(more: dict[str, Any], method: str) -> None:
    def asked(shift: float, scale: float) -> iso.CertifyResult:
        data, estimate = moved(shift, scale)
        options: dict[str, Any] = {**LOSS, "method": method, **more}
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


@pytest.mark.parametrize("method", ["el", "eel"])
@pytest.mark.parametrize("reference", [{"sex": "u"}, "estimate"], ids=str)
def test_a_reference_that_overlaps_has_no_unit_and_no_origin(reference: Any, method: str) -> None:
    def asked(shift: float, scale: float) -> iso.FlagResult:
        data, estimate = moved(shift, scale)
        chosen = estimate if reference == "estimate" else reference
        return iso.flag(data, method=method, reference=chosen, **LOSS)

    first = asked(0.0, 1.0)
    for shift, scale in UNITS:
        again = asked(shift, scale)
        assert again.statistic == pytest.approx(first.statistic, rel=1e-6)
        for name in ("disparity", "ci_low", "ci_high", "standard_error"):
            assert getattr(again, name) == pytest.approx(scale * getattr(first, name), rel=1e-6), name


def tallied(data: dict[str, Any]) -> Evidence:
    roles: dict[str, Any] = dict.fromkeys(("outcome", "prediction", "score"))
    source = open_source(data)
    return tally(source, plan(source, **LOSS, **roles, reference="population", uncertainty="joint", depth=1))


def test_a_constant_metric_has_no_spread_to_divide_by() -> None:
    data, _ = moved(0.0, 1.0)
    data["loss"] = np.full(160, 0.1)
    with pytest.raises(NotEnoughData, match="no variation"):
        iso.certify(data, **LOSS)
    assert Units.of(tallied(data)) == Units(0.1, 1.0)
    assert (Units.of(tallied(data)).standard(tallied(data)).value == 0).all()
