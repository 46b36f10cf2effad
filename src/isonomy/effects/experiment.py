"""The rows of a randomized experiment with predicted effects: what is asked of them, and their sums by group.

Every question about effects, and the corrector, reads an experiment in the same way: one grouped pass over the table,
on its own engine, or rows in memory where they are needed. Rows are needed for AIPW (outcome models are fitted to
them), for the bootstrap over rows, for weights, clusters, propensities and strata, and for random splits of lines that
stand for several rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from operator import mul
from typing import Annotated, Any, TypeVar, cast

import narwhals as nw
import numpy as np

from isonomy.effects.estimators.collapse import (
    COLLAPSES,
    Aipw,
    AnyMeasure,
    CollapseName,
    Estimator,
    EstimatorName,
    Formula,
    Measure,
    Regression,
    Relative,
    Rest,
    cross_fitted,
)
from isonomy.effects.estimators.designs import Clustered, RandomizedStrata, laws_of, shares_within
from isonomy.effects.estimators.errors import Errors, KnownEffects, as_differences, constant_arm, errors_of
from isonomy.effects.estimators.moments import (
    CONTROL,
    TREATED,
    Bootstrap,
    ExperimentRows,
    Product,
    Sums,
    column,
    products,
)
from isonomy.errors import DataError, MissingRole, UsageError
from isonomy.frames import Design, Group, Grouping, Groups, Partition, Request, Sample
from isonomy.frames.expressions import Expression, either, number
from isonomy.inference.designs import FEWEST, DesignEffect
from isonomy.numerics.arrays import AnyArray, BoolArray, FloatArray, IntArray
from isonomy.numerics.status import Status
from isonomy.options import Form, Names
from isonomy.results import Plan, phrases

ObservedEffects = Annotated[Mapping[str, tuple[float, float]], Form("observed_effects")]
INDEPENDENT = "independent"  # a split at random, instead of one by a column
PUBLISHED = "published"

# Keywords of earlier versions.
MOVED = {
    "collapse": 'measure=iso.relative(collapse="...")',
    "features": "estimator=iso.regression(features=[...]) or estimator=iso.aipw(features=[...])",
}


# ---- plan


@dataclass(frozen=True, eq=False, kw_only=True)
class Experiment(Plan):
    """The keywords about an experiment, and what follows from them and the schema."""

    effect: str
    groups: Groups
    treatment: str | None = None
    outcome: str | None = None
    baseline: str | None = None
    measure: AnyMeasure | None = None
    estimator: Estimator = "arm_means"
    propensity: str | None = None
    given: Names | None = None
    observed_effects: ObservedEffects | None = None
    rest: Rest = "standardized"
    split: str | None = None
    method: object = "automatic"
    alpha: float = 0.05
    depth: int = 1

    def __post_init__(self) -> None:
        if not all(isinstance(name, str) for name in self.strata):
            raise UsageError(f"given: {self.given!r}; give column names.")
        if not self.observes and self.observed_effects is None:
            raise MissingRole(
                "treatment, outcome: name both columns of the experiment, or pass each group's effect with its "
                "standard error as observed_effects."
            )
        _ = self.formula
        self._check_observed_effects()
        if self.split is not None and not self.observes:
            raise UsageError("split: effects passed as observed_effects are independent already; leave split out.")
        by_column = None if self.split == INDEPENDENT else self.split
        self.source.require(
            effect=self.effect,
            treatment=self.treatment,
            outcome=self.outcome,
            baseline=self.baseline,
            split=by_column,
            **{f"features[{i}]": name for i, name in enumerate(self.features)},
            propensity=self.propensity,
            **{f"given[{i}]": name for i, name in enumerate(self.strata)},
        )
        self._check_combinations()
        _ = self.grouping

    def _check_observed_effects(self) -> None:
        """Effects that the caller passed are numbers with a standard error, and none is estimated in their place."""
        if self.observed_effects is None:
            return
        if (self.rest, self.estimator) != ("standardized", "arm_means") or self.bootstrap or self.published:
            raise UsageError(
                'observed_effects: effects with known standard errors need rest="standardized", '
                'estimator="arm_means" and the default method.'
            )
        if not isinstance(self.observed_effects, Mapping):
            raise UsageError(
                f"observed_effects: {self.observed_effects!r}; give a mapping of group to (effect, standard error)."
            )
        for label, pair in self.observed_effects.items():
            try:
                effect, se = (float(value) for value in pair)
            except (TypeError, ValueError):
                raise UsageError(f"observed_effects: {label} has {pair!r}; give (effect, standard error).") from None
            if not (np.isfinite(effect) and np.isfinite(se) and se >= 0):
                raise UsageError(
                    f"observed_effects: {label} has {pair!r}; give a finite effect and a standard error >= 0."
                )

    def _check_combinations(self) -> None:
        """Combinations of options that are not available."""
        chosen = (self.split, self.rest, self.estimator, self.observed_effects, self.bootstrap, self.published)
        refusals = (
            (
                self.split is not None and self.by_rows,
                'method: a bootstrap over rows takes no split; use over="cells".',
            ),
            (
                self.propensity is not None and bool(self.strata),
                "propensity, given: give one of them; known propensities make strata redundant.",
            ),
            (
                self.designed and chosen != (None, "standardized", "arm_means", None, None, False),
                "weight, cluster, propensity, given: available with the defaults of split, method, rest and "
                "estimator, and without observed_effects.",
            ),
        )
        for refused, message in refusals:
            if refused:
                raise UsageError(message)

    @cached_property
    def grouping(self) -> Grouping:
        """The groups."""
        return self.source.grouping(self.groups, self.depth)

    @property
    def strata(self) -> tuple[str, ...]:
        """Columns within which treatment was randomized."""
        return (self.given,) if isinstance(self.given, str) else tuple(self.given or ())

    @property
    def features(self) -> tuple[str, ...]:
        """Columns that the observed effects are adjusted for."""
        named = self.estimator.features if isinstance(self.estimator, (Regression, Aipw)) else ()
        return (named,) if isinstance(named, str) else tuple(named)

    @property
    def observes(self) -> bool:
        """Whether the rows are those of an experiment; otherwise observed effects come from elsewhere."""
        return self.treatment is not None and self.outcome is not None

    @property
    def designed(self) -> bool:
        """Whether rows have weights, clusters, propensities or strata."""
        return self.source.designed or self.propensity is not None or bool(self.strata)

    @property
    def published(self) -> bool:
        """Whether the paper's procedure is asked for."""
        return self.method == PUBLISHED

    @property
    def bootstrap(self) -> Bootstrap | None:
        """The bootstrap that standard errors come from; None if they come from influence functions."""
        return self.method if isinstance(self.method, Bootstrap) else None

    @property
    def by_rows(self) -> bool:
        """Whether rows are resampled in memory."""
        return getattr(self.method, "over", None) == "rows"

    @property
    def divided(self) -> str | None:
        """How rows are divided into those of predictions and those of estimation (Assumption 1)."""
        return INDEPENDENT if self.published and self.split is None else self.split

    @property
    def of_counts(self) -> bool:
        """Whether the law of the counts of a 0/1 outcome can be used: the error is a function of arm means alone.

        A bootstrap does not replace it: resamples of few counts know no more than the counts do.
        """
        formula = self.formula
        plain = self.split is None and self.observed_effects is None and not self.designed
        default = (formula.estimator, formula.rest) == ("arm_means", "standardized")
        collapse = formula.measure == "difference" or formula.collapse == "control_outcome"
        return self.method not in ("welch", PUBLISHED) and plain and default and collapse

    @cached_property
    def formula(self) -> Formula:
        """How the error of a group is computed from the means of its arms."""
        measure: Measure = "difference" if self.measure == "difference" else "relative"
        adjusted = None if self.estimator == "arm_means" else self.estimator.name
        if adjusted and not self.features:
            raise MissingRole("features: none given; name the numeric columns that the estimator adjusts for.")
        return Formula(
            measure=measure,
            collapse=self._collapse(measure),
            estimator=cast("EstimatorName", adjusted or "arm_means"),
            covariates=tuple(f"x:{i}" for i in range(len(self.features))),
            rest="pooled" if self.published else self.rest,
            outcomes=self.observes,
        )

    @property
    def weights(self) -> str | None:
        """The predicted outcome without treatment, which a collapse may weight by."""
        return self.baseline

    def _collapse(self, measure: Measure) -> CollapseName:
        """The collapse to use: the named one if it fits, otherwise the default of the measure."""
        if measure == "difference":
            if self.observes and self.weights is not None:
                raise UsageError('baseline: measure="difference" does not use it; leave it out.')
            return "average"
        named = self.measure.collapse if isinstance(self.measure, Relative) else None
        if not self.observes:
            if self.weights is None:
                raise MissingRole(
                    "baseline: without outcomes, relative effects are weighted by the predicted outcome without "
                    'treatment; name its column, or use measure="difference".'
                )
            if named not in (None, "normalized", "average"):
                raise MissingRole(
                    f'collapse: {named!r} uses outcomes; without treatment and outcome use "normalized" or "average".'
                )
            return named or "normalized"
        published: CollapseName = "positives" if self.weights is None else "weighted"
        name = named or (published if self.published else "control_outcome")
        if COLLAPSES[name].baseline and self.weights is None:
            raise MissingRole(
                f"baseline: collapse={name!r} weights by the predicted outcome without treatment; name its column."
            )
        if not COLLAPSES[name].baseline and self.weights is not None:
            raise UsageError(
                f"baseline: a relative effect with collapse={name!r} does not use it; leave it out, or use "
                'measure=iso.relative("weighted") or iso.relative("normalized").'
            )
        return name

    @property
    def requests(self) -> tuple[Request, ...]:
        """The one grouped pass. Random splits and AIPW make columns of their own first, and designs need rows."""
        rows = self.divided == INDEPENDENT or self.formula.estimator == "aipw" or self.designed
        return () if rows else (self.request(),)

    @property
    def roles(self) -> dict[str, str]:
        """The columns that must hold numbers, by role."""
        uses_baseline = any("h" in column(name).factors for name in self.formula.columns)
        named = {
            "effect": self.effect,
            "outcome": self.outcome if self.observes else None,
            "baseline": self.baseline if uses_baseline else None,
            "propensity": self.propensity,
        }
        features = {f"features[{i}]": name for i, name in enumerate(self.features)}
        return {role: name for role, name in named.items() if name is not None} | features

    @property
    def terms(self) -> dict[str, str]:
        """The role behind each factor of a column."""
        named = {"y": "outcome", "f": "effect", "h": "baseline"}
        covariates = {name: f"features[{i}]" for i, name in enumerate(self.formula.covariates)}
        return {term: role for term, role in (named | covariates).items() if role in self.roles}

    def request(self, *, sums: bool = True) -> Request:
        """What is asked of the rows. ``sums``: with the sums of all products, where cells are wanted and not rows."""
        split = None if self.divided == INDEPENDENT else self.divided
        binary = {"treatment": self.treatment if self.observes else None, "split": split}
        values = {term: number(self.roles[role]) for term, role in self.terms.items()}

        def expression(product: Product) -> Expression:
            return reduce(mul, (1.0 / values["f"] if term == "1/f" else values[term] for term in product.terms))

        keys = {}
        if "outcome" in self.roles:  # outcomes that are exactly 0, exactly 1, and anything else
            outcome = number(self.roles["outcome"])
            keys["kind"] = either(outcome == 0, 0, either(outcome == 1, 1, 2))
        return Request(
            grouping=self.grouping,
            binary={role: name for role, name in binary.items() if name is not None},
            numeric=self.roles,
            keys=keys,
            values={name: expression(one) for name, one in products(self.formula.columns).items()} if sums else {},
        )


def idle_roles(options: Mapping[str, object]) -> set[str]:
    """The column roles that a question about effects would not use with these options."""
    measure = options.get("measure")
    weighted = isinstance(measure, Relative) and measure.collapse in ("weighted", "normalized")
    return set() if weighted else {"baseline"}


# ---- read


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class TrialPart:
    """One partition of the rows: its named groups, and sums whose last group may be everybody else.

    ``members`` has a number for the people of each group, equal for the same people; ``rows`` counts rows by group and
    arm. Where rows have weights, clusters, propensities or strata, sums are of masses, and ``lines``, ``design`` and
    ``strata`` are there. ``clustered`` is there where buckets are of whole clusters.
    """

    groups: tuple[Group, ...]
    sums: Sums
    members: IntArray
    rows: FloatArray
    known: KnownEffects | None = None
    lines: ExperimentRows | None = None
    design: Design | None = None
    strata: RandomizedStrata | None = None
    clustered: Clustered | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """What the rows of an experiment say, partition by partition; ``lines``: the rows, where they are in memory."""

    sample: Sample
    parts: tuple[TrialPart, ...]
    lines: ExperimentRows | None = None

    @property
    def groups(self) -> tuple[Group, ...]:
        """The named groups of all partitions."""
        return tuple(group for part in self.parts for group in part.groups)

    @property
    def binary(self) -> bool:
        """Whether every outcome is 0 or 1."""
        return all(part.sums.binary for part in self.parts)

    def joined(self, arrays: Sequence[AnyArray]) -> AnyArray:
        """One array per partition, groups last, as one array of the named groups."""
        pairs = zip(arrays, self.parts, strict=True)
        return np.concatenate([array[..., : len(part.groups)] for array, part in pairs], axis=-1)

    def hypotheses(self, in_rest: Sequence[BoolArray]) -> IntArray:
        """A number for the bias of each group, equal for groups compared with the same people or with each other.

        ``in_rest``: for each partition, the groups that take part in the rest of others.
        """
        pairs = []
        for part, used in zip(self.parts, in_rest, strict=True):
            others = np.where(used, part.members, 0)
            pair = np.sort(np.stack([part.members, others.sum() - others], -1), axis=-1)
            pairs.append(pair[: len(part.groups)])
        return np.unique(np.concatenate(pairs), axis=0, return_inverse=True)[1].ravel()


def read(plan: Experiment, rng: np.random.Generator) -> Trial:
    """Sums of every partition; in two buckets where predicted and observed effects come from different rows."""
    if plan.designed:
        return read_designed(plan)
    if plan.formula.estimator == "aipw":
        return read_predicted(plan, rng)
    if plan.divided == INDEPENDENT:
        return read_buckets(plan, 2, rng)
    trial = _from_cells(plan.source.cells(plan.request()), plan, 1 if plan.divided is None else 2)
    if not plan.by_rows:
        return trial
    return replace(trial, lines=lines_of(plan.source.rows(plan.request(sums=False)), plan))


def read_buckets(plan: Experiment, buckets: int, rng: np.random.Generator) -> Trial:
    """Sums with the rows spread at random over equal buckets."""
    coefficients = _coefficients(rng)
    if plan.source.count is not None:  # a line may stand for many rows: each of them has its own bucket
        sample = plan.source.rows(plan.request(sums=False))
        lines = lines_of(sample, plan)
        return trial_of(sample, lines.sums(plan.formula.columns, *_spread(sample, buckets, rng), buckets), plan, lines)
    row = plan.source.fresh("row")
    request = plan.request()
    bucket = _hashed(nw.col(row).cast(nw.Int64), coefficients, buckets)
    numbered = plan.source.numbered(row)
    return _from_cells(numbered.cells(replace(request, keys={**request.keys, "bucket": bucket})), plan, buckets)


def read_predicted(plan: Experiment, rng: np.random.Generator, buckets: int | None = None) -> Trial:
    """Sums with the outcomes that models fitted on other rows predict in either arm (AIPW)."""
    sample = plan.source.rows(plan.request(sums=False))
    lines = lines_of(sample, plan)
    features = np.stack([lines.factors[name] for name in plan.formula.covariates], -1)
    predictions = {
        name: cross_fitted(features, lines.factors["y"], lines.arm == arm, lines.weight, rng)
        for name, arm in (("p0", CONTROL), ("p1", TREATED))
    }
    lines = replace(lines, factors={**lines.factors, **predictions})
    line, weight, bucket = np.arange(sample.size), lines.weight, _codes(sample, "split")
    parts = buckets or (1 if plan.divided is None else 2)
    if plan.divided == INDEPENDENT or buckets is not None:
        coefficients = _coefficients(rng)
        if sample.weight is None:
            bucket = _hashed(line, coefficients, parts)
        else:
            line, weight, bucket = _spread(sample, parts, rng)
    return trial_of(sample, lines.sums(plan.formula.columns, line, weight, bucket, parts), plan, lines)


def read_designed(plan: Experiment, buckets: int = 0, rng: np.random.Generator | None = None) -> Trial:
    """Sums of masses, and the lines that a design's variance needs one by one.

    With ``buckets``, whole clusters are spread over them at random; without clusters every row is one.
    """
    request = plan.request(sums=False)
    named = {f"given[{i}]": name for i, name in enumerate(plan.strata)}
    if buckets and plan.source.cluster is not None:
        named["cluster"] = plan.source.cluster
    keys = {**request.keys, **{role: nw.col(name) for role, name in named.items()}}
    sample = plan.source.rows(replace(request, keys=keys, labels=named))
    trial = from_design(sample, lines_of(sample, plan), plan)
    if rng is None:
        return trial
    every = np.arange(sample.size)
    cluster = np.unique(sample.columns["cluster"], return_inverse=True)[1] if "cluster" in named else every
    bucket = _hashed(cluster, _coefficients(rng), buckets)
    parts = []
    for part in trial.parts:
        assert part.lines is not None
        (sums,) = part.lines.sums(plan.formula.columns, every, part.lines.weight, bucket, buckets)
        parts.append(replace(part, clustered=Clustered(sums, part.lines, cluster, bucket)))
    return replace(trial, parts=tuple(parts))


def from_design(sample: Sample, lines: ExperimentRows, plan: Experiment) -> Trial:
    """Sums of masses: weights, divided by the probability of the arm that each row is in."""
    count = np.ones(sample.size) if sample.count is None else sample.count
    code = np.zeros(sample.size, dtype=np.intp)
    for i in range(len(plan.strata)):
        values, codes = np.unique(sample.columns[f"given[{i}]"].astype(str), return_inverse=True)
        code = code * len(values) + codes
    every, one = np.arange(sample.size), np.zeros(sample.size, dtype=np.intp)
    base = Design(count, count, count, count, None) if sample.design is None else sample.design
    designed: list[dict[str, Any]] = []
    for codes, groups in lines.groups:
        chance = np.full(sample.size, 0.5)
        if plan.propensity is not None:
            chance = np.asarray(sample.columns["propensity"], dtype=float)
            refuse_certain(plan.propensity, chance)
        elif plan.strata:
            chance = shares_within(codes, code, lines.arm, lines.weight)
            alone = int(((chance <= 0) | (chance >= 1)).sum())
            if alone:
                raise DataError(
                    f"given: {alone:,} rows are in strata ({', '.join(plan.strata)}) of a group that have only one "
                    "arm; merge strata, or leave those rows out."
                )
        own_arm = np.where(lines.arm == TREATED, chance, 1 - chance)
        place = codes * 2 + lines.arm
        size, mass = (np.bincount(place, w, 2 * groups) for w in (count, lines.weight * (1 / own_arm)))
        # Masses of at least one per row: the law of a design knows what they are worth, a mean must not divide by less.
        most = float(np.max(size[mass > 0] / mass[mass > 0], initial=0.0)) or 1.0
        design = base.scaled(1 / own_arm * most)
        own = replace(lines, weight=design.mass, groups=((codes, groups),))
        designed.append(
            {
                "sums": own.sums(plan.formula.columns, every, design.mass, one, 1)[0],
                "rows": size.reshape(groups, 2).astype(float),
                "lines": own,
                "design": design,
                "strata": RandomizedStrata(code, own_arm),
            }
        )
    trial = trial_of(sample, [part["sums"] for part in designed], plan, lines)
    return replace(trial, parts=tuple(replace(p, **own) for p, own in zip(trial.parts, designed, strict=True)))


def lines_of(sample: Sample, plan: Experiment) -> ExperimentRows:
    """Rows in memory."""
    return ExperimentRows(
        factors={term: np.asarray(sample.columns[role], dtype=float) for term, role in plan.terms.items()},
        arm=_codes(sample, "treatment"),
        kind=_codes(sample, "kind"),
        weight=np.ones(sample.size) if sample.weight is None else sample.weight,
        groups=tuple(_group_codes(partition) for partition in sample.partitions),
    )


def refuse_certain(column_name: str | None, propensity: FloatArray) -> None:
    """Raise where a row was certain to be treated, or certain not to be: it has nobody to be compared with."""
    certain = int((~((propensity > 0) & (propensity < 1))).sum())
    if certain and column_name is None:
        raise DataError("treatment: all rows are in one arm; an experiment has both.")
    if certain:
        raise DataError(
            f"propensity: column {column_name!r} is not strictly between 0 and 1 in {certain:,} rows; leave such rows "
            "out: nobody like them was in the other arm."
        )


def _from_cells(cells: Sample, plan: Experiment, buckets: int) -> Trial:
    bucket = "split" if "split" in cells.columns else "bucket"
    half, arm, kind = (_codes(cells, name) for name in (bucket, "treatment", "kind"))
    sums = [
        Sums.added(plan.formula.columns, (groups, buckets), (group, half, arm, kind), cells.counts, cells.values)
        for group, groups in map(_group_codes, cells.partitions)
    ]
    return trial_of(cells, sums, plan)


def trial_of(sample: Sample, sums: Sequence[Sums], plan: Experiment, lines: ExperimentRows | None = None) -> Trial:
    """What was read, from the sums of every partition."""
    if not all(np.isfinite(one.products).all() and np.isfinite(one.sums).all() for one in sums):
        raise DataError(
            f"effect: column {plan.effect!r} contains 0, and collapse={plan.formula.collapse!r} divides by it; choose "
            "another collapse."
        )
    # A number for the people of each group: the square of the sum of random numbers, one per entry, modulo 2^64.
    # Squares of unions are not sums of squares: a rest of several groups differs from one group of the same people.
    there = np.ones(sample.size) if sample.count is None else sample.count
    numbers = np.where(there > 0, np.random.default_rng(0).integers(1, 2**62, size=there.size), 0)
    parts = []
    for one, partition in zip(sums, sample.partitions, strict=True):
        codes, groups = _group_codes(partition)
        total = np.zeros(groups, dtype=np.int64)
        np.add.at(total, codes, numbers)
        known = None
        if plan.observed_effects is not None:
            known = known_effects(plan.observed_effects, partition.groups, groups)
        part = TrialPart(groups=partition.groups, sums=one, members=total * total, rows=one.counts.n, known=known)
        parts.append(part)
    return Trial(sample, tuple(parts), lines)


def known_effects(effects: ObservedEffects, groups: tuple[Group, ...], size: int) -> KnownEffects:
    """The caller's effects in the order of the groups; everybody else (the last, unnamed group) has none."""
    by_name: Mapping[object, tuple[float, float]] = dict(effects.items())
    pairs = np.full((size, 2), np.nan)
    for i, group in enumerate(groups):
        single = [value for _, value in group.items] if len(group.items) == 1 else []
        names = (group.label, *single, *map(str, single))
        pairs[i] = next((by_name[name] for name in names if name in by_name), (np.nan, np.nan))
    return KnownEffects(pairs[:, 0], pairs[:, 1])


def _codes(sample: Sample, name: str) -> IntArray:
    columns = sample.columns
    return columns[name].astype(np.intp) if name in columns else np.zeros(sample.size, dtype=np.intp)


def _group_codes(partition: Partition) -> tuple[IntArray, int]:
    """The group of each entry, and how many there are. Rows in no group become one last group: part of every rest."""
    outside, named = partition.codes < 0, len(partition.groups)
    return np.where(outside, named, partition.codes), named + bool(outside.any())


_PRIME = 2**31 - 1
Numbers = TypeVar("Numbers", nw.Expr, IntArray)


def _coefficients(rng: np.random.Generator) -> list[int]:
    return [int(one) for one in rng.integers(1, _PRIME, size=6)]


def _hashed(row: Numbers, coefficients: Sequence[int], buckets: int) -> Numbers:
    """A random bucket from a row's number, by arithmetic that is equal on every engine.

    Two rounds of a random line and a square modulo a prime; every product fits 64 bits.
    """
    a, b, c, d, e, f = coefficients
    mixed = (row % _PRIME * a + b) % _PRIME
    mixed = (mixed * mixed + c) % _PRIME
    mixed = (mixed * d + e) % _PRIME
    mixed = (mixed * mixed + f) % _PRIME
    return mixed % buckets


def _spread(sample: Sample, buckets: int, rng: np.random.Generator) -> tuple[IntArray, FloatArray, IntArray]:
    """Lines that stand for several rows: each line's rows spread over the buckets, as line, rows and bucket."""
    assert sample.weight is not None
    spread = rng.multinomial(sample.weight.astype(np.int64), np.full(buckets, 1 / buckets)).astype(float)
    line, bucket = np.nonzero(spread)
    return line, spread[line, bucket], bucket


# ---- estimate


def check_measure(part: TrialPart, plan: Experiment) -> None:
    """Refuse predictions that are clearly differences if the caller did not say what they are."""
    if plan.measure is not None:
        return
    moments = part.sums.moments()
    errors = errors_of(moments, plan.formula, part.known)
    if part.known is None:  # an arm that is all 0 or all 1 shows no spread to judge by
        errors = errors.without(constant_arm(part.sums), Status.FEW_EVENTS)
    averages = as_differences(errors, moments.n)
    if averages is not None:
        predicted, difference, ratio = map(phrases.number, averages)
        raise UsageError(
            f"measure: none given, and predicted effects average {predicted}, while the observed difference of mean "
            f'outcomes is {difference} and their ratio {ratio}. Give measure="difference" if the predictions '
            'are differences, or measure="relative" if they are ratios.'
        )


def under_design(errors: Sequence[Errors], trial: Trial, plan: Experiment) -> tuple[list[Errors], DesignEffect | None]:
    """Errors under the law of the design, if there is one, and the design effects of each group's bias."""
    if not plan.designed:
        return list(errors), None
    under, effects = [], []
    for own, part in zip(errors, trial.parts, strict=True):
        assert part.lines is not None
        assert part.design is not None
        assert part.strata is not None
        moments = part.sums.moments()
        error, bias, totals = laws_of(part.lines, part.design, own, plan.formula, moments, part.strata)
        under.append(own.under(error, bias, totals.effective < FEWEST))
        with np.errstate(divide="ignore", invalid="ignore"):
            effect = bias.effect * part.rows.sum(-1) / moments.n.sum(-1)  # compared with as many rows of weight 1
        effects.append((effect, totals.own, totals.effective))
    return under, DesignEffect(*(trial.joined(arrays) for arrays in zip(*effects, strict=True)))
