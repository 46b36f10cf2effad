"""Every sentence of the optimal-transport projection."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import isinf, isnan
from typing import Literal

from isonomy.numerics.status import Status
from isonomy.results import Verdict, phrases

QUESTION = "How little would have to change for this classifier's selection rates to look equal, and for whom?"
METHOD = "Optimal-transport projection"
REFERENCES = (
    "Si, N., Murthy, K., Blanchet, J. and Nguyen, V. A. (2021). Testing group fairness via optimal transport "
    "projections. ICML 2021.",
)

POOLED = (
    "Some groups are selected always or never, so their own rates give no variance; variances are taken at the rates "
    "that hold under the null."
)
SQUARED = (
    "The squared kernel cost has an infinite density at the boundary, which the theorem excludes: the plan is given, a "
    "p-value is not. The cost that is not squared can be tested."
)
_NEVER_PROOF = (
    "A large p-value is not evidence of equal treatment, however many rows there are. Only with a tolerance can it be "
    "shown that differences are small."
)

PUBLISHED = (
    "The law is the paper's, by name: its bandwidth, the groups' own rates, and no check of what it assumes. It "
    "depends on the units of the distance and rejects too often in small groups."
)
SMOOTHED = (
    "Scores lie on a lattice: for the test, not for the plan, the rows at each place were spread evenly over its step."
)
PERMUTED = (
    "Fewer than 5 rows would be selected, or refused, in some group at the rates of the null: the Wald test's p-value "
    "is by permutation of the decisions among rows with the same outcome."
)

Side = Literal["both", "upper", "lower"]  # of a tolerance
Tolerance = float | Mapping[str, object] | None
_BEYOND: dict[Side, str] = {"upper": "above", "lower": "below"}
WITHIN, BEYOND = "every difference is within the tolerance", "some difference is at least the tolerance"  # tested
UP, DOWN = "refused to selected", "selected to refused"  # what a flip does to a decision

OWN = "discerning"  # the name of a criterion of one's own
_AMONG = {1: "among those with outcome 1", 0: "among those with outcome 0", None: "among all"}
_WITHIN = {
    "equal_opportunity": "Among those with outcome 1, ",
    "predictive_equality": "Among those with outcome 0, ",
    "equalized_odds": "Among those with outcome 1 and among those with outcome 0, ",
    "statistical_parity": "",
}


def null(criterion: str, tolerance: Tolerance, side: Side) -> str:
    """The null hypothesis in words."""
    limit = _amount(tolerance)
    if criterion == OWN:
        return f"The mean of C phi(U, E U) is {_near_zero(tolerance, side)} in every component."
    if side != "both":
        rates = f"no group is selected at a rate more than {limit} {_BEYOND[side]} its reference's."
    elif tolerance:
        sides = "" if isinstance(tolerance, Mapping) else " either way"  # a mapping may name one side alone
        rates = f"every group is selected at the same rate as its reference, within {limit}{sides}."
    else:
        rates = "every group is selected at the same rate as its reference."
    sentence = _WITHIN[criterion] + rates
    return sentence[0].upper() + sentence[1:]


def _amount(tolerance: Tolerance) -> str:
    """A tolerance as a number, or each of them by what it is about."""
    if not isinstance(tolerance, Mapping):
        return phrases.number(tolerance) if tolerance else "0"
    return f"the tolerance ({', '.join(_entries(tolerance))})"


def _entries(tolerance: Mapping[str, object]) -> Iterator[str]:
    for name, inner in tolerance.items():
        if isinstance(inner, Mapping):
            yield f"{name}: {', '.join(_entries(inner))}"
        else:
            yield f"{name} {inner:g}"


def flip(decision: int) -> str:
    """What happens to a row with this decision when it moves."""
    return DOWN if decision else UP


def disparity(
    name: str,
    against: str,
    label: int | None,
    rates: tuple[float, float, float],
    ends: tuple[float, float],
    alpha: float,
    chosen: str = "selected",
) -> str:
    """One group's rate, its reference's, and their difference with its interval."""
    rate, other, difference = rates
    return (
        f"{name}: {phrases.share(rate)} {chosen} {_AMONG[label]}, {against} {phrases.share(other)}; "
        f"{phrases.apart(difference, ends, alpha)}."
    )


def moment(name: str, value: float, low: float, high: float, alpha: float) -> str:
    """One moment of a criterion of one's own."""
    return f"{name}: {phrases.signed(value)} ({phrases.interval(low, high, alpha)})."


def change(
    criterion: str, tolerance: Tolerance, side: Side, moved: float, rows: float, share: float, total: float, mean: float
) -> str:
    """The least change."""
    what, goal = compared(criterion), _goal(criterion, tolerance, side)
    if moved == 0:
        return f"No decision would have to change: the {what} seen are already {goal}."
    return (
        f"The least change that makes these {what} {goal} flips {phrases.count(moved)} of {phrases.count(rows)} "
        f"decisions ({_percent(share)}), a total distance of {phrases.number(total)} "
        f"({phrases.number(mean)} per decision on average)."
    )


def _percent(share: float) -> str:
    return f"{share:.1%}".replace("%", " %")


def least_difference(criterion: str, least: float, side: Side, alpha: float) -> str:
    """The confidence statement from below."""
    if isnan(least):
        return "No tolerance could be tested."
    confidence = f"With {_percent(1 - alpha).replace('.0', '')} confidence"
    if least == 0:
        return f"{confidence} nothing can be said of how large the largest difference at least is."
    return (
        f"{confidence} some {compared(criterion)[:-1]} {_apart(criterion, side)} by more than {phrases.number(least)}."
    )


def largest_difference(criterion: str, most: float, side: Side, alpha: float) -> str:
    """The confidence statement from above."""
    confidence = f"With {_percent(1 - alpha).replace('.0', '')} confidence"
    if isinf(most):
        return f"{confidence} nothing can be said of how large the largest difference at most is."
    return f"{confidence} no {compared(criterion)[:-1]} {_apart(criterion, side)} by more than {phrases.number(most)}."


def _apart(criterion: str, side: Side) -> str:
    """How a comparison can be off."""
    origin = "0" if criterion == OWN else "its reference's"
    return f"differs from {origin}" if side == "both" else f"is {_BEYOND[side]} {origin}"


def planning(criterion: str, name: str, label: int | None, detectable: float, needed: float, rows: float) -> str:
    """What these rows could have shown about a group, and what its tolerance would need."""
    who = name if criterion == OWN else f"{name}, {_AMONG[label]}"
    if isnan(detectable):
        return f"{who}: no difference is large enough to be shown with these rows in 80 % of samples."
    amount = phrases.number(detectable) if criterion == OWN else phrases.points(detectable)
    shown = f"{who}: a difference of {amount} would be shown with these rows in 80 % of samples"
    if isnan(needed):
        return f"{shown}."
    return (
        f"{shown}; that equal {compared(criterion)} are within tolerance would be, with {phrases.count(needed)} "
        f"rows of it (here {phrases.count(rows)})."
    )


def no_plan(status: Status) -> str:
    """No set of flips is enough, or none was found."""
    if status is Status.INFEASIBLE:
        return "No set of decisions that can be flipped at finite distance is enough: there is no plan."
    return "The least change was not found: there is no plan."


def evidence(
    criterion: str,
    p: float,
    critical: float,
    alpha: float,
    wald: float,
    status: Status,
    tested: bool,
    spread: float | None = None,
) -> str:
    """How surprising the least change is; ``spread``: what it is with scores spread over the steps of a lattice."""
    what = compared(criterion)
    if not tested:
        return f"No p-value is given for this distance. Wald test of the same {what}: {phrases.pvalue(wald)}."
    if status is not Status.OK and p != p:
        return "No p-value could be computed: see the warnings."
    if status is not Status.OK:
        return f"The p-value is that of the Wald test of the same {what} ({phrases.pvalue(p)}): see the warnings."
    large = "" if spread is None else f" ({phrases.number(spread)} with scores spread over their steps)"
    return (
        f"Could chance explain how far decisions would have to move in all{large}? {phrases.pvalue(p)}: with equal "
        f"{what}, chance alone exceeds {phrases.number(critical)} in {100 * alpha:g} % of samples. By another test of "
        f"the same {what}, Wald's: {phrases.pvalue(wald)}."
    )


def movers(criterion: str, name: str, label: int | None, share: float, up: float, down: float, mean: float) -> str:
    """Who would have to move."""
    who = f"Rows that {name!r} is about" if criterion == OWN else f"{name}, {_AMONG[label]}"
    ways = [f"{phrases.count(n)} from {way}" for n, way in ((up, UP), (down, DOWN)) if n > 0.5]
    average = "" if isnan(mean) else f", by {phrases.number(mean)} on average"
    return f"{who}: {_percent(share)} would move ({' and '.join(ways) or 'under one row'}){average}."


def equivalence(criterion: str, p: float, tolerance: Tolerance, side: Side) -> str:
    """Shown to lie within the tolerance, or not."""
    goal = _goal(criterion, tolerance, side)
    return f"Test that shows, when p is small, that these {compared(criterion)} are {goal}: {phrases.pvalue(p)}."


def compared(criterion: str) -> str:
    """What is compared: a tuple of one's own may be about anything."""
    return "moments" if criterion == OWN else "rates"


def _goal(criterion: str, tolerance: Tolerance, side: Side) -> str:
    """What rates that satisfy the null are."""
    if criterion == OWN:
        return _near_zero(tolerance, side)
    if not tolerance and side == "both":
        return "equal"
    limit = _amount(tolerance)
    return f"equal to within {limit}" if side == "both" else f"at most {limit} {_BEYOND[side]} their reference's"


def _near_zero(tolerance: Tolerance, side: Side) -> str:
    """What moments of one's own that satisfy the null are."""
    limit = _amount(tolerance)
    both = f"within {limit} of 0" if tolerance else "0"
    return {"both": both, "upper": f"at most {limit}", "lower": f"at least {'-' if tolerance else ''}{limit}"}[side]


def within_one_side(tolerance: Tolerance, side: Side) -> str:
    """The verdict about a tolerance on one side, which says nothing of the other."""
    return (
        f"Within tolerance: every rate was shown to be less than {_amount(tolerance)} {_BEYOND[side]} its "
        "reference's. Differences the other way were not tested."
    )


def own_verdict(verdict: Verdict, tolerance: Tolerance, side: Side) -> str:
    """The verdict about a criterion of one's own, whose moments need not be differences of rates."""
    goal = _near_zero(tolerance, side)
    if verdict is Verdict.VIOLATION:
        return f"Difference shown: the moments of this criterion are not {goal}."
    if verdict is Verdict.WITHIN_TOLERANCE:
        return f"Within tolerance: every moment of this criterion was shown to be {goal}."
    if tolerance:
        return f"Inconclusive: the data show neither that the moments are not {goal} nor that they are."
    return (
        f"Inconclusive: it was not shown that any moment fails to be {goal}. Without a tolerance that is all it can "
        "mean: no number of rows can show that a moment is exactly 0."
    )


# What a status other than OK means here.
STATUSES: Mapping[Status, str] = {
    Status.INFEASIBLE: "The projection is infeasible: too many rows cannot move (infinite distance). That is a "
    "fact about the distances, not evidence about the null; the p-value is that of the Wald test.",
    Status.ATOMS: "Many rows have the same distance to the threshold, or lie on it, and not on a scale of equal "
    "steps, so the test by distance does not apply; the p-value is that of the Wald test.",
    Status.UNSUPPORTED: "Too few rows for the test by distance: fewer than 5 of some compared group lie near the "
    "threshold or, at the edge of the tolerance, fewer than 10 would be selected, or refused. The p-value is that of "
    "the Wald test.",
    Status.CONSTANT: "The decisions do not vary, so nothing can be tested: no p-value.",
    Status.FEW_CLUSTERS: "Some compared group has fewer than 10 effective clusters: too few to judge their spread by, "
    "so nothing is tested: no p-value.",
    Status.NOT_CONVERGED: "The solver stopped before it found the least change (a limit, or rounding errors), so "
    "there is no statistic and no plan; the p-value is that of the Wald test.",
}


def constant(names: Sequence[str], labels: Sequence[int | None]) -> str:
    """Comparisons where every rate is 0, or every rate 1."""
    comparisons = [f"{name} {_AMONG[label]}" for name, label in zip(names, labels, strict=True)]
    return (
        "Not tested, because everybody compared has the same decision and the difference is exactly 0: "
        f"{phrases.listed(comparisons)}."
    )


def few_events(names: Sequence[str], labels: Sequence[int | None]) -> str:
    """Comparisons with too few events for weights or clusters; a criterion of one's own has no ``labels``."""
    comparisons = [f"{name} {_AMONG[label]}" for name, label in zip(names, labels, strict=True)] if labels else names
    return (
        f"Not tested, because too few rows were selected or too few were refused: {phrases.listed(comparisons)}. With "
        "weights or clusters, each side of a comparison needs 8 effective rows (or clusters) that were selected and 8 "
        "that were refused, or enough rows to expect 8 of each under the null hypothesis. Merge small groups, or leave "
        "them out."
    )


# Comparisons that follow from the others.
REDUNDANT = "Left out because they follow from the other comparisons: {}."


def negative(rows: float) -> str:
    """A distance below 0."""
    return f"distance: {phrases.count(rows)} rows have a negative distance; a distance is at least 0."


def disagreement(rows: float) -> str:
    """The decision is not the one the distance's model makes."""
    return (
        f"prediction: {phrases.count(rows)} rows are on the other side of the boundary than their decision says. The "
        "prediction must be 1 exactly where the score (or decision function) is at or above the threshold; for "
        "decisions made otherwise, compute the distances yourself and give their column as distance."
    )


NO_THRESHOLD = (
    "threshold: none was given, and no one threshold separates the decisions: some rows are selected whose scores are "
    "below those of rows that are not. Give the threshold, or a distance column."
)


ASSUMPTIONS = (
    phrases.INDEPENDENT,
    phrases.SAMPLE,
    (
        "Near the threshold, distances have no gap, and not many of them are equal.",
        "Equal ones near it are counted; those on a scale of equal steps are spread over the steps, and with others "
        "the Wald test is reported instead.",
    ),
    (
        "The shares of the groups among rows near the threshold do not jump there.",
        "Not checked.",
    ),
    ("The classifier was not fitted on these rows.", phrases.UNCHECKED),
)

_LIMITS = (
    "It does not say that anybody should be moved: the plan is the cheapest change in the chosen distance, not a "
    "remedy.",
    "Distances depend on the units chosen, and on how they are added up. Rescaling all features alike changes no "
    "p-value; rescaling one of them can.",
    "It concerns selection rates only, not the outcomes' own fairness or errors in their recording.",
)


def limits(tolerance: Tolerance) -> tuple[str, ...]:
    """What is not shown. Without a tolerance no number of rows could show that rates are alike."""
    return (*_LIMITS, phrases.NOT_PROOF if tolerance else _NEVER_PROOF)
