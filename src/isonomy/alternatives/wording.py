"""Every sentence of the improvability test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from isonomy.inference import Verdict
from isonomy.results import phrases

QUESTION = "Is there an alternative that is at least as accurate and less unequal?"
METHOD = "Improvability on rows that no rule was fitted on"
REFERENCES = (
    "Auerbach, Liang, Okumura and Tabord-Meehan (2025), Testing the Fairness-Accuracy Improvability of Algorithms.",
    "Gasparin, Wang and Ramdas (2025), Combining exchangeable p-values.",
    "Obermeyer, Powers, Vogeli and Mullainathan (2019), Dissecting racial bias in an algorithm used to manage the "
    "health of populations, Science 366.",
)
CANDIDATE = "the candidate"
COMPARED, ALTERNATIVES = "The alternative beside the status quo", "The test"
PROGRESS = "Rounds of fit and test"
_OWN = ("evidence", "seed", "adjusted pvalue", "verdict")  # of the entries of this call's own log
VARYING_PAIR = "the most unequal pair"  # where rounds chose different ones


# --- the null and the findings


def null(
    rule: str,
    accuracy: str,
    accuracies: Sequence[str],
    accuracy_gains: Sequence[float],
    fairness: Sequence[str],
    fairness_gains: Sequence[float],
    scale: str,
) -> str:
    """The null hypothesis in words."""
    more = [_gain(name, g, scale, "higher", "lower") for name, g in zip(accuracies, accuracy_gains, strict=True)]
    names = [phrases.metric(name) for name in fairness]
    less = [_gain(name, g, scale, "smaller", "larger") for name, g in zip(names, fairness_gains, strict=True)]
    who = "the candidate is not" if rule == CANDIDATE else f"no algorithm that the rule {rule!r} can find is"
    return (
        f"{who} better than the status quo on all of these: {phrases.metric(accuracy)} ({phrases.listed(more)}), and "
        f"unfairness in {phrases.listed(less)}."
    )


def _gain(name: str, gain: float, scale: str, better: str, worse: str) -> str:
    if gain == 0:
        return f"{name}: {better}"
    amount = _amount(abs(gain), scale)
    return f"{name}: {better} by more than {amount}" if gain > 0 else f"{name}: {worse} by less than {amount}"


def conclusion(reject: bool, pvalue: float, alpha: float, who: str, how: str) -> str:
    """The sentence for the court. ``who``: of `subject`; ``how``: of `basis`."""
    if reject:
        return (
            f"A less discriminatory alternative was shown to exist: {who} every accuracy requirement, with less "
            f"inequality than the status quo. {how}: {phrases.pvalue(pvalue)}; {alpha:g} or less counts as shown."
        )
    return (
        f"No less discriminatory alternative was shown: {who} every requirement beyond chance. {how}: "
        f"{phrases.pvalue(pvalue)}; {alpha:g} or less counts as shown. Another alternative might meet them, and more "
        "rows might show it."
    )


def subject(rule: str, candidates: Sequence[str], shown: Sequence[str], reject: bool) -> str:
    """Who meets the requirements, or did not meet them, with the verb."""
    if len(candidates) > 1:
        meet = "meet" if len(shown) > 1 else "meets"
        return f"{phrases.listed(shown, len(shown))} {meet}" if reject else f"none of {len(candidates)} candidates met"
    if rule == CANDIDATE:
        return f"{rule} {'meets' if reject else 'did not meet'}"
    return f"an algorithm found by the rule {rule!r} meets" if reject else f"what the rule {rule!r} found did not meet"


def log(entries: Sequence[Mapping[str, object]], best: str) -> str:
    """Everything that was tried, and whose figures are given (nothing where there is one alone)."""
    attempts = []
    for entry in entries:
        own = "adjusted pvalue" in entry
        about = [
            f"seed {value}" if key == "seed" else str(value)
            for key, value in entry.items()
            if key != "what" and not (own and key in _OWN)
        ]
        if own:
            p = phrases.pvalue(float(str(entry["adjusted pvalue"])))
            about.append(f"adjusted {p}, {'shown' if entry['verdict'] == Verdict.VIOLATION else 'not shown'}")
        attempts.append(f"{entry.get('what', 'an attempt')} ({', '.join(about)})" if about else str(entry.get("what")))
    whose = f" The figures that follow are those of {best}." if best else ""
    return f"Tried in all: {phrases.listed(attempts, len(attempts))}.{whose}"


def basis(evidence: str, median: float, splits: int, folds: int, repeats: int, attempts: int) -> str:
    """What the p-value rests on."""
    if evidence == "whole":
        text = "Tested on all rows, the error of the cut-offs included"
    elif evidence == "crossfit":
        text = (
            f"Every row was decided by rules fitted without it ({folds} folds, "
            f"{'once' if repeats == 1 else f'{repeats} times'}), and one test made of all rows"
        )
    elif splits == 1:
        text = "One test"
    elif evidence == "splits":
        text = f"{splits} random splits, merged as exchangeable p-values"
    else:
        text = f"The median p-value of {splits} random splits is {median:.4f}, doubled for taking a median"
    return text if attempts == 1 else f"{text}; adjusted for {attempts} attempts"


def accuracy_effect(
    utility: str, name: str, candidate: float, status_quo: float, *, change: str, share: bool = False
) -> str:
    """Accuracy of both algorithms. ``change``: of `limits_of`; ``share``: whether it is a share of people."""
    return f"{accuracy_of(utility, name)}: {_both(candidate, status_quo, change, share=share)}"


def accuracy_of(utility: str, name: str) -> str:
    """Whose accuracy: 'Positive predictive value, race=Black'."""
    metric = phrases.metric(utility)
    return f"{metric[:1].upper()}{metric[1:]}, {name}"


def unfairness_of(utility: str) -> str:
    """'Unfairness in true positive rate'."""
    return f"Unfairness in {phrases.metric(utility)}"


def fairness_effect(
    utility: str,
    pair: str,
    candidate: float,
    status_quo: float,
    *,
    change: str,
    own_pair: str | None = None,
    corrected: bool = True,
    share: bool = False,
) -> str:
    """Unfairness of both algorithms between a ``pair`` of groups.

    ``own_pair``: of more than two groups those most unequal with the alternative, the ``pair`` being the status quo's;
    ``corrected``: whether that was chosen on the rows judged.
    """
    what = unfairness_of(utility)
    if own_pair is None:
        return f"{what} ({pair}): {_both(candidate, status_quo, change, share=share, apart=True)}"
    tail = f"; {change}" if change else ""
    status_quos = f"{pair}; corrected for being the largest of several" if corrected else pair
    new, old = (_size(value, share, apart=True) for value in (candidate, status_quo))
    return (
        f"{what}, between the most unequal groups of each: {new} with the alternative ({own_pair}), {old} with the "
        f"status quo ({status_quos}){tail}."
    )


def _both(candidate: float, status_quo: float, change: str, *, share: bool, apart: bool = False) -> str:
    tail = f"; {change}" if change else ""
    new, old = (_size(value, share, apart=apart) for value in (candidate, status_quo))
    return f"{new} with the alternative, {old} with the status quo{tail}."


def _size(value: float, share: bool, *, apart: bool = False) -> str:
    """A share of people in percent, how far two are ``apart`` in points, anything else as a number."""
    if not share:
        return phrases.number(value)
    return phrases.points(value) if apart else phrases.share(value)


def limits_of(kind: str, change: float, low: float, high: float, *, scale: str, alpha: float) -> str:
    """A gain with limits that hold for all gains at once; nothing where there are none."""
    if low != low:
        return ""
    what = "a gain" if kind == "accuracy" else "a cut"
    relative = " of the status quo's" if scale == "ratio" else ""
    return (
        f"{what} of {_amount(change, scale)}{relative}, {100 * (1 - alpha):g} % limits {_amount(low, scale)} to "
        f"{_amount(high, scale)} (for all gains together)"
    )


def _amount(gain: float, scale: str) -> str:
    return phrases.share(gain) if scale == "ratio" else phrases.number(gain)


def supported(kind: str, gain: float, scale: str, alpha: float, margin: float = 0.0) -> str:
    """The largest gain that the data support: a lower confidence bound."""
    lower = f"lower by less than {_amount(margin, scale)}" if margin else "no lower"
    held = f"accuracy {lower}" if kind == "fairness" else "unfairness no larger"
    what = "cut in unfairness" if kind == "fairness" else "gain in every accuracy"
    if gain != gain:
        return f"With {held}, no {what} is supported at an error rate of {alpha:g}."
    return f"With {held}, the data support a {what} of up to {_amount(gain, scale)} at an error rate of {alpha:g}."


def selected(candidate: float, status_quo: float) -> str:
    """Shares selected of the rows both were judged on."""
    by = f"{phrases.share(candidate)} by the alternative, {phrases.share(status_quo)} by the status quo"
    return f"Selected of the rows judged: {by}."


def recommended(rule: str) -> str:
    """What the recommended algorithm's own estimates are worth."""
    return (
        f"The rule {rule!r} was fitted again on all rows, to be recommended. That algorithm's own estimates come from "
        "the rows it was fitted on and are not independent evidence: the evidence is the table of this result."
    )


# --- warnings


def concerned(trials: Sequence[int], candidates: Sequence[str] | None, *, rounds: bool) -> str:
    """The rounds or candidates that a warning is about; nothing where there are none."""
    if not trials:
        return ""
    if rounds:
        names, what = [str(trial + 1) for trial in trials], "Round"
    elif candidates is not None:
        names, what = [repr(candidates[trial]) for trial in trials], "Candidate"
    else:
        return "All rows"
    return f"{what}{'s' if len(names) > 1 else ''} {phrases.listed(names, limit=7)}"


def fewer_rows(least: int) -> str:
    """Why a comparison was not made: a note in `nothing_found`, which gives no number of rows away."""
    return f"fewer than {least} rows are in a denominator, too few for the law of the test"


def nothing_found(where: str, rule: str, note: str) -> str:
    """Trials in which there is no algorithm to judge."""
    return f"{where}: {rule} found no algorithm that can be judged ({note}); the p-value is 1 there."


def failed(folds: int, fits: int, note: str) -> str:
    """Folds scored as no improvement."""
    return f"In {folds} of {fits} fits no algorithm was found: those folds keep the status quo's decisions. {note}"


def remark(fits: int, all_fits: int, note: str) -> str:
    """What a rule that found something had to say."""
    return f"In {fits} of {all_fits} fits: {note}"


def same(where: str) -> str:
    """The candidate is the status quo."""
    return f"{where}: the alternative makes the same decisions as the status quo for everybody; it improves nothing."


def alike(where: str, name: str, bootstrapped: bool) -> str:
    """A group whose decisions are untouched."""
    judged = "so its gain is 0 and the test cannot pass" if bootstrapped else "so its accuracy counts as no lower"
    return f"{where}: both algorithms decide alike for everybody of {name}, {judged}."


def undefined(where: str, most: int, resamples: int) -> str:
    """Resamples with an empty denominator."""
    return (
        f"{where}: some resamples had nobody in a denominator (at most {most:,} of {resamples:,}). They "
        "count as exceeding, which can only raise the p-value."
    )


def few(where: str, fewest: float, utility: str) -> str:
    """The law rests on few rows."""
    rows = f"only {fewest:.0f} rows in a denominator of the {phrases.metric(utility)}"
    return f"{where}: {rows}; the law of the test is rough there."


def not_disadvantaged(where: str, utility: str, protected: str) -> str:
    """One-sided unfairness is zero."""
    return (
        f"{where}: {protected} is not worse off in {phrases.metric(utility)} under the status quo; nothing to reduce."
    )


def near_fair(utility: str, ratio: float) -> str:
    """Assumption 1 is doubtful."""
    return (
        f"The status quo's unfairness in {phrases.metric(utility)} is only {ratio:.1f} standard errors from zero "
        "(median trial). The theory assumes that it is not zero; close to zero the test has little power and its level "
        "is not assured."
    )


def stopped(where: str, gap: float) -> str:
    """The solver stopped at its time limit."""
    known = "no gap is certified" if gap != gap else f"the certified gap is at most {gap:.3g}"
    return f"{where}: the solver stopped at its time limit; {known}."


NOTHING_LEARNED = (
    "The candidate's decisions came ready and no cut-off had to be learned, so the training parts were not used: "
    "a single split tests on all rows."
)
SPLIT_FOR_PAIRS = (
    "With more than two groups the status quo's most unequal pair is chosen on a training part, so a single split "
    "tests on the other part only."
)


# --- assumptions and limits


STABLE = (
    "The rules fitted on different folds are much alike: one row more or less changes few decisions.",
    "Cannot be checked from one table; the folds share training rows, and the level was simulated for linear rules, "
    "LASSO, forests, boosting and nearest neighbours (docs/validity).",
)


def assumptions(
    evidence: str, splits: int, worst_se: float, smallest: int, rows: tuple[str, str]
) -> tuple[tuple[str, str], ...]:
    """What is assumed, and how it was checked."""
    many = " in the median trial" if splits > 1 else ""
    return (
        rows,
        phrases.SAMPLE,
        (
            "The status quo is not perfectly fair.",
            f"Its unfairness is {phrases.number(worst_se, 2)} standard errors from zero{many}.",
        ),
        (
            "The rows judged are many enough for large-sample laws.",
            f"The smallest group judged has {smallest:,} rows.",
        ),
        *((STABLE,) if evidence == "crossfit" else ()),
        (
            "Utilities, requirements, margin, rules and candidates were fixed before the data were seen, and every "
            "attempt is listed.",
            "Cannot be checked from the table; the seed, the options and the attempts named are in the result."
            + (" One split is easy to re-run until it rejects." if evidence == "splits" and splits == 1 else ""),
        ),
        ("Decisions do not change the outcome that is measured.", phrases.UNCHECKED),
    )


def limits(reject: bool, *, fitted: bool) -> tuple[str, ...]:
    """What the result does not show; ``fitted``: a rule looked for the alternatives, which were not ready."""
    own = (
        "It does not show that no alternative exists: the rule may not be able to find it, or the rows may be too few."
    )
    if reject and not fitted:
        own = "It shows that the candidate is better on what was compared, not that no other is better still."
    elif reject:
        own = (
            "It shows that a better algorithm exists: the candidate, or a mixture of those the rule finds. The "
            "algorithm fitted on all rows is not itself certified by it."
        )
    return (
        own,
        "It compares the criteria named, on these rows. It does not say that either algorithm treats anyone equally in "
        "any other sense.",
        "Whether an alternative is feasible, lawful or cheap enough to adopt is not a statistical question.",
    )


# --- the surface

SURFACE_NULL = "at each point: no alternative gains as much in every accuracy and cuts every unfairness by as much."
SURFACE_LIMITS = (
    "Each point is a test of its own at the level named; the surface is not adjusted for looking at many points, but "
    "the supported region as a whole is valid because it is the set of gains that one test inverts.",
    "Beyond the contour nothing was shown: another rule or more rows might support more.",
)
