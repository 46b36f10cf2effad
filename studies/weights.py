"""Size and coverage where rows have weights or belong to clusters, beside the tests that take rows as independent.

python -m studies.weights [--tables N] [--only TEXT]        writes docs/validity/weights.md
"""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import Any

import numpy as np

import isonomy as iso
from isonomy.errors import NotEnoughData
from studies.designs.people import people
from studies.lines import Line, Page, Run, Section, at_most, each, main, rejected

TABLES = 1_000
RATE: dict[str, Any] = {"metric": "selection_rate", "prediction": "decision", "groups": "group"}


def reading(design: dict[str, Any]) -> dict[str, Any]:
    """The keywords that tell a test of the design."""
    return {"cluster": "cluster"} | ({"weight": "weight"} if design.get("spread") else {})


def against_the_rest(rng: np.random.Generator, design: dict[str, Any]) -> list[float]:
    """Whether `flag` rejects, whether its interval misses 0, whether it does without the design, and no answer."""
    table = people(rng, **design)
    result = iso.flag(table, **RATE, reference="rest", **reading(design))
    naive = iso.flag(table, **RATE, reference="rest")
    missed = result.ci_low[0] > 0 or result.ci_high[0] < 0
    return [rejected(result.pvalue[0]), float(missed), rejected(naive.pvalue[0]), float(np.isnan(result.pvalue[0]))]


def jointly(rng: np.random.Generator, design: dict[str, Any]) -> list[float]:
    """Whether `certify` rejects for four groups, without the design too, and how often there is no answer."""
    table = people(rng, **design)
    table["group"] = 2 * table["group"] + rng.integers(0, 2, table["group"].size)
    naive = rejected(iso.certify(table, **RATE).pvalue)
    try:
        return [rejected(iso.certify(table, **RATE, **reading(design)).pvalue), naive, 0.0]
    except NotEnoughData:
        return [0.0, naive, 1.0]


def designs() -> list[dict[str, Any]]:
    """Clusters of every kind without weights, then weights of every kind."""
    clustered = [
        {"clusters": clusters, "heavy": heavy, "correlation": correlation, "within": within}
        for clusters, heavy, correlation, within in product(
            (20, 50, 200, 2_000), (False, True), (0.0, 0.1, 0.4), (False, True)
        )
    ]
    weighted = [
        {"clusters": clusters, "correlation": correlation, "within": True, "spread": spread, "related": related}
        for clusters, correlation, spread, related in product((50, 200), (0.0, 0.4), (0.5, 1.0), (False, True))
    ]
    return [*clustered, *weighted]


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
    "weights",
    (
        Section(
            "`flag` against the rest: rates at nominal 0.05",
            COLUMNS,
            ("rejects", "interval misses 0", "rows taken as independent", "not tested"),
            tuple(
                Run(
                    (Line(cells(design), (at_most(0.05), at_most(0.05), None, None)),),
                    each(partial(against_the_rest, design=design)),
                    TABLES,
                )
                for design in designs()
            ),
        ),
        Section(
            "`certify`, four groups: rates at nominal 0.05",
            COLUMNS,
            ("rejects", "rows taken as independent", "not tested"),
            tuple(
                Run(
                    (Line(cells(design), (at_most(0.05), None, None)),),
                    each(partial(jointly, design=design)),
                    TABLES,
                )
                for design in designs()
            ),
        ),
    ),
)


if __name__ == "__main__":
    main(PAGE)
