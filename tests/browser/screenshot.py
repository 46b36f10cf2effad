"""The picture in the README: python tests/browser/screenshot.py isonomy-demo/report.html docs/images/report.png"""

from __future__ import annotations

import base64
import sys
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

FLAGS = [
    "--no-sandbox",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-gpu",
]
WIDTH, HEIGHT = 1180, 1240

# Two screenshots of the report, side by side: its first page and its first question.
FRAME = """
<style>
  body {{ margin: 0; padding: 36px; background: #e9e6df; display: flex; gap: 36px; width: max-content; }}
  img {{ width: 760px; border-radius: 10px; box-shadow: 0 10px 40px #0003; display: block; }}
</style>
<img src="data:image/png;base64,{0}"><img src="data:image/png;base64,{1}">
"""


def shot(page: Page, anchor: str) -> str:
    """A screenshot of the report at an anchor, as base64."""
    page.evaluate("to => document.querySelector(to).scrollIntoView({behavior: 'instant'})", anchor)
    page.wait_for_timeout(300)
    return base64.b64encode(page.screenshot()).decode()


if __name__ == "__main__":
    report, target = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS)
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, device_scale_factor=1.5)
        page.goto(report.as_uri())
        page.wait_for_selector("html[data-ready=yes]", timeout=60_000)
        pictures = shot(page, "body"), shot(page, "#test-1")
        frame = browser.new_page(viewport={"width": 1628, "height": 900})
        frame.set_content(FRAME.format(*pictures))
        frame.wait_for_timeout(300)
        frame.screenshot(path=target, full_page=True)
        browser.close()
