"""An audit as a file: config model, runner, outputs."""

from isonomy.audit.config import Config, parse, schema
from isonomy.audit.outcome import AuditResult
from isonomy.audit.runner import Audit

__all__ = ["Audit", "AuditResult", "Config", "parse", "schema"]
