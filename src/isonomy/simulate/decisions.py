"""Decisions about people in intersecting groups, with planted disparities in any 0/1 rate."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations, product

import numpy as np
from scipy.special import ndtr, ndtri

from isonomy.errors import UnknownOption, UsageError
from isonomy.numerics.arrays import FloatArray, IntArray
from isonomy.options import checked
from isonomy.simulate.simulated import Block, Simulated, Truth, members, probability, shares

Names = dict[str, tuple[tuple[str, ...], FloatArray]]  # group column -> levels and their shares
Planted = Mapping[str, Mapping[str, float]]

GROUPS = {"race": {"White": 0.55, "Black": 0.25, "Hispanic": 0.2}, "sex": {"Female": 0.5, "Male": 0.5}}
PLANTED = {
    "race=Black": {"fpr": 0.10},
    "race=Hispanic": {"selection_rate": -0.05},
    "race=Black & sex=Female": {"tpr": -0.10},
}
_PLANTABLE = ("base_rate", "tpr", "fpr", "selection_rate")


@checked
def decisions(
    rows: int,
    seed: int = 0,
    *,
    groups: Mapping[str, Mapping[str, float]] | None = None,
    base_rate: float = 0.4,
    tpr: float = 0.7,
    fpr: float = 0.3,
    planted: Planted | None = None,
) -> Simulated:
    """A model's decisions, with error rates that differ between groups exactly as planted.

    Columns: one per group column (``race`` and ``sex`` by default), ``outcome`` (0/1), ``prediction`` (0/1), ``score``
    in (0, 1) with prediction = (score >= 0.5).

    Group columns are independent, with the given shares. In each finest cell the outcome has probability
    ``base_rate``, and score = Phi(Z), where Z is normal with variance 1 and the mean that gives the cell its ``tpr``
    (outcome 1) or ``fpr`` (outcome 0).

    Parameters
    ----------
    rows : int
        The number of rows.
    seed : int, default 0
        The same seed gives the same rows.
    groups : mapping of column to {level: share}, optional
        The group columns, their levels and the shares of these.
    base_rate, tpr, fpr : float
        The rates of every cell in which nothing else is planted.
    planted : mapping of label to {quantity: shift}, optional
        A label is a level or an intersection ("race=Black & sex=Female"); a quantity is one of base_rate, tpr, fpr and
        selection_rate (which shifts tpr and fpr alike). The shifts of all labels that contain a cell add up. ``{}``,
        and the default if ``groups`` is given, plant nothing: every rate is equal in every group.

    Returns
    -------
    Simulated
        Its ``truth``: ``population``, ``groups[label]``, ``rest[label]`` (the complement) with share, base_rate,
        selection_rate, tpr, fpr, fnr, tnr, ppv, npv, accuracy, error_rate; ``disparity["population"][label]`` and
        ``disparity["rest"][label]``, the group's rate minus the reference's. Labels of all depths, columns in order.

    Examples
    --------
    >>> table = decisions(1_000, seed=1)
    >>> sorted(table.columns)
    ['outcome', 'prediction', 'race', 'score', 'sex']
    >>> round(table.truth["disparity"]["rest"]["race=Black"]["fpr"], 3)
    0.113
    >>> round(decisions(1_000, planted={}).truth["disparity"]["rest"]["race=Black"]["fpr"], 12)
    0.0
    """
    if groups is not None and not groups:
        raise UsageError("groups: give at least one group column.")
    names = {column: shares(f"groups[{column!r}]", levels) for column, levels in (groups or GROUPS).items()}
    levels = [level for level, _ in names.values()]
    cells = np.array(list(product(*(range(len(n)) for n in levels))), dtype=np.intp)
    share = np.prod([p[cells[:, d]] for d, (_, p) in enumerate(names.values())], axis=0)
    usual = PLANTED if groups is None else {}
    base, positive, negative = _rates(names, cells, (base_rate, tpr, fpr), usual if planted is None else planted)
    mean = ndtri(np.stack([negative, positive]))

    def draw(rng: np.random.Generator, start: int, units: int) -> Block:
        cell = members(rng, units, share)
        outcome = (rng.random(units) < base[cell]).astype(np.int8)
        score = ndtr(rng.standard_normal(units) + mean[outcome, cell])
        block: Block = {c: np.array(levels[d])[cells[cell, d]] for d, c in enumerate(names)}
        return block | {"outcome": outcome, "prediction": (score >= 0.5).astype(np.int8), "score": score}

    def facts() -> Truth:
        hit, miss = base * positive, base * (1 - positive)
        alarm, pass_by = (1 - base) * negative, (1 - base) * (1 - negative)
        masses = np.stack([np.ones_like(base), hit, alarm, miss, pass_by], axis=1)
        return rates_by_group(names, cells, masses * share[:, None])

    return Simulated(name="decisions", rows=rows, seed=seed, draw=draw, facts=facts)


def _rates(
    names: Names, cells: IntArray, usual: tuple[float, float, float], planted: Planted
) -> tuple[FloatArray, FloatArray, FloatArray]:
    value = {q: np.full(len(cells), float(v)) for q, v in zip(_PLANTABLE, (*usual, 0.0), strict=True)}
    for label, shifts in planted.items():
        inside = np.ones(len(cells), dtype=bool)
        for part in label.split(" & "):
            column, _, level = part.partition("=")
            if column not in names:
                raise UnknownOption("planted", label, [f"{c}={n}" for c, (ns, _) in names.items() for n in ns])
            if level not in names[column][0]:
                raise UnknownOption(f"planted {column}", level, names[column][0])
            inside &= cells[:, list(names).index(column)] == names[column][0].index(level)
        for quantity, shift in shifts.items():
            if quantity not in _PLANTABLE:
                raise UnknownOption(f"planted[{label!r}]", quantity, _PLANTABLE)
            value[quantity] += np.where(inside, shift, 0.0)
    both = value["selection_rate"]
    return (
        probability("base_rate with what is planted", value["base_rate"]),
        probability("tpr with what is planted", value["tpr"] + both),
        probability("fpr with what is planted", value["fpr"] + both),
    )


def rates_by_group(names: Names, cells: IntArray, masses: FloatArray) -> Truth:
    """``population``, ``groups``, ``rest`` and ``disparity`` for all labels of all depths.

    ``cells`` holds the level codes of the finest cells, one column per group column; ``masses`` their share, P(tp),
    P(fp), P(fn) and P(tn), each times the share.
    """
    total = masses.sum(0)
    population = rates(total)
    groups: dict[str, dict[str, float]] = {}
    rest: dict[str, dict[str, float]] = {}
    for depth in range(1, len(names) + 1):
        for columns in combinations(names, depth):
            position = [list(names).index(c) for c in columns]
            for combination in product(*(range(len(names[c][0])) for c in columns)):
                label = " & ".join(f"{c}={names[c][0][k]}" for c, k in zip(columns, combination, strict=True))
                mass = masses[(cells[:, position] == combination).all(1)].sum(0)
                groups[label], rest[label] = rates(mass), rates(total - mass)
    references = {"population": dict.fromkeys(groups, population), "rest": rest}
    disparity = {
        name: {g: {m: groups[g][m] - reference[g][m] for m in population if m != "share"} for g in groups}
        for name, reference in references.items()
    }
    return {"population": population, "groups": groups, "rest": rest, "disparity": disparity}


def rates(mass: FloatArray) -> dict[str, float]:
    """The rates of a group from its share, P(tp), P(fp), P(fn) and P(tn)."""
    share, tp, fp, fn, tn = mass
    with np.errstate(invalid="ignore", divide="ignore"):
        return {
            "share": share,
            "base_rate": (tp + fn) / share,
            "selection_rate": (tp + fp) / share,
            "tpr": tp / (tp + fn),
            "fpr": fp / (fp + tn),
            "fnr": fn / (tp + fn),
            "tnr": tn / (fp + tn),
            "ppv": tp / (tp + fp),
            "npv": tn / (fn + tn),
            "accuracy": (tp + tn) / share,
            "error_rate": (fp + fn) / share,
        }
