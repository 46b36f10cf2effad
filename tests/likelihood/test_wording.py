"""What is said, from typed values alone."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import isonomy as iso
from isonomy import Verdict
from isonomy.likelihood import Estimate, wording

DATA = {"p": np.tile([1, 0, 0], 60), "g": np.repeat(["a", "b", "c"], 60), "psi": np.tile([2 / 3, -1 / 3, -1 / 3], 60)}
RATE: dict[str, Any] = {"metric": "selection_rate", "prediction": "p", "groups": "g"}


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        (1e-5, "selection_rate less 0.00001 is"),
        (0.25, "selection_rate less 0.25 is"),
        ("population", "selection_rate less that of the population is"),
        ("rest", "selection_rate less that of the rest of the population is"),
        ({"g": "a"}, "selection_rate less that of g=a is"),
        (Estimate(1 / 3, "psi"), "selection_rate less the estimate 0.333333 is"),
    ],
    ids=str,
)
def test_a_value_is_subtracted_and_people_have_one(reference: Any, words: str) -> None:
    for ask in (iso.flag, iso.certify):
        result = ask(DATA, reference=reference, **RATE)
        assert words in result.null
        again = iso.from_json(result.to_json())
        axis = again.plot().to_dict()["layer"][-2]["encoding"]["x"]["title"]
        assert f"{axis} is" == words


def test_one_disparity_for_all_groups_is_named_and_several_are_not() -> None:
    assert "is 0.0100." in iso.certify(DATA, null=0.01, reference=0.3, **RATE).null
    assert "is as given." in iso.certify(DATA, null=[0.01, 0.0, 0.0], reference=0.3, **RATE).null


@pytest.mark.parametrize(
    ("flagged", "within", "tested", "words"),
    [
        ([[], []], 0, 3, "None of 3 tested groups was flagged."),
        ([["g=a"], []], 1, 3, "1 of 3 tested groups was flagged: 1 disfavoured (g=a). 1 was shown to lie within the"),
        ([["g=a"], ["g=b"]], 0, 2, "2 of 2 tested groups were flagged: 1 disfavoured (g=a), 1 favoured (g=b). Listed"),
    ],
    ids=str,
)
def test_the_overview_counts(flagged: list[list[str]], within: int, tested: int, words: str) -> None:
    apart = dict(zip((wording.DISFAVOURED, wording.FAVOURED), flagged, strict=True))
    assert wording.flag_overview(apart, within, tested, 3, "two-sided").startswith(words)


@pytest.mark.parametrize(
    ("disparity", "interval", "words"),
    [
        (-0.194, (-0.2, -0.188), "19.4 points lower, 95 % interval 18.8 to 20.0"),
        (0.05, (0.01, 0.09), "5.0 points higher, 95 % interval 1.0 to 9.0"),
        (-0.01, (-0.03, 0.01), "1.0 points lower, 95 % interval 1.0 higher to 3.0 lower"),
        (0.02, (-0.01, 0.05), "2.0 points higher, 95 % interval 1.0 lower to 5.0 higher"),
    ],
)
def test_shares_are_told_in_percent_and_points(disparity: float, interval: tuple[float, float], words: str) -> None:
    finding = wording.Finding(
        group="Applicants under 25", metric="approval rate", scale="difference", estimate=0.197 + disparity, n=400.0,
        reference=0.197, disparity=disparity, interval=interval, alpha=0.05, pvalue=1e-9, adjusted=0.02,
        verdict=Verdict.VIOLATION, alternative="two-sided", direction="disfavoured", against="all applicants",
        share=True,
    )  # fmt: skip
    text = wording.group_finding(finding)
    assert f"of 400 rows, all applicants 19.7 %; {words}; p < 0.001, adjusted p = 0.0200." in text
    assert text.startswith("Applicants under 25: approval rate ")


def test_no_sentence_of_a_report_is_python() -> None:
    for sentence in (wording.LARGE_SAMPLE, wording.PLUGIN_WARNING, wording.dependence_warning("bh")):
        assert not re.search(r"\w=", sentence)
    for sentence in (wording.joint_contrast([], True), wording.joint_contrast(["a"], False)):
        assert not re.search(r"\w=", sentence)
    assert "all 1" not in wording.plugin_contrast(1, [])
