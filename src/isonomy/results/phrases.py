"""Phrases shared by all methods: numbers, p-values, verdicts, the layout of a summary."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence

VERDICTS = {
    "violation": "Violation: a difference was shown.",
    "within_tolerance": "Within tolerance: any difference was shown to be smaller than the tolerance.",
    "inconclusive": "Inconclusive: the data show neither a violation nor that any difference is within tolerance.",
}

# Where "a difference was shown" would not say what was shown.
VERDICTS_OF = {
    ("project", "violation"): "Violation: the groups are selected at different rates, more than chance explains.",
    ("improvability", "violation"): "Violation: an alternative that is at least as accurate and less unequal was shown "
    "to exist.",
    ("improvability", "inconclusive"): "Inconclusive: no alternative that is at least as accurate and less unequal was "
    "shown to exist. Another search might find one.",
    ("treatment_bias", "violation"): "Violation: the predicted effects of some groups are wrong by more than those of "
    "others.",
    ("predictive_parity", "violation"): "Violation: the same score was shown to mean different things in different "
    "groups.",
    ("marginal_outcomes", "violation"): "Violation: people at the threshold were shown to have different outcomes in "
    "different groups.",
}

NOT_PROOF = "A large p-value is not evidence of equal treatment: it means that these data could not tell."
UNANSWERED = (
    "Not answered: no group could be tested, or all are withheld; the warnings and the table's statuses say why. This "
    "says nothing for or against equal treatment."
)
UNTOLERANT = (
    "Inconclusive: no difference was shown. Without a tolerance that is all it can mean: no number of rows can show "
    "that groups are equal."
)

# Assumptions of several methods.
UNCHECKED = "Cannot be checked from the table."
INDEPENDENT = (
    "Rows are independent of one another.",
    "Cannot be checked from the table: repeated people or clusters break it, and intervals are then too short.",
)
SAMPLE = ("Rows are a sample of the population the conclusion is about.", UNCHECKED)


def verdict(call: str, name: str, *, tolerant: bool = True) -> str:
    """A verdict of a kind of test, in a sentence. Not ``tolerant``: a tolerance could be set, and none was."""
    if name == "inconclusive" and not tolerant:
        return UNTOLERANT
    return VERDICTS_OF.get((call, name), VERDICTS[name])


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


def pvalue(p: float) -> str:
    """'p = 0.012', never 'p = 0'."""
    if p is None or math.isnan(p):
        return "no p-value"
    if p < 1e-300:
        return "p < 1e-300"
    if p < 1e-4:
        return f"p = {p:.1e}"
    return f"p = {p:.4f}" if p < 0.1 else f"p = {p:.2f}"


def count(n: float) -> str:
    """A number of rows."""
    return f"{n:,.0f}"


def listed(items: Sequence[str], limit: int = 5) -> str:
    """'a, b and c', or 'a, b, c, d, e and 12 more'."""
    if len(items) > limit:
        return f"{', '.join(items[:limit])} and {len(items) - limit:,} more"
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} and {items[-1]}"


def about(sentence: str, labels: Sequence[str]) -> str:
    """A sentence with the labels where it has braces."""
    return sentence.format(listed(labels))


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
    findings: Iterable[str],
    warnings: Iterable[str],
    limits: Iterable[str],
) -> str:
    """A result in words: what was asked, what was found, how to read it."""
    lines = [question, "", headline, ""]
    lines += [_bullet(finding) for finding in findings]
    lines += ["", f"Tested: {null}"]
    warned = [_bullet(warning) for warning in warnings]
    if warned:
        lines += ["", "Warnings", *warned]
    lines += ["", "What this does not show", *(_bullet(limit) for limit in limits)]
    return "\n".join(lines)


def _bullet(text: str) -> str:
    return textwrap.fill(text, 100, initial_indent="  - ", subsequent_indent="    ", break_long_words=False)
