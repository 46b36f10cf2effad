"""Flagging through the public call: what is refused, estimated, decided and kept."""

from __future__ import annotations

import copy
import json
import pickle
from datetime import date
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats
from scipy.stats import false_discovery_control

import isonomy as iso
from isonomy.errors import BadWeight, UnknownOption, UsageError
from isonomy.frames import Source, open_source
from isonomy.groups import Estimate
from isonomy.groups.flag import Adjustment
from isonomy.groups.likelihood.comparison import Gaps, Widest
from isonomy.groups.options import LikelihoodKind as Method
from isonomy.inference.effect import null_pvalues
from isonomy.numerics.arrays import FloatArray
from isonomy.results import Status, Verdict
from support.groups import EVERY_TYPE as DATA
from support.groups import planned
from support.same import same
from support.tables import selected, several

RATE: dict[str, Any] = {"metric": "selection_rate", "groups": "race", "prediction": "selected"}


BARTLETT = iso.likelihood(correction="bartlett")
RATE_P: dict[str, Any] = {"metric": "selection_rate", "prediction": "p", "groups": "g"}


def test_outcomes_known_of_the_selected_alone_are_told() -> None:
    table = {"p": [1] * 80, "y": [1, 1, 1, 0] * 20, "g": ["a"] * 40 + ["b"] * 40}
    told = iso.flag(table, metric="tpr", outcome="y", prediction="p", groups="g").warnings
    assert any("use ppv instead" in warning for warning in told)


M = iso.Metric("m", iso.col("x"))


STANDARDIZED: dict[str, Any] = {"metric": M, "scale": "standardized"}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"tolerance": 0.02}, (-0.02, 0.02, "outside")),
        ({"tolerance": 0.02, "method": "published"}, (-0.02, 0.02, "outside-published")),
        ({"tolerance": 0.02, "null": iso.null(side="greater")}, (0.02, 0.02, "greater")),
        ({"tolerance": 0.02, "null": iso.null(side="less")}, (-0.02, -0.02, "less")),
        ({"null": (-0.1, 0.2)}, (-0.1, 0.2, "outside")),
        ({"null": iso.null(-0.1, 0.2)}, (-0.1, 0.2, "outside")),
        ({"null": 0.1}, (0.1, 0.1, "two-sided")),
        ({"null": iso.null(0.1, side="less")}, (0.1, 0.1, "less")),
        ({"reference": "highest"}, (0.0, 0.0, "less")),
    ],
    ids=str,
)
def test_the_null_hypothesis_follows_from_the_null_and_the_tolerance(
    options: dict[str, Any], expected: tuple[float, float, str]
) -> None:
    result = iso.flag(DATA, metric=M, groups="g", **options)
    assert (result.null_low, result.null_high, result.alternative) == expected


def test_counts_are_asked_for_in_one_pass_and_rows_in_none() -> None:
    """What an audit can share: a 0/1 metric against anything but an estimate."""
    source = open_source(DATA | {"psi": np.tile([-0.5, 0.5], DATA["x"].size // 2)})
    rate: dict[str, Any] = {"metric": "selection_rate", "prediction": "p", "groups": "g"}
    asked = planned("flag", source, **rate, reference={"h": 1})
    assert asked.requests == asked.metric_requests
    assert set(asked.requests[0].keys) == {"reference"}
    assert planned("flag", source, **rate, reference=Estimate(0.5, "psi")).requests == ()
    assert planned("flag", source, metric=M, groups="g").requests == ()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metric": M, "scale": "ratio"}, "scale: 'ratio' needs values that are never negative; 'm' goes down to -"),
        ({"scale": "ratio", "null": 0.0}, "null: 0.0 is not allowed for scale='ratio'; give ratios above 0"),
        ({"scale": "ratio", "null": (-0.1, 1.2)}, "give ratios above 0"),
        ({"scale": "ratios"}, "scale: 'ratios' is not allowed. Did you mean 'ratio'"),
        ({"scale": "ratio", "method": "eel"}, "scale: 'ratio' is not available with the Euclidean likelihood; leave"),
        ({"metric": M, "scale": iso.standardized("reference")}, "standardized('reference') needs a reference group"),
        ({**STANDARDIZED, "method": "published"}, "method: 'published' is not available with scale='standardized'"),
        ({**STANDARDIZED, "method": BARTLETT}, "correction: not available with scale='standardized'"),
        ({**STANDARDIZED, "given": "h"}, "given: not available with scale='standardized'"),
    ],
    ids=str,
)
def test_scales_refuse_what_they_cannot_say(options: dict[str, Any], message: str) -> None:
    rate = {"metric": "selection_rate", "prediction": "p", "groups": "g"}
    with pytest.raises(UsageError) as error:
        iso.flag(DATA, **{**rate, **options})
    assert message in str(error.value)


POSITIVE = iso.where("pos", iso.col("p") == 1)


@pytest.mark.parametrize("value", [True, False, np.True_, np.False_])
def test_a_named_condition_or_its_negation(value: Any) -> None:
    result = iso.flag(DATA, metric=M, groups=["g", POSITIVE], reference={"pos": value})
    chosen = (DATA["p"] == 1) == value
    assert result.reference_value[0] == pytest.approx(DATA["x"][chosen].mean())
    assert result.reference == f"pos={bool(value)}"
    column = iso.flag(DATA, metric=M, groups="g", reference={"p": int(value)})
    assert result.statistic[:2] == pytest.approx(column.statistic, rel=1e-9)


def test_a_group_of_a_result_is_a_reference() -> None:
    first = iso.flag(DATA, metric=M, groups=["g", POSITIVE])
    result = iso.flag(DATA, metric=M, groups=["g", POSITIVE], reference=first.groups[-1])
    assert result.reference == "pos"
    assert result.reference_value[0] == pytest.approx(DATA["x"][DATA["p"] == 1].mean())


@pytest.mark.parametrize(
    ("reference", "error", "words"),
    [
        ({"pos": "nonsense"}, UnknownOption, r"reference\['pos'\]: 'nonsense' .*True, False"),
        ({"pos": 1}, UnknownOption, r"reference\['pos'\]: 1 .*True, False"),
        ({"h": "1"}, UsageError, r"reference\['h'\]: '1' .*'h'.* give a number"),
        ({"age": "<25"}, UsageError, r"reference\['age'\]: '<25' .*iso\.cut"),
        ({"g": ["a"]}, UsageError, r"reference\['g'\]: \['a'\] .* give text"),
        ({"g": 1}, UsageError, r"reference\['g'\]: 1 .* give text"),
        ({"day": "2024-01-01"}, UsageError, r"reference\['day'\]: '2024-01-01' .* give a date"),
        ({"yes": "true"}, UnknownOption, r"reference\['yes'\]: 'true' .*True, False"),
        (np.array([0.1, 0.2]), UnknownOption, "reference: .*population"),
        (float("nan"), UsageError, "reference: nan is not a finite number"),
    ],
    ids=str,
)
def test_a_reference_that_cannot_be_is_named(reference: Any, error: type[Exception], words: str) -> None:
    for ask in (iso.flag, iso.certify):
        with pytest.raises(error, match=words):
            ask(DATA, metric=M, groups=["g", POSITIVE], reference=reference)


@pytest.mark.parametrize(
    ("reference", "chosen"),
    [
        ({"h": np.int64(2)}, DATA["h"] == 2),
        ({"h": 2.0}, DATA["h"] == 2),
        ({"p": True}, DATA["p"] == 1),
        ({"day": date(2024, 1, 2)}, np.array(DATA["day"]) == date(2024, 1, 2)),
        ({"yes": False}, ~DATA["yes"]),
    ],
    ids=str,
)
def test_levels_of_every_type(reference: Any, chosen: Any) -> None:
    result = iso.flag(DATA, metric=M, groups="g", reference=reference)
    assert result.reference_value[0] == pytest.approx(DATA["x"][chosen].mean())


def test_a_number_has_no_error_to_leave_out() -> None:
    options: dict[str, Any] = {"metric": M, "groups": "g", "reference": 0.5}
    published, default = iso.flag(DATA, method="published", **options), iso.flag(DATA, **options)
    assert published.statistic.tolist() == default.statistic.tolist()
    assert published.warnings == default.warnings


def test_an_estimate_is_checked_when_it_is_made() -> None:
    with pytest.raises(UsageError, match=r"^value: 'a' is not allowed; give a finite number"):
        Estimate("a", "f")  # type: ignore[arg-type]


def test_plugin_equals_a_fixed_number_and_is_warned_about(lender: dict[str, Any]) -> None:
    level = float(lender["selected"][lender["race"] == "a"].mean())
    plugin = iso.flag(lender, reference={"race": "a"}, method="published", **RATE)
    fixed = iso.flag(lender, reference=level, **RATE)
    assert plugin.statistic[1:] == pytest.approx(fixed.statistic[1:])
    assert any("treats the estimated reference as known" in warning for warning in plugin.warnings)
    assert plugin.otherwise == ()  # here both treatments of the reference conclude the same


@pytest.mark.parametrize("scale", ["difference", "ratio", "odds_ratio"])
@pytest.mark.parametrize("reference", ["population", "rest", "highest", {"race": "a"}])
def test_metrics_tested_at_once_have_the_numbers_of_each_alone(
    lender: dict[str, Any], scale: Any, reference: Any
) -> None:
    data = lender | {"repaid": (lender["loss"] < np.median(lender["loss"])).astype(int)}
    asked: dict[str, Any] = {"groups": ["race", "sex"], "prediction": "selected", "outcome": "repaid"}
    options = {**asked, "depth": 2, "scale": scale, "reference": reference}
    metrics = ["selection_rate", "tpr", "ppv"]
    result = iso.flag(data, metric=metrics, **options)
    alone = [iso.flag(data, metric=metric, **options) for metric in metrics]
    for name in ("disparity", "standard_error", "ci_low", "ci_high", "statistic", "pvalue", "planning_error"):
        np.testing.assert_allclose(getattr(result, name), np.concatenate([getattr(one, name) for one in alone]), 1e-12)
    assert result.status == tuple(status for one in alone for status in one.status)


def test_simultaneous_intervals_are_of_all_groups_and_metrics(lender: dict[str, Any]) -> None:
    """Of two metrics with three groups each, six: the level of each is 1 - 0.95^(1/6)."""
    data = lender | {"repaid": (lender["loss"] < np.median(lender["loss"])).astype(int)}
    asked: dict[str, Any] = {"groups": "race", "prediction": "selected", "outcome": "repaid"}
    wide = iso.flag(data, metric=["tpr", "fpr"], **asked, method=iso.likelihood(interval="simultaneous"))
    each = iso.flag(data, metric="tpr", **asked, alpha=1 - 0.95 ** (1 / 6))
    np.testing.assert_allclose(wide.ci_low[:3], each.ci_low)


def test_the_dependence_of_several_metrics_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """One covariance of all metrics, by the rows: in place of a sentence that says the same of any table."""
    seen: list[FloatArray] = []

    def drawn(root: FloatArray, *others: Any, **options: Any) -> FloatArray:
        seen.append(root)
        return null_pvalues(root, *others, **options)

    monkeypatch.setattr("isonomy.groups.likelihood.comparison.null_pvalues", drawn)
    rng = np.random.default_rng(4)
    data = {"g": rng.choice(["a", "b", "c"], 900), "y": rng.integers(0, 2, 900), "p": rng.integers(0, 2, 900)}
    roles: dict[str, Any] = {"groups": "g", "outcome": "y", "prediction": "p", "reference": {"g": "c"}}
    result = iso.flag(data, metric=["tpr", "selection_rate"], **roles)
    values = []
    for among in (data["y"] == 1, np.ones(900, dtype=bool)):
        parts = {}
        for level in "abc":
            rows = among & (data["g"] == level)
            parts[level] = np.where(rows, data["p"] - data["p"][rows].mean(), 0.0) / rows.sum()
        values += [parts["a"] - parts["c"], parts["b"] - parts["c"]]
    psi = np.column_stack(values)
    joint, length = psi.T @ psi, np.linalg.norm(psi, axis=0)
    np.testing.assert_allclose(seen[0].T @ seen[0], joint / np.outer(length, length), rtol=1e-9)
    assert not any("Yekutieli" in warning for warning in result.warnings)


def test_the_dependence_of_hundreds_of_groups_is_measured() -> None:
    group = np.repeat(np.arange(300), 40)
    data = {"g": group, "p": np.arange(group.size) * 7 % 13 < 6}
    result = iso.flag(data, metric="selection_rate", prediction="p", groups="g")
    assert not any("Yekutieli" in warning for warning in result.warnings)


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


LOSS: dict[str, Any] = {"metric": iso.Metric("loss", value=iso.col("loss")), "groups": "race"}


@pytest.mark.parametrize("scale", ["difference", "ratio"])
def test_the_widest_gap_of_many_groups_needs_only_those_far_out(monkeypatch: pytest.MonkeyPatch, scale: Any) -> None:
    rng = np.random.default_rng(3)
    group = np.repeat(np.arange(300), rng.integers(20, 400, 300))
    data = {"g": group, "p": rng.random(group.size) < 0.3 + 0.2 * rng.random(300)[group]}
    every = iso.flag(data, **RATE_P, scale=scale, rng=0).widest()
    monkeypatch.setattr("isonomy.groups.likelihood.comparison.MANY", 60)
    few = iso.flag(data, **RATE_P, scale=scale, rng=0).widest()
    assert few.groups == every.groups
    assert (few.value, few.ci_low, few.ci_high) == pytest.approx((every.value, every.ci_low, every.ci_high), rel=1e-12)


def test_what_is_stored_copied_or_withheld_has_the_widest_gap_itself(lender: dict[str, Any]) -> None:
    result = iso.flag(lender, **RATE)
    assert isinstance(result._widest_gap, Gaps)
    stored = json.loads(result.to_json())["result"]
    assert stored["widest_gap"]["groups"] == list(result.widest().groups)
    assert "_widest_gap" not in stored
    for again in (iso.from_json(result.to_json()), pickle.loads(pickle.dumps(result)), copy.deepcopy(result)):
        assert isinstance(again._widest_gap, Widest)
        assert again.widest() == result.widest() == result.widest_gap
    small = lender | {"race": np.where(np.arange(600) < 12, "few", lender["race"])}
    hidden = iso.flag(small, **RATE).suppressed(20)
    assert not isinstance(hidden._widest_gap, Gaps)  # it would hold the withheld counts


def test_no_row_is_kept_for_the_widest_gap(lender: dict[str, Any]) -> None:
    assert isinstance(iso.flag(lender, **LOSS)._widest_gap, Widest)


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


def many(rows: int = 20_000) -> pl.DataFrame:
    rng = np.random.default_rng(1)
    group = rng.choice(list("abcd"), rows, p=[0.4, 0.3, 0.2, 0.1])
    amount = np.exp(1.5 * rng.normal(size=rows)) * (1 + 0.05 * (group == "b"))
    amount[::997] = np.nan
    columns = {"group": group, "amount": amount, "half": rng.integers(0, 2, rows), "score": rng.beta(2, 3, rows)}
    return pl.DataFrame({**columns, "outcome": rng.integers(0, 2, rows), "count": rng.integers(0, 3, rows)})


AMOUNT = iso.Metric("amount", value=iso.col("amount"))


HALF = iso.Metric("amount of half", value=iso.col("amount"), where=iso.col("half") == 1)


NUMBERS = ("n", "size", "estimate", "disparity", "standard_error", "statistic", "pvalue", "ci_low", "ci_high")


@pytest.mark.parametrize(
    "options",
    [
        {"metric": AMOUNT},
        {"metric": AMOUNT, "groups": ["group", "half"], "depth": 2, "reference": "rest"},
        {"metric": HALF, "reference": {"group": "a"}},
        {"metric": AMOUNT, "count": "count", "scale": "ratio"},
        {"metric": AMOUNT, "given": "half"},
        {"metric": "brier", "outcome": "outcome", "score": "score", "reference": "highest"},
    ],
    ids=["plain", "depth", "where", "count", "given", "brier"],
)
def test_of_very_many_rows_bins_stand_for_the_values(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {"groups": "group", "missing": "drop"} | options
    rows = iso.flag(many(), **asked)

    def refuse(*_: Any) -> None:
        raise AssertionError("rows were read")

    monkeypatch.setattr("isonomy.groups.likelihood.lines.READ", 0)
    monkeypatch.setattr("isonomy.frames.source.Source.rows", refuse)
    binned = iso.flag(many().lazy(), **asked)
    same(binned, rows, NUMBERS, rel=1e-9, abs=1e-12)
    assert binned.verdicts == rows.verdicts
    assert binned.provenance.dropped == rows.provenance.dropped
    assert binned.provenance.rows == rows.provenance.rows


def test_bins_of_very_many_groups_are_counted_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("isonomy.groups.likelihood.lines.READ", 0)
    whole = iso.flag(many().lazy(), metric=AMOUNT, groups="group", missing="drop")
    monkeypatch.setattr("isonomy.groups.likelihood.lines.MANY", 0)
    monkeypatch.setattr("isonomy.groups.likelihood.lines.PART", 6_000)
    passes: list[object] = []
    sums = Source.sums

    def watched(self: Source, keys: Any, values: Any) -> pl.DataFrame:
        passes.append(keys)
        return sums(self, keys, values)

    monkeypatch.setattr(Source, "sums", watched)
    same(iso.flag(many().lazy(), metric=AMOUNT, groups="group", missing="drop"), whole, NUMBERS)
    assert len(passes) == 1 + 4


def test_a_joint_test_takes_bins_too(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {"metric": "brier", "outcome": "outcome", "score": "score", "groups": "group"}
    rows = iso.certify(many(), **asked)
    monkeypatch.setattr("isonomy.groups.likelihood.lines.READ", 0)
    binned = iso.certify(many().lazy(), **asked)
    assert binned.statistic == pytest.approx(rows.statistic, rel=1e-9)
    assert binned.pvalue == pytest.approx(rows.pvalue, rel=1e-9)


@pytest.mark.parametrize("ask", [iso.flag, iso.certify])
def test_nobody_who_counts_weighs_anything(ask: Any) -> None:
    data = {"g": np.tile(["a", "b"], 100), "y": np.repeat([0, 1], 100), "p": np.arange(200) % 3 == 0}
    data |= {"p": data["p"].astype(int), "w": (data["g"] == "b").astype(float)}
    roles: dict[str, Any] = {"outcome": "y", "prediction": "p", "groups": "g"}
    for reference in ("population", "rest", {"g": "a"}):
        with pytest.raises(BadWeight, match="all rows that 'fpr' counts have weight 0"):
            ask(data, metric="fpr", weight="y", reference=reference, **roles)
    with pytest.raises(UsageError, match=r"no row of g=a with a weight above 0 meets the metric's condition\.$"):
        ask(data, metric="fpr", weight="w", reference={"g": "a"}, **roles)
    data["y"] = (data["g"] == "b").astype(int)
    with pytest.raises(UsageError, match=r"no row of g=a meets the metric's condition\.$"):
        ask(data, metric="tpr", reference={"g": "a"}, **roles)


def test_the_reader_is_told_when_the_reference_decides() -> None:
    data = selected(a=[1] * 130 + [0] * 70, b=[1] * 105 + [0] * 95)
    result = iso.flag(data, reference={"race": "b"}, alpha=0.005, **RATE)
    assert result.verdict is Verdict.INCONCLUSIVE
    assert "treats it as known" in result.findings()[-1]
    assert "race=a" in result.findings()[-1]


def test_the_reader_is_told_with_a_correction_too() -> None:
    """512 of 854 against 1,387 of 2,174: the sizes of the paper's example."""
    data = selected(a=[1] * 512 + [0] * 342, b=[1] * 1387 + [0] * 787)
    options: dict[str, Any] = {**RATE, "reference": {"race": "a"}, "rng": 1}
    result = iso.flag(data, method=BARTLETT, **options)
    assert result.verdict is Verdict.INCONCLUSIVE
    assert (
        iso.flag(data, method=iso.likelihood(correction="bartlett", published=True), **options).verdict == "violation"
    )
    assert "treats it as known" in result.findings()[-1]
    assert "race=b" in result.findings()[-1]


@pytest.mark.parametrize("method", ["el", "eel"])
@pytest.mark.parametrize(
    "reference", ["estimate", {"race": "a", "sex": "f"}, {"sex": "f"}, {"race": "a"}, "rest"], ids=str
)
def test_the_contrast_is_what_the_plug_in_decides(lender: dict[str, Any], reference: Any, method: Method) -> None:
    """For every kind of reference, at levels on both sides of the two p-values."""
    rate = float(lender["selected"].mean())
    data = lender | {"psi": lender["selected"] - rate}
    options: dict[str, Any] = {**RATE, "reference": reference, "adjust": "none"}
    if reference == "estimate":
        options["reference"] = Estimate(rate, "psi")
    joint = iso.flag(data, method=method, **options)
    plugin = iso.flag(data, method=iso.likelihood(method, published=True), **options)
    able = np.flatnonzero(~np.isnan(joint.pvalue))
    for i in able:
        alpha = float(np.sqrt(joint.pvalue[i] * plugin.pvalue[i]))
        otherwise = iso.flag(data, alpha=alpha, method=method, **options).otherwise
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
    assert any("metric's condition: nobody" in warning for warning in result.warnings)


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
    assert any("have the same value" in w for w in result.warnings)


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
    assert any("could not be maximized" in w for w in result.warnings)
    joint = iso.certify(data, **RATE, reference=used)
    assert set(joint.status) == {Status.NOT_CONVERGED}
    assert joint.joint_status is Status.NOT_CONVERGED
    assert any("could not be maximized" in w for w in joint.warnings)


def test_a_constant_rate_with_an_endless_interval_is_told() -> None:
    data = {"p": [0] * 20 + [0, 1] * 30, "g": ["a"] * 20 + ["b"] * 60}
    result = iso.flag(data, reference=0.5, method=iso.likelihood(correction="adjusted"), **RATE_P)
    assert np.isinf(result.ci_low[0])
    assert result.status[0] is Status.UNBOUNDED
    assert any("is unbounded" in w for w in result.warnings)
    assert any("have the same value" in w for w in result.warnings)


@pytest.mark.parametrize(("rows", "warned"), [(200, False), (200_000, True)])
def test_a_tolerance_is_asked_for_only_where_a_difference_may_be_too_small(rows: int, warned: bool) -> None:
    """Half a point in a large table; thirty points in a small one, which nobody would call too small to matter."""
    share = 0.505 if warned else 0.8
    ones = [round(rows * 0.5), round(rows * share)]
    data = {"g": ["a", "a", "b", "b"], "p": [1, 0, 1, 0], "k": [ones[0], rows - ones[0], ones[1], rows - ones[1]]}
    result = iso.flag(data, count="k", **RATE_P)
    assert result.verdict is Verdict.VIOLATION
    assert any("too small to matter" in " ".join(text.split()) for text in result.warnings) == warned


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"null": 0.1}, {"a": "disfavored", "b": "favored", "c": "disfavored"}),
        ({"null": iso.null(-0.3, side="greater")}, {"a": "favored", "b": "favored", "c": "favored"}),
        ({"null": (0.05, 0.1)}, {"a": "disfavored", "b": "favored", "c": "disfavored"}),
        ({"null": 0.6, "scale": "ratio", "better": "lower"}, {"a": "disfavored", "b": "disfavored", "c": ""}),
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
    assert "the tested " in told
    assert "favored" not in told  # better or worse off than what was tested, which is not the population
    assert ("+0." not in told and " points" in result.null) == (asked.get("scale") != "ratio")


@pytest.mark.parametrize("adjust", ["holm", "bonferroni", "by"])
@pytest.mark.parametrize("reference", ["rest", "population"])
def test_two_groups_are_one_hypothesis(adjust: Adjustment, reference: str) -> None:
    """The difference of one from the other is that of the other from it, with the sign turned: it counts once."""
    rng = np.random.default_rng(3)
    table = {"g": rng.choice(["a", "b"], 900), "p": rng.integers(0, 2, 900)}
    result = iso.flag(table, metric="selection_rate", prediction="p", groups="g", reference=reference, adjust=adjust)
    assert result.adjusted_pvalue == pytest.approx(result.pvalue)
    assert result.pvalue[0] == pytest.approx(result.pvalue[1])


@pytest.mark.parametrize("reference", ["rest", "population"])
def test_complementary_conditions_are_one_hypothesis(reference: str) -> None:
    rng = np.random.default_rng(3)
    age = rng.integers(18, 70, 900)
    table = {"age": age, "sex": rng.choice(["f", "m"], 900), "p": (rng.random(900) < age / 80).astype(int)}
    young, old = iso.where("young", iso.col("age") < 30), iso.where("old", iso.col("age") >= 30)
    options: dict[str, Any] = {"metric": "selection_rate", "prediction": "p", "reference": reference, "adjust": "holm"}
    both = iso.flag(table, groups=[young, old], **options)
    assert both.pvalue[0] == pytest.approx(both.pvalue[1])
    assert both.adjusted_pvalue == pytest.approx(both.pvalue)
    middle = iso.where("middle", iso.col("age") >= 40)
    apart = iso.flag(table, groups=[young, middle], **options)
    assert apart.adjusted_pvalue.min() == pytest.approx(2 * apart.pvalue.min())
    three = iso.flag(table, groups=[young, "sex", old], **options | {"adjust": "bonferroni"})
    assert three.adjusted_pvalue == pytest.approx(np.minimum(2 * three.pvalue, 1.0))


def test_two_groups_with_a_tolerance_about_the_population_are_two_hypotheses() -> None:
    """Their distances from everybody differ, and so do the nulls."""
    rng = np.random.default_rng(3)
    table = {"g": rng.choice(["a", "b"], 900, p=[0.8, 0.2]), "p": rng.integers(0, 2, 900)}
    options: dict[str, Any] = {"metric": "selection_rate", "prediction": "p", "groups": "g", "tolerance": 0.001}
    result = iso.flag(table, adjust="bonferroni", **options)
    assert result.adjusted_pvalue == pytest.approx(np.minimum(2 * result.pvalue, 1.0))


def test_a_detectable_disparity_lies_beyond_the_tolerance() -> None:
    """At the detectable disparity the estimate exceeds the critical one with the power asked for."""
    rng = np.random.default_rng(0)
    data = {"g": np.repeat(["a", "b"], [1_000, 2_000]), "c": rng.normal(size=3_000)}
    options: dict[str, Any] = {"metric": "mean_prediction", "groups": "g", "prediction": "c", "reference": {"g": "b"}}
    plain, wide = (iso.flag(data, tolerance=t, **options) for t in (None, 0.15))
    se = float(plain.standard_error[0])
    df = stats.ttest_ind(data["c"][:1_000], data["c"][1_000:], equal_var=False).df
    quantiles = np.sum(stats.t.isf([0.025, 0.2], df))
    assert plain.detectable(0.8)[0] == pytest.approx(quantiles * se, rel=1e-6)
    # A tolerance of three standard errors: the far end does not matter, and the level is one-sided.
    assert wide.detectable(0.8)[0] == pytest.approx(0.15 + (1.644854 + 0.841621) * se, rel=1e-3)
    variance = float(np.var(data["c"][:1_000])), float(np.var(data["c"][1_000:]))
    needed = float(iso.rows_needed(0.0, reference="group", ratio=2.0, variance=variance, tolerance=0.15))  # normal law
    for _ in range(20):  # Student's law, whose degrees of freedom grow with the rows
        needed = 1_000 * (np.sum(stats.t.isf([0.025, 0.1], df * needed / 1_000)) * se / 0.15) ** 2
    assert wide.rows_for_tolerance()[0] == pytest.approx(needed, abs=1)
    assert wide.to_frame()["rows_needed"][0] == wide.rows_for_tolerance()[0]
    with pytest.raises(UsageError, match="rows_for_tolerance: there is no tolerance"):
        plain.rows_for_tolerance()


@pytest.mark.parametrize("side", ["two-sided", "less"])
@pytest.mark.parametrize(("rows", "others", "rate"), [(400, 1_600, 0.05), (100, 100, 0.5), (100, 900, 0.8)])
@pytest.mark.parametrize(("scale", "tolerance"), [("difference", None), ("ratio", None), ("ratio", 0.9)])
def test_a_detectable_difference_of_rates_is_found_four_times_in_five(
    scale: Any, tolerance: float | None, rows: int, others: int, rate: float, side: Any
) -> None:
    """A group that differs has another variance: by the error as observed a ratio was found 56 times in 100."""
    cases = [int(rows * rate), int(others * rate)]
    data = {
        "g": np.repeat(["a", "b"], [rows, others]),
        "p": np.concatenate([np.arange(n) < k for n, k in zip((rows, others), cases, strict=True)]).astype(int),
    }
    options: dict[str, Any] = {"scale": scale, "tolerance": tolerance}
    result = iso.flag(data, **RATE_P, reference={"g": "b"}, null=iso.null(side=side), **options)
    smallest = float(result.detectable()[0])
    if scale == "difference" and side == "two-sided" and rate > 0.5:
        smallest = -smallest  # the larger difference is that below
    plan: dict[str, Any] = {"n": rows, "reference": "group", "reference_n": others, "rate": rate, "side": side}
    assert iso.power_of(smallest, **plan, **options) == pytest.approx(0.8, abs=0.04)


def test_a_group_that_differs_needs_the_rows_of_one_that_does_not() -> None:
    data = {"g": np.repeat(["a", "b"], [500, 2_000]), "p": np.r_[np.arange(500) < 50, np.arange(2_000) < 600]}
    result = iso.flag(data, **RATE_P, reference={"g": "b"}, tolerance=0.05)
    needed = iso.rows_needed(0.0, reference="group", ratio=4.0, rate=0.3, tolerance=0.05)
    assert result.rows_for_tolerance()[0] == pytest.approx(needed, rel=0.02)


def test_few_clusters_show_less() -> None:
    rng = np.random.default_rng(1)
    people = {"g": np.repeat(["a", "b"], [300, 3_000]), "c": np.r_[np.arange(300) // 20, 100 + np.arange(3_000) // 20]}
    data = {**people, "p": rng.normal(size=3_300)}
    options: dict[str, Any] = {"metric": "mean_prediction", "groups": "g", "prediction": "p", "reference": {"g": "b"}}
    result = iso.flag(data, **options, cluster="c", tolerance=0.5)
    error = float(result.standard_error[0])
    beyond = (result.detectable()[0] - 0.5) / error
    assert beyond > 1.08 * (1.644854 + 0.841621)  # fifteen clusters, Student's law
    large = result.rows_for_tolerance()[0] / (300 * ((1.959964 + 1.281552) * error / 0.5) ** 2)
    assert large > 1.08


def test_few_cases_have_the_correlation_within_all_clusters() -> None:
    rng = np.random.default_rng(6)
    rate = np.r_[rng.beta(0.4, 19.6, 60), rng.beta(0.4, 19.6, 400)]  # a correlation of 0.05
    table = {"g": np.repeat(["a", "b"], [300, 2_000]), "c": np.repeat(np.arange(460), 5)}
    table["p"] = (rng.random(2_300) < rate[table["c"]]).astype(int)
    options: dict[str, Any] = {**RATE_P, "reference": {"g": "b"}}
    result, plain = iso.flag(table, **options, cluster="c"), iso.flag(table, **options)
    cases, rows = np.array([table["p"][:300].sum(), table["p"][300:].sum()]), np.array([300, 2_000])
    assert cases[0] < 20
    mean = np.repeat(cases / rows, rows)
    sums = np.bincount(table["c"], weights=table["p"] - mean)
    alone = float((mean * (1 - mean)).sum())
    correlation = np.clip((sums @ sums - alone) / (alone * 4), 0.0, 1.0)
    sizes = 1.0 + 4.0 * np.where(mean[rows.cumsum() - 1] == mean.min(), max(correlation, 0.1), correlation)
    pooled = float(sizes @ (1.0 / rows) / (1.0 / rows).sum())
    mine = sums / np.repeat(rows, [60, 400])
    assumed = float((cases / rows * (1 - cases / rows) / rows).sum())
    alike = float(mine @ mine) * 460 / 459 / assumed
    df = (sums @ sums) ** 2 / float((sums**4).sum()) - 1.0
    expected = stats.f.sf(plain.statistic[0] / (pooled * np.sqrt(max(alike / pooled, 1.0))), 1, df)
    assert result.pvalue[0] == pytest.approx(expected, rel=1e-9)
    uncorrected = iso.flag(table, **options, cluster="c", method=iso.likelihood(correction=None))
    assert uncorrected.pvalue[0] > result.pvalue[0]


@pytest.mark.parametrize("scale", ["difference", "ratio"])
def test_a_group_without_a_case_could_not_have_shown_nothing(scale: Any) -> None:
    data = {"g": np.repeat(["a", "b"], [50, 1_000]), "p": np.r_[np.zeros(50), np.tile([1, 0, 0, 0], 250)]}
    result = iso.flag(data, **RATE_P, reference={"g": "b"}, scale=scale, tolerance=0.8 if scale == "ratio" else 0.05)
    smallest = result.detectable()[0]
    assert 0.2 < smallest < 0.25 if scale == "difference" else 0 < smallest < 0.5
    assert result.rows_for_tolerance()[0] > 500


BOTH: dict[str, Any] = {"outcome": "y", "prediction": "p", "groups": "g"}


def test_several_metrics_are_those_of_single_calls_adjusted_together() -> None:
    table = several()
    result = iso.flag(table, metric="equalized_odds", **BOTH)
    singles = [iso.flag(table, metric=metric, **BOTH) for metric in ("tpr", "fpr")]
    assert result.to_frame()["metric"].to_list() == ["tpr"] * 3 + ["fpr"] * 3
    for name in ("estimate", "disparity", "ci_low", "ci_high", "pvalue", "n"):
        assert getattr(result, name) == pytest.approx(np.concatenate([getattr(one, name) for one in singles]))
    assert result.adjusted_pvalue == pytest.approx(false_discovery_control(result.pvalue))
    again = iso.from_json(result.to_json())
    assert again.metrics == result.metrics
    assert again.widest() == result.widest()
    assert "metric" not in singles[0].to_frame().columns


def test_the_direction_follows_what_is_better() -> None:
    result = iso.flag(several(), metric=["tpr", "fpr"], **BOTH)
    word = dict(zip(zip(result.metrics, result.labels, strict=True), result.direction, strict=True))
    assert (word["tpr", "g=a"], word["fpr", "g=a"]) == ("disfavored", "favored")
    turned = iso.flag(several(), metric="tpr", **BOTH, better="lower")
    assert turned.direction[0] == "favored"
    assert iso.flag(several(), metric="tpr", **BOTH, tolerance=0.5).direction == ("", "", "")


def test_metrics_with_other_rows_missing_keep_their_own() -> None:
    """Outcomes are known of the selected only: their selection rate is that of everybody all the same."""
    table = several()
    table["y"] = np.where(table["p"] == 1, table["y"].astype(float), np.nan)
    result = iso.flag(table, metric=["selection_rate", "ppv"], **BOTH, missing="drop")
    alone = iso.flag(table, metric="selection_rate", prediction="p", groups="g")
    assert result.estimate[:3] == pytest.approx(alone.estimate)


def test_the_widest_gap_is_that_of_the_pairs() -> None:
    table = several()
    scales: list[Any] = ["difference", "ratio"]
    for scale in scales:
        wide = iso.flag(table, metric=["tpr", "fpr"], **BOTH, scale=scale).widest()
        pair = iso.flag(table, metric=wide.metric, **BOTH, scale=scale, reference={"g": wide.groups[1][2:]})
        at = pair.labels.index(wide.groups[0])
        assert wide.value == pytest.approx(abs(pair.disparity[at]))
        assert wide.ci_low < wide.value < wide.ci_high
    small = iso.flag({"p": [1, 0] * 30, "g": ["a"] * 60}, metric="selection_rate", prediction="p", groups="g")
    with pytest.raises(UsageError, match="widest"):
        small.widest()


def test_every_group_is_in_the_findings_worst_first() -> None:
    rng = np.random.default_rng(0)
    group = np.arange(24_000) % 12
    data = {"g": [f"g{i:02}" for i in group], "p": (rng.random(24_000) < 0.2 + 0.05 * group).astype(int)}
    result = iso.flag(data, metric="selection_rate", prediction="p", groups="g")
    told = [text.split(":")[0] for text in result.findings() if text.startswith("g=")]
    assert set(told) == set(result.labels)
    assert told[0] == "g=g00"
    impact = iso.adverse_impact(data, prediction="p", groups="g")
    told = [text.split(":")[0] for text in impact.findings() if text.startswith("g=")]
    assert told == [f"g=g{i:02}" for i in range(11)]  # all but the one selected most often


def test_a_reference_below_the_minimum_size_is_warned_about() -> None:
    table = {"race": ["a"] * 400 + ["b"] * 9, "ok": [0, 1] * 200 + [0, 1, 1] * 3}
    options: dict[str, Any] = {
        "metric": "selection_rate",
        "prediction": "ok",
        "groups": "race",
        "reference": {"race": "b"},
    }
    expected = "The reference, race=b, has fewer than 10 rows that count, so every comparison is rough."
    assert expected in iso.flag(table, **options).warnings
    assert expected in iso.certify(table, **options).warnings
    assert not [w for w in iso.flag(table, min_size=9, **options).warnings if w.startswith("The reference")]


@pytest.mark.parametrize("tolerance", [0.02, 0.1])
def test_a_difference_taken_for_a_ratio_is_refused(tolerance: float) -> None:
    table = {"g": ["a", "b"] * 200, "d": [0, 1, 1, 1] * 100}
    with pytest.raises(UsageError, match="tolerates ratios from"):
        iso.flag(table, metric="selection_rate", prediction="d", groups="g", scale="ratio", tolerance=tolerance)


def test_a_group_that_lacks_large_amounts_is_not_certain_by_its_own_small_variance() -> None:
    """By its own variance, its p-value would pass the level that 30 groups share."""

    def amounts(rows: int, paid: int, most: float) -> FloatArray:
        """Nothing for most people; for the others the quantiles of a gamma law up to ``most``."""
        shares = (np.arange(paid) + 0.5) / paid * most
        return np.concatenate([stats.gamma.ppf(shares, 0.5, scale=2.0), np.zeros(rows - paid)])

    table = {"g": np.repeat(["low", "ref"], [300, 3_000])}
    table["v"] = np.concatenate([amounts(300, 24, 0.8), amounts(3_000, 300, 1.0)])
    roles: dict[str, Any] = {"metric": "mean_prediction", "prediction": "v", "groups": "g", "reference": {"g": "ref"}}
    lines = [iso.flag(table, **roles, method=iso.likelihood(correction=c)).to_frame() for c in ("auto", None)]
    assert lines[0]["status"][0] == "ok"
    assert lines[1]["pvalue"][0] < 0.05 / 30 < lines[0]["pvalue"][0] < 0.05
    assert lines[1]["ci_high"][0] < lines[0]["ci_high"][0] < 0.0


def test_each_of_many_skewed_groups_needs_more_rows_than_one() -> None:
    """A level shared by many groups lies far out in the tail, where the law of skewed means fails first."""

    def scores(rows: int) -> FloatArray:
        return stats.beta.ppf((np.arange(rows) + 0.5) / rows, 0.1, 2.0)

    def statuses(groups: int, rows: int) -> set[str]:
        names = [*(f"g{i}" for i in range(groups)), "ref"]
        table = {
            "g": np.repeat(names, [rows] * groups + [3_000]),
            "v": np.r_[np.tile(scores(rows), groups), scores(3_000)],
        }
        roles: dict[str, Any] = {"metric": "mean_prediction", "prediction": "v", "groups": "g"}
        return set(iso.flag(table, **roles, reference={"g": "ref"}).to_frame()["status"]) - {"reference"}

    assert statuses(1, 100) == {"ok"}
    assert statuses(20, 100) == {"skewed"}
    assert statuses(20, 400) == {"ok"}
