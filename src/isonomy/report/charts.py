"""A result's picture as a specification the page can draw, and the library that draws it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache

import numpy as np
from markupsafe import Markup

from isonomy.report import wording
from isonomy.results import Result
from isonomy.results.theme import specification


@dataclass(frozen=True, slots=True)
class Chart:
    """A Vega-Lite specification as JSON that is safe inside a script element, or the reason there is none."""

    specification: Markup | None
    problem: str = ""


def chart(result: Result) -> Chart:
    """The picture of a result. A picture that cannot be drawn must not take the report with it."""
    try:
        drawn = specification(result.plot())
        drawn["config"] = {**drawn.get("config", {}), "background": "transparent"}  # the page has its own, and its ink
        return Chart(embedded(drawn))
    except Exception as error:
        return Chart(None, wording.no_chart(f"{type(error).__name__}: {error}"))


def embedded(value: object) -> Markup:
    """JSON in which nothing can end the element it stands in."""
    text = json.dumps(value, allow_nan=False, default=_plain, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def _plain(value: object) -> object:
    """Numpy numbers and enums that a chart's data may hold."""
    return value.item() if isinstance(value, np.generic) else str(value)


@cache
def library() -> str:
    """Vega, Vega-Lite and vega-embed in one script, from the renderer's own copy: no network."""
    import vl_convert

    return vl_convert.javascript_bundle()  # type: ignore[call-arg]
