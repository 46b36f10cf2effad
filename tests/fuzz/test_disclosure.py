"""No output of an audit contains anything about a single person or a withheld group."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import isonomy as iso
from isonomy.cli import app

SMALL = 37  # rows of the withheld group
AUDIT = """\
fail_on = []
suppress_below = 60
[data]
path = "people.parquet"
[columns]
groups = ["g"]
[[tests]]
kind = "flag"
metric = "tpr"
outcome = "y"
prediction = "p"
[[tests]]
kind = "flag"
id = "errors"
metric = "mae"
outcome = "v"
prediction = "f"
[[tests]]
kind = "certify"
metric = "mean_error"
outcome = "v"
prediction = "f"
[[tests]]
kind = "adverse_impact"
prediction = "p"
reference = {g = "a"}
[[tests]]
kind = "project"
outcome = "y"
prediction = "q"
score = "s"
threshold = 0.5
[[tests]]
kind = "improvability"
outcome = "y"
status_quo = "p"
candidate = "q"
[[tests]]
kind = "treatment_bias"
effect = "f"
treatment = "t"
outcome = "v"
measure = "difference"
[[tests]]
kind = "predictive_parity"
outcome = "y"
score = "s"
user = "u"
resamples = 100
[[tests]]
kind = "marginal_outcomes"
outcome = "y"
score = "s"
threshold = 0.5
[[tests]]
kind = "equalize_thresholds"
outcome = "y"
score = "s"
threshold = 0.5
target = "tpr"
resamples = 100
"""


def people() -> pl.DataFrame:
    """Every number and name of a person is recognizable, except those at the ends of a scale."""
    rng = np.random.default_rng(3)
    group = np.repeat([0, 1, 2, 3], [400, 300, 200, SMALL])
    rows = group.size
    score = rng.uniform(0.02, 0.98, rows).round(9)
    outcome = (rng.random(rows) < score).astype(int)
    effect = (1 + rng.normal(0, 0.2, rows)).round(9)
    treatment = rng.integers(0, 2, rows)
    return pl.DataFrame(
        {
            "g": np.array(["a", "b", "c", "d"])[group],
            "y": outcome,
            "p": (score + rng.normal(0, 0.1, rows) > 0.5).astype(int),
            "q": (score >= 0.5).astype(int),
            "s": score,
            "t": treatment,
            "v": (5 + effect * treatment + rng.normal(0, 1, rows)).round(9),
            "f": effect,
            "u": [f"person-{i:05d}-planted" for i in rng.permutation(rows)],
        }
    )


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> tuple[pl.DataFrame, dict[str, str]]:
    """The table, and every file that an audit of it left behind."""
    folder = tmp_path_factory.mktemp("audit")
    table = people()
    table.write_parquet(folder / "people.parquet")
    (folder / "audit.toml").write_text(AUDIT)
    done = CliRunner().invoke(app, ["audit", str(folder / "audit.toml")])
    assert done.exit_code in (0, 3), done.output  # 3: a test was not answered, because its groups are withheld
    files = [file for file in folder.rglob("*") if file.is_file() and file.suffix not in (".parquet", ".toml")]
    texts = {str(file.relative_to(folder)): file.read_text(errors="replace") for file in files}
    assert {Path(name).name for name in texts} >= {"report.html", "results.json", "summary.md", "junit.xml"}
    return table, texts | {"printed": done.output}


def test_no_value_of_a_person_is_in_any_file(outputs: tuple[pl.DataFrame, dict[str, str]]) -> None:
    table, texts = outputs
    values = {f"{value:.9f}".rstrip("0") for name in ("s", "v", "f") for value in table[name].to_list()}
    planted = {value for value in values if len(value) >= 9}
    for name, text in texts.items():
        assert "planted" not in text, name
        shown = set(re.findall(r"\d+\.\d{7,9}(?!\d)", text))
        assert not shown & planted, (name, shown & planted)


def test_no_count_or_rate_of_a_withheld_group_is_stored(outputs: tuple[pl.DataFrame, dict[str, str]]) -> None:
    table, texts = outputs
    small = table.filter(pl.col("g") == "d")
    secret = {float(SMALL), float(small["p"].sum()), *(float(small[n].mean()) for n in "ypqsvf")}  # type: ignore[arg-type]
    secret.add(small.filter(pl.col("y") == 1)["p"].mean())  # type: ignore[arg-type]
    for name, text in texts.items():
        if name.endswith(".json"):
            # Counts of published people near a score may by chance be the same whole number.
            stored = _numbers(json.loads(text))
            shown = {
                number: place for place, number in stored if not re.search(r"effective(\.data|_n|_n\.data)$", place)
            }
            told = {number: shown[number] for number in secret if number in shown}
            assert not told, (name, told)


def test_people_near_a_score_are_not_told_of_a_withheld_group() -> None:
    result = iso.predictive_parity(people(), outcome="y", score="s", groups="g", user="u", resamples=100, rng=0)
    published = result.published(60)
    first, second = (np.array(side) == "g=d" for side in (published.labels, published.against))
    assert (first | second).any()
    assert np.isnan(published.effective_n[first]).all()
    assert np.isnan(published.reference_effective_n[second]).all()


def test_clusters_are_not_told_beside_a_withheld_group() -> None:
    roles: Any = {"outcome": "y", "score": "s", "groups": "g", "cluster": "u", "threshold": 0.5}
    result = iso.marginal_outcomes(people(), **roles)
    assert [number for _, number, _ in result.provenance.clusters]
    assert result.published(60).provenance.clusters == ()
    assert result.published(2).provenance.clusters == result.provenance.clusters


def test_no_withheld_group_stands_alone(outputs: tuple[pl.DataFrame, dict[str, str]]) -> None:
    """If another group is withheld too, subtraction from the total gives only their sum."""
    _, texts = outputs
    results = next(text for name, text in texts.items() if name.endswith("results.json"))
    for test in json.loads(results)["tests"]:
        statuses = re.findall(r'"(suppressed)"', json.dumps(test))
        assert len(statuses) != 1, test.get("id")


def _numbers(stored: Any, place: str = "") -> Iterator[tuple[str, float]]:
    if isinstance(stored, dict):
        for key, value in stored.items():
            if key not in ("seed", "entropy", "shape", "audit"):
                yield from _numbers(value, f"{place}.{key}")
    elif isinstance(stored, list):
        for value in stored:
            yield from _numbers(value, place)
    elif isinstance(stored, (int, float)) and not isinstance(stored, bool):
        yield place, float(stored)


def run(tmp_path: Path, text: str, table: pl.DataFrame | None = None) -> tuple[iso.AuditResult, dict[str, str]]:
    """An audit of `people` (or another table), and all files that it wrote."""
    (table if table is not None else people()).write_parquet(tmp_path / "people.parquet")
    (tmp_path / "audit.toml").write_text(f'suppress_below = 60\n[data]\npath = "people.parquet"\n{text}')
    result = iso.Audit.from_toml(tmp_path / "audit.toml").run(tmp_path / "out")
    files = [file for file in (tmp_path / "out").rglob("*") if file.is_file()]
    return result, {str(file.relative_to(tmp_path)): file.read_text(errors="replace") for file in files}


DENOMINATORS = """
[columns]
groups = ["g"]
outcome = "y"
prediction = "p"
[[tests]]
kind = "flag"
metric = "selection_rate"
[[tests]]
kind = "flag"
metric = "tpr"
[[tests]]
kind = "project"
criterion = "equal_opportunity"
distance = "d"
[[tests]]
kind = "adverse_impact"
"""


def uneven() -> pl.DataFrame:
    """Nearly everybody in "b" has outcome 1: the other 20 are withheld, and must not follow from two tests."""
    few = (pl.col("g") == "b") & (pl.int_range(pl.len()) < 420)
    return (
        people()
        .filter(pl.col("g") != "d")
        .with_columns(d=pl.lit(0.5) + pl.col("s") / 100)
        .with_columns(y=pl.when(pl.col("g") == "b").then((~few).cast(pl.Int64)).otherwise(pl.col("y")))
    )


def test_a_group_withheld_in_one_test_is_withheld_in_all(tmp_path: Path) -> None:
    """Its size in one test minus its rows in another would give those that are withheld in a third."""
    text = DENOMINATORS.replace('metric = "tpr"', 'metric = "fpr"').replace("equal_opportunity", "predictive_equality")
    result, texts = run(tmp_path, text, uneven())
    for name, one in result.results.items():
        hidden, _ = one.withheld_labels()
        assert "g=b" in hidden, name
        assert len(hidden) > 1, name
    stored = [text for name, text in texts.items() if ".isonomy-state" in name and name.endswith(".json")]
    assert len(stored) == 4
    for text in stored:
        assert not {300.0, 280.0, 20.0} & {number for _, number in _numbers(json.loads(text)[1]["result"])}


NAMED = """
[columns]
groups = ["g", {name = "c or d", where = [{column = "g", op = "in", value = ["c", "d"]}]}]
prediction = "p"
[[tests]]
kind = "flag"
metric = "selection_rate"
"""


def test_a_named_group_does_not_tell_what_is_in_it_besides(tmp_path: Path) -> None:
    """Group d has 37 rows, which "c or d" minus c would reveal."""
    result, _ = run(tmp_path, NAMED)
    hidden, shown = result["flag-selection_rate"].withheld_labels()
    assert {"g=d", "g=c"} <= hidden
    if "c or d" in shown:
        assert any("may overlap" in warning for warning in result["flag-selection_rate"].warnings)


CONSTANT = """
[columns]
groups = ["g"]
prediction = "p"
outcome = "y"
[[tests]]
kind = "flag"
metric = "selection_rate"
[[tests]]
kind = "adverse_impact"
reference = {g = "a"}
[[tests]]
kind = "improvability"
status_quo = "p"
candidate = "q"
min_size = 50
[[tests]]
kind = "project"
criterion = "equal_opportunity"
distance = "w"
"""


def test_no_warning_and_no_error_tells_of_a_withheld_group(tmp_path: Path) -> None:
    """Nobody of the 37 in d was selected or has outcome 1; no message says so."""
    few = pl.col("g") == "d"
    table = people().with_columns(p=pl.when(few).then(0).otherwise(pl.col("p")), w=pl.lit(1.0))
    table = table.with_columns(y=pl.when(few).then(0).otherwise(pl.col("y")))
    result, texts = run(tmp_path, CONSTANT, table)
    alone = iso.flag(table, metric="selection_rate", prediction="p", groups="g")
    assert any("g=d" in warning and "0 % or 100 %" in warning for warning in alone.warnings)
    assert [entry.kind for entry in result.entries if entry.error] == ["improvability", "project"]
    for entry in result.entries:
        said = [entry.error or "", *(entry.result.warnings if entry.result else ())]
        assert not any("g=d" in text for text in said), said
        assert not any("0 % or 100 %" in text for text in said), said
    impact: Any = result["adverse_impact"]
    place = impact.labels.index("g=d")
    assert not impact.below_threshold[place]
    assert not impact.difference_shown[place]
    for name, text in texts.items():
        assert not re.search(r"(?<![\d.,:])37 rows", text), name


FILTERED = """
[columns]
groups = ["g"]
prediction = "p"
[[tests]]
kind = "flag"
metric = "selection_rate"
[[tests]]
kind = "flag"
id = "treated"
metric = "selection_rate"
filters = [{column = "t", op = "==", value = 1}]
"""


def test_tests_of_other_rows_say_that_both_together_may_tell(tmp_path: Path) -> None:
    result, _ = run(tmp_path, FILTERED)
    assert all(any("by subtraction" in w for w in one.warnings) for one in result.results.values())
    alone, _ = run(tmp_path, FILTERED, people().filter(pl.col("g") != "d"))
    assert not any("by subtraction" in w for one in alone.results.values() for w in one.warnings)


def test_the_best_group_is_not_told_by_those_compared_with_it() -> None:
    few = pl.col("g") == "d"
    table = people().with_columns(p=pl.when(few).then(pl.int_range(pl.len()) % 20 != 0).otherwise(pl.col("p")))
    result = iso.flag(table, metric="selection_rate", prediction="p", groups="g", reference="highest")
    with pytest.raises(iso.errors.NotEnoughData, match="reference"):
        result.published(60)


def test_strata_beside_a_withheld_group_are_not_listed() -> None:
    """The reference of the other groups in a stratum contains the rows of the withheld group."""
    table = people().with_columns(h=pl.int_range(pl.len()) % 2)
    whole: Any = iso.flag(table, metric="selection_rate", prediction="p", groups="g", given="h", reference="rest")
    assert len(whole.by_stratum())
    assert not len(whole.published(60).by_stratum())
    kept = whole.published(10).by_stratum()
    assert len(kept)
    strata = kept.group_by("group").len()["len"].to_list()
    assert set(strata) == {2}


def test_composite_scores_withhold_small_groups() -> None:
    table = people().with_columns(r=pl.col("s").reverse(), z=pl.col("y").reverse())
    roles: Any = {"outcomes": ["y", "z"], "scores": ["s", "r"], "groups": "g"}
    result = iso.composite_parity(table, **roles, resamples=100, rng=0).published(60)
    pairs = zip(result.labels, result.against, strict=True)
    told = np.array([not {"g=c", "g=d"}.isdisjoint(pair) for pair in pairs])
    assert np.isnan(result.disparity[told]).all()
    assert np.isnan(result.adjusted_pvalue[told]).all()
    assert np.isfinite(result.disparity[~told]).any()
