"""Faults of large tables: every fault of a file is reported, and no part of a table is taken for the whole."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import isonomy as iso
from isonomy.audit import Audit
from isonomy.frames.sums import collect
from support.same import same
from support.tables import users, write_partitions

FILE: dict[str, Any] = {
    "data": {"path": "people"},
    "columns": {"outcome": "outcome", "prediction": "decision", "groups": ["sex"]},
    "tests": [
        {"kind": "flag", "metric": "tpr"},
        {"kind": "certify", "metric": "tpr", "tolerance": 0.2},
        {"kind": "project", "score": "score", "threshold": 0.25, "criterion": "statistical_parity"},
        {"kind": "improvability", "status_quo": "decision", "candidate": "better"},
        {"kind": "treatment_bias", "effect": "effect", "treatment": "treated", "measure": "difference"},
        {"kind": "predictive_parity", "score": "chance", "user": "user"},
    ],
}


@pytest.fixture(autouse=True)
def left_in_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("isonomy.audit.table.HELD_BYTES", 0)


@pytest.fixture(scope="module")
def people() -> pl.DataFrame:
    return pl.DataFrame(users(3_000))


@pytest.fixture
def folder(tmp_path: Path, people: pl.DataFrame) -> Path:
    write_partitions(people, tmp_path / "people")
    return tmp_path


@pytest.fixture(params=[None, "duckdb", pytest.param("spark", marks=pytest.mark.spark)])
def reader(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The keys of an audit file for the engine that reads its files."""
    if request.param == "spark":
        request.getfixturevalue("spark")
    return {} if request.param is None else {"engine": request.param}


def audit(folder: Path, tests: int = 6, **data: Any) -> Audit:
    """An audit of the first tests of the file."""
    return Audit.from_dict(FILE | {"data": FILE["data"] | data, "tests": FILE["tests"][:tests]}, folder=folder)


@pytest.mark.parametrize("engine", [None, "duckdb"])
def test_all_methods_share_their_passes(
    engine: str | None, folder: Path, people: pl.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An audit of all methods on a folder gives the results of single tests in memory, with fewer passes than tests."""
    passes: list[object] = []
    told: list[str] = []

    def counted(frame: Any) -> Any:
        passes.append(frame)
        return collect(frame)

    monkeypatch.setattr("isonomy.frames.source.collect", counted)
    # A look at the first rows of a column is no pass.
    monkeypatch.setattr("isonomy.frames.source.Source._refuse_identifiers", lambda *_: None)
    options: dict[str, Any] = {} if engine is None else {"engine": engine}
    done = audit(folder, **options).run(folder / "out", progress=lambda what, *_: told.append(what))
    assert [entry.error for entry in done.entries] == [None] * 6
    # The fingerprint, a pass over the users, and the tests: flag and certify share a pass; parity reads its rows.
    assert len(passes) <= 10
    assert any("pass 1 of" in what for what in told)
    parity = iso.predictive_parity(
        people, outcome="outcome", score="chance", groups="sex", user="user", rng=done.entries[5].seed
    )
    result = done.results["predictive_parity"]
    assert isinstance(result, iso.ParityResult)
    assert result.pvalue == pytest.approx(parity.pvalue, rel=1e-9)
    flags = iso.flag(people, metric="tpr", outcome="outcome", prediction="decision", groups="sex")
    same(done.results["flag-tpr"], flags, ("estimate", "statistic", "pvalue"))


def test_what_was_finished_is_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An audit that was killed in its last test continues there."""

    def killed(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(iso, "predictive_parity", killed)
        with pytest.raises(KeyboardInterrupt):
            audit(folder).run(folder / "out")
    assert not (folder / "out" / "results.json").exists()
    progress: list[str] = []
    done = audit(folder).run(folder / "out", resume=True, progress=lambda what, *_: progress.append(what))
    assert [entry.resumed for entry in done.entries] == [True] * 5 + [False]
    # The passes of finished tests are not repeated: this run starts with the pass of the last test.
    assert [what for what in progress if "pass" in what] == ["Reading the table (pass 1 of 1)"]


def test_a_file_that_changes_during_the_audit(
    folder: Path, reader: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = folder / "people" / "sex=f" / "part.parquet"
    project = iso.project

    def changed(*given: Any, **options: Any) -> Any:
        os.utime(file, ns=(1, 1))
        return project(*given, **options)

    monkeypatch.setattr(iso, "project", changed)
    with pytest.raises(iso.errors.DataError, match=r"part\.parquet changed during the audit"):
        audit(folder, tests=3, **reader).run(folder / "out")
    assert not (folder / "out" / "results.json").exists()
    assert len(list((folder / "out" / ".isonomy-state").glob("*.json"))) == 2


def other_type(file: Path) -> None:
    pl.read_parquet(file).cast({"outcome": pl.String}).write_parquet(file)


def other_columns(file: Path) -> None:
    pl.read_parquet(file).drop("decision").write_parquet(file)


def cut_short(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:2_000])


@pytest.mark.parametrize("break_file", [other_type, other_columns, cut_short])
def test_a_partition_that_is_not_like_the_others(
    reader: dict[str, Any], break_file: Callable[[Path], None], folder: Path
) -> None:
    break_file(folder / "people" / "sex=m" / "part.parquet")
    with pytest.raises(iso.errors.IsonomyError, match="data") as refused:
        audit(folder, **reader).run(folder / "out")
    assert len(str(refused.value)) < 1_000
    assert not (folder / "out" / "results.json").exists()


def test_a_null_partition_has_no_group(reader: dict[str, Any], folder: Path) -> None:
    shutil.move(folder / "people" / "sex=m", folder / "people" / "sex=__HIVE_DEFAULT_PARTITION__")
    done = audit(folder, **reader).run()
    assert all("no value" in str(entry.error) for entry in done.entries)
    done = audit(folder, tests=1, missing_group="level", **reader).run()
    assert done.entries[0].error is None
    result = done.results["flag-tpr"]
    assert isinstance(result, iso.FlagResult)
    assert len(result.groups) == 2


@pytest.mark.parametrize("engine", ["polars-lazy", "duckdb"], indirect=True)
def test_a_column_that_tells_people_apart(engine: Any, people: pl.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("isonomy.frames.groups.MOST_LEVELS", 500)
    with pytest.raises(iso.errors.UsageError, match=r"'user' has at least \d+ different values; at most 500 groups"):
        iso.flag(engine(people.to_dict()), metric="selection_rate", prediction="decision", groups="user")


def test_a_user_with_a_tenth_of_all_rows(people: pl.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    heavy = people.with_columns(pl.when(pl.int_range(pl.len()) % 10 == 0).then(0).otherwise("user").alias("user"))
    heavy = heavy.with_columns(pl.when(pl.col("user") % 2 == 0).then(pl.lit("f")).otherwise(pl.lit("m")).alias("sex"))
    options: dict[str, Any] = {"outcome": "outcome", "score": "chance", "groups": "sex", "user": "user", "rng": 1}
    expected = iso.predictive_parity(heavy, **options)
    monkeypatch.setattr("isonomy.scores.read.HELD", 800)
    monkeypatch.setattr("isonomy.scores.smoothing.products._AT_ONCE", 100)
    found = iso.predictive_parity(heavy.lazy(), **options)
    assert found.pvalue == pytest.approx(expected.pvalue, rel=1e-9)
    np.testing.assert_allclose(found.se, expected.se, rtol=1e-9)
