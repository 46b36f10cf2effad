"""The search for subgroups: reference values from independent code, and properties."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from isonomy.groups.likelihood.search import (
    Literals,
    Outcome,
    SearchScore,
    Subgroup,
    candidates,
    distinct,
    family,
    fisher,
    readable_edges,
    search,
)
from support.subgroups import AGES, HOURS, reference_table

LITERALS = Literals((2, 3, 8, 8), (0, 0, 8, 8))  # sex, region, age, hours
LOW = SearchScore((-1.0,), lambda rest, _: rest, 30.0)
SEX, AGE = 0, 2


@pytest.fixture(scope="module")
def coded() -> tuple[Any, Outcome]:
    table = reference_table()
    region = {"north": 0, "south": 1, "east": 2}
    codes = [
        (table["sex"] == "m").astype(int),
        np.array([region[name] for name in table["region"]]),
        np.searchsorted(AGES, table["age"], side="right"),
        np.searchsorted(HOURS, table["hours"], side="right"),
    ]
    return np.array(codes, dtype=np.int8), Outcome(table["y"].astype(float))


def test_the_numbers_of_the_specification(coded: Any) -> None:
    codes, outcome = coded
    assert outcome.value.sum() == 1_034
    assert len(LITERALS) == len(LITERALS.every) == 75
    different = LITERALS.feature[:, None] < LITERALS.feature
    assert different.sum() == 1_581
    every = family(codes, outcome, LITERALS, LOW, 2)
    assert np.isfinite(every.z).sum() == 1_648
    found = candidates(every, LITERALS)
    singles = [g for g in found if len(g.literals) == 1]
    pairs = [g for g in found if len(g.literals) == 2]
    for subgroup, z, n, s in zip(
        singles, (4.61701307, 3.59195401, 3.25790468), (600, 920, 320), (210, 354, 111), strict=False
    ):
        assert subgroup.z == pytest.approx(z, abs=5e-9)
        assert (subgroup.n, subgroup.s) == (n, s)
    assert [g.literals[0][1:] for g in singles[:3]] == [(0, 1), (0, 2), (0, 0)]
    assert len(pairs) == 12
    expected = [
        (6.75841993, 280, 68, (0, 1)),
        (5.38692831, 440, 139, (0, 2)),
        (4.78129691, 160, 40, (0, 0)),
        (4.48251285, 120, 28, (1, 1)),
        (4.14103235, 600, 215, (0, 3)),
    ]
    for subgroup, (z, n, s, span) in zip(pairs, expected, strict=False):
        assert subgroup.z == pytest.approx(z, abs=5e-9)
        assert (subgroup.n, subgroup.s) == (n, s)
        assert subgroup.literals == ((SEX, 0, 0), (AGE, *span))


def test_sums_are_those_of_a_loop_over_rows(coded: Any) -> None:
    codes, outcome = coded
    rng = np.random.default_rng(0)
    codes = np.where(rng.random(codes.shape) < 0.05, -1, codes).astype(np.int8)  # some rows are in no bin
    rows = codes.shape[1]
    real = Outcome(rng.normal(size=(rows,)), rng.uniform(0.5, 2.0, size=(rows,)))
    for weighted in (outcome, real):
        every = family(codes, weighted, LITERALS, LOW, 2)
        for i, j in rng.integers(0, 75, (40, 2)):
            inside = Subgroup((LITERALS.every[i], LITERALS.every[j]), 0, 0, 0).members(codes)
            mass, hits = weighted.sums
            assert every.n[i, j] == pytest.approx(mass[inside].sum(), rel=1e-6, abs=1e-9)
            assert every.s[i, j] == pytest.approx(hits[inside].sum(), rel=1e-4, abs=1e-3)


def test_the_score_is_a_z_statistic(coded: Any) -> None:
    _, outcome = coded
    n, s, total, hits = 280.0, 68.0, 2_400.0, 1_034.0
    p = hits / total
    rest = (hits - s) / (total - n)
    z = (rest - s / n) / np.sqrt(p * (1 - p) * (1 / n + 1 / (total - n)))
    assert float(LOW(np.array(n), np.array(s), outcome)) == pytest.approx(z)
    moved = SearchScore((-1.0,), lambda reference, sign: reference + 0.05 * sign, 30.0)
    less = (rest - 0.05 - s / n) / np.sqrt(p * (1 - p) * (1 / n + 1 / (total - n)))
    assert float(moved(np.array(n), np.array(s), outcome)) == pytest.approx(less)
    fixed = SearchScore((-1.0,), lambda reference, _: reference, 30.0, 0.4)
    assert float(fixed(np.array(n), np.array(s), outcome)) == pytest.approx((0.4 - s / n) / np.sqrt(p * (1 - p) / n))
    assert float(LOW(np.array(29.0), np.array(0.0), outcome)) == -np.inf
    assert float(LOW(np.array(2_371.0), np.array(0.0), outcome)) == -np.inf


def test_a_third_condition_is_found_if_it_is_worth_it() -> None:
    rng = np.random.default_rng(3)
    codes = rng.integers(0, 2, (5, 8_000)).astype(np.int8)
    inside = (codes[0] == 1) & (codes[2] == 0) & (codes[4] == 1)
    outcome = Outcome((rng.random(8_000) < np.where(inside, 0.1, 0.5)).astype(float))
    literals = Literals((2,) * 5, (0,) * 5)
    found = search(codes, outcome, literals, LOW, depth=3, most=5)
    assert found[0].literals == ((0, 1, 1), (2, 0, 0), (4, 1, 1))
    assert max(len(g.literals) for g in search(codes, outcome, literals, LOW, depth=2, most=5)) == 2
    assert max(len(g.literals) for g in search(codes, outcome, literals, LOW, depth=1, most=5)) == 1


def test_order_of_rows_and_names_of_levels_do_not_matter(coded: Any) -> None:
    codes, outcome = coded
    expected = search(codes, outcome, LITERALS, LOW, depth=3, most=5)
    order = np.random.default_rng(1).permutation(codes.shape[1])
    moved = search(codes[:, order], outcome.taken(order), LITERALS, LOW, depth=3, most=5)
    assert [g.literals for g in moved] == [g.literals for g in expected]
    relabeled = codes.copy()
    relabeled[0] = 1 - codes[0]
    again = search(relabeled, outcome, LITERALS, LOW, depth=3, most=5)
    assert [g.z for g in again] == pytest.approx([g.z for g in expected])
    assert [g.n for g in again] == [g.n for g in expected]


def test_the_opposite_outcome_and_side_find_the_same(coded: Any) -> None:
    codes, outcome = coded
    high = SearchScore((1.0,), LOW.moved, LOW.least)
    expected = search(codes, outcome, LITERALS, LOW, depth=3, most=5)
    opposite = search(codes, Outcome(1 - outcome.value), LITERALS, high, depth=3, most=5)
    assert [g.literals for g in opposite] == [g.literals for g in expected]


def test_a_copy_of_a_feature_changes_no_score(coded: Any) -> None:
    codes, outcome = coded
    twice = Literals((*LITERALS.sizes, 8), (*LITERALS.ordered, 8))
    found = search(np.vstack([codes, codes[AGE]]), outcome, twice, LOW, depth=2, most=5)
    expected = search(codes, outcome, LITERALS, LOW, depth=2, most=5)
    assert [g.z for g in found] == pytest.approx([g.z for g in expected])


def test_chosen_subgroups_overlap_little(coded: Any) -> None:
    codes, outcome = coded
    found = distinct(candidates(family(codes, outcome, LITERALS, LOW, 2), LITERALS), codes, 4)
    assert len(found) == 4
    members = [g.members(codes) for g in found]
    for i, first in enumerate(members):
        for second in members[:i]:
            assert (first & second).sum() / (first | second).sum() <= 0.5


@pytest.mark.parametrize("signs", [(-1.0,), (1.0,), (-1.0, 1.0)])
def test_fisher_is_that_of_scipy(signs: tuple[float, ...]) -> None:
    subgroups = [Subgroup((), 0, 280, 68), Subgroup((), 0, 40, 25), Subgroup((), 0, 50, 0)]
    for subgroup, p in zip(subgroups, fisher(subgroups, 2_400, 1_034, signs), strict=True):
        n, s = int(subgroup.n), int(subgroup.s)
        table: Any = [[s, n - s], [1_034 - s, 2_400 - 1_034 - (n - s)]]
        tails: dict[float, Any] = {-1.0: "less", 1.0: "greater"}
        expected = min(stats.fisher_exact(table, alternative=tails[sign]).pvalue for sign in signs) * len(signs)
        assert p == pytest.approx(min(expected, 1.0), rel=1e-9)


@pytest.mark.parametrize(
    ("quantiles", "low", "high", "expected"),
    [
        ([24.7, 38.2, 51.9], 18.0, 80.0, (25.0, 40.0, 50.0)),
        ([0.1234, 0.4567], 0.0, 1.0, (0.1, 0.5)),
        ([-3.2, 0.4, 3.9], -9.0, 9.0, (-3.0, 0.0, 4.0)),
        ([5.0, 5.0, 5.0], 1.0, 9.0, (5.0,)),
        ([1.0, 1.0], 1.0, 2.0, ()),
        ([31_234.5, 52_345.6], 9_876.0, 250_000.0, (30_000.0, 50_000.0)),
    ],
)
def test_edges_are_readable(quantiles: list[float], low: float, high: float, expected: tuple[float, ...]) -> None:
    assert readable_edges(np.array(quantiles), low, high) == expected


def test_edges_stay_in_order_whatever_the_numbers() -> None:
    rng = np.random.default_rng(4)
    for scale in (1e-6, 1.0, 1e9):
        values = np.sort(scale * rng.standard_cauchy(500))
        quantiles = values[49:500:50]
        edges = readable_edges(quantiles, values[0], values[-1])
        assert list(edges) == sorted(set(edges))
        assert len(edges) == quantiles.size
