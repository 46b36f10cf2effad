"""Calls of the questions about scores, with the options of curves written flat."""

from __future__ import annotations

from typing import Any

import isonomy as iso


def curved(options: dict[str, Any]) -> dict[str, Any]:
    """The options of a call, with those of `isonomy.curves` in their place."""
    names = ("level", "grid", "bandwidth", "kernel", "order", "resamples")
    inner = {name: options[name] for name in names if name in options}
    rest = {name: value for name, value in options.items() if name not in inner}
    return rest | {"method": iso.curves(options.get("method"), **inner)} if inner else rest
