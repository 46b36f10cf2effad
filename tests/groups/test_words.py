"""What is said, from typed values alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isonomy as iso
from isonomy import Verdict
from isonomy.groups import Estimate
from support.charts import main_panel

DATA = {"p": np.tile([1, 0, 0], 60), "g": np.repeat(["a", "b", "c"], 60), "psi": np.tile([2 / 3, -1 / 3, -1 / 3], 60)}
RATE: dict[str, Any] = {"metric": "selection_rate", "prediction": "p", "groups": "g"}


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        (1e-5, "0.00001"),
        (0.25, "0.25"),
        ("population", "that of the population"),
        ("rest", "that of the rest of the population"),
        ({"g": "a"}, "that of g=a"),
        (Estimate(1 / 3, "psi"), "the estimate 0.333333"),
    ],
    ids=str,
)
def test_a_value_is_subtracted_and_people_have_one(reference: Any, words: str) -> None:
    for ask in (iso.flag, iso.certify):
        result = ask(DATA, reference=reference, **RATE)
        assert f"selection rate equals {words}." in result.null
        again = iso.from_json(result.to_json())
        axis = main_panel(again.plot())["layer"][-2]["encoding"]["x"]
        assert axis["title"] == f"selection rate minus {words}, in points"
        assert "100 * datum.value" in axis["axis"]["labelExpr"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tolerance": 0.02}, "its selection rate differs from that of the population by at most 2.0 points."),
        ({"null": iso.null(side="greater")}, "its selection rate is at most that of the population."),
        ({"null": iso.null(side="less")}, "its selection rate is at least that of the population."),
        ({"null": 0.1}, "its selection rate minus that of the population equals 10.0 points."),
        ({"scale": "ratio"}, "its selection rate divided by that of the population equals 1.00."),
    ],
    ids=str,
)
def test_the_hypothesis_is_told_without_signs_where_it_can_be(options: dict[str, Any], words: str) -> None:
    assert iso.flag(DATA, **RATE, **options).null == f"For each group, {words}"


def test_groups_are_told_worst_first() -> None:
    rate = np.repeat([0.5, 0.2, 0.35, 0.8, 0.49], 1_000)
    data = {"p": np.random.default_rng(1).random(5_000) < rate, "g": np.repeat(list("abcde"), 1_000)}
    told = iso.flag(data, **RATE).findings()
    assert [text.partition(":")[0] for text in told[1:6]] == ["g=b", "g=c", "g=e", "g=a", "g=d"]
    assert "Disfavored: g=b and g=c. Favored: g=d and g=a." in told[0]


def test_groups_without_a_test_are_named() -> None:
    data = {"p": [1, 0] * 50, "g": ["a"] * 90 + ["few"] * 10}
    result = iso.flag(data, min_size=20, **RATE)
    assert "Listed but not tested, because they have fewer than 20 rows that count: g=few." in result.warnings
    assert "1 group was listed without a verdict" in result.findings()[0]


def test_rows_used_are_those_the_metric_is_computed_on() -> None:
    data = {"p": [1, 0] * 90, "y": [1, 1, 0] * 60, "g": ["a", "b"] * 90}
    assert iso.flag(data, metric="tpr", outcome="y", prediction="p", groups="g").provenance.rows == 120
    assert iso.flag(data, metric="fpr", outcome="y", prediction="p", groups="g").provenance.rows == 60
    assert iso.flag(data, metric=["tpr", "fpr"], outcome="y", prediction="p", groups="g").provenance.rows == 180


def test_labelled_shares_are_shares() -> None:
    words = iso.Labels(metrics={"tpr": "approved of those who repay", "fpr": "approved of those who do not"})
    data = {"p": [1, 0] * 90, "y": [1, 1, 0] * 60, "g": ["a", "b"] * 90}
    several = iso.flag(
        iso.open_source(data, labels=words), metric=["tpr", "fpr"], outcome="y", prediction="p", groups="g"
    )
    assert all(several.shares)
    assert several.units()["disparity"] == "points"
    assert iso.flag(data, metric="brier", outcome="y", score="p", groups="g").units() == {}


def test_one_sided_findings_are_in_points_and_say_what_was_asked() -> None:
    result = iso.flag(DATA, null=iso.null(side="less"), method=iso.likelihood(interval="one-sided"), **RATE)
    told = result.findings()[1]
    assert "33.3 % (60 rows), compared with 33.3 % for the population" in told
    assert "95 % upper bound " in told
    assert " points higher; " in told
    assert told.endswith("The test was one-sided: it was not shown that the value is lower.")


def test_one_side_of_another_null_is_not_undecided() -> None:
    """A group far on the other side of the null was not shown to lie below it, and the data do tell."""
    told = iso.flag(DATA, null=iso.null(-0.3, side="less"), **RATE).findings()[1]
    assert told.endswith("The test was one-sided: it was not shown that the value is lower.")


def test_shares_by_weight_are_called_so_and_the_best_group_an_estimate() -> None:
    table = {**DATA, "w": np.tile([1.0, 2.0, 3.0], 60)}
    weighted = iso.flag(table, weight="w", reference="highest", **RATE).findings()
    assert "16.7 % (by weight, 60 rows)" in weighted[1]
    assert "The highest group of a column is itself estimated." in weighted[-1]
    assert not any("by weight" in told or "itself estimated" in told for told in iso.flag(table, **RATE).findings())
    impact = iso.adverse_impact(table, weight="w", prediction="p", groups="g").findings()
    assert "20 of 60 rows selected, which stand for 20 of 120 people by weight (16.7 %)" in impact[1]
    assert "The category selected most often is itself estimated." in impact[-1]
    named = iso.adverse_impact(table, reference={"g": "a"}, prediction="p", groups="g").findings()
    assert not any("itself estimated" in told or "by weight" in told for told in named)


def test_a_column_with_one_value_is_told() -> None:
    table = {**DATA, "country": np.repeat("EU", 180)}
    for ask in (iso.flag, iso.certify):
        result = ask(table, metric="selection_rate", prediction="p", groups=["g", "country"])
        assert "there is nobody to compare them with: country=EU." in " ".join(result.findings())
        named = ask(DATA, reference={"g": "a"}, **RATE)
        assert "there is nobody" not in " ".join(named.findings())


def test_the_highest_group_is_not_said_to_be_compared_with_itself() -> None:
    table = {"p": np.tile([1, 0, 1, 1], 100), "g": np.tile(["a", "a", "b", "b"], 100)}
    told = iso.flag(table, reference="highest", metric="selection_rate", prediction="p", groups="g").findings()
    assert told[2] == "g=b: selection rate 100.0 % (200 rows). In these data it is itself the highest group."
    assert "No difference" not in told[1]


def test_a_difference_is_told_beside_the_tolerance_that_was_set() -> None:
    table = {
        "g": np.repeat(["a", "b", "c"], 1_000),
        "p": np.concatenate([np.arange(1_000) < k for k in (300, 520, 620)]),
    }
    result = iso.flag({**table, "p": table["p"].astype(int)}, tolerance=0.05, **RATE)
    told = result.findings()
    assert "shown to differ from the population by more than the tolerance." in told[0]
    assert any(text.endswith("A difference larger than the tolerance was shown: disfavored.") for text in told)
    unclear = [i for i, verdict in enumerate(result.verdicts) if verdict is Verdict.INCONCLUSIVE]
    neither = [text for text in told if text.endswith("nor rule one out.")]
    assert len(neither) == len(unclear) == 1


def test_people_whose_group_is_not_recorded_are_neither_favored_nor_disfavored() -> None:
    table = {
        "p": np.repeat([1, 0, 1, 0, 1, 0], [500, 500, 800, 200, 100, 900]),
        "g": np.repeat(np.array(["a", "b", None], dtype=object), 1_000),
    }
    result = iso.flag(table, missing_group="level", **RATE)
    ways = dict(zip(result.labels, result.direction, strict=True))
    assert ways == {"g=a": "favored", "g=b": "favored", "g=(missing)": ""}
    assert {verdict.value for verdict in result.verdicts} == {"violation"}
    told = result.findings()
    assert "Favored: g=b and g=a. Called neither favored nor disfavored, because" in told[0]
    assert "the group is not recorded: g=(missing)." in told[0]
    assert next(text for text in told if text.startswith("g=(missing):")).endswith("A difference was shown.")


def test_impact_has_three_facts_in_three_columns() -> None:
    table = {"p": np.repeat([1, 0, 1, 0], [700, 1_300, 800, 1_200]), "g": np.repeat(["a", "b"], 2_000)}
    result = iso.adverse_impact(table, prediction="p", groups="g")
    page = result.pages()["Three facts about each ratio"]
    headings = [result.described(page)[name].title for name in page]
    assert headings[2:7] == [
        "Impact ratio", "Observed below 0.800", "Shown to differ from equal rates", "p‑value for equal rates",
        "Shown to be below 0.800",
    ]  # fmt: skip
    assert result.marks()["inconclusive"] == "Not shown"  # not 'inconclusive' next to p < 0.001
    assert [text.split(".")[0] for text in result.findings()[:1]] == ["2 categories were compared"]
    assert "is below 0.800 for no category" in result.findings()[0]


def test_unknown_categories_have_bounds_without_sampling_error() -> None:
    group = np.array(["a"] * 400 + ["b"] * 400 + [None] * 40, dtype=object)
    table = {"p": np.resize([1, 0, 1, 1, 0], 840), "g": group}
    told = iso.adverse_impact(table, prediction="p", groups="g", missing_group="level").findings()
    assert any("in these data lies between" in text and "do not include sampling error." in text for text in told)
