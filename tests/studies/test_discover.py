"""The study of discovery tests subgroups directly; its numbers are those of the library."""

from __future__ import annotations

import numpy as np

from isonomy.groups.discover import estimate
from isonomy.groups.likelihood.search import Subgroup
from studies.discover import coded, halves_of_rates, latent_of, plan_of, rows_of


def test_rates_have_the_numbers_of_flag() -> None:
    for seed, rate in enumerate((0.4, 0.05)):
        rng = np.random.default_rng(seed)
        rows = rows_of(coded(latent_of(rng, 1_500, 0.5)), (rng.random(1_500) < rate).astype(float))
        direct = halves_of_rates(np.random.default_rng(9), rows, plan_of())
        columns, _ = estimate(rows, plan_of(), np.random.default_rng(9))
        assert all(isinstance(subgroup, Subgroup) for subgroup in columns["subgroups"])
        assert [g.literals for g in direct["subgroups"]] == [g.literals for g in columns["subgroups"]]
        assert direct["verdicts"] == list(columns["verdicts"])
        for end in ("ci_low", "ci_high"):
            np.testing.assert_allclose(direct[end], columns[end], rtol=1e-9, atol=1e-12)
