"""Rows to sums by group, bucket, arm and kind of outcome: one grouped pass, or rows in memory where they are needed.

Rows are needed in memory for AIPW (outcome models are fitted to them), for the bootstrap over rows, and for random
splits of lines that stand for several rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import narwhals as nw
import numpy as np
import numpy.typing as npt

from isonomy.errors import DataError, UsageError, WrongType
from isonomy.frames import Cells, Design, Group, Partition, Request, Rows, Source, open_source
from isonomy.frames.estimators import Column, column_of, eager, refuse_empty, target
from isonomy.numerics.arrays import AnyArray, FloatArray, IntArray
from isonomy.treatment.effects.adjust import cross_fitted
from isonomy.treatment.effects.clusters import Clustered
from isonomy.treatment.effects.designs import Strata, scaled, shares_within
from isonomy.treatment.effects.moments import CONTROL, TREATED
from isonomy.treatment.effects.sums import Lines, Sums
from isonomy.treatment.plan import INDEPENDENT, CorrectionsPlan, Plan, PricePlan

_PRIME = 2**31 - 1

Numbers = TypeVar("Numbers", nw.Expr, IntArray)


@dataclass(frozen=True, slots=True, eq=False)
class Tally:
    """What the rows say, partition by partition: its named groups, and sums that may end with everybody else."""

    groups: tuple[tuple[Group, ...], ...]
    sums: tuple[Sums, ...]
    rows: int
    dropped: Mapping[str, int]
    lines: Lines | None = None  # for the bootstrap over rows, and for designs
    designs: tuple[Design, ...] | None = None  # one per partition, where rows have weights, clusters or propensities
    strata: tuple[Strata, ...] = ()  # of the randomisation, by partition
    cluster: IntArray | None = None  # number of each line's cluster, in the order of their values
    sizes: tuple[FloatArray, ...] = ()  # rows by group and arm, where sums are of masses
    clustered: tuple[Clustered, ...] = ()  # one per partition, where buckets are of whole clusters
    members: tuple[IntArray, ...] = ()  # by partition, a number for each group: equal for the same people


def tally(source: Source, plan: Plan, rng: np.random.Generator) -> Tally:
    """Sums of every partition; in two buckets where predicted and observed effects come from different rows."""
    if plan.designed:
        return _tally_designed(source, plan)
    if plan.formula.estimator == "aipw":
        return _tally_predicted(source, plan, rng)
    if plan.split == INDEPENDENT:
        return _tally_buckets(source, plan, 2, rng)
    sums = _tally_cells(source, plan.request(), plan, 1 if plan.split is None else 2)
    if plan.variance == "bootstrap_rows":
        return replace(sums, lines=_lines(source.rows(plan.request(sums=False)), plan))
    return sums


def tally_corrections(source: Source, plan: CorrectionsPlan, rng: np.random.Generator) -> Tally:
    """Sums of every partition with the rows spread at random over equal buckets."""
    if plan.errors.designed or plan.variance == "bootstrap_rows":
        return _tally_clusters(source, plan, rng)
    if plan.errors.formula.estimator == "aipw":
        return _tally_predicted(source, plan.errors, rng, plan.buckets)
    return _tally_buckets(source, plan.errors, plan.buckets, rng)


def _tally_buckets(source: Source, plan: Plan, buckets: int, rng: np.random.Generator) -> Tally:
    coefficients = _coefficients(rng)
    if source.count is not None:  # a line may stand for many rows: each of them has its own bucket
        rows = source.rows(plan.request(sums=False))
        return _tally_lines(rows, _lines(rows, plan), plan, buckets, *_spread(rows, buckets, rng))
    row = source.fresh("row")
    numbered = source.numbered(row)
    bucket = _hashed(nw.col(row).cast(nw.Int64), coefficients, buckets)
    request = plan.request()
    return _tally_cells(numbered, replace(request, keys={**request.keys, "bucket": bucket}), plan, buckets)


def _tally_cells(source: Source, request: Request, plan: Plan, buckets: int) -> Tally:
    cells = source.cells(request)
    bucket = "split" if "split" in cells.keys else "bucket"
    half, arm, kind = (_codes(cells.keys, name, len(cells.count)) for name in (bucket, "treatment", "kind"))
    sums = tuple(
        Sums.added(plan.formula.columns, (groups, buckets), (group, half, arm, kind), cells.count, cells.values)
        for group, groups in map(_group_codes, cells.partitions)
    )
    return _tallied(cells, sums, plan)


def _tally_predicted(source: Source, plan: Plan, rng: np.random.Generator, buckets: int | None = None) -> Tally:
    """Sums with the outcomes that models fitted on other rows predict in either arm (AIPW)."""
    rows = source.rows(plan.request(sums=False))
    lines = _lines(rows, plan)
    features = np.stack([lines.factors[name] for name in plan.formula.covariates], -1)
    predictions = {
        name: cross_fitted(features, lines.factors["y"], lines.arm == arm, lines.weight, rng)
        for name, arm in (("p0", CONTROL), ("p1", TREATED))
    }
    lines = replace(lines, factors={**lines.factors, **predictions})
    line, weight, bucket = np.arange(rows.size), lines.weight, _codes(rows.columns, "split", rows.size)
    parts = buckets or (1 if plan.split is None else 2)
    if plan.split == INDEPENDENT or buckets is not None:
        coefficients = _coefficients(rng)
        if rows.weight is None:
            bucket = _hashed(line, coefficients, parts)
        else:
            line, weight, bucket = _spread(rows, parts, rng)
    return _tally_lines(rows, lines, plan, parts, line, weight, bucket)


def _tally_designed(source: Source, plan: Plan, *, clusters: bool = False) -> Tally:
    """Sums of masses, and the lines that a design's variance needs one by one; ``clusters``: with each line's."""
    request = plan.request(sums=False)
    given = {f"given[{i}]": name for i, name in enumerate(plan.given)}
    named = given | ({"cluster": source.cluster} if clusters and source.cluster is not None else {})
    keys = {**request.keys, **{role: nw.col(name) for role, name in named.items()}}
    rows = source.rows(replace(request, keys=keys, labels=named))
    tallied = _designed(rows, _lines(rows, plan), plan)
    if "cluster" not in named:
        return tallied
    return replace(tallied, cluster=np.unique(rows.columns["cluster"], return_inverse=True)[1])


def _designed(rows: Rows, lines: Lines, plan: Plan) -> Tally:
    number = np.ones(rows.size) if rows.count is None else rows.count
    code = np.zeros(rows.size, dtype=np.intp)
    for i in range(len(plan.given)):
        values, codes = np.unique(rows.columns[f"given[{i}]"].astype(str), return_inverse=True)
        code = code * len(values) + codes
    designs, sums, sizes, strata = [], [], [], []
    every, one = np.arange(rows.size), np.zeros(rows.size, dtype=np.intp)
    for codes, groups in lines.groups:
        chance = np.full(rows.size, 0.5)
        if plan.propensity is not None:
            chance = np.asarray(rows.columns["propensity"], dtype=float)
            refuse_certain(plan.propensity, chance)
        elif plan.given:
            chance = shares_within(codes, code, lines.arm, lines.weight)
            _refuse_one_arm(plan.given, chance)
        own_arm = np.where(lines.arm == TREATED, chance, 1 - chance)
        factor = 1 / own_arm
        strata.append(Strata(code, own_arm))
        place = codes * 2 + lines.arm
        size, mass = (np.bincount(place, w, 2 * groups) for w in (number, lines.weight * factor))
        # Masses of at least one per row: the law of a design knows what they are worth, a mean must not divide by less.
        most = float(np.max(size[mass > 0] / mass[mass > 0], initial=0.0)) or 1.0
        design = scaled(rows.design, number, factor * most)
        own = replace(lines, weight=design.mass, groups=((codes, groups),))
        designs.append(design)
        sums.append(own.sums(plan.formula.columns, every, design.mass, one, 1)[0])
        sizes.append(size.reshape(groups, 2).astype(float))
    tallied = _tallied(rows, tuple(sums), plan, lines)
    return replace(tallied, designs=tuple(designs), strata=tuple(strata), sizes=tuple(sizes))


def _tally_clusters(source: Source, plan: CorrectionsPlan, rng: np.random.Generator) -> Tally:
    """Sums of masses in buckets of whole clusters; without clusters every row is one."""
    tallied = _tally_designed(source, plan.errors, clusters=True)
    assert tallied.lines is not None
    assert tallied.designs is not None
    cluster = np.arange(tallied.lines.arm.size) if tallied.cluster is None else tallied.cluster
    bucket = _hashed(cluster, _coefficients(rng), plan.buckets)
    clustered = []
    for design, own in zip(tallied.designs, tallied.lines.groups, strict=True):
        lines = replace(tallied.lines, weight=design.mass, groups=(own,))
        every = np.arange(cluster.size)
        (sums,) = lines.sums(plan.errors.formula.columns, every, design.mass, bucket, plan.buckets)
        clustered.append(Clustered(sums, lines, cluster, bucket))
    return replace(tallied, clustered=tuple(clustered))


def _refuse_one_arm(given: Sequence[str], chance: FloatArray) -> None:
    alone = int(((chance <= 0) | (chance >= 1)).sum())
    if alone:
        raise DataError(
            f"given: {alone:,} rows are in strata ({', '.join(given)}) of a group that have one arm only; merge "
            "strata, or leave those rows out."
        )


def _tally_lines(
    rows: Rows, lines: Lines, plan: Plan, buckets: int, line: IntArray, weight: FloatArray, bucket: IntArray
) -> Tally:
    return _tallied(rows, lines.sums(plan.formula.columns, line, weight, bucket, buckets), plan, lines)


def _tallied(read: Cells | Rows, sums: tuple[Sums, ...], plan: Plan, lines: Lines | None = None) -> Tally:
    if not all(np.isfinite(one.products).all() and np.isfinite(one.sums).all() for one in sums):
        raise DataError(
            f"effect: column {plan.effect!r} holds 0, and collapse={plan.formula.collapse!r} divides by it; choose "
            "another."
        )
    groups = tuple(partition.groups for partition in read.partitions)
    return Tally(groups, sums, read.rows, read.dropped, lines, members=_members(read))


def _members(read: Cells | Rows) -> tuple[IntArray, ...]:
    """A number for the people of each group: the square of the sum of random numbers, one per entry, modulo 2^64.

    Squares of unions are not sums of squares: a rest of several groups differs from one group of the same people.
    """
    there = np.ones(len(read.partitions[0].codes)) if read.count is None else read.count
    numbers = np.where(there > 0, np.random.default_rng(0).integers(1, 2**62, size=there.size), 0)
    members = []
    for codes, groups in map(_group_codes, read.partitions):
        total = np.zeros(groups, dtype=np.int64)
        np.add.at(total, codes, numbers)
        members.append(total * total)
    return tuple(members)


@dataclass(frozen=True, slots=True, eq=False)
class PriceTally:
    """The rows that are ranked, and what they say about every column of predictions by group."""

    outcome: FloatArray
    arm: IntArray
    weight: FloatArray
    effects: tuple[FloatArray, ...]  # before correction, then each corrected column
    tallies: tuple[Tally, ...]
    propensity: FloatArray
    baseline: FloatArray | None
    rows: int
    dropped: Mapping[str, int]
    design: Design | None  # where rows have weights or clusters


def tally_price(source: Source, plan: PricePlan) -> PriceTally:
    """The columns that are needed, checked, in memory."""
    rows = source.rows(plan.request)
    lines = _lines(rows, plan.errors)
    columns = [f"corrected[{i}]" for i in range(len(plan.corrected))]
    effects = tuple(np.asarray(rows.columns[name], dtype=float) for name in ("effect", *columns))
    predicted = (replace(lines, factors={**lines.factors, "f": effect}) for effect in effects)
    if plan.errors.designed:
        tallies = tuple(_designed(rows, own, plan.errors) for own in predicted)
    else:
        every = np.arange(rows.size), lines.weight, np.zeros(rows.size, dtype=np.intp)
        tallies = tuple(_tally_lines(rows, own, plan.errors, 1, *every) for own in predicted)
    if plan.propensity is None:
        share = float(np.average(lines.arm, weights=lines.weight))
        propensity = np.full(rows.size, share)
    else:
        propensity = np.asarray(rows.columns["propensity"], dtype=float)
    refuse_certain(plan.propensity, propensity)
    return PriceTally(
        outcome=lines.factors["y"],
        arm=lines.arm,
        weight=lines.weight,
        effects=effects,
        tallies=tallies,
        propensity=propensity,
        baseline=None if plan.baseline is None else np.asarray(rows.columns["baseline"], dtype=float),
        rows=rows.rows,
        dropped=rows.dropped,
        design=rows.design,
    )


def refuse_certain(column: str | None, propensity: FloatArray) -> None:
    """Raise where a row was certain to be treated, or certain not to be: it has nobody to be compared with."""
    certain = int((~((propensity > 0) & (propensity < 1))).sum())
    if certain and column is None:
        raise DataError("treatment: all rows are in one arm; an experiment has both.")
    if certain:
        raise DataError(
            f"propensity: column {column!r} is not strictly between 0 and 1 in {certain:,} rows; leave such rows out: "
            "nobody like them was in the other arm."
        )


def _lines(rows: Rows, plan: Plan) -> Lines:
    return Lines(
        factors={term: np.asarray(rows.columns[role], dtype=float) for term, role in plan.terms.items()},
        arm=_codes(rows.columns, "treatment", rows.size),
        kind=_codes(rows.columns, "kind", rows.size),
        weight=np.ones(rows.size) if rows.weight is None else rows.weight,
        groups=tuple(_group_codes(partition) for partition in rows.partitions),
    )


def _codes(columns: Mapping[str, AnyArray], name: str, size: int) -> IntArray:
    return columns[name].astype(np.intp) if name in columns else np.zeros(size, dtype=np.intp)


def _group_codes(partition: Partition) -> tuple[IntArray, int]:
    """The group of each entry, and how many there are. Rows in no group become one last group: part of every rest."""
    outside, named = partition.codes < 0, len(partition.groups)
    return np.where(outside, named, partition.codes), named + bool(outside.any())


def _coefficients(rng: np.random.Generator) -> list[int]:
    return [int(number) for number in rng.integers(1, _PRIME, size=6)]


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


def _spread(rows: Rows, buckets: int, rng: np.random.Generator) -> tuple[IntArray, FloatArray, IntArray]:
    """Lines that stand for several rows: each line's rows spread over the buckets, as line, rows and bucket."""
    assert rows.weight is not None
    spread = rng.multinomial(rows.weight.astype(np.int64), np.full(buckets, 1 / buckets)).astype(float)
    line, bucket = np.nonzero(spread)
    return line, spread[line, bucket], bucket


def _argument(role: str) -> str:
    return "feature_columns" if role.startswith("feature_") else f"{role}_column"


def tally_experiment(
    X: object, y: npt.ArrayLike, weight: npt.ArrayLike | None, groups: Sequence[Column], roles: Mapping[str, Column]
) -> tuple[Source, dict[str, str]]:
    """The columns of X that a corrector is fitted on, as a table, and the names of its roles there.

    ``weight``: whole numbers count equal rows, any others weigh them. ``roles`` may have a weight and a cluster.
    Group columns keep their names, which the labels of groups show; the roles have names that no group column has.
    """
    keys = {str(name): _values(X, name, "group_columns") for name in groups}
    fresh = open_source(keys).fresh
    names = {role: fresh(role) for role in (*roles, "outcome")}
    table = keys | {names[role]: _values(X, name, _argument(role)) for role, name in roles.items()}
    table[names["outcome"]] = np.asarray(target(y)).ravel()
    reading = {role: names[role] for role in ("weight", "cluster") if role in roles}
    if weight is not None:
        given = np.asarray(weight).ravel()
        kind = "count" if _are_whole(given) else "weight"
        if kind in reading:
            raise UsageError("sample_weight: not whole numbers, so weights, as weight_column is; give one of the two.")
        reading[kind] = fresh(f"sample_{kind}")
        table[reading[kind]] = given
    count, people, cluster = (reading.get(kind) for kind in ("count", "weight", "cluster"))
    return open_source(table, count=count, weight=people, cluster=cluster), names


def _are_whole(values: AnyArray) -> bool:
    """Whether these are whole numbers, or none at all."""
    return values.dtype.kind != "f" or bool((values == np.floor(values)).all())


def tally_rows(
    X: object, effect: Column, groups: Mapping[str, Column]
) -> tuple[FloatArray, tuple[Group, ...], IntArray]:
    """The predicted effect of each row of X, the groups that occur, and which of them each row belongs to.

    ``groups``: the columns that make them, by the name that their labels show.
    """
    values = _values(X, effect, "effect_column")
    try:
        effects = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise WrongType(f"effect_column: {effect!r} holds values that are not numbers; recode it first.") from None
    if not np.isfinite(effects).all():
        raise DataError(f"effect: {int((~np.isfinite(effects)).sum()):,} predictions are NaN or infinite.")
    source = open_source(
        {name: _values(X, column, "group_columns") for name, column in groups.items()}, missing_group="level"
    )
    partition = source.rows(Request(grouping=source.grouping(list(groups), len(groups)))).partitions[-1]
    return effects, partition.groups, partition.codes


def _values(X: object, column: Column, argument: str) -> object:
    """One column of X, in a form that every frame library shares."""
    frame = eager(X)
    refuse_empty(frame)
    values = column_of(np.asarray(X) if frame is None else frame, column, argument)
    if isinstance(values, nw.Series):
        if values.dtype in (nw.Int128, nw.UInt128):  # a group stays the one it is as text; other roles are numbers
            values = values.cast(nw.String if argument == "group_columns" else nw.Float64)
        if not values.implementation.is_pandas():
            return values.to_polars()
        values = values.to_numpy()
    if values.dtype != object or argument == "group_columns":  # large groups that differ may be equal as floats
        return values
    try:
        return values.astype(float)  # numbers held as objects
    except (TypeError, ValueError):
        return values
