"""Every sentence about alternatives. A sentence is a function of the evidence and the lines it is about."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from isonomy.inference import Verdict
from isonomy.numerics.status import Status
from isonomy.results import Note, phrases, register

if TYPE_CHECKING:
    from isonomy.alternatives.followup import SurfaceResult
    from isonomy.alternatives.improvability import ImprovabilityResult
    from isonomy.alternatives.rules.utilities import Criteria

METHOD = "Improvability test on rows that no rule was fitted on"
REFERENCES = (
    "Auerbach, Liang, Okumura and Tabord-Meehan (2025), Testing the Fairness-Accuracy Improvability of Algorithms.",
    "Gasparin, Wang and Ramdas (2025), Combining exchangeable p-values.",
    "Obermeyer, Powers, Vogeli and Mullainathan (2019), Dissecting racial bias in an algorithm used to manage the "
    "health of populations, Science 366.",
)
CANDIDATE = "the candidate"
PROGRESS = "Rounds of fit and test"
COMPARED, ALTERNATIVES = "The alternative compared with the status quo", "The test"
VARYING_PAIR = "the most unequal pair"  # if rounds chose different ones
STABLE = (
    "The rules fitted on different folds are similar: one row more or less changes few decisions.",
    "This cannot be checked from one table. The folds share training rows. The level was simulated for linear rules, "
    "LASSO, forests, boosting and nearest neighbors.",
)
SURFACE_NULL = "at each point: no alternative gains that much in every accuracy and cuts every unfairness by that much."
SURFACE_LIMITS = (
    "Each point is a separate test at the stated level. The surface is not adjusted for looking at many points, but "
    "the supported region as a whole is valid because it inverts a single test.",
    "Nothing was shown beyond the contour: another rule or more rows might support more.",
)


# ---- the null


def null(rule: str, criteria: Criteria) -> str:
    fairness = [_unequal(utility.name, criteria.protected_label) for utility in criteria.fairness]
    accuracy, scale = phrases.metric(criteria.accuracy.name), criteria.scale
    higher = [
        _required(*pair, scale, "higher", "lower")
        for pair in zip(criteria.accuracies, criteria.accuracy_gains, strict=True)
    ]
    smaller = [
        _required(*pair, scale, "smaller", "larger") for pair in zip(fairness, criteria.fairness_gains, strict=True)
    ]
    who = "the candidate is not" if rule == CANDIDATE else f"no algorithm that the rule {rule!r} can find is"
    return (
        f"{who} better than the status quo on all of these: {accuracy} "
        f"({phrases.listed(higher)}), and unfairness in {phrases.listed(smaller)}."
    )


def _unequal(metric: str, protected: str) -> str:
    """In what there is unfairness: 'true positive rate', 'true positive rate at the expense of race=Black'."""
    name = phrases.metric(metric)
    return f"{name} at the expense of {protected}" if protected else name


def _required(name: str, gain: float, scale: str, better: str, worse: str) -> str:
    if gain == 0:
        return f"{name}: {better}"
    amount = _amount(abs(gain), scale)
    return f"{name}: {better} by more than {amount}" if gain > 0 else f"{name}: {worse} by less than {amount}"


def _amount(gain: float, scale: str) -> str:
    return phrases.share(gain) if scale == "ratio" else phrases.number(gain)


# ---- findings


def conclusion(r: ImprovabilityResult) -> str:
    tested = f"{_basis(r)}: {phrases.pvalue(r.pvalue)}. A p-value of {r.alpha:g} or less counts as shown."
    if Status.SUPPRESSED in r.status:
        tested = phrases.JOINT_WITHHELD
    who = r.rule if r.candidates else f"the algorithms found by the rule {r.rule!r}"
    if len(r.candidates) > 1:
        shown = phrases.listed(r.alternatives, len(r.alternatives))
        who = shown if r.reject else f"the {len(r.candidates)} candidates"
    if r.reject:
        return (
            f"A less discriminatory alternative was shown to exist: {who} met every accuracy requirement with less "
            f"inequality than the status quo. {tested}"
        )
    return (
        f"No less discriminatory alternative was shown: {who} did not meet every requirement by more than chance "
        f"explains. {tested} Another alternative might meet the requirements, or more rows might show it."
    )


_TESTED: Mapping[str, str] = {
    "whole": "The test used all rows and, where decisions follow from cut-offs, allows for their error",
    "crossfit": "Every row was decided by rules fitted without it (folds: {r.folds}, repeats: {r.repeats}), and one "
    "test used all rows",
    "splits": "The p-values of {r.trials} random splits were merged as exchangeable p-values",
    "bootstrap": "The p-value is twice the median p-value of {r.trials} random splits, {r.median_pvalue:.4f}",
}


def _basis(r: ImprovabilityResult) -> str:
    text = _TESTED.get(r.basis, _TESTED["bootstrap"]).format(r=r)
    if r.in_rounds and r.trials == 1:
        text = "The test used one random split" if r.train_rows[0] else "The test used all rows"
    attempts = r.curves.attempts
    return text if attempts == 1 else f"{text}; the p-value is adjusted for {attempts} attempts"


def log(r: ImprovabilityResult, best: str) -> str:
    attempts = []
    for entry in r.log:
        about = [f"seed {value}" if key == "seed" else str(value) for key, value in entry.items() if key != "what"]
        if "adjusted pvalue" in entry:  # of this call
            shown = "shown" if entry["verdict"] == Verdict.VIOLATION else "not shown"
            about = [f"adjusted {phrases.pvalue(float(str(entry['adjusted pvalue'])))}, {shown}"]
        what = str(entry.get("what", "an attempt"))
        attempts.append(f"{what} ({', '.join(about)})" if about else what)
    whose = f" The figures below are for the candidate {best!r}." if best else ""
    return f"Alternatives tried: {phrases.listed(attempts, len(attempts))}.{whose}"


def criterion(r: ImprovabilityResult, i: int) -> str:
    """What a line compares: 'Positive predictive value, race=Black', 'Unfairness in true positive rate'."""
    if r.criteria[i] == "unfairness":
        return f"Unfairness in {_unequal(r.metric[i], r.protected)}"
    metric = phrases.metric(r.metric[i])
    return f"{metric[:1].upper()}{metric[1:]}, {r.labels[i]}"


def effect(r: ImprovabilityResult, lines: Sequence[int]) -> str:
    """One requirement: both algorithms, averaged over the ``lines`` of the rounds, and the change if there is one."""
    first = lines[0]
    # Rounds without an alternative are left out of the means.
    known = [i for i in lines if r.estimate[i] == r.estimate[i]]
    means = [float(part[known].mean()) if known else np.nan for part in (r.estimate, r.reference)]
    rate = phrases.points if r.criteria[first] == "unfairness" else phrases.share
    new, old = map(rate if r.share[first] else phrases.number, means)
    change = f"; {_change(r, first)}" if len(lines) == 1 and r.ci_low[first] == r.ci_low[first] else ""
    if r.criteria[first] == "accuracy":
        return f"{criterion(r, first)}: {new} with the alternative, {old} with the status quo{change}."
    pairs = [{f"{r.labels[i]} against {r.against[i]}" for i in lines}, {r.candidate_pair[i] for i in lines}]
    pair, candidates = (names.pop() if len(names) == 1 else VARYING_PAIR for names in pairs)
    if len(r.members) == 2:
        return f"{criterion(r, first)} ({pair}): {new} with the alternative, {old} with the status quo{change}."
    corrected = "" if r.in_rounds else "; corrected for choosing the largest gap"
    between = "" if r.protected else ", between the two most unequal groups"
    return (
        f"{criterion(r, first)}{between}: {new} with the alternative ({candidates}), "
        f"{old} with the status quo ({pair}{corrected}){change}."
    )


def _change(r: ImprovabilityResult, i: int) -> str:
    change, low, high = (float(part[i]) for part in (r.disparity, r.ci_low, r.ci_high))
    better, worse = ("a cut", "a rise") if r.criteria[i] == "unfairness" else ("a gain", "a loss")
    if change < 0:
        change, low, high = -change, -high, -low
        better = worse
    relative = " relative to the status quo" if r.scale == "ratio" else ""
    limits = " to ".join(phrases.ends(low, high, shares=r.scale == "ratio")) + (" %" if r.scale == "ratio" else "")
    size = f"{better} of {_amount(change, r.scale)}{relative}"
    return f"{size} (simultaneous {100 * (1 - r.alpha):g} % limits {limits})"


def supported(r: ImprovabilityResult | SurfaceResult, margin: float = 0.0) -> tuple[str, str]:
    """The largest cut in unfairness, and the largest gain in accuracy."""
    cut, gain, rate = r.supported_fairness_gain, r.supported_accuracy_gain, f"at an error rate of {r.alpha:g}."
    lower = f"fall by less than {_amount(margin, r.scale)}" if margin else "not fall"
    cuts = "no cut in unfairness" if cut != cut else f"a cut in unfairness of up to {_amount(cut, r.scale)}"
    gains = f"a gain in every accuracy of up to {_amount(gain, r.scale)}"
    if gain != gain:
        gains = "no gain in all accuracies at once"
    return (
        f"If accuracy may {lower}, the data support {cuts} {rate}",
        f"If unfairness may not rise, the data support {gains} {rate}",
    )


def selected(r: ImprovabilityResult, lines: Sequence[int]) -> str:
    new, old = (phrases.share(float(part[lines].mean())) for part in (r.selected, r.selected_status_quo))
    return f"The alternative selects {new} of the rows judged, and the status quo {old}."


def recommended(rule: str) -> str:
    return (
        f"The recommended algorithm is the rule {rule!r} fitted again on all rows. Its estimates come from the rows it "
        "was fitted on, so they are not independent evidence. The evidence is the table of this result."
    )


# ---- notes


def _filled(sentence: str) -> Callable[[Note], str]:
    """A sentence about some trials, if there are several; it then begins with the rounds or candidates."""

    def text(note: Note) -> str:
        names, metric = note.values.get("trials"), phrases.metric(note.values.get("utility", ""))
        filled = sentence.format(**note.values, metric=metric, groups=phrases.listed(note.groups))
        if names is None:
            return filled
        what = f"{'Round' if note.values['rounds'] else 'Candidate'}{'s' if len(names) > 1 else ''}"
        return f"{what} {phrases.listed(names, limit=7)}: {filled}" if names else f"All rows: {filled}"

    return text


register(
    {
        "nothing_found": _filled("nothing was found that can be judged ({reason}), so the p-value is 1."),
        "folds_lost": "In {folds} of {fits} fits no algorithm was found, and those folds keep the status quo's "
        "decisions: {reason}",
        "rule_remark": "In {folds} of {fits} fits: {remark}",
        "solver_stopped": _filled(
            "the solver stopped at its time limit, before its classifier was shown to be the best."
        ),
        "undefined_resamples": _filled(
            "some resamples had nobody in a denominator (at most {most:,} of {resamples:,}). They count as exceeding, "
            "which can only raise the p-value."
        ),
        "few_in_denominator": _filled(
            "a denominator of the {metric} has only {fewest:.0f} rows, so the p-value is approximate."
        ),
        "same_decisions": _filled("the alternative makes the same decisions as the status quo for everybody."),
        "untouched_group": _filled(
            "both algorithms make the same decisions for everybody in {name}. Its accuracy counts as no lower; with a "
            "bootstrap, the gain is 0 and the test cannot reject."
        ),
        "not_disadvantaged": _filled(
            "{groups} is not worse off in {metric} under the status quo, so there is nothing to reduce."
        ),
        "near_fair": _filled(
            "The status quo's unfairness in {metric} is only {distance:.1f} standard errors from zero. The theory "
            "assumes that it is not zero. Close to zero the test has little power, and its level is not guaranteed."
        ),
        "candidate_near_fair": _filled(
            "the alternative's unfairness in {metric} is within two standard errors of zero. The bootstrap is not "
            "consistent there (the paper's Theorem 2 excludes it), and the test may have less power."
        ),
        "nothing_learned": "The candidate's decisions are given and no cut-off has to be learned, so the training "
        "parts were not used. A single split tests on all rows.",
        "split_for_pairs": "With more than two groups, the status quo's most unequal pair is chosen on a training "
        "part, so a single split tests only on the other part.",
    }
)


# ---- assumptions and limits


def assumptions(r: ImprovabilityResult) -> tuple[tuple[str, str], ...]:
    distances = r.distance[~np.isnan(r.distance)]
    distance = (
        f"It is {phrases.number(float(np.median(distances)), 2)} standard errors from zero" if len(distances) else ""
    )
    smallest = r.test_rows[r.test_rows > 0].min(initial=r.test_rows.max())  # withheld groups have none
    many = " in the median trial." if r.trials > 1 else "."
    rerun = " A single split is easily re-run until it rejects." if r.basis == "splits" and r.trials == 1 else ""
    return (
        r.rows_assumed(),
        phrases.SAMPLE,
        ("The status quo's unfairness is not zero.", distance + many if distance else "No law holds to judge it by."),
        ("There are enough rows for large-sample laws.", f"The smallest group judged has {smallest:,} rows."),
        *_regular(r),
        *((STABLE,) if r.basis == "crossfit" else ()),
        (
            "Utilities, requirements, margin, rules and candidates were fixed before the data were seen, and every "
            "attempt is listed.",
            f"This cannot be checked from the table. The result lists the seed, the options and the attempts.{rerun}",
        ),
        ("Decisions do not change the outcome that is measured.", phrases.UNCHECKED),
    )


def _regular(r: ImprovabilityResult) -> tuple[tuple[str, str], ...]:
    """Assumptions 2 and 3 of the paper, with what the trials show."""
    if np.isnan(r.eigenvalue).all():
        return ()
    share, correlation = float(np.nanmin(r.least_share)), float(np.nanmax(r.correlation))
    return (
        (
            "The denominators of the utilities are not close to zero.",
            f"The smallest holds {phrases.share(share)} of its group.",
        ),
        (
            "The utilities of the two algorithms vary, and do not vary as one.",
            f"Their largest correlation is {correlation:.3f}, and the smallest eigenvalue of the correlation matrix of "
            f"all utilities is {float(np.nanmin(r.eigenvalue)):.2g}.",
        ),
    )


def limits(r: ImprovabilityResult) -> tuple[str, ...]:
    if not r.reject:
        first = (
            "The result does not show that no alternative exists: the rule may be unable to find it, or there may be "
            "too few rows."
        )
    elif r.rule == CANDIDATE:
        first = "The result shows that the candidate is better on the criteria compared. Others may be better still."
    else:
        first = (
            "The result shows that a better algorithm exists: a mixture of those that the rule finds. It does not "
            "certify the algorithm fitted on all rows."
        )
    return (
        first,
        "The result compares the stated criteria on these rows. It does not show that either algorithm treats anyone "
        "equally in any other sense.",
        "Whether an alternative is feasible, lawful or cheap enough to adopt is not a statistical question.",
    )
