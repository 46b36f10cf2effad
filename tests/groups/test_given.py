"""Groups within strata, through the public call."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import special

import isonomy as iso
from isonomy.errors import NotEnoughData, UsageError
from isonomy.groups.likelihood.strata import SHOWN, StratifiedLines
from isonomy.report import Entry
from isonomy.report.layout import Section
from isonomy.results import Status, phrases
from support.admissions import RATE, admissions, stratified
from support.engines import ENGINES


def test_departments_account_for_the_difference() -> None:
    result = stratified(admissions(), **RATE, reference={"sex": "m"}, given="department")
    row = result.to_frame().row(0, named=True)
    assert row["unconditional"] < -0.15
    assert row["ci_low"] < 0 < row["ci_high"]
    assert row["accounted_low"] < row["unconditional"] - row["disparity"] < row["accounted_high"] < 0
    assert row["accounted"] == pytest.approx(row["unconditional"] - row["disparity"])
    assert row["unconditional"] == pytest.approx(row["raw_estimate"] - row["raw_reference"])
    columns = ",".join(result.to_frame().columns)
    assert "estimate,reference,disparity" in columns
    assert "status,raw_estimate,raw_reference,unconditional,accounted" in columns


def by_hand(data: dict[str, Any], group: str, reference: str, column: str) -> tuple[tuple[float, float], ...]:
    """The adjusted and the raw means of a group and its reference, by plain loops over strata."""
    weight = np.asarray(data.get("w", np.ones(len(data["sex"]))), dtype=float)
    own = data["sex"] == group
    other = ~own if reference == "rest" else data["sex"] == reference
    sums, total = np.zeros(2), 0.0
    for stratum in np.unique(data["department"]):
        rows = [side & (data["department"] == stratum) for side in (own, other)]
        masses = [weight[side].sum() for side in rows]
        if min(masses) == 0:
            continue
        share = masses[0] * masses[1] / sum(masses)
        sums += [share * np.average(data[column][side], weights=weight[side]) for side in rows]
        total += share
    raw = tuple(float(np.average(data[column][side], weights=weight[side])) for side in (own, other))
    return (sums[0] / total, sums[1] / total), (raw[0], raw[1])


@pytest.mark.parametrize("reference", ["rest", "population", "m"])
@pytest.mark.parametrize("design", ["rows", "weights", "clusters"])
@pytest.mark.parametrize("scale", ["difference", "ratio", "odds_ratio"])
@pytest.mark.parametrize("column", ["admitted", "points"])
def test_adjusted_rates_add_up_to_the_disparity(reference: str, design: str, scale: Any, column: str) -> None:
    data = admissions()
    rng = np.random.default_rng(1)
    data |= {"sex": np.where(rng.random(2_000) < 0.2, "x", data["sex"]), "points": rng.gamma(2.0, size=2_000)}
    data["points"] += data["admitted"]
    data["department"][:3], data["sex"][:3] = "art", "f"  # a stratum without a man
    if design == "weights":
        data["w"] = rng.lognormal(size=2_000)
    elif design == "clusters":
        data["who"] = rng.integers(0, 900, 2_000)
    if scale == "odds_ratio" and column == "points":
        return
    result = stratified(
        data,
        metric="selection_rate" if column == "admitted" else "mean_prediction",
        prediction=column,
        groups="sex",
        given="department",
        reference={"sex": "m"} if reference == "m" else reference,
        scale=scale,
        weight="w" if design == "weights" else None,
        cluster="who" if design == "clusters" else None,
    )
    for row in result.to_frame().iter_rows(named=True):
        group = row["group"].removeprefix("sex=")
        if row["status"] == "reference":
            assert np.isnan([row["estimate"], row["reference"], row["disparity"]]).all()
            assert row["raw_estimate"] == pytest.approx(by_hand(data, "m", "rest", column)[1][0])
            continue
        adjusted, raw = by_hand(data, group, "m" if reference == "m" else "rest", column)
        both = row["estimate"], row["reference"]
        if scale == "odds_ratio":  # no average of rates gives it: the group's rate follows from the reference's
            assert both[1] == pytest.approx(adjusted[1], rel=1e-10)
        else:
            assert both == pytest.approx(adjusted, rel=1e-10)
        assert (row["raw_estimate"], row["raw_reference"]) == pytest.approx(raw, rel=1e-10)
        for one, other, compared in ((*both, "disparity"), (*raw, "unconditional")):
            expected = {
                "difference": one - other,
                "ratio": one / other,
                "odds_ratio": one * (1 - other) / (other * (1 - one)) if column == "admitted" else 0.0,
            }[scale]
            assert row[compared] == pytest.approx(expected, rel=1e-9), compared


def test_an_adjusted_reference_of_zero_has_no_ratio() -> None:
    """Men are admitted, but not in the department that women apply to."""
    table = {
        "sex": ["f"] * 40 + ["m"] * 80,
        "department": ["a"] * 80 + ["b"] * 40,
        "admitted": [0, 1] * 20 + [0] * 40 + [0, 1] * 20,
    }
    for scale in ("ratio", "odds_ratio"):
        result = stratified(table, **RATE, reference={"sex": "m"}, given="department", scale=scale)
        assert result.status[0] is Status.ZERO_BASELINE
        assert not result.answered


def test_a_stratum_in_which_nobody_weighs_anything_changes_nothing() -> None:
    data = admissions(400)
    data["w"] = np.where(data["department"] == "hard", 0.0, 1.0)
    result = stratified(data, **RATE, reference={"sex": "m"}, given="department", weight="w")
    easy = {name: values[data["department"] == "easy"] for name, values in data.items()}
    alone = stratified(easy, **RATE, reference={"sex": "m"}, given="department", weight="w")
    assert result.disparity[0] == pytest.approx(alone.disparity[0])
    assert result.pvalue[0] == pytest.approx(alone.pvalue[0], rel=0.05)


def test_strata_count_rows_whatever_they_weigh() -> None:
    data = admissions(600)
    data["w"] = np.where(data["department"] == "hard", 9.0, 1.0)
    shown = stratified(data, **RATE, reference={"sex": "m"}, given="department", weight="w").by_stratum()
    for row in shown.iter_rows(named=True):
        inside = data["department"] == row["stratum"].removeprefix("department=")
        assert row["n"] == (inside & (data["sex"] == "f")).sum()
        assert row["reference_n"] == (inside & (data["sex"] == "m")).sum()


def test_population_means_the_rest_of_the_stratum() -> None:
    data = admissions()
    three = {**data, "sex": np.where(np.arange(2_000) % 7 == 0, "x", data["sex"])}
    population, rest = (
        stratified(three, **RATE, given="department", reference=reference) for reference in ("population", "rest")
    )
    assert population.to_frame().equals(rest.to_frame())


def test_real_metrics_and_engines_agree() -> None:
    data = admissions(600)
    options: dict[str, Any] = {
        "metric": "mean_prediction",
        "prediction": "score",
        "groups": "sex",
        "given": "department",
    }
    expected = stratified(data, **options).to_frame("polars")
    for name, engine in ENGINES.items():
        if name in ("pandas", "polars-lazy", "duckdb"):
            seen = stratified(engine(data), **options).to_frame("polars")
            assert seen["group"].equals(expected["group"])
            for column in ("disparity", "unconditional", "ci_low", "accounted_high", "pvalue"):
                assert seen[column].to_numpy() == pytest.approx(expected[column].to_numpy(), rel=1e-9), name


def test_doubled_counts_are_duplicated_rows() -> None:
    data = admissions(300)
    doubled = {name: np.tile(column, 2) for name, column in data.items()}
    counted = stratified({**data, "k": np.full(300, 2)}, **RATE, given="department", count="k")
    assert counted.to_frame().equals(stratified(doubled, **RATE, given="department").to_frame())


def test_a_group_without_a_common_stratum_is_listed() -> None:
    data = admissions(300)
    apart = {**data, "department": np.where(data["sex"] == "f", "a", "b")}
    result = stratified(apart, **RATE, reference={"sex": "m"}, given="department")
    assert result.status[0] is Status.UNSUPPORTED
    assert not result.answered
    assert any("few strata have people on both sides" in sentence for sentence in result.warnings)


def test_equal_weights_change_little_and_copies_of_rows_in_clusters_nothing() -> None:
    """Rows each their own cluster: influence values in place of Sato's variance. Copies say nothing new."""
    data = admissions()
    plain = stratified(data, **RATE, given="department")
    single = stratified({**data, "w": np.full(2_000, 3.0)}, **RATE, given="department", weight="w")
    person = {name: np.repeat(column, 2) for name, column in {**data, "id": np.arange(2_000)}.items()}
    copied = stratified(person, **RATE, given="department", cluster="id")
    for other in (single, copied):
        assert other.disparity == pytest.approx(plain.disparity)
        assert other.standard_error == pytest.approx(plain.standard_error, rel=0.01)
        assert other.accounted_low == pytest.approx(plain.accounted_low, abs=1e-3)
        assert np.isnan(other.homogeneity_pvalue).all()
    assert any("could not be judged" in sentence for sentence in copied.warnings)


@pytest.mark.parametrize("scale", ["ratio", "odds_ratio"])
def test_ratios_within_strata(scale: Any) -> None:
    data = admissions()
    options: dict[str, Any] = {**RATE, "reference": {"sex": "m"}, "given": "department"}
    result, difference = stratified(data, **options, scale=scale), stratified(data, **options)
    assert result.pvalue[0] == difference.pvalue[0]  # the same test of equality on every scale
    assert result.accounted[0] == pytest.approx(result.unconditional[0] / result.disparity[0])
    weighted = stratified({**data, "w": np.ones(2_000)}, **options, scale=scale, weight="w")
    # With a design the error is that of influence values, which unlike Greenland and Robins' and Robins, Breslow and
    # Greenland's variances does not take the effects of the two departments, 0.97 and 0.89 for ratios, as equal.
    codes, stratum = np.where(data["sex"] == "f", 0, -1), (data["department"] == "hard").astype(np.intp)
    admitted, ones = data["admitted"].astype(float), np.ones(2_000)
    lines = StratifiedLines(codes, stratum, admitted, ones, None, size=1, binary=True)
    pairs = lines.strata
    gradient = pairs.gradient(scale)
    error = np.sqrt(pairs.covariance(gradient, gradient)[0] * pairs.crowding(scale)[0])
    assert weighted.standard_error[0] == pytest.approx(error * weighted.disparity[0], rel=1e-3)
    reach = np.log(weighted.ci_high[0] / weighted.ci_low[0]) / 2
    both, _ = next(iter(lines.influences(scale)))
    spread = both[:, 0]
    df = (spread**2).sum() ** 2 / (spread**4).sum() - 1.0
    assert reach == pytest.approx(special.stdtrit(df, 0.975) * error, rel=1e-3)
    with pytest.raises(UsageError, match="given"):
        stratified(data, **{**options, "reference": "highest"}, scale=scale)


def test_weights_in_strata_of_a_few_rows_are_not_tested() -> None:
    """Influence values about the means of one row each understate the variance by half."""
    pairs = {"g": np.tile([0, 1], 400), "s": np.repeat(np.arange(400), 2), "w": np.ones(800)}
    data = {**pairs, "p": (np.random.default_rng(0).random(800) < 0.4).astype(int)}
    options: dict[str, Any] = {"metric": "selection_rate", "prediction": "p", "groups": "g", "reference": {"g": 0}}
    assert stratified(data, **options, given="s").answered
    result = stratified(data, **options, given="s", weight="w")
    assert result.status[1] is Status.UNSUPPORTED
    assert not result.answered
    codes, decisions = np.where(data["g"] == 1, 0, -1), data["p"].astype(float)
    lines = StratifiedLines(codes, data["s"], decisions, np.ones(800), None, size=1, binary=True)
    assert lines.strata.crowding("difference")[0] == pytest.approx(2.0)


def test_one_person_with_somebody_to_compare_with_decides_nothing() -> None:
    """Two hundred women of whom one shares a stratum with men: the others have nobody to be compared with."""
    table: dict[str, Any] = {
        "sex": ["f"] * 200 + ["m"] * 800,
        "band": ["high"] * 199 + ["low"] * 801,
        "p": [1, 0] * 500,
    }
    result = iso.flag(
        table,
        metric="selection_rate",
        prediction="p",
        groups="sex",
        given="band",
        reference={"sex": "m"},
        tolerance=0.1,
    )
    assert result.status[0] is Status.UNSUPPORTED
    assert not result.answered


# Income, job satisfaction and sex of 104 Black Americans (Agresti 2002, Table 7.8), satisfaction scored 1, 3, 4, 5.
SATISFACTION = np.array(
    [
        *([1, 2, 0, 0], [3, 3, 1, 2], [11, 17, 8, 4], [2, 3, 5, 2]),
        *([1, 0, 0, 0], [1, 3, 0, 1], [2, 5, 7, 9], [1, 1, 3, 6]),
    ]
).reshape(2, 4, 4)


def test_all_groups_within_strata_as_published() -> None:
    """SAS: "Row Mean Scores Differ", 9.0342 on 3 degrees of freedom, p = 0.0288 (Agresti 2002, section 7.5.3)."""
    sex, scores, income = (part.ravel() for part in np.indices(SATISFACTION.shape))
    columns = {"sex": sex, "score": np.array([1.0, 3.0, 4.0, 5.0])[scores], "income": income}
    table = {name: np.repeat(values, SATISFACTION.ravel()) for name, values in columns.items()}
    metric = iso.Metric("satisfaction", value=iso.col("score"))
    result = iso.certify(table, metric=metric, groups="income", given="sex", min_size=5)
    assert isinstance(result, iso.CertifyResult)
    assert (round(result.statistic, 4), result.df, round(result.pvalue, 4)) == (9.0342, 3, 0.0288)
    assert result.contains(0.0) is False
    assert any("Mantel" in sentence for sentence in result.findings())
    assert "accounted" in result.to_frame().columns
    assert result.by_stratum().shape[0] == 5  # those with 10 rows on both sides
    again = iso.from_json(result.to_json())
    assert isinstance(again, iso.CertifyResult)
    assert again.to_frame().equals(result.to_frame())
    assert np.isnan(np.asarray(result.suppressed(25).accounted)).any()


def test_all_groups_within_strata_are_one_test() -> None:
    data = admissions()
    single = stratified(data, **RATE, given="department")
    for scale in ("difference", "ratio", "odds_ratio"):
        joint = iso.certify(data, **RATE, given="department", scale=scale)
        assert joint.df == 1
        assert joint.statistic == pytest.approx(single.statistic[0])
    three = {**data, "sex": np.where(np.arange(2_000) % 7 == 0, "x", data["sex"])}
    joint = iso.certify(three, **RATE, given="department")
    assert (joint.df, iso.certify(three, **RATE, given="department", reference={"sex": "m"}).df) == (2, 2)
    twice = {name: np.repeat(values, 2) for name, values in three.items()} | {"who": np.repeat(np.arange(2_000), 2)}
    clustered = iso.certify(twice, **RATE, given="department", cluster="who")
    assert clustered.pvalue == pytest.approx(joint.pvalue, abs=0.01)
    with pytest.raises(UsageError, match="null: leave it out; a joint test with given"):
        iso.certify(data, **RATE, given="department", null=0.1)


def test_effects_that_differ_are_told_and_shown() -> None:
    rng = np.random.default_rng(0)
    group, stratum = rng.integers(0, 2, 4_000), rng.integers(0, 2, 4_000)
    rate = np.where(group == stratum, 0.5, 0.3)
    data = {"g": group, "s": np.append(stratum[:-3], [2, 2, 2]), "p": (rng.random(4_000) < rate).astype(int)}
    data["g"][-3:] = 1
    result = stratified(data, metric="selection_rate", prediction="p", groups="g", reference={"g": 0}, given="s")
    assert result.homogeneity_pvalue[1] < 0.001
    assert any("differs between strata for g=1" in sentence for sentence in result.warnings)
    assert any("have nobody of the group or nobody of its reference" in sentence for sentence in result.warnings)
    shown = result.by_stratum()
    assert shown["stratum"].to_list() == ["s=0", "s=1"]
    assert shown["disparity"][0] < 0 < shown["disparity"][1]


def result() -> Any:
    return stratified(admissions(), **RATE, reference={"sex": "m"}, given="department")


def test_small_strata_are_withheld_with_small_groups() -> None:
    whole = result()
    limit = int(whole.by_stratum()["n"].min()) + 1
    hidden = whole.suppressed(limit)
    assert len(hidden.by_stratum()) < len(whole.by_stratum())
    assert not np.isnan(hidden.unconditional[0])
    with pytest.raises(NotEnoughData, match="reference"):
        whole.suppressed(10_000)
    everything = stratified(admissions(), **RATE, given="department").suppressed(10_000)
    assert np.isnan(everything.unconditional).all()
    assert not len(everything.by_stratum())


def test_an_audit_file_can_ask_it() -> None:
    from isonomy.audit.config import parse

    text = """
[data]
path = "x.csv"
[[tests]]
kind = "flag"
metric = "selection_rate"
prediction = "admitted"
groups = "sex"
given = ["department", {column = "age", edges = [30]}]
"""
    assert len(parse(text).tests[0].own_options()["given"]) == 2  # type: ignore[arg-type]


def test_every_place_reports_rates_that_add_up() -> None:
    """The sentence, the report's table and the stored result hold adjusted rates; raw ones are named so."""
    whole = result()
    row = whole.to_frame().row(0, named=True)
    sentence = next(text for text in whole.findings() if "adjusted for department" in text)
    assert sentence.startswith(
        f"sex=f: selection rate {phrases.share(row['estimate'])} adjusted for department (1,007 rows), "
        f"compared with {phrases.share(row['reference'])} for sex=m; {phrases.points(row['disparity'])} lower"
    )
    raw = f"({phrases.share(row['raw_estimate'])} against {phrases.share(row['raw_reference'])})"
    assert f"22.5 points lower without regard to department {raw}" in whole.summary()
    assert f"{phrases.points(row['disparity'])} lower among people with the same department." in whole.findings()[1]
    stored = iso.from_json(whole.to_json())
    assert stored.estimate[0] - stored.reference_value[0] == pytest.approx(stored.disparity[0], rel=1e-12)
    part = Section(1, Entry(name="a", kind="flag", result=whole), drawn=False)
    (_, numbers, note), (_, strata, _) = part.tables
    cells = {column.heading: cell.text for column, cell in zip(numbers.columns, numbers.rows[0], strict=True)}
    assert cells["Adjusted estimate (%)"] == phrases.percent(row["estimate"])
    assert cells["Adjusted reference (%)"] == phrases.percent(row["reference"])
    assert cells["Raw estimate (%)"] == phrases.percent(row["raw_estimate"])
    assert cells["Raw reference (%)"] == phrases.percent(row["raw_reference"])
    assert [row[1].text for row in strata.rows] == ["department easy", "department hard"]
    assert "same weights" in note
    assert "odds" in stratified(admissions(), **RATE, given="department", scale="odds_ratio").table_note()


def banded(**options: Any) -> Any:
    data = admissions()
    data["income"] = np.random.default_rng(2).uniform(20, 100, 2_000)
    words = iso.Labels(columns={"income": "yearly income"})
    source = iso.open_source(data, labels=words)
    return stratified(source, **RATE, given=["department", iso.cut("income", [40, 70.5])], **options)


def test_people_in_a_band_are_said_to_be_in_one_and_bands_are_shown() -> None:
    told = banded(reference={"sex": "m"})
    alike = "people with the same department and in the same band of yearly income."
    assert told.null.endswith(f"comparing {alike}")
    assert alike in told.findings()[1]
    assert told.findings()[-1] == "Bands of yearly income: under 40; 40 to under 70.5; 70.5 and over."
    assert iso.from_json(told.to_json()).summary() == told.summary()
    assert len(told.by_stratum()) == 6
    joint = iso.certify(admissions(), **RATE, given="department")
    assert not any("Bands" in sentence for sentence in joint.findings())


def counts(cells: dict[tuple[str, str], int]) -> dict[str, Any]:
    """A table with so many rows of each group in each stratum, every third admitted."""
    sex, department = (np.repeat([key[i] for key in cells], list(cells.values())) for i in (0, 1))
    return {"sex": sex, "department": department, "admitted": (np.arange(sex.size) % 3 == 0).astype(int)}


def test_strata_do_not_give_away_a_small_one_by_subtraction() -> None:
    """Three women in the third department are too few to be listed: 103 less 60 and 40 would tell of them."""
    cells = {("f", "a"): 60, ("f", "b"): 40, ("f", "c"): 3, ("f", "d"): 70}
    cells |= {("m", name): 80 for name in "abcd"}
    whole = stratified(counts(cells), **RATE, reference={"sex": "m"}, given="department")
    assert whole.by_stratum()["stratum"].to_list() == ["department=a", "department=b", "department=d"]
    hidden = whole.published(20)
    assert hidden.by_stratum()["stratum"].to_list() == ["department=a", "department=d"]
    assert hidden.published(20).by_stratum().equals(hidden.by_stratum())
    further = hidden.published(65).by_stratum()  # 43 women are in the strata withheld before: 60 and 70 less is 103
    assert further["stratum"].to_list() == ["department=d"]
    assert 3 not in hidden.effects.n


def test_a_stratum_is_withheld_with_any_small_group_in_it() -> None:
    """Beside the rest, the numbers of two groups of a stratum give the third's."""
    cells = {(sex, name): 60 for sex in "fmx" for name in "abcd"} | {("x", "a"): 4}
    whole = stratified(counts(cells), **RATE, given="department")
    shown = whole.published(20).by_stratum()
    assert set(shown["stratum"]) == {"department=c", "department=d"}


def test_people_only_in_the_reference_of_a_stratum_are_not_told() -> None:
    """Two men in a department without a woman: what is left of all men."""
    cells = {("f", "a"): 60, ("f", "b"): 50, ("m", "a"): 70, ("m", "b"): 60, ("m", "c"): 2}
    whole = stratified(counts(cells), **RATE, reference={"sex": "m"}, given="department")
    assert len(whole.by_stratum()) == 2
    assert len(whole.published(20).by_stratum()) == 1


def test_named_groups_do_not_tell_of_a_stratum_by_their_difference() -> None:
    """All women of a department but three are older: the difference of the two groups."""
    cells = {("f", name): 60 for name in "abcd"} | {("m", name): 90 for name in "abcd"}
    data = counts(cells)
    older = (data["sex"] == "f") & (np.arange(data["sex"].size) >= 3)
    groups = ["sex", iso.where("older women", iso.col("older") == 1)]
    whole = stratified({**data, "older": older.astype(int)}, **{**RATE, "groups": groups}, given="department")
    assert len(whole.by_stratum()) == 12
    assert not len(whole.published(20).by_stratum())  # three remain the difference in any sum of strata
    assert len(whole.published(2).by_stratum()) == 12


def test_a_reference_that_overlaps_a_group_does_not_tell_of_both() -> None:
    """Men of one region in a department: all men of it, less those beside whom the region's people stand."""
    data = counts({("f", "a"): 60, ("m", "a"): 90, ("f", "b"): 60, ("m", "b"): 90, ("f", "c"): 60, ("m", "c"): 90})
    north = (data["sex"] == "f") | (np.arange(data["sex"].size) % 2 == 0)
    late = np.flatnonzero((data["sex"] == "m") & (data["department"] == "a"))
    north[late[5:]] = False
    data["region"] = np.where(north, "north", "south")
    whole = stratified(data, **{**RATE, "groups": ["sex", "region"]}, given="department", reference={"sex": "m"})
    told = whole.by_stratum().filter(whole.by_stratum()["stratum"] == "department=a")["reference_n"].to_list()
    assert len(set(told)) > 1  # 90 men, and those of them who are not in the north
    assert set(whole.published(20).by_stratum()["stratum"]) == {"department=c"}


def test_very_many_strata_are_not_listed_when_small_ones_are_withheld() -> None:
    rng = np.random.default_rng(0)
    rows = 30_000
    data = {
        "sex": np.where(rng.random(rows) < 0.5, "f", "m"),
        "department": np.arange(rows) % (SHOWN // 2 + 1),
        "admitted": rng.integers(0, 2, rows),
    }
    data["department"][:2_000] = 0
    whole = stratified(data, **RATE, given="department")
    assert len(whole.by_stratum()) == 2
    assert not len(whole.published(10).by_stratum())
    assert len(whole.published(0).by_stratum()) == 2
