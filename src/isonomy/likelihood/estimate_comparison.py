"""A group beside its reference: what both are means of, and which groups can be tested."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from isonomy.frames import Design, Partition
from isonomy.inference.designs import Influence, spread
from isonomy.likelihood.estimate_given import CROWDED, crowding, strata
from isonomy.likelihood.plan import Plan
from isonomy.likelihood.plan_reference import Reference, To
from isonomy.likelihood.ratio.functionals import Columns, evaluate
from isonomy.likelihood.ratio.lines import Units
from isonomy.likelihood.ratio.means import Binary, Means, Real
from isonomy.likelihood.ratio.strata import Strata
from isonomy.likelihood.tally import Tally
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray, ObjectArray
from isonomy.numerics.ragged import Ragged
from isonomy.numerics.status import Status


def able_groups(status: ObjectArray) -> BoolArray:
    """Which groups can be tested, constant ones included."""
    return np.asarray((status == Status.OK) | (status == Status.CONSTANT), dtype=bool)


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """The groups of one partition, their references and what can be tested; ``own`` has one group more, of all other
    rows, so that a group and its rest are all rows. Within strata ``estimate`` and ``reference`` are adjusted."""

    partition: Partition
    size: FloatArray
    rows: FloatArray
    own: Binary | Real
    estimate: FloatArray
    reference: FloatArray
    status: ObjectArray
    strata: Strata | None = None

    @property
    def codes(self) -> IntArray:
        """Which group each line is in; lines in none are in one group more."""
        return np.where(self.partition.codes < 0, len(self.partition.groups), self.partition.codes)

    @property
    def tested(self) -> IntArray:
        """The groups that can be tested."""
        # A constant 0/1 group still has a binomial likelihood; constant numbers have no likelihood to speak of.
        return np.flatnonzero(able_groups(self.status) if isinstance(self.own, Binary) else self.status == Status.OK)


def side_of(sums: Tally, plan: Plan, place: int) -> Side:
    """The partition at ``place``, beside the reference that was asked for."""
    partition, reference = sums.partitions[place], plan.reference
    groups = len(partition.groups)
    codes = np.where(partition.codes < 0, groups, partition.codes)
    own = _pseudo(sums, codes, groups + 1) if sums.functional else sums.means(codes, groups + 1)
    n, counts = partition.sum(sums.counts), sums.counts
    status = np.full(groups, Status.OK, dtype=object)
    status[own.variance[:groups] <= 0] = Status.CONSTANT
    status[n < plan.min_size] = Status.TOO_SMALL
    if reference.to in (To.POPULATION, To.REST):
        weighing = counts * (sums.mass > 0)  # rows that weigh nothing are not there to compare with
        status[partition.sum(weighing) == weighing.sum()] = Status.REFERENCE
    elif reference.to.best:
        if int(able_groups(status).sum()) < 2:
            status[status == Status.OK] = Status.REFERENCE
    elif sums.in_reference is not None:
        chosen = counts * sums.in_reference
        status[(partition.sum(chosen) == n) & (n == chosen.sum())] = Status.REFERENCE
    read = _values_of if sums.functional else _values
    values = read(sums, own, reference, able_groups(status), codes)[:groups]
    able = able_groups(status)
    status[able & ~plan.link.comparable(values)] = Status.ZERO_BASELINE
    if sums.functional:
        able = able_groups(status)
        status[able & np.isnan([evaluated(sums, codes == g)[0] for g in range(groups)])] = Status.UNSUPPORTED
        status[able_groups(status) & np.isnan(values)] = Status.UNSUPPORTED
    status[own.n[:groups] == 0] = Status.EMPTY
    if sums.strata is not None:
        pairs = strata(sums, partition)
        adjusted = pairs.adjusted(plan.scale)
        able = able_groups(status)
        status[able & ~plan.link.comparable(adjusted[1])] = Status.ZERO_BASELINE
        # Only rows with somebody to be compared with count, on either side.
        shared = [pairs.total(rows * pairs.informative) for rows in (pairs.n1, pairs.n0)]
        status[able & (np.minimum(*shared) < plan.min_size)] = Status.TOO_SMALL
        status[able & (pairs.total(pairs.weight) == 0)] = Status.UNSUPPORTED
        if sums.design is not None:
            status[able & (crowding(pairs, plan.scale) > CROWDED)] = Status.UNSUPPORTED
        return Side(partition, sums.sizes[place], n, own, *adjusted, status, pairs)
    return Side(partition, sums.sizes[place], n, own, own.mean[:groups], values, status)


def units_of(own: Means) -> Units:
    """The units in which groups that are means of value + influence are compared."""
    filled = own.n > 0
    spread = float(np.sqrt(np.average(own.variance[filled], weights=own.n[filled])))
    centre = float(np.average(own.mean[filled], weights=own.n[filled]))
    return Units(centre, float(np.exp2(np.rint(np.log2(spread)))) if spread > 0 else 1.0)


def evaluated(sums: Tally, rows: BoolArray) -> tuple[float, FloatArray]:
    """A metric that is no mean over rows, of some of them, and what each adds to it."""
    columns, mass = {role: values[rows] for role, values in sums.roles.items()}, sums.mass[rows]
    if sums.functional == "quantile" and sums.design is not None and mass.sum() > 0:
        mass = mass * (_worth(sums.design, rows, columns, mass) / mass.sum())
    return evaluate(sums.functional, columns, mass)


def _worth(design: Design, rows: BoolArray, columns: Columns, mass: FloatArray) -> float:
    """How many independent, equal rows would know the share below the quantile as well as these do.

    A quantile's error is that of a rank among so many rows: equal rows of one cluster are one.
    """
    below = np.zeros(rows.size)
    below[rows] = evaluate("quantile", columns, mass / mass.sum())[1]
    error = spread(design, Influence.of_groups(np.where(rows, 0, -1), below, 1)).second[0]
    alike = float(mass @ below[rows] ** 2)
    return max(round(alike * float(mass.sum()) / error), 1) if error > 0 else float(mass.sum())


def _pseudo(sums: Tally, codes: IntArray, size: int) -> Real:
    """Groups as means of value + influence."""
    values = np.zeros(codes.size)
    for group in range(size):
        value, influence = evaluated(sums, codes == group)
        values[codes == group] = np.nan_to_num(value) + influence
    return Real(Ragged.from_codes(codes, size, values, weights=sums.lines.weight))


def referents(sums: Tally, reference: Reference, own: BoolArray) -> BoolArray:
    """The rows of the reference of a group with these rows."""
    if reference.to is To.REST:
        return ~own
    return np.ones_like(own) if sums.in_reference is None else sums.in_reference


def _values_of(sums: Tally, own: Binary | Real, reference: Reference, able: BoolArray, codes: IntArray) -> FloatArray:
    """The reference's value for each group, of a metric that is no mean over rows."""
    if reference.to.best or reference.number is not None:
        return _values(sums, own, reference, able, codes)
    if reference.to is To.REST:
        return np.array([evaluated(sums, codes != g)[0] for g in range(own.n.size)])
    return np.full(own.n.size, evaluated(sums, referents(sums, reference, codes >= 0))[0])


def _values(sums: Tally, own: Binary | Real, reference: Reference, able: BoolArray, codes: IntArray) -> FloatArray:
    """The reference's value for each group; the best group is one of those ``able`` to be tested."""
    if reference.to.best:
        candidates = own.mean[: able.size][able]
        best = candidates.max if reference.to is To.HIGHEST else candidates.min
        return np.full(own.n.size, best() if candidates.size else np.nan)
    if reference.number is not None:
        return np.full(own.n.size, reference.number)
    if reference.estimate is not None:
        return np.full(own.n.size, reference.estimate.value)
    totals = own.n * np.nan_to_num(own.mean)
    with np.errstate(invalid="ignore", divide="ignore"):
        if reference.to is To.REST:
            return (totals.sum() - totals) / (own.n.sum() - own.n)
        if reference.to is To.POPULATION:
            return np.full(own.n.size, totals.sum() / own.n.sum())
    assert sums.in_reference is not None
    mass = sums.mass * sums.in_reference
    return np.full(own.n.size, float(mass @ sums.lines.value / mass.sum()))
