"""What is said of thresholds: those at which groups agree, what they do and what they cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from isonomy.calibration.wording import Ends, outcome
from isonomy.results import Status, phrases

HARDT = 'M. Hardt, E. Price, N. Srebro, "Equality of opportunity in supervised learning", NeurIPS, 2016.'
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
_ALSO_CALLED = {"predictive_value": "ppv"}  # what labels of metrics may call it
THRESHOLDS_LIMITS = (
    "Thresholds are estimated: on new rows the groups agree up to the error of the estimates. Intervals hold for the "
    "groups that were moved, as if it had been known beforehand which these are.",
    "Making one rate equal makes others unequal, unless groups have equal outcomes at every score.",
    "Separate thresholds for groups may be unlawful where you are; a recalibrated score with one threshold has the "
    "same effect.",
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


def in_words(labels: Mapping[str, str]) -> dict[str, str]:
    """What every metric is called in a sentence: in the readers' words where there are ``labels``, else in ours."""
    own = {name: labels.get(name) or labels.get(_ALSO_CALLED.get(name, "")) for name in METRICS}
    return {name: phrases.noun(label) if label else METRICS[name] for name, label in own.items()}


def headings(metrics: Sequence[str], words: Mapping[str, str]) -> dict[str, str]:
    """What the columns of metrics are called in a table."""
    columns = {"marginal" if name == "outcome_at_margin" else name: words[name] for name in metrics}
    columns["rate"] = words["selection_rate"]
    return {
        f"{name}_{when}": f"{called} {when}" for name, called in columns.items() for when in ("before", "after")
    } | {f"{name}_se": f"{called} standard error" for name, called in columns.items()}


def thresholds_null(target: str, threshold: float, words: Mapping[str, str] = METRICS) -> str:
    """What was tested before thresholds were moved."""
    metrics = [words[name] for name in (("tpr", "fpr") if target == "equalized_odds" else (target,))]
    many = "are the same" if len(metrics) > 1 else "is the same"
    return (
        f"at the present threshold, {phrases.number(threshold)}, the {' and the '.join(metrics)} {many} in all groups."
    )


def thresholds_headline(shown: bool, moved: bool, change: str) -> str:
    """What was shown of the present threshold, and what was done."""
    if shown:
        return (
            "Difference shown: groups differ at the present threshold. With these thresholds they would agree, but for "
            "differences that chance may explain."
        )
    if change == "all" and moved:
        return (
            "Inconclusive: groups were not shown to differ at the present threshold. Thresholds were moved all the "
            "same, as asked, and may make equal groups unequal."
        )
    return "Inconclusive: groups were not shown to differ at the present threshold, and they keep a common one."


def too_few(target: str, threshold: float, one: bool, words: Mapping[str, str]) -> str:
    """Why no thresholds are set: fewer than two groups tell what the present one does."""
    where = "just above it" if target == "outcome_at_margin" else "in a group"
    return (
        f"threshold: {'one group has' if one else 'no group has'} enough rows to know the {words[target]} at "
        f"{threshold:g}, and thresholds are set by comparing two or more groups. At least 10 people with the outcome "
        f"and 10 without are needed {where}: join small groups, or give a threshold where there are more."
    )


def unknown_outcomes(known: float, rows: float) -> str:
    """Outcomes at the margin, where nobody knows those of people below it."""
    return (
        f"The outcome is known of {phrases.share(known / rows)} of everybody. Shares selected count everybody, "
        "outcomes at the margin those whose outcome is known. What a lower threshold would bring is a guess from the "
        "outcomes above it, and what the thresholds do to accuracy is not known."
    )


def left_out(rows: int) -> str:
    """A rate, where rows without an outcome take no part."""
    return (
        f"{phrases.count(rows)} rows without an outcome were left out: every number here, who is selected too, is of "
        "those whose outcome is known. If it is known mostly of people who were selected, they do not stand for "
        "everybody; ask for equal outcomes at the margin then, which needs those of the selected alone."
    )


def rate_warnings(
    target: str,
    direction: str,
    kept: bool,
    before: float,
    after: float,
    left: Sequence[str],
    words: Mapping[str, str] = METRICS,
) -> tuple[str, ...]:
    """What to know of the positive rate before using the thresholds. ``left``: the groups whose threshold stays."""
    warnings = []
    if left:
        few = (
            "outcomes just above the threshold"
            if target == "outcome_at_margin"
            else f"rows to know the {words[target]}"
        )
        warnings.append(
            f"Too few {few} (at least 10 with the outcome and 10 without are needed), so the threshold "
            f"stays as it is: {phrases.listed(left)}."
        )
    if direction != "both":
        verb = "raised" if direction == "raise" else "lowered"
        warnings.append(
            f"Thresholds were only {verb}: the {words['selection_rate']} of everybody moves from "
            f"{phrases.share(before)} to {phrases.share(after)} and cannot also be kept."
        )
    elif not kept:
        warnings.append(
            f"The {words['selection_rate']} of everybody could not be kept: {phrases.share(before)} was wanted, "
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
    metric: str,
    lowest: str,
    low: float,
    highest: str,
    high: float,
    *,
    binary: bool,
    odds: bool = False,
    words: Mapping[str, str] = METRICS,
) -> str:
    """A metric is not equal at the new thresholds. ``odds``: two rates were to be equal, with one threshold each."""
    remedy = " One threshold per group cannot make both rates equal; drawing lots near it can." if odds else ""
    return (
        f"After the change groups still differ in the {words[metric]} by more than its standard error: "
        f"{_level(metric, low, binary)} in {lowest}, {_level(metric, high, binary)} in {highest}.{remedy}"
    )


def common_target(
    target: str,
    value: float,
    before: float,
    after: float,
    *,
    binary: bool,
    feasible: bool,
    moved: bool = True,
    words: Mapping[str, str] = METRICS,
    chosen: str = "selected",
) -> str:
    """The number all thresholds aim at, where any is ``moved``, and the share of everybody selected."""
    aim = f"Common {words[target]}" if feasible else f"The {words[target]} aimed at, and not reached by every group"
    if not moved:
        return f"Every group keeps the present threshold; {chosen} of everybody: {phrases.share(before)}."
    shares = f"{phrases.share(before)} before, {phrases.share(after)} after"
    return f"{aim}: {_level(target, value, binary)}. {chosen[:1].upper()}{chosen[1:]} of everybody: {shares}."


def shared(blocks: Sequence[Sequence[str]]) -> str:
    """Which groups have one threshold together."""
    each = [phrases.listed(block) for block in blocks]
    return f"Not shown to differ, and so with one threshold together: {'; '.join(each)}."


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
    words: Mapping[str, str] = METRICS,
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
    changes = [f"{words[name]} {_from_to(name, values, binary)}" for name, values in metrics]
    if not any(name == "selection_rate" for name, _ in metrics):
        changes.append(f"{words['selection_rate']} {_from_to('selection_rate', rate, binary)}")
    moved = f"stays at {phrases.number(threshold[0])}"
    if threshold[0] != threshold[1]:
        moved = f"moves from {phrases.number(threshold[0])} to {phrases.number(threshold[1])}"
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


def selected_finding(label: str, change: float, ends: Ends, alpha: float, chosen: str = "selected") -> str:
    """How many more or fewer people of a group are selected."""
    more = "more" if change >= 0 else "fewer"
    size = sorted(abs(end) for end in ends) if ends[0] * ends[1] >= 0 else None
    within = (
        f"{phrases.count(size[0])} to {phrases.count(size[1])}"
        if size
        else (f"{phrases.count(ends[0])} to {phrases.count(ends[1])}")
    )
    return f"{label}: {phrases.count(abs(change))} {more} {chosen} ({100 * (1 - alpha):g} % interval {within})."


def _level(name: str, value: float, binary: bool) -> str:
    """A metric's value: all but an outcome, which may be any number, are shares of people."""
    return outcome(value, binary or name != "outcome_at_margin")


def _from_to(name: str, values: Ends, binary: bool) -> str:
    before, after = (_level(name, value, binary) for value in values)
    return before if values[0] == values[1] else f"from {before} to {after}"
