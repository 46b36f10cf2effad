"""What `calibration_metrics` returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from isonomy.calibration.estimate import MetricsEstimates
from isonomy.calibration.plan import MetricsPlan
from isonomy.calibration.tally import Tally
from isonomy.numerics.arrays import FloatArray
from isonomy.results import Call, Columns, phrases
from isonomy.results.shape import as_frame, read_only


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class CalibrationMetrics:
    """One row for each score and group (``overall`` first): see `calibration_metrics`."""

    score: tuple[str, ...]
    group: tuple[str, ...]
    size: FloatArray  # rows
    calibration_error: FloatArray
    parity_error: FloatArray
    ece: FloatArray
    auc: FloatArray
    dropped: Mapping[str, int]  # rows left out, by the column whose value is missing
    backend: str = "polars"
    warnings: tuple[str, ...] = ()  # why some numbers are NaN
    clusters: FloatArray | None = None  # where rows belong together
    effective_clusters: FloatArray | None = None  # how many of equal weight they are worth

    def __post_init__(self) -> None:
        read_only(self)

    @classmethod
    def of(
        cls,
        call: Call,
        plan: MetricsPlan,
        tallies: Mapping[str, Tally],
        estimates: MetricsEstimates,
        warnings: tuple[str, ...],
    ) -> CalibrationMetrics:
        """Lay out the measures of all scores."""
        families = {name: measures.family for name, measures in estimates.scores.items()}
        values = np.concatenate([measures.values for measures in estimates.scores.values()])
        clusters = effective = None
        if call.source.cluster is not None:
            grouping = next(iter(plan.scores.values())).grouping
            known = {label: both for label, *both in call.clusters(grouping, "overall")}
            labels = [["overall", *(group.label for group in family.groups)] for family in families.values()]
            numbers = np.array([known.get(label, (0, np.nan)) for each in labels for label in each], dtype=float)
            clusters, effective = numbers.T
        return cls(
            score=tuple(name for name, family in families.items() for _ in range(len(family.groups) + 1)),
            group=tuple(
                label
                for family in families.values()
                for label in ("overall", *(group.label for group in family.groups))
            ),
            size=np.concatenate([[family.size.sum(), *family.size] for family in families.values()]),
            calibration_error=values[:, 0],
            parity_error=values[:, 1],
            ece=values[:, 2],
            auc=values[:, 3],
            dropped={name: n for tally in tallies.values() for name, n in tally.dropped.items()},
            backend=call.source.backend,
            warnings=warnings,
            clusters=clusters,
            effective_clusters=effective,
        )

    def table(self) -> Columns:
        """The columns of `to_frame`, in order."""
        design = {"clusters": self.clusters, "effective_clusters": self.effective_clusters}
        return {item.name: getattr(self, item.name) for item in fields(self)[:7]} | {
            name: values for name, values in design.items() if values is not None
        }

    def to_frame(self, backend: str | None = None) -> Any:
        """The table in the caller's library (pandas, polars or pyarrow); polars for any other input."""
        return as_frame(self.table(), backend, self.backend)

    def __repr__(self) -> str:
        return f"<CalibrationMetrics of {phrases.listed(list(dict.fromkeys(self.score)))}: {len(self.group):,} rows>"

    def _repr_html_(self) -> str:
        """Notebook display: the first rows of the table. Every label is text."""
        from isonomy.results.display import table

        return table(self.table())
