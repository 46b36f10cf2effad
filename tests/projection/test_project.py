"""`project`: refusals, verdicts, the plan, and the stored result."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from typing import Any

import altair as alt
import numpy as np
import polars as pl
import pytest
from scipy import stats
from sklearn.ensemble import VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

import isonomy as iso
from isonomy import errors
from isonomy.audit import Audit
from isonomy.errors import UnknownOption
from isonomy.frames import open_source
from isonomy.numerics.status import Status
from isonomy.projection import Discerning, ProjectionResult, ToleranceCurve, distances, estimators, words
from isonomy.projection.program.criteria import Equality
from isonomy.projection.program.inference import plan_rows
from isonomy.projection.program.law import Null
from isonomy.projection.project import ProjectPlan
from isonomy.results.theme import specification, to_svg
from support.movement import listed, planned
from support.tables import decided

ROLES: dict[str, Any] = {"outcome": "y", "prediction": "c"}
SCORE: dict[str, Any] = ROLES | {"score": "score", "threshold": 0.2}


def test_an_audit_file_says_what_a_call_says() -> None:
    data = pl.DataFrame(decided(shift=0.4) | {"person": np.arange(2_000) // 2})
    tolerance = {"tpr": 0.05, "fpr": {"below": 0.1}}
    options: dict[str, Any] = {"criterion": "equalized_odds", "threshold": 0.2, "tolerance": tolerance}
    columns: dict[str, Any] = {"outcome": "y", "prediction": "c", "score": "score"}
    test = {"kind": "project", "groups": ["group"], **options}
    audit = Audit.from_dict({"seed": 3, "data": {"cluster": "person"}, "columns": columns, "tests": [test]}, data=data)
    (entry,) = audit.run().entries
    assert isinstance(entry.result, iso.ProjectionResult)
    called = iso.project(data, groups="group", cluster="person", rng=3, **columns, **options)
    assert entry.result.statistic == pytest.approx(called.statistic, rel=1e-12)
    assert entry.result.equivalence_pvalue == called.equivalence_pvalue
    assert entry.result.null == called.null


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"groups": "nobody"}, errors.UnknownColumn, "nobody"),
        ({"method": "corollary", "tolerance": {"above": 0.1}}, errors.UsageError, "two groups and no tolerance"),
        ({"reference": {"group": "z"}}, errors.UnknownOption, "reference"),
        ({"reference": {"grup": "a"}}, errors.UnknownOption, "reference: 'grup' .* mean 'group'.* Allowed: group"),
        ({"reference": {"sex": "F"}}, errors.UnknownOption, "reference: 'sex' .* Allowed: group"),
        ({"score": "sex"}, errors.WrongType, "score: column 'sex'"),
        ({"score": None, "threshold": None, "distance": "sex"}, errors.WrongType, "distance: column 'sex'"),
    ],
)
def test_wrong_calls(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        iso.project(decided(), **({"groups": "group"} | SCORE | options))


def asked(table: object, **options: Any) -> ProjectPlan:
    return planned(open_source(table), **({"groups": "group"} | SCORE | options))


def test_the_first_pass_is_known_from_the_schema() -> None:
    """An audit shares this pass; there is none if rows are read or a threshold must be found first."""
    lazy, eager = pl.DataFrame(decided()).lazy(), pl.DataFrame(decided())
    (request,) = asked(lazy).requests
    assert list(request.binary) == ["outcome", "prediction"]
    assert list(request.values) == ["first", "second", "infinite", "across"]
    assert asked(eager).requests == ()
    assert asked(lazy, threshold=None).requests == ()
    kernel = distances.Kernel(("score",), lambda rows: rows[:, 0], 1.0)
    assert asked(lazy, score=None, threshold=None, distance=kernel).requests == ()


def test_tolerance_verdicts() -> None:
    data = decided(20_000, shift=0.02)
    wide = iso.project(data, groups="sex", criterion="statistical_parity", tolerance=0.1, **SCORE)
    assert wide.verdict is iso.Verdict.WITHIN_TOLERANCE
    assert wide.statistic == 0
    data = decided(20_000, shift=0.5)
    narrow = iso.project(data, groups="group", criterion="statistical_parity", tolerance=0.02, rng=3, **SCORE)
    assert narrow.verdict is iso.Verdict.VIOLATION
    assert narrow.provenance.seed is not None
    assert narrow.null == "The groups' selection rates are within 0.0200 of those of their references."
    upper = iso.project(data, groups="group", criterion="statistical_parity", tolerance={"above": 0.02}, rng=3, **SCORE)
    lower = iso.project(data, groups="group", criterion="statistical_parity", tolerance={"below": 0.02}, rng=3, **SCORE)
    assert upper.verdict is iso.Verdict.VIOLATION  # group b is selected more often than the largest group, a
    assert lower.verdict is not iso.Verdict.VIOLATION


def test_constant_decisions_have_no_pvalue() -> None:
    data = decided()
    data["c"] = np.ones(2_000, dtype=int)
    result = iso.project(data, groups="group", distance="distance", **ROLES)
    assert result.test_status is Status.CONSTANT
    assert np.isnan(result.pvalue)
    assert result.verdict is iso.Verdict.INCONCLUSIVE
    assert any("everybody in some group, has the same decision" in warning for warning in result.warnings)


def test_certainty_is_not_claimed_for_a_handful() -> None:
    """Five rows per group, all selected: there is no observed difference, and nothing is shown about the tolerance."""
    data = {"g": ["a"] * 5 + ["b"] * 5, "c": [1] * 10, "d": np.linspace(0.1, 1.0, 10)}
    result = iso.project(data, prediction="c", groups="g", distance="d", criterion="statistical_parity", tolerance=0.1)
    assert result.verdict is iso.Verdict.INCONCLUSIVE
    data["c"] = [1] * 5 + [1, 1, 1, 1, 0]
    result = iso.project(data, prediction="c", groups="g", distance="d", criterion="statistical_parity", tolerance=0.3)
    assert result.verdict is iso.Verdict.INCONCLUSIVE
    assert any("fewer than 10 rows" in w for w in result.warnings)


@pytest.mark.parametrize(
    "criterion", ["equal_opportunity", "predictive_equality", "equalized_odds", "statistical_parity"]
)
@pytest.mark.parametrize("groups", ["sex", "group", ["group", "sex"]])
def test_the_plan_does_what_it_says(criterion: Equality, groups: Any) -> None:
    """Flipping the listed rows, by the listed fractions, makes every compared rate equal."""
    data = decided(shift=0.3)
    result = iso.project(data, groups=groups, criterion=criterion, **SCORE)
    assert result.test_status is Status.OK
    assert result.statistic == pytest.approx(float(listed(result).fraction @ listed(result).distance), rel=1e-9)
    assert np.all(np.diff(listed(result).distance) >= 0)
    final = data["c"].astype(float)
    rows = listed(result).row
    final[rows] += np.where(data["c"][rows] == 1, -1, 1) * listed(result).fraction
    for column in [groups] if isinstance(groups, str) else groups:
        for label in {"equal_opportunity": [1], "predictive_equality": [0], "equalized_odds": [0, 1]}.get(
            criterion, [None]
        ):
            within = np.ones(len(final), bool) if label is None else data["y"] == label
            rates = [final[within & (data[column] == level)].mean() for level in np.unique(data[column])]
            assert rates == pytest.approx([rates[0]] * len(rates), abs=1e-10)


def test_a_planted_difference_is_found() -> None:
    result = iso.project(decided(shift=0.5), groups="group", criterion="statistical_parity", **SCORE)
    assert result.verdict is iso.Verdict.VIOLATION
    assert result.pvalue < 1e-6
    assert result.statistic > result.critical_value
    assert result.wald_pvalue < 1e-6
    b = result.labels.index("group=b")
    assert result.disparity[b] > 0.05
    assert result.ci_low[b] < result.disparity[b] < result.ci_high[b]
    assert result.status[result.labels.index("group=a")] is Status.REFERENCE


def test_equal_rates_cost_nothing() -> None:
    data = {"g": ["a", "a", "b", "b"] * 50, "c": [0, 1, 0, 1] * 50, "d": np.linspace(0.1, 1, 200)}
    result = iso.project(data, prediction="c", groups="g", distance="d", criterion="statistical_parity")
    assert result.statistic == 0
    assert result.pvalue == 1
    assert result.verdict is iso.Verdict.INCONCLUSIVE
    assert listed(result).row.size == 0
    assert "No decision would have to change" in result.summary()


def test_base_level_does_not_matter_for_equality() -> None:
    data = decided(shift=0.2)
    by = [iso.project(data, groups="group", reference={"group": level}, **SCORE) for level in "abc"]
    assert [r.statistic for r in by] == pytest.approx([by[0].statistic] * 3, rel=1e-9)
    assert [r.pvalue for r in by] == pytest.approx([by[0].pvalue] * 3, rel=1e-6)
    assert by[1].against == ("group=b",) * 3


def test_zero_tolerance_is_equality() -> None:
    data = decided(shift=0.2)
    exact, zero = (iso.project(data, groups="group", tolerance=t, **SCORE) for t in (None, 0.0))
    assert exact.pvalue == zero.pvalue


def test_infinite_distances_never_move() -> None:
    data = decided(shift=0.3)
    free = data["distance"].copy()
    stuck = np.random.default_rng(1).random(free.size) < 0.5
    data["distance"] = np.where(stuck, np.inf, free)
    result = iso.project(data, groups="group", distance="distance", **ROLES)
    assert result.test_status is Status.OK
    assert not stuck[listed(result).row].any()


def test_free_rows_move_first() -> None:
    data = decided(shift=0.3)
    data["distance"] = np.where(np.arange(2_000) % 10 == 0, 0.0, data["distance"])
    result = iso.project(data, groups="group", distance="distance", **ROLES)
    assert (listed(result).distance[:5] == 0).all()


def test_whole_people_only() -> None:
    """No fractions remain, and the remaining difference is less than one person of each group."""
    data = decided(shift=0.3)
    for groups in ("group", "sex"):
        result = iso.project(data, groups=groups, criterion="statistical_parity", **SCORE)
        plan = result.moved_rows(whole=True)
        assert plan is not None
        assert set(plan.fraction) == {1.0}
        final = data["c"].copy()
        final[plan.row] = 1 - final[plan.row]
        rates = [final[data[groups] == level].mean() for level in np.unique(data[groups])]
        smallest = min((data[groups] == level).sum() for level in np.unique(data[groups]))
        assert np.ptp(rates) <= 1 / smallest


def test_a_plan_is_looked_up_when_it_is_asked_for() -> None:
    """Nobody is listed before; a table that has changed since is refused."""
    data = decided(shift=0.3)
    result = iso.project(data, groups="group", criterion="statistical_parity", **SCORE)
    assert callable(result.listing)
    assert listed(result) is listed(result)


def test_planning_is_the_usual_arithmetic() -> None:
    """Two groups of equal size and rate 1/2: se = 1 / sqrt(n)."""
    rng = np.random.default_rng(0)
    group = np.repeat(["a", "b"], 10_000)
    score = rng.permutation(np.tile([-1.0, 1.0], 10_000)) * rng.random(20_000)
    data = {"g": group, "s": score, "c": score >= 0}
    roles: dict[str, Any] = {"prediction": "c", "groups": "g", "score": "s", "threshold": 0.0, "rng": 0}
    plain, tolerant = (iso.project(data, criterion="statistical_parity", tolerance=t, **roles) for t in (None, 0.05))
    b = plain.status.index(Status.OK)
    error = np.sqrt(2 * 0.25 / 10_000)
    assert plain.detectable[b] == pytest.approx((1.959964 + 0.841621) * error, rel=1e-3)
    assert np.isnan(plain.rows_needed[b])
    assert tolerant.detectable[b] == pytest.approx(0.05 + (1.644854 + 0.841621) * error, rel=1e-3)
    assert tolerant.rows_needed[b] == pytest.approx(2 * 0.25 * ((1.644854 + 1.281552) / 0.05) ** 2, rel=2e-3)
    # A tiny tolerance is no easier than none.
    slight = iso.project(data, criterion="statistical_parity", tolerance=1e-6, **roles)
    assert slight.detectable[b] == pytest.approx(plain.detectable[b], rel=1e-3)


def test_few_clusters_show_less_and_need_more_rows() -> None:
    """An error of 0.05 with 9 degrees of freedom: Student's t, with degrees of freedom in proportion to the rows."""
    null, error, size = Null(np.array([-0.2]), np.array([0.2])), np.array([0.05]), np.array([1_200.0])
    smallest, needed = plan_rows(null, error, size, 0.05, 9.0)
    assert smallest[0] == pytest.approx(0.2 + (stats.t.isf(0.05, 9) + stats.t.isf(0.2, 9)) * 0.05, rel=1e-4)
    freedom = 9 * needed[0] / 1_200
    expected = 1_200 * ((stats.t.isf(0.05, freedom) + stats.t.isf(0.1, freedom)) * 0.05 / 0.2) ** 2
    assert needed[0] == pytest.approx(expected, rel=2e-3)
    assert needed[0] > 1.1 * plan_rows(null, error, size, 0.05, np.inf)[1][0]


def test_json_round_trip(result: ProjectionResult) -> None:
    again = iso.from_json(result.to_json())
    assert isinstance(again, ProjectionResult)
    assert again.to_json() == result.to_json()
    assert again.plan is None
    assert again.to_frame().equals(result.to_frame().drop("reach"))  # one person's distance is not stored
    again.plot()


def test_rows_are_stored_only_on_request(result: ProjectionResult) -> None:
    stored = json.loads(result.to_json())["result"]
    assert stored["listing"] is None
    with_rows = iso.from_json(result.to_json(rows=True))
    assert listed(with_rows).to_frame().equals(listed(result).to_frame())
    assert with_rows.to_json() == result.to_json()


def test_no_row_is_shown(result: ProjectionResult) -> None:
    """Texts, tables and charts are the same without the rows."""
    without = replace(result, listing=None)
    assert without.summary() == result.summary()
    assert without.to_frame().equals(result.to_frame())
    assert specification(without.plot()) == specification(result.plot())


def test_tables(result: ProjectionResult) -> None:
    frame = result.to_frame()
    assert isinstance(frame, pl.DataFrame)
    assert frame.height == 6
    assert list(frame["status"]).count("reference") == 2
    assert result.to_frame("pandas").shape == frame.shape
    plan = listed(result).to_frame()
    assert plan.columns == ["row", "group", "outcome", "decision", "distance", "fraction", "s from", "s to"]
    assert plan["s to"].to_list() == [0.0] * plan.height
    assert set(plan["decision"]) == {"refused to selected", "selected to refused"}
    up = plan["decision"] == "refused to selected"
    assert (plan["s from"].filter(up) < 0).all()
    assert (plan["s from"].filter(~up) >= 0).all()
    with pytest.raises(UnknownOption, match="backend"):
        listed(result).to_frame("numpy")


def test_what_a_plan_does_not_know_is_empty() -> None:
    """-1 could be mistaken for the last row, or for an outcome."""
    rng = np.random.default_rng(6)
    score, sex = rng.normal(size=500), rng.choice(["F", "M"], 500)
    data = pl.DataFrame({"sex": sex, "s": score + (sex == "F"), "c": score + (sex == "F") >= 0}).lazy()
    own = Discerning(
        u={"women": iso.col("sex") == "F", "men": iso.col("sex") == "M"},
        phi=lambda u, mean: u[:, 0] / mean[0] - u[:, 1] / mean[1],
        names=("women against men",),
    )
    plan = listed(iso.project(data, prediction="c", score="s", threshold=0.0, criterion=own)).to_frame()
    assert plan["row"].null_count() == plan["outcome"].null_count() == plan.height > 0
    assert set(plan["group"]) == {"women=1 & men=0", "women=0 & men=1"}


def test_suppression(result: ProjectionResult) -> None:
    hidden = result.suppressed(80)
    small = result.n < 80
    assert small.any()
    withheld = np.isnan(hidden.estimate)
    assert withheld[small].all()
    groups = np.array(result.labels)
    assert (withheld == np.isin(groups, groups[withheld])).all()  # withheld for one outcome, so also for the other
    assert len(set(groups[withheld])) > 1  # a single one would follow from everybody
    assert [s is Status.SUPPRESSED for s in hidden.status] == withheld.tolist()
    assert hidden.plan is None
    assert result.suppressed(1).plan is None
    assert result.suppressed(1).to_json() == result.to_json()
    hidden.summary()
    hidden.plot()


def test_a_small_reference_is_not_given_away_by_differences() -> None:
    """A rate minus its difference from the reference is the rate of the reference."""
    rng = np.random.default_rng(8)
    group = np.array(["few"] * 20 + ["many"] * 500 + ["more"] * 500)
    score = rng.normal(size=group.size)
    answer = iso.project(
        {"g": group, "s": score, "c": score >= 0},
        prediction="c",
        groups="g",
        score="s",
        threshold=0.0,
        criterion="statistical_parity",
        reference={"g": "few"},
    )
    hidden = answer.suppressed(30)
    assert np.isfinite(hidden.estimate).tolist() == [False, False, True]  # "few" alone would follow from everybody
    assert np.isnan(hidden.disparity).all()
    assert np.isnan(hidden.ci_low).all()
    assert str(round(float(answer.estimate[0]), 3)) not in hidden.summary()


def test_a_plan_is_a_table_of_the_callers_library() -> None:
    rng = np.random.default_rng(5)
    group, score = rng.choice(["a", "b"], 500), rng.normal(size=500)
    score += group == "b"
    data = pl.DataFrame({"g": group, "s": score, "c": score >= 0})
    roles: dict[str, Any] = {"prediction": "c", "groups": "g", "score": "s", "threshold": 0.0}
    answer = [
        iso.project(table, criterion="statistical_parity", **roles) for table in (data, data.to_pandas(), data.lazy())
    ]
    assert [type(listed(r).to_frame()).__module__.split(".")[0] for r in answer] == ["polars", "pandas", "polars"]
    assert listed(answer[1]).to_frame("pyarrow").num_rows == listed(answer[0]).row.size
    assert answer[0].to_json(rows=True) == answer[1].to_json(rows=True)
    assert answer[0].to_json() == answer[1].to_json()  # the library is not part of the result
    for wrong in ("numpy", "", 3):
        with pytest.raises(UnknownOption, match="backend"):
            listed(answer[0]).to_frame(wrong)  # type: ignore[arg-type]


def test_a_complete_plan_is_not_called_shortened() -> None:
    """Lines that stand for several rows are fewer than the rows that move."""
    rng = np.random.default_rng(3)
    group, score = rng.choice(["a", "b"], 300), rng.normal(size=300)
    score += 0.5 * (group == "b")
    data = pl.DataFrame({"g": group, "s": score, "c": score >= 0, "n": np.full(300, 9)})
    answer = iso.project(
        data, prediction="c", groups="g", score="s", threshold=0.0, criterion="statistical_parity", count="n"
    )
    assert answer.moved > listed(answer).row.size + 1
    assert listed(answer).complete


def pair(shift: float, n: int = 4_000, **options: Any) -> ProjectionResult:
    rng = np.random.default_rng(7)
    group = rng.choice(["a", "b"], n, p=[0.6, 0.4])
    score = rng.normal(size=n) + shift * (group == "b")
    data = {"g": group, "s": score, "c": score >= 0}
    return iso.project(
        data, prediction="c", groups="g", score="s", threshold=0.0, criterion="statistical_parity", **options
    )


def test_without_a_tolerance_no_number_of_rows_settles_it() -> None:
    plain, bounded = pair(0.0), pair(0.0, tolerance=0.001)
    for answer in (plain, bounded, pair(0.0, tolerance=0.0)):
        assert answer.verdict is iso.Verdict.INCONCLUSIVE
    for answer in (plain, pair(0.0, tolerance=0.0)):
        assert "no number of rows can show that groups are equal" in answer.summary()
        assert "within tolerance" not in answer.headline()
        assert "could not tell" not in answer.summary()
    assert "neither show a difference" in bounded.headline()
    untested = replace(plain, pvalue=float("nan"))
    assert "Not answered" in untested.headline()


def test_picture(result: ProjectionResult) -> None:
    chart = specification(result.plot())
    assert len(chart["hconcat"]) == 2
    svg = to_svg(result.plot())
    assert "<b>mid" not in svg  # a label is text, never markup


def values(chart: alt.TopLevelMixin) -> list[list[dict[str, Any]]]:
    """The values in each panel."""
    drawn = specification(chart)
    return [drawn["datasets"][panel["data"]["name"]] for panel in drawn["hconcat"]]


def test_groups_that_do_not_move_have_no_mark(result: ProjectionResult) -> None:
    one, unknown = np.array([5.0, 5.0]), np.array([np.nan, 1.0])
    both = (iso.Group.from_mapping({"g": "a"}), iso.Group.from_mapping({"g": "b"}))
    two = replace(
        result, groups=both, outcome=(None, 1), n=one, moved_up=one, moved_down=one, disparity=np.array([0.2, 0.1])
    )
    _, distances = values(replace(two, mean_distance=unknown).plot())
    assert [value["group"] for value in distances] == ["g=a", "g=b, outcome 1"]
    assert [value["mean"] for value in distances] == [None, 1.0]


def test_the_tolerance_curve_is_drawn_below(result: ProjectionResult) -> None:
    grid = np.linspace(0.0, 0.2, 5)
    curve = ToleranceCurve(tolerance=grid, pvalue=grid * 5, within_pvalue=1 - grid * 5, least=0.01, most=0.19)
    chart = specification(replace(result, curve=curve).plot())
    movement, below = chart["vconcat"]
    assert len(movement["hconcat"]) == 2
    lines, level = below["layer"]
    points = chart["datasets"][lines["data"]["name"]]
    assert len(points) == 10
    assert {point["test"] for point in points} == {words.WITHIN, words.BEYOND}
    assert chart["datasets"][level["data"]["name"]] == [{"p": 0.05}]
    to_svg(replace(result, curve=curve).plot())


def test_a_pickle_has_the_numbers_and_no_rows() -> None:
    rng = np.random.default_rng(0)
    score = rng.random(600)
    table = {"g": rng.choice(["a", "b"], 600), "d": (score > 0.5).astype(int), "score": score}
    options: dict[str, Any] = {"groups": "g", "prediction": "d", "criterion": "statistical_parity"}
    result = iso.project(table, **options, score="score", threshold=0.5)
    assert result.plan is not None
    again = pickle.loads(pickle.dumps(result))
    assert again.plan is None
    assert again.to_json() == result.to_json()


# ---- models


def applicants(rows: int = 1_500, seed: int = 4) -> tuple[pl.DataFrame, Any]:
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 2, rows)
    x = rng.normal(size=(rows, 2)) + 0.3 * group[:, None]
    y = (x @ [1.0, 0.7] + rng.logistic(size=rows) > 0).astype(int)
    return pl.DataFrame({"a": x[:, 0], "b": x[:, 1], "y": y, "group": group}), LogisticRegression().fit(x, y)


MODEL: dict[str, Any] = {"outcome": "y", "groups": "group"}


def named(model: Any, table: pl.DataFrame) -> Any:
    return model.fit(table.select("a", "b").to_pandas(), table["y"].to_numpy())


def test_a_model_stands_for_its_decisions() -> None:
    table, model = applicants()
    model = named(model, table)
    decided = table.with_columns(c=model.predict(table.select("a", "b").to_pandas()))
    by_column = iso.project(decided, prediction="c", distance=model, **MODEL)
    for data in (table, table.lazy(), table.to_pandas()):
        assert iso.project(data, model=model, **MODEL).pvalue == pytest.approx(by_column.pvalue, rel=1e-9)
    strict = iso.project(table, model=model, threshold=0.6, **MODEL)
    assert strict.estimate[0] < by_column.estimate[0]


def test_a_classifier_known_by_its_decisions_is_searched() -> None:
    """On the way to the nearest people with the other decision; for a linear boundary nearly the exact distance."""
    table, model = applicants(3_000)
    model = named(model, table)
    exact = estimators.distance(model)
    x = table.select("a", "b").to_numpy()
    searched = distances.Searched(("a", "b"), exact.selects, "LogisticRegression")
    found, true = searched.evaluate(x), exact.evaluate(x)
    assert (np.sign(found) == np.sign(true)).all()
    near = np.abs(true) < 1.0
    assert (np.abs(found) >= np.abs(true) - 1e-6).all()
    assert np.median(np.abs(found[near]) / np.abs(true[near])) < 1.2
    neighbors = named(KNeighborsClassifier(25), table)
    result = iso.project(table, model=neighbors, **MODEL)
    assert any("known only by its decisions" in warning for warning in result.warnings)
    with pytest.raises(errors.UsageError, match="cannot be computed inside an engine"):
        iso.project(table.lazy(), model=neighbors, **MODEL)
    with pytest.raises(errors.UsageError, match=r"threshold: 1.0 is not strictly between 0 and 1\."):
        iso.project(table, model=neighbors, threshold=1.0, **MODEL)
    with pytest.raises(errors.UsageError, match=r"threshold: VotingClassifier predicts no probabilities; leave it out"):
        iso.project(
            table, model=named(VotingClassifier([("k", KNeighborsClassifier(25))]), table), threshold=0.5, **MODEL
        )


@pytest.mark.parametrize("model", [DecisionTreeClassifier(max_depth=4), LogisticRegression(), KNeighborsClassifier(25)])
def test_the_rows_of_the_nearly_optimal_table_change_their_decision(model: Any) -> None:
    table, _ = applicants()
    model = named(model, table)
    result = iso.project(table, model=model, **MODEL, criterion="statistical_parity")
    assert result.plan is not None
    near = result.plan.projected(1e-3)
    assert (model.predict(near.select("a", "b").to_pandas()) == near["decision"].to_numpy()).all()
    # With the rows that stay, the rates are equal.
    stay = ~np.isin(np.arange(len(table)), near["row"].to_numpy())
    group = np.concatenate([table["group"].to_numpy()[stay], table["group"].to_numpy()[near["row"].to_numpy()]])
    decision = np.concatenate([model.predict(table.select("a", "b").to_pandas())[stay], near["decision"].to_numpy()])
    mass = np.concatenate([np.ones(stay.sum()), near["mass"].to_numpy()])
    rates = [np.average(decision[group == g], weights=mass[group == g]) for g in (0, 1)]
    assert rates[0] == pytest.approx(rates[1], abs=1e-9)
    with pytest.raises(errors.UsageError, match="epsilon"):
        result.plan.projected(0.0)


def test_what_the_law_is_made_of() -> None:
    """Corollary 1 as printed, by hand; f(0), S and Sigma; Welch's test by scipy; the price of each comparison."""
    data = decided(shift=0.2)
    options: dict[str, Any] = {"groups": "sex", "criterion": "equal_opportunity", **SCORE}
    printed, published = (iso.project(data, method=method, **options) for method in ("corollary", "published"))
    columns = {name: np.asarray(data[name]) for name in ("c", "y", "sex", "score")}
    u1, u2 = ((columns["y"] == 1) & (columns["sex"] == level) for level in np.unique(columns["sex"]))
    c, n = columns["c"], columns["c"].size
    if printed.against[0] == "":
        u1, u2 = u2, u1
    mu1, mu2 = u1.mean(), u2.mean()
    variance = np.var(c * (mu2 * u1 - mu1 * u2) + u2 * np.mean(u1 * c) - u1 * np.mean(u2 * c))
    kernel = stats.norm.pdf(columns["score"] - 0.2, scale=n ** (-1 / 5))
    bottom = 2 * (mu2**2 * np.mean(kernel * u1) + mu1**2 * np.mean(kernel * u2))
    assert printed.weights == pytest.approx([variance / bottom], rel=1e-9)
    assert published.density == pytest.approx(kernel.mean(), rel=1e-9)
    assert published.covariance is not None
    assert published.curvature is not None
    assert published.weights[0] == pytest.approx(published.covariance[0, 0] / published.curvature[0, 0] / 2, rel=1e-12)
    halves = [c[(columns["y"] == 1) & (columns["sex"] == level)].astype(float) for level in np.unique(columns["sex"])]
    line = int(np.flatnonzero(~np.isnan(printed.welch_pvalue))[0])
    assert printed.welch_pvalue[line] == pytest.approx(stats.ttest_ind(*halves, equal_var=False).pvalue, rel=1e-9)
    # The last row to move goes as far as the price says.
    assert printed.plan is not None
    group_rows = halves[0].size, halves[1].size
    prices = [abs(printed.multiplier[line]) * n / rows for rows in group_rows]
    assert min(abs(printed.plan.distance.max() - price) for price in prices) < 1e-9
