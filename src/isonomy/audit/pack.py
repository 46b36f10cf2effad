"""The evidence of an audit in one file: the same inputs make the same bytes."""

from __future__ import annotations

import hashlib
import zipfile
from dataclasses import replace
from io import BytesIO
from pathlib import Path

from isonomy.audit.outcome import AuditResult
from isonomy.audit.state import write_bytes
from isonomy.errors import UsageError
from isonomy.report import Document, html, junit, markdown

NAME = "evidence.zip"
MANIFEST = "MANIFEST.sha256"
_MOMENT = (1980, 1, 1, 0, 0, 0)  # the first a zip file can hold
_OF_THE_RUN = ("Time", "Peak memory")  # facts that differ from run to run
_READ_ME = """\
The evidence of one audit. Nothing in it says when it was made or how long that took, so that the same rows, audit
file, seed and versions make the same bytes; MANIFEST.sha256 lists every other file (check it with: sha256sum -c
MANIFEST.sha256). report.html opens in any browser and fetches nothing.
"""


def write_pack(result: AuditResult) -> Path:
    """Write evidence.zip into the folder of the report; returns its path."""
    if result.output is None:
        raise UsageError("pack: the audit was not written; give an output folder.")
    path = result.output / NAME
    write_bytes(path, packed(result))
    return path


def packed(result: AuditResult) -> bytes:
    """The files of the pack, in one order, with no moment of their own."""
    document = timeless(result.document)
    environment = "".join(f"{name}: {value}\n" for name, value in document.facts)
    texts = {
        "README.txt": _READ_ME,
        "audit.toml": document.config,
        "environment.txt": environment,
        "junit.xml": junit(document),
        "report.html": html(document),
        "results.json": AuditResult(document).to_json(),
        "summary.md": markdown(document),
    }
    contents = {name: text.encode("utf-8", "replace") for name, text in sorted(texts.items())}
    sums = "".join(f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in contents.items())
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:  # no compressor, whose bytes differ by version
        for name, content in {**contents, MANIFEST: sums.encode()}.items():
            archive.writestr(zipfile.ZipInfo(name, _MOMENT), content)
    return buffer.getvalue()


def timeless(document: Document) -> Document:
    """The document without what differs from run to run."""
    entries = tuple(replace(entry, seconds=0.0, peak_memory=None, resumed=False) for entry in document.entries)
    facts = tuple((name, value) for name, value in document.facts if name not in _OF_THE_RUN)
    return replace(document, created="", entries=entries, facts=facts)
