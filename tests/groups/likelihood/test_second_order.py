"""Whether a joint test needs a small-sample correction, and what it does without one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

import isonomy as iso
from isonomy.groups.likelihood.region import Region, automatic_factor, second_order_term
from isonomy.inference.designs import Contribution
from isonomy.inference.effect import combined, too_skewed

VALUE = iso.Metric("v", value=iso.col("v"))


def grouped(values: Any) -> dict[str, Any]:
    groups, size = values.shape
    return {"g": np.repeat(np.arange(groups), size), "v": values.ravel()}


def test_many_small_groups_are_corrected_and_large_ones_are_not() -> None:
    rng = np.random.default_rng(1)
    options: dict[str, Any] = {"metric": VALUE, "groups": "g", "rng": 1}
    quick = iso.likelihood(resamples=100)
    small = iso.certify(table := grouped(rng.lognormal(size=(20, 20))), **options, method=quick)
    plain = iso.certify(table, **options, method=iso.likelihood(correction=None))
    forced = iso.certify(table, **options, method=iso.likelihood("el", "bartlett", 100))
    assert small.statistic < plain.statistic
    assert small.statistic == forced.statistic
    assert any("divided by" in sentence for sentence in small.warnings)
    assert small.provenance.seed is not None
    large = iso.certify(table := grouped(rng.lognormal(size=(3, 2_000))), **options, method=quick)
    assert large.statistic == iso.certify(table, **options, method=iso.likelihood(correction=None)).statistic


def test_the_term_is_the_mean_of_the_groups_own() -> None:
    rng = np.random.default_rng(2)
    table = grouped(rng.exponential(size=(4, 50)))
    region = iso.certify(table, metric=VALUE, groups="g").region
    assert isinstance(region, Region)
    terms = []
    for x in table["v"].reshape(4, 50):
        m2, m3, m4 = (np.mean((x - x.mean()) ** k) for k in (2, 3, 4))
        terms.append((m4 / (2 * m2**2) - m3**2 / (3 * m2**3)) / 50)
    assert second_order_term(region) == pytest.approx(np.mean(terms), rel=1e-9)
    factor = automatic_factor(region, region.test(0.0), np.zeros(4), 0.05, 100, rng)
    assert (factor != 1) is bool(stats.chi2.sf(stats.chi2.isf(0.05, 3) / (1 + np.mean(terms)), 3) > 0.055)


def test_skewed_groups_against_a_number_decide_nothing() -> None:
    table = grouped(np.random.default_rng(3).lognormal(size=(20, 20)))
    result = iso.certify(table, metric=VALUE, groups="g", reference=float(np.exp(0.5)))
    assert result.verdict == "inconclusive"
    assert any("the joint test has no verdict" in sentence for sentence in result.warnings)
    plain = iso.certify(table, metric=VALUE, groups="g", reference=1.0, method=iso.likelihood(correction=None))
    assert plain.verdict == "violation"


def test_no_verdict_rests_on_few_skewed_rows() -> None:
    rng = np.random.default_rng(5)
    table = {"g": np.repeat(["a", "b", "c"], [300, 60, 2_000]), "v": rng.exponential(size=2_360)}
    table["v"][:300] = rng.normal(1.0, 0.05, size=300)
    table["v"][300:360] = np.append(np.full(58, 0.7) + 0.01 * rng.random(58), [9.0, 12.0])
    options: dict[str, Any] = {"metric": VALUE, "groups": "g", "reference": 1.0, "adjust": "none"}
    result = iso.flag(table, **options, tolerance=2.0)
    assert result.status == ("ok", "skewed", "ok")
    assert [str(verdict) for verdict in result.verdicts] == ["within_tolerance", "inconclusive", "within_tolerance"]
    assert any("too skewed" in sentence and "g=b" in sentence for sentence in result.warnings)
    assert iso.certify(table, metric=VALUE, groups="g", reference=1.0, tolerance=2.0).verdict == "inconclusive"
    # Overwhelming evidence decides nevertheless.
    assert iso.flag(table, **(options | {"reference": -9.0})).verdicts[1] == "violation"


def test_a_group_without_the_rare_amounts_is_not_judged_by_its_own_variance() -> None:
    rng = np.random.default_rng(7)
    table = grouped(rng.normal(1.0, 0.3, size=(4, 300)))
    table["v"][300:] += np.where(rng.random(900) < 0.02, 30.0, 0.0)  # group 0 has none of the large ones
    result = iso.flag(table, metric=VALUE, groups="g", reference={"g": 3})
    line = result.labels.index("g=0")
    assert result.pvalue[line] < 1e-3
    assert (result.status[line], str(result.verdicts[line])) == ("skewed", "inconclusive")
    table["v"][:300] -= 10.0
    assert iso.flag(table, metric=VALUE, groups="g", reference={"g": 3}).verdicts[line] == "violation"


def contribution(x: Any) -> Contribution:
    """Groups of equal size, one row each."""
    n = np.full(len(x), float(x.shape[1]))
    away = x - x.mean(axis=1, keepdims=True)
    return Contribution.of_rows((away**3).sum(axis=1) / n**3, (away**2).sum(axis=1) / n**2, n)


def test_both_sides_of_a_difference_count() -> None:
    x = np.random.default_rng(6).lognormal(size=(2, 40))
    sides = [contribution(x[[0]]), contribution(x[[1]])]
    whole, skewness, variance = combined(sides), np.abs(stats.skew(x, axis=1)), np.var(x, axis=1)
    # Both count as at least as skewed and as variable as all rows.
    wide = np.maximum(variance, variance.mean())
    assert whole.third[0] == pytest.approx((skewness.max() * wide**1.5).sum() / 40**2)
    assert whole.variance[0] == pytest.approx(wide.sum() / 40)
    welch = stats.ttest_ind(*x, equal_var=False)
    assert whole.df[0] == pytest.approx(welch.df, rel=1e-12)


def test_groups_are_as_skewed_as_all_of_them_and_many_need_more_rows() -> None:
    rng = np.random.default_rng(7)
    for rows, alone, together in ((100, True, True), (250, False, True), (600, False, False)):
        x = rng.exponential(size=(40, rows))
        third, variance = combined([contribution(x)])[:2]
        quiet = 30 * stats.skew(x, axis=1) ** 2 < rows  # by their own rows many would do
        assert quiet.sum() > 10
        assert too_skewed(third, variance)[quiet].all() == alone
        assert too_skewed(third, variance, 0.05, 40)[quiet].all() == together


SKEWED: dict[str, dict[str, Any]] = {
    "strata": {"reference": {"g": "c"}, "given": "s"},
    "best": {"reference": "highest"},
    "weights": {"reference": {"g": "c"}, "weight": "w"},
    "clusters": {"reference": {"g": "c"}, "cluster": "k"},
    "overlap": {"reference": {"h": "d"}, "groups": ["g", "h"]},
    "rest": {"reference": "rest"},
    "standardized": {"reference": {"g": "c"}, "scale": "standardized"},
}


@pytest.mark.parametrize("path", SKEWED)
def test_every_path_has_the_gate(path: str) -> None:
    rng = np.random.default_rng(8)
    n = 60 + 60 + 1_000
    table = {
        "g": np.repeat(["a", "b", "c"], [60, 60, 1_000]),
        "s": rng.integers(0, 3, n),
        "w": rng.uniform(0.5, 1.5, n),
    }
    table |= {"h": rng.choice(["d", "e"], n), "k": np.arange(n) // 2}
    options: dict[str, Any] = {"metric": VALUE, "groups": "g", **SKEWED[path]}
    for value, closed in ((np.exp(1.5 * rng.normal(size=n)), True), (rng.normal(size=n), False)):
        result = iso.flag(table | {"v": value}, **options)
        status = dict(zip(map(str, result.groups), result.status, strict=True))
        assert [status["g=a"], status["g=b"]] == (["skewed"] * 2 if closed else ["ok"] * 2)
        assert any("too skewed" in sentence for sentence in result.warnings) == closed
        assert closed <= (result.verdict == "inconclusive")


def test_means_have_welch_degrees_of_freedom() -> None:
    rng = np.random.default_rng(9)
    table = {"g": np.repeat(["a", "c"], [40, 300]), "v": rng.normal(size=340)}
    result = iso.flag(table, metric=VALUE, groups="g", reference={"g": "c"})
    df = stats.ttest_ind(table["v"][:40], table["v"][40:], equal_var=False).df
    assert result.pvalue[0] == pytest.approx(stats.f.sf(result.statistic[0], 1, df), rel=1e-9)
    plain = iso.flag(table, metric=VALUE, groups="g", reference={"g": "c"}, method=iso.likelihood(correction=None))
    assert plain.statistic[0] == result.statistic[0]
    assert plain.pvalue[0] == pytest.approx(stats.chi2.sf(result.statistic[0], 1), rel=1e-9)
    assert plain.ci_high[0] < result.ci_high[0]


def values_of(table: Any, column: str, **options: Any) -> float:
    asked: dict[str, Any] = {"metric": VALUE, "groups": "g"} | options
    result = iso.flag(table, **asked)
    return float(getattr(result, column)[[str(group) for group in result.groups].index("g=a")])


def bent(root: float, x: Any, y: Any, *, known: bool) -> float:
    """T of few rows x: Welch's ``root`` bent towards 0 by the skewness of the sides, as far as it may be."""
    cubes = [np.sum((part - part.mean()) ** 3) for part in (x, y)]
    pooled = sum(cubes) / sum(part.size * part.var() ** 1.5 for part in (x, y))
    mean_square = (x.size * x.var() + y.size * y.var()) / (x.size + y.size)
    apparent = expected = square = wide = 0.0
    for part, cube, sign in list(zip((x, y), cubes, (1.0, -1.0), strict=True))[: 1 if known else 2]:
        n = part.size
        seen = 1.5 * np.sqrt(n * (n - 1)) / (n - 2) if n < 30 else 1.0
        variance = np.sqrt(part.var() * max(part.var(), mean_square))
        apparent, square = apparent + sign * seen * cube / n**3, square + part.var() / n
        expected, wide = expected + sign * pooled * variance**1.5 / n**2, wide + variance / n
    ends = apparent / square**1.5, expected / wide**1.5
    skewness, root = max(-min(ends) if root > 0 else max(ends), 0.0), abs(root)
    return float(root - skewness * (root**2 / 3 + 1 / 6) + skewness**2 * root**3 / 27) ** 2


@pytest.mark.parametrize("scale", ["difference", "ratio", "standardized"])
def test_few_rows_have_welchs_test_on_every_path(scale: str) -> None:
    rng = np.random.default_rng(10)
    table: dict[str, Any] = {"g": np.repeat(["a", "c"], [12, 200]), "h": ["d", "e"] * 106}
    table["v"] = rng.normal(5.0, 1.0, size=212)
    x, y = table["v"][:12], table["v"][12:]
    welch, known = stats.ttest_ind(x, y, equal_var=False), stats.ttest_1samp(x, 5.0)
    for reference, peer in (({"g": "c"}, welch), ("rest", welch), ("population", welch), (5.0, known)):
        options: dict[str, Any] = {"reference": reference, "scale": scale}
        statistic = bent(float(peer.statistic), x, y, known=peer is known)
        assert values_of(table, "statistic", **options) == pytest.approx(statistic, rel=1e-7)
        assert values_of(table, "pvalue", **options) == pytest.approx(stats.f.sf(statistic, 1, peer.df), rel=1e-7)
        for end in ("ci_low", "ci_high"):
            edge = values_of(table, end, **options)
            assert values_of(table, "pvalue", **options, null=edge) == pytest.approx(0.05, rel=1e-9)
    if scale == "difference":
        low, high = welch.confidence_interval()
        assert values_of(table, "ci_low", reference={"g": "c"}) <= low
        assert values_of(table, "ci_high", reference={"g": "c"}) >= high
    # A reference that overlaps the group in part: the variance of the difference by influence values.
    inside = np.array(table["h"]) == "d"
    both: dict[str, Any] = {"groups": ["g", "h"], "reference": {"h": "d"}, "adjust": "none", "scale": scale}
    other = table["v"][inside]
    on_x = np.where(np.arange(212) < 12, table["v"] - x.mean(), 0.0) / np.sqrt(12 * 11)
    on_y = np.where(inside, table["v"] - other.mean(), 0.0) / np.sqrt(other.size * (other.size - 1))
    root = (x.mean() - other.mean()) / np.sqrt(((on_x - on_y) ** 2).sum())
    assert root**2 / 2 < values_of(table, "statistic", **both) <= root**2 * (1 + 1e-9)


BENT: dict[str, dict[str, Any]] = {
    "group": {"reference": {"g": "c"}},
    "ratio": {"reference": {"g": "c"}, "scale": "ratio"},
    "standardized": {"reference": {"g": "c"}, "scale": "standardized"},
    "strata": {"reference": {"g": "c"}, "given": "s"},
    "weights": {"reference": {"g": "c"}, "weight": "w"},
    "overlap": {"reference": {"h": "d"}, "groups": ["g", "h"]},
    "rest": {"reference": "rest"},
    "number": {"reference": 2.0},
}


def amounts() -> dict[str, Any]:
    rng, sizes = np.random.default_rng(4), [400, 400, 3_000]
    n = sum(sizes)
    table = {"g": np.repeat(["a", "b", "c"], sizes), "v": rng.lognormal(0.0, 1.2, n), "s": rng.integers(0, 2, n)}
    return table | {"w": rng.uniform(0.5, 1.5, n), "h": rng.choice(["d", "e"], n)}


@pytest.mark.parametrize("path", BENT)
def test_skewed_groups_of_enough_rows_have_a_test_whose_inversion_is_the_interval(path: str) -> None:
    table, options = amounts(), BENT[path]
    result = iso.flag(table, metric=VALUE, **({"groups": "g"} | options))
    assert result.status[0] == "ok"
    plain = iso.flag(table, metric=VALUE, **({"groups": "g"} | options), method=iso.likelihood(correction=None))
    assert plain.status[0] == "skewed"
    assert result.ci_low[0] <= plain.ci_low[0]
    assert result.ci_high[0] > plain.ci_high[0]
    for end in ("ci_low", "ci_high"):
        assert values_of(table, "pvalue", **options, null=values_of(table, end, **options)) == pytest.approx(0.05)


def test_exchanging_a_skewed_group_and_its_reference_mirrors_the_interval() -> None:
    table = amounts()
    first = iso.flag(table, metric=VALUE, groups="g", reference={"g": "c"})
    second = iso.flag(table, metric=VALUE, groups="g", reference={"g": "a"})
    assert second.pvalue[2] == pytest.approx(first.pvalue[0], rel=1e-9)
    assert second.ci_low[2] == pytest.approx(-first.ci_high[0], rel=1e-9)
    assert second.ci_high[2] == pytest.approx(-first.ci_low[0], rel=1e-9)


def test_the_root_of_a_skewed_difference_is_bent_by_the_skewness_of_all_rows() -> None:
    table = amounts()
    rows = [table["v"][table["g"] == name] for name in "abc"]
    n = np.array([part.size for part in rows])
    second, third = (np.array([np.mean((part - part.mean()) ** k) for part in rows]) for k in (2, 3))
    pooled = (n @ third) / (n @ second**1.5)  # the skewness of all rows
    squared = second[0] / n[0] + second[2] / n[2]
    own = (third[0] / n[0] ** 2 - third[2] / n[2] ** 2) / squared**1.5
    usual = pooled * second**1.5
    highest = max(third[0], usual[0]) / n[0] ** 2 - min(third[2], usual[2]) / n[2] ** 2
    level = highest / squared**1.5
    for null in (0.3, 0.6):  # the estimate lies below
        plain = iso.likelihood(correction=None)
        options: dict[str, Any] = {"metric": VALUE, "groups": "g", "reference": {"g": "c"}, "null": null}
        root = np.sqrt(iso.flag(table, **options, method=plain).statistic[0])
        bent = root - (level - own) * root**2 / 3 + (level - own) ** 2 * root**3 / 27 - level / 6
        assert iso.flag(table, **options).statistic[0] == pytest.approx(bent**2, rel=1e-9)


def test_few_rows_are_judged_unless_they_look_skewed() -> None:
    rng = np.random.default_rng(12)
    table = {"g": np.repeat(["a", "c"], [10, 2_000]), "v": rng.normal(size=2_010)}
    for skewness in (0.9, 1.3, 1.6):  # of normal rows, the last is 2.7 standard errors from 0
        table["v"][:10] = np.append(rng.normal(size=9), 0.0)
        part = table["v"][:10]
        ends = np.linspace(1.5, 20.0, 2_000)
        shown = stats.skew(np.column_stack([np.tile(part[:9], (ends.size, 1)), ends]), axis=1)
        part[9] = ends[np.argmin(np.abs(shown - skewness))]
        result = iso.flag(table, metric=VALUE, groups="g", reference={"g": "c"})
        assert result.status[0] == ("ok" if skewness < 1.5 else "skewed")
    # All groups together show what a few rows do not.
    names = np.repeat([*"bdefhijk", "c"], [*[12] * 8, 2_000])
    table = {"g": names, "v": np.where(names == "c", rng.normal(size=names.size), rng.lognormal(0.0, 1.2, names.size))}
    result = iso.flag(table, metric=VALUE, groups="g", reference={"g": "c"})
    assert set(result.status) == {"reference", "skewed"}


def test_skewed_groups_have_no_joint_verdict() -> None:
    rng = np.random.default_rng(11)
    amounts = np.where(rng.random(1_360) < 0.1, rng.lognormal(size=1_360), 0.0)
    table = {"g": np.repeat(np.arange(7), [1_000, *[60] * 6]), "v": amounts}
    result = iso.certify(table, metric=VALUE, groups="g", rng=0)
    assert result.verdict == "inconclusive"
    assert any("v is too skewed" in sentence for sentence in result.warnings)
    table["v"] = rng.normal(size=1_360)
    assert iso.certify(table, metric=VALUE, groups="g", rng=0).answered


def test_few_rows_that_may_lack_rare_values_have_no_verdict() -> None:
    rng = np.random.default_rng(7)
    many = rng.normal(size=2_000)
    for few, least in ((rng.normal(-0.33, 0.15, 10), 10), (rng.normal(-3.0, 1.0, 4), 3)):
        table = {"g": np.repeat(["few", "many"], [few.size, many.size]), "v": np.append(few, many)}
        options: dict[str, Any] = {"metric": VALUE, "groups": "g", "reference": {"g": "many"}, "min_size": least}
        result = iso.flag(table, **options)
        assert result.status[result.labels.index("g=few")] == iso.Status.SKEWED
        assert result.verdict is iso.Verdict.INCONCLUSIVE
    shifted = {"g": np.repeat(["few", "many"], [10, 2_000]), "v": np.append(rng.normal(-2.0, 1.0, 10), many)}
    assert iso.flag(shifted, metric=VALUE, groups="g", reference={"g": "many"}).verdict is iso.Verdict.VIOLATION


@pytest.mark.parametrize("rows", [(29, 60), (20, 20), (15, 200)])
def test_the_rest_of_one_of_two_groups_is_the_other(rows: tuple[int, int]) -> None:
    for seed in range(8):
        values = np.random.default_rng(seed).lognormal(0.0, [0.5, 0.8, 1.2][seed % 3], sum(rows))
        table = {"g": np.repeat(["a", "b"], rows), "v": values}
        rest = iso.flag(table, metric=VALUE, groups="g", reference="rest")
        for label, other in (("g=a", "b"), ("g=b", "a")):
            named = iso.flag(table, metric=VALUE, groups="g", reference={"g": other})
            here, there = rest.labels.index(label), named.labels.index(label)
            assert rest.status[here] == named.status[there]
            assert rest.pvalue[here] == pytest.approx(named.pvalue[there], rel=1e-7)
