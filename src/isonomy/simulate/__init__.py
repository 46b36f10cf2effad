"""Data whose truth is known: for tests, papers, benchmarks, documentation and the demonstration.

Every design is a function of the number of rows, a seed and its parameters, and returns a `Simulated`: the
same seed gives the same data, in memory or written to parquet in bounded memory, from a thousand to a hundred
million rows.

    decisions       0/1 decisions in intersecting groups, planted disparities in any rate
    regression      the empirical-likelihood paper's real-valued designs
    classifier      the transport paper's linear classifier on Gaussian features
    alternatives    status quo and candidate scores with known utilities, on the null's boundary or off it
    discrepancies   the improvability paper's bivariate normal design
    uplift          a randomised experiment and an uplift model with known error
    scores          scores of repeated users with known outcome curves
    objectives      several scores for several outcomes
    lender          one table for all five questions
"""

from isonomy.simulate.alternatives import alternatives, discrepancies
from isonomy.simulate.classifier import classifier
from isonomy.simulate.decisions import decisions
from isonomy.simulate.lender import lender
from isonomy.simulate.objectives import expected, objectives
from isonomy.simulate.regression import regression
from isonomy.simulate.scores import scores
from isonomy.simulate.simulated import Simulated
from isonomy.simulate.uplift import uplift

__all__ = [
    "Simulated",
    "alternatives",
    "classifier",
    "decisions",
    "discrepancies",
    "expected",
    "lender",
    "objectives",
    "regression",
    "scores",
    "uplift",
]
