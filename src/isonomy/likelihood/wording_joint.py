"""Sentences about all groups taken together: what `certify` says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from isonomy.likelihood.wording import DIFFERENCES, NOUNS, amount, counted, disparity
from isonomy.numerics.status import Status
from isonomy.results import phrases

QUESTION = "Taken together, do the groups differ from the reference by more than chance?"
RESTS_ON_THE_TOLERANCE = (
    "The verdict rests on the tolerance and the intervals. The joint p-value above is that of exact equality and does "
    "not decide it."
)


def joint_null(
    measured: str, groups: int, null: float | None, equal: str = "", *, share: bool = False, several: bool = False
) -> str:
    """The null hypothesis of a certification; no one ``null`` if each group has its own.

    Of ``several`` metrics, ``groups`` counts pairs of a group and a metric.
    """
    everywhere = f"In all {counted(groups, several=several)} at once" if groups > 1 else "In the one group tested"
    if equal and null == 0:
        return f"{everywhere}, the {equal.format('equals')}."
    shown = "as given" if null is None else amount(null, share and bool(equal))
    return f"{everywhere}, {measured} is {shown}."


def corrected_warning(factor: float) -> str:
    """A joint statistic that was corrected because it had to be."""
    return (
        "The groups are small for so many of them, or for so skewed a metric: without a correction the joint test "
        f"would reject true hypotheses too often. Its statistic was divided by {phrases.number(factor)}, its mean over "
        "its degrees of freedom when there is no difference."
    )


def left_out_warning(groups: Sequence[str], min_size: int) -> str:
    """Constraints that only a handful of rows would carry."""
    return (
        f"Some groups were left out of the joint test: {phrases.listed(groups)}. They differ from other groups by "
        f"fewer than {min_size / 2:g} rows, half of the least size of a tested group. Their own intervals are not "
        "affected."
    )


def spare_warning(groups: Sequence[str], least: int, tested: int, *, equal: bool = False) -> str:
    """Rows in no tested group that are too few to be part of the population, or all ``equal`` in some group.

    How many there are may be confidential.
    """
    where = f" ({phrases.listed(groups)})" if groups else ""
    remaining = "the tested groups are compared with each other" if tested > 1 else "one group alone leaves no test"
    reason = f"they are fewer than {least}, too few to show whether they are like the population"
    if equal:
        reason = "all rows of a group have the same value, which shows nothing about how much that group's mean varies"
    return (
        f"The rows in no tested group{where} were left out of the joint test: {reason}, so {remaining}. Disparities "
        "and intervals are those from all rows."
    )


# A joint test that did not end normally.
JOINT_STATUSES: Mapping[Status, str] = {
    Status.INFEASIBLE: "The null contradicts itself: these groups are all rows together, and whatever their shares "
    "they cannot all differ from the reference in this way. T is infinite and p is 0 by convention.",
    Status.OUTSIDE_RANGE: "No weighting of the rows meets all constraints at once: T is infinite and p is 0 by "
    "convention.",
}
JOINT_APPROXIMATE = "The joint likelihood was not maximised to full accuracy: read the statistic as approximate."


# What a joint test holds against its law.
JOINT_STATISTICS = {
    "el": "joint empirical likelihood ratio statistic",
    "eel": "joint Euclidean likelihood ratio statistic",
    "cmh": "Cochran, Mantel and Haenszel's statistic",
    "covariance": "statistic of all groups' differences together",
}


def certify_finding(statistic: float, df: int, pvalue: float, method: str, *, shown: bool, tested: str = "") -> str:
    """The joint statistic; ``shown``: it is more than chance explains; ``tested``: from what, if not from equality."""
    apart = f" from {tested}," if tested else ""
    differ = (
        f"the groups differ{apart} by more than chance explains"
        if shown
        else f"no difference{apart} beyond chance was shown"
    )
    return (
        f"Taken together, {differ}: {phrases.pvalue(pvalue)} for the hypothesis tested ({JOINT_STATISTICS[method]} "
        f"{phrases.number(statistic)} on {df:,} {'degree' if df == 1 else 'degrees'} of freedom)."
    )


def largest_finding(
    group: str, value: float, scale: str, interval: tuple[float, float], alpha: float, *, share: bool = False
) -> str:
    """The group furthest from the reference."""
    shown = f"simultaneous {phrases.interval(*interval, alpha)}"
    if share and scale == "difference":
        return f"The largest difference: {group}, {phrases.apart(value, interval, alpha, 'simultaneous ')}."
    if scale == "difference":
        return f"The largest difference is {phrases.signed(value)}, in {group} ({shown})."
    return f"Furthest from the reference is {group}, with {disparity(value, scale)} ({shown})."


def tolerated(low: float, high: float, scale: str) -> str:
    """The tolerance: '±0.05', or '0.8 to 1.25'."""
    return f"±{phrases.number(high)}" if scale in DIFFERENCES else f"{phrases.number(low)} to {phrases.number(high)}"


def tolerance_finding(
    outside: Sequence[str],
    inside: int,
    groups: int,
    tolerance: tuple[float, float],
    scale: str,
    *,
    share: bool = False,
    several: bool = False,
) -> str:
    """What was shown about the tolerance, which reaches from one disparity to another.

    Of ``several`` metrics, pairs of a group and a metric are counted.
    """
    points = share and scale == "difference"
    largest = phrases.points(tolerance[1]) if points else phrases.number(tolerance[1])
    shown = f"±{largest}" if points else tolerated(*tolerance, scale)
    if outside:
        beyond = f"difference larger than {largest}" if scale == "difference" else f"{NOUNS[scale]} beyond {shown}"
        return f"{'An' if scale == 'odds_ratio' else 'A'} {beyond} was shown in {phrases.listed(outside)}."
    if inside == groups:
        every = counted(groups, several=several)
        return f"In all {every} the difference was shown to lie within {shown}, for all of them together."
    return (
        f"In {inside:,} of {counted(groups, several=several)} the difference was shown to lie within {shown}; in no "
        "group was a larger difference shown."
    )
