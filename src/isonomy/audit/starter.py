"""A first audit file for a table that nobody has described yet: roles guessed from names and values, all reported.

Columns whose names and values do not reveal their role are not guessed. The file itself is the template `starter.toml`,
and what the names and values of columns may mean is in `starter_words.toml`.
"""

from __future__ import annotations

import json
import os
import re
import textwrap
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Literal

from isonomy.audit.config import ROLES, FileColumns
from isonomy.audit.state import write
from isonomy.errors import ConfigError, DataError, EmptyFrame, UsageError
from isonomy.frames import open_source
from isonomy.frames.profile import FEW, Profile, distinct, profiles, sum_to_one
from isonomy.results import phrases

_WORDS = tomllib.loads((files("isonomy.audit") / "starter_words.toml").read_text(encoding="utf-8"))
_NAMES: dict[str, str] = _WORDS["roles"]
_YES: dict[str, list[str]] = _WORDS["yes"]
_INSTEAD = " (and put a # before user under [columns]: some tests take only one of the two)"
_AGES = (25, 45, 65)  # where raw ages are cut
_MOST = 3  # groupings that are used, and columns proposed as the outcome; the others are listed
_FACTORS = 6  # numbers proposed as factors
_RAW = 10  # an age column with more values than this holds years, not bands
_RATES = {"everybody": "tpr", "selected": "ppv", "others": "false_omission_rate"}  # by whose outcome is known
Field = Literal["lending", "hiring", "uplift", "monitoring"]
# The roles without which the tests of a field cannot be made.
_NEEDED: dict[str, tuple[set[str], ...]] = {
    "lending": ({"prediction"},),
    "hiring": ({"prediction"},),
    "monitoring": ({"prediction"},),
    "uplift": ({"effect", "treatment", "outcome"},),
}
_TESTED = ("outcome", "prediction", "score", "effect", "treatment")  # roles of the tests proposed if none can run


@dataclass(frozen=True, slots=True)
class GuessedRole:
    """The column of a role, as it is or as a condition: 1 where it ``equals`` a value."""

    column: str
    equals: str | float | None = None

    def toml(self) -> str:
        name = toml(self.column)
        return name if self.equals is None else f"{{column = {name}, equals = {literal(self.equals)}}}"

    @property
    def positive(self) -> str | float:
        return 1.0 if self.equals is None else self.equals


@dataclass(slots=True)
class Guess:
    """What the columns probably mean, and what a person should check."""

    purpose: Field | None = None
    roles: dict[str, GuessedRole] = field(default_factory=dict)
    groups: tuple[str, ...] = ()  # as TOML
    checks: list[str] = field(default_factory=list)
    undecided: dict[str, tuple[GuessedRole, ...]] = field(default_factory=dict)  # a person has to choose
    unused: dict[str, list[str]] = field(default_factory=dict)  # columns without a role, by reason
    # For whom the outcome is known: everybody, only those with decision 1 or 0, or nobody (it repeats the decision).
    known: str = "everybody"  # or "selected", "others", "nobody"
    absent: bool = False  # whether an unknown outcome is missing, rather than a value
    design: dict[str, str] = field(default_factory=dict)  # columns that may be the weight and the cluster
    proxy: str = ""  # groups known only by probability, as TOML
    proxied: str = ""  # what they are groups of
    special: str = ""  # the column that the tests of the field need: a batch, or a job

    @property
    def obstacle(self) -> str:
        """Why nothing can be tested, in a sentence; empty if something can."""
        known = {*self.roles}
        testable = _NEEDED.get(self.purpose or "", ({"prediction"}, {"outcome", "score"}, {*_NEEDED["uplift"][0]}))
        if self.purpose == "uplift" and not testable[0] <= known:
            absent = phrases.listed([role for role in _TESTED if role in testable[0] - known])
            return f"No column was recognized as {absent}, which an uplift audit needs: nothing is tested yet."
        if not any(needed <= known for needed in testable):
            return (
                "No column was recognized as a decision (0/1, yes/no or 1/2, with a name such as approved, deny, hired "
                "or prediction), and none as a score with its outcome: nothing is tested yet."
            )
        if self.groups:
            return ""
        if self.proxied and "prediction" in known:
            found = f"except the probabilities of {self.proxied}: one test is made."
            return f"No column was recognized as groups of people, {found}"
        names = "(by a name such as race, sex or age)"
        return f"No column was recognized as groups of people {names}: nothing is tested yet."


def toml(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def literal(value: str | float) -> str:
    if isinstance(value, str):
        return toml(value)
    return str(int(value)) if value == int(value) else repr(value)


# ---- what the columns mean


def sample(data: Path) -> tuple[Profile, ...]:
    try:
        columns = profiles(open_source(data))
    except (UsageError, DataError):
        raise
    except Exception as error:
        raise UsageError(f"data: cannot read {data} ({type(error).__name__}: {error}).") from None
    if not columns:
        raise EmptyFrame(f"data: {data} has no rows.")
    numbers = [bool(re.fullmatch(r"\s*[+-]?\d+(\.\d+)?\s*", c.name)) or c.name in c.values for c in columns]
    if len(columns) > 1 and sum(numbers) > len(columns) / 2:
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


def guess(columns: tuple[Profile, ...], field: Field | None = None) -> Guess:
    guessed = Guess(field)
    _find_roles(guessed, columns)
    roles, checks, undecided = guessed.roles, guessed.checks, guessed.undecided
    taken = {role.column for role in (*roles.values(), *(role for several in undecided.values() for role in several))}
    named = [
        (near, c) for c in columns if c.name not in taken and (near := _closeness(c.name, _WORDS["groups"])) is not None
    ]
    grouped = {c.name: spec for _, c in sorted(named, key=lambda pair: pair[0]) if (spec := _grouping(c))}
    guessed.groups, more = tuple(grouped.values())[:_MOST], tuple(grouped.values())[_MOST:]
    if more:
        checks.append(f"groups lists the first {_MOST} that were found. Add these if they matter: {', '.join(more)}.")
    free = [column for column in columns if column.name not in taken | set(grouped)]
    guessed.design = design = {role: name for role in _WORDS["design"] if (name := _designed(role, free))}
    instead = _INSTEAD if "user" in roles else ""
    checks += [_WORDS["design_checks"][role].format(toml(name), instead) for role, name in design.items()]
    names = [
        (near, c.name) for c in free if (near := _closeness(c.name, _WORDS["fields"].get(field or "", ""))) is not None
    ]
    _, guessed.special = min(names, default=(0, ""))
    free = [column for column in free if column.name not in {guessed.special, *design.values()}]
    if "prediction" in roles and "outcome" not in {*roles, *undecided}:
        pairs = [column for column in free if column.levels > 1 and _two_valued(column)][:_MOST]
        proposed = [
            GuessedRole(column.name, value if column.kind != "binary" else None)
            for column, (yes, _, _) in zip(pairs, map(_sides, pairs), strict=True)
            for value in (column.values if yes is None else (yes,))
        ]
        undecided |= {"outcome": tuple(proposed)} if proposed else {}
    for column in free:
        guessed.unused.setdefault(_reason(column), []).append(column.name)
    return guessed


def probabilities(data: Path, columns: tuple[Profile, ...]) -> tuple[str, dict[str, str]]:
    """What columns of probabilities are about, and the column of each group; empty if there are none."""
    source = open_source(data)
    families: dict[tuple[str, ...], dict[str, str]] = {}
    for column in columns:
        parts = re.findall(r"[^\W_]+", column.name)
        for i, part in enumerate(parts) if column.unit and column.kind == "number" else ():
            families.setdefault((*parts[:i], "", *parts[i + 1 :]), {})[part] = column.name
    for family in families.values():
        for about, words in _WORDS["proxies"].items():
            named = {part: name for part, name in family.items() if part.lower().startswith(tuple(words.split()))}
            for group in (family, named) if len(named) > 1 else ():
                if sum_to_one(source, list(group.values())):
                    return about, {part[:1].upper() + part[1:]: name for part, name in group.items()}
    return "", {}


def _find_roles(guessed: Guess, columns: tuple[Profile, ...]) -> None:
    chosen: dict[str, Profile] = {}
    names = dict(_NAMES)
    if guessed.purpose == "uplift":  # nothing was decided; the outcome is what the treatment may change
        del names["prediction"]
        names["outcome"] = f"{_WORDS['responses']} {names['outcome']}"
    for role, words in names.items():
        free = [c for c in columns if c not in chosen.values() and _FITS[role](c)]
        # A column of 0 and 1 goes before one whose values need interpretation.
        named = [(c.kind == "text", near, c.name, c) for c in free if (near := _closeness(c.name, words)) is not None]
        if named:
            chosen[role] = min(named, key=lambda item: item[:3])[3]
        if role == "outcome" and guessed.purpose == "uplift" and len(named) > 1:
            others = " or ".join(toml(item[2]) for item in sorted(named) if item[3] != chosen[role])
            guessed.checks.append(
                f"The outcome that the treatment may change is taken to be {toml(chosen[role].name)}; if it is "
                f"{others}, write that name."
            )
    if "treatment" in chosen and "effect" not in chosen:
        del chosen["treatment"]  # an experiment without predicted effects answers none of the questions
    turned = _turned(chosen)
    for role, column in chosen.items():
        if role not in ("treatment", "prediction", "outcome"):
            guessed.roles[role] = GuessedRole(column.name)
            continue
        yes, no, check = _sides(column)
        guessed.checks += [text for text in (check, turned.get(role) if yes is not None else "") if text]
        if yes is None or no is None:
            guessed.undecided[role] = tuple(GuessedRole(column.name, value) for value in column.values)
        else:
            plain = None if column.kind == "binary" else yes
            guessed.roles[role] = GuessedRole(column.name, no if role in turned else plain)


def _two_valued(column: Profile) -> bool:
    """0 and 1, true and false, or two other values one of which may mean yes."""
    words = {str(value).strip().lower() for value in column.values}
    spelled = column.kind == "text" and any(yes in words and words - {yes} <= {*no} for yes, no in _YES.items())
    return column.kind == "binary" or (column.kind in ("number", "text") and (column.levels == 2 or spelled))


_FITS: dict[str, Callable[[Profile], bool]] = {
    "treatment": _two_valued,
    "effect": lambda c: c.kind == "number" and c.levels > 2,
    "baseline": lambda c: c.kind == "number",
    "prediction": _two_valued,
    "outcome": _two_valued,
    "score": lambda c: c.kind == "number" and c.levels > 5,
    "user": lambda c: c.kind in ("number", "text") and c.levels > FEW,
}


def _closeness(name: str, words: str) -> int | None:
    """How informative a name is (smaller is more), or None."""
    parted = re.sub(r"([a-z])([A-Z])", r"\1_\2", name)
    plain = re.sub(r"[^a-z0-9]+", "_", parted.lower()).strip("_")
    for place, word in enumerate(words.split()):
        if word in (plain, plain.rstrip("0123456789")):
            return place
    parts = plain.split("_")
    for place, word in enumerate(words.split()):
        begins = len(word) > 4 and any(part.startswith(word) for part in parts)
        if len(word) > 2 and (word in parts or begins or ("_" in word and word in plain)):
            return len(words.split()) + place
    return None


def _sides(column: Profile) -> tuple[str | float | None, str | float | None, str]:
    if column.kind == "binary":
        return 1.0, 0.0, ""
    name = toml(column.name)
    if column.values == (1.0, 2.0):
        return 1.0, 2.0, f"{name} holds 1 and 2: 1 is taken to mean yes, as in most surveys. Is that right?"
    words = {str(value).strip().lower(): str(value) for value in column.values}
    for yes, no in _YES.items() if column.kind == "text" else ():
        if yes in words and len(words) == 2 and set(words) - {yes} <= {*no}:
            if len(column.values) > 2:
                shown = ", ".join(map(toml, map(str, column.values)))
                return None, None, f"{name} spells yes and no in several ways ({shown}): recode it to two values."
            (other,) = set(words) - {yes}
            return words[yes], words[other], ""
    shown = " and ".join(map(literal, column.values))
    return None, None, f"{name} holds {shown}: choose which of them counts as 1."


def _turned(chosen: dict[str, Profile]) -> dict[str, str]:
    """Roles whose yes is bad for people although 1 should be good, and the check for each."""
    decision, outcome = (chosen[role].name if role in chosen else "" for role in ("prediction", "outcome"))
    turned = {}
    adverse, favorable = (_closeness(decision, _WORDS[kind]) is not None for kind in ("adverse", "favorable"))
    if adverse:
        turned["prediction"] = "is a decision against a person: 1 is taken to mean that it was not made."
    if (adverse or favorable) and _closeness(outcome, _WORDS["bad_outcomes"]) is not None:
        turned["outcome"] = "looks bad although the decision is favorable: 1 is taken to mean that it did not happen."
    return {role: f"{toml(chosen[role].name)} {text}" for role, text in turned.items()}


def _grouping(column: Profile) -> str:
    """A column as groups: its values if they are few, raw ages cut; empty if it cannot be groups."""
    named = re.search(r"(^|[^a-z])agep?($|[^a-z])", column.name.lower())
    if named and column.kind == "number" and column.levels > _RAW:
        edges = [str(edge) for edge in _AGES if column.low < edge <= column.high]
        return f"{{column = {toml(column.name)}, edges = [{', '.join(edges)}]}}" if edges else ""
    return toml(column.name) if 2 <= column.levels <= FEW else ""


def _designed(name: str, free: list[Profile]) -> str:
    words = _WORDS["design"][name]
    fit = [c for c in free if (c.levels > FEW if name == "cluster" else c.kind == "number" and c.low >= 0)]
    near, column = min(
        ((near, c.name) for c in fit if (near := _closeness(c.name, words)) is not None), default=(0, "")
    )
    return column if near < len(words.split()) else ""


def _reason(column: Profile) -> str:
    if column.kind == "other":
        return "neither numbers nor text (dates, lists or nothing)"
    if column.levels < 2:
        return "the same value in every row"
    if _two_valued(column):
        return "two values whose meaning the name does not reveal"
    if column.levels <= FEW:
        return "a few values: groups, if they are groups of people"
    if column.kind == "text":
        return f"text with more than {FEW} values: too many for groups"
    return "numbers whose meaning the name does not reveal"


def find_known(data: Path, guessed: Guess) -> None:
    decision, outcomes = guessed.roles.get("prediction"), guessed.undecided.get("outcome", ())
    if "outcome" in guessed.roles:
        outcomes = (guessed.roles["outcome"],)
    if decision is None or not outcomes:
        return
    source = open_source(data)
    numbers = {role.column: distinct(source, role.column, decision.column, decision.positive) for role in outcomes}
    # The first that does not repeat the decision goes before the others.
    outcomes = tuple(sorted(outcomes, key=lambda role: max(numbers[role.column]) <= 1))
    among, others = numbers[outcomes[0].column]
    known = {(True, True): "everybody", (True, False): "selected", (False, True): "others"}
    guessed.known, guessed.absent = known.get((among > 1, others > 1), "nobody"), 0 in (among, others)
    if "outcome" not in guessed.roles:
        guessed.undecided["outcome"] = outcomes
        return
    name = toml(outcomes[0].column)
    some = "{} varies only among {}, as if it could not be observed for {}: they are left out of tests of this outcome."
    check = {
        "everybody": "",
        "selected": some.format(name, "the selected", "the others"),
        "others": some.format(name, "those not selected", "the selected"),
        "nobody": f"{name} is the same for everybody with the same {toml(decision.column)}: no test compares the two.",
    }[guessed.known]
    guessed.checks += [check] if check else []


# ---- the file


def write_starter(data: Path, output: Path, *, force: bool = False, field: Field | None = None) -> list[str]:
    if output.is_dir():
        raise ConfigError(f"{output} is a folder; --output names a file, such as {output / 'audit.toml'}.")
    if output.exists() and not force:
        raise ConfigError(f"{output} exists; --force writes over it, --output names another.")
    columns = sample(data)
    about, groups = probabilities(data, columns)
    guessed = guess(tuple(column for column in columns if column.name not in groups.values()), field)
    find_known(data, guessed)
    if groups:  # known only by probability, with a test of their own
        pairs = ", ".join(f"{toml(label)} = {toml(name)}" for label, name in groups.items())
        guessed.proxy, guessed.proxied = f"{{proxy = {toml(about)}, probabilities = {{{pairs}}}}}", about
        names = ", ".join(map(toml, groups.values()))
        taken = f"they are taken for the probabilities of the groups of {about}. Are they?"
        guessed.checks.append(f"{names} sum to 1 in every row: {taken}")
    path = Path(os.path.relpath(data.resolve(), output.resolve().parent)).as_posix()
    folder = "isonomy-report" if output.stem == "audit" else f"{output.stem}-report"
    write(output, _text(path, folder, columns, guessed))
    guesses = [f"{role} = {chosen.toml()}" for role, chosen in guessed.roles.items()]
    specs = [*guessed.groups, *([guessed.proxy] if guessed.proxy else [])]
    guesses += [f"groups = {', '.join(specs)}"] if specs else []
    notes = [f"check: {check}" for check in guessed.checks]
    unused = [name for names in guessed.unused.values() for name in names]
    notes += [f"not used: {phrases.listed(unused, 8)}; the file says why"] if unused else []
    return guesses + notes + ([guessed.obstacle] if guessed.obstacle else [])


def _text(path: str, folder: str, columns: tuple[Profile, ...], guessed: Guess) -> str:
    from jinja2 import Environment, StrictUndefined

    absent = {column.name for column in columns if column.missing}
    unused = {name for names in guessed.unused.values() for name in names}
    most = max((c.levels for c in columns), default=0)
    # Another score is a result of what is audited, and neither a reason nor a description of people.
    unused -= {c.name for c in columns if _closeness(c.name, _NAMES["score"]) is not None}
    numbers = [c for c in columns if c.kind == "number" and c.levels > FEW and c.name in unused]
    # Consecutive whole numbers with as many values as any column are the numbers of the rows.
    factors = [c.name for c in numbers if not c.high - c.low + 1 == c.levels == most][:_FACTORS]
    needed = absent & {role.column for role in guessed.roles.values()}
    needed |= absent & set(factors if guessed.purpose == "lending" else ())
    proposed = absent & {role.column for roles in guessed.undecided.values() for role in roles}
    words = tuple(word for word in _NAMES["prediction"].split() if word not in _WORDS["plain"].split())
    decision, score = guessed.roles.get("prediction"), guessed.roles.get("score")
    place = None if decision is None else _closeness(decision.column, " ".join(words))
    word = "" if place is None else words[place % len(words)]
    named = _WORDS["chosen"].get(word, word)
    chosen, rate = named or "selected", _RATES.get(guessed.known, "")
    outcome = guessed.roles.get("outcome") or next(iter(guessed.undecided.get("outcome", ())), None)
    happened = labeled = ""
    if outcome is not None:
        value = outcome.positive if isinstance(outcome.positive, str) else literal(outcome.positive)
        happened = f"{outcome.column} = {value}"
        share = f"share {chosen} (of those with" if guessed.known == "everybody" else "share with the outcome (where"
        labeled = f"{rate} = {toml(f'{share} {happened})')}" if rate else ""
    observed = "\n"  # the filter to those for whom the outcome is known
    if decision is not None and guessed.known in ("selected", "others") and not guessed.absent:
        unequal = "" if guessed.known == "selected" else 'op = "!=", '
        condition = f"{{column = {toml(decision.column)}, {unequal}value = {literal(decision.positive)}}}"
        observed = f"filters = [{condition}]  # for whom the outcome is known\n\n"
    environment = Environment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {
        "toml": toml,
        "key": lambda value: toml(value if isinstance(value, str) else literal(value)),
        "commented": partial(re.sub, r"(?m)^(?=.)", "# "),
        "wrapped": lambda text, indent="# ": textwrap.fill(
            text, 116, initial_indent=indent, subsequent_indent=f"{indent}  ", break_on_hyphens=False
        ),
    }
    roles = [name for name in ROLES if name in _NAMES]
    grouped = {c.name for c in columns if any(toml(c.name) in spec for spec in guessed.groups)}
    described = {name: (FileColumns.model_fields[name].description or "").partition(" (")[0] for name in roles}
    return environment.from_string((files("isonomy.audit") / "starter.toml").read_text(encoding="utf-8")).render(
        path=path,
        file=Path(path).name,
        folder=folder,
        columns=columns,
        guess=guessed,
        meanings={name: text[:1].lower() + text[1:].rstrip(".") for name, text in described.items()},
        missing="some needed values" if needed else "values of what may be the outcome" if proposed else "",
        roles=_TESTED if guessed.obstacle else tuple(guessed.roles),
        known=guessed.known,
        named=named,
        chosen=chosen,
        asked=chosen.removeprefix("not "),  # in titles, without the negation
        happened=happened or "outcome 1",
        rate=rate,
        labeled=labeled,
        observed=observed,
        # Subgroups can be made of numbers, or of a few values.
        features=[
            c.name
            for c in columns
            if c.name in grouped | unused
            and c.levels > 1
            and (c.kind in ("binary", "number") or (c.kind == "text" and c.levels <= FEW))
        ],
        factors=factors,
        field=guessed.purpose or "",
        unit_score=score is not None and any(c.unit for c in columns if c.name == score.column),
    )
