"""The runner: one table, independent tests, and a record of both."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import polars as pl
import pytest

import isonomy as iso
from isonomy.audit import Audit, AuditResult
from isonomy.errors import ConfigError, DataError
from isonomy.frames import Source
from isonomy.frames.sums import aggregate
from support.same import same

FLAG = {"kind": "flag", "metric": "tpr"}
IMPROVABILITY: dict[str, Any] = {
    "groups": "sex",
    "status_quo": "prediction",
    "candidate": "better",
    "method": {"splits": {"rounds": 1, "resamples": 100, "published": True}},
}
MakeAudit = Callable[..., Audit]


def numbers(result: AuditResult) -> dict[str, Any]:
    return {test["id"]: test.get("result") for test in result.to_dict()["tests"]}


def test_an_audit_equals_the_calls(table: pl.DataFrame, audit: MakeAudit) -> None:
    done = audit(table, suppress_below=0).run()
    assert done.exit_code in (0, 1)
    direct = iso.flag(table, metric="tpr", outcome="outcome", prediction="prediction", score="score", groups=["race"])
    same(done["flag-tpr"].table()["disparity"], direct.table()["disparity"], rel=1e-12)
    seed = next(entry.seed for entry in done.entries if entry.kind == "improvability")
    method = iso.splits(1, resamples=100, published=True)
    drawn = iso.improvability(table, outcome="outcome", rng=seed, **(IMPROVABILITY | {"method": method}))
    same(done["improvability"], drawn, ("pvalue",))


def test_order_and_company_change_no_number(table: pl.DataFrame, audit: MakeAudit) -> None:
    tests = [FLAG, {"kind": "flag", "metric": "fpr"}, {"kind": "improvability", **IMPROVABILITY}]
    both, alone = audit(table, tests[::-1]).run(), audit(table, tests[2:]).run()
    same(numbers(both)["improvability"], numbers(alone)["improvability"])


def test_tests_share_their_passes(table: pl.DataFrame, audit: MakeAudit, monkeypatch: pytest.MonkeyPatch) -> None:
    passes: list[tuple[str, ...]] = []

    def watched(frame: Any, keys: Any, values: Any) -> Any:
        passes.append(tuple(keys))
        return aggregate(frame, keys, values)

    monkeypatch.setattr("isonomy.frames.source.aggregate", watched)
    audit(table, [{"kind": "flag", "metric": metric} for metric in ("tpr", "fpr", "ppv", "accuracy")]).run()
    assert len(passes) == 2  # the fingerprint, then one pass for all four
    assert [len(keys) for keys in passes] == [0, 3]


def test_one_test_failing_leaves_the_others(table: pl.DataFrame, audit: MakeAudit, tmp_path: Path) -> None:
    tests = [
        {"kind": "flag", "metric": "tpr"},
        {"kind": "flag", "metric": "fpr", "prediction": "score", "id": "not binary"},
        {"kind": "flag", "metric": "ppv", "groups": ["sex"]},
    ]
    done = audit(table, tests).run(tmp_path)
    assert list(done.results) == ["flag-tpr", "flag-ppv"]
    failed = done.entries[1]
    assert failed.verdict == "failed"
    assert "prediction: column 'score' has" in str(failed.error)
    assert done.exit_code == 3
    assert "prediction: column &#39;score&#39; has" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize(
    ("error", "code"),
    [(ValueError("boom"), 4), (iso.errors.NotBinary("x"), 3), (iso.errors.UnknownOption("a", 1, "b"), 2)],
)
def test_exit_codes_of_failed_tests(
    table: pl.DataFrame, audit: MakeAudit, monkeypatch: pytest.MonkeyPatch, error: Exception, code: int
) -> None:
    def broken(data: object, **_: object) -> None:
        raise error

    monkeypatch.setattr(iso, "flag", broken, raising=False)
    assert audit(table, [FLAG]).run().exit_code == code
    with pytest.raises(type(error)):
        audit(table, [FLAG]).run(debug=True)


def test_provenance(table: pl.DataFrame, audit: MakeAudit) -> None:
    done = audit(table, seed=9).run()
    facts = dict(done.document.facts)
    assert facts["isonomy"] == iso.__version__
    assert facts["Seed"] == "9"
    assert facts["Rows after filters"] == "3,000"
    assert len(facts["Fingerprint of the rows"]) == 64
    assert "polars" in facts
    assert "MB" in facts["Peak memory"]
    assert all(entry.seconds > 0 and entry.peak_memory for entry in done.entries)
    assert str(done).startswith("Fairness audit")


def test_filters_for_all_and_for_one(table: pl.DataFrame, audit: MakeAudit) -> None:
    done = audit(
        table,
        [
            {"kind": "flag", "metric": "tpr"},
            {"kind": "flag", "metric": "fpr", "filters": [{"column": "sex", "value": "Male"}]},
        ],
        filters=[{"column": "race", "op": "!=", "value": str(table["race"][0])}],
    ).run()
    kept = table.filter(pl.col("race") != table["race"][0])
    assert done.document.rows == len(kept)
    assert done["flag-tpr"].provenance.rows == kept["outcome"].sum()
    assert done["flag-fpr"].provenance.rows == len(kept.filter((pl.col("sex") == "Male") & (pl.col("outcome") == 0)))


def test_tests_of_equal_filters_share_a_table(
    table: pl.DataFrame, audit: MakeAudit, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables: list[Source] = []
    original = Source.filter

    def watched(self: Source, condition: Any) -> Source:
        tables.append(original(self, condition))
        return tables[-1]

    monkeypatch.setattr(Source, "filter", watched)
    filters = [{"column": "sex", "value": "Male"}]
    done = audit(table, [{"kind": "flag", "metric": metric, "filters": filters} for metric in ("tpr", "fpr")]).run()
    rows = len(table.filter(pl.col("sex") == "Male"))
    assert sum(done[name].provenance.rows or 0 for name in done.results) == rows  # for either outcome
    assert sum(bool(source._passes) for source in tables) == 1


def test_progress_is_told(table: pl.DataFrame, audit: MakeAudit) -> None:
    events: list[tuple[str, int, int]] = []
    audit(table).run(progress=lambda *event: events.append(event))
    assert [what for what, _, _ in events] == [
        "Reading the table",
        "Reading the table (pass 1 of 2)",
        "Reading the table (pass 2 of 2)",
        "flag-tpr",
        "flag-fpr",
        "improvability",
        "improvability (rounds of fit and test: 0 of 1)",
        "improvability (rounds of fit and test: 1 of 1)",
        "Writing the report",
    ]
    assert {event[1:] for event in events[5:8]} == {(2, 3)}
    assert events[-1][1:] == (3, 3)


def test_an_audit_in_a_file(table: pl.DataFrame, tmp_path: Path) -> None:
    file = tmp_path / "audit.toml"
    columns = '[columns]\nprediction = "prediction"\ngroups = "race"\n'
    file.write_text(f'output = "out"\n{columns}[[tests]]\nkind = "flag"\nmetric = "selection_rate"\n')
    prepared = Audit.from_toml(file, data=table)
    assert prepared.output == tmp_path / "out"
    assert prepared.validate() == ["prediction", "race"]
    assert prepared.run().document.config == file.read_text()
    assert not prepared.output.exists()  # written only if a folder is given


def people(user: list[int], **data: object) -> Audit:
    """An audit of sixty rows; ``user`` gives the person of each row."""
    rows = {"user": user, "ok": [0, 1, 1] * 20, "sex": ["f", "m"] * 30}
    columns = {"prediction": "ok", "groups": ["sex"], "user": "user"}
    return Audit.from_dict(
        {"data": data, "columns": columns, "tests": [{"kind": "flag", "metric": "selection_rate"}]}, data=rows
    )


def test_people_who_repeat_are_told_of_unless_they_are_clusters() -> None:
    twice = [i // 2 for i in range(60)]
    (warning,) = people(twice).run()["flag-selection_rate"].warnings
    assert warning.startswith("Some people appear more than once: 60 rows belong to 30 people (column 'user').")
    assert people(list(range(60))).run()["flag-selection_rate"].warnings == ()
    clustered = people(twice, cluster="user").run()["flag-selection_rate"]
    assert not any("more than once" in warning for warning in clustered.warnings)
    assert "Rows with the same user belong together" in clustered.summary()


def test_what_is_said_about_reading_rows_is_part_of_what_resume_keeps(tmp_path: Path) -> None:
    def run(missing_group: str) -> int:
        rows = {"ok": [0, 1, 1] * 20, "sex": ["f", "m", None] * 20}
        raw = {
            "data": {"missing_group": missing_group},
            "columns": {"prediction": "ok", "groups": ["sex"]},
            "tests": [{"kind": "flag", "metric": "selection_rate"}],
        }
        done = Audit.from_dict(raw, data=rows).run(tmp_path / "out", resume=True)
        return len(done["flag-selection_rate"].to_frame())

    assert run("level") == 3
    assert run("drop") == 2


def test_a_folder_that_cannot_be_is_refused(table: pl.DataFrame, audit: Callable[..., Audit]) -> None:
    with pytest.raises(ConfigError, match="output: cannot write"):
        audit(table, [{"kind": "flag", "metric": "selection_rate"}]).run("\x00")


def test_stored_messages_quote_no_row(table: pl.DataFrame, audit: MakeAudit, monkeypatch: pytest.MonkeyPatch) -> None:
    """Engines quote cells, and some messages concern a group that is too small to be published."""

    def message(error: Exception, cause: Exception | None = None, minimum: int = 10) -> str:
        error.__cause__ = cause
        monkeypatch.setattr(iso, "flag", Mock(side_effect=error), raising=False)
        return str(audit(table, [FLAG], suppress_below=minimum).run().entries[0].error)

    text = message(DataError("data: the table cannot be read: 'secret' is no number"), ValueError("secret"))
    assert text.startswith("data: the engine cannot read the table")
    assert "secret" not in text
    small = DataError("group g=d has 7 rows", "groups: one is too small")
    assert message(small) == "groups: one is too small"
    assert message(small, minimum=0) == "group g=d has 7 rows"


def test_a_condition_that_no_row_meets_is_named() -> None:
    group = {"name": "Nobody", "where": [{"column": "race", "value": "Nbody"}]}
    tests = [{"kind": "flag", "metric": "selection_rate"}]
    config = {"columns": {"prediction": "prediction", "groups": ["race", group]}, "tests": tests}
    audit = iso.Audit.from_dict(config, data=iso.simulate.decisions(4_000, seed=1).columns)
    assert "No row meets the condition of Nobody." in " ".join(audit.run()["flag-selection_rate"].warnings)
