"""Several scores for several outcomes: means and regressions."""

from __future__ import annotations

from studies.designs import expected, objectives
from support.sampling import rows_of, standard_errors

ROWS = 200_000
LIMIT = 4.5  # standard errors; about 1e-5 two-sided for each of some hundred means, seeds fixed


def test_objectives_have_their_means_and_regressions() -> None:
    table = objectives(ROWS, 4, groups=3, count=3, planted=[0.0, 1.0, -0.8], cross=0.8, dependence=0.6)
    columns = table.columns
    for label, known in table.truth["groups"].items():
        rows = rows_of(columns, label)
        scores = [columns[f"score_{j}"][rows] for j in (1, 2, 3)]
        for j in (1, 2, 3):
            y = columns[f"outcome_{j}"][rows].astype(float)
            assert abs(standard_errors(y, known[f"outcome_{j}"]["mean"])) < LIMIT
            residual = y - expected(table, label, j, scores)
            for s in scores:
                assert abs(standard_errors(residual * (s > 0.6), 0.0)) < LIMIT
                assert abs(standard_errors(residual * (s < 0.3), 0.0)) < LIMIT
