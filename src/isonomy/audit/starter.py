"""A first audit file for a table that nobody has described yet: roles guessed from names and values, all reported.

Columns whose names and values do not tell their role are not guessed.
"""

from __future__ import annotations

import json
import os
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from isonomy.audit.state import write
from isonomy.errors import ConfigError, DataError, EmptyFrame, UsageError
from isonomy.frames import open_source
from isonomy.frames.profile import FEW, Profile, distinct, profiles
from isonomy.results import phrases

# Words in a column's name, most telling first.
_NAMES: dict[str, tuple[str, ...]] = {
    "treatment": ("treatment", "treated", "offer", "assigned", "exposed", "arm"),
    "effect": ("predicted_effect", "effect", "uplift", "cate", "ite"),
    "baseline": ("predicted_baseline", "baseline"),
    "prediction": (
        "prediction", "predicted", "pred", "y_pred", "decision", "approved", "approval", "selected", "hired",
        "admitted", "granted", "accepted", "flagged", "callback", "called", "call", "interviewed", "promoted",
        "enrolled", "awarded", "award", "funded", "shortlisted", "invited",
        "deny", "denied", "denial", "rejected", "declined", "refused",
    ),
    "outcome": (
        "outcome", "label", "target", "y_true", "y", "repaid", "default", "recid", "two_year_recid", "churn",
        "converted", "conversion", "visit", "success", "actual", "event", "pass", "passed", "graduated", "graduation",
        "completed", "completion", "reoffended", "reoffense", "rearrested", "rearrest", "paid_back", "fully_paid",
        "delinquent", "fraud", "dropped_out", "dropout", "failed", "retained", "renewed", "survived", "readmitted",
        "recovered", "responded",
    ),
    "score": ("score", "probability", "prob", "risk", "risk_score", "decile_score", "y_score", "logit"),
    "user": (
        "user", "user_id", "customer", "customer_id", "person_id", "member_id", "account_id", "applicant_id",
        "client_id",
    ),
}  # fmt: skip
_GROUPS = (
    "race", "ethnicity", "sex", "gender", "woman", "women", "age_band", "age_cat", "age_group", "age", "agep", "rac1p",
    "disability", "disabled",
    "religion", "nationality", "hispanic", "hisp", "latino", "afam", "black", "female", "male", "minority", "veteran",
    "citizen", "country", "region", "marital", "marital_status", "married", "education", "group",
)  # fmt: skip
# Columns that may be weights or clusters; only a person can tell.
_DESIGN: dict[str, tuple[str, ...]] = {
    "weight": ("weight", "weights", "sample_weight", "survey_weight", "wt", "wgt", "pwgtp", "perwt", "fnlwgt"),
    "cluster": (
        "household", "household_id", "hhid", "family_id", "cluster", "psu", "branch", "branch_id", "school",
        "school_id", "schoolid", "hospital", "store", "site",
    ),
}  # fmt: skip
_DESIGN_CHECKS = {
    "weight": "{} may be the number of people that a row stands for. If it is, remove the # from weight under [data]; "
    "otherwise every row counts once.",
    "cluster": "{} may identify rows that belong together. If it does, remove the # from cluster under [data]{}; "
    "otherwise every error is too small.",
}
_INSTEAD = " (and put a # before user under [columns]: some tests take only one of the two)"
_ADVERSE = ("deny", "denied", "denial", "rejected", "declined", "refused")  # decisions that are bad for people
_FAVORABLE = ("approved", "approval", "selected", "hired", "admitted", "granted", "accepted", "promoted", "awarded")
# What people with decision 1 are called, by a word in the name of the column.
_SELECTED = {
    "approval": "approved", "award": "awarded", "callback": "called back", "called": "called back",
    "call": "called back",
    "deny": "not denied", "denied": "not denied", "denial": "not denied", "rejected": "not rejected",
    "declined": "not declined", "refused": "not refused",
}  # fmt: skip
_PLAIN = ("prediction", "predicted", "pred", "y_pred", "decision")  # names that do not tell what was decided
_BAD_OUTCOMES = (
    "default", "recid", "churn", "fraud", "delinquent", "arrest", "fail", "claim", "reoffended", "reoffense",
    "rearrest", "dropped_out", "dropout", "readmitted",
)  # fmt: skip
# Values that mean yes, each with those that mean no.
_YES = {
    "yes": {"no"}, "y": {"n"}, "true": {"false"}, "t": {"f"}, "1": {"0"}, "pass": {"fail"}, "passed": {"failed"},
    "good": {"bad"}, "approved": {"denied", "rejected", "declined"}, "accepted": {"rejected", "declined"},
    "granted": {"denied", "refused"}, "hired": {"rejected", "not hired"}, "admitted": {"rejected", "denied"},
}  # fmt: skip
_AGES = (25, 45, 65)  # where raw ages are cut
_MOST = 3  # groupings that are used, and columns proposed as the outcome; the others are listed
_RAW = 10  # an age column with more values than this holds years, not bands


@dataclass(frozen=True, slots=True)
class GuessedRole:
    """The column of a role, as it is or as a condition: 1 where it ``equals`` a value."""

    column: str
    equals: str | float | None = None

    def toml(self) -> str:
        """The role as an audit file writes it."""
        name = toml(self.column)
        return name if self.equals is None else f"{{column = {name}, equals = {literal(self.equals)}}}"


# For whom the outcome is known: everybody, only those with decision 1 or 0, or nobody (it repeats the decision).
Known = Literal["everybody", "selected", "others", "nobody"]
_KNOWN: dict[tuple[bool, bool], Known] = {
    (True, True): "everybody",
    (True, False): "selected",
    (False, True): "others",
    (False, False): "nobody",
}


@dataclass(frozen=True, slots=True)
class Guess:
    """What the columns probably mean, what a person should check, and why nothing can be tested, if so."""

    roles: dict[str, GuessedRole]
    groups: tuple[str, ...]  # as TOML
    checks: tuple[str, ...] = ()
    undecided: dict[str, tuple[GuessedRole, ...]] = field(default_factory=dict)  # a person has to choose
    obstacle: str = ""
    unused: dict[str, tuple[str, ...]] = field(default_factory=dict)  # columns without a role, by reason
    known: Known = "everybody"
    absent: bool = False  # whether an unknown outcome is missing, rather than a value
    design: dict[str, str] = field(default_factory=dict)  # columns that may be the weight and the cluster


def toml(text: str) -> str:
    """A string as TOML writes it."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def literal(value: str | float) -> str:
    """A value as TOML writes it; whole numbers without a point."""
    if isinstance(value, str):
        return toml(value)
    return str(int(value)) if value == int(value) else repr(value)


def sample(data: Path) -> tuple[Profile, ...]:
    """What the columns of a table look like."""
    try:
        source = open_source(data)
        columns = profiles(source)
    except (UsageError, DataError):
        raise
    except Exception as error:
        raise UsageError(f"data: cannot read {data} ({type(error).__name__}: {error}).") from None
    if not columns:
        raise EmptyFrame(f"data: {data} has no rows.")
    if _headless(columns):
        shown = ", ".join(repr(column.name) for column in columns[:4])
        raise DataError(
            f"data: the first line of {data} looks like a row, not like column names ({shown}, ...). Add a header line."
        )
    if len(columns) == 1 and len(columns[0].name.split()) > 2:
        raise DataError(
            f"data: {data} has a single column, {columns[0].name!r}; columns are separated by commas, semicolons, "
            "tabs or bars."
        )
    return columns


def _headless(columns: tuple[Profile, ...]) -> bool:
    """Whether column names are numbers or values of their own columns: the file has no header line."""
    values = [
        bool(re.fullmatch(r"\s*[+-]?\d+(\.\d+)?\s*", column.name)) or column.name in column.values for column in columns
    ]
    return len(columns) > 1 and sum(values) > len(columns) / 2


def guess(columns: tuple[Profile, ...]) -> Guess:
    """Every role that a name suggests and a type fits, and the groups."""
    roles, undecided, checks = _roles(columns)
    taken = {role.column for role in (*roles.values(), *(one for each in undecided.values() for one in each))}
    grouped = _groups(columns, taken)
    groups, more = tuple(grouped.values())[:_MOST], tuple(grouped.values())[_MOST:]
    if more:
        checks.append(f"groups lists the first {_MOST} that were found. Add these if they matter: {', '.join(more)}.")
    free = [column for column in columns if column.name not in taken | set(grouped)]
    design = {name: column for name in _DESIGN if (column := _designed(name, free))}
    checks += [
        _DESIGN_CHECKS[name].format(toml(column), _INSTEAD if "user" in roles else "")
        for name, column in design.items()
    ]
    free = [column for column in free if column.name not in design.values()]
    if "prediction" in roles and not {"outcome"} & {*roles, *undecided}:
        undecided = undecided | _perhaps_outcomes(free)
    unused = _unused(free)
    return Guess(roles, groups, tuple(checks), undecided, _obstacle(set(roles), groups), unused, design=design)


def _designed(name: str, free: list[Profile]) -> str:
    """The column that may be the weight, or the cluster; empty if there is none."""
    fit = [c for c in free if (c.levels > FEW if name == "cluster" else c.kind == "number" and c.low >= 0)]
    words = _DESIGN[name]
    named = [(near, c.name) for c in fit if (near := _closeness(c.name, words)) is not None and near < len(words)]
    return min(named, default=(0, ""))[1]


def compared(data: Path, guessed: Guess) -> Guess:
    """The guess, with for whom the outcome (or what may be it) is known: perhaps only for the selected."""
    decision, outcomes = guessed.roles.get("prediction"), guessed.undecided.get("outcome", ())
    if "outcome" in guessed.roles:
        outcomes = (guessed.roles["outcome"],)
    if decision is None or not outcomes:
        return guessed
    source, one = open_source(data), _one(decision)
    numbers = {role.column: distinct(source, role.column, decision.column, one) for role in outcomes}
    # The first that does not repeat the decision goes before the others.
    outcomes = tuple(sorted(outcomes, key=lambda role: max(numbers[role.column]) <= 1))
    outcome = outcomes[0]
    if "outcome" not in guessed.roles:
        guessed = replace(guessed, undecided={**guessed.undecided, "outcome": outcomes})
    among, others = numbers[outcome.column]
    known: Known = _KNOWN[among > 1, others > 1]
    name, other = toml(outcome.column), toml(decision.column)
    check = {
        "everybody": "",
        "selected": f"{name} varies only among the selected, as if it could not be observed for the others: they are "
        "left out of tests of this outcome.",
        "others": f"{name} varies only among those not selected, as if it could not be observed for the selected: they "
        "are left out of tests of this outcome.",
        "nobody": f"{name} is the same for everybody with the same {other}: no test compares the two.",
    }[known]
    checks = (*guessed.checks, check) if check and "outcome" in guessed.roles else guessed.checks
    return replace(guessed, known=known, absent=0 in (among, others), checks=checks)


def outcome_of(guessed: Guess) -> GuessedRole | None:
    """The outcome, or the first column that may be it."""
    return guessed.roles.get("outcome") or next(iter(guessed.undecided.get("outcome", ())), None)


def _one(role: GuessedRole) -> str | float:
    """The value of a column that counts as 1."""
    return 1.0 if role.equals is None else role.equals


def _perhaps_outcomes(free: list[Profile]) -> dict[str, tuple[GuessedRole, ...]]:
    """Columns with two values that might be the outcome of a decision; only a person can tell."""
    pairs = [column for column in free if column.levels > 1 and _two_valued(column)][:_MOST]
    sides = [(column, _sides(column)[0]) for column in pairs]
    chosen = [
        GuessedRole(column.name, value if column.kind != "binary" else None)
        for column, yes in sides
        for value in (column.values if yes is None else (yes,))
    ]
    return {"outcome": tuple(chosen)} if chosen else {}


def _unused(free: list[Profile]) -> dict[str, tuple[str, ...]]:
    """The columns without a role, by reason."""
    reasons: dict[str, tuple[str, ...]] = {}
    for column in free:
        reason = _reason(column)
        reasons[reason] = (*reasons.get(reason, ()), column.name)
    return reasons


def _reason(column: Profile) -> str:
    if column.kind == "other":
        return "neither numbers nor text (dates, lists or nothing)"
    if column.levels < 2:
        return "the same value in every row"
    if _two_valued(column):
        return "two values whose meaning the name does not tell"
    if column.levels <= FEW:
        return "a few values: groups, if they are groups of people"
    if column.kind == "text":
        return f"text with more than {FEW} values: too many for groups"
    return "numbers whose meaning the name does not tell"


def _two_valued(column: Profile) -> bool:
    """0 and 1, true and false, or two other values one of which may mean yes."""
    return column.kind == "binary" or (column.kind in ("number", "text") and (column.levels == 2 or _words(column)))


def _words(column: Profile) -> bool:
    """Text that means yes or no, in any spelling."""
    words = {str(value).strip().lower() for value in column.values}
    return column.kind == "text" and any(yes in words and words - {yes} <= no for yes, no in _YES.items())


_FITS: dict[str, Callable[[Profile], bool]] = {
    "treatment": _two_valued,
    "effect": lambda c: c.kind == "number" and c.levels > 2,
    "baseline": lambda c: c.kind == "number",
    "prediction": _two_valued,
    "outcome": _two_valued,
    "score": lambda c: c.kind == "number" and c.levels > 5,
    "user": lambda c: c.kind in ("number", "text") and c.levels > FEW,
}


def _closeness(name: str, words: tuple[str, ...]) -> int | None:
    """How informative a name is (smaller is more), or None."""
    parted = re.sub(r"([a-z])([A-Z])", r"\1_\2", name)
    plain = re.sub(r"[^a-z0-9]+", "_", parted.lower()).strip("_")
    for place, word in enumerate(words):
        if word in (plain, plain.rstrip("0123456789")):
            return place
    parts = plain.split("_")
    for place, word in enumerate(words):
        begun = len(word) > 4 and any(part.startswith(word) for part in parts)
        if len(word) > 2 and (word in parts or begun or ("_" in word and word in plain)):
            return len(words) + place
    return None


def _roles(
    columns: tuple[Profile, ...],
) -> tuple[dict[str, GuessedRole], dict[str, tuple[GuessedRole, ...]], list[str]]:
    """The roles, the roles with several candidates, and what to check."""
    chosen: dict[str, Profile] = {}
    for role, words in _NAMES.items():
        free = [c for c in columns if c not in chosen.values() and _FITS[role](c)]
        # A column of 0 and 1 goes before one whose values need interpretation.
        named = [(c.kind == "text", near, c.name, c) for c in free if (near := _closeness(c.name, words)) is not None]
        if named:
            chosen[role] = min(named, key=lambda item: item[:3])[3]
    if "treatment" in chosen and "effect" not in chosen:
        del chosen["treatment"]  # an experiment without predicted effects answers none of the questions
    roles: dict[str, GuessedRole] = {}
    undecided: dict[str, tuple[GuessedRole, ...]] = {}
    checks: list[str] = []
    turned = _turned(chosen)
    for role, column in chosen.items():
        if role not in ("treatment", "prediction", "outcome"):
            roles[role] = GuessedRole(column.name)
            continue
        yes, no, check = _sides(column)
        if check:
            checks.append(check)
        if yes is None or no is None:
            undecided[role] = tuple(GuessedRole(column.name, value) for value in column.values)
        elif role in turned:
            roles[role] = GuessedRole(column.name, no)
            checks.append(turned[role])
        else:
            roles[role] = GuessedRole(column.name, None if column.kind == "binary" else yes)
    return roles, undecided, checks


def _sides(column: Profile) -> tuple[str | float | None, str | float | None, str]:
    """The value that means yes and the one that means no, and what to check about them."""
    if column.kind == "binary":
        return 1.0, 0.0, ""
    name = toml(column.name)
    if column.kind == "number":
        if column.values != (1.0, 2.0):
            shown = " and ".join(map(literal, column.values))
            return None, None, f"{name} holds {shown}: choose which of them counts as 1."
        return 1.0, 2.0, f"{name} holds 1 and 2: 1 is taken to mean yes, as in most surveys. Is that right?"
    words = {str(value).strip().lower(): str(value) for value in column.values}
    for yes, no in _YES.items():
        if yes in words and len(words) == 2 and set(words) - {yes} <= no:
            if len(column.values) > 2:
                shown = ", ".join(map(toml, map(str, column.values)))
                return (
                    None,
                    None,
                    f"{name} spells yes and no in several ways ({shown}): recode it to two values.",
                )
            (other,) = set(words) - {yes}
            return words[yes], words[other], ""
    shown = " and ".join(map(literal, column.values))
    return None, None, f"{name} holds {shown}: choose which of them counts as 1."


def _turned(chosen: dict[str, Profile]) -> dict[str, str]:
    """Roles whose yes is bad for people although 1 should be good, and the check for each."""
    name = {role: column.name for role, column in chosen.items()}
    decision, outcome = name.get("prediction", ""), name.get("outcome", "")
    turned: dict[str, str] = {}
    adverse = _closeness(decision, _ADVERSE) is not None
    if adverse:
        turned["prediction"] = (
            f"{toml(decision)} is a decision against a person: 1 is taken to mean that it was not made."
        )
    if (adverse or _closeness(decision, _FAVORABLE) is not None) and _closeness(outcome, _BAD_OUTCOMES) is not None:
        turned["outcome"] = (
            f"{toml(outcome)} looks bad although the decision is favorable: 1 is taken to mean that it did not happen."
        )
    return turned


def _groups(columns: tuple[Profile, ...], taken: set[str]) -> dict[str, str]:
    """Columns whose names suggest groups of people, and their groupings as TOML."""
    free = [c for c in columns if c.name not in taken]
    named = [(near, c) for c in free if (near := _closeness(c.name, _GROUPS)) is not None]
    return {c.name: grouped for _, c in sorted(named, key=lambda pair: pair[0]) if (grouped := _grouping(c))}


def _grouping(column: Profile) -> str:
    """A column as groups: its values if they are few, raw ages cut; empty if it cannot be groups."""
    named = re.search(r"(^|[^a-z])agep?($|[^a-z])", column.name.lower())
    if named and column.kind == "number" and column.levels > _RAW:
        edges = [str(edge) for edge in _AGES if column.low < edge <= column.high]
        return f"{{column = {toml(column.name)}, edges = [{', '.join(edges)}]}}" if edges else ""
    return toml(column.name) if 2 <= column.levels <= FEW else ""


def selected(role: GuessedRole | None) -> str:
    """What people with decision 1 are called: 'hired', 'not denied'; empty if the column's name does not tell."""
    words = tuple(word for word in _NAMES["prediction"] if word not in _PLAIN)
    place = None if role is None else _closeness(role.column, words)
    if place is None:
        return ""
    word = words[place % len(words)]
    return _SELECTED.get(word, word)


def _obstacle(roles: set[str], groups: tuple[str, ...]) -> str:
    """Why nothing can be tested, in a sentence; empty if something can."""
    testable = ({"prediction"}, {"outcome", "score"}, {"effect", "treatment", "outcome"})
    if not any(needed <= roles for needed in testable):
        return (
            "No column was recognized as a decision (0/1, yes/no or 1/2, with a name such as approved, deny, hired or "
            "prediction), and none as a score with its outcome: nothing is tested yet."
        )
    if not groups:
        return (
            "No column was recognized as groups of people (by a name such as race, sex or age): nothing is tested yet."
        )
    return ""


# ---- the file

_ROLES = {
    "outcome": "the outcome, 0 or 1",
    "prediction": "the decision, 0 or 1",
    "score": "the score behind the decision",
    "user": "the person a row belongs to, if people appear more than once",
    "treatment": "whether a row was treated in a randomized experiment, 0 or 1",
    "effect": "the predicted effect of the treatment",
    "baseline": "the predicted outcome without treatment",
}
_RATES = {"everybody": "tpr", "selected": "ppv", "others": "false_omission_rate"}  # by whose outcome is known
_EVERY = {
    "outcome",
    "prediction",
    "score",
    "effect",
    "treatment",
}  # roles of the tests that are proposed if none can run


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
    """A commented audit file: it runs as it is, or explains why it has no tests yet."""
    head = [*_head(place, columns, guessed, folder), *_columns(guessed), *_labels(columns, guessed)]
    if not guessed.obstacle:
        return "\n".join([*head, *_tests(columns, guessed, set(guessed.roles)), ""])
    tests = [f"# {line}" if line else "" for line in _tests(columns, guessed, _EVERY)]
    return "\n".join(
        [
            *head,
            *_comment(guessed.obstacle),
            "# Name the columns above, and remove the # from the tests you want.",
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
    yield '# count = "n"                # if each line already stands for several rows'
    weight, cluster = guessed.design.get("weight", "w"), guessed.design.get("cluster", "household")
    line = f"# weight = {toml(weight)}"
    yield f"{line:<28} # if some rows stand for more people than others, as in a survey"
    line = f"# cluster = {toml(cluster)}"
    yield f"{line:<28} # if rows belong together: one person, household or branch"
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
    yield f"groups = [{', '.join(guessed.groups)}]" if guessed.groups else '# groups = ["..."]  # the groups to compare'
    yield "# A role may be a condition (1 where it holds); groups may also be cut or named:"
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
    """What readers see instead of names and codes, as comments: only a person knows the words."""
    yield "# What readers of the report see instead of names and codes. Remove the # from a line, and add your words:"
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
    """What the rates of the proposed tests are called; ``words``: those of the decision."""
    line = f"metrics = {{selection_rate = {toml(words)}"
    outcome = outcome_of(guessed)
    if outcome is None or guessed.known == "nobody":
        yield f"{line}}}"
        return
    rate = f"share {words} (of those with" if guessed.known == "everybody" else "share with the outcome (where"
    both = f"{line}, {_RATES[guessed.known]} = {toml(f'{rate} {_happened(outcome)})')}}}"
    if "outcome" in guessed.roles:
        yield both
    else:
        yield f"{line}}}"
        yield "# Once the outcome above is named, instead of the last line:"
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
        yield from _test("Does the uplift model predict some groups' effects wrongly?", ['kind = "treatment_bias"'])


def _selected(guessed: Guess) -> str:
    return selected(guessed.roles.get("prediction")) or "selected"


def _outcomes(guessed: Guess) -> Iterator[str]:
    """The test of decisions and outcomes: among those with the outcome, or among those for whom it is known."""
    reference = 'reference = "population"      # or "rest", or a group such as {race = "White"}'
    outcome = outcome_of(guessed)
    happened = "outcome 1" if outcome is None else _happened(outcome)
    if guessed.known == "everybody":
        metric = 'metric = "tpr"                # also fpr, ppv, accuracy, ...'
        title = f"Among those with {happened}, are the groups {_selected(guessed)} equally often?"
        yield from _test(title, ['kind = "flag"', metric, reference])
        return
    of_selected = guessed.known == "selected"
    metric, whom = _RATES[guessed.known], "selected" if of_selected else "not selected"
    title = f"Is {happened} equally common in all groups of those {_selected(guessed) if of_selected else whom}?"
    why = f"not tpr: the outcome is known only for those {whom}"
    yield from _test(title, ['kind = "flag"', f"{f'metric = {toml(metric)}':<29} # {why}", reference])


def _happened(outcome: GuessedRole) -> str:
    """Outcome 1 in the words of the column: 'repaid = yes'."""
    value = 1 if outcome.equals is None else outcome.equals
    return f"{outcome.column} = {value if isinstance(value, str) else literal(value)}"


def _observed(guessed: Guess) -> str:
    """The filter to those for whom the outcome is known."""
    role = guessed.roles["prediction"]
    op = "" if guessed.known == "selected" else 'op = "!=", '
    value = literal(1 if role.equals is None else role.equals)
    return f"filters = [{{column = {toml(role.column)}, {op}value = {value}}}]  # for whom the outcome is known"


def _test(title: str, lines: Iterable[str]) -> Iterator[str]:
    yield "[[tests]]"
    yield f"title = {toml(title)}"
    yield from lines
    yield ""
