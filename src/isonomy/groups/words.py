"""Every sentence about groups. A sentence is a function of the evidence and the line it is about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from math import isfinite
from typing import TYPE_CHECKING

from isonomy.inference import Verdict, inside, rejected
from isonomy.numerics.status import Status
from isonomy.results import Note, phrases, register

if TYPE_CHECKING:
    from isonomy.groups.certify import CertifyResult
    from isonomy.groups.flag import FlagResult, GroupEvidence
    from isonomy.groups.impact import AdverseImpactResult

# ---- groups one by one

METHOD = "empirical likelihood"
REFERENCES = (
    "Tang, J., Xie, C., Zeng, X. and Zhu, L. (2026). Empirical likelihood-based fairness auditing: distribution-free "
    "certification and flagging. arXiv:2601.20269.",
    "Owen, A. B. (2001). Empirical Likelihood. Chapman and Hall/CRC.",
    "Benjamini, Y. and Hochberg, Y. (1995). Controlling the false discovery rate. JRSS B 57, 289-300.",
)


# What a disparity is called on each scale.
NOUNS = {
    "difference": "difference",
    "ratio": "ratio",
    "odds_ratio": "odds ratio",
    "standardised": "standardised difference",
}
# Scales on which no difference is 0, and a tolerance has two signs.
DIFFERENCES = ("difference", "standardised")
# Whose standard deviation is the unit of standardised differences.
SIGMAS = {
    "population": "of all rows",
    "pooled": "of the two groups, pooled",
    "reference": "of the reference",
}


# Flagged groups that are worse off than the reference, and better off.
DISFAVOURED, FAVOURED = "disfavoured", "favoured"
BESIDE_TESTED = {DISFAVOURED: "worse off than that", FAVOURED: "better off than that"}  # than the disparity tested
REFERENCE_NAMES = {
    "population": "{}",
    "rest": "the rest of {}",
    "highest": "the highest group",
    "lowest": "the lowest group",
}


def reference(kind: str, group: str, value: float | None, everybody: str = "the population") -> str:
    """What a reference is called in a sentence: everybody, the rest, a ``group``, or a ``value``."""
    if value is None:
        return REFERENCE_NAMES[kind].format(everybody) if kind in REFERENCE_NAMES else group
    shown = format(Decimal(f"{value:.6g}"), "f")
    return f"the estimate {shown}" if kind == "estimate" else shown


def against_best(whom: str, best: str) -> str:
    """What intervals are of where groups are held against the best of those of the same columns."""
    return (
        f"Which {whom} of a column is {best} is itself an estimate. Intervals and p-values are of the comparison with "
        "the one that truly is, whichever that may be; they do not take it to be known."
    )


def alone(groups: Sequence[str]) -> str:
    """Groups beside which there is nobody, such as the one value of a column."""
    return f"Listed and not tested, because nobody is left to compare with: {phrases.listed(groups)}."


def comparison(metric: str, reference: str, scale: str, *, value: bool, sigma: str | None = None) -> str:
    """What a disparity is: 'ppv less that of the population' or, if the reference is a ``value``, 'ppv less 0.6'.

    A standardised one is in standard deviations, whose ``sigma`` says.
    """
    if sigma is not None:
        less = comparison(metric, reference, "difference", value=value)
        return f"{less}, in standard deviations {SIGMAS[sigma]},"
    if scale == "odds_ratio":
        return f"odds of {metric} over {'the odds of' if value else 'those of'} {reference}"
    word = "over" if scale == "ratio" else "less"
    return f"{metric} {word} {reference}" if value else f"{metric} {word} that of {reference}"


def every(metrics: Sequence[str]) -> str:
    """The metrics asked for: 'tpr and fpr'."""
    return phrases.listed(metrics, limit=len(metrics))


def said(metrics: Iterable[str]) -> str:
    """The metrics asked for, as nouns: 'true positive rate and false positive rate', 'share approved'."""
    return every(list(dict.fromkeys(phrases.noun(name) for name in metrics)))


def disparity(value: float, scale: str) -> str:
    """'a difference of +0.05', 'a ratio of 0.8'."""
    article = "an" if scale == "odds_ratio" else "a"
    shown = phrases.signed(value) if scale in DIFFERENCES else phrases.number(value)
    return f"{article} {NOUNS[scale]} of {shown}"


def intervals(kind: str, alpha: float) -> str:
    """What a chart's intervals are; those of one group at a time need no word for it."""
    level = f"{100 * (1 - alpha):g} % intervals"
    return {"simultaneous": f"Simultaneous {level}", "one-sided": f"One-sided {level}"}.get(kind, level)


# What an adjustment of p-values holds at alpha, over all groups.
ERROR_RATES = {
    "holm": "at most a {} chance that any difference shown is false (Holm)",
    "bonferroni": "at most a {} chance that any difference shown is false (Bonferroni)",
    "max-t": "at most a {} chance that any difference shown is false (max-t)",
    "bh": "on average at most {} of the differences shown are false (Benjamini and Hochberg)",
    "by": "on average at most {} of the differences shown are false (Benjamini and Yekutieli)",
    "bh-tree": "on average at most {} of the differences shown at a level are false (Benjamini and Hochberg)",
    "bh-siblings": "on average at most {} of the differences shown among siblings are false (Benjamini and Hochberg)",
}


def error_rates(
    kind: str, adjust: str, alpha: float, *, disagree: bool, noun: str = "group", nouns: str = "groups"
) -> tuple[str, ...]:
    """Which errors a chart's intervals and its colors allow; none where both are for each group alone.

    ``disagree``: some interval excludes the null without a verdict, or holds it in spite of one.
    """
    together = kind == "simultaneous"
    if adjust not in ERROR_RATES and not together:
        return ()
    level, rate = f"{100 * (1 - alpha):g} %", f"{100 * alpha:g} %"
    verdicts = f"for each {noun} alone, at most a {rate} chance that a difference shown is false"
    verdicts = ERROR_RATES.get(adjust, verdicts).format(rate)
    lines = [f"Intervals: {level} for {f'all {nouns} together' if together else f'each {noun} alone'}."]
    lines.append(f"Colors: {verdicts}.")
    return (*lines, *(["Where the two disagree, the color is the verdict."] if disagree else []))


def null(low: float, high: float, alternative: str, measured: str, equal: str = "", *, share: bool = False) -> str:
    """The null hypothesis of every group; ``measured`` is the `comparison` it is about.

    ``equal``: 'selection rate {} that of the population', where disparities are differences.
    """
    if plain := _plain_null(low, high, alternative, equal, share):
        return f"For each group, its {plain}."
    sides = {"two-sided": "is", "greater": "is at most", "less": "is at least"}
    ends = [amount(end, share and bool(equal)) for end in (low, high)]
    limit = f"{sides[alternative]} {ends[0]}" if alternative in sides else f"lies between {ends[0]} and {ends[1]}"
    return f"For each group, its {measured} {limit}."


def amount(value: float, points: bool) -> str:
    """A disparity with its sign: of shares in points."""
    return f"{'-' if value < 0 else ''}{phrases.points(value)}" if points else phrases.number(value)


def _plain_null(low: float, high: float, alternative: str, equal: str, share: bool) -> str:
    """A null of no difference, or of one within a tolerance, without signs; nothing where it is another."""
    same = {"two-sided": "equals", "greater": "is at most", "less": "is at least"}
    if not equal:
        return ""
    if alternative in same:
        return equal.format(same[alternative]) if low == high == 0 else ""
    amount = (phrases.points if share else phrases.number)(high)
    return f"{equal.format('differs from')} by at most {amount}" if low == -high else ""


# What "within tolerance" means for a null with one side.
WITHIN = {
    "greater": "Shown not to exceed the reference by more than the tolerance.",
    "less": "Shown not to fall below the reference by more than the tolerance.",
}
WITHIN_EVERY = {
    "greater": "shown not to exceed the reference by more than the tolerance.",
    "less": "shown not to fall below the reference by more than the tolerance.",
}
# What was not shown where one side alone was asked about.
NOT_SHOWN = {
    "greater": "Asked was only whether it is higher; that was not shown.",
    "less": "Asked was only whether it is lower; that was not shown.",
}
LIMITS = (
    phrases.NOT_PROOF,
    "A difference is a description, not a cause: it does not say why groups differ, nor who is responsible.",
    "Only the groups and the metric asked about were tested.",
)
# Columns that are worked out from others.
WORKED_OUT = {
    "detectable": "Difference found four times in five",
    "rows_needed": "Rows needed to show it is within tolerance",
}


def within_one_side(alternative: str) -> str:
    """Within a tolerance that has one side."""
    return f"Within tolerance. Every group: {WITHIN_EVERY[alternative]}"


def group_finding(r: FlagResult, i: int) -> str:
    """One group: effect size, interval, p-value and verdict."""
    alone, adjusted = phrases.pvalue(float(r.pvalue[i])), phrases.pvalue(float(r.adjusted_pvalue[i]))
    evidence = f"adjusted {adjusted}" if alone == adjusted else f"{alone}, adjusted {adjusted}"
    share, weighted = r.shares[i], phrases.BY_WEIGHT if r.provenance.options.get("weight") is not None else ""
    metric, n, against = phrases.metric(r.metrics[i]), phrases.count(r.n[i]), r.reference
    estimate, reference = (
        (phrases.share if share else phrases.number)(float(v[i])) for v in (r.estimate, r.reference_value)
    )
    if r.reference_kind.best and r.verdicts[i] is not Verdict.VIOLATION and r.compared_with()[i]:
        return f"{r.labels[i]}: {metric} {estimate}{weighted} of {n} rows. In these data it is {against} itself."
    ends, value = (float(r.ci_low[i]), float(r.ci_high[i])), float(r.disparity[i])
    interval, factors = phrases.interval(*ends, r.alpha), phrases.listed(r.given)
    if share and r.scale != "standardised" and any(map(isfinite, ends)):
        difference = r.scale == "difference"
        size = phrases.apart(value, ends, r.alpha) if difference else f"{disparity(value, r.scale)}, {interval}"
        rows = f"adjusted for {factors} ({n} rows)" if factors else f"of {n} rows"  # else no share of these rows
        start = f"{r.labels[i]}: {metric} {estimate}{weighted} {rows}, {against} {reference}; {size}; {evidence}."
        return f"{start} {_shown(r, i)}"
    estimate, reference = phrases.number(float(r.estimate[i])), phrases.number(float(r.reference_value[i]))
    adjusting = f", adjusted for {factors}," if factors else ""
    return (
        f"{r.labels[i]}: {metric} {estimate}{weighted}{adjusting} over {n} rows against {reference}, "
        f"{disparity(value, r.scale)} ({interval}; {evidence}). {_shown(r, i)}"
    )


def _shown(r: FlagResult, i: int) -> str:
    """What was shown of one group."""
    verdict, tested, tolerant = r.verdicts[i], r.tested, r.tolerance is not None
    side = "" if r.reference_kind.best else r.alternative
    if tested and verdict is Verdict.VIOLATION:
        return f"Shown to differ from {tested}: {BESIDE_TESTED.get(r.direction[i], '')}."
    if tested:
        return NOT_SHOWN.get(side, f"Not shown to differ from {tested}: these data cannot tell.")
    if verdict is Verdict.VIOLATION:
        return f"A difference{' larger than the tolerance' if tolerant else ''} was shown: {r.direction[i]}."
    if verdict is Verdict.WITHIN_TOLERANCE:
        return WITHIN.get(side, "Shown to lie within the tolerance.")
    if tolerant:
        return "Neither a difference larger than the tolerance nor one within it was shown."
    return NOT_SHOWN.get(side, "No difference was shown: these data cannot tell.")


def tested(low: float, high: float, alternative: str, scale: str, *, share: bool) -> str:
    """What groups are held against where it is not equality: 'the difference tested, at most 5.0 points lower'."""
    points = share and scale == "difference"
    limits = {"greater": "at most ", "less": "at least "}
    if points and low < 0:  # more points lower is less
        limits = {"greater": "at least ", "less": "at most "}
    if points:
        null = phrases.offset(low) if low == high else phrases.between(low, high)
    else:
        ends = [phrases.signed(end) if scale in DIFFERENCES else phrases.number(end) for end in (low, high)]
        null = ends[0] if low == high else " to ".join(ends)
    return f"the {NOUNS[scale]} tested, {limits.get(alternative, '')}{null}"


def other_null_verdict(r: GroupEvidence, tested: str) -> str:
    """A verdict on such a null: equality was not asked about."""
    shown = "at least one group differs" if r.verdict is Verdict.VIOLATION else "no group was shown to differ"
    return f"{r.asked.badge(r.verdict.value)}: {shown} from {tested}."


def counted(number: int, *, several: bool) -> str:
    """'17 groups'; of ``several`` metrics a group is counted once for each: '34 group-metric pairs'."""
    noun = "group-metric pair" if several else "group"
    return f"{number:,} {noun if number == 1 else f'{noun}s'}"


def flag_overview(r: FlagResult, order: Sequence[int]) -> str:
    """How many groups differ, those worse off and those better off apart; ``order``: the tested ones, worst first.

    Of several metrics, pairs of a group and a metric are counted.
    """
    several, tested, names = len(set(r.metrics)) > 1, len(order), r.names
    titles = {i: names[i].replace(f"({r.metrics[i]})", f"({phrases.metric(r.metrics[i])})") for i in order}
    apart = {
        BESIDE_TESTED[word] if r.tested else word: [titles[i] for i in order if r.direction[i] == word]
        for word in (DISFAVOURED, FAVOURED)
    }
    against = f"{r.tested or r.reference}{' by more than the tolerance' if r.tolerance is not None else ''}"
    within = sum(verdict is Verdict.WITHIN_TOLERANCE for verdict in r.verdicts)
    listed = sum(status is not Status.REFERENCE for status in r.status)
    side = {"greater": ", upwards", "less": ", downwards"}.get(r.alternative, "")
    tolerated = f" {_were(within, several)} shown to lie within the tolerance{side}." if within else ""
    untested = (
        "" if tested == listed else f" {_were(listed - tested, several)} listed without a verdict: see the table."
    )
    number = sum(map(len, apart.values()))
    if not tested:
        return f"No group could be tested.{untested}"
    if not number:
        one = f"The one {counted(1, several=several)[2:]} tested was not"
        none = f"None of {counted(tested, several=several)} was" if tested > 1 else one
        return f"{none} shown to differ from {against}.{tolerated}{untested}"
    if tested == listed == 1:
        word, (name, *_) = next((word, some) for word, some in apart.items() if some)
        return f"{name}: shown to differ from {against}, {word}."
    sides = [f"{word.capitalize()}: {phrases.listed(some)}." for word, some in apart.items() if some]
    were = "was" if number == 1 else "were"
    differ = f"{number:,} of {counted(tested, several=several)} {were} shown to differ from {against}."
    return f"{differ} {' '.join(sides)}{tolerated}{untested}"


def _were(number: int, several: bool) -> str:
    return f"{counted(number, several=several)} {'was' if number == 1 else 'were'}"


def decided_otherwise(r: FlagResult) -> str:
    """What the other treatment of the reference's error would have concluded."""
    groups = phrases.listed(r.otherwise)
    if r.joint:
        return (
            "What the groups are compared with is itself an estimate. Its error is counted here; a test that takes it "
            f"as exactly known, as the published method does, would have decided otherwise for {groups}."
        )
    how = "jointly, without the small-sample correction" if r.corrected else "jointly"
    return (
        "The conclusion depends on how the reference is treated: including the error of the estimated reference "
        f"({how}) decides otherwise for {groups}."
    )


def assumptions(r: GroupEvidence) -> tuple[tuple[str, str], ...]:
    """What is assumed, and how it was checked or that it cannot be."""
    treated = "Its own sampling error is part of the test." if r.joint else "It is treated as known, without error."
    shared = (
        "Cannot be checked from the table. Somebody may be in several of the groups, which the test allows for."
        if r.overlapping
        else phrases.UNCHECKED
    )
    return (
        r.rows_assumed(),
        phrases.SAMPLE,
        (f"The reference is {r.reference}.", treated),
        (
            "Groups are large enough for the test's approximation (the chi-square limit).",
            "Groups with too few rows are listed and not tested; the column Status says which.",
        ),
        ("Who belongs to which group is recorded correctly.", shared),
    )


# The note about the groups of a status.
CONCERNS: Mapping[Status, str] = {
    Status.FEW_CLUSTERS: "few_clusters",
    Status.SKEWED: "skewed_groups",
    Status.ZERO_BASELINE: "zero_baseline",
    Status.EMPTY: "empty_groups",
    Status.UNSUPPORTED: "unsupported_strata",
    Status.OUTSIDE_RANGE: "null_outside_range",
    Status.UNBOUNDED: "unbounded_intervals",
    Status.NOT_CONVERGED: "not_maximised",
}


def _uncorrected(note: Note) -> str:
    """A Bartlett factor that resampling did not give; no groups for a joint test."""
    where = f" for {phrases.listed(note.groups)}" if note.groups else ""
    needed = note.values.get("needed")
    verdict = " These groups are too small to do without it, so the joint test decides nothing." if needed else ""
    return (
        "The small-sample correction could not be made"
        f"{where}: in too few resamples was T finite and on as many degrees of freedom. T is not corrected there."
        f"{verdict}"
    )


def _dependence_measured(note: Note) -> str:
    return (
        f"The adjustment for many groups (Benjamini and Hochberg's) does not hold the share of false findings at "
        f"{phrases.share(note.values['alpha'])} here: groups depend on one another through common rows or their "
        f"reference, and by simulation with that dependence it is {phrases.share(note.values['rate'])}. The max-t "
        "adjustment and Benjamini and Yekutieli's hold theirs under it."
    )


def _tree_levels(note: Note) -> str:
    return (
        "Groups were tested level by level: an intersection is tested only if one of its parents was flagged, and each "
        f"level is adjusted on its own. {_were(note.values['unreached'], note.values['several'])} not reached."
    )


register(
    {
        "small_groups": "Fewer than {least:,} rows that count, so listed and not tested: {groups}.",
        "constant_shares": "Every row that counts has the same value in {groups}: the share is 0 % or 100 %, and its "
        "interval and p-value are rough.",
        "constant_values": "Every row that counts has the same value in {groups}: there is nothing to judge chance by, "
        "so they are not tested.",
        "always_selected": "Everybody with outcome 1 was selected. Where outcomes are known of the selected alone, it "
        "cannot be otherwise and says nothing: ask for ppv instead, the share with outcome 1 among the selected.",
        "skewed_groups": "Too few rows for so skewed a metric (about 30 times the squared skewness are needed, and "
        "more where many groups are tested) in {groups}: estimated, but tests and intervals of such rows err too "
        "often, so no verdict rests on them.",
        "zero_baseline": "The reference of {groups} is 0 (or its odds are infinite), and nothing is a ratio to that: "
        "listed and not tested.",
        "empty_groups": "No row is in {groups} (inside the metric's condition): listed and not tested.",
        "unsupported_strata": "Too little to compare within strata in {groups}: no stratum holds people of both sides "
        "or, with weights or clusters, strata are of a few rows each. Listed and not tested.",
        "undefined_metric": "The rows of {groups} (or of the reference) do not define the metric: one class only or, "
        "for a quantile, too many equal values. Listed and not tested.",
        "null_outside_range": "The null lies outside the range of the data for {groups}: p is 0 by convention.",
        "unbounded_intervals": "The interval has no end on at least one side for {groups}.",
        "not_maximised": "The likelihood could not be maximised for {groups}: what depends on it is not reported.",
        "plugin_reference": "The plug-in treats the estimated reference as known. Its intervals do not have their "
        "nominal level: by simulation 95 % intervals cover 83 % of the time against a reference group of equal size.",
        "large_sample": "No tolerance was set, so any difference from exact equality counts; with many rows this finds "
        "differences too small to matter. Set a tolerance to ask whether a difference is large enough.",
        "dependence": "The adjustment for many groups (Benjamini and Hochberg's) holds the share of false findings for "
        "independent or positively dependent tests. Overlapping groups and a shared estimated reference break that; "
        "Benjamini and Yekutieli's adjustment holds it under any dependence.",
        "dependence_measured": _dependence_measured,
        "tree_levels": _tree_levels,
        "resampled": "The small-sample correction comes from {resamples:,} resamples, and a p-value is close to the "
        "level: another seed might decide otherwise; more resamples would settle it.",
        "uncorrected": _uncorrected,
    }
)

# ---- all groups taken together

RESTS_ON_THE_TOLERANCE = (
    "The verdict rests on the tolerance and the intervals. The joint p-value above is that of exact equality and does "
    "not decide it."
)


def joint_null(
    groups: int, null: float | None, measured: str, equal: str = "", *, share: bool = False, several: bool = False
) -> str:
    """The null hypothesis of a certification; no one ``null`` if each group has its own.

    Of ``several`` metrics, ``groups`` counts pairs of a group and a metric.
    """
    everywhere = f"In all {counted(groups, several=several)} at once" if groups > 1 else "In the one group tested"
    if equal and null == 0:
        return f"{everywhere}, the {equal.format('equals')}."
    shown = "as given" if null is None else amount(null, share and bool(equal))
    return f"{everywhere}, {measured} is {shown}."


def _left_out_jointly(note: Note) -> str:
    return (
        f"Some groups were left out of the joint test: {phrases.listed(note.groups)}. They differ from other groups by "
        f"fewer than {note.values['least'] / 2:g} rows, half of the least size of a tested group. Their own intervals "
        "are not affected."
    )


def _spare_rows(note: Note) -> str:
    """Rows in no tested group: too few to be part of the population, or all equal. How many may be confidential."""
    where = f" ({phrases.listed(note.groups)})" if note.groups else ""
    several = note.values["tested"] > 1
    remaining = "the tested groups are compared with each other" if several else "one group alone leaves no test"
    reason = f"they are fewer than {note.values['least']}, too few to show whether they are like the population"
    if note.values["equal"]:
        reason = "all rows of a group have the same value, which shows nothing about how much that group's mean varies"
    return (
        f"The rows in no tested group{where} were left out of the joint test: {reason}, so {remaining}. Disparities "
        "and intervals are those from all rows."
    )


def _joint_corrected(note: Note) -> str:
    return (
        "The groups are small for so many of them, or for so skewed a metric: without a correction the joint test "
        "would reject true hypotheses too often. Its statistic was divided by "
        f"{phrases.number(note.values['factor'])}, its mean over its degrees of freedom when there is no difference."
    )


# The note about a joint test that did not end normally.
JOINT_STATUSES = {Status.INFEASIBLE: "joint_infeasible", Status.OUTSIDE_RANGE: "joint_outside_range"}

register(
    {
        "joint_corrected": _joint_corrected,
        "joint_left_out": _left_out_jointly,
        "joint_spare": _spare_rows,
        "joint_infeasible": "The null contradicts itself: these groups are all rows together, and whatever their "
        "shares they cannot all differ from the reference in this way. T is infinite and p is 0 by convention.",
        "joint_outside_range": "No weighting of the rows meets all constraints at once: T is infinite and p is 0 by "
        "convention.",
        "joint_approximate": "The joint likelihood was not maximised to full accuracy: read the statistic as "
        "approximate.",
    }
)

# What a joint test holds against its law.
JOINT_STATISTICS = {
    "el": "joint empirical likelihood ratio statistic",
    "eel": "joint Euclidean likelihood ratio statistic",
    "cmh": "Cochran, Mantel and Haenszel's statistic",
    "covariance": "statistic of all groups' differences together",
}


def certify_finding(r: CertifyResult) -> str:
    """The joint statistic, and whether it is more than chance explains."""
    apart = f" from {r.tested}," if r.tested else ""
    differ = (
        f"the groups differ{apart} by more than chance explains"
        if rejected(r.pvalue, r.alpha)
        else f"no difference{apart} beyond chance was shown"
    )
    return (
        f"Taken together, {differ}: {phrases.pvalue(r.pvalue)} for the hypothesis tested "
        f"({JOINT_STATISTICS[r.likelihood]} {phrases.number(r.statistic)} on {r.df:,} "
        f"{'degree' if r.df == 1 else 'degrees'} of freedom)."
    )


def largest_finding(r: CertifyResult, i: int) -> str:
    """The group furthest from the reference."""
    ends, value, group = (float(r.ci_low[i]), float(r.ci_high[i])), float(r.disparity[i]), r.names[i]
    interval = f"simultaneous {phrases.interval(*ends, r.alpha)}"
    if r.shares[i] and r.scale == "difference":
        return f"The largest difference: {group}, {phrases.apart(value, ends, r.alpha, 'simultaneous ')}."
    if r.scale == "difference":
        return f"The largest difference is {phrases.signed(value)}, in {group} ({interval})."
    return f"Furthest from the reference is {group}, with {disparity(value, r.scale)} ({interval})."


def tolerance_finding(r: CertifyResult, known: Sequence[int]) -> str:
    """What was shown about the tolerance, of the groups that are ``known``.

    Of several metrics, pairs of a group and a metric are counted.
    """
    assert r.tolerance is not None
    outside = [r.names[i] for i in known if rejected(r.tolerance_pvalue[i], r.alpha)]
    within = inside(r.link.delta(r.ci_low[list(known)]), r.link.delta(r.ci_high[list(known)]), r.reach)
    number, groups = int(within.sum()), counted(len(known), several=len(set(r.metrics)) > 1)
    low, high = (r.tolerance, 1.0 / r.tolerance) if r.link.ratio else (-r.tolerance, r.tolerance)
    largest = phrases.points(high) if r.all_shares and r.scale == "difference" else phrases.number(high)
    shown = f"±{largest}" if r.scale in DIFFERENCES else f"{phrases.number(low)} to {phrases.number(high)}"
    if outside:
        beyond = f"difference larger than {largest}" if r.scale == "difference" else f"{NOUNS[r.scale]} beyond {shown}"
        return f"{'An' if r.scale == 'odds_ratio' else 'A'} {beyond} was shown in {phrases.listed(outside)}."
    if number == len(known):
        return f"In all {groups} the difference was shown to lie within {shown}, for all of them together."
    return (
        f"In {number:,} of {groups} the difference was shown to lie within {shown}; in no group was a larger "
        "difference shown."
    )


# ---- groups within strata

STRATA_REFERENCES = (
    "Mantel, N. and Haenszel, W. (1959). Statistical aspects of the analysis of data from retrospective studies of "
    "disease. JNCI 22, 719-748.",
    "Sato, T. (1989). On the variance estimator for the Mantel-Haenszel risk difference. Biometrics 45, 1323-1324.",
    "Greenland, S. and Robins, J. M. (1985). Estimation of a common effect parameter from sparse follow-up data. "
    "Biometrics 41, 55-68.",
    "Robins, J., Breslow, N. and Greenland, S. (1986). Estimators of the Mantel-Haenszel variance consistent in both "
    "sparse data and large-strata limiting models. Biometrics 42, 311-323.",
    "Breslow, N. E. and Day, N. E. (1980). Statistical Methods in Cancer Research I. IARC; with Tarone, R. E. (1985). "
    "On heterogeneity tests based on efficient scores. Biometrika 72, 91-95.",
)
STRATA_METHOD = "Mantel-Haenszel comparison within strata"
LEGITIMATE = (
    "What factors account for is arithmetic. Whether they are legitimate, and whether they are themselves affected by "
    "group membership, these data cannot say."
)
_HOMOGENEITY = {"odds_ratio": "Breslow and Day's test with Tarone's correction", "difference": "Cochran's Q"}
NUMBERS, BY_STRATUM = "The numbers", "The strata one by one"  # the tables of a report
ADJUSTED = {"estimate": "Adjusted estimate", "reference": "Adjusted reference"}
_BANDS = 20  # bands listed in a sentence


def alike(given: Sequence[str], bands: Mapping[str, Sequence[str]]) -> str:
    """Whom people are compared with: 'with the same region and in the same band of income'."""
    same, cut = [name for name in given if name not in bands], [name for name in given if name in bands]
    parts = [f"with the same {phrases.listed(same)}"] if same else []
    if cut:
        parts.append(f"in the same {'band' if len(cut) == 1 else 'bands'} of {phrases.listed(cut)}")
    return " and ".join(parts)


def banded(name: str, bands: Sequence[str]) -> str:
    """The bands that a number is cut into."""
    more = f"; and {len(bands) - _BANDS:,} more" if len(bands) > _BANDS else ""
    return f"Bands of {name}: {'; '.join(bands[:_BANDS])}{more}."


def null_within(sentence: str, alike: str) -> str:
    """The null hypothesis of every group, within strata."""
    return f"{sentence.removesuffix('.')}, comparing people {alike}."


def adjusted_note(scale: str) -> str:
    """What adjusted estimates are, below the table that has them."""
    averages = {
        "odds_ratio": "The adjusted reference averages the reference's rates over the strata. The adjusted estimate is "
        "the rate with the common odds ratio to it.",
    }.get(
        scale,
        "The adjusted estimate and the adjusted reference average the numbers of the group and of its reference over "
        f"the strata, both with the same weights: their {scale} is the one in the table.",
    )
    return (
        f"{averages} A stratum's weight is the rows of the group times those of the reference, divided by the rows of "
        "both, so strata without one of them have none. Raw numbers are not adjusted for the strata."
    )


def accounts(r: GroupEvidence, i: int) -> str:
    """What a disparity is without the factors and within them, and how much of it they account for."""
    numbers = (r.unconditional, r.accounted, r.accounted_low, r.accounted_high, r.raw_estimate, r.raw_reference)
    whole, value, low, high, *raw = (float("nan") if part is None else float(part[i]) for part in numbers)
    points, ratio = r.scale == "difference" and r.shares[i], r.scale != "difference"
    without, within = (_apart(size, points=points, ratio=ratio) for size in (whole, float(r.disparity[i])))
    own, other = (phrases.share(mean) if r.shares[i] else phrases.number(mean) for mean in raw)
    factors = phrases.listed(r.given)
    sentences = [
        f"{r.labels[i]}: {without} without regard to {factors} ({own} against {other}), {within} among people "
        f"{alike(r.given, r.bands)}."
    ]
    if points and isfinite(low) and isfinite(high):
        sentences.append(f"Accounted for by {factors}: {phrases.apart(value, (low, high), r.alpha)}.")
    else:
        amount = f"a factor of {phrases.number(value)}" if ratio else phrases.signed(value)
        sentences.append(f"Accounted for by {factors}: {amount} ({phrases.interval(low, high, r.alpha)}).")
    shares = [float("nan") if part is None else 100.0 * part[i] for part in (r.share, r.share_low, r.share_high)]
    if all(map(isfinite, shares)):
        sentences.append(f"That is {shares[0]:.0f} % of it ({shares[1]:.0f} to {shares[2]:.0f} %).")
    return " ".join(sentences)


def _apart(value: float, *, points: bool, ratio: bool) -> str:
    if points and isfinite(value):
        return f"{phrases.points(value)} {'lower' if value < 0 else 'higher'}"
    return phrases.number(value) if ratio else phrases.signed(value)


def _strata_differ(note: Note) -> str:
    test = _HOMOGENEITY.get(note.values["scale"], _HOMOGENEITY["difference"])
    return (
        f"The disparity differs between strata for {phrases.listed(note.groups)} ({test}): the common one is an "
        "average that need hold in no stratum."
    )


def _strata_unjudged(note: Note) -> str:
    reason = (
        "the tests of it take rows as independent and of equal weight"
        if note.values["designed"]
        else "fewer than two strata have enough rows on both sides"
    )
    groups = phrases.listed(note.groups)
    return f"Whether the disparity differs between strata could not be judged for {groups}: {reason}."


register(
    {
        "strata_differ": _strata_differ,
        "strata_unjudged": _strata_unjudged,
        "strata_one_sided": "Strata in which one side is empty carry no information about {groups}: up to {most:,} of "
        "a group's strata. Their rows count in the unconditional disparity only.",
        "strata_shown": "The first {shown:,} strata are kept one by one; all of them are in the common disparity.",
    }
)
STRATA_ASSUMED = (
    "The disparity is the same in every stratum.",
    "Tested for strata with enough rows on both sides; if it is not, the common disparity is a weighted average.",
)

# ---- adverse impact. No threshold is called the law's.

IMPACT_METHOD = "impact ratios by likelihood, with multiple comparisons with the best"
IMPACT_REFERENCES = (
    "Hsu, J. C. (1981). Simultaneous confidence intervals for all distances from the 'best'. Annals of Statistics 9, "
    "1026-1034.",
    "Miettinen, O. and Nurminen, M. (1985). Comparative analysis of two rates. Statistics in Medicine 4, 213-226.",
    "Holm, S. (1979). A simple sequentially rejective multiple test procedure. Scandinavian Journal of Statistics 6, "
    "65-70.",
    "Montiel Olea, J. L. and Plagborg-Moller, M. (2019). Simultaneous confidence bands. Journal of Applied "
    "Econometrics 34, 1-17.",
)
IMPACT_LIMITS = (
    "The threshold is a custom that whoever ran this chose. No threshold is the law's: a ratio below the "
    "threshold is not by itself unlawful, and one above it is not by itself lawful.",
    "A ratio describes who was selected. It does not say why, nor whether the categories' applicants were alike.",
    phrases.NOT_PROOF,
)
BEST_CATEGORY = (
    "Which category of a column is selected most often is itself an estimate. Intervals and p-values are of the "
    "comparison with the one that truly is, whichever that may be; they do not take it to be known."
)
ASSUMED_BEST = ("The category selected most often is not known beforehand.", "Its choice is part of every interval.")
ASSUMED_NAMED = ("The comparator was chosen before looking at these data.", phrases.UNCHECKED)
BOUNDS, SHORTFALLS = "If unknown categories were known", "Shortfalls"
# What columns are called where rows have weights.
WEIGHTED_HEADINGS = {
    "n": "Rows",
    "selected": "Rows selected",
    "shortfall": "More selections by weight to reach the threshold",
    "shortfall_parity": "More selections by weight to reach parity",
}
IMPACT_PAGES = {
    "The table as it is published": "table group n selected weighted_n weighted_selected estimate disparity against",
    "What the data show": "table group disparity ci_low ci_high difference pvalue below_threshold difference_shown "
    "verdict status",
    BOUNDS: "table group disparity bound_low bound_high",
    SHORTFALLS: "table group n selected weighted_n weighted_selected shortfall shortfall_parity",
}
WEIGHTED_RATIOS = "Verdicts are compared; impact ratios by weight are not."


def _left_out(note: Note) -> str:
    choice = f" or less than {100 * note.values['share']:g} % of the rows" if note.values["share"] else ""
    return (
        f"Left out of ratios, with their numbers and rates given: {phrases.listed(note.groups)} (fewer than "
        f"{note.values['least']:,} rows{choice})."
    )


def _unknown_category(note: Note) -> str:
    unknown, rows = (phrases.count(note.values[name]) for name in ("unknown", "rows"))
    return (
        f"The category is unknown for {unknown} of {rows} rows of the table {note.values['table']}: "
        "they are in no rate, and the bounds say what they could change."
    )


def _nothing_to_compare(note: Note) -> str:
    return f"Fewer than two categories can be compared in the table {phrases.listed(note.values['tables'])}."


register(
    {
        "few_clusters": "Too few clusters to judge their spread by (fewer than 10 effective ones) in {groups}: listed "
        "and not tested.",
        "left_out": _left_out,
        "unknown_category": _unknown_category,
        "nobody_selected": "Nobody was selected, so there is no ratio: {groups}.",
        "nothing_to_compare": _nothing_to_compare,
    }
)


def impact_null(threshold: float) -> str:
    """The null hypothesis of every category."""
    return f"For each category, its rate is at least {phrases.number(threshold)} times that of its comparator."


def impact_overview(r: AdverseImpactResult, others: Sequence[int], compared: int) -> str:
    """Three facts, one after the other."""
    facts = (
        (f"Observed impact ratios below {phrases.number(r.threshold)}:", r.below_threshold),
        ("A difference from the comparator was shown for", r.difference_shown),
        ("A ratio below the threshold was shown for", [verdict is Verdict.VIOLATION for verdict in r.verdicts]),
    )
    named = [(text, phrases.listed([r.labels[i] for i in others if fact[i]]) or "none") for text, fact in facts]
    return " ".join([f"{compared:,} categories were compared.", *(f"{text} {names}." for text, names in named)])


def impact_finding(r: AdverseImpactResult, i: int) -> str:
    """One category: its rate, its ratio with an interval, what was shown, and what it would have taken.

    The adjusted p-value is one-sided: it may be small where the interval, which has two sides, just holds the
    threshold.
    """
    selected, n, weighted = phrases.count(r.selected[i]), phrases.count(r.n[i]), ""
    counted = f"{selected} of {n} {r.chosen}"
    if r.weighted_n is not None and r.weighted_selected is not None:
        stand = f"{phrases.count(r.weighted_selected[i])} of {phrases.count(r.weighted_n[i])}"
        counted = f"{selected} of {n} rows {r.chosen}, which stand for {stand} people by weight"
        weighted = " by weight"
    sentences = [
        f"{r.labels[i]}: {counted} ({100 * r.estimate[i]:.1f} %), an impact ratio of "
        f"{phrases.number(r.disparity[i])} to {r.against[i]} "
        f"({phrases.interval(r.ci_low[i], r.ci_high[i], r.alpha)}). Against equal rates, for this category alone: "
        f"{phrases.pvalue(r.pvalue[i])}; against a ratio of {phrases.number(r.threshold)} or more, "
        f"adjusted for all categories: {phrases.pvalue(r.adjusted_pvalue[i])}."
    ]
    need, parity = r.shortfall[i], r.shortfall_parity[i]
    more = f"{phrases.count(need or parity)} more {'selection' if (need or parity) == 1 else 'selections'}{weighted}"
    if need > 0:
        ratio = f"A ratio of {phrases.number(r.threshold)}"
        sentences.append(f"{ratio} would have needed {more}, the comparator's rate {phrases.count(parity)}.")
    elif parity > 0:
        sentences.append(f"{more} would have reached the comparator's rate.")
    if r.bound_low[i] == r.bound_low[i]:
        ends = f"{phrases.number(r.bound_low[i])} and {phrases.number(r.bound_high[i])}"
        sentences.append(f"Whatever the unknown categories are, the ratio lies between {ends}.")
    return " ".join(sentences)


def median(value: float) -> str:
    """What selection means when there are scores alone."""
    return f"Selected means here: scored above {phrases.number(value, 6)}, the median of all scores."


def cutoffs(alpha: float, banded: bool) -> str:
    """The title of the ratios by cut-off; bands are for rows that are independent and weigh the same."""
    return f"Impact ratio by cut-off{f', with simultaneous {100 * (1 - alpha):g} % bands' if banded else ''}"
