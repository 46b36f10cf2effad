"""Comparison of two audits: which verdicts changed, and which numbers changed by more than their error."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats

import isonomy as iso
from isonomy.audit import Audit, AuditResult
from isonomy.audit.compare import ALPHA, compare, homogeneity
from isonomy.audit.outcome import write_table
from isonomy.errors import UsageError
from isonomy.groups import words
from isonomy.report import Document, Entry, wording
from isonomy.results import phrases


def audited(gap: float, seed: int, *, rows: int = 4_000, **keys: Any) -> AuditResult:
    """An audit of decisions that favor men by ``gap``."""
    table = decisions(gap, seed, rows)
    options = {"kind": "flag", "metric": "selection_rate", "tolerance": 0.05, **keys}
    test = {key: value for key, value in options.items() if value is not None}
    config = {"columns": {"prediction": "ok", "groups": ["sex"]}, "tests": [test]}
    return Audit.from_dict(config, data=table).run()


def decisions(gap: float, seed: int, rows: int) -> pl.DataFrame:
    """Decisions that favor men by ``gap``."""
    rng = np.random.default_rng(seed)
    male = rng.random(rows) < 0.5
    return pl.DataFrame({"sex": np.where(male, "m", "f"), "ok": (rng.random(rows) < 0.4 + gap * male).astype(int)})


def flagged(gap: float, seed: int) -> AuditResult:
    """An audit with a single result, without an audit file."""
    roles = {"metric": "selection_rate", "prediction": "ok", "groups": "sex", "tolerance": 0.05}
    result = iso.flag(decisions(gap, seed, 1_500), **roles)  # type: ignore[arg-type]
    return AuditResult(Document(title="", entries=(Entry(name="flag", kind="flag", result=result),)))


def test_a_verdict_that_changed_and_numbers_that_moved() -> None:
    done = compare(audited(0.3, 1), audited(0.0, 2))
    (change,) = done.changes
    assert (change.verdicts, change.changed) == (("Difference shown", "Within tolerance"), True)
    assert done.headline == "The verdict changed; 2 of 2 numbers compared changed by more than chance explains."
    assert [move.split(":")[0] for move in change.moves] == ["sex=f", "sex=m"]
    assert all((" points; " in move and "points higher" in move) or "points lower" in move for move in change.moves)
    assert wording.INDEPENDENT_ROWS in done.notes


def test_the_change_has_the_error_of_two_independent_tables() -> None:
    old, new = audited(0.3, 1), audited(0.1, 2)
    (change,) = compare(old, new).changes
    first, second = old["flag-selection_rate"], new["flag-selection_rate"]
    for i, move in enumerate(change.numbers):
        n = np.array([first.n[i], second.n[i]])  # type: ignore[attr-defined]
        errors = np.array([first.standard_error[i], second.standard_error[i]])  # type: ignore[attr-defined]
        spread, law = np.sqrt((errors**2 * n / (n - 1)).sum()), stats.t(n.sum() - 2)
        moved = second.disparity[i] - first.disparity[i]  # type: ignore[attr-defined]
        assert move.pvalue == pytest.approx(2 * law.sf(abs(moved) / spread), rel=1e-9)
        assert move.interval == pytest.approx(moved + law.isf(0.025) * spread * np.array([-1, 1]), rel=1e-6)
    ordered = sorted(move.pvalue for move in change.numbers)  # against everybody, two groups are two hypotheses
    assert min(move.adjusted for move in change.numbers) == pytest.approx(min(1, 2 * ordered[0]))  # Holm


def test_opposite_changes_of_two_groups_are_one_hypothesis() -> None:
    (change,) = compare(audited(0.3, 1, reference="rest"), audited(0.26, 2, reference="rest")).changes
    first, second = change.numbers
    assert first.change == pytest.approx(-second.change)
    assert first.adjusted == second.adjusted == pytest.approx(max(first.pvalue, second.pvalue))


def test_ratios_are_compared_by_their_logarithms() -> None:
    old, new = audited(0.3, 1, scale="ratio", tolerance=0.8), audited(0.0, 2, scale="ratio", tolerance=0.8)
    (change,) = compare(old, new).changes
    first, second = old["flag-selection_rate"], new["flag-selection_rate"]
    move = change.numbers[0]
    results: list[Any] = [first, second]
    n = np.array([result.n[0] for result in results])
    errors = np.array([result.standard_error[0] / result.disparity[0] for result in results]) * np.sqrt(n / (n - 1))
    logs = [np.log(result.disparity[0]) for result in results]
    assert move.pvalue == pytest.approx(
        2 * stats.t(n.sum() - 2).sf(abs(logs[1] - logs[0]) / np.hypot(*errors)), rel=1e-9
    )
    assert move.interval[0] < move.change < move.interval[1]
    assert "sex=f: from a ratio of " in change.moves[0]


def test_several_metrics_are_each_compared_with_their_own() -> None:
    """Groups appear once per metric: true positive rates must not be compared with false positive rates."""

    def both(seed: int) -> AuditResult:
        rng = np.random.default_rng(seed)
        outcome, male = rng.random(6_000) < 0.5, rng.random(6_000) < 0.5
        chosen = rng.random(6_000) < np.where(outcome, 0.9, 0.1) + 0.05 * male * (1 - 2 * outcome)
        table = pl.DataFrame({"sex": np.where(male, "m", "f"), "y": outcome * 1, "ok": chosen * 1})
        roles = {"prediction": "ok", "outcome": "y", "groups": ["sex"]}
        return Audit.from_dict(
            {"columns": roles, "tests": [{"kind": "flag", "metric": ["tpr", "fpr"]}]}, data=table
        ).run()

    (change,) = compare(both(1), both(2)).changes
    assert [move.group for move in change.numbers] == ["sex=f (tpr)", "sex=m (tpr)", "sex=f (fpr)", "sex=m (fpr)"]
    assert not [move for move in change.numbers if move.adjusted <= ALPHA]


def test_where_only_verdicts_are_compared_it_is_said() -> None:
    asked: dict[str, Any] = {"kind": "project", "criterion": "statistical_parity", "score": "ok", "threshold": 0.5}
    tables = [audited(0.3, seed, metric=None, tolerance=None, **asked) for seed in (1, 2)]
    (change,) = compare(*tables).changes
    assert change.moves == (phrases.VERDICTS_ALONE,)


def test_nothing_moves_by_chance_more_often_than_alpha() -> None:
    """The share of 50 comparisons of equal populations that report any change; the Monte Carlo error is 0.0308."""
    pairs = [(flagged(0.1, 1000 + i), flagged(0.1, 5000 + i)) for i in range(50)]
    moved = [any(move.adjusted <= ALPHA for move in compare(*pair).changes[0].numbers) for pair in pairs]
    assert np.mean(moved) <= 0.05 + 2.33 * np.sqrt(0.05 * 0.95 / 50)


def test_the_same_rows_are_not_compared_by_number() -> None:
    done = compare(audited(0.3, 1), audited(0.3, 1))
    assert done.changes[0].moves == ()
    assert wording.SAME_ROWS in done.notes
    assert done.headline == "The verdict did not change; no number was compared."


def test_tests_that_were_asked_differently() -> None:
    (change,) = compare(audited(0.3, 1), audited(0.3, 2, tolerance=0.5)).changes
    assert change.moves == ("The options differ (tolerance), so the numbers are not compared.",)
    done = compare(audited(0.3, 1), audited(0.3, 2, id="another"))
    assert done.headline == "The audits have no test in common, so nothing was compared."
    first, second = done.changes
    assert (first.verdicts[1], second.verdicts[0]) == (wording.NOT_ASKED, wording.NOT_ASKED)


def test_the_files(tmp_path: Path) -> None:
    written = compare(audited(0.3, 1), audited(0.0, 2)).write(tmp_path / "out")
    assert [path.name for path in written] == ["compare.html", "compare.md", "compare.json"]
    page, text, stored = (path.read_text() for path in written)
    (number, *_), notes = json.loads(stored)["tests"][0]["numbers"], json.loads(stored)["notes"]
    assert (len(number["values"]), notes) == (2, [wording.INDEPENDENT_ROWS])
    assert "sex=f: from " in page
    assert "| **Within tolerance** |" in text
    assert "<script" not in page


def impact(gap: float, seed: int, **keys: Any) -> AuditResult:
    """An audit of impact ratios, with men as the comparator."""
    table = decisions(gap, seed, 4_000).with_columns(w=1.0 + np.arange(4_000) % 3)
    config = {"columns": {"prediction": "ok", "groups": ["sex"]}, "tests": [{"kind": "adverse_impact"}], **keys}
    return Audit.from_dict(config, data=table).run()


def test_impact_ratios_are_compared_by_the_counts_of_both_categories() -> None:
    old, new = impact(0.3, 1), impact(0.1, 2)
    (change,) = compare(old, new).changes
    (move,) = change.numbers
    ratios, variance = [], 0.0
    for audit in (old, new):
        rates = {row["group"]: row for row in audit["adverse_impact"].to_frame().iter_rows(named=True)}
        ratios.append(rates["sex=f"]["estimate"] / rates["sex=m"]["estimate"])
        n = rates["sex=f"]["n"]
        variance += n / (n - 1) * sum((1 - row["estimate"]) / row["selected"] for row in rates.values())
    assert move.values == pytest.approx(tuple(ratios), rel=1e-12)
    assert move.error == pytest.approx(variance**0.5, rel=1e-9)
    assert change.moves[0].startswith("sex=f: from a ratio of ")


def test_impact_ratios_to_another_category_or_by_weight_are_not_compared() -> None:
    (change,) = compare(impact(0.3, 1), impact(-0.3, 2)).changes
    assert change.moves == (wording.OTHER_COMPARATOR,)
    weighted = {"data": {"weight": "w"}}
    (change,) = compare(impact(0.3, 1, **weighted), impact(0.1, 2, **weighted)).changes
    assert change.moves == (words.WEIGHTED_RATIOS,)


def test_impact_ratios_of_clusters_have_their_error() -> None:
    twice = [
        Audit.from_dict(
            {
                "data": {"cluster": "pair"},
                "columns": {"prediction": "ok", "groups": ["sex"]},
                "tests": [{"kind": "adverse_impact"}],
            },
            data=pl.concat([table := decisions(gap, seed, 2_000).with_columns(pair=np.arange(2_000)), table]),
        ).run()
        for gap, seed in ((0.3, 1), (0.1, 2))
    ]
    once = [
        Audit.from_dict(
            {"columns": {"prediction": "ok", "groups": ["sex"]}, "tests": [{"kind": "adverse_impact"}]},
            data=decisions(gap, seed, 2_000),
        ).run()
        for gap, seed in ((0.3, 1), (0.1, 2))
    ]
    doubled, plain = (compare(*pair).changes[0].numbers[0] for pair in (twice, once))
    assert doubled.error == pytest.approx(plain.error, rel=1e-2)


# ---- a series of audits


def night(
    rate: float, rng: np.random.Generator, *, group: int = 200, others: int = 2_000, men: float | None = None
) -> AuditResult:
    """An audit of one night, in which women are selected at ``rate`` and men at the rate ``men``, if it differs."""
    women, rest = rng.binomial(group, rate), rng.binomial(others, rate if men is None else men)
    table = {
        "sex": ["f", "f", "m", "m"],
        "ok": [1, 0, 1, 0],
        "k": [women, group - women, rest, others - rest],
    }
    options = {"metric": "selection_rate", "prediction": "ok", "groups": "sex", "count": "k"}
    result = iso.flag(pl.DataFrame(table), reference={"sex": "m"}, **options)  # type: ignore[arg-type]
    return AuditResult(Document(title="", entries=(Entry(name="flag", kind="flag", result=result),)))


def test_the_statistic_of_a_series_has_the_law_of_its_quadratic_form() -> None:
    """Against simulated normal values with the same errors, and against the squared z of two audits."""
    rng = np.random.default_rng(1)
    error, rows = np.array([0.1, 0.3, 0.2, 0.4, 0.1]), np.array([900.0, 100.0, 220.0, 60.0, 850.0])
    draws = [homogeneity(rng.normal(0, error), error, rows) for _ in range(4_000)]
    levels = np.array([0.5, 0.2, 0.05, 0.01])
    shares = np.mean(stats.chi2.sf(*np.array(draws).T)[:, None] <= levels, axis=0)
    assert shares == pytest.approx(levels, abs=3.3 * np.sqrt(0.25 / 4_000))
    assert abs(shares[2] - 0.05) < 3.3 * np.sqrt(0.05 * 0.95 / 4_000)
    at = np.array([0.2, 0.5])
    expected = (0.3**2 / (0.1**2 + 0.3**2), 1.0)
    assert homogeneity(at, error[:2], rows[:2]) == pytest.approx(expected, rel=1e-12)


def test_series_of_fifty_rows_hold_their_level() -> None:
    """30 nights of two groups of 50 rows at a rate of 0.5, by the p-value of the comparison."""
    rng = np.random.default_rng(3)
    share = rng.binomial(50, 0.5, (2, 4_000, 30)) / 50
    at, rows = share[0] - share[1], np.full(30, 50.0)
    full = np.sqrt((share * (1 - share) / 49).sum(axis=0))
    laws = np.array([homogeneity(*line, rows) for line in zip(at, full, strict=True)]).T
    level = np.mean(stats.f.sf(laws[0] / laws[1], laws[1], 30 * 49) <= 0.05)
    assert level < 0.05 + 3 * np.sqrt(0.05 * 0.95 / 4_000)


def test_a_series_without_a_change_rarely_reports_one() -> None:
    """30 nights with about 10 selected of 200 women, and 100 of 2,000 men. Cochran's Q rejects in 12 % of such."""
    rng = np.random.default_rng(2)
    rows = np.array([200, 2_000])
    rates = rng.binomial(rows, 0.05, (2_000, 30, 2)) / rows
    errors = np.sqrt((rates * (1 - rates) / rows).sum(axis=2))
    weights = np.full(30, 200.0)
    found = [homogeneity(*series, weights) for series in zip(rates[..., 0] - rates[..., 1], errors, strict=True)]
    assert np.mean(stats.chi2.sf(*np.array(found).T) <= 0.05) <= 0.05 + 2.33 * np.sqrt(0.05 * 0.95 / 2_000)


def test_a_series_with_a_change_reports_it() -> None:
    rng = np.random.default_rng(3)
    done = compare(*(night(rate, rng, men=0.3) for rate in (0.3, 0.3, 0.3, 0.1, 0.3)))
    (change,) = done.changes
    assert done.headline == "The verdict changed; 1 of 1 number compared changed by more than chance explains."
    assert re.fullmatch(
        r"sex=f: from \S+ to \S+ points, between -\S+ and \S+; not the same in all 5 audits; adjusted p.*",
        change.moves[0],
    )
    assert change.moves[1] == ("Verdicts in order: Inconclusive (3 audits), Difference shown (2 audits).")
    assert wording.SERIES in done.notes
    assert wording.SERIES not in compare(night(0.3, rng), night(0.3, rng)).notes


def test_rates_with_few_cases_are_not_compared() -> None:
    """With two selected women the error of the change is not known, and a change by chance is reported too often."""
    rng = np.random.default_rng(4)
    few, many = night(0.01, rng), night(0.2, rng, men=0.3)
    (change,) = compare(few, many).changes
    assert change.numbers == ()
    assert change.notes == (wording.FEW_CASES.format("sex=f", 8),)
    (change,) = compare(many, night(0.2, rng, others=20)).changes  # the reference
    assert change.numbers == ()


@pytest.mark.parametrize(("new", "moved", "verdict"), [(0.3, 0, 0), (0.0, 1, 1)])
def test_exit_codes(new: float, moved: int, verdict: int) -> None:
    done = compare(audited(0.3, 1), audited(new, 2))
    assert (done.exit_code("moved"), done.exit_code("verdict")) == (moved, verdict)


def test_what_could_not_be_compared_is_no_success() -> None:
    assert compare(audited(0.3, 1), audited(0.3, 1)).exit_code("moved") == 3
    assert compare(audited(0.3, 1), audited(0.3, 2, id="another")).exit_code("verdict") == 3
    with pytest.raises(UsageError, match="1 audit; give at least two"):
        compare(audited(0.3, 1))


# ---- one row per group, metric and audit


def test_the_flat_table_has_the_same_columns_for_every_test() -> None:
    first, second = audited(0.3, 1, metric=["selection_rate", "accuracy"], outcome="ok"), impact(0.3, 1)
    both = pl.concat([first.to_frame(), second.to_frame()])
    assert both["test"].value_counts().sort("test").rows() == [
        ("adverse_impact", 2),
        ("flag-selection_rate-accuracy", 4),
    ]
    assert both.filter(kind="flag").select("metric", "group").rows()[::2] == [
        ("selection_rate", "sex=f"),
        ("accuracy", "sex=f"),
    ]
    expected = first["flag-selection_rate-accuracy"].to_frame()["ci_low"]
    assert both.filter(kind="flag")["ci_low"].to_list() == expected.to_list()
    assert both["first_date"].dtype == pl.Date


def test_the_flat_table_withholds_what_the_audit_withholds() -> None:
    table = pl.concat([decisions(0.1, 1, 2_000), pl.DataFrame({"sex": ["x"] * 5, "ok": [1, 0, 1, 0, 1]})])
    config = {
        "columns": {"prediction": "ok", "groups": ["sex"]},
        "tests": [{"kind": "flag", "metric": "selection_rate"}, {"kind": "flag", "metric": "tpr"}],
    }
    frame = Audit.from_dict(config, data=table).run().to_frame()
    small = frame.filter(group="sex=x").row(0, named=True)
    assert (small["status"], small["n"], small["estimate"], small["metric"]) == (
        "suppressed",
        None,
        None,
        "selection_rate",
    )
    (failed,) = frame.filter(test="flag-tpr").rows(named=True)
    assert (failed["test_verdict"], failed["group"], failed["n"]) == ("failed", None, None)


def test_the_flat_table_is_written_by_its_ending(tmp_path: Path) -> None:
    audit = audited(0.3, 1)
    for name, read in (("new/t.csv", pl.read_csv), ("t.parquet", pl.read_parquet)):
        frame = read(write_table([audit, audit], tmp_path / name))
        assert frame["disparity"].to_list() == audit.to_frame()["disparity"].to_list() * 2
    with pytest.raises(UsageError, match=r"must end in \.csv, \.parquet or \.xlsx"):
        write_table([audit], tmp_path / "t.docx")
