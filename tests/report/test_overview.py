"""The first page: one line of numbers per question, its arithmetic, and who chose thresholds and tolerances."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest

import isonomy as iso
from isonomy.report import Decided, Entry, html
from isonomy.report.overview import choices, direct, overview, worked
from isonomy.report.render import css_text
from isonomy.results import Evidence
from support.fakes import document, fake

# 407 of 808 and 2,795 of 3,592 were approved.
LENDER = {"ok": np.repeat([1, 0, 1, 0], [407, 401, 2_795, 797]), "race": np.repeat(["Black", "White"], [808, 3_592])}
WHITE: dict[str, Any] = {"reference": {"race": "White"}, "prediction": "ok", "groups": "race"}


@pytest.fixture(scope="module")
def simulated() -> pl.DataFrame:
    return pl.DataFrame(iso.simulate.lender(8_000, seed=1).frame())


def flag(**options: Any) -> Evidence:
    return iso.flag(LENDER, metric="selection_rate", **WHITE, **options)


def test_a_ratio_is_worked_out_with_the_counts_of_the_report() -> None:
    result = iso.adverse_impact(LENDER, **WHITE)
    assert worked(result).startswith("race=Black: 407/808 (50.4 %) divided by 2,795/3,592 (77.8 %) is 0.647.")
    assert pytest.approx(0.647, abs=5e-4) == 407 / 808 / (2_795 / 3_592)


def test_the_first_page_says_what_is_tested_and_what_does_not_add_up() -> None:
    ratio, difference = overview(iso.adverse_impact(LENDER, **WHITE)), overview(flag())
    assert ratio is not None
    assert ratio[-1].endswith("(ratio\u00a0≥\u00a00.8)")
    assert difference is not None
    assert "(" not in difference[-1]
    plain: Any = flag()
    assert [direct(plain), direct(replace(plain, disparity=plain.disparity - 0.01))] == [False, True]


def test_each_scale_is_worked_out_in_its_own_way() -> None:
    assert worked(flag()) == "race=Black: 407/808 (50.4 %) minus 2,795/3,592 (77.8 %) is −27.4 points."
    assert worked(flag(scale="ratio")).endswith("407/808 (50.4 %) divided by 2,795/3,592 (77.8 %) is 0.647.")
    odds = worked(flag(scale="odds_ratio"))
    assert (
        odds == "race=Black: odds of 1.01 (407/808 (50.4 %)) divided by odds of 3.51 (2,795/3,592 (77.8 %)) give 0.289."
    )
    assert worked(fake()) == ""  # no estimate, nothing to work out


def test_a_line_has_the_group_its_value_the_other_the_difference_the_interval_and_p() -> None:
    line = overview(flag())
    assert line is not None
    assert line[:4] == ("race=Black", "50.4\u00a0%", "race=White: 77.8\u00a0%", "−27.4\u00a0points")
    assert line[4].startswith("−31.")
    assert " to −2" in line[4]
    assert line[5] == "<\u00a00.001"
    assert overview(fake()) is not None


@pytest.mark.parametrize("kind", ["Black", "{0} {x}", "<b>"])
def test_labels_are_text_in_the_arithmetic(kind: str) -> None:
    table = {"ok": LENDER["ok"], "race": np.where(LENDER["race"] == "Black", kind, "White")}
    result = iso.adverse_impact(table, **WHITE)
    assert worked(result).startswith(f"race={kind}: 407/808")
    page = html(document(entries=(Entry(name="a", kind="adverse_impact", result=result),)))
    assert "<b>:" not in page


def test_who_chose_is_on_the_first_page() -> None:
    decided = Decided("Model Risk Committee", "2026-01-15", "smaller gaps do not matter")
    entries = [
        Entry(name="a", kind="flag", result=flag(tolerance=0.02), decided=decided),
        Entry(name="b", kind="flag", result=flag(tolerance=0.02, scale="difference"), decided=decided),
        Entry(name="c", kind="adverse_impact", result=iso.adverse_impact(LENDER, **WHITE)),
    ]
    assert choices(entries) == (
        ("Tolerance: 2.0 points", "1 and 2", "Model Risk Committee", "2026‑01‑15", "smaller gaps do not matter"),
        ("Threshold: 0.800 (the default)", "3", "not recorded", "not recorded", "not recorded"),
    )
    page = html(document(entries=tuple(entries)))
    assert page.index("Who chose the thresholds and tolerances") < page.index('id="test-1"')
    assert "Model Risk Committee" in page


def test_a_question_on_several_scales_counts_once() -> None:
    scales = [Entry(name=scale, kind="flag", result=flag(scale=scale)) for scale in ("difference", "odds_ratio")]
    impact = Entry(name="ratio", kind="adverse_impact", result=iso.adverse_impact(LENDER, **WHITE))
    asked = document(entries=(*scales, impact))
    assert asked.counts["violation"] == 1
    assert sum(asked.tally.values()) == 3  # the files still count tests
    assert "1 question was asked in 3 tests: 1 difference shown." in html(asked)
    assert document(entries=(scales[0], replace(scales[0], name="again"))).counts["violation"] == 2


def test_scales_with_different_verdicts_are_not_merged() -> None:
    shown = Entry(name="flag", kind="flag", result=flag(adjust="none"))
    open_ = Entry(name="ratio", kind="adverse_impact", result=iso.adverse_impact(LENDER, threshold=0.65, **WHITE))
    asked = document(entries=(shown, open_))
    assert (asked.counts["violation"], asked.counts["inconclusive"]) == (1, 1)
    assert asked.headline == "2 questions were tested: 1 difference shown and 1 inconclusive."


def test_adjusted_rates_are_called_adjusted() -> None:
    people = {**LENDER, "size": np.arange(4_400) % 2}
    result = iso.flag(people, metric="selection_rate", given="size", **WHITE)
    line = overview(result)
    assert line is not None
    assert line[1].endswith("(adjusted)")
    assert line[2].endswith("(adjusted)")
    assert worked(result).startswith("race=Black, adjusted: ")
    assert Entry(name="a", kind="flag", result=result).heading == "Selection rate by race, among comparable people"


def test_every_printed_page_has_the_title_the_number_and_the_fingerprint() -> None:
    page = html(document(title='A "title" </style><b>'), "0123456789abcdef" * 4)
    style = page.partition("</style>")[0]
    assert "counter(page)" in style
    assert "0123456789abcdef0123456789abcdef" in style
    assert css_text('"}</style>') == '"\\000022\\00007d\\00003c\\00002fstyle\\00003e"'
    assert page.count("</style>") == 1
    assert "SHA" not in html(document()).partition("</style>")[0]


def test_standard_deviations_are_worked_out() -> None:
    lender = {**LENDER, "sex": np.resize(["f", "m"], 4_400)}
    result = iso.adverse_impact(lender, **WHITE)
    text = worked(result)
    assert "808 times 3,202/4,400, which is 588.0, would be expected" in text
    total, hits = 4_400.0, 3_202.0
    spread = np.sqrt(808 * 3_592 * hits * (total - hits) / (total**2 * (total - 1)))
    assert f"divided by a standard deviation of {spread:.2f}" in text
    assert f"is −{abs((407 - 808 * hits / total) / spread):.1f} standard deviations." in text


def test_thresholds_are_worked_out_with_the_people_above_them(simulated: pl.DataFrame) -> None:
    result = iso.equalize_thresholds(
        simulated, groups="race", score="score", outcome="repaid", threshold=0.7, target="selection_rate", rng=1
    )
    i = result.key_line()
    assert i is not None
    scores = simulated.filter(race=result.labels[i].removeprefix("race="))["score"].to_numpy()
    before, after = (int((scores >= float(cut)).sum()) for cut in (0.7, result.thresholds[i]))
    shares = [f"{n:,}/{len(scores):,} ({100 * n / len(scores):.1f} %)" for n in (before, after)]
    text = worked(result)
    assert f"with the threshold 0.700, {shares[0]} are selected" in text
    assert f"{shares[1]} are: {abs(after - before):,} {'more' if after > before else 'fewer'}." in text


def test_scores_are_worked_out_in_standard_errors(simulated: pl.DataFrame) -> None:
    result = iso.predictive_parity(simulated, outcome="repaid", score="score", groups="race", rng=1)
    i = result.key_line()
    assert i is not None
    text = worked(result)
    assert text.startswith(f"Near a score of {result.score[i]:.3f}, with a bandwidth of")
    assert f"(effective number {result.effective_n[i]:,.0f})" in text
    deviations = f"{result.disparity[i] / result.se[i]:.1f}".replace("-", "−")
    assert text.endswith(f"it is {deviations} standard errors.")
    margin = iso.marginal_outcomes(simulated, outcome="repaid", score="score", groups="race", threshold=0.6)
    assert worked(margin).startswith("At the threshold, with a bandwidth of")
