"""Every sentence of the report, the summary and the terminal that does not belong to a question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from isonomy.results import Question, phrases

if TYPE_CHECKING:
    from isonomy.audit.compare import Move

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
        "Look for legitimate factors in which the groups differ, and compare within them.",
        "Have the decision rule and the recorded outcomes reviewed before drawing conclusions about causes.",
    ),
    "within_tolerance": (
        "Record who chose the tolerance and why: the conclusion is only as good as that choice.",
        "Repeat the audit when the model, the population or the data change.",
    ),
    "inconclusive": (
        "Do not report this as equal treatment: the data show neither that the groups differ by more than the "
        "tolerance nor that they do not.",
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
IN_THE_REPORT = "The tables, intervals, warnings and statuses are in report.html and results.json."
NO_SCRIPT = "Charts, sorting and search need JavaScript. The tables contain every number in the charts."

COMPARISON = "Comparison of two audits"
NOT_ASKED = "Not tested"
OTHER_COMPARATOR = "Numbers are not compared where the comparator differs between the audits or is withheld in either."
OTHER_KIND = "The audits run different kinds of test under this id, so the numbers are not compared."
SAME_ROWS = "Both audits read the same rows. Only verdicts are compared; numbers differ only where options do."
INDEPENDENT_ROWS = (
    "Changes are judged as if the two tables were independent, which the files cannot show. If the same people are in "
    "both, the p-values are not exact, and a change that is within its error here may still be real."
)


def compared(changed: int, both: int, alone: int, moved: int, numbers: int) -> str:
    """Two audits in a sentence: the tests in ``both``, and the ``numbers`` that were compared."""
    if not both:
        return "The audits have no test in common, so nothing was compared."
    verdicts = _plural(changed, "verdict", "verdicts") if changed else "No verdict"
    mover = _plural(moved, "number", "numbers") if moved else "no number"
    numeric = f"{mover} changed by more than chance explains" if numbers else "no number was compared"
    rest = f" {_plural(alone, 'test is', 'tests are')} in one audit only." if alone else ""
    return f"{verdicts} of {_plural(both, 'test', 'tests')} changed; {numeric}.{rest}"


def moved(move: Move, alpha: float) -> str:
    """A number that changed by more than its error."""
    before, after, change = move.before, move.after, move.change
    if move.kind == "points":
        ends = " to ".join(f"{'+' if value >= 0 else ''}{phrases.percent(value)}" for value in (before, after))
        text = f"from {ends} points; {phrases.apart(change, move.interval, alpha)}"
    elif move.kind == "ratio":
        factor = f"a factor of {phrases.number(change)}, {phrases.interval(*move.interval, alpha)}"
        text = f"from a ratio of {phrases.number(before)} to {phrases.number(after)}; {factor}"
    else:
        size = f"a change of {phrases.signed(change)}, {phrases.interval(*move.interval, alpha)}"
        text = f"from {phrases.signed(before)} to {phrases.signed(after)}; {size}"
    return f"{move.group}: {text}; adjusted {phrases.pvalue(move.adjusted)}."


def unmoved(n: int) -> str:
    """Numbers whose change chance explains."""
    return f"{_plural(n, 'number', 'numbers')} did not change by more than chance explains."


def asked_differently(options: Sequence[str]) -> str:
    """Tests that cannot be compared by their numbers."""
    return f"The options differ ({phrases.listed(list(options))}), so the numbers are not compared."


def other_minimum(before: int, after: int) -> str:
    """Groups that only one of the audits publishes."""
    return f"The earlier audit withheld groups below {before:,} rows, the later one groups below {after:,} rows."


def next_steps(question: Question, verdict: str, *, tolerant: bool = True, stopped: bool = True) -> tuple[str, ...]:
    """What to do next.

    Not ``tolerant``: a tolerance could be set, and none was. Not ``stopped``: the test ended normally, and had nothing
    it could test.
    """
    if verdict == "failed" and not stopped:
        return NOTHING_TESTED
    if verdict == "inconclusive" and not tolerant and verdict not in question.next_steps:
        return UNTOLERANT
    return question.next_steps.get(verdict, NEXT[verdict])


def suppression(minimum: int) -> str:
    """What was withheld."""
    if not minimum:
        return "No numbers were withheld: this audit sets no minimum size for a published group."
    return (
        f"Numbers of groups with fewer than {minimum:,} rows are withheld in every output of this audit, together with "
        "those of groups from which they could be derived."
    )


def headline(tally: Mapping[str, int]) -> str:
    """The whole audit in one sentence."""
    total = sum(tally.values())
    parts = [f"{n} {TALLIES[verdict][n != 1]}" for verdict, n in tally.items() if n]
    if not parts:
        return "Nothing was tested."
    return f"{_plural(total, 'question was', 'questions were')} tested: {phrases.listed(parts)}."


def shortened(shown: int, total: int) -> str:
    """A table too long for the page."""
    return f"The first {shown:,} of {total:,} lines are shown here; results.json contains the other {total - shown:,}."


def printed(shown: int, total: int) -> str:
    """A table too long for paper."""
    more = total - shown
    return f"The first {shown:,} of {total:,} lines are printed; the other {more:,} are in results.json and on screen."


def constant(columns: Sequence[tuple[str, str]]) -> str:
    """Columns of a long table that are the same in every line."""
    same = [f"{heading}: {value}" for heading, value in columns]
    return f"The same in every line: {phrases.listed(same, len(same))}."


def no_chart(reason: str) -> str:
    """A chart that could not be drawn."""
    return f"The chart could not be drawn ({reason}). The table contains the same numbers."


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


def more_warnings(n: int) -> str:
    """Warnings the terminal has no room for."""
    return f"{_plural(n, 'more warning is', 'more warnings are')} in the report."


def outcome_line(failing: int, fail_on: tuple[str, ...]) -> str:
    """Whether the audit passes its own rule."""
    rule = phrases.listed([verdict.replace("_", " ") for verdict in fail_on])
    tests = _plural(failing, "test", "tests") if failing else "No test"
    return f"{tests} ended in a verdict on which this audit fails ({rule})."


def _plural(n: int, one: str, several: str) -> str:
    return f"{n:,} {one if n == 1 else several}"
