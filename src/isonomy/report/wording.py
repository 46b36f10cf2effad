"""Every sentence of the report, the summary and the terminal that is not a method's own."""

from __future__ import annotations

from collections.abc import Mapping

from isonomy.results import phrases

QUESTIONS = {
    "flag": "Which groups are treated differently, and is it more than chance?",
    "certify": "Taken together, are the groups treated alike, within chance or within a tolerance?",
    "project": "How little would have to change for this classifier to look fair, and for whom?",
    "improvability": "Is there an alternative that is as accurate and less unequal?",
    "treatment_bias": "Does the uplift model get some groups' effects wrong?",
    "predictive_parity": "Does a score mean the same thing for every group?",
    "marginal_outcomes": "Do the people just above the threshold have the same outcomes in every group?",
}

BADGES = {
    "violation": "Violation",
    "within_tolerance": "Within tolerance",
    "inconclusive": "Inconclusive",
    "failed": "Not answered",
}

# How each verdict is counted at the top of the report: (one, several).
TALLIES = {
    "violation": ("violation shown", "violations shown"),
    "within_tolerance": ("shown within tolerance", "shown within tolerance"),
    "inconclusive": ("inconclusive", "inconclusive"),
    "failed": ("could not be answered", "could not be answered"),
}

FAILED = "Not answered: this test stopped with an error. It says nothing for or against equal treatment."
READING = (
    (
        "Violation",
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


def column(name: str) -> str:
    """A column's heading in words; the downloaded table keeps the column's own name."""
    text = COLUMNS.get(name, name.replace("_", " "))
    return text[:1].upper() + text[1:] if not text.startswith("p‑") else text


def suppression(minimum: int) -> str:
    """What was withheld."""
    if not minimum:
        return "No numbers were withheld: this audit sets no minimum size for a published group."
    return (
        f"Numbers of groups with fewer than {minimum:,} rows are withheld in every output of this audit (primary "
        "suppression). A withheld number may still be worked out where all other groups and their total are published."
    )


def headline(tally: dict[str, int]) -> str:
    """The whole audit in one sentence."""
    total = sum(tally.values())
    asked = f"{_plural(total, 'question was', 'questions were')} put to the data: "
    parts = [f"{n} {TALLIES[verdict][n != 1]}" for verdict, n in tally.items() if n]
    return asked + phrases.listed(parts) + "." if parts else "No question was put to the data."


def shortened(shown: int, total: int) -> str:
    """A table too long for the page."""
    return f"The first {shown:,} of {total:,} lines are shown here; results.json holds all of them."


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
