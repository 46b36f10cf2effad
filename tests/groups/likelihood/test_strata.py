"""Comparisons within strata: reference values from statsmodels, and what must hold of any table."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize
from scipy.special import xlogy
from statsmodels.stats.contingency_tables import StratifiedTable

from isonomy.groups.likelihood.strata import Scale, Strata, Stratified, StratifiedLines, accounted
from isonomy.numerics.arrays import AnyArray, FloatArray
from isonomy.numerics.tails import chi2_isf, chi2_sf

SCALES: tuple[Scale, ...] = ("difference", "ratio", "odds_ratio")


def table(rows: int = 3_000, seed: int = 0) -> tuple[AnyArray, AnyArray, FloatArray]:
    rng = np.random.default_rng(seed)
    stratum = rng.integers(0, 6, rows)
    group = (rng.random(rows) < 0.3 + 0.05 * stratum).astype(int)
    return stratum, group, (rng.random(rows) < 0.2 + 0.05 * stratum + 0.1 * group).astype(float)


def strata(stratum: AnyArray, group: AnyArray, value: FloatArray, *, binary: bool = True) -> Strata:
    """Group 1 against group 0."""
    return formed(np.where(group == 1, 0, -1), stratum, value, np.ones(value.size), binary=binary)


def formed(
    codes: AnyArray,
    stratum: AnyArray,
    value: FloatArray,
    mass: FloatArray,
    compared: AnyArray | None = None,
    *,
    binary: bool = True,
) -> Strata:
    """One group, or everybody, within strata."""
    chosen = None if compared is None else compared.astype(bool)
    places = codes.astype(np.intp), stratum.astype(np.intp)
    return StratifiedLines(*places, value, mass, chosen, size=1, binary=binary).strata


def test_mantel_haenszel_is_statsmodels_own() -> None:
    stratum, group, value = table()
    cells = [[((stratum == s) & (group == g) & (value == v)).sum() for v in (1, 0)] for s in range(6) for g in (1, 0)]
    theirs = StratifiedTable(np.array(cells, dtype=float).reshape(6, 2, 2).transpose(1, 2, 0))
    ours = strata(stratum, group, value)
    assert ours.estimate("odds_ratio")[0] == pytest.approx(theirs.oddsratio_pooled)
    assert ours.estimate("ratio")[0] == pytest.approx(theirs.riskratio_pooled)
    assert np.sqrt(ours.variance("odds_ratio")[0]) == pytest.approx(theirs.logodds_pooled_se)
    assert ours.equality()[0] == pytest.approx(theirs.test_null_odds(correction=False).statistic)
    breslow_day = theirs.test_equal_odds(adjust=True)
    statistic, df = ours.homogeneity("odds_ratio")
    assert (statistic[0], chi2_sf(statistic, df)[0]) == pytest.approx((breslow_day.statistic, breslow_day.pvalue))
    low, high = Stratified(ours, "odds_ratio", np.array([0])).interval(3.841458820694124)
    assert (low[0], high[0]) == pytest.approx(theirs.oddsratio_pooled_confint())


def test_the_berkeley_admissions() -> None:
    """R: mantelhaen.test(UCBAdmissions, correct = FALSE) has M^2 = 1.5246, p = 0.2169, common odds ratio 0.9046968.

    The table's rows are Admit, its columns Gender, so that its odds ratio is that of men over women.
    """
    men = np.array([[512, 313], [353, 207], [120, 205], [138, 279], [53, 138], [22, 351]], dtype=float)
    women = np.array([[89, 19], [17, 8], [202, 391], [131, 244], [94, 299], [24, 317]], dtype=float)
    lines = [(s, g, v, side[s, 1 - v]) for s in range(6) for g, side in ((1, men), (0, women)) for v in (1, 0)]
    stratum, group, value, mass = (np.array(column) for column in zip(*lines, strict=True))
    ours = formed(np.where(group == 1, 0, -1), stratum, value.astype(float), mass)
    assert ours.equality()[0] == pytest.approx(1.5246, abs=1e-4)
    assert chi2_sf(ours.equality(), 1)[0] == pytest.approx(0.2169, abs=1e-4)
    assert ours.estimate("odds_ratio")[0] == pytest.approx(0.9046968, abs=1e-7)
    # Without regard to the department men are admitted much more often.
    assert accounted(ours, "odds_ratio", 3.84)["unconditional"][0] == pytest.approx(1.84108, abs=1e-5)


def test_satos_variance_by_hand() -> None:
    """Two strata: 3 of 5 against 2 of 8, and 4 of 6 against 1 of 4."""
    ours = strata(
        np.repeat([0, 0, 1, 1], [5, 8, 6, 4]),
        np.repeat([1, 0, 1, 0], [5, 8, 6, 4]),
        np.array([1] * 3 + [0] * 2 + [1] * 2 + [0] * 6 + [1] * 4 + [0] * 2 + [1] + [0] * 3, dtype=float),
    )
    weight = 40 / 13 + 24 / 10
    difference = (40 / 13 * (3 / 5 - 2 / 8) + 24 / 10 * (4 / 6 - 1 / 4)) / weight
    tilt = (25 * 2 - 64 * 3 + 40 * 3 / 2) / 169 + (36 * 1 - 16 * 4 + 24 * (-2) / 2) / 100
    level = (3 * 6 + 2 * 2) / 26 + (4 * 3 + 1 * 2) / 20
    assert ours.estimate("difference")[0] == pytest.approx(difference)
    assert ours.variance("difference")[0] == pytest.approx((difference * tilt + level) / weight**2)


@pytest.mark.parametrize("scale", SCALES)
def test_influence_values_are_derivatives(scale: Scale) -> None:
    stratum, group, value = table(400, 3)
    codes, mass = np.where(group == 1, 0, -1), np.ones(400)

    def estimate(mass: FloatArray) -> float:
        whole = formed(codes, stratum, value, mass).estimate(scale)[0]
        return float(whole if scale == "difference" else np.log(whole))

    ours = strata(stratum, group, value)
    slope1, size1, slope0, size0 = ours.gradient(scale)
    for row in range(0, 400, 37):
        pair = int(np.flatnonzero(ours.stratum == stratum[row])[0])
        slope, size = (slope1, size1) if group[row] == 1 else (slope0, size0)
        nudged = mass + 1e-6 * (np.arange(400) == row)
        slope_seen = (estimate(nudged) - estimate(mass)) / 1e-6
        assert slope[pair] * value[row] + size[pair] == pytest.approx(slope_seen, abs=1e-6)


def test_numbers_have_the_regression_coefficient_and_its_robust_error() -> None:
    """A regression on the group and an indicator of each stratum has the same weights."""
    import statsmodels.api as sm

    stratum, group, value = table()
    numbers = value + np.random.default_rng(1).normal(size=value.size)
    design = np.column_stack([group == 1, *(stratum == s for s in range(6))]).astype(float)
    theirs = sm.OLS(numbers, design).fit(cov_type="HC1")
    ours = strata(stratum, group, numbers + 100.0, binary=False)
    assert ours.estimate("difference")[0] == pytest.approx(theirs.params[0])
    assert np.sqrt(ours.variance("difference")[0]) == pytest.approx(theirs.bse[0], rel=2e-3)


@pytest.mark.parametrize("scale", SCALES)
def test_one_stratum_accounts_for_nothing(scale: Scale) -> None:
    _, group, value = table()
    one = accounted(strata(np.zeros(value.size), group, value), scale, 3.84)
    none = 0.0 if scale == "difference" else 1.0
    ends = [one[name][0] for name in ("accounted", "accounted_low", "accounted_high")]
    assert ends == pytest.approx([none, none, none], abs=1e-9)


def test_an_empty_side_changes_nothing_and_is_counted() -> None:
    stratum, group, value = table()
    lonely = strata(np.append(stratum, [6, 6, 7]), np.append(group, [1, 1, 0]), np.append(value, [1.0, 0.0, 1.0]))
    plain = strata(stratum, group, value)
    for scale in SCALES:
        assert lonely.estimate(scale)[0] == pytest.approx(plain.estimate(scale)[0])
        assert lonely.variance(scale)[0] == pytest.approx(plain.variance(scale)[0])
    assert lonely.total(~lonely.informative)[0] + lonely.absent[0] == 2


def test_a_reference_inside_the_group_is_taken_out_of_it() -> None:
    stratum, group, value = table()
    everybody = np.zeros(value.size, dtype=np.intp)
    mass = np.ones(value.size)
    compared = group == 0
    ours = formed(everybody, stratum, value, mass, compared)
    assert ours.estimate("difference")[0] == pytest.approx(strata(stratum, group, value).estimate("difference")[0])


def test_no_variation_is_no_proof_of_equality() -> None:
    ones = strata(np.zeros(40), np.tile([1, 0], 20), np.ones(40))
    low, high = Stratified(ones, "difference", np.array([0])).interval(chi2_isf(0.05, 1))
    assert -0.2 < low[0] < 0.0 < high[0] < 0.2
    assert ones.equality()[0] == 0.0


# Newcombe (1998), Statistics in Medicine 17: 873-890, table II, Miettinen and Nurminen's method.
@pytest.mark.parametrize(
    ("hits", "n", "others", "m", "published"),
    [
        (56, 70, 48, 80, (0.0528, 0.3382)),
        (9, 10, 3, 10, (0.1700, 0.8406)),
        (6, 7, 2, 7, (0.0342, 0.8534)),
        (5, 56, 0, 29, (-0.0326, 0.1933)),
        (0, 10, 0, 20, (-0.1658, 0.2844)),
    ],
)
def test_one_stratum_has_the_interval_of_miettinen_and_nurminen(
    hits: int, n: int, others: int, m: int, published: tuple[float, float]
) -> None:
    value = np.concatenate([np.arange(n) < hits, np.arange(m) < others]).astype(float)
    pair = Stratified(strata(np.zeros(n + m), np.repeat([1, 0], [n, m]), value), "difference", np.array([0]))
    assert np.concatenate(pair.interval(chi2_isf(0.05, 1))) == pytest.approx(published, abs=5e-5)


def test_the_score_has_the_likeliest_rates_of_each_stratum() -> None:
    whole = strata(*table(400, 2))
    for difference in (-0.4, -0.05, 0.0, 0.3):
        squared, gap = 0.0, 0.0
        for n1, s1, n0, s0 in zip(whole.n1, whole.sum1, whole.n0, whole.sum0, strict=True):

            def against(
                rate: float, cells: tuple[float, ...] = (s1, n1 - s1, s0, n0 - s0), d: float = difference
            ) -> float:
                return -float(xlogy(cells, (rate + d, 1 - rate - d, rate, 1 - rate)).sum())

            ends = max(0.0, -difference), min(1.0, 1.0 - difference)
            rate = optimize.minimize_scalar(against, bounds=ends, method="bounded", options={"xatol": 1e-12}).x
            one = rate + difference
            weight, rows = n1 * n0 / (n1 + n0), n1 + n0
            squared += weight**2 * (one * (1 - one) / n1 + rate * (1 - rate) / n0) * rows / (rows - 1)
            gap += weight * (s1 / n1 - s0 / n0 - difference)
        pair = Stratified(whole, "difference", np.array([0]))
        assert pair.statistic(difference)[0] == pytest.approx(gap**2 / squared, rel=1e-5)
    assert pair.statistic(1e-12)[0] == pytest.approx(whole.equality()[0], rel=1e-9)


def test_contributions_are_sums_over_rows() -> None:
    stratum, group, _ = table(200, 3)
    value = np.random.default_rng(3).lognormal(size=200)
    whole = strata(stratum, group, value, binary=False)
    slope1, size1, slope0, size0 = whole.gradient("difference")[:, np.searchsorted(whole.stratum, stratum)]
    influence = np.where(group == 1, slope1 * value + size1, slope0 * value + size0)
    for side, rows in zip(whole.contributions("difference"), (group == 1, group == 0), strict=True):
        assert side.third[0] == pytest.approx((influence[rows] ** 3).sum(), rel=1e-9)
        assert side.variance[0] == pytest.approx((influence[rows] ** 2).sum(), rel=1e-9)


@pytest.mark.parametrize("scale", SCALES)
def test_levels_are_derivatives_of_the_mean_influence(scale: Scale) -> None:
    stratum, group, value = table(300, 5)
    plain = strata(stratum, group, value)
    top, bottom = (plain.total(side)[0] for side in plain.sides(scale))

    def level(pairs: Strata) -> FloatArray:
        """With the sums over all strata held, as one stratum hardly moves them."""
        slope1, size1, slope0, size0 = pairs.gradient(scale)
        own, other = pairs.means
        mine = slope1 * own + size1, slope0 * other + size0
        return np.stack(mine)

    if scale == "difference":
        effect = top / bottom
        own, other = plain.means
        distance = (own - other - effect) / bottom
    elif scale == "ratio":
        own, other = plain.means
        distance = own / top - other / bottom
    else:
        own, other = plain.means
        distance = own * (1 - other) / top - (1 - own) * other / bottom
    expected = np.stack([(plain.n0 / plain.rows) ** 2 * distance, (plain.n1 / plain.rows) ** 2 * distance])
    assert level(plain) == pytest.approx(expected)


@pytest.mark.parametrize("scale", ["difference", "ratio", "odds_ratio"])
@pytest.mark.parametrize("binary", [True, False])
def test_adjusted_means_give_the_common_effect(scale: Scale, binary: bool) -> None:
    """Recomputed stratum by stratum: averages over strata with the weights n1 n0 / (n1 + n0)."""
    if scale == "odds_ratio" and not binary:
        return
    stratum, group, value = table(500, 7)
    value = value if binary else value + np.random.default_rng(0).random(value.size)
    ours = strata(np.append(stratum, [6, 6]), np.append(group, [1, 1]), np.append(value, [1.0, 1.0]), binary=binary)
    sides = [[value[(stratum == s) & (group == g)] for g in (1, 0)] for s in range(6)]
    weights = [own.size * other.size / (own.size + other.size) for own, other in sides]
    own, other = (np.average([side[i].mean() for side in sides], weights=weights) for i in (0, 1))
    (mine,), (theirs,) = ours.adjusted(scale)
    common = ours.estimate(scale)[0]
    assert theirs == pytest.approx(other, rel=1e-12)
    if scale == "odds_ratio":
        assert mine / (1 - mine) / (theirs / (1 - theirs)) == pytest.approx(common, rel=1e-12)
    else:
        assert mine == pytest.approx(own, rel=1e-12)
        assert (mine - theirs if scale == "difference" else mine / theirs) == pytest.approx(common, rel=1e-12)


def test_adjusted_rates_at_the_ends_of_the_scale() -> None:
    """No odds to multiply: the group's own adjusted rate fits the odds ratio, which is 0 or infinite."""
    side = np.repeat([1, 0], 20)
    for others, rate, expected in ((0.0, 0.5, 0.5), (1.0, 0.5, 0.5), (0.5, 1.0, 1.0), (0.5, 0.0, 0.0)):
        value = np.concatenate([np.arange(20) < 20 * rate, np.arange(20) < 20 * others]).astype(float)
        (mine,), (theirs,) = strata(np.zeros(40), side, value).adjusted("odds_ratio")
        assert (mine, theirs) == (expected, others)
    apart = strata(side, side, np.ones(40))
    assert np.isnan(apart.adjusted("difference")).all()


def test_a_stratum_in_which_nobody_weighs_anything_is_not_there() -> None:
    stratum, group, value = table(300, 5)
    codes = np.where(group == 1, 0, -1)
    plain = formed(codes, stratum, value, np.ones(300))
    places, values = (np.append(codes, [0, -1]), np.append(stratum, [6, 6])), np.append(value, [1.0, 0.0])
    light = formed(*places, values, np.append(np.ones(300), [0.0, 0.0]))
    for scale in SCALES:
        assert light.estimate(scale)[0] == plain.estimate(scale)[0]
    assert light.equality()[0] == plain.equality()[0]


def test_strata_that_do_not_matter_account_for_nothing_with_an_error() -> None:
    """50 tables whose strata are alike: taking out the error of strata's means would leave no variance in a quarter."""
    rng, held, narrow = np.random.default_rng(8), 0, 0
    for _ in range(50):
        stratum, group = rng.integers(0, 5, 900), (np.arange(900) < 300).astype(np.intp)
        value = (rng.random(900) < 0.35 - 0.05 * group).astype(float)
        parts = accounted(strata(stratum, group, value), "difference", 3.84)
        low, high = parts["accounted_low"][0], parts["accounted_high"][0]
        held += int(low <= 0 <= high)
        narrow += int(high - low < 1e-4)
    assert held >= 47
    assert narrow == 0
