"""The numbers of the simulated lender, and the probabilities that follow from them.

Three features are standard normal given race and sex: x1 (income), x2 (length of credit history), x3 (cash flow).
Arrays have one value per cell of race and sex, in the order of `CELLS`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import product

import numpy as np
from numpy.typing import ArrayLike

from isonomy.numerics.arrays import FloatArray
from isonomy.simulate import normal

RACES = ("White", "Black", "Hispanic", "Asian")
SEXES = ("Female", "Male")
BANDS = ("21-29", "30-59", "60-79")
CELLS = tuple(product(RACES, SEXES))
RACE_SHARE = np.array([0.50, 0.22, 0.16, 0.12])
BAND_SHARE = np.array([9, 30, 20]) / 59  # ages are uniform on 21, ..., 79
SHARE = np.repeat(RACE_SHARE / 2, 2)  # sexes are equal in number
INCOME_MEAN = np.array([0, 0, -0.2, -0.2, -0.1, -0.1, 0, 0])
HISTORY_MEAN = np.array([0, 0, -1.2, -0.8, -0.4, -0.4, 0, 0])

INTERCEPT, INCOME, CASH_FLOW = 0.9, 0.8, 0.9  # repayment index = INTERCEPT + INCOME x1 + CASH_FLOW x3, probit scale
HISTORY = 0.7  # weight of credit history against income in the lender's score
THRESHOLD = 0.7  # the lender approves at this score or above
ROWS_PER_APPLICANT = 1.4
ACTIVITY = 0.5  # applicants who repay more come back more often
CORRELATION = 0.3  # of the latent repayment of two applications of one applicant
OFFERED = 0.5
ACCEPTED, TREND = 0.25, 0.5  # acceptance without the offer: ACCEPTED (1 + TREND v), v = 2 Phi(x3) - 1
EFFECT, HETEROGENEITY = 1.3, 0.2  # relative effect of the offer: EFFECT (1 + HETEROGENEITY v)
EFFECT_ERROR = np.array([0.0, 0.0, 0.25])  # planted in the predicted effect, by age band

_INDEX = INTERCEPT + INCOME * INCOME_MEAN  # mean of the latent repayment
_TOTAL = float(np.sqrt(1 + INCOME**2 + CASH_FLOW**2))  # its standard deviation
_RESIDUAL = float(np.sqrt(_TOTAL**2 - INCOME**2 / (1 + HISTORY**2)))  # the same, given the lender's score
# Intercept and weights of income and history in Phi^-1(score): the score means what it says where both means are 0.
_INCOME_WEIGHT = INCOME / ((1 + HISTORY**2) * _RESIDUAL)
WEIGHTS = (INTERCEPT / _RESIDUAL, _INCOME_WEIGHT, HISTORY * _INCOME_WEIGHT)
# Weight and shift of the latent repayment among rows: active applicants have N(a, 1) effects in place of N(0, 1).
_FURTHER = ROWS_PER_APPLICANT - 1
_ROWS = ((1 / (1 + _FURTHER), 0.0), (_FURTHER / (1 + _FURTHER), float(np.sqrt(CORRELATION)) * ACTIVITY))


@dataclass(frozen=True, eq=False)
class Score:
    """A score whose Phi^-1 is normal in every cell, and the threshold from which its applicants are approved."""

    mean: FloatArray
    sd: float
    correlation: float  # with the latent repayment
    threshold: float

    def approved(self) -> FloatArray:
        """Share approved."""
        return normal.cdf((self.mean - float(normal.quantile(self.threshold))) / self.sd)

    def approved_and_repaid(self) -> FloatArray:
        """P(approved and repaid), rows counted alike."""
        at = (float(normal.quantile(self.threshold)) - self.mean) / self.sd
        return np.asarray(
            sum(w * normal.both_above(at, -(_INDEX + shift) / _TOTAL, self.correlation) for w, shift in _ROWS)
        )


@cache
def status_quo() -> Score:
    """The lender's own score, of income and credit history."""
    first, income, history = WEIGHTS
    sd = float(np.hypot(income, history))
    return Score(first + income * INCOME_MEAN + history * HISTORY_MEAN, sd, income * INCOME / (sd * _TOTAL), THRESHOLD)


@cache
def candidate() -> Score:
    """The alternative, of income and cash flow, which approves as many."""
    from scipy.optimize import brentq

    sd = float(np.hypot(INCOME, CASH_FLOW))
    approved = float(SHARE @ status_quo().approved())
    cut = brentq(lambda t: float(SHARE @ normal.cdf((_INDEX - t) / sd)) - approved, -9, 9, xtol=1e-14)
    return Score(_INDEX, sd, sd / _TOTAL, float(normal.cdf(cut)))


def repaid() -> FloatArray:
    """P(repaid), rows counted alike."""
    return np.asarray(sum(w * normal.cdf((_INDEX + shift) / _TOTAL) for w, shift in _ROWS))


def curve(label: str, score: ArrayLike, level: str = "user") -> FloatArray:
    """P(repaid) at a value of the lender's score in a group: for the average applicant, or the average row."""
    inside = cells_of(label)
    mean, sd = status_quo().mean, status_quo().sd
    _, income, history = WEIGHTS
    # What a cell's applicants repay above (or below) what their score says, on the probit scale.
    excess = INCOME * INCOME_MEAN / _RESIDUAL - income * INCOME_MEAN - history * HISTORY_MEAN
    z = np.clip(normal.quantile(np.asarray(score, dtype=np.float64)), -30, 30)[..., None]
    # In logarithms: far from every cell's scores the densities themselves underflow.
    log_density = np.where(inside > 0, -0.5 * ((z - mean) / sd) ** 2, -np.inf)
    weight = SHARE * np.exp(log_density - log_density.max(-1, keepdims=True))
    effects = ((1.0, 0.0),) if level == "user" else _ROWS
    f = sum(w * normal.cdf(z + excess + shift / _RESIDUAL) for w, shift in effects)
    return np.asarray((weight * f).sum(-1) / weight.sum(-1))


def cells_of(label: str) -> FloatArray:
    """1 for the cells that a label such as "race=Black & sex=Female" holds; age has no part in credit."""
    levels = {part.partition("=")[2] for part in label.split(" & ") if not part.startswith("age_band=")}
    return np.array([float(levels <= set(cell)) for cell in CELLS])
