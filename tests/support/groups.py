"""Shared by the tests of empirical likelihood: small tables, and likelihoods of known rows."""

from __future__ import annotations

from datetime import date
from typing import Any

import numpy as np

from isonomy.groups import Estimate
from isonomy.groups.disparities import ComparisonPlan
from isonomy.groups.likelihood.means import Binary, Real
from isonomy.groups.likelihood.profile import Kind, ProfileLikelihood
from isonomy.numerics.arrays import AnyArray, FloatArray, IntArray
from isonomy.numerics.ragged import Ragged
from isonomy.results import QUESTIONS
from support.tables import Columns

ROWS = 60
EVERY_TYPE: Columns = {
    "x": np.random.default_rng(1).normal(size=ROWS),
    "g": np.tile(["a", "b"], ROWS // 2),
    "p": np.repeat([1, 0, 1], ROWS // 3),
    "h": np.tile([1, 2, 3], ROWS // 3),
    "age": np.linspace(20, 60, ROWS),
    "day": [date(2024, 1, 1 + i % 3) for i in range(ROWS)],
    "yes": np.tile([True, False, True], ROWS // 3),
}


def planned(kind: str, source: Any, **options: Any) -> ComparisonPlan:
    """The plan of `flag` or `certify`."""
    plan = QUESTIONS[kind].planned(source, options)
    assert isinstance(plan, ComparisonPlan)
    return plan


def counted(a: tuple[int, int], b: tuple[int, int], **more: tuple[int, int]) -> Columns:
    """Groups by their numbers of rows and of ones."""
    sizes = {"a": a, "b": b, **more}
    return {
        "race": np.repeat(list(sizes), [n for n, _ in sizes.values()]),
        "selected": np.concatenate([np.repeat([1, 0], [k, n - k]) for n, k in sizes.values()]),
    }


def moved(shift: float, scale: float) -> tuple[Columns, Estimate]:
    """160 exponential rows, their overlapping groups and an estimate, all in different units."""
    rng = np.random.default_rng(11)
    sex = rng.choice(["u", "v"], size=160)
    loss, chosen = rng.exponential(size=160), sex == "u"
    psi = chosen * (loss - loss[chosen].mean()) / chosen.mean()
    data = {"race": np.repeat(["a", "b", "c"], [50, 80, 30]), "sex": sex, "loss": shift + scale * loss}
    return data | {"psi": scale * psi}, Estimate(float(data["loss"][chosen].mean()), "psi")


def handful(rows: int, seed: int = 7, shift: float = 1.0) -> Columns:
    """Two groups of normal rows, and a third of ``rows`` rows that lie ``shift`` above them."""
    rng = np.random.default_rng(seed)
    loss = rng.normal(size=500 + rows)
    loss[500:] += shift
    return {"race": np.repeat(["a", "b", "c"], [300, 200, rows]), "loss": loss}


def real(values: FloatArray, codes: AnyArray | None = None, weights: FloatArray | None = None) -> Real:
    """The groups of ``codes``, or one group of all values."""
    codes = np.zeros(values.size, dtype=int) if codes is None else codes
    return Real(Ragged.from_codes(codes, int(codes.max()) + 1, values, weights=weights))


def skewed() -> tuple[IntArray, FloatArray]:
    """Codes and values of 150 exponential rows in three groups of different means."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 3, size=150)
    return codes, rng.exponential(size=150) * (1 + codes)


def against_others(kind: Kind, groups: Binary | Real) -> ProfileLikelihood:
    """Each group compared with all other rows."""
    every = np.arange(groups.n.size)
    return ProfileLikelihood(kind, groups, every, other=groups.rest(), partner=every)
