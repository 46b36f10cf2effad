"""Audits logged to a local MLflow store."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

import isonomy as iso
from isonomy.errors import UsageError
from isonomy.integrations.mlflow import log_audit

TABLE = iso.simulate.decisions(20_000, seed=1).columns
CONFIG = {
    "columns": {"outcome": "outcome", "prediction": "prediction", "groups": ["race"]},
    "tests": [{"kind": "flag", "metric": "selection_rate"}, {"kind": "flag", "id": "a: b", "metric": "brier"}],
}


@pytest.fixture(scope="module")
def audit() -> iso.AuditResult:
    return iso.Audit.from_dict(CONFIG, data=TABLE).run()


def test_verdicts_the_largest_disparity_and_the_smallest_p(
    audit: iso.AuditResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SimpleNamespace(set_tags=Mock(), log_metrics=Mock(), log_artifacts=Mock())
    monkeypatch.setitem(sys.modules, "mlflow", store)
    log_audit(audit)
    result = audit.entries[0].result
    assert isinstance(result, iso.FlagResult)
    (metrics,) = store.log_metrics.call_args.args
    assert metrics == {  # the second test stopped and has no numbers
        "isonomy.flag-selection_rate.largest": pytest.approx(abs(result.disparity).max()),
        "isonomy.flag-selection_rate.smallest_pvalue": pytest.approx(result.adjusted_pvalue.min()),
    }
    (tags,) = store.set_tags.call_args.args
    assert tags["isonomy.a_ b.verdict"] == "failed"  # without the colon, which MLflow refuses
    assert store.log_artifacts.call_args.args[1] == "isonomy"


def test_without_mlflow_it_says_what_to_install(audit: iso.AuditResult, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(UsageError, match=r"pip install \"isonomy\[mlflow\]\""):
        log_audit(audit)


@pytest.mark.filterwarnings("ignore")
def test_a_local_store(audit: iso.AuditResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow", reason="mlflow is not installed")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((tmp_path / "store").as_uri())
    with mlflow.start_run() as run:
        iso.mlflow.log_audit(audit)
    stored = mlflow.get_run(run.info.run_id)
    assert stored.data.tags["isonomy.flag-selection_rate.verdict"] == "violation"
    assert stored.data.tags["isonomy.a_ b.verdict"] == "failed"
    assert stored.data.tags["isonomy.exit_code"] == "2"
    assert stored.data.metrics["isonomy.flag-selection_rate.largest"] > 0.01
    names = {item.path for item in mlflow.MlflowClient().list_artifacts(run.info.run_id, "isonomy")}
    assert {"isonomy/report.html", "isonomy/results.json"} <= names
