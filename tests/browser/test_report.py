"""The report opened from disk in a real browser, with the network off."""

from __future__ import annotations

import csv
import io
import re
import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from isonomy.audit import Audit
from isonomy.cli.demo import write_demo
from isonomy.frames import Group
from isonomy.report import Entry, html
from isonomy.report.text import visible
from support.fakes import HOSTILE, document, fake

pytestmark = pytest.mark.browser

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = [
    "--no-sandbox", "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--no-first-run", "--disable-gpu",
]  # fmt: skip
SCREENSHOTS = Path(__file__).resolve().parents[2] / "screenshots"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("no chromium on the PATH")
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of the demo, with a smaller lender."""
    folder = tmp_path_factory.mktemp("demo")
    done = Audit.from_toml(write_demo(folder, rows=6_000, seed=0)).run(folder)
    assert [entry.error for entry in done.entries if entry.error] == []
    return folder / "report.html"


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report with hostile labels."""
    path = tmp_path_factory.mktemp("hostile") / "report.html"
    path.write_text(html(document()), encoding="utf-8")
    return path


class Opened:
    """A page, its console errors, and what it tried to fetch."""

    def __init__(self, browser: Any, path: Path, *, width: int = 1280, scheme: str = "light") -> None:
        self.context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True, accept_downloads=True
        )
        self.context.set_default_timeout(180_000)  # other tests, and mypy, may keep the processors busy
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.fetched: list[str] = []
        self.page.on("console", lambda m: self.complaints.append(m.text) if m.type == "error" else None)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", self.dismiss)
        self.page.on("request", lambda request: self.fetched.append(request.url))
        self.page.goto(path.as_uri())
        self.page.wait_for_selector("html[data-ready=yes]", timeout=60_000)

    def dismiss(self, dialog: Any) -> None:
        self.complaints.append(f"dialog {dialog.message}")
        dialog.dismiss()

    def shoot(self, name: str) -> None:
        SCREENSHOTS.mkdir(exist_ok=True)
        self.page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=True)


@pytest.fixture(scope="module")
def desk(browser: Any, demo: Path) -> Iterator[Opened]:
    opened = Opened(browser, demo)
    yield opened
    opened.context.close()


@pytest.fixture(scope="module")
def dark(browser: Any, demo: Path) -> Iterator[Opened]:
    opened = Opened(browser, demo, scheme="dark")
    yield opened
    opened.context.close()


@pytest.fixture(scope="module")
def phone(browser: Any, demo: Path) -> Iterator[Opened]:
    opened = Opened(browser, demo, width=400)
    yield opened
    opened.context.close()


def test_no_complaint_and_nothing_fetched(desk: Opened, demo: Path) -> None:
    assert desk.complaints == []
    assert [url for url in desk.fetched if not url.startswith("data:")] == [demo.as_uri()]
    assert demo.stat().st_size < 5_000_000


def test_every_chart_is_drawn(desk: Opened) -> None:
    drawings = desk.page.query_selector_all("[data-chart]")
    assert len(drawings) == len(desk.page.query_selector_all("article.test"))
    for drawing in drawings:
        assert drawing.get_attribute("data-drawn") == "yes"
        marks = drawing.query_selector_all("svg path, svg rect, svg line, svg text")
        assert len(marks) > 5
        box = drawing.query_selector("svg").bounding_box()
        assert box["width"] > 200
        assert box["height"] > 40
        svg = drawing.query_selector("svg")
        assert svg.get_attribute("role") == "img"
        assert svg.get_attribute("aria-label").startswith("Chart: ")


def column(card: Any, index: int) -> list[str]:
    cells: list[str] = card.eval_on_selector_all(
        ".scroll tbody tr",
        "(rows, i) => rows.filter(r => !r.hidden).map(r => r.cells[i].dataset.raw ?? r.cells[i].textContent.trim())",
        index,
    )
    return cells


def test_sorting(desk: Opened) -> None:
    card = desk.page.query_selector("[data-table]")
    headers = card.query_selector_all(".scroll thead th")
    names = [header.get_attribute("data-name") for header in headers]
    at = names.index("disparity")
    headers[at].query_selector("button").click()
    numbers = [float(text) for text in column(card, at) if text not in ("", "–")]
    assert len(numbers) > 2
    assert numbers == sorted(numbers)
    assert headers[at].get_attribute("aria-sort") == "ascending"
    headers[at].query_selector("button").press("Enter")  # the keyboard works like the mouse
    numbers = [float(text) for text in column(card, at) if text not in ("", "–")]
    assert numbers == sorted(numbers, reverse=True)
    headers[0].query_selector("button").click()
    labels = column(card, 0)
    assert labels == sorted(labels)
    assert headers[at].get_attribute("aria-sort") is None


def test_search(desk: Opened) -> None:
    card = desk.page.query_selector("[data-table]")
    every = len(column(card, 0))
    box = card.query_selector("input[type=search]")
    box.fill("bLaCk")
    labels = column(card, 0)
    assert 0 < len(labels) < every
    assert all("Black" in label for label in labels)
    assert card.query_selector(".found").inner_text() == f"{len(labels)} of {every}"
    box.fill("")
    assert len(column(card, 0)) == every


def downloaded(opened: Opened, card: Any) -> list[list[str]]:
    with opened.page.expect_download() as waiting:
        card.query_selector(".download").click()
    assert waiting.value.suggested_filename.endswith(".csv")
    text = Path(waiting.value.path()).read_bytes().decode("utf-8-sig")
    return list(csv.reader(io.StringIO(text, newline="")))


def test_download(desk: Opened) -> None:
    card = desk.page.query_selector("[data-table]")
    header, *rows = downloaded(desk, card)
    assert header[0] == "group"
    assert "disparity" in header
    assert len(rows) == len(column(card, 0))
    at = header.index("disparity")
    assert all(-1 <= float(row[at]) <= 1 for row in rows)
    assert any(len(row[at]) > 8 for row in rows)  # all digits, not rounded as on the page


@pytest.mark.parametrize(
    ("place", "media", "width"),
    [("desk", "screen", 1280), ("dark", "screen", 1280), ("phone", "screen", 400), ("desk", "print", 718)],
)
def test_accessibility_and_width(place: str, media: str, width: int, request: pytest.FixtureRequest) -> None:
    """Dark mode changes only colors, and a narrow page changes no color, so each is checked where it matters."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    opened: Opened = request.getfixturevalue(place)
    page, options = opened.page, dict[str, Any](resultTypes=["violations"])
    if place == "dark":
        options["runOnly"] = ["color-contrast"]
    page.emulate_media(media=media)
    page.set_viewport_size({"width": width, "height": 900})
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")  # folded text is checked too
    try:
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        # A picture is one element for a screen reader (role="img" with a label); its thousands of marks are skipped.
        violations = axe.Axe().run(page, {"exclude": [["[data-chart] svg"]]}, options).response["violations"]
        assert [(v["id"], v["nodes"][0]["html"][:200]) for v in violations] == []
    finally:
        page.evaluate("window.dispatchEvent(new Event('afterprint'))")
        page.emulate_media(media="screen")
        page.set_viewport_size({"width": 400 if place == "phone" else 1280, "height": 900})
    if media == "screen":
        opened.shoot(f"report-{place}")
    assert opened.complaints == []


def test_charts_are_readable_in_the_dark(dark: Opened) -> None:
    colour = dark.page.eval_on_selector("[data-chart] svg text", "e => getComputedStyle(e).fill")
    red, green, blue = (int(part) for part in colour[colour.index("(") + 1 : -1].split(",")[:3])
    assert min(red, green, blue) > 150  # light letters on a dark card


def test_tables_fit_with_their_verdicts_and_p_values(desk: Opened) -> None:
    for card in desk.page.query_selector_all("[data-table]"):
        room = card.query_selector(".scroll").evaluate("e => e.clientWidth")
        names = card.eval_on_selector_all(".scroll th", "heads => heads.map(h => h.dataset.name)")
        if "round" not in names:  # rounds of a search have a column for each criterion
            assert card.query_selector("table").evaluate("e => e.scrollWidth") <= room
        shown = card.eval_on_selector_all(
            ".scroll th", "heads => heads.filter(h => getComputedStyle(h).display !== 'none').map(h => h.dataset.name)"
        )
        assert "verdict" in shown or "verdict" not in names
        assert not [name for name in names if "pvalue" in name] or [name for name in shown if "pvalue" in name]
        widths = card.eval_on_selector_all(
            ".scroll tbody tr", "rows => rows.map(r => [...r.cells].filter(c => c.offsetWidth).length)"
        )
        assert set(widths) <= {len(shown)}


def test_every_column_can_be_shown(desk: Opened) -> None:
    card = desk.page.query_selector("[data-table]")
    button = card.query_selector(".all-columns")
    assert not card.query_selector("th[data-name=size]").is_visible()
    button.click()
    assert card.query_selector("th[data-name=size]").is_visible()
    assert button.get_attribute("aria-pressed") == "true"
    button.click()


def test_labels_wrap_on_a_phone_and_none_is_cut(phone: Opened) -> None:
    drawn = phone.page.eval_on_selector_all(
        "#test-1 .mark-text.role-axis-label g, #test-1 .role-axis-label text",
        "texts => texts.map(t => t.textContent)",
    )
    assert not [text for text in drawn if "…" in text]
    assert any("Hispanic" in text and "applicants" in text for text in drawn)
    boxes = phone.page.eval_on_selector_all(
        "#test-1 .role-axis-label text",
        "texts => texts.filter(t => /applicants|men$/i.test(t.textContent)).map(t => t.getBoundingClientRect())"
        ".map(box => [box.top, box.bottom])",
    )
    beyond = phone.page.eval_on_selector_all(
        "[data-chart] svg",
        "all => all.flatMap(svg => [...svg.querySelectorAll('.role-axis-title text, .role-title-text')]"
        ".filter(t => t.getBoundingClientRect().right > svg.getBoundingClientRect().right + 1)"
        ".map(t => t.textContent))",
    )
    assert beyond == []  # no title is cut off
    ordered = sorted(boxes[:14])  # the intersections follow
    assert len(ordered) == 14
    assert all(low[1] <= high[0] + 3 for low, high in pairwise(ordered))  # no labels overlap


def test_paper_loses_nothing(desk: Opened) -> None:
    page = desk.page
    page.emulate_media(media="print")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    try:
        config = page.query_selector("#provenance pre")
        assert config.evaluate("e => e.scrollHeight - e.clientHeight") <= 1
        heads = page.eval_on_selector_all(
            "thead th", "heads => heads.map(h => [getComputedStyle(h).backgroundColor, getComputedStyle(h).color])"
        )
        assert {(ground, ink) for ground, ink in heads} == {("rgba(0, 0, 0, 0)", "rgb(0, 0, 0)")}
        assert page.eval_on_selector_all("details", "all => all.every(d => d.open)")
        long = page.query_selector_all("[data-table] tbody")
        printed = [body.evaluate("b => [...b.rows].filter(r => r.offsetHeight).length") for body in long]
        assert max(printed) <= 20
        page.set_viewport_size({"width": 703, "height": 900})  # an upright A4 page between its margins
        for card in page.query_selector_all("[data-table]"):
            headings = card.eval_on_selector_all(
                ".scroll thead th", "heads => heads.map(h => [h.innerText.trim(), h.offsetWidth > 0])"
            )
            test = str(card.get_attribute("data-table")).split("-")[1]
            there = f"#test-{test}-details .further"
            # What the page of the question has no room for is in the appendix; what is the same in every line is
            # printed once, and many lines about the same groups are under their names.
            appended = page.eval_on_selector_all(f"{there} th", "heads => heads.map(h => h.innerText.trim())")
            notes = " ".join(page.eval_on_selector_all(f"{there} .note", "all => all.map(p => p.innerText)"))
            titles = page.eval_on_selector_all(f"{there} th[scope=colgroup]", "all => all.map(t => t.innerText)")
            hidden = [text for text, shown in headings if not shown and text not in appended and text not in notes]
            said = {"Status", *(["Group"] if titles else [])}  # that every line was tested need not be printed
            assert [text for text in hidden if text not in said] == []
        assert max(page.eval_on_selector_all("table", "tables => tables.map(t => t.scrollWidth)")) <= 705
        gaps = page.evaluate(
            """() => [...document.querySelectorAll('.test ul')].flatMap(list => {
                const boxes = [...list.children].map(item => item.getBoundingClientRect()).filter(box => box.height);
                return boxes.slice(1).map((box, i) => box.top - boxes[i].bottom);
            })"""
        )
        assert gaps
        assert all(0 <= gap <= 8 for gap in gaps)  # the lines of a list stay together
        lines = page.eval_on_selector_all(".halves tbody tr", "rows => rows.map(row => row.offsetHeight)")
        assert lines
        assert max(lines) <= 14  # one line each: no label wraps
        fitting = page.eval_on_selector_all(".test", "all => all.map(part => part.getBoundingClientRect().height)")
        assert max(fitting) <= 1_000  # one page per question
        tall = """s => { const was = s.getAttribute('height'), box = s.getAttribute('viewBox');
            s.setAttribute('height', 3000); s.setAttribute('viewBox', '0 0 700 3000');
            const height = s.getBoundingClientRect().height;
            s.setAttribute('height', was); s.setAttribute('viewBox', box);
            return height; }"""
        assert page.eval_on_selector(".drawing svg", tall) <= 900  # a picture is never taller than a page
    finally:
        page.evaluate("window.dispatchEvent(new Event('afterprint'))")
        page.emulate_media(media="screen")
        page.set_viewport_size({"width": 1280, "height": 900})


def test_the_first_printed_page_is_the_summary(desk: Opened) -> None:
    desk.page.emulate_media(media="print")
    try:
        desk.page.set_viewport_size({"width": 718, "height": 1017})
        height = desk.page.evaluate("document.querySelector('#summary').getBoundingClientRect().bottom + scrollY")
        assert height <= 1000  # A4 between its margins, for the ten questions of the demo
        tops = desk.page.eval_on_selector_all(".test", "all => all.map(e => getComputedStyle(e).breakBefore)")
        assert set(tops) == {"page"}
        text = desk.page.inner_text("#summary")
        assert "the simulated lender" in text  # who chose the threshold
        assert len(re.findall(r"[−\d.]+ to [−\d.]+", text)) >= 10  # an interval for every question
    finally:
        desk.page.emulate_media(media="screen")
        desk.page.set_viewport_size({"width": 1280, "height": 900})


def test_print(desk: Opened) -> None:
    options = {"path": SCREENSHOTS / "report.pdf" if SCREENSHOTS.exists() else None, "prefer_css_page_size": True}
    desk.page.emulate_media(media="print")
    desk.page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    paper = desk.page.pdf(format="A4", **options)
    desk.page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert len(re.findall(rb"/Type\s*/Page\b", paper)) <= 20  # page 1, ten questions, and the appendix
    assert desk.page.eval_on_selector(".contents", "e => getComputedStyle(e).display") == "none"
    assert desk.page.eval_on_selector("body", "e => getComputedStyle(e).backgroundColor") == "rgb(255, 255, 255)"
    desk.page.emulate_media(media="screen")


def test_the_keyboard_reaches_everything(desk: Opened) -> None:
    assert desk.page.evaluate("document.querySelector('a, button, input, summary, [tabindex]').className") == "skip"
    desk.page.focus(".skip")
    desk.page.keyboard.press("Enter")
    assert desk.page.evaluate("document.activeElement.id") == "main"
    unreachable = desk.page.evaluate(
        "[...document.querySelectorAll('button, input, summary, a')].filter(e => e.tabIndex < 0).length"
    )
    assert unreachable == 0


def test_hostile_labels_are_text(browser: Any, hostile: Path) -> None:
    opened = Opened(browser, hostile)
    try:
        assert opened.complaints == []
        shown = opened.page.eval_on_selector_all("#test-4 td.label > div", "cells => cells.map(c => c.textContent)")
        assert sorted(shown) == sorted(f"race={visible(label)}" for label in HOSTILE)
        assert opened.page.evaluate("document.querySelectorAll('script:not([type])').length") == 2
        card = opened.page.query_selector("#test-4 [data-table]")
        header, *rows = downloaded(opened, card)
        assert [row[0] for row in rows] == shown
        assert len({len(row) for row in (header, *rows)}) == 1
        opened.shoot("hostile")
    finally:
        opened.context.close()


def test_hostile_labels_at_phone_width(browser: Any, hostile: Path) -> None:
    opened = Opened(browser, hostile, width=375)
    try:
        assert opened.page.evaluate("document.documentElement.scrollWidth") <= 375
    finally:
        opened.context.close()


def test_formulas_are_defused_in_the_download(browser: Any, tmp_path: Path) -> None:
    formulas = ("=cmd|' /C calc'!A0", "+1", "-1", "@x", "\tx")
    named = tuple(Group((("", label),)) for label in formulas)  # a named condition is its own label
    path = tmp_path / "report.html"
    entry = Entry(name="x", kind="flag", result=fake(formulas, groups=named))
    path.write_text(html(document(entries=(entry,))), encoding="utf-8")
    opened = Opened(browser, path)
    try:
        _, *rows = downloaded(opened, opened.page.query_selector("[data-table]"))
        assert sorted(row[0] for row in rows) == sorted(f"'{label}" for label in formulas)
        assert opened.page.query_selector("[data-table] td.label > div").inner_text() == formulas[0]
    finally:
        opened.context.close()


def test_nothing_runs_even_if_escaping_failed(browser: Any, hostile: Path, tmp_path: Path) -> None:
    """The second defense: the policy of the page refuses a script that got into it."""
    path = tmp_path / "injected.html"
    text = hostile.read_text(encoding="utf-8")
    path.write_text(text.replace("<main", "<script>window.ran = 1</script><img src=x onerror='window.ran=2'><main", 1))
    opened = Opened(browser, path)
    try:
        assert opened.page.evaluate("window.ran === undefined")
        assert any("Content Security Policy" in complaint for complaint in opened.complaints)
    finally:
        opened.context.close()
