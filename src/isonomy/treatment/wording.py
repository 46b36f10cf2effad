"""Sentences about errors of predicted treatment effects, and about their correction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from isonomy.inference import Verdict
from isonomy.numerics.status import Status
from isonomy.results import phrases
from isonomy.treatment.effects.collapse import CollapseName, Measure

if TYPE_CHECKING:
    from isonomy.treatment.result import TreatmentBiasResult

QUESTION = "Does the model get the treatment effect of some groups wrong, more than that of others?"
METHOD = "Group errors of predicted treatment effects (Persson et al.), Fieller and Welch inference"

EVALUATION_QUESTION = "How much of each group's error would remain after correcting the predicted effects?"
EVALUATION_METHOD = "Repeated split, swap and bootstrap evaluation of corrections (Persson et al., section 7)"

REFERENCES = (
    "Persson, Bakker, Bohle, Feuerriegel and von Wangenheim, Detecting and Mitigating Algorithmic Bias in Treatment "
    "Effect Estimation.",
    "Fieller (1954), Some problems in interval estimation. JRSS B 16.",
    "Zou and Donner (2008), Construction of confidence limits about effect measures. Statistics in Medicine 27.",
    "Lin (2013), Agnostic notes on regression adjustments to experimental data. Annals of Applied Statistics 7.",
)

UNITS: Mapping[Measure, str] = {
    "relative": "effects are ratios of mean outcomes, treated over control",
    "difference": "effects are differences of mean outcomes, treated minus control",
}


def null(tolerance: float | None, measure: Measure) -> str:
    """What is tested, for each group."""
    limit = "equals" if tolerance is None else f"differs by at most {phrases.number(tolerance)} from"
    return (
        f"For each group: the error of its predicted effect (predicted minus observed; {UNITS[measure]}) {limit} "
        "that of all other groups together."
    )


def finding(result: TreatmentBiasResult, i: int) -> str:
    """One group: what was predicted, what was observed, and how its error compares with the others'."""
    predicted, observed, bias = result.predicted[i], result.observed[i], result.bias[i]
    error = predicted - observed
    text = (
        f"{result.groups[i]} ({phrases.count(result.n[i])} rows): predicted effect {phrases.number(predicted)}, "
        f"observed {phrases.number(observed)}, an error of {phrases.signed(error)}; in the other groups together the "
        f"error is {phrases.signed(error - bias)}. The difference of the two, the bias, is {phrases.signed(bias)} "
        f"({phrases.interval(result.bias_low[i], result.bias_high[i], result.alpha)}, adjusted "
        f"{phrases.pvalue(result.adjusted_pvalue[i])})"
    )
    return text + _ENDS[result.verdicts[i]]


_ENDS: Mapping[Verdict, str] = {
    Verdict.VIOLATION: ": a bias was shown.",
    Verdict.WITHIN_TOLERANCE: ": any bias was shown to be within the tolerance.",
    Verdict.INCONCLUSIVE: ": inconclusive.",
}


def unanswered(labels: Sequence[str], status: Status) -> str:
    """Groups without an answer, and why."""
    return f"No answer for {phrases.listed(labels)}: {REASONS[status]}"


REASONS: Mapping[Status, str] = {
    Status.EMPTY: "no rows.",
    Status.NO_TREATED: "no treated rows.",
    Status.NO_CONTROL: "no control rows.",
    Status.ZERO_BASELINE: "the mean outcome of the control rows is not above zero, so a relative effect has no "
    "denominator.",
    Status.TOO_SMALL: "too few rows in an arm to estimate a variance.",
    Status.CONSTANT: "outcomes and predictions do not vary, so there is nothing to judge by.",
    Status.UNSUPPORTED: "no observed effect was brought for it.",
    Status.FAILED: "the estimate is not finite.",
}


def count(violations: int, within: int, tested: int) -> str:
    """How many groups showed a bias, or that any bias is small."""
    small = f" For {within:,} any bias was shown to be within the tolerance." if within else ""
    return f"A bias was shown for {violations:,} of {tested:,} groups that could be tested.{small}"


def detectable(smallest: float, largest: float, power: float) -> str:
    """What the data could have found."""
    return (
        f"A bias of {phrases.number(smallest)} (best measured group) to {phrases.number(largest)} (worst measured "
        f"group) would be found with probability {power:g}, before adjusting for the number of groups."
    )


UNBOUNDED = "The control mean of {} cannot be told from zero, so the interval of a relative effect has no end."
NO_REST = "Nothing to compare {} with: only the error is given, not the bias."


def like_differences(predicted: float, observed: float) -> str:
    """Predictions near 0 where ratios near 1 are seen."""
    return (
        f"Predicted effects average {phrases.number(predicted)} where ratios of {phrases.number(observed)} are "
        "observed: they look like differences. A relative effect is a ratio and 1 is no effect; for differences use "
        'measure="difference".'
    )


def lost_replicates(share: float) -> str:
    """Resamples that could not be used."""
    return f"{100 * share:.2g} % of the resamples of some group had an empty arm or control mean and were left out."


POOLED_REST = (
    "The rest is pooled: where treated shares differ between groups its effect is confounded by who is in which arm."
)
SHARED_NUISANCE = (
    "Outcome models were fitted on other rows of the same table (cross-fitting): groups share them, and errors of "
    "different groups are then independent only to first order."
)
# What a collapse of relative effects takes for granted.
COLLAPSES: Mapping[CollapseName, str] = {
    "average": "Relative effects were averaged without weights: right only if outcomes without treatment do not depend "
    "on what the predictions depend on.",
    "positives": "The positives-only formula (20) is off whenever predicted effects vary with the outcome.",
    "positives_inverse": "The collapse by 1/f is off when the model's heterogeneity has the wrong sign; do not rest a "
    "test on it.",
}


_UNCHECKED = "Cannot be checked from these columns"
_BROUGHT = (
    "The effects brought by the caller are the true effects up to their standard errors.",
    "Cannot be checked here.",
)


def assumptions(experiment: bool, arms_differ: bool) -> tuple[tuple[str, str], ...]:
    """What is assumed, and how it was checked."""
    differ = "differ between groups, which the standardised comparison allows for"
    shares = differ if arms_differ else "are alike in all groups"
    assigned = ("Treatment was assigned at random within each group.", f"{_UNCHECKED}; treated shares {shares}.")
    return (
        assigned if experiment else _BROUGHT,
        ("One row's treatment does not change another row's outcome.", f"{_UNCHECKED}."),
        phrases.INDEPENDENT,
        (
            "The model was fitted on other rows.",
            "Not checked: on its own training rows a model's errors look too small.",
        ),
    )


def limits(measure: Measure) -> tuple[str, ...]:
    """What the result does not show."""
    return (
        "It compares average effects of groups: predictions for persons within a group may be wrong in ways that "
        "cancel out.",
        "It does not say whether groups should have equal effects, or whether the treatment is allocated well.",
        f"It speaks of one measure only: {UNITS[measure]}.",
        phrases.NOT_PROOF,
    )


# Corrections


def remaining(strategy: str, before: float, after: float, rejected: float, alpha: float) -> str:
    """One strategy: what remains of the groups' errors and biases on rows it has not seen."""
    return (
        f"{strategy}: the groups' biases have root mean square {phrases.number(after)} on held-out rows, against "
        f"{phrases.number(before)} without correction; {100 * rejected:.1f} % of the tests for remaining bias reject "
        f"at {alpha:g}."
    )


def best(strategy: str) -> str:
    """Which strategy left least."""
    return f"The smallest remaining bias on held-out rows: {strategy}."


EVALUATION_NULL = (
    "For each group, split and strategy: on rows that took no part in finding the correction, the corrected error of "
    "the group equals that of all other groups together."
)
EVALUATION_LIMITS = (
    "A correction carries the sampling error of the rows that found it. Where halves are alike, about one held-out "
    "test in six rejects at 0.05 after a correction that is right on average: compare strategies, not the share with "
    "0.05.",
    "Spreads of estimates on held-out rows contain the sampling error of the held-out rows themselves, so no "
    "correction can bring them to zero.",
    "Splits and swaps reuse the same rows: their spread is not a standard error.",
    "Correcting a group's average does not make predictions for its members right.",
    phrases.NOT_PROOF,
)


def unknown_groups(labels: Sequence[str]) -> str:
    """Groups a corrector has not seen."""
    return (
        f"groups: {phrases.listed(labels)} were not in the data the corrector was fitted on; refit with them, or use "
        'unknown="pooled" to give them the correction of all groups together.'
    )


def uncorrected(labels: Sequence[str]) -> str:
    """Groups whose error could not be estimated."""
    return f"The error of {phrases.listed(labels)} could not be estimated: their predictions are left as they are."


def corrected_by_all(labels: Sequence[str]) -> str:
    """Groups corrected by the pooled correction."""
    return (
        f"The error of {phrases.listed(labels)} could not be estimated: the correction of all groups together is used."
    )
