"""What predictive rate parity says: score curves by group, marginal outcomes, thresholds, calibrators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from isonomy.results import phrases

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


def parity_null(level: str, tolerance: float | None) -> str:
    """The null hypothesis."""
    votes = "each user having one vote" if level == "user" else "each row having one vote"
    return f"at every score of the grid the expected outcome {_same(tolerance)} in all groups, {votes}."


def _same(tolerance: float | None) -> str:
    return "is the same" if tolerance is None else f"differs by at most {phrases.number(tolerance)}"


def parity_warnings(families: Sequence[Any], unit: bool, method: str) -> tuple[str, ...]:
    """What to know before reading the numbers."""
    said = []
    if not unit:
        said.append(
            "Some scores lie outside [0, 1]: the bandwidth rule was scaled to their range, and a score cannot be read "
            "as a probability."
        )
    if method == "nadaraya-watson":
        said.append(
            "The Nadaraya-Watson test rejects too often when groups have different scores, even if the score means "
            'the same for all; method="residual" does not.'
        )
    for family in families:
        name = " & ".join(family.dimensions)
        if family.grid.size == 1:
            said.append(f"{name}: a single score was compared; the test is one of the groups' mean outcomes.")
        if family.spanning:
            said.append(
                f"{name}: {phrases.count(family.spanning)} users appear in more than one group; the variance takes "
                "account of it."
            )
        lost = int((~family.supported).sum())
        if lost:
            said.append(
                f"{name}: {lost} of {family.supported.size} comparisons at a score were not made, because a group has "
                "fewer than 10 effective events or non-events there (30 effective users, if outcomes are not 0/1)."
            )
    return tuple(said)


def parity_findings(result: Any) -> tuple[str, ...]:
    """Each family's test, its largest difference, and the order."""
    said = []
    several = len(result.families) > 1
    for family in _deciding_first(result):
        name = " & ".join(family.dimensions)
        if not family.supported.any():
            said.append(f"{name}: no score has enough users in two groups to compare them.")
            continue
        allowed = f", adjusted for {len(result.families)} sets of groups" if several else ""
        asked = f"the expected outcome {_same(result.tolerance)} at every score"
        shown = f"test that {asked}, {phrases.pvalue(family.pvalue)}{allowed}"
        if family.verdict.value == "within_tolerance":
            shown = f"shown that {asked} compared"
        said.append(f"{name}: {shown} ({len(family.groups)} groups, {family.grid.size} scores).")
        order = _deciding_pairs(family)
        said += [_pair_finding(result, family, int(pair)) for pair in order[:5] if family.supported[pair].any()]
        said.append(_order_finding(family, result.alpha))
    return tuple(said)


def _deciding_first(result: Any) -> list[Any]:
    """What decides the verdict comes first: one family that was not compared keeps all from being within tolerance."""
    return sorted(
        result.families,
        key=lambda family: (family.verdict is not result.verdict, np.nan_to_num(family.pvalue, nan=np.inf)),
    )


def _deciding_pairs(family: Any) -> Any:
    """The compared pairs whose verdict is the family's, by adjusted p-value; then the others."""
    others = [verdict is not family.verdict for verdict in family.pair_verdicts]
    order = np.lexsort((family.pair_adjusted, others))
    return order[~np.isnan(family.pair_adjusted[order])]


def _pair_finding(result: Any, family: Any, pair: int) -> str:
    first, second = family.labels(pair)
    t = np.abs(family.difference[pair] / family.se[pair])
    at = int(np.nanargmax(t))
    verdict = {
        "violation": "a difference was shown",
        "within_tolerance": "any difference at the compared scores was shown to be within the tolerance",
        "inconclusive": "no difference was shown",
    }[family.pair_verdicts[pair].value]
    band = phrases.interval(family.low[pair, at], family.high[pair, at], result.alpha)
    return (
        f"{first} against {second}: {verdict} ({phrases.pvalue(family.pair_adjusted[pair])}, adjusted for all pairs "
        f"compared). Clearest at score {phrases.number(family.grid[at])}: the expected outcomes of {first} and {second} "
        f"differ by {phrases.signed(family.difference[pair, at])} ({band}, simultaneous over scores)."
    )


def _order_finding(family: Any, alpha: float) -> str:
    order = family.order
    if np.isnan(order.pvalue):
        return "The order of scores could not be judged."
    if order.better < 0 or order.pvalue > alpha:
        return (
            "No group was shown to have higher outcomes at a lower score than another at a higher one "
            f"({phrases.pvalue(order.pvalue)})."
        )
    return (
        f"The order is reversed ({phrases.pvalue(order.pvalue)}): {family.groups[order.better].label} at score "
        f"{phrases.number(order.at)} has an expected outcome {phrases.number(order.difference)} higher than "
        f"{family.groups[order.worse].label} at the higher score {phrases.number(order.above)}."
    )


def parity_assumptions(result: Any) -> tuple[tuple[str, str], ...]:
    """What is assumed and whether it can be checked."""
    return (
        (
            "Users are independent of one another." if result.clustered else "Rows are independent of one another.",
            "Cannot be checked from the table; it follows from how the rows were collected."
            if result.clustered
            else "Cannot be checked without a user column; if people repeat, pass user=.",
        ),
        (
            "Sums over users are close to normal at each compared score.",
            "Checked at each score: at least 10 effective events and non-events in both groups.",
        ),
        (
            "Expected outcomes change little over one bandwidth.",
            "Compare results at half and twice the bandwidth.",
        ),
    )


def marginal_null(threshold: float, tolerance: float | None) -> str:
    """The null hypothesis."""
    at = phrases.number(threshold)
    return f"the expected outcome of people whose score is the threshold, {at}, {_same(tolerance)} in all groups."


def marginal_warnings(families: Sequence[Any], unit: bool, method: str, nobody: Sequence[str]) -> tuple[str, ...]:
    """What to know before reading the numbers."""
    said = []
    if not unit:
        said.append("Some scores lie outside [0, 1]: the bandwidth rule was scaled to their range.")
    if nobody:
        said.append(
            f"No row of {phrases.listed(nobody)} has a score from the threshold up; nothing can be said of them."
        )
    if method == "nadaraya-watson":
        said.append(
            "Nadaraya-Watson is biased at the edge of the data, where the threshold is, and differently so for groups "
            'with different outcomes above it; method="local-quadratic" is not.'
        )
    for family in families:
        few = [group.label for group, e in zip(family.groups, family.estimate, strict=True) if np.isnan(e)]
        if few:
            said.append(
                f"Too few people just above the threshold to estimate their outcome: {phrases.listed(few)} (10 effective "
                "events and non-events are needed)."
            )
        if family.spanning:
            said.append(
                f"{phrases.count(family.spanning)} users appear in more than one group; the variance takes account of it."
            )
    return tuple(said)


def marginal_findings(result: Any) -> tuple[str, ...]:
    """Each pair, then the outcome at the threshold by group."""
    said = []
    for family in _deciding_first(result):
        order = _deciding_pairs(family)
        said += [_margin_finding(result, family, int(pair)) for pair in order[:5] if family.supported[pair]]
        if not family.supported.any():
            name = " & ".join(family.dimensions)
            said.append(f"{name}: no two groups have enough users just above the threshold to compare them.")
        for k, group in enumerate(family.groups):
            if not np.isnan(family.estimate[k]):
                span = phrases.interval(family.estimate_low[k], family.estimate_high[k], result.alpha)
                said.append(
                    f"{group.label}: expected outcome at the threshold {phrases.number(family.estimate[k])} ({span}; "
                    f"{phrases.count(family.size[k])} rows above it)."
                )
    return tuple(said)


def _margin_finding(result: Any, family: Any, pair: int) -> str:
    i, j = family.pairs[pair]
    span = phrases.interval(family.low[pair], family.high[pair], result.alpha)
    standard = ""
    if family.pair_verdicts[pair].value == "violation":
        higher = family.groups[i if family.difference[pair] > 0 else j].label
        standard = (
            f" {higher} has the higher outcome at the margin: if outcomes are good, it is held to a higher standard."
        )
    elif family.pair_verdicts[pair].value == "within_tolerance":
        standard = " Shown to lie within the tolerance."
    return (
        f"{family.groups[i].label} against {family.groups[j].label}: difference of expected outcomes at the threshold "
        f"{phrases.signed(family.difference[pair])} ({span}, {phrases.pvalue(family.pair_adjusted[pair])} adjusted for all "
        f"pairs compared).{standard}"
    )


def marginal_assumptions(result: Any) -> tuple[tuple[str, str], ...]:
    """What is assumed and whether it can be checked."""
    return (
        parity_assumptions(result)[0],
        (
            "The decision is positive exactly when the score reaches the threshold.",
            "Not checked here: rows below the threshold are not read.",
        ),
        ("Expected outcomes are smooth just above the threshold.", "Compare results at half and twice the bandwidth."),
    )


THRESHOLDS_NULL = "nothing is tested: thresholds are chosen so that estimated outcomes at the margin agree."
THRESHOLDS_ASSUMPTIONS = (
    ("Expected outcomes rise with the score.", "Curves were made nondecreasing; compare them with predictive_parity."),
    (
        "Below the present threshold outcomes continue along a straight line.",
        "Cannot be checked without outcomes there.",
    ),
)


def threshold_warnings(
    direction: str, reached: bool, before: float, after: float, rows: float, left: Sequence[str]
) -> tuple[str, ...]:
    """What to know before using the thresholds. ``left``: the groups whose threshold stays."""
    said = []
    if left:
        said.append(
            f"Too few outcomes just above the threshold to know them (10 effective events and non-events are needed), "
            f"so the threshold stays as it is: {phrases.listed(left)}."
        )
    if direction != "both":
        verb = "raised" if direction == "raise" else "lowered"
        said.append(
            f"Thresholds were only {verb}: the overall positive rate moves from {phrases.number(before / rows)} to "
            f"{phrases.number(after / rows)} and cannot also be kept."
        )
    elif not reached or abs(after - before) > 1e-3 * rows:
        said.append(
            f"The overall positive rate could not be kept: {phrases.number(before / rows)} before, "
            f"{phrases.number(after / rows)} after. Many equal scores at a threshold, or curves too flat, prevent it."
        )
    return tuple(said)


def margin_warnings(labels: Sequence[str], known: Any, falling: Any, rate: Any, after: Any, se: Any) -> tuple[str, ...]:
    """What is wrong with the new margins. One entry a group; only those whose margin is ``known`` are judged."""
    said = []
    if fall := [label for label, down in zip(labels, falling, strict=True) if down]:
        said.append(
            f"Outcomes fall as the score rises: {phrases.listed(fall)}. Thresholds cannot make outcomes at the margin "
            "equal there; correct the score first."
        )
    for value, whom in ((0.0, "Nobody"), (1.0, "Everybody")):
        if extreme := [label for label, ok, r in zip(labels, known, rate, strict=True) if ok and r == value]:
            said.append(f"{whom} would be positive at the new threshold: {phrases.listed(extreme)}.")
    at = [k for k, ok in enumerate(known) if ok]
    low, high = min(at, key=lambda k: after[k]), max(at, key=lambda k: after[k])
    if after[high] - after[low] > max(float(np.hypot(se[low], se[high])), 1e-6):
        said.append(
            f"Outcomes at the margin still differ by more than their standard error: {phrases.number(after[low])} in "
            f"{labels[low]}, {phrases.number(after[high])} in {labels[high]}."
        )
    return tuple(said)


def threshold_findings(result: Any) -> tuple[str, ...]:
    """The thresholds and what they do."""
    aim = "Common outcome at the margin"
    if any(status.value == "infeasible" for status in result.status):
        aim = "Outcome at the margin aimed at, and not reached by every group"
    said = [
        f"{aim}: {phrases.number(result.target)}. Overall positive rate "
        f"{phrases.number(result.overall_before, 4)} before, {phrases.number(result.overall_after, 4)} after."
    ]
    for k, group in enumerate(result.groups):
        if result.status[k].value == "unsupported":
            said.append(f"{group.label}: threshold unchanged; too few outcomes just above it.")
            continue
        guess = " (extrapolated below the present threshold)" if result.status[k].value == "extrapolated" else ""
        guess = (
            " (infeasible: its margin cannot have the common outcome)"
            if result.status[k].value == "infeasible"
            else guess
        )
        said.append(
            f"{group.label}: threshold {phrases.number(result.threshold)} to "
            f"{phrases.number(result.thresholds[k])}{guess}; outcome at the margin "
            f"{phrases.number(result.marginal_before[k])} to {phrases.number(result.marginal_after[k])}; "
            f"positive rate {phrases.number(result.rate_before[k])} to {phrases.number(result.rate_after[k])}."
        )
    return tuple(said)


def threshold_summary(result: Any) -> str:
    """Thresholds in words: no test, no verdict."""
    parts = [result.question, *result.findings(), *result.warnings, *result.limits()]
    return "\n".join([parts[0], "", *(f"  - {part}" for part in parts[1:])])


def metric_warnings(
    score: str, labels: Sequence[str], far: Sequence[int] | Any, points: int, auc: Any, binary: bool
) -> list[str]:
    """Why some of a score's measures are NaN. ``far``: grid points near which a group has no row, of ``points``."""
    said = []
    lost = [f"{label} ({n} of {points})" for label, n in zip(labels[1:], far, strict=True) if n]
    if lost:
        said.append(
            f"{score}: no row is near some scores of the grid in {phrases.listed(lost)}, so calibration and parity "
            "errors there are not known (NaN). Give a grid of scores that every group has."
        )
    if not binary:
        said.append(f"{score}: AUC is defined for outcomes of 0 and 1 only (NaN).")
    elif one := [label for label, value in zip(labels, auc, strict=True) if np.isnan(value)]:
        said.append(f"{score}: AUC needs both outcomes; only one is seen in {phrases.listed(one)} (NaN).")
    return said
