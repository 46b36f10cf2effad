"""`isonomy.discover`: what it finds, what `flag` says on the held-out rows, files, disclosure, and bad input."""

from __future__ import annotations

import sys
import tomllib
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from scipy import stats

import isonomy as iso
from isonomy.errors import IsonomyError
from isonomy.results.disclosure import family_notes
from support.subgroups import planted, reference_table

FEATURES = ["sex", "age", "region", "hours", "children"]
MODULE: Any = sys.modules[iso.discover.__module__]  # the function has the same name


@pytest.fixture(scope="module")
def table() -> pl.DataFrame:
    return pl.DataFrame(planted()).with_columns(pl.arange(0, 2_000).cast(pl.String).alias("id"))


def found(data: Any, **options: Any) -> iso.DiscoverResult:
    given: dict[str, Any] = {"metric": "selection_rate", "prediction": "approved", "features": FEATURES, "rng": 1}
    return iso.discover(data, **given | options)


def halves(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What `discover` tests: the rows of each half, as it hands them to `flag`."""
    kept: list[Any] = []
    original = MODULE.tested

    def tested(rows: Any, lines: Any, subgroups: Any, *more: Any) -> Any:
        kept.append((rows, lines, subgroups))
        return original(rows, lines, subgroups, *more)

    monkeypatch.setattr(MODULE, "tested", tested)
    return kept


# ---- what is found


def test_the_planted_subgroup_is_found_in_both_halves(table: pl.DataFrame) -> None:
    result = found(table)
    assert result.verdict is iso.Verdict.VIOLATION
    frame = result.to_frame()
    worst = frame.row(0, named=True)
    assert {"sex", "age"} <= set(result.groups[0].mapping)
    assert worst["verdict"] == "violation"
    assert worst["direction"] == "disfavored"
    assert worst["disparity"] < -0.1
    assert frame["again"].any()
    vocabulary = [
        "group",
        "n",
        "estimate",
        "estimate_low",
        "estimate_high",
        "reference",
        "disparity",
        "ci_low",
        "ci_high",
        "pvalue",
        "adjusted_pvalue",
    ]
    assert frame.columns == [*vocabulary, "verdict", "direction", "status", "share", "found", "again", "within"]


def test_violations_come_first_and_the_worst_of_them(table: pl.DataFrame) -> None:
    frame = found(table).to_frame()
    verdicts = frame["verdict"].to_list()
    assert verdicts == sorted(verdicts, reverse=True)  # violations, then inconclusive
    shown = frame.filter(pl.col("verdict") == "violation")
    nearest = shown.select(pl.min_horizontal(pl.col("ci_low").abs(), pl.col("ci_high").abs())).to_series()
    assert nearest.is_sorted(descending=True)


def test_the_same_seed_finds_the_same_whatever_the_order_of_rows(table: pl.DataFrame) -> None:
    expected = found(table)
    for other in (table.sample(fraction=1.0, shuffle=True, seed=3), table.reverse()):
        result = found(other)
        assert result.labels == expected.labels
        np.testing.assert_array_equal(result.pvalue, expected.pvalue)
    assert found(table, rng=2).labels != expected.labels or (found(table, rng=2).pvalue != expected.pvalue).any()


def test_the_numbers_are_those_of_flag_on_the_held_out_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    data = planted()
    data["id"] = np.arange(len(data["sex"]))
    kept = halves(monkeypatch)
    order: list[Any] = []
    original = MODULE.digest

    def digest(columns: Any) -> Any:
        order.append(original(columns))
        return order[-1]

    monkeypatch.setattr(MODULE, "digest", digest)
    result = found(data)
    lines = np.argsort(order[0])
    everything = pl.DataFrame(data)
    for name, (_, held, _) in zip(("first", "second"), kept, strict=True):
        places = [i for i, half in enumerate(result.found) if half == name]
        groups = [result.groups_found[i] for i in places]
        rows = everything[lines[held]]
        again = iso.flag(
            rows,
            metric="selection_rate",
            prediction="approved",
            groups=groups,
            reference="rest",
            null=iso.null(side="less"),
            adjust="holm",
        )
        for field in ("n", "estimate", "reference_value", "disparity", "ci_low", "ci_high", "pvalue"):
            np.testing.assert_allclose(getattr(again, field), getattr(result, field)[places], rtol=1e-10)


def test_each_half_has_weighted_holm_pvalues_times_two(table: pl.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    parts: list[Any] = []
    original = MODULE.judged

    def judged(part: Any, *more: Any) -> Any:
        parts.append(part)
        return original(part, *more)

    monkeypatch.setattr(MODULE, "judged", judged)
    found(table)
    assert len(parts) == 2
    for part in parts:
        p, weight, places = part["pvalue"], 1.0 / np.arange(1, part["pvalue"].size + 1), range(part["pvalue"].size)
        # Every intersection of the hypotheses, by Bonferroni's test with the weights of its members.
        sets = [list(some) for k in places for some in combinations(places, k + 1)]
        tests = {tuple(some): (p[some] / weight[some]).min() * weight[some].sum() for some in sets}
        closed = [max(value for some, value in tests.items() if i in some) for i in places]
        np.testing.assert_allclose(part["adjusted_pvalue"], np.minimum(2 * np.array(closed), 1.0))


def test_clusters_are_halved_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = halves(monkeypatch)
    found(planted(), cluster="person")
    (rows, second, _), (_, first, _) = kept
    assert not set(rows.cluster[first]) & set(rows.cluster[second])
    assert np.union1d(first, second).size == rows.value.size


@pytest.mark.parametrize(
    "options",
    [
        {"weight": "weight"},
        {"cluster": "person"},
        {"count": "count"},
        {"given": "stratum"},
        {"given": ["stratum", iso.cut("score", [0.3, 0.5])], "weight": "weight"},
        {"scale": "ratio", "tolerance": 0.9},
        {"scale": "odds_ratio"},
        {"reference": 0.5},
        {"tolerance": 0.03},
        {"side": "both"},
        {"metric": "tpr", "outcome": "outcome"},
        {"metric": "brier", "outcome": "outcome", "score": "score", "features": ["sex", "age", "region"]},
        {"metric": iso.Metric("amount", value=iso.col("amount"))},
        {"search": iso.search(depth=1)},
        {"search": iso.search(depth=2, cuts=4, min_share=0.05)},
        {"evidence": "all"},
        {"evidence": "all", "tolerance": 0.03},
        {"most": 1},
    ],
    ids=str,
)
def test_every_option_gives_a_result_that_can_be_stored_and_read(options: dict[str, Any]) -> None:
    result = found(planted(), **options)
    assert result.tried >= 1
    stored = iso.from_json(result.to_json())
    assert stored.summary() == result.summary()
    assert stored.to_toml() == result.to_toml()
    assert [group.name for group in stored.groups_found] == list(result.labels)
    assert np.nanmax(result.adjusted_pvalue) <= 1.0
    assert (result.adjusted_pvalue >= result.pvalue - 1e-15).all()


def test_depth_and_size_limit_the_subgroups(table: pl.DataFrame) -> None:
    assert max(len(group.items) for group in found(table, search=iso.search(depth=1)).groups) == 1
    large = found(table, search=iso.search(min_share=0.3))
    assert (large.people > 0.2).all()
    assert found(table, most=1).tried <= 2


def test_doubled_counts_are_duplicated_rows() -> None:
    data = pl.DataFrame(planted(600))
    twice = found(data.with_columns(pl.lit(2).alias("k")), count="k")
    assert found(pl.concat([data, data])).to_frame().equals(twice.to_frame())


def test_scaling_the_weights_changes_nothing() -> None:
    data = pl.DataFrame(planted(800))
    scaled = data.with_columns(pl.col("weight") * 4)
    frames = (found(rows, weight="weight").to_frame() for rows in (data, scaled))
    assert_frame_equal(*frames, rel_tol=1e-12)


def test_renaming_levels_and_moving_numbers_changes_names_alone() -> None:
    data = planted()
    cuts = [30, 45, 60]
    expected = found(data, features=["sex", iso.cut("age", cuts)])
    other = {**data, "sex": np.where(data["sex"] == "f", "x", "y"), "age": data["age"] ** 3}
    result = found(other, features=["sex", iso.cut("age", [cut**3 for cut in cuts])])
    np.testing.assert_allclose(result.disparity, expected.disparity)
    np.testing.assert_allclose(result.adjusted_pvalue, expected.adjusted_pvalue)


def test_the_opposite_decision_with_the_opposite_meaning_finds_the_same() -> None:
    data = planted()
    opposite = {**data, "approved": 1 - data["approved"]}
    every: dict[str, Any] = {"evidence": "all"}
    expected, result = found(data, **every), found(opposite, better="lower", **every)
    assert result.labels == expected.labels
    np.testing.assert_allclose(result.disparity, -expected.disparity)
    np.testing.assert_allclose(result.pvalue, expected.pvalue)


def test_a_favored_subgroup_is_found_on_request() -> None:
    data = planted()
    result = found({**data, "approved": 1 - data["approved"]}, side="better")
    assert result.direction[0] == "favored"
    assert result.disparity[0] > 0
    assert not any(verdict is iso.Verdict.VIOLATION for verdict in found(data, side="better", tolerance=0.2).verdicts)


# ---- all rows


def test_a_subgroup_and_all_others_are_one_finding() -> None:
    i = np.arange(2_000)
    data = {
        "sex": np.where(i % 2, "f", "m"),
        "region": i // 2 % 3,
        "y": (i * 7 % 10 < np.where(i % 2, 3, 6)).astype(int),
    }
    result = found(data, prediction="y", features=["sex", "region"], side="both")
    assert len({"sex=f", "sex=m"} & set(result.labels)) == 1


def test_all_rows_count_every_subgroup_by_fishers_test() -> None:
    data = reference_table()
    features = [
        "sex",
        "region",
        iso.cut("age", (26, 33, 41, 48, 56, 63, 71)),
        iso.cut("hours", (7, 13, 19, 25, 32, 38, 44)),
    ]
    result = found(data, prediction="y", features=features, evidence="all", search=iso.search(min_share=1e-9))
    assert result.counted == 1_648
    best = result.labels.index("sex=f & age < 33")
    p = stats.hypergeom.cdf(68, 2_400, 1_034, 280)
    assert result.pvalue[best] == pytest.approx(p, rel=1e-9)
    assert result.adjusted_pvalue[best] == pytest.approx(1_648 * p, rel=1e-9)
    assert (result.n[best], result.estimate[best]) == (280, 68 / 280)
    assert result.provenance.seed is None
    assert "1,648 subgroups could have been named" in result.findings()[0]


def test_all_rows_can_show_that_no_subgroup_lies_beyond_the_tolerance() -> None:
    rng = np.random.default_rng(2)
    data = {"a": rng.choice(["x", "y"], 40_000), "b": rng.choice(["u", "v"], 40_000), "y": rng.integers(0, 2, 40_000)}
    options: dict[str, Any] = {"prediction": "y", "features": ["a", "b"], "evidence": "all"}
    result = found(data, **options, tolerance=0.05)
    assert result.verdict is iso.Verdict.WITHIN_TOLERANCE
    assert "None of them is worse off by more than the tolerance" in result.findings()[0]
    assert found(data, **options, tolerance=0.005).verdict is iso.Verdict.INCONCLUSIVE
    assert found(data, **options | {"evidence": "crossfit"}, tolerance=0.05).verdict is iso.Verdict.INCONCLUSIVE


# ---- nothing to find, and features that explain everything


def test_nothing_stands_out() -> None:
    data = {"y": np.ones(400, dtype=int), "a": np.arange(400) % 3, "b": np.arange(400) % 7}
    for evidence in ("crossfit", "all"):
        result = found(data, prediction="y", features=["a", "b"], evidence=evidence)
        assert result.verdict is iso.Verdict.INCONCLUSIVE
        assert result.answered
        assert result.to_frame().shape == (0, 18)
        assert result.to_toml() == ""
        result.plot().to_dict()
        assert iso.from_json(result.to_json()).summary() == result.summary()
    assert "No subgroup stood out enough to be tested." in found(data, prediction="y", features="a").findings()[0]


def test_a_feature_that_determines_the_decision() -> None:
    rng = np.random.default_rng(0)
    a, noise = rng.integers(0, 2, 1_000), rng.normal(size=1_000)
    result = found({"y": a, "a": a.astype(str), "b": noise}, prediction="y", features=["a", "b"])
    assert result.labels[0] == "a=0"
    assert result.verdicts[0] is iso.Verdict.VIOLATION
    assert result.disparity[0] == -1.0


def test_confirmed_by_chance_no_more_often_than_alpha() -> None:
    rng = np.random.default_rng(11)
    shown = 0
    for seed in range(30):
        data = {f"f{i}": rng.integers(0, 3, 400) for i in range(6)} | {"y": rng.integers(0, 2, 400)}
        shown += found(data, prediction="y", features=[f"f{i}" for i in range(6)], rng=seed).verdict == "violation"
    assert shown <= 6  # P(more than 6 of 30 at 0.05) is below 0.001


# ---- features


def test_missing_values_are_a_level_of_their_own_and_in_no_interval() -> None:
    data = planted()
    rng = np.random.default_rng(1)
    gone = rng.random(2_000) < 0.2
    age = np.where(gone, np.nan, data["age"].astype(float))
    approved = np.where(gone, rng.random(2_000) < 0.2, rng.random(2_000) < 0.6).astype(int)
    rows = {**data, "age": age, "approved": approved}
    result = found(rows, missing_group="level", features=["age", "sex"])
    assert "age=(missing)" in result.labels[0]
    size = dict(zip(result.labels, result.people * 2_000, strict=True))
    options: dict[str, Any] = {"metric": "selection_rate", "prediction": "approved", "missing_group": "raise"}
    again = iso.flag(pl.DataFrame(rows), groups=result.groups_found, **options)  # no condition is null
    for label, n in zip(again.labels, again.size, strict=True):
        if "(missing)" not in label:  # polars tells NaN from null
            assert n == pytest.approx(size[label])
    with pytest.raises(IsonomyError, match=r"features: 'age' has \d+ rows with no value"):
        found(rows, features=["age", "sex"])
    dropped = found(rows, missing_group="drop", features=["age", "sex"])
    assert dropped.provenance.dropped == {"age": int(gone.sum())}


def test_conditions_and_their_complements_are_features(table: pl.DataFrame) -> None:
    young = iso.where("young women", (iso.col("age") < 30) & (iso.col("sex") == "f"))
    result = found(table, features=[young, "region"])
    assert result.labels[0] == "young women"
    better = found(table, features=[young, "region"], side="better")
    assert "young women=False" in better.labels[0]
    named = table.with_columns(((pl.col("age") < 30) & (pl.col("sex") == "f")).alias("young women"))
    flagged = iso.flag(named, metric="selection_rate", prediction="approved", groups=result.groups_found[:1])
    assert flagged.size[0] == named["young women"].sum()


def test_numbers_with_few_values_keep_them(table: pl.DataFrame) -> None:
    data = table.with_columns(pl.when(pl.col("children") == 2).then(0).otherwise(pl.col("approved")).alias("approved"))
    assert found(data).labels[0] == "children=2"
    low = table.with_columns(pl.when(pl.col("children") < 2).then(0).otherwise(pl.col("approved")).alias("approved"))
    assert found(low).labels[0] == "children < 2"


def test_numbers_of_single_precision_have_short_names(table: pl.DataFrame) -> None:
    size = (pl.col("children").cast(pl.Float32) + 1.2).cast(pl.Float32).alias("size")
    lower = pl.when(pl.col("children") == 2).then(0).otherwise(pl.col("approved")).alias("approved")
    result = found(table.with_columns(size, lower), features=["size", "sex"])
    assert result.labels[0] == "size=3.2"
    (condition,) = result.groups_found[:1]
    again = iso.flag(table.with_columns(size), metric="selection_rate", prediction="approved", groups=condition)
    assert again.size[0] == table.filter(pl.col("children") == 2).height


def test_identifiers_are_left_out_with_a_note(table: pl.DataFrame) -> None:
    data = table.with_columns(pl.arange(0, len(table)).cast(pl.String).alias("id"), pl.lit(1).alias("one"))
    result = found(data, features=[*FEATURES, "id", "one"])
    assert any("No value of id and one has 30 rows" in warning for warning in result.warnings)
    assert result.labels == found(table).labels


# ---- files


def test_an_audit_file_takes_every_key_and_what_was_found_goes_into_the_next(
    table: pl.DataFrame, tmp_path: Path
) -> None:
    table.write_parquet(tmp_path / "data.parquet")
    head = '[data]\npath = "data.parquet"\n[columns]\nprediction = "approved"\n'
    test = """
[[tests]]
kind = "discover"
metric = "selection_rate"
features = ["sex", {column = "age", edges = [30, 50]}, "region", "hours"]
tolerance = 0.01
most = 3
min_size = 40
side = "worse"
search = {search = {depth = 2, cuts = 4, min_share = 0.02}}
evidence = "crossfit"
rng = 3
"""
    (tmp_path / "audit.toml").write_text(head + test)
    outcome = iso.Audit.from_toml(tmp_path / "audit.toml").run(tmp_path / "report")
    result = next(iter(outcome.results.values()))
    assert isinstance(result, iso.DiscoverResult)
    assert result.labels[0] == "sex=f & age < 30"
    page = (tmp_path / "report" / "report.html").read_text()
    assert "sex=f &amp; age &lt; 30" in page
    following = '[[tests]]\nkind = "flag"\nmetric = "selection_rate"\nreference = "rest"\n'
    (tmp_path / "next.toml").write_text(f"{head}\n{result.to_toml()}\n{following}")
    again: Any = next(iter(iso.Audit.from_toml(tmp_path / "next.toml").run().results.values()))
    assert again.labels == result.labels
    inside = table.filter((pl.col("sex") == "f") & (pl.col("age") < 30))
    assert again.size[0] == len(inside)
    assert again.estimate[0] == pytest.approx(inside["approved"].mean())


def test_text_with_quotes_and_dates_can_be_written() -> None:
    rng = np.random.default_rng(0)
    days = np.array(["2026-01-01", "2026-01-02"], dtype="datetime64[D]")[rng.integers(0, 2, 600)]
    name = np.array(['a "b"', "c\\d"])[rng.integers(0, 2, 600)]
    data = pl.DataFrame({"day": days, "name": name, "ok": rng.random(600) < 0.5})
    data = data.with_columns(y=((pl.col("name") == "c\\d") | (pl.col("day").dt.day() == 2)).cast(pl.Int8))
    result = found(data, prediction="y", features=["day", "name", "ok"])
    written = tomllib.loads(result.to_toml())["columns"]["groups"]
    assert [entry["name"] for entry in written] == list(result.labels)
    assert any(part.get("value") == 'a "b"' for entry in written for part in entry["where"])


# ---- disclosure


def test_small_subgroups_are_not_listed(table: pl.DataFrame) -> None:
    result = found(table)
    limit = int(np.sort(result.n)[1])
    hidden = result.published(limit)
    assert (hidden.n >= limit).all()
    assert len(hidden.labels) < len(result.labels)
    gone = [label for label in result.labels if not any(label in shown for shown in hidden.labels)]
    assert gone
    assert not any(label in text for label in gone for text in hidden.findings())
    assert any("are not listed" in warning for warning in hidden.warnings)
    nothing = result.published(10_000)
    assert not nothing.labels
    assert nothing.verdict is iso.Verdict.INCONCLUSIVE
    nothing.plot().to_dict()


def test_subgroups_that_differ_by_few_rows_are_not_both_listed(table: pl.DataFrame) -> None:
    result = found(table)
    for limit in (20, 60, 150):
        hidden = result.published(limit)
        for half in ("first", "second"):
            sizes = np.sort([n for n, name in zip(hidden.n, hidden.found, strict=True) if name == half])
            assert (np.diff(sizes) >= limit).all()


# ---- bad input


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"features": ["person", "sex"], "cluster": "person"}, "features: 'person' is the cluster"),
        ({"features": ["age", "amount"], "metric": iso.Metric("a", value=iso.col("amount"))}, "used by the metric"),
        ({"features": ["sexx"]}, "features: .*'sex'"),
        ({"features": iso.where("x", iso.col("age"))}, "where"),
        ({"features": "id"}, "features: nothing to make subgroups of"),
        (
            {"evidence": "all", "cluster": "person"},
            "evidence: 'all' counts 0/1 rows one by one; it does not go with cluster",
        ),
        ({"evidence": "all", "reference": 0.4}, "go with a number as reference"),
    ],
    ids=str,
)
def test_bad_input_is_refused_by_name(table: pl.DataFrame, options: dict[str, Any], message: str) -> None:
    with pytest.raises(IsonomyError, match=message):
        found(table, **options)


def test_too_many_conditions_are_refused(table: pl.DataFrame) -> None:
    rng = np.random.default_rng(0)
    wide = table.with_columns(pl.Series(f"x{i}", rng.normal(size=len(table))) for i in range(12))
    with pytest.raises(IsonomyError, match=r"features: 12 columns make 6,324 conditions; the limit is 5,000"):
        found(wide, features=[f"x{i}" for i in range(12)], search=iso.search(cuts=32))


def test_too_many_rows_are_refused(table: pl.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MODULE, "MOST_ROWS", 1_000)
    with pytest.raises(IsonomyError, match=r"data: 2,000 rows; discover reads the codes of at most 1,000"):
        found(table)


def test_a_part_of_many_rows_is_searched(table: pl.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MODULE, "SEARCHED", 500)
    result = found(table)
    assert result.n.sum() > 0
    assert any("used 500 random rows of each half" in warning for warning in result.warnings)


def test_rows_that_are_dropped_change_nothing(table: pl.DataFrame) -> None:
    more = table.head(300).with_columns(pl.lit(None, pl.Int64).alias("approved"), pl.col("age") + 500)
    both = pl.concat([table, more.select(table.columns)], how="vertical_relaxed")
    result = found(both, missing="drop")
    assert result.provenance.dropped == {"approved": 300}
    assert result.to_frame().equals(found(table).to_frame())


def test_few_clusters_cannot_be_halved(table: pl.DataFrame) -> None:
    data = table.with_columns((pl.arange(0, len(table)) % 7).alias("branch"))
    with pytest.raises(IsonomyError, match="cluster: there are 7 clusters; discover needs 10 to halve them"):
        found(data, cluster="branch")


def test_subgroups_of_different_halves_are_not_compared_by_their_counts(table: pl.DataFrame) -> None:
    result = found(table).published(10)
    assert len(result.labels) > 1
    first, second = result.labels.index("age < 25"), result.labels.index("region=east")
    rows: Any = 300.0 + 50.0 * np.arange(len(result.labels))
    rows[second] = rows[first] + 3
    halves = np.array(result.found, dtype=object)
    for half, groups in (("second", set()), ("first", {"age < 25", "region=east"})):
        halves[[first, second]] = "first", half
        near = replace(result, n=rows, size=rows, estimate=100.0 / rows, found=tuple(halves))
        notes = family_notes({"d": near}, 10)["d"]
        assert {label for note in notes if note.code == "near_counts" for label in note.groups} == groups
