"""Makes the made-up results of the report's tests importable."""

import sys
from pathlib import Path

_FAKES = str(Path(__file__).resolve().parents[1] / "report")
if _FAKES not in sys.path:
    sys.path.append(_FAKES)
