"""How a computation ended, in one vocabulary for every solver, group and test."""

from __future__ import annotations

from enum import StrEnum


class Status(StrEnum):
    """How a computation ended. Everything but `OK` is shown to the user next to the number."""

    OK = "ok"
    REFERENCE = "reference"  # the reference level itself: nothing to test
    EMPTY = "empty"  # no row
    TOO_SMALL = "too_small"  # below the minimum size: listed, not tested
    WEAK_PROXY = "weak_proxy"  # probabilities that carry little information about the group: listed, not tested
    FEW_CLUSTERS = "few_clusters"  # too few clusters to judge their spread by: listed, not tested
    FEW_EVENTS = "few_events"  # too few events for any test to show anything: estimated, not tested
    SKEWED = "skewed"  # too few rows for so skewed a metric: estimated, no verdict
    CONSTANT = "constant"  # one distinct value: no variance to judge by
    OUTSIDE_RANGE = "outside_range"  # the null lies outside the range of the data: p = 0
    UNBOUNDED = "unbounded"  # an interval with no end on one or both sides
    NOT_CONVERGED = "not_converged"  # the solver stopped at its iteration limit
    INFEASIBLE = "infeasible"  # no solution satisfies the constraints
    ATOMS = "atoms"  # ties at the boundary: no density, another test was used
    UNSUPPORTED = "unsupported"  # too little data near a point: not estimated
    EXTRAPOLATED = "extrapolated"  # beyond the data, by a stated rule
    NO_OVERLAP = "no_overlap"  # too many people without a comparable one: estimated, not tested
    SEPARATED = "separated"  # factors that determine the outcome: no regression exists
    NO_TREATED = "no_treated"  # a group without treated rows
    NO_CONTROL = "no_control"  # a group without control rows
    ZERO_BASELINE = "zero_baseline"  # a ratio with nothing in its denominator
    TIME_LIMIT = "time_limit"  # stopped by the time limit with the gap reported
    FAILED = "failed"  # raised; the message is in the warnings
    SUPPRESSED = "suppressed"  # withheld because the group is smaller than the disclosure limit
