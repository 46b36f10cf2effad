"""Every sentence about groups. A sentence is a function of the evidence and the line it is about."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from math import isfinite, isnan, nan
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np

from isonomy.inference import Verdict, inside, rejected
from isonomy.numerics.status import Status
from isonomy.results import Note, phrases, register
from isonomy.results.columns import cell_text

if TYPE_CHECKING:
    from isonomy.frames.metrics import Measure
    from isonomy.groups.certify import CertifyResult
    from isonomy.groups.disparities import ComparisonPlan, GroupEvidence
    from isonomy.groups.flag import FlagPlan, FlagResult
    from isonomy.groups.impact import AdverseImpactResult
    from isonomy.groups.models import ModelComparison
    from isonomy.groups.options import Reference
    from isonomy.groups.shrunk import ShrunkResult

# ---- groups one by one

METHOD = "empirical likelihood"
BENJAMINI = "Benjamini, Y. and Hochberg, Y. (1995). Controlling the false discovery rate. JRSS B 57, 289-300."
MIETTINEN = (
    "Miettinen, O. and Nurminen, M. (1985). Comparative analysis of two rates. Statistics in Medicine 4, 213-226."
)
HOLM = (
    "Holm, S. (1979). A simple sequentially rejective multiple test procedure. Scandinavian Journal of Statistics 6, "
    "65-70."
)
REFERENCES = (
    "Tang, J., Xie, C., Zeng, X. and Zhu, L. (2026). Empirical likelihood-based fairness auditing: distribution-free "
    "certification and flagging. arXiv:2601.20269.",
    "Owen, A. B. (2001). Empirical Likelihood. Chapman and Hall/CRC.",
    BENJAMINI,
)
LIMITS = (
    phrases.NOT_PROOF,
    "A difference is a description, not a cause: it does not say why groups differ, or who is responsible.",
    "Only the groups and the metric named here were tested.",
)
NOUNS = {
    "difference": "difference",
    "ratio": "ratio",
    "odds_ratio": "odds ratio",
    "standardized": "standardized difference",
}
DIFFERENCES = ("difference", "standardized")  # scales on which no difference is 0
SIGMAS = {"population": "of all rows", "pooled": "of the two groups, pooled", "reference": "of the reference"}
DISFAVORED, FAVORED = "disfavored", "favored"  # flagged groups that are worse off than the reference, and better off
OTHER_NULL = {DISFAVORED: "worse off than that", FAVORED: "better off than that"}
NAMED = {DISFAVORED: DISFAVORED, FAVORED: FAVORED}
NOT_RECORDED = (
    "called neither favored nor disfavored, because the group is not recorded"  # flagged rows whose group nobody knows
)
BEYOND = {"greater": "exceed", "less": "fall below"}
HIGHER = {"greater": "higher", "less": "lower"}
# Columns that are computed from others.
WORKED_OUT = {
    "detectable": "Difference detectable in 80 % of samples",
    "rows_needed": "Rows needed to show it is within tolerance, if there is no difference",
}
# What an adjustment of p-values controls at alpha, over all groups.
ERROR_RATES = {
    "holm": "the chance of any false finding is at most {} (Holm)",
    "bonferroni": "the chance of any false finding is at most {} (Bonferroni)",
    "max-t": "the chance of any false finding is at most {} (max-t)",
    "bh": "on average at most {} of the findings are false (Benjamini and Hochberg)",
    "by": "on average at most {} of the findings are false (Benjamini and Yekutieli)",
    "bh-tree": "on average at most {} of the findings at a level are false (Benjamini and Hochberg)",
    "bh-siblings": "on average at most {} of the findings among siblings are false (Benjamini and Hochberg)",
}


def reference(target: Reference) -> str:
    if (value := target.value) is not None:
        number = format(Decimal(f"{value:.6g}"), "f")
        return number if target.estimate is None else f"the estimate {number}"
    people = {"population": target.everybody, "rest": f"the rest of {target.everybody}"}
    return people.get(target.to, str(target.group) if target.group is not None else f"the {target.to} group")


def metric_nouns(metrics: Iterable[Measure]) -> str:
    """The metrics as nouns: 'true positive rate and false positive rate', 'share approved'."""
    nouns = list(dict.fromkeys(map(phrases.noun, map(attrgetter("name"), metrics))))
    return phrases.listed(nouns, limit=len(nouns))


def comparison(metric: str, reference: str, scale: str, *, value: bool, sigma: str | None = None) -> str:
    """What a disparity is: 'ppv minus that of the population' or, if the reference is a ``value``, 'ppv minus 0.6'."""
    if sigma is not None:
        difference = comparison(metric, reference, "difference", value=value)
        return f"{difference}, in standard deviations {SIGMAS[sigma]},"
    if scale == "odds_ratio":
        return f"odds ({metric}) divided by {'the odds of' if value else 'those of'} {reference}"
    word = "divided by" if scale == "ratio" else "minus"
    return f"{metric} {word} {reference}" if value else f"{metric} {word} that of {reference}"


def measured(r: GroupEvidence, metric: str) -> str:
    """What a chart of one metric shows: 'selection rate minus that of the population'."""
    value = r.reference_kind.is_value
    return comparison(phrases.noun(metric), r.reference, r.scale, value=value, sigma=r.sigma).rstrip(",")


def disparity(value: float, scale: str) -> str:
    """'a difference of +0.05', 'a ratio of 0.8'."""
    article = "an" if scale == "odds_ratio" else "a"
    shown = phrases.signed(value) if scale in DIFFERENCES else phrases.number(value)
    return f"{article} {NOUNS[scale]} of {shown}"


def null(plan: FlagPlan) -> str:
    tested = plan.hypothesis
    where = f" and each metric ({metric_nouns(plan.measures)})" if len(plan.measures) > 1 else ""
    return f"For each group{where}, its {_claim(plan, tested.low, tested.high, tested.alternative)}."


def joint_null(plan: ComparisonPlan, groups: int, null: float | None) -> str:
    """The null hypothesis about all groups; ``null`` is None if it differs between groups."""
    several, plain = len(plan.measures) > 1, plan.base_scale == "difference" and plan.sigma is None
    everywhere = f"In all {counted(groups, several)} at once" if groups > 1 else "In the one group tested"
    listed = f" ({metric_nouns(plan.measures)})" if several else ""
    return f"{everywhere}{listed}, {'the ' if plain and null == 0 else ''}{_claim(plan, null, null, 'two-sided')}."


def _claim(plan: ComparisonPlan, low: float | None, high: float | None, alternative: str) -> str:
    """'selection rate equals that of the population'; ``low`` is None if disparities differ between groups."""
    names, value = "value" if len(plan.measures) > 1 else metric_nouns(plan.measures), plan.target.value is not None
    other, plain = reference(plan.target), plan.base_scale == "difference" and plan.sigma is None
    points = plain and all(map(attrgetter("binary"), plan.measures))
    among = "" if plan.given is None else f", comparing people {alike(plan.factors, plan.bands)}"
    verb = {"two-sided": "equals", "greater": "is at most", "less": "is at least"}.get(alternative, "")
    whose = other if value else f"that of {other}"
    if plain and verb and low == high == 0:
        return f"{names} {verb} {whose}{among}"
    size = phrases.points if points else phrases.number
    amounts = ["" if end is None else f"{'-' if end < 0 and points else ''}{size(end)}" for end in (low, high)]
    if plain and not verb and low is not None and low == -(high or 0.0):
        return f"{names} differs from {whose} by at most {amounts[1]}{among}"
    claim = f"{verb} {amounts[0]}" if verb else f"lies between {' and '.join(amounts)}"
    measured = comparison(names, other, plan.base_scale, value=value, sigma=plan.sigma)
    return f"{measured} {'has the value given' if low is None else claim}{among}"


def group_finding(r: FlagResult, i: int) -> str:
    share, ends, value = r.shares[i], (float(r.ci_low[i]), float(r.ci_high[i])), float(r.disparity[i])
    weighted = "by weight, " if r.provenance.options.get("weight") is not None else ""
    adjusted = f" adjusted for {phrases.listed(r.given)}" if r.given and not r.model else ""
    estimate, other = (
        (phrases.share if share else phrases.number)(float(v[i])) for v in (r.estimate, r.reference_value)
    )
    start = (
        f"{r.labels[i]}: {phrases.metric(r.metrics[i])} {estimate}{adjusted} ({weighted}{phrases.count(r.n[i])} rows)"
    )
    if r.reference_kind.best and r.verdicts[i] is not Verdict.VIOLATION and r.compared_with()[i]:
        return f"{start}. In these data it is itself {r.reference}."
    size = f"{disparity(value, r.scale)}, {phrases.interval(*ends, r.alpha)}"
    if share and r.scale == "difference" and any(map(isfinite, ends)):
        size = phrases.apart(value, ends, r.alpha)
    whose = "" if r.reference_kind.is_value else f" for {r.reference}"
    if r.model:
        whose = f" for comparable people among {r.reference}"
    single, family = phrases.pvalue(float(r.pvalue[i])), phrases.adjusted(float(r.adjusted_pvalue[i]))
    evidence = family if family == f"adjusted {single}" else f"{single}, {family}"
    if r.deviations is not None and isfinite(r.deviations[i]):
        evidence = f"{abs(float(r.deviations[i])):.1f} standard deviations from no difference; {evidence}"
    return f"{start}, compared with {other}{whose}; {size}; {evidence}. {_shown(r, i)}{_short(r, i)}"


def _short(r: FlagResult, i: int) -> str:
    if r.shortfall is None or not r.shortfall[i] >= 0.5 or not r.shares[i] or r.design is not None:
        return ""
    more = phrases.count(r.shortfall[i])
    return f" At the rate of comparable people, the number in this group would be {more} higher."


def _shown(r: FlagResult, i: int) -> str:
    verdict, side = r.verdicts[i], "" if r.reference_kind.best else r.alternative
    way = f": {word}" if (word := (OTHER_NULL if r.tested else NAMED).get(r.direction[i], "")) else ""
    if r.tested and verdict is Verdict.VIOLATION:
        return f"Shown to differ from {r.tested}{way}."
    if verdict is Verdict.VIOLATION:
        larger = "" if r.tolerance is None else " larger than the tolerance"
        return f"A difference{larger} was shown{way}."
    if verdict is Verdict.WITHIN_TOLERANCE:
        beyond = BEYOND.get(side)
        return f"Shown not to {beyond} the reference by more than the tolerance." if beyond else WITHIN
    if r.tolerance is not None:
        return "These data neither show a difference larger than the tolerance nor rule one out."
    if side in HIGHER:
        return f"The test was one-sided: it was not shown that the value is {HIGHER[side]}."
    differ = f"Not shown to differ from {r.tested}" if r.tested else "No difference was shown"
    return f"{differ}: these data cannot tell."


WITHIN = "Shown to lie within the tolerance."


def null_phrase(r: GroupEvidence, low: float, high: float, alternative: str) -> str:
    """A null hypothesis other than equality: 'the tested difference (at most 5.0 points lower)'."""
    points = r.all_shares and r.scale == "difference"
    limits = {"greater": "at most ", "less": "at least "}
    if points and low < 0:  # more points lower is less
        limits = {"greater": "at least ", "less": "at most "}
    if points:
        ends = phrases.offset(low) if low == high else phrases.between(low, high)
    else:
        number = phrases.signed if r.scale in DIFFERENCES else phrases.number
        ends = " to ".join(dict.fromkeys([number(low), number(high)]))
    return f"the tested {NOUNS[r.scale]} ({limits.get(alternative, '')}{ends})"


def other_null_verdict(r: GroupEvidence, tested: str) -> str:
    shown = "at least one group differs" if r.verdict is Verdict.VIOLATION else "no group was shown to differ"
    return f"{r.definition.badge(r.verdict.value)}: {shown} from {tested}."


def within_one_side(r: FlagResult) -> str:
    beyond = f"not to {BEYOND[r.alternative]} the reference by more than the tolerance"
    return f"Within tolerance: every group was shown {beyond}."


def counted(number: int, several: bool, *, verb: bool = False) -> str:
    """'17 groups', or '34 group-metric pairs' with ``several`` metrics; '17 groups were' with the ``verb``."""
    noun = f"{'group-metric pair' if several else 'group'}{'' if number == 1 else 's'}"
    return f"{number:,} {noun}{(' was' if number == 1 else ' were') if verb else ''}"


def flag_overview(r: FlagResult, order: Sequence[int]) -> str:
    """How many groups differ, and which are worse off and better off; ``order``: the tested ones, worst first."""
    several, tested = len(set(r.metrics)) > 1, len(order)
    titles = {i: r.names[i].replace(f"({r.metrics[i]})", f"({phrases.metric(r.metrics[i])})") for i in order}
    flagged = [i for i in order if r.verdicts[i] is Verdict.VIOLATION]
    sides = ""
    for direction, way in ((DISFAVORED, flagged), (FAVORED, flagged[::-1]), ("", flagged)):
        if names := [titles[i] for i in way if r.direction[i] == direction]:
            word = (OTHER_NULL if r.tested else NAMED).get(direction, NOT_RECORDED)
            sides += f" {word[:1].upper()}{word[1:]}: {phrases.listed(names)}."
    within = sum(verdict is Verdict.WITHIN_TOLERANCE for verdict in r.verdicts)
    listed = sum(status is not Status.REFERENCE for status in r.status)
    side = {"greater": ", upwards", "less": ", downwards"}.get(r.alternative, "")
    end = f" {counted(within, several, verb=True)} shown to lie within the tolerance{side}." if within else ""
    if tested != listed:
        end += f" {counted(listed - tested, several, verb=True)} listed without a verdict: see the table."
    if not tested:
        return f"No group could be tested.{end}"
    subject = f"{f'{len(flagged):,}' if flagged else 'None'} of {counted(tested, several)}"
    verb = "were" if len(flagged) > 1 else "was"
    if tested == 1:
        subject, verb = f"The one {counted(1, several)[2:]} tested", "was" if flagged else "was not"
    against = f"{r.tested or r.reference}{' by more than the tolerance' if r.tolerance is not None else ''}"
    return f"{subject} {verb} shown to differ from {against}.{sides}{end}"


SENTENCES, LISTED = 12, 20  # lines that `summary` describes one by one; groups in its table
SHOWN_BY = {Verdict.VIOLATION: "*", Verdict.WITHIN_TOLERANCE: "~"}


def matrix(r: FlagResult, order: Sequence[int]) -> tuple[str, ...]:
    """The disparities as lines of text, groups by metrics; ``order``: the tested ones, worst first."""
    column, metrics = r.described(["disparity"])["disparity"], list(dict.fromkeys(r.metrics))
    text = [f"{100 * d + 0.0:.1f}" if column.unit and isfinite(d) else cell_text(column, d) for d in r.disparity]
    cells = {
        (group.label, metric): f"{text[i].replace('-', '−')}{SHOWN_BY.get(r.verdicts[i], ' ')}"
        for i, (group, metric) in enumerate(zip(r.groups, r.metrics, strict=True))
    }
    labels = list(dict.fromkeys(r.labels[i] for i in order))
    rows = [[label, *(cells.get((label, metric), "") for metric in metrics)] for label in labels[:LISTED]]
    head = [column.title, *(f"{metric} " for metric in metrics)]
    first, *others = (max(map(len, cells)) for cells in zip(head, *rows, strict=True))
    lines = [
        "  ".join(
            [label.ljust(first), *(part.rjust(width) for part, width in zip(parts, others, strict=True))]
        ).rstrip()
        for label, *parts in [head, *rows]
    ]
    within = f"; {SHOWN_BY[Verdict.WITHIN_TOLERANCE]} shown to lie within the tolerance" if r.tolerance else ""
    more = f" The {LISTED} worst of {len(labels)} groups." if len(labels) > LISTED else ""
    end = f"{SHOWN_BY[Verdict.VIOLATION]} shown to differ{within}. Intervals: to_frame(); sentences: findings()."
    return (*lines, "", f"{end}{more}")


def against_best(best: str) -> str:
    return f"The {best} is itself estimated. Intervals and p-values account for the uncertainty about which one it is."


def alone(r: GroupEvidence) -> tuple[str, ...]:
    pairs = zip(r.labels, r.status, strict=True)
    named = [label for label, status in pairs if status is Status.REFERENCE and label != r.reference]
    groups = phrases.listed(list(dict.fromkeys(named)))
    return (f"Listed but not tested, because there is nobody to compare them with: {groups}.",) if named else ()


def decided_otherwise(r: FlagResult) -> str:
    other = "treats it as known, as the published method does," if r.joint else "accounts for its error"
    groups = f"the group{'' if len(r.otherwise) == 1 else 's'} {phrases.listed(r.otherwise)}"
    return f"The reference is itself estimated. A test that {other} would have reached another verdict for {groups}."


def intervals(kind: str, alpha: float) -> str:
    level = f"{100 * (1 - alpha):g} % intervals"
    return level if kind == "pointwise" else f"{kind.capitalize()} {level}"


def error_rates(
    kind: str, adjust: str, alpha: float, noun: str = "group", nouns: str = "groups", *, disagree: bool
) -> tuple[str, ...]:
    """The error rates of a chart's intervals and colors; none if both are for each group alone.

    ``disagree``: an interval excludes the null hypothesis without a verdict, or contains it in spite of one.
    """
    joint = kind == "simultaneous"
    if adjust not in ERROR_RATES and not joint:
        return ()
    whom = f"all {nouns} together" if joint else f"each {noun} alone"
    single = f"for each {noun} alone, at most a {{}} chance that a finding is false"
    return (
        f"Intervals: {100 * (1 - alpha):g} % for {whom}.",
        f"Colors: {ERROR_RATES.get(adjust, single).format(f'{100 * alpha:g} %')}.",
        *(["Where the two disagree, the color is the verdict."] if disagree else []),
    )


def assumptions(r: GroupEvidence) -> tuple[tuple[str, str], ...]:
    error = "Its sampling error is part of the test." if r.joint else "It is treated as known, without error."
    overlap = f"{phrases.UNCHECKED} People may be in several groups, and the test allows for that."
    size = "Groups are large enough for the test's approximation (the chi-square limit)."
    return (
        r.rows_assumed(),
        phrases.SAMPLE,
        (f"The reference is {r.reference}.", error),
        (size, "Groups with too few rows are listed but not tested; the column Status marks them."),
        ("Group membership is recorded correctly.", overlap if r.overlapping else phrases.UNCHECKED),
        *(
            COMPARABLE_ASSUMED[: 3 if r.model == "doubly_robust" else 2]
            if r.model
            else [STRATA_ASSUMED]
            if r.given
            else []
        ),
    )


# The note about groups with a status.
CONCERNS: Mapping[Status, str] = {
    Status.FEW_CLUSTERS: "few_clusters",
    Status.SKEWED: "skewed_groups",
    Status.FEW_EVENTS: "few_events",
    Status.ZERO_BASELINE: "zero_baseline",
    Status.EMPTY: "empty_groups",
    Status.UNSUPPORTED: "unsupported_strata",
    Status.NO_OVERLAP: "no_overlap",
    Status.SEPARATED: "separated_outcomes",
    Status.OUTSIDE_RANGE: "null_outside_range",
    Status.UNBOUNDED: "unbounded_intervals",
    Status.NOT_CONVERGED: "not_maximized",
}


def _uncorrected(note: Note) -> str:
    """A Bartlett factor that resampling did not give; without groups, that of a joint test."""
    where = f" for {phrases.listed(note.groups)}" if note.groups else ""
    needed = note.values.get("needed")
    return (
        f"The small-sample correction could not be computed{where}: T was finite, with the same degrees of freedom, in "
        "too few resamples. T is not corrected there."
        f"{' The groups are too small to do without it, so the joint test has no verdict.' if needed else ''}"
    )


register(
    {
        "small_groups": "Listed but not tested, because they have fewer than {least:,} rows that count: {groups}.",
        "small_reference": "The reference, {groups}, has fewer than {least:,} rows that count, so every comparison is "
        "rough.",
        "constant_shares": "All rows that count have the same value in {groups}: the share is 0 % or 100 %, and its "
        "interval and p-value are rough.",
        "constant_values": "Listed but not tested, because all rows that count have the same value, so chance cannot "
        "be judged: {groups}.",
        "always_selected": "Everybody with outcome 1 was selected. If outcomes are known only for the selected, this "
        "is always so and says nothing; use ppv instead, the share with outcome 1 among the selected.",
        "skewed_groups": "The metric is too skewed for the number of rows in {groups} (about 30 times the squared "
        "skewness are needed, more if many groups are tested). Estimates are reported, but tests and intervals would "
        "err too often, so there is no verdict.",
        "joint_skewed": "{metrics} is too skewed for the number of rows in the groups (about twice the squared "
        "skewness are needed), so the joint test has no verdict.",
        "joint_narrow": "{metrics} is skewed, and groups that vary less than all rows together decide the joint test: "
        "they may lack the rare large amounts, so it has no verdict.",
        "few_events": "Listed but not tested, because too few rows of one class, or too few scores out of order, show "
        "how far chance moves the metric: {groups}.",
        "few_for_factors": "Listed but not tested, because there are too few people, or too few of one outcome in the "
        "reference, for the number of factors: {groups}. Name fewer factors.",
        "zero_baseline": "Listed but not tested, because the reference is 0 (or its odds are infinite), so there is no "
        "ratio: {groups}.",
        "empty_groups": "Listed but not tested, because no row meets the metric's condition: {groups}.",
        "unsupported_strata": "Listed but not tested, because few strata have people on both sides or, with weights or "
        "clusters, the strata have only a few rows each: {groups}. Cut numbers into bands, or compare with comparable "
        "people by regression.",
        "undefined_metric": "Listed but not tested, because the metric is undefined for the group or its reference "
        "(there is only one class or, for a quantile, there are too many equal values): {groups}.",
        "null_outside_range": "The null hypothesis lies outside the range of the data for {groups}: p is 0 by "
        "convention.",
        "unbounded_intervals": "The interval is unbounded on at least one side for {groups}.",
        "not_maximized": "The likelihood could not be maximized for {groups}: numbers that depend on it are not "
        "reported.",
        "plugin_reference": "The published procedure treats the estimated reference as known. Its intervals do not "
        "have their nominal level: in simulations, 95 % intervals cover the true value 83 % of the time against a "
        "reference group of equal size.",
        "large_sample": "Without a tolerance, any difference from exact equality counts, and with many rows the test "
        "finds differences too small to matter. Set a tolerance to test whether a difference is large enough.",
        "dependence": "The adjustment for many groups (Benjamini and Hochberg) controls the share of false findings "
        "for independent or positively dependent tests. Overlapping groups and a shared estimated reference violate "
        "that; the adjustment of Benjamini and Yekutieli holds under any dependence.",
        "dependence_measured": lambda note: (
            "The adjustment for many groups (Benjamini and Hochberg) does not keep the share of false findings at "
            f"{phrases.share(note.values['alpha'])} here: groups depend on one another through common rows or through "
            f"their reference, and in simulations with that dependence it is {phrases.share(note.values['rate'])}. The "
            "max-t adjustment, and that of Benjamini and Yekutieli, keep theirs."
        ),
        "tree_levels": lambda note: (
            "Groups were tested level by level: an intersection is tested only if one of its parents was flagged, and "
            "each level is adjusted separately. "
            f"{counted(note.values['unreached'], note.values['several'], verb=True)} not reached."
        ),
        "resampled": "The small-sample correction is based on {resamples:,} resamples, and a p-value is close to the "
        "level: another seed might lead to another decision. Use more resamples.",
        "uncorrected": _uncorrected,
    }
)

# ---- groups drawn toward one another

SHRUNK = "Estimates drawn together"


def shrunk(r: ShrunkResult) -> str:
    main, names, pvalue = r.toward == "main_effects", phrases.listed(r.columns), phrases.pvalue(r.beyond_parts.pvalue)
    target = f"what {names} suggest if their effects add up" if main else "the mean of all groups"
    beyond = f" beyond the sum of {names}" if main else ""
    equal = (
        " The groups spread no more than chance spreads them and are drawn almost wholly together." if r.equal else ""
    )
    differ = f"No difference between the groups{beyond} was shown ({pvalue})."
    if rejected(r.beyond_parts.pvalue, r.alpha):
        differ = f"The groups differ{beyond} by more than chance explains ({pvalue})."
    return (
        f"Each estimate is drawn toward {target}; the fewer rows a group has, the more.{equal} On average over the "
        f"groups, {100 * (1 - r.alpha):g} % of these intervals contain the group's true value; for a single group, "
        "above all an unusual one, the chance may be lower. Use these numbers to explore and to rank. They are not a "
        f"test of any group: verdicts rest on the tests alone. {differ}"
    )


# ---- all groups taken together

TOLERANCE_DECIDES = (
    "The verdict rests on the tolerance and the intervals. The joint p-value above tests exact equality and does not "
    "decide it."
)
JOINT_STATISTICS = {
    "el": "joint empirical likelihood ratio statistic",
    "eel": "joint Euclidean likelihood ratio statistic",
    "cmh": "Cochran-Mantel-Haenszel statistic",
    "covariance": "joint statistic of all differences",
}
# The note about a joint test that did not end normally.
JOINT_STATUSES = {Status.INFEASIBLE: "joint_infeasible", Status.OUTSIDE_RANGE: "joint_outside_range"}


def _differ(shown: bool, apart: str = "") -> str:
    return f"the groups differ{apart} by more than chance explains" if shown else f"no difference{apart} was shown"


def certify_finding(r: CertifyResult) -> str:
    hidden = isnan(r.pvalue) and any(note.code == "pooled" for note in r.notes)
    shown = r.verdict is Verdict.VIOLATION if hidden and r.tolerance is None else rejected(r.pvalue, r.alpha)
    differ = _differ(bool(shown), f" from {r.tested}," if r.tested else "")
    if hidden:
        return f"{phrases.JOINT_WITHHELD}{'' if r.tolerance is not None else f' Taken together, {differ}.'}"
    return (
        f"Taken together, {differ}: {phrases.pvalue(r.pvalue)} ({JOINT_STATISTICS[r.likelihood]} "
        f"{phrases.number(r.statistic)} on {r.df:,} {'degree' if r.df == 1 else 'degrees'} of freedom)."
    )


def definitions(r: CertifyResult) -> Iterator[str]:
    for name, (_, _, _, adjusted) in r.definitions.items():
        metric = phrases.metric(name)
        yield (
            f"{metric[:1].upper()}{metric[1:]} alone: {_differ(bool(rejected(adjusted, r.alpha)))} "
            f"({phrases.pvalue(adjusted)}, adjusted over {len(r.definitions)} metrics by Holm's method)."
        )


def largest_finding(r: CertifyResult, i: int) -> str:
    ends, value, group = (float(r.ci_low[i]), float(r.ci_high[i])), float(r.disparity[i]), r.names[i]
    if r.shares[i] and r.scale == "difference":
        return f"The largest difference is that of {group}: {phrases.apart(value, ends, r.alpha, 'simultaneous ')}."
    interval = f"simultaneous {phrases.interval(*ends, r.alpha)}"
    return f"Furthest from the reference is {group}, with {disparity(value, r.scale)} ({interval})."


def tolerance_finding(r: CertifyResult, known: Sequence[int]) -> str:
    assert r.tolerance is not None
    outside = [r.names[i] for i in known if rejected(r.tolerance_pvalue[i], r.alpha)]
    within = inside(r.link.delta(r.ci_low[list(known)]), r.link.delta(r.ci_high[list(known)]), r.reach)
    number, groups = int(within.sum()), counted(len(known), len(set(r.metrics)) > 1)
    tolerance = phrases.points(r.tolerance) if r.all_shares and r.scale == "difference" else phrases.number(r.tolerance)
    limits = f"{tolerance} to {phrases.number(1.0 / r.tolerance)}" if r.link.ratio else f"±{tolerance}"
    if outside:
        article = "An" if r.scale == "odds_ratio" else "A"
        return f"{article} {NOUNS[r.scale]} beyond {limits} was shown for {phrases.listed(outside)}."
    where = f"all {groups} together" if number == len(known) else f"{number:,} of {groups}"
    none = "" if number == len(known) else "; in no group was a larger difference shown"
    return f"In {where}, the difference was shown to lie within {limits}{none}."


def _spare_rows(note: Note) -> str:
    """Rows in no tested group: too few to be part of the population, or all equal. Their number may be confidential."""
    where = f" ({phrases.listed(note.groups)})" if note.groups else ""
    several = note.values["tested"] > 1
    remaining = "the tested groups are compared with each other" if several else "one group alone leaves no test"
    reason = f"there are fewer than {note.values['least']} of them, too few to compare with the population"
    if note.values["equal"]:
        reason = "all rows of a group have the same value, so the sampling error of its mean cannot be estimated"
    return (
        f"The rows in no tested group{where} were left out of the joint test: {reason}, so {remaining}. Disparities "
        "and intervals use all rows."
    )


register(
    {
        "joint_corrected": lambda note: (
            "The groups are too small for their number, or for so skewed a metric: without a correction the joint test "
            "would reject true hypotheses too often. Its statistic was divided by "
            f"{phrases.number(note.values['factor'])}, the ratio of its mean under the null hypothesis to its degrees "
            "of freedom."
        ),
        "joint_left_out": lambda note: (
            f"Left out of the joint test: {phrases.listed(note.groups)}. They differ from other groups by fewer than "
            f"{note.values['least'] / 2:g} rows, half of the minimum size of a tested group. Their own intervals are "
            "not affected."
        ),
        "joint_spare": _spare_rows,
        "joint_infeasible": "The null hypothesis contradicts itself: these groups make up all rows, so they cannot all "
        "differ from the reference in this way, whatever their shares are. T is infinite and p is 0 by convention.",
        "joint_outside_range": "No weighting of the rows meets all constraints at once: T is infinite and p is 0 by "
        "convention.",
        "joint_approximate": "The joint likelihood was not maximized to full accuracy: the statistic is approximate.",
    }
)

# ---- groups within strata

STRATA_METHOD = "Mantel-Haenszel comparison within strata"
STRATA_REFERENCES = (
    "Mantel, N. and Haenszel, W. (1959). Statistical aspects of the analysis of data from retrospective studies of "
    "disease. JNCI 22, 719-748.",
    "Sato, T. (1989). On the variance estimator for the Mantel-Haenszel risk difference. Biometrics 45, 1323-1324.",
    "Greenland, S. and Robins, J. M. (1985). Estimation of a common effect parameter from sparse follow-up data. "
    "Biometrics 41, 55-68.",
    "Robins, J., Breslow, N. and Greenland, S. (1986). Estimators of the Mantel-Haenszel variance consistent in both "
    "sparse data and large-strata limiting models. Biometrics 42, 311-323.",
    MIETTINEN,
    "Breslow, N. E. and Day, N. E. (1980). Statistical Methods in Cancer Research I. IARC; with Tarone, R. E. (1985). "
    "On heterogeneity tests based on efficient scores. Biometrika 72, 91-95.",
)
LEGITIMATE = (
    "What factors account for is arithmetic. These data cannot say whether the factors are legitimate, or whether "
    "group membership itself affects them."
)
STRATA_ASSUMED = (
    "The disparity is the same in every stratum.",
    "Tested for strata with enough rows on both sides; otherwise the common disparity is a weighted average.",
)
# The tables of a report.
NUMBERS, BY_STRATUM = "The numbers", "The strata one by one"
SOME_STRATA = "The largest strata, and those that differ most"
_BANDS = 20  # bands listed in a sentence
UNJUDGED = {
    True: "the tests for it assume that rows are independent and have equal weight.",
    False: "fewer than two strata have enough rows on both sides.",
}


def alike(given: Sequence[str], bands: Mapping[str, Sequence[str]]) -> str:
    """Whom people are compared with: 'with the same region and in the same band of income'."""
    same, cut = [name for name in given if name not in bands], [name for name in given if name in bands]
    parts = [f"with the same {phrases.listed(same)}"] if same else []
    if cut:
        parts.append(f"in the same {'band' if len(cut) == 1 else 'bands'} of {phrases.listed(cut)}")
    return " and ".join(parts)


def stratum(label: str) -> str:
    """A stratum as readers say it: 'score 620 to under 700, region north'."""
    for pattern, text in ((r" to <(\S+)", r" to under \1"), (r"< (\S+)", r"under \1"), (r">= (\S+)", r"\1 and over")):
        label = re.sub(pattern, text, label)
    return label.replace(" & ", ", ").replace("=", " ")


def banded(r: GroupEvidence) -> tuple[str, ...]:
    return tuple(
        f"Bands of {name}: {'; '.join(bands[:_BANDS])}"
        f"{f'; and {len(bands) - _BANDS:,} more' if len(bands) > _BANDS else ''}."
        for name, bands in r.bands.items()
    )


def adjusted_note(scale: str, model: str) -> str:
    if model:
        return COMPARABLE_NOTE.format(NOUNS[scale])
    mine = "The adjusted estimate does so for the group, with the same weights: their {} is the one in the table."
    if scale == "odds_ratio":
        mine = "The adjusted estimate is the rate with the common {} to it."
    return (
        f"The adjusted reference averages the numbers of the reference over the strata. {mine.format(NOUNS[scale])} "
        "The weight of a stratum is the number of rows of the group times that of the reference, divided by their sum; "
        "a stratum without one of them has no weight. Raw numbers are not adjusted for the strata."
    )


def accounts(r: GroupEvidence, i: int) -> str:
    columns = (r.unconditional, r.accounted, r.accounted_low, r.accounted_high, r.raw_estimate, r.raw_reference)
    whole, value, low, high, *raw = (nan if part is None else float(part[i]) for part in columns)
    points, ratio, level = r.scale == "difference" and r.shares[i], r.scale != "difference", 100 * (1 - r.alpha)
    number = phrases.offset if points else phrases.number if ratio else phrases.signed
    sizes = [disparity(size, r.scale) if ratio else number(size) for size in (whole, float(r.disparity[i]))]
    factors, same = phrases.listed(r.given, len(r.given)), alike(r.given, r.bands)
    subject = factors
    if len(r.given) > 2:  # their names once
        subject = f"these {len(r.given):,} factors"
        same = f"alike in {subject}"
    mine, other = (phrases.share(mean) if r.shares[i] else phrases.number(mean) for mean in raw)
    sentences = [
        f"{r.labels[i]}: {sizes[0]} without regard to {factors} ({mine} against {other}), "
        f"{sizes[1]} among people {same}."
    ]
    amount = f"{'a factor of ' if ratio else ''}{number(value)} ({phrases.interval(low, high, r.alpha)})"
    if points and isfinite(low) and isfinite(high):
        adds = value < 0 < whole or whole < 0 < value
        sign = -1.0 if (value or whole) < 0 else 1.0
        first, last = sorted((sign * low, sign * high))
        ends = " to ".join(phrases.ends(first, last, shares=True))
        part = f"{phrases.percent(abs(value))} of the {phrases.points(whole)}"
        if adds:
            part = f"none of the difference: comparing like with like adds {phrases.points(value)} to it"
        amount = f"{part} ({level:g} % interval {ends})"
    verb = "accounts" if len(r.given) == 1 else "account"
    sentences.append(f"{subject[:1].upper()}{subject[1:]} {verb} for {amount}.")
    shares = [nan if part is None else 100.0 * part[i] for part in (r.share, r.share_low, r.share_high)]
    if not points and all(map(isfinite, shares)) and 0.0 <= shares[0] <= 100.0:
        interval = f"{level:g} % interval {shares[1]:.0f} to {shares[2]:.0f} %"
        sentences.append(f"That is {shares[0]:.0f} % of the whole ({interval}).")
    return " ".join(sentences)


# ---- comparable people

COMPARABLE_METHODS = {
    "doubly_robust": "doubly robust comparison with comparable people",
    "logistic": "Peters-Belson comparison with comparable people",
}
COMPARABLE_REFERENCES = (
    "Gastwirth, J. L. and Greenhouse, S. W. (1995). Biostatistical concepts and methods in the legal setting. "
    "Statistics in Medicine 14, 1641-1653.",
    "Graubard, B. I., Rao Sukhatme, R. and Gastwirth, J. L. (2005). Using the Peters-Belson method to measure health "
    "care disparities from complex survey data. Statistics in Medicine 24, 2659-2668.",
    "Robins, J. M., Rotnitzky, A. and Zhao, L. P. (1994). Estimation of regression coefficients when some regressors "
    "are not always observed. JASA 89, 846-866.",
    BENJAMINI,
)
COMPARABLE_ASSUMED = (
    (
        "Nothing else that matters for the metric differs between the groups, besides the factors named here.",
        f"{phrases.UNCHECKED} A factor that was not recorded may account for more of the difference, or for less.",
    ),
    (
        "The reference has people who are comparable with those of the group.",
        "The share of the group without a comparable person is reported; above a third there is no verdict.",
    ),
    (
        "One of two regressions is right: that of the metric in the reference, or that of membership in the group.",
        "It is enough that one of them is right. Numbers enter as smooth curves and levels one by one; interactions "
        "are left out.",
    ),
)
COMPARABLE_NOTE = (
    "The adjusted reference is the metric among people of the reference whose factors are like those of the group. The "
    "{} in the table compares the estimate, which is not adjusted, with the adjusted reference."
)


register(
    {
        "lacking_people": lambda note: (
            f"In {phrases.listed(note.groups)}, up to {phrases.share(note.values['most'])} of the people have nobody "
            "comparable in the reference."
        ),
        "no_overlap": "Listed but not tested, because more than a third of the people have no comparable person in the "
        "reference, or too few people of the reference are comparable: {groups}. Name fewer factors, or another "
        "reference.",
        "separated_outcomes": "Listed but not tested, because the factors determine the outcome of the reference "
        "exactly, or nearly, so that no regression can be fitted: {groups}. Combine levels, or name fewer factors.",
        "strata_differ": lambda note: (
            f"The disparity differs between strata for {phrases.listed(note.groups)} "
            f"({'Breslow-Day test, Tarone correction' if note.values['scale'] == 'odds_ratio' else 'Cochran Q test'}): "
            "the common one is an average that need not hold in any stratum."
        ),
        "strata_unjudged": lambda note: (
            f"Whether the disparity differs between strata could not be judged for {phrases.listed(note.groups)}: "
            + UNJUDGED[note.values["designed"]]
        ),
        "strata_one_sided": "Some strata have nobody of the group or nobody of its reference, and show no difference: "
        "up to {most:,} of the strata of {groups}. Their rows count only in the comparison without regard to factors.",
        "strata_shown": "The first {shown:,} strata are kept one by one; all of them are in the common disparity.",
    }
)

# ---- adverse impact. No threshold is called the law's.

IMPACT_NULL = "For each category, its rate is at least {} times that of its comparator."
IMPACT_METHOD = "impact ratios by likelihood, with multiple comparisons with the best"
IMPACT_REFERENCES = (
    "Hsu, J. C. (1981). Simultaneous confidence intervals for all distances from the 'best'. Annals of Statistics 9, "
    "1026-1034.",
    MIETTINEN,
    HOLM,
    "Montiel Olea, J. L. and Plagborg-Moller, M. (2019). Simultaneous confidence bands. Journal of Applied "
    "Econometrics 34, 1-17.",
)
IMPACT_LIMITS = (
    "The threshold is a convention chosen by whoever ran this test. No threshold is the law's: a ratio below the "
    "threshold is not by itself unlawful, and one above it is not by itself lawful.",
    "A ratio describes who was selected. It does not say why, or whether the applicants of the categories were alike.",
    phrases.NOT_PROOF,
)
ASSUMED_BEST = ("The category selected most often is not known beforehand.", "Every interval accounts for its choice.")
ASSUMED_NAMED = ("The comparator was chosen before looking at these data.", phrases.UNCHECKED)
MEDIAN = "Here, selected means scored above {}, the median of all scores."
BOUNDS, SHORTFALLS = "If unknown categories were known", "Shortfalls"
COURTS, ALIKE = "What courts ask", "Among comparable people"
# Headings if rows have weights.
WEIGHTED_HEADINGS = {
    "n": "Rows",
    "selected": "Rows selected",
    "shortfall": "More selections by weight to reach the threshold",
    "shortfall_parity": "More selections by weight to reach parity",
}
IMPACT_PAGES = {
    "Rates and impact ratios": "table group n selected weighted_n weighted_selected estimate disparity ci_low ci_high "
    "against difference",
    "Three facts about each ratio": "table group disparity below_threshold difference_shown pvalue verdict "
    "adjusted_pvalue status",
    COURTS: "table group difference deviations fisher_pvalue",
    ALIKE: "table group comparable_estimate comparable_rate comparable_ratio comparable_low comparable_high "
    "comparable_pvalue disparity",
    BOUNDS: "table group disparity bound_low bound_high",
    SHORTFALLS: "table group n selected weighted_n weighted_selected shortfall shortfall_parity",
}
IMPACT_MARKS = {"violation": "Yes", "within_tolerance": "No: shown to reach it", "inconclusive": "Not shown"}
WEIGHTED_RATIOS = "Verdicts are compared; impact ratios by weight are not."


register(
    {
        "few_clusters": "Listed but not tested, because they have too few clusters to judge their spread (fewer than "
        "10 effective ones): {groups}.",
        "left_out": lambda note: (
            f"Listed with their rates but without ratios: {phrases.listed(note.groups)} (fewer than "
            f"{note.values['least']:,} rows"
            f"{f' or less than {100 * share:g} % of the rows' if (share := note.values['share']) else ''})."
        ),
        "unknown_category": lambda note: (
            f"The category is unknown for {phrases.count(note.values['unknown'])} of "
            f"{phrases.count(note.values['rows'])} rows of the table {note.values['table']}: they are in no rate, and "
            "the bounds show what they could change."
        ),
        "nobody_selected": "Nobody was selected, so there is no ratio: {groups}.",
        "nothing_to_compare": lambda note: (
            f"Fewer than two categories can be compared in the table {phrases.listed(note.values['tables'])}."
        ),
    }
)


def impact_headings(r: AdverseImpactResult) -> dict[str, str]:
    """Each of the three facts with its own p-value: observed, different from equal rates, shown below the threshold."""
    threshold = phrases.number(r.threshold)
    return {
        "estimate": "Selection rate" if r.chosen == "selected" else f"Share {r.chosen}",
        "selected": f"{r.chosen[:1].upper()}{r.chosen[1:]}",
        "below_threshold": f"Observed below {threshold}",
        "difference_shown": "Shown to differ from equal rates",
        "pvalue": "p‑value for equal rates",
        "verdict": f"Shown to be below {threshold}",
        "adjusted_pvalue": f"Adjusted p‑value for a ratio of {threshold} or more",
        "shortfall": f"More needed to reach {threshold}",
        "shortfall_parity": "More needed to reach equal rates",
    }


def impact_overview(r: AdverseImpactResult, others: Sequence[int], compared: int) -> str:
    threshold, order = phrases.number(r.threshold), [i for i in r.ranking() if i in others]
    verdicts = np.array(r.verdicts, dtype=object)
    facts = {
        "a difference from equal rates": r.difference_shown,
        f"a ratio below {threshold}": verdicts == Verdict.VIOLATION,
        f"a ratio of at least {threshold}": verdicts == Verdict.WITHIN_TOLERANCE,
    }
    shown = {text: phrases.listed([r.labels[i] for i in order if fact[i]]) for text, fact in facts.items()}
    below = phrases.listed([r.labels[i] for i in order if r.below_threshold[i]]) or "no category"
    sentences = [f"{phrases.capital(text)} was shown for {names}." for text, names in shown.items() if names]
    if none := [text for text, names in shown.items() if not names]:
        sentences.append(f"Not shown for any category: {phrases.listed(none)}.")
    overview = f"{compared:,} categories were compared. The observed impact ratio is below {threshold} for {below}."
    return " ".join([overview, *sentences])


def impact_finding(r: AdverseImpactResult, i: int) -> str:
    # The adjusted p-value is one-sided: it may be small although the two-sided interval just contains the threshold.
    weighted, threshold = "", phrases.number(r.threshold)
    selected = f"{phrases.count(r.selected[i])} of {phrases.count(r.n[i])} {r.chosen}"
    if r.weighted_n is not None and r.weighted_selected is not None:
        people = f"{phrases.count(r.weighted_selected[i])} of {phrases.count(r.weighted_n[i])} people by weight"
        selected = (
            f"{phrases.count(r.selected[i])} of {phrases.count(r.n[i])} rows {r.chosen}, which stand for {people}"
        )
        weighted = " by weight"
    alone = "not adjusted for the number of categories compared"
    if not r.named:  # the smallest p-value of all pairs counts as often as there are other categories
        alone = f"which allows for not knowing which category is {r.chosen} most often and is {alone}"
    sentences = [
        f"{r.labels[i]}: {selected} ({100 * r.estimate[i]:.1f} %). The rate is {phrases.number(r.disparity[i])} times "
        f"that of {r.against[i]} ({phrases.interval(r.ci_low[i], r.ci_high[i], r.alpha)}). The test of equal rates "
        f"gives {phrases.pvalue(r.pvalue[i])}, {alone}; the test of a ratio of {threshold} or more gives "
        f"{phrases.pvalue(r.adjusted_pvalue[i])}, adjusted for all categories."
    ]
    need, parity = r.shortfall[i], r.shortfall_parity[i]
    if parity > 0:
        first = f"{phrases.count(need)} more{weighted} to reach a ratio of {threshold}, and " if need > 0 else ""
        end = "1" if need > 0 else "a ratio of 1"
        sentences.append(f"It would take {first}{phrases.count(parity)} more{weighted} to reach {end}.")
    if r.deviations is not None and isfinite(r.deviations[i]) and r.fisher_pvalue is not None:
        sentences.append(
            f"The number {r.chosen} is {abs(float(r.deviations[i])):.1f} standard deviations "
            f"{'below' if r.deviations[i] < 0 else 'above'} the number expected at equal rates. Fisher's exact test "
            f"gives {phrases.pvalue(float(r.fisher_pvalue[i]))}."
        )
    if r.comparable_ratio is not None and isfinite(r.comparable_ratio[i]):
        assert r.comparable_rate is not None
        assert r.comparable_low is not None
        assert r.comparable_high is not None
        sentences.append(
            f"Among people with the same {phrases.listed(r.given)}, {r.against[i]} have a rate of "
            f"{phrases.share(float(r.comparable_rate[i]))}, and the ratio is "
            f"{phrases.number(float(r.comparable_ratio[i]))} "
            f"({phrases.interval(float(r.comparable_low[i]), float(r.comparable_high[i]), r.alpha)})."
        )
    if r.bound_low[i] == r.bound_low[i]:
        ends = f"{phrases.number(r.bound_low[i])} and {phrases.number(r.bound_high[i])}"
        sentences.append(
            f"Whatever the unknown categories are, the ratio in these data lies between {ends}. These bounds do not "
            "include sampling error."
        )
    return " ".join(sentences)


# ---- models compared

EVERYBODY = "everybody"
_NAMED = 8  # groups listed


def compared_models(r: ModelComparison) -> str:
    """The changes for everybody, and the groups in which a metric or a disparity was shown to change."""
    first, level = r.models[0], phrases.number(100 * (1 - r.alpha), 2)
    lines = [f"How do the metrics of the models differ on the same {r.rows:,} rows? (No verdict.)", ""]
    changes = {
        "Metrics shown to change": (r.adjusted_pvalue, r.change, r.ci_low, r.ci_high),
        "Disparities shown to change": (
            r.disparity_adjusted_pvalue,
            r.disparity_change,
            r.disparity_low,
            r.disparity_high,
        ),
    }
    shown: dict[str, list[str]] = {title: [] for title in changes}
    for i, (other, group, metric) in enumerate(zip(r.candidate, r.group, map(phrases.metric, r.metric), strict=True)):
        text, scale, places = (phrases.share, 100.0, 1) if r.shares[i] else (phrases.number, 1.0, 4)
        for title, (pvalue, *columns) in changes.items():
            change, low, high = (f"{scale * float(part[i]) + 0.0:+.{places}f}" for part in columns)
            size = f"{change}{' points' if r.shares[i] else ''} ({low} to {high})"
            if group == EVERYBODY and pvalue is r.adjusted_pvalue:
                tested = f"{size}, adjusted {phrases.pvalue(pvalue[i])}" if isfinite(r.pvalue[i]) else "not tested"
                names = f"{text(r.estimate[i])} with {other}, {text(r.baseline[i])} with {first}"
                lines.append(f"  - {metric}, {EVERYBODY}: {names}; {tested}.")
            elif pvalue[i] <= r.alpha:
                shown[title].append(f"  - {group}, {metric}: {size} with {other}.")
    for title, found in shown.items():
        more = [f"  - and {len(found) - _NAMED} more, in the table."] if len(found) > _NAMED else []
        lines += ["", f"{title}:" if found else f"{title}: none.", *found[:_NAMED], *more]
    end = f"Intervals are {level} %, one line at a time; p-values are adjusted by Holm's method."
    return "\n".join([*lines, "", end])
