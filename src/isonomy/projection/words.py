"""Every sentence about projections. A sentence is a function of the evidence and the line it is about."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import isinf, isnan
from typing import TYPE_CHECKING

from isonomy.numerics.status import Status
from isonomy.projection.program.criteria import OUTCOMES
from isonomy.projection.program.law import Tolerance, one_side
from isonomy.results import Note, Verdict, phrases, register

if TYPE_CHECKING:
    from isonomy.projection.project import ProjectionResult

METHOD = "Optimal-transport projection"
REFERENCES = (
    "Si, N., Murthy, K., Blanchet, J. and Nguyen, V. A. (2021). Testing group fairness via optimal transport "
    "projections. ICML 2021.",
)
USER_DEFINED = "discerning"  # the name of a user-defined criterion
WITHIN, BEYOND = "every difference is within the tolerance", "some difference is at least the tolerance"  # tested
UP, DOWN = "refused to selected", "selected to refused"  # what a flip does to a decision


def directions(chosen: str) -> tuple[str, str]:
    """What a flip does to a decision, up and down, in the words of the audit: 'not approved to approved'."""
    return (UP, DOWN) if chosen == "selected" else (f"not {chosen} to {chosen}", f"{chosen} to not {chosen}")


def headings(chosen: str) -> dict[str, str]:
    """Headings with the word for people whose decision is 1; none if it is the common one."""
    if chosen == "selected":
        return {}
    moves = zip(("moved_up", "moved_down"), directions(chosen), strict=True)
    rates = {"estimate": f"Share {chosen}", "reference": f"Reference: share {chosen}"}
    return rates | {name: f"From {way}" for name, way in moves}


_AMONG = {1: "among those with outcome 1", 0: "among those with outcome 0", None: "among all"}


# ---- the null, and what is compared


def null(criterion: str, tolerance: Tolerance | None) -> str:
    """The hypothesis; rates are compared within the outcomes of the criterion."""
    if criterion == USER_DEFINED:
        return f"The mean of C phi(U, E U) is {goal(criterion, tolerance)} in every component."
    within = " and ".join(_AMONG[outcome] for outcome in OUTCOMES[criterion] if outcome is not None)
    rates = f"the groups' selection rates are {goal(criterion, tolerance)}."
    return phrases.capital(f"{within}, {rates}" if within else rates)


def goal(criterion: str, tolerance: Tolerance | None) -> str:
    """What rates are under the null, or the moments of a user-defined criterion."""
    given, side = one_side(tolerance)
    amount = phrases.number(given) if given and not isinstance(given, Mapping) else "0"
    if isinstance(given, Mapping):
        amount = f"the tolerance ({', '.join(_entries(given))})"
    if criterion == USER_DEFINED:
        both, low = f"within {amount} of 0" if given else "0", f"at least {'-' if given else ''}{amount}"
        return {"both": both, "above": f"at most {amount}", "below": low}[side]
    theirs = "those of their references"
    if side == "both":
        return f"within {amount} of {theirs}" if given else "equal"
    return f"at most {amount} {side} {theirs}" if given else f"not {side} {theirs}"


def _entries(tolerance: Mapping[str, object]) -> Iterator[str]:
    for name, inner in tolerance.items():
        yield f"{name}: {', '.join(_entries(inner))}" if isinstance(inner, Mapping) else f"{name} {inner:g}"


def _compared(r: ProjectionResult) -> str:
    return "moments" if r.criterion == USER_DEFINED else "rates"


# ---- findings


def difference(r: ProjectionResult, i: int) -> str:
    """One group's rate, its reference's, and their difference with its interval; or one moment."""
    if isnan(r.estimate[i]):
        interval = phrases.interval(r.ci_low[i], r.ci_high[i], r.alpha)
        return f"{r.labels[i]}: {phrases.signed(r.disparity[i])} ({interval})."
    return (
        f"{r.labels[i]}: {phrases.share(r.estimate[i])} {r.chosen} {_AMONG[r.outcome[i]]}, compared with "
        f"{phrases.share(r.reference[i])} for {r.against[i]}; "
        f"{phrases.apart(r.disparity[i], (r.ci_low[i], r.ci_high[i]), r.alpha)}."
    )


def change(r: ProjectionResult) -> str:
    target = goal(r.criterion, r.tolerance)
    if r.test_status is Status.INFEASIBLE:
        return "There is no plan: flipping every decision that can be flipped at a finite distance is not enough."
    if r.test_status is Status.NOT_CONVERGED:
        return "There is no plan, because the least change was not found."
    if r.moved == 0:
        return f"No decision would have to change: the observed {_compared(r)} are already {target}."
    far = f"{phrases.number(r.statistic)} ({phrases.number(r.overall_distance)} per decision on average)"
    return (
        f"The least change after which these {_compared(r)} are {target} flips {phrases.count(r.moved)} of "
        f"{phrases.count(r.rows)} decisions ({phrases.share(r.overall_share)})"
        f"{'' if isnan(r.statistic) else f', over a total distance of {far}'}."
    )


def evidence(r: ProjectionResult) -> str:
    what, p, wald = _compared(r), phrases.pvalue(r.pvalue), phrases.pvalue(r.wald_pvalue)
    if any(note.code == "pooled" for note in r.notes):
        return phrases.JOINT_WITHHELD
    if not r.tested:
        return f"No p-value is given for this distance. The Wald test of the same {what} gives {wald}."
    if r.test_status is not Status.OK and isnan(r.pvalue):
        return "No p-value could be computed; the warnings give the reason."
    if r.test_status is not Status.OK:
        return f"The p-value is that of the Wald test of the same {what} ({p}); the warnings give the reason."
    spread = f" ({phrases.number(r.tested_statistic)} with scores spread over their steps)"
    return (
        "The test of whether chance explains the total distance of the least change"
        f"{'' if r.tested_statistic == r.statistic else spread} gives {p}: under the null hypothesis, chance alone "
        f"exceeds {phrases.number(r.critical_value)} in at most {100 * r.alpha:g} % of samples. "
        f"The Wald test of the same {what} gives {wald}."
    )


def equivalence(r: ProjectionResult) -> str:
    if any(note.code == "pooled" for note in r.notes):
        return phrases.JOINT_WITHHELD
    target, p = goal(r.criterion, r.tolerance), phrases.pvalue(r.equivalence_pvalue)
    return f"The equivalence test, in which a small p-value shows that these {_compared(r)} are {target}, gives {p}."


def largest_difference(r: ProjectionResult) -> tuple[str, ...]:
    if r.curve is None:
        return ()
    confidence = f"{100 * (1 - r.alpha):g} % confidence"
    _, side = one_side(r.tolerance)
    origin = "0" if r.criterion == USER_DEFINED else "that of its reference"
    apart = f"{_compared(r)[:-1]} {f'differs from {origin}' if side == 'both' else f'is {side} {origin}'} by more than"
    least = f"With {confidence}, some {apart} {phrases.number(r.curve.least)}."
    if isnan(r.curve.least):
        least = "No tolerance could be tested."
    elif r.curve.least == 0:
        least = f"No positive lower bound for the largest difference can be given with {confidence}."
    most = f"With {confidence}, no {apart} {phrases.number(r.curve.most)}."
    if isinf(r.curve.most):
        most = f"No upper bound for the largest difference can be given with {confidence}."
    return least, most


def movers(r: ProjectionResult, i: int) -> str:
    moves = zip((r.moved_up[i], r.moved_down[i]), directions(r.chosen), strict=True)
    ways = [f"{phrases.count(n)} from {way}" for n, way in moves if n > 0.5]
    average = "" if isnan(r.mean_distance[i]) else f", by {phrases.number(r.mean_distance[i])} on average"
    number = " and ".join(ways) or "less than one row"
    return f"{_who(r, i)}: {phrases.share(r.share_moved[i])} would have to move ({number}){average}."


def planning(r: ProjectionResult, i: int) -> str:
    """What these rows could have shown about a group, and what its tolerance would need."""
    if isnan(r.detectable[i]):
        return f"{_who(r, i)}: these rows would not show even the largest possible difference in 80 % of samples."
    amount = phrases.number(r.detectable[i]) if r.criterion == USER_DEFINED else phrases.points(r.detectable[i])
    shown = f"{_who(r, i)}: these rows would show a difference of {amount} in 80 % of samples."
    if isnan(r.rows_needed[i]):
        return shown
    return (
        f"{shown} Showing that equal {_compared(r)} are within the tolerance would take "
        f"{phrases.count(r.rows_needed[i])} rows; there are {phrases.count(r.n[i])}."
    )


def _who(r: ProjectionResult, i: int) -> str:
    return r.labels[i] if r.criterion == USER_DEFINED else f"{r.labels[i]}, {_AMONG[r.outcome[i]]}"


# ---- the verdict


def headline(r: ProjectionResult) -> str:
    target, (given, side) = goal(r.criterion, r.tolerance), one_side(r.tolerance)
    badge, moments = phrases.BADGES[r.verdict.value], r.criterion == USER_DEFINED
    if r.verdict is Verdict.WITHIN_TOLERANCE and (moments or side != "both"):
        other = "" if side == "both" else " Differences in the other direction were not tested."
        return f"{badge}: the {_compared(r)} were shown to be {target}.{other}"
    if r.verdict is Verdict.VIOLATION and moments:
        return f"{badge}: the moments of this criterion are not {target}."
    return r.definition.verdict(r.verdict.value, tolerant=bool(given), beyond=bool(given))


# ---- notes


def _untested(note: Note, reason: str) -> str:
    outcome = note.values["outcome"]
    among = "" if outcome is None else f" {_AMONG[outcome]}"
    return f"Not tested{among}, because {reason}: {phrases.listed(note.groups)}."


register(
    {
        "project_redundant": "These comparisons were left out because they follow from the others: {groups}.",
        "project_constant": lambda note: _untested(
            note, "all rows that are compared have the same decision and the difference is exactly 0"
        ),
        "project_few_rows": lambda note: phrases.few(note.values["least"], "rows in", note.groups),
        "project_pooled": "Some groups are always or never selected, so their own rates have no variance. Variances "
        "are computed at the rates that hold under the null hypothesis.",
        "project_few_events": lambda note: (
            f"{_untested(note, 'too few rows were selected or too few were refused')} With weights or clusters, each "
            "side of a comparison needs 8 effective rows (or clusters) that were selected and 8 that were refused, or "
            "enough rows to expect 8 of each under the null hypothesis. Merge small groups, or leave them out."
        ),
        "project_squared": "The squared kernel cost has an infinite density at the boundary, which the theorem "
        "excludes. The plan is given without a p-value. The cost without the square can be tested.",
        "project_infeasible": "The projection is infeasible: too many rows cannot move (infinite distance). This is a "
        "fact about the distances, not evidence about the null hypothesis. The p-value is that of the Wald test.",
        "project_atoms": "Many rows have the same distance to the threshold or lie on it, and the distances are not on "
        "a scale of equal steps. The test by distance does not apply; the p-value is that of the Wald test.",
        "project_unsupported": "There are too few rows for the test by distance: fewer than 5 rows of a compared group "
        "lie near the threshold or, at the edge of the tolerance, fewer than 10 would be selected or refused. The "
        "p-value is that of the Wald test.",
        "project_no_variance": "The variance of the differences cannot be estimated: everybody, or everybody in some "
        "group, has the same decision. Nothing is tested, and there is no p-value.",
        "project_fixed_moments": "The moments of this criterion do not vary, or not independently of one another. "
        "Nothing is tested, and there is no p-value.",
        "project_few_clusters": "A compared group has fewer than 10 effective clusters, too few to estimate their "
        "variance. Nothing is tested, and there is no p-value.",
        "project_not_converged": "The solver stopped before it found the least change, because of a limit or of "
        "rounding errors. There is no statistic and no plan; the p-value is that of the Wald test.",
        "project_published": "The test is the published procedure of the paper: its bandwidth, the groups' own rates, "
        "and no check of its assumptions. It depends on the units of the distance and rejects too often in small "
        "groups.",
        "project_smoothed": "Scores lie on a lattice. For the test, but not for the plan, the rows at each place were "
        "spread evenly over its step.",
        "project_permuted": "At the rates of the null hypothesis, fewer than 5 rows would be selected, or refused, in "
        "some group. The p-value of the Wald test is computed by permuting the decisions among rows with the same "
        "outcome.",
        "project_scored": "The distance is measured on the score of the {model}, not in its features. The plan does "
        "not say how anybody's features would have to change.",
        "project_searched": "The boundary of the {model} is known only by its decisions. Distances are approximate: "
        "each leads to the nearest change of the decision found on the way to similar people with the other decision.",
    }
)

ASSUMPTIONS = (
    phrases.INDEPENDENT,
    phrases.SAMPLE,
    (
        "Distances have a density near the threshold: there is no gap, and few of them are equal.",
        "Equal distances near the threshold are counted. If they lie on a scale of equal steps, they are spread over "
        "the steps; otherwise the Wald test is reported instead.",
    ),
    ("The shares of the groups among rows near the threshold do not jump there.", "Not checked."),
    ("The classifier was not fitted on these rows.", phrases.UNCHECKED),
)


def limits(r: ProjectionResult) -> tuple[str, ...]:
    """What is not shown. Without a tolerance, no number of rows could show that rates are alike."""
    never = (
        "A large p-value is not evidence of equal treatment, however many rows there are. Only a test with a tolerance "
        "can show that differences are small."
    )
    return (
        "The result does not mean that anybody should be moved: the plan is the cheapest change in the chosen "
        "distance, not a remedy.",
        "Distances depend on the units chosen and on how they are added up. Rescaling all features by the same factor "
        "changes no p-value; rescaling one of them can.",
        "The test concerns selection rates only. It says nothing about the fairness of the outcomes or about errors in "
        "their recording.",
        phrases.NOT_PROOF if one_side(r.tolerance)[0] else never,
    )
