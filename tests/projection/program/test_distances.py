"""Distances of every kind, with arrays and with expressions."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, PolynomialFeatures, RobustScaler, StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier

import isonomy as iso
from isonomy.errors import DataError, MissingValues, UnknownColumn, UsageError
from isonomy.frames import open_source
from isonomy.numerics.arrays import FloatArray
from isonomy.numerics.status import Status
from isonomy.projection import distances, estimators
from support.movement import listed
from support.tables import decided


@pytest.mark.parametrize("names", ["ab", 3, ("a", 1), None])
def test_names_are_a_sequence_of_names(names: Any) -> None:
    with pytest.raises(UsageError, match=r"features: .* is not allowed; give a list"):
        distances.Linear(names, (1.0, 1.0))


def test_a_distance_of_ones_own_needs_columns_and_values() -> None:
    class Own(distances.Distance):
        features = ("x",)

        def evaluate(self, features: Any) -> Any:
            return features[:, 0]

    own = Own()
    assert own.columns == ("x",)
    assert own.expression() is None
    assert own.move(np.zeros((1, 1))) is None


ORDER: dict[str, Any] = {"l1": 1, "l2": 2, "linf": np.inf}


def evaluate(distance: distances.Distance, columns: dict[str, FloatArray]) -> FloatArray:
    """An expression's values on a table."""
    expression = distance.expression()
    assert expression is not None
    frame = open_source(columns).frame.select(expression.alias("d")).collect().to_native()
    return np.asarray(frame["d"])


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
def test_linear(norm: Any) -> None:
    rng = np.random.default_rng(0)
    x, theta = rng.normal(size=(50, 3)), (1.0, -2.0, 0.5)
    plane = distances.Linear(("a", "b", "c"), theta, 0.3, norm)
    signed = plane.evaluate(x)
    assert evaluate(plane, dict(zip("abc", x.T, strict=True))) == pytest.approx(signed, rel=1e-12)
    moved = plane.move(x)
    assert moved @ np.array(theta) + 0.3 == pytest.approx(np.zeros(50), abs=1e-12)
    assert np.linalg.norm(x - moved, ORDER[norm], axis=1) == pytest.approx(np.abs(signed), rel=1e-12)
    # No point of the plane is closer: all random points are at least as far away.
    free = rng.normal(size=(2_000, 3)) * 5
    free[:, 0] = -(free[:, 1] * theta[1] + free[:, 2] * theta[2] + 0.3) / theta[0]
    for row, d in zip(x[:5], signed, strict=False):
        assert np.linalg.norm(free - row, ORDER[norm], axis=1).min() >= abs(d) - 1e-12


def test_mixed_against_brute_force() -> None:
    rng = np.random.default_rng(1)
    allowed = tuple(itertools.product((0.0, 1.0), (0.0, 1.0, 2.0)))
    linear = distances.Linear(("u", "v", "x", "y"), (1.0, -0.7, 0.4, 0.3), -0.5)
    mixed = distances.Mixed(linear, ("u", "v"), allowed, delta=0.6)
    discrete = np.array(allowed)[rng.integers(0, 6, 300)]
    continuous = rng.normal(size=(300, 2)) * 3
    columns = dict(zip("uvxy", np.column_stack([discrete, continuous]).T, strict=True))
    signed = mixed.evaluate(np.column_stack([columns[name] for name in mixed.columns]))
    size = np.hypot(0.4, 0.3)
    for i in range(300):
        margin = discrete[i] @ [1.0, -0.7] + continuous[i] @ [0.4, 0.3] - 0.5
        costs = []
        for point in allowed:
            after = np.array(point) @ [1.0, -0.7] + continuous[i] @ [0.4, 0.3] - 0.5
            crossed = (after >= 0) != (margin >= 0)
            jump = 0.0 if tuple(discrete[i]) == point else 0.6
            costs.append(jump + (0.0 if crossed else abs(after) / size))
        assert abs(signed[i]) == pytest.approx(min(costs), rel=1e-9, abs=1e-12)
        assert (signed[i] >= 0) == (margin >= 0)


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
def test_mixed_moves_where_its_distance_is_attained(norm: Any) -> None:
    rng = np.random.default_rng(4)
    allowed = tuple(itertools.product((0.0, 1.0), (0.0, 1.0, 2.0)))
    # The discrete features are first and last, so that mixed-up positions are detected.
    theta, intercept = np.array([1.0, 0.4, 0.3, -0.7]), -0.5
    linear = distances.Linear(("u", "x", "y", "v"), tuple(theta), intercept, norm)
    mixed = distances.Mixed(linear, ("u", "v"), allowed, delta=0.6)
    discrete, continuous = np.array(allowed)[rng.integers(0, 6, 300)], rng.normal(size=(300, 2)) * 3
    start = np.column_stack([discrete[:, 0], continuous, discrete[:, 1]])
    signed, end = mixed.evaluate(start), mixed.move(start)
    jumped = (end[:, [0, 3]] != start[:, [0, 3]]).any(axis=1)
    paid = 0.6 * jumped + np.linalg.norm((end - start)[:, [1, 2]], ORDER[norm], axis=1)
    assert paid == pytest.approx(np.abs(signed), rel=1e-9, abs=1e-12)
    assert {tuple(point) for point in end[:, [0, 3]]} <= set(allowed)
    # No longer on its original side: on the boundary, or beyond it if the jump alone crosses it.
    assert (np.where(signed >= 0, 1, -1) * (end @ theta + intercept) <= 1e-12).all()
    alone = jumped & (end[:, [1, 2]] == start[:, [1, 2]]).all(axis=1)
    assert 0 < alone.sum() < jumped.sum() < 300


def test_mixed_when_everything_is_discrete() -> None:
    linear = distances.Linear(("u",), (1.0,), -1.5)
    mixed = distances.Mixed(linear, ("u",), ((0.0,), (1.0,), (2.0,)), delta=2.0)
    assert mixed.evaluate(np.array([[0.0], [2.0]])).tolist() == [-2.0, 2.0]
    assert mixed.move(np.array([[0.0], [2.0]])).tolist() == [[2.0], [0.0]]
    stuck = distances.Mixed(distances.Linear(("u",), (1.0,), -3.5), ("u",), ((0.0,), (1.0,), (2.0,)), delta=2.0)
    assert stuck.evaluate(np.array([[0.0], [2.0]])).tolist() == [-np.inf, -np.inf]
    assert np.isnan(stuck.move(np.array([[0.0]]))).all()


def test_the_plan_of_a_mixed_distance_says_where_rows_go(people: pl.DataFrame) -> None:
    flag = (people["z"].to_numpy() > 0).astype(float)
    data = people.with_columns(pl.Series("u", flag))
    linear = distances.Linear(("x", "u"), (1.0, 1.5), -2.0)
    mixed = distances.Mixed(linear, ("u",), ((0.0,), (1.0,)), delta=0.01)
    data = data.with_columns(c=(pl.col("x") + 1.5 * pl.col("u") >= 2.0).cast(pl.Int8))
    for table in (data, data.lazy()):
        roles: dict[str, Any] = {"prediction": "c", "groups": "g", "criterion": "statistical_parity"}
        plan = listed(iso.project(table, distance=mixed, **roles))
        assert plan.features == ("x", "u")
        assert plan.row.size > 3
        assert plan.end == pytest.approx(mixed.move(plan.start), rel=1e-12)
        assert np.abs(mixed.evaluate(plan.start)) == pytest.approx(plan.distance, rel=1e-9)


@pytest.mark.parametrize(("argument", "value"), [("immutable", ("u",)), ("costs", {"u": 3.0})])
def test_what_may_jump_has_no_other_price(argument: str, value: Any) -> None:
    """A jump would move an immutable feature and ignore its cost."""
    linear = distances.Linear(("x", "u"), (1.0, 1.0), -3.5, **{argument: value})
    with pytest.raises(UsageError, match=f"{argument}: u may jump"):
        distances.Mixed(linear, ("u",), ((0.0,), (1.0,)), delta=0.01)


ROLES: dict[str, Any] = {"outcome": "y", "prediction": "c"}
SCORE: dict[str, Any] = ROLES | {"score": "score", "threshold": 0.2}


def classifiers() -> list[Any]:
    return [
        LogisticRegression(),
        RidgeClassifier(),
        LinearSVC(),
        SVC(kernel="linear"),
        SVC(kernel="rbf"),
        SVC(kernel="poly", degree=2),
        DecisionTreeClassifier(max_depth=4, random_state=0),
        make_pipeline(StandardScaler(), LogisticRegression()),
        make_pipeline(MinMaxScaler(), RobustScaler(), LinearSVC()),
        make_pipeline(StandardScaler(), SVC()),
        make_pipeline(StandardScaler(), DecisionTreeClassifier(max_depth=3, random_state=0)),
    ]


@pytest.mark.parametrize("model", classifiers(), ids=lambda m: "-".join(str(s) for s in str(m).split())[:40])
def test_the_sign_is_the_models_decision(model: Any, people: pl.DataFrame) -> None:
    features = people.select("x", "z").to_pandas()
    model.fit(features, people["y"].to_numpy())
    decided = model.predict(features)
    distance = estimators.distance(model)
    values = people.select("x", "z").to_numpy()
    signed = distance.evaluate(values)
    far = np.abs(signed) > 1e-6
    assert ((signed > 0) == (decided == 1))[far].all()
    data = people.with_columns(pl.Series("c", decided))
    result = iso.project(data, outcome="y", prediction="c", groups="g", distance=model)
    assert result.statistic >= 0
    assert result.test_status in (Status.OK, Status.ATOMS, Status.UNSUPPORTED)
    moved = distance.move(values)
    if moved is not None and not isinstance(distance, distances.Kernel):
        assert np.linalg.norm(moved - values, axis=1) == pytest.approx(np.abs(signed), rel=1e-9, abs=1e-12)
        # A step beyond the point reached changes the decision.
        beyond = values + (moved - values) * (1 + 1e-4)
        with_names = pl.DataFrame({"x": beyond[:, 0], "z": beyond[:, 1]}).to_pandas()
        assert (model.predict(with_names) != decided)[np.abs(signed) > 1e-3].mean() > 0.99


def test_kernel_distance_is_the_norm_of_its_own_space(people: pl.DataFrame) -> None:
    """With a linear kernel the two distances are the same number."""
    features = people.select("x", "z").to_numpy()
    model = SVC(kernel="poly", degree=1, gamma=1.0, coef0=0.0).fit(features, people["y"].to_numpy())
    kernel = estimators.distance(model, ["x", "z"])
    assert isinstance(kernel, distances.Kernel)
    theta = model.dual_coef_[0] @ model.support_vectors_
    plane = distances.Linear(("x", "z"), tuple(theta), float(model.intercept_[0]))
    assert kernel.evaluate(features) == pytest.approx(plane.evaluate(features), rel=1e-6)


def test_squared_kernel_cost_gives_a_plan_and_no_pvalue(people: pl.DataFrame) -> None:
    features = people.select("x", "z").to_numpy()
    model = SVC().fit(features, people["y"].to_numpy())
    data = people.with_columns(pl.Series("c", model.predict(features)))
    squared = estimators.distance(model, ["x", "z"], squared=True)
    result = iso.project(data, outcome="y", prediction="c", groups="g", distance=squared)
    assert np.isnan(result.pvalue)
    assert np.isfinite(result.wald_pvalue)
    assert result.verdict is iso.Verdict.INCONCLUSIVE
    assert listed(result).row.size > 0
    assert any("squared" in w for w in result.warnings)


def test_squared_is_honoured_or_refused_never_ignored(people: pl.DataFrame) -> None:
    x, y = people.select("x", "z").to_numpy(), people["y"].to_numpy()
    plain = SVC(kernel="linear").fit(x, y)
    squared = estimators.distance(plain, ["x", "z"], squared=True)
    assert not squared.tested
    assert squared.evaluate(x) == pytest.approx(np.sign(d := estimators.distance(plain, ["x", "z"]).evaluate(x)) * d**2)
    data = people.with_columns(pl.Series("c", plain.predict(x)))
    assert np.isnan(iso.project(data, outcome="y", prediction="c", groups="g", distance=squared).pvalue)
    for model in (LogisticRegression(), LinearSVC(), DecisionTreeClassifier(max_depth=2)):
        with pytest.raises(UsageError, match=f"squared: True .*{type(model).__name__}"):
            estimators.distance(model.fit(x, y), ["x", "z"], squared=True)
    with pytest.raises(UsageError, match="norm: 'l1'"):
        estimators.distance(SVC().fit(x, y), ["x", "z"], norm="l1")


def test_a_cut_of_ones_own(people: pl.DataFrame) -> None:
    features = people.select("x", "z").to_numpy()
    model = LogisticRegression().fit(features, people["y"].to_numpy())
    signed = estimators.distance(model, ["x", "z"], threshold=0.3).evaluate(features)
    assert ((signed >= 0) == (model.predict_proba(features)[:, 1] >= 0.3)).all()
    tree = DecisionTreeClassifier(max_depth=3).fit(features, people["y"].to_numpy())
    signed = estimators.distance(tree, ["x", "z"], threshold=0.2).evaluate(features)
    assert ((signed > 0) == (tree.predict_proba(features)[:, 1] >= 0.2)).all()
    for other in (model, tree):
        with pytest.raises(UsageError, match="threshold: 5"):
            estimators.distance(other, ["x", "z"], threshold=5)


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
def test_tree_against_a_grid(norm: Any, people: pl.DataFrame) -> None:
    """No grid point with the other decision is closer than the distance, and some are almost as close."""
    features = people.select("x", "z").to_numpy()
    tree = DecisionTreeClassifier(max_depth=4, random_state=1).fit(features, people["y"].to_numpy())
    signed = estimators.distance(tree, ["x", "z"], norm=norm).evaluate(features[:40])
    side = np.linspace(-12, 12, 400)
    grid = np.array(list(itertools.product(side, side)))
    decided = tree.predict(grid)
    for row, d, own in zip(features[:40], signed, tree.predict(features[:40]), strict=True):
        nearest = np.linalg.norm(grid[decided != own] - row, ORDER[norm], axis=1).min()
        assert abs(d) - 1e-9 <= nearest <= abs(d) + 0.13


@pytest.mark.parametrize("model", [LogisticRegression(), SVC(), DecisionTreeClassifier(max_depth=4, random_state=0)])
@pytest.mark.parametrize("lazy", [False, True])
def test_any_distance_can_be_priced_by_group(model: Any, lazy: bool, people: pl.DataFrame) -> None:
    """The plan multiplies the price of each row by the factor of its group, and moves it to the same point."""
    x = people.select("x", "z").to_numpy()
    model.fit(x, people["y"].to_numpy())
    inner = estimators.distance(model, ["x", "z"])
    priced = distances.PerGroup(inner, "g", {"a": 1.0, "b": 3.0})
    data = people.with_columns(pl.Series("c", model.predict(x)))
    roles: dict[str, Any] = {"prediction": "c", "groups": "g", "criterion": "statistical_parity"}
    result = iso.project(data.lazy() if lazy else data, distance=priced, **roles)
    factor = np.where(people["g"].to_numpy() == "a", 1.0, 3.0)
    by_hand = data.with_columns(pl.Series("d", factor * np.abs(inner.evaluate(x))))
    expected = iso.project(by_hand, distance="d", **roles)
    assert result.statistic == pytest.approx(expected.statistic, rel=1e-9)
    assert result.wald_pvalue == pytest.approx(expected.wald_pvalue, rel=1e-9)
    assert listed(result).distance == pytest.approx(listed(expected).distance, rel=1e-9)
    if isinstance(inner, distances.Kernel):
        assert listed(result).features == ()
    else:
        assert listed(result).features == ("x", "z")
        assert listed(result).end == pytest.approx(np.asarray(inner.move(listed(result).start)), rel=1e-12)
        length = np.linalg.norm(listed(result).end - listed(result).start, axis=1)
        price = np.where(np.array(listed(result).group) == "g=a", 1.0, 3.0)
        assert length * price == pytest.approx(listed(result).distance, rel=1e-9)


def test_factors_keep_what_the_distance_says_of_itself_and_are_not_nested(people: pl.DataFrame) -> None:
    x = people.select("x", "z").to_numpy()
    model = SVC().fit(x, people["y"].to_numpy())
    data = people.with_columns(pl.Series("c", model.predict(x)))
    roles: dict[str, Any] = {"prediction": "c", "groups": "g", "criterion": "statistical_parity"}
    kernel = estimators.distance(model, ["x", "z"])
    once = distances.PerGroup(kernel, "g", {"a": 2.0, "b": 6.0})
    with pytest.raises(UsageError, match=r"distance: .* is not allowed"):
        distances.PerGroup(once, "g", {"a": 1.0, "b": 3.0})  # type: ignore[arg-type]
    squared = distances.PerGroup(estimators.distance(model, ["x", "z"], squared=True), "g", {"a": 1.0, "b": 2.0})
    assert np.isnan(iso.project(data, distance=squared, **roles).pvalue)
    with pytest.raises(MissingValues, match=r"factors: .* rows"):
        iso.project(data, distance=distances.PerGroup(kernel, "g", {"a": 1.0}), **roles)
    with pytest.raises(UnknownColumn, match="nowhere"):
        iso.project(data, distance=distances.PerGroup(kernel, "nowhere", {"a": 1.0}), **roles)


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
def test_estimators_without_a_distance(people: pl.DataFrame) -> None:
    x, y = people.select("x", "z").to_numpy(), people["y"].to_numpy()
    for model, message in [
        (LogisticRegression().fit(x, np.arange(600) % 3), "LogisticRegression"),
        (SVC(kernel=lambda a, b: a @ b.T).fit(x, y), "not known to be positive definite"),
    ]:
        with pytest.raises(UsageError, match=message):
            estimators.distance(model, ["x", "z"])
    for model in (
        MLPClassifier(max_iter=5, random_state=0).fit(x, y),
        make_pipeline(PolynomialFeatures(), LogisticRegression()).fit(x, y),
    ):
        assert estimators.distance(model, ["x", "z"]).approximate
        with pytest.raises(UsageError, match="searched by its decisions"):
            estimators.distance(model, ["x", "z"], immutable=["x"])
        with pytest.raises(UsageError, match=r"threshold: 2\.0 is not strictly between 0 and 1"):
            estimators.distance(model, ["x", "z"], threshold=2.0)
    with pytest.raises(UsageError, match="not a fitted estimator"):
        estimators.distance(LogisticRegression(), ["x", "z"])
    with pytest.raises(UsageError, match="not a fitted estimator"):
        estimators.distance("nothing", ["x", "z"])
    with pytest.raises(UsageError, match="without column names"):
        estimators.distance(LogisticRegression().fit(x, y))
    with pytest.raises(UsageError, match="3 names"):
        estimators.distance(LogisticRegression().fit(x, y), ["a", "b", "c"])


def test_wrong_distances() -> None:
    with pytest.raises(UsageError, match="have the norm 0"):
        distances.Linear(("x",), (0.0,))
    with pytest.raises(UsageError, match="one each"):
        distances.Linear(("x",), (1.0, 2.0))
    with pytest.raises(UsageError, match="norm"):
        distances.Linear(("x",), (1.0,), norm="l3")  # type: ignore[arg-type]
    plane = distances.Linear(("x",), (1.0,))
    with pytest.raises(UsageError, match="discrete"):
        distances.Mixed(plane, ("y",), ((0.0,),), 1.0)
    with pytest.raises(UsageError, match="allowed"):
        distances.Mixed(plane, ("x",), ((0.0, 1.0),), 1.0)
    with pytest.raises(UsageError, match="delta"):
        distances.Mixed(plane, ("x",), ((0.0,),), 0.0)
    with pytest.raises(UsageError, match="factors"):
        distances.PerGroup(plane, "g", {"a": 0.0})
    with pytest.raises(UsageError, match="distance: 'x' is not allowed"):
        distances.PerGroup("x", "g", {"a": 1.0})  # type: ignore[arg-type]
    one = np.array([[0.0]])
    with pytest.raises(UsageError, match="make the same decision"):
        distances.Tree(("x",), one, one, np.array([True]))


def test_costs_that_depend_on_the_attribute() -> None:
    data = decided(shift=0.3)
    price = distances.PerGroup(distances.Score("score", 0.2), "group", {"a": 1.0, "b": 2.0, "c": 1.0})
    plain = iso.project(data, groups="group", **SCORE)
    dear = iso.project(data, groups="group", distance=price, **ROLES)
    b = plain.labels.index("group=b")
    assert dear.share_moved[b] < plain.share_moved[b]
    some = distances.PerGroup(distances.Score("score", 0.2), "group", {"a": 1.0})
    with pytest.raises(MissingValues, match="factors"):
        iso.project(data, groups="group", distance=some, **ROLES)


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
def test_immutable_features_stay_and_costs_are_paid(norm: Any) -> None:
    """Against the same plane and tree in features rescaled by their costs, with the immutable one held fixed."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 3))
    plane = distances.Linear(("a", "b", "c"), (1.0, -2.0, 0.5), 0.3, norm, immutable=("b",), costs={"c": 4.0})
    scaled = distances.Linear(("a", "c"), (1.0, 0.125), 0.3, norm)
    fixed = np.column_stack([x[:, 0] - 2.0 * x[:, 1], 4.0 * x[:, 2]])
    assert plane.evaluate(x) == pytest.approx(scaled.evaluate(fixed), rel=1e-12)
    end = plane.move(x)
    assert (end[:, 1] == x[:, 1]).all()
    assert plane.margins(end) == pytest.approx(np.zeros(200), abs=1e-12)
    paid = np.linalg.norm((end - x) * [1.0, 1.0, 4.0], ORDER[norm], axis=1)
    assert paid == pytest.approx(np.abs(plane.evaluate(x)), rel=1e-12)

    model = DecisionTreeClassifier(max_depth=4, random_state=0).fit(x, x[:, 0] + x[:, 1] > 0.2 * x[:, 2])
    tree = estimators.distance(model, ["a", "b", "c"], norm=norm, immutable=["b"], costs={"c": 4.0})
    plain = estimators.distance(model, ["a", "b", "c"], norm=norm)
    far, landed = np.abs(tree.evaluate(x)), tree.move(x)
    assert landed is not None
    end = landed
    able = np.isfinite(far)
    assert (far >= np.abs(plain.evaluate(x)) - 1e-12).all()
    assert 0 < able.mean() <= 1
    assert (end[able, 1] == x[able, 1]).all()
    paid = np.linalg.norm((end - x)[able] * [1.0, 1.0, 4.0], ORDER[norm], axis=1)
    assert paid == pytest.approx(far[able], rel=1e-12)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"immutable": ("z",)}, "immutable: 'z'"),
        ({"immutable": "x"}, "immutable: 'x'"),
        ({"immutable": ("x", "y")}, "all features are listed"),
        ({"costs": {"z": 1.0}}, "costs: 'z'"),
        ({"costs": {"x": 0.0}}, "costs: 0.0"),
        ({"costs": 2.0}, "costs: 2.0"),
        ({"costs": {"x": 1e-309}}, "have the norm inf"),
    ],
)
def test_wrong_costs(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        distances.Linear(("x", "y"), (1.0, 0.0), **options)


@pytest.mark.parametrize("kind", [RandomForestClassifier, GradientBoostingClassifier])
def test_forests_and_boosting_are_measured_on_their_score(people: pl.DataFrame, kind: Any) -> None:
    frame, y = people.select("x", "z"), people["y"].to_numpy()
    model = make_pipeline(StandardScaler(), kind(random_state=0)).fit(frame.to_numpy(), y)
    distance = estimators.distance(model, ["x", "z"])
    probability = model.predict_proba(frame.to_numpy())[:, 1]
    assert distance.evaluate(frame.to_numpy()) == pytest.approx(probability - 0.5)
    data = people.with_columns(pl.Series("c", model.predict(frame.to_numpy())))
    result = iso.project(data, prediction="c", groups="g", distance=distance, criterion="statistical_parity")
    by_column = data.with_columns(pl.Series("d", np.abs(probability - 0.5)))
    same = iso.project(by_column, prediction="c", groups="g", distance="d", criterion="statistical_parity")
    assert result.statistic == pytest.approx(same.statistic, rel=1e-9)
    assert any(f"on the score of the {kind.__name__}" in w for w in result.warnings)
    assert listed(result).features == ()
    with pytest.raises(UsageError, match="immutable, costs"):
        estimators.distance(model, ["x", "z"], immutable=["x"])
    with pytest.raises(UsageError, match="immutable: 'xz' is not allowed"):
        estimators.distance(model, ["x", "z"], immutable="xz")
    with pytest.raises(DataError, match="cannot score these rows"):
        distance.evaluate(np.array([[1e60, 0.0]]))
    with pytest.raises(UsageError, match="threshold"):
        estimators.distance(model, ["x", "z"], threshold=1.5)


def test_a_feature_that_does_not_move_stays_in_its_box() -> None:
    """At the lower end of a box, which is not part of the box: closer than any move, and never inside."""
    infinite = np.inf
    low, high = np.array([[-infinite, -infinite], [0.5, -infinite]]), np.array([[0.5, infinite], [infinite, infinite]])
    people = np.array([[0.5, 1.0], [0.2, 1.0]])
    free, fixed = (
        distances.Tree(("u", "x"), low, high, np.array([False, True]), immutable=names) for names in ((), ("u",))
    )
    np.testing.assert_allclose(np.abs(free.evaluate(people)), [0.0, 0.3])
    assert np.isinf(fixed.evaluate(people)).all()
