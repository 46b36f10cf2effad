"""Every sentence about groups known only by probability."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite, isnan
from typing import TYPE_CHECKING, Any

from isonomy.inference import Verdict
from isonomy.numerics.status import Status
from isonomy.numerics.tails import normal_isf
from isonomy.results import phrases, register

if TYPE_CHECKING:
    from isonomy.groups.proxy import ProxyPlan

METHOD = "groups by probability"
REFERENCES = (
    "Chen, J., Kallus, N., Mao, X., Svacha, G. and Udell, M. (2019). Fairness under unawareness: assessing "
    "disparity when protected class is unobserved. FAT*, 339-348. arXiv:1811.11154.",
    "Elzayn, H., Smith, E., Hertz, T., Guage, C., Ramesh, A., Fisher, R., Ho, D. E. and Goldin, J. (2025). "
    "Measuring and mitigating racial disparities in tax audits. Quarterly Journal of Economics 140, 113-163.",
    "McCartan, C., Fisher, R., Goldin, J., Ho, D. E. and Imai, K. (2025). Estimating racial disparities when race "
    "is not observed. Journal of the American Statistical Association. doi:10.1080/01621459.2025.2526695.",
    "Kallus, N., Mao, X. and Zhou, A. (2022). Assessing algorithmic fairness with unobserved protected class using "
    "data combination. Management Science 68, 1959-1981.",
)
# The notes about groups without a verdict.
CONCERNS = {
    Status.WEAK_PROXY: "proxy_weak",
    Status.TOO_SMALL: "proxy_small",
    Status.FEW_CLUSTERS: "proxy_few",
    Status.SKEWED: "skewed_groups",
    Status.CONSTANT: "constant_values",
    Status.ZERO_BASELINE: "zero_baseline",
    Status.EMPTY: "empty_groups",
    Status.UNBOUNDED: "unbounded_intervals",
}
SAME = "among people with the same probabilities"
IF = {
    "weighted": "if people with the same probabilities are treated alike, whatever their group",
    "linear": "if members of the same group are treated alike, whatever their probabilities",
    "names": "if members of the same group in the same place are treated alike, whatever their names",
    "nothing": "whoever the members of each group are among people with the same probabilities",
    "validated": "if the rows with a known group are a random sample of all rows",
}
# Columns in the unit of the disparity.
DIFFERENCES = ("weighted", "linear", "low", "high", "tipping", "validated", "validated_low", "validated_high")
# Columns of `adverse_impact` that groups known by probability do not have.
IDLE = ("table", "n", "selected", "shortfall", "shortfall_parity", "bound_low", "bound_high", "design_effect")
HEADINGS = {"estimate": "Estimate", "reference": "Reference", "disparity": "Point estimate", "n": "Expected members"}
NUMBERS, FURTHER = "The numbers", "What the probabilities tell"
# The columns of the first of these tables, without the range if there is only a point, and the reverse.
PAGE: tuple[str, ...] = ("group", "against", "low", "high", "disparity", "estimate", "reference", "ci_low", "ci_high")
PAGE += ("adjusted_pvalue", "verdict", "direction", "status", "tipping", "expected")
SAMPLE = 500  # people whose groups might be recorded
KNOWN_STEP = (
    "Where the law allows it, record the group of a random sample of a few hundred people, with at least 20 members of "
    'each group. It replaces the assumption: add known=<column> and known_rows="random" to the probabilities.'
)
NAMES_STEP = (
    "If the probabilities come from names and places, repeat the test on the assumption that names do not matter among "
    'members of the same group in the same place: add assume="names" and place=<column> to the probabilities.'
)


def condition(kind: str, gammas: tuple[float, ...], of: str = f" of the disparity that may remain {SAME}") -> str:
    """The assumption as a clause; ``of`` says what a share is a share of."""
    single = "weighted" if gammas == (0.0,) else "linear" if gammas == (1.0,) else kind
    if single in IF:
        return IF[single]
    low, high = (f"{100 * gamma:g} %" for gamma in (gammas[0], gammas[-1]))
    return (
        f"if {low} of the disparity remains {SAME}" if low == high else f"for every share between {low} and {high}{of}"
    )


def assumption(r: Any) -> str:
    return f"The result holds {condition(r.assumed, r.assumed_gammas)}."


def limits(r: Any) -> tuple[str, ...]:
    observed = "Only some people's groups were observed." if r.known_rows else "Nobody's group was observed."
    taken = (
        "The probabilities are assumed to be calibrated for these people. Probabilities computed for all residents are "
        "not, if members of some groups apply less often than others.",
        "Intervals do not include the sampling error of the tables behind the probabilities.",
        f"Probabilities alone cannot show how much of a disparity remains {SAME}. Known groups for a random sample of "
        "a few hundred people would.",
    )
    return (
        f"{observed} Group sizes are expected members, the sums of probabilities.",
        *(taken if r.assumed != "validated" else ()),
        "A probability is not a statement about a person.",
    )


def next_steps(r: Any, common: tuple[str, ...]) -> tuple[str, ...]:
    steps = tuple(step for step in common if step != phrases.WITHIN_FACTORS)
    if r.verdict is not Verdict.INCONCLUSIVE or not r.answered or r.assumed == "validated":
        return steps
    return (*steps, KNOWN_STEP, *([NAMES_STEP] if r.assumed_gammas else []))


def null(plan: ProxyPlan) -> str:
    metric, other, tolerance = phrases.noun(plan.measure.name), plan.against, plan.tolerance
    if plan.threshold is not None:
        claim = f"its rate is at least {phrases.number(plan.threshold)} times that of {other}"
    elif tolerance is None:
        claim = f"its {metric} equals that of {other}"
    elif plan.link.ratio:
        ends = f"{phrases.number(tolerance)} to {phrases.number(1.0 / tolerance)}"
        claim = f"its {metric} is {ends} times that of {other}"
    else:
        amount = (phrases.points if plan.measure.binary else phrases.number)(tolerance)
        claim = f"its {metric} differs from that of {other} by at most {amount}"
    return f"For each group, {claim}, {condition(plan.proxy.assumption, plan.proxy.shares)}."


def findings(r: Any, against: str, points: bool, ratio: bool) -> tuple[str, ...]:
    """The first group, the assumption, the tipping gap, and what known groups would add; then the other groups."""
    order = [i for i in r.ranking() if not isnan(r.ci_low[i])]
    groups = [_finding(r, i, against, points, ratio) for i in order]
    gaps = [_tipping(r, i, against, points) for i in order] if r.assumed_gammas else []
    known = [_known(r, order[0], points)] if order and r.assumed_gammas and not r.known_rows else []
    # An open answer may depend on the share, so nothing holds for every share.
    holds = [] if r.verdict is Verdict.INCONCLUSIVE and len(set(r.assumed_gammas)) > 1 else [assumption(r)]
    return (*groups[:1], *holds, *filter(None, gaps[:1]), *known, *groups[1:], *filter(None, gaps[1:]))


def _known(r: Any, i: int, points: bool) -> str:
    """What known groups for a random sample would add: an interval no wider than that of these people alone."""
    if r.tipping is None or Status.REFERENCE not in r.status or not points:
        return (
            f"Known groups for a random sample of {SAMPLE} people would replace this assumption for every group with "
            "at least 20 known members."
        )
    sides = (i, r.status.index(Status.REFERENCE))
    variances = (r.estimate[k] * (1.0 - r.estimate[k]) * r.expected.sum() / (SAMPLE * r.expected[k]) for k in sides)
    reach = phrases.points(normal_isf(r.alpha / 2.0, sides="one") * sum(variances) ** 0.5)
    return (
        f"Known groups for a random sample of {SAMPLE} people would replace this assumption; for {r.labels[i]}, the "
        f"interval would then reach at most about {reach} to either side."
    )


def _finding(r: Any, i: int, against: str, points: bool, ratio: bool) -> str:
    low, high, ends = float(r.low[i]), float(r.high[i]), (float(r.ci_low[i]), float(r.ci_high[i]))
    metric = phrases.noun(r.metrics[0]) if hasattr(r, "metrics") else f"share {r.chosen}"
    if points:
        size, whole = phrases.between(low, high) if r.ranged else phrases.offset(low), phrases.between(*ends)
        compared = f"{metric} {size} than that of {against}"
    else:
        values = [(low, high) if r.ranged else (low,), ends]
        size, whole = (" to ".join(map(phrases.number if ratio else phrases.signed, part)) for part in values)
        compared = f"{size} times that of {against}" if ratio else f"differs from that of {against} by {size}"
        compared = f"{metric} {compared}"
    if not all(map(isfinite, ends)):
        whole = "unbounded"
    why = f", depending on the share of the disparity that remains {SAME}" if r.ranged else ""
    if r.assumed == "nothing":
        why = f", {IF['nothing']}"
    family = phrases.adjusted(float(r.adjusted_pvalue[i]))
    tests = f"; {family}). "
    if (threshold := getattr(r, "threshold", None)) is not None:  # there are two tests
        tests = (
            f"). A difference from equal rates was {'' if r.difference_shown[i] else 'not '}shown "
            f"({phrases.pvalue(float(r.pvalue[i]))}); the test of a ratio of {phrases.number(threshold)} or more gives "
            f"{family}. "
        )
    return (
        f"{r.labels[i]} (expected members {phrases.count(r.expected[i])}): {compared}{why} "
        f"({100 * (1 - r.alpha):g} % interval {whole}{tests}{_shown(r, i, points, ratio)}"
    )


def _shown(r: Any, i: int, points: bool, ratio: bool) -> str:
    clause, verdict = phrases.capital(condition(r.assumed, r.assumed_gammas, of="")), r.verdicts[i]
    threshold, tolerance = getattr(r, "threshold", None), getattr(r, "tolerance", None)
    if threshold is not None:
        limit = phrases.number(threshold)
        if verdict is not Verdict.INCONCLUSIVE:
            return f"{clause}, a ratio {'below' if verdict is Verdict.VIOLATION else 'of at least'} {limit} was shown."
        depends = _depends(r, i, phrases.number, threshold, float("inf"), f"is below {limit}")
        return depends or f"The data do not show whether the ratio is below {limit}."
    if verdict is Verdict.VIOLATION:
        larger = "" if tolerance is None else " larger than the tolerance"
        return f"{clause}, a difference{larger} was shown: {r.direction[i]}."
    if verdict is Verdict.WITHIN_TOLERANCE:
        return f"{clause}, the difference was shown to lie within the tolerance."
    if tolerance is None:
        return "No difference was shown: these data cannot tell whether there is one."
    written = phrases.offset if points else phrases.number if ratio else phrases.signed
    low, high = (tolerance, 1.0 / tolerance) if ratio else (-tolerance, tolerance)
    neither = "Neither a difference larger than the tolerance nor one within it was shown."
    return _depends(r, i, written, low, high, "lies within the tolerance") or neither


def _depends(r: Any, i: int, written: Callable[[float], str], low: float, high: float, what: str) -> str:
    """That the answer depends on the share, if one end of the bracket lies inside the limits and the other does not."""
    ends = float(r.weighted[i]), float(r.linear[i])
    inside = [low <= end <= high for end in ends]
    if not r.assumed_gammas or not all(map(isfinite, ends)) or inside[0] == inside[1]:
        return ""
    first, last = map(written, ends)
    kind = "difference" if low < 0 else "ratio"
    return (
        f"The {kind} is {first} by the weighted estimate and {last} by the linear one: whether it {what} depends on an "
        "assumption that these data cannot test."
    )


def _tipping(r: Any, i: int, against: str, points: bool) -> str:
    gap = float("nan") if r.tipping is None else float(r.tipping[i])
    if isnan(gap) or gap == 0:
        return ""
    amount = phrases.points(gap) if points else phrases.number(abs(gap))
    rate = phrases.noun(r.metrics[i])
    return (
        f"For no difference from {against} to be shown, the {rate} of {r.labels[i]} would have to be at least "
        f"{amount} {'higher' if gap > 0 else 'lower'} than that of others with the same probabilities."
    )


def assumptions(r: Any) -> tuple[tuple[str, str], ...]:
    if r.checks is None:
        checked = "This cannot be checked without known groups."
    else:
        checked = "Known groups were compared with the probabilities: see calibration()."
    calibrated = ("The probabilities are calibrated in the population of these rows.", checked)
    outcome = ("The probabilities were computed without the outcome or the decision.", phrases.UNCHECKED)
    share = (assumption(r), phrases.UNCHECKED)
    return (r.rows_assumed(), phrases.SAMPLE, *([] if r.assumed == "validated" else [calibrated]), outcome, share)


register(
    {
        "proxy_rounded": "The probabilities of {rows:,} rows do not sum to 1 exactly, by at most 0.01; they were "
        "divided by their sum.",
        "proxy_certain": "Every probability is 0 or 1: groups are known. A column of groups gives better intervals for "
        "small groups.",
        "proxy_constant": "The probabilities of {groups} hardly differ between rows; nothing can be learned from them.",
        "proxy_weak": "Listed without a verdict, because the probabilities carry less information than {least:,} known "
        "members of the group or of the reference would: {groups}. Join groups that the probabilities cannot tell "
        "apart.",
        "proxy_small": "Listed without a verdict: {groups}. The group or its reference has fewer than {least:,} "
        "expected members or, for a validated estimate, fewer than {known:,} known members.",
        "proxy_few": "Listed without a verdict, because the standard error rests on fewer than ten effective rows, "
        "places or clusters: {groups}.",
        "proxy_weighted_within": "No verdict of *within tolerance* for {groups}: the weighted estimate understates "
        "differences if groups are treated differently among people with the same probabilities.",
        "proxy_linear_beyond": "No verdict on the size of the difference for {groups}: the linear estimate "
        "overstates it if people with the same probabilities are treated alike, and not every share between 0 % and "
        "100 % leads to the same verdict.",
        "proxy_known_other": "The rows with a known group are not a random sample of all rows: they check the "
        "probabilities, and correct nothing.",
        "proxy_miscalibrated": "Known groups disagree with the probabilities of {groups}: see calibration().",
        "proxy_missed": "In the rows with a known group, the {estimate} estimate misses the disparity of {groups} "
        "by more than chance explains: see calibration().",
    }
)
