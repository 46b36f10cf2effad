"""A lender with known, planted bias: one table for all five questions.

The story. An application has three standard normal features given race and sex: income (log scale; a little lower on
average in two groups), length of credit history (shorter on average in those groups, and shortest for Black women), and
cash flow (alike in all groups). Repayment depends on income and cash flow, not on credit history. The lender's score
uses income and credit history and means what it says for White and Asian applicants; so it understates the repayment of
those with short histories. The candidate score uses income and cash flow. An offer of a higher limit was randomised;
the lender's uplift model overstates its effect for applicants of 60 and older. Age has no part in credit: there every
group is treated alike.

Repayment is known for every application, approved or not. An applicant's features are drawn anew at each application,
so approvals and offers of one applicant are independent; repayments are not, and applicants who repay more come back
more often. Rates are those of rows (each application one vote); the score's meaning is given at both levels.
"""

from __future__ import annotations

import numpy as np

from isonomy.simulate import lender_design as design
from isonomy.simulate import normal
from isonomy.simulate.arguments import members
from isonomy.simulate.lender_truth import truth
from isonomy.simulate.simulated import Array, Block, Simulated


def lender(rows: int = 30_000, seed: int = 0) -> Simulated:
    """A lender's applications: who is approved, who repays, what an offer does; biased in known ways.

    Columns: ``user`` (applicant), ``race``, ``sex``, ``age``, ``age_band`` ("21-29", "30-59", "60-79"), ``income``
    (thousands a year), ``credit_history`` (years), ``cash_flow`` (share of income left each month), ``score`` (the
    lender's probability of repayment), ``approved`` (score >= 0.7), ``candidate`` (the alternative score),
    ``candidate_approved`` (as many are approved), ``repaid`` (0/1), ``offer`` (randomised, 0/1), ``accepted`` (0/1),
    ``predicted_effect`` (relative effect of the offer on acceptance), ``predicted_baseline`` (acceptance without
    offer).

    The five questions, what was planted, and what is truly alike:

    * flag, certify: approval of those who repay (tpr) is lower for Black and, less, for Hispanic applicants, lowest for
      Black women; White and Asian alike; all age bands alike.
    * project: the same decisions; score against threshold 0.7.
    * improvability: the candidate has a higher repayment rate among the approved and a higher accuracy in every race,
      and less unequal approval and true positive rates.
    * treatment_bias: the predicted effect is 0.25 too high for ages 60-79 and right for the others; by race and by sex
      the error is the same in every group, so the bias is 0.
    * predictive_parity: at the same score Black applicants repay more often; White and Asian alike; age bands alike.
      The candidate score has parity in every group at the user level.

    Truth: ``flag`` (as in `decisions`, over race, sex, age_band), ``project`` (threshold, disparity against the first
    level by criterion), ``improvability`` (threshold, capacity, rates by race and algorithm, their largest difference
    as ``unfairness``, improves), ``treatment_bias`` (``groups`` as in `uplift`, for races, sexes and age bands),
    ``predictive_parity`` (grid; groups with the curves of the user and of the aggregate level), ``facts``: sentences
    by question.

    Examples
    --------
    >>> table = lender(2_000, seed=1)
    >>> truth = table.truth
    >>> round(truth["project"]["disparity"]["race=Black"]["equal_opportunity"], 3)
    -0.291
    >>> truth["improvability"]["improves"]
    True
    """
    return Simulated(
        name="lender", rows=rows, seed=seed, draw=_draw, facts=truth, rows_per_unit=design.ROWS_PER_APPLICANT
    )


def _draw(rng: np.random.Generator, start: int, units: int) -> Block:
    home = members(rng, units, design.SHARE)
    years = rng.integers(21, 80, units)
    habit = rng.standard_normal(units)
    further = (design.ROWS_PER_APPLICANT - 1) * np.exp(design.ACTIVITY * habit - design.ACTIVITY**2 / 2)
    repeats = 1 + rng.poisson(further)
    user = np.repeat(np.arange(start, start + units), repeats)
    cell, age, person = (np.repeat(v, repeats) for v in (home, years, habit))
    size = len(user)
    x1, x2, x3, chance = rng.standard_normal((4, size))
    x1, x2 = x1 + design.INCOME_MEAN[cell], x2 + design.HISTORY_MEAN[cell]
    first, second, third = design.WEIGHTS
    score = normal.cdf(first + second * x1 + third * x2)
    index = design.INTERCEPT + design.INCOME * x1 + design.CASH_FLOW * x3
    candidate = normal.cdf(index)
    latent = np.sqrt(design.CORRELATION) * person + np.sqrt(1 - design.CORRELATION) * chance
    band = np.searchsorted([30, 60], age, side="right")
    v = 2 * normal.cdf(x3) - 1
    offer = rng.random(size) < design.OFFERED
    without = design.ACCEPTED * (1 + design.TREND * v)
    effect = design.EFFECT * (1 + design.HETEROGENEITY * v)
    accepted = rng.random(size) < np.where(offer, without * effect, without)
    return {
        "user": user,
        "race": np.array(design.RACES)[cell // 2],
        "sex": np.array(design.SEXES)[cell % 2],
        "age": age,
        "age_band": np.array(design.BANDS)[band],
        "income": 52 * np.exp(0.35 * x1),
        "credit_history": 10 * np.exp(0.5 * x2),
        "cash_flow": 0.15 + 0.05 * x3,
        "score": score,
        "approved": _flags(score >= design.THRESHOLD),
        "candidate": candidate,
        "candidate_approved": _flags(candidate >= design.candidate().threshold),
        "repaid": _flags(latent > -index),
        "offer": _flags(offer),
        "accepted": _flags(accepted),
        "predicted_effect": effect + design.EFFECT_ERROR[band],
        "predicted_baseline": without,
    }


def _flags(condition: Array) -> Array:
    return condition.astype(np.int8)
