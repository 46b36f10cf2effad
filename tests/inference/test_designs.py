"""Design effects: linearized variances, the effective number of clusters, and the distribution of a statistic."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from isonomy.frames import open_source
from isonomy.frames.design import Clusters, Design
from isonomy.inference import designs
from isonomy.inference.designs import (
    DesignEffect,
    Influence,
    JointLaw,
    Law,
    Spread,
    count_clusters,
    covariance,
    joint_law,
    spread,
)
from isonomy.numerics.arrays import FloatArray, IntArray


def rows_in(clusters: list[int] | IntArray, weight: FloatArray) -> Design:
    """One line per row."""
    size = len(weight)
    mass = weight * size / weight.sum()
    return Design(mass, mass**2, mass**4, np.ones(size), Clusters.from_rows(np.asarray(clusters), mass))


def test_a_published_cluster_sample() -> None:
    """Lohr, Sampling: Design and Analysis (1999), example 5.2: grade point averages of four students in each of five
    suites. Its standard error 0.164 has the finite population correction 1 - 5/100; R's survey gives 0.168 without."""
    suites = [
        *([3.08, 2.60, 3.44, 3.04], [2.36, 3.04, 3.28, 2.68], [2.00, 2.56, 2.52, 1.88]),
        *([3.00, 2.88, 3.44, 3.64], [2.68, 1.92, 3.28, 3.20]),
    ]
    x = np.ravel(suites)
    totals = spread(rows_in(np.repeat(np.arange(5), 4), np.ones(20)), Influence.from_values((x - x.mean()) / 20))
    error = float(np.sqrt(totals.variance[0]))
    assert x.mean() == pytest.approx(2.826, abs=5e-4)
    assert error * np.sqrt(0.95) == pytest.approx(0.164, abs=5e-4)
    assert error == pytest.approx(0.168, abs=5e-4)
    assert totals.clusters.tolist() == [5]
    assert totals.effective[0] <= 5


def dense(influence: Influence) -> FloatArray:
    return np.asarray(influence.direct.toarray() + influence.base @ influence.loading, dtype=float)


def by_hand(design: Design, values: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    if design.clusters is None:
        return (
            design.second @ values**2,
            design.fourth @ values**4,
            values.T @ (design.second[:, None] * values),
        )
    sums = np.concatenate([part @ values for part in design.clusters.apply(lambda matrix: matrix)])
    return (sums**2).sum(0), (sums**4).sum(0), sums.T @ sums


@pytest.mark.parametrize("clustered", [True, False])
def test_sums_over_clusters_equal_those_by_hand(clustered: bool) -> None:
    rng = np.random.default_rng(3)
    size, groups = 60, 4
    codes = rng.integers(-1, groups, size)
    influence = Influence.from_groups(
        codes,
        rng.normal(size=size),
        groups,
        base=rng.normal(size=(size, 2)),
        loading=rng.normal(size=(2, groups)),
        reference=rng.random(size) < 0.7,
    )
    design = rows_in(rng.integers(0, 15, size), rng.random(size) + 0.1)
    if not clustered:
        design = Design(design.mass, design.second, design.fourth, design.rows, None)
    second, fourth, products = by_hand(design, dense(influence))
    totals = spread(design, influence)
    assert totals.second == pytest.approx(second)
    assert totals.fourth == pytest.approx(fourth)
    expected = [float(design.mass[codes == group].sum()) for group in range(groups)]
    assert totals.mass == pytest.approx(expected)
    matrix = covariance(design, influence)
    number = 15 if clustered else int(((codes >= 0) | (influence.reference > 0)).sum())
    assert matrix == pytest.approx(products * number / (number - 1))
    both = Influence.join([influence, influence], np.array([True, False] * groups))
    assert dense(both) == pytest.approx(np.tile(dense(influence), 2)[:, ::2])


@pytest.mark.parametrize("reached", ["none", "partly", "whole"])
@pytest.mark.parametrize("many", [False, True])
def test_the_reference_beside_a_group_is_what_is_not_the_group(
    reached: str, many: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With dense columns, and with single entries if there are many contrasts; both as by hand, cluster by cluster."""
    rng = np.random.default_rng(5)
    size, groups, clusters = 80, 3, rng.integers(0, 20, 80)
    codes = rng.integers(0, groups, size)
    among = {"none": np.zeros(size, dtype=bool), "partly": codes == 0, "whole": np.ones(size, dtype=bool)}[reached]
    influence = Influence.from_groups(
        codes,
        rng.normal(size=size),
        groups,
        base=rng.normal(size=(size, 1)) * among[:, None],
        loading=-np.ones((1, groups)),
        reference=among,
    )
    design = rows_in(clusters, rng.random(size) + 0.1)
    if many:
        monkeypatch.setattr(designs, "CONTRASTS", 0)
    totals = spread(design, influence)
    for g in range(groups):
        own = np.bincount(clusters, design.mass * (codes == g), 20)
        beside = np.bincount(clusters, design.mass * (among & (codes != g)), 20)
        worth = [mass.sum() ** 2 / (mass**2).sum() for mass in (own, beside) if mass.sum() > 0]
        assert totals.effective[g] == pytest.approx(min(worth))
        assert totals.occupied[g] == (own > 0).sum()
        assert totals.clusters[g] == ((own > 0) | (np.bincount(clusters, design.mass * among, 20) > 0)).sum()


def test_clusters_of_groups_and_of_everybody() -> None:
    table = {"g": ["a", "a", "b", "b", "a", None], "c": [1, 1, 1, 2, 3, 3]}
    source = open_source(table, cluster="c")
    told = count_clusters(source, source.grouping("g"), "overall")
    assert [group[:2] for group in told] == [("overall", 3), ("g=a", 2), ("g=b", 2)]
    assert [group[2] for group in told] == pytest.approx([25 / 11, 9 / 5, 2])


def test_the_law_of_a_statistic_is_that_of_t() -> None:
    law = Law(np.array([2.0, 1.0, 1.0]), np.array([12.0, 30.0, 1e9]))
    statistic = np.array([9.0, 4.0, 4.0])
    equal = law.chi_square(statistic)
    assert stats.chi2.sf(equal, 1) == pytest.approx(stats.f.sf(statistic / law.effect, 1, law.df))
    assert law.critical(equal) == pytest.approx(statistic)
    assert law.select(np.array([1])).chi_square([4.0]) == pytest.approx(equal[1:2])
    assert law.chi_square([0.0, np.inf, np.nan]).tolist()[:2] == [0.0, np.inf]
    assert np.isnan(law.chi_square([0.0, 0.0, np.nan])[2])


def test_far_tails_are_finite_and_increase() -> None:
    law = Law(np.ones(200), np.full(200, 1e5))
    equal = law.chi_square(np.linspace(500, 5_000, 200))
    assert np.isfinite(equal).all()
    assert (np.diff(equal) > 0).all()


def test_a_constant_group_takes_each_cluster_as_one_row() -> None:
    totals = Spread(*(np.array([value]) for value in (1.0, 0.1, 40.0, 200.0, 8.0, 30.0, 0.0, 0.0, 0.0, 0.0, 0.0)))
    law = totals.law(np.array([0.5]), constant=np.array([True]))
    assert law.effect.tolist() == [5.0]
    assert law.df.tolist() == [7.0]
    assert totals.law(np.array([0.5])).effect == pytest.approx([30 / 29 / 0.5])
    assert isinstance(totals.effect(law), DesignEffect)
    assert Spread.join([totals, totals]).second.size == 2


def test_a_joint_law_of_equal_weights_is_an_f() -> None:
    law = JointLaw(np.full(3, 2.0), 21.0)
    assert law.tail(9.0) == pytest.approx(stats.f.sf(9.0 / 6.0, 3, 60))
    assert law.tail(law.critical(0.05)) == pytest.approx(0.05)


def test_independent_rows_have_a_joint_law_of_ones() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(500, 3))
    design = Design(np.ones(500), np.ones(500), np.ones(500), np.ones(500), None)
    law = joint_law(design, Influence.from_values(values - values.mean(0)), 3, 500.0)
    assert law.weights == pytest.approx(np.full(3, 500 / 499))


@pytest.mark.parametrize("clustered", [False, True])
def test_third_moments_are_sums_over_clusters_with_and_without_members(clustered: bool) -> None:
    rng = np.random.default_rng(4)
    codes, values, mass = rng.integers(-1, 3, 60), rng.normal(size=60) ** 2, rng.uniform(0.5, 2.0, 60)
    base, loading = rng.normal(size=(60, 2)), rng.normal(size=(2, 3))
    reached = rng.random(60) < 0.5
    base[~reached] = 0.0
    cluster = rng.integers(0, 15, 60) if clustered else np.arange(60)
    clusters = Clusters.from_rows(cluster, mass) if clustered else None
    design = Design(mass, mass**2, mass**4, np.ones(60), clusters)
    influence = Influence.from_groups(codes, values, 3, base, loading, reached)
    totals = spread(design, influence)
    for group in range(3):
        each = mass * (np.where(codes == group, values, 0.0) + base @ loading[:, group])
        total = np.bincount(cluster, each)
        inside = np.bincount(cluster, codes == group) > 0
        for name, expected in {
            "third": (total**3).sum(),
            "second_beside": (total[~inside] ** 2).sum(),
            "third_beside": (total[~inside] ** 3).sum(),
        }.items():
            assert getattr(totals, name)[group] == pytest.approx(expected, rel=1e-9), name
        mine, theirs = totals.sides
        assert mine.third[group] + theirs.third[group] == pytest.approx((total**3).sum(), rel=1e-9)
