"""Phrases that all topics share: numbers, p-values, verdicts; and notes.

A topic registers the sentences of its notes once, by code::

    register({"too_small": "Fewer than {least:,} rows, so listed and not tested: {groups}."})

and its decisions say ``Note("too_small", groups=labels, values={"least": 10})``. Disclosure control drops the groups
that are withheld from ``groups``; it never edits a sentence.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from typing import Any

from isonomy.results.storage import storable

# What metrics, columns and statuses are called.
WORDS = tomllib.loads((files("isonomy.results") / "words.toml").read_text(encoding="utf-8"))
_CLUSTERS = 5  # groups whose clusters are described in words
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1b\x7f-\x9f\ud800-\udfff\ufffe\uffff]")

# A verdict in a few words, before its headline; a question may have words of its own, because an alternative that
# exists, or a correction that helps, violates nothing.
BADGES = {
    "violation": "Difference shown",
    "within_tolerance": "Within tolerance",
    "inconclusive": "Inconclusive",
    "failed": "Not answered",
}
# What follows the badge in a headline.
VERDICTS = {
    "violation": "the groups differ by more than chance explains.",
    "within_tolerance": "any difference was shown to be smaller than the tolerance.",
    "inconclusive": "the data neither show a difference larger than the tolerance nor rule one out.",
}
BEYOND = "the groups differ by more than the tolerance, beyond what chance explains."  # a violation of a tolerance
# Next steps that are left out once they have been taken: a comparison within factors, and a record of who chose.
WITHIN_FACTORS = "Look for legitimate factors in which the groups differ, and compare people who are alike in them."
RECORD_CHOICE = (
    "Record who chose the tolerance, when and why: the conclusion is only as good as that choice.",
    "Record who chose the threshold, when and why: it is a convention, not the law's.",
)
# What metrics are called in a sentence, unless the audit has words for them.
METRICS: dict[str, str] = WORDS["metrics"]

NOT_PROOF = "A large p-value is not evidence of equal treatment: it means that these data could not tell."
# How users' words for a metric end if they name a number, and irregular participles with which they may begin.
_MEASURES = ("rate", "share", "value", "score", "amount", "percentage", "number", "count")
_PARTICIPLE = re.compile(
    r"(re|un|mis|over|under|with|for)?"
    r"(chosen|drawn|found|given|held|kept|left|let|lost|made|met|paid|put|sent|shown|sold|taken|told|won)"
)
# What people are called whose share is a rate of this name.
_CHOSEN = {
    "approval": "approved",
    "acceptance": "accepted",
    "admission": "admitted",
    "hiring": "hired",
    "hire": "hired",
    "promotion": "promoted",
    "offer": "offered",
    "callback": "called back",
    "invitation": "invited",
}
# Why a group has no answer, by its status.
REASONS = {
    "reference": "everybody is in one group, which leaves nothing to compare it with",
    "empty": "no group has a row that counts",
    "too_small": "every group has fewer rows than a test needs",
    "constant": "all rows of a group have the same value, so chance cannot be judged",
    "suppressed": "every group is too small to be published",
}
UNTOLERANT = (
    "no difference was shown. Without a tolerance nothing more can be concluded: no number of rows can show that "
    "groups are equal."
)

# Assumptions of several methods.
UNCHECKED = "This cannot be checked from the table."
INDEPENDENT = (
    "Rows are independent of one another.",
    "This cannot be checked from the table. Repeated people or clusters violate it, and intervals are then too short.",
)
VERDICTS_ALONE = "Verdicts are compared; the numbers of this kind of test are not."


def designed(options: Mapping[str, object], clusters: Sequence[tuple[str, int, float]] = ()) -> str:
    """How rows represent people in every number of a result; empty if each row is one person.

    ``clusters``: for each group, its number of clusters and their effective number.
    """
    count, weight, cluster = (options.get(name) for name in ("count", "weight", "cluster"))
    sentences = [f"Each line of the table stands for the number of rows in {count}."] if count else []
    if weight:
        sentences.append(
            f"Shares and averages count each row by its weight, the column {weight}; numbers of rows are not weighted."
        )
    if cluster:
        sentences.append(f"Rows with the same {cluster} belong together, and all errors account for that.")
    if clusters:  # the groups with the fewest effective clusters
        what, fewest = "clusters" if cluster else "rows", sorted(clusters, key=lambda group: group[2])[:_CLUSTERS]
        worth = [f"{group} has {n:,} {what}, equivalent to {size:,.1f} of equal weight" for group, n, size in fewest]
        among = "" if len(clusters) <= _CLUSTERS else f", the fewest of {len(clusters):,} groups"
        sentences.append(f"{'; '.join(worth)}{among}.")
    return " ".join(sentences)


SAMPLE = ("Rows are a sample of the population that the conclusion is about.", UNCHECKED)


def unanswered(statuses: Iterable[str]) -> str:
    distinct = set(statuses)
    why = REASONS.get(min(distinct), "") if len(distinct) == 1 else ""
    if distinct == {"reference", "too_small"}:
        why = "only one group has enough rows, which leaves nothing to compare it with"
    why = why or "no group could be tested; the warnings and the statuses in the table explain why"
    return f"Not answered: {why}. This is no evidence for or against equal treatment."


def number(value: float, digits: int = 3) -> str:
    """A number with ``digits`` significant digits; words for missing and infinite numbers."""
    if value is None or math.isnan(value):
        return "not available"
    if math.isinf(value):
        return "infinity" if value > 0 else "minus infinity"
    if value != 0 and not 1e-4 <= abs(value) < 1e6:
        return f"{value:.{digits - 1}e}"
    places = max(0, digits - 1 - (math.floor(math.log10(abs(value))) if value else 0))
    return f"{value:,.{min(places, digits + 3)}f}"


def metric(name: str) -> str:
    """A metric in words; users' own words are kept."""
    return METRICS.get(name, name)


def noun(name: str) -> str:
    """A metric as a noun: users' own words may be participles ('approved', 'called back')."""
    return METRICS.get(name) or (f"share {name}" if _verbal(name) else name)


def chosen(words: Mapping[str, str]) -> str:
    """What people with decision 1 are called: by the words for the selection rate ('approved', 'approval rate')."""
    rate = words.get("selection_rate", "")
    return rate if _verbal(rate) else _CHOSEN.get(rate.lower().removesuffix(" rate"), "selected")


def _verbal(words: str) -> bool:
    """Whether words describe people, not a measure: 'not denied', 'wrongly given a loan'."""
    spoken = [word for word in words.lower().split() if word not in ("not", "never") and not word.endswith("ly")]
    if not spoken or spoken[-1] in _MEASURES:
        return False
    first = spoken[0]
    return bool(_PARTICIPLE.fullmatch(first)) or (
        len(first) > 3 and first.endswith("ed") and not first.endswith(("eed", "dred"))
    )


def signed(value: float, digits: int = 3) -> str:
    return number(value, digits) if math.isnan(value) or value < 0 else f"+{number(abs(value), digits)}"


def ends(low: float, high: float, digits: int = 3, *, shares: bool = False) -> tuple[str, str]:
    """Both ends of an interval with the same number of decimals: '0.946', '1.010'; ``shares`` as percentages.

    As many as the end with more of them needs, but at most one more than the larger end has alone.
    """
    first, last = (percent(end) if shares else number(end, digits) for end in (low, high))
    if not (math.isfinite(low) and math.isfinite(high)) or "e" in first + last:
        return first, last
    places = [len(text.partition(".")[2]) for text in (first, last)]
    most = min(max(places), places[int(abs(high) >= abs(low))] + 1)
    first, last = (f"{100 * end if shares else end:,.{most}f}" for end in (low, high))
    return first.lstrip("-") if not first.strip("-0.") else first, last.lstrip("-") if not last.strip("-0.") else last


def interval(low: float, high: float, alpha: float, digits: int = 3) -> str:
    """'95 % interval 0.01 to 0.05'."""
    level = f"{100 * (1 - alpha):g} %"
    if math.isinf(low) and not math.isinf(high):
        return f"{level} upper bound {number(high, digits)}"
    if math.isinf(high) and not math.isinf(low):
        return f"{level} lower bound {number(low, digits)}"
    return f"{level} interval {' to '.join(ends(low, high, digits))}"


def probability(p: float) -> str:
    """A p-value in a table: '0.0123', or '< 0.001' if it is smaller. The stored one has all digits."""
    if p < 0.001:
        return "< 0.001"
    return f"{p:.4f}" if p < 0.1 else f"{p:.2f}"


def pvalue(p: float) -> str:
    """'p = 0.0123' or 'p < 0.001', never 'p = 0'."""
    if p is None or math.isnan(p):
        return "no p-value"
    shown = probability(p)
    return f"p {shown}" if shown.startswith("<") else f"p = {shown}"


def share(value: float) -> str:
    """A share of people as a percentage: '38.1 %'."""
    return number(value) if math.isnan(value) or math.isinf(value) else f"{percent(value)} %"


def points(value: float) -> str:
    """A difference of two shares, without its sign: '19.4 points', '1.0 point'."""
    if math.isnan(value) or math.isinf(value):
        return number(value)
    amount = percent(abs(value))
    return f"{amount} point{'' if amount == '1.0' else 's'}"


def apart(difference: float, limits: tuple[float, float], alpha: float, kind: str = "") -> str:
    """Two shares: '19.4 points lower, 95 % interval 18.8 to 20.0'; '4.4 points lower to 0.7 points higher' if the
    interval contains 0; '95 % upper bound 18.8 points lower' if it has one end."""
    size, level = offset(difference), f"{kind}{100 * (1 - alpha):g} %"
    low, high = min(limits), max(limits)
    known = [end for end in (low, high) if math.isfinite(end)]
    if len(known) < 2:
        bound = f"{'lower' if known == [low] else 'upper'} bound {offset(known[0])}" if known else "unbounded interval"
        return f"{size}, {level} {bound}"
    near, far = sorted((abs(low), abs(high)))
    shown = " to ".join(ends(near, far, shares=True))
    if low < 0 < high or ((high <= 0) != (difference < 0) and low != high):
        shown = between(low, high)
    return f"{size}, {level} interval {shown}"


def offset(difference: float) -> str:
    """A difference of two shares in words: '19.4 points lower'."""
    return f"{points(difference)} {'lower' if difference < 0 else 'higher'}"


def between(low: float, high: float) -> str:
    """From one difference of two shares to another: '1.0 to 3.0 points higher', '4.4 points lower to 0.7 points
    higher'."""
    first, last = (text.lstrip("-") for text in ends(low, high, shares=True))
    if low < 0 < high:
        return f"{first} points lower to {last} points higher"
    near, far = (last, first) if high <= 0 else (first, last)
    return f"{near} to {far} points {'lower' if high <= 0 else 'higher'}"


def percent(value: float) -> str:
    """A share times 100: one decimal, or as many as the first digit of a small share needs."""
    percent = 100 * value
    places = 1 if percent == 0 or abs(percent) >= 0.1 else min(6, -math.floor(math.log10(abs(percent))))
    return f"{percent:,.{places}f}"


def count(n: float) -> str:
    return f"{n:,.0f}".replace("-0", "0") if -0.5 <= n < 0 else f"{n:,.0f}"


def cut(text: str, length: int) -> str:
    """The text on one line, at most ``length`` characters; control characters are replaced by a mark."""
    line = " ".join(_CONTROL.sub("\ufffd", text).split())
    return line if len(line) <= length else f"{line[: length - 1]}…"


def listed(items: Sequence[str], limit: int = 5) -> str:
    """'a, b and c', or 'a, b, c, d, e and 12 more'; 'a; b, x; and c, y' if an item contains a comma or 'and'."""
    if len(items) < 2:
        return "".join(items)
    shown, last = (items[:-1], items[-1]) if len(items) <= limit else (items[:limit], f"{len(items) - limit:,} more")
    comma, link = (
        ("; ", "; and ") if any("," in item or " and " in item for item in (*shown, last)) else (", ", " and ")
    )
    return f"{comma.join(shown)}{link}{last}"


def capital(text: str) -> str:
    """A sentence that begins with a capital letter; a name such as race=Black stays as the data have it."""
    return text if re.match(r"\S+ ?[=<>]", text) else text[:1].upper() + text[1:]


def about(sentence: str, labels: Sequence[str]) -> str:
    return sentence.format(listed(labels))


def few(least: int, rows: str, labels: Sequence[str]) -> str:
    """Groups with fewer than ``least`` ``rows``, too few for large-sample theory."""
    return (
        f"There are fewer than {least} {rows} {listed(labels)}. Intervals and p-values rest on large-sample theory, "
        "which may not hold there."
    )


def dropped(columns: Mapping[str, int]) -> str:
    """Rows left out because a value is missing; empty if there are none."""
    shown = [f"{count(n)} with no {column!r}" for column, n in columns.items() if n]
    return f"Rows with missing values were left out: {listed(shown)}." if shown else ""


# ---- notes: what a reader must know about a result, as data; they become sentences last

Sentence = str | Callable[["Note"], str]
SENTENCES: dict[str, Sentence] = {}


@storable
@dataclass(frozen=True, slots=True)
class Note:
    """A fact for the reader: its code, the labels of the groups it is about, and the values in its sentence."""

    code: str
    groups: tuple[str, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        sentence = SENTENCES[self.code]
        if callable(sentence):
            return sentence(self)
        return sentence.format(groups=listed(self.groups), **self.values)


def register(sentences: Mapping[str, Sentence]) -> None:
    """Add a topic's sentences: text with ``{groups}`` and the note's values in braces, or a function of the note."""
    for code, sentence in sentences.items():
        if SENTENCES.setdefault(code, sentence) is not sentence:
            raise ValueError(f"two sentences for the note {code!r}")


def adjusted(p: float) -> str:
    """'adjusted p = 0.0123'; an adjusted p-value may be withheld although the p-value itself is not."""
    return "adjusted p-value withheld" if math.isnan(p) else f"adjusted {pvalue(p)}"


def note_if(code: str, groups: Sequence[str], **values: Any) -> tuple[Note, ...]:
    return (Note(code, tuple(groups), values),) if groups else ()


def without(notes: Sequence[Note], hidden: Collection[str]) -> tuple[Note, ...]:
    """The notes without the ``hidden`` groups; a note about them alone is dropped, and a last note says so.

    The groups may have entered the numbers of the other notes, which keep two digits.
    """

    def rounded(value: object) -> object:
        exact = isinstance(value, float) and math.isfinite(value) and not value.is_integer()
        return float(f"{value:.2g}") if exact else value

    left = [
        replace(
            note,
            groups=tuple(label for label in note.groups if label not in hidden),
            values={name: rounded(value) for name, value in note.values.items()},
        )
        for note in notes
    ]
    left = [new for old, new in zip(notes, left, strict=True) if new.groups or not old.groups]
    return tuple(left) if len(left) == len(notes) else (*left, Note("withheld"))


JOINT_WITHHELD = (
    "The statistic and the p-value of all groups together are withheld, because they would reveal the numbers of "
    "withheld groups."
)

register(
    {
        "dropped": lambda note: dropped(note.values),
        "like_weights": "The counts in {column!r} look like survey weights: many different, large numbers. Each line "
        "was treated as that many independent rows. If a line is one respondent, use the column as the weight instead; "
        "otherwise all errors are far too small.",
        "withheld": "Warnings about groups whose numbers are withheld are withheld too.",
        "pooled": JOINT_WITHHELD,
        "near_counts": "The rows of {groups} in this test and in another number or test of this audit ({where}) differ "
        "by fewer than {minimum:,}, the minimum for publication. What is published about both may reveal the "
        "decisions of these few people. Use the same rows, cuts and groups in all tests, or publish only one of them.",
        "same_for_all": "Everybody in {groups} has the same result in this test (0 % or 100 %), so the published rate "
        "reveals that of each member. Merge the group with another one, or do not publish it.",
        "overlapping": "Named groups may overlap with others: the numbers of a withheld group may follow by "
        "subtraction from those of {groups} and of other groups. If they do, do not publish the named groups.",
        "merged": "If the groups of one column are unions of groups of another, the numbers of a withheld group may "
        "follow from both by subtraction. In that case publish only one of the two columns, or test their "
        "intersections too.",
        "other_rows": "This audit withholds groups, and this test uses other rows, or other cuts of a column, than "
        "another test. The numbers of a withheld group may follow from both by subtraction. Use the same filters and "
        "cuts in all tests, or publish only one of them.",
        "unmet": "No row meets the condition of {names}. Check the columns and values of the condition.",
        "repeated": "Some people appear more than once: {rows:,} rows belong to {people:,} people (column {user!r}). "
        "This test assumes that rows are independent, so its errors may be too small. Name that column as the cluster "
        "of the data to measure errors between people.",
    }
)
