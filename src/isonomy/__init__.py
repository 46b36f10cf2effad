"""Statistical evidence about the fairness of model decisions, from any table.

Names are resolved on first use, so that importing isonomy loads no engine, no plotting and no model library. They are
listed once, in ``__init__.pyi``, which type checkers read too.
"""

from __future__ import annotations

import ast
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

__version__ = "0.2.0.dev0"


def _exports() -> dict[str, str]:
    """The public names and the modules they come from, as the stub imports them."""
    stub = ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: str(node.module) for node in imports for alias in node.names}


_EXPORTS = _exports()
__all__ = [*sorted(_EXPORTS), "__version__"]


def __getattr__(name: str) -> object:
    home = _EXPORTS.get(name, __name__)
    if home != __name__ and hasattr(module := import_module(home), name):
        value = getattr(module, name)
    elif find_spec(f"{home}.{name}") is not None:  # a subpackage, or another module
        value = import_module(f"{home}.{name}")
    else:
        raise AttributeError(f"module 'isonomy' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
