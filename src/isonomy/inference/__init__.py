"""From numbers to conclusions: many p-values at once, simultaneous limits, and the one rule for verdicts."""

from isonomy.inference.decide import Decisions, Verdict, answered, conclude, inside, overall, rejected, settle

__all__ = ["Decisions", "Verdict", "answered", "conclude", "inside", "overall", "rejected", "settle"]
