"""Pages whose Python runs: what a block prints, and the table or chart it ends with, are shown below it.

MkDocs calls `on_page_markdown` for every page when the site is built; the tests run the same blocks of the same pages.
A block that reads public data (it says ISONOMY_DATA) is run where that folder exists, and so are the blocks after it.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import os
import pydoc
import re
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

BLOCK = re.compile(r"^```python\n(?P<source>.*?)^```\n", flags=re.MULTILINE | re.DOTALL)
DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
# A page that shows what a call returns in its own text; its blocks are run by the tests alone.
SHOWN_AS_WRITTEN = ("coming_from.md",)
WITHOUT_DATA = "\n!!! note\n    Not run here: the public file is not in the folder that `ISONOMY_DATA` names.\n"


class Output(NamedTuple):
    """What a block printed, and the value of the expression it ends with (None, if it ends with a statement)."""

    printed: str
    value: Any


def has_data() -> bool:
    """Whether the folder of public files is there; its place is then in the environment, where pages look for it."""
    folder = Path(os.environ.get("ISONOMY_DATA", DATA))
    if folder.is_dir():
        os.environ["ISONOMY_DATA"] = str(folder)
    return folder.is_dir()


def outputs(markdown: str, page: str) -> Iterator[Output]:
    """Run the blocks of a page in order, as one program, in the current folder."""
    names: dict[str, Any] = {"__name__": "__page__"}
    for match in BLOCK.finditer(markdown):
        source = match["source"]
        if "ISONOMY_DATA" in source and not has_data():
            return
        # Lines are numbered as on the page, so that an error points at them.
        tree = ast.parse("\n" * markdown.count("\n", 0, match.start("source")) + source, filename=page)
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(tree, page, "exec"), names)
            value = eval(compile(ast.Expression(last.value), page, "eval"), names) if last else None
        yield Output(printed.getvalue(), value)


def shown(output: Output) -> str:
    """An output as markdown: text, then a table, a chart, or the value as Python writes it."""
    import altair
    import polars

    text, value = output
    below = ""
    if isinstance(value, altair.TopLevelMixin):
        drawing = io.BytesIO()  # pixels: the letters of another font than the one measured would be cut off
        value.save(drawing, format="png", scale_factor=2)
        code = base64.b64encode(drawing.getvalue()).decode()
        width = int.from_bytes(drawing.getvalue()[16:20]) // 2
        below = (
            f'\n<img class="chart" width="{width}" alt="The chart that the code above draws" '
            f'src="data:image/png;base64,{code}">\n'
        )
    elif isinstance(value, polars.DataFrame):
        below = "\n" + _table(value) + "\n"
    elif value is not None:
        text += f"{value!r}\n"
    return (f"\n```text\n{text.rstrip()}\n```\n" if text.strip() else "") + below


def _table(frame: Any) -> str:
    lines = [frame.columns, ["---"] * frame.width, *([_cell(value) for value in row] for row in frame.rows())]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _cell(value: object) -> str:
    if value is None or value != value:
        return ""
    if isinstance(value, float):
        return f"{value:.4f}" if value == 0 or 1e-4 <= abs(value) < 1e4 else f"{value:.3g}"
    return str(value).replace("|", "\\|")


def executed(markdown: str, page: str) -> str:
    """The page with the output of its blocks below them."""
    results = outputs(markdown, page)

    def with_output(match: re.Match[str]) -> str:
        output = next(results, None)
        return match[0] + (shown(output) if output else WITHOUT_DATA)

    return BLOCK.sub(with_output, markdown)


def names_by_page(docs: Path) -> str:
    """Every public name with the first line of its docstring, and the page that explains it."""
    import isonomy

    lines = ["\n| name | |", "|---|---|"]
    for page in sorted(docs.rglob("*.md")):
        for path in re.findall(r"^::: (\S+)$", page.read_text(), flags=re.MULTILINE):
            name = path.rsplit(".", 1)[1]
            # A function of simulate has the name of its module, which it hides.
            value = getattr(isonomy.simulate, name, None) or pydoc.locate(path)
            first = (value.__doc__ or "").strip().split("\n")[0].replace("``", "`")
            lines.append(f"| [`{name}`]({page.relative_to(docs)}) | {first} |")
    return "\n".join(lines)


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Run the blocks of a page, unless it shows them as written."""
    source = page.file.src_uri
    if source == "reference.md":
        return markdown + names_by_page(Path(config["docs_dir"]))
    if source.startswith(SHOWN_AS_WRITTEN) or not BLOCK.search(markdown):
        return markdown
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        os.chdir(folder)
        try:
            return executed(markdown, source)
        finally:
            os.chdir(here)


def fetched(html: str) -> list[str]:
    """What a page would fetch from elsewhere when it is opened."""
    return re.findall(r"<(?:script|link|img|iframe)\b[^>]*?\b(?:src|href)=\"?(https?://[^\"\s>]+)", html)


def on_post_build(config: Any) -> None:
    """Put the report of the demonstration on the site, and make sure that no page needs a network."""
    from mkdocs.exceptions import PluginError

    site = Path(config["site_dir"])
    command = [sys.executable, "-m", "isonomy", "demo", "--output", str(site / "demo")]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for page in site.rglob("*.html"):
        if addresses := fetched(page.read_text()):
            raise PluginError(f"{page} fetches {addresses[0]}: pages open without a network.")
