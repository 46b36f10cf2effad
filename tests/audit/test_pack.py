"""The evidence pack: its files and their list, and the same bytes for the same inputs."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from isonomy.audit import Audit, AuditResult
from isonomy.audit.outcome import MANIFEST, packed, write_pack
from isonomy.errors import UsageError

FLAG = [{"kind": "flag", "metric": "tpr"}]


@pytest.fixture
def done(
    audit: Callable[..., Audit],
    table: pl.DataFrame,
    tmp_path: Path,
    no_pictures: None,
    monkeypatch: pytest.MonkeyPatch,
) -> AuditResult:
    monkeypatch.setenv("ISONOMY_KEY", "shared by both folders")
    return audit(table, tests=FLAG).run(tmp_path / "report")


def test_the_same_inputs_make_the_same_bytes(
    audit: Callable[..., Audit], table: pl.DataFrame, done: AuditResult, tmp_path: Path
) -> None:
    again = audit(table, tests=FLAG).run(tmp_path / "again")
    assert done.document.created != ""
    assert dict(done.document.facts)["Time"]
    assert packed(done) == packed(again)
    later = AuditResult(replace(again.document, created="2030-01-01"))
    assert packed(done) == packed(later)
    assert packed(done) != packed(audit(table.head(2_000), tests=FLAG).run())


def test_everything_is_listed_with_its_sum(done: AuditResult) -> None:
    path = write_pack(done)
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        names = set(archive.namelist())
        lines = archive.read(MANIFEST).decode().splitlines()
        assert {line.split("  ")[1] for line in lines} == names - {MANIFEST}
        for line in lines:
            digest, name = line.split("  ")
            assert hashlib.sha256(archive.read(name)).hexdigest() == digest
        assert {"report.html", "results.json", "audit.toml", "environment.txt", "summary.md"} <= names
        assert "polars" in archive.read("environment.txt").decode()
        restored = AuditResult.from_json(archive.read("results.json").decode())
    assert restored["flag-tpr"].verdict == done["flag-tpr"].verdict


def test_an_audit_that_was_not_written_has_no_place_for_a_pack(done: AuditResult) -> None:
    with pytest.raises(UsageError, match="not written"):
        write_pack(AuditResult(done.document))
