"""Sentences about adverse impact."""

from __future__ import annotations

from isonomy.likelihood import wording_impact as wording


def test_three_facts_stand_apart() -> None:
    text = wording.overview(["a"], [], [], 3, 0.8)
    assert text == (
        "3 categories were compared. Observed impact ratios below 0.800: a. A difference from the comparator was shown "
        "for none. A ratio below the threshold was shown for none."
    )


def test_a_category_in_words() -> None:
    text = wording.finding("sex=f", (12, 40, 0.3), "sex=m", (0.5, 0.3, 0.76), 0.05, 0.001, 0.002, 0.8)
    assert text.startswith("sex=f: 12 of 40 selected (30.0 %), an impact ratio of 0.500 to sex=m (95 % interval 0.300")
    assert wording.shortfall(8, 12, 0.8) == (
        "A ratio of 0.800 would have needed 8 more selections, the comparator's rate 12."
    )
    assert "needed 1 more selection, the comparator's rate 2." in wording.shortfall(1, 2, 0.8)
    assert wording.shortfall(0, 3, 0.8) == "3 more selections would have reached the comparator's rate."
    assert "0.400 and 0.600" in wording.bounds(0.4, 0.6)


def test_weighted_counts_are_told_beside_the_rows() -> None:
    text = wording.finding(
        "sex=f", (12, 40, 0.3), "sex=m", (0.5, 0.3, 0.76), 0.05, 0.001, 0.002, 0.8, people=(1_500, 5_000)
    )
    assert text.startswith(
        "sex=f: 12 of 40 rows selected, which stand for 1,500 of 5,000 people by weight (30.0 %), an impact ratio of "
    )
    assert wording.shortfall(800, 1_200, 0.8, weighted=True) == (
        "A ratio of 0.800 would have needed 800 more selections by weight, the comparator's rate 1,200."
    )


def test_what_the_threshold_is_not_cannot_be_read_as_a_ratio_of_one() -> None:
    assert "a ratio below the threshold is not by itself unlawful, and one above it" in wording.LIMITS[0]


def test_warnings() -> None:
    assert "195 of 7,214" in wording.unknown_warning("race", 195, 7_214)
    assert "2 %" in wording.left_out_warning(["a"], 10, 0.02)
    assert "%" not in wording.left_out_warning(["a"], 10, 0.0)


def test_p_values_say_what_they_are_against() -> None:
    text = wording.finding("sex=f", (12, 40, 0.3), "sex=m", (0.5, 0.3, 0.76), 0.05, 0.0002, 0.02, 0.8)
    assert "Against equal rates, for this category alone: p < 0.001; against a ratio of 0.800 or more, " in text
    assert text.endswith("adjusted for all categories: p = 0.0200.")


def test_a_title_promises_bands_only_where_there_are_some() -> None:
    assert wording.cutoffs(0.05, banded=True) == "Impact ratio by cut-off, with simultaneous 95 % bands"
    assert wording.cutoffs(0.05, banded=False) == "Impact ratio by cut-off"
