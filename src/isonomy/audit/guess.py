"""What the columns of an undescribed table probably mean, from their names and types."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from isonomy.audit.table import refuse_separator
from isonomy.errors import DataError, EmptyFrame, UsageError
from isonomy.frames import open_source

if TYPE_CHECKING:
    import polars as pl

_LOOK = 200_000  # rows looked at
_LEVELS = 20  # a group column has at most this many values
_YES = {"yes": "no", "y": "n", "true": "false", "t": "f"}  # text that says yes, and its opposite

# Words in a column's name, most telling first.
_NAMES: dict[str, tuple[str, ...]] = {
    "treatment": ("treatment", "treated", "offer", "assigned", "exposed", "arm"),
    "effect": ("predicted_effect", "effect", "uplift", "cate", "ite"),
    "baseline": ("predicted_baseline", "baseline"),
    "prediction": (
        "prediction", "predicted", "pred", "y_pred", "decision", "approved", "selected", "hired", "admitted", "granted",
        "accepted", "flagged",
    ),
    "outcome": (
        "outcome", "label", "target", "y_true", "y", "repaid", "default", "recid", "two_year_recid", "churn",
        "converted", "conversion", "visit", "success", "actual", "event", "pass", "callback",
    ),
    "score": ("score", "probability", "prob", "risk", "risk_score", "decile_score", "y_score", "logit"),
    "user": (
        "user", "user_id", "customer", "customer_id", "person_id", "member_id", "account_id", "applicant_id",
        "client_id",
    ),
    "count": ("count", "n_rows", "freq", "frequency"),
}  # fmt: skip
_GROUPS = (
    "race", "ethnicity", "sex", "gender", "age_band", "age_cat", "age_group", "age", "disability", "religion",
    "nationality", "country", "region", "marital", "marital_status", "education", "group", "segment", "black", "female",
    "male", "afam", "minority",
)  # fmt: skip


# An outcome and a decision that mean opposite things when both are 1.
_BAD_OUTCOMES = ("default", "recid", "churn", "fraud", "delinquent", "arrest", "fail", "claim")
_GOOD_DECISIONS = ("approved", "selected", "hired", "admitted", "granted", "accepted")


@dataclass(frozen=True, slots=True)
class Look:
    """What the first rows of a column look like."""

    name: str
    kind: str  # "binary", "number", "text", "other"
    levels: int
    missing: bool
    median: float | None = None
    unit: bool = False  # every number lies in [0, 1]
    yes: tuple[str, ...] = ()  # text that says yes or no: the values that say yes, as they are written
    pair: tuple[str, ...] = ()  # the values of a text column that has two


def toml(text: str) -> str:
    """A string as TOML writes it."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def sample(data: Path) -> pl.DataFrame:
    """The first rows of a table."""
    try:
        rows = open_source(data).head(_LOOK)
    except (UsageError, DataError):
        raise
    except Exception as error:
        raise UsageError(f"data: cannot read {data} ({type(error).__name__}: {error}).") from None
    refuse_separator(rows.columns, str(data))
    if not len(rows):
        raise EmptyFrame(f"data: {data} has no rows.")
    return rows


def look(column: pl.Series) -> Look:
    """What a column looks like."""
    import polars as pl

    kind = column.dtype
    missing = bool(column.null_count())
    if kind == pl.Boolean:
        return Look(column.name, "binary", column.n_unique(), missing)
    if kind.is_numeric():
        numbers = column.cast(pl.Float64).fill_nan(None).drop_nulls()
        finite = numbers.filter(numbers.is_finite())
        missing |= len(finite) < len(column)
        if not len(finite):
            return Look(column.name, "other", 0, missing)
        low, high = float(finite.min()), float(finite.max())  # type: ignore[arg-type]
        levels = finite.n_unique()
        binary = levels == 2 and low == 0 and high == 1
        unit = low >= 0 and high <= 1
        return Look(column.name, "binary" if binary else "number", levels, missing, float(finite.median()), unit)  # type: ignore[arg-type]
    if kind in (pl.String, pl.Categorical) or isinstance(kind, pl.Enum):
        levels = column.drop_nulls().n_unique()
        values = sorted(map(str, column.drop_nulls().unique())) if levels <= _LEVELS else []
        yes = tuple(value for value in values if value.strip().lower() in _YES)
        no = {_YES[value.strip().lower()] for value in yes}
        affirmative = yes if {value.strip().lower() for value in values if value not in yes} == no else ()
        return Look(column.name, "text", levels, missing, yes=affirmative, pair=tuple(values) if levels == 2 else ())
    return Look(column.name, "other", 0, missing)


_FITS: dict[str, Callable[[Look], bool]] = {
    "treatment": lambda c: c.kind == "binary",
    "effect": lambda c: c.kind == "number" and c.levels > 2,
    "baseline": lambda c: c.kind == "number",
    "prediction": lambda c: c.kind == "binary",
    "outcome": lambda c: c.kind == "binary",
    "score": lambda c: c.kind == "number" and c.levels > 5,
    "user": lambda c: c.kind in ("number", "text") and c.levels > _LEVELS,
    "count": lambda c: c.kind == "number",
}


def _closeness(name: str, words: tuple[str, ...]) -> int | None:
    """How telling a name is (smaller is more), or None."""
    plain = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
    for place, word in enumerate(words):
        if plain == word:
            return place
    parts = plain.split("_")
    for place, word in enumerate(words):
        if len(word) > 2 and (word in parts or (len(word) > 4 and word in plain)):
            return len(words) + place
    return None


def guess_roles(columns: list[Look]) -> dict[str, str]:
    """Role -> column, where a name tells and the type fits."""
    roles: dict[str, str] = {}
    for role, words in _NAMES.items():
        free = [c for c in columns if c.name not in roles.values() and _FITS[role](c)]
        named = [(near, c.name) for c in free if (near := _closeness(c.name, words)) is not None]
        if named:
            roles[role] = min(named)[1]
    if "treatment" in roles and "effect" not in roles:
        del roles["treatment"]  # an experiment without predictions of its effect answers none of the questions
    roles.pop("count", None)  # a wrong guess would change every number: named in a comment instead
    return roles


def recodable(columns: list[Look], roles: dict[str, str], groups: list[str]) -> list[Look]:
    """Text columns that should probably be 0 and 1: yes and no, or two values under the name of a role still free."""
    taken = {*roles.values(), *groups}
    free = [c for c in columns if c.kind == "text" and c.name not in taken and toml(c.name) not in taken]
    open_roles = [_NAMES[role] for role in ("treatment", "prediction", "outcome") if role not in roles]
    named = {c.name for c in free if c.pair and any(_closeness(c.name, words) is not None for words in open_roles)}
    return [c for c in free if c.yes or c.name in named]


def opposed(roles: dict[str, str]) -> bool:
    """Whether outcome 1 looks bad while prediction 1 looks good."""
    outcome, prediction = roles.get("outcome", ""), roles.get("prediction", "")
    bad = _closeness(outcome, _BAD_OUTCOMES) is not None
    return bad and _closeness(prediction, _GOOD_DECISIONS) is not None


def guess_groups(columns: list[Look], roles: dict[str, str]) -> list[str]:
    """Up to three groupings, as TOML."""
    taken = set(roles.values())
    free = [c for c in columns if c.name not in taken]
    named = [(near, c) for c in free if (near := _closeness(c.name, _GROUPS)) is not None]
    fitting = [c for _, c in sorted(named, key=lambda pair: pair[0]) if 2 <= c.levels <= _LEVELS]
    cuts = [c for _, c in sorted(named, key=lambda pair: pair[0]) if c.kind == "number" and c.levels > _LEVELS]
    chosen = [toml(c.name) for c in fitting[:3]]
    chosen += [_cut(c) for c in cuts[:1] if len(chosen) < 3]
    if not chosen:
        coded = {c.name for c in recodable(columns, roles, [])}
        few = [c for c in free if c.kind == "text" and 2 <= c.levels <= _LEVELS and c.name not in coded]
        few += [c for c in free if c.kind in ("number", "binary") and 2 <= c.levels <= 10]
        chosen = [toml(c.name) for c in few[:2]]
    if not chosen:
        chosen = [_cut(c) for c in free if c.kind == "number" and c.levels > 2][:1]
    if not chosen:
        raise UsageError("data: no column looks like groups of people; write the audit file by hand.")
    return chosen


def _cut(column: Look) -> str:
    edges = "[25, 45, 65]" if re.fullmatch(r"age.*", column.name.lower()) else f"[{column.median!r}]"
    return f"{{column = {toml(column.name)}, edges = {edges}}}"
