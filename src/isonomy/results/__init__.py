"""Results: evidence, its columns, notes, words, tables, charts and JSON. No statistic is computed here."""

from isonomy.inference import Verdict
from isonomy.numerics.status import Status
from isonomy.results.columns import POOLED, column
from isonomy.results.evidence import Columns, Evidence, Movement, Options, Provenance, provenance
from isonomy.results.phrases import Note, note_if, register
from isonomy.results.questions import KINDS, QUESTIONS, Plan, Question, find_question, open_call, question
from isonomy.results.storage import SCHEMA_VERSION, from_dict, from_json, storable

__all__ = [
    "KINDS",
    "POOLED",
    "QUESTIONS",
    "SCHEMA_VERSION",
    "Columns",
    "Evidence",
    "Movement",
    "Note",
    "Options",
    "Plan",
    "Provenance",
    "Question",
    "Status",
    "Verdict",
    "column",
    "find_question",
    "from_dict",
    "from_json",
    "note_if",
    "open_call",
    "provenance",
    "question",
    "register",
    "storable",
]
