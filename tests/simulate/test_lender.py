"""The planted facts of the lender, against a large sample and against plain estimates at the size of the demo."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy import stats

from isonomy import simulate
from isonomy.simulate.lender import both_above, curve
from support.sampling import clustered, rows_of, standard_errors

ROWS = 250_000
LIMIT = 4.5  # standard errors
GRID = np.round(np.arange(0.4, 0.951, 0.05), 2)


@cache
def large() -> simulate.Simulated:
    return simulate.lender(ROWS, 17)


@cache
def small() -> simulate.Simulated:
    return simulate.lender(30_000, 1)


def test_decision_rates() -> None:
    """Rows of an applicant are dependent, so standard errors are clustered."""
    columns, truth = large().columns, large().truth["flag"]
    user, y, p = (columns[k] for k in ("user", "repaid", "approved"))
    everyone = np.ones(ROWS)
    for label, known in truth["groups"].items():
        if label.count("&") > 1:
            continue
        rows = rows_of(columns, label)
        for value, where, metric in (
            (y, everyone, "base_rate"),
            (p, everyone, "selection_rate"),
            (p, y, "tpr"),
            (p, 1 - y, "fpr"),
            (y, p, "ppv"),
            (y == p, everyone, "accuracy"),
        ):
            assert abs(clustered(((value - known[metric]) * where)[rows], user[rows])) < LIMIT, (label, metric)
        assert abs(clustered(rows - known["share"], user)) < LIMIT
    assert np.array_equal(p, columns["score"] >= 0.7)


def test_utilities_of_both_scores() -> None:
    columns, truth = large().columns, large().truth["improvability"]
    user, y = columns["user"], columns["repaid"]
    for algorithm, column in (("status_quo", "approved"), ("candidate", "candidate_approved")):
        chosen = columns[column]
        assert truth["capacity"][algorithm] == pytest.approx(truth["capacity"]["status_quo"], abs=1e-9)
        for label, groups in truth["groups"].items():
            rows, known = rows_of(columns, label), groups[algorithm]
            for value, where, metric in (
                (chosen, np.ones(ROWS), "selection_rate"),
                (y, chosen, "ppv"),
                (1 - y, 1 - chosen, "npv"),
                (chosen, y, "tpr"),
                (chosen, 1 - y, "fpr"),
                (chosen == y, np.ones(ROWS), "accuracy"),
            ):
                assert abs(clustered(((value - known[metric]) * where)[rows], user[rows])) < LIMIT


def test_effects_of_the_offer() -> None:
    columns, truth = large().columns, large().truth["treatment_bias"]["groups"]
    y, f = columns["accepted"].astype(float), columns["predicted_effect"]
    assert len(truth) == 3 + 4 + 2
    for label, known in truth.items():
        rows = rows_of(columns, label)
        treated, control = (rows & (columns["offer"] == arm) for arm in (1, 0))
        assert abs(standard_errors(y[treated], known["treated_mean"])) < LIMIT
        assert abs(standard_errors(y[control], known["control_mean"])) < LIMIT
        assert abs(standard_errors((y * (f - known["predicted"]))[control], 0.0)) < LIMIT
        assert abs(standard_errors(f[rows], known["predicted_average"])) < LIMIT
    assert truth["age_band=60-79"]["error"] == pytest.approx(0.25)
    assert [truth[f"age_band={b}"]["error"] for b in ("21-29", "30-59")] == pytest.approx([0, 0], abs=1e-12)
    assert truth["race=Black"]["bias"] == pytest.approx(0, abs=1e-12)


def test_each_question_has_an_answer_at_the_demonstration_s_size() -> None:
    """Plain z statistics: each planted fact is beyond 4 standard errors at 30,000 rows, each true null within 3.5."""
    c, user = small().columns, small().columns["user"]
    votes = 1 / np.bincount(user)[user]

    def difference(value: Any, where: Any, one: str, other: str, weight: Any = 1.0) -> float:
        signs = []
        for rows in (rows_of(c, one), rows_of(c, other)):
            use = (rows & where) * weight
            signs.append(use * (value - (use @ value) / use.sum()) / use.sum())
        means = [np.average(value[rows_of(c, g) & where], weights=(where * votes)[rows_of(c, g) & where]
                            if np.ndim(weight) else None) for g in (one, other)]  # fmt: skip
        return float((means[0] - means[1]) / np.sqrt((np.bincount(user, signs[0] - signs[1]) ** 2).sum()))

    repaid, approved = c["repaid"] == 1, c["approved"].astype(float)
    assert difference(approved, repaid, "race=Black", "race=White") < -4
    assert difference(approved, repaid, "race=Black & sex=Female", "race=Black & sex=Male") < -4
    assert abs(difference(approved, repaid, "race=Asian", "race=White")) < 3.5
    assert abs(difference(approved, repaid, "age_band=60-79", "age_band=21-29")) < 3.5
    near = np.abs(c["score"] - 0.7) < 0.05
    assert difference(c["repaid"].astype(float), near, "race=Black", "race=White", votes) > 4
    assert abs(difference(c["repaid"].astype(float), near, "race=Asian", "race=White", votes)) < 3.5
    gain = (c["candidate_approved"] == c["repaid"]).astype(float) - (c["approved"] == c["repaid"])
    for race in ("White", "Black", "Hispanic", "Asian"):
        rows = rows_of(c, f"race={race}")
        assert gain[rows].mean() / (gain[rows].std() / np.sqrt(rows.sum())) > 4
    y, f, offer = c["accepted"].astype(float), c["predicted_effect"], c["offer"] == 1
    for band, planted in (("60-79", True), ("30-59", False), ("21-29", False)):
        rows = rows_of(c, f"age_band={band}")
        control, treated = (y * f)[rows & ~offer], y[rows & offer]
        z = (control.mean() - treated.mean()) / np.sqrt(control.var() / len(control) + treated.var() / len(treated))
        assert (z > 4) if planted else (abs(z) < 3.5)


def test_ages_and_applicants() -> None:
    columns = large().columns
    assert (columns["age"].min(), columns["age"].max()) == (21, 79)
    counts = np.bincount(columns["user"])
    assert abs(standard_errors(counts[:-1], 1.4)) < LIMIT
    first = np.unique(columns["user"], return_index=True)[1]
    for name in ("race", "sex", "age"):
        assert np.array_equal(columns[name], columns[name][first][columns["user"]])


def test_curves_of_the_score() -> None:
    columns = large().columns
    user, s, y = columns["user"], columns["score"], columns["repaid"]
    votes = {"user": 1 / np.bincount(user)[user], "aggregate": np.ones(ROWS)}
    for label, curves in large().truth["predictive_parity"]["groups"].items():
        assert curves["user"] == pytest.approx(curve(label, GRID).tolist(), abs=1e-12)
        for low in (0.5, 0.7):
            rows = rows_of(columns, label) & (s >= low) & (s < low + 0.2)
            for level, weight in votes.items():
                residual = (y[rows] - curve(label, s[rows], level)) * weight[rows]
                assert abs(clustered(residual, user[rows])) < LIMIT


def test_the_candidate_score_means_the_same_for_every_user_group() -> None:
    columns = large().columns
    user, s, y = columns["user"], columns["candidate"], columns["repaid"]
    weight = 1 / np.bincount(user)[user]
    for label in ("race=White", "race=Black", "race=Hispanic", "race=Asian"):
        for low in np.arange(0.1, 1, 0.2):
            rows = rows_of(columns, label) & (s >= low) & (s < low + 0.2)
            assert abs(clustered(((y - s) * weight)[rows], user[rows])) < LIMIT


def test_what_is_truly_alike_is_exactly_alike() -> None:
    truth = large().truth
    rates = truth["flag"]["groups"]
    bands = [rates[f"age_band={b}"] for b in ("21-29", "30-59", "60-79")]
    for one, other in ((bands[0], bands[1]), (bands[0], bands[2]), (rates["race=White"], rates["race=Asian"])):
        assert all(one[m] == pytest.approx(other[m], abs=1e-12) for m in one if m != "share")
    curves = {label: np.array(curve["user"]) for label, curve in truth["predictive_parity"]["groups"].items()}
    for label in ("race=White", "age_band=60-79"):
        other = {"race=White": "race=Asian", "age_band=60-79": "age_band=21-29"}[label]
        np.testing.assert_allclose(curves[label], curves[other], rtol=0, atol=1e-12)
    assert np.all(curves["race=Black"] > curves["race=White"] + 0.01)
    gaps = truth["project"]["disparity"]
    assert gaps["race=Asian"]["equal_opportunity"] == pytest.approx(0, abs=1e-12)
    assert gaps["race=Black"]["equal_opportunity"] < -0.2


def test_facts_are_sentences_for_all_five_questions() -> None:
    facts = large().truth["facts"]
    assert list(facts) == ["flag", "project", "improvability", "treatment_bias", "predictive_parity"]
    for sentences in facts.values():
        assert sentences
        assert all(s.endswith(".") and "fair" not in s.lower() for s in sentences)
    assert "33.3 %" in facts["flag"][1]


def test_bivariate_normal_tail_against_scipy() -> None:
    """Against scipy's algorithm (Genz), to 1e-10."""
    rng = np.random.default_rng(1)
    for _ in range(60):
        a, b, r = *rng.normal(0, 1.5, 2), rng.uniform(-0.99, 0.99)
        known = stats.multivariate_normal.cdf([-a, -b], mean=[0, 0], cov=[[1, r], [r, 1]])
        assert float(both_above(a, b, r)) == pytest.approx(known, abs=1e-10)


def test_proxies_are_calibrated_and_change_nothing_else() -> None:
    plain, table = simulate.lender(6_000, 3).frame(), simulate.lender(6_000, 3, proxies=True)
    frame = table.frame()
    assert plain.equals(frame.select(plain.columns))
    assert table.truth["proxies"]["gamma"] == 1.0
    race = frame["race"].to_numpy()
    for name in ("White", "Black", "Hispanic", "Asian"):
        off = (race == name) - frame[f"p_{name.lower()}"].to_numpy()
        assert abs(off.mean()) < 4 * off.std() / np.sqrt(len(off) / 1.4)
    known = frame.filter(frame["known"] != "")
    assert (known["known"] == known["race"]).all()
    assert 0.06 < len(known) / len(frame) < 0.14
