"""Groups known only by probability: reference values, properties, verdict rules, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

import isonomy as iso
from isonomy.errors import (
    DataError,
    MissingRole,
    MissingValues,
    NotEnoughData,
    OutOfRange,
    UnknownColumn,
    UsageError,
    WrongType,
)
from isonomy.report.overview import overview, worked
from isonomy.results import phrases
from support import data
from support.engines import ENGINES, expected

COLUMNS = {"a": "p_a", "b": "p_b", "c": "p_c"}
REFERENCE = {"g": "a"}
FOLDER = data.folder()
HERE = FOLDER is not None and (FOLDER / "proxy_reference.csv").exists()
needs_reference = pytest.mark.skipif(not HERE, reason="proxy_reference.csv is not in ISONOMY_DATA")


def reference_table() -> pl.DataFrame:
    assert FOLDER is not None
    return pl.read_csv(FOLDER / "proxy_reference.csv")


def simulated(rows: int = 800, seed: int = 1, gap: float = 0.2) -> pl.DataFrame:
    """Three groups with calibrated probabilities; the outcome depends on the group and on the probabilities."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet([1.2, 0.6, 0.3], rows)
    group = (p.cumsum(1) < rng.random((rows, 1))).sum(1).clip(0, 2)
    rate = 0.65 - gap * (group == 1) - 0.1 * p[:, 1]
    known = np.array(["a", "b", "c"], dtype=object)[group]
    known[rng.random(rows) > 0.4] = None
    return pl.DataFrame(
        {
            **{f"p_{label}": p[:, k] for k, label in enumerate("abc")},
            "y": (rng.random(rows) < rate).astype(int),
            "v": (rng.random(rows) < 0.6).astype(int),
            "x": 10 + 3 * rng.standard_normal(rows) - 2.0 * (group == 1),
            "w": rng.uniform(0.5, 2.0, rows),
            "person": rng.integers(0, rows // 3, rows),
            "place": rng.integers(0, 30, rows),
            "n": rng.integers(1, 4, rows),
            "known": pl.Series(known.tolist(), dtype=pl.String),
        }
    )


TABLE = simulated()


def proxy(**options: Any) -> Any:
    return iso.proxy("g", options.pop("columns", COLUMNS), **options)


def flag(table: Any = TABLE, groups: Any = None, **options: Any) -> iso.FlagResult:
    options = {"metric": "selection_rate", "prediction": "y", "reference": REFERENCE} | options
    return iso.flag(table, groups=proxy() if groups is None else groups, **options)


def close(values: Any, expected: Any) -> None:
    np.testing.assert_allclose(np.asarray(values, dtype=float), expected, rtol=2.5e-8, atol=2e-9)


# ---- reference values: an independent program, with the fixture of 600 rows


@needs_reference
@pytest.mark.parametrize(
    ("share", "means", "difference", "error", "pvalue"),
    [
        (
            0.0,
            (0.605718701, 0.469449959, 0.548308802),
            (-0.136268742, -0.057409898),
            (0.031198890, 0.036346112),
            (0.000019947, 0.118577707),
        ),
        (
            0.5,
            (0.621147783, 0.429736089, 0.543772041),
            (-0.191411695, -0.077375742),
            (0.043869718, 0.054760041),
            (0.000020832, 0.162154386),
        ),
        (
            1.0,
            (0.656374478, 0.333840476, 0.544290488),
            (-0.322534001, -0.112083990),
            (0.074998874, 0.113876111),
            (0.000029588, 0.328736323),
        ),
    ],
)
def test_reference_family(share: float, means: Any, difference: Any, error: Any, pvalue: Any) -> None:
    result = flag(reference_table(), proxy(assume=share))
    close(result.estimate, means)
    close(result.disparity[1:], difference)
    close(result.standard_error[1:], error)
    close(result.pvalue[1:], pvalue)


@needs_reference
def test_reference_bracket_sizes_and_tipping() -> None:
    result = flag(reference_table(), tolerance=0.03)
    assert result.expected is not None
    assert result.identified is not None
    close(result.expected / 600, (0.647175, 0.238354833, 0.114470167))
    close(result.quality, (0.419309951, 0.403793215, 0.304351809))
    close(result.identified, (259.573195, 66.100031, 22.549702))
    close([result.ci_low[1], result.ci_high[1], result.pvalue[1]], (-0.470653058, -0.074755775, 0.000396706))
    close([result.ci_low[2], result.ci_high[2]], (-0.339629265, 0.115461286))
    assert result.tipping is not None
    close(result.tipping[1], 0.127638911)
    assert result.verdicts[1] is iso.Verdict.VIOLATION
    assert result.direction[1] == "disfavored"


@needs_reference
def test_reference_other_references() -> None:
    table = reference_table()
    weighted = flag(table, proxy(assume="weighted"), reference="population")
    close(weighted.disparity, (0.039052034, -0.097216708, -0.018357864))
    close(weighted.standard_error, (0.009638985, 0.022934725, 0.030831557))
    linear = flag(table, proxy(assume="linear"), reference="population")
    close(linear.standard_error, (0.022929801, 0.058043575, 0.101187217))
    rest = flag(table, proxy(assume="linear"), reference="rest")
    close([rest.disparity[1], rest.standard_error[1]], (-0.305688528, 0.075713195))


@needs_reference
@pytest.mark.parametrize(
    ("share", "ratio", "low", "high"),
    [
        (0.0, 0.775029660, 0.679543938, 0.873603078),
        (0.5, 0.691841942, 0.564902812, 0.825356014),
        (1.0, 0.508612824, 0.313833306, 0.720087277),
    ],
)
def test_reference_ratios(share: float, ratio: float, low: float, high: float) -> None:
    result = iso.adverse_impact(reference_table(), prediction="y", groups=proxy(assume=share), reference=REFERENCE)
    close([result.disparity[1], result.ci_low[1], result.ci_high[1]], (ratio, low, high))
    same = flag(reference_table(), proxy(assume=share), scale="ratio")
    close([same.disparity[1], same.ci_low[1], same.ci_high[1]], (ratio, low, high))
    close(same.pvalue[1:], flag(reference_table(), proxy(assume=share)).pvalue[1:])


@needs_reference
def test_reference_conditions_means_and_designs() -> None:
    table, tpr = reference_table(), {"metric": "tpr", "outcome": "v"}
    weighted, linear = (flag(table, proxy(assume=kind), **tpr) for kind in ("weighted", "linear"))
    close(weighted.disparity[1:], (-0.146114754, -0.055186023))
    close(weighted.standard_error[1:], (0.036218943, 0.042326156))
    close(linear.disparity[1:], (-0.367698977, -0.099077528))
    # By the infinitesimal jackknife, which agrees with the formula.
    close(linear.standard_error[1:], (0.0934238686, 0.1620309939))
    for kind, value, error in (("weighted", -3.288162167, 0.610112830), ("linear", -8.053652933, 1.428581258)):
        mean = flag(table, proxy(assume=kind), metric="mean_prediction", prediction="x")
        close([mean.disparity[1], mean.standard_error[1]], (value, error))
    for kind, options, value, error in (
        ("weighted", {"weight": "w"}, -0.158572263, 0.035081336),
        ("weighted", {"weight": "w", "cluster": "person"}, -0.158572263, 0.028580267),
        ("linear", {"weight": "w"}, -0.366481876, 0.080303578),
        ("linear", {"weight": "w", "cluster": "person"}, -0.366481876, 0.067820416),
        ("weighted", {"cluster": "person"}, -0.136268742, 0.028031583),
    ):
        result = flag(table, proxy(assume=kind), **options)
        close([result.disparity[1], result.standard_error[1]], (value, error))
    assert result.design is not None
    close(result.design.effective[1] - 1, 71.024300)


@needs_reference
def test_reference_names_validated_and_nothing() -> None:
    table = reference_table()
    names = flag(table, proxy(assume="names", place="place"))
    close(names.estimate, (0.651110722, 0.333356460, 0.575057795))
    close(names.disparity[1:], (-0.317754262, -0.076052927))
    assert set(names.status[1:]) == {iso.Status.FEW_CLUSTERS}
    known = flag(table, proxy(known="known", known_rows="random"))
    close(known.estimate, (0.625435658, 0.419199089, 0.626513266))
    close(known.disparity[1:], (-0.206236570, 0.001077607))
    close(known.standard_error[1:], (0.056894662, 0.084856795))
    line = known.calibration("polars").row(1, named=True)
    close([line["observed"], line["stated"], line["difference"]], (0.309178744, 0.262012077, 0.047166667))
    close([line["difference_se"], line["slope"]], (0.016820614, 1.448874651))
    close([line["missed_by_weighted"], line["missed_by_weighted_se"]], (-0.064792106, 0.036523934))
    close([line["missed_by_linear"], line["missed_by_linear_se"]], (0.091137379, 0.063763100))
    assert known.calibration("polars")["known"].to_list() == [123, 64, 20]
    nothing = flag(table, proxy(assume="nothing"))
    assert nothing.low is not None
    assert nothing.high is not None
    close([nothing.low[1], nothing.high[1]], (-0.613869318, 0.272280264))
    # The reference program divides by n, the law of designs by n - 1.
    factor = np.sqrt(600 / 599)
    ends = [nothing.low[1] - 0.067577904 * factor, nothing.high[1] + 0.078523817 * factor]
    close([nothing.ci_low[1], nothing.ci_high[1]], ends)


# ---- the estimates without the library


def moments(p: np.ndarray, v: np.ndarray, y: np.ndarray, w: np.ndarray, share: float) -> np.ndarray:
    g = (1 - share) * np.diag((w[:, None] * p).sum(0)) + share * (w[:, None] * p).T @ p
    top, bottom = (np.linalg.solve(g, (p * (w * part)[:, None]).sum(0)) for part in (v * y, v))
    return np.asarray(top / bottom)


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("metric", ["selection_rate", "tpr"])
@pytest.mark.parametrize("reference", ["group", "population", "rest"])
def test_errors_are_those_of_the_infinitesimal_jackknife(share: float, metric: str, reference: str) -> None:
    p, y = TABLE.select("p_a", "p_b", "p_c").to_numpy(), TABLE["y"].to_numpy().astype(float)
    v = TABLE["v"].to_numpy().astype(float) if metric == "tpr" else np.ones(len(y))

    def contrast(w: np.ndarray) -> float:
        mean = moments(p, v, y, w, share)
        total, everybody = (w * v).sum(), (w * v * y).sum() / (w * v).sum()
        if reference == "group":
            return float(mean[1] - mean[0])
        if reference == "population":
            return float(mean[1] - everybody)
        g = (1 - share) * np.diag((w[:, None] * p).sum(0)) + share * (w[:, None] * p).T @ p
        size = (w * p[:, 1]).sum() * np.linalg.solve(g, (p * (w * v)[:, None]).sum(0))[1]
        return float(mean[1] - (total * everybody - size * mean[1]) / (total - size))

    step, n = 1e-5, len(y)
    lines = [
        (contrast(1 + step * (np.arange(n) == i)) - contrast(1 - step * (np.arange(n) == i))) / (2 * step)
        for i in range(n)
    ]
    error = np.sqrt(n / (n - 1) * np.square(lines).sum())
    named = REFERENCE if reference == "group" else reference
    result = flag(groups=proxy(assume=share), metric=metric, outcome="v", reference=named)
    np.testing.assert_allclose(result.disparity[1], contrast(np.ones(n)), rtol=1e-9)
    np.testing.assert_allclose(result.standard_error[1], error, rtol=1e-6)


# ---- properties


def test_the_order_of_groups_does_not_matter() -> None:
    other = flag(groups=proxy(columns={"c": "p_c", "a": "p_a", "b": "p_b"})).to_frame()
    first = flag().to_frame()
    columns = ["group", "disparity", "ci_low", "ci_high", "pvalue", "identified", "tipping"]
    for row in first.select(columns).iter_rows(named=True):
        again = other.select(columns).row(by_predicate=pl.col("group") == row["group"], named=True)
        np.testing.assert_allclose(list(row.values())[1:], list(again.values())[1:], rtol=1e-9)


@pytest.mark.parametrize("assume", [0.0, 0.5, 1.0])
def test_certain_groups_have_their_means_at_every_share(assume: float) -> None:
    code = np.random.default_rng(4).integers(0, 3, len(TABLE))
    certain = TABLE.with_columns(
        **{f"p_{label}": pl.Series((code == k).astype(float)) for k, label in enumerate("abc")}
    )
    result = flag(certain, proxy(assume=assume))
    y = TABLE["y"].to_numpy()
    np.testing.assert_allclose(result.estimate, [y[code == k].mean() for k in range(3)], rtol=1e-12)
    assert any(note.code == "proxy_certain" for note in result.notes)


def test_constant_probabilities_say_nothing() -> None:
    constant = TABLE.with_columns(p_a=pl.lit(0.5), p_b=pl.lit(0.3), p_c=pl.lit(0.2))
    result = flag(constant)
    assert result.weighted is not None
    np.testing.assert_allclose(result.weighted, 0.0, atol=1e-12)
    assert set(result.status[1:]) == {iso.Status.WEAK_PROXY}
    assert not result.answered
    assert np.isnan(result.pvalue).all()


def test_split_rows_and_counts_change_nothing() -> None:
    whole = flag(groups=proxy(assume=0.5), count="n")
    rows = flag(TABLE.select(pl.all().repeat_by("n").explode()), proxy(assume=0.5))
    np.testing.assert_allclose(whole.standard_error, rows.standard_error, rtol=1e-9)
    halves = pl.concat([TABLE, TABLE]).with_columns(w=pl.lit(0.5), row=pl.Series([*range(len(TABLE))] * 2))
    split = flag(halves, proxy(assume=0.5), weight="w", cluster="row")
    np.testing.assert_allclose(split.standard_error, flag(groups=proxy(assume=0.5)).standard_error, rtol=1e-9)


def test_a_change_of_units_changes_the_unit() -> None:
    options = {"metric": "mean_prediction", "prediction": "x"}
    plain, scaled = flag(**options), flag(TABLE.with_columns(x=2 * pl.col("x") + 3), **options)
    for name in ("disparity", "ci_low", "ci_high"):
        np.testing.assert_allclose(getattr(scaled, name), 2 * getattr(plain, name), rtol=1e-9)
    np.testing.assert_allclose(scaled.pvalue, plain.pvalue, rtol=1e-7)


@pytest.mark.parametrize("assume", [0.0, 0.4, 1.0])
def test_groups_average_to_the_population(assume: float) -> None:
    result = flag(groups=proxy(assume=assume))
    assert result.expected is not None
    mean = float(TABLE["y"].to_numpy().mean())
    np.testing.assert_allclose(float(result.expected @ result.estimate) / len(TABLE), mean, rtol=1e-12)


def test_numbers_name_groups() -> None:
    numbered = proxy(columns={1: "p_a", 2: "p_b", 3: "p_c"})
    assert numbered.groups == ("1", "2", "3")
    for label in (1, "1"):
        np.testing.assert_allclose(flag(groups=numbered, reference={"g": label}).pvalue, flag().pvalue)


def test_the_complement_is_a_group() -> None:
    named = flag(groups=proxy(columns={"a": "p_a", "b": "p_b"}, other="c"))
    for name in ("disparity", "ci_low", "ci_high", "identified"):
        np.testing.assert_allclose(getattr(named, name), getattr(flag(), name), rtol=1e-9)


ASSUMPTIONS: dict[str, dict[str, Any]] = {
    "bracket": {},
    "names": {"assume": "names", "place": "place"},
    "nothing": {"assume": "nothing"},
    "validated": {"known": "known", "known_rows": "random"},
}


DESIGNS = {"rows": {}, "design": {"weight": "w", "cluster": "person"}, "count": {"count": "n"}}
CASES = [
    *(("duckdb", "bracket", design) for design in DESIGNS),
    *(("duckdb", name, "rows") for name in ASSUMPTIONS if name != "bracket"),
    ("pandas", "bracket", "design"),
]


@pytest.mark.parametrize(("engine", "assumption", "design"), CASES)
def test_every_engine_gives_the_same_numbers(engine: str, assumption: str, design: str) -> None:
    groups, options = proxy(**ASSUMPTIONS[assumption]), DESIGNS[design]
    here = expected(flag, TABLE, groups=groups, **options)
    columns = {name: TABLE[name].to_numpy() if name != "known" else TABLE[name].to_list() for name in TABLE.columns}
    there = flag(ENGINES[engine](columns), groups, **options)
    for name in ("estimate", "disparity", "ci_low", "ci_high", "pvalue", "identified", "checks"):
        if getattr(here, name) is not None:
            np.testing.assert_allclose(getattr(there, name), getattr(here, name), rtol=1e-9, atol=1e-12)


# ---- verdicts


def test_weighted_never_shows_that_groups_are_within_a_tolerance() -> None:
    table = simulated(20_000, seed=3, gap=0.0).with_columns(y=pl.Series(np.arange(20_000) % 2))
    within, refused = flag(table, tolerance=0.2), flag(table, proxy(assume="weighted"), tolerance=0.2)
    assert within.verdicts[1] is iso.Verdict.WITHIN_TOLERANCE
    assert refused.verdicts[1] is iso.Verdict.INCONCLUSIVE
    assert any(note.code == "proxy_weighted_within" and "g=b" in note.groups for note in refused.notes)


def test_linear_shows_a_difference_but_not_its_size() -> None:
    rng = np.random.default_rng(5)
    p = rng.beta(0.6, 1.2, 8_000)
    table = pl.DataFrame({"p_b": p, "p_a": 1 - p, "y": (rng.random(8_000) < 0.6 - 0.15 * p).astype(int)})
    groups = {kind: proxy(columns={"a": "p_a", "b": "p_b"}, assume=kind) for kind in ("linear", "bracket")}
    assert flag(table, groups["linear"]).verdicts[1] is iso.Verdict.VIOLATION
    sized = flag(table, groups["linear"], tolerance=0.08)
    assert sized.verdicts[1] is iso.Verdict.INCONCLUSIVE
    assert any(note.code == "proxy_linear_beyond" for note in sized.notes)
    # With a share that is nearly 1 the same rows show it: the rule, not the rows, withholds the verdict.
    nearly = proxy(columns={"a": "p_a", "b": "p_b"}, assume=0.999)
    assert flag(table, nearly, tolerance=0.08).verdicts[1] is iso.Verdict.VIOLATION


def test_a_verdict_needs_every_share() -> None:
    result = flag(tolerance=0.05)
    table = result.sensitivity("polars").filter(pl.col("group") == "g=b")
    np.testing.assert_allclose(result.pvalue[1], table["pvalue"].max())
    np.testing.assert_allclose(result.ci_low[1], table["ci_low"].min())
    np.testing.assert_allclose(result.ci_high[1], table["ci_high"].max())
    assert table["gamma"].to_list() == [0, 0.25, 0.5, 0.75, 1]


def test_few_known_members_are_not_tested() -> None:
    fewer = pl.col("known").is_in(["a", "b"]) | (pl.int_range(pl.len()) < 60)
    few = TABLE.with_columns(known=pl.when(fewer).then("known"))
    result = flag(few, proxy(known="known", known_rows="random"))
    assert result.status[2] is iso.Status.TOO_SMALL
    assert np.isnan(result.pvalue[2])
    assert result.status[1] is iso.Status.OK


def test_known_rows_that_are_not_random_correct_nothing() -> None:
    other, plain = flag(groups=proxy(known="known", known_rows="other")), flag()
    np.testing.assert_allclose(other.pvalue, plain.pvalue, rtol=1e-9)
    assert other.validated is None
    assert len(other.calibration("polars")) == 3
    with pytest.raises(UsageError, match="no group is known"):
        plain.calibration()


def test_withheld_groups_stay_withheld() -> None:
    result = flag(groups=proxy(known="known", known_rows="other"))
    copy = result.published(200)
    assert iso.Status.SUPPRESSED in copy.status
    hidden = copy.status.index(iso.Status.SUPPRESSED)
    for values in (copy.expected, copy.weighted, copy.tipping, copy.curves):
        assert values is not None
        assert np.isnan(values[..., hidden]).all()
    assert copy.bins is None


def test_words_speak_of_expected_members_and_of_no_person() -> None:
    result = flag(tolerance=0.02)
    text = result.summary()
    for phrase in ("expected members", "Nobody's group was observed", "among people with the same probabilities"):
        assert phrase in " ".join(text.split())
    assert result.assumption.startswith("The result holds for every share between 0 % and 100 %")
    assert iso.from_json(result.to_json()).summary() == text
    gap, known, others = (next(i for i, t in enumerate(result.findings()) if p in t) for p in ("For no", "500", "g=c"))
    assert result.findings()[0].startswith("g=b (expected members ")
    assert result.findings()[1] == result.assumption
    assert (gap, known, others) == (2, 3, 4)
    assert "by share" in str(result.plot().to_dict(validate=False)).lower()


@pytest.mark.parametrize(("assume", "first"), [(None, ["low", "high"]), ("linear", ["disparity", "estimate"])])
def test_a_report_shows_the_range_before_any_point(assume: Any, first: list[str]) -> None:
    result = flag(groups=proxy(assume=assume), tolerance=0.02)
    numbers, further = result.pages().values()
    assert list(numbers)[1:3] == first
    assert "disparity" not in further
    assert not set(numbers) & set(further) - {"group"}
    line = overview(result)
    assert line is not None
    assert result.low is not None
    assert result.high is not None
    ends = f"{100 * result.low[1]:.1f} to {100 * result.high[1]:.1f} points".replace("-", "−")
    assert (line[3] == ends) == (assume is None)
    assert (worked(result) == "") == (assume is None)
    lines = [line for rows in result.plot().to_dict(validate=False)["datasets"].values() for line in rows]
    assert isinstance(result.movement(), str) == (assume is None)
    marks = [line["disparity"] for line in lines if "disparity" in line and line["group"] == "g=b"]
    assert (marks == [None]) == (assume is None)


def test_what_is_not_shown_depends_on_what_is_known() -> None:
    nobody, some = flag().limits(), flag(groups=proxy(known="known", known_rows="random")).limits()
    assert any(text.startswith("Nobody's group was observed.") for text in nobody)
    assert any(text.startswith("Only some people's groups were observed.") for text in some)
    assert any("calibrated" in text for text in nobody)
    assert not any("calibrated" in text for text in some)
    impact = iso.adverse_impact(TABLE, prediction="y", groups=proxy(), reference=REFERENCE)
    assert impact.method == "groups by probability"
    assert impact.limits()[-1] == "A probability is not a statement about a person."


def test_a_finding_says_where_the_answer_depends_on_the_assumption() -> None:
    text = "by the linear one: whether it"
    assert f"{text} lies within the tolerance depends on an assumption" in flag(tolerance=0.1).findings()[0]
    call: Any = {"prediction": "y", "reference": REFERENCE, "threshold": 0.6}
    assumed, known = (
        iso.adverse_impact(TABLE.head(400), groups=proxy(**options), **call)
        for options in ({}, {"known": "known", "known_rows": "random"})
    )
    assert assumed.verdicts[1] is known.verdicts[1] is iso.Verdict.INCONCLUSIVE
    assert any(f"{text} is below 0.600 depends on an assumption" in finding for finding in assumed.findings())
    assert not any(finding.startswith("The result holds") for finding in assumed.findings())
    assert (
        iso.adverse_impact(TABLE, groups=proxy(assume="weighted"), **call).findings()[1].startswith("The result holds")
    )
    # Known rows need no assumption about the share.
    assert any("do not show whether the ratio is below 0.600" in finding for finding in known.findings())


def test_a_ratio_has_two_tests_and_the_smallest_comes_first() -> None:
    call: Any = {"prediction": "y", "reference": REFERENCE, "threshold": 0.05}
    result = iso.adverse_impact(TABLE, groups=proxy(), **call)
    first = next(i for i in result.ranking() if np.isfinite(result.ci_low[i]))
    equal, below = phrases.pvalue(float(result.pvalue[first])), phrases.adjusted(float(result.adjusted_pvalue[first]))
    shown = "" if result.difference_shown[first] else "not "
    assert result.findings()[0].startswith(result.labels[first])
    tests = f"{shown}shown ({equal}); the test of a ratio of 0.0500 or more gives {below}."
    assert f"A difference from equal rates was {tests}" in result.findings()[0]
    order = [label for finding in flag().findings() for label in flag().labels if finding.startswith(f"{label} (")]
    ranked = flag()
    assert order == [ranked.labels[i] for i in ranked.ranking() if ranked.labels[i] in order]


def test_next_steps_are_those_that_probabilities_allow() -> None:
    common = (phrases.WITHIN_FACTORS, "Review the rule.")
    shown, undecided = flag(), flag(TABLE.with_columns(y=pl.int_range(pl.len()) % 2), tolerance=0.02)
    assert shown.next_steps(common) == ("Review the rule.",)
    rule, known, names = undecided.next_steps(common)
    assert rule == "Review the rule."
    assert known.startswith("Where the law allows it, record the group of a random sample")
    assert 'assume="names"' in names
    corrected = flag(TABLE.with_columns(y=1 - pl.col("v")), proxy(known="known", known_rows="random"))
    assert corrected.verdict is iso.Verdict.INCONCLUSIVE
    assert corrected.next_steps(common) == ("Review the rule.",)
    known_groups = iso.flag(TABLE, metric="selection_rate", prediction="y", groups="place")
    assert known_groups.next_steps(common) == common


def test_probabilities_in_single_precision_are_not_called_rounded() -> None:
    single = TABLE.with_columns(pl.col("p_a", "p_b", "p_c").cast(pl.Float32))
    assert not any(note.code == "proxy_rounded" for note in flag(single).notes)


def test_the_interval_that_known_groups_would_give_is_that_of_a_sample() -> None:
    """With certain groups, the interval of 500 rows at random is about as wide as the sentence says."""
    code = np.random.default_rng(4).integers(0, 3, len(TABLE))
    certain = TABLE.with_columns(
        **{f"p_{label}": pl.Series((code == k).astype(float)) for k, label in enumerate("abc")}, group=pl.Series(code)
    )
    text = next(text for text in flag(certain).findings() if "500 people" in text)
    known = iso.flag(certain, metric="selection_rate", prediction="y", groups="group", reference={"group": 0})
    i = 1 if "for g=b" in text else 2
    reach = 100 * (known.ci_high[i] - known.ci_low[i]) / 2 * np.sqrt(len(TABLE) / 500)
    assert abs(float(text.split("about ")[1].split(" points")[0]) - reach) < 0.3


# ---- refusals


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"columns": {}}, UsageError, "give a column of probabilities for each group"),
        ({"columns": {"a": "p_a"}}, UsageError, "one group; name the column of the other"),
        ({"columns": {"a": "p_a", "b": "p_a"}}, UsageError, "one column twice"),
        ({"other": "a"}, UsageError, "among the groups already"),
        ({"columns": {"": "p_a", "b": "p_b"}}, UsageError, "'' is no name of a group"),
        ({"known": "known"}, UsageError, 'known_rows: say "random"'),
        ({"known_rows": "random"}, UsageError, "known_rows: 'random' has no effect without known"),
        ({"place": "place"}, UsageError, 'only assume="names" uses it'),
        ({"assume": "names"}, MissingRole, "needs place"),
        ({"assume": "validated"}, MissingRole, "needs known"),
        ({"assume": "validated", "known": "known", "known_rows": "other"}, MissingRole, "needs known"),
        ({"assume": (1.0, 0.0)}, UsageError, "smaller share first"),
        ({"assume": -2.0}, UsageError, "at least -1"),
    ],
)
def test_proxies_are_checked_when_they_are_made(options: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        proxy(**options)


@pytest.mark.parametrize(
    ("table", "groups", "error", "text"),
    [
        (TABLE, {"columns": {"a": "p_a", "b": "p_z"}}, UnknownColumn, "p_z"),
        (TABLE, {"columns": {"a": "p_a", "b": "known"}}, WrongType, "probabilities are numbers"),
        (TABLE.with_columns(p_a=100 * pl.col("p_a")), {}, OutOfRange, "divide by 100"),
        (TABLE.with_columns(p_a=pl.col("p_a") - 0.5), {}, OutOfRange, "values from -0"),
        (
            TABLE.with_columns(p_a=pl.col("p_b")),
            {"columns": {"a": "p_a", "b": "p_b"}, "other": "c"},
            DataError,
            "sum to more",
        ),
        (TABLE.with_columns(p_a=pl.when(pl.col("n") > 1).then("p_a")), {}, MissingValues, "name or address not found"),
        (TABLE, {"known": "place", "known_rows": "other"}, UsageError, "is not a group of the proxy"),
        (
            TABLE.with_row_index("row"),
            {"assume": "names", "place": "row"},
            NotEnoughData,
            "one row in each of 800 values",
        ),
    ],
)
def test_bad_tables_are_refused(table: pl.DataFrame, groups: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        flag(table, proxy(**groups))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"metric": ["selection_rate", "tpr"], "outcome": "v"}, "several metrics"),
        ({"given": "place"}, "given"),
        ({"adjust": "max-t"}, "max-t"),
        ({"scale": "odds_ratio"}, "odds_ratio"),
        ({"method": "eel"}, "method"),
        ({"null": 0.1}, "null"),
        ({"reference": 0.5}, "name one group"),
        ({"reference": {"g": "z"}}, "Groups: a, b, c"),
        ({"tolerance": 0.05, "scale": "ratio"}, "tolerates ratios from 0.05 to 20"),
        ({"groups": proxy(assume="nothing"), "scale": "ratio"}, "bounds differences of 0/1 metrics"),
        ({"groups": [proxy(), "place"]}, "give it alone"),
    ],
)
def test_flag_refuses_what_it_cannot_do_with_probabilities(options: Any, text: str) -> None:
    with pytest.raises(UsageError, match=text):
        flag(TABLE, options.pop("groups", None), **options)


def test_other_questions_refuse_probabilities_by_name() -> None:
    text = r"iso.proxy\('g', ...\) is known only by probability.*iso.flag and iso.adverse_impact can"
    common: dict[str, Any] = {"groups": proxy()}
    for call, options in (
        (iso.certify, {"metric": "selection_rate", "prediction": "y"}),
        (iso.project, {"prediction": "y", "score": "w", "outcome": "v", "threshold": 0.5}),
        (iso.predictive_parity, {"outcome": "v", "score": "w"}),
        (iso.treatment_bias, {"outcome": "y", "treatment": "v", "effect": "x"}),
        (iso.flag, {"metric": "selection_rate", "prediction": "y", "groups": "place", "given": proxy()}),
        (iso.marginal_outcomes, {"outcome": "v", "score": "w", "threshold": 0.5}),
        (iso.improvability, {"outcome": "y", "status_quo": "v", "candidate": "y"}),
    ):
        with pytest.raises(UsageError, match=text):
            call(TABLE, **{**common, **options})
    with pytest.raises(UsageError, match="nobody knows which group is selected most often"):
        iso.adverse_impact(TABLE, prediction="y", groups=proxy())


def test_missing_rows_are_dropped_and_rounded_sums_are_noted() -> None:
    gaps = TABLE.with_columns(p_a=pl.when(pl.col("n") > 1).then("p_a"))
    result = flag(gaps, missing="drop")
    assert result.provenance.dropped == {"probabilities": gaps["p_a"].null_count()}
    left = flag(gaps.drop_nulls("p_a"))
    np.testing.assert_allclose(result.ci_low, left.ci_low)
    rounded = flag(TABLE.with_columns(pl.col("p_a", "p_b", "p_c").round(2)))
    assert any(note.code == "proxy_rounded" for note in rounded.notes)


# ---- an audit file


def test_an_audit_file_names_a_proxy(tmp_path: Any) -> None:
    TABLE.write_parquet(tmp_path / "rows.parquet")
    text = """
title = "Lending"
[data]
path = "rows.parquet"
[columns]
prediction = "y"
groups = [{proxy = "g", probabilities = {a = "p_a", b = "p_b", c = "p_c"}, assume = [0.0, 1.0]}]
[[tests]]
kind = "flag"
metric = "selection_rate"
reference = {g = "a"}
tolerance = 0.02
[[tests]]
kind = "adverse_impact"
reference = {g = "a"}
"""
    (tmp_path / "audit.toml").write_text("suppress_below = 10\n" + text)
    audit = iso.Audit.from_toml(tmp_path / "audit.toml")
    audit.validate()
    outcome = audit.run(debug=True)
    codes = [note.code for entry in outcome.entries if entry.result for note in entry.result.notes]
    assert "near_counts" not in codes
    result: Any = outcome.results["flag-selection_rate"]
    np.testing.assert_allclose(result.ci_low, flag(tolerance=0.02).ci_low)
    assert [entry.heading for entry in outcome.entries] == ["Selection rate by g", "Impact ratios by g"]


# ---- tables at the edge


EDGES: dict[str, tuple[dict[str, Any], dict[str, Any], iso.Status]] = {
    "the reference has no members": ({"p_a": 0.0, "p_b": 0.7, "p_c": 0.3}, {}, iso.Status.EMPTY),
    "everybody is in the reference": ({"p_a": 1.0, "p_b": 0.0, "p_c": 0.0}, {}, iso.Status.EMPTY),
    "all are selected": ({"y": 1}, {}, iso.Status.CONSTANT),
    "all values are equal": ({"x": 3.1}, {"metric": "mean_prediction", "prediction": "x"}, iso.Status.CONSTANT),
}


@pytest.mark.parametrize("case", EDGES)
def test_nothing_is_shown_where_nothing_varies(case: str) -> None:
    columns, options, status = EDGES[case]
    result = flag(TABLE.with_columns(**{name: pl.lit(value) for name, value in columns.items()}), **options)
    assert set(result.status[1:]) == {status}
    assert np.isnan(result.pvalue).all()
    assert result.verdict is iso.Verdict.INCONCLUSIVE
    assert result.summary()


@pytest.mark.parametrize("assumption", ["bracket", "names", "nothing", "validated"])
def test_a_group_without_members_leaves_the_others_as_they_are(assumption: str) -> None:
    options = ASSUMPTIONS[assumption]
    joined = TABLE.with_columns(p_b=pl.col("p_b") + pl.col("p_c"), known=pl.col("known").replace("c", "b"))
    two = flag(joined, proxy(columns={"a": "p_a", "b": "p_b"}, **options))
    three = flag(joined.with_columns(p_c=pl.lit(0.0)), proxy(**options))
    assert three.status[2] is iso.Status.EMPTY
    for name in ("estimate", "disparity", "ci_low", "ci_high", "pvalue"):
        np.testing.assert_allclose(getattr(three, name)[:2], getattr(two, name), rtol=1e-8)


def test_known_rows_of_one_group_show_nothing() -> None:
    only = TABLE.with_columns(known=pl.when(pl.col("known") == "a").then("known"))
    result = flag(only, proxy(known="known", known_rows="random"))
    assert set(result.status[1:]) == {iso.Status.TOO_SMALL}
    assert len(result.calibration("polars")) == 3


def test_values_of_any_scale_have_the_same_pvalues() -> None:
    options = {"metric": "mean_prediction", "prediction": "x"}
    large = flag(TABLE.with_columns(x=1e9 * pl.col("x")), **options)
    np.testing.assert_allclose(large.pvalue, flag(**options).pvalue, rtol=1e-9)


def test_groups_by_probability_are_not_drawn_together() -> None:
    p = np.random.default_rng(3).dirichlet(np.full(9, 0.4), 900)
    columns = {f"p{k}": p[:, k] for k in range(9)}
    groups = proxy(columns={str(k): f"p{k}" for k in range(9)})
    result = flag(pl.DataFrame({**columns, "y": TABLE["y"].to_list() + [1] * 100}), groups, reference="population")
    with pytest.raises(UsageError, match="known only by probability"):
        result.shrunk()


def test_probabilities_slightly_above_one_are_not_called_percentages() -> None:
    with pytest.raises(OutOfRange) as slight:
        flag(TABLE.with_columns(p_a=pl.col("p_a") + 0.2))
    with pytest.raises(OutOfRange, match="percentages"):
        flag(TABLE.with_columns(pl.col("p_a", "p_b", "p_c") * 100))
    assert "percent" not in str(slight.value)


def test_bounds_that_meet_have_two_sided_limits() -> None:
    code = np.random.default_rng(4).integers(0, 3, len(TABLE))
    certain = {f"p_{label}": pl.Series((code == k).astype(float)) for k, label in enumerate("abc")}
    bounds, point = (flag(TABLE.with_columns(**certain), proxy(assume=kind)) for kind in ("nothing", "weighted"))
    assert bounds.low is not None
    np.testing.assert_allclose(bounds.low[1], point.disparity[1], rtol=1e-9)
    np.testing.assert_allclose(bounds.pvalue[1], point.pvalue[1], rtol=1e-9)
    reach = 1.959963985 * point.standard_error[1]
    np.testing.assert_allclose([bounds.ci_low[1], bounds.ci_high[1]], point.disparity[1] + np.array([-1, 1]) * reach)


@pytest.mark.parametrize("call", [iso.flag, iso.adverse_impact])
def test_a_column_of_probabilities_is_not_taken_for_groups(call: Any) -> None:
    metric = {"metric": "selection_rate"} if call is iso.flag else {}
    with pytest.raises(UsageError, match=r"'p_b' has 800 different numbers between 0 and 1.*iso\.proxy"):
        call(TABLE, **metric, prediction="y", groups="p_b")
