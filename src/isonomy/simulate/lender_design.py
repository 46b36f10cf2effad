"""The numbers of the simulated lender, and the probabilities that follow from them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np
from numpy.typing import ArrayLike

from isonomy.errors import choose
from isonomy.numerics.arrays import FloatArray
from isonomy.simulate import normal
from isonomy.simulate.simulated import Curve

RACES = ("White", "Black", "Hispanic", "Asian")
SEXES = ("Female", "Male")
BANDS = ("21-29", "30-59", "60-79")
BAND_SHARE = np.array([9, 30, 20]) / 59  # ages are uniform on 21, ..., 79
CELLS = tuple(product(RACES, SEXES))


@dataclass(frozen=True, eq=False)
class Lender:
    """The numbers of the design; every truth is a function of them."""

    race_share: tuple[float, ...] = (0.50, 0.22, 0.16, 0.12)
    income_mean: tuple[float, ...] = (0, 0, -0.2, -0.2, -0.1, -0.1, 0, 0)  # by race and sex, Female first
    history_mean: tuple[float, ...] = (0, 0, -1.2, -0.8, -0.4, -0.4, 0, 0)
    intercept: float = 0.9  # repayment index = intercept + income * x1 + cash_flow * x3, probit scale
    income: float = 0.8
    cash_flow: float = 0.9
    history_weight: float = 0.7  # of credit history against income in the lender's score
    threshold: float = 0.7  # approve at this score or above
    rows_per_applicant: float = 1.4
    activity: float = 0.5  # applicants who repay more come back more often
    correlation: float = 0.3  # of the latent repayment of two applications of one applicant
    offered: float = 0.5
    accept_rate: float = 0.25  # without the offer: accept_rate (1 + trend v), v = 2 Phi(x3) - 1
    trend: float = 0.5
    effect: float = 1.3  # relative effect of the offer: effect (1 + heterogeneity v)
    heterogeneity: float = 0.2
    effect_error: tuple[float, ...] = (0.0, 0.0, 0.25)  # planted, by age band

    @property
    def share(self) -> FloatArray:
        """Share of each race and sex; sexes are equal in number."""
        return np.repeat(np.array(self.race_share) / 2, 2)

    @cached_property
    def _residual(self) -> float:
        """Standard deviation of the latent repayment given the lender's score."""
        explained = self.income**2 / (1 + self.history_weight**2)
        return float(np.sqrt(1 + self.income**2 + self.cash_flow**2 - explained))

    @cached_property
    def weights(self) -> tuple[float, float, float]:
        """Intercept and weights of income and history in Phi^-1(score): calibrated where both means are 0."""
        income = self.income / ((1 + self.history_weight**2) * self._residual)
        return self.intercept / self._residual, income, self.history_weight * income

    def law(self, algorithm: str) -> tuple[FloatArray, float, float]:
        """Mean by cell and standard deviation of Phi^-1 of a score, and its correlation with the latent repayment."""
        income = np.array(self.income_mean)
        total = np.sqrt(1 + self.income**2 + self.cash_flow**2)
        if algorithm == "candidate":
            sd = float(np.hypot(self.income, self.cash_flow))
            return self.intercept + self.income * income, sd, sd / total
        first, second, third = self.weights
        sd = float(np.hypot(second, third))
        return first + second * income + third * np.array(self.history_mean), sd, second * self.income / (sd * total)

    @cached_property
    def candidate_threshold(self) -> float:
        """The candidate score at or above which as many are approved as by the lender."""
        from scipy.optimize import brentq

        mean, sd, _ = self.law("candidate")
        approved = float(self.share @ self.selected("status_quo", float(normal.quantile(self.threshold))))
        cut = brentq(lambda t: float(self.share @ normal.cdf((mean - t) / sd)) - approved, -9, 9, xtol=1e-14)
        return float(normal.cdf(cut))

    def cut(self, algorithm: str) -> float:
        """The threshold of an algorithm on the probit scale."""
        at = self.threshold if algorithm == "status_quo" else self.candidate_threshold
        return float(normal.quantile(at))

    def selected(self, algorithm: str, cut: float) -> FloatArray:
        """Share approved by race and sex."""
        mean, sd, _ = self.law(algorithm)
        return normal.cdf((mean - cut) / sd)

    @property
    def row_effects(self) -> tuple[tuple[float, float], ...]:
        """Weight and shift of the latent repayment among rows: active applicants weigh more (see `scores`)."""
        further = self.rows_per_applicant - 1
        lift = float(np.sqrt(self.correlation)) * self.activity
        return (1 / (1 + further), 0.0), (further / (1 + further), lift)

    def repaid(self) -> FloatArray:
        """P(repaid) by race and sex, rows counted alike."""
        index = self.intercept + self.income * np.array(self.income_mean)
        total = np.sqrt(1 + self.income**2 + self.cash_flow**2)
        return np.asarray(sum(w * normal.cdf((index + d) / total) for w, d in self.row_effects))

    def approved_and_repaid(self, algorithm: str) -> FloatArray:
        """P(approved and repaid) by race and sex, rows counted alike."""
        mean, sd, rho = self.law(algorithm)
        index = self.intercept + self.income * np.array(self.income_mean)
        total = np.sqrt(1 + self.income**2 + self.cash_flow**2)
        at = (self.cut(algorithm) - mean) / sd
        return np.asarray(sum(w * normal.both_above(at, -(index + d) / total, rho) for w, d in self.row_effects))

    def curve(self, inside: FloatArray) -> Curve:
        """The outcome curve of the lender's score in a group of cells (``inside``: 1 where a cell belongs to it)."""
        mean, sd, _ = self.law("status_quo")
        _, second, third = self.weights
        income = np.array(self.income_mean)
        # What a group's applicants repay above (or below) what their score says, on the probit scale.
        excess = self.income * income / self._residual - second * income - third * np.array(self.history_mean)

        def value(s: ArrayLike, level: str = "user") -> FloatArray:
            choose("level", level, ("user", "aggregate"))
            z = np.clip(normal.quantile(s), -30, 30)[..., None]
            # In logarithms: far from every cell's scores the densities themselves underflow.
            log_density = np.where(inside > 0, -0.5 * ((z - mean) / sd) ** 2, -np.inf)
            weight = self.share * np.exp(log_density - log_density.max(-1, keepdims=True))
            effects = ((1.0, 0.0),) if level == "user" else self.row_effects
            f = sum(w * normal.cdf(z + excess + d / self._residual) for w, d in effects)
            return np.asarray((weight * f).sum(-1) / weight.sum(-1))

        return value


def group_cells() -> dict[str, FloatArray]:
    """Which cells of race and sex each label holds; age bands hold all (age has no part in credit)."""
    labels: dict[str, FloatArray] = {}
    for d, (column, levels) in enumerate((("race", RACES), ("sex", SEXES))):
        for level in levels:
            labels[f"{column}={level}"] = np.array([float(cell[d] == level) for cell in CELLS])
    labels |= {f"age_band={band}": np.ones(len(CELLS)) for band in BANDS}
    return labels | {f"race={r} & sex={s}": np.eye(len(CELLS))[i] for i, (r, s) in enumerate(CELLS)}
