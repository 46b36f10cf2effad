"""How every chart looks, and how it is rendered without a browser or a network."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from isonomy.results import phrases

if TYPE_CHECKING:
    from collections.abc import Mapping

    import altair as alt

    from isonomy.numerics.arrays import IntArray


# Color-blind safe (Okabe and Ito), with enough contrast on white and on dark grey.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8A6D00", "#666666")
VERDICT_COLORS = {"violation": "#D55E00", "within_tolerance": "#009E73", "inconclusive": "#767676"}
REFERENCE = "#0072B2"  # the group that others are compared with is not judged
RULE = "#767676"
MAXIMUM_POINTS = 5_000

CONFIG: dict[str, Any] = {
    "font": "system-ui, sans-serif",
    "background": "white",  # a picture is put on pages of any color, and its text is black
    "view": {"stroke": None},
    "range": {"category": list(PALETTE)},
    "axis": {"labelFontSize": 12, "titleFontSize": 12, "labelLimit": 260, "grid": True, "gridOpacity": 0.35},
    "legend": {"labelFontSize": 12, "titleFontSize": 12, "labelLimit": 260},
    "title": {"fontSize": 14, "subtitleFontSize": 12, "anchor": "start"},
}

DARK, LIGHT = "#12161c", "#e8e6e1"  # the background and the letters of a dark chart
_LETTERS = {"labelColor": LIGHT, "titleColor": LIGHT}
_DARK: dict[str, dict[str, Any]] = {
    "axis": {**_LETTERS, "domainColor": LIGHT, "tickColor": LIGHT, "gridColor": LIGHT, "gridOpacity": 0.15},
    "legend": _LETTERS,
    "header": _LETTERS,
    "title": {"color": LIGHT, "subtitleColor": LIGHT},
    "text": {"color": LIGHT},
    "rule": {"color": LIGHT},
}

LABEL_LENGTH = 60


def short(label: str, length: int = LABEL_LENGTH) -> str:
    """A label that fits next to an axis: one line, at most ``length`` characters."""
    return phrases.cut(label, length)


def data(columns: Mapping[str, object]) -> alt.InlineData:
    """Columns as inline chart data. Missing and non-finite numbers become null."""
    import altair as alt

    plain = {name: np.asarray(values).tolist() for name, values in columns.items()}
    known = {n: [None if isinstance(v, float) and not np.isfinite(v) else v for v in part] for n, part in plain.items()}
    return alt.InlineData(values=[dict(zip(known, row, strict=True)) for row in zip(*known.values(), strict=True)])


def thin(size: int, limit: int = MAXIMUM_POINTS) -> IntArray:
    """Indices of at most ``limit`` of ``size`` points, evenly spaced, including both ends."""
    return np.arange(size) if size <= limit else np.unique(np.linspace(0, size - 1, limit).astype(np.intp))


def finish(chart: alt.TopLevelMixin) -> alt.TopLevelMixin:
    return chart.configure(**CONFIG)


def dark(chart: alt.TopLevelMixin) -> alt.TopLevelMixin:
    """The chart of a result on a dark background, for notebooks and slides that are dark.

    Parameters
    ----------
    chart : altair.Chart
        What ``plot()`` of a result returns. Charts are white unless they are passed through this function.

    Returns
    -------
    altair.Chart
        A copy; the colors of groups and verdicts are the same on both backgrounds.

    Examples
    --------
    >>> import isonomy as iso
    >>> data = iso.simulate.decisions(2_000, seed=0).columns
    >>> result = iso.flag(data, metric="selection_rate", prediction="prediction", groups="race")
    >>> iso.dark(result.plot()).to_dict()["config"]["background"]
    '#12161c'
    """
    config = {name: {**CONFIG.get(name, {}), **colors} for name, colors in _DARK.items()}
    return chart.configure(**{**CONFIG, "background": DARK, **config})


def specification(chart: alt.TopLevelMixin) -> dict[str, Any]:
    import altair as alt

    with alt.data_transformers.enable("default", max_rows=None):
        return chart.to_dict()


def to_svg(chart: alt.TopLevelMixin) -> str:
    import vl_convert

    return vl_convert.vegalite_to_svg(json.dumps(specification(chart)))


def to_png(chart: alt.TopLevelMixin, *, scale: float = 2.0) -> bytes:
    import vl_convert

    return vl_convert.vegalite_to_png(json.dumps(specification(chart)), scale=scale)
