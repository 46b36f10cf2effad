"""Invariance, and changes of known size."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import isonomy as iso
from isonomy.groups.likelihood.means import Binary, Real
from isonomy.groups.likelihood.profile import Kind, ProfileLikelihood
from isonomy.groups.options import LikelihoodKind
from isonomy.numerics.ragged import Ragged
from support.same import numbers, same

NUMBERS = ("estimate", "disparity", "ci_low", "ci_high", "statistic", "pvalue")
CLOSE: Any = {"rel": 1e-8, "abs": 1e-9}
few = settings(max_examples=int(os.environ.get("ISONOMY_EXAMPLES", "12")))  # each example is several whole tests
REFERENCES = st.sampled_from(["population", "rest", {"g": "b"}, 0.4])


@st.composite
def tables(draw: st.DrawFn) -> dict[str, Any]:
    """Three groups of 15 to 60 rows, a 0/1 and a real-valued column."""
    seed = draw(st.integers(0, 10_000))
    rng = np.random.default_rng(seed)
    sizes = [draw(st.integers(15, 60)) for _ in range(3)]
    group = np.repeat(["a", "b", "c"], sizes)
    n = group.size
    return {
        "g": group,
        "sex": rng.choice(["f", "m"], size=n),
        "y": (rng.random(n) < rng.uniform(0.2, 0.8)).astype(int),
        "x": rng.gamma(draw(st.floats(0.4, 5.0)), size=n),
    }


def ask(data: dict[str, Any], real: bool, **options: Any) -> iso.FlagResult:
    column = "x" if real else "y"
    metric: Any = iso.Metric("x", value=iso.col("x")) if real else "selection_rate"
    return iso.flag(data, metric=metric, prediction=column, **{"groups": "g", **options})


@given(tables(), REFERENCES, st.booleans(), st.integers(0, 99))
@few
def test_the_order_of_rows_does_not_matter(data: dict[str, Any], reference: Any, real: bool, seed: int) -> None:
    order = np.random.default_rng(seed).permutation(data["g"].size)
    shuffled = {name: values[order] for name, values in data.items()}
    same(ask(data, real, reference=reference), ask(shuffled, real, reference=reference), NUMBERS, **CLOSE)


@given(tables(), st.booleans())
@few
def test_names_of_groups_do_not_matter(data: dict[str, Any], real: bool) -> None:
    renamed = data | {"g": np.select([data["g"] == "a", data["g"] == "b"], ["z", "m"], "k")}
    same(numbers(ask(data, real), NUMBERS), numbers(ask(renamed, real), NUMBERS, order=[2, 1, 0]), **CLOSE)


@given(tables(), REFERENCES, st.booleans())
@few
def test_counts_stand_for_rows(data: dict[str, Any], reference: Any, real: bool) -> None:
    counts = 1 + np.arange(data["g"].size) % 3
    repeated = {name: np.repeat(values, counts) for name, values in data.items()}
    counted = ask(data | {"n": counts}, real, reference=reference, count="n")
    same(counted, ask(repeated, real, reference=reference), NUMBERS, **CLOSE)


@given(tables(), st.floats(-50, 50), st.floats(0.01, 100))
@few
def test_shifting_and_scaling_a_metric_moves_its_disparities_along(
    data: dict[str, Any], shift: float, scale: float
) -> None:
    first = ask(data, True)
    second = ask(data | {"x": shift + scale * data["x"]}, True)
    assert second.statistic == pytest.approx(first.statistic, rel=1e-6, abs=1e-8)
    assert second.ci_low == pytest.approx(scale * first.ci_low, rel=1e-6, abs=1e-7 * scale)


@given(tables(), st.booleans(), st.sampled_from(["el", "eel"]))
@few
def test_a_partition_has_one_joint_statistic(data: dict[str, Any], real: bool, kind: LikelihoodKind) -> None:
    column: Any = iso.Metric("x", value=iso.col("x")) if real else "selection_rate"
    method = iso.likelihood(kind, correction=None)
    result = [
        iso.certify(data, metric=column, prediction="y", groups="g", reference=r, method=method)
        for r in ("population", "rest", {"g": "a"}, {"g": "c"})
    ]
    assert {r.df for r in result} == {2}
    assert [r.statistic for r in result] == pytest.approx([result[0].statistic] * 4, rel=1e-6, abs=1e-8)


@given(tables(), st.booleans())
@few
def test_exchanging_group_and_reference_turns_the_sign(data: dict[str, Any], real: bool) -> None:
    one, other = ask(data, real, reference={"g": "b"}), ask(data, real, reference={"g": "a"})
    assert one.disparity[0] == pytest.approx(-other.disparity[1])
    assert one.statistic[0] == pytest.approx(other.statistic[1], rel=1e-8, abs=1e-10)
    assert one.ci_low[0] == pytest.approx(-other.ci_high[1], rel=1e-7, abs=1e-9)


@given(tables(), st.booleans(), st.floats(0.2, 3.0))
def test_the_statistic_grows_away_from_the_estimate(data: dict[str, Any], real: bool, step: float) -> None:
    values = data["x"] if real else data["y"].astype(float)
    codes = np.searchsorted(["a", "b", "c"], data["g"])
    own: Any
    if real:
        own = Real(Ragged.from_codes(codes, 3, values))
    else:
        own = Binary(np.bincount(codes), np.bincount(codes, weights=values))
    for kind in (Kind.DISJOINT, Kind.NESTED):
        problem = ProfileLikelihood(kind, own, np.arange(3), other=own.rest(), partner=np.arange(3))
        error = problem.standard_error
        walk = [problem.statistic(problem.value + k * step * error) for k in range(4)]
        assert walk[0] == pytest.approx(0, abs=1e-8)
        assert (np.diff(walk, axis=0) > 0).all() or np.isinf(walk).any()


@given(tables(), st.floats(0.001, 0.3))
@few
def test_a_wider_level_gives_a_wider_interval_and_holds_the_estimate(data: dict[str, Any], alpha: float) -> None:
    narrow, wide = ask(data, True, alpha=min(2 * alpha, 0.6)), ask(data, True, alpha=alpha)
    assert (wide.ci_low < narrow.ci_low).all()
    assert (wide.ci_high > narrow.ci_high).all()
    assert ((narrow.ci_low < narrow.disparity) & (narrow.disparity < narrow.ci_high)).all()
