"""Options of `flag` and `certify` that have options of their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from isonomy.errors import UsageError
from isonomy.inference.decide import Alternative
from isonomy.inference.effect import Interval
from isonomy.options import Also, Finite, Number, Option

LikelihoodKind = Literal["el", "eel"]
Correction = Literal["auto", "bartlett", "adjusted"] | None
Sigma = Literal["population", "pooled", "reference"]


@dataclass(frozen=True)
class NullOption(Option):
    """The null hypothesis about the disparity of each group.

    Parameters
    ----------
    low : float, optional
        The disparity under the null hypothesis, or the lower end of an interval. Default: no difference, which is 0,
        or a ratio of 1.
    high : float, optional
        The upper end of the interval; groups outside it are flagged.
    side : {"two-sided", "greater", "less", "outside"}, default "two-sided"
        Which groups are flagged: those that differ from ``low``, those above it, or those below it; "outside" is
        implied by ``high``.
    """

    name: ClassVar[str] = "null"
    low: Finite | None = None
    high: Finite | None = None
    side: Alternative | Literal["outside"] = "two-sided"

    def __post_init__(self) -> None:
        Option.__post_init__(self)
        if self.high is None:
            if self.side == "outside":
                raise UsageError("null: side='outside' needs an interval; give low and high.")
        elif self.low is None or self.low > self.high:
            raise UsageError(f"null: {self} is not allowed; give low and high with low <= high.")
        elif self.side in ("greater", "less"):
            raise UsageError(f"null: {self} is an interval; leave out high, or side.")


@dataclass(frozen=True)
class LikelihoodOption(Option):
    """The likelihood behind tests and intervals.

    Parameters
    ----------
    kind : {"el", "eel"}, default "el"
        Empirical or Euclidean likelihood.
    correction : {"auto", "bartlett", "adjusted"}, optional
        The correction for small groups. "auto", the default, in `flag`: if a group of a 0/1 metric or its reference has
        fewer than 20 cases or non-cases, the skewness-corrected score statistic is used. In `certify`: Bartlett's
        correction if the second-order term of T shows that the level would be wrong by a tenth of it or more, unless
        rows have weights or clusters, whose law covers small samples. "bartlett": T divided by its mean over its
        degrees of freedom, in closed form for known references, otherwise from resamples. "adjusted" (`flag`): one
        pseudo-observation is added; needs a known reference. None: the likelihood ratio is never corrected.
    resamples : int, default 1000
        Resamples behind a correction.
    interval : {"pointwise", "simultaneous", "one-sided"}, default "pointwise"
        In `flag`: intervals for each group alone, for all tested groups together (Sidak's level), or a bound on the
        side of a one-sided null hypothesis, which excludes a tolerance. `certify` has simultaneous intervals.
    published : bool, default False
        The paper's procedure: an estimated reference is treated as known (Theorem 2), an interval null has the paper's
        p-value, and nothing is corrected unless ``correction`` says so. ``method="published"`` is
        ``likelihood(published=True)``.
    """

    name: ClassVar[str] = "likelihood"
    kind: LikelihoodKind = "el"
    correction: Correction = "auto"
    # Fewer resamples give Bartlett's factor an error as large as the correction itself.
    resamples: Annotated[int, Number(least=100, most=100_000, whole=True)] = 1_000
    interval: Interval = "pointwise"
    published: bool = False

    def __post_init__(self) -> None:
        Option.__post_init__(self)
        if self.kind == "eel" and self.correction not in (None, "auto"):
            raise UsageError(f"correction: {self.correction!r} is for kind='el'; the Euclidean likelihood has none.")


@dataclass(frozen=True)
class StandardizedOption(Option):
    """Differences in standard deviations, for metrics that are not 0/1. The error of the standard deviation counts.

    Parameters
    ----------
    sigma : {"population", "pooled", "reference"}, default "population"
        Whose standard deviation is the unit: that of all rows, that of the group and its reference about their own
        means (against a group, or the rest), or that of a reference group.
    """

    name: ClassVar[str] = "standardized"
    sigma: Sigma = "population"


ScaleName = Annotated[
    Literal["difference", "ratio", "odds_ratio", "standardized"], Also({"standardised": "standardized"})
]
ScaleLike = ScaleName | StandardizedOption
Method = Literal["el", "eel", "published"] | LikelihoodOption
null, likelihood, standardized = NullOption, LikelihoodOption, StandardizedOption

# Keywords of earlier versions.
MOVED = {
    "sigma": "scale=iso.standardized({})",
    "alternative": "null=iso.null(side={})",
    "uncertainty": 'method="published" for an estimated reference that is treated as known; otherwise leave it out',
    "correction": "method=iso.likelihood(correction={})",
    "resamples": "method=iso.likelihood(resamples={})",
    "interval": "method=iso.likelihood(interval={})",
}
