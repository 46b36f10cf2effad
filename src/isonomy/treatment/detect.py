"""`treatment_bias`: errors of predicted effects by group, and their bias against all other groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from isonomy.errors import UsageError
from isonomy.frames import Group, Source, open_source
from isonomy.numerics.randomness import resolve
from isonomy.results import provenance
from isonomy.treatment import wording
from isonomy.treatment.conclude import conclude
from isonomy.treatment.estimate import Estimates, Known, estimate, estimate_split, from_resamples, joined, values
from isonomy.treatment.moments import Moments
from isonomy.treatment.nuisance import with_predictions
from isonomy.treatment.plan import Plan, check_level, make_plan
from isonomy.treatment.resample import resample_cells, resample_rows
from isonomy.treatment.result import TreatmentBiasResult
from isonomy.treatment.tally import Cells, Sample, base_request, row_names, tally, tally_buckets


def treatment_bias(
    data: object,
    *,
    effect: str,
    groups: object,
    treatment: str | None = None,
    outcome: str | None = None,
    baseline: str | None = None,
    measure: str = "relative",
    collapse: str | None = None,
    estimator: str = "arm_means",
    features: Sequence[str] | str | None = None,
    observed_effects: Mapping[str, tuple[float, float]] | None = None,
    rest: str = "standardised",
    split: str | None = None,
    variance: str = "influence",
    adjust: str = "holm",
    tolerance: float | None = None,
    alpha: float = 0.05,
    power: float = 0.8,
    depth: int = 1,
    resamples: int = 1_000,
    rng: int | np.random.Generator | None = None,
    count: str | None = None,
    missing: str = "raise",
    missing_group: str = "raise",
) -> TreatmentBiasResult:
    """Does an uplift model get some groups' treatment effects wrong more than others'?

    For each group g the predicted effects are collapsed to the group's predicted effect P_g and compared with the
    observed effect tau_g of a randomised experiment: error B_g = P_g - tau_g (equation 12). The bias is
    A_g = B_g - B_-g, where -g are all other groups (equation 11).

    Null hypotheses: B_g = 0 (equation 24; ``error_pvalue``) and A_g = 0 (equation 26; ``bias_pvalue``), or, with a
    ``tolerance``, |A_g| <= tolerance (equation 13). Verdicts are about the bias, after adjustment over groups.

    Parameters
    ----------
    data
        Any table isonomy reads; one row a person or session. One grouped pass over it, on its own engine.
    effect
        Column of predicted effects: ratios for ``measure="relative"`` (1.1 means ten percent more), else differences.
    groups, depth
        Columns, `cut` or `where`; intersections up to ``depth``.
    treatment, outcome
        0/1 assignment, and the outcome: 0/1 or any number.
    baseline
        Column with the predicted outcome without treatment; needed by the collapses "weighted" and "normalised".
    measure
        "relative" (ratio of means, equation 15) or "difference" (equation 55).
    collapse
        How predicted relative effects become a group's: "control_outcome" (default: outcomes of the controls as
        weights), "average" (56), "weighted" (16), "normalised", "positives" (20), "positives_inverse". Differences are
        averaged.
    estimator, features
        "arm_means"; "regression" (least squares on ``features`` within each arm of each group); "aipw" (cross-fitted
        gradient boosting on ``features``; brings those columns into memory). For precision: all three aim at the same
        effect.
    observed_effects
        {group: (effect, standard error)}, for effects estimated elsewhere (section 5.1), by label ("country=DE") or by
        value ("DE"). Then ``treatment`` and ``outcome`` may be left out.
    rest
        "standardised" (each other group with its share of rows) or "pooled" (the paper's pooled rows).
    split
        None; "independent" (predicted and observed effects from random halves, Assumption 1); or a 0/1 column: 0 for
        rows of predictions, 1 for rows of estimation.
    variance, resamples
        "influence"; "bootstrap" (over cells, any number of rows); "bootstrap_rows" (rows drawn in memory).
    adjust
        "holm", "bonferroni", "bh", "by" or "none", over all groups of the call.
    tolerance
        Largest bias that does not matter, in units of the effect.
    alpha, power
        Error rate of tests and of pointwise intervals; power at which ``detectable_bias`` is stated.

    Notes
    -----
    With the default, B_g = b exactly when mean_control[Y (f - b)] = mean_treated[Y]: a Welch test, and the interval
    inverts it (Fieller). Limits of the bias combine those of the group and of the rest (MOVER).

    It misleads when rows repeat people (intervals too short), when the model saw the same rows in training, or when
    an arm has fewer than about ten rows with an outcome (a warning says so).

    Examples
    --------
    >>> import isonomy as iso
    >>> table = iso.simulate.uplift(20_000, groups=["a", "b", "c"], baseline=0.4, error={"b": 0.4}).columns
    >>> result = iso.treatment_bias(
    ...     table, effect="effect", treatment="treatment", outcome="outcome", groups="group"
    ... )
    >>> [verdict.value for verdict in result.verdicts]
    ['violation', 'violation', 'violation']
    >>> bool(result.bias_low[1] < 0.4 < result.bias_high[1])
    True
    """
    check_level(alpha, tolerance, power)
    plan = make_plan(
        effect=effect,
        groups=groups,
        treatment=treatment,
        outcome=outcome,
        baseline=baseline,
        measure=measure,
        collapse=collapse,
        estimator=estimator,
        features=features,
        rest=rest,
        variance=variance,
        resamples=resamples,
        observed_effects=observed_effects,
        depth=depth,
    )
    generator, seed = resolve(rng)
    random = variance != "influence" or split == "independent" or estimator == "aipw"
    source = open_source(data, count=count, missing=missing, missing_group=missing_group)
    source.require(effect=effect, treatment=treatment, outcome=outcome, baseline=baseline)
    audited = _audit(source, plan, split, generator)
    parts = tuple(zip(audited.sample.partitions, audited.moments, audited.estimates, strict=True))
    made = conclude(parts, plan, adjust=adjust, tolerance=tolerance, alpha=alpha, power=power)
    made["warnings"] = (*audited.warnings, *made["warnings"])
    options = plan.options | {
        "split": split,
        "adjust": adjust,
        "tolerance": tolerance,
        "alpha": alpha,
        "power": power,
        "count": source.count,
        "missing": source.missing,
        "missing_group": source.missing_group,
    }
    return TreatmentBiasResult(
        **made,
        null=wording.null(tolerance, measure),
        provenance=provenance(
            "treatment_bias",
            options,
            source=source,
            seed=seed if random else None,
            rows=audited.sample.rows,
            dropped=audited.sample.dropped,
        ),
        measure=measure,
        alpha=alpha,
        tolerance=tolerance,
        power=power,
        experiment=observed_effects is None,
    )


@dataclass(frozen=True, slots=True, eq=False)
class Audited:
    """Estimates of every partition, with the moments they came from."""

    sample: Sample
    moments: tuple[Moments, ...]
    estimates: tuple[Estimates, ...]
    warnings: tuple[str, ...]


def _audit(source: Source, plan: Plan, split: str | None, rng: np.random.Generator) -> Audited:
    if plan.estimator == "aipw":
        source = with_predictions(source, plan, rng)
    if split is not None and plan.treatment is None:
        raise UsageError("split: effects brought by the caller are independent already; leave split out.")
    if split == "independent":
        sample = tally_buckets(source, plan, 2, rng)
    else:
        source.require(split=split)
        sample = tally(source, plan, split=split)
    moments = tuple(cells.moments() for cells in sample.partitions)
    known = [_known(plan, cells) for cells in sample.partitions]
    if split is None:
        estimates = [estimate(m, plan, k) for m, k in zip(moments, known, strict=True)]
    else:
        estimates = [estimate_split(*_halves(cells), plan) for cells in sample.partitions]
    if plan.variance == "influence":
        return Audited(sample, moments, tuple(estimates), ())
    return _bootstrapped(source, plan, split, rng, Audited(sample, moments, tuple(estimates), ()), known)


def _halves(cells: Cells) -> tuple[Moments, Moments]:
    return cells.moments(np.array([0])), cells.moments(np.array([1]))


def _bootstrapped(
    source: Source,
    plan: Plan,
    split: str | None,
    rng: np.random.Generator,
    audited: Audited,
    known: list[Known | None],
) -> Audited:
    """The same estimates with variances from resamples."""
    if plan.variance == "bootstrap_rows":
        if split is not None:
            raise UsageError('variance: "bootstrap_rows" takes no split; use "bootstrap".')
        rows = source.rows(base_request(source, plan))
        drawn = resample_rows(rows, plan.columns, row_names(plan), plan.resamples, rng)
    elif split is None:
        drawn = tuple(resample_cells(cells, plan.resamples, rng) for cells in audited.sample.partitions)
    else:
        drawn = ()
    estimates, lost = [], 0.0
    for i, old in enumerate(audited.estimates):
        if drawn:
            effects = values(drawn[i], plan, old.in_rest, known[i], fitted=audited.moments[i])
        else:
            parts = [audited.sample.partitions[i].part(np.array([half])) for half in (0, 1)]
            effects = joined(
                *(values(resample_cells(p, plan.resamples, rng), plan, old.in_rest, fitted=p.moments()) for p in parts)
            )
        if old.usable.any():
            lost = max(lost, float((~np.isfinite(effects.error[:, old.usable])).mean(0).max()))
        estimates.append(from_resamples(old, effects))
    warnings = (wording.lost_replicates(lost),) if lost > 0 else ()
    return Audited(audited.sample, audited.moments, tuple(estimates), warnings)


def _known(plan: Plan, cells: Cells) -> Known | None:
    """The caller's effects in the order of the groups; everybody else (the last, unnamed group) has none."""
    if plan.observed_effects is None:
        return None
    size = len(cells.n)
    effect, se = np.full(size, np.nan), np.full(size, np.nan)
    for i, group in enumerate(cells.groups):
        found = next((plan.observed_effects[k] for k in _names(group) if k in plan.observed_effects), None)
        if found is not None:
            effect[i], se[i] = _effect(group, found)
    return Known(effect, se)


def _names(group: Group) -> tuple[Any, ...]:
    single = [value for _, value in group.items] if len(group.items) == 1 else []
    return (group.label, *single, *map(str, single))


def _effect(group: Group, found: object) -> tuple[float, float]:
    try:
        effect, se = (float(v) for v in found)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        raise UsageError(f"observed_effects: {group.label} has {found!r}; give (effect, standard error).") from None
    if not (np.isfinite(effect) and np.isfinite(se) and se >= 0):
        raise UsageError(
            f"observed_effects: {group.label} has {found!r}; give a finite effect and a standard error >= 0."
        )
    return effect, se
