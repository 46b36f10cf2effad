"""The report on paper: an installed Chromium prints the page as PDF."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from isonomy.errors import MethodError, UsageError

BROWSERS = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
    "microsoft-edge",
    "msedge",
)
_SECONDS = 180
_SCREEN = "1440,900"  # charts are drawn for it: on a small screen, views are stacked
_DRAWING = 30_000  # milliseconds of the page's own clock, within which its charts are drawn


def browser() -> str:
    """The path of an installed Chromium, or of a browser made from it."""
    named = os.environ.get("ISONOMY_BROWSER")
    places = [shutil.which(name) for name in ((named,) if named else BROWSERS)]
    place = next((place for place in places if place), None)
    if place is None:
        wanted = f"ISONOMY_BROWSER names {named!r}, which does not exist" if named else "none is installed"
        raise UsageError(
            f"pdf: a Chromium browser is needed to print, and {wanted}. Install Chromium, Chrome or Edge, or open "
            "report.html in any browser and print it from there."
        )
    return place


def print_pdf(page: Path, target: Path) -> None:
    """Print an HTML file; ``target`` appears complete or not at all."""
    program = browser()
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".printing-") as folder:
        made = Path(folder) / "report.pdf"
        command = [
            *(program, "--headless=new", "--disable-gpu", "--no-first-run", "--disable-background-networking"),
            *("--disable-component-update", "--disable-sync", "--no-pdf-header-footer", f"--user-data-dir={folder}"),
            *(f"--window-size={_SCREEN}", f"--virtual-time-budget={_DRAWING}", f"--print-to-pdf={made}"),
            *(["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []),  # Chromium refuses root one
            page.resolve().as_uri(),
        ]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            raise MethodError(f"pdf: {program} did not finish within {_SECONDS} seconds.") from None
        if not made.exists():
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise MethodError(f"pdf: {program} wrote nothing ({last[:300]}).")
        os.replace(made, target)
