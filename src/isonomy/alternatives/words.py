"""Every sentence about alternatives. A sentence is a function of the evidence and the lines it is about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from isonomy.inference import Verdict
from isonomy.results import Note, phrases, register

if TYPE_CHECKING:
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
COMPARED, ALTERNATIVES = "The alternative compared with the status quo", "The test"
PROGRESS = "Rounds of fit and test"
VARYING_PAIR = "the most unequal pair"  # where rounds chose different ones
STABLE = (
    "The rules fitted on different folds are similar: one row more or less changes few decisions.",
    "Cannot be checked from one table. The folds share training rows; the level was simulated for linear rules, LASSO, "
    "forests, boosting and nearest neighbors (docs/validity).",
)
SURFACE_NULL = "at each point: no alternative gains that much in every accuracy and cuts every unfairness by that much."
SURFACE_LIMITS = (
    "Each point is a separate test at the stated level. The surface is not adjusted for looking at many points, but "
    "the supported region as a whole is valid because it inverts a single test.",
    "Nothing was shown beyond the contour: another rule or more rows might support more.",
)


# ---- the null


def null(rule: str, criteria: Criteria) -> str:
    """The null hypothesis."""
    fairness = [phrases.metric(utility.name) for utility in criteria.fairness]
    more, less = (
        [_required(name, gain, criteria.scale, *words) for name, gain in zip(names, gains, strict=True)]
        for names, gains, words in (
            (criteria.accuracies, criteria.accuracy_gains, ("higher", "lower")),
            (fairness, criteria.fairness_gains, ("smaller", "larger")),
        )
    )
    who = "the candidate is not" if rule == CANDIDATE else f"no algorithm that the rule {rule!r} can find is"
    return (
        f"{who} better than the status quo on all of these: {phrases.metric(criteria.accuracy.name)} "
        f"({phrases.listed(more)}), and unfairness in {phrases.listed(less)}."
    )


def _required(name: str, gain: float, scale: str, better: str, worse: str) -> str:
    if gain == 0:
        return f"{name}: {better}"
    amount = _amount(abs(gain), scale)
    return f"{name}: {better} by more than {amount}" if gain > 0 else f"{name}: {worse} by less than {amount}"


def _amount(gain: float, scale: str) -> str:
    return phrases.share(gain) if scale == "ratio" else phrases.number(gain)


# ---- findings


def conclusion(r: ImprovabilityResult) -> str:
    """Whether an alternative was shown, and by which test."""
    tested = f"{_basis(r)}: {phrases.pvalue(r.pvalue)}. A p-value of {r.alpha:g} or less counts as shown."
    if r.reject:
        return (
            f"A less discriminatory alternative was shown to exist: {_subject(r)} every accuracy requirement with less "
            f"inequality than the status quo. {tested}"
        )
    return (
        f"No less discriminatory alternative was shown: {_subject(r)} every requirement by more than chance explains. "
        f"{tested} Another alternative might meet the requirements, or more rows might show it."
    )


def _subject(r: ImprovabilityResult) -> str:
    """Who meets the requirements, or did not meet them, with the verb."""
    if len(r.candidates) > 1:
        shown = r.alternatives
        meet = "meet" if len(shown) > 1 else "meets"
        if r.reject:
            return f"{phrases.listed(shown, len(shown))} {meet}"
        return f"none of {len(r.candidates)} candidates met"
    if r.rule == CANDIDATE:
        return f"{r.rule} {'meets' if r.reject else 'did not meet'}"
    if r.reject:
        return f"an algorithm found by the rule {r.rule!r} meets"
    return f"what the rule {r.rule!r} found did not meet"


def _basis(r: ImprovabilityResult) -> str:
    """What the p-value rests on."""
    if r.basis == "whole":
        text = "The test used all rows and allows for the error of the cut-offs"
    elif r.basis == "crossfit":
        often = "once" if r.repeats == 1 else f"{r.repeats} times"
        text = (
            f"Every row was decided by rules fitted without it ({r.folds} folds, {often}), and one test used all rows"
        )
    elif r.trials == 1:
        text = "One test"
    elif r.basis == "splits":
        text = f"The p-values of {r.trials} random splits were merged as exchangeable p-values"
    else:
        text = f"The median p-value of {r.trials} random splits is {r.median_pvalue:.4f} and is doubled as a median"
    attempts = r.curves.attempts
    return text if attempts == 1 else f"{text}; the p-value is adjusted for {attempts} attempts"


def log(r: ImprovabilityResult, best: str) -> str:
    """All alternatives that were tried, and whose figures follow."""
    attempts = []
    for entry in r.log:
        own = "adjusted pvalue" in entry
        about = [
            f"seed {value}" if key == "seed" else str(value)
            for key, value in entry.items()
            if key != "what" and not (own and key in ("method", "seed", "adjusted pvalue", "verdict"))
        ]
        if own:
            p = phrases.pvalue(float(str(entry["adjusted pvalue"])))
            about.append(f"adjusted {p}, {'shown' if entry['verdict'] == Verdict.VIOLATION else 'not shown'}")
        attempts.append(f"{entry.get('what', 'an attempt')} ({', '.join(about)})" if about else str(entry.get("what")))
    whose = f" The figures below are those of {best}." if best else ""
    return f"Alternatives tried: {phrases.listed(attempts, len(attempts))}.{whose}"


def criterion(r: ImprovabilityResult, i: int) -> str:
    """What a line compares: 'Positive predictive value, race=Black', 'Unfairness in true positive rate'."""
    metric = phrases.metric(r.metric[i])
    if r.criteria[i] == "unfairness":
        return f"Unfairness in {metric}"
    return f"{metric[:1].upper()}{metric[1:]}, {r.labels[i]}"


def effect(r: ImprovabilityResult, lines: Sequence[int]) -> str:
    """One requirement: both algorithms, on average over the ``lines`` of the rounds, and the change if there is one."""
    first = lines[0]
    change = _change(r, first) if len(lines) == 1 else ""
    tail = f"; {change}" if change else ""
    new, old = (_size(r, first, value) for value in r.averages(lines))
    if r.criteria[first] == "accuracy":
        return f"{criterion(r, first)}: {new} with the alternative, {old} with the status quo{tail}."
    pairs = [{f"{r.labels[i]} against {r.against[i]}" for i in lines}, {r.candidate_pair[i] for i in lines}]
    pair, candidates = (names.pop() if len(names) == 1 else VARYING_PAIR for names in pairs)
    if len(r.members) == 2:
        return f"{criterion(r, first)} ({pair}): {new} with the alternative, {old} with the status quo{tail}."
    corrected = "" if r.in_rounds else "; corrected for choosing the largest gap"
    return (
        f"{criterion(r, first)}, between the two most unequal groups: {new} with the alternative ({candidates}), "
        f"{old} with the status quo ({pair}{corrected}){tail}."
    )


def _size(r: ImprovabilityResult, i: int, value: float) -> str:
    """A share of people in percent, a difference of two in points, anything else as a number."""
    if not r.share[i]:
        return phrases.number(value)
    return phrases.points(value) if r.criteria[i] == "unfairness" else phrases.share(value)


def _change(r: ImprovabilityResult, i: int) -> str:
    """A gain with limits that hold for all gains at once; empty if there are none."""
    change, low, high = (_amount(float(part[i]), r.scale) for part in (r.disparity, r.ci_low, r.ci_high))
    if r.ci_low[i] != r.ci_low[i]:
        return ""
    what = "a cut" if r.criteria[i] == "unfairness" else "a gain"
    relative = " relative to the status quo" if r.scale == "ratio" else ""
    return f"{what} of {change}{relative} (simultaneous {100 * (1 - r.alpha):g} % limits {low} to {high})"


def supported(kind: str, gain: float, scale: str, alpha: float, margin: float = 0.0) -> str:
    """The largest gain that the data support: a lower confidence bound."""
    lower = f"fall by less than {_amount(margin, scale)}" if margin else "not fall"
    held = f"If accuracy may {lower}" if kind == "fairness" else "If unfairness may not rise"
    what = "cut in unfairness" if kind == "fairness" else "gain in every accuracy"
    if gain != gain:
        return f"{held}, the data support no {what} at an error rate of {alpha:g}."
    return f"{held}, the data support a {what} of up to {_amount(gain, scale)} at an error rate of {alpha:g}."


def selected(r: ImprovabilityResult, lines: Sequence[int]) -> str:
    """Shares selected of the rows judged, on average over the trials of these lines."""
    new, old = (
        phrases.share(float(sum(part[i] for i in lines) / len(lines))) for part in (r.selected, r.selected_status_quo)
    )
    return f"The alternative selects {new} of the rows judged, and the status quo {old}."


def recommended(rule: str) -> str:
    """What the recommended algorithm's own estimates are worth."""
    return (
        f"The recommended algorithm is the rule {rule!r} fitted again on all rows. Its own estimates come from the "
        "rows it was fitted on and are not independent evidence. The evidence is the table of this result."
    )


# ---- notes


def _where(note: Note) -> str:
    """The rounds or candidates that a note is about."""
    if not note.values["trials"]:
        return "All rows"
    names = note.values["trials"]
    what = "Round" if note.values["rounds"] else "Candidate"
    return f"{what}{'s' if len(names) > 1 else ''} {phrases.listed(names, limit=7)}"


def _nothing_found(note: Note) -> str:
    rule, reason = note.values["rule"], note.values["reason"]
    who = "the candidate cannot" if rule == CANDIDATE else f"the rule {rule!r} found no algorithm that can"
    return f"{_where(note)}: {who} be judged ({reason}), so the p-value is 1."


def _folds_lost(note: Note) -> str:
    folds, fits, reason = (note.values[name] for name in ("folds", "fits", "reason"))
    return (
        f"No algorithm was found in {folds} of {fits} fits ({reason.removesuffix('.')}); those folds keep the status "
        "quo's decisions."
    )


def _untouched_group(note: Note) -> str:
    resampled = note.values["bootstrap"]
    judged = "the gain is 0 and the test cannot reject" if resampled else "its accuracy counts as no lower"
    same = f"both algorithms make the same decisions for everybody in {note.values['name']}"
    return f"{_where(note)}: {same}, so {judged}."


def _undefined_resamples(note: Note) -> str:
    return (
        f"{_where(note)}: some resamples had nobody in a denominator (at most {note.values['most']:,} of "
        f"{note.values['resamples']:,}). They count as exceeding, which can only raise the p-value."
    )


def _few_in_denominator(note: Note) -> str:
    rows, metric = f"{note.values['fewest']:.0f}", phrases.metric(note.values["utility"])
    return f"{_where(note)}: a denominator of the {metric} has only {rows} rows, so the p-value is approximate."


def _not_disadvantaged(note: Note) -> str:
    metric, group = phrases.metric(note.values["utility"]), phrases.listed(note.groups)
    return f"{_where(note)}: {group} is not worse off in {metric} under the status quo, so nothing can be reduced."


def _near_fair(note: Note) -> str:
    metric = phrases.metric(note.values["utility"])
    return (
        f"The status quo's unfairness in {metric} is only {note.values['distance']:.1f} "
        "standard errors from zero (median trial). The theory assumes that it is not zero. Close to zero the test has "
        "little power, and its level is not guaranteed."
    )


def _solver_stopped(note: Note) -> str:
    gap = note.values["gap"]
    known = "no gap is certified" if gap != gap else f"the certified gap is at most {gap:.3g}"
    return f"{_where(note)}: the solver stopped at its time limit; {known}."


def _same_decisions(note: Note) -> str:
    return f"{_where(note)}: the alternative makes the same decisions as the status quo for everybody."


register(
    {
        "nothing_found": _nothing_found,
        "folds_lost": _folds_lost,
        "rule_remark": "In {folds} of {fits} fits: {remark}",
        "solver_stopped": _solver_stopped,
        "undefined_resamples": _undefined_resamples,
        "few_in_denominator": _few_in_denominator,
        "same_decisions": _same_decisions,
        "untouched_group": _untouched_group,
        "not_disadvantaged": _not_disadvantaged,
        "near_fair": _near_fair,
        "nothing_learned": "The candidate's decisions are given and no cut-off has to be learned, so the training "
        "parts were not used. A single split tests on all rows.",
        "split_for_pairs": "With more than two groups, the status quo's most unequal pair is chosen on a training "
        "part, so a single split tests only on the other part.",
    }
)


# ---- assumptions and limits


def assumptions(r: ImprovabilityResult, distance: float, smallest: int) -> tuple[tuple[str, str], ...]:
    """What is assumed, and how it was checked."""
    many = " in the median trial" if r.trials > 1 else ""
    return (
        r.rows_assumed(),
        phrases.SAMPLE,
        (
            "The status quo's unfairness is not zero.",
            f"It is {phrases.number(distance, 2)} standard errors from zero{many}.",
        ),
        (
            "There are enough rows for large-sample laws.",
            f"The smallest group judged has {smallest:,} rows.",
        ),
        *((STABLE,) if r.basis == "crossfit" else ()),
        (
            "Utilities, requirements, margin, rules and candidates were fixed before the data were seen, and every "
            "attempt is listed.",
            "Cannot be checked from the table. The seed, the options and the attempts named are in the result."
            + (" A single split is easily re-run until it rejects." if r.basis == "splits" and r.trials == 1 else ""),
        ),
        ("Decisions do not change the outcome that is measured.", phrases.UNCHECKED),
    )


def limits(r: ImprovabilityResult) -> tuple[str, ...]:
    """What the result does not show."""
    own = (
        "The result does not show that no alternative exists: the rule may be unable to find it, or there may be too "
        "few rows."
    )
    if r.reject and r.rule == CANDIDATE:
        own = "The result shows that the candidate is better on the criteria compared. Others may be better still."
    elif r.reject:
        own = (
            "The result shows that a better algorithm exists: a mixture of those the rule finds. It does not certify "
            "the algorithm fitted on all rows."
        )
    return (
        own,
        "The result compares the stated criteria on these rows. It does not say that either algorithm treats anyone "
        "equally in any other sense.",
        "Whether an alternative is feasible, lawful or cheap enough to adopt is not a statistical question.",
    )
