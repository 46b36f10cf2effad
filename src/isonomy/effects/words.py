"""Every sentence about effects. A sentence is a function of the evidence and the line it is about."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from isonomy.effects.estimators.collapse import CollapseName, Measure, Relative
from isonomy.inference import Verdict
from isonomy.numerics.status import Status
from isonomy.results import Note, phrases, register

if TYPE_CHECKING:
    from isonomy.effects.bias import TreatmentBiasResult
    from isonomy.effects.corrections import CorrectionsResult
    from isonomy.effects.price import PriceResult

METHOD = "Group errors of predicted treatment effects (Persson et al.), Fieller and Welch inference"
REFERENCES = (
    "Persson, Bakker, Bohle, Feuerriegel and von Wangenheim (working paper, 2024 or later), Detecting and Mitigating "
    "Algorithmic Bias in Treatment Effect Estimation: Theory, Methods, and Empirical Evidence.",
    "Fieller (1954), Some problems in interval estimation. JRSS B 16.",
    "Zou and Donner (2008), Construction of confidence limits about effect measures. Statistics in Medicine 27.",
    "Farrington and Manning (1990), Test statistics and sample size formulae for comparative binomial trials. "
    "Statistics in Medicine 9.",
    "Dunnett and Gent (1977), Significance testing to establish equivalence between treatments. Biometrics 33.",
    "Welch (1951), On the comparison of several mean values. Biometrika 38.",
    "DerSimonian and Laird (1986), Meta-analysis in clinical trials. Controlled Clinical Trials 7.",
    "Lin (2013), Agnostic notes on regression adjustments to experimental data. Annals of Applied Statistics 7.",
)
EFFECTS = {
    "relative": "An effect is the average outcome of those treated divided by that of those not treated.",
    "difference": "An effect is the average outcome of those treated minus that of those not treated.",
}
UNITS: Mapping[Measure, str] = {
    "relative": "effects are ratios of mean outcomes, treated over control",
    "difference": "effects are differences of mean outcomes, treated minus control",
}


def meaning(options: Mapping[str, object]) -> str:
    measure = options.get("measure")
    return EFFECTS.get("relative" if isinstance(measure, Relative) else str(measure), "")


# ---- bias

Unit = Literal["ratio", "difference", "points"]


def null(tolerance: float | None, measure: Measure, *, binary: bool) -> str:
    limit = "equals"
    if tolerance is not None:
        points = measure == "difference" and binary
        limit = f"differs by at most {(phrases.points if points else phrases.number)(tolerance)} from"
    return (
        f"For each group: the error of its predicted effect (predicted minus observed; {UNITS[measure]}) {limit} the "
        "error of all other groups combined."
    )


def unit(r: TreatmentBiasResult) -> Unit:
    return "ratio" if r.measure == "relative" else "points" if r.binary else "difference"


def _amount(r: TreatmentBiasResult, value: float) -> str:
    if unit(r) != "points" or not math.isfinite(value):
        return phrases.signed(value)
    return f"{'-' if value < 0 else '+'}{phrases.points(value)}"


def count(r: TreatmentBiasResult, order: Sequence[int], tested: int) -> str:
    biased = [r.labels[i] for i in order if r.verdicts[i] is Verdict.VIOLATION]
    within = sum(verdict is Verdict.WITHIN_TOLERANCE for verdict in r.verdicts)
    if not tested:
        return "No group could be tested."
    groups = f"{tested:,} group{'' if tested == 1 else 's'} that could be tested"
    shown = f"{len(biased):,} of {groups}: {phrases.listed(biased)}" if biased else f"none of {groups}"
    small = f" For {within:,} of them, any bias was shown to be within the tolerance." if within else ""
    return f"A bias was shown for {shown}.{small}"


_ENDS: Mapping[Verdict, str] = {
    Verdict.VIOLATION: "A bias was shown.",
    Verdict.WITHIN_TOLERANCE: "Any bias was shown to be within the tolerance.",
    Verdict.INCONCLUSIVE: "The result is inconclusive.",
}


def finding(r: TreatmentBiasResult, i: int) -> str:
    ratio = unit(r) == "ratio"
    predicted, observed = (
        phrases.number(effect) if ratio else _amount(r, effect) for effect in (r.predicted[i], r.observed[i])
    )
    ends = float(r.ci_low[i]), float(r.ci_high[i])
    between = phrases.interval(*ends, r.alpha)
    if unit(r) == "points" and all(map(math.isfinite, ends)):
        between = (
            f"{100 * (1 - r.alpha):g} % interval {' to '.join(phrases.ends(ends[0], ends[1], shares=True))} points"
        )
    alike = int((r.family == r.family[i]).sum())
    others = {1: "everybody else", 2: "the other group"}.get(alike, "the other groups combined")
    noun = "effect" if ratio else "uplift"
    return (
        f"{r.labels[i]} ({phrases.count(r.n[i])} rows): the predicted {noun} is {predicted} and the observed {noun} is "
        f"{observed}, an error of {_amount(r, r.estimate[i])}. The error of {others} is {_amount(r, r.reference[i])}. "
        f"The bias, which is the difference between these errors, is {_amount(r, r.disparity[i])} ({between}, "
        f"{phrases.adjusted(r.adjusted_pvalue[i])}). {_ENDS[r.verdicts[i]]}"
    )


def omnibus(r: TreatmentBiasResult, i: int) -> str:
    return (
        f"A single test that the errors of all groups by {r.families[i]} are equal gives "
        f"{phrases.pvalue(r.omnibus_pvalue[i])} (Cochran's Q divided by its degrees of freedom: "
        f"{phrases.number(r.omnibus_statistic[i])})."
    )


# The criteria of the paper's Appendix A.
CRITERIA: Mapping[str, str] = {
    "independence": "The predicted effects of all groups are equal. Groups may respond differently to a treatment, so "
    "a model that is right can violate this, and predictions that are wrong can satisfy it.",
    "separation": "The errors of the predicted effects of all groups are equal. This is the absence of bias: a model "
    "may be wrong, but not by more for some groups than for others.",
    "sufficiency": "The predicted effect of every group equals its true effect, so the group says nothing more about "
    "the effect once the prediction is known. It implies separation.",
}


def detectable(r: TreatmentBiasResult, power: float) -> list[str]:
    sizes = r.detectable(power)
    known = sizes[np.isfinite(sizes)]
    if not known.size:
        return []
    write = phrases.points if unit(r) == "points" else phrases.number
    ends = dict.fromkeys(write(float(size)) for size in (known.min(), known.max()))
    which = " (from the most to the least precisely measured group)" if len(ends) > 1 else ""
    return [
        f"A bias of {' to '.join(ends)}{which} would be detected with probability {power:g}, before adjusting for the "
        "number of groups."
    ]


REASONS: Mapping[str, str] = {
    Status.EMPTY: "there are no rows.",
    Status.NO_TREATED: "there are no treated rows.",
    Status.NO_CONTROL: "there are no control rows.",
    Status.ZERO_BASELINE: "the mean outcome of the control rows is not above zero, so a relative effect has no "
    "denominator.",
    Status.TOO_SMALL: "there are fewer rows than min_size asks for, or too few in an arm to estimate a variance.",
    Status.FEW_CLUSTERS: "there are fewer than 10 effective clusters (or effective rows, if rows have weights), or "
    "fewer than 5 in an arm of the group or of the others: too few to estimate a standard error.",
    Status.FEW_EVENTS: "an arm, in all rows or in a half, has too few outcomes of either kind to estimate their "
    "spread.",
    Status.CONSTANT: "outcomes and predictions do not vary, so there is nothing to test.",
    Status.UNSUPPORTED: "no observed effect was given for it.",
    Status.FAILED: "the estimate is not finite.",
}
# Why a group needs a number of events: for the law of counts, or for means that must be nearly normal.
_EVENTS = "fewer than {} events (or rows without the event) are expected in an arm"
_NO_TEST = "with this number of groups, no test could distinguish such a group from chance."
_TOO_FEW: Mapping[str, tuple[str, str]] = {
    "counts": (_EVENTS, _NO_TEST),
    "normal": (
        _EVENTS,
        "with these options, tests require means that are nearly normal, which takes this many events for this many "
        "groups. Fewer are enough with the default estimator, collapse and rest, if effects are observed in all rows, "
        "without weights and clusters.",
    ),
    "skewed": ("the outcomes are so skewed that they carry the information of fewer than {} events", _NO_TEST),
}


def _too_few_events(note: Note) -> str:
    reason, consequence = _TOO_FEW[note.values["law"]]
    because = reason.format(phrases.number(note.values["least"], 2))
    return (
        f"Inconclusive for {phrases.listed(note.groups)}, because {because}. Estimates and intervals are given, but "
        f"{consequence}"
    )


def _like(note: Note, observed: str, other: str, advice: str) -> str:
    predicted, seen = (phrases.number(note.values[name]) for name in ("predicted", "observed"))
    return (
        f"Predicted effects average {predicted}, while the observed {observed} average {seen}: the predictions look "
        f"like {other}. {advice}"
    )


# What a collapse of relative effects assumes.
COLLAPSES: Mapping[CollapseName, str] = {
    "average": "Relative effects were averaged without weights. This is right only if outcomes without treatment do "
    "not depend on the variables that the predictions depend on.",
    "positives": "The positives-only formula (20) is biased whenever predicted effects vary with the outcome.",
    "positives_inverse": "The collapse by 1/f is biased if the model's heterogeneity has the wrong sign; do not base a "
    "test on it.",
}
register(
    {
        "no_effect": lambda note: (
            f"There is no answer for {phrases.listed(note.groups)}: {REASONS[note.values['status']]}"
        ),
        "unbounded_effect": "The control mean of {groups} cannot be distinguished from zero, so the interval of a "
        "relative effect is unbounded.",
        "no_rest": "There is nothing to compare {groups} with: only the error is given, not the bias.",
        "too_few_events": _too_few_events,
        "few_outcomes": lambda note: phrases.few(
            note.values["least"], "rows with an outcome above zero in an arm of", note.groups
        ),
        "lost_resamples": lambda note: (
            f"{phrases.share(note.values['share'])} of the resamples of some group had an empty arm or a control mean "
            "of zero and were left out."
        ),
        "like_differences": lambda note: _like(
            note,
            "ratios",
            "differences",
            'A relative effect is a ratio, and 1 means no effect. For differences, choose the measure "difference".',
        ),
        "like_ratios": lambda note: _like(
            note,
            "differences",
            "ratios",
            'A difference of shares is below 1, and 0 means no effect. For ratios, choose the measure "relative".',
        ),
        "pooled_rest": "The rest is pooled: if treated shares differ between groups, its effect is confounded by the "
        "composition of the arms.",
        "shared_models": "Outcome models were fitted on other rows of the same table (cross-fitting). Groups share "
        "these models, so errors of different groups are independent only to first order.",
        **{f"collapse_{name}": sentence for name, sentence in COLLAPSES.items()},
        "no_baseline": "Without a baseline column, the transformed-outcome loss of relative effects is not known, and "
        "people are ranked by their ratios, which is not the order of their gains.",
        "shares_differ": "Treated shares differ between groups, but the same share was used for all of them: the gains "
        "of groups that were treated more often look larger than they are. Name a column with the probability of "
        "treatment (propensity).",
        "price_clusters": "There are fewer than 10 effective clusters (or effective rows, if rows have weights): "
        "changes cannot be distinguished from chance and are not tested.",
    }
)

_UNCHECKED = "This cannot be checked from these columns"
_ELSEWHERE = (
    "The observed effects that were provided equal the true effects up to their standard errors.",
    "This cannot be checked here.",
)
# How a comparison of groups allows for treated shares that differ.
Shares = Literal["standardized", "pooled", "propensity", "one share"]
_SHARES: Mapping[Shares, str] = {
    "standardized": ", which the standardized comparison allows for",
    "pooled": ", which confounds the pooled rest",
    "propensity": ", which the propensities allow for",
    "one share": ", which a single share for all groups does not allow for: name a propensity column",
}


def assumptions(
    r: TreatmentBiasResult | CorrectionsResult | PriceResult, *, experiment: bool = True
) -> tuple[tuple[str, str], ...]:
    alike = "differ between groups by at most 5 points, or by no more than chance explains"
    differ = f"differ between groups by more than 5 points and more than chance explains{_SHARES[r.shares]}"
    assigned = (
        "Treatment was assigned at random within each group.",
        f"{_UNCHECKED}; treated shares {differ if r.arms_differ else alike}.",
    )
    return (
        assigned if experiment else _ELSEWHERE,
        ("One row's treatment does not change another row's outcome.", f"{_UNCHECKED}."),
        r.rows_assumed(),
        (
            "The model was fitted on other rows.",
            "This was not checked. On its own training rows, a model's errors look too small.",
        ),
    )


def limits(measure: Measure) -> tuple[str, ...]:
    return (
        "The result compares average effects of groups: predictions for people within a group may be wrong in ways "
        "that cancel out.",
        "It does not say whether groups should have equal effects, or whether the treatment is allocated well.",
        f"It is about one measure only: {UNITS[measure]}.",
        phrases.NOT_PROOF,
    )


# ---- corrections

PROGRESS = "Splits and swaps"
CORRECTIONS_METHOD = "Repeated split, swap and bootstrap evaluation of corrections (Persson et al., section 7)"
CORRECTIONS_NULL = (
    "For each strategy: when one half of the rows finds the correction and the other half uses it, the squared bias, "
    "averaged over groups and over samples like this one, is at least as large as without correction."
)
ONLINE_NULL = (
    "For each arm: the mean over groups of the squared bias is at least as large as in the arm without correction."
)
CORRECTIONS_LIMITS = (
    "A correction carries the sampling error of the rows that were used to find it. If the halves are alike, about one "
    "held-out test in six rejects at 0.05 after a correction that is right on average: compare strategies with each "
    "other, not their shares of rejections with 0.05.",
    "The spread of estimates on held-out rows includes the sampling error of those rows, so no correction can reduce "
    "it to zero.",
    "Splits and swaps reuse the same rows: their spread is not a standard error.",
    "Correcting the average of a group does not make the predictions for its members right.",
    phrases.NOT_PROOF,
)
UNKNOWN_GROUPS = (
    "groups: {} were not in the data that the corrector was fitted on; refit with them, or use "
    'unknown="pooled" to give them the correction of all groups combined.'
)
POOLED_GROUPS = "Groups that were not in the fit get the correction of all groups combined: {}."
UNCORRECTED = "The error of {} could not be estimated: their predictions are left unchanged."
CORRECTED_BY_ALL = "The error of {} could not be estimated: the correction of all groups combined is used."


# What each strategy does, in words that can be read aloud.
STRATEGIES: Mapping[str, str] = {
    "none": "predictions are left as they are",
    "mean": "each group's whole error is subtracted",
    "significant": "a group's error is subtracted only if it is statistically significant",
    "mse_plus": "the share of each error that leaves the smallest mean squared error is subtracted, by the paper's "
    "first formula",
    "mse_minus": "the share of each error that leaves the smallest mean squared error is subtracted, by the paper's "
    "second formula",
    "positive_part": "each error is subtracted after the part that chance explains is removed",
    "empirical_bayes": "errors are drawn toward their common mean, most strongly if they differ little beyond chance",
    "empirical_bayes_t": "errors are drawn toward their common mean, except those of outlying groups",
    "empirical_bayes_mixture": "errors are drawn toward zero or their common mean, as far as all groups together "
    "suggest",
}


def _explained(strategy: str) -> str:
    meaning = f" ({STRATEGIES[strategy]})" if strategy in STRATEGIES else ""
    return f'"{strategy.replace("_", " ")}"{meaning}'


def recommendation(r: CorrectionsResult) -> str:
    if not r.shown.any():
        return "Recommended: leave the predictions as they are for now."
    i = r.strategies.index(r.best)
    return (
        f"Recommended: {_explained(r.best)}. A typical bias of {phrases.number(r.estimate[i])} remains, compared with "
        f"{phrases.number(r.reference[i])} without correction."
    )


def remaining(r: CorrectionsResult, i: int) -> str:
    left, before, raw = (phrases.number(values[i]) for values in (r.estimate, r.reference, r.bias_rms))
    what, compared = "Without correction", ""
    if i > 0:
        decrease = "A decrease was shown" if r.shown[i] else "No decrease was shown"
        what = f"With {_explained(r.strategies[i])}"
        adjusted = phrases.pvalue(r.adjusted_pvalue[i])
        compared = f", compared with {before} without correction. {decrease} (adjusted {adjusted})"
    return (
        f"{what}, the typical bias (root mean square over groups) is {left}{compared}. Before the sampling error of "
        f"these rows is subtracted, it is {raw}, and {phrases.share(r.bias_rejected[i])} of the tests of single groups "
        f"reject at {r.alpha:g}."
    )


def less(r: CorrectionsResult) -> str:
    shown, tried = int(r.shown.sum()), len(r.strategies) - 1
    if not tried:
        return "Nothing was compared: no correction was evaluated."
    if not shown:
        return (
            f"Corrections compared: none of {tried} was shown to leave less bias than no correction, on rows that were "
            "not used to find it."
        )
    return f'Less bias shown: by {shown} of {tried} corrections. Recommended: "{r.best}".'


# ---- price

PRICE_METHOD = "Paired changes of Qini, transformed-outcome loss and policy value on the same rows"
PRICE_NULL = "For each column of corrected effects: the quantity is the same as before the correction."
PRICE_LIMITS = (
    "The result compares columns of predictions on these rows: corrections fitted on the same rows look better than "
    "they are.",
    "The value of a policy is a gain in the mean outcome of these people, not in anybody's welfare.",
    phrases.NOT_PROOF,
)
QUANTITY_NAMES: Mapping[str, str] = {
    "qini": "Qini",
    "loss": "transformed-outcome loss (less is better)",
    "policy_value": "policy value at the budget",
    "profit": "profit per person at the budget",
}
MOST_MOVED = 3  # groups named in the sentence about who is targeted


def price(r: PriceResult, i: int) -> str:
    between = phrases.interval(float(r.ci_low[i]), float(r.ci_high[i]), r.alpha)
    return (
        f"{r.candidates[i]}: the {QUANTITY_NAMES[r.metric[i]]} was {phrases.number(r.reference[i])} before the "
        f"correction and changed by {phrases.signed(r.disparity[i])} ({between})."
    )


def trade(r: PriceResult, i: int) -> str:
    after, before = phrases.number(r.bias_after[i]), phrases.number(r.bias_before[i])
    return (
        f"{r.candidates[i]}: the typical bias (root mean square over groups, without sampling error) is {after} after "
        f"the correction, compared with {before} before it."
    )


def targeting(r: PriceResult, candidate: str) -> list[str]:
    table = r.targeted()
    before, after = (np.asarray(table[name]) for name in ("of_targeted_before", "of_targeted_after"))
    lines = [i for i, name in enumerate(table["candidate"]) if name == candidate and np.isfinite(before[i] + after[i])]
    lines = sorted(lines, key=lambda i: -abs(after[i] - before[i]))[:MOST_MOVED]
    parts = [f"that of {table['group'][i]} from {phrases.share(before[i])} to {phrases.share(after[i])}" for i in lines]
    sentence = (
        f"{candidate}: with a budget of {100 * r.budget:g} %, the correction changes the shares of groups among those "
        f"targeted: {phrases.listed(parts)}."
    )
    return [sentence] if parts else []


def price_headline(r: PriceResult) -> str:
    once = np.array(r.metric) != "profit"  # a change of the profit is one of the policy value
    shown, compared = int(r.shown[once].sum()), int(np.isfinite(r.adjusted_pvalue[once]).sum())
    were = "was" if shown == 1 else "were"
    return f"Price measured: {shown} of {compared} changes of the ranking {were} shown to be more than chance."
