"""What it costs a row to cross the decision boundary: what every distance tells about itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from numbers import Real
from typing import Any, Literal

import narwhals as nw
import numpy as np

from isonomy.errors import UsageError
from isonomy.numerics.arrays import FloatArray

Norm = Literal["l1", "l2", "linf"]
DUAL: dict[str, Any] = {"l1": np.inf, "l2": 2, "linf": 1}  # the norm dual to that in which a move is measured


class Distance(ABC):
    """What `project` needs to know of a distance."""

    signed: bool = True  # positive where the decision is 1; False: a plain distance, the side is the decision's
    tested: bool = True  # False: the null law does not hold for it; a plan is given and no p-value

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """The numeric columns it measures, in the order in which `evaluate` and `move` take them."""

    @property
    def reads(self) -> tuple[str, ...]:
        """Every column it needs: `columns`, and those that set the `factor`."""
        return self.columns

    def expression(self) -> nw.Expr | None:
        """The (signed) distance of each row, before `factor`; None where it takes arrays."""
        return None

    @abstractmethod
    def evaluate(self, features: FloatArray) -> FloatArray:
        """The (signed) distance of each row of ``features``, whose columns are `columns`, before `factor`."""

    def factor(self) -> nw.Expr | None:
        """What each row's distance is multiplied by; None for 1."""
        return None

    def move(self, features: FloatArray) -> FloatArray | None:
        """Where each row would go: the nearest point that is not on its side of the boundary (Proposition 3).

        None where it is not known; NaN for a row that cannot move.
        """
        return None


def finite(argument: str, seen: Any) -> float:
    """Return ``seen`` as a number, or raise unless it is a finite one."""
    if isinstance(seen, bool) or not (isinstance(seen, Real) and np.isfinite(float(seen))):
        raise UsageError(f"{argument}: {seen!r} is not allowed; give a finite number.")
    return float(seen)


def names(argument: str, seen: Any) -> tuple[str, ...]:
    """Return ``seen`` as column names, or raise unless it is a sequence of them: a text is not one."""
    if (
        isinstance(seen, str)
        or not isinstance(seen, Sequence | np.ndarray)
        or not all(isinstance(n, str) for n in seen)
    ):
        raise UsageError(f'{argument}: {seen!r} is not allowed; give a sequence of column names, such as ("age", "x").')
    return tuple(str(n) for n in seen)
