"""Splits, and scores into decisions."""

from __future__ import annotations

import numpy as np
import pytest

from isonomy.alternatives.rules.cutoffs import decisions, split
from isonomy.errors import DataError


def test_split_draws_whole_rows() -> None:
    weight = np.array([3, 0, 8, 2])
    train, test = split(weight, 0.5, np.random.default_rng(0))
    assert train.sum() == 6
    assert (train + test == weight).all()
    assert (train >= 0).all()
    none, every = split(weight, 0.0, np.random.default_rng(0))
    assert not none.any()
    assert every.tolist() == weight.tolist()


def test_decisions() -> None:
    scores, learn = np.array([0.1, 0.4, 0.7, 0.9]), np.ones(4, dtype=np.int64)
    ready, cutoff = decisions(np.array([0.0, 1.0]), learn[:2], "x", capacity=0.5, threshold=None)
    assert ready.tolist() == [0, 1]
    assert np.isnan(cutoff)
    assert decisions(scores, learn, "x", capacity=None, threshold=0.7)[0].tolist() == [0, 0, 0, 1]
    cut, cutoff = decisions(scores, learn, "x", capacity=0.5, threshold=None)
    assert cut.tolist() == [0, 0, 1, 1]
    assert cutoff == pytest.approx(0.55)
    with pytest.raises(DataError, match=r"x: .*capacity"):
        decisions(scores, learn, "x", capacity=None, threshold=None)
