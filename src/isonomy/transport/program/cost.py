"""What it costs a row to cross the decision boundary: what every distance tells about itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Annotated, Literal

import numpy as np

from isonomy.errors import UsageError, choose
from isonomy.frames.expressions import Expression
from isonomy.numerics.arrays import FloatArray
from isonomy.options import NAMES, Positive, check, check_parameters

Norm = Literal["l1", "l2", "linf"]
ORDER: dict[Norm, float] = {"l1": 1, "l2": 2, "linf": np.inf}
DUAL: dict[Norm, float] = {"l1": np.inf, "l2": 2, "linf": 1}  # dual to the norm in which a move is measured
Features = Annotated[tuple[str, ...], NAMES]


class Distance(ABC):
    """What `project` needs to know of a distance."""

    features: Features
    signed: bool = True  # positive where the decision is 1; False: a plain distance, the side is the decision's
    note: str = ""  # what a reader has to know of it
    tested: bool = True  # False: the null law does not hold for it; a plan is given and no p-value

    def __post_init__(self) -> None:
        """Check the fields of a distance that is a dataclass against their annotations."""
        check_parameters(self, {field.name: getattr(self, field.name) for field in fields(self)})  # type: ignore[arg-type]

    @property
    def columns(self) -> tuple[str, ...]:
        """The numeric columns it measures, in the order in which `evaluate` and `move` take them."""
        return tuple(self.features)

    @property
    def reads(self) -> tuple[str, ...]:
        """Every column it needs: `columns`, and those that set the `factor`."""
        return self.columns

    def expression(self) -> Expression | None:
        """The (signed) distance of each row, before `factor`; None where it takes arrays."""
        return None

    @abstractmethod
    def evaluate(self, features: FloatArray) -> FloatArray:
        """The (signed) distance of each row of ``features``, whose columns are `columns`, before `factor`."""

    def factor(self) -> Expression | None:
        """What each row's distance is multiplied by; None for 1."""
        return None

    def move(self, features: FloatArray) -> FloatArray | None:
        """Where each row would go: the nearest point that is not on its side of the boundary (Proposition 3).

        None where it is not known; NaN for a row that cannot move.
        """
        return None


def feature_costs(features: Features, immutable: Sequence[str], costs: Mapping[str, float]) -> FloatArray:
    """What one unit of each feature costs: 1, or as in ``costs``, and infinite for one that nobody can change."""
    check_names("immutable", immutable)
    if not isinstance(costs, Mapping):
        raise UsageError(f'costs: {costs!r} is not allowed; give feature -> a number above 0, such as {{"age": 2.0}}.')
    for argument, names in (("immutable", immutable), ("costs", costs)):
        for name in names:
            choose(argument, name, features)
    for cost in costs.values():
        check("costs", cost, Positive)
    if set(features) <= set(immutable):
        raise UsageError("immutable: every feature; nobody could ever cross the boundary.")
    return np.array([np.inf if name in immutable else float(costs.get(name, 1.0)) for name in features])


def check_names(argument: str, value: object) -> None:
    """Raise unless ``value`` is a sequence of column names: a text is not one."""
    sequence = isinstance(value, Sequence | np.ndarray) and not isinstance(value, str)
    if not sequence or not all(isinstance(name, str) for name in value):  # type: ignore[attr-defined]
        raise UsageError(
            f'{argument}: {value!r} is not allowed; give a sequence of column names, such as ("age", "x").'
        )
