"""Invariance to units, order, names and repetition."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import isonomy as iso
from isonomy.projection import ProjectionResult, distances
from isonomy.projection.program.criteria import Equality
from isonomy.projection.program.solve import Constraint, SingleRows, SortedRows, dual_value, solve

seeds = st.integers(0, 2**32 - 1)
few = settings(max_examples=int(os.environ.get("ISONOMY_EXAMPLES", "10")))  # each example is several whole tests
criteria = st.sampled_from(["equal_opportunity", "predictive_equality", "equalized_odds", "statistical_parity"])


def classified_rows(seed: int, n: int = 400) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    group = rng.choice(["a", "b", "c"], n)
    x = rng.normal(size=(n, 2)) + 0.3 * (group == "b")[:, None]
    margin = x @ [1.0, 0.5] - 0.1
    return {
        "g": group,
        "y": rng.integers(0, 2, n),
        "x0": x[:, 0],
        "x1": x[:, 1],
        "c": (margin >= 0).astype(int),
        "s": margin,
    }


def run(data: dict[str, Any], criterion: Equality, **options: Any) -> ProjectionResult:
    given_: dict[str, Any] = {"score": "s", "threshold": 0.0} if "distance" not in options else {}
    return iso.project(data, outcome="y", prediction="c", groups="g", criterion=criterion, **given_, **options)


def same_up_to_scale(a: ProjectionResult, b: ProjectionResult, scale: float = 1.0) -> None:
    assert b.statistic == pytest.approx(a.statistic * scale, rel=1e-9, abs=1e-12)
    assert b.pvalue == pytest.approx(a.pvalue, rel=1e-9)
    assert b.wald_pvalue == pytest.approx(a.wald_pvalue, rel=1e-9)
    assert b.test_status == a.test_status


@few
@given(seeds, criteria, st.sampled_from([1e-6, 0.01, 0.37, 100.0, 1e6]))
def test_rescaling_all_features_changes_no_pvalue(seed: int, criterion: Equality, scale: float) -> None:
    data = classified_rows(seed)
    plane = distances.Linear(("x0", "x1"), (1.0, 0.5), -0.1)
    scaled = distances.Linear(("x0", "x1"), (1.0 / scale, 0.5 / scale), -0.1)
    larger = data | {"x0": data["x0"] * scale, "x1": data["x1"] * scale}
    same_up_to_scale(run(data, criterion, distance=plane), run(larger, criterion, distance=scaled), scale)


@few
@given(seeds, criteria)
def test_order_of_rows_changes_nothing(seed: int, criterion: Equality) -> None:
    data = classified_rows(seed)
    order = np.random.default_rng(seed).permutation(400)
    same_up_to_scale(run(data, criterion), run({name: values[order] for name, values in data.items()}, criterion))


@few
@given(seeds, criteria)
def test_names_of_groups_change_nothing(seed: int, criterion: Equality) -> None:
    data = classified_rows(seed)
    names = {"a": "z", "b": "q", "c": "m"}
    same_up_to_scale(run(data, criterion), run(data | {"g": np.array([names[g] for g in data["g"]])}, criterion))


@few
@given(seeds)
def test_doubled_rows_cost_twice_as_much(seed: int) -> None:
    data = classified_rows(seed)
    once = run(data, "equalized_odds", method=iso.corrected(0.3))
    twice = run({k: np.tile(v, 2) for k, v in data.items()}, "equalized_odds", method=iso.corrected(0.3))
    counted = run(data | {"n": np.full(400, 2)}, "equalized_odds", method=iso.corrected(0.3), count="n")
    assert twice.statistic == pytest.approx(2 * once.statistic, rel=1e-9)
    same_up_to_scale(twice, counted)


@few
@given(seeds, st.floats(0.001, 0.2))
def test_a_tolerance_never_costs_more(seed: int, tolerance: float) -> None:
    data = classified_rows(seed)
    exact = run(data, "equal_opportunity").statistic
    within = run(data, "equal_opportunity", tolerance=tolerance, rng=0).statistic
    one_sided = run(data, "equal_opportunity", tolerance={"above": tolerance}, rng=0).statistic
    assert one_sided <= within * (1 + 1e-9) + 1e-12
    assert within <= exact * (1 + 1e-9) + 1e-12


@given(seeds, st.integers(1, 4))
def test_duality(seed: int, m: int) -> None:
    """Every dual point is a lower bound, and the bound at the solution is tight."""
    rng = np.random.default_rng(seed)
    classes, rows = 3 * m + 1, 200
    vectors, group = rng.normal(size=(classes, m)), rng.integers(0, classes, rows)
    distance = rng.exponential(size=rows).round(1)
    flips = rng.random(rows) < 0.2
    c = Constraint(vectors, -vectors[group][flips].sum(axis=0), np.zeros(m), np.zeros(m))
    result = solve(SingleRows(distance, group) if m == 1 else SortedRows(distance, group, classes), c)
    segments = SingleRows(distance, group).coarse
    assert dual_value(result.dual, segments, c) == pytest.approx(result.value, rel=1e-8, abs=1e-12)
    for _ in range(5):
        assert dual_value(result.dual + rng.normal(size=m), segments, c) <= result.value + 1e-7
    assert result.value <= float(distance[flips].sum()) + 1e-9


def weighted_rows(seed: int, n: int = 400) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    data = classified_rows(seed, n)
    return data | {"w": np.exp(0.4 * rng.normal(size=n)), "person": rng.integers(0, 150, n), "row": np.arange(n)}


@few
@given(seeds, st.sampled_from([None, 0.05]))
def test_only_the_proportions_of_weights_matter(seed: int, tolerance: float | None) -> None:
    data = weighted_rows(seed)
    once, twice = (
        run(data | {"w": k * data["w"]}, "equal_opportunity", weight="w", tolerance=tolerance, rng=1)
        for k in (1.0, 2.0)
    )
    same_up_to_scale(once, twice)
    assert twice.ci_low == pytest.approx(once.ci_low, rel=1e-9, nan_ok=True)


@few
@given(seeds)
def test_equal_weights_and_rows_of_their_own_are_no_design_up_to_the_small_sample_law(seed: int) -> None:
    data = weighted_rows(seed)
    plain = run(data, "statistical_parity")
    for options in ({"cluster": "row"}, {"weight": "one"}):
        result = run(data | {"one": np.full(400, 3.0)}, "statistical_parity", **options)
        assert result.statistic == pytest.approx(plain.statistic, rel=1e-9)
        assert result.bandwidth == pytest.approx(plain.bandwidth, rel=1e-9)
        assert result.n.tolist() == plain.n.tolist()
        at = [status is iso.Status.OK for status in plain.status]
        width, own = result.ci_high - result.ci_low, plain.ci_high - plain.ci_low
        assert width[at] == pytest.approx(own[at], rel=0.02)


@few
@given(seeds, st.sampled_from([None, 0.05]), st.booleans())
def test_repeated_rows_of_one_person_add_nothing(seed: int, tolerance: float | None, weighted: bool) -> None:
    data = weighted_rows(seed)
    options: dict[str, Any] = {"cluster": "row", "tolerance": tolerance, "rng": 1} | (
        {"weight": "w"} if weighted else {}
    )
    once = run(data, "equalized_odds", **options)
    twice = run({k: np.tile(v, 2) for k, v in data.items()}, "equalized_odds", **options)
    same_up_to_scale(once, twice, 2.0)
    assert twice.ci_low == pytest.approx(once.ci_low, rel=1e-9, nan_ok=True)
    assert twice.equivalence_pvalue == pytest.approx(once.equivalence_pvalue, rel=1e-9, nan_ok=True)
