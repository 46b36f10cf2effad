"""The audit for continuous integration: one test case per test, in JUnit's XML."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

from isonomy.report.document import Document, Entry
from isonomy.report.text import visible

# What XML 1.0 cannot hold even when escaped; `visible` has already replaced the usual ones.
_ILLEGAL = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(document: Document) -> str:
    """A verdict on which the audit fails is a failure; a test that stopped, or had nothing to test, is an error."""
    attributes = {
        "tests": str(len(document.entries)),
        "failures": str(len(document.failing)),
        "errors": str(sum(not entry.answered for entry in document.entries)),
        "time": f"{sum(entry.seconds for entry in document.entries):.3f}",
    }
    root = ET.Element("testsuites", {"name": _text(document.title), **attributes})
    suite = ET.SubElement(root, "testsuite", {"name": _text(document.title), **attributes})
    if document.created:
        suite.set("timestamp", document.created)
    for entry in document.entries:
        _case(suite, entry, document.fail_on)
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _case(suite: ET.Element, entry: Entry, fail_on: tuple[str, ...]) -> None:
    case = ET.SubElement(
        suite,
        "testcase",
        {"classname": f"isonomy.{entry.kind}", "name": _text(entry.name), "time": f"{entry.seconds:.3f}"},
    )
    if entry.fault is not None:
        problem = ET.SubElement(case, "error", {"message": _text(entry.lead)})
        problem.set("type", entry.fault)
    if entry.result is None:
        return
    findings = _text("\n".join(entry.result.findings()))
    if entry.verdict in fail_on:
        failure = ET.SubElement(case, "failure", {"message": _text(f"{entry.sentence} {entry.lead}")})
        failure.set("type", entry.verdict)
        failure.text = findings
    ET.SubElement(case, "system-out").text = _text(f"{entry.question}\n{entry.sentence}\n") + findings


def _text(text: str) -> str:
    return _ILLEGAL.sub("\ufffd", visible(text))
