"""What every distance tells about itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from isonomy.errors import UsageError
from isonomy.transport import distances
from isonomy.transport.program.cost import DUAL, ORDER, check_names


@pytest.mark.parametrize("names", ["ab", 3, ("a", 1), None])
def test_names_are_a_sequence_of_names(names: Any) -> None:
    with pytest.raises(UsageError, match=r"features: .* give a sequence of column names"):
        check_names("features", names)


def test_an_array_of_names_is_one() -> None:
    check_names("features", np.array(["a", "b"]))
    assert distances.Linear(np.array(["a"]), (1.0,)).columns == ("a",)  # type: ignore[arg-type]


def test_norms_are_dual() -> None:
    for norm, order in ORDER.items():
        assert 1 / order + 1 / DUAL[norm] == pytest.approx(1.0)


def test_a_distance_of_ones_own_needs_columns_and_values() -> None:
    class Own(distances.Distance):
        features = ("x",)

        def evaluate(self, features: Any) -> Any:
            return features[:, 0]

    own = Own()
    assert own.columns == own.reads == ("x",)
    assert own.expression() is own.factor() is None
    assert own.move(np.zeros((1, 1))) is None
