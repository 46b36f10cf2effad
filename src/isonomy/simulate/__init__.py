"""Simulated data with a known truth, for the demonstration, the documentation, and anyone who wants to try a test.

Every design is a function of the number of rows, a seed and its options, and returns a `Simulated`: the same seed gives
the same data, in memory or written to parquet in bounded memory, from a thousand to a hundred million rows.

    lender       one table for all five questions
    decisions    0/1 decisions in intersecting groups, with planted disparities in any rate
    uplift       a randomized experiment and an uplift model with known error
"""

from isonomy.simulate.decisions import decisions
from isonomy.simulate.lender import lender
from isonomy.simulate.simulated import Simulated
from isonomy.simulate.uplift import uplift

__all__ = ["Simulated", "decisions", "lender", "uplift"]
