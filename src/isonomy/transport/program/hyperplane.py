"""Distances of linear classifiers: straight to the hyperplane, or with discrete features that may jump."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from isonomy.errors import UsageError
from isonomy.frames.expressions import Expression, among, either, linear
from isonomy.numerics.arrays import FloatArray
from isonomy.options import Finite, Positive, check
from isonomy.transport.program.cost import DUAL, Distance, Features, Norm, check_names, feature_costs


@dataclass(frozen=True)
class Linear(Distance):
    """Distance to the hyperplane theta'(x - centre) + intercept = 0.

    ``norm`` measures the move: "l2" straight across, "l1" along the one feature that counts most, "linf" along all
    features at once. ``centre`` (0 unless given) is for features far from 0, such as times in seconds: subtracted
    first, they keep the digits that theta'x and a large intercept would lose. ``immutable`` features do not move;
    ``costs`` says what a unit of a feature costs, 1 where nothing is said.

    >>> plane = Linear(("x", "y"), (3.0, 4.0), -5.0)
    >>> plane.evaluate(np.array([[3.0, 4.0]])), plane.move(np.array([[3.0, 4.0]]))
    (array([4.]), array([[0.6, 0.8]]))
    """

    features: Features
    coefficients: Sequence[float]
    intercept: Finite = 0.0
    norm: Norm = "l2"
    centre: Sequence[float] = ()
    immutable: Sequence[str] = ()
    costs: Mapping[str, float] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        check_names("features", self.features)
        Distance.__post_init__(self)
        for argument, values in (("coefficients", self.coefficients), ("centre", self.centre)):
            if len(values) != len(self.features) and not (argument == "centre" and len(values) == 0):
                raise UsageError(f"{argument}: {len(values)} for {len(self.features)} features; give one each.")
            for value in values:
                check(argument, value, Finite)
        with np.errstate(over="ignore"):
            size = self._size
        if not size > 0:
            raise UsageError("coefficients: all that can change are zero; such a classifier has no boundary to cross.")
        if not size < np.inf:  # every distance would be 0
            raise UsageError("coefficients, costs: too large, by unit of cost, to measure with; rescale the features.")

    @property
    def each(self) -> FloatArray:
        """How far a unit of cost moves each feature: not at all where it is immutable."""
        return 1 / feature_costs(self.features, self.immutable, self.costs)

    @property
    def _steep(self) -> FloatArray:
        """The coefficients by unit of cost."""
        return np.asarray(self.coefficients, dtype=float) * self.each

    @property
    def _size(self) -> float:
        return float(np.linalg.norm(self._steep, DUAL[self.norm]))

    def expression(self) -> Expression:
        """The margin over the dual norm, as an expression of the features."""
        return self.margin() * (1.0 / self._size)

    def margin(self) -> Expression:
        """theta'(x - centre) + intercept, as an expression of the features."""
        return linear(self.features, self.coefficients, self.intercept, self._origin.tolist())

    def margins(self, features: FloatArray) -> FloatArray:
        """The same for arrays."""
        return np.asarray((features - self._origin) @ np.asarray(self.coefficients, dtype=float) + self.intercept)

    @property
    def _origin(self) -> FloatArray:
        return np.asarray(self.centre, dtype=float) if len(self.centre) else np.zeros(len(self.features))

    def evaluate(self, features: FloatArray) -> FloatArray:
        """The same for arrays."""
        return self.margins(features) / self._size

    def move(self, features: FloatArray) -> FloatArray:
        """The nearest point of the hyperplane in the chosen norm."""
        step = _steepest(self._steep, self.norm) * self.each
        return features - np.outer(self.evaluate(features), step)


@dataclass(frozen=True)
class Mixed(Distance):
    """Linear classifier whose discrete features may jump to any listed combination, at price ``delta`` in all.

    Cost (4) of the paper: continuous features move at their norm; changing the discrete ones, however many, costs
    ``delta``. The best jump is the listed combination with the largest (or smallest) theta'x. A row whose discrete
    features are not a listed combination cannot jump: to it and from it the cost is infinite.
    """

    linear: Linear
    discrete: Features
    allowed: Sequence[Sequence[float]]
    delta: Positive

    def __post_init__(self) -> None:
        check_names("discrete", self.discrete)
        if not isinstance(self.linear, Linear):
            raise UsageError(f"linear: {self.linear!r} is not allowed; give a Linear(features, coefficients).")
        features = self.linear.features
        unknown = [name for name in self.discrete if name not in features]
        if unknown or not self.discrete:
            raise UsageError(f"discrete: {unknown or 'none given'}; name some of {', '.join(features)}.")
        for argument, names in (("immutable", self.linear.immutable), ("costs", self.linear.costs)):
            if jumping := [name for name in self.discrete if name in names]:
                raise UsageError(
                    f"{argument}: {', '.join(jumping)} may jump, at the price delta; leave it out of discrete, or of "
                    f"the linear distance's {argument}."
                )
        size = len(self.discrete)
        wanted = f"list combinations such as {(0.0,) * size!r}, one value each for {', '.join(self.discrete)}."
        several = isinstance(self.allowed, Sequence | np.ndarray) and not isinstance(self.allowed, str)
        if not several or not len(self.allowed):
            raise UsageError(f"allowed: {self.allowed!r} is not allowed; {wanted}")
        for point in self.allowed:
            if np.ndim(point) != 1 or len(point) != size:
                raise UsageError(f"allowed: {point!r} is not a combination; {wanted}")
            for value in point:
                check("allowed", value, Finite)
        check("delta", self.delta, Positive)

    @property
    def columns(self) -> tuple[str, ...]:
        """The features of the linear classifier."""
        return self.linear.columns

    @property
    def _places(self) -> list[int]:
        """Where the discrete features stand among all."""
        return [self.linear.features.index(name) for name in self.discrete]

    @property
    def _weights(self) -> FloatArray:
        """Coefficients of the discrete features."""
        return np.asarray(self.linear.coefficients, dtype=float)[self._places]

    @property
    def _continuous(self) -> FloatArray:
        """The coefficients by unit of cost, 0 for discrete features."""
        theta = np.array(self.linear.coefficients, dtype=float) * self.linear.each
        theta[self._places] = 0.0
        return theta

    @property
    def _size(self) -> float:
        """Dual norm of the continuous coefficients; 0 when only a jump can cross."""
        return float(np.linalg.norm(self._continuous, DUAL[self.linear.norm]))

    @property
    def _jumps(self) -> FloatArray:
        """The combinations of smallest and of largest theta'x: the best jumps down and up."""
        points = np.asarray(self.allowed, dtype=float)
        sums = points @ self._weights
        return points[[int(sums.argmin()), int(sums.argmax())]]

    def expression(self) -> Expression:
        """The cheaper of a continuous move, and a jump followed by a shorter one."""
        margin = self.linear.margin()
        rest = margin - linear(self.discrete, self._weights.tolist())
        low, high = (self._jumps @ self._weights).tolist()
        listed = among(self.discrete, self.allowed)
        down, up = self._cost(margin, rest + low, listed), self._cost(-margin, -(rest + high), listed)
        return either(margin >= 0, down, -up)

    def _cost(self, across: Expression, left: Expression, listed: Expression) -> Expression:
        """To cross ``across``, or to jump and cross what is ``left``: nothing where the jump alone crosses.

        Without end for a row that cannot jump.
        """
        left = either(listed, either(left > 0, left, 0.0), np.inf)
        if self._size == 0.0:
            return either(left > 0, np.inf, self.delta)
        whole, part = across * (1 / self._size), left * (1 / self._size) + self.delta
        return either(whole <= part, whole, part)

    def evaluate(self, features: FloatArray) -> FloatArray:
        """The same for arrays."""
        side, stay, jump, _ = self._routes(features)
        return side * np.minimum(stay, self.delta + jump)

    def move(self, features: FloatArray) -> FloatArray:
        """By the cheaper route: continuous features alone, or a jump and what it leaves to be crossed."""
        side, stay, jump, landed = self._routes(features)
        stays = stay <= self.delta + jump
        start, length = np.where(stays[:, None], features, landed), np.where(stays, stay, jump)
        cannot = np.isinf(length)
        direction = _steepest(self._continuous, self.linear.norm) if self._size else np.zeros(features.shape[1])
        direction = direction * self.linear.each
        end = start - np.outer(side * np.where(cannot, 0.0, length), direction)
        return np.where(cannot[:, None], np.nan, end)

    def _routes(self, features: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Side of each row, continuous way to go without and with the best jump, and where that jump lands."""
        margin = self.linear.margins(features)
        side = np.where(margin >= 0, 1.0, -1.0)
        landed = features.copy()
        landed[:, self._places] = self._jumps[np.where(side > 0, 0, 1)]
        here = features[:, self._places]
        listed = np.any([(here == np.asarray(point)).all(axis=1) for point in self.allowed], axis=0)
        left = np.where(listed, np.maximum(side * self.linear.margins(landed), 0.0), np.inf)
        if self._size == 0.0:
            return side, np.full(side.size, np.inf), np.where(left > 0, np.inf, 0.0), landed
        return side, np.abs(margin) / self._size, left / self._size, landed


def _steepest(theta: FloatArray, norm: Norm) -> FloatArray:
    """The direction of length 1 in ``norm`` along which theta'x grows fastest."""
    if norm == "l2":
        return theta / np.linalg.norm(theta)
    if norm == "linf":
        return np.sign(theta)
    return np.where(np.arange(theta.size) == np.argmax(np.abs(theta)), np.sign(theta), 0.0)
