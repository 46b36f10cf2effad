"""Interrupted audits: files are complete or absent, and --resume gives the same numbers."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import isonomy as iso
from isonomy.audit import Audit
from isonomy.audit.compare import compare
from isonomy.audit.outcome import write_pack
from isonomy.audit.state import FILES, FOLDER, State, claim, output_folder, prepare, write
from isonomy.errors import ConfigError
from support.same import same

pytestmark = pytest.mark.usefixtures("no_pictures")

CONFIG = """\
seed = 5
suppress_below = 0
[data]
path = "decisions.parquet"
[columns]
outcome = "outcome"
prediction = "prediction"
score = "score"
groups = ["race"]
[[tests]]
kind = "flag"
metric = "tpr"
[[tests]]
kind = "improvability"
groups = "sex"
status_quo = "prediction"
candidate = "better"
method = {splits = {rounds = 1, resamples = 100, published = true}}
[[tests]]
kind = "certify"
metric = "fpr"
[[tests]]
kind = "flag"
metric = "ppv"
"""

# The third test waits forever, and the run is killed meanwhile.
KILLED = """\
import sys, time, isonomy, isonomy.audit
def waits(data, **options):
    print("waiting", flush=True)
    time.sleep(600)
isonomy.certify = waits
from isonomy.cli import main
main(["audit", sys.argv[1]])
"""


def write_table(folder: Path, seed: int) -> None:
    frame = iso.simulate.decisions(2_000, seed=seed).frame()
    frame.with_columns((pl.col("score") > 0.6).cast(pl.Int8).alias("better")).write_parquet(
        folder / "decisions.parquet"
    )


@pytest.fixture
def file(tmp_path: Path) -> Path:
    write_table(tmp_path, seed=3)
    (tmp_path / "audit.toml").write_text(CONFIG)
    return tmp_path / "audit.toml"


def numbers(folder: Path) -> list[dict[str, Any]]:
    """Everything in results.json except the durations and whether a test was resumed."""
    stored = json.loads((folder / "results.json").read_text())["tests"]
    own = ("seconds", "peak_memory", "resumed")
    return [{key: value for key, value in test.items() if key not in own} for test in stored]


def test_kill_9_then_resume(file: Path, tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    Audit.from_toml(file).run(whole)
    output = tmp_path / "isonomy-report"
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(file)], stdout=subprocess.PIPE, text=True, env={**os.environ}
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "waiting\n"
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
    assert [path.name for path in output.iterdir()] == [FOLDER]  # no output yet, and no incomplete one
    finished = sorted((output / FOLDER).glob("*.json"))
    assert len(finished) == 2
    for path in finished:
        json.loads(path.read_text())
    (output / ".report.html.x.partial").write_text("half")  # the remains of a write that was killed
    done = Audit.from_toml(file).run(output, resume=True)
    assert [entry.resumed for entry in done.entries] == [True, True, False, False]
    assert sorted(p.name for p in output.iterdir()) == sorted([FOLDER, *FILES])
    same(numbers(output), numbers(whole))


def test_without_resume_everything_is_made_again(file: Path, tmp_path: Path) -> None:
    first = Audit.from_toml(file).run(tmp_path / "out")
    again = Audit.from_toml(file).run(tmp_path / "out")
    assert not any(entry.resumed for entry in (*first.entries, *again.entries))
    kept = Audit.from_toml(file).run(tmp_path / "out", resume=True)
    assert all(entry.resumed for entry in kept.entries)


ALL = ["certify-fpr", "flag-ppv", "flag-tpr", "improvability"]


@pytest.mark.parametrize(
    ("old", "new", "kept"),
    [
        ("seed = 5", "seed = 6", []),  # every test has its own seed
        ("resamples = 100", "resamples = 99", ALL[:3]),
        ("suppress_below = 0", "suppress_below = 3", []),
        ('metric = "tpr"', 'metric = "tnr"', ["certify-fpr", "flag-ppv", "improvability"]),
        ("[data]", '[[filters]]\ncolumn = "sex"\nop = "!="\nvalue = "x"\n[data]', []),
        ("seed = 5", 'seed = 5\ntitle = "New"', ALL),
    ],
)
def test_only_what_could_not_have_changed_is_kept(
    file: Path, tmp_path: Path, old: str, new: str, kept: list[str]
) -> None:
    Audit.from_toml(file).run(tmp_path / "out")
    assert old in CONFIG
    file.write_text(CONFIG.replace(old, new, 1))
    done = Audit.from_toml(file).run(tmp_path / "out", resume=True)
    assert sorted(entry.name for entry in done.entries if entry.resumed) == kept


def test_other_rows_are_another_audit(file: Path, tmp_path: Path) -> None:
    Audit.from_toml(file).run(tmp_path / "out")
    write_table(tmp_path, seed=4)
    assert not any(entry.resumed for entry in Audit.from_toml(file).run(tmp_path / "out", resume=True).entries)


def test_a_broken_state_file_is_made_again(file: Path, tmp_path: Path) -> None:
    Audit.from_toml(file).run(tmp_path / "out")
    stored = sorted((tmp_path / "out" / FOLDER).glob("*.json"))
    for path, text in zip(stored, ("[" * 100_000, "[]", '{"result": {}}', '{"seconds": 1}'), strict=True):
        path.write_text(text)
    assert not any(entry.resumed for entry in Audit.from_toml(file).run(tmp_path / "out", resume=True).entries)


def test_failed_tests_are_made_again(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(iso, "certify", lambda *_, **__: 1 / 0, raising=False)
        assert Audit.from_toml(file).run(tmp_path / "out").exit_code == 4
    done = Audit.from_toml(file).run(tmp_path / "out", resume=True)
    assert [entry.resumed for entry in done.entries] == [True, True, False, True]
    assert done.exit_code in (0, 1)


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "report.html"
    write(target, "old")

    def full(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ConfigError, match=r"cannot write to .*no space"):
        write(target, "new")
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_what_is_in_the_way_is_told_before_anything_is_run(file: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "out" / "report.html").mkdir(parents=True)
    for output, words in (("file", "is a file"), ("file/folder", "is a file"), ("out", "report.html is a folder")):
        with pytest.raises(ConfigError, match=words):
            Audit.from_toml(file).run(tmp_path / output)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["report.html"]


def test_a_folder_belongs_to_one_audit_file(tmp_path: Path) -> None:
    folder, mine, other = tmp_path / "out", tmp_path / "mine.toml", tmp_path / "other.toml"
    for path in (mine, other):
        path.write_text("")
    prepare(folder)
    claim(folder, mine)
    output_folder(folder, mine)
    output_folder(folder)  # an audit without a file
    with pytest.raises(ConfigError, match=r"out holds the report of .*mine\.toml; name another folder"):
        output_folder(folder, other)
    (folder / FOLDER / "audit-file").write_text("../gone.toml")
    output_folder(folder, other)  # no longer belongs to an audit


def test_killed_at_any_moment_leaves_no_broken_file(file: Path, tmp_path: Path) -> None:
    """A second run is killed at several moments: the files of the first stay complete or are replaced completely."""
    output = tmp_path / "isonomy-report"
    Audit.from_toml(file).run(output)
    for seconds in (1.2, 2.2):
        process = subprocess.Popen([sys.executable, "-m", "isonomy", "audit", str(file)], stdout=subprocess.DEVNULL)
        time.sleep(seconds)
        process.kill()
        process.wait()
        assert (output / "report.html").read_text().rstrip().endswith("</html>")
        assert len(numbers(output)) == 4


def test_a_changed_state_is_made_again(file: Path, tmp_path: Path) -> None:
    """A number that was edited by hand must not reach a report."""
    out = tmp_path / "out"
    before = Audit.from_toml(file).run(out)
    for stored in (out / FOLDER).glob("*.json"):
        stored.write_text(re.sub(r"0\.\d{4,}", "0.5", stored.read_text()))
    after = Audit.from_toml(file).run(out, resume=True)
    for left, right in zip(before.entries, after.entries, strict=True):
        assert left.result is not None
        assert right.result is not None
        assert right.result.to_frame("polars").equals(left.result.to_frame("polars"))


def test_files_have_the_permissions_of_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        write(tmp_path / "private", "x")
    finally:
        os.umask(before)
    assert (tmp_path / "private").stat().st_mode & 0o777 == 0o600


def test_files_of_others_are_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "summary.md").write_text("mine")
    with pytest.raises(ConfigError, match=r"summary\.md was not written by isonomy"):
        output_folder(tmp_path)
    (tmp_path / "results.json").write_text('{"schema_version": 3}')
    output_folder(tmp_path)


def test_comparisons_reports_and_packs_of_others_are_not_overwritten(file: Path, tmp_path: Path) -> None:
    done = Audit.from_toml(file).run(tmp_path / "out")
    (tmp_path / "report").mkdir()
    (tmp_path / "report" / "report.html").write_text("mine")
    (tmp_path / "compare").mkdir()
    (tmp_path / "compare" / "compare.md").write_text("mine")
    (tmp_path / "out" / "evidence.zip").write_text("mine")
    with pytest.raises(ConfigError, match=r"report\.html was not written by isonomy"):
        done.write_report(tmp_path / "report")
    with pytest.raises(ConfigError, match=r"compare\.md was not written by isonomy"):
        compare(done, done).write(tmp_path / "compare")
    with pytest.raises(ConfigError, match=r"evidence\.zip was not written by isonomy"):
        write_pack(done)
    for name in ("report/report.html", "compare/compare.md", "out/evidence.zip"):
        assert (tmp_path / name).read_text() == "mine"
    done.write_report(tmp_path / "out")
    assert compare(done, done).write(tmp_path / "new") == compare(done, done).write(tmp_path / "new")


@pytest.mark.parametrize("name", ["key", "audit-file"])
def test_folders_in_place_of_files_of_the_state_are_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / FOLDER / name).mkdir(parents=True)
    with pytest.raises(ConfigError, match=rf"{name} is a folder; remove it"):
        output_folder(tmp_path)


def test_a_folder_in_place_of_a_finished_test_is_refused(tmp_path: Path) -> None:
    state = State(tmp_path, resume=True)
    (tmp_path / FOLDER / "a.json").mkdir(parents=True)
    assert state.load("a") is None
    with pytest.raises(ConfigError, match=r"cannot write to .*a\.json \(Is a directory\)"):
        state.save("a", {})


def test_a_state_that_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / FOLDER).symlink_to(tmp_path / "nowhere")
    with pytest.raises(ConfigError, match="is not a folder"):
        output_folder(tmp_path)
