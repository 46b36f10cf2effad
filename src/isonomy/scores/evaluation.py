"""Calibrators compared on users that they have not seen: the protocol of section 7 of the paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Unpack

import numpy as np

from isonomy.errors import UsageError
from isonomy.frames import Groups
from isonomy.numerics.arrays import IntArray
from isonomy.options import Column, Draws, RowOptions, Seeded
from isonomy.results import open_call, question
from isonomy.scores.measures import MEASURES, OVERALL, CalibrationMetrics, calibration_metrics, spread
from isonomy.scores.options import CurvesOption, Level
from isonomy.scores.read import RowVotes, ScorePlan, read_votes, refuse_several, table_groups

if TYPE_CHECKING:
    from isonomy.scores.calibrators import GroupCalibrator

NONE = "none"  # the score as it is
METHODS = ("near_unbiased", "published", "platt", "isotonic")
Rows = tuple[IntArray, IntArray]  # rows, and the person to whom each belongs


# ---- call


@question("EvaluationPlan", asks="Which calibration by group leaves the smallest errors?", topic="Calibrators")
def evaluate_calibrators(
    data: object = None,
    *,
    outcome: Column,
    score: Column,
    groups: Groups,
    user: Column | None = None,
    level: Level | None = None,
    calibrators: Sequence[str] | Mapping[str, Any] | None = None,
    method: Literal["heldout", "published"] = "heldout",
    splits: Draws | None = None,
    rng: Seeded = None,
    **rows: Unpack[RowOptions],
) -> CalibrationMetrics:
    """How large are the errors of a score on new users, after each of several calibrations by group?

    Users are split at random into two halves. Calibrators are fitted on one half and score the other, and the halves
    swap roles, so that every row has a calibrated score from users other than its own. The measures of
    `calibration_metrics` are taken on these scores and averaged over several splits.

    Parameters
    ----------
    data : table
        Any table isonomy reads, with scores from a model that has not seen these rows. Rows are held in memory.
    outcome, score, groups, user, level
        As in `calibration_metrics`: one column of scores, one set of groups.
    calibrators : sequence of str or mapping of str to GroupCalibrator, optional
        Methods of `GroupCalibrator`, or names for calibrators that are to be fitted. Default: "near_unbiased",
        "published", "platt" (for outcomes of 0 and 1) and "isotonic".
    method : {"heldout", "published"}, default "heldout"
        ``"published"``: the paper's protocol. Rows (users) are drawn with replacement and then split in half, without a
        swap: about 39 % of the rows that are measured are also among those that calibrate.
    splits : int, optional
        Number of splits, default 5; with "published" the number of bootstrap samples, default 100.
    rng : int or numpy.random.Generator, optional
        The seed of the splits.
    **rows
        weight, missing, missing_group: see `isonomy.RowOptions`. ``count`` and ``cluster`` are refused.

    Returns
    -------
    CalibrationMetrics
        The measures of each calibrator; ``"none"`` is the score as it is. `changes` compares every calibrator with it,
        on the same people.

    Notes
    -----
    Standard errors are those of the people measured, given the calibrators; with "published", of bootstrap samples.

    When it misleads: if users appear many times and ``user`` is not given, their rows are in both halves.

    References
    ----------
    C. DiCiccio, B. Hsu, Y. Yu, P. Nandy, K. Basu, "Detection and Mitigation of Algorithmic Bias via Predictive Rate
    Parity", section 7, Tables 1 to 4.

    Examples
    --------
    >>> import numpy as np
    >>> import isonomy as iso
    >>> rng = np.random.default_rng(0)
    >>> s, g = rng.random(4000), np.repeat(["a", "b"], 2000)
    >>> data = {"s": s, "g": g, "y": rng.random(4000) < np.where(g == "a", s, s**2)}
    >>> result = iso.evaluate_calibrators(data, outcome="y", score="s", groups="g", splits=2, rng=1)
    >>> errors = dict(zip(result.score[::3], result.parity_error[::3], strict=True))
    >>> min(errors, key=errors.get) != "none"
    True
    """
    plan, rng, record = open_call("evaluate_calibrators", EvaluationPlan, locals())
    votes = read_votes(plan.rows, {"score": plan.rows.score, "outcome": plan.rows.outcome})
    return replace(estimate(votes, plan, rng), provenance=record(rows=votes.rows, dropped=votes.dropped))


# ---- plan


@dataclass(frozen=True, eq=False, kw_only=True)
class EvaluationPlan(ScorePlan):
    calibrators: Sequence[str] | Mapping[str, Any] | None
    level: Level | None
    splits: int | None

    def __post_init__(self) -> None:
        ScorePlan.__post_init__(self)
        refuse_several(self.rows.grouping)
        for name, column in (("count", self.source.count), ("cluster", self.source.cluster)):
            if column is not None:
                raise UsageError(
                    f"{name}: {column!r} cannot be used here; give one line per row, and user= for people."
                )
        _ = self.fitted

    @cached_property
    def fitted(self) -> dict[str, GroupCalibrator]:
        from isonomy.scores.calibrators import GroupCalibrator

        chosen = METHODS if self.calibrators is None else self.calibrators
        named = dict(chosen) if isinstance(chosen, Mapping) else {name: GroupCalibrator(name) for name in chosen}
        if not named or NONE in named or not all(isinstance(model, GroupCalibrator) for model in named.values()):
            raise UsageError(
                f"calibrators: {self.calibrators!r} is not allowed; give methods of GroupCalibrator, or a mapping of "
                f"names (other than {NONE!r}) to calibrators."
            )
        return named

    @cached_property
    def curves(self) -> CurvesOption:
        return CurvesOption(level=self.level)


# ---- read: see `isonomy.scores.read.read_votes`

# ---- estimate


def estimate(votes: RowVotes, plan: EvaluationPlan, rng: np.random.Generator) -> CalibrationMetrics:
    """The measures averaged over splits, with the jackknife's replicates; or those of bootstrap samples."""
    groups, codes = table_groups(votes.partitions[0])
    # Users are numbered by their first row, whatever identifies them.
    _, first, user = np.unique(
        np.arange(codes.size) if votes.user is None else votes.user, return_index=True, return_inverse=True
    )
    user, size, published = np.argsort(np.argsort(first))[user], first.size, plan.method == "published"
    votes = replace(votes, user=user)
    rounds = []
    for child in rng.spawn(plan.splits or (100 if published else 5)):
        order = child.integers(0, size, size) if published else child.permutation(size)
        halves = np.split(order, [size // 2])
        rounds.append(measure(votes, codes, [rows_of(user, half) for half in halves], plan))
    values = {name: np.mean([getattr(part, name) for part in rounds], axis=0) for name in MEASURES}
    if published:
        replicates = np.array([[getattr(part, name) for name in MEASURES] for part in rounds])
        factor = 1 / max(len(rounds) - 1, 1)
    else:
        replicates, factor = np.mean([part.replicates for part in rounds], axis=0), rounds[0].factor
    errors = dict(zip((f"{name}_se" for name in MEASURES), spread(replicates, factor), strict=True))
    labels = (OVERALL, *(group.label for group in groups)) * len(set(rounds[0].score))
    return replace(rounds[0], **values, **errors, replicates=replicates, factor=factor, group=labels)


def rows_of(user: IntArray, drawn: IntArray) -> tuple[IntArray, IntArray]:
    """The rows of the users drawn, and the number of the draw to which each belongs."""
    order, count = np.argsort(user, kind="stable"), np.bincount(user)
    many = count[drawn]
    within = np.arange(many.sum()) - np.repeat(np.cumsum(many) - many, many)
    return order[np.repeat((np.cumsum(count) - count)[drawn], many) + within], np.repeat(np.arange(drawn.size), many)


def measure(votes: RowVotes, codes: IntArray, halves: Sequence[Rows], plan: EvaluationPlan) -> CalibrationMetrics:
    """The measures of each calibrator, fitted on one half and applied to the other; unless published, both ways."""
    from sklearn.base import clone

    score, outcome, by_user = votes.numbers["score"], votes.numbers["outcome"], plan.rows.level == "user"
    weight = votes.numbers.get("weight")
    turns = [(halves[0], halves[1]), *([] if plan.method == "published" else [(halves[1], halves[0])])]
    rows, person = (np.concatenate([turn[1][k] for turn in turns]) for k in (0, 1))
    scores = {NONE: score[rows]}
    for name, model in plan.fitted.items():
        if plan.calibrators is None and name == "platt" and not np.all(outcome * (1 - outcome) == 0):
            continue
        calibrated = []
        for (fit, people), (test, _) in turns:
            calibrator = clone(model).set_params(score_column=0, groups=1, user=2 if by_user else None)
            # A user who was drawn twice is two people.
            old, new = (np.column_stack([score[rows], codes[rows], who]) for rows, who in ((fit, people), (test, test)))
            calibrator.fit(old, outcome[fit], None if weight is None else weight[fit])
            calibrated.append(calibrator.predict(new))
        scores[name] = np.concatenate(calibrated)
    known = {"outcome": outcome[rows], "group": codes[rows]} | ({} if weight is None else {"weight": weight[rows]})
    if plan.user is not None:
        known["user"] = person if plan.method == "published" else np.asarray(votes.user)[rows]
    table = known | {f"score {k}": values for k, values in enumerate(scores.values())}
    order = np.arange(rows.size) if plan.method == "published" else np.argsort(rows)  # the same parts in every split
    roles: Any = {"user": "user", "method": CurvesOption(level=plan.rows.level)} if plan.user is not None else {}
    roles |= {} if weight is None else {"weight": "weight"}
    return calibration_metrics(
        {name: values[order] for name, values in table.items()},
        outcome="outcome",
        score={name: f"score {k}" for k, name in enumerate(scores)},
        groups="group",
        **roles,
    )
