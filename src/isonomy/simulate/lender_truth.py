"""What an audit of the simulated lender should find, question by question."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

import numpy as np

from isonomy.numerics.arrays import FloatArray
from isonomy.results.phrases import number, points, share
from isonomy.simulate import lender_design as design
from isonomy.simulate.lender_design import BAND_SHARE, BANDS, RACE_SHARE, RACES, SEXES, Score
from isonomy.simulate.rates import Names, rates, rates_by_group
from isonomy.simulate.simulated import Truth
from isonomy.simulate.uplift import effects_by_group

_GRID = np.round(np.arange(0.4, 0.951, 0.05), 2)
_COLUMNS: Names = {
    "race": (RACES, RACE_SHARE),
    "sex": (SEXES, np.array([0.5, 0.5])),
    "age_band": (BANDS, BAND_SHARE),
}


def truth() -> Truth:
    """The planted facts for each of the five questions, and in words."""
    flag = _flag()
    answers = {
        "flag": flag,
        "project": _project(flag["groups"]),
        "improvability": _improvability(),
        "treatment_bias": _treatment(),
        "predictive_parity": _parity(),
    }
    return {**answers, "facts": _facts(answers)}


def _masses(score: Score) -> FloatArray:
    """Share, P(tp), P(fp), P(fn) and P(tn) of each cell of race and sex, each times the share."""
    approved, repaid, both = score.approved(), design.repaid(), score.approved_and_repaid()
    parts = [np.ones(8), both, approved - both, repaid - both, 1 - approved - repaid + both]
    return np.stack(parts, axis=1) * design.SHARE[:, None]


def _flag() -> Truth:
    cells = np.array(list(product(range(4), range(2), range(3))), dtype=np.intp)
    masses = _masses(design.status_quo())[:, None, :] * BAND_SHARE[None, :, None]
    return rates_by_group(_COLUMNS, cells, masses.reshape(len(cells), -1))


def _project(groups: Mapping[str, Mapping[str, float]]) -> Truth:
    criteria = {"equal_opportunity": "tpr", "predictive_equality": "fpr", "statistical_parity": "selection_rate"}
    disparity = {
        f"{column}={level}": {
            c: groups[f"{column}={level}"][r] - groups[f"{column}={levels[0]}"][r] for c, r in criteria.items()
        }
        for column, (levels, _) in _COLUMNS.items()
        for level in levels[1:]
    }
    return {"threshold": design.THRESHOLD, "disparity": disparity}


def _improvability() -> Truth:
    scores = {"status_quo": design.status_quo(), "candidate": design.candidate()}
    by_race = {a: [rates(mass) for mass in _masses(s).reshape(4, 2, -1).sum(1)] for a, s in scores.items()}
    groups = {f"race={race}": {a: by_race[a][j] for a in scores} for j, race in enumerate(RACES)}
    unfairness = {a: {u: np.ptp([race[u] for race in by_race[a]]) for u in by_race[a][0]} for a in scores}
    better = all(race["candidate"]["ppv"] > race["status_quo"]["ppv"] for race in groups.values())
    return {
        "threshold": {a: score.threshold for a, score in scores.items()},
        "capacity": {a: design.SHARE @ score.approved() for a, score in scores.items()},
        "groups": groups,
        "unfairness": unfairness,
        "improves": better and unfairness["candidate"]["tpr"] < unfairness["status_quo"]["tpr"],
    }


def _treatment() -> Truth:
    """E v = 0 and E v^2 = 1/3, as in `uplift`; age has no part in acceptance, only in the model's error."""
    observed = design.EFFECT * (1 + design.TREND * design.HETEROGENEITY / 3)
    groups: Truth = {}
    for column, (levels, shares) in _COLUMNS.items():
        average = np.full(len(levels), BAND_SHARE @ design.EFFECT_ERROR)
        error = design.EFFECT_ERROR if column == "age_band" else average
        m0 = np.full(len(levels), design.ACCEPTED)
        sums = {"m0": m0, "m1": m0 * observed, "predicted": observed + error, "average": design.EFFECT + error}
        labels = [f"{column}={level}" for level in levels]
        groups |= effects_by_group(True, labels, shares, np.full(len(levels), design.OFFERED), sums)
    return {"measure": "relative", "groups": groups}


def _parity() -> Truth:
    labels = [f"{column}={level}" for column, (levels, _) in _COLUMNS.items() for level in levels]
    labels += [f"race={race} & sex={sex}" for race, sex in design.CELLS]
    groups = {label: {at: design.curve(label, _GRID, at) for at in ("user", "aggregate")} for label in labels}
    return {"grid": _GRID, "groups": groups}


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
    curve = answers["predictive_parity"]["groups"]
    at = list(_GRID).index(design.THRESHOLD)
    return {
        "flag": (
            f"Of Black applicants who repay, {share(black)} are approved; of White applicants, {share(white)}.",
            f"The lowest rate is that of Black women: {share(tpr['race=Black & sex=Female'])}.",
            "White and Asian applicants are approved alike, and so are all age bands.",
        ),
        "project": (
            f"Of those who repay, Black applicants are approved {points(white - black)} less often than White.",
            "White and Asian applicants are approved alike, and so are all age bands.",
        ),
        "improvability": (
            f"The candidate narrows the largest difference in approval of those who repay from {points(before)} to "
            f"{points(after)}.",
            f"In every race it raises the share of right decisions by {points(low)} or more.",
            f"In every race it raises repayment among the approved by {points(high)} or more.",
        ),
        "treatment_bias": (
            f"For ages {BANDS[2].replace('-', ' to ')} the predicted effect is {number(old['predicted'])}, the true "
            f"{number(old['observed'])}.",
            "For the other age bands the predicted effect is right, which is too low beside the rest's: a bias is a "
            "group's error less that of the rest. Between races and sexes the error does not differ.",
        ),
        "predictive_parity": (
            f"At score {design.THRESHOLD:g}, {share(curve['race=Black']['user'][at])} of Black applicants repay, and "
            f"{share(curve['race=White']['user'][at])} of White applicants.",
            "The score means the same for White and Asian applicants, and in every age band.",
        ),
    }
