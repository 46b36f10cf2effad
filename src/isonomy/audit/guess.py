"""What the columns of an undescribed table probably mean, from their names and values.

What neither a name nor a value tells is not guessed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from isonomy.errors import DataError, EmptyFrame, UsageError
from isonomy.frames import open_source
from isonomy.frames.profile import FEW, Profile, distinct, profiles

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
# Columns that may say how rows stand for people; what follows from them is for a person to say.
_DESIGN: dict[str, tuple[str, ...]] = {
    "weight": ("weight", "weights", "sample_weight", "survey_weight", "wt", "wgt", "pwgtp", "perwt", "fnlwgt"),
    "cluster": (
        "household", "household_id", "hhid", "family_id", "cluster", "psu", "branch", "branch_id", "school",
        "school_id", "schoolid", "hospital", "store", "site",
    ),
}  # fmt: skip
_DESIGN_CHECKS = {
    "weight": "{} may say how many people a row stands for. If it does, take the # from weight under [data]; else "
    "every row counts once.",
    "cluster": "{} may say which rows belong together. If it does, take the # from cluster under [data]{}, or every "
    "error is too small.",
}
_INSTEAD = " (and put a # before user under [columns]: some tests take one of the two)"
_ADVERSE = ("deny", "denied", "denial", "rejected", "declined", "refused")  # decisions that are bad for people
_FAVOURABLE = ("approved", "approval", "selected", "hired", "admitted", "granted", "accepted", "promoted", "awarded")
# What the people are called whose decision is 1, by a word in the column's name.
_SELECTED = {
    "approval": "approved", "award": "awarded", "callback": "called back", "called": "called back",
    "call": "called back",
    "deny": "not denied", "denied": "not denied", "denial": "not denied", "rejected": "not rejected",
    "declined": "not declined", "refused": "not refused",
}  # fmt: skip
_PLAIN = ("prediction", "predicted", "pred", "y_pred", "decision")  # names that say nothing of what was decided
_BAD_OUTCOMES = (
    "default", "recid", "churn", "fraud", "delinquent", "arrest", "fail", "claim", "reoffended", "reoffense",
    "rearrest", "dropped_out", "dropout", "readmitted",
)  # fmt: skip
# Values that say yes, each beside those that say no.
_YES = {
    "yes": {"no"}, "y": {"n"}, "true": {"false"}, "t": {"f"}, "1": {"0"}, "pass": {"fail"}, "passed": {"failed"},
    "good": {"bad"}, "approved": {"denied", "rejected", "declined"}, "accepted": {"rejected", "declined"},
    "granted": {"denied", "refused"}, "hired": {"rejected", "not hired"}, "admitted": {"rejected", "denied"},
}  # fmt: skip
_AGES = (25, 45, 65)  # where raw ages are cut
_MOST = 3  # groupings are taken, and columns offered as the outcome; the others are told
_RAW = 10  # an age column with more values than this holds years, not bands


@dataclass(frozen=True, slots=True)
class Role:
    """The column behind a role, as it stands or as a condition: 1 where it ``equals`` a value."""

    column: str
    equals: str | float | None = None

    def toml(self) -> str:
        """The role as an audit file writes it."""
        name = toml(self.column)
        return name if self.equals is None else f"{{column = {name}, equals = {literal(self.equals)}}}"


# Of whom an outcome tells anything: everybody, those with decision 1 or 0 alone, or nobody beyond the decision.
Known = Literal["everybody", "selected", "others", "nobody"]
_KNOWN: dict[tuple[bool, bool], Known] = {
    (True, True): "everybody",
    (True, False): "selected",
    (False, True): "others",
    (False, False): "nobody",
}


@dataclass(frozen=True, slots=True)
class Guess:
    """What the columns probably mean, what a person has to look at, and why nothing can be tested, if so."""

    roles: dict[str, Role]
    groups: tuple[str, ...]  # as TOML
    checks: tuple[str, ...] = ()
    undecided: dict[str, tuple[Role, ...]] = field(default_factory=dict)  # which it is is for a person to say
    obstacle: str = ""
    unused: dict[str, tuple[str, ...]] = field(default_factory=dict)  # columns without a role, by the reason why
    known: Known = "everybody"
    absent: bool = False  # whether the outcome is missing where it is not known, and not some value
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
            f"data: the first line of {data} looks like a row and not like the names of columns ({shown}, ...). Put a "
            "line of names on top."
        )
    if len(columns) == 1 and len(columns[0].name.split()) > 2:
        raise DataError(
            f"data: {data} has a single column, {columns[0].name!r}; columns are separated by commas, semicolons, "
            "tabs or bars."
        )
    return columns


def _headless(columns: tuple[Profile, ...]) -> bool:
    """Whether names of columns are numbers, or values of their own columns: the file has no line of names."""
    values = [
        bool(re.fullmatch(r"\s*[+-]?\d+(\.\d+)?\s*", column.name)) or column.name in column.values for column in columns
    ]
    return len(columns) > 1 and sum(values) > len(columns) / 2


def guess(columns: tuple[Profile, ...]) -> Guess:
    """Every role a name tells and a type fits, and the groups."""
    roles, undecided, checks = _roles(columns)
    taken = {role.column for role in (*roles.values(), *(one for each in undecided.values() for one in each))}
    grouped = _groups(columns, taken)
    groups, more = tuple(grouped.values())[:_MOST], tuple(grouped.values())[_MOST:]
    if more:
        checks.append(f"groups has the first {_MOST} that were found. Add these where they matter: {', '.join(more)}.")
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
    """The column that may be the weight, or the cluster; nothing where there is none."""
    fit = [c for c in free if (c.levels > FEW if name == "cluster" else c.kind == "number" and c.low >= 0)]
    words = _DESIGN[name]
    named = [(near, c.name) for c in fit if (near := _closeness(c.name, words)) is not None and near < len(words)]
    return min(named, default=(0, ""))[1]


def compared(data: Path, guessed: Guess) -> Guess:
    """The guess, knowing of whom the outcome, or what may be it, tells anything: perhaps of the selected alone."""
    decision, outcomes = guessed.roles.get("prediction"), guessed.undecided.get("outcome", ())
    if "outcome" in guessed.roles:
        outcomes = (guessed.roles["outcome"],)
    if decision is None or not outcomes:
        return guessed
    source, one = open_source(data), _one(decision)
    numbers = {role.column: distinct(source, role.column, decision.column, one) for role in outcomes}
    # The first that tells more than the decision does goes before the others.
    outcomes = tuple(sorted(outcomes, key=lambda role: max(numbers[role.column]) <= 1))
    outcome = outcomes[0]
    if "outcome" not in guessed.roles:
        guessed = replace(guessed, undecided={**guessed.undecided, "outcome": outcomes})
    among, others = numbers[outcome.column]
    known: Known = _KNOWN[among > 1, others > 1]
    told, other = toml(outcome.column), toml(decision.column)
    check = {
        "everybody": "",
        "selected": f"{told} varies among the selected alone, as an outcome does that nobody could observe of the "
        "others: they are left out wherever it is looked at.",
        "others": f"{told} varies among those not selected alone, as an outcome does that nobody could observe of the "
        "selected: they are left out wherever it is looked at.",
        "nobody": f"{told} is the same for all who have the same {other}: no test compares the two.",
    }[known]
    checks = (*guessed.checks, check) if check and "outcome" in guessed.roles else guessed.checks
    return replace(guessed, known=known, absent=0 in (among, others), checks=checks)


def outcome_of(guessed: Guess) -> Role | None:
    """The outcome, or the first column that may be it."""
    return guessed.roles.get("outcome") or next(iter(guessed.undecided.get("outcome", ())), None)


def _one(role: Role) -> str | float:
    """The value of a column that counts as 1."""
    return 1.0 if role.equals is None else role.equals


def _perhaps_outcomes(free: list[Profile]) -> dict[str, tuple[Role, ...]]:
    """Columns with two values that might be the outcome of a decision; nothing but a person's word makes them one."""
    pairs = [column for column in free if column.levels > 1 and _two_valued(column)][:_MOST]
    sides = [(column, _sides(column)[0]) for column in pairs]
    chosen = [
        Role(column.name, value if column.kind != "binary" else None)
        for column, yes in sides
        for value in (column.values if yes is None else (yes,))
    ]
    return {"outcome": tuple(chosen)} if chosen else {}


def _unused(free: list[Profile]) -> dict[str, tuple[str, ...]]:
    """The columns without a role, by the reason why they have none."""
    reasons: dict[str, tuple[str, ...]] = {}
    for column in free:
        reason = _reason(column)
        reasons[reason] = (*reasons.get(reason, ()), column.name)
    return reasons


def _reason(column: Profile) -> str:
    if column.kind == "other":
        return "no numbers and no text (dates, lists or nothing at all)"
    if column.levels < 2:
        return "the same value in every row"
    if _two_valued(column):
        return "two values, under a name that does not say what they are"
    if column.levels <= FEW:
        return "a few values: groups, if they are groups of people"
    if column.kind == "text":
        return f"text with more than {FEW} values: too many for groups"
    return "numbers, under a name that does not say what they measure"


def _two_valued(column: Profile) -> bool:
    """0 and 1, true and false, or two other values one of which may mean yes."""
    return column.kind == "binary" or (column.kind in ("number", "text") and (column.levels == 2 or _words(column)))


def _words(column: Profile) -> bool:
    """Text that says yes or no, in whatever spellings."""
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
    """How telling a name is (smaller is more), or None."""
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


def _roles(columns: tuple[Profile, ...]) -> tuple[dict[str, Role], dict[str, tuple[Role, ...]], list[str]]:
    """The roles, those whose column has two values of which either may be 1, and what to check."""
    chosen: dict[str, Profile] = {}
    for role, words in _NAMES.items():
        free = [c for c in columns if c not in chosen.values() and _FITS[role](c)]
        # A column that is 0 and 1 as it stands goes before one whose values have to be told.
        named = [(c.kind == "text", near, c.name, c) for c in free if (near := _closeness(c.name, words)) is not None]
        if named:
            chosen[role] = min(named, key=lambda item: item[:3])[3]
    if "treatment" in chosen and "effect" not in chosen:
        del chosen["treatment"]  # an experiment without predictions of its effect answers none of the questions
    roles: dict[str, Role] = {}
    undecided: dict[str, tuple[Role, ...]] = {}
    checks: list[str] = []
    turned = _turned(chosen)
    for role, column in chosen.items():
        if role not in ("treatment", "prediction", "outcome"):
            roles[role] = Role(column.name)
            continue
        yes, no, check = _sides(column)
        if check:
            checks.append(check)
        if yes is None or no is None:
            undecided[role] = tuple(Role(column.name, value) for value in column.values)
        elif role in turned:
            roles[role] = Role(column.name, no)
            checks.append(turned[role])
        else:
            roles[role] = Role(column.name, None if column.kind == "binary" else yes)
    return roles, undecided, checks


def _sides(column: Profile) -> tuple[str | float | None, str | float | None, str]:
    """The value that says yes and the one that says no, and what to check about them."""
    if column.kind == "binary":
        return 1.0, 0.0, ""
    name = toml(column.name)
    if column.kind == "number":
        if column.values != (1.0, 2.0):
            shown = " and ".join(map(literal, column.values))
            return None, None, f"{name} holds {shown}: say which of them counts as 1."
        return 1.0, 2.0, f"{name} holds 1 and 2: 1 is taken to mean yes, as in most surveys. Is it so?"
    words = {str(value).strip().lower(): str(value) for value in column.values}
    for yes, no in _YES.items():
        if yes in words and len(words) == 2 and set(words) - {yes} <= no:
            if len(column.values) > 2:
                shown = ", ".join(map(toml, map(str, column.values)))
                return None, None, f"{name} writes yes and no in several ways ({shown}): make them two first."
            (other,) = set(words) - {yes}
            return words[yes], words[other], ""
    shown = " and ".join(map(literal, column.values))
    return None, None, f"{name} holds {shown}: say which of them counts as 1."


def _turned(chosen: dict[str, Profile]) -> dict[str, str]:
    """Roles whose yes is bad for people where 1 should be good, and what to say of them."""
    name = {role: column.name for role, column in chosen.items()}
    decision, outcome = name.get("prediction", ""), name.get("outcome", "")
    turned: dict[str, str] = {}
    adverse = _closeness(decision, _ADVERSE) is not None
    if adverse:
        turned["prediction"] = (
            f"{toml(decision)} is a decision against a person: 1 is taken to mean that it was not made."
        )
    if (adverse or _closeness(decision, _FAVOURABLE) is not None) and _closeness(outcome, _BAD_OUTCOMES) is not None:
        turned["outcome"] = (
            f"{toml(outcome)} looks bad where the decision is good for a person: 1 is taken to mean that it did not "
            "happen."
        )
    return turned


def _groups(columns: tuple[Profile, ...], taken: set[str]) -> dict[str, str]:
    """Columns whose names say that they hold groups of people, and their groupings as TOML."""
    free = [c for c in columns if c.name not in taken]
    named = [(near, c) for c in free if (near := _closeness(c.name, _GROUPS)) is not None]
    return {c.name: grouped for _, c in sorted(named, key=lambda pair: pair[0]) if (grouped := _grouping(c))}


def _grouping(column: Profile) -> str:
    """A column as groups: its values where they are few, raw ages cut; nothing where it cannot be one."""
    named = re.search(r"(^|[^a-z])agep?($|[^a-z])", column.name.lower())
    if named and column.kind == "number" and column.levels > _RAW:
        edges = [str(edge) for edge in _AGES if column.low < edge <= column.high]
        return f"{{column = {toml(column.name)}, edges = [{', '.join(edges)}]}}" if edges else ""
    return toml(column.name) if 2 <= column.levels <= FEW else ""


def selected(role: Role | None) -> str:
    """What people with decision 1 are called: 'hired', 'not denied'; nothing where the column's name does not say."""
    words = tuple(word for word in _NAMES["prediction"] if word not in _PLAIN)
    place = None if role is None else _closeness(role.column, words)
    if place is None:
        return ""
    word = words[place % len(words)]
    return _SELECTED.get(word, word)


def _obstacle(roles: set[str], groups: tuple[str, ...]) -> str:
    """Why no test is asked for, in a sentence; nothing where one can be."""
    testable = ({"prediction"}, {"outcome", "score"}, {"effect", "treatment", "outcome"})
    if not any(needed <= roles for needed in testable):
        return (
            "No column was recognised as a decision (0/1, yes/no or 1/2, under a name such as approved, deny, hired or "
            "prediction), and none as a score with its outcome: nothing is tested yet."
        )
    if not groups:
        return (
            "No column was recognised as groups of people (by a name such as race, sex or age): nothing is tested yet."
        )
    return ""
