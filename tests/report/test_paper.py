"""The report printed by an installed Chromium, and the error if there is none."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from isonomy.errors import MethodError, UsageError
from isonomy.report import html
from isonomy.report.render import browser, page_numbers, print_pdf
from support.fakes import document


def test_without_a_browser_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("ISONOMY_BROWSER", raising=False)
    with pytest.raises(UsageError, match=r"none is installed\. Install Chromium, .* print it from there"):
        browser()
    monkeypatch.setenv("ISONOMY_BROWSER", "no-such-browser")
    with pytest.raises(UsageError, match="ISONOMY_BROWSER names 'no-such-browser', which does not exist"):
        browser()


def test_a_browser_that_writes_nothing_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "browser"
    fake.write_text(f"#!/bin/sh\necho \"$@\" > {tmp_path}/asked\necho 'cannot print' >&2\n")
    fake.chmod(0o755)
    monkeypatch.setenv("ISONOMY_BROWSER", str(fake))
    (tmp_path / "report.html").write_text(html(document()), encoding="utf-8")
    with pytest.raises(MethodError, match=r"wrote nothing \(cannot print\)"):
        print_pdf(tmp_path / "report.html", tmp_path / "report.pdf")
    assert not (tmp_path / "report.pdf").exists()
    asked = (tmp_path / "asked").read_text()
    assert re.search(r"--window-size=1\d{3},", asked)  # room for views side by side


def test_page_numbers_stand_beside_the_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The browser prints until the numbers no longer change, here three times: a number moves question 2."""
    fake = tmp_path / "browser"
    fake.write_text(
        f"""#!/bin/sh
for last; do case "$last" in --print-to-pdf=*) made="${{last#--print-to-pdf=}}";; esac; done
cp "${{last#file://}}" {tmp_path}/printed.html
echo again >> {tmp_path}/printings
grep -q 'test-2.*page' "${{last#file://}}" && second=9 || second=5
printf '5 0 obj\\n<</Type /Page\\n9 0 obj\\n<</Type /Page\\n' > "$made"
printf '<</test-1 [5 0 R /XYZ 0 7 0]\\n/test-2 [%s 0 R /XYZ 0 7 0]\\n' $second >> "$made"
"""
    )
    fake.chmod(0o755)
    monkeypatch.setenv("ISONOMY_BROWSER", str(fake))
    (tmp_path / "report.html").write_text(html(document()), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    print_pdf(Path("report.html"), Path("report.pdf"))
    assert len((tmp_path / "printings").read_text().split()) == 3
    printed = (tmp_path / "printed.html").read_text()
    for name, number in (("test-1", 1), ("test-2", 2)):
        assert f'a.paged[href="#{name}"]::after {{ content: "\u00a0(page\u00a0{number})"; }}' in printed
        assert f'<a class="paged" dir="auto" href="#{name}">' in printed


@pytest.mark.browser
def test_print(tmp_path: Path) -> None:
    try:
        browser()
    except UsageError as error:
        pytest.skip(str(error))
    (tmp_path / "report.html").write_text(html(document()), encoding="utf-8")
    print_pdf(tmp_path / "report.html", tmp_path / "report.pdf")
    printed = (tmp_path / "report.pdf").read_bytes()
    assert printed.startswith(b"%PDF-")
    pages = page_numbers(printed)
    tests = [pages[f"test-{i}"] for i in range(1, len(document().entries) + 1)]
    assert tests == sorted(set(tests))  # a page each, in order
    assert tests[0] > 1
    assert pages["test-1-details"] > tests[-1]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.html", "report.pdf"]
