"""One table, independent tests, a record of everything."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import polars as pl
import pytest
from fake_results import HOSTILE, close, fake

import isonomy as iso
from isonomy.audit import Audit, AuditResult
from isonomy.audit import config as files
from isonomy.audit.plan import plan
from isonomy.audit.state import FILES
from isonomy.audit.table import identified
from isonomy.errors import ConfigError, EmptyFrame
from isonomy.frames import Source, open_source

COLUMNS = {"outcome": "outcome", "prediction": "prediction", "score": "score", "groups": ["race"]}
TESTS = [
    {"kind": "flag", "metric": "tpr"},
    {"kind": "flag", "metric": "fpr"},
    {
        "kind": "improvability", "groups": "sex", "status_quo": "prediction", "candidate": "better",
        "splits": 1, "resamples": 100,
    },
]  # fmt: skip


@pytest.fixture(scope="module")
def table() -> pl.DataFrame:
    frame = iso.simulate.decisions(3_000, seed=1).frame()
    return frame.with_columns((pl.col("score") > 0.6).cast(pl.Int8).alias("better"))


@pytest.fixture(scope="module")
def parquet(table: pl.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "decisions.parquet"
    table.with_columns(pl.lit("unused").alias("unused")).write_parquet(path)
    return path


def audit(table: object, tests: list[dict[str, Any]] = TESTS, **changes: Any) -> Audit:
    return Audit.from_dict({"columns": COLUMNS, "tests": tests, **changes}, data=table)


def numbers(result: AuditResult) -> dict[str, Any]:
    return {test["id"]: test.get("result") for test in result.to_dict()["tests"]}


def test_an_audit_equals_the_calls(table: pl.DataFrame) -> None:
    done = audit(table, suppress_below=0).run()
    assert done.exit_code in (0, 1)
    direct = iso.flag(table, metric="tpr", outcome="outcome", prediction="prediction", score="score", groups=["race"])
    np.testing.assert_allclose(done["flag-tpr"].table()["disparity"], direct.table()["disparity"], rtol=1e-12)
    options = {k: v for k, v in TESTS[2].items() if k != "kind"}
    seed = next(entry.seed for entry in done.entries if entry.kind == "improvability")
    drawn = iso.improvability(table, outcome="outcome", rng=seed, **options)
    assert done["improvability"].pvalue == pytest.approx(drawn.pvalue, rel=1e-9)


def test_a_reference_estimated_elsewhere(table: pl.DataFrame) -> None:
    rate = float(table["prediction"].cast(float).mean())  # type: ignore[arg-type]
    held = table.with_columns((pl.col("prediction").cast(float) - rate).alias("influence"))
    asked = {"kind": "flag", "metric": "selection_rate", "groups": "race"}
    given = {"value": rate, "influence": "influence"}
    done = audit(held, [{**asked, "reference": given, "id": "given"}, {**asked, "id": "population"}]).run()
    np.testing.assert_allclose(done["given"].table()["pvalue"], done["population"].table()["pvalue"], rtol=1e-6)
    with pytest.raises(ConfigError, match=r"no column 'influenc' in the data. Did you mean 'influence'"):
        audit(held, [{**asked, "reference": {**given, "influence": "influenc"}}]).run()


def test_order_and_company_change_no_number(table: pl.DataFrame) -> None:
    both, alone = audit(table, TESTS[::-1]).run(), audit(table, TESTS[2:]).run()
    assert close(numbers(both)["improvability"], numbers(alone)["improvability"])


def test_every_kind_of_input_gives_the_same_numbers(table: pl.DataFrame, parquet: Path) -> None:
    expected = numbers(audit(table).run())
    files = {"path": parquet.name}
    for data in (files, {**files, "in_memory": False}, {"path": "*.parquet"}, {"path": str(parquet)}):
        done = Audit.from_dict({"columns": COLUMNS, "tests": TESTS, "data": data}, folder=parquet.parent).run()
        assert close(numbers(done), expected)


def test_a_query_is_left_to_its_engine(parquet: Path) -> None:
    pytest.importorskip("duckdb")
    data = {"engine": "duckdb", "query": "select * from decisions", "tables": {"decisions": parquet.name}}
    made = Audit.from_dict({"columns": COLUMNS, "tests": TESTS[:2], "data": data}, folder=parquet.parent)
    done = made.run()
    assert dict(done.document.facts)["Backend"] == "duckdb"
    assert done.document.rows == 3_000
    broken = {**data, "query": "select * from nothing"}
    with pytest.raises(ConfigError, match=r"data\.query: DuckDB cannot run it"):
        Audit.from_dict({"columns": COLUMNS, "tests": TESTS[:2], "data": broken}, folder=parquet.parent).run()


@pytest.mark.spark
def test_a_spark_query(parquet: Path, spark: Any) -> None:
    data = {"engine": "spark", "query": "select * from decisions", "tables": {"decisions": parquet.name}}
    done = Audit.from_dict({"columns": COLUMNS, "tests": TESTS[:1], "data": data}, folder=parquet.parent).run()
    assert done.document.rows == 3_000
    assert done.results


def test_files_are_read_once_and_only_the_needed_columns(parquet: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[list[str]] = []
    narrowed = Source.narrowed

    def watched(self: Source, columns: Any, condition: Any, *, hold: bool) -> Source:
        assert hold
        source = narrowed(self, columns, condition, hold=hold)
        read.append(list(source.schema))
        return source

    monkeypatch.setattr(Source, "narrowed", watched)
    Audit.from_dict({"columns": COLUMNS, "tests": TESTS, "data": {"path": str(parquet)}}).run()
    assert read == [["race", "sex", "outcome", "prediction", "score", "better"]]


def test_tests_share_their_passes(table: pl.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    passes: list[tuple[str, ...]] = []
    made = Source._pass

    def watched(self: Source, keys: Any, values: Any) -> Any:
        passes.append(tuple(keys))
        return made(self, keys, values)

    monkeypatch.setattr(Source, "_pass", watched)
    audit(table, [{"kind": "flag", "metric": metric} for metric in ("tpr", "fpr", "ppv", "accuracy")]).run()
    assert len(passes) == 2  # the fingerprint, then one pass for all four
    assert [len(keys) for keys in passes] == [0, 3]


def test_every_method_says_what_it_will_ask(table: pl.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a test asks of the cells first was among its plan's requests: nothing is summed a second time."""
    tests = [
        {"kind": "flag", "metric": "tpr"},
        {"kind": "certify", "metric": "fpr"},
        {"kind": "improvability", "groups": "sex", "status_quo": "prediction", "candidate": "better", "splits": 1},
        {"kind": "treatment_bias", "effect": "score", "treatment": "better"},
    ]
    for test in tests:
        planned = plan(files.build({"columns": COLUMNS, "tests": [test]}))[0]
        source = open_source(table)
        requests = planned.requests(source)
        assert requests, test["kind"]
        source.prefetch(requests)
        with monkeypatch.context() as patch:
            patch.setattr(Source, "_pass", None)
            planned.function(source, **planned.arguments())


def test_one_test_failing_leaves_the_others(table: pl.DataFrame, tmp_path: Path) -> None:
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
    table: pl.DataFrame, monkeypatch: pytest.MonkeyPatch, error: Exception, code: int
) -> None:
    def broken(data: object, **_: object) -> None:
        raise error

    monkeypatch.setattr(iso, "flag", broken, raising=False)
    assert audit(table, TESTS[:1]).run().exit_code == code
    with pytest.raises(type(error)):
        audit(table, TESTS[:1]).run(debug=True)


@pytest.mark.parametrize(
    ("verdict", "fail_on", "code"),
    [
        ("violation", ["violation"], 1),
        ("violation", [], 0),
        ("inconclusive", ["violation"], 0),
        ("inconclusive", ["violation", "inconclusive"], 1),
        ("within_tolerance", ["violation", "inconclusive"], 0),
    ],
)
def test_exit_codes_of_verdicts(
    table: pl.DataFrame, monkeypatch: pytest.MonkeyPatch, verdict: str, fail_on: list[str], code: int
) -> None:
    monkeypatch.setattr(iso, "flag", lambda data, **_: fake(verdict=verdict), raising=False)
    assert audit(table, TESTS[:1], fail_on=fail_on).run().exit_code == code


def test_small_groups_are_withheld_in_every_output(
    table: pl.DataFrame, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made = fake(
        ["tiny", "large"],
        size=np.array([7.0, 5000.0]),
        disparity=np.array([0.123456, 0.5]),
        se=np.array([0.1, 0.1]),
        status=fake().status[:2],
    )
    monkeypatch.setattr(iso, "flag", lambda data, **_: made, raising=False)
    done = audit(table, TESTS[:1], suppress_below=10).run(tmp_path)
    assert "suppressed" in {str(s) for s in done["flag-tpr"].table()["status"]}
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(written) == 5
    for path in written:
        text = path.read_text()
        assert "0.123" not in text, path
        assert "tiny" in text or path.name in ("summary.md", "junit.xml"), path
    assert "fewer than 10 rows are withheld" in (tmp_path / "report.html").read_text()


def test_hostile_groups_go_through_the_real_thing(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    names = [name for name in HOSTILE for _ in range(60)]
    n = len(names)
    score = rng.random(n)
    rows = {"race": names, "outcome": rng.integers(0, 2, n), "prediction": (score > 0.5) * 1, "score": score}
    rows |= {"better": rng.integers(0, 2, n), "treated": rng.integers(0, 2, n), "effect": 1 + score}
    tests = [
        {"kind": "flag", "metric": "selection_rate"},
        {"kind": "certify", "metric": "accuracy"},
        {"kind": "project", "threshold": 0.5},
        {"kind": "treatment_bias", "treatment": "treated", "effect": "effect"},
    ]
    done = Audit.from_dict({"columns": COLUMNS, "tests": tests}, data=rows).run(tmp_path)
    assert len(done.results) == len(tests), [entry.error for entry in done.entries]
    stored = json.loads((tmp_path / "results.json").read_text())
    for test in stored["tests"]:
        assert set(test["table"]["group"]) == {f"race={name}" for name in HOSTILE}
    page = (tmp_path / "report.html").read_text()
    assert "<script>alert(" not in page
    for spec in re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', page, re.DOTALL):
        assert "<" not in spec
        assert json.loads(spec)
    assert "could not be drawn (" not in page
    assert (tmp_path / "report.html").stat().st_size < 5_000_000
    shown = (tmp_path / "summary.md").read_text()
    assert "<script" not in shown
    assert len(ET.parse(tmp_path / "junit.xml").getroot()[0]) == len(tests)


def test_results_json_comes_back(table: pl.DataFrame, tmp_path: Path) -> None:
    done = audit(table).run(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir() if not path.name.startswith(".")) == sorted(FILES)
    again = AuditResult.from_json((tmp_path / "results.json").read_text())
    assert close(numbers(again), numbers(done))
    assert again.document.facts == done.document.facts
    assert again.summary() == done.summary()
    assert again.exit_code == done.exit_code


def test_provenance(table: pl.DataFrame) -> None:
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


def test_the_fingerprint_changes_with_the_rows(table: pl.DataFrame) -> None:
    def of(frame: pl.DataFrame) -> str:
        return identified(open_source(frame)).digest

    assert of(table) == of(table.sample(fraction=1, shuffle=True, seed=3))
    assert of(table) != of(table[:-1])
    changed = table.with_columns(
        pl.when(pl.int_range(pl.len()) == 5).then(1 - pl.col("outcome")).otherwise("outcome").alias("outcome")
    )
    assert of(table) != of(changed)


def test_filters_for_all_and_for_one(table: pl.DataFrame) -> None:
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
    assert done["flag-tpr"].provenance.rows == len(kept)
    assert done["flag-fpr"].provenance.rows == len(kept.filter(pl.col("sex") == "Male"))


def test_filters_that_leave_nothing(table: pl.DataFrame) -> None:
    with pytest.raises(EmptyFrame, match="no row is left"):
        audit(table, filters=[{"column": "race", "value": "nobody"}]).run()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"columns": {**COLUMNS, "outcome": "outcom"}}, "columns.outcome: no column 'outcom' in the data."),
        (
            {"tests": [{"kind": "flag", "metric": "tpr", "groups": ["rase"]}]},
            "tests[0].groups: no column 'rase' in the data. Did you mean 'race'?",
        ),
        ({"filters": [{"column": "race", "op": "<", "value": 3}]}, "cannot be compared with 3"),
        ({"columns": {**COLUMNS, "groups": [{"column": "race", "edges": [1]}]}}, "only numbers can be cut"),
        (
            {"columns": {"groups": ["race"]}, "tests": [{"kind": "predictive_parity"}]},
            "tests[0].outcome: predictive_parity needs it",
        ),
        ({"data": {"count": "n"}}, "count: no column 'n' in the data"),
    ],
)  # fmt: skip
def test_columns_are_checked_before_any_row_is_read(table: pl.DataFrame, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(iso.errors.UsageError) as caught:
        Audit.from_dict({"columns": COLUMNS, "tests": TESTS, **changes}, data=table).validate()
    assert said in str(caught.value)


def test_no_data() -> None:
    with pytest.raises(ConfigError, match="no path and no query"):
        audit(None).run()
    with pytest.raises(iso.errors.UsageError, match="no file at"):
        Audit.from_dict({"columns": COLUMNS, "tests": TESTS, "data": {"path": "nothing.parquet"}}).run()


def test_progress_is_told(table: pl.DataFrame) -> None:
    told: list[tuple[str, int, int]] = []
    audit(table).run(progress=lambda *event: told.append(event))
    assert [what for what, _, _ in told] == [
        "Reading the table",
        "flag-tpr",
        "flag-fpr",
        "improvability",
        "Writing the report",
    ]
    assert told[-1][1:] == (3, 3)


def test_groups_of_every_form(table: pl.DataFrame) -> None:
    groups = [
        "race",
        {"column": "score", "edges": [0.3, 0.6]},
        {
            "name": "men, low",
            "where": [{"column": "sex", "value": "Male"}, {"column": "score", "op": "<", "value": 0.5}],
        },
    ]
    metric = {
        "name": "own",
        "value": "prediction",
        "where": [{"column": "score", "op": ">", "value": 0.1}],
        "binary": True,
    }
    done = audit(table, [{"kind": "flag", "metric": metric, "groups": groups}]).run(debug=True)
    labels = list(done["flag-own"].table()["group"])
    assert "men, low" in labels
    assert "score=0.3 to <0.6" in labels


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_table_without_rows(table: pl.DataFrame, tmp_path: Path, kind: str) -> None:
    empty, path = table[:0], tmp_path / f"d.{kind}"
    empty.write_csv(path) if kind == "csv" else empty.write_parquet(path)
    made = Audit.from_dict({"columns": COLUMNS, "tests": TESTS, "data": {"path": path.name}}, folder=tmp_path)
    with pytest.raises(EmptyFrame, match="data: the table has no rows"):
        made.run(tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("dtype", [pl.String, pl.Categorical, pl.Enum(["no", "yes"])])
def test_text_is_no_outcome(table: pl.DataFrame, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    words = pl.when(pl.col("outcome") == 1).then(pl.lit("yes")).otherwise(pl.lit("no")).cast(dtype)
    monkeypatch.setattr(Source, "sums", None)  # no row is read
    with pytest.raises(ConfigError, match=r"columns\.outcome: column 'outcome' is text .*\"yes\" to 1"):
        audit(table.with_columns(words.alias("outcome"))).validate()
    assert audit(table.with_columns(pl.col("outcome").cast(pl.Boolean))).validate()


def test_a_file_separated_by_semicolons(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("race;prediction\na;1\nb;0\n")
    made = Audit.from_dict({"columns": COLUMNS, "tests": TESTS, "data": {"path": "d.csv"}}, folder=tmp_path)
    with pytest.raises(iso.errors.DataError, match=r"separated by ';', not by commas.*separator=';'"):
        made.validate()


def test_no_group_large_enough_is_bad_data(table: pl.DataFrame, tmp_path: Path) -> None:
    alone = table.with_columns(pl.int_range(pl.len()).alias("id"))
    tests = [{"kind": "flag", "metric": "tpr", "groups": ["id"]}, {"kind": "flag", "metric": "tpr", "id": "race"}]
    done = audit(alone, tests, fail_on=["violation", "inconclusive"]).run(tmp_path)
    assert done.entries[0].verdict == "failed"
    assert done.exit_code == 3
    assert "[Not answered]" in done.summary()
    again = AuditResult.from_json((tmp_path / "results.json").read_text())
    assert again.exit_code == 3
    assert [entry.verdict for entry in again.entries] == [entry.verdict for entry in done.entries]


def test_the_summary_tells_what_decided(table: pl.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(iso, "flag", lambda data, **_: fake(decider=2), raising=False)
    said = audit(table, TESTS[:1]).run().summary()
    assert "race=Asian" in said
    assert "race=Black" not in said
