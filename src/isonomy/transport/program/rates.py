"""What chance does to a difference of selection rates at the edge of the null.

A rate of 0 or 1, or one of few rows, has no variance of its own worth the name. Variances and tails are therefore taken
at the *restricted* rates: the likeliest of those whose moment is exactly that of the edge (Farrington and Manning 1990
for a difference of two rates). Where few rows are expected to be selected, or refused, at those rates the normal law is
wrong too, and the tail of a difference of two rates is summed from the two binomial laws.

Equal rates need no such law: given how many of a label are selected, decisions may be exchanged among its rows. Where
fewer than five are expected somewhere the Wald statistic is compared with its value after such exchanges.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import betainc, gammaln, xlog1py, xlogy

from isonomy.numerics.arrays import FloatArray
from isonomy.numerics.resampling import pvalue
from isonomy.numerics.roots import root
from isonomy.numerics.tails import normal_sf
from isonomy.transport.program.cells import Cells

# Rows expected selected, and refused, from which the normal tail is used: the size at 0.05 is then at most 0.061 (0.074
# from 10 rows, 0.088 from 5), against a much larger group.
ENOUGH = 50.0
LONGEST = 100_000  # values a sum runs over in full; beyond, those within `WINDOW` standard deviations
WINDOW = 40.0
EXCHANGES = 20_000
EXCHANGED = 10**9  # numpy draws from fewer rows than this
WHOLE = 1e-6  # rounding allowed where a bound on a number of rows is a whole number


@dataclass(frozen=True, slots=True, eq=False)
class Strata:
    """One moment as a weighted sum of selection rates: ``weight @ (selected / count)``."""

    weight: FloatArray
    count: FloatArray
    selected: FloatArray
    other: float = 0.0  # variance of the moment that is not the decisions': of the mean of one's own U

    @property
    def value(self) -> float:
        """The moment seen."""
        return float(self.weight @ (self.selected / self.count))

    @property
    def mirrored(self) -> Strata:
        """The same with the opposite sign."""
        return replace(self, weight=-self.weight)

    def variance(self, rate: FloatArray) -> float:
        """Of the moment, at these rates."""
        return float(self.weight**2 @ (rate * (1 - rate) / self.count)) + self.other

    def restricted(self, target: float) -> FloatArray:
        """The likeliest rates at which the moment is ``target``; the nearest it can be where no rates give it."""
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
        """P(moment at least the one seen), when its mean is ``target``."""
        rate = self.restricted(target)
        few = self.scarce(rate) < ENOUGH
        error = np.sqrt(self.variance(rate))
        # Half a row in the stratum where it matters most: the continuity correction. The exact tail needs it too: the
        # noise of a large group would else break the ties of a small one, and hide that its rate moves in steps.
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


def strata(cells: Cells, phi: FloatArray, variance: float) -> Strata:
    """One moment's strata: rows that it weighs alike. ``variance`` is that of sqrt(N) times the moment."""
    value, place = np.unique(phi, return_inverse=True)
    count = np.bincount(place, cells.count)
    selected = np.bincount(place, cells.count * cells.selected)
    kept = (value != 0) & (count > 0)
    own = Strata(value[kept] * count[kept] / cells.rows, count[kept], selected[kept])
    rest = variance / cells.rows - own.variance(own.selected / own.count)
    return replace(own, other=max(0.0, rest))


def permuted(cells: Cells, phi: FloatArray, sigma: FloatArray, statistic: float, rng: np.random.Generator) -> float:
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
    statistics = np.einsum("ij,ij->i", moments, np.linalg.solve(sigma, moments.T).T) / 2
    # The same table again has the same statistic, up to rounding.
    return float(pvalue(int((statistics >= statistic * (1 - 1e-9)).sum()), EXCHANGES))
