"""A short run of the sweep; `make fuzz` runs a long one."""

from __future__ import annotations

import datetime
import json
import math
import re
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import isonomy as iso
from fuzz import commands, forms
from fuzz.calls import internal_names, numbers, opened, public, table
from fuzz.sweep import BAD, Hang, _written, expected, limited, sweep
from isonomy.audit.compare import compare
from isonomy.frames import adapt
from isonomy.monitoring.state import _digest
from isonomy.testing import assert_no_violation


def test_hostile_calls_end_in_a_clear_error_or_the_right_number() -> None:
    outcomes = list(sweep(range(25), seconds=600))
    assert not [one for one in outcomes if one.outcome in BAD]
    assert {"right", "error"} <= {one.outcome for one in outcomes}


@cache
def crowded() -> pl.DataFrame:
    plain = table()
    strangers = [name for name in internal_names() if name not in plain.columns]
    return plain.with_columns(plain["x"].shuffle(i).alias(name) for i, name in enumerate(strangers))


@pytest.mark.parametrize("place", range(len(public())), ids=[call.name for call in public()])
def test_columns_under_the_packages_own_names_change_no_number(place: int) -> None:
    """All of them at once, in addition to the columns used, and with the values of other columns."""
    call = public()[place]
    answer = numbers(call.function(crowded(), **call.columns, **call.options))
    np.testing.assert_allclose(answer, expected(place), rtol=1e-9, atol=1e-12)


def test_proxies_may_be_in_columns_of_any_name() -> None:
    roles: Any = {"metric": "selection_rate", "prediction": "p"}
    names = ["__proxy state", "proxy 0", "proxy sum"]
    strange = table().rename(dict(zip("lmn", names, strict=True)))
    first = iso.flag(table(), groups=iso.proxy("o", dict(zip("abc", "lmn", strict=True))), **roles)
    second = iso.flag(strange, groups=iso.proxy("o", dict(zip("abc", names, strict=True))), **roles)
    np.testing.assert_allclose(numbers(first), numbers(second), rtol=1e-9)


@pytest.mark.parametrize("name", ["price_of_fairness", "improvability", "adverse_impact", "discover, a mean"])
def test_a_line_that_stands_for_rows_gives_the_answer_of_these_rows(name: str) -> None:
    call = next(call for call in public() if call.name == name)
    rows = table()[np.repeat(np.arange(240), table()["k"].to_numpy())]
    counted = call.function(table(), **call.columns, **call.options, count="k")
    np.testing.assert_allclose(
        numbers(counted), numbers(call.function(rows, **call.columns, **call.options)), rtol=1e-7, atol=1e-9
    )


def test_people_are_dealt_into_the_same_parts_whatever_identifies_them() -> None:
    roles: Any = {"outcome": "y", "score": "s", "groups": "g", "user": "u", "splits": 1, "rng": 0}
    named = table().with_columns(u=pl.format("person {}", "u"))
    first = iso.evaluate_calibrators(table(), calibrators=["binning"], **roles)
    second = iso.evaluate_calibrators(named, calibrators=["binning"], **roles)
    np.testing.assert_allclose(numbers(first), numbers(second), rtol=1e-9)
    unknown = pl.concat([table(), table().head(4).with_columns(u=pl.lit(None, pl.Int64))])
    roles = {"outcome": "y", "score": "s", "groups": "g", "user": "u"}
    first = iso.calibration_metrics(table(), **roles)
    second = iso.calibration_metrics(unknown, **roles, missing="drop")
    np.testing.assert_allclose(numbers(first), numbers(second), rtol=1e-9)


@pytest.mark.parametrize("name", ["price_of_fairness", "composite_parity", "marginal_outcomes"])
def test_every_line_of_a_result_has_a_key(name: str) -> None:
    call = next(call for call in public() if call.name == name)
    result = call.function(table(), **call.columns, **call.options)
    assert len(result.keys()) == len(result.names)


def test_a_metric_that_counts_no_row_leaves_the_others() -> None:
    positive = table().with_columns(y=pl.lit(1))
    roles: Any = {"outcome": "y", "prediction": "p", "groups": "g"}
    both = iso.flag(positive, metric=["tpr", "fpr"], **roles)
    alone = iso.flag(positive, metric="tpr", **roles)
    counted = np.array([name == "tpr" for name in both.metrics])
    np.testing.assert_allclose(both.estimate[counted], alone.estimate)
    assert np.isnan(both.pvalue[~counted]).all()


def test_the_search_of_the_source_knows_the_names_of_passes() -> None:
    assert {"__count", "__k0", "__v0", "group g", "role outcome", "column 0", "mass", "cluster", "cell"} <= set(
        internal_names()
    )


def _busy(seconds: float) -> None:
    """Work in Python, because a loop in C would not check for the signal."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


def test_a_call_that_takes_too_long_is_stopped() -> None:
    with pytest.raises(Hang), limited(0.05):
        _busy(20.0)


def test_depth_over_many_columns_is_refused_before_any_row_is_read() -> None:
    wide = pl.DataFrame({f"c{i}": [0, 1] for i in range(25)} | {"p": [0, 1]})
    with pytest.raises(iso.errors.UsageError, match=r"depth: 25 over 25 groups asks for 33,554,431 sets"):
        iso.flag(wide, metric="selection_rate", prediction="p", groups=[f"c{i}" for i in range(25)], depth=25)


NESTED = table().with_columns(pl.struct("k").alias("g"))
NAMED: Any = iso.where("n", iso.col("x") > 0)
MAPPED: Any = {1: 2}
NAMELESS: Any = [None]
WRONG_REFERENCE: Any = iso.Metric("m", iso.col("v"))
DATED = table().with_columns(y=datetime.datetime(2026, 1, 1) + pl.duration(days="y"))
SPELLED = table().with_columns(y=pl.col("y").cast(pl.String))
OBJECTIVES: Any = {"scores": ["s", "r"], "groups": ["g"]}
FOUND: dict[str, Any] = {
    "dates as one of several outcomes": (
        lambda: iso.MultiObjectiveCalibrator(**OBJECTIVES).fit(table(), DATED.select("y", "z")),
        "y: holds dates such as",
    ),
    "numbers as text as outcomes": (
        lambda: iso.GroupCalibrator(score_column="s", groups="g").fit(table(), SPELLED["y"]),
        "y: holds text such as '1'",
    ),
    "numbers as text as outcomes of an array": (
        lambda: iso.GroupThresholds(score_column="s", groups="g", target="tpr").fit(table(), SPELLED["y"].to_list()),
        "y: holds text such as '1'",
    ),
    "a complex number as one of several outcomes": (
        lambda: iso.MultiObjectiveCalibrator(**OBJECTIVES).fit(
            table(), pl.DataFrame({"y": pl.Series([1j] * 240, dtype=pl.Object), "z": table()["z"]})
        ),
        "y: holds objects such as 1j",
    ),
    "counts that sum beyond whole numbers": (
        lambda: iso.flag(
            table().with_columns(k=pl.lit(2**50 + 1)), metric="selection_rate", prediction="p", groups="g", count="k"
        ),
        "count: column 'k' adds up to 2.7e\\+17 rows; at most",
    ),
    "half of a surrogate pair": (
        lambda: iso.where("\ud800", iso.col("x") > 0),
        r"name: '\\ud800' contains half of a surrogate pair",
    ),
    "half of a surrogate pair among probabilities": (
        lambda: iso.proxy("o", {"\ud800": "l", "b": "m"}, other="c"),
        "probabilities: .* contains half of a surrogate pair",
    ),
    "batches of lists": (
        lambda: iso.monitor(
            table().with_columns(f=pl.concat_list("f")), metric="selection_rate", prediction="p", groups="g", batch="f"
        ),
        "batch: the column holds lists, bytes or objects; use text",
    ),
    "a set of shares": (lambda: iso.simulate.uplift(50, treated=set()), "treated: set.. is not allowed; give numbers"),  # type: ignore[arg-type]
    "ratios in a table": (lambda: iso.correction_risk(np.zeros((2, 2))), "ratios: .*a list of finite numbers"),
    "a condition as candidate": (
        lambda: iso.improvability(table(), outcome="y", groups="g", status_quo="p", candidate=NAMED),
        "candidate: Where",
    ),
    "nested groups": (
        lambda: iso.GroupCalibrator(score_column="s", groups="g").fit(NESTED, NESTED["y"]),
        "groups: column 'g' is Struct",
    ),
    "scores beyond all sums": (
        lambda: iso.GroupCalibrator(score_column="s", groups="g").fit(
            table().with_columns(s=pl.lit(1e200)), table()["y"]
        ),
        "score_column: holds numbers beyond 1e\\+70",
    ),
    "strata without a name": (
        lambda: iso.treatment_bias(table(), effect="e", treatment="t", outcome="v", groups="g", given=NAMELESS),
        r"given: \[None\]; give column names",
    ),
    "users who are all missing": (
        lambda: iso.predictive_parity(
            table().with_columns(u=pl.lit(None, pl.Int64)),
            outcome="y",
            score="s",
            groups="g",
            user="u",
            missing="drop",
        ),
        "data: no rows are left; the user is missing in every row",
    ),
    "estimates of no subgroup": (
        lambda: iso.discover(
            table(), metric="brier", outcome="y", score="s", features=["x"], cluster="u", min_size=5, rng=0
        ).shrunk(),
        "shrunk: the result has no groups",
    ),
    "a metric as reference": (
        lambda: iso.monitor(
            table(), metric="tpr", outcome="y", prediction="p", groups="g", batch="f", reference=WRONG_REFERENCE
        ),
        "reference: Metric",
    ),
    "batches of objects": (
        lambda: iso.monitor(
            table().with_columns(f=pl.Series([object()] * 240, dtype=pl.Object)),
            metric="selection_rate",
            prediction="p",
            groups="g",
            batch="f",
        ),
        "data: a column holds objects; use text",
    ),
    "a region of one group": (
        lambda: iso.certify(
            table().with_columns(g=pl.int_range(pl.len()) < 1), metric="selection_rate", prediction="p", groups="g"
        ).projections(),
        "projections: a joint test with 0 degrees of freedom has no region",
    ),
    "a mapping as bandwidth": (
        lambda: iso.calibration_metrics(
            table(), outcome="y", score="s", groups="g", method=iso.curves(bandwidth=MAPPED)
        ),
        r"bandwidth: \{1: 2\} is not allowed",
    ),
}


@pytest.mark.parametrize("name", FOUND)
def test_what_a_sweep_found_is_refused_in_words(name: str) -> None:
    call, words = FOUND[name]
    with pytest.raises(iso.errors.IsonomyError, match=words):
        call()


def test_very_many_comparable_people_are_fitted() -> None:
    """The rounding of the likelihood of 10^12 rows must not be taken for classes that are separated."""
    rng, n = np.random.default_rng(0), 3_000
    age, income = rng.integers(18, 80, n), rng.lognormal(10, 0.5, n)
    columns: dict[str, Any] = {
        "age": age,
        "income": income,
        "g": rng.integers(0, 4, n),
        "region": rng.integers(0, 6, n),
    }
    columns["p"] = rng.random(n) < 1 / (1 + np.exp(1 - 0.02 * (age - 45) - 0.5 * np.log(income / 22_000)))
    few, many = (
        iso.flag(
            {**columns, "k": np.full(n, k)},
            metric="selection_rate",
            prediction="p",
            groups="g",
            count="k",
            given=iso.comparable("age", "income", "region"),
        )
        for k in (1, 10**9)
    )
    assert {status.value for status in (*few.status, *many.status)} == {"ok"}
    np.testing.assert_allclose(many.disparity, few.disparity, rtol=1e-6)


def test_adverse_impact_without_a_row_has_a_report() -> None:
    unknown = table().with_columns(g=pl.lit(None, pl.String))
    config = {
        "data": {"missing_group": "level"},
        "tests": [{"kind": "adverse_impact", "prediction": "p", "groups": "g"}],
    }
    (entry,) = iso.Audit.from_dict(config, data=unknown).run().entries
    assert entry.fault == "data"
    assert entry.error_kind != "crash"


@pytest.mark.parametrize(
    "name", [call.name for call in public() if "groups" in call.columns and "y" not in call.columns]
)
def test_no_control_character_reaches_a_chart(name: str) -> None:
    """The renderer would end the process."""
    call = next(call for call in public() if call.name == name)
    marked = table().with_columns(pl.col("g", "h") + "\x01\ufffe")
    groups = ["g", iso.where("w\x01", iso.col("x") > 0)] if call.function is not iso.flag else ["g", "h"]
    more = {"depth": 2} if name == "flag" else {}
    with suppress(iso.errors.UsageError):
        result = call.function(marked, **{**call.columns, **call.options, "groups": groups, **more})
        text = json.dumps(result.plot().to_dict(), ensure_ascii=False) if hasattr(result, "plot") else ""
        assert not re.search("[\x00-\x08\x0e-\x1b\ufffe\uffff]|\\\\u00[01]", text)


def test_groups_of_times_are_stored_and_large_keys_are_told_apart() -> None:
    timed = table().with_columns(g=pl.time(pl.col("k")))
    result = iso.flag(timed, metric="selection_rate", prediction="p", groups="g")
    assert iso.from_json(result.to_json()).groups == result.groups
    large = table().with_columns(u=pl.col("u").cast(pl.Int128) + 2**100)
    roles: Any = {"outcome": "y", "score": "s", "groups": "g", "user": "u"}
    first, second = iso.calibration_metrics(table(), **roles), iso.calibration_metrics(large, **roles)
    np.testing.assert_allclose(numbers(first), numbers(second), rtol=1e-9)


RESULT = iso.Audit.from_dict({"tests": [{"kind": "adverse_impact", "prediction": "p", "groups": ["g"]}]}, data=table())
WRONG: Any = 5
BY_HAND: dict[str, Any] = {
    "no audit to compare": (lambda: compare(WRONG, RESULT.run()), "audits: 5 is not allowed"),
    "no folder": (lambda: RESULT.run().write(WRONG), "output: 5 is not allowed"),
    "no folder to run in": (lambda: RESULT.run(WRONG), "output: 5 is not allowed"),
    "no audit to log": (lambda: iso.mlflow.log_audit(WRONG), "audit: 5; give the result of"),
    "no result": (lambda: assert_no_violation(WRONG), "assert_no_violation: 5; give results"),
    "no verdicts": (lambda: assert_no_violation(RESULT.run(), fail_on=WRONG), "fail_on: 5 is not allowed"),
    "no name of a metric": (lambda: iso.Metric(WRONG, iso.col("y")), "name: 5 is not allowed"),
    "no estimate": (lambda: iso.Estimate(math.inf, "y"), "value: inf is not allowed"),
    "no name of a group": (lambda: iso.where(WRONG, iso.col("y") == 1), "name: 5 is not allowed"),
    "no column to cut": (lambda: iso.cut(WRONG, [1]), "column: 5 is not allowed"),
    "no outcomes": (
        lambda: iso.MultiObjectiveCalibrator(scores=["s", "r"], groups=["g"]).fit(table(), WRONG),
        "y: ",
    ),
    "weights by name": (
        lambda: iso.GroupCalibrator(score_column="s", groups="g").fit(table(), table()["y"], sample_weight={}),
        "sample_weight: ",
    ),
}


@pytest.mark.parametrize("name", BY_HAND)
def test_what_was_tried_by_hand_is_refused_in_words(name: str) -> None:
    call, words = BY_HAND[name]
    with pytest.raises(iso.errors.IsonomyError, match=words):
        call()


def test_a_tampered_state_of_a_monitor_ends_in_words(tmp_path: Path) -> None:
    """Also with a digest that fits: whoever changes the file can compute it."""
    path, rows = tmp_path / "state.json", table()
    monitor = iso.Monitor(metric=["tpr", "fpr"], outcome="y", prediction="p", groups="g")
    for i in range(3):
        monitor.update(rows[80 * i : 80 * i + 80], batch=str(i))
    monitor.save(path)
    stored = json.loads(path.read_text())
    refused = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        document = forms.tampered(rng, stored)
        with suppress(RecursionError, TypeError):  # nested too deeply, or no JSON
            document = {**document, "digest": _digest(document)}
        text = _written(document)
        path.write_text(text if seed % 10 else text[: len(text) // 2])
        try:
            loaded = iso.Monitor.load(path)
            loaded.update(rows[:80].with_columns(p=1 - pl.col("p")), batch="new").summary()
        except iso.errors.IsonomyError:
            refused += 1
    assert refused > 20


def test_probabilities_that_do_not_sum_to_one_are_refused() -> None:
    shares = iso.proxy("o", {"a": "l", "b": "m", "c": "n"})
    for wrong in (table().with_columns(n=pl.col("n") + 0.2), table().with_columns(l=-pl.col("l"))):
        with pytest.raises(iso.errors.IsonomyError, match="probabilities: "):
            iso.flag(wrong, metric="selection_rate", prediction="p", groups=shares)


@pytest.mark.parametrize("command", ["report", "card", "validate", "monitor status", "monitor restart", "compare"])
def test_a_file_without_end_is_refused(command: str) -> None:
    assert commands.command([*command.split(), "/dev/zero", *(["/dev/zero"] if command == "compare" else [])]) == 2


@pytest.mark.parametrize("path", ["/proc/**/*", "/dev/stdin", "/dev/zero"])
def test_paths_without_end_are_refused(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapt, "MOST_FILES", 2_000)
    with pytest.raises(iso.errors.UsageError, match=r"data: .*(more than 2,000 files|is not a plain file)"):
        opened(path)
