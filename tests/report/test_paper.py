"""The report printed by an installed Chromium, and the error if there is none."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from isonomy.errors import MethodError, UsageError
from isonomy.report import html
from isonomy.report.render import browser, print_pdf
from support.fakes import document


def test_without_a_browser_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("ISONOMY_BROWSER", raising=False)
    with pytest.raises(UsageError, match=r"none is installed\. Install Chromium, .* print it from there"):
        browser()
    monkeypatch.setenv("ISONOMY_BROWSER", "no-such-browser")
    with pytest.raises(UsageError, match="ISONOMY_BROWSER names 'no-such-browser', which does not exist"):
        browser()


def test_a_browser_that_writes_nothing_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "browser"
    fake.write_text(f"#!/bin/sh\necho \"$@\" > {tmp_path}/asked\necho 'cannot print' >&2\n")
    fake.chmod(0o755)
    monkeypatch.setenv("ISONOMY_BROWSER", str(fake))
    with pytest.raises(MethodError, match=r"wrote nothing \(cannot print\)"):
        print_pdf(tmp_path / "report.html", tmp_path / "report.pdf")
    assert not (tmp_path / "report.pdf").exists()
    asked = (tmp_path / "asked").read_text()
    assert re.search(r"--window-size=1\d{3},", asked)  # room for views side by side


@pytest.mark.browser
def test_print(tmp_path: Path) -> None:
    try:
        browser()
    except UsageError as error:
        pytest.skip(str(error))
    (tmp_path / "report.html").write_text(html(document()), encoding="utf-8")
    print_pdf(tmp_path / "report.html", tmp_path / "report.pdf")
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF-")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.html", "report.pdf"]
