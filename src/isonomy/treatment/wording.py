"""Sentences about errors of predicted treatment effects, and about their correction."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

from isonomy.inference import Verdict
from isonomy.numerics.status import Status
from isonomy.results import phrases
from isonomy.treatment.effects.collapse import CollapseName, Measure

QUESTION = "Does the model get the treatment effect of some groups wrong, more than that of others?"
METHOD = "Group errors of predicted treatment effects (Persson et al.), Fieller and Welch inference"

PROGRESS = "Splits and swaps"
EVALUATION_QUESTION = "Is less bias left after correcting the predicted effects?"
EVALUATION_METHOD = "Repeated split, swap and bootstrap evaluation of corrections (Persson et al., section 7)"

REFERENCES = (
    "Persson, Bakker, Bohle, Feuerriegel and von Wangenheim (working paper, 2024 or later), Detecting and Mitigating "
    "Algorithmic Bias in Treatment Effect Estimation: Theory, Methods, and Empirical Evidence.",
    "Fieller (1954), Some problems in interval estimation. JRSS B 16.",
    "Zou and Donner (2008), Construction of confidence limits about effect measures. Statistics in Medicine 27.",
    "Farrington and Manning (1990), Test statistics and sample size formulae for comparative binomial trials. "
    "Statistics in Medicine 9.",
    "Dunnett and Gent (1977), Significance testing to establish equivalence between treatments. Biometrics 33.",
    "Welch (1951), On the comparison of several mean values. Biometrika 38.",
    "DerSimonian and Laird (1986), Meta-analysis in clinical trials. Controlled Clinical Trials 7.",
    "Lin (2013), Agnostic notes on regression adjustments to experimental data. Annals of Applied Statistics 7.",
)


def omnibus(family: str, statistic: float, pvalue: float) -> str:
    """The test that the errors of all groups are equal."""
    return (
        f"One test that the errors of all groups by {family} are equal: {phrases.pvalue(pvalue)} (Cochran's Q over its "
        f"degrees of freedom {phrases.number(statistic)})."
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


# How effects are written: a ratio, a difference of means, or a difference of shares.
Unit = Literal["ratio", "difference", "points"]


def unit(measure: Measure, *, binary: bool) -> Unit:
    """How the effects of a measure are written; ``binary``: every outcome is 0 or 1."""
    return "ratio" if measure == "relative" else "points" if binary else "difference"


def _amount(value: float, unit: Unit) -> str:
    """An error or a bias, with its sign."""
    if unit != "points" or not math.isfinite(value):
        return phrases.signed(value)
    return f"{'-' if value < 0 else '+'}{phrases.points(value)}"


def _between(limits: tuple[float, float], alpha: float, unit: Unit) -> str:
    if unit != "points" or not all(map(math.isfinite, limits)):
        return phrases.interval(*limits, alpha)
    low, high = map(phrases.percent, limits)
    return f"{100 * (1 - alpha):g} % interval {low} to {high} points"


def finding(
    label: str,
    *,
    unit: Unit = "ratio",
    rows: float,
    predicted: float,
    observed: float,
    error: float,
    rest_error: float,
    bias: float,
    limits: tuple[float, float],
    alpha: float,
    pvalue: float,
    verdict: Verdict,
) -> str:
    """One group: what was predicted, what was observed, and how its error compares with the others'."""
    ratio = unit == "ratio"
    both = [phrases.number(effect) if ratio else _amount(effect, unit) for effect in (predicted, observed)]
    text = (
        f"{label} ({phrases.count(rows)} rows): predicted {'effect' if ratio else 'uplift'} {both[0]}, observed "
        f"{both[1]}, an error of {_amount(error, unit)}; in the other groups together the error is "
        f"{_amount(rest_error, unit)}. The difference of the two, the bias, is {_amount(bias, unit)} "
        f"({_between(limits, alpha, unit)}, adjusted {phrases.pvalue(pvalue)})"
    )
    return text + _ENDS[verdict]


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
    Status.FEW_CLUSTERS: "fewer than 10 effective clusters, or rows by weight, to judge their spread by.",
    Status.FEW_EVENTS: "too few outcomes of either kind in an arm, of all rows or of each half, to judge their spread "
    "by.",
    Status.CONSTANT: "outcomes and predictions do not vary, so there is nothing to judge by.",
    Status.UNSUPPORTED: "no observed effect was brought for it.",
    Status.FAILED: "the estimate is not finite.",
}


def count(biased: Sequence[str], within: int, tested: int) -> str:
    """Which groups showed a bias, and how many that any bias is small."""
    small = f" For {within:,} any bias was shown to be within the tolerance." if within else ""
    names = f": {phrases.listed(biased)}" if biased else ""
    return f"A bias was shown for {len(biased) or 'none'} of {tested:,} groups that could be tested{names}.{small}"


def detectable(smallest: float, largest: float, power: float, unit: Unit = "ratio") -> str:
    """What the data could have found."""
    least, most = (phrases.points(size) if unit == "points" else phrases.number(size) for size in (smallest, largest))
    return (
        f"A bias of {least} (best measured group) to {most} (worst measured group) would be found with probability "
        f"{power:g}, before adjusting for the number of groups."
    )


# What the floor of events is for: the law of counts, or means that must be nearly normal (of 0/1 or other outcomes).
Floor = Literal["counts", "normal", "skewed"]
_EVENTS: Mapping[Floor, str] = {
    "counts": "events (or rows without the event) are expected in an arm of",
    "normal": "events (or rows without the event) are expected in an arm of",
    "skewed": "events' worth of outcomes, so skewed are they, are in",
}
_TOO_FEW: Mapping[Floor, str] = {
    "counts": "no test could tell such a group from chance among so many.",
    "normal": "with these options tests rest on means that are nearly normal, which takes so many events for so many "
    "groups. With the default split, estimator, collapse and rest, without weights and clusters, fewer will do.",
    "skewed": "no test could tell such a group from chance among so many.",
}


def untested(labels: Sequence[str], least: float, law: Floor) -> str:
    """Groups with too few events for a verdict."""
    return (
        f"Inconclusive, because fewer than {phrases.number(least, 2)} {_EVENTS[law]} {phrases.listed(labels)}: "
        f"estimates and intervals are given, but {_TOO_FEW[law]}"
    )


UNBOUNDED = "The control mean of {} cannot be told from zero, so the interval of a relative effect has no end."
NO_REST = "Nothing to compare {} with: only the error is given, not the bias."


def like_differences(predicted: float, observed: float) -> str:
    """Predictions near 0 where ratios near 1 are seen."""
    return (
        f"Predicted effects average {phrases.number(predicted)} where ratios of {phrases.number(observed)} are "
        "observed: they look like differences. A relative effect is a ratio and 1 is no effect; differences are "
        "another measure of effects, which has to be asked for."
    )


def like_ratios(predicted: float, observed: float) -> str:
    """Predictions near 1 where differences of shares near 0 are seen."""
    return (
        f"Predicted effects average {phrases.number(predicted)} where differences of {phrases.number(observed)} are "
        "observed: they look like ratios. A difference of shares is below 1 and 0 is no effect; ratios are another "
        "measure of effects, which has to be asked for."
    )


def lost_replicates(share: float) -> str:
    """Resamples that could not be used."""
    return f"{phrases.share(share)} of the resamples of some group had an empty arm or control mean and were left out."


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


# How a comparison of groups takes it that their treated shares differ.
Shares = Literal["standardised", "pooled", "propensity", "one share"]
_SHARES: Mapping[Shares, str] = {
    "standardised": ", which the standardised comparison allows for",
    "pooled": ", which confounds the pooled rest",
    "propensity": ", which the propensities allow for",
    "one share": ", which one share for all does not allow for: name a propensity column",
}


def assumptions(
    experiment: bool,
    arms_differ: bool,
    rows: tuple[str, str] = phrases.INDEPENDENT,
    shares: Shares = "standardised",
) -> tuple[tuple[str, str], ...]:
    """What is assumed, and how it was checked. ``rows``: of their independence."""
    alike = "differ between groups by no more than 5 points or than chance explains"
    differ = f"differ between groups by more than 5 points and more than chance explains{_SHARES[shares]}"
    assigned = (
        "Treatment was assigned at random within each group.",
        f"{_UNCHECKED}; treated shares {differ if arms_differ else alike}.",
    )
    return (
        assigned if experiment else _BROUGHT,
        ("One row's treatment does not change another row's outcome.", f"{_UNCHECKED}."),
        rows,
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


def remaining(
    strategy: str, *, left: float, before: float, raw: float, rejected: float, alpha: float, pvalue: float
) -> str:
    """One strategy: what remains of the groups' biases on rows it has not seen."""
    return (
        f"{_named(strategy)}: biases of root mean square {phrases.number(left)} are left, against "
        f"{phrases.number(before)} without correction (that it is less: {phrases.pvalue(pvalue)}, adjusted for all "
        f"corrections compared). As estimated on held-out rows, noise and all, {phrases.number(raw)}; "
        f"{phrases.share(rejected)} of the tests for remaining bias reject at {alpha:g}."
    )


def _named(strategy: str) -> str:
    """A strategy in words: 'empirical bayes t'."""
    return strategy.replace("_", " ")


def unchanged(left: float, raw: float, rejected: float, alpha: float) -> str:
    """Without correction."""
    return (
        f"none: biases of root mean square {phrases.number(left)}; as estimated on held-out rows, noise and all, "
        f"{phrases.number(raw)}; {phrases.share(rejected)} of the tests for bias reject at {alpha:g}."
    )


def less(shown: int, tried: int, best: str) -> str:
    """Whether a correction was shown to leave less bias: the headline of an evaluation."""
    if not tried:
        return "Nothing was compared: no correction was evaluated."
    if not shown:
        return f"Corrections compared: none of {tried} was shown to leave less bias than none, on rows it had not seen."
    return f"Less bias shown: less remains after {shown} of {tried} corrections, and least after {_named(best)}."


EVALUATION_NULL = (
    "For each strategy: on rows that took no part in finding the correction, the mean over groups of the squared bias "
    "is at least as large with it as without."
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


def pooled_groups(labels: Sequence[str]) -> str:
    """Groups a corrector has not seen, and what they get."""
    return f"Groups that were not there in the fit get the correction of all groups together: {phrases.listed(labels)}."


def uncorrected(labels: Sequence[str]) -> str:
    """Groups whose error could not be estimated."""
    return f"The error of {phrases.listed(labels)} could not be estimated: their predictions are left as they are."


def corrected_by_all(labels: Sequence[str]) -> str:
    """Groups corrected by the pooled correction."""
    return (
        f"The error of {phrases.listed(labels)} could not be estimated: the correction of all groups together is used."
    )


# Price of fairness

PRICE_QUESTION = "What do corrections of group effects cost in the ranking of persons?"
PRICE_METHOD = "Paired changes of Qini, transformed-outcome loss and policy value on the same rows"
PRICE_NULL = "For each column of corrected effects: the quantity is the same as before the correction."
PRICE_LIMITS = (
    "It compares columns of predictions on these rows: corrections fitted on the same rows look better than they are.",
    "A policy's value is a gain in the mean outcome of these people, not in anybody's welfare.",
    phrases.NOT_PROOF,
)
NO_LOSS = (
    "Relative effects without a baseline column: the transformed-outcome loss is not known, and persons are ranked by "
    "their ratios, which is not the order of their gains."
)
SHARES_DIFFER = (
    "Treated shares differ between groups, and one share was taken for all: gains of groups that were treated more "
    "often look larger than they are. Name a column with the probability of treatment (propensity)."
)
FEW_CLUSTERS = (
    "Fewer than 10 effective clusters, or rows by weight: changes cannot be told from chance, and are not tested."
)
QUANTITY_NAMES: Mapping[str, str] = {
    "qini": "Qini",
    "loss": "transformed-outcome loss (less is better)",
    "policy_value": "policy value at the budget",
}


def price(column: str, quantity: str, before: float, change: float, limits: tuple[float, float], alpha: float) -> str:
    """One quantity of one column."""
    return (
        f"{column}: {QUANTITY_NAMES[quantity]} {phrases.number(before)} before, changed by {phrases.signed(change)} "
        f"({phrases.interval(*limits, alpha)})."
    )


def trade(column: str, before: float, after: float) -> str:
    """What was paid for."""
    return (
        f"{column}: biases of root mean square {phrases.number(after)} are left, against {phrases.number(before)} "
        "before, without their sampling error."
    )


def price_headline(shown: int, compared: int) -> str:
    """How many changes were shown."""
    if not shown:
        return f"Price measured: none of {compared} changes of the ranking was shown to be other than chance."
    return f"Price measured: {shown} of {compared} changes of the ranking were shown to be more than chance."
