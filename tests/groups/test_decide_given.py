"""What the reader is told of strata."""

from __future__ import annotations

import numpy as np

from support.admissions import stratified


def test_effects_that_differ_are_told_and_shown() -> None:
    rng = np.random.default_rng(0)
    group, stratum = rng.integers(0, 2, 4_000), rng.integers(0, 2, 4_000)
    rate = np.where(group == stratum, 0.5, 0.3)
    data = {"g": group, "s": np.append(stratum[:-3], [2, 2, 2]), "p": (rng.random(4_000) < rate).astype(int)}
    data["g"][-3:] = 1
    result = stratified(data, metric="selection_rate", prediction="p", groups="g", reference={"g": 0}, given="s")
    assert result.homogeneity_pvalue[1] < 0.001
    assert any("differs between strata for g=1" in sentence for sentence in result.warnings)
    assert any("one side is empty" in sentence for sentence in result.warnings)
    shown = result.by_stratum()
    assert shown["stratum"].to_list() == ["s=0", "s=1"]
    assert shown["disparity"][0] < 0 < shown["disparity"][1]


def test_strata_too_small_to_judge_are_told() -> None:
    data = {"g": np.tile([0, 1], 60), "s": np.repeat(np.arange(60), 2), "p": np.tile([0, 1, 1, 0, 1, 1], 20)}
    result = stratified(data, metric="selection_rate", prediction="p", groups="g", reference={"g": 0}, given="s")
    assert any("could not be judged" in sentence for sentence in result.warnings)
    assert len(result.by_stratum()) == 0
