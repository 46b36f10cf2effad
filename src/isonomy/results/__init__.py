"""Results out: the shared shape, verdicts, wording, JSON, tables and the chart theme. No statistic is computed here."""

from isonomy.numerics.status import Status
from isonomy.results.shape import Provenance, Result, Verdict, provenance, suppress
from isonomy.results.storage import SCHEMA_VERSION, from_dict, from_json, storable

__all__ = [
    "SCHEMA_VERSION",
    "Provenance",
    "Result",
    "Status",
    "Verdict",
    "from_dict",
    "from_json",
    "provenance",
    "storable",
    "suppress",
]
