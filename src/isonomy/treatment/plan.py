"""What was asked, checked once against the schema: roles, effect measure, estimators, variance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import mul
from typing import Annotated, Literal, Required, TypedDict, Unpack

import numpy as np

from isonomy.errors import MissingRole, UsageError
from isonomy.frames import Grouping, Groups, Request, Source
from isonomy.frames.expressions import Expression, either, number
from isonomy.options import Number
from isonomy.treatment.effects.collapse import COLLAPSES, CollapseName, Estimator, Formula, Measure, Rest
from isonomy.treatment.effects.heldout import Inner
from isonomy.treatment.effects.moments import Column, column, products
from isonomy.treatment.effects.shrinkage import STRATEGIES, AnyStrategy, Custom, Form, strategies_of

Variance = Literal["influence", "bootstrap", "bootstrap_rows"]
Bootstrap = Literal["bootstrap", "bootstrap_rows"]
Test = Literal["automatic", "welch"]
Adjust = Literal["holm", "bonferroni", "bh", "by", "none"]
RestCorrection = Literal["rows", "single"]
Resamples = Annotated[int, Number(least=2, most=100_000, whole=True)]
ObservedEffects = Mapping[str, tuple[float, float]]

INDEPENDENT = "independent"  # a split at random, instead of one by a column
WITH_FEATURES = ("regression", "aipw")


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Plan:
    """What was asked of `treatment_bias`, or of a corrector."""

    formula: Formula
    measure_named: bool  # by the caller; where it is not, predictions that are clearly differences are refused
    grouping: Grouping
    effect: str
    treatment: str | None
    outcome: str | None
    baseline: str | None
    propensity: str | None
    given: tuple[str, ...]
    designed: bool  # rows have weights, clusters, propensities or strata
    features: tuple[str, ...]
    observed_effects: ObservedEffects | None
    split: str | None
    variance: Variance
    test: Test
    resamples: int
    adjust: Adjust
    tolerance: float | None
    alpha: float
    power: float

    @property
    def random(self) -> bool:
        """Whether anything is drawn."""
        return self.variance != "influence" or self.split == INDEPENDENT or self.formula.estimator == "aipw"

    @property
    def of_counts(self) -> bool:
        """Whether the law of the counts of a 0/1 outcome can be used: the error is a function of arm means alone.

        It is used whatever ``variance`` says: of few counts, resamples know no more than their variance does.
        """
        formula = self.formula
        plain = self.split is None and self.observed_effects is None and not self.designed
        default = (formula.estimator, formula.rest) == ("arm_means", "standardised")
        collapse = formula.measure == "difference" or formula.collapse == "control_outcome"
        return self.test == "automatic" and plain and default and collapse

    @property
    def requests(self) -> tuple[Request, ...]:
        """The one grouped pass. Random splits and AIPW make columns of their own first, and designs need rows."""
        rows = self.split == INDEPENDENT or self.formula.estimator == "aipw" or self.designed
        return () if rows else (self.request(),)

    @property
    def roles(self) -> dict[str, str]:
        """The columns that must hold numbers, by role."""
        named = {"effect": self.effect, "outcome": self.outcome, "baseline": self.baseline}
        named["propensity"] = self.propensity
        features = {f"features[{i}]": name for i, name in enumerate(self.features)}
        return {role: name for role, name in named.items() if name is not None} | features

    def request(self, *, sums: bool = True) -> Request:
        """What is asked of the rows. ``sums``: with the sums of all products, where cells are wanted and not rows."""
        split = None if self.split == INDEPENDENT else self.split
        binary = {"treatment": self.treatment, "split": split}
        wanted = products(self.formula.columns) if sums else {}
        return Request(
            grouping=self.grouping,
            binary={role: name for role, name in binary.items() if name is not None},
            numeric=self.roles,
            keys={} if self.outcome is None else {"kind": _kind(number(self.outcome))},
            values={name: self._expression(one) for name, one in wanted.items()},
        )

    def _expression(self, wanted: Column) -> Expression:
        values = {term: number(self.roles[role]) for term, role in self.terms.items()}
        return reduce(mul, (1.0 / values["f"] if term == "1/f" else values[term] for term in wanted.terms))

    @property
    def terms(self) -> dict[str, str]:
        """The role behind each factor of a column."""
        named = {"y": "outcome", "f": "effect", "h": "baseline"}
        covariates = {name: f"features[{i}]" for i, name in enumerate(self.formula.covariates)}
        return {term: role for term, role in (named | covariates).items() if role in self.roles}


class Experiment(TypedDict, total=False):
    """The options of `plan` that say how errors are estimated from an experiment; a corrector has them too."""

    effect: Required[str]
    groups: Required[Groups]
    treatment: str
    outcome: str
    baseline: str | None
    measure: Measure | None
    collapse: CollapseName | None
    estimator: Estimator
    features: Sequence[str] | str | None
    propensity: str | None
    observed_effects: ObservedEffects | None
    rest: Rest
    depth: int
    resamples: int
    alpha: float


def _kind(outcome: Expression) -> Expression:
    """Outcomes that are exactly 0, exactly 1, and anything else."""
    return either(outcome == 0, 0, either(outcome == 1, 1, 2))


def plan(
    source: Source,
    *,
    effect: str,
    groups: Groups,
    treatment: str | None = None,
    outcome: str | None = None,
    baseline: str | None = None,
    measure: Measure | None = None,
    collapse: CollapseName | None = None,
    estimator: Estimator = "arm_means",
    features: Sequence[str] | str | None = None,
    propensity: str | None = None,
    given: Sequence[str] | str | None = None,
    observed_effects: ObservedEffects | None = None,
    rest: Rest = "standardised",
    split: str | None = None,
    variance: Variance = "influence",
    test: Test = "automatic",
    adjust: Adjust = "holm",
    tolerance: float | None = None,
    alpha: float = 0.05,
    power: float = 0.8,
    depth: int = 1,
    resamples: int = 1_000,
) -> Plan:
    """Check the options of `treatment_bias` against each other and against the schema."""
    measure_named, measure = measure is not None, measure or "relative"
    names = (features,) if isinstance(features, str) else tuple(features or ())
    strata = (given,) if isinstance(given, str) else tuple(given or ())
    if not all(isinstance(name, str) for name in strata):
        raise UsageError(f"given: {given!r}; give column names.")
    experiment = treatment is not None and outcome is not None
    if not experiment and observed_effects is None:
        raise MissingRole(
            "treatment, outcome: name both columns of the experiment, or bring each group's effect with its "
            "standard error as observed_effects."
        )
    formula = Formula(
        measure=measure,
        collapse=_collapse(collapse, measure, baseline, experiment),
        estimator=estimator,
        covariates=tuple(f"x:{i}" for i in range(len(names))),
        rest=rest,
        outcomes=experiment,
    )
    if observed_effects is not None:
        _check_observed(observed_effects, formula, variance)
    if (estimator in WITH_FEATURES) != bool(names):
        raise MissingRole(
            f'features: estimator={estimator!r} {"takes no" if names else "needs"} features; "regression" and "aipw" '
            'adjust for the numeric columns named there, "arm_means" does not.'
        )
    _check_split(split, variance, experiment)
    by_column = None if split == INDEPENDENT else split
    source.require(effect=effect, treatment=treatment, outcome=outcome, baseline=baseline, split=by_column)
    source.require(**{f"features[{i}]": name for i, name in enumerate(names)})
    source.require(propensity=propensity, **{f"given[{i}]": name for i, name in enumerate(strata)})
    designed = source.designed or propensity is not None or bool(strata)
    if propensity is not None and strata:
        raise UsageError("propensity, given: give one of them; known propensities say what the strata were for.")
    unfit = (split, variance, rest, observed_effects) != (None, "influence", "standardised", None)
    if designed and (unfit or estimator != "arm_means"):
        raise UsageError(
            "weight, cluster, propensity, given: available with the defaults of split, variance, rest and estimator, "
            "and without observed_effects."
        )
    return Plan(
        formula=formula,
        measure_named=measure_named,
        grouping=source.grouping(groups, depth),
        effect=effect,
        treatment=treatment if experiment else None,
        outcome=outcome if experiment else None,
        propensity=propensity,
        given=strata,
        designed=designed,
        baseline=baseline if any("h" in column(name).factors for name in formula.columns) else None,
        features=names,
        observed_effects=observed_effects,
        split=split,
        variance=variance,
        test=test,
        resamples=resamples,
        adjust=adjust,
        tolerance=tolerance,
        alpha=alpha,
        power=power,
    )


def idle_roles(options: Mapping[str, object]) -> set[str]:
    """The column roles that `treatment_bias` would not look at with these options."""
    idle = set() if options.get("estimator") in WITH_FEATURES else {"features"}
    return idle if options.get("collapse") in ("weighted", "normalised") else idle | {"baseline"}


def _collapse(collapse: CollapseName | None, measure: Measure, baseline: str | None, experiment: bool) -> CollapseName:
    """The collapse to use: the named one if it fits, else the default of the measure."""
    if measure == "difference" and collapse not in (None, "average"):
        raise UsageError(
            f"collapse: {collapse!r} weighs by the baseline, which a relative effect needs and a difference does "
            'not; with measure="difference" leave it out or give "average".'
        )
    relative = measure == "relative"
    name: CollapseName = (collapse or ("control_outcome" if experiment else "normalised")) if relative else "average"
    if relative and not experiment and baseline is None:
        raise MissingRole(
            "baseline: without outcomes, relative effects are weighed by the predicted outcome without treatment; "
            'name its column, or use measure="difference".'
        )
    if relative and not experiment and name not in ("normalised", "average"):
        raise MissingRole(
            f'collapse: {name!r} uses outcomes; without treatment and outcome use "normalised" or "average".'
        )
    needed = relative and COLLAPSES[name].baseline
    if experiment and needed and baseline is None:
        raise MissingRole(
            f"baseline: collapse={name!r} weighs by the predicted outcome without treatment; name its column."
        )
    if experiment and baseline is not None and not needed:
        raise UsageError(
            f"baseline: measure={measure!r} with collapse={name!r} does not look at it; leave it out, or choose "
            'collapse="weighted" or "normalised" of a relative effect.'
        )
    return name


def _check_observed(effects: ObservedEffects, formula: Formula, variance: Variance) -> None:
    """Effects that the caller brought are numbers with a standard error, and nothing is estimated in their place."""
    if (formula.rest, variance, formula.estimator) != ("standardised", "influence", "arm_means"):
        raise UsageError(
            'observed_effects: effects brought with standard errors need rest="standardised", variance="influence" and '
            'estimator="arm_means".'
        )
    if not isinstance(effects, Mapping):
        raise UsageError(f"observed_effects: {effects!r}; give a mapping of group to (effect, standard error).")
    for label, pair in effects.items():
        try:
            effect, se = (float(value) for value in pair)
        except (TypeError, ValueError):
            raise UsageError(f"observed_effects: {label} has {pair!r}; give (effect, standard error).") from None
        if not (np.isfinite(effect) and np.isfinite(se) and se >= 0):
            raise UsageError(f"observed_effects: {label} has {pair!r}; give a finite effect and a standard error >= 0.")


def _check_split(split: str | None, variance: Variance, experiment: bool) -> None:
    if split is not None and not experiment:
        raise UsageError("split: effects brought by the caller are independent already; leave split out.")
    if split is not None and variance == "bootstrap_rows":
        raise UsageError('variance: "bootstrap_rows" takes no split; use "bootstrap".')


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class CorrectionsPlan:
    """What was asked of `evaluate_corrections`."""

    errors: Plan
    strategies: tuple[AnyStrategy, ...]
    form: Form
    rest_correction: RestCorrection
    inner: Inner | None
    variance: Bootstrap
    splits: int
    buckets: int
    progress: bool

    @property
    def requests(self) -> tuple[Request, ...]:
        """None: rows are spread over random buckets first."""
        return ()


def plan_corrections(
    source: Source,
    *,
    strategies: Sequence[str | Custom] | None,
    form: Form,
    rest_correction: RestCorrection,
    split: Inner | None,
    variance: Bootstrap,
    splits: int,
    buckets: int,
    progress: bool,
    **errors: Unpack[Experiment],
) -> CorrectionsPlan:
    """Check the options of `evaluate_corrections` against each other and against the schema."""
    parts = 2 if split is None else 4
    if buckets % parts:
        raise UsageError(f"buckets: {buckets!r} is not allowed with split={split!r}; give a multiple of {parts}.")
    if errors.get("collapse") == "positives_inverse":
        raise UsageError(
            'collapse: "positives_inverse" divides by the effect, so every correction needs another pass over the '
            'rows; use another collapse, for instance "control_outcome".'
        )
    single = rest_correction == "single"
    chosen = strategies_of(strategies, STRATEGIES) if single and strategies is None else strategies_of(strategies)
    if single and not all(one in STRATEGIES for one in chosen):
        raise UsageError(
            'rest_correction: "single" needs strategies that correct by a factor of the group\'s own error: '
            f"{', '.join(STRATEGIES)}."
        )
    if form == "multiplicative" and (single or errors.get("measure") == "difference"):
        raise UsageError(
            'form: "multiplicative" is for relative effects, which must stay above 0, with rest_correction="rows"; '
            'leave it out, or give "additive".'
        )
    asked = plan(source, **errors)
    by_row = variance == "bootstrap_rows"
    if (asked.designed or by_row) and (single or split is not None):
        raise UsageError(
            'weight, cluster, propensity, variance="bootstrap_rows": not available with split, nor with '
            'rest_correction="single"; leave those out.'
        )
    if by_row and asked.formula.estimator != "arm_means":
        raise UsageError('variance: "bootstrap_rows" is available with estimator="arm_means"; use "bootstrap".')
    if (asked.designed or by_row) and source.count is not None and source.cluster is None:
        raise UsageError(
            "count: lines that stand for several rows cannot be split with weights, propensities or "
            'variance="bootstrap_rows"; give one line per row, or a cluster.'
        )
    return CorrectionsPlan(
        errors=asked,
        strategies=tuple(dict.fromkeys(("none", *chosen))),
        form=form,
        rest_correction=rest_correction,
        inner=split,
        variance=variance,
        splits=splits,
        buckets=buckets,
        progress=progress,
    )


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class PricePlan:
    """What was asked of `price_of_fairness`."""

    errors: Plan
    corrected: tuple[str, ...]
    propensity: str | None
    baseline: str | None
    budget: float

    @property
    def requests(self) -> tuple[Request, ...]:
        """None: rows are ranked, so they are read."""
        return ()

    @property
    def request(self) -> Request:
        """The columns that are read."""
        errors = self.errors
        columns = {f"corrected[{i}]": name for i, name in enumerate(self.corrected)}
        further = {"propensity": self.propensity, "baseline": self.baseline}
        columns |= {role: name for role, name in further.items() if name is not None}
        return replace(errors.request(sums=False), numeric={**errors.roles, **columns})


def plan_price(
    source: Source,
    *,
    effect: str,
    corrected: Sequence[str] | str,
    treatment: str,
    outcome: str,
    groups: Groups,
    measure: Measure | None,
    baseline: str | None,
    propensity: str | None,
    budget: float,
    alpha: float,
    depth: int,
) -> PricePlan:
    """Check the options of `price_of_fairness` against the schema."""
    names = (corrected,) if isinstance(corrected, str) else tuple(corrected)
    source.require(**{f"corrected[{i}]": name for i, name in enumerate(names)})
    source.require(propensity=propensity, baseline=baseline)
    if not names:
        raise UsageError("corrected: none given; name one column of corrected effects, or several.")
    errors = plan(
        source,
        effect=effect,
        treatment=treatment,
        outcome=outcome,
        groups=groups,
        propensity=propensity,
        measure=measure,
        alpha=alpha,
        depth=depth,
    )
    return PricePlan(errors=errors, corrected=names, propensity=propensity, baseline=baseline, budget=budget)
