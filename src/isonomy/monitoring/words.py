"""The sentences of monitoring."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from isonomy.inference import Verdict
from isonomy.numerics.status import Status
from isonomy.results import phrases, register

if TYPE_CHECKING:
    from isonomy.monitoring.monitor import MonitorPlan, MonitorResult

MOST = 1_000  # groups described in words
EQUAL = {"difference": 0.0, "ratio": 1.0, "odds_ratio": 1.0}
FAVORED, DISFAVORED = "favored", "disfavored"
WEIGHTS = (
    "weight: not allowed in monitor. The errors of weighted rows are not followed over time; audit the rows of a "
    "period with flag."
)
VERDICTS = {
    "violation": "over all batches so far, the groups differ by more than chance explains.",
    "beyond": "over all batches so far, the groups differ by more than the tolerance, beyond what chance explains.",
    "within_tolerance": "over all batches so far, any difference was shown to be smaller than the tolerance.",
    "inconclusive": "the batches so far neither show a difference larger than the tolerance nor rule one out.",
}
CENTERED = {  # the same verdicts about an accepted disparity; "undecided": without a tolerance
    "within_tolerance": "over all batches so far, any difference from {} was shown to be smaller than the tolerance.",
    "inconclusive": "the batches so far neither show a difference from {} larger than the tolerance nor rule one out.",
    "undecided": "no difference from {} was shown. Without a tolerance nothing more can be concluded.",
}
NEXT_STEPS = {
    "violation": (
        "Find out when it began: see the chart over time and the alarms.",
        "Audit the rows of a recent period with flag, also within legitimate factors.",
        "After a change of the model, restart the monitor and record why.",
    ),
    "within_tolerance": ("Keep counting. The disparity may leave the tolerance again.",),
    "inconclusive": ("Keep counting. The table says about how many more batches are needed.",),
}
MEANING = (
    'A batch is the decisions of one period. "Valid at any time" means that the error rate holds however often '
    "somebody looks. An e-value says how many times a fair bet against the null hypothesis would have multiplied "
    "its stake; 20 is as strong as p = 0.05, at any look. The run length is the mean number of batches to a false "
    'alarm; "since" is the batch at which a disparity probably began.'
)
METHOD = (
    "Each group is compared with its reference within each batch (the common Mantel-Haenszel difference or ratio, with "
    "batches as strata). The test is a skewness-corrected score statistic with the normal-mixture boundary of Robbins, "
    "whose error rate holds at all looks together. The alarm is an e-detector of the Shiryaev-Roberts type."
)
REFERENCES = (
    "Robbins, H. (1970). Statistical methods related to the law of the iterated logarithm. Annals of Mathematical "
    "Statistics 41, 1397-1409.",
    "Waudby-Smith, I., Arbour, D., Sinha, R., Kennedy, E. H. and Ramdas, A. (2024). Time-uniform central limit theory "
    "and asymptotic confidence sequences. Annals of Statistics 52.",
    "Shin, J., Ramdas, A. and Rinaldo, A. (2024). E-detectors: a nonparametric framework for sequential change "
    "detection. New England Journal of Statistics in Data Science.",
)
LIMITS = (
    phrases.NOT_PROOF,
    "The interval is about the average of all batches since the start, not about the last one.",
    "An alarm says that something began; it does not say what.",
    "A restart begins a new error rate: a monitor that is restarted often is wrong more often.",
)
ASSUMPTIONS = (
    ("Group membership and outcomes are recorded in the same way over time.", phrases.UNCHECKED),
    (
        "Outcomes are counted at the same age for all decisions.",
        "This cannot be checked from the table. If outcomes of some groups arrive later, that alone creates a "
        "disparity.",
    ),
)
CONCERNS = {
    Status.TOO_SMALL: "monitor_small",
    Status.EMPTY: "monitor_one_sided",
    Status.CONSTANT: "monitor_constant",
    Status.SKEWED: "monitor_skewed",
    Status.FEW_CLUSTERS: "monitor_few_people",
    Status.ZERO_BASELINE: "monitor_zero",
}
register(
    {
        "late_outcomes": lambda note: (
            f"In batch {note.values['batch']!r} {phrases.share(note.values['share'])} of the rows have no value yet. "
            "If outcomes of some groups or decisions arrive later than those of others, this alone creates a "
            "disparity: count all decisions at the same age."
        ),
        "last_batch": "A group has fewer than {minimum} rows in the last batch. A report of the look before it and "
        "this report together would reveal their numbers: publish only one of the two.",
        "empty_batch": "Batch {batch!r} has no row that counts.",
        "new_groups": "New in batch {batch!r}: {groups}. Groups are tested from {least} rows on.",
        "late_groups": lambda note: (
            f"Appeared after the first look: {phrases.listed(note.groups)}. Part of the error rate had been used by "
            f"then, so such groups are tested at a share of the level of the others, here at least "
            f"{phrases.share(note.values['share'])}. A restart would give all groups the same level."
        ),
        "center_unnamed": "The center given for {names} applies to none of the groups so far: none that is compared is "
        "called so.{near}",
        "not_started": "Nothing is judged before {least} cases and {least} others are counted; so far there are "
        "{cases:,.0f} and {others:,.0f}.",
        "no_alarm_of_ratios": "There is no alarm on this scale; the scale of differences has one.",
        "monitor_small": "Too few rows so far, so listed and not tested: {groups}.",
        "monitor_one_sided": "No batch so far has rows of the group and of its reference, and 20 of them together: "
        "{groups}.",
        "monitor_constant": "All outcomes so far are equal, so nothing can be tested: {groups}.",
        "monitor_skewed": "The metric is too skewed for a verdict on so few rows so far: {groups}.",
        "monitor_few_people": "There are too few people so far to estimate an error between people: {groups}.",
        "monitor_zero": "The reference has no case so far, so there is no ratio: {groups}.",
    }
)


def reference(plan: MonitorPlan) -> str:
    if plan.number is not None:
        return phrases.number(plan.number)
    return "the rest" if plan.group is None else str(plan.group)


def _amount(value: float, scale: str, *, share: bool) -> str:
    if scale == "difference" and share:
        return phrases.offset(value)
    return f"{scale.replace('_', ' ')} {phrases.number(value)}"


def center(given: float | Mapping[str, float] | None, scale: str, *, share: bool) -> str:
    """The accepted disparity in words; empty if it is equality."""
    if isinstance(given, Mapping):
        some = {name: _amount(value, scale, share=share) for name, value in given.items() if value != EQUAL[scale]}
        each = [f"{amount} for {name}" for name, amount in some.items()]
        return f"the accepted disparity ({phrases.listed([*each, 'none for other groups'])})" if each else ""
    if given is None or given == EQUAL[scale]:
        return ""
    return f"the accepted disparity ({_amount(given, scale, share=share)})"


def _centers(result: MonitorResult) -> str:
    return center(result.center, result.scale, share=bool(result.shares) and all(result.shares))


def _center(result: MonitorResult, j: int) -> str:
    return center(result.accepted(j), result.scale, share=result.shares[j])


def null(plan: MonitorPlan, *, share: bool) -> str:
    tolerant, known = plan.tolerance is not None, center(plan.boundary.center, plan.scale, share=share)
    middle = known or "equality"
    if side := {"greater": "above", "less": "below"}.get(plan.boundary.side):
        text = f"No group's disparity is {side} {middle}{' by more than the tolerance' if tolerant else ''}"
    elif tolerant:
        text = f"No group's disparity is farther from {middle} than the tolerance"
    else:
        text = f"Every group has {middle}" if known else "No group differs from its reference"
    return f"{text}, on average over the batches."


def _number(result: MonitorResult) -> bool:
    return isinstance(result.provenance.options.get("reference"), (int, float))


def _apart(result: MonitorResult, j: int) -> str:
    value, low, high = (float(x[j]) for x in (result.disparity, result.ci_low, result.ci_high))
    if result.scale == "difference" and result.shares[j]:
        return phrases.apart(value, (low, high), result.alpha).replace("interval", "interval valid at any time", 1)
    what = result.scale.replace("_", " ")
    return f"{what} {phrases.number(value)}, {phrases.interval(low, high, result.alpha)} valid at any time"


def _side(result: MonitorResult, j: int) -> str:
    return "below" if result.disparity[j] < result.accepted(j) else "above"


def headline(result: MonitorResult) -> str:
    tolerant, verdict = result.tolerance is not None, result.verdict.value
    if result.verdict is not Verdict.VIOLATION:
        end = " The last batch raised an alarm." if result.alarmed else ""
        if known := _centers(result):
            sentence = CENTERED[verdict if tolerant else "undecided"].format(known)
            return f"{result.definition.badge(verdict)}: {sentence}{end}"
        return f"{result.definition.verdict(verdict, tolerant=tolerant)}{end}"
    total, j = len(result.batch_names) - (result.restarts[-1] if result.restarts else 0), result.worst_first[0]
    noun, label = phrases.noun(result.metrics[j]), result.labels[j]
    other = f"{'' if _number(result) else 'that of '}{result.reference}"
    if known := _center(result, j):
        what = f"disparity between the {noun} of {label} and {other} was {_side(result, j)} {known}"
    else:
        way = "lower" if result.disparity[j] < EQUAL[result.scale] else "higher"
        what = f"{noun} of {label} was {way} than {other}"
    return (
        f"{result.definition.badge(verdict)}: over {total:,} batch{'' if total == 1 else 'es'}, the {what}"
        f"{' by more than the tolerance' if tolerant else ''}, beyond what chance explains; first shown at batch "
        f"{result.first_shown[j]}."
    )


def finding(result: MonitorResult, j: int) -> str:
    share = phrases.share if result.shares[j] else phrases.number
    other = f"{share(float(result.reference_value[j]))} for {result.reference} in the same batches"
    rates = (
        f"{result.labels[j]}: {phrases.noun(result.metrics[j])} {share(float(result.estimate[j]))} in "
        f"{phrases.count(result.n[j])} rows, against {result.reference if _number(result) else other}"
    )
    tests = f"{phrases.pvalue(result.pvalue[j])}, {phrases.adjusted(result.adjusted_pvalue[j])}"
    verdict, known = result.verdicts[j], _center(result, j)
    if verdict is Verdict.VIOLATION:
        end = f"A difference was shown, first at batch {result.first_shown[j]}: {result.direction[j]}."
        if known:
            beyond = " by more than the tolerance" if result.tolerance is not None else ""
            end = f"A disparity {_side(result, j)} {known}{beyond} was shown, first at batch {result.first_shown[j]}."
    elif verdict is Verdict.WITHIN_TOLERANCE:
        of = f" of {known}" if known else ""
        end = f"Within the tolerance{of} over all batches so far. It may leave the tolerance again."
    else:
        end = "Not decided yet."
        if result.alarm[j]:
            end = "Not decided yet, over all batches; see the alarm."
        elif result.batches_needed is not None and math.isfinite(more := float(result.batches_needed[j])) and more > 0:
            shown = (
                f"disparity is within the tolerance of {known}, if it equals that"
                if known
                else ("difference is within the tolerance, if there is none")
            )
            end = (
                f"Not decided yet. At the pace of the last batches (at most ten), about {phrases.count(more)} more "
                f"would show that the {shown}."
            )
    return f"{rates}; {_apart(result, j)}; {tests}. {end}"


def alarm(result: MonitorResult, j: int) -> str:
    known = _center(result, j)
    began = f"the disparity of {result.names[j]} has been beyond the tolerance{f' of {known}' if known else ''}"
    if result.tolerance is None:
        began = f"{result.names[j]} has differed from {known or result.reference}"
    last = result.alarm[j], result.since[j]
    first, *later = [(batch, since) for batch, name, since in result.alarms if name == result.names[j]] or [last]
    text = f"Alarm at batch {first[0]}: since about batch {first[1]}, {began}."
    if later:  # the watch begins again after every alarm
        times = "again" if len(later) == 1 else f"{len(later)} more times, last"
        text += f" It was raised {times} at batch {last[0]}, for the batches since about {last[1]}."
    often = f"at most once in {result.run_length:,} batches, for all groups together"
    return f"{text} If nothing is wrong, such alarms come on average {often}."


def any_time(result: MonitorResult) -> str:
    chance = f"{100 * result.alpha:g} %"
    difference = "difference from the accepted disparity" if _centers(result) else "difference"
    if result.adjust == "e-bh":
        rate = f"the expected share of false findings among those shown is at most {chance}, whenever you stop."
    else:
        which = "for any group" if result.adjust == "holm" else "for a single group"
        rate = (
            f"the chance that this monitor ever shows a {difference} that is not there, {which}, is at most {chance}."
        )
    return (
        f"You may look after every batch, and stop or go on as you like: {rate} The price is a wider interval: about "
        "one and a half times that of a single look."
    )
