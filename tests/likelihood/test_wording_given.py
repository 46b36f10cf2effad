"""Sentences about strata."""

from __future__ import annotations

from isonomy.likelihood import wording_given as wording


def test_factors_account_for_and_neither_explain_nor_justify() -> None:
    sentence = wording.accounted(-0.05, (-0.07, -0.03), 0.05, ["income", "region"], "number")
    assert sentence == "Accounted for by income and region: -0.0500 (95 % interval -0.0700 to -0.0300)."
    assert wording.accounted(1.2, (1.1, 1.3), 0.05, ["income"], "ratio").startswith(
        "Accounted for by income: a factor of 1.20"
    )
    finding = wording.finding("g", (0.1, 0.3), -0.2, -0.1, "income", "with the same income", "number", share=False)
    assert (
        finding == "g: -0.200 without regard to income (0.100 against 0.300), -0.100 among people with the same income."
    )
    texts = (sentence, wording.LEGITIMATE, finding, *wording.ASSUMED)
    assert not any(word in text for text in texts for word in ("explain", "justif"))


def test_the_null_names_the_factors() -> None:
    assert wording.null("For each group, it is 0.", wording.alike(["a", "b"], {})) == (
        "For each group, it is 0, comparing people with the same a and b."
    )


def test_people_in_one_band_are_not_said_to_be_the_same() -> None:
    bands = {"income": ("under 40", "40 and over"), "age": ("under 30", "30 and over")}
    assert wording.alike(["income"], bands) == "in the same band of income"
    assert wording.alike(["age", "income"], bands) == "in the same bands of age and income"
    assert wording.alike(["region", "income"], bands) == "with the same region and in the same band of income"
    assert wording.banded("income", bands["income"]) == "Bands of income: under 40; 40 and over."
    assert "adjusted estimate is the rate with the common odds ratio to it" in wording.adjusted_note("odds_ratio")
    edges = tuple(f"{i} to under {i + 1}" for i in range(40))
    assert wording.banded("income", edges).endswith("19 to under 20; and 20 more.")


def test_warnings_name_groups() -> None:
    assert "Breslow and Day" in wording.differing_warning(["a"], "odds_ratio")
    assert "Cochran's Q" in wording.differing_warning(["a"], "ratio")
    assert "up to 3" in wording.one_sided_warning(["a"], 3)
    assert wording.share(27.2, 18, 39) == "That is 27 % of it (18 to 39 %)."


def test_shares_are_told_in_points() -> None:
    rates, alike = (0.55, 0.741), "in the same band of income"
    assert wording.finding("women", rates, -0.191, 0.02, "income", alike, "points", share=True) == (
        "women: 19.1 points lower without regard to income (55.0 % against 74.1 %), 2.0 points higher among people in "
        "the same band of income."
    )
    accounted = wording.accounted(-0.0333, (-0.0445, -0.0221), 0.05, ["income"], "points")
    assert accounted == "Accounted for by income: 3.3 points lower, 95 % interval 2.2 to 4.5."
