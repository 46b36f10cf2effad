"""Verdicts, statuses and warnings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isonomy as iso
from isonomy.groups import Estimate
from isonomy.groups.flag import Adjustment, Method
from isonomy.inference import multiplicity
from isonomy.results import Status, Verdict
from support.groups import counted
from support.tables import selected

RATE: dict[str, Any] = {"metric": "selection_rate", "groups": "race", "prediction": "selected"}
LOSS: dict[str, Any] = {"metric": iso.Metric("loss", value=iso.col("loss")), "groups": "race"}
RATE_P: dict[str, Any] = {"metric": "selection_rate", "prediction": "p", "groups": "g"}


def test_the_reader_is_told_when_the_reference_decides() -> None:
    data = selected(a=[1] * 130 + [0] * 70, b=[1] * 105 + [0] * 95)
    result = iso.flag(data, reference={"race": "b"}, alpha=0.005, **RATE)
    assert result.verdict is Verdict.INCONCLUSIVE
    assert "takes it as exactly known" in result.findings()[-1]
    assert "race=a" in result.findings()[-1]


def test_the_reader_is_told_with_a_correction_too() -> None:
    """512 of 854 against 1,387 of 2,174: the sizes of the paper's example."""
    data = selected(a=[1] * 512 + [0] * 342, b=[1] * 1387 + [0] * 787)
    options: dict[str, Any] = {**RATE, "reference": {"race": "a"}, "correction": "bartlett", "rng": 1}
    result = iso.flag(data, **options)
    assert result.verdict is Verdict.INCONCLUSIVE
    assert iso.flag(data, uncertainty="plugin", **options).verdict is Verdict.VIOLATION
    assert "takes it as exactly known" in result.findings()[-1]
    assert "race=b" in result.findings()[-1]


@pytest.mark.parametrize("method", ["el", "eel"])
@pytest.mark.parametrize(
    "reference", ["estimate", {"race": "a", "sex": "f"}, {"sex": "f"}, {"race": "a"}, "rest"], ids=str
)
def test_the_contrast_is_what_the_plug_in_decides(lender: dict[str, Any], reference: Any, method: Method) -> None:
    """For every kind of reference, at levels on both sides of the two p-values."""
    rate = float(lender["selected"].mean())
    data = lender | {"psi": lender["selected"] - rate}
    options: dict[str, Any] = {**RATE, "reference": reference, "method": method, "adjust": "none"}
    if reference == "estimate":
        options["reference"] = Estimate(rate, "psi")
    joint, plugin = iso.flag(data, **options), iso.flag(data, uncertainty="plugin", **options)
    able = np.flatnonzero(~np.isnan(joint.pvalue))
    for i in able:
        alpha = float(np.sqrt(joint.pvalue[i] * plugin.pvalue[i]))
        otherwise = iso.flag(data, alpha=alpha, **options).otherwise
        differ = [joint.labels[j] for j in able if (joint.pvalue[j] <= alpha) != (plugin.pvalue[j] <= alpha)]
        assert joint.labels[i] in differ
        assert all((joint.labels[j] in otherwise) == (joint.labels[j] in differ) for j in able)


def test_verdicts_with_a_tolerance() -> None:
    data = selected(a=[1] * 5000 + [0] * 5000, b=[1] * 5010 + [0] * 4990, c=[1] * 7 + [0] * 8)
    result = iso.flag(data, tolerance=0.05, **RATE)
    assert result.verdicts == (Verdict.WITHIN_TOLERANCE, Verdict.WITHIN_TOLERANCE, Verdict.INCONCLUSIVE)
    assert result.verdict is Verdict.INCONCLUSIVE
    assert iso.flag(data, tolerance=0.5, **RATE).verdict is Verdict.WITHIN_TOLERANCE
    data = selected(a=[1] * 5000 + [0] * 5000, b=[1] * 8000 + [0] * 2000)
    assert iso.flag(data, tolerance=0.05, **RATE).verdicts == (Verdict.VIOLATION, Verdict.VIOLATION)


def test_a_group_without_rows_is_told(lender: dict[str, Any]) -> None:
    nobody = iso.where("nobody", iso.col("loss") < -1e9)
    result = iso.flag(lender, **{**RATE, "groups": nobody})
    assert any("No row is in nobody" in warning for warning in result.warnings)


def test_edge_cases_have_a_status() -> None:
    data = selected(big=[0, 1] * 50, zeros=[0] * 20, one=[1], small=[0, 1, 1])
    groups = ["race", iso.where("nobody", iso.col("race") == "none")]
    result = iso.flag(data, **{**RATE, "groups": groups}, reference="rest")
    solution = dict(zip(result.labels, result.status, strict=True))
    assert solution == {
        "race=big": Status.OK,
        "race=one": Status.TOO_SMALL,
        "race=small": Status.TOO_SMALL,
        "race=zeros": Status.CONSTANT,
        "nobody": Status.EMPTY,
    }
    zeros = result.labels.index("race=zeros")
    assert result.ci_low[zeros] < result.disparity[zeros] < result.ci_high[zeros]
    assert np.isfinite(result.pvalue[zeros])
    assert np.isnan(result.pvalue[result.labels.index("race=one")])


def test_a_constant_real_metric_is_not_tested(lender: dict[str, Any]) -> None:
    data = lender | {"loss": np.where(lender["race"] == "b", 2.0, lender["loss"])}
    result = iso.flag(data, **LOSS)
    assert result.status[1] is Status.CONSTANT
    assert np.isnan(result.pvalue[1])
    assert any("has the same value" in w for w in result.warnings)


def test_a_null_outside_the_range_of_the_data(lender: dict[str, Any]) -> None:
    result = iso.flag(lender, **LOSS, reference=0.0, null=-1.0)
    assert set(result.status) == {Status.OUTSIDE_RANGE}
    assert np.isinf(result.statistic).all()
    assert (result.pvalue == 0).all()
    assert "p = 0" not in result.summary()


def test_one_group_that_is_everybody_is_its_own_reference() -> None:
    result = iso.flag(selected(a=[0, 1] * 20), **RATE)
    assert result.status == (Status.REFERENCE,)
    assert result.verdict is Verdict.INCONCLUSIVE


@pytest.mark.parametrize("reference", ["estimate", {"sex": "f"}], ids=str)
def test_a_solver_that_stops_early_is_told(
    lender: dict[str, Any], reference: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    rate = float(lender["selected"].mean())
    data = lender | {"psi": lender["selected"] - rate}
    monkeypatch.setattr("isonomy.groups.likelihood.joint.STEPS", 0)
    used = Estimate(rate, "psi") if reference == "estimate" else reference
    result = iso.flag(data, **RATE, reference=used)
    assert set(result.status) == {Status.NOT_CONVERGED}
    assert np.isnan(result.statistic).all()
    assert np.isnan(result.pvalue).all()
    assert any("could not be maximised" in w for w in result.warnings)
    joint = iso.certify(data, **RATE, reference=used)
    assert set(joint.status) == {Status.NOT_CONVERGED}
    assert joint.joint_status is Status.NOT_CONVERGED
    assert any("could not be maximised" in w for w in joint.warnings)


def test_level_by_level_down_the_tree(lender: dict[str, Any]) -> None:
    kwargs = {**RATE, "groups": ["race", "sex"], "depth": 2}
    result = iso.flag(lender, adjust="bh-tree", reference=0.45, **kwargs)
    by_label = dict(zip(result.labels, zip(result.adjusted_pvalue, result.verdicts, strict=True), strict=True))
    for label, (adjusted, _) in by_label.items():
        parents = label.split(" & ")
        reached = len(parents) == 1 or any(by_label[p][1] is Verdict.VIOLATION for p in parents)
        assert np.isnan(adjusted) != reached
    assert any("level by level" in w for w in result.warnings)


@pytest.mark.parametrize("adjust", ["by", "holm", "bonferroni", "none"])
def test_other_adjustments(lender: dict[str, Any], adjust: Adjustment) -> None:
    result = iso.flag(lender, adjust=adjust, **RATE)
    assert result.adjusted_pvalue == pytest.approx(multiplicity.adjust(result.pvalue, adjust))


def test_a_constant_rate_with_an_endless_interval_is_told() -> None:
    data = {"p": [0] * 20 + [0, 1] * 30, "g": ["a"] * 20 + ["b"] * 60}
    result = iso.flag(data, reference=0.5, correction="adjusted", **RATE_P)
    assert np.isinf(result.ci_low[0])
    assert result.status[0] is Status.UNBOUNDED
    assert any("no end" in w for w in result.warnings)
    assert any("has the same value" in w for w in result.warnings)


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


def test_a_factor_that_cannot_be_had_is_warned_about() -> None:
    """In most resamples of two rows a group, one group is constant."""
    data = {"race": ["a", "a", "b", "b"], "loss": [0.0, 1.0, 0.5, 1.5]}
    result = iso.certify(data, min_size=1, correction="bartlett", resamples=100, rng=1, **LOSS)
    assert result.statistic == iso.certify(data, min_size=1, **LOSS).statistic
    assert any("correction could not be made" in w for w in result.warnings)
    flagged = iso.flag(data, min_size=1, correction="bartlett", resamples=100, rng=1, **LOSS)
    assert any("correction could not be made for race=a" in w for w in flagged.warnings)


@pytest.mark.parametrize("method", ["el", "eel"])
@pytest.mark.parametrize(
    ("reference", "null"),
    [("rest", [0.1, 0.1]), ("rest", 0.1), ("population", [0.1, 0.0]), ("rest", [0.1, -0.05])],
    ids=str,
)
def test_a_null_that_contradicts_itself_is_called_so(reference: str, null: Any, method: Method) -> None:
    result = iso.certify(counted((200, 110), (200, 110)), reference=reference, null=null, method=method, **RATE)
    assert result.joint_status is Status.INFEASIBLE
    assert np.isinf(result.statistic)
    assert any("contradicts itself" in w for w in result.warnings)
    three = iso.certify(counted((200, 110), (200, 110), c=(100, 50)), reference="rest", method=method, **RATE)
    assert not three.contains([0.1, 0.1, -0.05])
    assert three.region is not None
    assert three.region.test([0.1, 0.1, -0.05]).status is Status.INFEASIBLE
    assert three.region.test([0.1, 0.1, -0.15]).status is not Status.INFEASIBLE


def test_no_weighting_meets_the_null(lender: dict[str, Any]) -> None:
    result = iso.certify(lender, reference=100.0, **LOSS)
    assert result.joint_status is Status.OUTSIDE_RANGE
    assert result.pvalue == 0.0
    assert result.verdict is Verdict.VIOLATION


@pytest.mark.parametrize(("rows", "warned"), [(200, False), (200_000, True)])
def test_a_tolerance_is_asked_for_only_where_a_difference_may_be_too_small(rows: int, warned: bool) -> None:
    """Half a point in a large table; thirty points in a small one, which nobody would call too small to matter."""
    share = 0.505 if warned else 0.8
    ones = [round(rows * 0.5), round(rows * share)]
    data = {"g": ["a", "a", "b", "b"], "p": [1, 0, 1, 0], "k": [ones[0], rows - ones[0], ones[1], rows - ones[1]]}
    result = iso.flag(data, count="k", **RATE_P)
    assert result.verdict is Verdict.VIOLATION
    assert any("too small to matter" in " ".join(text.split()) for text in result.warnings) == warned


@pytest.mark.parametrize(("rows", "told"), [(40, False), (400_000, True)])
def test_one_verdict_is_called_small_only_where_every_difference_may_be(rows: int, told: bool) -> None:
    """Half a point in a large table; thirty points in a small one; a tolerance, which leaves nothing to say."""
    high = 0.505 if told else 0.8
    counts = [round(high * rows), round((1 - high) * rows), rows // 2, rows // 2]
    table = {"g": ["a", "a", "b", "b"], "p": [1, 0, 1, 0], "n": counts}
    options: dict[str, Any] = {**RATE_P, "reference": {"g": "b"}, "count": "n"}
    result = iso.certify(table, **options)
    assert result.verdict is Verdict.VIOLATION
    assert ("too small to matter" in " ".join(result.summary().split())) == told
    assert "too small to matter" not in " ".join(iso.certify(table, tolerance=0.001, **options).summary().split())


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"null": 0.1}, {"a": "disfavoured", "b": "favoured", "c": "disfavoured"}),
        ({"null": -0.3, "alternative": "greater"}, {"a": "favoured", "b": "favoured", "c": "favoured"}),
        ({"null": (0.05, 0.1), "alternative": "outside"}, {"a": "disfavoured", "b": "favoured", "c": "disfavoured"}),
        ({"null": 0.6, "scale": "ratio", "better": "lower"}, {"a": "disfavoured", "b": "disfavoured", "c": ""}),
    ],
)
def test_groups_are_held_against_the_disparity_tested(asked: dict[str, Any], words: dict[str, str]) -> None:
    """One that equals the population is not said to differ from it, where another disparity was tested and rejected."""
    cases = {"a": 500, "b": 700, "c": 300}
    data = {"g": np.repeat(list(cases), 1_000), "p": np.concatenate([np.arange(1_000) < k for k in cases.values()])}
    result = iso.flag({**data, "p": data["p"].astype(int)}, **RATE_P, **asked)
    assert dict(zip(("a", "b", "c"), result.direction, strict=True)) == words
    told = " ".join((result.headline(), *result.findings()))
    assert "differ from the population" not in told
    assert "difference was shown" not in told
    assert "by more than chance explains" not in told
    assert "tested, " in told
    assert "favoured" not in told  # better or worse off than what was tested, which is not the population
    assert ("+0." not in told and " points" in result.null) == (asked.get("scale") != "ratio")


@pytest.mark.parametrize("null", [0.1, {"g=a": -0.1, "g=b": 0.2}])
def test_groups_are_certified_against_the_disparities_given(null: Any) -> None:
    data = {"g": np.repeat(["a", "b", "c"], 1_000), "p": np.tile([0, 1], 1_500)}
    result = iso.certify(data, **RATE_P, null=null, reference={"g": "c"})
    assert result.verdict is Verdict.VIOLATION
    told = " ".join((result.headline(), *result.findings(), *result.warnings))
    assert "differ by more than chance explains" not in told
    assert "exact equality counts" not in told
    assert "tested" in result.headline()
    flagged = iso.flag(data, **RATE_P, null=0.1, reference={"g": "c"})
    assert not any("exact equality" in warning for warning in flagged.warnings)


@pytest.mark.parametrize("adjust", ["holm", "bonferroni", "by"])
@pytest.mark.parametrize("reference", ["rest", "population"])
def test_two_groups_are_one_hypothesis(adjust: str, reference: str) -> None:
    """The difference of one from the other is that of the other from it, with the sign turned: it counts once."""
    rng = np.random.default_rng(3)
    table = {"g": rng.choice(["a", "b"], 900), "p": rng.integers(0, 2, 900)}
    result = iso.flag(table, metric="selection_rate", prediction="p", groups="g", reference=reference, adjust=adjust)
    assert result.adjusted_pvalue == pytest.approx(result.pvalue)
    assert result.pvalue[0] == pytest.approx(result.pvalue[1])


def test_two_groups_with_a_tolerance_about_the_population_are_two_hypotheses() -> None:
    """Their distances from everybody differ, and so do the nulls."""
    rng = np.random.default_rng(3)
    table = {"g": rng.choice(["a", "b"], 900, p=[0.8, 0.2]), "p": rng.integers(0, 2, 900)}
    options = {"metric": "selection_rate", "prediction": "p", "groups": "g", "tolerance": 0.001}
    result = iso.flag(table, adjust="bonferroni", **options)
    assert result.adjusted_pvalue == pytest.approx(np.minimum(2 * result.pvalue, 1.0))
