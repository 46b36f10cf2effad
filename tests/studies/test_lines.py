"""Lines of a simulations page: targets, printed rows, written pages; the figures depend only on the seeds."""

from __future__ import annotations

from dataclasses import replace as changed
from pathlib import Path

import numpy as np
import pytest

from studies import (
    alternatives,
    comparable,
    effects,
    groups,
    impact,
    lines,
    models,
    projection,
    scores,
    shrunk,
    thresholds,
    weights,
)
from studies.lines import Asked, Line, Page, Run, Section, at_most, each, main, nominal, published, replace

STUDIES = (groups, impact, comparable, shrunk, models, projection, alternatives, effects, scores, thresholds, weights)
PAGES = [study.PAGE for study in STUDIES]


def coin(rng: np.random.Generator, share: float = 0.05) -> float:
    """1 with the given probability."""
    return float(rng.random() < share)


def section(*runs: Run) -> Section:
    return Section("Size", ("design", "rows"), ("rejected",), runs)


NULL = Run((Line(("null", "10"), (at_most(0.05),)),), each(coin), 200)
OTHER = Run((Line(("other", "10"), (at_most(0.05),)),), each(lambda rng: coin(rng, 0.5)), 200)


# Targets


@pytest.mark.parametrize(
    ("asked", "tables", "text", "good", "bad"),
    [
        (nominal(0.95), 1_000, "0.95 ± 0.021", (0.93, 0.95, 0.97), (0.929, 0.971)),
        (at_most(0.05), 1_000, "at most 0.071", (0.0, 0.0706), (0.0708,)),
        (at_most(0.05), 2_000, "at most 0.0646", (0.0646,), (0.0647,)),
        (Asked(0.8, "least", exact=True), 1_000, "at least 0.8", (0.8, 1.0), (0.799,)),
        (Asked(0.8, slack=0.02), 1_000, "0.8 ± 0.058", (0.743, 0.857), (0.741, 0.859)),
        (Asked(1.0, error=lambda tables: 1 / tables), 100, "1 ± 0.030", (0.971, 1.029), (0.969, 1.031)),
        (published(0.5, 2_000, "power"), 2_000, "power 0.5 ± 0.0474", (0.453, 0.547), (0.452, 0.548)),
        (published(1.0, 2_000), 2_000, "1 ± 0.0042", (0.996,), (0.995,)),
    ],
)
def test_what_is_asked(asked: Asked, tables: int, text: str, good: tuple[float, ...], bad: tuple[float, ...]) -> None:
    assert asked.text(tables) == text
    assert all(asked.holds(value, tables) for value in good)
    assert not any(asked.holds(value, tables) for value in bad)


def test_a_line_that_misses_says_so() -> None:
    line = Line(("null", "10"), (at_most(0.05), None))
    assert line.cells((0.05, 0.9), 1_000, 3) == ("null", "10", "at most 0.071", "0.050", "0.900", "1,000")
    assert line.cells((0.08, 0.9), 1_000, 3)[3] == "0.080 (missed)"
    assert line.cells(("not run", 0.9), 1_000, 3)[3] == "not run"
    assert line.cells((0.02, 0.9), 0, 2) == ("null", "10", "at most 0.05", "0.02", "0.90", "exact")


# Simulations


def test_seeds_decide_the_figures_and_nothing_else_does() -> None:
    one, two = NULL.measure(60, processes=1), NULL.measure(60, processes=2)
    assert one == two == NULL.measure(60)
    assert one != OTHER.measure(60)
    renamed = changed(NULL, lines=(Line(("null", "11")),))
    outcomes = [np.concatenate([lines._block(run.draw, run.name, b, 25) for b in (0, 1)]) for run in (NULL, renamed)]
    assert not np.array_equal(outcomes[0], outcomes[1])


def test_more_tables_go_on_where_fewer_ended() -> None:
    run = Run((Line(("a",)),), each(lambda rng: rng.random()), 100, lambda outcomes: outcomes[:, 0].tolist())
    (few,), (more,) = run.measure(50), run.measure(75)
    assert few == more[:50]


# Pages


TEXT = """# Page

Prose with | bars |.

## Size

Before.

| design | rows | asked | rejected | tables |
|---|---|---|---|---|
| null | 10 | at most 0.065 | 0.0400 | 2,000 |
| null | 100 | at most 0.065 | 0.0410 | 2,000 |

After.

## Power

| design | rows | asked | rejected | tables |
|---|---|---|---|---|
| null | 10 |  | 0.9000 | 2,000 |
"""


def test_only_the_row_that_was_run_is_replaced() -> None:
    text = replace(TEXT, section(), ("null", "10", "at most 0.071", "0.050", "1,000"))
    before, after = "| at most 0.065 | 0.0400 | 2,000 |", "| at most 0.071 | 0.050 | 1,000 |"
    assert text == TEXT.replace(before, after)
    assert replace(text, section(), ("null", "10", "at most 0.065", "0.0400", "2,000")) == TEXT


def test_a_table_with_other_columns_is_left_alone() -> None:
    with pytest.raises(ValueError, match="no table with the columns"):
        replace(TEXT, changed(section(), measured=("covered",)), ("null", "10", "", "0.9", "10"))


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Page:
    monkeypatch.setattr(lines, "DOCS", tmp_path)
    page = Page("page", (section(NULL, OTHER),))
    page.path.write_text(TEXT)
    return page


def test_a_run_writes_its_lines(page: Page, capsys: pytest.CaptureFixture[str]) -> None:
    main(page, ["--processes", "1", "--only", "null"])
    rows = page.path.read_text().splitlines()
    assert sum(row.startswith("| null | 10 | at most 0.096 | ") for row in rows) == 1
    assert "| null | 100 | at most 0.065 | 0.0410 | 2,000 |" in rows
    assert not any("other" in row for row in rows)
    assert "missed their target: 0" in capsys.readouterr().out


def test_a_quick_look_writes_nothing(page: Page, capsys: pytest.CaptureFixture[str]) -> None:
    main(page, ["--processes", "1", "--tables", "20"])
    assert page.path.read_text() == TEXT
    told = capsys.readouterr().out
    assert "| null | 10 | at most 0.196 |" in told
    assert "(missed)" in told
    assert "missed their target: 1" in told


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_line_has_its_row_on_the_page(page: Page) -> None:
    """And every row of these tables has a line, except the expected events on the page of effects."""
    text = page.path.read_text()
    for one in page.sections:
        below = text.split(f"## {one.title}\n")[1].split("\n## ")[0].splitlines()
        start = below.index(f"| {' | '.join(one.head)} |") + 2
        rows = [row for row in below[start:] if row.startswith("|")]
        designs = [tuple(cell.strip() for cell in row.strip("|").split("|"))[: len(one.design)] for row in rows]
        known = [line.design for run in one.runs for line in run.lines]
        assert [design for design in designs if not design[0].startswith("expected events")] == known
        assert all(len(row.strip("|").split("|")) == len(one.head) for row in rows)


def test_lines_are_put_in_order_and_those_not_run_are_there_as_such() -> None:
    run = [Run((Line((name,), (at_most(0.05),)),), each(lambda rng: [0.0]), 100) for name in ("first", "second")]
    page = Page("page", (Section("Size", ("design",), ("rejected",), tuple(run)),))
    text = replace("# Page\n\nProse.\n", page.sections[0], ("second", "at most 0.115", "0.040", "100"))
    rows = [row for row in lines.arranged(text, page).splitlines() if row.startswith("|")][2:]
    assert rows == ["| first | at most 0.115 | not run | 0 |", "| second | at most 0.115 | 0.040 | 100 |"]
    assert lines.arranged(lines.arranged(text, page), page) == lines.arranged(text, page)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_names_of_lines_are_their_own(page: Page) -> None:
    for one in page.sections:
        names = [run.name for run in one.runs]
        assert len(set(names)) == len(names)
