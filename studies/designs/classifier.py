"""A linear classifier on Gaussian features: the validation design of the transport paper, and violations of parity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import numpy as np
from scipy import stats
from scipy.special import ndtr, ndtri

from isonomy.errors import UnknownOption, UsageError
from isonomy.numerics.arrays import FloatArray
from isonomy.options import Alpha, Number, Positive, checked
from isonomy.simulate.simulated import Block, Simulated, plain, probability

# (level, outcome): probability, means, variances. Two levels as printed (Appendix B.1); the third is ours.
_TWO = {
    ("0", 0): (0.1, (-4.0, 0.0), (5.0, 5.0)),
    ("0", 1): (0.1, (-2.0, 0.0), (5.0, 5.0)),
    ("1", 0): (0.4, (6.0, 0.0), (3.5, 5.0)),
    ("1", 1): (0.4, (6.0, 0.0), (3.5, 5.0)),
}
_THREE = {
    ("0", 0): (0.15, (-4.0, 0.0), (5.0, 5.0)),
    ("0", 1): (0.15, (-2.0, 0.0), (5.0, 5.0)),
    ("1", 0): (0.2, (6.0, 0.0), (3.5, 5.0)),
    ("1", 1): (0.2, (6.0, 0.0), (3.5, 5.0)),
    ("2", 0): (0.15, (1.0, 0.0), (5.0, 5.0)),
    ("2", 1): (0.15, (2.0, 0.0), (5.0, 5.0)),
}

Gap = float | Mapping[str, float] | None


@checked
def classifier(
    rows: int,
    seed: int = 0,
    *,
    levels: Literal[2, 3] = 2,
    equal_opportunity: Gap = None,
    predictive_equality: Gap = None,
    theta: Sequence[float] = (0.0, 1.0),
    threshold: Alpha = 0.5,
    scale: Positive = 1.0,
    lattice: Annotated[float, Number(least=1e-12)] | None = None,
) -> Simulated:
    """A logistic classifier whose rates are equal across groups, or differ by exactly the planted gap.

    Given group and outcome the features are independent normals (probabilities, means and variances of the
    paper's Appendix B.1 with two levels); prediction 1 when 1/(1 + exp(-theta'x)) >= threshold. With the
    paper's theta = (0, 1) and threshold 1/2 every rate is 1/2 in every group: all four criteria hold.

    Columns: ``group`` ("0", "1", "2"), ``outcome``, ``x1``, ``x2``, ``prediction``, ``score`` (theta'x),
    ``distance`` (Euclidean distance of x to the boundary).

    Parameters
    ----------
    equal_opportunity, predictive_equality : gap in TPR (FPR) against level "0"
        A number plants it in level "1", a mapping in each level it names; None leaves the design as it is.
        Features move along theta, so each rate becomes exactly that of level "0" plus the gap.
    scale : multiplies all features and the threshold of the score; decisions do not change
    lattice : round the score to multiples of this number (before ``scale``); the decision uses the rounded score

    Truth
    -----
    ``threshold`` (of ``score``); ``groups[label]``: share, base_rate, tpr, fpr, selection_rate;
    ``disparity[label]`` (level minus level "0"): equal_opportunity, predictive_equality, statistical_parity;
    ``boundary``: density of the signed distance at 0, and shares["group=0 & outcome=1"] of those at the
    boundary (when scores are continuous).

    >>> classifier(500).truth["disparity"]["group=1"]
    {'equal_opportunity': 0.0, 'predictive_equality': 0.0, 'statistical_parity': 0.0}
    >>> round(classifier(500, equal_opportunity=0.1).truth["groups"]["group=1"]["tpr"], 12)
    0.6
    """
    cells = _TWO if levels == 2 else _THREE
    direction = np.asarray(theta, dtype=np.float64)
    if direction.shape != (2,) or not np.any(direction):
        raise UsageError(f"theta: {theta!r} is not allowed; give two numbers, not both 0.")
    cut = float(-np.log(1 / threshold - 1))
    share = np.array([p for p, _, _ in cells.values()])
    mean = np.array([m for _, m, _ in cells.values()])
    sd = np.sqrt(np.array([v for _, _, v in cells.values()]))
    spread = np.sqrt((sd**2) @ direction**2)
    # A rounded score reaches the threshold if the raw score exceeds the midpoint below it.
    edge = cut if lattice is None else (np.ceil(cut / lattice) - 0.5) * lattice
    keys = list(cells)
    for argument, gap, outcome in (
        ("equal_opportunity", equal_opportunity, 1),
        ("predictive_equality", predictive_equality, 0),
    ):
        _plant(argument, gap, outcome, keys, mean, spread, direction, edge)
    rate = ndtr((mean @ direction - edge) / spread)
    outcomes = np.array([y for _, y in keys], dtype=np.int8)
    names = tuple(dict.fromkeys(level for level, _ in keys))
    group = np.array([names.index(level) for level, _ in keys])
    cumulative = np.cumsum(share)

    def draw(rng: np.random.Generator, start: int, units: int) -> Block:
        cell = np.minimum(np.searchsorted(cumulative, rng.random(units), side="right"), len(keys) - 1)
        x = mean[cell] + sd[cell] * rng.standard_normal((units, 2))
        score = x @ direction
        if lattice is not None:
            score = np.floor(score / lattice + 0.5) * lattice
        return {
            "group": np.array(names)[group[cell]],
            "outcome": outcomes[cell],
            "x1": scale * x[:, 0],
            "x2": scale * x[:, 1],
            "prediction": (score >= cut).astype(np.int8),
            "score": scale * score,
            "distance": np.abs(score - cut) * scale / np.hypot(*direction),
        }

    def facts() -> dict[str, Any]:
        at_cut = share * stats.norm.pdf((cut - mean @ direction) / spread) / spread
        boundary = {
            "density": at_cut.sum() * np.hypot(*direction) / scale,
            "shares": {f"group={g} & outcome={y}": a / at_cut.sum() for (g, y), a in zip(keys, at_cut, strict=True)},
        }
        known = {"threshold": scale * cut, **_rates(keys, share, rate)}
        return plain(known if lattice is not None else {**known, "boundary": boundary})

    return Simulated(name="classifier", rows=rows, seed=seed, draw=draw, facts=facts)


def _plant(
    argument: str,
    gap: Gap,
    outcome: int,
    keys: list[tuple[str, int]],
    mean: FloatArray,
    spread: FloatArray,
    direction: FloatArray,
    edge: float,
) -> None:
    """Shift the means of the named levels along theta, in place, so that their rate is that of level 0 plus the gap."""
    if gap is None:
        return
    base = keys.index(("0", outcome))
    base_rate = float(ndtr((mean[base] @ direction - edge) / spread[base]))
    for level, size in gap.items() if isinstance(gap, Mapping) else (("1", gap),):
        if (level, outcome) not in keys or level == "0":
            raise UnknownOption(argument, level, [g for g, y in keys if y == 1 and g != "0"])
        target = probability(f"{argument} of group {level}", base_rate + size)
        if not 0 < target < 1:
            raise UsageError(f"{argument}: a rate of {float(target):g} is not reached by any finite shift.")
        cell = keys.index((level, outcome))
        wanted = edge + spread[cell] * float(ndtri(target))
        mean[cell] += direction * (wanted - mean[cell] @ direction) / (direction @ direction)


def _rates(keys: list[tuple[str, int]], share: FloatArray, rate: FloatArray) -> dict[str, Any]:
    groups: dict[str, dict[str, float]] = {}
    for level in dict.fromkeys(g for g, _ in keys):
        zero, one = keys.index((level, 0)), keys.index((level, 1))
        size = share[zero] + share[one]
        groups[f"group={level}"] = {
            "share": size,
            "base_rate": share[one] / size,
            "tpr": rate[one],
            "fpr": rate[zero],
            "selection_rate": (share[one] * rate[one] + share[zero] * rate[zero]) / size,
        }
    base = groups["group=0"]
    criteria = {"equal_opportunity": "tpr", "predictive_equality": "fpr", "statistical_parity": "selection_rate"}
    disparity = {
        label: {c: values[r] - base[r] for c, r in criteria.items()}
        for label, values in groups.items()
        if values is not base
    }
    return {"groups": groups, "disparity": disparity}
