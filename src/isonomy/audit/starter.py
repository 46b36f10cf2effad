"""A first audit file for a table nobody has described yet. Every guess in it is told."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from isonomy.audit.guess import Look, guess_groups, guess_roles, look, opposed, recodable, sample, toml
from isonomy.audit.state import write
from isonomy.errors import ConfigError

_ROLES = {
    "outcome": "what happened, 0 or 1",
    "prediction": "the decision, 0 or 1",
    "score": "the score behind the decision",
    "user": "whom a row belongs to, where people appear many times",
    "treatment": "who was treated in a randomised experiment, 0 or 1",
    "effect": "the predicted effect of the treatment",
    "baseline": "the predicted outcome without treatment",
}
_NUMBERED = re.compile(
    r"(^|[^a-z])(id|ids|index|key|no|nr|rownames?|row|unnamed.*)$|^rownames?$|_id_"
)  # rows, not people


def write_starter(data: Path, output: Path, *, force: bool = False) -> list[str]:
    """Write a commented audit file for ``data``; returns the guesses in words."""
    if output.is_dir():
        raise ConfigError(f"{output} is a folder; --output names a file, such as {output / 'audit.toml'}.")
    if output.exists() and not force:
        raise ConfigError(f"{output} exists; --force writes over it, --output names another.")
    rows = sample(data)
    columns = [look(rows[name]) for name in rows.columns]
    roles = guess_roles(columns)
    groups = guess_groups(columns, roles)
    place = os.path.relpath(data.resolve(), output.resolve().parent)
    try:
        write(output, starter_text(Path(place).as_posix(), columns, roles, groups))
    except OSError as error:
        raise ConfigError(f"output: cannot write {output} ({error.strerror}).") from None
    guesses = [f"{role} = {name}" for role, name in roles.items()] + [f"groups = {', '.join(groups)}"]
    checks = ([_opposed(roles)] if opposed(roles) else []) + [_recode(c) for c in recodable(columns, roles, groups)]
    return guesses + [f"check: {check}" for check in checks]


def starter_text(place: str, columns: list[Look], roles: dict[str, str], groups: list[str]) -> str:
    """A commented audit file that runs as it is."""
    tests = list(_tests(columns, roles)) or _average(columns, roles, groups)
    return "\n".join([*_head(place, columns, roles), *_columns(columns, roles, groups), *tests, ""])


def _head(place: str, columns: list[Look], roles: dict[str, str]) -> Iterator[str]:
    used = [c for c in columns if c.name in roles.values()]
    drop = any(c.missing for c in used)
    yield "# Written by `isonomy init`: every role below is a guess from names and types. Correct it, then run"
    yield "#     isonomy validate <this file>      check it without reading rows"
    yield "#     isonomy audit <this file>         run it"
    yield ""
    yield 'title = "Fairness audit"'
    yield "seed = 0                     # same seed, same numbers"
    yield 'fail_on = ["violation"]      # verdicts that make the command end with exit code 1'
    yield 'output = "isonomy-report"    # folder for report.html, results.json, summary.md, junit.xml'
    yield "suppress_below = 10          # groups with fewer rows are withheld in every output"
    yield ""
    yield "[data]"
    yield f"path = {toml(place)}"
    yield f'missing = "{"drop" if drop else "raise"}"' + (
        "             # some needed values are missing: those rows are left out and counted"
        if drop
        else '            # or "drop": leave out rows with missing values, and count them'
    )
    yield 'missing_group = "level"      # a missing group is a group of its own; or "drop", or "raise"'
    yield '# count = "n"                # where each line already stands for many rows'
    yield ""


def _opposed(roles: dict[str, str]) -> str:
    return (
        f"{toml(roles['outcome'])} = 1 looks bad and {toml(roles['prediction'])} = 1 looks good. If so, add a column "
        "of the opposite outcome and name that one, or tpr will mean: selected, among those with the bad outcome."
    )


def _recode(column: Look) -> str:
    """What to do about text that says yes or no. Which of two other values is 1 cannot be guessed."""
    name = toml(column.name)
    ones = column.yes or column.pair[-1:]
    listed = ", ".join(map(toml, ones))
    test = f"pl.col({name}) == {listed}" if len(ones) == 1 else f"pl.col({name}).is_in([{listed}])"
    what = "yes/no text" if column.yes else f"text ({' and '.join(map(toml, column.pair))})"
    how = f"rows.with_columns(({test}).cast(pl.Int8))"
    return f"{name} is {what}: recode it to 0/1 before a test can use it; with polars, {how}."


def _columns(columns: list[Look], roles: dict[str, str], groups: list[str]) -> Iterator[str]:
    if opposed(roles):
        yield f"# CHECK: {_opposed(roles)}"
    for column in recodable(columns, roles, groups):
        yield f"# CHECK: {_recode(column)}"
    yield "[columns]"
    for role, meaning in _ROLES.items():
        if role in roles:
            yield f"{role} = {toml(roles[role])}  # {meaning}"
        else:
            yield f'# {role} = "..."  # {meaning}'
    yield f"groups = [{', '.join(groups)}]"
    yield "# Groups may also be cut or named:"
    yield '#   {column = "age", edges = [25, 45]}'
    yield '#   {name = "young men", where = [{column = "age", op = "<", value = 25}, {column = "sex", value = "Male"}]}'
    yield ""
    yield "# [[filters]]                # conditions that every row of the audit meets"
    yield '# column = "year"'
    yield '# op = ">="                  # ==, !=, <, <=, >, >=, in, not in, is missing, is present'
    yield "# value = 2020"
    yield ""


def _tests(columns: list[Look], roles: dict[str, str]) -> Iterator[str]:
    """The tests these roles allow."""
    have = set(roles)
    scale = {c.name: c.unit for c in columns}
    if "prediction" in have:
        yield from _test("Who is selected?", 'kind = "flag"', 'metric = "selection_rate"', "# tolerance = 0.02")
    if {"prediction", "outcome"} <= have:
        yield from _test(
            "Are those with outcome 1 selected alike?",
            'kind = "flag"',
            'metric = "tpr"                # also fpr, ppv, accuracy, ...',
            'reference = "population"      # or "rest", or a group such as {race = "White"}',
        )
    if {"outcome", "score"} <= have:
        if scale[roles["score"]]:
            yield from _test("How good is the score in each group?", 'kind = "flag"', 'metric = "brier"')
        yield from _test("Does the score mean the same in every group?", 'kind = "predictive_parity"')
    if {"effect", "treatment", "outcome"} <= have:
        yield from _test("Does the uplift model get some groups' effects wrong?", 'kind = "treatment_bias"')


def _average(columns: list[Look], roles: dict[str, str], groups: list[str]) -> Iterator[str]:
    """Without a decision or a score there is still the average of something."""
    column = roles.get("outcome") or roles.get("score")
    if column is None:
        whole = [c for c in columns if c.kind in ("binary", "number") and not c.missing]
        numbers = [c for c in whole if not _NUMBERED.search(c.name.lower()) and toml(c.name) not in " ".join(groups)]
        column = min(numbers, key=lambda c: c.kind).name if numbers else None  # 0/1 before other numbers
    if column is None:
        yield "# No column of numbers was found: there is nothing to compare yet."
        column = columns[0].name
    yield from _test(
        "Does an average differ between groups?",
        'kind = "flag"',
        'metric = "mean_prediction"',
        f"prediction = {toml(column)}   # no 0/1 decision was found: the groups' averages of this column are compared",
    )


def _test(title: str, *lines: str) -> Iterator[str]:
    yield "[[tests]]"
    yield f"title = {toml(title)}"
    yield from lines
    yield ""
