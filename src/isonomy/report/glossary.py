"""What the words of a report mean: metrics and technical terms."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from isonomy.results import Question, phrases

READING = (
    (
        "Shown (a difference, a bias, unequal rates, a lower rate)",
        "The data show a difference larger than chance explains and, where a tolerance was set, larger than the "
        "tolerance. This is a statement about outcomes, not about anybody's intent. The audit file calls this verdict "
        "a violation.",
    ),
    (
        "Within tolerance",
        "The data show that any difference is smaller than the tolerance. Whoever set the tolerance judged that "
        "smaller differences do not matter.",
    ),
    (
        "Inconclusive",
        "The data show neither. Where a tolerance was set, more rows could settle the question; without one, no number "
        "of rows can show that a difference is small. " + phrases.NOT_PROOF,
    ),
    (
        "Interval",
        "The range of values that the data do not contradict. If its assumptions hold, a 95 % interval misses the true "
        "value one time in twenty. An interval covers one comparison; a simultaneous interval or band covers all the "
        "scores or groups it names, and no more. A verdict may account for further comparisons, such as every pair of "
        "groups, so an interval of any kind may leave out zero although the adjusted p-value is large and nothing was "
        "shown. With a tolerance, the test mostly concerns the nearer limit of the tolerance: a larger difference may "
        "be shown although the interval just reaches that limit.",
    ),
    ("Reference", "The group or value with which a group is compared."),
    (
        "Disfavored, favored",
        "A difference to the group's disadvantage, or to its advantage, was shown. Higher values of the metric are "
        "taken to be better, unless the metric counts errors or the audit file says otherwise.",
    ),
    (
        "Points",
        "Percentage points, the difference of two percentages: 38 % is 20 points lower than 58 %. Differences are "
        "computed before rounding, so they may deviate by 0.1 points from the difference of the rounded percentages.",
    ),
    (
        "Tolerance",
        "The largest difference that does not matter, in the judgment of whoever set it. Without a tolerance, any "
        "difference counts.",
    ),
    (
        "p-value",
        "How often chance alone would produce a difference at least this large if the stated hypothesis were true. "
        "An adjusted p-value accounts for the number of groups that were tested.",
    ),
)

# Technical words, explained in reports that use them: the text that is searched for, the term, its meaning.
TERMS = (
    ("population", "Population", "Everybody whose rows were used, including the members of the group itself."),
    ("comparator", "Comparator", "The category with which the others are compared."),
    (
        "impact ratio",
        "Impact ratio",
        "The selection rate of a category divided by that of the category it is compared with. A ratio of 0.8 means "
        "that four are selected where five of the other category are.",
    ),
    ("odds", "Odds", "The share selected divided by the share not selected."),
    ("status quo", "Status quo", "The decisions, or the algorithm, in use now. Alternatives are compared with it."),
    (
        "unfairness",
        "Unfairness in a metric",
        "The difference of the metric between the two groups compared, or between the two groups furthest apart.",
    ),
    ("uplift", "Uplift, effect", "What a treatment, such as an offer, changes in the outcome of those who receive it."),
    ("control", "Treated, control", "Those who received the treatment, and those who did not."),
    (
        "simultaneous",
        "Simultaneous",
        "Simultaneous intervals or bands, taken together, miss the truth at most as often as a single interval would.",
    ),
    ("strat", "Stratum, strata", "Rows with the same values of the factors within which groups are compared."),
    ("cluster", "Cluster", "Rows that belong together, such as those of one person, and are not independent."),
    (
        "effective number",
        "Effective number",
        "The number of equally weighted, independent rows or clusters that carry the same information as those of the "
        "group.",
    ),
    (
        "design effect",
        "Design effect",
        "The ratio of the squared error to that of the same number of independent rows of equal weight.",
    ),
    ("standard error", "Standard error", "The typical distance, by chance, of an estimate from the truth."),
    (
        "statistic",
        "Statistic, degrees of freedom",
        "The number that a test compares with what chance would produce, and the number of comparisons that went into "
        "it. They are given for statisticians; the p-value conveys the same.",
    ),
    ("likelihood", "Likelihood", "How well a hypothesis agrees with the data; the test compares two hypotheses by it."),
    (
        "wald",
        "Wald test",
        "A standard test that divides a difference by its standard error, given next to the other test as a check.",
    ),
    ("cochran", "Cochran's Q", "How much the groups differ from one another, compared with what chance would produce."),
    (
        "bandwidth",
        "Bandwidth",
        "How close two scores must be for people with these scores to be compared: estimates average over about this "
        "range.",
    ),
    ("calibrat", "Calibrating a score", "Changing the score so that it means the same chance of the outcome."),
    ("root mean square", "Root mean square", "The typical size of several numbers, with more weight on large ones."),
    (
        "false findings",
        "False findings",
        "Groups that are named although they do not differ. An adjustment for many groups limits their share.",
    ),
    ("large-sample", "Large-sample law", "A rule that becomes more accurate as the number of rows grows."),
    (
        "chi-square",
        "Chi-square limit",
        "The distribution that the test's statistic follows by chance when there are many rows.",
    ),
    (
        "found four times in five",
        "Found four times in five",
        "A difference this large would be shown in 80 % of samples.",
    ),
    ("fingerprint", "Fingerprint of the rows", "A number computed from all rows: other rows have a different one."),
    ("seed", "Seed", "The starting point of the computer's random draws. The same seed gives the same numbers."),
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


def gloss(
    question: Question,
    options: Mapping[str, object],
    names: Sequence[str] = (),
    labels: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """What the technical words of a test mean; empty if it uses none.

    ``names``: what the metrics are called in this audit, in the order of the option; ``labels``: the same by the names
    of the metrics.
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
    own = question.meaning(options) if callable(question.meaning) else question.meaning
    roles = _roles(options, " ".join([*question.speaks_of, *(GLOSSARY[word] for word in words)]))
    return " ".join(filter(None, [own, *meanings, *roles, phrases.designed(options)]))


def _headed(name: str, word: str) -> str:
    """'True positive rate (tpr)': the words of the report, and the name in the audit file."""
    return name[:1].upper() + name[1:] + ("" if name.replace(" ", "_").lower() == word else f" ({word})")


def _roles(options: Mapping[str, object], meanings: str) -> Iterator[str]:
    """What counts as selected, and as outcome 1, in this table."""
    one = 1 if options.get("positive") is None else options["positive"]
    for role, word in (("prediction", "selected"), ("outcome", "outcome 1")):
        column = options.get(role)
        if isinstance(column, str) and word in meanings:
            condition = column if " is " in column and "(" not in column else f"{column} is {one}"
            yield f"Here, {word} means that {condition}."


def reading(text: str) -> tuple[tuple[str, str], ...]:
    """How to read a report: what every report needs, then the technical words that this ``text`` uses."""
    lower = text.lower()
    return (*READING, *((term, meaning) for word, term, meaning in TERMS if word in lower))
