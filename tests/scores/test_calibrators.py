"""Estimators that correct scores: scikit-learn's own checks, every eager frame, and what they do."""

from __future__ import annotations

import datetime as dt
import pickle
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_predict
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import isonomy as iso
from isonomy.errors import MissingValues, UnknownColumn, UnknownOption, UsageError
from isonomy.scores import calibration_metrics, equalize_thresholds, predictive_parity, split_users
from isonomy.scores.calibrators import GroupCalibrator, GroupThresholds, MultiObjectiveCalibrator
from support.scores import scored_rows

# Platt needs 0/1 outcomes, which the checks do not give; it is tested below.
CHECKED = [GroupCalibrator(), MultiObjectiveCalibrator()]


FRAMES: dict[str, Any] = {"pandas": lambda d: pd.DataFrame({**d, "g": list(d["g"])}), "polars": pl.DataFrame}


NAMES: dict[str, Any] = {"score_column": "s", "groups": "g", "user": "m"}


METHODS = ("near_unbiased", "published", "binning", "isotonic", "platt")


TWO_COLUMNS: dict[str, Any] = {"score_column": "s", "groups": "g"}


MISSING: dict[str, list[Any]] = {
    "text": ["a", None, "b"],
    "numbers": [0, None, 1],
    "large numbers": [2**60, None, 2**60 + 1],
    "truth": [True, None, False],
    "dates": [dt.datetime(2020, 1, 1), None, dt.datetime(2021, 1, 1)],
}


MADE: dict[str, Any] = {
    "pandas": lambda s, g: pd.DataFrame({"s": s, "g": g}),
    "pandas objects": lambda s, g: pd.DataFrame({"s": s, "g": pd.Series(g, dtype=object)}),
    "pandas categories": lambda s, g: pd.DataFrame({"s": s, "g": pd.Categorical(g)}),
    "polars": lambda s, g: pl.DataFrame({"s": s, "g": g}),
    "pyarrow": lambda s, g: pa.table({"s": s, "g": g}),
}


def rows(kinds: list[Any], n: int = 1_500, seed: int = 0) -> tuple[np.ndarray, list[Any], np.ndarray]:
    """Scores, a group for each of ``kinds``, and outcomes that differ between the groups."""
    rng = np.random.default_rng(seed)
    s, code = rng.random(n), rng.integers(0, len(kinds), n)
    y = (rng.random(n) < (0.1 + 0.8 * code / (len(kinds) - 1))).astype(int)
    return s, [kinds[k] for k in code], y


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(CHECKED)  # type: ignore[untyped-decorator]
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("method", METHODS)
def test_each_group_is_calibrated(method: Any, frame: str) -> None:
    data = scored_rows()
    X = FRAMES[frame]({k: data[k] for k in ("s", "g", "m", "other")})
    model = GroupCalibrator(method, **NAMES).fit(X, data["y"])
    again = pickle.loads(pickle.dumps(model))
    test = FRAMES[frame]({"s": [0.5, 0.5], "g": ["a", "b"], "m": [1, 2], "other": [0.0, 0.0]})
    found = model.predict(test)
    np.testing.assert_allclose(found, [0.5, 0.25], atol=0.15 if method == "binning" else 0.07)
    np.testing.assert_array_equal(again.predict(test), found)
    assert clone(model).get_params() == model.get_params()
    assert model.transform(test).shape == (2, 1)


def test_calibration_lowers_the_errors_on_held_out_users() -> None:
    data = scored_rows(8_000)
    held_out = split_users(data["m"], rng=0)
    frame = pl.DataFrame(data)
    model = GroupCalibrator(**NAMES).fit(frame.filter(~held_out), data["y"][~held_out])
    test = frame.filter(held_out)
    test = test.with_columns(after=pl.Series(model.predict(test)))
    found = calibration_metrics(test, outcome="y", score={"before": "s", "after": "after"}, groups="g", user="m")
    lines = found.to_frame().filter(pl.col("group") == "overall")
    assert lines["score"].to_list() == ["before", "after"]
    for name in ("calibration_error", "parity_error", "ece"):
        before, after = lines[name]
        assert after < before / 2, name
    assert lines["auc"][1] > lines["auc"][0]


def test_mapping_onto_a_group_keeps_its_scores() -> None:
    data = scored_rows(20_000)
    X = pl.DataFrame({k: data[k] for k in ("s", "g", "m")})
    model = GroupCalibrator(**NAMES, onto={"g": "a"}, monotone=True).fit(X, data["y"])
    found = model.predict(pl.DataFrame({"s": [0.3, 0.7, 0.7], "g": ["a", "a", "b"], "m": [0, 0, 0]}))
    np.testing.assert_allclose(found[:2], [0.3, 0.7], atol=1e-9)
    assert found[2] == pytest.approx(0.49, abs=0.06)
    unnamed: Any = ("a",)
    with pytest.raises(UsageError, match=r"onto.*mapping"):
        GroupCalibrator(**NAMES, onto=unnamed).fit(X, data["y"])
    with pytest.raises(UsageError, match="onto"):
        GroupCalibrator(**NAMES, onto={"g": "z"}).fit(X, data["y"])
    with pytest.raises(UsageError, match="onto"):
        GroupCalibrator(**NAMES, onto={"sex": "a"}).fit(X, data["y"])


def test_small_and_unknown_groups_are_pooled() -> None:
    data = scored_rows()
    data["g"] = np.where(np.arange(4_000) < 10, "tiny", data["g"])
    X = pl.DataFrame({"s": data["s"], "g": data["g"]})
    model = GroupCalibrator(score_column="s", groups="g").fit(X, data["y"])
    assert model.pooled_groups_ == (("tiny",),)
    test = pl.DataFrame({"s": [0.5, 0.5], "g": ["tiny", "new"]})
    with pytest.warns(UserWarning, match=r"were not seen in fit .* together: new\.$"):
        found = model.predict(test)
    np.testing.assert_allclose(found, model.pooled_(np.array([0.5, 0.5])))


@pytest.mark.parametrize("method", ["near_unbiased", "binning"])
def test_monotone(method: Any) -> None:
    rng = np.random.default_rng(0)
    s = rng.random(300)
    y = (rng.random(300) < 0.3 + 0.2 * s).astype(int)
    model = GroupCalibrator(method, monotone=True).fit(s[:, None], y)
    assert np.all(np.diff(model.predict(np.linspace(0, 1, 50)[:, None])) >= -1e-12)


def test_users_have_one_vote_each() -> None:
    data = scored_rows(2_000)
    X = pl.DataFrame({k: data[k] for k in ("s", "g", "m")})
    busy = np.repeat(np.arange(2_000), np.where(data["m"] == 3, 50, 1))  # one user, fifty times
    once = GroupCalibrator(**NAMES).fit(X, data["y"]).predict(X)
    often = GroupCalibrator(**NAMES).fit(X[busy], data["y"][busy]).predict(X)
    np.testing.assert_allclose(often, once, atol=0.02)


def calibrators() -> list[tuple[Any, list[str]]]:
    each: list[Any] = [GroupCalibrator(method, **NAMES) for method in ("near_unbiased", "binning", "isotonic", "platt")]
    both: dict[str, Any] = {"groups": "g", "user": "m"}
    several = [MultiObjectiveCalibrator(scores=["s", "other"], **both)]
    return [(one, ["y"]) for one in each] + [(one, ["y", "y2"]) for one in several]


@pytest.mark.parametrize(("calibrator", "names"), calibrators(), ids=lambda value: type(value).__name__)
def test_weights_of_users(calibrator: Any, names: list[str]) -> None:
    data = scored_rows(2_000)
    X = pl.DataFrame({k: data[k] for k in ("s", "g", "m", "other")})
    outcome = np.column_stack([data["y"], 1 - data["y"]])[:, : len(names)]
    y, weight = outcome if len(names) > 1 else outcome[:, 0], 1 + data["m"] % 4 / 2.0

    def fitted(rows: Any = slice(None), w: Any = None, users: Any = None) -> np.ndarray:
        table = X if users is None else X.with_columns(m=users)
        return np.asarray(calibrator.fit(table[rows], y[rows], sample_weight=w).predict(X))

    plain, weighted = fitted(), fitted(w=weight)
    np.testing.assert_allclose(fitted(w=np.full(2_000, 7.0)), plain, atol=1e-6)
    np.testing.assert_allclose(fitted(w=2 * weight), weighted, atol=1e-6)
    assert not np.allclose(weighted, plain, atol=1e-4)
    twice = np.repeat(np.arange(2_000), 2)
    np.testing.assert_allclose(fitted(twice, weight[twice]), weighted, atol=1e-6)
    own = pl.Series(np.arange(2_000))
    alone = clone(calibrator).set_params(user=None).fit(X, y).predict(X)
    np.testing.assert_allclose(fitted(users=own), alone, atol=1e-6)
    np.testing.assert_allclose(fitted(twice, users=own), alone, atol=1e-6)


def test_unequal_weights_make_a_group_smaller() -> None:
    """Sixty users, of whom ten stand for nearly everybody, are too few for a calibrator of their own."""
    data = scored_rows(2_000)
    X = pl.DataFrame({"s": data["s"], "g": np.where(np.arange(2_000) < 60, "small", "large"), "m": np.arange(2_000)})
    calibrator = GroupCalibrator(**NAMES)
    assert calibrator.fit(X, data["y"]).pooled_groups_ == ()
    weight = np.where(np.arange(2_000) < 10, 100.0, 1.0)
    assert calibrator.fit(X, data["y"], sample_weight=weight).pooled_groups_ == (("small",),)


def test_platt_is_logistic_regression_by_group() -> None:
    from sklearn.linear_model import LogisticRegression

    data = scored_rows()
    mine = data["g"] == "b"
    found = GroupCalibrator("platt", groups=1).fit(np.column_stack([data["s"], mine.astype(float)]), data["y"])
    reference = LogisticRegression(C=np.inf, tol=1e-10).fit(data["s"][mine, None], data["y"][mine])
    at = np.linspace(0, 1, 5)
    ours = found.predict(np.column_stack([at, np.ones(5)]))
    np.testing.assert_allclose(ours, reference.predict_proba(at[:, None])[:, 1], atol=1e-5)
    with pytest.raises(UsageError, match="platt"):
        GroupCalibrator("platt").fit(data["s"][:, None], data["s"])


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"method": "beta"}, UnknownOption),
        ({"bins": 0}, UsageError),
        ({"bandwidth": -1.0}, UsageError),
        ({"min_size": "many"}, UsageError),
        ({"score_column": "nope"}, UnknownColumn),
        ({"groups": ["nope"]}, UnknownColumn),
        ({"score_column": 9}, UsageError),
    ],
)
def test_bad_arguments(options: dict[str, Any], error: type[Exception]) -> None:
    data = scored_rows(200)
    with pytest.raises(error):
        GroupCalibrator(**options).fit(pl.DataFrame({k: data[k] for k in ("s", "g")}), data["y"])


def test_names_need_a_frame() -> None:
    with pytest.raises(UsageError, match="array"):
        GroupCalibrator(score_column="s").fit(np.zeros((5, 1)), np.arange(5.0))


def test_text_outcomes_are_to_be_recoded() -> None:
    data = scored_rows(200)
    with pytest.raises(UsageError, match="recode"):
        GroupCalibrator().fit(data["s"][:, None], np.where(data["y"] == 1, "yes", "no"))


def test_columns_by_number_can_be_mapped_onto() -> None:
    data = scored_rows(2_000)
    X = np.column_stack([data["s"], data["g"] == data["g"][0]]).astype(float)
    mapped = GroupCalibrator(groups=1, onto={1: 1.0}).fit(X, data["y"])
    own = X[:, 1] == 1
    np.testing.assert_allclose(mapped.predict(X[own]), X[own, 0], atol=1e-3)


def test_a_monotone_platt_curve_does_not_fall() -> None:
    rng = np.random.default_rng(0)
    s = rng.random(500)
    y = (rng.random(500) < 1 - s).astype(int)
    assert np.ptp(GroupCalibrator("platt", monotone=True).fit(s[:, None], y).predict(s[:, None])) == 0
    assert np.ptp(GroupCalibrator("platt").fit(s[:, None], y).predict(s[:, None])) > 0.5


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("platt", {"bins": 5}),
        ("isotonic", {"bins": 5}),
        ("platt", {"bandwidth": 0.1}),
        ("isotonic", {"bandwidth": 0.1}),
        ("binning", {"bandwidth": 0.1}),
    ],
)
def test_options_without_effect_are_refused(method: Any, options: dict[str, Any]) -> None:
    X, y = np.linspace(0, 1, 100)[:, None], np.arange(100) % 2
    (name,) = options
    with pytest.raises(UsageError, match=f"^{name}: .*no effect with method='{method}'"):
        GroupCalibrator(method, **options).fit(X, y)
    GroupCalibrator(**options).fit(X, y)
    GroupCalibrator(method).fit(X, y)


@pytest.mark.parametrize("bandwidth", ["a", 0, True, [0.1], float("nan")])
def test_a_bandwidth_is_a_positive_number(bandwidth: Any) -> None:
    with pytest.raises(UsageError, match=r"^bandwidth:"):
        GroupCalibrator(bandwidth=bandwidth).fit(np.linspace(0, 1, 100)[:, None], np.arange(100) % 2)


def test_numbers_of_numpy_are_numbers() -> None:
    X, y = np.linspace(0, 1, 100)[:, None], np.arange(100) % 2
    plain = GroupCalibrator(bandwidth=0.125, bins=7, min_size=3).fit(X, y).predict(X)
    of_numpy: dict[str, Any] = {"bandwidth": np.float32(0.125), "bins": np.int64(7), "min_size": np.int32(3)}
    typed = GroupCalibrator(**of_numpy).fit(X, y).predict(X)
    np.testing.assert_array_equal(typed, plain)


@pytest.mark.parametrize("kinds", MISSING)
def test_a_row_does_not_depend_on_its_batch_or_library(kinds: str) -> None:
    s, g, y = rows(MISSING[kinds])
    # pandas has no whole numbers beside missing ones: it would round the large ones before we see them.
    made = {k: f for k, f in MADE.items() if kinds != "large numbers" or k in ("pandas objects", "polars", "pyarrow")}
    model = GroupCalibrator(**TWO_COLUMNS).fit(MADE["polars"](s, g), y)
    expected = model.predict(MADE["polars"](s, g))
    assert model.groups_[-1] == (None,)
    assert len(model.calibrators_) == 3
    for name, frame in made.items():
        again = GroupCalibrator(**TWO_COLUMNS).fit(frame(s, g), y)
        assert again.groups_ == model.groups_, name
        np.testing.assert_array_equal(model.predict(frame(s, g)), expected, err_msg=name)
        for i in range(8):  # alone, where pandas and polars infer another type
            assert model.predict(frame(s[i : i + 1], g[i : i + 1]))[0] == expected[i], name
        gone = np.array([value is None for value in g])
        np.testing.assert_array_equal(model.predict(frame(s[gone], [None] * int(gone.sum()))), expected[gone])


def test_numbers_and_text_in_one_column_stay_apart() -> None:
    s, g, y = rows([0, "0", "x"])
    frame = pd.DataFrame({"s": s, "g": pd.Series(g, dtype=object)})
    model = GroupCalibrator(**TWO_COLUMNS).fit(frame, y)
    assert model.groups_ == ((0,), ("0",), ("x",))
    batch = model.predict(frame)
    for i in range(8):
        assert model.predict(frame.iloc[[i]])[0] == batch[i]
    array = np.column_stack([np.array(s, dtype=object), np.array(g, dtype=object)])
    np.testing.assert_array_equal(GroupCalibrator(groups=1).fit(array, y).predict(array), batch)


@pytest.mark.parametrize("make", [GroupCalibrator, MultiObjectiveCalibrator])
@pytest.mark.parametrize("frame", ["pandas", "pandas objects", "polars"])
def test_rows_without_a_user_are_refused(frame: str, make: Any) -> None:
    s, user, y = rows([None, "u", "v", "w"], 400)
    gone = sum(value is None for value in user)
    with pytest.raises(MissingValues, match=rf"^user: {gone} rows"):
        make(user="g").fit(MADE[frame](s, user), y)
    with pytest.raises(MissingValues, match=r"^user: 1 rows"):
        make(user=1).fit(np.column_stack([s, np.where(np.arange(400) == 7, np.nan, 1.0)]), y)


def test_users_that_differ_are_not_one() -> None:
    assert split_users([1, "1"], rng=0).sum() == 1
    large = np.array([2**63 + 1, 2**63 + 2, 5], dtype=np.uint64)
    for user in (large, large.tolist(), pl.Series(large), pd.Series(large)):
        assert split_users(user, held_out=0.34, rng=0).sum() == 1
    s = np.linspace(0.1, 0.9, 300)
    y = (np.arange(300) % 2).astype(int)
    small = GroupCalibrator(score_column="s", user="m")
    users = np.arange(300) // 3
    expected = small.fit(pl.DataFrame({"s": s, "m": users}), y).predict(pl.DataFrame({"s": s, "m": users}))
    frame = pl.DataFrame({"s": s, "m": users.astype(np.uint64) + np.uint64(2**63 + 5)})
    np.testing.assert_allclose(small.fit(frame, y).predict(frame), expected, rtol=1e-12)
    with pytest.raises(UsageError, match="2 dimensions"):
        split_users([[1, 2], [3, 4]])


def test_users_told_apart_by_nanoseconds_are_not_one() -> None:
    data = scored_rows(600)
    user = np.arange(600) // 3
    X = pl.DataFrame({"s": data["s"], "g": data["g"], "m": user})
    expected = GroupCalibrator(**NAMES).fit(X, data["y"]).predict(X)
    for kind in (pl.Datetime("ns"), pl.Datetime("ns", "Asia/Tokyo"), pl.Duration("ns"), pl.Int128, pl.Decimal(38, 0)):
        typed = X.with_columns(pl.col("m").cast(kind))
        np.testing.assert_array_equal(GroupCalibrator(**NAMES).fit(typed, data["y"]).predict(typed), expected)
    frame = X.to_pandas().assign(m=user.astype("datetime64[ns]"))
    np.testing.assert_array_equal(GroupCalibrator(**NAMES).fit(frame, data["y"]).predict(frame), expected)


def test_large_decimals_stay_apart() -> None:
    s, g, y = rows([Decimal("12345678901234567890.1"), Decimal("12345678901234567890.2")])
    model = GroupCalibrator(**TWO_COLUMNS).fit(pl.DataFrame({"s": s, "g": g}), y)
    assert len(model.groups_) == 2
    whole = [int(value * 10) for value in g]
    large = GroupCalibrator(**TWO_COLUMNS).fit(pl.DataFrame({"s": s, "g": pl.Series(whole, dtype=pl.Int128)}), y)
    assert [key for (key,) in large.groups_] == [123456789012345678901, 123456789012345678902]


def test_the_default_has_the_smaller_error() -> None:
    """On log-odds, where scores crowd in the middle, Nadaraya-Watson pulls every curve to its mean."""
    rng = np.random.default_rng(0)
    p = rng.beta(2, 3, 10_000)
    s, y = np.log(p / (1 - p))[:, None], (rng.random(10_000) < p).astype(int)
    errors = {}
    for method in ("near_unbiased", "published"):
        model = GroupCalibrator(method).fit(s, y)
        errors[method] = float(np.sqrt(np.mean((model.predict(s) - p) ** 2)))
    assert GroupCalibrator().method == "near_unbiased"
    assert errors["near_unbiased"] < 0.02 < errors["published"]


@pytest.mark.parametrize("make", [GroupCalibrator, MultiObjectiveCalibrator])
def test_lazy_tables_are_to_be_collected(make: Any) -> None:
    duckdb = pytest.importorskip("duckdb")
    s, g, y = rows(["a", "b"], 200)
    frame = pl.DataFrame({"s": s, "g": g})
    for X in (frame.lazy(), duckdb.connect().from_arrow(frame.to_arrow())):
        with pytest.raises(UsageError, match=r"^X: .*collect"):
            make(groups="g").fit(X, y)
    model = make(groups="g").fit(frame, y)
    with pytest.raises(UsageError, match=r"^X: .*collect"):
        model.predict(frame.lazy())


def test_bins_without_end_are_refused() -> None:
    data = pl.DataFrame({"s": np.linspace(0, 1, 50), "g": ["a"] * 50})
    with pytest.raises(UsageError, match="bins: 1000000000000000000 is not allowed"):
        GroupCalibrator(score_column="s", groups="g", bins=10**18).fit(data, np.arange(50) % 2)


def steep(n: int = 4_000, seed: int = 0) -> dict[str, Any]:
    """Outcomes that are almost certain at either end, as those of a good model are."""
    rng = np.random.default_rng(seed)
    s, g = rng.random(n), rng.integers(0, 2, n)
    return {"s": s, "g": g, "y": (rng.random(n) < 1 / (1 + np.exp(-30 * (s - 0.4 - 0.2 * g)))).astype(float)}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("monotone", [False, True])
def test_calibrated_scores_of_0_and_1_are_probabilities(method: Any, monotone: bool) -> None:
    for seed in range(3):
        data, new = steep(seed=seed), steep(seed=10 + seed)
        model = GroupCalibrator(method, groups=1, monotone=monotone)
        model.fit(np.column_stack([data["s"], data["g"]]), data["y"])
        beyond = np.concatenate([new["s"], [-5.0, 5.0]]), np.append(new["g"], [0, 1])
        found = model.predict(np.column_stack(beyond))
        assert found.min() >= 0
        assert found.max() <= 1
        assert np.isfinite(log_loss(new["y"], found[:-2]))


def test_calibrated_scores_of_other_outcomes_keep_their_scale() -> None:
    data = steep()
    X = np.column_stack([data["s"], data["g"]])
    unit = GroupCalibrator(groups=1).fit(X, data["y"]).predict(X)
    np.testing.assert_allclose(GroupCalibrator(groups=1).fit(X, 50 * data["y"] - 20).predict(X), 50 * unit - 20)
    line = GroupCalibrator(groups=1).fit(X, 10 * data["s"] - 7)
    np.testing.assert_allclose(line.predict(X), 10 * data["s"] - 7, atol=1e-9)
    # Beyond the scores seen in fit, the value at the nearest of them.
    ends = [data["s"][data["g"] == 0].min(), data["s"][data["g"] == 0].max()]
    np.testing.assert_allclose(line.predict([[-5, 0], [5, 0]]), 10 * np.array(ends) - 7, atol=1e-9)


def crossed(n: int = 4_000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Each of two scores is the expected outcome of the other."""
    rng = np.random.default_rng(seed)
    S = rng.random((n, 2))
    return S, (rng.random((n, 2)) < S[:, ::-1]).astype(float)


def objectives(n: int, rng: np.random.Generator) -> dict[str, Any]:
    """Two scores; each outcome depends on both, and differently in the groups."""
    g = rng.integers(0, 2, n)
    s1, s2 = rng.random(n), rng.random(n)
    p1 = np.clip(np.where(g == 0, 0.5 * s1 + 0.5 * s2, 0.3 + 0.6 * s1 - 0.3 * s2), 0, 1)
    p2 = np.clip(np.where(g == 0, s2, 0.6 * s2 + 0.2 * s1), 0, 1)
    return {"s1": s1, "s2": s2, "g": g, "y1": (rng.random(n) < p1) * 1.0, "y2": (rng.random(n) < p2) * 1.0}


def combined_parity_errors(n: int = 20_000, seed: int = 0, vectors: int = 20) -> dict[str, Any]:
    """Mean parity error of the combined score over random weights: raw, calibrated one by one, calibrated together."""
    rng = np.random.default_rng(seed)
    train, test = objectives(n, rng), objectives(n, rng)
    X, Z = (pl.DataFrame({k: d[k] for k in ("s1", "s2", "g")}) for d in (train, test))
    Y = np.column_stack([train["y1"], train["y2"]])
    together = MultiObjectiveCalibrator(groups="g").fit(X, Y).predict(Z)
    single = np.column_stack(
        [
            GroupCalibrator(score_column=s, groups="g").fit(X, train[y]).predict(Z)
            for s, y in (("s1", "y1"), ("s2", "y2"))
        ]
    )
    raw = np.column_stack([test["s1"], test["s2"]])
    truth = np.column_stack([test["y1"], test["y2"]])
    errors: dict[str, list[float]] = {"raw": [], "one by one": [], "together": []}
    for w in rng.dirichlet([1, 1], vectors):
        for name, scores in (("raw", raw), ("one by one", single), ("together", together)):
            data = {"s": scores @ w, "y": truth @ w, "g": test["g"]}
            result = predictive_parity(
                data, outcome="y", score="s", groups="g", method=iso.curves(resamples=100), rng=1
            )
            # Smoothed residuals: the plain parity error has a floor, the bias of Nadaraya-Watson.
            errors[name].append(2 * float(np.nanmean(np.abs(result.disparity))))
    return errors


def test_together_beats_one_by_one_for_every_weighting() -> None:
    found = {name: np.array(errors) for name, errors in combined_parity_errors(8_000, vectors=20).items()}
    assert np.all(found["together"] < found["one by one"])
    assert np.all(found["together"] < found["raw"])
    assert np.mean(found["together"]) < 0.5 * np.mean(found["one by one"])
    assert np.mean(found["one by one"]) < np.mean(found["raw"])


def test_any_regressor_can_be_used() -> None:
    train = objectives(2_000, np.random.default_rng(0))
    X = pd.DataFrame({k: train[k] for k in ("s1", "s2", "g")})
    Y = np.column_stack([train["y1"], train["y2"]])
    forest = RandomForestRegressor(10, min_samples_leaf=30, random_state=0)
    model = MultiObjectiveCalibrator(groups="g", estimator=forest).fit(X, Y)
    assert model.predict(X).shape == (2_000, 2)
    assert pickle.loads(pickle.dumps(model)).predict(X).shape == (2_000, 2)
    with pytest.raises(UsageError, match="weights"):
        model.combine(X, [1.0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bandwidth": "a"}, "^bandwidth: 'a'"),
        ({"min_size": "x"}, "^min_size: 'x'"),
        ({"estimator": KNeighborsRegressor()}, "^estimator: KNeighborsRegressor.fit takes no sample_weight"),
        ({"estimator": LinearRegression}, "^estimator: .* is not allowed"),
        ({"estimator": 3}, "^estimator: 3 is not allowed"),
    ],
)
def test_arguments_that_cannot_work(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        MultiObjectiveCalibrator(**options).fit(*crossed(200))


def test_weights_and_outcomes_are_numbers() -> None:
    S, Y = crossed(300)
    model = MultiObjectiveCalibrator().fit(S, Y)
    for weights in ("ab", ["a", "b"], None, [1.0, np.inf]):
        with pytest.raises(UsageError, match=r"^weights:"):
            model.combine(S, weights)
    with pytest.raises(UsageError, match=r"^y: .*recode"):
        MultiObjectiveCalibrator().fit(S, np.where(Y == 1, "yes", "no"))


def thresholds(**options: Any) -> tuple[Any, pl.DataFrame, np.ndarray]:
    data = scored_rows(8_000)
    X = pl.DataFrame({k: data[k] for k in ("s", "g", "m")})
    named: dict[str, Any] = {"score_column": "s", "groups": "g", **options}
    return GroupThresholds(**named), X, data["y"]


def test_thresholds_decide_new_rows() -> None:
    rule, X, y = thresholds(target="tpr")
    rule.fit(X, y)
    result = equalize_thresholds(
        X.with_columns(y=y),
        outcome="y",
        score="s",
        groups="g",
        threshold=0.5,
        target="tpr",
        method=iso.curves(resamples=100),
    )
    np.testing.assert_allclose(rule.thresholds_, result.thresholds)
    assert rule.groups_ == (("a",), ("b",))
    new = pl.DataFrame({"g": ["b", "a", "b"], "s": [rule.thresholds_[1], rule.thresholds_[0] - 1e-9, 0.0]})
    assert rule.predict(new).tolist() == [1, 0, 0]
    with pytest.warns(UserWarning, match=r"decided by the present threshold: z\.$"):
        assert rule.predict(pl.DataFrame({"g": ["z", "z"], "s": [0.5, 0.49]})).tolist() == [1, 0]
    strict = rule.set_params(unknown="error")
    with pytest.raises(UsageError, match="z were not seen in fit"):
        strict.predict(pl.DataFrame({"g": ["z"], "s": [0.5]}))


def test_a_lottery_is_drawn_for_those_in_between() -> None:
    # Not the seed of the rows: the lottery would draw the numbers that their groups were drawn by.
    rule, X, y = thresholds(target="equalized_odds", randomize=True, random_state=7)
    chance = rule.fit(X, y).predict_chance(X)
    drawn = (chance > 0) & (chance < 1)
    assert drawn.any()
    first = rule.predict(X)
    np.testing.assert_array_equal(first, rule.predict(X))  # an int decides the same rows alike
    assert first[drawn].mean() == pytest.approx(chance[drawn].mean(), abs=4 * 0.5 / np.sqrt(drawn.sum()))
    np.testing.assert_array_equal(first[~drawn], chance[~drawn])


def test_thresholds_from_numbers_weights_and_scores_alone() -> None:
    rule, X, y = thresholds(target="selection_rate")
    alone = rule.fit(X).thresholds_
    np.testing.assert_array_equal(rule.fit(X, y, sample_weight=np.full(8_000, 3.0)).thresholds_, alone)
    with pytest.raises(UsageError, match="groups: none given"):
        GroupThresholds().fit(X, y)
    with pytest.raises(ValueError, match="requires y"):
        thresholds()[0].fit(X)


@pytest.mark.parametrize("target", ["outcome_at_margin", "predictive_value"])
def test_groups_that_share_a_threshold_are_decided_alike(target: Any) -> None:
    """Two groups with the same outcomes, and below 0.5 with scores that never coincide; a third with worse outcomes."""
    rng = np.random.default_rng(0)
    g, s = np.repeat([0, 1, 2], 6_000), rng.random(18_000)
    s = np.where((s < 0.5) & (g != 2), np.floor(10 * s) / 10 + 0.05 * g, s)
    y = rng.random(18_000) < np.where(g == 2, 0.7 * s, 0.1 + 0.9 * s)
    rule = GroupThresholds(target, groups=1).fit(np.column_stack([s, g]), y)
    assert rule.thresholds_[0] == rule.thresholds_[1] < 0.5 < rule.thresholds_[2]
    new = np.linspace(0, 1, 1_001)
    first, second = (rule.predict(np.column_stack([new, np.full(new.size, group)])) for group in (0, 1))
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize(
    "user",
    [
        ["a", None, "b"],
        [1.0, float("nan"), 2.0],
        pd.Series(["a", None, "b"]),
        pd.Series([1, None, 2], dtype="Int64"),
        pl.Series([1, None, 2]),
        np.array(["a", None, "b"], dtype=object),
    ],
)
def test_missing_users_cannot_be_split(user: Any) -> None:
    with pytest.raises(MissingValues, match=r"^user: 1 rows"):
        split_users(user, rng=0)


def test_split_users_never_splits_a_user() -> None:
    user = np.random.default_rng(0).integers(0, 50, 400)
    held_out = split_users(user, held_out=0.3, rng=1)
    assert not set(user[held_out]) & set(user[~held_out])
    assert len(set(user[held_out])) == 15
    with pytest.raises(UsageError):
        split_users(np.zeros(4))


# ---- with a classifier


def loans(n: int = 3_000, seed: int = 0) -> tuple[pd.DataFrame, Any]:
    rng = np.random.default_rng(seed)
    x, z, g = rng.normal(size=n), rng.normal(size=n), rng.choice(["a", "b"], n)
    y = (rng.random(n) < 1 / (1 + np.exp(-(x + 0.5 * z + 0.8 * (g == "a"))))).astype(int)
    return pd.DataFrame({"x": x, "z": z, "g": g, "m": np.arange(n) // 2}), y


@pytest.mark.parametrize("frame", [lambda X: X, pl.from_pandas, lambda X: X.assign(g=X["g"] == "a").to_numpy(float)])
def test_a_classifier_scores_rows_out_of_fold(frame: Any) -> None:
    """The same thresholds and maps as from out-of-fold scores made by hand with scikit-learn."""
    X, y = loans()
    table = frame(X)
    names: dict[str, Any] = {"groups": 2, "user": 3} if isinstance(table, np.ndarray) else {"groups": "g", "user": "m"}
    model = LogisticRegression()
    score = cross_val_predict(model, X[["x", "z"]], y, groups=X["m"], cv=GroupKFold(), method="predict_proba")[:, 1]
    by_hand = X.assign(s=score)
    plain: dict[str, Any] = {"score_column": "s", "groups": "g", "user": "m"}
    rule = GroupThresholds("tpr", estimator=model, **names).fit(table, y)
    expected = GroupThresholds("tpr", **plain).fit(by_hand, y)
    np.testing.assert_allclose(np.sort(rule.thresholds_), np.sort(expected.thresholds_), rtol=1e-6)
    calibrator = GroupCalibrator(estimator=model, **names).fit(table, y)
    fitted = LogisticRegression().fit(X[["x", "z"]], y)
    later = X.assign(s=fitted.predict_proba(X[["x", "z"]])[:, 1])
    np.testing.assert_allclose(
        calibrator.predict(table), GroupCalibrator(**plain).fit(by_hand, y).predict(later), rtol=1e-6
    )
    assert rule.n_features_in_ == 4


def test_a_corrected_classifier_follows_scikit_learn() -> None:
    X, y = loans(2_000)
    rule = GroupThresholds("tpr", estimator=make_pipeline(StandardScaler(), LogisticRegression()), groups="g", user="m")
    again = clone(rule)
    assert again.get_params()["estimator__logisticregression__C"] == 1.0
    decided = cross_val_predict(rule, X, y, cv=3)
    assert set(decided) == {0, 1}
    fitted = pickle.loads(pickle.dumps(again.fit(X, y)))
    np.testing.assert_array_equal(fitted.predict(X.drop(columns="m")), again.predict(X[["g", "z", "m", "x"]]))
    search = GridSearchCV(
        GroupCalibrator(estimator=LogisticRegression(), groups="g", user="m"), {"estimator__C": [0.01, 1]}
    )
    assert search.fit(X, y).best_params_["estimator__C"] in (0.01, 1)
    # A row without an outcome fits nothing, and is scored by the model of the others.
    outcome = np.where(np.arange(2_000) % 10 == 0, np.nan, y)
    with pytest.raises(UsageError, match="y: Input y contains NaN"):
        GroupCalibrator(estimator=LogisticRegression(), groups="g", user="m").fit(X, outcome)


def test_an_estimator_is_checked() -> None:
    X, y = loans(300)
    with pytest.raises(UsageError, match="estimator: 'logistic' is not allowed; give None or a scikit-learn class"):
        GroupCalibrator(estimator="logistic", groups="g").fit(X, y)
    with pytest.raises(UsageError, match="score_column: 'x' has no effect with an estimator"):
        GroupThresholds(estimator=LogisticRegression(), groups="g", user="m", score_column="x").fit(X, y)


def test_thresholds_of_the_estimator_are_those_of_the_function() -> None:
    rng = np.random.default_rng(5)
    s, g, m = rng.random(8_000), np.repeat(["a", "b"], 4_000), np.arange(8_000) // 4
    y = (rng.random(8_000) < np.where(g == "a", s, s**1.5)).astype(int)
    table = {"s": s, "g": g, "m": m, "y": y}
    asked: dict[str, Any] = {"target": "tpr", "direction": "raise", "threshold": {"a": 0.4, "b": 0.45}, "alpha": 0.1}
    rule = GroupThresholds(
        score_column="s", groups="g", cluster="m", method=iso.curves(resamples=100), random_state=3, **asked
    )
    rule.fit(pd.DataFrame(table), y)
    result = equalize_thresholds(
        table, outcome="y", score="s", groups="g", cluster="m", method=iso.curves(resamples=100), rng=3, **asked
    )
    np.testing.assert_array_equal(rule.thresholds_, result.thresholds)
    np.testing.assert_array_equal(rule.thresholds_low_, result.thresholds_low)
    with pytest.raises(UsageError, match="were not seen in fit and have no threshold"):
        rule.predict(pd.DataFrame({"s": [0.5], "g": ["c"]}))


def test_scores_on_a_lattice_are_not_smoothed_away() -> None:
    """Deciles and a steep curve: the largest bias was 0.046 at the rule's bandwidth."""
    errors = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        s = np.ceil(10 * rng.beta(2, 2, 1_000)) / 10
        true = 1 / (1 + np.exp(-10 * (np.arange(2, 10) / 10 - 0.5)))
        y = rng.random(1_000) < 1 / (1 + np.exp(-10 * (s - 0.5)))
        errors.append(GroupCalibrator().fit(s[:, None], y).predict(np.arange(2, 10)[:, None] / 10) - true)
    assert np.abs(np.mean(errors, axis=0)).max() < 0.02
