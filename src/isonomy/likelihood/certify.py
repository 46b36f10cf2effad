"""Certification: one joint test of all groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from isonomy.errors import NotEnoughData, UsageError, fraction, refuse_percent
from isonomy.frames import Group, open_source
from isonomy.frames.metrics import Metric
from isonomy.inference.multiplicity import adjust
from isonomy.likelihood import wording
from isonomy.likelihood.comparison import Comparison, Tools, compare
from isonomy.likelihood.correction import bartlett_constant
from isonomy.likelihood.decision import mark_intervals, status_warnings
from isonomy.likelihood.hypotheses import hypothesis, intervals
from isonomy.likelihood.joint import Joint
from isonomy.likelihood.reference import Estimate, Reference, To
from isonomy.likelihood.region import HANDFUL, Disparities, Region
from isonomy.likelihood.resample import null_mean
from isonomy.likelihood.result import CertifyResult
from isonomy.likelihood.tally import Evidence, plan, tally
from isonomy.likelihood.units import Units
from isonomy.numerics.arrays import FloatArray
from isonomy.numerics.randomness import resolve
from isonomy.numerics.status import Status
from isonomy.numerics.tails import chi2_sf
from isonomy.results import Verdict, phrases, provenance


def certify(
    data: object,
    *,
    metric: str | Metric,
    groups: object,
    outcome: str | None = None,
    prediction: str | None = None,
    score: str | None = None,
    reference: str | float | Mapping[str, object] | Group | Estimate = "population",
    uncertainty: str = "joint",
    null: Disparities = 0.0,
    tolerance: float | None = None,
    alpha: float = 0.05,
    depth: int = 1,
    min_size: int = 10,
    method: str = "el",
    correction: str | None = None,
    resamples: int = 1_000,
    rng: int | np.random.Generator | None = None,
    count: str | None = None,
    missing: str = "raise",
    missing_group: str = "raise",
) -> CertifyResult:
    """Taken together, do the groups differ from the reference by more than chance?

    Null hypothesis: every tested group's disparity equals ``null`` (0 by default) at once. T is the joint empirical
    (``"el"``) or Euclidean (``"eel"``) likelihood ratio, chi-square with as many degrees of freedom as there are
    independent estimating functions, less the references that are profiled: k groups that partition the rows have k
    - 1.

    A large p-value is not proof of equal treatment. With ``tolerance`` the verdict is *violation* if abs(disparity)
    <= tolerance is rejected for some group (Holm over groups), *within tolerance* if every simultaneous interval
    lies inside it, else *inconclusive*. Without, it is *violation* if the joint null is rejected.

    Against the population or the rest, groups that meet the null fix the mean of the rows in no tested group too, so
    these are part of the test. Fewer than 10 of them (than ``min_size``, if that is less) are left out, whichever the
    method: T then compares the tested groups with each other, on one degree of freedom less, and a warning says so.

    Parameters are those of `isonomy.flag`, except

    null
        One disparity for all groups, one per tested group in order, or a mapping from group labels.
    correction
        None or ``"bartlett"``: T divided by its mean over its degrees of freedom, in closed form for known
        references of disjoint groups, from ``resamples`` resamples (at least 100) of rows that meet the null
        otherwise. It holds for
        the p-value and `contains`; the groups' own intervals are not corrected.

    Returns
    -------
    CertifyResult
        ``statistic``, ``df``, ``pvalue``, ``verdict``, and ``contains(disparities)``: membership in the joint
        confidence region.

    When it misleads: at large n a violation without a tolerance may be too small to matter; many groups of few rows
    make T too large. Algorithm 1 and G.1 of the paper, with the degrees of freedom corrected to the rank.

    Examples
    --------
    >>> import isonomy as iso
    >>> table = {"approved": [1] * 60 + [0] * 40 + [1] * 70 + [0] * 30, "sex": ["f"] * 100 + ["m"] * 100}
    >>> result = iso.certify(table, metric="selection_rate", groups="sex", prediction="approved")
    >>> round(result.statistic, 3), result.df, round(result.pvalue, 3)
    (2.203, 1, 0.138)
    >>> result.contains([-0.05, 0.05]), result.contains([-0.2, 0.2])
    (True, False)
    """
    options = {name: value for name, value in locals().items() if name not in ("data", "rng")}
    fraction("alpha", alpha)
    bounds = None if tolerance is None else hypothesis(null, "two-sided", tolerance)
    if correction not in (None, "bartlett"):
        raise UsageError(f"correction: {correction!r} is not allowed; certify takes None or 'bartlett'.")
    generator, seed = resolve(rng)
    tools = Tools(method, correction, min_size, resamples, generator)
    source = open_source(data, count=count, missing=missing, missing_group=missing_group)
    asked = plan(
        source,
        metric=metric,
        groups=groups,
        outcome=outcome,
        prediction=prediction,
        score=score,
        reference=reference,
        uncertainty=uncertainty,
        depth=depth,
    )
    refuse_percent(asked.measure.binary, tolerance)
    evidence = tally(source, asked)
    comparison = compare(evidence, asked.reference, replace(tools, correction=None))
    tested = np.flatnonzero(comparison.tested)
    if not tested.size:
        raise NotEnoughData(
            f"groups: none can be tested; each has fewer than min_size={min_size} rows or no variation."
        )
    region = joint_region(evidence, asked.reference, comparison, method, min_size)
    target = region.vector(null, "null")
    null_disparity = np.full(comparison.n.shape, np.nan)
    null_disparity[tested] = target
    found = region.test(target)
    measured = _bartlett(region, found, target, tools) if correction else 1.0
    factor = 1.0 if np.isnan(measured) else measured
    pvalue = float(chi2_sf(found.statistic / factor, found.df)) if found.df else 1.0
    low, high = intervals(comparison, "simultaneous", "two-sided", alpha, tested.size)
    outside = np.full(low.shape, np.nan)
    if bounds is not None:
        outside = adjust(np.where(comparison.tested, bounds.test(comparison)[1], np.nan), "holm")
    status = comparison.status.copy()
    mark_intervals(status, comparison.tested, low, high)
    lines = status_warnings(evidence, asked.reference, comparison, status, min_size)
    if np.isnan(measured):
        lines.append(wording.uncorrected_warning([]))
    if found.left_out:
        lines.append(wording.left_out_warning([region.labels[i] for i in found.left_out], min_size))
    if region.free:
        lines.append(wording.spare_warning(_holding(evidence, region.spare), min(min_size, HANDFUL), tested.size))
    if found.status is not Status.OK:
        lines.append(wording.joint_status_warning(found.status.value))
    return CertifyResult(
        null=wording.joint_null(asked.measure.name, asked.reference.label, tested.size, _described(null)),
        verdict=_verdict(comparison, pvalue, outside, low, high, tolerance, alpha),
        warnings=tuple(lines),
        provenance=provenance(
            "certify",
            options,
            source=source,
            seed=seed if correction else None,
            rows=evidence.rows,
            dropped=evidence.dropped,
        ),
        metric=asked.measure.name,
        reference=asked.reference.label,
        joint=asked.reference.joint,
        overlapping=len(evidence.partitions) > 1,
        alpha=alpha,
        tolerance=tolerance,
        ci_low=low,
        ci_high=high,
        status=tuple(Status(s) for s in status),
        likelihood=method,
        statistic=found.statistic / factor,
        df=found.df,
        pvalue=pvalue,
        tolerance_pvalue=outside,
        joint_status=found.status,
        null_disparity=null_disparity,
        region=replace(region, factor=factor),
        **comparison.columns(),
    )


def joint_region(
    evidence: Evidence, reference: Reference, comparison: Comparison, method: str, min_size: int
) -> Region:
    """Lines by which tested groups, and the reference, they belong to, in units of their own."""
    tested = comparison.tested
    position = np.cumsum(tested) - 1
    start, codes = 0, []
    for partition in evidence.partitions:
        size = len(partition.groups)
        # Lines outside every tested group of this partition share one code.
        local = np.append(np.where(tested[start : start + size], position[start : start + size], -1), -1)
        codes.append(local[partition.codes])
        start += size
    if evidence.inside is not None:
        codes = [np.where(evidence.inside, code, -1) for code in codes]
    marked = np.zeros(evidence.value.size, dtype=np.intp)
    if evidence.in_reference is not None:
        marked = evidence.in_reference.astype(np.intp)
    combined = marked
    for code in codes:
        # Renumbered at each step: the product of many dimensions does not fit an integer.
        combined = np.unique(combined * (int(code.max(initial=-1)) + 2) + code + 1, return_inverse=True)[1]
    found, first, pattern = np.unique(combined, return_index=True, return_inverse=True)
    slots = np.column_stack([code[first] for code in codes])
    referent = marked[first].astype(float)
    if reference.to in (To.POPULATION, To.REST):
        spare = float(evidence.mass[slots.max(axis=1, initial=-1)[pattern] < 0].sum())
        referent = np.full(found.size, 0.0 if 0 < spare < min(min_size, HANDFUL) else 1.0)
    units = Units.of(evidence)
    standard = units.standard(evidence)
    estimate = reference.estimate.value if reference.estimate is not None and reference.joint else None
    return Region(
        labels=tuple(str(g) for g, t in zip(comparison.groups, tested, strict=True) if t),
        method=method,
        binary=evidence.binary,
        pattern=pattern,
        value=standard.value,
        weight=evidence.weight,
        influence=standard.influence if reference.joint else None,
        slots=slots,
        referent=referent,
        theta=None if reference.joint else units.turned(comparison.reference[tested]),
        estimate=None if estimate is None else float(units.turned(np.array(estimate))),
        rest=reference.to is To.REST,
        least=min_size,
        unit=units.scale,
    )


def _holding(evidence: Evidence, lines: npt.NDArray[np.bool_]) -> list[str]:
    """The groups that hold any of these lines."""
    held = [
        partition.groups[code]
        for partition in evidence.partitions
        for code in np.unique(partition.codes[lines & (evidence.mass > 0)])
        if code >= 0
    ]
    return [str(group) for group in held]


def _bartlett(region: Region, found: Joint, target: FloatArray, tools: Tools) -> float:
    """The mean of T over its degrees of freedom under the null; NaN if it cannot be had."""
    if not found.df:
        return 1.0
    if region.theta is not None and region.disjoint:
        groups, every = region.group_means(region.single), np.arange(len(region.labels))
        return 1.0 + float(np.mean(bartlett_constant(groups, every) / groups.n[every]))
    return null_mean(region, found, target, tools.resamples, tools.rng)


def _described(null: Disparities) -> str:
    return phrases.number(float(null)) if isinstance(null, (int, float)) else "as given"


def _verdict(
    comparison: Comparison,
    pvalue: float,
    outside: FloatArray,
    low: FloatArray,
    high: FloatArray,
    tolerance: float | None,
    alpha: float,
) -> Verdict:
    if tolerance is None:
        return Verdict.VIOLATION if pvalue <= alpha else Verdict.INCONCLUSIVE
    if bool((outside <= alpha).any()):
        return Verdict.VIOLATION
    concerned = comparison.status != Status.REFERENCE
    within = (low >= -tolerance) & (high <= tolerance)
    return Verdict.WITHIN_TOLERANCE if bool(within[concerned].all()) else Verdict.INCONCLUSIVE
