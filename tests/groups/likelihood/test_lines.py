"""Units of a joint likelihood."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isonomy as iso
from isonomy.errors import NotEnoughData
from isonomy.groups.likelihood.lines import Lines, Units
from support.groups import moved

LOSS: dict[str, Any] = {"metric": iso.Metric("loss", value=iso.col("loss")), "groups": "race"}


def test_equal_lines_are_one_whatever_their_order() -> None:
    codes, values = np.array([1, 0, 1, 0, 1]), np.array([0.5, 2.0, 0.5, 1.0, 0.25])
    together, lines = Lines(False, values, np.array([1.0, 2.0, 3.0, 1.0, 1.0])).collapsed(codes)
    assert together.tolist() == [0, 0, 1, 1]
    assert lines.value.tolist() == [1.0, 2.0, 0.25, 0.5]
    assert lines.weight is not None
    assert lines.weight.tolist() == [1.0, 2.0, 1.0, 4.0]
    assert lines.influence is None


def test_a_constant_metric_has_no_spread_to_divide_by() -> None:
    data, _ = moved(0.0, 1.0)
    data["loss"] = np.full(160, 0.1)
    with pytest.raises(NotEnoughData, match="no variation"):
        iso.certify(data, **LOSS)
    lines = Lines(False, data["loss"])
    units, standard = lines.standard()
    assert units == Units(0.1, 1.0)
    assert (standard.value == 0).all()
