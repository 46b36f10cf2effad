"""Nothing of a single person, and nothing of a withheld group, is in any output of an audit."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import isonomy as iso
from isonomy.cli import app

SMALL = 37  # rows of the group that is withheld
AUDIT = """\
fail_on = []
suppress_below = 60
[data]
path = "people.parquet"
[columns]
groups = ["g"]
[[tests]]
kind = "flag"
metric = "tpr"
outcome = "y"
prediction = "p"
[[tests]]
kind = "flag"
id = "errors"
metric = "mae"
outcome = "v"
prediction = "f"
[[tests]]
kind = "certify"
metric = "mean_error"
outcome = "v"
prediction = "f"
[[tests]]
kind = "adverse_impact"
prediction = "p"
reference = {g = "a"}
[[tests]]
kind = "project"
outcome = "y"
prediction = "q"
score = "s"
threshold = 0.5
[[tests]]
kind = "improvability"
outcome = "y"
status_quo = "p"
candidate = "q"
[[tests]]
kind = "treatment_bias"
effect = "f"
treatment = "t"
outcome = "v"
measure = "difference"
[[tests]]
kind = "predictive_parity"
outcome = "y"
score = "s"
user = "u"
resamples = 100
[[tests]]
kind = "marginal_outcomes"
outcome = "y"
score = "s"
threshold = 0.5
[[tests]]
kind = "equalize_thresholds"
outcome = "y"
score = "s"
threshold = 0.5
target = "tpr"
resamples = 100
"""


def people() -> pl.DataFrame:
    """Every number and name of a person is recognisable, those at the ends of a scale apart."""
    rng = np.random.default_rng(3)
    group = np.repeat([0, 1, 2, 3], [400, 300, 200, SMALL])
    rows = group.size
    score = rng.uniform(0.02, 0.98, rows).round(9)
    outcome = (rng.random(rows) < score).astype(int)
    effect = (1 + rng.normal(0, 0.2, rows)).round(9)
    treatment = rng.integers(0, 2, rows)
    return pl.DataFrame(
        {
            "g": np.array(["a", "b", "c", "d"])[group],
            "y": outcome,
            "p": (score + rng.normal(0, 0.1, rows) > 0.5).astype(int),
            "q": (score >= 0.5).astype(int),
            "s": score,
            "t": treatment,
            "v": (5 + effect * treatment + rng.normal(0, 1, rows)).round(9),
            "f": effect,
            "u": [f"person-{i:05d}-planted" for i in rng.permutation(rows)],
        }
    )


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> tuple[pl.DataFrame, dict[str, str]]:
    """The table, and every file that an audit of it left behind."""
    folder = tmp_path_factory.mktemp("audit")
    table = people()
    table.write_parquet(folder / "people.parquet")
    (folder / "audit.toml").write_text(AUDIT)
    done = CliRunner().invoke(app, ["audit", str(folder / "audit.toml")])
    assert done.exit_code in (0, 3), done.output  # 3: a test was not answered, since its groups are withheld
    files = [file for file in folder.rglob("*") if file.is_file() and file.suffix not in (".parquet", ".toml")]
    texts = {str(file.relative_to(folder)): file.read_text(errors="replace") for file in files}
    assert {Path(name).name for name in texts} >= {"report.html", "results.json", "summary.md", "junit.xml"}
    return table, texts | {"printed": done.output}


def test_no_value_of_a_person_is_in_any_file(outputs: tuple[pl.DataFrame, dict[str, str]]) -> None:
    table, texts = outputs
    values = {f"{value:.9f}".rstrip("0") for name in ("s", "v", "f") for value in table[name].to_list()}
    planted = {value for value in values if len(value) >= 9}
    for name, text in texts.items():
        assert "planted" not in text, name
        shown = set(re.findall(r"\d+\.\d{7,9}(?!\d)", text))
        assert not shown & planted, (name, shown & planted)


def test_no_count_or_rate_of_a_withheld_group_is_stored(outputs: tuple[pl.DataFrame, dict[str, str]]) -> None:
    table, texts = outputs
    small = table.filter(pl.col("g") == "d")
    secret = {float(SMALL), float(small["p"].sum()), *(float(small[n].mean()) for n in "ypqsvf")}  # type: ignore[arg-type]
    secret.add(small.filter(pl.col("y") == 1)["p"].mean())  # type: ignore[arg-type]
    for name, text in texts.items():
        if name.endswith(".json"):
            # How many people of the published groups lie near each score may by chance be the same whole number.
            stored = _numbers(json.loads(text))
            shown = {number: place for place, number in stored if not re.search(r"effective(\.data|_n)$", place)}
            told = {number: shown[number] for number in secret if number in shown}
            assert not told, (name, told)


def test_people_near_a_score_are_not_told_of_a_withheld_group() -> None:
    result = iso.predictive_parity(people(), outcome="y", score="s", groups="g", user="u", resamples=100, rng=0)
    (family,) = result.published(60).families
    small = [group.label == "g=d" for group in family.groups]
    assert sum(small) == 1
    assert np.isnan(family.effective[small]).all()


def test_clusters_are_not_told_beside_a_withheld_group() -> None:
    roles: Any = {"outcome": "y", "score": "s", "groups": "g", "cluster": "u", "threshold": 0.5}
    result = iso.marginal_outcomes(people(), **roles)
    assert [number for _, number, _ in result.provenance.clusters]
    assert result.published(60).provenance.clusters == ()
    assert result.published(2).provenance.clusters == result.provenance.clusters


def test_no_withheld_group_stands_alone(outputs: tuple[pl.DataFrame, dict[str, str]]) -> None:
    """With one other withheld beside it, what is left of the total is the two together."""
    _, texts = outputs
    results = next(text for name, text in texts.items() if name.endswith("results.json"))
    for test in json.loads(results)["tests"]:
        statuses = re.findall(r'"(suppressed)"', json.dumps(test))
        assert len(statuses) != 1, test.get("id")


def _numbers(stored: Any, place: str = "") -> Iterator[tuple[str, float]]:
    if isinstance(stored, dict):
        for key, value in stored.items():
            if key not in ("seed", "entropy", "shape", "audit"):
                yield from _numbers(value, f"{place}.{key}")
    elif isinstance(stored, list):
        for value in stored:
            yield from _numbers(value, place)
    elif isinstance(stored, (int, float)) and not isinstance(stored, bool):
        yield place, float(stored)
