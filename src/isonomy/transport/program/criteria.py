"""Which equality is asked for: the discerning tuple (U, phi) of Definition 1, on cells of equal rows.

U and phi are constant on a cell, so everything here is a small matrix. The built-in criteria compare selection rates of
*events* (a group, within a label) with those of a reference event: phi_t = U_t / mu_t - U_b / mu_b. `Discerning` is any
other tuple.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt

from isonomy.errors import NotEnoughData, OneGroup, UnknownOption, UsageError
from isonomy.frames.expressions import Expression
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray
from isonomy.options import Also, shown
from isonomy.transport.program.cells import Attribute, Cells

Equality = Literal["equal_opportunity", "predictive_equality", "equalized_odds", "statistical_parity"]
# The labels within which selection rates are compared; None is everybody.
LABELS: dict[Equality, tuple[int | None, ...]] = {
    "equal_opportunity": (1,),
    "predictive_equality": (0,),
    "equalized_odds": (1, 0),
    "statistical_parity": (None,),
}
MOST = 2_000  # comparisons at once: their covariance is a square of that size
RATES = {1: "tpr", 0: "fpr", None: "selection_rate"}  # what the rate among each label is called
ALSO_CALLED = {
    "demographic_parity": "statistical_parity",
    "selection_rate": "statistical_parity",
    "tpr": "equal_opportunity",
    "equality_of_opportunity": "equal_opportunity",
    "fpr": "predictive_equality",
    "equalised_odds": "equalized_odds",
}


@dataclass(frozen=True, slots=True, eq=False)
class Discerning:
    """A criterion of your own: is E[C phi(U, E U)] = 0?

    Parameters
    ----------
    u : mapping of str to expression
        Each component of U, a function of groups and outcome with few distinct values.
    phi : callable
        ``phi(u, mean)`` takes U as an array of shape (rows, components) and its mean, and returns an array of shape
        (rows, m). It must be smooth in ``mean``.
    names : tuple of str
        What each of the m moments is called.

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
        for part, right, needed in (
            ("u", expressions and self.u, 'name -> expression, such as {"women": iso.col("sex") == "F"}'),
            ("phi", callable(self.phi), "a function of U and its mean"),
            (
                "names",
                self.names and not isinstance(self.names, str),
                'one name for each moment, such as ("women against men",)',
            ),
        ):
            if not right:
                raise UsageError(f"criterion: {part} is {shown(getattr(self, part))}; give {needed}.")


Criterion = Annotated[Equality, Also(ALSO_CALLED)] | Discerning


@dataclass(frozen=True, slots=True, eq=False)
class Event:
    """The rows of one group within one label: who they are, how many, how many selected."""

    name: str
    label: int | None
    member: BoolArray  # one per cell
    count: float  # what they weigh
    rate: float
    reference: int  # the event it is compared with; its own place if it is a reference
    rows: float


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """The tuple on the cells, ready for the program and for the law."""

    names: tuple[str, ...]
    events: tuple[Event, ...]
    component: IntArray  # (m,): the event each moment is about, -1 for a criterion of one's own
    phi: FloatArray  # (cells, m)
    influence: FloatArray  # (cells, m): psi, whose covariance is Sigma
    null_variance: FloatArray | None  # (cells,): of the decision under the null; None for a criterion of one's own
    value: FloatArray  # (m,): mean of C phi, the disparities

    @property
    def keys(self) -> list[tuple[str, ...]]:
        """What each moment is called: its rate and its group, or the name it has in a criterion of one's own."""
        if not self.events:
            return [(name,) for name in self.names]
        return [(RATES[self.events[i].label], self.events[i].name) for i in self.component]


def moments(cells: Cells, criterion: Equality | Discerning, reference: Mapping[str, object] | None = None) -> Moments:
    """Evaluate a criterion on the cells."""
    if isinstance(criterion, Discerning):
        return _custom(cells, criterion)
    labels = LABELS[criterion]
    _refuse_many(cells.attributes, len(labels))
    events: list[Event] = []
    for attribute, codes in zip(cells.attributes, cells.codes, strict=True):
        for label in labels:
            events += _events(cells, attribute, codes, label, reference or {}, len(events))
    component = np.array([i for i, event in enumerate(events) if event.reference != i], dtype=np.intp)
    base = np.array([events[i].reference for i in component], dtype=np.intp)
    member = np.column_stack([event.member for event in events]).astype(float)
    share = np.array([event.count for event in events]) / cells.rows
    rate = np.array([event.rate for event in events])
    scaled = member / share
    deviation = scaled * (cells.selected[:, None] - rate)
    return Moments(
        names=tuple(f"{events[i].name} against {events[j].name}" for i, j in zip(component, base, strict=True)),
        events=tuple(events),
        component=component,
        phi=scaled[:, component] - scaled[:, base],
        influence=deviation[:, component] - deviation[:, base],
        null_variance=_null_variance(cells, labels),
        value=rate[component] - rate[base],
    )


def _refuse_many(attributes: tuple[Attribute, ...], labels: int) -> None:
    """Raise about a column that tells people apart, not groups: every comparison varies together with every other."""
    number = labels * sum(len(attribute.levels) - 1 for attribute in attributes)
    if number > MOST:
        most = max(attributes, key=lambda attribute: len(attribute.levels))
        raise UsageError(
            f"groups: {number:,} comparisons at once, at most {MOST:,}; {most.name!r} has {len(most.levels):,} levels. "
            "Merge levels, or leave the column out."
        )


def covariance(cells: Cells, influence: FloatArray) -> FloatArray:
    """Sigma: covariance of the influence over the rows."""
    share = cells.count / cells.rows
    centred = influence - share @ influence
    return centred.T @ (share[:, None] * centred)


def independent(phi: FloatArray) -> IntArray:
    """Places of moments that are not linear combinations of the others (two attributes may say the same)."""
    from scipy.linalg import qr

    _, triangle, order = qr(phi / np.abs(phi).max(axis=0), mode="economic", pivoting=True)
    size = np.abs(np.diag(triangle))
    return np.sort(order[: int((size > 1e-10 * size[0]).sum())]).astype(np.intp)


def _events(
    cells: Cells,
    attribute: Attribute,
    codes: IntArray,
    label: int | None,
    reference: Mapping[str, object],
    first: int,
) -> list[Event]:
    """The events of one attribute within one label. A named condition is compared with everybody else."""
    names, levels = list(attribute.labels), list(range(len(attribute.levels)))
    if len(levels) == 1 and (codes == -1).any():
        levels, names = [0, -1], [names[0], attribute.rest]
    if len(levels) < 2:
        raise OneGroup(f"groups: every row is in {names[0]!r}; there is nobody to compare with.")
    within = np.ones(codes.size, dtype=bool) if label is None else cells.outcome == label
    members = [(codes == level) & within for level in levels]
    counts = [float(cells.count[member].sum()) for member in members]
    for name, count in zip(names, counts, strict=True):
        if count == 0:
            where = "" if label is None else f" with outcome {label}"
            none = f"no row{where}; drop the group or merge it."
            raise NotEnoughData(f"groups: {name!r} has {none}", f"groups: one has {none}")
    base = _base(attribute, levels, [float(cells.count[codes == level].sum()) for level in levels], reference)
    rates = [float((cells.count * cells.selected)[m].sum() / n) for m, n in zip(members, counts, strict=True)]
    return [
        Event(name, label, member, count, rate, first + base, cells.rows_of(member))
        for name, member, count, rate in zip(names, members, counts, rates, strict=True)
    ]


def _base(attribute: Attribute, levels: list[int], sizes: list[float], reference: Mapping[str, object]) -> int:
    """The level others are compared with: the one named, everybody else for a condition, or the largest."""
    if -1 in levels:
        return levels.index(-1)
    if attribute.name not in reference:
        return int(np.argmax(sizes))
    level = reference[attribute.name]
    if level not in attribute.levels:
        raise UnknownOption(f"reference[{attribute.name!r}]", level, attribute.levels)
    return attribute.levels.index(level)


def _null_variance(cells: Cells, labels: tuple[int | None, ...]) -> FloatArray:
    """r (1 - r) of each cell, with r the rate that all groups share under the null: that of everybody of its label."""
    result = np.zeros(cells.count.size)
    for label in labels:
        within = np.ones(result.size, dtype=bool) if label is None else cells.outcome == label
        rate = float(cells.count[within] @ cells.selected[within] / cells.count[within].sum())
        result[within] = rate * (1 - rate)
    return result


def _custom(cells: Cells, criterion: Discerning) -> Moments:
    share = cells.count / cells.rows
    mean = share @ cells.u
    selected = cells.selected.astype(float)

    def phi(at: FloatArray) -> FloatArray:
        with np.errstate(all="ignore"):
            value = np.asarray(criterion.phi(cells.u, at), dtype=float)
        value = value[:, None] if value.ndim == 1 else value
        if value.shape != (cells.count.size, len(criterion.names)) or not np.isfinite(value).all():
            expected = (cells.count.size, len(criterion.names))
            raise UsageError(
                f"criterion: phi returned an array of shape {value.shape} or with values that are not finite; it must "
                f"return finite numbers of shape {expected}."
            )
        return value

    # E[phi_z C] by central differences: the mean of C phi as a function of z.
    size = np.sqrt(share @ cells.u**2)  # the step has the units of U
    step = np.cbrt(np.finfo(float).eps) * np.where(size > 0, size, 1.0)
    slopes = [
        (share * selected) @ (phi(mean + shift) - phi(mean - shift)) / (2 * width)
        for shift, width in zip(np.diag(step), step, strict=True)
    ]
    value = phi(mean)
    if not value.any(axis=0).all():
        raise UsageError("criterion: a component of phi is 0 for every row; it compares nothing.")
    influence = value * selected[:, None] + (cells.u - mean) @ np.array(slopes)
    nobody = np.full(len(criterion.names), -1, dtype=np.intp)
    return Moments(criterion.names, (), nobody, value, influence, None, (share * selected) @ value)
