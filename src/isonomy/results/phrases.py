"""Phrases shared by all methods: numbers, p-values, verdicts, the layout of a summary."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence

CLUSTERS_TOLD = 5  # groups whose clusters are told in words
_TOLD = 50  # findings of a summary; a report has them all
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1b\x7f-\x9f\ud800-\udfff\ufffe\uffff]")

# A verdict in the words of its question: on a report's chip, and before the headline. An alternative that exists, or a
# correction that helps, violates nothing.
BADGES = {
    "violation": "Difference shown",
    "within_tolerance": "Within tolerance",
    "inconclusive": "Inconclusive",
    "failed": "Not answered",
}
BADGES_OF = {
    ("project", "violation"): "Unequal rates shown",
    ("improvability", "violation"): "Alternative shown",
    ("improvability", "inconclusive"): "No alternative shown",
    ("treatment_bias", "violation"): "Bias shown",
    ("evaluate_corrections", "violation"): "Less bias shown",
    ("evaluate_corrections", "inconclusive"): "Corrections compared",
    ("price_of_fairness", "inconclusive"): "Price measured",
    ("predictive_parity", "violation"): "Different meaning shown",
    ("composite_parity", "violation"): "Different meaning shown",
    ("marginal_outcomes", "violation"): "Different outcomes shown",
    ("adverse_impact", "violation"): "Lower rate shown",
}

# What follows the badge in a headline.
VERDICTS = {
    "violation": "the groups differ by more than chance explains.",
    "within_tolerance": "any difference was shown to be smaller than the tolerance.",
    "inconclusive": "the data show neither a difference nor that any difference is within the tolerance.",
}
VERDICTS_OF = {
    ("project", "violation"): "the groups are selected at different rates, by more than chance explains.",
    ("improvability", "violation"): "one that is at least as accurate and less unequal exists.",
    ("improvability", "inconclusive"): "none that is at least as accurate and less unequal was shown to exist. Another "
    "search might find one.",
    ("treatment_bias", "violation"): "the predicted effects of some groups are wrong by more than those of others.",
    ("predictive_parity", "violation"): "the same score means different things in different groups, or higher scores "
    "mean lower outcomes.",
    ("composite_parity", "violation"): "a weighted sum of the scores means different things in different groups.",
    ("marginal_outcomes", "violation"): "people at the threshold have different outcomes in different groups.",
    ("adverse_impact", "violation"): "an impact ratio is below the threshold, by more than chance explains.",
    ("adverse_impact", "within_tolerance"): "every impact ratio was shown to be at least the threshold.",
    ("adverse_impact", "inconclusive"): "of at least one category these data do not show whether its impact "
    "ratio is below the threshold.",
}

# What metrics are called in a sentence, where nobody has given them words of their own.
METRICS = {
    "selection_rate": "selection rate",
    "tpr": "true positive rate",
    "fpr": "false positive rate",
    "fnr": "false negative rate",
    "tnr": "true negative rate",
    "ppv": "positive predictive value",
    "npv": "negative predictive value",
    "false_discovery_rate": "false discovery rate",
    "false_omission_rate": "false omission rate",
    "error_rate": "error rate",
    "mean_prediction": "average prediction",
    "mean_error": "average error",
    "mae": "average absolute error",
    "mse": "average squared error",
    "rmse": "root mean squared error",
    "brier": "Brier score",
    "log_loss": "logarithmic loss",
    "balanced_accuracy": "balanced accuracy",
    "f1": "F1 score",
    "auc": "area under the ROC curve",
    "r2": "share of variance explained",
    "outcome_among_selected": "outcome among those selected",
    "outcome_among_unselected": "outcome among those not selected",
    "equal_opportunity": "equal opportunity",
    "predictive_equality": "predictive equality",
    "equalized_odds": "equalized odds",
    "statistical_parity": "statistical parity",
}

NOT_PROOF = "A large p-value is not evidence of equal treatment: it means that these data could not tell."
# How somebody's own words for a metric end where they name a number, and irregular participles they may begin with.
_MEASURES = ("rate", "share", "value", "score", "amount", "percentage", "number", "count")
_PARTICIPLE = re.compile(
    r"(re|un|mis|over|under|with|for)?"
    r"(chosen|drawn|found|given|held|kept|left|let|lost|made|met|paid|put|sent|shown|sold|taken|told|won)"
)
BY_WEIGHT = " (by weight)"  # after a share or an average in which rows count by their weights
UNANSWERED = "This says nothing for or against equal treatment."
# Why a group has no answer, where that is all its status says.
REASONS = {
    "reference": "everybody compared is in one group, which leaves nothing to compare it with",
    "empty": "no row counts in any group",
    "too_small": "every group has fewer rows than a test needs",
    "constant": "within each group every row has the same value, so that chance cannot be judged",
    "suppressed": "every group is smaller than this audit publishes",
}
ALONE = "one group alone has enough rows, which leaves nothing to compare it with"
MERGED = (
    "If groups of one column are those of another put together, the numbers of a withheld group may follow from both "
    "by subtraction. Publish one of the two columns then, or ask for intersections too, which are looked at together."
)
WITHHELD_WARNINGS = "Warnings about groups whose numbers are withheld are withheld with them."
OTHER_ROWS = (
    "This audit withholds groups, and this test looks at other rows, or cuts a column elsewhere, than another test: "
    "the numbers of a withheld group may follow from both by subtraction. Give all tests the same filters and cuts, or "
    "publish one of them."
)
UNTOLERANT = (
    "no difference was shown. Without a tolerance that is all it can mean: no number of rows can show that groups are "
    "equal."
)

# Assumptions of several methods.
UNCHECKED = "Cannot be checked from the table."
INDEPENDENT = (
    "Rows are independent of one another.",
    "Cannot be checked from the table: repeated people or clusters break it, and intervals are then too short.",
)


def rows_assumed(weight: object, cluster: object) -> tuple[str, str]:
    """What is assumed of the rows: that they are independent, or that clusters of them are."""
    if cluster is not None:
        return (
            f"Rows with the same {cluster!r} belong together, and those with different ones are independent.",
            "The error is measured between them; it cannot be checked that nothing connects them.",
        )
    if weight is None:
        return INDEPENDENT
    return (INDEPENDENT[0], f"The error counts that the weights in {weight!r} differ. {INDEPENDENT[1]}")


def designed(options: Mapping[str, object], clusters: Sequence[tuple[str, int, float]] = ()) -> str:
    """How rows stand for people in every number of a result; nothing where each is one person of its own.

    ``clusters``: of each group, and how many of equal size they are worth.
    """
    count, weight, cluster = (options.get(name) for name in ("count", "weight", "cluster"))
    sentences = [
        f"Each line of the table stands for as many rows as {count} says." if count else "",
        f"Every share and average counts each row by its weight, the column {weight}; numbers of rows are without "
        "weights."
        if weight
        else "",
        f"Rows with the same {cluster} belong together, and every error allows for that." if cluster else "",
        _worth(clusters, "clusters" if cluster else "rows") if clusters else "",
    ]
    return " ".join(filter(None, sentences))


def _worth(clusters: Sequence[tuple[str, int, float]], what: str) -> str:
    """The groups with the fewest effective clusters, and how many these are."""
    fewest = sorted(clusters, key=lambda group: group[2])[:CLUSTERS_TOLD]
    each = [f"{group} has {number:,} {what}, worth {worth:,.1f} of equal weight" for group, number, worth in fewest]
    among = "" if len(clusters) <= CLUSTERS_TOLD else f", the fewest of {len(clusters):,} groups"
    return f"{'; '.join(each)}{among}."


SAMPLE = ("Rows are a sample of the population the conclusion is about.", UNCHECKED)


def unanswered(statuses: Iterable[str]) -> str:
    """That nothing could be tested, and why."""
    distinct = set(statuses)
    alone = ALONE if distinct == {"reference", "too_small"} else ""
    known = REASONS.get(min(distinct), "") if len(distinct) == 1 else alone
    why = known or "no group could be tested; the warnings and the table's statuses say why"
    return f"Not answered: {why}. {UNANSWERED}"


def verdict(call: str, name: str, *, tolerant: bool = True, beyond: bool = False) -> str:
    """A verdict of a kind of test, in a sentence.

    Not ``tolerant``: a tolerance could be set, and none was; ``beyond``: one was, and it is what groups differ by.
    """
    untold = name == "inconclusive" and not tolerant
    sentence = UNTOLERANT if untold else VERDICTS_OF.get((call, name), VERDICTS[name])
    if beyond:
        sentence = sentence.replace(
            "by more than chance explains", "by more than the tolerance, beyond what chance explains"
        )
    return headed(call, name, sentence)


def headed(call: str, name: str, sentence: str) -> str:
    """A sentence after the verdict it explains: 'Bias shown: ...'."""
    return f"{badge(call, name)}: {sentence}"


def badge(call: str, name: str) -> str:
    """A verdict in the words of its question."""
    return BADGES_OF.get((call, name), BADGES[name])


def number(value: float, digits: int = 3) -> str:
    """A number with ``digits`` significant digits, or a word where there is none."""
    if value is None or math.isnan(value):
        return "not available"
    if math.isinf(value):
        return "infinity" if value > 0 else "minus infinity"
    if value != 0 and not 1e-4 <= abs(value) < 1e6:
        return f"{value:.{digits - 1}e}"
    places = max(0, digits - 1 - (math.floor(math.log10(abs(value))) if value else 0))
    return f"{value:,.{min(places, digits + 3)}f}"


def metric(name: str) -> str:
    """A metric in words; one that has words of its own keeps them."""
    return METRICS.get(name, name)


def noun(name: str) -> str:
    """A metric as a noun: somebody's own words may say what people are ('approved', 'called back')."""
    return f"share {name}" if name not in METRICS and _verbal(name) else metric(name)


def chosen(words: Mapping[str, str]) -> str:
    """What people are whose decision is 1, by the words for metrics: 'approved'; 'selected' where they do not say."""
    own = words.get("selection_rate", "")
    return own if _verbal(own) else "selected"


def _verbal(words: str) -> bool:
    """Whether somebody's words say what people are, not what is measured: 'not denied', 'wrongly given a loan'."""
    spoken = [word for word in words.lower().split() if word not in ("not", "never") and not word.endswith("ly")]
    if not spoken or spoken[-1] in _MEASURES:
        return False
    first = spoken[0]
    return bool(_PARTICIPLE.fullmatch(first)) or (
        len(first) > 3 and first.endswith("ed") and not first.endswith(("eed", "dred"))
    )


def signed(value: float, digits: int = 3) -> str:
    """A number with its sign."""
    return number(value, digits) if math.isnan(value) or value < 0 else f"+{number(abs(value), digits)}"


def interval(low: float, high: float, alpha: float, digits: int = 3) -> str:
    """'95 % interval 0.01 to 0.05'."""
    level = f"{100 * (1 - alpha):g} %"
    if math.isinf(low) and not math.isinf(high):
        return f"{level} upper bound {number(high, digits)}"
    if math.isinf(high) and not math.isinf(low):
        return f"{level} lower bound {number(low, digits)}"
    return f"{level} interval {number(low, digits)} to {number(high, digits)}"


def probability(p: float) -> str:
    """A p-value as a table shows it: '0.0123', or '< 0.001' where it is smaller. The stored one has all its digits."""
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


def apart(difference: float, ends: tuple[float, float], alpha: float, kind: str = "") -> str:
    """Two shares: '19.4 points lower, 95 % interval 18.8 to 20.0'; '4.4 points lower to 0.7 points higher', where the
    interval has two sides; '95 % upper bound 18.8 points lower', where it has one end."""
    size, level = offset(difference), f"{kind}{100 * (1 - alpha):g} %"
    low, high = min(ends), max(ends)
    known = [end for end in (low, high) if math.isfinite(end)]
    if len(known) < 2:
        bound = (
            f"{'lower' if known == [low] else 'upper'} bound {offset(known[0])}" if known else "interval without ends"
        )
        return f"{size}, {level} {bound}"
    shown = " to ".join(map(percent, sorted((abs(low), abs(high)))))
    if low < 0 < high or ((high <= 0) != (difference < 0) and low != high):
        shown = between(low, high)
    return f"{size}, {level} interval {shown}"


def offset(difference: float) -> str:
    """A difference of two shares in words: '19.4 points lower'."""
    return f"{points(difference)} {'lower' if difference < 0 else 'higher'}"


def between(low: float, high: float) -> str:
    """From one difference of two shares to another: '1.0 to 3.0 points higher', '4.4 points lower to 0.7 points
    higher'."""
    if low < 0 < high:
        return f"{offset(low)} to {offset(high)}"
    near, far = sorted((abs(low), abs(high)))
    return f"{percent(near)} to {points(far)} {'lower' if high <= 0 else 'higher'}"


def percent(value: float) -> str:
    """A share times 100: one decimal, or as many as the first digit of a small share needs."""
    percent = 100 * value
    places = 1 if percent == 0 or abs(percent) >= 0.1 else min(6, -math.floor(math.log10(abs(percent))))
    return f"{percent:,.{places}f}"


def count(n: float) -> str:
    """A number of rows."""
    return f"{n:,.0f}".replace("-0", "0") if -0.5 <= n < 0 else f"{n:,.0f}"


def like_weights(column: str | None) -> str:
    """Counts that look like the weights of a survey."""
    return (
        f"The counts in {column!r} look like a survey's weights: many different, large numbers. Each line was taken as "
        "that many independent rows. If a line is one person asked, use the column as the weight instead, or every "
        "error is far too small."
    )


def repeated(people: int, rows: int, user: str) -> str:
    """People who appear many times, in a test that takes rows as independent."""
    return (
        f"People appear more than once ({count(people)} of them in {count(rows)} rows, by the column {user!r}), and "
        "this test takes rows as independent: its errors may be too small. With that column as the cluster of the data "
        "they are measured between people."
    )


def cut(text: str, length: int) -> str:
    """The text on one line, at most ``length`` characters; control characters, which renderers choke on, are marked."""
    line = " ".join(_CONTROL.sub("\ufffd", text).split())
    return line if len(line) <= length else f"{line[: length - 1]}…"


def listed(items: Sequence[str], limit: int = 5) -> str:
    """'a, b and c', or 'a, b, c, d, e and 12 more'; 'a; b, x; and c, y' where an item has a comma of its own."""
    if len(items) < 2:
        return "".join(items)
    shown, last = (items[:-1], items[-1]) if len(items) <= limit else (items[:limit], f"{len(items) - limit:,} more")
    comma, link = ("; ", "; and ") if any("," in item for item in (*shown, last)) else (", ", " and ")
    return f"{comma.join(shown)}{link}{last}"


def about(sentence: str, labels: Sequence[str]) -> str:
    """A sentence with the labels where it has braces."""
    return sentence.format(listed(labels))


def overlapping(labels: Sequence[str]) -> str:
    """Named groups that are published beside withheld ones."""
    return (
        f"Named groups may overlap with others: the numbers of a withheld group may follow from those of "
        f"{listed(labels)} and of other groups by subtraction. Leave them out of what is published if they do."
    )


def few(least: int, rows: str, labels: Sequence[str]) -> str:
    """Groups too small for large-sample laws; ``rows``: what there are fewer than ``least`` of."""
    return (
        f"Fewer than {least} {rows} {listed(labels)}: intervals and p-values rest on large-sample theory that may not "
        "hold there."
    )


def dropped(columns: Mapping[str, int]) -> str:
    """Rows left out because a value is missing; nothing where there are none."""
    shown = [f"{count(n)} with no {column!r}" for column, n in columns.items() if n]
    return f"Rows were left out because values are missing: {listed(shown)}." if shown else ""


def summary(
    *,
    question: str,
    null: str,
    headline: str,
    design: str = "",
    findings: Iterable[str],
    warnings: Iterable[str],
    limits: Iterable[str],
) -> str:
    """A result in words: what was asked, what was found, how to read it."""
    lines = [question, "", headline, ""]
    lines += [design, ""] if design else []
    told = list(findings)
    lines += [_bullet(finding) for finding in told[:_TOLD]]
    if more := told[_TOLD:]:
        lines.append(_bullet(f"{len(more):,} more findings, in findings()."))
    lines += ["", f"Tested: {null}"]
    warned = [_bullet(warning) for warning in warnings]
    if warned:
        lines += ["", "Warnings", *warned]
    lines += ["", "What this does not show", *(_bullet(limit) for limit in limits)]
    return "\n".join(lines)


def _bullet(text: str) -> str:
    return textwrap.fill(text, 100, initial_indent="  - ", subsequent_indent="    ", break_long_words=False)
