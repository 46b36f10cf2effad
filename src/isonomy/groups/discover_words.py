"""Every sentence about subgroups that were found in the data."""

from __future__ import annotations

import json
from datetime import date
from typing import TYPE_CHECKING

from isonomy.frames.expressions import Comparison
from isonomy.groups.words import HOLM, group_finding
from isonomy.inference import Verdict
from isonomy.results import phrases, register

if TYPE_CHECKING:
    from isonomy.groups.discover import DiscoverResult

METHODS = {
    "crossfit": "subgroups found in one half of the rows and tested in the other, both ways",
    "all": "exact tests of every subgroup that could have been named",
}
REFERENCES = (
    "Cherian, J. J. and Candès, E. J. (2024). Statistical inference for fairness auditing. JMLR 25 (149), 1-49.",
    "Goeman, J. and Solari, A. (2024). On selection and conditioning in multiple testing and selective inference. "
    "Biometrika 111, 393-416.",
    HOLM,
)
LIMITS = (
    "Other subgroups may be treated worse: the search looks at conditions on the named features alone, at these cuts.",
    "A subgroup says who is affected, not why.",
    "These rows found the subgroups. Test them again on new rows before acting on them.",
    phrases.NOT_PROOF,
)
HOW = (
    "Each subgroup was found in one half of the rows and tested in the other: its numbers are those of the half that "
    "did not choose it. Adjusted p-values account for all subgroups of a half by Holm's method, and for both halves."
)
NOTHING = "This does not show that no subgroup is treated differently."
_CUTS = (
    "Cuts and values are chosen without looking at the metric.",
    "Cuts are quantiles of all rows, rounded to few digits.",
)
ASSUMED = {
    "crossfit": (
        ("The data choose the subgroups.", "No row is used both to find a subgroup and to test it."),
        _CUTS,
    ),
    "all": (
        ("The data choose the subgroups.", "P-values and intervals count all that could have been named."),
        _CUTS,
    ),
}
WORSE = {"worse": "worse off", "better": "better off", "both": "treated differently"}


def overview(r: DiscoverResult) -> str:
    shown = sum(verdict is Verdict.VIOLATION for verdict in r.verdicts)
    by = "" if r.tolerance is None else " by more than the tolerance"
    if r.evidence == "all":
        conditions = "one condition" if r.depth == 1 else "at most two conditions"
        start = (
            f"{r.counted:,} subgroups could have been named ({conditions}, at least {phrases.share(r.min_share)} of "
            "the rows). Each adjusted p-value counts all of them."
        )
        if r.verdict is Verdict.WITHIN_TOLERANCE:
            return f"{start} None of them is {WORSE[r.side]}{by}: this was shown for all of them together."
        end = f"{shown} of those listed {'was' if shown == 1 else 'were'} shown to be {WORSE[r.side]}{by}."
        return f"{start} {end if shown else f'None was shown to be {WORSE[r.side]}{by}. {NOTHING}'}"
    if not r.tried:
        return f"No subgroup stood out enough to be tested. {NOTHING}"
    tested = f"{phrases.count(r.tried)} subgroup{'' if r.tried == 1 else 's'} stood out in one half of the rows"
    if not shown:
        return f"{tested}; {'it was not' if r.tried == 1 else 'none was'} confirmed in the other half. {NOTHING}"
    if r.tried > 1:
        tested += " or the other; after merging near-duplicates"
    were = ("one was" if r.tried > 1 else "it was") if shown == 1 else f"{shown} were"
    return f"{tested}{',' if r.tried > 1 else ';'} {were} confirmed in the opposite half to be {WORSE[r.side]}{by}."


def finding(r: DiscoverResult, i: int) -> str:
    text = group_finding(r, i)
    if r.again[i]:
        text += " The other half of the rows led to nearly the same subgroup."
    if r.within[i]:
        text += f" At least 80 % of these rows also belong to {r.within[i]}."
    return text


def toml(name: str, comparisons: tuple[Comparison, ...]) -> str:
    parts = []
    for comparison in comparisons:
        keys = [f"column = {json.dumps(comparison.column, ensure_ascii=False)}"]
        keys += [f'op = "{comparison.operator}"'] if comparison.operator != "==" else []
        value = comparison.value
        text = value.isoformat() if isinstance(value, date) else json.dumps(value, ensure_ascii=False)
        keys += [] if value is None else [f"value = {text}"]
        parts.append(f"{{{', '.join(keys)}}}")
    return f"[[columns.groups]]\nname = {json.dumps(name, ensure_ascii=False)}\nwhere = [{', '.join(parts)}]\n"


register(
    {
        "no_subgroups": lambda note: (
            f"No value of {phrases.listed(note.groups)} has {note.values['least']:,} rows, or all rows have the same "
            "one, so no subgroup is made of it."
        ),
        "few_levels": "Only the {most} most frequent values of {groups} form subgroups.",
        "unlisted": "Subgroups with fewer than {least:,} rows are not listed, nor are subgroups that would reveal one.",
        "searched_part": "The search used {rows:,} random rows of each half; the tests used all rows of the other.",
    }
)
