"""The page is complete, self-contained, small, and safe against hostile labels."""

from __future__ import annotations

import hashlib
import json
import re
from base64 import b64encode
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from markupsafe import Markup

import isonomy.report
from isonomy.report import Entry, html, layout, wording
from isonomy.report.render import MAXIMUM_BYTES
from isonomy.report.text import visible
from support.fakes import HOSTILE, document, fake, untested


class Reader(HTMLParser):
    """The elements and the text that a browser would see."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.text = ""
        self.attributes: list[tuple[str, str, str]] = []
        self._script: dict[str, str | None] | None = None
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        self._script = dict(attrs) if tag == "script" else None

    def handle_data(self, data: str) -> None:
        if self._script is None:
            self.text += data
        else:
            self.scripts.append((self._script, data))

    def handle_endtag(self, tag: str) -> None:
        if tag == "script":
            self._script = None


@pytest.fixture(scope="module")
def page() -> str:
    return html(document())


@pytest.fixture(scope="module")
def read(page: str) -> Reader:
    return Reader(page)


def test_everything_asked_for_is_there(read: Reader) -> None:
    for part in (
        "A made-up lender, first half of 2026",
        "5 questions were tested: 2 differences shown, 1 shown within tolerance, 1 inconclusive and 1 could",
        "Which groups are treated differently, by how much, and is that more than chance?",
        "For race=Black the difference is -0.200",
        "Hypothesis tested",
        "The difference of every group is 0",
        "What is true in this simulation",
        "Some groups are small.",
        "What this does not show",
        "Rows are independent.",
        "Cannot be checked from the table",
        "Nobody (1900). On nothing.",
        "Rows left out, income missing",
        "Seed of this test",
        wording.suppression(10),
        "Fingerprint",
        "ValueError: <b>no</b> rows",
    ):
        assert part in read.text, part


def test_nothing_is_fetched(page: str, read: Reader) -> None:
    assert not [a for a in read.attributes if a[1] in ("src", "srcset", "action", "formaction", "poster", "data")]
    links = [value for tag, name, value in read.attributes if name == "href"]
    assert all(link.startswith("#") or link == "data:," for link in links)
    assert "@import" not in page.split("</style>")[0]
    assert "url(" not in page.split("</style>")[0]


def test_only_our_own_scripts_may_run(page: str, read: Reader) -> None:
    policy = next(value for tag, name, value in read.attributes if tag == "meta" and "default-src" in value)
    runnable = [text for attributes, text in read.scripts if attributes.get("type") != "application/json"]
    assert len(runnable) == 2  # the chart library, and the script of the page
    for script in re.findall(r"<script>(.*?)</script>", page, re.DOTALL):
        assert f"'sha256-{b64encode(hashlib.sha256(script.encode()).digest()).decode()}'" in policy
    assert "default-src 'none'" in policy
    assert "unsafe-eval" not in policy
    assert "'unsafe-inline'" not in policy.split("script-src")[1].split(";")[0]


def test_hostile_labels_are_text(page: str, read: Reader) -> None:
    assert not [a for a in read.attributes if a[1].startswith("on")]
    assert "alert(1)</script>" not in page
    for label in HOSTILE:
        assert visible(label).strip() in read.text, label[:40]
    assert read.tags.count("h1") == 1


def test_chart_specifications_are_data(read: Reader) -> None:
    specs = [text for attributes, text in read.scripts if attributes.get("type") == "application/json"]
    assert len(specs) == 4
    for spec in specs:
        assert "<" not in spec
        assert json.loads(spec)["$schema"].startswith("https://vega.github.io/schema/vega-lite")


def test_ids_are_unique_and_labels_point_at_something(read: Reader) -> None:
    ids = [value for _, name, value in read.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    wanted = [v for _, name, v in read.attributes if name in ("aria-labelledby", "data-chart")]
    wanted += [v[1:] for _, name, v in read.attributes if name == "href" and v.startswith("#")]
    assert set(wanted) <= set(ids)


def test_headings_do_not_skip_a_level(read: Reader) -> None:
    levels = [int(tag[1]) for tag in read.tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_a_huge_audit_stays_below_five_megabytes(monkeypatch: pytest.MonkeyPatch) -> None:
    n = 1_000
    numbers: dict[str, Any] = {
        "size": np.full(n, 100.0),
        "disparity": np.zeros(n),
        "status": fake().status[:1] * n,
    }
    big = fake([f"group number {i} {'x' * 3_000}" for i in range(n)], **numbers)
    monkeypatch.setattr(layout, "chart", lambda result: (Markup('{"x": "' + "y" * 1_500_000 + '"}'), ""))
    page = html(replace(document(), entries=(Entry(name="a", kind="flag", result=big),) * 2))
    assert len(page.encode()) < MAXIMUM_BYTES
    assert "The first 200 of 1,000 lines are shown here; results.json contains the other 800" in page
    assert page.count("the page would be too large") == 1  # the second picture


def test_a_picture_that_fails_does_not_take_the_report_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    result = fake()
    monkeypatch.setattr(type(result), "plot", lambda self: 1 / 0)
    page = html(replace(document(), entries=(Entry(name="x", kind="flag", result=result),)))
    assert "The chart could not be drawn (ZeroDivisionError" in page
    assert "vegaEmbed=" not in page  # no chart, no chart library


def test_an_empty_audit_is_a_page() -> None:
    assert "Nothing was tested." in html(replace(document(), entries=()))


def test_the_report_computes_no_statistic() -> None:
    for file in Path(isonomy.report.__file__).parent.glob("*.py"):
        text = file.read_text()
        assert "scipy" not in text
        assert "numerics" not in text.replace("numerics.arrays", "")  # types only


def test_a_page_of_a_test_that_was_not_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "chart", lambda result: (None, ""))
    page = html(document(entries=(Entry(name="x", kind="flag", result=untested()),)))
    assert "1 question was tested: 1 could not be answered." in page
    assert 'class="error"' not in page  # it did not stop, so its table is there


def test_a_page_explains_the_words_it_uses_and_no_others() -> None:
    page = html(document(entries=(Entry(name="a", kind="flag", result=fake()),)))
    assert "<dt>Interval</dt>" in page  # in every report
    assert "<dt>Disfavored, favored</dt>" not in page
    assert "<dt>Uplift, effect</dt>" not in page
    told = fake().findings()[0]
    assert "bandwidth" not in told
    assert "<dt>Bandwidth</dt>" not in page
    warned = fake(notes=("The bandwidth is narrow.",))
    assert "<dt>Bandwidth</dt>" in html(document(entries=(Entry(name="a", kind="flag", result=warned),)))
