"""A first audit file for a table nobody has described yet. Every guess in it is told."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path

from isonomy.audit.guess import Guess, Role, compared, guess, literal, outcome_of, sample, selected, toml
from isonomy.audit.state import write
from isonomy.errors import ConfigError
from isonomy.frames.profile import Profile
from isonomy.results import phrases

_ROLES = {
    "outcome": "what happened, 0 or 1",
    "prediction": "the decision, 0 or 1",
    "score": "the score behind the decision",
    "user": "whom a row belongs to, where people appear many times",
    "treatment": "who was treated in a randomised experiment, 0 or 1",
    "effect": "the predicted effect of the treatment",
    "baseline": "the predicted outcome without treatment",
}
_RATES = {"everybody": "tpr", "selected": "ppv", "others": "false_omission_rate"}  # by whose outcome is known
_EVERY = {"outcome", "prediction", "score", "effect", "treatment"}  # roles of the tests shown where none can be made


def write_starter(data: Path, output: Path, *, force: bool = False) -> list[str]:
    """Write a commented audit file for ``data``; returns the guesses in words."""
    if output.is_dir():
        raise ConfigError(f"{output} is a folder; --output names a file, such as {output / 'audit.toml'}.")
    if output.exists() and not force:
        raise ConfigError(f"{output} exists; --force writes over it, --output names another.")
    columns = sample(data)
    guessed = compared(data, guess(columns))
    place = Path(os.path.relpath(data.resolve(), output.resolve().parent)).as_posix()
    try:
        write(output, starter_text(place, columns, guessed, report_folder(output)))
    except OSError as error:
        raise ConfigError(f"output: cannot write {output} ({error.strerror}).") from None
    guesses = [f"{role} = {chosen.toml()}" for role, chosen in guessed.roles.items()]
    guesses += [f"groups = {', '.join(guessed.groups)}"] if guessed.groups else []
    notes = [f"check: {check}" for check in guessed.checks]
    unused = [name for names in guessed.unused.values() for name in names]
    notes += [f"not used: {phrases.listed(unused, 8)}; the file says why"] if unused else []
    return guesses + notes + ([guessed.obstacle] if guessed.obstacle else [])


def report_folder(file: Path) -> str:
    """A folder of its own for every audit file."""
    return "isonomy-report" if file.stem == "audit" else f"{file.stem}-report"


def starter_text(place: str, columns: tuple[Profile, ...], guessed: Guess, folder: str = "isonomy-report") -> str:
    """A commented audit file: it runs as it is, or says why it asks for nothing yet."""
    head = [*_head(place, columns, guessed, folder), *_columns(guessed), *_labels(columns, guessed)]
    if not guessed.obstacle:
        return "\n".join([*head, *_tests(columns, guessed, set(guessed.roles)), ""])
    tests = [f"# {line}" if line else "" for line in _tests(columns, guessed, _EVERY)]
    return "\n".join(
        [
            *head,
            *_comment(guessed.obstacle),
            "# Name the columns above, and take the # from the tests you want.",
            "",
            *tests,
            "",
        ]
    )


def _head(place: str, columns: tuple[Profile, ...], guessed: Guess, folder: str) -> Iterator[str]:
    proposed = (choice for choices in guessed.undecided.values() for choice in choices)
    names = {role.column for role in (*guessed.roles.values(), *proposed)}
    drop = any(column.missing for column in columns if column.name in names)
    needed = any(column.missing for column in columns if column.name in {r.column for r in guessed.roles.values()})
    values = "some needed values" if needed else "values of what may be the outcome"
    yield "# Written by `isonomy init`: every role below is a guess from names and values. Correct it, then run"
    yield "#     isonomy validate <this file>      check it without running the tests"
    yield "#     isonomy audit <this file>         run it"
    yield ""
    yield f"title = {toml(f'Fairness audit of {Path(place).name}')}"
    yield "seed = 0                     # same seed, same numbers"
    yield 'fail_on = ["violation"]      # verdicts that make the command end with exit code 1'
    yield f"output = {toml(folder)}    # folder for report.html, results.json, summary.md, junit.xml"
    yield "suppress_below = 10          # groups with fewer rows are withheld in every output"
    yield ""
    yield "[data]"
    yield f"path = {toml(place)}"
    yield f'missing = "{"drop" if drop else "raise"}"' + (
        f"             # {values} are missing: those rows are left out and counted"
        if drop
        else '            # or "drop": leave out rows with missing values, and count them'
    )
    yield 'missing_group = "level"      # a missing group is a group of its own; or "drop", or "raise"'
    yield '# count = "n"                # where each line already stands for many rows'
    weight, cluster = guessed.design.get("weight", "w"), guessed.design.get("cluster", "household")
    line = f"# weight = {toml(weight)}"
    yield f"{line:<28} # where a row stands for more people than another, as in a survey"
    line = f"# cluster = {toml(cluster)}"
    yield f"{line:<28} # where rows belong together: one person, household or branch"
    yield ""


def _columns(guessed: Guess) -> Iterator[str]:
    for check in guessed.checks:
        yield from _comment(f"CHECK: {check}")
    yield "[columns]"
    for role, meaning in _ROLES.items():
        if role in guessed.roles:
            yield f"{role} = {guessed.roles[role].toml()}  # {meaning}"
        elif role in guessed.undecided:
            yield from (f"# {role} = {choice.toml()}  # {meaning}, if this is it" for choice in guessed.undecided[role])
        else:
            yield f'# {role} = "..."  # {meaning}'
    yield f"groups = [{', '.join(guessed.groups)}]" if guessed.groups else '# groups = ["..."]  # whom to compare'
    yield "# A role may be a condition, 1 where it holds; groups may also be cut or named:"
    yield '#   prediction = {column = "decision", equals = "approved"}'
    yield '#   {column = "age", edges = [25, 45]}'
    yield '#   {name = "young men", where = [{column = "age", op = "<", value = 25}, {column = "sex", value = "Male"}]}'
    if guessed.unused:
        yield "#"
        yield "# Columns that are not used, and why:"
    for reason, names in guessed.unused.items():
        yield from _comment(f"{reason}: {', '.join(map(toml, names))}", "#   ")
    yield ""
    yield "# [[filters]]                # conditions that every row of the audit meets"
    yield '# column = "year"'
    yield '# op = ">="                  # ==, !=, <, <=, >, >=, in, not in, is missing, is present'
    yield "# value = 2020"
    yield ""


def _labels(columns: tuple[Profile, ...], guessed: Guess) -> Iterator[str]:
    """What readers see instead of names and codes: commented, because only a person knows the words."""
    yield "# What readers of the report see instead of names and codes. Take the # from a line, and write your words:"
    words = selected(guessed.roles.get("prediction"))
    yield "[labels]" if words else "# [labels]"
    yield '# population = "all applicants"'
    yield from _metrics(words, guessed) if words else ('# metrics = {selection_rate = "approved"}',)
    grouped = [column for column in columns if toml(column.name) in guessed.groups and column.values]
    for column in grouped:
        values = ", ".join(f'{toml(_key(value))} = "..."' for value in column.values)
        yield f"# values.{toml(column.name)} = {{{values}}}"
    yield ""


def _metrics(words: str, guessed: Guess) -> Iterator[str]:
    """What the rates of the proposed tests are called: ``words`` are those of the decision."""
    line = f"metrics = {{selection_rate = {toml(words)}"
    outcome = outcome_of(guessed)
    if outcome is None or guessed.known == "nobody":
        yield f"{line}}}"
        return
    told = f"share {words} (of those with" if guessed.known == "everybody" else "share with the outcome (where"
    both = f"{line}, {_RATES[guessed.known]} = {toml(f'{told} {_happened(outcome)})')}}}"
    if "outcome" in guessed.roles:
        yield both
    else:
        yield f"{line}}}"
        yield "# Once the outcome above is named, in place of the last line:"
        yield f"# {both}"


def _comment(text: str, indent: str = "# ") -> list[str]:
    return textwrap.wrap(text, 116, initial_indent=indent, subsequent_indent=f"{indent}  ", break_on_hyphens=False)


def _key(value: str | float) -> str:
    return value if isinstance(value, str) else literal(value)


def _tests(columns: tuple[Profile, ...], guessed: Guess, roles: set[str]) -> Iterator[str]:
    """The tests these roles allow."""
    score = guessed.roles.get("score")
    unit = score is not None and any(column.unit for column in columns if column.name == score.column)
    judged = [_observed(guessed)] if guessed.known in ("selected", "others") and not guessed.absent else []
    if "prediction" in roles:
        who = f"Who is {_selected(guessed)}?"
        yield from _test(who, ['kind = "flag"', 'metric = "selection_rate"', "# tolerance = 0.02"])
    if {"prediction", "outcome"} <= roles and guessed.known != "nobody":
        yield from _outcomes(guessed)
    elif "prediction" in roles and "outcome" in guessed.undecided and guessed.known != "nobody":
        yield "# Once the outcome above is named:"
        yield from (f"# {line}" if line else "" for line in _outcomes(guessed))
    if {"outcome", "score"} <= roles:
        if unit:
            lines = ['kind = "flag"', 'metric = "brier"', *judged]
            yield from _test("How good is the score in each group?", lines)
        yield from _test("Does the score mean the same in every group?", ['kind = "predictive_parity"', *judged])
    if {"effect", "treatment", "outcome"} <= roles:
        yield from _test("Does the uplift model get some groups' effects wrong?", ['kind = "treatment_bias"'])


def _selected(guessed: Guess) -> str:
    return selected(guessed.roles.get("prediction")) or "selected"


def _outcomes(guessed: Guess) -> Iterator[str]:
    """The test of decisions beside outcomes: among those with the outcome, or among those of whom it is known."""
    reference = 'reference = "population"      # or "rest", or a group such as {race = "White"}'
    outcome = outcome_of(guessed)
    happened = "outcome 1" if outcome is None else _happened(outcome)
    if guessed.known == "everybody":
        metric = 'metric = "tpr"                # also fpr, ppv, accuracy, ...'
        title = f"Of those with {happened}, are the groups equally often {_selected(guessed)}?"
        yield from _test(title, ['kind = "flag"', metric, reference])
        return
    of_selected = guessed.known == "selected"
    metric, whom = _RATES[guessed.known], "selected" if of_selected else "not selected"
    title = f"Is {happened} as common in every group of those {_selected(guessed) if of_selected else whom}?"
    why = f"not tpr: the outcome is known of those {whom} alone"
    yield from _test(title, ['kind = "flag"', f"{f'metric = {toml(metric)}':<29} # {why}", reference])


def _happened(outcome: Role) -> str:
    """What outcome 1 is, in the column's words: 'repaid = yes'."""
    value = 1 if outcome.equals is None else outcome.equals
    return f"{outcome.column} = {value if isinstance(value, str) else literal(value)}"


def _observed(guessed: Guess) -> str:
    """The filter to those of whom the outcome is known."""
    role = guessed.roles["prediction"]
    op = "" if guessed.known == "selected" else 'op = "!=", '
    value = literal(1 if role.equals is None else role.equals)
    return f"filters = [{{column = {toml(role.column)}, {op}value = {value}}}]  # of whom the outcome is known"


def _test(title: str, lines: Iterable[str]) -> Iterator[str]:
    yield "[[tests]]"
    yield f"title = {toml(title)}"
    yield from lines
    yield ""
