"""Sentences about strata."""

from __future__ import annotations

from isonomy.likelihood import wording_given as wording


def test_factors_account_for_and_neither_explain_nor_justify() -> None:
    sentence = wording.accounted(-0.05, (-0.07, -0.03), 0.05, ["income", "region"], "number")
    assert sentence == "Accounted for by income and region: -0.0500 (95 % interval -0.0700 to -0.0300)."
    assert wording.accounted(1.2, (1.1, 1.3), 0.05, ["income"], "ratio").startswith(
        "Accounted for by income: a factor of 1.20"
    )
    texts = (sentence, wording.LEGITIMATE, wording.finding("g", -0.2, -0.1, ["income"], "number"), *wording.ASSUMED)
    assert not any(word in text for text in texts for word in ("explain", "justif"))


def test_the_null_names_the_factors() -> None:
    assert wording.null("For each group, it is 0.", ["a", "b"]) == (
        "For each group, it is 0, comparing people with the same a and b."
    )


def test_warnings_name_groups() -> None:
    assert "Breslow and Day" in wording.differing_warning(["a"], "odds_ratio")
    assert "Cochran's Q" in wording.differing_warning(["a"], "ratio")
    assert "up to 3" in wording.one_sided_warning(["a"], 3)
    assert wording.share(27.2, 18, 39) == "That is 27 % of it (18 to 39 %)."


def test_shares_are_told_in_points() -> None:
    assert wording.finding("women", -0.191, 0.02, ["income"], "points") == (
        "women: 19.1 points lower without regard to income, 2.0 points higher among people with the same."
    )
    accounted = wording.accounted(-0.0333, (-0.0445, -0.0221), 0.05, ["income"], "points")
    assert accounted == "Accounted for by income: 3.3 points lower, 95 % interval 2.2 to 4.5."
