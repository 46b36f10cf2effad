"""Splits, and decisions from scores."""

from __future__ import annotations

import numpy as np
import pytest

from isonomy.alternatives.rules.cutoffs import at_capacity, fold, select, split
from isonomy.alternatives.rules.utilities import READY, Criteria
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


def criteria(capacity: float | None = None, threshold: float | None = None) -> Criteria:
    return Criteria(READY["accuracy"], (READY["tpr"],), ("a", "b"), capacity=capacity, threshold=threshold)


def test_decisions_and_the_papers_cutoffs() -> None:
    scores, weight = np.array([0.1, 0.4, 0.7, 0.9]), np.ones(4, dtype=np.int64)
    ready = select(np.array([0.0, 1.0]), weight[:2], criteria(0.5), "x", learn=True)
    assert ready.share.tolist() == [0, 1]
    assert np.isnan(ready.cutoff)
    assert select(scores, weight, criteria(threshold=0.7), "x").share.tolist() == [0, 0, 0, 1]
    cut = select(scores, weight, criteria(0.5), "x", learn=True)
    assert cut.share.tolist() == [0, 0, 1, 1]
    assert cut.cutoff == pytest.approx(0.55)
    with pytest.raises(DataError, match=r"x: .*capacity"):
        select(scores, weight, criteria(), "x")


def test_folds_are_disjoint_and_about_equal() -> None:
    weight = np.array([3, 0, 8, 2, 1])
    folds = fold(weight, 4, np.random.default_rng(0))
    assert (folds.sum(axis=0) == weight).all()
    assert sorted(folds.sum(axis=1).tolist()) == [3, 3, 4, 4]


@pytest.mark.parametrize("capacity", [0.03, 0.1, 0.37, 0.999])
@pytest.mark.parametrize("distinct", [1, 3, 10_000])
def test_exactly_the_capacity_is_selected(capacity: float, distinct: int) -> None:
    rng = np.random.default_rng(1)
    values, weight = rng.integers(0, distinct, 500).astype(float), rng.integers(1, 4, 500)
    result = select(values + 2.0, weight, criteria(capacity), "x")
    assert np.average(result.share, weights=weight) == pytest.approx(capacity, abs=1e-12)
    assert result.edge.sum() == pytest.approx(1)
    order = np.argsort(values)
    assert (np.diff(result.share[order]) >= 0).all()  # nobody is passed over


def test_ties_at_the_cutoff_are_the_edge_if_they_are_many() -> None:
    values = np.array([0.0, 1, 1, 1, 1, 1, 1, 2])
    _, near, _ = at_capacity(values, np.ones(8, dtype=np.int64), 0.5, 0.2)
    assert near.tolist() == [0, 1, 1, 1, 1, 1, 1, 0]
