"""Sentences of the empirical-likelihood method about groups one by one; `wording_joint` has those about all at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import isfinite

from isonomy.inference import Verdict
from isonomy.numerics.status import Status
from isonomy.results import phrases

FLAG_QUESTION = "Which groups does this model treat differently, by how much, and is that more than chance?"
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
# Why the plug-in is not the default.
PLUGIN_WARNING = (
    "The plug-in treats the estimated reference as known. Its intervals do not have their nominal level: "
    "by simulation 95 % intervals cover 83 % of the time against a reference group of equal size."
)
# What rejecting exact equality means in large data.
LARGE_SAMPLE = (
    "No tolerance was set, so any difference from exact equality counts; with many rows this finds differences too "
    "small to matter. Set a tolerance to ask whether a difference is large enough."
)
LIMITS = (
    phrases.NOT_PROOF,
    "A difference is a description, not a cause: it does not say why groups differ, nor who is responsible.",
    "Only the groups and the metric asked about were tested.",
)


def within_one_side(alternative: str) -> str:
    """Within a tolerance that has one side."""
    return f"Within tolerance. Every group: {WITHIN_EVERY[alternative]}"


@dataclass(frozen=True, slots=True)
class Finding:
    """What is said of one group."""

    group: str
    metric: str
    scale: str
    estimate: float
    n: float
    reference: float
    disparity: float
    interval: tuple[float, float]
    alpha: float
    pvalue: float
    adjusted: float
    verdict: Verdict
    direction: str
    alternative: str
    against: str = ""
    share: bool = False  # whether the metric is a share of people, told in percent
    tested: str = ""  # the disparity tested, where it is neither none nor a tolerance
    tolerant: bool = False  # whether a tolerance was set
    best: bool = False  # whether it is itself the group that the others are held against
    weighted: bool = False  # whether rows count by their weights in every share and average
    adjusted_for: str = ""  # the factors that estimate and reference are adjusted for, within strata


def group_finding(of: Finding) -> str:
    """One group: effect size, interval, p-value and verdict."""
    beyond = " larger than the tolerance" if of.tolerant else ""
    neither = "Neither a difference larger than the tolerance nor one within it was shown."
    shown = {
        Verdict.VIOLATION: f"A difference{beyond} was shown: {of.direction}.",
        Verdict.WITHIN_TOLERANCE: WITHIN.get(of.alternative, "Shown to lie within the tolerance."),
        Verdict.INCONCLUSIVE: neither
        if of.tolerant
        else NOT_SHOWN.get(of.alternative, "No difference was shown: these data cannot tell."),
    }[of.verdict]
    if of.tested:
        differs = f"to differ from {of.tested}"
        flagged = of.verdict is Verdict.VIOLATION
        side = BESIDE_TESTED.get(of.direction, "")
        not_shown = NOT_SHOWN.get(of.alternative, f"Not shown {differs}: these data cannot tell.")
        shown = f"Shown {differs}: {side}." if flagged else not_shown
    alone, adjusted = phrases.pvalue(of.pvalue), phrases.pvalue(of.adjusted)
    evidence = f"adjusted {adjusted}" if alone == adjusted else f"{alone}, adjusted {adjusted}"
    if of.best and of.verdict is not Verdict.VIOLATION:
        size = (phrases.share if of.share else phrases.number)(of.estimate)
        rows = f"{phrases.BY_WEIGHT if of.weighted else ''} of {phrases.count(of.n)} rows"
        return f"{of.group}: {phrases.metric(of.metric)} {size}{rows}. In these data it is {of.against} itself."
    interval, weighted = phrases.interval(*of.interval, of.alpha), phrases.BY_WEIGHT if of.weighted else ""
    if of.share and of.scale != "standardised" and any(map(isfinite, of.interval)):
        points = of.scale == "difference"
        size = (
            phrases.apart(of.disparity, of.interval, of.alpha)
            if points
            else f"{disparity(of.disparity, of.scale)}, {interval}"
        )
        rows = f"of {phrases.count(of.n)} rows"
        if of.adjusted_for:  # no share of these rows
            rows = f"adjusted for {of.adjusted_for} ({phrases.count(of.n)} rows)"
        return (
            f"{of.group}: {phrases.metric(of.metric)} {phrases.share(of.estimate)}{weighted} {rows}, "
            f"{of.against} {phrases.share(of.reference)}; {size}; {evidence}. {shown}"
        )
    adjusting = f", adjusted for {of.adjusted_for}," if of.adjusted_for else ""
    return (
        f"{of.group}: {phrases.metric(of.metric)} {phrases.number(of.estimate)}{weighted}{adjusting} over "
        f"{phrases.count(of.n)} rows "
        f"against {phrases.number(of.reference)}, {disparity(of.disparity, of.scale)} ({interval}; {evidence}). {shown}"
    )


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


def other_null_verdict(call: str, verdict: Verdict, tested: str) -> str:
    """A verdict on such a null: equality was not asked about."""
    shown = "at least one group differs" if verdict is Verdict.VIOLATION else "no group was shown to differ"
    return phrases.headed(call, verdict.value, f"{shown} from {tested}.")


def counted(number: int, *, several: bool) -> str:
    """'17 groups'; of ``several`` metrics a group is counted once for each: '34 group-metric pairs'."""
    noun = "group-metric pair" if several else "group"
    return f"{number:,} {noun if number == 1 else f'{noun}s'}"


def flag_overview(
    flagged: Mapping[str, Sequence[str]],
    within: int,
    tested: int,
    listed: int,
    alternative: str,
    against: str,
    *,
    several: bool = False,
) -> str:
    """How many groups differ, those worse off and those better off apart; ``against``: what from, or by how much.

    Of ``several`` metrics, pairs of a group and a metric are counted.
    """
    side = {"greater": ", upwards", "less": ", downwards"}.get(alternative, "")
    tolerated = f" {_were(within, several)} shown to lie within the tolerance{side}." if within else ""
    untested = (
        "" if tested == listed else f" {_were(listed - tested, several)} listed without a verdict: see the table."
    )
    number = sum(len(names) for names in flagged.values())
    if not tested:
        return f"No group could be tested.{untested}"
    if not number:
        one = f"The one {counted(1, several=several)[2:]} tested"
        none = f"None of {counted(tested, several=several)}" if tested > 1 else one
        shown = "was" if tested > 1 else "was not"
        return f"{none} {shown} shown to differ from {against}.{tolerated}{untested}"
    if tested == listed == 1:
        word, (name, *_) = next((word, names) for word, names in flagged.items() if names)
        return f"{name}: shown to differ from {against}, {word}."
    apart = [f"{word.capitalize()}: {phrases.listed(names)}." for word, names in flagged.items() if names]
    were = "was" if number == 1 else "were"
    differ = f"{number:,} of {counted(tested, several=several)} {were} shown to differ from {against}."
    return f"{differ} {' '.join(apart)}{tolerated}{untested}"


def _were(number: int, several: bool) -> str:
    return f"{counted(number, several=several)} {'was' if number == 1 else 'were'}"


def plugin_contrast(differ: Sequence[str]) -> str:
    """What ignoring the reference's own error would have concluded; nothing where it is the same."""
    if not differ:
        return ""
    return (
        "What the groups are compared with is itself an estimate. Its error is counted here; a test that takes it as "
        f"exactly known, as the published method does, would have decided otherwise for {phrases.listed(differ)}."
    )


def joint_contrast(differ: Sequence[str], corrected: bool) -> str:
    """What including the reference's error would have concluded, when the plug-in was asked for."""
    how = "jointly, without the small-sample correction" if corrected else "jointly"
    if not differ:
        return ""
    return (
        "The conclusion depends on how the reference is treated: including the error of the estimated reference "
        f"({how}) decides otherwise for {phrases.listed(differ)}."
    )


def dependence_warning() -> str:
    """Why BH's assumption may fail."""
    return (
        "The adjustment for many groups (Benjamini and Hochberg's) holds the share of false findings for independent "
        "or positively dependent tests. Overlapping groups and a shared estimated reference break that; Benjamini and "
        "Yekutieli's adjustment holds it under any dependence."
    )


def measured_dependence(rate: float, alpha: float) -> str:
    """What BH's false flagging rate is where its assumption fails."""
    return (
        f"The adjustment for many groups (Benjamini and Hochberg's) does not hold the share of false findings at "
        f"{phrases.share(alpha)} here: groups depend on one another through common rows or their reference, and by "
        f"simulation with that dependence it is {phrases.share(rate)}. The max-t adjustment and Benjamini and "
        "Yekutieli's hold theirs under it."
    )


def tree_warning(unreached: int, *, several: bool = False) -> str:
    """What level-by-level adjustment leaves out."""
    return (
        "Groups were tested level by level: an intersection is tested only if one of its parents was flagged, and each "
        f"level is adjusted on its own. {_were(unreached, several)} not reached."
    )


def small_warning(groups: Sequence[str], min_size: int) -> str:
    """Groups below the minimum size."""
    return f"Fewer than {min_size:,} rows that count, so listed and not tested: {phrases.listed(groups)}."


def constant_warning(groups: Sequence[str], binary: bool) -> str:
    """Groups in which the metric does not vary."""
    if binary:
        return (
            f"Every row that counts has the same value in {phrases.listed(groups)}: the share is 0 % or 100 %, and its "
            "interval and p-value are rough."
        )
    same = f"Every row that counts has the same value in {phrases.listed(groups)}"
    return f"{same}: there is nothing to judge chance by, so they are not tested."


ALWAYS_SELECTED = (
    "Everybody with outcome 1 was selected. Where outcomes are known of the selected alone, it cannot be otherwise and "
    "says nothing: ask for ppv instead, the share with outcome 1 among the selected."
)

# What is wrong with the groups of a status.
CONCERNS: Mapping[Status, str] = {
    Status.FEW_CLUSTERS: (
        "Too few clusters to judge their spread by (fewer than 10 effective ones) in {}: listed and not tested."
    ),
    Status.SKEWED: (
        "Too few rows for so skewed a metric (about 30 times the squared skewness are needed, and more where many "
        "groups are tested) in {}: estimated, but tests and intervals of such rows err too often, so no verdict rests "
        "on them."
    ),
    Status.ZERO_BASELINE: "The reference of {} is 0 (or its odds are infinite), and nothing is a ratio to that: listed "
    "and not tested.",
    Status.EMPTY: "No row is in {} (inside the metric's condition): listed and not tested.",
    Status.UNSUPPORTED: (
        "Too little to compare within strata in {}: no stratum holds people of both sides or, with weights or "
        "clusters, strata are of a few rows each. Listed and not tested."
    ),
    Status.OUTSIDE_RANGE: "The null lies outside the range of the data for {}: p is 0 by convention.",
    Status.UNBOUNDED: "The interval has no end on at least one side for {}.",
    Status.NOT_CONVERGED: "The likelihood could not be maximised for {}: what depends on it is not reported.",
}


# What `Status.UNSUPPORTED` means where nothing is compared within strata.
UNDEFINED = (
    "The rows of {} (or of the reference) do not define the metric: one class only or, for a quantile, too many equal "
    "values. Listed and not tested."
)


def resampled_warning(resamples: int) -> str:
    """A decision that another seed might turn."""
    return (
        f"The small-sample correction comes from {resamples:,} resamples, and a p-value is close to the level: another "
        "seed might decide otherwise; more resamples would settle it."
    )


def uncorrected_warning(groups: Sequence[str], *, needed: bool = False) -> str:
    """A Bartlett factor that resampling did not give; ``groups`` is empty for a joint test."""
    where = f" for {phrases.listed(groups)}" if groups else ""
    verdict = " These groups are too small to do without it, so the joint test decides nothing." if needed else ""
    return (
        "The small-sample correction could not be made"
        f"{where}: in too few resamples was T finite and on as many degrees of freedom. T is not corrected there."
        f"{verdict}"
    )


def assumptions(
    *, joint: bool, reference: str, overlapping: bool, rows: tuple[str, str]
) -> tuple[tuple[str, str], ...]:
    """What is assumed, and how it was checked or that it cannot be."""
    treated = "Its own sampling error is part of the test." if joint else "It is treated as known, without error."
    shared = (
        "Cannot be checked from the table. Somebody may be in several of the groups, which the test allows for."
        if overlapping
        else phrases.UNCHECKED
    )
    return (
        rows,
        phrases.SAMPLE,
        (f"The reference is {reference}.", treated),
        (
            "Groups are large enough for the test's approximation (the chi-square limit).",
            "Groups with too few rows are listed and not tested; the column Status says which.",
        ),
        ("Who belongs to which group is recorded correctly.", shared),
    )
