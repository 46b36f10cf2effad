"""What a projection is asked: roles, criterion, distance and null, checked against the schema."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from isonomy.errors import MissingRole, UsageError, choose
from isonomy.frames import Grouping, Groups, Request, Source
from isonomy.frames.checks import flag
from isonomy.frames.expressions import Expression, either, infinite, number
from isonomy.options import COLUMN
from isonomy.results import Options, phrases
from isonomy.transport.program import estimators
from isonomy.transport.program.criteria import Criterion, Discerning, Equality
from isonomy.transport.program.distances import Column, Distance, Score
from isonomy.transport.program.tolerance import ToleranceSide, Tolerated, check_tolerance

LawName = Literal["corrected", "published"]
DistanceLike = Annotated[object, COLUMN]  # in Python also a `Distance` or a fitted estimator


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """Who is grouped how, what was decided, how far rows are from the boundary, which differences are allowed."""

    grouping: Grouping | None
    outcome: str | None
    prediction: str
    criterion: Equality | Discerning
    distance: Distance
    inferred: bool  # the threshold of a score is not known yet: the decisions will show it
    reference: Mapping[str, object]
    tolerance: Tolerated | None
    tolerance_side: ToleranceSide
    bandwidth: float | None
    law: LawName
    curve: bool
    whole: bool
    alpha: float
    lazy: bool  # an engine holds the rows
    chosen: str  # what people are whose decision is 1

    @property
    def by_passes(self) -> bool:
        """Whether grouped passes answer: an engine holds the rows, and the distance is an expression."""
        return self.lazy and self.distance.expression() is not None

    @property
    def requests(self) -> tuple[Request, ...]:
        """The first pass over an engine's rows; none where rows are read, or a threshold has to be found first."""
        return (self.first,) if self.by_passes and not self.inferred else ()

    @property
    def first(self) -> Request:
        """Cells, and sums of the distance and its square."""
        distance = self.signed
        finite = either(infinite(distance), 0.0, distance)
        sums = {
            "first": finite.abs(),
            "second": finite * finite,
            "infinite": flag(infinite(distance)),
            "across": flag(self.across(0.0)),
        }
        return Request(self.grouping, self.binary, self.numeric, self.keys, sums)

    def across(self, slack: float) -> Expression:
        """Whether a row is on the other side of the boundary than its decision says; below 0, if it has one side."""
        if not self.distance.signed:
            return self.signed < 0
        return either(number(self.prediction) == 1.0, self.signed, -self.signed) < -slack

    @property
    def signed(self) -> Expression:
        """The (signed) distance, of those that are an expression."""
        plain, factor = self.distance.expression(), self.distance.factor()
        assert plain is not None
        return plain if factor is None else plain * factor

    @property
    def binary(self) -> dict[str, str]:
        """The 0/1 columns."""
        outcome = {} if self.outcome is None else {"outcome": self.outcome}
        return outcome | {"prediction": self.prediction}

    @property
    def features(self) -> dict[str, str]:
        """The columns that the distance measures."""
        return {f"feature {i}": column for i, column in enumerate(self.distance.columns, start=1)}

    @property
    def u(self) -> Mapping[str, Expression]:
        """The components of U in a criterion of one's own."""
        return self.criterion.u if isinstance(self.criterion, Discerning) else {}

    @property
    def keys(self) -> dict[str, Expression]:
        """The components of U, as numbers."""
        return {f"u{i}": number(expr) for i, expr in enumerate(self.u.values())}

    @property
    def numeric(self) -> dict[str, str | Expression]:
        """What must not be missing: the distance or what it is computed from, its factor, U."""
        plain, factor = self.distance.expression(), self.distance.factor()
        checked: dict[str, str | Expression] = dict(self.features)
        if plain is not None:
            columns = " ".join(map(repr, self.distance.columns[:3])) + " ..." * (len(self.features) > 3)
            checked = {f"distance (from {columns})": either(infinite(plain), 0.0, plain)}  # infinite is not missing
        if factor is not None:
            checked["factors"] = factor
        return checked | {f"criterion {name!r}": number(expr) for name, expr in self.u.items()}


def plan(
    source: Source,
    *,
    prediction: str,
    outcome: str | None,
    groups: Groups,
    criterion: Criterion,
    distance: DistanceLike | None,
    score: str | None,
    threshold: float | None,
    reference: Mapping[str, object] | None,
    tolerance: Tolerated | None,
    tolerance_side: ToleranceSide,
    bandwidth: float | None,
    law: LawName,
    curve: bool,
    whole: bool,
    alpha: float,
) -> Plan:
    """Check what was asked against the schema; no row is read."""
    own = isinstance(criterion, Discerning)
    check_tolerance(tolerance, tolerance_side, rates=not own)
    if law == "published" and (curve or (tolerance is not None and tolerance_side == "both")):
        raise UsageError(
            'law: "published" has no law for a tolerance on both sides, and no curve; use tolerance_side="upper" or '
            '"lower", or law="corrected".'
        )
    if whole and source.reading.weight is not None:
        raise UsageError("whole: rows with weights stand for other than whole people; leave whole or weight out.")
    if law == "published" and source.designed:
        raise UsageError('law: "published" knows neither weight nor cluster; leave them out, or use law="corrected".')
    if prediction is None:  # the signature forbids it, and there is no other way to know the decisions
        raise MissingRole("prediction: None is not allowed; name the 0/1 column of the decision.")
    if groups is None and not own:
        raise MissingRole("groups: name the columns to compare.")
    if outcome is None and not own and criterion != "statistical_parity":
        raise MissingRole(f"outcome: {criterion} compares rates within an outcome; name its 0/1 column.")
    source.require(outcome=outcome, prediction=prediction, score=score)
    asked = Plan(
        grouping=None if groups is None else source.grouping(groups),
        outcome=outcome,
        prediction=prediction,
        criterion=criterion,
        distance=_distance(distance, score, threshold),
        inferred=distance is None and threshold is None,
        reference=reference or {},
        tolerance=tolerance,
        tolerance_side=tolerance_side,
        bandwidth=bandwidth,
        law=law,
        curve=curve,
        whole=whole,
        alpha=alpha,
        lazy=source.lazy,
        chosen=phrases.chosen(source.labels.metrics),
    )
    _check_columns(source, asked, "distance" if score is None else "score")
    if reference is not None:
        _check_reference(asked)
    return asked


def idle_roles(options: Options) -> set[str]:
    """A score is not looked at where distances are given."""
    return {"score"} if options.get("distance") is not None else set()


def _distance(distance: object, score: str | None, threshold: float | None) -> Distance:
    """The distance that was meant."""
    if distance is not None and score is not None:
        raise UsageError("distance, score: give one of them.")
    if isinstance(distance, str | Distance):
        if threshold is not None:
            raise UsageError(
                f"threshold: {threshold!r} was given, and the distance uses none. Leave it out, or give score (or an "
                "estimator) in place of distance."
            )
        return Column(distance) if isinstance(distance, str) else distance
    if distance is not None:
        return estimators.of(distance, threshold=threshold)
    if score is None:
        raise MissingRole(
            "distance: none given. Give score (a column; distance is measured on its axis), or distance: a column, a "
            "fitted scikit-learn estimator, or an object of isonomy.transport.distances."
        )
    return Score(score, 0.0 if threshold is None else threshold)


def _check_columns(source: Source, asked: Plan, argument: str) -> None:
    """Raise about columns that are not there, or do not hold what is needed of them."""
    for name, expr in asked.u.items():
        source.check_expression(f"criterion {name!r}", expr)
    for column in asked.distance.reads:
        source.require(distance=column)
    for column in asked.distance.columns:
        source.check(Request(binary=asked.binary, numeric={argument: column}))


def _check_reference(asked: Plan) -> None:
    """A reference must be about a column that is compared; its level is checked once the levels are known."""
    if isinstance(asked.criterion, Discerning):
        raise UsageError(
            "reference: not used by a criterion of your own, whose phi says what is compared; leave it out."
        )
    dimensions = () if asked.grouping is None else asked.grouping.dimensions
    columns = [dimension.name for dimension in dimensions if not dimension.condition]
    for name in asked.reference:
        if any(dimension.condition and dimension.name == name for dimension in dimensions) or not columns:
            allowed = f"Allowed: {', '.join(columns)}." if columns else "No column is grouped by; leave reference out."
            raise UsageError(
                f"reference: {name!r} is not allowed; a named condition is always compared with everybody else. "
                f"{allowed}"
            )
        choose("reference", name, columns)
