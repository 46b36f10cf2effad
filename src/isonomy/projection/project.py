"""Projection: the least change that would make selection rates equal, whether it is chance, and who would move."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, Unpack

import numpy as np
from scipy.stats import ttest_ind_from_stats

from isonomy.errors import DataError, MissingRole, MissingValues, UsageError, choose
from isonomy.frames import Group, Grouping, Groups, Request, Source
from isonomy.frames.expressions import Expression, either, flag, infinite, levels, number
from isonomy.frames.groups import CONDITION
from isonomy.inference import conclude
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray
from isonomy.numerics.status import Status
from isonomy.numerics.tails import t_isf
from isonomy.options import COLUMN, Alpha, Column, Finite, Number, Option, RowOptions, Seeded, check
from isonomy.projection import words
from isonomy.projection.program import estimators
from isonomy.projection.program.criteria import Criterion, Discerning, comparisons
from isonomy.projection.program.distances import ColumnDistance, Distance, PerGroup, Score
from isonomy.projection.program.inference import FEW, ProjectionTest, ToleranceCurve, plan_rows, tolerance_curve
from isonomy.projection.program.law import Null, Tolerance, check_tolerance, one_side, tolerated, two_sided
from isonomy.projection.program.solve import round_to_rows
from isonomy.projection.read import (
    TRACE,
    Rows,
    RowsByPasses,
    RowsInMemory,
    infer_threshold,
    refuse_levels_without_factor,
    with_decisions,
)
from isonomy.results import (
    POOLED,
    Columns,
    Evidence,
    Note,
    Plan,
    Verdict,
    column,
    note_if,
    open_call,
    phrases,
    question,
)
from isonomy.results.disclosure import withheld
from isonomy.results.evidence import as_frame, read_only
from isonomy.results.storage import OF_ROWS, from_json, storable

if TYPE_CHECKING:
    import altair as alt

DistanceLike = Annotated[object, COLUMN]  # in Python also a `Distance` or a fitted estimator
Bandwidth = Annotated[float, Number(above=0, unit="in units of the distance")]

MOST_GROUPS = 5  # groups that the findings name
LAW = ("density", "covariance", "curvature")  # f(0), Sigma and S of the law
storable(ToleranceCurve)


@storable
@dataclass(frozen=True)
class CorrectedOption(Option):
    """The paper's test with our corrections and checks.

    Parameters
    ----------
    bandwidth : float, optional
        Bandwidth of the density at the boundary, in units of the distance. Default 1.06 s N^(-1/5) with s = min(sd,
        IQR / 1.349) of the signed distances: rescaling the distances changes no p-value.
    curve : bool, default False
        Whether to test every tolerance, on the side that ``tolerance`` names: the smallest that is not rejected, and
        the smallest that is shown to hold, are confidence limits for the largest difference.
    """

    name: ClassVar[str] = "corrected"
    bandwidth: Bandwidth | None = None
    curve: bool = False


corrected = CorrectedOption


# ---- call


@question(
    "plan_project",
    moved={
        "law": 'method="published" (or "corrected", the default)',
        **{name: f"method=iso.corrected({name}={{}})" for name in ("bandwidth", "curve")},
        "whole": "result.moved_rows(whole={})",
        "tolerance_side": 'the side in the tolerance: tolerance={"above": 0.05} or tolerance={"below": 0.05}',
    },
    idle=lambda options: {"score"} if options.get("distance") is not None else set(),
    asks="How little would have to change for this classifier's selection rates to look equal, and for whom?",
    topic="Least change to equal rates",
    from_counts=True,
    badges={"violation": "Unequal rates shown"},
    verdicts={
        "violation": "the groups are selected at different rates, by more than chance explains.",
        "beyond": "the groups are selected at different rates, by more than the tolerance, beyond what chance "
        "explains.",
    },
    next_steps={
        "violation": (
            "Read the least change as a measure of distance, not as a plan to change decisions about people.",
            "Review the groups whose rates differ, and the basis of the decisions.",
        )
    },
    meaning="The distance of a decision is how far its score, or the quantity that the audit file names, is from the "
    "threshold.",
)
def project(
    data: object = None,
    *,
    outcome: Column | None = None,
    prediction: Column | None = None,
    model: object = None,
    groups: Groups = None,
    criterion: Criterion = "equal_opportunity",
    distance: DistanceLike | None = None,
    score: Column | None = None,
    threshold: Finite | None = None,
    reference: Mapping[str, object] | None = None,
    tolerance: Tolerance | None = None,
    method: Literal["corrected", "published", "corollary"] | CorrectedOption = "corrected",
    alpha: Alpha = 0.05,
    rng: Seeded = None,
    **rows: Unpack[RowOptions],
) -> ProjectionResult:
    """How little would have to change for selection rates to look equal, and is that little enough to be chance?

    Null hypothesis: the selection rates named by ``criterion`` are equal across groups, or differ by no more than
    ``tolerance``. The statistic is the least total distance that rows would have to move, each across the decision
    boundary, for the rates in the table to satisfy the null exactly; the plan lists those rows.

    Parameters
    ----------
    data : table
        Any table. If the distance is an expression of columns, an engine runs grouped passes only.
    outcome, prediction : str, optional
        0/1 columns of what happened (not needed for statistical parity) and of the decision.
    model : fitted scikit-learn classifier, optional
        In place of ``prediction``: its decisions are tested and, without ``distance`` and ``score``, its distances.
    groups : columns, `iso.cut` or `iso.where`, optional
        Each level is compared with the reference level, each named condition with everybody else; several groupings
        are tested together. Not needed for a `Discerning` criterion.
    criterion : str or `Discerning`, default "equal_opportunity"
        Rates among outcome 1, among outcome 0 ("predictive_equality"), both ("equalized_odds"), among all
        ("statistical_parity" or "demographic_parity"), or a user-defined `Discerning` tuple.
    distance : str, `Distance` or fitted scikit-learn estimator, optional
        A column of distances, an object of `isonomy.projection.distances`, or a model whose boundary is known.
    score, threshold : str and float, optional
        Without ``distance``: the column on whose axis distances are measured, |score - threshold|. By default the
        threshold is inferred from the decisions. An estimator takes a threshold too; other distances have none.
    reference : mapping of column to level, optional
        The levels with which others are compared; by default the largest.
    tolerance : float or mapping, optional
        Differences of rates up to this (5 percentage points are 0.05) belong to the null. A mapping names sides
        (``{"above": 0.05}``: at most 0.05 above the reference, with no limit below), rates (``{"tpr": 0.05, "fpr":
        0.1}``) or groups (``{"race=Black": 0.05, ...}``), and the others within them. ``{"above": 0}`` is a one-sided
        test of equality.
    method : {"corrected", "published", "corollary"} or iso.corrected(bandwidth, curve), default "corrected"
        "published" is the paper's procedure: its bandwidth N^(-1/5), its variances and its rule, without our
        corrections and checks. "corollary" is the same with the variances that Corollary 1 prints, for two groups.
        Both take neither weights nor clusters.
    alpha : float, default 0.05
        Error rate.
    rng : int or numpy Generator, optional
        Seed for what has no closed form: a tolerance with several comparisons, and very small groups.
    **rows
        count, weight, cluster, missing, missing_group: how rows are read; see `isonomy.RowOptions`.

    Returns
    -------
    ProjectionResult
        ``statistic``, ``pvalue``, ``critical_value``, ``test_status``, ``plan``; `to_frame` has a row per group and
        outcome.

    Notes
    -----
    *When it misleads*: when the rows trained the classifier, when rows are not independent, and when distances in
    different features are not comparable. Nothing is tested if a compared group has fewer than 10 effective clusters;
    with weights or clusters, each side of a comparison also needs 8 effective rows or clusters selected, and 8 refused,
    observed or expected under the null.

    References
    ----------
    Si, N., Murthy, K., Blanchet, J. and Nguyen, V. A. (2021). Testing group fairness via optimal transport projections.
    ICML 2021. Equations (7) and (9), Theorems 1 and 2.

    Examples
    --------
    >>> import numpy as np, isonomy as iso
    >>> rng = np.random.default_rng(1)
    >>> group = rng.choice(["a", "b"], 2000)
    >>> score = rng.normal(size=2000) + 0.3 * (group == "b")
    >>> table = {"hired": score >= 0, "score": score, "group": group}
    >>> result = iso.project(
    ...     table, prediction="hired", score="score", threshold=0.0, groups="group", criterion="statistical_parity"
    ... )
    >>> print(result.verdict, round(result.statistic, 2), result.pvalue < 0.001)
    violation 10.2 True
    """
    plan, rng, record = open_call("project", plan_project, locals())
    people = read(plan)
    columns, facts = estimate(people, plan, rng)
    criterion_name = words.USER_DEFINED if isinstance(plan.equality, Discerning) else plan.equality
    return ProjectionResult(
        **columns,
        **decide(facts, plan),
        null=words.null(criterion_name, plan.tolerance),
        notes=notes(facts, plan),
        provenance=record(
            rows=round(facts["rows"]),
            dropped=people.dropped,
            random=facts["random"] or plan.correction.curve,
            grouping=plan.grouping,
            criterion=plan.equality,
        ),
        criterion=criterion_name,
        tested=plan.cost.tested,
        alpha=plan.alpha,
        tolerance=plan.tolerance,
        chosen=phrases.chosen(plan.source.labels.metrics),
        listing=cache(lambda whole: moved_rows(plan, facts, whole=whole)),
    )


# ---- plan


def plan_project(source: Source, *, model: object = None, **options: Any) -> ProjectPlan:
    """The plan of a call; a model's decisions become a column."""
    if (model is None) == (options["prediction"] is None):
        raise MissingRole("prediction, model: give one of them, the column of the decisions or a fitted classifier.")
    if model is not None:
        alone = options["distance"] is None and options["score"] is None
        cost = estimators.distance(model, threshold=options["threshold"])
        source, options["prediction"] = with_decisions(source, cost)
        options |= {"distance": cost, "threshold": None} if alone else {}
    return ProjectPlan(source, **options)


@dataclass(frozen=True, eq=False, kw_only=True)
class ProjectPlan(Plan):
    outcome: str | None
    prediction: str
    groups: Groups
    criterion: Criterion
    distance: object
    score: str | None
    threshold: float | None
    reference: Mapping[str, object] | None
    tolerance: Tolerance | None
    method: Literal["corrected", "published", "corollary"] | CorrectedOption
    alpha: float

    def __post_init__(self) -> None:
        check_tolerance(self.tolerance, rates=not self.user_defined)
        published = self.law != "corrected"
        if not self.user_defined and self.groups is None:
            raise MissingRole("groups: name the columns to compare.")
        if not self.user_defined and self.outcome is None and self.equality != "statistical_parity":
            raise MissingRole(f"outcome: {self.equality} compares rates within an outcome; name its 0/1 column.")
        refusals = {
            f'method: "{self.law}" has no law for a tolerance on both sides; use tolerance={{"above": ...}} or '
            '{"below": ...}, or method="corrected".': published and two_sided(self.tolerance),
            f'method: "{self.law}" takes neither weight nor cluster; use method="corrected".': published
            and self.source.designed,
            'method: "corollary" is stated for two groups and no tolerance; use method="published".': self.law
            == "corollary"
            and (self.user_defined or self.tolerance is not None),
            "reference: a user-defined criterion does not use it: phi says what is compared.": self.user_defined
            and self.reference is not None,
            "distance, score: give one of them.": self.distance is not None and self.score is not None,
        }
        for message, refused in refusals.items():
            if refused:
                raise UsageError(message)
        self.source.require(outcome=self.outcome, prediction=self.prediction, score=self.score)
        dimensions = () if self.grouping is None else self.grouping.dimensions
        for name, expr in self.u.items():
            self.source.check_expression(f"criterion {name!r}", expr)
        for name in (*self.cost.columns, *([] if self.price is None else [self.price.column])):
            self.source.require(distance=name)
        role = "distance" if self.score is None else "score"
        for name in self.cost.columns:
            self.source.check(Request(binary=self.request.binary, numeric={role: name}))
        # A reference must be about a column that is compared; its level is checked once the levels are known.
        columns = [dimension.name for dimension in dimensions if not dimension.condition]
        for name in self.reference or ():
            if any(dimension.condition and dimension.name == name for dimension in dimensions) or not columns:
                allowed = f"Allowed: {', '.join(columns)}." if columns else "There is no such column; leave it out."
                raise UsageError(
                    f"reference: {name!r} is not allowed; a named condition is always compared with everybody else. "
                    f"{allowed}"
                )
            choose("reference", name, columns)

    @property
    def law(self) -> str:
        return self.method if isinstance(self.method, str) else self.method.name

    @property
    def correction(self) -> CorrectedOption:
        return self.method if isinstance(self.method, CorrectedOption) else CorrectedOption()

    @property
    def user_defined(self) -> bool:
        return isinstance(self.criterion, Discerning)

    @property
    def equality(self) -> Discerning | str:
        return "statistical_parity" if self.criterion == "demographic_parity" else self.criterion

    @cached_property
    def grouping(self) -> Grouping | None:
        return None if self.groups is None else self.source.grouping(self.groups)

    @property
    def price(self) -> PerGroup | None:
        return self.distance if isinstance(self.distance, PerGroup) else None

    @cached_property
    def cost(self) -> Distance:
        """What it costs a row to cross the boundary, before its factor. A threshold that is not known yet is 0."""
        distance = self.distance if self.price is None else self.price.distance
        if isinstance(distance, str | Distance):
            if self.threshold is not None:
                raise UsageError(
                    "threshold: this distance does not use one; leave it out, or give score (or an estimator) instead "
                    "of distance."
                )
            return ColumnDistance(distance) if isinstance(distance, str) else distance
        if distance is not None:
            return estimators.distance(distance, threshold=self.threshold)
        if self.score is None:
            raise MissingRole(
                "distance: none given. Give score (a column; distance is measured on its axis), or distance: a column, "
                "a fitted scikit-learn estimator, or an object of isonomy.projection.distances."
            )
        return Score(self.score, self.threshold or 0.0)

    @property
    def factor(self) -> Expression | None:
        """The factor of each row's distance, missing for a level without one; None for 1."""
        return None if self.price is None else levels(self.price.column, self.price.factors)

    @cached_property
    def signed(self) -> Expression | None:
        plain = self.cost.expression()
        return plain if plain is None or self.factor is None else plain * self.factor

    @property
    def inferred(self) -> bool:
        return self.distance is None and self.threshold is None

    @property
    def requests(self) -> tuple[Request, ...]:
        """The first pass over an engine's rows; none if rows are read, or a threshold has to be found first."""
        return (self.first,) if self.source.lazy and self.signed is not None and not self.inferred else ()

    @property
    def first(self) -> Request:
        assert self.signed is not None
        finite = either(infinite(self.signed), 0.0, self.signed)
        sums = {"first": finite.abs(), "second": finite * finite, "infinite": flag(infinite(self.signed))}
        return replace(self.request, values={**sums, "across": flag(self.across(0.0))})

    def across(self, slack: float) -> Expression:
        """Whether a row is not on the side of its decision; for an unsigned distance, whether it is below 0."""
        assert self.signed is not None
        if not self.cost.signed:
            return self.signed < 0
        return either(number(self.prediction) == 1.0, self.signed, -self.signed) < -slack

    @cached_property
    def request(self) -> Request:
        """The roles of every pass: groups, decisions, U; and what must not be missing, without which a row is out."""
        binary = {"prediction": self.prediction}
        binary = binary if self.outcome is None else {"outcome": self.outcome, **binary}
        u = {name: number(expr) for name, expr in self.u.items()}
        plain, needed = self.cost.expression(), dict[str, str | Expression](self.features)
        if plain is not None:
            columns = " ".join(map(repr, self.cost.columns[:3])) + " ..." * (len(self.cost.columns) > 3)
            needed = {f"distance (from {columns})": either(infinite(plain), 0.0, plain)}  # infinite is not missing
        if self.factor is not None:
            needed["factors"] = self.factor
        needed |= {f"criterion {name!r}": value for name, value in u.items()}
        return Request(self.grouping, binary, needed, {f"u {name}": value for name, value in u.items()})

    @property
    def features(self) -> dict[str, str]:
        return {f"feature {i}": name for i, name in enumerate(self.cost.columns, start=1)}

    @property
    def u(self) -> Mapping[str, Expression]:
        return self.criterion.u if isinstance(self.criterion, Discerning) else {}


# ---- read


def read(plan: ProjectPlan) -> RowsInMemory | RowsByPasses:
    if plan.inferred:
        plan = replace(plan, threshold=infer_threshold(plan))
    try:
        return RowsByPasses(plan) if plan.source.lazy and plan.signed is not None else RowsInMemory(plan)
    except MissingValues:
        refuse_levels_without_factor(plan)
        raise


def moved_rows(plan: ProjectPlan, facts: Mapping[str, Any], *, whole: bool) -> MovedRows:
    """Read the table again, and list who would have to move: rows are listed only on request."""
    if whole and plan.source.reading["weight"] is not None:
        raise UsageError("whole: rows with weights do not stand for whole people; leave whole or weight out.")
    people = read(plan)
    cells, change = people.cells, facts["change"]
    if not np.array_equal(cells.count, facts["test"].rows.cells.count):
        raise DataError("data: the table changed since it was tested; project it again before asking for the plan.")
    moved = round_to_rows(change, facts["constraint"]) if whole else change.moved
    rows = people.movers(moved)
    cell, names, start = rows.pop("cell"), cells.names, rows.pop("start")
    end, beyond = plan.cost.move(start), plan.cost.move(start, beyond=1.0)
    return MovedRows(
        **rows,
        group=tuple(names[i] for i in cell),
        outcome=np.full(cell.size, -1, dtype=np.intp) if cells.outcome is None else cells.outcome[cell],
        decision=cells.selected[cell],
        features=() if end is None else plan.cost.columns,
        start=np.empty((cell.size, 0)) if end is None else start,
        end=np.empty((cell.size, 0)) if end is None else end,
        step=np.empty((cell.size, 0)) if end is None or beyond is None else beyond - end,
        backend=plan.source.backend,
    )


# ---- estimate


def estimate(people: Rows, plan: ProjectPlan, rng: np.random.Generator) -> tuple[dict[str, Any], dict[str, Any]]:
    """Solve the program, judge its value, and compute its consequences for each event.

    Returns the columns and numbers of the result, and the facts that only the decision and the plan need.
    """
    cells = people.cells
    moments = comparisons(cells, plan.equality, plan.reference)
    if plan.law == "corollary" and moments.event.size > len(set(moments.outcomes)):
        raise UsageError('method: "corollary" is stated for two groups and no tolerance; use method="published".')
    rows, null = cells.number @ moments.member, tolerated(plan.tolerance, moments.keys)
    width = plan.correction.bandwidth
    test = ProjectionTest(people, moments, bandwidth=width, tested=plan.cost.tested, method=plan.law)
    curve = None
    if plan.correction.curve:
        curve = tolerance_curve(test, one_side(plan.tolerance)[1], alpha=plan.alpha, rng=rng.spawn(1)[0])
    facts = test.against(null, alpha=plan.alpha, rng=rng)
    change, size, reference = facts["change"], len(moments.groups), moments.reference
    value, error, room = np.zeros(size), np.full(size, np.nan), np.full((2, size), np.nan)
    multiplier, welch = np.full(size, np.nan), np.full(size, np.nan)
    value[moments.event], error[moments.event] = moments.value, facts["standard_error"]
    multiplier[moments.event[facts["places"]]] = change.dual
    if people.sample is None and not plan.user_defined:
        with np.errstate(divide="ignore", invalid="ignore"):
            spread = np.sqrt(moments.rate * (1 - moments.rate) * rows / (rows - 1))
            counted: Any = rows  # scipy's stubs ask for integers
            (m1, s1, n1), (m0, s0, n0) = (
                (moments.rate[i], spread[i], counted[i]) for i in (moments.event, reference[moments.event])
            )
            welch[moments.event] = ttest_ind_from_stats(m1, s1, n1, m0, s0, n0, equal_var=False).pvalue
    room[:, moments.event] = null.low, null.high
    margin = t_isf(plan.alpha / 2, test.df) * error
    most = np.inf if plan.user_defined else 1.0  # rates differ by at most 1
    detectable, needed = plan_rows(Null(*room), error, rows, plan.alpha, test.df)
    member = moments.member.T.astype(float)
    up, down = (member @ np.where(cells.selected == decision, change.moved, 0.0) for decision in (0, 1))
    up, down = (np.where(number <= TRACE, 0.0, number) for number in (up, down))
    moved = float(change.moved.sum())
    with np.errstate(invalid="ignore", divide="ignore"):
        # The mean over a single row would be that row's own distance.
        mean = np.where(up + down > 1 + TRACE, (member @ change.cost) / (up + down), np.nan)
        average = float(np.float64(change.value) / moved)
    numbers = ("tested_statistic", "pvalue", "critical_value", "wald_statistic", "wald_pvalue", "equivalence_pvalue")
    columns = {
        "groups": moments.groups,
        "against": tuple("" if i < 0 else moments.groups[i].label for i in reference),
        "outcome": moments.outcomes,
        "n": rows,
        "estimate": moments.rate,
        "reference": np.where(reference == np.arange(size), np.nan, moments.rate[reference]),
        "disparity": value,
        "ci_low": np.maximum(value - margin, -most),
        "ci_high": np.minimum(value + margin, most),
        "tolerated_low": room[0],
        "tolerated_high": room[1],
        "detectable": np.where(detectable <= most, detectable, np.nan),
        "rows_needed": needed,
        "multiplier": multiplier,
        "welch_pvalue": welch,
        "moved_up": up,
        "moved_down": down,
        "share_moved": (up + down) / np.maximum(cells.count @ moments.member, 1e-300),
        "mean_distance": mean,
        "reach": (member * np.where(change.moved == 0, 0.0, change.reach)).max(axis=1),
        "statistic": change.value,
        **{name: facts[name] for name in (*numbers, "test_status", "bandwidth", "weights", *LAW)},
        "rows": cells.rows,
        "moved": moved,
        "overall_share": moved / cells.rows,
        "overall_distance": average,
        "curve": curve,
    }
    used = np.any([cells.within(outcome) for outcome in set(moments.outcomes)], axis=0)
    return columns, {**facts, "test": test, "constraint": test.constraint(null), "rows": float(cells.number @ used)}


# ---- decide


def decide(facts: Mapping[str, Any], plan: ProjectPlan) -> dict[str, Any]:
    """The verdict by the rule of all tests: within tolerance is what the test of equivalence shows."""
    shown = conclude([facts["pvalue"]], alpha=plan.alpha, within_pvalue=[facts["equivalence_pvalue"]])
    test: ProjectionTest = facts["test"]
    status = np.full(len(test.moments.groups), Status.REFERENCE, dtype=object)
    # A status that is about the distances leaves the comparisons to the Wald test.
    law = facts["test_status"]
    untested = law if law in (Status.CONSTANT, Status.FEW_CLUSTERS) else Status.OK
    few = np.where(facts["few_events"], Status.FEW_EVENTS, untested)
    status[test.moments.event] = np.where(test.constant, Status.CONSTANT, few)
    return {"verdict": shown.verdict, "status": status}


def notes(facts: Mapping[str, Any], plan: ProjectPlan) -> tuple[Note, ...]:
    test: ProjectionTest = facts["test"]
    moments, status = test.moments, facts["test_status"]
    labels = [group.label for group in moments.groups]

    def within(code: str, places: BoolArray) -> list[Note]:
        named: dict[int | None, list[str]] = {}
        for i in moments.event[places]:
            named.setdefault(moments.outcomes[i], []).append(labels[i])
        return [Note(code, tuple(groups), {"outcome": outcome}) for outcome, groups in named.items()]

    constant = "project_fixed_moments" if plan.user_defined else "project_no_variance"
    codes = {Status.OK: "", Status.FEW_EVENTS: "", Status.CONSTANT: constant}
    law = codes.get(status, f"project_{status}")
    conditions = {
        "project_pooled": facts["pooled"],
        law if plan.cost.tested else "project_squared": law or not plan.cost.tested,
        "project_published": test.published,
        "project_smoothed": facts["smoothed"],
        "project_permuted": facts["permuted"],
    }
    rows = test.rows.cells.number @ moments.member
    small = {label for label, n in zip(labels, rows, strict=True) if n < FEW and not plan.user_defined}
    scored = plan.cost.scored_by
    by_model = Note("project_searched" if plan.cost.approximate else "project_scored", values={"model": scored})
    return (
        *note_if("project_redundant", [labels[i] for i in moments.event[test.redundant]]),
        *(within("project_constant", test.constant) if test.left_out else ()),
        *note_if("project_few_rows", sorted(small), least=FEW),
        *within("project_few_events", facts["few_events"]),
        *(Note(code) for code, holds in conditions.items() if holds),
        *([by_model] if scored else []),
    )


# ---- evidence


@storable
@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class MovedRows:
    """The rows that would have to move, nearest first.

    ``row`` is the position in the data (-1 if an engine has no order), ``decision`` the present decision (0 or 1),
    ``fraction`` the share of the row that flips (1 except for the last ones), ``start`` and ``end`` the features before
    and after, if the distance knows them.
    """

    row: IntArray
    group: tuple[str, ...]
    outcome: IntArray  # -1 if there is none
    decision: IntArray
    distance: FloatArray
    fraction: FloatArray
    features: tuple[str, ...]
    start: FloatArray
    end: FloatArray
    step: FloatArray = field(default_factory=lambda: np.empty((0, 0)))  # across the boundary, per unit of distance
    complete: bool = True  # False if only the nearest are listed
    backend: str = "polars"  # the caller's library

    def __post_init__(self) -> None:
        read_only(self)

    def table(self) -> Columns:
        """The columns of `to_frame`, in order. What is not known is empty, not -1: that would be a row's number."""
        columns: dict[str, Any] = {
            "row": [None] * self.row.size if (self.row < 0).any() else self.row,
            "group": self.group,
            "outcome": [None] * self.row.size if (self.outcome < 0).any() else self.outcome,
            "decision": [words.DOWN if decision else words.UP for decision in self.decision],
            "distance": self.distance,
            "fraction": self.fraction,
        }
        for j, name in enumerate(self.features):
            columns |= {f"{name} from": self.start[:, j], f"{name} to": self.end[:, j]}
        return columns

    def projected(self, epsilon: Annotated[float, Number(above=0, most=1)], backend: str | None = None) -> Any:
        """The nearly optimal table of Proposition 3: these rows where they would go, ``epsilon`` beyond the boundary.

        With the rows of the table that do not move, each with mass 1, it is a table whose rates are as the null says,
        at no more than ``epsilon`` per row above the least distance. A row that moves in part has a second line, with
        the rest of its mass where it is. (A tree's boundary is crossed by at most half of the next box.)
        """
        check("epsilon", epsilon, Annotated[float, Number(above=0, most=1)])
        if not self.features:
            raise UsageError("projected: this distance does not know where rows would go; use a linear one or a tree.")
        across, partly = self.end + epsilon * self.step, np.flatnonzero(self.fraction < 1)
        lines = np.concatenate([np.arange(self.row.size), partly])
        places = np.concatenate([across, self.start[partly]])
        columns: dict[str, Any] = {
            "row": [None] * lines.size if (self.row < 0).any() else self.row[lines],
            "group": [self.group[i] for i in lines],
            "decision": np.concatenate([1 - self.decision, self.decision[partly]]),
            "mass": np.concatenate([self.fraction, 1 - self.fraction[partly]]),
            **dict(zip(self.features, places.T, strict=True)),
        }
        return as_frame(columns, backend, self.backend)

    def to_frame(self, backend: str | None = None) -> Any:
        """The rows in the caller's library (pandas, polars or pyarrow); polars for any other input."""
        return as_frame(self.table(), backend, self.backend)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ProjectionResult(Evidence):
    """The least change that would make selection rates equal, the evidence against chance, and who would move.

    The table has one row per group and outcome.

    Attributes
    ----------
    statistic, tested_statistic : float
        s, the least total distance; infinite if no set of flips is enough, NaN if the solver stopped early. The second
        is the one that the law judges, with scores spread over the steps of their lattice if they lie on one.
    pvalue, critical_value : float
        Of the projection's law; the critical value is the ``tested_statistic`` at which the p-value is ``alpha``. If
        ``test_status`` is not OK, the p-value is that of the Wald test (``wald_pvalue``), and the critical value is
        NaN. Both are NaN if nothing is tested (``test_status`` is "constant", "few_clusters" or "few_events").
    equivalence_pvalue : float
        A small value shows that every difference lies within the tolerance; NaN without a tolerance.
    multiplier, welch_pvalue : ndarray
        The dual variable of each comparison: rows nearer than minus its sum over what their flip changes move; and
        Welch's t-test of each comparison alone, NaN with weights or clusters.
    density, covariance, curvature : float and ndarray
        f(0), the density of the signed distance at the boundary; Sigma and S of Theorem 1, one row for each comparison
        tested; None if the law does not hold, or if a group is withheld.
    moved, overall_share, overall_distance : float
        Number of decisions that would have to flip, their share of all decisions, and their mean distance; NaN if there
        is no plan.
    detectable, rows_needed : ndarray
        As in the table, for each comparison alone.
    curve, plan : ToleranceCurve and MovedRows, or None
        The tests of all other tolerances, with ``method=iso.corrected(curve=True)``; the rows that would have to move,
        nearest first, read from the table on request. `moved_rows` lists whole people only.
    """

    method: ClassVar[str] = words.METHOD
    references: ClassVar[tuple[str, ...]] = words.REFERENCES
    always_assumed: ClassVar[tuple[tuple[str, str], ...]] = words.ASSUMPTIONS

    against: tuple[str, ...] = column("Compared with", withheld=False)
    outcome: tuple[int | None, ...] = column("Outcome", withheld=False)
    n: FloatArray = column("Rows counted", count=True)
    estimate: FloatArray = column("Selection rate", unit="%")
    reference: FloatArray = column("Reference: selection rate", unit="%")
    disparity: FloatArray = column("Difference", unit="points")
    ci_low: FloatArray = column(unit="points")
    ci_high: FloatArray = column(unit="points")
    tolerated_low: FloatArray = column("Tolerance from", unit="points", withheld=False, listed=False)
    tolerated_high: FloatArray = column("Tolerance to", unit="points", withheld=False, listed=False)
    detectable: FloatArray = column("Difference detectable in 80 % of samples", unit="points")
    rows_needed: FloatArray = column("Rows needed to show it is within tolerance", whole=True)
    multiplier: FloatArray = column("Dual multiplier", listed=False)
    welch_pvalue: FloatArray = column("Welch's t-test: p‑value", listed=False)
    moved_up: FloatArray = column("From refused to selected", whole=True)
    moved_down: FloatArray = column("From selected to refused", whole=True)
    share_moved: FloatArray = column("Would have to change", unit="%")
    mean_distance: FloatArray = column("Average distance")
    reach: FloatArray | None = field(metadata={**column("Largest distance").metadata, **OF_ROWS})
    criterion: str
    statistic: float = field(metadata=POOLED)
    tested_statistic: float = field(metadata=POOLED)
    pvalue: float = field(metadata=POOLED)
    critical_value: float = field(metadata=POOLED)
    wald_statistic: float = field(metadata=POOLED)
    wald_pvalue: float = field(metadata=POOLED)
    equivalence_pvalue: float = field(metadata=POOLED)
    test_status: Status  # why the projection's law was not used
    tested: bool
    alpha: float
    tolerance: Tolerance | None
    bandwidth: float = field(metadata=POOLED)
    weights: FloatArray = field(metadata=POOLED)  # of the chi-squares of the law
    density: float = field(default=np.nan, metadata=POOLED)
    covariance: FloatArray | None = None
    curvature: FloatArray | None = None
    rows: float
    moved: float
    overall_share: float
    overall_distance: float = field(metadata=POOLED)
    curve: ToleranceCurve | None
    chosen: str = "selected"  # the word for people whose decision is 1
    listing: MovedRows | Callable[[bool], MovedRows] | None = field(metadata=OF_ROWS, repr=False)  # behind `plan`

    @property
    def plan(self) -> MovedRows | None:
        """The rows that would have to move, nearest first: looked up in the table on first request."""
        return self.moved_rows()

    def moved_rows(self, *, whole: bool = False) -> MovedRows | None:
        """The rows of the plan. ``whole``: whole people only; of all ways to round, the one nearest to the null.

        None in a suppressed result; a stored one has at most the rows of `plan`.
        """
        check("whole", whole, bool)
        if callable(self.listing):
            return self.listing(whole)
        return None if whole else self.listing

    def units(self) -> Mapping[str, str]:
        """Rates in percent, and their differences in points; moments of a user-defined criterion as they are."""
        return {} if self.criterion == words.USER_DEFINED else Evidence.units(self)

    def headings(self) -> Mapping[str, str]:
        """The columns in the words of the audit for people whose decision is 1."""
        return {**Evidence.headings(self), **words.headings(self.chosen)}

    def to_dict(self, *, rows: bool = False) -> dict[str, object]:
        """The result in plain JSON types. ``rows``: with the rows that would move."""
        plan = self.plan if rows else None
        return Evidence.to_dict(replace(self, listing=plan and replace(plan, backend="polars")), rows=rows)

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return from_json, (self.to_json(),)  # a pickle holds no row of anybody either

    def headline(self) -> str:
        return words.headline(self) if self.answered else Evidence.headline(self)

    def findings(self) -> tuple[str, ...]:
        """Rates, the least change, the evidence, who would move, what the rows could show."""
        largest = self._largest()
        moving = [i for i in np.argsort(-self.share_moved) if self.share_moved[i] > 0]
        return (
            *(words.difference(self, i) for i in largest),
            words.change(self),
            words.evidence(self),
            *([words.equivalence(self)] if one_side(self.tolerance)[0] else []),
            *words.largest_difference(self),
            *(words.movers(self, i) for i in moving[:MOST_GROUPS]),
            *(words.planning(self, i) for i in largest[:MOST_GROUPS]),
        )

    def deciding(self) -> str:
        """The largest difference, and the test that decided."""
        if not self.answered:
            return self.headline()
        test = words.equivalence(self) if self.verdict is Verdict.WITHIN_TOLERANCE else words.evidence(self)
        return " ".join([*(words.difference(self, i) for i in self._largest()[:1]), test])

    def _largest(self) -> list[int]:
        """Places of the comparisons that were tested, largest difference first."""
        tested = [i for i, status in enumerate(self.status) if status is Status.OK]
        return sorted(tested, key=lambda i: -abs(self.disparity[i]))

    def limits(self) -> tuple[str, ...]:
        return words.limits(self)

    def plot(self) -> alt.TopLevelMixin:
        """Who would have to move, and how far; with the tolerance curve, if there is one."""
        from isonomy.projection.charts import projection

        return projection(self)

    def suppressed(self, minimum: int, also: Collection[str] = ()) -> Self:
        """A copy that withholds the numbers of small groups, and lists no single row of anybody."""
        few = self.moved_up + self.moved_down < minimum
        unlisted = replace(self, listing=None, reach=None, mean_distance=np.where(few, np.nan, self.mean_distance))
        place = {line: i for i, line in enumerate(zip(self.labels, self.outcome, strict=True))}
        base = [place.get(line, -1) for line in zip(self.against, self.outcome, strict=True)]
        small = (self.n < minimum) | np.isnan(self.n) | np.isin(self.labels, list(also))
        # The groups compared with the same reference are everybody; moments of a user-defined criterion may overlap.
        parts = [
            Group(((against or CONDITION, label),)) for label, against in zip(self.labels, self.against, strict=True)
        ]
        small = withheld(parts, self.n, small, minimum, references=np.isin(np.arange(len(base)), base))
        # A rate and its difference from the reference give the reference's rate away.
        derived = small | np.isin(base, np.flatnonzero(small))
        if not derived.any():
            return unlisted
        hidden = unlisted.hide(derived)
        numbers = ("reference", "disparity", "ci_low", "ci_high", "multiplier", "welch_pvalue", "detectable")
        withdrawn = {name: getattr(hidden, name) for name in (*numbers, "rows_needed", "status", "verdict")}
        withdrawn |= {"covariance": None, "curvature": None, "curve": None}
        return replace(unlisted.hide(small), **withdrawn)
