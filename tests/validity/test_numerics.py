"""Ten million draws against the exact tails, and the size of what is built on them."""

import numpy as np
import pytest

from isonomy.inference.multiplicity import tree
from isonomy.inference.simultaneous import from_sums, sup_t
from isonomy.numerics.resampling import bootstrap_sums, collapse
from isonomy.numerics.tails import weighted_chi2_isf, weighted_chi2_sf

pytestmark = pytest.mark.validity
DRAWS, BLOCK = 10_000_000, 500_000


@pytest.mark.parametrize(
    "weights",
    [[1.0, 0.5, 0.25], [1.0, 0.99, 0.01], [3.0, 1.0, 1.0, 0.2, 0.2, 0.05], [1.0] + [0.05] * 30],
    ids=["geometric", "near pair", "repeated", "one large among many small"],
)
def test_weighted_chi_squares(weights):
    rng = np.random.default_rng(20)
    tails = np.array([0.999, 0.9, 0.5, 0.1, 0.01, 1e-3, 1e-4, 1e-5])
    x = weighted_chi2_isf(tails, weights)
    np.testing.assert_allclose(weighted_chi2_sf(x, weights), tails, rtol=1e-11)
    reached = np.zeros(tails.size)
    for _ in range(DRAWS // BLOCK):
        q = np.sort(rng.standard_normal((BLOCK, len(weights))) ** 2 @ np.array(weights))
        reached += BLOCK - np.searchsorted(q, x)
    # Eight tails and four laws: four binomial standard errors each.
    margin = 4 * np.sqrt(tails * (1 - tails) / DRAWS)
    np.testing.assert_array_less(np.abs(reached / DRAWS - tails), margin)


def test_sup_t_from_cluster_sums_has_its_size():
    # 300 users, 21 strongly correlated points, heavy-tailed sums: size 0.05 within 4 binomial errors of 4,000 runs
    # (0.0138) and the normal approximation's own error.
    rng = np.random.default_rng(21)
    grid = np.linspace(0, 1, 21)
    kernel = np.exp(-((grid[:, None] - grid) ** 2) / 0.02)
    rejected = 0
    for _ in range(4000):
        sums = rng.standard_t(8, size=(300, 21)) @ kernel
        t = sums.sum(axis=0) / np.sqrt((sums**2).sum(axis=0))
        rejected += sup_t(from_sums(sums), alpha=0.05, draws=999, rng=rng).pvalue(t) <= 0.05
    assert rejected / 4000 == pytest.approx(0.05, abs=0.0138)


def test_bootstrap_over_cells_gives_the_standard_error_of_a_ratio():
    rng = np.random.default_rng(22)
    y, w = rng.poisson(3, 20_000), rng.integers(1, 4, 20_000)
    sums = bootstrap_sums(collapse([y, w]), 200_000, rng)
    ratio = sums[:, 0] / sums[:, 1]
    residual = y - y.sum() / w.sum() * w
    delta = np.sqrt((residual**2).sum()) / w.sum()
    # Monte Carlo error of a standard deviation: 1/sqrt(2 x 200,000) = 0.0016, four of them.
    assert ratio.std() == pytest.approx(delta, rel=0.0064)


def test_tree_rejects_a_true_global_null_at_its_level():
    # Under the global null any rejection starts at the top level, so P(any) is BH's at the top: 0.05.
    rng = np.random.default_rng(23)
    levels = [1] * 4 + [2] * 4
    parents = [()] * 4 + [(0, 2), (0, 3), (1, 2), (1, 3)]
    found = sum(tree(rng.random(8), levels, parents, 0.05).rejected.any() for _ in range(20_000))
    assert found / 20_000 == pytest.approx(0.05, abs=4 * np.sqrt(0.05 * 0.95 / 20_000))
