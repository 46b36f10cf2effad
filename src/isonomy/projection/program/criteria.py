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
        Each component of U, a function of groups and outcome. Rows with the same values form a cell, so few distinct
        values are fastest; continuous ones work.
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


class DecisionCells:
    """The cells, in the order of their codes. Arrays have one entry per cell.

    A code is one whole number for everything that makes a cell: groups (and none of them), outcome, decision, U.
    ``sample`` has the roles "outcome" (if there is one), "prediction" and, for each component ``name`` of U, "u name";
    ``count`` is the column that says how many rows each line stands for.
    """

    def __init__(self, sample: Sample, u: Iterable[str] = (), count: str | None = None) -> None:
        # The groups of each column, or one named condition.
        self.attributes = tuple(partition.groups for partition in sample.partitions)
        self._binary = tuple(role for role in ("outcome", "prediction") if role in sample.columns)
        self._u = {name: np.unique(sample.columns[f"u {name}"]) for name in u}
        levels = (len(groups) + 1 for groups in self.attributes)
        self._sizes = (*levels, *(2 for _ in self._binary), *(values.size for values in self._u.values()))
        code = self._code(sample)
        # By counting where the range is small, else by sorting.
        few = np.prod(self._sizes, dtype=float) <= CODES
        self._codes = np.flatnonzero(np.bincount(code)) if few else np.unique(code)
        self.lines = self._cell(code)  # the cell of each line of the sample
        parts, first, size = np.unravel_index(self._codes, self._sizes), len(self.attributes), self._codes.size
        last = first + len(self._binary)
        self.codes = tuple(part - 1 for part in parts[:first])  # of groups; -1 outside a named condition
        self.outcome: IntArray | None = parts[first] if len(self._binary) == 2 else None
        self.selected: IntArray = parts[last - 1]  # the decision, 0 or 1
        self.side = np.where(self.selected == 1, 1.0, -1.0)
        values = [values[place] for values, place in zip(self._u.values(), parts[last:], strict=True)]
        self.u = np.column_stack(values) if values else np.empty((size, 0))  # (cells, components)
        self.count = total(self.lines, sample.weight, size)
        self.number = self.count if sample.design is None else total(self.lines, sample.count, size)  # without weights
        self.rows = float(self.count.sum())
        if self.rows > COUNTABLE:
            raise BadCount(
                f"count: column {count!r} adds up to {self.rows:.3g} rows; more than {COUNTABLE:.2g} cannot be "
                "counted one by one. If it holds weights, they are not counts."
            )

    def locate(self, sample: Sample) -> IntArray:
        return self._cell(self._code(sample))

    def within(self, outcome: int | None) -> BoolArray:
        """The cells with this outcome; all cells for None."""
        return np.ones(self.count.size, dtype=bool) if outcome is None else np.asarray(self.outcome == outcome)

    @property
    def names(self) -> list[str]:
        """Every group of a cell, as one label; without groups, the value of each component of U."""
        if not self.attributes:
            return [" & ".join(f"{name}={v:g}" for name, v in zip(self._u, u, strict=True)) for u in self.u]
        labels = [[group.label for group in (*groups, others(groups))] for groups in self.attributes]  # -1 is the last
        return [
            " & ".join(names[code] for names, code in zip(labels, cell, strict=True))
            for cell in zip(*self.codes, strict=True)
        ]

    def _code(self, sample: Sample) -> IntArray:
        """The code of each line, by the labels of its groups: a filtered table may lack some groups."""
        parts = []
        for groups, partition in zip(self.attributes, sample.partitions, strict=True):
            place = {group.label: i + 1 for i, group in enumerate(groups)}
            parts.append(np.array([*(place[group.label] for group in partition.groups), 0])[partition.codes])
        parts += [sample.columns[role] for role in self._binary]
        parts += [np.searchsorted(values, sample.columns[f"u {name}"]) for name, values in self._u.items()]
        return np.ravel_multi_index(tuple(parts), self._sizes)

    def _cell(self, code: IntArray) -> IntArray:
        if self._codes[-1] > CODES:
            return np.searchsorted(self._codes, code).astype(np.intp)
        place = np.zeros(self._codes[-1] + 1, dtype=np.intp)
        place[self._codes] = np.arange(self._codes.size)
        return place[code]


def others(groups: tuple[Group, ...]) -> Group:
    return Group(((CONDITION, f"not {groups[0].label}"),))


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
    rate: FloatArray
    reference: IntArray  # the event it is compared with: itself for a reference, -1 for a user-defined criterion
    # One entry per moment.
    event: IntArray
    phi: FloatArray  # (cells, m)
    influence: FloatArray  # (cells, m): psi, whose covariance is Sigma
    value: FloatArray  # mean of C phi, the disparities
    # (cells,): the rate of everybody with the same outcome, as under the null; None for a user-defined criterion
    null_rate: FloatArray | None

    @property
    def user_defined(self) -> bool:
        return self.null_rate is None

    @property
    def keys(self) -> list[tuple[str, ...]]:
        """What a tolerance may call each moment: its rate or its group, or its name in a user-defined criterion."""
        if self.user_defined:
            return [(group.label,) for group in self.groups]
        return [(RATES[self.outcomes[i]], self.groups[i].label) for i in self.event]


def comparisons(
    cells: DecisionCells, criterion: str | Discerning, reference: Mapping[str, object] | None = None
) -> Comparisons:
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
    base = np.array([first for *_, first in events], dtype=np.intp)
    event = np.flatnonzero(base != np.arange(base.size))
    member = np.column_stack([inside for _, _, inside, _ in events])
    count = cells.count @ member
    rate = (cells.count * cells.selected) @ member / count
    scaled = member.astype(float) / (count / cells.rows)
    deviation = scaled * (cells.selected[:, None] - rate)
    null_rate = np.zeros(cells.count.size)
    for outcome in outcomes:
        within = cells.within(outcome)
        null_rate[within] = cells.count[within] @ cells.selected[within] / cells.count[within].sum()
    return Comparisons(
        groups=tuple(group for group, *_ in events),
        outcomes=tuple(outcome for _, outcome, *_ in events),
        member=member,
        rate=rate,
        reference=base,
        event=event,
        phi=scaled[:, event] - scaled[:, base[event]],
        influence=deviation[:, event] - deviation[:, base[event]],
        value=rate[event] - rate[base[event]],
        null_rate=null_rate,
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

    def phi(z: FloatArray) -> FloatArray:
        with np.errstate(all="ignore"):
            value = np.asarray(criterion.phi(cells.u, z), dtype=float)
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
    return Comparisons(
        groups=tuple(Group(((CONDITION, name),)) for name in criterion.names),
        outcomes=(None,) * size,
        member=value != 0,
        rate=np.full(size, np.nan),
        reference=np.full(size, -1, dtype=np.intp),
        event=np.arange(size),
        phi=value,
        influence=value * selected[:, None] + (cells.u - mean) @ np.array(slopes),
        value=(share * selected) @ value,
        null_rate=None,
    )


def covariance(cells: DecisionCells, influence: FloatArray) -> FloatArray:
    """Sigma: covariance of the influence over the rows."""
    share = cells.count / cells.rows
    centered = influence - share @ influence
    return centered.T @ (share[:, None] * centered)


def corollary_covariance(cells: DecisionCells, moments: Comparisons) -> FloatArray:
    """Sigma with the variances of Corollary 1 as printed, which centers each group at the rate of the other."""
    share, event = cells.count / cells.rows, moments.event
    first, second = moments.member[:, event], moments.member[:, moments.reference[event]]
    mean, other = share @ first, share @ second
    chosen, selected = cells.selected[:, None] * (other * first - mean * second), share * cells.selected
    influence = (chosen + second * (selected @ first) - first * (selected @ second)) / (mean * other)
    return np.diag(np.diag(covariance(cells, influence)))
