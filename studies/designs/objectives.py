"""Several scores for several outcomes, in groups in which the same score has different meanings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from isonomy.numerics.arrays import FloatArray
from isonomy.options import Finite, Number, checked
from isonomy.simulate.simulated import Block, Each, Groups, Simulated, group_shares, members, per_group, plain


@checked
def objectives(
    rows: int,
    seed: int = 0,
    *,
    groups: Groups = 2,
    count: Annotated[int, Number(least=2, whole=True)] = 2,
    planted: Each | None = None,
    cross: Finite = 0.3,
    dependence: Annotated[float, Number(least=0, most=1)] = 0.4,
) -> Simulated:
    """Scores S^1..S^K for outcomes Y^1..Y^K with a known E[Y^k | S^1..S^K, group].

    S^k = Phi(Z_k), Z standard normal with correlation ``dependence``;
    P(Y^k = 1 | S, g) = Phi(Z_k + ``cross`` (mean of the other Z) + planted_g (-1)^(k+1)). No single score predicts its
    outcome fully, and in a group with ``planted`` != 0 the first outcome is better than its score suggests, the second
    worse, and so on. The outcomes are independent given the scores. The default plants 0.3 in the last group.

    Columns: ``group``, ``score_1`` ... ``score_K``, ``outcome_1`` ... ``outcome_K``.

    Truth: ``groups[label]``: share and, for each outcome, its mean and the probit coefficients (intercept, own,
    others). `expected` gives E[Y^k | S, g] at any point.

    >>> table = objectives(1_000, seed=1)
    >>> round(table.truth["groups"]["group=b"]["outcome_1"]["mean"], 3)
    0.578
    """
    k = count
    names, share = group_shares(groups)
    shift = per_group("planted", dict.fromkeys(names[1:][-1:], 0.3) if planted is None else planted, names)
    sign = (-1.0) ** np.arange(k)

    def draw(rng: np.random.Generator, start: int, units: int) -> Block:
        g = members(rng, units, share)
        common, own = rng.standard_normal(units), rng.standard_normal((k, units))
        z = np.sqrt(dependence) * common + np.sqrt(1 - dependence) * own
        outcome = rng.standard_normal((k, units)) < _index(z, cross) + shift[g] * sign[:, None]
        block: Block = {"group": np.array(names)[g]}
        block |= {f"score_{j + 1}": s for j, s in enumerate(ndtr(z))}
        return block | {f"outcome_{j + 1}": y for j, y in enumerate(outcome.astype(np.int8))}

    def facts() -> dict[str, Any]:
        # Var(Z_1 + cross mean of the others): the others' mean has variance (1 + (k - 2) dependence) / (k - 1).
        spread = np.sqrt(2 + cross**2 * (1 + (k - 2) * dependence) / (k - 1) + 2 * cross * dependence)
        by_group: dict[str, Any] = {}
        for i, name in enumerate(names):
            by_group[f"group={name}"] = {"share": share[i]} | {
                f"outcome_{j + 1}": {
                    "mean": float(ndtr(shift[i] * sign[j] / spread)),
                    "intercept": shift[i] * sign[j],
                    "own": 1.0,
                    "others": cross / (k - 1),
                }
                for j in range(k)
            }
        return plain({"groups": by_group})

    return Simulated(name=f"objectives {k}", rows=rows, seed=seed, draw=draw, facts=facts)


def expected(table: Simulated, group: str, outcome: int, scores: Sequence[ArrayLike]) -> FloatArray:
    """E[Y^outcome | S, group] of an `objectives` table; ``scores`` holds one array per score, ``group`` is a label.

    >>> table = objectives(10, planted=0.0)
    >>> expected(table, "group=a", 1, [[0.5], [0.5]]).tolist()
    [0.5]
    """
    known = table.truth["groups"][group][f"outcome_{outcome}"]
    z = ndtri(np.asarray(scores, dtype=np.float64))
    own = z[outcome - 1]
    return ndtr(known["intercept"] + known["own"] * own + known["others"] * (z.sum(0) - own))


def _index(z: FloatArray, cross: float) -> FloatArray:
    return z + cross * (z.sum(0) - z) / (len(z) - 1)
