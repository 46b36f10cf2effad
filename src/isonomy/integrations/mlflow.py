"""Audits in MLflow: verdicts as tags, disparities and p-values as metrics, the report as an artifact."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from isonomy.errors import UsageError, shown

if TYPE_CHECKING:
    from isonomy.audit import AuditResult
    from isonomy.report import Entry

_FOLDER = "isonomy"


def log_audit(audit: AuditResult, *, prefix: str = "isonomy", artifact_path: str = _FOLDER) -> None:
    """Log an audit to the active MLflow run, or to a new one if none is active.

    Parameters
    ----------
    audit : AuditResult
        The result of ``Audit.run()``. Small groups are withheld in it, and so in what is logged.
    prefix : str, default "isonomy"
        The prefix of the names of tags and metrics.
    artifact_path : str, default "isonomy"
        The folder among the run's artifacts for the report, results.json, summary.md and junit.xml.

    Notes
    -----
    Tags: ``isonomy.<test>.verdict``, ``isonomy.exit_code`` and ``isonomy.fingerprint``. Metrics, where a test has them:
    ``isonomy.<test>.largest`` (the largest absolute disparity of a group) and ``isonomy.<test>.smallest_pvalue``.
    """
    from isonomy.audit import AuditResult

    if not isinstance(audit, AuditResult):
        raise UsageError(f"audit: {shown(audit)}; give what Audit.run() gives back.")
    mlflow = _mlflow()
    tags = {f"{prefix}.exit_code": str(audit.exit_code)}
    fingerprint = dict(audit.document.facts).get("Fingerprint of the rows")
    if fingerprint:
        tags[f"{prefix}.fingerprint"] = fingerprint
    metrics: dict[str, float] = {}
    for entry in audit.entries:
        name = f"{prefix}.{_plain(entry.name)}"
        tags[f"{name}.verdict"] = entry.verdict
        metrics |= {f"{name}.{key}": value for key, value in _numbers(entry).items()}
    mlflow.set_tags(tags)
    mlflow.log_metrics(metrics)
    with tempfile.TemporaryDirectory() as folder:
        audit.write(Path(folder) / "report")
        mlflow.log_artifacts(str(Path(folder) / "report"), artifact_path)


def _numbers(entry: Entry) -> dict[str, float]:
    """The largest disparity and the smallest p-value of a test, where it has them."""
    if entry.result is None:
        return {}
    table = entry.result.table()
    numbers = {}
    for key, columns, pick in (
        ("largest", ("disparity",), np.nanmax),
        ("smallest_pvalue", ("adjusted_pvalue", "pvalue"), np.nanmin),
    ):
        name = next((column for column in columns if column in table), None)
        values = np.abs(np.asarray(table[name], dtype=float)) if name else np.array([])
        if np.isfinite(values).any():
            numbers[key] = float(pick(values[np.isfinite(values)]))
    return numbers


def _plain(name: str) -> str:
    """A name as MLflow takes it."""
    return re.sub(r"[^\w\-. /]", "_", name)[:150]


def _mlflow() -> Any:
    try:
        import mlflow
    except ImportError:
        raise UsageError('mlflow: not installed; pip install "isonomy[mlflow]".') from None
    return mlflow
