"""Planning: what rows can show, and how many a verdict needs."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from isonomy.errors import UsageError
from isonomy.groups.likelihood.planning import NEARLY, Goal, Known, PlannedComparison, power
from isonomy.groups.options import ScaleName
from isonomy.inference.decide import Alternative
from isonomy.options import Alpha, Finite, Fraction, Positive, Power, Tolerance, Whole, checked

Variance = Positive | tuple[Positive, Positive] | None
MOVED = {"alternative": 'side="less"', "reference_variance": "variance=(that of the group, that of the reference)"}


def _design(options: Mapping[str, Any], *others: str) -> PlannedComparison:
    """The planned comparison, from the arguments of a call without the ``others``."""
    given = {name: value for name, value in options.items() if name not in (*others, "side", "variance")}
    variance = options["variance"]
    group, reference = variance if isinstance(variance, (tuple, list)) else (variance, None)
    return PlannedComparison(variance=group, reference_variance=reference, alternative=options["side"], **given)


@partial(checked, moved=MOVED)
def detectable_disparity(
    n: Positive,
    *,
    reference: Known = "population",
    reference_n: Positive | None = None,
    rate: Fraction | None = None,
    mean: Positive | None = None,
    variance: Variance = None,
    tolerance: Tolerance = None,
    scale: ScaleName = "difference",
    cluster: tuple[float, float] | None = None,
    alpha: Alpha = 0.05,
    power: Power = 0.8,
    side: Alternative = "two-sided",
    tests: Whole = 1,
) -> float:
    """What is the smallest disparity that a group of ``n`` rows would show with the given power?

    Parameters
    ----------
    n : float
        Rows in the group.
    reference : {"known", "group", "population"}, default "population"
        What the group is compared with: a number, a named group (or the rest), or the population.
    reference_n : float, optional
        Rows in the reference group, or outside the group if the reference is the population.
    rate : float, optional
        The rate of the reference, for a 0/1 metric.
    mean : float, optional
        The mean of the reference, for the ratio of any other metric.
    variance : float or (float, float), optional
        The variance of any other metric; if it differs, in the group and in the reference.
    tolerance : float, optional
        The largest disparity that does not matter, as in `flag`. The answer would be shown to lie beyond it.
    scale : {"difference", "ratio", "odds_ratio", "standardized"}, default "difference"
        The unit of the disparity and the tolerance, as in `flag`. Standardized differences need no variance.
    cluster : (float, float), optional
        The number of rows in a cluster and their intraclass correlation, such as (20, 0.05). Each cluster lies within
        one group.
    alpha : float, default 0.05
        The error rate.
    power : float, default 0.8
        The probability of finding the disparity.
    side : {"two-sided", "greater", "less"}, default "two-sided"
        The side that is tested. "two-sided" and "greater" give a positive difference, "less" a negative one; for
        ratios, "two-sided" gives the one below 1.
    tests : int, default 1
        The number of groups tested at once: the level is alpha / tests.

    Returns
    -------
    float
        The disparity; infinite (for ratios below 1, 0) if even the largest possible one has less power.

    Notes
    -----
    Corollary 2 of the paper for a known reference; for rates, T at the expected rates is the noncentrality of the test.
    When it misleads: this is large-sample theory, too optimistic for a few dozen rows, and too pessimistic for clusters
    that contain rows of several groups.

    Examples
    --------
    >>> round(detectable_disparity(500, reference="group", reference_n=2000, rate=0.3), 4)
    0.0656
    >>> round(detectable_disparity(500, reference_n=2000, rate=0.3, scale="ratio", tolerance=0.8), 2)
    0.66
    """
    return _design(locals(), "n", "reference_n").detectable(n, reference_n)


@partial(checked, moved=MOVED)
def rows_needed(
    disparity: Finite,
    *,
    reference: Known = "population",
    ratio: Positive | None = None,
    rate: Fraction | None = None,
    mean: Positive | None = None,
    variance: Variance = None,
    tolerance: Tolerance = None,
    scale: ScaleName = "difference",
    cluster: tuple[float, float] | None = None,
    alpha: Alpha = 0.05,
    power: Power = 0.8,
    side: Alternative = "two-sided",
    tests: Whole = 1,
) -> int:
    """How many rows must a group have for the verdict that a disparity of this size deserves, with the given power?

    Parameters
    ----------
    disparity : float
        The true disparity, in the unit of ``scale``. Without a tolerance, or beyond it, the verdict is *violation*;
        inside it, *within tolerance*. No difference is 0, or a ratio of 1.
    ratio : float, optional
        Rows of the reference group (or of the population outside the group) for each row of the group; default 1.
    reference, rate, mean, variance, tolerance, scale, cluster, alpha, power, side, tests
        As in `detectable_disparity`.

    Returns
    -------
    int
        Rows in the group.

    Examples
    --------
    A difference of 5 points, and a tolerance of 5 points for a group that does not differ:

    >>> rows_needed(0.05, reference="group", ratio=4, rate=0.3)
    854
    >>> rows_needed(0.0, tolerance=0.05, reference="group", ratio=4, rate=0.3)
    1101
    >>> rows_needed(0.0, tolerance=0.05, reference="group", ratio=4, rate=0.3, cluster=(20, 0.05))
    2226
    """
    return _design(locals(), "disparity", "ratio").rows(disparity, ratio)


@partial(checked, moved=MOVED)
def power_of(
    disparity: Finite,
    standard_error: Positive | None = None,
    *,
    n: Positive | None = None,
    reference: Known = "population",
    reference_n: Positive | None = None,
    rate: Fraction | None = None,
    mean: Positive | None = None,
    variance: Variance = None,
    tolerance: Tolerance = None,
    scale: ScaleName = "difference",
    cluster: tuple[float, float] | None = None,
    alpha: Alpha = 0.05,
    side: Alternative = "two-sided",
    tests: Whole = 1,
) -> float:
    """How often would the verdict that a disparity of this size deserves be reached?

    Parameters
    ----------
    disparity : float
        The true disparity, as in `rows_needed`.
    standard_error : float, optional
        The standard error of the estimated difference. Give either this or ``n``.
    n : float, optional
        Rows in the group, from which the error follows as in `detectable_disparity`.
    reference, reference_n, rate, mean, variance, cluster
        As in `detectable_disparity`; they need ``n``.
    tolerance, scale, alpha, side, tests
        As in `detectable_disparity`.

    Returns
    -------
    float
        A probability.

    Examples
    --------
    >>> round(power_of(0.05, 0.02), 3)
    0.705
    >>> round(power_of(0.0, n=1000, reference="group", reference_n=1000, rate=0.3, tolerance=0.05), 3)
    0.369
    """
    options = locals() | {"power": NEARLY}
    if (standard_error is None) == (n is None):
        raise UsageError("standard_error, n: give one of them, the error of the estimate or the rows of the group.")
    if n is not None:
        design = _design(options, "disparity", "standard_error", "n", "reference_n")
        return design.reached(disparity, n, reference_n)
    assert standard_error is not None
    of_rows = (reference_n, rate, mean, variance, cluster)
    if any(given is not None for given in of_rows) or scale not in ("difference", "standardized"):
        raise UsageError("standard_error: options that describe the rows, and other scales, need n; leave them out.")
    return power(disparity, standard_error, Goal(side, alpha / tests, tolerance or 0.0))
