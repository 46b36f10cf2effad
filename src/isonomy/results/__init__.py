"""Results out: the shared shape, verdicts, wording, JSON, tables and the chart theme. No statistic is computed here."""

from isonomy.inference import Verdict
from isonomy.numerics.status import Status
from isonomy.results.call import QUESTIONS, Call, Question, open_call, question
from isonomy.results.shape import Columns, GroupResult, Options, Provenance, Result, provenance, suppress
from isonomy.results.storage import SCHEMA_VERSION, from_dict, from_json, storable

__all__ = [
    "QUESTIONS",
    "SCHEMA_VERSION",
    "Call",
    "Columns",
    "GroupResult",
    "Options",
    "Provenance",
    "Question",
    "Result",
    "Status",
    "Verdict",
    "from_dict",
    "from_json",
    "open_call",
    "provenance",
    "question",
    "storable",
    "suppress",
]
