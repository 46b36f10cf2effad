"""What predictive rate parity says: score curves by group, marginal outcomes, thresholds, measures of calibration."""

from __future__ import annotations

import math
from collections.abc import Sequence

from isonomy.results import Verdict, phrases

Ends = tuple[float, float]  # low and high, or before and after
AVERAGES = ("nadaraya-watson", "published")  # methods whose differences are those of the groups' curves

REFERENCES = (
    'C. DiCiccio, B. Hsu, Y. Yu, P. Nandy, K. Basu, "Detection and Mitigation of Algorithmic Bias via Predictive Rate '
    'Parity".',
    'M. Tygert, "Calibration of P-values for calibration and for deviation of a subpopulation from the full '
    'population", 2022.',
    'J. L. Montiel Olea, M. Plagborg-Moller, "Simultaneous confidence bands", Journal of Applied Econometrics, 2019.',
    'S. Calonico, M. D. Cattaneo, M. H. Farrell, "On the effect of bias estimation on coverage accuracy in '
    'nonparametric inference", Journal of the American Statistical Association, 2018.',
)


PARITY_QUESTION = "Does a score mean the same thing for every group?"
PARITY_METHOD = "Predictive rate parity: outcomes at equal scores compared between groups, with sums by user"
COMPOSITE_QUESTION = "Does every weighted sum of these scores mean the same thing for every group?"
COMPOSITE_METHOD = "Parity of composite scores, uniformly over their weights, with sums by user"
COMPOSITE_NULL = (
    "whatever the weights, groups with the same composite score have the same expected composite outcome, "
    "at every score."
)
MARGINAL_QUESTION = "Do people who only just got a positive decision have the same outcomes in every group?"
MARGINAL_METHOD = "Marginal outcomes at the threshold, by one-sided local regression with sums by user"

PARITY_LIMITS = (
    phrases.NOT_PROOF,
    "Scores near which a group has few people were not compared; differences there are unknown.",
    "A difference confined to a range of scores narrower than the bandwidth is averaged away.",
    "Equal outcomes at each score say nothing about who gets which score, nor about errors in the outcome itself.",
)
OWN_DIFFERENCE = (
    "The difference is estimated by itself, with less bias, and is not exactly the estimate less that of the reference."
)
MARGINAL_LIMITS = (
    phrases.NOT_PROOF,
    "Only outcomes at the threshold are compared; those well above it may differ either way.",
    "Outcomes below the threshold were not used and are not known here.",
    "Equal outcomes at the margin say nothing about who gets which score, nor about errors in the outcome itself.",
)

_BANDWIDTH = "Not checked here: results at half and at twice the bandwidth would show it."
_CLUSTERED = (
    "Users are independent of one another.",
    "Cannot be checked from the table; it follows from how the rows were collected.",
)
_UNCLUSTERED = (
    "Rows are independent of one another.",
    "Cannot be checked without a column that says whose each row is; if people repeat, name it as the user.",
)
PARITY_ASSUMPTIONS = (
    (
        "Sums over users are close to normal at each compared score.",
        "Checked at each score: at least 10 people with the outcome and 10 without are expected in both groups, among "
        "those with scores within about a bandwidth.",
    ),
    ("Expected outcomes change little over one bandwidth.", _BANDWIDTH),
)
MARGINAL_ASSUMPTIONS = (
    (
        "The decision is positive exactly when the score reaches the threshold.",
        "Not checked here: decisions are not read.",
    ),
    ("Expected outcomes are smooth just above the threshold.", _BANDWIDTH),
)

_PAIR_VERDICTS = {
    Verdict.VIOLATION: "a difference was shown",
    Verdict.WITHIN_TOLERANCE: "any difference at the compared scores was shown to be within the tolerance",
    Verdict.INCONCLUSIVE: "no difference was shown",
}


def parity_null(level: str, tolerance: float | None, ends: Ends | None, *, order: bool, binary: bool) -> str:
    """The null hypothesis. ``ends``: the lowest and the highest score that are compared, if not all are."""
    votes = "each user counting once" if level == "user" else "counting rows"
    at = "every score"
    if ends is not None:
        low, high = (phrases.number(end) for end in ends)
        at = f"the score {low}" if ends[0] == ends[1] else f"every score from {low} to {high}"
    reversal = "" if not order else ", and no group has higher outcomes at lower scores than another at higher ones"
    return f"at {at} the expected outcome {_same(tolerance, binary)} in all groups{reversal}, {votes}."


def marginal_null(threshold: float, tolerance: float | None, *, binary: bool) -> str:
    """The null hypothesis."""
    at, same = phrases.number(threshold), _same(tolerance, binary)
    return f"the expected outcome of people whose score is the threshold, {at}, {same} in all groups."


def _same(tolerance: float | None, binary: bool) -> str:
    return "is the same" if tolerance is None else f"differs by at most {_size(tolerance, binary)}"


def _size(difference: float, binary: bool) -> str:
    """A difference of outcomes without its sign: of shares in points (``binary``), of any numbers as it is."""
    return phrases.points(difference) if binary else phrases.number(abs(difference))


def outcome(value: float, binary: bool) -> str:
    """An expected outcome: the share of those with outcome 1 in percent (``binary``), or any number as it is."""
    return phrases.share(value) if binary else phrases.number(value)


def _compared(difference: float, ends: Ends, alpha: float, other: str, *, binary: bool, kind: str = "") -> str:
    """'12.0 points lower than that of b (95 % interval 4.0 to 20.0)'; of any numbers, the interval has their sign."""
    if binary:
        size, interval = phrases.apart(difference, ends, alpha, kind).split(", ", 1)
    else:
        size = f"{phrases.number(abs(difference))} {'lower' if difference < 0 else 'higher'}"
        interval = f"{kind}{phrases.interval(*ends, alpha)} of the difference"
    return f"{size} than that of {other} ({interval})"


def independent(clustered: bool, rows: tuple[str, str]) -> tuple[str, str]:
    """Who is assumed to be independent of whom. ``clustered``: users are known; ``rows``: what is assumed of those."""
    return _CLUSTERED if clustered else _UNCLUSTERED if rows == phrases.INDEPENDENT else rows


_OUTSIDE = (
    "Some scores lie below 0 or above 1: the bandwidth rule was scaled to their range, and a score cannot be read as "
    "a probability."
)
_NADARAYA_WATSON = (
    "The Nadaraya-Watson test rejects too often when groups have different scores, even if the score means the same "
    "for all; the omnibus test, which is the default, does not."
)
_NADARAYA_WATSON_AT_THE_EDGE = (
    "Nadaraya-Watson is biased at the edge of the data, where the threshold is, and differently so for groups with "
    "different outcomes above it; local quadratic regression, which is the default, is not."
)


_MANY = 0.2  # of the comparisons: fewer that were not made change little of what was seen


def score_warnings(unit: bool, method: str, *, margin: bool = False) -> list[str]:
    """What to know of the scores and of the method. ``unit``: all scores lie in [0, 1]; ``margin``: at a threshold."""
    biased = _NADARAYA_WATSON_AT_THE_EDGE if margin else _NADARAYA_WATSON
    return [*([] if unit else [_OUTSIDE]), *([biased] if method in AVERAGES else [])]


# How many would tell of groups that are withheld.
_SPANNING = "some people or clusters are in more than one group, which every error allows for."


def family_warnings(
    dimensions: Sequence[str], points: int, spanning: int, lost: int, comparisons: int
) -> tuple[str, ...]:
    """What to know of one set of groups. ``lost``: comparisons at a score that were not made."""
    name, warnings = " & ".join(dimensions), []
    if points == 1:
        warnings.append(f"{name}: a single score was compared; the test is one of the groups' mean outcomes.")
    if spanning:
        warnings.append(f"{name}: {_SPANNING}")
    if lost >= _MANY * comparisons:
        warnings.append(
            f"{name}: {lost} of {comparisons} comparisons at a score were not made: near that score, where both "
            "groups have people, at least 10 of each group with the outcome and 10 without are needed (30 people, if "
            "outcomes are not 0 and 1)."
        )
    return tuple(warnings)


def marginal_warnings(
    unit: bool,
    method: str,
    nobody: Sequence[str],
    few: Sequence[Sequence[str]],
    spanning: Sequence[int],
    within: Sequence[float],
) -> tuple[str, ...]:
    """What to know before reading the numbers.

    ``nobody``: groups without a row from the threshold up; ``few``: those of each set of groups with too few outcomes
    just above it; ``spanning``: users of each set who appear in several of its groups; ``within``: the bandwidth of
    each set.
    """
    warnings = score_warnings(unit, method, margin=True)
    if nobody:
        warnings.append(
            f"No row of {phrases.listed(nobody)} has a score from the threshold up; nothing can be said of them."
        )
    for labels, users, width in zip(few, spanning, within, strict=True):
        if labels:
            warnings.append(
                f"Too few people just above the threshold to estimate their outcome: {phrases.listed(labels)} (at "
                f"least 10 with the outcome and 10 without are needed within {phrases.number(width)} of it, and some "
                "of them beside it: where there are few different scores, give one of them as the threshold)."
            )
        if users:
            warnings.append(_SPANNING.capitalize())
    return tuple(warnings)


def not_compared(dimensions: Sequence[str], *, margin: bool = False, ordered: bool = False) -> str:
    """No two groups of a set could be compared. ``ordered``: their order was tested."""
    name = " & ".join(dimensions)
    if margin:
        return f"{name}: no two groups have enough people just above the threshold to compare them."
    judged = "; only the order of scores can be judged" if ordered else ""
    return f"{name}: no score has enough people in two groups to compare them{judged}."


ORDER_NOT_TESTED = "The order of scores was not tested."
NOWHERE = "Nothing can be said of single scores: none has enough people near it in two groups."


def family_finding(
    dimensions: Sequence[str],
    verdict: Verdict,
    pvalue: float,
    tolerance: float | None,
    groups: int,
    scores: int,
    families: int,
    *,
    binary: bool,
) -> str:
    """The test of one set of groups, of ``families``."""
    allowed = f", adjusted for {families} sets of groups" if families > 1 else ""
    compared = f"{groups} groups compared " + (f"at {scores} scores" if scores else "over all scores together")
    evidence = f"{phrases.pvalue(pvalue)}{allowed}; {compared}"
    beyond = "" if tolerance is None else f" by more than {_size(tolerance, binary)}"
    shown = {
        Verdict.VIOLATION: f"people with the same score were shown to have expected outcomes that differ{beyond} "
        f"({evidence}).",
        Verdict.INCONCLUSIVE: "people with the same score were not shown to have expected outcomes that differ"
        f"{beyond} ({evidence}).",
        Verdict.WITHIN_TOLERANCE: f"it was shown that the expected outcome {_same(tolerance, binary)} at every score "
        f"compared ({compared}).",
    }
    return f"By {' & '.join(dimensions)}, {shown[verdict]}"


def pair_finding(
    labels: tuple[str, str],
    verdict: Verdict,
    pvalue: float,
    score: float,
    difference: float,
    ends: Ends,
    alpha: float,
    *,
    binary: bool,
) -> str:
    """What was shown of two groups, and the difference at the score where it is clearest."""
    first, second = labels
    return (
        f"{first} against {second}: {_PAIR_VERDICTS[verdict]} ({phrases.pvalue(pvalue)}, adjusted for all pairs "
        f"compared). Clearest at score {phrases.number(score)}: the expected outcome of {first} is "
        f"{_compared(difference, ends, alpha, second, binary=binary, kind='simultaneous ')}."
    )


def order_not_shown(pvalue: float, verdict: Verdict) -> str:
    """No reversed order was shown."""
    if verdict is Verdict.WITHIN_TOLERANCE:
        return (
            "Shown that no group has outcomes at lower scores that are higher, by more than the tolerance, than "
            "another's at higher scores."
        )
    if math.isnan(pvalue):
        return "The order of scores could not be judged."
    return (
        "No group was shown to have higher outcomes at a lower score than another at a higher one "
        f"({phrases.pvalue(pvalue)})."
    )


def order_reversed(
    pvalue: float, better: str, at: float, difference: float, worse: str, above: float, *, binary: bool
) -> str:
    """A reversed order was shown."""
    return (
        f"The order is reversed ({phrases.pvalue(pvalue)}): {better} at scores around {phrases.number(at)} has a mean "
        f"outcome {_size(difference, binary)} higher than {worse} at the higher scores around {phrases.number(above)}."
    )


def composite_finding(
    labels: tuple[str, str], verdict: Verdict, pvalue: float, weights: Sequence[tuple[str, float]], difference: float
) -> str:
    """What was shown of two groups under all weights, and the weights under which it is clearest."""
    first, second = labels
    named = ", ".join(f"{phrases.number(weight)} for {name}" for name, weight in weights)
    return (
        f"{first} against {second}: {_PAIR_VERDICTS[verdict]} for any weights ({phrases.pvalue(pvalue)}, adjusted for "
        f"all weights and pairs). Clearest with the weights {named}, where expected composite outcomes differ by "
        f"{phrases.signed(difference)}."
    )


def margin_finding(
    labels: tuple[str, str],
    verdict: Verdict,
    pvalue: float,
    difference: float,
    ends: Ends,
    alpha: float,
    *,
    binary: bool,
) -> str:
    """The difference of two groups at the threshold."""
    first, second = labels
    if verdict is Verdict.VIOLATION:
        higher = first if difference > 0 else second
        standard = (
            f" The higher outcome at the margin is that of {higher}: if outcomes are good, this group is held to a "
            "higher standard."
        )
    elif verdict is Verdict.WITHIN_TOLERANCE:
        standard = " Shown to lie within the tolerance."
    else:
        standard = " No difference was shown."
    return (
        f"{first} against {second}: at the threshold the expected outcome of {first} is "
        f"{_compared(difference, ends, alpha, second, binary=binary)}; {phrases.pvalue(pvalue)}, adjusted for all "
        f"pairs compared.{standard}"
    )


def group_margin(label: str, estimate: float, ends: Ends, alpha: float, rows: float, *, binary: bool) -> str:
    """The outcome of one group at the threshold."""
    low, high = (outcome(end, binary) for end in ends)
    return (
        f"{label}: expected outcome at the threshold {outcome(estimate, binary)} ({100 * (1 - alpha):g} % interval "
        f"{low} to {high}; {phrases.count(rows)} rows above it)."
    )


def metric_warnings(score: str, lost: Sequence[str], single: Sequence[str], binary: bool) -> tuple[str, ...]:
    """Why some of a score's measures are NaN.

    ``lost``: groups with no row near some scores of the grid; ``single``: groups in which one outcome alone occurs.
    """
    warnings = []
    if lost:
        warnings.append(
            f"{score}: no row is near some scores of the grid in {phrases.listed(lost)}, so calibration and parity "
            "errors there are not known. A grid of scores that every group has would give them."
        )
    if not binary:
        warnings.append(f"{score}: AUC is defined for outcomes of 0 and 1 only.")
    elif single:
        warnings.append(f"{score}: AUC needs both outcomes; only one is seen in {phrases.listed(single)}.")
    return tuple(warnings)


def unknown_groups(keys: Sequence[tuple[object, ...]]) -> str:
    """Groups that a calibrator was not fitted on."""
    return f"Groups that were not there in the fit get the calibrator of everybody together: {_keys(keys)}."


def present_groups(keys: Sequence[tuple[object, ...]]) -> str:
    """Groups that have no threshold of their own."""
    return f"Groups that were not there in the fit are decided by the present threshold: {_keys(keys)}."


def undecided_groups(keys: Sequence[tuple[object, ...]]) -> str:
    """Groups that have no threshold, and what to do."""
    return f'{_keys(keys)} were not there in the fit; refit with them, or use unknown="present".'


def _keys(keys: Sequence[tuple[object, ...]]) -> str:
    return phrases.listed([", ".join(str(value) for value in key) for key in keys])
