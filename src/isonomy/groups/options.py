"""Options of `flag` and `certify` that have options of their own, and what groups are compared with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from numbers import Real
from typing import Annotated, ClassVar, Literal

import numpy as np

from isonomy.errors import UnknownOption, UsageError
from isonomy.frames import Group
from isonomy.inference.decide import Alternative
from isonomy.inference.effect import Interval
from isonomy.numerics.arrays import FloatArray
from isonomy.options import Also, Finite, Form, Fraction, Number, Option, check_fields

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


# Fewer resamples give Bartlett's factor an error as large as the correction itself.
Resamples = Annotated[int, Number(least=100, most=100_000, whole=True)]


@dataclass(frozen=True)
class LikelihoodOption(Option):
    """The likelihood behind tests and intervals.

    Parameters
    ----------
    kind : {"el", "eel"}, default "el"
        Empirical likelihood or, for differences, Euclidean likelihood.
    correction : {"auto", "bartlett", "adjusted"}, optional
        The correction for small groups. "auto", the default, in `flag`: if a group of a 0/1 metric or its reference has
        fewer than 20 cases or non-cases, the skewness-corrected score statistic is used. Other metrics have Welch's t
        below 30 rows, F on Welch's degrees of freedom above, and Hall's transformation of skewed differences. In
        `certify`: Bartlett's correction if the second-order term of T shows that the level would be wrong by a tenth of
        it or more, unless rows have weights or clusters, whose law covers small samples. "bartlett": T divided by its
        mean over its degrees of freedom, in closed form for known references, otherwise from resamples. "adjusted"
        (`flag`): one pseudo-observation is added; needs a known reference. None: the likelihood ratio is never
        corrected.
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
    resamples: Resamples = 1_000
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


@dataclass(frozen=True)
class SearchOption(Option):
    """Which subgroups `discover` looks at.

    Parameters
    ----------
    depth : {1, 2, 3}, optional
        The most conditions of a subgroup. Default: 3, or 2 with ``evidence="all"``.
    cuts : int, optional
        The number of intervals into which a column of numbers is cut, at quantiles that are rounded to few digits.
        Default: 8, or 16 if more than 100,000 rows are searched.
    min_share : float, default 0.01
        The smallest share of the rows that a subgroup may have.
    """

    name: ClassVar[str] = "search"
    depth: Literal[1, 2, 3] | None = None
    cuts: Annotated[int, Number(least=2, most=32, whole=True)] | None = None
    min_share: Fraction = 0.01


@dataclass(frozen=True)
class ComparableOption(Option):
    """Comparable people: each group is compared with people of the reference who have the same factors, by regression.

    Parameters
    ----------
    by : str, cut, where or sequence of these
        The factors: columns of numbers, which enter as smooth curves; columns of text or cuts, by their levels; named
        conditions.
    model : {"doubly_robust", "logistic", "strata"}, default "doubly_robust"
        "doubly_robust": a regression of the metric in the reference, corrected by a regression of membership; right if
        either of them is. "logistic": the first regression alone (Peters and Belson), and the conditional odds ratio
        of a logistic regression with the group among its terms. "strata": people of the same stratum, as in
        ``given=[...]``.
    """

    name: ClassVar[str] = "comparable"
    by: Annotated[object, Form("given")]
    model: Literal["doubly_robust", "logistic", "strata"] = "doubly_robust"

    def __post_init__(self) -> None:
        Option.__post_init__(self)
        if not self.factors:
            raise UsageError("comparable: no factor is named; give at least one column.")

    @property
    def factors(self) -> tuple[object, ...]:
        return tuple(self.by) if isinstance(self.by, (list, tuple)) else (self.by,)


def comparable(*by: object, model: str = "doubly_robust") -> ComparableOption:
    """Compare each group with comparable people: those of the reference who have the same factors.

    A value of ``given`` in `isonomy.flag` and `isonomy.adverse_impact`. The disparity is what people of the group got,
    less what people of the reference with the same factors get: E[Y | group] - E[m(X) | group], where m(x) is the mean
    of the reference given the factors x.

    Parameters
    ----------
    *by : str, cut or where
        The factors. Numbers enter as natural cubic splines with three knots; text, booleans, cuts and conditions by
        their levels (at most 50).
    model : {"doubly_robust", "logistic", "strata"}, default "doubly_robust"
        "doubly_robust" fits a logistic regression of the metric in the reference (a linear one if it is not 0/1), and
        corrects it by a logistic regression of membership: it is right if either is. "logistic" is the first
        regression alone (Peters and Belson), with the conditional odds ratio beside it. "strata" compares within
        strata, as ``given=[...]`` does.

    Notes
    -----
    Assumes that the factors are all that matters for the metric besides membership. Factors that were not recorded, and
    factors that are themselves the result of discrimination, are not accounted for. People of the group without a
    comparable person in the reference are counted; if they are more than a third, there is no verdict.

    References
    ----------
    Gastwirth, J. L. and Greenhouse, S. W. (1995). Biostatistical concepts and methods in the legal setting. Statistics
    in Medicine 14, 1641-1653.

    Graubard, B. I., Rao Sukhatme, R. and Gastwirth, J. L. (2005). Using the Peters-Belson method to measure health care
    disparities from complex survey data. Statistics in Medicine 24, 2659-2668.

    Robins, J. M., Rotnitzky, A. and Zhao, L. P. (1994). Estimation of regression coefficients when some regressors are
    not always observed. JASA 89, 846-866.

    Examples
    --------
    >>> import isonomy as iso
    >>> iso.comparable("credit_score", iso.cut("ltv", [80, 95]), model="logistic").model
    'logistic'
    """
    return ComparableOption(by[0] if len(by) == 1 else by, model)  # type: ignore[arg-type]


ScaleName = Annotated[
    Literal["difference", "ratio", "odds_ratio", "standardized"], Also({"standardised": "standardized"})
]
ScaleLike = ScaleName | StandardizedOption
Method = Literal["el", "eel", "published"] | LikelihoodOption
null, likelihood, standardized, search = NullOption, LikelihoodOption, StandardizedOption, SearchOption
NO_DIFFERENCE = NullOption()
METHODS = {
    "el": LikelihoodOption(),
    "eel": LikelihoodOption("eel"),
    "published": LikelihoodOption(published=True),
}

# Keywords of earlier versions.
MOVED = {
    "sigma": "scale=iso.standardized({})",
    "alternative": "null=iso.null(side={})",
    "uncertainty": 'method="published" for an estimated reference that is treated as known; otherwise leave it out',
    "correction": "method=iso.likelihood(correction={})",
    "resamples": "method=iso.likelihood(resamples={})",
    "interval": "method=iso.likelihood(interval={})",
}

# ---- what groups are compared with

# One number for all groups, one per group in order, or a mapping from group labels.
Disparities = float | Sequence[float] | FloatArray | Mapping[str, float]

# The largest mean of influence values, in standard errors: those of one-step estimates are smaller.
OFF_CENTER = 0.5


@dataclass(frozen=True, slots=True)
class Estimate:
    """A reference that the caller estimated: any asymptotically linear estimate (condition C6 of the paper).

    ``value`` is the estimate and ``influence`` names the column with each row's influence value, so that value - truth
    is the mean of the influence values up to smaller terms. The population mean, for example, has the influence values
    M - mean. They must come from the same rows as the audit.
    """

    value: float
    influence: str

    def __post_init__(self) -> None:
        check_fields(self)

    def refuse_uncentered(self, influence: FloatArray, mass: FloatArray) -> None:
        """Refuse influence values that do not average to zero: the likelihood would test another reference."""
        mean = float(np.average(influence, weights=mass))
        error = np.sqrt(float(np.average((influence - mean) ** 2, weights=mass)) / float(mass.sum()))
        if error == 0 and mean == 0:
            raise UsageError(
                f"reference: the influence values in {self.influence!r} are all 0; pass a reference without error as a "
                "number."
            )
        if abs(mean) > OFF_CENTER * error:
            raise UsageError(
                f"reference: the influence values in {self.influence!r} must average to zero, but their mean is "
                f"{mean:.6g} with a standard error of {error:.3g}; subtract their mean, or check that they "
                f"belong to the estimate {self.value:g}."
            )


ReferenceLike = Annotated[str | float | Mapping[str, object] | Group | Estimate, Form("reference")]


class To(StrEnum):
    POPULATION = "population"
    REST = "rest"
    GROUP = "group"
    NUMBER = "number"
    ESTIMATE = "estimate"
    HIGHEST = "highest"
    LOWEST = "lowest"

    @property
    def is_value(self) -> bool:
        return self in (To.NUMBER, To.ESTIMATE)

    @property
    def best(self) -> bool:
        """Whether it is one of the groups, to be determined by the rows."""
        return self in (To.HIGHEST, To.LOWEST)


@dataclass(frozen=True, slots=True)
class Reference:
    """A checked reference: its kind, and its value, group or estimate; ``joint``: its error is taken into account."""

    to: To
    joint: bool
    value: float | None = None  # a number or an estimate; None for a set of people
    group: Group | None = None
    estimate: Estimate | None = None
    everybody: str = "the population"


def reference_of(reference: ReferenceLike, *, joint: bool) -> Reference:
    """Check a reference in any of the forms that a caller may give. A number has no error."""
    if isinstance(reference, Real) and not isinstance(reference, bool):
        if not Number().admits(reference):
            raise UsageError(f"reference: {reference!r} is not a finite number.")
        return Reference(To.NUMBER, False, float(reference))
    if isinstance(reference, Estimate):
        return Reference(To.ESTIMATE, joint, reference.value, estimate=reference)
    if isinstance(reference, Mapping):
        if not reference:
            raise UsageError('reference: an empty mapping; give for instance {"race": "Caucasian"}.')
        reference = Group.from_mapping(reference)
    if isinstance(reference, Group):
        return Reference(To.GROUP, joint, group=reference)
    known = ("population", "rest", "highest", "lowest")
    if not isinstance(reference, str) or reference not in known:
        forms = ("a number", "a mapping such as {'race': 'Caucasian'}", "an Estimate")
        raise UnknownOption("reference", reference, (*known, *forms))
    return Reference(To(reference), joint)
