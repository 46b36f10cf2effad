"""Which equality is tested: the discerning tuple (U, phi) of Definition 1, on cells of equal rows.

Rows that agree on every group, the outcome, the decision and U form a *cell*. U and phi are constant on a cell, so
everything but the distances is a small matrix. The built-in criteria compare selection rates of *events* (a group,
within an outcome) with those of a reference event: phi_t = U_t / mu_t - U_b / mu_b. `Discerning` is any other tuple.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt

from isonomy.errors import BadCount, NotEnoughData, OneGroup, UnknownOption, UsageError
from isonomy.frames import Group, Sample
from isonomy.frames.expressions import Expression
from isonomy.frames.groups import CONDITION
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray
from isonomy.options import Also, shown

Equality = Literal[
    "equal_opportunity", "predictive_equality", "equalized_odds", "statistical_parity", "demographic_parity"
]
# The outcomes within which selection rates are compared; None is everybody.
OUTCOMES: dict[str, tuple[int | None, ...]] = {
    "equal_opportunity": (1,),
    "predictive_equality": (0,),
    "equalized_odds": (1, 0),
    "statistical_parity": (None,),
}
MOST = 2_000  # comparisons at once: their covariance is a square of that size
RATES = {1: "tpr", 0: "fpr", None: "selection_rate"}  # the name of the rate within each outcome
ALSO_CALLED = {
    "selection_rate": "statistical_parity",
    "tpr": "equal_opportunity",
    "equality_of_opportunity": "equal_opportunity",
    "fpr": "predictive_equality",
    "equalised_odds": "equalized_odds",
}
COUNTABLE = 2.0**53  # rows that floats tell apart
CODES = 2**22  # codes up to which cells are found by counting; beyond, by sorting


@dataclass(frozen=True, slots=True, eq=False)
class Discerning:
    """A user-defined criterion: is E[C phi(U, E U)] = 0?

    Parameters
    ----------
    u : mapping of str to expression
        Each component of U, a function of groups and outcome with few distinct values.
    phi : callable
        ``phi(u, mean)`` takes U as an array of shape (rows, components) and its mean, and returns an array of shape
        (rows, m). It must be smooth in ``mean``.
    names : tuple of str
        The name of each of the m moments.

    Examples
    --------
    >>> import isonomy as iso
    >>> tuple_ = Discerning(
    ...     u={"women": iso.col("sex") == "F", "men": iso.col("sex") == "M"},
    ...     phi=lambda u, mean: u[:, [0]] / mean[0] - u[:, [1]] / mean[1],
    ...     names=("women against men",),
    ... )
    >>> tuple_.names
    ('women against men',)
    """

    u: Mapping[str, Expression]
    phi: Callable[[FloatArray, FloatArray], npt.ArrayLike]
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        expressions = isinstance(self.u, Mapping) and all(isinstance(expr, Expression) for expr in self.u.values())
        names = self.names and not isinstance(self.names, str)
        for part, right, needed in (
            ("u", expressions and self.u, 'name -> expression, such as {"women": iso.col("sex") == "F"}'),
            ("phi", callable(self.phi), "a function of U and its mean"),
            ("names", names, 'one name for each moment, such as ("women against men",)'),
        ):
            if not right:
                raise UsageError(f"criterion: {part} is {shown(getattr(self, part))}; give {needed}.")


Criterion = Annotated[Equality, Also(ALSO_CALLED)] | Discerning


# ---- cells


@dataclass(frozen=True, slots=True, eq=False)
class DecisionCells:
    """The cells, in the order of their codes. Arrays have one entry per cell."""

    count: FloatArray
    selected: IntArray  # the decision, 0 or 1
    outcome: IntArray | None
    attributes: tuple[tuple[Group, ...], ...]  # the groups of each column, or one named condition
    codes: tuple[IntArray, ...]  # one array per attribute: the place of the group, -1 outside a named condition
    u: FloatArray  # (cells, components) for a user-defined criterion, else (cells, 0)
    u_names: tuple[str, ...] = ()
    number: FloatArray | None = None  # rows, where ``count`` is their weight

    def rows_of(self, member: BoolArray) -> float:
        """The number of rows in some cells, whatever their weight."""
        return float((self.count if self.number is None else self.number)[member].sum())

    @property
    def rows(self) -> float:
        """N."""
        return float(self.count.sum())

    @property
    def side(self) -> FloatArray:
        """1 where the decision is 1, else -1."""
        return np.where(self.selected == 1, 1.0, -1.0)

    def within(self, outcome: int | None) -> BoolArray:
        """The cells with this outcome; all cells for None."""
        return np.ones(self.count.size, dtype=bool) if outcome is None else np.asarray(self.outcome == outcome)

    @property
    def names(self) -> list[str]:
        """Every group of a cell, as one label; without groups, the value of each component of U."""
        if not self.attributes:
            return [" & ".join(f"{name}={v:g}" for name, v in zip(self.u_names, u, strict=True)) for u in self.u]
        labels = [[group.label for group in (*groups, others(groups))] for groups in self.attributes]  # -1 is the last
        return [
            " & ".join(names[code] for names, code in zip(labels, cell, strict=True))
            for cell in zip(*self.codes, strict=True)
        ]


def others(groups: tuple[Group, ...]) -> Group:
    """Everybody outside a named condition."""
    return Group(((CONDITION, f"not {groups[0].label}"),))


class Coding:
    """One whole number for everything that makes a cell: groups (and none of them), outcome, decision, U.

    ``sample`` has the roles "outcome" (if there is one), "prediction" and, for each component ``name`` of U, "u name".
    """

    def __init__(self, sample: Sample, u: Iterable[str] = ()) -> None:
        self.attributes = tuple(partition.groups for partition in sample.partitions)
        self.binary = tuple(role for role in ("outcome", "prediction") if role in sample.columns)
        self.u = {name: np.unique(sample.columns[f"u {name}"]) for name in u}
        levels = (len(groups) + 1 for groups in self.attributes)
        self.sizes = (*levels, *(2 for _ in self.binary), *(values.size for values in self.u.values()))

    def code(self, sample: Sample) -> IntArray:
        """The code of each line, by the labels of its groups: a filtered table may lack some groups."""
        parts = []
        for groups, partition in zip(self.attributes, sample.partitions, strict=True):
            place = {group.label: i + 1 for i, group in enumerate(groups)}
            parts.append(np.array([*(place[group.label] for group in partition.groups), 0])[partition.codes])
        parts += [sample.columns[role] for role in self.binary]
        parts += [np.searchsorted(values, sample.columns[f"u {name}"]) for name, values in self.u.items()]
        return np.ravel_multi_index(tuple(parts), self.sizes)

    def cells(self, code: IntArray, count: FloatArray, number: FloatArray | None = None) -> DecisionCells:
        """Take the codes of the cells apart again."""
        parts = np.unravel_index(code, self.sizes)
        first = len(self.attributes)
        last = first + len(self.binary)
        u = [values[place] for values, place in zip(self.u.values(), parts[last:], strict=True)]
        return DecisionCells(
            count=count,
            selected=parts[last - 1],
            outcome=parts[first] if len(self.binary) == 2 else None,
            attributes=self.attributes,
            codes=tuple(part - 1 for part in parts[:first]),
            u=np.column_stack(u) if u else np.empty((code.size, 0)),
            u_names=tuple(self.u),
            number=number,
        )

    def dense(self, code: IntArray) -> tuple[IntArray, IntArray]:
        """The cell of each line, and the code of each cell, in order; by counting where the range is small."""
        if np.prod(self.sizes, dtype=float) > CODES:
            codes, cell = np.unique(code, return_inverse=True)
            return cell.astype(np.intp), codes
        present = np.bincount(code, minlength=1) > 0
        return (np.cumsum(present) - 1)[code], np.flatnonzero(present)


def refuse_uncountable(column: str | None, rows: float) -> None:
    """Raise if there are more rows than floats tell apart."""
    if rows > COUNTABLE:
        raise BadCount(
            f"count: column {column!r} adds up to {rows:.3g} rows; more than {COUNTABLE:.2g} cannot be counted one by "
            "one. If it holds weights, they are not counts."
        )


def total(group: IntArray, values: FloatArray | None, size: int) -> FloatArray:
    """Sum of ``values`` (or the number of rows) in each of ``size`` classes."""
    return np.bincount(group, values, size).astype(float)


# ---- comparisons


@dataclass(frozen=True, slots=True, eq=False)
class Comparisons:
    """A criterion on the cells. Each moment compares the rate of an event with that of its reference event.

    A user-defined criterion has one event per moment: the rows that the moment is about. They have no rate.
    """

    # One entry per event.
    groups: tuple[Group, ...]
    outcomes: tuple[int | None, ...]
    member: BoolArray  # (cells, events)
    count: FloatArray  # total weight
    rows: FloatArray
    rate: FloatArray
    reference: IntArray  # the event it is compared with: itself for a reference, -1 for a user-defined criterion
    # One entry per moment.
    event: IntArray
    phi: FloatArray  # (cells, m)
    influence: FloatArray  # (cells, m): psi, whose covariance is Sigma
    value: FloatArray  # mean of C phi, the disparities
    null_variance: FloatArray | None  # (cells,): of the decision under the null; None for a user-defined criterion

    @property
    def user_defined(self) -> bool:
        """Whether the criterion is user-defined."""
        return self.null_variance is None

    @property
    def keys(self) -> list[tuple[str, ...]]:
        """What a tolerance may call each moment: its rate or its group, or its name in a user-defined criterion."""
        if self.user_defined:
            return [(group.label,) for group in self.groups]
        return [(RATES[self.outcomes[i]], self.groups[i].label) for i in self.event]


def comparisons(
    cells: DecisionCells, criterion: str | Discerning, reference: Mapping[str, object] | None = None
) -> Comparisons:
    """Evaluate a criterion on the cells."""
    if isinstance(criterion, Discerning):
        return _discerning(cells, criterion)
    outcomes = OUTCOMES[criterion]
    number = len(outcomes) * sum(len(groups) - 1 for groups in cells.attributes)
    if number > MOST:  # a column that tells people apart: every comparison varies together with every other
        most = max(cells.attributes, key=len)
        raise UsageError(
            f"groups: {number:,} comparisons at once, at most {MOST:,}; {most[0].items[0][0]!r} has {len(most):,} "
            "levels. Merge levels, or leave the column out."
        )
    events: list[tuple[Group, int | None, BoolArray, int]] = []
    for groups, codes in zip(cells.attributes, cells.codes, strict=True):
        for outcome in outcomes:
            events += _events(cells, groups, codes, outcome, reference or {}, len(events))
    members = [member for _, _, member, _ in events]
    base = np.array([first for *_, first in events], dtype=np.intp)
    count = np.array([float(cells.count[member].sum()) for member in members])
    chosen = cells.count * cells.selected
    rate = np.array([float(chosen[member].sum() / n) for member, n in zip(members, count, strict=True)])
    event = np.flatnonzero(base != np.arange(base.size))
    member = np.column_stack(members)
    scaled = member.astype(float) / (count / cells.rows)
    deviation = scaled * (cells.selected[:, None] - rate)
    variance = np.zeros(cells.count.size)  # r (1 - r), with r the rate of everybody with the same outcome
    for outcome in outcomes:
        within = cells.within(outcome)
        shared = float(cells.count[within] @ cells.selected[within] / cells.count[within].sum())
        variance[within] = shared * (1 - shared)
    return Comparisons(
        groups=tuple(group for group, *_ in events),
        outcomes=tuple(outcome for _, outcome, *_ in events),
        member=member,
        count=count,
        rows=np.array([cells.rows_of(member) for member in members]),
        rate=rate,
        reference=base,
        event=event,
        phi=scaled[:, event] - scaled[:, base[event]],
        influence=deviation[:, event] - deviation[:, base[event]],
        value=rate[event] - rate[base[event]],
        null_variance=variance,
    )


def _events(
    cells: DecisionCells,
    groups: tuple[Group, ...],
    codes: IntArray,
    outcome: int | None,
    reference: Mapping[str, object],
    first: int,
) -> list[tuple[Group, int | None, BoolArray, int]]:
    """The events of one attribute within one outcome: group, outcome, cells, and the place of the reference event.

    A named condition is compared with everybody else, a level with the one named in ``reference``, else the largest.
    """
    places = list(range(len(groups)))
    condition = len(groups) == 1 and bool((codes == -1).any())
    if condition:
        groups, places = (groups[0], others(groups)), [0, -1]
    if len(groups) < 2:
        raise OneGroup(f"groups: every row is in {groups[0].label!r}; there is nobody to compare with.")
    within = cells.within(outcome)
    members = [(codes == place) & within for place in places]
    for group, member in zip(groups, members, strict=True):
        if not cells.count[member].sum():
            where = "" if outcome is None else f" with outcome {outcome}"
            none = f"no row{where}; drop the group or merge it."
            raise NotEnoughData(f"groups: {group.label!r} has {none}", f"groups: one has {none}")
    column, _ = groups[0].items[0]
    if condition:
        base = 1
    elif column in reference:
        levels = [group.items[0][1] for group in groups]
        if reference[column] not in levels:
            raise UnknownOption(f"reference[{column!r}]", reference[column], levels)
        base = levels.index(reference[column])
    else:
        base = int(np.argmax([float(cells.count[codes == place].sum()) for place in places]))
    return [(group, outcome, member, first + base) for group, member in zip(groups, members, strict=True)]


def _discerning(cells: DecisionCells, criterion: Discerning) -> Comparisons:
    share = cells.count / cells.rows
    mean = share @ cells.u
    selected = cells.selected.astype(float)
    size = len(criterion.names)

    def phi(at: FloatArray) -> FloatArray:
        with np.errstate(all="ignore"):
            value = np.asarray(criterion.phi(cells.u, at), dtype=float)
        value = value[:, None] if value.ndim == 1 else value
        if value.shape != (cells.count.size, size) or not np.isfinite(value).all():
            raise UsageError(
                f"criterion: phi returned an array of shape {value.shape} or with values that are not finite; it must "
                f"return finite numbers of shape {(cells.count.size, size)}."
            )
        return value

    # E[phi_z C] by central differences: the mean of C phi as a function of z. The step has the units of U.
    scale = np.sqrt(share @ cells.u**2)
    step = np.cbrt(np.finfo(float).eps) * np.where(scale > 0, scale, 1.0)
    slopes = [
        (share * selected) @ (phi(mean + shift) - phi(mean - shift)) / (2 * width)
        for shift, width in zip(np.diag(step), step, strict=True)
    ]
    value = phi(mean)
    if not value.any(axis=0).all():
        raise UsageError("criterion: a component of phi is 0 for every row; it compares nothing.")
    member = value != 0
    return Comparisons(
        groups=tuple(Group(((CONDITION, name),)) for name in criterion.names),
        outcomes=(None,) * size,
        member=member,
        count=np.array([float(cells.count[rows].sum()) for rows in member.T]),
        rows=np.array([cells.rows_of(rows) for rows in member.T]),
        rate=np.full(size, np.nan),
        reference=np.full(size, -1, dtype=np.intp),
        event=np.arange(size),
        phi=value,
        influence=value * selected[:, None] + (cells.u - mean) @ np.array(slopes),
        value=(share * selected) @ value,
        null_variance=None,
    )


def covariance(cells: DecisionCells, influence: FloatArray) -> FloatArray:
    """Sigma: covariance of the influence over the rows."""
    share = cells.count / cells.rows
    centred = influence - share @ influence
    return centred.T @ (share[:, None] * centred)


def independent(phi: FloatArray) -> IntArray:
    """Places of moments that are not linear combinations of the others (two attributes may coincide)."""
    from scipy.linalg import qr

    _, triangle, order = qr(phi / np.abs(phi).max(axis=0), mode="economic", pivoting=True)
    size = np.abs(np.diag(triangle))
    return np.sort(order[: int((size > 1e-10 * size[0]).sum())]).astype(np.intp)
