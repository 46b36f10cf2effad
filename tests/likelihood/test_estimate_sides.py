"""What groups are set beside, and which can be tested."""

from __future__ import annotations

from typing import Any

import numpy as np

import isonomy as iso
from isonomy.results import Status

RATE: dict[str, Any] = {"metric": "selection_rate", "groups": "race", "prediction": "selected"}


def test_the_reference_level_itself_is_not_tested(lender: dict[str, Any]) -> None:
    result = iso.flag(lender, reference={"race": "b"}, **RATE)
    assert result.status == (Status.OK, Status.REFERENCE, Status.OK)
    assert np.isnan(result.pvalue[1])
    assert result.disparity[1] == 0
