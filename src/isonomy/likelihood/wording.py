"""Every sentence of the empirical-likelihood method: flag and certify."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from isonomy.inference import Verdict
from isonomy.numerics.status import Status
from isonomy.results import phrases

if TYPE_CHECKING:
    from isonomy.likelihood.result import FlagResult

FLAG_QUESTION = "Which groups does this model treat differently, by how much, and is that more than chance?"
CERTIFY_QUESTION = "Taken together, do the groups differ from the reference by more than chance?"
METHOD = "empirical likelihood"
REFERENCES = (
    "Tang, J., Xie, C., Zeng, X. and Zhu, L. (2026). Empirical likelihood-based fairness auditing: distribution-free "
    "certification and flagging. arXiv:2601.20269.",
    "Owen, A. B. (2001). Empirical Likelihood. Chapman and Hall/CRC.",
    "Benjamini, Y. and Hochberg, Y. (1995). Controlling the false discovery rate. JRSS B 57, 289-300.",
)


def difference(metric: str, reference: str, *, value: bool) -> str:
    """What a disparity is: 'ppv less that of the population' or, if the reference is a ``value``, 'ppv less 0.6'."""
    return f"{metric} less {reference}" if value else f"{metric} less that of {reference}"


def intervals(kind: str, alpha: float) -> str:
    """What a chart's intervals are; those of one group at a time need no word for it."""
    level = f"{100 * (1 - alpha):g} % intervals"
    return {"simultaneous": f"Simultaneous {level}", "one-sided": f"One-sided {level}"}.get(kind, level)


def null(low: float, high: float, alternative: str, measured: str) -> str:
    """The null hypothesis of every group; ``measured`` is the `difference` it is about."""
    sides = {"two-sided": "is", "greater": "is at most", "less": "is at least"}
    between = f"lies between {phrases.number(low)} and {phrases.number(high)}"
    limit = f"{sides[alternative]} {phrases.number(low)}" if alternative in sides else between
    return f"For each group, the group's {measured} {limit}."


def joint_null(measured: str, groups: int, disparity: float | None) -> str:
    """The null hypothesis of a certification; no one ``disparity`` if each group has its own."""
    shown = "as given" if disparity is None else phrases.number(disparity)
    return f"In all {groups:,} groups at once, {measured} is {shown}."


# What "within tolerance" means for a null with one side.
WITHIN = {
    "greater": "Shown not to exceed the reference by more than the tolerance.",
    "less": "Shown not to fall below the reference by more than the tolerance.",
}
RESTS_ON_THE_TOLERANCE = (
    "The verdict rests on the tolerance and the intervals. The joint p-value above is that of exact equality and does "
    "not decide it."
)
# Why the plug-in is not the default.
PLUGIN_WARNING = (
    "uncertainty='plugin' treats the estimated reference as known. Its intervals do not have their nominal level: "
    "by simulation 95 % intervals cover 83 % of the time against a reference group of equal size."
)
# What rejecting exact equality means in large data.
LARGE_SAMPLE = (
    "No tolerance was set, so any difference from exact equality counts; with many rows this finds differences too "
    "small to matter. Give tolerance= to ask whether a difference is large enough."
)
LIMITS = (
    phrases.NOT_PROOF,
    "A difference is a description, not a cause: it does not say why groups differ, nor who is responsible.",
    "Only the groups and the metric asked about were tested.",
)


def within_one_side(alternative: str) -> str:
    """Within a tolerance that has one side."""
    return f"Within tolerance. Every group: {WITHIN[alternative][0].lower()}{WITHIN[alternative][1:]}"


def group_finding(result: FlagResult, i: int) -> str:
    """One group: effect size, interval, p-value and verdict."""
    shown = {
        Verdict.VIOLATION: "Flagged.",
        Verdict.WITHIN_TOLERANCE: WITHIN.get(result.alternative, "Shown to lie within the tolerance."),
        Verdict.INCONCLUSIVE: "Not flagged: these data cannot tell.",
    }[result.verdicts[i]]
    interval = phrases.interval(result.ci_low[i], result.ci_high[i], result.alpha)
    return (
        f"{result.groups[i]}: {result.metric} {phrases.number(result.estimate[i])} over {phrases.count(result.n[i])} "
        f"rows against {phrases.number(result.reference_value[i])}, a difference of "
        f"{phrases.signed(result.disparity[i])} ({interval}; {phrases.pvalue(result.pvalue[i])}, adjusted "
        f"{phrases.pvalue(result.adjusted_pvalue[i])}). {shown}"
    )


def flag_overview(flagged: Sequence[str], within: int, tested: int, listed: int, alternative: str) -> str:
    """How many groups were flagged."""
    untested = "" if tested == listed else f" Listed but not tested (see their status): {listed - tested:,}."
    side = {"greater": ", upwards", "less": ", downwards"}.get(alternative, "")
    were = "was" if within == 1 else "were"
    tolerated = f" {within:,} {were} shown to lie within the tolerance{side}." if within else ""
    if not flagged:
        return f"None of {tested:,} tested groups was flagged.{tolerated}{untested}"
    were = "was" if len(flagged) == 1 else "were"
    return (
        f"{len(flagged):,} of {tested:,} tested groups {were} flagged: {phrases.listed(flagged)}.{tolerated}{untested}"
    )


def plugin_contrast(groups: int, differ: Sequence[str]) -> str:
    """What ignoring the reference's own error would have concluded."""
    if not differ:
        return (
            "The reference is estimated from the same data and its error is included. Ignoring it (the published "
            f"plug-in statistic) would have led to the same decision in all {groups:,} tested groups."
        )
    return (
        "The conclusion depends on how the reference is treated. Its error is included here; ignoring it (the "
        f"published plug-in statistic) would have decided otherwise for {phrases.listed(differ)}."
    )


def joint_contrast(differ: Sequence[str], corrected: bool) -> str:
    """What including the reference's error would have concluded, when the plug-in was asked for."""
    how = "uncertainty='joint', without the small-sample correction" if corrected else "uncertainty='joint'"
    if not differ:
        return f"Including the error of the estimated reference ({how}) leads to the same decisions."
    return (
        "The conclusion depends on how the reference is treated: including the error of the estimated reference "
        f"({how}) decides otherwise for {phrases.listed(differ)}."
    )


def dependence_warning(adjust: str) -> str:
    """Why BH's assumption may fail."""
    return (
        f"The adjustment '{adjust}' holds the false flagging rate for independent or positively dependent tests. "
        "Overlapping groups and a shared estimated reference break that; adjust='by' holds it under any dependence."
    )


def tree_warning(unreached: int) -> str:
    """What level-by-level adjustment leaves out."""
    return (
        "Groups were tested level by level: an intersection is tested only if one of its parents was flagged, and each "
        f"level is adjusted on its own. {unreached:,} groups were not reached."
    )


def small_warning(too_small: int, min_size: int) -> str:
    """Groups below the minimum size."""
    return (
        f"Fewer than {min_size:,} rows inside the metric's condition, so listed and not tested: {too_small:,} groups."
    )


def constant_warning(constant: int, binary: bool) -> str:
    """Groups in which the metric does not vary."""
    if binary:
        return (
            f"In {constant:,} groups the metric is 0 for every row or 1 for every row; their numbers come from the "
            "binomial likelihood at the edge of its range and are rough."
        )
    return f"In {constant:,} groups the metric has one value only: there is no variance to judge by, and no test."


# What is wrong with the groups of a status.
CONCERNS: Mapping[Status, str] = {
    Status.EMPTY: "No row is in {} (inside the metric's condition): listed and not tested.",
    Status.OUTSIDE_RANGE: "The null lies outside the range of the data for {}: p is 0 by convention.",
    Status.UNBOUNDED: "The interval has no end on at least one side for {}.",
    Status.NOT_CONVERGED: "The likelihood could not be maximised for {}: what depends on it is not reported.",
}


def resampled_warning(resamples: int) -> str:
    """A decision that another seed might turn."""
    return (
        f"The small-sample correction comes from {resamples:,} resamples, and a p-value is close to the level: another "
        "seed might decide otherwise. Raise resamples."
    )


def uncorrected_warning(groups: Sequence[str]) -> str:
    """A Bartlett factor that resampling did not give; ``groups`` is empty for a joint test."""
    where = f" for {phrases.listed(groups)}" if groups else ""
    return (
        "The small-sample correction could not be made"
        f"{where}: in too few resamples was T finite and on as many degrees of freedom. T is not corrected there."
    )


def left_out_warning(groups: Sequence[str], min_size: int) -> str:
    """Constraints that only a handful of rows would carry."""
    return (
        f"Some groups were left out of the joint test: {phrases.listed(groups)}. Their difference from other groups is "
        f"fewer than {min_size / 2:g} rows, half of min_size. Their own intervals are not affected."
    )


def spare_warning(groups: Sequence[str], least: int, tested: int) -> str:
    """Rows in no tested group that are too few to be part of the population; how many may be confidential."""
    where = f" ({phrases.listed(groups)})" if groups else ""
    remaining = "the tested groups are compared with each other" if tested > 1 else "one group alone leaves no test"
    return (
        f"The rows in no tested group{where} were left out of the joint test: they are fewer than {least}, too few to "
        f"show whether they are like the population, so {remaining}. Disparities and intervals are those from all rows."
    )


# A joint test that did not end normally.
JOINT_STATUSES: Mapping[Status, str] = {
    Status.INFEASIBLE: "The null contradicts itself: these groups are all rows together, and whatever their shares "
    "they cannot all differ from the reference in this way. T is infinite and p is 0 by convention.",
    Status.OUTSIDE_RANGE: "No weighting of the rows meets all constraints at once: T is infinite and p is 0 by "
    "convention.",
}
JOINT_APPROXIMATE = "The joint likelihood was not maximised to full accuracy: read the statistic as approximate."


def certify_finding(statistic: float, df: int, pvalue: float, method: str) -> str:
    """The joint statistic."""
    name = "empirical" if method == "el" else "Euclidean"
    return (
        f"The joint {name} likelihood ratio statistic is {phrases.number(statistic)} on {df:,} degrees of freedom "
        f"({phrases.pvalue(pvalue)})."
    )


def largest_finding(group: str, disparity: float, interval: tuple[float, float], alpha: float) -> str:
    """The group furthest from the reference."""
    return (
        f"The largest difference is {phrases.signed(disparity)}, in {group} (simultaneous "
        f"{phrases.interval(*interval, alpha)})."
    )


def tolerance_finding(outside: Sequence[str], inside: int, groups: int, tolerance: float) -> str:
    """What was shown about the tolerance."""
    shown = phrases.number(tolerance)
    if outside:
        return f"A difference larger than {shown} was shown in {phrases.listed(outside)}."
    if inside == groups:
        return f"In all {groups:,} groups the simultaneous interval lies within ±{shown}."
    return (
        f"In {inside:,} of {groups:,} groups the simultaneous interval lies within ±{shown}; in no group was a larger "
        "difference shown."
    )


def assumptions(*, joint: bool, reference: str, overlapping: bool) -> tuple[tuple[str, str], ...]:
    """What is assumed, and how it was checked or that it cannot be."""
    treated = "Its own sampling error is part of the test." if joint else "It is treated as known, without error."
    shared = (
        "Groups overlap; the joint test uses the rank of their estimating functions."
        if overlapping
        else "The groups are disjoint."
    )
    return (
        phrases.INDEPENDENT,
        phrases.SAMPLE,
        (f"The reference is {reference}.", treated),
        (
            "Groups are large enough for the chi-square limit.",
            "Groups below min_size are not tested; statuses mark the rest.",
        ),
        ("Membership is recorded correctly.", shared),
    )
