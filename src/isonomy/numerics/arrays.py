"""Array types."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]
BoolArray = NDArray[np.bool_]
ObjectArray = NDArray[np.object_]
AnyArray = NDArray[Any]
