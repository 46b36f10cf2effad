"""Rows by bins of the score, for tests of thresholds."""

from __future__ import annotations

import numpy as np

from isonomy.scores.smoothing.targets import SUMS, ScoreCells, threshold_bins


def cells(score: np.ndarray, outcome: np.ndarray, present: float = 0.5) -> ScoreCells:
    """One group."""
    bins = threshold_bins(0.0, 1.0, present)
    place = bins.index(score)
    rows, total, square = (
        np.bincount(place, w, bins.size)[None].astype(np.float64) for w in (np.ones(score.size), outcome, outcome**2)
    )
    read = np.arange(bins.size) >= bins.before
    return ScoreCells(bins, rows, rows, total, square, rows * read, total * read)


def groups(n: int = 20_000) -> tuple[list[np.ndarray], list[np.ndarray], ScoreCells]:
    """The scores and outcomes of two groups, and their cells."""
    rng = np.random.default_rng(0)
    scores = [rng.beta(2, 3, n), rng.beta(3, 2, n)]
    outcomes = [(rng.random(n) < s).astype(float) for s in scores]
    each = [cells(s, y) for s, y in zip(scores, outcomes, strict=True)]
    return (
        scores,
        outcomes,
        ScoreCells(each[0].bins, *(np.concatenate([getattr(c, name) for c in each]) for name in SUMS)),
    )
