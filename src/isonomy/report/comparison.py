"""The page and the markdown of two audits side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from markupsafe import Markup

from isonomy.report import render, wording
from isonomy.report.text import markdown as escaped
from isonomy.report.text import sentence, visible

Titles = tuple[tuple[str, str], tuple[str, str]]  # of the earlier and the later audit, each with its date
Row = tuple[str, str, str, bool, tuple[str, ...]]  # the test, its verdicts, whether they differ, what moved


def comparison_markdown(headline: str, titles: Titles, rows: Sequence[Row], notes: Sequence[str]) -> str:
    """The comparison for a pull request or an e-mail. Every label is text."""
    return "\n".join(_lines(headline, titles, rows, notes)).rstrip() + "\n"


def _lines(headline: str, titles: Titles, rows: Sequence[Row], notes: Sequence[str]) -> Iterator[str]:
    yield from (f"# {wording.COMPARISON}", "", escaped(headline), "")
    for name, (title, created) in zip(("Before", "After"), titles, strict=True):
        yield f"- {name}: {escaped(title)}{f', {created[:10]}' if created else ''}"
    yield from ("", "| question | before | after | what moved |", "|---|---|---|---|")
    for heading, before, after, changed, moves in rows:
        shown = f"**{escaped(after)}**" if changed else escaped(after)
        yield f"| {escaped(heading)} | {escaped(before)} | {shown} | {escaped(' '.join(moves))} |"
    yield ""
    yield from (f"- {escaped(note)}" for note in notes)


def comparison_html(headline: str, titles: Titles, rows: Sequence[Row], notes: Sequence[str]) -> str:
    """The comparison as one page, in the report's own style."""
    shown = [
        (visible(heading), before, after, changed, [sentence(move) for move in moves])
        for heading, before, after, changed, moves in rows
    ]
    page = render.environment().get_template("comparison.html")
    return page.render(
        heading=wording.COMPARISON,
        headline=headline,
        titles=[
            (name, visible(title), created) for name, (title, created) in zip(("Before", "After"), titles, strict=True)
        ],
        rows=shown,
        notes=notes,
        style=Markup(render.template("report.css")),
        policy=render.policy([]),
    )
