"""Sentences of the report, the summary and the terminal that are composed, or used in several places; the glossary.

The meanings of metrics and technical terms are in `glossary.toml`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from importlib.resources import files
from itertools import groupby
from types import MappingProxyType
from typing import TYPE_CHECKING

from isonomy.results import Question, phrases

if TYPE_CHECKING:
    from isonomy.audit.compare import Move
    from isonomy.report.document import Document

_TEXTS = tomllib.loads((files("isonomy.report") / "glossary.toml").read_text(encoding="utf-8"))
# Words, explained in the reports that use them: the pattern that is searched for, the term, its meaning.
TERMS = tuple((e.get("word", ""), e["term"], e["meaning"]) for e in (*_TEXTS["reading"], *_TEXTS["terms"]))
GLOSSARY: dict[str, str] = _TEXTS["metrics"]

ADJUSTED = ", among comparable people"  # after the topic of a test that adjusts rates for factors
_TOPIC = 3  # metrics and groupings that a topic names

# How each verdict is counted at the top of the report: (one, several).
TALLIES = {
    "violation": ("difference shown", "differences shown"),
    "shown": ("alternative shown", "alternatives shown"),
    "within_tolerance": ("shown within tolerance", "shown within tolerance"),
    "inconclusive": ("inconclusive", "inconclusive"),
    "compared": ("comparison made", "comparisons made"),
    "failed": ("could not be answered", "could not be answered"),
}

FAILED = "Not answered: this test stopped with an error. It is no evidence for or against equal treatment."
NOTHING_TESTED = (
    "The warnings explain why nothing could be tested. The question needs larger groups, more rows or another "
    "comparison.",
)
# What a reader can do about each verdict, unless the question says otherwise.
NEXT = {
    "violation": (
        "Ask whether the difference is large enough to matter: the interval shows how large it may be.",
        phrases.WITHIN_FACTORS,
        "Have the decision rule and the recorded outcomes reviewed before drawing conclusions about causes.",
    ),
    "within_tolerance": (
        phrases.RECORD_CHOICE[0],
        "Repeat the audit when the model, the population or the data change.",
    ),
    "inconclusive": (
        "Do not report this as equal treatment: the data do not rule out a difference larger than the tolerance.",
        "Collect more rows if the question matters: the intervals show which differences these data cannot rule out.",
    ),
    "failed": ("Correct what the message names, and run the audit again.",),
}
UNTOLERANT = (
    "Do not report this as equal treatment: no difference was shown, and without a tolerance nothing more can be "
    "concluded.",
    "Decide how large a difference would matter, set it as the tolerance, and run the test again. The intervals show "
    "which differences these data cannot rule out.",
)

NUMBERS = "The numbers"
# What an adjustment of p-values for the number of groups controls.
ADJUSTMENTS = {
    "holm": "Holm's method, which limits the chance of any false finding in this question to {}",
    "bonferroni": "Bonferroni's method, which limits the chance of any false finding in this question to {}",
    "max-t": "the max-t method, which limits the chance of any false finding in this question to {}",
    "bh": "the method of Benjamini and Hochberg: on average at most {} of the findings are false",
    "by": "the method of Benjamini and Yekutieli: on average at most {} of the findings are false",
    "bh-tree": "the method of Benjamini and Hochberg, level by level: on average at most {} of the findings are false",
    "bh-siblings": "the method of Benjamini and Hochberg, among siblings: on average at most {} of the findings are "
    "false",
}
NOT_RECORDED = "not recorded"
IN_THE_REPORT = "The tables, intervals, warnings and statuses are in report.html and results.json."
NO_CHART = "The chart could not be drawn ({}). The table contains the same numbers."

COMPARISON = "Comparison of {} audits"
NOT_ASKED = "Not tested"
OTHER_OPTIONS = "The options differ ({}), so the numbers are not compared."
OTHER_MINIMUM = "The audits withheld groups below different numbers of rows: {}."
OTHER_COMPARATOR = "Numbers are not compared where the comparator differs between the audits or is withheld in either."
OTHER_KIND = "The audits run different kinds of test under this id, so the numbers are not compared."
SAME_ROWS = "Two audits read the same rows. Only verdicts are compared; numbers differ only where options do."
INDEPENDENT_ROWS = (
    "Changes are judged as if the tables were independent, which the files cannot show. If the same people are in "
    "several, the p-values are not exact, and a change that is within its error here may still be real. Audits of the "
    "same rows are recognized only if they share an output folder or the variable ISONOMY_KEY."
)
FEW_CASES = "Not compared, because the rate counts fewer than {1} rows, or all but fewer than {1}, in an audit: {0}."
SERIES = (
    "Each number is tested once, for being the same in all audits. If the comparison is repeated after every new "
    "audit, it will sooner or later report a change by chance."
)


def plural(n: int, one: str, several: str) -> str:
    return f"{n:,} {one if n == 1 else several}"


def compared(changed: int, both: int, alone: int, moved: int, numbers: int) -> str:
    """Two audits in a sentence: the tests in ``both``, and the ``numbers`` that were compared."""
    if not both:
        return "The audits have no test in common, so nothing was compared."
    verdicts = f"{f'{changed:,}' if changed else 'None'} of {both:,} verdicts changed"
    if both == 1:
        verdicts = f"The verdict {'changed' if changed else 'did not change'}"
    mover = f"{f'{moved:,}' if moved else 'none'} of {plural(numbers, 'number', 'numbers')} compared"
    numeric = f"{mover} changed by more than chance explains" if numbers else "no number was compared"
    rest = f" {plural(alone, 'test is', 'tests are')} in one audit only." if alone else ""
    return f"{verdicts}; {numeric}.{rest}"


def verdict_runs(verdicts: Sequence[str]) -> str:
    runs = [f"{verdict} ({plural(len(list(run)), 'audit', 'audits')})" for verdict, run in groupby(verdicts)]
    return f"Verdicts in order: {', '.join(runs)}."


def moved(move: Move, alpha: float) -> str:
    shown = {"points": phrases.percent, "ratio": phrases.number}.get(move.kind, phrases.signed)
    first, last, low, high = map(shown, (move.values[0], move.values[-1], min(move.values), max(move.values)))
    kind = "a ratio of " if move.kind == "ratio" else ""
    text = f"{move.group}: from {kind}{first} to {last}{' points' * (move.kind == 'points')}"
    if len(move.values) > 2:
        text += f", between {low} and {high}; not the same in all {len(move.values)} audits"
    elif move.kind == "points":
        text += f"; {phrases.apart(move.change, move.interval, alpha)}"
    else:
        size = f"{'a factor' if move.kind == 'ratio' else 'a change'} of {shown(move.change)}"
        text += f"; {size}, {phrases.interval(*move.interval, alpha)}"
    return f"{text}; adjusted {phrases.pvalue(move.adjusted)}."


def next_steps(
    question: Question,
    verdict: str,
    options: Mapping[str, object] = MappingProxyType({}),
    *,
    stopped: bool = True,
    recorded: bool = False,
) -> tuple[str, ...]:
    """Not ``stopped``: the test had nothing to test. ``recorded``: the audit says who chose its settings.

    What was already done is not suggested: a comparison within factors, a record of who chose.
    """
    if verdict == "failed" and not stopped:
        return NOTHING_TESTED
    if verdict == "inconclusive" and options.get("tolerance", True) in (None, 0) and verdict not in question.next_steps:
        return UNTOLERANT
    steps = question.next_steps.get(verdict, NEXT[verdict])
    done = {phrases.WITHIN_FACTORS: options.get("given"), **dict.fromkeys(phrases.RECORD_CHOICE, recorded)}
    return tuple(step for step in steps if not done.get(step))


def suppression(minimum: int) -> str:
    if not minimum:
        return "No numbers were withheld: this audit sets no minimum size for a published group."
    return (
        f"Numbers of groups with fewer than {minimum:,} rows are withheld in every output of this audit, together with "
        "those of groups from which they could be derived. A withheld group may be worse off than every group shown."
    )


def headline(tally: Mapping[str, int], tests: int = 0) -> str:
    """The verdicts in a sentence; ``tests``: how many tests there are, several of which may ask one question."""
    total = sum(tally.values())
    parts = [f"{n} {TALLIES[verdict][n != 1]}" for verdict, n in tally.items() if n]
    if not parts:
        return "Nothing was tested."
    asked = f"asked in {tests:,} tests" if tests > total else "tested"
    return f"{plural(total, 'question was', 'questions were')} {asked}: {phrases.listed(parts)}."


def constant(columns: Collection[tuple[str, str]]) -> str:
    return f"The same in every line: {phrases.listed([': '.join(pair) for pair in columns], len(columns))}."


def topic(question: Question, metrics: Sequence[str], groups: Sequence[str]) -> str:
    """What a test is about, in a few words: 'Selection rate by race and sex'."""
    what = phrases.listed([phrases.noun(metric) for metric in metrics], _TOPIC) or "rates"
    by = f" by {phrases.listed(groups, _TOPIC)}" if groups else ""
    text = question.topic.format(what, by=by)
    return f"{text[:1].upper()}{text[1:]}{'' if '{by}' in question.topic else by}" if text else ""


def chart_label(heading: str) -> str:
    """The chart, for those who cannot see it."""
    end = "" if heading.endswith((".", "?", "!", "…")) else "."
    return f"Chart: {heading}{end} The table below it contains the same numbers."


def exit_reason(code: int, document: Document) -> str:
    """Why the command ends with a code other than 0, and which tests decided that."""
    if code == 1:
        return f"Exit code 1. {outcome_line(document)}"
    unanswered = [entry.name for entry in document.entries if entry.fault]
    return f"Exit code {code}. Not answered: {phrases.listed(unanswered)}."


def outcome_line(document: Document) -> str:
    """Which tests ended in something that makes the audit fail, and in what."""
    rules = document.fail_on
    named = {rule: [entry.name for entry in document.entries if rule in entry.failures(rules)] for rule in rules}
    parts = [f"{plural(len(at), *_ENDS[rule])} ({phrases.listed(at)})" for rule, at in named.items() if at]
    if parts:
        return f"This audit fails because of {' and '.join(parts)}."
    return f"No test has a result on which this audit fails ({phrases.listed([_ENDS[rule][0] for rule in rules])})."


_ENDS = {
    "violation": ("violation", "violations"),
    "within_tolerance": ("verdict within tolerance", "verdicts within tolerance"),
    "inconclusive": ("inconclusive verdict", "inconclusive verdicts"),
    "alarm": ("alarm in the last batch", "alarms in the last batch"),
}


# ---- the glossary


def gloss(
    question: Question,
    options: Mapping[str, object],
    names: Sequence[str] = (),
    labels: Mapping[str, str] = MappingProxyType({}),
    chosen: str = "selected",
) -> str:
    """What the technical words of a test mean; empty if it uses none.

    ``names``: what the metrics are called in this audit, in the order of the option; ``labels``: the same by the names
    of the metrics; ``chosen``: what people with decision 1 are called.
    """
    words: dict[str, str] = {}
    for option in ("metric", "criterion", "accuracy", "fairness", "target"):
        given = options.get(option)
        listed = list(given) if isinstance(given, (tuple, list)) else [given]
        called = names if option == "metric" and len(names) == len(listed) else listed
        for word, name in zip(listed, called, strict=True):
            if isinstance(word, str) and word in GLOSSARY:
                words.setdefault(word, phrases.metric(labels.get(word, str(name))))
    # 'True positive rate (tpr)': the words of the report, and the name in the audit file.
    named = {word: "" if name.replace(" ", "_").lower() == word else f" ({word})" for word, name in words.items()}
    explained = {word: GLOSSARY[word].replace("selected", chosen) for word in words}
    meanings = [f"{name[:1].upper()}{name[1:]}{named[word]}: {explained[word]}." for word, name in words.items()]
    meaning = question.meaning(options) if callable(question.meaning) else question.meaning
    meaning = meaning.replace("selected means", f"{chosen} means")
    roles = list(_roles(options, " ".join([*question.speaks_of, *(GLOSSARY[word] for word in words)]), chosen))
    here = f"Here, {', and '.join(roles)}." if roles else ""
    return " ".join(filter(None, [meaning, *meanings, here, adjusted(options), phrases.designed(options)]))


def adjusted(options: Mapping[str, object]) -> str:
    """By which method p-values are adjusted; empty if they are not, or if the question has a method of its own."""
    rate, alpha = ADJUSTMENTS.get(str(options.get("adjust"))), options.get("alpha")
    if rate is None or not isinstance(alpha, (int, float)):
        return ""
    return f"P-values are adjusted by {rate.format(f'{100 * alpha:g} %')}."


def _roles(options: Mapping[str, object], meanings: str, chosen: str) -> Iterator[str]:
    one = 1 if options.get("positive") is None else options["positive"]
    for role, word in (("prediction", "selected"), ("outcome", "outcome 1")):
        column = options.get(role)
        if isinstance(column, str) and word in meanings:
            condition = column if " is " in column and "(" not in column else f"the column {column!r} is {one}"
            yield f"{chosen if word == 'selected' else word} means that {condition}"


def reading(text: str) -> tuple[tuple[str, str], ...]:
    """How to read a report: what every report needs, and the words that this ``text`` uses."""
    lower = text.lower()
    return tuple((term, meaning) for word, term, meaning in TERMS if not word or re.search(rf"\b(?:{word})", lower))
