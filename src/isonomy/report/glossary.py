"""What the words of a report mean: metrics, headings of columns, technical terms."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from isonomy.results import phrases

READING = (
    (
        "Shown (a difference, a bias, unequal rates, a lower rate)",
        "The data show it to be larger than chance explains and, where a tolerance was set, larger than that. It is a "
        "statement about outcomes, not about anybody's intent. The audit file calls this verdict a violation.",
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
        "large and nothing was shown. Beside a tolerance the test looks mostly at its nearer edge: a larger difference "
        "may be shown although the interval just reaches that edge.",
    ),
    (
        "Reference",
        "Whom a group is compared with.",
    ),
    (
        "Disfavoured, favoured",
        "A difference to the group's disadvantage, or to its advantage, was shown. More of what the metric counts is "
        "taken to be better, unless it counts errors or the audit file says otherwise.",
    ),
    (
        "Points",
        "Percentage points, the difference of two percentages: 38 % is 20 points lower than 58 %. It is taken before "
        "rounding, and may be 0.1 points more or less than that of the rounded percentages beside it.",
    ),
    (
        "Tolerance",
        "The largest difference that whoever set it decided does not matter. Without one, any difference counts.",
    ),
    (
        "p-value",
        "How often chance alone would produce a difference at least this large if the stated hypothesis were true. "
        "An adjusted p-value allows for having looked at several groups.",
    ),
)

# Technical words, explained in reports that use them: what is looked for, the term, its meaning.
TERMS = (
    ("population", "Population", "Everybody whose rows were used, the group's own members among them."),
    ("comparator", "Comparator", "The category that the others are compared with."),
    (
        "impact ratio",
        "Impact ratio",
        "A category's selection rate divided by that of the category it is compared with: 0.8 means selected four "
        "times where the other is selected five times.",
    ),
    ("odds", "Odds", "The share selected divided by the share not selected."),
    ("status quo", "Status quo", "The decisions, or the algorithm, in use now. The alternative is compared with it."),
    (
        "unfairness",
        "Unfairness in a metric",
        "How far apart the metric is in the two groups compared, or in the two groups furthest apart.",
    ),
    ("uplift", "Uplift, effect", "What a treatment, such as an offer, changes in the outcome of those who get it."),
    ("control", "Treated, control", "Those who got the treatment, and those who did not."),
    (
        "simultaneous",
        "Simultaneous",
        "Of intervals and bands: all of them together miss the truth at most as often as one interval would alone.",
    ),
    ("strat", "Stratum, strata", "Rows that are alike in the factors to compare within."),
    ("cluster", "Cluster", "Rows that belong together, such as those of one person, and are not independent."),
    (
        "effective number",
        "Effective number",
        "How many equal and independent rows, or clusters, those of a group are worth, where some weigh more than "
        "others or belong together.",
    ),
    (
        "design effect",
        "Design effect",
        "How many times larger the squared error is than that of as many independent rows of equal weight.",
    ),
    ("standard error", "Standard error", "How far an estimate typically lies from the truth by chance."),
    (
        "statistic",
        "Statistic, degrees of freedom",
        "The number that a test compares with what chance would produce, and how many comparisons went into it. They "
        "are given for statisticians; the p-value says the same.",
    ),
    ("likelihood", "Likelihood", "How well a hypothesis agrees with the data; the test compares two hypotheses by it."),
    (
        "wald",
        "Wald test",
        "A standard test that divides a difference by its standard error, given beside the other as a check.",
    ),
    ("cochran", "Cochran's Q", "How much groups differ from one another, beside what chance would lead to."),
    (
        "bandwidth",
        "Bandwidth",
        "How near two scores must be for people with them to be compared: estimates average over about this range.",
    ),
    ("calibrat", "Calibrating a score", "Changing it so that a score means the same chance of the outcome."),
    ("root mean square", "Root mean square", "The typical size of several numbers, large ones counting more."),
    (
        "false findings",
        "False findings",
        "Groups named although they do not differ. An adjustment for many groups holds their share down.",
    ),
    ("large-sample", "Large-sample law", "A rule that holds the better the more rows there are."),
    ("chi-square", "Chi-square limit", "The law that the test's statistic follows by chance where rows are many."),
    (
        "found four times in five",
        "Found four times in five",
        "A difference this large would be shown in 80 % of samples.",
    ),
    ("fingerprint", "Fingerprint of the rows", "A number computed from all rows: other rows would have another."),
    ("seed", "Seed", "Where the computer's random draws began. The same seed gives the same numbers."),
)

GLOSSARY = {
    "balanced_accuracy": "the average of the shares that are right among those with outcome 1 and with outcome 0",
    "f1": "twice the true positives over twice the true positives plus all errors",
    "auc": "how often somebody with outcome 1 has a higher score than somebody with outcome 0",
    "rmse": "the square root of the average squared error of the prediction",
    "r2": "the share of the outcome's variance that the prediction accounts for",
    "selection_rate": "the share of people who are selected",
    "tpr": "the share selected among those with outcome 1",
    "fpr": "the share selected among those with outcome 0",
    "fnr": "the share not selected among those with outcome 1",
    "tnr": "the share not selected among those with outcome 0",
    "ppv": "the share with outcome 1 among those selected",
    "npv": "the share with outcome 0 among those not selected",
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
GLOSSARY |= {"recall": GLOSSARY["tpr"], "precision": GLOSSARY["ppv"]}

# What the words of a kind of test mean, where its options do not say it.
MEANINGS = {
    "project": "A decision's distance is how far its score (or what the file names) is from the threshold.",
    "predictive_parity": "The expected outcome at a score is the average outcome of people with that score.",
    "marginal_outcomes": "People at the margin are those whose score only just reached the threshold.",
    "improvability": "The status quo is the present rule; the alternative, or candidate, would replace it.",
}
EFFECTS = {
    "relative": "An effect is the average outcome of those treated divided by that of those not treated.",
    "difference": "An effect is the average outcome of those treated less that of those not treated.",
}
SELECTING = ("adverse_impact",)  # kinds whose sentences speak of people who are selected, whatever their options

COLUMNS = {
    "size": "Rows in group",
    "n": "Rows counted",
    "disparity": "Difference",
    "ci_low": "Interval from",
    "ci_high": "Interval to",
    "low": "Interval from",
    "high": "Interval to",
    "rate": "Selection rate",
    "comparator": "Compared with",
    "below_threshold": "Observed below the threshold",
    "difference": "Difference",
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
    "df": "Degrees of freedom",
    "pvalue": "p‑value",
    "adjusted_pvalue": "Adjusted p‑value",
    "predicted": "Predicted effect",
    "observed": "Observed effect",
    "error_se": "Error: standard error",
    "error_pvalue": "Error: p‑value",
    "bias_se": "Bias: standard error",
    "bias_pvalue": "Bias: p‑value",
    "se": "Standard error",
    "users": "People",
    "effective_n": "Effective number",
    "reference_effective_n": "Reference: effective number",
    "reference_n": "Reference: rows",
    "reference_estimate": "Reference: estimate",
    "reference_low": "Reference: from",
    "reference_high": "Reference: to",
    "error_adjusted_pvalue": "Error: adjusted p‑value",
    "critical_bias": "Smallest bias that would be shown here",
    "detectable_bias": "Bias found four times in five",
    "direction": "Favoured or disfavoured",
    "treated": "Treated rows",
    "against": "Compared with",
    "share_moved": "Would have to change",
    "mean_distance": "Average distance",
    "moved_up": "From refused to selected",
    "moved_down": "From selected to refused",
    "tolerated_low": "Tolerance from",
    "tolerated_high": "Tolerance to",
    "detectable": "Difference found four times in five",
    "rows_needed": "Rows needed to show it is within tolerance",
    "effective_clusters": "Effective number of clusters",
    "pvalue_fairness": "Fairness p‑value",
    "pvalue_accuracy": "Accuracy p‑value",
    "rate_before": "Selection rate before",
    "rate_after": "Selection rate after",
    "selected_change": "More or fewer selected",
    "selected_change_low": "More or fewer, from",
    "selected_change_high": "More or fewer, to",
    "criterion": "What is compared",
    "adjusted": "Adjusted p‑value",
    "gain": "Gain, or cut",
    "worst_pair": "Most unequal pair",
    "selected_candidate": "Selected by the alternative",
    "selected_status_quo": "Selected by the status quo",
}

_ENDS = {"se": "standard error", "low": "from", "high": "to"}  # what columns of a metric end in


def gloss(
    options: Mapping[str, object],
    names: Sequence[str] = (),
    kind: str = "",
    labels: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """What the technical words among a test's options mean; nothing where there are none.

    ``names``: what the metrics are called in this audit, in the order of the option, or ``labels``: by their names
    there; ``kind``: of the test.
    """
    words: dict[str, str] = {}
    for option in ("metric", "criterion", "accuracy", "fairness", "target"):
        given = options.get(option)
        listed = list(given) if isinstance(given, (tuple, list)) else [given]
        called = names if option == "metric" and len(names) == len(listed) else listed
        for word, name in zip(listed, called, strict=True):
            if isinstance(word, str) and word in GLOSSARY:
                words.setdefault(word, phrases.metric(labels.get(word, str(name))))
    meanings = [f"{_headed(name, word)}: {GLOSSARY[word]}." for word, name in words.items()]
    own = MEANINGS.get(kind) or EFFECTS.get(str(options.get("measure")), "")
    spoken = ["selected"] if kind in SELECTING else []
    roles = _roles(options, " ".join([*spoken, *(GLOSSARY[word] for word in words)]))
    scored = _scored(options) if kind == "equalize_thresholds" else ""
    return " ".join(filter(None, [own, *meanings, scored, *roles, phrases.designed(options)]))


def _headed(name: str, word: str) -> str:
    """'True positive rate (tpr)': the words of the report, and the name in the audit file."""
    return name[:1].upper() + name[1:] + ("" if name.replace(" ", "_").lower() == word else f" ({word})")


def _scored(options: Mapping[str, object]) -> str:
    """Who counts as selected where thresholds decide, whatever was decided."""
    score, threshold = options.get("score"), options.get("threshold")
    if not isinstance(score, str) or not isinstance(threshold, (int, float)):
        return ""
    return f"Selected means here: {score} is at the threshold or above it, at present {phrases.number(threshold)}."


def _roles(options: Mapping[str, object], meanings: str) -> Iterator[str]:
    """What counts as selected, and as outcome 1, in this table."""
    for role, said, head in (("prediction", "selected", "Selected"), ("outcome", "outcome 1", "Outcome 1")):
        column = options.get(role)
        if isinstance(column, str) and said in meanings:
            condition = " is " in column and "(" not in column
            yield f"{head} means here: {column if condition else f'{column} is {_positive(options)}'}."


def _positive(options: Mapping[str, object]) -> object:
    positive = options.get("positive")
    return 1 if positive is None else positive


def reading(text: str) -> tuple[tuple[str, str], ...]:
    """How to read a report: what every one needs, then the technical words that this ``text`` uses."""
    lower = text.lower()
    return (*READING, *((term, meaning) for word, term, meaning in TERMS if word in lower))


def column(name: str, unit: str = "", words: str = "") -> str:
    """A column's heading, in the result's ``words`` or in ours, with its unit.

    The downloaded table keeps the column's own name and numbers.
    """
    first, *others = name.split("_")
    text = words or COLUMNS.get(name) or " ".join([phrases.metric(first), *(_ENDS.get(word, word) for word in others)])
    heading = text[:1].upper() + text[1:] if not text.startswith("p‑") else text
    return f"{heading} ({unit})" if unit else heading
