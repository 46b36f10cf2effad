"""Every sentence of the report, the summary and the terminal that is not a method's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from isonomy.results import phrases

QUESTIONS = {
    "flag": "Which groups are treated differently, and is it more than chance?",
    "certify": "Taken together, are the groups treated alike, within chance or within a tolerance?",
    "adverse_impact": "How often is each category selected beside the one selected most often?",
    "project": "How little would have to change for this classifier to look fair, and for whom?",
    "improvability": "Is there an alternative that is as accurate and less unequal?",
    "treatment_bias": "Does the uplift model get some groups' effects wrong?",
    "evaluate_corrections": "Is less bias left after correcting the predicted effects?",
    "price_of_fairness": "What do corrections of group effects cost in the ranking of persons?",
    "predictive_parity": "Does a score mean the same thing for every group?",
    "composite_parity": "Does every weighted sum of these scores mean the same thing for every group?",
    "marginal_outcomes": "Do the people just above the threshold have the same outcomes in every group?",
    "equalize_thresholds": "Which thresholds would treat every group alike, and what would they cost?",
}

# What a test is called that has no title; {} stands for its metrics.
TOPICS = {
    "flag": "{}",
    "certify": "{}",
    "adverse_impact": "Impact ratios",
    "project": "Least change to equal rates",
    "improvability": "A less unequal alternative",
    "treatment_bias": "Errors of predicted effects",
    "evaluate_corrections": "Corrections of predicted effects",
    "price_of_fairness": "Price of corrections",
    "predictive_parity": "Meaning of the score",
    "composite_parity": "Meaning of weighted scores",
    "marginal_outcomes": "Outcomes at the threshold",
    "equalize_thresholds": "Thresholds",
}
_TOPIC = 3  # metrics and groupings that a topic names

# Verdicts on single groups, and why a group has none.
MARKS = {
    "violation": "Shown",
    "within_tolerance": "Within tolerance",
    "inconclusive": "Inconclusive",
    "ok": "Tested",
    "reference": "Compared with",
    "too_small": "Too few rows",
    "suppressed": "Withheld",
    "constant": "No variation",
    "empty": "No rows",
    "few_clusters": "Too few clusters",
    "few_events": "Too few events",
    "skewed": "Too few rows for extreme values",
    "unsupported": "Too few rows",
    "extrapolated": "Continued beyond the data",
    "infeasible": "Cannot be reached",
    "no_treated": "Nobody treated",
    "no_control": "Everybody treated",
    "zero_baseline": "Compared with nothing",
    "outside_range": "Outside the data's range",
    "unbounded": "Interval without end",
    "not_converged": "Not computed to the end",
    "atoms": "Many equal scores",
    "time_limit": "Stopped by the time limit",
    "failed": "Stopped with an error",
}

SHOWN = "shown"  # the look of a finding that is no complaint
NO_COMPLAINT = ("improvability", "evaluate_corrections")
COMPARED = "compared"  # the look of numbers beside one another, of which none is to be shown
COMPARISONS = ("evaluate_corrections", "price_of_fairness")

# How each verdict is counted at the top of the report: (one, several).
TALLIES = {
    "violation": ("difference shown", "differences shown"),
    "shown": ("alternative shown", "alternatives shown"),
    "within_tolerance": ("shown within tolerance", "shown within tolerance"),
    "inconclusive": ("inconclusive", "inconclusive"),
    "compared": ("comparison made", "comparisons made"),
    "failed": ("could not be answered", "could not be answered"),
}

FAILED = "Not answered: this test stopped with an error. It says nothing for or against equal treatment."
NOTHING_TESTED = (
    "Read the warnings: they say why nothing could be tested. Larger groups, more rows or another question are needed.",
)
# What a reader can do about each verdict; the words of a kind of test where they differ.
NEXT = {
    "violation": (
        "Ask whether the difference is large enough to matter: the interval says how large it may be.",
        "Look for what the groups differ in that the decision may rightly use, and compare within it.",
        "Have the decision rule and the recorded outcomes reviewed before drawing a conclusion about causes.",
    ),
    "within_tolerance": (
        "Record who chose the tolerance and why: the conclusion is only as good as that choice.",
        "Repeat the audit when the model, the population or the data change.",
    ),
    "inconclusive": (
        "Do not report this as equal treatment: it was neither shown that groups differ by more than the tolerance nor "
        "that they do not.",
        "Collect more rows if the question matters: the intervals say which differences these data cannot rule out.",
    ),
    "failed": ("Correct what the message names, and run the audit again.",),
}
UNTOLERANT = (
    "Do not report this as equal treatment: no difference was shown, and without a tolerance that is all it can mean.",
    "Decide how large a difference would matter, set it as the tolerance and ask again. The intervals say which "
    "differences these data cannot rule out.",
)
_MEANING = (
    "Ask whether decisions use the score with one cut-off for all: the same cut-off then means different things.",
    "Consider calibrating the score by group, where that is permitted, and repeat the test on new rows.",
)
NEXT_OF = {
    ("adverse_impact", "violation"): (
        "Have the selection of the categories named reviewed, with counsel: what the law makes of a ratio is not a "
        "statistical question.",
        "Ask whether what was selected for is needed, and whether another way of selecting would differ less.",
        "Compare within what the selection may rightly use, such as the job applied for.",
    ),
    ("adverse_impact", "within_tolerance"): (
        "Record who chose the threshold and why: it is a custom, not the law's.",
        "Repeat the table for the next period, and for every stage of the selection.",
    ),
    ("adverse_impact", "inconclusive"): (
        "Do not report this as equal treatment. An observed ratio below the threshold is one, even where chance can "
        "explain it.",
        "Take several periods together if the categories are small.",
    ),
    ("project", "violation"): (
        "Read the change that is shown as a measure of distance, not as a plan to change decisions about people.",
        "Have the groups whose rates differ, and what the decision is based on, reviewed.",
    ),
    ("improvability", "violation"): (
        "Have the alternative reviewed by those responsible for the model: it was found on these data and has to be "
        "tried on new ones.",
        "Record the reason if it is not adopted.",
    ),
    ("improvability", "inconclusive"): (
        "Do not report this as proof that no alternative exists: other features, rules or data may give one.",
        "Record which alternatives were looked for, and how.",
    ),
    ("treatment_bias", "violation"): (
        "Do not rank people of different groups by these predicted effects before they are corrected.",
        "Check a correction on rows that it was not made from.",
    ),
    ("evaluate_corrections", "inconclusive"): (
        "Use no correction because of this comparison alone: try the one with the least bias left on new rows first.",
    ),
    ("price_of_fairness", "inconclusive"): (
        "Weigh what the ranking gains or loses against the bias that a correction removes: that is a judgement.",
    ),
    ("predictive_parity", "violation"): _MEANING,
    ("composite_parity", "violation"): _MEANING,
    ("marginal_outcomes", "violation"): (
        "Ask why people who were only just accepted do better in one group than in another: it may be held to a higher "
        "standard.",
        "Have the threshold, and what the score leaves out, reviewed.",
    ),
    ("equalize_thresholds", "violation"): (
        "Take counsel before thresholds are changed by group: it may be unlawful. A corrected score with one threshold "
        "can have the same effect.",
        "Try the thresholds on new rows before they are used.",
    ),
    ("equalize_thresholds", "inconclusive"): (
        "Keep one threshold for all: no difference was shown that would call for others. That is not proof of equal "
        "treatment.",
    ),
}

NUMBERS = "The numbers"
IN_THE_REPORT = (
    "Tables, intervals, warnings and statuses that these sentences speak of are in the audit's report.html and "
    "results.json."
)
NO_SCRIPT = "Charts, sorting and search need JavaScript. Every number in the charts is in the tables."


COMPARISON = "Two audits compared"
NOT_ASKED = "Not asked"
VERDICTS_ALONE = "Verdicts are compared; the numbers of this kind of test are not."
WEIGHTED_RATIOS = "Verdicts are compared; impact ratios by weight are not."
OTHER_COMPARATOR = "Ratios to another category than before, or of one withheld in either audit, are not compared."
OTHER_KIND = "Another kind of test in each audit: numbers are not compared."
SAME_ROWS = "Both audits read the same rows: verdicts are compared, and numbers can differ by the options alone."
INDEPENDENT_ROWS = (
    "Changes of numbers are judged as if the two tables were independent of one another, which the files cannot show. "
    "Where the same people are in both, a change that did not move beyond its error may still be real, and the "
    "p-values are not exact."
)


def compared(changed: int, both: int, alone: int, moved: int, numbers: int) -> str:
    """Two audits in short: verdicts of tests asked in ``both``, and ``numbers`` that were compared."""
    if not both:
        return "No test was asked in both audits: nothing was compared."
    verdicts = _plural(changed, "verdict", "verdicts") if changed else "No verdict"
    mover = _plural(moved, "number", "numbers") if moved else "no number"
    told = f"{mover} moved beyond the error of both audits" if numbers else "no number was compared"
    rest = f" {_plural(alone, 'test was', 'tests were')} asked in one audit alone." if alone else ""
    return f"{verdicts} of {_plural(both, 'test', 'tests')} changed; {told}.{rest}"


def moved(
    group: str,
    before: float,
    after: float,
    change: float,
    interval: tuple[float, float],
    adjusted: float,
    alpha: float,
    *,
    kind: str = "",
) -> str:
    """A number that moved beyond its error; ``kind``: "points" for differences of shares, "ratio", or another."""
    if kind == "points":
        ends = f"from {_signed_points(before)} to {_signed_points(after)} points"
        told = phrases.apart(change, interval, alpha)
    elif kind == "ratio":
        ends = f"from a ratio of {phrases.number(before)} to {phrases.number(after)}"
        told = f"a factor of {phrases.number(change)}, {phrases.interval(*interval, alpha)}"
    else:
        ends = f"from {phrases.signed(before)} to {phrases.signed(after)}"
        told = f"a change of {phrases.signed(change)}, {phrases.interval(*interval, alpha)}"
    return f"{group}: {ends}; {told}; adjusted {phrases.pvalue(adjusted)}."


def _signed_points(value: float) -> str:
    return f"{'+' if value >= 0 else ''}{phrases.percent(value)}"


def unmoved(n: int) -> str:
    """Numbers whose change chance explains."""
    return f"{_plural(n, 'number', 'numbers')} did not move beyond the error of both audits."


def asked_differently(options: Sequence[str]) -> str:
    """Tests that cannot be compared by their numbers."""
    return f"Asked differently ({phrases.listed(list(options))}): numbers are not compared."


def other_minimum(before: int, after: int) -> str:
    """Groups that only one of the audits publishes."""
    return f"Groups below {before:,} rows were withheld in the earlier audit, below {after:,} in the later one."


def look(kind: str, verdict: str) -> str:
    """How a verdict is coloured and counted: what is shown need not be a complaint."""
    if verdict == "inconclusive" and kind in COMPARISONS:
        return COMPARED
    return SHOWN if verdict == "violation" and kind in NO_COMPLAINT else verdict


def next_steps(kind: str, verdict: str, *, tolerant: bool = True, stopped: bool = True) -> tuple[str, ...]:
    """What to do next.

    Not ``tolerant``: a tolerance could be set, and none was. Not ``stopped``: the test came to its end, and had nothing
    it could test.
    """
    if verdict == "failed" and not stopped:
        return NOTHING_TESTED
    if verdict == "inconclusive" and not tolerant and (kind, verdict) not in NEXT_OF:
        return UNTOLERANT
    return NEXT_OF.get((kind, verdict), NEXT[verdict])


def suppression(minimum: int) -> str:
    """What was withheld."""
    if not minimum:
        return "No numbers were withheld: this audit sets no minimum size for a published group."
    return (
        f"Numbers of groups with fewer than {minimum:,} rows are withheld in every output of this audit, and with them "
        "those of groups from which they could be worked out."
    )


def headline(tally: Mapping[str, int]) -> str:
    """The whole audit in one sentence."""
    total = sum(tally.values())
    asked = f"{_plural(total, 'question was', 'questions were')} put to the data: "
    parts = [f"{n} {TALLIES[verdict][n != 1]}" for verdict, n in tally.items() if n]
    return asked + phrases.listed(parts) + "." if parts else "No question was put to the data."


def shortened(shown: int, total: int) -> str:
    """A table too long for the page."""
    return f"The first {shown:,} of {total:,} lines are shown here; results.json holds the other {total - shown:,}."


def printed(shown: int, total: int) -> str:
    """A table too long for paper."""
    more = total - shown
    return f"The first {shown:,} of {total:,} lines are printed; {more:,} more are in results.json and on the screen."


def constant(columns: Sequence[tuple[str, str]]) -> str:
    """Columns of a long table that are the same in every line."""
    same = [f"{heading}: {value}" for heading, value in columns]
    return f"The same in every line: {phrases.listed(same, len(same))}."


def no_chart(reason: str) -> str:
    """A picture that could not be drawn."""
    return f"The picture could not be drawn ({reason}). The table holds the same numbers."


def topic(kind: str, metrics: Sequence[str], groups: Sequence[str]) -> str:
    """What a test is about, in a few words: 'Selection rate by race and sex'; nothing for an unknown kind."""
    what = phrases.listed([phrases.noun(metric) for metric in metrics], _TOPIC) or "rates"
    text = TOPICS.get(kind, "").format(what)
    by = f" by {phrases.listed(groups, _TOPIC)}" if groups and text else ""
    together = ", taken together" if kind == "certify" else ""
    return f"{text[:1].upper()}{text[1:]}{by}{together}"


def chart_label(heading: str) -> str:
    """The picture, for those who cannot see it."""
    end = "" if heading.endswith((".", "?", "!", "…")) else "."
    return f"Chart: {heading}{end} The table below it holds the same numbers."


def more_warnings(n: int) -> str:
    """Warnings the terminal has no room for."""
    return f"{_plural(n, 'more warning', 'more warnings')} in the report."


def outcome_line(failing: int, fail_on: tuple[str, ...]) -> str:
    """Whether the audit passes its own rule."""
    rule = phrases.listed([verdict.replace("_", " ") for verdict in fail_on])
    if failing:
        return f"{_plural(failing, 'test', 'tests')} ended in a verdict this audit fails on ({rule})."
    return f"No test ended in a verdict this audit fails on ({rule})."


def _plural(n: int, one: str, several: str) -> str:
    return f"{n:,} {one if n == 1 else several}"
