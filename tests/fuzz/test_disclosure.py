"""No output of an audit contains anything about a single person or a withheld group."""

from __future__ import annotations

import hmac
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
from isonomy.frames.profile import fingerprint
from isonomy.results.disclosure import family_notes

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
method = {curves = {resamples = 100}}
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
method = {curves = {resamples = 100}}
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
    result = iso.predictive_parity(
        people(), outcome="y", score="s", groups="g", user="u", method=iso.curves(resamples=100), rng=0
    )
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
    result = iso.composite_parity(table, **roles, method=iso.curves(resamples=100), rng=0).published(60)
    pairs = zip(result.labels, result.against, strict=True)
    told = np.array([not {"g=c", "g=d"}.isdisjoint(pair) for pair in pairs])
    assert np.isnan(result.disparity[told]).all()
    assert np.isnan(result.adjusted_pvalue[told]).all()
    assert np.isfinite(result.disparity[~told]).any()


def test_numbers_of_all_groups_together_are_withheld_with_any_of_them(
    outputs: tuple[pl.DataFrame, dict[str, str]],
) -> None:
    """With the sums over everybody, a joint statistic has few solutions: often one."""
    table, texts = outputs
    stored = {
        name: {number for _, number in _numbers(json.loads(text))} for name, text in texts.items() if "json" in name
    }
    certified = iso.certify(table, metric="mean_error", outcome="v", prediction="f", groups="g")
    projected = iso.project(table, outcome="y", prediction="q", score="s", threshold=0.5, groups="g")
    biased = iso.treatment_bias(table, effect="f", treatment="t", outcome="v", measure="difference", groups="g")
    secret = {certified.statistic, certified.pvalue, projected.wald_statistic, projected.wald_pvalue}
    secret |= {projected.statistic, float(biased.omnibus_pvalue[0])}
    for name, numbers in stored.items():
        assert not {f"{number:.8g}" for number in numbers} & {f"{number:.8g}" for number in secret}, name
    published = certified.published(60)
    assert published.pooled_numbers() == []
    assert published.verdict is certified.verdict
    assert published.answered
    assert "withheld, because they would reveal" in published.findings()[0]
    assert certified.published(10).statistic == certified.statistic


def test_an_adjusted_pvalue_of_a_withheld_group_is_not_told_by_another() -> None:
    """Adjusting gives several groups the same number, which is then a multiple of the withheld group's p-value."""
    result = iso.flag(people(), metric="tpr", outcome="y", prediction="p", groups="g", adjust="holm")
    published = result.published(60)
    hidden = np.isnan(published.n)
    told = result.adjusted_pvalue[hidden]
    assert not np.isin(published.adjusted_pvalue, told[told < 1]).any()
    assert not any(" nan" in text.lower() for text in published.findings())


def test_a_published_fingerprint_tests_no_guess(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It follows from the rows and a random key that stays with the state."""
    monkeypatch.delenv("ISONOMY_KEY", raising=False)
    people().write_parquet(tmp_path / "people.parquet")
    (tmp_path / "audit.toml").write_text(f'suppress_below = 60\n[data]\npath = "people.parquet"\n{FILTERED}')
    audit = iso.Audit.from_toml(tmp_path / "audit.toml")

    def published(folder: str) -> str:
        return dict(audit.run(tmp_path / folder).document.facts)["Fingerprint of the rows"]

    first = published("one")
    plain = fingerprint(iso.open_source(people().select("g", "p", "t"))).digest
    key = (tmp_path / "one" / ".isonomy-state" / "key").read_text()
    assert first == hmac.new(key.encode(), plain.encode(), "sha256").hexdigest() != plain
    assert (tmp_path / "one" / ".isonomy-state" / "key").stat().st_mode & 0o077 == 0
    assert published("one") == first
    assert published("two") != first
    assert key not in (tmp_path / "one" / "results.json").read_text()
    monkeypatch.setenv("ISONOMY_KEY", "of everybody here")
    assert published("three") == published("four")


def few_others() -> pl.DataFrame:
    rng = np.random.default_rng(5)
    x, one, two = np.where(np.arange(600) < 5, 1, 0), rng.integers(0, 2, 600), rng.integers(0, 2, 600)
    return pl.DataFrame({"x": x, "p": one, "q": two, "g": np.where(np.arange(600) < 300, "a", "b")})


@pytest.mark.parametrize("reference", ["rest", "population"])
def test_a_condition_that_all_but_a_few_meet_is_withheld(reference: Any) -> None:
    """The five others would be the reference, or the rows minus those of the group."""
    roles: Any = {"metric": "selection_rate", "groups": [iso.where("most", iso.col("x") < 1)], "reference": reference}
    result = iso.flag(few_others(), prediction="p", **roles)
    assert np.isfinite(result.disparity).all()
    published = result.published(20)
    assert np.isnan([published.n, published.estimate, published.disparity, published.reference_value]).all()
    compared = iso.compare_models(few_others(), {"A": "p", "B": "q"}, **roles).published(20)
    assert np.isnan([compared.n[1], compared.change[1], compared.disparity_before[1]]).all()


@pytest.mark.parametrize("metric", ["tpr", ["tpr", "selection_rate"]])
@pytest.mark.parametrize("reference", ["rest", "population"])
def test_a_condition_that_all_but_a_few_of_the_counted_meet_is_withheld(metric: Any, reference: Any) -> None:
    """Of the 100 others, 3 have the outcome that the metric is about; or there are 3 others."""
    place, rng = np.arange(2000), np.random.default_rng(6)
    outcome = np.where(place < 100, place < 3, rng.random(2000) < 0.5)
    table = pl.DataFrame({"x": place, "y": outcome, "p": rng.random(2000) < 0.6, "b": place // 40 % 2})
    roles: Any = {"metric": metric, "outcome": "y", "prediction": "p", "reference": reference}
    for least in (100, 3):
        groups = [iso.where("most", iso.col("x") >= least)]
        results: list[Any] = [iso.flag(table, groups=groups, **roles)]
        if reference == "rest":
            results.append(iso.monitor(table, groups=groups, batch="b", **roles))
        for result in results:
            lines = np.array([name == "tpr" for name in result.metrics])
            for published in (result.published(10), iso.from_json(result.to_json()).published(10)):
                assert np.isfinite(result.estimate[lines]).all()
                numbers = [published.n, published.estimate, published.disparity, published.reference_value]
                assert np.isnan([part[lines] for part in numbers]).all()
                assert not published.provenance.counted


def test_a_comparison_of_models_withholds_small_groups() -> None:
    models = {"A": "p", "B": "q"}
    table = few_others().with_columns(h=pl.when(pl.int_range(pl.len()) < 9).then(pl.lit("c")).otherwise("g"))
    result = iso.compare_models(table, models, metric=["selection_rate"], groups=["g", "h"])
    published = result.published(20)
    small = np.array([label in ("h=c", "h=a") for label in result.group])  # the second reveals the first
    assert small.sum() == 2
    numbers = [values for values in published.table().values() if isinstance(values, np.ndarray)]
    assert len(numbers) > 10
    for values in numbers:
        assert np.isnan(values[small]).all()
    np.testing.assert_array_equal(published.change[~small], result.change[~small])
    assert "suppressed" in published.to_frame()["status"].to_list()
    assert published.summary()
    for reference in ({"h": "c"}, {"h": "a"}):
        with pytest.raises(iso.errors.NotEnoughData, match="reference"):
            iso.compare_models(
                table, models, metric="accuracy", outcome="x", groups="h", reference=reference
            ).published(20)


@pytest.mark.parametrize("groups", ["g", [iso.where("y", iso.col("g") == "y")]])
def test_a_comparison_of_models_withholds_the_few_that_one_of_them_counts(groups: Any) -> None:
    """The first model selects 2 of group x, and the second about half: its precision is about 2 people."""
    place, rng = np.arange(1000), np.random.default_rng(0)
    one = np.where(place < 100, place < 2, rng.random(1000) < 0.5)
    table = pl.DataFrame({"g": np.where(place < 100, "x", "y"), "y": rng.random(1000) < 0.5, "a": one})
    table = table.with_columns(b=(place < 2) | (rng.random(1000) < 0.5))
    roles: Any = {"metric": "ppv", "outcome": "y", "groups": groups}
    result = iso.compare_models(table, {"A": "a", "B": "b"}, **roles)
    assert result.n.min() > 50
    published = result.published(10)
    assert np.isnan([published.n, published.baseline, published.disparity_before, *published.counted])[:, 1:].all()
    few = roles | {"groups": "g", "reference": {"g": "x"}}
    with pytest.raises(iso.errors.NotEnoughData, match="reference"):
        iso.compare_models(table, {"A": "a", "B": "b"}, **few).published(10)


def counted() -> pl.DataFrame:
    """3 of the 303 in "b" have outcome 0; 10 people are in "e", all of them selected; 5 are 40 years old."""
    rng = np.random.default_rng(4)
    group = np.repeat(["a", "b", "e"], [400, 303, 20])
    outcome = np.where(group == "b", np.arange(723) < 700, rng.random(723) < 0.5).astype(int)
    age = np.where(np.arange(723) < 5, 40, np.where(np.arange(723) % 2, 30, 50))
    selected = np.where(group == "e", 1, rng.random(723) < 0.4).astype(int)
    seen = [None if i == 450 else value for i, value in enumerate(selected.tolist())]
    return pl.DataFrame({"g": group, "y": outcome, "p": selected, "m": seen, "age": age, "c": group}).with_columns(
        c=pl.when(pl.int_range(pl.len()) == 0).then(pl.lit("b")).otherwise(pl.col("c"))
    )


FAMILIES = {
    "an outcome": ('groups = ["g"]', '{metric = "selection_rate"}, {metric = "tpr"}', "g=b", "near_counts"),
    "everybody alike": ('groups = ["g"]', '{metric = "selection_rate"}', "g=e", "same_for_all"),
    "two cuts": (
        "",
        '{metric = "selection_rate", groups = [{column = "age", edges = [40]}]}, '
        '{metric = "selection_rate", groups = [{column = "age", edges = [41]}], id = "other"}',
        "age < 40",
        "near_counts",
    ),
    "two filters": (
        'groups = ["g"]',
        '{metric = "selection_rate"}, '
        '{metric = "selection_rate", id = "some", filters = [{column = "age", op = "!=", value = 40}]}',
        "g=a",
        "near_counts",
    ),
    "named groups": (
        "",
        '{metric = "selection_rate", groups = [{name = "u40", where = [{column = "age", op = "<", value = 40}]}, '
        '{name = "to 40", where = [{column = "age", op = "<=", value = 40}]}]}',
        "u40",
        "near_counts",
    ),
    "two columns": ('groups = ["g", "c"]', '{metric = "selection_rate"}', "g=b", "near_counts"),
    "a row left out": (
        'groups = ["g"]',
        '{metric = "selection_rate"}, {metric = "selection_rate", prediction = "m", id = "seen"}',
        "g=b",
        "near_counts",
    ),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_what_tests_tell_together_is_named(name: str, tmp_path: Path) -> None:
    columns, tests, group, code = FAMILIES[name]
    counted().write_parquet(tmp_path / "t.parquet")
    text = 'suppress_below = 10\n[data]\npath = "t.parquet"\nmissing = "drop"\n'
    text += f'[columns]\noutcome = "y"\nprediction = "p"\n{columns}\n'
    for test in re.findall(r"\{(metric.*?)\}(?=, \{metric|$)", tests):
        text += '[[tests]]\nkind = "flag"\n' + re.sub(r", (?=(?:id|groups|filters|prediction) =)", "\n", test) + "\n"
    (tmp_path / "audit.toml").write_text(text)
    result = iso.Audit.from_toml(tmp_path / "audit.toml").run(debug=True)
    told = [note for entry in result.results.values() for note in entry.notes if note.code == code]
    assert any(group in note.groups for note in told), [entry.warnings for entry in result.results.values()]
    assert all("None" not in note.text for note in told)


def test_conditions_of_about_as_many_other_people_tell_nothing(tmp_path: Path) -> None:
    """300 and 303 people, of whom 30 and 150 were selected: neither condition holds whenever the other does."""
    place = np.arange(900)
    table = pl.DataFrame({"x": place, "p": ((place < 300) & (place % 10 == 0)) | ((place >= 300) & (place % 2 == 0))})
    named = '{{name = "{}", where = [{{column = "x", op = "{}", value = {}}}]}}'
    groups = ", ".join(named.format(*part) for part in (("first", "<", 300), ("last", ">=", 597)))
    text = f'[columns]\ngroups = [{groups}]\nprediction = "p"\n[[tests]]\nkind = "flag"\nmetric = "selection_rate"\n'
    result, _ = run(tmp_path, text, table)
    assert not [note for one in result.results.values() for note in one.notes if note.code == "near_counts"]


def test_groups_with_different_levels_of_a_column_tell_nothing() -> None:
    """As many Black people as White women: nobody is in both groups."""
    race, sex = np.repeat(["Black", "White"], [300, 600]), np.repeat(["f", "m", "f", "m"], [150, 150, 300, 300])
    table = pl.DataFrame({"race": race, "sex": sex, "p": np.arange(900) % 2})
    result = iso.flag(table, metric="selection_rate", prediction="p", groups=["race", "sex"], depth=2).published(10)
    assert {"race=Black", "race=White & sex=f"} <= set(result.labels)
    assert not [note for note in family_notes({"rate": result}, 10)["rate"] if note.code == "near_counts"]


@pytest.mark.parametrize("weight", [None, "w"])
def test_conditions_one_within_the_other_are_named(weight: str | None) -> None:
    """Of the 100 people who meet one condition only, 3 have the outcome that the metric is about."""
    place, rng = np.arange(2000), np.random.default_rng(0)
    outcome = np.where((place >= 900) & (place < 1000), place < 903, rng.random(2000) < 0.5)
    table = pl.DataFrame({"x": place, "y": outcome, "p": rng.random(2000) < 0.6, "w": rng.integers(1, 4, 2000)})
    groups = [iso.where("less", iso.col("x") < 900), iso.where("more", iso.col("x") < 1000)]
    published = iso.flag(table, metric="tpr", groups=groups, outcome="y", prediction="p", weight=weight).published(10)
    assert published.n[1] - published.n[0] == 3
    (note,) = family_notes({"tpr": published}, 10)["tpr"]
    assert (note.code, set(note.groups)) == ("near_counts", {"less", "more"})


def test_tests_of_the_same_rows_tell_nothing_together(tmp_path: Path) -> None:
    text = '[columns]\ngroups = ["g"]\nprediction = "p"\n[[tests]]\nkind = "flag"\nmetric = "selection_rate"\n'
    result, _ = run(tmp_path, f'{text}[[tests]]\nkind = "adverse_impact"\n', counted().filter(pl.col("g") != "e"))
    assert not [note for one in result.results.values() for note in one.notes]
