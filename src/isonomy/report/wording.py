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

BADGES = {
    "violation": "Violation",
    "within_tolerance": "Within tolerance",
    "inconclusive": "Inconclusive",
    "failed": "Not answered",
}

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
}

# Verdicts in the words of their question. An alternative that exists, or a correction that helps, violates nothing.
BADGES_OF = {
    ("flag", "violation"): "Difference shown",
    ("certify", "violation"): "Difference shown",
    ("project", "violation"): "Unequal rates shown",
    ("improvability", "violation"): "Alternative shown",
    ("improvability", "inconclusive"): "No alternative shown",
    ("treatment_bias", "violation"): "Bias shown",
    ("evaluate_corrections", "violation"): "Less bias shown",
    ("evaluate_corrections", "inconclusive"): "Corrections compared",
    ("predictive_parity", "violation"): "Different meaning shown",
    ("marginal_outcomes", "violation"): "Different outcomes shown",
    ("adverse_impact", "violation"): "Lower rate shown",
    ("equalize_thresholds", "violation"): "Difference shown",
    ("composite_parity", "violation"): "Difference shown",
}
SHOWN = "shown"  # the look of a finding that is no complaint
NO_COMPLAINT = ("improvability", "evaluate_corrections")

# How each verdict is counted at the top of the report: (one, several).
TALLIES = {
    "violation": ("difference shown", "differences shown"),
    "shown": ("alternative shown", "alternatives shown"),
    "within_tolerance": ("shown within tolerance", "shown within tolerance"),
    "inconclusive": ("inconclusive", "inconclusive"),
    "failed": ("could not be answered", "could not be answered"),
}

FAILED = "Not answered: this test stopped with an error. It says nothing for or against equal treatment."
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
        "Do not report this as equal treatment. Collect more rows, or set the tolerance that matters and ask again.",
        "Read the intervals: they say which differences these data cannot rule out.",
    ),
    "failed": ("Correct what the message names, and run the audit again.",),
}
NEXT_OF = {
    ("improvability", "violation"): (
        "Have the alternative reviewed by those responsible for the model: it was found on these data and has to be "
        "tried on new ones.",
        "Record the reason if it is not adopted.",
    ),
    ("improvability", "inconclusive"): (
        "Do not report this as proof that no alternative exists: other features, rules or data may give one.",
    ),
    ("predictive_parity", "violation"): (
        "Ask whether decisions use the score with one cut-off for all: the same cut-off then means different things.",
        "Consider calibrating the score by group, where that is permitted, and repeat the test on new rows.",
    ),
    ("treatment_bias", "violation"): (
        "Do not rank people of different groups by these predicted effects before they are corrected.",
        "Check a correction on rows that it was not made from.",
    ),
    ("evaluate_corrections", "inconclusive"): (
        "Try a correction that was shown to leave less bias on new rows before it is used.",
    ),
    ("project", "violation"): (
        "Read the change that is shown as a measure of distance, not as a plan to change decisions about people.",
    ),
}

READING = (
    (
        "Difference shown (a violation)",
        "The data show a difference larger than chance explains (and, where a tolerance was set, larger than that "
        "tolerance). It is a statement about outcomes, not about anybody's intent.",
    ),
    (
        "Within tolerance",
        "The data show that any difference is smaller than the tolerance that was set. The tolerance is a judgement of "
        "whoever set it.",
    ),
    (
        "Inconclusive",
        "The data show neither. Where a tolerance was set, more rows could settle it; without one, no number of rows "
        "can show that a difference is small. " + phrases.NOT_PROOF,
    ),
    (
        "Interval",
        "The range of values the data do not contradict. A 95 % interval misses the true value one time in twenty "
        "when its assumptions hold. An interval speaks for one comparison alone; one that is called simultaneous, or a "
        "band, speaks for all the scores or groups it names, and no more. A verdict may allow for further comparisons, "
        "such as every pair of groups. So an interval of any kind may leave out zero although the adjusted p-value is "
        "large and no violation was shown.",
    ),
    (
        "p-value",
        "How often chance alone would produce a difference at least this large if the stated hypothesis were true. "
        "An adjusted p-value allows for having looked at several groups.",
    ),
)

GLOSSARY = {
    "balanced_accuracy": "the average of the shares that are right among those with outcome 1 and with outcome 0",
    "f1": "twice the true positives over twice the true positives plus all errors",
    "auc": "how often somebody with outcome 1 has a higher score than somebody with outcome 0",
    "rmse": "the square root of the average squared error of the prediction",
    "r2": "the share of the outcome's variance that the prediction accounts for",
    "selection_rate": "the share of people who are selected (prediction 1)",
    "tpr": "true positive rate, the share selected among those with outcome 1",
    "fpr": "false positive rate, the share selected among those with outcome 0",
    "fnr": "false negative rate, the share not selected among those with outcome 1",
    "tnr": "true negative rate, the share not selected among those with outcome 0",
    "ppv": "positive predictive value, the share with outcome 1 among those selected",
    "npv": "negative predictive value, the share with outcome 0 among those not selected",
    "accuracy": "the share of people for whom prediction and outcome agree",
    "false_discovery_rate": "the share with outcome 0 among those selected",
    "false_omission_rate": "the share with outcome 1 among those not selected",
    "error_rate": "the share of people for whom prediction and outcome differ",
    "mean_prediction": "the average prediction",
    "mean_error": "the average of prediction minus outcome",
    "mae": "the average distance between prediction and outcome",
    "mse": "the average squared distance between prediction and outcome",
    "brier": "the average squared distance between score and outcome",
    "log_loss": "the average logarithmic penalty of the score",
    "outcome_among_selected": "the average outcome of those selected",
    "outcome_among_unselected": "the average outcome of those not selected",
    "equal_opportunity": "equal shares selected among those with outcome 1",
    "predictive_equality": "equal shares selected among those with outcome 0",
    "equalized_odds": "equal shares selected both among those with outcome 1 and among those with outcome 0",
    "statistical_parity": "equal shares selected among all",
}

COLUMNS = {
    "group": "Group",
    "size": "Rows in group",
    "n": "Rows counted",
    "estimate": "Estimate",
    "reference": "Reference",
    "disparity": "Difference",
    "ci_low": "Interval from",
    "ci_high": "Interval to",
    "low": "Interval from",
    "high": "Interval to",
    "band_low": "Band from",
    "band_high": "Band to",
    "table": "Table",
    "selected": "Selected",
    "rate": "Selection rate",
    "impact_ratio": "Impact ratio",
    "comparator": "Compared with",
    "below_threshold": "Observed below the threshold",
    "difference_shown": "Difference shown",
    "difference": "Difference in rates",
    "shortfall": "More selections to reach the threshold",
    "shortfall_parity": "More selections to reach parity",
    "bound_low": "Ratio at least",
    "bound_high": "Ratio at most",
    "unconditional": "Without regard to factors",
    "accounted": "Accounted for by factors",
    "accounted_low": "Accounted for, from",
    "accounted_high": "Accounted for, to",
    "homogeneity_pvalue": "Same in all strata: p‑value",
    "strata": "Strata compared",
    "one_sided": "Strata with one side only",
    "statistic": "Statistic",
    "df": "Degrees of freedom",
    "pvalue": "p‑value",
    "adjusted_pvalue": "Adjusted p‑value",
    "verdict": "Verdict",
    "status": "Status",
    "predicted": "Predicted effect",
    "observed": "Observed effect",
    "error": "Error",
    "error_se": "Error: standard error",
    "error_low": "Error from",
    "error_high": "Error to",
    "error_pvalue": "Error: p‑value",
    "bias": "Bias",
    "bias_se": "Bias: standard error",
    "bias_low": "Bias from",
    "bias_high": "Bias to",
    "bias_pvalue": "Bias: p‑value",
    "pvalue_fairness": "Fairness p‑value",
    "pvalue_accuracy": "Accuracy p‑value",
}

NUMBERS = "The numbers"
NO_SCRIPT = "Charts, sorting and search need JavaScript. Every number in the charts is in the tables."


def gloss(options: Mapping[str, object]) -> str:
    """What the technical words among a test's options mean; nothing where there are none."""
    words: list[str] = []
    for option in ("metric", "criterion", "accuracy", "fairness"):
        given = options.get(option)
        for word in given if isinstance(given, (tuple, list)) else (given,):
            if isinstance(word, str) and word in GLOSSARY and word not in words:
                words.append(word)
    return " ".join(f"{word}: {GLOSSARY[word]}." for word in words)


COMPARISON = "Two audits compared"
NOT_ASKED = "Not asked"
OTHER_KIND = "Another kind of test in each audit: numbers are not compared."
SAME_ROWS = "Both audits read the same rows: verdicts are compared, and numbers can differ by the options alone."
INDEPENDENT_ROWS = (
    "Changes of numbers are judged as if the two tables were independent of one another, which the files cannot show. "
    "Where the same people are in both, a change that did not move beyond its error may still be real, and the "
    "p-values are not exact."
)


def compared(changed: int, total: int, moved: int) -> str:
    """Two audits in one sentence."""
    verdicts = f"{_plural(changed, 'verdict', 'verdicts')} of {_plural(total, 'test', 'tests')} changed"
    return f"{verdicts}; {_plural(moved, 'number', 'numbers')} moved beyond the error of both audits."


def moved(group: str, before: float, after: float, interval: tuple[float, float], adjusted: float, alpha: float) -> str:
    """A number that moved beyond its error."""
    shown, change = phrases.interval(*interval, alpha), phrases.signed(after - before)
    ends = f"from {phrases.signed(before)} to {phrases.signed(after)}"
    return f"{group}: {ends}, a change of {change} ({shown}; adjusted {phrases.pvalue(adjusted)})."


def unmoved(n: int) -> str:
    """Numbers whose change chance explains."""
    return f"{_plural(n, 'number', 'numbers')} did not move beyond the error of both audits."


def asked_differently(options: Sequence[str]) -> str:
    """Tests that cannot be compared by their numbers."""
    return f"Asked differently ({phrases.listed(list(options))}): numbers are not compared."


def other_minimum(before: int, after: int) -> str:
    """Groups that only one of the audits publishes."""
    return f"Groups below {before:,} rows were withheld in the earlier audit, below {after:,} in the later one."


def badge(kind: str, verdict: str) -> str:
    """The verdict of a test, in the words of its question."""
    return BADGES_OF.get((kind, verdict), BADGES[verdict])


def look(kind: str, verdict: str) -> str:
    """How a verdict is coloured and counted: what is shown need not be a complaint."""
    return SHOWN if verdict == "violation" and kind in NO_COMPLAINT else verdict


def next_steps(kind: str, verdict: str) -> tuple[str, ...]:
    """What to do next."""
    return NEXT_OF.get((kind, verdict), NEXT[verdict])


def column(name: str) -> str:
    """A column's heading in words; the downloaded table keeps the column's own name."""
    text = COLUMNS.get(name, name.replace("_", " "))
    return text[:1].upper() + text[1:] if not text.startswith("p‑") else text


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
    return f"The first {shown:,} of {total:,} lines are shown here; results.json holds all of them."


VAST = "The first columns are printed; the page on screen and results.json hold the others."


def printed(shown: int, total: int) -> str:
    """A table too long for paper."""
    return f"The first {shown:,} of {total:,} lines are printed; the page on screen and results.json hold the others."


def no_chart(reason: str) -> str:
    """A picture that could not be drawn."""
    return f"The picture could not be drawn ({reason}). The table holds the same numbers."


def chart_label(heading: str) -> str:
    """The picture, for those who cannot see it."""
    return f"Chart: {heading} The table below it holds the same numbers."


def more_warnings(n: int) -> str:
    """Warnings the terminal has no room for."""
    return f"{_plural(n, 'more warning', 'more warnings')} in the report."


def outcome_line(failing: int, fail_on: tuple[str, ...]) -> str:
    """Whether the audit passes its own rule."""
    rule = phrases.listed([BADGES[v].lower() for v in fail_on])
    if failing:
        return f"{_plural(failing, 'test', 'tests')} ended in a verdict this audit fails on ({rule})."
    return f"No test ended in a verdict this audit fails on ({rule})."


def _plural(n: int, one: str, several: str) -> str:
    return f"{n:,} {one if n == 1 else several}"
