"""The rows of a randomized experiment with predicted effects: the plan of a question, and sums by group.

An experiment is read in one grouped pass on the table's own engine, or as rows in memory: for AIPW, for the bootstrap
over rows, for weights, clusters, propensities and strata, and for random splits of lines that stand for several rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from operator import mul
from typing import ClassVar, TypeVar, cast

import narwhals as nw
import numpy as np
from scipy import special

from isonomy.effects.estimators import collapse
from isonomy.effects.estimators.collapse import AnyMeasure, ArmMeans, Estimator, Formula, Measure, Relative
from isonomy.effects.estimators.errors import Errors, all_groups, errors_of, under_design
from isonomy.effects.estimators.moments import TREATED, Bootstrap, Clustered, ExperimentRows, Sums, product, products
from isonomy.errors import DataError, MissingRole, UsageError, near
from isonomy.frames import Design, Group, Grouping, Groups, Partition, Request, Sample
from isonomy.frames.expressions import Expression, either, number
from isonomy.inference.designs import DesignEffect
from isonomy.numerics.arrays import AnyArray, BoolArray, FloatArray, IntArray
from isonomy.numerics.status import Status
from isonomy.options import Names
from isonomy.results import Plan, phrases

FEW_ROWS = 30  # in an arm: fewer are no clear evidence of what was predicted
INDEPENDENT = "independent"  # a split at random, instead of one by a column

# Keywords of earlier versions.
MOVED = {
    "baseline": 'measure=iso.relative("weighted", baseline="...")',
    "collapse": 'measure=iso.relative(collapse="...")',
    "features": "estimator=iso.regression(features=[...]) or estimator=iso.aipw(features=[...])",
    **{name: f"estimator=iso.arm_means({name}={{}})" for name in ("propensity", "observed_effects", "rest")},
}


# ---- plan


@dataclass(frozen=True, eq=False, kw_only=True)
class Experiment(Plan):
    divides: ClassVar[bool] = False  # whether predicted and observed effects can come from different rows
    effect: str
    groups: Groups
    treatment: str | None = None
    outcome: str | None = None
    measure: AnyMeasure | None = None
    estimator: Estimator = "arm_means"
    given: Names | None = None
    method: object = "automatic"
    alpha: float = 0.05
    depth: int = 1
    min_size: int = 1

    def __post_init__(self) -> None:
        for refused, message in self.refusals():
            if refused:
                raise UsageError(message)
        if not self.observes and self.known is None:
            raise MissingRole(
                "treatment, outcome: name both columns of the experiment, or pass each group's effect with its "
                "standard error as observed_effects."
            )
        _ = self.formula
        for label, pair in (self.known or {}).items():
            try:
                effect, se = (float(value) for value in pair)
            except (TypeError, ValueError):
                effect = se = np.nan
            if not (np.isfinite(effect) and np.isfinite(se) and se >= 0):
                raise UsageError(
                    f"observed_effects: {label} has {pair!r}; give a finite effect and its standard error, at least 0."
                )
        self.source.require(
            **{role: getattr(self, role) for role in ("effect", "treatment", "outcome", "propensity")},
            baseline=self.baseline_column,
            observed_effects=None if self.split == INDEPENDENT else self.split,
            **{f"features[{i}]": name for i, name in enumerate(self.features)},
            **{f"given[{i}]": name for i, name in enumerate(self.strata)},
        )
        _ = self.grouping

    def refusals(self) -> tuple[tuple[bool, str], ...]:
        observed, forms = self.means.observed_effects, (Mapping, str) if self.divides else Mapping
        plain = self.bootstrap is None and not self.published
        default = plain and self.means.rest == "standardized"
        return (
            (not all(isinstance(name, str) for name in self.strata), f"given: {self.given!r}; give column names."),
            (
                observed is not None and not isinstance(observed, forms),
                f"observed_effects: {observed!r}; give a mapping of group to (effect, standard error)"
                f"{', the name of a 0/1 column or ' + repr(INDEPENDENT) if self.divides else ''}.",
            ),
            (
                self.known is not None and not default,
                'observed_effects: effects with known standard errors need rest="standardized" and the default method.',
            ),
            (
                self.split is not None and self.by_rows,
                'method: a bootstrap over rows divides no rows; use over="cells".',
            ),
            (
                self.propensity is not None and bool(self.strata),
                "propensity, given: give one of them; known propensities make strata redundant.",
            ),
            (
                self.designed and not (default and observed is None and self.formula.estimator == "arm_means"),
                "weight, cluster, propensity, given: available with the defaults of method and rest, with arm means, "
                "and without observed_effects.",
            ),
        )

    @cached_property
    def grouping(self) -> Grouping:
        return self.source.grouping(self.groups, self.depth)

    @property
    def strata(self) -> tuple[str, ...]:
        return (self.given,) if isinstance(self.given, str) else tuple(self.given or ())

    @property
    def means(self) -> ArmMeans:
        return self.estimator if isinstance(self.estimator, ArmMeans) else ArmMeans()

    @property
    def propensity(self) -> str | None:
        return cast("str | None", self.means.propensity)

    @property
    def known(self) -> Mapping[str, tuple[float, float]] | None:
        observed = self.means.observed_effects
        return observed if isinstance(observed, Mapping) else None

    @property
    def split(self) -> str | None:
        """The column of the rows in which effects are observed, or "independent"."""
        observed = self.means.observed_effects
        return observed if isinstance(observed, str) else None

    @property
    def features(self) -> tuple[str, ...]:
        named = self.estimator.features if isinstance(self.estimator, (collapse.Regression, collapse.Aipw)) else ()
        return (named,) if isinstance(named, str) else tuple(named)

    @property
    def observes(self) -> bool:
        """Whether the rows are those of an experiment; otherwise observed effects come from elsewhere."""
        return self.treatment is not None and self.outcome is not None

    @property
    def designed(self) -> bool:
        return self.source.designed or self.propensity is not None or bool(self.strata)

    @property
    def published(self) -> bool:
        return self.method == "published"

    @property
    def bootstrap(self) -> Bootstrap | None:
        return self.method if isinstance(self.method, Bootstrap) else None

    @property
    def by_rows(self) -> bool:
        return getattr(self.method, "over", None) == "rows"

    @property
    def divided(self) -> str | None:
        """How rows are divided into those of predictions and those of estimation (Assumption 1)."""
        return INDEPENDENT if self.published and self.split is None else self.split

    @property
    def of_counts(self) -> bool:
        """Whether the law of the counts of a 0/1 outcome can be used: the error is a function of arm means alone."""
        formula = self.formula
        plain = self.means.observed_effects is None and not self.designed
        default = (formula.estimator, formula.rest) == ("arm_means", "standardized")
        collapse = formula.measure == "difference" or formula.collapse == "control_outcome"
        return self.method not in ("welch", "published") and plain and default and collapse

    @cached_property
    def formula(self) -> Formula:
        measure: Measure = "difference" if self.measure == "difference" else "relative"
        name = self.estimator if isinstance(self.estimator, str) else self.estimator.name
        if name != "arm_means" and not self.features:
            raise MissingRole("features: none given; name the numeric columns that the estimator adjusts for.")
        return Formula(
            measure=measure,
            collapse=self._collapse(measure),
            estimator=cast("collapse.EstimatorName", name),
            covariates=tuple(f"features[{i}]" for i in range(len(self.features))),
            rest="pooled" if self.published else self.means.rest,
            outcomes=self.observes,
        )

    @property
    def relative(self) -> Relative:
        return self.measure if isinstance(self.measure, Relative) else Relative()

    @property
    def baseline_column(self) -> str | None:
        return cast("str | None", self.relative.baseline)

    def _collapse(self, measure: Measure) -> collapse.CollapseName:
        if measure == "difference":
            return "average"
        named = self.relative.collapse
        published: collapse.CollapseName = "positives" if self.baseline_column is None else "weighted"
        default: collapse.CollapseName = published if self.published else "control_outcome"
        name = named or (default if self.observes else "normalized")
        weighted = not self.observes or "h" in collapse.COLLAPSES[name][0]
        if not self.observes and name not in ("normalized", "average"):
            raise MissingRole(
                f'collapse: {name!r} uses outcomes; without treatment and outcome use "normalized" or "average".'
            )
        if weighted and self.baseline_column is None:
            raise MissingRole(
                f"baseline: relative effects with collapse={name!r} are weighted by the predicted outcome without "
                'treatment; name its column, as in measure=iso.relative(baseline="..."), or use measure="difference".'
            )
        if not weighted and self.baseline_column is not None:
            raise UsageError(
                f"baseline: a relative effect with collapse={name!r} does not use it; leave it out, or use "
                'iso.relative("weighted", baseline) or iso.relative("normalized", baseline).'
            )
        return name

    @property
    def requests(self) -> tuple[Request, ...]:
        """The one grouped pass. Random splits and AIPW make columns of their own first, and designs need rows."""
        rows = self.divided == INDEPENDENT or self.formula.estimator == "aipw" or self.designed
        return () if rows else (self.request(),)

    @property
    def roles(self) -> dict[str, str]:
        weighted = any("h" in product(name).split() for name in self.formula.columns)
        named = {
            "effect": self.effect,
            "outcome": self.outcome if self.observes else None,
            "baseline": self.baseline_column if weighted else None,
            "propensity": self.propensity,
        }
        features = {f"features[{i}]": name for i, name in enumerate(self.features)}
        return {role: name for role, name in named.items() if name is not None} | features

    @property
    def terms(self) -> dict[str, str]:
        named = {"y": "outcome", "f": "effect", "h": "baseline"} | {name: name for name in self.formula.covariates}
        return {term: role for term, role in named.items() if role in self.roles}

    def request(self, *, sums: bool = True) -> Request:
        """What is read. ``sums``: cells with the sums of all products, instead of rows."""
        split = None if self.divided == INDEPENDENT else self.divided
        binary = {"treatment": self.treatment if self.observes else None, "split": split}
        values = {term: number(self.roles[role]) for term, role in self.terms.items()}

        def expression(factors: str) -> Expression:
            return reduce(mul, (1.0 / values["f"] if name == "1/f" else values[name] for name in factors.split()))

        keys = {}
        if "outcome" in self.roles:  # outcomes that are exactly 0, exactly 1, and anything else
            outcome = number(self.roles["outcome"])
            keys["kind"] = either(outcome == 0, 0, either(outcome == 1, 1, 2))
        return Request(
            grouping=self.grouping,
            binary={role: name for role, name in binary.items() if name is not None},
            numeric=self.roles,
            keys=keys,
            values={name: expression(name) for name in products(self.formula.columns)} if sums else {},
        )


# ---- read


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class TrialPart:
    """One partition of the rows: its named groups, and sums whose last group may be everybody else.

    Where rows have weights, clusters, propensities or strata, sums are of masses (`Clustered` if buckets are of whole
    clusters), and ``lines`` has the rows with their design.
    """

    groups: tuple[Group, ...]
    sums: Sums
    members: IntArray  # a number for the people of each group, equal for the same people
    rows: FloatArray  # by group and arm
    known: FloatArray | None = None  # effects that the caller gives, with their standard errors
    lines: ExperimentRows | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    sample: Sample
    parts: tuple[TrialPart, ...]
    lines: ExperimentRows | None = None

    @property
    def groups(self) -> tuple[Group, ...]:
        return tuple(group for part in self.parts for group in part.groups)

    @property
    def binary(self) -> bool:
        return all(part.sums.binary for part in self.parts)

    @property
    def arms_differ(self) -> bool:
        """Whether treated shares differ between groups by more than 5 points, and by more than chance at 0.01."""
        for part in self.parts:
            n = part.rows[: len(part.groups)]
            n = n[n.sum(-1) > 0]
            if len(n) < 2:
                continue
            share, whole = n[:, 1] / n.sum(-1), float(n[:, 1].sum() / n.sum())
            square = float((n.sum(-1) * (share - whole) ** 2).sum()) / max(whole * (1 - whole), 1e-300)
            if np.ptp(share) > 0.05 and special.chdtrc(len(n) - 1, square) < 0.01:
                return True
        return False

    def joined(self, arrays: Sequence[AnyArray]) -> AnyArray:
        """One array per partition, groups last, as one array of the named groups."""
        pairs = zip(arrays, self.parts, strict=True)
        return np.concatenate([array[..., : len(part.groups)] for array, part in pairs], axis=-1)

    def statuses(self, errors: Sequence[Errors]) -> list[Status]:
        return self.joined([np.array(error.status, dtype=object) for error in errors]).tolist()

    def hypotheses(self, in_rest: Sequence[BoolArray]) -> IntArray:
        """A number for the bias of each group, equal for groups compared with the same people or with each other."""
        pairs = []
        for part, used in zip(self.parts, in_rest, strict=True):
            others = np.where(used, part.members, 0)
            pair = np.sort(np.stack([part.members, others.sum() - others], -1), axis=-1)
            pairs.append(pair[: len(part.groups)])
        return np.unique(np.concatenate(pairs), axis=0, return_inverse=True)[1].ravel()


def read(plan: Experiment, rng: np.random.Generator, buckets: int = 0) -> Trial:
    """Sums of every partition, with rows (or whole clusters) spread at random over equal ``buckets``, if any."""
    if plan.designed or (buckets and plan.by_rows):
        return _read_designed(plan, buckets, rng)
    spread = buckets or (2 if plan.divided == INDEPENDENT else 0)
    parts = spread or (1 if plan.divided is None else 2)
    # A line that stands for several rows has a bucket for each of them.
    if plan.formula.estimator == "aipw" or (spread and plan.source.count is not None):
        return _read_rows(plan, rng, spread, parts)
    source, request = plan.source, plan.request()
    if spread:
        row = source.fresh("row")
        bucket = _hashed(nw.col(row).cast(nw.Int64), rng, spread)
        source, request = source.numbered(row), replace(request, keys={**request.keys, "bucket": bucket})
    cells = source.cells(request)
    half, arm, kind = (_codes(cells, name) for name in ("bucket" if spread else "split", "treatment", "kind"))
    sums = [
        Sums.added(plan.formula.columns, (groups, parts), (group, half, arm, kind), cells.counts, cells.values)
        for group, groups in map(_group_codes, cells.partitions)
    ]
    lines = lines_of(source.rows(plan.request(sums=False)), plan) if plan.by_rows else None
    return trial_of(cells, sums, plan, lines)


def _read_rows(plan: Experiment, rng: np.random.Generator, spread: int, parts: int) -> Trial:
    sample = plan.source.rows(plan.request(sums=False))
    lines = lines_of(sample, plan)
    if plan.formula.estimator == "aipw":  # outcomes that models fitted on other rows predict in either arm
        features, y = np.stack([lines.factors[name] for name in plan.formula.covariates], -1), lines.factors["y"]
        predictions = {
            f"p{arm}": collapse.cross_fitted(features, y, lines.arm == arm, lines.weight, rng) for arm in (0, 1)
        }
        lines = replace(lines, factors={**lines.factors, **predictions})
    line, weight, bucket = np.arange(sample.size), lines.weight, _codes(sample, "split")
    if spread:
        bucket = _hashed(line, rng, parts)
        if sample.weight is not None:
            drawn = rng.multinomial(sample.weight.astype(np.int64), np.full(parts, 1 / parts)).astype(float)
            line, bucket = np.nonzero(drawn)
            weight = drawn[line, bucket]
    return trial_of(sample, lines.sums(plan.formula.columns, line, weight, bucket, parts), plan, lines)


def _read_designed(plan: Experiment, buckets: int, rng: np.random.Generator) -> Trial:
    """With ``buckets``, whole clusters are spread over them at random; without clusters every row is one."""
    request = plan.request(sums=False)
    named = {f"given[{i}]": name for i, name in enumerate(plan.strata)}
    if buckets and plan.source.cluster is not None:
        named["cluster"] = plan.source.cluster
    keys = {**request.keys, **{role: nw.col(name) for role, name in named.items()}}
    sample = plan.source.rows(replace(request, keys=keys, labels=named))
    trial = from_design(sample, lines_of(sample, plan), plan)
    if not buckets:
        return trial
    cluster = np.arange(sample.size)
    if "cluster" in named:
        cluster = np.unique(sample.columns["cluster"], return_inverse=True)[1]
    bucket, parts = _hashed(cluster, rng, buckets), []
    for part in trial.parts:
        assert part.lines is not None
        sums = Clustered.from_lines(plan.formula.columns, part.lines, cluster, bucket, buckets)
        parts.append(replace(part, sums=sums))
    return replace(trial, parts=tuple(parts))


def from_design(sample: Sample, lines: ExperimentRows, plan: Experiment) -> Trial:
    """Sums of masses: weights, divided by the probability of the arm that each row is in."""
    count = np.ones(sample.size) if sample.count is None else sample.count
    stratum = np.zeros(sample.size, dtype=np.intp)
    for i in range(len(plan.strata)):
        values, codes = np.unique(sample.columns[f"given[{i}]"].astype(str), return_inverse=True)
        stratum = stratum * len(values) + codes
    base = Design(count, count, count, count, None) if sample.design is None else sample.design
    designed, rows = [], []
    for codes, groups in lines.groups:
        share = np.full(sample.size, 0.5)
        if plan.propensity is not None:
            share = np.asarray(sample.columns["propensity"], dtype=float)
            refuse_certain(plan.propensity, share)
        elif plan.strata:
            cell = np.unique(codes * (int(stratum.max(initial=0)) + 1) + stratum, return_inverse=True)[1]
            treated, total = (np.bincount(cell, mass) for mass in (lines.weight * lines.arm, lines.weight))
            share = (treated / total)[cell]
            alone = int(((share <= 0) | (share >= 1)).sum())
            if alone:
                raise DataError(
                    f"given: {alone:,} rows are in strata ({', '.join(plan.strata)}) of a group that have only one "
                    "arm; merge strata, or leave those rows out."
                )
        chance = np.where(lines.arm == TREATED, share, 1 - share)
        place = codes * 2 + lines.arm
        size, mass = (np.bincount(place, w, 2 * groups) for w in (count, lines.weight * (1 / chance)))
        # Masses of at least one per row: a design's law accounts for their scale, but means must not divide by less.
        most = float(np.max(size[mass > 0] / mass[mass > 0], initial=0.0)) or 1.0
        design = base.scaled(1 / chance * most)
        group = ((codes, groups),)
        designed.append(replace(lines, weight=design.mass, groups=group, design=design, stratum=stratum, chance=chance))
        rows.append(size.reshape(groups, 2).astype(float))
    trial = trial_of(sample, [line.sums(plan.formula.columns)[0] for line in designed], plan, lines)
    parts = zip(trial.parts, designed, rows, strict=True)
    return replace(trial, parts=tuple(replace(part, lines=line, rows=size) for part, line, size in parts))


def lines_of(sample: Sample, plan: Experiment) -> ExperimentRows:
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
            f"propensity: column {column_name!r} is not strictly between 0 and 1 in {certain:,} rows; leave them "
            "out: nobody like them was in the other arm."
        )


def trial_of(sample: Sample, sums: Sequence[Sums], plan: Experiment, lines: ExperimentRows | None = None) -> Trial:
    if not all(np.isfinite(part.products).all() and np.isfinite(part.sums).all() for part in sums):
        raise DataError(
            f"effect: column {plan.effect!r} contains 0, and collapse={plan.formula.collapse!r} divides by it; choose "
            "another collapse."
        )
    # A number for the people of each group: the square of the sum of random numbers, one per entry, modulo 2^64.
    # Squares of unions are not sums of squares: a rest of several groups differs from one group of the same people.
    there = np.ones(sample.size) if sample.count is None else sample.count
    numbers = np.where(there > 0, np.random.default_rng(0).integers(1, 2**62, size=there.size), 0)
    parts: list[TrialPart] = []
    labels: list[str] = []
    given = dict[object, tuple[float, float]](plan.known or {})
    unknown = dict.fromkeys(given)
    for added, partition in zip(sums, sample.partitions, strict=True):
        codes, groups = _group_codes(partition)
        total = np.zeros(groups, dtype=np.int64)
        np.add.at(total, codes, numbers)
        known = np.full((groups, 2), np.nan)  # everybody else (the last, unnamed group) has no effect
        for i, group in enumerate(partition.groups if given else ()):
            values = [value for _, value in group.items] if len(group.items) == 1 else []
            for name in (*map(str, values), *values, group.label):
                if name in given:
                    known[i] = given[name]
                    unknown.pop(name, None)
            labels.append(group.label)
        part = TrialPart(
            groups=partition.groups,
            sums=added,
            members=total * total,
            rows=added.counts.n,
            known=None if plan.known is None else known,
        )
        parts.append(part)
    for name in unknown:
        raise UsageError(
            f"observed_effects: there is no group {name!r}; leave it out, or give its name in the data."
            f"{near(str(name), labels)} Groups: {', '.join(labels[:20])}."
        )
    return Trial(sample, tuple(parts), lines)


def _codes(sample: Sample, name: str) -> IntArray:
    columns = sample.columns
    return columns[name].astype(np.intp) if name in columns else np.zeros(sample.size, dtype=np.intp)


def _group_codes(partition: Partition) -> tuple[IntArray, int]:
    """The group of each entry, and the number of groups. Rows in no group become one last group, part of every rest."""
    outside, named = partition.codes < 0, len(partition.groups)
    return np.where(outside, named, partition.codes), named + bool(outside.any())


_PRIME = 2**31 - 1
Numbers = TypeVar("Numbers", nw.Expr, IntArray)


def _hashed(row: Numbers, rng: np.random.Generator, buckets: int) -> Numbers:
    """A random bucket from a row's number, by arithmetic in 64 bits that is equal on every engine."""
    a, b, c, d, e, f = (int(number) for number in rng.integers(1, _PRIME, size=6))
    mixed = (row % _PRIME * a + b) % _PRIME
    mixed = (mixed * mixed + c) % _PRIME
    mixed = (mixed * d + e) % _PRIME
    mixed = (mixed * mixed + f) % _PRIME
    return mixed % buckets


# ---- estimate


def check_measure(part: TrialPart, plan: Experiment) -> None:
    """Refuse predictions that are clearly differences if no measure was given.

    That is clear only if, taken as ratios, they are off by a factor of two and beyond chance (p <= 1e-6), and ten
    times as far from the observed ratio of all groups as from the observed difference.
    """
    if plan.measure is not None:
        return
    moments = part.sums.moments()
    errors = errors_of(moments, plan.formula, part.known)
    if part.known is None:  # an arm that is all 0 or all 1 shows no spread to judge by
        errors = errors.without(part.sums.constant_arm, Status.FEW_EVENTS)
    used, size = errors.usable, moments.n.sum(-1)
    arms = moments.n[used].sum(0)
    if arms[arms > 0].min(initial=np.inf) < FEW_ROWS or not used.any():  # given effects have one arm
        return
    whole, weight = all_groups(errors.error, size, used), (size * errors.error.bottom)[used]
    effects = errors.effects.predicted, errors.effects.observed
    predicted, ratio = (float(weight @ effect[used] / weight.sum()) for effect in effects)
    difference = (ratio - 1) * float(whole.bottom[0])
    off = predicted < ratio / 2 or predicted > 2 * ratio
    near = abs(predicted - difference) <= abs(predicted - ratio) / 10
    if ratio > 0 and off and float(whole.pvalue()[0]) <= 1e-6 and (near or predicted < 0):
        shown = [phrases.number(value) for value in (predicted, difference, ratio)]
        raise UsageError(
            f"measure: none given, and predicted effects average {shown[0]}, while the observed difference of mean "
            f'outcomes is {shown[1]} and their ratio {shown[2]}. Give measure="difference" if the predictions '
            'are differences, or measure="relative" if they are ratios.'
        )


def large(errors: Errors, part: TrialPart, plan: Experiment) -> Errors:
    """Groups with fewer rows than ``min_size`` have no answer; they stay in the rest of the others."""
    return errors.without(part.rows.sum(-1) < plan.min_size, Status.TOO_SMALL)


def designed_errors(
    errors: Sequence[Errors], trial: Trial, plan: Experiment
) -> tuple[list[Errors], DesignEffect | None]:
    if not plan.designed:
        return list(errors), None
    designed, effects = [], []
    for plain, part in zip(errors, trial.parts, strict=True):
        assert part.lines is not None
        moments = part.sums.moments()
        error, totals = under_design(plain, part.lines, plan.formula, moments)
        designed.append(error)
        with np.errstate(divide="ignore", invalid="ignore"):
            effect = error.design_effect * part.rows.sum(-1) / moments.n.sum(-1)  # compared with rows of weight 1
        effects.append((effect, totals.occupied, totals.effective))
    return designed, DesignEffect(*(trial.joined(arrays) for arrays in zip(*effects, strict=True)))
