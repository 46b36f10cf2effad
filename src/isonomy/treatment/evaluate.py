"""`evaluate_corrections`: repeated split, swap and bootstrap (section 7), all from the cells of one pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from isonomy.errors import UsageError, choose, fraction
from isonomy.frames import open_source
from isonomy.inference.multiplicity import adjust
from isonomy.numerics.arrays import FloatArray
from isonomy.numerics.randomness import resolve
from isonomy.numerics.status import Status
from isonomy.results import Verdict, provenance
from isonomy.treatment import wording
from isonomy.treatment.density import Densities
from isonomy.treatment.heldout import Evaluation, Runs
from isonomy.treatment.mitigate import STRATEGIES
from isonomy.treatment.plan import make_plan
from isonomy.treatment.result import CorrectionsResult
from isonomy.treatment.tally import tally_buckets


def evaluate_corrections(
    data: object,
    *,
    effect: str,
    treatment: str,
    outcome: str,
    groups: object,
    baseline: str | None = None,
    measure: str = "relative",
    collapse: str | None = None,
    strategies: Sequence[str] | None = None,
    rest: str = "standardised",
    rest_correction: str = "rows",
    splits: int = 10,
    resamples: int = 50,
    buckets: int = 20,
    alpha: float = 0.05,
    progress: bool = False,
    rng: int | np.random.Generator | None = None,
    count: str | None = None,
    missing: str = "raise",
    missing_group: str = "raise",
) -> CorrectionsResult:
    """How much of each group's error would remain after correcting the predicted effects?

    Repeats ``splits`` times: split the rows at random into two halves; on one, detect each group's error B with
    ``resamples`` bootstrap replicates and find the factor gamma of each strategy; on the other, subtract gamma B from
    the predictions of the group and estimate, with as many replicates, what remains of the error and of the bias;
    then swap the halves. Nothing that found a correction takes part in judging it, so the tests (50) and (51) of what
    remains are ordinary tests.

    The table is read once, whatever the number of splits: rows are spread over ``buckets`` random parts, and a half is
    half of the parts. The bootstrap is over cells (see `isonomy.treatment.resample`).

    Parameters
    ----------
    data, effect, treatment, outcome, groups, baseline, measure, collapse, rest
        As in `treatment_bias`. The collapse "positives_inverse" is not linear in the effect and cannot be used.
    strategies
        Names out of "none", "mean", "significant" (42), "mse_plus" (46), "mse_minus" (47), "positive_part"; all by
        default. "none" is always evaluated.
    rest_correction
        "rows": the rest collapses each row's own corrected prediction. "single": one factor for the whole rest, as in
        the paper's Algorithm 1.
    splits, resamples, buckets
        Random splits, replicates on each half, and random parts of the rows (an even number).
    alpha
        Error rate of the tests, and of the strategy "significant".
    progress
        Show a progress bar.

    Examples
    --------
    >>> import isonomy as iso
    >>> table = iso.simulate.uplift(40_000, groups=8, baseline=0.3, error={"b": 0.5, "f": -0.4}).columns
    >>> result = iso.evaluate_corrections(
    ...     table, effect="effect", treatment="treatment", outcome="outcome", groups="group", rng=1
    ... )
    >>> spread = dict(zip(result.strategies, result.spread("bias"), strict=True))
    >>> bool(spread["positive_part"] < spread["none"])
    True
    """
    names = tuple(dict.fromkeys(("none", *(strategies or STRATEGIES))))
    for name in names:
        choose("strategies", name, STRATEGIES)
    choose("rest_correction", rest_correction, ("rows", "single"))
    fraction("alpha", alpha)
    for argument, value, least in (("splits", splits, 1), ("buckets", buckets, 2)):
        if isinstance(value, bool) or not isinstance(value, int) or value < least or (least == 2 and value % 2):
            raise UsageError(f"{argument}: {value!r}; give a whole number from {least} up{', even' * (least == 2)}.")
    if collapse == "positives_inverse":
        raise UsageError(
            'collapse: "positives_inverse" divides by the effect, so every correction needs another pass over the '
            'rows; use another collapse, for instance "control_outcome".'
        )
    plan = make_plan(
        effect=effect,
        groups=groups,
        treatment=treatment,
        outcome=outcome,
        baseline=baseline,
        measure=measure,
        collapse=collapse,
        rest=rest,
        resamples=resamples,
    )
    generator, seed = resolve(rng)
    source = open_source(data, count=count, missing=missing, missing_group=missing_group)
    source.require(effect=effect, treatment=treatment, outcome=outcome, baseline=baseline)
    sample = tally_buckets(source, plan, buckets, generator)
    runs = [
        Evaluation(cells, plan, names, rest_correction, alpha).run(_halves(splits, buckets, child), child, progress)
        for cells, child in zip(sample.partitions, generator.spawn(len(sample.partitions)), strict=True)
    ]
    options = plan.options | {
        "strategies": names,
        "rest_correction": rest_correction,
        "splits": splits,
        "buckets": buckets,
        "alpha": alpha,
        "count": source.count,
        "missing": source.missing,
        "missing_group": source.missing_group,
    }
    record = provenance(
        "evaluate_corrections", options, source=source, seed=seed, rows=sample.rows, dropped=sample.dropped
    )
    return _result(runs, names, alpha, record)


def _halves(splits: int, buckets: int, rng: np.random.Generator) -> list[tuple[Any, Any]]:
    """Random halves of the buckets, each followed by its swap."""
    made = []
    for _ in range(splits):
        order = rng.permutation(buckets)
        one, two = np.sort(order[: buckets // 2]), np.sort(order[buckets // 2 :])
        made += [(one, two), (two, one)]
    return made


def _result(runs: list[Runs], strategies: tuple[str, ...], alpha: float, record: Any) -> CorrectionsResult:
    def joined(name: str) -> FloatArray:
        return np.concatenate([getattr(r, name) for r in runs], axis=-1)

    densities = {
        name: Densities.of(
            [np.concatenate([np.ravel(d) for r in runs for d in getattr(r, name)[s]]) for s in range(len(strategies))]
        )
        for name in ("error_draws", "bias_draws")
    }
    bias_pvalue = joined("bias_pvalue")
    # Splits reuse rows, so their p-values are dependent: twice the median is a p-value whatever the dependence.
    answered = np.isfinite(bias_pvalue[0]).all(0)
    combined = adjust(np.minimum(2 * np.median(bias_pvalue[0][:, answered], axis=0), 1.0), "holm")
    groups = tuple(g for r in runs for g in r.groups)
    status = tuple(s for r in runs for s in r.status)
    labels = [g.label for g in groups]
    kinds = [k for k in dict.fromkeys(status) if k is not Status.OK]
    warnings = [
        wording.unanswered([label for label, s in zip(labels, status, strict=True) if s is k], k.value) for k in kinds
    ]
    return CorrectionsResult(
        null=wording.EVALUATION_NULL,
        verdict=Verdict.VIOLATION if np.any(combined <= alpha) else Verdict.INCONCLUSIVE,
        warnings=tuple(warnings),
        provenance=record,
        groups=groups,
        n=joined("n"),
        strategies=strategies,
        factor=joined("factor"),
        error=joined("error"),
        bias=joined("bias"),
        error_pvalue=joined("error_pvalue"),
        bias_pvalue=bias_pvalue,
        detection_statistic=joined("statistic"),
        density_at=densities["bias_draws"].at,
        error_density=densities["error_draws"].density,
        bias_density=densities["bias_draws"].density,
        error_scale=densities["error_draws"].scale,
        bias_scale=densities["bias_draws"].scale,
        status=status,
        alpha=alpha,
    )
