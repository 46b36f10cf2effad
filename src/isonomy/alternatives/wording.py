"""Every sentence of the improvability test."""

from __future__ import annotations

from collections.abc import Sequence

from isonomy.results import phrases

QUESTION = "Is there an alternative that is at least as accurate and less unequal?"
METHOD = "Improvability by repeated sample splitting"
REFERENCES = (
    "Auerbach, Liang, Okumura and Tabord-Meehan (2025), Testing the Fairness-Accuracy Improvability of Algorithms.",
    "Obermeyer, Powers, Vogeli and Mullainathan (2019), Dissecting racial bias in an algorithm used to manage the "
    "health of populations, Science 366.",
)
CANDIDATE = "the candidate"
PROGRESS = "Rounds of split, select, test"
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
    less = [_gain(name, g, scale, "smaller", "larger") for name, g in zip(fairness, fairness_gains, strict=True)]
    who = "the candidate is not" if rule == CANDIDATE else f"no algorithm that the rule {rule!r} can find is"
    return (
        f"{who} better than the status quo on all of these: {accuracy} ({phrases.listed(more)}), and unfairness in "
        f"{phrases.listed(less)}."
    )


def _gain(name: str, gain: float, scale: str, better: str, worse: str) -> str:
    if gain == 0:
        return f"{name}: {better}"
    amount = f"{abs(gain):.1%}" if scale == "ratio" else phrases.number(abs(gain))
    return f"{name}: {better} by more than {amount}" if gain > 0 else f"{name}: {worse} by less than {amount}"


def conclusion(reject: bool, pvalue: float, median: float, splits: int, rule: str, alpha: float) -> str:
    """The sentence for the court."""
    how = (
        f"The median p-value of {splits} random splits is {median:.4f}, doubled for taking a median: "
        f"{phrases.pvalue(pvalue)}"
        if splits > 1
        else f"One test: {phrases.pvalue(pvalue)}"
    )
    if reject:
        who = rule if rule == CANDIDATE else f"an algorithm found by the rule {rule!r}"
        return (
            f"A less discriminatory alternative was shown to exist: {who} meets every accuracy requirement and is less "
            f"unequal than the status quo. {how}, at most {alpha:g}."
        )
    who = rule if rule == CANDIDATE else f"what the rule {rule!r} found"
    return (
        f"No less discriminatory alternative was shown: {who} did not meet every requirement beyond chance. {how}, "
        f"above {alpha:g}. Another alternative, or more rows, might."
    )


def accuracy_effect(utility: str, name: str, candidate: float, status_quo: float) -> str:
    """Average accuracy of both algorithms."""
    return f"{utility}, {name}: {_both(candidate, status_quo)}"


def fairness_effect(utility: str, pair: str, candidate: float, status_quo: float) -> str:
    """Average unfairness of both algorithms."""
    return f"Unfairness in {utility} ({pair}): {_both(candidate, status_quo)}"


def _both(candidate: float, status_quo: float) -> str:
    known = status_quo > 0 and candidate == candidate
    change = f", {100 * (candidate - status_quo) / status_quo:+.1f} %" if known else ""
    return (
        f"{phrases.number(candidate)} with the alternative, {phrases.number(status_quo)} with the status quo{change} "
        "(averages over rounds)."
    )


def supported(kind: str, gain: float, scale: str, alpha: float) -> str:
    """The largest gain that the data support: a lower confidence bound."""
    held = "accuracy no lower" if kind == "fairness" else "unfairness no larger"
    what = "a cut in unfairness" if kind == "fairness" else "a gain in every accuracy"
    if gain != gain:
        return f"With {held}, no {what[2:]} is supported at level {alpha:g}."
    amount = f"{100 * gain:.1f} %" if scale == "ratio" else phrases.number(gain)
    return f"With {held}, the data support {what} of up to {amount} at level {alpha:g}."


def selected(candidate: float, status_quo: float) -> str:
    """Shares selected in the test parts."""
    return (
        f"Selected in the test parts: {100 * candidate:.2f} % by the alternative, {100 * status_quo:.2f} % by the "
        "status quo (averages over rounds)."
    )


def recommended(rule: str) -> str:
    """What the recommended algorithm's own estimates are worth."""
    if rule == CANDIDATE:
        return "result.recommended measures the candidate on all rows; the evidence is the table of rounds."
    return (
        "The rule was fitted again on all rows; result.recommended holds that algorithm. Its estimates come from the "
        "rows it was fitted on and are not independent evidence: the evidence is the table of rounds."
    )


# --- warnings


def nothing_found(rounds: Sequence[int], rule: str, note: str) -> str:
    """Rounds in which the rule found no algorithm."""
    return f"{_rounds(rounds)}: {rule} found no algorithm ({note}); the p-value is 1 there."


def undefined(rounds: Sequence[int], most: int, resamples: int) -> str:
    """Resamples with an empty denominator."""
    return (
        f"{_rounds(rounds)}: some resamples had nobody in a denominator (at most {most:,} of {resamples:,}). They "
        "count as exceeding, which can only raise the p-value."
    )


def few(rounds: Sequence[int], fewest: float, utility: str) -> str:
    """The bootstrap rests on few rows."""
    return f"{_rounds(rounds)}: only {fewest:.0f} rows in a denominator of {utility}; the bootstrap law is rough there."


def not_disadvantaged(rounds: Sequence[int], utility: str, protected: str) -> str:
    """One-sided unfairness is zero."""
    return f"{_rounds(rounds)}: {protected} is not worse off in {utility} under the status quo; nothing to reduce."


def near_fair(utility: str, ratio: float) -> str:
    """Assumption 1 is doubtful."""
    return (
        f"The status quo's unfairness in {utility} is only {ratio:.1f} standard errors from zero in the median round. "
        "The theory assumes that it is not zero; close to zero the test has little power and its level is not assured."
    )


def stopped(rounds: Sequence[int], gap: float) -> str:
    """The solver stopped at its time limit."""
    return f"{_rounds(rounds)}: the solver stopped at its time limit; the certified gap is at most {gap:.3g}."


NOTHING_LEARNED = (
    "The candidate's decisions came ready and no cut-off had to be learned, so the training parts were not used: "
    "splits=1 tests on all rows."
)
SPLIT_FOR_PAIRS = (
    "With more than two groups the status quo's most unequal pair is chosen on a training part, so splits=1 tests on "
    "the other part only."
)


def _rounds(rounds: Sequence[int]) -> str:
    numbers = phrases.listed([str(r) for r in rounds], limit=7)
    return f"Round {numbers}" if len(rounds) == 1 else f"Rounds {numbers}"


# --- assumptions and limits


def assumptions(splits: int, worst_se: float, smallest: int) -> tuple[tuple[str, str], ...]:
    """What is assumed, and how it was checked."""
    return (
        phrases.INDEPENDENT,
        phrases.SAMPLE,
        (
            "The status quo is not perfectly fair (assumption 1).",
            f"Its unfairness is {phrases.number(worst_se, 2)} bootstrap standard errors from zero in the median round.",
        ),
        (
            "Test parts are large enough for the bootstrap (assumptions 2 and 3).",
            f"The smallest group of any test part has {smallest:,} rows; resamples with an empty denominator are "
            "counted.",
        ),
        (
            "Utilities, requirements, rule and number of splits were fixed before the data were seen.",
            "Cannot be checked from the table; the seed and the options are in the provenance."
            + (" One split is easy to re-run until it rejects." if splits == 1 else ""),
        ),
        ("Decisions do not change the outcome that is measured.", phrases.UNCHECKED),
    )


def limits(reject: bool) -> tuple[str, ...]:
    """What the result does not show."""
    own = (
        "It does not show that no alternative exists: the rule may not be able to find it, or the rows may be too few."
    )
    if reject:
        own = (
            "It shows that a better algorithm exists and that the rule can find one. The algorithm of any one round is "
            "not certified by it."
        )
    return (
        own,
        "It compares the criteria named, on these rows. It does not say that either algorithm treats anyone equally in "
        "any other sense.",
        "Whether an alternative is feasible, lawful or cheap enough to adopt is not a statistical question.",
    )


# --- the surface

SURFACE_NULL = "at each point: no alternative gains delta_a in every accuracy and cuts every unfairness by delta_f."
SURFACE_LIMITS = (
    "Each point is a test of its own at the level named; the surface is not adjusted for looking at many points, but "
    "the supported region as a whole is valid because it is the set of gains that one test inverts.",
    "Beyond the contour nothing was shown: another rule or more rows might support more.",
)
