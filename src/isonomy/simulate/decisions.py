"""Decisions about people in intersecting groups, with planted disparities in any 0/1 rate."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from types import MappingProxyType
from typing import Any

import numpy as np

from isonomy.errors import UnknownOption, UsageError
from isonomy.numerics.arrays import FloatArray
from isonomy.simulate import normal
from isonomy.simulate.arguments import members, probability, shares
from isonomy.simulate.rates import Names, rates_by_group
from isonomy.simulate.simulated import Block, Labels, Simulated

Planted = Mapping[str, Mapping[str, float]]

RACE: Mapping[str, float] = MappingProxyType({"White": 0.55, "Black": 0.25, "Hispanic": 0.2})
SEX: Mapping[str, float] = MappingProxyType({"Female": 0.5, "Male": 0.5})
AGE_BAND: Mapping[str, float] = MappingProxyType({"18-29": 0.3, "30-59": 0.5, "60+": 0.2})
PLANTED: Planted = MappingProxyType(
    {
        "race=Black": MappingProxyType({"fpr": 0.10}),
        "race=Hispanic": MappingProxyType({"selection_rate": -0.05}),
        "race=Black & sex=Female": MappingProxyType({"tpr": -0.10}),
    }
)
_PLANTABLE = ("base_rate", "tpr", "fpr", "selection_rate", "ppv")


def decisions(
    rows: int,
    seed: int = 0,
    *,
    groups: Mapping[str, Mapping[str, float]] | None = None,
    age_band: bool = False,
    base_rate: float = 0.4,
    tpr: float = 0.7,
    fpr: float = 0.3,
    planted: Planted | None = None,
    allocation: str = "random",
) -> Simulated:
    """A model's decisions, whose error rates differ between groups exactly as planted.

    Columns: one per group column (default ``race``, ``sex``; ``age_band`` when asked), ``outcome`` (0/1),
    ``prediction`` (0/1), ``score`` in (0, 1) with prediction = (score >= 0.5).

    Group columns are independent with the given shares. In a finest cell the outcome has probability
    ``base_rate``, and score = Phi(Z), Z normal with variance 1 and the mean that gives the cell its ``tpr``
    (outcome 1) or ``fpr`` (outcome 0).

    Parameters
    ----------
    groups : {column: {level: share}}
    planted : {label: {quantity: shift}}
        A label is a level or an intersection ("race=Black & sex=Female"), a quantity one of base_rate, tpr,
        fpr, selection_rate (shifts tpr and fpr alike), ppv (reached by changing fpr). Shifts of all labels
        that hold a cell add up, ppv last. ``{}``, and the default with other ``groups``, plant nothing: every
        rate is equal in every group. With the default groups the default is `PLANTED`.
    allocation : "random", or "even" for groups of nearly fixed size

    Truth
    -----
    ``population``, ``groups[label]``, ``rest[label]`` (the complement): share, base_rate, selection_rate,
    tpr, fpr, fnr, tnr, ppv, npv, accuracy, error_rate, mean_score, brier, log_loss;
    ``disparity["population"][label]`` and ``disparity["rest"][label]``: the group's metric minus the
    reference's. Labels of all depths, columns in order.

    >>> table = decisions(1_000, seed=1)
    >>> sorted(table.columns)
    ['outcome', 'prediction', 'race', 'score', 'sex']
    >>> round(table.truth["disparity"]["rest"]["race=Black"]["fpr"], 3)
    0.113
    >>> round(decisions(1_000, planted={}).truth["disparity"]["rest"]["race=Black"]["fpr"], 12)
    0.0
    """
    if planted is None:
        planted = PLANTED if groups is None else {}
    if groups is None:
        groups = {"race": RACE, "sex": SEX, **({"age_band": AGE_BAND} if age_band else {})}
    if not groups:
        raise UsageError("groups: give at least one group column.")
    if allocation not in ("random", "even"):
        raise UnknownOption("allocation", allocation, ("random", "even"))
    names = {column: shares(f"groups[{column!r}]", levels) for column, levels in groups.items()}
    levels = [n for n, _ in names.values()]
    cells = np.array(list(product(*(range(len(n)) for n in levels))), dtype=np.intp)
    share = np.prod([p[cells[:, d]] for d, (_, p) in enumerate(names.values())], axis=0)
    rates = _rates(names, cells, base_rate, tpr, fpr, planted)
    mean = np.stack([normal.quantile(rates["fpr"]), normal.quantile(rates["tpr"])])

    def draw(rng: np.random.Generator, start: int, units: int) -> Block:
        cell = members(rng, start, units, share, allocation)
        outcome = (rng.random(units) < rates["base_rate"][cell]).astype(np.int8)
        score = normal.cdf(rng.standard_normal(units) + mean[outcome, cell])
        block: Block = {c: Labels(cells[cell, d], levels[d]) for d, c in enumerate(names)}
        return block | {"outcome": outcome, "prediction": (score >= 0.5).astype(np.int8), "score": score}

    return Simulated(
        name="decisions",
        description="Decisions with planted group disparities: score Phi(Z), Z normal given outcome and group cell.",
        rows=rows,
        seed=seed,
        draw=draw,
        facts=lambda: rates_by_group(names, cells, _masses(share, rates, mean)),
    )


def _rates(names: Names, cells: Any, base: float, tpr: float, fpr: float, planted: Planted) -> dict[str, FloatArray]:
    """base_rate, tpr and fpr of every finest cell."""
    value = {q: np.full(len(cells), float(v)) for q, v in zip(_PLANTABLE, (base, tpr, fpr, 0.0, 0.0), strict=True)}
    for label, shifts in planted.items():
        inside = _inside(names, cells, label)
        for quantity, shift in shifts.items():
            if quantity not in _PLANTABLE:
                raise UnknownOption(f"planted[{label!r}]", quantity, _PLANTABLE)
            value[quantity] += np.where(inside, shift, 0.0)
    value["tpr"] += value["selection_rate"]
    value["fpr"] += value["selection_rate"]
    for quantity in ("base_rate", "tpr", "fpr"):
        probability(f"{quantity} with what is planted", value[quantity])
    if value["ppv"].any():
        positive = value["base_rate"] * value["tpr"]
        negative = (1 - value["base_rate"]) * value["fpr"]
        target = probability("ppv with what is planted", positive / (positive + negative) + value["ppv"])
        solved = positive * (1 - target) / (target * (1 - value["base_rate"]))
        value["fpr"] = np.where(value["ppv"] == 0, value["fpr"], probability("fpr that gives the ppv", solved))
    return {q: value[q] for q in ("base_rate", "tpr", "fpr")}


def _inside(names: Names, cells: Any, label: str) -> Any:
    inside = np.ones(len(cells), dtype=bool)
    for part in label.split(" & "):
        column, _, level = part.partition("=")
        if column not in names:
            raise UnknownOption("planted", label, [f"{c}={n}" for c, (ns, _) in names.items() for n in ns])
        if level not in names[column][0]:
            raise UnknownOption(f"planted {column}", level, names[column][0])
        inside &= cells[:, list(names).index(column)] == names[column][0].index(level)
    return inside


def _masses(share: FloatArray, rates: Mapping[str, FloatArray], mean: FloatArray) -> FloatArray:
    """Per cell: share, P(tp), P(fp), P(fn), P(tn), E[score], E[brier], E[log loss], each times the share."""
    from scipy.special import log_ndtr

    nodes, weights = normal.hermite()
    base, tpr, fpr = rates["base_rate"], rates["tpr"], rates["fpr"]
    by_outcome = np.stack([1 - base, base])
    z = mean[..., None] + nodes
    target = np.array([0.0, 1.0])[:, None, None]
    with np.errstate(invalid="ignore"):
        brier = ((normal.cdf(z) - target) ** 2 * weights).sum(-1)
        log_loss = -(log_ndtr(np.where(target == 1, z, -z)) * weights).sum(-1)
    score = (normal.cdf(z) * weights).sum(-1)
    columns = [np.ones_like(base), base * tpr, (1 - base) * fpr, base * (1 - tpr), (1 - base) * (1 - fpr)]
    columns += [(by_outcome * part).sum(0) for part in (score, brier, log_loss)]
    return np.stack(columns, axis=1) * share[:, None]
