"""A lender with known, planted bias.

An application has three features, standard normal given race and sex: x1, income (on a log scale; a little lower on
average in two groups); x2, length of credit history (shorter on average in those groups, and shortest for Black women);
and x3, cash flow (the same in all groups). Repayment depends on income and cash flow, not on credit history. The
lender's score uses income and credit history. It is calibrated for White and Asian applicants, and therefore
understates the repayment of those with short histories. The candidate score uses income and cash flow. An offer of a
higher limit was randomized; the lender's uplift model overstates its effect for applicants aged 60 and older. Age has
no effect on approval or repayment.

Repayment is known for every application, approved or not. Features are drawn anew at each application, so the approvals
and offers of one applicant are independent; repayments are not, and applicants who repay more come back more often.
Rates are rates of rows (each application counts once); the score's meaning is given for users and for rows.

Arrays have one value per cell of race and sex, in the order of `CELLS`.
"""

from __future__ import annotations

from functools import cache, partial
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from isonomy.numerics.arrays import FloatArray, IntArray
from isonomy.results.phrases import number, points, share
from isonomy.simulate.decisions import Names, rates, rates_by_group
from isonomy.simulate.simulated import Block, Simulated, Truth, members
from isonomy.simulate.uplift import effects_by_group

# ---- the numbers of the design

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
KNOWN = 0.1  # applicants whose race is known, if there are proxies
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


@cache
def scores() -> dict[str, dict[str, Any]]:
    """The lender's score (income and history) and the candidate (income and cash flow), which approves as many.

    Phi^-1 of a score is normal in every cell. ``masses``: the share of each cell, P(tp), P(fp), P(fn) and P(tn), each
    times the share, with every row counted once.
    """
    from scipy.optimize import brentq

    first, income, history = WEIGHTS
    lender_sd, candidate_sd = float(np.hypot(income, history)), float(np.hypot(INCOME, CASH_FLOW))
    mean = first + income * INCOME_MEAN + history * HISTORY_MEAN
    approved = float(SHARE @ ndtr((mean - float(ndtri(THRESHOLD))) / lender_sd))
    cut = brentq(lambda t: float(SHARE @ ndtr((_INDEX - t) / candidate_sd)) - approved, -9, 9, xtol=1e-14)
    # The correlations are with the latent repayment.
    lender: dict[str, Any] = {"mean": mean, "sd": lender_sd, "correlation": income * INCOME / (lender_sd * _TOTAL)}
    candidate: dict[str, Any] = {"mean": _INDEX, "sd": candidate_sd, "correlation": candidate_sd / _TOTAL}
    repaid = np.asarray(sum(w * ndtr((_INDEX + shift) / _TOTAL) for w, shift in _ROWS))
    for score, threshold in ((lender, THRESHOLD), (candidate, float(ndtr(cut)))):
        low = (float(ndtri(threshold)) - score["mean"]) / score["sd"]
        chosen = ndtr(-low)
        both = sum(w * both_above(low, -(_INDEX + shift) / _TOTAL, score["correlation"]) for w, shift in _ROWS)
        parts = [np.ones(8), both, chosen - both, repaid - both, 1 - chosen - repaid + both]
        score |= {"threshold": threshold, "approved": chosen, "masses": np.stack(parts, axis=1) * SHARE[:, None]}
    return {"status_quo": lender, "candidate": candidate}


def curve(label: str, score: ArrayLike, level: str = "user") -> FloatArray:
    """P(repaid) at a value of the lender's score in a group: for the average applicant, or the average row."""
    levels = {part.partition("=")[2] for part in label.split(" & ") if not part.startswith("age_band=")}
    inside = np.array([float(levels <= set(cell)) for cell in CELLS])
    mean, sd = scores()["status_quo"]["mean"], scores()["status_quo"]["sd"]
    _, income, history = WEIGHTS
    # What a cell's applicants repay above (or below) what their score says, on the probit scale.
    excess = INCOME * INCOME_MEAN / _RESIDUAL - income * INCOME_MEAN - history * HISTORY_MEAN
    z = np.clip(ndtri(np.asarray(score, dtype=np.float64)), -30, 30)[..., None]
    # In logarithms: far from every cell's scores the densities themselves underflow.
    log_density = np.where(inside > 0, -0.5 * ((z - mean) / sd) ** 2, -np.inf)
    weight = SHARE * np.exp(log_density - log_density.max(-1, keepdims=True))
    effects = ((1.0, 0.0),) if level == "user" else _ROWS
    f = sum(w * ndtr(z + excess + shift / _RESIDUAL) for w, shift in effects)
    return np.asarray((weight * f).sum(-1) / weight.sum(-1))


def both_above(a: ArrayLike, b: ArrayLike, correlation: ArrayLike) -> FloatArray:
    """P(X > a, Y > b) for standard normals with the given correlation, to about 1e-14 for |correlation| <= 0.99.

    Plackett's identity: the product of the tails plus an integral over the angle arcsin(correlation), by
    200-point Gauss-Legendre.

    >>> round(float(both_above(0.0, 0.0, 0.5)), 12)  # 1/4 + arcsin(1/2) / (2 pi) = 1/3
    0.333333333333
    """
    a, b, r = np.broadcast_arrays(*(np.asarray(v, dtype=np.float64) for v in (a, b, correlation)))
    nodes, weights = np.polynomial.legendre.leggauss(200)
    end = np.arcsin(r)[..., None]
    angle = 0.5 * end * (nodes + 1)
    h, k = a[..., None], b[..., None]
    exponent = -(h * h + k * k - 2 * h * k * np.sin(angle)) / (2 * np.cos(angle) ** 2)
    extra = (np.exp(exponent) * weights).sum(-1) * 0.5 * end[..., 0] / (2 * np.pi)
    return np.asarray(ndtr(-a) * ndtr(-b) + extra)


# ---- the truth

_GRID = np.round(np.arange(0.4, 0.951, 0.05), 2)
_COLUMNS: Names = {
    "race": (RACES, RACE_SHARE),
    "sex": (SEXES, np.array([0.5, 0.5])),
    "age_band": (BANDS, BAND_SHARE),
}


def truth(*, proxies: bool = False) -> Truth:
    cells = np.array(list(product(range(4), range(2), range(3))), dtype=np.intp)
    masses = scores()["status_quo"]["masses"][:, None, :] * BAND_SHARE[None, :, None]
    flag = rates_by_group(_COLUMNS, cells, masses.reshape(len(cells), -1))
    labels = [f"{column}={level}" for column, (levels, _) in _COLUMNS.items() for level in levels]
    labels += [f"race={race} & sex={sex}" for race, sex in CELLS]
    curves = {label: {level: curve(label, _GRID, level) for level in ("user", "aggregate")} for label in labels}
    known = flag["groups"]
    criteria = {"equal_opportunity": "tpr", "predictive_equality": "fpr", "statistical_parity": "selection_rate"}
    disparity = {
        f"{column}={level}": {
            c: known[f"{column}={level}"][r] - known[f"{column}={levels[0]}"][r] for c, r in criteria.items()
        }
        for column, (levels, _) in _COLUMNS.items()
        for level in levels[1:]
    }
    answers = {
        "flag": flag,
        "project": {"threshold": THRESHOLD, "disparity": disparity},
        "improvability": _improvability(),
        "treatment_bias": _treatment(),
        "predictive_parity": {"grid": _GRID, "groups": curves},
    }
    planted = {"proxies": {"gamma": 1.0, "known": KNOWN}} if proxies else {}
    return {**answers, **planted, "facts": _facts(answers)}


def _improvability() -> Truth:
    by_race = {a: [rates(mass) for mass in s["masses"].reshape(4, 2, -1).sum(1)] for a, s in scores().items()}
    groups = {f"race={race}": {a: by_race[a][j] for a in by_race} for j, race in enumerate(RACES)}
    unfairness = {a: {u: np.ptp([race[u] for race in by_race[a]]) for u in by_race[a][0]} for a in by_race}
    better = all(race["candidate"]["ppv"] > race["status_quo"]["ppv"] for race in groups.values())
    return {
        "threshold": {a: score["threshold"] for a, score in scores().items()},
        "capacity": {a: SHARE @ score["approved"] for a, score in scores().items()},
        "groups": groups,
        "unfairness": unfairness,
        "improves": better and unfairness["candidate"]["tpr"] < unfairness["status_quo"]["tpr"],
    }


def _treatment() -> Truth:
    """E v = 0 and E v^2 = 1/3, as in `uplift`; age affects only the model's error, not acceptance."""
    observed = EFFECT * (1 + TREND * HETEROGENEITY / 3)
    groups: Truth = {}
    for column, (levels, shares) in _COLUMNS.items():
        average = np.full(len(levels), BAND_SHARE @ EFFECT_ERROR)
        error = EFFECT_ERROR if column == "age_band" else average
        m0 = np.full(len(levels), ACCEPTED)
        sums = {"m0": m0, "m1": m0 * observed, "predicted": observed + error, "average": EFFECT + error}
        labels = [f"{column}={level}" for level in levels]
        groups |= effects_by_group(True, labels, shares, np.full(len(levels), OFFERED), sums)
    return {"measure": "relative", "groups": groups}


def _facts(answers: Truth) -> dict[str, tuple[str, ...]]:
    tpr = {label: values["tpr"] for label, values in answers["flag"]["groups"].items()}
    black, white = tpr["race=Black"], tpr["race=White"]
    races = answers["improvability"]["groups"].values()
    before, after = (answers["improvability"]["unfairness"][a]["tpr"] for a in ("status_quo", "candidate"))
    low, high = (
        min(race["candidate"][u] - race["status_quo"][u] for race in races)
        for u in ("accuracy", "ppv")  # ppv: repayment among the approved
    )
    old = answers["treatment_bias"]["groups"][f"age_band={BANDS[2]}"]
    curves = answers["predictive_parity"]["groups"]
    place = list(_GRID).index(THRESHOLD)
    return {
        "flag": (
            f"{share(black)} of Black applicants who repay are approved, and {share(white)} of White applicants.",
            f"Black women have the lowest rate: {share(tpr['race=Black & sex=Female'])}.",
            "White and Asian applicants have the same rate, and so have all age bands.",
        ),
        "project": (
            f"Among those who repay, the approval rate of Black applicants is {points(white - black)} lower than that "
            "of White applicants.",
            "White and Asian applicants have the same rate, and so have all age bands.",
        ),
        "improvability": (
            f"The candidate reduces the largest difference in approval of those who repay from {points(before)} to "
            f"{points(after)}.",
            f"In every race it raises the share of correct decisions by at least {points(low)}.",
            f"In every race it raises repayment among the approved by at least {points(high)}.",
        ),
        "treatment_bias": (
            f"For ages {BANDS[2].replace('-', ' to ')} the predicted effect is {number(old['predicted'])}, and the "
            f"true effect is {number(old['observed'])}.",
            "For the other age bands the predicted effect is correct. Their bias is negative all the same, because a "
            "bias is the error of a group minus the error of the other groups. The error is the same in every race "
            "and sex.",
        ),
        "predictive_parity": (
            f"At a score of {THRESHOLD:g}, {share(curves['race=Black']['user'][place])} of Black applicants repay, and "
            f"{share(curves['race=White']['user'][place])} of White applicants.",
            "The score means the same for White and Asian applicants, and in every age band.",
        ),
    }


# ---- the table


def lender(rows: int = 30_000, seed: int = 0, *, proxies: bool = False) -> Simulated:
    """A lender's loan applications, with planted, known bias in approvals, scores and predicted effects.

    Columns: ``user`` (applicant), ``race``, ``sex``, ``age``, ``age_band`` ("21-29", "30-59", "60-79"), ``income``
    (thousands a year), ``credit_history`` (years), ``cash_flow`` (share of income left each month), ``score`` (the
    lender's probability of repayment), ``approved`` (score >= 0.7), ``candidate`` (the alternative score),
    ``candidate_approved`` (as many are approved), ``repaid`` (0/1), ``offer`` (randomized, 0/1), ``accepted`` (0/1),
    ``predicted_effect`` (relative effect of the offer on acceptance), ``predicted_baseline`` (acceptance without
    offer).

    ``proxies`` adds what a lender who may not ask for race has instead: ``p_white``, ``p_black``, ``p_hispanic`` and
    ``p_asian``, calibrated probabilities from a name and a ``place``, and ``known``, the race of a random tenth of the
    applicants (otherwise empty). Given race, name and place have no effect, so the whole disparity remains among people
    with the same probabilities: gamma is 1 (``truth["proxies"]``).

    What was planted for the five questions, and what is equal:

    * flag, certify: approval of those who repay (tpr) is lower for Black applicants and, by less, for Hispanic
      applicants, and lowest for Black women; it is equal for White and Asian applicants, and in all age bands.
    * project: the same decisions, with the score and the threshold 0.7.
    * improvability: the candidate has a higher repayment rate among the approved and a higher accuracy in every race,
      and less unequal approval and true positive rates.
    * treatment_bias: the predicted effect is 0.25 too high for ages 60-79 and correct for the others; the error is the
      same in every race and sex, so that the bias there is 0.
    * predictive_parity: at the same score Black applicants repay more often; White and Asian applicants repay equally
      often, and so do all age bands. The candidate score has parity in every group at the user level.

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
    draw, facts = partial(_draw, proxies=proxies), partial(truth, proxies=proxies)
    return Simulated(name="lender", rows=rows, seed=seed, draw=draw, facts=facts, rows_per_unit=ROWS_PER_APPLICANT)


@cache
def origins() -> tuple[FloatArray, FloatArray]:
    """P(name | race) and P(place | race); places tell White and Black applicants apart, names the others."""
    rng = np.random.default_rng(11)
    names = rng.dirichlet([3.0, 2.0, 0.4, 0.3], 80) * rng.gamma(1.0, size=(80, 1))
    places = rng.dirichlet([1.0, 0.6, 0.8, 0.6], 60) * rng.gamma(1.0, size=(60, 1))
    return names / names.sum(0), places / places.sum(0)


def _proxies(rng: np.random.Generator, race: IntArray) -> Block:
    """Of each applicant: a place, the probabilities from it and from a name, and the race if it is known."""
    drawn = [(part.cumsum(0)[:, race] < rng.random(race.size)).sum(0).clip(0, len(part) - 1) for part in origins()]
    chance = origins()[0][drawn[0]] * origins()[1][drawn[1]] * RACE_SHARE
    chance /= chance.sum(1, keepdims=True)
    known = np.where(rng.random(race.size) < KNOWN, np.array(RACES)[race], "")
    columns = {f"p_{name.lower()}": chance[:, k] for k, name in enumerate(RACES)}
    return {**columns, "place": drawn[1], "known": known}


def _draw(rng: np.random.Generator, start: int, units: int, *, proxies: bool = False) -> Block:
    home = members(rng, units, SHARE)
    years = rng.integers(21, 80, units)
    habit = rng.standard_normal(units)
    further = (ROWS_PER_APPLICANT - 1) * np.exp(ACTIVITY * habit - ACTIVITY**2 / 2)
    repeats = 1 + rng.poisson(further)
    user = np.repeat(np.arange(start, start + units), repeats)
    cell, age, person = (np.repeat(v, repeats) for v in (home, years, habit))
    size = len(user)
    x1, x2, x3, chance = rng.standard_normal((4, size))
    x1, x2 = x1 + INCOME_MEAN[cell], x2 + HISTORY_MEAN[cell]
    first, second, third = WEIGHTS
    score = ndtr(first + second * x1 + third * x2)
    index = INTERCEPT + INCOME * x1 + CASH_FLOW * x3
    candidate = ndtr(index)
    latent = np.sqrt(CORRELATION) * person + np.sqrt(1 - CORRELATION) * chance
    band = np.searchsorted([30, 60], age, side="right")
    v = 2 * ndtr(x3) - 1
    offer = rng.random(size) < OFFERED
    without = ACCEPTED * (1 + TREND * v)
    effect = EFFECT * (1 + HETEROGENEITY * v)
    accepted = rng.random(size) < np.where(offer, without * effect, without)
    more = {} if not proxies else {name: np.repeat(v, repeats) for name, v in _proxies(rng, home // 2).items()}
    return {
        "user": user,
        "race": np.array(RACES)[cell // 2],
        "sex": np.array(SEXES)[cell % 2],
        "age": age,
        "age_band": np.array(BANDS)[band],
        "income": 52 * np.exp(0.35 * x1),
        "credit_history": 10 * np.exp(0.5 * x2),
        "cash_flow": 0.15 + 0.05 * x3,
        "score": score,
        "approved": (score >= THRESHOLD).astype(np.int8),
        "candidate": candidate,
        "candidate_approved": (candidate >= scores()["candidate"]["threshold"]).astype(np.int8),
        "repaid": (latent > -index).astype(np.int8),
        "offer": offer.astype(np.int8),
        "accepted": accepted.astype(np.int8),
        "predicted_effect": effect + EFFECT_ERROR[band],
        "predicted_baseline": without,
        **more,
    }
