"""Planning: what rows can show, and how many a verdict needs."""

from __future__ import annotations

from isonomy.errors import UsageError
from isonomy.groups.likelihood.planning import NEARLY, Design, Known, PlanScale, Question, power
from isonomy.inference.decide import Alternative
from isonomy.options import Alpha, Finite, Fraction, Positive, Power, Tolerance, Whole, checked


@checked
def detectable_disparity(
    n: Positive,
    *,
    reference: Known = "population",
    reference_n: Positive | None = None,
    rate: Fraction | None = None,
    mean: Positive | None = None,
    variance: Positive | None = None,
    reference_variance: Positive | None = None,
    tolerance: Tolerance = None,
    scale: PlanScale = "difference",
    cluster: tuple[float, float] | None = None,
    alpha: Alpha = 0.05,
    power: Power = 0.8,
    alternative: Alternative = "two-sided",
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
        Rows in the reference group, or outside the group when the reference is the population.
    rate : float, optional
        The reference's rate, for a 0/1 metric.
    mean : float, optional
        The reference's mean, for the ratio of any other metric.
    variance, reference_variance : float, optional
        For any other metric its variance in the group and, if it differs, in the reference.
    tolerance : float, optional
        The largest disparity that does not matter, as in `flag`: the answer is shown to lie beyond it.
    scale : {"difference", "ratio", "odds_ratio", "standardised"}, default "difference"
        The unit of the disparity and the tolerance, as in `flag`. Standardised differences need no variance.
    cluster : (float, float), optional
        How many rows belong together in a cluster, and their intraclass correlation: (20, 0.05). Each cluster lies
        within one group.
    alpha : float, default 0.05
        The error rate.
    power : float, default 0.8
        How often the disparity should be found.
    alternative : {"two-sided", "greater", "less"}, default "two-sided"
        The side tested. ``"two-sided"`` and ``"greater"`` give a positive difference, ``"less"`` a negative one; of
        ratios ``"two-sided"`` gives the one below 1.
    tests : int, default 1
        Groups tested at once: the level is alpha / tests.

    Returns
    -------
    float
        The disparity; infinite (of ratios below 1, 0) if even the largest possible one would not be found that often.

    Notes
    -----
    Corollary 2 of the paper for a known reference; for rates T at the rates expected is the test's noncentrality. When
    it misleads: this is large-sample theory, too optimistic for a few dozen rows, and for clusters that hold rows of
    several groups too pessimistic.

    Examples
    --------
    >>> round(detectable_disparity(500, reference="group", reference_n=2000, rate=0.3), 4)
    0.0656
    >>> round(detectable_disparity(500, reference_n=2000, rate=0.3, scale="ratio", tolerance=0.8), 2)
    0.66
    """
    return Design.of(locals(), "n", "reference_n").detectable(n, reference_n)


@checked
def rows_needed(
    disparity: Finite,
    *,
    reference: Known = "population",
    ratio: Positive | None = None,
    rate: Fraction | None = None,
    mean: Positive | None = None,
    variance: Positive | None = None,
    reference_variance: Positive | None = None,
    tolerance: Tolerance = None,
    scale: PlanScale = "difference",
    cluster: tuple[float, float] | None = None,
    alpha: Alpha = 0.05,
    power: Power = 0.8,
    alternative: Alternative = "two-sided",
    tests: Whole = 1,
) -> int:
    """How many rows must a group have for the verdict that a disparity of this size deserves, with the given power?

    Parameters
    ----------
    disparity : float
        The true disparity, in the unit of ``scale``. Without a tolerance, or beyond it, *violation* is to be shown;
        inside it *within tolerance*: no difference, which is 0 (or a ratio of 1), for a model without any.
    ratio : float, optional
        How many rows the reference group (or the part of the population outside the group) has for each row of the
        group, 1 by default; a known reference has none.
    reference, rate, mean, variance, reference_variance, tolerance, scale, cluster, alpha, power, alternative, tests
        As in `detectable_disparity`.

    Returns
    -------
    int
        Rows of the group.

    Examples
    --------
    A difference of 5 points, and the tolerance of 5 points for a group that does not differ:

    >>> rows_needed(0.05, reference="group", ratio=4, rate=0.3)
    854
    >>> rows_needed(0.0, tolerance=0.05, reference="group", ratio=4, rate=0.3)
    1101
    >>> rows_needed(0.0, tolerance=0.05, reference="group", ratio=4, rate=0.3, cluster=(20, 0.05))
    2226
    """
    return Design.of(locals(), "disparity", "ratio").rows(disparity, ratio)


@checked
def power_of(
    disparity: Finite,
    standard_error: Positive | None = None,
    *,
    n: Positive | None = None,
    reference: Known = "population",
    reference_n: Positive | None = None,
    rate: Fraction | None = None,
    mean: Positive | None = None,
    variance: Positive | None = None,
    reference_variance: Positive | None = None,
    tolerance: Tolerance = None,
    scale: PlanScale = "difference",
    cluster: tuple[float, float] | None = None,
    alpha: Alpha = 0.05,
    alternative: Alternative = "two-sided",
    tests: Whole = 1,
) -> float:
    """How often would the verdict that a disparity of this size deserves be reached?

    Parameters
    ----------
    disparity : float
        The true disparity: without a tolerance, or beyond it, *violation* is to be shown, inside it *within tolerance*.
    standard_error : float, optional
        That of the estimated difference; or leave it out and give ``n``.
    n : float, optional
        Rows in the group, from which the error follows as in `detectable_disparity`.
    reference, reference_n, rate, mean, variance, reference_variance, cluster
        As in `detectable_disparity`; they belong to ``n``.
    tolerance, scale, alpha, alternative, tests
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
        raise UsageError("standard_error, n: give one of them: the error of the estimate, or the rows of the group.")
    if n is not None:
        own = ("disparity", "standard_error", "n", "reference_n")
        return Design.of(options, *own).reached(disparity, n, reference_n)
    assert standard_error is not None
    rows = (reference_n, rate, mean, variance, reference_variance, cluster)
    if any(given is not None for given in rows) or scale not in ("difference", "standardised"):
        raise UsageError("standard_error: what describes the rows, and other scales, belong to n; leave them out.")
    return power(disparity, standard_error, Question(alternative, alpha / tests, tolerance or 0.0))
