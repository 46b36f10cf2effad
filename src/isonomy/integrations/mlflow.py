"""Audits in MLflow: verdicts as tags, disparities and p-values as metrics, the report as an artifact."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from isonomy.errors import UsageError, shown

if TYPE_CHECKING:
    from isonomy.audit import AuditResult


def log_audit(audit: AuditResult) -> None:
    """Log an audit to the active MLflow run, or to a new one if none is active.

    Parameters
    ----------
    audit : AuditResult
        The result of ``Audit.run()``. Small groups are withheld in it, and so in what is logged.

    Notes
    -----
    The report, results.json, summary.md and junit.xml are artifacts in the folder ``isonomy``. Tags:
    ``isonomy.<test>.verdict``, ``isonomy.exit_code`` and ``isonomy.fingerprint``. Metrics, where a test has them:
    ``isonomy.<test>.largest`` (the largest absolute disparity of a group) and ``isonomy.<test>.smallest_pvalue``.
    """
    from isonomy.audit import AuditResult
    from isonomy.report.document import FINGERPRINT

    if not isinstance(audit, AuditResult):
        raise UsageError(f"audit: {shown(audit)}; give the result of Audit.run().")
    try:
        import mlflow
    except ImportError:
        raise UsageError('mlflow: not installed; pip install "isonomy[mlflow]".') from None
    tags = {"isonomy.exit_code": str(audit.exit_code)}
    if fingerprint := dict(audit.document.facts).get(FINGERPRINT):
        tags["isonomy.fingerprint"] = fingerprint
    metrics: dict[str, float] = {}
    for entry in audit.entries:
        plain = re.sub(r"[^\w\-. /]", "_", entry.name)[:150]  # a name that MLflow accepts
        tags[f"isonomy.{plain}.verdict"] = entry.verdict
        table = {} if entry.result is None else entry.result.table()
        pvalue = "adjusted_pvalue" if "adjusted_pvalue" in table else "pvalue"
        for key, column, pick in (("largest", "disparity", np.max), ("smallest_pvalue", pvalue, np.min)):
            values = np.abs(np.asarray(table.get(column, ()), dtype=float))
            if np.isfinite(values).any():
                metrics[f"isonomy.{plain}.{key}"] = float(pick(values[np.isfinite(values)]))
    mlflow.set_tags(tags)
    mlflow.log_metrics(metrics)
    with tempfile.TemporaryDirectory() as folder:
        audit.write(Path(folder) / "report")
        mlflow.log_artifacts(str(Path(folder) / "report"), "isonomy")
