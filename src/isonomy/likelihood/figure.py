"""Charts: intervals by group, sorted, with the null and the tolerance drawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from isonomy.inference import Verdict
from isonomy.likelihood import wording
from isonomy.numerics.arrays import FloatArray
from isonomy.results import Columns, charts

if TYPE_CHECKING:
    import altair as alt

    from isonomy.likelihood.result import LikelihoodResult


def intervals(
    result: LikelihoodResult, verdicts: Sequence[Verdict], low: FloatArray, high: FloatArray, title: str
) -> alt.TopLevelMixin:
    """Each group's disparity with its interval, largest first, and its null from ``low`` to ``high``."""
    known = ~np.isnan(result.ci_low)
    order = charts.notable(np.where(known, result.disparity, np.nan), result.link.delta(result.disparity))
    columns: Columns = {
        "group": [result.names[i] for i in order],
        "disparity": result.disparity[order],
        "low": result.ci_low[order],
        "high": result.ci_high[order],
        "n": result.n[order],
        "verdict": [verdicts[i].value for i in order],
        "status": [result.status[i].value for i in order],
        **({"direction": [result.direction[i] for i in order]} if hasattr(result, "direction") else {}),
    }
    counted = wording.counted(int(known.sum()), several=len(set(result.metrics)) > 1)
    several = "" if known.sum() <= charts.DRAWN else f", the {charts.DRAWN} largest of {counted}"
    null = low[order], high[order]
    subtitle: tuple[str, ...] = ()
    if isinstance(adjusted := getattr(result, "adjusted_pvalue", None), np.ndarray):  # verdicts that rest on p-values
        columns = {**columns, "adjusted p-value": adjusted[order]}
        beyond = (result.ci_low[order] > null[1]) | (result.ci_high[order] < null[0])
        flagged = np.array([verdicts[i] is Verdict.VIOLATION for i in order], dtype=bool)
        kind, adjust = (str(result.provenance.options.get(name)) for name in ("interval", "adjust"))
        subtitle = wording.error_rates(kind, adjust, result.alpha, disagree=bool((beyond != flagged).any()))
    return charts.forest(
        "disparity",
        columns,
        axis=result.measured,
        title=f"{title}{several}",
        subtitle=subtitle,
        null=null,
        tolerance=result.tolerance,
        ratio=result.link.ratio,
        unit=result.units().get("disparity", ""),
    )
