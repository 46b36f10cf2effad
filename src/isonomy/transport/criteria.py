"""Which equality is asked for: the discerning tuple (U, phi) of Definition 1, on cells of equal rows.

A cell holds the rows that agree on every group, the outcome and the decision C. U and phi are constant on it, so
everything here is a small matrix. The built-in criteria compare selection rates of *events* (a group, within a label)
with those of a reference event: phi_t = U_t / mu_t - U_b / mu_b. `Discerning` is any other tuple.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
import numpy.typing as npt

from isonomy.errors import NotEnoughData, OneGroup, UnknownOption, UsageError
from isonomy.frames import Group
from isonomy.numerics.arrays import FloatArray, IntArray
from isonomy.transport import wording

# The labels within which selection rates are compared; None is everybody.
LABELS: dict[str, tuple[int | None, ...]] = {
    "equal_opportunity": (1,),
    "predictive_equality": (0,),
    "equalized_odds": (1, 0),
    "statistical_parity": (None,),
}
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
    u
        Name -> expression for each component of U, a function of groups and outcome with few distinct values.
    phi
        ``phi(u, mean)`` takes U as an array of shape (rows, components) and its mean, and returns an array of shape
        (rows, m). It must be smooth in ``mean``.
    names
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

    u: Mapping[str, nw.Expr]
    phi: Callable[[FloatArray, FloatArray], Any]
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        if not (isinstance(self.u, Mapping) and self.u and all(isinstance(e, nw.Expr) for e in self.u.values())):
            raise UsageError(wording.bad_tuple("u", self.u))
        if not callable(self.phi):
            raise UsageError(wording.bad_tuple("phi", self.phi))
        if isinstance(self.names, str) or not self.names:
            raise UsageError(wording.bad_tuple("names", self.names))


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Rows that agree on groups, outcome, decision and U, counted. Arrays have one entry a cell."""

    count: FloatArray
    selected: IntArray  # the decision, 0 or 1
    outcome: IntArray | None
    codes: tuple[IntArray, ...]  # one array a grouping: the group, -1 outside a named condition
    groups: tuple[tuple[Group, ...], ...]
    u: FloatArray  # (cells, components) for a user-made tuple, else (cells, 0)
    u_names: tuple[str, ...] = ()

    @property
    def rows(self) -> float:
        """N."""
        return float(self.count.sum())


@dataclass(frozen=True, slots=True, eq=False)
class Event:
    """The rows of one group within one label: who they are, how many, how many selected."""

    name: str
    label: int | None
    member: npt.NDArray[np.bool_]  # one a cell
    count: float
    rate: float
    reference: int  # the event it is compared with; its own place if it is a reference


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """The tuple on the cells, ready for the program and for the law."""

    names: tuple[str, ...]
    events: tuple[Event, ...]
    component: IntArray  # (m,): the event each moment is about, -1 for a user-made tuple
    phi: FloatArray  # (cells, m)
    influence: FloatArray  # (cells, m): psi, whose covariance is Sigma
    null_variance: FloatArray | None  # (cells,): of the decision under the null; None for a user-made tuple
    value: FloatArray  # (m,): mean of C phi, the disparities


def moments(cells: Cells, criterion: str | Discerning, reference: Mapping[str, object] | None = None) -> Moments:
    """Evaluate a criterion on the cells."""
    if isinstance(criterion, Discerning):
        return _custom(cells, criterion)
    labels = LABELS[criterion]
    events: list[Event] = []
    for codes, groups in zip(cells.codes, cells.groups, strict=True):
        for label in labels:
            events += _events(cells, codes, groups, label, reference or {}, len(events))
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
    codes: IntArray,
    groups: tuple[Group, ...],
    label: int | None,
    reference: Mapping[str, object],
    first: int,
) -> list[Event]:
    """The events of one grouping within one label. A named condition is compared with everybody else."""
    names = [group.label for group in groups]
    levels = list(range(len(groups)))
    if len(groups) == 1 and (codes == -1).any():
        levels, names = [0, -1], [names[0], wording.rest(names[0])]
    if len(levels) < 2:
        raise OneGroup(f"groups: every row is in {names[0]!r}; there is nobody to compare with.")
    within = np.ones(codes.size, dtype=bool) if label is None else cells.outcome == label
    members = [(codes == level) & within for level in levels]
    counts = [float(cells.count[member].sum()) for member in members]
    for name, count in zip(names, counts, strict=True):
        if count == 0:
            raise NotEnoughData(wording.no_rows(name, label))
    base = _base(groups, levels, [float(cells.count[codes == level].sum()) for level in levels], reference)
    rates = [float((cells.count * cells.selected)[m].sum() / n) for m, n in zip(members, counts, strict=True)]
    return [
        Event(name, label, member, count, rate, first + base)
        for name, member, count, rate in zip(names, members, counts, rates, strict=True)
    ]


def _base(groups: tuple[Group, ...], levels: list[int], sizes: list[float], reference: Mapping[str, object]) -> int:
    """The level others are compared with: the one named, everybody else for a condition, or the largest."""
    if -1 in levels:
        return levels.index(-1)
    ((dimension, _),) = groups[0].items
    if dimension not in reference:
        return int(np.argmax(sizes))
    values = [group.mapping[dimension] for group in groups]
    if reference[dimension] not in values:
        raise UnknownOption(f"reference[{dimension!r}]", reference[dimension], values)
    return values.index(reference[dimension])


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
            raise UsageError(wording.bad_phi(value.shape, (cells.count.size, len(criterion.names))))
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
        raise UsageError(wording.zero_phi())
    influence = value * selected[:, None] + (cells.u - mean) @ np.array(slopes)
    nobody = np.full(len(criterion.names), -1, dtype=np.intp)
    return Moments(criterion.names, (), nobody, value, influence, None, (share * selected) @ value)
