"""No row of anybody in any output: recognisable values are planted in every column and looked for afterwards."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import isonomy as iso

# Twelve digits, the same in every print of a number: nothing computed from many rows hits one of them by chance.
NUMBER = re.compile(r"\d+\.\d{9,}(?:e-?\d+)?")


def planted(rows: int = 2_400) -> dict[str, np.ndarray]:
    """A table in which each real number occurs once, and users have names."""
    rng = np.random.default_rng(17)
    score = rng.random(rows)
    group = rng.choice(["north", "south"], rows)
    approved = score > 0.5
    return {
        "group": group,
        "score": score,
        "other_score": np.clip(score + rng.normal(0, 0.1, rows), 0, 1),
        "approved": approved.astype(int),
        "repaid": (rng.random(rows) < 0.2 + 0.6 * score).astype(int),
        "amount": rng.lognormal(8, 1, rows),
        "distance": np.abs(score - 0.5) * rng.uniform(0.9, 1.1, rows),
        "income": rng.normal(50, 10, rows),
        "person": np.array([f"person-{i // 2:05d}-secret" for i in range(rows)]),
        "offer": rng.integers(0, 2, rows),
        "effect": rng.uniform(0.9, 1.3, rows),
    }


TESTS = [
    {"kind": "flag", "id": "amounts", "metric": "mean_prediction", "prediction": "amount"},
    {"kind": "certify", "id": "together", "metric": "mean_prediction", "prediction": "amount"},
    {"kind": "certify", "id": "rates", "metric": "tpr"},
    {"kind": "project", "criterion": "statistical_parity", "threshold": 0.5},
    {"kind": "project", "id": "distances", "criterion": "statistical_parity", "distance": "distance"},
    {
        "kind": "improvability",
        "status_quo": "score",
        "capacity": 0.3,
        "rule": "linear",
        "features": ["income", "other_score"],
        "splits": 1,
        "resamples": 200,
    },
    {"kind": "improvability", "id": "ready", "status_quo": "score", "candidate": "other_score", "capacity": 0.3},
    {"kind": "treatment_bias"},
    {"kind": "predictive_parity", "resamples": 200},
    {"kind": "marginal_outcomes", "threshold": 0.5},
]


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Every file an audit with all kinds of tests leaves behind, its state included."""
    folder = tmp_path_factory.mktemp("audit")
    config = {
        "columns": {
            "outcome": "repaid",
            "prediction": "approved",
            "score": "score",
            "groups": ["group"],
            "user": "person",
            "treatment": "offer",
            "effect": "effect",
        },
        "tests": TESTS,
    }
    result = iso.Audit.from_dict(config, data=planted()).run(folder, debug=True)
    assert len(result.results) == len(TESTS)
    return {str(path.relative_to(folder)): path.read_text() for path in _files(folder)}


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file())


def _values() -> set[str]:
    table = planted()
    real = [values for values in table.values() if values.dtype.kind == "f"]
    return {f"{value:.12g}" for values in real for value in values.tolist()}


def test_no_number_of_a_single_row_is_in_any_output(outputs: dict[str, str]) -> None:
    known = _values()
    assert {"report.html", "results.json", "summary.md", "junit.xml"} <= set(outputs)
    for name, text in outputs.items():
        numbers = {f"{float(number):.12g}" for number in NUMBER.findall(text)}
        assert not numbers & known, f"{name}: {sorted(numbers & known)[:5]}"


def test_no_user_is_named_in_any_output(outputs: dict[str, str]) -> None:
    for name, text in outputs.items():
        assert "-secret" not in text, name


def test_the_test_would_find_a_planted_value(outputs: dict[str, str]) -> None:
    text = outputs["results.json"] + json.dumps(float(planted()["amount"][7]))
    numbers = {f"{float(number):.12g}" for number in NUMBER.findall(text)}
    assert numbers & _values()
