"""Reference values of independent programs, and what must hold for any counts."""

from __future__ import annotations

import numpy as np
import pytest

from isonomy.monitoring.sequences import alarm, exact
from isonomy.monitoring.sequences.score import (
    MeanSequence,
    RateSequence,
    bucket_spread,
    bucket_terms,
    critical_value,
    difference_rates,
    log_evidence,
    ratio_rates,
)
from isonomy.monitoring.sequences.strata import central_sums, close, power_sums, sum_strata
from isonomy.numerics.arrays import FloatArray

# Rows and cases of the group and of its reference in six batches.
BATCHES = np.array(
    [
        (40, 12, 160, 64),
        (55, 14, 145, 61),
        (8, 1, 92, 33),
        (120, 41, 380, 160),
        (60, 15, 240, 101),
        (30, 6, 70, 30),
    ],
    dtype=float,
)
COUNTS = BATCHES.reshape(6, 1, 2, 2)  # looks x comparisons x sides x sums
SIGMA = 0.1 * np.sqrt(0.38 * 0.62)
# W, VC, z', I0, log E, difference, interval at each look; written by hand-checked code that is independent of this.
EXPECTED = np.array(
    [
        (32, 7.57708543, -1.16562757, 135.144312, 0.02585539, -0.1, -0.4581301, 0.3530548),
        (71.875, 16.96975188, -2.40936769, 304.424936, 0.94192933, -0.13669565, -0.3334680, 0.0920451),
        (79.235, 18.63801855, -2.70783073, 336.848319, 1.33004305, -0.14570581, -0.3254105, 0.0648528),
        (170.435, 40.60606985, -2.97216819, 715.363228, 2.27819535, -0.11021797, -0.2247392, 0.0136518),
        (218.435, 52.02760832, -3.77871624, 917.087115, 4.30514061, -0.12353789, -0.2210231, -0.0185544),
        (239.435, 56.91488104, -4.25918429, 1007.278205, 5.77342247, -0.13275002, -0.2246044, -0.0340720),
    ]
)


def prior(value: float, like: FloatArray) -> FloatArray:
    return np.full(like.shape, value)


@pytest.fixture
def rates() -> RateSequence:
    return RateSequence(sum_strata(close(COUNTS)))


def test_differences_at_every_look(rates: RateSequence) -> None:
    z = rates.statistic(0.0)
    low, high = rates.interval(prior(SIGMA, z), 0.05)
    evidence = log_evidence(z, SIGMA**2 * rates.information)
    found = np.column_stack([rates.sums.w, rates.sums.vc, z, rates.information, evidence, rates.value, low, high])
    digits = np.array([1e-8] * 3 + [1e-6] + [1e-8] * 2 + [1e-7] * 2)  # those that are given
    assert (np.abs(found - EXPECTED) <= digits).all()
    pvalue = np.minimum(1, np.exp(-np.maximum.accumulate(evidence[:, 0])))
    expected = [0.97447600, 0.38987491, 0.26446588, 0.10246896, 0.01349899, 0.00310910]
    np.testing.assert_allclose(pvalue, expected, atol=1e-8)


def test_sums_at_the_last_look(rates: RateSequence) -> None:
    sums = rates.sums
    np.testing.assert_allclose(
        [sums.h1[-1, 0], sums.k1[-1, 0], sums.k0[-1, 0]], [183.692575, 141.35592088, 13.40577087], atol=1e-8
    )


@pytest.mark.parametrize(
    ("null", "z", "evidence"), [(-0.05, -2.69623353, 1.97270955), (0.05, -5.80009164, 11.41054638)]
)
def test_nulls_other_than_equality(rates: RateSequence, null: float, z: float, evidence: float) -> None:
    np.testing.assert_allclose(rates.statistic(null)[-1, 0], z, atol=1e-8)
    at = log_evidence(rates.statistic(null), 0.05**2 * rates.information)
    np.testing.assert_allclose(at[-1, 0], evidence, atol=1e-8)


def test_constrained_rates(rates: RateSequence) -> None:
    assert rates.ratio is not None
    g, r, ratio = (part[-1:] for part in (*rates.rates, rates.ratio))
    np.testing.assert_allclose(difference_rates(g, r, ratio, np.full_like(g, -0.05))[0, 0], 0.34678669, atol=1e-8)
    np.testing.assert_allclose(ratio_rates(g, r, ratio, np.full_like(g, 0.8))[0, 0], 0.32481270, atol=1e-8)


def test_ratios(rates: RateSequence) -> None:
    ratios, sigma = RateSequence(rates.sums, "ratio"), np.log(1.25)
    k = sigma**2 * ratios.information
    np.testing.assert_allclose(ratios.information[-1, 0], 150.058607, atol=1e-6)
    for null, z, evidence in ((0.8, -1.70050136, 0.20681152), (1.25, -7.04088581, 20.79285766)):
        np.testing.assert_allclose(ratios.statistic(null)[-1, 0], z, atol=1e-8)
        np.testing.assert_allclose(log_evidence(ratios.statistic(null), k)[-1, 0], evidence, atol=1e-8)
    low, high = ratios.interval(prior(sigma, k), 0.05)
    np.testing.assert_allclose(
        [ratios.value[-1, 0], low[-1, 0], high[-1, 0]], [0.6815609, 0.4977796, 0.9006441], atol=1e-7
    )


def test_no_case_in_the_group() -> None:
    rates = RateSequence(sum_strata(np.array([200.0, 0, 800, 40]).reshape(1, 1, 2, 2)))
    low, high = rates.interval(prior(0.02, rates.value), 0.05)
    found = [rates.statistic(0.0).item(), rates.information.item(), low.item(), high.item()]
    np.testing.assert_allclose(found, [-3.69472254, 4162.5, -0.0803235, -0.0079250], atol=1e-7)
    ratios = RateSequence(rates.sums, "ratio")
    low, high = ratios.interval(prior(0.2, ratios.value), 0.05)
    assert low.item() == 0
    at = log_evidence(ratios.statistic(high), 0.2**2 * ratios.information)
    np.testing.assert_allclose(at, np.log(20), rtol=1e-6)


@pytest.mark.parametrize(
    ("tolerance", "sigma", "omega", "evidence"),
    [
        (
            0.0,
            SIGMA,
            [1, 1, 0.29747143, 1, 1, 0.83634609],
            [0.93337410, 7.41658268, 14.72565661, 24.10914867, 253.34557419, 1467.98986802],
        ),
        (
            0.02,
            0.05,
            [1, 1, 0.31565305, 1, 1, 0.88746402],
            [0.75711024, 4.35108812, 7.71787687, 8.49758164, 51.95158234, 203.37274584],
        ),
    ],
)
def test_alarm(tolerance: float, sigma: float, omega: list[float], evidence: list[float]) -> None:
    steps = alarm.rate_increments(close(COUNTS), prior(sigma, COUNTS[..., 0, 0]), -tolerance, tolerance)
    np.testing.assert_allclose(steps[1][:, 0], omega, atol=1e-8)
    found = alarm.detect(*steps, np.full(COUNTS[..., 0, 0].shape, np.inf))
    np.testing.assert_allclose(found.evidence[:, 0], evidence, atol=1e-8)
    assert not found.raised.any()
    limited = alarm.detect(*steps, np.full(COUNTS[..., 0, 0].shape, 0.999 * evidence[4]))
    assert limited.raised[:, 0].tolist() == [False, False, False, False, True, False]
    assert limited.since[4, 0] >= 0
    assert limited.evidence[5, 0] < evidence[5]  # it begins again after an alarm


def test_exact() -> None:
    sequence = exact.ExactSequence(close(COUNTS), 0.5)
    likelihood = sequence.likelihoods

    def place(theta: float) -> int:
        return int(np.argmin(np.abs(exact.GRID - theta)))

    found = [likelihood[-1, 0, place(theta)] - likelihood[-1, 0, place(0.0)] for theta in (-1, -0.5, 0.5)]
    np.testing.assert_allclose(found, [4.98932239, 8.95637866, -23.11839679], atol=1e-8)
    np.testing.assert_allclose(sequence.grid[-1, 0, place(0.0)], 7.19780974, atol=1e-8)
    low, high = sequence.interval(likelihood, 0.05)
    np.testing.assert_allclose([low[-1, 0], high[-1, 0]], np.exp([-1 - 0.05, -0.2 + 0.05]), rtol=1e-9)


def test_the_window_of_a_large_stratum_leaves_nothing_out() -> None:
    from scipy import stats

    for theta in (-4.0, 0.0, 1.0, 4.0):
        law = stats.nchypergeom_fisher(1000, 300, 400, np.exp(theta))
        found = exact.log_likelihood(300, 130, 700, 270)[np.argmin(np.abs(exact.GRID - theta))]
        np.testing.assert_allclose(found, law.logpmf(130), rtol=1e-7)


def test_means() -> None:
    def sums(values: list[float]) -> list[float]:
        x = np.array(values)
        return [x.size, x.mean(), ((x - x.mean()) ** 2).sum(), ((x - x.mean()) ** 3).sum()]

    lines = [
        sums([(7 * i + 3 * b) % 11 + b / 2 for i in range(12 + 2 * b)])
        + sums([(5 * i + b) % 13 + b / 2 for i in range(30)])
        for b in range(4)
    ]
    means = MeanSequence(close(power_sums(np.array(lines).reshape(4, 1, 2, 4), 5.0)))
    t = means.value / np.sqrt(means.squared_error(0.0))
    found = [means.sums.w, means.value, means.variance, t, means.df, means.information]
    expected = [39.80166573, -0.92881666, 480.48195847, -1.68652468, 128.624801, 3.29704907]
    np.testing.assert_allclose([part[-1, 0] for part in found], expected, atol=1e-6)


def test_buckets() -> None:
    first = np.array([[6, 5, 7, 2], [2, 1, 3, 0], [10, 9, 12, 9], [5, 4, 6, 3]], dtype=float)
    second = np.array([[4, 6, 5, 5], [2, 1, 2, 1], [11, 8, 10, 11], [5, 4, 3, 6]], dtype=float)
    a, c = np.sum([bucket_terms(part[:, None]) for part in (first, second)], axis=0)
    np.testing.assert_allclose(a[0], [-0.53333333, -2, 0.06666667, -1.53333333], atol=1e-8)
    np.testing.assert_allclose(c[0], [6.77777778, 6.77777778, 7.77777778, 5.33333333], atol=1e-8)
    variance = bucket_spread(a, c)[0, 0]
    np.testing.assert_allclose([variance, a.sum() / np.sqrt(variance)], [3.52, -2.13200716], atol=1e-8)


@pytest.mark.parametrize(("k", "ratio"), [(0.3, 2.66), (1, 1.87), (9, 1.55), (100, 1.67), (1000, 1.83)])
def test_the_price_of_looking_at_any_time(k: float, ratio: float) -> None:
    assert critical_value(np.array([k]), 0.05)[0] / 1.959964 == pytest.approx(ratio, abs=0.005)


def test_one_sided_critical_values_have_their_evidence() -> None:
    k = np.array([0.5, 5.0, 50.0])
    for side in ("greater", "less"):
        z = critical_value(k, 0.05, side) * (1 if side == "greater" else -1)
        np.testing.assert_allclose(log_evidence(z, k, side), np.log(20), rtol=1e-9)


def test_interval_ends_have_the_critical_evidence(rates: RateSequence) -> None:
    sigma = prior(SIGMA, rates.value)
    for end in rates.interval(sigma, 0.05):
        np.testing.assert_allclose(
            log_evidence(rates.statistic(end), sigma**2 * rates.information), np.log(20), rtol=1e-6
        )


def test_relabeling_and_swapping_mirror(rates: RateSequence) -> None:
    relabeled = np.stack([COUNTS[..., 0], COUNTS[..., 0] - COUNTS[..., 1]], axis=-1)
    other, swapped = (RateSequence(sum_strata(close(part))) for part in (relabeled, COUNTS[:, :, ::-1]))
    low, high = rates.interval(prior(SIGMA, rates.value), 0.05)
    for mirrored in (other, swapped):
        np.testing.assert_allclose(mirrored.value, -rates.value, atol=1e-12)
        np.testing.assert_allclose(mirrored.statistic(0.0), -rates.statistic(0.0), atol=1e-9)
        ends = mirrored.interval(prior(SIGMA, rates.value), 0.05)
        np.testing.assert_allclose(ends, (-high, -low), atol=1e-9)


def test_doubled_counts_double_the_information(rates: RateSequence) -> None:
    twice = RateSequence(sum_strata(close(2 * COUNTS)))
    np.testing.assert_allclose(twice.sums.w, 2 * rates.sums.w)
    np.testing.assert_allclose(twice.value, rates.value)
    np.testing.assert_allclose(twice.information, 2 * rates.information, rtol=0.01)  # N - 1 in VC


def test_small_batches_wait_for_both_sides_and_20_rows() -> None:
    given = np.array([(0, 0, 9, 3), (2, 1, 5, 2), (1, 0, 3, 1), (30, 3, 0, 0), (0, 0, 1, 1)], float)
    strata = close(given.reshape(5, 1, 2, 2))
    assert strata[:, 0, 0, 0].tolist() == [0, 0, 3, 0, 30]
    assert strata[:, 0, 1, 0].tolist() == [0, 0, 17, 0, 1]
    assert strata[:, 0, 0, 1].sum() == given[:, 1].sum()


def test_added_powers_are_those_of_all_rows() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.exponential(size=17), 1e3 + rng.exponential(size=9)

    def sums(z: FloatArray) -> FloatArray:
        return np.array([z.size, z.mean(), ((z - z.mean()) ** 2).sum(), ((z - z.mean()) ** 3).sum()])

    whole = sums(np.concatenate([x, y]))
    merged = central_sums(power_sums(sums(x), whole[1]) + power_sums(sums(y), whole[1]))
    np.testing.assert_allclose(merged + np.array([0, whole[1], 0, 0]), whole, rtol=1e-9)
    assert (power_sums(np.zeros(4), whole[1]) == 0).all()
