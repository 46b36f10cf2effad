"""Size and coverage with weights and clusters, compared with tests that treat rows as independent.

python -m studies.weights [--tables N] [--only TEXT]        writes docs/weights_simulations.md
"""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import Any

import numpy as np

import isonomy as iso
from isonomy.errors import DataError
from isonomy.groups.likelihood.means import Binary
from isonomy.groups.likelihood.profile import Kind, ProfileLikelihood
from isonomy.inference.designs import FEWEST, Influence, Law, spread
from isonomy.inference.effect import Designed
from isonomy.numerics.arrays import FloatArray
from isonomy.numerics.tails import chi2_isf, chi2_sf
from studies.designs.people import CUT, many_tables, people, subjects, unequal
from studies.lines import Line, Page, Run, Section, at_most, each, main, rejected

TABLES = 1_000
RATE: dict[str, Any] = {"metric": "selection_rate", "prediction": "decision", "groups": "group"}


def reading(design: dict[str, Any]) -> dict[str, Any]:
    """The keywords that pass the design to a test."""
    return {"cluster": "cluster"} | ({"weight": "weight"} if design.get("spread") else {})


def against_the_rest(rng: np.random.Generator, tables: int, design: dict[str, Any]) -> FloatArray:
    """`flag` for the first of two groups in many tables at once, with the internal functions that `flag` calls.

    Returns whether the test rejects, whether its interval misses 0, whether it rejects if the design is ignored, and
    whether there is no answer. ``tests/validity/test_weights.py`` compares it with `flag` itself.
    """
    result = many_tables(people(rng, **design) for _ in range(tables))
    index, mass = np.arange(tables), result.design.mass.reshape(tables, 2, 2)
    own, other = (Binary(mass[:, g].sum(1), mass[:, g, 1]) for g in (0, 1))
    likelihood = ProfileLikelihood(Kind.DISJOINT, own, index, other=other, partner=index)
    value = np.array([0.0, 1.0])
    influence = np.zeros((tables, 2, 2, tables))
    members = np.zeros((2, tables, 2, 2, tables), dtype=bool)
    for sign, g, side in ((1.0, 0, own), (-1.0, 1, other)):
        influence[index, g, :, index] = sign * (value - side.mean[:, None]) / side.n[:, None]
        members[g, index, g, :, index] = True
    totals = spread(
        result.design, Influence.from_values(influence.reshape(-1, tables), members.any(0).reshape(-1, tables))
    )
    sides = [
        spread(result.design, Influence.from_values(0.0 * influence.reshape(-1, tables), m.reshape(-1, tables)))
        for m in members
    ]
    assumed = likelihood.standard_error**2
    constant = own.variance <= 0
    law, alone = totals.law(assumed), sides[0].law(assumed, constant=constant)
    law = Law(np.where(constant, alone.effect, law.effect), np.where(constant, alone.df, law.df))
    few = ~(np.minimum(sides[0].effective, sides[1].effective) >= FEWEST)
    designed = Designed(likelihood, law)
    pvalue = np.where(few, np.nan, chi2_sf(designed.statistic(0.0), 1))
    low, high = designed.interval(chi2_isf(0.05, 1))
    missed = ~few & ((low > 0) | (high < 0))
    naive = [Binary(result.rows[:, g].sum(1), result.rows[:, g, 1]) for g in (0, 1)]
    plain = ProfileLikelihood(Kind.DISJOINT, naive[0], index, other=naive[1], partner=index)
    return np.column_stack([rejected(pvalue), missed, rejected(chi2_sf(plain.statistic(0.0), 1)), few])


# For each method: function, options, attribute of the p-values, and columns of an interval for a quantity that is 0.
SCORES: dict[str, Any] = {"outcome": "outcome", "score": "score", "groups": "group"}
EXPERIMENT: dict[str, Any] = {
    "effect": "effect",
    "treatment": "treatment",
    "outcome": "outcome",
    "measure": "difference",
    "groups": "group",
}
METHODS: dict[str, tuple[Any, dict[str, Any], str, tuple[str, str] | None]] = {
    "certify": (iso.certify, RATE, "pvalue", None),
    "adverse_impact": (iso.adverse_impact, {"prediction": "decision", "groups": "group"}, "pvalue", None),
    "project": (iso.project, SCORES | {"prediction": "decision", "threshold": CUT, "rng": 0}, "pvalue", None),
    "improvability": (
        iso.improvability,
        {
            "outcome": "outcome",
            "groups": "group",
            "status_quo": "worse",
            "candidate": "score",
            "fairness": "selection_rate",
            "capacity": 0.5,
            "rng": 0,
        },
        "pvalue",
        None,
    ),
    "treatment_bias": (iso.treatment_bias, EXPERIMENT, "pvalue", ("ci_low", "ci_high")),
    "evaluate_corrections": (
        iso.evaluate_corrections,
        EXPERIMENT | {"strategies": ["none", "mean"], "method": iso.heldout(splits=2, resamples=20), "rng": 0},
        "pvalue",
        None,
    ),
    "predictive_parity": (iso.predictive_parity, SCORES | {"rng": 0}, "pvalue", None),
    "marginal_outcomes": (iso.marginal_outcomes, SCORES | {"threshold": CUT}, "pvalue", ("ci_low", "ci_high")),
    "equalize_thresholds": (
        iso.equalize_thresholds,
        SCORES | {"threshold": CUT, "method": iso.curves(resamples=200), "rng": 0},
        "pvalue",
        None,
    ),
}


def _asked(method: str, table: dict[str, Any], **options: str) -> tuple[float, float]:
    """Whether a method rejects or its interval misses 0, and whether it has no answer (which is not a rejection)."""
    test, given, pvalues, interval = METHODS[method]
    try:
        result = test(table, **given, **options)
    except DataError:  # too few rows, or groups that are equal to the last row
        return 0.0, 1.0
    frame = None if hasattr(result, pvalues) else result.to_frame()
    values = np.ravel(getattr(result, pvalues) if frame is None else frame[pvalues].to_numpy()).astype(float)
    missed = False
    if interval is not None:
        low, high = (result.to_frame()[end].to_numpy().astype(float)[0] for end in interval)
        missed = bool(low > 0 or high < 0)
    known = values[~np.isnan(values)]
    return float(missed or (known.size > 0 and known.min() <= 0.05)), float(not known.size)


def other_methods(rng: np.random.Generator, method: str, design: dict[str, Any]) -> list[float]:
    """Whether a method rejects, whether it does if the design is ignored (in a fifth of the tables), and no answer."""
    table = subjects(rng, **design)
    if method == "certify":  # four groups
        table["group"] = 2 * table["group"] + rng.integers(0, 2, table["group"].size)
    if method == "improvability":  # a better score that is equally unequal: on the boundary
        table = unequal(table)
    rejects, few = _asked(method, table, **reading(design))
    naive = _asked(method, table)[0] if rng.random() < 0.2 else np.nan
    return [rejects, naive, few]


def designs() -> list[dict[str, Any]]:
    """All combinations of clusters and weights."""
    return [
        {"clusters": clusters, "heavy": heavy, "correlation": correlation, "within": within, **weights}
        for weights, clusters, heavy, correlation, within in product(
            (
                {},
                *({"spread": size, "related": related} for size in (0.5, 1.0) for related in (False, True)),
            ),
            (20, 50, 200, 2_000),
            (False, True),
            (0.0, 0.1, 0.4),
            (False, True),
        )
    ]


def corners() -> list[dict[str, Any]]:
    """A selection for slower tests, with every value of every factor at least twice."""
    return [
        {"clusters": 20, "correlation": 0.1, "within": False},
        {"clusters": 50, "correlation": 0.4, "within": True},
        {"clusters": 200, "correlation": 0.4, "within": True},
        {"clusters": 200, "heavy": True, "correlation": 0.1, "within": False},
        {"clusters": 200, "correlation": 0.4, "within": True, "spread": 0.5, "related": True},
        {"clusters": 200, "correlation": 0.1, "within": False, "spread": 1.0, "related": False},
        {"clusters": 2_000, "correlation": 0.1, "within": True},
        {"clusters": 20, "correlation": 0.4, "within": True, "spread": 1.0, "related": True},
        {"clusters": 50, "correlation": 0.0, "within": False, "spread": 1.0, "related": True},
        {"clusters": 50, "heavy": True, "correlation": 0.1, "within": False, "spread": 0.5, "related": True},
        {"clusters": 2_000, "heavy": True, "correlation": 0.4, "within": False, "spread": 0.5, "related": False},
        {"clusters": 2_000, "correlation": 0.0, "within": True, "spread": 1.0, "related": True},
    ]


def cells(design: dict[str, Any]) -> tuple[str, ...]:
    """The cells that name a line."""
    spread = design.get("spread", 0.0)
    weights = "none" if not spread else f"log-sd {spread:g}{', related to the decision' if design['related'] else ''}"
    return (
        f"{design['clusters']:,}",
        "one has a fifth" if design.get("heavy") else "equal",
        f"{design['correlation']:g}",
        "within groups" if design["within"] else "across groups",
        weights,
    )


COLUMNS = ("clusters", "their sizes", "intraclass correlation", "clusters lie", "weights")
PAGE = Page(
    "weights_simulations",
    (
        Section(
            "`flag` against the rest: rates at nominal 0.05",
            COLUMNS,
            ("rejects", "interval misses 0", "rows taken as independent", "not tested"),
            tuple(
                Run(
                    (Line(cells(design), (at_most(0.05), at_most(0.05), None, None)),),
                    partial(against_the_rest, design=design),
                    TABLES,
                )
                for design in designs()
            ),
        ),
        *(
            Section(
                f"`{method}`: rates at nominal 0.05",
                COLUMNS,
                ("rejects", "rows taken as independent", "not tested"),
                tuple(
                    Run(
                        (Line(cells(design), (at_most(0.05), None, None)),),
                        each(partial(other_methods, method=method, design=design)),
                        TABLES,
                    )
                    for design in corners()
                ),
            )
            for method in METHODS
        ),
    ),
)


if __name__ == "__main__":
    main(PAGE)
