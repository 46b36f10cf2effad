"""The same answers on every engine, whether rows are sorted in memory or counted in passes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isonomy as iso
from isonomy.numerics.status import Status
from isonomy.projection import Discerning, distances
from support.movement import listed

CASES: dict[str, dict[str, Any]] = {
    "one moment": {"groups": "sex", "score": "score", "threshold": 0.25},
    "inferred threshold": {"groups": "sex", "score": "score"},
    "several": {"groups": ["race", "sex"], "criterion": "equalized_odds", "score": "score", "threshold": 0.25},
    "tolerance": {"groups": "race", "tolerance": 0.01, "rng": 7, "score": "score", "threshold": 0.25},
    "one-sided": {"groups": "race", "tolerance": {"above": 0.01}, "rng": 7, "distance": "d"},
    "infinite": {"groups": "race", "distance": "stuck"},
    "lattice": {"groups": "race", "distance": "steps"},
    "tails": {"groups": ["race", "sex"], "criterion": "equalized_odds", "distance": "tails"},
    "far": {"groups": "race", "distance": "far"},
    "boundary": {"groups": "race", "distance": "zeros"},
    "linear": {"groups": iso.cut("x", [0.0]), "distance": distances.Linear(("score", "x"), (1.0, 0.0), -0.25)},
    "counted": {"groups": "race", "score": "score", "threshold": 0.25, "count": "n"},
    "weights and clusters": {
        "groups": "race",
        "score": "score",
        "threshold": 0.25,
        "weight": "w",
        "cluster": "person",
        "count": "n",
    },
    "own": {
        "criterion": Discerning(
            u={"f": iso.col("sex") == "F", "m": iso.col("sex") == "M"},
            phi=lambda u, mean: u[:, 0] / mean[0] - u[:, 1] / mean[1],
            names=("f against m",),
        ),
        "score": "score",
        "threshold": 0.25,
    },
}


def columns(n: int = 3_000) -> dict[str, Any]:
    rng = np.random.default_rng(12)
    race = rng.choice(["a", "b", "c"], n, p=[0.5, 0.3, 0.2])
    score = rng.normal(size=n) + 0.2 * (race == "b")
    d = np.abs(score - 0.25)
    return {
        "race": race.tolist(),
        "sex": rng.choice(["F", "M"], n).tolist(),
        "y": rng.integers(0, 2, n),
        "score": score,
        "x": rng.normal(size=n),
        "c": score >= 0.25,
        "d": d,
        "stuck": np.where(rng.random(n) < 0.3, np.inf, d),
        "steps": np.ceil(d * 10) / 10,
        "n": rng.integers(0, 4, n),
        "w": np.exp(0.3 * rng.normal(size=n)),
        "person": rng.integers(0, 500, n),
        "tails": d * np.exp(5 * rng.normal(size=n)),
        "far": np.where(rng.random(n) < 0.05, 1e15, d + 5),
        "zeros": np.where(rng.random(n) < 0.02, 0.0, d),
    }


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    """From plain arrays in memory."""
    return {name: iso.project(columns(), outcome="y", prediction="c", **case) for name, case in CASES.items()}


def test_every_engine_gives_the_same_numbers(engine: Any, expected: dict[str, Any]) -> None:
    data = engine(columns())
    # Every case on a query; elsewhere, and in memory as in what is expected, only the cases that differ most.
    every = type(data).__module__.startswith("duckdb")
    for name, case in CASES.items():
        if not every and name not in ("several", "infinite", "tails", "weights and clusters"):
            continue
        result, want = iso.project(data, outcome="y", prediction="c", **case), expected[name]
        assert result.test_status == want.test_status, name
        assert (want.test_status is Status.ATOMS) == (name == "boundary")
        for field in ("statistic", "pvalue", "wald_pvalue", "critical_value", "bandwidth", "rows", "moved"):
            assert getattr(result, field) == pytest.approx(getattr(want, field), rel=1e-9, nan_ok=True), (name, field)
        for field in ("n", "estimate", "disparity", "ci_low", "share_moved", "moved_up", "mean_distance"):
            assert np.allclose(getattr(result, field), getattr(want, field), rtol=1e-7, atol=1e-9, equal_nan=True), (
                name,
                field,
            )
        assert result.labels == want.labels
        if name != "lattice":  # rows at the same distance may be listed in another order
            assert listed(result).distance[: listed(result).row.size - 2] == pytest.approx(
                listed(want).distance[: listed(result).row.size - 2], rel=1e-9
            )
        assert listed(result).fraction.sum() == pytest.approx(listed(want).fraction.sum(), rel=1e-9)


def test_errors_are_the_same(engine: Any) -> None:
    data = engine(columns())
    with pytest.raises(iso.errors.DataError, match="other side of the boundary"):
        iso.project(data, outcome="y", prediction="c", groups="sex", score="score", threshold=0.5)
    with pytest.raises(iso.errors.DataError, match="negative"):
        iso.project(data, outcome="y", prediction="c", groups="sex", distance="x")
    with pytest.raises(iso.errors.UnknownColumn, match="nowhere"):
        iso.project(data, outcome="y", prediction="c", groups="sex", distance="nowhere")
