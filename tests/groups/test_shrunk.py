"""Estimates drawn together: from a result, from JSON, without withheld groups, in an audit's report."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import isonomy as iso
from groups.likelihood.test_shrinkage import RATE, ROWS, SELECTED, SHOWN
from isonomy.audit import AuditResult
from isonomy.errors import UsageError

CELLS = list(product("abc", "fm", "1234"))
CALL: dict[str, Any] = {"metric": "selection_rate", "prediction": "y", "groups": ["race", "sex", "age"], "depth": 3}
COLUMNS = ["group", "n", "estimate", "shrunk", "ci_low", "ci_high", "weight", "expected"]


def people(repeat: int = 1) -> pl.DataFrame:
    """The 839 rows of the reference values; ``value`` is real, and ``person`` identifies two rows each."""
    rows = [
        (*cell, int(i < selected))
        for cell, n, selected in zip(CELLS, ROWS, SELECTED, strict=True)
        for i in range(int(n))
    ]
    frame = pl.DataFrame(rows * repeat, schema=["race", "sex", "age", "y"], orient="row")
    value = 10 * np.random.default_rng(1).normal(size=len(frame)) + 20
    numbered = np.arange(len(frame))
    return frame.with_columns(
        value=value, person=numbered // 2, w=1 + numbered % 3, all=pl.lit("x"), years=pl.col("age").cast(int)
    )


@pytest.fixture(scope="module")
def result() -> iso.FlagResult:
    return iso.flag(people(), **CALL)


def test_a_result_has_the_reference_values(result: iso.FlagResult) -> None:
    frame = result.shrunk().to_frame()
    assert frame.columns == COLUMNS
    assert frame["n"].to_list() == ROWS.astype(int).tolist()
    assert frame["estimate"].to_numpy() == pytest.approx(RATE)
    assert frame["shrunk"].to_numpy()[SHOWN] == pytest.approx([0.359755, 0.377124, 0.329854], abs=5e-7)
    mean = result.shrunk("mean")
    assert mean.shrunk[[0, 23]] == pytest.approx([0.251767, 0.335736], abs=5e-7)
    assert mean.expected == pytest.approx(np.full(24, 0.285179), abs=5e-7)


def test_groups_below_the_minimum_are_used_and_shown(result: iso.FlagResult) -> None:
    small = [str(group) for group, status in zip(result.groups, result.status, strict=True) if status == "too_small"]
    assert small
    assert set(small) <= set(result.shrunk().group)


def test_there_is_no_verdict(result: iso.FlagResult) -> None:
    shrunk = result.shrunk()
    assert not hasattr(shrunk, "verdict")
    assert "verdict" not in shrunk.to_frame().columns
    assert "no verdict" in repr(shrunk)
    with pytest.raises(ValueError, match="read-only"):
        shrunk.shrunk[0] = 0.0


def test_rows_that_are_repeated_shrink_less_and_show_more(result: iso.FlagResult) -> None:
    once, often = result.shrunk(), iso.flag(people(20), **CALL).shrunk()
    assert (often.weight > once.weight).all()
    assert pytest.approx(20 * once.beyond_parts.Q, rel=1e-9) == often.beyond_parts.Q
    assert "The groups differ beyond the sum of race, sex and age by more than chance explains" in str(often)


def test_the_order_and_the_names_of_levels_do_not_matter(result: iso.FlagResult) -> None:
    renamed = people().with_columns(pl.col("race").replace({"a": "z"}), pl.col("age").replace({"1": "9"}))
    moved = iso.flag(renamed.sample(fraction=1, shuffle=True, seed=3), **CALL).shrunk().to_frame()
    numbers = ["estimate", "shrunk", "ci_low", "ci_high"]
    for name in numbers:
        left, right = (frame.sort(*numbers)[name].to_numpy() for frame in (moved, result.shrunk().to_frame()))
        assert left == pytest.approx(right, abs=1e-12)


@pytest.mark.parametrize("metric", ["selection_rate", iso.Metric("amount", value=iso.col("value"))])
@pytest.mark.parametrize("design", [{}, {"weight": "w"}, {"weight": "w", "cluster": "person"}])
def test_a_stored_result_gives_the_same_numbers(metric: Any, design: dict[str, Any]) -> None:
    fresh = iso.flag(people(), **CALL | {"metric": metric}, **design)
    stored = iso.from_json(fresh.to_json())
    assert stored.shrunk().to_frame().equals(fresh.shrunk().to_frame())
    assert stored.shrunk().beyond_parts == fresh.shrunk().beyond_parts


def test_real_values_pool_their_variance_within_groups() -> None:
    table = people()
    shrunk = iso.flag(table, **CALL | {"metric": iso.Metric("amount", value=iso.col("value"))}).shrunk("mean")
    cells = table.group_by("race", "sex", "age").agg(pl.len(), pl.col("value").mean(), s=pl.col("value").var())
    n, s = (cells[name].to_numpy() for name in ("len", "s"))
    pooled = float(((n - 1) * s).sum() / (n.sum() - n.size))
    # A weight is tau^2 / (tau^2 + s^2 / n), with the same tau^2 and s^2 for all groups.
    odds = (1 - shrunk.weight) / shrunk.weight * shrunk.n
    assert odds == pytest.approx(np.full(24, odds[0]))
    q = float((shrunk.n * (shrunk.estimate - np.average(shrunk.estimate, weights=shrunk.n)) ** 2).sum() / pooled)
    assert pytest.approx(q) == shrunk.beyond_parts.Q
    assert shrunk.ci_low.min() > 1  # not limited to [0, 1]


def test_own_rates_are_rates(result: iso.FlagResult) -> None:
    own = iso.flag(people(), **CALL | {"metric": iso.Metric("yes", value=iso.col("y"), binary=True)})
    assert own.shrunk().shrunk == pytest.approx(result.shrunk().shrunk, abs=1e-12)


def test_clusters_draw_further(result: iso.FlagResult) -> None:
    """A person's two rows are mostly equal, so each row carries about half the information."""
    clustered = iso.flag(people(), **CALL, cluster="person")
    assert (clustered.shrunk("mean").weight < result.shrunk("mean").weight).all()


def test_withheld_groups_are_neither_used_nor_shown() -> None:
    table, by_cell = people().with_columns(cell=pl.concat_str("race", "sex", "age")), {"groups": "cell", "depth": 1}
    published = iso.flag(table, **CALL | by_cell).published(12)
    lines = zip(published.groups, published.status, strict=True)
    withheld = {group.label for group, status in lines if status is iso.Status.SUPPRESSED}
    shrunk = published.shrunk()
    assert len(withheld) >= 4
    assert {*shrunk.group, *withheld} == {group.label for group in published.groups}
    assert not withheld & set(shrunk.group)
    others = table.filter(("cell=" + pl.col("cell")).is_in(shrunk.group))
    assert shrunk.shrunk == pytest.approx(iso.flag(others, **CALL | by_cell).shrunk().shrunk, abs=1e-12)


def test_one_set_of_columns_is_chosen(result: iso.FlagResult) -> None:
    assert result.shrunk().columns == ("race", "sex", "age")
    chosen = result.shrunk("mean", of=["age", "race"])
    assert chosen.columns == ("race", "age")
    assert len(chosen.group) == 12


def test_one_column_is_drawn_toward_its_mean() -> None:
    cell = pl.concat_str("race", "sex", "age")
    table = people().with_columns(cell=cell)
    alone = iso.flag(table, **CALL | {"groups": "cell", "depth": 1}).shrunk()
    assert alone.toward == "mean"
    assert alone.shrunk == pytest.approx(iso.flag(table, **CALL).shrunk("mean").shrunk, abs=1e-12)
    # A column with one level crosses nothing.
    beside = iso.flag(table, **CALL | {"groups": ["cell", "all"], "depth": 2}).shrunk()
    assert beside.shrunk == pytest.approx(alone.shrunk, abs=1e-12)


REFUSED: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"groups": ["race", "sex"], "depth": 2}, {}, "shrunk: 6 groups are too few to learn from one another; at least 8"),
    (
        {"groups": ["age", "sex"], "depth": 2},
        {},
        "shrunk: main effects leave 3 of 8 groups to judge by, and 10 are needed; give toward='mean'.",
    ),
    ({"depth": 2}, {}, r"shrunk: the groups overlap; name one set of columns: of=\('race', 'sex'\)."),
    ({}, {"of": ("race", "income")}, r"of: no groups are formed by \('race', 'income'\). Allowed: \('race',\), "),
    ({}, {"toward": "median"}, "toward: 'median' is not allowed. Did you mean 'mean'"),
    ({}, {"alpha": 1.5}, "alpha: 1.5 is not allowed"),
    ({"metric": ["selection_rate", "accuracy"], "outcome": "y"}, {}, "shrunk: the result has several metrics"),
    (
        {"metric": "auc", "outcome": "y", "score": "value", "groups": "race", "depth": 1},
        {},
        "shrunk: auc is not a mean over rows.",
    ),
    ({"groups": "race", "depth": 1, "given": "sex"}, {}, r"shrunk: groups were compared within strata \(given\)."),
    (
        {"metric": iso.Metric("years", value=iso.col("years")), "min_size": 1},
        {"of": ("race", "sex", "age"), "toward": "mean"},
        "shrunk: years does not vary within groups, so chance cannot be judged.",
    ),
]


@pytest.mark.parametrize(("call", "options", "message"), REFUSED)
def test_what_cannot_be_drawn_together_is_refused(call: Any, options: Any, message: str) -> None:
    answered = iso.flag(people(), **CALL | call)
    with pytest.raises(UsageError, match=message):
        answered.shrunk(**options)


# ---- in an audit


def audited(tmp_path: Path, **test: Any) -> tuple[AuditResult, str]:
    options = {"kind": "flag", "metric": "selection_rate", "depth": 3, **test}
    columns = {"prediction": "y", "groups": ["race", "sex", "age"]}
    audit = iso.Audit.from_dict({"columns": columns, "suppress_below": 0, "tests": [options]}, data=people())
    done = audit.run(tmp_path)
    return done, (tmp_path / "report.html").read_text()


@pytest.mark.usefixtures("no_pictures")
def test_an_audit_adds_the_table(tmp_path: Path) -> None:
    plain, without = audited(tmp_path / "plain")
    done, page = audited(tmp_path / "more", shrunk=True)
    assert "Estimates drawn together" not in without
    assert "Estimates drawn together" in page
    assert "Weight of the raw estimate" in page
    assert "verdicts rest on the tests alone" in page
    (name,) = done.results
    assert done[name].to_frame().equals(plain[name].to_frame())
    again = AuditResult.from_json(done.to_json())
    again.write(tmp_path / "again")
    assert "Estimates drawn together" in (tmp_path / "again" / "report.html").read_text()


@pytest.mark.usefixtures("no_pictures")
def test_an_audit_says_why_there_is_no_table(tmp_path: Path) -> None:
    done, page = audited(tmp_path, shrunk=True, depth=2)
    assert done.exit_code in (0, 1)
    assert "Estimates drawn together" not in page
    assert "shrunk: the groups overlap; name one set of columns" in page


def test_only_flag_can_draw_together() -> None:
    tests = [{"kind": "certify", "metric": "selection_rate", "shrunk": True}]
    with pytest.raises(iso.errors.ConfigError, match="shrunk: unknown key"):
        iso.Audit.from_dict({"columns": {"prediction": "y", "groups": "race"}, "tests": tests}, data=people())


def test_a_stored_audit_calls_no_other_method(tmp_path: Path) -> None:
    done, _ = audited(tmp_path)
    stored = AuditResult.from_json(done.to_json().replace('"truth": []', '"truth": [], "further": ["widest"]'))
    stored.write(tmp_path / "stored")
    assert (tmp_path / "stored" / "report.html").exists()
