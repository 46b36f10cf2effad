"""The page for users of other libraries: every number on it is computed here, theirs and ours."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isonomy as iso

PAGE = Path(__file__).resolve().parents[1] / "docs" / "coming_from.md"


@pytest.mark.filterwarnings("ignore")  # warnings of the other library
def test_the_page_shows_what_both_compute() -> None:
    pytest.importorskip("fairlearn", reason="fairlearn is not installed")
    results = doctest.testfile(str(PAGE), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert results.attempted > 20
    assert results.failed == 0


@pytest.fixture
def table() -> dict[str, Any]:
    names: dict[str, Any] = {}
    first = PAGE.read_text().split("## fairlearn")[0]
    for example in doctest.DocTestParser().get_examples(first):
        exec(example.source, names)
    return dict(names["data"])


def test_aequitas_has_the_same_ratio(table: dict[str, Any]) -> None:
    pandas = pytest.importorskip("pandas")
    group = pytest.importorskip("aequitas.group", reason="aequitas is not installed")
    bias = importlib.import_module("aequitas.bias")
    frame = pandas.DataFrame({"sex": table["sex"], "score": table["p"], "label_value": table["y"]})
    frame["sex"] = frame["sex"].astype(object)  # it does not support the strings of pandas 3
    crosstab, _ = group.Group().get_crosstabs(frame, attr_cols=["sex"])
    theirs = bias.Bias().get_disparity_predefined_groups(crosstab, frame, {"sex": "m"})
    value = float(theirs.set_index("attribute_value").loc["f", "pprev_disparity"])
    ours = iso.adverse_impact(table, prediction="p", groups="sex")
    assert value == pytest.approx(float(ours.disparity[0]))


def test_aif360_has_the_same_difference(table: dict[str, Any]) -> None:
    pandas = pytest.importorskip("pandas")
    datasets = pytest.importorskip("aif360.datasets", reason="AIF360 is not installed")
    metrics = importlib.import_module("aif360.metrics")
    frame = pandas.DataFrame({"sex": (np.asarray(table["sex"]) == "m").astype(float), "p": table["p"]})
    data = datasets.BinaryLabelDataset(df=frame, label_names=["p"], protected_attribute_names=["sex"])
    theirs = metrics.BinaryLabelDatasetMetric(data, [{"sex": 0.0}], [{"sex": 1.0}])
    options: dict[str, Any] = {"metric": "selection_rate", "prediction": "p", "groups": "sex"}
    ours = iso.flag(table, **options, reference={"sex": "m"})
    assert theirs.statistical_parity_difference() == pytest.approx(float(ours.disparity[0]))
