"""What predictive rate parity says: score curves by group, marginal outcomes, thresholds, measures of calibration."""

from __future__ import annotations

import math
from collections.abc import Sequence

from isonomy.results import Status, Verdict, phrases

Ends = tuple[float, float]  # low and high, or before and after

REFERENCES = (
    'C. DiCiccio, B. Hsu, Y. Yu, P. Nandy, K. Basu, "Detection and Mitigation of Algorithmic Bias via Predictive Rate '
    'Parity".',
    'M. Tygert, "Calibration of P-values for calibration and for deviation of a subpopulation from the full '
    'population", 2022.',
    'J. L. Montiel Olea, M. Plagborg-Moller, "Simultaneous confidence bands", Journal of Applied Econometrics, 2019.',
)

PARITY_QUESTION = "Does a score mean the same thing for every group?"
PARITY_METHOD = "Predictive rate parity, by kernel smoothing with sums by user"
MARGINAL_QUESTION = "Do people who only just got a positive decision have the same outcomes in every group?"
MARGINAL_METHOD = "Marginal outcomes at the threshold, by one-sided local regression with sums by user"
THRESHOLDS_QUESTION = "Which thresholds would make the outcomes at the margin equal across groups?"
THRESHOLDS_METHOD = "Group thresholds with equal marginal outcomes"
THRESHOLDS_NULL = "nothing is tested: thresholds are chosen so that estimated outcomes at the margin agree."

PARITY_LIMITS = (
    phrases.NOT_PROOF,
    "Scores near which a group has few users were not compared; differences there are unknown.",
    "A difference confined to a range of scores narrower than the bandwidth is averaged away.",
    "Equal outcomes at each score say nothing about who gets which score, nor about errors in the outcome itself.",
)
MARGINAL_LIMITS = (
    phrases.NOT_PROOF,
    "Only outcomes at the threshold are compared; those well above it may differ either way.",
    "Outcomes below the threshold were not used and are not known here.",
    "Equal outcomes at the margin say nothing about who gets which score, nor about errors in the outcome itself.",
)
THRESHOLDS_LIMITS = (
    "Thresholds are estimated: outcomes at the new margins agree up to the error of the curves.",
    "A threshold below the present one rests on outcomes extrapolated from above it and is a suggestion to be tried, "
    "not a measurement.",
    "Separate thresholds for groups may be unlawful where you are; a recalibrated score with one threshold has the "
    "same effect.",
)

_BANDWIDTH = "Compare results at half and twice the bandwidth."
_CLUSTERED = (
    "Users are independent of one another.",
    "Cannot be checked from the table; it follows from how the rows were collected.",
)
_UNCLUSTERED = (
    "Rows are independent of one another.",
    "Cannot be checked without a user column; if people repeat, pass user=.",
)
PARITY_ASSUMPTIONS = (
    (
        "Sums over users are close to normal at each compared score.",
        "Checked at each score: at least 10 effective events and non-events in both groups.",
    ),
    ("Expected outcomes change little over one bandwidth.", _BANDWIDTH),
)
MARGINAL_ASSUMPTIONS = (
    (
        "The decision is positive exactly when the score reaches the threshold.",
        "Not checked here: rows below the threshold are not read.",
    ),
    ("Expected outcomes are smooth just above the threshold.", _BANDWIDTH),
)
THRESHOLDS_ASSUMPTIONS = (
    ("Expected outcomes rise with the score.", "Curves were made nondecreasing; compare them with predictive_parity."),
    (
        "Below the present threshold outcomes continue along a straight line.",
        "Cannot be checked without outcomes there.",
    ),
)

_PAIR_VERDICTS = {
    Verdict.VIOLATION: "a difference was shown",
    Verdict.WITHIN_TOLERANCE: "any difference at the compared scores was shown to be within the tolerance",
    Verdict.INCONCLUSIVE: "no difference was shown",
}


def parity_null(level: str, tolerance: float | None) -> str:
    """The null hypothesis."""
    votes = "each user having one vote" if level == "user" else "each row having one vote"
    return f"at every score of the grid the expected outcome {_same(tolerance)} in all groups, {votes}."


def marginal_null(threshold: float, tolerance: float | None) -> str:
    """The null hypothesis."""
    at = phrases.number(threshold)
    return f"the expected outcome of people whose score is the threshold, {at}, {_same(tolerance)} in all groups."


def _same(tolerance: float | None) -> str:
    return "is the same" if tolerance is None else f"differs by at most {phrases.number(tolerance)}"


def independent(clustered: bool) -> tuple[str, str]:
    """Who is assumed to be independent of whom. ``clustered``: users are known."""
    return _CLUSTERED if clustered else _UNCLUSTERED


_OUTSIDE = (
    "Some scores lie outside [0, 1]: the bandwidth rule was scaled to their range, and a score cannot be read as a "
    "probability."
)
_NADARAYA_WATSON = (
    "The Nadaraya-Watson test rejects too often when groups have different scores, even if the score means the same "
    'for all; method="residual" does not.'
)
_NADARAYA_WATSON_AT_THE_EDGE = (
    "Nadaraya-Watson is biased at the edge of the data, where the threshold is, and differently so for groups with "
    'different outcomes above it; method="local-quadratic" is not.'
)


def score_warnings(unit: bool, method: str, *, margin: bool = False) -> list[str]:
    """What to know of the scores and of the method. ``unit``: all scores lie in [0, 1]; ``margin``: at a threshold."""
    biased = _NADARAYA_WATSON_AT_THE_EDGE if margin else _NADARAYA_WATSON
    return [*([] if unit else [_OUTSIDE]), *([biased] if method == "nadaraya-watson" else [])]


def family_warnings(
    dimensions: Sequence[str], points: int, spanning: int, lost: int, comparisons: int
) -> tuple[str, ...]:
    """What to know of one set of groups. ``lost``: comparisons at a score that were not made."""
    name, warnings = " & ".join(dimensions), []
    if points == 1:
        warnings.append(f"{name}: a single score was compared; the test is one of the groups' mean outcomes.")
    if spanning:
        warnings.append(f"{name}: {_spanning(spanning)}")
    if lost:
        warnings.append(
            f"{name}: {lost} of {comparisons} comparisons at a score were not made, because a group has "
            "fewer than 10 effective events or non-events there (30 effective users, if outcomes are not 0/1)."
        )
    return tuple(warnings)


def _spanning(users: int) -> str:
    return f"{phrases.count(users)} users appear in more than one group; the variance takes account of it."


def marginal_warnings(
    unit: bool, method: str, nobody: Sequence[str], few: Sequence[Sequence[str]], spanning: Sequence[int]
) -> tuple[str, ...]:
    """What to know before reading the numbers.

    ``nobody``: groups without a row from the threshold up; ``few``: those of each set of groups with too few outcomes
    just above it; ``spanning``: users of each set who appear in several of its groups.
    """
    warnings = score_warnings(unit, method, margin=True)
    if nobody:
        warnings.append(
            f"No row of {phrases.listed(nobody)} has a score from the threshold up; nothing can be said of them."
        )
    for labels, users in zip(few, spanning, strict=True):
        if labels:
            warnings.append(
                f"Too few people just above the threshold to estimate their outcome: {phrases.listed(labels)} (10 "
                "effective events and non-events are needed)."
            )
        if users:
            warnings.append(_spanning(users))
    return tuple(warnings)


def not_compared(dimensions: Sequence[str], *, margin: bool = False) -> str:
    """No two groups of a set could be compared."""
    name = " & ".join(dimensions)
    if margin:
        return f"{name}: no two groups have enough users just above the threshold to compare them."
    return f"{name}: no score has enough users in two groups to compare them."


def family_finding(
    dimensions: Sequence[str],
    verdict: Verdict,
    pvalue: float,
    tolerance: float | None,
    groups: int,
    scores: int,
    families: int,
) -> str:
    """The test of one set of groups, of ``families``."""
    allowed = f", adjusted for {families} sets of groups" if families > 1 else ""
    asked = f"the expected outcome {_same(tolerance)} at every score"
    shown = f"test that {asked}, {phrases.pvalue(pvalue)}{allowed}"
    if verdict is Verdict.WITHIN_TOLERANCE:
        shown = f"shown that {asked} compared"
    return f"{' & '.join(dimensions)}: {shown} ({groups} groups, {scores} scores)."


def pair_finding(
    labels: tuple[str, str], verdict: Verdict, pvalue: float, score: float, difference: float, ends: Ends, alpha: float
) -> str:
    """What was shown of two groups, and the difference at the score where it is clearest."""
    first, second = labels
    band = phrases.interval(*ends, alpha)
    return (
        f"{first} against {second}: {_PAIR_VERDICTS[verdict]} ({phrases.pvalue(pvalue)}, adjusted for all pairs "
        f"compared). Clearest at score {phrases.number(score)}: the expected outcomes of {first} and {second} "
        f"differ by {phrases.signed(difference)} ({band}, simultaneous over scores)."
    )


def order_not_shown(pvalue: float) -> str:
    """No reversed order was shown."""
    if math.isnan(pvalue):
        return "The order of scores could not be judged."
    return (
        "No group was shown to have higher outcomes at a lower score than another at a higher one "
        f"({phrases.pvalue(pvalue)})."
    )


def order_reversed(pvalue: float, better: str, at: float, difference: float, worse: str, above: float) -> str:
    """A reversed order was shown."""
    return (
        f"The order is reversed ({phrases.pvalue(pvalue)}): {better} at score {phrases.number(at)} has an expected "
        f"outcome {phrases.number(difference)} higher than {worse} at the higher score {phrases.number(above)}."
    )


def margin_finding(
    labels: tuple[str, str], verdict: Verdict, pvalue: float, difference: float, ends: Ends, alpha: float
) -> str:
    """The difference of two groups at the threshold."""
    first, second = labels
    standard = ""
    if verdict is Verdict.VIOLATION:
        higher = first if difference > 0 else second
        standard = (
            f" {higher} has the higher outcome at the margin: if outcomes are good, it is held to a higher standard."
        )
    elif verdict is Verdict.WITHIN_TOLERANCE:
        standard = " Shown to lie within the tolerance."
    return (
        f"{first} against {second}: difference of expected outcomes at the threshold {phrases.signed(difference)} "
        f"({phrases.interval(*ends, alpha)}, {phrases.pvalue(pvalue)} adjusted for all pairs compared).{standard}"
    )


def group_margin(label: str, estimate: float, ends: Ends, alpha: float, rows: float) -> str:
    """The outcome of one group at the threshold."""
    return (
        f"{label}: expected outcome at the threshold {phrases.number(estimate)} ({phrases.interval(*ends, alpha)}; "
        f"{phrases.count(rows)} rows above it)."
    )


def rate_warnings(direction: str, kept: bool, before: float, after: float, left: Sequence[str]) -> tuple[str, ...]:
    """What to know of the positive rate before using the thresholds. ``left``: the groups whose threshold stays."""
    warnings = []
    if left:
        warnings.append(
            f"Too few outcomes just above the threshold to know them (10 effective events and non-events are needed), "
            f"so the threshold stays as it is: {phrases.listed(left)}."
        )
    if direction != "both":
        verb = "raised" if direction == "raise" else "lowered"
        warnings.append(
            f"Thresholds were only {verb}: the overall positive rate moves from {phrases.number(before)} to "
            f"{phrases.number(after)} and cannot also be kept."
        )
    elif not kept:
        warnings.append(
            f"The overall positive rate could not be kept: {phrases.number(before)} before, {phrases.number(after)} "
            "after. Many equal scores at a threshold, or curves too flat, prevent it."
        )
    return tuple(warnings)


def margin_warnings(falling: Sequence[str], nobody: Sequence[str], everybody: Sequence[str]) -> tuple[str, ...]:
    """What is wrong with the new margins, and for which groups."""
    warnings = []
    if falling:
        warnings.append(
            f"Outcomes fall as the score rises: {phrases.listed(falling)}. Thresholds cannot make outcomes at the "
            "margin equal there; correct the score first."
        )
    for labels, whom in ((nobody, "Nobody"), (everybody, "Everybody")):
        if labels:
            warnings.append(f"{whom} would be positive at the new threshold: {phrases.listed(labels)}.")
    return tuple(warnings)


def still_differ(lowest: str, low: float, highest: str, high: float) -> str:
    """The outcomes at the new margins are not equal."""
    return (
        f"Outcomes at the margin still differ by more than their standard error: {phrases.number(low)} in {lowest}, "
        f"{phrases.number(high)} in {highest}."
    )


def common_margin(target: float, before: float, after: float, *, feasible: bool) -> str:
    """The outcome all thresholds aim at, and the overall positive rate."""
    aim = "Common outcome at the margin"
    if not feasible:
        aim = "Outcome at the margin aimed at, and not reached by every group"
    return (
        f"{aim}: {phrases.number(target)}. Overall positive rate {phrases.number(before, 4)} before, "
        f"{phrases.number(after, 4)} after."
    )


def threshold_finding(label: str, status: Status, threshold: Ends, outcome: Ends, rate: Ends) -> str:
    """One group's threshold, outcome at the margin and positive rate: before and after."""
    if status is Status.UNSUPPORTED:
        return f"{label}: threshold unchanged; too few outcomes just above it."
    caution = {
        Status.EXTRAPOLATED: " (extrapolated below the present threshold)",
        Status.INFEASIBLE: " (infeasible: its margin cannot have the common outcome)",
    }.get(status, "")
    return (
        f"{label}: threshold {_moved(threshold)}{caution}; outcome at the margin {_moved(outcome)}; "
        f"positive rate {_moved(rate)}."
    )


def _moved(values: Ends) -> str:
    return " to ".join(phrases.number(value) for value in values)


def threshold_summary(parts: Sequence[str]) -> str:
    """The question, then findings, warnings and limits: no test, no verdict."""
    return "\n".join([parts[0], "", *(f"  - {part}" for part in parts[1:])])


def metric_warnings(score: str, lost: Sequence[str], single: Sequence[str], binary: bool) -> tuple[str, ...]:
    """Why some of a score's measures are NaN.

    ``lost``: groups with no row near some scores of the grid; ``single``: groups in which one outcome alone occurs.
    """
    warnings = []
    if lost:
        warnings.append(
            f"{score}: no row is near some scores of the grid in {phrases.listed(lost)}, so calibration and parity "
            "errors there are not known (NaN). Give a grid of scores that every group has."
        )
    if not binary:
        warnings.append(f"{score}: AUC is defined for outcomes of 0 and 1 only (NaN).")
    elif single:
        warnings.append(f"{score}: AUC needs both outcomes; only one is seen in {phrases.listed(single)} (NaN).")
    return tuple(warnings)
