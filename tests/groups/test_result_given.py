"""A stratified result: its table, its words, its storage."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isonomy as iso
from isonomy.errors import NotEnoughData
from isonomy.report import Entry
from isonomy.report.layout import Section
from isonomy.results import phrases
from support.admissions import RATE, admissions, stratified


def result() -> Any:
    return stratified(admissions(), **RATE, reference={"sex": "m"}, given="department")


def test_columns_and_their_order() -> None:
    assert result().to_frame().columns == [
        *("group", "size", "n", "estimate", "reference", "disparity", "ci_low", "ci_high"),
        *("statistic", "pvalue", "adjusted_pvalue", "verdict", "direction", "status"),
        *("raw_estimate", "raw_reference", "unconditional", "accounted", "accounted_low", "accounted_high"),
        *("homogeneity_pvalue", "strata", "one_sided", "detectable"),
    ]


def test_it_is_stored_whole_and_drawn() -> None:
    whole = result()
    again = iso.from_json(whole.to_json())
    assert again.to_frame().equals(whole.to_frame())
    assert again.by_stratum().equals(whole.by_stratum())
    assert again.summary() == whole.summary()
    assert whole.plot().to_dict()["layer"]


def test_small_strata_are_withheld_with_small_groups() -> None:
    whole = result()
    limit = int(whole.by_stratum()["n"].min()) + 1
    hidden = whole.suppressed(limit)
    assert len(hidden.by_stratum()) < len(whole.by_stratum())
    assert not np.isnan(hidden.unconditional[0])
    with pytest.raises(NotEnoughData, match="reference"):
        whole.suppressed(10_000)
    everything = stratified(admissions(), **RATE, given="department").suppressed(10_000)
    assert np.isnan(everything.unconditional).all()
    assert not len(everything.by_stratum())


def test_an_audit_file_can_ask_it() -> None:
    from isonomy.audit.config import parse

    text = """
[data]
path = "x.csv"
[[tests]]
kind = "flag"
metric = "selection_rate"
prediction = "admitted"
groups = "sex"
given = ["department", {column = "age", edges = [30]}]
"""
    assert len(parse(text).tests[0].own_options()["given"]) == 2  # type: ignore[arg-type]


def test_what_people_are_compared_within_has_the_readers_words() -> None:
    words = iso.Labels(columns={"department": "department applied to"})
    source = iso.open_source(admissions(), labels=words)
    told = iso.flag(source, **RATE, reference={"sex": "m"}, given="department")
    assert "comparing people with the same department applied to." in told.null
    assert "without regard to department applied to" in " ".join(told.findings())


def test_every_place_reports_rates_that_add_up() -> None:
    """The sentence, the report's table and the stored result hold adjusted rates; raw ones are named so."""
    whole = result()
    row = whole.to_frame().row(0, named=True)
    sentence = next(text for text in whole.findings() if "adjusted for department" in text)
    assert sentence.startswith(
        f"sex=f: selection rate {phrases.share(row['estimate'])} adjusted for department (1,007 rows), "
        f"sex=m {phrases.share(row['reference'])}; {phrases.points(row['disparity'])} lower"
    )
    raw = f"({phrases.share(row['raw_estimate'])} against {phrases.share(row['raw_reference'])})"
    assert f"22.5 points lower without regard to department {raw}" in whole.summary()
    assert f"{phrases.points(row['disparity'])} lower among people with the same department." in whole.findings()[1]
    stored = iso.from_json(whole.to_json())
    assert stored.estimate[0] - stored.reference_value[0] == pytest.approx(stored.disparity[0], rel=1e-12)
    part = Section(1, Entry(name="a", kind="flag", result=whole), drawn=False)
    (_, numbers), (_, strata) = part.tables
    cells = {column.heading: cell.text for column, cell in zip(numbers.columns, numbers.rows[0], strict=True)}
    assert cells["Adjusted estimate (%)"] == phrases.percent(row["estimate"])
    assert cells["Adjusted reference (%)"] == phrases.percent(row["reference"])
    assert cells["Raw estimate (%)"] == phrases.percent(row["raw_estimate"])
    assert cells["Raw reference (%)"] == phrases.percent(row["raw_reference"])
    assert [row[1].text for row in strata.rows] == ["department=easy", "department=hard"]
    assert "same weights" in part.table_note
    assert "odds" in stratified(admissions(), **RATE, given="department", scale="odds_ratio").table_note()


def test_a_mean_is_adjusted_in_words_too() -> None:
    options: dict[str, Any] = {"metric": "mean_prediction", "prediction": "score", "groups": "sex"}
    told = stratified(admissions(), **options, reference={"sex": "m"}, given="department").findings()
    assert any("adjusted for department, over 1,007 rows against" in sentence for sentence in told)


def banded(**options: Any) -> Any:
    data = admissions()
    data["income"] = np.random.default_rng(2).uniform(20, 100, 2_000)
    words = iso.Labels(columns={"income": "yearly income"})
    source = iso.open_source(data, labels=words)
    return stratified(source, **RATE, given=["department", iso.cut("income", [40, 70.5])], **options)


def test_people_in_a_band_are_said_to_be_in_one_and_bands_are_shown() -> None:
    told = banded(reference={"sex": "m"})
    alike = "people with the same department and in the same band of yearly income."
    assert told.null.endswith(f"comparing {alike}")
    assert alike in told.findings()[1]
    assert told.findings()[-1] == "Bands of yearly income: under 40; 40 to under 70.5; 70.5 and over."
    assert iso.from_json(told.to_json()).summary() == told.summary()
    assert len(told.by_stratum()) == 6
    joint = iso.certify(admissions(), **RATE, given="department")
    assert not any("Bands" in sentence for sentence in joint.findings())


def counts(cells: dict[tuple[str, str], int]) -> dict[str, Any]:
    """A table with so many rows of each group in each stratum, every third admitted."""
    sex, department = (np.repeat([key[i] for key in cells], list(cells.values())) for i in (0, 1))
    return {"sex": sex, "department": department, "admitted": (np.arange(sex.size) % 3 == 0).astype(int)}


def test_strata_do_not_give_away_a_small_one_by_subtraction() -> None:
    """Three women in the third department are too few to be listed: 103 less 60 and 40 would tell of them."""
    cells = {("f", "a"): 60, ("f", "b"): 40, ("f", "c"): 3, ("f", "d"): 70}
    cells |= {("m", name): 80 for name in "abcd"}
    whole = stratified(counts(cells), **RATE, reference={"sex": "m"}, given="department")
    assert whole.by_stratum()["stratum"].to_list() == ["department=a", "department=b", "department=d"]
    hidden = whole.published(20)
    assert hidden.by_stratum()["stratum"].to_list() == ["department=a", "department=d"]
    assert hidden.published(20).by_stratum().equals(hidden.by_stratum())
    further = hidden.published(65).by_stratum()  # 43 women are in the strata withheld before: 60 and 70 less is 103
    assert further["stratum"].to_list() == ["department=d"]
    assert 3 not in hidden.effects.n


def test_a_stratum_is_withheld_with_any_small_group_in_it() -> None:
    """Beside the rest, the numbers of two groups of a stratum give the third's."""
    cells = {(sex, name): 60 for sex in "fmx" for name in "abcd"} | {("x", "a"): 4}
    whole = stratified(counts(cells), **RATE, given="department")
    shown = whole.published(20).by_stratum()
    assert set(shown["stratum"]) == {"department=c", "department=d"}


def test_people_only_in_the_reference_of_a_stratum_are_not_told() -> None:
    """Two men in a department without a woman: what is left of all men."""
    cells = {("f", "a"): 60, ("f", "b"): 50, ("m", "a"): 70, ("m", "b"): 60, ("m", "c"): 2}
    whole = stratified(counts(cells), **RATE, reference={"sex": "m"}, given="department")
    assert len(whole.by_stratum()) == 2
    assert len(whole.published(20).by_stratum()) == 1


def test_named_groups_do_not_tell_of_a_stratum_by_their_difference() -> None:
    """All women of a department but three are older: the difference of the two groups."""
    cells = {("f", name): 60 for name in "abcd"} | {("m", name): 90 for name in "abcd"}
    data = counts(cells)
    older = (data["sex"] == "f") & (np.arange(data["sex"].size) >= 3)
    groups = ["sex", iso.where("older women", iso.col("older") == 1)]
    whole = stratified({**data, "older": older.astype(int)}, **{**RATE, "groups": groups}, given="department")
    assert len(whole.by_stratum()) == 12
    assert not len(whole.published(20).by_stratum())  # three remain the difference in any sum of strata
    assert len(whole.published(2).by_stratum()) == 12


def test_a_reference_that_overlaps_a_group_does_not_tell_of_both() -> None:
    """Men of one region in a department: all men of it, less those beside whom the region's people stand."""
    data = counts({("f", "a"): 60, ("m", "a"): 90, ("f", "b"): 60, ("m", "b"): 90, ("f", "c"): 60, ("m", "c"): 90})
    north = (data["sex"] == "f") | (np.arange(data["sex"].size) % 2 == 0)
    late = np.flatnonzero((data["sex"] == "m") & (data["department"] == "a"))
    north[late[5:]] = False
    data["region"] = np.where(north, "north", "south")
    whole = stratified(data, **{**RATE, "groups": ["sex", "region"]}, given="department", reference={"sex": "m"})
    told = whole.by_stratum().filter(whole.by_stratum()["stratum"] == "department=a")["reference_n"].to_list()
    assert len(set(told)) > 1  # 90 men, and those of them who are not in the north
    assert set(whole.published(20).by_stratum()["stratum"]) == {"department=c"}


def test_very_many_strata_are_not_listed_when_small_ones_are_withheld() -> None:
    from isonomy.groups.likelihood import within

    rng = np.random.default_rng(0)
    rows = 30_000
    data = {
        "sex": np.where(rng.random(rows) < 0.5, "f", "m"),
        "department": np.arange(rows) % (within.SHOWN // 2 + 1),
        "admitted": rng.integers(0, 2, rows),
    }
    data["department"][:2_000] = 0
    whole = stratified(data, **RATE, given="department")
    assert len(whole.by_stratum()) == 2
    assert not len(whole.published(10).by_stratum())
    assert len(whole.published(0).by_stratum()) == 2
