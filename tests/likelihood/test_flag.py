from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

import isonomy as iso
from isonomy.errors import MissingValues, UnknownColumn, UnknownOption, UsageError
from isonomy.likelihood import Estimate
from isonomy.results import Status, Verdict

RATE: dict[str, Any] = {"metric": "selection_rate", "groups": "race", "prediction": "selected"}
LOSS = iso.Metric("loss", value=iso.col("loss"))


def table(**groups: list[int]) -> dict[str, Any]:
    """A table with one column of groups and their 0/1 values."""
    return {
        "race": np.concatenate([[name] * len(values) for name, values in groups.items()]),
        "selected": np.concatenate([np.asarray(v, dtype=int) for v in groups.values()]),
    }


def test_columns_and_their_order(lender: dict[str, Any]) -> None:
    frame = iso.flag(lender, **RATE).to_frame()
    assert frame.columns == [
        *("group", "size", "n", "estimate", "reference", "disparity", "ci_low", "ci_high", "statistic"),
        *("pvalue", "adjusted_pvalue", "verdict", "status"),
    ]


def test_size_counts_all_rows_and_n_those_inside_the_condition(lender: dict[str, Any]) -> None:
    result = iso.flag(lender, metric="tpr", groups="race", outcome="outcome", prediction="selected")
    race, outcome = lender["race"], lender["outcome"]
    assert result.size.tolist() == [np.sum(race == g) for g in "abc"]
    assert result.n.tolist() == [np.sum((race == g) & (outcome == 1)) for g in "abc"]


def test_the_reference_level_itself_is_not_tested(lender: dict[str, Any]) -> None:
    result = iso.flag(lender, reference={"race": "b"}, **RATE)
    assert result.status == (Status.OK, Status.REFERENCE, Status.OK)
    assert np.isnan(result.pvalue[1])
    assert result.disparity[1] == 0


def test_a_reference_that_is_no_group_of_its_own_may_overlap_the_groups(lender: dict[str, Any]) -> None:
    """Groups by race against women of all races: partly inside, partly outside."""
    result = iso.flag(lender, reference={"sex": "f"}, **RATE)
    women = lender["selected"][lender["sex"] == "f"].mean()
    assert result.reference_value == pytest.approx(women)
    assert (result.ci_low < result.disparity).all()
    assert (result.disparity < result.ci_high).all()


def test_group_inside_the_named_reference_and_around_it(lender: dict[str, Any]) -> None:
    inside = iso.flag(lender, **{**RATE, "groups": ["race", "sex"], "depth": 2}, reference={"race": "a"})
    cell = [str(g) for g in inside.groups].index("race=a & sex=f")
    only = {name: values[lender["race"] == "a"] for name, values in lender.items()}
    alone = iso.flag(only, **{**RATE, "groups": "sex"})
    assert inside.statistic[cell] == pytest.approx(alone.statistic[0])
    assert inside.ci_low[cell] == pytest.approx(alone.ci_low[0])
    around = iso.flag(lender, **RATE, reference={"race": "a", "sex": "f"})
    assert around.disparity[0] == pytest.approx(-inside.disparity[cell])
    mirrored = iso.flag(only, **{**RATE, "groups": "sex"})
    assert around.statistic[0] == pytest.approx(mirrored.statistic[0])
    assert around.ci_low[0] == pytest.approx(-mirrored.ci_high[0])


def test_an_estimate_with_influence_values_gives_what_the_population_gives(lender: dict[str, Any]) -> None:
    rate = lender["selected"].mean()
    data = lender | {"psi": lender["selected"] - rate}
    brought = iso.flag(data, **RATE, reference=Estimate(rate, "psi"))
    ours = iso.flag(data, **RATE)
    for name in ("statistic", "ci_low", "ci_high", "standard_error"):
        assert getattr(brought, name) == pytest.approx(getattr(ours, name), rel=1e-7), name
    joint = iso.certify(data, **RATE, reference=Estimate(rate, "psi"))
    assert joint.statistic == pytest.approx(iso.certify(data, **RATE).statistic, rel=1e-8)
    assert joint.df == 2


def test_plugin_equals_a_fixed_number_and_is_warned_about(lender: dict[str, Any]) -> None:
    level = float(lender["selected"][lender["race"] == "a"].mean())
    plugin = iso.flag(lender, reference={"race": "a"}, uncertainty="plugin", **RATE)
    fixed = iso.flag(lender, reference=level, **RATE)
    assert plugin.statistic[1:] == pytest.approx(fixed.statistic[1:])
    assert any("plugin" in warning for warning in plugin.warnings)
    assert "joint" in plugin.findings()[-1]


def test_the_reader_is_told_when_the_reference_decides() -> None:
    data = table(a=[1] * 130 + [0] * 70, b=[1] * 105 + [0] * 95)
    result = iso.flag(data, reference={"race": "b"}, alpha=0.005, **RATE)
    assert result.verdict is Verdict.INCONCLUSIVE
    assert "depends on how the reference is treated" in result.findings()[-1]
    assert "race=a" in result.findings()[-1]


def test_the_reader_is_told_with_a_correction_too() -> None:
    """512 of 854 against 1,387 of 2,174: the sizes of the paper's example."""
    data = table(a=[1] * 512 + [0] * 342, b=[1] * 1387 + [0] * 787)
    options: dict[str, Any] = {**RATE, "reference": {"race": "a"}, "correction": "bartlett", "rng": 1}
    result = iso.flag(data, **options)
    assert result.verdict is Verdict.INCONCLUSIVE
    assert iso.flag(data, uncertainty="plugin", **options).verdict is Verdict.VIOLATION
    assert "depends on how the reference is treated" in result.findings()[-1]
    assert "race=b" in result.findings()[-1]


@pytest.mark.parametrize("method", ["el", "eel"])
@pytest.mark.parametrize(
    "reference", ["estimate", {"race": "a", "sex": "f"}, {"sex": "f"}, {"race": "a"}, "rest"], ids=str
)
def test_the_contrast_is_what_the_plug_in_decides(lender: dict[str, Any], reference: Any, method: str) -> None:
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
        told = iso.flag(data, alpha=alpha, **options).contrast
        differ = [joint.labels[j] for j in able if (joint.pvalue[j] <= alpha) != (plugin.pvalue[j] <= alpha)]
        assert joint.labels[i] in differ
        assert all((joint.labels[j] in told) == (joint.labels[j] in differ) for j in able)


def test_verdicts_with_a_tolerance() -> None:
    data = table(a=[1] * 5000 + [0] * 5000, b=[1] * 5010 + [0] * 4990, c=[1] * 7 + [0] * 8)
    result = iso.flag(data, tolerance=0.05, **RATE)
    assert result.verdicts == (Verdict.WITHIN_TOLERANCE, Verdict.WITHIN_TOLERANCE, Verdict.INCONCLUSIVE)
    assert result.verdict is Verdict.INCONCLUSIVE
    assert iso.flag(data, tolerance=0.5, **RATE).verdict is Verdict.WITHIN_TOLERANCE
    data = table(a=[1] * 5000 + [0] * 5000, b=[1] * 8000 + [0] * 2000)
    assert iso.flag(data, tolerance=0.05, **RATE).verdicts == (Verdict.VIOLATION, Verdict.VIOLATION)


def test_a_group_without_rows_is_told(lender: dict[str, Any]) -> None:
    nobody = iso.where("nobody", iso.col("loss") < -1e9)
    found = iso.flag(lender, **{**RATE, "groups": nobody})
    assert any("No row is in nobody" in warning for warning in found.warnings)


def test_edge_cases_have_a_status() -> None:
    data = table(big=[0, 1] * 50, zeros=[0] * 20, one=[1], small=[0, 1, 1])
    groups = ["race", iso.where("nobody", iso.col("race") == "none")]
    result = iso.flag(data, **{**RATE, "groups": groups}, reference="rest")
    found = dict(zip(result.labels, result.status, strict=True))
    assert found == {
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
    result = iso.flag(data, metric=LOSS, groups="race")
    assert result.status[1] is Status.CONSTANT
    assert np.isnan(result.pvalue[1])
    assert any("one value only" in w for w in result.warnings)


def test_a_null_outside_the_range_of_the_data(lender: dict[str, Any]) -> None:
    result = iso.flag(lender, metric=LOSS, groups="race", reference=0.0, null=-1.0)
    assert set(result.status) == {Status.OUTSIDE_RANGE}
    assert np.isinf(result.statistic).all()
    assert (result.pvalue == 0).all()
    assert "p = 0" not in result.summary()


def test_one_group_that_is_everybody_is_its_own_reference() -> None:
    result = iso.flag(table(a=[0, 1] * 20), **RATE)
    assert result.status == (Status.REFERENCE,)
    assert result.verdict is Verdict.INCONCLUSIVE


def test_missing_values_raise_or_are_counted(lender: dict[str, Any]) -> None:
    loss = lender["loss"].copy()
    loss[:7] = np.nan
    with pytest.raises(MissingValues, match="7 rows"):
        iso.flag(lender | {"loss": loss}, metric="mean_prediction", prediction="loss", groups="race")
    result = iso.flag(
        lender | {"loss": loss}, metric="mean_prediction", prediction="loss", groups="race", missing="drop"
    )
    assert result.provenance.dropped == {"loss": 7}
    assert any("7 with no 'loss'" in w for w in result.warnings)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"reference": 1.2}, UsageError, "between 0 and 1"),
        ({"reference": {"race": "z"}}, UsageError, "no row"),
        ({"reference": {"rase": "a"}}, UnknownColumn, "race"),
        ({"reference": {}}, UsageError, "empty"),
        ({"reference": "everyone"}, UnknownOption, "population"),
        ({"uncertainty": "fixed"}, UsageError, "number"),
        ({"uncertainty": "sure"}, UnknownOption, "joint"),
        ({"interval": "one-sided"}, UsageError, "alternative"),
        ({"interval": "wide"}, UnknownOption, "pointwise"),
        ({"adjust": "bho"}, UnknownOption, "bh"),
        ({"method": "el2"}, UnknownOption, "eel"),
        ({"min_size": 0}, UsageError, "whole number"),
        ({"correction": "bartlett", "resamples": 0}, UsageError, "resamples: 0"),
        ({"resamples": 2.5}, UsageError, "resamples: 2.5"),
        ({"alpha": 1.5}, UsageError, "between 0 and 1"),
        ({"correction": "adjusted"}, UsageError, "bartlett"),
        ({"correction": "bartlett", "method": "eel"}, UsageError, "Euclidean"),
        ({"metric": "ppw"}, UnknownOption, "ppv"),
        ({"reference": float("nan")}, UsageError, "finite"),
    ],
    ids=str,
)
def test_bad_options_say_what_to_do(
    lender: dict[str, Any], options: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        iso.flag(lender, **{**RATE, **options})


@pytest.mark.parametrize(
    "options",
    [{"interval": "wide"}, {"interval": "one-sided"}, {"resamples": 0}, {"adjust": "bho"}, {"method": "el2"}],
    ids=str,
)
def test_bad_options_are_refused_before_any_row_is_read(
    lender: dict[str, Any], options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    # By its module: the package exports the function under the same name.
    module = sys.modules["isonomy.likelihood.flag"]
    monkeypatch.setattr(module, "tally", lambda *_: pytest.fail("rows were read"))
    with pytest.raises(UsageError):
        iso.flag(lender, **{**RATE, **options})


@pytest.mark.parametrize("reference", ["estimate", {"sex": "f"}], ids=str)
def test_a_solver_that_stops_early_is_told(
    lender: dict[str, Any], reference: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    rate = float(lender["selected"].mean())
    data = lender | {"psi": lender["selected"] - rate}
    monkeypatch.setattr("isonomy.likelihood.joint.STEPS", 0)
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


@pytest.mark.parametrize("kind", ["flag", "certify"])
def test_influence_values_must_average_to_zero(lender: dict[str, Any], kind: str) -> None:
    rate = float(lender["selected"].mean())
    ask = iso.flag if kind == "flag" else iso.certify
    with pytest.raises(UsageError, match=r"'selected' must average to zero.* mean is 0\.4"):
        ask(lender, **RATE, reference=Estimate(rate, "selected"))
    with pytest.raises(UsageError, match="'psi' are all 0"):
        ask(lender | {"psi": np.zeros(600)}, **RATE, reference=Estimate(rate, "psi"))
    # What one-step estimates leave is small against the standard error, here 0.02.
    ask(lender | {"psi": lender["selected"] - rate + 0.001}, **RATE, reference=Estimate(rate, "psi"))


def test_an_interval_ends_beyond_what_the_estimated_reference_allows() -> None:
    """A group at 0.95 against a reference it shares rows with: 0.9 + 0.12 is no rate, but the reference may be 0.85."""
    data = {
        "race": np.repeat(["a", "b"], 60),
        "sex": np.tile(np.repeat(["f", "m"], 30), 2),
        "selected": np.concatenate([np.repeat([1, 0], [ones, 30 - ones]) for ones in (28, 29, 26, 25)]),
    }
    result = iso.flag(data, **RATE, reference={"sex": "f"}, alpha=0.001)
    assert result.reference_value[0] + result.ci_high[0] > 1
    end = iso.flag(data, **RATE, reference={"sex": "f"}, null=float(result.ci_high[0]), adjust="none")
    assert end.pvalue[0] == pytest.approx(0.001, rel=1e-5)


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
def test_other_adjustments(lender: dict[str, Any], adjust: str) -> None:
    from isonomy.inference.multiplicity import adjust as adjusted

    result = iso.flag(lender, adjust=adjust, **RATE)
    assert result.adjusted_pvalue == pytest.approx(adjusted(result.pvalue, adjust))


def test_corrections(lender: dict[str, Any]) -> None:
    plain = iso.flag(lender, metric=LOSS, groups="race", reference=1.0)
    bartlett = iso.flag(lender, metric=LOSS, groups="race", reference=1.0, correction="bartlett")
    adjusted = iso.flag(lender, metric=LOSS, groups="race", reference=1.0, correction="adjusted")
    for j, g in enumerate("abc"):
        x = lender["loss"][lender["race"] == g]
        m2, m3, m4 = (np.mean((x - x.mean()) ** k) for k in (2, 3, 4))
        a = m4 / (2 * m2**2) - m3**2 / (3 * m2**3)
        assert bartlett.statistic[j] == pytest.approx(plain.statistic[j] / (1 + a / x.size), rel=1e-9)
    assert (bartlett.ci_high > plain.ci_high).all()
    assert (adjusted.statistic < plain.statistic).all()
    joint = iso.flag(lender, metric=LOSS, groups="race", correction="bartlett", resamples=200, rng=1)
    again = iso.flag(lender, metric=LOSS, groups="race", correction="bartlett", resamples=200, rng=1)
    assert joint.statistic.tolist() == again.statistic.tolist()
    assert joint.provenance.seed is not None
    assert joint.provenance.seed.entropy == 1


def test_an_adjusted_interval_may_have_no_end() -> None:
    result = iso.flag(
        table(a=[0, 1, 1], b=[0, 1] * 30), **RATE, reference=0.5, correction="adjusted", min_size=1, alpha=0.01
    )
    assert result.status[0] is Status.UNBOUNDED
    assert result.ci_high[0] == np.inf


def test_round_trip_suppression_and_plot(lender: dict[str, Any]) -> None:
    result = iso.flag(lender, **{**RATE, "groups": ["race", "sex"], "depth": 2}, tolerance=0.02)
    again = iso.from_json(result.to_json())
    assert again.to_frame().equals(result.to_frame())
    assert again.summary() == result.summary()
    hidden = result.suppressed(80)
    small = result.n < 80
    assert small.any()
    assert np.isnan(hidden.estimate[small]).all()
    assert {hidden.status[i] for i in np.flatnonzero(small)} == {Status.SUPPRESSED}
    assert np.array_equal(hidden.estimate[~small], result.estimate[~small])
    chart = result.plot().to_dict()
    assert chart["layer"]


def test_a_lookup_by_an_influence_column_that_is_missing(lender: dict[str, Any]) -> None:
    with pytest.raises(UnknownColumn, match="psi"):
        iso.flag(lender, **RATE, reference=Estimate(0.4, "psi"))


def test_a_detectable_disparity_lies_beyond_the_tolerance() -> None:
    """At the detectable disparity the estimate exceeds the critical one with the power asked for."""
    rng = np.random.default_rng(0)
    g = np.repeat(["a", "b"], [1_000, 2_000])
    data = {"g": g, "c": (rng.random(3_000) < 0.3).astype(int)}
    options: dict[str, Any] = {"metric": "selection_rate", "groups": "g", "prediction": "c", "reference": {"g": "b"}}
    plain, wide = (iso.flag(data, tolerance=t, **options) for t in (None, 0.05))
    se = float(plain.standard_error[0])
    assert plain.detectable(0.8)[0] == pytest.approx((1.959964 + 0.841621) * se, rel=1e-6)
    # A tolerance of three standard errors: the far end does not matter, and the level is one-sided.
    assert wide.detectable(0.8)[0] == pytest.approx(0.05 + (1.644854 + 0.841621) * se, rel=1e-3)


@pytest.mark.parametrize(("side", "words"), [("greater", "not to exceed"), ("less", "not to fall below")])
def test_a_tolerance_with_one_side_is_told_as_such(side: str, words: str) -> None:
    data = {"g": np.repeat(["a", "b"], 4_000), "c": np.tile([0, 1], 4_000)}
    options: dict[str, Any] = {"metric": "selection_rate", "groups": "g", "prediction": "c"}
    found = iso.flag(data, alternative=side, tolerance=0.05, **options)
    assert found.verdict is iso.Verdict.WITHIN_TOLERANCE
    assert words in found.headline()
    assert words in found.summary()
