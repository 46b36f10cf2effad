"""Simulated populations whose truth is known in closed form, for studies, tests, papers and benchmarks.

They are built like those of `isonomy.simulate`, which ships only what the demonstration and the documentation need.

    classifier      the transport paper's linear classifier on Gaussian features
    regression      the empirical-likelihood paper's real-valued models
    alternatives    status quo and candidate scores with known utilities, on or off the boundary of the null
    discrepancies   the improvability paper's bivariate normal design
    scores          scores of repeated users with known outcome curves
    people          decisions about weighted, clustered rows, in groups that do not differ
    objectives      several scores for several outcomes
    reruns          p-values of splits of one table, for an analyst who reruns a test
"""

from studies.designs.alternatives import alternatives, discrepancies
from studies.designs.classifier import classifier
from studies.designs.objectives import expected, objectives
from studies.designs.people import people
from studies.designs.regression import regression
from studies.designs.scores import scores

__all__ = ["alternatives", "classifier", "discrepancies", "expected", "objectives", "people", "regression", "scores"]
