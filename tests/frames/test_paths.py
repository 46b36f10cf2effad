"""The files behind a path."""

from __future__ import annotations

import os
from pathlib import Path

import polars as pl
import pytest

import isonomy as iso
from isonomy.errors import DataError, UsageError
from isonomy.frames import adapt
from isonomy.frames.adapt import files_at, refuse_unlike

NAMES = ("a/x.parquet", "a/b/y.parquet", "z.parquet", "z.csv", "[1].parquet", ".hidden.parquet")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in NAMES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    return tmp_path


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("*.parquet", ("[1].parquet", "z.parquet")),
        ("**/*.parquet", ("[1].parquet", "a/b/y.parquet", "a/x.parquet", "z.parquet")),
        ("*/*.parquet", ("a/x.parquet",)),
        ("a/**/*.parquet", ("a/b/y.parquet", "a/x.parquet")),
        ("[xyz].*", ("z.csv", "z.parquet")),
        ("?.csv", ("z.csv",)),
        ("a?x.parquet", ()),  # no wildcard matches the end of a folder
        ("[.*z].csv", ("z.csv",)),
        ("[[]1].parquet", ("[1].parquet",)),
        ("[1].parquet", ("[1].parquet",)),  # a file of that name
        (".h*", (".hidden.parquet",)),
        ("nobody/*", ()),
        ("nobody.csv", ()),
        ("a", ("a/b/y.parquet", "a/x.parquet")),
    ],
)
def test_files_of_patterns_and_folders(folder: Path, pattern: str, names: tuple[str, ...]) -> None:
    assert [str(file.relative_to(folder)) for file in files_at(folder / pattern)] == sorted(names)


def test_a_link_in_a_circle_is_followed_once(folder: Path) -> None:
    (folder / "a" / "again").symlink_to(folder)
    assert len(files_at(folder / "**" / "*.parquet")) == 4
    elsewhere = folder / "elsewhere"
    elsewhere.symlink_to(folder / "a" / "b")
    assert files_at(elsewhere / "*.parquet") == [elsewhere / "y.parquet"]


def test_what_has_too_many_files_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapt, "MOST_FILES", 5)
    with pytest.raises(UsageError, match="data: more than 5 files and folders below"):
        files_at(folder / "**" / "*.nothing")
    assert files_at(folder / "a" / "*.parquet")


def test_pipes_and_devices_are_refused(folder: Path) -> None:
    os.mkfifo(folder / "pipe.parquet")
    for path in (folder / "pipe.parquet", folder / "*.parquet", folder, Path("/dev/null")):
        with pytest.raises(UsageError, match="is not a plain file"):
            iso.open_source(str(path))


def test_a_file_behind_two_links_is_read_once(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    pl.DataFrame({"p": [0, 1]}).write_parquet(tmp_path / "one" / "x.parquet")
    (tmp_path / "two").symlink_to(tmp_path / "one")
    assert len(iso.open_source(tmp_path / "**" / "*.parquet").head(10)) == 2


def test_files_of_one_table_have_the_same_columns(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("a.parquet", "b.PARQUET", "c.pq")]
    pl.DataFrame({"x": [1], "y": ["u"]}).write_parquet(files[0])
    pl.DataFrame({"y": ["u"], "x": [1]}).write_parquet(files[1])
    refuse_unlike(files[:2])
    pl.DataFrame({"x": [1]}).write_parquet(files[2])
    with pytest.raises(DataError, match=r"a\.parquet and .*/c\.pq differ in column 'y'"):
        refuse_unlike(files)
    pl.DataFrame({"x": [1.0], "y": ["u"]}).write_parquet(files[2])
    with pytest.raises(DataError, match="differ in column 'x'"):
        refuse_unlike(files)
    inner = tmp_path / "year=1"
    inner.mkdir()
    files[2].rename(inner / "c.parquet")
    with pytest.raises(DataError, match=r"year=1/c\.parquet differ in column 'x'"):
        refuse_unlike([*files[:2], inner])
    files[2].write_bytes(files[0].read_bytes()[:50])
    with pytest.raises(DataError, match="cannot be read as parquet"):
        refuse_unlike(files)
