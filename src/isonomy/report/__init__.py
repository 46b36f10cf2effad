"""Results in, pages out: HTML for people, JSON, markdown and JUnit for machines. No statistic is computed here."""

from isonomy.report.document import Decided, Document, Entry
from isonomy.report.render import html, junit, markdown

__all__ = ["Decided", "Document", "Entry", "html", "junit", "markdown"]
