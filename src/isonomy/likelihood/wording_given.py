"""Every sentence about a comparison within strata."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Literal

from isonomy.results import phrases

REFERENCES = (
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
METHOD = "Mantel-Haenszel comparison within strata"
LEGITIMATE = (
    "What factors account for is arithmetic. Whether they are legitimate, and whether they are themselves affected by "
    "group membership, these data cannot say."
)
TESTS = {"odds_ratio": "Breslow and Day's test with Tarone's correction", "difference": "Cochran's Q"}


NUMBERS, BY_STRATUM = "The numbers", "The strata one by one"  # the tables of a report
HEADINGS = {"estimate": "Adjusted estimate", "reference": "Adjusted reference"}
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


def null(sentence: str, alike: str) -> str:
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


Unit = Literal["number", "ratio", "points"]  # what a disparity is: a difference of means, a ratio, one of shares


def finding(
    group: str,
    raw: tuple[float, float],
    unconditional: float,
    disparity: float,
    given: str,
    alike: str,
    unit: Unit,
    *,
    share: bool,
) -> str:
    """What a disparity is without the factors, with the ``raw`` numbers behind it, and what it is within them."""
    without, within = (_disparity(value, unit) for value in (unconditional, disparity))
    own, other = (phrases.share(value) if share else phrases.number(value) for value in raw)
    return f"{group}: {without} without regard to {given} ({own} against {other}), {within} among people {alike}."


def _disparity(value: float, unit: Unit) -> str:
    if unit == "points" and isfinite(value):
        return f"{phrases.points(value)} {'lower' if value < 0 else 'higher'}"
    return phrases.number(value) if unit == "ratio" else phrases.signed(value)


def accounted(value: float, ends: tuple[float, float], alpha: float, given: Sequence[str], unit: Unit) -> str:
    """How much of a disparity the factors account for."""
    who = f"Accounted for by {phrases.listed(given)}"
    if unit == "points" and all(map(isfinite, ends)):
        return f"{who}: {phrases.apart(value, ends, alpha)}."
    what = "a factor of " if unit == "ratio" else ""
    amount = phrases.number(value) if unit == "ratio" else phrases.signed(value)
    return f"{who}: {what}{amount} ({phrases.interval(*ends, alpha)})."


def share(percent: float, low: float, high: float) -> str:
    """The share of a disparity that is accounted for, in percent, if it has an interval."""
    return f"That is {percent:.0f} % of it ({low:.0f} to {high:.0f} %)."


def differing_warning(groups: Sequence[str], scale: str) -> str:
    """Effects that differ between strata."""
    return (
        f"The disparity differs between strata for {phrases.listed(groups)} "
        f"({TESTS.get(scale, TESTS['difference'])}): the common one is an average that need hold in no stratum."
    )


def unjudged_warning(groups: Sequence[str], *, designed: bool) -> str:
    """Strata too small to tell whether effects differ between them, or rows with weights or clusters."""
    reason = (
        "the tests of it take rows as independent and of equal weight"
        if designed
        else "fewer than two strata have enough rows on both sides"
    )
    return f"Whether the disparity differs between strata could not be judged for {phrases.listed(groups)}: {reason}."


def one_sided_warning(groups: Sequence[str], most: int) -> str:
    """Strata that say nothing."""
    return (
        f"Strata in which one side is empty carry no information about {phrases.listed(groups)}: up to {most:,} of a "
        "group's strata. Their rows count in the unconditional disparity only."
    )


def shown_warning(shown: int) -> str:
    """More strata than are kept one by one."""
    return f"The first {shown:,} strata are kept one by one; all of them are in the common disparity."


ASSUMED = (
    "The disparity is the same in every stratum.",
    "Tested for strata with enough rows on both sides; if it is not, the common disparity is a weighted average.",
)
