"""Every sentence about adverse impact. No threshold is called the law's."""

from __future__ import annotations

from collections.abc import Sequence

from isonomy.likelihood.wording import against_best
from isonomy.results import phrases

QUESTION = "How often is each category selected beside the category it is compared with, and what do the data show?"
METHOD = "impact ratios by likelihood, with multiple comparisons with the best"
REFERENCES = (
    "Hsu, J. C. (1981). Simultaneous confidence intervals for all distances from the 'best'. Annals of Statistics 9, "
    "1026-1034.",
    "Miettinen, O. and Nurminen, M. (1985). Comparative analysis of two rates. Statistics in Medicine 4, 213-226.",
    "Holm, S. (1979). A simple sequentially rejective multiple test procedure. Scandinavian Journal of Statistics 6, "
    "65-70.",
    "Montiel Olea, J. L. and Plagborg-Moller, M. (2019). Simultaneous confidence bands. Journal of Applied "
    "Econometrics 34, 1-17.",
)
LIMITS = (
    "The threshold is a custom that whoever ran this chose. No threshold is the law's: a ratio below the "
    "threshold is not by itself unlawful, and one above it is not by itself lawful.",
    "A ratio describes who was selected. It does not say why, nor whether the categories' applicants were alike.",
    phrases.NOT_PROOF,
)
BEST = against_best("category", "selected most often")
ASSUMED_BEST = ("The category selected most often is not known beforehand.", "Its choice is part of every interval.")
ASSUMED_NAMED = ("The comparator was chosen before looking at these data.", phrases.UNCHECKED)
# What columns are called where rows have weights.
WEIGHTED_HEADINGS = {
    "n": "Rows",
    "selected": "Rows selected",
    "weighted_n": "People by weight",
    "weighted_selected": "People selected, by weight",
    "shortfall": "More selections by weight to reach the threshold",
    "shortfall_parity": "More selections by weight to reach parity",
}
PUBLISHED, SHOWN, BOUNDS, SHORTFALLS = (
    "The table as it is published",
    "What the data show",
    "If unknown categories were known",
    "Shortfalls",
)


def null(threshold: float) -> str:
    """The null hypothesis of every category."""
    return f"For each category, its rate is at least {phrases.number(threshold)} times that of its comparator."


def overview(below: Sequence[str], differ: Sequence[str], shown: Sequence[str], compared: int, threshold: float) -> str:
    """Three facts, one after the other."""
    limit = phrases.number(threshold)
    facts = (
        ("Observed impact ratios below", below, f"{limit}: "),
        ("A difference from the comparator was shown for", differ, ""),
        ("A ratio below the threshold was shown for", shown, ""),
    )
    sentences = [f"{compared:,} categories were compared."]
    for text, names, extra in facts:
        listed = f"{extra}{phrases.listed(names)}" if names else f"{extra}none"
        sentences.append(f"{text} {listed}.")
    return " ".join(sentences)


def cutoffs(alpha: float, banded: bool) -> str:
    """The title of the ratios by cut-off; bands are for rows that are independent and weigh the same."""
    return f"Impact ratio by cut-off{f', with simultaneous {100 * (1 - alpha):g} % bands' if banded else ''}"


def finding(
    group: str,
    rates: tuple[float, float, float],
    comparator: str,
    ratio: tuple[float, float, float],
    alpha: float,
    pvalue: float,
    below: float,
    threshold: float,
    chosen: str = "selected",
    *,
    people: tuple[float, float] | None = None,
) -> str:
    """One category: ``rates`` are selected, number and rate; ``ratio`` the impact ratio and its interval.

    ``people``: how many the selected rows, and all rows, stand for by weight; None without weights.
    ``below`` is the adjusted one-sided p-value of a ratio of at least the threshold: it may be small where the
    interval, which has two sides, just holds the threshold.
    """
    selected, n, rate = rates
    counted = f"{phrases.count(selected)} of {phrases.count(n)} {chosen}"
    if people is not None:
        rows, stand = f"{phrases.count(n)} rows {chosen}", " of ".join(phrases.count(number) for number in people)
        counted = f"{phrases.count(selected)} of {rows}, which stand for {stand} people by weight"
    return (
        f"{group}: {counted} ({100 * rate:.1f} %), an impact ratio of "
        f"{phrases.number(ratio[0])} to {comparator} ({phrases.interval(ratio[1], ratio[2], alpha)}). Against equal "
        f"rates, for this category alone: {phrases.pvalue(pvalue)}; against a ratio of {phrases.number(threshold)} or "
        f"more, adjusted for all categories: {phrases.pvalue(below)}."
    )


def shortfall(need: float, parity: float, threshold: float, *, weighted: bool = False) -> str:
    """How many more selections would have been needed."""
    more = f"{phrases.count(need or parity)} more {'selection' if (need or parity) == 1 else 'selections'}"
    more += " by weight" if weighted else ""
    if not need:
        return f"{more} would have reached the comparator's rate."
    ratio = f"A ratio of {phrases.number(threshold)}"
    return f"{ratio} would have needed {more}, the comparator's rate {phrases.count(parity)}."


def bounds(low: float, high: float) -> str:
    """What unknown categories leave open."""
    ends = f"{phrases.number(low)} and {phrases.number(high)}"
    return f"Whatever the unknown categories are, the ratio lies between {ends}."


def median(value: float) -> str:
    """What selection means when there are scores alone."""
    return f"Selected means here: scored above {phrases.number(value, 6)}, the median of all scores."


def unknown_warning(table: str, unknown: float, rows: float) -> str:
    """Rows whose category is not known."""
    return (
        f"The category is unknown for {phrases.count(unknown)} of {phrases.count(rows)} rows of the table {table}: "
        "they are in no rate, and the bounds say what they could change."
    )


def left_out_warning(groups: Sequence[str], min_size: int, share: float) -> str:
    """Categories without a ratio."""
    choice = f" or less than {100 * share:g} % of the rows" if share else ""
    return (
        f"Left out of ratios, with their numbers and rates given: {phrases.listed(groups)} (fewer than {min_size:,} "
        f"rows{choice})."
    )


def zero_warning(groups: Sequence[str]) -> str:
    """A table in which nobody was selected."""
    return f"Nobody was selected, so there is no ratio: {phrases.listed(groups)}."


def alone_warning(tables: Sequence[str]) -> str:
    """A table in which there is nothing to compare."""
    return f"Fewer than two categories can be compared in the table {phrases.listed(tables)}."
