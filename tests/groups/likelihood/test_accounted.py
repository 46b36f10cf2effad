"""What strata account for."""

from __future__ import annotations

import numpy as np

from isonomy.groups.likelihood.strata import Lines, accounted, strata_of


def test_strata_that_do_not_matter_account_for_nothing_with_an_error() -> None:
    """50 tables whose strata are alike: taking out the error of strata's means would leave no variance in a quarter."""
    rng, held, narrow = np.random.default_rng(8), 0, 0
    for _ in range(50):
        stratum, group = rng.integers(0, 5, 900), (np.arange(900) < 300).astype(np.intp)
        value = (rng.random(900) < 0.35 - 0.05 * group).astype(float)
        lines = Lines(np.where(group == 1, 0, -1), stratum, value, np.ones(900), None)
        parts = accounted(strata_of(lines, 1, binary=True), "difference", 3.84)
        held += int(parts.low[0] <= 0 <= parts.high[0])
        narrow += int(parts.high[0] - parts.low[0] < 1e-4)
    assert held >= 47
    assert narrow == 0
