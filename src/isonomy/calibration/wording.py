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
    'S. Calonico, M. D. Cattaneo, M. H. Farrell, "On the effect of bias estimation on coverage accuracy in '
    'nonparametric inference", Journal of the American Statistical Association, 2018.',
)

HARDT = 'M. Hardt, E. Price, N. Srebro, "Equality of opportunity in supervised learning", NeurIPS, 2016.'

PARITY_QUESTION = "Does a score mean the same thing for every group?"
PARITY_METHOD = "Predictive rate parity: equal outcomes at each score, and scores in order, with sums by user"
COMPOSITE_QUESTION = "Does every weighted sum of these scores mean the same thing for every group?"
COMPOSITE_METHOD = "Parity of composite scores, uniformly over their weights, with sums by user"
COMPOSITE_NULL = (
    "whatever the weights, groups with the same composite score have the same expected composite outcome, "
    "at every score."
)
MARGINAL_QUESTION = "Do people who only just got a positive decision have the same outcomes in every group?"
MARGINAL_METHOD = "Marginal outcomes at the threshold, by one-sided local regression with sums by user"
THRESHOLDS_QUESTION = "Which thresholds would make a rate, or the outcomes at the margin, equal across groups?"
THRESHOLDS_METHOD = "Group thresholds that keep the number of people selected"
METRICS = {
    "outcome_at_margin": "outcome at the margin",
    "selection_rate": "selection rate",
    "tpr": "true positive rate",
    "fpr": "false positive rate",
    "equalized_odds": "mean of the true and the false positive rate",
    "predictive_value": "share of positives among those selected",
}

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
    "Thresholds are estimated: on new rows the groups agree up to the error of the estimates. Intervals hold for the "
    "groups that were moved, as if it had been known beforehand which these are.",
    "Making one rate equal makes others unequal, unless groups have equal outcomes at every score.",
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
        "Not checked here: rows below the threshold are not read.",
    ),
    ("Expected outcomes are smooth just above the threshold.", _BANDWIDTH),
)
THRESHOLDS_ASSUMPTIONS = (
    (
        "New rows are like these: the same scores and outcomes in each group.",
        "Cannot be checked from the table; compare the rates again once the thresholds are used.",
    ),
)
MARGIN_ASSUMPTIONS = (
    (
        "Expected outcomes rise with the score.",
        "Curves were made nondecreasing; the test whether the score means the same for all shows them as they are.",
    ),
    (
        "Below the present threshold outcomes continue along a straight line.",
        "Cannot be checked without outcomes there.",
    ),
)
EXTRAPOLATED = (
    "A threshold below the present one rests on outcomes extrapolated from above it and is a suggestion to be tried, "
    "not a measurement."
)

_PAIR_VERDICTS = {
    Verdict.VIOLATION: "a difference was shown",
    Verdict.WITHIN_TOLERANCE: "any difference at the compared scores was shown to be within the tolerance",
    Verdict.INCONCLUSIVE: "no difference was shown",
}


def parity_null(level: str, tolerance: float | None, *, binary: bool) -> str:
    """The null hypothesis."""
    votes = "each user having one vote" if level == "user" else "each row having one vote"
    return (
        f"at every score the expected outcome {_same(tolerance, binary)} in all groups, and no group has higher "
        f"outcomes at lower scores than another at higher ones, {votes}."
    )


def marginal_null(threshold: float, tolerance: float | None, *, binary: bool) -> str:
    """The null hypothesis."""
    at, same = phrases.number(threshold), _same(tolerance, binary)
    return f"the expected outcome of people whose score is the threshold, {at}, {same} in all groups."


def _same(tolerance: float | None, binary: bool) -> str:
    return "is the same" if tolerance is None else f"differs by at most {_size(tolerance, binary)}"


def _size(difference: float, binary: bool) -> str:
    """A difference of outcomes without its sign: of shares in points (``binary``), of any numbers as it is."""
    return phrases.points(difference) if binary else phrases.number(abs(difference))


def _outcome(value: float, binary: bool) -> str:
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


def independent(clustered: bool) -> tuple[str, str]:
    """Who is assumed to be independent of whom. ``clustered``: users are known."""
    return _CLUSTERED if clustered else _UNCLUSTERED


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
    if lost >= _MANY * comparisons:
        warnings.append(
            f"{name}: {lost} of {comparisons} comparisons at a score were not made, because one of two groups has too "
            "few people within a bandwidth of it whose scores the other group has too: at least 10 with the outcome "
            "and 10 without are needed (30 people, if outcomes are not 0 and 1)."
        )
    return tuple(warnings)


def _spanning(users: int) -> str:
    return f"{phrases.count(users)} users appear in more than one group; the variance takes account of it."


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
            warnings.append(_spanning(users))
    return tuple(warnings)


def not_compared(dimensions: Sequence[str], *, margin: bool = False) -> str:
    """No two groups of a set could be compared."""
    name = " & ".join(dimensions)
    if margin:
        return f"{name}: no two groups have enough users just above the threshold to compare them."
    return f"{name}: no score has enough users in two groups to compare them; only the order of scores can be judged."


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
    compared = f"{groups} groups compared at {scores} scores"
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
    standard = ""
    if verdict is Verdict.VIOLATION:
        higher = first if difference > 0 else second
        standard = (
            f" {higher} has the higher outcome at the margin: if outcomes are good, it is held to a higher standard."
        )
    elif verdict is Verdict.WITHIN_TOLERANCE:
        standard = " Shown to lie within the tolerance."
    return (
        f"{first} against {second}: at the threshold the expected outcome of {first} is "
        f"{_compared(difference, ends, alpha, second, binary=binary)}; {phrases.pvalue(pvalue)}, adjusted for all "
        f"pairs compared.{standard}"
    )


def group_margin(label: str, estimate: float, ends: Ends, alpha: float, rows: float, *, binary: bool) -> str:
    """The outcome of one group at the threshold."""
    low, high = (_outcome(end, binary) for end in ends)
    return (
        f"{label}: expected outcome at the threshold {_outcome(estimate, binary)} ({100 * (1 - alpha):g} % interval "
        f"{low} to {high}; {phrases.count(rows)} rows above it)."
    )


def thresholds_null(target: str, threshold: float) -> str:
    """What was tested before thresholds were moved."""
    metrics = [METRICS[name] for name in (("tpr", "fpr") if target == "equalized_odds" else (target,))]
    many = "are the same" if len(metrics) > 1 else "is the same"
    return (
        f"at the present threshold, {phrases.number(threshold)}, the {' and the '.join(metrics)} {many} in all groups."
    )


def thresholds_headline(shown: bool, moved: bool, change: str) -> str:
    """What was shown of the present threshold, and what was done."""
    if shown:
        return "Difference shown: groups differ at the present threshold. These thresholds would make them equal."
    if change == "all" and moved:
        return (
            "Inconclusive: groups were not shown to differ at the present threshold. Thresholds were moved all the "
            "same, as asked, and may make equal groups unequal."
        )
    return "Inconclusive: groups were not shown to differ at the present threshold, and they keep a common one."


def rate_warnings(
    target: str, direction: str, kept: bool, before: float, after: float, left: Sequence[str]
) -> tuple[str, ...]:
    """What to know of the positive rate before using the thresholds. ``left``: the groups whose threshold stays."""
    warnings = []
    if left:
        few = (
            "outcomes just above the threshold"
            if target == "outcome_at_margin"
            else f"rows to know the {METRICS[target]}"
        )
        warnings.append(
            f"Too few {few} (at least 10 with the outcome and 10 without are needed), so the threshold "
            f"stays as it is: {phrases.listed(left)}."
        )
    if direction != "both":
        verb = "raised" if direction == "raise" else "lowered"
        warnings.append(
            f"Thresholds were only {verb}: the share selected of everybody moves from {phrases.share(before)} to "
            f"{phrases.share(after)} and cannot also be kept."
        )
    elif not kept:
        warnings.append(
            f"The share selected of everybody could not be kept: {phrases.share(before)} was wanted, "
            f"{phrases.share(after)} is reached. Many equal scores at a threshold, or curves too flat, prevent it."
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


def still_differ(
    metric: str, lowest: str, low: float, highest: str, high: float, *, binary: bool, odds: bool = False
) -> str:
    """A metric is not equal at the new thresholds. ``odds``: two rates were to be equal, with one threshold each."""
    remedy = " One threshold per group cannot make both rates equal; drawing lots near it can." if odds else ""
    return (
        f"After the change groups still differ in the {METRICS[metric]} by more than its standard error: "
        f"{_level(metric, low, binary)} in {lowest}, {_level(metric, high, binary)} in {highest}.{remedy}"
    )


def common_target(target: str, value: float, before: float, after: float, *, binary: bool, feasible: bool) -> str:
    """The number all thresholds aim at, and the overall positive rate."""
    aim = f"Common {METRICS[target]}" if feasible else f"The {METRICS[target]} aimed at, and not reached by every group"
    return (
        f"{aim}: {_level(target, value, binary)}. Selected of everybody: {phrases.share(before)} before, "
        f"{phrases.share(after)} after."
    )


def threshold_finding(
    label: str,
    status: Status,
    threshold: Ends,
    ends: Ends,
    lottery: Ends | None,
    metrics: Sequence[tuple[str, Ends]],
    rate: Ends,
    alpha: float,
    *,
    binary: bool,
) -> str:
    """One group's threshold, metrics and positive rate: before and after.

    ``lottery``: the score from which on people are drawn by lot, and their chance.
    """
    if status is Status.UNSUPPORTED:
        return f"{label}: threshold unchanged; too few rows to know what it does."
    caution = {
        Status.EXTRAPOLATED: " (extrapolated below the present threshold)",
        Status.INFEASIBLE: " (infeasible: it cannot have the common value)",
    }.get(status, "")
    changes = [f"{METRICS[name]} {_from_to(name, values, binary)}" for name, values in metrics]
    if not any(name == "selection_rate" for name, _ in metrics):
        changes.append(f"selection rate {_from_to('selection_rate', rate, binary)}")
    moved = _moved(threshold)
    if threshold[0] != threshold[1]:
        moved += f" ({phrases.interval(*ends, alpha)})"
    drawn = (
        ""
        if lottery is None
        else f", by lot from {phrases.number(lottery[0])} up (chance {phrases.number(lottery[1])})"
    )
    return f"{label}: threshold {moved}{drawn}{caution}; {'; '.join(changes)}."


def cost_finding(before: float, after: float, ends: Ends, alpha: float) -> str:
    """What the thresholds cost in accuracy."""
    shares = f"{phrases.share(before)} before, {phrases.share(after)} after"
    return f"Accuracy {shares}; {phrases.apart(after - before, ends, alpha)}."


def selected_finding(label: str, change: float, ends: Ends, alpha: float) -> str:
    """How many more or fewer people of a group are selected."""
    more = "more" if change >= 0 else "fewer"
    size = sorted(abs(end) for end in ends) if ends[0] * ends[1] >= 0 else None
    within = (
        f"{phrases.count(size[0])} to {phrases.count(size[1])}"
        if size
        else (f"{phrases.count(ends[0])} to {phrases.count(ends[1])}")
    )
    return f"{label}: {phrases.count(abs(change))} {more} selected ({100 * (1 - alpha):g} % interval {within})."


def _level(name: str, value: float, binary: bool) -> str:
    """A metric's value: all but an outcome, which may be any number, are shares of people."""
    return _outcome(value, binary or name != "outcome_at_margin")


def _from_to(name: str, values: Ends, binary: bool) -> str:
    return " to ".join(_level(name, value, binary) for value in values)


def _moved(values: Ends) -> str:
    return " to ".join(phrases.number(value) for value in values)


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
