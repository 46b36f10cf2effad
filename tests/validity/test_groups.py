"""Quick checks of size, coverage and power of `flag` and `certify`; the simulations page has the long ones."""

from __future__ import annotations

import numpy as np
import pytest

from studies import skewed
from studies.groups import PAGE, flagging, interval_null, small_samples
from studies.lines import Run


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(run, id=run.name, marks=() if "rate" in run.name else pytest.mark.validity)
        for run in PAGE.find("The reference is estimated").runs
    ],
)
def test_intervals_cover_when_the_reference_is_estimated(run: Run) -> None:
    """25 tables of rates catch coverage below 0.82; 15 tables of amounts catch coverage below 0.78."""
    assert not run.missed(25 if "rate" in run.name else 15)


def test_plugged_in_references_do_not_cover() -> None:
    """Coverage is 0.70 in this design; 0.95 would fall below 0.85 on 60 tables about once in a thousand."""
    joint, plugin = PAGE.find("The reference is estimated").find("2174 against 854, rate").measure(60)[0]
    assert float(plugin) < 0.85 < float(joint)


@pytest.mark.parametrize(("name", "rank"), [("3 groups", "2"), ("2 races", "3"), ("2 against", "2")])
def test_degrees_of_freedom_are_the_rank(name: str, rank: str) -> None:
    """The degrees of freedom are exact; 40 tables catch a size above 0.15."""
    run = PAGE.find("Size of the joint test").find(name)
    assert not run.missed(40)
    assert run.measure(2)[0][0] == rank


@pytest.mark.parametrize("name", ["0", pytest.param("1", marks=pytest.mark.validity), "5"])
def test_the_interval_null_keeps_its_level(name: str) -> None:
    """250 tables catch a size above 0.09."""
    runs = {run.name: run for run in PAGE.find("Size of the interval null").runs}
    assert not runs[name].missed(250)


def test_the_published_p_value_of_an_interval_null_does_not() -> None:
    """Its size is 0.1 if the ends meet; with 250 tables it is within 0.06 of that."""
    _, published = interval_null(np.random.default_rng(4), 250, 0.0).mean(axis=0)
    assert published == pytest.approx(0.1, abs=3 * np.sqrt(0.09 / 250))


@pytest.mark.parametrize(
    "name", ["0", *(pytest.param(x, marks=pytest.mark.validity) for x in ("0.05", "0.25")), "0.15", "0.4"]
)
def test_table_3(name: str) -> None:
    runs = {run.name: run for run in PAGE.find("Flagging (Table 3").runs}
    assert not runs[name].missed(300)


def test_table_3_where_the_first_null_is_at_its_end() -> None:
    """tau = 0.1, with nulls counted as in the paper: power 0.4805, on 300 tables here and 2,000 in the paper."""
    false, power = flagging(np.random.default_rng(5), 300, 0.1, drawn=True).mean(axis=0)
    assert false <= 0.05
    assert power == pytest.approx(0.4805, abs=3 * 0.5 * np.sqrt(1 / 300 + 1 / 2_000))


@pytest.mark.parametrize("rows", [20, 50, 100])
def test_small_sample_corrections_help(rows: int) -> None:
    plain, bartlett, adjusted, _ = small_samples(np.random.default_rng([6, rows]), 500, "exponential", rows).mean(
        axis=0
    )
    slack = 2 * np.sqrt(0.95 * 0.05 / 500)
    assert plain - slack <= bartlett <= 0.95 + slack
    assert plain < adjusted + slack


@pytest.mark.parametrize(("name", "tables"), [("known", 500), ("group", 40), ("population", 40)])
def test_the_detectable_disparity_is_found_as_often_as_promised(name: str, tables: int) -> None:
    """500 tables catch a power outside 0.73 to 0.87, and 40 tables one below 0.59."""
    assert not PAGE.find("Power").find(name).missed(tables)


@pytest.mark.parametrize(
    "name", ["20 groups of 10 normal rows", "6 groups of 400 lognormal rows", "10 groups of 80 exponential rows"]
)
def test_means_of_few_or_skewed_rows_keep_the_level_and_are_judged(name: str) -> None:
    """40 tables catch a size above 0.15."""
    run = skewed.PAGE.find("`flag` of means").find(name)
    (values,) = run.measure(40)
    assert "(missed)" not in " | ".join(run.lines[0].cells(values, 40, 4))
    assert float(values[2]) < 0.8  # without a verdict


@pytest.mark.validity
@pytest.mark.parametrize(
    "name", ["5 groups of 300 with rare large losses", "200 amounts among 95 % zeros, exponential"]
)
def test_groups_that_lack_the_rare_amounts_are_not_judged(name: str) -> None:
    outcome = skewed.PAGE.find("`flag` of means").find(name).measure(40)[0]
    assert outcome[0] == 0.0  # violations
    assert float(outcome[2]) > 0.9  # without a verdict


def test_few_cases_in_clusters_keep_the_level_and_are_found() -> None:
    """30 tables catch a size above 0.17."""
    section = skewed.PAGE.find("few cases in 60 clusters")
    assert not section.find("rate 0.02, correlation 0.05").missed(30)
    assert float(section.find("rate 0.06").measure(30)[0][0]) > 0.7
