"""Results in, pages out: HTML for people, JSON, markdown and JUnit for machines. No statistic is computed here."""

from isonomy.report.document import Document, Entry
from isonomy.report.render import html, junit, markdown

__all__ = ["Document", "Entry", "html", "junit", "markdown"]
