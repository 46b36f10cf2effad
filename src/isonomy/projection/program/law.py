"""Which differences are tolerated, and what chance alone would do: the law of the statistic, rates at the null's edge.

By Theorem 1 the statistic s tends to the maximum over gamma of gamma'V - gamma'S gamma / 2 with V ~ N(0, Sigma):
Sigma is the covariance of the moment, S the curvature, a density at the decision boundary. One function covers
every null that lets each moment lie between two limits,

    m(W) = max over gamma of  gamma'W - sum over j of max(low_j gamma_j, high_j gamma_j) - gamma'S gamma / 2,

equality where low = high = 0, a tolerance on one side where one limit is infinite. The Wald test of the same moment is
the case S = Sigma.

A rate of 0 or 1, or one of few rows, has no useful variance of its own. Variances and tails are therefore taken at the
*restricted* rates: the likeliest rates whose moment is exactly that of the edge (Farrington and Manning 1990 for a
difference of two rates). Where few rows are expected to be selected, or refused, at those rates, the normal law is
wrong too, and the tail of a difference of two rates is summed from the two binomial laws.

Equal rates need no such law: given the number selected within an outcome, decisions may be exchanged among its rows.
Where fewer than five are expected somewhere, the Wald statistic is compared with its value after such exchanges.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Annotated, Any, Literal

import numpy as np
from scipy.linalg import eigvalsh
from scipy.special import betainc, gammaln, xlog1py, xlogy

from isonomy.errors import UnknownOption, UsageError, refuse_percent
from isonomy.inference.designs import JointLaw
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray
from isonomy.numerics.resampling import pvalue
from isonomy.numerics.roots import root
from isonomy.numerics.tails import normal_sf, t_isf, t_sf, weighted_chi2_isf, weighted_chi2_sf
from isonomy.options import Number
from isonomy.projection.program.criteria import DecisionCells

Limit = Annotated[float, Number(least=0)]
# By rate, by group, by side ("below", "above"), in this order, as far as they differ.
Tolerance = Limit | Mapping[str, Limit | Mapping[str, Limit | Mapping[str, Limit]]]
Side = Literal["both", "above", "below"]
SIDES = ("below", "above")

DRAWS = 50_000  # p-values of the simulated laws are exact to 0.002 (two standard errors at 0.05)
SWEEPS = 10_000  # coordinate ascent; a few dozen suffice unless the curvature is nearly singular
PRECISION = 1e-12  # relative change of the maximum at which the sweeps stop
ROUGH = 1e-6  # the same for draws, where simulation error is far larger
SCREENED, FINALISTS = 1_000, 8  # draws that choose among many vertices, and how many are judged by all draws
TAIL = 0.95  # the quantile they are chosen by

# Rows expected selected, and refused, from which the normal tail is used: the size at 0.05 is then at most 0.061 (0.074
# from 10 rows, 0.088 from 5), against a much larger group.
ENOUGH = 50.0
LONGEST = 100_000  # values a sum runs over in full; beyond, those within `WINDOW` standard deviations
WINDOW = 40.0
EXCHANGES = 20_000
EXCHANGED = 10**9  # numpy draws from fewer rows than this
WHOLE = 1e-6  # rounding allowed where a bound on a number of rows is a whole number


# ---- the null


@dataclass(frozen=True, slots=True, eq=False)
class Null:
    """Which differences belong to the null: those from ``low`` to ``high``, one entry per moment."""

    low: FloatArray
    high: FloatArray

    @property
    def equality(self) -> bool:
        return not (self.low.any() or self.high.any())

    @property
    def simulated(self) -> bool:  # a tolerance with more than one moment has no law in closed form
        return not self.equality and self.low.size > 1

    @property
    def two_sided(self) -> BoolArray:
        return (self.low < self.high) & np.isfinite(self.high - self.low)

    def subset(self, places: IntArray) -> Null:
        return Null(self.low[places], self.high[places])

    def times(self, factor: float) -> Null:
        return Null(self.low * factor, self.high * factor)


def check_tolerance(tolerance: Tolerance | None, *, rates: bool) -> None:
    """Raise if this is not a tolerance. ``rates``: for differences of rates, which are at most 1."""
    if not isinstance(tolerance, Mapping):
        refuse_percent(rates, float(tolerance or 0.0))
        return
    if not tolerance:
        raise UsageError('tolerance: an empty mapping; name rates, groups or sides, such as {"tpr": 0.05, "fpr": 0.1}.')
    for name, inner in tolerance.items():
        if name in SIDES and isinstance(inner, Mapping):
            raise UsageError(f"tolerance: {name!r} takes a number; name rates and groups outside the sides.")
        check_tolerance(inner, rates=rates)


def one_side(tolerance: Tolerance | None) -> tuple[Tolerance | None, Side]:
    """The tolerance and its side: a mapping such as {"above": 0.05} is 0.05 above, with no limit below."""
    if isinstance(tolerance, Mapping) and len(tolerance) == 1:
        for side in ("above", "below"):
            if side in tolerance:
                return tolerance[side], side
    return tolerance, "both"


def two_sided(tolerance: Tolerance | None) -> bool:
    if not isinstance(tolerance, Mapping):
        return tolerance is not None
    if set(tolerance) <= set(SIDES):
        return len(tolerance) == 2
    return any(two_sided(inner) for inner in tolerance.values())


def tolerated(tolerance: Tolerance | None, comparisons: Sequence[tuple[str, ...]]) -> Null:
    """The limits of each comparison; ``comparisons``: the names of its rate and of its group."""
    if isinstance(tolerance, Mapping):
        _check_names(tolerance, [*(list(dict.fromkeys(names)) for names in zip(*comparisons, strict=True)), SIDES])
    limits = np.array([_limits(tolerance, names) for names in comparisons])
    return Null(limits[:, 0], limits[:, 1])


def _limits(tolerance: Any, names: tuple[str, ...]) -> tuple[float, float]:
    if not isinstance(tolerance, Mapping):
        return -float(tolerance or 0.0), float(tolerance or 0.0)
    if set(tolerance) <= set(SIDES):
        below, above = (float(tolerance.get(side, np.inf)) for side in SIDES)
        return -below, above
    entry = next((name for name in names if name in tolerance), None)
    if entry is None:
        raise UsageError(
            f"tolerance: there is no entry for {' of '.join(names)}; name every rate that is compared, or every group "
            f"but the reference. Given: {', '.join(tolerance)}."
        )
    return _limits(tolerance[entry], names)


def _check_names(tolerance: Mapping[str, object], kinds: Sequence[Sequence[str]]) -> None:
    """Each mapping must name rates, groups or sides, and not mix them: some entries would be ignored."""
    for name, inner in tolerance.items():
        if not any(name in kind for kind in kinds):
            raise UnknownOption("tolerance", name, [name for kind in kinds for name in kind])
        if isinstance(inner, Mapping):
            _check_names(inner, kinds)
    if not any(set(tolerance) <= set(kind) for kind in kinds):
        raise UsageError(
            f"tolerance: {', '.join(tolerance)} are at the same level; name rates, groups or sides, and the others "
            'within them, such as {"tpr": {"group=b": 0.05, "group=c": 0.1}, "fpr": 0.1}.'
        )


# ---- the law of the statistic


@dataclass(frozen=True, eq=False)
class ProjectionLaw:
    """The law of the statistic at the least favorable point of the null."""

    covariance: FloatArray  # Sigma, (m, m): of sqrt(N) times the moment
    curvature: FloatArray  # S, (m, m), positive definite
    null: Null  # of sqrt(N) times the moment
    normals: FloatArray | None = None  # (draws, m) standard normal draws, where there is no closed form
    df: float = np.inf  # of the covariance, where it rests on few clusters: F for chi-square, t for the normal law

    @cached_property
    def weights(self) -> FloatArray:
        """Weights of the chi-squares: eigenvalues of Sigma^(1/2) S^-1 Sigma^(1/2) / 2."""
        values = eigvalsh(self.covariance, self.curvature) / 2
        # Rounding leaves eigenvalues that are zero, or equal, apart by a few units in the last place.
        values[values < 1e-13 * values[-1]] = 0.0
        return np.asarray(values)

    def sf(self, statistic: float) -> float:
        """P(statistic at least this large) at the least favorable point of the null."""
        if not statistic > 0:
            return float("nan") if np.isnan(statistic) else 1.0
        if self.null.equality and np.isfinite(self.df):
            return JointLaw(self.weights, self.df + 1.0).tail(statistic)
        if self.null.equality:
            return float(weighted_chi2_sf(statistic, self.weights))
        if self.null.simulated:
            exceeding = (self._maxima >= statistic).sum(axis=1)
            return float(pvalue(int(exceeding.max()), self._maxima.shape[1]))
        return self._one_moment(np.sqrt(2 * float(self.curvature[0, 0] / self.covariance[0, 0]) * statistic))

    def isf(self, alpha: float) -> float:
        """The critical value: the statistic with p-value ``alpha``."""
        if self.null.equality and np.isfinite(self.df):
            return JointLaw(self.weights, self.df + 1.0).critical(alpha)
        if self.null.equality:
            return float(weighted_chi2_isf(alpha, self.weights))
        if self.null.simulated:
            return float(np.quantile(self._maxima, 1 - alpha, axis=1).max())
        # Between the one-sided and the two-sided quantile; both are 0 from alpha = 1/2 on.
        low, high = float(t_isf(min(alpha, 0.5), self.df)), float(t_isf(alpha / 2, self.df))
        enough = self._one_moment(low) <= alpha
        a = low if enough else root(lambda z: self._one_moment(z) - alpha, low, high).x
        return a**2 * float(self.covariance[0, 0] / self.curvature[0, 0]) / 2

    def _one_moment(self, a: float) -> float:
        """P(at least this many standard deviations beyond a limit): beyond that one, and beyond the far one."""
        far = a + float((self.null.high[0] - self.null.low[0]) / np.sqrt(self.covariance[0, 0]))
        return float(t_sf(a, self.df) + t_sf(far, self.df))

    @cached_property
    def _maxima(self) -> FloatArray:
        """Simulated statistics, (vertices, draws). The acceptance region is convex: a vertex is least favorable."""
        if self.normals is None:
            raise ValueError("normals: a simulated law needs draws")
        values, vectors = np.linalg.eigh(self.covariance)
        moments = self.normals @ (vectors * np.sqrt(np.maximum(values, 0.0))).T
        # The null as it looks from each of its vertices, where the moment's mean then lies.
        null, width = self.null, self.null.high - self.null.low
        ends = [
            [True, False] if both else [bool(a)] for both, a in zip(null.two_sided, null.high < np.inf, strict=True)
        ]
        if np.isfinite(width).all():  # a vertex and its mirror image have the same law
            next(end for end in ends if len(end) == 2).pop()
        vertices = [Null(np.where(above, -width, 0.0), np.where(above, 0.0, width)) for above in product(*ends)]
        if len(vertices) > FINALISTS:
            # A few draws show which vertices matter.
            screened = [maximum(moments[:SCREENED], self.curvature, vertex, precision=ROUGH) for vertex in vertices]
            high = [float(np.quantile(maxima, TAIL)) for maxima in screened]
            vertices = [vertices[i] for i in np.argsort(high)[-FINALISTS:]]
        return np.stack([maximum(moments, self.curvature, vertex, precision=ROUGH) for vertex in vertices])


def maximum(moments: FloatArray, curvature: FloatArray, null: Null, *, precision: float = PRECISION) -> FloatArray:
    """m(W) for each row W of ``moments``: a quadratic form for equality, else by coordinate ascent over all rows."""
    if null.equality:
        return (moments * np.linalg.solve(curvature, moments.T).T).sum(axis=1) / 2
    result, active = np.zeros(len(moments)), np.arange(len(moments))
    w = np.ascontiguousarray(moments.T)  # one moment per line: every step below runs along memory
    gamma, residual, best = np.zeros_like(w), w.copy(), np.zeros(len(moments))
    low, high = null.low, null.high
    for _ in range(SWEEPS):
        for j in range(low.size):
            pull = residual[j] + gamma[j] * curvature[j, j]
            step = (pull - np.clip(pull, low[j], high[j])) / curvature[j, j] - gamma[j]
            gamma[j] += step
            for i in range(low.size):
                residual[i] -= curvature[i, j] * step
        # gamma'W - gamma'S gamma / 2, with W - S gamma = residual.
        value = (gamma * (w + residual)).sum(axis=0) / 2
        for j in range(low.size):
            above, below = np.maximum(gamma[j], 0.0), np.minimum(gamma[j], 0.0)
            value -= (above * high[j] if np.isfinite(high[j]) else 0.0) + (below * low[j] if np.isfinite(low[j]) else 0)
        done = value - best <= precision * value
        result[active] = value
        if done.all():
            break
        # Rows are taken out in bulk: copying the rest at every sweep would cost more than it saves.
        if done.mean() > 0.3:
            active = active[~done]
            w, gamma, residual, value = (x[..., ~done] for x in (w, gamma, residual, value))
        best = value
    return result


def positive_definite(matrix: FloatArray) -> bool:
    """Whether every direction has (numerically) some variance or curvature, in any units of the rows."""
    scale = np.sqrt(np.diag(matrix))
    if not (np.isfinite(matrix).all() and (scale > 0).all()):
        return False
    return bool(np.linalg.eigvalsh(matrix / np.outer(scale, scale))[0] > 1e-12)


# ---- rates at the edge of the null


@dataclass(frozen=True, slots=True, eq=False)
class RateStrata:
    """One moment as a weighted sum of selection rates: ``weight @ (selected / count)``."""

    weight: FloatArray
    count: FloatArray
    selected: FloatArray
    other: float = 0.0  # variance of the moment that does not come from the decisions: of the mean of a user's U

    @property
    def value(self) -> float:
        return float(self.weight @ (self.selected / self.count))

    @property
    def mirrored(self) -> RateStrata:
        return replace(self, weight=-self.weight)

    def variance(self, rate: FloatArray) -> float:
        return float(self.weight**2 @ (rate * (1 - rate) / self.count)) + self.other

    def restricted(self, target: float) -> FloatArray:
        """The likeliest rates at which the moment is ``target``, or as near to it as rates allow."""
        # With multiplier c = lambda w the likelihood equation of one rate is c r^2 + (n - c) r - x = 0.
        unit = self.count / np.abs(self.weight)

        def rates(multiplier: float) -> FloatArray:
            c = multiplier * float(unit.max()) * self.weight
            ahead = self.count - c
            size = np.sqrt(np.maximum(ahead**2 + 4 * c * self.selected, 0.0))
            with np.errstate(divide="ignore", invalid="ignore"):
                value = np.where(ahead > 0, 2 * self.selected / (ahead + size), (size - ahead) / (2 * c))
            return np.clip(np.nan_to_num(value), 0.0, 1.0)

        return rates(root(lambda t: float(self.weight @ rates(t)) - target, -np.inf, np.inf).x)

    def scarce(self, rate: FloatArray) -> float:
        """Fewest rows expected selected, or refused, in any stratum."""
        return float((self.count * np.minimum(rate, 1 - rate)).min())

    def tail(self, target: float) -> float:
        """P(moment at least the observed one) when its mean is ``target``."""
        rate = self.restricted(target)
        few = self.scarce(rate) < ENOUGH
        error = np.sqrt(self.variance(rate))
        # Continuity correction: half a row in the stratum where it matters most. The exact tail needs it too: the noise
        # of a large group would otherwise break the ties of a small one, and hide that its rate moves in steps.
        step = float(np.abs(self.weight / self.count).max()) / 2 if few else 0.0
        if few and self.weight.size == 2 and self.other <= 1e-9 * error**2:
            return self._summed(rate, self.value - step)
        excess = self.value - target
        return float(normal_sf((excess - step) / error, sides="one")) if error > 0 else float(excess <= 0)

    def _summed(self, rate: FloatArray, least: float) -> float:
        """P(moment at least ``least``) for two strata, from their binomial laws."""
        first, other = np.argsort(self.count)
        n, r = float(self.count[first]), float(rate[first])
        spread = WINDOW * np.sqrt(n * r * (1 - r)) + WINDOW
        reach = (0.0, n) if n <= LONGEST else (max(0.0, np.floor(n * r - spread)), min(n, np.ceil(n * r + spread)))
        x = np.arange(reach[0], reach[1] + 1)
        log = gammaln(n + 1) - gammaln(x + 1) - gammaln(n - x + 1) + xlogy(x, r) + xlog1py(n - x, -r)
        # How many of the other rows must be selected (or, if that lowers the moment, refused) to reach it.
        m, w, p = float(self.count[other]), float(self.weight[other]), float(rate[other])
        missing = least - self.weight[first] * x / n
        needed = m * missing / w if w > 0 else m - m * missing / w
        at_least = np.ceil(needed - WHOLE)
        inside = np.clip(at_least, 1.0, m)
        beyond = betainc(inside, m - inside + 1, p if w > 0 else 1 - p)
        beyond = np.where(at_least <= 0, 1.0, np.where(at_least > m, 0.0, beyond))
        return min(1.0, float(np.exp(log) @ beyond))


def strata(cells: DecisionCells, phi: FloatArray, variance: float) -> RateStrata:
    """The strata of one moment: rows with the same weight. ``variance``: of sqrt(N) times the moment."""
    value, place = np.unique(phi, return_inverse=True)
    count = np.bincount(place, cells.count)
    selected = np.bincount(place, cells.count * cells.selected)
    used = (value != 0) & (count > 0)
    parts = RateStrata(value[used] * count[used] / cells.rows, count[used], selected[used])
    rest = variance / cells.rows - parts.variance(parts.selected / parts.count)
    return replace(parts, other=max(0.0, rest))


def permuted(
    cells: DecisionCells, phi: FloatArray, sigma: FloatArray, statistic: float, rng: np.random.Generator
) -> float:
    """P(halved Wald statistic at least ``statistic``) when decisions are exchanged among rows with the same outcome.

    ``sigma`` is the covariance under the null, which no exchange changes. Exact for the groups of one column.
    """
    keys = [*cells.codes] if cells.outcome is None else [*cells.codes, cells.outcome]
    _, first, place = np.unique(np.column_stack(keys), axis=0, return_index=True, return_inverse=True)
    size = np.bincount(place.ravel(), cells.count)
    label = np.zeros(first.size, dtype=np.intp) if cells.outcome is None else cells.outcome[first]
    moments = np.zeros((EXCHANGES, phi.shape[1]))
    for value in np.unique(label):
        here = label == value
        change = phi[first[here]]
        if change.any():
            among = cells.count * cells.selected * (True if cells.outcome is None else cells.outcome == value)
            rows = rng.multivariate_hypergeometric(size[here].astype(int), int(among.sum()), EXCHANGES, "marginals")
            moments += rows @ change / np.sqrt(cells.rows)
    equal = np.zeros(phi.shape[1])
    statistics = maximum(moments, sigma, Null(equal, equal))
    # The same table again has the same statistic, up to rounding.
    return float(pvalue(int((statistics >= statistic * (1 - 1e-9)).sum()), EXCHANGES))
