"""Distances against brute force, and the distance that belongs to a fitted estimator."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, PolynomialFeatures, RobustScaler, StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier

import isonomy as iso
from isonomy.errors import MissingValues, UnknownColumn, UsageError
from isonomy.frames import open_source
from isonomy.numerics.status import Status
from isonomy.transport import distances, estimators

Array = NDArray[np.float64]
ORDER: dict[str, Any] = {"l1": 1, "l2": 2, "linf": np.inf}


def evaluate(distance: distances.Distance, columns: dict[str, Array]) -> Array:
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
    # No point of the plane is nearer: random points of it are all at least as far.
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
    signed = evaluate(mixed, columns)
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
    # The discrete features stand first and last: places must not be mixed up.
    theta, intercept = np.array([1.0, 0.4, 0.3, -0.7]), -0.5
    linear = distances.Linear(("u", "x", "y", "v"), tuple(theta), intercept, norm)
    mixed = distances.Mixed(linear, ("u", "v"), allowed, delta=0.6)
    discrete, continuous = np.array(allowed)[rng.integers(0, 6, 300)], rng.normal(size=(300, 2)) * 3
    start = np.column_stack([discrete[:, 0], continuous, discrete[:, 1]])
    signed = evaluate(mixed, dict(zip(mixed.columns, start.T, strict=True)))
    assert mixed.evaluate(start) == pytest.approx(signed, rel=1e-12)
    end = mixed.move(start)
    jumped = (end[:, [0, 3]] != start[:, [0, 3]]).any(axis=1)
    paid = 0.6 * jumped + np.linalg.norm((end - start)[:, [1, 2]], ORDER[norm], axis=1)
    assert paid == pytest.approx(np.abs(signed), rel=1e-9, abs=1e-12)
    assert {tuple(point) for point in end[:, [0, 3]]} <= set(allowed)
    # No longer on the side where it began: on the boundary, or past it where the jump alone crosses.
    assert (np.where(signed >= 0, 1, -1) * (end @ theta + intercept) <= 1e-12).all()
    alone = jumped & (end[:, [1, 2]] == start[:, [1, 2]]).all(axis=1)
    assert 0 < alone.sum() < jumped.sum() < 300


def test_mixed_when_everything_is_discrete() -> None:
    linear = distances.Linear(("u",), (1.0,), -1.5)
    mixed = distances.Mixed(linear, ("u",), ((0.0,), (1.0,), (2.0,)), delta=2.0)
    assert evaluate(mixed, {"u": np.array([0.0, 2.0])}).tolist() == [-2.0, 2.0]
    assert mixed.move(np.array([[0.0], [2.0]])).tolist() == [[2.0], [0.0]]
    stuck = distances.Mixed(distances.Linear(("u",), (1.0,), -3.5), ("u",), ((0.0,), (1.0,), (2.0,)), delta=2.0)
    assert evaluate(stuck, {"u": np.array([0.0, 2.0])}).tolist() == [-np.inf, -np.inf]
    assert stuck.evaluate(np.array([[0.0], [2.0]])).tolist() == [-np.inf, -np.inf]
    assert np.isnan(stuck.move(np.array([[0.0]]))).all()


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


@pytest.fixture(scope="module")
def people() -> pl.DataFrame:
    rng = np.random.default_rng(2)
    n = 600
    x, z = rng.normal(size=n) * 3 + 1, rng.normal(size=n)
    return pl.DataFrame(
        {
            "x": x,
            "z": z,
            "g": rng.choice(["a", "b"], n),
            "y": (x + 3 * z + rng.normal(size=n) * 2 > 1).astype(int),
        }
    )


@pytest.mark.parametrize("model", classifiers(), ids=lambda m: "-".join(str(s) for s in str(m).split())[:40])
def test_the_sign_is_the_models_decision(model: Any, people: pl.DataFrame) -> None:
    features = people.select("x", "z").to_pandas()
    model.fit(features, people["y"].to_numpy())
    decided = model.predict(features)
    distance = estimators.of(model)
    values = people.select("x", "z").to_numpy()
    signed = distance.evaluate(values)
    far = np.abs(signed) > 1e-6
    assert ((signed > 0) == (decided == 1))[far].all()
    data = people.with_columns(pl.Series("c", decided))
    found = iso.project(data, outcome="y", prediction="c", groups="g", distance=model)
    assert found.statistic >= 0
    assert found.status in (Status.OK, Status.ATOMS, Status.UNSUPPORTED)
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
    kernel = estimators.of(model, ["x", "z"])
    assert isinstance(kernel, distances.Kernel)
    theta = model.dual_coef_[0] @ model.support_vectors_
    plane = distances.Linear(("x", "z"), tuple(theta), float(model.intercept_[0]))
    assert kernel.evaluate(features) == pytest.approx(plane.evaluate(features), rel=1e-6)


def test_squared_kernel_cost_gives_a_plan_and_no_pvalue(people: pl.DataFrame) -> None:
    features = people.select("x", "z").to_numpy()
    model = SVC().fit(features, people["y"].to_numpy())
    data = people.with_columns(pl.Series("c", model.predict(features)))
    squared = estimators.of(model, ["x", "z"], squared=True)
    found = iso.project(data, outcome="y", prediction="c", groups="g", distance=squared)
    assert np.isnan(found.pvalue)
    assert np.isfinite(found.wald_pvalue)
    assert found.verdict is iso.Verdict.INCONCLUSIVE
    assert found.plan.row.size > 0
    assert any("squared" in w for w in found.warnings)


def test_squared_is_honoured_or_refused_never_ignored(people: pl.DataFrame) -> None:
    x, y = people.select("x", "z").to_numpy(), people["y"].to_numpy()
    plain = SVC(kernel="linear").fit(x, y)
    squared = estimators.of(plain, ["x", "z"], squared=True)
    assert not squared.tested
    assert squared.evaluate(x) == pytest.approx(np.sign(d := estimators.of(plain, ["x", "z"]).evaluate(x)) * d**2)
    data = people.with_columns(pl.Series("c", plain.predict(x)))
    assert np.isnan(iso.project(data, outcome="y", prediction="c", groups="g", distance=squared).pvalue)
    for model in (LogisticRegression(), LinearSVC(), DecisionTreeClassifier(max_depth=2)):
        with pytest.raises(UsageError, match=f"squared: True .*{type(model).__name__}"):
            estimators.of(model.fit(x, y), ["x", "z"], squared=True)
    with pytest.raises(UsageError, match="norm: 'l1'"):
        estimators.of(SVC().fit(x, y), ["x", "z"], norm="l1")


def test_a_cut_of_ones_own(people: pl.DataFrame) -> None:
    features = people.select("x", "z").to_numpy()
    model = LogisticRegression().fit(features, people["y"].to_numpy())
    signed = estimators.of(model, ["x", "z"], threshold=0.3).evaluate(features)
    assert ((signed >= 0) == (model.predict_proba(features)[:, 1] >= 0.3)).all()
    tree = DecisionTreeClassifier(max_depth=3).fit(features, people["y"].to_numpy())
    signed = estimators.of(tree, ["x", "z"], threshold=0.2).evaluate(features)
    assert ((signed > 0) == (tree.predict_proba(features)[:, 1] >= 0.2)).all()
    for other in (model, tree):
        with pytest.raises(UsageError, match="threshold: 5"):
            estimators.of(other, ["x", "z"], threshold=5)


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
def test_tree_against_a_grid(norm: Any, people: pl.DataFrame) -> None:
    """No grid point of the other decision is nearer than the distance, and some are almost as near."""
    features = people.select("x", "z").to_numpy()
    tree = DecisionTreeClassifier(max_depth=4, random_state=1).fit(features, people["y"].to_numpy())
    signed = estimators.of(tree, ["x", "z"], norm=norm).evaluate(features[:40])
    side = np.linspace(-12, 12, 400)
    grid = np.array(list(itertools.product(side, side)))
    decided = tree.predict(grid)
    for row, d, own in zip(features[:40], signed, tree.predict(features[:40]), strict=True):
        nearest = np.linalg.norm(grid[decided != own] - row, ORDER[norm], axis=1).min()
        assert abs(d) - 1e-9 <= nearest <= abs(d) + 0.13


@pytest.mark.parametrize("model", [LogisticRegression(), SVC(), DecisionTreeClassifier(max_depth=4, random_state=0)])
@pytest.mark.parametrize("lazy", [False, True])
def test_any_distance_can_be_priced_by_group(model: Any, lazy: bool, people: pl.DataFrame) -> None:
    """The plan prices each row at its group's factor and goes where the distance itself would."""
    x = people.select("x", "z").to_numpy()
    model.fit(x, people["y"].to_numpy())
    inner = estimators.of(model, ["x", "z"])
    priced = distances.PerGroup(inner, "g", {"a": 1.0, "b": 3.0})
    data = people.with_columns(pl.Series("c", model.predict(x)))
    roles: dict[str, Any] = {"prediction": "c", "groups": "g", "criterion": "statistical_parity"}
    found = iso.project(data.lazy() if lazy else data, distance=priced, **roles)
    factor = np.where(people["g"].to_numpy() == "a", 1.0, 3.0)
    by_hand = data.with_columns(pl.Series("d", factor * np.abs(inner.evaluate(x))))
    expected = iso.project(by_hand, distance="d", **roles)
    assert found.statistic == pytest.approx(expected.statistic, rel=1e-9)
    assert found.wald_pvalue == pytest.approx(expected.wald_pvalue, rel=1e-9)
    assert found.plan.distance == pytest.approx(expected.plan.distance, rel=1e-9)
    if isinstance(inner, distances.Kernel):
        assert found.plan.features == ()
    else:
        assert found.plan.features == ("x", "z")
        assert found.plan.end == pytest.approx(np.asarray(inner.move(found.plan.start)), rel=1e-12)
        length = np.linalg.norm(found.plan.end - found.plan.start, axis=1)
        price = np.where(np.array(found.plan.group) == "g=a", 1.0, 3.0)
        assert length * price == pytest.approx(found.plan.distance, rel=1e-9)


def test_factors_multiply_and_keep_what_the_distance_says_of_itself(people: pl.DataFrame) -> None:
    x = people.select("x", "z").to_numpy()
    model = SVC().fit(x, people["y"].to_numpy())
    data = people.with_columns(pl.Series("c", model.predict(x)))
    roles: dict[str, Any] = {"prediction": "c", "groups": "g", "criterion": "statistical_parity"}
    kernel = estimators.of(model, ["x", "z"])
    once = distances.PerGroup(kernel, "g", {"a": 2.0, "b": 6.0})
    twice = distances.PerGroup(distances.PerGroup(kernel, "g", {"a": 2.0, "b": 2.0}), "g", {"a": 1.0, "b": 3.0})
    results = [iso.project(data, distance=d, **roles).statistic for d in (once, twice)]
    assert results[0] == pytest.approx(results[1], rel=1e-12)
    squared = distances.PerGroup(estimators.of(model, ["x", "z"], squared=True), "g", {"a": 1.0, "b": 2.0})
    assert np.isnan(iso.project(data, distance=squared, **roles).pvalue)
    with pytest.raises(MissingValues, match=r"factors: .* rows"):
        iso.project(data, distance=distances.PerGroup(kernel, "g", {"a": 1.0}), **roles)
    with pytest.raises(UnknownColumn, match="nowhere"):
        iso.project(data, distance=distances.PerGroup(kernel, "nowhere", {"a": 1.0}), **roles)


def test_the_plan_of_a_mixed_distance_says_where_rows_go(people: pl.DataFrame) -> None:
    flag = (people["z"].to_numpy() > 0).astype(float)
    data = people.with_columns(pl.Series("u", flag))
    linear = distances.Linear(("x", "u"), (1.0, 1.5), -2.0)
    mixed = distances.Mixed(linear, ("u",), ((0.0,), (1.0,)), delta=0.01)
    data = data.with_columns(c=(pl.col("x") + 1.5 * pl.col("u") >= 2.0).cast(pl.Int8))
    for table in (data, data.lazy()):
        plan = iso.project(table, prediction="c", groups="g", criterion="statistical_parity", distance=mixed).plan
        assert plan.features == ("x", "u")
        assert plan.row.size > 3
        assert plan.end == pytest.approx(mixed.move(plan.start), rel=1e-12)
        assert np.abs(mixed.evaluate(plan.start)) == pytest.approx(plan.distance, rel=1e-9)


def test_estimators_without_a_distance(people: pl.DataFrame) -> None:
    x, y = people.select("x", "z").to_numpy(), people["y"].to_numpy()
    for model, message in [
        (RandomForestClassifier(n_estimators=3).fit(x, y), "RandomForestClassifier"),
        (make_pipeline(PolynomialFeatures(), LogisticRegression()).fit(x, y), "PolynomialFeatures"),
        (LogisticRegression().fit(x, np.arange(600) % 3), "LogisticRegression"),
        (SVC(kernel=lambda a, b: a @ b.T).fit(x, y), "kernel of its own"),
    ]:
        with pytest.raises(UsageError, match=message):
            estimators.of(model, ["x", "z"])
    with pytest.raises(UsageError, match="not a fitted estimator"):
        estimators.of(LogisticRegression(), ["x", "z"])
    with pytest.raises(UsageError, match="not a fitted estimator"):
        estimators.of("nothing", ["x", "z"])
    with pytest.raises(UsageError, match="without column names"):
        estimators.of(LogisticRegression().fit(x, y))
    with pytest.raises(UsageError, match="3 names"):
        estimators.of(LogisticRegression().fit(x, y), ["a", "b", "c"])


def test_wrong_distances() -> None:
    with pytest.raises(UsageError, match="all are zero"):
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
    with pytest.raises(UsageError, match="decides alike"):
        distances.Tree(("x",), one, one, np.array([True]))
