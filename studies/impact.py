"""Coverage and size of comparisons within strata (`flag` with ``given``) and of impact ratios (`adverse_impact`).

python -m studies.impact [--tables N] [--only TEXT]        writes docs/groups/impact_simulations.md
"""

from __future__ import annotations

from functools import partial

import numpy as np
import numpy.typing as npt

from isonomy.groups.impact import band
from isonomy.groups.likelihood.means import LOG, Binary, linked
from isonomy.groups.likelihood.profile import Kind, ProfileLikelihood
from isonomy.groups.likelihood.strata import Scale, Strata, Stratified, accounted
from isonomy.inference.decide import Alternative
from isonomy.inference.effect import AgainstBest, Effect, Hypothesis
from isonomy.numerics.arrays import AnyArray, FloatArray
from isonomy.numerics.tails import chi2_isf, chi2_sf
from studies.lines import Asked, Line, Page, Run, Section, at_most, main, nominal, rejected

TABLES = 1_000
CRITICAL = float(chi2_isf(0.05, 1))
# rows of the group and of the others in each stratum, and the rates of the others
LARGE = (np.array([100, 150, 80, 200, 120]), np.array([300, 200, 400, 250, 150]), np.array([0.1, 0.2, 0.3, 0.4, 0.5]))
SCALES: tuple[Scale, ...] = ("difference", "ratio", "odds_ratio")
EFFECTS: dict[Scale, float] = {"difference": 0.15, "ratio": 1.4, "odds_ratio": 2.0}


def strata_design(name: str, rng: np.random.Generator) -> tuple[AnyArray, AnyArray, FloatArray]:
    """Rows of the group and of the others, and the rate of the others, in each stratum."""
    if name == "5 large strata":
        return LARGE
    if name == "5 strata of 100 against 100, rate 0.02":
        return np.full(5, 100), np.full(5, 100), np.full(5, 0.02)
    own, others = {"500 strata of 1 against 1": (1, 1), "500 strata of 1 against 3": (1, 3)}.get(name, (2, 2))
    return np.full(500, own), np.full(500, others), rng.uniform(0.1, 0.6, 500)


def moved(rate: FloatArray, scale: Scale, effect: float) -> FloatArray:
    """The rate of a group that differs from the others by ``effect``."""
    if scale == "difference":
        return rate + effect
    odds = rate / (1 - rate) * effect
    return rate * effect if scale == "ratio" else odds / (1 + odds)


def counted(n1: AnyArray, k1: AnyArray, n0: AnyArray, k0: AnyArray) -> Strata:
    """Arrays of tables x strata as `Strata`, with one group per table."""
    tables, wide = n1.shape
    group, own = np.repeat(np.arange(tables), wide), n1.ravel() > 0
    n, k, m, h = (part.ravel().astype(float) for part in (n1, k1, n0, k0))
    elsewhere = np.array([np.bincount(group[~own], part[~own], minlength=tables) for part in (m, h, h)])
    absent = np.zeros(tables, dtype=np.intp)
    stratum = np.tile(np.arange(wide), tables)
    n, k, m, h = (part[own] for part in (n, k, m, h))
    return Strata(True, 0.0, tables, group[own], stratum[own], n, k, k, m, h, h, elsewhere, absent)


def within(rng: np.random.Generator, tables: int, design: str, scale: Scale, effect: float) -> npt.ArrayLike:
    """Whether the interval covers the effect, and whether equality is rejected."""
    own, others, rate = (np.tile(part, (tables, 1)) for part in strata_design(design, rng))
    pairs = counted(own, rng.binomial(own, moved(rate, scale, effect)), others, rng.binomial(others, rate))
    low, high = Stratified(pairs, scale, np.arange(tables)).interval(CRITICAL)
    return np.column_stack([(low <= effect) & (effect <= high), rejected(chi2_sf(pairs.equality(), 1))])


def homogeneous(rng: np.random.Generator, tables: int, scale: Scale, rows: int) -> npt.ArrayLike:
    """Whether the test finds that equal effects in five strata differ."""
    own, others, rate = (np.tile(part, (tables, 1)) for part in (np.full(5, rows), np.full(5, 2 * rows), LARGE[2]))
    effect = EFFECTS[scale]
    pairs = counted(own, rng.binomial(own, moved(rate, scale, effect)), others, rng.binomial(others, rate))
    statistic, df = pairs.homogeneity(scale)
    return rejected(chi2_sf(statistic, df))


def accounts(rng: np.random.Generator, tables: int, wide: int, rows: int, matter: bool) -> npt.ArrayLike:
    """Whether the intervals of the part that strata account for, and of its share, cover the truth.

    If strata ``matter``, their rates differ and the group is more frequent where they are low.
    """
    rate = np.linspace(0.1, 0.6, wide) if matter else np.full(wide, 0.35)
    mine, theirs = (np.linspace(2, 1, wide), np.linspace(1, 2, wide)) if matter else (np.ones(wide), np.ones(wide))
    mine, theirs = mine / mine.sum(), theirs / theirs.sum()
    effect = -0.05
    n1, n0 = rng.multinomial(rows, mine, tables), rng.multinomial(2 * rows, theirs, tables)
    pairs = counted(n1, rng.binomial(n1, rate + effect), n0, rng.binomial(n0, rate))
    parts = accounted(pairs, "difference", CRITICAL)
    truth = float((mine - theirs) @ rate)
    share = truth / (truth + effect)
    return np.column_stack(
        [
            (parts["accounted_low"] <= truth) & (truth <= parts["accounted_high"]),
            (parts["share_low"] <= share) & (share <= parts["share_high"]),
        ]
    )


def threshold(rng: np.random.Generator, tables: int, rate: float, rows: tuple[int, ...]) -> npt.ArrayLike:
    """Whether a first category with a ratio of exactly 0.8 is shown to be below 0.8, and at or above it.

    The reference is the second category, or the highest one if there are more than two.
    """
    size = len(rows)
    rates, n = np.append(0.8 * rate, np.full(size - 1, rate)), np.tile(np.array(rows, dtype=float), tables)
    counts = linked(Binary(n, rng.binomial(rows, rates, (tables, size)).astype(float).ravel()), LOG)
    own = np.repeat(np.arange(tables), size - 1)
    others = size * own + np.tile(np.arange(1, size), tables)
    pairs = ProfileLikelihood(Kind.DISJOINT, counts, size * own, other=counts, partner=others).scoring_few()
    likelihood: Effect = pairs if size == 2 else AgainstBest(pairs, own)
    limit = float(np.log(0.8))
    sides: tuple[Alternative, ...] = ("less", "greater")
    return np.column_stack([rejected(likelihood.test(Hypothesis(limit, limit, side))[1]) for side in sides])


def banded(rng: np.random.Generator, tables: int, rows: int, groups: int) -> npt.ArrayLike:
    """Whether the band of the first group covers its ratio to the best at every cutoff."""
    from scipy.stats import norm

    cutoffs = np.linspace(-1.5, 1.0, 40)
    shift = np.concatenate([[-0.3], np.zeros(groups - 1)])
    shares = norm.sf(cutoffs[:, None] - shift)
    truth = shares[:, 0] / shares.max(axis=1)
    outcomes = []
    for _ in range(tables):
        scores = rng.normal(shift, 1.0, (rows, groups))
        above = np.array([(scores > cutoff).sum(axis=0) for cutoff in cutoffs], dtype=float)
        reference = 1 if groups == 2 else None
        _, low, high = band(np.full(groups, float(rows)), above, reference, 0.05, rng)
        known = ~np.isnan(low[:, 0])
        outcomes.append(bool(((low[:, 0] <= truth) & (truth <= high[:, 0] + 1e-12))[known].all()))
    return np.array(outcomes, dtype=float)


def _strata_runs() -> tuple[Run, ...]:
    names = ("5 large strata", "500 strata of 1 against 1", "500 strata of 1 against 3", "500 strata of 2 against 2")
    runs = []
    for name in (*names, "5 strata of 100 against 100, rate 0.02"):
        for scale in SCALES:
            none = 0.0 if scale == "difference" else 1.0
            draw = partial(within, design=name, scale=scale)
            runs.append(
                Run(
                    (Line((name, scale, f"{none:g}"), (nominal(0.95), at_most(0.05, "equality"))),),
                    partial(draw, effect=none),
                    TABLES,
                )
            )
            if "0.02" not in name:
                effect = EFFECTS[scale]
                line = Line((name, scale, f"{effect:g}"), (nominal(0.95),))
                runs.append(Run((line,), partial(draw, effect=effect), TABLES))
    return tuple(runs)


# Rows of the category at 0.8 times the rate of the others, and rows of the others.
SIZES = ((200, 200), (2_000, 2_000), (20, 2_000), (50, 2_000), (100, 2_000), (20, 2_000, 2_000), (200, 200, 200, 200))


PAGE = Page(
    "groups/impact_simulations",
    (
        Section(
            "Within strata: coverage of 95 % intervals, and rejection of equality at 0.05",
            ("strata", "scale", "effect"),
            ("covered", "equality rejected"),
            _strata_runs(),
        ),
        Section(
            "Equal effects in five strata said to differ, at 0.05",
            ("scale", "rows of the group in each"),
            ("said to differ",),
            tuple(
                Run((Line((scale, str(n)), (at_most(0.05),)),), partial(homogeneous, scale=scale, rows=n), TABLES)
                for scale in SCALES
                for n in (20, 50, 200)
            ),
        ),
        Section(
            "What strata account for: coverage of 95 % intervals",
            ("strata", "they matter", "rows of the group"),
            ("difference", "share"),
            tuple(
                Run(
                    (
                        Line(
                            (str(wide), "yes" if matter else "no", f"{n:,}"),
                            (nominal(0.95) if matter else Asked(0.95, "least"),) * 2,
                        ),
                    ),
                    partial(accounts, wide=wide, rows=n, matter=matter),
                    TABLES,
                )
                for matter in (True, False)
                for wide, n in ((5, 500), (5, 3_000), (50, 500), (500, 500), (500, 1_500))
            ),
        ),
        Section(
            "At a ratio of exactly 0.8: what is shown, at 0.05",
            ("rate of the others", "rows of the category", "rows of the others"),
            ("below", "at least"),
            tuple(
                Run(
                    (
                        Line(
                            (f"{rate:g}", f"{rows[0]:,}", ", ".join(f"{n:,}" for n in rows[1:])),
                            (at_most(0.05), at_most(0.05)),
                        ),
                    ),
                    partial(threshold, rate=rate, rows=rows),
                    TABLES,
                )
                for rate in (0.1, 0.3, 0.9)
                for rows in SIZES
            ),
        ),
        Section(
            "Bands over 40 cut-offs: coverage at all of them, nominal 0.95",
            ("groups", "rows in each"),
            ("covered",),
            tuple(
                Run(
                    (Line((str(groups), f"{n:,}"), (Asked(0.95, "least"),)),),
                    partial(banded, rows=n, groups=groups),
                    TABLES,
                )
                for groups in (2, 4)
                for n in (200, 2_000)
            ),
        ),
    ),
)


if __name__ == "__main__":
    main(PAGE)
