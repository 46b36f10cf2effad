"""What an audit of the simulated lender should find, question by question."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isonomy.numerics.arrays import FloatArray
from isonomy.simulate import normal
from isonomy.simulate.alternatives import compare
from isonomy.simulate.arguments import plain
from isonomy.simulate.lender_design import BAND_SHARE, BANDS, CELLS, RACES, SEXES, Lender
from isonomy.simulate.rates import Names, rates_by_group
from isonomy.simulate.simulated import Curve
from isonomy.simulate.uplift import effects_by_group

_GRID = np.round(np.arange(0.4, 0.951, 0.05), 2)


def truth(design: Lender, curves: Mapping[str, Curve]) -> dict[str, Any]:
    """The planted facts for each of the five questions, and in words."""
    flag = _flag(design)
    answers = {
        "flag": flag,
        "project": _project(design, flag),
        "improvability": _improvability(design),
        "treatment_bias": _treatment(design),
        "predictive_parity": _parity(curves),
    }
    return {**answers, "facts": _facts(design, answers)}


def _flag(design: Lender) -> dict[str, Any]:
    names: Names = {
        "race": (RACES, np.array(design.race_share)),
        "sex": (SEXES, np.array([0.5, 0.5])),
        "age_band": (BANDS, BAND_SHARE),
    }
    cells: NDArray[Any] = np.array(list(product(range(4), range(2), range(3))))
    repaid, approved = design.repaid(), design.selected("status_quo", design.cut("status_quo"))
    both = design.approved_and_repaid("status_quo")
    masses = np.stack(
        [np.ones(8), both, approved - both, repaid - both, 1 - approved - repaid + both, *_score_sums(design)], axis=1
    )
    by_cell = (masses * design.share[:, None])[:, None, :] * BAND_SHARE[None, :, None]
    return rates_by_group(names, cells, by_cell.reshape(-1, masses.shape[1]))


def _score_sums(design: Lender) -> list[FloatArray]:
    """Mean score, Brier score and log loss by race and sex, rows counted alike."""
    from scipy.special import log_ndtr

    nodes, weights = normal.hermite()
    mean, sd, _ = design.law("status_quo")
    z = mean[:, None] + sd * nodes
    s = normal.cdf(z)
    curves = [design.curve(np.eye(len(CELLS))[c]) for c in range(len(CELLS))]
    f = np.stack([curve(s[c], "aggregate") for c, curve in enumerate(curves)])
    brier = f * (1 - s) ** 2 + (1 - f) * s**2
    log_loss = -(f * log_ndtr(z) + (1 - f) * log_ndtr(-z))
    return [np.asarray((part * weights).sum(1)) for part in (s, brier, log_loss)]


def _project(design: Lender, flag: dict[str, Any]) -> dict[str, Any]:
    keys = ("share", "base_rate", "tpr", "fpr", "selection_rate")
    groups = {label: {k: rates[k] for k in keys} for label, rates in flag["groups"].items() if "&" not in label}
    criteria = {"equal_opportunity": "tpr", "predictive_equality": "fpr", "statistical_parity": "selection_rate"}
    base = {"race": "race=White", "sex": "sex=Female", "age_band": f"age_band={BANDS[0]}"}
    disparity = {
        label: {c: rates[k] - groups[base[label.split("=")[0]]][k] for c, k in criteria.items()}
        for label, rates in groups.items()
        if label not in base.values()
    }
    return {"threshold": design.threshold, "groups": groups, "disparity": disparity}


def _improvability(design: Lender) -> dict[str, Any]:
    def by_race(values: FloatArray) -> FloatArray:
        return np.asarray((values * design.share).reshape(4, 2).sum(1) / design.share.reshape(4, 2).sum(1))

    algorithms = ("status_quo", "candidate")
    selected = {a: by_race(design.selected(a, design.cut(a))) for a in algorithms}
    utility = {a: by_race(design.approved_and_repaid(a)) / selected[a] for a in algorithms}
    labels = [f"race={race}" for race in RACES]
    share = np.array(design.race_share)
    found = compare(labels, share, by_race(design.repaid()), selected, utility, binary=True, fairness="tpr")
    return {"threshold": {"status_quo": design.threshold, "candidate": design.candidate_threshold}, **found}


def _treatment(design: Lender) -> dict[str, Any]:
    """E v = 0 and E v^2 = 1/3, as in `uplift`; age has no part in acceptance, only in the model's error."""
    m0 = design.accept_rate
    observed = design.effect * (1 + design.trend * design.heterogeneity / 3)
    overall = float(BAND_SHARE @ np.array(design.effect_error))
    groups: dict[str, Any] = {}
    for column, levels, share, error in (
        ("age_band", BANDS, BAND_SHARE, np.array(design.effect_error)),
        ("race", RACES, np.array(design.race_share), np.full(4, overall)),
        ("sex", SEXES, np.array([0.5, 0.5]), np.full(2, overall)),
    ):
        k = len(levels)
        sums = {
            "m0": np.full(k, m0),
            "m1": np.full(k, m0 * observed),
            "predicted": observed + error,
            "average": design.effect + error,
            "weighted": observed + error,
        }
        labels = [f"{column}={level}" for level in levels]
        groups |= effects_by_group(True, labels, share, np.full(k, design.offered), sums)
    return {"measure": "relative", "groups": groups}


def _parity(curves: Mapping[str, Curve]) -> dict[str, Any]:
    levels = ("user", "aggregate")
    groups = {label: {at: curve(_GRID, at) for at in levels} for label, curve in curves.items()}
    base = {"race": "race=White", "sex": "sex=Female", "age_band": f"age_band={BANDS[0]}"}
    single = [label for label in groups if "&" not in label]
    difference = {
        label: {at: groups[label][at] - groups[base[label.split("=")[0]]][at] for at in levels} for label in single
    }
    parity = {
        f"{a}, {b}": bool(np.abs(groups[a]["user"] - groups[b]["user"]).max() < 1e-12)
        for a, b in combinations(single, 2)
        if a.split("=")[0] == b.split("=")[0]
    }
    return plain({"grid": _GRID, "groups": groups, "difference": difference, "parity": parity})


def _facts(design: Lender, answers: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    rates = answers["flag"]["groups"]
    offers = answers["treatment_bias"]["groups"]
    better, unfair = answers["improvability"]["groups"], answers["improvability"]["unfairness"]
    at = list(_GRID).index(design.threshold)
    curve = answers["predictive_parity"]["groups"]
    black, white, women = (rates[k]["tpr"] for k in ("race=Black", "race=White", "race=Black & sex=Female"))
    before, after = (unfair[a]["tpr"] for a in ("status_quo", "candidate"))
    low, high = (
        min(better[g]["candidate"][u] - better[g]["status_quo"][u] for g in better)
        for u in ("accuracy", "outcome_among_selected")
    )
    old = offers[f"age_band={BANDS[2]}"]
    return {
        "flag": (
            f"Of Black applicants who repay, {black:.1%} are approved; of White applicants, {white:.1%}.",
            f"The lowest rate is that of Black women: {women:.1%}.",
            "White and Asian applicants are approved alike, and so are all age bands.",
        ),
        "project": (
            f"The true positive rate of Black applicants is {white - black:.3f} below that of White applicants.",
            "It is the same for White and Asian applicants and for all age bands.",
        ),
        "improvability": (
            f"The candidate narrows the largest difference in true positive rates from {before:.3f} to {after:.3f}.",
            f"In every race it raises accuracy by {low:.3f} or more.",
            f"In every race it raises repayment among the approved by {high:.3f} or more.",
        ),
        "treatment_bias": (
            f"For ages {BANDS[2]} the predicted effect is {old['predicted']:.3f}, the true {old['observed']:.3f}.",
            "For the other age bands the predicted effect is right, which is too low beside the rest's: a bias is a "
            "group's error less that of the rest. Between races and sexes the error does not differ.",
        ),
        "predictive_parity": (
            f"At score {design.threshold:g}, {curve['race=Black']['user'][at]:.1%} of Black applicants repay, and "
            f"{curve['race=White']['user'][at]:.1%} of White applicants.",
            "The score means the same for White and Asian applicants, and in every age band.",
        ),
    }
