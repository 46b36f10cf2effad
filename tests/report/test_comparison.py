"""Two audits side by side, as markdown and as a page; every label is text."""

from __future__ import annotations

import re

from isonomy.report.comparison import Row, comparison_html, comparison_markdown
from support.fakes import HOSTILE

TITLES = (("<b>Old</b>", "2026-01-02T00:00:00"), ("New", ""))
ROWS: list[Row] = [("Who?", "Difference shown", "Inconclusive", True, ("a: moved.",))]
ROWS += [(label[:200], "x", "x", False, ()) for label in HOSTILE]


def test_markdown() -> None:
    text = comparison_markdown("One changed.", TITLES, ROWS, ("Careful.",))
    assert "| Who? | Difference shown | **Inconclusive** | a: moved. |" in text
    assert "Before: &lt;b&gt;Old&lt;/b&gt;, 2026-01-02" in text
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {5}
    assert text.endswith("- Careful.\n")


def test_page() -> None:
    page = comparison_html("One changed.", TITLES, ROWS, ("Careful.",))
    assert "<strong>Inconclusive</strong>" in page
    assert "&lt;b&gt;Old&lt;/b&gt;" in page
    assert "<script" not in page
    assert "script-src &#39;none&#39;" in page
