"""A result in a notebook: it fetches nothing, runs no script, and shows every label as text."""

from __future__ import annotations

import base64
import pydoc
import re

import numpy as np
import pytest

import isonomy as iso
from isonomy.results.columns import html
from support.fakes import HOSTILE, fake

TABLE = iso.simulate.decisions(20_000, seed=1).columns


@pytest.fixture(scope="module")
def result() -> iso.FlagResult:
    return iso.flag(TABLE, metric="selection_rate", prediction="prediction", groups=["race", "sex"], depth=2)


def test_the_verdict_the_findings_the_table_and_the_picture(result: iso.FlagResult) -> None:
    page = result._repr_html_()
    assert "<strong>Difference shown: the groups differ by more than chance explains.</strong>" in page
    assert page.count("<tr>") == 11  # the heading and ten rows
    assert "The first 10 of " in page
    assert "What this does not show" in page
    coded = re.search(r'width="(\d+)" style="max-width: 100%" src="data:image/png;base64,([^"]+)"', page)
    assert coded is not None  # pixels, so that letters of a wider font are not cut off
    assert base64.b64decode(coded[2]).startswith(b"\x89PNG")
    assert 300 < int(coded[1]) < 1_000
    assert "&lt; 0.001" in page


def test_nothing_is_fetched_and_nothing_runs(result: iso.FlagResult) -> None:
    for page in (html(result), html(fake(HOSTILE))):
        assert "<script" not in page
        assert not re.search(r'(src|href)="(?!data:)', page)
        assert page.count("<div") == page.count("</div>")


def test_a_repr_is_one_short_line(result: iso.FlagResult) -> None:
    text = repr(result)
    assert text.startswith("<FlagResult flag: violation. ")
    assert len(text) < 250
    assert "\n" not in text
    hidden = result.suppressed(1_000_000)
    assert repr(hidden).startswith("<FlagResult flag: not answered. Not answered: every group")
    assert repr(fake(HOSTILE)).count("\n") == 0


def test_audits_and_measures_have_both() -> None:
    columns = {"outcome": "outcome", "prediction": "prediction", "groups": ["race"]}
    tests = [{"kind": "flag", "metric": "selection_rate"}]
    done = iso.Audit.from_dict({"columns": columns, "tests": tests}, data=TABLE).run()
    assert repr(done) == "<AuditResult 'Fairness audit': 1 question was tested: 1 difference shown.>"
    data = {"y": [0, 1] * 50, "s": np.linspace(0, 1, 100), "g": ["<b>"] * 50 + ["m"] * 50}
    measures = iso.calibration_metrics(data, outcome="y", score="s", groups="g")
    assert repr(measures) == "<CalibrationMetrics of s: 3 rows>"
    assert "g=&lt;b&gt;" in measures._repr_html_()


def test_estimators_have_both() -> None:
    for estimator in (iso.GroupCalibrator(), iso.EffectCorrector(), iso.MultiObjectiveCalibrator()):
        assert type(estimator).__name__ in repr(estimator)
        assert type(estimator).__name__ in estimator._repr_html_()
        assert len(repr(estimator)) < 300


def test_help_shows_the_function() -> None:
    for name in ("improvability", "flag", "project", "treatment_bias"):
        text = pydoc.plain(pydoc.render_doc(getattr(iso, name)))
        assert text.startswith(f"Python Library Documentation: function {name} in module isonomy.")


def test_numbers_are_short_and_missing_ones_empty() -> None:
    page = html(fake(("a", "b"), disparity=np.array([np.nan, 0.123456789])))
    assert "0.123" in page
    assert "0.1234567" not in page.split("<table>")[1]
    assert "nan" not in page.split("<table>")[1]
